#!/bin/bash
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
# A job whose ranks go step by step, and say in a file each how long a step took them: STEP SECONDS NODE [GPU]. So Tandem
# finds the one that is slower than the others (docs/health.md). STEPS steps, of which each is to take STEP_MS.
# To see it: `tandem fault n2 node slow=4` makes the rank on that virtual node compute four times as long.
export TANDEM_HEARTBEAT=${TANDEM_HEARTBEAT:-$PWD/beat} STEPS=${STEPS:-1000} STEP_MS=${STEP_MS:-200}
rm -f "$TANDEM_HEARTBEAT".*

# shellcheck disable=SC2016
exec srun bash -c '
mine=$TANDEM_HEARTBEAT.$SLURM_PROCID gpu=${SLURM_STEP_GPUS:+ ${SLURM_STEP_GPUS%%[,-]*}}
now() { us=${EPOCHREALTIME/[.,]/}; }
for ((step = 1; step <= STEPS; step++)); do
	slow=$(sed -n "s/^node .*slow=\([0-9]*\).*/\1/p" /run/tandem/faults 2>/dev/null | tail -1)
	printf -v seconds %d.%03d $((STEP_MS * ${slow:-1} / 1000)) $((STEP_MS * ${slow:-1} % 1000))
	now
	begun=$us
	sleep "$seconds" # here the rank computes
	now
	took=$((us - begun))
	# Written beside and moved: nobody reads half of a line.
	printf "%d %d.%06d %s%s\n" "$step" $((took / 1000000)) $((took % 1000000)) "$SLURMD_NODENAME" "$gpu" >"$mine.new"
	mv -f "$mine.new" "$mine"
	# Here it waits for the others, as it would in an all-reduce.
	for ((rank = 0; rank < SLURM_NTASKS; rank++)); do
		at=0
		until { read -r at _ <"$TANDEM_HEARTBEAT.$rank"; } 2>/dev/null && ((at >= step)); do
			sleep 0.05
		done
	done
done'
