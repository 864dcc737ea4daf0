// Which of spec.devices a node has, and what is known of such devices: by the description of their vendor (accel/accel.h),
// and by what the machine itself tells. Pure.
#include "operator/operator.h"

#include "accel/accel.h"
#include "api/selector.h"

#include <ctype.h>
#include <string.h>

#define NVIDIA "nvidia.com/gpu"

static bool has(const yyjson_val *node, const char *resource)
{
	int64_t n = 0;
	return !td_api_devices(td_jget(node, "status.capacity"), resource, &n, NULL) && n > 0;
}

static bool offers_parts(const yyjson_val *node)
{
	// The plugin calls parts by the name of whole GPUs where all are alike; then the label of the product says so.
	const char *product = td_jkey_str(td_jget(node, "metadata.labels"), "nvidia.com/gpu.product");
	if (product && strstr(product, "-MIG-"))
		return true;
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_jget(node, "status.capacity"), i, n, k, v)
		if (td_api_is_device(yyjson_get_str(k), NVIDIA) && strcmp(yyjson_get_str(k), NVIDIA) != 0 &&
		    !td_streq(yyjson_get_str(v), "0"))
			return true;
	return false;
}

bool td_op_types_parts(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus, struct td_error *why)
{
	const char *resource = td_op_node_resource(sc, node);
	yyjson_val *x, *list = td_op_told(gpus->told, resource, gpus->n);
	size_t i, n;
	bool any = false;
	yyjson_arr_foreach (list, i, n, x)
		any |= td_jstr(x, "mig") != NULL;
	if (!any && gpus->n > 0 && td_streq(resource, NVIDIA) && offers_parts(node))
		return td_fail(why, TD_INVALID,
			       "the node offers parts of GPUs (MIG), and annotation " TD_ANN_GPUS
			       " does not name all of its %lld devices with their files: its agent writes that where "
			       "it "
			       "sees the driver (chart value agent.runtimeClassName)",
			       gpus->n),
		       false;
	if (!any)
		return true;
	struct td_op_found label = {.n = 1};
	char whole[64] = "nvidia", out[TD_OP_TYPES] = "";
	td_op_types_label(sc, node, &label);
	const char *at = label.types;
	long long one;
	if (*at)
		td_op_types_next(&at, whole, &one);
	yyjson_arr_foreach (list, i, n, x) {
		const char *profile = td_jstr(x, "mig");
		td_auto_free char *product = profile || *label.types ? NULL : td_op_gpu_type(sc, td_jstr(x, "product"));
		const char *type = profile ? profile : product ? product : whole;
		if (!td_slurm_is_type(type) || !td_op_types_add(out, type, 1))
			return td_fail(why, TD_INVALID,
				       "annotation " TD_ANN_GPUS ": \"%.40s\" is no type of GPUs, or one too many",
				       type),
			       false;
	}
	if (!td_op_types_together(out))
		return td_fail(why, TD_INVALID,
			       "annotation " TD_ANN_GPUS ": the node's devices are not in the order of their types"),
		       false;
	memcpy(gpus->types, out, sizeof(out));
	return true;
}

const yyjson_val *td_op_node_devices(const yyjson_val *sc, const yyjson_val *node)
{
	yyjson_val *list = td_jget(sc, "spec.devices"), *x;
	const char *share = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *j = NULL;
	size_t i, n;
	if (yyjson_arr_size(list) < 2)
		return yyjson_arr_get_first(list);
	yyjson_arr_foreach (list, i, n, x)
		if (has(node, td_jstr_or(x, "resource", "")))
			return x;
	// Its device plugin is being replaced, or its kubelet has just started: what it had counts.
	if (share && !td_json_parse(share, strlen(share), &j, NULL))
		yyjson_arr_foreach (list, i, n, x)
			if (td_jkey(td_json_root(j), td_jstr_or(x, "resource", "")))
				return x;
	return yyjson_arr_get_first(list);
}

const char *td_op_node_resource(const yyjson_val *sc, const yyjson_val *node)
{
	return td_jstr_or(td_op_node_devices(sc, node), "resource", NVIDIA);
}

struct td_json *td_op_told_read(const yyjson_val *node)
{
	const char *text = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_GPUS);
	struct td_json *told = NULL;
	return text && !td_json_parse(text, strlen(text), &told, NULL) ? told : NULL;
}

yyjson_val *td_op_told(const struct td_json *told_json, const char *resource, long long n)
{
	// NVML's list names no resource. Whatever they are called here, it is of this node's GPUs.
	const char *of = td_jstr(td_json_root(told_json), "resource");
	yyjson_val *list = td_jget(td_json_root(told_json), "gpus");
	long long told = (long long)yyjson_arr_size(list);
	return (n > 0 ? told == n : told >= -n && told) && (!of || td_streq(of, resource)) ? list : NULL;
}

// Only what may stand in a line of gres.conf.
static bool is_file(const char *s)
{
	return s && td_starts(s, "/dev/") && strlen(s) < 200 &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-")] == '\0';
}

void td_op_vendor_of(const yyjson_val *sc, const yyjson_val *node, const struct td_op_found *gpus,
		     struct td_op_vendor *ret)
{
	const yyjson_val *entry = td_op_node_devices(sc, node);
	*ret = (struct td_op_vendor){0};
	snprintf(ret->resource, sizeof(ret->resource), "%s", td_jstr_or(entry, "resource", NVIDIA));
	const yyjson_val *of = td_accel_of(ret->resource);
	yyjson_val *list = td_op_told(gpus->told, ret->resource, gpus->n), *x;
	// Of a node that has parts of GPUs a NodeSet may give out fewer.
	if (!list && gpus->n > 0) {
		list = td_op_told(gpus->told, ret->resource, -gpus->n);
		list = td_jget(yyjson_arr_get_first(list), "files") ? list : NULL;
	}
	const char *flags = td_jstr(of, "slurmFlags"), *type = td_jstr(of, "type");
	size_t i, n;
	td_auto_buf struct td_buf files = {0};
	yyjson_arr_foreach (list, i, n, x) {
		td_auto_strv struct td_strv own = {0};
		if (td_jstr(x, "file"))
			td_strv_add(&own, td_jstr(x, "file"));
		else
			td_jstrs(td_jget(x, "files"), &own);
		bool good = own.n && own.n <= 4;
		for (size_t k = 0; good && k < own.n; k++) {
			good = is_file(own.v[k]);
			td_buf_printf(&files, "%s%s", k ? "+" : i ? "," : "", own.v[k]);
		}
		if (!good) {
			td_buf_reset(&files);
			break;
		}
	}
	if (files.len && files.len < sizeof(ret->files))
		snprintf(ret->files, sizeof(ret->files), "%s", td_buf_str(&files));
	flags = flags ? flags : list ? td_jstr(td_json_root(gpus->told), "slurmFlags") : NULL;
	type = type ? type : list ? td_jstr(td_json_root(gpus->told), "type") : NULL;
	static const char *const known[] = {"amd_gpu_env", "intel_gpu_env", "nvidia_gpu_env", "no_gpu_env"};
	for (i = 0; flags && i < TD_LEN(known); i++)
		if (!strcmp(known[i], flags))
			ret->flags = known[i];
	if (yyjson_arr_size(td_jget(sc, "spec.devices")) < 2)
		return;
	// Each vendor has types, so that nobody gets another's who asks for one.
	size_t word = strcspn(ret->resource, "./");
	if (td_slurm_is_type(type))
		snprintf(ret->type, sizeof(ret->type), "%.39s", type);
	else
		snprintf(ret->type, sizeof(ret->type), "%.*s", (int)(word < 39 ? word : 39), ret->resource);
	if (!isalpha((unsigned char)*ret->type))
		snprintf(ret->type, sizeof(ret->type), "device");
}

// "/dev/dri/renderD" of "/dev/dri/renderD128", and 128.
static size_t stem(const char *file, long long *ret_number)
{
	size_t n = strlen(file);
	while (n && isdigit((unsigned char)file[n - 1]))
		n--;
	return td_parse_i64(file + n, ret_number) && (file[n] != '0' || !file[n + 1]) ? n : 0;
}

// The files of the device i in a list, with '+' between those of one device; NULL: the list is shorter. *ret_n: their
// length.
static const char *nth(const char *list, long long i, size_t *ret_n)
{
	for (; i > 0; i--) {
		list = strchr(list, ',');
		if (!list++)
			return NULL;
	}
	*ret_n = strcspn(list, ",");
	return list;
}

bool td_op_device_several(const struct td_op_vendor *v, long long i)
{
	size_t n = 0;
	const char *s = nth(v->files, i, &n);
	return s && memchr(s, '+', n);
}

long long td_op_device_run(const struct td_op_vendor *v, long long from, long long n)
{
	if (td_op_device_several(v, from))
		return 1;
	// Not beyond the list: n is what a node says.
	size_t len = 0;
	const char *s = nth(v->files, from, &len);
	for (long long k = 1; s && k < n; k++) {
		s += len;
		s = *s ? s + 1 : NULL;
		len = s ? strcspn(s, ",") : 0;
		if (s && memchr(s, '+', len))
			return k;
	}
	return n;
}

// Of a list of files, n from this one on: "/dev/dri/renderD[128-129,131]".
static char *some_of(const char *list, long long from, long long n)
{
	td_auto_strv struct td_strv all = {0};
	td_auto_buf struct td_buf b = {0};
	td_strv_split(&all, list, ',');
	for (long long i = from; i < from + n && i < (long long)all.n; i++) {
		long long first, next, last;
		size_t len = stem(all.v[i], &first);
		last = first;
		long long k = i + 1;
		for (; len && k < from + n && k < (long long)all.n; k++, last = next)
			if (stem(all.v[k], &next) != len || strncmp(all.v[k], all.v[i], len) != 0 || next != last + 1)
				break;
		if (last > first && len)
			td_buf_printf(&b, "%s%.*s[%lld-%lld]", b.len ? "," : "", (int)len, all.v[i], first, last);
		else
			td_buf_printf(&b, "%s%s", b.len ? "," : "", all.v[i]);
		i = k - 1;
	}
	return td_buf_take(&b);
}

char *td_op_device_files(const yyjson_val *sc, const struct td_op_vendor *v, bool fake, long long from, long long n)
{
	yyjson_val *list = td_jget(sc, "spec.devices"), *x;
	const char *file = NULL;
	size_t i, max;
	yyjson_arr_foreach (list, i, max, x)
		if (td_streq(td_jstr(x, "resource"), v->resource))
			file = td_jstr(x, "file");
	char *some = *v->files ? some_of(v->files, from, n) : NULL;
	for (char *p = some; p && *p; p++)
		*p = *p == '+' ? ',' : *p;
	if (some)
		return some;
	td_auto_free char *first = NULL,
			  *usual = file || fake ? NULL : td_accel_usual_file(td_accel_of(v->resource), 0);
	long long number = 0;
	if (usual && stem(usual, &number)) {
		first = td_strndup(usual, stem(usual, &number));
		file = first;
		from += number;
	}
	file = file ? file : fake ? "/dev/tandem-gpu" : "/dev/nvidia";
	return n == 1 ? td_asprintf("%s%lld", file, from) : td_asprintf("%s[%lld-%lld]", file, from, from + n - 1);
}
