// The job that tests a node before it takes work: it computes on every device that the job was given,
// compares each result with the one that it must be, and prints one line of JSON. With --only LIST it is the
// quick test before a job: exactly those devices.
//
// The fake GPUs of virtual nodes compute on the CPU. What the node's file of faults says of a device
// (burn=fail) makes its results wrong, as a sick device's are. On a machine with real GPUs a site names
// a program for them (docs/health.md); CPU and memory are tested here all the same.
#include "standin/standin.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 96, DEVICES = 64, FILE_MAX = 65536, MEMORY = 1 << 20 };

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// One product of two matrices of small whole numbers, whose sum is exact in any order.
static double multiply(unsigned seed)
{
	static double a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
	double sum = 0;
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			a[i][j] = (double)((i * 7 + j * 3 + (int)seed) % 11);
			b[i][j] = (double)((i * 5 + j * 13 + (int)seed) % 7);
			c[i][j] = 0;
		}
	for (int i = 0; i < SIZE; i++)
		for (int k = 0; k < SIZE; k++)
			for (int j = 0; j < SIZE; j++)
				c[i][j] += a[i][k] * b[k][j];
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++)
			sum += c[i][j];
	return sum;
}

// The same sum by another way: row sums and column sums.
static double expected(unsigned seed)
{
	double sum = 0;
	for (int k = 0; k < SIZE; k++) {
		double column = 0, row = 0;
		for (int i = 0; i < SIZE; i++) {
			column += (double)((i * 7 + k * 3 + (int)seed) % 11);
			row += (double)((k * 5 + i * 13 + (int)seed) % 7);
		}
		sum += column * row;
	}
	return sum;
}

static int memory_wrong(unsigned seed)
{
	uint64_t *v = malloc(MEMORY * sizeof(*v));
	int wrong = 0;
	if (!v)
		return 1;
	for (size_t i = 0; i < MEMORY; i++)
		v[i] = i * 0x9E3779B97F4A7C15ULL + seed;
	for (size_t i = 0; i < MEMORY; i++)
		wrong += v[i] != i * 0x9E3779B97F4A7C15ULL + seed;
	free(v);
	return wrong;
}

// Which devices the file of faults says compute wrongly. *ret_slow: by how much it says that the node is slow; 1: not.
static uint64_t sick(const char *path, int *ret_slow)
{
	static char line[FILE_MAX];
	uint64_t mask = 0;
	FILE *f = path ? fopen(path, "re") : NULL;
	*ret_slow = 1;
	while (f && fgets(line, sizeof(line), f)) {
		int gpu;
		const char *slow = strncmp(line, "node ", 5) ? NULL : strstr(line, " slow=");
		if (slow && sscanf(slow, " slow=%d", ret_slow) == 1 && (*ret_slow < 1 || *ret_slow > 1000))
			*ret_slow = 1;
		if (sscanf(line, "gpu%d ", &gpu) == 1 && gpu >= 0 && gpu < DEVICES && strstr(line, " burn=fail"))
			mask |= UINT64_C(1) << gpu;
	}
	if (f)
		fclose(f);
	return mask;
}

// The devices of a list such as "0-1,4". 0: it is no such list.
static uint64_t listed(const char *s)
{
	uint64_t mask = 0;
	while (*s) {
		char *end;
		long a = strtol(s, &end, 10), b = a;
		if (end == s)
			return 0;
		if (*end == '-') {
			const char *second = end + 1;
			b = strtol(second, &end, 10);
			if (end == second)
				return 0;
		}
		if (a < 0 || a > b || b >= DEVICES || (*end && *end != ','))
			return 0;
		for (; a <= b; a++)
			mask |= UINT64_C(1) << a;
		s = *end ? end + 1 : end;
	}
	return mask;
}

// What could not be measured is left out. A node that is slow, as its faults say, is so in all.
static void print_measured(const char *dir, int slow)
{
	struct td_measured m;
	td_standin_measure(dir, &m);
	const struct {
		const char *name;
		double v;
	} of[] = {{"memoryMBps", m.memory}, {"diskWriteMBps", m.disk_write}, {"diskReadMBps", m.disk_read}};
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (of[i].v > 0)
			printf(",\"%s\":%.2f", of[i].name, of[i].v / slow);
}

int td_standin_selftest(int argc, char **argv)
{
	long ms = 200, devices = 0;
	uint64_t only = 0;
	const char *faults = NULL, *measure = NULL;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--ms"))
			ms = strtol(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--devices"))
			devices = strtol(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--only") && (only = listed(argv[i + 1])))
			devices = __builtin_popcountll(only);
		else if (!strcmp(argv[i], "--faults"))
			faults = argv[i + 1];
		else if (!strcmp(argv[i], "--measure"))
			measure = argv[i + 1];
		else
			return 2;
	}
	if (devices < 0 || devices > DEVICES || ms < 1)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL); // who reads the result is gone, and jobs may come

	int slow;
	uint64_t bad = sick(faults, &slow), wrong = 0;
	double begin = seconds(), operations = 0;
	long rounds = devices ? devices : 1;
	for (long d = 0, round = 0; round < rounds; d++) {
		if (only && !(only >> d & 1))
			continue;
		round++;
		double end = begin + (double)ms / 1000 * (double)round / (double)rounds;
		unsigned seed = (unsigned)d;
		do {
			const double once = multiply(seed);
			double got = once + (bad >> d & 1 ? 1 : 0);
			for (int more = 1; more < slow; more++)
				got += multiply(seed) - once;
			if (got != expected(seed))
				wrong |= UINT64_C(1) << d;
			operations += 2.0 * SIZE * SIZE * SIZE;
			seed++;
		} while (seconds() < end);
	}
	int cells = memory_wrong((unsigned)getpid());
	double took = seconds() - begin;

	printf("{\"devices\":%ld,\"gflops\":%.2f,\"seconds\":%.2f,\"memoryErrors\":%d,\"wrong\":[", devices,
	       operations / took / 1e9, took, cells);
	const char *comma = "";
	for (int d = 0; d < DEVICES; d++)
		if (wrong >> d & 1) {
			printf("%s\"gpu%d\"", comma, d);
			comma = ",";
		}
	printf("]");
	if (measure)
		print_measured(measure, slow);
	printf("}\n");
	return wrong || cells ? 1 : 0;
}
