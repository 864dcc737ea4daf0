// NVMe's log of health. A drive that hangs keeps who asks it waiting, in the kernel and for a minute or more, so a thread
// asks each, and who wants to know takes what it said last.
#include "checkup/checkup.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GET_LOG_PAGE = 2, LOG_HEALTH = 2, LOG_SIZE = 512, OLD_MS = 180000 };

struct nvme_drive {
	char name[32];
	bool busy; // a thread asks it
	enum td_nvme_said what;
	int64_t asked_ms, said_ms; // said_ms: when it was asked for what it said
	unsigned char log[LOG_SIZE];
};
struct td_nvmes {
	pthread_mutex_t lock; // guards all but ask and ctx
	int refs;             // one is the owner's, one each thread's: who hangs outlives the owner
	td_nvme_ask_f *ask;
	void *ctx;
	struct nvme_drive v[TD_DISKS];
	int n;
};
struct nvme_errand {
	struct td_nvmes *of;
	int i;
	char *path;
};

enum td_nvme_said td_nvme_ask(void *ctx, const char *path, unsigned char log[512])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	// The kernel's own time (a minute): a command that does not end in time makes it reset the drive, under whoever
	// works there.
	struct nvme_admin_cmd c = {.opcode = GET_LOG_PAGE,
				   .nsid = UINT32_MAX,
				   .addr = (uint64_t)(uintptr_t)log,
				   .data_len = LOG_SIZE,
				   .cdw10 = LOG_HEALTH | (LOG_SIZE / 4 - 1) << 16};
	if (fd < 0)
		return TD_NVME_CLOSED;
	int r = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &c);
	bool may_not = r < 0 && (errno == EACCES || errno == EPERM || errno == ENOTTY);
	close(fd);
	return !r ? TD_NVME_SAID : may_not ? TD_NVME_CLOSED : TD_NVME_SILENT;
}

struct td_nvmes *td_nvmes_new(td_nvme_ask_f *ask, void *ctx)
{
	struct td_nvmes *a = td_calloc(1, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	a->refs = 1;
	a->ask = ask;
	a->ctx = ctx;
	return a;
}

struct td_nvmes *td_nvmes_free(struct td_nvmes *a)
{
	if (!a)
		return NULL;
	pthread_mutex_lock(&a->lock);
	bool last = !--a->refs;
	pthread_mutex_unlock(&a->lock);
	if (last) {
		pthread_mutex_destroy(&a->lock);
		free(a);
	}
	return NULL;
}

static void *errand(void *p)
{
	struct nvme_errand *e = p;
	unsigned char log[LOG_SIZE] = {0};
	enum td_nvme_said what = e->of->ask(e->of->ctx, e->path, log);
	pthread_mutex_lock(&e->of->lock);
	struct nvme_drive *d = &e->of->v[e->i];
	d->busy = false;
	d->what = what;
	d->said_ms = d->asked_ms;
	memcpy(d->log, log, sizeof(log));
	pthread_mutex_unlock(&e->of->lock);
	td_nvmes_free(e->of);
	free(e->path);
	free(e);
	return NULL;
}

// Index of the drive, or -1: there are too many.
static int drive_locked(struct td_nvmes *a, const char *name)
{
	for (int i = 0; i < a->n; i++)
		if (!strcmp(a->v[i].name, name))
			return i;
	if (a->n == TD_DISKS || strlen(name) >= sizeof(a->v[0].name))
		return -1;
	memcpy(a->v[a->n].name, name, strlen(name) + 1);
	return a->n++;
}

static void send(struct td_nvmes *a, int i, const char *path)
{
	struct nvme_errand *e = td_calloc(1, sizeof(*e));
	pthread_attr_t detached;
	pthread_t t;
	*e = (struct nvme_errand){a, i, td_strdup(path)};
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&t, &detached, errand, e)) {
		pthread_mutex_lock(&a->lock);
		a->v[i].busy = false;
		pthread_mutex_unlock(&a->lock);
		td_nvmes_free(a);
		free(e->path);
		free(e);
	}
	pthread_attr_destroy(&detached);
}

enum td_nvme_said td_nvmes_look(struct td_nvmes *a, const char *path, bool due, int64_t now_ms,
				struct td_checkup_disk *d)
{
	if (!td_path_exists(path))
		return TD_NVME_CLOSED;
	pthread_mutex_lock(&a->lock);
	int i = drive_locked(a, d->name);
	if (i < 0) {
		pthread_mutex_unlock(&a->lock);
		return TD_NVME_SILENT;
	}
	struct nvme_drive *x = &a->v[i];
	const bool ask = due && !x->busy;
	if (ask) {
		x->busy = true;
		x->asked_ms = now_ms;
		a->refs++;
	}
	// What it said long ago is no news of now.
	enum td_nvme_said what = x->what == TD_NVME_SAID && now_ms - x->said_ms > OLD_MS ? TD_NVME_SILENT : x->what;
	if (what == TD_NVME_SAID)
		td_smart_nvme(x->log, d);
	pthread_mutex_unlock(&a->lock);
	if (ask)
		send(a, i, path);
	return what;
}
