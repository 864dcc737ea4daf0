// tandem up: brings a home, or what a crash left of it, to idle Slurm nodes.

#include "local/up.h"
#include "api/quantity.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "kube/kube.h"
#include "kube/people.h"
#include "local/manifests.h"
#include "local/pki.h"
#include "local/progress.h"
#include "local/start.h"
#include "local/supervise.h"
#include "oci/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// What must be free for the state, the logs and the first pods. A database on a full disk is no use.
enum { HOME_MB = 128 };

// ---- steps ----

static const char *const image_names[] = {"debian:13", "tandem/slurm:24.11"};

static size_t images_wanted(const struct td_instance *i)
{
	return i->slurm ? TD_LEN(image_names) : 1;
}

// An image that was imported under the name of a recipe is somebody's choice, or came with a bundle
// to a machine without a network: it stays.
static bool imported(const struct td_instance *i, const char *name)
{
	struct td_image image = {0};
	if (td_image_resolve(i->images, name, &image, NULL))
		return false;
	bool yes = !*image.tool;
	td_image_done(&image);
	return yes;
}

static int check_tools(const struct td_instance *i, struct td_error *err)
{
	bool build = false;
	for (size_t k = 0; k < images_wanted(i); k++)
		build = build || !imported(i, image_names[k]);
	const char *const need[] = {"runc", build ? "mmdebstrap" : "runc"};
	td_auto_strv struct td_strv dirs = {0};
	td_strv_split(&dirs, getenv("PATH"), ':');
	for (size_t k = 0; k < TD_LEN(need); k++) {
		bool found = false;
		for (size_t j = 0; j < dirs.n && !found; j++) {
			td_auto_free char *p = td_asprintf("%s/%s", dirs.v[j], need[k]);
			found = access(p, X_OK) == 0;
		}
		if (!found)
			return td_fail(err, TD_NOT_FOUND,
				       "%s is not installed: run \"tools/setup\" (or apt-get install %s)", need[k],
				       need[k]);
	}
	return 0;
}

static void image_progress(void *ctx, int percent, const char *what)
{
	td_progress_bar(ctx, percent, what);
}

static int images(const struct td_instance *i, struct td_progress *p, struct td_cancel *c, struct td_error *err)
{
	for (size_t k = 0; k < images_wanted(i); k++) {
		td_progress_step(p, "image %s", image_names[k]);
		int r = imported(i, image_names[k])
				? 0
				: td_image_build(i->images, image_names[k], image_progress, p, c, err);
		if (r)
			return td_wrap(err, "image %s", image_names[k]);
		td_progress_done(p, "%s", "");
	}
	return 0;
}

// Copies a program that is installed beside our binary, or in ../lib/tandem, into the home's runtime
// directory. room: where it is in the build tree.
static int install_one(const struct td_instance *i, const char *name, const char *room, struct td_error *err)
{
	td_auto_free char *self = td_self_path(), *dest = td_asprintf("%s/opt/%s", i->run, name),
			  *opt = td_asprintf("%s/opt", i->run);
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	td_auto_strv struct td_strv places = {0};
	td_strv_addf(&places, "%s/%s", self, name);
	td_strv_addf(&places, "%s/../%s/%s", self, room, name);
	td_strv_addf(&places, "%s/../lib/tandem/%s", self, name);

	td_auto_buf struct td_buf b = {0};
	int r = TD_NOT_FOUND;
	for (size_t k = 0; k < places.n && r == TD_NOT_FOUND; k++)
		r = td_file_read(places.v[k], 64 << 20, &b, err);
	if (r)
		return td_wrap(err, "%s beside the tandem binary", name);

	// Who cannot read a program cannot trace it (standin/copy.c).
	mode_t mode = td_streq(name, "tandem-container") ? 0711 : 0755;
	struct stat st;
	td_auto_buf struct td_buf old = {0};
	if (td_file_read(dest, 64 << 20, &old, NULL) || old.len != b.len || memcmp(old.s, b.s, b.len) ||
	    stat(dest, &st) || (st.st_mode & 0777) != mode) {
		r = td_mkdir_p(opt, 0755, err);
		if (!r)
			r = td_file_write(dest, b.s, b.len, mode, err);
	}
	return r;
}

// What Slurm's pods find in /opt/tandem.
static int install_standin(const struct td_instance *i, struct td_error *err)
{
	static const char *const programs[][2] = {{"tandem-standin", "standin"}, {"tandem-container", "spank"},
						  {"tandem-spank.so", "spank"},  {"tandem-scratch.so", "spank"},
						  {"tandem-filter.so", "spank"}, {"tandem-login.so", "spank"}};
	int r = 0;
	for (size_t n = 0; n < TD_LEN(programs) && !r; n++)
		r = install_one(i, programs[n][0], programs[n][1], err);

	// Slurm's TaskProlog takes no arguments, and tandem-stage those of a user's program. The program recognises by these
	// names what to do (standin/wire.h).
	static const char *const links[] = {"task-prolog", "tandem-stage"};
	for (size_t n = 0; n < TD_LEN(links) && !r; n++) {
		td_auto_free char *link = td_asprintf("%s/opt/%s", i->run, links[n]);
		if (symlink("tandem-standin", link) && errno != EEXIST)
			r = td_fail_errno(err, TD_INTERNAL, errno, "link %s", link);
	}
	return r;
}

static int start_supervise(const struct td_instance *i, pid_t *ret_pid, struct td_error *err)
{
	td_auto_free char *self = td_self_path(), *log = td_instance_path(i, "log/supervise.log"),
			  *logs = td_instance_path(i, "log");
	int r = td_mkdir_p(logs, 0750, err);
	if (r)
		return r;
	char *argv[] = {self, (char *)(uintptr_t)"supervise", NULL};
	td_auto_free char *pf = td_local_role_pidfile(i, "supervise");
	r = td_spawn(argv, NULL, log, ret_pid, err);
	// supervise writes the file itself, too, but a `down` may come before that.
	return r ? r : td_pidfile_write(pf, *ret_pid, err);
}

// Makes the home if it does not exist, and locks it; *ret_lock holds the lock.
static int lock_home(const struct td_instance *i, struct td_cancel *c, int *ret_lock, struct td_error *err)
{
	int r;
	// Try again when a `down --purge` that held the lock has removed the home.
	do {
		bool made = !td_path_exists(i->home);
		if ((r = td_mkdir_p(i->home, 0755, err)))
			return r;
		// Pods write into `shared` what they like, so no other user of this machine may
		// enter the home.
		if (made && chmod(i->home, 0700) < 0 && errno != ENOENT)
			return td_fail_errno(err, TD_INTERNAL, errno, "chmod %s", i->home);
		r = td_instance_lock(i, c, ret_lock, err);
	} while (r == TD_NOT_FOUND);
	return r;
}

// The path by which a shell calls this program: its bare name where PATH leads to it.
static char *called(void)
{
	td_auto_free char *self = td_self_path();
	td_auto_strv struct td_strv dirs = {0};
	td_strv_split(&dirs, getenv("PATH"), ':');
	for (size_t k = 0; k < dirs.n; k++) {
		td_auto_free char *there = td_asprintf("%s/tandem", dirs.v[k]);
		if (access(there, X_OK) == 0) {
			td_auto_free char *real = realpath(there, NULL);
			return td_strdup(td_streq(real, self) ? "tandem" : self);
		}
	}
	return td_strdup(self);
}

// Lines to paste into a shell, one by one or all at once. Comments are no part of them: not every
// shell takes those from its terminal.
static void tour(const struct td_instance *i)
{
	td_auto_free char *self = called();
	bool sudo = getenv("SUDO_USER") && geteuid() == 0;
	printf("\nTry it%s:\n"
	       "  eval \"$(%s env)\"\n"
	       "  kubectl get nodes\n",
	       sudo ? " in a shell of root's (sudo -s)" : "", self);
	if (i->slurm)
		printf("  tandem shell -- sinfo\n"
		       "  tandem shell -- srun -N%d%s hostname\n",
		       i->nodes, i->gpus >= 2 ? " --gres=gpu:2" : "");
	printf("  kubectl run hello --image=debian:13%s -- sleep infinity\n",
	       i->slurm ? " \\\n    --overrides='{\"spec\":{\"schedulerName\":\"tandem\"}}'" : "");
	if (i->slurm)
		puts("  tandem why hello");
	puts("  tandem status\n\n`tandem down` stops it all.");
}

// The page's address; in a new home also a first password, which is shown this once.
static void page(const struct td_instance *i, struct td_kube *k, struct td_cancel *c)
{
	static const char user[] = "researcher";
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, "main"), *password = NULL;
	struct td_error err = TD_ERROR_INIT;
	printf("\nThe page: http://127.0.0.1:%d", i->metrics_port + 3);
	if (td_kube_get(k, &td_secrets, "slurm", name, c, NULL, &err) == TD_NOT_FOUND) {
		password = td_people_password_made();
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_people_new_password(user, password);
		if (td_people_write(k, "slurm", "main", d, c, &err))
			printf("\n  no password could be made (%s): `tandem user password %s`", err.msg, user);
		else
			printf(", user %s, password %s", user, password);
		explicit_bzero(password, strlen(password));
	} else {
		printf(", user %s\n  a new password: tandem user password %s", user, user);
	}
	printf("\nFrom a project's directory:\n  tandem login http://127.0.0.1:%d -u %s\n  tandem submit -- COMMAND\n",
	       i->metrics_port + 3, user);
}

static int merge_options(struct td_instance *i, const struct td_up_opts *o, bool fresh, bool running,
			 struct td_error *err)
{
	struct td_instance old = *i;
	if (fresh) {
		i->nodes = 4;
		i->cpus = 16;
		i->gpus = 8;
		i->memory = td_strdup("32Gi");
		i->slurm = true;
	}

	i->nodes = o->nodes >= 0 ? o->nodes : i->nodes;
	i->cpus = o->cpus >= 0 ? o->cpus : i->cpus;
	i->real_gpus = o->real || (i->real_gpus && o->gpus < 0);
	i->gpus = o->real ? (o->real + i->nodes - 1) / i->nodes : o->gpus >= 0 ? o->gpus : i->gpus;
	i->slurm = o->no_slurm ? false : i->slurm;

	bool memory = o->memory && !td_streq(o->memory, i->memory);
	if (running && (old.nodes != i->nodes || old.cpus != i->cpus || old.gpus != i->gpus ||
			old.real_gpus != i->real_gpus || old.slurm != i->slurm || memory))
		return td_fail(err, TD_CONFLICT,
			       "it is up with other sizes (%d nodes, %d CPUs, %s, %d GPUs): run `tandem down` first",
			       old.nodes, old.cpus, old.memory, old.gpus);

	if (memory) {
		free(i->memory);
		i->memory = td_strdup(o->memory);
	}
	return 0;
}

// One attempt of `up`. *ret_ran is the supervise that was already running, or 0.
static int once(struct td_instance *i, const struct td_up_opts *o, struct td_progress *p, pid_t *ret_ran,
		struct td_cancel *c, struct td_error *err)
{
	*ret_ran = 0;
	td_auto_close int lock = -1;
	int r = td_instance_locate(i, err);
	if (r || (r = check_tools(i, err)) || (r = lock_home(i, c, &lock, err)))
		return r;

	r = td_instance_load(i, err);
	bool fresh = r == TD_NOT_FOUND;
	if (r && !fresh)
		return r;

	pid_t by = *ret_ran = td_instance_supervisor(i);
	bool running = by != 0;
	if ((r = merge_options(i, o, fresh, running, err)))
		return r;

	int port = i->api_port;
	int64_t end = td_mono_ms(&td_clock_system) + o->wait_ms, since = running ? 0 : td_real_ms(&td_clock_system);
	if (!running) {
		if ((r = td_file_room(i->home, HOME_MB, "the pool's state",
				      "make room, or set TANDEM_HOME to a directory elsewhere", err)) ||
		    (r = images(i, p, c, err)))
			return r;
		end = td_mono_ms(&td_clock_system) + o->wait_ms;

		td_progress_step(p, "certificates and keys");
		if ((r = td_instance_choose(i, err)) || (r = td_instance_save(i, err)) || (r = td_local_pki(i, err)) ||
		    (r = install_standin(i, err)))
			return r;
		td_progress_done(p, "%s", "");

		td_progress_step(p, "control plane");
		if ((r = start_supervise(i, &by, err)))
			return r;
	}

	td_auto_free char *conf = td_instance_kubeconfig(i, "admin");
	td_auto(td_kube_free) struct td_kube *k = NULL;
	if ((r = td_kube_new(conf, &k, err)))
		return r;

	close(lock); // a `down` does not have to wait for the rest
	lock = -1;

	const struct td_local_start s = {
		.kube = k, .instance = i, .supervise = by, .since_ms = since, .end_ms = end, .cancel = c};
	if ((r = td_local_start_api(&s, err)))
		return r;

	if (i->slurm &&
	    ((r = td_manifests_apply(k, c, err)) || (!running && (r = td_local_start_forget_slurm(&s, err)))))
		return td_local_start_failed(&s, r, err);

	if (!running && port && port != i->api_port)
		td_progress_done(p, "control plane at %s: port %d is in use", td_kube_server(k), port);
	else if (!running)
		td_progress_done(p, "control plane at %s", td_kube_server(k));

	td_progress_step(p, "%d nodes", i->nodes);
	if ((r = td_local_start_nodes(&s, err)))
		return r;

	if (!running)
		td_progress_done(p, "%d nodes: %d CPUs, %s, %d %sGPUs each", i->nodes, i->cpus, i->memory, i->gpus,
				 i->real_gpus ? "real " : "");

	if (i->slurm) {
		td_progress_step(p, "Slurm");
		if ((r = td_local_start_slurm(&s, err)))
			return r;
		if (!running)
			td_progress_done(p, "Slurm: %d nodes", i->nodes);
	}

	if (running)
		printf("%salready up: %d nodes, API at %s\n", p->tty ? "\r\033[K" : "", i->nodes, td_kube_server(k));
	else
		printf("%7.2f s  up\n", td_progress_total_s(p));
	tour(i);
	if (i->slurm)
		page(i, k, c);
	return 0;
}

static int up(struct td_instance *i, const struct td_up_opts *o, struct td_progress *p, struct td_cancel *c,
	      struct td_error *err)
{
	pid_t ran;
	int r = once(i, o, p, &ran, c, err);
	if (!r || r == TD_CANCELLED || !ran || td_instance_supervisor(i) == ran)
		return r;
	// The supervise that ran was about to end (killed a moment ago, or by a `down`). Start
	// again, as an `up` after that.
	td_instance_done(i);
	*i = (struct td_instance){0};
	return once(i, o, p, &ran, c, err);
}

int td_up_print_objects(void)
{
	size_t n;
	const char *text = td_manifests_text(&n);
	return fwrite(text, 1, n, stdout) == n ? 0 : 1;
}

int td_up(const struct td_up_opts *o)
{
	if (geteuid() != 0) {
		fputs("tandem up: needs root (containers, networks, cgroups). Type: sudo tandem up\n", stderr);
		return 1;
	}

	td_log_init("up", TD_LOG_WARN);
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	td_cancel_on_signals(c);
	td_auto_instance struct td_instance i = {0};
	struct td_progress p;
	td_progress_init(&p);
	struct td_error err = TD_ERROR_INIT;

	int r = up(&i, o, &p, c, &err);
	if (r) {
		if (p.what[0])
			td_progress_fail(&p);
		fprintf(stderr, "tandem up: %s\n", err.msg);
		if (r != TD_CONFLICT && i.home && td_instance_supervisor(&i))
			fprintf(stderr,
				"What did start goes on; logs are in %s/log. `tandem status` shows it, `tandem down` "
				"stops it.\n",
				i.home);
		return 1;
	}
	return 0;
}
