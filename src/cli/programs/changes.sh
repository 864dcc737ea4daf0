#!/bin/sh
# What `tandem history --slurm` runs in slurmctld's pod: who changed somebody else's job (scontrol update, hold, release) from $1
# to $2 (epoch seconds), as job_submit.lua has written it: lines of TIME|UID|WHAT|ON|MORE, with the names of people.
set -eu
from=$1 to=$2 at=/var/lib/slurm/slurmctld/tandem-changes
# Sets name. Each number is looked up once: somebody's script may have changed ten thousand jobs.
name_of() {
	name="uid $1"
	case $1 in '' | *[!0-9]*) return ;; esac
	eval "name=\${name_$1-}"
	[ -z "$name" ] || return 0
	name=$(getent passwd "$1" | cut -d: -f1 | grep . || echo "uid $1")
	eval "name_$1=\$name"
}
for file in "$at.old" "$at"; do
	[ ! -e "$file" ] || cat "$file"
done | while IFS='|' read -r time uid what on more; do
	case $time$uid in '' | *[!0-9]*) continue ;; esac
	if [ "$time" -ge "$from" ] && [ "$time" -le "$to" ]; then
		user=${more#of uid }
		name_of "$uid"
		who=$name
		name_of "${user%%:*}"
		echo "$time|$who|$what|$on|of user $name:${user#*:}"
	fi
done
