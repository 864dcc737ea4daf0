// `tandem-run` and `tandem-rsh`: in the first node's pod of a session over several nodes. The first runs a program on all of
// them, with the variables by which programs of several nodes find each other; the second on one, as rsh and ssh do, so that mpirun and the like start theirs.
//
// A program on the own node goes the same way, over a pair of sockets. What the caller has set in his environment goes along;
// what a node's own pod says (devices, adapters, the rank) stays that node's: sent is what differs from what this pod
// began with, and the few variables that say where programs lie.
#include "standin/greet.h"
#include "standin/peer.h"
#include "standin/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 64, REACH_MS = 20000, AGAIN_MS = 200, KILL_MS = 10000, PIPE = 16384, LOST = 255 };

struct part {
	int rank, fd; // fd -1: it is over
	char host[256];
	uint8_t *got;
	size_t n_got, cap;
	uint8_t *out; // not yet taken by its node
	size_t n_out;
	bool said[2]; // (with labels) the line that is being written at stdout, stderr is this one's
	int code;     // -1: it runs
};

struct all {
	const char *me; // the program's name, for messages
	struct standin_key key;
	char *hosts[NODES]; // by rank
	int n_hosts, rank, port;
	struct part v[NODES];
	int n;
	bool label, typed; // typed: the standard input goes along
	bool srun;         // it is srun that runs them: of a signal twice it would forget its tasks
	bool deaf;         // nobody reads the output any more
	int asked;         // signals of the caller's
	int worst;
	int64_t kill_at; // 0: nobody is being ended
};

__attribute__((format(printf, 2, 3))) static int failed(const struct all *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "%s: ", a->me);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return LOST;
}

// ---- whom ----

static int know(struct all *a)
{
	const char *hosts = getenv("TANDEM_GANG_HOSTS"), *key = getenv("TANDEM_SESSION_KEY"), *rank = getenv("RANK"),
		   *port = getenv("PORT");
	if (td_standin_onslurm_here()) {
		a->rank = rank ? atoi(rank) : 0;
	} else if (!hosts || !*hosts || !key || strlen(key) < 32 || strlen(key) > sizeof(a->key.s) || !rank || !port)
		return failed(
			a, "this is no session over several nodes: start one by `tandem session start KIND --nodes N`");
	if (!td_standin_onslurm_here()) {
		a->key.n = strlen(key);
		memcpy(a->key.s, key, a->key.n);
		a->rank = atoi(rank);
		a->port = atoi(port);
	}
	char *list = strdup(hosts), *save = NULL;
	for (char *h = strtok_r(list, ",", &save); h && a->n_hosts < NODES; h = strtok_r(NULL, ",", &save))
		a->hosts[a->n_hosts++] = h;
	return 0;
}

// A host's name, with or without what stands behind its first dot, or its rank.
static int rank_of(const struct all *a, const char *name)
{
	char *end;
	long k = strtol(name, &end, 10);
	if (!*end && k >= 0 && k < a->n_hosts)
		return (int)k;
	size_t n = strcspn(name, ".");
	for (int i = 0; i < a->n_hosts; i++)
		if (!strcmp(name, a->hosts[i]) || (strcspn(a->hosts[i], ".") == n && !strncmp(name, a->hosts[i], n)))
			return i;
	return -1;
}

// The address of a name: of /etc/hosts, else the name server's.
static bool address_of(const char *name, char *ret, size_t n)
{
	char line[8192], *save;
	FILE *f = fopen("/etc/hosts", "re");
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "#\n")] = '\0';
		char *at = strtok_r(line, " \t", &save);
		for (char *w; at && !found && (w = strtok_r(NULL, " \t", &save));)
			found = !strcmp(w, name) && snprintf(ret, n, "%s", at) < (int)n;
	}
	if (f)
		fclose(f);
	pid_t pid;
	char both[300];
	snprintf(both, sizeof(both), "%.256s:1", name);
	int fd = found ? -1 : td_standin_lookup(both, &pid);
	struct standin_addr a;
	if (fd < 0)
		return found;
	found = read(fd, &a, sizeof(a)) == (ssize_t)sizeof(a) &&
		inet_ntop(a.sa.ss_family,
			  a.sa.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&a.sa)->sin_addr
						    : (void *)&((struct sockaddr_in6 *)&a.sa)->sin6_addr,
			  ret, (socklen_t)n);
	close(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return found;
}

// A worker that has just been started answers in a moment.
static int reach(const struct all *a, struct part *p)
{
	char address[INET6_ADDRSTRLEN];
	const char *why = "no name server knows it";
	int64_t until = td_standin_now_ms() + REACH_MS;
	do {
		bool known = address_of(p->host, address, sizeof(address));
		p->fd = known ? td_standin_connect(address, a->port, until) : -1;
		if (known && p->fd < 0)
			why = strerror(errno);
		struct line_reader in = {.fd = p->fd};
		if (p->fd >= 0 && td_standin_greet(&a->key, false, &in, until) == 1 && !in.len) {
			td_standin_worker_tune(p->fd);
			return 0;
		}
		if (p->fd >= 0) {
			close(p->fd);
			why = "who listens there is none of this session";
		}
		p->fd = -1;
	} while (!poll(NULL, 0, AGAIN_MS) && td_standin_now_ms() < until);
	return failed(a, "node %d (%s) cannot be reached: %s. `tandem session list` says what it does", p->rank,
		      p->host, why);
}

static int here(const struct all *a, struct part *p)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return failed(a, "socketpair: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return failed(a, "fork: %s", strerror(errno));
	if (!pid) {
		setpgid(0, 0); // Ctrl-C is the caller's to tell
		for (int i = 0; i < a->n; i++)
			if (a->v[i].fd >= 0)
				close(a->v[i].fd);
		close(pair[0]);
		td_standin_worker_serve(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	p->fd = pair[0];
	return 0;
}

// ---- what ----

struct text {
	char *s;
	size_t n;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	char *one;
	va_start(ap, fmt);
	int n = vasprintf(&one, fmt, ap);
	va_end(ap);
	if (n < 0)
		abort();
	t->s = td_standin_more(t->s, t->n + (size_t)n + 1);
	memcpy(t->s + t->n, one, (size_t)n + 1);
	t->n += (size_t)n + 1;
	free(one);
}

// What this pod began with; NULL: it may not be read.
static char *began_with(size_t *ret_n)
{
	size_t n = 0, cap = 0;
	char *s = NULL;
	int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);
	for (ssize_t k = fd < 0 ? -1 : 1; k > 0; n += (size_t)(k > 0 ? k : 0)) {
		if (cap - n < PIPE)
			s = td_standin_more(s, cap = n + 2 * PIPE);
		k = read(fd, s + n, cap - n - 1);
	}
	if (fd >= 0)
		close(fd);
	if (s)
		s[n] = '\0';
	*ret_n = n;
	return n ? s : NULL;
}

static bool begins(const char *text, const char *const *with)
{
	for (; *with; with++)
		if (!strncmp(text, *with, strlen(*with)))
			return true;
	return false;
}

static void add_env(struct text *t, bool all)
{
	// Where programs lie: on clusters what began this pod has set them, too.
	static const char *const ways[] = {
		"PATH=", "LD_LIBRARY_PATH=", "PYTHONPATH=", "VIRTUAL_ENV=", "CONDA_PREFIX=", "OPAL_PREFIX=", NULL};
	static const char *const never[] = {
		"HOSTNAME=", "RANK=", "NODE_RANK=", "PWD=", "OLDPWD=", "SHLVL=", "_=", "TANDEM_", NULL};
	size_t n;
	char *old = began_with(&n);
	for (char **e = environ; *e; e++) {
		bool same = false, way = begins(*e, ways);
		if (!strchr(*e, '=') || begins(*e, never) || (!all && !way))
			continue;
		for (const char *o = old; o && o < old + n && !same; o += strlen(o) + 1)
			same = !strcmp(o, *e);
		if (!same || way)
			add(t, "%c%s", old || way ? '=' : '?', *e);
	}
	free(old);
}

static struct text request(const struct all *a, const struct part *p, char **argv, bool all)
{
	struct text t = {0};
	char dir[4096];
	const char *master = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"), *gpus = getenv("TANDEM_NODE_GPUS");
	add(&t, "%s", getcwd(dir, sizeof(dir)) ? dir : "/");
	add_env(&t, all);
	if (all) {
		const char *const first = master ? master : a->hosts[0], *const at = port ? port : "29500";
		add(&t, "=RANK=%d", p->rank);
		add(&t, "=NODE_RANK=%d", p->rank);
		add(&t, "=WORLD_SIZE=%d", a->n_hosts);
		add(&t, "=NNODES=%d", a->n_hosts);
		add(&t, "=MASTER_ADDR=%s", first);
		add(&t, "=MASTER_PORT=%s", at);
		// torchrun takes its options from these.
		add(&t, "=PET_NNODES=%d", a->n_hosts);
		add(&t, "=PET_NODE_RANK=%d", p->rank);
		add(&t, "=PET_MASTER_ADDR=%s", first);
		add(&t, "=PET_MASTER_PORT=%s", at);
		if (gpus && atoi(gpus) > 0)
			add(&t, "?PET_NPROC_PER_NODE=%s", gpus);
	}
	add(&t, "%s", "");
	for (; *argv; argv++)
		add(&t, "%s", *argv);
	return t;
}

// ---- while it runs ----

static void put(struct all *a, int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno == EAGAIN) {
			struct pollfd f = {fd, POLLOUT, 0};
			poll(&f, 1, -1);
		} else if (k < 0 && errno != EINTR) {
			a->deaf = a->deaf || fd == 1;
			return;
		}
		p += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
}

// Lines with the rank before each. Of two nodes each has its own ones: a line that another interrupts is ended.
// fd: 1 or 2.
static void show(struct all *a, struct part *p, int fd, const uint8_t *s, size_t n)
{
	char before[16];
	if (!a->label) {
		put(a, fd, s, n);
		return;
	}
	const int to = fd - 1;
	for (int i = 0; i < a->n; i++)
		if (&a->v[i] != p && a->v[i].said[to]) {
			put(a, fd, (const uint8_t *)"\n", 1);
			a->v[i].said[to] = false;
		}
	while (n) {
		const uint8_t *nl = memchr(s, '\n', n);
		size_t k = nl ? (size_t)(nl - s) + 1 : n;
		int len = p->said[to] ? 0 : snprintf(before, sizeof(before), "%d: ", p->rank);
		put(a, fd, (const uint8_t *)before, (size_t)len);
		put(a, fd, s, k);
		p->said[to] = !nl;
		s += k;
		n -= k;
	}
}

// What its node takes now of what is for it. That one may wait itself until its output is taken, so nothing here waits
// for it; that it is gone is heard.
static void flush(struct part *p)
{
	ssize_t n = p->n_out ? send(p->fd, p->out, p->n_out, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)p->n_out;
	if (n > 0)
		memmove(p->out, p->out + n, p->n_out -= (size_t)n);
}

static void say(struct part *p, char letter, const uint8_t *data, size_t n)
{
	if (p->fd < 0)
		return;
	p->out = td_standin_more(p->out, p->n_out + STANDIN_WORKER_HEAD + n);
	td_standin_worker_head(p->out + p->n_out, letter, n);
	memcpy(p->out + p->n_out + STANDIN_WORKER_HEAD, data, n);
	p->n_out += STANDIN_WORKER_HEAD + n;
	flush(p);
}

static void tell(struct all *a, int number)
{
	uint8_t b = (uint8_t)number;
	for (int i = 0; i < a->n; i++)
		say(&a->v[i], 's', &b, 1);
}

// One has ended. When it failed, the others would wait for it for ever: they are ended.
static void over(struct all *a, struct part *p, int code, bool lost)
{
	close(p->fd);
	p->fd = -1;
	p->code = code;
	a->worst = a->worst ? a->worst : code; // the first that failed: the others may be ended for it
	int left = 0;
	for (int i = 0; i < a->n; i++)
		left += a->v[i].fd >= 0;
	if (lost)
		failed(a, "node %d (%s) is lost", p->rank, p->host);
	if (!code || !left || a->kill_at)
		return;
	if (!a->asked)
		failed(a, "the program on node %d (%s) has ended with %d: it is ended on the others", p->rank, p->host,
		       code);
	a->kill_at = td_standin_now_ms() + KILL_MS;
	tell(a, SIGTERM);
}

static void hear(struct all *a, struct part *p)
{
	struct standin_worker_frame f;
	size_t at = 0;
	long k;
	if (p->cap - p->n_got < PIPE)
		p->got = td_standin_more(p->got, p->cap = p->n_got + 2 * PIPE);
	ssize_t n = recv(p->fd, p->got + p->n_got, p->cap - p->n_got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	p->n_got += n > 0 ? (size_t)n : 0;
	while ((k = td_standin_worker_frame(p->got + at, p->n_got - at, &f)) > 0) {
		at += (size_t)k;
		if (f.letter == 'o' || f.letter == 'e')
			show(a, p, f.letter == 'o' ? 1 : 2, f.data, f.n);
		if (f.letter == 'x') {
			over(a, p, f.data[0], false);
			return;
		}
	}
	memmove(p->got, p->got + at, p->n_got - at);
	p->n_got -= at;
	if (n <= 0 || k < 0)
		over(a, p, LOST, true);
}

static void told(struct all *a, int signals)
{
	struct signalfd_siginfo s;
	while (read(signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
		bool ends = s.ssi_signo == SIGINT || s.ssi_signo == SIGTERM || s.ssi_signo == SIGHUP;
		if (ends && a->asked++ && !a->srun) // he asks again
			a->kill_at = 1;
		else if (ends && !a->kill_at)
			a->kill_at = td_standin_now_ms() + KILL_MS;
		tell(a, ends && a->srun ? SIGTERM : (int)s.ssi_signo);
	}
}

static void typed(struct all *a)
{
	uint8_t b[PIPE];
	ssize_t n = read(0, b, sizeof(b));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	a->typed = n > 0;
	say(&a->v[0], n > 0 ? 'i' : 'c', b, n > 0 ? (size_t)n : 0);
}

static int follow(struct all *a)
{
	sigset_t all;
	sigemptyset(&all);
	static const int which[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++)
		sigaddset(&all, which[i]);
	sigprocmask(SIG_BLOCK, &all, NULL);
	int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		struct pollfd p[NODES + 2];
		int left = 0;
		for (int i = 0; i < a->n; i++) {
			p[i] = (struct pollfd){a->v[i].fd, (short)(POLLIN | (a->v[i].n_out ? POLLOUT : 0)), 0};
			left += a->v[i].fd >= 0;
		}
		if (!left)
			return a->worst;
		p[a->n] = (struct pollfd){signals, POLLIN, 0};
		p[a->n + 1] = (struct pollfd){a->typed && !a->v[0].n_out ? 0 : -1, POLLIN, 0};
		int64_t wait = a->kill_at ? a->kill_at - td_standin_now_ms() : -1;
		poll(p, (nfds_t)a->n + 2, a->kill_at ? (int)(wait > 0 ? wait : 0) : -1);
		for (int i = 0; i < a->n; i++)
			if (p[i].revents & POLLOUT)
				flush(&a->v[i]);
		for (int i = 0; i < a->n; i++)
			if (p[i].revents & ~POLLOUT)
				hear(a, &a->v[i]);
		if (a->deaf && !a->kill_at) { // as of a program that writes to that pipe itself
			a->worst = a->worst ? a->worst : 128 + SIGPIPE;
			a->kill_at = td_standin_now_ms() + KILL_MS;
			tell(a, a->srun ? SIGTERM : SIGPIPE);
		}
		if (p[a->n].revents)
			told(a, signals);
		if (p[a->n + 1].revents)
			typed(a);
		if (a->kill_at && td_standin_now_ms() >= a->kill_at) {
			tell(a, SIGKILL);
			a->kill_at = td_standin_now_ms() + KILL_MS;
		}
	}
}

static int run(struct all *a, char **argv, bool all)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < a->n; i++) {
		int r = a->v[i].rank == a->rank ? 0 : reach(a, &a->v[i]);
		if (r)
			return r;
	}
	for (int i = 0; i < a->n; i++)
		if (a->v[i].rank == a->rank && here(a, &a->v[i]))
			return LOST;
	// All can be reached: only now something begins.
	for (int i = 0; i < a->n; i++) {
		struct text t = request(a, &a->v[i], argv, all);
		if (t.n > STANDIN_WORKER_REQUEST)
			return failed(a, "the command and the environment are longer than %d bytes",
				      STANDIN_WORKER_REQUEST);
		bool sent = td_standin_worker_send(a->v[i].fd, 'r', t.s, t.n) &&
			    (a->typed || td_standin_worker_send(a->v[i].fd, 'c', "", 0));
		free(t.s);
		if (!sent)
			return failed(a, "node %d (%s) is lost", a->v[i].rank, a->v[i].host);
	}
	return follow(a);
}

// In a container srun is not at hand: a worker outside of it, at a socket, says all this once more where it is (onslurm.c).
static int outside(struct all *a, int argc, char **argv)
{
	struct text t = {0};
	char dir[4096];
	bool there = getcwd(dir, sizeof(dir)) != NULL;
	struct part *p = &a->v[0];
	a->n = 1;
	a->label = false; // srun writes them
	a->srun = true;
	*p = (struct part){.fd = td_standin_onslurm_door(getenv(STANDIN_STEPS)), .code = -1};
	if (p->fd < 0)
		return failed(a, "what starts programs on the session's machines is not there (%s): %s",
			      getenv(STANDIN_STEPS), strerror(errno));
	add(&t, "%s", "/");
	if (there)
		add(&t, "=PYXIS_CONTAINER_WORKDIR=%s", dir);
	for (char **e = environ; *e; e++)
		if (td_standin_onslurm_sends(*e))
			add(&t, "=" STANDIN_INSIDE "%s", *e);
	add(&t, "%s", "");
	add(&t, "%s", STANDIN_OUTSIDE);
	add(&t, "%s", "on-nodes");
	for (int i = 1; i < argc; i++)
		add(&t, "%s", argv[i]);
	bool sent = t.n <= STANDIN_WORKER_REQUEST && td_standin_worker_send(p->fd, 'r', t.s, t.n) &&
		    td_standin_worker_send(p->fd, 'c', "", 0);
	int over = t.n > STANDIN_WORKER_REQUEST;
	free(t.s);
	if (!sent)
		return over ? failed(a, "the command and the environment are longer than %d bytes",
				     STANDIN_WORKER_REQUEST)
			    : failed(a, "what starts programs on the session's machines has gone");
	return follow(a);
}

static void take(struct all *a, int rank)
{
	struct part *p = &a->v[a->n++];
	*p = (struct part){.rank = rank, .fd = -1, .code = -1};
	snprintf(p->host, sizeof(p->host), "%s", a->hosts[rank]);
}

int td_standin_onnodes(int argc, char **argv)
{
	static const char usage[] =
		"usage: tandem-run [-l] [--workers | --node N] [--] COMMAND [ARGUMENT…]\n"
		"\n"
		"Runs a program on all nodes of this session, with RANK, WORLD_SIZE, MASTER_ADDR "
		"and MASTER_PORT; torchrun\n"
		"needs no options. When it fails on one node, it is ended on the others.\n"
		"\n"
		"  -l, --label   the node's number before each line\n"
		"  --workers     not on this node\n"
		"  --node N      only on this one: its number, or its name\n"
		"\n"
		"Exit code: of the first that failed; 128 and the signal's number when one ended it; "
		"255 when a node is lost or\n"
		"not reached; 2 wrong usage.\n";
	static struct all a = {.me = "tandem-run"};
	bool workers = false;
	int only = -1, i = 1;
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	if (know(&a))
		return LOST;
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (!strcmp(argv[i], "-l") || !strcmp(argv[i], "--label"))
			a.label = true;
		else if (!strcmp(argv[i], "--workers"))
			workers = true;
		else if (!strcmp(argv[i], "--node") && i + 1 < argc) {
			only = rank_of(&a, argv[++i]);
			if (only < 0) {
				failed(&a, "there is no node \"%.100s\": 0 to %d, or a name of TANDEM_GANG_HOSTS",
				       argv[i], a.n_hosts - 1);
				return 2;
			}
		} else {
			fprintf(stderr, "tandem-run: there is no option %.60s\n%s", argv[i], usage);
			return 2;
		}
	}
	if (i >= argc || (workers && only >= 0)) {
		fputs(usage, stderr);
		return 2;
	}
	for (int k = 0; k < a.n_hosts; k++)
		if ((only < 0 || k == only) && !(workers && k == a.rank))
			take(&a, k);
	// The first node has no server: it is where people are.
	if (a.rank && (only < 0 ? !workers : only == 0)) {
		failed(&a, "it starts programs from the session's first node, and this is node %d", a.rank);
		return 2;
	}
	// By the name "on-nodes" it is called where srun is, with the variables of the programs that are not.
	if (td_standin_onslurm_here() && getenv(STANDIN_STEPS) && strcmp(argv[0], "on-nodes") != 0)
		return outside(&a, argc, argv);
	if (td_standin_onslurm_here())
		return td_standin_onslurm(&(const struct standin_onslurm){.hosts = a.hosts,
									  .n_hosts = a.n_hosts,
									  .only = only,
									  .workers = workers,
									  .label = a.label,
									  .argv = argv + i});
	return run(&a, argv + i, true);
}

int td_standin_rsh(int argc, char **argv)
{
	static struct all a = {.me = "tandem-rsh", .typed = true};
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) { // what mpirun and its like say to ssh
		if (!strcmp(argv[i], "-n"))
			a.typed = false;
		else if (strlen(argv[i]) == 2 && strchr("lopi", argv[i][1]))
			i++;
	}
	if (argc - i < 2) {
		fputs("usage: tandem-rsh [-n] HOST COMMAND…\n\nRuns a line of shell on a node of this session, as ssh "
		      "does.\n",
		      stderr);
		return 2;
	}
	if (know(&a))
		return LOST;
	if (td_standin_onslurm_here())
		return failed(&a, "on machines mpirun and its like start theirs by srun, as in every Slurm job");
	int rank = rank_of(&a, argv[i]);
	if (rank < 0 || (!rank && a.rank))
		return failed(&a,
			      rank < 0 ? "%.100s is no node of this session: see TANDEM_GANG_HOSTS"
				       : "%.100s is the session's first node: programs are started from there",
			      argv[i]);
	take(&a, rank);
	struct text line = {0};
	for (i++; i < argc; i++) {
		add(&line, "%s", argv[i]);
		line.s[line.n - 1] = ' ';
	}
	line.s[line.n - 1] = '\0';
	char *shell[] = {(char *)"/bin/sh", (char *)"-c", line.s, NULL};
	return run(&a, shell, false);
}
