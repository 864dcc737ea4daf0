// The cache of a node. A tree is used by the containers whose link "tree" names it. Taking a tree and
// removing one exclude each other by the lock "trees".
#pragma once

#include "base/err.h"
#include "base/mem.h"

// Makes the directories. Removes what an earlier life of this pod left half-done (`fresh`: at the pod's
// start, when no container can be alive).
int td_ct_store_make(bool fresh, struct td_error *err);
// Takes a lock by its name, waits for it, and returns its descriptor. It ends with the descriptor.
int td_ct_store_lock(const char *name, int *ret_fd, struct td_error *err);
bool td_ct_store_has(const char *key);
// Links the container `id` to the tree, and notes its use. id NULL: only notes it. TD_NOT_FOUND: there is no
// such tree.
int td_ct_store_take(const char *key, const char *id, struct td_error *err);
// Puts a finished tree in its place: `made` is a directory with rootfs, env and workdir.
int td_ct_store_put(const char *made, const char *key, struct td_error *err);
// Which tree is that of an image which every node has ready? NULL: none yet. The caller frees it.
char *td_ct_store_ready(const char *image);
int td_ct_store_set_ready(const char *image, const char *key, struct td_error *err);
// Removes the trees that nobody uses, those unused for longest first, until all together have at most
// `limit` bytes (0: no limit). Those of `ready`, images by name, stay. Says on stderr what it removed.
int td_ct_store_trim(long long limit, const struct td_strv *ready, struct td_error *err);
// Removes what pulls and removals left that were killed.
void td_ct_store_sweep(void);
// Prints every tree: bytes, last use, users, key and name.
void td_ct_store_print(void);
// Removes a container: its namespaces and its files. One that is absent is no error.
int td_ct_store_release(const char *id, struct td_error *err);
// The ids of all containers.
void td_ct_store_containers(struct td_strv *ret);
