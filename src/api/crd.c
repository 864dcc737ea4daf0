// CustomResourceDefinitions: kinds made from them, and those of Tandem's own kinds made from the
// kind files.
#include "api/kinds_priv.h"
#include "api/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OWN_GROUP "tandem.dev"

// Compiles the schema of one version and checks what only CRDs must obey. Returns false after it
// has added causes.
static bool crd_schema(struct td_kind *k, const yyjson_val *raw, const char *path, struct td_causes *causes)
{
	td_auto_causes struct td_causes problem = {0};

	if (!td_streq(td_jstr(raw, "type"), "object")) {
		td_auto_free char *f = td_asprintf("%s.type", path);
		td_cause_add(causes, "FieldValueInvalid", f, "Invalid value: \"%s\": must be object at the root",
			     td_jstr_or(raw, "type", ""));
		return false;
	}

	k->raw = raw;
	if (td_schema_compile_kind(k->source, raw, false, &k->schema, &problem, NULL)) {
		const struct td_cause *x = &problem.v[0];
		td_auto_free char *f = td_asprintf("%s%s%s", path, *x->field ? "." : "", x->field);
		td_cause_add(causes, x->reason, f, "%s", x->message);
		return false;
	}
	return true;
}

// A default must be valid in its place, with its own defaults filled in, and must not have fields
// that the schema does not know.
static void check_defaults(const struct td_schema *s, struct td_buf *path, struct td_causes *causes)
{
	size_t len = path->len;
	if (s->def) {
		yyjson_mut_doc *d = td_jm_copy(s->def);
		td_auto_strv struct td_strv unknown = {0};
		td_schema_prune(s, yyjson_mut_doc_get_root(d), &unknown);
		td_schema_default(s, d, yyjson_mut_doc_get_root(d));
		td_auto(td_json_unref) struct td_json *v = td_jm_done(d);
		td_auto_causes struct td_causes inner = {0};

		if (unknown.n) {
			td_buf_puts(path, ".default");
			td_cause_add(causes, "FieldValueInvalid", td_buf_str(path),
				     "Invalid value: must not have unknown fields, but has \"%s\": name it in the "
				     "schema, or write x-kubernetes-preserve-unknown-fields there",
				     unknown.v[0]);
			td_path_cut(path, len);
		} else if (td_schema_validate(s, td_json_root(v), &inner)) {
			td_buf_puts(path, ".default");
			td_cause_add(causes, "FieldValueInvalid", td_buf_str(path), "%s%s%s", inner.v[0].field,
				     *inner.v[0].field ? ": " : "", inner.v[0].message);
			td_path_cut(path, len);
		}
	}

	for (size_t i = 0; i < s->n_props; i++) {
		if (!s->props[i].s->has_default)
			continue;
		td_buf_printf(path, ".properties[%s]", s->props[i].name);
		check_defaults(s->props[i].s, path, causes);
		td_path_cut(path, len);
	}

	if (s->additional && s->additional->has_default) {
		td_buf_puts(path, ".additionalProperties");
		check_defaults(s->additional, path, causes);
		td_path_cut(path, len);
	}

	if (s->items && s->items->has_default) {
		td_buf_puts(path, ".items");
		check_defaults(s->items, path, causes);
		td_path_cut(path, len);
	}
}

static struct td_kind *of_version(const yyjson_val *crd, struct td_json *source, const yyjson_val *v, const char *path,
				  struct td_causes *causes)
{
	const yyjson_val *spec = td_jkey(crd, "spec"), *names = td_jkey(spec, "names");
	yyjson_val *raw = td_jget(v, "schema.openAPIV3Schema");

	struct td_kind *k = td_calloc(1, sizeof(*k));
	k->source = td_json_ref(source);
	k->group = td_strdup(td_jstr_or(spec, "group", ""));
	k->version = td_strdup(td_jstr_or(v, "name", ""));
	k->kind = td_strdup(td_jstr_or(names, "kind", ""));
	k->plural = td_strdup(td_jstr_or(names, "plural", ""));
	k->singular = td_strdup(td_jstr(names, "singular"));

	if (!k->singular || !*k->singular) {
		free(k->singular);
		k->singular = td_strdup(k->kind);
		for (char *p = k->singular; *p; p++)
			*p = (char)tolower((unsigned char)*p);
	}

	const char *list = td_jstr_or(names, "listKind", "");
	k->list_kind = *list ? td_strdup(list) : td_asprintf("%sList", k->kind);
	k->namespaced = !td_streq(td_jstr(spec, "scope"), "Cluster");
	td_jstrs(td_jkey(names, "shortNames"), &k->short_names);
	td_jstrs(td_jkey(names, "categories"), &k->categories);
	td_kind_subresources(k, td_jkey(v, "subresources"));
	td_kind_columns(k, td_jkey(v, "additionalPrinterColumns"));

	td_auto_buf struct td_buf p = {0};
	td_buf_printf(&p, "%s.schema.openAPIV3Schema", path);
	if (!raw) {
		td_cause_add(causes, "FieldValueRequired", td_buf_str(&p), "Required value: schemas are required");
		return td_kind_free(k);
	}
	if (!crd_schema(k, raw, td_buf_str(&p), causes))
		return td_kind_free(k);

	check_defaults(k->schema, &p, causes);
	const struct td_kind_rules *rules = td_kind_rules(k->group, k->kind);
	// These rules are about Tandem's own kinds. A CRD of another group must not get them.
	if (rules && td_kind_has_crd(k))
		k->check = rules->check;
	return k;
}

static void check_path(const char *s, const char *at, const char *tail, struct td_causes *causes)
{
	td_auto_free char *f = td_asprintf("%s.%s", at, tail);
	if (s && *s && *s != '.')
		td_cause_add(causes, "FieldValueInvalid", f,
			     "Invalid value: \"%.100s\": must be a simple json path starting with .", s);
}

// Checks the columns and subresources of one version.
static void check_parts(const yyjson_val *v, const char *path, struct td_causes *causes)
{
	static const char *const types[] = {"boolean", "date", "integer", "number", "string"};
	static const char *const paths[] = {"specReplicasPath", "statusReplicasPath", "labelSelectorPath"};
	size_t i, max;
	yyjson_val *x;

	yyjson_arr_foreach (td_jkey(v, "additionalPrinterColumns"), i, max, x) {
		td_auto_free char *at = td_asprintf("%s.additionalPrinterColumns[%zu]", path, i);
		const char *type = td_jstr_or(x, "type", "");
		bool known = !*type;
		for (size_t t = 0; t < TD_LEN(types); t++)
			known = known || !strcmp(type, types[t]);
		td_auto_free char *f = td_asprintf("%s.type", at);
		if (!known)
			td_cause_add(causes, "FieldValueInvalid", f,
				     "Invalid value: \"%.60s\": must be one of boolean,date,integer,number,string",
				     type);
		check_path(td_jstr(x, "jsonPath"), at, "jsonPath", causes);
	}

	const yyjson_val *scale = td_jget(v, "subresources.scale");
	td_auto_free char *at = td_asprintf("%s.subresources.scale", path);
	for (size_t p = 0; p < TD_LEN(paths); p++)
		check_path(td_jstr(scale, paths[p]), at, paths[p], causes);
}

static void check_names(const yyjson_val *crd, struct td_causes *causes)
{
	const yyjson_val *spec = td_jkey(crd, "spec"), *names = td_jkey(spec, "names");
	const char *plural = td_jstr_or(names, "plural", ""), *group = td_jstr_or(spec, "group", ""),
		   *name = td_jstr_or(crd, "metadata.name", "");
	td_auto_free char *want = td_asprintf("%s.%s", plural, group);

	if (!td_is_dns_subdomain(group) || !strchr(group, '.'))
		td_cause_add(causes, "FieldValueInvalid", "spec.group",
			     "Invalid value: \"%s\": should be a domain with at least one dot", group);
	if (!td_is_dns_label(plural))
		td_cause_add(causes, "FieldValueInvalid", "spec.names.plural",
			     "Invalid value: \"%s\": must be a DNS-1035 label", plural);
	if (!*td_jstr_or(names, "kind", ""))
		td_cause_add(causes, "FieldValueRequired", "spec.names.kind", "Required value");

	size_t i, max;
	yyjson_val *x;
	yyjson_arr_foreach (td_jkey(names, "shortNames"), i, max, x) {
		td_auto_strv struct td_strv l = {0};
		td_auto_free char *f = td_asprintf("spec.names.shortNames[%zu]", i);
		td_name_faults(TD_N_LABEL_1035, yyjson_is_str(x) ? yyjson_get_str(x) : "", &l);
		for (size_t n = 0; n < l.n; n++)
			td_cause_add(causes, "FieldValueInvalid", f, "Invalid value: \"%.100s\": %s",
				     yyjson_is_str(x) ? yyjson_get_str(x) : "", l.v[n]);
	}

	if (strcmp(name, want))
		td_cause_add(causes, "FieldValueInvalid", "metadata.name",
			     "Invalid value: \"%s\": must be spec.names.plural+\".\"+spec.group (%s)", name, want);
	if (td_jbool(spec, "preserveUnknownFields", false))
		td_cause_add(
			causes, "FieldValueInvalid", "spec.preserveUnknownFields",
			"Invalid value: true: must be false; write x-kubernetes-preserve-unknown-fields in the schema");
}

int td_kind_from_crd(const yyjson_val *crd, struct td_kind ***ret, size_t *ret_n, struct td_causes *causes,
		     struct td_error *err)
{
	td_auto_causes struct td_causes own = {0};
	struct td_causes *c = causes ? causes : &own;
	size_t before = c->n, i, max, n = 0, stored = 0, j, m;
	yyjson_val *versions = td_jget(crd, "spec.versions"), *v, *w;
	td_auto(td_json_unref) struct td_json *source = td_json_from_val(crd);
	const yyjson_val *root = td_json_root(source);
	versions = td_jget(root, "spec.versions");
	struct td_kind **list = td_calloc(yyjson_arr_size(versions) + 1, sizeof(*list));

	check_names(root, c);
	if (!yyjson_arr_size(versions))
		td_cause_add(c, "FieldValueRequired", "spec.versions",
			     "Required value: at least one version is needed");

	yyjson_arr_foreach (versions, i, max, v) {
		td_auto_free char *path = td_asprintf("spec.versions[%zu]", i);
		stored += td_jbool(v, "storage", false);
		yyjson_arr_foreach (versions, j, m, w) {
			if (j < i && td_streq(td_jstr(v, "name"), td_jstr(w, "name")))
				td_cause_add(c, "FieldValueDuplicate", path, "Duplicate value: \"%s\"",
					     td_jstr_or(v, "name", ""));
		}
		check_parts(v, path, c);
		struct td_kind *k = of_version(root, source, v, path, c);
		if (k && td_jbool(v, "served", false))
			list[n++] = k;
		else
			td_kind_free(k);
	}

	if (yyjson_arr_size(versions) && stored != 1)
		td_cause_add(c, "FieldValueInvalid", "spec.versions",
			     "Invalid value: must have exactly one version marked as storage version");

	if (c->n == before) {
		*ret = list;
		*ret_n = n;
		return 0;
	}

	while (n)
		td_kind_free(list[--n]);
	free(list);
	return td_fail(err, TD_INVALID, "%s: %s", c->v[before].field, c->v[before].message);
}

// ---- Tandem's own kinds ----

// Removes extensions of Tandem's own and those for built-in kinds. Other API servers ignore formats
// that they do not know, but refuse unknown extensions.
static void strip_own(yyjson_mut_val *v)
{
	size_t i, max;
	yyjson_mut_val *k, *x;

	if (yyjson_mut_is_arr(v)) {
		yyjson_mut_arr_foreach (v, i, max, x)
			strip_own(x);
		return;
	}
	if (!yyjson_mut_is_obj(v))
		return;

	bool map = td_streq(td_jm_getstr(v, "x-kubernetes-list-type"), "map"),
	     dup = yyjson_mut_obj_get(v, "x-tandem-duplicates") != NULL;
	yyjson_mut_obj_remove_key(v, "x-tandem-duplicates");
	yyjson_mut_obj_remove_key(v, "x-kubernetes-patch-strategy");
	yyjson_mut_obj_remove_key(v, "x-kubernetes-patch-merge-key");
	// A list in which a key may occur twice is not a map to a CRD.
	if (map && dup) {
		yyjson_mut_obj_remove_key(v, "x-kubernetes-list-type");
		yyjson_mut_obj_remove_key(v, "x-kubernetes-list-map-keys");
	}

	yyjson_mut_obj_foreach (v, i, max, k, x)
		strip_own(x);
}

bool td_kind_has_crd(const struct td_kind *k)
{
	return !strcmp(k->group, OWN_GROUP);
}

struct td_json *td_kind_crd(const char *kind)
{
	const struct td_kind *k = td_kind_builtin(OWN_GROUP, kind);
	if (!k)
		return NULL;

	const yyjson_val *src = td_json_root(k->source);
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	td_jm_str(d, o, "apiVersion", "apiextensions.k8s.io/v1");
	td_jm_str(d, o, "kind", "CustomResourceDefinition");
	td_jm_strf(d, o, "metadata.name", "%s.%s", k->plural, k->group);
	td_jm_str(d, o, "spec.group", k->group);
	td_jm_str(d, o, "spec.scope", k->namespaced ? "Namespaced" : "Cluster");
	td_jm_str(d, o, "spec.names.kind", k->kind);
	td_jm_str(d, o, "spec.names.listKind", k->list_kind);
	td_jm_str(d, o, "spec.names.plural", k->plural);
	td_jm_str(d, o, "spec.names.singular", k->singular);
	td_jm_copyval(d, o, "spec.names.shortNames", td_jkey(src, "shortNames"));
	td_jm_copyval(d, o, "spec.names.categories", td_jkey(src, "categories"));

	yyjson_mut_val *v = yyjson_mut_obj(d);
	td_jm_str(d, v, "name", k->version);
	td_jm_bool(d, v, "served", true);
	td_jm_bool(d, v, "storage", true);
	if (k->status)
		td_jm_obj(d, v, "subresources.status");
	if (k->scale)
		td_jm_copyval(d, v, "subresources.scale", td_jget(src, "subresources.scale"));
	td_jm_copyval(d, v, "additionalPrinterColumns", td_jkey(src, "columns"));

	yyjson_mut_val *schema = td_shared_inline(d, k->raw);
	yyjson_mut_val *props = td_jm_obj(d, schema, "properties"), *all = yyjson_mut_obj(d), *pk, *px;
	static const char *const words[][2] = {{"apiVersion", "string"}, {"kind", "string"}, {"metadata", "object"}};
	for (size_t i = 0; i < TD_LEN(words); i++) {
		yyjson_mut_val *t = yyjson_mut_obj(d);
		td_jm_str(d, t, "type", words[i][1]);
		td_jm_key_set(d, all, words[i][0], t);
	}

	size_t i, max;
	yyjson_mut_obj_foreach (props, i, max, pk, px)
		td_jm_key_set(d, all, yyjson_mut_get_str(pk), yyjson_mut_val_mut_copy(d, px));
	td_jm_key_set(d, schema, "properties", all);
	strip_own(schema);
	td_jm_set(d, v, "schema.openAPIV3Schema", schema);

	yyjson_mut_arr_append(td_jm_arr(d, o, "spec.versions"), v);
	return td_jm_done(d);
}
