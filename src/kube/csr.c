// What a CertificateSigningRequest asks for.
#include "kube/csr.h"

#include "http/csr.h"
#include "http/pki.h"

#include <stdio.h>
#include <string.h>

// What the signer of nodes' client certificates signs: client auth and digital signature, with RSA also key encipherment.
static bool usages_fit(yyjson_val *list)
{
	size_t n = yyjson_arr_size(list);
	return td_jhas(list, "client auth") && td_jhas(list, "digital signature") &&
	       (n == 2 || (n == 3 && td_jhas(list, "key encipherment")));
}

void td_kube_csr_read(const struct td_object *o, struct td_kube_csr *ret)
{
	*ret = (struct td_kube_csr){.certificate = td_jstr(o->root, "status.certificate")};
	yyjson_val *spec = td_jget(o->root, "spec"), *c;
	const char *user = td_jstr_or(spec, "username", "");
	if (td_jhas(td_jget(spec, "groups"), TD_CSR_GROUP) && td_starts(user, TD_CSR_TOKEN))
		ret->token = user + strlen(TD_CSR_TOKEN);
	ret->usages = usages_fit(td_jget(spec, "usages"));
	size_t i, n;
	yyjson_arr_foreach (td_jget(o->root, "status.conditions"), i, n, c) {
		const char *type = td_jstr(c, "type");
		if (td_streq(type, "Approved") || td_streq(type, "Denied") || td_streq(type, "Failed"))
			ret->decided = type;
	}

	const char *text = td_jstr_or(spec, "request", "");
	td_auto_buf struct td_buf pem = {0};
	td_auto_csr struct td_csr r = {0};
	if (td_base64_decode(text, &pem, NULL) || td_csr_read(td_buf_str(&pem), pem.len, &r, NULL))
		return;
	ret->cn = td_steal(r.cn);
	ret->org = td_steal(r.org);
	ret->names = r.names;
	snprintf(ret->machine, sizeof(ret->machine), TD_CSR_MACHINE "%s", r.key_id);
}

void td_kube_csr_done(struct td_kube_csr *c)
{
	free(c->cn);
	free(c->org);
	*c = (struct td_kube_csr){0};
}
