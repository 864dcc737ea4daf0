// The writer thread: takes queued writes, checks each against the version that it was made from,
// commits the group, applies it to the tables, and wakes watchers and callers.
#include "apiserver/store_priv.h"
#include "base/fault.h"

#include <string.h>
#include <utlist.h>

#define GROUP_MAX 128 // writes per commit
#define QUEUE_MAX 4096

struct td_pending {
	const struct td_srv_write *w;
	struct td_item *item; // the result
	enum td_srv_event_type type;
	int rc;
	struct td_error err;
	bool done;
	pthread_cond_t cond;
	struct td_pending *pv, *next;
};

// The version that the write `upto` sees: from the writes before it in its group, else from the
// table.
static struct td_item *latest(struct td_pending *group, struct td_pending *upto, struct td_table *t, const char *ns,
			      const char *name)
{
	struct td_item *i = NULL;
	size_t at;
	// Needs no lock: only the writer thread changes the table.
	if (td_items_find(t->v, t->n, ns, name, &at))
		i = t->v[at];
	for (struct td_pending *p = group; p && p != upto; p = p->next)
		if (p->rc == 0 && p->w->table == t && !strcmp(p->item->name, name) && !strcmp(p->item->ns, ns))
			i = p->type == TD_EVENT_DELETED ? NULL : p->item;
	return i;
}

static int check_namespace(struct td_store *s, struct td_pending *group, struct td_pending *p)
{
	const char *ns = p->w->ns;
	struct td_item *n = latest(group, p, s->namespaces, "", ns);
	if (!n) {
		td_fail(&p->err, TD_DENIED, "namespaces \"%s\" not found", ns);
		p->err.http = 404;
		return TD_DENIED;
	}
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(n);
	if (!td_jget(td_json_root(doc), "metadata.deletionTimestamp"))
		return 0;
	td_fail(&p->err, TD_DENIED, "unable to create new content in namespace %s because it is being terminated", ns);
	p->err.http = 403;
	return TD_DENIED;
}

// Checks that what is written can be read again: UTF-8 text, no deeper and no larger than a request
// may be.
static int check_readable(struct td_pending *p)
{
	td_auto(td_json_unref) struct td_json *doc = NULL;
	if (p->item->len > TD_OBJECT_MAX) {
		td_fail(&p->err, TD_INVALID, "%s \"%s\" of %zu bytes is too large: limit is %d", p->w->table->name,
			p->w->name, p->item->len, TD_OBJECT_MAX);
		p->err.http = 413;
		return TD_INVALID;
	}
	int rc = td_json_parse(p->item->bytes, p->item->len, &doc, &p->err);
	return rc < 0 ? td_wrap(&p->err, "%s \"%s\" cannot be stored", p->w->table->name, p->w->name) : 0;
}

static int prepare(struct td_store *s, struct td_pending *group, struct td_pending *p, uint64_t rv)
{
	const struct td_srv_write *w = p->w;
	const char *ns = w->ns ? w->ns : "";
	int rc;

	if (w->in_namespace && (rc = check_namespace(s, group, p)) < 0)
		return rc;
	struct td_item *cur = latest(group, p, w->table, ns, w->name);
	if (!w->base && cur)
		return td_fail(&p->err, TD_EXISTS, "%s \"%s\" already exists", w->table->name, w->name);
	if (w->base && !cur)
		return td_fail(&p->err, TD_NOT_FOUND, "%s \"%s\" not found", w->table->name, w->name);
	if (w->base && cur->rv != w->base) {
		__atomic_add_fetch(&s->conflicts, 1, __ATOMIC_RELAXED);
		return td_fail(&p->err, TD_CONFLICT, "%s \"%s\" has changed", w->table->name, w->name);
	}
	if (w->doc) {
		p->item = td_item_new(w->doc, rv, cur ? cur->crv : rv);
		p->type = cur ? TD_EVENT_MODIFIED : TD_EVENT_ADDED;
	} else {
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(cur);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(doc));
		p->item = td_item_new(d, rv, cur->crv);
		p->type = TD_EVENT_DELETED;
	}

	rc = w->doc ? check_readable(p) : 0;
	const struct td_db_row row = {
		.res = w->table->name,
		.ns = ns,
		.name = w->name,
		.rv = rv,
		.crv = p->item->crv,
		.deleted = !w->doc,
		.bytes = p->item->bytes,
		.len = p->item->len,
		.prev = cur ? cur->rv : 0,
		.prev_len = cur ? cur->len : 0,
	};
	rc = rc < 0 ? rc : td_db_put(s->db, &row, &p->err);
	if (rc < 0)
		p->item = td_item_unref(p->item);

	return rc;
}

static void fail_group(struct td_pending *group, const struct td_error *err)
{
	for (struct td_pending *p = group; p; p = p->next)
		if (p->rc == 0) {
			p->item = td_item_unref(p->item);
			p->err = *err;
			p->rc = err->code;
		}
}

static void commit_group(struct td_store *s, struct td_pending *group)
{
	struct td_error err = TD_ERROR_INIT;
	uint64_t rv = s->revision; // only this thread writes s->revision
	struct td_pending *p;

	if (td_db_begin(s->db, &err) < 0) {
		fail_group(group, &err);
		return;
	}
	size_t n = 0;
	bool broken = false;
	LL_FOREACH (group, p) {
		if (broken) {
			p->rc = TD_INTERNAL;
			p->err = err;
			continue;
		}
		p->rc = prepare(s, group, p, rv + 1);
		if (p->rc == 0) {
			rv++;
			n++;
		} else if (p->rc == TD_INTERNAL) { // the file failed: the whole group fails
			broken = true;
			err = p->err;
		}
	}

	if (broken || (n && (td_fault_at(&err, "apiserver.commit.before") < 0 || td_db_commit(s->db, rv, &err) < 0))) {
		td_db_rollback(s->db);
		fail_group(group, &err);
		return;
	}

	if (!n) {
		td_db_rollback(s->db);
		return;
	}
	// Only crash and delay are possible here: what is in the file must be in memory.
	(void)td_fault_at(NULL, "apiserver.commit.after");
	__atomic_add_fetch(&s->writes, n, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->groups, 1, __ATOMIC_RELAXED);
	pthread_rwlock_wrlock(&s->lock);
	LL_FOREACH (group, p) {
		if (p->rc < 0)
			continue;
		td_table_apply(s, p->w->table, p->type, td_item_ref(p->item));
		p->w->table->touched = true;
	}

	s->revision = rv;
	pthread_rwlock_unlock(&s->lock);
	pthread_mutex_lock(&s->sub_lock);
	LL_FOREACH (group, p) {
		struct td_table *t = p->w->table;
		if (!t->touched)
			continue;
		t->touched = false;
		struct td_sub *sub;
		DL_FOREACH (t->subs, sub)
			sub->wake(sub->ctx);
	}
	pthread_mutex_unlock(&s->sub_lock);
}

static void *writer(void *arg)
{
	struct td_store *s = arg;
	pthread_mutex_lock(&s->queue_lock);
	for (;;) {
		while (!s->queue && !s->stop)
			pthread_cond_wait(&s->queue_cond, &s->queue_lock);
		if (!s->queue)
			break;
		struct td_pending *group = NULL, *p, *tmp;
		for (size_t n = 0; s->queue && n < GROUP_MAX; n++) {
			p = s->queue;
			DL_DELETE2(s->queue, p, pv, next);
			DL_APPEND2(group, p, pv, next);
			s->queued--;
		}
		pthread_mutex_unlock(&s->queue_lock);
		commit_group(s, group);
		pthread_mutex_lock(&s->queue_lock);
		DL_FOREACH_SAFE2(group, p, tmp, next)
		{
			p->done = true;
			pthread_cond_signal(&p->cond); // p may be gone as soon as the lock is
		}
	}
	pthread_mutex_unlock(&s->queue_lock);
	return NULL;
}

int td_store_write(struct td_store *s, const struct td_srv_write *w, struct td_item **ret, struct td_error *err)
{
	struct td_pending p = {.w = w, .cond = PTHREAD_COND_INITIALIZER};
	pthread_mutex_lock(&s->queue_lock);
	if (s->stop || s->queued >= QUEUE_MAX) {
		bool stop = s->stop;
		pthread_mutex_unlock(&s->queue_lock);
		return td_fail(err, stop ? TD_CANCELLED : TD_THROTTLED,
			       stop ? "the server is stopping" : "too many writes are waiting");
	}

	DL_APPEND2(s->queue, &p, pv, next);
	s->queued++;
	pthread_cond_signal(&s->queue_cond);
	while (!p.done)
		pthread_cond_wait(&p.cond, &s->queue_lock);
	pthread_mutex_unlock(&s->queue_lock);
	pthread_cond_destroy(&p.cond);
	if (p.rc < 0) {
		if (err)
			*err = p.err;
		return p.rc;
	}

	if (ret)
		*ret = td_item_copy(p.item);
	td_item_unref(p.item);

	return 0;
}

int td_writer_start(struct td_store *s, struct td_error *err)
{
	if (pthread_create(&s->writer, NULL, writer, s) != 0)
		return td_fail(err, TD_INTERNAL, "cannot start the store's writer thread");
	s->started = true;
	return 0;
}

void td_writer_stop(struct td_store *s)
{
	if (!s->started)
		return;
	pthread_mutex_lock(&s->queue_lock);
	s->stop = true;
	pthread_cond_signal(&s->queue_cond);
	pthread_mutex_unlock(&s->queue_lock);
	pthread_join(s->writer, NULL);
}
