// The default filter of system calls. seccomp.yaml holds it in the form of the OCI runtime
// specification; which rules apply depends on the container's capabilities.
#include "base/embedded.h"
#include "oci/internal.h"

#include <stdlib.h>

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

void oci_seccomp(yyjson_mut_doc *d, yyjson_mut_val *linux_, const struct td_oci_spec *s)
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
