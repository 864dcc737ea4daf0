#!/bin/sh
# People and groups of the directory that the chart brings (slapd.sh), by an administrator:
#   person list                     who there is
#   person add NAME UID [GID]       a person, with a group of the same name unless GID names another; ssh keys come by the input, one a line
#   person key NAME                 the person's ssh keys are now those of the input
#   person remove NAME              no new session of his begins, and no group has him
#   person group NAME GID           a group
#   person join GROUP NAME, person leave GROUP NAME
set -eu
umask 077
export LC_ALL=C
suffix=$LDAP_SUFFIX run=${LDAP_RUN:-/run/slapd} secrets=${LDAP_SECRETS:-/etc/tandem-ldap}

wrong() {
	echo "person: $*" >&2
	exit 2
}
is_name() { # as spec.users has them
	case $1 in
	"" | [!a-z_]* | *[!a-z0-9_-]*) wrong "\"$1\" is no name: lower-case letters, digits, '_', '-', at most 32" ;;
	esac
	[ ${#1} -le 32 ] || wrong "\"$1\" is no name: it has more than 32 characters"
}
is_number() {
	case $1 in
	"" | 0* | *[!0-9]* | ??????????*) ;;
	*) if [ "$1" -ge "$2" ] && [ "$1" -ne 64030 ] && [ "$1" -ne 65534 ]; then return; fi ;;
	esac
	wrong "\"$1\": a number of $2 or more, and neither 64030 (slurm) nor 65534 (nobody)"
}
ask() {
	tool=$1
	shift
	tr -d '\n' <"$secrets/admin" >"$run/word.$$"
	result=0
	"$tool" -x -H "ldapi://$(printf %s "$run/ldapi" | sed 's|/|%2F|g')" -D "cn=admin,$suffix" -y "$run/word.$$" "$@" || result=$?
	rm -f "$run/word.$$"
	return "$result"
}
found() { # the first value of an attribute of whoever fits
	ask ldapsearch -LLL -o ldif-wrap=no -b "$suffix" "$1" "$2" | sed -n "s/^$2: //p" | head -n 1
}
is_free() { # no group has this number: else who is in one would be in the other
	has=$(found "(&(objectClass=posixGroup)(gidNumber=$1))" cn)
	[ -z "$has" ] || wrong "gid $1 is the group $has's: take another"
}
keys() { # of the input, as lines of LDIF
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		"" | "#"*) ;;
		ssh-* | ecdsa-* | sk-*) printf 'sshPublicKey:: %s\n' "$(printf %s "$line" | base64 | tr -d '\n')" ;;
		*) wrong "the input has a line that is no public key (as in a .pub file)" ;;
		esac
	done
}
argc=$#
want() {
	if [ "$argc" -lt "$1" ] || [ "$argc" -gt "$2" ]; then
		wrong "give list, add NAME UID [GID], key NAME, remove NAME, group NAME GID, join GROUP NAME or leave GROUP NAME"
	fi
}

case ${1:-} in
list)
	want 1 1
	ask ldapsearch -LLL -o ldif-wrap=no -b "ou=people,$suffix" '(objectClass=posixAccount)' uid uidNumber gidNumber |
		awk '$1 == "uid:" {u = $2} $1 == "uidNumber:" {n = $2} $1 == "gidNumber:" {g = $2} /^$/ {print u, n, g}' | sort
	;;
add)
	want 3 4
	is_name "$2"
	is_number "$3" 1000
	gid=${4:-$3}
	is_number "$gid" 100
	other=$(found "(&(objectClass=posixAccount)(uidNumber=$3))" uid)
	[ -z "$other" ] || [ "$other" = "$2" ] || wrong "uid $3 is $other's: take another"
	words=""
	[ -t 0 ] || words=$(keys)
	group=$(found "(&(objectClass=posixGroup)(cn=$2))" gidNumber)
	if [ -z "${4:-}" ] && [ -z "$group" ]; then
		is_free "$gid"
	elif [ -z "${4:-}" ] && [ "$group" != "$gid" ]; then
		wrong "the group $2 has gid $group: give that one, or another, after the uid"
	fi
	{
		if [ -z "${4:-}" ] && [ -z "$group" ]; then
			printf 'dn: cn=%s,ou=groups,%s\nchangetype: add\nobjectClass: posixGroup\ngidNumber: %s\n\n' "$2" "$suffix" "$gid"
		fi
		printf 'dn: uid=%s,ou=people,%s\nchangetype: add\nobjectClass: account\nobjectClass: posixAccount\nobjectClass: ldapPublicKey\ncn: %s\nuidNumber: %s\ngidNumber: %s\nhomeDirectory: /home/%s\nloginShell: /bin/bash\n' \
			"$2" "$suffix" "$2" "$3" "$gid" "$2"
		[ -z "$words" ] || printf '%s\n' "$words"
	} | ask ldapmodify >/dev/null
	;;
key)
	want 2 2
	is_name "$2"
	words=$(keys)
	printf 'dn: uid=%s,ou=people,%s\nchangetype: modify\nreplace: sshPublicKey\n%s\n' "$2" "$suffix" "$words" | ask ldapmodify >/dev/null
	;;
remove)
	want 2 2
	is_name "$2"
	groups=$(ask ldapsearch -LLL -o ldif-wrap=no -b "ou=groups,$suffix" "(memberUid=$2)" dn | sed -n '/^dn:/p')
	{
		[ -z "$groups" ] || printf '%s\n' "$groups" | while IFS= read -r dn; do
			printf '%s\nchangetype: modify\ndelete: memberUid\nmemberUid: %s\n\n' "$dn" "$2"
		done
		printf 'dn: uid=%s,ou=people,%s\nchangetype: delete\n' "$2" "$suffix"
	} | ask ldapmodify >/dev/null
	;;
group)
	want 3 3
	is_name "$2"
	is_number "$3" 100
	is_free "$3"
	printf 'dn: cn=%s,ou=groups,%s\nchangetype: add\nobjectClass: posixGroup\ngidNumber: %s\n' "$2" "$suffix" "$3" | ask ldapmodify >/dev/null
	;;
join | leave)
	want 3 3
	is_name "$2"
	is_name "$3"
	how=add
	[ "$1" = join ] || how=delete
	printf 'dn: cn=%s,ou=groups,%s\nchangetype: modify\n%s: memberUid\nmemberUid: %s\n' "$2" "$suffix" "$how" "$3" | ask ldapmodify >/dev/null
	;;
*) want 99 99 ;;
esac
