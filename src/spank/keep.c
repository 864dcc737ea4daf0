// The service of a node.
#include "spank/keep.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "spank/layout.h"
#include "spank/pass.h"
#include "spank/pull.h"
#include "spank/reference.h"
#include "spank/store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKET = 128 << 10, ROUND_MS = 10000, JOBS_MS = 20000 };

static struct sockaddr_un address(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", TD_CT_SOCKET);
	return a;
}

// ---- who asks ----
int td_ct_ask(int argc, char **argv, int file)
{
	struct sockaddr_un a = address();
	td_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	td_auto_buf struct td_buf b = {0};
	for (int i = 0; i < argc; i++)
		td_buf_add(&b, argv[i], strlen(argv[i]) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		printf("error containers are not turned on here, or their service does not answer yet: see "
		       "spec.containers of the "
		       "SlurmCluster; a slurmd pod that is older than that is replaced\n");
		return 1;
	}
	if (b.len > PACKET || !td_ct_send(fd, b.s, b.len, file)) {
		printf("error the options of the container are longer than %d bytes\n", PACKET);
		return 1;
	}

	static char line[PACKET];
	for (ssize_t n; (n = recv(fd, line, sizeof(line) - 1, 0)) > 0;) {
		line[n] = '\0';
		printf("%s\n", line);
		fflush(stdout);
		if (td_starts(line, "ready "))
			return 0;
		if (td_starts(line, "error "))
			return 1;
	}
	printf("error the service for containers ended while it worked; start the step again\n");
	return 1;
}

// ---- the service ----
static void serve(int fd, void (*prepare)(int argc, char **argv, int fd, int file))
{
	static char buf[PACKET + 1];
	int file = -1;
	ssize_t n = td_ct_recv(fd, buf, PACKET, &file);
	static char *argv[64];
	int argc = 0;
	for (char *p = buf; p < buf + n && argc < (int)TD_LEN(argv) - 1; p += strlen(p) + 1)
		argv[argc++] = p;
	if (argc)
		prepare(argc, argv, fd, file);
}

static void nobody(void *ctx, const char *text)
{
	(void)ctx;
	td_info("%s", text);
}

// What every node has ready, and the limit. In a child, which nobody waits for.
static void upkeep(void)
{
	td_ct_store_sweep();
	td_auto_settings struct td_ct_settings s = {0};
	if (td_ct_settings_read(TD_CT_CONF, &s, NULL))
		return;
	for (size_t i = 0; i < s.pull.n; i++) {
		td_auto_free char *key = NULL;
		struct td_error err = TD_ERROR_INIT;
		if (td_ct_pull(&(struct td_ct_pull){NULL, s.pull.v[i], NULL, &s, -1, nobody, NULL}, &key, &err))
			td_info("%s", err.msg);
	}
	td_ct_store_trim(s.limit, &s.pull, NULL);
}

// Removes the containers of jobs that this node does not have any more. In a child, too: what users left may take long.
static void sweep(void)
{
	td_auto_strv struct td_strv ids = {0}, jobs = {0};
	td_ct_store_containers(&ids);
	const char *node = getenv("TD_NODE");
	if (!ids.n || !node)
		return;
	char *states[] = {"squeue", "-h", "-o", "%A", "-t", "PD,R,S,ST,CG,CF,RS,SI,SO", "-w", (char *)node, NULL};
	td_auto_buf struct td_buf out = {0};
	int status = 0;
	if (td_run(states, NULL, JOBS_MS, NULL, &status, &out, NULL) || status)
		return; // not known
	td_strv_split(&jobs, td_buf_str(&out), '\n');
	for (size_t i = 0; i < ids.n; i++) {
		td_auto_free char *job = td_strndup(ids.v[i], strspn(ids.v[i], "0123456789"));
		if (!td_strv_has(&jobs, job))
			td_ct_store_release(ids.v[i], NULL);
	}
}

static pid_t in_child(void (*f)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		f();
		_exit(0);
	}
	return pid;
}

int td_ct_keep(void (*prepare)(int argc, char **argv, int fd, int file))
{
	struct td_error err = TD_ERROR_INIT;
	struct sockaddr_un a = address();
	td_auto_free char *dir = td_strndup(TD_CT_SOCKET, (size_t)(strrchr(TD_CT_SOCKET, '/') - TD_CT_SOCKET));
	signal(SIGPIPE, SIG_IGN);
	unlink(TD_CT_SOCKET);
	td_auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (td_ct_store_make(false, &err) || td_mkdir_p(dir, 0700, &err)) {
		td_err("%s", err.msg);
		return 1;
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 128)) {
		td_err("%s: %s", TD_CT_SOCKET, strerror(errno));
		return 1;
	}

	// The settings come and go as a mounted file, so they are looked at each round. What needs a pull
	// runs beside this loop, one at a time.
	pid_t busy = 0, sweeps = 0;
	for (int64_t next = 0;;) {
		int64_t now = td_mono_ms(&td_clock_system);
		if (now >= next) {
			if (busy <= 0)
				busy = in_child(upkeep);
			if (sweeps <= 0)
				sweeps = in_child(sweep);
			next = td_mono_ms(&td_clock_system) + ROUND_MS;
		}
		struct pollfd p = {fd, POLLIN, 0};
		poll(&p, 1, 1000);
		if (p.revents & POLLIN) {
			int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
			if (c >= 0 && fork() == 0) {
				serve(c, prepare);
				_exit(0);
			}
			if (c >= 0)
				close(c);
		}
		for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) {
			busy = pid == busy ? 0 : busy;
			sweeps = pid == sweeps ? 0 : sweeps;
		}
	}
}
