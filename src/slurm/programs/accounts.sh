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
	cmp -s "/etc/slurm/$1" "/etc/$1" && return
	cp -L "/etc/slurm/$1" "/tmp/tandem-$1" && cat "/tmp/tandem-$1" 1<>"/etc/$1" && truncate -r "/tmp/tandem-$1" "/etc/$1"
}

while sleep 2; do
	for f in passwd group; do follow "$f"; done
done
