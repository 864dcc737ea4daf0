#!/bin/sh
# What a session "shell" runs: a shell on a terminal, which the gateway shows to the session's owner and to nobody else (tandem-standin terminal).
# $TANDEM_SESSION_ENV: an environment (its directory, below the home or absolute) whose programs come first.
set -u
cd "$HOME" || exit 1
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
# On a machine without a kubelet nothing listens at a port (session-machine.sh).
if [ -z "${TANDEM_SESSION_SOCKET:-}" ]; then
	set -- --port "$PORT" "$shell"
else
	set -- --socket "$TANDEM_SESSION_SOCKET" "$shell"
fi
if [ -z "${TANDEM_SESSION_ENV:-}" ]; then
	exec /opt/tandem/tandem-standin terminal "$@" -l
fi
if [ ! -d "$TANDEM_SESSION_ENV/bin" ]; then
	echo "There is no environment at $TANDEM_SESSION_ENV: give --env the directory that has its bin/, below your home or absolute." >&2
	exit 127
fi
dir=$(cd "$TANDEM_SESSION_ENV" && pwd)
PATH=$dir/bin:$PATH
export PATH
[ ! -e "$dir/pyvenv.cfg" ] || export VIRTUAL_ENV="$dir"
# Not a login shell: those set PATH anew.
exec /opt/tandem/tandem-standin terminal "$@" -i
