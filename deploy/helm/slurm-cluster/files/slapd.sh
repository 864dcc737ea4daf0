#!/bin/sh
# An OpenLDAP server for the people of one SlurmCluster (docs/people.md): posixAccount, posixGroup, sshPublicKey; TLS only; nobody reads but who binds as
# cn=reader. Its configuration is written at each start, so that the Secret's words count then; the people are in $LDAP_DATA.
#   LDAP_SUFFIX   such as dc=lab,dc=example       LDAP_URLS   where it listens
#   LDAP_SECRETS  a directory with the files admin, reader (passwords), tls.crt, tls.key
#   LDAP_DATA     what is kept                    LDAP_RUN    what is not
set -eu
umask 077
export LC_ALL=C
suffix=$LDAP_SUFFIX run=${LDAP_RUN:-/run/slapd} data=${LDAP_DATA:-/var/lib/ldap} secrets=${LDAP_SECRETS:-/etc/tandem-ldap} conf=${LDAP_RUN:-/run/slapd}/slapd.conf
PATH=$PATH:/usr/sbin:/sbin

hashed() {
	[ -s "$secrets/$1" ] || {
		echo "tandem: the Secret of the directory has no \"$1\": it holds admin, reader, tls.crt and tls.key" >&2
		return 1
	}
	tr -d '\n' <"$secrets/$1" >"$run/word"
	slappasswd -T "$run/word" # it takes the file as it is
	rm -f "$run/word"
}
mkdir -p "$run" "$data/db"
admin=$(hashed admin) reader=$(hashed reader)
cat >"$conf" <<EOF
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $run/pid
TLSCertificateFile $secrets/tls.crt
TLSCertificateKeyFile $secrets/tls.key
TLSProtocolMin 3.3
database mdb
maxsize 1073741824
suffix "$suffix"
rootdn "cn=admin,$suffix"
rootpw $admin
directory $data/db
index objectClass,uid,cn,uidNumber,gidNumber,memberUid eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,$suffix" read by * none
EOF

# "dc=lab,dc=example" or "o=lab": the first part names the top.
first=${suffix%%,*}
kind=${first%%=*} name=${first#*=}
case $kind in
dc) top="objectClass: dcObject
objectClass: organization
dc: $name
o: $name" ;;
o) top="objectClass: organization
o: $name" ;;
*)
	echo "tandem: the suffix \"$suffix\" begins with neither dc= nor o=" >&2
	exit 1
	;;
esac
# Whole or not at all: who is killed in here begins with it anew.
if [ ! -e "$data/made" ]; then
	rm -f "$data/db"/*
	slapadd -f "$conf" <<EOF
dn: $suffix
$top

dn: ou=people,$suffix
objectClass: organizationalUnit
ou: people

dn: ou=groups,$suffix
objectClass: organizationalUnit
ou: groups

dn: cn=reader,$suffix
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: $reader
EOF
	sync
	: >"$data/made"
fi
slapmodify -f "$conf" <<EOF
dn: cn=reader,$suffix
changetype: modify
replace: userPassword
userPassword: $reader
EOF
socket=$(printf %s "$run/ldapi" | sed 's|/|%2F|g')
exec slapd -d 0 -f "$conf" -h "ldapi://$socket ${LDAP_URLS:-ldaps://0.0.0.0:1636}"
