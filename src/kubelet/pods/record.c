// The pods' records on disk, and how they are compared with the runtime at start.
#include "json/record.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "kubelet/pods/pod.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *record_path(const struct td_kubelet *a, const char *uid)
{
	return td_asprintf("%s/agent/pods/%s.json", a->o.home, uid);
}

static void end_json(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const struct td_ctr_end *e)
{
	if (!e->valid)
		return;
	yyjson_mut_val *v = td_jm_obj(d, o, key);
	td_jm_int(d, v, "exitCode", e->exit_code);
	td_jm_int(d, v, "signal", e->signal);
	td_jm_int(d, v, "started", e->started_ms);
	td_jm_int(d, v, "finished", e->finished_ms);
	td_jm_str(d, v, "reason", e->reason);
	td_jm_str(d, v, "message", e->message);
	td_jm_str(d, v, "id", e->id);
}

static void end_read(const yyjson_val *v, struct td_ctr_end *e)
{
	if (!v)
		return;
	*e = (struct td_ctr_end){
		.valid = true,
		.exit_code = (int)td_jint(v, "exitCode", 0),
		.signal = (int)td_jint(v, "signal", 0),
		.started_ms = td_jint(v, "started", 0),
		.finished_ms = td_jint(v, "finished", 0),
		.reason = td_strdup(td_jstr(v, "reason")),
		.message = td_strdup(td_jstr(v, "message")),
		.id = td_strdup(td_jstr(v, "id")),
	};
}

int td_pod_record_save(const struct td_kubelet *a, const struct td_pod *p, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "uid", p->uid);
	td_jm_str(d, o, "namespace", p->ns);
	td_jm_str(d, o, "name", p->name);
	td_jm_int(d, o, "node", p->node);
	td_jm_bool(d, o, "hostNetwork", p->host_network);
	if (p->own_users)
		td_jm_int(d, o, "users", p->users);
	td_jm_int(d, o, "job", p->grant.job);
	td_jm_int(d, o, "jobStart", p->grant.start);
	td_jm_bool(d, o, "granted", p->grant.granted);
	if (p->grant.share)
		td_jm_int(d, o, "share", p->grant.share);
	td_jm_bool(d, o, "slurmd", p->slurmd);
	td_auto_free char *dev = td_dev_format(p->devices);
	td_jm_str(d, o, "devices", dev);
	td_jm_int(d, o, "grace", p->grace_s);
	td_jm_int(d, o, "requestCpuMilli", p->req_cpu_milli);
	td_jm_int(d, o, "requestMemory", p->req_memory);
	td_jm_str(d, o, "ip", p->ip);
	td_jm_int(d, o, "started", p->start_ms);
	td_jm_int(d, o, "stopBegun", p->stop_begun);
	td_jm_int(d, o, "killAt", p->kill_at);
	td_jm_bool(d, o, "terminal", p->terminal);
	td_jm_bool(d, o, "cleaned", p->cleaned);
	td_jm_str(d, o, "failReason", p->fail_reason);
	td_jm_str(d, o, "failMessage", p->fail_message);

	yyjson_mut_val *arr = td_jm_arr(d, o, "containers");
	for (size_t i = 0; i < p->n_ctr; i++) {
		const struct td_ctr *c = &p->ctr[i];
		yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, arr);
		td_jm_str(d, v, "name", c->name);
		td_jm_str(d, v, "image", c->image);
		td_jm_int(d, v, "kind", c->kind);
		td_jm_int(d, v, "index", c->index);
		td_jm_int(d, v, "attempt", c->attempt);
		td_jm_bool(d, v, "wanted", c->wanted);
		td_jm_int(d, v, "state", c->state);
		td_jm_str(d, v, "imageID", c->image_id);
		td_jm_int(d, v, "started", c->started_ms);
		end_json(d, v, "end", &c->end);
		end_json(d, v, "last", &c->last);
	}

	size_t len;
	td_auto_free char *s = td_json_mut_text(o, &len);
	td_auto_free char *path = record_path(a, p->uid);
	td_auto_free char *tmp = td_asprintf("%s.tmp", path);
	td_auto_close int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "write %s", tmp);

	int r = td_fault_at(err, "kubelet.record-save.before");
	if (!r)
		r = td_write_all(fd, s, len, err);
	if (r)
		return td_wrap(err, "write %s", tmp);

	if (rename(tmp, path) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "rename %s", tmp);
	return td_fault_at(err, "kubelet.record-save.after");
}

static void ctr_read(const yyjson_val *v, struct td_ctr *c)
{
	c->name = td_strdup(td_jstr_or(v, "name", ""));
	c->image = td_strdup(td_jstr_or(v, "image", ""));
	c->kind = (enum td_ctr_kind)td_jint(v, "kind", TD_CTR_MAIN);
	c->index = (int)td_jint(v, "index", 0);
	c->attempt = (int)td_jint(v, "attempt", -1);
	c->wanted = td_jbool(v, "wanted", false);
	c->state = (enum td_ctr_state)td_jint(v, "state", TD_CTR_WAITING);
	c->image_id = td_strdup(td_jstr(v, "imageID"));
	c->started_ms = td_jint(v, "started", 0);
	// The back-off is not kept, as in the kubelet: a container that a reboot or `tandem down`
	// ended starts again at once.
	c->pidfd = -1;
	end_read(td_jget(v, "end"), &c->end);
	end_read(td_jget(v, "last"), &c->last);
}

int td_pod_record_load(const struct td_kubelet *a, const char *uid, struct td_pod **ret, struct td_error *err)
{
	td_auto_free char *path = record_path(a, uid);
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_record_read(path, &j, err);
	if (r)
		return r;

	yyjson_val *o = td_json_root(j), *v;
	int node = (int)td_jint(o, "node", -1);
	if (!td_streq(td_jstr(o, "uid"), uid) || !td_jstr(o, "name") || !td_jstr(o, "namespace") || node < 0 ||
	    node >= 64)
		return td_fail(err, TD_INVALID, "record %s: uid, name, namespace or node is wrong", path);

	struct td_pod *p = td_calloc(1, sizeof(*p));
	p->refs = 1;
	pthread_mutex_init(&p->mu, NULL);
	p->uid = td_strdup(uid);
	p->ns = td_strdup(td_jstr(o, "namespace"));
	p->name = td_strdup(td_jstr(o, "name"));
	p->node = node;
	p->host_network = td_jbool(o, "hostNetwork", false);
	p->own_users = td_jget(o, "users") != NULL;
	p->users = (int)td_jint(o, "users", 0);
	p->grant.job = td_jint(o, "job", 0);
	p->grant.start = td_jint(o, "jobStart", 0);
	p->grant.granted = td_jbool(o, "granted", false);
	p->grant.share = (int)td_jint(o, "share", 0);
	p->grant.all = p->slurmd = td_jbool(o, "slurmd", false);
	td_dev_parse(td_jstr(o, "devices"), TD_DEV_MAX, &p->devices, NULL);
	p->grace_s = td_jint(o, "grace", 30);
	p->end_grace_s = -1; // the annotation tells again
	p->req_cpu_milli = td_jint(o, "requestCpuMilli", 0);
	p->req_memory = td_jint(o, "requestMemory", 0);

	// `tandem up` may have chosen another subnet since; the pod keeps its place in it.
	int net, third, host;
	if (sscanf(td_jstr_or(o, "ip", ""), "10.%d.%d.%d", &net, &third, &host) == 3)
		snprintf(p->ip, sizeof(p->ip), "10.%d.%d.%d", a->subnet, third & 255, host & 255);

	p->start_ms = td_jint(o, "started", 0);
	p->stop_begun = td_jint(o, "stopBegun", 0);
	p->kill_at = td_jint(o, "killAt", 0);
	p->stopping = p->stop_begun != 0;
	p->terminal = td_jbool(o, "terminal", false);
	p->cleaned = td_jbool(o, "cleaned", false);
	p->fail_reason = td_strdup(td_jstr(o, "failReason"));
	p->fail_message = td_strdup(td_jstr(o, "failMessage"));
	p->admitted = p->recorded = true;

	yyjson_val *arr = td_jget(o, "containers");
	p->n_ctr = yyjson_arr_size(arr);
	p->ctr = td_calloc(p->n_ctr ? p->n_ctr : 1, sizeof(*p->ctr));
	size_t i, n;
	yyjson_arr_foreach (arr, i, n, v) {
		ctr_read(v, &p->ctr[i]);
		if (p->ctr[i].kind != TD_CTR_MAIN)
			p->n_init++;
		if (p->ctr[i].attempt >= 0)
			p->ctr[i].id = td_pod_container_id(a, p, &p->ctr[i]);
	}

	*ret = p;
	return 0;
}

void td_pod_record_remove(const struct td_kubelet *a, const char *uid)
{
	td_auto_free char *path = record_path(a, uid);
	unlink(path);
}

// Is this the id of the current attempt of a container in the table?
static bool known(struct td_kubelet *a, const struct td_pods *all, const char *id)
{
	for (size_t i = 0; i < all->n; i++)
		for (size_t k = 0; k < all->v[i]->n_ctr; k++) {
			if (all->v[i]->ctr[k].attempt < 0)
				continue;
			td_auto_free char *mine = td_pod_container_id(a, all->v[i], &all->v[i]->ctr[k]);
			if (!strcmp(mine, id))
				return true;
		}
	return false;
}

int td_pods_restore(struct td_kubelet *a, struct td_error *err)
{
	td_auto_free char *dir = td_asprintf("%s/agent/pods", a->o.home);
	int r = td_mkdir_p(dir, 0700, err);
	if (r)
		return r;

	DIR *d = opendir(dir);
	if (!d)
		return td_fail_errno(err, TD_INTERNAL, errno, "open %s", dir);

	struct dirent *e;
	while ((e = readdir(d))) {
		size_t n = strlen(e->d_name);
		if (n < 6 || strcmp(e->d_name + n - 5, ".json"))
			continue;
		td_auto_free char *uid = td_strndup(e->d_name, n - 5);

		struct td_pod *p = NULL;
		struct td_error e2 = TD_ERROR_INIT;
		if (td_pod_record_load(a, uid, &p, &e2)) {
			// A machine crash can leave an empty file. Then nothing of the pod runs, or
			// it is removed below as a stray container.
			td_warn("kubelet: dropped the record of pod %s: %s", uid, e2.msg);
			td_pod_record_remove(a, uid);
			continue;
		}

		if (p->node >= a->o.nodes) {
			td_warn("kubelet: pod %s/%s was on node n%d, which is no more: removed", p->ns, p->name,
				p->node);
			td_pod_record_remove(a, uid);
		} else {
			td_pod_table_add(a->table, p);
		}
		td_pod_unref(p);
	}
	closedir(d);

	td_auto_pods struct td_pods all = {0};
	td_auto_strv struct td_strv ids = {0}, nets = {0};
	td_pod_table_all(a->table, &all);
	r = td_oci_list(a->oci, &ids, err);
	if (r)
		return r;
	for (size_t i = 0; i < ids.n; i++) {
		struct td_error e2 = TD_ERROR_INIT;
		if (!known(a, &all, ids.v[i]) && td_oci_delete(a->oci, ids.v[i], true, &e2))
			return td_fail(err, TD_TRANSIENT, "remove stray container %s: %s", ids.v[i], e2.msg);
	}

	td_auto_free char *prefix = td_asprintf("td%s-", a->o.id);
	r = td_net_list(prefix, &nets, err);
	if (r)
		return r;

	for (size_t i = 0; i < nets.n; i++) {
		bool mine = false;
		for (size_t k = 0; k < all.n && !mine; k++) {
			td_auto_free char *n = td_pod_netns(a, all.v[k]);
			mine = !strcmp(n, nets.v[i]);
			// Its name comes first, so the last process may have died before it had an interface
			// or a filter. Whoever began a container had made it whole; otherwise it is made again.
			if (mine && td_pod_begun(all.v[k])) {
				all.v[k]->net_up = true;
				all.v[k]->filter = TD_FILTER_UNKNOWN;
			}
		}
		if (!mine)
			td_net_pod_delete(nets.v[i], NULL);
	}
	return 0;
}
