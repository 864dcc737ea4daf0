// tandem join: a new machine asks for a node's certificate with a token, and writes what its kubelet starts with. The
// request is signed with the machine's key, which proves that it is the machine that the token is for.
#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "cli/common.h"
#include "cli/machine.h"
#include "cmd/roles.h"
#include "http/client.h"
#include "http/csr.h"
#include "http/pki.h"
#include "kube/csr.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CA_MAX = 1 << 20, LOOK_MS = 300 };

struct join {
	const char *server, *token, *ca, *ca_hash, *name, *key, *etc, *state;
	bool kubelet;
	int timeout_s;
	struct td_buf pem; // the machine's key
	char *id, *ca_file, *bootstrap, *conf, *client;
};

static void join_done(struct join *j)
{
	if (j->pem.s)
		explicit_bzero(j->pem.s, j->pem.len);
	td_buf_done(&j->pem);
	free(j->id);
	free(j->ca_file);
	free(j->bootstrap);
	free(j->conf);
	free(j->client);
}

static bool token_fits(const char *s)
{
	for (size_t i = 0; i < TD_CSR_ID_LEN + 1 + TD_CSR_SECRET_LEN; i++)
		if (i == TD_CSR_ID_LEN ? s[i] != '.' : !islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]))
			return false;
	return !s[TD_CSR_ID_LEN + 1 + TD_CSR_SECRET_LEN];
}

// Fetches the cluster's CA from whoever answers: its hash says whether it is the right one. The token that is shown
// on the way is of no use to somebody else.
static int fetch_ca(const struct join *j, struct td_buf *ret, struct td_error *err)
{
	const struct td_http_client_opts o = {.base_url = j->server, .bearer = j->token, .unproven = true};
	const struct td_http_call call = {.method = "GET",
					  .path = "/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt",
					  .max_body = CA_MAX};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	td_auto_reply struct td_http_reply reply = {0};
	td_auto(td_json_unref) struct td_json *doc = NULL;
	char is[TD_KEY_ID_LEN];
	int r = td_http_client_new(&o, &c, err);
	if (r || (r = td_http_do(c, &call, NULL, &reply, err)))
		return r;
	if (reply.status == 401)
		return td_fail(err, TD_UNAUTHENTICATED,
			       "%s does not know the token: it was used or revoked, or its time is over", j->server);
	if (reply.status != 200 || td_json_parse(td_buf_str(&reply.body), reply.body.len, &doc, NULL))
		return td_fail(err, TD_DENIED,
			       "%s does not show its CA (HTTP %d): copy the file there and give --ca FILE", j->server,
			       reply.status);
	const char *text = td_jkey_str(td_jget(td_json_root(doc), "data"), "ca.crt"),
		   *want = td_starts(j->ca_hash, "sha256:") ? j->ca_hash + 7 : j->ca_hash;
	if ((r = td_csr_ca_id(text ? text : "", text ? strlen(text) : 0, is, err)))
		return td_wrap(err, "the CA of %s", j->server);
	// Others beside it are nobody's word.
	if (td_csr_ca_of(text, strlen(text), want, ret, NULL))
		return td_fail(err, TD_DENIED, "%s is another cluster than --ca-hash says: its CA is sha256:%s",
			       j->server, is);
	return 0;
}

// Writes how the kubelet finds the API server; as: who it is.
static int write_conf(const struct join *j, const char *path, bool by_token, struct td_error *err)
{
	const struct td_json_word words[] = {{"server", j->server, 0}, {"ca", j->ca_file, 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_cli_template("kubelet.conf.yaml", words, TD_LEN(words));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d),
		       *user = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "users"));
	td_jm_str(d, user, "name", "node");
	if (by_token) {
		td_jm_str(d, user, "user.token", j->token);
	} else {
		td_jm_str(d, user, "user.client-certificate", j->client);
		td_jm_str(d, user, "user.client-key", j->client);
	}
	td_auto(td_json_unref) struct td_json *conf = td_json_from_mut(root);
	td_auto_free char *text = td_yaml_text(td_json_root(conf));
	return td_file_write(path, text, strlen(text), 0600, err);
}

static int write_below(const char *dir, const char *sub, const char *file, const struct td_buf *text, mode_t mode,
		       struct td_error *err)
{
	td_auto_free char *at = td_asprintf("%s/%s", dir, sub), *path = td_asprintf("%s/%s", at, file);
	int r = td_mkdir_p(at, 0755, err);
	return r ? r : td_file_write(path, td_buf_str(text), text->len, mode, err);
}

// True when there is a request of that name that an earlier try has made and that may still be approved, or is. Who has
// stolen the token may have taken the name: his request has another key.
static bool goes_on(const struct join *j, struct td_kube *k, const char *name, const char *cn)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (td_kube_get(k, &td_csrs, NULL, name, NULL, &o, NULL))
		return false;
	td_auto_kube_csr struct td_kube_csr csr;
	td_kube_csr_read(o, &csr);
	return td_streq(csr.cn, cn) && td_streq(csr.machine, j->id) &&
	       (!csr.decided || td_streq(csr.decided, "Approved"));
}

// Makes the request, or finds the one that an earlier try has made. *ret: its name.
static int ask(const struct join *j, struct td_kube *k, char **ret, struct td_error *err)
{
	td_auto_free char *cn = td_asprintf(TD_CSR_NODE "%s", j->name), *pem = NULL,
			  *name = td_asprintf("tandem-%.*s-%.16s", TD_CSR_ID_LEN, j->token,
					      j->id + strlen(TD_CSR_MACHINE));
	td_auto(td_object_unref) struct td_object *made = NULL;
	int r = td_csr_make(td_buf_str(&j->pem), j->pem.len, cn, TD_CSR_NODES, &pem, err);
	if (r)
		return r;
	td_auto_buf struct td_buf b64 = {0};
	td_base64(&b64, pem, strlen(pem));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "certificates.k8s.io/v1");
	td_jm_str(d, root, "kind", "CertificateSigningRequest");
	td_jm_str(d, root, "metadata.name", name);
	td_jm_str(d, root, "spec.signerName", TD_CSR_SIGNER);
	td_jm_str(d, root, "spec.request", td_buf_str(&b64));
	yyjson_mut_val *usages = td_jm_arr(d, root, "spec.usages");
	yyjson_mut_arr_add_str(d, usages, "digital signature");
	yyjson_mut_arr_add_str(d, usages, "client auth");
	r = td_kube_create(k, &td_csrs, NULL, root, NULL, &made, err);
	if (r == TD_EXISTS && !goes_on(j, k, name, cn)) {
		td_jm_del(td_jm_obj(d, root, "metadata"), "name");
		td_jm_strf(d, root, "metadata.generateName", "%s-", name);
		r = td_kube_create(k, &td_csrs, NULL, root, NULL, &made, err);
	}
	if (r && r != TD_EXISTS)
		return r;
	*ret = made ? td_strdup(made->name) : td_steal(name);
	return 0;
}

// Waits until the request is answered, and appends the certificate.
static int await(const struct join *j, struct td_kube *k, const char *name, struct td_buf *ret, struct td_error *err)
{
	int64_t end = td_mono_ms(&td_clock_system) + (int64_t)j->timeout_s * 1000;
	for (;;) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		int r = td_kube_get(k, &td_csrs, NULL, name, NULL, &o, err);
		if (r && r != TD_TRANSIENT)
			return r;
		td_auto_kube_csr struct td_kube_csr csr = {0};
		if (o)
			td_kube_csr_read(o, &csr);
		if (csr.certificate)
			return td_base64_decode(csr.certificate, ret, err);
		if (csr.decided && strcmp(csr.decided, "Approved") != 0) {
			yyjson_val *why = td_jfind(td_jget(o->root, "status.conditions"), "type", csr.decided);
			return td_fail(err, TD_DENIED, "refused: %s: %s", td_jstr_or(why, "reason", csr.decided),
				       td_jstr_or(why, "message", "without a reason"));
		}
		if (td_mono_ms(&td_clock_system) > end)
			return td_fail(err, TD_TRANSIENT,
				       "request %s was %s within %d s: does Tandem's operator run, and does "
				       "kube-controller-manager sign?",
				       name, csr.decided ? "approved, but not signed," : "not answered", j->timeout_s);
		nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000 * 1000}, NULL); // between two looks
	}
}

static int get_certificate(const struct join *j, struct td_error *err)
{
	td_auto(td_kube_free) struct td_kube *k = NULL;
	td_auto_buf struct td_buf crt = {0};
	td_auto_free char *name = NULL;
	int r = td_kube_new(j->bootstrap, &k, err);
	if (r || (r = ask(j, k, &name, err)) || (r = await(j, k, name, &crt, err)))
		return r;
	td_buf_add(&crt, td_buf_str(&j->pem), j->pem.len);
	r = write_below(j->state, "pki", "kubelet-client-current.pem", &crt, 0600, err);
	explicit_bzero(crt.s, crt.len);
	return r ? r : write_conf(j, j->conf, false, err);
}

static int join(struct join *j, struct td_error *err)
{
	td_auto_buf struct td_buf ca = {0};
	int r = j->ca ? td_file_read(j->ca, CA_MAX, &ca, err) : fetch_ca(j, &ca, err);
	if (r || (r = write_below(j->etc, "pki", "ca.crt", &ca, 0644, err)) ||
	    (r = td_machine_key(j->key, &j->pem, &j->id, err)) || (r = write_conf(j, j->bootstrap, true, err)))
		return r;
	// A kubelet without a certificate takes the key that lies there.
	if (j->kubelet)
		return write_below(j->state, "pki", "kubelet-client.key.tmp", &j->pem, 0600, err);
	r = get_certificate(j, err);
	unlink(j->bootstrap); // it holds the token; the next try writes it anew
	return r;
}

int td_join_main(int argc, char **argv)
{
	__attribute__((cleanup(join_done))) struct join j = {
		.timeout_s = 300, .key = TD_MACHINE_KEY, .etc = "/etc/kubernetes", .state = "/var/lib/kubelet"};
	struct td_error err = TD_ERROR_INIT;
	char host[256] = "";
	int code;
	const struct td_option options[] = {
		{.name = "server", .value = "URL", TD_OPT_TEXT(&j.server), .help = "the API server", .required = true},
		{.name = "token",
		 .value = "TOKEN",
		 TD_OPT_TEXT(&j.token),
		 .help = "what `tandem node token` has printed",
		 .required = true},
		{.name = "ca-hash",
		 .value = "sha256:HASH",
		 TD_OPT_TEXT(&j.ca_hash),
		 .help = "of the public key of the cluster's CA, which is then fetched"},
		{.name = "ca", .value = "FILE", TD_OPT_TEXT(&j.ca), .help = "the cluster's CA, instead of its hash"},
		{.name = "name",
		 .value = "NODE",
		 TD_OPT_TEXT(&j.name),
		 .help = "the node's name (default: the host's name)"},
		{.name = "key",
		 .value = "FILE",
		 TD_OPT_TEXT(&j.key),
		 .help = "the machine's key (default " TD_MACHINE_KEY "); made when it is not there"},
		{.name = "kubelet",
		 TD_OPT_SWITCH(&j.kubelet),
		 .help = "only write what a kubelet's --bootstrap-kubeconfig needs; it asks by itself"},
		{.name = "kubernetes-dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&j.etc),
		 .help = "for kubelet.conf and pki/ca.crt (default /etc/kubernetes)"},
		{.name = "kubelet-dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&j.state),
		 .help = "for pki/ with the certificate (default /var/lib/kubelet)"},
		{.name = "timeout",
		 .value = "TIME",
		 .kind = TD_OPTION_SECONDS,
		 .to = &j.timeout_s,
		 .min = 1,
		 .max = 86400,
		 .help = "how long the answer is waited for (default 300)"},
	};
	const struct td_command line = {
		.name = "join",
		.about = "Makes this machine a node of a cluster, with a token that `tandem node token` made for it.\n"
			 "It asks for the node's certificate and writes what the kubelet starts with. The kubelet "
			 "itself is started by the machine.",
		.options = options,
		.n = TD_LEN(options),
		.exits = "0 joined, 1 failed or refused, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (!token_fits(j.token))
		return td_command_wrong("join",
					"--token: it is 6 and 16 lower-case letters or digits with a dot between");
	if (!j.ca == !j.ca_hash)
		return td_command_wrong("join",
					"give --ca-hash sha256:HASH or --ca FILE, so that the cluster is known");
	if (!td_starts(j.server, "https://"))
		return td_command_wrong("join", "--server %s: give https://HOST:PORT", j.server);
	gethostname(host, sizeof(host) - 1);
	for (char *s = host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	if (!j.name)
		j.name = host;
	j.ca_file = td_asprintf("%s/pki/ca.crt", j.etc);
	j.bootstrap = td_asprintf("%s/bootstrap-kubelet.conf", j.etc);
	j.conf = td_asprintf("%s/kubelet.conf", j.etc);
	j.client = td_asprintf("%s/pki/kubelet-client-current.pem", j.state);
	if (td_path_exists(j.conf)) {
		fprintf(stderr, "tandem join: this machine has joined: remove %s to join anew\n", j.conf);
		return 1;
	}
	if (join(&j, &err)) {
		fprintf(stderr, "tandem join: %s\n", err.msg);
		return 1;
	}
	printf("Node %s of %s. Its kubelet's --kubeconfig is %s", j.name, j.server, j.conf);
	printf(j.kubelet ? ", --bootstrap-kubeconfig %s, --cert-dir %s/pki.\n" : ".\n", j.bootstrap, j.state);
	return 0;
}
