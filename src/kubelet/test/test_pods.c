// The pure parts of a pod: environment, files that containers cannot trick, hosts files, status,
// back-off, admission.
// rows: F1.4 D6.6
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/grant.h"
#include "base/file.h"
#include "http/pki.h"
#include "kubelet/fakegpu.h"
#include "kubelet/pods/admit.h"
#include "kubelet/pods/env.h"
#include "kubelet/pods/files.h"
#include "kubelet/pods/filters.h"
#include "kubelet/pods/hosts.h"
#include "kubelet/pods/logfile.h"
#include "kubelet/pods/pod.h"
#include "kubelet/pods/security.h"
#include "kubelet/pods/stage.h"
#include "kubelet/pods/status.h"
#include "kubelet/pods/volumes.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static struct td_json *yaml(const char *s)
{
	struct td_json_list l = {0};
	struct td_error e = TD_ERROR_INIT;
	if (td_yaml_parse(s, strlen(s), &l, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(l.n, 1);
	struct td_json *j = td_json_ref(l.v[0]);
	td_json_list_done(&l);
	return j;
}
#define JSON td_auto(td_json_unref) struct td_json *

static const char *secret_text = "metadata: {name: s, namespace: ns}\ndata: {key: aGVsbG8=, other: d29ybGQ=}\n";
static const char *map_text =
	"metadata: {name: m, namespace: ns}\ndata: {a: one, b: two, \"bad=key\": x}\nbinaryData: {c: dGhyZWU=}\n";

static struct td_object *get(void *ctx, bool secret, const char *ns, const char *name)
{
	if (strcmp(ns, "ns") || strcmp(name, secret ? "s" : "m"))
		return NULL;
	return td_object_new(yaml(secret ? secret_text : ctx ? ctx : map_text));
}

static const char *pod_text =
	"metadata: {name: p, namespace: ns, uid: u-1, labels: {app: web}, annotations: {x: \"a\\nb\"}}\n"
	"spec:\n"
	"  nodeName: n0\n"
	"  containers:\n"
	"  - name: c\n"
	"    resources: {limits: {cpu: 1500m, memory: 64Mi}, requests: {memory: 32Mi}}\n"
	"    envFrom: [{configMapRef: {name: m}, prefix: P_}]\n"
	"    env:\n"
	"    - {name: A, value: one}\n"
	"    - {name: B, value: \"$(A)-$(MISSING)-$$(A)-$(P_b)\"}\n"
	"    - {name: C, valueFrom: {secretKeyRef: {name: s, key: key}}}\n"
	"    - {name: D, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}\n"
	"    - {name: E, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}\n"
	"    - {name: F, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}\n"
	"    - {name: G, valueFrom: {configMapKeyRef: {name: none, key: k, optional: true}}}\n"
	"    - {name: H, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n"
	"    - {name: A, value: again}\n";

static void test_env(void **state)
{
	JSON pod = yaml(pod_text);
	struct td_env_src s = {
		.pod = td_json_root(pod), .host_ip = "10.1.0.1", .pod_ip = "10.1.1.2", .node = "n0", .get = get};
	td_auto_strv struct td_strv env = {0};
	struct td_error e = TD_ERROR_INIT;

	td_env_set(&env, "PATH", "/bin");

	yyjson_val *c = td_jget(td_json_root(pod), "spec.containers.[0]");
	assert_int_equal(td_env_build(&s, c, &env, &e), 0);
	const char *want[] = {"PATH=/bin", "P_a=one", "P_b=two", "P_c=three", "A=again",   "B=one-$(MISSING)-$(A)-two",
			      "C=hello",   "D=web",   "E=2",     "F=32",      "H=10.1.1.2"};

	for (size_t i = 0; i < TD_LEN(want); i++)
		if (!td_strv_has(&env, want[i]))
			fail_msg("no %s", want[i]);
	assert_int_equal(env.n, TD_LEN(want));
}

static void test_checkpoints(void **state)
{
#define VOLUME "spec: {containers: [{name: c, volumeMounts: [{name: v, mountPath: /data/}]}, {name: d}]}}"
#define SAYS(words) "{metadata: {annotations: {tandem.dev/checkpoints: '" words "'"
	static const struct {
		const char *pod, *want;
	} t[] = {
		{"{metadata: {}, " VOLUME, "x y"},
		{SAYS("/data/me") "}}, " VOLUME, "/.init --stage --to=/data/me -- x y"},
		{SAYS("/data keep=3  parts=one reshard=link signal=USR1") "}}, " VOLUME,
		 "/.init --stage --to=/data --keep=3 --parts=one --reshard=link --signal=USR1 -- x y"},
		{SAYS("/data/me") ", tandem.dev/gang-uid: u-1, tandem.dev/job-id: '17'}}, " VOLUME,
		 "/.init --stage --to=/data/me --attempt=u-1-17 -- x y"},
		{SAYS("/data/me parts=one") ", tandem.dev/gang-core: u-1, tandem.dev/job-id: '18'}}, " VOLUME,
		 "/.init --stage --to=/data/me --parts=none -- x y"},
		{SAYS("") "}}, " VOLUME, NULL},
		{SAYS("data") "}}, " VOLUME, NULL},
		{SAYS("/data/../etc") "}}, " VOLUME, NULL},
		{SAYS("/database") "}}, " VOLUME, NULL},
		{SAYS("/data keep=0") "}}, " VOLUME, NULL},
		{SAYS("/data keep=many") "}}, " VOLUME, NULL},
		{SAYS("/data --to=/etc") "}}, " VOLUME, NULL},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		JSON pod = yaml(t[i].pod);
		struct td_error e = TD_ERROR_INIT;
		td_auto_strv struct td_strv args = {0}, other = {0};
		td_strv_add(&args, "x"), td_strv_add(&args, "y"), td_strv_add(&other, "z");
		int r = td_kubelet_stage(td_json_root(pod), td_jget(td_json_root(pod), "spec.containers.[0]"), &args,
					 &e);
		assert_int_equal(r, t[i].want ? 0 : TD_INVALID);
		if (r)
			assert_non_null(strstr(e.msg, "annotation tandem.dev/checkpoints: "));
		td_auto_buf struct td_buf got = {0};
		for (size_t k = 0; k < args.n; k++)
			td_buf_printf(&got, "%s%s", k ? " " : "", args.v[k]);
		assert_string_equal(td_buf_str(&got), t[i].want ? t[i].want : "x y");
		// What runs beside it writes none.
		assert_int_equal(td_kubelet_stage(td_json_root(pod), td_jget(td_json_root(pod), "spec.containers.[1]"),
						  &other, &e),
				 0);
		assert_int_equal(other.n, 1);
	}
}

static void test_env_missing(void **state)
{
	JSON pod = yaml("metadata: {name: p, namespace: ns}\nspec: {containers: [{name: c, env: [{name: X, valueFrom: "
			"{secretKeyRef: {name: s, key: nokey}}}]}]}");
	struct td_env_src s = {.pod = td_json_root(pod), .host_ip = "", .pod_ip = "", .get = get};
	td_auto_strv struct td_strv env = {0};
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_env_build(&s, td_jget(td_json_root(pod), "spec.containers.[0]"), &env, &e), TD_NOT_FOUND);
	assert_string_equal(e.msg, "env X: couldn't find key nokey in Secret ns/s");
	char *v = NULL;
	assert_int_equal(td_env_field(&s, "spec.other", &v, &e), TD_INVALID);
	assert_int_equal(td_env_field(&s, "metadata.labels['", &v, &e), TD_INVALID);
	assert_null(v);
}

// ---- files ----

static int tmp_setup(void **state)
{
	char *dir = td_strdup("/tmp/td-agent-XXXXXX");
	assert_non_null(mkdtemp(dir));
	*state = dir;
	return 0;
}

static int tmp_teardown(void **state)
{
	td_rm_rf(*state, NULL);
	free(*state);
	return 0;
}

static void test_paths(void **state)
{
	const char *dir = *state;
	td_auto_free char *root = td_asprintf("%s/root", dir), *out = td_asprintf("%s/outside", dir),
			  *etc = td_asprintf("%s/etc", root);
	assert_int_equal(td_mkdir_p(etc, 0755, NULL), 0);
	assert_int_equal(td_file_write(out, "secret", 6, 0600, NULL), 0);
	td_auto_free char *abs = td_asprintf("%s/abs", root), *up = td_asprintf("%s/up", root),
			  *magic = td_asprintf("%s/magic", root);

	assert_int_equal(symlink(out, abs), 0);
	assert_int_equal(symlink("../outside", up), 0);
	assert_int_equal(symlink("/proc/self/root/etc/passwd", magic), 0);

	int fd = -1;
	assert_int_equal(td_kubelet_path_open_in(root, "abs", &fd, NULL), TD_NOT_FOUND);
	assert_int_equal(td_kubelet_path_open_in(root, "up", &fd, NULL), TD_NOT_FOUND);
	assert_int_equal(td_kubelet_path_open_in(root, "magic", &fd, NULL), TD_NOT_FOUND);
	assert_int_equal(td_kubelet_path_open_in(root, "../outside", &fd, NULL), TD_NOT_FOUND);
	assert_int_equal(fd, -1);

	assert_int_equal(td_kubelet_path_open_in(root, "../../etc", &fd, NULL), 0); // ".." of the root is the root
	struct stat st, want;
	assert_true(fstat(fd, &st) == 0 && stat(etc, &want) == 0 && st.st_ino == want.st_ino);
	close(fd);

	// A directory cannot be made outside either.
	td_auto_free char *link = td_asprintf("%s/link", root), *made = td_asprintf("%s/made", dir),
			  *inside = td_asprintf("%s/made/x", root);
	assert_int_equal(symlink("/made", link), 0);
	assert_int_not_equal(td_kubelet_path_mkdir_in(root, "link/x", 0755, NULL), 0); // dangling
	assert_int_equal(td_kubelet_path_mkdir_in(root, "made", 0755, NULL), 0);
	assert_int_equal(td_kubelet_path_mkdir_in(root, "link/x", 0755, NULL), 0);
	assert_true(td_path_exists(inside));
	assert_false(td_path_exists(made));
}

static char *content(const char *dir, const char *name)
{
	td_auto_free char *p = td_asprintf("%s/%s", dir, name);
	td_auto_buf struct td_buf b = {0};
	return td_file_read(p, 1 << 20, &b, NULL) ? NULL : td_buf_take(&b);
}

static void test_payload(void **state)
{
	const char *dir = *state;
	struct td_error e = TD_ERROR_INIT;
	td_auto_payload struct td_payload p = {0}, q = {0};
	assert_int_equal(td_payload_add(&p, "a", "1", 1, 0600, &e), 0);
	assert_int_equal(td_payload_add(&p, "d/b", "2", 1, 0644, &e), 0);
	const char *bad[] = {"/abs", "..", "../x", "a/../../b", "", "..data"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_int_equal(td_payload_add(&p, bad[i], "x", 1, 0644, &e), TD_INVALID);

	assert_int_equal(td_payload_write(dir, &p, -1, &e), 0);
	td_auto_free char *a = content(dir, "a"), *b = content(dir, "d/b");
	assert_string_equal(a, "1");
	assert_string_equal(b, "2");

	td_auto_free char *path = td_asprintf("%s/..data", dir), *fa = td_asprintf("%s/a", dir),
			  *fd = td_asprintf("%s/d", dir);
	struct stat st, st2, none;
	assert_int_equal(stat(fa, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	// Writing the same payload again moves nothing.
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(td_payload_write(dir, &p, -1, &e), 0);
	assert_int_equal(lstat(path, &st2), 0);
	assert_int_equal(st.st_ino, st2.st_ino);

	// Whoever wrote it may have been killed before its names, or before it took an older one away.
	td_auto_free char *older = td_asprintf("%s/..old", dir), *stale = td_asprintf("%s/gone", dir);
	assert_int_equal(unlink(fd), 0);
	assert_int_equal(mkdir(older, 0755), 0);
	assert_int_equal(symlink("..data/gone", stale), 0);
	assert_int_equal(td_payload_write(dir, &p, -1, &e), 0);
	td_auto_free char *b2 = content(dir, "d/b");
	assert_string_equal(b2, "2");
	assert_false(td_path_exists(older));
	assert_int_equal(lstat(stale, &none), -1);

	// A changed payload is one swap. Names that are gone are removed, and so is the old
	// directory.
	assert_int_equal(td_payload_add(&q, "a", "new", 3, 0644, &e), 0);
	char was[64] = "";
	assert_true(readlink(path, was, sizeof(was) - 1) > 0);
	td_auto_free char *old = td_asprintf("%s/%s", dir, was);
	assert_int_equal(td_payload_write(dir, &q, 5, &e), 0);
	td_auto_free char *a2 = content(dir, "a");
	assert_string_equal(a2, "new");
	assert_int_equal(lstat(fd, &none), -1);
	assert_int_equal(lstat(old, &none), -1);
	assert_int_equal(stat(fa, &st), 0);
	assert_int_equal(st.st_gid, 5);
}

static void test_volumes(void **state)
{
	const char *dir = *state;
	td_auto_free char *home = td_asprintf("%s/home", dir), *run = td_asprintf("%s/run", dir),
			  *pod_dir = td_asprintf("%s/volumes/pod", dir);
	JSON pod =
		yaml("metadata: {name: p, namespace: ns, labels: {x: y}}\n"
		     "spec:\n"
		     "  volumes:\n"
		     "  - {name: cm, configMap: {name: m, items: [{key: a, path: sub/a}]}}\n"
		     "  - {name: sec, secret: {secretName: s, defaultMode: 256}}\n"
		     "  - {name: opt, configMap: {name: nope, optional: true}}\n"
		     "  - {name: e, emptyDir: {}}\n"
		     "  - {name: h, hostPath: {path: /var/lib/x, type: DirectoryOrCreate}}\n"
		     "  - {name: sh, hostPath: {path: /shared/y, type: DirectoryOrCreate}}\n"
		     "  - {name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}\n");

	struct td_env_src env = {.pod = td_json_root(pod), .host_ip = "", .pod_ip = "", .node = "n1", .get = get};
	struct td_vol_src s = {.env = &env, .home = home, .run = run, .node = "n1", .dir = pod_dir, .fs_group = -1};
	struct td_error e = TD_ERROR_INIT;
	if (td_vol_ensure(&s, &e))
		fail_msg("%s", e.msg);

	td_auto_free char *a = content(pod_dir, "v/cm/sub/a"), *b = content(dir, "secrets/pod/sec/key"),
			  *d = content(pod_dir, "v/d/labels");
	assert_string_equal(a, "one");
	assert_string_equal(b, "hello");
	assert_string_equal(d, "x=\"y\"");

	td_auto_free char *x = td_asprintf("%s/nodes/n1/root/var/lib/x", home), *y = td_asprintf("%s/shared/y", home);
	assert_true(td_path_exists(x) && td_path_exists(y));

	// An emptyDir is what was asked for also where its first process was killed on the way; then it is the pod's.
	td_auto_free char *empty = td_asprintf("%s/v/e", pod_dir);
	struct stat st;
	assert_true(!stat(empty, &st) && (st.st_mode & 07777) == 0777);
	assert_int_equal(chmod(empty, 01000), 0);
	s.fs_group = 7;
	assert_int_equal(td_vol_ensure(&s, &e), 0);
	assert_true(!stat(empty, &st) && (st.st_mode & 07777) == 02777 && st.st_gid == 7);
	assert_int_equal(chmod(empty, 0700), 0);
	assert_int_equal(td_vol_ensure(&s, &e), 0);
	assert_true(!stat(empty, &st) && (st.st_mode & 07777) == 0700);
	s.fs_group = -1;

	env.ctx = "metadata: {name: m, namespace: ns}\ndata: {a: changed}\n";
	assert_int_equal(td_vol_ensure(&s, &e), 0);
	td_auto_free char *a2 = content(pod_dir, "v/cm/sub/a");
	assert_string_equal(a2, "changed");

	char *root;
	const char *rel;
	td_vol_host_path(&s, "/run/tandem", &root, &rel);
	assert_true(td_ends(root, "/run/nodes/n1") && !*rel);
	free(root);
	td_vol_host_path(&s, "/run/tandemx", &root, &rel);
	assert_true(td_ends(root, "/home/nodes/n1/root") && !strcmp(rel, "run/tandemx"));
	free(root);

	assert_int_equal(td_vol_remove(pod_dir, &e), 0);
	assert_false(td_path_exists(pod_dir));
	td_auto_free char *secrets = td_asprintf("%s/secrets", dir), *of_pod = td_asprintf("%s/pod", secrets);
	assert_true(td_path_exists(secrets) && !td_path_exists(of_pod));
	assert_int_equal(umount2(secrets, MNT_DETACH), 0); // it was a tmpfs

	JSON bad = yaml("metadata: {namespace: ns}\nspec: {volumes: [{name: v, configMap: {name: nope}}]}");
	env.pod = td_json_root(bad);
	assert_int_equal(td_vol_ensure(&s, &e), TD_NOT_FOUND);
	assert_string_equal(e.msg, "volume \"v\": configmap \"nope\" not found");
}

// Somebody turns a directory into a link that leads out, and back, as fast as possible.
struct turner {
	const char *a, *b;
	bool stop;
};

static void *turn(void *arg)
{
	struct turner *t = arg;
	while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE))
		renameat2(AT_FDCWD, t->a, AT_FDCWD, t->b, RENAME_EXCHANGE);
	return NULL;
}

static size_t entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void test_paths_that_change_meanwhile(void **state)
{
	enum { TRIES = 4000 };
	const char *dir = *state;
	td_auto_free char *home = td_asprintf("%s/home", dir), *run = td_asprintf("%s/run", dir),
			  *pod_dir = td_asprintf("%s/volumes/pod", dir), *a = td_asprintf("%s/shared/a", home),
			  *b = td_asprintf("%s/shared/b", home), *out = td_asprintf("%s/out", dir),
			  *sub = td_asprintf("%s/sub", a);

	assert_int_equal(td_mkdir_p(sub, 0755, NULL), 0);
	assert_int_equal(td_mkdir_p(out, 0755, NULL), 0);
	assert_int_equal(symlink(out, b), 0);

	struct turner t = {.a = a, .b = b};
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, turn, &t), 0);
	int made = 0;

	for (int i = 0; i < TRIES; i++) {
		td_auto_free char *text =
			td_asprintf("metadata: {name: p, namespace: ns}\n"
				    "spec: {volumes: [{name: f, hostPath: {path: /shared/a/f%d, type: FileOrCreate}}]}",
				    i);
		JSON pod = yaml(text);
		struct td_env_src env = {
			.pod = td_json_root(pod), .host_ip = "", .pod_ip = "", .node = "n1", .get = get};
		struct td_vol_src s = {
			.env = &env, .home = home, .run = run, .node = "n1", .dir = pod_dir, .fs_group = -1};
		made += !td_vol_ensure(&s, NULL);
		td_auto_free char *root = td_asprintf("%s/shared", home), *deep = td_asprintf("a/d%d/e", i);
		td_kubelet_path_mkdir_in(root, deep, 0755, NULL);
	}

	__atomic_store_n(&t.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_true(made > 0 && made < TRIES);
	assert_int_equal(entries(out), 0);
}

static void test_mounts_of_tandems_own(void **state)
{
	const char *dir = *state;
	td_auto_free char *home = td_asprintf("%s/home", dir), *run = td_asprintf("%s/run", dir),
			  *pod_dir = td_asprintf("%s/volumes/pod", dir);
	JSON pod = yaml("metadata: {name: p, namespace: ns}\n"
			"spec:\n"
			"  containers: [{name: c, volumeMounts: [{name: run, mountPath: /r}, {name: opt, mountPath: "
			"/o}, {name: other, mountPath: /x}]}]\n"
			"  volumes:\n"
			"  - {name: run, hostPath: {path: /run/tandem}}\n"
			"  - {name: opt, hostPath: {path: /opt/tandem/}}\n"
			"  - {name: other, hostPath: {path: /run/tandemx}}\n");

	struct td_env_src env = {.pod = td_json_root(pod), .host_ip = "", .pod_ip = "", .node = "n1", .get = get};
	struct td_vol_src s = {.env = &env, .home = home, .run = run, .node = "n1", .dir = pod_dir, .fs_group = -1};
	struct td_error e = TD_ERROR_INIT;
	if (td_vol_ensure(&s, &e))
		fail_msg("%s", e.msg);

	struct td_arena *arena = td_arena_new();
	struct td_oci_mount m[8];
	struct td_strv none = {0};
	struct td_mounts got = {.v = m, .max = TD_LEN(m)};
	assert_int_equal(td_vol_mounts(&s, td_jget(td_json_root(pod), "spec.containers.[0]"), &none, arena, &got, &e),
			 0);
	assert_int_equal(got.n, 3);
	assert_non_null(strstr(m[0].options, ",ro,"));
	assert_non_null(strstr(m[1].options, ",ro,"));
	assert_non_null(strstr(m[2].options, ",rw,"));
	td_arena_free(arena);
	assert_int_equal(td_vol_remove(pod_dir, &e), 0);
}

// Hands out tokens with these claims, and counts the requests.
struct giver {
	int64_t iat, exp;
	int asked;
	bool broken;
};

static int give(void *ctx, const yyjson_val *pod, const char *audience, int64_t expires_s, char **ret,
		struct td_error *err)
{
	struct giver *g = ctx;
	g->asked++;
	if (g->broken)
		return td_fail(err, TD_TRANSIENT, "the API is away");
	td_auto_free char *claims =
		td_asprintf("{\"iat\":%lld,\"exp\":%lld,\"n\":%d,\"for\":\"%s %lld\"}", (long long)g->iat,
			    (long long)g->exp, g->asked, audience ? audience : "", (long long)expires_s);
	*ret = td_jwt_sign("k", 1, claims);
	return 0;
}

static void test_tokens(void **state)
{
	const char *dir = *state;
	td_auto_free char *pod_dir = td_asprintf("%s/volumes/pod", dir);
	JSON pod = yaml("metadata: {name: p, namespace: ns}\n"
			"spec: {volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token, "
			"audience: vault, expirationSeconds: 1000}}]}}]}\n");
	struct td_env_src env = {.pod = td_json_root(pod), .host_ip = "", .pod_ip = "", .node = "n1", .get = get};
	struct giver g = {0};
	struct td_vol_src s = {.env = &env,
			       .home = dir,
			       .run = dir,
			       .node = "n1",
			       .dir = pod_dir,
			       .fs_group = -1,
			       .token = give,
			       .api_ctx = &g};
	struct td_error e = TD_ERROR_INIT;

	int64_t now = td_real_ms(&td_clock_system) / 1000;
	const struct {
		int64_t age, life;
		bool kept;
	} v[] = {{0, 1000, true},     {790, 1000, true},       {810, 1000, false},
		 {2000, 1000, false}, {80000, 31536000, true}, {86401, 31536000, false}};

	for (size_t i = 0; i < TD_LEN(v); i++) {
		g = (struct giver){.iat = now - v[i].age, .exp = now - v[i].age + v[i].life};
		assert_int_equal(td_vol_ensure(&s, &e), 0);
		td_auto_free char *first = content(dir, "secrets/pod/t/token");
		assert_int_equal(g.asked, 1);
		assert_int_equal(td_vol_ensure(&s, &e), 0);
		assert_int_equal(g.asked, v[i].kept ? 1 : 2);
		td_auto_free char *second = content(dir, "secrets/pod/t/token");
		assert_int_equal(strcmp(first, second) == 0, v[i].kept);
		// While the API is away, a pod keeps what it has.
		g.broken = true;
		assert_int_equal(td_vol_ensure(&s, &e), 0);
		td_auto_free char *third = content(dir, "secrets/pod/t/token");
		assert_string_equal(second, third);
		assert_int_equal(td_vol_remove(pod_dir, &e), 0);
	}

	assert_int_equal(td_vol_ensure(&s, &e), TD_TRANSIENT); // none yet: it has to wait
	td_auto_free char *secrets = td_asprintf("%s/secrets", dir);
	assert_int_equal(umount2(secrets, MNT_DETACH), 0);
	assert_int_equal(td_vol_remove(pod_dir, &e), 0);
}

// ---- NetworkPolicies ----

static struct td_object *object(const char *text)
{
	td_auto(td_json_unref) struct td_json *j = yaml(text);
	return td_object_kept(td_json_root(j));
}

static const struct td_filters_pod filtered[] = {{"a", NULL, 1}, {"a", NULL, 2}, {"b", NULL, 3},
						 {"b", NULL, 4}, {"c", NULL, 5}, {"a", NULL, 0}};

// What the policies allow the pod at `at` of `filtered`: "in: 1 2.6/80-90; out: -".
static void filter_is(const struct td_filters_facts *facts, size_t at, const char *want)
{
	td_auto(td_filters_rules_free) struct td_filters_rules *r = td_filters_rules_new(facts);
	td_auto_buf struct td_buf in = {0}, out = {0}, b = {0};
	struct td_net_filter f;
	td_filters_of(r, &facts->pods[at], &f, &in, &out);
	for (int way = 0; way < 2; way++) {
		const struct td_net_allow *v = way ? f.to : f.from;
		td_buf_puts(&b, way ? "; out:" : "in:");
		if (!(way ? f.out : f.in))
			td_buf_puts(&b, " open");
		for (size_t i = 0; (way ? f.out : f.in) && i < (way ? f.n_to : f.n_from); i++) {
			td_buf_printf(&b, v[i].prefix == 32 ? " %u" : " %u/%u", v[i].addr, v[i].prefix);
			if (v[i].proto)
				td_buf_printf(&b, ".%u:%u-%u", v[i].proto, v[i].port, v[i].last);
		}
	}
	assert_string_equal(td_buf_str(&b), want);
}

// A failure says that a pod of an earlier process has no filter only where the kernel has none at all.
static void test_filter_unknown(void **state)
{
	(void)state;
	assert_true(td_filters_none_there(TD_UNSUPPORTED, TD_FILTER_NONE, TD_FILTER_UNKNOWN));
	assert_false(td_filters_none_there(TD_UNSUPPORTED, 7, TD_FILTER_UNKNOWN));
	assert_false(td_filters_none_there(TD_UNSUPPORTED, TD_FILTER_NONE, 7));
	static const int other[] = {TD_INTERNAL, TD_NOT_FOUND, TD_DENIED, TD_INVALID, TD_TRANSIENT};
	for (size_t i = 0; i < TD_LEN(other); i++)
		assert_false(td_filters_none_there(other[i], TD_FILTER_NONE, TD_FILTER_UNKNOWN));
}

static void test_filters(void **state)
{
	JSON red = yaml("{color: red, tandem.dev/private-network: x}");
	JSON blue = yaml("{color: blue}");
	struct td_filters_pod pods[TD_LEN(filtered)];
	for (size_t i = 0; i < TD_LEN(filtered); i++) {
		pods[i] = filtered[i];
		pods[i].labels = td_json_root(i == 0 || i == 2 ? red : blue);
	}
	td_auto(td_object_unref) struct td_object
		*a = object("metadata: {name: a, labels: {team: one}}"),
		*b = object("metadata: {name: b, labels: {team: one}}"),
		*c = object("metadata: {name: c, labels: {team: two}}"),
		*team = object("metadata: {name: team, namespace: a}\n"
			       "spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: "
			       "{matchLabels: {team: one}}, podSelector: {matchExpressions: [{key: color, operator: "
			       "NotIn, values: "
			       "[red]}]}}]}]}"),
		*mine = object(
			"metadata: {name: mine, namespace: a}\n"
			"spec: {podSelector: {matchLabels: {color: red}}, policyTypes: [Ingress, Egress], ingress: "
			"[{from: "
			"[{podSelector: {}}], ports: [{port: 80, endPort: 90}]}], egress: [{to: [{ipBlock: {cidr: "
			"0.0.0.9/8}}, {namespaceSelector: {}}], ports: [{port: 53, protocol: UDP}]}]}"),
		*shut = object("metadata: {name: shut, namespace: c}\nspec: {podSelector: {}, policyTypes: [Ingress]}"),
		*wide = object("metadata: {name: wide, namespace: c}\n"
			       "spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{}]}");
	const struct td_object *spaces[] = {a, b, c}, *policies[] = {team, mine, shut, wide};
	struct td_filters_facts facts = {.policies = policies,
					 .n_policies = 0,
					 .namespaces = spaces,
					 .n_namespaces = 3,
					 .pods = pods,
					 .n_pods = TD_LEN(pods),
					 .node = 99};
	filter_is(&facts, 1, "in: open; out: open");
	filter_is(&facts, 0, "in: 99; out: open"); // by its label alone
	facts.n_policies = 1;
	filter_is(&facts, 1, "in: 2 4 99; out: open"); // the last one has no address
	filter_is(&facts, 2, "in: 99; out: open");     // of another namespace
	facts.n_policies = 2;
	filter_is(&facts, 1, "in: 2 4 99; out: open");
	td_auto_free char *both = td_asprintf("in: 2 4 1.6:80-90 2.6:80-90 99; out: %u/8.17:53-0 1.17:53-0 2.17:53-0 "
					      "3.17:53-0 4.17:53-0 5.17:53-0 99",
					      inet_addr("0.0.0.9"));
	filter_is(&facts, 0, both);
	facts.n_policies = 3;
	filter_is(&facts, 4, "in: 99; out: open");
	facts.n_policies = 4; // together they allow what one of them allows
	filter_is(&facts, 4, "in: 0/0 99; out: open");
}

static void test_hosts(void **state)
{
	td_auto_buf struct td_buf b = {0};
	JSON pod = yaml("metadata: {name: web-0, namespace: a}\nspec: {hostname: w0, subdomain: web}\nstatus: {podIP: "

			"10.1.1.9}");
	td_hosts_pod_line(&b, td_json_root(pod), "10.1.1.2", "a");
	td_hosts_pod_line(&b, td_json_root(pod), NULL, "b");

	JSON plain = yaml("metadata: {name: p, namespace: a}");
	td_hosts_pod_line(&b, td_json_root(plain), "10.1.1.3", "a");
	// In another namespace none of its names is known.
	td_hosts_pod_line(&b, td_json_root(plain), "10.1.1.3", "b");
	td_hosts_pod_line(&b, td_json_root(plain), NULL, "a"); // it has no address yet

	JSON svc = yaml("metadata: {name: web, namespace: a}");
	td_auto_strv struct td_strv ips = {0};
	td_strv_add(&ips, "10.1.1.2");
	td_hosts_service_lines(&b, td_json_root(svc), &ips, "a");
	assert_string_equal(td_buf_str(&b),
			    "10.1.1.2 w0.web.a.svc.cluster.local w0.web.a.svc w0.web.a w0.web web-0 w0\n"
			    "10.1.1.9 w0.web.a.svc.cluster.local w0.web.a.svc w0.web.a\n"
			    "10.1.1.3 p\n"
			    "10.1.1.2 web.a.svc.cluster.local web.a.svc web.a web\n");

	// The file is written in place: the inode stays, and a shorter text leaves only empty
	// lines.
	const char *dir = *state;
	td_auto_free char *path = td_asprintf("%s/hosts", dir);
	struct stat st, st2;
	assert_int_equal(td_hosts_write(path, "1 one\n2 two\n", 12, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(td_hosts_write(path, "3 x\n", 4, NULL), 0);
	assert_int_equal(stat(path, &st2), 0);
	assert_int_equal(st.st_ino, st2.st_ino);
	td_auto_free char *text = content(dir, "hosts");
	assert_string_equal(text, "3 x\n\n\n\n\n\n\n\n\n");
}

// ---- status ----

static struct td_pod *make_pod(const yyjson_val *root)
{
	struct td_kubelet a = {.o = {.gpus = 8, .id = "abcdef"}};
	td_auto(td_json_unref) struct td_json *j = td_json_from_val(root);
	td_auto(td_object_unref) struct td_object *o = td_object_new(td_json_ref(j));
	struct td_pod *p = NULL;
	struct td_error e = TD_ERROR_INIT;
	if (td_pod_from_object(&a, o, 0, &p, &e))
		fail_msg("%s", e.msg);
	p->admitted = true;
	return p;
}

static void ends(struct td_ctr *c, int code)
{
	c->state = TD_CTR_TERMINATED;
	c->attempt = c->attempt < 0 ? 0 : c->attempt;
	c->end.valid = true;
	c->end.exit_code = code;
	c->wanted = false;
}

static void runs(struct td_ctr *c)
{
	c->state = TD_CTR_RUNNING;
	c->attempt = c->attempt < 0 ? 0 : c->attempt;
	c->wanted = c->probe_started = c->probe_ready = true;
	c->started_ms = 1000;
}

// The network of a pod that never began a container may be a name only: it is made again.
static void test_restore(void **state)
{
	static const char *const pods[] = {"none", "begun"};
	td_auto_free char *run = td_asprintf("%s/runc", (char *)*state), *dirs = td_asprintf("%s/pods", (char *)*state),
			  *kept = td_asprintf("%s/agent/pods", (char *)*state);
	char id[8];
	snprintf(id, sizeof(id), "u%05x", (unsigned)getpid() & 0xfffff);
	td_auto_free char *cgroup = td_asprintf("/tandem-%s", id);
	struct td_error e = TD_ERROR_INIT;
	struct td_kubelet a = {.o = {.home = *state, .id = id, .nodes = 1, .cidr = "10.9.0.1/16"},
			       .table = td_pod_table_new()};
	td_auto(td_oci_free) struct td_oci *oci = NULL;
	if (td_oci_new(&(struct td_oci_opts){.state_dir = run, .pods_dir = dirs, .cgroup = cgroup}, &oci, &e))
		fail_msg("%s", e.msg);
	a.oci = oci;
	assert_int_equal(td_mkdir_p("/run/netns", 0755, &e), 0);
	assert_int_equal(td_mkdir_p(kept, 0700, &e), 0);
	for (size_t i = 0; i < TD_LEN(pods); i++) {
		struct td_ctr c = {.name = "c", .kind = TD_CTR_MAIN, .attempt = (int)i - 1};
		struct td_pod p = {.uid = (char *)pods[i], .ns = "ns", .name = "p", .ctr = &c, .n_ctr = 1};
		td_auto_free char *net = td_pod_netns(&a, &p), *path = td_asprintf("/run/netns/%s", net);
		assert_int_equal(td_pod_record_save(&a, &p, &e), 0);
		assert_int_equal(td_file_write(path, "", 0, 0600, &e), 0);
	}
	if (td_pods_restore(&a, &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < TD_LEN(pods); i++) {
		td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a.table, pods[i]);
		td_auto_free char *net = td_pod_netns(&a, p);
		assert_int_equal(p->net_up, i);
		assert_int_equal(td_net_pod_delete(net, &e), 0);
	}
	td_pod_table_free(a.table);
}

static void test_phase(void **state)
{
	JSON never = yaml("metadata: {name: p, namespace: ns, uid: u}\nspec: {restartPolicy: Never, containers: "
			  "[{name: a}, {name: b}], initContainers: [{name: i}, {name: s, restartPolicy: Always}]}");
	const yyjson_val *r = td_json_root(never);
	td_auto(td_pod_unref) struct td_pod *p = make_pod(r);

	assert_string_equal(td_kubelet_status_outcome(p, r), "Pending");
	assert_false(td_kubelet_status_initialized(p));
	ends(&p->ctr[0], 0);
	runs(&p->ctr[1]);
	assert_true(td_kubelet_status_initialized(p));
	assert_string_equal(td_kubelet_status_outcome(p, r), "Pending");

	runs(&p->ctr[2]);
	runs(&p->ctr[3]);
	assert_string_equal(td_kubelet_status_outcome(p, r), "Running");

	ends(&p->ctr[2], 0);
	assert_string_equal(td_kubelet_status_outcome(p, r), "Running");

	ends(&p->ctr[3], 0);
	assert_string_equal(td_kubelet_status_outcome(p, r), "Succeeded"); // the sidecar does not count

	ends(&p->ctr[3], 3);
	assert_string_equal(td_kubelet_status_outcome(p, r), "Failed");
	assert_false(td_kubelet_status_restarts(p, &p->ctr[3], r));
	assert_true(td_kubelet_status_restarts(p, &p->ctr[1], r) == false);

	ends(&p->ctr[1], 0);
	assert_true(td_kubelet_status_restarts(p, &p->ctr[1], r)); // sidecars always

	JSON always = yaml("metadata: {name: p, namespace: ns, uid: u}\nspec: {containers: [{name: a}]}");
	const yyjson_val *r2 = td_json_root(always);
	td_auto(td_pod_unref) struct td_pod *q = make_pod(r2);
	ends(&q->ctr[0], 1);
	assert_string_equal(td_kubelet_status_phase(q, r2), "Running");
	q->stopping = true;
	assert_string_equal(td_kubelet_status_phase(q, r2), "Failed");

	JSON init = yaml("metadata: {name: p, namespace: ns, uid: u}\nspec: {restartPolicy: Never, initContainers: "
			 "[{name: i}], containers: [{name: a}]}");
	td_auto(td_pod_unref) struct td_pod *f = make_pod(td_json_root(init));
	ends(&f->ctr[0], 1);
	assert_string_equal(td_kubelet_status_phase(f, td_json_root(init)), "Failed");
}

static const yyjson_val *cond(const yyjson_val *st, const char *type)
{
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(st, "conditions"), i, n, v) {
		if (td_streq(td_jstr(v, "type"), type))
			return v;
	}
	return NULL;
}

static void test_status(void **state)
{
	JSON pod =
		yaml("metadata: {name: p, namespace: ns, uid: u}\nspec: {containers: [{name: a, image: debian:13}]}");
	const yyjson_val *r = td_json_root(pod);

	td_auto(td_pod_unref) struct td_pod *p = make_pod(r);
	strcpy(p->ip, "10.1.1.2");
	p->start_ms = 1000;

	JSON s1 = td_kubelet_status_build(p, r, "10.1.0.1", 5000);
	const yyjson_val *v = td_json_root(s1);
	assert_string_equal(td_jstr(v, "phase"), "Pending");
	assert_string_equal(td_jstr(v, "containerStatuses.[0].state.waiting.reason"), "ContainerCreating");
	assert_string_equal(td_jstr(cond(v, "Ready"), "status"), "False");
	assert_string_equal(td_jstr(cond(v, "Ready"), "message"), "containers with unready status: [a]");
	assert_string_equal(td_jstr(v, "podIP"), "10.1.1.2");

	runs(&p->ctr[0]);
	JSON s2 = td_kubelet_status_build(p, r, "10.1.0.1", 7000);
	v = td_json_root(s2);
	assert_string_equal(td_jstr(v, "phase"), "Running");
	assert_string_equal(td_jstr(cond(v, "Ready"), "status"), "True");
	assert_string_equal(td_jstr(cond(v, "Ready"), "lastTransitionTime"), "1970-01-01T00:00:07Z");
	assert_string_equal(td_jstr(cond(v, "PodScheduled"), "lastTransitionTime"), "1970-01-01T00:00:05Z");

	// The same state later gives the same document, so nothing would be written.
	JSON s3 = td_kubelet_status_build(p, r, "10.1.0.1", 9000);
	assert_true(td_jequal(td_json_root(s2), td_json_root(s3)));
	assert_null(td_jget(td_json_root(s3), "observedGeneration"));

	// A newer generation gives another document.
	JSON newer = yaml("metadata: {name: p, namespace: ns, uid: u, generation: 2}\nspec: {containers: [{name: a, "
			  "image: debian:13}]}");
	JSON s5 = td_kubelet_status_build(p, td_json_root(newer), "10.1.0.1", 9000);
	assert_int_equal(td_jint(td_json_root(s5), "observedGeneration", 0), 2);
	assert_int_equal(td_jint(cond(td_json_root(s5), "Ready"), "observedGeneration", 0), 2);
	assert_int_equal(td_jint(cond(td_json_root(s5), "PodScheduled"), "observedGeneration", 0), 2);
	assert_false(td_kubelet_status_shown(td_json_root(s5), td_json_root(s3)));
	assert_true(td_kubelet_status_shown(td_json_root(s2), td_json_root(s3)));
	assert_false(td_kubelet_status_shown(td_json_root(s1), td_json_root(s3)));

	// It was ended by a signal and waits to run again: the end is its last state.
	ends(&p->ctr[0], 137);
	p->ctr[0].end.signal = 9;
	p->ctr[0].end.reason = td_strdup("OOMKilled");
	p->ctr[0].wait_reason = td_strdup("CrashLoopBackOff");
	p->ctr[0].attempt = 3;
	JSON s4 = td_kubelet_status_build(p, r, "10.1.0.1", 9000);
	v = td_json_root(s4);
	assert_string_equal(td_jstr(v, "containerStatuses.[0].state.waiting.reason"), "CrashLoopBackOff");
	assert_string_equal(td_jstr(v, "containerStatuses.[0].lastState.terminated.reason"), "OOMKilled");
	assert_int_equal(td_jint(v, "containerStatuses.[0].lastState.terminated.signal", 0), 9);
	assert_int_equal(td_jint(v, "containerStatuses.[0].restartCount", 0), 3);
	assert_false(td_jbool(v, "containerStatuses.[0].ready", true));
}

// As kubelets say it: where there are init containers, every container that has not started waits
// for the pod's initialization, the init containers too.
static void test_waiting(void **state)
{
	JSON pod = yaml("metadata: {name: p, namespace: ns, uid: u}\nspec: {initContainers: [{name: i, image: x}, "
			"{name: j, image: x}], containers: [{name: a, image: x}]}");
	td_auto(td_pod_unref) struct td_pod *p = make_pod(td_json_root(pod));
	JSON s = td_kubelet_status_build(p, td_json_root(pod), "10.1.0.1", 5000);
	static const char *const paths[] = {"initContainerStatuses.[0]", "initContainerStatuses.[1]",
					    "containerStatuses.[0]"};
	for (size_t i = 0; i < TD_LEN(paths); i++)
		assert_string_equal(td_jstr(td_jget(td_json_root(s), paths[i]), "state.waiting.reason"),
				    "PodInitializing");
}

static void test_qos(void **state)
{
	JSON best = yaml("spec: {containers: [{name: a}]}");
	JSON burst = yaml("spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}");
	JSON guar = yaml("spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}");
	assert_string_equal(td_kubelet_status_qos(td_json_root(best)), "BestEffort");
	assert_string_equal(td_kubelet_status_qos(td_json_root(burst)), "Burstable");
	assert_string_equal(td_kubelet_status_qos(td_json_root(guar)), "Guaranteed");
}

static void test_backoff(void **state)
{
	int64_t b = 0, now = 1000000;
	int64_t want[] = {0, 10000, 20000, 40000, 80000, 160000, 300000, 300000};
	for (size_t i = 0; i < TD_LEN(want); i++) {
		assert_int_equal(td_backoff_wait(&b, now - 1000, now, now), want[i]);
		td_backoff_next(&b);
	}
	// The clock went back.
	assert_int_equal(td_backoff_wait(&b, now - 1000, now, now - 5000000), 300000);
	assert_int_equal(td_backoff_wait(&b, now - 1000, now, now + 300000), 0);
	// It ran well for ten minutes.
	assert_int_equal(td_backoff_wait(&b, now - 600000, now, now), 0);
	assert_int_equal(b, 0);
}

static void test_admit(void **state)
{
	JSON node = yaml("metadata: {annotations: {tandem.dev/slurm-share: "
			 "'{\"cpu\":\"12\",\"memory\":\"8Gi\",\"nvidia.com/gpu\":\"8\"}'}}");
	struct td_pod_admit x = {.cpu_milli = 16000, .memory = 16ll << 30, .pods = 3, .want_cpu_milli = 4000};
	char *msg = NULL;
	assert_null(td_pod_admit(&x, td_json_root(node), &msg));

	x.used_cpu_milli = 1;
	assert_string_equal(td_pod_admit(&x, td_json_root(node), &msg), "OutOfcpu");
	assert_non_null(strstr(msg, "beside Slurm's share: 4000"));
	free(msg);

	assert_false(td_pod_awaits_shadow(&x, td_json_root(node)));

	// Of Slurm's share shadows hold 2 CPUs: those are the others'.
	JSON shadow = yaml("metadata: {annotations: {tandem.dev/slurm-share: '{\"cpu\":\"12\",\"memory\":\"8Gi\"}', "
			   "tandem.dev/slurm-shadow: '{\"cpu\":\"2\",\"memory\":\"64Mi\"}'}}");
	x.used_cpu_milli = 2000;
	assert_null(td_pod_admit(&x, td_json_root(shadow), &msg));
	x.used_cpu_milli = 2001;
	assert_string_equal(td_pod_admit(&x, td_json_root(shadow), &msg), "OutOfcpu");
	free(msg);
	assert_true(td_pod_awaits_shadow(&x, td_json_root(shadow)));
	x.used_cpu_milli = 12001; // never
	assert_false(td_pod_awaits_shadow(&x, td_json_root(shadow)));
	x.used_cpu_milli = 1;

	x.granted = true;
	assert_null(td_pod_admit(&x, td_json_root(node), &msg));

	x.want_memory = 17ll << 30;
	assert_string_equal(td_pod_admit(&x, NULL, &msg), "OutOfmemory");
	free(msg);
	x.used_pods = 3;
	assert_string_equal(td_pod_admit(&x, NULL, &msg), "OutOfpods");
	free(msg);

	assert_int_equal(td_kubelet_slurm_gpus(td_json_root(node), "nvidia.com/gpu"), 8);
}

static void test_ident(void **state)
{
	const char *dir = *state;
	td_auto_free char *etc = td_asprintf("%s/etc", dir), *pw = td_asprintf("%s/etc/passwd", dir);

	td_mkdir_p(etc, 0755, NULL);
	const char *text = "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n";
	td_file_write(pw, text, strlen(text), 0644, NULL);
	td_auto_free char *gr = td_asprintf("%s/etc/group", dir);
	const char *groups = "root:x:0:\nstaff:x:50:mail,web\nother:x:51:webber\n";
	td_file_write(gr, groups, strlen(groups), 0644, NULL);

	JSON pod = yaml("spec: {securityContext: {fsGroup: 7, supplementalGroups: [8]}}");
	JSON ctr = yaml("securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: "
			"[SYS_ADMIN, CAP_NET_ADMIN]}}");
	td_auto_ident struct td_ident id = {0};
	struct td_error e = TD_ERROR_INIT;

	assert_int_equal(td_ident_build(td_json_root(pod), td_json_root(ctr), dir, "web", &id, &e), 0);
	assert_true(id.uid == 33 && id.gid == 34 && id.n_groups == 4 && id.groups[0] == 34 && id.groups[2] == 8 &&
		    id.groups[3] == 50);
	assert_true(id.no_new_privileges && id.sys_admin && !id.seccomp);

	JSON strict = yaml(
		"spec: {securityContext: {supplementalGroupsPolicy: Strict, seccompProfile: {type: RuntimeDefault}}}");
	td_auto_ident struct td_ident few = {0};
	assert_int_equal(td_ident_build(td_json_root(strict), NULL, dir, "web", &few, &e), 0);
	assert_true(few.n_groups == 1 && few.groups[0] == 34 && few.seccomp);
	assert_int_equal(id.caps.n, 2);
	assert_true(!id.umask && !few.umask);

	JSON shared = yaml("metadata: {annotations: {tandem.dev/umask: '0002'}}");
	td_auto_ident struct td_ident with = {0};
	assert_int_equal(td_ident_build(td_json_root(shared), NULL, dir, "web", &with, &e), 0);
	assert_int_equal(with.umask, 2);

	JSON root = yaml("securityContext: {runAsNonRoot: true}");
	assert_int_equal(td_ident_build(td_json_root(pod), td_json_root(root), dir, "", &id, &e), TD_INVALID);
	assert_int_equal(td_ident_build(td_json_root(pod), NULL, dir, "nobody", &id, &e), TD_INVALID);
	JSON cap = yaml("securityContext: {capabilities: {add: [NO_SUCH]}}");
	assert_int_equal(td_ident_build(td_json_root(pod), td_json_root(cap), dir, "", &id, &e), TD_INVALID);

	td_auto_ident struct td_ident def = {0};
	assert_int_equal(td_ident_build(td_json_root(pod), NULL, dir, "", &def, &e), 0);
	assert_int_equal(def.caps.n, 14);
	assert_false(def.sys_admin || def.no_new_privileges);
}

static void test_log_tail(void **state)
{
	td_auto_free char *path = td_asprintf("%s/log", (char *)*state);
	td_auto_close int fd = open(path, O_RDWR | O_CREAT, 0600);
	const char *text = "one\ntwo\nthree\nfour"; // the last line is not finished

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	int64_t n = (int64_t)strlen(text);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n, -1), 0);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n, 0), n);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n, 1), 14);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n, 2), 8);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n, 9), 0);

	assert_int_equal(write(fd, "\n", 1), 1);
	assert_int_equal(td_kubelet_log_tail_offset(fd, n + 1, 1), 14);
}

static void put(const char *path, int flags, const char *text)
{
	td_auto_close int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

#define ST "2026-11-21T10:00:00.000000000Z stdout "
static void test_log_file(void **state)
{
	td_auto_free char *path = td_asprintf("%s/c.log", (char *)*state), *old = td_asprintf("%s.1", path);
	struct td_logfile f;
	char b[4096];

	assert_int_equal(td_logfile_open(path, &f, NULL), TD_NOT_FOUND);
	put(old, O_TRUNC, "");
	put(path, O_TRUNC, ST "F one\n" ST "P tw");
	assert_int_equal(td_logfile_open(path, &f, NULL), 0);
	ssize_t n = td_logfile_read(&f, b, sizeof(b), NULL);
	assert_int_equal(n, strlen(ST "F one\n" ST "P tw"));
	assert_int_equal(td_logfile_read(&f, b, sizeof(b), NULL), 0);

	// Rotated once: the rest of the newer file is read from the older one, then the newer one
	// from its beginning.
	td_cancel_wait(NULL, 20); // the file system's clock tells rotations apart
	put(old, O_TRUNC, ST "F one\n" ST "P two\n" ST "F three\n");
	put(path, O_TRUNC, ST "F four\n");
	n = td_logfile_read(&f, b, sizeof(b), NULL);
	assert_int_equal(n, strlen("o\n" ST "F three\n"));
	n = td_logfile_read(&f, b, sizeof(b), NULL);
	assert_int_equal(n, strlen(ST "F four\n"));
	assert_int_equal(td_logfile_read(&f, b, sizeof(b), NULL), 0);
	assert_false(f.lost);

	// Rotated twice between two looks: the rest is gone, and reading goes on with a whole line.
	td_cancel_wait(NULL, 20);
	put(old, O_TRUNC, ST "F somewhat longer lines five\n" ST "F six\n");
	put(path, O_TRUNC, ST "F seven\n");
	n = td_logfile_read(&f, b, sizeof(b), NULL);
	assert_true(f.lost && n == (ssize_t)strlen(ST "F somewhat longer lines five\n" ST "F six\n"));
	assert_int_equal(td_logfile_read(&f, b, sizeof(b), NULL), strlen(ST "F seven\n"));

	put(old, O_TRUNC, ST "F one\n" ST "P two\n" ST "F three\n");
	put(path, O_TRUNC, ST "F four\n");
	td_logfile_tail(&f, 2); // one of each file
	assert_true(f.in_old && td_logfile_read(&f, b, sizeof(b), NULL) == (ssize_t)strlen(ST "F three\n"));
	td_logfile_close(&f);

	td_auto_free char *last = td_logfile_last(path, 10);
	assert_string_equal(last, "hree\nfour\n");

	struct td_logline l;
	assert_true(td_logline_parse(ST "P a b", strlen(ST "P a b"), &l) && l.part && !l.err && l.len == 3 &&
		    l.stamp_len == 30);
	assert_true(td_logline_parse(ST "F ", strlen(ST "F "), &l) && !l.len && !l.part);
	assert_false(td_logline_parse("exec /.init: gone", 17, &l));
	assert_int_equal(l.len, 17);
}

static void test_fake_gpus(void **state)
{
	struct td_oci_device dev[TD_DEV_MAX];
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	assert_int_equal(td_fakegpu_nodes(NULL, 0x12, 2, 240, a, dev), 2);
	assert_string_equal(dev[1].path, "/dev/tandem-gpu4");
	assert_int_equal(dev[1].minor, 2 * 64 + 4);

	// Of another vendor: its files, and the one that all share, which no other node's device is.
	struct td_accel_found f = {.of = td_accel_named("amd"), .n = 4};
	for (int i = 0; i < f.n; i++)
		f.v[i] = (struct td_accel){.files = {td_arena_printf(a, "/dev/dri/renderD%d", 128 + i)}, .n_files = 1};
	td_strv_add(&f.shared, "/dev/kfd");
	assert_int_equal(td_fakegpu_nodes(&f, 0x12, 2, 240, a, dev), 2); // there is no fifth
	assert_string_equal(dev[0].path, "/dev/dri/renderD129");
	assert_string_equal(dev[1].path, "/dev/kfd");
	assert_true(dev[0].minor == 2 * 64 + 1 && dev[1].minor == 64 * 64);
	assert_int_equal(td_fakegpu_nodes(&f, 0, 2, 240, a, dev), 0); // nor the shared one
	td_auto_strv struct td_strv env = {0};
	td_fakegpu_env(&f, 0xc, &env);
	assert_true(env.n == 2 && td_strv_has(&env, "ROCR_VISIBLE_DEVICES=0,1") &&
		    td_strv_has(&env, "HIP_VISIBLE_DEVICES=0,1"));
	td_strv_done(&f.shared);
}

// Parts of a GPU (MIG): each has its GPU's file and two of its own.
static void test_parts_of_gpus(void **state)
{
	static struct td_checkup_facts f = {.gpus = 2};
	static struct td_mig m = {.n = 2, .cut = 2};
	struct td_oci_device dev[TD_FAKEGPU_NODES];
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	for (int i = 0; i < 2; i++) {
		f.gpu[i].minor = i;
		snprintf(f.gpu[i].uuid, sizeof(f.gpu[i].uuid), "GPU-%d", i);
		m.v[i] = (struct td_mig_part){.gpu = 1, .instance = i + 1, .caps = {3 + 2 * i, 4 + 2 * i}};
		snprintf(m.v[i].uuid, sizeof(m.v[i].uuid), "MIG-%d", i);
		snprintf(m.v[i].profile, sizeof(m.v[i].profile), "1g.10gb");
	}
	td_mig_apply(&m, &f);
	assert_int_equal(f.gpus, 3);
	assert_int_equal(td_fakegpu_parts(&f, 4, 2, 240, a, dev), 3);
	assert_string_equal(dev[0].path, "/dev/nvidia1");
	assert_string_equal(dev[1].path, "/dev/nvidia-caps/nvidia-cap5");
	assert_string_equal(dev[2].path, "/dev/nvidia-caps/nvidia-cap6");
	const int both = dev[0].minor, own = dev[1].minor;
	assert_int_equal(td_fakegpu_parts(&f, 2, 2, 240, a, dev), 3);
	assert_true(dev[0].minor == both && dev[1].minor != own && dev[0].minor != 2 * 64);
	assert_int_equal(td_fakegpu_parts(&f, 7, 2, 240, a, dev), 6); // the GPU's file once
	assert_int_equal(td_fakegpu_parts(&f, 0, 2, 240, a, dev), 0);
	td_auto_strv struct td_strv env = {0};
	td_fakegpu_parts_env(&f, 5, &env);
	assert_true(td_strv_has(&env, "CUDA_VISIBLE_DEVICES=GPU-0,MIG-1") &&
		    td_strv_has(&env, "NVIDIA_VISIBLE_DEVICES=GPU-0,MIG-1"));

	JSON pod =
		yaml("containers: [{name: a, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}, {name: b, resources: "
		     "{limits: {nvidia.com/mig-1g.10gb: 1}}}]");
	assert_int_equal(td_api_grant_part(6, td_json_root(pod), "a", "nvidia.com/gpu"), 2);
	assert_int_equal(td_api_grant_part(6, td_json_root(pod), "b", "nvidia.com/gpu"), 4);
	assert_int_equal(td_api_grant_part(6, td_json_root(pod), "b", "amd.com/gpu"), 0);
}

#define ASKS(name, n, more) "{name: " name ", resources: {limits: {nvidia.com/gpu: " n "}}" more "}"

static void test_each_container_gets_its_own_devices(void **state)
{
	JSON pod = yaml("initContainers: [" ASKS("before", "\"1\"", "") ", " ASKS(
		"side", "1",
		", restartPolicy: Always") ", " ASKS("after", "2",
						     "") "]\n"
							 "containers: [" ASKS("a", "2", "") ", {name: none}, " ASKS(
								 "b", "1", "") "]");
	static const struct {
		const char *name;
		uint64_t mask;
	} want[] = {{"before", 0x02}, {"side", 0x02}, {"after", 0x14}, {"a", 0x14}, {"none", 0}, {"b", 0x80}, {"x", 0}};
	for (size_t i = 0; i < TD_LEN(want); i++)
		assert_int_equal(td_api_grant_part(0x96, td_json_root(pod), want[i].name, "nvidia.com/gpu"),
				 want[i].mask);
	assert_int_equal(td_api_grant_part(0x16, td_json_root(pod), "b", "nvidia.com/gpu"),
			 0); // never more than there are

	td_auto_strv struct td_strv env = {0}, plain = {0};
	td_env_set(&env, "NVIDIA_VISIBLE_DEVICES", "all"); // as images of CUDA have it
	td_fakegpu_env(NULL, 0x14, &env);
	assert_true(td_strv_has(&env, "CUDA_VISIBLE_DEVICES=0,1") && td_strv_has(&env, "NVIDIA_VISIBLE_DEVICES=2,4"));
	td_fakegpu_env(NULL, 0, &plain);
	assert_int_equal(plain.n, 0);
	td_env_set(&plain, "NVIDIA_VISIBLE_DEVICES", "all");
	td_fakegpu_env(NULL, 0, &plain);
	assert_true(plain.n == 1 && td_strv_has(&plain, "NVIDIA_VISIBLE_DEVICES=void"));
}

static void test_grant(void **state)
{
	struct td_gate_grant g;
	struct td_error e = TD_ERROR_INIT;
	JSON ok = yaml("metadata: {annotations: {tandem.dev/job-id: \"17\", tandem.dev/job-start: \"100\", "
		       "tandem.dev/devices: '{\"nvidia.com/gpu\":\"0-1\"}'}}");
	assert_int_equal(td_gate_grant_read(td_json_root(ok), 8, &g, &e), 0);
	assert_true(g.granted && g.job == 17 && g.start == 100 && g.devices == 3 && !g.all);
	JSON nic = yaml("metadata: {annotations: {tandem.dev/devices: "
			"'{\"nvidia.com/gpu\":\"1\",\"tandem.dev/nic\":\"0,9\"}'}}");
	assert_int_equal(td_gate_grant_read(td_json_root(nic), 8, &g, &e), 0);
	assert_int_equal(g.devices, 2); // an adapter is no GPU
	JSON amd = yaml("metadata: {annotations: {tandem.dev/devices: '{\"amd.com/gpu\":\"2,5\"}'}}");
	assert_int_equal(td_gate_grant_read(td_json_root(amd), 8, &g, &e), 0);
	assert_int_equal(g.devices, 0x24); // an index means one device, whatever it is called
	JSON none = yaml("metadata: {name: x}");
	assert_int_equal(td_gate_grant_read(td_json_root(none), 8, &g, &e), 0);
	assert_true(!g.granted && !g.devices);
	JSON bad = yaml("metadata: {annotations: {tandem.dev/devices: '{\"nvidia.com/gpu\":\"0-8\"}'}}");
	assert_int_equal(td_gate_grant_read(td_json_root(bad), 8, &g, &e), TD_INVALID);
	JSON junk = yaml("metadata: {annotations: {tandem.dev/job-id: x}}");
	assert_int_equal(td_gate_grant_read(td_json_root(junk), 8, &g, &e), TD_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_env_missing),
		cmocka_unit_test_setup_teardown(test_paths, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_payload, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_volumes, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_paths_that_change_meanwhile, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_mounts_of_tandems_own, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_tokens, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_hosts, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_restore, tmp_setup, tmp_teardown),
		cmocka_unit_test(test_phase),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_qos),
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_admit),
		cmocka_unit_test_setup_teardown(test_ident, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_log_tail, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(test_log_file, tmp_setup, tmp_teardown),
		cmocka_unit_test(test_fake_gpus),
		cmocka_unit_test(test_parts_of_gpus),
		cmocka_unit_test(test_each_container_gets_its_own_devices),
		cmocka_unit_test(test_checkpoints),
		cmocka_unit_test(test_filter_unknown),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_grant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
