#include "pool/test/scenario.h"

#include "base/file.h"

#include <string.h>

void td_scenario_split(char *s, struct td_scenario_words *ret)
{
	ret->n = 0;
	while (*s && ret->n < TD_LEN(ret->w)) {
		while (*s == ' ')
			s++;
		if (!*s)
			break;
		struct td_scenario_word *w = &ret->w[ret->n++];
		*w = (struct td_scenario_word){.key = s};

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

bool td_scenario_has(const struct td_scenario_words *w, const char *key)
{
	for (size_t i = 1; i < w->n; i++) // [0] is the subject
		if (!strcmp(w->w[i].key, key))
			return true;
	return false;
}

const char *td_scenario_val(const struct td_scenario_words *w, const char *key, const char *def)
{
	for (size_t i = 1; i < w->n; i++) // [0] is the subject
		if (!strcmp(w->w[i].key, key))
			return w->w[i].value ? w->w[i].value : "";
	return def;
}

int64_t td_scenario_num(const struct td_scenario_words *w, const char *key, int64_t def)
{
	long long v = def;
	const char *s = td_scenario_val(w, key, NULL);
	if (s && !td_parse_i64(s, &v))
		fail_msg("%s:%d: %s=%s is no number", w->file, w->line, key, s);
	return v;
}

int td_scenario_choose(const struct td_scenario_words *w, const char *const *names, int n, int def)
{
	for (int i = 0; i < n; i++)
		if (td_scenario_has(w, names[i]))
			return i;
	return def;
}
