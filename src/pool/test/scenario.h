// The words of a line of a scenario, as the parts read them: "flag", "key=value" or
// key="value with blanks".
#pragma once

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct td_scenario_word {
	char *key, *value; // value NULL: a flag
};
struct td_scenario_words {
	struct td_scenario_word w[40]; // [0] is the subject
	size_t n;
	const char *file;
	int line;
};
// Cuts s into words. *ret points into s.
void td_scenario_split(char *s, struct td_scenario_words *ret);
bool td_scenario_has(const struct td_scenario_words *w, const char *key);
const char *td_scenario_val(const struct td_scenario_words *w, const char *key, const char *def);
int64_t td_scenario_num(const struct td_scenario_words *w, const char *key, int64_t def);
// Returns the index of the first of `names` that is there as a flag; `def` when none is.
int td_scenario_choose(const struct td_scenario_words *w, const char *const *names, int n, int def);

// A group of decisions. Its functions return false for a line that they do not know, which is then
// another part's.
struct td_scenario_part {
	void (*reset)(void);
	bool (*given)(const struct td_scenario_words *w);
	// w: the words of the "want" line
	bool (*decide)(const struct td_scenario_words *w, struct td_buf *out);
};
extern const struct td_scenario_part td_scenario_nodeset, td_scenario_cluster, td_scenario_steps, td_scenario_preempt,
	td_scenario_health, td_scenario_tenant, td_scenario_gang, td_scenario_elastic, td_scenario_policy,
	td_scenario_upgrade, td_scenario_roles, td_scenario_starve, td_scenario_allowed;
// A test: faults on 10,000 nodes at once.
void td_scenario_health_storm(void **state);
// A test: whether a node has booted.
void td_scenario_health_boots(void **state);
