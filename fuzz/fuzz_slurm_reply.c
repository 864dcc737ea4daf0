// Replies of slurmrestd. A reply that arrives in pieces splits into the same elements as a whole
// one. Each element is read as a job, a node and a state.
// rows: A6.2 F2.2
#include "slurm/adapter.h"

#include <string.h>

struct seen {
	struct td_buf all;
	bool read;
};

static void read_one(const char *s, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_slurm_job job = {0};
	struct td_slurm_nodes nodes = {.v = td_calloc(1, sizeof(struct td_slurm_node)), .n = 1, .cap = 1};
	struct td_slurm_state state = {0};
	if (td_json_parse(s, n, &j, NULL) == 0) {
		td_slurm_v0042.read_job(td_json_root(j), &job, NULL);
		td_slurm_v0042.read_node(td_json_root(j), &nodes.v[0], NULL);
		td_slurm_v0042.read_state(td_json_root(j), &state);
	}
	td_slurm_job_done(&job);
	td_slurm_nodes_done(&nodes);
}

static int each(void *ctx, const char *s, size_t n)
{
	struct seen *seen = ctx;
	td_buf_printf(&seen->all, "%zu:", n);
	td_buf_add(&seen->all, s, n);
	if (seen->read)
		read_one(s, n);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct seen whole = {.read = true}, bits = {0};
	if (size > 1 << 16)
		return 0;

	read_one(p, size);

	struct td_json_split a = {.list = "jobs", .each = each, .ctx = &whole},
			     b = {.list = "jobs", .each = each, .ctx = &bits};
	int r = td_json_split(&a, p, size, NULL), q = 0;
	for (size_t i = 0; i < size && !q; i += 7)
		q = td_json_split(&b, p + i, size - i < 7 ? size - i : 7, NULL);

	if (r != q || strcmp(td_buf_str(&whole.all), td_buf_str(&bits.all)) != 0)
		abort();

	td_json_split_done(&a);
	td_json_split_done(&b);
	td_buf_done(&whole.all);
	td_buf_done(&bits.all);
	return 0;
}
