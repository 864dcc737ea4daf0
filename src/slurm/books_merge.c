// What one slurmdbd's books lack of another's.
#include "slurm/books.h"

#include <string.h>
#include <strings.h>

enum { COMMAND_MAX = 3000, WORDS_MAX = 60 }; // sacctmgr reads lines of 4,096 bytes, with 128 words

struct merge {
	const struct td_books *from, *to;
	const char *cluster, *mark;
	struct td_books_plan *p;
	bool *done; // by row of from: it is there, or will be
};

// ---- commands ----

// "where name=physics cluster=main", as the row's kind wants it. make: of a row that is not there.
static void head(const struct merge *m, const struct td_books_row *r, bool make, struct td_buf *b)
{
	const char *where = make ? " " : " where ";
	switch (r->kind) {
	case TD_BOOKS_QOS:
		td_buf_printf(b, "%s qos%sname=%s", make ? "add" : "modify", where, r->name);
		break;
	case TD_BOOKS_PERSON:
		td_buf_printf(b, "modify user where name=%s", r->name);
		break;
	case TD_BOOKS_ASSOC:
		td_buf_printf(b, "%s user%sname=%s account=%s cluster=%s", make ? "add" : "modify", where, r->name,
			      r->in, m->cluster);
		if (*r->partition)
			td_buf_printf(b, " partition=%s", r->partition);
		break;
	case TD_BOOKS_CLUSTER:
	case TD_BOOKS_ACCOUNT:
		td_buf_printf(b, "%s account%sname=%s cluster=%s", make ? "add" : "modify", where, r->name, m->cluster);
		break;
	}
	td_buf_puts(b, make ? "" : " set");
}

static void command(struct merge *m, const struct td_buf *b)
{
	td_buf_printf(&m->p->commands, "%s\n", td_buf_str((struct td_buf *)(uintptr_t)b));
	m->p->n++;
}

// Writes a row's fields in as many commands as they need. pick: which of them.
static void write_fields(struct merge *m, const struct td_books_row *r, bool make,
			 bool (*pick)(const struct merge *m, const struct td_books_row *r, size_t at))
{
	td_auto_buf struct td_buf b = {0};
	size_t words = 0;
	if (make)
		head(m, r, true, &b);
	for (size_t i = 0; i < r->n; i++) {
		const struct td_books_field *f = &r->v[i];
		if (!pick(m, r, i))
			continue;
		if (b.len && (words == WORDS_MAX || b.len + strlen(f->value) > COMMAND_MAX)) {
			command(m, &b);
			b.len = 0;
			words = 0;
		}
		if (!b.len)
			head(m, r, false, &b);
		bool quote =
			f->value[strcspn(f->value, " ;()[]{}<>&|!`$#~?%^")] != '\0' || !strcmp(f->name, "Description");
		td_buf_printf(&b, quote ? " %s=\"%s\"" : " %s=%s", f->name, f->value);
		words++;
	}
	if (b.len)
		command(m, &b);
}

// ---- comparing ----

static int by_text(const void *a, const void *b)
{
	return strcasecmp(*(char *const *)a, *(char *const *)b);
}

// Lists have no order: the numbers of TRES and QOS are each database's own.
static bool same(const char *a, const char *b)
{
	td_auto_strv struct td_strv x = {0}, y = {0};
	if (!strcasecmp(a, b))
		return true;
	td_strv_split(&x, a, ',');
	td_strv_split(&y, b, ',');
	if (x.n != y.n || !x.n)
		return false;
	qsort(x.v, x.n, sizeof(char *), by_text);
	qsort(y.v, y.n, sizeof(char *), by_text);
	for (size_t i = 0; i < x.n; i++)
		if (strcasecmp(x.v[i], y.v[i]) != 0)
			return false;
	return true;
}

static const struct td_books_row *there(const struct merge *m, const struct td_books_row *r)
{
	return td_books_find(m->to, r->kind, r->name, r->in, r->partition);
}

// Tandem's own QOS have a description that begins with the mark and a slash.
static bool is_qos_mark(const struct merge *m, const char *description)
{
	size_t n = strlen(m->mark);
	return description && td_starts(description, m->mark) && description[n] == '/';
}

// A mark would make the row Tandem's own.
static bool is_mark(const struct merge *m, const struct td_books_field *f)
{
	return (td_streq(f->value, m->mark) && (!strcmp(f->name, "Organization") || !strcmp(f->name, "Comment"))) ||
	       (!strcmp(f->name, "Description") && is_qos_mark(m, f->value));
}

// Those that need other rows come when these are there.
static bool is_late(const struct td_books_field *f)
{
	return !strcmp(f->name, "Preempt") || !strcmp(f->name, "Coordinator") || !strcmp(f->name, "DefaultAccount");
}

static bool pick_new(const struct merge *m, const struct td_books_row *r, size_t at)
{
	return !is_mark(m, &r->v[at]) && !is_late(&r->v[at]);
}

// Nobody has said anything there: the QOS of account root is what slurmdbd writes itself.
static bool unsaid(const struct td_books_row *r, const struct td_books_field *f, const char *has)
{
	return !has || (r->kind == TD_BOOKS_CLUSTER && !strcmp(f->name, "QOS") && !strcmp(has, "normal"));
}

static bool pick_unsaid(const struct merge *m, const struct td_books_row *r, size_t at)
{
	const struct td_books_row *is = there(m, r);
	const char *has = is ? td_books_get(is, r->v[at].name) : NULL;
	return pick_new(m, r, at) && unsaid(r, &r->v[at], has) && !(has && same(has, r->v[at].value));
}

static bool pick_preempt(const struct merge *m, const struct td_books_row *r, size_t at)
{
	const struct td_books_row *is = there(m, r);
	return !strcmp(r->v[at].name, "Preempt") && !(is && td_books_get(is, "Preempt"));
}

static const char *kind_of(const struct td_books_row *r)
{
	static const char *const names[] = {"QOS", "account", "account", "user", "user"};
	return names[r->kind];
}

static void say(struct merge *m, const struct td_books_row *r, const char *what, const char *more)
{
	bool in = *r->in, part = *r->partition;
	td_strv_addf(&m->p->differs, "%s %s%s%s%s%s: %s%s", kind_of(r), r->name, in ? " in account " : "", r->in,
		     part ? ", partition " : "", r->partition, what, more);
}

// Tells what the row of the other books says otherwise. whole: also what it does not say.
static void differences(struct merge *m, const struct td_books_row *r, const struct td_books_row *is, bool whole)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct td_books_field *f = &r->v[i];
		const char *has = td_books_get(is, f->name);
		if (is_mark(m, f) || !strcmp(f->name, "Coordinator") || (has && same(has, f->value)) ||
		    (!whole && unsaid(r, f, has)))
			continue;
		td_auto_free char *both =
			td_asprintf("%s is %s here and was %s", f->name, has ? has : "not said", f->value);
		say(m, r, both, whole ? "; it is a Tenant's: change the Tenant" : "");
	}
}

// ---- the order ----

static bool is_tenants(const struct merge *m, const char *account)
{
	const struct td_books_row *is = td_books_find(m->to, TD_BOOKS_ACCOUNT, account, "", "");
	return is && td_streq(td_books_get(is, "Organization"), m->mark);
}

static void qos(struct merge *m)
{
	for (size_t i = 0; i < m->from->n && m->from->v[i].kind == TD_BOOKS_QOS; i++) {
		const struct td_books_row *r = &m->from->v[i], *is = there(m, r);
		if (is && is_qos_mark(m, td_books_get(is, "Description"))) {
			say(m, r, "it is Tandem's own here", "; it stays as its SlurmCluster and Tenants say");
			continue;
		}
		if (is)
			differences(m, r, is, false);
		write_fields(m, r, !is, is ? pick_unsaid : pick_new);
	}
	for (size_t i = 0; i < m->from->n && m->from->v[i].kind == TD_BOOKS_QOS; i++) {
		const struct td_books_row *is = there(m, &m->from->v[i]);
		if (!(is && is_qos_mark(m, td_books_get(is, "Description"))))
			write_fields(m, &m->from->v[i], false, pick_preempt);
	}
}

static const struct td_books_row *account_of(const struct merge *m, const char *name)
{
	return td_books_find(m->from, TD_BOOKS_ACCOUNT, name, "", "");
}

// An account comes after those above it.
static void account(struct merge *m, const struct td_books_row *r)
{
	const struct td_books_row *is = there(m, r);
	m->done[r - m->from->v] = true;
	if (is) {
		bool whole = is_tenants(m, r->name);
		differences(m, r, is, whole);
		if (!whole)
			write_fields(m, r, false, pick_unsaid);
		return;
	}
	write_fields(m, r, true, pick_new);
}

// Goes up from r to an account that is there, and makes them from there down.
static void accounts_above(struct merge *m, const struct td_books_row *r)
{
	enum { DEEPEST = 256 };
	const struct td_books_row *chain[DEEPEST];
	size_t n = 0;
	for (;;) {
		const char *up = td_books_get(r, "Parent");
		if (n == DEEPEST || !up) {
			td_strv_addf(&m->p->left, "account %s: the accounts above it lead nowhere; give it a parent",
				     chain[0]->name);
			return;
		}
		chain[n++] = r;
		if (!strcmp(up, "root") || td_books_find(m->to, TD_BOOKS_ACCOUNT, up, "", ""))
			break;
		const struct td_books_row *next = account_of(m, up);
		if (!next) {
			td_strv_addf(&m->p->left,
				     "account %s: its parent %s is not in the dump; add it, or write another one",
				     r->name, up);
			return;
		}
		if (m->done[next - m->from->v])
			break;
		r = next;
	}
	while (n--)
		if (!m->done[chain[n] - m->from->v])
			account(m, chain[n]);
}

static void cluster(struct merge *m)
{
	const struct td_books_row *r = td_books_find(m->from, TD_BOOKS_CLUSTER, "root", "", "");
	const struct td_books_row *is = r ? there(m, r) : NULL;
	if (!r)
		return;
	if (is)
		differences(m, r, is, false);
	write_fields(m, r, false, pick_unsaid);
	for (size_t i = 0; i < m->from->n; i++)
		if (m->from->v[i].kind == TD_BOOKS_ACCOUNT && !m->done[i])
			accounts_above(m, &m->from->v[i]);
}

static bool has_account(const struct merge *m, const char *name)
{
	const struct td_books_row *r = account_of(m, name);
	return !strcmp(name, "root") || td_books_find(m->to, TD_BOOKS_ACCOUNT, name, "", "") ||
	       (r && m->done[r - m->from->v]);
}

static void assoc(struct merge *m, const struct td_books_row *r)
{
	const struct td_books_row *is = there(m, r);
	bool tenants = is_tenants(m, r->in);
	if (!strcmp(r->name, "root") && !strcmp(r->in, "root"))
		return;
	if (!has_account(m, r->in))
		td_strv_addf(&m->p->left, "user %s: account %s is not taken over; add it first", r->name, r->in);
	else if (is) {
		differences(m, r, is, tenants);
		if (!tenants)
			write_fields(m, r, false, pick_unsaid);
	} else if (tenants) {
		say(m, r, "he is not there", "; it is a Tenant's: name him in its spec.members");
	} else {
		write_fields(m, r, true, pick_new);
	}
}

// A person's first account becomes his default.
static void assocs(struct merge *m, bool defaults)
{
	for (size_t i = 0; i < m->from->n; i++) {
		const struct td_books_row *r = &m->from->v[i];
		if (r->kind != TD_BOOKS_ASSOC)
			continue;
		const struct td_books_row *who = td_books_find(m->from, TD_BOOKS_PERSON, r->name, "", "");
		const char *first = who ? td_books_get(who, "DefaultAccount") : NULL;
		if (defaults == td_streq(first, r->in))
			assoc(m, r);
	}
}

static void coordinates(struct merge *m, const struct td_books_row *r, const struct td_books_row *is)
{
	td_auto_strv struct td_strv old = {0}, has = {0};
	td_strv_split(&old, td_books_get(r, "Coordinator") ? td_books_get(r, "Coordinator") : "", ',');
	td_strv_split(&has, is && td_books_get(is, "Coordinator") ? td_books_get(is, "Coordinator") : "", ',');
	for (size_t i = 0; i < old.n; i++) {
		td_auto_buf struct td_buf b = {0};
		if (td_strv_has(&has, old.v[i]))
			continue;
		if (is_tenants(m, old.v[i])) {
			td_auto_free char *what = td_asprintf("he is not coordinator of account %s", old.v[i]);
			say(m, r, what, "; it is a Tenant's: who leads it, its spec.members say");
			continue;
		}
		if (!has_account(m, old.v[i]) || !td_books_is_name(old.v[i])) {
			td_strv_addf(&m->p->left, "user %s: coordinator of account %.60s, which is not taken over",
				     r->name, old.v[i]);
			continue;
		}
		td_buf_printf(&b, "add coordinator account=%s names=%s", old.v[i], r->name);
		command(m, &b);
		td_strv_addf(&m->p->rights, "user %s: coordinator of account %s", r->name, old.v[i]);
	}
}

static void people(struct merge *m)
{
	for (size_t i = 0; i < m->from->n; i++) {
		const struct td_books_row *r = &m->from->v[i];
		if (r->kind != TD_BOOKS_PERSON || !strcmp(r->name, "root"))
			continue;
		const struct td_books_row *is = there(m, r);
		if (is)
			differences(m, r, is, false);
		write_fields(m, r, false, pick_unsaid);
		const char *level = td_books_get(r, "AdminLevel");
		if (level && !(is && td_books_get(is, "AdminLevel")))
			td_strv_addf(&m->p->rights, "user %s: AdminLevel %s", r->name, level);
		coordinates(m, r, is);
	}
}

void td_books_merge(const struct td_books *from, const struct td_books *to, const char *of, const char *mark,
		    struct td_books_plan *ret)
{
	td_auto_free bool *done = td_calloc(from->n + 1, sizeof(*done));
	struct merge m = {.from = from, .to = to, .cluster = of, .mark = mark, .p = ret, .done = done};
	qos(&m);
	cluster(&m);
	assocs(&m, true);
	assocs(&m, false);
	people(&m);
}
