// Names in spec.scheduler that must lead somewhere: a partition, a user or an account that is not
// there would be found out by each pod alone, when Slurm refuses its job.
#include "operator/operator.h"

#include <string.h>

// Returns the element of the list at `path` with that name; NULL: none.
static yyjson_val *named(const yyjson_val *sc, const char *path, const char *name)
{
	return td_jfind(td_jget(sc, path), "name", name);
}

static void partition(const yyjson_val *sc, const char *field, const char *name, struct td_strv *problems)
{
	bool none = !yyjson_arr_size(td_jget(sc, "spec.partitions"));
	if (!name || named(sc, "spec.resourceGroups", name) ||
	    (none ? td_streq(name, "all") : named(sc, "spec.partitions", name) != NULL))
		return;
	td_strv_addf(problems, "%s: there is no partition \"%.63s\"%s; add it to spec.partitions, or correct the name",
		     field, name, none ? " (without spec.partitions there is only \"all\")" : "");
}

static void user(const yyjson_val *sc, const char *field, const char *name, struct td_strv *problems)
{
	if (name && !td_jget(sc, "spec.identity.ldap") && !named(sc, "spec.users", name))
		td_strv_addf(problems, "%s: there is no user \"%.32s\"; add it to spec.users, or correct the name",
			     field, name);
}

// Slurm has no accounts of its own without a database, so an account can only be held against the
// partition that its pods go to.
static void account(const yyjson_val *sc, const char *field, const char *name, const char *to, struct td_strv *problems)
{
	yyjson_val *allowed = td_jget(to ? named(sc, "spec.partitions", to) : NULL, "allowAccounts");
	if (!name || !yyjson_arr_size(allowed) || td_jhas(allowed, name))
		return;
	td_strv_addf(
		problems,
		"%s: partition \"%.63s\" does not take account \"%.63s\"; add it to the partition's allowAccounts, "
		"or name another account or partition",
		field, to, name);
}

void td_op_references_check(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *scheduler = td_jget(sc, "spec.scheduler"), *x;
	const char *usual = td_jstr(scheduler, "defaultPartition");
	size_t i, n;

	partition(sc, "spec.scheduler.defaultPartition", usual, problems);
	user(sc, "spec.scheduler.defaultUser", td_jstr(scheduler, "defaultUser"), problems);
	yyjson_arr_foreach (td_jget(scheduler, "namespaces"), i, n, x) {
		td_auto_free char *to = td_asprintf("spec.scheduler.namespaces[%zu].partition", i),
				  *who = td_asprintf("spec.scheduler.namespaces[%zu].user", i),
				  *whose = td_asprintf("spec.scheduler.namespaces[%zu].account", i);
		partition(sc, to, td_jstr(x, "partition"), problems);
		user(sc, who, td_jstr(x, "user"), problems);
		account(sc, whose, td_jstr(x, "account"), td_jstr_or(x, "partition", usual), problems);
	}
}
