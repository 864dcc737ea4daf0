#!/bin/sh
# Says when slurmctld must read its configuration anew for the sake of topology.conf: where the mounted one is
# another, and once more when the nodes that Slurm knows have changed (Slurm 24.11 places a node that registers
# by itself only at a reconfigure after that). slurmctld.sh, which alone tells slurmctld, reads the configuration
# again when the copy of what it last told is gone. $1: slurmctld's directory of configuration.
set -u
etc=$1 placed=
export SLURM_CONF="$etc/slurm.conf"
while sleep 2; do
	[ -e /etc/slurm/topology.conf ] || continue
	nodes=$(sinfo -h -N -o %N 2>/dev/null | sort -u) || continue
	cmp -s /etc/slurm/topology.conf "$etc/topology.conf" && [ "$nodes" = "$placed" ] && continue
	rm -f "$etc/asked"
	placed=$nodes
done
