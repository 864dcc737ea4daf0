#!/bin/sh
# ssh to a compute node, from a login pod or from a job: the connection is a step of a running job of the user's own
# there, in which an sshd of his own serves it, with his rights and inside the job's cgroup and devices. Nothing
# listens on the nodes. ssh_config calls: knows NODE (is it one? then there is a key), connect NODE; the step: serve.
set -u
say() { echo "tandem: $*" >&2; }
dir=${HOME:-/nonexistent}/.ssh
key=$dir/tandem-node

knows() {
	case $1 in '' | -* | *[!A-Za-z0-9_.-]*) return 1 ;; esac
	[ "$(id -u)" != 0 ] && [ -n "$(sinfo -h -n "$1" -o %n 2>/dev/null)" ] || return 1
	[ -e "$key" ] && return
	umask 077
	mkdir -p "$dir" && ssh-keygen -q -t ed25519 -N '' -C tandem-node -f "$key.$$" &&
		mv "$key.$$.pub" "$key.pub" && mv "$key.$$" "$key" # others may do so at the same moment: the last one counts
}

# The job that was meant, else the one that began last.
connect() {
	job=
	[ -z "${SLURM_JOB_ID:-}" ] || job=$(squeue -h --me -t R -w "$1" -j "$SLURM_JOB_ID" -o %A 2>/dev/null)
	[ -n "$job" ] || job=$(squeue -h --me -t R -w "$1" -S -S -o %A 2>/dev/null | head -n 1)
	[ -n "$job" ] || {
		say "you have no running job on $1; ssh to a node leads into one: start it with salloc -w $1 or sbatch -w $1"
		exit 1
	}
	TD_KEYS=$(
		cat "$key.pub" "$dir/authorized_keys" 2>/dev/null
		sed -n "s/^$(id -un) //p" /etc/tandem/users/ssh_keys 2>/dev/null
		[ ! -S /var/lib/sss/pipes/ssh ] || sss_ssh_authorizedkeys "$(id -un)" 2>/dev/null
	)
	export TD_KEYS
	# Unbuffered: what passes are no lines. Not by exec: ssh ends this process when it ends itself, and srun, to
	# which it would say much, then finds its input at its end.
	srun -uQ --jobid="$job" --overlap -w "$1" -N1 -n1 --cpu-bind=none --export=ALL -D / sh /etc/tandem/users/node-ssh.sh serve
}

serve() {
	umask 077
	sshd=/usr/sbin/sshd
	[ -x "$sshd" ] || {
		say "the image of this node has no sshd (openssh-server)"
		exit 1
	}
	run=$(mktemp -d) || exit
	trap 'rm -rf "$run"' EXIT
	ssh-keygen -q -t ed25519 -N '' -f "$run/host" || exit
	printf '%s\n' "$TD_KEYS" >"$run/keys"
	unset TD_KEYS
	cat >"$run/config" <<-END
		HostKey $run/host
		AuthorizedKeysFile $run/keys
		StrictModes no
		PidFile none
		UsePAM no
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		PrintMotd no
		AcceptEnv LANG LC_*
		Subsystem sftp internal-sftp
		SetEnv $(env | sed -n 's/^\(\(SLURMD\{0,1\}_[A-Z_]*\|CUDA_VISIBLE_DEVICES\|ROCR_VISIBLE_DEVICES\)=[A-Za-z0-9_.,:()x-]*\)$/\1/p' | tr '\n' ' ')
	END
	"$sshd" -i -e -f "$run/config" 2>"$run/log"
	return 0 # what the session ended with, ssh says itself
}

"$@"
