// Calls of members' gateways, each with a statement of its own.
#include "gateway/hub.h"
#include "gateway/statement.h"

#include "api/status.h"
#include "base/together.h"
#include "http/client.h"

#include <string.h>

enum { CALL_MS = 30000, ASK_MS = 4000, IDLE_MS = 0 };

// What the member's gateway meant by its answer.
static int refusal(const char *member, int status, const struct td_buf *body, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *words = NULL, *code = NULL;
	if (body->len && !td_json_parse(td_buf_str((struct td_buf *)(uintptr_t)body), body->len, &j, NULL)) {
		words = td_jstr(td_json_root(j), "error.message");
		code = td_jstr(td_json_root(j), "error.code");
	}
	int r = status == 404                                        ? TD_NOT_FOUND
		: status == 409                                      ? TD_CONFLICT
		: status == 429                                      ? TD_THROTTLED
		: status == 401                                      ? TD_UNAUTHENTICATED
		: status == 403                                      ? TD_DENIED
		: status == 501                                      ? TD_UNSUPPORTED
		: status < 500                                       ? TD_INVALID
		: code && td_streq(code, td_code_name(TD_TRANSIENT)) ? TD_TRANSIENT
								     : TD_UNCERTAIN;
	td_auto_free char *clean = words ? td_text_clean(words) : td_asprintf("it answered with HTTP %d", status);
	return td_fail(err, r, "cluster %s: %s", member, clean);
}

int td_hub_do(struct td_gateway *g, const struct td_hub_call *k, struct td_cancel *c, struct td_json **ret,
	      struct td_error *err)
{
	const struct td_hub_member *m = td_hub_member(k->hub, k->member);
	if (!m)
		return td_fail(err, TD_NOT_FOUND, "federation %s has no member %s any more", k->hub->name, k->member);
	const struct td_statement s = {.federation = k->hub->name, .member = k->member, .user = k->user};
	td_auto_free char *bearer = NULL;
	int r = td_statement_make(g, &s, &bearer, err);
	if (r)
		return r;
	const struct td_http_client_opts o = {.base_url = m->url,
					      .ca_file = m->ca_path,
					      .bearer = bearer,
					      .timeout_ms = k->timeout_ms ? k->timeout_ms : CALL_MS};
	td_auto(td_http_client_free) struct td_http_client *client = NULL;
	r = td_http_client_new(&o, &client, err);
	explicit_bzero(bearer, strlen(bearer));
	if (r)
		return td_wrap(err, "cluster %s", k->member);
	const struct td_http_call call = {.method = k->method,
					  .path = k->path,
					  .body = k->body,
					  .body_len = k->body_len,
					  .content_type = k->body ? k->type ? k->type : "application/json" : NULL,
					  .accept = k->on_data ? "*/*" : NULL,
					  .on_data = k->on_data,
					  .ctx = k->ctx,
					  .idle_ms = IDLE_MS};
	td_auto_reply struct td_http_reply rep = {0};
	struct td_error e = TD_ERROR_INIT;
	if ((r = td_http_do(client, &call, c, &rep, &e))) {
		if (r == TD_TRANSIENT) // nobody is there; what its gateway says of one person is no such sign
			td_hub_heard(g, k->member, &e, NULL);
		return td_fail(err, r, "cluster %s: %s", k->member, e.msg);
	}
	if (rep.status / 100 != 2)
		return refusal(k->member, rep.status, &rep.body, err);
	if (!ret)
		return 0;
	r = td_json_parse(td_buf_str(&rep.body), rep.body.len, ret, err);
	return r ? td_wrap(err, "cluster %s is no gateway of Tandem's", k->member) : 0;
}

// ---- several at a time ----

struct hub_calls {
	struct td_gateway *g;
	const struct td_hub_call *v;
	struct td_hub_answer *ret;
};

static int one_of(void *ctx, size_t i, struct td_cancel *stop)
{
	const struct hub_calls *all = ctx;
	struct td_hub_answer *ret = &all->ret[i];
	*ret = (struct td_hub_answer){.err = TD_ERROR_INIT};
	return ret->r = td_hub_do(all->g, &all->v[i], stop, &ret->json, &ret->err);
}

void td_hub_do_all(struct td_gateway *g, const struct td_hub_call *calls, size_t n, bool first, struct td_cancel *c,
		   struct td_hub_answer *ret)
{
	struct hub_calls all = {g, calls, ret};
	td_together(&(struct td_together){one_of, &all, n, first}, c);
}

bool td_hub_asks(struct td_gateway *g, const char *member, struct td_error *err)
{
	td_auto_known struct td_hub_known k = {0};
	td_hub_known(g, member, &k);
	bool asks = k.reached && !k.problem;
	if (!asks)
		td_fail(err, TD_TRANSIENT, "cluster %s does not answer", member);
	return asks;
}

void td_hub_ask_all(struct td_gateway_ask *q, const struct td_hub *h, const char *path, bool first,
		    struct td_hub_answer *ret)
{
	td_auto_free struct td_hub_call *calls = td_calloc(h->n_members + 1, sizeof(*calls));
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	td_auto_free size_t *of = td_calloc(h->n_members + 1, sizeof(*of));
	size_t n = 0;
	for (size_t m = 0; m < h->n_members; m++) {
		ret[m] = (struct td_hub_answer){.r = TD_TRANSIENT, .err = TD_ERROR_INIT};
		if (!td_hub_asks(q->g, h->members[m].name, &ret[m].err))
			continue;
		of[n] = m;
		calls[n++] = (struct td_hub_call){.hub = h,
						  .member = h->members[m].name,
						  .user = q->user.name,
						  .method = "GET",
						  .path = path,
						  .timeout_ms = ASK_MS};
	}
	td_hub_do_all(q->g, calls, n, first, td_gateway_cancel(q), got);
	for (size_t i = 0; i < n; i++)
		ret[of[i]] = got[i];
}
