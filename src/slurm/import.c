// From slurm.conf and its companions to a SlurmCluster and NodeSets.
//
// What Tandem says of itself (its own keys, sizes of nodes) is dropped; what has a field goes there;
// all else is listed with what to do. Nothing is taken over that the writer (conf.c) would refuse.
#include "slurm/import.h"

#include "slurm/conf.h"
#include "slurm/conf_line.h"
#include "slurm/hostlist.h"
#include "slurm/scripts.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { SETS_MAX = 256, NAMES_MAX = 4096 };

struct set {
	char *name;
	struct td_strv nodes;
};
struct importer {
	yyjson_mut_doc *d;
	yyjson_mut_val *sc, *sets, *data; // the SlurmCluster, a list of NodeSets, data of the ConfigMap
	const struct td_slurm_import_file *files;
	size_t n_files;
	struct td_strv *left;
	const char *ns;
	struct set *set;
	size_t n_sets;
	struct td_slurm_line usual; // PartitionName=DEFAULT
	bool sizes;                 // was it said that sizes of nodes are not taken over?
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static const char *file_of(const struct importer *r, const char *name)
{
	for (size_t i = 0; i < r->n_files; i++)
		if (!strcmp(base_name(r->files[i].path), name))
			return r->files[i].text;
	return NULL;
}

// Is it UTF-8 without control characters but those of text?
static bool is_text(const char *s)
{
	for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
		int more = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 : *p >= 0xe1 && *p < 0xed ? 2 : -1;
		if (more < 0 || (*p < ' ' && !strchr("\t\n\r", *p)) || *p == 127)
			return false;
		for (; more; more--)
			if (*++p < 0x80 || *p >= 0xc0)
				return false;
	}
	return true;
}

static bool is(const char *a, const char *b)
{
	return !strcasecmp(a, b);
}

static bool yes(const char *v)
{
	return is(v, "yes") || is(v, "true") || is(v, "1");
}

// A name of Kubernetes: lower case, '-' for what else there is. The caller frees it.
static char *label(const char *s, size_t max, const char *otherwise)
{
	struct td_buf b = {0};
	for (; *s && b.len < max; s++) {
		char c = (char)tolower((unsigned char)*s);
		bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (plain || (b.len && td_buf_str(&b)[b.len - 1] != '-'))
			td_buf_putc(&b, plain ? c : '-');
	}
	while (b.len && b.s[b.len - 1] == '-')
		b.s[--b.len] = '\0';
	if (!b.len)
		td_buf_puts(&b, otherwise);
	return td_buf_take(&b);
}

// ---- nodes ----
static struct set *set_of(struct importer *r, const struct td_strv *nodes)
{
	const char *first = nodes->v[0];
	size_t n = strlen(first);
	while (n && first[n - 1] >= '0' && first[n - 1] <= '9')
		n--;
	td_auto_free char *stem = td_strndup(first, n), *name = label(stem, 40, "pool");
	struct set *s;
	td_auto_free char *unique = td_strdup(name);
	for (size_t k = 2, again = 1; again; k++) {
		again = 0;
		for (size_t i = 0; i < r->n_sets; i++)
			again |= !strcmp(r->set[i].name, unique);
		if (again) {
			free(unique);
			unique = td_asprintf("%s-%zu", name, k);
		}
	}
	r->set = td_realloc(r->set, (r->n_sets + 1) * sizeof(*r->set));
	s = &r->set[r->n_sets++];
	*s = (struct set){.name = td_steal(unique)};
	for (size_t i = 0; i < nodes->n; i++)
		td_strv_add(&s->nodes, nodes->v[i]);
	return s;
}

static void features(struct importer *r, yyjson_mut_val *o, const char *value, size_t line)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, value, ',');
	for (size_t i = 0; i < l.n; i++)
		if (td_slurm_is_name(l.v[i]) && !td_starts(l.v[i], "set."))
			yyjson_mut_arr_add_strcpy(r->d, td_jm_arr(r->d, o, "spec.slurm.features"), l.v[i]);
		else
			td_strv_addf(r->left, "slurm.conf:%zu: feature \"%.40s\": is not a name; choose another", line,
				     l.v[i]);
}

static void gres(struct importer *r, yyjson_mut_val *o, const char *value, size_t line)
{
	struct td_gres g[16];
	size_t n = 0;
	long long gpus = 0;
	td_auto_buf struct td_buf text = {0};
	bool typed = true;
	if (td_gres_parse(value, g, TD_LEN(g), &n, NULL))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(g[i].name, "gpu") != 0) {
			td_strv_addf(r->left, "slurm.conf:%zu: Gres=%.40s: Tandem gives out gpu only", line, g[i].name);
			continue;
		}
		gpus += g[i].count > 0 && g[i].count < 100000 ? g[i].count : 0;
		typed &= td_slurm_is_type(g[i].type);
		td_buf_printf(&text, "%sgpu:%s:%lld", text.len ? "," : "", g[i].type, (long long)g[i].count);
	}
	if (gpus > 0 && gpus < 100000 && typed)
		td_jm_str(r->d, o, "spec.slurm.gres", td_buf_str(&text));
	else if (gpus > 0 && gpus < 100000)
		td_jm_strf(r->d, o, "spec.slurm.gres", "gpu:%lld", gpus);
	else if (!n)
		td_strv_addf(r->left, "slurm.conf:%zu: Gres=%.60s: cannot be read", line, value);
}

static void node_pair(struct importer *r, yyjson_mut_val *o, const struct td_slurm_pair *p, size_t line)
{
	static const char *const sizes[] = {"CPUs",           "Boards",         "Sockets",   "SocketsPerBoard",
					    "CoresPerSocket", "ThreadsPerCore", "Procs",     "RealMemory",
					    "NodeAddr",       "NodeHostname",   "BcastAddr", "Port",
					    "NodeName"};
	long long w;
	for (size_t i = 0; i < TD_LEN(sizes); i++)
		if (is(p->key, sizes[i])) {
			if (!r->sizes && i + 1 < TD_LEN(sizes))
				td_strv_addf(r->left,
					     "slurm.conf:%zu: %s: sizes and addresses of nodes are not needed: "
					     "Tandem takes them from the Kubernetes nodes",
					     line, p->key);
			r->sizes |= i + 1 < TD_LEN(sizes);
			return;
		}
	if (is(p->key, "Feature") || is(p->key, "Features"))
		features(r, o, p->value, line);
	else if (is(p->key, "Gres"))
		gres(r, o, p->value, line);
	else if (is(p->key, "Weight") && td_parse_i64(p->value, &w) && w >= 1 && w <= 65535)
		td_jm_int(r->d, o, "spec.slurm.weight", w);
	else if (is(p->key, "State")) {
		if (!is(p->value, "UNKNOWN") && !is(p->value, "IDLE"))
			td_strv_addf(
				r->left,
				"slurm.conf:%zu: State=%.20s: nodes register by themselves; drain with scontrol or "
				"cordon, or give the NodeSet spec.replicas",
				line, p->value);
	} else if (td_slurm_is_key(p->key) && td_slurm_is_value(p->value) && strlen(p->value) <= 256 &&
		   !is(p->key, "Reason") && !is(p->key, "Weight") &&
		   yyjson_mut_obj_size(td_jm_obj(r->d, o, "spec.slurm.extraConf")) < 16)
		td_jm_key_str(r->d, td_jm_obj(r->d, o, "spec.slurm.extraConf"), p->key, p->value);
	else
		td_strv_addf(r->left, "slurm.conf:%zu: %.40s=%.40s: has no field of a NodeSet", line, p->key, p->value);
}

static void nodes(struct importer *r, const struct td_slurm_line *l)
{
	td_auto_strv struct td_strv names = {0};
	const char *list = l->v[0].value;
	if (is(list, "DEFAULT") || td_hostlist_parse(list, &names, NULL) || !names.n || names.n > NAMES_MAX ||
	    r->n_sets == SETS_MAX) {
		td_strv_addf(r->left, "slurm.conf:%zu: NodeName=%.60s: write a NodeSet by hand", l->at, list);
		return;
	}
	for (size_t i = 0; i < names.n; i++)
		if (!td_slurm_is_name(names.v[i])) {
			td_strv_addf(r->left, "slurm.conf:%zu: NodeName=%.60s: no Kubernetes node has such a name",
				     l->at, list);
			return;
		}
	struct set *s = set_of(r, &names);
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(r->d, r->sets), *in, *terms, *e;
	td_jm_str(r->d, o, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(r->d, o, "kind", "NodeSet");
	td_jm_str(r->d, o, "metadata.name", s->name);
	td_jm_str(r->d, o, "metadata.namespace", r->ns);
	td_jm_str(r->d, o, "spec.clusterName", td_jm_getstr(r->sc, "metadata.name"));
	terms = td_jm_arr(
		r->d, o, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
	e = yyjson_mut_arr_add_obj(r->d, td_jm_arr(r->d, yyjson_mut_arr_add_obj(r->d, terms), "matchExpressions"));
	td_jm_str(r->d, e, "key", "kubernetes.io/hostname");
	td_jm_str(r->d, e, "operator", "In");
	in = td_jm_arr(r->d, e, "values");
	for (size_t i = 0; i < names.n; i++)
		yyjson_mut_arr_add_strcpy(r->d, in, names.v[i]);
	for (size_t i = 1; i < l->n; i++)
		node_pair(r, o, &l->v[i], l->at);
}

// ---- partitions ----
// Adds the partition's nodeSets. False: they are not the nodes of the list.
static bool partition_nodes(struct importer *r, yyjson_mut_val *p, const char *list, size_t line)
{
	td_auto_strv struct td_strv names = {0};
	if (is(list, "ALL"))
		return true;
	if (td_hostlist_parse(list, &names, NULL) || !names.n) {
		td_strv_addf(r->left, "slurm.conf:%zu: Nodes=%.60s: is no list of nodes; the partition is left out",
			     line, list);
		return false;
	}
	size_t found = 0;
	bool whole = true;
	for (size_t i = 0; i < r->n_sets; i++) {
		size_t in = 0;
		for (size_t k = 0; k < r->set[i].nodes.n; k++)
			in += td_strv_has(&names, r->set[i].nodes.v[k]);
		if (in == r->set[i].nodes.n)
			yyjson_mut_arr_add_strcpy(r->d, td_jm_arr(r->d, p, "nodeSets"), r->set[i].name);
		else if (in) {
			td_strv_addf(
				r->left,
				"slurm.conf:%zu: Nodes=%.60s: the partition is left out: it holds a part of NodeSet "
				"%s; split that NodeSet, and name its parts in the partition's nodeSets",
				line, list, r->set[i].name);
			whole = false;
		}
		found += in;
	}
	if (found < names.n)
		td_strv_addf(r->left, "slurm.conf:%zu: Nodes=%.60s: not all of them have a NodeName line%s", line, list,
			     found ? "" : "; the partition is left out");
	return whole && found;
}

// Returns false when the partition has no field for the key.
static bool partition_pair(struct importer *r, yyjson_mut_val *p, const char *key, const char *value)
{
	static const char *const words[][2] = {{"State", "state"}, {"PreemptMode", "preemptMode"}},
				 *const times[][2] = {{"MaxTime", "maxTime"}, {"DefaultTime", "defaultTime"}},
				 *const numbers[][2] = {{"PriorityTier", "priorityTier"},
							{"PriorityJobFactor", "priorityJobFactor"},
							{"GraceTime", "graceTime"}};
	static const char *const allowed[] = {"UP|DOWN|DRAIN|INACTIVE", "OFF|CANCEL|REQUEUE"};
	long long n;
	for (size_t i = 0; i < TD_LEN(words); i++)
		if (is(key, words[i][0])) {
			td_auto_strv struct td_strv l = {0};
			td_strv_split(&l, allowed[i], '|');
			for (size_t k = 0; k < l.n; k++)
				if (is(l.v[k], value)) {
					td_jm_str(r->d, p, words[i][1], l.v[k]);
					return true;
				}
			return false;
		}
	for (size_t i = 0; i < TD_LEN(times); i++)
		if (is(key, times[i][0]) && td_slurm_is_time(value)) {
			bool never = isalpha((unsigned char)*value);
			td_jm_str(r->d, p, times[i][1], never ? "INFINITE" : value);
			return true;
		}
	for (size_t i = 0; i < TD_LEN(numbers); i++)
		if (is(key, numbers[i][0]) && td_parse_i64(value, &n) && n >= 0 &&
		    n <= 65533 /* in the schema, too */) {
			td_jm_int(r->d, p, numbers[i][1], n);
			return true;
		}
	if (is(key, "Default"))
		td_jm_bool(r->d, p, "default", yes(value));
	else if (is(key, "QOS") && td_slurm_is_name(value))
		td_jm_str(r->d, p, "qos", value);
	else if (is(key, "AllowAccounts")) {
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, value, ',');
		for (size_t i = 0; i < l.n; i++)
			if (!td_slurm_is_name(l.v[i]))
				return false;
		for (size_t i = 0; i < l.n && !is(value, "ALL"); i++)
			yyjson_mut_arr_add_strcpy(r->d, td_jm_arr(r->d, p, "allowAccounts"), l.v[i]);
	} else
		return is(key, "Nodes");
	return true;
}

static bool taken(yyjson_mut_val *list, const char *name, bool *ret_default)
{
	size_t i, n;
	yyjson_mut_val *x;
	bool found = false;
	yyjson_mut_arr_foreach (list, i, n, x) {
		found |= td_streq(td_jm_getstr(x, "name"), name);
		*ret_default |= yyjson_mut_is_true(td_jm_get(x, "default"));
	}
	return found;
}

static void partition(struct importer *r, const struct td_slurm_line *l)
{
	const char *name = l->v[0].value;
	yyjson_mut_val *list = td_jm_arr(r->d, r->sc, "spec.partitions");
	bool has_default = false;
	if (is(name, "DEFAULT")) {
		for (size_t i = 1; i < l->n; i++)
			td_slurm_line_set(&r->usual, l->v[i].key, l->v[i].value);
		return;
	}
	if (!td_slurm_is_name(name) || taken(list, name, &has_default) || yyjson_mut_arr_size(list) == 256) {
		td_strv_addf(r->left, "slurm.conf:%zu: PartitionName=%.60s: is no name, or is there twice", l->at,
			     name);
		return;
	}
	yyjson_mut_val *p = yyjson_mut_arr_add_obj(r->d, list);
	td_jm_str(r->d, p, "name", name);
	td_auto_line struct td_slurm_line all = {0};
	bool whole = true; // without its own nodes it would have every node
	for (size_t i = 0; i < r->usual.n; i++)
		td_slurm_line_set(&all, r->usual.v[i].key, r->usual.v[i].value);
	for (size_t i = 1; i < l->n; i++)
		td_slurm_line_set(&all, l->v[i].key, l->v[i].value);
	for (size_t i = 0; i < all.n; i++) {
		const char *key = all.v[i].key, *value = all.v[i].value;
		if (is(key, "Nodes"))
			whole = partition_nodes(r, p, value, l->at);
		else if (is(key, "Default") && yes(value) && has_default)
			td_strv_addf(r->left, "slurm.conf:%zu: PartitionName=%s: another partition is the default",
				     l->at, name);
		else if (!partition_pair(r, p, key, value))
			td_strv_addf(r->left,
				     "slurm.conf:%zu: PartitionName=%s %.40s=%.60s: has no field of "
				     "spec.partitions",
				     l->at, name, key, value);
	}
	if (!whole)
		yyjson_mut_arr_remove_last(list);
}

// ---- all else of slurm.conf ----
static void program(struct importer *r, const struct td_slurm_role *role, const struct td_slurm_pair *p, size_t line)
{
	const char *text = file_of(r, base_name(p->value)), *key = base_name(p->value);
	if (text && td_starts(text, "#!") && is_text(text) && *key) {
		td_jm_key_str(r->d, r->data, role->name, text);
		yyjson_mut_val *o = td_jm_obj(r->d, td_jm_obj(r->d, r->sc, "spec.scripts"), role->name);
		td_jm_strf(r->d, o, "configMap", "%s-programs", td_jm_getstr(r->sc, "metadata.name"));
		td_jm_str(r->d, o, "key", role->name);
		return;
	}
	td_strv_addf(
		r->left,
		"slurm.conf:%zu: %s=%.100s: give that file here as well, or put it into a ConfigMap and name it in "
		"spec.scripts.%s",
		line, p->key, p->value, role->name);
}

static const struct td_slurm_role *role_of(const char *key)
{
	for (size_t i = 0; i < td_slurm_n_roles; i++)
		if ((td_slurm_roles[i].key && is(td_slurm_roles[i].key, key)) ||
		    (is(key, "Prolog") && is(td_slurm_roles[i].name, "prolog")) ||
		    (is(key, "TaskProlog") && is(td_slurm_roles[i].name, "taskProlog")))
			return &td_slurm_roles[i];
	return NULL;
}

static void pair(struct importer *r, const struct td_slurm_pair *p, size_t line)
{
	const struct td_slurm_role *role = role_of(p->key);
	const char *why = "", *ours = "";
	bool tandems = td_slurm_key(p->key, &ours, &why) == TD_KEY_OURS;
	yyjson_mut_val *conf = td_jm_obj(r->d, r->sc, "spec.config.slurmConf");
	if (is(p->key, "ClusterName"))
		return;
	if (role && (!is(role->name, "mail") || file_of(r, base_name(p->value)))) {
		program(r, role, p, line);
		return;
	}
	if (tandems) {
		if (!is(ours, p->value))
			td_strv_addf(r->left, "slurm.conf:%zu: %s=%.60s: Tandem sets it: %s", line, p->key, p->value,
				     why);
		return;
	}
	if (!strncasecmp(p->key, "AccountingStorage", 17) &&
	    (is(p->key + 17, "Type") || is(p->key + 17, "Host") || is(p->key + 17, "Port") || is(p->key + 17, "User") ||
	     is(p->key + 17, "Pass") || is(p->key + 17, "BackupHost"))) {
		if (is(p->key + 17, "Type") && !file_of(r, "slurmdbd.conf"))
			td_strv_addf(
				r->left,
				"slurm.conf:%zu: %s=%.60s: set spec.accounting, or give slurmdbd.conf here as well",
				line, p->key, p->value);
		return;
	}
	if (td_slurm_is_key(p->key) && td_slurm_is_value(p->value) && yyjson_mut_obj_size(conf) < 256) {
		// Slurm takes a key without regard to case, and the last value.
		yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(conf);
		for (yyjson_mut_val *k; (k = yyjson_mut_obj_iter_next(&it));)
			if (is(yyjson_mut_get_str(k), p->key))
				yyjson_mut_obj_iter_remove(&it);
		td_jm_key_str(r->d, conf, p->key, p->value);
	} else {
		td_strv_addf(r->left,
			     "slurm.conf:%zu: %.40s=%.60s: spec.config.slurmConf takes values without blanks only",
			     line, p->key, p->value);
	}
}

// ---- the other files ----
static void database(struct importer *r, const char *text)
{
	td_auto_lines struct td_slurm_lines l = {0};
	td_slurm_lines_read(text, &l);
	yyjson_mut_val *a = td_jm_obj(r->d, r->sc, "spec.accounting"), *db = td_jm_obj(r->d, a, "database.external");
	td_jm_bool(r->d, a, "enabled", true);
	td_jm_str(r->d, db, "host", "localhost");
	td_jm_strf(r->d, db, "userSecret", "%s-database", td_jm_getstr(r->sc, "metadata.name"));
	td_strv_addf(r->left,
		     "slurmdbd.conf: StorageUser, StoragePass: kubectl -n %s create secret generic %s-database "
		     "--from-literal=username=USER --from-literal=password=PASSWORD",
		     r->ns, td_jm_getstr(r->sc, "metadata.name"));
	for (size_t i = 0; i < l.n; i++)
		for (size_t k = 0; k < l.v[i].n; k++) {
			const struct td_slurm_pair *p = &l.v[i].v[k];
			long long port;
			bool name = td_slurm_is_name(p->value);
			if (is(p->key, "StorageHost") && name)
				td_jm_str(r->d, db, "host", p->value);
			else if (is(p->key, "StoragePort") && td_parse_i64(p->value, &port) && port > 0 && port < 65536)
				td_jm_int(r->d, db, "port", port);
			else if (is(p->key, "StorageLoc") && name && strlen(p->value) <= 64 && !strpbrk(p->value, ".-"))
				td_jm_str(r->d, db, "name", p->value);
			else if (!strncasecmp(p->key, "Purge", 5) && td_slurm_is_key(p->key) &&
				 td_slurm_is_value(p->value))
				td_jm_key_str(r->d, td_jm_obj(r->d, a, "slurmdbdConf"), p->key, p->value);
			else if (strncasecmp(p->key, "Storage", 7) != 0 && strncasecmp(p->key, "Dbd", 3) != 0 &&
				 strncasecmp(p->key, "Auth", 4) != 0 && !is(p->key, "SlurmUser") &&
				 !is(p->key, "PidFile"))
				td_strv_addf(r->left,
					     "slurmdbd.conf:%zu: %.40s: put it into "
					     "spec.accounting.slurmdbdConf if it is needed",
					     l.v[i].at, p->key);
		}
}

static bool has_include(const char *text)
{
	for (const char *l = text; l && *l; l = strchr(l, '\n'), l = l ? l + 1 : NULL)
		if (!strncasecmp(l + strspn(l, " \t\r"), "include", 7))
			return true;
	return false;
}

static void cgroup(struct importer *r, const char *text)
{
	static const char *const ours[] = {"CgroupPlugin", "IgnoreSystemd", "ConstrainDevices", "CgroupMountpoint",
					   "CgroupAutomount"};
	td_auto_lines struct td_slurm_lines l = {0};
	td_slurm_lines_read(text, &l);
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < l.n; i++)
		for (size_t k = 0; k < l.v[i].n; k++) {
			const struct td_slurm_pair *p = &l.v[i].v[k];
			bool mine = false;
			for (size_t m = 0; m < TD_LEN(ours); m++)
				mine |= is(p->key, ours[m]);
			if (!mine && td_slurm_is_key(p->key) && td_slurm_is_value(p->value) && !has_include(p->key))
				td_buf_printf(&b, "%s=%s\n", p->key, p->value);
			else if (!is(p->value, "yes"))
				td_strv_addf(r->left, "cgroup.conf:%zu: %.40s=%.40s: Tandem sets it", l.v[i].at, p->key,
					     p->value);
		}
	if (b.len)
		td_jm_key_str(r->d, td_jm_obj(r->d, r->sc, "spec.config.files"), "cgroup.conf", td_buf_str(&b));
}

static void other(struct importer *r, const char *name, const char *text)
{
	static const char *const whole[] = {"topology.conf",      "topology.yaml", "acct_gather.conf",
					    "job_container.conf", "mpi.conf",      "oci.conf"};
	static const char *const lua[][2] = {{"job_submit.lua", "jobSubmitLua"},
					     {"cli_filter.lua", "cliFilterLua"},
					     {"plugstack.conf", "plugstack"}};
	bool good = is_text(text) && strlen(text) <= 256 << 10;
	for (size_t i = 0; i < TD_LEN(whole); i++)
		if (!strcmp(name, whole[i])) {
			if (good && !has_include(text))
				td_jm_key_str(r->d, td_jm_obj(r->d, r->sc, "spec.config.files"), name, text);
			else
				td_strv_addf(r->left, "%s: it includes others, or is no text of at most 256 KiB", name);
			return;
		}
	for (size_t i = 0; i < TD_LEN(lua); i++)
		if (!strcmp(name, lua[i][0])) {
			if (!good || (i == 2 && has_include(text))) {
				td_strv_addf(r->left, "%s: it includes others, or is no text of at most 256 KiB", name);
				return;
			}
			td_jm_key_str(r->d, r->data, name, text);
			yyjson_mut_val *o = td_jm_obj(r->d, td_jm_obj(r->d, r->sc, "spec.scripts"), lua[i][1]);
			td_jm_strf(r->d, o, "configMap", "%s-programs", td_jm_getstr(r->sc, "metadata.name"));
			td_jm_str(r->d, o, "key", name);
			return;
		}
	if (!strcmp(name, "gres.conf"))
		td_strv_addf(r->left,
			     "gres.conf: Tandem writes it from the devices that the nodes offer (spec.devices)");
	else if (!strcmp(name, "cgroup.conf"))
		cgroup(r, text);
	else if (!strcmp(name, "slurmdbd.conf"))
		database(r, text);
}

static void read_all(struct importer *r, const struct td_slurm_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (is(l->v[i].v[0].key, "NodeName"))
			nodes(r, &l->v[i]);
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_line *x = &l->v[i];
		const char *key = x->v[0].key;
		if (is(key, "NodeName"))
			continue;
		if (is(key, "PartitionName"))
			partition(r, x);
		else if (is(key, "NodeSet") || is(key, "DownNodes") || is(key, "Include") || is(key, "FrontendName"))
			td_strv_addf(r->left, "slurm.conf:%zu: %s=%.60s: %s", x->at, key, x->v[0].value,
				     is(key, "Include") ? "put that file's lines into slurm.conf first"
							: "nodes are NodeSet objects");
		else
			for (size_t k = 0; k < x->n; k++)
				pair(r, &x->v[k], x->at);
	}
	for (size_t i = 0; i < r->n_files; i++)
		other(r, base_name(r->files[i].path), r->files[i].text);
}

int td_slurm_import(const struct td_slurm_import_file *files, size_t n, const char *ns, const char *name,
		    struct td_slurm_import *ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_import struct td_slurm_import out = {0};
	struct importer r = {.d = d, .files = files, .n_files = n, .left = &out.left, .ns = ns};
	const char *text = file_of(&r, "slurm.conf");
	if (!text)
		return td_fail(err, TD_INVALID, "there is no slurm.conf among the files; give its path");
	td_auto_lines struct td_slurm_lines l = {0};
	td_slurm_lines_read(text, &l);
	for (size_t i = 0; i < l.bad.n; i++)
		td_strv_addf(&out.left, "slurm.conf: %s", l.bad.v[i]);

	const char *cluster = "main";
	for (size_t i = 0; i < l.n; i++)
		for (size_t k = 0; k < l.v[i].n; k++)
			if (is(l.v[i].v[k].key, "ClusterName"))
				cluster = l.v[i].v[k].value;
	td_auto_free char *sc_name = label(name ? name : cluster, 40, "main");
	if (!name && strcmp(sc_name, cluster) != 0)
		td_strv_addf(&out.left, "slurm.conf: ClusterName=%.60s: becomes %s, as Kubernetes writes names",
			     cluster, sc_name);
	r.sc = td_jm_obj(d, yyjson_mut_doc_get_root(d), "cluster");
	r.sets = td_jm_arr(d, yyjson_mut_doc_get_root(d), "sets");
	r.data = td_jm_obj(d, yyjson_mut_doc_get_root(d), "data");
	td_jm_str(d, r.sc, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, r.sc, "kind", "SlurmCluster");
	td_jm_str(d, r.sc, "metadata.name", sc_name);
	td_jm_str(d, r.sc, "metadata.namespace", ns);
	td_jm_obj(d, r.sc, "spec");
	read_all(&r, &l);

	out.v = td_calloc(r.n_sets + 2, sizeof(*out.v));
	if (yyjson_mut_obj_size(r.data)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *cm = td_jm_new();
		yyjson_mut_val *o = yyjson_mut_doc_get_root(cm);
		td_jm_str(cm, o, "apiVersion", "v1");
		td_jm_str(cm, o, "kind", "ConfigMap");
		td_jm_strf(cm, o, "metadata.name", "%s-programs", sc_name);
		td_jm_str(cm, o, "metadata.namespace", ns);
		td_jm_set(cm, o, "data", yyjson_mut_val_mut_copy(cm, r.data));
		out.v[out.n++] = td_json_from_mut(o);
	}
	out.v[out.n++] = td_json_from_mut(r.sc);
	yyjson_mut_val *x;
	size_t i, k;
	yyjson_mut_arr_foreach (r.sets, i, k, x)
		out.v[out.n++] = td_json_from_mut(x);
	for (i = 0; i < r.n_sets; i++) {
		free(r.set[i].name);
		td_strv_done(&r.set[i].nodes);
	}
	free(r.set);
	td_slurm_line_done(&r.usual);
	for (i = 0; i < out.left.n; i++) // they quote other people's text
		for (char *p = out.left.v[i]; *p; p++)
			*p = (unsigned char)*p < ' ' ? '?' : *p;
	*ret = out;
	out = (struct td_slurm_import){0};
	return 0;
}

void td_slurm_import_done(struct td_slurm_import *x)
{
	for (size_t i = 0; i < x->n; i++)
		td_json_unref(x->v[i]);
	free(x->v);
	td_strv_done(&x->left);
	*x = (struct td_slurm_import){0};
}
