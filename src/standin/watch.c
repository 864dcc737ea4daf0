// `watch`: in slurmd's pod, looks at the progress and the pace of Slurm's jobs on the node where a policy wants that, tells the
// node's agent, and does what it answers about one that hangs. The agent decides (src/gate/hangs.c).
#include "standin/watch.h"
#include "standin/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// No look takes so long that the agent forgets the other jobs meanwhile (FORGET_MS of src/gate/hangs.c).
enum {
	JOBS = 256,
	ASK_MS = 5000,
	COMMAND_MS = 10000,
	EVERY_MS = 5000,
	SIGNS_S = 5,
	STACKS_S = 60,
	BEHIND_MAX = 8,
	MOVES_MS = 30000
};

struct watch_job {
	long long id;
	bool pod, told; // told: it hangs, and something was done
	char partition[128], qos[128];
};
static struct watch_job known[JOBS];
static int n_known;

// Asks slurmctld once about each job.
static struct watch_job *about(const struct standin_job *j)
{
	for (int i = 0; i < n_known; i++)
		if (known[i].id == j->id)
			return &known[i];
	char id[24], *text = NULL, why[128];
	snprintf(id, sizeof(id), "%lld", j->id);
	char *argv[] = {"squeue", "-h", "-j", id, "-o", "%P|%q|%k", NULL};
	struct watch_job w = {.id = j->id};
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	char *qos = !r && text ? strchr(text, '|') : NULL, *comment = qos ? strchr(qos + 1, '|') : NULL;
	if (comment) {
		*qos++ = *comment++ = '\0';
		snprintf(w.partition, sizeof(w.partition), "%s", strpbrk(text, " \n") ? "" : text);
		snprintf(w.qos, sizeof(w.qos), "%s", strpbrk(qos, " \n") ? "" : qos);
		w.pod = td_standin_is_pods(comment);
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
	for (int i = 0; i < n_known; i++)
		for (int k = 0; k < n; k++)
			if (v[k].id == known[i].id) {
				known[kept++] = known[i];
				break;
			}
	n_known = kept;
}

// Reads fd to its end. False: that did not come in time.
static bool read_all(int fd, int64_t deadline, char *text, size_t n)
{
	size_t len = 0;
	ssize_t k = -1;
	text[0] = '\0';
	while (len + 1 < n) {
		struct pollfd p = {fd, POLLIN, 0};
		int64_t left = deadline - td_standin_now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) <= 0 || (k = read(fd, text + len, n - 1 - len)) <= 0)
			break;
		len += (size_t)k;
		text[len] = '\0';
	}
	return k == 0;
}

static bool write_all(int fd, const char *text)
{
	for (size_t n = strlen(text); n;) {
		ssize_t k = write(fd, text, n);
		if (k <= 0)
			return false;
		text += k;
		n -= (size_t)k;
	}
	return true;
}

enum part { SIGNS, STACKS, BEATS };
// All ranks of a job, with the longest names.
static char beats[STANDIN_RANKS * 110];

// Runs a part as the job's user, in a child; what it writes is in text. False: it failed, or did not end in time.
static bool as_user(const struct standin_job *j, const char *node, int sig, enum part part, char *text, size_t n)
{
	static int behind; // children that were killed and have not ended: they wait in the kernel, for a disk
	int fd[2], status = 0, seconds = part == STACKS ? STACKS_S : SIGNS_S;
	int64_t deadline = td_standin_now_ms() + seconds * 1000LL;
	while (behind && waitpid(-1, NULL, WNOHANG) > 0)
		behind--;
	// gdb and py-spy run as the job's user: they get no descriptor of root's.
	if (behind == BEHIND_MAX || pipe2(fd, O_CLOEXEC) < 0)
		return false;
	pid_t pid = fork();
	if (!pid) {
		char said[512] = "", *all = said;
		close(fd[0]);
		setpgid(0, 0);                // with the programs that it starts
		alarm((unsigned)seconds + 1); // if nobody is left who looks
		if (!td_standin_become("/proc", j))
			_exit(1);
		bool well = true;
		struct standin_signs s;
		if (part == STACKS)
			well = td_standin_stacks(j, node, sig, said, sizeof(said));
		else if (part == BEATS)
			td_standin_beats("/proc", j, all = beats, sizeof(beats));
		else {
			td_standin_signs("/proc", j, &s);
			snprintf(said, sizeof(said), "cpu=%lld output=%lld beat=%lld", s.cpu_ms, s.output, s.heartbeat);
		}
		if (!write_all(fd[1], all))
			well = false;
		_exit(well ? 0 : 2);
	}
	close(fd[1]);
	bool ended = pid > 0 && read_all(fd[0], deadline, text, n);
	close(fd[0]);
	if (pid > 0 && !ended) {
		kill(-pid, SIGKILL);
		behind++;
		return false;
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
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

// Writes into the job's admin comment what was seen of it; what others wrote there before stays.
static void remark(const struct standin_job *j, const char *words)
{
	static const char *const ours[] = {"tandem: hangs on ", "tandem: straggler: "};
	// As JSON: there nobody's name of a job can look like another field. squeue has it in no other form. Of an array
	// all tasks are listed; in each the comment stands before the id.
	static const char field[] = "\"admin_comment\": \"";
	char id[24], mark[48], arg[48], comment[4096], *text = NULL, *was = NULL, why[128];
	snprintf(id, sizeof(id), "%lld", j->id);
	snprintf(mark, sizeof(mark), "\"job_id\": %s,", id);
	td_standin_command((char *[]){"squeue", "--json", "-j", id, NULL}, false, td_standin_now_ms() + COMMAND_MS,
			   &text, why, sizeof(why));
	const char *end = text ? strstr(text, mark) : NULL;
	for (char *p = text; end && (p = strstr(p, field)) && p < end;)
		was = p += strlen(field);
	if (was)
		plain(was);
	for (size_t i = 0; was && i < sizeof(ours) / sizeof(ours[0]); i++) {
		char *old = strstr(was, ours[i]);
		if (old)
			*old = '\0';
	}
	for (size_t n = was ? strlen(was) : 0; n && was[n - 1] == ' '; n--)
		was[n - 1] = '\0';
	snprintf(arg, sizeof(arg), "jobid=%s", id);
	snprintf(comment, sizeof(comment), "admincomment=%s%s%s", was ? was : "", was && *was ? " " : "", words);
	free(text);
	fprintf(stderr, "tandem watch: job %s: %s\n", id, words);
	td_standin_act("watch", (char *[]){"scontrol", "update", arg, comment, NULL}, td_standin_now_ms() + COMMAND_MS);
}

// "action=requeue signal=10 dump=1 why=no_heartbeat_for_300_s"
static void hangs(const struct standin_job *j, const char *node, const char *order)
{
	char action[16] = "", why[160] = "", stacks[512] = "", id[24], comment[1024];
	int sig = 0, dump = 0;
	if (sscanf(order, "action=%15s signal=%d dump=%d why=%159s", action, &sig, &dump, why) != 4)
		return;
	for (char *p = why; *p; p++)
		if (*p == '_')
			*p = ' ';
	if (dump)
		as_user(j, node, sig, STACKS, stacks, sizeof(stacks));
	snprintf(comment, sizeof(comment), "tandem: hangs on %s: %s%s%s", node, why, *stacks ? "; stacks: " : "",
		 stacks);
	remark(j, comment);
	snprintf(id, sizeof(id), "%lld", j->id);
	if (!strcmp(action, "requeue"))
		td_standin_act("watch", (char *[]){"scontrol", "requeue", id, NULL}, td_standin_now_ms() + COMMAND_MS);
}

// The words of a command's first line, without what follows them; false: it failed.
static bool first_line(char *const argv[], char *ret, size_t n)
{
	char *text = NULL, why[128];
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	snprintf(ret, n, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	ret[strcspn(ret, " ")] = '\0';
	free(text);
	return !r;
}

// "action=drain node=n2 why=rank 2 on n2 computes 3.1 times as long as the others (…)"
static void straggles(const struct standin_job *j, const char *order)
{
	char action[16] = "", node[64] = "", id[24], said[64], comment[512], named[80], reason[400];
	const char *why = strstr(order, " why=");
	if (!why || sscanf(order, "action=%15s node=%63s ", action, node) != 2)
		return;
	why += strlen(" why=");
	snprintf(id, sizeof(id), "%lld", j->id);
	// The node is the user's word: it must be one of this job's.
	bool its = first_line((char *[]){"squeue", "-h", "-j", id, "-w", node, "-t", "R", "-o", "%A", NULL}, said,
			      sizeof(said)) &&
		   !strcmp(said, id);
	snprintf(comment, sizeof(comment), "tandem: straggler: %s%s", why,
		 its ? "" : "; nothing is done, because that is no node of this job");
	remark(j, comment);
	if (its && !strcmp(action, "requeue"))
		td_standin_act("watch", (char *[]){"scontrol", "requeue", id, NULL}, td_standin_now_ms() + COMMAND_MS);
	// Nobody's reason is written over.
	if (its && !strcmp(action, "drain") &&
	    first_line((char *[]){"sinfo", "-h", "-N", "-n", node, "-o", "%E", NULL}, said, sizeof(said)) &&
	    !strcmp(said, "none")) {
		snprintf(named, sizeof(named), "nodename=%s", node);
		snprintf(reason, sizeof(reason), "reason=straggler of job %s: %s", id, why);
		td_standin_act("watch", (char *[]){"scontrol", "update", named, "state=drain", reason, NULL},
			       td_standin_now_ms() + COMMAND_MS);
	}
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
			straggles(j, why);
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
		struct watch_job *w = v[i].batch ? about(&v[i]) : NULL;
		if (!w || w->pod || !as_user(&v[i], node, 0, BEATS, beats, sizeof(beats)))
			continue;
		beats[strspn(beats, STANDIN_NAME_CHARS ":,")] = '\0';
		pace(path, node, &v[i], w);
	}
}

static void look(const char *path, const char *node)
{
	static struct standin_job v[JOBS];
	int n = td_standin_jobs("/proc", v, JOBS);
	forget(v, n);
	for (int i = 0; i < n; i++) {
		struct watch_job *w = v[i].batch ? about(&v[i]) : NULL;
		char signs[256], request[TD_WIRE_LINE], why[TD_WIRE_LINE] = "";
		if (!w || w->pod || w->told || !as_user(&v[i], node, 0, SIGNS, signs, sizeof(signs)))
			continue;
		snprintf(request, sizeof(request), "progress job=%lld node=%s%s%s%s%s devices=- %s\n", v[i].id, node,
			 *w->partition ? " partition=" : "", w->partition, *w->qos ? " qos=" : "", w->qos, signs);
		if (td_standin_ask(path, request, td_standin_now_ms() + ASK_MS, why, sizeof(why)) != STANDIN_HANGS)
			continue;
		w->told = true;
		hangs(&v[i], node, why);
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
			if (watched)
				look(path, node);
			if (paces && sscanf(paces, "pace=%lld", &pace_ms) == 1 &&
			    td_standin_now_ms() - paced_ms >= pace_ms) {
				look_paces(path, node);
				paced_ms = td_standin_now_ms();
			}
			if (!watched && !paces)
				n_known = 0;
		} else {
			n_known = 0;
		}
		if (pace_ms > 0 && pace_ms < every)
			every = pace_ms;
		poll(NULL, 0, (int)(every < 60000 ? every : 60000));
	}
}
