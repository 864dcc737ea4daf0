// Translates a pod into the job of its stand-in, and a job back into an ask and its devices.
#include "bridge/scheduler/want.h"

#include "api/annotations.h"
#include "api/kinds.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/clock.h"
#include "base/names.h"
#include "far/copy.h"
#include "pool/allowed.h"
#include "pool/dataset.h"
#include "slurm/conf.h"
#include "slurm/hostlist.h"
#include "slurm/token.h"
#include "slurm/topology.h"
#include "standin/wire.h"

#include <ctype.h>
#include <string.h>

enum { UID_LEN = 36, NAME_CUT = 40, NICE_MAX = 2147483645 };

char *td_bridge_job_name(const char *pod, const char *uid)
{
	return td_asprintf("%.*s.%s", NAME_CUT, pod, uid);
}

// The form of a Kubernetes UID: 8-4-4-4-12 hex digits.
static bool is_uid(const char *s)
{
	for (int i = 0; i < UID_LEN; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
			return false;
	return s[UID_LEN] == '\0';
}

char *td_comment(const char *cluster_uid, const char *ns, const char *name, const char *uid)
{
	return td_asprintf(TD_WIRE_STANDIN "%s/%s/%s/%s", cluster_uid, ns, name, uid);
}

const char *td_want_person(const yyjson_val *pod)
{
	return td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_USER);
}

// The UID at the end of a mark or a comment of this SlurmCluster; NULL: it is neither.
static const char *mark_uid(const char *c, const char *cluster_uid)
{
	size_t mark = strlen(TD_WIRE_STANDIN), n = strlen(cluster_uid);
	if (c && !td_starts(c, TD_WIRE_STANDIN) && strchr(c, ' ')) // slurmctld does not run our plug-in (passes.h)
		c = strchr(c, ' ') + 1;
	if (!c || !td_starts(c, TD_WIRE_STANDIN) || strncmp(c + mark, cluster_uid, n) != 0 || c[mark + n] != '/')
		return NULL;

	c += mark + n + 1;
	const char *ns = strchr(c, '/'), *name = ns ? strchr(ns + 1, '/') : NULL;
	if (ns) // a comment: namespace and name come before the UID
		c = name ? name + 1 : "";
	return is_uid(c) ? c : NULL;
}

const char *td_bridge_job_uid(const struct td_slurm_job *j, const char *cluster_uid)
{
	return mark_uid(j->admin_comment && *j->admin_comment ? j->admin_comment : j->comment, cluster_uid);
}

bool td_bridge_job_stands(const struct td_settings *s, const struct td_slurm_job *j, const char *ns, const char *person)
{
	struct td_owner o = {0};
	return (j->admin_comment && *j->admin_comment) ||
	       (td_settings_owner_of(s, ns, person, &o) && o.user && td_streq(j->user, o.user));
}

int td_bridge_time_limit(const char *s, int64_t *ret_min, struct td_error *err)
{
	const char *all = s;
	int64_t days = -1, part[3];
	int n = 0;
	if (!strcmp(s, "UNLIMITED") || !strcmp(s, "INFINITE")) {
		*ret_min = 0;
		return 0;
	}

	for (;;) {
		char *end;
		if (!isdigit((unsigned char)*s) || n == 3)
			goto bad;
		long v = strtol(s, &end, 10);
		if (v > 5000000 || end - s > 9)
			goto bad;
		if (*end == '-' && days < 0 && !n) {
			days = v;
			s = end + 1;
			continue;
		}
		part[n++] = v;
		if (!*end)
			break;
		if (*end != ':')
			goto bad;
		s = end + 1;
	}

	int64_t sec;
	if (days >= 0) // hours[:minutes[:seconds]]
		sec = days * 86400 + part[0] * 3600 + (n > 1 ? part[1] * 60 : 0) + (n > 2 ? part[2] : 0);
	else
		sec = n == 1 ? part[0] * 60 : n == 2 ? part[0] * 60 + part[1] : part[0] * 3600 + part[1] * 60 + part[2];

	if (sec <= 0)
		goto bad;
	*ret_min = (sec + 59) / 60;
	return 0;
bad:
	return td_fail(err, TD_INVALID,
		       "\"%.40s\" is no time limit: write minutes, \"H:MM:SS\", \"D-HH\" or \"D-HH:MM:SS\"", all);
}

// Only characters that are harmless in any value of Slurm's, wherever that value goes later.
static bool plain(const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_.,:&|()*[]=+@/-", s[i]))
			return false;
	return n > 0 && n <= 256;
}

struct reader {
	const yyjson_val *notes;
	const char *ns, *cluster; // for messages
	struct td_arena *arena;
	struct td_error *err;
	int r;
};

// The annotation of this key; NULL when it is absent, or not valid: then rd->r is set.
static const char *note(struct reader *rd, enum td_annotation_key key)
{
	const char *full = td_annotations[key].name, *s = td_jkey_str(rd->notes, full);
	if (!s)
		return NULL;

	if (!plain(s)) {
		if (!rd->r)
			rd->r = td_fail(rd->err, TD_INVALID,
					"annotation %s: \"%.60s\" is not a value that sbatch would take: letters, "
					"digits and _.,:&|()*[]=+@/- only, at most 256",
					full, s);
		return NULL;
	}
	return td_arena_strdup(rd->arena, s);
}

// What the pod's namespace gives, `own`, unless the pod names the same. own NULL: the namespace
// gives none, and `any` says whether the pod may then name one.
static const char *owned(struct reader *rd, enum td_annotation_key key, const char *own, bool any)
{
	const char *full = td_annotations[key].name, *what = full + strlen(TD_ANN_ASK_PREFIX), *said = note(rd, key);
	if (rd->r || !said || td_streq(said, own) || (!own && any))
		return said ? said : td_arena_strdup(rd->arena, own);

	if (own)
		rd->r = td_fail(
			rd->err, TD_INVALID,
			"annotation %s: \"%.60s\" is not what namespace %s is given (%s): leave it out, or change "
			"spec.scheduler.namespaces of %s",
			full, said, rd->ns, own, rd->cluster);
	else
		rd->r = td_fail(
			rd->err, TD_INVALID,
			"annotation %s: namespace %s is given no %s, so \"%.60s\" is refused: leave it out, or add "
			"it to spec.scheduler.namespaces of %s",
			full, rd->ns, what, said, rd->cluster);
	return NULL;
}

// The account: the namespace's, or that of a project that the pod names and its person is in. Then o is as in that: its
// groups, and its QOS, since Slurm refuses those of another account.
static const char *charged(struct reader *rd, const struct td_settings *s, const char *person, struct td_owner *o)
{
	const char *said = note(rd, TD_ASKS_ACCOUNT), *qos = NULL;
	if (rd->r || !said || td_streq(said, o->account))
		return owned(rd, TD_ASKS_ACCOUNT, o->account, false);
	switch (td_settings_project(s, rd->ns, person, said, &qos)) {
	case TD_PROJECT_MAY:
		o->account = said;
		o->usual_qos = qos;
		return said;
	case TD_PROJECT_STRANGER:
		rd->r = td_fail(
			rd->err, TD_INVALID,
			"annotation " TD_ANN_ASK_PREFIX
			"account: project %.63s is of others than %.60s: one of its Tenant's admins lets people "
			"in (tandem project add %.63s USER)",
			said, person ? person : "whose pod this is (annotation " TD_ANN_USER ")", said);
		return NULL;
	case TD_PROJECT_NOT:
		break;
	}
	return owned(rd, TD_ASKS_ACCOUNT, o->account, false);
}

// The constraint, joined with the data sets that the pod wants.
static const char *with_data(struct reader *rd, const char *constraint)
{
	const char *said = note(rd, TD_ASKS_DATASETS);
	td_auto_strv struct td_strv names = {0};
	td_auto_free char *text = NULL;
	if (rd->r || !said)
		return constraint;
	td_strv_split(&names, said, ',');
	for (size_t i = 0; i < names.n && !rd->r; i++)
		if (!td_is_dns_subdomain(names.v[i]))
			rd->r = td_fail(rd->err, TD_INVALID,
					"annotation " TD_ANN_ASK_PREFIX "datasets: \"%.60s\" is no name of a Dataset",
					names.v[i]);
	if (!rd->r && (rd->r = td_pool_data_constraint(constraint, &names, &text, rd->err)))
		td_wrap(rd->err, "annotation " TD_ANN_ASK_PREFIX "datasets");
	return text ? td_arena_strdup(rd->arena, text) : constraint;
}

// Where a pod goes: whatever it has been granted of the pool's groups, unless it names something.
static const char *route(struct reader *rd, const struct td_settings *s, const struct td_owner *o, const char *named)
{
	const struct td_pool_group_ask ask = {named, s->usual, o->account, o->user};
	const char *refused, *to = td_pool_group_route(rd->arena, &s->groups, &ask, &refused);
	if (refused)
		rd->r = td_fail(rd->err, TD_INVALID,
				"annotation " TD_ANN_ASK_PREFIX "partition: the resource group %.63s is not granted to "
				"namespace %s (account %s): name another partition, or leave it out; a Tenant's "
				"spec.resourceGroups and spec.resourceGroups of %s say whose it is",
				refused, rd->ns, o->account ? o->account : "none", rd->cluster);
	return td_arena_strdup(rd->arena, to);
}

// The QOS of a pod whose namespace is given none: the one that it names, else that of its class.
static const char *class_qos(struct reader *rd, const struct td_settings *s, const char *cls, const char *named)
{
	const struct td_class_map *c = named ? NULL : td_settings_class(s, cls);
	const char *qos = c ? c->qos : named;
	if (!qos || td_settings_may_qos(s, rd->ns, qos))
		return qos ? td_arena_strdup(rd->arena, qos) : NULL;
	rd->r = td_fail(rd->err, TD_INVALID,
			"%s: pods of namespace %s may not have the QOS %.60s: name another one, or add the namespace "
			"to spec.scheduler.priorityClassMap of %s",
			c ? "spec.priorityClassName" : "annotation " TD_ANN_ASK_PREFIX "qos", rd->ns, qos, rd->cluster);
	return NULL;
}

// Translates every extended resource that the pod asks for, and the devices of its claims, to GRES.
// The pod's own word for the type of its GPUs is in the annotation.
static int read_gres(const struct td_settings *s, const char *name, const yyjson_val *pod, long long claimed,
		     struct td_want *w, struct td_error *err)
{
	const yyjson_val *spec = td_jget(pod, "spec");
	const char *gpu_type = td_jkey_str(td_jget(pod, "metadata.annotations"), td_annotations[TD_ASKS_GPU_TYPE].name);
	gpu_type = gpu_type ? gpu_type : "";
	if (*gpu_type && !td_slurm_is_type(gpu_type))
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX
			       "gpu-type: \"%.60s\" is no type of GPUs: write a letter, then "
			       "letters, digits, '_', '.', '-', or the profile of a part of one, such as 1g.10gb",
			       gpu_type);
	td_auto_strv struct td_strv names = {0};
	td_auto_buf struct td_buf tres = {0};
	int kinds = 0;
	bool used = !*gpu_type; // the type that the pod names

	td_api_pod_request_names(spec, &names);
	if (claimed > 0 && !td_strv_has(&names, s->devices.resource))
		td_strv_add(&names, s->devices.resource);

	for (size_t i = 0; i < names.n; i++) {
		const char *r = names.v[i];
		if (!strchr(r, '/') || td_starts(r, "kubernetes.io/"))
			continue; // a native resource: cpu, memory, ephemeral-storage, hugepages-…

		int64_t n = td_api_pod_request(spec, r);
		bool by_claim = s->devices.dra && !strcmp(r, s->devices.resource);
		if (by_claim && n > 0)
			return td_fail(err, TD_INVALID,
				       "%s gives %s by ResourceClaims (spec.devices[0].source is DRA): name a claim of "
				       "DeviceClass %s in spec.resourceClaims instead of asking for the resource",
				       name, r, s->devices.n_classes ? s->devices.classes[0] : "?");
		n = by_claim ? claimed : n;
		if (n <= 0)
			continue;

		const struct td_bridge_gres_map *m = NULL;
		for (size_t k = 0; k < s->n_gres; k++)
			if (!strcmp(s->gres[k].resource, r))
				m = &s->gres[k];
		if (!m)
			return td_fail(err, TD_INVALID,
				       "Slurm does not know the resource %s: add it to spec.scheduler.gresMap of %s, "
				       "or do not ask for it",
				       r, name);

		if (kinds == TD_POOL_KINDS)
			return td_fail(err, TD_INVALID, "it asks for more than %d kinds of extended resources",
				       TD_POOL_KINDS);
		// Which devices a grant names is known by their GRES (td_settings_key()): one of each.
		size_t len = strlen(m->name);
		for (int k = 0; k < kinds; k++)
			if (!strncmp(w->kinds[k], m->name, len) && (!w->kinds[k][len] || w->kinds[k][len] == ':'))
				return td_fail(
					err, TD_INVALID,
					"it asks for two types of %s: a pod gets its devices of one type, so ask "
					"for one of the resources",
					m->name);
		const char *type = m->type;
		if (!strcmp(m->name, "gpu") && *gpu_type) {
			if (*m->type && strcmp(m->type, gpu_type) != 0)
				return td_fail(err, TD_INVALID,
					       "annotation " TD_ANN_ASK_PREFIX
					       "gpu-type: %.60s is not what the resource %s "
					       "is (%s): leave the annotation out, or ask for another resource",
					       gpu_type, r, m->type);
			type = gpu_type;
			used = true;
		}
		const char *kind = td_arena_printf(w->arena, *type ? "%s:%s" : "%s", m->name, type);
		w->kinds[kinds] = kind;
		w->pool.gres[kinds++] = n;
		td_buf_printf(&tres, "%sgres/%s:%lld", tres.len ? "," : "", kind, (long long)n);
	}

	if (!used)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX
			       "gpu-type: the pod asks for no GPU: ask for %s, or leave "
			       "the annotation out",
			       s->devices.resource);
	if (tres.len)
		w->ask.tres_per_node = td_arena_strdup(w->arena, td_buf_str(&tres));
	return td_want_share(s, pod, w, err);
}

// Rounded up, where adding first could be too much; Slurm has no job of nothing.
static int64_t whole(int64_t n, int64_t of)
{
	return n > 0 ? n / of + (n % of > 0) : 1;
}

int64_t td_want_cpus(const yyjson_val *spec)
{
	return whole(td_api_pod_request(spec, "cpu"), 1000);
}

int64_t td_want_memory_mb(const yyjson_val *spec)
{
	return whole(td_api_pod_request(spec, "memory"), 1 << 20);
}

int td_want_nice(const yyjson_val *pod)
{
	// Classes of the system itself are above what a PriorityClass of a user may have.
	const int64_t most = 1000000000;
	const char *note = td_jkey_str(td_jget(pod, "metadata.annotations"), td_annotations[TD_ASKS_NICE].name);
	int64_t priority = td_jint(pod, "spec.priority", 0);
	long long nice = 0;
	if (note && (!td_parse_i64(note, &nice) || nice < 0 || nice > NICE_MAX))
		nice = 0;
	nice -= priority > most ? most : priority < -most ? -most : priority;
	return (int)(nice > NICE_MAX ? NICE_MAX : nice);
}

// --segment counts nodes, so each pod of such a gang has one of its own.
static int read_segment(struct reader *rd, const struct td_settings *s, struct td_want *w)
{
#define SEGMENT "annotation " TD_ANN_ASK_PREFIX "segment: "
	const char *said = note(rd, TD_ASKS_SEGMENT);
	long long n;
	if (rd->r || !said)
		return rd->r;
	if (!s->topology)
		rd->r = td_fail(rd->err, TD_INVALID,
				SEGMENT "%s has no blocks: leave it out, or set spec.topology.type there to block",
				rd->cluster);
	else if (!td_parse_i64(said, &n) || n < 1 || n > TD_SLURM_BLOCK_MAX)
		rd->r = td_fail(rd->err, TD_INVALID, SEGMENT "\"%.40s\" is no number of nodes from 1 up", said);
	else if (w->pack)
		rd->r = td_fail(rd->err, TD_INVALID,
				SEGMENT "it counts nodes, with a pod on each: leave " TD_ANN_ASK_PREFIX
					"placement out, or write \"spread\" there");
	else
		w->ask.segment = n, w->pool.alone = true;
	return rd->r;
#undef SEGMENT
}

int td_want_read(const struct td_settings *s, const char *settings_name, const yyjson_val *pod, long long claimed,
		 struct td_want *ret, struct td_error *err)
{
	td_auto_want struct td_want w = {.arena = td_arena_new()};
	const yyjson_val *spec = td_jget(pod, "spec");
	const char *ns = td_jstr_or(pod, "metadata.namespace", ""), *name = td_jstr_or(pod, "metadata.name", ""),
		   *uid = td_jstr_or(pod, "metadata.uid", "");
	struct td_owner o = {0};
	if (!td_settings_owner_of(s, ns, td_want_person(pod), &o) && o.wait)
		return td_fail(err, TD_NOT_FOUND,
			       "namespace %s is Tenant %s's, whose account is not in place yet: see "
			       "kubectl describe tenant %s",
			       ns, o.wait, o.wait);
	if (!o.user)
		return td_fail(err, TD_INVALID,
			       "namespace %s has no Slurm user: add it to spec.scheduler.namespaces of %s, or set "
			       "defaultUser there",
			       ns, settings_name);

	if (o.unknown)
		return td_fail(
			err, TD_INVALID,
			"the jobs of namespace %s are of user \"%s\", and %s has no such user: add it to spec.users, "
			"or correct spec.scheduler",
			ns, o.user, settings_name);

	w.elsewhere = td_jkey(td_jget(pod, "metadata.labels"), TD_LABEL_OTHER);
	if (w.elsewhere && td_far_copy_check(pod, err))
		return TD_INVALID;

	const char *network = td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_NETWORK);
	if (network && strcmp(network, TD_NETWORK_PRIVATE) != 0)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_NETWORK
			       ": \"%.60s\" is no kind of network: write " TD_NETWORK_PRIVATE ", or leave it out",
			       network);

	struct reader rd = {.notes = td_jget(pod, "metadata.annotations"),
			    .ns = ns,
			    .cluster = settings_name,
			    .arena = w.arena,
			    .err = err};
	const char *unknown = td_annotation_unknown(rd.notes);
	if (unknown)
		return td_fail(
			err, TD_INVALID,
			"annotation %.120s: there is no such key: `tandem annotations` lists those that there are",
			unknown);

	struct td_slurm_ask *a = &w.ask;
	const char *job_name = note(&rd, TD_ASKS_JOB_NAME), *limit = note(&rd, TD_ASKS_TIME_LIMIT),
		   *nice = note(&rd, TD_ASKS_NICE), *exclusive = note(&rd, TD_ASKS_EXCLUSIVE),
		   *signal = note(&rd, TD_ASKS_SIGNAL), *begin = note(&rd, TD_ASKS_BEGIN),
		   *placement = note(&rd, TD_ASKS_PLACEMENT);
	int number;
	int64_t seconds;
	if (!rd.r && signal && td_api_signal_read(signal, &number, &seconds, err))
		return td_wrap(err, "annotation " TD_ANN_ASK_PREFIX "signal");
	int64_t begin_ms = 0;
	if (!rd.r && begin && (td_time_parse(begin, &begin_ms) || begin_ms <= 0))
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX "begin: \"%.60s\" is no time: write it like "
			       "2026-12-24T18:00:00Z",
			       begin);

	td_auto_free char *jn = td_bridge_job_name(job_name ? job_name : name, uid);
	td_auto_free char *mark = td_comment(s->cluster_uid, ns, name, uid);

	a->name = td_arena_strdup(w.arena, jn);
	a->comment = td_arena_strdup(w.arena, mark);
	a->uid = o.uid;
	// Without associations Slurm takes any account that a job names.
	a->account = charged(&rd, s, td_want_person(pod), &o);
	a->partition = owned(&rd, TD_ASKS_PARTITION, o.partition, true);
	if (!rd.r)
		a->partition = route(&rd, s, &o, a->partition);
	a->qos = owned(&rd, TD_ASKS_QOS, o.qos, true);
	if (!o.qos && !rd.r)
		a->qos = class_qos(&rd, s, td_jstr(spec, "priorityClassName"), a->qos);
	if (!a->qos && !rd.r)
		a->qos = td_arena_strdup(w.arena, o.usual_qos);
	a->begin = begin_ms / 1000;
	a->constraints = with_data(&rd, note(&rd, TD_ASKS_CONSTRAINT));
	a->reservation = note(&rd, TD_ASKS_RESERVATION);
	a->licenses = note(&rd, TD_ASKS_LICENSES);

	if (rd.r)
		return rd.r;

	if (limit && td_bridge_time_limit(limit, &a->time_limit_min, err))
		return td_wrap(err, "annotation " TD_ANN_ASK_PREFIX "time-limit");

	long long deadline = td_jint(spec, "activeDeadlineSeconds", 0), n;
	// Slurm can plan with a limit. It is above the pod's own deadline, so that the deadline
	// comes first.
	if (!limit && deadline > 0)
		a->time_limit_min = deadline / 60 + 2;

	if (nice) {
		if (!td_parse_i64(nice, &n) || n < 0 || n > NICE_MAX)
			return td_fail(err, TD_INVALID,
				       "annotation " TD_ANN_ASK_PREFIX "nice: \"%s\" is no number from 0 up", nice);
	}
	int own = td_want_nice(pod);
	a->nice = own > 0 ? own : 0;

	if (exclusive && strcmp(exclusive, "true") != 0 && strcmp(exclusive, "false") != 0)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX "exclusive: write \"true\" or \"false\"");
	a->exclusive = w.pool.exclusive = td_streq(exclusive, "true");
	const char *gds = note(&rd, TD_ASKS_GDS);
	if (gds && strcmp(gds, "true") != 0 && strcmp(gds, "false") != 0)
		return td_fail(err, TD_INVALID, "annotation " TD_ANN_ASK_PREFIX "gds: write \"true\" or \"false\"");

	if (placement && strcmp(placement, "pack") != 0 && strcmp(placement, "spread") != 0)
		return td_fail(err, TD_INVALID,
			       "annotation " TD_ANN_ASK_PREFIX
			       "placement: \"%.60s\" is no way to lay out a gang: write \"pack\" or \"spread\"",
			       placement);
	w.pack = td_streq(placement, "pack");
	w.pool.alone = td_streq(placement, "spread");
	if (rd.r || read_segment(&rd, s, &w))
		return rd.r;

	a->cpus = w.pool.cpus = td_want_cpus(spec);
	a->memory_mb = w.pool.memory_mb = td_want_memory_mb(spec);

	int r = read_gres(s, settings_name, pod, claimed, &w, err);
	if (r)
		return r;

	*ret = w;
	w.arena = NULL;
	return 0;
}

void td_want_done(struct td_want *w)
{
	td_arena_free(w->arena);
	w->arena = NULL;
}

int td_devices_text(const struct td_settings *s, const struct td_slurm_job_node *n, const yyjson_val *node, char **ret,
		    struct td_error *err)
{
	struct td_gres g[16];
	size_t k = 0;
	int r = td_gres_parse(n->gres, g, TD_LEN(g), &k, err);
	if (r)
		return r;

	td_auto_buf struct td_buf b = {0};
	td_buf_putc(&b, '{');
	const char *part_of;
	int share = td_devices_share(g, k, &part_of);
	if (share && !*part_of)
		return td_fail(err, TD_INVALID, "Slurm does not say of which GPU of %s the job has a part", n->name);
	for (size_t i = 0; i < s->n_gres; i++) {
		const struct td_bridge_gres_map *m = &s->gres[i];
		struct td_ranges all = {0}, some;
		if (td_settings_key_on(s, m->name, node) != m->resource)
			continue;
		// A job that asked for "gpu" on a node with typed GPUs shows the types, and its indexes
		// are of all GPUs of the node.
		for (size_t x = 0; x < k; x++) {
			if (strcmp(g[x].name, m->name) != 0 || !g[x].count)
				continue;
			if (!*g[x].index)
				return td_fail(
					err, TD_INVALID,
					"Slurm does not say which %s it gave out on %s: gres.conf there has no File=",
					g[x].name, n->name);
			r = td_ranges_parse(g[x].index, &some, err);
			if (r)
				return r;
			for (size_t w = 0; w < TD_LEN(all.bits); w++)
				all.bits[w] |= some.bits[w];
		}
		td_auto_free char *text = td_ranges_write(&all);
		if (share && !*text && !strcmp(m->name, "gpu")) {
			td_buf_printf(&b, "%s\"%s\":\"%s\",\"" TD_GRANT_SHARE "\":\"%d\"", b.len > 1 ? "," : "",
				      m->resource, part_of, share);
			continue;
		}
		if (*text)
			td_buf_printf(&b, "%s\"%s\":\"%s\"", b.len > 1 ? "," : "", m->resource, text);
	}
	td_buf_putc(&b, '}');

	*ret = td_buf_take(&b);
	return 0;
}

int64_t td_devices_indexes(const char *s)
{
	struct td_ranges r;
	return s && !td_ranges_parse(s, &r, NULL) ? td_ranges_count(&r) : 0;
}

bool td_want_gds(const yyjson_val *pod)
{
	return td_streq(td_jkey_str(td_jget(pod, "metadata.annotations"), td_annotations[TD_ASKS_GDS].name), "true");
}

const char *td_want_counted(const struct td_settings *s, const yyjson_val *pod)
{
	const yyjson_val *spec = td_jget(pod, "spec");
	const char *asked = s->devices.dra ? NULL : td_settings_asked(s, pod);
	for (size_t i = 0; i < s->n_gres && !s->devices.dra; i++) {
		const char *r = s->gres[i].resource;
		bool its = td_streq(td_settings_key(s, s->gres[i].name), s->devices.resource) ||
			   (asked && td_api_is_device(r, asked));
		if (its && td_api_pod_request(spec, r) > 0)
			return r;
	}
	return asked;
}

int64_t td_devices_count(const char *devices, const char *resource)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return 0;
	return td_devices_indexes(td_jkey_str(td_json_root(j), resource));
}

bool td_devices_cover(const struct td_settings *s, const yyjson_val *pod, long long claimed, const char *devices)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return false;

	for (size_t i = 0; i < s->n_gres; i++) {
		const char *key = td_settings_key(s, s->gres[i].name);
		int64_t want = 0;
		if (key != s->gres[i].resource)
			continue;
		for (size_t k = 0; k < s->n_gres; k++) {
			const char *r = s->gres[k].resource;
			if (!strcmp(s->gres[k].name, s->gres[i].name))
				want += td_api_pod_request(td_jget(pod, "spec"), r) +
					(strcmp(r, s->devices.resource) ? 0 : claimed);
		}
		if (td_devices_indexes(td_settings_list(s, td_json_root(j), s->gres[i].name)) < want)
			return false;
	}
	// A node may have become another vendor's since the pod was asked for.
	const char *asked = s->devices.n_several ? td_settings_asked(s, pod) : NULL;
	return !asked || td_devices_indexes(td_jkey_str(td_json_root(j), asked)) >=
				 td_api_pod_devices(td_jget(pod, "spec"), asked);
}

int64_t td_devices_of_gres(const char *gres, const char *kind)
{
	struct td_gres g[16];
	size_t n = 0;
	int64_t sum = 0;
	const char *colon = strchr(kind, ':');
	size_t len = colon ? (size_t)(colon - kind) : strlen(kind);

	if (td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (strlen(g[i].name) == len && !strncmp(g[i].name, kind, len) &&
		    (!colon || !strcmp(g[i].type, colon + 1)))
			sum += g[i].count;
	return sum;
}

int64_t td_devices_of_kind(const char *gres, const char *kind, const char *list)
{
	struct td_gres g[16];
	struct td_ranges r;
	size_t n = 0, len = strcspn(kind, ":");
	int64_t sum = 0, from = 0;
	if (!list || td_ranges_parse(list, &r, NULL) || td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (strlen(g[i].name) != len || strncmp(g[i].name, kind, len) != 0)
			continue;
		if (!kind[len] || !strcmp(g[i].type, kind + len + 1))
			for (int64_t k = from; k < from + g[i].count && k < TD_RANGE_MAX; k++)
				sum += r.bits[k / 64] >> (k % 64) & 1;
		from += g[i].count > 0 ? g[i].count : 0;
	}
	return sum;
}

bool td_bridge_lists(const char *list, const char *name)
{
	return td_pool_lists(list, name, strlen(name));
}

void td_bridge_pool_nodes(const struct td_slurm_nodes *l, const bool *feasible, const char *const *kinds,
			  const char *partition, struct td_pool_node **ret)
{
	struct td_pool_node *v = td_calloc(l->n ? l->n : 1, sizeof(*v));
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_node *n = &l->v[i];
		v[i] = (struct td_pool_node){.name = n->name,
					     .feasible = feasible[i] &&
							 (!partition || td_pool_lists_any(n->partitions, partition)),
					     .usable = td_slurm_node_usable(n->states),
					     .cpus = n->cpus,
					     .memory_mb = n->memory_mb,
					     .used_cpus = n->alloc_cpus,
					     .used_memory_mb = n->alloc_memory_mb};

		for (int k = 0; k < TD_POOL_KINDS && kinds[k]; k++) {
			v[i].gres[k] = td_devices_of_gres(n->gres, kinds[k]);
			v[i].used_gres[k] = td_devices_of_gres(n->gres_used, kinds[k]);
		}
	}
	*ret = v;
}
