// Where the parts of "containers in jobs" find each other inside a slurmd pod: the plug-in, which
// slurmstepd loads; tandem-container, which the plug-in starts; and its service, which slurmd.sh starts.
#pragma once

#define TD_CT_PROGRAM "/opt/tandem/tandem-container"
#define TD_CT_SOCKET "/run/tandem-container/socket" // of the service, for root
#define TD_CT_CONF "/etc/tandem/users/containers.conf"
// The pull secret of the cluster, if there is one.
#define TD_CT_SECRET "/etc/tandem/pull-secret/.dockerconfigjson"

// The cache, a directory of the node:
//   trees/KEY/      an unpacked image: rootfs, env ("NAME=VALUE", each ended by a zero byte), workdir,
//                   entry (words of the entry point, each ended by a zero byte), and of a squashfs file
//                   environment (its /etc/environment, instead of env). KEY is the manifest's digest, or says
//                   which file it was (pull.h). Its time of change is that of the last use.
//   staging/        what is being fetched
//   locks/          one for each tree, and that of eviction
//   ready/          a file for each image that every node has ready, with its KEY
//   run/ID/         a container: its tree (a link), own (what its user's processes write), env, workdir,
//                   entry and environment of the image, pid of its holder (holder.h)
// Everything is root's and closed to others, but run/ID/own and what is the image's, which are the user's.
#define TD_CT_CACHE "/var/lib/tandem/containers"
#define TD_CT_TREES TD_CT_CACHE "/trees"
#define TD_CT_STAGING TD_CT_CACHE "/staging"
#define TD_CT_LOCKS TD_CT_CACHE "/locks"
#define TD_CT_READY TD_CT_CACHE "/ready"
#define TD_CT_RUN TD_CT_CACHE "/run"

// Owner of all files of the unpacked trees, and whom skopeo, umoci and unsquashfs run as: nobody else.
#define TD_CT_UID 64041
