// Asks slurmctld for a job's GPUs on this node, in Prolog, when the environment does not name them.
//
// With PrologFlags=Alloc Slurm (24.11.5) starts Prolog without SLURM_JOB_GPUS for jobs that a killed
// slurmctld starts before the nodes have registered again; the steps of these jobs get the GPUs all
// the same. A Prolog at launch has them (docs/facts/slurm.md S-P10), and does not ask. The JSON form is
// read and not the text form, because users write the names and comments of jobs, and a line break in
// one of them forges any other field of the text.
#include "standin/standin.h"
#include "standin/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TD_STANDIN_SHARE "/share" // in place of a field's name: no field is called so
enum { DEPTH_MAX = 32, NODES_MAX = 16384 };

struct span {
	const char *s;
	size_t n;
};
struct job_reader {
	const char *p, *end;
	char path[256]; // "/jobs/#/job_id"; '#' is any element of a list
	// Of the record that is being read.
	long long id;
	struct span gres[NODES_MAX];
	size_t n_gres, n_names, at;
	bool has_at;
	struct span text;
	// What is looked for.
	const char *node;
	long long want;
	bool found;
	int result; // of the record: see td_standin_job_gpus_read()
	char *out;
	size_t n_out;
	const char *field; // NULL: the GPUs; else this text of the record
	bool shares;       // instead: which part of its device it has
};

static void blank(struct job_reader *r)
{
	while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
		r->p++;
}

// Reads a string without decoding it: the values that are used here have no escapes.
static bool string(struct job_reader *r, struct span *ret)
{
	if (r->p >= r->end || *r->p != '"')
		return false;
	const char *s = ++r->p;
	while (r->p < r->end && *r->p != '"')
		r->p += *r->p == '\\' ? 2 : 1;
	if (r->p >= r->end)
		return false;

	*ret = (struct span){s, (size_t)(r->p++ - s)};
	return true;
}

// Copies the number first, because it may be the last bytes of a text without NUL.
static long long number(struct span v)
{
	char b[24];
	if (v.n >= sizeof(b))
		return -1;
	memcpy(b, v.s, v.n);
	b[v.n] = '\0';
	return strtoll(b, NULL, 10);
}

// Copies a text, as far as it fits, and takes the commonest escapes out of it; a control character becomes a
// blank.
static void unescape(struct span v, char *out, size_t n)
{
	size_t len = 0;
	for (size_t i = 0; i < v.n && len + 1 < n; i++) {
		char c = v.s[i];
		if (c == '\\' && i + 1 < v.n) {
			c = v.s[++i];
			if (!strchr("\"\\/", c))
				c = ' ';
		}
		out[len++] = (unsigned char)c < ' ' ? ' ' : c;
	}
	out[len] = '\0';
}

static void leaf(struct job_reader *r, struct span v)
{
	if (r->field && !strncmp(r->path, "/jobs/#/", 8) && !strcmp(r->path + 8, r->field))
		r->text = v;
	if (!strcmp(r->path, "/jobs/#/job_id"))
		r->id = number(v);
	else if (!strcmp(r->path, "/jobs/#/gres_detail/#") && r->n_gres < NODES_MAX)
		r->gres[r->n_gres++] = v;
	else if (!strcmp(r->path, "/jobs/#/job_resources/nodes/allocation/#/name")) {
		if (v.n == strlen(r->node) && !memcmp(v.s, r->node, v.n)) {
			r->has_at = true;
			r->at = r->n_names;
		}
		r->n_names++;
	}
}

// Reads "30\/100,0\/100" of "shard:30(…)", for each device of the node how much of it the job has: the next device that
// it has a part of, and how many hundredths. 1: there is one, and *s is behind it; 0: no more; -1: it cannot be read.
static int part(const char **s, const char *end, int *at, long long *ret)
{
	while (*s < end && **s != ')') {
		long long has = 0, all = 0;
		const char *p = *s;
		size_t digits = 0;
		for (; p < end && isdigit((unsigned char)*p) && digits < 9; p++, digits++)
			has = has * 10 + (*p - '0');
		p += p < end && *p == '\\';
		if (!digits || p >= end || *p++ != '/')
			return -1;
		for (digits = 0; p < end && isdigit((unsigned char)*p) && digits < 9; p++, digits++)
			all = all * 10 + (*p - '0');
		if (!digits || has > all || p >= end || (*p != ',' && *p != ')'))
			return -1;
		*s = *p == ',' ? p + 1 : p;
		(*at)++;
		*ret = has;
		if (has)
			return 1;
	}
	return *s < end ? 0 : -1;
}

// Where the parts of "shard:30(0\/100,30\/100)" begin; NULL: there are none.
static const char *parts(const char *s, const char *end)
{
	const char *open = end - s > 6 && !strncmp(s, "shard:", 6) ? memchr(s, '(', (size_t)(end - s)) : NULL;
	return open ? open + 1 : NULL;
}

// The hundredths of a device that the job has, of several devices the most. 1: done; 0: it has no part of one; -1: it
// cannot be read.
static int hundredths(struct span g, char *out, size_t n)
{
	long long most = 0, has;
	const char *end = g.s + g.n, *s = memmem(g.s, g.n, "shard:", 6);
	if (!s)
		return 0;
	// Parts of GPUs of several types stand one after the other.
	for (; s; s = memmem(s, (size_t)(end - s), "shard:", 6)) {
		int at = -1, k = 1;
		if (!(s = parts(s, end)))
			return -1;
		while ((k = part(&s, end, &at, &has)) > 0)
			most = has > most ? has : most;
		if (k < 0)
			return -1;
	}
	if (most < 1 || most > 100)
		return -1;
	snprintf(out, n, "%lld", most);
	return 1;
}

// Turns "gpu:2(IDX:0-1),gpu:a100:1(IDX:4)" into "0-1,4", and "shard:30(0\/100,30\/100)" into "1". 1: done; 0: no GPUs;
// -1: GPUs, but it does not say which.
static int indexes(struct span g, char *out, size_t n)
{
	size_t len = 0;
	const char *end = g.s + g.n;
	for (const char *s = g.s; s < end;) {
		// Commas inside of brackets belong to the list of indexes.
		const char *e = s;
		for (int depth = 0; e < end && (depth || *e != ','); e++)
			depth += *e == '(' ? 1 : *e == ')' ? -1 : 0;

		if (e - s > 4 && !strncmp(s, "gpu:", 4)) {
			const char *idx = memmem(s, (size_t)(e - s), "(IDX:", 5);
			size_t k = idx ? strspn(idx + 5, "0123456789,-") : 0;
			if (!k || idx + 5 + k >= e || idx[5 + k] != ')' || len + k + 2 > n)
				return -1;
			if (len)
				out[len++] = ',';
			memcpy(out + len, idx + 5, k);
			len += k;
			out[len] = '\0';
		}

		const char *p = parts(s, e);
		long long has;
		int at = -1, k = p ? 1 : 0;
		while (p && (k = part(&p, e, &at, &has)) > 0) {
			int wrote = snprintf(out + len, n - len, "%s%d", len ? "," : "", at);
			if (wrote < 0 || (size_t)wrote >= n - len)
				return -1;
			len += (size_t)wrote;
		}
		if (k < 0)
			return -1;

		s = e + 1;
	}
	return len > 0;
}

static void record(struct job_reader *r)
{
	if (r->id != r->want)
		return;
	r->found = true;
	if (r->field) {
		unescape(r->text, r->out, r->n_out);
		r->result = r->text.n > 0;
	} else if (!r->n_gres)
		r->result = r->shares ? -1 : 0; // a job that ends has no list any more: its part is not known
	else if (!r->has_at || r->at >= r->n_gres)
		r->result = -1;
	else if (r->shares)
		r->result = hundredths(r->gres[r->at], r->out, r->n_out);
	else
		r->result = indexes(r->gres[r->at], r->out, r->n_out);
}

static bool value(struct job_reader *r, int depth)
{
	size_t len = strlen(r->path);
	struct span v;
	blank(r);
	if (r->p >= r->end || depth > DEPTH_MAX)
		return false;

	if (*r->p == '"') {
		if (!string(r, &v))
			return false;
		leaf(r, v);
		return true;
	}
	if (*r->p != '{' && *r->p != '[') { // a number or a word
		v.s = r->p;
		while (r->p < r->end && !strchr(" \t\r\n,]}", *r->p))
			r->p++;
		v.n = (size_t)(r->p - v.s);
		leaf(r, v);
		return v.n > 0;
	}

	bool object = *r->p++ == '{', job = !strcmp(r->path, "/jobs/#");
	if (job) {
		r->id = -1;
		r->n_gres = r->n_names = 0;
		r->has_at = false;
		r->text = (struct span){"", 0};
	}

	for (bool first = true;; first = false) {
		blank(r);
		if (r->p < r->end && *r->p == (object ? '}' : ']')) {
			r->p++;
			break;
		}
		if (!first && (r->p >= r->end || *r->p++ != ','))
			return false;
		blank(r);

		struct span key = {"#", 1};
		if (object) {
			if (!string(r, &key))
				return false;
			blank(r);
			if (r->p >= r->end || *r->p++ != ':')
				return false;
		}

		if (len + key.n + 2 > sizeof(r->path))
			return false;
		snprintf(r->path + len, sizeof(r->path) - len, "/%.*s", (int)key.n, key.s);
		if (!value(r, depth + 1))
			return false;
		r->path[len] = '\0';
	}

	if (job)
		record(r);
	return true;
}

static int read_record(const char *json, size_t len, long long job, const char *node, const char *field,
		       struct standin_text out)
{
	static struct job_reader r; // too large for a stack; there is one thread
	memset(&r, 0, sizeof(r));
	r.result = -1;
	r.p = json;
	r.end = json + len;
	r.node = node;
	r.want = job;
	r.out = out.s;
	r.n_out = out.n;
	r.shares = field && !strcmp(field, TD_STANDIN_SHARE);
	r.field = r.shares ? NULL : field;
	return value(&r, 0) && r.found ? r.result : -1;
}

int td_standin_job_gpus_read(const char *json, size_t len, long long job, const char *node, char *out, size_t n)
{
	return read_record(json, len, job, node, NULL, (struct standin_text){out, n});
}

int td_standin_job_share_read(const char *json, size_t len, long long job, const char *node, char *out, size_t n)
{
	return read_record(json, len, job, node, TD_STANDIN_SHARE, (struct standin_text){out, n});
}

int td_standin_job_text_read(const char *json, size_t len, long long job, const char *field, struct standin_text out)
{
	return read_record(json, len, job, "", field, out);
}

// Slurm's record of the job, in JSON; the caller frees it.
static char *job_json(const char *job, int64_t deadline, size_t *ret_len, char *why, size_t n_why)
{
	char *argv[] = {"scontrol", "show", "job", (char *)job, "--json", NULL};
	return td_standin_output(argv, deadline, ret_len, why, n_why);
}

bool td_standin_is_pods(const char *comment)
{
	return comment && !strncmp(comment, TD_WIRE_STANDIN, strlen(TD_WIRE_STANDIN));
}

int td_standin_job_text(const char *job, const char *field, int64_t deadline, struct standin_text out, char *why,
			size_t n_why)
{
	size_t len = 0;
	char *text = job_json(job, deadline, &len, why, n_why);
	if (!text)
		return -1;
	int r = td_standin_job_text_read(text, len, strtoll(job, NULL, 10), field, out);
	if (r < 0)
		snprintf(why, n_why, "slurmctld does not say what the %s of job %s is", field, job);
	free(text);
	return r;
}

struct standin_fact { // of a job's record, for one node
	int (*read)(const char *json, size_t len, long long job, const char *node, char *out, size_t n);
	const char *what; // in words
};

static int on_node(const struct standin_fact *f, const char *job, const char *node, int64_t deadline,
		   struct standin_text out, struct standin_text why)
{
	size_t len = 0;
	char *text = job_json(job, deadline, &len, why.s, why.n);
	if (!text)
		return -1;
	int r = f->read(text, len, strtoll(job, NULL, 10), node, out.s, out.n);
	if (r < 0)
		snprintf(why.s, why.n, "slurmctld does not say %s job %s has on %s", f->what, job, node);
	free(text);
	return r;
}

int td_standin_job_gpus(const char *job, const char *node, int64_t deadline, struct standin_text out, char *why,
			size_t n_why)
{
	const struct standin_fact gpus = {td_standin_job_gpus_read, "which GPUs"};
	return on_node(&gpus, job, node, deadline, out, (struct standin_text){why, n_why});
}

int td_standin_job_share(const char *job, const char *node, int64_t deadline, struct standin_text out, char *why,
			 size_t n_why)
{
	const struct standin_fact share = {td_standin_job_share_read, "which part of a GPU"};
	return on_node(&share, job, node, deadline, out, (struct standin_text){why, n_why});
}
