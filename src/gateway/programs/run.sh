#!/bin/sh
# One step of a run, as a Slurm job. The directory is the run's; .tandem/STEP.sh is what the person
# wrote, and line N of .tandem/STEP.params sets the variables of task N of a sweep.
export TACC_WORKDIR="$PWD" TACC_USERDIR="$HOME" TACC_SLURM_USERLOG="$PWD/slurm_log"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -f ".tandem/$TANDEM_STEP.params" ]; then
	eval "$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" ".tandem/$TANDEM_STEP.params")"
fi
if [ -n "${TANDEM_ENV:-}" ]; then
	. "$TANDEM_ENV/bin/activate" || exit 1
fi
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
exec "$shell" -e ".tandem/$TANDEM_STEP.sh"
