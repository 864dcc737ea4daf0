// What filters of system calls of native jobs add to slurmd pods: always, so that accounting may come without new pods.
// Pure.
#include "operator/operator.h"

void td_op_filter(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("filter.yaml", {"cluster", td_jstr_or(sc, "metadata.name", "")});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "env"));
	for (size_t i = 0; i < 2; i++) {
		const char *mount = i ? "mounts.[1]" : "mounts.[0]", *volume = i ? "volumes.[1]" : "volumes.[0]";
		td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, mount));
		td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, volume));
	}
}
