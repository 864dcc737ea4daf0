#!/bin/sh
# What `tandem stacks` runs in the login pod, as a user: a step of his job on each of its nodes, beside its tasks, which takes no CPU,
# memory or device from them. Slurm lets nobody start one in another's job. $1: the job; $2: what the step runs (stacks.sh).
list=$(squeue -h -t R,S -j "$1" -o '%A %D' 2>&1) || {
	echo "$list"
	exit 1
}
code=$2 name=$1
# shellcheck disable=SC2086
set -- $list
case $# in
0) echo "job $name does not run" && exit 1 ;;
2) ;;
*) echo "job $name is an array: name one of its tasks that run, such as ${name}_0" && exit 1 ;;
esac
# What the nodes say comes mixed: it is put in the order of the nodes.
said=$(timeout 50 srun -Q -l --jobid="$1" --overlap -N "$2" -n "$2" --ntasks-per-node=1 --gres=none --mem=0 sh -c "$code" sh job)
status=$?
printf '%s\n' "$said" | sort -s -n -t : -k 1,1 | sed 's/^ *[0-9][0-9]*: //'
exit $status
