// Build tool: writes deploy/crds/<plural>.yaml and docs/reference/<kind>.md from the kind files, and
// docs/reference/annotations.md from annotations.c.
// With --check it writes nothing and fails when a file differs.
//   tandem-gen [--check] <root of the source tree>
#include "api/annotations.h"
#include "api/kinds_priv.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 8 << 20 };
static bool check_only;
static int stale;

static void put(const char *path, const char *text)
{
	td_auto_buf struct td_buf b = {0};
	struct td_error err = TD_ERROR_INIT;
	bool same = !td_file_read(path, FILE_MAX, &b, NULL) && !strcmp(td_buf_str(&b), text);

	if (same)
		return;
	if (check_only) {
		fprintf(stderr, "%s is not what src/api says: run make generate\n", path);
		stale++;
		return;
	}
	if (td_file_write(path, text, strlen(text), 0644, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	printf("%s\n", path);
}

// ---- reference ----

static const char *type_of(const yyjson_val *s, char buf[64])
{
	const char *t = td_jstr(s, "type");
	if (td_jbool(s, "x-kubernetes-int-or-string", false))
		return td_streq(td_jstr(s, "format"), "quantity") ? "quantity" : "integer or string";
	if (td_streq(t, "array")) {
		const yyjson_val *items = td_jkey(s, "items");
		snprintf(buf, 64, "list of %.40s",
			 td_streq(td_jstr(items, "type"), "array") ? "list" : type_of(items, (char[64]){0}));
		return buf;
	}
	if (td_streq(t, "object") && td_jkey(s, "additionalProperties")) {
		snprintf(buf, 64, "map of %.40s", type_of(td_jkey(s, "additionalProperties"), (char[64]){0}));
		return buf;
	}
	return t ? t : "any";
}

static void cell(struct td_buf *b, const char *s)
{
	for (; s && *s; s++)
		if (*s == '|')
			td_buf_puts(b, "\\|");
		else
			td_buf_putc(b, *s == '\n' ? ' ' : *s);
}

static void limits(struct td_buf *b, const yyjson_val *s, bool required)
{
	size_t len = b->len, i, max;
	yyjson_val *x;

	if (required)
		td_buf_puts(b, "required");
	const yyjson_val *def = td_jkey(s, "default"), *e = td_jkey(s, "enum");
	if (def && !(yyjson_is_ctn(td_unconst(def)) && !yyjson_get_len(td_unconst(def)))) {
		td_auto_free char *t = td_json_text(def, NULL);
		td_buf_printf(b, "%sdefault `%s`", b->len > len ? "; " : "", t);
	}

	if (yyjson_arr_size(td_unconst(e))) {
		td_buf_puts(b, b->len > len ? "; one of " : "one of ");
		yyjson_arr_foreach (td_unconst(e), i, max, x) {
			td_auto_free char *t = td_json_text(x, NULL);
			td_buf_printf(b, "%s`%s`", i ? ", " : "", t);
		}
	}

	static const char *const nums[][2] = {{"minimum", "at least"},
					      {"maximum", "at most"},
					      {"maxLength", "length at most"},
					      {"maxItems", "items at most"}};
	for (i = 0; i < TD_LEN(nums); i++)
		if (td_jkey(s, nums[i][0])) {
			td_auto_free char *t = td_json_text(td_jkey(s, nums[i][0]), NULL);
			td_buf_printf(b, "%s%s %s", b->len > len ? "; " : "", nums[i][1], t);
		}

	const char *pattern = td_jstr(s, "pattern");
	if (pattern) {
		td_buf_puts(b, b->len > len ? "; matches `" : "matches `");
		cell(b, pattern);
		td_buf_putc(b, '`');
	}
}

static void fields(struct td_buf *b, const yyjson_val *s, struct td_buf *path)
{
	size_t i, max, j, m, len = path->len;
	yyjson_val *k, *v, *r;
	const yyjson_val *at = s;

	if (td_streq(td_jstr(s, "type"), "array")) {
		at = td_jkey(s, "items");
		td_buf_puts(path, "[]");
	} else if (td_jkey(s, "additionalProperties")) {
		at = td_jkey(s, "additionalProperties");
		td_buf_puts(path, ".*");
	}

	yyjson_obj_foreach (td_jkey(at, "properties"), i, max, k, v) {
		size_t here = path->len;
		bool required = false;
		char type[64];
		yyjson_arr_foreach (td_jkey(at, "required"), j, m, r)
			required = required || td_streq(yyjson_get_str(r), td_keystr(k));
		td_buf_printf(path, "%s%s", path->len ? "." : "", td_keystr(k));
		td_buf_printf(b, "| `%s` | %s | ", td_buf_str(path), type_of(v, type));
		limits(b, v, required);
		td_buf_puts(b, " | ");
		cell(b, td_jstr_or(v, "description", ""));
		td_buf_puts(b, " |\n");
		fields(b, v, path);
		td_path_cut(path, here);
	}
	td_path_cut(path, len);
}

static void reference(const struct td_kind *k, const char *dir)
{
	td_auto_buf struct td_buf b = {0}, path = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_json_unref) struct td_json *whole = td_json_from_mut(td_shared_inline(d, k->raw));
	const yyjson_val *schema = td_json_root(whole);

	td_buf_printf(&b, "# %s\n\n%s\n\n", k->kind, td_jstr_or(schema, "description", ""));
	td_buf_printf(&b, "`apiVersion: %s/%s`, `kind: %s`; %s; `kubectl get %s`", k->group, k->version, k->kind,
		      k->namespaced ? "in a namespace" : "cluster-wide", k->plural);
	for (size_t i = 0; i < k->short_names.n; i++)
		td_buf_printf(&b, "%s`%s`", i ? ", " : " or ", k->short_names.v[i]);
	td_buf_puts(&b, ".\nThe same words: `kubectl explain ");
	td_buf_printf(&b, "%s.spec`.\n\n| field | type | rules | meaning |\n| --- | --- | --- | --- |\n", k->singular);

	fields(&b, schema, &path);
	if (k->n_columns) {
		td_buf_puts(&b, "\nColumns of `kubectl get`:\n\n| column | from | meaning |\n| --- | --- | --- |\n");
		for (size_t i = 0; i < k->n_columns; i++) {
			const struct td_column *c = &k->columns[i];
			td_buf_printf(&b, "| %s%s | `%s` | ", c->name, c->priority ? " (wide)" : "", c->json_path);
			cell(&b, c->description);
			td_buf_puts(&b, " |\n");
		}
	}

	td_buf_puts(&b, "\nWritten by `make generate` from `src/api/kinds`.\n");
	td_auto_free char *low = td_strdup(k->singular), *file = td_asprintf("%s/%s.md", dir, low);
	put(file, td_buf_str(&b));
}

static void crd(const struct td_kind *k, const char *dir)
{
	td_auto(td_json_unref) struct td_json *j = td_kind_crd(k->kind);
	td_auto_free char *yaml = td_yaml_text(td_json_root(j)),
			  *text = td_asprintf("# Written by `make generate` from src/api/kinds; do not edit.\n%s",
					      yaml);
	td_auto_free char *file = td_asprintf("%s/%s.yaml", dir, k->plural);
	put(file, text);
}

int main(int argc, char **argv)
{
	check_only = argc == 3 && !strcmp(argv[1], "--check");
	if (argc != 2 && !check_only) {
		fprintf(stderr, "usage: tandem-gen [--check] ROOT\n");
		return 2;
	}

	const char *root = argv[argc - 1];
	td_auto_free char *crds = td_asprintf("%s/deploy/crds", root), *ref = td_asprintf("%s/docs/reference", root);
	struct td_error err = TD_ERROR_INIT;
	if (!check_only && (td_mkdir_p(crds, 0755, &err) || td_mkdir_p(ref, 0755, &err))) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}

	size_t n;
	const struct td_kind *const *t = td_kinds_builtin(&n);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(t[i]->group, "tandem.dev")) {
			crd(t[i], crds);
			reference(t[i], ref);
		}

	td_auto_buf struct td_buf page = {0};
	td_auto_free char *file = td_asprintf("%s/annotations.md", ref);
	td_annotation_page(&page);
	put(file, td_buf_str(&page));

	if (check_only && !stale)
		printf("generated files are up to date\n[  PASSED  ] 1 test(s).\n");
	return stale ? 1 : 0;
}
