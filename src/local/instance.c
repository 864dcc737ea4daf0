#include "local/instance.h"

#include "base/file.h"
#include "base/hash.h"
#include "json/record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SUBNET_FIRST = 77,
	SUBNET_LAST = 199,
	PORT_FIRST = 6443,
	PORT_LAST = 6543,
	KNOCK_FIRST = 7443,
	KNOCK_LAST = 7543,
	METRICS_FIRST = 8443,
	METRICS_LAST = 8843,
	METRICS_ROW = 4
};

void td_instance_done(struct td_instance *i)
{
	free(i->home);
	free(i->run);
	free(i->images);
	free(i->memory);
	*i = (struct td_instance){0};
}

int td_instance_locate(struct td_instance *ret, struct td_error *err)
{
	const char *h = getenv("TANDEM_HOME"), *img = getenv("TANDEM_IMAGES");
	if (!h || !*h)
		h = "/var/lib/tandem";
	if (h[0] != '/')
		return td_fail(err, TD_INVALID, "TANDEM_HOME is \"%s\": give an absolute path", h);

	size_t n = strlen(h);
	while (n > 1 && h[n - 1] == '/')
		n--;
	td_instance_done(ret);
	ret->home = td_strndup(h, n);
	uint32_t x = td_hash32_str(TD_HASH32, ret->home); // short and stable; it does not have to be secret
	snprintf(ret->id, sizeof(ret->id), "%06x", (x ^ (x >> 24)) & 0xffffff);
	ret->run = td_asprintf("/run/tandem/%s", ret->id);
	ret->images = img && *img ? td_strdup(img) : td_asprintf("%s/images", ret->home);
	return 0;
}

char *td_instance_path(const struct td_instance *i, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *rest = td_vasprintf(fmt, ap);
	va_end(ap);
	return td_asprintf("%s/%s", i->home, rest);
}

char *td_instance_switch(const struct td_instance *i)
{
	return td_asprintf("td%s", i->id);
}

char *td_instance_kubeconfig(const struct td_instance *i, const char *user)
{
	return td_instance_path(i, "kubeconfig/%s.conf", user);
}

int td_instance_load(struct td_instance *ret, struct td_error *err)
{
	td_auto_instance struct td_instance i = {0};
	int r = td_instance_locate(&i, err);
	if (r)
		return r;

	td_auto_free char *path = td_instance_path(&i, "instance.json");
	td_auto(td_json_unref) struct td_json *j = NULL;
	r = td_record_read(path, &j, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, TD_NOT_FOUND, "nothing was ever started in %s: run \"tandem up\"", i.home);
	if (r)
		return r;

	yyjson_val *v = td_json_root(j);
	i.nodes = (int)td_jint(v, "nodes", 4);
	i.cpus = (int)td_jint(v, "cpus", 16);
	i.gpus = (int)td_jint(v, "gpus", 8);
	i.real_gpus = td_jbool(v, "realGpus", false);
	i.memory = td_strdup(td_jstr_or(v, "memory", "32Gi"));
	i.slurm = td_jbool(v, "slurm", true);
	i.api_port = (int)td_jint(v, "apiPort", 0);
	i.knock_port = (int)td_jint(v, "knockPort", 0);
	i.metrics_port = (int)td_jint(v, "metricsPort", 0);
	i.subnet = (int)td_jint(v, "subnet", 0);
	i.device_major = (int)td_jint(v, "deviceMajor", 0);

	td_instance_done(ret);
	*ret = i;
	i = (struct td_instance){0};
	return 0;
}

int td_instance_save(const struct td_instance *i, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "id", i->id);
	td_jm_int(d, o, "nodes", i->nodes);
	td_jm_int(d, o, "cpus", i->cpus);
	td_jm_str(d, o, "memory", i->memory);
	td_jm_int(d, o, "gpus", i->gpus);
	if (i->real_gpus)
		td_jm_bool(d, o, "realGpus", true);
	td_jm_bool(d, o, "slurm", i->slurm);
	td_jm_int(d, o, "apiPort", i->api_port);
	td_jm_int(d, o, "knockPort", i->knock_port);
	td_jm_int(d, o, "metricsPort", i->metrics_port);
	td_jm_int(d, o, "subnet", i->subnet);
	td_jm_int(d, o, "deviceMajor", i->device_major);

	td_auto_free char *path = td_instance_path(i, "instance.json");
	return td_record_write(path, o, 0644, err);
}

int td_instance_lock(const struct td_instance *i, struct td_cancel *c, int *ret_fd, struct td_error *err)
{
	for (bool told = false;;) {
		td_auto_close int fd = open(i->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT ? td_fail(err, TD_NOT_FOUND, "no %s", i->home)
					       : td_fail_errno(err, TD_INTERNAL, errno, "open %s", i->home);

		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			struct stat held, now;
			if (fstat(fd, &held) < 0 || stat(i->home, &now) < 0 || held.st_ino != now.st_ino ||
			    held.st_dev != now.st_dev)
				// The previous holder removed the directory (and another process
				// made it again).
				continue;
			*ret_fd = fd;
			fd = -1;
			return 0;
		}

		if (errno != EWOULDBLOCK)
			return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", i->home);

		if (!told)
			fprintf(stderr, "waiting for another \"tandem up\" or \"tandem down\" of %s\n", i->home);
		told = true;

		if (td_cancel_wait(c, 20)) // a blocking flock cannot be cancelled
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

// ---- choosing what is free on this machine ----

static bool subnet_free(int subnet, const char *own_switch)
{
	struct ifaddrs *all;
	if (getifaddrs(&all) < 0)
		return false;

	bool ok = true;
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || td_streq(a->ifa_name, own_switch))
			continue;
		uint32_t ip = ntohl(((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr.s_addr);
		uint32_t mask =
			a->ifa_netmask ? ntohl(((struct sockaddr_in *)(void *)a->ifa_netmask)->sin_addr.s_addr) : ~0u;
		uint32_t ours = (10u << 24) | ((uint32_t)subnet << 16), m = mask & 0xffff0000u;
		if ((ip & m) == (ours & m))
			ok = false;
	}

	freeifaddrs(all);
	return ok;
}

static bool port_free(int port)
{
	td_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
	return fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
}

static bool major_free(int major)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read("/proc/devices", 1 << 20, &b, NULL))
		return false;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&b), '\n');
	for (size_t k = 0; k < lines.n && !td_starts(lines.v[k], "Block"); k++)
		if (atoi(lines.v[k]) == major)
			return false;
	return true;
}

// The claims of other homes: /run/tandem/<id>/claim holds "SUBNET API KNOCK METRICS MAJOR".
struct claims {
	int v[256][5];
	size_t n;
};

static void read_claims(const struct td_instance *i, struct claims *c)
{
	glob_t g = {0};
	if (glob("/run/tandem/*/claim", 0, NULL, &g) == 0) {
		for (size_t k = 0; k < g.gl_pathc && c->n < TD_LEN(c->v); k++) {
			if (strncmp(g.gl_pathv[k], i->run, strlen(i->run)) == 0)
				continue;

			td_auto_buf struct td_buf b = {0};
			int *v = c->v[c->n];
			if (!td_file_read(g.gl_pathv[k], 256, &b, NULL) &&
			    sscanf(td_buf_str(&b), "%d %d %d %d %d", &v[0], &v[1], &v[2], &v[3], &v[4]) == 5)
				c->n++;
		}
	}

	globfree(&g);
}

// Reads /run/tandem/<id>.port of homes that are down: "PORT HOME". Such a file of a home that is gone
// means nothing.
static void read_kept(const struct td_instance *i, struct claims *c)
{
	glob_t g = {0};
	if (glob("/run/tandem/*.port", 0, NULL, &g) == 0) {
		for (size_t k = 0; k < g.gl_pathc && c->n < TD_LEN(c->v); k++) {
			td_auto_buf struct td_buf b = {0};
			td_auto_free char *conf = NULL;
			int port, at = 0;
			if (strncmp(g.gl_pathv[k], i->run, strlen(i->run)) == 0 ||
			    td_file_read(g.gl_pathv[k], PATH_MAX, &b, NULL) ||
			    sscanf(td_buf_str(&b), "%d %n", &port, &at) != 1 || !at)
				continue;
			conf = td_asprintf("%s/instance.json", b.s + at);
			if (td_path_exists(conf))
				c->v[c->n++][1] = port;
			else
				unlink(g.gl_pathv[k]);
		}
	}

	globfree(&g);
}

int td_instance_keep_port(const struct td_instance *i, bool keep, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s.port", i->run), *text = td_asprintf("%d %s", i->api_port, i->home);
	if (keep && i->api_port)
		return td_file_write(path, text, strlen(text), 0644, err);
	if (unlink(path) < 0 && errno != ENOENT)
		return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path);
	return 0;
}

static bool claimed(const struct claims *c, int field, int value)
{
	for (size_t k = 0; k < c->n; k++)
		if (c->v[k][field] == value)
			return true;
	return false;
}

// Returns true when a role of this home still runs. A role that outlived its supervise holds the
// ports that were chosen for it.
static bool roles_run(const struct td_instance *i)
{
	td_auto_free char *pattern = td_asprintf("%s/*.pid", i->run);
	glob_t g = {0};
	bool any = false;
	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t k = 0; k < g.gl_pathc; k++)
			any = any || td_pidfile_read(g.gl_pathv[k]);
	globfree(&g);
	return any;
}

// Returns true when four ports in a row are free: for the metrics of the bridge, the operator and the
// kubelet, and for the gateway.
static bool row_free(int port)
{
	for (int k = 0; k < METRICS_ROW; k++)
		if (!port_free(port + k))
			return false;
	return true;
}

static int pick_row(const struct claims *c, int field, bool keep, int *port, struct td_error *err)
{
	if (*port && (*port - METRICS_FIRST) % METRICS_ROW == 0 && !claimed(c, field, *port) &&
	    (keep || row_free(*port)))
		return 0;
	for (int p = METRICS_FIRST; p + METRICS_ROW <= METRICS_LAST; p += METRICS_ROW)
		if (!claimed(c, field, p) && row_free(p)) {
			*port = p;
			return 0;
		}
	return td_fail(err, TD_INTERNAL, "no %d free TCP ports in a row from %d to %d", METRICS_ROW, METRICS_FIRST,
		       METRICS_LAST);
}

static int pick_port(const struct claims *c, int field, bool keep, int first, int last, int *port, struct td_error *err)
{
	if (*port && !claimed(c, field, *port) && (keep || port_free(*port)))
		return 0;
	for (int p = first; p <= last; p++)
		if (!claimed(c, field, p) && port_free(p)) {
			*port = p;
			return 0;
		}
	return td_fail(err, TD_INTERNAL, "no free TCP port from %d to %d", first, last);
}

int td_instance_choose(struct td_instance *i, struct td_error *err)
{
	int r = td_mkdir_p(i->run, 0755, err);
	if (r)
		return r;

	td_auto_close int lock = open("/run/tandem/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "lock /run/tandem/lock");

	struct claims c = {0};
	read_claims(i, &c);
	read_kept(i, &c);

	td_auto_free char *sw = td_instance_switch(i);
	if (!i->subnet || claimed(&c, 0, i->subnet) || !subnet_free(i->subnet, sw)) {
		int s = SUBNET_FIRST;
		while (s <= SUBNET_LAST && (claimed(&c, 0, s) || !subnet_free(s, sw)))
			s++;
		if (s > SUBNET_LAST)
			return td_fail(err, TD_INTERNAL, "no free network from 10.%d.0.0/16 to 10.%d.0.0/16",
				       SUBNET_FIRST, SUBNET_LAST);
		i->subnet = s;
	}

	bool keep = roles_run(i);
	if ((r = pick_port(&c, 1, keep, PORT_FIRST, PORT_LAST, &i->api_port, err)) ||
	    (r = pick_port(&c, 2, keep, KNOCK_FIRST, KNOCK_LAST, &i->knock_port, err)) ||
	    (r = pick_row(&c, 3, keep, &i->metrics_port, err)))
		return r;

	if (!i->device_major || claimed(&c, 4, i->device_major) || (!keep && !major_free(i->device_major))) {
		static const int local_use[] = {240, 241, 242, 243, 244, 120, 121, 122, 123, 124, 125, 126, 127, 60,
						61,  62,  63,  245, 246, 247, 248, 249, 250, 251, 252, 253, 254};
		size_t k = 0;
		while (k < TD_LEN(local_use) && (claimed(&c, 4, local_use[k]) || !major_free(local_use[k])))
			k++;
		if (k == TD_LEN(local_use))
			return td_fail(err, TD_INTERNAL,
				       "no character device major for local use is free (/proc/devices)");
		i->device_major = local_use[k];
	}

	td_auto_free char *path = td_asprintf("%s/claim", i->run),
			  *text = td_asprintf("%d %d %d %d %d\n", i->subnet, i->api_port, i->knock_port,
					      i->metrics_port, i->device_major);
	return td_file_write(path, text, strlen(text), 0644, err);
}

// ---- pid files ----

static unsigned long long start_ticks(pid_t pid)
{
	td_auto_free char *path = td_asprintf("/proc/%d/stat", (int)pid);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL))
		return 0;
	const char *p = strrchr(td_buf_str(&b), ')'); // the process name may contain anything

	unsigned long long t = 0;
	char state = 'Z';
	long threads = 0;

	if (!p ||
	    sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &state,
		   &threads, &t) != 3 ||
	    (state == 'Z' && threads <= 1))
		return 0;
	return t;
}

int td_pidfile_write(const char *path, pid_t pid, struct td_error *err)
{
	td_auto_free char *text = td_asprintf("%d %llu\n", (int)pid, start_ticks(pid));
	return td_file_write(path, text, strlen(text), 0644, err);
}

pid_t td_pidfile_read(const char *path)
{
	td_auto_buf struct td_buf b = {0};
	int pid = 0;
	unsigned long long t = 0;
	if (td_file_read(path, 256, &b, NULL) || sscanf(td_buf_str(&b), "%d %llu", &pid, &t) != 2 || pid <= 1)
		return 0;
	return t && start_ticks(pid) == t ? pid : 0;
}

pid_t td_instance_supervisor(const struct td_instance *i)
{
	td_auto_free char *path = td_asprintf("%s/supervise.pid", i->run);
	return td_pidfile_read(path);
}
