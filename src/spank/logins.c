// Credentials for registries.
#include "spank/logins.h"

#include <string.h>

static void base64(const char *s, size_t n, struct td_buf *out)
{
	static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)(unsigned char)s[i] << 16;
		if (i + 1 < n)
			v |= (unsigned)(unsigned char)s[i + 1] << 8;
		if (i + 2 < n)
			v |= (unsigned char)s[i + 2];
		td_buf_putc(out, abc[v >> 18 & 63]);
		td_buf_putc(out, abc[v >> 12 & 63]);
		td_buf_putc(out, i + 1 < n ? abc[v >> 6 & 63] : '=');
		td_buf_putc(out, i + 2 < n ? abc[v & 63] : '=');
	}
}

static bool is_for(const char *machine, const char *registry)
{
	return !strcmp(machine, registry) || (!strcmp(registry, "docker.io") && !strcmp(machine, "auth.docker.io"));
}

char *td_ct_logins_netrc(const char *text, const char *registry)
{
	td_auto_free char *copy = td_strdup(text);
	for (char *p = copy; *p; p++)
		if (strchr("\t\r\n", *p))
			*p = ' ';
	td_auto_strv struct td_strv w = {0};
	td_strv_split(&w, copy, ' ');

	const char *user = NULL, *secret = NULL;
	bool ours = false;
	for (size_t i = 0; i + 1 < w.n && !(user && secret); i++) {
		if (!strcmp(w.v[i], "machine")) {
			ours = is_for(w.v[++i], registry);
			user = secret = NULL;
		} else if (ours && !strcmp(w.v[i], "login")) {
			user = w.v[++i];
		} else if (ours && !strcmp(w.v[i], "password")) {
			secret = w.v[++i];
		}
	}
	if (!user || !secret)
		return NULL;

	td_auto_free char *pair = td_asprintf("%s:%s", user, secret);
	struct td_buf out = {0};
	td_buf_printf(&out, "{\"auths\":{\"%s\":{\"auth\":\"", registry);
	base64(pair, strlen(pair), &out);
	td_buf_puts(&out, "\"}}}\n");
	explicit_bzero(pair, strlen(pair));
	return td_buf_take(&out);
}
