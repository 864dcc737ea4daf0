// Recipes: images that this program can build by itself, with mmdebstrap, from the mirror that the
// machine already uses.
//
// The content key is the sha256 of what decides the result: recipe, suite, packages, the date in
// EPOCH, the architecture and the version of mmdebstrap. SOURCE_DATE_EPOCH is fixed, so two builds
// from the same packages in the mirror are the same, file by file.
#include "base/clock.h"
#include "base/file.h"
#include "oci/image_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define EPOCH "1750000000"
#define KEYRING "/usr/share/keyrings/debian-archive-keyring.gpg"
enum { BUILD_MS = 30 * 60 * 1000 };

struct recipe {
	const char *name, *suite, *packages;
	// About how many lines mmdebstrap and dpkg print; for the progress.
	int lines;
	// The most that its making takes on the disk, with what is downloaded.
	int megabytes;
};

// What Slurm's pods need, and no more; python3-venv is for the environments of runs.
#define SLURM                                                                                                          \
	"slurmctld,slurmd,slurmrestd,slurmdbd,slurm-client,sackd,slurm-wlm-jwt-plugin,slurm-wlm-mysql-plugin,"         \
	"slurm-wlm-basic-plugins,mariadb-server-core,mariadb-client-core,openssh-server,iproute2,procps,"              \
	"ca-certificates,munge,sssd-ldap,libnss-sss,libpam-sss,libpam-slurm-adopt,sudo,skopeo,umoci,squashfs-tools,"   \
	"python3,python3-venv"

static const struct recipe recipes[] = {
	{"debian:13", "trixie", "procps,iproute2,ca-certificates", 420, 300},
	{"tandem/slurm:24.11", "trixie", SLURM, 1250, 900},
	// The same with what people work with.
	{"tandem/work:24.11", "trixie",
	 SLURM ",python3-pip,less,nano,vim-tiny,git,curl,rsync,openssh-client,gcc,libc6-dev,make,"
	       "openmpi-bin,libopenmpi-dev",
	 2300, 1700},
};

const char *const *td_image_recipes(void)
{
	static const char *names[TD_LEN(recipes) + 1];
	for (size_t i = 0; i < TD_LEN(recipes); i++)
		__atomic_store_n(&names[i], recipes[i].name, __ATOMIC_RELAXED);
	return names;
}

static int sha256(char *const argv[], const char *in, struct td_cancel *c, char **ret_hex, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	int status = 0, r = td_run(argv, in, BUILD_MS, c, &status, &out, err);
	if (r)
		return r;

	const char *s = td_buf_str(&out);
	if (status || strspn(s, "0123456789abcdef") != 64)
		return td_fail(err, TD_INTERNAL, "sha256sum: %s", s);
	*ret_hex = td_strndup(s, 64);
	return 0;
}

// ---- the machine's mirror ----

// Finds the first archive of Debian's main packages in apt's sources, in the one-line or the deb822
// format: an address that ends in /debian.
static bool mirror_in(const char *text, bool deb822, char **ret)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		const char *l = lines.v[i];
		while (*l == ' ' || *l == '\t')
			l++;
		if (*l == '#' || (deb822 ? strncasecmp(l, "URIs:", 5) : strncmp(l, "deb ", 4)))
			continue;

		td_auto_strv struct td_strv w = {0};
		td_strv_split(&w, deb822 ? l + 5 : l + 4, ' ');
		for (size_t k = 0; k < w.n; k++) {
			char *u = w.v[k];
			size_t n = strlen(u);
			while (n && (u[n - 1] == '/' || u[n - 1] == '\r'))
				u[--n] = '\0';
			if ((td_starts(u, "http://") || td_starts(u, "https://")) && td_ends(u, "/debian")) {
				*ret = td_strdup(u);
				return true;
			}
		}
	}
	return false;
}

char *td_img_mirror(const char *apt_dir)
{
	td_auto_strv struct td_strv files = {0};
	td_strv_addf(&files, "%s/sources.list", apt_dir);
	td_auto_free char *parts = td_asprintf("%s/sources.list.d", apt_dir);
	DIR *d = opendir(parts);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			td_strv_addf(&files, "%s/%s", parts, e->d_name);
	if (d)
		closedir(d);

	for (size_t i = 0; i < files.n; i++) {
		bool deb822 = td_ends(files.v[i], ".sources");
		td_auto_buf struct td_buf b = {0};
		char *m = NULL;
		if ((deb822 || td_ends(files.v[i], ".list")) && !td_file_read(files.v[i], 1 << 20, &b, NULL) &&
		    mirror_in(td_buf_str(&b), deb822, &m))
			return m;
	}
	return NULL;
}

// ---- mmdebstrap ----
struct progress {
	void (*f)(void *ctx, int percent, const char *what);
	void *ctx;
	int expected, seen, percent;
	struct td_buf line, tail;
};

static const char *phase(const char *l)
{
	static const struct {
		const char *mark, *words;
	} known[] = {{"apt-get update", "reading package lists"},
		     {"Get:", "downloading packages"},
		     {"downloading packages", "downloading packages"},
		     {"extracting archives", "unpacking"},
		     {"installing essential", "installing essential packages"},
		     {"installing remaining", "installing packages"},
		     {"Unpacking ", "unpacking"},
		     {"Setting up ", "setting up"},
		     {"cleaning", "cleaning up"}};
	for (size_t i = 0; i < TD_LEN(known); i++)
		if (strstr(l, known[i].mark))
			return known[i].words;
	return NULL;
}

static void on_output(struct progress *p, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] != '\n' && s[i] != '\r') {
			if (p->line.len < 4096)
				td_buf_putc(&p->line, s[i]);
			continue;
		}
		if (!p->line.len)
			continue;

		p->seen++;
		const char *words = phase(p->line.s);
		int percent = p->seen * 98 / p->expected;
		percent = percent > 98 ? 98 : percent;
		if (p->f && (words || percent > p->percent)) {
			p->percent = percent > p->percent ? percent : p->percent;
			p->f(p->ctx, p->percent, words ? words : "building");
		}
		// Keep the lines that tell why the build failed, if it fails.
		if (!strncmp(p->line.s, "E:", 2) || !strncmp(p->line.s, "W:", 2) || strstr(p->line.s, "rror")) {
			if (p->tail.len > 800)
				td_buf_reset(&p->tail);
			td_buf_printf(&p->tail, "%s%s", p->tail.len ? "; " : "", p->line.s);
		}

		td_buf_reset(&p->line);
	}
}

static int run_streamed(char *const argv[], char *const envp[], struct progress *p, struct td_cancel *c,
			int *ret_status, struct td_error *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	td_auto_close int out = fds[0];

	pid_t pid;
	const int to[] = {-1, fds[1], fds[1]};
	int r = td_start(argv, envp, to, 3, POSIX_SPAWN_SETPGROUP, &pid, err);
	close(fds[1]);
	if (r)
		return r;

	td_auto_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int64_t end = td_mono_ms(&td_clock_system) + BUILD_MS;
	for (bool open_ = true, alive = true; alive;) {
		int64_t left = end - td_mono_ms(&td_clock_system);
		if (td_cancelled(c) || left <= 0) {
			r = td_cancelled(c) ? td_fail(err, TD_CANCELLED, "%s: cancelled", argv[0])
					    : td_fail(err, TD_TRANSIENT, "%s: no end after 30 minutes", argv[0]);
			kill(-pid, SIGTERM); // it then unmounts what it mounted in the new root
			poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000);
			kill(-pid, SIGKILL);
			break;
		}

		struct pollfd f[3] = {{open_ ? out : -1, POLLIN, 0}, {pidfd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		poll(f, 3, (int)left);
		if (f[0].revents) {
			char buf[8192];
			ssize_t n = read(out, buf, sizeof(buf));
			if (n > 0)
				on_output(p, buf, (size_t)n);
			open_ = n > 0;
		} else if (f[1].revents) {
			// The pipe is empty then, and what a grandchild still writes is of no use.
			alive = false;
		}
	}

	*ret_status = td_wait_code(pid);
	return r;
}

static int tool_version(struct td_cancel *c, char **ret, struct td_error *err)
{
	char *version[] = {"mmdebstrap", "--version", NULL};
	td_auto_buf struct td_buf v = {0};
	int status = 0, r = td_run(version, NULL, 60000, c, &status, &v, err);
	if (r)
		return r == TD_NOT_FOUND ? td_fail(err, r, "mmdebstrap is not installed: apt-get install mmdebstrap")
					 : r;
	*ret = td_buf_take(&v);
	return 0;
}

static int recipe_key(const struct recipe *rc, const char *tool, struct td_cancel *c, char **ret, struct td_error *err)
{
	struct utsname u;
	uname(&u);
	td_auto_free char *text =
		td_asprintf("1\n%s\n%s\n%s\n%s\n%s\n%s", rc->name, rc->suite, rc->packages, EPOCH, u.machine, tool);
	char *argv[] = {"sha256sum", NULL};
	return sha256(argv, text, c, ret, err);
}

// *ret: the image in the store was built from this recipe, by whatever version of mmdebstrap. A
// newer mmdebstrap is then no reason to build again, and is not even asked for its version.
static int is_built(const struct recipe *rc, const struct td_image *old, struct td_cancel *c, bool *ret,
		    struct td_error *err)
{
	td_auto_free char *tool = *old->tool ? td_strdup(old->tool) : NULL, *key = NULL;
	int r = tool ? 0 : tool_version(c, &tool, err); // older images do not record it
	if (!r)
		r = recipe_key(rc, tool, c, &key, err);
	if (!r)
		*ret = td_streq(old->key, key);
	return r;
}

static int build(const struct recipe *rc, const char *rootfs, struct progress *p, struct td_cancel *c,
		 struct td_error *err)
{
	td_auto_free char *mirror = td_img_mirror("/etc/apt"), *include = td_asprintf("--include=%s", rc->packages);

	td_auto_strv struct td_strv a = {0}, env = {0};
	const char *const head[] = {"mmdebstrap", "--variant=apt", "--mode=root", "--format=directory", "--verbose",
				    include, "--aptopt=APT::Install-Recommends \"false\"",
				    "--aptopt=Acquire::Retries \"3\"", "--dpkgopt=path-exclude=/usr/share/doc/*",
				    "--dpkgopt=path-exclude=/usr/share/man/*",
				    "--dpkgopt=path-exclude=/usr/share/locale/*",
				    // Munge's key is random and unused: Slurm's own
				    // key is mounted. The name resolution is the pod's.
				    "--customize-hook=rm -f \"$1/etc/munge/munge.key\" \"$1\"/etc/ssh/ssh_host_*",
				    "--customize-hook=rm -f \"$1/etc/hostname\" \"$1/etc/resolv.conf\""};

	for (size_t i = 0; i < TD_LEN(head); i++)
		td_strv_add(&a, head[i]);
	// apt's own directory may lack the newest key on an older Debian, while the keyring package
	// has it.
	if (td_path_exists(KEYRING))
		td_strv_add(&a, "--keyring=" KEYRING);
	td_strv_add(&a, rc->suite);
	td_strv_add(&a, rootfs);
	if (mirror)
		td_strv_add(&a, mirror);

	for (char **e = environ; *e; e++)
		if (!td_starts(*e, "SOURCE_DATE_EPOCH=") && !td_starts(*e, "LC_") && !td_starts(*e, "LANG") &&
		    !td_starts(*e, "TMPDIR="))
			td_strv_add(&env, *e);
	td_strv_add(&env, "SOURCE_DATE_EPOCH=" EPOCH);
	td_strv_add(&env, "LC_ALL=C.UTF-8");

	int status = 0, r = run_streamed(a.v, env.v, p, c, &status, err);
	if (r)
		return r == TD_NOT_FOUND ? td_fail(err, r, "mmdebstrap is not installed: apt-get install mmdebstrap")
					 : r;
	if (status)
		return td_fail(err, TD_TRANSIENT, "mmdebstrap %s from %s exited with %d: %s", rc->suite,
			       mirror ? mirror : "its default mirror", status, td_buf_str(&p->tail));
	return 0;
}

int td_image_build(const char *dir, const char *ref, void (*progress)(void *ctx, int percent, const char *what),
		   void *ctx, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *name = NULL, *tag = NULL, *key = NULL, *tool = NULL;
	int r = td_img_name(ref, &name, &tag, err);
	if (r)
		return r;

	const struct recipe *rc = NULL;
	for (size_t i = 0; i < TD_LEN(recipes) && !rc; i++) {
		td_auto_free char *n = NULL, *t = NULL;
		if (!td_img_name(recipes[i].name, &n, &t, NULL) && !strcmp(n, name) && !strcmp(t, tag))
			rc = &recipes[i];
	}
	if (!rc)
		return td_fail(err, TD_NOT_FOUND,
			       "there is no recipe for image \"%s\"; `tandem image import` takes a tar of its root",
			       ref);

	// Two homes may share the store: the second one waits here and then finds what the first
	// one built.
	td_auto_close int lock = -1;
	if ((r = td_img_lock(dir, c, &lock, err)))
		return r;

	struct td_image old = {0};
	if (!td_img_read(dir, name, tag, &old, NULL)) {
		bool same = false;
		r = is_built(rc, &old, c, &same, err);
		td_image_done(&old);
		if (r)
			return td_wrap(err, "build image %s", ref);
		if (same) {
			if (progress)
				progress(ctx, 100, "already there");
			return 0;
		}
	}

	if ((r = tool_version(c, &tool, err)) || (r = recipe_key(rc, tool, c, &key, err)))
		return td_wrap(err, "build image %s", ref);

	td_img_sweep(dir);
	if ((r = td_file_room(dir, rc->megabytes, "it", "make room, or set TANDEM_IMAGES to a directory elsewhere",
			      err)))
		return td_wrap(err, "build image %s", ref);
	td_auto_free char *made = td_img_new_dir(dir), *rootfs = td_asprintf("%s/rootfs", made);
	if ((r = td_mkdir_p(made, 0755, err)))
		return r;

	struct progress p = {.f = progress, .ctx = ctx, .expected = rc->lines};
	if (progress)
		progress(ctx, 0, "starting");
	static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	static const char *const cmd[] = {"/bin/bash", NULL};
	if (!(r = build(rc, rootfs, &p, c, err)))
		r = td_img_commit(dir, made, name, tag, key,
				  &(struct img_meta){.env = env, .cmd = cmd, .user = "", .workdir = "/", .tool = tool},
				  err);

	td_buf_done(&p.line);
	td_buf_done(&p.tail);
	if (r) {
		td_rm_rf(made, NULL);
		return td_wrap(err, "build image %s", ref);
	}

	if (progress)
		progress(ctx, 100, "done");
	return 0;
}
