#!/bin/sh
# Fetches a copy of a data set on a machine with its own slurmd, or removes it (host_data.c). Environment: TD_WHAT (fetch, remove), TD_PROGRAM (what does it,
# operator/programs/dataset.py), TD_DATA (the directory of copies) and what that program reads. What comes from outside is not trusted: it runs with the few
# rights that it has in a pod, and the only place of the machine that it can write to is the directory of copies.
set -eu
umask 022
TD_DATA=$(readlink -f "$TD_DATA")
export TD_DATA
exec setpriv --pdeathsig TERM unshare --mount --propagation private sh -c '
	mount --bind "$TD_DATA" "$TD_DATA"
	# What lies under another mount, or lets root in nowhere, is not made read-only and cannot be written to either.
	for pass in close check; do
		while read -r _ _ _ _ at how _; do
			at=$(printf %b "$at")
			case $at in
			"$TD_DATA" | "$TD_DATA"/* | /dev | /dev/*) continue ;;
			esac
			if [ $pass = close ]; then
				mount -o remount,bind,ro "$at" 2>/dev/null || :
			elif [ "${how%%,*}" = rw ] && { [ -d "$at" ] || [ -f "$at" ]; } && [ -w "$at" ]; then
				echo "tandem host: $at cannot be made read-only for what fetches data sets, so nothing is fetched" >&2
				exit 1
			fi
		done </proc/self/mountinfo
	done
	program=$TD_PROGRAM
	unset TD_PROGRAM
	cd "$TD_DATA"
	exec setpriv --bounding-set=-all,+chown,+dac_override,+fowner --inh-caps=-all --no-new-privs nice -n 10 python3 -c "$program" "$TD_WHAT"'
