#!/bin/sh
# Starts slurmd on a machine that is no pod (host.c). Environment: TD_DIR (the key, and hosts), TD_NODE, TD_CONF (what
# slurmd tells slurmctld of the node), TD_SERVERS (where slurmctld is), TD_SLURMD, TD_STANDIN, TD_KEEP (host-keep.sh).
# slurmd and its jobs see /etc/hosts with slurmctld's names, which only the pods' network knows; nobody else does. It
# ends when who watches it ends, because a second one could not take its port; the steps of jobs do not.
set -eu
umask 022
mkdir -p /var/spool/slurmd /run/slurm /opt/tandem /etc/tandem/site
"$TD_STANDIN" copy /opt/tandem
# With spec.fabric slurm.conf names this one for all nodes, and no task starts where it is not.
[ -e /etc/tandem/site/task-prolog.sh ] || ln -sf /opt/tandem/task-prolog /etc/tandem/site/task-prolog.sh
# What people type in a session over several machines (docs/host.md), where every login shell finds it.
[ -e /usr/local/bin/tandem-run ] || ln -sf /opt/tandem/tandem-standin /usr/local/bin/tandem-run || :
export SLURM_SACK_KEY="$TD_DIR/slurm.key"
[ ! -e "$TD_DIR/slurm.jwks" ] || export SLURM_SACK_JWKS="$TD_DIR/slurm.jwks"
# The directory that /run/slurm is there: a slurmd that comes later has the same, and its jobs find its socket.
mkdir -p "$TD_DIR/slurm"
chmod 755 "$TD_DIR/slurm"
exec setpriv --pdeathsig TERM unshare --mount --propagation slave sh -c '
	mount --bind "$TD_DIR/hosts" /etc/hosts
	mount --bind "$TD_DIR/slurm" /run/slurm
	# What another Slurm has on this machine, its configuration, its key and its sockets, would be taken first.
	for d in /etc/slurm /run/slurmctld /run/slurmdbd; do
		[ ! -d "$d" ] || mount -t tmpfs -o mode=755 tmpfs "$d"
	done
	# The service for images of containers in jobs (src/spank/keep.h), while the pool has them. What jobs left that a start
	# of the machine has ended is removed first. It ends with slurmd; the next one finds the containers of jobs that go on.
	setpriv --pdeathsig TERM sh -c "
		while sleep 1; do
			[ -e /etc/tandem/users/containers.conf ] || continue
			[ -e /run/tandem-container.fresh ] || /opt/tandem/tandem-container fresh || continue
			: >/run/tandem-container.fresh
			setpriv --pdeathsig TERM /opt/tandem/tandem-container keep
		done" &
	exec sh -c "$TD_KEEP" tandem-host "$TD_SLURMD" -D -Z -N "$TD_NODE" --conf-server "$TD_SERVERS" --conf "$TD_CONF"'
