// A pod's /etc/resolv.conf. The names of pods and Services are in the hosts file (hosts.c), so
// dnsPolicy ClusterFirst needs no DNS server: the file is empty, and unknown names fail at once.
// dnsConfig adds its lines. With policy Default the file begins with the machine's own lines.
#include "base/file.h"
#include "kubelet/pods/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SERVERS_MAX = 3 };

struct lines {
	struct td_strv servers, searches, options;
};

static void add_new(struct td_strv *l, const char *s)
{
	if (s && *s && !strpbrk(s, " \t\r\n") && !td_strv_has(l, s))
		td_strv_add(l, s);
}

static void read_file(const char *path, struct lines *l)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv lines = {0};

	if (td_file_read(path, 1 << 20, &b, NULL))
		return;
	td_strv_split(&lines, td_buf_str(&b), '\n');
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, lines.v[i], ' ');
		struct td_strv *to = !f.n                            ? NULL
				     : !strcmp(f.v[0], "nameserver") ? &l->servers
				     : !strcmp(f.v[0], "search")     ? &l->searches
				     : !strcmp(f.v[0], "options")    ? &l->options
								     : NULL;
		for (size_t k = 1; to && k < f.n; k++)
			add_new(to, f.v[k]);
	}
}

static void add_list(const yyjson_val *list, struct td_strv *to)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)list, i, n, v) {
		add_new(to, yyjson_get_str(v));
	}
}

static void put(struct td_buf *b, const char *word, const struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(b, "%s %s", i ? "" : word, l->v[i]);
	if (l->n)
		td_buf_putc(b, '\n');
}

int td_resolv_conf(const struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, const char *dir,
		   char **ret, struct td_error *err)
{
	const char *policy = td_jstr_or(pod, "spec.dnsPolicy", "ClusterFirst");
	yyjson_val *config = td_jget(pod, "spec.dnsConfig"), *o;
	bool machine = !strcmp(policy, "Default") || (p->host_network && !strcmp(policy, "ClusterFirst"));

	if (!config) {
		*ret = machine ? td_strdup("/etc/resolv.conf") : td_asprintf("%s/agent/resolv.conf", a->o.home);
		return 0;
	}

	struct lines l = {0};
	td_auto_buf struct td_buf b = {0};
	size_t i, n;

	if (machine)
		read_file("/etc/resolv.conf", &l);
	add_list(td_jget(config, "nameservers"), &l.servers);
	add_list(td_jget(config, "searches"), &l.searches);
	yyjson_arr_foreach (td_jget(config, "options"), i, n, o) {
		const char *v = td_jstr(o, "value");
		td_auto_free char *text = td_asprintf("%s%s%s", td_jstr_or(o, "name", ""), v ? ":" : "", v ? v : "");
		add_new(&l.options, text);
	}

	for (i = 0; i < l.servers.n && i < SERVERS_MAX; i++)
		td_buf_printf(&b, "nameserver %s\n", l.servers.v[i]);
	put(&b, "search", &l.searches);
	put(&b, "options", &l.options);

	td_strv_done(&l.servers);
	td_strv_done(&l.searches);
	td_strv_done(&l.options);

	td_auto_free char *path = td_asprintf("%s/resolv.conf", dir);
	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "write %s", path);

	int r = td_write_all(fd, td_buf_str(&b), b.len, err);
	if (r)
		return r;

	*ret = td_steal(path);
	return 0;
}
