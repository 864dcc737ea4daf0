// Replies of slurmrestd, read as a job, a node, a state, associations and history.
// rows: A6.2 F2.2
#include "slurm/accounts.h"
#include "slurm/adapter.h"
#include "slurm/history.h"

static void read_one(const char *s, size_t n)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_slurm_job job = {0};
	struct td_slurm_nodes nodes = {.v = td_calloc(1, sizeof(struct td_slurm_node)), .n = 1, .cap = 1};
	struct td_slurm_state state = {0};
	struct td_slurm_assocs assocs = {0};
	struct td_slurm_runs runs = {0};
	if (td_json_parse(s, n, &j, NULL) == 0) {
		td_slurm_v0042.read_job(td_json_root(j), &job, NULL);
		td_slurm_v0042.read_node(td_json_root(j), &nodes.v[0], NULL);
		td_slurm_v0042.read_state(td_json_root(j), &state);
		td_slurm_assocs_read(td_json_root(j), &assocs, NULL);
		td_slurm_history_read(td_json_root(j), &runs, NULL);
	}
	td_slurm_job_done(&job);
	td_slurm_nodes_done(&nodes);
	td_slurm_assocs_done(&assocs);
	td_slurm_runs_done(&runs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	if (size > 1 << 16)
		return 0;

	read_one(p, size);
	return 0;
}
