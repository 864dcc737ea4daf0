#!/bin/sh
# What the further nodes of a session run whose kind brings its own program: they wait for what `tandem-run` says on the first one (tandem-standin worker).
# $TANDEM_SESSION_ENV: an environment (its directory, below the home or absolute) whose programs come first.
set -u
cd "$HOME" || exit 1
if [ -n "${TANDEM_SESSION_ENV:-}" ] && [ -d "$TANDEM_SESSION_ENV/bin" ]; then
	dir=$(cd "$TANDEM_SESSION_ENV" && pwd)
	PATH=$dir/bin:$PATH
	export PATH
	[ ! -e "$dir/pyvenv.cfg" ] || export VIRTUAL_ENV="$dir"
fi
exec /opt/tandem/tandem-standin worker --port "$PORT"
