// A site's own checks: programs of a directory, each with an exit code and perhaps one line of JSON.
#include "checkup/checkup.h"

#include "base/proc.h"
#include "json/json.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAM_MS = 10000 };

// The table's words for an action that a program names.
static const char *action_of(const char *said)
{
	static const char *const actions[] = {"none", "drain", "reset-gpu", "reboot"};
	for (size_t i = 0; said && i < TD_LEN(actions); i++)
		if (!strcmp(said, actions[i]))
			return actions[i];
	return "drain";
}

static void add(const char *name, int code, char *out, struct td_checkup_findings *ret)
{
	if (ret->n >= TD_HEALTH_FINDINGS)
		return;
	size_t n = strlen(out);
	while (n && (out[n - 1] == '\n' || out[n - 1] == ' '))
		out[--n] = '\0';
	const char *line = strrchr(out, '\n');
	line = line ? line + 1 : out;
	struct td_checkup_finding *f = &ret->v[ret->n++];
	*f = (struct td_checkup_finding){.code = code, .action = "drain"};
	snprintf(f->check, sizeof(f->check), "%.31s", name);
	snprintf(f->condition, sizeof(f->condition), "SiteUnhealthy");

	td_auto(td_json_unref) struct td_json *j = NULL;
	if (*line == '{' && !td_json_parse(line, strlen(line), &j, NULL)) {
		yyjson_val *o = td_json_root(j);
		f->code = td_jint(o, "code", code);
		f->action = action_of(td_jstr(o, "action"));
		snprintf(f->device, sizeof(f->device), "%.7s", td_jstr_or(o, "device", ""));
		line = td_jstr_or(o, "message", "");
	}
	snprintf(f->message, sizeof(f->message), "%s: %.120s", name, *line ? line : "it failed");
}

void td_checkup_site(const char *dir, struct td_cancel *c, struct td_checkup_findings *ret)
{
	struct dirent **v;
	int n = dir ? scandir(dir, &v, NULL, alphasort) : 0;
	for (int i = 0; i < n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, v[i]->d_name);
		bool hidden = v[i]->d_name[0] == '.';
		if (!hidden && !access(path, X_OK)) {
			char *argv[] = {path, NULL};
			int code = 0;
			td_auto_buf struct td_buf out = {0};
			int r = td_run(argv, NULL, PROGRAM_MS, c, &code, &out, NULL);
			if (r == TD_UNCERTAIN) { // it took too long
				char late[] = "it did not end within 10 s";
				add(v[i]->d_name, 124, late, ret);
			} else if (!r && code) {
				td_auto_free char *text = td_strdup(td_buf_str(&out));
				add(v[i]->d_name, code, text, ret);
			}
		}
		free(v[i]);
	}
	if (n > 0)
		free(v);
}
