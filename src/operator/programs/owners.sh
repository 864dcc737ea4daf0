#!/bin/sh
# Runs in a login pod as long as it lives, and ends the job of every srun and salloc there that is gone
# without having said so (kill -9, a lost connection, a container that died). Slurm's own means is
# InactiveLimit, which would end pods' allocations too: they never have a client.
# $1 "all": the pod ends, and every client with it; looks once.
#
# A job's client is the srun or salloc of the session that the job was submitted from, seen from this PID
# namespace or from its own. Slurm is asked when such a session is left, and once a minute. An allocation
# of salloc --no-shell is meant to have no client: it has no command either.
set -u
read -r host </proc/sys/kernel/hostname

# Sets $live to the sessions with a client: " 217 253 ".
clients() {
	live=' '
	for p in /proc/[0-9]*; do
		{ read -r line <"$p/stat"; } 2>/dev/null || continue
		case $line in *' (srun) Z '* | *' (salloc) Z '*) continue ;; *' (srun) '* | *' (salloc) '*) ;; *) continue ;; esac
		while read -r key ids; do
			[ "$key" != NSsid: ] || for s in $ids; do live="$live$s "; done
		done 2>/dev/null <"$p/status"
	done
}

# Has the session $1 a client?
is_live() { case $live in *" $1 "*) ;; *) return 1 ;; esac }

# Is the client of a job gone? $1: is it a batch job, $2: the session, $3: the host that it comes from.
gone() { [ "$1 $3" = "0 $host" ] && ! is_live "$2"; }

ask() { squeue -h -a -t PD,CF,R,S,ST "$@" 2>/dev/null; }

# The jobs are listed before the clients are: a client that is not there then has left for good. Users
# name hosts and commands, and a line break in a name must not look like another job; so each job found is
# asked for by itself before it is ended.
look() {
	jobs=$(ask -O JobID:24,BatchFlag:4,AllocSID:16,AllocNodes:256) || return
	clients
	[ "${1-}" != all ] || live=' '
	printf '%s\n' "$jobs" | while read -r job batch sid node; do
		gone "$batch" "$sid" "$node" || continue
		now=$(ask -j "$job" -O BatchFlag:4,AllocSID:16,AllocNodes:256,Command:16)
		read -r batch sid node command <<-END
			$now
		END
		[ "$command" != '(null)' ] || continue
		gone "$batch" "$sid" "$node" || continue
		echo "tandem: job $job is ended: its srun or salloc on $host is gone" >&2
		scancel -Q "$job"
	done
}

[ "${1-}" != all ] || { look all; exit; }

before=' ' rounds=0
while :; do
	clients
	for s in $before; do is_live "$s" || rounds=0; done
	before=$live
	[ "$rounds" -gt 0 ] || look && rounds=$(((rounds + 1) % 12))
	sleep 5
done
