#!/bin/sh
# Slurm's Prolog where slurmd runs it at a job's first launch on the node: what Slurm then says of its devices is whole.
# The site's own program follows.
# The first job of a user on a node makes what is his own on shared storage.
[ -e "/run/slurm/home-$SLURM_JOB_UID" ] || {
	timeout 20 sh /etc/tandem/users/homes.sh "$SLURM_JOB_USER" && : >"/run/slurm/home-$SLURM_JOB_UID"
} </dev/null >/dev/null 2>&1
# On a node of another cluster nothing but stand-ins runs, and the devices are not here.
[ ! -e /run/slurm/other-cluster ] || exit 0
[ -e /etc/tandem/site/prolog ] || exec /opt/tandem/tandem-standin gate --launch
/opt/tandem/tandem-standin gate --launch || exit
exec /etc/tandem/site/prolog
