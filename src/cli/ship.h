// Ships files to the gateway by the hashes of their chunks: only what is not there travels, and after a
// cut the next attempt goes on.
#pragma once

#include "cli/client.h"
#include "cli/shipseen.h"

#include <sys/stat.h>

struct td_ship_chunk {
	char hash[65];
	size_t file;
	long long at;
	unsigned size;
};
struct td_ship_file {
	char *path; // relative to the directory, with "/"
	bool exec;
	size_t first, n; // its chunks
};
struct td_ship {
	char *dir;
	struct td_ship_file *files;
	size_t n, cap;
	struct td_ship_chunk *chunks;
	size_t n_chunks, cap_chunks;
	long long bytes;
	size_t read;                  // how many files were read, rather than known from an earlier command
	struct td_ship_seen *seen;    // set by td_ship_walk
	const struct td_clock *clock; // NULL: the system's
	struct stat own[2];           // the directories of Tandem's own files, which hold a key; set by td_ship_walk
	struct td_strv skipped;       // links and the like, with why
	// Says how far it is: `done` of `all` bytes. May be NULL.
	void (*progress)(void *ctx, const char *what, long long done, long long all);
	void *ctx;
};
void td_ship_done(struct td_ship *s);
#define td_auto_ship __attribute__((cleanup(td_ship_done)))
// Finds and hashes the files of s->dir, without what .gitignore and .tandemignore name, .git and
// .tandem, and where Tandem keeps files of its own (somebody ships his home). Those that did not change since the last
// time are not read.
int td_ship_walk(struct td_ship *s, struct td_error *err);
// Adds one file.
int td_ship_add(struct td_ship *s, const char *path, struct td_error *err);
// Sends the chunks that the gateway lacks. *ret_sent: bytes.
int td_ship_send(struct td_ship *s, struct td_client *c, long long *ret_sent, struct td_error *err);
// Adds the list [{path, exec, chunks}] to o under "files".
void td_ship_list(const struct td_ship *s, yyjson_mut_doc *d, yyjson_mut_val *o);
