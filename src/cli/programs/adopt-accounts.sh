#!/bin/sh
# What `tandem adopt accounts` runs in the login pod, as root, whom slurmdbd takes for an administrator.
# books CLUSTER COLUMNS: prints what is in slurmdbd: a dump, a line "==", and the QOS.
# take: makes what standard input says, a command of sacctmgr's in each line.
set -eu
case $1 in
books)
	t=$(mktemp -d)
	trap 'rm -rf "$t"' EXIT
	sacctmgr -Q dump "$2" file="$t/dump" >"$t/said" 2>&1 || {
		cat "$t/said" >&2
		exit 1
	}
	cat "$t/dump"
	echo '=='
	sacctmgr -P show qos format="$3"
	;;
take)
	# It ends with 1 when one command was refused: what was taken is seen in the books.
	sacctmgr -i 2>&1 || true
	;;
esac
