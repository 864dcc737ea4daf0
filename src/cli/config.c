// tandem config: what Slurm's files say and why, which revision each node has, and the way in for
// those who have a slurm.conf already.
#include "api/kinds.h"
#include "base/file.h"
#include "base/options.h"
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"
#include "slurm/conf.h"
#include "slurm/import.h"

#include <stdio.h>
#include <string.h>

// ---- show ----
// Files whose lines say nothing about Slurm's configuration: shown when asked for by name only.
static bool aside(const char *file)
{
	static const char *const names[] = {"passwd",      "group",          "ssh_keys",      "gate.sh",
					    "accounts.sh", "slurmctld.sh",   "services.sh",   "seff",
					    "README",      "task-prolog.sh", "job_submit.lua"};
	for (size_t i = 0; i < TD_LEN(names); i++)
		if (!strcmp(names[i], file))
			return true;
	return false;
}

struct output {
	yyjson_mut_doc *d; // NULL: as text
	yyjson_mut_val *files;
	size_t shown;
};

static void show_file(struct output *out, const yyjson_val *sc, const char *name, const char *text)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n'); // empty lines say nothing
	yyjson_mut_val *list = out->d ? yyjson_mut_arr(out->d) : NULL;
	if (out->d)
		td_jm_key_set(out->d, out->files, name, list);
	else
		printf("%s%s\n", out->shown ? "\n" : "", name);
	out->shown++;
	for (size_t i = 0; i < lines.n; i++) {
		td_auto_free char *origin = td_slurm_origin(sc, name, lines.v[i]);
		if (out->d) {
			yyjson_mut_val *o = yyjson_mut_arr_add_obj(out->d, list);
			td_jm_str(out->d, o, "line", lines.v[i]);
			td_jm_str(out->d, o, "origin", origin);
		} else {
			printf("  %-46s  # %s\n", lines.v[i], origin);
		}
	}
}

static int show(struct td_kube *k, const struct td_object *sc, const char *file, struct output *out,
		struct td_error *err)
{
	static const char *const maps[] = {"config", "site"};
	td_auto_buf struct td_buf there = {0};
	for (size_t m = 0; m < TD_LEN(maps); m++) {
		td_auto_free char *name = td_asprintf("%s-%s", sc->name, maps[m]);
		td_auto(td_object_unref) struct td_object *cm = NULL;
		int r = td_kube_get(k, &td_configmaps, sc->ns, name, NULL, &cm, err);
		if (r == TD_NOT_FOUND)
			return td_fail(err, r, "SlurmCluster %s/%s has no configuration yet: `tandem status` says why",
				       sc->ns, sc->name);
		if (r)
			return r;
		yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(cm->root, "data"));
		for (yyjson_val *key; (key = yyjson_obj_iter_next(&it));) {
			const char *f = yyjson_get_str(key), *text = yyjson_get_str(yyjson_obj_iter_get_val(key));
			td_buf_printf(&there, "%s%s", there.len ? ", " : "", f);
			if (text && (file ? !strcmp(file, f) : *text && !aside(f)))
				show_file(out, sc->root, f, text);
		}
	}
	if (file && !out->shown)
		return td_fail(err, TD_NOT_FOUND, "there is no file \"%s\"; there are %s", file, td_buf_str(&there));
	// What is written may be older than what is asked for.
	yyjson_val *c = td_jfind(td_jget(sc->root, "status.conditions"), "type", "ConfigValid");
	if (!td_streq(td_jstr(c, "status"), "True"))
		fprintf(stderr, "This is what runs. What the SlurmCluster asks for now is not in force: %s\n",
			td_jstr_or(c, "message", "the operator has not looked at it"));
	return 0;
}

// ---- nodes ----
static int nodes(struct td_kube *k, const struct td_object *sc, struct output *out, struct td_error *err)
{
	td_auto_objects struct td_objects sets = {0};
	int r = td_kube_list(k, &td_nodesets, sc->ns, NULL, NULL, NULL, &sets, err);
	if (r)
		return r;
	const char *newest = td_jstr_or(sc->root, "status.configHash", "");
	yyjson_mut_val *list = NULL;
	if (out->d) {
		td_jm_str(out->d, yyjson_mut_doc_get_root(out->d), "config", newest);
		list = td_jm_arr(out->d, yyjson_mut_doc_get_root(out->d), "nodes");
	} else {
		printf("%-14s %-12s %-10s %-18s %s\n", "NODE", "NODESET", "STATE", "CONFIG", "SERVICES");
	}
	size_t old = 0, all = 0;
	long long unlisted = 0;
	for (size_t i = 0; i < sets.n; i++) {
		yyjson_val *n;
		size_t at, max;
		if (!td_streq(td_jstr(sets.v[i]->root, "spec.clusterName"), sc->name))
			continue;
		unlisted += td_jint(sets.v[i]->root, "status.unlisted", 0);
		yyjson_arr_foreach (td_jget(sets.v[i]->root, "status.nodes"), at, max, n) {
			const char *config = td_jstr(n, "config"), *failed = td_jstr(n, "services");
			bool new = config && !strcmp(config, newest);
			all++;
			old += !new;
			if (out->d) {
				yyjson_mut_val *o = yyjson_mut_arr_add_obj(out->d, list);
				td_jm_str(out->d, o, "name", td_jstr(n, "name"));
				td_jm_str(out->d, o, "nodeSet", sets.v[i]->name);
				td_jm_str(out->d, o, "state", td_jstr(n, "state"));
				td_jm_str(out->d, o, "config", config);
				td_jm_bool(out->d, o, "newest", new);
				td_jm_str(out->d, o, "services", failed);
			} else {
				printf("%-14s %-12s %-10s %-16s %s %s\n", td_jstr_or(n, "name", "?"), sets.v[i]->name,
				       td_jstr_or(n, "state", "?"), config ? config : "-", new ? " " : "*",
				       failed ? failed : "-");
			}
		}
	}
	if (!out->d && unlisted)
		printf("%lld more are in large NodeSets, which list only nodes of which something is to be said\n",
		       unlisted);
	if (out->d)
		td_jm_int(out->d, yyjson_mut_doc_get_root(out->d), "unlisted", unlisted);
	else
		printf("%zu of %zu nodes have the newest, %s\n", all - old, all,
		       *newest ? newest : "which is not there yet");
	return 0;
}

// ---- import ----
static int import(char **paths, size_t n, const char *ns, const char *name, struct output *out, struct td_error *err)
{
	enum { FILES_MAX = 64 };
	struct td_slurm_import_file files[FILES_MAX];
	td_auto_strv struct td_strv texts = {0};
	if (n > FILES_MAX)
		return td_fail(err, TD_INVALID, "%d files at most", FILES_MAX);
	for (size_t i = 0; i < n; i++) {
		td_auto_buf struct td_buf text = {0};
		if (td_file_read(paths[i], TD_JSON_MAX, &text, err))
			return err->code;
		td_strv_add(&texts, td_buf_str(&text));
	}
	for (size_t i = 0; i < n; i++)
		files[i] = (struct td_slurm_import_file){paths[i], texts.v[i]};
	td_auto_import struct td_slurm_import x = {0};
	int r = td_slurm_import(files, n, ns, name, &x, err);
	if (r)
		return r;

	if (out->d) {
		yyjson_mut_val *root = yyjson_mut_doc_get_root(out->d), *items = td_jm_arr(out->d, root, "items"),
			       *left = td_jm_arr(out->d, root, "left");
		for (size_t i = 0; i < x.n; i++)
			yyjson_mut_arr_append(items, yyjson_val_mut_copy(out->d, td_json_root(x.v[i])));
		for (size_t i = 0; i < x.left.n; i++)
			yyjson_mut_arr_add_strcpy(out->d, left, x.left.v[i]);
		return 0;
	}
	for (size_t i = 0; i < x.n; i++) {
		td_auto_free char *text = td_yaml_text(td_json_root(x.v[i]));
		printf("%s%s", i ? "---\n" : "", text);
	}
	for (size_t i = 0; i < x.left.n; i++)
		fprintf(stderr, "%s%s\n", i ? "  " : "Not taken over:\n  ", x.left.v[i]);
	return 0;
}

static int ask(const struct td_remote *remote, char **words, size_t n, struct output *out, struct td_error *err)
{
	td_auto_instance struct td_instance i = {0};
	td_auto(td_kube_free) struct td_kube *k = NULL;
	int r = 0;
	if (remote->kubeconfig)
		r = td_kube_new(remote->kubeconfig, &k, err);
	else if ((r = td_cli_open("config", &i, &k)))
		return td_fail(err, r, "%s", ""); // it has said so
	if (r)
		return r;
	td_auto(td_object_unref) struct td_object *sc = td_remote_cluster(k, remote, NULL, err);
	if (!sc)
		return err->code ? err->code : TD_NOT_FOUND;
	return !strcmp(words[0], "show") ? show(k, sc, n > 1 ? words[1] : NULL, out, err) : nodes(k, sc, out, err);
}

int td_config_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	const char *output = NULL, *ns = "slurm", *name = NULL;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: for machines",
		 TD_OPT_TEXT(&output),
		 .choices = "json"},
		TD_REMOTE_KUBECONFIG(&remote),
		{.name = "cluster",
		 .value = "NAMESPACE/NAME",
		 .help = "which SlurmCluster, when there are several",
		 TD_OPT_TEXT(&remote.cluster)},
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "of import: of the objects (default slurm)",
		 TD_OPT_TEXT(&ns)},
		{.name = "name",
		 .value = "NAME",
		 .help = "of import: of the SlurmCluster (default: ClusterName)",
		 TD_OPT_TEXT(&name)},
	};
	const struct td_command line = {
		.name = "config",
		.usage = "show [FILE] [-o json]\n"
			 "       tandem config nodes [-o json]\n"
			 "       tandem config import SLURM.CONF [FILE…] [-o json]",
		.about = "`show` prints the files that Slurm reads, each line with where it comes from: a field\n"
			 "of the SlurmCluster, a default, or Tandem itself.\n"
			 "`nodes` says which revision of the configuration each node's slurmd has, and which\n"
			 "services of the site have failed there.\n"
			 "`import` reads an existing slurm.conf, and beside it gres.conf, cgroup.conf,\n"
			 "slurmdbd.conf, topology.conf, job_submit.lua, prologs and the like, and prints the\n"
			 "objects that ask for the same. What it cannot take over is listed on stderr, with what\n"
			 "to do. Nothing is changed anywhere.",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 64,
		.args = "VERB",
		.choices = "show|nodes|import"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	size_t n = 0;
	while (words[n])
		n++;
	bool is_import = !strcmp(words[0], "import"), is_show = !strcmp(words[0], "show");
	if (is_import ? n < 2 : is_show ? n > 2 : strcmp(words[0], "nodes") != 0 || n > 1)
		return td_command_wrong("config", "give show [FILE], nodes, or import SLURM.CONF [FILE…]");
	if (!remote.kubeconfig)
		remote.kubeconfig = td_remote_usual();
	if (remote.cluster && !strchr(remote.cluster, '/'))
		return td_command_wrong("config", "--cluster \"%s\": write NAMESPACE/NAME", remote.cluster);
	if ((name && !td_slurm_is_name(name)) || !td_slurm_is_name(ns))
		return td_command_wrong("config", "--name and --namespace take names of Kubernetes objects");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct output out = {.d = output ? d : NULL};
	if (is_show && output)
		out.files = td_jm_obj(d, yyjson_mut_doc_get_root(d), "files");
	struct td_error err = TD_ERROR_INIT;
	int r = is_import ? import(words + 1, n - 1, ns, name, &out, &err) : ask(&remote, words, n, &out, &err);
	if (r) {
		if (*err.msg)
			fprintf(stderr, "tandem config: %s\n", err.msg);
		return 1;
	}
	if (output) {
		td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
		td_auto_free char *text = td_json_pretty(td_json_root(j));
		puts(text);
	}
	return 0;
}
