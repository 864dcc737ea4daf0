#!/bin/sh
# Says when slurmctld must read its configuration anew for the sake of topology.conf: where the mounted one is
# another, and where a node that Slurm knows is not in its tree (Slurm 24.11 places a node that registers by itself
# only at a reconfigure after that, and a slurmd's pod that is replaced registers as a new node: S-G6). slurmctld.sh,
# which alone tells slurmctld, reads the configuration again when the copy of what it last told is gone.
# $1: slurmctld's directory of configuration.
set -u
etc=$1 asked='' rounds=0
export SLURM_CONF="$etc/slurm.conf"

# The nodes of hostlists, a line each.
each() { while read -r list; do scontrol show hostnames "$list"; done; }
# The root switch, and blocks that are joined, are shown with the nodes that they have; leaves and blocks with what
# topology.conf says.
placed() { printf '%s\n' "$shown" | sed -n 's/^\(SwitchName=top\|AggregatedBlock=[^ ]*\) .*Nodes=\([^ ]*\).*/\2/p' | each; }
named() { sed -n 's/^\(SwitchName\|BlockName\)=.* Nodes=\(.*\)/\2/p' /etc/slurm/topology.conf | each; }

while sleep 2; do
	if [ ! -e /etc/slurm/topology.conf ] || [ ! -e "$etc/asked" ]; then continue; fi
	if cmp -s /etc/slurm/topology.conf "$etc/topology.conf"; then
		known=$(sinfo -h -N -o %N 2>/dev/null | sort -u)
		shown=$(scontrol show topology 2>/dev/null) || continue
		tree=$(placed)
		missing=$(printf '%s\n' "$known" | grep -Fx -e "$(named)" | grep -Fxv -e "${tree:-/}") || missing=
		rounds=$((rounds + 1))
		# Not over and over again for nodes that stay out.
		[ "$missing" = "$asked" ] && [ $((rounds % 30)) -gt 0 ] && continue
		asked=$missing
		[ -n "$missing" ] || continue
	fi
	rm -f "$etc/asked"
	rounds=0
	# Until it is read.
	while sleep 2 && [ ! -e "$etc/asked" ]; do :; done
	sleep 3
done
