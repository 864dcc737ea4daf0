#!/bin/sh
# Starts slurmdbd. $1: slurmdbd.conf without the lines of the database. Environment: TD_DB_HOST, TD_DB_PORT,
# TD_DB_NAME, TD_DB_USER and TD_DB_PASS of a database that somebody else runs; else it is MariaDB in this pod.
set -eu
umask 077
conf=/run/slurmdbd/slurmdbd.conf
rm -f "$conf"
{
	printf '%s' "$1"
	if [ -n "${TD_DB_HOST:-}" ]; then
		printf 'StorageHost=%s\nStoragePort=%s\nStorageLoc=%s\nStorageUser=%s\nStoragePass=%s\n' \
			"$TD_DB_HOST" "${TD_DB_PORT:-3306}" "$TD_DB_NAME" "$TD_DB_USER" "$TD_DB_PASS"
	else
		printf 'StorageHost=localhost\nStorageLoc=slurm_acct_db\nStorageUser=slurm\n'
	fi
} >"$conf"
unset TD_DB_PASS
: >/run/slurmdbd/slurm.conf

# slurmdbd tries a database that is away only once in 5 s, and ends once it has made its own (24.11.5 with
# MariaDB 11.8: error 5027 on the connection that made it). Its client is not
# started before there is a socket.
if [ -z "${TD_DB_HOST:-}" ]; then
	until [ -S /run/mysqld/mysqld.sock ] && mariadb --no-defaults -S /run/mysqld/mysqld.sock -e 'create database if not exists slurm_acct_db' >/dev/null 2>&1; do
		sleep 0.05
	done
fi
sh /etc/slurm/accounts.sh &

# It reads keys only when it starts. slurmctld keeps what is to be recorded meanwhile.
keys() { cat /etc/slurm-keys/* /etc/slurm-jwt/* 2>/dev/null | cksum; }
# Whether the keys were mounted anew since the last look: by the times of the links that a kubelet changes then, which
# costs no process.
mounted() {
	anew=
	for d in slurm-keys slurm-jwt; do
		[ -e "/etc/$d" ] || continue
		[ -e "/etc/$d/..data" ] || { anew=yes && continue; } # no kubelet has mounted it
		# shellcheck disable=SC3013 # -nt and -ot are in POSIX since 2024, and in every sh before
		[ -e "/run/slurmdbd/$d" ] && [ ! "/etc/$d/..data" -nt "/run/slurmdbd/$d" ] && [ ! "/etc/$d/..data" -ot "/run/slurmdbd/$d" ] && continue
		touch -r "/etc/$d/..data" "/run/slurmdbd/$d" && anew=yes
	done
	[ -n "$anew" ]
}
dbd='' ending=''
trap 'ending=yes; [ -z "$dbd" ] || kill "$dbd"' TERM
while :; do
	had=$(keys) new=
	slurmdbd -D &
	dbd=$!
	while [ -z "$ending" ] && kill -0 "$dbd" 2>/dev/null; do
		sleep 1 &
		wait $! || :
		! mounted || [ "$(keys)" = "$had" ] || { new=yes && kill "$dbd" && break; }
	done
	until wait "$dbd" && code=0 || code=$?; ! kill -0 "$dbd" 2>/dev/null; do :; done
	[ -n "$new" ] && [ -z "$ending" ] || exit "$code"
done
