// The parts that kinds share: written once in kinds/defs.yaml, parsed once and compiled once
// (compile.c). A kind names a part by {"$ref": "podSpec"}. Keywords beside the $ref replace those
// of the part; the properties of both are joined.
#include "api/schema_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/embedded.h"

enum { FLAT_MAX = 256 };
static pthread_once_t once = PTHREAD_ONCE_INIT;
__attribute__((used)) static struct td_json *doc; // owns what parts points into
static struct td_shared *parts;
static size_t n_parts;

static void load(void)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	size_t i, max;
	yyjson_val *k, *v;
	if (td_json_parse(td_embedded_parts, strlen(td_embedded_parts), &j, &err)) {
		fprintf(stderr, "embedded schema parts: %s\n", err.msg);
		abort();
	}
	// The copy has no spare memory, and it stays for ever.
	doc = td_json_from_val(td_json_root(j));

	yyjson_val *root = td_json_root(doc);
	parts = td_calloc(yyjson_obj_size(root) + 1, sizeof(*parts));
	yyjson_obj_foreach (root, i, max, k, v)
		parts[n_parts++] = (struct td_shared){.name = td_keystr(k), .raw = v};
}

struct td_shared *td_shared_find(const char *name)
{
	pthread_once(&once, load);
	for (size_t i = 0; i < n_parts; i++)
		if (!strcmp(parts[i].name, name))
			return &parts[i];
	// Not reached: embed-kinds checks that the part exists.
	fprintf(stderr, "embedded schema part %s is not there\n", name);
	abort();
}

static yyjson_mut_val *write_out(yyjson_mut_doc *d, yyjson_val *v, bool deep);

static yyjson_mut_val *inner(yyjson_mut_doc *d, yyjson_val *v, bool deep)
{
	return deep ? write_out(d, v, true) : yyjson_val_mut_copy(d, v);
}

// Copies v with its own $ref written out; with deep, also those below it.
static yyjson_mut_val *write_out(yyjson_mut_doc *d, yyjson_val *v, bool deep)
{
	size_t i, max, j, m;
	yyjson_val *k, *x, *pk, *px;
	if (yyjson_is_arr(v)) {
		yyjson_mut_val *a = yyjson_mut_arr(d);
		yyjson_arr_foreach (v, i, max, x)
			yyjson_mut_arr_append(a, inner(d, x, deep));
		return a;
	}
	if (!yyjson_is_obj(v))
		return yyjson_val_mut_copy(d, v);

	const char *ref = td_jkey_str(v, "$ref");
	yyjson_mut_val *o = ref ? write_out(d, td_shared_find(ref)->raw, deep) : yyjson_mut_obj(d);
	yyjson_obj_foreach (v, i, max, k, x) {
		const char *key = td_keystr(k);
		if (ref && !strcmp(key, "$ref"))
			continue;
		yyjson_mut_val *props = ref && !strcmp(key, "properties") ? yyjson_mut_obj_get(o, key) : NULL;
		if (!props) {
			td_jm_key_set(d, o, key, inner(d, x, deep));
			continue;
		}
		yyjson_obj_foreach (x, j, m, pk, px)
			td_jm_key_set(d, props, td_keystr(pk), inner(d, px, deep));
	}
	return o;
}

yyjson_mut_val *td_shared_inline(yyjson_mut_doc *d, const yyjson_val *v)
{
	return write_out(d, td_unconst(v), true);
}

yyjson_val *td_shared_flat(yyjson_val *v)
{
	static struct td_json *kept[FLAT_MAX]; // compiled schemas point into them
	static size_t n;
	if (n == FLAT_MAX)
		abort(); // the kind files need about thirty
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	kept[n] = td_json_from_mut(write_out(d, v, false));
	return td_json_root(kept[n++]);
}
