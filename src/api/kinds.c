// The table of built-in kinds, made from the embedded kind files.
#include "api/kinds_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/embedded.h"

enum { KINDS_MAX = 64 };
// In the order of td_embedded_kinds. NULL: nobody has asked for the kind yet. Guarded by `lock`.
static struct td_kind *table[KINDS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct td_json *parse_embedded(const char *text)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(text, strlen(text), &j, &err)) {
		fprintf(stderr, "embedded kind: %s\n", err.msg);
		abort();
	}
	// The copy has no spare memory, and it stays for ever.
	return td_json_from_val(td_json_root(j));
}

// Adds apiVersion, kind and metadata to the properties.
static yyjson_mut_val *whole(yyjson_mut_doc *d, yyjson_mut_val *schema)
{
	yyjson_mut_val *old = yyjson_mut_obj_get(schema, "properties"), *props = yyjson_mut_obj(d), *key, *v, *o;
	static const char *const words[][2] = {{"apiVersion", "Group and version of this object's form."},
					       {"kind", "What kind of object this is."}};

	for (size_t i = 0; i < TD_LEN(words); i++) {
		o = yyjson_mut_obj(d);
		td_jm_str(d, o, "type", "string");
		td_jm_str(d, o, "description", words[i][1]);
		td_jm_key_set(d, props, words[i][0], o);
	}

	td_jm_key_set(d, props, "metadata", td_shared_inline(d, td_shared_find("objectMeta")->raw));
	size_t i, max;
	yyjson_mut_obj_foreach (old, i, max, key, v) {
		const char *name = yyjson_mut_get_str(key);
		if (strcmp(name, "apiVersion") && strcmp(name, "kind") && strcmp(name, "metadata"))
			td_jm_key_set(d, props, name, yyjson_mut_val_mut_copy(d, v));
	}

	td_jm_key_set(d, schema, "properties", props);
	return schema;
}

yyjson_mut_val *td_kind_openapi(const struct td_kind *k, yyjson_mut_doc *d)
{
	return whole(d, k->builtin ? td_shared_inline(d, k->raw) : yyjson_val_mut_copy(d, td_unconst(k->raw)));
}

yyjson_mut_val *td_part_openapi(const char *part, yyjson_mut_doc *d)
{
	return whole(d, td_shared_inline(d, td_shared_find(part)->raw));
}

void td_kind_columns(struct td_kind *k, const yyjson_val *a)
{
	static const struct td_column age = {
		"Age", "date", NULL, "Time since the object was made.", ".metadata.creationTimestamp", 0};
	size_t i, max;
	yyjson_val *x;

	k->columns = td_calloc(yyjson_arr_size(td_unconst(a)) + 1, sizeof(*k->columns));
	yyjson_arr_foreach (td_unconst(a), i, max, x) {
		k->columns[k->n_columns++] =
			(struct td_column){td_jstr_or(x, "name", ""),     td_jstr_or(x, "type", "string"),
					   td_jstr(x, "format"),          td_jstr_or(x, "description", ""),
					   td_jstr_or(x, "jsonPath", ""), (int)td_jint(x, "priority", 0)};
	}
	if (!k->n_columns)
		k->columns[k->n_columns++] = age;
}

void td_kind_subresources(struct td_kind *k, const yyjson_val *sub)
{
	yyjson_val *status = td_jkey(sub, "status"), *scale = td_jkey(sub, "scale");
	k->status = yyjson_is_obj(status) || yyjson_is_true(status);
	k->scale = yyjson_is_obj(scale);
	k->scale_spec = td_strdup(td_jstr(scale, "specReplicasPath"));
	k->scale_status = td_strdup(td_jstr(scale, "statusReplicasPath"));
	k->scale_selector = td_strdup(td_jstr(scale, "labelSelectorPath"));
}

// Makes a kind from the text of its embedded file.
static struct td_kind *from_file(const char *text)
{
	struct td_kind *k = td_calloc(1, sizeof(*k));
	struct td_error err = TD_ERROR_INIT;

	k->source = parse_embedded(text);
	yyjson_val *v = td_json_root(k->source);

	k->group = td_strdup(td_jstr_or(v, "group", ""));
	k->version = td_strdup(td_jstr_or(v, "version", ""));
	k->kind = td_strdup(td_jstr_or(v, "kind", ""));
	k->plural = td_strdup(td_jstr_or(v, "plural", ""));
	k->singular = td_strdup(td_jstr_or(v, "singular", ""));
	k->list_kind = td_asprintf("%sList", k->kind);
	k->namespaced = strcmp(td_jstr_or(v, "scope", "Namespaced"), "Cluster") != 0;
	k->builtin = true;
	td_jstrs(td_jkey(v, "shortNames"), &k->short_names);
	td_jstrs(td_jkey(v, "categories"), &k->categories);
	td_kind_subresources(k, td_jkey(v, "subresources"));

	k->raw = td_jkey(v, "schema");
	if (!*k->kind || !*k->plural || !*k->version ||
	    td_schema_compile_kind(k->source, k->raw, true, &k->schema, NULL, &err)) {
		fprintf(stderr, "embedded kind %s: %s\n", k->kind, err.msg);
		abort();
	}

	td_kind_columns(k, td_jkey(v, "columns"));
	const struct td_kind_rules *r = td_kind_rules(k->group, k->kind);
	if (r) {
		k->check = r->check;
		k->set_defaults = r->set_defaults;
	}
	return k;
}

static const struct td_kind *at(size_t i)
{
	pthread_mutex_lock(&lock);
	if (!table[i])
		table[i] = from_file(td_embedded_kinds[i].text);
	pthread_mutex_unlock(&lock);
	return table[i];
}

const struct td_kind *const *td_kinds_builtin(size_t *ret_n)
{
	size_t n = 0;
	for (; td_embedded_kinds[n].kind && n < KINDS_MAX; n++)
		at(n);
	if (ret_n)
		*ret_n = n;
	return (const struct td_kind *const *)table;
}

const struct td_kind *td_kind_builtin(const char *group, const char *kind)
{
	const struct td_embedded_kind *e = td_embedded_kinds;
	for (size_t i = 0; e[i].kind && i < KINDS_MAX; i++)
		if (!strcmp(e[i].group, group ? group : "") && !strcmp(e[i].kind, kind))
			return at(i);
	return NULL;
}

struct td_kind *td_kind_free(struct td_kind *k)
{
	if (!k || k->builtin)
		return NULL;
	free(k->group);
	free(k->version);
	free(k->kind);
	free(k->plural);
	free(k->singular);
	free(k->list_kind);
	free(k->scale_spec);
	free(k->scale_status);
	free(k->scale_selector);
	free(k->columns);
	td_strv_done(&k->short_names);
	td_strv_done(&k->categories);
	td_schema_free(k->schema);
	td_json_unref(k->source);
	free(k);
	return NULL;
}
