// The threads of an agent (parts.h).
#include "gate/parts.h"

#include "base/log.h"

static void *run(void *arg)
{
	struct td_gate_part *p = arg;
	struct td_error e = TD_ERROR_INIT;
	int r = p->run(p->ctx, &e);
	if (r && r != TD_CANCELLED && !td_cancelled(p->cancel)) {
		td_err("%s: %s", p->name, e.msg);
		td_cancel_fire(p->cancel); // supervise or the kubelet restarts the whole process
	}
	return NULL;
}

int td_parts_start(struct td_gate_part *v, size_t n, struct td_cancel *cancel, struct td_error *err)
{
	for (size_t i = 0; i < n; i++) {
		v[i].cancel = cancel;
		v[i].started = !pthread_create(&v[i].thread, NULL, run, &v[i]);
		if (!v[i].started) {
			td_cancel_fire(cancel);
			return td_fail(err, TD_INTERNAL, "start thread %s", v[i].name);
		}
	}
	return 0;
}

void td_parts_join(struct td_gate_part *v, size_t n)
{
	if (n)
		td_cancel_wait(v[0].cancel, -1);
	for (size_t i = 0; i < n; i++)
		if (v[i].started)
			pthread_join(v[i].thread, NULL);
}
