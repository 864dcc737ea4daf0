#!/bin/sh
# Makes the records of nodes that come on demand: powered down, so that Slurm shows them, refuses a job that fits
# on none, and asks for one by itself. The operator lists them, a line "NODE WORDS-OF-SLURM.CONF" for each; 24.11
# cannot make them by REST. One that Slurm has forgotten, or that the operator has deleted because it changed, is
# made again. $1: slurmctld's directory of configuration.
set -u
list=/etc/tandem/on-demand/nodes
export SLURM_CONF="$1/slurm.conf"
while sleep 2; do
	[ -s "$list" ] || continue
	# Not an empty answer of a slurmctld that is away or slow (124: in time there was none): it would make all of
	# them. scontrol fails too where there are no nodes.
	known=$(timeout 20 scontrol -o show nodes 2>/dev/null) ||
		{ [ $? != 124 ] && timeout 20 scontrol ping >/dev/null 2>&1; } || continue
	# One line stands for no node, so that awk tells the first of its two inputs also when it is empty.
	printf 'NodeName=\n%s\n' "$known" | awk '
		NR == FNR { if (sub(/^NodeName=/, "")) known[$1]; next }
		!($1 in known)' - "$list" | while read -r name conf; do
		# shellcheck disable=SC2086 # the words of a line, which hold no blanks and no patterns
		set -f && timeout 20 scontrol create nodename="$name" State=CLOUD $conf >&2 </dev/null
	done
done
