// NodeSets in scenarios. "given set …" gives the policy and what is known of Slurm. "given member
// NAME …" gives a node with its slurmd pod and its record in Slurm; given again, it replaces the
// node. "want set …" names every node that something is done with or waited for.
#include "pool/nodeset.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct td_pool_policy policy;
static struct td_pool_set_facts facts;
static struct td_pool_member members[16];
static struct td_pool_record records[16], record; // record: for single decisions
static size_t n_members;
static struct td_pool_absence absence;

static void reset(void)
{
	policy = (struct td_pool_policy){.replicas = -1,
					 .rolling = true,
					 .max_unavailable = 1,
					 .update_force_s = -1,
					 .scale_force_s = -1,
					 .view = true,
					 .now_ms = 1000000};
	facts = (struct td_pool_set_facts){.cluster = true, .fresh = true};
	n_members = 0;
	absence = (struct td_pool_absence){0};
}

static struct td_pool_record record_of(const struct td_scenario_words *w)
{
	static const struct {
		const char *word;
		struct td_pool_record r;
	} states[] = {{"idle", {0}},
		      {"mixed", {.jobs = true, .mixed = true}},
		      {"allocated", {.jobs = true}},
		      {"down", {.down = true, .bad = true}},
		      {"failed", {.bad = true}},
		      {"silent", {.bad = true, .silent = true}}};

	struct td_pool_record r = {0};
	for (size_t i = 0; i < TD_LEN(states); i++)
		if (td_scenario_has(w, states[i].word))
			r = states[i].r;
	r.drain = td_scenario_has(w, "drain");
	r.alloc_cpus = td_scenario_num(w, "alloc", 0);
	r.reason = td_scenario_val(w, "reason", "");
	r.reason_at = td_scenario_num(w, "since", 0);
	r.off = td_scenario_has(w, "off");
	r.rising = td_scenario_has(w, "rising");
	r.leaving = td_scenario_has(w, "leaving");
	r.busy_at = td_scenario_num(w, "busy-at", 0);
	r.address = td_scenario_val(w, "registered", "10.1.1.1");
	return r;
}

static void member(const struct td_scenario_words *w)
{
	const char *name = w->w[1].key;
	size_t at = 0;
	while (at < n_members && strcmp(members[at].name, name) != 0)
		at++;
	if (at == n_members)
		n_members++;
	assert_true(n_members <= TD_LEN(members));

	bool pod = !td_scenario_has(w, "no-pod") && !td_scenario_has(w, "host");
	records[at] = record_of(w);
	members[at] = (struct td_pool_member){
		.name = name,
		.exists = !td_scenario_has(w, "gone"),
		.matched = !td_scenario_has(w, "gone") && !td_scenario_has(w, "unmatched"),
		.ready = !td_scenario_has(w, "gone") && !td_scenario_has(w, "unready"),
		.host = td_scenario_has(w, "host"),
		.refuse = td_scenario_val(w, "refuse", NULL),
		.pod = pod,
		.pod_ready = pod && !td_scenario_has(w, "pod-unready"),
		.pod_deleting = td_scenario_has(w, "pod-deleting"),
		.pod_ended = td_scenario_has(w, "pod-ended"),
		.pod_current = !td_scenario_has(w, "outdated"),
		.pod_born_ms = policy.now_ms - td_scenario_num(w, "pod-age", 30) * 1000,
		.pod_ready_ms = pod && !td_scenario_has(w, "pod-unready")
					? policy.now_ms - td_scenario_num(w, "ready-for", 30) * 1000
					: 0,
		.pod_ip = td_scenario_val(w, "ip", "10.1.1.1"),
		.record = td_scenario_has(w, "no-record") ? NULL : &records[at],
		.record_differs = td_scenario_has(w, "differs"),
		.missing = td_scenario_has(w, "missing") || td_scenario_has(w, "forgotten"),
		.forgotten = td_scenario_has(w, "forgotten"),
	};
}

static bool given(const struct td_scenario_words *w)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "set")) {
		policy.replicas = td_scenario_num(w, "replicas", -1);
		policy.rolling = !td_scenario_has(w, "on-delete");
		policy.on_demand = td_scenario_has(w, "on-demand");
		policy.idle_s = td_scenario_num(w, "idle-time", 600);
		policy.max_unavailable = td_scenario_num(w, "max-unavailable", 1);
		policy.update_force_s = td_scenario_num(w, "update-force", -1);
		policy.scale_force_s = td_scenario_num(w, "scale-force", -1);
		policy.view = !td_scenario_has(w, "blind");
		int64_t config = td_scenario_num(w, "config-age", -1);
		policy.config_ms = config < 0 ? 0 : policy.now_ms - config * 1000;
		facts = (struct td_pool_set_facts){.problem = td_scenario_val(w, "problem", NULL),
						   .cluster = !td_scenario_has(w, "no-cluster"),
						   .fresh = policy.view,
						   .taken = td_scenario_val(w, "taken", NULL),
						   .other = td_scenario_val(w, "other", NULL),
						   .failed = td_scenario_val(w, "failed", NULL)};
	} else if (!strcmp(what, "member")) {
		member(w);
	} else if (!strcmp(what, "record")) {
		record = record_of(w);
	} else if (!strcmp(what, "sight")) { // one look after another
		static const char *const sights[] = {"unseen", "present", "absent"};
		int64_t at = td_scenario_num(w, "at", 0);
		if (td_scenario_has(w, "restarted"))
			td_pool_absence_restarted(&absence);
		else
			td_pool_absence_look(&absence, (enum td_pool_sight)td_scenario_choose(w, sights, 3, 0),
					     td_scenario_has(w, "other-pod"), at);
	} else {
		return false;
	}

	return true;
}

static void conditions(const struct td_pool_condition *v, size_t n, struct td_buf *out)
{
	for (size_t i = 0; i < n; i++)
		td_buf_printf(out, " %s=%s/%s \"%s\"", v[i].type, v[i].status, v[i].reason, v[i].message);
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	static const char *const writes[] = {"nothing", "drain", "undrain", "down", "power-down", "resume"};
	const char *what = w->w[0].key;
	struct td_pool_set_counts k;
	td_pool_nodeset_decide(members, n_members, &policy, &k);
	if (!strcmp(what, "set")) {
		bool any = false;
		td_buf_puts(out, "set");
		for (size_t i = 0; i < n_members; i++) {
			const struct td_pool_member *m = &members[i];
			if (m->act == TD_MEMBER_NOTHING && !m->why)
				continue;
			td_buf_printf(out, "%s %s %s", any ? "," : "", m->name,
				      m->act == TD_MEMBER_NOTHING ? "waits" : td_pool_member_do_name(m->act));
			if (m->why)
				td_buf_printf(out, " \"%s\"", m->why);
			any = true;
		}
		td_buf_puts(out, any ? "" : " settled");
	} else if (!strcmp(what, "counts")) {
		const struct {
			const char *name;
			long long n;
		} v[] = {{"desired", k.desired}, {"matched", k.matched},     {"assigned", k.assigned},
			 {"ready", k.ready},     {"updated", k.updated},     {"running", k.running},
			 {"idle", k.idle},       {"allocated", k.allocated}, {"draining", k.draining},
			 {"drained", k.drained}, {"down", k.down},           {"off", k.off}};
		td_buf_puts(out, "counts");
		for (size_t i = 0; i < TD_LEN(v); i++)
			if (v[i].n)
				td_buf_printf(out, " %s=%lld", v[i].name, v[i].n);
	} else if (!strcmp(what, "stay")) {
		td_buf_puts(out, "stay");
		for (size_t i = 0; i < n_members; i++)
			if (members[i].keep)
				td_buf_printf(out, " %s", members[i].name);
	} else if (!strcmp(what, "evictable")) {
		td_buf_puts(out, "evictable");
		for (size_t i = 0; i < n_members; i++)
			if (members[i].evictable)
				td_buf_printf(out, " %s", members[i].name);
	} else if (!strcmp(what, "set-conditions")) {
		static struct td_pool_set_conditions c;
		td_pool_nodeset_conditions(members, n_members, &k, &facts, &c);
		td_buf_puts(out, "set-conditions");
		conditions(c.v, c.n, out);
	} else if (!strcmp(what, "write")) {
		static const char *const acts[] = {"nothing",  "create",        "delete-pod", "drain", "undrain",
						   "set-down", "delete-record", "power-down", "resume"};
		int act = td_scenario_choose(w, acts, TD_LEN(acts), 0);
		bool reason;
		enum td_pool_write x = td_pool_member_write((enum td_pool_member_do)act,
							    td_scenario_has(w, "unknown") ? NULL : &record, &reason);
		td_buf_printf(out, "write %s%s: %s%s", acts[act], td_scenario_has(w, "unknown") ? " unknown" : "",
			      writes[x], reason ? " with its reason" : "");
	} else if (!strcmp(what, "ghost")) {
		td_buf_printf(out, "ghost %s", td_pool_member_do_name(td_pool_ghost(&record)));
	} else if (!strcmp(what, "owner")) {
		static const char *const owners[] = {"others", "bridge", "operator", "tandem", "slurm"};
		td_buf_printf(out, "owner %s", owners[td_pool_reason_owner(record.reason)]);
	} else if (!strcmp(what, "class")) {
		static const char *const classes[] = {"idle",    "mixed", "allocated", "draining",
						      "drained", "down",  "off"};
		td_buf_printf(out, "class %s%s", classes[td_pool_record_class(&record)],
			      td_pool_record_busy(&record) ? " busy" : "");
	} else if (!strcmp(what, "again")) {
		long long quiet = td_scenario_num(w, "quiet", 0), cost = td_scenario_num(w, "cost", 0);
		bool unsettled = td_scenario_has(w, "unsettled"), blind = td_scenario_has(w, "blind");
		td_buf_printf(out, "again%s%s quiet=%lld cost=%lld in=%lld", unsettled ? " unsettled" : "",
			      blind ? " blind" : "", quiet, cost,
			      (long long)td_pool_nodeset_again_ms(unsettled, !blind, quiet, cost));
	} else if (!strcmp(what, "sight")) {
		static const char *const sights[] = {"unseen", "present", "absent"};
		int sight = td_scenario_choose(w, sights, 3, 0);
		long long at = td_scenario_num(w, "at", 0);
		bool other = td_scenario_has(w, "other-pod");
		long long left = td_pool_absence_look(&absence, (enum td_pool_sight)sight, other, at);
		td_buf_printf(out, "sight %s at=%lld%s: %lld", sights[sight], at, other ? " other-pod" : "", left);
	} else if (!strcmp(what, "lacks")) {
		static const char *const lacks[] = {"nothing", "cpu", "memory", "devices"};
		const struct td_pool_reserve r = {.cpu_milli = 16000,
						  .memory = INT64_C(64) << 30,
						  .share_cpus = td_scenario_num(w, "cpus", 14),
						  .share_memory_mb = 60 << 10,
						  .share_gpus = td_scenario_num(w, "gpus", 8),
						  .others_milli = td_scenario_num(w, "others-milli", 0),
						  .others_memory = td_scenario_num(w, "others-gib", 0) << 30,
						  .others_gpus = td_scenario_num(w, "others-gpus", 0)};
		td_buf_printf(out, "lacks cpus=%lld gpus=%lld others-milli=%lld others-gib=%lld others-gpus=%lld: %s",
			      (long long)r.share_cpus, (long long)r.share_gpus, (long long)r.others_milli,
			      (long long)(r.others_memory >> 30), (long long)r.others_gpus,
			      lacks[td_pool_reserve_lacks(&r)]);
	} else {
		return false;
	}

	return true;
}

const struct td_scenario_part td_scenario_nodeset = {reset, given, decide};
