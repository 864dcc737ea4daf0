#include "slurm/fabric.h"

#include <string.h>

enum { VALUE_MAX = 512 };

void td_slurm_variables_done(struct td_slurm_variables *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].value);
	*l = (struct td_slurm_variables){0};
}

// Names of interfaces and adapters, and lists of them. Nothing that a shell, a line or a column would read otherwise.
static bool is_value(const char *s)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=/^+-";
	return s && *s && strlen(s) <= VALUE_MAX && strspn(s, ok) == strlen(s);
}

// The value with the node's own word in the place of {}.
static char *filled(const char *value, const char *word)
{
	const char *at = value ? strstr(value, "{}") : NULL;
	if (!value)
		return td_strdup(word);
	return at ? td_asprintf("%.*s%s%s", (int)(at - value), value, word, at + 2) : td_strdup(value);
}

void td_slurm_fabric_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_variables *ret)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(fabric, "variables"), i, n, x) {
		const char *label = td_jstr(x, "label"), *note = td_jstr(x, "annotation"), *value = td_jstr(x, "value");
		const char *word = label  ? td_jkey_str(td_jget(node, "metadata.labels"), label)
				   : note ? td_jkey_str(td_jget(node, "metadata.annotations"), note)
					  : "";
		bool own = label || note, each = td_jbool(x, "perDevice", false);
		if (own && !is_value(word)) {
			// Without the node's word a value that does not need it is the default.
			if (!value || strstr(value, "{}"))
				continue;
			own = each = false;
		}
		td_auto_free char *text = own && value && !strstr(value, "{}") ? td_strdup(word) : filled(value, word);
		if (is_value(text) && ret->n < TD_LEN(ret->v))
			ret->v[ret->n++] = (struct td_slurm_variable){td_jstr(x, "name"), td_steal(text), each};
	}
}

char *td_slurm_variable_value(const struct td_slurm_variable *v, const struct td_ranges *devices)
{
	if (!v->per_device)
		return td_strdup(v->value);
	td_auto_strv struct td_strv all = {0}, mine = {0};
	td_strv_split(&all, v->value, ',');
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < all.n && i < TD_RANGE_MAX; i++)
		if (devices->bits[i / 64] >> (i % 64) & 1 && !td_strv_has(&mine, all.v[i])) {
			td_strv_add(&mine, all.v[i]);
			td_buf_printf(&b, "%s%s", b.len ? "," : "", all.v[i]);
		}
	return b.len ? td_buf_take(&b) : NULL;
}

void td_slurm_fabric_check(const yyjson_val *cluster, struct td_strv *problems)
{
	yyjson_val *x, *list = td_jget(cluster, "spec.fabric.variables");
	size_t i, n;
	td_auto_strv struct td_strv names = {0};
	yyjson_arr_foreach (list, i, n, x) {
		const char *name = td_jstr_or(x, "name", ""), *value = td_jstr(x, "value");
		bool label = td_jget(x, "label"), note = td_jget(x, "annotation");
		td_auto_free char *sample = value ? filled(value, "x") : NULL;
		if (td_strv_has(&names, name))
			td_strv_addf(problems, "spec.fabric.variables[%zu].name: %.64s is there twice; keep one", i,
				     name);
		td_strv_add(&names, name);
		if (label && note)
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].annotation: %.64s has a label too; keep one of them",
				     i, name);
		if (!label && !note && (!value || strstr(value, "{}")))
			td_strv_addf(
				problems,
				"spec.fabric.variables[%zu].value: %.64s needs a value without {}, or the label or "
				"annotation of nodes that it comes from",
				i, name);
		if (sample && !is_value(sample))
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].value: \"%.64s\" has other characters than letters, "
				     "digits and _.,:=/^+-",
				     i, value);
		if (!strncmp(name, "SLURM_", 6) || !strncmp(name, "LD_", 3) || !strcmp(name, "PATH"))
			td_strv_addf(problems,
				     "spec.fabric.variables[%zu].name: %.64s is not for the network; remove it", i,
				     name);
	}
}

void td_slurm_fabric_lines(const yyjson_val *cluster, const yyjson_val *node, struct td_buf *ret)
{
	td_auto_variables struct td_slurm_variables l = {0};
	td_slurm_fabric_read(td_jget(cluster, "spec.fabric"), node, &l);
	for (size_t i = 0; i < l.n; i++)
		td_buf_printf(ret, "%s %s %s%s\n", td_jstr_or(node, "metadata.name", ""), l.v[i].name,
			      l.v[i].per_device ? "@ " : "", l.v[i].value);
}
