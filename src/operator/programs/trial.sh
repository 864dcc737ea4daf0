#!/bin/sh
# Tries a configuration: starts this image's slurmctld with it for a moment, beside the one that works and
# with a state of its own. Environment: TD_VERSION (the release that the image must have; empty: any).
# TD_RUNS (the release that works in the cluster now; empty: none) and TD_OLDEST (the oldest of its slurmds; empty: none).
# Ends with 0: it starts; 1: it does not, and the termination message has its errors; 2: it neither started
# nor gave up in time; 3: the image holds another release; 4: one that is older than what works, whose state it could not
# read, or than 24.11; 5: one that is too new for what works: the message has its release and the other one.
set -u
say() { cat >/run/trial-said; } # the pod's terminationMessagePath
log=/run/slurmctld/log etc=/run/slurmctld/etc state=/run/slurmctld/state
mkdir -p "$etc" "$state"
cp -L /etc/slurm/* "$etc/"

version=$(slurmctld -V 2>&1) || {
	echo "fatal: slurmctld -V: $version" | say
	exit 1
}
case $version in
*" ${TD_VERSION:-}"*) ;;
*)
	printf %s "$version" | say
	exit 3
	;;
esac

# "24.11" of a text that has "24.11.5" or "24.11", without the dot.
release() { printf '%s\n' "$1" | sed -n 's/^\(.*[^0-9.]\)*\([0-9][0-9]\)\.\([0-9][0-9]\)\([^0-9].*\)*$/\2\3/p' | head -n 1; }
mine=$(release "$version") runs=$(release "${TD_RUNS:-}")
[ -z "$mine" ] || [ "$mine" -ge "${runs:-2411}" ] || {
	printf %s "$version" | say
	exit 4
}

# Slurm takes over state and database of the three releases before its own, and talks to slurmds of those. There are two
# in a year: 24.11 is the 49th.
nth() { echo $(((${1%??} * 2) + (${1#??} > 10))); }
for old in "$runs" "$(release "${TD_OLDEST:-}")"; do
	[ -z "$mine" ] || [ -z "$old" ] || [ "$(($(nth "$mine") - $(nth "$old")))" -le 3 ] || {
		printf '%s and %s.%s' "$version" "${old%??}" "${old#??}" | say
		exit 5
	}
done

# A client reads all of it, also what is left out below.
whole=$(SLURM_CONF=/etc/slurm/slurm.conf scontrol show hostnames n1 2>&1)
case $whole in
*'Unable to process configuration file'*)
	echo "$whole"
	echo "$whole" | tail -n 24 | cut -c 1-160 | say
	exit 1
	;;
esac

# Left out: what names the cluster's own place and log, and what would reach others.
drop='SlurmctldHost|StateSaveLocation|SlurmctldPidFile|SlurmctldDebug|SlurmctldLogFile|SlurmctldPrimaryO[nf]+Prog'
if grep -Eqi '^ *AccountingStorageType *= *accounting_storage/slurmdbd' "$etc/slurm.conf"; then
	drop="$drop|AccountingStorage[A-Za-z]*|PriorityType" # a second slurmctld would register there
fi
sed -Ei "/^ *($drop) *=/Id" "$etc/slurm.conf"
cat >>"$etc/slurm.conf" <<EOF
SlurmctldHost=$(uname -n)(127.0.0.1)
StateSaveLocation=$state
SlurmctldPidFile=$state/pid
SlurmctldDebug=info
EOF

# munge's plug-in does not load without a munged: this one has a key of its own.
munged=
if grep -Eqi '^ *AuthType *= *auth/munge' "$etc/slurm.conf"; then
	here=/run/slurmctld/munge
	(umask 077 && head -c 64 /dev/urandom >"$here.key")
	sed -Ei '/^ *AuthInfo *=/Id' "$etc/slurm.conf"
	echo "AuthInfo=socket=$here.socket" >>"$etc/slurm.conf"
	munged --foreground --force --key-file="$here.key" --socket="$here.socket" --pid-file="$here.pid" \
		--seed-file="$here.seed" --log-file="$here.log" >"$here.said" 2>&1 || echo "error: munged of this image does not start: $(tail -n 1 "$here.said")" >&2 &
	munged=$!
fi

slurmctld -D -c -f "$etc/slurm.conf" >"$log" 2>&1 &
pid=$! code=2 tries=0
while [ "$tries" -lt 200 ]; do # 10 s
	if grep -q 'Running as primary controller' "$log"; then
		code=0
		break
	fi
	kill -0 "$pid" 2>/dev/null || {
		code=1
		break
	}
	tries=$((tries + 1))
	sleep 0.05
done
# Nor does it need what every srun will load.
mpi=$(sed -n 's/^ *MpiDefault *= *//Ip' "$etc/slurm.conf" | tail -n 1) here=
for plugin in /usr/lib/*/slurm*/mpi_*.so /usr/lib*/slurm*/mpi_*.so /usr/local/lib*/slurm*/mpi_*.so; do
	[ -e "$plugin" ] || continue
	case $plugin in */mpi_"$mpi".so | */mpi_"$mpi"_*.so) here=yes && break ;; *) here=${here:-no} ;; esac
done
[ "$mpi" = none ] || [ "$here" != no ] || {
	code=1
	echo "error: MpiDefault: this image has no plug-in mpi/$mpi; bring it, or write spec.config.slurmConf.MpiDefault: none" >>"$log"
}
kill -9 "$pid" $munged 2>/dev/null
cat "$log"
# slurmctld starts without a site's job_submit.lua that does not load, and refuses every job.
! grep -q "tandem: the site's job-submit.lua is not used" "$log" || code=1
grep -E 'error: |fatal: ' "$log" | tail -n 24 | cut -c 1-160 | say
exit "$code"
