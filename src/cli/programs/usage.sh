#!/bin/sh
# What `tandem usage` runs in the login pod: seconds of CPUs and GPUs that jobs held from $1 to $2 (epoch
# seconds), and the GPU seconds of which it was measured how much they computed, one line for each account, user and day
# (of UTC, counted from 1970); $3 "service": for each account, user and service. A job counts on the day of its start.
# What the bridge says of a pod is in its job's admin comment (pool/notes.h).
# Of jobs that run, only slurmctld has it.
set -eu
{
	[ "$3" != service ] || squeue -h -a -t all -O "JobID:24,admin_comment:1000" | sed 's/^/running /'
	SLURM_TIME_FORMAT=%s sacct -a -X -n -P -T -S "uts$1" -E "uts$2" -o Account,User,Start,End,AllocTRES,AdminComment,JobIDRaw
} | awk -F'|' -v from="$1" -v to="$2" -v by="$3" '
function amount(list, name,    i, n, t) {
	n = split(list, t, ",")
	for (i = 1; i <= n; i++)
		if (index(t[i], name "=") == 1)
			return substr(t[i], length(name) + 2) + 0
	return 0
}
function note(list, name,    at, text) {
	at = index(list, "&" name "=")
	if (!at)
		return ""
	text = substr(list, at + length(name) + 2)
	return substr(text, 1, index(text, "&") - 1)
}
/^running / {
	split($0, word, / +/)
	live[word[2]] = word[3]
	next
}
$3 ~ /^[0-9]+$/ && $5 != "" {
	if ($6 == "" && $7 in live)
		$6 = live[$7]
	start = $3 + 0
	end = $4 ~ /^[0-9]+$/ ? $4 + 0 : to + 0 # it runs
	if (end > to)
		end = to + 0
	cpu = amount($5, "cpu"); gpu = amount($5, "gres/gpu")
	busy = idle = 0
	service = "(none)"
	if (index($6, "tandem/") == 1) {
		split($6, part, "/")
		notes = "&" part[4] "&"
		busy = note(notes, "busy") + 0; idle = note(notes, "idle") + 0
		name = note(notes, "service")
		gsub(/%2F/, "/", name)
		if (name != "")
			service = part[3] "/" name
	} else if (at = index($6, "tandem-use:" start ":")) { # of a native job (standin/note.c)
		split(substr($6, at + length("tandem-use:")), part, /[: ]/)
		busy = part[2] + 0; idle = part[3] + 0
	}
	used = busy + idle > 0 ? busy / (busy + idle) : -1
	key = $1 "|" $2 "|" (by == "service" ? service : int(start / 86400))
	jobs[key]++; cpus[key] += 0; gpus[key] += 0
	for (day = int(start / 86400); day * 86400 < end; day++) {
		s = start > day * 86400 ? start : day * 86400
		if (s < from && by == "service")
			s = from
		e = end < (day + 1) * 86400 ? end : (day + 1) * 86400
		if (e <= s)
			continue
		key = $1 "|" $2 "|" (by == "service" ? service : day)
		cpus[key] += cpu * (e - s)
		gpus[key] += gpu * (e - s)
		if (used >= 0) {
			busies[key] += used * gpu * (e - s)
			idles[key] += (1 - used) * gpu * (e - s)
		}
	}
}
END { for (k in cpus) printf "%s|%d|%.0f|%.0f|%.0f|%.0f\n", k, jobs[k], cpus[k], gpus[k], busies[k], idles[k] }'
