#!/bin/bash
# Starts a node's slurmd. Environment: TD_NODE (its name), TD_NODE_CONF (what it tells slurmctld about the
# node), TD_CONTROLLER (slurmctld's host, where the configuration names none), TD_DEAD_REASON (why a node is drained whose jobs died with the
# container before this one), TD_HELD (the reason with which a node that Slurm does not know yet registers drained,
# because it is tested first), TD_CGROUPS (not empty beside a kubelet), TD_SCRATCH (where jobs have a /tmp of their
# own: the share of its disk that one may ask for), TD_OTHER_CLUSTER (how many GPUs the node has, where it is one of
# another Kubernetes cluster: only stand-ins of pods run here).

# On a kubelet a container sees its own cgroups read-only; proctrack/cgroup and ConstrainDevices need to
# write there. With SYS_ADMIN the mounts, which are this container's own, become writable; nothing of the
# host's does.
[ -z "$TD_CGROUPS" ] || for m in /sys/fs/cgroup /sys/fs/cgroup/*; do
	mountpoint -q "$m" && mount -o remount,bind,rw "$m"
done
for f in passwd group; do ln -sf "/etc/tandem/users/$f" "/etc/$f"; done
mkdir -p /etc/ssh/ssh_config.d && ln -sf /etc/tandem/users/ssh_config /etc/ssh/ssh_config.d/tandem.conf


# Each job's own /tmp and /dev/shm (src/spank/scratch.h). Nothing of jobs of an earlier container is left when the
# first job comes, and /tmp here is another one from now on.
[ -z "${TD_SCRATCH:-}" ] || /opt/tandem/tandem-container scratch fresh || exit
# File systems of storage groups lie below, for the jobs of those who have them (src/spank/groupfs.h): nobody gets there but root.
[ ! -d /var/lib/tandem/groups ] || chmod 0700 /var/lib/tandem/groups || exit
# No other directory here is everybody's: what jobs leave there would stay, and nothing limits it.
[ -z "${TD_SCRATCH:-}" ] || chmod -f o-w /run/lock
# What of their disk jobs may ask for (--tmp). It is what Slurm reads of /tmp here, or less.
[ -z "${TD_SCRATCH:-}" ] || [[ " $TD_NODE_CONF" == *" TmpDisk="* ]] || {
	megabytes=$(/opt/tandem/tandem-container scratch size "$TD_SCRATCH") && [ "$megabytes" -gt 0 ] &&
		TD_NODE_CONF+=" TmpDisk=$megabytes"
}

# The site's services come first: a node that they have not prepared takes no jobs.
services=/etc/tandem/site/services.sh
[ ! -e $services ] || sh $services start compute || exit
[ ! -e $services ] || { bash $services follow compute & }

# Clients need sackd's socket until slurmd has its own.
conf=/etc/tandem/users/slurm.conf sack=
mkdir -p /run/slurm
# GPUs of several types: src/standin/gate.c says for what it has to know.
rm -f /run/slurm/several-gpu-types /run/slurm/gpu-shares
[[ $TD_NODE_CONF != *gpu:*:*,gpu:*:* ]] || : >/run/slurm/several-gpu-types
[[ $TD_NODE_CONF != *,shard:* ]] || : >/run/slurm/gpu-shares
# A node of another cluster: its Prolog asks no agent, and what Slurm takes for its GPUs are these files.
rm -rf /run/slurm/other-cluster
[ -z "${TD_OTHER_CLUSTER:-}" ] || {
	mkdir -p /run/slurm/other-cluster
	for ((i = 0; i < TD_OTHER_CLUSTER; i++)); do : >"/run/slurm/other-cluster/gpu$i"; done
}
command -v sackd >/dev/null && {
	sackd -D -f $conf 2>/dev/null &
	sack=$!
}

# The hosts of slurmctld: one, or the first and its backup.
controllers() {
	local two
	two=$(sed -n 's/^SlurmctldHost=.*(\(.*\))$/\1/p' $conf)
	echo "${two:-$TD_CONTROLLER}"
}
servers() { controllers | sed 's/$/:6817/' | paste -sd ,; }

# A slurmd that finds no controller tries again only after 10 s, so look every 20 ms before one is started
# (`read` on a pipe that nobody writes is a sleep without a process). A try that hangs, on the address of a
# controller's pod that is gone, is given up after a second and the name is looked up again.
await_controller() {
	exec 8<> <(:) 9<> <(:)
	local host tries=() up=
	while [ -z "$up" ]; do
		for host in $(controllers); do
			(
				until : 3<>"/dev/tcp/$host/6817"; do read -rt 0.02 -u 8; done
				echo up >&9
			) &
			tries+=($!)
		done
		read -rt 1 -u 9 && up=yes
		kill "${tries[@]}"
		tries=()
	done 2>/dev/null
	exec 8>&- 9>&-
}

# A kubelet makes all that runs here what is killed first when memory is short, and Slurm puts its tasks
# back to 0 where it may: a job over its memory would then lose slurmstepd first, and run for ever. So
# slurmd's own value is that of the tasks. Where this is refused, Slurm is refused too.
[ -z "$TD_CGROUPS" ] || { echo 0 >/proc/self/oom_score_adj; } 2>/dev/null

# The service for images (src/spank/keep.h). What jobs of an earlier container of this pod left is removed.
[ -z "${TD_CONTAINERS:-}" ] || {
	/opt/tandem/tandem-container fresh
	while sleep 1; do /opt/tandem/tandem-container keep; done &
}

# Whose each job is, for the filter of system calls of its project (src/spank/filter.h).
# Slurm passes over a plug-in that is not there, and the job would have no filter: of an older release is /opt/tandem then.
[ -z "${TD_FILTERS:-}" ] || [ -e /opt/tandem/tandem-filter.so ] || {
	words="/opt/tandem has no tandem-filter.so, so native jobs would run without their project's filter of system calls; bring Tandem's files of the operator's release there"
	echo "tandem: $words" >&2
	printf '%s' "$words" 2>/dev/null >"${TD_LAST_WORDS:-/dev/termination-log}"
	exit 1
}
[ -z "${TD_FILTERS:-}" ] || { mkdir -p /run/tandem-accounts && chmod 0700 /run/tandem-accounts; } || exit
# Removes what jobs leave in their own /tmp and /dev/shm, and ends those that hold too much there.
[ -z "${TD_SCRATCH:-}" ] ||
	while :; do
		/opt/tandem/tandem-container scratch keep
		sleep 1
	done &

# The server for tests of several nodes before a job (src/standin/peer.h).
[ -z "${SLURM_SACK_KEY:-}" ] ||
	while :; do
		/opt/tandem/tandem-standin peer --node "$TD_NODE" --key "$SLURM_SACK_KEY"
		sleep 5
	done &
# Looks for jobs that hang, and queues those again that move (src/standin/watch.h). /run/munge: it is asked who root is.
{ [ -z "${SLURM_SACK_KEY:-}" ] && [ ! -d /run/munge ]; } ||
	while :; do
		/opt/tandem/tandem-standin watch --node "$TD_NODE"
		sleep 5
	done &

await_controller
[ -z "$sack" ] || {
	socket=()
	[ ! -d /run/munge ] || socket=(--sack /run/munge/munge.socket.2) # sackd has none then
	# State and Reason are read as the record is made, never later (docs/facts/slurm.md S-N25).
	[ -z "${TD_HELD:-}" ] || SLURM_CONF=$conf scontrol show node "$TD_NODE" >/dev/null 2>&1 ||
		TD_NODE_CONF+=" State=DRAIN Reason=\"$TD_HELD\""
	SLURM_CONF=$conf /opt/tandem/tandem-standin clear-dead --node "$TD_NODE" --reason "$TD_DEAD_REASON" "${socket[@]}"
	kill "$sack"
	wait "$sack"
} >&2

# Prints the revision of the configuration that slurmctld hands out now.
served() {
	rm -rf /run/slurm/conf
	sackd -D --conf-server "$(servers)" 2>/dev/null &
	for _ in {1..100}; do
		[ ! -s /run/slurm/conf/slurm.conf ] || break
		read -rt 0.02 -u 8
	done
	grep '^# Revision:' /run/slurm/conf/slurm.conf 2>/dev/null
	kill $! && wait $!
	rm -rf /run/slurm/conf # slurmd makes a link there
}

# A slurmctld that has not read a new configuration yet hands out the old one. With other devices than it
# expects a moment later a node would be refused for good, so wait for it; not for ever, because the file
# here may be the older one.
revision=$(grep '^# Revision:' $conf) && [ -n "$sack" ] && {
	exec 8<> <(:)
	for _ in {1..20}; do
		[ "$(served)" != "$revision" ] || break
		read -rt 0.5 -u 8
	done
	exec 8>&-
}

# slurmd reads its keys anew with its configuration, for which slurmctld asks when it has new keys too. Where the files
# came here later than there, it is told so here.
follow_keys() {
	exec 7<> <(:)
	local late=0 conf=/run/slurm/conf/slurm.conf
	while read -rt 2 -u 7 || kill -0 $$; do
		[ -e $conf ] && [ /etc/slurm-keys/..data -nt $conf ] || late=-1
		[ $((++late % 8)) != 3 ] || kill -HUP "$(cat /run/slurm/slurmd)"
	done
}
follow_keys >/dev/null 2>&1 & # holds nobody's output open who waits for its end

# The steps outlive a slurmd that somebody killed, as on every Slurm node: the next one finds them, if it
# is started in this container. One that ends by itself ends the container.
# A node that Slurm has asked for counts as there once it has started since then. Beside a kubelet it is the
# container that starts, not the machine, and slurmd -b says when that was. One that only takes over says nothing.
boot=()
[ -z "${TD_ON_DEMAND:-}" ] || boot=(-b)
ended=
trap 'ended=yes; kill "$slurmd"; sh $services stop' TERM
while :; do
	slurmd -D "${boot[@]}" -Z -N "$TD_NODE" --conf-server "$(servers)" --conf "$TD_NODE_CONF" &
	slurmd=$! boot=()
	echo "$slurmd" >/run/slurm/slurmd
	until wait "$slurmd"; code=$?; ! kill -0 "$slurmd" 2>/dev/null; do :; done
	[ "$code" -gt 128 ] && [ -z "$ended" ] || exit "$code"
	echo "tandem: slurmd was killed (signal $((code - 128))); the jobs go on, and it is started again" >&2
	await_controller
done
