// Elastic gangs in scenarios: "given core …" with its members in numbers, "given place …" of the pods
// that wait, in their order.
#include "pool/elastic.h"
#include "pool/test/scenario.h"

#include <string.h>

static struct td_pool_core core;
static struct td_pool_core_place places[8];
static size_t n_places;

static void reset(void)
{
	core = (struct td_pool_core){0};
	n_places = 0;
}

static bool given(const struct td_scenario_words *w)
{
	const char *what = w->w[0].key;
	if (!strcmp(what, "core")) {
		core = (struct td_pool_core){.size = td_scenario_num(w, "size", 2),
					     .most = td_scenario_num(w, "most", 6),
					     .bound = td_scenario_num(w, "bound", 0),
					     .leaving = td_scenario_num(w, "leaving", 0),
					     .succeeded = td_scenario_num(w, "succeeded", 0),
					     .failed = td_scenario_num(w, "failed", 0),
					     .replace = td_scenario_has(w, "replace"),
					     .restart = td_scenario_has(w, "restart"),
					     .done_ms = td_scenario_num(w, "done", 0)};
	} else if (!strcmp(what, "place")) {
		assert_in_range(n_places, 0, 7);
		places[n_places++] = (struct td_pool_core_place){.group = td_scenario_num(w, "group", 0),
								 .index = td_scenario_num(w, "index", -1),
								 .done = td_scenario_has(w, "done")};
	} else {
		return false;
	}
	return true;
}

static bool decide(const struct td_scenario_words *w, struct td_buf *out)
{
	const char *what = w->w[0].key;
	struct td_pool_beyond p = {.ahead = td_scenario_num(w, "ahead", 0),
				   .others = td_scenario_num(w, "others", 0),
				   .made_ms = td_scenario_num(w, "made", 0)};
	if (!strcmp(what, "core")) {
		td_buf_printf(out, "core %s", td_pool_core_is_name(td_pool_core_is(&core)));
	} else if (!strcmp(what, "joins")) { // a pod that waits
		td_buf_printf(out, "joins%s", "");
		for (size_t i = 1; i < w->n && strcmp(w->w[i].key, ":"); i++)
			if (w->w[i].value)
				td_buf_printf(out, " %s=%s", w->w[i].key, w->w[i].value);
		td_buf_printf(out, " : %s", td_pool_beyond_name(td_pool_beyond(&core, &p)));
	} else if (!strcmp(what, "joined")) {
		p.joined = true;
		td_buf_printf(out, "joined : %s", td_pool_beyond_name(td_pool_beyond(&core, &p)));
	} else if (!strcmp(what, "there")) {
		td_buf_printf(out, "there %d of 2", (int)td_pool_core_there(places, n_places, 0, 2));
	} else if (!strcmp(what, "there-of-workers")) {
		td_buf_printf(out, "there-of-workers %d of 2", (int)td_pool_core_there(places, n_places, 1, 2));
	} else {
		return false;
	}
	return true;
}

const struct td_scenario_part td_scenario_elastic = {reset, given, decide};
