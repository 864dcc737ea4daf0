#include "cli/loginpod.h"

#include "slurm/accounting.h"

#include "base/embedded.h"
#include "base/names.h"
#include "base/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_cli_files[];

void td_cli_login_done(struct td_cli_login *l)
{
	td_kube_free(l->kube);
	td_instance_done(&l->instance);
	free(l->conf);
	free(l->ns);
	free(l->cluster);
	free(l->pod);
}

static int find_pod(const char *cmd, const struct td_remote *remote, struct td_cli_login *l)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_objects struct td_objects pods = {0};
	td_auto_free char *labels = td_asprintf(TD_LABEL_NAME "=login," TD_LABEL_CLUSTER "=%s", l->cluster);
	if (td_kube_list(l->kube, &td_pods, l->ns, labels, NULL, NULL, &pods, &err)) {
		fprintf(stderr, "tandem %s: %s\n", cmd, err.msg);
		return err.code;
	}

	for (size_t i = 0; i < pods.n; i++)
		if (td_jbool(td_jget(pods.v[i]->root, "status.containerStatuses.[0]"), "ready", false) &&
		    !td_object_deleting(pods.v[i])) {
			l->pod = td_strdup(pods.v[i]->name);
			return 0;
		}

	td_auto_free char *words = td_remote_words(remote), *at = td_cli_at(remote->kubeconfig);
	fprintf(stderr, "tandem %s: %s. See `tandem status%s` and `kubectl%s -n %s get pods`.\n", cmd,
		pods.n               ? "the login pod is not running yet"
		: remote->kubeconfig ? "there is no login pod"
				     : "there is no login pod (was `tandem up` started with --no-slurm?)",
		words, at, l->ns);
	return TD_NOT_FOUND;
}

int td_cli_login_open(const char *cmd, const struct td_remote *remote, struct td_cli_login *l)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *sc = NULL;
	if (remote->kubeconfig) {
		if (td_kube_new(remote->kubeconfig, &l->kube, &err) ||
		    !(sc = td_remote_cluster(l->kube, remote, NULL, &err))) {
			fprintf(stderr, "tandem %s: %s\n", cmd, err.msg);
			return err.code;
		}
	} else {
		int r = td_cli_open(cmd, &l->instance, &l->kube);
		if (r)
			return r;
	}
	l->ns = td_strdup(sc ? sc->ns : "slurm");
	l->cluster = td_strdup(sc ? sc->name : "main");
	l->conf = sc ? td_strdup(remote->kubeconfig) : td_instance_kubeconfig(&l->instance, "admin");
	return find_pod(cmd, remote, l);
}

void td_cli_login_beside(const struct td_cli_login *l, const char *pod, const char *flag, struct td_strv *ret)
{
	td_strv_add(ret, "kubectl");
	td_strv_addf(ret, "--kubeconfig=%s", l->conf);
	td_strv_addf(ret, "--namespace=%s", l->ns);
	td_strv_add(ret, "exec");
	td_strv_add(ret, "--quiet");
	if (flag)
		td_strv_add(ret, flag);
	td_strv_add(ret, pod);
	td_strv_add(ret, "--");
}

void td_cli_login_argv(const struct td_cli_login *l, const char *flag, struct td_strv *ret)
{
	td_cli_login_beside(l, l->pod, flag, ret);
}

void td_cli_login_as(const struct td_cli_login *l, const char *flag, const char *user, struct td_strv *ret)
{
	const char *mine = getenv("SUDO_USER");
	mine = mine ? mine : getenv("USER");
	const char *const program[] = {"sh", "-c", td_embedded(td_cli_files, "shell.sh")->text,
				       "sh", user, mine ? mine : ""};
	td_cli_login_argv(l, flag, ret);
	for (size_t n = 0; n < TD_LEN(program); n++)
		td_strv_add(ret, program[n]);
}

int td_cli_login_run(const struct td_cli_login *l, const char *file, const char *const *args, struct td_buf *ret,
		     struct td_error *err)
{
	td_auto_strv struct td_strv a = {0};
	td_cli_login_argv(l, NULL, &a);
	td_strv_add(&a, "sh");
	td_strv_add(&a, "-c");
	td_strv_add(&a, td_embedded(td_cli_files, file)->text);
	td_strv_add(&a, "sh");
	for (; args && *args; args++)
		td_strv_add(&a, *args);
	int status = 0, r = td_run(a.v, NULL, 300000, NULL, &status, ret, err);
	if (r || !status)
		return r ? td_wrap(err, "kubectl exec in %s/%s", l->ns, l->pod) : 0;
	return td_fail(err, TD_INTERNAL, "in %s/%s: %.400s", l->ns, l->pod, td_buf_str(ret));
}

void td_cli_login_unread(const struct td_cli_login *l, const char *text, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = NULL;
	td_auto_free char *line = td_strndup(text, strcspn(text, "\n"));
	if (!td_kube_get(l->kube, &td_slurmclusters, l->ns, l->cluster, NULL, &sc, NULL) &&
	    !td_slurm_accounting(sc->root))
		td_fail(err, TD_UNSUPPORTED, "SlurmCluster %s/%s keeps no history: set its spec.accounting", l->ns,
			l->cluster);
	else if (strstr(line, "timed out") || strstr(line, "Unable to contact"))
		td_fail(err, TD_TRANSIENT, "Slurm does not answer: %.200s", line);
	else
		td_fail(err, TD_INTERNAL, "Slurm's answer cannot be read: %.200s", line);
}
