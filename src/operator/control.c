// The objects of one SlurmCluster except slurmd: keys, configuration, slurmctld, slurmrestd, login.
// docs/ARCHITECTURE.md lists their names and keys.
#include "operator/operator.h"

#include "slurm/accounting.h"
#include "slurm/keys.h"
#include "slurm/where.h"

#include <string.h>

void td_op_wants_done(struct td_op_wants *w)
{
	for (size_t i = 0; i < w->n; i++) {
		td_json_unref(w->v[i].obj);
		free(w->v[i].field);
	}
	free(w->v);
	*w = (struct td_op_wants){0};
}

void td_op_wants_add(struct td_op_wants *w, struct td_op_want x)
{
	w->v = td_realloc(w->v, (w->n + 1) * sizeof(*w->v));
	w->v[w->n++] = x;
}

struct builder {
	const yyjson_val *sc;
	const char *ns, *name, *image, *hash, *restart, *standin; // standin: Tandem's image; NULL: embedded
	struct td_op_wants *out;
};

// Adds namespace, labels and owner to an object, and the object to the list.
static void add(struct builder *b, const struct td_gvr *gvr, yyjson_mut_doc *d, bool once)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.namespace", b->ns);
	yyjson_mut_val *labels = td_jm_obj(d, root, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, b->name);
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	td_op_own(d, root, b->sc, &td_slurmclusters);
	td_op_wants_add(b->out, (struct td_op_want){.gvr = gvr, .obj = td_json_from_mut(root), .once = once});
}

static void secret(struct builder *b, const char *suffix, const char *key, char *its_value)
{
	td_auto_free char *value = its_value;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("secret.yaml", {"cluster", b->name}, {"suffix", suffix});
	td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "data"), key, value);
	explicit_bzero(value, strlen(value));
	// It is made as what is asked for (keys.c).
	long long generation = td_jint(b->sc, "spec.auth.keyGeneration", 1);
	td_auto_free char *now = td_asprintf("%lld", generation);
	if (generation > 1)
		td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations"),
			      TD_ANN_KEY_GENERATION, now);
	add(b, &td_secrets, d, true);
}

static void config_map(struct builder *b, const struct td_slurm_files *f)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template("config.yaml", {"cluster", b->name});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data");
	for (size_t i = 0; i < f->n; i++)
		if (!f->v[i].site)
			td_jm_key_str(d, data, f->v[i].name, f->v[i].text);
	// These reach running pods by themselves, and Slurm does not read them.
	td_auto_free char *directories = td_op_storage_list(b->sc);
	td_jm_key_str(d, data, "directories", directories);
	static const char *const programs[] = {"database.sh", "homes.sh", "node-ssh.sh", "ssh_config", "on-demand.sh"};
	for (size_t i = 0; i < TD_LEN(programs); i++)
		td_jm_key_str(d, data, programs[i], td_op_program(programs[i]));
	// slurmds get this line too, and say which one they have (services.sh).
	td_auto_free char *conf = td_asprintf("%s# Revision: %s\n", f->v[TD_SLURM_CONF].text, b->hash);
	td_jm_key_str(d, data, f->v[TD_SLURM_CONF].name, conf);
	td_auto_free char *sssd = td_op_identity_conf(b->sc);
	if (sssd)
		td_jm_key_str(d, data, "sssd.conf", sssd);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_CONFIG, b->hash);
	add(b, &td_configmaps, d, false);
}

// The site's own programs.
static void site_map(struct builder *b, const struct td_slurm_files *f)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template("site.yaml", {"cluster", b->name});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data");
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].site)
			td_jm_key_str(d, data, f->v[i].name, f->v[i].text);
	add(b, &td_configmaps, d, false);
}

static void service(struct builder *b, const char *app, int port)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("service.yaml", {"cluster", b->name}, {"app", app}, {"port", .number = port});
	add(b, &td_services, d, false);
}

// Lets the pod run on nodes that Slurm has drained or holds for dead. Otherwise, where all are, slurmctld could
// start nowhere, and nothing could bring them back.
static void tolerate_ours(yyjson_mut_doc *d, yyjson_mut_val *template)
{
	yyjson_mut_val *list = td_jm_arr(d, template, "spec.tolerations");
	td_op_tolerate(d, list, TD_TAINT_DRAIN, "NoSchedule");
	td_op_tolerate(d, list, TD_TAINT_DOWN, "NoSchedule");
}

// Completes a workload: hash, image and resources, then the user's template over that.
static int workload(struct builder *b, const struct td_gvr *gvr, yyjson_mut_doc *d, const yyjson_val *part,
		    const char *field, struct td_error *err)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *t = td_jm_get(root, "spec.template"), *c;
	yyjson_mut_val *labels = td_jm_obj(d, t, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_CLUSTER, b->name);
	td_jm_key_str(d, labels, "app.kubernetes.io/managed-by", "tandem");
	// Slurm's commands read the mounted files each time, so nobody who works in a login pod is
	// thrown out for them.
	// slurmdbd reads nothing of them but users, who come by themselves.
	if (!td_starts(field, "spec.login") && !td_streq(field, "spec.accounting"))
		td_jm_key_str(d, td_jm_obj(d, t, "metadata.annotations"), TD_ANN_RESTART, b->restart);
	td_jm_bool(d, t, "spec.enableServiceLinks", false);
	td_jm_bool(d, t, "spec.automountServiceAccountToken", false);
	td_op_identity_add(d, td_jm_get(t, "spec"), b->sc, NULL);
	td_op_munge_add(d, td_jm_get(t, "spec"), b->sc, NULL);
	static const char *const lists[] = {"spec.initContainers", "spec.containers"};
	for (size_t k = 0; k < TD_LEN(lists); k++) {
		size_t i, n;
		yyjson_mut_arr_foreach (td_jm_get(t, lists[k]), i, n, c) {
			if (!td_jm_get(c, "image")) {
				td_jm_str(d, c, "image", b->image);
				td_jm_str(d, c, "imagePullPolicy", "IfNotPresent");
			}
			if (k == 1 && i == 0)
				td_jm_copyval(d, c, "resources", td_jget(part, "resources"));
		}
	}

	if (b->standin) // on kubelets: ordinary pods must not preempt it
		td_jm_str(d, t, "spec.priorityClassName", TD_PRIORITY_SLURM);
	td_auto_free char *f = td_asprintf("%s.template", field);
	int r = td_op_merge_template(d, t, td_jget(part, "template"), f, err);
	if (r)
		return r;
	tolerate_ours(d, t);
	add(b, gvr, d, false);
	b->out->v[b->out->n - 1].field = td_strdup(field);
	return 0;
}

// What there is more when there are two slurmctlds.
static void two_controllers(struct builder *b, yyjson_mut_doc *d, yyjson_mut_val *spec)
{
	long long n = td_slurm_controllers(b->sc);
	for (long long i = 0; n > 1 && i < n; i++) {
		td_auto_free char *name = td_asprintf("%s-slurmctld-%lld", b->name, i);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *host =
			td_op_template("slurmctld-host.yaml", {"name", name}, {"cluster", b->name});
		add(b, &td_services, host, false);
	}
	if (n < 2)
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("slurmctld-backup.yaml", {"cluster", b->name});
	td_op_put(d, spec, "affinity", td_jm_get(yyjson_mut_doc_get_root(over), "affinity"));
}

static int slurmctld(struct builder *b, struct td_error *err)
{
	yyjson_val *part = td_jget(b->sc, "spec.controller");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template(
		"slurmctld.yaml", {"cluster", b->name}, {"replicas", .number = td_slurm_controllers(b->sc)});
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec");
	two_controllers(b, d, spec);
	td_op_storage_own(d, spec, "state", td_jget(part, "storage"));
	if (td_slurm_accounting(b->sc)) { // slurmctld registers at another database only when it starts
		yyjson_val *db = td_jget(b->sc, "spec.accounting.database");
		td_auto_free char *text = td_json_text(db, NULL), *hash = td_op_hash(text, strlen(text));
		yyjson_mut_val *env = yyjson_mut_obj(d);
		td_jm_str(d, env, "name", "TD_DATABASE");
		td_jm_strf(d, env, "value", "%s-%s", td_jget(db, "external") ? "external" : "own", hash);
		yyjson_mut_arr_append(td_jm_get(spec, "containers.[0].env"), env);
	}
	if (b->standin)
		td_op_bring_standin(d, spec, b->standin);
	return workload(b, &td_statefulsets, d, part, "spec.controller", err);
}

// MariaDB in slurmdbd's pod.
static void database(struct builder *b, yyjson_mut_doc *d, yyjson_mut_val *spec)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
		td_op_template("slurmdbd-embedded.yaml", {"program", td_op_program("mariadb.sh")});
	yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *x;
	td_op_put(d, td_jm_get(spec, "initContainers"), NULL, td_jm_get(o, "initContainer"));
	td_op_put(d, td_jm_get(spec, "containers.[0].volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
	td_op_put(d, td_jm_get(spec, "containers"), NULL, td_jm_get(o, "container"));
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(o, "volumes"), i, n, x)
		td_op_put(d, td_jm_get(spec, "volumes"), NULL, x);
	td_op_storage_own(d, spec, "database", td_jget(b->sc, "spec.accounting.database.embedded.storage"));
}

static int slurmdbd(struct builder *b, struct td_error *err)
{
	yyjson_val *part = td_jget(b->sc, "spec.accounting"), *external = td_jget(part, "database.external");
	td_auto_strv struct td_strv none = {0}; // the configuration was checked before
	td_auto_free char *conf = td_slurm_dbd_conf(b->sc, &none);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template(
		"slurmdbd.yaml", {"cluster", b->name}, {"program", td_op_program("slurmdbd.sh")}, {"conf", conf});
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec"), *x;
	if (external) {
		td_auto_free char *port = td_asprintf("%lld", td_jint(external, "port", 3306));
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
			td_op_template("slurmdbd-external.yaml", {"host", td_jstr_or(external, "host", "")},
				       {"port", port}, {"name", td_jstr_or(external, "name", "slurm_acct_db")},
				       {"secret", td_jstr_or(external, "userSecret", "")});
		size_t i, n;
		yyjson_mut_arr_foreach (td_jm_get(yyjson_mut_doc_get_root(over), "env"), i, n, x)
			td_op_put(d, td_jm_get(spec, "containers.[0].env"), NULL, x);
	} else {
		database(b, d, spec);
	}
	service(b, "slurmdbd", TD_SLURMDBD_PORT);
	return workload(b, &td_statefulsets, d, part, "spec.accounting", err);
}

static void claim_template(struct builder *b)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_claim_template_object(b->sc);
	add(b, &td_resourceclaimtemplates, d, false);
}

static void budget(struct builder *b)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template("budget.yaml", {"cluster", b->name});
	add(b, &td_pdbs, d, false);
}

static bool by_socket(const struct builder *b)
{
	return td_streq(td_jstr(b->sc, "spec.restApi.access"), "socket");
}

static int slurmrestd(struct builder *b, struct td_error *err)
{
	const char *serves = td_slurm_accounting(b->sc) ? "slurmctld,slurmdbd" : "slurmctld";
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("slurmrestd.yaml", {"cluster", b->name}, {"serves", serves},
			       {"replicas", .number = td_jint(b->sc, "spec.restApi.replicas", 1)});
	yyjson_mut_val *t = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template"),
		       *c = td_jm_get(t, "spec.containers.[0]");
	if (by_socket(b)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over =
			td_op_template("slurmrestd-socket.yaml", {"program", td_op_program("slurmrestd.sh")},
				       {"socket", "/run/slurmrestd/" TD_SLURM_REST_SOCKET}, {"serves", serves});
		yyjson_mut_val *o = yyjson_mut_doc_get_root(over);
		td_jm_key_str(d, td_jm_get(t, "metadata.annotations"), TD_ANN_REST_ACCESS, td_jm_getstr(o, "access"));
		td_op_put(d, c, "command", td_jm_get(o, "command"));
		td_op_put(d, c, "ports", td_jm_get(o, "ports"));
		td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
		td_op_put(d, td_jm_get(t, "spec.volumes"), NULL, td_jm_get(o, "volume"));
	}

	return workload(b, &td_deployments, d, td_jget(b->sc, "spec.restApi"), "spec.restApi", err);
}

// Does the container login see the processes of everybody who works in the pod? Else nothing can say
// that an srun is gone.
static bool sees_all(const yyjson_val *part)
{
	yyjson_val *spec = td_jget(part, "template.spec"), *c;
	size_t i, n;
	if (td_jbool(spec, "shareProcessNamespace", false))
		return true;
	yyjson_arr_foreach (td_jget(spec, "containers"), i, n, c)
		if (!td_streq(td_jstr(c, "name"), "login"))
			return false;
	return true;
}

// Has the site a probe of its own there? A container has one only.
static bool probes(const yyjson_val *part)
{
	return td_jget(td_jfind(td_jget(part, "template.spec.containers"), "name", "login"), "livenessProbe");
}

// A group of login pods: a StatefulSet, a Service for all pods, and one for each. slurmctld calls
// back the srun of a step at the first label of its host's name (24.11: srun/launch.c,
// stepmgr/srun_comm.c), and blocks for 10 s on a name that it cannot look up; the nodes of such a
// job stay COMPLETING for a minute or two (seen on a real cluster). A name of one label resolves as
// a Service of the namespace, so each login pod has a Service of its own name. A StatefulSet's pods
// keep their names.
static int login(struct builder *b, const yyjson_val *part, size_t at, struct td_error *err)
{
	const char *name = td_jstr_or(part, "name", "login");
	long long replicas = td_jint(part, "replicas", 1);
	td_auto_free char *field = td_asprintf("spec.login[%zu]", at), *set = td_asprintf("%s-%s", b->name, name);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *all =
		td_op_template("login-service.yaml", {"name", set}, {"cluster", b->name}, {"login", name});
	add(b, &td_services, all, false);
	for (long long i = 0; i < replicas; i++) {
		td_auto_free char *pod = td_asprintf("%s-%lld", set, i);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *one =
			td_op_template("login-pod-service.yaml", {"name", pod}, {"cluster", b->name}, {"login", name});
		add(b, &td_services, one, false);
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template(
		"login.yaml", {"name", set}, {"cluster", b->name}, {"login", name}, {"replicas", .number = replicas},
		{"program", td_op_program("login.sh")}, {"owners", sees_all(part) ? td_op_program("owners.sh") : ""});
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec");
	if (probes(part))
		yyjson_mut_obj_remove_key(td_jm_get(spec, "containers.[0]"), "livenessProbe");
	bool groups = td_jbool(part, "storageGroups", false);
	td_op_storage_mount(d, spec, b->sc, groups ? "logins" : "login");
	if (groups)
		td_op_storage_logins(d, spec, b->sc, b->standin);
	td_op_containers_login(d, spec, b->sc, b->standin);
	if (td_jbool(part, "ssh", true)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *over = td_op_template(
			"login-ssh.yaml", {"cluster", b->name}, {"name", set}, {"login", name},
			{"program", td_op_program("sshd.sh")}, {"type", td_jstr_or(part, "service.type", "ClusterIP")});
		yyjson_mut_val *o = yyjson_mut_doc_get_root(over), *c = td_jm_get(spec, "containers.[0]");
		td_op_put(d, td_jm_get(c, "env"), NULL, td_jm_get(o, "env"));
		td_op_put(d, c, "ports", td_jm_get(o, "ports"));
		td_op_put(d, td_jm_get(c, "volumeMounts"), NULL, td_jm_get(o, "volumeMount"));
		td_op_put(d, td_jm_get(spec, "volumes"), NULL, td_jm_get(o, "volume"));
		if (td_jget(part, "service")) {
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *s = td_jm_new();
			yyjson_mut_doc_set_root(s, yyjson_mut_val_mut_copy(s, td_jm_get(o, "service")));
			td_jm_copyval(s, yyjson_mut_doc_get_root(s), "metadata.annotations",
				      td_jget(part, "service.annotations"));
			add(b, &td_services, s, false);
		}
	}
	td_auto_free char *template = td_asprintf("%s.template", field);
	int r = td_op_firewall(d, spec,
			       &(struct td_op_firewall){b->sc, td_jget(part, "template"), template, b->standin}, err);
	return r ? r : workload(b, &td_statefulsets, d, part, field, err);
}

int td_op_cluster_objects(const yyjson_val *sc, const struct td_slurm_files *files, const char *image,
			  struct td_op_wants *ret, struct td_error *err)
{
	td_auto_free char *hash = td_op_files_hash(files), *restart = td_op_restart_hash(files);
	td_auto_wants struct td_op_wants out = {0};
	struct builder b = {sc,
			    td_jstr(sc, "metadata.namespace"),
			    td_jstr(sc, "metadata.name"),
			    td_jstr_or(sc, "spec.slurm.image", TD_OP_SLURM_IMAGE),
			    hash,
			    restart,
			    image,
			    &out};
	secret(&b, "slurm-key", "slurm.key", td_slurm_key_new(TD_SLURM_KEY_BYTES));
	secret(&b, "jwt-key", "jwt_hs256.key", td_slurm_key_new(TD_SLURM_JWT_KEY_BYTES));
	if (td_slurm_munge(sc))
		secret(&b, "munge-key", "munge.key", td_slurm_key_new(TD_SLURM_MUNGE_KEY_BYTES));
	secret(&b, "ssh-host-key", "ssh_host_key", td_slurm_host_key_new());
	config_map(&b, files);
	site_map(&b, files);
	service(&b, "slurmctld", TD_SLURMCTLD_PORT);
	if (!by_socket(&b))
		service(&b, "slurmrestd", TD_SLURMRESTD_PORT);
	service(&b, "slurmd", TD_SLURMD_PORT);
	if (td_op_dra(sc))
		claim_template(&b);
	budget(&b);

	int r;
	// slurmdbd first: slurmctld's first start needs it.
	if (td_slurm_accounting(sc) && (r = slurmdbd(&b, err)))
		return r;
	if ((r = slurmctld(&b, err)) || (r = slurmrestd(&b, err)))
		return r;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.login"), i, n, x)
		if ((r = login(&b, x, i, err)))
			return r;

	*ret = out;
	out = (struct td_op_wants){0};
	return 0;
}
