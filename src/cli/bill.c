// tandem bill: what is to be paid for a period, from the gateway.
#include "cli/client.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>

static void print_bill(yyjson_val *b)
{
	size_t i, n;
	yyjson_val *l;
	const char *currency = td_jstr_or(b, "currency", "");
	printf("Bill of %s (%s, before %s)%s\n", td_jstr_or(b, "period", "?"), td_jstr_or(b, "from", "?"),
	       td_jstr_or(b, "to", "?"), td_jbool(b, "open", false) ? ": a preview, the period goes on" : "");
	printf("%-18s %-14s %-8s %10s %11s %12s\n", "TENANT", "USER", "GPU TYPE", "GPU HOURS", "CPU HOURS", "COST");
	yyjson_arr_foreach (td_jget(b, "lines"), i, n, l) {
		const char *account = td_jstr_or(l, "account", "");
		td_auto_free char *open = td_asprintf("(%s)", *account ? account : "none");
		printf("%-18.18s %-14.14s %-8.8s %10.1f %11.1f %12.2f\n", td_jstr_or(l, "tenant", open),
		       td_jstr_or(l, "user", ""), td_jstr_or(l, "gpuType", ""), yyjson_get_num(td_jget(l, "gpuHours")),
		       yyjson_get_num(td_jget(l, "cpuHours")), yyjson_get_num(td_jget(l, "cost")));
	}
	printf("TOTAL%s%-56.8s %12.2f\n", *currency ? " in " : "    ", currency, yyjson_get_num(td_jget(b, "total")));
}

static void print_list(yyjson_val *all)
{
	size_t i, n;
	yyjson_val *b;
	printf("%-12s %-12s %-12s %14s\n", "PERIOD", "FROM", "BEFORE", "YOURS");
	yyjson_arr_foreach (td_jget(all, "bills"), i, n, b)
		printf("%-12s %-12s %-12s %14.2f %s%s\n", td_jstr_or(b, "period", "?"), td_jstr_or(b, "from", "?"),
		       td_jstr_or(b, "to", "?"), yyjson_get_num(td_jget(b, "total")), td_jstr_or(b, "currency", ""),
		       td_jbool(b, "open", false) ? "  goes on" : "");
	if (!n)
		puts("There are none: no prices are set (spec.billing of the SlurmCluster).");
}

static int to_stdout(void *ctx, const char *p, size_t n)
{
	return fwrite(p, 1, n, stdout) == n ? 0 : TD_INTERNAL;
}

static int show(struct td_client *c, const char *period, const char *output, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_buf_puts(&path, "/api/v1/bills");
	if (period) {
		td_buf_putc(&path, '/');
		td_url_escape(&path, period);
	}
	if (td_streq(output, "csv")) {
		td_buf_puts(&path, "?format=csv");
		return td_client_stream(c, td_buf_str(&path), to_stdout, NULL, err);
	}
	int r = td_client_call(c, "GET", td_buf_str(&path), NULL, &j, err);
	if (r)
		return r;
	if (output) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	} else if (period) {
		print_bill(td_json_root(j));
	} else {
		print_list(td_json_root(j));
	}
	return 0;
}

int td_bill_main(int argc, char **argv)
{
	const char *output = NULL;
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json, or csv of one bill: the answer for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json|csv"},
	};
	const struct td_command line = {
		.name = "bill",
		.about = "What is to be paid for the jobs and pods of a period: yours, those of tenants that you "
			 "lead, or all, as `tandem login` knows you. PERIOD is such as 2026-11, 2026-q4 or "
			 "2026-11-25; without it all bills are listed. The bill of a period that is over never "
			 "changes; that of one that goes on is a preview.",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 1,
		.args = "PERIOD",
		.exits = "0 answered, 1 no such bill, or no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_streq(output, "csv") && !words[0])
		return td_command_wrong("bill", "-o csv wants a PERIOD");
	td_auto_client struct td_client c = {0};
	int r = td_client_open(&c, &err);
	if (!r)
		r = show(&c, words[0], output, &err);
	return r ? td_client_failed("bill", &err) : 0;
}
