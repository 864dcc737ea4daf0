#!/bin/sh
# What `tandem usage` runs in the login pod: seconds of CPUs and GPUs that jobs held from $1 to $2 (epoch
# seconds), one line for each account, user and day (of UTC, counted from 1970). A job counts on the
# day of its start.
set -eu
SLURM_TIME_FORMAT=%s sacct -a -X -n -P -T -S "uts$1" -E "uts$2" -o Account,User,Start,End,AllocTRES | awk -F'|' -v from="$1" -v to="$2" '
function amount(list, name,    i, n, t) {
	n = split(list, t, ",")
	for (i = 1; i <= n; i++)
		if (index(t[i], name "=") == 1)
			return substr(t[i], length(name) + 2) + 0
	return 0
}
$3 ~ /^[0-9]+$/ && $5 != "" {
	start = $3 + 0
	end = $4 ~ /^[0-9]+$/ ? $4 + 0 : to + 0 # it runs
	if (end > to)
		end = to + 0
	cpu = amount($5, "cpu"); gpu = amount($5, "gres/gpu")
	key = $1 "|" $2 "|" int(start / 86400)
	jobs[key]++; cpus[key] += 0; gpus[key] += 0
	for (day = int(start / 86400); day * 86400 < end; day++) {
		s = start > day * 86400 ? start : day * 86400
		e = end < (day + 1) * 86400 ? end : (day + 1) * 86400
		key = $1 "|" $2 "|" day
		cpus[key] += cpu * (e - s)
		gpus[key] += gpu * (e - s)
	}
}
END { for (k in cpus) printf "%s|%d|%.0f|%.0f\n", k, jobs[k], cpus[k], gpus[k] }'
