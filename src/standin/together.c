// What a job of several nodes shows on all of them: the first node's `watch` asks the servers of the others (peer.h).
#include "standin/peer.h"
#include "standin/watch.h"
#include "standin/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// After stacks that take longer than the agent remembers (FORGET_MS of src/gate/hangs.c) the other jobs' counts begin
// anew.
enum { COMMAND_MS = 10000, ASK_MS = 8000, STACKS_MS = 65000, STACKS_ALL_MS = 120000, STACKS_NODES = 15 };

bool td_standin_signs_read(const char *text, struct standin_signs *ret)
{
	return sscanf(text, "cpu=%lld output=%lld beat=%lld", &ret->cpu_ms, &ret->output, &ret->heartbeat) == 3;
}

bool td_standin_others_read(const char *list, const char *self, struct standin_other **ret, int *ret_n)
{
	char *text = NULL, why[128], *save = NULL;
	*ret = NULL;
	*ret_n = 0;
	if (!strpbrk(list, ",["))
		return true; // one node
	char *argv[] = {"sinfo", "-h", "-a", "-N", "-n", (char *)list, "-o", "%N %o", NULL};
	bool well = !td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why)) && text;
	for (char *line = well ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		struct standin_other o;
		bool twice = false; // a node of several partitions
		if (sscanf(line, "%63s %63s", o.node, o.address) != 2)
			continue;
		for (int i = 0; i < *ret_n && !twice; i++)
			twice = !strcmp((*ret)[i].node, o.node);
		if (twice || !strcmp(o.node, self))
			continue;
		struct standin_other *more = realloc(*ret, (size_t)(*ret_n + 1) * sizeof(o));
		if (!more)
			abort();
		*ret = more;
		more[(*ret_n)++] = o;
	}
	free(text);
	return well;
}

// One question to one node; NULL: it was not reached. Valid until the next one.
static const char *ask(const struct standin_other *o, const struct standin_key *key, int64_t deadline, const char *line)
{
	static char said[160];
	static struct standin_peer p;
	char why[160];
	p = (struct standin_peer){.fd = -1};
	snprintf(p.node, sizeof(p.node), "%s", o->node);
	snprintf(p.address, sizeof(p.address), "%s", o->address);
	if (td_standin_peer_open(&p, key, deadline, why, sizeof(why)))
		return NULL;
	const char *answer = td_standin_peer_tell(&p, deadline, "%s", line);
	snprintf(said, sizeof(said), "%s", answer ? answer : "");
	td_standin_peer_close(&p);
	return said;
}

static void add(long long *to, long long n)
{
	if (n >= 0)
		*to = *to < 0 ? n : (long long)(((unsigned long long)*to + (unsigned long long)n) & INT64_MAX);
}

bool td_standin_others_signs(const struct standin_other *v, int n, long long job, int64_t end, struct standin_signs *s,
			     int *ret_gpu)
{
	static struct standin_key key;
	char line[64];
	*ret_gpu = STANDIN_GPU_NONE;
	if (!td_standin_key_read(TD_WIRE_KEY, &key))
		return false;
	snprintf(line, sizeof(line), "signs %lld", job);
	for (int i = 0; i < n; i++) {
		struct standin_signs one;
		int gpu = STANDIN_GPU_UNKNOWN;
		const char *said = ask(&v[i], &key, td_standin_until(ASK_MS, end), line);
		const char *use = said ? strstr(said, " gpu=") : NULL;
		if (!said || strncmp(said, "signs ", 6) != 0 || !td_standin_signs_read(said + 6, &one) || !use)
			return false; // it cannot be reached, or is older than this
		sscanf(use, " gpu=%d", &gpu);
		add(&s->cpu_ms, one.cpu_ms);
		add(&s->output, one.output);
		add(&s->heartbeat, one.heartbeat);
		if (gpu == STANDIN_GPU_UNKNOWN || (*ret_gpu != STANDIN_GPU_UNKNOWN && gpu > *ret_gpu))
			*ret_gpu = gpu;
	}
	return true;
}

bool td_standin_others_used(const struct standin_other *v, int n, int64_t end, struct standin_use *u)
{
	static struct standin_key key;
	char line[64];
	struct standin_use all = *u;
	if (n && !td_standin_key_read(TD_WIRE_KEY, &key))
		return false;
	snprintf(line, sizeof(line), "used %lld %lld", u->job, u->start);
	for (int i = 0; i < n; i++) {
		double busy, idle;
		const char *said = ask(&v[i], &key, td_standin_until(ASK_MS, end), line);
		if (!said || sscanf(said, "used busy=%lf idle=%lf", &busy, &idle) != 2)
			return false; // it cannot be reached, or is older than this
		all.busy += busy;
		all.idle += idle;
	}
	*u = all;
	return true;
}

void td_standin_used(const char *gate, const char *node, const char *line, char *ret, size_t n)
{
	long long job = 0, start = 0;
	char request[256], why[TD_WIRE_LINE] = "";
	snprintf(ret, n, "bad the agent does not say");
	if (sscanf(line, "used %lld %lld", &job, &start) != 2)
		return;
	snprintf(request, sizeof(request), "used job=%lld start=%lld node=%s devices=-\n", job, start, node);
	if (td_standin_ask(gate, request, td_standin_now_ms() + ASK_MS / 2, why, sizeof(why)) == STANDIN_HANGS)
		snprintf(ret, n, "used %.120s", why);
}

void td_standin_others_stacks(const struct standin_other *v, int n, long long job, int sig, char *names, size_t n_names)
{
	static struct standin_key key;
	char line[64];
	int64_t end = td_standin_now_ms() + STACKS_ALL_MS;
	if (!n || !td_standin_key_read(TD_WIRE_KEY, &key))
		return;
	snprintf(line, sizeof(line), "stacks %lld %d", job, sig);
	for (int i = 0; i < n && i < STACKS_NODES && td_standin_now_ms() < end; i++) {
		const char *said = ask(&v[i], &key, td_standin_until(STACKS_MS, end), line);
		size_t len = strlen(names);
		if (said && !strncmp(said, "file ", 5) && len + strlen(said) < n_names)
			snprintf(names + len, n_names - len, "%s%s", len ? ", " : "", said + 5);
	}
}

// The greatest use of the job's devices here, as this node's agent knows it.
static int use(const char *gate, const char *node, long long job)
{
	char request[256], why[TD_WIRE_LINE] = "";
	int gpu = STANDIN_GPU_UNKNOWN;
	snprintf(request, sizeof(request), "use job=%lld node=%s devices=-\n", job, node);
	if (td_standin_ask(gate, request, td_standin_now_ms() + ASK_MS / 2, why, sizeof(why)) == STANDIN_HANGS)
		sscanf(why, "gpu=%d", &gpu);
	return gpu;
}

void td_standin_together(const char *gate, const char *node, const char *line, char *ret, size_t n)
{
	enum { JOBS = 256 };
	static struct standin_job v[JOBS];
	char text[512] = "cpu=-1 output=-1 beat=-1"; // no process of the job is here
	long long job = 0;
	int sig = 0, k = td_standin_jobs("/proc", v, JOBS);
	bool stacks = !strncmp(line, "stacks ", 7);
	if (sscanf(line, "%*s %lld %d", &job, &sig) < 1 || sig < 0 || sig > 64)
		k = 0;
	const struct standin_job *j = NULL;
	for (int i = 0; i < k; i++)
		if (v[i].id == job)
			j = &v[i];
	if (j && !td_standin_as_user(j, node, sig, stacks ? STANDIN_STACKS : STANDIN_SIGNS, text, sizeof(text)))
		snprintf(ret, n, "bad its processes cannot be looked at");
	else if (stacks)
		snprintf(ret, n, j ? "file %.120s" : "bad %.120s", j ? text : "no process of the job is here");
	else
		snprintf(ret, n, "signs %.120s gpu=%d", text, use(gate, node, job));
}
