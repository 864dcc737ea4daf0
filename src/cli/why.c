// tandem why: asks the bridge why a pod or a job waits, or where it runs.
#include "base/mem.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"
#include "http/client.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

static int answer(struct td_json *j, bool json, bool good)
{
	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	} else {
		fprintf(good ? stdout : stderr, "%s\n", td_jstr_or(td_json_root(j), "text", "no answer"));
	}
	return good ? 0 : 1;
}

static int ask_remote(const struct td_remote *remote, const char *path, bool json)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_kube_free) struct td_kube *k = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_kube_new(remote->kubeconfig, &k, &err);
	if (!r)
		r = td_remote_ask_bridge(k, remote, path, NULL, &j, &err);
	if (!r)
		return answer(j, json, true);
	fprintf(stderr, "tandem why: %s\n", err.msg);
	return 1;
}

int td_why_main(int argc, char **argv)
{
	const char *ns = "default", *output = NULL;
	char **words;
	struct td_remote remote = {0};
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "the pod's namespace (default: default)",
		 TD_OPT_TEXT(&ns)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {.name = "why",
					.about =
						"Says in plain words why a pod or a Slurm job waits, or where it runs.",
					.options = options,
					.n = TD_LEN(options),
					.min_args = 1,
					.max_args = 1,
					.args = "POD | JOBID",
					.exits = "0 answered, 1 no such pod or job, or no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("why", "%s", err.msg);

	bool json = output != NULL;
	const char *what = words[0];
	if (td_starts(what, "pod/"))
		what += 4;

	long long job;
	td_auto_buf struct td_buf path = {0};
	if (td_parse_i64(what, &job) && job > 0) {
		td_buf_printf(&path, "/why?job=%lld", job);
	} else {
		td_buf_puts(&path, "/why?pod=");
		td_url_escape(&path, ns);
		td_buf_puts(&path, "%2F");
		td_url_escape(&path, what);
	}

	if (remote.kubeconfig)
		return ask_remote(&remote, td_buf_str(&path), json);

	td_auto_instance struct td_instance i = {0};
	if (td_instance_load(&i, &err)) {
		fprintf(stderr, "tandem why: %s\n", err.msg);
		return 1;
	}

	td_auto_free char *sock = td_asprintf("%s/bridge.sock", i.run);
	const struct td_http_client_opts o = {.base_url = "http://bridge", .unix_socket = sock, .timeout_ms = 10000};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	const struct td_http_call call = {.method = "GET", .path = td_buf_str(&path)};
	td_auto_reply struct td_http_reply rep = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;

	int r = td_http_client_new(&o, &c, &err);
	if (!r)
		r = td_http_do(c, &call, NULL, &rep, &err);

	if (r) {
		fprintf(stderr, "tandem why: the bridge does not answer (%s). See `tandem status`.\n", err.msg);
		return 1;
	}

	if (td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, &err)) {
		fprintf(stderr, "tandem why: the bridge's answer is not readable: %s\n", err.msg);
		return 1;
	}
	return answer(j, json, rep.status == 200);
}
