// Devices that pods of other schedulers have (lend.h).
#include "bridge/syncer/lend.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "slurm/hostlist.h"

#include <string.h>

// Those that the pod was told. 0: none. Only the bridge writes them, where the API is Tandem's own.
static uint64_t told(const struct td_settings *s, const struct td_object *pod)
{
	const char *text = td_object_annotation(pod, TD_ANN_SHADOW_DEVICES), *list;
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_ranges r = {0};
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return 0;
	list = td_settings_list(s, td_json_root(j), "gpu");
	return list && !td_ranges_parse(list, &r, NULL) ? r.bits[0] : 0;
}

static int64_t count_of(const char *quantity)
{
	int64_t n = 0;
	return quantity && !td_quantity_ceil(quantity, &n, NULL) ? n : 0;
}

int64_t td_lend_wants(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		      const struct td_object *pod)
{
	const char *key = td_settings_key_on(s, "gpu", node->root), *share = td_object_annotation(node, TD_ANN_SHARE);
	if (!b->o.own_kubelet || !key || td_kube_pod_ended(pod->root) ||
	    td_streq(td_jstr(pod->root, "spec.schedulerName"), s->scheduler))
		return 0;
	int64_t want = td_api_pod_request(td_jget(pod->root, "spec"), key);
	if (want <= 0 || td_object_annotation(pod, TD_ANN_ALL_DEVICES))
		return 0;
	if (told(s, pod))
		return want;
	if (!td_settings_lends(s, pod->ns))
		return 0;

	// The kubelet has devices that are not Slurm's, too: it gives those first, as ever (kubelet/pods/sync.c).
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!share || td_json_parse(share, strlen(share), &j, NULL))
		return 0;
	yyjson_val *q = td_jkey(td_json_root(j), key);
	int64_t slurms = yyjson_is_str(q) ? count_of(yyjson_get_str(q)) : yyjson_get_sint(q),
		all = count_of(td_jkey_str(td_jget(node->root, "status.allocatable"), key));
	return want > all - slurms && want <= slurms ? want : 0;
}

int td_lend_read(struct td_bridge *b, const struct td_settings *s, const struct td_object *node, struct td_lend *ret,
		 struct td_cancel *c, struct td_error *err)
{
	*ret = (struct td_lend){0};
	if (!b->o.own_kubelet)
		return s->n_lends ? td_claims_lent(b, s, node->name, &ret->sum.want, c, err) : 0;
	td_informer_by_index(b->others, "node", node->name, &ret->there);
	ret->v = td_calloc(ret->there.n + 1, sizeof(*ret->v));
	ret->pod = td_calloc(ret->there.n + 1, sizeof(*ret->pod));
	for (size_t i = 0; i < ret->there.n; i++) {
		const struct td_object *o = ret->there.v[i];
		struct td_pool_lend_pod v = {.want = td_lend_wants(b, s, node, o), .has = told(s, o), .named = o->uid};
		if (!v.want)
			continue;
		if (td_time_parse(td_jstr_or(o->root, "metadata.creationTimestamp", ""), &v.since))
			v.since = 0;
		ret->pod[ret->n] = o;
		ret->v[ret->n++] = v;
	}
	td_pool_lend_sum(ret->v, ret->n, &ret->sum);
	return 0;
}

void td_lend_done(struct td_lend *l)
{
	td_objects_done(&l->there);
	free(l->v);
	free((void *)l->pod);
}

int td_lend_tell(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, uint64_t devices,
		 const int64_t job_start[2], struct td_cancel *c, struct td_error *err)
{
	struct td_ranges r = {.bits = {devices}};
	td_auto(td_object_unref) struct td_object *node =
		td_informer_get(b->nodes, NULL, td_jstr_or(pod->root, "spec.nodeName", ""));
	td_auto_free char *list = td_ranges_write(&r),
			  *text = td_asprintf("{\"%s\":\"%s\",\"job\":%lld,\"start\":%lld}",
					      td_settings_key_on(s, "gpu", node ? node->root : NULL), list,
					      (long long)job_start[0], (long long)job_start[1]);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", pod->rv); // an older bridge may have told it already
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_SHADOW_DEVICES, text);
	int r2 = td_kube_patch(b->kube, TD_AT(&td_pods, pod->ns, pod->name), TD_PATCH_MERGE, root, c, NULL, err);
	if (r2 == TD_NOT_FOUND)
		return 0; // the watch tells, and it is decided anew
	if (!r2)
		td_info("pod %s/%s, which Slurm did not place, has devices %s of its node", pod->ns, pod->name, list);
	return r2;
}
