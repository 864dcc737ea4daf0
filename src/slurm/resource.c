#include "slurm/resource.h"

#include "base/names.h"
#include "base/near.h"
#include "slurm/nics.h"

#include <string.h>
#include <strings.h>

static void add(struct td_strv *l, const char *name, size_t len)
{
	td_auto_free char *s = td_strndup(name, len);
	if (len && !td_strv_has(l, s))
		td_strv_add(l, s);
}

// Everything that a quota of this cluster may name, types of devices apart.
static void known(const yyjson_val *cluster, struct td_strv *ret)
{
	yyjson_val *k, *v;
	size_t i, n;
	td_strv_add(ret, "cpu");
	td_strv_add(ret, "memory");
	td_strv_add(ret, "gpu"); // Tandem's nodes have it
	yyjson_obj_foreach (td_jget(cluster, "spec.scheduler.gresMap"), i, n, k, v) {
		const char *gres = yyjson_get_str(v), *name = yyjson_get_str(k);
		if (gres)
			add(ret, gres, strcspn(gres, ":"));
		add(ret, name, strlen(name));
	}
	if (td_slurm_nics_give(td_jget(cluster, "spec.fabric")))
		add(ret, TD_GRES_NIC, strlen(TD_GRES_NIC));
	// A site's own devices.
	yyjson_obj_foreach (td_jget(cluster, "spec.config.slurmConf"), i, n, k, v) {
		td_auto_strv struct td_strv l = {0};
		if (!strcasecmp(yyjson_get_str(k), "GresTypes"))
			td_strv_split(&l, yyjson_get_str(v) ? yyjson_get_str(v) : "", ',');
		for (size_t j = 0; j < l.n; j++)
			add(ret, l.v[j], strlen(l.v[j]));
	}
}

int td_slurm_resource(const yyjson_val *cluster, const char *resource, char **ret_tres, struct td_error *err)
{
	const char *gres = td_jkey_str(td_jget(cluster, "spec.scheduler.gresMap"), resource);
	td_auto_strv struct td_strv all = {0};
	if (!gres && !strcmp(resource, TD_NIC_RESOURCE) && td_slurm_nics_give(td_jget(cluster, "spec.fabric")))
		gres = TD_GRES_NIC;
	td_auto_free char *plain = td_strndup(resource, strcspn(resource, ":")); // gpu of gpu:h100
	known(cluster, &all);
	if (!gres && (strchr(resource, '/') || (cluster && !td_strv_has(&all, plain)))) {
		td_auto_buf struct td_buf list = {0};
		const char *near = td_nearest(resource, (const char *const *)all.v, all.n);
		for (size_t i = 0; i < all.n; i++)
			td_buf_printf(&list, "%s%s", !i ? "" : i + 1 < all.n ? ", " : " and ", all.v[i]);
		return td_fail(err, TD_INVALID,
			       "Slurm has no resource \"%.60s\"; there are %s%s%s%s; one more is added to "
			       "spec.scheduler.gresMap of the SlurmCluster",
			       resource, td_buf_str(&list), near ? ": did you mean " : "", near ? near : "",
			       near ? "?" : "");
	}
	*ret_tres = !strcmp(resource, "cpu")      ? td_strdup("cpu")
		    : !strcmp(resource, "memory") ? td_strdup("mem")
						  : td_asprintf("gres/%s", gres ? gres : resource);
	return 0;
}
