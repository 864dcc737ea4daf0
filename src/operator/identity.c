// Users, groups and keys of a directory service: spec.identity.ldap of a SlurmCluster. Pure.
#include "operator/operator.h"

#include <string.h>

// Options of SSSD's [domain/…] that the fields decide.
static const struct {
	const char *key, *instead;
} own[] = {
	{"id_provider", "spec.identity.ldap"},
	{"auth_provider", "nobody has a password here: sshd takes keys only"},
	{"ldap_uri", "spec.identity.ldap.uris"},
	{"ldap_backup_uri", "spec.identity.ldap.uris"},
	{"ldap_search_base", "spec.identity.ldap.baseDN"},
	{"ldap_schema", "spec.identity.ldap.schema"},
	{"ldap_default_bind_dn", "spec.identity.ldap.bind"},
	{"ldap_default_authtok", "spec.identity.ldap.bind"},
	{"ldap_default_authtok_type", "spec.identity.ldap.bind"},
	{"ldap_id_use_start_tls", "spec.identity.ldap.tls"},
	{"ldap_tls_cacert", "spec.identity.ldap.tls"},
	{"ldap_tls_cacertdir", "spec.identity.ldap.tls"},
	{"ldap_tls_reqcert", "whoever answers must prove who he is"},
	{"ldap_user_ssh_public_key", "spec.identity.ldap.sshKeyAttribute"},
	{"entry_cache_timeout", "spec.identity.ldap.cacheSeconds"},
	{"min_id", "numbers below 1000 are the system's"},
};

// One line of printable characters?
static bool is_line(const char *s)
{
	for (; s && *s; s++)
		if ((unsigned char)*s < ' ' || *s == 127)
			return false;
	return s != NULL;
}

static bool is_key(const char *s)
{
	return s && *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' && *s >= 'a' && *s <= 'z';
}

void td_op_identity_check(const yyjson_val *sc, struct td_strv *problems)
{
	yyjson_val *ldap = td_jget(sc, "spec.identity.ldap"), *x;
	static const char *const lines[] = {"baseDN", "bind.dn"};
	size_t i, n;
	if (!ldap)
		return;
	yyjson_arr_foreach (td_jget(ldap, "uris"), i, n, x)
		if (td_starts(yyjson_get_str(x), "ldap://") && !td_jbool(ldap, "tls.startTLS", false))
			td_strv_addf(problems,
				     "spec.identity.ldap.uris[%zu]: anybody on the way could answer as the directory "
				     "and be anybody; write ldaps://, or tls.startTLS: true",
				     i);
	for (i = 0; i < TD_LEN(lines); i++)
		if (!is_line(td_jstr_or(ldap, lines[i], "")))
			td_strv_addf(problems, "spec.identity.ldap.%s: must be one line", lines[i]);
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(ldap, "options"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		if (!is_key(key) || !is_line(value))
			td_strv_addf(
				problems,
				"spec.identity.ldap.options.%.40s: must be an option of SSSD with one line as value",
				is_key(key) ? key : "?");
		for (size_t j = 0; j < TD_LEN(own); j++)
			if (td_streq(own[j].key, key))
				td_strv_addf(problems,
					     "spec.identity.ldap.options.%s: Tandem sets this option (%s); remove it",
					     key, own[j].instead);
	}
}

char *td_op_identity_conf(const yyjson_val *sc)
{
	yyjson_val *ldap = td_jget(sc, "spec.identity.ldap"), *x;
	const char *dn = td_jstr(ldap, "bind.dn");
	struct td_buf b = {0};
	size_t i, n;
	if (!ldap)
		return NULL;
	td_buf_puts(
		&b,
		"# Written by Tandem from spec.identity.ldap. Edit the SlurmCluster, not this file.\n"
		"[sssd]\nservices = nss, pam, ssh\ndomains = ldap\n\n"
		"[nss]\nfilter_users = root,daemon,bin,sys,nobody,slurm,sshd,munge\nfilter_groups = "
		"root,slurm,sudo,shadow\n"
		"fallback_homedir = /home/%u\ndefault_shell = /bin/bash\nentry_negative_timeout = 5\n\n"
		"[pam]\n\n[ssh]\n\n[domain/ldap]\nid_provider = ldap\nauth_provider = none\naccess_provider = permit\n"
		"chpass_provider = none\nsudo_provider = none\nautofs_provider = none\nenumerate = false\nmin_id = "
		"1000\n"
		// A directory that was away is asked again soon.
		"offline_timeout = 10\noffline_timeout_max = 60\noffline_timeout_random_offset = 5\n"
		"ldap_tls_reqcert = demand\nldap_uri = ");
	yyjson_arr_foreach (td_jget(ldap, "uris"), i, n, x)
		td_buf_printf(&b, "%s%s", i ? "," : "", yyjson_get_str(x));
	td_buf_printf(
		&b,
		"\nldap_search_base = %s\nldap_schema = %s\nldap_user_ssh_public_key = %s\nentry_cache_timeout = %lld\n"
		"ldap_id_use_start_tls = %s\n",
		td_jstr_or(ldap, "baseDN", ""), td_jstr_or(ldap, "schema", "rfc2307"),
		td_jstr_or(ldap, "sshKeyAttribute", "sshPublicKey"), td_jint(ldap, "cacheSeconds", 60),
		td_jbool(ldap, "tls.startTLS", false) ? "true" : "false");
	if (td_jget(ldap, "tls.caConfigMap"))
		td_buf_puts(&b, "ldap_tls_cacert = /etc/tandem/ldap-ca/ca.crt\n");
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(ldap, "options"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
		const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
		td_buf_printf(&b, "%s = %s\n", key ? key : "", value ? value : "");
	}
	if (dn) // sssd.sh adds the password
		td_buf_printf(&b, "ldap_default_bind_dn = %s\n", dn);
	return td_buf_take(&b);
}

void td_op_identity_add(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *image)
{
	yyjson_val *ldap = td_jget(sc, "spec.identity.ldap");
	const char *secret = td_jstr(ldap, "bind.secret"), *ca = td_jstr(ldap, "tls.caConfigMap");
	yyjson_mut_val *x;
	size_t i, n;
	if (!ldap)
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = td_op_template(
		"sssd.yaml", {"program", td_op_program("sssd.sh")}, {"cluster", td_jstr_or(sc, "metadata.name", "")},
		{"secret", secret ? secret : ""}, {"ca", ca ? ca : ""});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *init = td_jm_get(o, "initContainer"),
		       *mounts = td_jm_get(init, "volumeMounts"), *volumes = td_jm_arr(d, spec, "volumes");
	if (secret) {
		td_op_put(over, mounts, NULL, td_jm_get(o, "bind.volumeMount"));
		td_op_put(d, volumes, NULL, td_jm_get(o, "bind.volume"));
	}
	if (ca) {
		td_op_put(over, mounts, NULL, td_jm_get(o, "ca.volumeMount"));
		td_op_put(d, volumes, NULL, td_jm_get(o, "ca.volume"));
	}
	if (image) {
		td_jm_str(over, init, "image", image);
		td_jm_str(over, init, "imagePullPolicy", "IfNotPresent");
	}
	td_op_put(d, td_jm_arr(d, spec, "initContainers"), NULL, init);
	td_op_put(d, td_jm_arr(d, td_jm_get(spec, "containers.[0]"), "volumeMounts"), NULL,
		  td_jm_get(o, "volumeMount"));
	yyjson_mut_arr_foreach (td_jm_get(o, "volumes"), i, n, x)
		td_op_put(d, volumes, NULL, x);
}
