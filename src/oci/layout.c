#include "oci/layout.h"

#include "oci/image_internal.h"
#include "oci/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { DOC_MAX = 8 << 20, NEST_MAX = 3, CANDIDATES_MAX = 256, LAYERS_MAX = 512 };

void img_source_done(struct img_source *s)
{
	free(s->name);
	td_json_unref(s->config);
	for (size_t i = 0; i < s->n; i++)
		free(s->layers[i].path);
	free(s->layers);
	*s = (struct img_source){0};
}

// ---- files of the layout ----
int img_layout_open(int root, const char *path, int *ret_fd, struct td_error *err)
{
	// O_NONBLOCK: opening a pipe must not wait for its writer.
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	td_auto_close int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	struct stat st;
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INVALID, errno, "%.200s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return td_fail(err, TD_INVALID, "%.200s is no file", path);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}

// Reads a JSON file of the layout. digest is the one that the file must have; NULL: any.
static int document(int root, const char *path, const char *digest, struct td_json **ret, struct td_error *err)
{
	td_auto_close int fd = -1;
	struct stat st;
	int r = img_layout_open(root, path, &fd, err);
	if (r)
		return r;
	if (fstat(fd, &st) < 0 || st.st_size > DOC_MAX)
		return td_fail(err, TD_INVALID, "%.200s: larger than %d MiB", path, DOC_MAX >> 20);

	td_auto_free char *s = td_malloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, s, (size_t)st.st_size, 0);
	if (n != st.st_size)
		return td_fail(err, TD_TRANSIENT, "%.200s: cut short", path);

	char is[65];
	if (digest && (r = td_file_digest(fd, path, NULL, is, err)))
		return r;
	if (digest && strcmp(is, digest) != 0)
		return td_fail(err, TD_INVALID,
			       "%.200s: its digest is sha256:%s: it is damaged or not what was asked for", path, is);

	r = td_json_parse(s, (size_t)n, ret, err);
	return r ? td_wrap(err, "%.200s", path) : 0;
}

static bool digest_hex(const char *digest, char ret[65])
{
	if (!digest || !td_starts(digest, "sha256:") || strlen(digest) != 7 + 64 ||
	    strspn(digest + 7, "0123456789abcdef") != 64)
		return false;
	memcpy(ret, digest + 7, 65);
	return true;
}

static int blob(int root, const yyjson_val *descriptor, const char *what, char ret_hex[65], struct td_json **ret,
		struct td_error *err)
{
	const char *d = td_jstr_or(descriptor, "digest", "");
	if (!digest_hex(d, ret_hex))
		return td_fail(err, TD_INVALID, "%s: digest \"%.100s\": only sha256 is known", what, d);
	td_auto_free char *path = td_asprintf("blobs/sha256/%s", ret_hex);
	int r = document(root, path, ret_hex, ret, err);
	return r ? td_wrap(err, "%s", what) : 0;
}

// ---- this machine ----
static const char *our_arch(void)
{
	static const char *const map[][2] = {
		{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"i686", "386"}, {"armv7l", "arm"}};
	static struct utsname u;
	uname(&u);
	for (size_t i = 0; i < TD_LEN(map); i++)
		if (!strcmp(u.machine, map[i][0]))
			return map[i][1];
	return u.machine;
}

static bool ours(const char *os, const char *arch)
{
	return (!os || !strcmp(os, "linux")) && (!arch || !strcmp(arch, our_arch()));
}

// ---- which image ----
struct candidate {
	const char *name;    // NULL: it has none
	struct td_json *doc; // the manifest (OCI), or the item of manifest.json
	char key[65];
};

struct search {
	int root;
	struct td_json *docs[CANDIDATES_MAX]; // own what names and descriptors point into
	size_t n_docs;
	struct candidate v[CANDIDATES_MAX];
	size_t n;
	struct td_buf others; // other machines that there are images for: "linux/arm64, …"
};

static void search_done(struct search *s)
{
	for (size_t i = 0; i < s->n_docs; i++)
		td_json_unref(s->docs[i]);
	td_buf_done(&s->others);
	free(s);
}

static void search_free(struct search **s)
{
	if (*s)
		search_done(*s);
}

static const char *own_name(const yyjson_val *descriptor)
{
	const yyjson_val *a = td_jget(descriptor, "annotations");
	const char *full = td_jkey_str(a, "io.containerd.image.name");
	return full ? full : td_jkey_str(a, "org.opencontainers.image.ref.name");
}

static void no_match(struct search *s, const char *os, const char *arch)
{
	td_auto_free char *text =
		td_asprintf("%s%.40s/%.40s", s->others.len ? ", " : "", os ? os : "?", arch ? arch : "?");
	if (s->others.len < 200)
		td_buf_puts(&s->others, text);
}

static int keep(struct search *s, struct td_json *doc, struct td_error *err)
{
	if (s->n_docs == CANDIDATES_MAX) {
		td_json_unref(doc);
		return td_fail(err, TD_INVALID, "more than %d manifests", CANDIDATES_MAX);
	}
	s->docs[s->n_docs++] = doc;
	return 0;
}

static int walk(struct search *s, const yyjson_val *index, const char *name, int depth, struct td_error *err)
{
	yyjson_val *d;
	size_t i, n;
	if (!yyjson_is_arr(td_jget(index, "manifests")))
		return td_fail(err, TD_INVALID, "an index without manifests");

	yyjson_arr_foreach (td_jget(index, "manifests"), i, n, d) {
		const char *type = td_jstr_or(d, "mediaType", ""), *arch = td_jstr(d, "platform.architecture"),
			   *os = td_jstr(d, "platform.os");
		const char *called = own_name(d) ? own_name(d) : name;
		bool nested = strstr(type, "image.index") || strstr(type, "manifest.list");
		// Signatures and attestations of an image lie beside it as manifests for a machine
		// "unknown".
		if (td_jkey(td_jget(d, "annotations"), "vnd.docker.reference.type") || td_streq(arch, "unknown") ||
		    (*type && !nested && !strstr(type, "image.manifest") && !strstr(type, "distribution.manifest.v2")))
			continue;

		if (!nested && !ours(os, arch)) {
			no_match(s, os, arch);
			continue;
		}

		struct td_json *doc = NULL;
		char hex[65];
		int r = blob(s->root, d, nested ? "index" : "manifest", hex, &doc, err);
		if (r || (r = keep(s, doc, err)))
			return r;

		if (nested || td_jget(td_json_root(doc), "manifests")) {
			r = depth == NEST_MAX
				    ? td_fail(err, TD_INVALID, "indexes inside of indexes, more than %d deep", NEST_MAX)
				    : walk(s, td_json_root(doc), called, depth + 1, err);
			if (r)
				return r;
			continue;
		}

		if (s->n == CANDIDATES_MAX)
			return td_fail(err, TD_INVALID, "more than %d images", CANDIDATES_MAX);
		struct candidate *c = &s->v[s->n++];
		*c = (struct candidate){.name = called, .doc = doc};
		memcpy(c->key, hex, 65);
	}
	return 0;
}

static bool same_image(const char *a, const char *b)
{
	td_auto_free char *an = NULL, *at = NULL, *bn = NULL, *bt = NULL;
	return !img_name(a, &an, &at, NULL) && !img_name(b, &bn, &bt, NULL) && !strcmp(an, bn) && !strcmp(at, bt);
}

// Finds the image that is meant: the one with the wanted name, or the only one.
static int pick(const struct search *s, const char *want, size_t *ret, struct td_error *err)
{
	td_auto_buf struct td_buf names = {0};
	bool several = false;

	for (size_t i = 0; i < s->n; i++) {
		if (want && s->v[i].name && same_image(want, s->v[i].name)) {
			*ret = i;
			return 0;
		}
		several = several || strcmp(s->v[i].key, s->v[0].key) != 0;
		if (names.len < 300)
			td_buf_printf(&names, "%s%.100s", i ? ", " : "",
				      s->v[i].name ? s->v[i].name : "one without a name");
	}

	if (!s->n)
		return td_fail(err, TD_NOT_FOUND, "it holds no image for linux/%s%s%s", our_arch(),
			       s->others.len ? ", but for " : "", td_buf_str(&s->others));
	if (several)
		return td_fail(err, TD_NOT_FOUND, "it holds several images: say which by its name (%s)",
			       td_buf_str(&names));

	*ret = 0;
	return 0;
}

// ---- what it is made of ----
static int take_config(int root, const yyjson_val *diff_ids, size_t want, struct img_source *s, struct td_error *err)
{
	const yyjson_val *c = td_json_root(s->config);
	if (!ours(td_jstr(c, "os"), td_jstr(c, "architecture")))
		return td_fail(err, TD_NOT_FOUND, "the image is for %s/%s, this machine is linux/%s",
			       td_jstr_or(c, "os", "?"), td_jstr_or(c, "architecture", "?"), our_arch());

	if (!yyjson_is_arr((yyjson_val *)diff_ids) || yyjson_arr_size((yyjson_val *)diff_ids) != want ||
	    want > LAYERS_MAX)
		return td_fail(err, TD_INVALID,
			       "the manifest has %zu layers, the configuration's rootfs.diff_ids %zu (at most %d)",
			       want, yyjson_arr_size((yyjson_val *)diff_ids), LAYERS_MAX);

	s->layers = td_calloc(want ? want : 1, sizeof(*s->layers));
	s->n = want;
	for (size_t i = 0; i < want; i++)
		if (!digest_hex(yyjson_get_str(yyjson_arr_get((yyjson_val *)diff_ids, i)), s->layers[i].diff_id))
			return td_fail(err, TD_INVALID,
				       "the configuration's rootfs.diff_ids[%zu]: only sha256 is known", i);
	return 0;
}

static int read_oci(int root, const struct candidate *c, struct img_source *s, struct td_error *err)
{
	const yyjson_val *m = td_json_root(c->doc), *layers = td_jget(m, "layers");
	char hex[65];
	int r = blob(root, td_jget(m, "config"), "configuration", hex, &s->config, err);
	if (!r)
		r = take_config(root, td_jget(td_json_root(s->config), "rootfs.diff_ids"),
				yyjson_arr_size((yyjson_val *)layers), s, err);

	for (size_t i = 0; !r && i < s->n; i++) {
		const yyjson_val *d = yyjson_arr_get((yyjson_val *)layers, i);
		const char *type = td_jstr_or(d, "mediaType", "");
		if (!digest_hex(td_jstr(d, "digest"), s->layers[i].digest))
			return td_fail(err, TD_INVALID, "layer %zu: only sha256 digests are known", i);
		if ((*type && !strstr(type, ".tar")) || strstr(type, "encrypted"))
			return td_fail(err, TD_UNSUPPORTED,
				       "layer %zu is of type %.100s: only (compressed) tars are known", i, type);
		s->layers[i].path = td_asprintf("blobs/sha256/%s", s->layers[i].digest);
	}
	return r;
}

static int read_docker(int root, const struct candidate *c, struct img_source *s, struct td_error *err)
{
	const yyjson_val *m = td_json_root(c->doc), *layers = td_jget(m, "Layers");
	const char *path = td_jstr_or(m, "Config", "");
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char digest[65] = "";
	td_auto_close int fd = -1;

	if (strspn(base, "0123456789abcdef") == 64 && (!base[64] || !strcmp(base + 64, ".json")))
		memcpy(digest, base, 64);
	int r = document(root, path, *digest ? digest : NULL, &s->config, err);
	if (!r)
		r = img_layout_open(root, path, &fd, err);
	if (!r)
		r = td_file_digest(fd, path, NULL, s->key, err);
	if (!r)
		r = take_config(root, td_jget(td_json_root(s->config), "rootfs.diff_ids"),
				yyjson_arr_size((yyjson_val *)layers), s, err);

	for (size_t i = 0; !r && i < s->n; i++) {
		const char *p = yyjson_get_str(yyjson_arr_get((yyjson_val *)layers, i));
		if (!p)
			return td_fail(err, TD_INVALID, "manifest.json: Layers[%zu] is no string", i);
		s->layers[i].path = td_strdup(p);
	}
	return r;
}

static int docker_items(struct search *s, const yyjson_val *list, struct td_error *err)
{
	yyjson_val *item, *tag;
	size_t i, n, k, m;
	if (!yyjson_is_arr((yyjson_val *)list))
		return td_fail(err, TD_INVALID, "manifest.json is no list");

	yyjson_arr_foreach ((yyjson_val *)list, i, n, item) {
		struct td_json *doc = td_json_from_val(item);
		int r = keep(s, doc, err);
		if (r)
			return r;

		size_t tags = yyjson_arr_size(td_jget(td_json_root(doc), "RepoTags"));
		struct candidate c = {.doc = doc};
		// Distinguishes one image from another.
		snprintf(c.key, sizeof(c.key), "%.60s", td_jstr_or(item, "Config", ""));
		if (s->n + (tags ? tags : 1) > CANDIDATES_MAX)
			return td_fail(err, TD_INVALID, "more than %d images", CANDIDATES_MAX);

		if (!tags)
			s->v[s->n++] = c;
		yyjson_arr_foreach (td_jget(td_json_root(doc), "RepoTags"), k, m, tag) {
			c.name = yyjson_get_str(tag);
			s->v[s->n++] = c;
		}
	}
	return 0;
}

static bool is_file(int root, const char *name)
{
	td_auto_close int fd = -1;
	return img_layout_open(root, name, &fd, NULL) == 0;
}

bool img_is_layout(int root)
{
	return is_file(root, "index.json") || is_file(root, "manifest.json");
}

int img_layout_read(int root, const char *want, struct img_source *ret, struct td_error *err)
{
	struct search *s __attribute__((cleanup(search_free))) = td_calloc(1, sizeof(*s));
	bool oci = is_file(root, "index.json");
	const char *first = oci ? "index.json" : "manifest.json";
	struct td_json *doc = NULL;
	struct img_source out = {0};
	size_t at = 0;

	s->root = root;
	int r = document(root, first, NULL, &doc, err);
	if (!r)
		r = keep(s, doc, err);
	if (!r)
		r = oci ? walk(s, td_json_root(doc), NULL, 0, err) : docker_items(s, td_json_root(doc), err);
	if (!r)
		r = pick(s, want, &at, err);
	if (r)
		return r;

	const struct candidate *c = &s->v[at];
	memcpy(out.key, c->key, 65);
	r = oci ? read_oci(root, c, &out, err) : read_docker(root, c, &out, err);
	if (r) {
		img_source_done(&out);
		return r;
	}

	out.name = c->name ? td_strdup(c->name) : NULL;
	*ret = out;
	return 0;
}
