// Reconciles one pod: take note of what ended, decide what should be, do what can be done without
// waiting, and write the status if it changed.
#include "kubelet/pods/sync.h"

#include "api/annotations.h"
#include "api/selector.h"
#include "base/file.h"
#include "base/log.h"
#include "gate/gate.h"
#include "kubelet/accels.h"
#include "kubelet/pods/admit.h"
#include "kubelet/pods/filters.h"
#include "kubelet/pods/hosts.h"
#include "kubelet/pods/status.h"
#include "kubelet/pods/volumes.h"

#include <stdio.h>
#include <string.h>

#define SHADOW_WAITS "WaitingForShadow"
enum {
	PODS_PER_NODE = 110,
	DEVICE_WAIT_MS = 5, // between the first looks at a device; then longer and longer, up to
	DEVICE_WAIT_MAX_MS = 100,
	DEVICE_LATE_MS = 40000, // then the node says that a device is not let go; as for Prolog
	SHADOW_WAIT_MS = 2000,
	DOWN_MS = 100, // between looks whether the node has rebooted
	FOLLOW_MS = 60000,
	END_GRACE_MS = 30000,   // of a pod whose grant has ended (docs/protocols.md 1.8)
	END_SIGNAL_S = 20,      // of them at most between the signal that it asked for and TERM
	FORCED_GRACE_MS = 2000, // of a pod deleted by force; as the kubelet
	MOUNT_RETRY_MS = 500,
	MOUNT_RETRY_MAX_MS = 30000,
};

// ---- helpers ----

struct td_object *td_pod_object(const struct td_kubelet *a, const struct td_pod *p)
{
	struct td_object *o = td_informer_get(a->pods, p->ns, p->name);
	return o && strcmp(o->uid, p->uid) ? td_object_unref(o) : o;
}

void td_pod_event(const struct td_kubelet *a, const struct td_object *o, const char *type, const char *reason,
		  const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *text = td_vasprintf(fmt, ap);
	va_end(ap);
	td_kube_record(a->recorder, TD_ABOUT(o, &td_pods), type, reason, "%s", text);
}

void td_ctr_wait(struct td_ctr *c, const char *reason, const char *fmt, ...)
{
	free(td_steal(c->wait_reason));
	free(td_steal(c->wait_message));
	if (!reason)
		return;
	va_list ap;
	va_start(ap, fmt);
	c->wait_reason = td_strdup(reason);
	c->wait_message = td_vasprintf(fmt, ap);
	va_end(ap);
}

static void pod_wait(struct td_pod *p, const char *reason, const char *message)
{
	free(td_steal(p->wait_reason));
	free(td_steal(p->wait_message));
	p->wait_reason = td_strdup(reason);
	p->wait_message = td_strdup(message);
}

static void fail_pod(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, const char *reason,
		     const char *message)
{
	if (p->fail_reason)
		return;
	p->fail_reason = td_strdup(reason);
	p->fail_message = td_strdup(message);
	if (o)
		td_pod_event(a, o, "Warning", reason, "%s", message);
	td_info("kubelet: pod %s/%s failed: %s: %s", p->ns, p->name, reason, message);
}

// The bridge has ended the pod's grant: the annotation says why, and how long the pod gets. The gate
// may have seen the end before.
static void grant_ended(struct td_kubelet *a, struct td_pod *p, const struct td_object *o)
{
	const char *text = o ? td_object_annotation(o, TD_ANN_ENDED) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text || p->end_grace_s >= 0 || (p->fail_reason && !td_streq(p->fail_reason, "GrantEnded")) ||
	    td_json_parse(text, strlen(text), &j, NULL))
		return;

	const yyjson_val *v = td_json_root(j);
	int64_t grace = td_jint(v, "graceSeconds", 0);
	p->end_grace_s = grace > 0 ? grace : 0;
	p->end_signal_s = td_jint(v, "signalSeconds", 0);
	p->end_signal = p->end_signal_s > 0 ? td_api_signal_number(td_jstr(v, "signal")) : 0;
	if (p->terminal && !p->fail_reason)
		return;
	// The end that the gate has begun keeps its time, so TERM still comes before KILL.
	if (p->fail_reason && p->stop_begun && p->end_signal_s > END_SIGNAL_S)
		p->end_signal_s = END_SIGNAL_S;
	pthread_mutex_lock(&p->mu);
	td_auto_free char *reason = p->fail_reason, *message = p->fail_message;
	p->fail_reason = p->fail_message = NULL;
	pthread_mutex_unlock(&p->mu);
	// The bridge has told of it: no event.
	fail_pod(a, p, NULL, td_jstr_or(v, "reason", "GrantEnded"), td_jstr_or(v, "message", ""));
}

// ---- admission ----

// Of a pod that Slurm did not place: takes the devices that Slurm holds for it, as the bridge has told it
// (bridge/syncer/lend.h). They are claimed at the gate as those of the job that holds them. TD_THROTTLED: it waits.
static int lent_devices(struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, int64_t want,
			struct td_error *err)
{
	const char *text = td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_SHADOW_DEVICES);
	td_auto(td_json_unref) struct td_json *j = NULL;
	uint64_t mask = 0;
	if (!text)
		return td_fail(err, TD_THROTTLED,
			       "Slurm does not hold %lld devices for it yet: they come before every job that waits",
			       (long long)want);
	int r = td_json_parse(text, strlen(text), &j, err);
	if (!r)
		r = td_dev_parse(td_jkey_str(td_json_root(j), td_kubelet_resource(a, p->node)),
				 td_kubelet_gpus(a, p->node), &mask, err);
	if (r)
		return td_wrap(err, "annotation " TD_ANN_SHADOW_DEVICES);
	if (__builtin_popcountll(mask) != want)
		return td_fail(err, TD_THROTTLED,
			       "annotation " TD_ANN_SHADOW_DEVICES " tells %d devices, it asks for %lld",
			       __builtin_popcountll(mask), (long long)want);
	pthread_mutex_lock(&p->mu);
	p->devices = mask;
	p->grant.job = td_jint(td_json_root(j), "job", 0);
	p->grant.start = td_jint(td_json_root(j), "start", 0);
	pthread_mutex_unlock(&p->mu);
	return 0;
}

// Gives a pod without a grant the devices that it requests, out of those that are not Slurm's.
static int own_devices(struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, const yyjson_val *node,
		       struct td_error *err)
{
	const char *resource = td_kubelet_resource(a, p->node);
	int64_t want = td_api_pod_request(td_jget(pod, "spec"), resource),
		all = td_api_pod_devices(td_jget(pod, "spec"), resource);
	if (!all || p->grant.granted || p->slurmd || p->devices)
		return 0;
	// Which index is a part of which kind only Slurm's grant says.
	if (all != want || td_kubelet_parts(a, p->node))
		return td_fail(
			err, TD_INVALID,
			"Allocate failed: the GPUs of this node are given out by Slurm alone, because some are cut "
			"in parts: set spec.schedulerName to tandem");

	int from = td_kubelet_slurm_gpus(node, resource);
	int gpus = td_kubelet_gpus(a, p->node);
	uint64_t mask;
	if (want > gpus - from && want <= from &&
	    (td_pod_awaits_devices(node, p->ns) ||
	     td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_SHADOW_DEVICES)))
		return lent_devices(a, p, pod, want, err);
	if (want > gpus - from)
		return td_fail(err, TD_INVALID,
			       "Allocate failed: requests %lld %s, and Slurm gives out %d of the %d on "
			       "this node: set spec.schedulerName to tandem",
			       (long long)want, resource, from < gpus ? from : gpus, gpus);

	int r = td_pod_table_devices(a->table, p, from, gpus, (int)want, &mask, err);
	return r == TD_THROTTLED ? TD_INVALID : r; // as every kubelet: it does not wait for them
}

// a->admit_mu is held. False: the pod is not admitted, and has failed or waits.
static bool admit_to(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, const struct td_object *node,
		     int64_t *again_ms)
{
	struct td_pod_admit x = {
		.granted = p->grant.granted,
		.cpu_milli = (int64_t)a->o.cpus * 1000,
		.memory = a->memory_bytes,
		.pods = PODS_PER_NODE,
		.want_cpu_milli = p->req_cpu_milli,
		.want_memory = p->req_memory,
	};

	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);

	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *q = all.v[i];
		pthread_mutex_lock(&q->mu);
		bool counts = q != p && q->node == p->node && q->admitted && !q->cleaned;
		// Slurm counts what it gave out, and may give out again what a stopping pod still
		// has. So among granted pods only Slurm's own sum matters.
		bool sum = counts && q->grant.granted == p->grant.granted && !(q->grant.granted && q->stopping);
		pthread_mutex_unlock(&q->mu);
		x.used_pods += counts;
		x.used_cpu_milli += sum ? q->req_cpu_milli : 0;
		x.used_memory += sum ? q->req_memory : 0;
	}

	td_auto_free char *message = NULL;
	const char *reason = td_pod_admit(&x, node ? node->root : NULL, &message);
	struct td_error e = TD_ERROR_INIT;
	int r;
	if (reason && td_pod_awaits_shadow(&x, node ? node->root : NULL)) {
		pod_wait(p, SHADOW_WAITS, "Slurm has not given its CPUs and memory up to it yet (spec.shadows)");
		td_sooner(again_ms, SHADOW_WAIT_MS); // the Node's change comes before
		return false;
	}
	if (p->wait_reason)
		pod_wait(p, NULL, NULL);
	if (reason)
		fail_pod(a, p, o, reason, message);
	else if ((r = own_devices(a, p, o->root, node ? node->root : NULL, &e))) {
		if (r == TD_THROTTLED) {
			pod_wait(p, SHADOW_WAITS, e.msg);
			td_sooner(again_ms, SHADOW_WAIT_MS); // the pod's change comes before
			return false;
		}
		fail_pod(a, p, o, "UnexpectedAdmissionError", e.msg);
	}

	p->start_ms = td_real_ms(a->clock);

	pthread_mutex_lock(&p->mu);
	p->admitted = !p->fail_reason;
	pthread_mutex_unlock(&p->mu);
	return p->admitted;
}

static bool admit(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms)
{
	char name[16];
	snprintf(name, sizeof(name), "n%d", p->node);
	td_auto(td_object_unref) struct td_object *node = td_informer_get(a->nodes, NULL, name), *fresh = NULL;

	// Of shadows only what the Node says now counts: the bridge shows less on it before it holds less
	// (bridge/syncer/shadow_act.c).
	if (node && !p->grant.granted && td_object_annotation(node, TD_ANN_SHADOW)) {
		struct td_error e = TD_ERROR_INIT;
		if (td_kube_get(a->kube, &td_nodes, NULL, name, a->cancel, &fresh, &e)) {
			pod_wait(p, SHADOW_WAITS, e.msg);
			td_sooner(again_ms, SHADOW_WAIT_MS);
			return false;
		}
	}
	pthread_mutex_lock(&a->admit_mu);
	bool in = admit_to(a, p, o, fresh ? fresh : node, again_ms);
	pthread_mutex_unlock(&a->admit_mu);
	return in;
}

void td_pods_on_node(struct td_kubelet *a, const struct td_object *old, const struct td_object *now)
{
	if (!now ||
	    (old && td_streq(td_object_annotation(old, TD_ANN_SHADOW), td_object_annotation(now, TD_ANN_SHADOW))))
		return;
	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++) {
		pthread_mutex_lock(&all.v[i]->mu);
		bool waits = !all.v[i]->admitted;
		pthread_mutex_unlock(&all.v[i]->mu);
		if (waits)
			td_queue_add(a->queue, all.v[i]->uid);
	}
}

// ---- before the first container ----

// Tests the devices where a policy wants that before this pod (gate/preflight.h): where the Prolog of its stand-in
// did, they have passed already. 0: go on. 1: the pod failed.
static int devices_tested(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, const struct td_holder *h)
{
	struct td_error e = TD_ERROR_INIT;
	long long tries;
	struct td_preflight_ask q = {.node = p->node,
				     .mask = p->devices,
				     .h = h,
				     .partition = td_object_annotation(o, TD_ANN_ASK_PREFIX "partition"),
				     .qos = td_object_annotation(o, TD_ANN_ASK_PREFIX "qos"),
				     .ns = p->ns,
				     .timeout_ms = DEVICE_LATE_MS};
	q.qos = q.qos ? q.qos : ""; // the one of its namespace, which is not known here
	int r = td_nodehealth_preflight(a->health, &q, &tries, a->cancel, &e);
	if (r == TD_DENIED)
		fail_pod(a, p, o, "PreflightFailed", e.msg);
	return r ? 1 : 0;
}

// Acquires the pod's devices at the gate. Slurm runs no Prolog for a pod's allocation here
// (docs/design/0013-acquire.md), so this claim is the only one.
// 0: go on. 1: wait; *again_ms is set, or the pod failed.
static int devices_ready(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms)
{
	struct td_holder h;
	struct td_error e = TD_ERROR_INIT;
	if (!p->devices)
		return 0;

	bool begun = td_pod_begun(p);

	td_pod_holder(p, &h);
	// Whoever has a share may have been taken for gone while it did nothing.
	int r = begun && !h.share ? (td_gate_may_start(a->gate, p->node, p->devices, &h) ? 0 : TD_CONFLICT)
				  : td_gate_try(a->gate, p->node, p->devices, &h, &e);

	if (!r) {
		if (td_streq(p->wait_reason, "WaitingForDevices"))
			pod_wait(p, NULL, NULL);
		return begun || !p->grant.granted || h.share ? 0 : devices_tested(a, p, o, &h);
	}

	if (r == TD_CONFLICT) {
		td_auto_free char *text =
			td_asprintf("the grant of its devices has ended: Slurm gave them to another job%s%s%s",
				    *e.msg ? " (" : "", e.msg, *e.msg ? ")" : "");
		fail_pod(a, p, o, "GrantEnded", text);
		// Why it ended only the bridge knows. A pod that wants to save its work has no time to wait for that.
		const char *signal = td_object_annotation(o, td_annotations[TD_ASKS_SIGNAL].name);
		if (signal && !td_api_signal_read(signal, &p->end_signal, &p->end_signal_s, NULL))
			p->end_signal_s = p->end_signal_s < END_SIGNAL_S ? p->end_signal_s : END_SIGNAL_S;
		return 1;
	}

	pod_wait(p, "WaitingForDevices", e.msg);

	int64_t now = td_mono_ms(a->clock), waited;
	p->devices_since = p->devices_since ? p->devices_since : now;
	waited = now - p->devices_since;
	if (waited >= DEVICE_LATE_MS)
		td_held_late(&a->held, p->node);
	td_sooner(again_ms, waited < DEVICE_WAIT_MS       ? DEVICE_WAIT_MS
			    : waited < DEVICE_WAIT_MAX_MS ? waited
							  : DEVICE_WAIT_MAX_MS);
	return 1;
}

static int network(struct td_kubelet *a, struct td_pod *p, struct td_error *err)
{
	if (p->host_network || p->net_up)
		return 0;
	td_auto_free char *netns = td_pod_netns(a, p);
	int r = td_net_pod_add(netns,
			       &(struct td_net_pod){.switch_name = a->o.switch_name,
						    .addr = p->ip,
						    .gw = a->gateway,
						    .prefix = a->prefix,
						    .users = td_pod_users(a, p)},
			       err);
	if (!r)
		r = td_filters_sync(a->filters, p, err);
	if (r)
		return r;
	pthread_mutex_lock(&p->mu);
	p->net_up = true;
	pthread_mutex_unlock(&p->mu);
	td_filters_changed(a->filters); // what changed meanwhile, the worker left to us
	return 0;
}

static int prepare(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms)
{
	struct td_error e = TD_ERROR_INIT;
	int r = 0;
	if (!p->host_network && !p->ip[0])
		r = td_pod_table_address(a->table, a, p, &e);
	if (!r && p->own_users && !p->users)
		r = td_pod_table_users(a->table, p, &e);
	if (!r && !p->recorded)
		r = td_pod_record_save(a, p, &e);
	if (!r) {
		p->recorded = true;
		r = network(a, p, &e);
	}

	if (r) {
		pod_wait(p, td_kubelet_status_waiting(p), e.msg);
		td_pod_event(a, o, "Warning", "FailedCreatePodSandBox", "%s", e.msg);
		td_sooner(again_ms, 1000);
		return 1;
	}
	return 0;
}

static int volumes(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms)
{
	struct td_sources from;
	struct td_error e = TD_ERROR_INIT;
	td_pod_sources(a, p, o->root, &from);
	td_auto_free char *dir = from.dir;
	int r = td_vol_ensure(&from.vol, &e);
	if (!r) {
		if (!p->volumes_ok)
			r = td_hosts_sync(a->hosts, p->ns, &e);
		if (!r) {
			p->volumes_ok = true;
			p->mount_tries = 0;
			pod_wait(p, NULL, NULL);
			if (td_vol_follows(o->root))
				td_sooner(again_ms, FOLLOW_MS);
			return 0;
		}
	}

	if (p->volumes_ok) { // a running pod keeps what it has
		td_debug("kubelet: %s/%s: %s", p->ns, p->name, e.msg);
		td_sooner(again_ms, FOLLOW_MS);
		return 0;
	}

	td_auto_free char *text = td_asprintf("MountVolume.SetUp failed: %s", e.msg);
	pod_wait(p, td_kubelet_status_waiting(p), text);
	td_pod_event(a, o, "Warning", "FailedMount", "%s", text);

	int64_t ms = MOUNT_RETRY_MS << (p->mount_tries < 6 ? p->mount_tries : 6);
	p->mount_tries++;
	td_sooner(again_ms, ms < MOUNT_RETRY_MAX_MS ? ms : MOUNT_RETRY_MAX_MS);
	return 1;
}

// ---- containers ----

// Does the next step that brings a container that should run towards running.
static void drive(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		  int64_t *again_ms, struct td_cancel *cancel)
{
	int64_t now = td_real_ms(a->clock);

	if (c->wanted) {
		pthread_mutex_lock(&p->mu);
		bool bad = c->unhealthy;
		int64_t grace = c->unhealthy_grace_s >= 0 ? c->unhealthy_grace_s : p->grace_s;
		td_auto_free char *why = td_strdup(c->unhealthy_why);
		pthread_mutex_unlock(&p->mu);
		if (!bad)
			return;
		if (!c->kill_at) {
			c->kill_at = now + grace * 1000;
			td_pod_event(a, o, "Normal", "Killing", "%s", why ? why : "unhealthy");
		}
		td_ctr_stop(a, p, o, c, c->kill_at, again_ms);
		return;
	}

	if (c->state == TD_CTR_TERMINATED) {
		if (!td_kubelet_status_restarts(p, c, o->root))
			return;
		int64_t left = td_backoff_wait(&c->backoff_ms, c->end.started_ms, c->end.finished_ms, now);
		if (left > 0) {
			if (!td_streq(c->wait_reason, "CrashLoopBackOff")) {
				td_ctr_wait(c, "CrashLoopBackOff",
					    "back-off %s restarting failed container=%s pod=%s_%s(%s)",
					    c->backoff_ms < 60000     ? (c->backoff_ms == 10000   ? "10s"
									 : c->backoff_ms == 20000 ? "20s"
												  : "40s")
					    : c->backoff_ms == 80000  ? "1m20s"
					    : c->backoff_ms == 160000 ? "2m40s"
								      : "5m0s",
					    c->name, p->name, p->ns, p->uid);
				td_pod_event(a, o, "Warning", "BackOff",
					     "Back-off restarting failed container %s in pod %s_%s(%s)", c->name,
					     p->name, p->ns, p->uid);
			}
			td_sooner(again_ms, left);
			return;
		}
	}

	int64_t wait = c->start_due - td_mono_ms(a->clock);
	if (wait > 0)
		td_sooner(again_ms, wait);
	else
		td_ctr_start(a, p, o, c, again_ms, cancel);
}

static bool sidecar_up(struct td_pod *p, const struct td_ctr *c)
{
	pthread_mutex_lock(&p->mu);
	bool up = c->state == TD_CTR_RUNNING && c->probe_started && c->post_start != TD_HOOK_RUNNING;
	pthread_mutex_unlock(&p->mu);
	return up;
}

static void containers(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms,
		       struct td_cancel *cancel)
{
	bool mains_begun = false;
	for (size_t i = p->n_init; i < p->n_ctr; i++)
		mains_begun = mains_begun || p->ctr[i].attempt >= 0;

	for (size_t i = 0; i < p->n_init; i++) {
		struct td_ctr *c = &p->ctr[i];
		if (c->kind == TD_CTR_SIDECAR) {
			drive(a, p, o, c, again_ms, cancel);
			if (!mains_begun && !sidecar_up(p, c))
				return;
		} else if (!mains_begun && !(c->state == TD_CTR_TERMINATED && !c->end.exit_code)) {
			drive(a, p, o, c, again_ms, cancel);
			return;
		}
	}

	for (size_t i = p->n_init; i < p->n_ctr; i++)
		drive(a, p, o, &p->ctr[i], again_ms, cancel);
}

static void run(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms,
		struct td_cancel *cancel)
{
	if (!p->admitted) {
		if (!admit(a, p, o, again_ms))
			return;
	}

	int64_t limit = td_jint(o->root, "spec.activeDeadlineSeconds", 0) * 1000;
	if (limit > 0) {
		int64_t left = p->start_ms + limit - td_real_ms(a->clock);
		if (left <= 0) {
			fail_pod(a, p, o, "DeadlineExceeded",
				 "Pod was active on the node longer than the specified deadline");
			return;
		}
		td_sooner(again_ms, left);
	}

	if (atomic_load(&a->down) >> p->node & 1) { // its node reboots
		td_sooner(again_ms, DOWN_MS);
		return;
	}
	if (devices_ready(a, p, o, again_ms) || prepare(a, p, o, again_ms) || volumes(a, p, o, again_ms))
		return;

	td_auto_free char *disk = td_pod_over_disk(a, p, o->root, again_ms);
	if (disk) {
		fail_pod(a, p, o, "Evicted", disk);
		return;
	}

	containers(a, p, o, again_ms, cancel);
}

// ---- stop ----

static void begin_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o)
{
	int64_t now = td_real_ms(a->clock), grace = p->grace_s * 1000;
	if (o && td_object_deleting(o))
		grace = td_jint(o->root, "metadata.deletionGracePeriodSeconds", p->grace_s) * 1000;
	if (!o && grace > FORCED_GRACE_MS) // deleted by force: nobody waits for it any more
		grace = FORCED_GRACE_MS;
	if (p->end_signal) // it comes before the pod's own grace
		grace += p->end_signal_s * 1000;
	if (p->end_grace_s >= 0 && grace > p->end_grace_s * 1000)
		grace = p->end_grace_s * 1000;
	if (td_streq(p->fail_reason, "GrantEnded") && grace > END_GRACE_MS)
		grace = END_GRACE_MS;
	// As in the kubelet, what fills the disk is stopped at once.
	if (td_streq(p->fail_reason, "Evicted"))
		grace = 0;

	// A second delete may shorten the grace, never lengthen it.
	if (p->stop_begun && (p->kill_at <= p->stop_begun + grace))
		return;

	if (!p->stop_begun)
		p->stop_begun = now;
	p->kill_at = p->stop_begun + grace;
	pthread_mutex_lock(&p->mu);
	p->stopping = true;
	pthread_mutex_unlock(&p->mu);

	for (size_t i = 0; i < p->n_ctr; i++)
		if (p->ctr[i].state == TD_CTR_TERMINATED)
			td_ctr_wait(&p->ctr[i], NULL, "%s", "");

	if (p->recorded)
		td_pod_record_save(a, p, NULL);
}

static bool done(const struct td_pod *p, const yyjson_val *pod)
{
	const char *phase = td_kubelet_status_outcome(p, pod);
	return !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
}

// ---- status ----

// podIPs is merged by address, so the addresses that a pod had before its home got another network go one by one.
static void drop_addresses(yyjson_mut_doc *d, yyjson_mut_val *patch, const yyjson_val *now, const yyjson_val *was)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(was, "podIPs"), i, n, x) {
		const char *ip = td_jstr(x, "ip");
		if (!ip || td_jfind(td_jget(now, "podIPs"), "ip", ip))
			continue;
		yyjson_mut_val *gone = yyjson_mut_arr_add_obj(d, td_jm_arr(d, patch, "status.podIPs"));
		td_jm_key_str(d, gone, "$patch", "delete");
		td_jm_str(d, gone, "ip", ip);
	}
}

static int write_status(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_cancel *cancel,
			struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *st = NULL;
	pthread_mutex_lock(&p->mu);
	st = td_kubelet_status_build(p, o->root, a->gateway, td_real_ms(a->clock));
	pthread_mutex_unlock(&p->mu);

	if (p->written ? td_jequal(td_json_root(p->written), td_json_root(st))
		       : td_kubelet_status_shown(td_json_root(st), td_jget(o->root, "status"))) {
		if (!p->written)
			p->written = td_json_ref(st);
		return 0;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *patch = yyjson_mut_doc_get_root(d);
	td_jm_str(d, patch, "metadata.uid", p->uid);
	td_jm_copyval(d, patch, "status", td_json_root(st));
	drop_addresses(d, patch, td_json_root(st), td_jget(o->root, "status"));

	int r = td_kube_patch(a->kube, TD_AT(&td_pods, p->ns, p->name, "status"), TD_PATCH_STRATEGIC, patch, cancel,
			      NULL, err);
	if (r)
		return td_wrap(err, "status of pod %s/%s", p->ns, p->name);

	td_json_unref(p->written);
	p->written = td_json_ref(st);
	td_hosts_changed(a->hosts);
	return 0;
}

// Ends everything of the pod: the object if it waits for us, the logs, the record, the entry in the
// table.
static int finish(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_cancel *cancel,
		  struct td_error *err)
{
	if (o) {
		struct td_kube_delete_opts del = {.uid = p->uid, .grace_s = 0};
		int r = td_kube_delete(a->kube, &td_pods, p->ns, p->name, &del, cancel, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_wrap(err, "last delete of pod %s/%s", p->ns, p->name);
	}

	td_auto_free char *logs = td_pod_log_dir(a, p);
	td_rm_rf(logs, NULL);
	td_pod_record_remove(a, p->uid);
	td_pod_table_remove(a->table, p->uid);
	td_hosts_changed(a->hosts);
	return 0;
}

int td_pod_sync(void *ctx, const char *uid, int64_t *again_ms, struct td_cancel *cancel, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, uid);
	if (!p)
		return 0;

	td_auto(td_object_unref) struct td_object *o = td_pod_object(a, p);
	bool deleting = o && td_object_deleting(o);

	*again_ms = 0;
	td_pod_reap(a, p, o);
	if (!p->foreign)
		grant_ended(a, p, o);

	if (o && !deleting && !p->stop_begun && !p->fail_reason && !p->terminal && !done(p, o->root))
		run(a, p, o, again_ms, cancel);

	bool over = !o || deleting || p->fail_reason || (!p->terminal && done(p, o->root));
	bool all_gone = false;

	if ((over || p->stop_begun) && !p->terminal) {
		begin_stop(a, p, o);
		all_gone = td_pod_stop(a, p, o, again_ms);
		if (!all_gone)
			td_pod_reap(a, p, o); // a killed container is often gone by now
		if (all_gone && !p->cleaned) {
			int r = td_pod_clean(a, p, err);
			if (r)
				return td_wrap(err, "clean up pod %s/%s", p->ns, p->name);
		}
		if (all_gone) {
			pthread_mutex_lock(&p->mu);
			p->terminal = true;
			pthread_mutex_unlock(&p->mu);
			if (p->recorded)
				td_pod_record_save(a, p, NULL);
		}
	}

	if (o && !p->foreign) {
		int r = write_status(a, p, o, cancel, err);
		if (r == TD_NOT_FOUND || r == TD_CONFLICT)
			return 0; // gone, or another pod by now: the informer will say so
		if (r)
			return r;
	}

	if (p->terminal && (!o || deleting))
		return finish(a, p, o, cancel, err);
	return 0;
}

// ---- what the informers tell ----

static struct td_pod *meet(struct td_kubelet *a, const struct td_object *o, int node)
{
	struct td_pod *p = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_pod_from_object(a, o, node, &p, &e)) {
		// No grant can be read. Make the pod without its annotations, only to write a
		// status that says so.
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o->root);
		td_jm_del(yyjson_mut_doc_get_root(d), "metadata.annotations");
		td_auto(td_object_unref) struct td_object *bare =
			td_object_new(td_json_from_mut(yyjson_mut_doc_get_root(d)));
		if (td_pod_from_object(a, bare, node, &p, NULL))
			return NULL;
		p->fail_reason = td_strdup("InvalidGrant");
		p->fail_message = td_strdup(e.msg);
	}

	if (td_kube_pod_ended(o->root)) {
		// It is of an earlier life of this home: there is nothing to run and nothing to
		// say.
		p->terminal = p->cleaned = p->foreign = true;
	}

	td_pod_table_add(a->table, p);
	return p;
}

void td_pods_on_change(void *agent, struct td_object *old, struct td_object *now)
{
	struct td_kubelet *a = agent;
	const struct td_object *o = now ? now : old;
	td_hosts_changed(a->hosts);
	td_filters_changed(a->filters);

	if (old && now && strcmp(old->uid, now->uid))
		td_queue_add(a->queue, old->uid);

	int node = td_kubelet_node_index(a, td_jstr(o->root, "spec.nodeName"));
	if (node < 0)
		return;

	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, o->uid);
	if (!p && now && !(td_kube_pod_ended(now->root) && !td_object_deleting(now)))
		p = meet(a, now, node);
	if (p)
		td_queue_add(a->queue, o->uid);
}

void td_pods_on_config(void *agent, struct td_object *old, struct td_object *now)
{
	struct td_kubelet *a = agent;
	const struct td_object *o = now ? now : old;
	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++)
		if (!strcmp(all.v[i]->ns, o->ns))
			td_queue_add(a->queue, all.v[i]->uid);
}
