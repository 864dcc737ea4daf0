#!/bin/sh
# In the container slurmdbd: writes what is in the embedded database as SQL (dump), as it was at one moment, or
# puts what was written into its place (restore) and lets slurmdbd start anew. docs/accounting.md
set -eu
db=slurm_acct_db
sql() { mariadb --no-defaults -S /run/mysqld/mysqld.sock --default-character-set=binary "$@"; }
ask() { sql -N -B --raw -e "$1" "$db"; }

case ${1:-} in
dump)
	echo "drop database if exists $db; create database $db; use $db; set foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO';"
	tables=$(ask "select table_name from information_schema.tables where table_schema = '$db' and table_type = 'BASE TABLE'")
	for t in $tables; do
		ask "show create table \`$t\`" | sed "1s/^[^\t]*\t//"
		echo ';'
	done
	# One session, so that all tables are of one moment.
	{
		echo 'start transaction with consistent snapshot;'
		ask "set group_concat_max_len = 1048576;
			select concat('select concat(\\'insert into \`', table_name, '\` values (\\',',
				group_concat(concat('ifnull(quote(\`', column_name, '\`), \\'NULL\\')') order by ordinal_position separator ', \\', \\', '),
				', \\');\\') from \`', table_name, '\`;')
			from information_schema.columns join information_schema.tables using (table_schema, table_name)
			where table_schema = '$db' and table_type = 'BASE TABLE' group by table_name"
	} | sql -N -B --raw "$db"
	echo '-- complete'
	;;
restore)
	[ ! -t 0 ] || { echo 'give what dump has written as standard input' >&2 && exit 2; }
	file=$(mktemp /tmp/restore.XXXXXX)
	trap 'rm -f "$file"' EXIT
	cat >"$file"
	[ "$(tail -n 1 "$file")" = '-- complete' ] || { echo 'this is no whole dump: nothing was changed' >&2 && exit 1; }
	sql <"$file"
	for p in /proc/[0-9]*; do
		if read -r name <"$p/comm" 2>/dev/null && [ "$name" = slurmdbd ]; then kill "${p#/proc/}"; fi
	done
	;;
*) echo 'usage: database.sh dump|restore' >&2 && exit 2 ;;
esac
