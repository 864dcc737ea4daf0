#!/bin/sh
# What `tandem shell` runs in the login pod, as root: it becomes a user in his home and runs the
# command, or a login shell. $1: the user; empty: $2 if the cluster knows him, else the first one of
# spec.users. What follows is the command.
user=$1 mine=$2
shift 2
users=/etc/tandem/users/passwd
if [ -z "$user" ] && [ -n "$mine" ] && [ "$mine" != root ] && grep -q "^$mine:" $users; then user=$mine; fi
while [ -z "$user" ] && IFS=: read -r name _ uid _; do
	case $uid in 64030 | 65534) ;; [1-9][0-9][0-9][0-9]*) user=$name ;; esac
done <$users
: "${user:=root}"
IFS=: read -r _ _ uid gid _ home shell <<-END
	$(getent passwd -- "$user")
END
[ -n "$uid" ] || {
	echo "tandem shell: there is no user $user: spec.users of the SlurmCluster lists them" >&2
	exit 1
}
if [ -e /etc/tandem/users/homes.sh ]; then
	sh /etc/tandem/users/homes.sh "$user"
else
	case $home in /home/?*) [ -e "$home" ] || install -d -o "$uid" -g "$gid" -m 0700 "$home" ;; esac
fi
# As sshd does it: what the members of a group make in its directory is writable for the others.
if grep -qs '^group ' /etc/tandem/users/directories && [ "$(id -gn -- "$user")" = "$user" ]; then umask 0002; fi
tty=$(tty) && chown "$uid" "$tty" # programs open it by its name
[ $# != 0 ] || set -- "$shell" -l
cd / || exit
export HOME="$home" USER="$user" LOGNAME="$user" SHELL="$shell"
# The home is entered by its owner: root may not be let in on a shared file system.
# shellcheck disable=SC2016
set -- sh -c 'cd "$HOME" 2>/dev/null || echo "tandem shell: no home $HOME here: this is $PWD" >&2; exec "$@"' sh "$@"
[ "$uid" = 0 ] || set -- setpriv --reuid="$uid" --regid="$gid" --init-groups --inh-caps=-all -- "$@"
# With the file systems of his storage groups, in mounts of his own (src/spank/groupfs.h).
[ "$uid" = 0 ] || [ ! -d /var/lib/tandem/groups ] || [ ! -x /opt/tandem/tandem-container ] || set -- /opt/tandem/tandem-container files login "$user" "$@"
exec "$@"
