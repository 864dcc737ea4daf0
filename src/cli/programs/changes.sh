#!/bin/sh
# What `tandem history --slurm` runs in slurmctld's pod: who changed somebody else's job (scontrol update, hold, release) from $1
# to $2 (epoch seconds), as job_submit.lua has written it: lines of TIME|UID|WHAT|ON|MORE, with the names of people.
set -eu
from=$1 to=$2 at=/var/lib/slurm/slurmctld/tandem-changes
for file in "$at.old" "$at"; do
	[ ! -e "$file" ] || cat "$file"
done | awk -F'|' -v from="$from" -v to="$to" '
function name(uid, command, line, part) { # of each but once: there may be ten thousands of lines
	if (!(uid in names)) {
		command = "getent passwd " uid
		names[uid] = (command | getline line) > 0 && split(line, part, ":") > 1 ? part[1] : "uid " uid
		close(command)
	}
	return names[uid]
}
$1 $2 !~ /[^0-9]/ && $1 != "" && $2 != "" && $1 + 0 >= from + 0 && $1 + 0 <= to + 0 && $5 ~ /^of uid [0-9]+: / {
	user = fields = substr($5, length("of uid ") + 1)
	sub(/:.*/, "", user)
	sub(/^[0-9]+: /, "", fields)
	print $1 "|" name($2) "|" $3 "|" $4 "|" fields " of user " name(user)
}'
