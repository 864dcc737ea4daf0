// Reads spec.scheduler and spec.devices[0] of the SlurmCluster.
#include "bridge/settings.h"

#include "api/selector.h"
#include "base/names.h"
#include "kube/tenant.h"
#include "pool/reclaim.h"
#include "slurm/conf.h"
#include "slurm/fabric.h"
#include "slurm/nics.h"
#include "slurm/preempt.h"
#include "slurm/topology.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static int by_resource(const void *a, const void *b)
{
	return strcmp(((const struct td_bridge_gres_map *)a)->resource,
		      ((const struct td_bridge_gres_map *)b)->resource);
}

static void add_gres(struct td_settings *s, const char *resource, const char *gres)
{
	if (s->n_gres == TD_LEN(s->gres))
		return;
	const char *colon = strchr(gres, ':');
	s->gres[s->n_gres++] =
		(struct td_bridge_gres_map){.resource = td_strdup(resource),
					    .name = colon ? td_strndup(gres, (size_t)(colon - gres)) : td_strdup(gres),
					    .type = td_strdup(colon ? colon + 1 : "")};
}

const char *td_settings_key(const struct td_settings *s, const char *gres)
{
	const char *untyped = NULL, *any = NULL;
	for (size_t i = 0; i < s->n_gres; i++) {
		const struct td_bridge_gres_map *m = &s->gres[i];
		if (strcmp(m->name, gres) != 0)
			continue;
		if (td_streq(m->resource, s->devices.resource))
			return m->resource;
		any = any ? any : m->resource;
		untyped = untyped || *m->type ? untyped : m->resource;
	}
	return untyped ? untyped : any;
}

const char *td_settings_resource(const struct td_settings *s, const yyjson_val *node)
{
	const char *share = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!s->devices.n_several || !share || td_json_parse(share, strlen(share), &j, NULL))
		return s->devices.resource;
	for (size_t i = 0; i < s->devices.n_several; i++)
		if (td_jkey(td_json_root(j), s->devices.several[i]))
			return s->devices.several[i];
	return s->devices.resource;
}

const char *td_settings_key_on(const struct td_settings *s, const char *gres, const yyjson_val *node)
{
	const char *resource = node && s->devices.n_several ? td_settings_resource(s, node) : NULL;
	for (size_t i = 0; resource && i < s->n_gres; i++)
		if (!strcmp(s->gres[i].resource, resource) && !strcmp(s->gres[i].name, gres))
			return s->gres[i].resource;
	return td_settings_key(s, gres);
}

const char *td_settings_asked(const struct td_settings *s, const yyjson_val *pod)
{
	const yyjson_val *spec = td_jget(pod, "spec");
	for (size_t i = 0; i < s->devices.n_several; i++)
		if (td_api_pod_devices(spec, s->devices.several[i]) > 0)
			return s->devices.several[i];
	return td_api_pod_devices(spec, s->devices.resource) > 0 ? s->devices.resource : NULL;
}

const char *td_settings_list(const struct td_settings *s, const yyjson_val *devices, const char *gres)
{
	for (size_t i = 0; i < s->n_gres; i++) {
		const char *list = strcmp(s->gres[i].name, gres) ? NULL : td_jkey_str(devices, s->gres[i].resource);
		if (list)
			return list;
	}
	return NULL;
}

// Seconds of "30s" or "2m", at most a day; def for anything else.
static int seconds(const char *s, int def)
{
	char *end;
	long v = s && isdigit((unsigned char)*s) ? strtol(s, &end, 10) : -1;
	if (v < 0 || v > 86400)
		return def;
	return !strcmp(end, "m") ? (int)v * 60 : !strcmp(end, "s") ? (int)v : def;
}

// KillWait of the cluster's slurm.conf; what cannot be read is Slurm's own.
static int64_t kill_wait(const yyjson_val *cluster)
{
	enum { SLURM_S = 30 };
	const char *said = td_slurm_conf_get(td_jget(cluster, "spec.config.slurmConf"), "KillWait"), *why;
	long long s;
	if (!said)
		td_slurm_key("KillWait", &said, &why);
	return td_parse_i64(said, &s) && s >= 0 ? s : SLURM_S;
}

static void read_devices(const yyjson_val *v, struct td_device_source *ret)
{
	yyjson_val *x;
	size_t i, n;
	ret->resource = td_strdup(td_jstr_or(v, "resource", "nvidia.com/gpu"));
	ret->driver = td_strdup(td_jstr_or(v, "driver", ""));
	ret->attribute = td_strdup(td_jstr(v, "indexAttribute"));
	ret->dra = td_streq(td_jstr(v, "source"), "DRA");
	ret->shared = td_jbool(v, "shared", false);

	yyjson_arr_foreach (td_jget(v, "deviceClasses"), i, n, x)
		if (yyjson_is_str(x) && ret->n_classes < TD_LEN(ret->classes))
			ret->classes[ret->n_classes++] = td_strdup(yyjson_get_str(x));
}

static void read_classes(yyjson_val *list, struct td_settings *s)
{
	yyjson_val *x, *y;
	size_t i, n, k, m;
	s->classes = td_calloc(yyjson_arr_size(list) + 1, sizeof(*s->classes));
	yyjson_arr_foreach (list, i, n, x) {
		yyjson_val *in = td_jget(x, "namespaces");
		struct td_class_map *c = &s->classes[s->n_classes++];
		*c = (struct td_class_map){.cls = td_strdup(td_jstr_or(x, "priorityClass", "")),
					   .qos = td_strdup(td_jstr_or(x, "qos", "")),
					   .namespaces = td_calloc(yyjson_arr_size(in) + 1, sizeof(char *))};
		yyjson_arr_foreach (in, k, m, y)
			if (yyjson_is_str(y))
				c->namespaces[c->n_namespaces++] = td_strdup(yyjson_get_str(y));
	}
}

static void read_qos(yyjson_val *list, struct td_settings *s)
{
	yyjson_val *x, *y;
	size_t i, n, k, m;
	s->qos = td_calloc(yyjson_arr_size(list) + 1, sizeof(*s->qos));
	yyjson_arr_foreach (list, i, n, x) {
		yyjson_val *victims = td_jget(x, "preempts");
		struct td_qos_map *q = &s->qos[s->n_qos++];
		*q = (struct td_qos_map){.name = td_strdup(td_jstr_or(x, "name", "")),
					 .preempts = td_calloc(yyjson_arr_size(victims) + 1, sizeof(char *)),
					 .grace_s = td_slurm_preempt_s(td_jstr(x, "graceTime")),
					 .slice_s = td_slurm_preempt_s(td_jstr(x, "minSlice")),
					 .priority = td_jint(x, "priority", 0),
					 .total = td_jbool(x, "totalTime", false)};
		yyjson_arr_foreach (victims, k, m, y)
			if (yyjson_is_str(y))
				q->preempts[q->n_preempts++] = td_strdup(yyjson_get_str(y));
	}
}

// Who runs pods of his own in a Tenant.
static void read_people(const yyjson_val *t, const char *of, struct td_settings *s)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(t, "spec.members"), i, n, x) {
		const char *user = td_jstr(x, "user");
		if (user && td_kube_tenant_runs(x))
			s->people[s->n_people++] = (struct td_settings_person){
				of, td_arena_strdup(s->arena, td_jstr_or(x, "kubernetesUser", user)),
				td_arena_strdup(s->arena, user)};
	}
}

// One that has an account, and people who run something.
static void read_project(const yyjson_val *t, struct td_settings *s)
{
	yyjson_val *x, *spaces = td_jget(t, "spec.namespaces");
	const char *account = td_jstr(t, "status.account"), *parent = td_jstr(t, "spec.parent"),
		   *qos = td_jstr(t, "status.qos");
	size_t i, n;
	if (!account || !parent || !spaces || yyjson_arr_size(spaces))
		return;
	account = td_arena_strdup(s->arena, account);
	parent = td_arena_strdup(s->arena, parent);
	qos = td_arena_strdup(s->arena, qos);
	yyjson_arr_foreach (td_jget(t, "spec.members"), i, n, x) {
		const char *user = td_jstr(x, "user");
		if (user && td_kube_tenant_runs(x))
			s->projects[s->n_projects++] = (struct td_settings_project){
				account, parent, td_arena_strdup(s->arena, td_jstr_or(x, "kubernetesUser", user)),
				td_arena_strdup(s->arena, user), qos};
	}
}

// The namespaces of a Tenant. Those whose account is in place are in its status (operator/tenant.h).
// A Tenant that is new, or has changed, may name more; their pods wait, so that nobody else is charged
// for them.
static void read_tenant(const yyjson_val *t, struct td_settings *s)
{
	yyjson_val *placed = td_jget(t, "status.namespaces"), *named = td_jget(t, "spec.namespaces"), *x;
	const char *account = td_jstr(t, "status.account"), *name = td_jstr_or(t, "metadata.name", ""),
		   *of = td_jbool(t, "spec.perUser.pods", false) ? td_arena_strdup(s->arena, name) : NULL;
	const bool closed = td_streq(td_jstr(t, "spec.network"), TD_NETWORK_PRIVATE);
	size_t i, n;
	if (of)
		read_people(t, of, s);
	yyjson_arr_foreach (placed, i, n, x)
		if (account)
			s->maps[s->n_maps++] =
				(struct td_ns_map){.ns = td_strdup(td_jstr_or(x, "name", "")),
						   .user = td_strdup(td_jstr(x, "user")),
						   .account = td_strdup(account),
						   .of = of,
						   .tenant = td_arena_strdup(s->arena, name),
						   .private_net = closed,
						   .partition = td_strdup(td_jstr(t, "status.partition")),
						   .usual_qos = td_strdup(td_jstr(t, "status.qos"))};
	if (td_jint(t, "status.observedGeneration", 0) >= td_jint(t, "metadata.generation", 1))
		return;
	yyjson_arr_foreach (named, i, n, x)
		if (yyjson_is_str(x) && !td_jfind(placed, "name", yyjson_get_str(x)))
			s->maps[s->n_maps++] =
				(struct td_ns_map){.ns = td_strdup(yyjson_get_str(x)), .wait = td_strdup(name)};
	if (!named && !td_jfind(placed, "name", name))
		s->maps[s->n_maps++] = (struct td_ns_map){.ns = td_strdup(name), .wait = td_strdup(name)};
}

static void read_maps(const yyjson_val *scheduler, const yyjson_val *cluster, const struct td_tenant_list *tenants,
		      struct td_settings *s)
{
	yyjson_val *maps = td_jget(scheduler, "namespaces"), *x;
	size_t i, n, room = yyjson_arr_size(maps) + 2, people = 1;
	for (i = 0; i < tenants->n; i++)
		people += yyjson_arr_size(td_jget(tenants->v[i], "spec.members"));
	s->people = td_arena_alloc(s->arena, people * sizeof(*s->people));
	s->projects = td_arena_alloc(s->arena, people * sizeof(*s->projects));
	for (i = 0; i < tenants->n; i++)
		room += yyjson_arr_size(td_jget(tenants->v[i], "status.namespaces")) +
			yyjson_arr_size(td_jget(tenants->v[i], "spec.namespaces")) + 1;
	s->maps = td_calloc(room, sizeof(*s->maps));
	for (i = 0; i < tenants->n; i++) {
		read_tenant(tenants->v[i], s);
		read_project(tenants->v[i], s);
	}
	// Where there are Tenants, a pod that names no account must not go to its user's first one.
	const char *open = tenants->n ? td_jstr_or(cluster, "spec.accounting.openAccount", "open") : NULL;
	yyjson_arr_foreach (maps, i, n, x)
		s->maps[s->n_maps++] = (struct td_ns_map){.ns = td_strdup(td_jstr_or(x, "namespace", "")),
							  .user = td_strdup(td_jstr(x, "user")),
							  .account = td_strdup(td_jstr_or(x, "account", open)),
							  .partition = td_strdup(td_jstr(x, "partition")),
							  .qos = td_strdup(td_jstr(x, "qos"))};
	if (open)
		s->maps[s->n_maps++] = (struct td_ns_map){.ns = td_strdup("*"), .account = td_strdup(open)};
}

static void read_users(const yyjson_val *cluster, struct td_settings *s)
{
	yyjson_val *users = td_jget(cluster, "spec.users"), *x;
	size_t i, n;
	s->directory = td_jget(cluster, "spec.identity.ldap") != NULL;
	s->users = td_calloc(yyjson_arr_size(users) + 1, sizeof(*s->users));
	yyjson_arr_foreach (users, i, n, x)
		if (td_jstr(x, "name"))
			s->users[s->n_users++] =
				(struct td_settings_user){td_strdup(td_jstr(x, "name")), td_jint(x, "uid", 0)};
}

struct td_settings *td_settings_read(const yyjson_val *cluster)
{
	return td_settings_read_with(cluster, &(const struct td_tenant_list){0});
}

// What equal settings are told by.
static char *text_of(const yyjson_val *cluster, const struct td_tenant_list *tenants, const struct td_settings *s)
{
	yyjson_val *v = td_jget(cluster, "spec.scheduler"), *devices = td_jget(cluster, "spec.devices");
	td_auto_free char *text = v ? td_json_text(v, NULL) : td_strdup("{}"),
			  *more = devices ? td_json_text(devices, NULL) : td_strdup("");
	struct td_buf b = {0};
	yyjson_val *preemption = td_jget(cluster, "spec.preemption");
	td_auto_free char *who = preemption ? td_json_text(preemption, NULL) : td_strdup("");
	td_auto_free char *net = s->fabric ? td_json_text(td_json_root(s->fabric), NULL) : td_strdup("");
	td_auto_free char *blocks = s->topology ? td_json_text(td_json_root(s->topology), NULL) : td_strdup("");
	td_buf_printf(&b, "%s %s %s %s %s %s %lld", s->cluster_uid, text, more, who, net, blocks,
		      (long long)s->kill_wait_s);
	for (size_t i = 0; tenants->n && i < s->n_maps; i++) {
		const struct td_ns_map *m = &s->maps[i];
		td_buf_printf(&b, " %s=%s%s,%s,%s,%s,%s,%s", m->ns, m->private_net ? "!" : "", m->user ? m->user : "",
			      m->account ? m->account : "", m->partition ? m->partition : "", m->wait ? m->wait : "",
			      m->usual_qos ? m->usual_qos : "", m->of ? m->of : "");
	}
	for (size_t i = 0; s->starve_s && i < s->n_weights; i++)
		td_buf_printf(&b, " %s*%lld", s->weights[i].account, (long long)s->weights[i].weight);
	for (size_t i = 0; i < s->n_people; i++)
		td_buf_printf(&b, " %s/%s=%s", s->people[i].of, s->people[i].name, s->people[i].user);
	for (size_t i = 0; i < s->n_projects; i++)
		td_buf_printf(&b, " %s<%s/%s=%s,%s", s->projects[i].account, s->projects[i].parent, s->projects[i].name,
			      s->projects[i].user, s->projects[i].qos ? s->projects[i].qos : "");
	for (size_t i = 0; i < s->groups.n; i++) {
		td_buf_printf(&b, " %s:", s->groups.v[i].name);
		for (size_t k = 0; k < s->groups.v[i].n_users; k++)
			td_buf_printf(&b, "%s,", s->groups.v[i].users[k]);
	}
	for (size_t i = 0; i < s->groups.n_grants; i++)
		td_buf_printf(&b, " %s>%s", s->groups.grants[i].group, s->groups.grants[i].account);
	for (size_t i = 0; i < s->n_users; i++)
		td_buf_printf(&b, " %s=%lld", s->users[i].name, (long long)s->users[i].uid);
	td_buf_printf(&b, " %s%s%s", s->directory ? "ldap " : "", s->usual ? s->usual : "",
		      s->shadows ? " shadows" : "");
	for (size_t i = 0; i < s->n_lends; i++)
		td_buf_printf(&b, " %s", s->lends[i]);
	return td_buf_take(&b);
}

struct td_settings *td_settings_read_with(const yyjson_val *cluster, const struct td_tenant_list *tenants)
{
	struct td_settings *s = td_calloc(1, sizeof(*s));
	yyjson_val *v = td_jget(cluster, "spec.scheduler"), *devices = td_jget(cluster, "spec.devices.[0]"), *k, *x;
	size_t i, n;

	s->refs = 1;
	s->arena = td_arena_new();

	s->cluster_uid = td_strdup(td_jstr_or(cluster, "metadata.uid", ""));
	yyjson_val *preemption = td_jget(cluster, "spec.preemption");
	read_qos(td_jget(preemption, "qos"), s);
	s->reclaim = td_jget(preemption, "reclaim") != NULL;
	s->reclaim_grace_s = td_slurm_preempt_s(td_jstr(preemption, "reclaim.graceTime"));
	if (!td_streq(td_jstr(preemption, "mode"), "Cancel"))
		s->defragment_s = td_jint(preemption, "defragment.afterSeconds", 0);
	if (!td_streq(td_jstr(preemption, "mode"), "Cancel"))
		s->starve_s = td_jint(preemption, "starvation.afterSeconds", 0);
	s->starve_slice_s = td_slurm_preempt_s(td_jstr(preemption, "starvation.slice"));
	s->starve_ends = td_jbool(preemption, "starvation.mayEnd", false);
	s->weights = td_arena_alloc(s->arena, (tenants->n + 1) * sizeof(*s->weights));
	for (i = 0; i < tenants->n; i++)
		if (td_jstr(tenants->v[i], "status.account"))
			s->weights[s->n_weights++] = (struct td_settings_weight){
				td_arena_strdup(s->arena, td_jstr(tenants->v[i], "status.account")),
				td_jint(tenants->v[i], "spec.weight", 1)};
	s->reclaim_slice_s = td_slurm_preempt_s(td_jstr(preemption, "reclaim.minSlice"));

	read_devices(devices, &s->devices);
	yyjson_val *several = td_jget(cluster, "spec.devices");
	yyjson_arr_foreach (several, i, n, x)
		if (n > 1 && s->devices.n_several < TD_LEN(s->devices.several))
			s->devices.several[s->devices.n_several++] = td_strdup(td_jstr_or(x, "resource", ""));
	s->scheduler = td_strdup(td_jstr_or(v, "schedulerName", "tandem"));
	s->default_partition = td_strdup(td_jstr(v, "defaultPartition"));
	s->default_user = td_strdup(td_jstr(v, "defaultUser"));
	s->stand_in = td_streq(td_jstr(v, "standIn"), "batch") ? TD_STANDIN_BATCH : TD_STANDIN_AUTO;
	s->shadows = td_jbool(cluster, "spec.shadows.enabled", false);
	yyjson_val *lends = s->shadows ? td_jget(cluster, "spec.shadows.deviceNamespaces") : NULL;
	s->lends = td_calloc(yyjson_arr_size(lends) + 1, sizeof(*s->lends));
	yyjson_arr_foreach (lends, i, n, x)
		s->lends[s->n_lends++] = td_strdup(yyjson_get_str(x));
	s->accounting = td_jget(cluster, "spec.accounting");
	s->end_grace_s = seconds(td_jstr(v, "endGrace"), 30);
	s->kill_wait_s = kill_wait(cluster);

	yyjson_val *fabric = td_jget(cluster, "spec.fabric");
	s->fabric = td_slurm_fabric(cluster) ? td_json_from_val(fabric) : NULL;
	if (td_slurm_topology_blocks(cluster)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *t = td_jm_new();
		td_jm_copyval(t, td_jm_obj(t, yyjson_mut_doc_get_root(t), "spec"), "topology",
			      td_jget(cluster, "spec.topology"));
		s->topology = td_json_from_mut(yyjson_mut_doc_get_root(t));
	}
	yyjson_val *gres = td_jget(v, "gresMap");
	yyjson_obj_foreach (gres, i, n, k, x)
		if (yyjson_is_str(x) && !(td_slurm_nics_give(fabric) && td_streq(yyjson_get_str(x), TD_GRES_NIC)))
			add_gres(s, yyjson_get_str(k), yyjson_get_str(x));
	if (!gres)
		add_gres(s, "nvidia.com/gpu", "gpu");
	if (td_slurm_nics_give(fabric))
		add_gres(s, TD_NIC_RESOURCE, TD_GRES_NIC);
	qsort(s->gres, s->n_gres, sizeof(*s->gres), by_resource);

	read_classes(td_jget(v, "priorityClassMap"), s);
	read_maps(v, cluster, tenants, s);
	read_users(cluster, s);
	td_settings_read_groups(cluster, tenants, s);
	td_settings_read_policies(cluster, s);
	s->text = text_of(cluster, tenants, s);
	return s;
}

struct td_settings *td_settings_ref(struct td_settings *s)
{
	if (s)
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

struct td_settings *td_settings_unref(struct td_settings *s)
{
	if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;

	for (size_t i = 0; i < s->n_gres; i++) {
		free(s->gres[i].resource);
		free(s->gres[i].name);
		free(s->gres[i].type);
	}

	for (size_t i = 0; i < s->n_lends; i++)
		free(s->lends[i]);
	free(s->lends);

	for (size_t i = 0; i < s->n_maps; i++) {
		free(s->maps[i].ns);
		free(s->maps[i].user);
		free(s->maps[i].account);
		free(s->maps[i].partition);
		free(s->maps[i].qos);
		free(s->maps[i].usual_qos);
		free(s->maps[i].wait);
	}

	for (size_t i = 0; i < s->n_users; i++)
		free(s->users[i].name);
	free(s->users);

	for (size_t i = 0; i < s->n_qos; i++) {
		for (size_t k = 0; k < s->qos[i].n_preempts; k++)
			free(s->qos[i].preempts[k]);
		free(s->qos[i].preempts);
		free(s->qos[i].name);
	}
	free(s->qos);

	for (size_t i = 0; i < s->n_classes; i++) {
		for (size_t k = 0; k < s->classes[i].n_namespaces; k++)
			free(s->classes[i].namespaces[k]);
		free(s->classes[i].namespaces);
		free(s->classes[i].cls);
		free(s->classes[i].qos);
	}
	free(s->classes);

	for (size_t i = 0; i < s->devices.n_classes; i++)
		free(s->devices.classes[i]);

	for (size_t i = 0; i < s->devices.n_several; i++)
		free(s->devices.several[i]);

	td_arena_free(s->arena);
	free(s->devices.resource);
	free(s->devices.driver);
	free(s->devices.attribute);
	free(s->maps);
	td_json_unref(s->fabric);
	td_json_unref(s->topology);
	free(s->text);
	free(s->cluster_uid);
	free(s->scheduler);
	free(s->default_partition);
	free(s->default_user);
	free(s);

	return NULL;
}

bool td_settings_private(const struct td_settings *s, const char *ns)
{
	for (size_t i = 0; i < s->n_maps; i++)
		if (!strcmp(s->maps[i].ns, ns))
			return s->maps[i].private_net;
	return false;
}

bool td_settings_owner(const struct td_settings *s, const char *ns, struct td_owner *ret)
{
	return td_settings_owner_of(s, ns, NULL, ret);
}

static const struct td_settings_user *find_user(const struct td_settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_users; i++)
		if (!strcmp(s->users[i].name, name))
			return &s->users[i];
	return NULL;
}

// The Slurm user of a Tenant's member; NULL: he is none of it, or Slurm does not know him.
static const char *person_user(const struct td_settings *s, const char *of, const char *person)
{
	for (size_t i = 0; of && person && i < s->n_people; i++) {
		const struct td_settings_person *p = &s->people[i];
		if (!strcmp(p->of, of) && !strcmp(p->name, person))
			return s->directory || find_user(s, p->user) ? p->user : NULL;
	}
	return NULL;
}

// The first that fits counts; NULL: none does.
static const struct td_ns_map *map_of(const struct td_settings *s, const char *ns)
{
	for (size_t i = 0; i < s->n_maps; i++)
		if (!strcmp(s->maps[i].ns, "*") || !strcmp(s->maps[i].ns, ns))
			return &s->maps[i];
	return NULL;
}

bool td_settings_owner_of(const struct td_settings *s, const char *ns, const char *person, struct td_owner *ret)
{
	struct td_owner o = {.user = s->default_user};
	const struct td_ns_map *m = map_of(s, ns);
	if (m) {
		const char *own = person_user(s, m->of, person);
		o.user = own ? own : m->user ? m->user : s->default_user;
		o.account = m->account;
		o.partition = m->partition;
		o.qos = m->qos;
		o.usual_qos = m->usual_qos;
		o.wait = m->wait;
	}

	if (!o.user || o.wait) {
		*ret = (struct td_owner){.wait = o.wait};
		return false;
	}
	const struct td_settings_user *known = find_user(s, o.user);
	o.uid = known ? known->uid : 0;
	o.unknown = !o.uid && s->n_users && !s->directory;
	*ret = o;
	return true;
}

enum td_settings_may td_settings_project(const struct td_settings *s, const char *ns, const char *person,
					 const char *account, const char **ret_qos)
{
	const struct td_ns_map *m = map_of(s, ns);
	enum td_settings_may may = TD_PROJECT_NOT;
	if (!m || m->wait || (!m->tenant && (!m->user || !strcmp(m->ns, "*"))))
		return TD_PROJECT_NOT;
	for (size_t i = 0; i < s->n_projects && may != TD_PROJECT_MAY; i++) {
		const struct td_settings_project *p = &s->projects[i];
		if (strcmp(p->account, account) != 0 || (m->tenant && strcmp(p->parent, m->tenant) != 0))
			continue;
		may = td_streq(m->tenant ? p->name : p->user, m->tenant ? person : m->user) ? TD_PROJECT_MAY
											    : TD_PROJECT_STRANGER;
		if (may == TD_PROJECT_MAY && ret_qos)
			*ret_qos = p->qos;
	}
	return may;
}

int64_t td_settings_weight(const struct td_settings *s, const char *account)
{
	for (size_t i = 0; i < s->n_weights; i++)
		if (!strcmp(s->weights[i].account, account))
			return s->weights[i].weight;
	return 1;
}

const struct td_class_map *td_settings_class(const struct td_settings *s, const char *priority_class)
{
	for (size_t i = 0; i < s->n_classes; i++)
		if (td_streq(s->classes[i].cls, priority_class))
			return &s->classes[i];
	return NULL;
}

bool td_settings_may_qos(const struct td_settings *s, const char *ns, const char *qos)
{
	bool mapped = false;
	for (size_t i = 0; i < s->n_classes; i++) {
		const struct td_class_map *c = &s->classes[i];
		if (strcasecmp(c->qos, qos) != 0)
			continue;
		mapped = true;
		for (size_t k = 0; k < c->n_namespaces; k++)
			if (!strcmp(c->namespaces[k], ns))
				return true;
		if (!c->n_namespaces)
			return true;
	}
	return !mapped;
}

static const struct td_qos_map *qos_of(const struct td_settings *s, const char *name)
{
	for (size_t i = 0; name && i < s->n_qos; i++)
		if (!strcasecmp(s->qos[i].name, name))
			return &s->qos[i];
	return NULL;
}

static bool one_preempts(const struct td_settings *s, const char *from, const char *to)
{
	const struct td_qos_map *q = qos_of(s, from);
	size_t len;
	if (s->reclaim &&
	    (to ? td_pool_reclaim_preempts(from, to) : td_pool_reclaim_of(from, &len) == TD_RECLAIM_QUOTA))
		return true;
	if (!q || !to)
		return q && q->n_preempts > 0;
	for (size_t i = 0; i < q->n_preempts; i++)
		if (!strcasecmp(q->preempts[i], *to ? to : "normal"))
			return true;
	return false;
}

bool td_settings_lends(const struct td_settings *s, const char *ns)
{
	for (size_t i = 0; i < s->n_lends; i++)
		if (!strcmp(s->lends[i], ns))
			return true;
	return false;
}

bool td_settings_preempts(const struct td_settings *s, const char *from, const char *to)
{
	td_auto_strv struct td_strv l = {0};
	bool may = false;
	td_strv_split(&l, from ? from : "", ',');
	for (size_t i = 0; i < l.n && !may; i++)
		may = one_preempts(s, l.v[i], to);
	return may;
}

static bool borrowed(const struct td_settings *s, const char *qos)
{
	size_t len;
	return s->reclaim && td_pool_reclaim_of(qos, &len) == TD_RECLAIM_BORROWED && !strchr(qos, ',');
}

int64_t td_settings_grace_s(const struct td_settings *s, const char *qos)
{
	const struct td_qos_map *q = qos_of(s, qos);
	return q ? q->grace_s : borrowed(s, qos) ? s->reclaim_grace_s : 0;
}

int64_t td_settings_slice_s(const struct td_settings *s, const char *qos)
{
	const struct td_qos_map *q = qos_of(s, qos);
	return q ? q->slice_s : borrowed(s, qos) ? s->reclaim_slice_s : 0;
}

bool td_settings_preemptible(const struct td_settings *s, const char *qos)
{
	bool may = borrowed(s, qos);
	for (size_t i = 0; i < s->n_qos && !may; i++)
		may = one_preempts(s, s->qos[i].name, qos);
	return may;
}

bool td_settings_total(const struct td_settings *s, const char *qos)
{
	td_auto_strv struct td_strv l = {0};
	bool total = false;
	td_strv_split(&l, qos ? qos : "", ',');
	for (size_t i = 0; i < s->n_qos && !total; i++)
		total = !qos && s->qos[i].total;
	for (size_t i = 0; i < l.n && !total; i++) {
		const struct td_qos_map *q = qos_of(s, l.v[i]);
		total = q && q->total;
	}
	return total;
}
