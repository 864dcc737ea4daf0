// Build tool: reads kinds/*.yaml, inlines the shared parts, and writes them as C strings, so that the program starts without parsing YAML.
//   embed-kinds <out.c> <defs.yaml> <kind.yaml>…
#include "base/file.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 4 << 20, REF_DEPTH = 32 };

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

static yyjson_mut_val *resolve(yyjson_mut_doc *d, yyjson_val *v, yyjson_val *defs, const char *file, int depth);

// Keys of v over those of `base`; "properties" are joined.
static void overlay(yyjson_mut_doc *d, yyjson_mut_val *base, yyjson_val *v, yyjson_val *defs, const char *file, int depth)
{
	size_t i, max, j, m;
	yyjson_val *k, *x, *pk, *px;
	yyjson_obj_foreach (v, i, max, k, x) {
		const char *key = yyjson_get_str(k);
		if (!strcmp(key, "$ref") && yyjson_is_str(x))
			continue;
		yyjson_mut_val *props = yyjson_mut_obj_get(base, key);
		if (strcmp(key, "properties") || !props) {
			td_jm_key_set(d, base, key, resolve(d, x, defs, file, depth));
			continue;
		}
		yyjson_obj_foreach (x, j, m, pk, px)
			td_jm_key_set(d, props, yyjson_get_str(pk), resolve(d, px, defs, file, depth));
	}
}

static yyjson_mut_val *resolve(yyjson_mut_doc *d, yyjson_val *v, yyjson_val *defs, const char *file, int depth)
{
	if (depth > REF_DEPTH) {
		fprintf(stderr, "%s: $ref goes in circles or is nested too deep\n", file);
		exit(1);
	}
	if (yyjson_is_arr(v)) {
		yyjson_mut_val *a = yyjson_mut_arr(d);
		size_t i, max;
		yyjson_val *x;
		yyjson_arr_foreach (v, i, max, x)
			yyjson_mut_arr_append(a, resolve(d, x, defs, file, depth + 1));
		return a;
	}
	if (!yyjson_is_obj(v))
		return yyjson_val_mut_copy(d, v);
	const char *ref = td_jkey_str(v, "$ref");
	yyjson_mut_val *o;
	if (ref) {
		yyjson_val *def = td_jkey(defs, ref);
		if (!def) {
			fprintf(stderr, "%s: $ref: %s is not in defs.yaml\n", file, ref);
			exit(1);
		}
		o = resolve(d, def, defs, file, depth + 1);
	} else {
		o = yyjson_mut_obj(d);
	}
	overlay(d, o, v, defs, file, depth + 1);
	return o;
}

static void emit(FILE *out, size_t n, const char *json)
{
	fprintf(out, "static const char k%zu[] =\n\"", n);
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
	for (int i = 3; i < argc; i++) {
		td_auto(td_json_unref) struct td_json *src = load(argv[i]);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(NULL);
		yyjson_mut_val *o = resolve(d, td_json_root(src), td_json_root(defs), argv[i], 0);
		td_auto_free char *text = td_json_mut_text(o, NULL);
		emit(out, (size_t)i, text);
	}
	// The objectMeta part alone: CRDs from outside get it too.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(NULL);
	td_auto_free char *meta =
		td_json_mut_text(resolve(d, td_jkey(td_json_root(defs), "objectMeta"), td_json_root(defs), argv[2], 0), NULL);
	emit(out, 0, meta);
	fputs("const char *const td_embedded_meta = k0;\nconst char *const td_embedded_kinds[] = {", out);
	for (int i = 3; i < argc; i++)
		fprintf(out, "k%d, ", i);
	fputs("0};\n", out);
	return fclose(out) ? 1 : 0;
}
