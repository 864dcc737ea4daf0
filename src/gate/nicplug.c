#include "gate/nicplug.h"

#include "api/grant.h"
#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "http/grpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KIND TD_NIC_RESOURCE // of the CDI devices
#define ENDPOINT "tandem-nic.sock"
#define SERVICE "/v1beta1.DevicePlugin/"
#define SHARED "/dev/infiniband/rdma_cm"
#define CDI_VERSION "0.6.0"
enum { AGAIN_MS = 1000, CALL_MS = 15000, SPEC_MAX = 16 << 10 };

// ---- pure ----

int td_nicplug_names(const yyjson_val *pod, const char *container, struct td_strv *ret, struct td_error *err)
{
	const yyjson_val *notes = td_jget(pod, "metadata.annotations");
	const char *names = td_jkey_str(notes, TD_ANN_NICS_GRANTED), *name = td_jstr_or(pod, "metadata.name", "?");
	uint64_t mask = td_api_grant_part(UINT64_MAX, td_jget(pod, "spec"), container, TD_NIC_RESOURCE);
	td_auto_strv struct td_strv all = {0}, its = {0};
	if (!names || !td_jkey_str(notes, TD_ANN_JOB))
		return td_fail(
			err, TD_DENIED,
			"Slurm gave pod %s no adapter of the network: only pods of Slurm's queue get " TD_NIC_RESOURCE,
			name);
	// Its adapters may be another's by now. A pod of its name may have come that is not known here yet.
	if (td_jkey_str(notes, TD_ANN_ENDED) || td_jget(pod, "metadata.deletionTimestamp") || td_kube_pod_ended(pod))
		return td_fail(err, TD_DENIED, "what Slurm gave pod %s, %s, is its no more: the pod ends", name, names);
	td_strv_split(&all, names, ',');
	for (size_t i = 0; i < 64; i++)
		if (mask >> i & 1 && i < all.n)
			td_strv_add(&its, all.v[i]);
	if (its.n != (size_t)__builtin_popcountll(mask))
		return td_fail(err, TD_DENIED,
			       "container %s asks for %d of " TD_NIC_RESOURCE ", and Slurm gave its pod %s", container,
			       __builtin_popcountll(mask), names);
	for (size_t i = 0; i < its.n; i++)
		td_strv_add(ret, its.v[i]);
	return 0;
}

static void node_file(yyjson_mut_doc *d, yyjson_mut_val *list, const char *path)
{
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, o, "path", path);
	td_jm_str(d, o, "permissions", "rw");
}

int td_nicplug_spec(const char *place, const struct td_nicplug_for *who, const struct td_checkup_facts *f, bool shared,
		    char **ret, struct td_error *err)
{
	const struct td_checkup_nic *x = NULL;
	for (int i = 0; i < f->nics; i++)
		if (f->nic[i].n_files && !strcmp(f->nic[i].name, who->nic))
			x = &f->nic[i];
	if (!x)
		return td_fail(err, TD_NOT_FOUND,
			       "Slurm gave it the adapter %.31s, which this node does not have any more", who->nic);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "cdiVersion", CDI_VERSION);
	td_jm_str(d, o, "kind", KIND);
	yyjson_mut_val *device = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "devices"));
	td_jm_str(d, device, "name", place);
	yyjson_mut_val *files = td_jm_arr(d, device, "containerEdits.deviceNodes");
	for (int i = 0; i < x->n_files; i++)
		node_file(d, files, x->files[i]);
	if (shared)
		node_file(d, files, SHARED);
	td_jm_str(d, o, "annotations.adapter", who->nic);
	td_jm_str(d, o, "annotations.pod", who->uid);
	*ret = td_json_mut_text(o, NULL);
	return 0;
}

bool td_nicplug_has(const yyjson_val *spec, const char *uid, const char *nic)
{
	const char *whose = td_jstr(spec, "annotations.pod");
	return td_streq(td_jstr(spec, "annotations.adapter"), nic) && (!whose || !uid || !strcmp(whose, uid));
}

// ---- places ----

static char *spec_path(const struct td_nicplug *p, const char *place)
{
	return td_asprintf("%s/tandem-nic-%s.json", p->cdi, place);
}

static bool is_place(const char *s)
{
	long long n;
	return td_starts(s, "place-") && td_parse_i64(s + strlen("place-"), &n) && n >= 0 && n < TD_NICPLUG_PLACES;
}

// Does the pod have the adapter by the place that the kubelet gave it? Where that cannot be read it may.
static bool has(const struct td_nicplug *p, const struct td_podres *x, const char *nic)
{
	td_auto_free char *path = spec_path(p, x->device);
	td_auto_buf struct td_buf b = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_file_read(path, SPEC_MAX, &b, NULL);
	if (r == TD_NOT_FOUND) // nothing was written for it yet
		return false;
	if (r || td_json_parse(td_buf_str(&b), b.len, &j, NULL))
		return true;
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(p->pods, x->ns, x->pod);
	return td_nicplug_has(td_json_root(j), pod ? pod->uid : NULL, nic);
}

static bool same_pod(const struct td_podres *a, const struct td_podres *b)
{
	return !strcmp(a->ns, b->ns) && !strcmp(a->pod, b->pod);
}

// Does a pod that this kubelet still has have the adapter?
static int is_free(const struct td_nicplug *p, const struct td_podres_list *l, const struct td_podres *mine,
		   const char *nic, struct td_error *err)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct td_podres *x = &l->v[i];
		if (!strcmp(x->resource, TD_NIC_RESOURCE) && is_place(x->device) && !same_pod(x, mine) &&
		    has(p, x, nic))
			return td_fail(err, TD_THROTTLED, "adapter %s: pod %s/%s, which has it, has not ended", nic,
				       x->ns, x->pod);
	}
	return 0;
}

static const struct td_podres *whose(const struct td_podres_list *l, const char *place)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].resource, TD_NIC_RESOURCE) && !strcmp(l->v[i].device, place))
			return &l->v[i];
	return NULL;
}

// A place that nobody has keeps no adapter.
static void sweep(const struct td_nicplug *p, const struct td_podres_list *l)
{
	for (int i = 0; i < TD_NICPLUG_PLACES; i++) {
		char place[24];
		snprintf(place, sizeof(place), "place-%d", i);
		td_auto_free char *path = spec_path(p, place);
		if (!whose(l, place) && unlink(path) && errno != ENOENT)
			td_warn("agent: %s cannot be removed: %s", path, strerror(errno));
	}
}

static int write_spec(const struct td_nicplug *p, const char *place, const struct td_nicplug_for *who,
		      const struct td_checkup_facts *f, struct td_error *err)
{
	td_auto_free char *text = NULL, *path = spec_path(p, place);
	int r = td_nicplug_spec(place, who, f, td_path_exists("/sys/class/misc/rdma_cm"), &text, err);
	return r ? r : td_file_write(path, text, strlen(text), 0644, err);
}

// The places are those of one container.
static int prepare(struct td_nicplug *p, const struct td_strv *places, struct td_cancel *c, struct td_error *err)
{
	td_auto_podres struct td_podres_list l = {0};
	td_auto_strv struct td_strv names = {0};
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	int r = td_podres_ask(p->resources, c, &l, err);
	if (r)
		return r;
	const struct td_podres *mine = places->n ? whose(&l, places->v[0]) : NULL;
	if (!mine)
		return td_fail(err, TD_NOT_FOUND, "the kubelet does not say which pod has %s of " TD_NIC_RESOURCE,
			       places->n ? places->v[0] : "nothing");
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(p->pods, mine->ns, mine->pod);
	if (!pod)
		return td_fail(err, TD_NOT_FOUND, "pod %s/%s is not known yet", mine->ns, mine->pod);
	r = td_nicplug_names(pod->root, mine->container, &names, err);
	if (!r && names.n != places->n)
		r = td_fail(err, TD_INVALID,
			    "the kubelet has %zu of " TD_NIC_RESOURCE " for container %s, which asks for %zu",
			    places->n, mine->container, names.n);
	if (!r && !p->facts(p->ctx, f))
		r = td_fail(err, TD_TRANSIENT, "the adapters of this node are not known yet");
	for (size_t i = 0; !r && i < names.n; i++)
		r = is_free(p, &l, mine, names.v[i], err);
	for (size_t i = 0; !r && i < names.n; i++)
		r = write_spec(p, places->v[i], &(struct td_nicplug_for){names.v[i], pod->uid}, f, err);
	if (!r)
		sweep(p, &l);
	return r;
}

// ---- what the kubelet asks ----

struct place_server {
	struct td_nicplug *p;
	struct td_cancel *cancel;
};

static int by_number(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	return strlen(x) != strlen(y) ? (strlen(x) < strlen(y) ? -1 : 1) : strcmp(x, y);
}

// Texts of field 1, sorted.
static int places_of(const void *message, size_t len, struct td_strv *ret, struct td_error *err)
{
	struct td_proto m = td_proto(message, len);
	struct td_proto_field f;
	while (td_proto_next(&m, &f)) {
		char place[24];
		if (f.number != 1 || !f.p)
			continue;
		td_proto_copy(&f, place, sizeof(place));
		if (!is_place(place))
			return td_fail(err, TD_INVALID, "\"%s\" is none of " TD_NIC_RESOURCE, place);
		td_strv_add(ret, place);
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(ret->v[0]), by_number);
	return 0;
}

// AllocateRequest: container_requests 1 (devices_ids 1). ContainerAllocateResponse: cdi_devices 5 (name 1).
static int allocate(const void *message, size_t len, struct td_buf *ret, struct td_error *err)
{
	struct td_proto m = td_proto(message, len);
	struct td_proto_field f;
	while (td_proto_next(&m, &f)) {
		td_auto_strv struct td_strv places = {0};
		td_auto_buf struct td_buf container = {0};
		int r = f.number == 1 && f.p ? places_of(f.p, f.len, &places, err) : 0;
		if (r)
			return r;
		for (size_t i = 0; i < places.n; i++) {
			td_auto_free char *name = td_asprintf("%s=%s", KIND, places.v[i]);
			td_auto_buf struct td_buf one = {0};
			td_proto_text(&one, 1, name);
			td_proto_bytes(&container, 5, td_buf_str(&one), one.len);
		}
		if (f.number == 1)
			td_proto_bytes(ret, 1, td_buf_str(&container), container.len);
	}
	return 0;
}

static int call(void *ctx, const char *method, const void *message, size_t len, struct td_buf *ret,
		struct td_error *err)
{
	struct place_server *s = ctx;
	td_auto_strv struct td_strv places = {0};
	int r;
	if (!strcmp(method, SERVICE "GetDevicePluginOptions")) {
		td_proto_number(ret, 1, true); // pre_start_required
		return 0;
	}
	if (!strcmp(method, SERVICE "Allocate"))
		return allocate(message, len, ret, err);
	if (strcmp(method, SERVICE "PreStartContainer") != 0)
		return td_fail(err, TD_UNSUPPORTED, "there is no %s", method);
	r = places_of(message, len, &places, err);
	if (!r)
		r = prepare(s->p, &places, s->cancel, err);
	if (r)
		td_info("agent: adapters: %s", err->msg);
	return r;
}

static bool has_some(const struct td_nicplug *p)
{
	td_auto_free struct td_checkup_facts *f = td_calloc(1, sizeof(*f));
	bool some = false, known = p->facts(p->ctx, f);
	for (int i = 0; known && i < f->nics; i++)
		some |= f->nic[i].n_files > 0;
	return some;
}

// ListAndWatchResponse: devices 1 (ID 1, health 2).
static void now(void *ctx, struct td_buf *ret)
{
	const struct place_server *s = ctx;
	bool some = has_some(s->p);
	for (int i = 0; i < TD_NICPLUG_PLACES; i++) {
		char place[24];
		td_auto_buf struct td_buf one = {0};
		snprintf(place, sizeof(place), "place-%d", i);
		td_proto_text(&one, 1, place);
		td_proto_text(&one, 2, some ? "Healthy" : "Unhealthy");
		td_proto_bytes(ret, 1, td_buf_str(&one), one.len);
	}
}

static void ready(void *ctx)
{
	struct place_server *s = ctx;
	__atomic_add_fetch(&s->p->made, 1, __ATOMIC_RELEASE);
}

int td_nicplug_run(struct td_nicplug *p, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *socket = td_asprintf("%s/" ENDPOINT, p->plugins);
	struct place_server ctx = {p, c};
	const struct td_grpc_server s = {.socket = socket,
					 .call = call,
					 .stream = SERVICE "ListAndWatch",
					 .now = now,
					 .ctx = &ctx,
					 .ready = ready};
	char said[256] = "";
	do {
		struct td_error e = TD_ERROR_INIT;
		int r = td_grpc_serve(&s, c, &e);
		if (r != TD_CANCELLED && r != TD_NOT_FOUND && strcmp(e.msg, said) != 0)
			td_warn("agent: adapters for pods: %s", e.msg);
		snprintf(said, sizeof(said), "%.255s", e.msg);
	} while (!td_cancel_wait(c, AGAIN_MS));
	return td_fail(err, TD_CANCELLED, "stopped");
}

int td_nicplug_register(struct td_nicplug *p, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *socket = td_asprintf("%s/kubelet.sock", p->plugins);
	td_auto_buf struct td_buf options = {0}, q = {0};
	char said[256] = "";
	td_proto_number(&options, 1, true); // pre_start_required
	td_proto_text(&q, 1, "v1beta1");
	td_proto_text(&q, 2, ENDPOINT);
	td_proto_text(&q, 3, TD_NIC_RESOURCE);
	td_proto_bytes(&q, 4, td_buf_str(&options), options.len);
	const struct td_grpc_ask ask = {socket, "/v1beta1.Registration/Register", td_buf_str(&q), q.len, CALL_MS};
	for (unsigned told = 0; !td_cancel_wait(c, AGAIN_MS);) {
		unsigned made = __atomic_load_n(&p->made, __ATOMIC_ACQUIRE);
		struct td_error e = TD_ERROR_INIT;
		td_auto_buf struct td_buf none = {0};
		if (made == told || !has_some(p)) // a node without adapters has no such resource
			continue;
		int r = td_grpc_call(&ask, c, &none, &e);
		if (!r) {
			told = made;
			td_info("agent: the kubelet gives out " TD_NIC_RESOURCE " as Slurm says");
		} else if (r != TD_CANCELLED && strcmp(e.msg, said) != 0) {
			td_warn("agent: adapters for pods: %s", e.msg);
		}
		snprintf(said, sizeof(said), "%.255s", e.msg);
	}
	return td_fail(err, TD_CANCELLED, "stopped");
}
