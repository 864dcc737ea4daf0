// Calls to slurmdbd. Parser v0.0.42: a number that is not set is no limit.
#include "slurm/accounts.h"
#include "slurm/rest_priv.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_PER_CALL = 100 };

void td_slurm_assocs_done(struct td_slurm_assocs *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct td_slurm_assoc *a = &l->v[i];
		for (size_t k = 0; k < a->n_grp; k++)
			free(a->grp[k].tres);
		for (size_t k = 0; k < a->n_qos; k++)
			free(a->qos[k]);
		free(a->qos);
		free(a->default_qos);
		free(a->grp);
		free(a->account);
		free(a->user);
		free(a->parent);
		free(a->comment);
	}
	free(l->v);
	*l = (struct td_slurm_assocs){0};
}

void td_slurm_accounts_done(struct td_slurm_accounts *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].description);
		free(l->v[i].organization);
	}
	free(l->v);
	*l = (struct td_slurm_accounts){0};
}

// ---- reading ----

static int64_t limit(const yyjson_val *a, const char *path)
{
	const yyjson_val *v = td_jget(a, path);
	return td_jbool(v, "set", false) && !td_jbool(v, "infinite", false) ? td_jint(v, "number", -1) : -1;
}

struct td_slurm_limit *td_slurm_tres_read(const yyjson_val *list, size_t *ret_n)
{
	size_t i, n;
	yyjson_val *t;
	struct td_slurm_limit *v = td_calloc(yyjson_arr_size((yyjson_val *)list) + 1, sizeof(*v));
	*ret_n = 0;
	yyjson_arr_foreach ((yyjson_val *)list, i, n, t) {
		const char *type = td_jstr(t, "type"), *name = td_jstr_or(t, "name", "");
		if (type)
			v[(*ret_n)++] = (struct td_slurm_limit){.tres = *name ? td_asprintf("%s/%s", type, name)
									      : td_strdup(type),
								.count = td_jint(t, "count", 0)};
	}
	return v;
}

static void read_qos(yyjson_val *list, struct td_slurm_assoc *x)
{
	yyjson_val *q;
	size_t i, n;
	x->qos = td_calloc(yyjson_arr_size(list) + 1, sizeof(char *));
	yyjson_arr_foreach (list, i, n, q)
		if (yyjson_is_str(q))
			x->qos[x->n_qos++] = td_strdup(yyjson_get_str(q));
}

int td_slurm_assocs_read(const yyjson_val *root, struct td_slurm_assocs *ret, struct td_error *err)
{
	yyjson_val *list = td_jget(root, "associations"), *a;
	size_t i, n;
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "slurmrestd: an answer without a list of associations");
	ret->v = td_realloc(ret->v, (ret->n + yyjson_arr_size(list) + 1) * sizeof(*ret->v));
	yyjson_arr_foreach (list, i, n, a) {
		struct td_slurm_assoc *x = &ret->v[ret->n];
		// A row of one partition is the administrator's: Tandem makes none.
		if (!td_jstr(a, "account") || *td_jstr_or(a, "partition", ""))
			continue;
		*x = (struct td_slurm_assoc){.account = td_strdup(td_jstr(a, "account")),
					     .user = td_strdup(td_jstr_or(a, "user", "")),
					     .parent = td_strdup(td_jstr_or(a, "parent_account", "")),
					     .comment = td_strdup(td_jstr_or(a, "comment", "")),
					     .shares = td_jint(a, "shares_raw", 1),
					     .is_default = td_jbool(a, "is_default", false),
					     .grp_submit = limit(a, "max.jobs.per.submitted"),
					     .max_jobs = limit(a, "max.jobs.active"),
					     .max_submit = limit(a, "max.jobs.total")};
		x->grp = td_slurm_tres_read(td_jget(a, "max.tres.total"), &x->n_grp);
		x->default_qos = td_strdup(td_jstr_or(a, "default.qos", ""));
		read_qos(td_jget(a, "qos"), x);
		ret->n++;
	}
	return 0;
}

static int get(struct td_slurm *s, const char *path, struct td_cancel *c, struct td_json **ret, struct td_error *err)
{
	const struct td_slurm_call k = {.op = TD_SLURM_ACCOUNTING, .method = "GET", .path = path, .db = true};
	return td_slurm_call_ok(s, &k, c, ret, err);
}

static int post(struct td_slurm *s, const char *path, yyjson_mut_doc *d, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *body = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
	const struct td_slurm_call k = {
		.op = TD_SLURM_ACCOUNTING, .method = "POST", .path = path, .body = body, .db = true};
	return td_slurm_call_ok(s, &k, c, NULL, err);
}

// Nobody's name may be empty: slurmdbd takes that for everybody's.
static int named(const char *what, const char *name, struct td_error *err)
{
	return name && *name ? 0 : td_fail(err, TD_INTERNAL, "slurmdbd: a call without the name of the %s", what);
}

int td_slurm_accounts(struct td_slurm *s, struct td_cancel *c, struct td_slurm_accounts *ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = get(s, "/accounts/", c, &j, err);
	if (r)
		return td_wrap(err, "reading the accounts");
	yyjson_val *list = td_jget(td_json_root(j), "accounts"), *a;
	size_t i, n;
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "slurmrestd: an answer without a list of accounts");
	struct td_slurm_accounts all = {.v = td_calloc(yyjson_arr_size(list) + 1, sizeof(*all.v))};
	yyjson_arr_foreach (list, i, n, a)
		all.v[all.n++] = (struct td_slurm_account){td_strdup(td_jstr_or(a, "name", "")),
							   td_strdup(td_jstr_or(a, "description", "")),
							   td_strdup(td_jstr_or(a, "organization", ""))};
	*ret = all;
	return 0;
}

static int read_some(struct td_slurm *s, const char *query, struct td_cancel *c, struct td_slurm_assocs *ret,
		     struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = get(s, query, c, &j, err);
	return r ? td_wrap(err, "reading associations") : td_slurm_assocs_read(td_json_root(j), ret, err);
}

int td_slurm_assocs(struct td_slurm *s, const char *cluster, const struct td_strv *accounts, struct td_cancel *c,
		    struct td_slurm_assocs *ret, struct td_error *err)
{
	td_auto_assocs struct td_slurm_assocs all = {0};
	int r = cluster ? named("cluster", cluster, err) : 0;
	for (size_t at = 0; at < accounts->n && !r; at += NAMES_PER_CALL) {
		td_auto_buf struct td_buf q = {0};
		td_buf_puts(&q, "/associations/?");
		if (cluster) {
			td_buf_puts(&q, "cluster=");
			td_url_escape(&q, cluster);
		}
		for (size_t i = at; i < accounts->n && i < at + NAMES_PER_CALL && !r; i++) {
			td_buf_puts(&q, i == at ? (cluster ? "&account=" : "account=") : "%2C");
			td_url_escape(&q, accounts->v[i]);
			r = named("account", accounts->v[i], err);
		}
		if (!r)
			r = read_some(s, td_buf_str(&q), c, &all, err);
	}
	if (r)
		return r;
	*ret = all;
	all = (struct td_slurm_assocs){0};
	return 0;
}

int td_slurm_assocs_of(struct td_slurm *s, const char *cluster, const char *user, struct td_cancel *c,
		       struct td_slurm_assocs *ret, struct td_error *err)
{
	td_auto_assocs struct td_slurm_assocs all = {0};
	td_auto_buf struct td_buf q = {0};
	int r;
	if ((r = named("cluster", cluster, err)) || (r = named("user", user, err)))
		return r;
	td_buf_puts(&q, "/associations/?cluster=");
	td_url_escape(&q, cluster);
	td_buf_puts(&q, "&user=");
	td_url_escape(&q, user);
	if ((r = read_some(s, td_buf_str(&q), c, &all, err)))
		return r;
	*ret = all;
	all = (struct td_slurm_assocs){0};
	return 0;
}

int td_slurm_account_jobs(struct td_slurm *s, const char *cluster, const char *account, size_t most,
			  struct td_cancel *c, struct td_strv *ret, size_t *ret_n, struct td_error *err)
{
	static const char *const states[] = {"RUNNING", "PENDING"};
	td_auto_strv struct td_strv all = {0};
	size_t total = 0;
	int r;
	if ((r = named("cluster", cluster, err)) || (r = named("account", account, err)))
		return r;
	for (size_t k = 0; k < TD_LEN(states); k++) {
		td_auto_buf struct td_buf q = {0};
		td_auto(td_json_unref) struct td_json *j = NULL;
		td_buf_printf(&q, "/jobs/?skip_steps=true&state=%s&cluster=", states[k]);
		td_url_escape(&q, cluster);
		td_buf_puts(&q, "&account=");
		td_url_escape(&q, account);
		if ((r = get(s, td_buf_str(&q), c, &j, err)))
			return td_wrap(err, "reading the jobs of account %s", account);
		yyjson_val *list = td_jget(td_json_root(j), "jobs"), *x;
		size_t i, n;
		total += yyjson_arr_size(list);
		yyjson_arr_foreach (list, i, n, x)
			if (all.n < most)
				td_strv_addf(&all, "%lld of %s", td_jint(x, "job_id", 0),
					     td_jstr_or(x, "association.user", "?"));
	}
	*ret = all;
	*ret_n = total;
	all = (struct td_strv){0};
	return 0;
}

void td_slurm_held_done(struct td_slurm_held_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].n_tres; k++)
			free(l->v[i].tres[k].tres);
		free(l->v[i].tres);
		free(l->v[i].account);
		free(l->v[i].user);
		free(l->v[i].job);
	}
	free(l->v);
	*l = (struct td_slurm_held_list){0};
}

int td_slurm_held(struct td_slurm *s, const char *cluster, const struct td_strv *accounts, struct td_cancel *c,
		  struct td_slurm_held_list *ret, struct td_error *err)
{
	td_auto_buf struct td_buf q = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = accounts->n ? named("cluster", cluster, err) : td_fail(err, TD_INTERNAL, "slurmdbd: no account");
	td_buf_puts(&q, "/jobs/?skip_steps=true&state=RUNNING&cluster=");
	td_url_escape(&q, cluster);
	for (size_t i = 0; i < accounts->n && !r; i++) {
		td_buf_puts(&q, i ? "%2C" : "&account=");
		td_url_escape(&q, accounts->v[i]);
		r = named("account", accounts->v[i], err);
	}
	if (r || (r = get(s, td_buf_str(&q), c, &j, err)))
		return r;

	yyjson_val *list = td_jget(td_json_root(j), "jobs"), *x;
	size_t i, n;
	struct td_slurm_held_list all = {.v = td_calloc(yyjson_arr_size(list) + 1, sizeof(*all.v))};
	yyjson_arr_foreach (list, i, n, x) {
		struct td_slurm_held *h = &all.v[all.n++];
		int64_t minutes = limit(x, "time.limit");
		*h = (struct td_slurm_held){.account = td_strdup(td_jstr_or(x, "account", "")),
					    .user = td_strdup(td_jstr_or(x, "association.user", "")),
					    .job = td_asprintf("%lld of %s", td_jint(x, "job_id", 0),
							       td_jstr_or(x, "association.user", "?")),
					    .end = minutes > 0 ? td_jint(x, "time.start", 0) + 60 * minutes : 0};
		h->tres = td_slurm_tres_read(td_jget(x, "tres.allocated"), &h->n_tres);
	}
	*ret = all;
	return 0;
}

// ---- writing ----

static void strings(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const char *s)
{
	yyjson_mut_arr_append(td_jm_arr(d, o, path), yyjson_mut_strcpy(d, s));
}

int td_slurm_account_add(struct td_slurm *s, const char *cluster, const struct td_slurm_account *account,
			 const struct td_slurm_assoc *a, struct td_cancel *c, struct td_error *err)
{
	int r;
	if ((r = named("cluster", cluster, err)) || (r = named("account", account->name, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	strings(d, o, "association_condition.accounts", account->name);
	strings(d, o, "association_condition.clusters", cluster);
	td_jm_int(d, o, "association_condition.association.fairshare", a->shares);
	td_jm_str(d, o, "association_condition.association.parent", a->parent && *a->parent ? a->parent : NULL);
	td_jm_str(d, o, "association_condition.association.comment", a->comment);
	td_jm_str(d, o, "account.description", account->description);
	td_jm_str(d, o, "account.organization", account->organization);
	r = post(s, "/accounts_association/", d, c, err);
	return r ? td_wrap(err, "adding account %s", account->name) : 0;
}

// A limit of jobs. One that is lifted must be said so: what a write leaves out stays.
static void number(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, int64_t n)
{
	yyjson_mut_val *v = td_jm_obj(d, o, path);
	td_jm_bool(d, v, "set", n >= 0);
	td_jm_bool(d, v, "infinite", n < 0);
	td_jm_int(d, v, "number", n < 0 ? 0 : n);
}

void td_slurm_tres_write(yyjson_mut_doc *d, yyjson_mut_val *list, const struct td_slurm_limit *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *slash = strchr(v[i].tres, '/');
		td_auto_free char *type =
			slash ? td_strndup(v[i].tres, (size_t)(slash - v[i].tres)) : td_strdup(v[i].tres);
		yyjson_mut_val *t = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, t, "type", type);
		td_jm_str(d, t, "name", slash ? slash + 1 : "");
		td_jm_int(d, t, "count", v[i].count);
	}
}

int td_slurm_assoc_set(struct td_slurm *s, const char *cluster, const struct td_slurm_assoc *a, struct td_cancel *c,
		       struct td_error *err)
{
	int r;
	if ((r = named("cluster", cluster, err)) || (r = named("account", a->account, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "associations"));
	td_jm_str(d, o, "account", a->account);
	td_jm_str(d, o, "user", a->user ? a->user : "");
	td_jm_str(d, o, "cluster", cluster);
	if (!a->user || !*a->user)
		td_jm_str(d, o, "parent_account", a->parent && *a->parent ? a->parent : NULL);
	td_jm_int(d, o, "shares_raw", a->shares);
	td_slurm_tres_write(d, td_jm_arr(d, o, "max.tres.total"), a->grp, a->n_grp);
	if (a->qos) {
		for (size_t i = 0; i < a->n_qos; i++)
			strings(d, o, "qos", a->qos[i]);
		td_jm_str(d, o, "default.qos", a->default_qos ? a->default_qos : "");
	}
	number(d, o, "max.jobs.per.submitted", a->grp_submit);
	number(d, o, "max.jobs.active", a->max_jobs);
	number(d, o, "max.jobs.total", a->max_submit);
	r = post(s, "/associations/", d, c, err);
	return r ? td_wrap(err, "changing account %s%s%s", a->account, a->user && *a->user ? ", user " : "",
			   a->user ? a->user : "")
		 : 0;
}

int td_slurm_users_add(struct td_slurm *s, const char *cluster, const char *account, const struct td_strv *users,
		       const char *comment, struct td_cancel *c, struct td_error *err)
{
	int r;
	if (!users->n)
		return 0;
	if ((r = named("cluster", cluster, err)) || (r = named("account", account, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	for (size_t i = 0; i < users->n; i++) {
		if ((r = named("user", users->v[i], err)))
			return r;
		strings(d, o, "association_condition.users", users->v[i]);
	}
	strings(d, o, "association_condition.accounts", account);
	strings(d, o, "association_condition.clusters", cluster);
	td_jm_str(d, o, "association_condition.association.comment", comment);
	td_jm_obj(d, o, "user");
	r = post(s, "/users_association/", d, c, err);
	return r ? td_wrap(err, "adding users to account %s", account) : 0;
}

int td_slurm_user_default(struct td_slurm *s, const char *user, const char *account, struct td_cancel *c,
			  struct td_error *err)
{
	int r;
	if ((r = named("user", user, err)) || (r = named("account", account, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "users"));
	td_jm_str(d, o, "name", user);
	td_jm_str(d, o, "default.account", account);
	r = post(s, "/users/", d, c, err);
	return r ? td_wrap(err, "default account %s of user %s", account, user) : 0;
}

// The numbers are those of slurm_errno.h of 24.11.
enum { JOBS_RUN = 7001, IS_DEFAULT = 7009 };

static int removal(struct td_slurm *s, const char *path, struct td_cancel *c, struct td_error *err)
{
	const struct td_slurm_call k = {.op = TD_SLURM_ACCOUNTING, .method = "DELETE", .path = path, .db = true};
	struct td_error e = TD_ERROR_INIT;
	int r = td_slurm_call_ok(s, &k, c, NULL, &e);
	if (!r)
		return 0;
	return td_fail_detail(err,
			      e.detail == JOBS_RUN     ? TD_CONFLICT
			      : e.detail == IS_DEFAULT ? TD_EXISTS
						       : r,
			      e.detail, "%s", e.msg);
}

int td_slurm_assoc_remove(struct td_slurm *s, const char *cluster, const char *account, const char *user,
			  struct td_cancel *c, struct td_error *err)
{
	int r;
	if ((r = named("cluster", cluster, err)) || (r = named("account", account, err)) ||
	    (user && (r = named("user", user, err))))
		return r;
	td_auto_buf struct td_buf q = {0};
	td_buf_puts(&q, "/associations/?cluster=");
	td_url_escape(&q, cluster);
	td_buf_puts(&q, "&account=");
	td_url_escape(&q, account);
	if (user) {
		td_buf_puts(&q, "&user=");
		td_url_escape(&q, user);
	}
	r = removal(s, td_buf_str(&q), c, err);
	return r ? td_wrap(err, "removing %s%saccount %s", user ? user : "", user ? " from " : "", account) : 0;
}

int td_slurm_account_remove(struct td_slurm *s, const char *account, struct td_cancel *c, struct td_error *err)
{
	int r = named("account", account, err);
	if (r)
		return r;
	td_auto_buf struct td_buf q = {0};
	td_buf_puts(&q, "/account/");
	td_url_escape(&q, account);
	r = removal(s, td_buf_str(&q), c, err);
	return r ? td_wrap(err, "removing account %s", account) : 0;
}
