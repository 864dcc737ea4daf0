// A tool of the build: writes the rules of seccomp.yaml that hold for a process without capabilities as a profile in
// JSON, in a C string (spank/filter.h). embed-filter OUT seccomp.yaml
#include "base/file.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	td_auto_buf struct td_buf text = {0};
	td_auto_json_list struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (argc != 3 || td_file_read(argv[2], 1 << 20, &text, &err) ||
	    td_yaml_parse(td_buf_str(&text), text.len, &l, &err) || l.n != 1) {
		fprintf(stderr, "embed-filter: %s\n", err.msg);
		return 1;
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *rules = td_jm_arr(d, root, "syscalls");
	td_jm_str(d, root, "defaultAction", "SCMP_ACT_ERRNO");
	size_t i, n;
	yyjson_val *r;
	yyjson_arr_foreach (td_json_root(l.v[0]), i, n, r) {
		if (td_jkey(r, "caps"))
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, rules);
		td_jm_copyval(d, o, "names", td_jkey(r, "calls"));
		td_jm_str(d, o, "action", td_jkey(r, "errno") ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
		if (td_jkey(r, "errno"))
			td_jm_int(d, o, "errnoRet", td_jint(r, "errno", 0));
		if (td_jkey(r, "args"))
			td_jm_copyval(d, o, "args", td_jkey(r, "args"));
	}
	td_auto_free char *json = td_json_mut_text(root, NULL);
	FILE *f = fopen(argv[1], "w");
	if (!f)
		return perror(argv[1]), 1;
	fputs("extern const char td_calls_default[];\nconst char td_calls_default[] = {", f);
	for (const char *p = json; *p; p++)
		fprintf(f, "%d,%s", *p, (p - json) % 20 == 19 ? "\n" : "");
	fputs("0};\n", f);
	return fclose(f) ? 1 : 0;
}
