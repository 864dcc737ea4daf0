// spec.devices of a SlurmCluster: how many devices a node has, and how its slurmd pod sees them
// (docs/design/0011-dra.md).
#include "operator/nodeset.h"

#include "accel/accel.h"
#include "api/condition.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "kube/slices.h"

#include <string.h>

#define FIRST "spec.devices.[0]."
#define NVIDIA "nvidia.com/gpu"

bool td_op_dra(const yyjson_val *sc)
{
	return td_streq(td_jstr(sc, FIRST "source"), "DRA");
}

const char *td_op_resource(const yyjson_val *sc)
{
	return td_jstr_or(sc, FIRST "resource", NVIDIA);
}

// Checks the fields that only source DRA has.
static void check_counted(const yyjson_val *sc, struct td_strv *problems)
{
	static const char *const of_dra[] = {"driver", "deviceClasses", "indexAttribute", "typeAttribute"};
	for (size_t i = 0; i < TD_LEN(of_dra); i++) {
		td_auto_free char *path = td_asprintf(FIRST "%s", of_dra[i]);
		if (td_jget(sc, path))
			td_strv_addf(problems,
				     "spec.devices[0].%s: only source DRA has it, the source is Allocatable: write "
				     "source: DRA, or remove it",
				     of_dra[i]);
	}
}

// Checks a resource that pods ask for. Its devices are the GRES gpu of Slurm's nodes.
static void check_resource(const yyjson_val *sc, const yyjson_val *entry, size_t at, struct td_strv *problems)
{
	const char *resource = td_jstr_or(entry, "resource", NVIDIA), *gres;
	yyjson_val *map = td_jget(sc, "spec.scheduler.gresMap");
	if (!td_accel_of(resource) && !td_jstr(entry, "file"))
		td_strv_addf(problems,
			     "spec.devices[%zu].file: where the device files of %s lie in slurmd's pod is not known: "
			     "write it, as far as the number, for example /dev/nvidia",
			     at, resource);
	if (yyjson_is_obj(map) && !yyjson_obj_size(map))
		return; // no pod may ask for devices

	gres = yyjson_is_obj(map) ? td_jkey_str(map, resource) : td_streq(resource, NVIDIA) ? "gpu" : NULL;
	if (!gres)
		td_strv_addf(problems,
			     "spec.devices[%zu].resource: %s is not in spec.scheduler.gresMap, so no pod could ask for "
			     "it: add \"%s: gpu\" there, or correct the name",
			     at, resource, resource);
	else if (strcmp(gres, "gpu") != 0 && !td_starts(gres, "gpu:"))
		td_strv_addf(problems,
			     "spec.scheduler.gresMap: %s is mapped to %s, and the nodes' devices are the GRES gpu: "
			     "write gpu",
			     resource, gres);
	if (at && td_streq(td_jstr(entry, "source"), "DRA"))
		td_strv_addf(problems,
			     "spec.devices[%zu].source: DRA is for a cluster with one kind of devices: leave it out",
			     at);
}

// Checks all of them.
static void check_resources(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *list = td_jget(sc, "spec.devices"), *x;
	size_t i, n;
	if (!yyjson_arr_size(list))
		check_resource(sc, NULL, 0, problems);
	yyjson_arr_foreach (list, i, n, x)
		check_resource(sc, x, i, problems);
	if (yyjson_arr_size(list) > 1 && td_op_dra(sc))
		td_strv_addf(problems,
			     "spec.devices[0].source: DRA is for a cluster with one kind of devices: name one, "
			     "or leave the source out");
}

void td_op_devices_check(const yyjson_val *sc, bool served, struct td_strv *problems)
{
	check_resources(sc, problems);
	td_op_types_check(sc, problems);
	if (!td_op_dra(sc)) {
		check_counted(sc, problems);
		return;
	}
	if (td_jbool(sc, FIRST "shared", false))
		td_strv_addf(
			problems,
			"spec.devices[0].shared: with source DRA grants are exact and nodes always shared: remove it");
	if (!td_jstr(sc, FIRST "driver"))
		td_strv_addf(problems, "spec.devices[0].driver: source DRA needs the name of the driver");
	if (!td_jstr(sc, FIRST "deviceClasses.[0]"))
		td_strv_addf(problems,
			     "spec.devices[0].deviceClasses: source DRA needs the DeviceClass that pods' claims name");
	if (!served)
		td_strv_addf(problems, "spec.devices[0].source: this API server does not serve resource.k8s.io/v1 "
				       "(Kubernetes 1.34 and newer do); use Allocatable");
}

void td_op_devices_class(struct td_op *op, const struct td_object *sc, struct td_cancel *c, struct td_strv *problems)
{
	const char *cls = td_jstr(sc->root, FIRST "deviceClasses.[0]");
	struct td_error e = TD_ERROR_INIT;
	if (!td_op_dra(sc->root) || !cls || !op->templates)
		return;
	td_auto_free char *name = td_op_claim_template(sc->root);
	td_auto(td_object_unref) struct td_object *t = td_informer_get(op->templates, sc->ns, name);
	if (!t && td_kube_get(op->k, &td_deviceclasses, NULL, cls, c, NULL, &e) == TD_NOT_FOUND)
		td_strv_addf(
			problems,
			"spec.devices[0].deviceClasses: there is no DeviceClass \"%.80s\": correct the name, or make "
			"it (kubectl get deviceclasses)",
			cls);
}

char *td_op_devices_text(const yyjson_val *sc, long long gpus, long long nodes)
{
	yyjson_val *x;
	size_t i, n;
	td_auto_buf struct td_buf names = {0};
	yyjson_arr_foreach (td_jget(sc, "spec.devices"), i, n, x)
		td_buf_printf(&names, "%s%s", !i ? "" : i + 1 < n ? ", " : " and ", td_jstr_or(x, "resource", NVIDIA));
	const char *resource = names.len ? td_buf_str(&names) : NVIDIA;
	if (gpus)
		return td_asprintf("%lld of %s on %lld node%s", gpus, resource, nodes, nodes == 1 ? "" : "s");
	if (td_op_dra(sc))
		return td_asprintf("spec.devices[0].driver: %s publishes no devices of a node of this cluster, so "
				   "Slurm gives out none: install it there, or correct the name",
				   td_jstr_or(sc, FIRST "driver", "?"));
	return td_asprintf("spec.devices[0].resource: no node of this cluster has %s (status.capacity), so Slurm gives "
			   "out none: install its device plugin there, or correct the name",
			   resource);
}

// The types of what a driver publishes. One device without a type is enough: then none has one, because Slurm
// counts typed and untyped devices of a node apart. The same where types are mixed up.
static void published_types(const yyjson_val *sc, const struct td_dra_devices *on, char ret[TD_OP_TYPES])
{
	const char *attribute = td_jstr_or(sc, FIRST "typeAttribute", "productName"),
		   *driver = td_jstr_or(sc, FIRST "driver", "");
	*ret = '\0';
	for (size_t i = 0; *attribute && i < on->n; i++) {
		td_auto_free char *type = td_op_gpu_type(sc, td_dra_string(&on->v[i], attribute, driver));
		if (!type || !td_op_types_add(ret, type, 1)) {
			*ret = '\0';
			return;
		}
	}
	if (!td_op_types_together(ret))
		*ret = '\0';
}

bool td_op_gpus(struct td_op *op, const yyjson_val *sc, const struct td_object *node, struct td_op_found *ret,
		struct td_error *why)
{
	*ret = (struct td_op_found){0};
	// A slip there (a wrong name, say) must not take the devices from nodes that run.
	td_auto_strv struct td_strv problems = {0};
	td_op_devices_check(sc, true, &problems);
	if (problems.n)
		return td_fail(why, TD_INVALID, "SlurmCluster %s: %.400s", td_jstr_or(sc, "metadata.name", ""),
			       problems.v[0]),
		       false;
	const char *share = td_object_annotation(node, TD_ANN_SHARE), *resource = td_op_node_resource(sc, node->root);
	struct td_op_share had = {0};
	if (!share || !td_op_share_parse(share, resource, &had))
		had = (struct td_op_share){0};
	if (!td_op_dra(sc)) {
		ret->n = -1;
		if (!op->image)
			return true;

		// Capacity counts all devices, healthy or not. The kubelet does not say which are
		// sick, and Slurm would give out the wrong ones if it only counted fewer; the
		// bridge drains such a node. A kubelet says none while its device plugin is being
		// replaced and after its own start: that means unknown, not none.
		int64_t n = 0;
		if (td_api_devices(td_jget(node->root, "status.capacity"), resource, &n, why))
			return td_wrap(why, "status.capacity"), false;
		ret->n = n ? n : had.gpus;
		return true;
	}

	td_auto_objects struct td_objects slices = {0};
	td_auto_dra struct td_dra_devices on = {0};
	if (op->slices)
		td_informer_by_index(op->slices, "node", node->name, &slices);
	int r = td_dra_devices(&slices, td_jstr_or(sc, FIRST "driver", ""), node->name,
			       td_jstr(sc, FIRST "indexAttribute"), &on, why);
	// A driver that is being replaced takes no device away. A node that never had one has none.
	if (r == TD_NOT_FOUND) {
		ret->n = had.gpus;
		memcpy(ret->types, had.types, sizeof(ret->types));
	} else if (!r) {
		ret->n = (long long)on.n;
		published_types(sc, &on, ret->types);
	}
	return !r || r == TD_NOT_FOUND;
}

// The spec of a ResourceClaimTemplate cannot be changed, so each class has a template of its own.
char *td_op_claim_template(const yyjson_val *sc)
{
	const char *cls = td_jstr_or(sc, FIRST "deviceClasses.[0]", "");
	td_auto_free char *hash = td_op_hash(cls, strlen(cls));
	return td_asprintf("%s-devices-%.8s", td_jstr_or(sc, "metadata.name", ""), hash);
}

yyjson_mut_doc *td_op_claim_template_object(const yyjson_val *sc)
{
	td_auto_free char *name = td_op_claim_template(sc);
	return td_op_template("device-claims.yaml", {"name", name}, {"cluster", td_jstr_or(sc, "metadata.name", "")},
			      {"class", td_jstr_or(sc, FIRST "deviceClasses.[0]", "")});
}

// kube-scheduler must allocate the pod's claim, so the pod may name its node only by affinity. With
// spec.nodeName set nobody would allocate it.
void td_op_slurmd_claims(yyjson_mut_doc *d, yyjson_mut_val *pod, const yyjson_val *sc, const char *node)
{
	td_auto_free char *template = td_op_claim_template(sc);
	yyjson_mut_val *claim = yyjson_mut_obj(d), *use = yyjson_mut_obj(d), *field = yyjson_mut_obj(d),
		       *term = yyjson_mut_obj(d), *c;
	td_jm_str(d, claim, "name", "tandem-devices");
	td_jm_str(d, claim, "resourceClaimTemplateName", template);
	yyjson_mut_arr_append(td_jm_arr(d, pod, "spec.resourceClaims"), claim);
	td_jm_str(d, use, "name", "tandem-devices");
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(pod, "spec.containers"), i, n, c) {
		if (td_streq(td_jm_getstr(c, "name"), "slurmd"))
			yyjson_mut_arr_append(td_jm_arr(d, c, "resources.claims"), use);
	}

	td_jm_str(d, field, "key", "metadata.name");
	td_jm_str(d, field, "operator", "In");
	yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, field, "values"), node);
	yyjson_mut_arr_append(td_jm_arr(d, term, "matchFields"), field);
	yyjson_mut_val *terms = yyjson_mut_arr(d);
	yyjson_mut_arr_append(terms, term);
	td_jm_set(d, pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
		  terms);
}

const char *td_op_pod_node(const struct td_object *pod)
{
	// The slurmd of another cluster's node runs elsewhere.
	const char *n = td_jstr(pod->root, "spec.nodeName"), *serves = td_object_annotation(pod, TD_ANN_NODE);
	return serves && (!n || td_op_is_slurmd(pod)) ? serves : n;
}

const char *td_op_unscheduled(const struct td_object *pod)
{
	yyjson_val *c = td_condition(pod->root, "PodScheduled");
	return td_streq(td_jstr(c, "status"), "False") ? td_jstr_or(c, "message", "no reason is given") : NULL;
}
