// The table of shadows, and what is said of them.
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow_priv.h"
#include "pool/aside.h"

#include <string.h>

struct td_shadows *td_shadows_new(void)
{
	struct td_shadows *s = td_calloc(1, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

struct td_shadows *td_shadows_free(struct td_shadows *s)
{
	struct td_shadow_of *x, *tmp;
	if (!s)
		return NULL;
	HASH_ITER (hh, s->by_node, x, tmp) {
		HASH_DEL(s->by_node, x);
		free(x->node);
		free(x->said);
		free(x);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static struct td_shadow_of *find_locked(struct td_shadows *s, const char *node)
{
	struct td_shadow_of *x = NULL;
	HASH_FIND_STR(s->by_node, node, x);
	return x;
}

struct td_shadow_of *td_shadow_of_locked(struct td_shadows *s, const char *node)
{
	struct td_shadow_of *x = find_locked(s, node);
	if (x)
		return x;
	x = td_calloc(1, sizeof(*x));
	x->node = td_strdup(node);
	x->seen[0] = x->refuse[0] = -1;
	HASH_ADD_KEYPTR(hh, s->by_node, x->node, strlen(x->node), x);
	return x;
}

const char *td_shadow_node(const struct td_settings *s, const struct td_slurm_job *j)
{
	return td_hold_node(s, j, TD_SHADOW_MARK);
}

void td_shadow_found(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j)
{
	const char *node = td_shadow_node(s, j);
	if (!node || td_slurm_job_ended(j->states))
		return;
	pthread_mutex_lock(&b->shadows->lock);
	struct td_shadow_of *x = td_shadow_of_locked(b->shadows, node);
	bool known = x->n == TD_SHADOWS_MAX;
	for (size_t i = 0; i < x->n; i++)
		known |= x->v[i].job == j->id;
	if (!known) {
		x->v[x->n++] =
			(struct td_shadow_job){.job = j->id,
					       .is = {.has = {j->n_nodes ? j->nodes[0].cpus : j->want_cpus,
							      j->n_nodes ? j->nodes[0].memory_mb : j->want_memory_mb},
						      .runs = j->n_nodes > 0,
						      .ahead = !j->n_nodes && j->priority >= TD_HOLD_AHEAD}};
		x->seen[0] = -1; // its record is read
	}
	pthread_mutex_unlock(&b->shadows->lock);
	if (!known)
		td_queue_add(b->node_queue, node);
}

void td_shadows_listed(struct td_bridge *b, int64_t began_ms)
{
	td_auto_strv struct td_strv nodes = {0};
	struct td_shadow_of *x, *tmp;
	pthread_mutex_lock(&b->shadows->lock);
	b->shadows->listed_ms = began_ms;
	HASH_ITER (hh, b->shadows->by_node, x, tmp)
		if (x->unsure_ms)
			td_strv_add(&nodes, x->node);
	pthread_mutex_unlock(&b->shadows->lock);
	for (size_t i = 0; i < nodes.n; i++)
		td_queue_add(b->node_queue, nodes.v[i]);
}

void td_shadow_on_pod(void *bridge, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = bridge;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	const struct td_object *any = now ? now : old;
	if (!s || (!s->shadows && !td_object_annotation(any, TD_ANN_SHADOW_DEVICES)))
		return;
	// Only what is counted of it matters: its status changes all the time.
	if (old && now && td_kube_pod_ended(old->root) == td_kube_pod_ended(now->root) &&
	    td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")) &&
	    td_streq(td_object_annotation(old, TD_ANN_SHADOW_DEVICES),
		     td_object_annotation(now, TD_ANN_SHADOW_DEVICES)))
		return;
	const char *node = td_jstr(any->root, "spec.nodeName");
	if (node)
		td_queue_add(b->node_queue, node);
}

void td_shadow_gone(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->shadows->lock);
	struct td_shadow_of *x = find_locked(b->shadows, node);
	if (x && !x->n && !x->unsure_ms) {
		HASH_DEL(b->shadows->by_node, x);
		free(x->node);
		free(x->said);
		free(x);
	}
	pthread_mutex_unlock(&b->shadows->lock);
}

static struct td_pool_size held_locked(const struct td_shadow_of *x)
{
	struct td_pool_size sum = {0};
	for (size_t i = 0; i < x->n; i++) {
		const struct td_pool_size one = td_pool_shadow_held(&x->v[i].is, 1);
		sum.cpus += one.cpus;
		sum.memory_mb += one.memory_mb;
	}
	return sum;
}

struct td_pool_size td_shadow_holds(struct td_bridge *b, const char *node)
{
	pthread_mutex_lock(&b->shadows->lock);
	const struct td_shadow_of *x = find_locked(b->shadows, node);
	const struct td_pool_size sum = x ? held_locked(x) : (struct td_pool_size){0};
	pthread_mutex_unlock(&b->shadows->lock);
	return sum;
}

static void size_text(struct td_buf *t, struct td_pool_size s)
{
	td_buf_printf(t, "\"cpu\":\"%lld\",\"memory\":\"%lldMi\"", (long long)s.cpus, (long long)s.memory_mb);
}

char *td_shadow_text_with(struct td_bridge *b, const char *node, const struct td_pool_size *left)
{
	td_auto_buf struct td_buf t = {0};
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	struct td_aside_lent lent;
	td_aside_lent(b, node, &lent);
	td_auto_free char *devices = td_pool_aside_write(lent.lent),
			  *devices_twice = td_pool_aside_write(lent.lent & ~lent.held);
	pthread_mutex_lock(&b->shadows->lock);
	const struct td_shadow_of *x = find_locked(b->shadows, node);
	if (x && x->on) {
		struct td_pool_size held = left ? *left : held_locked(x),
				    twice = td_pool_shadow_missing(x->there, held);
		held.cpus += lent.cpus;
		td_buf_putc(&t, '{');
		size_text(&t, held);
		if (devices)
			td_buf_printf(&t, ",\"devices\":\"%s\"", devices);
		for (size_t i = 0; s && i < s->n_lends; i++)
			td_buf_printf(&t, "%s\"%s\"%s", i ? "," : ",\"deviceNamespaces\":[", s->lends[i],
				      i + 1 == s->n_lends ? "]" : "");
		if (twice.cpus || twice.memory_mb || devices_twice) {
			td_buf_puts(&t, ",\"twice\":{");
			size_text(&t, twice);
			if (devices_twice)
				td_buf_printf(&t, ",\"devices\":\"%s\"", devices_twice);
			td_buf_putc(&t, '}');
		}
		td_buf_putc(&t, '}');
	}
	pthread_mutex_unlock(&b->shadows->lock);
	return t.len ? td_buf_take(&t) : NULL;
}

char *td_shadow_text(struct td_bridge *b, const char *node)
{
	return td_shadow_text_with(b, node, NULL);
}
