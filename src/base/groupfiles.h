// Who has which file system of a storage group (spec.storageGroups): the text that the operator writes
// (operator/storagegroups.c), and that is read on nodes, in login pods (spank/groupfs.h) and by the gateway. Libc only.
//
// Lines: "file NAME PATH" for each file system, then "people NAME,NAME USER USER …". A user is in one line only, with all
// that he has: ten thousand people cost their names once, in however many groups they are.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TD_GROUPFILE_NAME = 64, TD_GROUPFILE_PATH = 1024 };

struct td_groupfiles {
	const char *at, *set; // what is still to be read; what the user has, NULL: all there are
	size_t n_set;
	char name[TD_GROUPFILE_NAME], path[TD_GROUPFILE_PATH];
};

// Begins with the text, which stays the caller's and must live as long. user NULL: goes over all file systems.
void td_groupfiles_begin(struct td_groupfiles *g, const char *text, const char *user);
// Goes on to the next file system of the user, in the order of the text: fills name and path. False: there is none. What
// the operator would not write (a path with "..", a name that is a path) is passed over.
bool td_groupfiles_next(struct td_groupfiles *g);
// Is the name among what the user has?
bool td_groupfiles_has(const struct td_groupfiles *g, const char *name);
