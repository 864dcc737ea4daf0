// Tables: what `kubectl get` prints, made by the server.
#include "apiserver/srv.h"

#include "apiserver/cells.h"
#include "apiserver/jsonpath.h"

#include <string.h>

static void column(struct td_buf *out, bool *first, const struct td_column *c)
{
	td_buf_puts(out, *first ? "{\"name\":" : ",{\"name\":");
	*first = false;
	td_cell_str(out, c->name);
	td_buf_puts(out, ",\"type\":");
	td_cell_str(out, c->type);
	td_buf_puts(out, ",\"format\":");
	td_cell_str(out, c->format);
	td_buf_puts(out, ",\"description\":");
	td_cell_str(out, c->description);
	td_buf_printf(out, ",\"priority\":%d}", c->priority);
}

static void columns_write(const struct td_kind *k, const struct td_celltable *c, struct td_buf *out)
{
	bool first = true;
	if (c) {
		for (const struct td_cellspec *s = c->columns; s->name; s++)
			column(out, &first,
			       &(struct td_column){.name = s->name,
						   .type = s->type,
						   .format = s->format,
						   .description = s->description,
						   .priority = s->priority});
		return;
	}
	column(out, &first,
	       &(struct td_column){.name = "Name",
				   .type = "string",
				   .format = "name",
				   .description = "Name must be unique within a namespace."});
	for (size_t i = 0; i < k->n_columns; i++)
		column(out, &first, &k->columns[i]);
	if (!k->n_columns)
		column(out, &first,
		       &(struct td_column){.name = "Age",
					   .type = "date",
					   .format = "",
					   .description = "When the object was created."});
}

static void path_cell(const struct td_column *c, const yyjson_val *root, int64_t now, struct td_buf *out)
{
	td_auto_buf struct td_buf text = {0};
	yyjson_val *v = td_jsonpath_first(root, c->json_path, &text);

	bool date = td_streq(c->type, "date");
	if (date) {
		const char *s = v && yyjson_is_str(v) ? yyjson_get_str(v) : NULL;
		if (s)
			td_cell_age(out, s, now);
		else
			td_buf_puts(out, "null");
	} else if (!v) {
		td_buf_puts(out, "null");
	} else if (td_streq(c->type, "string") && !yyjson_is_str(v)) {
		td_cell_str(out, td_buf_str(&text));
	} else if (yyjson_is_str(v)) {
		td_cell_str(out, yyjson_get_str(v));
	} else {
		td_auto_free char *s = td_json_text(v, NULL);
		td_buf_puts(out, s);
	}
}

static void cells_write(const struct td_kind *k, const struct td_celltable *c, const struct td_item *i,
			const yyjson_val *root, int64_t now, struct td_buf *out)
{
	if (c) {
		for (const struct td_cellspec *s = c->columns; s->name; s++) {
			if (s != c->columns)
				td_buf_putc(out, ',');
			s->cell(s, root, now, out);
		}
		return;
	}

	td_cell_str(out, i->name);
	for (size_t n = 0; n < k->n_columns; n++) {
		td_buf_putc(out, ',');
		path_cell(&k->columns[n], root, now, out);
	}
	if (!k->n_columns) {
		td_buf_putc(out, ',');
		td_cell_age(out, td_jstr(root, "metadata.creationTimestamp"), now);
	}
}

static void partial_write(const yyjson_val *root, struct td_buf *out)
{
	size_t len = 0;
	td_auto_free char *meta = td_json_text(td_jget(root, "metadata"), &len);
	td_buf_puts(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
	td_buf_add(out, meta, len);
	td_buf_putc(out, '}');
}

void td_partial_write(const struct td_item *i, struct td_buf *out)
{
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(i);
	partial_write(td_json_root(doc), out);
}

void td_table_write(const struct td_kind *k, struct td_item *const *v, size_t n, const struct td_table_head *h,
		    int64_t now, struct td_buf *out)
{
	const struct td_celltable *c = td_cells_find(k->group, k->plural);
	td_buf_puts(out, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{");
	if (h->rv)
		td_buf_printf(out, "\"resourceVersion\":\"%s\"", h->rv);
	if (h->cont)
		td_buf_printf(out, ",\"continue\":\"%s\"", h->cont);
	if (h->cont && h->remaining)
		td_buf_printf(out, ",\"remainingItemCount\":%lld", h->remaining);
	td_buf_puts(out, "},\"columnDefinitions\":");
	if (h->columns) {
		td_buf_putc(out, '[');
		columns_write(k, c, out);
		td_buf_putc(out, ']');
	} else {
		td_buf_puts(out, "null");
	}

	td_buf_puts(out, ",\"rows\":[");
	for (size_t i = 0; i < n; i++) {
		td_auto(td_item_unref) struct td_item *shown = td_item_shown(k, v[i]);
		td_auto(td_json_unref) struct td_json *doc = td_item_doc(shown);
		td_buf_puts(out, i ? ",{\"cells\":[" : "{\"cells\":[");
		cells_write(k, c, shown, td_json_root(doc), now, out);
		td_buf_puts(out, "],\"object\":");
		if (td_streq(h->include, "None"))
			td_buf_puts(out, "null");
		else if (td_streq(h->include, "Object"))
			td_buf_add(out, shown->bytes, shown->len);
		else
			partial_write(td_json_root(doc), out);
		td_buf_putc(out, '}');
	}

	td_buf_puts(out, "]}");
}

int td_check_include(const char *include, struct td_refusal *r)
{
	if (!include || !*include || !strcmp(include, "Metadata") || !strcmp(include, "Object") ||
	    !strcmp(include, "None"))
		return 0;
	return td_refuse(r, 400, NULL,
			 "Unable to convert to Table as requested: includeObject: Invalid value: \"%.64s\": must be "
			 "'Metadata', 'Object', 'None', or empty",
			 include);
}
