// A node whose gate is stuck says so on its Node object (annotation tandem.dev/gate-held); the bridge drains it with that reason, and
// resumes it when the annotation is gone. All state is there and in the gate's table: a restarted agent takes it up again.
#include "agent/agent.h"
#include "agent/gate/gate.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 1000 };

void td_agent_gate_late(void *ctx, int node)
{
	struct td_agent *a = ctx;
	char name[16];
	snprintf(name, sizeof(name), "n%d", node);
	pthread_mutex_lock(&a->late_mu);
	a->late |= (uint64_t)1 << node;
	pthread_mutex_unlock(&a->late_mu);
	td_queue_add(a->held, a->node ? a->node : name);
}

int td_agent_held_sync(void *ctx, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_agent *a = ctx;
	int node = !a->node ? td_agent_node_index(a, name) : td_streq(a->node, name) ? 0 : -1;
	td_auto(td_object_unref) struct td_object *o = td_informer_get(a->nodes, NULL, name);
	if (node < 0 || !o)
		return 0;
	const char *said = td_object_annotation(o, TD_ANN_GATE_HELD);
	char text[200] = "";
	uint64_t bit = (uint64_t)1 << node;
	pthread_mutex_lock(&a->late_mu);
	bool late = a->late & bit;
	a->late &= ~bit;
	pthread_mutex_unlock(&a->late_mu);
	bool held = (late || said) && td_gate_held_up(a->gate, node, text, sizeof(text));
	if (held)
		*again_ms = LOOK_MS;
	if (td_streq(said, held ? text : NULL))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *ann = td_jm_obj(d, root, "metadata.annotations");
	td_jm_str(d, root, "metadata.uid", o->uid);
	if (held)
		td_jm_key_str(d, ann, TD_ANN_GATE_HELD, text);
	else
		td_jm_key_set(d, ann, TD_ANN_GATE_HELD, yyjson_mut_null(d));
	int r = td_kube_patch(a->kube, &td_nodes, NULL, name, NULL, TD_PATCH_MERGE, root, c, NULL, err);
	if (r && held) { // the retry must not forget why it came
		pthread_mutex_lock(&a->late_mu);
		a->late |= bit;
		pthread_mutex_unlock(&a->late_mu);
	}
	return r;
}
