#!/bin/sh
# Makes what a user finds as his own: his home, and his and his groups' directories on shared storage. Whoever
# comes first makes them: a login (PAM), `tandem shell`, or a job on any node (Slurm's Prolog). $1: the user,
# else PAM_USER. What is there already is left alone.
set -u
umask 077
user=${1:-${PAM_USER:-}}
IFS=: read -r user _ uid gid _ home _ <<-END
	$(getent passwd -- "$user")
END
case ${uid:-} in '' | ? | ?? | ??? | *[!0-9]* | 65534 | 64030) exit 0 ;; esac # only people have a home

# Makes the directory $1 of $2:$3 with mode $4, whole or not at all, with the files of the directory $5 if it is
# given. Others may make it at the same moment.
make() {
	[ ! -d "$1" ] && [ -d "${1%/*}" ] || return 0
	new=$(mktemp -d "${1%/*}/.tandem-new.XXXXXX") || return
	if { [ ! -d "${5:-}" ] || cp -r "$5/." "$new/"; } && chown -R "$2:$3" "$new" && chmod "$4" "$new" && mv -nT "$new" "$1"; then
		[ ! -d "$new" ] || rm -rf "$new"
	else
		rm -rf "$new"
		[ -d "$1" ] || echo "tandem: $1 cannot be made for $user: make it on the file system's own server" >&2
	fi
}

while read -r kind dir; do
	case $kind in
	home) case $home in "$dir"/?*) make "$home" "$uid" "$gid" 0700 /etc/skel ;; esac ;;
	user) make "$dir/$user" "$uid" "$gid" 0700 ;;
	group)
		for g in $(id -G -- "$user"); do
			[ "$g" -ge 1000 ] || continue
			IFS=: read -r group _ <<-END
				$(getent group -- "$g")
			END
			[ -z "$group" ] || [ "$group" = "$user" ] || make "$dir/$group" 0 "$g" 2770
		done
		;;
	esac
done </etc/tandem/users/directories
