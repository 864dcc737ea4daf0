#!/bin/sh
# What `tandem stacks` runs where the processes are, with their user's own rights: on each node of a job, in a step of it
# ($1: job), or in a pod's container ($1: empty), of whose programs it uses few. It reads /proc only and stops nobody.
# Lines of fields with tabs between them: P node rank pid command; then of that process T how-many state kernel-function name, of
# its threads, and F text, of Python; N node text at the end.
node=${SLURMD_NODENAME:-$(cat /proc/sys/kernel/hostname)}
tab=$(printf '\t')
seen=0 spy=$(command -v py-spy) python=
value() { # of a variable in the process's environment
	printf '%s\n' "$env" | sed -n "s/^$1=//p" | head -n 1
}
for dir in /proc/[0-9]*; do
	pid=${dir#/proc/} comm=
	case $pid in "$$" | "$PPID") continue ;; esac
	env=$(tr '\0\t' '\n ' 2>/dev/null <"$dir/environ")
	if [ "$1" = job ]; then
		[ -n "$env" ] || continue # another user's, as most are
		[ "$(value SLURM_JOB_ID)" = "$SLURM_JOB_ID" ] || continue
		[ "$(value SLURM_STEP_ID)" != "$SLURM_STEP_ID" ] || continue
	fi
	read -r comm 2>/dev/null <"$dir/comm" || continue
	command=$(tr '\0\t\n' '   ' 2>/dev/null <"$dir/cmdline")
	command=${command% }
	[ -n "$command" ] || continue # the kernel's own, or one that has ended
	rank=
	for name in RANK OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK SLURM_PROCID; do
		rank=${rank:-$(value $name)}
	done
	seen=$((seen + 1))
	[ $seen -le 64 ] || break
	printf 'P\t%s\t%s\t%s\t%.300s\n' "$node" "${rank:--}" "$pid" "$command"
	for task in "$dir"/task/*; do
		line='' comm='' wchan=''
		read -r line 2>/dev/null <"$task/stat" || continue
		read -r comm 2>/dev/null <"$task/comm"
		read -r wchan 2>/dev/null <"$task/wchan"
		line=${line##*) }
		printf '%s\t%s\t%s\n' "${line%% *}" "${wchan:-0}" "$comm"
	done | head -n 1024 | sort | uniq -c | sort -rn | head -n 16 | sed "s/^ *\([0-9]*\) /T$tab\1$tab/"
	case $(readlink "$dir/exe" 2>/dev/null) in */python*) ;; *) continue ;; esac
	python=1
	[ -n "$spy" ] || continue
	timeout 10 "$spy" dump --pid "$pid" 2>&1 | tr '\t' ' ' | head -n 200 | sed "s/^/F$tab/"
done
[ $seen -le 64 ] || printf 'N\t%s\tmore than 64 processes: the others are left out\n' "$node"
[ -z "$python" ] || [ -n "$spy" ] || printf 'N\t%s\tno functions of Python: there is no py-spy here\n' "$node"
[ $seen != 0 ] || printf 'N\t%s\tno process of it is there\n' "$node"
