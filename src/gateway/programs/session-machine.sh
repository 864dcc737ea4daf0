#!/bin/sh
# A session on a machine without a kubelet: the script of its Slurm job. The program listens, if it does, at a socket in a directory that nobody else can enter
# and whose name nobody could know before (src/gateway/session_host.c). One that knows ports only has $PORT, in a network of its own (TANDEM_SESSION_OWN_NET).
umask 077
dir=/tmp/.tandem-$(printf %.24s "$TANDEM_SESSION_PLACE")
mkdir "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
# Whoever is killed takes his directory not along: his next session here does. Who is alive holds a lock, which is seen once it is held.
if command -v flock >/dev/null; then
	exec 9>"$dir/.lock" && flock 9 && mv "$dir/.lock" "$dir/lock"
	for old in /tmp/.tandem-*; do
		# Everybody makes names in /tmp, and changes where his own lead: what is looked at is a directory that is open already.
		[ "$old" != "$dir" ] && (cd "$old" && [ -O . ] && [ -f lock ] && flock -n lock true) 2>/dev/null && rm -rf "$old"
	done
fi
TANDEM_SESSION_SOCKET=$dir/tty
export TANDEM_SESSION_SOCKET
program=$TANDEM_SESSION_PROGRAM
unset TANDEM_SESSION_PROGRAM TANDEM_SESSION_PLACE
umask 022
set -- /bin/sh -c "$program"
if [ -n "${TANDEM_SESSION_OWN_NET:-}" ]; then
	unset TANDEM_SESSION_OWN_NET TANDEM_SESSION_SOCKET # what listens at $PORT does not listen there
	set -- /opt/tandem/tandem-standin own-net "$dir/tty" "$PORT" "$@"
fi
"$@" 9>&- &
wait $!
code=$?
log=$HOME/.tandem-session-$TANDEM_SESSION.log
[ -s "$log" ] || rm -f "$log"
exit $code
