// The reconciler of the annotations gate-held and devices-held-by.
#include "gate/held.h"

#include "pool/aside.h"

#include <string.h>

enum { LOOK_MS = 1000 };

void td_held_init(struct td_held *h, const struct td_clock *clock)
{
	*h = (struct td_held){.queue = td_queue_new(clock)};
	pthread_mutex_init(&h->mu, NULL);
}

void td_held_done(struct td_held *h)
{
	if (!h->queue)
		return;
	td_queue_free(h->queue);
	pthread_mutex_destroy(&h->mu);
}

void td_held_late(struct td_held *h, int node)
{
	pthread_mutex_lock(&h->mu);
	h->late |= (uint64_t)1 << node;
	pthread_mutex_unlock(&h->mu);
	td_queue_add(h->queue, td_gate_node_name(h->gate, node));
}

// Devices that pods of other schedulers have and that Slurm does not hold for them (spec.shadows).
static uint64_t lacking(const struct td_object *node)
{
	const char *text = td_object_annotation(node, TD_ANN_SHADOW);
	td_auto(td_json_unref) struct td_json *j = NULL;
	uint64_t mask = 0;
	if (text && !td_json_parse(text, strlen(text), &j, NULL))
		td_pool_aside_read(td_jstr(td_json_root(j), "twice.devices"), &mask);
	return mask;
}

void td_held_on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_held *h = ctx;
	if (now && (td_object_annotation(now, TD_ANN_GATE_HELD) || td_object_annotation(now, TD_ANN_DEVICES_OUT) ||
		    td_object_annotation(now, TD_ANN_DEVICES_HOLD) || td_object_annotation(now, TD_ANN_DEVICES_BY) ||
		    lacking(now)))
		td_queue_add(h->queue, now->name);
}

// want NULL: the annotation is removed.
static int annotate(struct td_held *h, const struct td_object *o, const char *key, const char *want,
		    struct td_cancel *c, struct td_error *err)
{
	if (td_streq(td_object_annotation(o, key), want))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *ann = td_jm_obj(d, root, "metadata.annotations");
	td_jm_str(d, root, "metadata.uid", o->uid);
	if (want)
		td_jm_key_str(d, ann, key, want);
	else
		td_jm_key_set(d, ann, key, yyjson_mut_null(d));
	return td_kube_patch(h->kube, TD_AT(&td_nodes, NULL, o->name), TD_PATCH_MERGE, root, c, NULL, err);
}

// Who holds the devices that shall be held for nobody's use and that Slurm does not hold yet.
static int sync_busy(struct td_held *h, int node, const struct td_object *o, int64_t *again_ms, struct td_cancel *c,
		     struct td_error *err)
{
	uint64_t want, held;
	td_pool_aside_both(td_object_annotation(o, TD_ANN_DEVICES_OUT), td_object_annotation(o, TD_ANN_DEVICES_HOLD),
			   &want);
	want |= lacking(o);
	td_pool_aside_read(td_object_annotation(o, TD_ANN_DEVICES_HELD), &held);
	td_auto_buf struct td_buf t = {0};
	for (int i = 0; i < TD_ASIDE_MAX; i++) {
		struct td_holder who;
		if (want & ~held & (uint64_t)1 << i)
			td_buf_printf(&t, "%s\"gpu%d\":%lld", t.len ? "," : "{", i,
				      td_gate_holder(h->gate, node, i, &who) ? (long long)who.job : 0);
	}
	if (t.len)
		td_buf_putc(&t, '}');
	if (want & ~held)
		*again_ms = LOOK_MS;
	return annotate(h, o, TD_ANN_DEVICES_BY, t.len ? td_buf_str(&t) : NULL, c, err);
}

// Reconciles the annotations of one node.
static int sync_node(void *ctx, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_held *h = ctx;
	int node = td_gate_node_index(h->gate, name);
	td_auto(td_object_unref) struct td_object *o = td_informer_get(h->nodes, NULL, name);
	if (node < 0 || !o)
		return 0;
	int b = sync_busy(h, node, o, again_ms, c, err);
	if (b)
		return b;

	const char *said = td_object_annotation(o, TD_ANN_GATE_HELD);
	char text[200] = "";
	uint64_t bit = (uint64_t)1 << node;
	pthread_mutex_lock(&h->mu);
	bool late = h->late & bit;
	h->late &= ~bit;
	pthread_mutex_unlock(&h->mu);

	bool held = (late || said) && td_gate_held_up(h->gate, node, text, sizeof(text));
	if (held)
		*again_ms = LOOK_MS;
	int r = annotate(h, o, TD_ANN_GATE_HELD, held ? text : NULL, c, err);
	if (r && held) { // the retry must not forget why it came
		pthread_mutex_lock(&h->mu);
		h->late |= bit;
		pthread_mutex_unlock(&h->mu);
	}
	return r;
}

int td_held_run(struct td_held *h, struct td_cancel *c, struct td_error *err)
{
	struct td_controller ctl = {.name = "held", .workers = 1, .queue = h->queue, .reconcile = sync_node, .ctx = h};
	return td_controller_run(&ctl, c, err);
}
