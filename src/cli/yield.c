#include "cli/yield.h"

#include "base/mem.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *json, *csv, *head;
} names[TD_YIELD_N] = {
	{"useful", "useful", "USEFUL"},       {"nodeFailure", "node_failure", "NODE"},
	{"preempted", "preempted", "PREEMP"}, {"preflight", "preflight", "PREFL"},
	{"requeued", "requeued", "REQUE"},    {"ownError", "own_error", "ERRORS"},
	{"cutOff", "cut_off", "CUT"},
};

double td_cli_yield_held(const struct td_cli_yield_row *r)
{
	double s = 0;
	for (int k = 0; k < TD_YIELD_N; k++)
		s += r->s[k];
	return s;
}

double td_cli_yield_ratio(const struct td_cli_yield_row *r)
{
	double held = td_cli_yield_held(r);
	return held > 0 ? (r->s[TD_YIELD_USEFUL] + r->s[TD_YIELD_CUT]) / held : -1;
}

static void print_json(const struct td_cli_yield_row *v, size_t n, const char *by)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "yield");
	for (size_t i = 0; i < n; i++) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, by, v[i].name);
		td_jm_int(d, o, "runs", (long long)v[i].runs);
		td_jm_set(d, o, "gpuHours", yyjson_mut_real(d, td_cli_yield_held(&v[i]) / 3600));
		if (td_cli_yield_ratio(&v[i]) >= 0)
			td_jm_set(d, o, "yield", yyjson_mut_real(d, td_cli_yield_ratio(&v[i])));
		td_jm_set(d, o, "idleHours", yyjson_mut_real(d, v[i].idle / 3600));
		yyjson_mut_val *hours = td_jm_obj(d, o, "hours");
		for (int k = 0; k < TD_YIELD_N; k++)
			td_jm_set(d, hours, names[k].json, yyjson_mut_real(d, v[i].s[k] / 3600));
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

void td_cli_yield_print(const struct td_cli_yield_row *v, size_t n, const char *by, const char *output)
{
	bool csv = output && !strcmp(output, "csv");
	if (output && !csv) {
		print_json(v, n, by);
		return;
	}
	if (csv)
		printf("%s,runs,gpu_hours,yield", by);
	else
		printf("%-9s %8s %5s", !strcmp(by, "user") ? "USER" : "TENANT", "GPU H", "YIELD");
	for (int k = 0; k < TD_YIELD_N; k++)
		printf(csv ? ",%s" : " %6.7s", csv ? names[k].csv : names[k].head);
	puts(csv ? ",idle" : "   IDLE");
	for (size_t i = 0; i < n; i++) {
		double ratio = td_cli_yield_ratio(&v[i]);
		char percent[16] = "";
		if (ratio >= 0)
			snprintf(percent, sizeof(percent), csv ? "%.4f" : "%.0f %%", csv ? ratio : ratio * 100);
		if (csv)
			printf("%s,%.0f,%.3f,%s", v[i].name, v[i].runs, td_cli_yield_held(&v[i]) / 3600, percent);
		else
			printf("%-9.9s %8.1f %5s", v[i].name, td_cli_yield_held(&v[i]) / 3600, percent);
		for (int k = 0; k < TD_YIELD_N; k++)
			printf(csv ? ",%.3f" : " %6.1f", v[i].s[k] / 3600);
		printf(csv ? ",%.3f\n" : " %6.1f\n", v[i].idle / 3600);
	}
}
