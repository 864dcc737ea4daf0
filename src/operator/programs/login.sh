#!/bin/sh
# A login pod. Homes are made here because only here somebody logs in; sackd lets every user prove
# who he is without seeing the key. $1: owners.sh, or nothing.
for f in passwd group; do ln -sf "/etc/tandem/users/$f" "/etc/$f"; done
# Nobody has a password, so the members of sudo need none.
[ ! -d /etc/sudoers.d ] || (umask 0337 && echo '%sudo ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/tandem.new && mv /etc/sudoers.d/tandem.new /etc/sudoers.d/tandem)
mkdir -p /etc/ssh/ssh_config.d && ln -sf /etc/tandem/users/ssh_config /etc/ssh/ssh_config.d/tandem.conf
# File systems of storage groups lie below, for the logins of those who have them (src/spank/groupfs.h): nobody gets there
# but root. No program here may mount anything for a user.
[ -z "${TD_GROUPS:-}" ] || {
	chmod 0700 /var/lib/tandem/groups || exit
	for f in mount umount fusermount fusermount3; do f=$(command -v $f) && chmod u-s "$f"; done
	: >/run/tandem-groups
}
homes() {
	while IFS=: read -r user _ _ _ _ home _; do
		[ -e "$home" ] || sh /etc/tandem/users/homes.sh "$user"
	done </etc/tandem/users/passwd
}
homes
command -v seff >/dev/null || ln -sf /etc/tandem/site/seff /usr/local/bin/seff
services=/etc/tandem/site/services.sh
[ ! -e $services ] || sh $services start login || exit
[ ! -e $services ] || { sh $services follow login & }
if [ -n "${TD_SSHD:-}" ]; then
	sh -c "$TD_SSHD" sshd.sh keys
	sh -c "$TD_SSHD" sshd.sh &
fi
mkdir -p /run/slurm
command -v sackd >/dev/null || {
	echo 'tandem: this image has no sackd: only slurmd pods can talk to Slurm' >&2
	exec sleep infinity
}
keys() { cat /etc/slurm-keys/* 2>/dev/null | cksum; }
had=$(keys)
"$(command -v sackd)" -D & # by its path: it starts itself anew
sackd=$!
[ -z "$1" ] || sh -c "$1" owners &
# Users come and go while somebody works here: the mounted passwd changes, and homes follow.
: >/run/slurm/homes
: >/run/slurm/keys
looks=0
while sleep 2; do
	# Who has one no more: a login that began just now may have read the list as it was, so there are several looks.
	if [ -n "${TD_GROUPS:-}" ]; then
		# shellcheck disable=SC3013
		[ /etc/tandem/filters/files -ot /run/tandem-groups ] || { : >/run/tandem-groups && looks=5; }
		[ "$looks" = 0 ] || { looks=$((looks - 1)) && /opt/tandem/tandem-container files keep 2>&3; } || [ $? != 3 ] || looks=5
	fi
	# By the time of the link first that a kubelet changes, where one has mounted them, which costs no process.
	# shellcheck disable=SC3013
	if [ ! -e /etc/slurm-keys/..data ] || [ /etc/slurm-keys/..data -nt /run/slurm/keys ] || [ /etc/slurm-keys/..data -ot /run/slurm/keys ]; then
		touch -r /etc/slurm-keys/..data /run/slurm/keys 2>/dev/null
		[ "$(keys)" = "$had" ] || { had=$(keys) && kill -HUP "$sackd"; } # it reads them anew, and nobody waits
	fi
	# shellcheck disable=SC3013 # -ot is in POSIX since 2024, and in every sh before
	[ /etc/tandem/users/passwd -ot /run/slurm/homes ] && continue
	: >/run/slurm/homes
	homes
	[ -z "${TD_SSHD:-}" ] || sh -c "$TD_SSHD" sshd.sh keys
done 3>&2 >/dev/null 2>&1 &
follow=$!
ends=
trap 'ends=yes; [ -z "$1" ] || sh -c "$1" owners all; kill "$sackd"; sh $services stop' TERM
wait "$sackd"
code=$?
# The last words of the container, which the SlurmCluster's condition LoginReady repeats.
[ -n "$ends" ] || { printf 'sackd ended (exit %s), and without it nobody can prove to Slurm who he is; it is started again' "$code" >"${TD_LAST_WORDS:-/dev/termination-log}"; } 2>/dev/null
kill "$follow"
exit "$code"
