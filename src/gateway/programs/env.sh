#!/bin/sh
# Makes a Python environment, as a Slurm job of its own (need.h): a venv in .made/KEY.JOB with what pip
# installs for .want/KEY, and the link KEY to it once all of it is there. Its last lines, when it
# fails, are pip's own words.
set -u
key="$TANDEM_MAKE" top="$PWD" python="$TANDEM_PYTHON"
tree="$top/.made/$key.$SLURM_JOB_ID" log="$top/.log/$key-$SLURM_JOB_ID.out"

if [ -e "$key" ]; then
	echo "The environment $key is there already."
	exit 0
fi
if ! command -v "$python" >/dev/null; then
	echo "The image of this node has no $python."
	echo "It has: $(cd /usr/bin && echo python3*)."
	echo "Leave \"python\" out of the environment, or use an image that has it."
	exit 1
fi
if [ "$(uname -m)" != "$TANDEM_ARCH" ]; then
	echo "This node is $(uname -m), and the environment is for $TANDEM_ARCH."
	exit 1
fi

# What jobs of this key left that did not come to their end. No two of them run at once.
rm -rf "$top/.made/$key".*
trap 'rm -rf "$tree"' EXIT
trap 'exit 143' TERM INT

if ! "$python" -m venv "$tree"; then
	echo "The image of this node has no venv for $python (Debian's python3-venv)."
	exit 1
fi
set -- -r ".want/$key"
case "$TANDEM_INDEX" in
'') ;;
"~"/*) set -- --no-index --find-links "$HOME/${TANDEM_INDEX#??}" "$@" ;;
/*) set -- --no-index --find-links "$TANDEM_INDEX" "$@" ;;
*) set -- --index-url "$TANDEM_INDEX" "$@" ;;
esac
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off "$tree/bin/python" -m pip install "$@"
code=$?
if [ $code -ne 0 ]; then
	words=$(grep -a '^ *ERROR' "$log" | tail -n 3)
	[ -n "$words" ] || words=$(tail -n 3 "$log")
	printf 'pip install failed with exit code %s:\n%s\n' "$code" "$words"
	exit 1
fi

"$tree/bin/python" - "$tree" >"$tree/tandem.json" <<'END' || exit 1
import json, os, platform, sys, sysconfig, time
from importlib.metadata import distributions
size = sum(os.lstat(os.path.join(d, f)).st_size for d, _, files in os.walk(sys.argv[1]) for f in files)
print(json.dumps({"kind": "venv", "python": platform.python_version(), "architecture": platform.machine(),
                  "packages": sum(1 for _ in distributions()), "bytes": size, "made": int(time.time())}))
END
touch "$tree/.used"
# A link is made in one step; it fails where one is.
ln -s ".made/$key.$SLURM_JOB_ID" "$key" || exit 1
trap - EXIT
echo "The environment $key is made."
