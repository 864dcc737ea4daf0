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
# The owner reads it in `tandem session list`, which the comment of the job leads to; in the log it stands, too.
fail() {
	echo "$1" >&2
	[ -z "${2:-}" ] || sed 's/^/  /' "$2" >&2
	scontrol update jobid="$SLURM_JOB_ID" comment="$(printf %.280s "$1" | tr '\n' ' ')" >/dev/null 2>&1
	exit 1
}
# One over several machines: this runs on the first one, and srun, mpirun and tandem-run start programs on the others, as in every Slurm job.
if [ -n "${TANDEM_SESSION_NODES:-}" ]; then
	if ! command -v srun >/dev/null || ! command -v scontrol >/dev/null; then
		echo "This machine has no srun: a session over several nodes needs the package slurm-client on each of them." >&2
		exit 127
	fi
	TANDEM_GANG_HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd , -) || exit
	MASTER_ADDR=$SLURMD_NODENAME MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
	WORLD_SIZE=$TANDEM_SESSION_NODES NNODES=$TANDEM_SESSION_NODES RANK=0 NODE_RANK=0
	export TANDEM_GANG_HOSTS MASTER_ADDR MASTER_PORT WORLD_SIZE NNODES RANK NODE_RANK
	# ssh comes by a step of its own, on this node alone: there it is as here (session-ssh.sh).
	export -p | grep -E '^export (SLURM_|SRUN_|TANDEM_GANG_HOSTS|TANDEM_NODE_GPUS|TANDEM_SESSION_NODES|MASTER_|WORLD_SIZE|NNODES|RANK|NODE_RANK)' >"$dir/nodes"
	# What one program is over all nodes, runs on all.
	[ -z "${TANDEM_SESSION_ALL:-}" ] || set -- /opt/tandem/tandem-standin on-nodes -- "$@"
fi
# An image on several machines: this script stays outside, where srun is. Each machine makes the container, which lives as long as the job and which every step
# with its name is in; who has none is named. What starts programs on the other machines from inside (tandem-run) asks the worker here, at a socket of the session's.
if [ -n "${TANDEM_SESSION_IMAGE:-}" ]; then
	export PYXIS_CONTAINER_IMAGE="$TANDEM_SESSION_IMAGE" PYXIS_CONTAINER_NAME="$TANDEM_SESSION_CONTAINER"
	unset TANDEM_SESSION_IMAGE TANDEM_SESSION_CONTAINER
	made=$dir/made
	mkdir "$made" || exit 1
	for host in $(echo "$TANDEM_GANG_HOSTS" | tr , ' '); do
		(srun --overlap --nodes=1 --ntasks=1 --nodelist="$host" --input=none --quiet --mpi=none --cpu-bind=none \
			/opt/tandem/tandem-standin --help >/dev/null 2>"$made/$host.said" && : >"$made/$host") &
	done
	wait
	for host in $(echo "$TANDEM_GANG_HOSTS" | tr , ' '); do
		[ -e "$made/$host" ] && continue
		said=$(sed -n 's/.*error: container: //p' "$made/$host.said" | head -n 1)
		fail "machine $host has no container of $PYXIS_CONTAINER_IMAGE: ${said:-$(head -n 1 "$made/$host.said")}" "$made/$host.said"
	done
	rm -rf "$made"
	/opt/tandem/tandem-standin worker --socket "$dir/steps" 9>&- &
	export TANDEM_SESSION_STEPS="$dir/steps"
	echo "export TANDEM_SESSION_STEPS='$dir/steps'" >>"$dir/nodes"
	[ -n "${TANDEM_SESSION_ALL:-}" ] || set -- srun --overlap --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" --input=none --quiet --mpi=none --cpu-bind=none -- "$@"
fi
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
