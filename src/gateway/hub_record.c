// FederatedRuns: read, made, changed as they were last seen, removed.
#include "gateway/hub.h"

#include "api/status.h"
#include "base/fault.h"
#include "base/names.h"
#include "http/pki.h"

#include <string.h>

enum { WORDS_MOST = 500, REFUSED_MOST = 64 };

void td_hub_run_done(struct td_hub_run *r)
{
	char *const all[] = {r->object,  r->rv,      r->run,    r->user,  r->request, r->hash, r->team,
			     r->account, r->insists, r->member, r->there, r->rule,    r->why,  r->result};
	struct td_strv *const lists[] = {&r->refused,     &r->refused_why, &r->stale,
					 &r->stale_there, &r->gpu_types,   &r->partitions};
	for (size_t i = 0; i < TD_LEN(all); i++)
		free(all[i]);
	for (size_t i = 0; i < TD_LEN(lists); i++)
		td_strv_done(lists[i]);
	*r = (struct td_hub_run){0};
}

// Names of users may end in what a label may not.
static void user_label(const char *user, char ret[65])
{
	td_sha256_hex(user, strlen(user), ret);
	ret[24] = '\0';
}

static char *object_of(const char *user, const char *run)
{
	char hex[65];
	td_auto_free char *both = td_asprintf("%s %s", user, run);
	td_sha256_hex(both, strlen(both), hex);
	return td_asprintf("run-%.24s", hex);
}

bool td_hub_run_over(const struct td_hub_run *r)
{
	return !r->stale.n && r->phase >= TD_FED_ENDED;
}

void td_hub_run_read(const struct td_object *o, struct td_hub_run *ret)
{
	const yyjson_val *spec = td_jget(o->root, "spec"), *s = td_jget(o->root, "state");
	size_t i, n;
	yyjson_val *v;
	*ret = (struct td_hub_run){.object = td_strdup(o->name), .rv = td_strdup(o->rv)};
	const struct {
		char **to;
		const yyjson_val *of;
		const char *path;
	} texts[] = {{&ret->run, spec, "run"},         {&ret->user, spec, "user"},  {&ret->request, spec, "request"},
		     {&ret->hash, spec, "hash"},       {&ret->team, spec, "team"},  {&ret->account, spec, "account"},
		     {&ret->insists, spec, "insists"}, {&ret->member, s, "member"}, {&ret->there, s, "there"},
		     {&ret->rule, s, "rule"},          {&ret->why, s, "why"},       {&ret->result, s, "result"}};
	for (i = 0; i < TD_LEN(texts); i++)
		*texts[i].to = td_strdup(td_jstr(texts[i].of, texts[i].path));
	td_jstrs(td_jget(spec, "partitions"), &ret->partitions);
	td_jstrs(td_jget(spec, "gpuTypes"), &ret->gpu_types);
	ret->created = td_jint(spec, "created", 0);
	ret->gpus = td_jint(spec, "gpus", 0);
	ret->holds = td_jint(spec, "holds", ret->gpus);
	ret->attempt = td_jint(s, "attempt", 0);
	ret->since = td_jint(s, "since", 0);
	ret->sent = td_jbool(s, "sent", false);
	ret->told = td_jbool(s, "told", false);
	if (!td_fed_phase_parse(td_jstr(s, "phase"), &ret->phase))
		ret->phase = TD_FED_WAITING;
	yyjson_arr_foreach (td_jget(s, "refused"), i, n, v) {
		td_strv_add(&ret->refused, td_jstr_or(v, "member", ""));
		td_strv_add(&ret->refused_why, td_jstr_or(v, "why", ""));
	}
	yyjson_arr_foreach (td_jget(s, "stale"), i, n, v) {
		td_strv_add(&ret->stale, td_jstr_or(v, "member", ""));
		td_strv_add(&ret->stale_there, td_jstr_or(v, "there", ""));
	}
}

bool td_hub_run_is_at(const struct td_object *o, const char *member)
{
	const char *phase = td_jstr_or(o->root, "state.phase", "");
	return (!strcmp(phase, "Placed") || !strcmp(phase, "Started")) &&
	       (!member || td_streq(td_jstr(o->root, "state.member"), member));
}

void td_hub_run_say(char **to, const char *s)
{
	char *copy = td_strdup(s);
	free(*to);
	*to = copy;
}

void td_hub_run_phase(struct td_hub_run *r, enum td_fed_phase phase)
{
	r->phase = phase;
	r->since = td_real_ms(&td_clock_system) / 1000;
}

void td_hub_run_back(struct td_hub_run *r, bool stale)
{
	if (stale && r->member) {
		td_strv_add(&r->stale, r->member);
		td_strv_add(&r->stale_there, r->there ? r->there : "");
	}
	free(r->member);
	free(r->there);
	r->member = r->there = NULL;
	r->sent = r->told = false;
	td_hub_run_phase(r, TD_FED_WAITING);
}

// ---- reading ----

int td_hub_run_get(struct td_gateway *g, const char *user, const char *run, struct td_cancel *c, struct td_hub_run *ret,
		   struct td_error *err)
{
	td_auto_free char *name = object_of(user, run);
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(g->kube, &td_federatedruns, g->o.ns, name, c, &o, err);
	if (r)
		return td_wrap(err, "run %s", run);
	if (!td_streq(td_jstr(o->root, "spec.user"), user) || !td_streq(td_jstr(o->root, "spec.run"), run))
		return td_fail(err, TD_NOT_FOUND, "there is no run %s: `tandem ps` lists yours", run);
	td_hub_run_read(o, ret);
	return 0;
}

int td_hub_run_list(struct td_gateway *g, const char *user, bool live, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err)
{
	td_auto_buf struct td_buf labels = {0};
	td_buf_printf(&labels, TD_LABEL_CLUSTER "=%s", g->o.cluster);
	char hex[65];
	if (user) {
		user_label(user, hex);
		td_buf_printf(&labels, "," TD_LABEL_FED_USER "=%s", hex);
	}
	if (live)
		td_buf_puts(&labels, "," TD_LABEL_FED_LIVE "=true");
	return td_kube_list(g->kube, &td_federatedruns, g->o.ns, td_buf_str(&labels), NULL, c, ret, err);
}

int td_hub_live(struct td_gateway *g, struct td_cancel *c, struct td_objects *ret, struct td_error *err)
{
	const struct td_informer *runs = td_hub_runs(g);
	if (!td_informer_synced(runs)) // the first time, or it may not watch
		return td_hub_run_list(g, NULL, true, c, ret, err);
	td_informer_list(runs, g->o.ns, ret);
	return 0;
}

int td_hub_live_of(struct td_gateway *g, const char *user, struct td_cancel *c, size_t *ret, struct td_error *err)
{
	const struct td_informer *runs = td_hub_runs(g);
	td_auto_objects struct td_objects l = {0};
	int r = 0;
	if (td_informer_synced(runs))
		td_informer_by_index(runs, "user", user, &l);
	else
		r = td_hub_run_list(g, user, true, c, &l, err);
	if (!r)
		*ret = l.n;
	return r;
}

// ---- writing ----

// A field that has no value any more is removed by null.
static void text(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *s)
{
	if (s) {
		// A character that is cut in two is none, and no API server takes it.
		td_auto_free char *some = td_strndup(s, WORDS_MOST), *clean = td_text_clean(some);
		td_jm_key_str(d, o, key, clean);
	} else {
		td_jm_key_set(d, o, key, yyjson_mut_null(d));
	}
}

static void pairs(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *second, const struct td_strv *a,
		  const struct td_strv *b)
{
	yyjson_mut_val *l = td_jm_arr(d, o, key);
	for (size_t i = 0; i < a->n && i < REFUSED_MOST; i++) {
		yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, l);
		text(d, e, "member", a->v[i]);
		text(d, e, second, b->v[i]);
	}
}

static void state(yyjson_mut_doc *d, const struct td_hub_run *r)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *s = td_jm_obj(d, root, "state");
	td_jm_str(d, s, "phase", td_fed_phase_name(r->phase));
	text(d, s, "member", r->member);
	text(d, s, "there", r->there);
	text(d, s, "rule", r->rule);
	text(d, s, "why", r->why);
	text(d, s, "result", r->result);
	td_jm_int(d, s, "attempt", r->attempt);
	td_jm_int(d, s, "since", r->since);
	td_jm_bool(d, s, "sent", r->sent);
	td_jm_bool(d, s, "told", r->told);
	pairs(d, s, "refused", "why", &r->refused, &r->refused_why);
	pairs(d, s, "stale", "there", &r->stale, &r->stale_there);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_FED_LIVE,
		      td_hub_run_over(r) ? "false" : "true");
}

static void strings(yyjson_mut_doc *d, yyjson_mut_val *to, const struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		yyjson_mut_arr_append(to, yyjson_mut_strcpy(d, l->v[i]));
}

int td_hub_run_create(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		      struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_object_unref) struct td_object *o = NULL;
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_obj(d, root, "spec");
	td_auto_free char *name = object_of(r->user, r->run);
	td_jm_strf(d, root, "apiVersion", "%s/%s", td_federatedruns.group, td_federatedruns.version);
	td_jm_str(d, root, "kind", td_federatedruns.kind);
	td_jm_str(d, root, "metadata.name", name);
	td_jm_str(d, root, "metadata.namespace", g->o.ns);
	yyjson_mut_val *labels = td_jm_obj(d, root, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, g->o.cluster);
	char hex[65];
	user_label(r->user, hex);
	td_jm_key_str(d, labels, TD_LABEL_FED_USER, hex);
	td_jm_str(d, spec, "federation", h->name);
	td_jm_str(d, spec, "run", r->run);
	td_jm_str(d, spec, "user", r->user);
	td_jm_str(d, spec, "request", r->request);
	td_jm_str(d, spec, "hash", r->hash);
	td_jm_str(d, spec, "team", r->team);
	td_jm_str(d, spec, "account", r->account);
	strings(d, td_jm_arr(d, spec, "partitions"), &r->partitions);
	strings(d, td_jm_arr(d, spec, "gpuTypes"), &r->gpu_types);
	td_jm_str(d, spec, "insists", r->insists);
	td_jm_int(d, spec, "gpus", r->gpus);
	td_jm_int(d, spec, "holds", r->holds);
	td_jm_int(d, spec, "created", r->created);
	state(d, r);
	int rc = td_kube_create(g->kube, &td_federatedruns, g->o.ns, root, c, &o, err);
	if (rc)
		return rc == TD_EXISTS ? rc : td_wrap(err, "FederatedRun %s/%s", g->o.ns, name);
	free(r->object);
	free(r->rv);
	r->object = td_strdup(o->name);
	r->rv = td_strdup(o->rv);
	return td_fault_at(err, "gateway.hub.created");
}

int td_hub_run_write(struct td_gateway *g, struct td_hub_run *r, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.resourceVersion", r->rv);
	state(d, r);
	int rc = td_fault_at(err, "gateway.hub.change");
	if (!rc)
		rc = td_kube_patch(g->kube, TD_AT(&td_federatedruns, g->o.ns, r->object), TD_PATCH_MERGE,
				   yyjson_mut_doc_get_root(d), g->cancel, &o, err);
	if (!rc)
		rc = td_fault_at(err, "gateway.hub.changed");
	if (rc)
		return rc == TD_CONFLICT ? rc : td_wrap(err, "FederatedRun %s/%s", g->o.ns, r->object);
	free(r->rv);
	r->rv = td_strdup(o->rv);
	return 0;
}

int td_hub_run_remove(struct td_gateway *g, const struct td_hub_run *r, struct td_error *err)
{
	const struct td_kube_delete_opts o = {.rv = r->rv, .grace_s = -1};
	int rc = td_kube_delete(g->kube, &td_federatedruns, g->o.ns, r->object, &o, g->cancel, err);
	return rc && rc != TD_NOT_FOUND ? td_wrap(err, "FederatedRun %s/%s", g->o.ns, r->object) : 0;
}
