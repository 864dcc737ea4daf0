// Build tool: reads kinds/*.yaml and the parts that they share, and writes them as JSON in C
// strings, so that the program starts without parsing YAML.
//   embed-kinds <out.c> <defs.yaml> <kind.yaml>…
#include "base/file.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 4 << 20, REF_DEPTH = 64 };

static struct td_json *load(const char *path)
{
	td_auto_buf struct td_buf b = {0};
	struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;

	if (td_file_read(path, FILE_MAX, &b, &err) || td_yaml_parse(td_buf_str(&b), b.len, &l, &err) || l.n != 1) {
		fprintf(stderr, "%s: %s\n", path, err.code ? err.msg : "exactly one YAML document is needed");
		exit(1);
	}

	struct td_json *j = td_json_ref(l.v[0]);
	td_json_list_done(&l);
	return j;
}

// Every $ref must name an existing part, and none may lead back to itself.
static void check_refs(yyjson_val *v, yyjson_val *defs, const char *file, int depth)
{
	size_t i, max;
	yyjson_val *k, *x;

	if (depth > REF_DEPTH) {
		fprintf(stderr, "%s: $ref goes in circles or is nested too deep\n", file);
		exit(1);
	}
	if (yyjson_is_arr(v)) {
		yyjson_arr_foreach (v, i, max, x)
			check_refs(x, defs, file, depth + 1);
		return;
	}

	const char *ref = td_jkey_str(v, "$ref");
	if (ref && !td_jkey(defs, ref)) {
		fprintf(stderr, "%s: $ref: %s is not in defs.yaml\n", file, ref);
		exit(1);
	}
	if (ref)
		check_refs(td_jkey(defs, ref), defs, file, depth + 1);

	yyjson_obj_foreach (v, i, max, k, x)
		check_refs(x, defs, file, depth + 1);
}

static void emit(FILE *out, int n, const yyjson_val *v)
{
	td_auto_free char *json = td_json_text(v, NULL);
	fprintf(out, "static const char k%d[] =\n\"", n);

	size_t col = 0;
	for (const char *p = json; *p; p++, col++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', out);
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e || *p == '?')
			fprintf(out, "\\%03o", (unsigned char)*p);
		else
			fputc(*p, out);
		if (col >= 120) {
			fputs("\"\n\"", out);
			col = 0;
		}
	}
	fputs("\";\n", out);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;

	FILE *out = fopen(argv[1], "w");
	if (!out) {
		perror(argv[1]);
		return 1;
	}

	td_auto(td_json_unref) struct td_json *defs = load(argv[2]);
	fputs("// Made by embed-kinds; do not edit.\n#include \"api/embedded.h\"\n\n", out);
	check_refs(td_json_root(defs), td_json_root(defs), argv[2], 0);
	emit(out, 0, td_json_root(defs));
	td_auto_buf struct td_buf table = {0};

	for (int i = 3; i < argc; i++) {
		td_auto(td_json_unref) struct td_json *src = load(argv[i]);
		yyjson_val *v = td_json_root(src);
		check_refs(v, td_json_root(defs), argv[i], 0);
		emit(out, i, v);
		td_buf_printf(&table, "\t{\"%s\", \"%s\", k%d},\n", td_jstr_or(v, "group", ""),
			      td_jstr_or(v, "kind", ""), i);
	}

	fprintf(out,
		"const char *const td_embedded_parts = k0;\nconst struct td_embedded_kind td_embedded_kinds[] = "
		"{\n%s\t{0},\n};\n",
		td_buf_str(&table));
	return fclose(out) ? 1 : 0;
}
