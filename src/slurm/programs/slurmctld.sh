#!/bin/sh
# Starts slurmctld (its command is the arguments) so that it gives no job id twice: tandem-standin
# first-job-id says why and how.
set -eu
etc=/run/slurmctld/etc
mkdir -p "$etc"
rm -f "$etc"/*
cp -L /etc/slurm/* "$etc"/

number() { sed -n "s/^ *$1 *= *\([0-9][0-9]*\).*/\1/Ip" "$etc/slurm.conf" | tail -n 1; }
first=$(number FirstJobId)
max=$(number MaxJobId)
next=$(/opt/tandem/tandem-standin first-job-id --state /var/lib/slurm/slurmctld --first "$first" --max "$max")

sed -i '/^ *FirstJobId *=/Id' "$etc/slurm.conf"
echo "FirstJobId=$next" >>"$etc/slurm.conf"

# slurmctld refuses a database that knows its cluster by another number (CLUSTER ID MISMATCH). After a move to
# another database that one's number counts, and one in its own pod may always be new. The operator sees to it
# that no two clusters of one name meet in a database.
state=/var/lib/slurm/slurmctld
last=$(cat "$state/tandem-database" 2>/dev/null) || last=
if [ -e "$state/clustername" ]; then
	case ${TD_DATABASE:-} in
	own-*) sed -i 's/|.*//' "$state/clustername" ;;
	"$last") ;;
	*) sed -i 's/|.*//' "$state/clustername" ;;
	esac
fi
echo "${TD_DATABASE:-}" >"$state/tandem-database"

# The script that looks at each submit, if the image has the plug-in for it and the object names no other one.
if ! grep -qi '^ *JobSubmitPlugins *=' "$etc/slurm.conf"; then
	for plugin in /usr/lib/*/slurm*/job_submit_lua.so /usr/lib*/slurm*/job_submit_lua.so /usr/local/lib*/slurm*/job_submit_lua.so; do
		[ ! -e "$plugin" ] || { echo 'JobSubmitPlugins=lua' >>"$etc/slurm.conf" && break; }
	done
fi
# Without a program that sends mail it refuses jobs that ask for mail.
grep -qx 'MailProg=/bin/false' "$etc/slurm.conf" || : >"$etc/tandem-mail"

# The word with which Tandem's bridge says that an allocation goes past those who wait: job_submit.lua knows it,
# and nobody else. The bridge derives the same from the key (src/bridge/scheduler/passes.h).
(umask 077 && { printf 'tandem word ' && cat /etc/slurm-jwt/jwt_hs256.key; } | sha256sum | cut -c1-64 >"$etc/tandem-word")

# slurmctld reads job_submit.lua again when that file is newer; the site's part of it is another file.
lua=/etc/tandem/site/job-submit.lua
[ ! -e "$lua" ] || cp -L "$lua" "$etc/tandem-site.lua"
while sleep 2; do
	[ ! -e "$lua" ] || cmp -s "$lua" "$etc/tandem-site.lua" || { cp -L "$lua" "$etc/tandem-site.lua" && touch "$etc/job_submit.lua"; }
done &
sh /etc/slurm/accounts.sh &
exec "$@" -f "$etc/slurm.conf"
