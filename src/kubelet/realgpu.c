#include "kubelet/realgpu.h"

#include "accel/accel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/gpudriver.h"
#include "base/log.h"
#include "base/proc.h"
#include "gate/devices.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

// A look that takes longer than SILENT_MS is an error for all nodes; until then they go on with the one before.
enum { FRESH_MS = 1000, SILENT_MS = 30000, MODPROBE_MS = 20000 };

struct td_realgpu {
	int each;
	pthread_mutex_t mu; // guards what follows
	// When a thread began to use the backend, without the lock: a sick GPU may never answer. 0: none does.
	int64_t began_ms;
	struct td_checkup_facts facts;
	int64_t read_ms;
	struct td_checkup_backend backend; // of whoever set began_ms
	// From here on nothing changes.
	int n;
	struct {
		char uuid[64], files[3][40];
		size_t n_files;
		int minor; // below 0: it was lost when this program started, and keeps its place
	} gpu[TD_HEALTH_GPUS];
	struct td_strv lib_names, libs, program_names, programs;
};

#define UVM "/dev/nvidia-uvm"

static bool device(const char *path, int *ret_major, int *ret_minor)
{
	struct stat st;
	if (stat(path, &st) || !S_ISCHR(st.st_mode))
		return false;
	*ret_major = (int)major(st.st_rdev);
	*ret_minor = (int)minor(st.st_rdev);
	return true;
}

// The file for CUDA's memory comes with its first use; on a machine that was just started nobody used it.
static void load_uvm(void)
{
	char *argv[] = {"nvidia-modprobe", "-u", "-c=0", NULL};
	struct td_error err = TD_ERROR_INIT;
	if (!td_path_exists(UVM) && td_run_ok(argv, MODPROBE_MS, NULL, &err))
		td_warn("there is no %s, and nvidia-modprobe does not make it: %s", UVM, err.msg);
}

int td_realgpu_new(int each, struct td_realgpu **ret, struct td_error *err)
{
	struct td_realgpu *r = td_calloc(1, sizeof(*r));
	r->each = each > 0 ? each : 1;
	pthread_mutex_init(&r->mu, NULL);
	r->backend = td_checkup_machine(&(struct td_checkup_machine_opts){.gpus_only = true});
	int code = r->backend.read(r->backend.ctx, &r->facts, err);
	r->read_ms = td_mono_ms(&td_clock_system);
	if (!code && !r->facts.gpus)
		code = td_fail(err, TD_NOT_FOUND, "NVML finds no GPUs on this machine: is NVIDIA's driver loaded?");
	for (int i = 0; !code && i < r->facts.gpus; i++) {
		const struct td_checkup_gpu *g = &r->facts.gpu[i];
		td_auto_free char *path = td_asprintf("/dev/nvidia%d", g->minor);
		int a, b;
		// The others work on: its own node is drained for it, and what runs on them is not left alone.
		if (g->lost)
			td_warn("kubelet: GPU %d of this machine does not answer", i);
		else if (g->minor < 0 || !device(path, &a, &b))
			code = td_fail(err, TD_NOT_FOUND, "GPU %d (%s) has no device file %s", i, g->uuid, path);
		memcpy(r->gpu[i].uuid, g->uuid, sizeof(r->gpu[i].uuid));
		r->gpu[i].minor = g->minor;
		r->gpu[i].n_files = td_mig_files(g, r->gpu[i].files);
		if (!code && *g->profile && r->gpu[i].n_files < 3)
			code = td_fail(
				err, TD_NOT_FOUND,
				"the files of %s are not known: /proc/driver/nvidia/capabilities does not name them",
				g->uuid);
		r->n = i + 1;
	}
	if (code) {
		td_realgpu_free(r);
		return code;
	}
	load_uvm();
	td_auto_free char *dir = td_gpu_driver_dir("");
	if (dir) {
		td_gpu_driver_files(dir, &r->lib_names, &r->libs);
		td_gpu_driver_programs(dir, &r->program_names, &r->programs);
	}
	td_info("kubelet: %d GPUs of this machine, %d for each node; %zu files of the driver in %s", r->n, r->each,
		r->libs.n, dir ? dir : "no directory");
	*ret = r;
	return 0;
}

struct td_realgpu *td_realgpu_free(struct td_realgpu *r)
{
	if (!r)
		return NULL;
	td_checkup_backend_done(&r->backend);
	td_strv_done(&r->lib_names);
	td_strv_done(&r->libs);
	td_strv_done(&r->program_names);
	td_strv_done(&r->programs);
	pthread_mutex_destroy(&r->mu);
	free(r);
	return NULL;
}

int td_realgpu_count(const struct td_realgpu *r, int node)
{
	int left = r->n - node * r->each;
	return left < 0 ? 0 : left > r->each ? r->each : left;
}

size_t td_realgpu_nodes(const struct td_realgpu *r, uint64_t mask, int node, struct td_arena *a,
			struct td_oci_device *out)
{
	size_t n = 0;
	for (int i = 0; i < td_realgpu_count(r, node); i++) {
		int file = r->gpu[node * r->each + i].minor;
		struct td_oci_device d = {.path = td_arena_printf(a, "/dev/nvidia%d", file), .type = 'c', .mode = 0666};
		if (!(mask >> i & 1) || file < 0 || !device(d.path, &d.major, &d.minor))
			continue;
		const size_t its = r->gpu[node * r->each + i].n_files;
		if (its < 2) {
			out[n++] = d;
			d.path = td_arena_printf(a, "/dev/tandem-gpu%d", i);
			out[n++] = d;
			continue;
		}
		// A part: several have the file of one GPU.
		for (size_t k = 0; k < its; k++) {
			bool there = false;
			d.path = td_arena_strdup(a, r->gpu[node * r->each + i].files[k]);
			for (size_t o = 0; o < n; o++)
				there |= !strcmp(out[o].path, d.path);
			if (!there && device(d.path, &d.major, &d.minor))
				out[n++] = d;
		}
	}
	// The driver's own files, which whoever computes opens besides his GPUs'.
	yyjson_val *own;
	size_t i, k;
	yyjson_arr_foreach (td_jget(td_accel_named("nvidia"), "shared"), i, k, own) {
		struct td_oci_device d = {.path = yyjson_get_str(own), .type = 'c', .mode = 0666};
		if (!n)
			break;
		if (device(d.path, &d.major, &d.minor))
			out[n++] = d;
	}
	return n;
}

void td_realgpu_env(const struct td_realgpu *r, uint64_t mask, int node, struct td_strv *env)
{
	td_auto_buf struct td_buf cuda = {0}, nvidia = {0};
	int n = 0;
	for (int i = 0; i < td_realgpu_count(r, node); i++)
		if (mask >> i & 1 && r->gpu[node * r->each + i].minor >= 0) {
			td_buf_printf(&cuda, "%s%d", n ? "," : "", n);
			td_buf_printf(&nvidia, "%s%s", n++ ? "," : "", r->gpu[node * r->each + i].uuid);
		}
	if (n)
		td_env_set(env, "CUDA_VISIBLE_DEVICES", td_buf_str(&cuda));
	// "void": whatever an image says of itself, it has no GPUs.
	td_env_set(env, "NVIDIA_VISIBLE_DEVICES", n ? td_buf_str(&nvidia) : "void");
}

static int add(const struct td_strv *names, const struct td_strv *files, const char *place, struct td_arena *a,
	       struct td_mounts *ret, struct td_error *err)
{
	for (size_t i = 0; i < names->n; i++) {
		if (ret->n >= ret->max)
			return td_fail(err, TD_INVALID, "too many mounts beside those of the GPUs' driver");
		ret->v[ret->n++] =
			(struct td_oci_mount){"bind", files->v[i], td_arena_printf(a, "%s/%s", place, names->v[i]),
					      "bind,ro,nosuid,nodev", true};
	}
	return 0;
}

int td_realgpu_mounts(const struct td_realgpu *r, const char *rootfs, struct td_arena *a, struct td_mounts *ret,
		      struct td_error *err)
{
	const char *place = NULL;
	for (size_t i = 0; !place && td_gpu_driver_places[i]; i++) {
		td_auto_free char *there = td_asprintf("%s%s", rootfs, td_gpu_driver_places[i]);
		if (td_path_exists(there))
			place = td_gpu_driver_places[i];
	}
	// An image without any of these directories has no loader that would look there.
	int code = place ? add(&r->lib_names, &r->libs, place, a, ret, err) : 0;
	return code || !place ? code : add(&r->program_names, &r->programs, "/usr/bin", a, ret, err);
}

// ---- health ----

struct realpart {
	struct td_realgpu *r;
	int node;
	char *faults;
};

// Looks at the GPUs, unless somebody looked a moment ago or is looking. One look serves all nodes.
static int look(struct td_realgpu *r, struct td_error *err)
{
	pthread_mutex_lock(&r->mu);
	int64_t now = td_mono_ms(&td_clock_system), silent = r->began_ms ? now - r->began_ms : 0;
	bool mine = !r->began_ms && now - r->read_ms >= FRESH_MS;
	if (mine)
		r->began_ms = now;
	pthread_mutex_unlock(&r->mu);
	if (!mine)
		return silent < SILENT_MS ? 0
					  : td_fail(err, TD_TRANSIENT,
						    "NVIDIA's driver has not answered for %lld seconds: look at the "
						    "machine's kernel log",
						    (long long)silent / 1000);

	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	int code = r->backend.read(r->backend.ctx, f, err);
	pthread_mutex_lock(&r->mu);
	r->began_ms = 0;
	if (!code) {
		r->facts = *f;
		r->read_ms = td_mono_ms(&td_clock_system);
	}
	pthread_mutex_unlock(&r->mu);
	return code;
}

static int part_read(void *ctx, struct td_checkup_facts *ret, struct td_error *err)
{
	const struct realpart *p = ctx;
	struct td_realgpu *r = p->r;
	int from = p->node * r->each, code = look(r, err);
	*ret = (struct td_checkup_facts){.gpus = td_realgpu_count(r, p->node), .disk_percent = 10, .disk = "/"};
	pthread_mutex_lock(&r->mu);
	ret->numa_nodes = r->facts.numa_nodes;
	for (int i = 0; i < ret->gpus; i++) {
		struct td_checkup_gpu *g = &ret->gpu[i];
		// A GPU that NVML lists no more is lost.
		*g = from + i < r->facts.gpus
			     ? r->facts.gpu[from + i]
			     : (struct td_checkup_gpu){
				       .lost = true, .temp_c = -1, .power_w = -1, .use_percent = -1, .numa = -1};
		g->peers = from < 64 ? g->peers >> from : 0;
		g->peers &= td_dev_all(ret->gpus);
	}
	pthread_mutex_unlock(&r->mu);
	return code ? code : td_checkup_fake_over(p->faults, ret, err);
}

// What was injected ends; a real GPU is not reset here.
static int part_reset(void *ctx, int gpu, struct td_cancel *c, struct td_error *err)
{
	const struct realpart *p = ctx;
	struct td_checkup_backend fake = td_checkup_fake(p->faults, NULL, td_realgpu_count(p->r, p->node));
	td_auto_buf struct td_buf before = {0}, after = {0};
	td_file_read(p->faults, 64 << 10, &before, NULL);
	int code = fake.reset(fake.ctx, gpu, c, err);
	td_file_read(p->faults, 64 << 10, &after, NULL);
	td_checkup_backend_done(&fake);
	if (!code && td_streq(td_buf_str(&before), td_buf_str(&after)))
		code = td_fail(err, TD_UNSUPPORTED,
			       "the GPUs of virtual nodes are this machine's, and are not reset from here");
	return code;
}

static int part_rebooted(void *ctx, struct td_error *err)
{
	const struct realpart *p = ctx;
	struct td_checkup_backend fake = td_checkup_fake(p->faults, NULL, td_realgpu_count(p->r, p->node));
	int code = fake.rebooted(fake.ctx, err);
	td_checkup_backend_done(&fake);
	return code;
}

static void part_free(void *ctx)
{
	struct realpart *p = ctx;
	free(p->faults);
	free(p);
}

struct td_checkup_backend td_realgpu_backend(struct td_realgpu *r, int node, const char *faults)
{
	struct realpart *p = td_calloc(1, sizeof(*p));
	*p = (struct realpart){r, node, td_strdup(faults)};
	return (struct td_checkup_backend){part_read, part_reset, part_rebooted, part_free, p};
}
