#include "slurm/hosts.h"

#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <string.h>

bool td_slurm_host_set(const yyjson_val *set)
{
	return yyjson_is_arr(td_jget(set, "spec.hosts"));
}

// A name that both Slurm and Kubernetes could have.
static bool name_fits(const char *s)
{
	size_t n = strlen(s);
	return n && n <= 63 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n && !strchr(".-", s[0]) &&
	       !strchr(".-", s[n - 1]);
}

int td_slurm_hosts(const yyjson_val *set, struct td_strv *ret, struct td_error *err)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(set, "spec.hosts"), i, n, x) {
		td_auto_strv struct td_strv names = {0};
		struct td_error e = TD_ERROR_INIT;
		if (!yyjson_is_str(x) || td_hostlist_parse(yyjson_get_str(x), &names, &e))
			return td_fail(err, TD_INVALID, "spec.hosts[%zu]: %s", i, *e.msg ? e.msg : "must be a text");
		for (size_t k = 0; k < names.n; k++) {
			if (!name_fits(names.v[k]))
				return td_fail(err, TD_INVALID,
					       "spec.hosts[%zu]: \"%.60s\" is no name of a node: at most 63 lower-case "
					       "letters, digits, '.' and '-'",
					       i, names.v[k]);
			if (ret->n == TD_SLURM_HOSTS)
				return td_fail(err, TD_INVALID,
					       "spec.hosts: more than %d machines: make another NodeSet",
					       TD_SLURM_HOSTS);
			if (!td_strv_has(ret, names.v[k]))
				td_strv_add(ret, names.v[k]);
		}
	}
	return 0;
}

bool td_slurm_host_in(const yyjson_val *set, const char *name)
{
	td_auto_strv struct td_strv l = {0};
	if (!td_slurm_host_set(set))
		return false;
	td_slurm_hosts(set, &l, NULL);
	return td_strv_has(&l, name);
}

void td_slurm_hosts_check(const yyjson_val *set, struct td_strv *problems)
{
	static const char *const others[] = {"nodeSelector", "affinity", "replicas", "onDemand", "template"};
	td_auto_strv struct td_strv l = {0};
	struct td_error e = TD_ERROR_INIT;
	if (!td_slurm_host_set(set))
		return;
	if (td_slurm_hosts(set, &l, &e))
		td_strv_add(problems, e.msg);
	for (size_t i = 0; i < TD_LEN(others); i++) {
		td_auto_free char *path = td_asprintf("spec.%s", others[i]);
		yyjson_val *v = td_jget(set, path);
		if (v && !yyjson_is_null(v) && !(yyjson_is_obj(v) && !yyjson_obj_size(v) && i != 3))
			td_strv_addf(problems,
				     "spec.%s: it is about Kubernetes nodes and slurmd's pods, and spec.hosts names "
				     "machines that run slurmd themselves: remove one of the two",
				     others[i]);
	}
}

char *td_slurm_host_conf(const yyjson_val *set, long long cpus, long long memory_mb)
{
	struct td_buf b = {0};
	td_auto_free char *mark = td_slurm_set_feature(td_jstr_or(set, "metadata.name", ""));
	const char *gres = td_jstr_or(set, "spec.slurm.gres", "auto");
	td_buf_printf(&b, "CPUs=%lld Sockets=1 CoresPerSocket=%lld ThreadsPerCore=1 RealMemory=%lld", cpus, cpus,
		      memory_mb);
	if (td_starts(gres, "gpu:"))
		td_buf_printf(&b, " Gres=%s", gres);
	td_buf_printf(&b, " Feature=%s", mark);
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(set, "spec.slurm.features"), i, n, x)
		if (td_slurm_is_name(yyjson_get_str(x)))
			td_buf_printf(&b, ",%s", yyjson_get_str(x));
	if (td_jint(set, "spec.slurm.weight", 0) > 0)
		td_buf_printf(&b, " Weight=%lld", td_jint(set, "spec.slurm.weight", 0));
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(set, "spec.slurm.extraConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (td_slurm_is_key(key) && td_slurm_is_value(value))
			td_buf_printf(&b, " %s=%s", key, value);
	}
	return td_buf_take(&b);
}
