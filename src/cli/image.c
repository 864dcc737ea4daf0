// tandem image: the local image store.
#include "oci/image.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/options.h"
#include "cli/common.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void progress(void *ctx, int percent, const char *what)
{
	if (isatty(2))
		fprintf(stderr, "\r\033[K%s: %3d%% %.40s", (const char *)ctx, percent, what ? what : "");
}

static int list(const char *dir, bool json, struct td_error *err)
{
	struct td_image *v = NULL;
	size_t n = 0;
	int r = td_image_list(dir, &v, &n, err);
	if (r)
		return r;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *items = td_jm_arr(d, yyjson_mut_doc_get_root(d), "items");
	if (!json)
		printf("%-28s %8s  %s\n", "IMAGE", "SIZE", "AGE");

	for (size_t k = 0; k < n; k++) {
		char age[32];
		td_time_age(td_real_ms(&td_clock_system) - v[k].created_ms, age, sizeof(age));
		if (json) {
			yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, items);
			td_jm_str(d, o, "name", v[k].name);
			td_jm_int(d, o, "bytes", v[k].bytes);
			td_jm_str(d, o, "rootfs", v[k].rootfs);
		} else {
			printf("%-28s %5lld MB  %s\n", v[k].name, (long long)(v[k].bytes / 1000000), age);
		}
		td_image_done(&v[k]);
	}
	free(v);

	if (json) {
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	}
	return 0;
}

int td_image_main(int argc, char **argv)
{
	const char *output = NULL;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "of list; json: for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
	};
	const struct td_command line = {
		.name = "image",
		.usage = "list [-o json]\n"
			 "       tandem image build NAME\n"
			 "       tandem image import [NAME] FILE\n"
			 "       tandem image remove NAME",
		.about = "Container images of $TANDEM_HOME. Pods use what is here; nothing is pulled.\n"
			 "`build` knows debian:13, tandem/slurm:24.11 and, for logins and jobs,\n"
			 "tandem/work:24.11. `import` takes an OCI layout (its directory or an archive of\n"
			 "it), a `docker save` archive, or the tar of a root file system, which needs a NAME.",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 3,
		.args = "VERB",
		.choices = "list|build|import|remove"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;

	size_t n = 0;
	while (words[n])
		n++;
	const char *verb = n ? words[0] : "", *first = n > 1 ? words[1] : NULL;
	bool is_list = !strcmp(verb, "list"), is_import = !strcmp(verb, "import"), is_build = !strcmp(verb, "build"),
	     json = output != NULL;
	if (is_list ? n != 1 : is_import ? n != 2 && n != 3 : n != 2 || (!is_build && strcmp(verb, "remove") != 0))
		return td_command_wrong("image", "give list, build NAME, import [NAME] FILE or remove NAME");
	if (json && !is_list)
		return td_command_wrong("image", "-o json goes with list");

	struct td_error err = TD_ERROR_INIT;
	td_auto_instance struct td_instance i = {0};
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_auto_free char *name = NULL;
	td_cancel_on_signals(c);

	int r = td_instance_locate(&i, &err);
	if (!r && geteuid() != 0)
		r = td_fail(&err, TD_DENIED, "needs root. Type: sudo tandem image %s …", verb);

	if (!r && is_list)
		r = list(i.images, json, &err);
	else if (!r && is_import)
		r = td_image_import(i.images, n == 3 ? first : NULL, words[n - 1], progress, (void *)first, c, &name,
				    &err);
	else if (!r && is_build)
		r = td_image_build(i.images, first, progress, (void *)first, c, &err);
	else if (!r)
		r = td_image_remove(i.images, first, &err);

	if (isatty(2) && (is_import || is_build))
		fputs("\r\033[K", stderr);
	if (!r && is_import)
		printf("imported %s\n", name);
	if (r)
		fprintf(stderr, "tandem image: %s\n", err.msg);
	return r ? 1 : 0;
}
