// What accounting adds to slurm.conf, and slurmdbd.conf.
#include "slurm/accounting.h"

#include <string.h>
#include <strings.h>

// Keys of slurm.conf that say where slurmdbd is. fix: why an object may not set them.
#define ENFORCE "AccountingStorageEnforce"
static const char *const place[] = {"AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort",
				    "AccountingStorageUser", "AccountingStoragePass", "AccountingStorageBackupHost"};
// Keys of slurmdbd.conf that Tandem writes.
static const char *const dbd_ours[] = {"AuthType",    "AuthInfo",    "AuthAltTypes",  "AuthAltParameters", "DbdHost",
				       "DbdAddr",     "DbdPort",     "DbdBackupHost", "SlurmUser",         "PidFile",
				       "StorageType", "StorageHost", "StoragePort",   "StorageBackupHost", "StorageLoc",
				       "StorageUser", "StoragePass", "PluginDir"};

bool td_slurm_accounting(const yyjson_val *cluster)
{
	return td_jbool(cluster, "spec.accounting.enabled", false);
}

const char *td_slurm_open_account(const yyjson_val *cluster)
{
	return td_jstr_or(cluster, "spec.accounting.openAccount", "open");
}

static bool in(const char *key, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcasecmp(key, v[i]))
			return true;
	return false;
}

bool td_slurm_accounting_key(const yyjson_val *cluster, const char *key)
{
	return td_slurm_accounting(cluster) && in(key, place, TD_LEN(place));
}

void td_slurm_accounting_lines(const yyjson_val *cluster, struct td_buf *b)
{
	if (!td_slurm_accounting(cluster))
		return;
	const char *name = td_jstr_or(cluster, "metadata.name", ""),
		   *ns = td_jstr_or(cluster, "metadata.namespace", "");
	td_buf_printf(b,
		      "AccountingStorageType=accounting_storage/slurmdbd\n"
		      "AccountingStorageHost=%s-slurmdbd-0.%s-slurmdbd.%s.svc.cluster.local\n"
		      "AccountingStoragePort=%d\n",
		      name, name, ns, TD_SLURMDBD_PORT);
	if (td_streq(td_jstr(cluster, "spec.accounting.enforce"), "limits"))
		td_buf_puts(b, ENFORCE "=associations,limits,qos\n");
}

char *td_slurm_dbd_conf(const yyjson_val *cluster, struct td_strv *problems)
{
	struct td_buf b = {0};
	td_buf_printf(&b,
		      "# Written by Tandem from SlurmCluster %s/%s. Edit the object, not this file.\n"
		      "AuthType=auth/%s\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=" TD_SLURM_JWT
		      "/jwt_hs256.key\nDbdHost=%s-slurmdbd-0\nDbdPort=%d\nSlurmUser=slurm\n"
		      "PidFile=/run/slurmdbd/slurmdbd.pid\nStorageType=accounting_storage/mysql\n",
		      td_jstr_or(cluster, "metadata.namespace", ""), td_jstr_or(cluster, "metadata.name", ""),
		      td_slurm_munge(cluster) ? "munge" : "slurm", td_jstr_or(cluster, "metadata.name", ""),
		      TD_SLURMDBD_PORT);

	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(cluster, "spec.accounting.slurmdbdConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (!td_slurm_is_key(key))
			td_strv_addf(problems,
				     "spec.accounting.slurmdbdConf: \"%.40s\" is not a slurmdbd.conf key: letters and "
				     "digits only",
				     key);
		else if (in(key, dbd_ours, TD_LEN(dbd_ours)))
			td_strv_addf(problems, "spec.accounting.slurmdbdConf.%s: Tandem sets this key; remove it", key);
		else if (!td_slurm_is_value(value))
			td_strv_addf(problems,
				     "spec.accounting.slurmdbdConf.%s: the value must be a string of printable "
				     "characters without blanks, '\"', '#' and '\\'",
				     key);
		else
			td_buf_printf(&b, "%s=%s\n", key, value);
	}
	return td_buf_take(&b);
}

void td_slurm_accounting_check(const yyjson_val *cluster, struct td_strv *problems)
{
	if (!td_slurm_accounting(cluster))
		return;
	free(td_slurm_dbd_conf(cluster, problems));
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(cluster, "spec.config.slurmConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!strcasecmp(yyjson_get_str(k), ENFORCE) &&
		    td_streq(td_jstr(cluster, "spec.accounting.enforce"), "limits"))
			td_strv_addf(problems, "spec.accounting.enforce: spec.config.slurmConf." ENFORCE
					       " says it too; keep one");
	yyjson_val *db = td_jget(cluster, "spec.accounting.database"), *storage = td_jget(db, "embedded.storage");
	if (td_jget(db, "embedded") && td_jget(db, "external"))
		td_strv_addf(problems, "spec.accounting.database: embedded and external are both there; keep one");
	if (!td_jget(db, "external") && !td_jget(storage, "hostPath") && !td_jget(storage, "claim"))
		td_strv_addf(problems,
			     "spec.accounting.database: must say where the records are kept; name a claim in "
			     "embedded.storage.claim, a directory in embedded.storage.hostPath, or a server in "
			     "external");
	if (td_jget(storage, "hostPath") && td_jget(storage, "claim"))
		td_strv_addf(problems, "spec.accounting.database.embedded.storage: hostPath and claim are both there; "
				       "keep one");
}

bool td_slurm_limits_enforced(const yyjson_val *cluster)
{
	const char *has = td_slurm_conf_get(td_jget(cluster, "spec.config.slurmConf"), "AccountingStorageEnforce");
	return td_slurm_accounting(cluster) &&
	       (td_streq(td_jstr(cluster, "spec.accounting.enforce"), "limits") || (has && strcasestr(has, "limits")) ||
		(has && strcasestr(has, "safe")) || (has && strcasestr(has, "all")));
}
