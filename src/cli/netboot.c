// tandem netboot: the boot service of machines without disks (docs/netboot.md). A machine says which one it is, gets the
// script of its node with the image that its group has now, and, once for each such script, a token to join with.
#include "cli/netboot.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "base/rand.h"
#include "cli/node_token.h"
#include "cmd/roles.h"
#include "http/server.h"
#include "oci/stream.h"
#include "pool/join.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];

#define LEASES "kube-node-lease"
enum {
	OPEN_MS = 30 * 60 * 1000,
	OPEN_MOST = 65536,
	TOKEN_S = 600,
	PIECE = 256 * 1024,
	LEASE_S = 40,
	LEASE_MOST_S = 300
};

// A machine that has its script and has not joined yet.
struct pending {
	struct pending *next;
	char id[TD_NETBOOT_ID + 1], nonce[TD_NETBOOT_NONCE + 1], *image;
	char *lease;   // the resourceVersion of its node's Lease when it was seen last; NULL: there was none
	int64_t until, // of the number
		since; // so long the Lease is as it was seen
};
// A file whose digest was found right, as it was then.
struct proven {
	struct proven *next;
	dev_t dev;
	ino_t ino;
	struct timespec changed;
};
struct netboot {
	const char *dir, *url, *server;
	struct td_kube *k;
	pthread_mutex_t lock; // of what follows
	struct pending *pending;
	size_t n;
	struct proven *proven;
};

static void text(struct td_http_x *x, int status, const char *s)
{
	td_http_send(x, status, "text/plain; charset=utf-8", s, strlen(s));
}

// What a machine's firmware shows, instead of what it asked for.
static void sorry(struct td_http_x *x, const char *why)
{
	td_auto_free char *s = td_asprintf("#!ipxe\necho tandem: %s\nsleep 10\nexit 1\n", why);
	td_warn("%s", why);
	text(x, 200, s);
}

static void first(struct netboot *b, struct td_http_x *x)
{
	const struct td_embedded *f = td_embedded(td_cli_files, "boot.ipxe");
	td_auto_buf struct td_buf out = {0};
	for (const char *s = f->text, *at; *s; s = at + 6) {
		if (!(at = strstr(s, "{base}"))) {
			td_buf_puts(&out, s);
			break;
		}
		td_buf_add(&out, s, (size_t)(at - s));
		td_buf_puts(&out, b->url);
	}
	text(x, 200, td_buf_str(&out));
}

static void drop(struct pending *p)
{
	if (!p)
		return;
	free(p->image);
	free(p->lease);
	free(p);
}

// Takes what is there of a machine or for a number, and what is too old. NULL: nothing. The lock is held.
static struct pending *take_locked(struct netboot *b, const char *id, const char *nonce, int64_t now)
{
	struct pending *found = NULL;
	for (struct pending **at = &b->pending; *at;) {
		struct pending *p = *at;
		bool it = td_streq(p->id, id) || td_streq(p->nonce, nonce);
		if (!it && p->until > now) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		b->n--;
		if (it && p->until > now) {
			found = p;
		} else {
			drop(p);
		}
	}
	return found;
}

// Reads the Lease of a node. *ret: its resourceVersion, which the caller frees; NULL: there is none.
static int lease_of(struct netboot *b, const char *node, char **ret, int64_t *ret_ms, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = b->k ? td_kube_get(b->k, &td_leases, LEASES, node, NULL, &o, err) : TD_NOT_FOUND;
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "the Lease of node %s in " LEASES, node);
	int64_t s = o ? td_jint(o->root, "spec.leaseDurationSeconds", LEASE_S) : 0;
	*ret = o ? td_strdup(o->rv) : NULL;
	*ret_ms = 1000 * (s > LEASE_MOST_S ? LEASE_MOST_S : s);
	return 0;
}

static void script(struct netboot *b, struct td_http_x *x)
{
	const char *id = td_http_query(x, "id");
	struct td_error err = TD_ERROR_INIT;
	td_auto_machine struct td_netboot_machine m = {0};
	if (td_netboot_read(b->dir, id ? id : "", &m, &err))
		return sorry(x, err.msg);
	unsigned char raw[TD_NETBOOT_NONCE / 2];
	struct pending *p = td_calloc(1, sizeof(*p));
	td_random(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(p->nonce + 2 * i, 3, "%02x", raw[i]);
	snprintf(p->id, sizeof(p->id), "%s", id);
	p->image = td_strdup(m.image);
	int64_t ms;
	if (lease_of(b, m.node, &p->lease, &ms, &err))
		td_warn("%s", err.msg); // looked at again before a token is given
	p->since = td_mono_ms(&td_clock_system);
	p->until = p->since + OPEN_MS;
	td_auto_free char *s = td_netboot_script(&m, id, b->url, p->nonce);
	pthread_mutex_lock(&b->lock);
	struct pending *old = take_locked(b, id, NULL, td_mono_ms(&td_clock_system));
	bool room = b->n < OPEN_MOST;
	if (room) {
		p->next = b->pending;
		b->pending = p;
		b->n++;
	}
	pthread_mutex_unlock(&b->lock);
	drop(old);
	if (!room) {
		drop(p);
		return sorry(x, "too many machines boot at once");
	}
	td_info("machine %s boots image %s as node %s", id, m.image, m.node);
	text(x, 200, s);
}

static bool known(struct netboot *b, const struct stat *st, bool add)
{
	bool found = false;
	pthread_mutex_lock(&b->lock);
	for (struct proven *p = b->proven; p && !found; p = p->next)
		found = p->dev == st->st_dev && p->ino == st->st_ino && p->changed.tv_sec == st->st_ctim.tv_sec &&
			p->changed.tv_nsec == st->st_ctim.tv_nsec;
	if (add && !found) {
		struct proven *p = td_calloc(1, sizeof(*p));
		*p = (struct proven){b->proven, st->st_dev, st->st_ino, st->st_ctim};
		b->proven = p;
	}
	pthread_mutex_unlock(&b->lock);
	return found;
}

// A file is served only while it is what its image's manifest says.
static int prove(struct netboot *b, const char *image, const char *name, int fd, const struct stat *st,
		 struct td_error *err)
{
	char is[65];
	if (known(b, st, false))
		return 0;
	td_auto_free char *at = td_asprintf("%s/images/%s/manifest.json", b->dir, image);
	td_auto_buf struct td_buf doc = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_file_read(at, 1 << 20, &doc, err);
	if (r || (r = td_json_parse(td_buf_str(&doc), doc.len, &j, err)) ||
	    (r = td_oci_file_digest(fd, name, NULL, is, err)))
		return r;
	const char *want = td_jkey_str(td_jget(td_json_root(j), "files"), name);
	if (!td_streq(want, is))
		return td_fail(err, TD_INVALID, "%s is sha256 %s, and %s says %s: build the image anew", name, is, at,
			       want ? want : "nothing of it");
	known(b, st, true);
	return 0;
}

static void file(struct netboot *b, struct td_http_x *x, const char *rest)
{
	const char *slash = strchr(rest, '/');
	td_auto_free char *image = td_strndup(rest, slash ? (size_t)(slash - rest) : 0), *path = NULL,
			  *piece = td_malloc(PIECE);
	struct stat st;
	struct td_error err = TD_ERROR_INIT;
	if (!slash || !td_netboot_name_fits(image) || !td_netboot_name_fits(slash + 1))
		return text(x, 404, "no such file\n");
	path = td_asprintf("%s/images/%s", b->dir, rest);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		text(x, 404, "no such file\n");
	} else if (prove(b, image, slash + 1, fd, &st, &err)) {
		td_err("%s", err.msg);
		text(x, 500, "the file is not what its manifest says\n");
	} else if (!td_http_stream_sized(x, "application/octet-stream", (uint64_t)st.st_size, &err)) {
		// With its length: firmware moves all that it has whenever another chunk comes.
		ssize_t n;
		while ((n = read(fd, piece, PIECE)) > 0 && !td_http_stream_write(x, piece, (size_t)n, &err))
			;
		if (n < 0)
			td_err("%s: %s", path, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
}

// True when a machine may be its node now. Else it asks again: while somebody renews the node's Lease, a machine runs as that
// node, and whoever asks has only heard of its id.
static bool may_be(struct netboot *b, struct td_http_x *x, const char *nonce)
{
	char id[TD_NETBOOT_ID + 1] = "";
	td_auto_machine struct td_netboot_machine m = {0};
	td_auto_free char *now = NULL;
	struct td_error err = TD_ERROR_INIT;
	int64_t lease_ms, wait = 0;
	pthread_mutex_lock(&b->lock);
	for (struct pending *p = b->pending; p; p = p->next)
		if (td_streq(p->nonce, nonce))
			memcpy(id, p->id, sizeof(id));
	pthread_mutex_unlock(&b->lock);
	if (!id[0] || td_netboot_read(b->dir, id, &m, NULL))
		return true; // it is told what is wrong
	if (lease_of(b, m.node, &now, &lease_ms, &err)) {
		td_err("machine %s: %s", id, err.msg);
		text(x, 503, "the cluster does not say whether the node runs\n");
		return false;
	}
	int64_t at = td_mono_ms(&td_clock_system);
	pthread_mutex_lock(&b->lock);
	for (struct pending *p = b->pending; p; p = p->next)
		if (td_streq(p->nonce, nonce)) {
			wait = td_pool_boot_wait(p->lease, now, at - p->since, lease_ms);
			if (!td_streq(p->lease, now)) {
				free(p->lease);
				p->lease = now ? td_strdup(now) : NULL;
				p->since = at;
			}
		}
	pthread_mutex_unlock(&b->lock);
	if (!wait)
		return true;
	td_warn("machine %s asks to be node %s, whose Lease was renewed in the last %d s", id, m.node,
		(int)(lease_ms / 1000));
	td_auto_free char *s = td_asprintf("%d", (int)(wait > 5000 ? 5 : wait / 1000 + 1));
	td_http_add_header(x, "Retry-After", s);
	text(x, 503, "a machine runs as this node: ask again\n");
	return false;
}

// Who has the number of a boot is its machine: that number alone says which one, because everybody there can read what
// else a machine was told.
static void join(struct netboot *b, struct td_http_x *x)
{
	const char *nonce = td_http_query(x, "nonce"), *key = td_http_query(x, "key");
	struct td_error err = TD_ERROR_INIT;
	td_auto_machine struct td_netboot_machine m = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!b->k)
		return text(x, 403, "this service gives no tokens: it has no --kubeconfig\n");
	if (nonce && !may_be(b, x, nonce))
		return;
	pthread_mutex_lock(&b->lock);
	struct pending *p = nonce && key ? take_locked(b, NULL, nonce, td_mono_ms(&td_clock_system)) : NULL;
	pthread_mutex_unlock(&b->lock);
	if (!p) {
		td_warn("a token was asked for without a boot");
		return text(x, 403, "boot first: a token is given once for each boot\n");
	}
	char id[sizeof(p->id)];
	memcpy(id, p->id, sizeof(id));
	td_auto_free char *image = td_steal(p->image);
	drop(p);
	if (td_netboot_read(b->dir, id, &m, &err)) {
		td_warn("%s", err.msg);
		return text(x, 403, "no such machine\n");
	}
	struct td_cli_token q = {.machine = key,
				 .name = m.node,
				 .nodeset = td_jstr(td_json_root(m.doc), "nodeset"),
				 .ttl_s = TOKEN_S,
				 .again = true};
	td_auto_free char *label = td_asprintf(TD_LABEL_IMAGE "=%s", image);
	td_strv_add(&q.labels, label);
	int r = td_cli_token_issue(b->k, &q, &j, &err);
	td_strv_done(&q.labels);
	if (r) {
		td_err("machine %s: %s", id, err.msg);
		return text(x, 500, "no token could be made\n");
	}
	td_info("machine %s has a token for node %s", id, m.node);
	td_auto_free char *out = td_json_pretty(td_json_root(j));
	td_http_send(x, 200, "application/json", out, strlen(out));
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct netboot *b = ctx;
	const char *path = td_http_path(x), *method = td_http_method(x);
	if (!strcmp(path, "/join") && !strcmp(method, "POST"))
		return join(b, x);
	if (strcmp(method, "GET") != 0)
		return text(x, 405, "GET only\n");
	if (!strcmp(path, "/boot.ipxe"))
		return first(b, x);
	if (!strcmp(path, "/machine.ipxe"))
		return script(b, x);
	if (td_starts(path, "/images/"))
		return file(b, x, path + strlen("/images/"));
	text(x, 404, "no such page\n");
}

static void all_gone(struct netboot *b)
{
	for (struct pending *p; (p = b->pending);) {
		b->pending = p->next;
		drop(p);
	}
	for (struct proven *p; (p = b->proven);) {
		b->proven = p->next;
		free(p);
	}
	td_kube_free(b->k);
}

int td_netboot_main(int argc, char **argv)
{
	const char *listen = NULL, *conf = NULL;
	struct netboot b = {.lock = PTHREAD_MUTEX_INITIALIZER};
	enum td_log_level level = TD_LOG_INFO;
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		{.name = "dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&b.dir),
		 .help = "machines/, groups/ and images/",
		 .required = true},
		{.name = "listen",
		 .value = "ADDR:PORT",
		 TD_OPT_TEXT(&listen),
		 .help = "where machines that boot ask",
		 .required = true},
		{.name = "url",
		 .value = "URL",
		 TD_OPT_TEXT(&b.url),
		 .help = "how they reach it (default http://ADDR:PORT)"},
		{.name = "kubeconfig",
		 .value = "FILE",
		 TD_OPT_TEXT(&conf),
		 .help = "of the cluster that they join; without it no tokens are given"},
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command line = {.name = "netboot",
					.about = "Serves machines without disks by HTTP: iPXE scripts, the images of "
						 "their groups, and a token to "
						 "join with for each boot.",
					.options = options,
					.n = TD_LEN(options),
					.exits = TD_ROLE_EXITS};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	td_log_init("netboot", level);
	td_auto_free char *url = td_asprintf("http://%s", listen);
	if (!b.url)
		b.url = url;
	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);
	const char *const at[] = {listen, NULL};
	const struct td_http_server_opts o = {.listen = at, .handler = handle, .ctx = &b, .max_body = 4096};
	struct td_http_server *s = NULL;
	int r = conf ? td_kube_new(conf, &b.k, &err) : 0;
	if (!r)
		r = td_http_server_new(&o, &s, &err);
	if (!r) {
		td_info("serves %s at %s", b.dir, listen);
		r = td_http_server_run(s, cancel, &err);
	}
	td_http_server_free(s);
	all_gone(&b);
	if (r && r != TD_CANCELLED) {
		td_err("%s", err.msg);
		return 1;
	}
	return 0;
}
