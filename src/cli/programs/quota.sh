#!/bin/sh
# What `tandem quota` runs in the login pod: what the jobs of each account hold and wait for, one line
# for each account, state (R: they hold it, P: they wait for it) and resource. Memory is in MB.
set -eu
squeue -h -r -a -t running,completing,suspended,pending -O 'Account:80|,State:20|,tres-alloc:400|' | awk -F'|' '
function amount(v,    u, n) {
	u = substr(v, length(v)); n = v + 0
	return u == "K" ? n / 1024 : u == "G" ? n * 1024 : u == "T" ? n * 1048576 : u == "P" ? n * 1073741824 : n
}
{
	gsub(/ /, "")
	state = $2 == "PENDING" ? "P" : "R"
	sum[$1 "|" state "|jobs"]++
	n = split($3, t, ",")
	for (i = 1; i <= n; i++) {
		at = index(t[i], "=")
		sum[$1 "|" state "|" substr(t[i], 1, at - 1)] += amount(substr(t[i], at + 1))
	}
}
END { for (k in sum) printf "%s|%.0f\n", k, sum[k] }'
