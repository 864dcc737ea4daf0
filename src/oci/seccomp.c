// The default filter of system calls. seccomp.yaml holds it in the form of the OCI runtime
// specification; which rules apply depends on the container's capabilities.
#include "base/embedded.h"
#include "oci/internal.h"

#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_oci_files[];

static bool has_any(const struct td_oci_spec *s, yyjson_val *caps)
{
	td_auto_strv struct td_strv want = {0};
	td_jstrs(caps, &want);
	for (const char *const *c = s->caps; c && *c; c++)
		if (td_strv_has(&want, *c))
			return true;
	return false;
}

void td_oci_seccomp(yyjson_mut_doc *d, yyjson_mut_val *linux_, const struct td_oci_spec *s)
{
	td_auto_json_list struct td_json_list l = {0};
	const struct td_embedded *f = td_embedded(td_oci_files, "seccomp.yaml");
	if (td_yaml_parse(f->text, f->len, &l, NULL) || l.n != 1)
		abort(); // embedded in this program; a unit test reads it
	td_jm_str(d, linux_, "seccomp.defaultAction", "SCMP_ACT_ERRNO");
	td_jm_int(d, linux_, "seccomp.defaultErrnoRet", 1); // EPERM
	yyjson_mut_val *rules = td_jm_arr(d, linux_, "seccomp.syscalls");

	size_t i, n;
	yyjson_val *r;
	yyjson_arr_foreach (td_json_root(l.v[0]), i, n, r) {
		yyjson_val *caps = td_jkey(r, "caps"), *unless = td_jkey(r, "unless");
		if ((caps && !has_any(s, caps)) || (unless && has_any(s, unless)))
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, rules);
		bool refused = td_jkey(r, "errno");
		td_jm_copyval(d, o, "names", td_jkey(r, "calls"));
		td_jm_str(d, o, "action", refused ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
		if (refused)
			td_jm_int(d, o, "errnoRet", td_jint(r, "errno", 0));
		td_jm_copyval(d, o, "args", td_jkey(r, "args"));
	}
}

// ---- of the site's own ----

static bool action(const char *s)
{
	static const char *const known[] = {"SCMP_ACT_ALLOW",      "SCMP_ACT_ERRNO", "SCMP_ACT_LOG",
					    "SCMP_ACT_KILL",       "SCMP_ACT_TRAP",  "SCMP_ACT_KILL_PROCESS",
					    "SCMP_ACT_KILL_THREAD"};
	for (size_t i = 0; s && i < TD_LEN(known); i++)
		if (!strcmp(s, known[i]))
			return true;
	return false;
}

int td_oci_seccomp_check(const yyjson_val *p, struct td_error *err)
{
	yyjson_val *rules = td_jget(p, "syscalls"), *r, *x;
	size_t i, n, k, m;
	if (!yyjson_is_obj((yyjson_val *)(uintptr_t)p) || !action(td_jstr(p, "defaultAction")))
		return td_fail(err, TD_INVALID,
			       "defaultAction: \"%.40s\" is no action: write SCMP_ACT_ALLOW or SCMP_ACT_ERRNO",
			       td_jstr_or(p, "defaultAction", ""));
	if (rules && !yyjson_is_arr(rules))
		return td_fail(err, TD_INVALID, "syscalls: want a list of {names, action}");
	yyjson_arr_foreach (rules, i, n, r) {
		yyjson_val *names = td_jget(r, "names");
		if (!action(td_jstr(r, "action")))
			return td_fail(err, TD_INVALID, "syscalls[%zu].action: \"%.40s\" is no action", i,
				       td_jstr_or(r, "action", ""));
		if (!yyjson_arr_size(names))
			return td_fail(err, TD_INVALID, "syscalls[%zu].names: want a list of system calls", i);
		yyjson_arr_foreach (names, k, m, x)
			if (!yyjson_is_str(x))
				return td_fail(err, TD_INVALID, "syscalls[%zu].names[%zu]: want a name", i, k);
		// A rule that depends on the container would hold for none of them, or for all.
		if (yyjson_obj_size(td_jget(r, "includes")) || yyjson_obj_size(td_jget(r, "excludes")))
			return td_fail(err, TD_INVALID,
				       "syscalls[%zu]: includes and excludes are not served; leave them out", i);
	}
	return 0;
}

void td_oci_seccomp_own(yyjson_mut_doc *d, yyjson_mut_val *linux_, const yyjson_val *p)
{
	static const char *const of_rule[] = {"names", "action", "errnoRet", "args"};
	yyjson_val *r;
	size_t i, n;
	td_jm_str(d, linux_, "seccomp.defaultAction", td_jstr(p, "defaultAction"));
	if (td_jget(p, "defaultErrnoRet"))
		td_jm_int(d, linux_, "seccomp.defaultErrnoRet", td_jint(p, "defaultErrnoRet", 1));
	yyjson_mut_val *rules = td_jm_arr(d, linux_, "seccomp.syscalls");
	yyjson_arr_foreach (td_jget(p, "syscalls"), i, n, r) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, rules);
		for (size_t k = 0; k < TD_LEN(of_rule); k++)
			if (td_jkey(r, of_rule[k]))
				td_jm_copyval(d, o, of_rule[k], td_jkey(r, of_rule[k]));
	}
}
