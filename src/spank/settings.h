// containers.conf, which the operator writes from spec.containers: lines of "KEY VALUE".
#pragma once

#include "base/err.h"
#include "base/mem.h"

struct td_ct_settings {
	struct td_strv allow;    // patterns; none: every image
	struct td_strv pull;     // images that every node has ready
	struct td_strv insecure; // registries without TLS
	long long limit;         // bytes of all trees; 0: none
	bool home, root, read_only;
};
// TD_UNSUPPORTED: the file is absent, so containers are turned off.
int td_ct_settings_read(const char *path, struct td_ct_settings *ret, struct td_error *err);
void td_ct_settings_done(struct td_ct_settings *s);
#define td_auto_settings __attribute__((cleanup(td_ct_settings_done)))
