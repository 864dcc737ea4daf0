#!/bin/sh
# What `tandem usage --yield` runs in the login pod: runs of jobs from $1 to $2 (epoch seconds) and the seconds of GPUs
# that they held in that time, and those of them that idled as far as was measured, one line for each account, user and
# end. Each run of a requeued job is one (-D). The word preflight is for a run whose test before the job failed: it was
# queued again within two minutes, and its admin comment says so. A native allocation in which no step was started, as of a
# salloc that nobody used, has no process that could be measured: all of its time idled. Steps are asked for of those jobs
# alone that hold devices and say nothing of their use: of each job slurmdbd asks its database anew.
set -eu
export SLURM_TIME_FORMAT=%s
runs=$(sacct -D -a -X -n -P -T -S "uts$1" -E "uts$2" -o Account,User,State,Start,End,AllocTRES,JobIDRaw,AdminComment)
steps=$(printf '%s\n' "$runs" | awk -F'|' '
index($8, "tandem-use:") { known[$7] }
$4 ~ /^[0-9]+$/ && index("," $6, ",gres/gpu=") && index($8, "tandem/") != 1 { asked[$7] }
END {
	for (job in asked)
		if (!(job in known))
			printf "%s%s", job, ++n % 1000 ? "," : "\n"
	print ""
}' | while read -r jobs; do
	[ -n "$jobs" ] || continue
	of=$(sacct -D -a -n -P -S "uts$1" -E "uts$2" -j "${jobs%,}" -o JobIDRaw)
	printf '%s\n' "$of" | sed -n '/[.]/s/^/||||||/p'
done)
printf '%s\n' "$steps" "$runs" | awk -F'|' -v from="$1" -v to="$2" '
function amount(list, name,    i, n, t) {
	n = split(list, t, ",")
	for (i = 1; i <= n; i++)
		if (index(t[i], name "=") == 1)
			return substr(t[i], length(name) + 2) + 0
	return 0
}
function note(list, name,    at) {
	at = index(list, "&" name "=")
	return at ? substr(list, at + length(name) + 2) + 0 : 0
}
function run(    start, end, word, state, idle, part, notes, busy, rest, at, key) {
	start = $4 < from ? from + 0 : $4 + 0
	end = $5 ~ /^[0-9]+$/ ? $5 + 0 : to + 0 # it runs
	if (end > to)
		end = to + 0
	if (end < start)
		end = start
	split($3, word, " ")
	state = word[1]
	if (state == "REQUEUED" && end - start < 120 && index($0, "tandem: pre-flight failed"))
		state = "preflight"
	# What the bridge says of a pod (pool/notes.h): how it ended, and how much its devices computed.
	idle = 0
	if (index($8, "tandem/") == 1) {
		split($8, part, "/")
		notes = "&" part[4] "&"
		if ((state == "CANCELLED" || state == "COMPLETED") && index(notes, "&end=failed&"))
			state = "FAILED"
		else if ((state == "CANCELLED" || state == "COMPLETED" || state == "FAILED") && index(notes, "&end=preempted&"))
			state = "PREEMPTED"
		else if (state == "CANCELLED" && index(notes, "&end=succeeded&"))
			state = "COMPLETED"
		busy = note(notes, "busy")
		rest = note(notes, "idle")
		if (busy + rest > 0)
			idle = rest / (busy + rest)
	} else if (at = index(uses[$7], "tandem-use:" $4 ":")) { # of a native job (standin/note.c)
		split(substr(uses[$7], at + length("tandem-use:")), part, /[: ]/)
		if (part[2] + part[3] > 0)
			idle = part[3] / (part[2] + part[3])
	}
	else if (state != "preflight" && !($7 in stepped))
		idle = 1
	key = $1 "|" $2 "|" state
	runs[key]++
	gpus[key] += amount($6, "gres/gpu") * (end - start)
	idles[key] += idle * amount($6, "gres/gpu") * (end - start)
}
$7 ~ /[.]/ { # a step; that of Slurm itself (extern) runs nothing
	split($7, part, ".")
	if (part[2] != "extern")
		stepped[part[1]] = 1
	next
}
{ line[++lines] = $0 }
# The comment of a job that was queued again is that of its last run, and says it of each.
index($8, "tandem-use:") { uses[$7] = uses[$7] " " $8 " " }
END {
	for (n = 1; n <= lines; n++) {
		$0 = line[n]
		if ($4 ~ /^[0-9]+$/ && $6 != "")
			run()
	}
	for (k in runs)
		printf "%s|%d|%.0f|%.0f\n", k, runs[k], gpus[k], idles[k]
}'
