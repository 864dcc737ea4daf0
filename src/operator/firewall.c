// The firewall between users (spec.jobNetwork) in pods where their processes run. Pure.
#include "operator/operator.h"
#include "slurm/jobnetwork.h"

static void arguments(yyjson_mut_doc *d, yyjson_mut_val *c, const yyjson_val *sc, bool jobs)
{
	yyjson_mut_val *command = td_jm_get(c, "command");
	if (jobs && td_slurm_jobnetwork(sc) == TD_JOBNETWORK_ACCOUNTS)
		yyjson_mut_arr_add_str(d, command, "--accounts");
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.jobNetwork.from"), i, n, x) {
		yyjson_mut_arr_add_str(d, command, "--from");
		yyjson_mut_arr_add_strcpy(d, command, yyjson_get_str(x));
	}
}

int td_op_firewall(yyjson_mut_doc *d, yyjson_mut_val *spec, const struct td_op_firewall *f, struct td_error *err)
{
	if (td_slurm_jobnetwork(f->cluster) == TD_JOBNETWORK_NONE)
		return 0;
	if (td_jbool(f->template, "spec.hostNetwork", false))
		return td_fail(
			err, TD_INVALID,
			"%s.spec.hostNetwork: spec.jobNetwork.separate of the SlurmCluster would filter the whole "
			"machine there; remove the one or the other",
			f->field);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = td_op_template(
		"firewall.yaml", {"image", td_jstr_or(f->cluster, "spec.slurm.image", TD_OP_SLURM_IMAGE)});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(o, "firewall"),
		       *init = td_jm_arr(d, spec, "initContainers"), *volumes = td_jm_arr(d, spec, "volumes");
	if (!td_op_named(spec, "volumes", "tandem-bin")) { // a login's
		td_op_put(d, volumes, NULL, td_jm_get(o, "binVolume"));
		if (f->standin)
			td_op_bring_standin(d, spec, f->standin);
	}
	arguments(over, c, f->cluster, f->jobs);
	if (f->jobs) {
		td_op_put(over, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "jobs"));
		td_op_put(over, td_jm_get(o, "rules.volumeMounts"), NULL, td_jm_get(o, "jobs")); // it closes them
		td_op_put(over, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "spool"));
		td_op_put(d, td_jm_get(spec, "containers.[0].volumeMounts"), NULL, td_jm_get(o, "jobs"));
		td_op_put(d, volumes, NULL, td_jm_get(o, "jobsVolume"));
	}
	td_op_put(d, init, NULL, td_jm_get(o, "rules"));
	td_op_put(d, init, NULL, c);
	return 0;
}
