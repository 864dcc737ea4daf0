#!/bin/sh
# Starts slurmctld so that it gives no job id twice: after one that was killed, ids go on 10000 later than the last saved one.
# An orderly end takes the pid file away when all is saved.
set -eu
etc=/run/slurmctld/etc state=/var/lib/slurm/slurmctld
mkdir -p "$etc"
rm -f "$etc"/*
cp -L /etc/slurm/* "$etc"/
number() { sed -n "s/^ *$1 *= *\([0-9][0-9]*\).*/\1/Ip" "$etc/slurm.conf" | tail -n 1; }
# A job_state begins with a counted word of 17 bytes, 2 bytes of version and 8 of time; then comes the last job id, highest byte first.
last_id() {
	[ "$(od -An -tu1 -N4 "$1" | tr -d ' ')" = 00017 ] &&
		od -An -tu1 -j31 -N4 "$1" | { read -r a b c d && echo $(((a << 24) + (b << 16) + (c << 8) + d)); }
}
first=$(number FirstJobId) max=$(number MaxJobId)
first=${first:-1} max=${max:-67043328} next=0 last=0
if [ -s "$state/first-job-id" ]; then read -r next <"$state/first-job-id" || :; fi
case $next in '' | *[!0-9]*) next=0 ;; esac
[ "$next" -ge "$first" ] || next=$first
if [ -e "$state/slurmctld.pid" ]; then
	for f in "$state/job_state" "$state/job_state.old"; do
		[ -s "$f" ] || continue
		if id=$(last_id "$f"); then
			[ "$id" -le "$last" ] || last=$id
		else
			echo "slurmctld.sh: $f is of no known form: its last job id is not known" >&2
		fi
	done
	[ "$last" -ge "$next" ] || last=$next
	next=$((last + 10000))
	[ "$next" -lt "$max" ] || next=$first
	echo "slurmctld.sh: the last slurmctld was killed: job ids go on at $next" >&2
fi
echo "$next" >"$state/first-job-id.new"
sync "$state/first-job-id.new"
mv "$state/first-job-id.new" "$state/first-job-id"
sed -i '/^ *FirstJobId *=/Id' "$etc/slurm.conf"
echo "FirstJobId=$next" >>"$etc/slurm.conf"
exec "$@" -f "$etc/slurm.conf"
