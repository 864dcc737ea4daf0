// The users' commands on a cluster that is not embedded: --kubeconfig FILE [--cluster
// NAMESPACE/NAME].
#pragma once

#include "base/options.h"
#include "kube/kube.h"

struct td_remote {
	const char *kubeconfig, *cluster, *namespace; // from the command line; NULL: not given
};
// $KUBECONFIG, a single file, as kubectl and helm take it, where nothing was ever started on this machine and
// $TANDEM_HOME is not set; else NULL.
const char *td_remote_usual(void);
// Checks the flags. Without --kubeconfig it is td_remote_usual(). TD_INVALID: they do not go together, or one is malformed.
int td_remote_check(struct td_remote *r, struct td_error *err);
// The flags again, as a person types them in a shell after a command's name (" --kubeconfig FILE"),
// for hints. "" when none was given. The caller frees the text.
char *td_remote_words(const struct td_remote *r);
// Appends " FLAG VALUE", quoted for a shell; nothing when the value is NULL.
void td_cli_word(struct td_buf *b, const char *flag, const char *value);
// The same with --kubeconfig only, which kubectl understands too. The caller frees the text.
char *td_cli_at(const char *kubeconfig);
// Finds the SlurmCluster that was named, or the only one there is. Returns a reference. NULL: err
// says which ones there are.
struct td_object *td_remote_cluster(struct td_kube *k, const struct td_remote *r, struct td_cancel *c,
				    struct td_error *err);
// Asks the leading bridge of a SlurmCluster, through the API server's proxy. `path` is like
// "/why?job=1".
int td_remote_ask_bridge(struct td_kube *k, const struct td_remote *r, const char *path, struct td_cancel *c,
			 struct td_json **ret, struct td_error *err);
// The entry of --kubeconfig in a command's table of options, and those of all these flags. r: struct td_remote *.
#define TD_REMOTE_KUBECONFIG(r)                                                                                        \
	{.name = "kubeconfig",                                                                                         \
	 .value = "FILE",                                                                                              \
	 TD_OPT_TEXT(&(r)->kubeconfig),                                                                                \
	 .help = "a cluster where Tandem was installed, instead of $TANDEM_HOME (default $KUBECONFIG, where "          \
		 "nothing was started here)"}
#define TD_REMOTE_OPTIONS(r)                                                                                           \
	TD_REMOTE_KUBECONFIG(r),                                                                                       \
		{.name = "cluster",                                                                                    \
		 .value = "NAMESPACE/NAME",                                                                            \
		 TD_OPT_TEXT(&(r)->cluster),                                                                           \
		 .help = "which SlurmCluster there, when it has several"},                                             \
		{.name = "tandem-namespace",                                                                           \
		 .value = "NS",                                                                                        \
		 TD_OPT_TEXT(&(r)->namespace),                                                                         \
		 .help = "where Tandem itself runs there (default tandem-system)"}
