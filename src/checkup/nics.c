// A machine's adapters of the network, by sysfs: RDMA adapters with their interfaces, and Ethernet interfaces of their
// own. How near each is to each GPU is read off where both hang at PCIe.
#include "checkup/checkup.h"

#include "base/file.h"
#include "json/json.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 16, ADDRESS = 16, NAMES_MAX = 1024 };

// The way from the host bridge down to a device, "pci0000:3a", "0000:3a:00.0", …
struct pci_way {
	char step[DEPTH][ADDRESS];
	int n;
};

// The first line of a file; false: there is none.
static bool line_of(char *ret, size_t size, const char *path)
{
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL))
		return false;
	size_t n = strcspn(td_buf_str(&b), "\n");
	if (!n || n >= size)
		return false;
	memcpy(ret, td_buf_str(&b), n);
	ret[n] = '\0';
	return true;
}

static bool number(const char *path, long long *ret)
{
	char text[32];
	return line_of(text, sizeof(text), path) && td_parse_i64(text, ret);
}

// Is this the address of a PCI device, "0000:3b:00.0"?
static bool is_address(const char *s, size_t n)
{
	static const char form[] = "xxxx:xx:xx.x";
	for (size_t i = 0; i < n; i++)
		if (n != sizeof(form) - 1 || (form[i] == 'x' ? !isxdigit((unsigned char)s[i]) : s[i] != form[i]))
			return false;
	return n == sizeof(form) - 1;
}

// Where a link of sysfs leads: its text names every bridge. It is not followed, because the names of another mount
// namespace (/proc/1/root) mean something else here.
static struct pci_way way_of(const char *link)
{
	struct pci_way w = {0};
	char text[PATH_MAX];
	ssize_t n = readlink(link, text, sizeof(text) - 1);
	if (n <= 0)
		return w;
	text[n] = '\0';
	const char *p = strstr(text, "/pci");
	while (p && w.n < DEPTH) {
		size_t len = strcspn(++p, "/");
		if (w.n ? !is_address(p, len) : len >= ADDRESS)
			break;
		snprintf(w.step[w.n++], ADDRESS, "%.*s", (int)len, p);
		p = p[len] ? p + len : NULL;
	}
	return w;
}

// 0: nothing is shared, or it is not known. 1: the NUMA node; 2: the host bridge; 3: the root port; 4: a switch; more:
// a switch that is farther down.
static int nearness(const struct pci_way *a, int numa_a, const struct pci_way *b, int numa_b)
{
	int same = 0;
	while (same < a->n && same < b->n && !strcmp(a->step[same], b->step[same]))
		same++;
	return same ? same + 1 : numa_a >= 0 && numa_a == numa_b ? 1 : 0;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b); // mlx5_2 before mlx5_10
}

static void names_in(const char *dir, struct td_strv *ret)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; d && ret->n < NAMES_MAX && (e = readdir(d));)
		if (e->d_name[0] != '.')
			td_strv_add(ret, e->d_name);
	if (d)
		closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_version);
}

static char plain(char c)
{
	return c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : c;
}

void td_checkup_word(char *ret, size_t size, const char *p, size_t n)
{
	size_t at = 0;
	while (n && (*p == ' ' || *p == '\t' || !*p)) {
		p++;
		n--;
	}
	while (n && (p[n - 1] == ' ' || !p[n - 1]))
		n--;
	if (!n)
		return;
	for (size_t i = 0; i < n && at + 1 < size; i++)
		ret[at++] = plain(p[i]);
	ret[at] = '\0';
}

// What the file of one of them says, in such characters.
static void word(char *ret, size_t size, const char *dir, const char *file)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, file);
	if (!line_of(ret, size, path))
		*ret = '\0';
	for (char *p = ret; *p; p++)
		*p = plain(*p);
}

// Fills the state of a port; false: there is no such port.
static bool port(struct td_checkup_nic *x, const char *dir, const char *name)
{
	td_auto_free char *path = td_asprintf("%s/ports/%s", dir, name);
	char state[32], rate[64], layer[32];
	long long n;
	if (!td_parse_i64(name, &n))
		return false;
	word(state, sizeof(state), path, "state");
	word(rate, sizeof(rate), path, "rate");
	word(layer, sizeof(layer), path, "link_layer");
	x->port = (int)n;
	x->active = strstr(state, "ACTIVE") != NULL;       // "4: ACTIVE"
	x->rate_mb = (int64_t)(strtod(rate, NULL) * 1000); // "400 Gb/sec (4X NDR)"
	snprintf(x->link, sizeof(x->link), "%s", !strcmp(layer, "Ethernet") ? "RoCE" : "InfiniBand");
	return true;
}

// Its first port that is active, else its first one.
static bool ports(struct td_checkup_nic *x, const char *dir)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_free char *top = td_asprintf("%s/ports", dir);
	bool any = false;
	names_in(top, &l);
	for (size_t i = 0; i < l.n && !(any && x->active); i++) {
		struct td_checkup_nic one = *x;
		if (port(&one, dir, l.v[i]) && (!any || one.active)) {
			*x = one;
			any = true;
		}
	}
	return any;
}

static void numa(struct td_checkup_nic *x, const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/device/numa_node", dir);
	long long n;
	// The kernel says -1 where the machine's firmware does not tell.
	x->numa = number(path, &n) && n >= 0 && n < 1024 ? (int)n : -1;
}

// What an interface says of itself.
static void interface(struct td_checkup_nic *x, const char *root, const char *name)
{
	td_auto_free char *dir = td_asprintf("%s/sys/class/net/%s", root, name), *speed = td_asprintf("%s/speed", dir);
	char state[32];
	long long n;
	snprintf(x->interface, sizeof(x->interface), "%s", name);
	word(x->address, sizeof(x->address), dir, "address");
	if (x->port)
		return; // the port knows better
	word(state, sizeof(state), dir, "operstate");
	x->active = !strcmp(state, "up");
	if (number(speed, &n) && n > 0)
		x->rate_mb = n; // where it is down the kernel says -1, or nothing
}

static void near(struct td_checkup_facts *f, struct td_checkup_nic *x, const struct pci_way *w, const char *root)
{
	for (int i = 0; i < f->gpus && i < TD_HEALTH_GPUS; i++) {
		td_auto_free char *link = td_asprintf("%s/sys/bus/pci/devices/%s", root, f->gpu[i].pci);
		struct pci_way its = {0};
		if (*f->gpu[i].pci)
			its = way_of(link);
		x->near[i] = (signed char)nearness(w, x->numa, &its, f->gpu[i].numa);
	}
}

// A function that was lent out by another one of the same adapter is no adapter of the node's.
static bool is_virtual(const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/device/physfn", dir);
	return td_path_exists(path);
}

static struct td_checkup_nic *add(struct td_checkup_facts *f, const char *name, const struct pci_way *w)
{
	struct td_checkup_nic *x = &f->nic[f->nics++];
	*x = (struct td_checkup_nic){.numa = -1};
	snprintf(x->name, sizeof(x->name), "%s", name);
	if (w->n > 1)
		snprintf(x->pci, sizeof(x->pci), "%s", w->step[w->n - 1]);
	return x;
}

// Its device files, that for its verbs first.
static void files(struct td_checkup_nic *x, const char *dir)
{
	static const char *const classes[] = {"infiniband_verbs", "infiniband_mad"};
	for (size_t i = 0; i < TD_LEN(classes); i++) {
		td_auto_free char *top = td_asprintf("%s/device/%s", dir, classes[i]);
		td_auto_strv struct td_strv l = {0};
		names_in(top, &l);
		for (size_t k = 0; k < l.n && x->n_files < TD_NIC_FILES; k++) {
			static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
			// Without verbs the others are of no use.
			if ((i && !x->n_files) || strspn(l.v[k], ok) != strlen(l.v[k]) || strlen(l.v[k]) > 20)
				continue;
			snprintf(x->files[x->n_files++], sizeof(x->files[0]), "/dev/infiniband/%s", l.v[k]);
		}
	}
}

static void rdma(struct td_checkup_facts *f, const char *root, struct td_strv *seen)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_free char *top = td_asprintf("%s/sys/class/infiniband", root);
	names_in(top, &l);
	for (size_t i = 0; i < l.n && f->nics < TD_NICS; i++) {
		td_auto_free char *dir = td_asprintf("%s/%s", top, l.v[i]), *net = td_asprintf("%s/device/net", dir);
		td_auto_strv struct td_strv own = {0};
		struct pci_way w = way_of(dir);
		names_in(net, &own);
		for (size_t k = 0; k < own.n; k++)
			td_strv_add(seen, own.v[k]);
		if (is_virtual(dir) || strlen(l.v[i]) >= sizeof(f->nic[0].name))
			continue;
		struct td_checkup_nic *x = add(f, l.v[i], &w);
		if (!ports(x, dir)) {
			f->nics--;
			continue;
		}
		word(x->guid, sizeof(x->guid), dir, "node_guid");
		word(x->firmware, sizeof(x->firmware), dir, "fw_ver");
		word(x->model, sizeof(x->model), dir, "hca_type");
		numa(x, dir);
		files(x, dir);
		near(f, x, &w, root);
		if (own.n && strlen(own.v[0]) < sizeof(x->interface))
			interface(x, root, own.v[0]);
	}
}

static void ethernet(struct td_checkup_facts *f, const char *root, const struct td_strv *seen)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_free char *top = td_asprintf("%s/sys/class/net", root);
	names_in(top, &l);
	for (size_t i = 0; i < l.n && f->nics < TD_NICS; i++) {
		td_auto_free char *dir = td_asprintf("%s/%s", top, l.v[i]), *device = td_asprintf("%s/device", dir);
		struct pci_way w = way_of(dir);
		// Bridges, bonds, veths and the loopback have no device.
		if (td_strv_has(seen, l.v[i]) || !td_path_exists(device) || is_virtual(dir) ||
		    strlen(l.v[i]) >= sizeof(f->nic[0].interface))
			continue;
		struct td_checkup_nic *x = add(f, l.v[i], &w);
		snprintf(x->link, sizeof(x->link), "Ethernet");
		numa(x, dir);
		near(f, x, &w, root);
		interface(x, root, l.v[i]);
	}
}

char *td_checkup_nics_root(const char *root)
{
	// An agent in a container has a network of its own, and a /sys that shows that one only.
	td_auto_free char *host = td_asprintf("%s/proc/1/root", root), *net = td_asprintf("%s/sys/class/net", host);
	return td_strdup(access(net, R_OK) ? root : host);
}

void td_checkup_nics(const char *root, struct td_checkup_facts *f)
{
	td_auto_strv struct td_strv seen = {0};
	td_auto_free char *from = td_checkup_nics_root(root);
	f->nics = 0;
	rdma(f, from, &seen);
	ethernet(f, from, &seen);
}

static void text(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *v)
{
	td_jm_str(d, o, key, *v ? v : NULL);
}

char *td_checkup_nics_text(const struct td_checkup_facts *f)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "nics");
	for (int i = 0; i < f->nics; i++) {
		const struct td_checkup_nic *x = &f->nic[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		bool known = false;
		text(d, o, "name", x->name);
		text(d, o, "interface", x->interface);
		text(d, o, "link", x->link);
		text(d, o, "guid", x->guid);
		text(d, o, "address", x->address);
		text(d, o, "pci", x->pci);
		text(d, o, "model", x->model);
		text(d, o, "firmware", x->firmware);
		if (x->port)
			td_jm_int(d, o, "port", x->port);
		if (x->numa >= 0)
			td_jm_int(d, o, "numa", x->numa);
		if (x->rate_mb)
			td_jm_int(d, o, "rate", x->rate_mb);
		td_jm_bool(d, o, "active", x->active);
		yyjson_mut_val *paths = x->n_files ? td_jm_arr(d, o, "files") : NULL;
		for (int k = 0; k < x->n_files; k++)
			yyjson_mut_arr_add_strcpy(d, paths, x->files[k]);
		for (int k = 0; k < f->gpus; k++)
			known |= x->near[k] > 0;
		yyjson_mut_val *near = known ? td_jm_arr(d, o, "near") : NULL;
		for (int k = 0; near && k < f->gpus; k++)
			yyjson_mut_arr_add_int(d, near, x->near[k]);
	}
	return f->nics ? td_json_mut_text(root, NULL) : NULL;
}

void td_checkup_nics_gpus(const char *root, struct td_checkup_facts *f)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_free char *top = td_asprintf("%s/sys/bus/pci/devices", root);
	int k = 0;
	names_in(top, &l);
	for (size_t i = 0; i < l.n && k < f->gpus; i++) {
		td_auto_free char *dir = td_asprintf("%s/%s", top, l.v[i]);
		char class[16], vendor[16];
		word(class, sizeof(class), dir, "class");
		word(vendor, sizeof(vendor), dir, "vendor");
		if (td_starts(class, "0x03") && !strcmp(vendor, "0x10de") && is_address(l.v[i], strlen(l.v[i])))
			snprintf(f->gpu[k++].pci, sizeof(f->gpu[0].pci), "%s", l.v[i]);
	}
}
