// What containers in jobs add to the pods of a SlurmCluster, and the plug-ins in login pods. Pure.
#include "slurm/containers.h"
#include "operator/operator.h"
#include "slurm/accounting.h"
#include "slurm/scratch.h"

static yyjson_mut_doc *parts(const yyjson_val *sc)
{
	td_auto_free char *secret = td_slurm_pull_secret(sc, td_jstr_or(sc, "metadata.name", ""));
	return td_op_template("containers.yaml",
			      {"path", td_jstr_or(sc, "spec.containers.cache.path", "/var/lib/tandem-containers")},
			      {"secret", secret});
}

void td_op_containers_slurmd(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc)
{
	if (!td_slurm_containers(sc))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = parts(sc);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "env"));
	static const char *const names[][2] = {{"volumeMount", "volume"}, {"secretMount", "secretVolume"}};
	for (size_t i = 0; i < TD_LEN(names); i++) {
		td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, names[i][0]));
		td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, names[i][1]));
	}
	td_op_put(d, td_jm_get(td_op_named(spec, "volumes", "users"), "configMap.items"), NULL,
		  td_jm_get(o, "settings"));
}

void td_op_containers_login(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *image)
{
	// srun says two lines of each plug-in that plugstack.conf names and that is not there, optional or not.
	if (!td_slurm_containers(sc) && !td_slurm_scratch(sc) && !td_slurm_accounting(sc))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = parts(sc);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
	td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "loginMount"));
	td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, "loginVolume"));
	if (image)
		td_op_bring_standin(d, spec, image);
}
