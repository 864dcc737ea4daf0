// Finds the files of NVIDIA's driver by their names.
#include "base/gpudriver.h"

#include "base/file.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CACHE_MAX = 16 << 20 };

const char *const td_gpu_driver_places[] = {
#ifdef __aarch64__
	"/usr/lib/aarch64-linux-gnu",
#else
	"/usr/lib/x86_64-linux-gnu",
#endif
	"/usr/lib64", "/usr/lib", NULL};

// The loader's cache ends with the names of its libraries and their paths, each with a NUL behind it.
static char *cached(const char *root)
{
	static const char name[] = "/libcuda.so.1";
	td_auto_free char *path = td_asprintf("%s/etc/ld.so.cache", root);
	td_auto_buf struct td_buf b = {0};
	if (td_file_read(path, CACHE_MAX, &b, NULL))
		return NULL;
	for (const char *at = b.s, *end = b.s + b.len; (at = memmem(at, (size_t)(end - at), name, sizeof(name)));
	     at++) {
		const char *from = at;
		while (from > b.s && from[-1])
			from--;
		td_auto_free char *dir = td_strndup(from, (size_t)(at - from));
		td_auto_free char *file = td_asprintf("%s%s%s", root, dir, name);
		// A machine may have libraries of another word length too.
		if (*dir == '/' && !strstr(dir, "i386") && !strstr(dir, "lib32") && !access(file, R_OK))
			return td_steal(dir);
	}
	return NULL;
}

char *td_gpu_driver_dir(const char *root)
{
	static const char *const others[] = {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib"};
	const char *said = getenv("TANDEM_DRIVER");
	char *dir = said && *said && !*root ? td_strdup(said) : cached(root);
	for (size_t i = 0; !dir && i < TD_LEN(others) + TD_LEN(td_gpu_driver_places) - 1; i++) {
		const char *d = i < TD_LEN(others) ? others[i] : td_gpu_driver_places[i - TD_LEN(others)];
		td_auto_free char *file = td_asprintf("%s%s/libcuda.so.1", root, d);
		if (!access(file, R_OK))
			dir = td_strdup(d);
	}
	return dir;
}

static bool is_library(const char *name)
{
	static const char *const its[] = {"libcuda.so",
					  "libcudadebugger.so",
					  "libnvcuvid.so",
					  "libnvidia-allocator.so",
					  "libnvidia-cfg.so",
					  "libnvidia-compiler.so",
					  "libnvidia-encode.so",
					  "libnvidia-gpucomp.so",
					  "libnvidia-ml.so",
					  "libnvidia-nscq.so",
					  "libnvidia-nvvm.so",
					  "libnvidia-nvvm70.so",
					  "libnvidia-opencl.so",
					  "libnvidia-opticalflow.so",
					  "libnvidia-pkcs11-openssl3.so",
					  "libnvidia-pkcs11.so",
					  "libnvidia-ptxjitcompiler.so",
					  "libnvidia-sandboxutils.so",
					  "libnvidia-tileiras.so"};
	for (size_t i = 0; i < TD_LEN(its); i++) {
		size_t n = strlen(its[i]);
		if (!strncmp(name, its[i], n) && (!name[n] || name[n] == '.'))
			return true;
	}
	return false;
}

static void add(const char *path, const char *name, struct td_strv *names, struct td_strv *files)
{
	char real[PATH_MAX];
	if (!realpath(path, real) || access(real, R_OK))
		return; // a link to nowhere
	td_strv_add(names, name);
	td_strv_add(files, real);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void td_gpu_driver_files(const char *dir, struct td_strv *names, struct td_strv *files)
{
	td_auto_strv struct td_strv all = {0};
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (is_library(e->d_name))
			td_strv_add(&all, e->d_name);
	if (d)
		closedir(d);
	if (all.n)
		qsort(all.v, all.n, sizeof(char *), by_name);
	for (size_t i = 0; i < all.n; i++) {
		td_auto_free char *path = td_asprintf("%s/%s", dir, all.v[i]);
		add(path, all.v[i], names, files);
	}
}

// A script at that place is somebody's wrapper, which leads to what a container does not have.
static bool is_program(const char *path)
{
	char magic[4] = "";
	FILE *f = fopen(path, "re");
	bool is = f && fread(magic, 1, sizeof(magic), f) == sizeof(magic) &&
		  !memcmp(magic,
			  "\x7f"
			  "ELF",
			  sizeof(magic));
	if (f)
		fclose(f);
	return is;
}

void td_gpu_driver_programs(const char *dir, struct td_strv *names, struct td_strv *files)
{
	static const char *const its[] = {"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control",
					  "nvidia-cuda-mps-server"};
	td_auto_free char *beside = td_asprintf("%s/../bin", dir);
	const char *const places[] = {beside, "/usr/local/nvidia/bin", "/usr/bin"};
	for (size_t i = 0; i < TD_LEN(its); i++)
		for (size_t k = 0, n = names->n; k < TD_LEN(places) && names->n == n; k++) {
			td_auto_free char *path = td_asprintf("%s/%s", places[k], its[i]);
			if (is_program(path))
				add(path, its[i], names, files);
		}
}
