// tandem down: stops everything in order and leaves no process, mount, network namespace, cgroup or
// device behind.
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/term.h"
#include "cmd/roles.h"
#include "local/instance.h"
#include "local/progress.h"
#include "local/supervise.h"
#include "oci/oci.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool gone(pid_t pid, int64_t ms)
{
	td_auto_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {fd, POLLIN, 0};
	return fd < 0 || poll(&p, 1, (int)ms) > 0;
}

static void end_process(pid_t pid, const char *what, int64_t grace_ms)
{
	if (!pid)
		return;
	kill(pid, SIGTERM);
	if (!gone(pid, grace_ms)) {
		td_warn("%s (pid %d) did not stop: killed", what, (int)pid);
		kill(pid, SIGKILL);
		gone(pid, 5000);
	}
}

static void stop_roles(const struct td_instance *i)
{
	end_process(td_instance_supervisor(i), "supervise", 60000);
	struct td_local_role *roles;
	size_t n = td_roles(i, "tandem", &roles);
	// These roles were left over by a supervise that was killed.
	for (size_t k = n; k-- > 0;) {
		td_auto_free char *pf = td_local_role_pidfile(i, roles[k].name);
		end_process(td_pidfile_read(pf), roles[k].name, 10000);
	}
	td_roles_done(roles, n);
}

// Asks every container to end, so that slurmctld saves its state, and waits for them at most 8 s.
static int stop_containers(struct td_oci *oci, struct td_error *err)
{
	td_auto_strv struct td_strv ids = {0};
	int r = td_oci_list(oci, &ids, err);
	if (r)
		return r;
	for (size_t k = 0; k < ids.n; k++)
		td_oci_signal(oci, ids.v[k], SIGTERM, NULL);

	int64_t end = td_mono_ms(&td_clock_system) + 8000;
	for (size_t k = 0; k < ids.n; k++) {
		int fd;
		if (td_oci_pidfd(oci, ids.v[k], &fd, NULL))
			continue;
		int64_t left = end - td_mono_ms(&td_clock_system);
		struct pollfd p = {fd, POLLIN, 0};
		poll(&p, 1, left > 0 ? (int)left : 0);
		close(fd);
	}
	return 0;
}

// The kubelet mounts volumes (tmpfs, subPath) below the home. Unmounts whatever is still mounted
// there, the last mount first.
static int unmount_below(const char *dir, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int r = td_file_read("/proc/self/mounts", 16 << 20, &b, err);
	if (r)
		return r;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');

	size_t n = strlen(dir);
	for (size_t k = lines.n; k-- > 0;) {
		char *at = strchr(lines.v[k], ' ');
		char *end = at ? strchr(++at, ' ') : NULL;
		if (!end)
			continue;
		*end = '\0';

		if (strncmp(at, dir, n) == 0 && at[n] == '/' && umount2(at, MNT_DETACH) < 0 && errno != EINVAL &&
		    errno != ENOENT)
			return td_fail_errno(err, TD_INTERNAL, errno, "unmount %s", at);
	}
	return 0;
}

static int down(const struct td_instance *i, bool purge, struct td_progress *p, struct td_error *err)
{
	td_progress_step(p, "roles");
	stop_roles(i);
	td_progress_done(p, "roles stopped");

	td_progress_step(p, "pods and networks");
	td_auto_free char *state = td_asprintf("%s/runc", i->run), *pods = td_instance_path(i, "pods"),
			  *cgroup = td_asprintf("/tandem-%s", i->id);
	td_auto_free char *init = td_asprintf("%s/opt/tandem-standin", i->run), *self = td_self_path(),
			  *netns = td_asprintf("td%s-", i->id);
	td_auto_free char *sw = td_instance_switch(i);

	const struct td_oci_opts o = {
		.state_dir = state, .pods_dir = pods, .cgroup = cgroup, .init_path = init, .self_path = self};
	struct td_oci *oci = NULL;
	int r = td_oci_new(&o, &oci, err);
	if (r)
		return r;

	r = stop_containers(oci, err);
	if (!r)
		r = td_oci_purge(oci, netns, err);
	td_oci_free(oci);

	if (r || (r = unmount_below(i->home, err)) || (r = td_net_switch_delete(sw, err)) ||
	    (r = td_instance_keep_port(i, !purge, err)) || (r = td_rm_rf(i->run, err)))
		return r;

	rmdir("/run/tandem"); // succeeds when no other home is up
	td_progress_done(p, "pods and networks removed");

	if (purge) {
		td_progress_step(p, "state");
		if ((r = td_rm_rf(i->home, err)))
			return r;
		td_progress_done(p, "state and images in %s removed", i->home);
	}

	return 0;
}

static int agree(const struct td_instance *i, struct td_error *err)
{
	td_auto_free char *question = td_asprintf("The pool in %s runs. --purge ends its pods and jobs and deletes all "
						  "its objects, Slurm's state, the files "
						  "in its homes and its images.",
						  i->home);
	return td_term_agree(question, err);
}

int td_down_main(int argc, char **argv)
{
	bool purge = false, yes = false;
	int code;
	const struct td_option options[] = {
		{.name = "purge", .help = "remove the state and the images too", TD_OPT_SWITCH(&purge)},
		{.name = "yes",
		 .letter = 'y',
		 .help = "do not ask before --purge removes what runs",
		 TD_OPT_SWITCH(&yes)},
	};
	const struct td_command line = {
		.name = "down",
		.about = "Stops the roles, the pods and Slurm of $TANDEM_HOME (default /var/lib/tandem), and\n"
			 "removes their networks, mounts and cgroups. Objects and Slurm's state stay for the\n"
			 "next `tandem up`. Works after any crash.",
		.options = options,
		.n = TD_LEN(options),
		.exits = "0 down, 1 failed, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;

	if (geteuid() != 0) {
		fputs("tandem down: needs root. Type: sudo tandem down\n", stderr);
		return 1;
	}

	td_log_init("down", TD_LOG_WARN);
	td_auto_instance struct td_instance i = {0};
	struct td_progress p;
	struct td_error err = TD_ERROR_INIT;
	td_auto_close int lock = -1;

	int r = td_instance_locate(&i, &err);
	// Asked without the lock, which others need meanwhile.
	if (!r && purge && !yes && td_path_exists(i.run) && (r = agree(&i, &err))) {
		if (r == TD_INVALID)
			return td_command_wrong("down", "%s", err.msg);
		fprintf(stderr, "tandem down: %s\n", err.msg);
		return 1;
	}

	td_progress_init(&p);
	if (!r)
		r = td_instance_lock(&i, NULL, &lock, &err);
	// A missing home is no reason to leave running what runs.
	if (!r || r == TD_NOT_FOUND)
		r = td_instance_load(&i, &err);

	// Stop homes that are only half made, too.
	if (r == TD_NOT_FOUND) {
		r = td_instance_locate(&i, &err);
		i.memory = td_strdup("0");
		i.slurm = true;
		if (!r && !td_path_exists(i.run) && !(purge && td_path_exists(i.home))) {
			printf("nothing to stop in %s\n", i.home);
			return 0;
		}
	}

	if (r || down(&i, purge, &p, &err)) {
		fprintf(stderr, "tandem down: %s\nRun it again; what is already gone stays gone.\n", err.msg);
		return 1;
	}
	return 0;
}
