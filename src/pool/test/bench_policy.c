// What deciding costs: each order over so many waiting jobs, and the plan of the moves, with the median CPU time of
// a run in ms. tools/run-bench runs it; it never passes or fails on time.
#include "pool/policy.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RUNS = 21, RUNNING = 500, USERS = 200, ACCOUNTS = 20 };

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"fifo", "lifo", "hierarchicalFifo", "drf"};
	static char users[USERS][16], accounts[ACCOUNTS][16];
	long long n = 5000;
	if (argc > 1 && (!td_parse_i64(argv[1], &n) || n < 1 || n > 1000000))
		return 2;
	for (int i = 0; i < USERS; i++)
		snprintf(users[i], sizeof(users[i]), "user%d", i);
	for (int i = 0; i < ACCOUNTS; i++)
		snprintf(accounts[i], sizeof(accounts[i]), "account%d", i);

	uint64_t x = 42;
	struct td_policy_job *jobs = td_calloc((size_t)n, sizeof(*jobs));
	struct td_policy_held *held = td_calloc(RUNNING, sizeof(*held));
	struct td_policy_place *places = td_calloc((size_t)n, sizeof(*places));
	struct td_policy_move *moves = td_calloc((size_t)n, sizeof(*moves));
	size_t *order = td_calloc((size_t)n, sizeof(*order));
	for (long long i = 0; i < n; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		size_t u = (x >> 33) % USERS;
		jobs[i] = (struct td_policy_job){.id = i + 1,
						 .user = users[u],
						 .account = accounts[u % ACCOUNTS],
						 .submit_s = i / 10,
						 .tres = {1 + (int64_t)(x >> 40) % 16, 1024, (int64_t)(x >> 50) % 9}};
	}
	for (int i = 0; i < RUNNING; i++)
		held[i] = (struct td_policy_held){users[i % USERS], accounts[i % ACCOUNTS], {4, 1024, 2}};

	for (int k = 0; k < 4; k++) {
		struct td_policy_input in = {.kind = (enum td_policy_kind)k,
					     .queue = TD_POLICY_PER_ACCOUNT,
					     .v = jobs,
					     .n = (size_t)n,
					     .held = held,
					     .n_held = RUNNING,
					     .total = {10000, 10000000, 4000}};
		double took[RUNS];
		size_t moved = 0;
		for (int r = 0; r < RUNS; r++) {
			double began = cpu_ms();
			td_policy_order(&in, order);
			for (long long i = 0; i < n; i++)
				places[i] = (struct td_policy_place){jobs[order[i]].id, 1, 1};
			moved = td_policy_plan(places, (size_t)n, TD_POLICY_DEPTH, moves);
			took[r] = cpu_ms() - began;
		}
		qsort(took, RUNS, sizeof(*took), by_size);
		printf("%-18s %lld waiting: %.2f ms of CPU (median of %d, max %.2f), %zu moves\n", names[k], n,
		       took[RUNS / 2], RUNS, took[RUNS - 1], moved);
	}
	free(jobs);
	free(held);
	free(places);
	free(moves);
	free(order);
	return 0;
}
