// Reads the two texts. What sacctmgr 24.11 prints in them: docs/facts/slurm.md S-M8.
#include "slurm/books.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LINE_MAX_LEN = 65536, ROWS_MAX = 1000000, COLUMNS_MAX = 64, VALUE_MAX = 2048 };

struct books_reader {
	const char *name;
	size_t line;
	struct td_books *b;
};

__attribute__((format(printf, 2, 3))) static void leave(struct books_reader *r, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	td_books_printable(text);
	td_strv_addf(&r->b->left, "%s:%zu: %s", r->name, r->line, text);
}

// ---- fields ----

enum field_of { OF_ASSOC = 1, OF_ACCOUNT = 2, OF_PERSON = 4, OF_QOS = 8, IS_TEXT = 16, IS_SECONDS = 32 };
struct field {
	const char *shown, *set; // as it is printed, and as `sacctmgr … set` takes it
	int of;
	const char *nothing; // what is printed where nobody has said anything
};
static const struct field fields[] = {
	{"QOS", "QOS", OF_ASSOC, NULL},
	{"DefaultQOS", "DefaultQOS", OF_ASSOC, NULL},
	{"Fairshare", "Fairshare", OF_ASSOC, NULL},
	{"GrpTRESMins", "GrpTRESMins", OF_ASSOC | OF_QOS, NULL},
	{"GrpTRESRunMins", "GrpTRESRunMins", OF_ASSOC | OF_QOS, NULL},
	{"GrpTRES", "GrpTRES", OF_ASSOC | OF_QOS, NULL},
	{"GrpJobs", "GrpJobs", OF_ASSOC | OF_QOS, NULL},
	{"GrpJobsAccrue", "GrpJobsAccrue", OF_ASSOC | OF_QOS, NULL},
	{"GrpSubmitJobs", "GrpSubmitJobs", OF_ASSOC, NULL},
	{"GrpWall", "GrpWall", OF_ASSOC | OF_QOS, NULL},
	{"MaxTRESMinsPerJob", "MaxTRESMinsPerJob", OF_ASSOC, NULL},
	{"MaxTRESRunMins", "MaxTRESRunMins", OF_ASSOC, NULL},
	{"MaxTRESPerJob", "MaxTRESPerJob", OF_ASSOC, NULL},
	{"MaxTRESPerNode", "MaxTRESPerNode", OF_ASSOC | OF_QOS, NULL},
	{"MaxJobs", "MaxJobs", OF_ASSOC, NULL},
	{"MaxJobsAccrue", "MaxJobsAccrue", OF_ASSOC, NULL},
	{"MaxSubmitJobs", "MaxSubmitJobs", OF_ASSOC, NULL},
	{"MaxWallDurationPerJob", "MaxWallDurationPerJob", OF_ASSOC, NULL},
	{"Priority", "Priority", OF_ASSOC | OF_QOS, "0"},
	{"Comment", "Comment", OF_ASSOC | IS_TEXT, NULL},
	{"Description", "Description", OF_ACCOUNT | IS_TEXT, NULL},
	{"Organization", "Organization", OF_ACCOUNT | IS_TEXT, NULL},
	{"DefaultAccount", "DefaultAccount", OF_PERSON, NULL},
	{"AdminLevel", "AdminLevel", OF_PERSON, "None"},
	{"Coordinator", "Coordinator", OF_PERSON, NULL},
	{"Descr", "Description", OF_QOS | IS_TEXT, NULL},
	{"GraceTime", "GraceTime", OF_QOS | IS_SECONDS, "00:00:00"},
	{"Preempt", "Preempt", OF_QOS, NULL},
	{"PreemptExemptTime", "PreemptExemptTime", OF_QOS, NULL},
	{"PreemptMode", "PreemptMode", OF_QOS, "cluster"},
	{"Flags", "Flags", OF_QOS, NULL},
	{"UsageThres", "UsageThreshold", OF_QOS, NULL},
	{"UsageFactor", "UsageFactor", OF_QOS, "1.000000"},
	{"LimitFactor", "LimitFactor", OF_QOS, NULL},
	{"GrpSubmit", "GrpSubmitJobs", OF_QOS, NULL},
	{"MaxTRES", "MaxTRESPerJob", OF_QOS, NULL},
	{"MaxTRESMins", "MaxTRESMinsPerJob", OF_QOS, NULL},
	{"MaxWall", "MaxWallDurationPerJob", OF_QOS, NULL},
	{"MaxTRESPU", "MaxTRESPerUser", OF_QOS, NULL},
	{"MaxJobsPU", "MaxJobsPerUser", OF_QOS, NULL},
	{"MaxJobsAccruePU", "MaxJobsAccruePerUser", OF_QOS, NULL},
	{"MaxJobsAccruePA", "MaxJobsAccruePerAccount", OF_QOS, NULL},
	{"MaxSubmitPU", "MaxSubmitJobsPerUser", OF_QOS, NULL},
	{"MaxTRESPA", "MaxTRESPerAccount", OF_QOS, NULL},
	{"MaxTRESRunMinsPA", "MaxTRESRunMinsPerAccount", OF_QOS, NULL},
	{"MaxTRESRunMinsPU", "MaxTRESRunMinsPerUser", OF_QOS, NULL},
	{"MaxJobsPA", "MaxJobsPerAccount", OF_QOS, NULL},
	{"MaxSubmitPA", "MaxSubmitJobsPerAccount", OF_QOS, NULL},
	{"MinPrioThres", "MinPrioThresh", OF_QOS, NULL},
	{"MinTRES", "MinTRESPerJob", OF_QOS, NULL},
};

static const struct field *field_of(const char *shown, int of)
{
	for (size_t i = 0; i < TD_LEN(fields); i++)
		if ((fields[i].of & of) && !strcasecmp(fields[i].shown, shown))
			return &fields[i];
	return NULL;
}

// Slurm replaces ' by ` in what people write, and its sacctmgr cannot read a quote within quotes.
static bool value_fits(const struct field *f, const char *v)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,=/+:-*@";
	if (!(f->of & IS_TEXT))
		return !v[strspn(v, plain)] && strlen(v) <= VALUE_MAX;
	for (const char *p = v; *p; p++)
		if ((unsigned char)*p < ' ' || *p == '"' || *p == '\'' || *p == '\\' || *p == 127)
			return false;
	return strlen(v) <= VALUE_MAX;
}

// "1-02:03:04" or "02:03:04" to seconds; -1: neither.
static long long seconds(const char *v)
{
	long long d = 0, h, m, s;
	int at = 0;
	if (strchr(v, '-') && (sscanf(v, "%6lld-%n", &d, &at) != 1 || !at))
		return -1;
	return sscanf(v + at, "%6lld:%2lld:%2lld", &h, &m, &s) == 3 && d >= 0 && h >= 0 && m >= 0 && s >= 0
		       ? ((d * 24 + h) * 60 + m) * 60 + s
		       : -1;
}

static void set(struct books_reader *r, struct td_books_row *row, const struct field *f, const char *v)
{
	char number[24];
	if (!*v || td_streq(v, f->nothing) || td_books_get(row, f->set))
		return;
	if (!strcmp(f->set, "Fairshare") && !strcmp(v, "2147483647"))
		v = "parent";
	if ((f->of & IS_SECONDS) && seconds(v) >= 0) {
		snprintf(number, sizeof(number), "%lld", seconds(v));
		v = number;
	}
	if (!value_fits(f, v)) {
		leave(r, "%s of %.60s: it has signs that sacctmgr does not read, or is too long; set it by hand",
		      f->set, row->name);
		return;
	}
	row->v = td_realloc(row->v, (row->n + 1) * sizeof(*row->v));
	row->v[row->n++] = (struct td_books_field){f->set, td_strdup(v)};
}

// The list stays unsorted until the text is read. The pointer holds until the next row.
static struct td_books_row *row_add(struct td_books *b, enum td_books_kind kind, const char *name, const char *in,
				    const char *partition)
{
	if (b->n == b->room) {
		b->room = b->room ? 2 * b->room : 64;
		b->v = td_realloc(b->v, b->room * sizeof(*b->v));
	}
	b->v[b->n] = (struct td_books_row){
		.kind = kind, .name = td_strdup(name), .in = td_strdup(in), .partition = td_strdup(partition)};
	return &b->v[b->n++];
}

// qsort is not stable: of two equal rows the earlier line comes first, and counts.
static int by_line(const void *a, const void *b)
{
	const struct td_books_row *x = a, *y = b;
	int r = td_books_order(a, b);
	return r ? r : (x->line > y->line) - (x->line < y->line);
}

static void sort(struct td_books *b)
{
	size_t n = 0;
	if (!b->n)
		return;
	qsort(b->v, b->n, sizeof(*b->v), by_line);
	for (size_t i = 0; i < b->n; i++) {
		if (n && !td_books_order(&b->v[n - 1], &b->v[i])) {
			struct td_books one = {.v = td_calloc(1, sizeof(*b->v)), .n = 1};
			one.v[0] = b->v[i];
			td_books_done(&one);
		} else {
			b->v[n++] = b->v[i];
		}
	}
	b->n = n;
}

// ---- the dump ----

// Cuts "KEY=VALUE" or a name at the next ':' outside of quotes, and takes the quotes off. Returns what follows.
static char *piece(char *p, char **ret_key, char **ret_value)
{
	char quote = 0, *end = p, *eq = NULL;
	for (; *end && (quote || *end != ':'); end++) {
		if (quote ? *end == quote : *end == '\'' || *end == '"')
			quote = quote ? 0 : *end;
		else if (*end == '=' && !quote && !eq)
			eq = end;
	}
	char *next = *end ? end + 1 : NULL, *v = eq ? eq + 1 : p;
	*end = '\0';
	if (eq)
		*eq = '\0';
	*ret_key = eq ? p : NULL;
	size_t n = strlen(v);
	if (n >= 2 && (*v == '\'' || *v == '"') && v[n - 1] == *v) {
		v[n - 1] = '\0';
		v++;
	}
	*ret_value = v;
	return next;
}

struct dump_row {
	enum td_books_kind kind;
	const char *name, *parent;
	char *rest;
};

// Partition is part of who the row is, wherever it stands in the line.
static const char *partition_of(const char *rest, char buf[static 256])
{
	const char *p = rest ? strcasestr(rest, "Partition=") : NULL;
	size_t n = 0;
	if (!p || (p != rest && p[-1] != ':'))
		return "";
	p += strlen("Partition=");
	p += *p == '\'' || *p == '"';
	while (n < 255 && p[n] && p[n] != '\'' && p[n] != '"' && p[n] != ':')
		n++;
	memcpy(buf, p, n);
	buf[n] = '\0';
	return buf;
}

static void dump_row(struct books_reader *r, const struct dump_row *d)
{
	char partition_buf[256], *rest = d->rest, *key, *v;
	bool assoc = d->kind == TD_BOOKS_ASSOC;
	const char *partition = assoc ? partition_of(rest, partition_buf) : "";
	if (!td_books_is_name(d->name) || (*partition && !td_books_is_name(partition))) {
		leave(r, "\"%.60s\"%s%.60s: not a name that sacctmgr takes; add it by hand", d->name,
		      *partition ? ", partition " : "", partition);
		return;
	}
	if (assoc)
		row_add(r->b, TD_BOOKS_PERSON, d->name, "", "")->line = r->line;
	struct td_books_row *row = row_add(r->b, d->kind, d->name, assoc ? d->parent : "", partition);
	row->line = r->line;
	if (d->kind == TD_BOOKS_ACCOUNT) {
		static const struct field up = {"Parent", "Parent", OF_ACCOUNT, NULL};
		set(r, row, &up, d->parent);
	}
	while (rest) {
		rest = piece(rest, &key, &v);
		const struct field *f = !key                          ? NULL
					: assoc                       ? field_of(key, OF_ASSOC | OF_PERSON)
					: d->kind == TD_BOOKS_ACCOUNT ? field_of(key, OF_ASSOC | OF_ACCOUNT)
								      : field_of(key, OF_ASSOC);
		if (f)
			set(r, f->of & OF_PERSON ? row - 1 : row, f, v); // the person's stands before it
		else if (!key && !*v)
			continue;
		else if (key && !strcasecmp(key, "Partition") && assoc)
			continue;
		else if (key && strcasestr(key, "WCKey"))
			leave(r,
			      "%.20s=%.60s of %.60s: keys of jobs are not taken over; `sacctmgr add user %.60s "
			      "wckeys=…` adds them",
			      key, v, d->name, d->name);
		else
			leave(r, "%.40s%s%.60s of %.60s: no field of slurmdbd 24.11 that is known; set it by hand",
			      key ? key : "", key ? "=" : "", v, d->name);
	}
	// It must be one of QOS, so it is set after them.
	for (size_t i = 0; i + 1 < row->n; i++)
		if (!strcmp(row->v[i].name, "DefaultQOS")) {
			struct td_books_field f = row->v[i];
			row->v[i] = row->v[i + 1];
			row->v[i + 1] = f;
		}
}

// *parent: the account of the last line "Parent"; the caller frees it.
static void dump_line(struct books_reader *r, char *line, char **parent)
{
	static const struct {
		const char *word;
		enum td_books_kind kind;
	} words[] = {{"Cluster - ", TD_BOOKS_CLUSTER}, {"Account - ", TD_BOOKS_ACCOUNT}, {"User - ", TD_BOOKS_ASSOC}};
	char *key, *name, *rest;
	if (td_starts(line, "Parent - ")) {
		piece(line + strlen("Parent - "), &key, &name);
		free(*parent);
		*parent = td_strdup(name);
		if (!td_books_is_name(name))
			leave(r, "parent \"%.60s\": not a name that sacctmgr takes; what is below it is not taken over",
			      name);
		return;
	}
	for (size_t i = 0; i < TD_LEN(words); i++) {
		if (!td_starts(line, words[i].word))
			continue;
		rest = piece(line + strlen(words[i].word), &key, &name);
		const struct dump_row d = {words[i].kind, words[i].kind == TD_BOOKS_CLUSTER ? "root" : name,
					   *parent ? *parent : "root", rest};
		if (words[i].kind != TD_BOOKS_CLUSTER && !td_books_is_name(d.parent))
			return;
		dump_row(r, &d);
		return;
	}
	leave(r, "\"%.40s\": no line of a dump; look at it", line);
}

// Calls one() for each line of text that is not empty, nor a comment.
static int lines(struct books_reader *r, const char *text, void (*one)(struct books_reader *r, char *line, void *ctx),
		 void *ctx, struct td_error *err)
{
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		r->line++;
		if (n > LINE_MAX_LEN || r->b->n > ROWS_MAX)
			return td_fail(err, TD_INVALID, "%s:%zu: %s", r->name, r->line,
				       n > LINE_MAX_LEN ? "a line of more than 64 KiB: this is no text of sacctmgr's"
							: "more than a million rows: give it in parts");
		td_auto_free char *line = td_strndup(p, n);
		while (n && (line[n - 1] == '\r' || line[n - 1] == ' '))
			line[--n] = '\0';
		if (n && *line != '#')
			one(r, line, ctx);
		p += strcspn(p, "\n");
		p += *p == '\n';
	}
	return 0;
}

static void on_dump(struct books_reader *r, char *line, void *ctx)
{
	dump_line(r, line, ctx);
}

int td_books_read(const char *name, const char *text, struct td_books *ret, struct td_error *err)
{
	td_auto_books struct td_books b = {0};
	td_auto_free char *parent = NULL;
	struct books_reader r = {.name = name, .b = &b};
	int code = lines(&r, text, on_dump, &parent, err);
	if (code)
		return code;
	sort(&b);
	if (!td_books_find(&b, TD_BOOKS_CLUSTER, "root", "", ""))
		return td_fail(
			err, TD_INVALID,
			"%s: there is no line \"Cluster - …\": give what `sacctmgr dump CLUSTER file=FILE` wrote",
			name);
	*ret = b;
	b = (struct td_books){0};
	return 0;
}

// ---- QOS ----

struct qos_columns {
	const struct field *v[COLUMNS_MAX];
	size_t n, name; // name: which one is it; n: none
	bool header;
};

static void qos_header(struct books_reader *r, char *line, struct qos_columns *c)
{
	char *word;
	c->header = true;
	c->name = COLUMNS_MAX;
	for (char *p = line; p && c->n < COLUMNS_MAX; c->n++) {
		p = td_books_column(p, &word);
		c->v[c->n] = field_of(word, OF_QOS);
		if (!strcasecmp(word, "Name"))
			c->name = c->n;
		else if (!c->v[c->n] && *word && strcasecmp(word, "ID") != 0)
			leave(r, "column %.40s: not known; set it by hand", word);
	}
	td_auto_buf struct td_buf missing = {0};
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		bool there = !(fields[i].of & OF_QOS);
		for (size_t k = 0; k < c->n && !there; k++)
			there = c->v[k] == &fields[i];
		if (!there)
			td_buf_printf(&missing, "%s%s", missing.len ? ", " : "", fields[i].shown);
	}
	if (missing.len && c->name < COLUMNS_MAX)
		td_strv_addf(&r->b->left,
			     "%s: it has no columns %s; with them: sacctmgr -P show qos format=" TD_BOOKS_QOS_FORMAT,
			     r->name, td_buf_str(&missing));
}

static void on_qos(struct books_reader *r, char *line, void *ctx)
{
	struct qos_columns *c = ctx;
	char *words[COLUMNS_MAX];
	size_t n = 0;
	if (!c->header) {
		qos_header(r, line, c);
		return;
	}
	if (c->name >= COLUMNS_MAX)
		return;
	for (char *p = line; p && n < c->n; n++)
		p = td_books_column(p, &words[n]);
	if (n <= c->name)
		return;
	const char *name = words[c->name];
	if (!td_books_is_name(name)) {
		leave(r, "QOS \"%.60s\": not a name that sacctmgr takes; add it by hand", name);
		return;
	}
	struct td_books_row *row = row_add(r->b, TD_BOOKS_QOS, name, "", "");
	row->line = r->line;
	for (size_t i = 0; i < n; i++)
		if (c->v[i])
			set(r, row, c->v[i], words[i]);
}

int td_books_read_qos(const char *name, const char *text, struct td_books *ret, struct td_error *err)
{
	struct qos_columns c = {0};
	struct books_reader r = {.name = name, .b = ret};
	int code = lines(&r, text, on_qos, &c, err);
	sort(ret);
	if (!code && (!c.header || c.name >= COLUMNS_MAX))
		code = td_fail(err, TD_INVALID,
			       "%s: the first line has no column Name: give what `sacctmgr -P show qos` printed", name);
	return code;
}
