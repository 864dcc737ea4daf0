// Who has lost a file system of a storage group has it no more in a login pod, where people stay for weeks (groupkeep.h).
//
// A process sees it if it is in the mounts of its mount namespace, which the kernel lists for every process. Whose the
// process is says the owner of the outermost user namespace that it is in, below the pod's: in one of his own a person may
// have other numbers, and mounts of his own, which are copies of those that the login had.
//
// There he can hide what he sees, too: the kernel lists no mounts that lie outside of a process's root, and a directory
// that is open needs none. So of who has lost something since the list before all processes of the pod end, whatever they see.
#include "spank/groupkeep.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/groupfiles.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "spank/groupfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// HAD: the list before. A login that began just before a new one may have read it, so it counts for SETTLE_S.
#define HAD "/run/tandem-groups.had"
// With a directory service who is not found may be somebody when it answers again.
#define DIRECTORY "/var/lib/sss/pipes/nss"
enum { MOST_TEXT = 16 << 20, MOST_ENDED = 256, HUP_S = 2, SETTLE_S = 3 };

bool td_groupmount_read(const char *line, const char *dir, struct td_groupmount *ret)
{
	char root[1024], at[1024];
	struct td_groupmount m = {0};
	if (sscanf(line, "%*d %*d %u:%u %1023s %1023s", &m.major, &m.minor, root, at) != 4)
		return false;
	size_t n = dir ? strlen(dir) : 0;
	memcpy(m.root, root, strlen(root) + 1);
	if (n && !strncmp(at, dir, n) && at[n] == '/')
		snprintf(m.name, sizeof(m.name), "%.*s", (int)strcspn(at + n + 1, "/"), at + n + 1);
	*ret = m;
	return true;
}

// Is the directory the other one, or below it?
static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	n -= n == 1; // "/"
	return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

const char *td_groupmount_of(const struct td_groupmount *own, size_t n, const struct td_groupmount *x)
{
	const struct td_groupmount *best = NULL;
	for (size_t i = 0; i < n; i++)
		if (own[i].major == x->major && own[i].minor == x->minor && below(x->root, own[i].root) &&
		    (!best || strlen(own[i].root) > strlen(best->root)))
			best = &own[i];
	return best && *best->name ? best->name : NULL;
}

int td_groupkeep_login(const char *user, char **command)
{
	char why[256] = "";
	if (td_groupfs_login(TD_GROUPFS, TD_GROUPFS_LIST, user, why, sizeof(why)))
		fprintf(stderr,
			"tandem: file systems of your storage groups cannot be shown here: %s. Tell whoever runs the "
			"cluster.\n",
			why);
	execvp(command[0], command);
	fprintf(stderr, "tandem: %s: %s\n", command[0], strerror(errno));
	return 127;
}

struct groupkeep_person {
	uid_t uid;
	char *name; // NULL: he has none
	bool lost;
};

struct groupkeep_pass {
	struct td_groupmount *own; // of the pod
	size_t n_own;
	ino_t ns, user;   // the pod's namespaces
	char *list, *had; // had NULL: there was none before, or it is the same
	struct groupkeep_person *people;
	size_t n_people;
	int ended[MOST_ENDED]; // they had SIGHUP
	size_t n_ended, n_all;
};

static int read_mounts(const char *pid, struct td_buf *b)
{
	td_auto_free char *path = td_asprintf("/proc/%s/mountinfo", pid);
	return td_file_read(path, MOST_TEXT, b, NULL);
}

static int read_own(struct groupkeep_pass *l, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	struct stat mnt, user;
	if (read_mounts("self", &b) || stat("/proc/self/ns/mnt", &mnt) || stat("/proc/self/ns/user", &user))
		return td_fail(err, TD_INTERNAL, "what is mounted here cannot be read");
	l->ns = mnt.st_ino;
	l->user = user.st_ino;
	for (char *rest = NULL, *line = strtok_r(b.s, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		l->own = td_realloc(l->own, (l->n_own + 1) * sizeof(*l->own));
		l->n_own += td_groupmount_read(line, TD_GROUPFS, &l->own[l->n_own]);
	}
	return 0;
}

// Whose the process is. False: it has ended, or nothing says.
static bool whose(const struct groupkeep_pass *l, const char *pid, uid_t *ret)
{
	td_auto_free char *path = td_asprintf("/proc/%s/ns/user", pid), *status = td_asprintf("/proc/%s/status", pid);
	td_auto_buf struct td_buf b = {0};
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), up, outermost = -1;
	bool known = false;
	while (fd >= 0 && !fstat(fd, &st) && st.st_ino != l->user) {
		up = ioctl(fd, NS_GET_PARENT);
		if (outermost >= 0)
			close(outermost);
		outermost = fd;
		fd = up;
	}
	if (fd >= 0 && outermost >= 0)
		known = !ioctl(outermost, NS_GET_OWNER_UID, ret);
	else if (fd >= 0 && !td_file_read(status, MOST_TEXT, &b, NULL)) {
		const char *uid = strstr(td_buf_str(&b), "\nUid:");
		known = uid && sscanf(uid, "\nUid: %u", ret) == 1;
	}
	if (fd >= 0)
		close(fd);
	if (outermost >= 0)
		close(outermost);
	return known;
}

// The name that the pod knows him by; "": it knows nobody of the number. NULL: nothing says.
static char *ask_name(uid_t uid)
{
	enum { NOT_FOUND = 2 };
	td_auto_free char *number = td_asprintf("%u", uid);
	const char *const argv[] = {"getent", "passwd", number, NULL};
	td_auto_buf struct td_buf b = {0};
	int status = 0;
	if (td_run((char **)(uintptr_t)argv, NULL, 10000, NULL, &status, &b, NULL))
		return NULL;
	if (status == NOT_FOUND && access(DIRECTORY, F_OK))
		return td_strdup("");
	if (status || !b.len)
		return NULL;
	return td_strndup(td_buf_str(&b), strcspn(td_buf_str(&b), ":"));
}

// Is it a group's at all? One that has left all groups is decided upon by who replaces the pod for it.
static bool listed(const char *list, const char *name)
{
	struct td_groupfiles all;
	td_groupfiles_begin(&all, list, NULL);
	while (td_groupfiles_next(&all))
		if (!strcmp(all.name, name))
			return true;
	return false;
}

bool td_groupkeep_lost(const char *had, const char *list, const char *user)
{
	struct td_groupfiles before, now;
	td_groupfiles_begin(&before, had, user);
	td_groupfiles_begin(&now, list, user);
	while (td_groupfiles_next(&before))
		if (!td_groupfiles_has(&now, before.name) && listed(list, before.name))
			return true;
	return false;
}

static const struct groupkeep_person *person_of(struct groupkeep_pass *l, uid_t uid)
{
	for (size_t i = 0; i < l->n_people; i++)
		if (l->people[i].uid == uid)
			return &l->people[i];
	struct groupkeep_person p = {.uid = uid, .name = ask_name(uid)};
	// Who is no user any more has nothing.
	p.lost = p.name && l->had && (!*p.name || td_groupkeep_lost(l->had, l->list, p.name));
	l->people = td_realloc(l->people, (l->n_people + 1) * sizeof(p));
	l->people[l->n_people] = p;
	return &l->people[l->n_people++];
}

// What the process sees that is not its user's; "": nothing. Its mounts are those of `text`.
static void strange(const struct groupkeep_pass *l, char *text, const char *user, char name[TD_GROUPFILE_NAME])
{
	struct td_groupfiles g;
	struct td_groupmount m;
	name[0] = '\0';
	td_groupfiles_begin(&g, l->list, user);
	for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line && !*name;
	     line = strtok_r(NULL, "\n", &rest)) {
		const char *of = td_groupmount_read(line, NULL, &m) ? td_groupmount_of(l->own, l->n_own, &m) : NULL;
		if (of && !td_groupfiles_has(&g, of) && listed(l->list, of))
			snprintf(name, TD_GROUPFILE_NAME, "%s", of);
	}
}

// Does it see what is not its user's, or may it? Says so.
static bool ends(struct groupkeep_pass *l, const char *pid)
{
	td_auto_free char *path = td_asprintf("/proc/%s/ns/mnt", pid);
	td_auto_buf struct td_buf b = {0};
	char name[TD_GROUPFILE_NAME] = "";
	const struct groupkeep_person *who;
	struct stat st;
	uid_t uid;
	bool own = stat(path, &st) || st.st_ino == l->ns; // it sees what everybody sees here
	if ((own && !l->had) || !whose(l, pid, &uid) || !uid)
		return false;
	// A service's number may be nobody's, and its mounts are the pod's.
	if (l->had && (who = person_of(l, uid))->lost && (*who->name || !own)) {
		td_info("storage: %s has lost a file system; his process %s here is ended",
			*who->name ? who->name : "who is no user any more", pid);
		return true;
	}
	if (own || read_mounts(pid, &b) || !b.len)
		return false;
	td_auto_free char *text = td_strdup(td_buf_str(&b));
	strange(l, text, "", name); // does it see any?
	if (!*name || !(who = person_of(l, uid))->name)
		return false;
	strange(l, b.s, who->name, name);
	if (*name)
		td_info("storage: %s has %s no more; his process %s here is ended",
			*who->name ? who->name : "who is no user any more", name, pid);
	return *name;
}

static int signal_to(int fd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
}

// By a descriptor: the number may be another's a moment later.
static void look_at(struct groupkeep_pass *l, const char *pid)
{
	int fd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	if (fd < 0)
		return;
	if (!ends(l, pid)) {
		close(fd);
		return;
	}
	l->n_all++;
	if (l->n_ended < MOST_ENDED && !signal_to(fd, SIGHUP)) {
		l->ended[l->n_ended++] = fd;
		return;
	}
	signal_to(fd, SIGKILL);
	close(fd);
}

static int each(struct groupkeep_pass *l, struct td_error *err)
{
	DIR *d = opendir("/proc");
	if (!d)
		return td_fail_errno(err, TD_INTERNAL, errno, "/proc");
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			look_at(l, e->d_name);
	closedir(d);
	return 0;
}

// The list before is this one from now on, once nobody can have read the other.
static int settle(const struct groupkeep_pass *l, struct td_error *err)
{
	struct stat st;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	if (stat(TD_GROUPFS_LIST, &st) || (st.st_mtime <= now && now - st.st_mtime < SETTLE_S && l->had))
		return 0;
	return td_file_write(HAD, l->list, strlen(l->list), 0600, err);
}

int td_groupkeep_look(struct td_error *err)
{
	struct groupkeep_pass l = {.list = td_groupfs_read(TD_GROUPFS_LIST), .had = td_groupfs_read(HAD)};
	bool same = l.list && l.had && !strcmp(l.list, l.had);
	if (same) {
		free(l.had);
		l.had = NULL;
	}
	// No list: it may be on its way. Nobody sees what he did not see before.
	int r = l.list ? read_own(&l, err) : 0;
	if (!r && l.list)
		r = each(&l, err);
	if (!r && l.list && !same)
		r = settle(&l, err);
	if (l.n_ended)
		sleep(HUP_S);
	for (size_t i = 0; i < l.n_ended; i++) {
		signal_to(l.ended[i], SIGKILL);
		close(l.ended[i]);
	}
	r = r ? r : (int)l.n_all;
	for (size_t i = 0; i < l.n_people; i++)
		free(l.people[i].name);
	free(l.people);
	free(l.own);
	free(l.list);
	free(l.had);
	return r;
}
