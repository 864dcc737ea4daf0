// Items: see item.h.
#include "apiserver/item.h"

#include <stdio.h>
#include <string.h>

static struct td_item *wrap(struct td_json *doc, char *bytes, size_t len, uint64_t rv, uint64_t crv)
{
	struct td_item *i = td_calloc(1, sizeof(*i));
	i->refs = 1;
	i->rv = rv;
	i->crv = crv;
	i->doc = doc;
	i->root = td_json_root(doc);
	i->bytes = bytes;
	i->len = len;
	yyjson_val *m = td_jget(i->root, "metadata");
	i->ns = td_jstr_or(m, "namespace", "");
	i->name = td_jstr_or(m, "name", "");
	i->uid = td_jstr_or(m, "uid", "");
	return i;
}

struct td_item *td_item_new(yyjson_mut_doc *d, uint64_t rv, uint64_t crv)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, root, "metadata.resourceVersion", "%llu", (unsigned long long)rv);
	size_t len = 0;
	char *bytes = td_json_mut_text(root, &len);
	return wrap(td_json_from_mut(root), bytes, len, rv, crv);
}

int td_item_parse(const char *bytes, size_t len, uint64_t rv, uint64_t crv, struct td_item **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *doc = NULL;
	int rc = td_json_parse(bytes, len, &doc, err);
	if (rc < 0)
		return rc;
	if (!yyjson_is_obj(td_json_root(doc)))
		return td_fail(err, TD_INVALID, "not a JSON object");
	*ret = wrap(td_steal(doc), td_strndup(bytes, len), len, rv, crv);
	return 0;
}

struct td_item *td_item_ref(struct td_item *i)
{
	if (i)
		__atomic_add_fetch(&i->refs, 1, __ATOMIC_RELAXED);
	return i;
}

struct td_item *td_item_unref(struct td_item *i)
{
	if (i && __atomic_sub_fetch(&i->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_json_unref(i->doc);
		free(i->bytes);
		free(i);
	}
	return NULL;
}

size_t td_item_cost(const struct td_item *i)
{
	// The parsed document holds its strings once more, and 16 bytes per value (about one value per 16 bytes of text).
	return sizeof(*i) + i->len * 3;
}

void td_items_add(struct td_items *l, struct td_item *i)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n++] = i;
}

void td_items_done(struct td_items *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_item_unref(l->v[i]);
	free(l->v);
	*l = (struct td_items){0};
}

int td_item_cmp(const char *ns_a, const char *name_a, const char *ns_b, const char *name_b)
{
	int c = strcmp(ns_a, ns_b);
	return c ? c : strcmp(name_a, name_b);
}
