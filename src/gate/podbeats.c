// What pods say in their logs.
#include "gate/podbeats.h"

#include "api/condition.h"
#include "base/log.h"
#include "base/names.h"
#include "kube/service.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool td_podbeat_asks(const struct td_object *pod)
{
	return td_streq(td_object_annotation(pod, TD_ANN_HEARTBEAT), "log");
}

const char *td_podbeat_container(const struct td_object *pod)
{
	const char *named = td_object_annotation(pod, "kubectl.kubernetes.io/default-container"), *first = NULL;
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod->root, "spec.containers"), i, n, v) {
		const char *name = td_jstr(v, "name");
		if (named && td_streq(name, named))
			return name;
		first = first ? first : name;
	}
	return first;
}

// Where to go on in a file of that size, and whether that is the middle of a line.
static int64_t from(struct td_podbeat *b, const struct stat *st, bool *ret_middle)
{
	bool same = b->begun && b->dev == st->st_dev && b->ino == st->st_ino && b->at <= st->st_size;
	int64_t at = same ? b->at : 0;
	bool far = st->st_size - at > TD_PODBEAT_READ;
	// Of a log that was rotated the end was not read.
	b->gap = b->begun && (far || !same);
	if (!same || far)
		b->beats.mid[0] = b->beats.mid[1] = false;
	*ret_middle = far;
	return far ? st->st_size - TD_PODBEAT_READ : at;
}

void td_podbeat_read(struct td_podbeat *b, int fd, int steps)
{
	struct stat st;
	bool middle;
	if (fd < 0 || fstat(fd, &st)) {
		b->gap = true;
		return;
	}
	int64_t at = from(b, &st, &middle);
	td_auto_free char *text = td_malloc(TD_PODBEAT_READ);
	ssize_t n = pread(fd, text, TD_PODBEAT_READ, at);
	size_t len = n > 0 ? (size_t)n : 0, skip = 0;
	if (middle) {
		const char *nl = memchr(text, '\n', len);
		skip = nl ? (size_t)(nl - text) + 1 : len;
	}
	size_t taken = skip + td_pool_beats_read(&b->beats, text + skip, len - skip, steps);
	// A line that does not fit is none of a kubelet's log.
	b->at = at + (int64_t)(taken || len < TD_PODBEAT_READ ? taken : len);
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	b->begun = true;
}

int64_t td_podbeat_sign(const struct td_podbeat *b)
{
	return b->gap || !b->beats.n ? -1 : b->beats.n;
}

void td_podbeat_say(struct td_podbeat *b, struct td_kube *k, const struct td_object *pod, const struct td_clock *clock,
		    struct td_cancel *c)
{
	struct td_kube_pace was, now = {b->beats.pace_us, b->beats.pace_step};
	// An agent that is new goes on with what was said before.
	if (!b->said.us && td_kube_pace_read(pod->root, &was))
		b->said.us = was.us;
	enum td_pool_pace_do what = td_pool_pace_next(&b->said, now.us, td_mono_ms(clock));
	if (what == TD_PACE_NOTHING)
		return;
	td_auto_free char *text = what == TD_PACE_SAY ? td_kube_pace_text(&now) : td_strdup("it changes all the time");
	struct td_error err = TD_ERROR_INIT;
	int r = td_kube_pod_condition(k, pod,
				      what == TD_PACE_SAY ? TD_CONDITION(TD_COND_PACE, "True", "Steps", text)
							  : TD_CONDITION(TD_COND_PACE, "Unknown", "Unsteady", text),
				      clock, c, &err);
	if (!r)
		td_pool_pace_done(&b->said, what == TD_PACE_SAY ? now.us : -1, td_mono_ms(clock));
	else if (r != TD_NOT_FOUND && r != TD_CONFLICT && r != TD_CANCELLED)
		td_warn("pod %s/%s: saying how long its steps take: %s", pod->ns, pod->name, err.msg);
}

// ---- logs of a kubelet's pods ----

// The directory of the container's logs, and the number of the newest one. -1: there is none.
static int container_dir(int pod_dir, const char *container, int *ret_newest)
{
	int fd = openat(pod_dir, container, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
	    list = fd < 0 ? -1 : dup(fd);
	DIR *d = list < 0 ? NULL : fdopendir(list);
	*ret_newest = -1;
	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		size_t digits = strspn(e->d_name, "0123456789");
		if (digits && digits < 9 && !strcmp(e->d_name + digits, ".log") && atoi(e->d_name) > *ret_newest)
			*ret_newest = atoi(e->d_name);
	}
	if (d)
		closedir(d);
	else if (list >= 0)
		close(list);
	if (fd >= 0 && *ret_newest < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int pod_dir_open(const char *dir, const struct td_object *pod)
{
	td_auto_free char *path = td_asprintf("%s/%s_%s_%s", dir, pod->ns, pod->name, pod->uid);
	return *dir ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

int td_podlog_open(const char *dir, const struct td_object *pod, const char *container)
{
	td_auto_close int at = pod_dir_open(dir, pod);
	int newest;
	td_auto_close int fd = at < 0 ? -1 : container_dir(at, container, &newest);
	if (fd < 0)
		return -1;
	char name[16];
	struct stat st;
	snprintf(name, sizeof(name), "%d.log", newest);
	td_auto_close int log = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return log >= 0 && !fstat(log, &st) && S_ISREG(st.st_mode) ? td_steal_fd(&log) : -1;
}

int64_t td_podlog_output(const char *dir, const struct td_object *pod)
{
	td_auto_close int at = pod_dir_open(dir, pod);
	int64_t sum = -1;
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod->root, "spec.containers"), i, n, v) {
		char name[16];
		struct stat st;
		int newest;
		const char *container = td_jstr(v, "name");
		td_auto_close int fd = at < 0 || !container ? -1 : container_dir(at, container, &newest);
		if (fd < 0)
			return -1; // what it writes is not seen
		snprintf(name, sizeof(name), "%d.log", newest);
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
			return -1;
		sum = (sum < 0 ? 0 : sum) + newest + st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	}
	return sum;
}
