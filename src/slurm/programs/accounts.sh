#!/bin/sh
# Keeps /etc/passwd and /etc/group of a pod whose user may not replace them as the mounted configuration
# has them, so that a new user needs no restart. They are single files of an emptyDir there, because a
# single file of a ConfigMap never changes in a running container.
# Arguments: once, into the directory $2; or nothing, for ever.
set -u
if [ "${1:-}" = once ]; then
	exec cp -L /etc/slurm/passwd /etc/slurm/group "$2/"
fi

# Written in place, without emptying it first: a reader meets a whole line at every moment when users are
# only added.
follow() {
	# shellcheck disable=SC3013 # -ot is in POSIX since 2024, and in every sh before
	[ "/etc/slurm/$1" -ot "/etc/$1" ] && return # of one second: written once more
	cat "/etc/slurm/$1" 1<>"/etc/$1" && truncate -r "/etc/slurm/$1" "/etc/$1"
}

while sleep 2; do
	for f in passwd group; do follow "$f"; done
done
