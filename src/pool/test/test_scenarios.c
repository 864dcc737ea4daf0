// Runs t/scenarios/*.txt: decisions of the pool as text. "= name" starts a scenario, "given
// ask|job|node|want|machine|vanish word…" (or a subject of the other parts) adds facts, and "want
// …" is the decision. A word is "flag", "key=value" or key="value with blanks". Comments start with
// "#".
// rows: A5.6 A5.9 A6.2 A6.6
#include "base/file.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "pool/test/scenario.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

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
static const struct td_scenario_part *const parts[] = {
	&td_scenario_nodeset, &td_scenario_cluster, &td_scenario_steps,   &td_scenario_preempt, &td_scenario_health,
	&td_scenario_tenant,  &td_scenario_gang,    &td_scenario_elastic, &td_scenario_policy,  &td_scenario_upgrade,
	&td_scenario_roles,   &td_scenario_starve,  &td_scenario_allowed};
static const char *const kinds[TD_POOL_KINDS] = {"gpu", "shard"};

static void grant(const struct td_scenario_words *w, struct td_grant *g, const char *uid)
{
	*g = (struct td_grant){.job = td_scenario_num(w, "job", 0),
			       .start = td_scenario_num(w, "start", 0),
			       .restarts = td_scenario_num(w, "restarts", 0),
			       .ask = td_scenario_val(w, "of", uid),
			       .nodes = td_scenario_val(w, "on", ""),
			       .devices = td_scenario_val(w, "devices", "")};
}

static void given(struct scenario *s, const struct td_scenario_words *w)
{
	static const char *const pods[] = {"gone", "waiting", "bound", "leaving", "done"},
				 *const know[] = {"none", "unsure", "gone", "read"},
				 *const is[] = {"unknown", "pending", "starting", "running", "lost", "ended"};
	const char *what = w->w[0].key;

	if (!strcmp(what, "ask")) {
		s->ask = (struct td_pool_ask){
			.uid = "u1",
			.pod = (enum td_pool_pod_state)td_scenario_choose(w, pods, 5, TD_POD_WAITING),
			.refused = td_scenario_has(w, "refused"),
			.has_grant = td_scenario_has(w, "job"),
			.fits_now = td_scenario_has(w, "fits-now"),
			.node_fits = !td_scenario_has(w, "node-unfit"),
			.fenced = td_scenario_has(w, "fenced"),
			.superseded = td_scenario_has(w, "superseded"),
			.short_of = td_scenario_has(w, "short"),
			.waited = td_scenario_has(w, "waited"),
			.lost_state = td_scenario_has(w, "lost-state")};
		grant(w, &s->ask.grant, "u1");
	} else if (!strcmp(what, "job")) {
		s->job = (struct td_pool_job){.is = (enum td_job_is)td_scenario_choose(w, is, 6, TD_IS_UNKNOWN),
					      .ours = !td_scenario_has(w, "foreign"),
					      .cancelled = td_scenario_has(w, "cancelled"),
					      .started = td_scenario_has(w, "started"),
					      .warned = td_scenario_has(w, "warned"),
					      .same_spec = !td_scenario_has(w, "stale"),
					      .unproven = td_scenario_has(w, "unproven")};
		s->job.know = (enum td_job_know)td_scenario_choose(w, know, 4, TD_JOB_READ);
		grant(w, &s->job.grant, "u1");
	} else if (!strcmp(what, "node")) {
		s->node = (struct td_pool_node_facts){.k8s = !td_scenario_has(w, "no-object"),
						      .cordoned = td_scenario_has(w, "cordoned"),
						      .request = td_scenario_val(w, "request", NULL),
						      .hold = td_scenario_val(w, "hold", NULL),
						      .end_jobs = td_scenario_has(w, "end-jobs"),
						      .busy = td_scenario_has(w, "busy"),
						      .down = td_scenario_has(w, "down"),
						      .by_person = td_scenario_has(w, "by-person"),
						      .gate = td_scenario_val(w, "gate", NULL),
						      .gate_alarm = td_scenario_has(w, "gate-alarm"),
						      .devices = td_scenario_val(w, "devices", NULL),
						      .lost_state = td_scenario_has(w, "lost-state"),
						      .known = !td_scenario_has(w, "unknown"),
						      .slurm = !td_scenario_has(w, "not-in-slurm"),
						      .drain = td_scenario_has(w, "drain"),
						      .reason = td_scenario_val(w, "reason", ""),
						      .words = td_scenario_val(w, "words", "idle"),
						      .bad = td_scenario_has(w, "bad"),
						      .reboot = td_scenario_has(w, "reboot"),
						      .off = td_scenario_has(w, "off")};
	} else if (!strcmp(what, "want")) {
		s->wants = true;
		s->want = (struct td_pool_want){.cpus = td_scenario_num(w, "cpus", 1),
						.memory_mb = td_scenario_num(w, "memory", 1),
						.gres = {td_scenario_num(w, "gpu", 0), td_scenario_num(w, "shard", 0)},
						.exclusive = td_scenario_has(w, "exclusive")};
	} else if (!strcmp(what, "machine")) {
		assert_in_range(s->n_nodes, 0, 15);
		s->nodes[s->n_nodes++] =
			(struct td_pool_node){.name = td_scenario_val(w, "name", "?"),
					      .feasible = !td_scenario_has(w, "unfit"),
					      .usable = !td_scenario_has(w, "unusable"),
					      .cpus = td_scenario_num(w, "cpus", 16),
					      .memory_mb = td_scenario_num(w, "memory", 1000),
					      .gres = {td_scenario_num(w, "gpu", 8), td_scenario_num(w, "shard", 0)},
					      .used_cpus = td_scenario_num(w, "used-cpus", 0),
					      .used_memory_mb = td_scenario_num(w, "used-memory", 0),
					      .used_gres = {td_scenario_num(w, "used-gpu", 0)}};
	} else if (!strcmp(what, "vanish")) {
		s->vanish = true;
		s->gone = (size_t)td_scenario_num(w, "gone", 0);
		s->watched = (size_t)td_scenario_num(w, "watched", 0);
	} else {
		for (size_t i = 0; i < TD_LEN(parts); i++)
			if (parts[i]->given(w))
				return;
		fail_msg("%s:%d: given what?", w->file, w->line);
	}
}

// Writes the decision as text. The scenario's "want" line must be equal.
static void decide(const struct scenario *s, const char *what, const struct td_scenario_words *line, struct td_buf *out)
{
	for (size_t i = 0; i < TD_LEN(parts); i++)
		if (parts[i]->decide(line, out))
			return;

	if (!strcmp(what, "node")) {
		static const char *const dos[] = {"leave", "drain", "undrain", "reason", "down"};
		struct td_pool_node_plan p;
		td_pool_node_causes(&s->node, &p);
		td_buf_printf(out, "node %s", dos[p.slurm]);
		if (p.slurm == TD_NODE_DRAIN || p.slurm == TD_NODE_REASON || p.slurm == TD_NODE_DOWN)
			td_buf_printf(out, " \"%s\"", p.reason);
		if (!p.decided)
			td_buf_puts(out, " undecided");
		if (p.taint)
			td_buf_puts(out, p.foreign ? " taint" : " hold-taint");
		if (p.down)
			td_buf_puts(out, " down-taint");
		if (p.state)
			td_buf_printf(out, " state=\"%s\"", p.state);
		if (p.text)
			td_buf_printf(out, " text=\"%s\"", p.text);
	} else if (!strcmp(what, "now")) {
		int i = td_pool_fits_now(s->nodes, s->n_nodes, &s->want);
		td_buf_printf(out, "now %s", i < 0 ? "no" : s->nodes[i].name);
	} else if (!strcmp(what, "ever")) {
		char why[256] = "";
		enum td_pool_fit fit = td_pool_fits_ever(s->nodes, s->n_nodes, &s->want, kinds, why, sizeof(why));
		td_buf_printf(out, "ever %s%s", fit == TD_FIT_SOME_DAY ? "yes" : "no: ", why);
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
	for (size_t i = 0; i < TD_LEN(parts); i++)
		parts[i]->reset();
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
			struct td_scenario_words w = {.file = file, .line = line};
			if (s.n_keep == TD_LEN(s.keep))
				fail_msg("%s:%d: too many facts", file, line);
			s.keep[s.n_keep] = td_strdup(p + 6);
			td_scenario_split(s.keep[s.n_keep++], &w);
			given(&s, &w);
		} else if (td_starts(p, "want ")) {
			td_auto_buf struct td_buf got = {0};
			char what[32];
			snprintf(what, sizeof(what), "%.*s", (int)strcspn(p + 5, " :"), p + 5);
			struct td_scenario_words w = {.file = file, .line = line};
			td_auto_free char *copy = td_strdup(p + 5);
			if (strstr(copy, ": "))
				*strstr(copy, ": ") = '\0'; // the answer follows
			td_scenario_split(copy, &w);
			decide(&s, what, &w, &got);
			if (strcmp(td_buf_str(&got), p + 5) != 0 && getenv("TD_SCENARIO_SHOW"))
				print_message("%s:%d: want %s\n", file, line, td_buf_str(&got));
			else if (strcmp(td_buf_str(&got), p + 5) != 0)
				fail_msg("%s:%d: %s\n  want %s\n  got  %s", file, line, s.name, p + 5,
					 td_buf_str(&got));
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

// The fixed point of docs/protocols.md 2: from any state of both sides, applying the plan
// repeatedly comes to rest, and never touches a foreign reason.
static void test_nodes_settle(void **state)
{
	static const char *const reasons[] = {"",
					      "bad fan",
					      "tandem: cordoned in Kubernetes",
					      "tandem: requested: x",
					      "tandem: update",
					      "tandem: condition GpuUnhealthy: gpu3",
					      "tandem: action reboot by root",
					      "tandem: gate n0, held by 7",
					      "tandem: devices, none",
					      "tandem"};

	for (unsigned bits = 0; bits < 1024; bits++)
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
						       .hold = bits & 512 ? "condition x" : NULL,
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
					assert_true(td_pool_reason_owner(f.reason) == TD_OWNER_BRIDGE);
				f.drain = p.slurm != TD_NODE_UNDRAIN;
				snprintf(reason, sizeof(reason), "%s",
					 p.slurm == TD_NODE_UNDRAIN ? "Not responding: over" : p.reason);
			}
		}
}

// A node where jobs start each second is written four times, then four times a minute; after a quiet minute as before.
static void test_writes_are_bounded(void **state)
{
	int64_t full_at = 0;
	int writes = 0;
	for (int64_t now = 0; now < 600000; now += 1000) {
		int64_t before = full_at, in = td_pool_write_in(&full_at, now);
		writes += !in;
		if (!in)
			continue;
		assert_int_equal(full_at, before);
		assert_in_range(in, 1, TD_POOL_WRITE_MS);
		int64_t then = full_at;
		assert_int_equal(td_pool_write_in(&then, now + in), 0);
	}
	assert_int_equal(writes, 4 + 600000 / TD_POOL_WRITE_MS - 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(td_pool_write_in(&full_at, 700000), 0);
	assert_int_equal(td_pool_write_in(&full_at, 700000), TD_POOL_WRITE_MS);
}

static void test_long_reason(void **state)
{
	char text[1000];
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[998] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		struct td_pool_node_facts f = {
			.k8s = true, .known = true, .slurm = true, .reason = "", .words = "idle"};
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_scenarios),
					   cmocka_unit_test(td_scenario_health_storm),
					   cmocka_unit_test(td_scenario_health_boots),
					   cmocka_unit_test(test_nodes_settle),
					   cmocka_unit_test(test_writes_are_bounded),
					   cmocka_unit_test(test_long_reason),
					   cmocka_unit_test(test_grants)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
