// The embedded roles with their command lines, and `tandem supervise`, which becomes
// tandem-supervise (keep.c).
#include "local/supervise.h"

#include "base/options.h"
#include "cmd/roles.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *td_self_path(void)
{
	char buf[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);
	if (n <= 0)
		return td_strdup("tandem");
	buf[n] = '\0';
	if (td_ends(buf, " (deleted)"))
		// The binary was rebuilt while it ran; the new one has this path.
		buf[n - (ssize_t)strlen(" (deleted)")] = '\0';
	return td_strdup(buf);
}

char *td_local_role_pidfile(const struct td_instance *i, const char *role)
{
	return td_asprintf("%s/%s.pid", i->run, role);
}

static struct td_strv *role(struct td_local_role **v, size_t *n, const char *self, const char *name)
{
	*v = td_realloc(*v, (*n + 1) * sizeof(**v));
	struct td_local_role *r = &(*v)[(*n)++];
	*r = (struct td_local_role){.name = name};
	td_strv_add(&r->argv, self);
	td_strv_add(&r->argv, name);
	return &r->argv;
}

static void kubeconfig(struct td_strv *a, const struct td_instance *i, const char *user)
{
	td_strv_add(a, "--kubeconfig");
	td_strv_steal(a, td_instance_kubeconfig(i, user));
}

size_t td_roles(const struct td_instance *i, const char *self, struct td_local_role **ret)
{
	struct td_local_role *v = NULL;
	size_t n = 0;

	struct td_strv *a = role(&v, &n, self, "apiserver");
	td_strv_addf(a, "--listen=127.0.0.1:%d", i->api_port);
	td_strv_addf(a, "--listen=10.%d.0.1:%d", i->subnet, i->api_port);
	td_strv_addf(a, "--pki=%s/pki", i->home);
	td_strv_addf(a, "--db=%s/state.db", i->home);
	td_strv_addf(a, "--agent-socket=%s/agent.sock", i->run);
	if (i->slurm)
		td_strv_addf(a, "--other-socket=%s/other.sock", i->run);

	a = role(&v, &n, self, "kubelet");
	kubeconfig(a, i, "kubelet");
	td_strv_addf(a, "--home=%s", i->home);
	td_strv_addf(a, "--run=%s", i->run);
	td_strv_addf(a, "--id=%s", i->id);
	td_strv_addf(a, "--images=%s", i->images);
	td_strv_addf(a, "--nodes=%d", i->nodes);
	td_strv_addf(a, "--cpus=%d", i->cpus);
	td_strv_addf(a, "--memory=%s", i->memory);
	td_strv_addf(a, "--gpus=%d", i->gpus);
	if (i->real_gpus)
		td_strv_add(a, "--real-gpus");
	td_strv_addf(a, "--device-major=%d", i->device_major);
	td_strv_addf(a, "--switch=td%s", i->id);
	td_strv_addf(a, "--cidr=10.%d.0.1/16", i->subnet);
	td_strv_addf(a, "--api-url=https://10.%d.0.1:%d", i->subnet, i->api_port);
	td_strv_addf(a, "--metrics=127.0.0.1:%d", i->metrics_port + 2);

	a = role(&v, &n, self, "controllers");
	kubeconfig(a, i, "controllers");
	if (i->slurm) {
		a = role(&v, &n, self, "operator");
		kubeconfig(a, i, "operator");
		td_strv_addf(a, "--metrics=127.0.0.1:%d", i->metrics_port + 1);
		td_strv_addf(a, "--streams=unix:%s/other.sock", i->run);
		td_strv_addf(a, "--empty-dirs=%s/agent/volumes/{uid}/v/{name}", i->home);
		a = role(&v, &n, self, "bridge");
		kubeconfig(a, i, "bridge");
		td_strv_addf(a, "--empty-dirs=%s/agent/volumes/{uid}/v/{name}", i->home);
		td_strv_addf(a, "--policies=%s/policies", i->home);
		td_strv_add(a, "--own-kubelet");
		td_strv_add(a, "--namespace=slurm");
		td_strv_add(a, "--cluster=main");
		td_strv_add(a, "--lease-namespace=kube-system");
		td_strv_addf(a, "--knock=10.%d.0.1:%d", i->subnet, i->knock_port);
		td_strv_addf(a, "--why=unix:%s/bridge.sock", i->run);
		td_strv_addf(a, "--metrics=127.0.0.1:%d", i->metrics_port);
		a = role(&v, &n, self, "gateway");
		kubeconfig(a, i, "gateway");
		td_strv_addf(a, "--empty-dirs=%s/agent/volumes/{uid}/v/{name}", i->home);
		td_strv_add(a, "--namespace=slurm");
		td_strv_add(a, "--cluster=main");
		td_strv_addf(a, "--homes=%s/shared/home", i->home);
		td_strv_add(a, "--homes-path=/shared/home");
		td_strv_addf(a, "--usage=http://127.0.0.1:%d", i->metrics_port + 2);
		td_strv_addf(a, "--listen=127.0.0.1:%d", i->metrics_port + 3);
	}

	*ret = v;
	return n;
}

void td_roles_done(struct td_local_role *v, size_t n)
{
	for (size_t k = 0; k < n; k++)
		td_strv_done(&v[k].argv);
	free(v);
}

// Replaces this process by tandem-supervise, if that program exists. supervise only waits, for
// ever; without the libraries of the other roles it needs a fifth of their memory to do so.
static void become_small(const char *tandem)
{
	td_auto_free char *dir = td_strdup(tandem);
	char *slash = strrchr(dir, '/');
	if (!slash)
		return;
	*slash = '\0';
	static const char *const places[] = {"tandem-supervise", "../local/tandem-supervise" /* build tree */,
					     "../lib/tandem/tandem-supervise"};
	for (size_t k = 0; k < TD_LEN(places); k++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, places[k]);
		char *argv[] = {path, (char *)(uintptr_t)tandem, NULL};
		execv(path, argv); // returns only on failure
		if (errno != ENOENT && errno != ENOTDIR)
			fprintf(stderr, "tandem supervise: %s: %m\n", path);
	}
}

int td_supervise_main(int argc, char **argv)
{
	const struct td_command c = {
		.name = "supervise",
		.about = "Starts and restarts the embedded roles of $TANDEM_HOME. `tandem up` starts it.",
		.exits = TD_ROLE_EXITS};
	int code;
	if (!td_command_line(&c, argc, argv, NULL, &code))
		return code;
	td_auto_free char *self = td_self_path();
	become_small(self);
	return td_supervise_keep(self); // a tandem binary without tandem-supervise works too
}
