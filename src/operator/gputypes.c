// Types of GPUs: what a node's label, a DRA driver or a NodeSet says, as Slurm's GRES have it. Pure.
//
// A list of types ("h100:4,a100:4") is in the order of Slurm's indexes: the first four GPUs are of the type h100.
#include "operator/operator.h"

#include "accel/accel.h"

#include "slurm/hostlist.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { TYPE_MAX = 40 };

// ---- from products ----

// Words of a product's name that say who made it or whose it is, not which one it is.
static bool says_nothing(const char *word)
{
	static const char *const words[] = {"nvidia",   "tesla",  "geforce", "quadro", "amd",
					    "instinct", "radeon", "tandem",  "fake",   "gpu"};
	for (size_t i = 0; i < TD_LEN(words); i++)
		if (!strcmp(words[i], word))
			return true;
	return false;
}

// The first word that tells, with the next one behind a family's name: "h100", "rtx_4090", "rtx_a6000".
static char *model(const char *product)
{
	static const char *const families[] = {"rtx", "gtx", "titan", "pro"};
	td_auto_free char *low = td_strdup(product);
	for (char *p = low; *p; p++)
		*p = *p == ' ' || *p == '-' || *p == '_' ? ' ' : (char)tolower((unsigned char)*p);
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, low, ' ');
	td_auto_buf struct td_buf b = {0};
	bool family = true;
	for (size_t i = 0; i < l.n && family; i++) {
		if (!*l.v[i] || (!b.len && says_nothing(l.v[i])))
			continue;
		td_buf_printf(&b, "%s%s", b.len ? "_" : "", l.v[i]);
		family = false;
		for (size_t k = 0; k < TD_LEN(families); k++)
			family |= !strcmp(families[k], l.v[i]);
	}
	return td_buf_take(&b);
}

char *td_op_gpu_type(const yyjson_val *sc, const char *product)
{
	if (!product || !*product)
		return NULL;
	const char *said = NULL;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.devices"), i, n, x)
		said = said ? said : td_jkey_str(td_jget(x, "types"), product);
	td_auto_free char *type = said ? td_strdup(said) : model(product);
	return td_slurm_is_type(type) ? td_steal(type) : NULL;
}

void td_op_types_check(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *k, *v, *x;
	size_t i, n, at, max;
	yyjson_arr_foreach (td_jget(sc, "spec.devices"), at, max, x)
		yyjson_obj_foreach (td_jget(x, "types"), i, n, k, v)
			if (!td_slurm_is_type(yyjson_get_str(v)))
				td_strv_addf(
					problems,
					"spec.devices[%zu].types.%.80s: \"%.80s\" is no type: write a letter, then "
					"letters, digits, '_', '.', '-', at most %d",
					at, yyjson_get_str(k), yyjson_get_str(v), TYPE_MAX);
}

void td_op_types_label(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus)
{
	const yyjson_val *of = td_accel_of(td_op_node_resource(sc, node));
	const char *usual = td_jstr_or(of, "productLabel", ""),
		   *label = td_jstr_or(td_op_node_devices(sc, node), "typeLabel", usual);
	td_auto_free char *type =
		*label ? td_op_gpu_type(sc, td_jkey_str(td_jget(node, "metadata.labels"), label)) : NULL;
	*gpus->types = '\0';
	if (type && gpus->n > 0)
		td_op_types_add(gpus->types, type, gpus->n);
}

// ---- lists ----

bool td_op_types_next(const char **list, char type[64], long long *ret_n)
{
	const char *s = *list, *colon = strchr(s, ':'), *end = s + strcspn(s, ",");
	char digits[16] = "";
	if (!colon || colon > end || colon - s >= 64 || (size_t)(end - colon - 1) >= sizeof(digits))
		return false;
	memcpy(type, s, (size_t)(colon - s));
	type[colon - s] = '\0';
	memcpy(digits, colon + 1, (size_t)(end - colon - 1));
	if (!td_slurm_is_type(type) || !td_parse_i64(digits, ret_n) || *ret_n < 1)
		return false;
	*list = *end ? end + 1 : end;
	return true;
}

bool td_op_types_add(char types[TD_OP_TYPES], const char *type, long long n)
{
	// The last part grows when it is of this type.
	char *comma = strrchr(types, ','), *last = comma ? comma + 1 : types, had[64];
	const char *at = last;
	long long count;
	size_t len = strlen(types);
	if (td_op_types_next(&at, had, &count) && !strcmp(had, type)) {
		len = (size_t)(last - types);
		n += count;
	}
	td_auto_free char *part = td_asprintf("%s%s:%lld", len && len == strlen(types) ? "," : "", type, n);
	if (len + strlen(part) >= TD_OP_TYPES)
		return false;
	strcpy(types + len, part);
	return true;
}

void td_op_types_cut(char types[TD_OP_TYPES], long long n)
{
	td_auto_free char *old = td_strdup(types);
	const char *at = old;
	char type[64];
	long long count;
	*types = '\0';
	while (n > 0 && td_op_types_next(&at, type, &count)) {
		td_op_types_add(types, type, count < n ? count : n);
		n -= count;
	}
	if (n > 0)
		*types = '\0'; // of some nothing is known: Slurm counts typed and untyped ones apart
}

bool td_op_types_together(const char *list)
{
	td_auto_strv struct td_strv seen = {0};
	char type[64];
	long long n;
	for (; td_op_types_next(&list, type, &n); td_strv_add(&seen, type))
		if (td_strv_has(&seen, type))
			return false;
	return true;
}

int td_op_gres_read(const char *gres, struct td_op_found *ret, struct td_error *err)
{
	struct td_op_found out = {0};
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, gres, ',');
	for (size_t i = 0; i < l.n; i++) {
		const char *text = td_starts(l.v[i], "gpu:") ? l.v[i] + 4 : "", *rest = text;
		char type[64];
		long long n;
		bool counted = l.n == 1 && td_parse_i64(text, &n) && n >= 0;
		if (!counted && (!td_op_types_next(&rest, type, &n) || *rest || n > 100000))
			return td_fail(
				err, TD_INVALID,
				"spec.slurm.gres \"%.80s\": write auto, none, gpu:COUNT, or gpu:TYPE:COUNT for each "
				"type in the order of the devices, such as gpu:h100:4,gpu:a100:4",
				gres);
		if (!counted && !td_op_types_add(out.types, type, n))
			return td_fail(err, TD_INVALID, "spec.slurm.gres \"%.80s\": too many types", gres);
		out.n += n;
	}
	if (!td_op_types_together(out.types))
		return td_fail(err, TD_INVALID,
			       "spec.slurm.gres \"%.80s\": Slurm numbers the GPUs of one type one after the other, so "
			       "devices of one type must be next to each other; write gpu:%lld, without types",
			       gres, out.n);
	*ret = out;
	return 0;
}

// Sums up a list by types, in the order in which they come first.
static size_t sums(const char *list, struct td_gres *v, size_t max)
{
	size_t n = 0;
	char type[64];
	long long count;
	while (td_op_types_next(&list, type, &count)) {
		size_t i = 0;
		while (i < n && strcmp(v[i].type, type) != 0)
			i++;
		if (i == max)
			break;
		if (i == n) {
			v[n] = (struct td_gres){.name = "gpu"};
			strcpy(v[n++].type, type);
		}
		v[i].count += count;
	}
	return n;
}

void td_op_gres_write(const struct td_op_share *s, struct td_buf *ret)
{
	struct td_gres v[32];
	size_t n = sums(s->types, v, TD_LEN(v));
	for (size_t i = 0; i < n; i++)
		td_buf_printf(ret, "%sgpu:%s:%lld", i ? "," : "", v[i].type, (long long)v[i].count);
	if (!n)
		td_buf_printf(ret, "gpu:%lld", s->gpus);
}

bool td_op_gpus_differ(const char *record_gres, const struct td_op_share *s)
{
	struct td_gres have[32], want[32];
	size_t n = 0, m = sums(s->types, want, TD_LEN(want));
	long long gpus = 0;
	if (record_gres && td_gres_parse(record_gres, have, TD_LEN(have), &n, NULL))
		return false; // text that cannot be read is no reason to delete anything
	for (size_t i = 0; i < n; i++) {
		if (!td_streq(have[i].name, "gpu"))
			continue;
		gpus += have[i].count;
		long long wanted = m ? 0 : s->gpus;
		for (size_t k = 0; k < m; k++)
			wanted += strcmp(want[k].type, have[i].type) ? 0 : want[k].count;
		if (m ? wanted != have[i].count : *have[i].type != '\0')
			return true;
	}
	return gpus != s->gpus;
}
