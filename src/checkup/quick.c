// The quick test of a job's devices before it starts: on virtual nodes tandem-standin computes for each, on
// a machine the site's program does (docs/health.md).
#include "checkup/checkup.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "checkup/cuda.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The last line of the output, without its end.
static const char *last_line(struct td_buf *out)
{
	while (out->len && (out->s[out->len - 1] == '\n' || out->s[out->len - 1] == ' '))
		out->s[--out->len] = '\0';
	const char *s = td_buf_str(out), *line = strrchr(s, '\n');
	return line ? line + 1 : s;
}

// Which devices a line of JSON names: {"wrong": ["gpu3"], "message": "…"}. All that are tested when it names none.
static uint64_t judge(const struct td_checkup_quick *q, const char *line, char *why, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (*line != '{' || td_json_parse(line, strlen(line), &j, NULL)) {
		snprintf(why, n, "%.120s", *line ? line : "it failed");
		return q->devices;
	}
	uint64_t bad = 0;
	yyjson_val *x;
	size_t i, m;
	yyjson_arr_foreach (td_jget(td_json_root(j), "wrong"), i, m, x) {
		const char *name = yyjson_get_str(x);
		long long k;
		if (name && td_starts(name, "gpu") && td_parse_i64(name + 3, &k) && k >= 0 && k < TD_HEALTH_GPUS)
			bad |= UINT64_C(1) << k;
	}
	bad &= q->devices;
	snprintf(why, n, "%.120s",
		 td_jstr_or(td_json_root(j), "message", bad ? "it computes wrongly" : "the test failed"));
	return bad ? bad : q->devices;
}

static void measured(const char *line, double *ret)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (*line == '{' && !td_json_parse(line, strlen(line), &j, NULL) &&
	    yyjson_is_num(td_jget(td_json_root(j), "gflops")))
		*ret = yyjson_get_num(td_jget(td_json_root(j), "gflops"));
}

static int one(const struct td_checkup_quick *q, char *const argv[], int64_t *left_ms, struct td_cancel *c,
	       struct td_buf *out, int *ret_code, struct td_error *err)
{
	int64_t begun = td_mono_ms(&td_clock_system);
	int r = td_run(argv, NULL, *left_ms, c, ret_code, out, err);
	*left_ms -= td_mono_ms(&td_clock_system) - begun;
	if (*left_ms < 1)
		*left_ms = 1;
	return r;
}

int td_checkup_quick(const struct td_checkup_quick *q, struct td_cancel *c, uint64_t *ret_bad, char *why, size_t n,
		     struct td_error *err)
{
	char ms[24], first[16];
	snprintf(ms, sizeof(ms), "%lld", (long long)q->ms);
	char *const fake[] = {(char *)(uintptr_t)q->selftest,
			      "selftest",
			      "--ms",
			      ms,
			      "--only",
			      (char *)(uintptr_t)q->list,
			      "--faults",
			      (char *)(uintptr_t)(q->faults ? q->faults : "/dev/null"),
			      NULL};
	char *const site[] = {(char *)(uintptr_t)q->program, (char *)(uintptr_t)q->node, (char *)(uintptr_t)q->list,
			      NULL};
	snprintf(first, sizeof(first), "%d", q->first);
	// This program again, by the kernel's name for it: it may have been replaced.
	char *const real[] = {q->gpus && !access("/dev/nvidiactl", F_OK) ? "/proc/self/exe" : NULL,
			      "gpu-test",
			      "--ms",
			      ms,
			      "--only",
			      (char *)(uintptr_t)q->list,
			      "--first",
			      first,
			      NULL};
	char *const *const tests[] = {fake, real, site};
	int64_t left = q->limit_ms;
	uint64_t bad = 0;
	for (size_t i = 0; i < TD_LEN(tests) && !bad; i++) {
		td_auto_buf struct td_buf out = {0};
		int code = 0;
		if (!tests[i][0])
			continue;
		int r = one(q, tests[i], &left, c, &out, &code, err);
		if (r == TD_UNCERTAIN) {
			snprintf(why, n, "the test did not end within %lld s", (long long)(q->limit_ms + 999) / 1000);
			bad = q->devices;
		} else if (r) {
			return r;
		} else if (code == TD_CUDA_NOT_TESTED && tests[i] == real && q->must) {
			snprintf(why, n, "not tested: %.100s", last_line(&out));
			bad = q->devices;
		} else if ((code == TD_CUDA_NOT_TESTED || code == TD_CUDA_PARTS) && tests[i] == real) {
			td_warn("the GPUs %s of node %s are not tested: %.200s", q->list, q->node, last_line(&out));
		} else if (code) {
			bad = judge(q, last_line(&out), why, n);
		} else if (q->gflops) {
			measured(last_line(&out), q->gflops);
		}
	}
	*ret_bad = bad;
	return 0;
}
