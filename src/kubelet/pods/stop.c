// Stops containers: preStop, TERM, and KILL when the grace period is over. Sidecars stop after the
// containers that they serve, the last one first.
#include "base/fault.h"
#include "base/log.h"
#include "gate/gate.h"
#include "kubelet/pods/sync.h"
#include "kubelet/pods/volumes.h"

#include <signal.h>
#include <string.h>

enum { KILL_AGAIN_MS = 1000 };

bool td_ctr_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c, int64_t kill_at,
		 int64_t *again_ms)
{
	int64_t now = td_real_ms(a->clock);
	if (!c->wanted)
		return true;

	const yyjson_val *spec = o ? td_ctr_spec(o->root, c->name) : NULL;

	if (!c->stop_begun) {
		c->stop_begun = now;
		pthread_mutex_lock(&p->mu);
		bool unhealthy = c->unhealthy;
		pthread_mutex_unlock(&p->mu);
		if (o && !unhealthy) // otherwise its own reason was told
			td_pod_event(a, o, "Normal", "Killing", "Stopping container %s", c->name);
		if (td_jget(spec, "lifecycle.preStop") && kill_at > now && c->state == TD_CTR_RUNNING)
			td_hook_begin(a, p, o, c, "preStop", kill_at - now);
	}

	pthread_mutex_lock(&p->mu);
	bool hook = c->pre_stop == TD_HOOK_RUNNING;
	pthread_mutex_unlock(&p->mu);

	int64_t left = kill_at - now;
	struct td_error e = TD_ERROR_INIT;

	if (left <= 0) {
		c->killed = true;
		if (td_oci_signal(a->oci, c->id, SIGKILL, &e) && e.code != TD_NOT_FOUND)
			td_warn("kubelet: %s/%s: kill %s: %s", p->ns, p->name, c->name, e.msg);
		td_sooner(again_ms, KILL_AGAIN_MS);
		return false;
	}

	// The signal by which the pod wants to hear of it, and then the time that it asked for.
	if (p->end_signal && !c->term_sent && c->state == TD_CTR_RUNNING) {
		int64_t term_at = c->stop_begun + p->end_signal_s * 1000;
		if (!c->warned && c->id) {
			c->warned = true;
			int told = td_oci_tell(a->oci, c->id, p->end_signal);
			td_info("kubelet: %s/%s: %s was told by signal %d: %d processes", p->ns, p->name, c->name,
				p->end_signal, told);
		}
		if (now < term_at) {
			td_sooner(again_ms, term_at - now < left ? term_at - now : left);
			return false;
		}
	}

	if (!c->term_sent && !hook) {
		c->term_sent = true;
		if (!td_fault_at(NULL, "kubelet.container-term.before"))
			td_oci_signal(a->oci, c->id, SIGTERM, NULL);
	}

	td_sooner(again_ms, left);
	return false;
}

bool td_pod_stop(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, int64_t *again_ms)
{
	bool mains = true;
	for (size_t i = 0; i < p->n_ctr; i++)
		if (p->ctr[i].kind != TD_CTR_SIDECAR)
			mains = td_ctr_stop(a, p, o, &p->ctr[i], p->kill_at, again_ms) && mains;
	if (!mains && td_real_ms(a->clock) < p->kill_at)
		return false;

	bool all = mains;
	for (size_t i = p->n_init; i-- > 0;) {
		if (p->ctr[i].kind != TD_CTR_SIDECAR)
			continue;
		// A sidecar that is no longer needed gets what is left of the grace period, and at
		// least 2 s.
		int64_t now = td_real_ms(a->clock), at = p->kill_at > now + 2000
								 ? p->kill_at
								 : (p->ctr[i].kill_at ? p->ctr[i].kill_at : now + 2000);
		p->ctr[i].kill_at = at;
		if (!td_ctr_stop(a, p, o, &p->ctr[i], at, again_ms)) {
			all = false;
			break;
		}
	}

	return all;
}

int td_pod_clean(struct td_kubelet *a, struct td_pod *p, struct td_error *err)
{
	td_auto_free char *netns = td_pod_netns(a, p), *dir = td_pod_dir(a, p);

	for (size_t i = 0; i < p->n_ctr; i++) {
		if (p->ctr[i].attempt < 0)
			continue;
		td_auto_free char *id = td_pod_container_id(a, p, &p->ctr[i]);
		int r = td_fault_at(err, "kubelet.container-delete.before");
		if (!r)
			r = td_oci_delete(a->oci, id, true, err);
		if (!r)
			r = td_fault_at(err, "kubelet.container-delete.after");
		if (r)
			return r;
	}

	int r = p->host_network ? 0 : td_net_pod_delete(netns, err);
	if (!r)
		r = td_vol_remove(dir, err);
	if (r)
		return r;

	pthread_mutex_lock(&p->mu);
	p->net_up = false;
	p->cleaned = true;
	pthread_mutex_unlock(&p->mu);
	td_gate_kick(a->gate);
	return 0;
}
