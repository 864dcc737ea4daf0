// What has failed in login pods that run: services of the site (spec.services), and sshd. Nobody there may write to the API,
// so a probe that ends nothing says it (templates/login.yaml), and the kubelet's events about the pod have its words.
#include "operator/operator.h"

#include "base/log.h"
#include "pool/cluster.h"

#include <stdlib.h>
#include <string.h>

// A look waits a hundred times as long as the last one took: the API server goes over all events of the namespace. But
// one that a server kept waiting blinds nobody for hours.
enum { LOOK_MS = 10000, LOOK_MAX_MS = 120000, TIMES = 100, WORDS_MAX = 300, ALL_MAX = 900 };

const char *td_op_login_words(const yyjson_val *event, int64_t now_ms)
{
	static const char mark[] = "Liveness probe failed: tandem: ";
	int64_t at = 0;
	const char *words = strstr(td_jstr_or(event, "message", ""), mark),
		   *when = td_jstr_or(event, "lastTimestamp", td_jstr_or(event, "eventTime", ""));
	if (!words || td_time_parse(when, &at) || !td_streq(td_jstr(event, "reason"), "Unhealthy") ||
	    !td_streq(td_jstr(event, "involvedObject.kind"), "Pod") ||
	    !td_pool_login_fails(td_jint(event, "count", 1), now_ms - at))
		return NULL;
	return words + sizeof(mark) - 1;
}

// The words about one pod, of the newest event. NULL: nothing has failed.
static const char *about(const struct td_objects *events, const struct td_object *pod, int64_t now_ms)
{
	const char *words = NULL;
	int64_t newest = INT64_MIN, at = 0;
	for (size_t i = 0; i < events->n; i++) {
		const yyjson_val *e = events->v[i]->root;
		const char *w =
			td_streq(td_jstr(e, "involvedObject.uid"), pod->uid) ? td_op_login_words(e, now_ms) : NULL;
		if (!w || td_time_parse(td_jstr_or(e, "lastTimestamp", td_jstr_or(e, "eventTime", "")), &at) ||
		    at < newest)
			continue;
		newest = at;
		words = w;
	}
	return words;
}

const char *td_op_logins_failed(struct td_op *op, const struct td_object *sc, struct td_op_view *v, struct td_cancel *c)
{
	int64_t now = td_mono_ms(&td_clock_system), real = td_real_ms(&td_clock_system);
	if (!yyjson_arr_size(td_jget(sc->root, "spec.login")) || now < v->logins.due_ms)
		return v->logins.failed;
	td_auto_objects struct td_objects events = {0}, pods = {0};
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_list(op->k, &td_events, sc->ns, NULL, "reason=Unhealthy", c, &events, &e);
	int64_t end = td_mono_ms(&td_clock_system), pause = (end - now) * TIMES;
	v->logins.due_ms = end + (pause > LOOK_MAX_MS ? LOOK_MAX_MS : pause > LOOK_MS ? pause : LOOK_MS);
	if (r) {
		td_debug("what fails in login pods of %s/%s is not known: %s", sc->ns, sc->name, e.msg);
		return v->logins.failed; // what was known
	}
	td_informer_list(op->pods, sc->ns, &pods);
	td_op_sort(&pods);
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < pods.n && b.len < ALL_MAX; i++) {
		const struct td_object *p = pods.v[i];
		bool login = td_streq(td_object_label(p, TD_LABEL_CLUSTER), sc->name) &&
			     td_streq(td_object_label(p, TD_LABEL_NAME), "login");
		// One that does not run is LoginReady's.
		const char *words = login && td_op_pod_ready(p) ? about(&events, p, real) : NULL;
		size_t line = words ? strcspn(words, "\n") : 0;
		if (words)
			td_buf_printf(&b, "%s%s: %.*s", b.len ? "; " : "", p->name,
				      line < WORDS_MAX ? (int)line : WORDS_MAX, words);
	}
	v->logins.known = true;
	free(td_steal(v->logins.failed));
	v->logins.failed = b.len ? td_buf_take(&b) : NULL;
	return v->logins.failed;
}
