// tandem ssh: OpenSSH into a session's pod, through the gateway. tandem ssh-config: the same for everything
// that uses OpenSSH: editors, sftp, rsync. tandem ssh-proxy is what OpenSSH runs in place of a connection.
//
// What this needs lies in ~/.config/tandem/ssh: a key (id), which is made here and never leaves this machine;
// the host keys, as the gateway said them (known_hosts); and what OpenSSH reads (config).
#include "base/file.h"
#include "base/proc.h"
#include "cli/client.h"
#include "cmd/roles.h"
#include "http/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".tandem"
enum { STEP = 32 * 1024, FILE_MAX = 1 << 20, HOSTS = 200, KEYGEN_MS = 30000 };

// ---- the directory ----

static char *place(const char *name)
{
	td_auto_free char *login = td_client_place();
	*strrchr(login, '/') = '\0';
	return td_asprintf("%s/ssh%s%s", login, *name ? "/" : "", name);
}

// Locks the directory, which it makes. *ret_fd: closing it unlocks.
static int lock(int *ret_fd, struct td_error *err)
{
	td_auto_free char *dir = place("");
	int r = td_mkdir_p(dir, 0700, err);
	if (r)
		return r;
	td_auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", dir);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}

static int read_line(const char *path, struct td_buf *ret, struct td_error *err)
{
	int r = td_file_read(path, FILE_MAX, ret, err);
	if (!r) {
		ret->len = strcspn(td_buf_str(ret), "\r\n");
		ret->s[ret->len] = '\0';
	}
	return r;
}

// The public key; the pair is made if there is none.
static int own_key(struct td_buf *ret, struct td_error *err)
{
	td_auto_free char *key = place("id"), *pub = place("id.pub");
	td_auto_close int fd = -1;
	int r = lock(&fd, err);
	if (!r && !(td_path_exists(key) && td_path_exists(pub))) {
		unlink(key); // a half of a pair: its maker was ended between the two
		unlink(pub);
		char *argv[] = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tandem", "-f", key, NULL};
		r = td_run_ok(argv, KEYGEN_MS, NULL, err);
	}
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "there is no ssh-keygen here: install OpenSSH's client");
	return r ? r : read_line(pub, ret, err);
}

// Keeps a session's host key instead of what was known of it. What the file holds of others stays; the oldest go.
static int know(const char *host, const char *key, struct td_error *err)
{
	td_auto_free char *path = place("known_hosts"), *line = td_asprintf("%s %s", host, key);
	td_auto_buf struct td_buf was = {0}, b = {0};
	td_auto_strv struct td_strv lines = {0};
	td_auto_close int fd = -1;
	struct td_error none = TD_ERROR_INIT;
	int r = lock(&fd, err);
	if (r)
		return r;
	if (!td_file_read(path, FILE_MAX, &was, &none))
		td_strv_split(&lines, td_buf_str(&was), '\n');
	size_t len = strlen(host), n = 0;
	for (size_t i = 0; i < lines.n; i++) {
		if (!strcmp(lines.v[i], line))
			return 0;
		n += *lines.v[i] != '\0';
	}
	for (size_t i = 0; i < lines.n; i++) {
		if (!*lines.v[i] || n-- >= HOSTS || (!strncmp(lines.v[i], host, len) && lines.v[i][len] == ' '))
			continue;
		td_buf_printf(&b, "%s\n", lines.v[i]);
	}
	td_buf_printf(&b, "%s\n", line);
	return td_file_write(path, td_buf_str(&b), b.len, 0600, err);
}

// ---- what OpenSSH reads ----

// A word for OpenSSH: quoted, and without its own use of "%".
static void put_word(struct td_buf *b, const char *s, char quote)
{
	td_buf_putc(b, quote);
	for (; *s; s++)
		if (*s == quote)
			td_buf_puts(b, quote == '"' ? "\\\"" : "'\\''");
		else
			td_buf_printf(b, *s == '%' ? "%%%c" : "%c", *s);
	td_buf_putc(b, quote);
}

// Is it a name that may stand there as it is? What a gateway says becomes no other line of these settings.
static bool is_plain(const char *s)
{
	return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")];
}

static int write_config(struct td_client *c, struct td_buf *b, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *me = NULL, *all = NULL;
	td_auto_free char *id = place("id"), *known = place("known_hosts");
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	int r = td_client_call(c, "GET", "/api/v1/whoami", NULL, &me, err);
	if (!r)
		r = td_client_call(c, "GET", "/api/v1/sessions", NULL, &all, err);
	if (r)
		return r;
	const char *user = td_jstr_or(td_json_root(me), "user", "");
	if (!is_plain(user))
		return td_fail(err, TD_INVALID, "the gateway calls you \"%.40s\": OpenSSH takes no such user", user);
	td_buf_puts(b, "# Sessions of Tandem's, by `tandem ssh-config`.\n");
	size_t i, n, some = 0;
	yyjson_val *s;
	yyjson_arr_foreach (td_jget(td_json_root(all), "sessions"), i, n, s) // editors list what stands here by name
		if (is_plain(td_jstr_or(s, "id", "")))
			td_buf_printf(b, "%s%s" SUFFIX, some++ ? " " : "Host ", td_jstr(s, "id"));
	// A host may come from somebody else (git: the address of a submodule), and a shell reads the command: there
	// it stands in '', and one that has a ' itself is no host of ours.
	td_buf_printf(b, "%sHost *" SUFFIX " \"!*'*\"\n  User %s\n  ProxyCommand ", some ? "\n" : "", user);
	put_word(b, *self ? self : "tandem", '\'');
	td_buf_puts(b, " ssh-proxy '%n'\n  IdentityFile ");
	put_word(b, id, '"');
	td_buf_puts(b, "\n  IdentitiesOnly yes\n  UserKnownHostsFile ");
	put_word(b, known, '"');
	td_buf_puts(b, "\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  UpdateHostKeys no\n"
		       "  PasswordAuthentication no\n  KbdInteractiveAuthentication no\n");
	return 0;
}

// Makes all that OpenSSH needs. *ret_path: the file of its settings.
static int prepare(struct td_client *c, char **ret_path, struct td_error *err)
{
	td_auto_buf struct td_buf key = {0}, text = {0}, was = {0};
	td_auto_free char *path = place("config");
	td_auto_close int fd = -1;
	struct td_error none = TD_ERROR_INIT;
	int r = own_key(&key, err);
	if (!r)
		r = write_config(c, &text, err);
	if (!r)
		r = lock(&fd, err);
	if (!r && (td_file_read(path, FILE_MAX, &was, &none) || strcmp(td_buf_str(&was), td_buf_str(&text)) != 0))
		r = td_file_write(path, td_buf_str(&text), text.len, 0600, err);
	if (!r)
		*ret_path = td_steal(path);
	return r;
}

// Puts "Include" at the head of ~/.ssh/config, once: what stands below a Host would count for that one only.
static int include(const char *config, struct td_error *err)
{
	const char *home = getenv("HOME");
	if (!home || *home != '/')
		return td_fail(err, TD_INVALID, "HOME is not set: nobody knows where ~/.ssh/config is");
	td_auto_free char *dir = td_asprintf("%s/.ssh", home), *path = td_asprintf("%s/config", dir),
			  *real = realpath(path, NULL);
	td_auto_buf struct td_buf was = {0}, b = {0};
	struct stat st = {.st_mode = 0600};
	td_buf_puts(&b, "Include ");
	put_word(&b, config, '"');
	td_buf_puts(&b, "\n");
	int r = td_mkdir_p(dir, 0700, err);
	if (!r && real && stat(real, &st) == 0 && (r = td_file_read(real, FILE_MAX, &was, err)))
		return r;
	if (r || td_starts(td_buf_str(&was), td_buf_str(&b)))
		return r;
	td_auto_free char *within = td_asprintf("\n%s", td_buf_str(&b));
	if (strstr(td_buf_str(&was), within))
		return 0; // where its owner wants it
	td_buf_puts(&b, "\n");
	td_buf_add(&b, td_buf_str(&was), was.len);
	return td_file_write(real ? real : path, td_buf_str(&b), b.len, st.st_mode & 0777, err);
}

int td_ssh_config_main(int argc, char **argv)
{
	bool put = false;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "write",
		 TD_OPT_SWITCH(&put),
		 .help = "makes ~/.ssh/config include it, instead of printing it"},
	};
	const struct td_command line = {
		.name = "ssh-config",
		.about = "Lets OpenSSH, and what uses it, reach your sessions by name: SESSION.tandem.\n"
			 "  tandem ssh-config --write\n"
			 "  ssh shell-x2x7kb.tandem\n"
			 "  rsync -a data/ shell-x2x7kb.tandem:data/\n"
			 "Editors that work over ssh, such as VS Code with Remote-SSH, then list your sessions among "
			 "their "
			 "hosts; run it again to show them new ones. A connection goes through the gateway with your "
			 "login, "
			 "so nothing else of the cluster has to be reachable. The key and the host keys lie in "
			 "~/.config/tandem/ssh.",
		.options = options,
		.n = TD_LEN(options)};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_auto_client struct td_client c = {0};
	td_auto_free char *path = NULL;
	td_auto_buf struct td_buf text = {0};
	int r = td_client_open(&c, &err);
	if (!r)
		r = prepare(&c, &path, &err);
	if (!r && put && !(r = include(path, &err)))
		printf("~/.ssh/config includes %s: your sessions are SESSION" SUFFIX ".\n", path);
	else if (!r && !put && !(r = td_file_read(path, FILE_MAX, &text, &err)))
		fputs(td_buf_str(&text), stdout);
	return r ? td_client_failed("ssh-config", &err) : 0;
}

// Of SESSION and of SESSION.tandem. The caller frees it.
static char *id_of(const char *word)
{
	return td_strndup(word, strlen(word) - (td_ends(word, SUFFIX) ? strlen(SUFFIX) : 0));
}

// Who names a run is told what leads into that.
static void hint_run(struct td_client *c, const char *word, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *run = NULL;
	if (!td_client_call(c, "GET", "/api/v1/runs", NULL, &j, NULL) &&
	    !td_client_run_pick(td_jget(td_json_root(j), "runs"), word, false, &run, NULL))
		td_fail(err, TD_NOT_FOUND,
			"%s is a run, and this leads into sessions. Into the job of a run that goes on, from a login "
			"pod: ssh NODE, or srun --jobid=JOB --overlap --pty bash; `tandem ps` says which",
			run);
}

int td_ssh_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	int code;
	char **words;
	const struct td_command line = {
		.name = "ssh",
		.usage = "SESSION [-- COMMAND [ARG…]]",
		.about = "A shell in the pod of one of your sessions, with its GPUs and limits, or a command there, by "
			 "OpenSSH through the gateway:\n"
			 "  tandem ssh jupyter-8w2m1c\n"
			 "  tandem ssh jupyter-8w2m1c -- nvidia-smi\n"
			 "For more of OpenSSH (files, ports, editors): `tandem ssh-config`.",
		.min_args = 1,
		.max_args = 1000,
		.args = "SESSION",
		.rest = true,
		.exits = "the command's own; 255 when there is no connection, 1 when it cannot be tried, 2 wrong "
			 "usage."};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_client struct td_client c = {0};
	td_auto_free char *path = NULL;
	// OpenSSH would say it in its own words, and more than once.
	td_auto_free char *id = id_of(words[0]), *host = td_asprintf("%s" SUFFIX, id);
	td_auto_buf struct td_buf url = {0};
	td_buf_puts(&url, "/api/v1/sessions/");
	td_url_escape(&url, id);
	int r = td_client_open(&c, &err);
	if (!r)
		r = td_client_call(&c, "GET", td_buf_str(&url), NULL, NULL, &err);
	if (r == TD_NOT_FOUND)
		hint_run(&c, id, &err);
	if (!r)
		r = prepare(&c, &path, &err);
	if (r)
		return td_client_failed("ssh", &err);
	td_auto_strv struct td_strv a = {0};
	const char *const first[] = {"ssh", "-F", path, "--", host};
	for (size_t i = 0; i < TD_LEN(first); i++)
		td_strv_add(&a, first[i]);
	for (char **w = words + 1; *w; w++)
		if (w != words + 1 || strcmp(*w, "--") != 0)
			td_strv_add(&a, *w);
	execvp(a.v[0], a.v);
	td_fail_errno(&err, TD_NOT_FOUND, errno, "ssh: install OpenSSH's client");
	return td_client_failed("ssh", &err);
}

// ---- the connection ----

struct proxy {
	struct td_ws_far *far;
	struct td_cancel *over;
};

static void *from_ssh(void *arg)
{
	struct proxy *p = arg;
	td_auto_free char *buf = td_malloc(STEP);
	ssize_t n;
	while (((n = read(STDIN_FILENO, buf, STEP)) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0 && td_ws_far_send(p->far, buf, (size_t)n, NULL, NULL))
			break;
	td_cancel_fire(p->over);
	return NULL;
}

// Until one end is done. The gateway's first word is the host key: OpenSSH reads the file after its first bytes.
static int carry(struct proxy *p, const char *host, struct td_error *err)
{
	td_auto_buf struct td_buf m = {0};
	bool binary, begun = false;
	pthread_t t;
	int r;
	while (!(r = td_ws_far_recv(p->far, p->over, &m, &binary, err))) {
		if (!binary && td_starts(td_buf_str(&m), "error: "))
			return td_fail(err, TD_INVALID, "%s", td_buf_str(&m) + strlen("error: "));
		if (!binary && !begun) {
			if (strcspn(td_buf_str(&m), "\r\n") != m.len)
				return td_fail(err, TD_INVALID, "the gateway said no host key");
			if ((r = know(host, td_buf_str(&m), err)))
				return r;
			begun = true;
			if (pthread_create(&t, NULL, from_ssh, p))
				return td_fail(err, TD_INTERNAL, "no thread");
			pthread_detach(t);
		} else if (binary && (r = td_write_all(STDOUT_FILENO, td_buf_str(&m), m.len, err))) {
			return 0; // ssh has ended
		}
		td_buf_reset(&m);
	}
	return begun ? 0 : r;
}

int td_ssh_proxy_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	int code;
	char **words;
	const struct td_command line = {.name = "ssh-proxy",
					.about = "A connection to a session for OpenSSH (ProxyCommand), on standard "
						 "input and output.",
					.min_args = 1,
					.max_args = 1,
					.args = "SESSION" SUFFIX};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_free char *id = id_of(words[0]), *host = td_asprintf("%s" SUFFIX, id);
	td_auto_buf struct td_buf path = {0}, key = {0};
	td_auto_client struct td_client c = {0};
	static struct proxy p; // its reader may stand in read() until the process ends: what that uses is never let go
	p.over = td_cancel_new();
	int r = td_client_open(&c, &err);
	if (!r)
		r = own_key(&key, &err);
	td_buf_puts(&path, "/api/v1/sessions/");
	td_url_escape(&path, id);
	td_buf_puts(&path, "/ssh");
	td_auto_free char *header = td_asprintf("X-Tandem-Ssh-Key: %s", td_buf_str(&key));
	const char *const headers[] = {header, NULL};
	const struct td_ws_dial d = {.path = td_buf_str(&path), .protocol = "tandem-ssh", .headers = headers};
	if (!r)
		r = td_client_dial(&c, &d, &p.far, &err);
	if (!r) {
		r = carry(&p, host, &err);
		td_ws_far_close(p.far);
	}
	return r && r != TD_CANCELLED ? td_client_failed("ssh", &err) : 0;
}
