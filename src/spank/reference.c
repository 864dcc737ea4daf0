// Names of images. Sources: the reference grammar of the OCI Distribution Specification 1.1, and
// enroot's import(1) for REGISTRY#IMAGE.
#include "spank/reference.h"

#include <fnmatch.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool all_of(const char *s, size_t n, const char *chars)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr(chars, s[i]))
			return false;
	return n > 0;
}

static bool is_path(const char *s)
{
	size_t n = strlen(s);
	return n < 256 && all_of(s, n, LOWER "._-/") && s[0] != '/' && s[n - 1] != '/' && !strstr(s, "//") &&
	       !strstr(s, "..");
}

void td_ct_reference_done(struct td_ct_reference *r)
{
	free(r->registry);
	free(r->path);
	free(r->tag);
	free(r->digest);
	*r = (struct td_ct_reference){0};
}

static int wrong(const char *text, const char *why, struct td_error *err)
{
	return td_fail(err, TD_INVALID,
		       "--container-image=%.200s: %s; write [REGISTRY#]IMAGE[:TAG], such as debian:13 or "
		       "nvcr.io#nvidia/pytorch:25.01-py3, or REGISTRY/IMAGE[:TAG]",
		       text, why);
}

int td_ct_reference_parse(const char *text, struct td_ct_reference *ret, struct td_error *err)
{
	const char *s = text;
	if (strlen(text) > 512)
		return wrong(text, "it is longer than 512 characters", err);
	if (td_starts(s, "dockerd://") || td_starts(s, "podman://"))
		return wrong(text, "there is no such daemon on the node", err);
	if (td_starts(s, "docker://"))
		s += strlen("docker://");

	td_auto_reference struct td_ct_reference r = {0};
	const char *hash = strchr(s, '#'), *slash = strchr(s, '/');
	// "user@" stands before the registry only; "@sha256:" stands behind the path.
	const char *at = hash ? memchr(s, '@', (size_t)(hash - s)) : NULL;
	if (at)
		s = at + 1;
	if (hash) {
		r.registry = td_strndup(s, (size_t)(hash - s));
		s = hash + 1;
	} else if (slash && (memchr(s, '.', (size_t)(slash - s)) || memchr(s, ':', (size_t)(slash - s)) ||
			     !strncmp(s, "localhost/", 10))) {
		r.registry = td_strndup(s, (size_t)(slash - s));
		s = slash + 1;
	} else {
		r.registry = td_strdup("docker.io");
	}
	if (!all_of(r.registry, strlen(r.registry), LOWER UPPER ".-:[]"))
		return wrong(text, "the registry is no host name with a port", err);

	const char *digest = strchr(s, '@');
	td_auto_free char *rest = digest ? td_strndup(s, (size_t)(digest - s)) : td_strdup(s);
	if (digest) {
		if (strncmp(digest, "@sha256:", 8) != 0 || strlen(digest + 8) != 64 ||
		    !all_of(digest + 8, 64, "0123456789abcdef"))
			return wrong(text, "a digest is sha256: and 64 hexadecimal digits", err);
		r.digest = td_strdup(digest + 1);
	}

	char *colon = strrchr(rest, ':');
	if (colon) {
		*colon = '\0';
		size_t n = strlen(colon + 1);
		if (n > 128 || !all_of(colon + 1, n, LOWER UPPER "_.-") || strchr(".-", colon[1]))
			return wrong(text, "the tag is letters, digits, '_', '.' and '-', at most 128", err);
	}
	if (!r.digest)
		r.tag = td_strdup(colon ? colon + 1 : "latest");
	if (!*rest || !is_path(rest))
		return wrong(text, "the image's name is lower-case letters, digits, '.', '_', '-' and '/'", err);
	bool hub = !strcmp(r.registry, "docker.io") && !strchr(rest, '/');
	r.path = td_asprintf("%s%s", hub ? "library/" : "", rest);

	*ret = r;
	r = (struct td_ct_reference){0};
	return 0;
}

char *td_ct_reference_text(const struct td_ct_reference *r)
{
	return td_asprintf("%s/%s%s%s", r->registry, r->path, r->digest ? "@" : ":", r->digest ? r->digest : r->tag);
}

bool td_ct_pattern_allows(const char *pattern, const struct td_ct_reference *r)
{
	td_auto_free char *full = td_ct_reference_text(r), *plain = td_asprintf("%s/%s", r->registry, r->path);
	// A pattern is a name too: "debian:13" means what it means as an image.
	td_auto_reference struct td_ct_reference p = {0};
	td_auto_free char *its = NULL;
	if (!strpbrk(pattern, "*?[") && !td_ct_reference_parse(pattern, &p, NULL))
		its = td_ct_reference_text(&p);
	return fnmatch(pattern, full, 0) == 0 || fnmatch(pattern, plain, 0) == 0 || (its && !strcmp(its, full));
}

bool td_ct_pattern_allows_path(const char *pattern, const char *path)
{
	return pattern[0] == '/' && fnmatch(pattern, path, 0) == 0;
}

bool td_ct_is_path(const char *image)
{
	return image[0] == '/' || image[0] == '.';
}
