#!/bin/bash
# Gives slurmctld nodes that have no slurmd of their own, for bench/scale.py. Runs in a slurmd pod, in a mount
# namespace of its own (unshare -m). $1: slurmctld as HOST:PORT, $2: a port that is free here; on standard
# input lines of a node's name, a tab and what it says of itself. One slurmd after the other registers under the next name with this one
# address and port, and is ended. The last one stays and answers slurmctld's pings for all of them: slurmctld asks an
# address and a port, and takes the answer for that of the node it meant (docs/facts/slurm.md S-N26).
set -u
mount -t tmpfs none /run && mount -t tmpfs none /var/spool/slurmd && mkdir -p /run/slurm || exit
last=
while IFS=$'\t' read -r node conf; do
	[ -z "$last" ] || { kill "$last" && wait "$last"; }
	: >/run/log
	slurmd -vv -D -Z -N "$node" --conf-server "$1" --conf "$conf Port=$2" >>/run/log 2>&1 &
	last=$!
	until grep -q "slurmctld sent back" /run/log; do
		kill -0 "$last" 2>/dev/null || { cat /run/log >&2 && exit 1; }
		sleep 0.01
	done
	echo "$node"
done
