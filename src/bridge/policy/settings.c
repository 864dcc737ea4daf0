// spec.scheduler.policies of the SlurmCluster.
#include "bridge/policy/policies.h"

#include <string.h>

static const char *const kinds[] = {"fifo", "lifo", "hierarchicalFifo", "drf", "plugin"}, *const queues[] = {"none",
													     "user",
													     "account"};

static int at(const char *const *names, size_t n, const char *word, int def)
{
	for (size_t i = 0; word && i < n; i++)
		if (!strcmp(names[i], word))
			return (int)i;
	return def;
}

void td_settings_read_policies(const yyjson_val *cluster, struct td_settings *s)
{
	yyjson_val *list = td_jget(cluster, "spec.scheduler.policies"), *x, *y;
	size_t i, n, k, m;
	struct td_policies_rule *v = td_arena_alloc(s->arena, (yyjson_arr_size(list) + 1) * sizeof(*v));
	yyjson_arr_foreach (list, i, n, x) {
		struct td_policies_rule *r = &v[s->n_policies++];
		yyjson_val *partitions = td_jget(x, "partitions");
		const char **names = td_arena_alloc(s->arena, (yyjson_arr_size(partitions) + 1) * sizeof(*names));
		*r = (struct td_policies_rule){.name = td_arena_strdup(s->arena, td_jstr_or(x, "name", "")),
					       .partitions = names};
		r->kind = (enum td_policy_kind)at(kinds, TD_LEN(kinds), td_jstr(x, "order"), TD_POLICY_FIFO);
		bool fair = r->kind == TD_POLICY_HIERARCHICAL || r->kind == TD_POLICY_DRF;
		r->queue = (enum td_policy_queue)at(queues, TD_LEN(queues), td_jstr(x, "queueBy"),
						    fair ? TD_POLICY_PER_ACCOUNT : TD_POLICY_ONE_QUEUE);
		r->plugin = td_arena_strdup(s->arena, td_jstr_or(x, "plugin.name", ""));
		r->arguments = td_arena_strdup(s->arena, td_jstr_or(x, "plugin.arguments", ""));
		yyjson_arr_foreach (partitions, k, m, y)
			if (yyjson_is_str(y))
				names[r->n_partitions++] = td_arena_strdup(s->arena, yyjson_get_str(y));
	}
	s->policies = v;
}

const char *td_policies_rule_words(const struct td_policies_rule *r)
{
	static const char *const words[][3] = {
		[TD_POLICY_FIFO] = {"fifo", "fifo", "fifo"},
		[TD_POLICY_LIFO] = {"lifo", "lifo", "lifo"},
		[TD_POLICY_HIERARCHICAL] = {"fifo", "hierarchicalFifo by user", "hierarchicalFifo by account"},
		[TD_POLICY_DRF] = {"fifo", "drf by user", "drf by account"},
		[TD_POLICY_PLUGIN] = {"plugin", "plugin", "plugin"}};
	return words[r->kind][r->queue];
}
