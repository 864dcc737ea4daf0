// `watch`: in slurmd's pod, looks at the progress and the pace of Slurm's jobs on the node where a policy wants that, tells the
// node's agent, and does what it answers about one that hangs. The agent decides (src/gate/hangs.c).
#include "standin/watch.h"
#include "standin/wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

// No look takes so long that the agent forgets the other jobs meanwhile (FORGET_MS of src/gate/hangs.c).
enum { JOBS = 256, ASK_MS = 5000, COMMAND_MS = 10000, EVERY_MS = 5000, MOVES_MS = 30000, OTHERS_MS = 40000 };

static char beats[STANDIN_BEATS_TEXT]; // what the ranks of one job say

struct watch_job {
	long long id;
	struct standin_other *others; // its nodes but this one
	int n_others;
	bool pod, told; // told: it hangs, and something was done
	char partition[128], qos[128];
};
static struct watch_job known[JOBS];
static int n_known;

// Asks slurmctld once about each job.
static struct watch_job *about(const struct standin_job *j, const char *node)
{
	for (int i = 0; i < n_known; i++)
		if (known[i].id == j->id)
			return &known[i];
	char id[24], *text = NULL, why[128];
	snprintf(id, sizeof(id), "%lld", j->id);
	char *argv[] = {"squeue", "-h", "-j", id, "-o", "%P|%q|%D|%N|%k", NULL};
	struct watch_job w = {.id = j->id};
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	char *qos = !r && text ? strchr(text, '|') : NULL, *count = qos ? strchr(qos + 1, '|') : NULL,
	     *nodes = count ? strchr(count + 1, '|') : NULL, *comment = nodes ? strchr(nodes + 1, '|') : NULL;
	if (comment) {
		*qos++ = *count++ = *nodes++ = *comment++ = '\0';
		snprintf(w.partition, sizeof(w.partition), "%s", strpbrk(text, " \n") ? "" : text);
		snprintf(w.qos, sizeof(w.qos), "%s", strpbrk(qos, " \n") ? "" : qos);
		w.pod = td_standin_is_pods(comment);
		// A node that is missed would be one that is still.
		if (!w.pod && n_known < JOBS &&
		    (!td_standin_others_read(nodes, node, &w.others, &w.n_others) || w.n_others + 1 != atoi(count))) {
			free(w.others);
			comment = NULL;
		}
	}
	free(text);
	if (!comment || n_known == JOBS)
		return NULL; // asked again at the next look
	known[n_known] = w;
	return &known[n_known++];
}

static void forget(const struct standin_job *v, int n)
{
	int kept = 0;
	for (int i = 0; i < n_known; i++) {
		bool runs = false;
		for (int k = 0; k < n && !runs; k++)
			runs = v[k].id == known[i].id;
		if (runs)
			known[kept++] = known[i];
		else
			free(known[i].others);
	}
	n_known = kept;
}

// Ends a JSON string at its end, and takes its escapes away.
static void plain(char *s)
{
	char *to = s;
	for (; *s && *s != '"'; s++)
		if (*s != '\\')
			*to++ = *s;
		else if (s[1])
			*to++ = strchr("\"\\/", *++s) ? *s : ' ';
	*to = '\0';
}

// Writes into the job's admin comment what was seen of it, and when (src/pool/said.h); what others wrote there before stays.
static void remark(const struct standin_job *j, const char *words)
{
	static const char *const ours[] = {"tandem: hangs on ", "tandem: straggler: "};
	// As JSON: there nobody's name of a job can look like another field. squeue has it in no other form. Of an array
	// all tasks are listed; in each the comment stands before the id.
	static const char field[] = "\"admin_comment\": \"";
	char id[24], name[48], mark[48], arg[64], when[32], comment[4096], *text = NULL, *was = NULL, why[128];
	const time_t now = time(NULL);
	struct tm tm;
	snprintf(id, sizeof(id), "%lld", j->id);
	snprintf(mark, sizeof(mark), "\"job_id\": %s,", id);
	td_standin_command((char *[]){"squeue", "--json", "-j", id, NULL}, false, td_standin_now_ms() + COMMAND_MS,
			   &text, why, sizeof(why));
	const char *end = text ? strstr(text, mark) : NULL;
	// What others wrote there is not written over when it is not known.
	if (!end || !td_standin_job_name(id, false, td_standin_now_ms() + COMMAND_MS, name, sizeof(name))) {
		fprintf(stderr,
			"tandem watch: job %s: its admin comment cannot be read, so this is said only here: %s\n", id,
			words);
		free(text);
		return;
	}
	for (char *p = text; (p = strstr(p, field)) && p < end;)
		was = p += strlen(field);
	if (was)
		plain(was);
	for (size_t i = 0; was && i < sizeof(ours) / sizeof(ours[0]); i++) {
		char *old = strstr(was, ours[i]), *fault = old ? strstr(old, " tandem: fault on ") : NULL;
		if (fault) // that stays
			memmove(old, fault + 1, strlen(fault + 1) + 1);
		else if (old)
			*old = '\0';
	}
	for (size_t n = was ? strlen(was) : 0; n && was[n - 1] == ' '; n--)
		was[n - 1] = '\0';
	snprintf(arg, sizeof(arg), "jobid=%s", name);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	snprintf(comment, sizeof(comment), "admincomment=%s%s%s; seen %s", was ? was : "", was && *was ? " " : "",
		 words, when);
	free(text);
	fprintf(stderr, "tandem watch: job %s: %s\n", id, words);
	td_standin_act("watch", (char *[]){"scontrol", "update", arg, comment, NULL}, td_standin_now_ms() + COMMAND_MS);
}

// "action=requeue signal=10 dump=1 why=no_heartbeat_for_300_s"
static void hangs(const struct standin_job *j, const struct watch_job *w, const char *node, const char *order)
{
	char action[16] = "", why[160] = "", stacks[512] = "", id[24], name[48], comment[1024];
	int sig = 0, dump = 0;
	if (sscanf(order, "action=%15s signal=%d dump=%d why=%159s", action, &sig, &dump, why) != 4)
		return;
	for (char *p = why; *p; p++)
		if (*p == '_')
			*p = ' ';
	if (dump) {
		td_standin_as_user(j, node, sig, STANDIN_STACKS, stacks, sizeof(stacks));
		td_standin_others_stacks(w->others, w->n_others, j->id, sig, stacks, sizeof(stacks));
	}
	snprintf(comment, sizeof(comment), "tandem: hangs on %s: %s%s%s", node, why, *stacks ? "; stacks: " : "",
		 stacks);
	remark(j, comment);
	snprintf(id, sizeof(id), "%lld", j->id);
	if (!strcmp(action, "requeue") &&
	    td_standin_job_name(id, false, td_standin_now_ms() + COMMAND_MS, name, sizeof(name)))
		td_standin_act("watch", (char *[]){"scontrol", "requeue", name, NULL},
			       td_standin_now_ms() + COMMAND_MS);
}

// Does the job run on that node? Of an array squeue lists the other tasks there, too.
static bool runs_on(const char *id, const char *node)
{
	char *text = NULL, why[128], *save = NULL;
	char *argv[] = {"squeue", "-h", "-j", (char *)id, "-w", (char *)node, "-t", "R", "-o", "%A", NULL};
	bool its = false;
	if (!td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why)) && text)
		for (char *line = strtok_r(text, "\n", &save); line && !its; line = strtok_r(NULL, "\n", &save))
			its = !strcmp(line, id);
	free(text);
	return its;
}

// Tells the agent which node is to be tested.
static void accuse(const char *path, const char *here, long long job, const char *node, const char *why)
{
	char line[TD_WIRE_LINE], text[160], said[TD_WIRE_LINE] = "";
	snprintf(text, sizeof(text), "%s", why);
	for (char *p = text; *p; p++)
		if (*p == ' ')
			*p = '_';
	snprintf(line, sizeof(line), "suspect job=%lld node=%s devices=- slow=%s why=%s\n", job, here, node, text);
	if (td_standin_ask(path, line, td_standin_now_ms() + ASK_MS, said, sizeof(said)))
		fprintf(stderr, "tandem watch: job %lld: node %s was not reported: %s\n", job, node, said);
}

// "action=drain node=n2 why=rank 2 on n2 computes 3.1 times as long as the others (…)"
static void straggles(const char *path, const char *here, const struct standin_job *j, const char *order)
{
	char action[16] = "", node[64] = "", id[24], name[48], comment[512];
	const char *why = strstr(order, " why=");
	if (!why || sscanf(order, "action=%15s node=%63s ", action, node) != 2)
		return;
	why += strlen(" why=");
	snprintf(id, sizeof(id), "%lld", j->id);
	// The node is the user's word: it must be one of this job's.
	bool its = runs_on(id, node);
	snprintf(comment, sizeof(comment), "tandem: straggler: %s%s", why,
		 its ? "" : "; nothing is done, because that is no node of this job");
	remark(j, comment);
	if (its && !strcmp(action, "requeue") &&
	    td_standin_job_name(id, false, td_standin_now_ms() + COMMAND_MS, name, sizeof(name)))
		td_standin_again(name, node);
	if (its && !strcmp(action, "drain"))
		accuse(path, here, j->id, node, why);
}

// How much of a list of ranks goes into one line; 0: there is no more.
static size_t part_of(const char *list)
{
	enum { PART = 3400 };
	size_t n = strnlen(list, PART);
	while (n && list[n] && list[n] != ',')
		n--;
	return n;
}

// Says what the ranks of one job say, in as many lines as that needs.
static void pace(const char *path, const char *node, const struct standin_job *j, const struct watch_job *w)
{
	static char request[TD_WIRE_LINE], why[TD_WIRE_LINE];
	int parts = 0;
	size_t n;
	for (const char *s = beats; (n = part_of(s)); s += n + (s[n] == ','))
		parts++;
	const char *s = beats;
	for (int i = 0; i < parts; i++, s += n + (s[n] == ',')) {
		n = part_of(s);
		snprintf(request, sizeof(request), "pace job=%lld node=%s%s%s%s%s devices=- part=%d of=%d ranks=%.*s\n",
			 j->id, node, *w->partition ? " partition=" : "", w->partition, *w->qos ? " qos=" : "", w->qos,
			 i, parts, (int)n, s);
		int r = td_standin_ask(path, request, td_standin_now_ms() + ASK_MS, why, sizeof(why));
		if (r == STANDIN_HANGS)
			straggles(path, node, j, why);
		else if (r)
			break; // an older agent does not know this; and a look with a gap is none
	}
}

static void look_paces(const char *path, const char *node)
{
	static struct standin_job v[JOBS];
	int n = td_standin_jobs("/proc", v, JOBS);
	forget(v, n);
	for (int i = 0; i < n; i++) {
		struct watch_job *w = v[i].batch ? about(&v[i], node) : NULL;
		if (!w || w->pod || !td_standin_as_user(&v[i], node, 0, STANDIN_BEATS, beats, sizeof(beats)))
			continue;
		beats[strspn(beats, STANDIN_NAME_CHARS ":,")] = '\0';
		pace(path, node, &v[i], w);
	}
}

// Says what one job shows. others: the greatest use of a device on its other nodes, with whose signs s is then; NULL:
// they were not asked.
static int progress(const char *path, const char *node, const struct watch_job *w, const struct standin_signs *s,
		    const int *others, char why[TD_WIRE_LINE])
{
	char request[TD_WIRE_LINE], more[32] = "";
	if (others)
		snprintf(more, sizeof(more), " others=%d", *others);
	else if (w->n_others)
		snprintf(more, sizeof(more), " nodes=%d", w->n_others + 1);
	snprintf(request, sizeof(request),
		 "progress job=%lld node=%s%s%s%s%s devices=- cpu=%lld output=%lld beat=%lld%s\n", w->id, node,
		 *w->partition ? " partition=" : "", w->partition, *w->qos ? " qos=" : "", w->qos, s->cpu_ms, s->output,
		 s->heartbeat, more);
	return td_standin_ask(path, request, td_standin_now_ms() + ASK_MS, why, TD_WIRE_LINE);
}

static void look(const char *path, const char *node)
{
	static struct standin_job v[JOBS];
	int n = td_standin_jobs("/proc", v, JOBS);
	int64_t others_end = td_standin_now_ms() + OTHERS_MS; // of all jobs
	forget(v, n);
	for (int i = 0; i < n; i++) {
		struct watch_job *w = v[i].batch ? about(&v[i], node) : NULL;
		char signs[256], why[TD_WIRE_LINE] = "";
		struct standin_signs s;
		int gpu = STANDIN_GPU_NONE;
		if (!w || w->pod || w->told ||
		    !td_standin_as_user(&v[i], node, 0, STANDIN_SIGNS, signs, sizeof(signs)) ||
		    !td_standin_signs_read(signs, &s) || progress(path, node, w, &s, NULL, why) != STANDIN_HANGS)
			continue;
		// A job of several nodes hangs where all of them are still. What one of them does not say is no hang.
		if (!strncmp(why, "ask", 3) &&
		    (!td_standin_others_signs(w->others, w->n_others, w->id, others_end, &s, &gpu) ||
		     progress(path, node, w, &s, &gpu, why) != STANDIN_HANGS))
			continue;
		w->told = true;
		hangs(&v[i], w, node, why);
	}
}

// Queues those jobs of "12:0,17_3:1" again that run here and were queued again so often before: one that has
// moved already is another run.
static void move_jobs(const char *node, const char *list)
{
	char jobs[TD_WIRE_LINE], *rest = jobs, *one;
	// What takes longer is taken back, and asked again in another list.
	int64_t end_ms = td_standin_now_ms() + MOVES_MS;
	snprintf(jobs, sizeof(jobs), "%.*s", (int)strspn(list, "0123456789_:,"), list);
	while (td_standin_now_ms() < end_ms && (one = strsep(&rest, ","))) {
		char *text = NULL, why[128], *restarts = strchr(one, ':');
		if (!restarts || restarts == one)
			continue;
		*restarts++ = '\0';
		char *argv[] = {"squeue", "-h", "-w", (char *)node, "-t", "R", "-j", one, "-O", "RestartCnt:20", NULL};
		int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
		char *end = NULL;
		long long is = !r && text ? strtoll(text, &end, 10) : -1;
		if (end && end != text && is == strtoll(restarts, NULL, 10)) {
			fprintf(stderr, "tandem watch: job %s moves: it is queued again\n", one);
			td_standin_act("watch", (char *[]){"scontrol", "requeue", one, NULL},
				       td_standin_now_ms() + COMMAND_MS);
		}
		free(text);
	}
}

int td_standin_watch(int argc, char **argv)
{
	const char *path = TD_WIRE_GATE, *node = NULL;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--node"))
			node = argv[i + 1];
		else if (!strcmp(argv[i], "--socket"))
			path = argv[i + 1];
		else
			return 2;
	}
	if (!node || argc % 2 == 0)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	int64_t paced_ms = -3600000;
	for (;;) {
		char request[512], why[TD_WIRE_LINE] = "";
		long long every = EVERY_MS, pace_ms = 0;
		snprintf(request, sizeof(request), "hangs node=%s devices=-\n", node);
		if (td_standin_ask(path, request, td_standin_now_ms() + ASK_MS, why, sizeof(why)) == STANDIN_HANGS) {
			bool watched = sscanf(why, "every=%lld", &every) == 1;
			if (!watched || every < 200)
				every = EVERY_MS;
			const char *moves = strstr(why, "requeue="), *paces = strstr(why, "pace=");
			if (moves)
				move_jobs(node, moves + strlen("requeue="));
			// No text of a fault has a blank.
			const char *ring = strncmp(why, "ring=", 5) ? strstr(why, " ring=") : why;
			if (ring)
				td_standin_rings(path, node, strchr(ring, '=') + 1);
			const char *ended = strstr(why, "ended=");
			if (ended)
				td_standin_note_all(path, node, ended + strlen("ended="));
			const char *faults = strstr(why, "faults=");
			if (faults)
				td_standin_faulted(node, faults + strlen("faults="));
			if (watched)
				look(path, node);
			if (paces && sscanf(paces, "pace=%lld", &pace_ms) == 1 &&
			    td_standin_now_ms() - paced_ms >= pace_ms) {
				look_paces(path, node);
				paced_ms = td_standin_now_ms();
			}
			if (!watched && !paces)
				forget(NULL, 0);
		} else {
			forget(NULL, 0);
		}
		if (pace_ms > 0 && pace_ms < every)
			every = pace_ms;
		poll(NULL, 0, (int)(every < 60000 ? every : 60000));
	}
}
