// Which files of a directory are not shipped: .gitignore's rules (gitignore(5)). Pure
// (fuzz/fuzz_ignore.c).
#pragma once

#include "base/mem.h"

#include <stdbool.h>

struct td_ignore;
struct td_ignore *td_ignore_new(void);
struct td_ignore *td_ignore_free(struct td_ignore *i);
TD_DEFINE_AUTO(struct td_ignore *, td_ignore_free)
// Adds the rules of one file. dir: where it lies, relative to the top, "" for the top itself. Rules
// that come later win.
void td_ignore_add(struct td_ignore *i, const char *dir, const char *text);
// Whether a path (relative to the top, no "/" in front) is ignored by itself. What lies in an ignored
// directory is ignored too: do not go there.
bool td_ignored(const struct td_ignore *i, const char *path, bool is_dir);
