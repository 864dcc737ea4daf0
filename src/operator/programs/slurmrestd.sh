#!/bin/sh
# Starts slurmrestd at a socket that only its own user can reach. $1: the socket's path; $2: what it
# serves (slurmrestd -s).
set -eu
umask 077
mkdir -p "$(dirname "$1")"
sh /etc/slurm/accounts.sh &
exec slurmrestd -a rest_auth/jwt -s "$2" "unix:$1"
