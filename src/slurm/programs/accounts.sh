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
# only added. From a copy: the mounted file may change meanwhile.
follow() {
	# By its time first, which costs no process: this looks as long as the pod lives.
	# shellcheck disable=SC3013 # -nt and -ot are in POSIX since 2024, and in every sh before
	[ -e "/tmp/tandem-$1" ] && [ ! "/etc/slurm/$1" -nt "/tmp/tandem-$1" ] && [ ! "/etc/slurm/$1" -ot "/tmp/tandem-$1" ] && return
	cp -Lp "/etc/slurm/$1" "/tmp/tandem-$1" || return
	cmp -s "/tmp/tandem-$1" "/etc/$1" && return
	{ cat "/tmp/tandem-$1" 1<>"/etc/$1" && truncate -r "/tmp/tandem-$1" "/etc/$1"; } && return
	rm -f "/tmp/tandem-$1" # it is tried again
}

while sleep 2; do
	for f in passwd group; do follow "$f"; done
done
