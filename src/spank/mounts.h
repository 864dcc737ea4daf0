// The words of --container-mounts: SRC[:DST[:FLAGS]],… with FLAGS joined by '+', as Pyxis has them. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

enum td_ct_mount_kind { TD_CT_BIND, TD_CT_TMPFS, TD_CT_UMOUNT };

struct td_ct_mount {
	enum td_ct_mount_kind kind;
	char *from;            // as the user wrote it; NULL: no bind
	char *to;              // in the container, absolute
	bool read_only, plain; // plain: "bind", without what is mounted below
};
struct td_ct_mounts {
	struct td_ct_mount *v;
	size_t n;
};
// Adds to *ret. TD_INVALID: the message quotes the piece and says how one is written.
int td_ct_mounts_parse(const char *text, struct td_ct_mounts *ret, struct td_error *err);
void td_ct_mounts_done(struct td_ct_mounts *m);
#define td_auto_mounts __attribute__((cleanup(td_ct_mounts_done)))
