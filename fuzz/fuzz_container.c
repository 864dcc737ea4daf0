// What users write for containers in jobs: names of images, mounts, credentials, and the files of a squashfs image
// that say how it starts. A name that is read is written so that it reads as the same, and so is a directory.
// rows: A11.1
#include "spank/enroot.h"
#include "spank/logins.h"
#include "spank/mounts.h"
#include "spank/reference.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *nothing(const char *name)
{
	return *name ? NULL : "never asked";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;

	td_auto_free char *s = td_strndup((const char *)data, size);
	td_auto_reference struct td_ct_reference r = {0}, back = {0};
	if (td_ct_reference_parse(s, &r, NULL) == 0) {
		td_auto_free char *text = td_ct_reference_text(&r);
		if (strpbrk(text, " \t\n\"'\\$;") || td_ct_reference_parse(text, &back, NULL))
			abort();
		td_auto_free char *again = td_ct_reference_text(&back);
		if (strcmp(text, again) != 0 || !td_ct_pattern_allows("*", &r) || !td_ct_pattern_allows(text, &r))
			abort();
	}
	td_auto_mounts struct td_ct_mounts m = {0};
	if (td_ct_mounts_parse(s, &m, NULL) == 0)
		for (size_t i = 0; i < m.n; i++)
			if (m.v[i].to[0] != '/' || (m.v[i].kind == TD_CT_BIND) != (m.v[i].from != NULL))
				abort();
	td_auto_free char *auth = td_ct_logins_netrc(s, "h:5000");
	if (auth && strpbrk(auth + 10, "\\\t"))
		abort();

	td_auto_buf struct td_buf env = {0}, rc = {0};
	td_ct_environment_parse(s, nothing, &env);
	for (const char *p = env.s; p && p < env.s + env.len; p += strlen(p) + 1)
		if (!strchr(p, '=') || *p == '=' || strchr(p, '\n'))
			abort();
	td_auto_free char *dir = td_ct_rc_workdir(s), *read = NULL;
	if (dir && !strchr(dir, '\n')) {
		td_ct_rc_write(dir, NULL, 0, &rc);
		read = td_ct_rc_workdir(td_buf_str(&rc));
		if (!td_streq(dir, read))
			abort();
	}
	return 0;
}
