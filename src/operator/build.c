// Small pure helpers of the builders: templates, hashes, owners, the merge of pod templates, and
// the comparison of wanted with found.
#include "operator/operator.h"

#include "api/kinds.h"
#include "api/quantity.h"
#include "base/embedded.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

extern const struct td_embedded td_op_files[]; // programs/ and templates/

const char *td_op_program(const char *file)
{
	return td_embedded(td_op_files, file)->text;
}

yyjson_mut_doc *td_op_fill(const char *file, const struct td_json_word *words, size_t n)
{
	const struct td_embedded *f = td_embedded(td_op_files, file);
	td_auto_json_list struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(f->text, f->len, &l, &err) || l.n != 1) {
		fprintf(stderr, "operator: broken template %s: %s\n", file, err.msg);
		abort();
	}
	return td_json_fill(td_json_root(l.v[0]), words, n);
}

yyjson_mut_val *td_op_named(const yyjson_mut_val *o, const char *list, const char *name)
{
	yyjson_mut_val *x;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(o, list), i, n, x)
		if (td_streq(td_jm_getstr(x, "name"), name))
			return x;
	return NULL;
}

void td_op_put(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v)
{
	if (v && path)
		td_jm_set(d, o, path, yyjson_mut_val_mut_copy(d, v));
	else if (v)
		yyjson_mut_arr_append(o, yyjson_mut_val_mut_copy(d, v));
}

void td_op_bring_standin(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *image)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = td_op_template("standin-kubelet.yaml", {"image", image});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *bin = td_op_named(spec, "volumes", "tandem-bin");
	td_op_put(d, td_jm_arr(d, spec, "initContainers"), NULL, td_jm_get(o, "initContainer"));
	td_jm_del(bin, "hostPath");
	td_op_put(d, bin, "emptyDir", td_jm_get(o, "volume.emptyDir"));
}

char *td_op_hash(const char *s, size_t n)
{
	return td_asprintf("%016llx", (unsigned long long)td_hash(TD_HASH, s, n));
}

char *td_op_files_hash(const struct td_slurm_files *f)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < f->n; i++) {
		// Users reach running pods by themselves (accounts.sh), the site's programs are mounted, and
		// nodes read what they know of images.
		if (f->v[i].site || td_streq(f->v[i].name, "passwd") || td_streq(f->v[i].name, "group") ||
		    td_streq(f->v[i].name, "ssh_keys") || td_streq(f->v[i].name, "containers.conf") ||
		    td_streq(f->v[i].name, "topology.conf"))
			continue;
		td_buf_add(&b, f->v[i].name, strlen(f->v[i].name) + 1);
		td_buf_add(&b, f->v[i].text, strlen(f->v[i].text) + 1);
	}
	return td_op_hash(td_buf_str(&b), b.len);
}

// Is a line of slurm.conf about who meets whom, and how? The rest a daemon takes over while it runs: slurmctld by
// `scontrol reconfigure`, which starts it anew in its place, with its jobs (24.11: S-C9).
static bool needs_pods(const char *line)
{
	static const char *const keys[] = {"ClusterName", "Slurmctld",    "SlurmUser",         "Auth",
					   "Cred",        "StateSave",    "AccountingStorage", "MessageTimeout",
					   "TCPTimeout",  "Communication"};
	static const char *const not_these[] = {"SlurmctldParameters",   "SlurmctldDebug",
						"SlurmctldSyslogDebug",  "SlurmctldLogFile",
						"AccountingStorageTRES", "AccountingStorageEnforce"};
	for (size_t i = 0; i < TD_LEN(not_these); i++)
		if (!strncasecmp(line, not_these[i], strlen(not_these[i])))
			return false;
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (!strncasecmp(line, keys[i], strlen(keys[i])))
			return true;
	return false;
}

static const char *text_of(const struct td_slurm_files *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (td_streq(f->v[i].name, name))
			return f->v[i].text;
	return "";
}

char *td_op_restart_hash(const struct td_slurm_files *f)
{
	td_auto_buf struct td_buf b = {0};
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text_of(f, "slurm.conf"), '\n');
	for (size_t i = 0; i < lines.n; i++)
		if (needs_pods(lines.v[i]))
			td_buf_add(&b, lines.v[i], strlen(lines.v[i]) + 1);
	td_buf_puts(&b, text_of(f, "slurmctld.sh"));
	td_buf_puts(&b, text_of(f, "accounts.sh"));
	return td_op_hash(td_buf_str(&b), b.len);
}

void td_op_own(yyjson_mut_doc *d, yyjson_mut_val *obj, const yyjson_val *owner, const struct td_gvr *gvr)
{
	yyjson_mut_val *a = td_jm_arr(d, obj, "metadata.ownerReferences"), *o = yyjson_mut_obj(d);
	td_jm_strf(d, o, "apiVersion", "%s%s%s", gvr->group, *gvr->group ? "/" : "", gvr->version);
	td_jm_str(d, o, "kind", gvr->kind);
	td_jm_str(d, o, "name", td_jstr(owner, "metadata.name"));
	td_jm_str(d, o, "uid", td_jstr(owner, "metadata.uid"));
	td_jm_bool(d, o, "controller", true);
	td_jm_bool(d, o, "blockOwnerDeletion", true);
	yyjson_mut_arr_append(a, o);
}

int td_op_merge_template(yyjson_mut_doc *d, yyjson_mut_val *at, const yyjson_val *over, const char *field,
			 struct td_error *err)
{
	if (!over || !yyjson_is_obj((yyjson_val *)over) || yyjson_obj_size((yyjson_val *)over) == 0)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *pd = td_jm_new();
	yyjson_mut_val *patch = yyjson_mut_doc_get_root(pd);
	td_jm_copyval(pd, patch, "metadata.labels", td_jget(over, "metadata.labels"));
	td_jm_copyval(pd, patch, "metadata.annotations", td_jget(over, "metadata.annotations"));
	td_jm_copyval(pd, patch, "spec", td_jget(over, "spec"));
	td_auto(td_json_unref) struct td_json *base = td_json_from_mut(at), *p = td_json_from_mut(patch),
					      *merged = NULL;
	const struct td_kind *pod = td_kind_builtin("", "Pod");
	if (!pod)
		return td_fail(err, TD_INTERNAL, "kind Pod is not in the table of kinds");

	int r = td_strategic_merge(pod->schema, td_json_root(base), td_json_root(p), &merged, err);
	if (r)
		return td_wrap(err, "%s", field);

	// The generated labels and annotations win: selectors, grants and the gate depend on them.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *md = td_jm_copy(td_json_root(merged));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(md);
	static const char *const maps[] = {"metadata.labels", "metadata.annotations"};
	for (size_t i = 0; i < TD_LEN(maps); i++) {
		yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(td_json_root(base), maps[i]));
		for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
			td_jm_key_str(md, td_jm_obj(md, root, maps[i]), yyjson_get_str(k),
				      yyjson_get_str(yyjson_obj_iter_get_val(k)));
	}

	td_auto(td_json_unref) struct td_json *final = td_json_from_mut(root);
	td_jm_copyval(d, at, "metadata", td_jget(td_json_root(final), "metadata"));
	td_jm_copyval(d, at, "spec", td_jget(td_json_root(final), "spec"));
	return 0;
}

bool td_op_same_spec(const struct td_object *old, const struct td_object *now)
{
	return old && now &&
	       td_jint(old->root, "metadata.generation", 0) == td_jint(now->root, "metadata.generation", -1) &&
	       td_object_deleting(old) == td_object_deleting(now);
}

static bool empty(const yyjson_val *v)
{
	return !v || yyjson_is_null((yyjson_val *)v) ||
	       (yyjson_is_ctn((yyjson_val *)v) && yyjson_get_len((yyjson_val *)v) == 0);
}

bool td_op_covers(const yyjson_val *live, const yyjson_val *want)
{
	yyjson_val *w = (yyjson_val *)want, *l = (yyjson_val *)live;
	if (empty(w))
		return empty(l) || (yyjson_is_obj(w) && yyjson_is_obj(l));

	if (yyjson_is_obj(w)) {
		if (!yyjson_is_obj(l))
			return false;
		yyjson_obj_iter it = yyjson_obj_iter_with(w);
		for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
			if (!td_op_covers(td_jkey(l, yyjson_get_str(k)), yyjson_obj_iter_get_val(k)))
				return false;
		return true;
	}

	if (yyjson_is_arr(w)) {
		if (!yyjson_is_arr(l) || yyjson_arr_size(l) != yyjson_arr_size(w))
			return false;
		size_t i, n;
		yyjson_val *x;
		yyjson_arr_foreach (w, i, n, x)
			if (!td_op_covers(yyjson_arr_get(l, i), x))
				return false;
		return true;
	}

	if (td_jequal(l, w))
		return true;
	int64_t a, b;
	return yyjson_is_str(l) && yyjson_is_str(w) && !td_quantity_milli(yyjson_get_str(l), &a, NULL) &&
	       !td_quantity_milli(yyjson_get_str(w), &b, NULL) && a == b;
}
