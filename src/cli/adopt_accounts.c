// tandem adopt accounts: the old slurmdbd's accounts, users, limits, shares and QOS in the pool's (docs/adopt.md).
//
// slurm/books.h says what is missing. It is given to the pool's sacctmgr, and then the books are read again: what is
// still missing was refused. So the same command goes on where it was interrupted.
#include "cli/adopt.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/names.h"
#include "base/proc.h"
#include "cli/loginpod.h"
#include "pool/tenant.h"
#include "slurm/books.h"
#include "slurm/conf_line.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const struct td_embedded td_cli_files[];

enum { NAMES_PER_CALL = 200, TRIES = 5, LOOK_MS = 1000, KNOWN_MS = 180000, GETENT_MS = 60000, SAID_MAX = 4000 };

void td_cli_adopt_say(const char *title, const struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		fprintf(stderr, "%s%s  %s\n", i ? "" : title, i ? "" : "\n", l->v[i]);
}

// ---- the old slurmdbd ----

static int cluster_of(const char *conf, char **ret, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	td_auto_lines struct td_slurm_lines l = {0};
	int r = td_file_read(conf, TD_JSON_MAX, &text, err);
	if (r)
		return r;
	td_slurm_lines_read(td_buf_str(&text), &l);
	for (size_t i = 0; i < l.n; i++)
		for (size_t k = 0; k < l.v[i].n; k++)
			if (!strcasecmp(l.v[i].v[k].key, "ClusterName")) {
				free(*ret);
				*ret = td_strdup(l.v[i].v[k].value);
			}
	return *ret ? 0 : td_fail(err, TD_INVALID, "%s has no ClusterName: give the dump's file instead", conf);
}

// Asks the old Slurm's own sacctmgr.
static int ask_old(const struct td_cli_adopt *a, struct td_books *ret, struct td_error *err)
{
	char path[] = "/tmp/tandem-adopt-XXXXXX";
	td_auto_free char *cluster = NULL;
	td_auto_buf struct td_buf said = {0}, dump = {0}, qos = {0};
	int r = cluster_of(a->conf, &cluster, err);
	if (r)
		return r;
	td_auto_close int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return td_fail(err, TD_INTERNAL, "%s: cannot be made", path);
	td_auto_free char *file = td_asprintf("file=%s", path);
	char *const argv[] = {"sacctmgr", "-Q", "dump", cluster, file, NULL};
	char *const show[] = {"sacctmgr", "-P", "show", "qos", "format=" TD_BOOKS_QOS_FORMAT, NULL};
	if (!(r = td_cli_adopt_old(a, argv, &said, err)) && !(r = td_file_read(path, TD_BOOKS_MAX, &dump, err)))
		r = td_cli_adopt_old(a, show, &qos, err);
	unlink(path);
	if (!r)
		r = td_books_read("sacctmgr dump", td_buf_str(&dump), ret, err);
	return r ? r : td_books_read_qos("sacctmgr show qos", td_buf_str(&qos), ret, err);
}

static int read_old(const struct td_cli_adopt *a, const char *file, struct td_books *ret, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0}, qos = {0};
	int r;
	if (!file)
		return ask_old(a, ret, err);
	if ((r = td_file_read(!strcmp(file, "-") ? "/dev/stdin" : file, TD_BOOKS_MAX, &text, err)) ||
	    (r = td_books_read(file, td_buf_str(&text), ret, err)))
		return r;
	if (!a->qos) {
		td_strv_addf(&ret->left,
			     "QOS: a dump has none; with --qos FILE: sacctmgr -P show qos format=" TD_BOOKS_QOS_FORMAT);
		return 0;
	}
	r = td_file_read(a->qos, TD_BOOKS_MAX, &qos, err);
	return r ? r : td_books_read_qos(a->qos, td_buf_str(&qos), ret, err);
}

// ---- people ----

// Appends the lines of passwd(5) of who is in the books.
static int passwd_of(const struct td_cli_adopt *a, const struct td_books *b, struct td_buf *ret, struct td_error *err)
{
	if (strcmp(a->people, "getent") != 0)
		return td_file_read(a->people, TD_BOOKS_MAX, ret, err);
	for (size_t at = 0; at < b->n;) {
		char *argv[NAMES_PER_CALL + 3] = {"getent", "passwd"};
		size_t n = 2;
		int status;
		for (; at < b->n && n < NAMES_PER_CALL + 2; at++)
			if (b->v[at].kind == TD_BOOKS_PERSON)
				argv[n++] = b->v[at].name;
		// 2: it does not know all of them.
		int r = n > 2 ? td_run(argv, NULL, GETENT_MS, NULL, &status, ret, err) : 0;
		if (r || (n > 2 && status && status != 2))
			return r ? r : td_fail(err, TD_TRANSIENT, "getent passwd failed: %.200s", td_buf_str(ret));
	}
	return 0;
}

static void users_of(const struct td_cli_adopt *a, const struct td_books *b, const char *passwd, const yyjson_val *has,
		     struct td_json **ret, struct td_strv *left)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "users");
	if (a->people)
		td_books_people(b, passwd, has, d, list, left);
	*ret = td_json_from_mut(yyjson_mut_doc_get_root(d));
}

// A dump has no uids.
static void tell_unknown(const struct td_books *b, const yyjson_val *has)
{
	size_t n = 0;
	const char *first = NULL;
	for (size_t i = 0; i < b->n; i++)
		if (b->v[i].kind == TD_BOOKS_PERSON && strcmp(b->v[i].name, "root") != 0 &&
		    !(has && td_jfind(has, "name", b->v[i].name)) && !n++)
			first = b->v[i].name;
	if (n)
		fprintf(stderr,
			"%zu people are not in spec.users (%s%s), and a dump has no uids: give --people getent, or a "
			"file "
			"of passwd, or set spec.identity.ldap\n",
			n, first, n > 1 ? ", …" : "");
}

static int add_users(struct td_kube *k, const struct td_object *sc, yyjson_val *users, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "spec.users");
	yyjson_val *u;
	size_t i, n;
	td_jm_str(d, root, "metadata.uid", sc->uid);
	td_jm_str(d, root, "metadata.resourceVersion", td_jstr(sc->root, "metadata.resourceVersion"));
	yyjson_arr_foreach (td_jget(sc->root, "spec.users"), i, n, u)
		yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, u));
	yyjson_arr_foreach (users, i, n, u)
		yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, u));
	return td_kube_patch(k, TD_AT(&td_slurmclusters, sc->ns, sc->name), TD_PATCH_MERGE, root, NULL, NULL, err);
}

// ---- the pool ----

// slurmctld looks for the uid of a new row at once, and then once an hour: so it has to know the people before.
static int wait_known(const struct td_cli_login *l, const char *user, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_auto_free char *labels = td_asprintf(TD_LABEL_NAME "=slurmctld," TD_LABEL_CLUSTER "=%s", l->cluster);
	int64_t end = td_mono_ms(&td_clock_system) + KNOWN_MS;
	bool told = false;
	int r = td_kube_list(l->kube, &td_pods, l->ns, labels, NULL, NULL, &pods, err);
	for (size_t i = 0; i < pods.n && !r;) {
		td_auto_strv struct td_strv argv = {0};
		td_auto_buf struct td_buf said = {0};
		int status = 0;
		td_cli_login_beside(l, pods.v[i]->name, "--container=slurmctld", &argv);
		td_strv_add(&argv, "getent");
		td_strv_add(&argv, "passwd");
		td_strv_add(&argv, user);
		r = td_run(argv.v, NULL, GETENT_MS, NULL, &status, &said, err);
		if (!r && !status) {
			i++;
			continue;
		}
		if (!told)
			fprintf(stderr, "waiting until slurmctld knows the new people\n");
		told = true;
		if (!r && td_mono_ms(&td_clock_system) > end)
			return td_fail(
				err, TD_TRANSIENT,
				"%s/%s does not know user %s of spec.users after three minutes: see `kubectl -n %s "
				"get pods`, and give the command again",
				l->ns, pods.v[i]->name, user, l->ns);
		if (!r)
			td_cancel_wait(NULL, LOOK_MS);
	}
	return r;
}

int td_cli_adopt_in(const struct td_cli_adopt_pod *p, const char *const *words, const char *in, struct td_buf *ret,
		    struct td_error *err)
{
	const struct td_cli_login *l = p->l;
	td_auto_strv struct td_strv a = {0};
	td_auto_close int from = memfd_create("in", MFD_CLOEXEC), to = memfd_create("out", MFD_CLOEXEC);
	size_t n = in ? strlen(in) : 0;
	pid_t pid;
	td_strv_add(&a, "timeout");
	td_strv_addf(&a, "%d", p->within_s);
	td_cli_login_beside(l, p->pod ? p->pod : l->pod, p->pod ? "-icslurmctld" : in ? "-i" : NULL, &a);
	td_strv_add(&a, "sh");
	td_strv_add(&a, "-c");
	td_strv_add(&a, td_embedded(td_cli_files, p->program)->text);
	td_strv_add(&a, "sh");
	for (; *words; words++)
		td_strv_add(&a, *words);
	if (from < 0 || to < 0 || (n && write(from, in, n) != (ssize_t)n) || lseek(from, 0, SEEK_SET) < 0)
		return td_fail(err, TD_INTERNAL, "no memory for %zu bytes of commands", n);
	const int fds[] = {from, to, 2};
	int r = td_start(a.v, NULL, fds, TD_LEN(fds), 0, &pid, err);
	if (r)
		return r;
	int code = td_wait_code(pid);
	td_auto_free char *path = td_asprintf("/proc/self/fd/%d", to);
	if ((r = td_file_read(path, TD_BOOKS_MAX, ret, err)))
		return r;
	return code ? td_fail(err, TD_TRANSIENT, "%s in %s/%s failed (%d)%s", p->program, l->ns,
			      p->pod ? p->pod : l->pod, code, code == 124 ? ": it took too long" : "")
		    : 0;
}

static int in_pod(const struct td_cli_login *l, const char *const *words, const char *in, struct td_buf *ret,
		  struct td_error *err)
{
	const struct td_cli_adopt_pod p = {l, NULL, "adopt-accounts.sh", TD_CLI_ADOPT_S};
	return td_cli_adopt_in(&p, words, in, ret, err);
}

static int read_pool(const struct td_cli_login *l, struct td_books *ret, struct td_error *err)
{
	const char *const words[] = {"books", l->cluster, TD_BOOKS_QOS_FORMAT, NULL};
	td_auto_buf struct td_buf text = {0};
	int r = in_pod(l, words, NULL, &text, err);
	char *qos = r || !text.len ? NULL : strstr(td_buf_str(&text), "\n==\n");
	if (!r && !qos)
		return td_fail(err, TD_TRANSIENT, "sacctmgr in %s/%s printed no dump", l->ns, l->pod);
	if (r)
		return r;
	qos[1] = '\0';
	r = td_books_read("the pool", td_buf_str(&text), ret, err);
	return r ? r : td_books_read_qos("the pool", qos + strlen("\n==\n"), ret, err);
}

static bool enforces(const yyjson_val *sc)
{
	return td_streq(td_jstr(sc, "spec.accounting.enforce"), "limits") ||
	       td_jget(sc, "spec.config.slurmConf.AccountingStorageEnforce");
}

static int make(const struct td_cli_login *l, const struct td_books *old, struct td_error *err)
{
	const char *const words[] = {"take", NULL};
	td_auto_books struct td_books was = {0}, is = {0};
	td_auto_books_plan struct td_books_plan p = {0}, rest = {0};
	td_auto_buf struct td_buf said = {0};
	int r = read_pool(l, &was, err);
	if (r)
		return r;
	td_books_merge(old, &was, l->cluster, TD_POOL_TENANT_MARK, &p);
	td_cli_adopt_say("Not taken over:", &p.left);
	td_cli_adopt_say("Stands differently in the pool, and stays:", &p.differs);
	td_cli_adopt_say("Rights over others, which come with it:", &p.rights);
	if (!p.n) {
		puts("slurmdbd has it all");
		return 0;
	}
	printf("%zu changes of slurmdbd\n", p.n);
	fflush(stdout);
	if ((r = in_pod(l, words, td_buf_str(&p.commands), &said, err)) || (r = read_pool(l, &is, err)))
		return r;
	td_books_merge(old, &is, l->cluster, TD_POOL_TENANT_MARK, &rest);
	if (!rest.n)
		return 0;
	size_t from = said.len > SAID_MAX ? said.len - SAID_MAX : 0;
	fprintf(stderr, "%s\nsacctmgr did not take:\n%s", td_buf_str(&said) + from, td_buf_str(&rest.commands));
	return td_fail(err, TD_INVALID,
		       "%zu of %zu changes were not taken (above, with what sacctmgr said); mend the dump or the pool, "
		       "and give the command again",
		       rest.n, p.n);
}

void td_cli_adopt_login(struct td_cli_adopt *a, struct td_cli_login *ret)
{
	td_auto_free char *cluster = a->name ? td_asprintf("%s/%s", a->ns, a->name) : NULL;
	if (a->remote.kubeconfig)
		a->remote.cluster = cluster;
	if (td_cli_login_open("adopt", &a->remote, ret))
		exit(1); // it has said why
	a->remote.cluster = NULL;
}

static int apply(struct td_cli_adopt *a, const struct td_books *old, const char *passwd, struct td_error *err)
{
	td_auto_login struct td_cli_login l = {0};
	td_auto(td_object_unref) struct td_object *sc = NULL;
	td_auto(td_json_unref) struct td_json *users = NULL;
	td_auto_strv struct td_strv left = {0};
	yyjson_val *list = NULL;
	int r = 0;
	td_cli_adopt_login(a, &l);
	for (int i = 0; i < TRIES; i++) {
		sc = td_object_unref(sc);
		users = td_json_unref(users);
		td_strv_done(&left);
		if ((r = td_kube_get(l.kube, &td_slurmclusters, l.ns, l.cluster, NULL, &sc, err)))
			return r;
		if (!td_jbool(sc->root, "spec.accounting.enabled", false))
			return td_fail(err, TD_INVALID,
				       "SlurmCluster %s/%s has no accounting: set spec.accounting.enabled and "
				       "spec.accounting.database (docs/accounting.md)",
				       l.ns, l.cluster);
		users_of(a, old, passwd, td_jget(sc->root, "spec.users"), &users, &left);
		list = td_jget(td_json_root(users), "users");
		r = yyjson_arr_size(list) ? add_users(l.kube, sc, list, err) : 0;
		if (r != TD_CONFLICT)
			break;
	}
	if (r)
		return r;
	td_cli_adopt_say("People:", &left);
	size_t n = yyjson_arr_size(list);
	if (!a->people && !td_jget(sc->root, "spec.identity.ldap"))
		tell_unknown(old, td_jget(sc->root, "spec.users"));
	if (n) {
		printf("SlurmCluster %s/%s: %zu people in spec.users\n", l.ns, l.cluster, n);
		fflush(stdout);
		r = wait_known(&l, td_jstr_or(yyjson_arr_get(list, n - 1), "name", ""), err);
	}
	if (!r)
		r = make(&l, old, err);
	if (!r && !enforces(sc->root))
		fprintf(stderr,
			"SlurmCluster %s/%s: spec.accounting.enforce is none, so limits only stand there: set it to "
			"limits (docs/accounting.md)\n",
			l.ns, l.cluster);
	return r;
}

// Prints what a pool that has nothing would be given.
static int print(const struct td_cli_adopt *a, const struct td_books *old, const char *passwd, struct td_error *err)
{
	const char *name = a->name ? a->name : "main";
	td_auto_books struct td_books fresh = {0};
	td_auto_books_plan struct td_books_plan p = {0};
	td_auto(td_json_unref) struct td_json *users = NULL, *j = NULL;
	td_auto_strv struct td_strv left = {0}, commands = {0};
	int r = td_books_read("a new slurmdbd", "Cluster - 'main':Fairshare=1:QOS='normal'\n", &fresh, err);
	if (!r)
		r = td_books_read_qos("a new slurmdbd", "Name|Descr\nnormal|Normal QOS default\n", &fresh, err);
	if (r)
		return r;
	td_books_merge(old, &fresh, name, TD_POOL_TENANT_MARK, &p);
	users_of(a, old, passwd, NULL, &users, &left);
	td_cli_adopt_say("Not taken over:", &p.left);
	td_cli_adopt_say("Rights over others, which come with it:", &p.rights);
	td_cli_adopt_say("People:", &left);
	if (yyjson_arr_size(td_jget(td_json_root(users), "users"))) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
		td_jm_str(d, root, "kind", "SlurmCluster");
		td_jm_str(d, root, "metadata.name", name);
		td_jm_str(d, root, "metadata.namespace", a->ns);
		td_jm_copyval(d, td_jm_obj(d, root, "spec"), "users", td_jget(td_json_root(users), "users"));
		j = td_json_from_mut(root);
		td_auto_free char *text = td_yaml_text(td_json_root(j));
		printf("%s", text);
	}
	td_strv_split(&commands, td_buf_str(&p.commands), '\n');
	for (size_t i = 0; i < commands.n; i++)
		printf("%s#> %s\n", i ? "" : "# For the pool's sacctmgr -i, in this order (sed -n 's/^#> //p'):\n",
		       commands.v[i]);
	return 0;
}

int td_cli_adopt_accounts(struct td_cli_adopt *a, const char *file, struct td_error *err)
{
	td_auto_books struct td_books old = {0};
	td_auto_buf struct td_buf passwd = {0};
	int r = read_old(a, file, &old, err);
	if (!r && a->people)
		r = passwd_of(a, &old, &passwd, err);
	if (r)
		return r;
	if (!a->people && !a->apply)
		td_strv_addf(&old.left,
			     "people: a dump has no uids; with --people getent (or a file of passwd) they come "
			     "into spec.users, unless spec.identity.ldap knows them");
	td_cli_adopt_say("Not taken over:", &old.left);
	return a->apply ? apply(a, &old, td_buf_str(&passwd), err) : print(a, &old, td_buf_str(&passwd), err);
}
