#include "slurm/tocome.h"

#include "slurm/conf.h"
#include "slurm/hostlist.h"

#include <stdlib.h>
#include <string.h>

#define AT "spec.autoscale.node"

bool td_slurm_to_come_size(const yyjson_val *set, long long *ret_cpus, long long *ret_memory_mb)
{
	static const char *const units[] = {"Mi", "Gi", "Ti"};
	long long cpus = td_jint(set, AT ".cpus", 0);
	char *unit = NULL;
	long long mb = strtoll(td_jstr_or(set, AT ".memory", ""), &unit, 10);
	if (cpus < 1 || mb < 1 || mb > 1 << 30)
		return false;
	for (size_t i = 0; i < TD_LEN(units); i++) {
		if (td_streq(unit, units[i])) {
			*ret_cpus = cpus;
			*ret_memory_mb = mb << (10 * i);
			return true;
		}
	}
	return false;
}

size_t td_slurm_to_come(const yyjson_val *set)
{
	long long cpus, memory, max = td_jint(set, "spec.autoscale.max", 0);
	if (max < 1 || !td_slurm_to_come_size(set, &cpus, &memory))
		return 0;
	return max < TD_SLURM_TO_COME ? (size_t)max : TD_SLURM_TO_COME;
}

void td_slurm_to_come_check(const yyjson_val *set, struct td_strv *problems)
{
	long long cpus, memory;
	const char *gres = td_jstr(set, AT ".gres"), *of = td_jstr_or(set, "spec.slurm.gres", "auto");
	if (td_jget(set, AT) && !td_slurm_to_come_size(set, &cpus, &memory))
		td_strv_add(problems, AT ".memory: must be a number of Mi, Gi or Ti, such as 60Gi");
	if (td_jget(set, "spec.autoscale") && !td_jget(set, AT) && td_jint(set, "spec.autoscale.min", 1) < 1)
		td_strv_add(problems, "spec.autoscale.min: 0 needs spec.autoscale.node, what one machine has: Slurm "
				      "refuses a job that fits on no node that it knows");
	if (gres && td_starts(of, "gpu:") && !td_streq(gres, of))
		td_strv_addf(problems,
			     AT ".gres: \"%.60s\" is not what spec.slurm.gres says, \"%.60s\": write the same", gres,
			     of);
}

char *td_slurm_to_come_line(const yyjson_val *set)
{
	const char *name = td_jstr_or(set, "metadata.name", ""), *gres = td_jstr(set, AT ".gres");
	long long cpus, memory;
	size_t n = td_slurm_to_come(set);
	if (!n || !td_slurm_to_come_size(set, &cpus, &memory))
		return NULL;
	struct td_buf b = {0};
	td_auto_free char *mark = td_slurm_set_feature(name);
	// Nobody answers there, at once: slurmctld asks nodes that are down, too, whether they are there.
	td_buf_printf(&b,
		      "NodeName=%s-to-come-[1-%zu] NodeAddr=127.0.0.1 Port=1 CPUs=%lld Sockets=1 CoresPerSocket=%lld "
		      "ThreadsPerCore=1 RealMemory=%lld",
		      name, n, cpus, cpus, memory);
	if (td_starts(gres, "gpu:"))
		td_buf_printf(&b, " Gres=%s", gres);
	td_buf_printf(&b, " Feature=%s," TD_SLURM_TO_COME_FEATURE, mark);
	yyjson_val *x;
	size_t i, m;
	yyjson_arr_foreach (td_jget(set, "spec.slurm.features"), i, m, x)
		if (td_slurm_is_name(yyjson_get_str(x)))
			td_buf_printf(&b, ",%s", yyjson_get_str(x));
	td_buf_puts(&b, " State=DOWN Reason=\"tandem: no machine yet\"");
	return td_buf_take(&b);
}

void td_slurm_to_come_types(const yyjson_val *set, struct td_strv *ret)
{
	struct td_gres g[8];
	size_t n = 0;
	const char *gres = td_jstr(set, AT ".gres");
	if (!gres || !td_slurm_to_come(set) || td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return;
	for (size_t i = 0; i < n; i++)
		if (*g[i].type)
			td_strv_add(ret, g[i].type);
}

bool td_slurm_is_to_come(const char *features)
{
	static const char word[] = TD_SLURM_TO_COME_FEATURE;
	const size_t len = sizeof(word) - 1;
	for (const char *s = features; s && (s = strstr(s, word)); s += len)
		if ((s == features || s[-1] == ',') && (s[len] == ',' || !s[len]))
			return true;
	return false;
}
