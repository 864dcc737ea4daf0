// Converts protobuf to JSON (protobuf.h). The wire format:
// https://protobuf.dev/programming-guides/encoding; the envelope: k8s.io/apimachinery
// pkg/runtime/generated.proto. Go writes fields that are not pointers even when they are empty;
// those that JSON would omit are dropped.
#include "apiserver/protobuf.h"

#include "apiserver/protobuf_fields.h"
#include "base/clock.h"
#include "http/pki.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 48
#define ENTRIES_MAX 20000 // of one map or list

struct in {
	const unsigned char *p, *end;
};
struct tag {
	uint32_t number, wire;
	uint64_t v;    // of wire types 0, 1, 5
	struct in sub; // of wire type 2
};

static bool varint(struct in *in, uint64_t *ret)
{
	uint64_t v = 0;
	for (int shift = 0; shift < 64 && in->p < in->end; shift += 7) {
		unsigned char c = *in->p++;
		v |= (uint64_t)(c & 127) << shift;
		if (!(c & 128)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

// Reads the next field. Returns 1: a field; 0: the end; -1: malformed.
static int next(struct in *in, struct tag *t)
{
	uint64_t key, n;
	if (in->p == in->end)
		return 0;
	if (!varint(in, &key) || key >> 32)
		return -1;

	*t = (struct tag){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
	switch (t->wire) {
	case 0:
		return varint(in, &t->v) ? 1 : -1;
	case 1:
	case 5:
		n = t->wire == 1 ? 8 : 4;
		if ((uint64_t)(in->end - in->p) < n)
			return -1;
		for (uint64_t i = 0; i < n; i++)
			t->v |= (uint64_t)in->p[i] << (8 * i);
		in->p += n;
		return 1;
	case 2:
		if (!varint(in, &n) || n > (uint64_t)(in->end - in->p))
			return -1;
		t->sub = (struct in){in->p, in->p + n};
		in->p += n;
		return 1;
	default:
		return -1;
	}
}

// The document in the making, and the first field that could not be converted.
struct out {
	yyjson_mut_doc *d;
	const char *message; // NULL: none
	uint32_t number;
};

static yyjson_mut_val *message(struct out *x, unsigned msg, struct in in, yyjson_mut_val *into, int depth);

static yyjson_mut_val *text(yyjson_mut_doc *d, struct in in)
{
	return yyjson_mut_strncpy(d, (const char *)in.p, (size_t)(in.end - in.p));
}

static yyjson_mut_val *time_value(yyjson_mut_doc *d, struct in in, bool micro)
{
	struct tag t;
	int64_t s = 0, ns = 0;
	int rc;
	bool any = false;

	while ((rc = next(&in, &t)) == 1) {
		any = true;
		if (t.number == 1)
			s = (int64_t)t.v;
		else if (t.number == 2)
			ns = (int64_t)t.v;
	}

	if (rc < 0)
		return NULL;
	if (!any)
		return yyjson_mut_null(d);
	char b[TD_TIME_LEN], m[TD_TIME_LEN + 8];
	if (s < -62135596800 || s > 253402300799 || ns < 0 || ns > 999999999)
		return NULL;
	td_time_format(s * 1000, b);
	if (!micro)
		return yyjson_mut_strcpy(d, b);
	snprintf(m, sizeof(m), "%.19s.%06dZ", b, (int)(ns / 1000));

	return yyjson_mut_strcpy(d, m);
}

static yyjson_mut_val *int_or_string(yyjson_mut_doc *d, struct in in)
{
	struct tag t;
	bool is_string = false;
	int64_t n = 0;
	yyjson_mut_val *s = NULL;
	int rc;

	while ((rc = next(&in, &t)) == 1) {
		if (t.number == 1)
			is_string = t.v == 1;
		else if (t.number == 2)
			n = (int64_t)t.v;
		else if (t.number == 3 && t.wire == 2)
			s = text(d, t.sub);
	}

	if (rc < 0)
		return NULL;
	return !is_string ? yyjson_mut_int(d, n) : s ? s : yyjson_mut_str(d, "");
}

// Reads the first field of a message that holds one value: Quantity, RawExtension, Duration.
static bool wrapped(struct in in, struct tag *ret)
{
	struct tag t;
	int rc;
	*ret = (struct tag){0};
	while ((rc = next(&in, &t)) == 1)
		if (t.number == 1)
			*ret = t;
	return rc == 0;
}

static yyjson_mut_val *value(struct out *x, const struct td_pb_field *f, const struct tag *t, int depth)
{
	struct tag w;
	bool length = t->wire == 2;
	yyjson_mut_doc *d = x->d;

	switch (f->kind) {
	case TD_PB_STRING:
		return length ? text(d, t->sub) : NULL;
	case TD_PB_BYTES: {
		td_auto_buf struct td_buf b = {0};
		if (!length)
			return NULL;
		td_base64(&b, t->sub.p, (size_t)(t->sub.end - t->sub.p));
		return yyjson_mut_strcpy(d, td_buf_str(&b));
	}
	case TD_PB_BOOL:
		return t->wire == 0 ? yyjson_mut_bool(d, t->v != 0) : NULL;
	case TD_PB_INT:
		return t->wire == 0 ? yyjson_mut_sint(d, (int64_t)t->v) : NULL;
	case TD_PB_MSG:
		return length ? message(x, f->message, t->sub, yyjson_mut_obj(d), depth + 1) : NULL;
	case TD_PB_TIME:
		return length ? time_value(d, t->sub, false) : NULL;
	case TD_PB_MICROTIME:
		return length ? time_value(d, t->sub, true) : NULL;
	case TD_PB_QUANTITY:
		if (!length || !wrapped(t->sub, &w))
			return NULL;
		return w.wire == 2 ? text(d, w.sub) : yyjson_mut_str(d, "0");
	case TD_PB_INTSTR:
		return length ? int_or_string(d, t->sub) : NULL;
	case TD_PB_RAW: {
		td_auto(td_json_unref) struct td_json *j = NULL;
		if (!length || !wrapped(t->sub, &w) || w.wire != 2 ||
		    td_json_parse((const char *)w.sub.p, (size_t)(w.sub.end - w.sub.p), &j, NULL) < 0)
			return NULL;
		return yyjson_val_mut_copy(d, td_json_root(j));
	}
	}

	return NULL;
}

static bool empty(yyjson_mut_val *v)
{
	return yyjson_mut_is_null(v) || (yyjson_mut_is_str(v) && !yyjson_mut_get_len(v)) || yyjson_mut_is_false(v) ||
	       (yyjson_mut_is_int(v) && !yyjson_mut_get_sint(v)) || (yyjson_mut_is_ctn(v) && !yyjson_mut_get_len(v));
}

static bool map_entry(struct out *x, yyjson_mut_val *obj, const struct td_pb_field *f, const struct tag *t, int depth)
{
	struct in in = t->sub;
	struct tag e;
	yyjson_mut_val *key = NULL, *v = NULL;
	int rc;

	if (t->wire != 2)
		return false;
	while ((rc = next(&in, &e)) == 1) {
		if (e.number == 1 && e.wire == 2)
			key = text(x->d, e.sub);
		else if (e.number == 2 && !(v = value(x, f, &e, depth)))
			return false;
	}

	if (rc < 0 || !key || yyjson_mut_obj_size(obj) >= ENTRIES_MAX)
		return false;
	if (!v)
		v = f->kind == TD_PB_MSG ? yyjson_mut_obj(x->d) : yyjson_mut_str(x->d, "");

	return yyjson_mut_obj_put(obj, key, v);
}

static bool field(struct out *x, yyjson_mut_val *o, const struct td_pb_field *f, const struct tag *t, int depth)
{
	if ((f->flags & TD_PB_MAP) && (f->flags & TD_PB_REPEATED))
		// Maps of lists occur only in the "extra" of reviews, which is not used here.
		return true;
	if (f->flags & TD_PB_INLINE)
		return t->wire == 2 && message(x, f->message, t->sub, o, depth + 1);
	if (f->flags & (TD_PB_MAP | TD_PB_REPEATED)) {
		yyjson_mut_val *c = yyjson_mut_obj_get(o, f->json);
		bool map = f->flags & TD_PB_MAP;
		if (!c) {
			c = map ? yyjson_mut_obj(x->d) : yyjson_mut_arr(x->d);
			yyjson_mut_obj_add(o, yyjson_mut_str(x->d, f->json), c);
		}
		if (map)
			return map_entry(x, c, f, t, depth);
		yyjson_mut_val *v = yyjson_mut_arr_size(c) < ENTRIES_MAX ? value(x, f, t, depth) : NULL;
		return v && yyjson_mut_arr_append(c, v);
	}

	yyjson_mut_val *v = value(x, f, t, depth);
	if (!v)
		return false;
	bool drop = !(f->flags & TD_PB_POINTER) && empty(v) &&
		    ((f->flags & TD_PB_OMITEMPTY) || f->kind == TD_PB_MSG || f->kind == TD_PB_TIME ||
		     f->kind == TD_PB_MICROTIME);
	return drop || yyjson_mut_obj_put(o, yyjson_mut_str(x->d, f->json), v);
}

static const struct td_pb_field *known(const struct td_pb_message *m, uint32_t number)
{
	for (unsigned i = 0; i < m->n; i++)
		if (td_pb_fields[m->first + i].number == number)
			return &td_pb_fields[m->first + i];
	return NULL;
}

static yyjson_mut_val *message(struct out *x, unsigned msg, struct in in, yyjson_mut_val *into, int depth)
{
	const struct td_pb_message *m = &td_pb_messages[msg];
	struct tag t;
	int rc;

	if (depth > DEPTH_MAX)
		return NULL;
	while ((rc = next(&in, &t)) == 1) {
		const struct td_pb_field *f = known(m, t.number);
		// Go writes fields that are not pointers even when they are empty.
		bool nothing = t.wire == 2 ? t.sub.p == t.sub.end : !t.v;
		if (!f && !nothing && !x->message) {
			x->message = m->name;
			x->number = t.number;
		}
		if ((!f && !nothing) || (f && !field(x, into, f, &t, depth)))
			return NULL;
	}

	return rc < 0 ? NULL : into;
}

static char *take(struct in in)
{
	return td_strndup((const char *)in.p, (size_t)(in.end - in.p));
}

int td_protobuf_parse(const char *p, size_t len, struct td_json **ret, struct td_error *err)
{
	if (len < 4 || memcmp(p, "k8s\0", 4) != 0)
		return td_fail(err, TD_INVALID,
			       "the body is not Kubernetes' protobuf: it does not begin with \"k8s\\0\"");
	struct in in = {(const unsigned char *)p + 4, (const unsigned char *)p + len}, raw = {0}, meta = {0};
	struct tag t;
	int rc;
	while ((rc = next(&in, &t)) == 1) {
		if (t.number == 1 && t.wire == 2)
			meta = t.sub;
		else if (t.number == 2 && t.wire == 2)
			raw = t.sub;
	}

	td_auto_free char *api = NULL, *kind = NULL;
	while (rc == 0 && (rc = next(&meta, &t)) == 1) {
		rc = 0;
		if (t.wire != 2)
			continue;
		if (t.number == 1) {
			free(api);
			api = take(t.sub);
		} else if (t.number == 2) {
			free(kind);
			kind = take(t.sub);
		}
	}

	if (rc < 0 || !api || !kind)
		return td_fail(err, TD_INVALID, "the body's protobuf envelope is malformed");
	char *slash = strchr(api, '/');
	size_t group_len = slash ? (size_t)(slash - api) : 0;
	const struct td_pb_root *root = NULL;
	for (const struct td_pb_root *r = td_pb_roots; r->kind && !root; r++) {
		// DeleteOptions exists in every group.
		bool any_group = !strcmp(r->kind, "DeleteOptions");
		if (!strcmp(r->kind, kind) &&
		    (any_group || (strlen(r->group) == group_len && !strncmp(r->group, api, group_len))))
			root = r;
	}

	if (!root)
		return td_fail(err, TD_UNSUPPORTED, "%s, kind %s, is not accepted as protobuf: send JSON", api, kind);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", kind);
	td_jm_str(d, o, "apiVersion", api);
	struct out x = {.d = d};
	bool read = message(&x, root->message, raw, o, 0);
	if (x.message)
		return td_fail(err, TD_UNSUPPORTED, "field %u of %s is not accepted as protobuf: send JSON", x.number,
			       x.message);
	if (!read)
		return td_fail(err, TD_INVALID, "the body's protobuf of %s is malformed", kind);

	// Strings must be UTF-8, as in JSON: writing and reading the text finds those that are not.
	size_t n = 0;
	td_auto_free char *s = td_json_mut_text(o, &n);
	if (!s)
		return td_fail(err, TD_INVALID, "the body's protobuf of %s holds text that is not UTF-8", kind);

	return td_json_parse(s, n, ret, err);
}
