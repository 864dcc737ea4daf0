// What a job's own /tmp and /dev/shm (spec.scratch) add to slurmd pods. Pure.
#include "slurm/scratch.h"
#include "operator/operator.h"

void td_op_scratch(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc)
{
	if (!td_slurm_scratch(sc))
		return;
	td_auto_free char *most = td_slurm_scratch_most(sc);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("scratch.yaml", {"path", td_jstr_or(sc, "spec.scratch.path", "/var/lib/tandem-scratch")},
			       {"most", most ? most : ""}, {"namespace", td_jstr_or(sc, "metadata.namespace", "")},
			       {"cluster", td_jstr_or(sc, "metadata.name", "")});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "env"));
	td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
	td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, "volume"));
}
