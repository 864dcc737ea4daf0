// The kubeconfig of one user of an embedded plane, from kubeconfig.yaml.
#include "api/kubeconfig.h"

#include "base/embedded.h"
#include "base/file.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_api_files[];

int td_kubeconfig_write(const char *home, const char *user, int port, struct td_error *err)
{
	const struct td_embedded *f = td_embedded(td_api_files, "kubeconfig.yaml");
	td_auto_json_list struct td_json_list l = {0};
	if (td_yaml_parse(f->text, f->len, &l, NULL) || l.n != 1)
		abort(); // part of this program; a unit test reads it

	td_auto_free char *digits = td_asprintf("%d", port);
	const struct td_json_word words[] = {{"home", home, 0}, {"user", user, 0}, {"port", digits, 0}};
	td_auto(td_json_unref) struct td_json *conf =
		td_jm_done(td_json_fill(td_json_root(l.v[0]), words, TD_LEN(words)));
	td_auto_free char *text = td_yaml_text(td_json_root(conf)),
			  *path = td_asprintf("%s/kubeconfig/%s.conf", home, user);

	td_auto_buf struct td_buf old = {0};
	if (!td_file_read(path, 1 << 20, &old, NULL) && td_streq(td_buf_str(&old), text))
		return 0;
	return td_file_write(path, text, strlen(text), 0600, err);
}
