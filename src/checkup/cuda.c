// CUDA's driver API by dlopen, and the test of a GPU. Its kernels are PTX (cuda.ptx), which the driver compiles for the
// GPU that is there, so neither a compiler nor a toolkit is needed. What the kernels must find is computed here again.
#include "checkup/cuda.h"

#include "base/clock.h"
#include "base/embedded.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_cuda_files[];

typedef struct cuda_context *cuda_context;
typedef struct cuda_module *cuda_module;
typedef struct cuda_function *cuda_function;
typedef unsigned long long cuda_pointer;

enum {
	OK = 0,
	OUT_OF_MEMORY = 2,
	MULTIPROCESSORS = 16, // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	BLOCK = 512,          // threads of a block, and chains that are known
	BLOCKS_EACH = 4,      // blocks of each multiprocessor: all its threads
	ROUNDS = 4096,        // links of a chain
	MEMORY_MOST = 1 << 30,
	MEMORY_LEAST = 1 << 20,
};

#define CALLS(X)                                                                                                       \
	X(init, "cuInit", (unsigned))                                                                                  \
	X(count, "cuDeviceGetCount", (int *))                                                                          \
	X(device, "cuDeviceGet", (int *, int))                                                                         \
	X(at, "cuDeviceGetByPCIBusId", (int *, const char *))                                                          \
	X(name, "cuDeviceGetName", (char *, int, int))                                                                 \
	X(attribute, "cuDeviceGetAttribute", (int *, int, int))                                                        \
	X(retain, "cuDevicePrimaryCtxRetain", (cuda_context *, int))                                                   \
	X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                                              \
	X(current, "cuCtxSetCurrent", (cuda_context))                                                                  \
	X(wait, "cuCtxSynchronize", (void))                                                                            \
	X(load, "cuModuleLoadData", (cuda_module *, const void *))                                                     \
	X(unload, "cuModuleUnload", (cuda_module))                                                                     \
	X(function, "cuModuleGetFunction", (cuda_function *, cuda_module, const char *))                               \
	X(memory, "cuMemGetInfo_v2", (size_t *, size_t *))                                                             \
	X(alloc, "cuMemAlloc_v2", (cuda_pointer *, size_t))                                                            \
	X(free, "cuMemFree_v2", (cuda_pointer))                                                                        \
	X(to, "cuMemcpyHtoD_v2", (cuda_pointer, const void *, size_t))                                                 \
	X(from, "cuMemcpyDtoH_v2", (void *, cuda_pointer, size_t))                                                     \
	X(launch, "cuLaunchKernel",                                                                                    \
	  (cuda_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,       \
	   void **))                                                                                                   \
	X(words, "cuGetErrorString", (int, const char **))

#define DECLARE(field, symbol, args) int(*field) args;
struct td_cuda {
	void *lib;
	CALLS(DECLARE)
	int n;
};

static int failed(const struct td_cuda *c, int kind, const char *what, int code, struct td_error *err)
{
	const char *words = NULL;
	if (c->words(code, &words) != OK || !words)
		words = "no words for it";
	return td_fail(err, kind, "%s: CUDA says %d, %s", what, code, words);
}

struct td_cuda *td_cuda_close(struct td_cuda *c)
{
	if (c)
		dlclose(c->lib);
	free(c);
	return NULL;
}

struct td_cuda *td_cuda_open(const char *path, struct td_error *err)
{
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	void *lib = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		td_fail(err, TD_NOT_FOUND, "%s", dlerror());
		return NULL;
	}
	struct td_cuda *c = td_calloc(1, sizeof(*c));
	c->lib = lib;
	const char *lacks = NULL;
#define LOAD(field, symbol, args)                                                                                      \
	if (!(c->field = (int(*) args)dlsym(lib, symbol)))                                                             \
		lacks = symbol;
	CALLS(LOAD)
	int r;
	if (lacks)
		td_fail(err, TD_UNSUPPORTED, "CUDA's driver has no %s: it is too old or too new", lacks);
	else if ((r = c->init(0)) != OK || (r = c->count(&c->n)) != OK)
		failed(c, TD_NOT_FOUND, "no GPU can be used", r, err);
	else
		return c;
	return td_cuda_close(c);
}

int td_cuda_count(const struct td_cuda *c)
{
	return c->n;
}

int td_cuda_at(const struct td_cuda *c, const char *pci)
{
	int d, device;
	if (!*pci || c->at(&d, pci) != OK)
		return -1;
	for (int i = 0; i < c->n; i++)
		if (c->device(&device, i) == OK && device == d)
			return i;
	return -1;
}

// What one device is tested with.
struct bench {
	struct td_cuda *c;
	cuda_module module;
	cuda_function fill, check, burn;
	cuda_pointer cells, table, counts;
	size_t bytes;
	unsigned blocks;
	const char *what; // that was done last, for a message
};

static int open_bench(struct bench *b, int device)
{
	struct td_cuda *c = b->c;
	size_t free_bytes = 0, total = 0;
	int r, multiprocessors = 1;
	b->what = "its kernels";
	if ((r = c->load(&b->module, td_cuda_files[0].text)) || (r = c->function(&b->fill, b->module, "fill")) ||
	    (r = c->function(&b->check, b->module, "check")) || (r = c->function(&b->burn, b->module, "burn")))
		return r;
	c->attribute(&multiprocessors, MULTIPROCESSORS, device);
	b->blocks = (unsigned)(multiprocessors > 0 ? multiprocessors : 1) * BLOCKS_EACH;
	b->what = "its memory";
	if ((r = c->alloc(&b->table, BLOCK * sizeof(float))) || (r = c->alloc(&b->counts, 2 * sizeof(uint32_t))) ||
	    (r = c->memory(&free_bytes, &total)))
		return r;
	// Others may have taken some by now: then less is tested.
	b->bytes = free_bytes / 2 < MEMORY_MOST ? free_bytes / 2 : MEMORY_MOST;
	for (r = OUT_OF_MEMORY; r == OUT_OF_MEMORY && b->bytes >= MEMORY_LEAST; b->bytes /= r ? 2 : 1)
		r = c->alloc(&b->cells, b->bytes);
	return r;
}

static void close_bench(struct bench *b)
{
	const cuda_pointer all[] = {b->cells, b->table, b->counts};
	for (size_t i = 0; i < TD_LEN(all); i++)
		if (all[i])
			b->c->free(all[i]);
	if (b->module)
		b->c->unload(b->module);
}

// Runs one kernel to its end. Every thread of it must have counted itself.
static int run(struct bench *b, cuda_function f, void **args, bool counted, struct td_cuda_result *ret)
{
	uint32_t counts[2] = {0};
	int r;
	if ((r = b->c->to(b->counts, counts, sizeof(counts))) ||
	    (r = b->c->launch(f, b->blocks, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL)) || (r = b->c->wait()) ||
	    (r = b->c->from(counts, b->counts, sizeof(counts))))
		return r;
	ret->wrong += counts[0] + (counted && counts[1] != b->blocks * BLOCK);
	return OK;
}

static int memory_test(struct bench *b, struct td_cuda_result *ret)
{
	unsigned long long n = b->bytes / sizeof(uint32_t);
	uint32_t seed = (uint32_t)td_mono_ms(&td_clock_system);
	int r;
	b->what = "its memory";
	if ((r = run(b, b->fill, (void *[]){&b->cells, &n, &seed}, false, ret)) ||
	    (r = run(b, b->check, (void *[]){&b->cells, &n, &seed, &b->counts}, true, ret)))
		return r;
	ret->memory = b->bytes;
	return OK;
}

static int burn_test(struct bench *b, int64_t end_ms, struct td_cuda_result *ret)
{
	float table[BLOCK];
	for (int i = 0; i < BLOCK; i++) {
		float x = (float)(i + 1) * 0x1p-11F;
		for (int k = 0; k < ROUNDS; k++)
			x = 3.9F * fmaf(-x, x, x);
		table[i] = x;
	}
	unsigned rounds = ROUNDS;
	int r = b->c->to(b->table, table, sizeof(table));
	b->what = "its arithmetic";
	do {
		if (!r)
			r = run(b, b->burn, (void *[]){&b->table, &rounds, &b->counts}, true, ret);
		ret->operations += 3ULL * ROUNDS * BLOCK * b->blocks;
	} while (!r && td_mono_ms(&td_clock_system) < end_ms);
	return r;
}

int td_cuda_test(struct td_cuda *c, int device, int64_t ms, struct td_cuda_result *ret, struct td_error *err)
{
	*ret = (struct td_cuda_result){0};
	int64_t begun = td_mono_ms(&td_clock_system);
	struct bench b = {.c = c, .what = "opening it"};
	cuda_context context = NULL;
	int d, r;
	if ((r = c->device(&d, device)) || (r = c->retain(&context, d)))
		return failed(c, TD_INTERNAL, b.what, r, err);
	c->name(ret->name, sizeof(ret->name), d);
	r = c->current(context);
	if (!r)
		r = open_bench(&b, d);
	if (!r)
		r = memory_test(&b, ret);
	if (!r)
		r = burn_test(&b, begun + ms, ret);
	close_bench(&b);
	c->release(d);
	ret->seconds = (double)(td_mono_ms(&td_clock_system) - begun) / 1000;
	return r ? failed(c, TD_INTERNAL, b.what, r, err) : 0;
}
