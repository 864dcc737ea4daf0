// The links of all NodeSets.
#include "far/link.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"

#include <string.h>

enum { SECRET_MS = 15000 };

struct td_far {
	struct td_far_here here;
	struct td_far_makings making;
	const struct td_far_streams *streams;
	struct td_far_face *face; // NULL: nothing is served
	bool face_said;           // that it cannot be
	pthread_mutex_t lock;     // guards what follows; its writer is one thread
	struct td_far_link *links;
	struct trouble { // NodeSets without a link
		char *own, *text;
		struct trouble *next;
	} *troubles;
	int64_t looked_ms; // when the Secrets were looked at
};

struct td_far *td_far_new(struct td_kube *here, struct td_recorder *events, const struct td_far_streams *streams)
{
	struct td_far *f = td_calloc(1, sizeof(*f));
	f->here = (struct td_far_here){.here = here, .events = events, .making = &f->making};
	pthread_mutex_init(&f->making.lock, NULL);
	f->streams = streams;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void trouble(struct td_far *f, const char *own, const char *text)
{
	pthread_mutex_lock(&f->lock);
	struct trouble **p = &f->troubles;
	while (*p && strcmp((*p)->own, own) != 0)
		p = &(*p)->next;
	bool news = text && (!*p || strcmp((*p)->text, text) != 0);
	if (*p) {
		struct trouble *x = *p;
		*p = x->next;
		free(x->own);
		free(x->text);
		free(x);
	}
	if (text) {
		struct trouble *x = td_calloc(1, sizeof(*x));
		*x = (struct trouble){td_strdup(own), td_strdup(text), f->troubles};
		f->troubles = x;
	}
	pthread_mutex_unlock(&f->lock);
	if (news)
		td_warn("NodeSet %s: %s", own, text);
}

char *td_far_problem(struct td_far *f, const char *ns, const char *set)
{
	td_auto_free char *own = td_asprintf("%s/%s", ns, set);
	char *ret = NULL;
	pthread_mutex_lock(&f->lock);
	for (struct trouble *x = f->troubles; x && !ret; x = x->next)
		if (!strcmp(x->own, own))
			ret = td_strdup(x->text);
	for (struct td_far_link *l = f->links; l && !ret; l = l->next)
		if (!strcmp(l->own, own)) {
			pthread_mutex_lock(&l->lock);
			for (int k = 0; k < TD_FAR_OF && !ret; k++)
				ret = *l->problem[k] ? td_strdup(l->problem[k]) : NULL;
			pthread_mutex_unlock(&l->lock);
		}
	pthread_mutex_unlock(&f->lock);
	return ret;
}

static const struct td_far_want *want_of(const struct td_far_want *v, size_t n, const struct td_far_link *l)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(v[i].set->uid, l->set->uid))
			return &v[i];
	return NULL;
}

// Is the link what the NodeSet asks for now? Its Secret may say another account or address since.
static bool still(const struct td_far_link *l, const struct td_far_want *w, bool secrets, struct td_cancel *c)
{
	if (!td_jequal(td_jget(l->set->root, "spec.otherCluster"), td_jget(w->set->root, "spec.otherCluster")) ||
	    l->reserve_milli != w->reserve_milli || l->reserve_memory != w->reserve_memory)
		return false;
	td_auto(td_object_unref) struct td_object *secret = NULL;
	return !secrets ||
	       td_kube_get(l->here, &td_secrets, l->set->ns,
			   td_jstr_or(l->set->root, "spec.otherCluster.kubeconfigSecret", ""), c, &secret, NULL) ||
	       td_streq(secret->rv, l->secret_rv);
}

static bool linked(const struct td_far *f, const struct td_far_want *w)
{
	for (const struct td_far_link *l = f->links; l; l = l->next)
		if (td_streq(l->set->uid, w->set->uid))
			return true;
	return false;
}

struct td_far_link *td_far_link_of(struct td_far *f, const char *ns, const char *name, struct td_object **ret_pod)
{
	struct td_far_link *found = NULL;
	pthread_mutex_lock(&f->lock);
	for (struct td_far_link *l = f->links; l && !found; l = l->next) {
		td_auto(td_object_unref) struct td_object *pod = td_informer_get(l->pods, ns, name);
		td_auto(td_object_unref) struct td_object *node = pod ? td_far_node_of(l, pod) : NULL;
		if (!node)
			continue;
		pthread_mutex_lock(&l->lock);
		l->users++;
		pthread_mutex_unlock(&l->lock);
		*ret_pod = td_steal(pod);
		found = l;
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}

void td_far_link_put(struct td_far_link *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	if (!--l->users)
		pthread_cond_broadcast(&l->quiet);
	pthread_mutex_unlock(&l->lock);
}

// Serves the streams as soon as there is somebody who might want them. look: whoever may come may have changed.
static void serve(struct td_far *f, bool look, struct td_cancel *c)
{
	struct td_error e = TD_ERROR_INIT;
	if (f->face && look && td_far_face_stale(f->face, c)) {
		td_info("the certificates by which clients are known have changed: streams of pods in other clusters "
			"begin anew");
		f->face = td_far_face_free(f->face);
	}
	if (f->face || !f->streams || !f->streams->listen)
		return;
	int r = td_far_face_new(f, f->here.here, f->streams, c, &f->face, &e);
	if (r && !f->face_said)
		td_warn("logs and exec of pods in other clusters are not served: %s", e.msg);
	f->face_said = r;
	if (!r && !td_starts(f->streams->listen, "unix:")) {
		f->here.address = f->streams->address;
		f->here.port = td_far_face_port(f->face);
	}
}

void td_far_sync(struct td_far *f, const struct td_far_want *v, size_t n, struct td_cancel *c)
{
	int64_t now = td_mono_ms(&td_clock_system);
	bool secrets = now - f->looked_ms >= SECRET_MS;
	if (secrets)
		f->looked_ms = now;
	if (n)
		serve(f, secrets, c);
	for (struct td_far_link **p = &f->links; *p;) {
		struct td_far_link *l = *p;
		const struct td_far_want *w = want_of(v, n, l);
		if (w && still(l, w, secrets, c)) {
			p = &l->next;
			continue;
		}
		pthread_mutex_lock(&f->lock);
		*p = l->next;
		pthread_mutex_unlock(&f->lock);
		// One that is made anew finds its pods and Nodes again. In another namespace it would not.
		if (!w || !td_streq(l->ns, td_jstr_or(w->set->root, "spec.otherCluster.namespace", "tandem")))
			td_far_link_leave(l, c);
		td_info("NodeSet %s: the link to its other cluster ends%s", l->own, w ? ", and is made anew" : "");
		trouble(f, l->own, NULL);
		td_far_link_free(l);
	}
	for (size_t i = 0; i < n && !td_cancelled(c); i++) {
		struct td_far_link *l = NULL;
		struct td_error e = TD_ERROR_INIT;
		td_auto_free char *own = td_asprintf("%s/%s", v[i].set->ns, v[i].set->name);
		if (linked(f, &v[i]))
			continue;
		int r = td_far_link_new(&v[i], &f->here, c, &l, &e);
		trouble(f, own, r ? e.msg : NULL);
		if (r)
			continue;
		td_info("NodeSet %s: linked to its other cluster, %s", own, td_kube_server(l->there));
		pthread_mutex_lock(&f->lock);
		l->next = f->links;
		f->links = l;
		pthread_mutex_unlock(&f->lock);
	}
}

struct td_far *td_far_free(struct td_far *f)
{
	if (!f)
		return NULL;
	for (struct td_far_link *l = f->links; l; l = l->next)
		td_cancel_fire(l->stop);
	td_far_face_free(f->face);
	for (struct td_far_link *l; (l = f->links);) {
		f->links = l->next;
		td_far_link_free(l);
	}
	for (struct trouble *x; (x = f->troubles);) {
		f->troubles = x->next;
		free(x->own);
		free(x->text);
		free(x);
	}
	td_far_making_free(f->making.all);
	pthread_mutex_destroy(&f->making.lock);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}
