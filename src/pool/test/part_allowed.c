// On which nodes a job may run, in scenarios: "given allowed-node".
#include "pool/allowed.h"
#include "pool/test/scenario.h"

#include <string.h>

enum { MOST = 8 };

static struct td_pool_allowed_node nodes[MOST];
static struct td_pool_allowed f;

static void reset(void)
{
	memset(nodes, 0, sizeof(nodes));
	f = (struct td_pool_allowed){.nodes = nodes};
}

static bool given(const struct td_scenario_words *w)
{
	if (!strcmp(w->w[0].key, "allowed-job")) {
		f.names = td_scenario_has(w, "names");
		f.reserves = td_scenario_has(w, "reservation");
		f.constraint = td_scenario_val(w, "constraint", NULL);
		return true;
	}
	if (strcmp(w->w[0].key, "allowed-node") != 0)
		return false;
	assert_true(f.n < MOST);
	nodes[f.n++] = (struct td_pool_allowed_node){.name = td_scenario_val(w, "name", "?"),
						     .features = td_scenario_val(w, "features", NULL),
						     .partition = !td_scenario_has(w, "elsewhere"),
						     .named = td_scenario_has(w, "named"),
						     .excluded = td_scenario_has(w, "excluded"),
						     .reserved = td_scenario_has(w, "reserved"),
						     .large = !td_scenario_has(w, "small"),
						     .usable = !td_scenario_has(w, "away")};
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	if (strcmp(w->w[0].key, "allowed") != 0)
		return false;
	bool may[MOST];
	struct td_pool_allowed_count c;
	td_auto_buf struct td_buf names = {0};
	td_pool_allowed(&f, may, &c);
	for (size_t i = 0; i < f.n; i++)
		if (may[i])
			td_buf_printf(&names, "%s%s", names.len ? "," : "", nodes[i].name);
	td_auto_free char *words = td_pool_allowed_words(&c, td_buf_str(&names), f.constraint);
	td_buf_printf(out, "allowed: %s", words ? words : "all");
	return true;
}

const struct td_scenario_part td_scenario_allowed = {reset, given, decide};
