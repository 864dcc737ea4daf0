// containers.conf.
#include "spank/settings.h"

#include "base/file.h"

#include <string.h>

void td_ct_settings_done(struct td_ct_settings *s)
{
	td_strv_done(&s->allow);
	td_strv_done(&s->pull);
	td_strv_done(&s->insecure);
}

int td_ct_settings_read(const char *path, struct td_ct_settings *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 1 << 20, &b, NULL))
		return td_fail(
			err, TD_UNSUPPORTED,
			"containers are not turned on here: set spec.containers.enabled of the SlurmCluster, and let "
			"this node's slurmd pod be replaced");

	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');
	struct td_ct_settings s = {0};
	for (size_t i = 0; i < lines.n; i++) {
		char *value = strchr(lines.v[i], ' ');
		if (!value || lines.v[i][0] == '#')
			continue;
		*value++ = '\0';
		const char *key = lines.v[i];
		bool yes = !strcmp(value, "yes");
		if (!strcmp(key, "allow"))
			td_strv_add(&s.allow, value);
		else if (!strcmp(key, "pull"))
			td_strv_add(&s.pull, value);
		else if (!strcmp(key, "insecure"))
			td_strv_add(&s.insecure, value);
		else if (!strcmp(key, "limit"))
			td_parse_i64(value, &s.limit);
		else if (!strcmp(key, "mount-home"))
			s.home = yes;
		else if (!strcmp(key, "remap-root"))
			s.root = yes;
		else if (!strcmp(key, "read-only"))
			s.read_only = yes;
		// A line of a newer Tandem is none of ours.
	}
	*ret = s;
	return 0;
}
