// `stage`, also under the name tandem-stage: runs a program whose checkpoints are written to the node's own disk, and
// keeps them on shared storage while it works (stage.h). Three processes: this one, which forwards signals and ends as
// the program does; the program; and the keeper, which copies.
#include "standin/stage.h"
#include "standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS                                                                                                        \
	"[--to DIR] [--keep N] [--parts all|one|none|P/N] [--reshard copy|link|no] [--attempt ID] [--signal NAME] "    \
	"[--no-restore] [--] CMD [ARG…]"
enum { LOOK_MS = 1000 };
static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct stage_options {
	const char *to, *parts, *attempt;
	int keep, signal;
	bool no_restore, reads; // reads: another process writes
	char **program;
	char own_to[4096], own_attempt[96], local[4096];
	struct stage_keeper k;
};

void td_stage_say(const char *format, ...)
{
	char b[1024] = "tandem: ";
	va_list ap;
	va_start(ap, format);
	vsnprintf(b + 8, sizeof(b) - 9, format, ap);
	va_end(ap);
	strcat(b, "\n");
	(void)!write(2, b, strlen(b));
}

static const char *env(const char *name)
{
	const char *s = getenv(name);
	return s && *s ? s : NULL;
}

static bool number(const char *s, long min, long max, int *ret)
{
	char *end;
	errno = 0;
	long n = s ? strtol(s, &end, 10) : -1;
	if (!s || errno || end == s || *end || n < min || n > max)
		return false;
	*ret = (int)n;
	return true;
}

static int usage(const char *why, const char *what)
{
	td_stage_say("%s%s. Usage: tandem-stage " OPTIONS, why, what);
	return 2;
}

// The value of "--name=V" or "--name V"; NULL: another option, or none.
static const char *value(char ***at, const char *name)
{
	size_t n = strlen(name);
	if (!strncmp(**at, name, n) && (*at)[0][n] == '=')
		return (*at)[0] + n + 1;
	return !strcmp(**at, name) && (*at)[1] ? *++*at : NULL;
}

static int read_options(char **argv, struct stage_options *o)
{
	const char *v, *keep = env("TANDEM_CHECKPOINTS_KEEP");
	o->to = env("TANDEM_CHECKPOINTS_TO");
	o->attempt = env("TANDEM_ATTEMPT");
	o->parts = "all";
	for (argv++; *argv && !strncmp(*argv, "--", 2); argv++) {
		if (!strcmp(*argv, "--")) {
			argv++;
			break;
		}
		if (!strcmp(*argv, "--no-restore"))
			o->no_restore = true;
		else if ((v = value(&argv, "--to")))
			o->to = v;
		else if ((v = value(&argv, "--keep")))
			keep = v;
		else if ((v = value(&argv, "--parts")))
			o->parts = v;
		else if ((v = value(&argv, "--reshard"))) {
			if (strcmp(v, "copy") != 0 && strcmp(v, "link") != 0 && strcmp(v, "no") != 0)
				return usage("--reshard wants copy, link or no, and not ", v);
			o->k.reshard = *v == 'c' ? STAGE_COPY : *v == 'l' ? STAGE_LINK : STAGE_REFUSE;
		} else if ((v = value(&argv, "--attempt")))
			o->attempt = v;
		else if ((v = value(&argv, "--signal"))) {
			if (!(o->signal = td_stage_signal_number(v)))
				return usage("--signal: there is no signal ", v);
		} else
			return usage("an option that is unknown, or has no value: ", *argv);
	}
	o->keep = 2;
	if (keep && !number(keep, 1, 1000, &o->keep))
		return usage("--keep wants a number from 1 to 1000, and not ", keep);
	o->program = argv;
	return *argv ? 0 : usage("a command is missing", "");
}

// Which of how many processes this is: as srun numbers them, or whoever sets RANK and WORLD_SIZE.
static int read_parts(struct stage_options *o)
{
	int rank = 0, world = 1;
	const char *slash = strchr(o->parts, '/');
	if (slash) {
		char p[16];
		snprintf(p, sizeof(p), "%.*s", (int)(slash - o->parts < 15 ? slash - o->parts : 15), o->parts);
		if (!number(slash + 1, 1, 65536, &world) || !number(p, 0, world - 1, &rank))
			return usage("--parts=P/N wants numbers, P from 0 to N - 1, and not ", o->parts);
	} else if (strcmp(o->parts, "all") != 0 && strcmp(o->parts, "one") != 0 && strcmp(o->parts, "none") != 0)
		return usage("--parts wants all, one, none or P/N, and not ", o->parts);
	else if (!number(env("SLURM_STEP_NUM_TASKS"), 1, 65536, &world) ||
		 !number(env("SLURM_PROCID"), 0, world - 1, &rank)) {
		rank = 0, world = 1;
		if (!env("SLURM_JOB_ID") &&
		    (!number(env("WORLD_SIZE"), 1, 65536, &world) || !number(env("RANK"), 0, world - 1, &rank)))
			rank = 0, world = 1;
	}
	bool none = !strcmp(o->parts, "none"), one = none || !strcmp(o->parts, "one");
	o->reads = none || (one && rank > 0);
	o->k.part = none && !rank ? 1 : rank; // who reads puts nothing in order (stage_keep.c)
	o->k.parts = one ? 1 : world;
	return 0;
}

static int read_place(struct stage_options *o)
{
	const char *job = env("SLURM_JOB_ID"), *again = env("SLURM_RESTART_COUNT"), *step = env("SLURM_STEP_ID"),
		   *dir = env("SLURM_SUBMIT_DIR"), *tmp = env("TMPDIR");
	if (!o->to && job && dir) {
		snprintf(o->own_to, sizeof(o->own_to), "%s/tandem_checkpoints/%s", dir, job);
		o->to = o->own_to;
	}
	if (!o->to)
		return usage("say where the checkpoints shall be kept: --to DIR, on storage that all nodes see", "");
	if (!o->attempt && !job && o->k.parts > 1)
		return usage("several processes need an --attempt (or TANDEM_ATTEMPT) that is the same for all of "
			     "them, and another one when they all start anew: of a gang its job",
			     "");
	if (o->attempt)
		snprintf(o->own_attempt, sizeof(o->own_attempt), "%s", o->attempt);
	else if (job)
		snprintf(o->own_attempt, sizeof(o->own_attempt), "%s-%s-%s", job, again ? again : "0",
			 step ? step : "b");
	else
		snprintf(o->own_attempt, sizeof(o->own_attempt), "%lld-%d", (long long)time(NULL), (int)getpid());
	for (char *c = o->own_attempt; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", *c))
			*c = '_';

	char rank[16] = "";
	if (o->k.parts > 1 || o->reads)
		snprintf(rank, sizeof(rank), "-%d", o->k.part);
	if (snprintf(o->local, sizeof(o->local), "%s/tandem-checkpoints-%s%s%s%s", tmp ? tmp : "/tmp",
		     job ? job : "pod", step ? "." : "", step ? step : "", rank) >= (int)sizeof(o->local) - 8)
		return usage("TMPDIR is too long: ", tmp);
	o->k = (struct stage_keeper){.local = o->local,
				     .kept = o->to,
				     .keep = o->keep,
				     .part = o->k.part,
				     .parts = o->k.parts,
				     .reshard = o->k.reshard,
				     .attempt = o->own_attempt};
	return 0;
}

// An empty directory on the node's disk that is this process's own: that of a run before which was cut, where nobody
// has it. Its name is easy to guess, and /tmp may be everybody's.
static int place(struct stage_options *o)
{
	for (int i = 0; i < 2; i++) {
		bool fresh = !mkdir(o->local, 0700);
		struct stat st;
		int fd = open(o->local, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		bool mine = fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB);
		if (mine && fresh)
			return 0; // the lock lives as long as this process and its keeper
		if (mine)
			td_stage_remove(AT_FDCWD, o->local);
		if (fd >= 0)
			close(fd);
		if (!mine)
			break;
	}
	strcat(o->local, "-XXXXXX");
	return mkdtemp(o->local) ? 0 : -1;
}

// The keeper: looks each second, and once more when it is told how the program ended. Does not return.
static void keeper(struct stage_options *o, int from)
{
	for (;;) {
		struct pollfd p = {from, POLLIN, 0};
		char how;
		if (poll(&p, 1, LOOK_MS) <= 0) {
			td_stage_once(&o->k, false);
			continue;
		}
		if (read(from, &how, 1) != 1)
			_exit(0); // whoever waits for it is gone
		_exit(!td_stage_once(&o->k, how == 'w'));
	}
}

static pid_t start_program(const struct stage_options *o, const sigset_t *mask)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(td_standin_exec(o->program));
}

static void forward(const struct stage_options *o, pid_t program, const siginfo_t *s)
{
	if (s->si_code > 0) // of the terminal, which sends it to the program too
		return;
	if (s->si_signo == SIGTERM && o->signal && td_stage_tell(program, o->signal) > 0)
		return;
	kill(program, s->si_signo);
}

// Waits until the program has ended. Returns its status.
static int wait_for_program(const struct stage_options *o, pid_t program, pid_t *copies, const sigset_t *set)
{
	for (;;) {
		siginfo_t s;
		if (sigwaitinfo(set, &s) < 0)
			continue;
		if (s.si_signo != SIGCHLD) {
			forward(o, program, &s);
			continue;
		}
		int status, ended = -1;
		for (pid_t p; (p = waitpid(-1, &status, WNOHANG)) > 0;) {
			if (p == *copies) {
				*copies = -1;
				td_stage_say("what kept the checkpoints has ended: none is kept from now on.");
			} else if (p == program)
				ended = status;
		}
		if (ended >= 0)
			return ended;
	}
}

static int end(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	int sig = WTERMSIG(status);
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, sig);
	signal(sig, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	kill(getpid(), sig);
	return 128 + sig; // as PID 1
}

static int run(struct stage_options *o)
{
	sigset_t set, mask;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(*forwarded); i++)
		sigaddset(&set, forwarded[i]);
	sigprocmask(SIG_BLOCK, &set, &mask);
	signal(SIGPIPE, SIG_IGN);

	int words[2];
	if (pipe2(words, O_CLOEXEC)) {
		td_stage_say("pipe: %s", strerror(errno));
		return 1;
	}
	pid_t copies = o->reads ? -1 : fork();
	if (!copies) {
		close(words[1]);
		keeper(o, words[0]);
	}
	close(words[0]);
	pid_t program = start_program(o, &mask);
	if (program < 0) {
		td_stage_say("fork: %s", strerror(errno));
		return 1;
	}

	int status = wait_for_program(o, program, &copies, &set), kept = 1;
	if (!o->reads) {
		bool well = WIFEXITED(status) && !WEXITSTATUS(status);
		(void)!write(words[1], well ? "w" : "n", 1);
		if (copies < 0 || waitpid(copies, &kept, 0) != copies || kept)
			td_stage_say("the last checkpoints are lost with this node's disk.");
	}
	td_stage_remove(AT_FDCWD, o->local);
	return end(status);
}

int td_standin_stage(char **argv)
{
	static struct stage_options o;
	if (argv[1] && !strcmp(argv[1], "--help")) {
		puts("usage: tandem-stage " OPTIONS);
		return 0;
	}
	int r = read_options(argv, &o);
	if (r || (r = read_parts(&o)) || (r = read_place(&o)))
		return r;
	if (place(&o)) {
		td_stage_say("%s: %s", o.local, strerror(errno));
		return 1;
	}
	bool lost = td_stage_tidy(&o.k) != 0;
	if (lost)
		td_stage_say("%s: %s", o.to, strerror(errno));
	if (lost || (!o.no_restore && td_stage_restore(&o.k))) {
		td_stage_say("the checkpoints of %s could not be brought to this node, and without them the program "
			     "would begin anew.",
			     o.to);
		td_stage_remove(AT_FDCWD, o.local);
		return 1;
	}
	setenv("TANDEM_CHECKPOINTS", o.local, 1);
	setenv("TANDEM_CHECKPOINTS_KEPT", o.to, 1);
	return run(&o);
}
