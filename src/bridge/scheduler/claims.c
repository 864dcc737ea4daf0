// Reads what the claims of a pod ask for, and plans their status from a grant.
#include "bridge/scheduler/claims.h"

#include "base/names.h"
#include "slurm/hostlist.h"

#include <string.h>

void td_claims_done(struct td_claims *c)
{
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < c->v[i].n; k++)
			td_object_unref(c->v[i].req[k].cls);
		td_object_unref(c->v[i].obj);
	}
	c->n = 0;
}

bool td_claims_any(const yyjson_val *pod)
{
	return yyjson_arr_size(td_jget(pod, "spec.resourceClaims")) > 0;
}

// ---- what a pod asks for ----
struct reader {
	const struct td_settings *s;
	const char *settings_name;
	const yyjson_val *pod;
	const struct td_claims_from *from;
	struct td_error *err;
};

static bool is_empty(yyjson_val *v)
{
	return !v || yyjson_is_null(v) || (yyjson_is_ctn(v) && !yyjson_get_len(v));
}

#define AT "ResourceClaim %s, spec.devices.requests[%zu]"

static int read_request(struct reader *rd, const struct td_object *claim, yyjson_val *request, size_t at,
			struct td_claim_request *ret)
{
	struct td_error *err = rd->err;
	yyjson_val *x = td_jkey(request, "exactly");
	if (!is_empty(td_jkey(request, "firstAvailable")))
		return td_fail(err, TD_INVALID,
			       AT ".firstAvailable: Slurm is asked for one kind of device only: write the first "
				  "alternative as exactly",
			       claim->name, at);
	const char *cls = td_jstr_or(x, "deviceClassName", "");

	bool known = false;
	for (size_t i = 0; i < rd->s->devices.n_classes; i++)
		known |= !strcmp(rd->s->devices.classes[i], cls);
	if (!known)
		return td_fail(err, TD_INVALID,
			       AT ".exactly.deviceClassName: \"%.80s\" is not among spec.devices[0].deviceClasses of "
				  "%s: use one of those, or add it "
				  "there if it holds all devices of driver %s",
			       claim->name, at, cls, rd->settings_name, rd->s->devices.driver);

	if (!is_empty(td_jkey(x, "selectors")))
		return td_fail(err, TD_INVALID,
			       AT ".exactly.selectors: Slurm chooses the devices and cannot read CEL: remove it and "
				  "choose nodes by "
				  "nodeSelector or by "
				  "the annotation " TD_ANN_ASK_PREFIX "constraint",
			       claim->name, at);
	if (td_jbool(x, "adminAccess", false))
		return td_fail(err, TD_INVALID, AT ".exactly.adminAccess: it would see devices of others: remove it",
			       claim->name, at);
	if (!td_streq(td_jstr_or(x, "allocationMode", "ExactCount"), "ExactCount"))
		return td_fail(err, TD_INVALID,
			       AT ".exactly.allocationMode: write ExactCount and the number of devices in count",
			       claim->name, at);
	if (!is_empty(td_jkey(x, "capacity")))
		return td_fail(err, TD_INVALID, AT ".exactly.capacity: Slurm gives out whole devices: remove it",
			       claim->name, at);

	long long n = td_jint(x, "count", 1);
	if (n < 1 || n > TD_DRA_DEVICES)
		return td_fail(err, TD_INVALID, AT ".exactly.count: %lld is not a number from 1 to %d", claim->name, at,
			       n, TD_DRA_DEVICES);

	struct td_object *c = rd->from->cls(rd->from->ctx, cls);
	if (!c)
		return td_fail(err, TD_NOT_FOUND, "DeviceClass %s does not exist", cls);
	*ret = (struct td_claim_request){td_jstr_or(request, "name", ""), n, c};
	return 0;
}

static int read_claim(struct reader *rd, struct td_object *obj, struct td_claim *ret)
{
	ret->obj = td_object_ref(obj);
	ret->n = 0;
	if (!is_empty(td_jget(obj->root, "spec.devices.constraints")))
		return td_fail(rd->err, TD_INVALID,
			       "ResourceClaim %s, spec.devices.constraints: Slurm chooses the devices and does not "
			       "know them: remove it",
			       obj->name);

	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(obj->root, "spec.devices.requests"), i, n, x) {
		if (ret->n == TD_CLAIM_REQUESTS)
			return td_fail(rd->err, TD_INVALID, "ResourceClaim %s, spec.devices.requests: more than %d",
				       obj->name, TD_CLAIM_REQUESTS);
		int r = read_request(rd, obj, x, i, &ret->req[ret->n]);
		if (r)
			return r;
		ret->n++;
	}
	return 0;
}

// The name of the claim behind an entry of spec.resourceClaims. NULL with code 0: the entry needs
// no claim, as the controller of templates has said.
static int name_of(struct reader *rd, yyjson_val *entry, bool *ret_template, const char **ret)
{
	const char *own = td_jstr_or(entry, "name", "");
	*ret = td_jstr(entry, "resourceClaimName");
	*ret_template = !*ret;
	if (*ret)
		return 0;

	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(rd->pod, "status.resourceClaimStatuses"), i, n, x) {
		if (td_streq(td_jstr(x, "name"), own)) {
			*ret = td_jstr(x, "resourceClaimName");
			return 0;
		}
	}

	return td_fail(rd->err, TD_NOT_FOUND, "its ResourceClaim \"%s\" is not made yet from ResourceClaimTemplate %s",
		       own, td_jstr_or(entry, "resourceClaimTemplateName", "?"));
}

// The name of another pod that holds the claim; NULL: none does.
static const char *held_by(const yyjson_val *claim, const char *uid)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim, "status.reservedFor"), i, n, x)
		if (!td_streq(td_jstr(x, "uid"), uid))
			return td_jstr_or(x, "name", "?");
	return NULL;
}

static int read_entry(struct reader *rd, yyjson_val *entry, struct td_claims *ret)
{
	const char *ns = td_jstr_or(rd->pod, "metadata.namespace", ""), *uid = td_jstr_or(rd->pod, "metadata.uid", ""),
		   *name;
	bool template;
	int r = name_of(rd, entry, &template, &name);
	if (r || !name)
		return r;

	td_auto(td_object_unref) struct td_object *obj = rd->from->claim(rd->from->ctx, ns, name);
	if (!obj)
		return td_fail(rd->err, TD_NOT_FOUND, "ResourceClaim %s/%s does not exist", ns, name);
	for (size_t i = 0; i < ret->n; i++)
		if (!strcmp(ret->v[i].obj->uid, obj->uid))
			return 0; // the pod names the claim twice

	if (template && !td_streq(td_jstr(td_object_owner(obj), "uid"), uid))
		return td_fail(rd->err, TD_NOT_FOUND,
			       "ResourceClaim %s/%s is not this pod's: it was made for another pod of that name", ns,
			       name);
	if (td_object_deleting(obj))
		return td_fail(rd->err, TD_NOT_FOUND, "ResourceClaim %s/%s is being deleted", ns, name);

	const char *holder = held_by(obj->root, uid);
	if (holder)
		return td_fail(rd->err, TD_NOT_FOUND,
			       "ResourceClaim %s/%s is held by pod %s: a claim serves one pod at a time, so it waits "
			       "until that pod has ended (to "
			       "run both at once name a resourceClaimTemplateName)",
			       ns, name, holder);

	if (ret->n == TD_CLAIMS)
		return td_fail(rd->err, TD_INVALID, "spec.resourceClaims: more than %d", TD_CLAIMS);
	r = read_claim(rd, obj, &ret->v[ret->n++]);
	for (size_t i = 0; !r && i < ret->v[ret->n - 1].n; i++)
		ret->count += ret->v[ret->n - 1].req[i].count;

	return r;
}

int td_claims_read(const struct td_settings *s, const char *settings_name, const yyjson_val *pod,
		   const struct td_claims_from *from, struct td_claims *ret, struct td_error *err)
{
	td_auto_claims struct td_claims c = {0};
	struct reader rd = {s, settings_name, pod, from, err};
	yyjson_val *x;
	size_t i, n;

	if (td_claims_any(pod) && !s->devices.dra)
		return td_fail(
			err, TD_INVALID,
			"spec.resourceClaims: %s gives devices by their resource %s, not by claims: ask for that in "
			"resources.limits, or set "
			"spec.devices[0].source there to DRA",
			settings_name, s->devices.resource);

	yyjson_arr_foreach (td_jget(pod, "spec.resourceClaims"), i, n, x) {
		int r = read_entry(&rd, x, &c);
		if (r)
			return r;
	}

	if (c.count > TD_DRA_DEVICES)
		return td_fail(err, TD_INVALID, "spec.resourceClaims: they ask for %lld devices, a node has at most %d",
			       c.count, TD_DRA_DEVICES);

	*ret = c;
	c.n = 0;
	return 0;
}

// ---- what a grant means for the claims ----

// The indexes of "0-1,4", each once, in order. False: the text is no such list, or has an index of
// max or more.
static bool indexes(const char *s, size_t max, size_t *ret, size_t *ret_n)
{
	struct td_ranges r;
	*ret_n = 0;
	if (s && td_ranges_parse(s, &r, NULL))
		return false;

	for (size_t i = 0; s && i < TD_RANGE_MAX; i++) {
		if (!(r.bits[i / 64] >> (i % 64) & 1))
			continue;
		if (i >= max)
			return false;
		ret[(*ret_n)++] = i;
	}
	return true;
}

// Adds the opaque parameters in `from` to the configuration of an allocation. request NULL: for the
// requests that each names.
static void add_config(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *from, const char *source,
		       const char *request)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)from, i, n, x) {
		if (!td_jkey(x, "opaque"))
			continue;
		yyjson_mut_val *o = yyjson_mut_obj(d);
		td_jm_str(d, o, "source", source);
		if (request)
			yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, "requests"), request);
		else
			td_jm_copyval(d, o, "requests", td_jkey(x, "requests"));
		td_jm_copyval(d, o, "opaque", td_jkey(x, "opaque"));
		yyjson_mut_arr_append(list, o);
	}
}

// The status of one claim. granted: indexes of its devices, as many as it asks for.
static struct td_json *status_of(const struct td_claim *c, const char *driver, const yyjson_val *pod, const char *node,
				 const struct td_dra_devices *on, const size_t *granted)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *results = td_jm_arr(d, root, "allocation.devices.results");
	yyjson_mut_val *config = yyjson_mut_arr(d);

	for (size_t i = 0; i < c->n; i++) {
		for (long long k = 0; k < c->req[i].count; k++) {
			const struct td_dra_device *dev = &on->v[*granted++];
			yyjson_mut_val *o = yyjson_mut_obj(d);
			td_jm_str(d, o, "request", c->req[i].name);
			td_jm_str(d, o, "driver", driver);
			td_jm_str(d, o, "pool", dev->pool);
			td_jm_str(d, o, "device", dev->name);
			yyjson_mut_arr_append(results, o);
		}
		// The driver reads the parameters of class and claim from the allocation.
		add_config(d, config, td_jget(c->req[i].cls->root, "spec.config"), "FromClass", c->req[i].name);
	}

	add_config(d, config, td_jget(c->obj->root, "spec.devices.config"), "FromClaim", NULL);
	if (yyjson_mut_arr_size(config))
		td_jm_set(d, root, "allocation.devices.config", config);

	yyjson_mut_val *field = yyjson_mut_obj(d), *term = yyjson_mut_obj(d), *holder = yyjson_mut_obj(d);
	td_jm_str(d, field, "key", "metadata.name");
	td_jm_str(d, field, "operator", "In");
	yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, field, "values"), node);
	yyjson_mut_arr_append(td_jm_arr(d, term, "matchFields"), field);
	yyjson_mut_arr_append(td_jm_arr(d, root, "allocation.nodeSelector.nodeSelectorTerms"), term);

	td_jm_str(d, holder, "resource", "pods");
	td_jm_str(d, holder, "name", td_jstr(pod, "metadata.name"));
	td_jm_str(d, holder, "uid", td_jstr(pod, "metadata.uid"));
	yyjson_mut_arr_append(td_jm_arr(d, root, "reservedFor"), holder);

	return td_json_from_mut(root);
}

int td_claims_plan(const struct td_claims *c, const struct td_settings *s, const yyjson_val *pod,
		   const struct td_claims_grant *g, struct td_json *ret[TD_CLAIMS], struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free size_t *granted = td_calloc(TD_DRA_DEVICES + 1, sizeof(*granted));
	size_t n = 0, used = 0;

	if (!g->devices || td_json_parse(g->devices, strlen(g->devices), &j, NULL) ||
	    !indexes(td_jkey_str(td_json_root(j), s->devices.resource), g->on->n, granted, &n))
		return td_fail(err, TD_INVALID, "Slurm granted %s, and driver %s publishes %zu devices on node %s",
			       g->devices ? g->devices : "nothing", s->devices.driver, g->on->n, g->node);
	if ((long long)n < c->count)
		return td_fail(err, TD_INVALID, "Slurm granted %zu devices, the pod's claims ask for %lld", n,
			       c->count);

	for (size_t i = 0; i < c->n; i++) {
		ret[i] = status_of(&c->v[i], s->devices.driver, pod, g->node, g->on, granted + used);
		for (size_t k = 0; k < c->v[i].n; k++)
			used += (size_t)c->v[i].req[k].count;
	}

	return 0;
}

static bool reserved(const yyjson_val *claim, const char *uid)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim, "status.reservedFor"), i, n, x)
		if (td_streq(td_jstr(x, "uid"), uid))
			return true;
	return false;
}

static bool has_finalizer(const yyjson_val *claim)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim, "metadata.finalizers"), i, n, x)
		if (yyjson_equals_str(x, TD_DRA_FINALIZER))
			return true;
	return false;
}

// Do two allocations give the same devices to the same requests? What the API server adds does not
// count.
static bool same_devices(const yyjson_val *a, const yyjson_val *b)
{
	static const char *const keys[] = {"request", "driver", "pool", "device"};
	yyjson_val *x = td_jget(a, "devices.results"), *y = td_jget(b, "devices.results");
	if (yyjson_arr_size(x) != yyjson_arr_size(y))
		return false;
	for (size_t i = 0; i < yyjson_arr_size(x); i++)
		for (size_t k = 0; k < TD_LEN(keys); k++)
			if (!td_streq(td_jkey_str(yyjson_arr_get(x, i), keys[k]),
				      td_jkey_str(yyjson_arr_get(y, i), keys[k])))
				return false;
	return true;
}

struct td_claim_step td_claim_next(const yyjson_val *claim, const char *pod_uid, const yyjson_val *want)
{
	yyjson_val *now = td_jget(claim, "status.allocation");

	if (held_by(claim, pod_uid))
		return (struct td_claim_step){TD_CLAIM_WAIT, "another pod holds it"};
	if (!is_empty(now) && (!want || !same_devices(now, td_jkey(want, "allocation"))))
		return (struct td_claim_step){TD_CLAIM_CLEAR, "its devices are of a grant that has ended"};

	if (!want)
		return (struct td_claim_step){TD_CLAIM_DONE, "it holds nothing"};
	if (td_jget(claim, "metadata.deletionTimestamp"))
		return (struct td_claim_step){TD_CLAIM_WAIT, "it is being deleted"};
	if (!has_finalizer(claim))
		return (struct td_claim_step){TD_CLAIM_FINALIZER, "nobody would clear it after the pod"};
	if (is_empty(now) || !reserved(claim, pod_uid))
		return (struct td_claim_step){TD_CLAIM_ALLOCATE, "it waits for its devices"};
	return (struct td_claim_step){TD_CLAIM_DONE, "it has the devices of the grant"};
}
