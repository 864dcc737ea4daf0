#!/bin/sh
# shellcheck disable=SC2154 # udhcpc sets these words
# What busybox' udhcpc does with an address.
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip addr replace "$ip/${mask:-24}" dev "$interface"
[ -z "$router" ] || ip route replace default via "${router%% *}" dev "$interface"
for d in $dns; do echo "nameserver $d"; done >/etc/resolv.conf
