#!/bin/sh
# A way into a session on a machine without a kubelet, for one connection: the gateway runs this in a login pod with the connection as its input and output.
# A step of the session's own job, started as its owner: Slurm lets him into no other person's job, and the step ends with the job. Not as root, and with
# nothing of this pod's environment.
# $1 uid, $2 gid, $3 the job, $4 the user, $5 the home, $6 the job's container in which it runs, "": outside; $7 its first node, $8 on how many of its
# nodes the program runs (of more than one whole lines come); then the program there and its arguments.
uid=$1 gid=$2 job=$3 user=$4 home=$5 container=$6 first=$7 nodes=$8
shift 8
if [ "$nodes" -gt 1 ]; then
	where=--ntasks-per-node=1
else
	where=--unbuffered
fi
exec setpriv --reuid="$uid" --regid="$gid" --clear-groups --no-new-privs --inh-caps=-all \
	env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$home" USER="$user" LOGNAME="$user" ${SLURM_CONF:+SLURM_CONF="$SLURM_CONF"} \
	${container:+PYXIS_CONTAINER_NAME="$container"} \
	srun --jobid="$job" --overlap --nodes="$nodes" --ntasks="$nodes" --nodelist="$first" "$where" --quiet --mpi=none --cpu-bind=none --chdir=/ -- "$@"
