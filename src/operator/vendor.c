// Which of spec.devices a node has, and what is known of such devices: by the description of their vendor (accel/accel.h),
// and by what the machine itself tells. Pure.
#include "operator/operator.h"

#include "accel/accel.h"
#include "api/quantity.h"

#include <ctype.h>
#include <string.h>

#define NVIDIA "nvidia.com/gpu"

static bool has(const yyjson_val *node, const char *resource)
{
	const char *q = td_jkey_str(td_jget(node, "status.capacity"), resource);
	int64_t n = 0;
	return q && !td_quantity_ceil(q, &n, NULL) && n > 0;
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

yyjson_val *td_op_told(const yyjson_val *node, const char *resource, long long n, struct td_json **keep)
{
	const char *text = td_jkey_str(td_jget(node, "metadata.annotations"), TD_ANN_GPUS);
	if (!text || td_json_parse(text, strlen(text), keep, NULL))
		return NULL;
	// NVML's list names no resource. Whatever they are called here, it is of this node's GPUs.
	const char *of = td_jstr(td_json_root(*keep), "resource");
	yyjson_val *list = td_jget(td_json_root(*keep), "gpus");
	return n > 0 && (long long)yyjson_arr_size(list) == n && (!of || td_streq(of, resource)) ? list : NULL;
}

// Only what may stand in a line of gres.conf.
static bool is_file(const char *s)
{
	return s && td_starts(s, "/dev/") && strlen(s) < 200 &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-")] == '\0';
}

void td_op_vendor_of(const yyjson_val *sc, const yyjson_val *node, long long gpus, struct td_op_vendor *ret)
{
	const yyjson_val *entry = td_op_node_devices(sc, node);
	*ret = (struct td_op_vendor){0};
	snprintf(ret->resource, sizeof(ret->resource), "%s", td_jstr_or(entry, "resource", NVIDIA));
	const yyjson_val *of = td_accel_of(ret->resource);
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *list = td_op_told(node, ret->resource, gpus, &j), *x;
	const char *flags = td_jstr(of, "slurmFlags"), *type = td_jstr(of, "type");
	size_t i, n;
	td_auto_buf struct td_buf files = {0};
	yyjson_arr_foreach (list, i, n, x) {
		const char *file = td_jstr(x, "file");
		if (!is_file(file)) {
			td_buf_reset(&files);
			break;
		}
		td_buf_printf(&files, "%s%s", i ? "," : "", file);
	}
	if (files.len && files.len < sizeof(ret->files))
		snprintf(ret->files, sizeof(ret->files), "%s", td_buf_str(&files));
	flags = flags ? flags : list ? td_jstr(td_json_root(j), "slurmFlags") : NULL;
	type = type ? type : list ? td_jstr(td_json_root(j), "type") : NULL;
	static const char *const known[] = {"amd_gpu_env", "intel_gpu_env", "nvidia_gpu_env", "no_gpu_env"};
	for (i = 0; flags && i < TD_LEN(known); i++)
		if (!strcmp(known[i], flags))
			ret->flags = known[i];
	if (yyjson_arr_size(td_jget(sc, "spec.devices")) < 2)
		return;
	// Each vendor has types, so that nobody gets another's who asks for one.
	size_t word = strcspn(ret->resource, "./");
	if (type && td_slurm_is_name(type) && isalpha((unsigned char)*type))
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
	if (*v->files)
		return some_of(v->files, from, n);
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
