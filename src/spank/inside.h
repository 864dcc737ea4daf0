// Entering a container, as its user.
#pragma once

#include "base/err.h"
#include "base/mem.h"

enum td_ct_entry { TD_CT_NO_ENTRY, TD_CT_ENTRY, TD_CT_ENTRY_LOG }; // LOG: shows what the entry point printed

struct td_calls_filter; // filter.h

// Enters the container of this directory and becomes the program argv, with the image's environment:
// its variables win, but for those that `keep` names ("A,B"). workdir "": the image's directory. With an entry point
// the image's runs first, once for the container, and its environment and directory are the program's
// (start.h). Returns only when it failed, and has said why: the exit code, as shells have it.
struct td_ct_inside {
	const char *dir, *workdir, *keep;
	const struct td_calls_filter *filter; // set before anything of the image's or the user's runs; NULL: none
	enum td_ct_entry entry;
	char **argv;
};
int td_ct_inside(const struct td_ct_inside *in);
// Joins the namespaces of the container; what else of `dir` is wanted must be read before. The process is at the
// container's root then, and has the user's rights outside and all capabilities inside.
int td_ct_join(const char *dir, struct td_error *err);
// Joins its user namespace only.
int td_ct_join_user(const char *dir, struct td_error *err);
// What the image says about its start, as `run/ID` has it (layout.h).
struct td_ct_image {
	struct td_buf env, workdir, entry; // env and entry: strings, each ended by a zero byte
	bool own;                          // it has its own /etc/environment and /etc/rc, as enroot's have
};
int td_ct_image_read(const char *dir, struct td_ct_image *ret, struct td_error *err);
void td_ct_image_done(struct td_ct_image *i);
#define td_auto_image __attribute__((cleanup(td_ct_image_done)))
// Is the name one of the list "A,B"?
bool td_ct_listed(const char *list, const char *name, size_t n);
// Sets the variables of env, but for those that are there and listed in `keep`.
void td_ct_set_environment(const struct td_buf *env, const char *keep);
