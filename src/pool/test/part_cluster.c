// SlurmClusters in scenarios: "given cluster …", "given config …".
#include "pool/cluster.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct td_pool_cluster_facts facts;
static struct td_pool_config_facts config;
static struct td_pool_trial_facts trial;

static void reset(void)
{
	facts = (struct td_pool_cluster_facts){0};
	config = (struct td_pool_config_facts){0};
	trial = (struct td_pool_trial_facts){0};
}

static bool given(const struct td_scenario_words *w)
{
	if (!strcmp(w->w[0].key, "cluster"))
		facts = (struct td_pool_cluster_facts){.problem = td_scenario_val(w, "problem", NULL),
						       .absent = td_scenario_has(w, "absent"),
						       .trying = td_scenario_val(w, "trying", NULL),
						       .answers = td_scenario_has(w, "answers"),
						       .in_force = td_scenario_has(w, "in-force"),
						       .was_running = td_scenario_has(w, "was-running"),
						       .rest = td_scenario_num(w, "rest", 0),
						       .logins = td_scenario_num(w, "logins", 0),
						       .logins_wanted = td_scenario_num(w, "logins-wanted", 1),
						       .nodes = (size_t)td_scenario_num(w, "nodes", 4),
						       .gpus = td_scenario_num(w, "gpus", 32),
						       .accounting = td_scenario_has(w, "accounting"),
						       .dbds = td_scenario_num(w, "dbds", 0),
						       .preempts = td_scenario_has(w, "preempts"),
						       .qos_known = td_scenario_has(w, "qos"),
						       .qos_problem = td_scenario_val(w, "qos-problem", NULL),
						       .planes = td_scenario_has(w, "planes"),
						       .plane_problem = td_scenario_val(w, "plane-problem", NULL),
						       .login_failed = td_scenario_val(w, "login-failed", NULL),
						       .login_unknown = td_scenario_has(w, "login-unknown"),
						       .api_asked = td_scenario_has(w, "api-asked"),
						       .api_lacks = td_scenario_val(w, "api-lacks", NULL),
						       .devices_asked = td_scenario_has(w, "devices-asked"),
						       .devices = td_scenario_val(w, "devices", "32 GPUs on 4 nodes")};
	else if (!strcmp(w->w[0].key, "config"))
		config = (struct td_pool_config_facts){.exists = td_scenario_has(w, "exists"),
						       .same = td_scenario_has(w, "same"),
						       .nodes = (size_t)td_scenario_num(w, "nodes", 0),
						       .seen_ms = td_scenario_num(w, "seen", 0),
						       .answered = td_scenario_has(w, "answered"),
						       .ctld_ms = td_scenario_num(w, "ctld", -1)};
	else if (!strcmp(w->w[0].key, "trial"))
		trial = (struct td_pool_trial_facts){.tried = td_scenario_has(w, "tried"),
						     .pod = td_scenario_has(w, "pod"),
						     .deleting = td_scenario_has(w, "deleting"),
						     .ended = td_scenario_has(w, "code"),
						     .code = (int)td_scenario_num(w, "code", 0),
						     .ended_ms = td_scenario_num(w, "ago", 0),
						     .stuck = td_scenario_val(w, "stuck", NULL)};
	else
		return false;
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	struct td_pool_cluster_plan p;
	td_pool_cluster_decide(&facts, &p);
	if (!strcmp(what, "phase")) {
		const struct td_pool_condition *c = &p.v[p.n - 1];
		td_buf_printf(out, "phase %s %s=%s/%s \"%s\"", p.phase, c->type, c->status, c->reason, c->message);
	} else if (!strcmp(what, "conditions")) {
		td_buf_puts(out, "conditions");
		for (size_t i = 0; i + 1 < p.n; i++)
			td_buf_printf(out, " %s=%s/%s \"%s\"", p.v[i].type, p.v[i].status, p.v[i].reason,
				      p.v[i].message);
	} else if (!strcmp(what, "config")) {
		td_buf_printf(out, "config %s", td_pool_config_waits(&config) ? "waits" : "now");
	} else if (!strcmp(what, "trial")) {
		td_buf_printf(out, "trial %s", td_pool_trial_name(td_pool_trial_decide(&trial)));
	} else if (!strcmp(what, "force")) {
		static const char *const forces[] = {"nothing", "first", "wait", "seen"};
		const struct td_pool_force_facts f = {td_scenario_has(w, "answers"), td_scenario_has(w, "new"),
						      td_scenario_has(w, "in-force"), td_scenario_has(w, "told"),
						      td_scenario_has(w, "seen")};
		td_buf_printf(out, "force%s%s%s%s%s: %s", f.answers ? " answers" : "", f.first ? " new" : "",
			      f.in_force ? " in-force" : "", f.told ? " told" : "", f.seen ? " seen" : "",
			      forces[td_pool_config_force(&f)]);
	} else {
		return false;
	}

	return true;
}

const struct td_scenario_part td_scenario_cluster = {reset, given, decide};
