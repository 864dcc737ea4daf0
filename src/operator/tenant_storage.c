// The storage of Tenants' quotas (tenant.h). A ResourceQuota holds in one namespace; what each says, pool/storage.h
// decides, and here it is read and written. One that is new begins with 0, until the API server has counted what is
// there; then the namespace gets its part.
#include "operator/tenant.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "base/log.h"
#include "pool/storage.h"

#include <string.h>

#define QUOTA_NAME "tandem-tenant-storage"

struct td_op_storage_space {
	const char *ns;
	size_t tenant;
	struct td_object *quota; // its ResourceQuota; NULL: there is none
	int64_t *say;            // of each word
};
struct td_op_storage {
	const char **words;
	size_t n_words;
	struct td_op_storage_space *v;
	size_t n;
};

// Is the tenant `at` the tenant `top`, or below it?
static bool within(const struct td_op_tenant_pass *p, size_t at, size_t top)
{
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, at = td_op_tenant_above(p, at))
		if (at == top)
			return true;
	return false;
}

static struct td_op_tenant_hard *hard_of(const struct td_op_tenant *t, const char *word)
{
	for (size_t i = 0; i < t->n_hards; i++)
		if (!strcmp(t->hards[i].word, word))
			return &t->hards[i];
	return NULL;
}

// Does the tenant, or one above it, have a limit of this word?
static bool limited(const struct td_op_tenant_pass *p, size_t at, const char *word)
{
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, at = td_op_tenant_above(p, at))
		if (hard_of(&p->v[at], word))
			return true;
	return false;
}

static void all_words(struct td_op_tenant_pass *p, struct td_op_storage *s)
{
	size_t most = 1;
	for (size_t i = 0; i < p->n; i++)
		most += p->v[i].n_hards;
	s->words = td_arena_alloc(p->arena, most * sizeof(*s->words));
	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->v[i].n_hards; k++) {
			size_t w = 0;
			while (w < s->n_words && strcmp(s->words[w], p->v[i].hards[k].word) != 0)
				w++;
			if (w == s->n_words)
				s->words[s->n_words++] = p->v[i].hards[k].word;
		}
}

static void all_spaces(struct td_op_tenant_pass *p, struct td_op_storage *s)
{
	size_t most = 1;
	for (size_t i = 0; i < p->n; i++)
		most += p->p[i].n_namespaces;
	s->v = td_arena_alloc(p->arena, most * sizeof(*s->v));
	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->p[i].n_namespaces; k++) {
			const char *ns = p->p[i].namespaces[k];
			td_auto(td_object_unref) struct td_object *live = td_informer_get(p->ts->namespaces, NULL, ns);
			if (!live || !td_streq(td_object_label(live, TD_LABEL_TENANT), p->v[i].o->name))
				continue;
			s->v[s->n++] = (struct td_op_storage_space){
				.ns = ns,
				.tenant = i,
				.quota = p->ts->quotas ? td_informer_get(p->ts->quotas, ns, QUOTA_NAME) : NULL,
				.say = td_arena_alloc(p->arena, (s->n_words + 1) * sizeof(int64_t))};
		}
}

// What the claims of a namespace ask for, where no API server counts it.
static int64_t sum_of(struct td_op_tenant_pass *p, const char *ns, const char *word)
{
	td_auto_objects struct td_objects l = {0};
	int64_t sum = 0;
	td_informer_list(p->ts->op->claims, ns, &l);
	for (size_t i = 0; i < l.n; i++) {
		const yyjson_val *o = l.v[i]->root;
		int64_t size = td_api_storage_amount(td_jget(o, "spec.resources.requests.storage"));
		if (__builtin_add_overflow(
			    sum, td_api_storage_counts(word, size, td_jstr_or(o, "spec.storageClassName", "")), &sum))
			return INT64_MAX;
	}
	return sum;
}

// What the claims of a namespace say that somebody wants to claim there besides.
static int64_t room_of(struct td_op_tenant_pass *p, const char *ns, const char *word)
{
	td_auto_objects struct td_objects l = {0};
	int64_t sum = 0, size;
	td_informer_list(p->ts->op->claims, ns, &l);
	for (size_t i = 0; i < l.n; i++) {
		const char *text = td_object_annotation(l.v[i], TD_ANN_STORAGE_ROOM);
		const char *class = td_jstr_or(l.v[i]->root, "spec.storageClassName", "");
		if (!text || td_quantity_ceil(text, &size, NULL) || size <= 0)
			continue;
		if (__builtin_add_overflow(sum, td_api_storage_counts(word, size, class), &sum))
			return INT64_MAX;
	}
	return sum;
}

static struct td_pool_storage_space read_space(struct td_op_tenant_pass *p, const struct td_op_storage_space *x,
					       const char *word)
{
	if (!p->ts->quotas)
		return (struct td_pool_storage_space){.used = sum_of(p, x->ns, word)};
	const yyjson_val *o = x->quota ? x->quota->root : NULL;
	yyjson_val *hard = td_jkey(td_jget(o, "status.hard"), word), *used = td_jkey(td_jget(o, "status.used"), word);
	return (struct td_pool_storage_space){.counted = hard && used,
					      .said = td_api_storage_amount(td_jkey(td_jget(o, "spec.hard"), word)),
					      .hard = td_api_storage_amount(hard),
					      .used = td_api_storage_amount(used),
					      .room = room_of(p, x->ns, word)};
}

static bool denied(struct td_op_tenant_pass *p, size_t at, const char *word)
{
	const char *const *no;
	size_t n = td_op_tenant_denied(p, at, &no), i = 0;
	while (i < n && strcmp(no[i], word) != 0)
		i++;
	return i < n;
}

// One word: what is used of all limits, and what each namespace shall have. True: some shall have something else than now.
static bool look_at(struct td_op_tenant_pass *p, struct td_op_storage *s, size_t word)
{
	struct td_pool_storage_space *spaces = td_arena_alloc(p->arena, (s->n + 1) * sizeof(*spaces));
	struct td_pool_storage_limit *limits = td_arena_alloc(p->arena, (p->n + 1) * sizeof(*limits));
	int64_t *say = td_arena_alloc(p->arena, (s->n + 1) * sizeof(*say));
	size_t n_limits = 0;
	for (size_t i = 0; i < s->n; i++)
		spaces[i] = read_space(p, &s->v[i], s->words[word]);
	for (size_t i = 0; i < p->n; i++) {
		struct td_op_tenant_hard *h = hard_of(&p->v[i], s->words[word]);
		if (!h)
			continue;
		size_t *mine = td_arena_alloc(p->arena, (s->n + 1) * sizeof(*mine)), n = 0;
		h->used = 0;
		for (size_t k = 0; k < s->n; k++)
			if (within(p, s->v[k].tenant, i)) {
				mine[n++] = k;
				if (__builtin_add_overflow(h->used, spaces[k].used, &h->used))
					h->used = INT64_MAX;
			}
		limits[n_limits++] = (struct td_pool_storage_limit){h->quota, mine, n};
	}
	td_pool_storage_split(p->arena, limits, n_limits, spaces, s->n, say);
	bool changes = false;
	for (size_t i = 0; i < s->n; i++) {
		if (denied(p, s->v[i].tenant, s->words[word]))
			say[i] = 0; // a storage group that is not the Tenant's
		s->v[i].say[word] = say[i];
		changes = changes || say[i] != spaces[i].said;
	}
	return changes;
}

static bool look_at_all(struct td_op_tenant_pass *p, struct td_op_storage *s)
{
	bool changes = false;
	for (size_t w = 0; w < s->n_words; w++)
		changes = look_at(p, s, w) || changes;
	return changes;
}

// Reads the ResourceQuotas anew. The cache may not have what the pass before this one wrote: what was given out then would
// be given out again.
static int read_anew(struct td_op_tenant_pass *p, struct td_op_storage *s, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	int r = td_kube_list(p->ts->op->k, &td_resourcequotas, NULL, TD_LABEL_TENANT, NULL, p->c, &l, err);
	if (r)
		return r;
	for (size_t i = 0; i < s->n; i++) {
		td_object_unref(s->v[i].quota);
		s->v[i].quota = NULL;
		for (size_t k = 0; k < l.n && !s->v[i].quota; k++)
			if (!strcmp(l.v[k]->ns, s->v[i].ns) && !strcmp(l.v[k]->name, QUOTA_NAME))
				s->v[i].quota = td_object_ref(l.v[k]);
	}
	return 0;
}

// Nothing is divided now: each keeps what it has.
static void keep(struct td_op_tenant_pass *p, struct td_op_storage *s)
{
	for (size_t w = 0; w < s->n_words; w++)
		for (size_t i = 0; i < s->n; i++)
			s->v[i].say[w] = read_space(p, &s->v[i], s->words[w]).said;
}

void td_op_tenant_storage_look(struct td_op_tenant_pass *p)
{
	struct td_op_storage *s = td_arena_alloc(p->arena, sizeof(*s));
	p->storage = s;
	all_words(p, s);
	all_spaces(p, s);
	struct td_error e = TD_ERROR_INIT;
	if (!look_at_all(p, s) || !p->ts->quotas)
		return;
	if (!read_anew(p, s, &e)) {
		look_at_all(p, s);
	} else {
		td_debug("ResourceQuotas cannot be read, and stay as they are: %s", e.msg);
		keep(p, s);
	}
}

void td_op_tenant_storage_done(struct td_op_tenant_pass *p)
{
	for (size_t i = 0; p->storage && i < p->storage->n; i++)
		td_object_unref(p->storage->v[i].quota);
}

const char *td_op_tenant_claims(struct td_op_tenant_pass *p, size_t at)
{
	if (p->ts->quotas)
		return NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = yyjson_mut_arr(d);
	const char *const *no;
	size_t n_no = td_op_tenant_denied(p, at, &no);
	// What is denied is so in its own namespaces: a Tenant below may have been granted it.
	for (size_t steps = 0; at < p->n && steps <= p->n; steps++, n_no = 0, at = td_op_tenant_above(p, at)) {
		const struct td_op_tenant *t = &p->v[at];
		if (!t->n_hards && !n_no)
			continue;
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, x, "tenant", t->o->name);
		yyjson_mut_val *hard = td_jm_obj(d, x, "hard");
		for (size_t i = 0; i < t->n_hards; i++)
			td_jm_key_set(d, hard, t->hards[i].word, yyjson_mut_sint(d, t->hards[i].quota));
		for (size_t i = 0; i < n_no; i++) {
			yyjson_mut_obj_remove_key(hard, no[i]);
			td_jm_key_set(d, hard, no[i], yyjson_mut_sint(d, 0));
		}
	}
	if (!yyjson_mut_arr_size(list))
		return NULL;
	td_auto_free char *text = yyjson_mut_val_write(list, 0, NULL);
	return td_arena_strdup(p->arena, text ? text : "[]");
}

// Does the ResourceQuota say this, and no more?
static bool says(const struct td_object *live, yyjson_mut_val *hard)
{
	yyjson_val *has = live ? td_jget(live->root, "spec.hard") : NULL;
	if (!live || td_object_deleting(live) || yyjson_obj_size(has) != yyjson_mut_obj_size(hard))
		return false;
	yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(hard);
	for (yyjson_mut_val *k; (k = yyjson_mut_obj_iter_next(&it));) {
		yyjson_val *v = td_jkey(has, yyjson_mut_get_str(k));
		int64_t want = 0;
		td_quantity_ceil(yyjson_mut_get_str(yyjson_mut_obj_iter_get_val(k)), &want, NULL);
		if (!v || td_api_storage_amount(v) != want)
			return false;
	}
	return true;
}

static int put(struct td_op_tenant_pass *p, const char *ns, const struct td_object *live, yyjson_mut_doc *d,
	       yyjson_mut_val *want, struct td_error *err)
{
	yyjson_mut_val *hard = td_jm_get(want, "spec.hard"), *k;
	yyjson_val *key, *v;
	size_t i, n;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *doc = td_jm_new();
	struct td_kube *kube = p->ts->op->k;
	int r = TD_EXISTS;
	yyjson_mut_doc_set_root(doc, yyjson_mut_val_mut_copy(doc, want));
	if (!live)
		r = td_kube_create(kube, &td_resourcequotas, ns, yyjson_mut_doc_get_root(doc), p->c, NULL, err);
	if (r == TD_EXISTS) { // of the name: Tandem's, or it becomes so
		yyjson_obj_foreach (live ? td_jget(live->root, "spec.hard") : NULL, i, n, key, v) {
			k = yyjson_mut_obj_get(hard, yyjson_get_str(key));
			if (!k)
				td_jm_key_set(d, hard, yyjson_get_str(key), yyjson_mut_null(d));
		}
		r = td_kube_patch(kube, TD_AT(&td_resourcequotas, ns, QUOTA_NAME), TD_PATCH_MERGE, want, p->c, NULL,
				  err);
	}
	if (r)
		return td_wrap(err, "writing ResourceQuota %s/%s", ns, QUOTA_NAME);
	td_debug("ResourceQuota %s/%s written", ns, QUOTA_NAME);
	return 0;
}

int td_op_tenant_storage_write(struct td_op_tenant_pass *p, size_t at, const char *ns, struct td_error *err)
{
	const struct td_op_storage *s = p->storage;
	const struct td_op_storage_space *x = NULL;
	if (!p->ts->quotas)
		return 0;
	for (size_t i = 0; i < s->n && !x; i++)
		x = strcmp(s->v[i].ns, ns) ? NULL : &s->v[i];

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("tenant.yaml", {"namespace", ns}, {"tenant", p->v[at].o->name}, {"role", ""},
			       {"security", ""}, {"cluster-namespace", ""}, {"own-namespace", ""});
	yyjson_mut_val *want = td_jm_get(yyjson_mut_doc_get_root(d), "quota"), *hard = td_jm_obj(d, want, "spec.hard");
	for (size_t w = 0; w < s->n_words; w++)
		if (limited(p, at, s->words[w])) {
			td_auto_free char *text = td_asprintf("%lld", (long long)(x ? x->say[w] : 0));
			td_jm_key_str(d, hard, s->words[w], text);
		}
	const char *const *no;
	size_t n_no = td_op_tenant_denied(p, at, &no);
	for (size_t i = 0; i < n_no; i++) {
		yyjson_mut_obj_remove_key(hard, no[i]);
		td_jm_key_str(d, hard, no[i], "0");
	}
	const struct td_object *live = x ? x->quota : NULL;
	if (yyjson_mut_obj_size(hard))
		return says(live, hard) ? 0 : put(p, ns, live, d, want, err);
	if (!live || td_object_deleting(live))
		return 0;
	const struct td_kube_delete_opts del = {.uid = live->uid, .grace_s = -1};
	int r = td_kube_delete(p->ts->op->k, &td_resourcequotas, ns, QUOTA_NAME, &del, p->c, err);
	return r && r != TD_NOT_FOUND ? td_wrap(err, "deleting ResourceQuota %s/%s", ns, QUOTA_NAME) : 0;
}
