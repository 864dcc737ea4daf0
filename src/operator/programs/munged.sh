#!/bin/sh
# munged beside a daemon of Slurm or a login: the container beside it reaches its socket only, so the key is in no
# other container, and no user sees it. Argument: where the key is mounted. It is started anew with another key, for
# which nobody waits: Slurm's plug-in tries for two seconds to reach it.
set -u
umask 077
keys=$1 dir=/run/munge run=/run/tandem-munge
mkdir -p "$run"
chmod 0755 "$dir" # who could put another socket there would be believed to be anybody
command -v munged >/dev/null || {
	echo 'tandem: this image has no munged (Debian: munge): nobody can prove who he is here' >&2
	exec sleep infinity
}

munged=
trap '[ -z "$munged" ] || kill "$munged"; exit 0' TERM
while :; do
	cat "$keys/munge.key" >"$run/key.new" && [ -s "$run/key.new" ] && mv "$run/key.new" "$run/key"
	# --force: the directory is a volume, which may belong to a group.
	munged --foreground --force --key-file="$run/key" --socket="$dir/munge.socket.2" --pid-file="$run/pid" \
		--seed-file="$run/seed" --log-file="$run/log" &
	munged=$!
	while kill -0 "$munged" 2>/dev/null; do
		sleep 1 &
		wait $!
		cmp -s "$keys/munge.key" "$run/key" || kill "$munged"
	done
	wait "$munged"
	cmp -s "$keys/munge.key" "$run/key" && echo "tandem: munged has ended with $?; it is started again" >&2 && sleep 1
done
