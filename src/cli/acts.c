#include "cli/acts.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/proc.h"
#include "cli/loginpod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const struct td_embedded td_cli_files[];

enum { DAY_S = 86400, WIDTH = 80, CHANGES_MS = 60000 };

bool td_cli_act_read(char *line, struct td_cli_act *ret)
{
	char *part[5];
	size_t n = 0;
	for (char *p = line; n < TD_LEN(part); n++) {
		part[n] = p;
		char *bar = n + 1 < TD_LEN(part) ? strchr(p, '|') : NULL; // the last one may have bars
		if (!bar)
			break;
		*bar = '\0';
		p = bar + 1;
	}
	long long t;
	if (n + 1 != TD_LEN(part) || !td_parse_i64(part[0], &t) || t < 0 || !*part[1] || !*part[2])
		return false;
	*ret = (struct td_cli_act){t, part[1], part[2], part[3], part[4]};
	return true;
}

static int older(const void *a, const void *b)
{
	long long x = ((const struct td_cli_act *)a)->time, y = ((const struct td_cli_act *)b)->time;
	return x < y ? -1 : x > y;
}

static void print(const struct td_cli_act *a, bool json)
{
	char when[32];
	time_t t = (time_t)a->time;
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (json) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "time", when);
		td_jm_str(d, root, "who", a->who);
		td_jm_str(d, root, "what", a->what);
		td_jm_str(d, root, "on", a->on);
		td_jm_str(d, root, "more", a->more);
		td_auto_free char *text = td_json_mut_text(root, NULL);
		puts(text);
		return;
	}
	td_auto_free char *line = td_asprintf("%s  %-10s %-18s %s: %s", when, a->who, a->what, a->on, a->more);
	if (strlen(line) > WIDTH)
		strcpy(line + WIDTH - 3, "...");
	puts(line);
}

// Who changed jobs, as slurmctld's pod has kept it; nothing where there is none. Of several, which have one directory, the first
// that answers.
static void changes(const struct td_cli_login *l, const char *from, const char *to, struct td_buf *ret)
{
	td_auto_objects struct td_objects pods = {0};
	td_auto_free char *labels = td_asprintf(TD_LABEL_NAME "=slurmctld," TD_LABEL_CLUSTER "=%s", l->cluster);
	struct td_error err = TD_ERROR_INIT;
	int r = td_kube_list(l->kube, &td_pods, l->ns, labels, NULL, NULL, &pods, &err), status = 1;
	for (size_t i = 0; i < pods.n && status; i++) {
		td_auto_strv struct td_strv a = {0};
		td_auto_buf struct td_buf said = {0};
		td_cli_login_beside(l, pods.v[i]->name, "--container=slurmctld", &a);
		const char *const words[] = {"sh", "-c", td_embedded(td_cli_files, "changes.sh")->text, "sh", from, to};
		for (size_t k = 0; k < TD_LEN(words); k++)
			td_strv_add(&a, words[k]);
		r = td_run(a.v, NULL, CHANGES_MS, NULL, &status, &said, &err);
		status = r ? 1 : status;
		if (!status)
			td_buf_add(ret, td_buf_str(&said), said.len);
	}
	if (r || status)
		fprintf(stderr, "tandem history: who changed jobs is not known: no slurmctld of %s answers%s%s\n",
			l->cluster, r ? ": " : "", r ? err.msg : "");
}

int td_cli_acts_show(const struct td_remote *remote, const struct td_cli_acts *q)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_login struct td_cli_login l = {0};
	if (td_cli_login_open("history", remote, &l))
		return 1;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	td_auto_free char *from = td_asprintf("%lld", (long long)now - (long long)q->days * DAY_S),
			  *to = td_asprintf("%lld", (long long)now + 1);
	const char *const args[] = {from, to, q->node ? q->node : "", NULL};
	td_auto_buf struct td_buf out = {0};
	if (td_cli_login_run(&l, "acts.sh", args, &out, &err)) {
		fprintf(stderr, "tandem history: %s\n", err.msg);
		return 1;
	}
	if (!q->node)
		changes(&l, from, to, &out);
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&out), '\n');
	td_auto_free struct td_cli_act *v = td_calloc(lines.n + 1, sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < lines.n; i++)
		n += td_cli_act_read(lines.v[i], &v[n]);
	if (!n && lines.n) {
		td_cli_login_unread(&l, lines.v[0], &err);
		fprintf(stderr, "tandem history: %s\n", err.msg);
		return 1;
	}
	qsort(v, n, sizeof(*v), older);
	for (size_t i = 0; i < n; i++)
		print(&v[i], q->json);
	if (!n && !q->json)
		printf("Nothing was done on Slurm's side in %d days.\n", q->days);
	return 0;
}
