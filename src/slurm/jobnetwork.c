// Which native jobs are kept apart in the network they share.
#include "slurm/jobnetwork.h"

#include <arpa/inet.h>
#include <string.h>

enum td_jobnetwork td_slurm_jobnetwork(const yyjson_val *o)
{
	const char *s = td_jstr_or(o, "spec.jobNetwork.separate", "none");
	return td_streq(s, "users")      ? TD_JOBNETWORK_USERS
	       : td_streq(s, "accounts") ? TD_JOBNETWORK_ACCOUNTS
					 : TD_JOBNETWORK_NONE;
}

static bool block(const char *s)
{
	td_auto_free char *at = td_strndup(s, strcspn(s, "/"));
	unsigned char bytes[16];
	bool four = inet_pton(AF_INET, at, bytes) == 1, six = !four && inet_pton(AF_INET6, at, bytes) == 1;
	const char *bits = strchr(s, '/');
	long long n = 0;
	return (four || six) && (!bits || (td_parse_i64(bits + 1, &n) && n >= 0 && n <= (four ? 32 : 128)));
}

void td_slurm_jobnetwork_check(const yyjson_val *o, struct td_strv *problems)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(o, "spec.jobNetwork.from"), i, n, x) {
		const char *s = yyjson_get_str(x);
		if (!s || !block(s))
			td_strv_addf(problems,
				     "spec.jobNetwork.from[%zu]: \"%.60s\" is no block of addresses; write one such as "
				     "10.20.0.0/16 or fd00:20::/48",
				     i, s ? s : "");
	}
}
