// Where the API server is and which identity to use. The source is either kubeconfig files, merged
// as kubectl does (the first file that has an entry wins), or the files of a pod in
// /var/run/secrets. Inline certificates go into memfds, so that no key is ever written to a disk.
#include "base/file.h"
#include "http/pki.h"
#include "kube/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)
#define IN_CLUSTER "/var/run/secrets/kubernetes.io/serviceaccount"

struct file {
	char *path, *dir;
	struct td_json_list docs;
};
struct config_files {
	struct file v[16];
	size_t n;
};

static void files_done(struct config_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].path);
		free(f->v[i].dir);
		td_json_list_done(&f->v[i].docs);
	}
}

void td_kube_config_done(struct td_kube_config *c)
{
	free(c->server);
	free(c->ca_file);
	free(c->cert_file);
	free(c->key_file);
	free(c->token_file);
	if (c->token)
		explicit_bzero(c->token, strlen(c->token));
	free(c->token);
	for (int i = 0; i < 3; i++)
		if (c->fds[i] >= 0)
			close(c->fds[i]);
	*c = (struct td_kube_config){.fds = {-1, -1, -1}};
}

static int load(struct config_files *f, const char *path, struct td_error *err)
{
	if (f->n == TD_LEN(f->v))
		return td_fail(err, TD_INVALID, "KUBECONFIG names more than %zu files", TD_LEN(f->v));

	td_auto_buf struct td_buf text = {0};
	int r = td_file_read(path, CONFIG_MAX, &text, err);
	if (r)
		return r == TD_NOT_FOUND ? td_fail(err, TD_NOT_FOUND, "kubeconfig %s does not exist", path) : r;

	struct file *x = &f->v[f->n];
	*x = (struct file){0};

	r = td_yaml_parse(td_buf_str(&text), text.len, &x->docs, err);
	if (r)
		return td_wrap(err, "kubeconfig %s", path);

	x->path = td_strdup(path);
	const char *slash = strrchr(path, '/');
	x->dir = slash ? td_strndup(path, (size_t)(slash - path)) : td_strdup(".");
	f->n++;
	return 0;
}

static const char *top_str(const struct config_files *f, const char *key)
{
	for (size_t i = 0; i < f->n; i++)
		for (size_t d = 0; d < f->v[i].docs.n; d++) {
			const char *s = td_jstr(td_json_root(f->v[i].docs.v[d]), key);
			if (s && *s)
				return s;
		}
	return NULL;
}

// Finds the entry `name` in the list `list` ("clusters") and returns its body under `key`
// ("cluster").
static yyjson_val *entry(const struct config_files *f, const char *list, const char *name, const char *key,
			 const struct file **ret_file)
{
	for (size_t i = 0; i < f->n; i++)
		for (size_t d = 0; d < f->v[i].docs.n; d++) {
			size_t j, n;
			yyjson_val *e, *l = td_jget(td_json_root(f->v[i].docs.v[d]), list);
			yyjson_arr_foreach (l, j, n, e)
				if (td_streq(td_jstr(e, "name"), name)) {
					*ret_file = &f->v[i];
					return td_jget(e, key);
				}
		}
	return NULL;
}

static char *resolve(const struct file *f, const char *path)
{
	return !path || !*path ? NULL : path[0] == '/' ? td_strdup(path) : td_asprintf("%s/%s", f->dir, path);
}

// Reads either a path from `file_key` or base64 text from `data_key`, which goes into a memfd. The
// data wins, as in client-go.
static int blob(const struct file *f, const yyjson_val *body, const char *file_key, const char *data_key, int *fd,
		char **ret, struct td_error *err)
{
	const char *data = td_jstr(body, data_key);
	if (!data || !*data) {
		*ret = resolve(f, td_jstr(body, file_key));
		return 0;
	}

	td_auto_buf struct td_buf raw = {0};
	int r = td_base64_decode(data, &raw, err);
	if (r)
		return td_fail(err, TD_INVALID, "kubeconfig %s: %s is not base64", f->path, data_key);

	td_auto_close int m = memfd_create("tandem-pem", MFD_CLOEXEC);
	if (m < 0 || td_write_all(m, raw.s, raw.len, err))
		return td_fail(err, TD_INTERNAL, "kubeconfig %s: no memory file for %s", f->path, data_key);
	explicit_bzero(raw.s, raw.len);

	*ret = td_asprintf("/proc/self/fd/%d", m);
	*fd = td_steal_fd(&m);
	return 0;
}

static int from_files(const struct config_files *f, struct td_kube_config *c, struct td_error *err)
{
	const char *path = f->v[0].path, *current = top_str(f, "current-context");
	if (!current)
		return td_fail(err, TD_INVALID,
			       "kubeconfig %s: current-context is not set (kubectl config use-context NAME)", path);

	const struct file *ff = NULL;
	yyjson_val *ctx = entry(f, "contexts", current, "context", &ff);
	if (!ctx)
		return td_fail(err, TD_INVALID, "kubeconfig %s: current-context \"%s\" is not among contexts", path,
			       current);

	const char *cname = td_jstr_or(ctx, "cluster", ""), *uname = td_jstr_or(ctx, "user", "");
	yyjson_val *cluster = entry(f, "clusters", cname, "cluster", &ff);
	if (!cluster)
		return td_fail(err, TD_INVALID, "kubeconfig %s: cluster \"%s\" of context \"%s\" is not among clusters",
			       path, cname, current);

	const char *server = td_jstr(cluster, "server");
	if (!server || !(td_starts(server, "https://") || td_starts(server, "http://")))
		return td_fail(err, TD_INVALID, "kubeconfig %s: server of cluster \"%s\" must be an http(s) URL",
			       ff->path, cname);

	if (td_jbool(cluster, "insecure-skip-tls-verify", false))
		return td_fail(err, TD_UNSUPPORTED,
			       "kubeconfig %s: insecure-skip-tls-verify of cluster \"%s\" is not supported; give "
			       "certificate-authority",
			       ff->path, cname);
	static const char *const no[] = {"proxy-url", "tls-server-name"};
	for (size_t i = 0; i < TD_LEN(no); i++)
		if (td_jstr_or(cluster, no[i], "")[0])
			return td_fail(err, TD_UNSUPPORTED, "kubeconfig %s: %s of cluster \"%s\" is not supported",
				       ff->path, no[i], cname);

	c->server = td_strdup(server);
	for (size_t n = strlen(c->server); n && c->server[n - 1] == '/'; n--)
		c->server[n - 1] = '\0';
	int r = blob(ff, cluster, "certificate-authority", "certificate-authority-data", &c->fds[0], &c->ca_file, err);
	if (r)
		return r;
	if (!*uname)
		return 0;

	yyjson_val *user = entry(f, "users", uname, "user", &ff);
	if (!user)
		return td_fail(err, TD_INVALID, "kubeconfig %s: user \"%s\" of context \"%s\" is not among users", path,
			       uname, current);
	if (td_jget(user, "exec") || td_jget(user, "auth-provider"))
		return td_fail(
			err, TD_UNSUPPORTED,
			"kubeconfig %s: user \"%s\" logs in by a plugin; give a token, tokenFile or client certificate",
			ff->path, uname);

	r = blob(ff, user, "client-certificate", "client-certificate-data", &c->fds[1], &c->cert_file, err);
	if (!r)
		r = blob(ff, user, "client-key", "client-key-data", &c->fds[2], &c->key_file, err);
	if (r)
		return r;
	if (!c->cert_file != !c->key_file)
		return td_fail(err, TD_INVALID, "kubeconfig %s: user \"%s\" has a client-%s without its client-%s",
			       ff->path, uname, c->cert_file ? "certificate" : "key",
			       c->cert_file ? "key" : "certificate");

	// tokenFile wins over token, as in client-go.
	c->token_file = resolve(ff, td_jstr(user, "tokenFile"));
	const char *token = td_jstr(user, "token");
	if (!c->token_file && token && *token)
		c->token = td_strdup(token);

	return 0;
}

static int in_cluster(struct td_kube_config *c, struct td_error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	if (!host || !*host || !td_path_exists(IN_CLUSTER "/token"))
		return td_fail(err, TD_INVALID,
			       "no Kubernetes to talk to: give --kubeconfig or set KUBECONFIG (and this is not a pod)");

	bool v6 = strchr(host, ':');
	c->server = td_asprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port && *port ? port : "443");
	c->ca_file = td_strdup(IN_CLUSTER "/ca.crt");
	c->token_file = td_strdup(IN_CLUSTER "/token");
	return 0;
}

int td_kube_config_load(const char *kubeconfig, struct td_kube_config *ret, struct td_error *err)
{
	struct td_kube_config c __attribute__((cleanup(td_kube_config_done))) = {.fds = {-1, -1, -1}};
	struct config_files f __attribute__((cleanup(files_done))) = {0};
	const char *env = getenv("KUBECONFIG");
	int r = 0;

	if (kubeconfig) {
		r = load(&f, kubeconfig, err);
	} else if (env && *env) {
		td_auto_strv struct td_strv paths = {0};
		td_strv_split(&paths, env, ':');
		for (size_t i = 0; i < paths.n && !r; i++)
			// In a list, missing files are skipped, as kubectl does.
			if (paths.n == 1 || td_path_exists(paths.v[i]))
				r = load(&f, paths.v[i], err);
		if (!r && !f.n)
			r = td_fail(err, TD_INVALID, "no file of KUBECONFIG=%s exists", env);
	}
	if (r)
		return r;

	r = f.n ? from_files(&f, &c, err) : in_cluster(&c, err);
	if (r)
		return r;
	*ret = c;
	c = (struct td_kube_config){.fds = {-1, -1, -1}};
	return 0;
}
