#!/bin/sh
# Starts slurmctld (its command is the arguments) so that it gives no job id twice: tandem-standin
# first-job-id says why and how. While it runs, it is told to read each new configuration: `scontrol
# reconfigure` starts it anew in its place, with all that it knows.
#
# With two slurmctlds (spec.controller.replicas) their state is the same directory. Slurm writes there every few
# seconds who leads (heartbeat), and the second one waits until the first is gone.
set -eu
# A kubelet makes this PID 1, and whatever is PID 1 of a container nothing inside can end by SIGKILL. A slurmctld that
# hangs must be ended (await, below), so something else is PID 1.
[ $$ != 1 ] || exec /opt/tandem/tandem-standin init sh "$0" "$@"
state=/var/lib/slurm/slurmctld two=
[ "$(grep -c '^SlurmctldHost=' /etc/slurm/slurm.conf)" -lt 2 ] || two=yes
name=$(uname -n)
me=${name##*-} # 0: the first one
etc=/run/slurmctld/etc new=/run/slurmctld/etc.new next=
# What it has of the keys (docs/keys.md).
keys() { cat /etc/slurm-keys/* /etc/slurm-jwt/* 2>/dev/null | cksum; }
# Whether slurmctld was given what is mounted. When nothing was mounted anew since that was so, the times of the links
# say it, which a kubelet changes: this is asked every two seconds, and costs no process then.
fresh() {
	[ ! -e "$etc/asked" ] || anew || return 0
	for d in slurm slurm-keys slurm-jwt; do touch -r "/etc/$d/..data" "/run/slurmctld/look-$d" 2>/dev/null || :; done
	cmp -s /etc/slurm/slurm.conf "$etc/asked" && [ "$(keys)" = "$(cat "$etc/asked-keys" 2>/dev/null)" ] || return
	for d in slurm slurm-keys slurm-jwt; do mv -f "/run/slurmctld/look-$d" "/run/slurmctld/had-$d" 2>/dev/null || :; done
}
anew() {
	for d in slurm slurm-keys slurm-jwt; do
		[ -e "/etc/$d" ] || continue
		[ -e "/etc/$d/..data" ] || return 0 # no kubelet has mounted it
		# shellcheck disable=SC3013 # -nt and -ot are in POSIX since 2024, and in every sh before
		[ -e "/run/slurmctld/had-$d" ] && [ ! "/etc/$d/..data" -nt "/run/slurmctld/had-$d" ] && [ ! "/etc/$d/..data" -ot "/run/slurmctld/had-$d" ] || return 0
	done
	return 1
}
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
	keys >"$new/asked-keys"
	# slurmds get this line, and say so (services.sh).
	[ ! -s /etc/slurm-keys/state ] || echo "# Keys: $(cat /etc/slurm-keys/state)" >>"$new/slurm.conf"

	# Once a start; slurmctld counts on by itself.
	if [ -z "$next" ]; then
		[ -z "$two" ] || : >"$state/slurmctld.pid" # the other one may have given ids since the state was saved
		first=$(number FirstJobId)
		max=$(number MaxJobId)
		next=$(/opt/tandem/tandem-standin first-job-id --state /var/lib/slurm/slurmctld --first "$first" --max "$max")
	fi
	sed -i '/^ *FirstJobId *=/Id' "$new/slurm.conf"
	echo "FirstJobId=$next" >>"$new/slurm.conf"
	# Each of two has a pid file of its own: that of one says nothing of the other.
	[ -z "$two" ] || sed -i 's,^SlurmctldPidFile=.*,SlurmctldPidFile=/run/slurmctld/slurmctld.pid,' "$new/slurm.conf"

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
	# The one by which it submits to partitions whose nodes are another cluster's.
	(umask 077 && { printf 'tandem pods ' && cat /etc/slurm-jwt/jwt_hs256.key; } | sha256sum | cut -c1-64 >"$new/tandem-pods-word")
	[ ! -e "$lua" ] || cp -L "$lua" "$new/tandem-site.lua"

	mkdir -p "$etc"
	for f in "$etc"/*; do
		[ ! -e "$f" ] || [ -e "$new/${f##*/}" ] || rm -f "$f"
	done
	mv -f "$new"/* "$etc"/
}
lua=/etc/tandem/site/job-submit.lua
demand=/etc/slurm/on-demand.sh

# Which of two leads, or led last: 0 or 1. Nothing before the first did.
leader() { od -An -tu1 -j15 -N1 "$state/heartbeat" 2>/dev/null | tr -d ' '; }
# The last job id that is saved: jobid.c of tandem-standin says where it is.
saved() { od -An -tu1 -j31 -N4 "$state/job_state" 2>/dev/null | { read -r a b c d && echo $(((a << 24) + (b << 16) + (c << 8) + d)); } || echo 0; }

# The first one asks the backup to give back before it starts: by Slurm's own request that takes half a minute, in which
# nobody answers (24.11: docs/facts/slurm.md S-C12).
if [ -n "$two" ] && [ "$me" = 0 ] && [ "$(leader)" = 1 ]; then
	tries=0
	: >"$state/tandem-give-back"
	while [ -e "$state/tandem-give-back" ] && [ $((tries += 1)) -lt 100 ]; do sleep 0.1; done
	rm -f "$state/tandem-give-back"
fi
files

# What people have used elsewhere, put there by `tandem adopt use`: records of assoc_usage, of which slurmctld adds up
# those of one association. Each step may be the last before a new start: a record is counted once. The second of two
# leaves it to the first, which may lead while the second starts, and saves its own. Without room it waits for a later start.
use=$state/tandem-use
if [ -n "$two" ] && [ "$me" != 0 ]; then
	use=
elif [ -e "$use/records" ] && [ -s "$state/assoc_usage" ] && cat "$state/assoc_usage" "$use/records" >"$use/new"; then
	mv -f "$use/new" "$use/whole"
	rm -f "$use/records"
fi
if [ -n "$use" ] && [ -e "$use" ] && [ ! -e "$use/records" ]; then
	[ ! -e "$use/whole" ] || mv -f "$use/whole" "$state/assoc_usage"
	[ ! -e "$use/taken" ] || mv -f "$use/taken" "$state/tandem-use-taken"
	rm -rf "$use"
fi

# slurmctld refuses a database that knows its cluster by another number (CLUSTER ID MISMATCH). After a move to
# another database that one's number counts, and one in its own pod may always be new. The operator sees to it
# that no two clusters of one name meet in a database.
last=$(cat "$state/tandem-database" 2>/dev/null) || last=
if [ -e "$state/clustername" ]; then
	case ${TD_DATABASE:-} in
	own-*) sed -i 's/|.*//' "$state/clustername" ;;
	"$last") ;;
	*) sed -i 's/|.*//' "$state/clustername" ;;
	esac
fi
echo "${TD_DATABASE:-}" >"$state/tandem-database"

# Differs for each start, also when slurmctld takes its own place.
start() { cksum <"/proc/${ctld:-$$}/auxv" || :; } 2>/dev/null
seen=

answers() { SLURM_CONF=$etc/slurm.conf timeout 10 scontrol show config >/dev/null 2>&1; }

# One that reads its configuration anew starts anew, and it can hang for ever: it holds its port open, and slurmdbd,
# which at that moment brings it a change (somebody adds an account), waits for an answer there, while it waits until
# slurmdbd takes it (S-C10). It has saved its state and has told nobody of anything since: it is ended, and its
# container starts it again; slurmdbd goes on at once. The next one is waited for longer, so one that is slow comes up.
await() {
	patience=$(cat /run/slurmctld/patience 2>/dev/null) || patience=30
	end=$(($(date +%s) + patience))
	until answers; do
		sleep 1
		[ "$(date +%s)" -ge "$end" ] || continue
		echo $((patience < 240 ? patience * 2 : 240)) >/run/slurmctld/patience
		echo "tandem: slurmctld has answered nobody for $patience s since it was told to read its configuration: it is ended" >&2
		kill -9 "${ctld:-$$}"
		return 1
	done
	seen=$(start)
	[ $((end - $(date +%s))) -le $((patience - 30)) ] || rm -f /run/slurmctld/patience
}

# Not before it has settled: every reading is a start. It says that it was told before it does it.
reconfigure() {
	taken=yes
	SLURM_CONF=$etc/slurm.conf timeout 30 scontrol reconfigure || taken=
	await && [ -n "$taken" ]
}

# Somebody else may have told it.
watch() {
	now=$(start)
	seen=${seen:-$now}
	[ "$now" = "$seen" ] || await || :
}

# It waits at its start until slurmdbd is there, and is left alone meanwhile (S-C10). Another configuration may be what
# it needs, if that takes long: it is told then, and ended because it does not answer.
due() {
	if [ -n "$seen" ]; then
		! fresh || ! known
	else
		! fresh && [ $(($(date +%s) - began)) -gt 120 ]
	fi
}

# Which configuration the slurmds were told of last. A slurmctld that starts with a newer one, in a new pod, tells
# nobody of it by itself.
told=
revision() { grep '^# Revision:' "$etc/asked" || :; }
known() { [ -n "$told" ] || { [ "$(cat "$state/tandem-told" 2>/dev/null)" = "$(revision)" ] && told=yes; }; }
note() { revision >"$state/tandem-told.$me" && mv "$state/tandem-told.$me" "$state/tandem-told" && told=yes; }
[ -e "$state/tandem-told" ] || note
# Makes slurmctld read what is mounted, which tells the slurmds.
bring() {
	told=
	if files && reconfigure; then note; else rm -f "$etc/asked"; fi
}

# The slurmctld that waits. It reads a new configuration only when it starts, so it is started anew for one, and also
# before the first one's job ids come near to where its own begin: it has them from the file.
backup() {
	sh /etc/slurm/accounts.sh &
	[ ! -e $demand ] || sh $demand "$etc" &
	ctld='' ending='' led=0
	trap 'ending=yes; [ -z "$ctld" ] || kill "$ctld"' TERM
	while [ -z "$ending" ]; do
		next='' seen=''
		files
		"$@" -f "$etc/slurm.conf" &
		ctld=$!
		while [ -z "$ending" ] && sleep 1; do
			kill -0 "$ctld" 2>/dev/null || { wait "$ctld" && exit 1 || exit $?; }
			asked=same
			fresh || asked=new
			if [ "$(leader)" = "$me" ]; then
				led=$((led + 1))
				[ "$led" -le 10 ] || watch
				[ -n "$topology" ] || [ ! -e /etc/slurm/topology.sh ] || { sh /etc/slurm/topology.sh "$etc" & topology=$!; }
				if [ "$led" -gt 10 ] && { [ $asked = new ] || ! known; }; then bring; fi
				site
				[ -e "$state/tandem-give-back" ] || continue
			elif [ "$led" = 0 ] && [ $asked = same ] && [ "$(saved)" -le $((next - 5000)) ]; then
				continue
			fi
			[ -z "$topology" ] || kill "$topology" || :
			topology='' led=0 tries=0
			kill "$ctld" || :
			while kill -0 "$ctld" 2>/dev/null && [ $((tries += 1)) -lt 250 ]; do sleep 0.1; done
			kill -9 "$ctld" 2>/dev/null || :
			rm -f "$state/tandem-give-back"
			break
		done
	done
	until wait "$ctld"; ! kill -0 "$ctld" 2>/dev/null; do :; done
}
site() { [ ! -e "$lua" ] || cmp -s "$lua" "$etc/tandem-site.lua" || { cp -L "$lua" "$etc/tandem-site.lua" && touch "$etc/job_submit.lua"; }; }
topology=''
if [ -n "$two" ] && [ "$me" != 0 ]; then
	backup "$@"
	exit
fi

# A new configuration, and the site's part of job_submit.lua, which slurmctld reads again when that file is newer.
# slurmctld takes the place of this shell, so its end is the end of this.
pause=10 led='' began=$(date +%s) late=
while sleep "$pause" && [ -e /proc/$$/exe ]; do
	pause=2
	if [ -n "$seen" ]; then
		watch
	elif ! answers; then
		late=yes
	else
		seen=$(start)
		[ -z "$late" ] || pause=10
	fi
	[ -n "$topology" ] || [ ! -e /etc/slurm/topology.sh ] || { sh /etc/slurm/topology.sh "$etc" & topology=$!; }
	if [ "$pause" = 2 ] && due; then
		bring
		pause=5
	fi
	site
	# The backup took over while this one stood still, and would not know of it: two would write one state. A new start
	# asks the backup to give back.
	if [ -n "$two" ]; then
		case $(leader) in
		0) led=yes ;;
		1) [ -z "$led" ] || kill -9 $$ ;;
		esac
	fi
done &
sh /etc/slurm/accounts.sh &
[ ! -e $demand ] || sh $demand "$etc" &
exec "$@" -f "$etc/slurm.conf"
