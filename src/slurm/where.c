#include "slurm/where.h"

#include "slurm/conf.h"

#include <string.h>

static char *fill(const char *pattern, const char *uid, const char *name)
{
	struct td_buf b = {0};
	for (const char *p = pattern; *p; p++) {
		if (td_starts(p, "{uid}")) {
			td_buf_puts(&b, uid);
			p += strlen("{uid}") - 1;
		} else if (td_starts(p, "{name}")) {
			td_buf_puts(&b, name);
			p += strlen("{name}") - 1;
		} else {
			td_buf_putc(&b, *p);
		}
	}
	return td_buf_take(&b);
}

char *td_slurm_pod_url(const yyjson_val *pod, const char *empty_dirs, struct td_error *err)
{
	const char *access = td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_REST_ACCESS),
		   *ip = td_jstr_or(pod, "status.podIP", "");
	if (td_streq(access, "socket")) {
		if (!empty_dirs) {
			td_fail(err, TD_INVALID,
				"slurmrestd pod %s listens on a socket only (spec.restApi.access of the SlurmCluster): "
				"start this with "
				"--empty-dirs on the pod's node, or set access to network",
				td_jstr_or(pod, "metadata.name", ""));
			return NULL;
		}
		td_auto_free char *dir = fill(empty_dirs, td_jstr_or(pod, "metadata.uid", ""), TD_SLURM_REST_VOLUME);
		return td_asprintf("unix:%s/" TD_SLURM_REST_SOCKET, dir);
	}

	if (!*ip) {
		td_fail(err, TD_TRANSIENT, "slurmrestd pod %s has no address yet",
			td_jstr_or(pod, "metadata.name", ""));
		return NULL;
	}

	return td_asprintf(strchr(ip, ':') ? "http://[%s]:%d" : "http://%s:%d", ip, TD_SLURMRESTD_PORT);
}

bool td_slurm_pod_usable(const yyjson_val *pod)
{
	const char *ip = td_jstr(pod, "status.podIP"),
		   *ready = td_jstr(td_jfind(td_jget(pod, "status.conditions"), "type", "Ready"), "status");
	return td_streq(ready, "True") && ip && *ip && !td_jstr(pod, "metadata.deletionTimestamp");
}

char *td_slurm_rest_url(const struct td_slurm_where *w, struct td_error *err)
{
	td_auto_free char *best = NULL;
	const char *best_name = NULL;

	td_fail(err, TD_TRANSIENT, "no slurmrestd pod is Ready");

	for (size_t i = 0; i < w->n; i++) {
		const char *name = td_jstr_or(w->pods[i], "metadata.name", "");
		if (!td_slurm_pod_usable(w->pods[i]))
			continue;

		td_auto_free char *url = td_slurm_pod_url(w->pods[i], w->empty_dirs, err);
		if (url && td_streq(url, w->current))
			return td_steal(url);

		if (url && (!best || strcmp(name, best_name) < 0)) {
			free(best);
			best = td_steal(url);
			best_name = name;
		}
	}

	return td_steal(best);
}
