// The words of a scenario's line, as its parts read them: "flag", "key=value" or key="value with blanks".
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
void td_scenario_split(char *s, struct td_scenario_words *ret); // cuts s into pieces, which ret points to
bool td_scenario_has(const struct td_scenario_words *w, const char *key);
const char *td_scenario_val(const struct td_scenario_words *w, const char *key, const char *def);
int64_t td_scenario_num(const struct td_scenario_words *w, const char *key, int64_t def);
// The index of a word among `names` that is there as a flag; `def` when none is.
int td_scenario_choose(const struct td_scenario_words *w, const char *const *names, int n, int def);

// A group of decisions. A line that it does not know is another's: false.
struct td_scenario_part {
	void (*reset)(void);
	bool (*given)(const struct td_scenario_words *w);
	bool (*decide)(const struct td_scenario_words *w, struct td_buf *out); // w: of the "want" line
};
extern const struct td_scenario_part td_scenario_nodeset, td_scenario_cluster, td_scenario_steps;
