#!/bin/sh
# Starts sackd on a login machine (host_login.c). Environment: TD_DIR (the key), TD_SERVERS (where slurmctld is),
# TD_STANDIN, TD_KEEP (host-keep.sh).
# It ends when who watches it ends, because a second one could not take its socket.
set -eu
umask 022
mkdir -p /run/slurm /opt/tandem
# As SlurmUser: slurmctld makes a new configuration's word for nobody else (docs/facts/slurm.md S-A15).
rm -rf /run/slurm/conf
chown slurm: /run/slurm
"$TD_STANDIN" copy /opt/tandem # the plug-ins of srun and sbatch
export SLURM_SACK_KEY="$TD_DIR/slurm.key"
[ ! -e "$TD_DIR/slurm.jwks" ] || export SLURM_SACK_JWKS="$TD_DIR/slurm.jwks"
exec setpriv --pdeathsig TERM unshare --mount --propagation slave sh -c '
	# The key of another Slurm would be taken first.
	[ ! -d /etc/slurm ] || mount -t tmpfs -o mode=755 tmpfs /etc/slurm
	exec sh -c "$TD_KEEP" tandem-host setpriv --reuid slurm --regid slurm --clear-groups \
		"$(command -v sackd)" -D --conf-server "$TD_SERVERS"'
