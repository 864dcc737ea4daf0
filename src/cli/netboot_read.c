// What the boot service has of a machine, and the script that it boots by.
#include "cli/netboot.h"

#include "api/names.h"
#include "base/embedded.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_cli_files[];

enum { FILE_MAX = 64 * 1024 };

void td_netboot_machine_done(struct td_netboot_machine *m)
{
	td_json_unref(m->doc);
	td_json_unref(m->manifest);
	free(m->image);
	*m = (struct td_netboot_machine){0};
}

bool td_netboot_id_fits(const char *id)
{
	size_t n = strlen(id);
	return (n == TD_NETBOOT_ID || n == 17) && strspn(id, "0123456789abcdef-") == n;
}

bool td_netboot_name_fits(const char *s)
{
	size_t n = strlen(s);
	return n && n <= 100 && s[0] != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int read_doc(const char *path, struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_json_list struct td_json_list l = {0};
	int r = td_file_read(path, FILE_MAX, &b, err);
	if (r)
		return r;
	if ((r = td_yaml_parse(td_buf_str(&b), b.len, &l, err)))
		return td_wrap(err, "%s", path);
	if (l.n != 1)
		return td_fail(err, TD_INVALID, "%s: it has %zu documents instead of one", path, l.n);
	*ret = td_json_ref(l.v[0]);
	return 0;
}

// NAMESPACE/NAME.
static bool nodeset_fits(const char *s)
{
	const char *slash = strchr(s, '/');
	return slash && slash != s && slash[1] && !strchr(slash + 1, '/');
}

// A field that names something of the directory.
static const char *name_in(const struct td_json *doc, const char *path, const char *field, struct td_error *err)
{
	const char *s = td_jstr(td_json_root(doc), field);
	if (s && td_netboot_name_fits(s))
		return s;
	td_fail(err, TD_INVALID, "%s: %s: give a name of letters, digits, dots and dashes", path, field);
	return NULL;
}

int td_netboot_read(const char *dir, const char *id, struct td_netboot_machine *ret, struct td_error *err)
{
	td_auto_machine struct td_netboot_machine m = {0};
	td_auto(td_json_unref) struct td_json *group = NULL;
	td_auto_free char *path = td_asprintf("%s/machines/%s.yaml", dir, id);
	int r = td_netboot_id_fits(id) ? read_doc(path, &m.doc, err) : td_fail(err, TD_NOT_FOUND, "no id");
	if (r)
		return r == TD_NOT_FOUND
			       ? td_fail(err, r, "there is no machine %.40s: %s/machines/ has a file for each", id, dir)
			       : r;
	if (!(m.node = name_in(m.doc, path, "node", err)) || !(m.group = name_in(m.doc, path, "group", err)))
		return TD_INVALID;
	if (td_jget(td_json_root(m.doc), "nodeset") && !nodeset_fits(td_jstr_or(td_json_root(m.doc), "nodeset", "")))
		return td_fail(err, TD_INVALID, "%s: nodeset: give NAMESPACE/NAME", path);
	td_auto_free char *groups = td_asprintf("%s/groups/%s.yaml", dir, m.group);
	const char *image;
	if ((r = read_doc(groups, &group, err))) {
		td_wrap(err, "the group of machine %s", id);
		return r == TD_NOT_FOUND ? TD_INVALID : r;
	}
	if (!(image = name_in(group, groups, "image", err)))
		return TD_INVALID;
	if (!td_is_label_value(image)) // the node gets it as a label
		return td_fail(
			err, TD_INVALID,
			"%s: image: a name begins and ends with a letter or digit and has at most 63 characters, "
			"as a label has",
			groups);
	m.image = td_strdup(image);
	td_auto_free char *manifest = td_asprintf("%s/images/%s/manifest.json", dir, image);
	if ((r = read_doc(manifest, &m.manifest, err)))
		return r == TD_NOT_FOUND ? TD_INVALID : r;
	if (!name_in(m.manifest, manifest, "kernel", err) || !name_in(m.manifest, manifest, "initrd", err))
		return TD_INVALID;
	*ret = m;
	m = (struct td_netboot_machine){0};
	return 0;
}

char *td_netboot_script(const struct td_netboot_machine *m, const char *id, const char *base, const char *nonce)
{
	const struct td_embedded *f = td_embedded(td_cli_files, "machine.ipxe");
	const char *const words[][2] = {{"{base}", base},
					{"{image}", m->image},
					{"{node}", m->node},
					{"{id}", id},
					{"{nonce}", nonce},
					{"{kernel}", td_jstr(td_json_root(m->manifest), "kernel")},
					{"{initrd}", td_jstr(td_json_root(m->manifest), "initrd")},
					{"{cmdline}", td_jstr_or(td_json_root(m->manifest), "cmdline", "")}};
	td_auto_buf struct td_buf b = {0};
	for (const char *s = f->text; *s;) {
		size_t i = 0;
		while (i < TD_LEN(words) && strncmp(s, words[i][0], strlen(words[i][0])) != 0)
			i++;
		if (i < TD_LEN(words)) {
			td_buf_puts(&b, words[i][1]);
			s += strlen(words[i][0]);
		} else {
			td_buf_add(&b, s++, 1);
		}
	}
	return td_buf_take(&b);
}
