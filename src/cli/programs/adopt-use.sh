#!/bin/sh
# What `tandem adopt use` runs. In the login pod, as root:
# books CLUSTER: prints the associations of slurmdbd, a line "==", and its TRES. shown FORMAT: what sshare says.
# In the slurmctld container of the first slurmctld, as Slurm's user:
# taken: prints what was given before, a line ACCOUNT|USER|PARTITION each; and "waits" while slurmctld has not read it.
# give: takes such lines from standard input, a line "==", records, and "==" again, without which it takes nothing: the
# other end may be gone half-way. slurmctld.sh puts them to its state at its start.
# again: ends slurmctld, which saves its state; its container starts it again.
# up: fails until slurmctld has read what was given, and answers.
set -eu
state=/var/lib/slurm/slurmctld
use=$state/tandem-use
case $1 in
books)
	sacctmgr -nP show assoc cluster="$2" format=id,account,user,partition
	echo '=='
	sacctmgr -nP show tres format=type,name,id
	;;
shown) sshare -a -m -P -o "$2" ;;
taken)
	cat "$state/tandem-use-taken" "$use/taken" 2>/dev/null || :
	[ ! -e "$use" ] || echo waits
	;;
give)
	rm -rf "$use.new"
	mkdir -m 700 "$use.new"
	cat "$state/tandem-use-taken" >"$use.new/taken" 2>/dev/null || :
	while IFS= read -r row && [ "$row" != == ]; do printf '%s\n' "$row"; done >>"$use.new/taken"
	# shellcheck disable=SC2059 # the line is what printf makes bytes of
	while IFS= read -r record && [ "$record" != == ]; do printf "$record"; done >"$use.new/records"
	[ "${record:-}" = == ] || { echo 'what was to be given did not come whole' >&2 && exit 1; }
	mv -T "$use.new" "$use"
	;;
again)
	for f in "$state/slurmctld.pid" /run/slurmctld/slurmctld.pid; do
		[ ! -s "$f" ] || pid=$(cat "$f")
	done
	[ "$(cat "/proc/${pid:-none}/comm" 2>/dev/null)" = slurmctld ] || { echo 'slurmctld does not run' >&2 && exit 1; }
	kill "$pid"
	;;
up) [ ! -e "$use" ] && timeout 10 scontrol show config >/dev/null 2>&1 ;;
esac
