// A runtime for one test program: a random home id, busybox as the image, and the test program
// itself as `tandem sandbox`.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oci/oci.h"

struct fx {
	char id[8], dir[64]; // "a1b2c3", "/tmp/td-oci-…"
	char *image, *state, *pods, *cgroup, *init;
	struct td_oci *r;
};
extern struct fx fx;

int fx_main(int argc, char **argv, int (*tests)(void));
int fx_setup(void **s);        // of the group; builds the image, makes the runtime
int fx_teardown(void **s);     // purges
char *fx_id(const char *name); // "td<id>-<name>"; caller frees
// A spec that runs `sh -c script` in the host's network. Its strings live as long as the test
// program.
struct td_oci_spec fx_spec(const char *name, const char *script);
void fx_start(const struct td_oci_spec *s);
// Waits until it has stopped, at most 15 s; asserts.
struct td_oci_status fx_wait(const char *id);
char *fx_log(const char *id); // its log; caller frees
// Starts it, waits for its end, deletes it and returns its log.
char *fx_run(const char *name, const char *script, struct td_oci_spec *s);
// What the machine still has of this runtime, one line each; "" when nothing.
char *fx_leftovers(void);
