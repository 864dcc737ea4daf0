// tandem gpu-test: tests GPUs of this machine in a process of its own, and prints one line of JSON, as tandem-standin's
// selftest does. With --list it says what the machine tells of its GPUs. The agents call it before jobs.
#include "base/gpudriver.h"
#include "base/options.h"
#include "checkup/cuda.h"
#include "checkup/nvml.h"
#include "cli/common.h"
#include "cmd/roles.h"
#include "slurm/hostlist.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int list(void)
{
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	struct td_error err = TD_ERROR_INIT;
	struct td_checkup_backend b = td_checkup_machine(&(struct td_checkup_machine_opts){0});
	int r = b.read(b.ctx, f, &err);
	td_auto_free char *text = r ? NULL : td_checkup_inventory(f);
	td_checkup_backend_done(&b);
	if (r || !text) {
		fprintf(stderr, "tandem gpu-test: %s\n", r ? err.msg : "this machine has no GPUs that NVML knows");
		return 1;
	}
	puts(text);
	return 0;
}

// "0-1,4" → its numbers; 0: it is no such list.
static uint64_t mask_of(const char *s)
{
	struct td_ranges r;
	if (td_ranges_parse(s, &r, NULL))
		return 0;
	for (size_t i = 1; i < TD_LEN(r.bits); i++)
		if (r.bits[i])
			return 0;
	return r.bits[0];
}

// CUDA's number of NVML's GPU i; below 0: it does not see it. Where both see as many they count alike.
static int device_of(const struct td_cuda *c, const struct td_checkup_facts *f, int i)
{
	return !f->gpus || (f->gpus == td_cuda_count(c) && !td_mig_any(f)) ? i : td_cuda_at(c, f->gpu[i].pci);
}

static int test(struct td_cuda *c, const struct td_checkup_facts *f, uint64_t mask, int first, int ms)
{
	uint64_t wrong = 0;
	int64_t each = ms / __builtin_popcountll(mask);
	double operations = 0, seconds = 0, bytes = 0;
	char why[TD_HEALTH_TEXT] = "";
	for (int i = 0; i < TD_HEALTH_GPUS; i++) {
		struct td_error err = TD_ERROR_INIT;
		struct td_cuda_result x = {0};
		if (!(mask >> i & 1))
			continue;
		int device = device_of(c, f, first + i);
		int r = device < 0 ? td_fail(&err, TD_NOT_FOUND, "NVML has it, and CUDA does not see it")
				   : td_cuda_test(c, device, each, &x, &err);
		if (r)
			snprintf(why, sizeof(why), "gpu%d: %.140s", i, err.msg);
		else if (x.wrong)
			snprintf(why, sizeof(why), "gpu%d: %u results are not what they must be", i, x.wrong);
		if (r || x.wrong)
			wrong |= UINT64_C(1) << i;
		operations += (double)x.operations;
		bytes += (double)x.memory;
		seconds += x.seconds;
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, o, "wrong");
	td_jm_int(d, o, "devices", __builtin_popcountll(mask));
	yyjson_mut_obj_add_real(d, o, "gflops", seconds > 0 ? operations / seconds / 1e9 : 0);
	yyjson_mut_obj_add_real(d, o, "seconds", seconds);
	td_jm_int(d, o, "memoryMB", (int64_t)(bytes / (1 << 20)));
	for (int i = 0; i < TD_HEALTH_GPUS; i++)
		if (wrong >> i & 1) {
			char name[8];
			snprintf(name, sizeof(name), "gpu%d", i);
			yyjson_mut_arr_add_strcpy(d, list, name);
		}
	td_jm_str(d, o, "message", *why ? why : NULL);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	puts(text);
	return wrong ? 1 : 0;
}

static char *text_of(int n)
{
	return td_asprintf("%d", n);
}

int td_gpu_test_main(int argc, char **argv)
{
	int ms = 200, first = 0, code;
	const char *only = NULL, *library = NULL;
	bool tell = false;
	struct td_error err = TD_ERROR_INIT;
	const struct td_option options[] = {
		{.name = "ms", .value = "N", TD_OPT_INT(&ms, 1, 3600000), .help = "how long it computes (default 200)"},
		{.name = "only",
		 .value = "LIST",
		 TD_OPT_TEXT(&only),
		 .help = "these GPUs, \"0-1,4\", as NVML numbers them (default all)"},
		{.name = "first",
		 .value = "N",
		 TD_OPT_INT(&first, 0, TD_HEALTH_GPUS - 1),
		 .help = "GPU 0 is NVML's GPU N (default 0)"},
		{.name = "library", .value = "FILE", TD_OPT_TEXT(&library), .help = "CUDA's driver"},
		{.name = "list", TD_OPT_SWITCH(&tell), .help = "only say which GPUs there are"},
	};
	const struct td_command cmd = {.name = "gpu-test",
				       .about = "Tests GPUs of this machine: memory, and what each multiprocessor "
						"computes. Prints a line of JSON.",
				       .exits = "0 all is well, 1 something is wrong, 2 wrong usage, 3 no GPU can be "
						"tested here, 4 they are parts of GPUs (MIG).",
				       .options = options,
				       .n = TD_LEN(options)};
	if (!td_command_line(&cmd, argc, argv, NULL, &code))
		return code;
	if (tell)
		return list();
	prctl(PR_SET_PDEATHSIG, SIGKILL); // who reads the result is gone, and jobs may come
	struct td_cuda *c = td_cuda_open(library, &err);
	// The driver's libraries load each other by name. Where the loader does not look, it is told, from the start.
	td_auto_free char *dir = c || library ? NULL : td_gpu_driver_dir("");
	const char *path = getenv("LD_LIBRARY_PATH");
	if (dir && (!path || !strstr(path, dir)) && !setenv("LD_LIBRARY_PATH", dir, 1))
		execv("/proc/self/exe", (char *[]){"tandem", "gpu-test", "--ms", text_of(ms), "--first", text_of(first),
						   only ? "--only" : NULL, (char *)(uintptr_t)only, NULL});
	if (!c) {
		fprintf(stderr, "tandem gpu-test: %s\n", err.msg);
		return TD_CUDA_NOT_TESTED;
	}
	struct td_nvml *nvml = td_nvml_open(NULL, NULL);
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	if (nvml)
		td_nvml_read(nvml, td_mono_ms(&td_clock_system), f);
	td_nvml_close(nvml);
	int n = (f->gpus ? f->gpus : td_cuda_count(c)) - first;
	n = n < 0 ? 0 : n;
	uint64_t all = n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1, mask = only ? mask_of(only) : all;
	if (!mask || mask & ~all) {
		fprintf(stderr, "tandem gpu-test: --only \"%.80s\": this machine has %d GPUs; write \"0-1,4\"\n",
			only ? only : "", n);
		code = n ? 2 : TD_CUDA_NOT_TESTED;
	} else {
		// CUDA sees one part of a GPU (MIG) at a time, and only by its UUID: none is tested.
		for (int i = 0; i < n; i++)
			if (*f->gpu[first + i].profile)
				mask &= ~(UINT64_C(1) << i);
		if (!mask)
			fputs("tandem gpu-test: parts of GPUs (MIG) are not tested\n", stderr);
		code = mask ? test(c, f, mask, first, ms) : TD_CUDA_PARTS;
	}
	td_cuda_close(c);
	return code;
}
