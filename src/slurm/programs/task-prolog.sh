#!/bin/sh
# Slurm's TaskProlog with more than Tandem's own: the gate looks once more, then the network's variables
# (spec.fabric) are set that the task does not have, then the site's program runs. What each prints, Slurm reads.
/opt/tandem/task-prolog || exit
site=/etc/tandem/site
# First "NODE #KIND" for each node; then a line is "#KIND NAME VALUE", or "#KIND NAME @PREFIX VALUE,VALUE" with one for each
# device, and perhaps a list for tasks that have none.
[ ! -s $site/fabric ] || awk -v devices="${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS:-}}" '
	BEGIN {
		n = split(devices, part, ",")
		for (i = 1; i <= n; i++) {
			m = split(part[i], end, "-")
			for (k = end[1] + 0; k <= end[m] + 0; k++) mine[k]
		}
	}
	NF == 2 { if ($1 == ENVIRON["SLURMD_NODENAME"]) kind = $2; next }
	$1 != kind || ($2 in ENVIRON) { next }
	$3 !~ /^@/ { print "export " $2 "=" $3; next }
	{
		text = devices == "" ? $5 : ""
		split("", seen)
		n = split($4, word, ",")
		for (i = 1; i <= n; i++)
			if (((i - 1) in mine) && !(word[i] in seen)) {
				seen[word[i]]
				text = text (text == "" ? "" : ",") word[i]
			}
		if (text != "") print "export " $2 "=" substr($3, 2) text
	}' $site/fabric
[ ! -e $site/task-prolog ] || exec $site/task-prolog
