// tandem upload, tandem download: files into the home on the cluster and out of it. Both go on where a
// cut left them.
#include "cli/client.h"
#include "cli/ship.h"
#include "cmd/roles.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 20, ALL_TRIES = 3 };

// "~/data/x" and "/home/me/…" are not for the API: it takes paths below the home.
static const char *below_home(const char *p)
{
	return td_starts(p, "~/") ? p + 2 : !strcmp(p, "~") ? "" : p;
}

static int put_file(struct td_client *c, const struct td_ship *s, size_t i, const char *to, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "path", to);
	td_jm_bool(d, o, "exec", s->files[i].exec);
	yyjson_mut_val *a = td_jm_arr(d, o, "chunks");
	for (size_t k = 0; k < s->files[i].n; k++)
		yyjson_mut_arr_append(a, yyjson_mut_strcpy(d, s->chunks[s->files[i].first + k].hash));
	return td_client_call(c, "POST", "/api/v1/files", d, NULL, err);
}

static int upload(struct td_client *c, const char *from, const char *to, struct td_error *err)
{
	struct stat st;
	if (stat(from, &st) < 0)
		return td_fail_errno(err, TD_NOT_FOUND, errno, "%s", from);
	bool dir = S_ISDIR(st.st_mode), into = !*to || td_ends(to, "/");
	td_auto_free char *copy = td_strdup(from);
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	const char *base = strrchr(copy, '/') ? strrchr(copy, '/') + 1 : copy;
	td_auto_free char *target = into ? td_asprintf("%s%s", to, base) : td_strdup(to);
	td_auto_ship struct td_ship s = {0};
	s.dir = dir                ? td_strdup(copy)
		: base == copy     ? td_strdup(".")
		: base - copy == 1 ? td_strdup("/")
				   : td_strndup(copy, (size_t)(base - copy - 1));
	int r = dir ? td_ship_walk(&s, err) : td_ship_add(&s, base, err);
	long long sent = 0;
	if (!r)
		r = td_ship_send(&s, c, &sent, err);
	for (size_t i = 0; i < s.n && !r; i++) {
		td_auto_free char *there = dir ? td_asprintf("%s/%s", target, s.files[i].path) : td_strdup(target);
		r = put_file(c, &s, i, there, err);
	}
	char all[24], new[24];
	if (!r)
		fprintf(stderr, "%zu file%s, %s; %s sent.\n", s.n, s.n == 1 ? "" : "s",
			td_client_size(s.bytes, all, sizeof(all)), td_client_size(sent, new, sizeof(new)));
	return r;
}

int td_upload_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_command line = {
		.name = "upload",
		.about = "Copies a file or a directory into your home on the cluster:\n"
			 "  tandem upload data.bin             to ~/data.bin there\n"
			 "  tandem upload data.bin sets/       to ~/sets/data.bin\n"
			 "  tandem upload photos sets/photos   a directory\n"
			 "After a cut, the same command goes on. What .gitignore and .tandemignore of a directory name "
			 "is left out.",
		.min_args = 1,
		.max_args = 2,
		.args = "FILE [PATH]"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	td_auto_client struct td_client c = {0};
	if (td_client_open(&c, &err) || upload(&c, words[0], words[1] ? below_home(words[1]) : "", &err))
		return td_client_failed("upload", &err);
	return 0;
}

// ---- download ----

struct writer {
	int fd;
	long long at;
};

static int write_on(void *ctx, const char *p, size_t n)
{
	struct writer *w = ctx;
	w->at += (long long)n;
	return td_write_all(w->fd, p, n, NULL);
}

// What the file there is now: {size, modified}. Asked by its directory.
static int look(struct td_client *c, const char *path, long long *ret_size, long long *ret_modified,
		struct td_error *err)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	td_auto_free char *dir = td_strndup(path, slash ? (size_t)(slash - path) : 0);
	td_auto_buf struct td_buf url = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_buf_puts(&url, "/api/v1/files?path=");
	td_url_escape(&url, dir);
	int r = td_client_call(c, "GET", td_buf_str(&url), NULL, &j, err);
	if (r)
		return r;
	yyjson_val *f = td_jfind(td_jget(td_json_root(j), "files"), "name", base);
	if (!f || !td_streq(td_jstr(f, "type"), "file"))
		return td_fail(err, TD_NOT_FOUND, "your home there has no file %s", path);
	*ret_size = td_jint(f, "size", 0);
	*ret_modified = td_jint(f, "modified", 0);
	return 0;
}

// Half a file is kept beside its place, under a name that says of which it is a half.
static int download(struct td_client *c, const char *path, const char *to, struct td_error *err)
{
	long long size = 0, modified = 0;
	int r = look(c, path, &size, &modified, err);
	if (r)
		return r;
	td_auto_free char *part = td_asprintf("%s.part-%lld-%lld", to, size, modified);
	td_auto_close int fd = open(part, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return td_fail_errno(err, TD_INVALID, errno, "write %s", part);
	struct writer w = {.fd = fd, .at = lseek(fd, 0, SEEK_END)};
	for (int tries = 0; w.at < size;) {
		long long before = w.at;
		td_auto_buf struct td_buf url = {0};
		td_buf_puts(&url, "/api/v1/files/content?path=");
		td_url_escape(&url, path);
		td_buf_printf(&url, "&offset=%lld", w.at);
		r = td_client_stream(c, td_buf_str(&url), write_on, &w, err);
		if (r && r != TD_TRANSIENT && r != TD_UNCERTAIN)
			return r;
		tries = w.at > before ? 0 : tries + 1;
		if (tries == TRIES)
			return r ? r : td_fail(err, TD_TRANSIENT, "%s ends before its end", path);
		if (w.at < size)
			td_cancel_wait(NULL, 250);
	}
	if (w.at != size || fsync(fd) < 0) {
		unlink(part);
		return td_fail(err, TD_CONFLICT, "%s changed while it was read: download again", path);
	}
	return rename(part, to) < 0 ? td_fail_errno(err, TD_INVALID, errno, "write %s", to) : 0;
}

int td_download_main(int argc, char **argv)
{
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_command line = {.name = "download",
					.about = "Copies a file of your home on the cluster to this machine. After a "
						 "cut, the same command goes on.",
					.min_args = 1,
					.max_args = 2,
					.args = "PATH [FILE]"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	const char *path = below_home(words[0]), *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	td_auto_client struct td_client c = {0};
	if (td_client_open(&c, &err) || download(&c, path, words[1] ? words[1] : base, &err))
		return td_client_failed("download", &err);
	return 0;
}
