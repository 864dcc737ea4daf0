// What one process keeps: what is whole on the node's disk is copied to shared storage, old ones go there, and before
// the program starts all are brought back.
#include "standin/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	SMALL = 65536, // a file that points to the newest one, say: it is kept, and not counted
	AGAIN_S = 30,  // what could not be kept: a disk that is full is not written to each second
	LATE_S = 60,   // parts that are missing are named then
	HALVES = 16,   // so many more than --keep may wait for parts
};

struct stage_entry {
	struct stage_entry *next;
	uint64_t seen, copied; // stamps
	int64_t again_s, copied_s;
	int lack;                // a part that was missing at the last look
	bool given, whole, said; // given, whole: in this attempt, of several parts
	char name[];
};

static struct stage_entry *entry(struct stage_keeper *k, const char *name)
{
	struct stage_entry *e = k->entries;
	while (e && strcmp(e->name, name) != 0)
		e = e->next;
	if (e)
		return e;
	e = calloc(1, sizeof(*e) + strlen(name) + 1);
	if (!e)
		abort();
	strcpy(e->name, name);
	e->next = k->entries;
	return k->entries = e;
}

static int64_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static bool large(const struct stage_one *one)
{
	return one->seen.directory || one->seen.bytes > SMALL;
}

// Removes it, after a rename: whoever copies to it, as a run does whose node was given up, cannot make what is left of it
// a whole one. 0: nobody finds it any more.
static int drop(int kept, const char *name)
{
	char gone[256];
	snprintf(gone, sizeof(gone), ".gone-%.249s", strncmp(name, ".new-", 5) ? name : name + 5);
	if (td_stage_remove(kept, gone) || (renameat(kept, name, kept, gone) && errno != ENOENT))
		return -1;
	(void)td_stage_remove(kept, gone); // what stays of it goes at the next start
	return 0;
}

// What begins with a dot was under way. ours: our own part of this attempt.
static int tidy_one(struct stage_keeper *k, int kept, const char *name, const char *ours)
{
	struct stat st;
	bool first = k->part == 0;
	if (!strncmp(name, ".old-", 5)) {
		if (!fstatat(kept, name + 5, &st, AT_SYMLINK_NOFOLLOW))
			return first ? td_stage_remove(kept, name) : 0;
		return errno != ENOENT || (renameat(kept, name, kept, name + 5) && errno != ENOENT) ? -1 : 0;
	}
	if (first && !strncmp(name, ".gone-", 6))
		(void)td_stage_remove(kept, name);
	if (strncmp(name, ".new-", 5) != 0)
		return 0;
	if (k->parts == 1 || strncmp(name, ours, strlen(ours)) != 0)
		return first ? drop(kept, name) : 0;
	// Of this attempt, by this part: its program was started again, and the others go on.
	td_stage_withdraw(k, kept, name + strlen(ours));
	return 0;
}

int td_stage_tidy(struct stage_keeper *k)
{
	int kept = td_stage_open(k->kept);
	DIR *d = kept < 0 ? NULL : fdopendir(kept);
	if (!d)
		return -1;
	char ours[256], look[64];
	int r = td_stage_new_name(k, "", ours);
	// A client of NFS that makes something in a directory asks the server what else is in it.
	snprintf(look, sizeof(look), ".look-%d", k->part);
	if (!mkdirat(kept, look, 0700))
		unlinkat(kept, look, AT_REMOVEDIR);
	for (struct dirent *e; !r && (errno = 0, e = readdir(d));)
		r = e->d_name[0] == '.' ? tidy_one(k, kept, e->d_name, ours) : 0;
	int why = errno;
	closedir(d);
	errno = why;
	return r || why ? -1 : 0;
}

static int come_back(struct stage_keeper *k, int kept, int local, const char *name)
{
	int parts = 1, from = kept, r;
	struct stage_seen wrote, now;
	char what[32];
	snprintf(what, sizeof(what), "part-%d", k->part);
	int in_parts = td_stage_parts_read(kept, name, k->part, &parts, &wrote);
	if (in_parts < 0)
		return -1;
	if (in_parts && parts != k->parts && k->reshard != STAGE_REFUSE) {
		if (td_stage_merge(k, kept, local, name, parts) || td_stage_look(local, name, &now))
			return -1;
		entry(k, name)->copied = now.stamp;
		return 0;
	}
	if (in_parts && parts != k->parts) {
		td_stage_say("%s/%s was written by %d processes, and now there are %d: start as many, name another "
			     "directory (--to), or read it yourself (--no-restore)",
			     k->kept, name, parts, k->parts);
		errno = ERANGE;
		return -1;
	}
	if (in_parts && (from = openat(kept, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return -1;
	r = td_stage_copy(from, in_parts ? what : name, local, name);
	if (!r && (r = td_stage_look(local, name, &now)) == 0) {
		entry(k, name)->copied = now.stamp;
		if (in_parts && (now.files != wrote.files || now.bytes != wrote.bytes))
			r = -1, errno = EBADMSG;
	}
	int why = errno;
	if (in_parts)
		close(from);
	errno = why;
	return r;
}

int td_stage_restore(struct stage_keeper *k)
{
	struct stage_list l;
	int kept = td_stage_open(k->kept), local = kept < 0 ? -1 : td_stage_open(k->local), n = 0;
	if (local < 0 || td_stage_list(kept, &l)) {
		td_stage_say("%s: %s", kept >= 0 && local < 0 ? k->local : k->kept, strerror(errno));
		return -1;
	}
	if (l.unseen) {
		td_stage_say("%s: not all in it can be read: %s", k->kept, strerror(l.unseen));
		return -1;
	}
	const char *newest = NULL;
	for (int i = 0; i < l.n; i++) {
		struct stat st;
		if (come_back(k, kept, local, l.one[i].name)) {
			int why = errno;
			if (fstatat(kept, l.one[i].name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT) {
				td_stage_remove(local, l.one[i].name); // it was an old one, and is gone
				continue;
			}
			td_stage_say("%s/%s: %s", k->kept, l.one[i].name, strerror(why));
			return -1;
		}
		n++;
		newest = large(&l.one[i]) || !newest ? l.one[i].name : newest;
	}
	if (n)
		td_stage_say("%d of %s are back in %s, the newest is %s.", n, k->kept, k->local, newest);
	td_stage_list_done(&l);
	close(local);
	close(kept);
	return 0;
}

static int keep_whole(struct stage_keeper *k, int kept, int local, const struct stage_one *one)
{
	char new[256];
	struct stage_seen now;
	if (td_stage_new_name(k, one->name, new) || td_stage_remove(kept, new))
		return -1;
	int r = td_stage_copy(local, one->name, kept, new);
	if (!r && (td_stage_look(local, one->name, &now) || now.stamp != one->seen.stamp))
		r = -1, errno = EAGAIN;
	if (!r)
		return td_stage_replace(kept, new, one->name);
	int why = errno;
	td_stage_remove(kept, new);
	errno = why;
	return r;
}

// One that was given in this attempt: it may have changed, or become whole. False: it shall be given anew.
static bool given(struct stage_keeper *k, int kept, const struct stage_one *one, struct stage_entry *e)
{
	bool same = e->copied == one->seen.stamp;
	if (!e->whole && !same && td_stage_withdraw(k, kept, one->name)) {
		e->given = false;
		return false;
	}
	if (!e->whole)
		e->whole = td_stage_commit(k, kept, one->name, &e->lack) > 0;
	if (e->whole && !same && !e->said) {
		e->said = true;
		td_stage_say("%s changed after it was kept, which stays as it is: give each checkpoint a name of its "
			     "own, and rename it when it is whole.",
			     one->name);
	} else if (!e->whole && !e->said && now_s() > e->copied_s + LATE_S) {
		char lack[64];
		td_stage_missing(k, kept, one->name, lack);
		e->said = true;
		if (*lack)
			td_stage_say("%s is not whole: nothing of this name came from %s. Does only the first process "
				     "write it (--parts=one)?",
				     one->name, lack);
		else
			td_stage_say("%s is not whole, and all its parts are there: the process that makes it whole "
				     "takes long, or was killed.",
				     one->name);
	}
	return true;
}

// False: it shall be kept, and is not.
static bool keep(struct stage_keeper *k, int kept, int local, const struct stage_one *one)
{
	struct stage_entry *e = entry(k, one->name);
	bool in_parts = k->parts > 1 && large(one);
	int r = in_parts ? td_stage_part(k, kept, local, one) : keep_whole(k, kept, local, one);
	if (!r) {
		e->copied = one->seen.stamp;
		e->copied_s = now_s();
		e->given = in_parts;
		e->said = false;
		r = in_parts ? td_stage_commit(k, kept, one->name, &e->lack) : 0;
		e->whole = r > 0;
		return r >= 0;
	}
	if (errno == EAGAIN) // it goes on changing
		return true;
	e->again_s = now_s() + AGAIN_S;
	if (!e->said)
		td_stage_say("the checkpoint %s could not be kept: %s", one->name, strerror(errno));
	e->said = true;
	return false;
}

static void prune_one(int kept, const char *name)
{
	static bool said;
	if (drop(kept, name) && !said) {
		said = true;
		td_stage_say("old checkpoint %s could not be removed: %s", name, strerror(errno));
	}
}

struct stage_half { // one that waits for parts
	char name[256];
	int64_t when_s;
};

static int newer(const void *a, const void *b)
{
	const struct stage_half *x = a, *y = b;
	return x->when_s > y->when_s ? -1 : x->when_s < y->when_s;
}

// Those of this attempt that never become whole would fill the disk: what is older than one that became whole since, and
// what is more than anybody still copies. whole_s: when the newest became whole.
static void prune_halves(struct stage_keeper *k, int kept, int64_t whole_s)
{
	char ours[256];
	struct stage_half *v = NULL;
	struct stat st;
	int n = 0, fd = openat(kept, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 || td_stage_new_name(k, "", ours) ? NULL : fdopendir(fd);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strncmp(e->d_name, ours, strlen(ours)) != 0 || fstatat(kept, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		struct stage_half *more = realloc(v, (size_t)(n + 1) * sizeof(*v));
		if (!more)
			abort();
		v = more;
		v[n].when_s = st.st_mtim.tv_sec;
		snprintf(v[n++].name, sizeof(v->name), "%s", e->d_name);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	if (n)
		qsort(v, (size_t)n, sizeof(*v), newer);
	for (int i = 0; i < n; i++)
		if (i >= k->keep + HALVES || v[i].when_s < whole_s - LATE_S)
			prune_one(kept, v[i].name);
	free(v);
}

static void prune(struct stage_keeper *k, int kept)
{
	struct stage_list l;
	struct stat st;
	if (k->part || td_stage_list(kept, &l))
		return;
	int n = 0;
	int64_t whole_s = 0;
	for (int i = l.n - 1; i >= 0; i--) {
		if (!large(&l.one[i]))
			continue;
		if (++n > k->keep)
			prune_one(kept, l.one[i].name);
		else if (!fstatat(kept, l.one[i].name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtim.tv_sec > whole_s)
			whole_s = st.st_mtim.tv_sec;
	}
	if (k->parts > 1)
		prune_halves(k, kept, whole_s);
	td_stage_list_done(&l);
}

// What came back as links, and was changed or renamed since, is not kept anew: what they lead to stays.
static bool refused(struct stage_keeper *k, int local, const struct stage_one *one, struct stage_entry *e)
{
	if (!td_stage_is_links(k, local, one->name))
		return false;
	if (!e->said)
		td_stage_say(
			"%s is not kept as it is now: files in it are links to what is kept (--reshard=link). Write "
			"each checkpoint anew, under a name of its own.",
			one->name);
	return e->said = true;
}

struct stage_dirs {
	int kept, local;
	bool all;
};

// ret_waits: a checkpoint of several parts is not whole yet. False: this one shall be kept, and is not.
static bool look_at(struct stage_keeper *k, const struct stage_dirs *d, const struct stage_one *one, bool *ret_waits)
{
	struct stage_entry *e = entry(k, one->name);
	bool stays = d->all || e->seen == one->seen.stamp, small = k->parts > 1 && !large(one);
	e->seen = one->seen.stamp;
	if (e->given && given(k, d->kept, one, e)) {
		*ret_waits |= !e->whole;
		return true;
	}
	bool fine = true, has = e->copied == one->seen.stamp;
	if (!has && stays && (d->all || now_s() >= e->again_s) && !(small && (*ret_waits || k->part))) {
		if (refused(k, d->local, one, e))
			return true;
		fine = keep(k, d->kept, d->local, one);
	}
	*ret_waits |= k->parts > 1 && !small && !has && !e->whole;
	return fine;
}

bool td_stage_once(struct stage_keeper *k, bool all)
{
	struct stage_list l;
	int local = open(k->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC), kept = td_stage_open(k->kept);
	struct stage_dirs d = {kept, local, all};
	bool fine = kept >= 0;
	static bool said, said_kept;
	if (!fine && !said_kept)
		td_stage_say("%s: %s", k->kept, strerror(errno));
	said_kept |= !fine;
	if (local < 0 || td_stage_list(local, &l)) { // the program may make it anew
		if (!said)
			td_stage_say("there is no directory of checkpoints: %s: %s", k->local, strerror(errno));
		said = true;
		l = (struct stage_list){0};
	}
	// What names the newest one comes after it.
	bool waits = false;
	for (int i = 0; fine && i < l.n; i++)
		if (large(&l.one[i]))
			fine &= look_at(k, &d, &l.one[i], &waits);
	for (int i = 0; fine && i < l.n; i++)
		if (!large(&l.one[i]))
			fine &= look_at(k, &d, &l.one[i], &waits);
	td_stage_list_done(&l);
	if (kept >= 0) {
		prune(k, kept);
		close(kept);
	}
	if (local >= 0)
		close(local);
	return fine;
}
