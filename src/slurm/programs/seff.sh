#!/bin/sh
# seff JOBID: what a job had and what it used of it, from sacct. For images that have no seff (slurm-contribs); the
# words are the same.
job=${1:-}
case $job in
'' | *[!0-9_.+]*)
	echo 'usage: seff JOBID' >&2
	exit 2
	;;
esac
sacct -j "$job" -n -P --noconvert -o JobID,Cluster,User,Group,State,ExitCode,NNodes,NCPUS,ElapsedRaw,TotalCPU,MaxRSS,ReqMem,NTasks |
	awk -F '|' -v job="$job" '
	function seconds(t,  d, p, n, s, i) { # [DD-][HH:]MM:SS[.mmm]
		d = 0
		if (t ~ /-/) { d = substr(t, 1, index(t, "-") - 1); t = substr(t, index(t, "-") + 1) }
		n = split(t, p, ":")
		for (i = 1; i <= n; i++) s = s * 60 + p[i]
		return d * 86400 + s
	}
	function bytes(t,  u, n) {
		n = t + 0
		u = substr(t, length(t))
		return u == "K" ? n * 1024 : u == "M" ? n * 1048576 : u == "G" ? n * 1073741824 : u == "T" ? n * 1099511627776 : n
	}
	function clock(s,  d) {
		s = int(s)
		d = int(s / 86400)
		return (d ? d "-" : "") sprintf("%02d:%02d:%02d", int(s / 3600) % 24, int(s / 60) % 60, s % 60)
	}
	function size(n) {
		return n >= 1073741824 ? sprintf("%.2f GB", n / 1073741824) : n >= 1048576 ? sprintf("%.2f MB", n / 1048576) : sprintf("%.2f KB", n / 1024)
	}
	$1 "" == job "" {
		found = 1
		cluster = $2; user = $3; group = $4; state = $5; code = $6; nodes = $7; cpus = $8; wall = $9; cpu = seconds($10); want = bytes($12)
	}
	$1 "" != job "" && $11 != "" { # a step: its largest task, as many times as it has tasks
		m = bytes($11) * ($13 > 0 ? $13 : 1)
		if (m > used) used = m
	}
	END {
		if (!found) { print "seff: there is no job " job " in the history" > "/dev/stderr"; exit 1 }
		sub(/ .*/, "", state)
		split(code, c, ":")
		print "Job ID: " job
		print "Cluster: " cluster
		print "User/Group: " user "/" group
		print "State: " state " (exit code " c[1] ")"
		if (nodes > 1) print "Nodes: " nodes
		print (nodes > 1 ? "Cores per node: " int(cpus / nodes) : "Cores: " cpus)
		print "CPU Utilized: " clock(cpu)
		total = wall * cpus
		printf "CPU Efficiency: %.2f%% of %s core-walltime\n", total ? 100 * cpu / total : 0, clock(total)
		print "Job Wall-clock time: " clock(wall)
		print "Memory Utilized: " size(used)
		printf "Memory Efficiency: %.2f%% of %s\n", want ? 100 * used / want : 0, size(want)
		if (state == "RUNNING" || state == "PENDING") print "WARNING: Efficiency statistics can only be obtained after the job has ended as seff tool is based on the accounting database data."
	}'
