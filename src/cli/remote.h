// The users' commands on a cluster that is not embedded: --kubeconfig FILE [--cluster NAMESPACE/NAME].
#pragma once

#include "base/options.h"
#include "kube/kube.h"

struct td_remote {
	const char *kubeconfig, *cluster, *namespace; // from the command line; NULL: not given
};
// TD_INVALID: the flags do not go together, or one is not as it should be.
int td_remote_check(const struct td_remote *r, struct td_error *err);
// The flags again, as a person types them in a shell after a command's name (" --kubeconfig FILE"); "" without. For
// hints. Caller frees.
char *td_remote_words(const struct td_remote *r);
void td_cli_word(struct td_buf *b, const char *flag,
		 const char *value);     // " FLAG VALUE", quoted for a shell; nothing for NULL
char *td_cli_at(const char *kubeconfig); // only that flag, for kubectl too
// The SlurmCluster that was named, or the only one there is. A reference; NULL: err says which there are.
struct td_object *td_remote_cluster(struct td_kube *k, const struct td_remote *r, struct td_cancel *c,
				    struct td_error *err);
// Asks the bridge of a SlurmCluster that leads, through the API server's proxy. path: "/why?job=1".
int td_remote_ask_bridge(struct td_kube *k, const struct td_remote *r, const char *path, struct td_cancel *c,
			 struct td_json **ret, struct td_error *err);
// Their entries in a command's table of options; r: struct td_remote *.
#define TD_REMOTE_OPTIONS(r)                                                                                           \
	{.name = "kubeconfig",                                                                                         \
	 .value = "FILE",                                                                                              \
	 TD_OPT_TEXT(&(r)->kubeconfig),                                                                                \
	 .help = "a cluster where Tandem was installed, instead of $TANDEM_HOME"},                                     \
		{.name = "cluster",                                                                                    \
		 .value = "NAMESPACE/NAME",                                                                            \
		 TD_OPT_TEXT(&(r)->cluster),                                                                           \
		 .help = "which SlurmCluster there, when it has several"},                                             \
		{.name = "tandem-namespace",                                                                           \
		 .value = "NS",                                                                                        \
		 TD_OPT_TEXT(&(r)->namespace),                                                                         \
		 .help = "where Tandem itself runs there (default tandem-system)"}
