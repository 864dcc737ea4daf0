#!/bin/sh
# What a session "jupyter" runs: JupyterLab, or the notebook server, from where the person has it: the environment $TANDEM_SESSION_ENV (its directory, below the
# home or absolute), else PATH. It answers only to who has $TANDEM_SESSION_TOKEN: the gateway, for the session's owner.
set -u
cd "$HOME" || exit 1
if [ -n "${TANDEM_SESSION_ENV:-}" ]; then
	if [ ! -d "$TANDEM_SESSION_ENV/bin" ]; then
		echo "There is no environment at $TANDEM_SESSION_ENV: give --env the directory that has its bin/, below your home or absolute." >&2
		exit 127
	fi
	dir=$(cd "$TANDEM_SESSION_ENV" && pwd)
	PATH=$dir/bin:$PATH
	export PATH
	[ ! -e "$dir/pyvenv.cfg" ] || export VIRTUAL_ENV="$dir"
fi
for program in jupyter-lab jupyter-notebook jupyter-server ''; do
	[ -n "$program" ] || break
	! command -v "$program" >/dev/null || break
done
if [ -z "$program" ]; then
	echo "There is no JupyterLab or notebook server in ${TANDEM_SESSION_ENV:-this image}: make an environment that has one" \
		"(python3 -m venv ~/jupyter && ~/jupyter/bin/pip install jupyterlab) and give --env jupyter, or give an --image that has one." >&2
	exit 127
fi
# Before version 7 the notebook is a program of its own, with other names for the same settings.
app=ServerApp
which=$program:$("$program" --version 2>/dev/null)
case $which in jupyter-notebook:[456].*) app=NotebookApp ;; esac
export JUPYTER_TOKEN="$TANDEM_SESSION_TOKEN" SHELL="${SHELL:-/bin/sh}"
unset TANDEM_SESSION_TOKEN
if [ -n "${TANDEM_SESSION_SOCKET:-}" ]; then
	# On a machine that is others' too nothing is at a port, of the kernels neither (session-machine.sh).
	case $which in jupyter-notebook:[45].* | jupyter-notebook:6.[01].*)
		echo "The notebook server of ${TANDEM_SESSION_ENV:-this machine} is too old for a machine that others use, too: it needs version 6.2 or a later one, or JupyterLab." >&2
		exit 127
		;;
	esac
	export JUPYTER_RUNTIME_DIR="${TANDEM_SESSION_SOCKET%/*}/run"
	exec "$program" --no-browser --$app.sock="$TANDEM_SESSION_SOCKET" --KernelManager.transport=ipc --$app.base_url="$TANDEM_SESSION_PATH" \
		--$app.allow_remote_access=True --$app.quit_button=False
fi
exec "$program" --no-browser --ip=0.0.0.0 --port="$PORT" --$app.port_retries=0 --$app.base_url="$TANDEM_SESSION_PATH" --$app.allow_remote_access=True \
	--$app.quit_button=False
