#include "cli/common.h"

#include <stdio.h>
#include <unistd.h>

int td_cli_open(const char *cmd, struct td_instance *ret_i, struct td_kube **ret_k)
{
	struct td_error err = TD_ERROR_INIT;
	int r = td_instance_load(ret_i, &err);
	if (!r) {
		td_auto_free char *conf = td_instance_kubeconfig(ret_i, "admin");
		if (access(conf, R_OK) < 0)
			r = td_fail(&err, TD_DENIED,
				    "%s is not readable for you: use sudo, or set KUBECONFIG to a file that is yours",
				    conf);
		else
			r = td_kube_new(conf, ret_k, &err);
	}
	if (r)
		fprintf(stderr, "tandem %s: %s\n", cmd, err.msg);
	return r;
}
