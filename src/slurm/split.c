// Splits a reply into the elements of its list while it arrives. A list of 5,000 jobs is 38 MB of
// text; only one element at a time is in memory.
#include "slurm/adapter.h"

#include <string.h>

static int keep(struct td_buf *b, char ch, size_t max, struct td_error *err)
{
	if (b->len >= max)
		return td_fail(err, TD_INVALID, "a reply of slurmrestd holds a value above %zu bytes", max);
	td_buf_putc(b, ch);
	return 0;
}

// Takes one character.
static int one(struct td_json_split *s, char ch, struct td_error *err)
{
	bool in_element = s->in_list && s->depth > 2;
	bool was_string = s->in_string;

	if (s->in_string) {
		if (s->escaped)
			s->escaped = false;
		else if (ch == '\\')
			s->escaped = true;
		else if (ch == '"')
			s->in_string = false;
		if (s->depth == 1 && s->in_string && s->key.len < 64)
			td_buf_putc(&s->key, ch);
	} else if (ch == '"') {
		s->in_string = true;
		if (s->depth == 1)
			td_buf_reset(&s->key);
	} else if (ch == '{' || ch == '[') {
		s->depth++;
		if (s->depth > TD_JSON_DEPTH)
			return td_fail(err, TD_INVALID, "a reply of slurmrestd is nested too deep");
		if (ch == '[' && s->depth == 2 && !strcmp(td_buf_str(&s->key), s->list)) {
			s->in_list = true;
			return keep(&s->rest, ch, TD_SPLIT_REST_MAX, err);
		}
		in_element = s->in_list && s->depth > 2;
	} else if (ch == '}' || ch == ']') {
		s->depth--;
		if (s->in_list && s->depth == 1) {
			s->in_list = false;
			td_buf_reset(&s->key);
		}
	}

	if (!s->in_list)
		return keep(&s->rest, ch, TD_SPLIT_REST_MAX, err);

	if (!in_element)
		return 0; // a comma or a blank between elements

	// Drop blanks outside of strings: replies are pretty-printed, and half of their bytes are
	// blanks.
	if (!was_string && (ch == ' ' || ch == '\n' || ch == '\t' || ch == '\r'))
		return 0;

	int r = keep(&s->element, ch, TD_SPLIT_ELEMENT_MAX, err);
	if (!r && s->depth == 2 && !s->in_string) {
		r = s->each(s->ctx, td_buf_str(&s->element), s->element.len);
		td_buf_reset(&s->element);
	}

	return r;
}

int td_json_split(struct td_json_split *s, const char *p, size_t n, struct td_error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = one(s, p[i], err);
		if (r)
			return r;
	}
	return 0;
}

void td_json_split_done(struct td_json_split *s)
{
	td_buf_done(&s->key);
	td_buf_done(&s->element);
	td_buf_done(&s->rest);
}
