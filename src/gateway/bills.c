// Bills of periods that are over. Each is one object, made by a create with its name: however many gateways try, and
// however often, one of them makes it, and then it is never changed (it is immutable). A gateway that ends in the
// midst has made nothing.
#include "gateway/bills.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

enum {
	LOOK_MS = 2500,
	CLOSE_S = 3600,        // after its end; jobs that ended in its last moments are in the history by then
	BACK_MOST = 120,       // periods
	LINES_MOST = 4000,     // of people
	TEXT_MOST = 900 << 10, // bytes: an object holds 1 MiB
	AGAIN_MS = 60000,      // after a failure
	WHOLE_MS = 3600000,    // then a bill that somebody deleted is missed
};

int td_gateway_bill_list(struct td_gateway *g, struct td_cancel *c, struct td_objects *ret, struct td_error *err)
{
	td_auto_free char *labels = td_asprintf(TD_LABEL_BILL "," TD_LABEL_CLUSTER "=%s", g->o.cluster);
	int r = td_kube_list(g->kube, &td_configmaps, g->o.ns, labels, NULL, c, ret, err);
	return r ? td_wrap(err, "reading bills in namespace %s", g->o.ns) : 0;
}

// The lines of a bill, of people or of accounts only.
static void lines_of(const struct td_usage *rows, bool people, struct td_usage *ret)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct td_usage_row r = rows->v[i];
		r.day = -1;
		if (!people)
			r.user = (char *)(uintptr_t)"";
		td_usage_put(ret, &r);
	}
	td_usage_settle(ret);
}

// people: unless there are too many of them.
static yyjson_mut_doc *bill_of(const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
			       const struct td_period *p, const struct td_usage *rows, bool people)
{
	td_auto_usage struct td_usage lines = {0};
	char text[TD_PERIOD_LEN];
	lines_of(rows, people, &lines);
	if (people && lines.n > LINES_MOST) {
		td_usage_done(&lines);
		lines_of(rows, false, &lines);
	}
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_period_name(p, text);
	td_jm_str(d, o, "period", text);
	td_day_name(p->from, text);
	td_jm_str(d, o, "from", text);
	td_day_name(p->to, text);
	td_jm_str(d, o, "to", text);
	td_jm_str(d, o, "currency", t->currency);
	td_jm_int(d, o, "made", td_real_ms(&td_clock_system) / 1000);
	yyjson_mut_val *list = td_jm_arr(d, o, "lines");
	double total = 0;
	for (size_t i = 0; i < lines.n; i++) {
		const struct td_usage_row *r = &lines.v[i];
		const struct td_object *tenant = td_gateway_tenant_of(v, r->account);
		yyjson_mut_val *l = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, l, "tenant", tenant ? tenant->name : NULL);
		td_jm_str(d, l, "account", r->account);
		td_jm_str(d, l, "user", r->user);
		td_jm_str(d, l, "gpuType", r->type);
		td_jm_int(d, l, "jobs", (long long)r->sum.runs);
		td_jm_set(d, l, "gpuHours", yyjson_mut_real(d, td_gateway_hours(r->sum.gpu)));
		td_jm_set(d, l, "cpuHours", yyjson_mut_real(d, td_gateway_hours(r->sum.cpu)));
		td_jm_set(d, l, "wastedGpuHours", yyjson_mut_real(d, td_gateway_hours(r->sum.lost)));
		td_jm_set(d, l, "cost", yyjson_mut_real(d, td_gateway_cents(r->sum.cost)));
		total += td_gateway_cents(r->sum.cost); // so that the lines add up
	}
	td_jm_set(d, o, "total", yyjson_mut_real(d, td_gateway_cents(total)));
	return d;
}

yyjson_mut_doc *td_gateway_bill(const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
				const struct td_period *p, const struct td_usage *rows)
{
	return bill_of(v, t, p, rows, true);
}

int td_gateway_bill_text(const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
			 const struct td_period *p, const struct td_usage *rows, char **ret, struct td_error *err)
{
	size_t n = 0;
	for (int people = 1; people >= 0; people--) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *bill = bill_of(v, t, p, rows, people);
		td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(bill), &n);
		if (n <= TEXT_MOST) {
			*ret = td_steal(text);
			return 0;
		}
	}
	return td_fail(err, TD_INVALID,
		       "%zu bytes even with sums of accounts only, and an object holds 1 MiB: set a shorter "
		       "spec.billing.period",
		       n);
}

// Makes the bill of one period that is over.
static int make(struct td_gateway *g, const struct td_gateway_viewer *v, const struct td_gateway_tariff *t,
		const struct td_period *p, struct td_error *err)
{
	char period[TD_PERIOD_LEN];
	td_auto_usage struct td_usage rows = {0};
	int r = td_gateway_used(g, &(const struct td_gateway_span){.from = p->from, .to = p->to, .anew = true},
				g->cancel, &rows, err);
	if (r)
		return r;
	td_gateway_reckon(t, &rows);
	td_auto_free char *text = NULL;
	if ((r = td_gateway_bill_text(v, t, p, &rows, &text, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_period_name(p, period);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "ConfigMap");
	td_jm_strf(d, o, "metadata.name", "%s-bill-%s", g->o.cluster, period);
	td_jm_str(d, o, "metadata.namespace", g->o.ns);
	yyjson_mut_val *labels = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, g->o.cluster);
	td_jm_key_str(d, labels, TD_LABEL_BILL, period);
	td_jm_bool(d, o, "immutable", true);
	td_jm_key_str(d, td_jm_obj(d, o, "data"), "bill.json", text);
	r = td_kube_create(g->kube, &td_configmaps, g->o.ns, o, g->cancel, NULL, err);
	if (r && r != TD_EXISTS)
		return td_wrap(err, "ConfigMap %s/%s-bill-%s", g->o.ns, g->o.cluster, period);
	if (!r)
		td_info("bill of %s: %zu rows", period, rows.n);
	return 0;
}

static bool have(const struct td_objects *l, const char *period)
{
	for (size_t i = 0; i < l->n; i++)
		if (td_streq(td_object_label(l->v[i], TD_LABEL_BILL), period))
			return true;
	return false;
}

// The periods that are over and have prices: [*ret_from, *ret_to), days. False: there are none.
static bool over(const struct td_gateway_tariff *t, int64_t *ret_from, int64_t *ret_to)
{
	int64_t first = td_price_first(&t->all);
	if (first < 0)
		return false;
	*ret_from = td_period_at(t->kind, first).from;
	*ret_to = td_period_at(t->kind, (td_real_ms(&td_clock_system) / 1000 - CLOSE_S) / TD_USAGE_DAY_S).from;
	return *ret_from < *ret_to;
}

// What a look is for, by price list and clock alone.
struct due {
	int64_t to;    // the day before which all periods are over; 0: none is
	char *billing; // spec.billing, as text; NULL: nobody makes bills
};

static void due_done(struct due *d)
{
	free(d->billing);
}

static void read_due(struct td_gateway *g, struct due *ret)
{
	const struct td_gateway_viewer nobody = {0};
	td_auto_tariff struct td_gateway_tariff t = {0};
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	int64_t from, to;
	*ret = (struct due){0};
	if (!sc || !yyjson_arr_size(td_jget(sc->root, "spec.billing.prices")) ||
	    !td_jbool(sc->root, "spec.accounting.enabled", false))
		return;
	ret->billing = td_json_text(td_jget(sc->root, "spec.billing"), NULL);
	td_gateway_tariff(g, &nobody, &t);
	if (over(&t, &from, &to))
		ret->to = to;
}

// Makes the bills that are due and are not there. What is wrong with one period does not keep back later ones.
static int make_all(struct td_gateway *g, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto_tariff struct td_gateway_tariff t = {0};
	td_auto_objects struct td_objects made = {0};
	int64_t from, to;
	int r, failed = 0;
	if ((r = td_gateway_tenants(g, g->cancel, &v, err)) || (r = td_gateway_bill_list(g, g->cancel, &made, err)))
		return r;
	td_gateway_tariff(g, &v, &t);
	if (!over(&t, &from, &to)) // there are other prices by now
		return 0;
	size_t behind = 0;
	for (struct td_period x = td_period_at(t.kind, from); x.to <= to; x = td_period_next(&x))
		behind++;
	for (struct td_period p = td_period_at(t.kind, from); p.to <= to; p = td_period_next(&p), behind--) {
		struct td_error e = TD_ERROR_INIT;
		char name[TD_PERIOD_LEN];
		td_period_name(&p, name);
		if (behind > BACK_MOST || have(&made, name) || !make(g, &v, &t, &p, &e))
			continue;
		if (!failed) {
			*err = e;
			failed = td_wrap(err, "bill of %s", name);
		}
		if (e.code == TD_CANCELLED || (e.code == TD_TRANSIENT && !e.http)) // nobody answers, now
			break;
	}
	return failed;
}

void *td_bill_thread(void *gateway)
{
	struct td_gateway *g = gateway;
	td_auto_free char *said = NULL;
	__attribute__((cleanup(due_done))) struct due last = {0}; // what was looked at
	int64_t next_ms = 0;
	while (!td_cancel_wait(g->cancel, LOOK_MS)) {
		struct td_error e = TD_ERROR_INIT;
		struct due due;
		int64_t now_ms = td_mono_ms(&td_clock_system);
		int r = 0;
		read_due(g, &due);
		if (now_ms < next_ms && due.to == last.to && td_streq(due.billing, last.billing)) {
			due_done(&due);
			continue;
		}
		due_done(&last);
		last = due;
		if (due.to)
			r = make_all(g, &e);
		next_ms = td_mono_ms(&td_clock_system) + (r ? AGAIN_MS : WHOLE_MS);
		if (r && !td_streq(said, e.msg))
			td_warn("bills: %s", e.msg);
		free(said);
		said = r ? td_strdup(e.msg) : NULL;
	}
	return NULL;
}
