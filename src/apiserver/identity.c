// As whom a pod runs, where its Tenant says that pods are their people's (spec.storage; api/person.h): the pod gets the
// person's numbers and groups, no way to root, and the file systems that his jobs have. What would make somebody else of
// it is refused, and nobody but the person gets into it later. On a cluster deploy/kustomize/base/60-admission.yaml
// refuses the same.
#include "apiserver/srv.h"

#include "api/person.h"
#include "base/names.h"

#include <string.h>

static char *note_of(struct td_req *q, const char *key)
{
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	const char *v = ns ? td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), key) : NULL;
	return v ? td_arena_strdup(q->arena, v) : NULL;
}

// ---- who he is ----

static bool is_on(yyjson_mut_val *v)
{
	return v && yyjson_mut_is_bool(v) && yyjson_mut_get_bool(v);
}

// Is the number under this key absent, or this one?
static bool fits(yyjson_mut_val *o, const char *key, uint32_t want)
{
	yyjson_mut_val *v = td_jm_get(o, key);
	return !v || yyjson_mut_is_null(v) || (yyjson_mut_is_int(v) && yyjson_mut_get_uint(v) == want);
}

static bool has_group(const struct td_person *p, yyjson_mut_val *v)
{
	td_auto_strv struct td_strv all = {0};
	if (!yyjson_mut_is_int(v))
		return false;
	td_auto_free char *one = td_asprintf("%llu", (unsigned long long)yyjson_mut_get_uint(v));
	td_strv_split(&all, p->groups, ',');
	return yyjson_mut_get_uint(v) == p->gid || td_strv_has(&all, one);
}

// What a security context says against it, as a field; NULL: nothing. pod: the pod's own, else a container's.
static const char *against(yyjson_mut_val *sc, const struct td_person *p, bool pod)
{
	yyjson_mut_val *g;
	size_t i, n;
	if (!sc || !yyjson_mut_is_obj(sc))
		return NULL; // validation refuses another kind of value
	if (!fits(sc, "runAsUser", p->uid))
		return "runAsUser";
	if (!fits(sc, "runAsGroup", p->gid))
		return "runAsGroup";
	if (td_jm_get(sc, "fsGroup")) // a kubelet gives it the files of whole volumes
		return "fsGroup";
	if (pod)
		yyjson_mut_arr_foreach (td_jm_get(sc, "supplementalGroups"), i, n, g)
			if (!has_group(p, g))
				return "supplementalGroups";
	if (pod && td_jm_get(sc, "supplementalGroupsPolicy") &&
	    !td_streq(td_jm_getstr(sc, "supplementalGroupsPolicy"), "Strict"))
		return "supplementalGroupsPolicy"; // an image could name groups
	if (is_on(td_jm_get(sc, "privileged")))
		return "privileged";
	if (is_on(td_jm_get(sc, "allowPrivilegeEscalation")))
		return "allowPrivilegeEscalation";
	return yyjson_mut_arr_size(td_jm_get(sc, "capabilities.add")) ? "capabilities.add" : NULL;
}

static void become(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_person *p)
{
	yyjson_mut_val *sc = td_jm_obj(d, o, "spec.securityContext");
	td_auto_strv struct td_strv all = {0};
	td_jm_int(d, sc, "runAsUser", p->uid);
	td_jm_int(d, sc, "runAsGroup", p->gid);
	td_jm_bool(d, sc, "runAsNonRoot", true);
	td_jm_str(d, sc, "supplementalGroupsPolicy", "Strict");
	td_strv_split(&all, p->groups, ',');
	if (all.n && !td_jm_get(sc, "supplementalGroups")) {
		yyjson_mut_val *v = td_jm_arr(d, sc, "supplementalGroups");
		long long gid;
		for (size_t i = 0; i < all.n; i++)
			if (td_parse_i64(all.v[i], &gid))
				yyjson_mut_arr_add_int(d, v, gid);
	}
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
		td_jm_bool(d, td_jm_obj(d, c.is, "securityContext"), "allowPrivilegeEscalation", false);
}

static int judge(struct td_req *q, yyjson_mut_val *o, const struct td_person *p, struct td_refusal *r)
{
	const char *name = td_jm_getstr(o, "metadata.name"),
		   *wrong = against(td_jm_get(o, "spec.securityContext"), p, true);
	if (wrong)
		return td_srv_forbid(
			q, r, name,
			"spec.securityContext.%s: pods of namespace %s run as their people, this one as %s (uid %u, "
			"gid %u, groups %s): leave it out",
			wrong, q->ns, p->name, p->uid, p->gid, *p->groups ? p->groups : "none");
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
		if ((wrong = against(td_jm_get(c.is, "securityContext"), p, false)))
			return td_srv_forbid(q, r, name,
					     "%s[%zu].securityContext.%s: pods of namespace %s run as their people, "
					     "this one as %s (uid %u, gid %u): leave it out",
					     c.list, c.at, wrong, q->ns, p->name, p->uid, p->gid);
	static const char *const shares[] = {"spec.hostPID", "spec.hostIPC"};
	for (size_t i = 0; i < TD_LEN(shares); i++)
		if (is_on(td_jm_get(o, shares[i])))
			return td_srv_forbid(
				q, r, name,
				"%s: pods of namespace %s run as their people and see no others' processes: leave "
				"it out",
				shares[i], q->ns);
	return 0;
}

// ---- what he finds ----

// May the pod name this directory itself? One that is read-only comes by the server only.
static bool given(const char *storage, const char *path, struct td_arena *a)
{
	struct td_person_mount m;
	while (td_person_mount_next(&storage, a, &m))
		if (!m.claim && !m.read_only && td_streq(m.source, path))
			return true;
	return false;
}

// The object of a list whose key has this value; NULL: there is none.
static yyjson_mut_val *find(yyjson_mut_val *list, const char *key, const char *value)
{
	yyjson_mut_val *v;
	size_t i, n;
	yyjson_mut_arr_foreach (list, i, n, v)
		if (yyjson_mut_is_obj(v) && td_streq(td_jm_getstr(v, key), value))
			return v;
	return NULL;
}

// The pod's volume of this name that is a claim or a directory of the node; NULL: it is of another kind.
static yyjson_mut_val *shared_volume(yyjson_mut_val *o, const char *name)
{
	yyjson_mut_val *v;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(o, "spec.volumes"), i, n, v)
		if (yyjson_mut_is_obj(v) && td_streq(td_jm_getstr(v, "name"), name) &&
		    (td_jm_get(v, "hostPath") || td_jm_get(v, "persistentVolumeClaim")))
			return v;
	return NULL;
}

// Is this part of the volume what the Tenant gives?
static bool given_part(const char *storage, yyjson_mut_val *volume, const char *sub, struct td_arena *a)
{
	const char *claim = td_jm_getstr(volume, "persistentVolumeClaim.claimName");
	struct td_person_mount m;
	while (td_person_mount_next(&storage, a, &m))
		if (m.claim && *m.sub && td_streq(m.source, claim) && td_streq(m.sub, sub))
			return true;
	return false;
}

// A kubelet goes to a part of a volume as root, past directories that are closed to the person.
static int parts(struct td_req *q, yyjson_mut_val *o, const char *storage, struct td_refusal *r)
{
	yyjson_mut_val *m, *v;
	size_t k, l;
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
		yyjson_mut_arr_foreach (td_jm_get(c.is, "volumeMounts"), k, l, m) {
			const char *sub = yyjson_mut_is_obj(m) ? td_jm_getstr(m, "subPath") : NULL,
				   *expr = yyjson_mut_is_obj(m) ? td_jm_getstr(m, "subPathExpr") : NULL;
			if ((!sub || !*sub) && !expr)
				continue;
			v = shared_volume(o, td_jm_getstr(m, "name"));
			if (v && (expr || !given_part(storage, v, sub, q->arena)))
				return td_srv_forbid(
					q, r, td_jm_getstr(o, "metadata.name"),
					"%s[%zu].volumeMounts[%zu].%s: it would lead past directories that are "
					"closed to who makes the pod: mount all of the volume",
					c.list, c.at, k, expr ? "subPathExpr" : "subPath");
		}
	return 0;
}

static int paths(struct td_req *q, yyjson_mut_val *o, const char *storage, struct td_refusal *r)
{
	static const char *const kinds[] = {"configMap", "secret",      "emptyDir",
					    "projected", "downwardAPI", "persistentVolumeClaim",
					    "ephemeral", "image"};
	yyjson_mut_val *v;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(o, "spec.volumes"), i, n, v) {
		const char *name = td_jm_getstr(o, "metadata.name"),
			   *path = yyjson_mut_is_obj(v) ? td_jm_getstr(v, "hostPath.path") : NULL;
		bool harmless = yyjson_mut_obj_size(v) < 2; // only a name: an emptyDir
		for (size_t k = 0; k < TD_LEN(kinds) && yyjson_mut_is_obj(v) && !harmless; k++)
			harmless = td_jm_get(v, kinds[k]) != NULL;
		if (path ? !given(storage, path, q->arena) : !harmless)
			return td_srv_forbid(
				q, r, name,
				"spec.volumes[%zu]%s%.100s is nothing that pods of namespace %s may have: leave it "
				"out; what its Tenant gives them is there by itself",
				i, path ? ".hostPath.path: " : ": its kind", path ? path : "", q->ns);
	}
	return parts(q, o, storage, r);
}

// Is it there to be mounted? Claims are those of the namespace.
static bool there(struct td_req *q, const struct td_person_mount *m)
{
	td_auto(td_item_unref) struct td_item *claim =
		m->claim ? td_store_get(q->s->store, td_store_table(q->s->store, "", "persistentvolumeclaims"), q->ns,
					m->source)
			 : NULL;
	return !m->claim || claim;
}

static void mount(yyjson_mut_doc *d, yyjson_mut_val *c, const struct td_person_mount *m, const char *volume)
{
	yyjson_mut_val *x = yyjson_mut_obj(d), *all = td_jm_get(c, "volumeMounts");
	if (find(all, "mountPath", m->path) || (all && !yyjson_mut_is_arr(all)))
		return;
	td_jm_str(d, x, "name", volume);
	td_jm_str(d, x, "mountPath", m->path);
	if (m->claim && *m->sub)
		td_jm_str(d, x, "subPath", m->sub);
	if (m->read_only)
		td_jm_bool(d, x, "readOnly", true);
	yyjson_mut_arr_append(td_jm_arr(d, c, "volumeMounts"), x);
}

static void give(struct td_req *q, yyjson_mut_doc *d, yyjson_mut_val *o, const char *storage)
{
	struct td_person_mount m;
	yyjson_mut_val *volumes = td_jm_get(o, "spec.volumes");
	if (volumes && !yyjson_mut_is_arr(volumes))
		return; // validation refuses it
	while (td_person_mount_next(&storage, q->arena, &m)) {
		const char *volume = td_arena_printf(q->arena, "storage-%s", m.name);
		if (find(td_jm_get(o, "spec.volumes"), "name", volume) || !there(q, &m))
			continue; // one that the person named so himself
		yyjson_mut_val *x = yyjson_mut_obj(d);
		td_jm_str(d, x, "name", volume);
		td_jm_str(d, x, m.claim ? "persistentVolumeClaim.claimName" : "hostPath.path", m.source);
		if (!m.claim)
			td_jm_str(d, x, "hostPath.type", ""); // the default, which has been filled in already elsewhere
		yyjson_mut_arr_append(td_jm_arr(d, o, "spec.volumes"), x);
		for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);)
			mount(d, c.is, &m, volume);
	}
}

static void say(yyjson_mut_doc *d, yyjson_mut_val *c, const char *name, const char *value)
{
	yyjson_mut_val *all = td_jm_get(c, "env"), *v;
	if (find(all, "name", name) || (all && !yyjson_mut_is_arr(all)))
		return;
	v = yyjson_mut_obj(d);
	td_jm_str(d, v, "name", name);
	td_jm_str(d, v, "value", value);
	yyjson_mut_arr_prepend(td_jm_arr(d, c, "env"), v); // before others, which may use it
}

int td_srv_identity(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r)
{
	const char *people = note_of(q, TD_ANN_PEOPLE), *storage;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *notes = td_jm_get(o, "metadata.annotations"), *user;
	struct td_person p;
	int rc;
	if (!people || (td_auth_is_role(&q->user) && strcmp(q->user.name, "system:tandem:controllers") != 0))
		return 0; // a session is its owner's already
	user = notes && yyjson_mut_is_obj(notes) ? yyjson_mut_obj_get(notes, TD_ANN_USER) : NULL;
	const char *kube = user ? yyjson_mut_get_str(user) : NULL;
	if (!td_person_find(people, kube, q->arena, &p))
		return td_srv_forbid(
			q, r, td_jm_getstr(o, "metadata.name"),
			"pods of namespace %s run as their people, and %s is no member of its Tenant with a uid in "
			"spec.users of the SlurmCluster: let a member make it, or ask whoever keeps Tenants",
			q->ns, kube ? kube : "who made this");
	storage = note_of(q, TD_ANN_STORAGE);
	if ((rc = judge(q, o, &p, r)) < 0 || (rc = paths(q, o, storage, r)) < 0)
		return rc;
	become(d, o, &p);
	give(q, d, o, storage);
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);) {
		say(d, c.is, "USER", p.name);
		say(d, c.is, "HOME", p.home);
	}
	if (td_person_project(people))
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_UMASK, "0002");
	return 0;
}

// ---- later ----

static bool his(struct td_req *q, const struct td_item *pod)
{
	const char *kube = td_jkey_str(td_jget(td_item_root(pod), "metadata.annotations"), TD_ANN_USER);
	return td_streq(kube, q->user.name) || td_auth_is_role(&q->user) || td_user_in(&q->user, "system:masters");
}

int td_srv_identity_kept(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	if (his(q, old) || !note_of(q, TD_ANN_PEOPLE))
		return 0;
	yyjson_mut_val *notes = td_jm_get(yyjson_mut_doc_get_root(d), "metadata.annotations"),
		       *mask = yyjson_mut_is_obj(notes) ? yyjson_mut_obj_get(notes, TD_ANN_UMASK) : NULL;
	if (!td_streq(mask ? yyjson_mut_get_str(mask) : NULL,
		      td_jkey_str(td_jget(td_item_root(old), "metadata.annotations"), TD_ANN_UMASK)))
		return td_srv_forbid(
			q, r, old->name,
			"metadata.annotations[\"" TD_ANN_UMASK
			"\"]: the pod runs as its person, and only he says who else may write his files: leave "
			"it as it is");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *was = td_jm_copy(td_item_root(old));
	yyjson_mut_val *a = td_jm_get(yyjson_mut_doc_get_root(was), "spec"),
		       *b = td_jm_get(yyjson_mut_doc_get_root(d), "spec");
	if (a && b && yyjson_mut_equals(a, b))
		return 0;
	return td_srv_forbid(
		q, r, old->name,
		"spec: the pod runs as its person, and only he changes what runs in it: make one of your own");
}

int td_srv_identity_enter(struct td_req *q, const struct td_item *pod, struct td_refusal *r)
{
	if (his(q, pod) || !note_of(q, TD_ANN_PEOPLE))
		return 0;
	return td_srv_forbid(
		q, r, pod->name,
		"%s: the pod runs as its person, and only he runs commands in it: ask him, or make one of your own",
		q->sub);
}
