#include "cli/remote.h"

#include "cli/apply.h"
#include "cli/common.h"

#include <stdlib.h>
#include <string.h>

const char *td_remote_usual(void)
{
	td_auto_instance struct td_instance i = {0};
	const char *conf = getenv("KUBECONFIG"), *home = getenv("TANDEM_HOME");
	bool one = conf && *conf && !strchr(conf, ':') && !(home && *home);
	return one && td_instance_load(&i, NULL) == TD_NOT_FOUND ? conf : NULL;
}

int td_remote_check(struct td_remote *r, struct td_error *err)
{
	if (!r->kubeconfig)
		r->kubeconfig = td_remote_usual();
	if (!r->kubeconfig && (r->cluster || r->namespace))
		return td_fail(err, TD_INVALID, "--cluster and --tandem-namespace go with --kubeconfig");
	if (r->cluster && !strchr(r->cluster, '/'))
		return td_fail(err, TD_INVALID, "--cluster \"%s\": write NAMESPACE/NAME", r->cluster);
	return 0;
}

void td_cli_word(struct td_buf *b, const char *flag, const char *value)
{
	if (!value)
		return;
	td_buf_printf(b, " %s ", flag);
	if (*value &&
	    strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+:,@=-") == strlen(value)) {
		td_buf_puts(b, value);
		return;
	}
	td_buf_quote(b, value);
}

char *td_cli_at(const char *kubeconfig)
{
	return td_remote_words(&(struct td_remote){.kubeconfig = kubeconfig});
}

char *td_remote_words(const struct td_remote *r)
{
	struct td_buf b = {0};
	td_cli_word(&b, "--kubeconfig", r->kubeconfig);
	td_cli_word(&b, "--cluster", r->cluster);
	td_cli_word(&b, "--tandem-namespace", r->namespace);
	td_buf_puts(&b, ""); // makes the text not NULL
	return td_buf_take(&b);
}

struct td_object *td_remote_cluster(struct td_kube *k, const struct td_remote *r, struct td_cancel *c,
				    struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	td_auto_free char *at = td_cli_at(r->kubeconfig);
	int code = td_kube_list(k, &td_slurmclusters, NULL, NULL, NULL, c, &l, err);
	if (code == TD_NOT_FOUND)
		td_fail(err, code, "Tandem is not installed there: `tandem install%s`", at);
	if (code)
		return NULL;

	td_auto_buf struct td_buf there = {0};
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *key = td_asprintf("%s/%s", l.v[i]->ns, l.v[i]->name);
		if (r->cluster ? !strcmp(r->cluster, key) : l.n == 1)
			return td_object_ref(l.v[i]);
		td_buf_printf(&there, "%s%s", i ? ", " : "", key);
	}

	if (!l.n)
		td_fail(err, TD_NOT_FOUND, "there is no SlurmCluster: `tandem up%s` makes a first one", at);
	else if (r->cluster)
		td_fail(err, TD_NOT_FOUND, "there is no SlurmCluster %s, but %s", r->cluster, td_buf_str(&there));
	else
		td_fail(err, TD_NOT_FOUND, "which SlurmCluster? Say --cluster with one of %s", td_buf_str(&there));
	return NULL;
}

int td_remote_ask_bridge(struct td_kube *k, const struct td_remote *r, const char *path, struct td_cancel *c,
			 struct td_json **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_remote_cluster(k, r, c, err), *lease = NULL;
	if (!sc)
		return err->code;

	const char *ns = r->namespace ? r->namespace : TD_CLI_NAMESPACE;
	// The bridge's replicas share one Lease; only the leading replica knows the pods.
	td_auto_free char *name = td_asprintf("tandem-bridge-%s.%s", sc->ns, sc->name),
			  *flags = td_cli_at(r->kubeconfig);
	int code = td_kube_get(k, &td_leases, ns, name, c, &lease, err);
	const char *leader = lease ? td_jstr(lease->root, "spec.holderIdentity") : NULL;

	if (code && code != TD_NOT_FOUND)
		return code;
	if (!leader || !*leader)
		return td_fail(err, TD_NOT_FOUND,
			       "no bridge leads for SlurmCluster %s/%s: see `kubectl%s -n %s get pods`", sc->ns,
			       sc->name, flags, ns);

	td_auto_free char *at = td_asprintf("/api/v1/namespaces/%s/pods/%s:7412/proxy%s", ns, leader, path);
	return td_kube_raw(k, "GET", at, NULL, c, ret, err);
}
