#include "gateway/sessions.h"

#include "base/names.h"

static const struct td_session_kind kinds[] = {
	{.name = "endpoint", .served = true, .measured = true},
	{.name = "batch"},
	{.name = "shell", .program = "session-shell.sh", .served = true, .token = true, .terminal = true},
	{.name = "tensorboard",
	 .program = "session-tensorboard.sh",
	 .guard = "session-guard.py",
	 .served = true,
	 .token = true,
	 .whole = true,
	 .of_run = true},
	{.name = "vscode",
	 .program = "session-vscode.sh",
	 .guard = "session-guard.py",
	 .served = true,
	 .token = true,
	 .whole = true},
	{.name = "jupyter", .program = "session-jupyter.sh", .served = true, .token = true, .whole = true},
};

const struct td_session_kind *td_session_kind(const char *name)
{
	for (size_t i = 0; i < TD_LEN(kinds); i++)
		if (td_streq(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

const struct td_session_kind *td_session_kind_of(const struct td_object *pod)
{
	const struct td_session_kind *k = td_session_kind(td_object_annotation(pod, TD_ANN_SESSION_KIND));
	return k ? k : &kinds[0];
}

const char *td_session_token(const struct td_object *pod)
{
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(pod->root, "spec.containers.[0].env"), i, n, v)
		if (td_streq(td_jstr(v, "name"), "TANDEM_SESSION_TOKEN"))
			return td_jstr(v, "value");
	return NULL;
}
