// tandem host: keeps this machine's slurmd as the NodeSet says (host.h).
//
// It ends slurmd only when it has read that the machine is no member and Slurm has no record of it, or has no
// right any more after it was taken out. Whatever it cannot read, slurmd goes on. Jobs outlive both.
#include "cli/host.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/proc.h"
#include "cli/host_daemon.h"
#include "cli/host_data.h"
#include "cli/host_login.h"
#include "cmd/roles.h"
#include "pool/nodeset.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];
extern char **environ;

#define PULL "/etc/tandem/pull-secret" // where tandem-container looks (TD_CT_SECRET of spank/layout.h)

enum { TICK_MS = 500, MOUNT_MS = 10000, SPARE_MB = 1024 };

struct host {
	struct td_host_who who;
	const char *conf, *dir, *slurmd, *standin;
	const char *before, *after; // programs: before slurmd starts, after the machine has left
	int64_t look_ms;
	struct td_kube *k;
	struct td_cancel *cancel;
	struct td_host_seen seen;
	struct td_pool_absence absence;
	struct td_host_daemon d; // slurmd
	struct td_host_data data;
	int64_t next_look;
	bool leaving, said_out;
	bool node;                          // it makes a Kubernetes Node
	char *last, *last_node, *last_lack; // the last complaints: each is logged once
};

// Written in place: slurmd has it mounted.
static int write_hosts(const struct host *h, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/hosts", h->dir);
	td_auto_buf struct td_buf want = {0}, have = {0};
	int r = td_file_read("/etc/hosts", 1 << 20, &want, NULL);
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "/etc/hosts cannot be read");
	td_buf_printf(&want, "\n# Where slurmctld is, by tandem host\n%s", h->seen.hosts);
	if (!td_file_read(path, 2 << 20, &have, NULL) && td_streq(td_buf_str(&have), td_buf_str(&want)))
		return 0;
	return td_host_write_in_place(path, td_buf_str(&want), want.len, err);
}

// Who replaces the machine's /etc/hosts, as most editors do, takes slurmd's off it, in its namespace too: the kernel
// drops a mount whose place is renamed away or over in another one.
static int mount_hosts(const struct host *h, struct td_error *err)
{
	td_auto_free char *its = td_asprintf("/proc/%d/root/etc/hosts", (int)h->d.pid),
			  *ns = td_asprintf("/proc/%d/ns/mnt", (int)h->d.pid), *ours = td_asprintf("%s/hosts", h->dir),
			  *pid = td_asprintf("%d", (int)h->d.pid);
	struct stat a, b;
	if (!h->d.pid || stat(ours, &b) || (!stat(its, &a) && a.st_dev == b.st_dev && a.st_ino == b.st_ino))
		return 0;
	// It has not come to a namespace of its own yet, and then it mounts the file itself.
	if (stat(ns, &a) || stat("/proc/self/ns/mnt", &b) || (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
		return 0;
	char *argv[] = {"nsenter", "-t", pid, "-m", "-r", "mount", "--bind", ours, "/etc/hosts", NULL};
	return td_run_ok(argv, MOUNT_MS, h->cancel, err);
}

// What tandem-container and its service read (spank/layout.h), also while jobs run.
static int write_containers(const struct host *h, struct td_error *err)
{
	static const char dir[] = "/etc/tandem/users", path[] = "/etc/tandem/users/containers.conf";
	td_auto_buf struct td_buf have = {0};
	bool there = !td_file_read(path, 1 << 20, &have, NULL);
	if (!h->seen.settled ||
	    (h->seen.containers ? there && td_streq(td_buf_str(&have), h->seen.containers) : !there))
		return 0;
	if (!h->seen.containers)
		return unlink(path) ? td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path) : 0;
	int r = td_mkdir_p(dir, 0755, err);
	return r ? r : td_file_write(path, h->seen.containers, strlen(h->seen.containers), 0644, err);
}

// Brings what slurmd reads to what was seen.
static int prepare(struct host *h, struct td_error *err)
{
	bool new = false;
	int r = td_host_keys_write(h->dir, &h->seen.key, &h->seen.jwks, &new, err);
	if (new && h->d.pid)
		kill(h->d.pid, SIGHUP); // it reads its keys anew
	if (!r)
		r = write_containers(h, err);
	if (!r && h->seen.settled)
		r = td_host_pull_write(h->dir, PULL, &h->seen.pull, err);
	return r ? r : write_hosts(h, err);
}

static int start(struct host *h, struct td_error *err)
{
	const char *program = td_embedded(td_cli_files, "host.sh")->text;
	const char *const vars[][2] = {{"TD_DIR", h->dir},
				       {"TD_NODE", h->who.name},
				       {"TD_CONF", h->seen.conf},
				       {"TD_SERVERS", h->seen.servers},
				       {"TD_SLURMD", h->slurmd},
				       {"TD_STANDIN", h->standin},
				       {"TD_KEEP", td_embedded(td_cli_files, "host-keep.sh")->text}};
	for (size_t i = 0; i < TD_LEN(vars); i++)
		setenv(vars[i][0], vars[i][1], 1);
	char *argv[] = {"sh", "-c", (char *)(uintptr_t)program, "tandem-host", NULL};
	const int fds[] = {-1, 1, 2};
	int r = td_start(argv, NULL, fds, 3, 0, &h->d.pid, err);
	if (!r)
		td_info("slurmd of node %s is started: %s", h->who.name, h->seen.conf);
	return r;
}

// Taken out, and Slurm knows it no more, or nobody tells it anything any more.
static bool is_out(const struct host *h, int r)
{
	return r ? h->leaving && (r == TD_DENIED || r == TD_NOT_FOUND) : h->seen.gone;
}

static void look(struct host *h, int64_t now)
{
	struct td_error err = TD_ERROR_INIT;
	int r = td_host_look(h->k, &h->who, h->cancel, &h->seen, &err);
	if (r == TD_CANCELLED)
		return;
	struct td_error node_err = TD_ERROR_INIT;
	if (!r && h->node && td_host_node_keep(h->k, &h->who, h->seen.member, h->cancel, &node_err))
		td_host_complain(&h->last_node, node_err.msg);
	if (is_out(h, r)) {
		if (!h->said_out)
			td_info("node %s is in spec.hosts of NodeSet %s/%s no more, or not yet: no slurmd runs here",
				h->who.name, h->who.ns, h->who.set);
		h->said_out = true;
		bool left = h->leaving || td_host_key_there(h->dir);
		td_host_data_done(&h->data, h->dir);
		td_host_daemon_stop(&h->d);
		h->d.not_before = 0; // none has run since
		h->leaving = left && td_host_hook(h->after, h->who.name, h->cancel, &err);
		if (td_cancelled(h->cancel))
			return; // the key says to the next one that the program has not run
		// Before the key, by which the next one knows that there is something to clear away.
		td_host_pull_write(h->dir, PULL, &(const struct td_buf){0}, NULL);
		td_host_keys_forget(h->dir);
		if (h->leaving)
			td_host_complain(&h->last, err.msg); // and once more at the next look
		return;
	}
	if (r) {
		td_host_complain(&h->last, err.msg);
		// Slurm may be well where Kubernetes is not: a slurmd that has ended is needed before its jobs are given up.
		if (!h->d.pid && h->d.not_before && now >= h->d.not_before && start(h, &err))
			td_host_complain(&h->last, err.msg);
		return;
	}
	// slurmd has run, for the one before this perhaps.
	bool served = h->d.pid || h->d.not_before || (h->seen.recorded && td_host_key_there(h->dir));
	h->leaving = !h->seen.member && served;
	if (!h->seen.member && !served)
		return;
	// Slurm still has jobs of one that leaves: slurmd is there until they have ended.
	if (h->leaving) {
		if (*h->seen.hosts && (write_hosts(h, &err) || mount_hosts(h, &err)))
			td_host_complain(&h->last, err.msg);
		if (!h->d.pid && now >= h->d.not_before && start(h, &err))
			td_host_complain(&h->last, err.msg);
		return;
	}
	h->said_out = false;
	if (!*h->seen.hosts) {
		td_host_complain(
			&h->last,
			"slurmctld's pod has no address yet, or this machine may not see it: give --controller");
		return;
	}
	if (h->seen.lacks)
		td_host_complain(&h->last_lack, h->seen.lacks);
	if (prepare(h, &err)) {
		td_host_complain(&h->last, err.msg);
		return;
	}
	if (mount_hosts(h, &err))
		td_host_complain(&h->last, err.msg);
	if (h->seen.has_datasets)
		td_host_data_keep(&h->data, &(struct td_host_data_now){.k = h->k,
								       .ns = h->who.ns,
								       .name = h->who.name,
								       .set = h->who.set,
								       .dir = h->dir,
								       .sc = h->seen.sc->root,
								       .nodeset = h->seen.nodeset->root,
								       .datasets = &h->seen.datasets,
								       .slurmd = h->d.pid,
								       .now_ms = now,
								       .cancel = h->cancel});
	if (!h->d.pid && !h->seen.expected && !h->seen.recorded)
		return; // the operator says when the configuration knows of it
	// What Slurm has forgotten registers with a new slurmd only (pool/nodeset.h).
	enum td_pool_sight sight = td_pool_sight_of(h->seen.fresh, h->d.pid, h->seen.recorded);
	if (sight == TD_SIGHT_PRESENT)
		h->d.back_ms = 0;
	if (td_pool_absence_look(&h->absence, sight, false, now) == 0) {
		td_warn("Slurm has no record of node %s: slurmd is started again", h->who.name);
		td_pool_absence_restarted(&h->absence);
		h->absence.since = now;
		td_host_daemon_stop(&h->d);
	}
	if (!h->d.pid && now >= h->d.not_before &&
	    (td_host_hook(h->before, h->who.name, h->cancel, &err) || start(h, &err)))
		td_host_complain(&h->last, err.msg);
}

static void run(struct host *h)
{
	while (!td_cancelled(h->cancel)) {
		int64_t now = td_mono_ms(&td_clock_system);
		if (td_host_daemon_reap(&h->d, "slurmd", now) && h->d.not_before < h->next_look)
			h->next_look = h->d.not_before;
		if (now >= h->next_look) {
			h->next_look = now + h->look_ms;
			look(h, now);
		}
		td_cancel_wait(h->cancel, TICK_MS);
	}
	td_info("slurmd is ended; jobs go on");
	td_host_data_done(&h->data, h->dir);
	td_host_daemon_stop(&h->d);
}

// What the machine has: all its CPUs, and its memory but for what the system needs.
static void size(struct td_host_who *w)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), cpus = sysconf(_SC_NPROCESSORS_ONLN);
	long long mb = pages > 0 ? (long long)pages * page >> 20 : 0;
	if (!w->cpus)
		w->cpus = cpus > 0 ? cpus : 1;
	if (!w->memory_mb)
		w->memory_mb = mb > 2 * SPARE_MB ? mb - SPARE_MB : mb / 2 > 0 ? mb / 2 : 1;
}

static char *beside(const char *name)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(self, '/');
	return td_asprintf("%.*s/%s", slash ? (int)(slash - self) : 1, slash ? self : ".", name);
}

int td_host_main(int argc, char **argv)
{
	struct host h = {.conf = "/etc/kubernetes/kubelet.conf",
			 .dir = "/run/tandem-host",
			 .slurmd = "slurmd",
			 .look_ms = 10000};
	const char *set = NULL, *cluster = NULL;
	bool unit = false;
	int cpus = 0, memory = 0, code;
	char host[64] = "";
	enum td_log_level level = TD_LOG_INFO;
	struct td_error err = TD_ERROR_INIT;
	const struct td_option options[] = {
		{.name = "nodeset",
		 .value = "NAMESPACE/NAME",
		 TD_OPT_TEXT(&set),
		 .help = "the NodeSet whose spec.hosts names this machine"},
		{.name = "login",
		 .value = "NAMESPACE/NAME",
		 TD_OPT_TEXT(&cluster),
		 .help = "instead: no node, but people's Slurm commands here reach this SlurmCluster"},
		{.name = "name",
		 .value = "NODE",
		 TD_OPT_TEXT(&h.who.name),
		 .help = "the node's name (default: the host's name)"},
		{.name = "kubeconfig",
		 .value = "FILE",
		 TD_OPT_TEXT(&h.conf),
		 .help = "who this machine is, as `tandem join` writes it (default /etc/kubernetes/kubelet.conf)"},
		{.name = "controller",
		 .value = "ADDR",
		 TD_OPT_TEXT(&h.who.controller),
		 .help = "slurmctld's address (default: that of its pod)"},
		{.name = "cpus", .value = "N", TD_OPT_INT(&cpus, 1, 65535), .help = "for jobs (default: all)"},
		{.name = "memory",
		 .value = "MIB",
		 TD_OPT_INT(&memory, 1, 1 << 30),
		 .help = "for jobs (default: all but 1024)"},
		{.name = "slurmd",
		 .value = "FILE",
		 TD_OPT_TEXT(&h.slurmd),
		 .help = "the program (default: slurmd of the PATH)"},
		{.name = "standin",
		 .value = "FILE",
		 TD_OPT_TEXT(&h.standin),
		 .help = "tandem-standin, Slurm's Prolog (default: beside this program)"},
		{.name = "before",
		 .value = "PROGRAM",
		 TD_OPT_TEXT(&h.before),
		 .help = "runs before slurmd starts, as to end another Slurm's slurmd; it gets the node's name"},
		{.name = "after",
		 .value = "PROGRAM",
		 TD_OPT_TEXT(&h.after),
		 .help = "runs when the machine has left, as to start that again"},
		{.name = "kubernetes-node",
		 TD_OPT_SWITCH(&h.node),
		 .help = "makes the machine a Kubernetes Node to which no pod comes: its health is\nkept as that of "
			 "other "
			 "nodes (with `tandem agent` beside this)"},
		{.name = "dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&h.dir),
		 .help = "for the key and other files, root's alone (default /run/tandem-host)"},
		{.name = "every",
		 .value = "TIME",
		 TD_OPT_DURATION(&h.look_ms),
		 .help = "how often the NodeSet is read (default 10s)"},
		{.name = "unit", TD_OPT_SWITCH(&unit), .help = "prints a unit for systemd and does nothing else"},
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command line = {
		.name = "host",
		.about = "Runs slurmd on this machine, as a process and not in a pod, and makes the machine a node of "
			 "the pool for as long as spec.hosts of the NodeSet names it; or, with --login, runs sackd on "
			 "a machine where people work, whose sbatch and squeue then are the pool's.\n"
			 "It stays in the foreground. Jobs outlive it and slurmd.",
		.options = options,
		.n = TD_LEN(options),
		.exits = TD_ROLE_EXITS};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (unit) {
		fputs(td_embedded(td_cli_files, "tandem-host.service")->text, stdout);
		return 0;
	}
	const char *whose = set ? set : cluster, *slash = whose ? strchr(whose, '/') : NULL;
	if (set && cluster)
		return td_command_wrong("host", "--nodeset and --login: a machine is a node or a login machine");
	if (!slash || slash == whose || !slash[1])
		return td_command_wrong("host", cluster ? "--login: give NAMESPACE/NAME of the SlurmCluster"
							: "--nodeset: give NAMESPACE/NAME of the NodeSet");
	if (h.look_ms < 100 || h.look_ms > 3600000)
		return td_command_wrong("host", "--every: give from 0.1s to 1h");
	gethostname(host, sizeof(host) - 1);
	for (char *s = host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	td_auto_free char *ns = td_strndup(whose, (size_t)(slash - whose)), *standin = beside("tandem-standin");
	h.who.ns = ns;
	h.who.set = slash + 1;
	h.who.name = h.who.name ? h.who.name : host;
	td_log_init("host", level);
	h.standin = h.standin ? h.standin : standin;
	if (cluster)
		return td_host_login_run(&(struct td_host_login){.ns = ns,
								 .cluster = h.who.set,
								 .name = h.who.name,
								 .conf = h.conf,
								 .dir = h.dir,
								 .standin = h.standin,
								 .controller = h.who.controller,
								 .before = h.before,
								 .after = h.after,
								 .look_ms = h.look_ms});
	h.who.cpus = cpus;
	h.who.memory_mb = memory;
	size(&h.who);

	h.cancel = td_cancel_new();
	td_cancel_on_signals(h.cancel);
	umask(022);
	int r = td_mkdir_p(h.dir, 0700, &err);
	if (!r)
		r = td_kube_new(h.conf, &h.k, &err);
	if (!r)
		run(&h);
	else
		td_err("%s", err.msg);
	td_host_seen_done(&h.seen);
	td_kube_free(h.k);
	td_cancel_unref(h.cancel);
	free(h.last);
	free(h.last_node);
	free(h.last_lack);
	return r ? 1 : 0;
}
