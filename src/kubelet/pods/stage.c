#include "kubelet/pods/stage.h"

#include "base/names.h"

#include <string.h>

#define SAID "annotation " TD_ANN_CHECKPOINTS ": "

// One word after the directory, as an option. parts=all is what holds without it.
static int option(const char *word, bool reads, struct td_strv *ret, struct td_error *err)
{
	if (td_starts(word, "keep=")) {
		size_t n = strlen(word + 5);
		if (n < 1 || n > 3 || strspn(word + 5, "0123456789") != n || word[5] == '0')
			return td_fail(err, TD_INVALID, SAID "keep is a number from 1 to 999, and not \"%.40s\"",
				       word + 5);
	} else if (!td_streq(word, "parts=one") && !td_streq(word, "parts=all") && !td_streq(word, "reshard=copy") &&
		   !td_streq(word, "reshard=link") && !td_streq(word, "reshard=no") && !td_starts(word, "signal="))
		return td_fail(err, TD_INVALID,
			       SAID "after the directory may come keep=N, parts=one, reshard=link|no and signal=NAME, "
				    "and not \"%.40s\"",
			       word);
	if (!td_starts(word, "parts=") || !reads)
		td_strv_addf(ret, "--%s", word);
	return 0;
}

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	while (n > 1 && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && (path[n] == '/' || !path[n] || n == 1);
}

// Whether it lies on a volume: in the container itself it would end with it.
static bool mounted(const yyjson_val *container, const char *path)
{
	yyjson_val *m;
	size_t i, n;
	yyjson_arr_foreach (td_jget(container, "volumeMounts"), i, n, m)
		if (below(path, td_jstr_or(m, "mountPath", "/")))
			return true;
	return false;
}

int td_kubelet_stage(const yyjson_val *pod, const yyjson_val *container, struct td_strv *args, struct td_error *err)
{
	yyjson_val *notes = td_jget(pod, "metadata.annotations");
	const char *said = td_jkey_str(notes, TD_ANN_CHECKPOINTS), *gang = td_jkey_str(notes, TD_ANN_GANG_UID),
		   *job = td_jkey_str(notes, TD_ANN_JOB);
	const char *first = td_jstr(yyjson_arr_get_first(td_jget(pod, "spec.containers")), "name");
	if (!said || !td_streq(first, td_jstr(container, "name")))
		return 0;

	td_auto_strv struct td_strv words = {0}, all = {0};
	td_strv_split(&words, said, ' ');
	if (!words.n || words.v[0][0] != '/' || strstr(words.v[0], ".."))
		return td_fail(err, TD_INVALID, SAID "it begins with a directory, such as /home/me/checkpoints");
	if (!mounted(container, words.v[0]))
		return td_fail(err, TD_INVALID, SAID "no volume of container %s is mounted at %.200s or above it",
			       first, words.v[0]);

	// A pod beyond the core of an elastic gang has no rank.
	bool reads = td_jkey_str(notes, TD_ANN_GANG_CORE) != NULL;
	td_strv_add(&all, "/.init");
	td_strv_add(&all, "--stage");
	td_strv_addf(&all, "--to=%s", words.v[0]);
	if (gang && job)
		td_strv_addf(&all, "--attempt=%s-%s", gang, job);
	for (size_t i = 1; i < words.n; i++) {
		int r = option(words.v[i], reads, &all, err);
		if (r)
			return r;
	}
	if (reads)
		td_strv_add(&all, "--parts=none");
	td_strv_add(&all, "--");
	for (size_t i = 0; i < args->n; i++)
		td_strv_add(&all, args->v[i]);
	td_strv_done(args);
	*args = all;
	all = (struct td_strv){0};
	return 0;
}
