// GET /bills, /bills/PERIOD: bills as people ask for them.
#include "gateway/bills.h"

#include "base/clock.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

// What a person may see of a bill; its total is that of the lines that are left. The caller frees it.
static yyjson_mut_doc *part_of(const struct td_gateway_viewer *v, const yyjson_val *bill, bool open)
{
	static const char *const head[] = {"period", "from", "to", "currency"};
	const struct td_usage_viewer may = {.user = v->user, .all = v->all, .leads = &v->leads};
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	for (size_t i = 0; i < TD_LEN(head); i++)
		td_jm_copyval(d, o, head[i], td_jget(bill, head[i]));
	if (!open)
		td_jm_copyval(d, o, "made", td_jget(bill, "made"));
	td_jm_bool(d, o, "open", open);
	yyjson_mut_val *lines = td_jm_arr(d, o, "lines");
	size_t i, n;
	yyjson_val *l;
	long long cents = 0;
	yyjson_arr_foreach (td_jget(bill, "lines"), i, n, l) {
		if (!td_usage_may(&may, td_jstr_or(l, "account", ""), td_jstr_or(l, "user", "")))
			continue;
		yyjson_mut_arr_append(lines, yyjson_val_mut_copy(d, l));
		cents += (long long)(yyjson_get_num(td_jget(l, "cost")) * 100 + 0.5);
	}
	td_jm_set(d, o, "total", yyjson_mut_real(d, (double)cents / 100));
	return d;
}

// The period that goes on, as far as it is. NULL in *ret: there are no prices.
static int preview(struct td_gateway_ask *q, const struct td_gateway_viewer *v, struct td_json **ret,
		   struct td_error *err)
{
	td_auto_tariff struct td_gateway_tariff t = {0};
	td_auto_usage struct td_usage rows = {0};
	td_gateway_tariff(q->g, v, &t);
	if (!t.all.n)
		return 0;
	const struct td_period p = td_period_at(t.kind, td_real_ms(&td_clock_system) / 1000 / TD_USAGE_DAY_S);
	int r = td_gateway_used(q->g, &(const struct td_gateway_span){.from = p.from, .to = p.to}, td_gateway_cancel(q),
				&rows, err);
	if (r)
		return r;
	td_gateway_reckon(&t, &rows);
	*ret = td_jm_done(td_gateway_bill(v, &t, &p, &rows));
	return 0;
}

static int read_made(const struct td_object *o, struct td_json **ret, struct td_error *err)
{
	const char *text = td_jkey_str(td_jget(o->root, "data"), "bill.json");
	int r = td_json_parse(text ? text : "", text ? strlen(text) : 0, ret, err);
	return r ? td_wrap(err, "ConfigMap %s/%s", o->ns, o->name) : 0;
}

static void add_head(yyjson_mut_doc *d, yyjson_mut_val *list, yyjson_mut_doc *part)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(part);
	yyjson_mut_obj_remove_key(o, "lines");
	yyjson_mut_arr_append(list, yyjson_mut_val_mut_copy(d, o));
}

static int newest_first(const void *a, const void *b)
{
	const struct td_object *x = *(const struct td_object *const *)a, *y = *(const struct td_object *const *)b;
	return strcmp(td_object_label(y, TD_LABEL_BILL), td_object_label(x, TD_LABEL_BILL));
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto_objects struct td_objects made = {0};
	td_auto(td_json_unref) struct td_json *now = NULL;
	int r;
	if ((r = td_gateway_viewer(q, &v, err)) || (r = td_gateway_bill_list(q->g, td_gateway_cancel(q), &made, err)) ||
	    (r = preview(q, &v, &now, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *all = td_jm_arr(d, yyjson_mut_doc_get_root(d), "bills");
	if (now) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *part = part_of(&v, td_json_root(now), true);
		add_head(d, all, part);
	}
	if (made.n)
		qsort(made.v, made.n, sizeof(*made.v), newest_first);
	for (size_t i = 0; i < made.n; i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		if ((r = read_made(made.v[i], &j, err)))
			return r;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *part = part_of(&v, td_json_root(j), false);
		add_head(d, all, part);
	}
	td_gateway_send(q, 200, d);
	return 0;
}

static void send_csv(struct td_gateway_ask *q, yyjson_mut_doc *part)
{
	static const char *const words[] = {"tenant", "account", "user", "gpuType"};
	static const char *const figures[] = {"jobs", "gpuHours", "cpuHours", "wastedGpuHours", "cost"};
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(part));
	td_auto_buf struct td_buf b = {0};
	const yyjson_val *root = td_json_root(j);
	size_t i, n;
	yyjson_val *l;
	td_buf_puts(&b,
		    "period,tenant,account,user,gpu_type,jobs,gpu_hours,cpu_hours,wasted_gpu_hours,cost,currency\r\n");
	yyjson_arr_foreach (td_jget(root, "lines"), i, n, l) {
		td_gateway_csv(&b, td_jstr_or(root, "period", ""));
		for (size_t k = 0; k < TD_LEN(words); k++)
			td_gateway_csv(&b, td_jstr_or(l, words[k], ""));
		for (size_t k = 0; k < TD_LEN(figures); k++)
			td_buf_printf(&b,
				      k == 0                     ? "%.0f,"
				      : k == TD_LEN(figures) - 1 ? "%.2f,"
								 : "%.3f,",
				      yyjson_get_num(td_jget(l, figures[k])));
		td_buf_printf(&b, "%s\r\n", td_jstr_or(root, "currency", ""));
	}
	td_auto_free char *name =
		td_asprintf("attachment; filename=\"bill-%.20s.csv\"", td_jstr_or(root, "period", ""));
	td_http_add_header(q->x, "Content-Disposition", name);
	td_http_send(q->x, 200, "text/csv; charset=utf-8", td_buf_str(&b), b.len);
}

static int get(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto_objects struct td_objects made = {0};
	td_auto(td_json_unref) struct td_json *bill = NULL;
	struct td_period p;
	char name[TD_PERIOD_LEN];
	bool csv;
	int r;
	if (!td_period_parse(q->args[0], &p))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no period: give 2026-11, 2026-q4 or 2026-11-25",
			       q->args[0]);
	if ((r = td_gateway_wants_csv(q, &csv, err)))
		return r;
	td_period_name(&p, name);
	if ((r = td_gateway_viewer(q, &v, err)) || (r = td_gateway_bill_list(q->g, td_gateway_cancel(q), &made, err)))
		return r;
	for (size_t i = 0; i < made.n && !bill; i++)
		if (td_streq(td_object_label(made.v[i], TD_LABEL_BILL), name) && (r = read_made(made.v[i], &bill, err)))
			return r;
	bool open = !bill;
	if (open && (r = preview(q, &v, &bill, err)))
		return r;
	if (!bill || !td_streq(td_jstr(td_json_root(bill), "period"), name))
		return td_fail(err, TD_NOT_FOUND,
			       "there is no bill of %s: `tandem bill`, or GET /api/v1/bills, lists them", name);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *part = part_of(&v, td_json_root(bill), open);
	if (csv)
		send_csv(q, part);
	else
		td_gateway_send(q, 200, part);
	return 0;
}

const struct td_gateway_op td_gateway_bill_ops[] = {{"listBills", list}, {"getBill", get}, {NULL, NULL}};
