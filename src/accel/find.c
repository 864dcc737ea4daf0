// Which devices a machine has, by the kernel's sysfs.
#include "accel/accel.h"

#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The first line of a file; "": there is none.
static void line_of(const char *dir, const char *file, char *ret, size_t n)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, file);
	td_auto_buf struct td_buf b = {0};
	*ret = '\0';
	if (td_file_read(path, 4096, &b, NULL))
		return;
	snprintf(ret, n, "%.*s", (int)strcspn(td_buf_str(&b), "\n"), td_buf_str(&b));
}

// What a link leads to, without the directories; "": it is none.
static void target(const char *dir, const char *link, char *ret, size_t n)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, link);
	char to[PATH_MAX];
	ssize_t len = readlink(path, to, sizeof(to) - 1);
	*ret = '\0';
	if (len <= 0)
		return;
	to[len] = '\0';
	const char *slash = strrchr(to, '/');
	snprintf(ret, n, "%s", slash ? slash + 1 : to);
}

// "0000:3b:00.0"
static bool is_pci(const char *s)
{
	return strlen(s) >= 12 && s[4] == ':' && s[7] == ':' && s[10] == '.';
}

// A path with its words filled in. NULL: a word is not known of this device.
static char *filled(const char *pattern, const struct td_accel *d, int index, const char *group)
{
	td_auto_buf struct td_buf b = {0};
	for (const char *p = pattern; *p;) {
		if (td_starts(p, "{i}"))
			td_buf_printf(&b, "%d", index), p += 3;
		else if (td_starts(p, "{n}"))
			td_buf_printf(&b, "%d", d->number), p += 3;
		else if (td_starts(p, "{group}") && *group)
			td_buf_puts(&b, group), p += 7;
		else if (td_starts(p, "{group}"))
			return NULL;
		else
			td_buf_putc(&b, *p++);
	}
	return td_strdup(td_buf_str(&b));
}

struct sys_entry {
	char name[256];
	int number;
};

static int by_number(const void *a, const void *b)
{
	const struct sys_entry *x = a, *y = b;
	return x->number != y->number ? x->number - y->number : strcmp(x->name, y->name);
}

// The entries of a directory that may be devices, in order: the prefix and a number, or a PCI address.
static size_t entries(const char *dir, const char *prefix, struct sys_entry v[TD_ACCEL_MAX * 4])
{
	size_t n = 0;
	DIR *d = opendir(dir);
	struct dirent *e;
	while (d && n < TD_ACCEL_MAX * 4 && (e = readdir(d))) {
		long long number = 0;
		bool it = prefix ? td_starts(e->d_name, prefix) && td_parse_i64(e->d_name + strlen(prefix), &number) &&
					   number >= 0 && number < 100000
				 : is_pci(e->d_name);
		if (!it)
			continue;
		v[n].number = (int)number;
		snprintf(v[n++].name, sizeof(v[0].name), "%s", e->d_name);
	}
	if (d)
		closedir(d);
	qsort(v, n, sizeof(*v), by_number);
	return n;
}

static void product(const yyjson_val *of, const char *pci, struct td_accel *d)
{
	char id[16];
	const char *file = td_jstr(of, "productFile");
	line_of(pci, "device", id, sizeof(id));
	const char *known = td_jkey_str(td_jget(of, "products"), id);
	if (known)
		snprintf(d->product, sizeof(d->product), "%s", known);
	else if (file && !strchr(file, '/'))
		line_of(pci, file, d->product, sizeof(d->product));
	for (char *p = d->product; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
}

// Adds the device of one entry; nothing when it is another vendor's.
static void add(const yyjson_val *of, const yyjson_val *way, const char *dir, const struct sys_entry *e,
		struct td_accel_found *ret)
{
	const char *prefix = td_jstr(way, "name"), *class = td_jstr(way, "class");
	td_auto_free char *pci =
		prefix ? td_asprintf("%s/%s/device", dir, e->name) : td_asprintf("%s/%s", dir, e->name);
	char text[64], group[32];
	struct td_accel d = {.number = prefix ? e->number : ret->n, .numa = -1};
	line_of(pci, "vendor", text, sizeof(text));
	if (strcmp(text, td_jstr_or(way, "vendor", "?")) != 0)
		return;
	line_of(pci, "class", text, sizeof(text));
	if (class && !td_starts(text, class))
		return;
	if (prefix) {
		td_auto_free char *entry = td_asprintf("%s/%s", dir, e->name);
		target(entry, "device", d.pci, sizeof(d.pci));
	} else {
		snprintf(d.pci, sizeof(d.pci), "%.23s", e->name);
	}
	if (!is_pci(d.pci))
		d.pci[0] = '\0';
	long long numa;
	line_of(pci, "numa_node", text, sizeof(text));
	// The kernel says -1 where the machine's firmware does not tell.
	if (td_parse_i64(text, &numa) && numa >= 0 && numa < 1024)
		d.numa = (int)numa;
	line_of(pci, "local_cpulist", d.cpus, sizeof(d.cpus));
	product(of, pci, &d);
	target(pci, "iommu_group", group, sizeof(group));

	yyjson_val *files = td_jget(way, "files"), *x;
	size_t i, n;
	yyjson_arr_foreach (files ? files : td_jget(of, "files"), i, n, x) {
		char *path = d.n_files < TD_ACCEL_FILES ? filled(yyjson_get_str(x), &d, ret->n, group) : NULL;
		if (path)
			d.files[d.n_files++] = path;
	}
	// What has no file is not there to be given out, nor are two that have one file: who has the one has both.
	bool its = d.n_files;
	for (int k = 0; its && k < ret->n; k++)
		its = strcmp(ret->v[k].files[0], d.files[0]) != 0;
	if (its)
		ret->v[ret->n++] = d;
	for (i = 0; !its && i < d.n_files; i++)
		free(d.files[i]);
}

static void look(const yyjson_val *of, const yyjson_val *way, const char *root, struct td_accel_found *ret)
{
	td_auto_free char *dir = td_asprintf("%s/sys/%s", root, td_jstr_or(way, "sys", "?"));
	td_auto_free struct sys_entry *v = td_calloc(TD_ACCEL_MAX * 4, sizeof(*v));
	size_t n = entries(dir, td_jstr(way, "name"), v);
	for (size_t i = 0; i < n && ret->n < TD_ACCEL_MAX; i++)
		add(of, way, dir, &v[i], ret);
	if (!ret->n)
		return;
	ret->of = of;
	td_jstrs(td_jget(of, "shared"), &ret->shared);
	td_jstrs(td_jget(way, "shared"), &ret->shared);
}

void td_accel_find(const struct td_accels *a, const char *root, const char *skip, struct td_accel_found *ret)
{
	yyjson_val *way;
	size_t i, n;
	*ret = (struct td_accel_found){0};
	for (size_t k = 0; k < td_accels_n(a) && !ret->of; k++) {
		const yyjson_val *of = td_accels_at(a, k);
		if (skip && td_streq(td_jstr(of, "resource"), skip))
			continue;
		yyjson_arr_foreach (td_jget(of, "find"), i, n, way)
			if (!ret->of)
				look(of, way, root, ret);
	}
	for (; ret->of; ret->numa_nodes++) {
		td_auto_free char *node = td_asprintf("%s/sys/devices/system/node/node%d", root, ret->numa_nodes);
		if (!td_path_exists(node))
			break;
	}
}

void td_accel_found_done(struct td_accel_found *f)
{
	for (int i = 0; i < f->n; i++)
		for (size_t k = 0; k < f->v[i].n_files; k++)
			free(f->v[i].files[k]);
	td_strv_done(&f->shared);
	*f = (struct td_accel_found){0};
}

static void text(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const char *v)
{
	td_jm_str(d, o, key, v && *v ? v : NULL);
}

char *td_accel_inventory(const struct td_accel_found *f)
{
	if (!f->of)
		return NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	text(d, root, "resource", td_jstr(f->of, "resource"));
	text(d, root, "type", td_jstr(f->of, "type"));
	text(d, root, "slurmFlags", td_jstr(f->of, "slurmFlags"));
	if (f->numa_nodes)
		td_jm_int(d, root, "numaNodes", f->numa_nodes);
	yyjson_mut_val *list = td_jm_arr(d, root, "gpus");
	for (int i = 0; i < f->n; i++) {
		const struct td_accel *x = &f->v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		text(d, o, "product", x->product);
		text(d, o, "file", x->files[0]);
		text(d, o, "pci", x->pci);
		text(d, o, "cpus", x->cpus);
		if (x->numa >= 0)
			td_jm_int(d, o, "numa", x->numa);
	}
	return td_json_mut_text(root, NULL);
}
