#!/bin/sh
# Runs a daemon of Slurm, "$@", and ends it when who watches this shell ends (setpriv --pdeathsig). The daemon could not
# have that itself: one that reads its configuration or its keys anew executes itself from a thread, and the kernel asks
# nothing of a parent's death for a thread (docs/facts/slurm.md S-A14). Signals that mean the daemon come here.
set -u
pid='' over='' r=0
trap 'over=yes; [ -z "$pid" ] || kill "$pid"' TERM
trap '[ -z "$pid" ] || kill -HUP "$pid"' HUP
"$@" &
pid=$!
[ -z "$over" ] || kill "$pid"
while kill -0 "$pid" 2>/dev/null; do # a signal ends a wait, too
	wait "$pid"
	r=$?
done
exit "$r"
