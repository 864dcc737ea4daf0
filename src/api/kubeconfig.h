// The kubeconfig of one user of an embedded plane.
#pragma once

#include "base/err.h"

// Writes HOME/kubeconfig/USER.conf (mode 0600): the API server at 127.0.0.1:port, with the
// certificate and key HOME/pki/USER.crt and .key. A file that says the same already is not touched.
// The directory exists. Fails as td_file_write does.
int td_kubeconfig_write(const char *home, const char *user, int port, struct td_error *err);
