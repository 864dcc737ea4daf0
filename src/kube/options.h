// Options that several roles have: entries for their tables (base/options.h).
#pragma once

#include "base/options.h"
#include "kube/controller.h"

// p: const char **.
#define TD_KUBECONFIG_OPTION(p)                                                                                        \
	{.name = "kubeconfig",                                                                                         \
	 .value = "FILE",                                                                                              \
	 TD_OPT_TEXT(p),                                                                                               \
	 .help = "how to reach the API (default $KUBECONFIG, then in-cluster)"}
// p: const char **, for td_health_serve.
#define TD_METRICS_OPTION(p)                                                                                           \
	{.name = "metrics",                                                                                            \
	 .value = "ADDR:PORT",                                                                                         \
	 TD_OPT_TEXT(p),                                                                                               \
	 .help = "serves /metrics, /livez and /readyz there, plain HTTP"}
// p: const char **, for slurm/where.h.
#define TD_EMPTY_DIRS_OPTION(p)                                                                                        \
	{.name = "empty-dirs",                                                                                         \
	 .value = "PATH",                                                                                              \
	 TD_OPT_TEXT(p),                                                                                               \
	 .help = "where pods' emptyDir volumes lie on this machine, with {uid} and {name}:\nreaches a slurmrestd "     \
		 "whose SlurmCluster says spec.restApi.access socket"}
// l: struct td_lease_opts *. ns_default and identity_default go into the help. Afterwards
// td_lease_check says whether the times go together.
#define TD_LEASE_OPTIONS(l, ns_default, identity_default)                                                              \
	{.name = "identity",                                                                                           \
	 .value = "NAME",                                                                                              \
	 TD_OPT_TEXT(&(l)->identity),                                                                                  \
	 .help = "name in the Lease (default: " identity_default ")"},                                                 \
		{.name = "lease-namespace",                                                                            \
		 .value = "NS",                                                                                        \
		 TD_OPT_TEXT(&(l)->ns),                                                                                \
		 .help = "where the Lease is (default: " ns_default ")"},                                              \
		{.name = "lease-duration",                                                                             \
		 .value = "S",                                                                                         \
		 TD_OPT_SECONDS(&(l)->duration_s, 1, 3600),                                                            \
		 .help = "how long others wait for a leader that is silent (default 15s)"},                            \
		{.name = "renew-deadline",                                                                             \
		 .value = "S",                                                                                         \
		 TD_OPT_SECONDS(&(l)->renew_s, 1, 3600),                                                               \
		 .help = "a leader that could not renew for so long stops leading (default 10s)"},                     \
		{.name = "retry-period",                                                                               \
		 .value = "S",                                                                                         \
		 TD_OPT_SECONDS(&(l)->retry_s, 1, 3600),                                                               \
		 .help = "how often the Lease is renewed (default 2s)"}
