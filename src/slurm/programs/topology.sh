#!/bin/sh
# Keeps slurmctld's topology.conf as the mounted one is, without a restart: it is copied and Slurm told. Once
# more when the nodes that Slurm knows have changed: Slurm 24.11 places a node that registers by itself only
# at a reconfigure after that. $1: slurmctld's directory of configuration.
set -u
etc=$1 placed=
export SLURM_CONF="$etc/slurm.conf"
while sleep 2; do
	[ -e /etc/slurm/topology.conf ] || continue
	nodes=$(sinfo -h -N -o %N 2>/dev/null | sort -u) || continue
	cmp -s /etc/slurm/topology.conf "$etc/topology.conf" && [ "$nodes" = "$placed" ] && continue
	if cp -L /etc/slurm/topology.conf "$etc/.topology" && mv "$etc/.topology" "$etc/topology.conf" && scontrol reconfigure; then
		placed=$nodes
	fi
done
