// Cells of roles and their bindings, and of the addresses of services.
#include "apiserver/cells.h"

#include <string.h>

enum { SHOWN = 3 }; // at most so many addresses or ports are shown; the rest is counted

struct shown {
	struct td_buf b;
	size_t n;
};

static void show(struct shown *s, const char *text)
{
	if (s->n++ < SHOWN)
		td_buf_printf(&s->b, "%s%s", s->b.len ? "," : "", text);
}

static void put(struct shown *s, const char *none, struct td_buf *out)
{
	if (s->n > SHOWN)
		td_buf_printf(&s->b, " + %zu more...", s->n - SHOWN);
	td_cell_str(out, s->n ? td_buf_str(&s->b) : none);
	td_buf_done(&s->b);
}

static void role_ref(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_free char *text =
		td_asprintf("%s/%s", td_jstr_or(o, "roleRef.kind", ""), td_jstr_or(o, "roleRef.name", ""));
	td_cell_str(out, text);
}

// The names of the subjects whose kind is `path`.
static void subjects(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf b = {0};
	yyjson_val *s;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "subjects"), i, n, s) {
		const char *ns = td_jstr_or(s, "namespace", "");
		if (!td_streq(td_jstr(s, "kind"), c->path))
			continue;
		td_buf_printf(&b, "%s%s%s%s", b.len ? ", " : "", ns, *ns ? "/" : "", td_jstr_or(s, "name", ""));
	}
	td_cell_str(out, td_buf_str(&b));
}

static void endpoint_list(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct shown s = {0};
	yyjson_val *set, *p, *a;
	size_t i, n, j, m, k, l;
	yyjson_arr_foreach (td_jget(o, "subsets"), i, n, set) {
		yyjson_val *ports = td_jkey(set, "ports"), *addresses = td_jkey(set, "addresses");
		if (!yyjson_arr_size(ports))
			yyjson_arr_foreach (addresses, k, l, a)
				show(&s, td_jstr_or(a, "ip", ""));
		yyjson_arr_foreach (ports, j, m, p)
			yyjson_arr_foreach (addresses, k, l, a) {
				const char *ip = td_jstr_or(a, "ip", "");
				bool six = strchr(ip, ':');
				td_auto_free char *text = td_asprintf("%s%s%s:%lld", six ? "[" : "", ip, six ? "]" : "",
								      td_jint(p, "port", 0));
				show(&s, text);
			}
	}

	put(&s, "<none>", out);
}

static void slice_ports(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct shown s = {0};
	yyjson_val *p;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "ports"), i, n, p) {
		long long port = td_jint(p, "port", 0);
		td_auto_free char *text = port ? td_asprintf("%lld", port) : td_strdup(td_jstr_or(p, "name", "*"));
		show(&s, text);
	}
	put(&s, "<unset>", out);
}

static void slice_addresses(const struct td_cellspec *c, const yyjson_val *o, int64_t now, struct td_buf *out)
{
	struct shown s = {0};
	yyjson_val *e, *a;
	size_t i, n, j, m;
	yyjson_arr_foreach (td_jget(o, "endpoints"), i, n, e)
		yyjson_arr_foreach (td_jkey(e, "addresses"), j, m, a)
			show(&s, yyjson_is_str(a) ? yyjson_get_str(a) : "");
	put(&s, "<unset>", out);
}

// clang-format off
const struct td_cellspec td_role_cells[] = {
	TD_CELL_NAME,
	{"Created At", "date", "", "When it was created.", 0, td_cell_text, "metadata.creationTimestamp", NULL},
	{0}
};
const struct td_cellspec td_binding_cells[] = {
	TD_CELL_NAME,
	{"Role", "string", "", "The role that it gives.", 0, role_ref, NULL, NULL},
	TD_CELL_AGE,
	{"Users", "string", "", "Users that have it.", 1, subjects, "User", NULL},
	{"Groups", "string", "", "Groups that have it.", 1, subjects, "Group", NULL},
	{"ServiceAccounts", "string", "", "Service accounts that have it.", 1, subjects, "ServiceAccount", NULL},
	{0},
};
const struct td_cellspec td_endpoints_cells[] = {
	TD_CELL_NAME,
	{"Endpoints", "string", "", "Addresses with ports.", 0, endpoint_list, NULL, NULL},
	TD_CELL_AGE, {0}
};
const struct td_cellspec td_slice_cells[] = {
	TD_CELL_NAME,
	{"AddressType", "string", "", "What the addresses are.", 0, td_cell_text, "addressType", NULL},
	{"Ports", "string", "", "Its ports.", 0, slice_ports, NULL, NULL},
	{"Endpoints", "string", "", "Its addresses.", 0, slice_addresses, NULL, NULL},
	TD_CELL_AGE, {0},
};
// clang-format on
