#include "slurm/hosts.h"

#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

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

struct host_name {
	UT_hash_handle hh;
};

// Adds the names of one entry that are not there yet.
static int add_entry(yyjson_val *x, size_t at, struct host_name *room, struct host_name **seen, struct td_strv *ret,
		     struct td_error *err)
{
	td_auto_strv struct td_strv names = {0};
	struct td_error e = TD_ERROR_INIT;
	int r = 0;
	if (!yyjson_is_str(x) || td_hostlist_parse(yyjson_get_str(x), &names, &e))
		return td_fail(err, TD_INVALID, "spec.hosts[%zu]: %s", at, *e.msg ? e.msg : "must be a text");
	for (size_t k = 0; k < names.n; k++) {
		struct host_name *was = NULL;
		if (!name_fits(names.v[k])) {
			r = r ? r
			      : td_fail(err, TD_INVALID,
					"spec.hosts[%zu]: \"%.60s\" is no name of a node: at most 63 lower-case "
					"letters, digits, '.' and '-'",
					at, names.v[k]);
			continue;
		}
		HASH_FIND_STR(*seen, names.v[k], was);
		if (was)
			continue;
		if (ret->n == TD_SLURM_HOSTS)
			return r ? r
				 : td_fail(err, TD_INVALID, "spec.hosts: more than %d machines: make another NodeSet",
					   TD_SLURM_HOSTS);
		td_strv_add(ret, names.v[k]);
		struct host_name *now = &room[ret->n - 1];
		HASH_ADD_KEYPTR(hh, *seen, ret->v[ret->n - 1], strlen(names.v[k]), now);
	}
	return r;
}

int td_slurm_hosts(const yyjson_val *set, struct td_strv *ret, struct td_error *err)
{
	struct host_name *room = td_calloc(TD_SLURM_HOSTS, sizeof(*room)), *seen = NULL;
	yyjson_val *x;
	size_t i, n;
	int r = 0;
	yyjson_arr_foreach (td_jget(set, "spec.hosts"), i, n, x) {
		int one = add_entry(x, i, room, &seen, ret, r ? NULL : err);
		r = r ? r : one;
	}
	HASH_CLEAR(hh, seen);
	free(room);
	return r;
}

// Can one of the names of this hostlist be that one? It is when it has no brackets.
static bool could_be(const char *list, const char *name)
{
	for (const char *s = list; *s;) {
		size_t n = strcspn(s, ",["), len = strlen(name);
		bool bracket = s[n] == '[';
		if (bracket ? !strncmp(s, name, n) : n == len && !memcmp(s, name, n))
			return true;
		for (int in = 0; *s && (in || *s != ','); s++)
			in = *s == '[' ? 1 : *s == ']' ? 0 : in;
		s += *s == ',';
	}
	return false;
}

bool td_slurm_host_in(const yyjson_val *set, const char *name)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(set, "spec.hosts"), i, n, x) {
		td_auto_strv struct td_strv l = {0};
		// This is asked for every node of a cluster, and few are machines of the set.
		if (yyjson_is_str(x) && could_be(yyjson_get_str(x), name) &&
		    !td_hostlist_parse(yyjson_get_str(x), &l, NULL) && td_strv_has(&l, name))
			return true;
	}
	return false;
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
