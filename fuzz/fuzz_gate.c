// Input: a request line of the gate, a list of devices as users and Slurm write it, a grant's
// annotation, and the gate's table on disk.
// rows: A7.4
#include "gate/devices.h"
#include "gate/gate.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

static void ranges(const char *s)
{
	for (int n = 0; n <= TD_DEV_MAX; n += 4) {
		uint64_t m = 0, back = 0;
		if (td_dev_parse(s, n, &m, NULL))
			continue;
		check((m & ~td_dev_all(n)) == 0);
		td_auto_free char *t = td_dev_format(m);
		check(td_dev_parse(t, n, &back, NULL) == 0 && back == m);
	}
}

static void grant(const char *devices, const char *job)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d),
		       *ann = td_jm_obj(d, td_jm_obj(d, root, "metadata"), "annotations");
	yyjson_mut_obj_add_strcpy(d, ann, "tandem.dev/devices", devices);
	yyjson_mut_obj_add_strcpy(d, ann, "tandem.dev/job-id", job);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	struct td_grant g;
	if (td_grant_read(td_json_root(j), 8, &g, NULL) == 0)
		check(g.granted && g.job >= 0 && (g.devices & ~td_dev_all(8)) == 0);
}

static void table(const uint8_t *data, size_t size)
{
	td_auto_close int fd = memfd_create("gate", MFD_CLOEXEC);
	char path[40];
	struct td_gate_table *t = td_calloc(1, sizeof(*t));
	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

	if (td_gate_load(path, 8, NULL, t, NULL) == 0) {
		struct td_holder h = {.job = 1}, out[4];
		bool changed;
		check(t->n == 8);
		for (int i = 0; i < t->n; i++)
			check(t->dev[i].n_prev <= TD_GATE_PREV && t->dev[i].n_past <= TD_GATE_PAST);
		check(td_gate_pending(t, td_dev_all(8), out, 4) <= 4);
		if (td_gate_claim(t, 3, &h, &changed, NULL) == 0)
			check(td_gate_holds(t, 3, &h));
	}
	free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_gate_request q = {0};
	if (size > 1 << 14)
		return 0;
	td_auto_free char *s = td_strndup((const char *)data, size);
	if (td_gate_parse(s, "n0", 8, &q, NULL) == 0 && !q.ping)
		check((q.check || q.h.job > 0) && q.h.start >= 0 && q.timeout_ms >= 0 && q.timeout_ms <= 600000 &&
		      (q.mask & ~td_dev_all(8)) == 0 && !q.h.pod);
	ranges(s);
	grant(s, "7");
	grant("", s);
	if (size && data[0] == '{')
		table(data, size);
	return 0;
}
