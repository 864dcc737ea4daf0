// A machine's disks, by sysfs: those that are devices, not what is made of them or of memory.
#include "checkup/checkup.h"

#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { EVERY_MS = 60000, FILES_MAX = 256, TEXT_MAX = 512 << 10, OLD_MS = 24 * 3600 * 1000, SECTOR = 512 };

struct td_disks {
	struct td_checkup_disk v[TD_DISKS];
	struct td_checkup_disk bare[TD_DISKS], filed[TD_DISKS]; // the same without what is said of them, and by files
	int n;
	struct td_nvmes *nvmes;
	struct {
		char name[32];
		struct td_rate media;
		struct td_lasts hot;
	} past[TD_DISKS];
	int pasts;
	bool looked;
	int64_t looked_ms;
};

struct td_disks *td_disks_new(void)
{
	return td_disks_new_with(td_nvme_ask, NULL);
}

struct td_disks *td_disks_new_with(td_nvme_ask_f *ask, void *ctx)
{
	struct td_disks *d = td_calloc(1, sizeof(*d));
	d->nvmes = td_nvmes_new(ask, ctx);
	return d;
}

struct td_disks *td_disks_free(struct td_disks *d)
{
	if (d)
		td_nvmes_free(d->nvmes);
	free(d);
	return NULL;
}

// What the file says, without blanks around it, in plain characters.
static void word(char *ret, size_t size, const char *dir, const char *file)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, file);
	td_auto_buf struct td_buf b = {0};
	*ret = '\0';
	if (!td_file_read(path, 4096, &b, NULL))
		td_checkup_word(ret, size, td_buf_str(&b), strcspn(td_buf_str(&b), "\n"));
}

static int64_t number(const char *dir, const char *file)
{
	char text[32];
	long long n;
	word(text, sizeof(text), dir, file);
	return td_parse_i64(text, &n) ? n : -1;
}

// SCSI's page 0x80: four bytes, the last of which is the length, and the serial number.
static void serial_of_scsi(struct td_checkup_disk *d, const char *dir)
{
	td_auto_free char *path = td_asprintf("%s/vpd_pg80", dir);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, 4096, &b, NULL) || b.len < 5)
		return;
	const char *p = td_buf_str(&b) + 4;
	size_t n = strnlen(p, b.len - 4), at = 0;
	for (size_t i = 0; i < n && at + 1 < sizeof(d->serial); i++)
		if (isgraph((unsigned char)p[i]) && p[i] != '"' && p[i] != '\\')
			d->serial[at++] = p[i];
	d->serial[at] = '\0';
}

static bool is_disk(const char *name, const char *dir)
{
	static const char *const none[] = {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "rbd", "drbd"};
	for (size_t i = 0; i < TD_LEN(none); i++)
		if (td_starts(name, none[i]))
			return false;
	td_auto_free char *device = td_asprintf("%s/device", dir);
	return td_path_exists(device) && number(dir, "removable") != 1;
}

static void inventory(struct td_disks *all, const char *root, const char *name)
{
	td_auto_free char *dir = td_asprintf("%s/sys/block/%s", root, name), *device = td_asprintf("%s/device", dir);
	if (all->n >= TD_DISKS || strlen(name) >= sizeof(all->v[0].name) || !is_disk(name, dir))
		return;
	struct td_checkup_disk *d = &all->v[all->n++];
	*d = (struct td_checkup_disk){.temp_c = -1, .used = -1, .spare = -1};
	snprintf(d->name, sizeof(d->name), "%s", name);
	snprintf(d->kind, sizeof(d->kind), "%s",
		 td_starts(name, "nvme")                ? "nvme"
		 : number(dir, "queue/rotational") == 1 ? "hdd"
							: "ssd");
	const int64_t sectors = number(dir, "size");
	d->bytes = sectors > 0 ? sectors * SECTOR : 0;
	word(d->model, sizeof(d->model), device, "model");
	word(d->serial, sizeof(d->serial), device, "serial");
	word(d->firmware, sizeof(d->firmware), device, "firmware_rev");
	if (!*d->firmware)
		word(d->firmware, sizeof(d->firmware), device, "rev");
	if (!*d->serial)
		word(d->serial, sizeof(d->serial), dir, "serial"); // of virtio
	if (!*d->serial)
		serial_of_scsi(d, device);
}

// Is this device, "nvme0", the controller of the disk "nvme0n1", or the disk?
static bool is_of(const char *device, const char *disk)
{
	const size_t n = strlen(device);
	return !strcmp(device, disk) || (td_starts(disk, "nvme") && !strncmp(device, disk, n) && disk[n] == 'n');
}

// What an NVMe drive says itself goes before a file, which may be a day old: its counters would seem to grow.
static void ask_nvme(struct td_disks *all, int i, const char *root, bool due, int64_t now_ms)
{
	struct td_checkup_disk is = all->bare[i];
	// "nvme0n1" → "nvme0"
	const size_t digits = strspn(is.name + strlen("nvme"), "0123456789");
	td_auto_free char *path = td_asprintf("%s/dev/nvme%.*s", root, (int)digits, is.name + strlen("nvme"));
	const bool own = digits && td_nvmes_look(all->nvmes, path, due, now_ms, &is) != TD_NVME_CLOSED;
	all->v[i] = own ? is : all->filed[i];
}

static void one_file(struct td_disks *all, const char *path, int64_t now_ms)
{
	struct stat st;
	td_auto_buf struct td_buf b = {0};
	struct td_checkup_disk said = {0};
	char device[32];
	if (stat(path, &st) || !S_ISREG(st.st_mode) || now_ms - (int64_t)st.st_mtime * 1000 > OLD_MS ||
	    td_file_read(path, TEXT_MAX, &b, NULL) || !td_smart_json(td_buf_str(&b), b.len, device, &said))
		return;
	for (int i = 0; i < all->n; i++) {
		struct td_checkup_disk *d = &all->v[i];
		if (d->smart || !is_of(device, d->name))
			continue; // another file has told
		struct td_checkup_disk is = *d;
		*d = said;
		memcpy(d->name, is.name, sizeof(is.name));
		memcpy(d->kind, is.kind, sizeof(is.kind));
		memcpy(d->model, is.model, sizeof(is.model));
		memcpy(d->serial, is.serial, sizeof(is.serial));
		memcpy(d->firmware, is.firmware, sizeof(is.firmware));
		d->bytes = is.bytes;
	}
}

static void files(struct td_disks *all, const char *root, int64_t now_ms)
{
	td_auto_free char *dir = td_asprintf("%s/run/tandem/smart", root);
	DIR *d = opendir(dir);
	int n = 0;
	for (struct dirent *e; d && n < FILES_MAX && (e = readdir(d));) {
		if (e->d_name[0] == '.' || !td_ends(e->d_name, ".json"))
			continue;
		td_auto_free char *path = td_asprintf("%s/%s", dir, e->d_name);
		one_file(all, path, now_ms);
		n++;
	}
	if (d)
		closedir(d);
}

// What was counted of late, and what lasts, of the disk.
static void past_of(struct td_disks *all, int64_t now_ms, struct td_checkup_disk *d)
{
	int i = 0;
	while (i < all->pasts && strcmp(all->past[i].name, d->name) != 0)
		i++;
	if (i == TD_DISKS)
		return;
	if (i == all->pasts)
		memcpy(all->past[all->pasts++].name, d->name, sizeof(d->name));
	if (d->media.known)
		td_rate_look(&all->past[i].media, now_ms, &d->media);
	d->hot_s = td_lasts_look(&all->past[i].hot, d->hot, now_ms);
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(((const struct td_checkup_disk *)a)->name, ((const struct td_checkup_disk *)b)->name);
}

static void look(struct td_disks *all, const char *root, int64_t real_ms)
{
	td_auto_free char *top = td_asprintf("%s/sys/block", root);
	DIR *d = opendir(top);
	all->n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.')
			inventory(all, root, e->d_name);
	if (d)
		closedir(d);
	qsort(all->v, (size_t)all->n, sizeof(all->v[0]), by_name);
	memcpy(all->bare, all->v, sizeof(all->v[0]) * (size_t)all->n);
	files(all, root, real_ms);
	memcpy(all->filed, all->v, sizeof(all->v[0]) * (size_t)all->n);
}

void td_disks_look(struct td_disks *all, const char *root, const struct td_clock *clock, struct td_checkup_facts *f)
{
	const int64_t now_ms = td_mono_ms(clock);
	const bool due = !all->looked || now_ms - all->looked_ms >= EVERY_MS;
	if (due) {
		look(all, root, td_real_ms(clock));
		all->looked = true;
		all->looked_ms = now_ms;
	}
	for (int i = 0; i < all->n; i++) {
		if (!strcmp(all->v[i].kind, "nvme"))
			ask_nvme(all, i, root, due, now_ms);
		past_of(all, now_ms, &all->v[i]);
	}
	memcpy(f->disks, all->v, sizeof(all->v[0]) * (size_t)all->n);
	f->n_disks = all->n;
}
