#include "gate/podframes.h"

#include "base/file.h"
#include "base/mem.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 4, THREADS = 32, ONE = 240, NAME = 64, MAPS_MAX = 1 << 20, STATUS_MAX = 65536 };

struct frame_kind { // threads that are in the same functions
	char at[ONE], name[NAME];
	int n;
};

// Only what a name may have is kept.
static void clean(const char *from, char *ret, size_t size)
{
	size_t n = 0;
	for (; from && *from && n + 1 < size; from++)
		ret[n++] = (char)(isalnum((unsigned char)*from) || strchr("_.-:/+<>", *from) ? *from : '_');
	ret[n] = '\0';
}

static void thread(yyjson_val *t, struct frame_kind *k)
{
	yyjson_val *f;
	size_t i, n, len = 0;
	clean(td_jstr_or(t, "thread_name", "thread"), k->name, sizeof(k->name));
	*k->at = '\0';
	k->n = 1;
	yyjson_arr_foreach (td_jget(t, "frames"), i, n, f) {
		char name[NAME], file[NAME];
		if (i >= FRAMES)
			break;
		clean(td_jstr_or(f, "name", "?"), name, sizeof(name));
		clean(td_jstr_or(f, "short_filename", "?"), file, sizeof(file));
		int w = snprintf(k->at + len, sizeof(k->at) - len, "%s%s (%s:%lld)", i ? " < " : "", name, file,
				 (long long)td_jint(f, "line", 0));
		if (w < 0 || (size_t)w >= sizeof(k->at) - len) {
			k->at[len] = '\0';
			break;
		}
		len += (size_t)w;
	}
}

void td_podframes_words(const char *json, size_t n, char *ret, size_t size)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free struct frame_kind *v = td_calloc(THREADS, sizeof(*v));
	size_t kinds = 0, len = 0, i, m;
	yyjson_val *t;
	*ret = '\0';
	if (!n || n > TD_PODFRAMES_JSON || td_json_parse(json, n, &j, NULL))
		return;
	yyjson_arr_foreach (td_json_root(j), i, m, t) {
		struct frame_kind k;
		size_t x = 0;
		thread(t, &k);
		while (x < kinds && strcmp(v[x].at, k.at) != 0)
			x++;
		if (!*k.at || (x == kinds && kinds == THREADS))
			continue;
		if (x < kinds)
			v[x].n++;
		else
			v[kinds++] = k;
	}
	// The main thread says most; it comes last in what py-spy says.
	for (size_t x = kinds; x-- > 0;) {
		char more[32] = "";
		if (v[x].n > 1)
			snprintf(more, sizeof(more), " (%d threads)", v[x].n);
		int w = snprintf(ret + len, size - len, "%s%s: %s%s", len ? "; " : "", v[x].name, v[x].at, more);
		if (w < 0 || (size_t)w >= size - len) {
			ret[len] = '\0';
			return;
		}
		len += (size_t)w;
	}
}

bool td_podframes_python(const char *proc, pid_t pid)
{
	td_auto_free char *path = td_asprintf("%s/%d/maps", proc, (int)pid);
	FILE *f = fopen(path, "re");
	char line[512];
	size_t seen = 0;
	bool is = false;
	while (f && !is && seen < MAPS_MAX && fgets(line, sizeof(line), f)) {
		const char *name = strrchr(line, '/');
		seen += strlen(line);
		is = name && (!strncmp(name, "/python", 7) || !strncmp(name, "/libpython", 10));
	}
	if (f)
		fclose(f);
	return is;
}

pid_t td_podframes_inner(const char *proc, pid_t pid)
{
	td_auto_free char *path = td_asprintf("%s/%d/status", proc, (int)pid);
	td_auto_buf struct td_buf b = {0};
	const char *s = td_file_read(path, STATUS_MAX, &b, NULL) ? NULL : strstr(td_buf_str(&b), "\nNSpid:");
	pid_t last = 0;
	for (s = s ? s + strlen("\nNSpid:") : ""; *s && *s != '\n';) {
		char *end;
		long one = strtol(s, &end, 10);
		if (end == s)
			break;
		last = (pid_t)one;
		s = end;
	}
	return last > 0 ? last : 0;
}
