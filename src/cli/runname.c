// Which run somebody means.
#include "cli/client.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { HASH = 6 };

bool td_client_run_is_id(const char *word)
{
	const char *dash = strrchr(word, '-');
	return dash && dash != word && strlen(dash + 1) == HASH && strspn(dash + 1, "0123456789abcdef") == HASH;
}

static bool has_job(yyjson_val *run, long long job)
{
	size_t i, n;
	yyjson_val *s;
	yyjson_arr_foreach (td_jget(run, "steps"), i, n, s)
		if (td_jint(s, "job", 0) == job)
			return true;
	return false;
}

static bool is_alive(const yyjson_val *run)
{
	return td_streq(td_jstr(run, "state"), "running") || td_streq(td_jstr(run, "state"), "waiting");
}

int td_client_run_pick(yyjson_val *runs, const char *word, bool alive, const char **ret_id, struct td_error *err)
{
	const char *first = NULL, *second = NULL;
	long long job = 0;
	bool number = word && td_parse_i64(word, &job) && job > 0;
	size_t i, n;
	yyjson_val *r;
	yyjson_arr_foreach (runs, i, n, r) {
		const char *id = td_jstr_or(r, "id", "");
		if (word && td_streq(word, id)) {
			*ret_id = id;
			return 0;
		}
		bool meant = !word || (number ? has_job(r, job) : td_streq(td_jstr(r, "name"), word));
		// What was refused has nothing to show; it is still found by its id.
		if (!meant || td_streq(td_jstr(r, "state"), "not-submitted") || (alive && !is_alive(r)))
			continue;
		if (!first)
			first = id;
		else if (!second)
			second = id;
	}
	if (!first && !word)
		return td_fail(err, TD_NOT_FOUND, "you have no runs: tandem submit -- COMMAND");
	if (!first)
		return td_fail(err, TD_NOT_FOUND, "there is no run %s%s%s: `tandem ps` lists yours",
			       number ? "of job " : "", word, alive ? " that has not ended" : "");
	if (alive && second)
		return td_fail(err, TD_INVALID, "several runs are called %s: say which, such as %s or %s", word, first,
			       second);
	*ret_id = first;
	return 0;
}

int td_client_run_of(struct td_client *c, const char *word, bool alive, char **ret_id, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *id = NULL;
	int r = 0;
	if (word && strchr(word, '/'))
		id = td_client_run(word);
	else if (!(r = td_client_call(c, "GET", "/api/v1/runs", NULL, &j, err)))
		r = td_client_run_pick(td_jget(td_json_root(j), "runs"), word, alive, &id, err);
	// What may be an id is asked for as it is; a name may have that form, too: exp-251128.
	if (r && r != TD_INVALID && word && td_client_run_is_id(word)) {
		id = word;
		r = 0;
	}
	if (!r)
		*ret_id = td_strdup(id);
	return r;
}
