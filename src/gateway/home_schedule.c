// What a schedule submits: tandem/schedules/ID.json of a home, {job, files}. When it is due is the
// gateway's to know (schedule.h). And what waits at the hub of a federation: tandem/federated/RUN.json.
#include "gateway/home_io.h"

#include "base/file.h"
#include "gateway/path.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 64 << 20 };

// Chunks that nothing has used for two weeks go (home_run.c); those of a schedule were used now.
static int use(const yyjson_val *root, struct td_error *err)
{
	size_t i, n, k, m;
	yyjson_val *f, *c;
	yyjson_arr_foreach (td_jget(root, "files"), i, n, f)
		yyjson_arr_foreach (td_jget(f, "chunks"), k, m, c) {
			const char *hash = yyjson_get_str(c);
			if (!hash || strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64)
				return td_fail(err, TD_INVALID, "\"%.80s\" is no SHA-256 in hex", hash ? hash : "");
			td_auto_free char *path = td_asprintf(TD_HOME_CHUNKS "/%.2s/%s", hash, hash);
			if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) < 0)
				return td_fail(err, errno == ENOENT ? TD_CONFLICT : TD_INTERNAL,
					       "chunk %.12s… is not here: send it first", hash);
		}
	return 0;
}

#define SCHEDULES "tandem/schedules"
#define FEDERATED "tandem/federated"

static int path_of(const char *dir, const char *id, char **ret, struct td_error *err)
{
	int r = td_gateway_name_check("name", id, err);
	if (!r)
		*ret = td_asprintf("%s/%s.json", dir, id);
	return r;
}

static int put(const char *dir, char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *path = NULL;
	int r = path_of(dir, argv[0], &path, err);
	if (r || (r = td_home_input(MOST, &in, err)) || (r = td_json_parse(td_buf_str(&in), in.len, &j, err)) ||
	    (r = use(td_json_root(j), err)) || (r = td_home_mkdirs(dir, err)))
		return r;
	return td_home_put(path, td_buf_str(&in), in.len, 0644, err);
}

static int get(const char *dir, char **argv, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *path = NULL;
	int r = path_of(dir, argv[0], &path, err);
	if (r || (r = td_home_get(path, MOST, &b, err)) || (r = td_json_parse(td_buf_str(&b), b.len, &j, err)) ||
	    (r = use(td_json_root(j), err)))
		return r;
	return td_write_all(STDOUT_FILENO, td_buf_str(&b), b.len, err);
}

static int drop(const char *dir, char **argv, struct td_error *err)
{
	td_auto_free char *path = NULL;
	int r = path_of(dir, argv[0], &path, err);
	if (!r && unlink(path) < 0 && errno != ENOENT)
		r = td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path);
	return r;
}

int td_home_schedule_put(char **argv, struct td_error *err)
{
	return put(SCHEDULES, argv, err);
}

int td_home_schedule_get(char **argv, struct td_error *err)
{
	return get(SCHEDULES, argv, err);
}

int td_home_schedule_drop(char **argv, struct td_error *err)
{
	return drop(SCHEDULES, argv, err);
}

int td_home_federated_put(char **argv, struct td_error *err)
{
	return put(FEDERATED, argv, err);
}

int td_home_federated_get(char **argv, struct td_error *err)
{
	return get(FEDERATED, argv, err);
}

int td_home_federated_drop(char **argv, struct td_error *err)
{
	return drop(FEDERATED, argv, err);
}
