// spec.groups and spec.users[].groups (groups.h).
#include "slurm/groups.h"

#include "slurm/conf.h"

// Appends "NAME:x:GID:ann,bob\n".
static void line(const yyjson_val *users, const char *name, long long gid, struct td_buf *b)
{
	yyjson_val *u, *g;
	size_t i, n, k, m;
	const char *sep = "";
	td_buf_printf(b, "%s:x:%lld:", name, gid);
	yyjson_arr_foreach ((yyjson_val *)users, i, n, u)
		yyjson_arr_foreach (td_jget(u, "groups"), k, m, g)
			if (td_streq(yyjson_get_str(g), name) && td_slurm_is_user(td_jstr(u, "name"))) {
				td_buf_printf(b, "%s%s", sep, td_jstr(u, "name"));
				sep = ",";
				break;
			}
	td_buf_putc(b, '\n');
}

void td_slurm_groups(const yyjson_val *cluster, struct td_buf *group, struct td_strv *ret_gids,
		     struct td_strv *problems)
{
	yyjson_val *groups = td_jget(cluster, "spec.groups"), *users = td_jget(cluster, "spec.users"), *g, *u;
	td_auto_strv struct td_strv names = {0};
	size_t i, n, k, m;

	line(users, "sudo", 27, group);
	yyjson_arr_foreach (groups, i, n, g) {
		const char *name = td_jstr(g, "name");
		long long gid = td_jint(g, "gid", -1);
		td_auto_free char *number = td_asprintf("%lld", gid);
		if (!td_slurm_is_user(name) || td_slurm_is_system_name(name) || td_strv_has(&names, name) ||
		    td_jfind(users, "name", name))
			td_strv_addf(
				problems,
				"spec.groups[%zu].name: must be lower-case letters, digits, '_', '-', at most 32, no "
				"system group, no user's name, and there once",
				i);
		else
			line(users, name, gid, group);
		if (gid < 1000 || gid > 4294967293 || gid == TD_SLURM_UID || gid == 65534 ||
		    td_strv_has(ret_gids, number))
			td_strv_addf(
				problems,
				"spec.groups[%zu].gid: must be 1000 or more, not 64030 (slurm) or 65534 (nogroup), "
				"and no other group's",
				i);
		td_strv_add(&names, name ? name : "");
		td_strv_add(ret_gids, number);
	}

	yyjson_arr_foreach (users, i, n, u)
		yyjson_arr_foreach (td_jget(u, "groups"), k, m, g) {
			const char *name = yyjson_get_str(g);
			if (!td_streq(name, "sudo") && (!name || !td_strv_has(&names, name)))
				td_strv_addf(problems,
					     "spec.users[%zu].groups[%zu]: there is no group \"%.32s\"; add it to "
					     "spec.groups, or correct the name",
					     i, k, name ? name : "");
		}
}
