// HealthPolicy, and what it makes of a node's faults.
#include "operator/health.h"

#include "base/log.h"

#include <string.h>

static void rules_of(const yyjson_val *list, struct td_op_policy *p)
{
	yyjson_val *x, *code;
	size_t i, n, k, m;
	p->rules = td_calloc(yyjson_arr_size((yyjson_val *)(uintptr_t)list) + 1, sizeof(*p->rules));
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)list, i, n, x) {
		struct td_pool_rule *r = &p->rules[p->n_rules];
		if (!td_pool_remedy_parse(td_jstr(x, "action"), &r->remedy))
			continue;
		const char *scope = td_jstr(x, "scope");
		r->scope = td_streq(scope, "device") ? TD_SCOPE_DEVICE
			   : td_streq(scope, "node") ? TD_SCOPE_NODE
						     : TD_SCOPE_TABLE;
		r->check = td_jstr(x, "check");
		r->condition = td_jstr(x, "condition");
		yyjson_val *codes = td_jget(x, "codes");
		int64_t *v = td_calloc(yyjson_arr_size(codes) + 1, sizeof(*v));
		yyjson_arr_foreach (codes, k, m, code)
			v[r->n_codes++] = yyjson_get_sint(code);
		r->codes = v;
		r->below = td_jint(x, "below", 0);
		p->n_rules++;
	}
}

void td_op_policy_load(struct td_op *op, struct td_op_policy *ret)
{
	*ret = (struct td_op_policy){.object = td_informer_get(op->policies, NULL, TD_OP_POLICY)};
	if (ret->object) {
		ret->json = td_json_ref(ret->object->json);
	} else {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_fill("healthpolicy.yaml", NULL, 0);
		ret->json = td_json_from_mut(yyjson_mut_doc_get_root(d));
	}

	// The schema has the defaults of an object, the file says everything.
	yyjson_val *s = td_jget(td_json_root(ret->json), "spec");
	ret->dry_run = td_jbool(s, "dryRun", false);
	ret->test_return = td_jbool(s, "testBeforeReturn", true);
	ret->test_new = td_jbool(s, "testNewNodes", false);
	ret->test_ms = td_jint(s, "testMilliseconds", 0);
	ret->jobs_end_s = td_jint(s, "jobsEndAfterSeconds", -1);
	ret->idle_ms = td_jint(s, "testIdleHours", 0) * 3600 * 1000;
	if (td_jint(s, "idleTests.everySeconds", 0))
		ret->idle_ms = td_jint(s, "idleTests.everySeconds", 0) * 1000;
	if (td_jget(s, "figures")) {
		static const struct {
			const char *path;
			int otherwise;
		} of[TD_FIGURES] = {{"figures.percent", 80},
				    {"figures.memoryPercent", 80},
				    {"figures.diskPercent", 50},
				    {"figures.diskPercent", 50},
				    {"figures.linksPercent", 95}};
		ret->figures = true;
		for (int i = 0; i < TD_FIGURES; i++) {
			td_auto_free char *floor = td_asprintf("figures.least.%s", td_pool_figure_names[i]);
			ret->figures_percent[i] = (int)td_jint(s, of[i].path, of[i].otherwise);
			ret->figures_floor[i] = (double)td_jint(s, floor, 0);
		}
		ret->figures_nodes = (size_t)td_jint(s, "figures.nodes", 3);
	}
	ret->idle_budget_ms = td_jint(s, "idleTests.minutesPerHour", 60) * 60000;
	ret->together = td_jget(s, "idleTests.together");
	ret->attempts = (size_t)td_jint(s, "attempts", 0);
	ret->window_ms = td_jint(s, "attemptWindowHours", 0) * 3600 * 1000;
	ret->keep_ms = td_jint(s, "keepDays", 90) * 24 * 3600 * 1000;
	ret->compact_ms = td_jint(s, "compactDays", 14) * 24 * 3600 * 1000;
	ret->percent = (size_t)td_jint(s, "breaker.percent", 0);
	ret->least = (size_t)td_jint(s, "breaker.nodes", 0);
	rules_of(td_jget(s, "rules"), ret);
	ret->preflight = td_jget(s, "preflight");
	ret->hang = td_jget(s, "hang");
	ret->straggler = td_jget(s, "straggler");
}

char *td_op_policy_preflight(const struct td_op_policy *p, bool say)
{
	static const char *const lists[] = {"partitions", "qos", "namespaces"};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	bool any = false;
	for (size_t i = 0; i < TD_LEN(lists); i++) {
		yyjson_val *l = td_jget(p->preflight, lists[i]);
		if (yyjson_arr_size(l)) {
			any = true;
			td_jm_key_set(d, root, lists[i], yyjson_val_mut_copy(d, l));
		}
	}
	if (!any)
		return NULL;
	td_jm_int(d, root, "milliseconds", td_jint(p->preflight, "milliseconds", 100));
	td_jm_int(d, root, "tries", td_jint(p->preflight, "tries", 3));
	td_jm_str(d, root, "program", td_jstr(p->preflight, "program"));
	td_jm_int(d, root, "timeoutSeconds", td_jint(p->preflight, "timeoutSeconds", 30));
	td_jm_str(d, root, "untested", td_jstr_or(p->preflight, "untested", "start"));
	yyjson_val *exchange = td_jget(p->preflight, "exchange");
	if (exchange) {
		yyjson_mut_val *x = td_jm_obj(d, root, "exchange");
		td_jm_int(d, x, "megabytes", td_jint(exchange, "megabytes", 4));
		td_jm_str(d, x, "storage", td_jstr(exchange, "storage"));
	}
	if (say)
		td_jm_bool(d, root, "say", true);
	return td_json_mut_text(root, NULL);
}

char *td_op_policy_hang(const struct td_op_policy *p)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(p->hang);
	if (p->dry_run)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "action", "tell");
	return td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
}

char *td_op_policy_straggler(const struct td_op_policy *p, bool tell)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(p->straggler);
	if (tell)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "action", "tell");
	return td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
}

void td_op_policy_done(struct td_op_policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		free((int64_t *)(uintptr_t)p->rules[i].codes);
	free(p->rules);
	td_json_unref(p->json);
	td_object_unref(p->object);
	*p = (struct td_op_policy){0};
}

static void add(struct td_op_faults *l, const struct td_op_policy *p, struct td_pool_fault f, const char *said)
{
	bool alone;
	f.remedy = td_pool_rule_of(&f, p->rules, p->n_rules, &alone);
	f.alone = alone;
	l->v = td_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->said = td_realloc(l->said, (l->n + 1) * sizeof(*l->said));
	l->v[l->n] = f;
	l->said[l->n++] = said;
}

static void read_all(const struct td_object *node, const struct td_op_policy *p, struct td_op_faults *ret)
{
	*ret = (struct td_op_faults){0};
	const char *text = node ? td_object_annotation(node, TD_ANN_FAULTS) : NULL;
	yyjson_val *x;
	size_t i, n;
	if (text && !td_json_parse(text, strlen(text), &ret->json, NULL))
		yyjson_arr_foreach (td_json_root(ret->json), i, n, x) {
			struct td_pool_fault f = {.check = td_jstr(x, "check"),
						  .condition = td_jstr(x, "condition"),
						  .device = td_jstr(x, "device"),
						  .alone = td_streq(td_jstr(x, "scope"), "device"),
						  .code = td_jint(x, "code", 0)};
			if (f.check && f.condition && td_pool_remedy_parse(td_jstr(x, "action"), &f.remedy))
				add(ret, p, f, td_jstr_or(x, "message", f.check));
		}

	if (!node)
		return;
	yyjson_arr_foreach (td_jget(node->root, "status.conditions"), i, n, x) {
		struct td_pool_fault f = {.condition = td_jstr(x, "type")};
		bool alone;
		if (f.condition && td_streq(td_jstr(x, "status"), "True") &&
		    td_pool_rule_of(&f, p->rules, p->n_rules, &alone) != TD_REMEDY_NONE)
			add(ret, p, f, td_jstr_or(x, "message", td_jstr_or(x, "reason", "")));
	}
}

void td_op_faults_read(struct td_op *op, const struct td_object *node, const struct td_op_policy *p,
		       struct td_op_faults *ret)
{
	read_all(node, p, ret);
	bool known = false, able = false;
	for (size_t i = 0; i < ret->n; i++) {
		struct td_pool_fault *f = &ret->v[i];
		if (f->alone && !known) {
			able = td_op_devices_able(op, node);
			known = true;
		}
		f->alone &= able;
		if (!f->alone && f->remedy > ret->worst)
			ret->worst = f->remedy;
	}
}

void td_op_faults_done(struct td_op_faults *f)
{
	free(f->v);
	free(f->said);
	td_json_unref(f->json);
	*f = (struct td_op_faults){0};
}

char *td_op_faults_text(const struct td_op_faults *f)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < f->n && b.len < 200; i++)
		if (f->v[i].remedy != TD_REMEDY_NONE)
			td_buf_printf(&b, "%s%s: %.120s", b.len ? "; " : "", f->v[i].condition, f->said[i]);
	return td_buf_take(&b);
}
