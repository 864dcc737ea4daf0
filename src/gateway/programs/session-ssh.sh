#!/bin/sh
# One ssh connection into a session: the gateway runs this in the session's pod, as its owner, with the connection as its input and output. Nothing listens, so
# whoever reaches the pod by its network finds no sshd. First line of the input: the public key that may come in. First line of the output: "tandem-ssh" and the
# host key of this pod, which is made once; then sshd speaks.
set -u
umask 077
IFS= read -r key || exit 1
sshd=/usr/sbin/sshd
if [ ! -x "$sshd" ]; then
	echo "The image of this session has no sshd: give an --image that has the package openssh-server, or use a terminal in the browser (tandem session start shell)." >&2
	exit 127
fi
# On a machine without a kubelet /tmp may be everybody's: there it is in a directory of the session's.
dir=${TANDEM_SESSION_SSH:-/tmp/.tandem-ssh-$(id -u)}
mkdir -p "$dir" 2>/dev/null
if [ ! -O "$dir" ] || [ -L "$dir" ]; then
	echo "$dir is not a directory of yours in this session: remove it." >&2
	exit 1
fi
# One directory for each key: what is written there is always the same, so nothing has to be cleaned up after a connection that was cut. Two may come at once.
run=$dir/$(printf '%s' "$key" | sha256sum | cut -c 1-16)
mkdir -p "$run" || exit
if [ ! -e "$dir/host" ]; then
	ssh-keygen -q -t ed25519 -N '' -C tandem-session -f "$run/host.$$" || exit
	ln "$run/host.$$" "$dir/host" 2>/dev/null # the first one counts
	rm -f "$run/host.$$" "$run/host.$$.pub"
fi
printf '%s\n' "$key" >"$run/keys.$$" && mv "$run/keys.$$" "$run/keys" || exit
# What the session's programs find in their environment is here, too. The session's token is its server's.
if [ -n "${TANDEM_SESSION_ENV:-}" ] && [ -d "$HOME/$TANDEM_SESSION_ENV/bin" ]; then
	PATH=$HOME/$TANDEM_SESSION_ENV/bin:$PATH
elif [ -n "${TANDEM_SESSION_ENV:-}" ]; then
	PATH=$TANDEM_SESSION_ENV/bin:$PATH
fi
export PATH
# Over several machines: the job's variables for srun, and not those of this connection's own step.
if [ -n "${TANDEM_SESSION_SSH:-}" ] && [ -r "${TANDEM_SESSION_SSH%/ssh}/nodes" ]; then
	for name in $(env | sed -n 's/^\(SLURM_[A-Za-z0-9_]*\)=.*/\1/p'); do
		case $name in SLURM_CONF) ;; *) unset "$name" ;; esac
	done
	. "${TANDEM_SESSION_SSH%/ssh}/nodes"
fi
cat >"$run/config.$$" <<-END
	HostKey $dir/host
	AuthorizedKeysFile $run/keys
	StrictModes no
	PidFile none
	UsePAM no
	PasswordAuthentication no
	KbdInteractiveAuthentication no
	X11Forwarding no
	PrintMotd no
	PrintLastLog no
	LogLevel ERROR
	AcceptEnv LANG LC_* COLORTERM
	Subsystem sftp internal-sftp
	SetEnv $(env | sed -n '/^\(HOME\|USER\|LOGNAME\|SHELL\|PWD\|OLDPWD\|SHLVL\|TERM\|_\|TANDEM_SESSION_TOKEN\|TANDEM_SESSION_SSH\|TANDEM_SESSION_GUARD\)=/d; s/^\([A-Za-z_][A-Za-z0-9_]*=[^"\\]*\)$/"\1"/p' | tr '\n' ' ')
END
mv "$run/config.$$" "$run/config" || exit
printf 'tandem-ssh %s\n' "$(ssh-keygen -y -f "$dir/host")"
exec "$sshd" -i -e -f "$run/config"
