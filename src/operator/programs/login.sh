for f in passwd group; do ln -sf /etc/tandem/users/$f /etc/$f; done
while IFS=: read -r name pw uid gid gecos home shell; do
  case $home in /home/?*) [ "$uid" -lt 1000 ] || [ -e "$home" ] || install -d -o "$uid" -g "$gid" -m 0755 "$home" ;; esac
done < /etc/tandem/users/passwd
mkdir -p /run/slurm
command -v sackd >/dev/null && exec sackd -D
echo 'tandem: this image has no sackd: only slurmd pods can talk to Slurm' >&2
exec sleep infinity
