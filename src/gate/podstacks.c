// What the processes of a pod that hangs do.
#include "gate/podstacks.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 1024, KINDS = 32, COMM = 16, WCHAN = 48, CALL = 32, FILE_MAX = 65536 };

struct stack_kind { // of threads that do the same
	char comm[COMM], wchan[WCHAN], call[CALL], state;
	int n;
};

// The first line of a file, of which only what a name may have is kept.
static void name_of(const char *path, char *ret, size_t size)
{
	td_auto_buf struct td_buf b = {0};
	size_t n = 0;
	if (!td_file_read(path, FILE_MAX, &b, NULL))
		for (const char *s = td_buf_str(&b); *s && *s != '\n' && n + 1 < size; s++)
			ret[n++] = (char)(isalnum((unsigned char)*s) || strchr("_.-:/+", *s) ? *s : '_');
	ret[n] = '\0';
}

// "read of pipe": the system call that it waits in, where the caller may see it, and of what kind its descriptor is.
static void call_of(const char *dir, char *ret, size_t size)
{
	static const struct {
		long nr;
		const char *name;
		bool fd;
	} calls[] = {
		{SYS_read, "read", true},       {SYS_write, "write", true},   {SYS_recvfrom, "recvfrom", true},
		{SYS_recvmsg, "recvmsg", true}, {SYS_sendto, "sendto", true}, {SYS_sendmsg, "sendmsg", true},
		{SYS_connect, "connect", true}, {SYS_accept, "accept", true}, {SYS_accept4, "accept", true},
		{SYS_fsync, "fsync", true},     {SYS_flock, "flock", true},   {SYS_ioctl, "ioctl", true},
		{SYS_futex, "futex", false},    {SYS_wait4, "wait4", false},  {SYS_clock_nanosleep, "sleep", false}};
	td_auto_free char *path = td_asprintf("%s/syscall", dir);
	td_auto_buf struct td_buf b = {0};
	long nr;
	unsigned long fd;
	*ret = '\0';
	if (td_file_read(path, FILE_MAX, &b, NULL) || sscanf(td_buf_str(&b), "%ld %lx", &nr, &fd) != 2)
		return;
	for (size_t i = 0; i < TD_LEN(calls); i++) {
		if (calls[i].nr != nr)
			continue;
		td_auto_free char *link = td_asprintf("%s/fd/%lu", dir, fd);
		char to[64] = "";
		ssize_t n = calls[i].fd ? readlink(link, to, sizeof(to) - 1) : 0;
		// A path is said as a file: it may be long, and names what is the user's.
		to[n > 0 ? strcspn(to, ":") : 0] = '\0';
		snprintf(ret, size, "%s%s%s", calls[i].name, *to ? " of " : "", *to == '/' ? "file" : to);
	}
}

static void thread(const char *dir, struct stack_kind *v, size_t *n)
{
	td_auto_free char *comm = td_asprintf("%s/comm", dir), *wchan = td_asprintf("%s/wchan", dir),
			  *stat = td_asprintf("%s/stat", dir);
	td_auto_buf struct td_buf b = {0};
	struct stack_kind k = {.n = 1};
	if (td_file_read(stat, FILE_MAX, &b, NULL))
		return;
	// "12 (name) S …": the name may hold anything.
	const char *s = strrchr(td_buf_str(&b), ')');
	if (!s || s[1] != ' ' || !isalpha((unsigned char)s[2]))
		return;
	k.state = s[2];
	name_of(comm, k.comm, sizeof(k.comm));
	name_of(wchan, k.wchan, sizeof(k.wchan));
	if (!strcmp(k.wchan, "0")) // it runs, or may not be seen
		*k.wchan = '\0';
	call_of(dir, k.call, sizeof(k.call));
	for (size_t i = 0; i < *n; i++)
		if (v[i].state == k.state && !strcmp(v[i].comm, k.comm) && !strcmp(v[i].wchan, k.wchan) &&
		    !strcmp(v[i].call, k.call)) {
			v[i].n++;
			return;
		}
	if (*n < KINDS)
		v[(*n)++] = k;
}

static int more_first(const void *a, const void *b)
{
	const struct stack_kind *x = a, *y = b;
	return y->n != x->n ? y->n - x->n : strcmp(x->comm, y->comm);
}

void td_podstacks_words(const char *proc, const pid_t *v, size_t n, char *ret, size_t size)
{
	struct stack_kind k[KINDS];
	size_t kinds = 0, len = 0;
	int threads = 0;
	for (size_t i = 0; i < n; i++) {
		td_auto_free char *path = td_asprintf("%s/%d/task", proc, (int)v[i]);
		DIR *d = opendir(path);
		for (struct dirent *e; d && threads < THREADS && (e = readdir(d)) != NULL;) {
			if (!isdigit((unsigned char)e->d_name[0]))
				continue;
			td_auto_free char *one = td_asprintf("%s/%s", path, e->d_name);
			thread(one, k, &kinds);
			threads++;
		}
		if (d)
			closedir(d);
	}
	qsort(k, kinds, sizeof(*k), more_first);
	*ret = '\0';
	for (size_t i = 0; i < kinds; i++) {
		char more[32] = "";
		if (k[i].n > 1)
			snprintf(more, sizeof(more), " (%d threads)", k[i].n);
		int w = snprintf(ret + len, size - len, "%s%s %c%s%s%s%s%s", len ? ", " : "", k[i].comm, k[i].state,
				 *k[i].wchan ? " " : "", k[i].wchan, *k[i].call ? " in " : "", k[i].call, more);
		if (w < 0 || (size_t)w >= size - len) {
			ret[len] = '\0';
			return;
		}
		len += (size_t)w;
	}
}

int td_podstacks_tell(const char *proc, const pid_t *v, size_t n, int sig, td_podstacks_pids_f again, void *ctx)
{
	td_auto_free int *fd = td_calloc(n + 1, sizeof(*fd));
	td_auto_free pid_t *now = td_calloc(TD_PODSTACKS_PIDS, sizeof(*now));
	int told = 0;
	for (size_t i = 0; i < n; i++)
		fd[i] = (int)syscall(SYS_pidfd_open, v[i], 0);
	// Held by then, a number that is listed once more is the same process: no other one can have it.
	size_t k = again(ctx, now, TD_PODSTACKS_PIDS);
	for (size_t i = 0; i < n; i++) {
		bool its = false;
		for (size_t j = 0; j < k && !its; j++)
			its = now[j] == v[i];
		if (fd[i] >= 0 && its && td_proc_catches(proc, v[i], sig) &&
		    !syscall(SYS_pidfd_send_signal, fd[i], sig, NULL, 0))
			told++;
		if (fd[i] >= 0)
			close(fd[i]);
	}
	return told;
}
