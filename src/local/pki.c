// The certificates, the token key and the kubeconfigs of one home.
#include "local/pki.h"

#include "api/kubeconfig.h"
#include "base/file.h"
#include "base/rand.h"
#include "http/pki.h"

#include <string.h>

int td_local_pki(const struct td_instance *i, struct td_error *err)
{
	td_auto_free char *dir = td_instance_path(i, "pki"), *kube = td_instance_path(i, "kubeconfig"),
			  *sa = td_instance_path(i, "pki/sa.key");
	int r;
	if ((r = td_mkdir_p(dir, 0700, err)) || (r = td_mkdir_p(kube, 0700, err)) ||
	    (r = td_pki_ca_ensure(dir, "tandem", err)))
		return r;

	if (!td_path_exists(sa)) {
		unsigned char key[32];
		td_random(key, sizeof(key));
		if ((r = td_file_write(sa, key, sizeof(key), 0600, err)))
			return r;
	}

	td_auto_free char *addr = td_asprintf("10.%d.0.1", i->subnet);
	const char *const sans[] = {"localhost",
				    "127.0.0.1",
				    addr,
				    "tandem-host",
				    "kubernetes",
				    "kubernetes.default",
				    "kubernetes.default.svc",
				    "kubernetes.default.svc.cluster.local",
				    NULL};
	const struct td_pki_cert server = {
		.file = "apiserver", .cn = "tandem-apiserver", .sans = sans, .server = true, .days = 3650};

	if ((r = td_pki_issue(dir, &server, err)))
		return r;

	static const char *const users[] = {"admin", "kubelet", "operator", "bridge", "gateway", "controllers"};
	for (size_t k = 0; k < TD_LEN(users); k++) {
		static const char *const masters[] = {"system:masters", NULL}, *const roles[] = {"tandem:roles", NULL};
		td_auto_free char *cn = k ? td_asprintf("system:tandem:%s", users[k]) : td_strdup("admin");
		const struct td_pki_cert c = {.file = users[k], .cn = cn, .orgs = k ? roles : masters, .days = 3650};
		if ((r = td_pki_issue(dir, &c, err)) || (r = td_kubeconfig_write(i->home, users[k], i->api_port, err)))
			return r;
	}

	return 0;
}
