// Python environments of runs: what decides one, and the list of those that a person has.
//
// An environment is a venv with what pip installed for a list of requirements. Its key is a hash of
// the requirements as pip sees them (without comments), the Python asked for, where the packages come
// from, the nodes' architecture and the image that Slurm's nodes run, which decides the Python there.
#include "gateway/home.h"
#include "gateway/jobs.h"
#include "gateway/need.h"

#include "http/pki.h"

#include <ctype.h>
#include <string.h>

enum { KEY_LEN = 20 };

// Appends the line without its comment and the blanks around it; nothing when nothing is left.
static void add_line(struct td_buf *b, const char *s)
{
	size_t n = 0;
	while (isspace((unsigned char)*s))
		s++;
	// As pip reads it: a comment begins the line, or stands behind a blank.
	while (s[n] && !(s[n] == '#' && (!n || isspace((unsigned char)s[n - 1]))))
		n++;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n) {
		td_buf_add(b, s, n);
		td_buf_putc(b, '\n');
	}
}

// The one architecture of the pool's nodes. The caller frees it.
static int architecture(struct td_gateway_ask *q, char **ret, struct td_error *err)
{
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, err);
	if (!s)
		return err ? err->code : TD_TRANSIENT;
	const char *one = NULL;
	for (size_t i = 0; i < s->nodes.n; i++) {
		const char *a = s->nodes.v[i].arch;
		if (!*a)
			continue;
		if (one && strcmp(one, a) != 0)
			return td_fail(err, TD_UNSUPPORTED,
				       "the pool has nodes of %s and of %s: environments are made only where all have "
				       "one architecture; make one of your own in the job",
				       one, a);
		one = a;
	}
	if (!one)
		return td_fail(err, TD_TRANSIENT,
			       "no node has said what architecture it has: try again when one is up");
	*ret = td_strdup(one);
	return 0;
}

static int environment(struct td_gateway_ask *q, const yyjson_val *e, struct td_gateway_needs *l, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0}, all = {0};
	td_auto_free char *arch = NULL;
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(e, "requirements"), i, n, v) {
		const char *s = yyjson_get_str(v);
		if (strpbrk(s, "\n\r"))
			return td_fail(err, TD_INVALID, "environment: requirements: one line each: \"%.60s\"", s);
		add_line(&text, s);
	}
	if (!text.len)
		return td_fail(err, TD_INVALID, "environment: requirements: name at least one package");
	int r = architecture(q, &arch, err);
	if (r)
		return td_wrap(err, "environment");

	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	const char *python = td_jstr(e, "python"), *index = td_jstr(e, "index"),
		   *image = sc ? td_jstr_or(sc->root, "spec.slurm.image", "") : "";
	char hex[65];
	td_buf_printf(&all, "1\n%s\n%s\n%s\n%s\n%s", arch, image, python ? python : "", index ? index : "",
		      td_buf_str(&text));
	td_sha256_hex(td_buf_str(&all), all.len, hex);

	struct td_gateway_need *need = td_gateway_need_add(l);
	need->place = "envs";
	need->kind = "environment";
	need->step = td_strdup("environment");
	need->key = td_strndup(hex, KEY_LEN);
	need->want = td_buf_take(&text);
	need->script = "env.sh";
	td_strv_addf(&need->env, "TANDEM_ARCH=%s", arch);
	td_strv_addf(&need->env, "TANDEM_PYTHON=python%s", python ? python : "3");
	td_strv_addf(&need->env, "TANDEM_INDEX=%s", index ? index : "");
	return 0;
}

int td_gateway_env_of(struct td_gateway_ask *q, const yyjson_val *job, struct td_gateway_needs *l, char **ret_env,
		      struct td_error *err)
{
	yyjson_val *e = td_jget(job, "environment");
	int r = e ? environment(q, e, l, err) : 0;
	if (e && !r)
		*ret_env = td_strdup(l->v[l->n - 1].key);
	return r;
}

static int list_envs(struct td_gateway_ask *q, struct td_error *err)
{
	return td_gateway_made_list(q, "envs", err);
}

static int delete_env(struct td_gateway_ask *q, struct td_error *err)
{
	return td_gateway_made_delete(q, "envs", err);
}

const struct td_gateway_op td_gateway_env_ops[] = {
	{"listEnvironments", list_envs},
	{"deleteEnvironment", delete_env},
	{NULL, NULL},
};
