// The throw-away server (dev.h).
#include "apiserver/dev.h"

#include "api/kubeconfig.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "http/pki.h"

#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {"kubelet", "operator", "bridge", "controllers"};

int td_srv_dev_pki(const char *dir, struct td_error *err)
{
	td_auto_free char *pki = td_asprintf("%s/pki", dir);
	int rc = td_mkdir_p(pki, 0700, err);
	if (rc < 0 || (rc = td_pki_ca_ensure(pki, "tandem", err)) < 0)
		return rc;
	static const char *const sans[] = {"localhost", "127.0.0.1", "tandem-host", "kubernetes", NULL},
				 *const masters[] = {"system:masters", NULL},
				 *const role_org[] = {"tandem:roles", NULL};
	const struct td_pki_cert server = {
		.file = "apiserver", .cn = "tandem-apiserver", .sans = sans, .server = true, .days = 365};
	const struct td_pki_cert admin = {.file = "admin", .cn = "admin", .orgs = masters, .days = 365};
	if ((rc = td_pki_issue(pki, &server, err)) < 0 || (rc = td_pki_issue(pki, &admin, err)) < 0)
		return rc;
	for (size_t i = 0; i < TD_LEN(roles); i++) {
		td_auto_free char *cn = td_asprintf("system:tandem:%s", roles[i]);
		const struct td_pki_cert c = {.file = roles[i], .cn = cn, .orgs = role_org, .days = 365};
		if ((rc = td_pki_issue(pki, &c, err)) < 0)
			return rc;
	}

	td_auto_free char *sa = td_asprintf("%s/sa.key", pki);
	if (td_path_exists(sa))
		return 0;
	char key[48];
	td_random(key, sizeof(key));

	return td_file_write(sa, key, sizeof(key), 0600, err);
}

int td_srv_dev_kubeconfigs(const char *dir, int port, struct td_error *err)
{
	td_auto_free char *d = td_asprintf("%s/kubeconfig", dir);
	int rc = td_mkdir_p(d, 0700, err);
	if (rc < 0 || (rc = td_kubeconfig_write(dir, "admin", port, err)) < 0)
		return rc;
	for (size_t i = 0; i < TD_LEN(roles); i++)
		if ((rc = td_kubeconfig_write(dir, roles[i], port, err)) < 0)
			return rc;
	return 0;
}
