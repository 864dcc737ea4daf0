#!/bin/sh
# One step of a run, as a Slurm job. The directory is the run's; .tandem/STEP.sh is what the person
# wrote, and line N of .tandem/STEP.params sets the variables of task N of a sweep.
if [ -n "${TANDEM_HUB:-}" ]; then
	# A run of a federation begins when its hub lets it, so that it begins at one cluster at most. The answer
	# is a file, because a job has no way to its gateway but the home. Listing the directory makes NFS look.
	# Whoever waits no longer makes a link of that name. Only one of the two can be made, so no step of this copy
	# begins once one has given up, and the hub is told so when its word comes too late.
	waited=0 most=${TANDEM_HUB_SECONDS:-120}
	until ls .tandem/ >/dev/null && [ -f .tandem/consent ] && [ ! -L .tandem/consent ]; do
		# A home that takes no link is asked for a while longer.
		if [ -L .tandem/consent ] || [ "$waited" -ge $((2 * most)) ] || { [ "$waited" -ge "$most" ] && ln -s gave-up .tandem/consent; }; then
			echo "tandem: the hub of federation $TANDEM_HUB did not let this begin here: it is given to a cluster anew." >&2
			exit 75
		fi
		sleep 1
		waited=$((waited + 1))
	done
fi
export TACC_WORKDIR="$PWD" TACC_USERDIR="$HOME" TACC_SLURM_USERLOG="$PWD/slurm_log"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -f ".tandem/$TANDEM_STEP.params" ]; then
	eval "$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" ".tandem/$TANDEM_STEP.params")"
fi
if [ -n "${TANDEM_ENVS:-}" ]; then
	# ARCH=KEY of each architecture that nodes of its partition have.
	for built in $TANDEM_ENVS; do
		[ "${built%%=*}" != "$(uname -m)" ] || export TANDEM_ENV="$HOME/tandem/envs/${built#*=}"
	done
	if [ -z "${TANDEM_ENV:-}" ]; then
		echo "tandem: this node is $(uname -m), and the environment was made for: $TANDEM_ENVS. Submit again, or name a partition of nodes of one kind." >&2
		exit 1
	fi
fi
if [ -n "${TANDEM_ENV:-}" ] && [ -d "$TANDEM_ENV/conda-meta" ]; then
	if [ -z "${TANDEM_ACTIVE:-}" ]; then
		touch "$TANDEM_ENV/.used" || :
		# What its packages bring for it is written for bash, where there is one.
		for shell in /bin/bash /bin/sh; do
			[ ! -x "$shell" ] || TANDEM_ACTIVE=yes exec "$shell" -c '. "$0/activate" || exit 1; exec /bin/sh "$1"' "$TANDEM_ENV" "$0"
		done
	fi
elif [ -n "${TANDEM_ENV:-}" ]; then
	# It was there when this was submitted. It may have been deleted since, or the image may have
	# another Python by now, which finds nothing in it.
	version=$("$TANDEM_ENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1)
	if [ ! -d "$TANDEM_ENV/lib/python$version" ]; then
		echo "tandem: the environment $TANDEM_ENV cannot be used any more: delete it (tandem env delete ${TANDEM_ENV##*/}) and submit again." >&2
		exit 1
	fi
	. "$TANDEM_ENV/bin/activate" || exit 1
	touch "$TANDEM_ENV/.used" || :
fi
# NAME=KEY of what was fetched, or NAME=/PATH of what lies there already; +NAME=/PATH is wanted at ~/NAME too.
for set in ${TANDEM_DATASETS:-}; do
	export TANDEM_DATA="$PWD/.tandem/data"
	name=${set%%=*} at=${set#*=}
	home=${name%%[!+]*} name=${name#+}
	case "$at" in
	/*) ;;
	*)
		touch "$HOME/tandem/data/$at/.used" || :
		at="$HOME/tandem/data/$at/data"
		;;
	esac
	if [ ! -e "$at" ]; then
		echo "tandem: data set $name: there is no $at. Upload it (tandem upload), or have an administrator keep a data set of this name on the nodes." >&2
		exit 1
	fi
	# A link of an earlier run may lead to what is not there any more; anything else of that name is the person's.
	[ -z "$home" ] || [ -e "$HOME/$name" ] || ln -sfn "$at" "$HOME/$name"
	mkdir -p "$TANDEM_DATA"
	[ "$(readlink "$TANDEM_DATA/$name")" = "$at" ] || ln -sfn "$at" "$TANDEM_DATA/$name" || [ -e "$TANDEM_DATA/$name" ] || exit 1
done
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
# Says for `tandem ps` from where a run goes on that began again: the newest checkpoint, and not what only names it.
began() {
	[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] 2>/dev/null || return 0
	newest='' small=''
	# shellcheck disable=SC3013 # the shells of all images know -nt
	for f in "$kept"/*; do
		case "$f" in *.tmp | *.part | *.partial) continue ;; esac
		if [ -d "$f" ] || { [ -f "$f" ] && [ "$(wc -c <"$f")" -gt 65536 ]; }; then
			[ -n "$newest" ] && [ ! "$f" -nt "$newest" ] || newest=$f
		elif [ -f "$f" ]; then
			[ -n "$small" ] && [ ! "$f" -nt "$small" ] || small=$f
		fi
	done
	newest=${newest:-$small}
	new=".tandem/.began-$SLURM_JOB_ID"
	if printf '%s %s %s\n%s\n' "$SLURM_RESTART_COUNT" "$(date +%s)" "${SLURM_ARRAY_TASK_ID:--1}" "${newest##*/}" >"$new"; then
		mv "$new" ".tandem/began-$TANDEM_STEP" || rm -f "$new"
	fi
}
if [ -n "${TANDEM_CHECKPOINTS_KEEP:-}" ]; then
	# No step has a "/" in its name: "train-1" is no task of "train".
	kept="$PWD/tandem_checkpoints/$TANDEM_STEP${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}"
	began
	stage=/opt/tandem/tandem-stage
	if [ "${SLURM_JOB_NUM_NODES:-1}" -eq 1 ] && [ -x "$stage" ]; then
		exec "$stage" --to "$kept" "$shell" -e ".tandem/$TANDEM_STEP.sh"
	fi
	# A disk of one node is of no use to the others: `srun tandem-stage` in the step gives each its own.
	mkdir -p "$kept" || exit 1
	export TANDEM_CHECKPOINTS="$kept" TANDEM_CHECKPOINTS_TO="$kept"
fi
exec "$shell" -e ".tandem/$TANDEM_STEP.sh"
