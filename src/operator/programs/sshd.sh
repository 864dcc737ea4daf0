#!/bin/sh
# sshd of a login pod. Argument keys: brings each user's public keys, and the shadow of the accounts, to where
# sshd and PAM look; nothing: starts sshd, and again when it ends.
run=/run/tandem-ssh
keys() {
	next=$(mktemp -d "$run/keys.XXXXXX") || return
	chmod 0755 "$next"
	awk -v dir="$next" '{f = dir "/" $1; sub(/^[^ ]* /, ""); print >>f; close(f)}' /etc/tandem/users/ssh_keys
	ln -sfn "$next" "$run/keys.new" && mv -T "$run/keys.new" "$run/keys"
	for old in "$run"/keys.?*; do
		[ "$old" = "$next" ] || rm -rf "$old"
	done
	# Without a line there PAM takes an account for expired. Nobody has a password.
	awk -F: '{print $1 ":*:20000::::::"}' /etc/tandem/users/passwd >/etc/shadow.new
	chown root:shadow /etc/shadow.new
	chmod 0640 /etc/shadow.new
	mv /etc/shadow.new /etc/shadow
}
mkdir -p "$run" /run/sshd
if [ "${1:-}" = keys ]; then
	keys
	exit
fi
command -v sshd >/dev/null || {
	echo 'tandem: this image has no sshd (openssh-server): people come in by "tandem shell" only' >&2
	echo 'sshd: the image has none (openssh-server), so people come in by "tandem shell" only' >"$run/failed"
	exit
}
# It writes a file of the kernel's that only the first login of a session may write.
sed -i 's/required\( *pam_loginuid\)/optional\1/' /etc/pam.d/sshd 2>/dev/null
# Homes are made at the first login, whoever knows the user.
grep -q homes.sh /etc/pam.d/sshd || echo 'session optional pam_exec.so quiet /bin/sh /etc/tandem/users/homes.sh' >>/etc/pam.d/sshd
# File systems of a person's storage groups are in the mounts of his sessions only (src/spank/login_plugin.c).
[ -z "${TD_GROUPS:-}" ] || grep -q tandem-login /etc/pam.d/sshd || echo 'session optional /opt/tandem/tandem-login.so' >>/etc/pam.d/sshd
# What the members of a group make in its directory must be writable for the others.
! grep -q '^group ' /etc/tandem/users/directories || sed -i 's/\(pam_umask.so\).*/\1 usergroups/' /etc/pam.d/common-session
cat >"$run/sshd_config" <<-END
	HostKey /etc/tandem/ssh/ssh_host_key
	PidFile $run/sshd.pid
	AuthorizedKeysFile $run/keys/%u .ssh/authorized_keys
	AuthenticationMethods publickey
	PasswordAuthentication no
	KbdInteractiveAuthentication no
	PermitRootLogin no
	UsePAM yes
	MaxAuthTries 4
	MaxStartups 10:30:60
	LoginGraceTime 30
	X11Forwarding no
	PrintMotd no
	AcceptEnv LANG LC_*
	Subsystem sftp internal-sftp
END
# Keys in the directory service, if there is one.
! mountpoint -q /var/lib/sss/pipes || cat >>"$run/sshd_config" <<-END
	AuthorizedKeysCommand /usr/bin/sss_ssh_authorizedkeys %u
	AuthorizedKeysCommandUser nobody
END
# People behind one address (a load balancer's, a laboratory's) must not be locked out by one of them. Older
# releases do not know it.
/usr/sbin/sshd -G -f "$run/sshd_config" -o PerSourcePenalties=no >/dev/null 2>&1 &&
	echo 'PerSourcePenalties no' >>"$run/sshd_config"
# $run/failed is what the pod says of it (services.sh failed), until one has run for a while.
while :; do
	/usr/sbin/sshd -D -e -f "$run/sshd_config" &
	sshd=$!
	(sleep 5 && kill -0 "$sshd" && rm -f "$run/failed") 2>/dev/null &
	wait "$sshd" && code=0 || code=$?
	echo "sshd ended (exit $code), and nobody comes in until it runs again; the log of the pod has its words" >"$run/failed"
	sleep 1
done
