// Python environments of runs: what decides one, and the list of those that a person has.
//
// An environment is a venv with what pip installed for a list of requirements. Its key is a hash of
// the requirements as pip sees them (without comments), the Python asked for, where the packages come
// from, the nodes' architecture and the image that Slurm's nodes run, which decides the Python there.
// Or it is what conda.py made of packages of Conda's channels, with a Python of its own: of_conda() says its key.
#include "gateway/home.h"
#include "gateway/jobs.h"
#include "gateway/need.h"

#include "base/names.h"
#include "http/pki.h"
#include "pool/archs.h"

#include <ctype.h>
#include <string.h>

enum { KEY_LEN = 20, CONDA_MB = 2048 };

// Appends the line without its comment and the blanks around it, behind a head; nothing when nothing is left.
static void add_line(struct td_buf *b, const char *head, const char *s)
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
		td_buf_puts(b, head);
		td_buf_add(b, s, n);
		td_buf_putc(b, '\n');
	}
}

// The newest CUDA that the driver of a node can do, as NVIDIA's feature discovery labels it (two spellings). The caller
// frees it; NULL: it is not said.
static char *cuda_of(struct td_gateway *g, const char *node)
{
	td_auto(td_object_unref) struct td_object *n = td_informer_get(g->nodes, NULL, node);
	const char *major = n ? td_object_label(n, TD_LABEL_CUDA_MAJOR) : NULL,
		   *minor = n ? td_object_label(n, TD_LABEL_CUDA_MINOR) : NULL;
	if (n && !major) {
		major = td_object_label(n, TD_LABEL_CUDA_OLD_MAJOR);
		minor = td_object_label(n, TD_LABEL_CUDA_OLD_MINOR);
	}
	return major ? td_asprintf("%s.%s", major, minor ? minor : "0") : NULL;
}

// Nodes as pool/archs.h wants them.
struct env_nodes {
	struct td_gateway_seen *seen;
	struct td_archs_node *v;
	struct td_strv cuda; // what the nodes' fields point to
	struct td_archs_build builds[TD_ARCHS_MOST];
	size_t n_builds;
};

static void env_nodes_done(struct env_nodes *n)
{
	td_gateway_seen_unref(n->seen);
	free(n->v);
	td_strv_done(&n->cuda);
}
#define td_auto_env_nodes __attribute__((cleanup(env_nodes_done)))

// Which builds the steps of the job need. cuda: look for it.
static int look(struct td_gateway_ask *q, const yyjson_val *job, bool cuda, struct env_nodes *l, struct td_error *err)
{
	struct td_archs_step steps[64];
	size_t i, n, k = 0;
	yyjson_val *v;
	if (!(l->seen = td_gateway_look(q->g, err)))
		return td_wrap(err, "environment");
	const struct td_slurm_nodes *nodes = &l->seen->nodes->nodes;
	l->v = td_calloc(nodes->n + 1, sizeof(*l->v));
	for (i = 0; i < nodes->n; i++) {
		const struct td_slurm_node *s = &nodes->v[i];
		td_auto_free char *can = cuda ? cuda_of(q->g, s->name) : NULL;
		td_strv_add(&l->cuda, can ? can : "");
		l->v[i] = (struct td_archs_node){
			.arch = s->arch, .partitions = s->partitions, .features = s->active ? s->active : s->features};
	}
	for (i = 0; i < nodes->n; i++)
		l->v[i].cuda = l->cuda.v[i];
	yyjson_arr_foreach (td_jget(job, "steps"), i, n, v)
		if (k < TD_LEN(steps))
			steps[k++] = (struct td_archs_step){td_jstr(v, "partition"), td_jstr(v, "constraint")};
	l->n_builds = td_pool_archs(l->v, nodes->n, steps, k, l->builds);
	return l->n_builds
		       ? 0
		       : td_fail(err, TD_TRANSIENT,
				 "environment: no node has said what architecture it has: try again when one is up");
}

// Adds what builds it for one architecture; text: what it is of.
static struct td_gateway_need *build(const struct env_nodes *l, size_t i, const yyjson_val *job, const char *text,
				     struct td_gateway_needs *needs)
{
	const struct td_archs_build *b = &l->builds[i];
	const yyjson_val *step = yyjson_arr_get(td_jget(job, "steps"), b->step);
	struct td_gateway_need *need = td_gateway_need_add(needs);
	need->place = "envs";
	need->kind = "environment";
	need->want = td_strdup(text);
	td_strv_addf(&need->env, "TANDEM_ARCH=%s", b->arch);
	if (l->n_builds == 1) {
		need->step = td_strdup("environment");
		return need;
	}
	// Its job may only go where nodes are of this kind.
	need->step = td_asprintf("environment-%s", b->arch);
	need->apart = true;
	need->partition = td_strdup(td_jstr(step, "partition"));
	need->constraints = td_strdup(td_jstr(step, "constraint"));
	for (size_t k = 0; k < l->seen->nodes->nodes.n; k++)
		if (*l->seen->nodes->nodes.v[k].arch && strcmp(l->seen->nodes->nodes.v[k].arch, b->arch) != 0)
			td_strv_add(&need->avoid, l->seen->nodes->nodes.v[k].name);
	return need;
}

static void key(struct td_gateway_need *need, const struct td_buf *all)
{
	char hex[65];
	td_sha256_hex(td_buf_str(all), all->len, hex);
	need->key = td_strndup(hex, KEY_LEN);
}

// A list of lines: each has one.
static int check_lines(const yyjson_val *e, const char *field, struct td_error *err)
{
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(e, field), i, n, v)
		if (strpbrk(yyjson_get_str(v), "\n\r"))
			return td_fail(err, TD_INVALID, "environment: %s: one line each: \"%.60s\"", field,
				       yyjson_get_str(v));
	return 0;
}

static int of_pip(struct td_gateway_ask *q, const yyjson_val *job, const yyjson_val *e, struct td_gateway_needs *l,
		  struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	td_auto_env_nodes struct env_nodes nodes = {0};
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(e, "requirements"), i, n, v)
		add_line(&text, "", yyjson_get_str(v));
	if (!text.len)
		return td_fail(err, TD_INVALID, "environment: requirements: name at least one package");
	int r = look(q, job, false, &nodes, err);
	if (r)
		return r;
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	const char *python = td_jstr(e, "python"), *index = td_jstr(e, "index"),
		   *image = sc ? td_jstr_or(sc->root, "spec.slurm.image", "") : "";
	for (i = 0; i < nodes.n_builds; i++) {
		td_auto_buf struct td_buf all = {0};
		struct td_gateway_need *need = build(&nodes, i, job, td_buf_str(&text), l);
		td_buf_printf(&all, "1\n%s\n%s\n%s\n%s\n%s", nodes.builds[i].arch, image, python ? python : "",
			      index ? index : "", td_buf_str(&text));
		key(need, &all);
		need->script = "env.sh";
		td_strv_addf(&need->env, "TANDEM_PYTHON=python%s", python ? python : "3");
		td_strv_addf(&need->env, "TANDEM_INDEX=%s", index ? index : "");
	}
	return 0;
}

// The channels in the order that counts: those of the file, then the site's, which "defaults" names too, unless the
// file has "nodefaults".
static void channels_of(const yyjson_val *e, const yyjson_val *site, struct td_strv *ret)
{
	size_t i, n, k;
	yyjson_val *v;
	bool more = true;
	td_auto_strv struct td_strv own = {0};
	td_jstrs(td_jget(site, "condaChannels"), &own);
	if (!own.n)
		td_strv_add(&own, "conda-forge");
	yyjson_arr_foreach (td_jget(e, "channels"), i, n, v) {
		const char *s = yyjson_get_str(v);
		more &= strcmp(s, "nodefaults") != 0;
		for (k = 0; k < own.n && !strcmp(s, "defaults"); k++)
			if (!td_strv_has(ret, own.v[k]))
				td_strv_add(ret, own.v[k]);
		if (strcmp(s, "defaults") != 0 && strcmp(s, "nodefaults") != 0 && !td_strv_has(ret, s))
			td_strv_add(ret, s);
	}
	for (k = 0; k < own.n && (more || !ret->n); k++)
		if (!td_strv_has(ret, own.v[k]))
			td_strv_add(ret, own.v[k]);
}

// What decides a Conda environment beside its text: where channels are looked up, the architecture, and the CUDA that
// all nodes can do. Not the image, whose Python it does not have.
static int of_conda(struct td_gateway_ask *q, const yyjson_val *job, const yyjson_val *e, struct td_gateway_needs *l,
		    struct td_error *err)
{
	td_auto_buf struct td_buf text = {0}, specs = {0};
	td_auto_env_nodes struct env_nodes nodes = {0};
	td_auto_strv struct td_strv channels = {0};
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	const yyjson_val *site = sc ? td_jget(sc->root, "spec.environments") : NULL;
	const char *index = td_jstr(e, "index"), *mirror = td_jstr_or(site, "condaMirror", ""),
		   *said = td_jstr(e, "cuda") ? td_jstr(e, "cuda") : td_jstr(site, "cuda");
	size_t i, n;
	yyjson_val *v;
	bool locked = true;
	if (td_jget(e, "python"))
		return td_fail(err, TD_INVALID,
			       "environment: python: with conda it is one of the packages: conda: [python=%s, …]",
			       td_jstr(e, "python"));
	int r = check_lines(e, "conda", err);
	if (r)
		return r;
	yyjson_arr_foreach (td_jget(e, "conda"), i, n, v) {
		const char *s = yyjson_get_str(v), *address = strstr(s, "://");
		if (address && address[3 + strcspn(address + 3, "/@")] == '@')
			return td_fail(err, TD_INVALID,
				       "environment: conda: an address has a name or a password in it, which jobs and "
				       "lists would show: keep them in ~/.rattler/credentials.json on the cluster");
		locked &= address && strchr(s, '#');
		add_line(&specs, "", s);
	}
	// A lock says where each package lies.
	if (!locked)
		channels_of(e, site, &channels);
	for (i = 0; i < channels.n; i++)
		td_buf_printf(&text, "channel: %s\n", channels.v[i]);
	td_buf_puts(&text, td_buf_str(&specs));
	yyjson_arr_foreach (td_jget(e, "requirements"), i, n, v)
		add_line(&text, "pip: ", yyjson_get_str(v));
	if ((r = look(q, job, !said && !locked, &nodes, err)))
		return r;
	for (i = 0; i < nodes.n_builds; i++) {
		const char *cuda = locked ? "" : said ? said : nodes.builds[i].cuda ? nodes.builds[i].cuda : "";
		td_auto_buf struct td_buf all = {0};
		struct td_gateway_need *need = build(&nodes, i, job, td_buf_str(&text), l);
		td_buf_printf(&all, "conda 1\n%s\n%s\n%s\n%s\n%s", nodes.builds[i].arch, cuda, locked ? "" : mirror,
			      index ? index : "", td_buf_str(&text));
		key(need, &all);
		need->script = "conda.py";
		need->memory_mb = CONDA_MB;
		td_strv_addf(&need->env, "TANDEM_CUDA=%s", cuda);
		td_strv_addf(&need->env, "TANDEM_CONDA_MIRROR=%s", mirror);
		td_strv_addf(&need->env, "TANDEM_INDEX=%s", index ? index : "");
	}
	return 0;
}

int td_gateway_env_of(struct td_gateway_ask *q, const yyjson_val *job, struct td_gateway_needs *l, char **ret_env,
		      struct td_error *err)
{
	yyjson_val *e = td_jget(job, "environment");
	size_t before = l->n;
	int r = e ? check_lines(e, "requirements", err) : 0;
	if (!e || r)
		return r;
	if ((td_jget(e, "channels") || td_jget(e, "cuda")) && !td_jget(e, "conda"))
		return td_fail(err, TD_INVALID, "environment: channels and cuda go with conda");
	r = td_jget(e, "conda") ? of_conda(q, job, e, l, err) : of_pip(q, job, e, l, err);
	if (r)
		return r;
	struct td_buf b = {0};
	bool one = l->n - before == 1;
	for (size_t i = before; i < l->n; i++)
		if (one)
			td_buf_puts(&b, l->v[i].key);
		else
			td_buf_printf(&b, "%s%s=%s", b.len ? " " : "", l->v[i].step + strlen("environment-"),
				      l->v[i].key);
	*ret_env = td_buf_take(&b);
	return 0;
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
