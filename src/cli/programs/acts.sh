#!/bin/sh
# What `tandem history --slurm` runs in the login pod: what people did on Slurm's side from $1 to $2 (epoch seconds),
# as slurmdbd has recorded it: changes of accounts, users, associations and QOS (sacctmgr), nodes that were drained
# or set down and by whom (scontrol), jobs that somebody else than their user cancelled (scancel). One line each:
# TIME|WHO|WHAT|ON|MORE. $3: of this node only; empty: everything.
set -eu
export SLURM_TIME_FORMAT=%s
from=$1 to=$2 node=$3

name_of() { # "1000" or "root(0)"
	case $1 in
	*'('*) echo "${1%%(*}" ;;
	*) getent passwd "$1" | cut -d: -f1 | grep . || echo "uid $1" ;;
	esac
}

[ -n "$node" ] || sacctmgr -n -P list transactions start="uts$from" end="uts$to" format=Time,Actor,Action,Where,Info |
	sed -e "s/, [a-z_]*=NULL//g" -e "s/, [a-z_]*=''//g" # what was not set
set -- sacctmgr -n -P list event event=node start="uts$from" end="uts$to" format=TimeStart,User,State,NodeName,Reason
[ -z "$node" ] || set -- "$@" nodes="$node"
"$@" | while IFS='|' read -r time who state on reason; do
	[ -n "$who" ] || continue # Slurm itself: a node that does not answer
	case $reason in
	'tandem: '*) who=Tandem ;;
	*) who=$(name_of "$who") ;;
	esac
	echo "$time|$who|Node $state|$on|$reason"
done
set -- sacct -a -X -n -P -S "uts$from" -E "uts$to" --state=CANCELLED -o State,UID,End,JobID,User,AdminComment
[ -z "$node" ] || set -- "$@" -N "$node"
"$@" | while IFS='|' read -r state uid end job user comment; do
	who=${state##* }
	[ "$who" != "$state" ] || continue # nobody is named
	[ "$who" != "$uid" ] || continue
	case $who:$comment in 0:tandem/*) continue ;; esac # the bridge ends the job of a pod that is over
	echo "$end|$(name_of "$who")|Cancel Job|$job|of user $user"
done
