#!/bin/sh
# Slurm's Prolog: the node's agent must have given the job its devices; then the site's own program runs.
# The first job of a user on a node makes what is his own on shared storage.
[ -e "/run/slurm/home-$SLURM_JOB_UID" ] || {
	timeout 20 sh /etc/tandem/users/homes.sh "$SLURM_JOB_USER" && touch "/run/slurm/home-$SLURM_JOB_UID"
} </dev/null >/dev/null 2>&1
# On a node of another cluster nothing but stand-ins runs, and the devices are not here.
[ ! -e /run/slurm/other-cluster ] || exit 0
[ -e /etc/tandem/site/prolog ] || exec /opt/tandem/tandem-standin gate
/opt/tandem/tandem-standin gate || exit
exec /etc/tandem/site/prolog
