// Fills words into a template; json.h has the rules.
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

// Returns the word whose name follows the brace at s, or NULL. *ret_len includes both braces.
static const struct td_json_word *word_at(const char *s, const struct td_json_word *words, size_t n, size_t *ret_len)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(words[i].name);
		if (!strncmp(s + 1, words[i].name, len) && s[1 + len] == '}') {
			*ret_len = len + 2;
			return &words[i];
		}
	}
	return NULL;
}

// Returns the text with its words filled in, or NULL when it has none.
static char *filled(const char *s, const struct td_json_word *words, size_t n)
{
	struct td_buf b = {0};
	const struct td_json_word *w;
	const char *from = s;
	size_t len = 0;

	while ((s = strchr(s, '{'))) {
		if (!(w = word_at(s, words, n, &len))) {
			s++;
			continue;
		}
		td_buf_add(&b, from, (size_t)(s - from));
		if (w->text)
			td_buf_puts(&b, w->text);
		else
			td_buf_printf(&b, "%lld", w->number);
		from = s += len;
	}

	if (!len)
		return NULL;
	td_buf_puts(&b, from);
	return td_buf_take(&b);
}

static yyjson_mut_val *string(yyjson_mut_doc *d, const char *s, const struct td_json_word *words, size_t n)
{
	size_t len = 0;
	const struct td_json_word *w = *s == '{' ? word_at(s, words, n, &len) : NULL;
	if (w && !w->text && !s[len])
		return yyjson_mut_sint(d, w->number);
	td_auto_free char *text = filled(s, words, n);
	return yyjson_mut_strcpy(d, text ? text : s);
}

// The recursion is safe because templates are files of Tandem or documents of td_yaml_parse, whose
// depth is bounded.
static yyjson_mut_val *copy(yyjson_mut_doc *d, const yyjson_val *from, const struct td_json_word *words, size_t n)
{
	yyjson_val *v = (yyjson_val *)from, *key, *x;
	size_t i, max;

	if (yyjson_is_str(v))
		return string(d, yyjson_get_str(v), words, n);
	if (yyjson_is_obj(v)) {
		yyjson_mut_val *o = yyjson_mut_obj(d);
		yyjson_obj_foreach (v, i, max, key, x) {
			td_auto_free char *name = filled(yyjson_get_str(key), words, n);
			yyjson_mut_obj_add(o, yyjson_mut_strcpy(d, name ? name : yyjson_get_str(key)),
					   copy(d, x, words, n));
		}
		return o;
	}

	if (yyjson_is_arr(v)) {
		yyjson_mut_val *a = yyjson_mut_arr(d);
		yyjson_arr_foreach (v, i, max, x)
			yyjson_mut_arr_append(a, copy(d, x, words, n));
		return a;
	}
	return yyjson_val_mut_copy(d, v);
}

yyjson_mut_doc *td_json_fill(const yyjson_val *template, const struct td_json_word *words, size_t n)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	if (!d)
		abort();
	yyjson_mut_doc_set_root(d, copy(d, template, words, n));
	return d;
}
