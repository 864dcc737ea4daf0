#include "kubelet/frames.h"

#include "base/proc.h"
#include "gate/podframes.h"
#include "kubelet/metrics.h"
#include "kubelet/pods/pod.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIDS = 256, LOOKED = 4, DUMP_MS = 10000, PROGRAM_MAX = 64 << 20, BLOCK = 65536, EXECUTABLE = 0x10 };

// A sealed copy of the program, which nobody in a container can write; -1: this machine has none that is root's alone.
static int program_of(const char *home)
{
	td_auto_free char *own = td_asprintf("%s/tools/py-spy", home);
	const char *const at[] = {own, "/usr/local/bin/py-spy", "/usr/bin/py-spy"};
	td_auto_close int from = -1, to = -1;
	struct stat st;
	for (size_t i = 0; i < TD_LEN(at) && from < 0; i++) {
		from = open(at[i], O_RDONLY | O_CLOEXEC);
		if (from >= 0 && (fstat(from, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
				  st.st_mode & (S_IWGRP | S_IWOTH) || st.st_size > PROGRAM_MAX))
			close(td_steal_fd(&from));
	}
	if (from < 0)
		return -1;
	// Where vm.memfd_noexec is set, it must be said that it is a program; kernels before 6.3 do not know that.
	to = memfd_create("py-spy", MFD_CLOEXEC | MFD_ALLOW_SEALING | EXECUTABLE);
	if (to < 0 && errno == EINVAL)
		to = memfd_create("py-spy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0)
		return -1;
	td_auto_free char *block = td_malloc(BLOCK);
	ssize_t n;
	while ((n = read(from, block, BLOCK)) > 0)
		if (write(to, block, (size_t)n) != n)
			return -1;
	if (n < 0 || fchmod(to, 0555) ||
	    fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return -1;
	return td_steal_fd(&to);
}

// What it prints, cut at `size` bytes and end_ms; it is killed then.
static void output_of(struct td_oci_proc *proc, int64_t end_ms, size_t size, struct td_cancel *c, struct td_buf *ret)
{
	struct pollfd p[3] = {
		{td_oci_proc_out(proc), POLLIN, 0}, {td_oci_proc_err(proc), POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
	int64_t left;
	char buf[4096];
	while (p[0].fd >= 0 && ret->len < size && !td_cancelled(c) &&
	       (left = end_ms - td_mono_ms(&td_clock_system)) > 0) {
		if (poll(p, 3, (int)left) <= 0)
			continue;
		for (int k = 0; k < 2; k++) {
			ssize_t n = p[k].revents ? read(p[k].fd, buf, sizeof(buf)) : -1;
			if (n > 0 && !k)
				td_buf_add(ret, buf, (size_t)n);
			else if (p[k].revents && (!n || (n < 0 && errno != EAGAIN && errno != EINTR)))
				p[k].fd = -1;
		}
	}
}

struct frames_of { // a process of a container
	const char *id;
	pid_t inner;
	int program;
	int64_t end_ms;
};

// False: it did not say.
static bool one(struct td_kubelet *a, const struct frames_of *f, char *ret, size_t size)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", (int)f->inner);
	const char *const args[] = {"py-spy", "dump", "--nonblocking", "--json", "--pid", pid, NULL};
	const struct td_oci_exec e = {.args = args, .program = f->program};
	td_auto(td_oci_proc_free) struct td_oci_proc *proc = NULL;
	td_auto_buf struct td_buf out = {0};
	if (td_mono_ms(&td_clock_system) >= f->end_ms || td_cancelled(a->cancel) ||
	    td_oci_exec(a->oci, f->id, &e, &proc, NULL))
		return false;
	output_of(proc, f->end_ms, TD_PODFRAMES_JSON, a->cancel, &out);
	td_podframes_words(td_buf_str(&out), out.len, ret, size);
	return *ret;
}

void td_kubelet_frames(void *kubelet, const struct td_object *pod, char *ret, size_t size)
{
	struct td_kubelet *a = kubelet;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, pod->uid);
	td_auto_strv struct td_strv ids = {0};
	td_auto_free pid_t *v = td_calloc(PIDS, sizeof(*v));
	td_auto_close int program = -1;
	size_t len = 0;
	int looked = 0, said = 0;
	// Of all its processes: they are its user's, and may keep py-spy waiting, and others' pods with it.
	const int64_t end_ms = td_mono_ms(&td_clock_system) + DUMP_MS;
	*ret = '\0';
	if (p)
		td_kubelet_running(a, p, &ids);
	for (size_t i = 0; i < ids.n && looked < LOOKED; i++) {
		size_t n = td_oci_pids(a->oci, ids.v[i], v, PIDS);
		for (size_t k = 0; k < n && looked < LOOKED; k++) {
			char words[TD_PODFRAMES_TEXT];
			// A number that is another process by then is looked up in the container itself, and is one of its own.
			pid_t inner = td_podframes_python("/proc", v[k]) ? td_podframes_inner("/proc", v[k]) : 0;
			if (!inner)
				continue;
			if (!looked++ && (program = program_of(a->o.home)) < 0) {
				snprintf(ret, size, "functions are not known: this machine has no py-spy");
				return;
			}
			if (!one(a, &(const struct frames_of){ids.v[i], inner, program, end_ms}, words, sizeof(words)))
				continue;
			said++;
			int w = snprintf(ret + len, size - len, "%s%s", len ? "; " : "", words);
			if (w < 0 || (size_t)w >= size - len) {
				ret[len] = '\0';
				return;
			}
			len += (size_t)w;
		}
	}
	if (looked && !said)
		snprintf(ret, size, "functions are not known: py-spy could not read it");
}
