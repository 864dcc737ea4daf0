#!/bin/sh
# What a session "vscode" runs: VS Code in the browser, by code-server or openvscode-server, from where the person has it: the environment $TANDEM_SESSION_ENV
# (its directory, below the home or absolute; an unpacked release is one), else PATH, else ~/.local/bin. It asks nobody who he is: so it listens inside of the
# pod only, and $TANDEM_SESSION_GUARD (session-guard.py) stands before it. On a machine without a kubelet both are at sockets (session-machine.sh).
set -u
cd "$HOME" || exit 1
if [ -n "${TANDEM_SESSION_ENV:-}" ]; then
	if [ ! -d "$TANDEM_SESSION_ENV/bin" ]; then
		echo "There is no environment at $TANDEM_SESSION_ENV: give --env the directory that has its bin/, below your home or absolute." >&2
		exit 127
	fi
	PATH=$(cd "$TANDEM_SESSION_ENV" && pwd)/bin:$PATH
fi
PATH=$PATH:$HOME/.local/bin
export PATH SHELL="${SHELL:-/bin/bash}"
program=$(command -v code-server || command -v openvscode-server)
if [ -z "$program" ]; then
	echo "There is no code-server or openvscode-server in ${TANDEM_SESSION_ENV:-this image or ~/.local/bin}: upload a release of one of them for Linux, unpack it in your home" \
		"and give --env its directory, or give an --image that has one. Without it, your own VS Code comes in by ssh: tandem ssh-config --write." >&2
	exit 127
fi
# One knows its path and is asked as the browser asks; the other makes every address relative, and is asked without it.
if "$program" --help 2>/dev/null | grep -q -e --server-base-path; then
	at='--host 127.0.0.1' where=--port
	[ -z "${TANDEM_SESSION_SOCKET:-}" ] || at='' where=--socket-path
	# shellcheck disable=SC2086 # two words, or none
	exec python3 -c "$TANDEM_SESSION_GUARD" "$program" $at --server-base-path "${TANDEM_SESSION_PATH%/}" --without-connection-token \
		--accept-server-license-terms --telemetry-level off --default-folder "$HOME" $where
fi
export TANDEM_GUARD_STRIP="${TANDEM_SESSION_PATH%/}"
at='--host 127.0.0.1' where=--port
[ -z "${TANDEM_SESSION_SOCKET:-}" ] || at='' where=--socket
# shellcheck disable=SC2086 # two words, or none
exec python3 -c "$TANDEM_SESSION_GUARD" "$program" $at --auth none --disable-telemetry --disable-update-check "$HOME" $where
