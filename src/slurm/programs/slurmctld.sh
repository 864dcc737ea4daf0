#!/bin/sh
# Starts slurmctld (its command is the arguments) so that it gives no job id twice: tandem-standin
# first-job-id says why and how. While it runs, it is told to read each new configuration: `scontrol
# reconfigure` starts it anew in its place, with all that it knows.
set -eu
etc=/run/slurmctld/etc new=/run/slurmctld/etc.new next=
number() { sed -n "s/^ *$1 *= *\([0-9][0-9]*\).*/\1/Ip" "$new/slurm.conf" | tail -n 1; }

# Makes the files that slurmctld reads from those that are mounted. They all come from one moment: a kubelet
# changes a link.
files() {
	rm -rf "$new"
	mkdir -p "$new"
	mounted=/etc/slurm
	[ ! -e $mounted/..data ] || mounted=$(readlink -f $mounted/..data)
	cp -L "$mounted"/* "$new"/
	cp "$new/slurm.conf" "$new/asked"

	# Once a start; slurmctld counts on by itself.
	if [ -z "$next" ]; then
		first=$(number FirstJobId)
		max=$(number MaxJobId)
		next=$(/opt/tandem/tandem-standin first-job-id --state /var/lib/slurm/slurmctld --first "$first" --max "$max")
	fi
	sed -i '/^ *FirstJobId *=/Id' "$new/slurm.conf"
	echo "FirstJobId=$next" >>"$new/slurm.conf"

	# The script that looks at each submit, if the image has the plug-in for it and the object names no other one.
	if ! grep -qi '^ *JobSubmitPlugins *=' "$new/slurm.conf"; then
		for plugin in /usr/lib/*/slurm*/job_submit_lua.so /usr/lib*/slurm*/job_submit_lua.so /usr/local/lib*/slurm*/job_submit_lua.so; do
			[ ! -e "$plugin" ] || { echo 'JobSubmitPlugins=lua' >>"$new/slurm.conf" && break; }
		done
	fi
	# Without a program that sends mail it refuses jobs that ask for mail.
	grep -qx 'MailProg=/bin/false' "$new/slurm.conf" || : >"$new/tandem-mail"

	# The word with which Tandem's bridge says that an allocation goes past those who wait: job_submit.lua knows it,
	# and nobody else. The bridge derives the same from the key (src/bridge/scheduler/passes.h).
	(umask 077 && { printf 'tandem word ' && cat /etc/slurm-jwt/jwt_hs256.key; } | sha256sum | cut -c1-64 >"$new/tandem-word")
	[ ! -e "$lua" ] || cp -L "$lua" "$new/tandem-site.lua"

	mkdir -p "$etc"
	for f in "$etc"/*; do
		[ ! -e "$f" ] || [ -e "$new/${f##*/}" ] || rm -f "$f"
	done
	mv -f "$new"/* "$etc"/
}
lua=/etc/tandem/site/job-submit.lua
files

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

# A new configuration, and the site's part of job_submit.lua, which slurmctld reads again when that file is newer.
# slurmctld takes the place of this shell, so its end is the end of this.
# Not before it has settled: one that is told to read anew while it starts can hang for ever (S-C10), and every
# reading is a start. One that answers nobody any more is ended, and its container starts it again with its state.
reconfigure() {
	SLURM_CONF=$etc/slurm.conf timeout 30 scontrol reconfigure && return
	for _ in 1 2 3; do
		! SLURM_CONF=$etc/slurm.conf timeout 20 scontrol show config >/dev/null || return 1
	done
	echo "tandem: slurmctld has answered nobody since it was told to read its configuration: it is ended" >&2
	kill -9 $$
}
topology='' pause=10
while sleep "$pause" && [ -e /proc/$$/exe ]; do
	pause=2
	[ -n "$topology" ] || [ ! -e /etc/slurm/topology.sh ] || { sh /etc/slurm/topology.sh "$etc" & topology=$!; }
	if ! cmp -s /etc/slurm/slurm.conf "$etc/asked"; then
		if ! { files && reconfigure; }; then rm -f "$etc/asked"; fi
		pause=5
	fi
	[ ! -e "$lua" ] || cmp -s "$lua" "$etc/tandem-site.lua" || { cp -L "$lua" "$etc/tandem-site.lua" && touch "$etc/job_submit.lua"; }
done &
sh /etc/slurm/accounts.sh &
exec "$@" -f "$etc/slurm.conf"
