#include "cli/host_data.h"

#include "api/dataset.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "base/proc.h"
#include "cli/host_daemon.h"
#include "pool/dataset.h"
#include "slurm/conf.h"
#include "slurm/groups.h"
#include "slurm/keys.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];
extern char **environ;

#define AT "/datasets"

// BOOT: letters of the boot's id in a mark. WRONG: as the program says that another try would fare no better.
enum { RUN_MS = 20000, ASK_MS = 60000, BOOT = 8, WRONG = 3 };

struct td_host_fetch {
	char *name, *print; // print "": it removes
	bool there, runs;   // there: a program was started, and what came of it is not used up
	int code;
	int64_t ended_ms;
	char *last;
};

static struct td_host_fetch *fetch_of(struct td_host_data *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->v[i].name, name))
			return &d->v[i];
	d->v = td_realloc(d->v, (d->n + 1) * sizeof(*d->v));
	d->v[d->n] = (struct td_host_fetch){.name = td_strdup(name)};
	return &d->v[d->n++];
}

// What is written for a program.
static void forget(const char *own)
{
	td_auto_free char *dir = td_asprintf("%s/data-keys", own), *groups = td_asprintf("%s/data-groups", own);
	td_rm_rf(dir, NULL);
	unlink(groups);
}

static void stop(struct td_host_data *d, const char *own)
{
	if (d->pid) {
		kill(-d->pid, SIGKILL);
		td_wait_code(d->pid);
	}
	d->pid = 0;
	for (size_t i = 0; i < d->n; i++)
		d->v[i].runs = false;
	forget(own);
}

void td_host_data_done(struct td_host_data *d, const char *dir)
{
	stop(d, dir);
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].name);
		free(d->v[i].print);
		free(d->v[i].last);
	}
	free(d->v);
	free(d->last);
	*d = (struct td_host_data){0};
}

// ---- what is on the disk ----

static char *mark_path(const char *place, const char *name)
{
	return td_asprintf("%s/.tandem/%s.mark", place, name);
}

// *ret_old: the machine has been started since.
static char *mark_read(const char *place, const char *name, const char *boot, bool *ret_old)
{
	td_auto_free char *path = mark_path(place, name);
	td_auto_buf struct td_buf b = {0};
	*ret_old = false;
	if (td_file_read(path, 256, &b, NULL))
		return NULL;
	const char *text = td_buf_str(&b), *dot = strchr(text, '.');
	*ret_old = !dot || strncmp(dot + 1, boot, BOOT) != 0;
	return td_strndup(text, strcspn(text, "."));
}

static int mark(const char *place, const char *name, const char *value, const char *boot, struct td_error *err)
{
	td_auto_free char *path = mark_path(place, name), *own = td_asprintf("%s/.tandem", place),
			  *text = td_asprintf("%s.%.*s", value ? value : "", BOOT, boot);
	if (!value)
		return unlink(path) && errno != ENOENT ? td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path) : 0;
	int r = td_mkdir_p(own, 0700, err);
	return r ? r : td_file_write(path, text, strlen(text), 0600, err);
}

static void marked(const char *place, struct td_strv *names)
{
	td_auto_free char *own = td_asprintf("%s/.tandem", place);
	DIR *dir = opendir(own);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		size_t n = strlen(e->d_name);
		if (n <= 5 || strcmp(e->d_name + n - 5, ".mark") != 0)
			continue;
		td_auto_free char *name = td_strndup(e->d_name, n - 5);
		if (td_slurm_is_name(name) && !td_strv_has(names, name))
			td_strv_add(names, name);
	}
	if (dir)
		closedir(dir);
}

// ---- slurmd's view of the machine, and Slurm's of it ----

static int beside_slurmd(const struct td_host_data_now *n, char *const *argv, struct td_buf *ret, struct td_error *err)
{
	enum { MOST = 24 };
	td_auto_free char *pid = td_asprintf("%d", (int)n->slurmd);
	char *all[MOST] = {"nsenter", "-t", pid, "-m", "-r"};
	for (size_t i = 5; *argv && i + 1 < MOST; i++)
		all[i] = *argv++;
	int status = 0, r = td_run(all, NULL, RUN_MS, n->cancel, &status, ret, err);
	return r ? r : status ? td_fail(err, TD_TRANSIENT, "%s: %.200s", all[5], td_buf_str(ret)) : 0;
}

// slurmd and its jobs see the copies at AT, read-only. False: not yet, or something of the site's own is there.
static bool mounted(struct td_host_data *d, const struct td_host_data_now *n, const char *place)
{
	td_auto_free char *its = td_asprintf("/proc/%d/root" AT, (int)n->slurmd),
			  *ns = td_asprintf("/proc/%d/ns/mnt", (int)n->slurmd);
	struct stat a, b;
	struct td_error err = TD_ERROR_INIT;
	td_auto_buf struct td_buf out = {0};
	if (stat(ns, &a) || stat("/proc/self/ns/mnt", &b) || (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
		return false;
	if (td_mkdir_p(place, 0755, &err) || stat(place, &b)) {
		td_host_complain(&d->last, err.msg);
		return false;
	}
	if (!stat(its, &a) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return true;
	DIR *dir = opendir(its);
	bool full = false;
	if (!dir && errno != ENOENT) {
		td_fail_errno(&err, TD_INTERNAL, errno,
			      AT " of this machine cannot be read, so no copies are kept here");
		td_host_complain(&d->last, err.msg);
		return false;
	}
	for (struct dirent *e; dir && (e = readdir(dir));)
		full |= strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (dir)
		closedir(dir);
	if (full) {
		td_host_complain(&d->last, AT " of this machine has data sets of the site's own, so no copies are kept "
					      "here: empty it, or name those in spec.slurm.features of the NodeSet");
		return false;
	}
	char *argv[] = {"sh",
			"-c",
			"mkdir -p " AT " && mount --bind \"$1\" " AT " && mount -o remount,bind,ro,nosuid,nodev " AT,
			"sh",
			(char *)(uintptr_t)place,
			NULL};
	if (beside_slurmd(n, argv, &out, &err))
		td_host_complain(&d->last, err.msg);
	return err.code == 0;
}

// False: it is longer than there is room for.
static bool value_of(const char *text, const char *key, char *ret, size_t n)
{
	const char *at = strstr(text, key);
	while (at && at != text && at[-1] != ' ')
		at = strstr(at + 1, key);
	at = at ? at + strlen(key) : "";
	size_t len = strcspn(at, " \n");
	if (len >= n)
		return false;
	snprintf(ret, n, "%.*s", (int)len, at);
	if (!strcmp(ret, "(null)"))
		*ret = '\0';
	return true;
}

bool td_host_record_read(const char *text, struct td_host_record *ret)
{
	char state[256], cpus[32];
	if (!td_starts(text, "NodeName=") ||
	    !value_of(text, "AvailableFeatures=", ret->features, sizeof(ret->features)) ||
	    !value_of(text, "ActiveFeatures=", ret->active, sizeof(ret->active)) ||
	    !value_of(text, "State=", state, sizeof(state)) || !value_of(text, "CPUAlloc=", cpus, sizeof(cpus)))
		return false;
	ret->idle = td_starts(state, "IDLE") && !strstr(state, "COMPLETING") && !strcmp(cpus, "0");
	return true;
}

static bool record(struct td_host_data *d, const struct td_host_data_now *n, struct td_host_record *ret)
{
	char *argv[] = {"scontrol", "-o", "show", "node", (char *)(uintptr_t)n->name, NULL};
	td_auto_buf struct td_buf out = {0};
	if (beside_slurmd(n, argv, &out, NULL))
		return false;
	if (td_host_record_read(td_buf_str(&out), ret))
		return true;
	td_host_complain(&d->last,
			 "what Slurm says of this machine is no record of a node, or has features of more than 4095 "
			 "letters: it is not told which data sets are here");
	return false;
}

static void tell(struct td_host_data *d, const struct td_host_data_now *n, const struct td_host_record *r,
		 const struct td_strv *held)
{
	td_auto_free char *can = td_dataset_features(r->features, held), *has = td_dataset_features(r->active, held);
	if (!can && !has)
		return;
	td_auto_free char *node = td_asprintf("nodename=%s", n->name),
			  *all = td_asprintf("availablefeatures=%s", can ? can : r->features),
			  *now = td_asprintf("activefeatures=%s", has ? has : r->active);
	char *argv[] = {"scontrol", "update", node, all, now, NULL};
	td_auto_buf struct td_buf out = {0};
	struct td_error err = TD_ERROR_INIT;
	if (beside_slurmd(n, argv, &out, &err))
		td_host_complain(&d->last, err.msg);
}

// ---- the program ----

char *td_host_data_refused(const yyjson_val *sc, const struct td_object *dataset)
{
	const char *path = td_jstr(dataset->root, "spec.source.directory.path");
	if (!td_slurm_is_name(dataset->name))
		return td_strdup("metadata.name: must be letters, digits, '-' and '.': it becomes a Slurm feature");
	if (td_jget(dataset->root, "spec.source.directory") && !td_dataset_shared(sc, path))
		return td_asprintf(
			"spec.source.directory.path: %.200s is in no file system of spec.storage of the "
			"SlurmCluster that all who compute have; a machine copies no other directory of its own",
			path ? path : "");
	return NULL;
}

// The keys of its server, as files that only root reads. *ret: their directory, NULL: it has none.
static int keys(const struct td_host_data_now *n, const struct td_object *dataset, char **ret, struct td_error *err)
{
	static const char *const names[] = {"accessKeyID", "secretAccessKey", "sessionToken"};
	const char *secret = td_jstr(dataset->root, "spec.source.s3.secret");
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto_free char *dir = td_asprintf("%s/data-keys", n->dir);
	*ret = NULL;
	int r = td_rm_rf(dir, err);
	if (r || !secret)
		return r;
	r = td_kube_get(n->k, &td_secrets, n->ns, secret, n->cancel, &o, err);
	if (r == TD_DENIED)
		return td_fail(err, r,
			       "this machine may not read Secret %s/%s: an administrator runs `tandem node admit %s "
			       "--nodeset %s/%s` once more, which gives the right to all machines of the NodeSet",
			       n->ns, secret, n->name, n->ns, n->set);
	if (!r)
		r = td_mkdir_p(dir, 0700, err);
	for (size_t i = 0; !r && i < TD_LEN(names); i++) {
		const char *text = td_jkey_str(td_jget(o->root, "data"), names[i]);
		td_auto_buf struct td_buf b = {0};
		td_auto_free char *path = td_asprintf("%s/%s", dir, names[i]);
		if (text && !(r = td_slurm_key_read(text, &b, err)))
			r = td_file_write(path, b.s, b.len, 0400, err);
		if (b.s)
			explicit_bzero(b.s, b.len);
	}
	if (r)
		return td_wrap(err, "Secret %s/%s", n->ns, secret);
	*ret = td_steal(dir);
	return 0;
}

// As in slurmd's pods: spec.groups, and each user's own.
static int write_groups(const struct td_host_data_now *n, const char *path, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv gids = {0}, problems = {0};
	yyjson_val *u;
	size_t i, k;
	td_slurm_groups(n->sc, &b, &gids, &problems);
	yyjson_arr_foreach (td_jget(n->sc, "spec.users"), i, k, u) {
		const char *name = td_jstr_or(u, "name", "");
		td_auto_free char *gid = td_asprintf("%lld", td_jint(u, "gid", td_jint(u, "uid", -1)));
		if (td_slurm_is_user(name) && !td_strv_has(&gids, gid))
			td_buf_printf(&b, "%s:x:%s:\n", name, gid);
	}
	return td_file_write(path, td_buf_str(&b), b.len, 0600, err);
}

// dataset NULL: name is removed.
static int begin(struct td_host_data *d, const struct td_host_data_now *n, struct td_host_fetch *f, const char *place,
		 const struct td_object *dataset, struct td_error *err)
{
	td_auto_free char *key_dir = NULL, *groups = td_asprintf("%s/data-groups", n->dir),
			  *print = dataset ? td_dataset_print(n->sc, dataset->root) : td_strdup("");
	td_auto_strv struct td_strv env = {0};
	int r = dataset ? keys(n, dataset, &key_dir, err) : 0;
	if (!r)
		r = write_groups(n, groups, err);
	if (r)
		return r;
	for (char **e = environ; *e; e++)
		if (!td_starts(*e, "TD_"))
			td_strv_add(&env, *e);
	td_strv_addf(&env, "TD_WHAT=%s", dataset ? "fetch" : "remove");
	td_strv_addf(&env, "TD_PROGRAM=%s\n%s", td_embedded(td_cli_files, "s3.py")->text,
		     td_embedded(td_cli_files, "dataset.py")->text);
	td_strv_addf(&env, "TD_DATA=%s", place);
	td_strv_addf(&env, "TD_NAME=%s", f->name);
	td_strv_addf(&env, "TD_PRINT=%s", print);
	td_strv_addf(&env, "TD_GROUPS=%s", groups);
	td_strv_addf(&env, "TD_LAST_WORDS=%s/.tandem/%s.said", place, f->name);
	if (key_dir)
		td_strv_addf(&env, "TD_S3_KEYS=%s", key_dir);
	if (dataset)
		td_dataset_variables(dataset->root, &env);
	char *argv[] = {"sh", "-c", (char *)(uintptr_t)td_embedded(td_cli_files, "host-data.sh")->text,
			"tandem-host-data", NULL};
	const int fds[] = {-1, -1, 2};
	if ((r = td_start(argv, env.v, fds, 3, POSIX_SPAWN_SETPGROUP, &d->pid, err)))
		return r;
	free(f->print);
	f->print = td_steal(print);
	f->there = f->runs = true;
	return 0;
}

// What it said at its end is logged once.
static void reap(struct td_host_data *d, const struct td_host_data_now *n, const char *place)
{
	int status;
	if (!d->pid || waitpid(d->pid, &status, WNOHANG) != d->pid)
		return;
	d->pid = 0;
	forget(n->dir);
	for (size_t i = 0; i < d->n; i++) {
		struct td_host_fetch *f = &d->v[i];
		if (!f->runs)
			continue;
		td_auto_free char *path = td_asprintf("%s/.tandem/%s.said", place, f->name);
		td_auto_buf struct td_buf said = {0};
		td_file_read(path, 4096, &said, NULL);
		unlink(path);
		f->runs = false;
		f->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		f->ended_ms = n->now_ms;
		if (f->code)
			td_warn("data set %s/%s: %s", n->ns, f->name,
				said.len ? td_buf_str(&said)
					 : "its program did not come to its end; it needs python3, and git for "
					   "sources of git");
		else
			td_info("data set %s/%s: %s", n->ns, f->name, td_buf_str(&said));
	}
}

// ---- one look ----

static const struct td_object *dataset_of(const struct td_host_data_now *n, const char *name)
{
	for (size_t i = 0; i < n->datasets->n; i++)
		if (!strcmp(n->datasets->v[i]->name, name) && !td_object_deleting(n->datasets->v[i]) &&
		    td_streq(td_jstr(n->datasets->v[i]->root, "spec.clusterName"), td_jstr(n->sc, "metadata.name")))
			return n->datasets->v[i];
	return NULL;
}

static enum td_data_pod pod_of(const struct td_host_fetch *f)
{
	return !f->there          ? TD_DATA_POD_NONE
	       : f->runs          ? TD_DATA_POD_RUNS
	       : !f->code         ? TD_DATA_POD_DONE
	       : f->code == WRONG ? TD_DATA_POD_WRONG
				  : TD_DATA_POD_FAILED;
}

static int act_on(struct td_host_data *d, const struct td_host_data_now *n, struct td_host_fetch *f, const char *place,
		  const char *boot, const struct td_host_record *rec, struct td_error *err)
{
	const struct td_object *o = dataset_of(n, f->name);
	bool wants = o && td_dataset_wants_host(o->root, n->name, n->set), old;
	td_auto_free char *has = mark_read(place, f->name, boot, &old), *want = NULL,
			  *feature = td_asprintf(TD_DATA_FEATURE "%s", f->name),
			  *why = wants ? td_host_data_refused(n->sc, o) : NULL;
	td_auto_strv struct td_strv features = {0};
	if (why) {
		td_fail(err, TD_INVALID, "Dataset %s/%s: %s", n->ns, f->name, why);
		return TD_INVALID;
	}
	want = wants ? td_dataset_print(n->sc, o->root) : NULL;
	td_strv_split(&features, rec ? rec->features : "", ',');
	const struct td_pool_data x = {.want = want,
				       .mark = has,
				       .pod = pod_of(f),
				       .pod_for = f->print ? f->print : "",
				       .ended_ms = n->now_ms - f->ended_ms,
				       .ready = true,
				       .free = rec && rec->idle && !td_strv_has(&features, feature),
				       .verify = has && old};
	int turns = d->pid ? 0 : 1;
	switch (td_pool_data_next(&x, &turns)) {
	case TD_DATA_NOTHING:
		return 0;
	case TD_DATA_MARK_FETCHING:
		return mark(place, f->name, TD_DATA_FETCHING, boot, err);
	case TD_DATA_MARK_HELD:
		td_info("this machine holds data set %s/%s", n->ns, f->name);
		return mark(place, f->name, want, boot, err);
	case TD_DATA_MARK_GONE:
		return mark(place, f->name, TD_DATA_GONE, boot, err);
	case TD_DATA_UNMARK:
		td_info("data set %s/%s is removed", n->ns, f->name);
		return mark(place, f->name, NULL, boot, err);
	case TD_DATA_START:
		return begin(d, n, f, place, o, err);
	case TD_DATA_REMOVE:
		return begin(d, n, f, place, NULL, err);
	case TD_DATA_END_POD:
		if (f->runs)
			stop(d, n->dir);
		f->there = false;
		return 0;
	}
	return 0;
}

void td_host_data_keep(struct td_host_data *d, const struct td_host_data_now *n)
{
	td_auto_free char *place = td_dataset_place(n->sc);
	td_auto_strv struct td_strv names = {0}, held = {0};
	td_auto_buf struct td_buf boot = {0};
	struct td_host_record rec;
	bool on = td_jget(n->sc, "spec.datasets"), asks = d->busy || n->now_ms - d->asked_ms >= ASK_MS;
	yyjson_val *v;
	size_t i, k;
	reap(d, n, place);
	marked(place, &names);
	for (i = 0; on && i < n->datasets->n; i++)
		if (dataset_of(n, n->datasets->v[i]->name) && !td_strv_has(&names, n->datasets->v[i]->name))
			td_strv_add(&names, n->datasets->v[i]->name);
	if (!names.n || !n->slurmd || (on && !mounted(d, n, place)) ||
	    td_file_read("/proc/sys/kernel/random/boot_id", 128, &boot, NULL))
		return;
	asks = asks && record(d, n, &rec);
	d->busy = false;
	for (i = 0; on && i < names.n; i++) {
		struct td_error err = TD_ERROR_INIT;
		struct td_host_fetch *f = fetch_of(d, names.v[i]);
		if (act_on(d, n, f, place, td_buf_str(&boot), asks ? &rec : NULL, &err))
			td_host_complain(&f->last, err.msg);
		bool old;
		td_auto_free char *has = mark_read(place, names.v[i], td_buf_str(&boot), &old);
		if (td_pool_data_held(has) && !old)
			td_strv_add(&held, names.v[i]);
		else
			d->busy = true;
	}
	// What an administrator has laid here himself.
	yyjson_arr_foreach (td_jget(n->nodeset, "spec.slurm.features"), i, k, v) {
		const char *name = yyjson_get_str(v);
		if (name && td_starts(name, TD_DATA_FEATURE) && !td_strv_has(&held, name + strlen(TD_DATA_FEATURE)))
			td_strv_add(&held, name + strlen(TD_DATA_FEATURE));
	}
	if (asks) {
		tell(d, n, &rec, &held);
		d->asked_ms = n->now_ms;
	}
	d->busy = d->busy || held.n != d->told;
	d->told = asks ? held.n : d->told;
}
