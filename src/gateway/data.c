// Data sets of runs: what lies on shared storage is used where it lies; what is fetched by HTTP or git is
// fetched once (need.h), and verified. The key of what comes by HTTP is that of its content, wherever it
// comes from; that of git and of a bucket is its address and what was asked for of it.
#include "gateway/need.h"

#include "api/kinds.h"
#include "gateway/jobs.h"
#include "gateway/path.h"
#include "http/pki.h"

#include <ctype.h>
#include <string.h>

enum { KEY_LEN = 20 };

static int wrong(const char *name, const char *fix, struct td_error *err)
{
	return td_fail(err, TD_INVALID, "data: %.40s: %s", name, fix);
}

// What lies in a bucket. Its keys are in the person's home, where the job reads them: no request has them.
static int bucket(const yyjson_val *v, const char *name, struct td_gateway_needs *l, struct td_error *err)
{
	const char *s3 = td_jstr_or(v, "s3", ""), *endpoint = td_jstr(v, "endpoint"),
		   *region = td_jstr_or(v, "region", "us-east-1"), *revision = td_jstr_or(v, "revision", "");
	char hex[65];
	if (!endpoint)
		return wrong(name, "endpoint: say which server of S3, such as https://s3.eu-central-1.amazonaws.com",
			     err);
	if (td_jget(v, "sha256") || td_jget(v, "ref") || td_jget(v, "unpack"))
		return wrong(name, "s3 goes with endpoint, region, revision and profile", err);
	td_auto_free char *all = td_asprintf("1\ns3\n%s\n%s\n%s\n%s", endpoint, region, s3, revision);
	td_sha256_hex(all, strlen(all), hex);

	struct td_gateway_need *n = td_gateway_need_add(l);
	n->place = "data";
	n->kind = "data";
	n->step = td_asprintf("data-%s", name);
	n->key = td_strndup(hex, KEY_LEN);
	n->want = td_asprintf("%s %s %s\n", s3, endpoint, revision);
	n->script = "data.py";
	td_strv_addf(&n->env, "TANDEM_S3=%s", s3);
	td_strv_addf(&n->env, "TANDEM_S3_ENDPOINT=%s", endpoint);
	td_strv_addf(&n->env, "TANDEM_S3_REGION=%s", region);
	td_strv_addf(&n->env, "TANDEM_S3_PROFILE=%s", td_jstr_or(v, "profile", ""));
	return 0;
}

static int fetched(const yyjson_val *v, const char *name, struct td_gateway_needs *l, struct td_error *err)
{
	const char *url = td_jstr(v, "url"), *sum = td_jstr(v, "sha256"), *git = td_jstr(v, "git"),
		   *ref = td_jstr(v, "ref");
	bool unpack = td_jbool(v, "unpack", false);
	char hex[65];
	td_auto_buf struct td_buf all = {0};
	if (url && !sum)
		return wrong(name, "sha256: say what its hash is, so that what comes is what you mean", err);
	if (git && (!ref || *ref == '-'))
		return wrong(name, "ref: say which commit or tag", err);
	if (url ? git || ref : sum || unpack)
		return wrong(name, "url goes with sha256 and unpack, git with ref", err);
	// The file's name is part of what a run finds.
	const char *end = url ? url + strcspn(url, "?#") : NULL, *base = end;
	while (base && base > url && base[-1] != '/')
		base--;
	if (url)
		td_buf_printf(&all, "1\nhttp\n%s\n%s\n%.*s", sum, unpack ? "unpacked" : "",
			      unpack ? 0 : (int)(end - base), base);
	else
		td_buf_printf(&all, "1\ngit\n%s\n%s", git, ref);
	td_sha256_hex(td_buf_str(&all), all.len, hex);

	struct td_gateway_need *n = td_gateway_need_add(l);
	n->place = "data";
	n->kind = "data";
	n->step = td_asprintf("data-%s", name);
	n->key = td_strndup(hex, KEY_LEN);
	n->want = url ? td_asprintf("%s\n", url) : td_asprintf("%s %s\n", git, ref);
	n->script = "data.py";
	if (url) {
		td_strv_addf(&n->env, "TANDEM_URL=%s", url);
		td_strv_addf(&n->env, "TANDEM_SHA256=%s", sum);
		td_strv_addf(&n->env, "TANDEM_UNPACK=%s", unpack ? "yes" : "");
	} else {
		td_strv_addf(&n->env, "TANDEM_GIT=%s", git);
		td_strv_addf(&n->env, "TANDEM_REF=%s", ref);
	}
	return 0;
}

// A path at /datasets is a copy that nodes hold: the job goes to one that does.
static int held(const char *path, const char *name, struct td_strv *ret, struct td_error *err)
{
	static const char at[] = "/datasets/";
	if (!td_starts(path, at))
		return 0;
	path += sizeof(at) - 1;
	td_auto_free char *of = td_strndup(path, strcspn(path, "/"));
	if (!td_is_dns_subdomain(of))
		return wrong(name, "path: below /datasets lie data sets by the names of their Dataset objects", err);
	if (!td_strv_has(ret, of))
		td_strv_add(ret, of);
	return 0;
}

// What the pool holds by this name on its nodes, else a directory of the home: it becomes an entry of *b. The "+" has the
// run find it at ~/NAME too, where files of tuxiv look for it.
static int public(struct td_gateway_ask *q, const char *name, const char *set, struct td_buf *b,
		  struct td_strv *ret_held, struct td_error *err)
{
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, err);
	if (!s)
		return err ? err->code : TD_TRANSIENT;
	td_auto_free char *lower = td_strdup(set), *path = NULL;
	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	td_auto_free char *feature = td_asprintf("data.%s", lower);
	for (size_t i = 0; i < s->nodes->nodes.n && !path; i++) {
		td_auto_strv struct td_strv have = {0};
		td_strv_split(&have, s->nodes->nodes.v[i].features ? s->nodes->nodes.v[i].features : "", ',');
		if (td_strv_has(&have, feature))
			path = td_asprintf("/datasets/%s", lower);
	}
	td_buf_printf(b, "%s%s%s=", b->len ? " " : "", path ? "+" : "", name);
	if (path)
		td_buf_puts(b, path);
	else
		td_buf_printf(b, "%s/%s", q->user.home, set);
	return path ? held(path, name, ret_held, err) : 0;
}

int td_gateway_data_of(struct td_gateway_ask *q, const yyjson_val *job, struct td_gateway_needs *l, char **ret_data,
		       struct td_strv *ret_held, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	bool copies = !sc || td_jget(sc->root, "spec.datasets"); // elsewhere /datasets is a directory like any other
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(job, "data"), i, n, v) {
		const char *name = td_jstr(v, "name"), *path = td_jstr(v, "path"), *set = td_jstr(v, "dataset");
		int r = td_gateway_name_check("data set", name, err);
		if (r)
			return r;
		const char *s3 = td_jstr(v, "s3");
		if (!!path + !!td_jstr(v, "url") + !!td_jstr(v, "git") + !!s3 + !!set != 1)
			return wrong(name, "say where it is: path, dataset, url, git or s3, one of them", err);
		if (!s3 &&
		    (td_jget(v, "endpoint") || td_jget(v, "region") || td_jget(v, "revision") || td_jget(v, "profile")))
			return wrong(name, "endpoint, region, revision and profile go with s3", err);
		if (set) {
			if ((r = public(q, name, set, &b, ret_held, err)))
				return r;
			continue;
		}
		if (path && copies && (r = held(path, name, ret_held, err)))
			return r;
		if (path)
			td_buf_printf(&b, "%s%s=%s%s", b.len ? " " : "", name, *path == '~' ? q->user.home : "",
				      *path == '~' ? path + 1 : path);
		else if ((r = s3 ? bucket(v, name, l, err) : fetched(v, name, l, err)))
			return r;
		else
			td_buf_printf(&b, "%s%s=%s", b.len ? " " : "", name, l->v[l->n - 1].key);
	}
	*ret_data = b.len ? td_buf_take(&b) : NULL;
	return 0;
}

static int list_data(struct td_gateway_ask *q, struct td_error *err)
{
	return td_gateway_made_list(q, "data", err);
}

static int delete_data(struct td_gateway_ask *q, struct td_error *err)
{
	return td_gateway_made_delete(q, "data", err);
}

const struct td_gateway_op td_gateway_data_ops[] = {
	{"listData", list_data},
	{"deleteData", delete_data},
	{NULL, NULL},
};
