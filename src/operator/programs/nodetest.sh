#!/bin/sh
# Tests a node (TD_NODE) by a job that only root gets onto it: reserve | test | release, one after the
# other. Until reserve has ended the node is drained; then the operator lets it take jobs, and only those
# of the reservation come. TD_GPUS: how many devices it has; TD_TESTED: which of them are
# tested ("0,2,3"); TD_MS: how long the test computes; TD_LEAST: what it must reach, a line each: the figure, the least, 1
# if it has to be measured, and why ("gflops 16.00 1 80 % of 20.00, the median of 5 other nodes of its group"), or nothing;
# TD_LINKS: the rates of its active links together, in megabits a second.
set -u
name=tandem-test-$TD_NODE
say() { printf '%s' "$1" >/dev/termination-log; }

# The plugins of jobs (plugstack.conf) lie where jobs start and where people log in: not here.
mkdir -p /run/slurm /work/etc
cp -L /etc/slurm/* /work/etc/
rm -f /work/etc/plugstack.conf
export SLURM_CONF=/work/etc/slurm.conf
sackd -D 2>/dev/null &
sack=$!
tries=0
until scontrol show node "$TD_NODE" >/work/node 2>/work/error; do
	tries=$((tries + 1))
	[ "$tries" -lt 300 ] || {
		say "Slurm does not answer for $TD_NODE: $(tail -n 1 /work/error)"
		exit 1
	}
	sleep 0.1
done

drained() { scontrol show node "$TD_NODE" | grep -q 'State=[A-Z_+*]*DRAIN'; }

reserve() {
	scontrol delete reservationname="$name" 2>/dev/null # of a test that was cut off
	scontrol create reservation reservationname="$name" nodes="$TD_NODE" users=root starttime=now \
		duration="$((TD_MS / 60000 + 30))" flags=maint,ignore_jobs >/work/error 2>&1 && return
	say "no reservation: $(tail -n 1 /work/error)"
	exit 1
}

# What slurmd runs: /opt/tandem is Tandem's, on every node.
job() {
	cat <<-'EOF'
		#!/bin/sh
		dir=/var/spool/slurmd
		[ -w "$dir" ] || dir=/tmp
		said=$(/opt/tandem/tandem-standin selftest --ms "$1" "$2" "$3" --measure "$dir" --faults /run/tandem/faults 2>&1)
		code=$?
		if [ "$code" = 2 ]; then # an older one does not know how to measure
			said=$(/opt/tandem/tandem-standin selftest --ms "$1" "$2" "$3" --faults /run/tandem/faults 2>&1)
			code=$?
		fi
		scontrol update jobid="$SLURM_JOB_ID" comment="$said"
		exit "$code"
	EOF
}

failed() {
	say "failed: $1"
	exit 0
}

field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" /work/job | head -n 1; }

# A node that is out of line with its group fails, though it computes right.
compare() {
	[ -n "$TD_LEAST" ] || return 0
	while read -r what least must why; do
		got=$(sed -n "s/.*\"$what\":\([0-9.]*\).*/\1/p" /work/figures)
		if [ -z "$got" ]; then
			[ "$must" = 0 ] || failed "$what: the test did not say it: $(cat /work/figures)"
			continue
		fi
		# In hundredths, as both are written with two digits.
		[ "$(echo "$got" | tr -d .)" -ge "$(echo "$least" | tr -d .)" ] ||
			failed "$what: $got is less than $least, $why"
	done <<-EOF
		$TD_LEAST
	EOF
}

run_test() {
	partition=$(sed -n 's/^ *Partitions=\([^, ]*\).*/\1/p' /work/node | head -n 1)
	job >/work/job.sh
	set -- sbatch --parsable --reservation="$name" -w "$TD_NODE" -N 1 -n 1 --exclusive --mem=192M --no-requeue \
		-t "$((TD_MS / 60000 + 5))" -J tandem-test -o /dev/null -D / ${partition:+-p "$partition"}
	[ "$TD_GPUS" = 0 ] || set -- "$@" --gres=gpu:"$TD_GPUS"
	how=--only which=$TD_TESTED
	[ -n "$which" ] || how=--devices which=0
	tries=0
	until id=$("$@" /work/job.sh "$TD_MS" "$how" "$which" 2>/work/error); do # the node may be drained still
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || failed "the job is refused: $(tail -n 1 /work/error)"
		sleep 0.2
	done
	end=$(($(date +%s) + TD_MS / 1000 + 240))
	while :; do
		if scontrol -o show job "$id" >/work/job 2>/dev/null; then
			case $(field JobState) in
			COMPLETED)
				sed -n 's/.* Comment=\({.*}\).*/\1/p' /work/job >/work/figures
				[ "${TD_LINKS:-0.00}" = 0.00 ] || sed -i "s/}\$/,\"linkMbps\":$TD_LINKS}/" /work/figures
				compare
				mv /work/figures /work/passed
				say "passed: $(cat /work/passed)"
				exit 0
				;;
			PENDING | CONFIGURING | RUNNING | COMPLETING) ;;
			*)
				said=$(sed -n 's/.* Comment=\({.*}\).*/\1/p' /work/job)
				failed "job $id is $(field JobState), exit code $(field ExitCode)${said:+: $said}"
				;;
			esac
		fi
		[ "$(date +%s)" -lt "$end" ] || {
			scancel "$id"
			failed "job $id did not end in time: $(field JobState), $(field Reason)"
		}
		sleep 0.1
	done
}

# A node that passed is everybody's now. One that failed is drained first.
release() {
	tries=0
	until [ -e /work/passed ] || drained || [ "$tries" -ge 600 ]; do
		tries=$((tries + 1))
		sleep 0.2
	done
	scontrol delete reservationname="$name" 2>/work/error || say "$(tail -n 1 /work/error)"
	exit 0
}

trap 'kill "$sack"' EXIT
case $1 in
reserve) reserve ;;
test) run_test ;;
release) release ;;
esac
