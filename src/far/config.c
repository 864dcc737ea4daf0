// A kubeconfig from a Secret. Who may write that Secret may not read files of the operator's, nor start programs beside
// it: so everything is in the text itself.
#include "far/far.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

// True when nothing in the list's bodies is named that is outside of the text.
static int closed(const yyjson_val *root, const char *list, const char *body, struct td_error *err)
{
	static const char *const no[] = {
		"certificate-authority", "client-certificate", "client-key", "tokenFile", "exec", "auth-provider"};
	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (td_jget(root, list), i, n, e)
		for (size_t k = 0; k < TD_LEN(no); k++)
			if (td_jkey(td_jget(e, body), no[k]))
				return td_fail(err, TD_INVALID,
					       "%s[%zu].%s.%s: it names something outside of the Secret: write "
					       "certificate-authority-data, and token or client-certificate-data with "
					       "client-key-data",
					       list, i, body, no[k]);
	return 0;
}

int td_far_client(const char *kubeconfig, size_t len, struct td_kube **ret, struct td_error *err)
{
	td_auto_json_list struct td_json_list docs = {0};
	int r = td_yaml_parse(kubeconfig, len, &docs, err);
	if (!r && docs.n != 1)
		r = td_fail(err, TD_INVALID, "it must be one document");
	const yyjson_val *root = r ? NULL : td_json_root(docs.v[0]);
	if (!r)
		r = closed(root, "clusters", "cluster", err);
	if (!r)
		r = closed(root, "users", "user", err);
	yyjson_val *e;
	size_t i, n;
	yyjson_arr_foreach (td_jget(root, "clusters"), i, n, e) {
		if (!r && !td_starts(td_jstr_or(e, "cluster.server", ""), "https://"))
			r = td_fail(err, TD_INVALID, "clusters[%zu].cluster.server: must be an https address", i);
		if (!r && !td_jstr(e, "cluster.certificate-authority-data"))
			r = td_fail(
				err, TD_INVALID,
				"clusters[%zu].cluster.certificate-authority-data: it must say by which certificate "
				"the other cluster is known",
				i);
	}
	if (r)
		return r;

	td_auto_close int fd = memfd_create("tandem-kubeconfig", MFD_CLOEXEC);
	if (fd < 0 || td_write_all(fd, kubeconfig, len, err))
		return td_fail(err, TD_INTERNAL, "no memory file");
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return td_kube_new(path, ret, err);
}
