[ -z "$TD_CGROUPS" ] || for m in /sys/fs/cgroup /sys/fs/cgroup/*; do
  mountpoint -q $m && mount -o remount,bind,rw $m
done
for f in passwd group; do ln -sf /etc/tandem/users/$f /etc/$f; done
exec 8<> <(:) 9<> <(:)
conf=/etc/tandem/users/slurm.conf sack=
mkdir -p /run/slurm
command -v sackd >/dev/null && { sackd -D -f $conf 2>/dev/null & sack=$!; }
while :; do
  (until : 3<>"/dev/tcp/$TD_CONTROLLER/6817"; do read -rt 0.02 -u 8; done; echo up >&9) &
  read -rt 1 -u 9 && break
  kill $!
done 2>/dev/null
slurm() { SLURM_CONF=$conf timeout 10 "$@" </dev/null; }
list() {
  for _ in {1..100}; do [ -S /run/slurm/sack.socket ] && break; read -rt 0.02 -u 8; done
  lost=$(slurm squeue -h -w "$TD_NODE" -t R,S,ST -O JobID:24,BatchFlag:8,Requeue:8,BatchHost:256,admin_comment:8,comment:8 2>&1) && return
  [[ $lost = *'Invalid node name'* ]] || echo "tandem: which jobs died here is not known: $lost"
  lost=
}
node() { slurm scontrol update nodename="$TD_NODE" "$@"; }
one_by_one() {
  local job batch requeue host ask
  while read -r job batch requeue host ask; do
    case $ask in *tandem/*) continue ;; esac
    [ -n "$(slurm squeue -h -s -w "$TD_NODE" -j "$job" -o %i)" ] || continue
    echo "tandem: job $job had processes in a slurmd container that died"
    if [ "$batch" != 0 ] && [ "$requeue" = 1 ]; then slurm scontrol requeue "$job"
    elif [ "$batch" = 0 ] || [ "$host" != "$TD_NODE" ]; then slurm scancel "$job"; fi
  done <<<"$lost"
}
clear_dead() {
  local lost state why='reason=tandem: slurmd died'
  list
  [ -n "$lost" ] || return
  state=$(slurm sinfo -h -N -n "$TD_NODE" -o %T)
  case ${state%%$'\n'*} in
  idle|idle\*|mixed|mixed\*|allocated|allocated\*|completing|completing\*)
    node state=DRAIN "$why"
    list
    if [[ $lost != *tandem/* ]]; then node state=DOWN "$why"; else one_by_one; fi ;;
  *) one_by_one ;;
  esac
}
[ -z "$sack" ] || { clear_dead; kill $sack; wait $sack; } >&2
exec 8>&- 9>&-
exec slurmd -D -Z -N "$TD_NODE" --conf-server "$TD_CONTROLLER:6817" --conf "$TD_NODE_CONF"
