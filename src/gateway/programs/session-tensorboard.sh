#!/bin/sh
# What a session "tensorboard" runs: TensorBoard on the directory of the run $TANDEM_SESSION_RUN, without it on those of all runs. It comes from the environment
# $TANDEM_SESSION_ENV (its directory, below the home or absolute), else from PATH, else from an environment that was made for a run. TensorBoard asks nobody who
# he is: so it listens inside of the pod only, and $TANDEM_SESSION_GUARD (session-guard.py) stands before it.
set -u
cd "$HOME" || exit 1
logs=$HOME/tandem/runs${TANDEM_SESSION_RUN:+/$TANDEM_SESSION_RUN}
if [ ! -d "$logs" ]; then
	echo "There is no run ${TANDEM_SESSION_RUN:-yet}: \`tandem ps\` lists yours." >&2
	exit 127
fi
if [ -n "${TANDEM_SESSION_ENV:-}" ]; then
	if [ ! -d "$TANDEM_SESSION_ENV/bin" ]; then
		echo "There is no environment at $TANDEM_SESSION_ENV: give --env the directory that has its bin/, below your home or absolute." >&2
		exit 127
	fi
	PATH=$(cd "$TANDEM_SESSION_ENV" && pwd)/bin:$PATH
	export PATH
fi
program=$(command -v tensorboard)
for own in "$HOME"/tandem/envs/*/bin/tensorboard; do
	if [ -z "$program" ] && [ -x "$own" ]; then
		program=$own
		PATH=${own%/*}:$PATH
		export PATH
	fi
done
if [ -z "$program" ]; then
	echo "There is no TensorBoard in ${TANDEM_SESSION_ENV:-this image or your environments}: name tensorboard in a run's requirements.txt, or make an environment" \
		"that has it (python3 -m venv ~/board && ~/board/bin/pip install tensorboard) and give --env board, or give an --image that has one." >&2
	exit 127
fi
prefix=${TANDEM_SESSION_PATH%/}
exec python3 -c "$TANDEM_SESSION_GUARD" "$program" --logdir "$logs" --path_prefix "$prefix" --host 127.0.0.1 --port
