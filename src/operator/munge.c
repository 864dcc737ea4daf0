// spec.auth.type munge: munged in the pods whose containers prove by it who they are. Pure.
#include "operator/operator.h"

#include "slurm/states.h"

#include <string.h>

#define KEY "key" // the volume of slurm.key

// Removes what is not needed then.
static void drop(yyjson_mut_val *list, const char *name)
{
	yyjson_mut_arr_iter it = yyjson_mut_arr_iter_with(list);
	for (yyjson_mut_val *x; (x = yyjson_mut_arr_iter_next(&it));)
		if (td_streq(td_jm_getstr(x, "name"), name))
			yyjson_mut_arr_iter_remove(&it);
}

void td_op_munge_add(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *image)
{
	if (!td_slurm_munge(sc))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("munged.yaml", {"program", td_op_program("munged.sh")},
			       {"cluster", td_jstr_or(sc, "metadata.name", "")});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *init = td_jm_get(o, "initContainer"), *c, *x;
	static const char *const lists[] = {"initContainers", "containers"};
	size_t i, n;
	// Everybody who comes after it may ask it.
	for (size_t k = 0; k < TD_LEN(lists); k++)
		yyjson_mut_arr_foreach (td_jm_get(spec, lists[k]), i, n, c) {
			drop(td_jm_get(c, "env"), "SLURM_SACK_KEY"); // Slurm takes them for AuthType=auth/slurm
			drop(td_jm_get(c, "env"), "SLURM_SACK_JWKS");
			drop(td_jm_get(c, "volumeMounts"), KEY);
			td_op_put(d, td_jm_arr(d, c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
		}
	drop(td_jm_get(spec, "volumes"), KEY);
	if (image) {
		td_jm_str(over, init, "image", image);
		td_jm_str(over, init, "imagePullPolicy", "IfNotPresent");
	}
	yyjson_mut_arr_prepend(td_jm_arr(d, spec, "initContainers"), yyjson_mut_val_mut_copy(d, init));
	yyjson_mut_arr_foreach (td_jm_get(o, "volumes"), i, n, x)
		td_op_put(d, td_jm_arr(d, spec, "volumes"), NULL, x);
}

void td_op_auth_change(const yyjson_val *config, const yyjson_val *sc, const struct td_op_view *v,
		       struct td_strv *problems)
{
	const char *conf = td_jkey_str(td_jget(config, "data"), "slurm.conf"),
		   *type = td_slurm_munge(sc) ? "munge" : "slurm",
		   *now = conf && strstr(conf, "\nAuthType=auth/munge\n") ? "munge" : "slurm";
	if (!conf || td_streq(type, now))
		return;
	long long busy = 0;
	for (size_t i = 0; i < v->nodes.n; i++)
		busy += td_slurm_node_busy(v->nodes.v[i].states);
	if (!v->known || !v->fetched) // what was seen before Slurm fell silent says nothing of now
		td_strv_addf(
			problems,
			"spec.auth.type: it is %s still, because Slurm does not answer, so whether jobs run is not "
			"known; wait until it does, or write \"%s\" again",
			now, now);
	else if (busy)
		td_strv_addf(
			problems,
			"spec.auth.type: jobs run on %lld nodes, and none of them would outlive a change from %s to "
			"%s; wait for them, or cancel them (until then it stays %s)",
			busy, now, type, now);
}
