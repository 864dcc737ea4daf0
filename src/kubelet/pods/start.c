// From a container's spec to a running container.
#include "api/annotations.h"
#include "api/grant.h"
#include "api/quantity.h"
#include "base/fault.h"
#include "base/file.h"
#include "gate/gate.h"
#include "kubelet/accels.h"
#include "kubelet/fakegpu.h"
#include "kubelet/nics.h"
#include "kubelet/pods/hosts.h"
#include "kubelet/pods/security.h"
#include "kubelet/pods/stage.h"
#include "kubelet/pods/status.h"
#include "kubelet/pods/sync.h"
#include "kubelet/pods/volumes.h"
#include "kubelet/realgpu.h"
#include "oci/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWN = 4 /* hosts, hostname, resolv.conf, termination log */ };
enum {
	MOUNTS_MAX = 192,
	RETRY_MS = 5000,
	RETRY_DOUBLES = 6, // so that the longest is five minutes
	IMAGE_RETRY_MS = 10000,
	LOG_MAX = 10 << 20 /* as the kubelet's containerLogMaxSize */
};

const yyjson_val *td_ctr_spec(const yyjson_val *pod, const char *name)
{
	const char *lists[] = {"spec.containers", "spec.initContainers"};
	for (size_t l = 0; l < TD_LEN(lists); l++) {
		yyjson_val *v;
		size_t i, n;
		yyjson_arr_foreach (td_jget(pod, lists[l]), i, n, v) {
			if (td_streq(td_jstr(v, "name"), name))
				return v;
		}
	}
	return NULL;
}

void td_pod_holder(const struct td_pod *p, struct td_holder *ret)
{
	*ret = (struct td_holder){.job = p->grant.job, .start = p->grant.start, .pod = true, .share = p->grant.share};
	snprintf(ret->uid, sizeof(ret->uid), "%s", p->uid);
}

static void environment(const struct td_kubelet *a, const struct td_image *img, const char *hostname,
			struct td_strv *env)
{
	td_env_set(env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	td_env_set(env, "HOSTNAME", hostname);
	for (size_t i = 0; i < img->env.n; i++) {
		td_auto_free char *key = td_strndup(img->env.v[i], strcspn(img->env.v[i], "="));
		const char *v = strchr(img->env.v[i], '=');
		td_env_set(env, key, v ? v + 1 : "");
	}

	const char *url = a->o.api_url ? strstr(a->o.api_url, "://") : NULL;
	if (url) {
		td_auto_free char *host = td_strndup(url + 3, strcspn(url + 3, ":/"));
		const char *port = strchr(url + 3, ':');
		td_auto_free char *p = td_strndup(port ? port + 1 : "443", strcspn(port ? port + 1 : "443", "/"));
		td_env_set(env, "KUBERNETES_SERVICE_HOST", host);
		td_env_set(env, "KUBERNETES_SERVICE_PORT", p);
		td_env_set(env, "KUBERNETES_SERVICE_PORT_HTTPS", p);
	}
}

static int arguments(const yyjson_val *spec, const struct td_image *img, const struct td_strv *env, struct td_strv *ret,
		     struct td_error *err)
{
	yyjson_val *cmd = td_jget(spec, "command"), *args = td_jget(spec, "args"), *v;
	size_t i, n;
	yyjson_arr_foreach (cmd, i, n, v) {
		td_strv_steal(ret, td_env_expand(yyjson_get_str(v), env));
	}

	bool own = ret->n > 0;
	for (size_t k = 0; !own && k < img->entrypoint.n; k++)
		td_strv_add(ret, img->entrypoint.v[k]);
	yyjson_arr_foreach (args, i, n, v) {
		td_strv_steal(ret, td_env_expand(yyjson_get_str(v), env));
	}
	for (size_t k = 0; !own && !yyjson_arr_size(args) && k < img->cmd.n; k++)
		td_strv_add(ret, img->cmd.v[k]);

	return ret->n ? 0 : td_fail(err, TD_INVALID, "no command: the image names none, set spec.containers[].command");
}

static int limit(const yyjson_val *spec, const char *path, const char *what, bool milli, int64_t *ret,
		 struct td_error *err)
{
	yyjson_val *q = td_jkey(td_jget(spec, path), what);
	td_auto_free char *num = yyjson_is_num(q) ? td_json_text(q, NULL) : NULL;
	const char *s = num ? num : yyjson_get_str(q);
	if (!s)
		return 0;
	return milli ? td_quantity_milli(s, ret, err) : td_quantity_ceil(s, ret, err);
}

// Everything that one start needs, freed together.
_Static_assert((int)TD_REALGPU_NODES >= (int)TD_FAKEGPU_NODES, "room for either kind");
struct plan {
	struct td_image img;
	struct td_strv env, args;
	struct td_ident id;
	struct td_arena *arena;
	struct td_oci_mount mounts[MOUNTS_MAX];
	struct td_oci_device devices[(int)TD_REALGPU_NODES + (int)TD_KUBELET_GDS_FILES + (int)TD_KUBELET_NIC_FILES];
	char *dir, *hosts, *hostname, *resolv, *term, *netns, *log, *cid;
	struct td_oci_spec spec;
	struct td_json *filter; // spec.seccomp_own is of it; NULL
	uint64_t gpus;          // of the node: those that the container gets
	bool gds;               // it gets GPUDirect Storage
};

static void plan_done(struct plan *x)
{
	td_image_done(&x->img);
	td_strv_done(&x->env);
	td_strv_done(&x->args);
	td_ident_done(&x->id);
	td_json_unref(x->filter);
	td_arena_free(x->arena);
	free(x->dir), free(x->hosts), free(x->hostname), free(x->resolv), free(x->term), free(x->netns), free(x->log),
		free(x->cid);
}

static int touch(const char *path, mode_t mode, struct td_error *err)
{
	td_auto_free char *dir = td_strndup(path, (size_t)(strrchr(path, '/') - path));
	int r = td_mkdir_p(dir, 0755, err);
	td_auto_close int fd = r ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	if (!r && (fd < 0 || fchmod(fd, mode) < 0))
		r = td_fail_errno(err, TD_TRANSIENT, errno, "make %s", path);
	return r;
}

// Makes the pod's /etc/hostname: one file for all its containers, as a container runtime makes it.
// They may write to it, so it is made once.
static int hostname_file(const char *dir, const char *hostname, char **ret, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/hostname", dir), *line = td_asprintf("%s\n", hostname);
	int r = td_path_exists(path) ? 0 : td_file_write(path, line, strlen(line), 0644, err);
	if (!r)
		*ret = td_steal(path);
	return r;
}

static int plan_mounts(struct td_kubelet *a, struct td_pod *p, const yyjson_val *spec, const struct td_vol_src *vol,
		       struct plan *x, struct td_error *err)
{
	size_t n = 0, more;
	struct td_mounts its = {.v = x->mounts + OWN, .max = MOUNTS_MAX - OWN};
	x->hosts = td_hosts_path(a, p->ns);
	td_auto_free char *empty = td_asprintf("%s/agent/resolv.conf", a->o.home);
	x->term = td_asprintf("%s/term/%s", x->dir, td_jstr_or(spec, "name", ""));

	int r = touch(x->term, 0666, err);
	if (!r)
		r = touch(empty, 0644, err);
	if (!r)
		r = td_resolv_conf(a, p, vol->env->pod, x->dir, &x->resolv, err);
	if (!r && truncate(x->term, 0) < 0)
		r = td_fail_errno(err, TD_TRANSIENT, errno, "truncate %s", x->term);
	if (!r)
		r = hostname_file(x->dir, x->spec.hostname, &x->hostname, err);
	if (!r)
		r = td_vol_mounts(vol, spec, &x->env, x->arena, &its, err);
	if (!r)
		r = td_pod_dataset_mounts(a, p, vol, x->arena, &its, err);
	if (!r && a->real && x->gpus)
		r = td_realgpu_mounts(a->real, x->img.rootfs, x->arena, &its, err);
	if (!r && x->gds)
		r = td_kubelet_gds_mounts(a, p->node, x->arena, &its, err);
	if (r)
		return r;

	more = its.n;

	x->mounts[n++] = (struct td_oci_mount){"bind", x->hosts, "/etc/hosts", "bind,ro"};
	x->mounts[n++] = (struct td_oci_mount){"bind", x->hostname, "/etc/hostname",
					       x->id.read_only_root ? "bind,ro" : "bind,rw"};
	x->mounts[n++] = (struct td_oci_mount){"bind", x->resolv, "/etc/resolv.conf", "bind,ro"};
	x->mounts[n++] = (struct td_oci_mount){
		"bind", x->term, td_jstr_or(spec, "terminationMessagePath", "/dev/termination-log"), "bind,rw"};

	// A volume that is mounted on the place of one of our own files wins.
	for (size_t i = 0; i < n; i++)
		for (size_t k = OWN; k < OWN + more; k++)
			if (!strcmp(x->mounts[i].destination, x->mounts[k].destination)) {
				x->mounts[i] = x->mounts[k];
				memmove(x->mounts + k, x->mounts + k + 1, (OWN - 1 + more - k) * sizeof(x->mounts[0]));
				more--;
				break;
			}

	x->spec.mounts = x->mounts;
	x->spec.n_mounts = n + more;
	return 0;
}

static int plan_limits(const yyjson_val *spec, struct td_oci_spec *s, struct td_error *err)
{
	int r = limit(spec, "resources.limits", "memory", false, &s->memory_max, err);
	if (!r)
		r = limit(spec, "resources.limits", "cpu", true, &s->cpu_milli_max, err);
	if (!r)
		r = limit(spec, "resources.requests", "cpu", true, &s->cpu_milli_request, err);
	if (!r && !s->cpu_milli_request)
		s->cpu_milli_request = s->cpu_milli_max;
	return r ? td_wrap(err, "resources") : 0;
}

// Reads the filter of system calls of the site's own that the container names.
static int plan_filter(struct td_kubelet *a, struct plan *x, struct td_error *err)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	const char *name = x->id.seccomp_own;
	if (!name)
		return 0;
	if (!*name || *name == '.' || name[strspn(name, chars)])
		return td_fail(
			err, TD_INVALID,
			"seccompProfile.localhostProfile: \"%.100s\" is no name of a profile: write the name of a "
			"file in the directory seccomp of the home, without a path",
			name);
	enum { MOST = 1 << 20 };
	td_auto_free char *path = td_asprintf("%s/seccomp/%s", a->o.home, name);
	td_auto_buf struct td_buf text = {0};
	int r = td_file_read(path, MOST, &text, err);
	if (!r)
		r = td_json_parse(td_buf_str(&text), text.len, &x->filter, err);
	if (!r)
		r = td_oci_seccomp_check(td_json_root(x->filter), err);
	if (r) {
		td_wrap(err, "seccompProfile.localhostProfile %s (%s)", name, path);
		err->code = TD_INVALID;
		return TD_INVALID;
	}
	x->spec.seccomp_own = td_json_root(x->filter);
	return 0;
}

// A user namespace of a pod has the ids 0 to 65535, as with every kubelet.
static int ids_fit(const struct td_ident *id, int64_t fs_group, struct td_error *err)
{
	const struct {
		const char *field;
		int64_t id;
	} v[] = {{"runAsUser", id->uid}, {"runAsGroup", id->gid}, {"fsGroup", fs_group}};
	int64_t bad = -1;
	const char *field = "supplementalGroups";
	for (size_t i = 0; i < id->n_groups && bad < 0; i++)
		bad = id->groups[i] >= TD_OCI_IDS ? (int64_t)id->groups[i] : -1;
	for (size_t i = 0; i < TD_LEN(v) && bad < 0; i++)
		if (v[i].id >= TD_OCI_IDS) {
			field = v[i].field;
			bad = v[i].id;
		}
	return bad < 0 ? 0
		       : td_fail(err, TD_INVALID,
				 "securityContext.%s: %lld: a pod with hostUsers: false has the ids 0 to %d only: use "
				 "one of these, or leave hostUsers out",
				 field, (long long)bad, TD_OCI_IDS - 1);
}

// Adapters of the network that Slurm granted: of each container as many as it asks for. slurmd sees them all.
static int plan_nics(const struct td_kubelet *a, const struct td_pod *p, const yyjson_val *pod, const char *container,
		     struct plan *x, struct td_error *err)
{
	const char *names = td_jkey_str(td_jget(pod, "metadata.annotations"), TD_ANN_NICS_GRANTED);
	struct td_kubelet_nic_files files = {x->arena, x->devices + x->spec.n_devices, 0};
	uint64_t mask = td_api_grant_part(UINT64_MAX, td_jget(pod, "spec"), container, TD_NIC_RESOURCE);
	if (!p->slurmd && (!names || !p->grant.granted || !mask))
		return 0;
	int r = td_kubelet_nics_devices(a, p->node, p->slurmd ? NULL : names, mask, &files, err);
	x->spec.n_devices += r ? 0 : files.n;
	return r;
}

// Fills the plan. An error of the image store (TD_NOT_FOUND etc.) comes back with *ret_image true.
static int plan_make(struct td_kubelet *a, struct td_pod *p, const yyjson_val *pod, const yyjson_val *spec,
		     struct plan *x, bool *ret_image, struct td_error *err)
{
	struct td_sources from;
	x->arena = td_arena_new();
	td_pod_sources(a, p, pod, &from);
	x->dir = from.dir;

	*ret_image = true;
	int r = td_image_resolve(a->o.images, td_jstr_or(spec, "image", ""), &x->img, err);
	if (r)
		return r;
	*ret_image = false;

	// RFC 1123: a host name has at most 63 characters.
	char *hostname =
		td_arena_strndup(x->arena, p->host_network ? from.node : td_jstr_or(pod, "spec.hostname", p->name), 63);

	const char *sub = td_jstr(pod, "spec.subdomain");
	x->spec.hostname = hostname;
	if (!p->host_network && td_jbool(pod, "spec.setHostnameAsFQDN", false) && sub && *sub) {
		hostname = td_arena_printf(x->arena, "%s.%s.%s.svc.cluster.local", hostname, sub, p->ns);
		if (strlen(hostname) > HOST_NAME_MAX)
			return td_fail(err, TD_INVALID,
				       "failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too "
				       "long (%d characters is the max)",
				       hostname, HOST_NAME_MAX);
		x->spec.hostname = hostname;
	}

	const char *name = td_jstr_or(spec, "name", "");
	uint64_t mask =
		p->slurmd ? td_dev_all(td_kubelet_gpus(a, p->node))
			  : td_api_grant_part(p->devices, td_jget(pod, "spec"), name, td_kubelet_resource(a, p->node));
	x->gpus = mask;
	// Slurm's jobs choose by the feature whether they run where it is.
	x->gds = mask && (p->slurmd ||
			  td_streq(td_jkey_str(td_jget(pod, "metadata.annotations"), td_annotations[TD_ASKS_GDS].name),
				   "true"));
	environment(a, &x->img, hostname, &x->env);
	// In slurmd's jobs Slurm sets them.
	const struct td_checkup_facts *parts = td_kubelet_parts(a, p->node);
	if (!p->slurmd && parts)
		td_fakegpu_parts_env(parts, mask, &x->env);
	else if (!p->slurmd && a->real)
		td_realgpu_env(a->real, mask, p->node, &x->env);
	else if (!p->slurmd)
		td_fakegpu_env(td_kubelet_accel(a, p->node), mask, &x->env);
	td_env_gang(pod, &x->env); // before the container's own, which may say otherwise
	r = td_env_build(&from.env, spec, &x->env, err);
	if (!r)
		r = arguments(spec, &x->img, &x->env, &x->args, err);
	if (!r)
		r = td_kubelet_stage(pod, spec, &x->args, err);
	if (!r)
		r = td_ident_build(pod, spec, x->img.rootfs, x->img.user, &x->id, err);
	if (!r && p->own_users)
		r = ids_fit(&x->id, from.vol.fs_group, err);
	if (!r)
		r = plan_filter(a, x, err);
	if (!r)
		r = plan_limits(spec, &x->spec, err);
	if (!r)
		r = plan_mounts(a, p, spec, &from.vol, x, err);
	if (r)
		return r;

	const char *cwd = td_jstr_or(spec, "workingDir", "");

	x->netns = td_pod_netns(a, p);
	x->spec.users = td_pod_users(a, p);
	x->spec.rootfs = x->img.rootfs;
	x->spec.netns = p->host_network ? NULL : x->netns;
	x->spec.args = (const char *const *)x->args.v;
	x->spec.env = (const char *const *)x->env.v;
	x->spec.cwd = *cwd ? cwd : x->img.workdir && *x->img.workdir ? x->img.workdir : "/";
	x->spec.uid = x->id.uid;
	x->spec.gid = x->id.gid;
	x->spec.groups = x->id.groups;
	x->spec.n_groups = x->id.n_groups;
	x->spec.umask = x->id.umask;
	x->spec.caps = (const char *const *)x->id.caps.v;
	x->spec.no_new_privileges = x->id.no_new_privileges;
	x->spec.read_only_root = x->id.read_only_root;
	x->spec.privileged = x->id.privileged;
	x->spec.seccomp = x->id.seccomp;
	x->spec.tty = td_jbool(spec, "tty", false);
	x->spec.stdin_open = td_jbool(spec, "stdin", false);
	x->spec.writable_cgroup = x->id.sys_admin;
	x->spec.devices = x->devices;
	x->spec.n_devices = a->real ? td_realgpu_nodes(a->real, mask, p->node, x->arena, x->devices)
			    : parts ? td_fakegpu_parts(parts, mask, p->node, a->o.device_major, x->arena, x->devices)
				    : td_fakegpu_nodes(td_kubelet_accel(a, p->node), mask, p->node, a->o.device_major,
						       x->arena, x->devices);
	if (x->gds)
		x->spec.n_devices += td_kubelet_gds_devices(a, p->node, x->arena, x->devices + x->spec.n_devices);
	return plan_nics(a, p, pod, name, x, err);
}

static void start_failed(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c, const char *reason,
			 const char *message)
{
	int64_t now = td_real_ms(a->clock);
	pthread_mutex_lock(&p->mu);
	c->wanted = false;
	c->state = TD_CTR_TERMINATED;
	pthread_mutex_unlock(&p->mu);

	td_ctr_end_clear(&c->end);
	c->end = (struct td_ctr_end){
		.valid = true,
		.exit_code = 128,
		.started_ms = now,
		.finished_ms = now,
		.reason = td_strdup(reason),
		.message = td_strdup(message),
	};
	td_pod_record_save(a, p, NULL);
}

static void drop_old_logs(const struct td_kubelet *a, const struct td_pod *p, const struct td_ctr *c)
{
	if (c->attempt < 2)
		return;
	// `kubectl logs --previous` needs the last attempt only.
	td_auto_free char *old = td_pod_log_path(a, p, c, c->attempt - 2);
	td_auto_free char *older = td_asprintf("%s.1", old);
	unlink(old);
	unlink(older);
}

static void begin_attempt(struct td_kubelet *a, struct td_pod *p, struct td_ctr *c)
{
	if (c->end.valid) {
		td_ctr_end_clear(&c->last);
		c->last = c->end;
		c->end = (struct td_ctr_end){0};
		// It was lost with its machine, or with `tandem down`: that was not the container's
		// fault.
		if (td_streq(c->last.reason, TD_END_LOST))
			c->backoff_ms = 0;
		else
			td_backoff_next(&c->backoff_ms);
	}

	pthread_mutex_lock(&p->mu);
	c->attempt++;
	c->wanted = true;
	c->state = TD_CTR_WAITING;
	c->unhealthy = false;
	free(td_steal(c->unhealthy_why));
	c->post_start = c->pre_stop = TD_HOOK_NONE;
	memset(c->fails, 0, sizeof(c->fails));
	memset(c->passes, 0, sizeof(c->passes));
	pthread_mutex_unlock(&p->mu);

	c->stop_begun = c->kill_at = 0;
	c->term_sent = c->killed = c->warned = false;
}

void td_ctr_start(struct td_kubelet *a, struct td_pod *p, const struct td_object *o, struct td_ctr *c,
		  int64_t *again_ms, struct td_cancel *cancel)
{
	const yyjson_val *spec = td_ctr_spec(o->root, c->name);
	struct plan x __attribute__((cleanup(plan_done))) = {0};
	struct td_error e = TD_ERROR_INIT;
	bool image = false;
	int r = plan_make(a, p, o->root, spec, &x, &image, &e);
	if (r && image) {
		bool never = td_streq(td_jstr(spec, "imagePullPolicy"), "Never");
		td_ctr_wait(c, never ? "ErrImageNeverPull" : "ErrImagePull", "%s", e.msg);
		td_pod_event(a, o, "Warning", "Failed", "Failed to find image \"%s\": %s", c->image, e.msg);
		td_sooner(again_ms, IMAGE_RETRY_MS);
		return;
	}

	if (r) {
		td_ctr_wait(c, "CreateContainerConfigError", "%s", e.msg);
		td_pod_event(a, o, "Warning", "Failed", "Error: %s", e.msg);
		td_sooner(again_ms, RETRY_MS);
		return;
	}

	free(c->image_id);
	c->image_id = td_asprintf("%s@sha256:%s", x.img.name, x.img.key ? x.img.key : "");
	td_pod_event(a, o, "Normal", "Pulled", "Container image \"%s\" already present on machine", c->image);

	begin_attempt(a, p, c);
	x.cid = td_pod_container_id(a, p, c);
	x.log = td_pod_log_path(a, p, c, c->attempt);
	x.spec.id = x.cid;
	x.spec.log_path = x.log;
	x.spec.log_max = LOG_MAX;

	drop_old_logs(a, p, c);
	free(c->id);
	c->id = td_strdup(x.cid);

	td_auto_free char *log_dir = td_strndup(x.log, (size_t)(strrchr(x.log, '/') - x.log));
	r = td_mkdir_p(log_dir, 0750, &e);
	if (!r)
		r = td_pod_record_save(a, p, &e);

	// `wanted` is visible by now. gate/gate.h describes the order that makes this safe.
	struct td_holder h;
	td_pod_holder(p, &h);
	if (!r && !td_gate_may_start(a->gate, p->node, p->slurmd ? 0 : p->devices, &h))
		r = td_fail(&e, TD_CONFLICT, "the grant of its devices has ended");

	pid_t pid = 0;
	// Read the time before the start: the program may have ended when the runtime comes back.
	int64_t began = td_real_ms(a->clock);
	if (!r)
		r = td_fault_at(&e, "kubelet.container-start.before");
	if (!r)
		r = td_oci_start(a->oci, &x.spec, cancel, &pid, &e);
	if (!r)
		r = td_fault_at(&e, "kubelet.container-start.after");
	if (!r)
		r = td_oci_pidfd(a->oci, x.cid, &c->pidfd, &e);
	if (r == TD_NOT_FOUND) // it ended at once: td_pod_reap finds out how
		r = 0;
	if (r == TD_CANCELLED) { // this process stops; the next one looks what came of it
		return;
	}

	// The machine's trouble and not the container's, whose program never ran: the same attempt is made again, also where
	// nothing restarts, as a kubelet does that could not create a container.
	if (r == TD_TRANSIENT && !td_oci_delete(a->oci, x.cid, true, NULL)) {
		td_ctr_unbegin(p, c);
		td_ctr_wait(c, "CreateContainerError", "%s", e.msg);
		td_pod_event(a, o, "Warning", "Failed", "Error: %s", e.msg);
		td_gate_kick(a->gate);
		// One try may take a minute, and a machine in trouble has many to make.
		int64_t ms = (int64_t)RETRY_MS << (c->start_tries < RETRY_DOUBLES ? c->start_tries++ : RETRY_DOUBLES);
		c->start_due = td_mono_ms(a->clock) + ms;
		td_sooner(again_ms, ms);
		return;
	}

	c->start_tries = 0;
	if (r) {
		td_oci_delete(a->oci, x.cid, true, NULL);
		start_failed(a, p, c, "StartError", e.msg);
		td_pod_event(a, o, "Warning", "Failed", "Error: %s", e.msg);
		td_gate_kick(a->gate);
		td_sooner(again_ms, 1);
		return;
	}

	td_ctr_wait(c, NULL, "%s", "");
	bool hook = td_jget(spec, "lifecycle.postStart") != NULL;

	pthread_mutex_lock(&p->mu);
	c->state = TD_CTR_RUNNING;
	c->started_ms = began;
	c->probe_started = !td_jget(spec, "startupProbe");
	c->probe_ready = !td_jget(spec, "readinessProbe");
	pthread_mutex_unlock(&p->mu);

	// If this fails, only the start time of a container that lives can be lost.
	td_pod_record_save(a, p, NULL);
	td_pod_event(a, o, "Normal", "Created", "Created container: %s", c->name);
	td_pod_event(a, o, "Normal", "Started", "Started container %s", c->name);

	if (c->pidfd < 0 || td_watch_exit(a->watch, c->pidfd, p->uid, NULL))
		td_sooner(again_ms, 50);

	if (hook)
		td_hook_begin(a, p, o, c, "postStart", 0);
	td_probes_begin(a, p, o, c);
}
