// `tandem apiserver --dev DIR`: a throw-away server for tests, with its own PKI and kubeconfigs
// below DIR.
#pragma once

#include "base/err.h"

// Creates DIR/pki.
int td_srv_dev_pki(const char *dir, struct td_error *err);
// Writes DIR/kubeconfig/{admin,kubelet,operator,bridge,controllers}.conf for
// https://127.0.0.1:port.
int td_srv_dev_kubeconfigs(const char *dir, int port, struct td_error *err);
