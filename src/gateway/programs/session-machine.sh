#!/bin/sh
# A session on a machine without a kubelet: the script of its Slurm job. The program listens, if it does, at a socket in a directory that nobody else can enter
# and whose name nobody could know before (src/gateway/session_host.c). One that knows ports only has $PORT, in a network of its own (TANDEM_SESSION_OWN_NET).
umask 077
dir=/tmp/.tandem-$(printf %.24s "$TANDEM_SESSION_PLACE")
mkdir "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
TANDEM_SESSION_SOCKET=$dir/tty
export TANDEM_SESSION_SOCKET
program=$TANDEM_SESSION_PROGRAM
unset TANDEM_SESSION_PROGRAM TANDEM_SESSION_PLACE
umask 022
set -- /bin/sh -c "$program"
if [ -n "${TANDEM_SESSION_OWN_NET:-}" ]; then
	unset TANDEM_SESSION_OWN_NET
	set -- /opt/tandem/tandem-standin own-net "$TANDEM_SESSION_SOCKET" "$PORT" "$@"
fi
"$@" &
wait $!
code=$?
log=$HOME/.tandem-session-$TANDEM_SESSION.log
[ -s "$log" ] || rm -f "$log"
exit $code
