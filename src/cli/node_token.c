// tandem node token: a NodeToken, and the bootstrap token of Kubernetes' own that goes with it. The record is made
// first: a token without one is good for nothing.
#include "cli/node_token.h"

#include "api/names.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"
#include "cli/client.h"
#include "cli/cloud_init.h"
#include "cli/machine.h"
#include "cli/nodeview.h"
#include "cmd/roles.h"
#include "http/csr.h"
#include "http/pki.h"
#include "kube/csr.h"

#include <stdio.h>
#include <string.h>

static const char *const verbs[] = {"token", "tokens", "revoke", "machine-id"};

bool td_cli_token_verb(const char *word)
{
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		if (!strcmp(word, verbs[i]))
			return true;
	return false;
}

// n characters of what Kubernetes' bootstrap tokens are made of.
static void letters(char *buf, size_t n)
{
	static const char from[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	for (size_t i = 0; i < n; i++)
		buf[i] = from[td_random_below(sizeof(from) - 1)];
	buf[n] = 0;
}

static int machine_id(const struct td_cli_token *q)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_buf struct td_buf pem = {0};
	td_auto_free char *id = NULL;
	int r = td_machine_key(q->key ? q->key : TD_MACHINE_KEY, &pem, &id, &err);
	if (pem.s)
		explicit_bzero(pem.s, pem.len);
	if (r)
		return td_client_failed("node", &err);
	puts(id);
	return 0;
}

// The labels that the node is to get: those that its NodeSet selects by, and others.
static int labels_of(const struct td_cli_token *q, struct td_kube *k, yyjson_mut_doc *d, yyjson_mut_val *spec,
		     struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *set = NULL;
	const char *slash = q->nodeset ? strchr(q->nodeset, '/') : NULL;
	if (q->nodeset) {
		td_auto_free char *ns = td_strndup(q->nodeset, (size_t)(slash - q->nodeset));
		int r = td_kube_get(k, &td_nodesets, ns, slash + 1, NULL, &set, err);
		if (r)
			return r == TD_NOT_FOUND
				       ? td_fail(err, r, "--nodeset: there is no NodeSet \"%s\" in namespace \"%s\"",
						 slash + 1, ns)
				       : r;
		yyjson_val *labels = td_jget(set->root, "spec.nodeSelector");
		if (yyjson_obj_size(labels))
			td_jm_copyval(d, spec, "labels", labels);
	}
	for (size_t i = 0; i < q->labels.n; i++) {
		const char *eq = strchr(q->labels.v[i], '=');
		td_auto_free char *key = td_strndup(q->labels.v[i], (size_t)(eq - q->labels.v[i]));
		td_jm_key_str(d, td_jm_obj(d, spec, "labels"), key, eq + 1);
	}
	return 0;
}

static void secret_of(yyjson_mut_doc *d, const struct td_object *o, const char *secret, const char *expires)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "stringData");
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Secret");
	td_jm_str(d, root, "type", "bootstrap.kubernetes.io/token");
	td_jm_strf(d, root, "metadata.name", TD_CSR_SECRET "%s", o->name);
	td_jm_str(d, root, "metadata.namespace", TD_CSR_TOKENS);
	yyjson_mut_val *owner = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "metadata.ownerReferences"));
	td_jm_str(d, owner, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, owner, "kind", "NodeToken");
	td_jm_str(d, owner, "name", o->name);
	td_jm_str(d, owner, "uid", o->uid);
	td_jm_str(d, data, "token-id", o->name);
	td_jm_str(d, data, "token-secret", secret);
	td_jm_str(d, data, "expiration", expires);
	td_jm_str(d, data, "usage-bootstrap-authentication", "true");
	td_jm_str(d, data, "auth-extra-groups", TD_CSR_GROUP);
	td_jm_str(d, data, "description", "a new node's, of Tandem");
}

static int revoke_quietly(struct td_kube *k, const char *id, struct td_error *err)
{
	const struct td_kube_delete_opts opts = {.grace_s = -1};
	td_auto_free char *secret = td_asprintf(TD_CSR_SECRET "%s", id);
	int r = td_kube_delete(k, &td_nodetokens, NULL, id, &opts, NULL, err);
	if (r)
		return r;
	// Its owner is gone, so it would go by itself a moment later.
	r = td_kube_delete(k, &td_secrets, TD_CSR_TOKENS, secret, &opts, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

// What a machine joins with, for programs.
static int say(struct td_kube *k, const struct td_object *o, const char *secret, struct td_json **ret,
	       struct td_error *err)
{
	td_auto_free char *server = NULL;
	td_auto_buf struct td_buf ca = {0};
	char hash[TD_KEY_ID_LEN] = "";
	int r = td_kube_place(k, &server, &ca, err);
	if (r || (ca.len && (r = td_csr_ca_id(td_buf_str(&ca), ca.len, hash, err))))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, root, "token", "%s.%s", o->name, secret);
	td_jm_str(d, root, "machine", td_jstr(o->root, "spec.machine"));
	td_jm_str(d, root, "node", td_jstr(o->root, "spec.node"));
	td_jm_str(d, root, "expires", td_jstr(o->root, "spec.expires"));
	td_jm_str(d, root, "server", server);
	td_jm_strf(d, root, "caHash", "sha256:%s", hash);
	td_jm_str(d, root, "ca", td_buf_str(&ca));
	*ret = td_json_from_mut(root);
	return 0;
}

int td_cli_token_issue(struct td_kube *k, const struct td_cli_token *q, struct td_json **ret, struct td_error *err)
{
	char id[TD_CSR_ID_LEN + 1], secret[TD_CSR_SECRET_LEN + 1], expires[TD_TIME_LEN];
	int64_t end_ms = td_real_ms(&td_clock_system) + (int64_t)q->ttl_s * 1000;
	letters(id, TD_CSR_ID_LEN);
	letters(secret, TD_CSR_SECRET_LEN);
	td_time_format(end_ms, expires);
	td_auto(td_object_unref) struct td_object *made = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *s = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_obj(d, root, "spec");
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeToken");
	td_jm_str(d, root, "metadata.name", id);
	td_jm_str(d, spec, "machine", q->machine);
	td_jm_str(d, spec, "node", q->name);
	td_jm_str(d, spec, "expires", expires);
	if (q->again)
		td_jm_bool(d, spec, "again", true);
	td_jm_strf(d, spec, "requestedBy", "%.120s", td_cli_me());
	int r = labels_of(q, k, d, spec, err);
	if (r || (r = td_kube_create(k, &td_nodetokens, NULL, root, NULL, &made, err)))
		return r;
	secret_of(s, made, secret, expires);
	r = td_kube_create(k, &td_secrets, TD_CSR_TOKENS, yyjson_mut_doc_get_root(s), NULL, NULL, err);
	// The operator, which deletes the Secret when the time is over, may have done so before it was there.
	if (!r && td_real_ms(&td_clock_system) >= end_ms)
		r = td_fail(err, TD_EXPIRED, "the token was over before it was made: give a longer --ttl");
	if (r) {
		struct td_error lost = TD_ERROR_INIT;
		revoke_quietly(k, id, &lost);
		return r;
	}
	return say(k, made, secret, ret, err);
}

// Makes a key for a machine that does not exist yet, and its token, and writes what the machine begins with. A token whose
// file could not be written is good for nothing, because nobody has the key.
static int for_cloud(struct td_kube *k, const struct td_cli_token *q, struct td_error *err)
{
	char id[TD_KEY_ID_LEN];
	td_auto_free char *key = td_pki_key_new(), *machine = NULL, *text = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_csr_key_id(key, strlen(key), id, err);
	if (!r) {
		struct td_cli_token with = *q;
		with.machine = machine = td_asprintf(TD_CSR_MACHINE "%s", id);
		r = td_cli_token_issue(k, &with, &j, err);
	}
	if (!r) {
		text = td_cli_cloud_init(td_json_root(j), key);
		r = td_file_write(q->cloud_init, text, strlen(text), 0600, err);
		explicit_bzero(text, strlen(text));
	}
	explicit_bzero(key, strlen(key));
	const char *token = j ? td_jstr_or(td_json_root(j), "token", "") : "";
	td_auto_free char *name = td_strndup(token, j ? TD_CSR_ID_LEN : 0);
	if (r) {
		struct td_error lost = TD_ERROR_INIT;
		if (j)
			revoke_quietly(k, name, &lost);
		return r;
	}
	if (q->output) {
		// Without the token itself, which lies in the file.
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "id", name);
		td_jm_str(d, root, "file", q->cloud_init);
		td_jm_str(d, root, "machine", machine);
		td_jm_str(d, root, "node", q->name);
		td_jm_str(d, root, "expires", td_jstr(td_json_root(j), "expires"));
		td_auto(td_json_unref) struct td_json *out = td_json_from_mut(root);
		td_auto_free char *line = td_json_pretty(td_json_root(out));
		puts(line);
		return 0;
	}
	printf("%s is the user-data of node %s: boot one virtual machine with it before %s.\n"
	       "Token %s. `tandem node tokens` tells what became of it.\n",
	       q->cloud_init, q->name, td_jstr_or(td_json_root(j), "expires", "?"), name);
	return 0;
}

static int make(const struct td_cli_token *q)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	if (r)
		return td_client_failed("node", &err);
	// Said at once instead of to the machine.
	if (q->name && !q->again && !(r = td_kube_get(v.kube, &td_nodes, NULL, q->name, NULL, NULL, &err)))
		r = td_fail(&err, TD_EXISTS, "node %s is there: with --again it is that machine from now on", q->name);
	if (r && r != TD_NOT_FOUND)
		return td_client_failed("node", &err);
	if (q->cloud_init)
		return for_cloud(v.kube, q, &err) ? td_client_failed("node", &err) : 0;
	if (td_cli_token_issue(v.kube, q, &j, &err))
		return td_client_failed("node", &err);
	yyjson_val *x = td_json_root(j);
	if (q->output) {
		td_auto_free char *text = td_json_pretty(x);
		puts(text);
		return 0;
	}
	printf("A token for one use by that machine until %s. There, as root:\n"
	       "  tandem join --server %s --ca-hash %s --token %s%s%s\n",
	       td_jstr_or(x, "expires", "?"), td_jstr_or(x, "server", "?"), td_jstr_or(x, "caHash", "?"),
	       td_jstr_or(x, "token", "?"), q->name ? " --name " : "", q->name ? q->name : "");
	return 0;
}

static int list(const struct td_cli_token *q)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	td_auto_objects struct td_objects l = {0};
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	if (r || (r = td_kube_list(v.kube, &td_nodetokens, NULL, NULL, NULL, NULL, &l, &err)))
		return td_client_failed("node", &err);
	if (q->output) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_arr(d, root, "tokens");
		for (size_t i = 0; i < l.n; i++)
			yyjson_mut_arr_append(a, yyjson_val_mut_copy(d, l.v[i]->root));
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
		return 0;
	}
	if (!l.n) {
		puts("There are no tokens. `tandem node token --machine ID` makes one.");
		return 0;
	}
	printf("%-7s %-8s %-20s %-20s %s\n", "TOKEN", "PHASE", "NODE", "EXPIRES", "MACHINE");
	for (size_t i = 0; i < l.n; i++) {
		yyjson_val *o = l.v[i]->root;
		printf("%-7s %-8s %-20s %-20s %.16s...\n", l.v[i]->name, td_jstr_or(o, "status.phase", "-"),
		       td_jstr_or(o, "status.node", td_jstr_or(o, "spec.node", "-")),
		       td_jstr_or(o, "spec.expires", "-"), td_jstr_or(o, "spec.machine", "-"));
		if (td_jint(o, "status.refused", 0))
			printf("        refused %lld times, the last time: %s\n",
			       (long long)td_jint(o, "status.refused", 0), td_jstr_or(o, "status.message", "?"));
	}
	return 0;
}

static int revoke(const struct td_cli_token *q, const char *id)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodeview struct td_nodeview v = {0};
	int r = td_cli_nodes_open(&q->remote, &v, &err);
	if (!r && (r = revoke_quietly(v.kube, id, &err)) == TD_NOT_FOUND)
		td_fail(&err, r, "there is no token \"%s\": `tandem node tokens` lists them", id);
	if (r)
		return td_client_failed("node", &err);
	printf("NodeToken %s is revoked.\n", id);
	return 0;
}

int td_cli_token_run(const struct td_cli_token *q, const char *verb, const char *id)
{
	if (strcmp(verb, "revoke") != 0 && id)
		return td_command_wrong("node", "%s takes no \"%s\"", verb, id);
	if (!strcmp(verb, "machine-id"))
		return machine_id(q);
	if (!strcmp(verb, "tokens"))
		return list(q);
	if (!strcmp(verb, "revoke"))
		return id ? revoke(q, id)
			  : td_command_wrong("node", "revoke which token? `tandem node tokens` lists them");
	if (q->cloud_init && (q->machine || !q->name))
		return td_command_wrong("node", q->machine ? "--machine: with --cloud-init its key is made here"
							   : "--cloud-init needs --name NODE, the machine's name");
	if (!q->machine && !q->cloud_init)
		return td_command_wrong("node", "token needs --machine ID, which `tandem node machine-id` prints on "
						"the new machine");
	if (q->nodeset && !strchr(q->nodeset, '/'))
		return td_command_wrong("node", "--nodeset %s: give NAMESPACE/NAME", q->nodeset);
	for (size_t i = 0; i < q->labels.n; i++) {
		const char *eq = strchr(q->labels.v[i], '=');
		td_auto_free char *key = eq ? td_strndup(q->labels.v[i], (size_t)(eq - q->labels.v[i])) : NULL;
		if (!eq || !td_is_qualified_name(key) || !td_is_label_value(eq + 1))
			return td_command_wrong("node", "--label %s: give KEY=VALUE, as a label of Kubernetes is",
						q->labels.v[i]);
	}
	return make(q);
}
