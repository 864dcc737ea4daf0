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

# All mungeds of the cluster take another key at the same moment (docs/keys.md). Sets $left to the ms until then, if
# another key is there; less than 1: it counts.
look() {
	left=
	[ ! -s "$keys/munge.next" ] || left=$(($(cat "$keys/munge.switch") * 1000 - $(date +%s%3N)))
	if [ "${left:-1}" -lt 1 ]; then key=$keys/munge.next; else key=$keys/munge.key; fi
}

munged=
trap '[ -z "$munged" ] || kill "$munged"; exit 0' TERM
while :; do
	look
	cat "$key" >"$run/key.new" && [ -s "$run/key.new" ] && mv "$run/key.new" "$run/key"
	# --force: the directory is a volume, which may belong to a group.
	munged --foreground --force --key-file="$run/key" --socket="$dir/munge.socket.2" --pid-file="$run/pid" \
		--seed-file="$run/seed" --log-file="$run/log" &
	munged=$! changed=
	while kill -0 "$munged" 2>/dev/null; do
		pause=1
		[ "${left:-9999}" -gt 2500 ] || pause=0.1
		sleep $pause &
		wait $!
		look
		cmp -s "$key" "$run/key" || changed=yes
		# Until all others have ended theirs nobody starts one with the other key: what is encoded by the one and
		# decoded by the other is refused, and half a second without any is nothing to Slurm.
		if [ -n "$left" ] && [ "$left" -gt 0 ] && [ "$left" -le 500 ]; then changed=yes; fi
		[ -z "$changed" ] || kill "$munged" 2>/dev/null
	done
	wait "$munged"
	code=$?
	look
	[ "${left:-0}" -lt 1 ] || [ "$left" -gt 500 ] || sleep "$(printf 0.%03d "$left")"
	[ -n "$changed" ] || { echo "tandem: munged has ended with $code; it is started again" >&2 && sleep 1; }
done
