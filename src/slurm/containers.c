// What turns on containers in jobs.
#include "slurm/containers.h"

#include <string.h>

bool td_slurm_containers(const yyjson_val *o)
{
	return td_jbool(o, "spec.containers.enabled", false);
}

char *td_slurm_pull_secret(const yyjson_val *o, const char *name)
{
	const char *own = o ? td_jstr(o, "spec.containers.images.pullSecret") : NULL;
	return own && *own ? td_strdup(own) : td_asprintf("%s-image-pull", name);
}

// One word, so that a list cannot add a line.
static void list(struct td_buf *b, const yyjson_val *o, const char *field, const char *key, struct td_strv *problems)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, field), i, n, x) {
		const char *s = yyjson_get_str(x);
		size_t len = s ? strlen(s) : 0;
		for (const char *p = s; p && *p; p++)
			len = *p <= ' ' || *p > '~' ? 0 : len;
		if (len == 0)
			td_strv_addf(problems, "%s[%zu]: must be one word of printable characters", field, i);
		else
			td_buf_printf(b, "%s %s\n", key, s);
	}
}

long long td_slurm_bytes(const char *s)
{
	static const char units[] = "KMGTP";
	char *end;
	double v = strtod(s, &end);
	const char *unit = *end ? strchr(units, *end) : NULL;
	if (end == s || v < 0)
		return -1;
	for (const char *u = units; unit && u <= unit; u++)
		v *= end[1] == 'i' ? 1024 : 1000;
	bool whole = !*end || (unit && (!strcmp(end + 1, "") || !strcmp(end + 1, "i")));
	return whole && v < 9e18 ? (long long)v : -1;
}

static char *settings(const yyjson_val *o, struct td_strv *problems)
{
	struct td_buf b = {0};
	const char *limit = td_jstr(o, "spec.containers.cache.limit");
	long long n = limit ? td_slurm_bytes(limit) : 0;
	if (n < 0)
		td_strv_addf(problems, "spec.containers.cache.limit: must be a size, such as 200Gi");
	td_buf_printf(&b, "limit %lld\nmount-home %s\nremap-root %s\nread-only %s\n", n,
		      td_jbool(o, "spec.containers.mountHome", false) ? "yes" : "no",
		      td_jbool(o, "spec.containers.remapRoot", false) ? "yes" : "no",
		      td_jbool(o, "spec.containers.readOnly", false) ? "yes" : "no");
	list(&b, o, "spec.containers.images.allowed", "allow", problems);
	list(&b, o, "spec.containers.images.prePull", "pull", problems);
	list(&b, o, "spec.containers.images.insecureRegistries", "insecure", problems);
	return td_buf_take(&b);
}

// Required: a node that could not load it would run a container's program outside, and say nothing.
#define PLUGIN "required /opt/tandem/tandem-spank.so\n"

void td_slurm_containers_files(const yyjson_val *o, struct td_slurm_files *ret, struct td_strv *problems)
{
	if (!td_slurm_containers(o))
		return;
	td_auto_free char *conf = settings(o, problems);
	td_slurm_files_add(ret, "containers.conf", conf, false);
	td_slurm_plugstack(ret, PLUGIN);
}
