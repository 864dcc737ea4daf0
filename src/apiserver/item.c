// Items (item.h).
#include "apiserver/item.h"

#include "base/log.h"

#include <string.h>

// Allocates one block for the item, its strings and its bytes.
static struct td_item *make(const char *const words[4], const char *bytes, size_t len, uint64_t rv, uint64_t crv)
{
	size_t size = sizeof(struct td_item) + len + 1;
	for (int n = 0; n < 4; n++)
		size += strlen(words[n]) + 1;
	struct td_item *i = td_malloc(size);
	*i = (struct td_item){.refs = 1, .rv = rv, .crv = crv, .len = len};
	const char **at[4] = {&i->ns, &i->name, &i->uid, &i->api};
	char *p = (char *)(i + 1);
	for (int n = 0; n < 4; n++) {
		*at[n] = p;
		p = stpcpy(p, words[n]) + 1;
	}
	i->bytes = p;
	memcpy(p, bytes, len);
	p[len] = 0;
	return i;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

struct td_item *td_item_new(yyjson_mut_doc *d, uint64_t rv, uint64_t crv)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	if (rv)
		td_jm_strf(d, root, "metadata.resourceVersion", "%llu", (unsigned long long)rv);
	else
		td_jm_del(root, "metadata.resourceVersion");
	size_t len = 0;
	td_auto_free char *bytes = td_json_mut_text(root, &len);
	yyjson_mut_val *m = td_jm_get(root, "metadata");
	const char *const words[4] = {or_empty(td_jm_getstr(m, "namespace")), or_empty(td_jm_getstr(m, "name")),
				      or_empty(td_jm_getstr(m, "uid")), or_empty(td_jm_getstr(root, "apiVersion"))};
	return make(words, bytes, len, rv, crv);
}

int td_item_parse(const char *bytes, size_t len, uint64_t rv, uint64_t crv, struct td_item **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *doc = NULL;
	int rc = td_json_parse(bytes, len, &doc, err);
	if (rc < 0)
		return rc;
	yyjson_val *root = td_json_root(doc), *m = td_jget(root, "metadata");
	if (!yyjson_is_obj(root))
		return td_fail(err, TD_INVALID, "not a JSON object");
	const char *const words[4] = {td_jstr_or(m, "namespace", ""), td_jstr_or(m, "name", ""),
				      td_jstr_or(m, "uid", ""), td_jstr_or(root, "apiVersion", "")};
	*ret = make(words, bytes, len, rv, crv);
	return 0;
}

static struct td_json *parse(const struct td_item *i)
{
	struct td_json *doc = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(i->bytes, i->len, &doc, &err) < 0) {
		td_err("object %s/%s at revision %llu cannot be read: %s", i->ns, i->name, (unsigned long long)i->rv,
		       err.msg);
		abort(); // this server wrote or parsed the bytes before
	}
	return doc;
}

yyjson_val *td_item_root(const struct td_item *i)
{
	// Only the slot of the parsed form changes.
	struct td_item *w = (struct td_item *)(uintptr_t)i;
	struct td_json *have = __atomic_load_n(&w->doc, __ATOMIC_ACQUIRE);
	if (!have) {
		struct td_json *mine = parse(i);
		if (__atomic_compare_exchange_n(&w->doc, &have, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			have = mine;
		else
			td_json_unref(mine); // another thread was first
	}
	return td_json_root(have);
}

struct td_json *td_item_doc(const struct td_item *i)
{
	struct td_json *have = __atomic_load_n(&i->doc, __ATOMIC_ACQUIRE);
	return have ? td_json_ref(have) : parse(i);
}

struct td_item *td_item_copy(const struct td_item *i)
{
	if (!i)
		return NULL;
	const char *const words[4] = {i->ns, i->name, i->uid, i->api};
	return make(words, i->bytes, i->len, i->rv, i->crv);
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
		free(i);
	}
	return NULL;
}

size_t td_item_cost(const struct td_item *i)
{
	return (size_t)(i->bytes - (const char *)i) + i->len + 1;
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
