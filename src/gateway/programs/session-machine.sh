#!/bin/sh
# A session on a machine without a kubelet: the script of its Slurm job. The program listens, if it does, at a socket in a directory that nobody else can enter
# and whose name nobody could know before (src/gateway/session_host.c).
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
/bin/sh -c "$program" &
wait $!
code=$?
log=$HOME/.tandem-session-$TANDEM_SESSION.log
[ -s "$log" ] || rm -f "$log"
exit $code
