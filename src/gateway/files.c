// Files of the caller's home: chunks, upload, download.
#include "gateway/door.h"
#include "gateway/home.h"
#include "gateway/hub.h"
#include "metrics/metrics.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static int missing(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_buf struct td_buf in = {0}, out = {0};
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(q->body, "chunks"), i, n, v)
		td_buf_printf(&in, "%s\n", yyjson_get_str(v));
	const struct td_home_call k = {.user = &q->user, .verb = "missing", .in = in.s, .in_len = in.len};
	int r = td_home_do(q->g, &k, td_http_cancel(q->x), &out, err);
	if (r)
		return r;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_buf_str(&out), '\n');
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "missing");
	for (i = 0; i < lines.n; i++)
		yyjson_mut_arr_append(list, yyjson_mut_strcpy(d, lines.v[i]));
	td_gateway_send(q, 200, d);
	return 0;
}

static int put_chunks(struct td_gateway_ask *q, struct td_error *err)
{
	size_t n;
	const char *body = td_http_body(q->x, &n);
	const struct td_home_call k = {.user = &q->user, .verb = "store", .in = body, .in_len = n};
	int r = td_home_do(q->g, &k, td_http_cancel(q->x), NULL, err);
	if (r)
		return r;
	td_metric_add(td_counter(td_metrics_process(), "tandem_gateway_upload_bytes_total",
				 "Bytes of people's files that were taken.", NULL),
		      (double)n, NULL);
	return td_gateway_done(q);
}

static int put_file(struct td_gateway_ask *q, struct td_error *err)
{
	size_t n;
	int federated;
	if (td_hub_files(q, TD_HUB_PUT, td_jstr(q->body, "path"), &federated, err))
		return federated;
	td_auto_free char *text = td_json_text(q->body, &n);
	const struct td_home_call k = {.user = &q->user, .verb = "write", .in = text, .in_len = n};
	int r = td_home_do(q->g, &k, td_http_cancel(q->x), NULL, err);
	if (r)
		return r;
	td_http_send(q->x, 201, "application/json", "{\"ok\":true}", strlen("{\"ok\":true}"));
	return 0;
}

// A path of the query, as people write it: "~/x" is "x".
static const char *path_of(struct td_gateway_ask *q)
{
	const char *p = td_http_query(q->x, "path");
	return !p ? "" : td_starts(p, "~/") ? p + 2 : !strcmp(p, "~") ? "" : p;
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	const struct td_home_call k = {.user = &q->user, .verb = "list", .args = {path_of(q)}};
	int r;
	if (td_hub_files(q, TD_HUB_LIST, path_of(q), &r, err))
		return r;
	r = td_home_do(q->g, &k, td_http_cancel(q->x), &out, err);
	if (!r)
		td_http_send(q->x, 200, "application/json", out.s, out.len);
	return r;
}

static int content(struct td_gateway_ask *q, struct td_error *err)
{
	long long offset;
	int r;
	if (td_hub_files(q, TD_HUB_CONTENT, path_of(q), &r, err))
		return r;
	r = td_gateway_query_int(q, "offset", 0, &offset, err);
	if (r)
		return r;
	// Asked first, because an error cannot be told once bytes are on their way.
	td_auto_buf struct td_buf size = {0};
	const struct td_home_call look = {.user = &q->user, .verb = "size", .args = {path_of(q)}};
	if ((r = td_home_do(q->g, &look, td_http_cancel(q->x), &size, err)))
		return r;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if ((r = td_json_parse(td_buf_str(&size), size.len, &j, err)))
		return r;
	td_auto_free char *at = td_asprintf("%lld", offset),
			  *whole = td_asprintf("%lld", td_jint(td_json_root(j), "size", 0)),
			  *left = td_asprintf("%lld", td_jint(td_json_root(j), "size", 0) - offset);
	const struct td_home_call k = {
		.user = &q->user, .verb = "read", .args = {path_of(q), at, *left == '-' ? "0" : left}};
	struct td_home_stream s;
	if ((r = td_home_open(q->g, &k, &s, err)))
		return r;
	td_http_add_header(q->x, "X-Tandem-Size", whole);
	td_http_add_header(q->x, "Content-Disposition", "attachment");
	r = td_http_stream_begin(q->x, 200, "application/octet-stream", err);
	char buf[65536];
	for (ssize_t n; !r && (n = read(s.out, buf, sizeof(buf))) > 0;)
		r = td_http_stream_write(q->x, buf, (size_t)n, err);
	td_home_close(&s, NULL);
	return 0; // a reader that left is no failure of ours, and the client counts the bytes
}

const struct td_gateway_op td_gateway_file_ops[] = {
	{"missingChunks", missing}, {"putChunks", put_chunks}, {"putFile", put_file},
	{"listFiles", list},        {"getFile", content},      {NULL, NULL},
};
