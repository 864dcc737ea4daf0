#!/bin/sh
# Slurm's TaskProlog with more than Tandem's own: the gate looks once more, then the network's variables
# (spec.fabric) are set that the task does not have, then the site's program runs. What each prints, Slurm reads.
/opt/tandem/task-prolog || exit
site=/etc/tandem/site
# First "NODE #KIND" for each node; then a line is "#KIND NAME VALUE", or "#KIND NAME @PREFIX VALUE,VALUE" with one for each
# device, and perhaps a list for tasks that have none; with % for @ it is "NUMBER/VALUE" for each adapter that Slurm
# gives out. It tells tasks the numbers of their device files, as names of adapters that there are not (mlx4_0), and Open
# MPI the same. A batch script has the job's (docs/facts/slurm.md S-D24). Whatever a script has, its steps and the jobs that
# it submits have in their environment too, so it is asked whose it is.
nics=${SLURM_STEP_NICS:-}
[ -z "$nics${SLURM_JOB_NICS:-}" ] || case $(cat /proc/self/cgroup) in
*/step_batch* | */step_interactive*) nics=${SLURM_JOB_NICS:-} ;;
esac
[ -z "$nics" ] || case ${OMPI_MCA_btl_openib_if_include:-} in mlx4_*) echo unset OMPI_MCA_btl_openib_if_include ;; esac
[ ! -s $site/fabric ] || awk -v devices="${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}" -v nics="$nics" '
	function numbers(list, ret,    n, m, i, k, part, end) {
		n = split(list, part, ",")
		for (i = 1; i <= n; i++) {
			m = split(part[i], end, "-")
			for (k = end[1] + 0; k <= end[m] + 0; k++) ret[k]
		}
	}
	BEGIN {
		gsub("mlx4_", "", nics)
		numbers(devices, gpus)
		numbers(nics, adapters)
	}
	NF == 2 { if ($1 == ENVIRON["SLURMD_NODENAME"]) kind = $2; next }
	$1 != kind || ($2 in ENVIRON) { next }
	$3 !~ /^[@%]/ { print "export " $2 "=" $3; next }
	{
		nic = $3 ~ /^%/
		text = (nic ? nics : devices) == "" ? $5 : ""
		split("", seen)
		n = split($4, word, ",")
		for (i = 1; i <= n; i++) {
			at = nic ? index(word[i], "/") : 0
			key = nic ? substr(word[i], 1, at - 1) : i - 1
			word[i] = substr(word[i], at + 1)
			if ((nic ? key in adapters : key in gpus) && !(word[i] in seen)) {
				seen[word[i]]
				text = text (text == "" ? "" : ",") word[i]
			}
		}
		if (text != "") print "export " $2 "=" substr($3, 2) text
	}' $site/fabric
[ ! -e $site/task-prolog ] || exec $site/task-prolog
