// Runs t/scenarios/*.txt: decisions of the pool as text. Lines: "= name" starts a scenario; "given ask|job|node|want|machine|vanish word…"
// adds facts; "want …" is the decision. A word is "flag" or "key=value" or key="value with blanks". Comments start with "#".
// rows: A5.6 A6.2 A6.6
#include "base/file.h"
#include "base/mem.h"
#include "pool/pool.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct word {
	char *key, *value; // value NULL: a flag
};
struct words {
	struct word w[32];
	size_t n;
	const char *file;
	int line;
};

static void split(char *s, struct words *ret)
{
	ret->n = 0;
	while (*s && ret->n < 32) {
		while (*s == ' ')
			s++;
		if (!*s)
			break;
		struct word *w = &ret->w[ret->n++];
		*w = (struct word){.key = s};
		s += strcspn(s, " =");
		if (*s == '=') {
			*s++ = '\0';
			char end = ' ';
			if (*s == '"') {
				end = '"';
				s++;
			}
			w->value = s;
			while (*s && *s != end)
				s++;
		}
		if (*s)
			*s++ = '\0';
	}
}

static bool has(const struct words *w, const char *key)
{
	for (size_t i = 1; i < w->n; i++) // [0] is the subject
		if (!strcmp(w->w[i].key, key))
			return true;
	return false;
}

static const char *val(const struct words *w, const char *key, const char *def)
{
	for (size_t i = 1; i < w->n; i++) // [0] is the subject
		if (!strcmp(w->w[i].key, key))
			return w->w[i].value ? w->w[i].value : "";
	return def;
}

static int64_t num(const struct words *w, const char *key, int64_t def)
{
	long long v = def;
	const char *s = val(w, key, NULL);
	if (s && !td_parse_i64(s, &v))
		fail_msg("%s:%d: %s=%s is no number", w->file, w->line, key, s);
	return v;
}

// The index of a word among `names` that is there as a flag; `def` when none is.
static int choose(const struct words *w, const char *const *names, int n, int def)
{
	for (int i = 0; i < n; i++)
		if (has(w, names[i]))
			return i;
	return def;
}

struct scenario {
	char name[128];
	char *keep[64]; // lines that the facts point into
	size_t n_keep;
	struct td_pool_ask ask;
	struct td_pool_job job;
	struct td_pool_node_facts node;
	struct td_pool_want want;
	struct td_pool_node nodes[16];
	size_t n_nodes, gone, watched;
	bool vanish, wants;
};
static const char *const kinds[TD_POOL_KINDS] = {"gpu", "shard"};

static void grant(const struct words *w, struct td_grant *g, const char *uid)
{
	*g = (struct td_grant){.job = num(w, "job", 0),
			       .start = num(w, "start", 0),
			       .restarts = num(w, "restarts", 0),
			       .ask = val(w, "of", uid),
			       .nodes = val(w, "on", ""),
			       .devices = val(w, "devices", "")};
}

static void given(struct scenario *s, const struct words *w)
{
	static const char *const pods[] = {"gone", "waiting", "bound", "leaving", "done"},
				 *const know[] = {"none", "unsure", "gone", "read"}, *const is[] = {"unknown", "pending", "starting",
												    "running", "lost",    "ended"};
	const char *what = w->w[0].key;
	if (!strcmp(what, "ask")) {
		s->ask = (struct td_pool_ask){.uid = "u1",
					      .pod = (enum td_pod_state)choose(w, pods, 5, TD_POD_WAITING),
					      .refused = has(w, "refused"),
					      .has_grant = has(w, "job"),
					      .fits_now = has(w, "fits-now"),
					      .node_fits = !has(w, "node-unfit"),
					      .fenced = has(w, "fenced"),
					      .superseded = has(w, "superseded"),
					      .short_of = has(w, "short"),
					      .waited = has(w, "waited"),
					      .lost_state = has(w, "lost-state")};
		grant(w, &s->ask.grant, "u1");
	} else if (!strcmp(what, "job")) {
		s->job = (struct td_pool_job){.is = (enum td_job_is)choose(w, is, 6, TD_IS_UNKNOWN),
					      .ours = !has(w, "foreign"),
					      .cancelled = has(w, "cancelled"),
					      .started = has(w, "started"),
					      .warned = has(w, "warned"),
					      .same_spec = !has(w, "stale")};
		s->job.know = (enum td_job_know)choose(w, know, 4, TD_JOB_READ);
		grant(w, &s->job.grant, "u1");
	} else if (!strcmp(what, "node")) {
		s->node = (struct td_pool_node_facts){.k8s = !has(w, "no-object"),
						      .cordoned = has(w, "cordoned"),
						      .request = val(w, "request", NULL),
						      .gate = val(w, "gate", NULL),
						      .gate_alarm = has(w, "gate-alarm"),
						      .devices = val(w, "devices", NULL),
						      .lost_state = has(w, "lost-state"),
						      .known = !has(w, "unknown"),
						      .slurm = !has(w, "not-in-slurm"),
						      .drain = has(w, "drain"),
						      .reason = val(w, "reason", ""),
						      .words = val(w, "words", "idle"),
						      .bad = has(w, "bad")};
	} else if (!strcmp(what, "want")) {
		s->wants = true;
		s->want = (struct td_pool_want){.cpus = num(w, "cpus", 1),
						.memory_mb = num(w, "memory", 1),
						.gres = {num(w, "gpu", 0), num(w, "shard", 0)},
						.exclusive = has(w, "exclusive")};
	} else if (!strcmp(what, "machine")) {
		assert_in_range(s->n_nodes, 0, 15);
		s->nodes[s->n_nodes++] = (struct td_pool_node){.name = val(w, "name", "?"),
							       .feasible = !has(w, "unfit"),
							       .usable = !has(w, "unusable"),
							       .cpus = num(w, "cpus", 16),
							       .memory_mb = num(w, "memory", 1000),
							       .gres = {num(w, "gpu", 8), num(w, "shard", 0)},
							       .used_cpus = num(w, "used-cpus", 0),
							       .used_memory_mb = num(w, "used-memory", 0),
							       .used_gres = {num(w, "used-gpu", 0)}};
	} else if (!strcmp(what, "vanish")) {
		s->vanish = true;
		s->gone = (size_t)num(w, "gone", 0);
		s->watched = (size_t)num(w, "watched", 0);
	} else {
		fail_msg("%s:%d: given what?", w->file, w->line);
	}
}

// The decision as text; the scenario's "want" line must be equal.
static void decide(const struct scenario *s, const char *what, struct td_buf *out)
{
	if (!strcmp(what, "node")) {
		static const char *const dos[] = {"leave", "drain", "undrain", "reason"};
		struct td_pool_node_plan p;
		td_pool_node_causes(&s->node, &p);
		td_buf_printf(out, "node %s", dos[p.slurm]);
		if (p.slurm == TD_NODE_DRAIN || p.slurm == TD_NODE_REASON)
			td_buf_printf(out, " \"%s\"", p.reason);
		if (!p.decided)
			td_buf_puts(out, " undecided");
		if (p.foreign)
			td_buf_puts(out, " taint");
		if (p.state)
			td_buf_printf(out, " state=\"%s\"", p.state);
		if (p.text)
			td_buf_printf(out, " text=\"%s\"", p.text);
	} else if (!strcmp(what, "now")) {
		int i = td_pool_fits_now(s->nodes, s->n_nodes, &s->want);
		td_buf_printf(out, "now %s", i < 0 ? "no" : s->nodes[i].name);
	} else if (!strcmp(what, "ever")) {
		char why[256] = "";
		bool yes = td_pool_fits_ever(s->nodes, s->n_nodes, &s->want, kinds, why, sizeof(why));
		td_buf_printf(out, "ever %s%s", yes ? "yes" : "no: ", why);
	} else if (!strcmp(what, "mass")) {
		td_buf_printf(out, "mass %s", td_pool_mass_vanish(s->gone, s->watched) ? "yes" : "no");
	} else {
		struct td_pool_step st = td_pool_reconcile_ask(&s->ask, &s->job);
		td_buf_printf(out, "%s: %s", td_pool_do_name(st.what), st.why);
	}
}

static void reset(struct scenario *s)
{
	for (size_t i = 0; i < s->n_keep; i++)
		free(s->keep[i]);
	*s = (struct scenario){0};
	s->ask.node_fits = true;
}

static int run_file(const char *path, const char *file)
{
	td_auto_buf struct td_buf b = {0};
	assert_int_equal(td_file_read(path, 1 << 20, &b, NULL), 0);
	struct scenario s = {0};
	int line = 0, wanted = 0;
	reset(&s);
	for (char *p = b.s, *next; p && *p; p = next) {
		next = strchr(p, '\n');
		if (next)
			*next++ = '\0';
		line++;
		if (*p == '#' || !*p)
			continue;
		if (*p == '=') {
			reset(&s);
			snprintf(s.name, sizeof(s.name), "%s", p + 2);
		} else if (td_starts(p, "given ")) {
			struct words w = {.file = file, .line = line};
			if (s.n_keep == TD_LEN(s.keep))
				fail_msg("%s:%d: too many facts", file, line);
			s.keep[s.n_keep] = td_strdup(p + 6);
			split(s.keep[s.n_keep++], &w);
			given(&s, &w);
		} else if (td_starts(p, "want ")) {
			td_auto_buf struct td_buf got = {0};
			char what[32];
			snprintf(what, sizeof(what), "%.*s", (int)strcspn(p + 5, " :"), p + 5);
			decide(&s, what, &got);
			if (strcmp(td_buf_str(&got), p + 5) != 0)
				fail_msg("%s:%d: %s\n  want %s\n  got  %s", file, line, s.name, p + 5, td_buf_str(&got));
			wanted++;
		} else {
			fail_msg("%s:%d: what is \"%s\"?", file, line, p);
		}
	}
	reset(&s);
	return wanted;
}

static void test_scenarios(void **state)
{
	const char *root = getenv("TD_SOURCE_ROOT");
	assert_non_null(root);
	td_auto_free char *dir = td_asprintf("%s/t/scenarios", root);
	DIR *d = opendir(dir);
	assert_non_null(d);
	int files = 0, wanted = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (!td_ends(e->d_name, ".txt"))
			continue;
		td_auto_free char *path = td_asprintf("%s/%s", dir, e->d_name);
		wanted += run_file(path, e->d_name);
		files++;
	}
	closedir(d);
	assert_true(files >= 3);
	assert_true(wanted >= 40);
}

// The fixed point of docs/protocols.md 2: from any state of both sides, applying the plan again and again stops, and never touches a foreign reason.
static void test_nodes_settle(void **state)
{
	static const char *const reasons[] = {"",
					      "bad fan",
					      "tandem: cordoned in Kubernetes",
					      "tandem: requested: x",
					      "tandem: update",
					      "tandem: gate n0, held by 7",
					      "tandem: devices, none",
					      "tandem"};
	for (unsigned bits = 0; bits < 512; bits++)
		for (size_t r = 0; r < TD_LEN(reasons); r++) {
			char reason[TD_POOL_REASON_MAX];
			snprintf(reason, sizeof(reason), "%s", reasons[r]);
			struct td_pool_node_facts f = {.k8s = true,
						       .known = true,
						       .slurm = true,
						       .words = "idle",
						       .drain = bits & 1,
						       .cordoned = bits & 2,
						       .request = bits & 4 ? "x" : NULL,
						       .lost_state = bits & 8,
						       .bad = bits & 16,
						       .gate = bits & 32 ? "held by job 7" : NULL,
						       .gate_alarm = bits & 64,
						       .devices = bits & 256 ? "none of gpu" : NULL,
						       .reason = reason};
			int steps = 0;
			for (;; steps++) {
				struct td_pool_node_plan p;
				td_pool_node_causes(&f, &p);
				if (p.slurm == TD_NODE_LEAVE)
					break;
				assert_true(steps < 3);
				if (f.drain)
					assert_true(td_pool_reason_ours(f.reason));
				f.drain = p.slurm != TD_NODE_UNDRAIN;
				snprintf(reason, sizeof(reason), "%s", p.slurm == TD_NODE_UNDRAIN ? "Not responding" : p.reason);
			}
		}
}

static void test_long_reason(void **state)
{
	char text[1000];
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[998] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		struct td_pool_node_facts f = {.k8s = true, .known = true, .slurm = true, .reason = "", .words = "idle"};
		td_auto_free char *t = td_asprintf("%s%s", shift ? "a" : "", text);
		f.request = t;
		struct td_pool_node_plan p;
		td_pool_node_causes(&f, &p);
		size_t n = strlen(p.reason);
		assert_true(n < TD_POOL_REASON_MAX && n > TD_POOL_REASON_MAX - 4);
		assert_int_equal((unsigned char)p.reason[n - 1], 0xa9); // no half character
	}
}

static void test_grants(void **state)
{
	const struct td_grant a = {.job = 1, .start = 10, .restarts = 0, .ask = "u", .nodes = "n0", .devices = "{}"};
	struct td_grant b = a;
	assert_null(td_grant_differs(&a, &b));
	b.job = 2;
	assert_string_equal(td_grant_differs(&a, &b), "job id");
	b = a;
	b.start = 11;
	assert_string_equal(td_grant_differs(&a, &b), "start time");
	b = a;
	b.restarts = 1;
	assert_string_equal(td_grant_differs(&a, &b), "restart count");
	b = a;
	b.ask = "v";
	assert_string_equal(td_grant_differs(&a, &b), "ask");
	b = a;
	b.nodes = "n1";
	assert_string_equal(td_grant_differs(&a, &b), "nodes");
	b = a;
	b.devices = NULL;
	assert_string_equal(td_grant_differs(&a, &b), "devices");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios), cmocka_unit_test(test_nodes_settle),
					   cmocka_unit_test(test_long_reason), cmocka_unit_test(test_grants)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
