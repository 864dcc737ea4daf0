#include "oci/test/fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/rand.h"
#include "cmd/roles.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fx fx;

static char *self(void)
{
	char buf[4096];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);
	assert_true(n > 0);
	return td_strndup(buf, (size_t)n);
}

int fx_main(int argc, char **argv, int (*tests)(void))
{
	if (argc > 1 && !strcmp(argv[1], "sandbox"))
		return td_sandbox_main(argc - 1, argv + 1);
	if (getuid() != 0) {
		puts("skipped: needs root (namespaces, mounts, cgroups); ends when it runs as root");
		return 77;
	}
	if (access("/bin/busybox", X_OK) < 0) {
		puts("skipped: needs a static busybox as image; ends with apt-get install busybox-static");
		return 77;
	}
	return tests();
}

static void ok(char *const argv[])
{
	struct td_error e = TD_ERROR_INIT;
	if (td_run_ok(argv, 20000, NULL, &e))
		fail_msg("%s", e.msg);
}

int fx_setup(void **s)
{
	uint32_t x;
	td_random(&x, sizeof(x));
	snprintf(fx.id, sizeof(fx.id), "%06x", x & 0xffffff);
	snprintf(fx.dir, sizeof(fx.dir), "/tmp/td-oci-%s", fx.id);

	fx.image = td_asprintf("%s/image", fx.dir);
	fx.state = td_asprintf("%s/runc", fx.dir);
	fx.pods = td_asprintf("%s/pods", fx.dir);
	fx.cgroup = td_asprintf("/tandem-%s", fx.id);
	fx.init = td_strdup(getenv("TD_STANDIN"));
	assert_non_null(fx.init);

	static const char *const dirs[] = {"bin", "etc", "tmp", "root", "data"};
	for (size_t i = 0; i < TD_LEN(dirs); i++) {
		td_auto_free char *d = td_asprintf("%s/%s", fx.image, dirs[i]);
		assert_int_equal(td_mkdir_p(d, 0755, NULL), 0);
	}

	td_auto_free char *bin = td_asprintf("%s/bin", fx.image), *usr = td_asprintf("%s/usr", fx.image),
			  *box = td_asprintf("%s/busybox", bin);
	assert_int_equal(symlink(".", usr), 0);
	ok((char *[]){"cp", "/bin/busybox", box, NULL});
	// Hard links: one process makes them all, also on machines where a process costs a tenth of
	// a second.
	ok((char *[]){box, "--install", bin, NULL});

	td_auto_free char *me = self();
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_new(&(struct td_oci_opts){.state_dir = fx.state,
					     .pods_dir = fx.pods,
					     .cgroup = fx.cgroup,
					     .init_path = fx.init,
					     .self_path = me},
		       &fx.r, &e))
		fail_msg("%s", e.msg);
	return 0;
}

int fx_teardown(void **s)
{
	td_auto_free char *prefix = td_asprintf("td%s-", fx.id);
	td_auto_free char *sw = td_asprintf("td%s", fx.id);
	if (!fx.r)
		return 0; // setup failed and has said why

	td_oci_purge(fx.r, prefix, NULL);
	td_net_switch_delete(sw, NULL);
	fx.r = td_oci_free(fx.r);
	td_rm_rf(fx.dir, NULL);

	free(fx.image);
	free(fx.state);
	free(fx.pods);
	free(fx.cgroup);
	free(fx.init);
	return 0;
}

char *fx_id(const char *name)
{
	return td_asprintf("td%s-%s", fx.id, name);
}

struct td_oci_spec fx_spec(const char *name, const char *script)
{
	static struct td_arena *a;
	if (!a)
		a = td_arena_new();
	const char **args = td_arena_alloc(a, 4 * sizeof(*args));
	args[0] = "/bin/sh";
	args[1] = "-c";
	args[2] = td_arena_strdup(a, script);
	static const char *const env[] = {"HOME=/root", NULL};
	return (struct td_oci_spec){.id = td_arena_printf(a, "td%s-%s", fx.id, name),
				    .rootfs = fx.image,
				    .hostname = td_arena_strdup(a, name),
				    .args = args,
				    .env = env,
				    .no_new_privileges = true};
}

void fx_start(const struct td_oci_spec *s)
{
	struct td_error e = TD_ERROR_INIT;
	pid_t pid = 0;
	if (td_oci_start(fx.r, s, NULL, &pid, &e))
		fail_msg("%s", e.msg);
	assert_true(pid > 1);
}

struct td_oci_status fx_wait(const char *id)
{
	int fd = -1;
	struct td_oci_status st = {0};
	if (td_oci_pidfd(fx.r, id, &fd, NULL) == 0) {
		struct pollfd p = {fd, POLLIN, 0};
		assert_int_equal(poll(&p, 1, 120000), 1);
		close(fd);
	}
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_status(fx.r, id, &st, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(st.state, TD_OCI_STOPPED);
	return st;
}

char *fx_log(const char *id)
{
	td_auto_free char *p = td_asprintf("%s/%s/log", fx.pods, id);
	struct td_buf b = {0};
	assert_int_equal(td_file_read(p, 1 << 20, &b, NULL), 0);
	return td_buf_take(&b);
}

char *fx_run(const char *name, const char *script, struct td_oci_spec *s)
{
	struct td_oci_spec own = fx_spec(name, script);
	s = s ? s : &own;
	fx_start(s);
	fx_wait(s->id);
	char *log = fx_log(s->id);
	struct td_error e = TD_ERROR_INIT;
	if (td_oci_delete(fx.r, s->id, true, &e))
		fail_msg("%s", e.msg);
	return log;
}

char *fx_leftovers(void)
{
	td_auto_free char *sh = td_asprintf("{ grep -l %1$s /proc/[0-9]*/mountinfo; find /sys/fs/cgroup -maxdepth 2 "
					    "-name '*%1$s*'; ls /run/netns | grep %1$s; ls /sys/class/net | grep -e "
					    "'^tv%2$.4s' -e %1$s; ls -d %3$s %4$s %4$s.exec; } 2>/dev/null; true",
					    fx.id, fx.id, fx.pods, fx.state);
	struct td_buf out = {0};
	int status;
	assert_int_equal(td_run((char *[]){"/bin/sh", "-c", sh, NULL}, NULL, 20000, NULL, &status, &out, NULL), 0);
	return td_buf_take(&out);
}
