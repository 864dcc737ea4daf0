// The view of nodes that `tandem nodes`, `node` and `history` print.
#include "cli/nodeview.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/names.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void td_nodeview_done(struct td_nodeview *v)
{
	td_objects_done(&v->nodes);
	td_objects_done(&v->acts);
	td_object_unref(v->history);
	td_kube_free(v->kube);
	*v = (struct td_nodeview){0};
}

const char *td_cli_me(void)
{
	const char *sudo = getenv("SUDO_USER");
	struct passwd *p = sudo && *sudo ? NULL : getpwuid(getuid());
	return sudo && *sudo ? sudo : p ? p->pw_name : "unknown";
}

int td_cli_nodes_open(const struct td_remote *r, struct td_nodeview *ret, struct td_error *err)
{
	if (r->kubeconfig)
		return td_kube_new(r->kubeconfig, &ret->kube, err);
	td_auto_instance struct td_instance i = {0};
	int rc = td_instance_load(&i, err);
	if (rc)
		return rc;
	td_auto_free char *conf = td_instance_kubeconfig(&i, "admin");
	if (access(conf, R_OK) < 0)
		return td_fail(err, TD_DENIED,
			       "%s is not readable for you: use sudo, or --kubeconfig with a file that is yours", conf);
	return td_kube_new(conf, &ret->kube, err);
}

void td_cli_made_by(struct td_kube *k, yyjson_mut_doc *d, yyjson_mut_val *object)
{
	static const char text[] = "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";
	const struct td_kube_body body = {"application/json", text, sizeof(text) - 1};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (td_kube_raw(k, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &body, NULL, &j, NULL))
		return;
	const char *me = td_jstr(td_json_root(j), "status.userInfo.username");
	if (me)
		td_jm_key_str(d, td_jm_obj(d, object, "metadata.annotations"), TD_ANN_MADE_BY, me);
}

static int by_age(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	int d = strcmp(td_jstr_or(x->root, "metadata.creationTimestamp", ""),
		       td_jstr_or(y->root, "metadata.creationTimestamp", ""));
	int e = strcmp(td_jstr_or(x->root, "status.startedAt", "9"), td_jstr_or(y->root, "status.startedAt", "9"));
	return d ? d : e ? e : strcmp(x->name, y->name);
}

int td_cli_nodes_list(struct td_nodeview *v, const char *node, struct td_error *err)
{
	struct td_object *o = NULL;
	int r = node ? td_kube_get(v->kube, &td_nodes, NULL, node, NULL, &o, err)
		     : td_kube_list(v->kube, &td_nodes, NULL, NULL, NULL, NULL, &v->nodes, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r, "there is no node \"%s\": `tandem nodes` lists them", node);
	if (r)
		return r;
	if (node)
		td_objects_add(&v->nodes, o);
	return td_cli_nodes_records(v, node, err);
}

int td_cli_nodes_records(struct td_nodeview *v, const char *node, struct td_error *err)
{
	// The acts first: what is folded in between is in both, and shown once.
	int r = td_kube_list(v->kube, &td_nodeactions, NULL, NULL, NULL, NULL, &v->acts, err);
	if (r)
		return r;
	if (v->acts.n)
		qsort(v->acts.v, v->acts.n, sizeof(struct td_object *), by_age);
	r = node ? td_kube_get(v->kube, &td_nodehistories, NULL, node, NULL, &v->history, err) : 0;
	return r == TD_NOT_FOUND ? 0 : r;
}

static bool over(const struct td_object *act)
{
	const char *p = td_jstr_or(act->root, "status.phase", "");
	return td_streq(p, "Succeeded") || td_streq(p, "Failed") || td_streq(p, "Unknown");
}

static bool of(const struct td_object *act, const char *node)
{
	return td_streq(td_jstr(act->root, "spec.node"), node);
}

// The act that works on the node, else the last one that did.
static const struct td_object *act_of(const struct td_nodeview *v, const char *node)
{
	const struct td_object *last = NULL;
	for (size_t i = 0; i < v->acts.n; i++) {
		if (!of(v->acts.v[i], node))
			continue;
		if (!over(v->acts.v[i]))
			return v->acts.v[i];
		last = v->acts.v[i];
	}
	return last;
}

void td_cli_nodes_view(const struct td_nodeview *v, const struct td_object *node, yyjson_mut_doc *d,
		       yyjson_mut_val *list)
{
	const char *hold = td_object_annotation(node, TD_ANN_HOLD), *person = td_object_annotation(node, TD_ANN_PERSON),
		   *slurm = td_object_annotation(node, TD_ANN_SLURM_STATE),
		   *faults = td_object_annotation(node, TD_ANN_FAULTS);
	const struct td_object *act = act_of(v, node->name);
	bool ready = td_condition_true(node->root, "Ready"), busy = act && !over(act);
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
	td_jm_str(d, o, "name", node->name);
	td_jm_bool(d, o, "ready", ready);
	td_jm_bool(d, o, "cordoned", td_jbool(node->root, "spec.unschedulable", false));
	td_jm_bool(d, o, "inService", ready && !hold && !td_jbool(node->root, "spec.unschedulable", false));
	td_jm_str(d, o, "slurmState", slurm);
	td_jm_str(d, o, "hold", hold);
	const char *shadow = td_object_annotation(node, TD_ANN_SHADOW);
	td_auto(td_json_unref) struct td_json *others = NULL;
	if (shadow && !td_json_parse(shadow, strlen(shadow), &others, NULL))
		td_jm_copyval(d, o, "shadow", td_json_root(others));
	td_jm_str(d, o, "devicesOut", td_object_annotation(node, TD_ANN_DEVICES_OUT));
	td_jm_str(d, o, "devicesHold", td_object_annotation(node, TD_ANN_DEVICES_HOLD));
	td_jm_str(d, o, "devicesHoldWhy", td_object_annotation(node, TD_ANN_DEVICES_HOLD_WHY));
	td_jm_str(d, o, "devicesHeld", td_object_annotation(node, TD_ANN_DEVICES_HELD));
	const char *by = td_object_annotation(node, TD_ANN_DEVICES_BY);
	td_auto(td_json_unref) struct td_json *jobs = NULL;
	if (by && !td_json_parse(by, strlen(by), &jobs, NULL))
		td_jm_copyval(d, o, "devicesHeldBy", td_json_root(jobs));
	td_jm_str(d, o, "needsPerson", person);
	// What Slurm gives out here, by its types: "h100:7,1g.10gb:2".
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	td_auto(td_json_unref) struct td_json *has = NULL;
	if (share && !td_json_parse(share, strlen(share), &has, NULL))
		td_jm_str(d, o, "gpuTypes", td_jstr(td_json_root(has), TD_SHARE_TYPES));
	const char *probed = td_object_annotation(node, TD_ANN_PROBED);
	td_auto(td_json_unref) struct td_json *tested = NULL;
	if (probed && !td_json_parse(probed, strlen(probed), &tested, NULL))
		td_jm_copyval(d, o, "idleTest", td_json_root(tested));
	const char *together = td_object_annotation(node, TD_ANN_TESTED_TOGETHER);
	td_auto(td_json_unref) struct td_json *list_of = NULL;
	if (together && !td_json_parse(together, strlen(together), &list_of, NULL) &&
	    yyjson_is_arr(td_json_root(list_of)))
		td_jm_copyval(d, o, "idleTestsTogether", td_json_root(list_of));
	td_jm_str(d, o, "bootID", td_jstr(node->root, "status.nodeInfo.bootID"));
	td_jm_str(d, o, "image", td_object_label(node, TD_LABEL_IMAGE));

	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *x;
	size_t i, n;
	yyjson_mut_val *l = td_jm_arr(d, o, "faults");
	if (faults && !td_json_parse(faults, strlen(faults), &j, NULL))
		yyjson_arr_foreach (td_json_root(j), i, n, x)
			yyjson_mut_arr_append(l, yyjson_val_mut_copy(d, x));
	if (act && (busy || hold)) {
		td_jm_str(d, o, "action", td_jstr(act->root, "spec.action"));
		td_jm_str(d, o, "step", busy ? td_jstr(act->root, "status.step") : NULL);
		td_jm_str(d, o, "phase", td_jstr_or(act->root, "status.phase", "Pending"));
		td_jm_str(d, o, "who", td_jstr(act->root, "spec.requestedBy"));
		td_jm_str(d, o, "since",
			  td_jstr_or(act->root, busy ? "status.startedAt" : "status.finishedAt",
				     td_jstr_or(act->root, "metadata.creationTimestamp", "")));
		td_jm_str(d, o, "next", td_jstr(act->root, "status.message"));
	}
}

static bool acted(const struct td_nodeview *v, const char *uid)
{
	for (size_t i = 0; i < v->acts.n; i++)
		if (td_streq(v->acts.v[i]->uid, uid))
			return true;
	return false;
}

void td_cli_nodes_history(const struct td_nodeview *v, const char *node, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_val *x;
	size_t k, n;
	yyjson_arr_foreach (v->history ? td_jget(v->history->root, "records") : NULL, k, n, x)
		if (!acted(v, td_jstr(x, "uid")))
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, x));
	for (size_t i = 0; i < v->acts.n; i++) {
		const struct td_object *a = v->acts.v[i];
		if (!of(a, node))
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "uid", a->uid);
		td_jm_str(d, o, "name", a->name);
		td_jm_str(d, o, "madeBy", td_object_annotation(a, TD_ANN_MADE_BY));
		td_jm_str(d, o, "createdAt", td_jstr(a->root, "metadata.creationTimestamp"));
		td_jm_copyval(d, o, "spec", td_jget(a->root, "spec"));
		td_jm_copyval(d, o, "status", td_jget(a->root, "status"));
	}
}

char *td_cli_test_words(const char *said)
{
	static const char *const of[][3] = {{"gflops", "", " GFLOPS"},
					    {"memoryMBps", "memory ", " MB/s"},
					    {"diskWriteMBps", "disk ", " MB/s written"},
					    {"diskReadMBps", "disk ", " MB/s read"},
					    {"linkMbps", "links ", " Mb/s"}};
	const char *at = said ? strchr(said, '{') : NULL, *end = said ? strrchr(said, '}') : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!at || !end || end < at || td_json_parse(at, (size_t)(end + 1 - at), &j, NULL) ||
	    !yyjson_is_num(td_jget(td_json_root(j), "gflops")))
		return td_strdup(said);
	yyjson_val *root = td_json_root(j), *x;
	td_auto_buf struct td_buf b = {0};
	size_t i, n;
	long long devices = td_jint(root, "devices", 0), cells = td_jint(root, "memoryErrors", 0);
	td_buf_printf(&b, "%.*s", (int)(at - said), said);
	if (devices)
		td_buf_printf(&b, "%lld device%s", devices, devices == 1 ? "" : "s");
	const char *sep = devices ? ": " : "";
	for (size_t k = 0; k < TD_LEN(of); k++, sep = ", ") {
		x = td_jget(root, of[k][0]);
		if (yyjson_is_num(x) && yyjson_get_num(x) > 0)
			td_buf_printf(&b, "%s%s%.10g%s", sep, of[k][1], yyjson_get_num(x), of[k][2]);
	}
	if (cells)
		td_buf_printf(&b, "; %lld errors of memory", cells);
	yyjson_arr_foreach (td_jget(root, "wrong"), i, n, x)
		td_buf_printf(&b, "%s%s",
			      i ? ", " : "; computes wrongly: ", yyjson_is_str(x) ? yyjson_get_str(x) : "?");
	td_buf_puts(&b, end + 1);
	return td_buf_take(&b);
}

void td_cli_nodes_together(yyjson_val *tests, const char *head)
{
	yyjson_val *x;
	for (size_t i = yyjson_arr_size(tests); i--;) {
		yyjson_val *t = yyjson_arr_get(tests, i);
		const char *said = td_jstr(t, "message");
		size_t k, n;
		printf("%-*s%s  %s with", (int)strlen(head), i + 1 == yyjson_arr_size(tests) ? head : "",
		       td_jstr_or(t, "at", "?"), td_jstr_or(t, "result", "?"));
		yyjson_arr_foreach (td_jget(t, "nodes"), k, n, x)
			printf("%s %s", k ? "," : "", yyjson_is_str(x) ? yyjson_get_str(x) : "?");
		printf("\n%*s", (int)strlen(head) + 2, "");
		if (td_jint(t, "MBps", 0))
			printf("%lld MB/s%s", td_jint(t, "MBps", 0), said ? ": " : "");
		printf("%s\n", said ? said : "");
	}
}

void td_cli_nodes_story(yyjson_val *act)
{
	const char *phase = td_jstr_or(act, "status.phase", "Pending"),
		   *by = td_jstr_or(act, "spec.requestedBy", "somebody"), *reason = td_jstr(act, "spec.reason"),
		   *device = td_jstr(act, "spec.device");
	printf("%s  %s%s%s%s, asked for by %s%s%s\n", td_jstr_or(act, "createdAt", "?"),
	       td_jstr_or(act, "spec.action", "?"), device ? " " : "", device ? device : "",
	       td_streq(td_jstr(act, "spec.scope"), "device") ? " alone" : "", by, reason ? ": " : "",
	       reason ? reason : "");
	const char *made = td_jstr(act, "madeBy");
	if (made)
		printf("  made by %s\n", made);
	yyjson_val *s;
	size_t i, n;
	yyjson_arr_foreach (td_jget(act, "status.steps"), i, n, s) {
		const char *end = td_jstr(s, "finishedAt"), *said = td_jstr(s, "message");
		printf("  %s  %-9s %s%s%s\n", td_jstr_or(s, "startedAt", "?"), td_jstr_or(s, "name", "?"),
		       end ? "ended " : "goes on", end ? end : "", "");
		td_auto_free char *words = td_cli_test_words(said);
		if (words && *words)
			printf("  %22s%s\n", "", words);
	}
	if (td_jstr(act, "deletedAt"))
		printf("  its NodeAction was deleted %s\n", td_jstr(act, "deletedAt"));
	td_auto_free char *message = td_cli_test_words(td_jstr(act, "status.message"));
	printf("  %s%s%s\n", phase, message ? ": " : "", message ? message : "");
}
