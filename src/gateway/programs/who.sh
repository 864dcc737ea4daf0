#!/bin/sh
# Who $1 is, as the directory service says (spec.identity.ldap): the gateway runs this in slurmctld's pod, where SSSD's sockets are and Slurm itself asks.
# "away": SSSD does not answer yet. "none": there is nobody of that name. Otherwise the line of passwd, and then the name that its number belongs to: somebody of
# spec.users hides who has the same one.
set -u
[ -S /var/lib/sss/pipes/nss ] || {
	echo away
	exit
}
who() {
	timeout 8 getent -s sss passwd "$1"
}
# Once more: SSSD may have been started anew in this moment.
line=$(who "$1") || { sleep 1 && line=$(who "$1"); }
case $? in
0) ;;
2) # getent's word for nobody; all else says nothing of the person
	echo none
	exit
	;;
*)
	echo away
	exit
	;;
esac
rest=${line#*:*:}
its=$(timeout 8 getent passwd "${rest%%:*}")
case $? in
0 | 2) printf 'is %s\n%s\n' "$line" "${its%%:*}" ;;
*) echo away ;;
esac
