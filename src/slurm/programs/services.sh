#!/bin/sh
# Runs a site's services in a login or slurmd pod (spec.services), as /etc/tandem/site/services lists them in the
# order of their dependencies: NAME TYPE WHERE TIMEOUT ONFAILURE AFTER (a comma list, or "-").
#   services.sh start WHERE   starts them and waits until each has settled: a oneshot has ended, a service runs. Fails,
#                             with the reason as the container's last words, when one with onFailure=block does not.
#   services.sh follow WHERE  for ever: starts what is new or changed, stops what is gone. In a slurmd pod it says to
#                             Slurm, in the node's comment, which configuration slurmd has and which services have failed.
#   services.sh failed WHERE  in one line, which have failed in this pod, its sshd too; fails when there are any.
#   services.sh stop          ends all of them.
# State: $run/NAME.state ("waiting", "running", "done", "failed TEXT"), .sum (what runs), .pid (its process group).
set -u
site=${TD_SITE:-/etc/tandem/site} run=${TD_SERVICES_RUN:-/run/tandem-services} where=${2:-} words=${TD_LAST_WORDS:-/dev/termination-log}
pause() { sleep "$1"; }
# In bash a wait costs no process.
[ -z "${BASH_VERSION:-}" ] || eval 'exec 7<> <(:); pause() { read -rt "$1" -u 7; :; }'

say() { printf '%s\n' "$2" >"$run/$1.new" && mv "$run/$1.new" "$run/$1.state"; }
state() {
	now=none
	if [ -e "$run/$1.state" ]; then read -r now <"$run/$1.state"; fi
}
mine() { case $1 in all | "$where") ;; *) return 1 ;; esac }
print_of() { { printf '%s\n' "$2" && cat "$site/service-$1"; } 2>/dev/null | cksum; }

# Passes what a service says on to the container's log, and keeps the last line for when it fails.
listen() {
	while IFS= read -r line; do
		printf 'service %s: %s\n' "$1" "$line"
		printf '%s\n' "$line" >"$run/$1.last"
	done <"$run/$1.pipe"
	: >"$run/$1.heard"
}

# Starts the program of a service in a process group of its own. $2...: what runs it.
launch() {
	name=$1
	shift
	: >"$run/$name.last"
	rm -f "$run/$name.pipe" "$run/$name.heard"
	mkfifo "$run/$name.pipe"
	listen "$name" &
	setsid "$@" "$site/service-$name" >"$run/$name.pipe" 2>&1 7>&- &
	pid=$!
	echo "$pid" >"$run/$name.pid"
}

why() {
	last='' tries=0
	# The listener may be behind; it never ends where a child of the service keeps the pipe.
	until [ -e "$run/$1.heard" ] || [ $((tries += 1)) -gt 20 ]; do pause 0.05; done
	[ ! -s "$run/$1.last" ] || read -r last <"$run/$1.last"
	case $3$2 in oneshot124 | oneshot137) printf 'not done within %s' "$4" ;; *) printf 'exit %s' "$2" ;; esac
	[ -z "$last" ] || printf ': %.160s' "$last" | tr -dc '[:print:]'
}

# Has what this one comes after settled? Sets $bad to one that has failed and blocks.
ready() {
	bad=
	for dep in $(echo "$1" | tr ',' ' '); do
		[ "$dep" != - ] || continue
		state "$dep"
		case $now in done | running) ;; failed*) [ -e "$run/$dep.ignore" ] || bad=$dep ;; *) return 1 ;; esac
	done
}

# The life of one service. It ends when another version of it is wanted. $1 name, $2 type, $3 timeout, $4 after, $5 sum
life() {
	current() { [ -e "$run/$1.sum" ] && read -r have <"$run/$1.sum" && [ "$have" = "$2" ]; }
	until ready "$4"; do
		pause 0.1
		current "$1" "$5" || return
	done
	[ -z "$bad" ] || {
		say "$1" "failed it comes after $bad, which has failed"
		return
	}
	back=1
	while current "$1" "$5"; do
		if [ "$2" = oneshot ]; then
			launch "$1" timeout -k 5 "$3"
			wait "$pid" && code=0 || code=$?
			current "$1" "$5" || return
			if [ "$code" = 0 ]; then say "$1" 'done'; else say "$1" "failed $(why "$1" "$code" oneshot "$3")"; fi
			return
		fi
		launch "$1" env
		pause 1
		! kill -0 "$pid" 2>/dev/null || say "$1" running
		wait "$pid" && code=0 || code=$?
		current "$1" "$5" || return
		say "$1" "failed $(why "$1" "$code" service -)"
		pause "$back"
		back=$((back < 30 ? back * 2 : 30))
	done
}

end() {
	rm -f "$run/$1.sum"
	[ ! -s "$run/$1.pid" ] || { read -r pid <"$run/$1.pid" && kill -TERM -- "-$pid"; } 2>/dev/null
	rm -f "$run/$1.state" "$run/$1.pid" "$run/$1.ignore"
}

# Brings what runs to what is wanted.
bring() {
	wanted=' '
	while read -r name type place timeout onfailure after; do
		mine "$place" || continue
		wanted="$wanted$name "
		sum=$(print_of "$name" "$type $timeout $after")
		old=
		[ ! -e "$run/$name.sum" ] || read -r old <"$run/$name.sum"
		[ "$old" = "$sum" ] || end "$name"
		if [ "$onfailure" = ignore ]; then : >"$run/$name.ignore"; else rm -f "$run/$name.ignore"; fi
		[ "$old" != "$sum" ] || continue
		echo "$sum" >"$run/$name.sum"
		say "$name" waiting
		life "$name" "$type" "$timeout" "$after" "$sum" </dev/null &
	done <"$site/services"
	for f in "$run"/*.sum; do
		[ -e "$f" ] || continue
		name=${f##*/} name=${name%.sum}
		case $wanted in *" $name "*) ;; *) end "$name" ;; esac
	done
}

settled() {
	while read -r name type place timeout onfailure after; do
		mine "$place" || continue
		state "$name"
		case $now in done | running) ;; failed*) [ "$onfailure" = ignore ] || failed="service $name: ${now#failed }" ;; *) return 1 ;; esac
	done <"$site/services"
}

# What is new since the last look?
changed() {
	for f in "$site/services" "$site"/service-*; do
		# shellcheck disable=SC3013 # -nt is in POSIX since 2024, and in every sh before
		[ ! "$f" -nt "$run/seen" ] || return 0
	done
	return 1
}

# Adds to $text which services have failed.
failures() {
	[ ! -e "$site/services" ] || while read -r name type place timeout onfailure after; do
		mine "$place" || continue
		state "$name"
		case $now in failed*) text="$text; service $name: ${now#failed }" ;; esac
	done <"$site/services"
}

# Sets $text to what the node says of itself.
report() {
	# shellcheck disable=SC3013
	if [ "$conf" -nt "$run/read" ] || [ -z "$revision" ]; then
		: >"$run/read"
		got=$(stat -L -c %Y "$conf" 2>/dev/null) || got=
		ctld=
		[ ! -e "$conf" ] || while IFS= read -r line; do
			case $line in '# Revision: '*) revision=${line##* } ;; '# Keys: '*) ctld=${line##* } ;; esac
		done <"$conf"
	fi
	# The state of the keys, when slurmctld has read it, and slurmd after it came here.
	keys=
	# shellcheck disable=SC3013
	[ ! -s $mounted/state ] || [ $mounted/..data -nt "$conf" ] || read -r keys <$mounted/state || :
	[ "$keys" = "$ctld" ] || keys=
	text="tandem:${revision:+ config=}$revision${got:+ since=}$got${keys:+ keys=}$keys"
	failures
}

case ${1:-} in
start)
	rm -rf "$run"
	mkdir -p "$run"
	: >"$run/seen"
	[ -s "$site/services" ] || exit 0
	bring
	failed=
	until settled; do pause 0.1; done
	[ -z "$failed" ] || {
		echo "tandem: $failed" >&2
		{ printf '%s' "$failed" >"$words"; } 2>/dev/null
		"$0" stop
		exit 1
	}
	;;
follow)
	conf=/run/slurm/conf/slurm.conf mounted=/etc/slurm-keys ctld='' said='' revision='' got='' rounds=0
	while :; do
		if changed; then
			: >"$run/seen"
			[ ! -e "$site/services" ] || bring
		fi
		if [ "$where" = compute ]; then
			report
			rounds=$((rounds + 1))
			# Every few minutes it is said again: a record may have been made anew.
			if [ "$text" != "$said" ] || [ $((rounds % 150)) = 0 ]; then
				scontrol update "nodename=$TD_NODE" "comment=$text" 2>/dev/null && said=$text
			fi
		fi
		pause "${TD_SERVICES_LOOK:-2}"
	done
	;;
failed)
	text=
	failures
	sshd=${TD_SSHD_FAILED:-/run/tandem-ssh/failed}
	[ ! -s "$sshd" ] || { read -r now <"$sshd" && text="$text; $now"; }
	# What reads it (src/operator/logins.c) knows it by the first word.
	[ -z "$text" ] || { printf 'tandem: %.600s\n' "${text#; }" && exit 1; }
	;;
stop)
	for f in "$run"/*.sum; do
		[ ! -e "$f" ] || { name=${f##*/} && end "${name%.sum}"; }
	done
	;;
esac
