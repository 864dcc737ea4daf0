// tandem quota: what tenants may hold, what they and those below them hold, and what waits.
#include "api/quantity.h"
#include "api/storagequota.h"
#include "base/mem.h"
#include "base/term.h"
#include "cli/ledger.h"
#include "cli/loginpod.h"
#include "cmd/roles.h"
#include "slurm/resource.h"

#include <stdio.h>
#include <string.h>

struct view {
	const struct td_object *const *tenants;
	size_t n;
	const struct td_ledger *held; // key: account, R or P, TRES
	const yyjson_val *sc;
};

static int failed(const struct td_error *err)
{
	fprintf(stderr, "tandem quota: %s\n", err->msg);
	return 1;
}

static const struct td_object *find(const struct view *v, const char *name)
{
	for (size_t i = 0; i < v->n && name; i++)
		if (!strcmp(v->tenants[i]->name, name))
			return v->tenants[i];
	return NULL;
}

// Is t the tenant `top` or below it? A circle of parents ends after as many steps as there are tenants.
static bool within(const struct view *v, const struct td_object *t, const struct td_object *top)
{
	for (size_t steps = 0; t && steps <= v->n; steps++) {
		if (t == top)
			return true;
		t = find(v, td_jstr(t->root, "spec.parent"));
	}
	return false;
}

// Sums what the accounts of a tenant and of all below it hold ("R") or wait for ("P").
static double sum(const struct view *v, const struct td_object *top, const char *state, const char *tres)
{
	double all = 0;
	for (size_t i = 0; i < v->held->n; i++) {
		const struct td_ledger_row *r = &v->held->v[i];
		if (strcmp(r->key[1], state) != 0 || strcmp(r->key[2], tres) != 0)
			continue;
		for (size_t k = 0; k < v->n; k++)
			if (td_streq(td_jstr(v->tenants[k]->root, "status.account"), r->key[0]) &&
			    within(v, v->tenants[k], top))
				all += r->sum[0];
	}
	return all;
}

static double amount(const yyjson_val *x, bool memory)
{
	int64_t n = yyjson_get_sint((yyjson_val *)x);
	if (yyjson_is_str((yyjson_val *)x) && td_quantity_ceil(yyjson_get_str((yyjson_val *)x), &n, NULL))
		n = 0;
	return memory ? (double)n / (1 << 20) : (double)n;
}

// What claims ask for: the operator counts it (status.storage).
static void storage(const struct td_object *t, const char *name, const yyjson_val *quota, yyjson_mut_doc *d,
		    yyjson_mut_val *all)
{
	const yyjson_val *is = td_jfind(td_jget(t->root, "status.storage"), "resource", name);
	long long have = (long long)amount(quota, false);
	yyjson_mut_val *r = yyjson_mut_arr_add_obj(d, all);
	td_jm_str(d, r, "resource", name);
	td_jm_int(d, r, "quota", have);
	td_jm_int(d, r, "limit", have);
	td_jm_int(d, r, "used", td_jint(is, "used", 0));
	td_jm_int(d, r, "borrowed", 0);
	td_jm_int(d, r, "waiting", 0);
}

static void one(const struct view *v, const struct td_object *t, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_val *quota = td_jget(t->root, "spec.quota"), *key, *x;
	size_t i, n;
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, o, "tenant", t->name);
	td_jm_str(d, o, "parent", td_jstr(t->root, "spec.parent"));
	td_jm_str(d, o, "account", td_jstr(t->root, "status.account"));
	const yyjson_val *force = td_jfind(td_jget(t->root, "status.conditions"), "type", "QuotaEnforced");
	if (force)
		td_jm_bool(d, o, "enforced", td_streq(td_jstr(force, "status"), "True"));
	td_jm_int(d, o, "running", (long long)sum(v, t, "R", "jobs"));
	td_jm_int(d, o, "waiting", (long long)sum(v, t, "P", "jobs"));
	yyjson_mut_val *all = td_jm_arr(d, o, "resources");
	yyjson_obj_foreach (quota, i, n, key, x) {
		const char *name = yyjson_get_str(key);
		bool memory = !strcmp(name, "memory");
		td_auto_free char *tres = NULL;
		if (td_api_storage_word(name)) {
			storage(t, name, x, d, all);
			continue;
		}
		if (td_slurm_resource(v->sc, name, &tres, NULL))
			continue; // its Tenant is not Valid, and says why
		double have = amount(x, memory), used = sum(v, t, "R", tres);
		double more = amount(td_jkey(td_jget(t->root, "spec.borrowing.limit"), name), memory);
		yyjson_mut_val *r = yyjson_mut_arr_add_obj(d, all);
		td_jm_str(d, r, "resource", name);
		td_jm_int(d, r, "quota", (long long)have);
		if (!td_jbool(t->root, "spec.borrowing.all", false))
			td_jm_int(d, r, "limit", (long long)(have + more));
		td_jm_int(d, r, "used", (long long)used);
		td_jm_int(d, r, "borrowed", (long long)(used > have ? used - have : 0));
		td_jm_int(d, r, "waiting", (long long)sum(v, t, "P", tres));
	}
}

static void cell(struct td_buf *b, const yyjson_val *r, const char *field)
{
	char text[32];
	const char *name = td_jstr_or(r, "resource", "");
	long long n = td_jint(r, field, -1);
	bool storage = td_api_storage_word(name);
	if (n < 0)
		td_buf_printf(b, " %9s", "parent's");
	else if (storage && (!strcmp(field, "borrowed") || !strcmp(field, "waiting")))
		td_buf_printf(b, " %9s", ""); // it does neither
	else if (storage && td_api_storage_bytes(name))
		td_buf_printf(b, " %9s", td_quantity_format_bytes(n, text, sizeof(text)));
	else if (!strcmp(name, "memory"))
		td_buf_printf(b, " %9s", td_quantity_format_bytes(n << 20, text, sizeof(text)));
	else
		td_buf_printf(b, " %9lld", n);
}

static void table(const yyjson_val *list)
{
	static const char *const fields[] = {"quota", "limit", "used", "borrowed", "waiting"};
	size_t i, n, k, m;
	yyjson_val *t, *r;
	// Such as nvidia.com/mig-1g.10gb.
	int width = 14;
	yyjson_arr_foreach ((yyjson_val *)list, i, n, t)
		yyjson_arr_foreach (td_jget(t, "resources"), k, m, r) {
			const int len = (int)strlen(td_jstr_or(r, "resource", ""));
			width = len > width ? len : width;
		}
	printf("%-15s %-*s %9s %9s %9s %9s %9s\n", "TENANT", width, "RESOURCE", "QUOTA", "LIMIT", "USED", "BORROWED",
	       "WAITING");
	yyjson_arr_foreach ((yyjson_val *)list, i, n, t) {
		printf("%-15.15s %-*s %9s %9s %9lld %9s %9lld\n", td_jstr_or(t, "tenant", ""), width, "jobs", "", "",
		       td_jint(t, "running", 0), "", td_jint(t, "waiting", 0));
		yyjson_arr_foreach (td_jget(t, "resources"), k, m, r) {
			td_auto_buf struct td_buf b = {0};
			const char *name = td_jstr_or(r, "resource", "");
			td_buf_printf(&b, "%-15s %-*s", "", width, name);
			for (size_t f = 0; f < TD_LEN(fields); f++)
				cell(&b, r, fields[f]);
			puts(td_buf_str(&b));
		}
	}
}

// Why quotas are not in force, once; they are where nothing is said.
static void unenforced(const struct view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const yyjson_val *c =
			td_jfind(td_jget(v->tenants[i]->root, "status.conditions"), "type", "QuotaEnforced");
		if (!td_streq(td_jstr(c, "status"), "False"))
			continue;
		td_auto_free char *text = td_asprintf("note: %s.", td_jstr_or(c, "message", "quotas are only shown"));
		putchar('\n');
		td_term_wrap(text, 6, TD_TERM_COLUMNS);
		return;
	}
}

static int show(const struct td_cli_login *l, const char *name, bool json)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_objects struct td_objects all = {0};
	td_auto(td_object_unref) struct td_object *sc = NULL;
	td_auto_buf struct td_buf out = {0};
	td_auto_ledger struct td_ledger held = {0};
	if (td_kube_list(l->kube, &td_tenants, NULL, NULL, NULL, NULL, &all, &err) ||
	    td_kube_get(l->kube, &td_slurmclusters, l->ns, l->cluster, NULL, &sc, &err) ||
	    td_cli_login_run(l, "quota.sh", NULL, &out, &err))
		return failed(&err);
	if (td_ledger_read(td_buf_str(&out), 1, &held)) {
		td_cli_login_unread(l, td_buf_str(&out), &err);
		return failed(&err);
	}

	td_auto_free const struct td_object **mine = td_calloc(all.n + 1, sizeof(*mine));
	struct view v = {.tenants = mine, .held = &held, .sc = sc->root};
	for (size_t i = 0; i < all.n; i++)
		if (td_streq(td_jstr(all.v[i]->root, "spec.cluster.namespace"), l->ns) &&
		    td_streq(td_jstr(all.v[i]->root, "spec.cluster.name"), l->cluster))
			mine[v.n++] = all.v[i];
	if (name && !find(&v, name)) {
		td_fail(&err, TD_NOT_FOUND,
			"there is no Tenant %s of SlurmCluster %s/%s: `kubectl get tenants` lists them", name, l->ns,
			l->cluster);
		return failed(&err);
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "tenants");
	for (size_t i = 0; i < v.n; i++)
		if (!name || within(&v, v.tenants[i], find(&v, name)))
			one(&v, v.tenants[i], d, list);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	if (json) {
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	} else if (v.n) {
		table(td_jget(td_json_root(j), "tenants"));
		unenforced(&v);
	} else {
		puts("There are no Tenants.");
	}
	return 0;
}

int td_quota_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	struct td_error err = TD_ERROR_INIT;
	const char *output = NULL;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: the answer for machines; memory is in MB, storage in bytes",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {
		.name = "quota",
		.about = "Shows what tenants may hold, what their jobs and pods hold now, and what waits; all\n"
			 "with what the tenants below them have. LIMIT is the quota with what may be borrowed.",
		.options = options,
		.n = TD_LEN(options),
		.max_args = 1,
		.args = "TENANT",
		.exits = "0 answered, 1 no such tenant, or no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("quota", "%s", err.msg);

	td_auto_login struct td_cli_login l = {0};
	return td_cli_login_open("quota", &remote, &l) ? 1 : show(&l, words[0], output != NULL);
}
