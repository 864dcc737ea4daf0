// tandem fault: injects a fault into a virtual node of $TANDEM_HOME, lists faults or clears them. The
// node's checks find it as they would find it on a machine.
#include "base/file.h"
#include "base/options.h"
#include "checkup/checkup.h"
#include "cli/common.h"
#include "cmd/roles.h"
#include "local/instance.h"

#include <stdio.h>
#include <string.h>

static int failed(const struct td_error *err)
{
	fprintf(stderr, "tandem fault: %s\n", err->msg);
	return 1;
}

static int node_of(const struct td_instance *i, const char *name, struct td_error *err)
{
	long long n;
	if (name[0] == 'n' && td_parse_i64(name + 1, &n) && n >= 0 && n < i->nodes)
		return 0;
	return td_fail(err, TD_NOT_FOUND, "there is no virtual node \"%s\": they are n0 to n%d", name, i->nodes - 1);
}

static void list(const char *node, const char *text, bool json)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	if (json) {
		putchar('[');
		for (size_t i = 0; i < lines.n; i++) {
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
			td_auto_free char *s = td_json_mut_text(yyjson_mut_strcpy(d, lines.v[i]), NULL);
			printf("%s%s", i ? ", " : "", s);
		}
		puts("]");
		return;
	}
	if (!lines.n)
		printf("Node %s has no injected fault.\n", node);
	for (size_t i = 0; i < lines.n; i++)
		puts(lines.v[i]);
}

int td_fault_main(int argc, char **argv)
{
	const char *cure = NULL, *output = NULL;
	bool clear = false;
	char **words;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "clear", TD_OPT_SWITCH(&clear), .help = "take away all faults of the node, or of the device"},
		{.name = "cure",
		 .value = "WHAT",
		 TD_OPT_TEXT(&cure),
		 .choices = "reset|reboot|clear",
		 .help = "what ends it (default: what ends it on a machine)"},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
	};
	td_auto_free char *about =
		td_asprintf("Injects a fault into a virtual node of $TANDEM_HOME, to see what becomes of it:\n"
			    "  tandem fault n1 gpu3 xid=79      a GPU falls off the bus\n"
			    "  tandem fault n1 node memory=1    an uncorrected error of memory\n"
			    "  tandem fault n1                  lists the faults of a node\n"
			    "  tandem fault n1 --clear          takes them away\n"
			    "Keys of a GPU: %s.\nKeys of the node: %s.",
			    td_checkup_fake_keys(true), td_checkup_fake_keys(false));
	const struct td_command line = {.name = "fault",
					.about = about,
					.options = options,
					.n = TD_LEN(options),
					.min_args = 1,
					.max_args = 18,
					.args = "NODE [DEVICE KEY=VALUE…]",
					.exits = "0 done, 1 failed, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_instance struct td_instance i = {0};
	if (td_instance_load(&i, &err) || node_of(&i, words[0], &err))
		return failed(&err);

	td_auto_free char *path = td_asprintf("%s/nodes/%s/faults", i.run, words[0]);
	td_auto_buf struct td_buf old = {0}, new = {0}, add = {0};
	int r = td_file_read(path, 64 << 10, &old, &err);
	if (r && r != TD_NOT_FOUND)
		return failed(&err);
	if (!words[1] && !clear) {
		list(words[0], td_buf_str(&old), output != NULL);
		return 0;
	}

	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&old), '\n');
	td_auto_free char *device = words[1] ? td_asprintf("%s ", words[1]) : NULL;
	for (size_t k = 0; k < lines.n; k++)
		if (!clear || (device && !td_starts(lines.v[k], device)))
			td_buf_printf(&new, "%s\n", lines.v[k]);
	if (!clear) {
		if (!words[2])
			return td_command_wrong("fault", "what is wrong with %s? Give KEY=VALUE", words[1]);
		td_buf_puts(&add, words[1]);
		for (int k = 2; words[k]; k++)
			td_buf_printf(&add, " %s", words[k]);
		if (cure)
			td_buf_printf(&add, " cure=%s", cure);
		td_buf_putc(&add, '\n');
		if (td_checkup_fake_check(td_buf_str(&add), add.len, &err))
			return td_command_wrong("fault", "%s",
						strchr(err.msg, ':') ? strchr(err.msg, ':') + 2 : err.msg);
		long long gpu;
		if (td_parse_i64(words[1] + strcspn(words[1], "0123456789"), &gpu) && gpu >= i.gpus)
			return td_command_wrong("fault",
						i.gpus ? "%s has no %s: its GPUs are gpu0 to gpu%d"
						       : "%s has no %s, nor any other GPU",
						words[0], words[1], i.gpus - 1);
		td_buf_puts(&new, td_buf_str(&add));
	}
	if (td_file_write(path, td_buf_str(&new), new.len, 0644, &err))
		return failed(&err);
	if (clear)
		printf("Node %s%s%s has no injected fault any more.\n", words[0], words[1] ? ", " : "",
		       words[1] ? words[1] : "");
	else
		printf("Node %s has the fault \"%.*s\" now.\n", words[0], (int)strcspn(td_buf_str(&add), "\n"),
		       td_buf_str(&add));
	return 0;
}
