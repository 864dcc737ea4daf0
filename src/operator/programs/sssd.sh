#!/bin/sh
# SSSD beside a daemon of Slurm or a login: it asks the directory service, and the container beside it reads users,
# groups and keys from its sockets only. So the password for the directory is in no other container. It is started
# anew when its configuration or that password changes; nobody waits for it, and what is known already stays known.
set -u
umask 077
dir=/var/lib/sss run=/run/tandem-sssd
mkdir -p "$run" "$dir/pipes/private" "$dir/db" "$dir/mc" "$dir/pubconf/krb5.include.d" "$dir/gpo_cache" "$dir/secrets" \
	"$dir/keytabs" /var/log/sssd /etc/sssd
chown 0:0 "$dir/pipes" "$dir/pipes/private"
chmod 0755 "$dir" "$dir/pipes"
chmod 0700 "$dir/pipes/private"

# The last section is that of the directory.
wanted() {
	cat /etc/tandem/sssd/sssd.conf
	[ ! -s /etc/tandem/ldap-bind/password ] || printf 'ldap_default_authtok = %s\n' "$(cat /etc/tandem/ldap-bind/password)"
}

command -v sssd >/dev/null || {
	echo 'tandem: this image has no sssd (sssd-ldap, libnss-sss, libpam-sss): nobody of the directory is known here' >&2
	exec sleep infinity
}
sssd=
trap '[ -z "$sssd" ] || kill "$sssd"; exit 0' TERM
while :; do
	wanted >"$run/wanted"
	cp "$run/wanted" /etc/sssd/sssd.conf
	rm -f /run/sssd.pid
	sssd -i --logger=stderr &
	sssd=$!
	while kill -0 "$sssd" 2>/dev/null; do
		sleep 2 &
		wait $!
		wanted >"$run/now"
		cmp -s "$run/now" "$run/wanted" || kill "$sssd"
	done
	wait "$sssd"
	cmp -s "$run/now" "$run/wanted" && echo "tandem: sssd has ended with $?; it is started again" >&2 && sleep 1
done
