// What claims (PersistentVolumeClaims) may ask for where a Tenant's quota says so (docs/tenants.md): the operator writes the
// limits on the namespaces (TD_ANN_CLAIMS), of the Tenant and of each above it, and each limit counts the claims of all
// namespaces that name its Tenant. On a cluster ResourceQuotas do this; the words are theirs.
#include "apiserver/srv.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "base/names.h"

#include <pthread.h>
#include <string.h>

// Between the look at the sums and the write nobody else may add to them.
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static int64_t counts(const yyjson_val *claim, const char *word)
{
	return claim ? td_api_storage_counts(word,
					     td_api_storage_amount(td_jget(claim, "spec.resources.requests.storage")),
					     td_jstr_or(claim, "spec.storageClassName", ""))
		     : 0;
}

// The limits of a namespace. *ret NULL: it has none. What cannot be read is an error, and no limit less.
static int limits_of(const struct td_item *ns, struct td_json **ret, struct td_error *err)
{
	const char *text = td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), TD_ANN_CLAIMS);
	struct td_error e = TD_ERROR_INIT;
	*ret = NULL;
	if (text && td_json_parse(text, strlen(text), ret, &e))
		return td_fail(err, TD_INTERNAL,
			       "namespace %s: annotation " TD_ANN_CLAIMS
			       ": %.200s; the operator writes it anew when it "
			       "is taken away",
			       ns->name, e.msg);
	return 0;
}

// *ret: what the claims of all namespaces of a Tenant and of those below it have.
static int used(struct td_req *q, const struct td_items *spaces, const char *tenant, const char *word, int64_t *ret,
		struct td_error *err)
{
	struct td_table *claims = td_store_table(q->s->store, "", "persistentvolumeclaims");
	*ret = 0;
	for (size_t i = 0; i < spaces->n; i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		td_auto_items struct td_items l = {0};
		int r = limits_of(spaces->v[i], &j, err);
		if (r)
			return r;
		if (!j || !td_jfind(td_json_root(j), "tenant", tenant))
			continue;
		uint64_t rv;
		if ((r = td_store_list(q->s->store, claims, spaces->v[i]->name, 0, &l, &rv, err)))
			return r;
		for (size_t k = 0; k < l.n; k++)
			if (__builtin_add_overflow(*ret, counts(td_item_root(l.v[k]), word), ret)) {
				*ret = INT64_MAX;
				return 0;
			}
	}
	return 0;
}

// Does the claim have more of what is limited than before? A controller's writes do not.
static bool grows(const yyjson_val *limits, const yyjson_val *was, const yyjson_val *now)
{
	yyjson_val *x, *k, *v;
	size_t i, n, m, len;
	yyjson_arr_foreach ((yyjson_val *)limits, i, n, x)
		yyjson_obj_foreach (td_jget(x, "hard"), m, len, k, v)
			if (counts(now, yyjson_get_str(k)) > counts(was, yyjson_get_str(k)))
				return true;
	return false;
}

static void add_amount(struct td_buf *b, const char *word, int64_t n)
{
	char text[40];
	if (td_api_storage_bytes(word))
		td_buf_printf(b, "%s%s=%s", b->len ? "," : "", word, td_quantity_format_bytes(n, text, sizeof(text)));
	else
		td_buf_printf(b, "%s%s=%lld", b->len ? "," : "", word, (long long)n);
}

static int look(struct td_req *q, const yyjson_val *limits, const yyjson_val *was, const yyjson_val *now,
		struct td_refusal *r)
{
	td_auto_items struct td_items spaces = {0};
	yyjson_val *x, *k, *v;
	size_t i, n, m, len;
	uint64_t rv;
	struct td_error e = TD_ERROR_INIT;
	if (td_store_list(q->s->store, td_store_table(q->s->store, "", "namespaces"), "", 0, &spaces, &rv, &e))
		return td_refuse_err(r, &e);
	yyjson_arr_foreach ((yyjson_val *)limits, i, n, x) {
		td_auto_buf struct td_buf want = {0}, has = {0}, hard = {0};
		const char *tenant = td_jstr_or(x, "tenant", "");
		yyjson_obj_foreach (td_jget(x, "hard"), m, len, k, v) {
			const char *word = yyjson_get_str(k);
			int64_t more = counts(now, word) - counts(was, word), limit = yyjson_get_sint(v);
			if (more <= 0)
				continue;
			int64_t there;
			if (used(q, &spaces, tenant, word, &there, &e))
				return td_refuse_err(r, &e);
			if (there <= limit && more <= limit - there)
				continue;
			add_amount(&want, word, more);
			add_amount(&has, word, there);
			add_amount(&hard, word, limit);
		}
		if (!want.len)
			continue;
		const char *name = td_jstr_or(now, "metadata.name", "");
		td_refuse(
			r, 403, NULL,
			"persistentvolumeclaims \"%s\" is forbidden: exceeded quota: tandem-tenant-%s, requested: %s, "
			"used: %s, limited: %s",
			name, tenant, td_buf_str(&want), td_buf_str(&has), td_buf_str(&hard));
		return td_refuse_about(r, "", "persistentvolumeclaims", name);
	}
	return 0;
}

// A class of a storage group of a SlurmCluster, in a namespace of no Tenant: for the group's users, and for administrators.
static int of_group(struct td_req *q, const yyjson_val *was, const yyjson_val *now, struct td_refusal *r)
{
	td_auto_items struct td_items clusters = {0};
	const char *class = td_jstr_or(now, "spec.storageClassName", ""), *name = td_jstr_or(now, "metadata.name", "");
	int64_t asks = td_api_storage_amount(td_jget(now, "spec.resources.requests.storage")),
		had = was ? td_api_storage_amount(td_jget(was, "spec.resources.requests.storage")) : -1;
	struct td_table *t = td_store_table(q->s->store, "tandem.dev", "slurmclusters");
	struct td_error e = TD_ERROR_INIT;
	const char *group = NULL;
	uint64_t rv;
	if (asks <= had || !t || td_auth_is_role(&q->user) || td_user_in(&q->user, "system:masters"))
		return 0;
	if (td_store_list(q->s->store, t, "", 0, &clusters, &rv, &e))
		return td_refuse_err(r, &e);
	for (size_t i = 0; i < clusters.n; i++) {
		yyjson_val *g;
		size_t k, n;
		yyjson_arr_foreach (td_jget(td_item_root(clusters.v[i]), "spec.storageGroups"), k, n, g) {
			if (!td_jhas(td_jkey(g, "storageClasses"), class))
				continue;
			if (td_jhas(td_jkey(g, "users"), q->user.name))
				return 0;
			group = td_jstr_or(g, "name", "");
		}
	}
	if (!group)
		return 0;
	td_refuse(r, 403, NULL,
		  "persistentvolumeclaims \"%s\" is forbidden: spec.storageClassName: %s is of storage group %s, and "
		  "neither this namespace, which is no Tenant's, nor user %s has it: claim it in a namespace of a "
		  "Tenant that has the group, or have the user added (users of spec.storageGroups of the SlurmCluster)",
		  name, class, group, q->user.name);
	return td_refuse_about(r, "", "persistentvolumeclaims", name);
}

int td_srv_claims_enter(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, bool *ret_held,
			struct td_refusal *r)
{
	*ret_held = false;
	if (*q->k->group || strcmp(q->k->plural, "persistentvolumeclaims") != 0)
		return 0;
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	td_auto(td_json_unref) struct td_json *limits = NULL, *now = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (ns && limits_of(ns, &limits, &e))
		return td_refuse_err(r, &e);
	bool tenants = ns && td_jkey_str(td_jget(td_item_root(ns), "metadata.labels"), TD_LABEL_TENANT);
	now = limits || !tenants ? td_json_from_mut(o) : NULL;
	const yyjson_val *was = old ? td_item_root(old) : NULL;
	int no = tenants ? 0 : of_group(q, was, td_json_root(now), r);
	if (no)
		return no;
	if (!limits || !grows(td_json_root(limits), was, td_json_root(now)))
		return 0;
	pthread_mutex_lock(&adding);
	int rc = look(q, td_json_root(limits), was, td_json_root(now), r);
	*ret_held = !rc;
	if (rc)
		pthread_mutex_unlock(&adding);
	return rc;
}

void td_srv_claims_leave(bool held)
{
	if (held)
		pthread_mutex_unlock(&adding);
}
