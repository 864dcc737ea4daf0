#!/bin/sh
# MariaDB for slurmdbd, in the same pod: no port, and one account, slurm, whom the socket knows by his uid.
set -eu
umask 077
dir=/var/lib/mysql socket=/run/mysqld/mysqld.sock cnf=/run/mysqld/my.cnf
rm -f "$socket"
cat >"$cnf" <<EOF
[mysqld]
datadir=$dir/data
socket=$socket
pid-file=/run/mysqld/mysqld.pid
skip-networking
skip-name-resolve
performance-schema=OFF
max-allowed-packet=16M
innodb-buffer-pool-size=${TD_DB_BUFFER:-128M}
innodb-log-file-size=32M
innodb-lock-wait-timeout=900
loose-innodb-snapshot-isolation=OFF
EOF

# Made beside its place, so that a first start that is cut off leaves nothing half-made.
if [ ! -d "$dir/data" ]; then
	rm -rf "$dir/new"
	mkdir "$dir/new"
	mariadb-install-db --defaults-file="$cnf" --datadir="$dir/new" --auth-root-authentication-method=socket \
		--auth-root-socket-user=slurm --skip-test-db --force >/run/mysqld/install.log || {
		cat /run/mysqld/install.log >&2
		exit 1
	}
	sync
	mv "$dir/new" "$dir/data"
fi
exec mariadbd --defaults-file="$cnf"
