// What cloud-init does on a new virtual machine.
#include "cli/cloud_init.h"

#include "cli/common.h"

#include <string.h>

char *td_cli_cloud_init(const yyjson_val *token, const char *key)
{
	yyjson_val *t = (yyjson_val *)token;
	const struct td_json_word words[] = {{"node", td_jstr_or(t, "node", ""), 0},
					     {"key", key, 0},
					     {"server", td_jstr_or(t, "server", ""), 0},
					     {"caHash", td_jstr_or(t, "caHash", ""), 0},
					     {"token", td_jstr_or(t, "token", ""), 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_cli_template("cloud-init.yaml", words, TD_LEN(words));
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_free char *text = td_yaml_text(td_json_root(j));
	char *out = td_asprintf(
		"#cloud-config\n# Node %s of %s. Secret: whoever reads it before %s can be this node.\n%s",
		td_jstr_or(t, "node", "?"), td_jstr_or(t, "server", "?"), td_jstr_or(t, "expires", "?"), text);
	explicit_bzero(text, strlen(text));
	return out;
}
