#include "cli/common.h"

#include "base/clock.h"
#include "base/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];

int td_cli_open(const char *cmd, struct td_instance *ret_i, struct td_kube **ret_k)
{
	struct td_error err = TD_ERROR_INIT;
	int r = td_instance_load(ret_i, &err);
	if (!r) {
		td_auto_free char *conf = td_instance_kubeconfig(ret_i, "admin");
		if (access(conf, R_OK) < 0)
			r = td_fail(&err, TD_DENIED,
				    "%s is not readable for you: use sudo, or --kubeconfig with a file that is yours",
				    conf);
		else
			r = td_kube_new(conf, ret_k, &err);
	}
	if (r)
		fprintf(stderr, "tandem %s: %s\n", cmd, err.msg);
	return r;
}

yyjson_mut_doc *td_cli_template(const char *file, const struct td_json_word *words, size_t n)
{
	const struct td_embedded *f = td_embedded(td_cli_files, file);
	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse(f->text, f->len, &l, NULL) || l.n != 1)
		abort(); // part of this program
	return td_json_fill(td_json_root(l.v[0]), words, n);
}

void td_cli_keys(const yyjson_val *root, bool whose, bool json)
{
	if (json) {
		td_auto_free char *text = td_json_pretty(root);
		puts(text);
		return;
	}
	printf("%-10s ", "KEY");
	if (whose)
		printf("%-16s ", "USER");
	printf("%-21s %-21s %-24s %s\n", "CREATED", "ENDS", "PROJECT", "FOR");
	size_t i, n;
	yyjson_val *k;
	yyjson_arr_foreach (td_jget(root, "keys"), i, n, k) {
		char made[TD_TIME_LEN], ends[TD_TIME_LEN] = "never";
		long long e = td_jint(k, "expires", 0);
		if (e)
			td_time_format(e * 1000, ends);
		printf("%-10s ", td_jstr_or(k, "id", ""));
		if (whose)
			printf("%-16s ", td_jstr_or(k, "user", ""));
		printf("%-21s %-21s %-24s %s\n", td_time_format(td_jint(k, "created", 0) * 1000, made), ends,
		       td_jstr_or(k, "project", "-"), td_jstr_or(k, "name", ""));
	}
}
