// What a machine with its own slurmd asks the API: is it a member, and with which key does it meet slurmctld where?
#include "cli/host.h"

#include "slurm/conf.h"
#include "slurm/containers.h"
#include "slurm/hostlist.h"
#include "slurm/hosts.h"
#include "slurm/keys.h"

#include <stdlib.h>
#include <string.h>

#define IP "0123456789abcdefABCDEF.:"

void td_host_seen_done(struct td_host_seen *s)
{
	struct td_buf *const secrets[] = {&s->key, &s->jwks, &s->pull};
	for (size_t i = 0; i < TD_LEN(secrets); i++) {
		if (secrets[i]->s)
			explicit_bzero(secrets[i]->s, secrets[i]->len);
		td_buf_done(secrets[i]);
	}
	free(s->cluster);
	free(s->conf);
	free(s->hosts);
	free(s->servers);
	free(s->containers);
	free(s->lacks);
	td_object_unref(s->sc);
	td_object_unref(s->nodeset);
	td_objects_done(&s->datasets);
	*s = (struct td_host_seen){0};
}

// A key of the Secret, decoded. One that is not there stays empty.
static int key_of(const struct td_object *secret, const char *key, struct td_buf *ret, struct td_error *err)
{
	const char *text = td_jkey_str(td_jget(secret->root, "data"), key);
	return text ? td_slurm_key_read(text, ret, err) : 0;
}

// Where slurmctld is, and its backup.
static int controllers(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *s,
		       struct td_error *err)
{
	td_auto_buf struct td_buf hosts = {0}, servers = {0};
	for (int i = 0; i < 2; i++) {
		td_auto(td_object_unref) struct td_object *pod = NULL;
		td_auto_free char *name = td_asprintf("%s-slurmctld-%d", s->cluster, i);
		const char *ip = i ? NULL : w->controller;
		int r = ip ? 0 : td_kube_get(k, &td_pods, w->ns, name, c, &pod, err);
		if (r && r != TD_NOT_FOUND && r != TD_DENIED)
			return r;
		if (pod)
			ip = td_jstr(pod->root, "status.podIP");
		if (!ip || !*ip || strspn(ip, IP) != strlen(ip))
			continue;
		// As the configuration names it: with one controller, and with two.
		td_buf_printf(&hosts, "%s %s.%s-slurmctld.%s.svc.cluster.local %s.%s.svc.cluster.local %s\n", ip, name,
			      s->cluster, w->ns, name, w->ns, name);
		td_buf_printf(&servers, "%s%s:%d", servers.len ? "," : "", name, TD_SLURMCTLD_PORT);
	}
	s->hosts = td_buf_take(&hosts);
	s->servers = td_buf_take(&servers);
	return 0;
}

static bool newest(const yyjson_val *set)
{
	return td_jint(set, "status.observedGeneration", 0) >= td_jint(set, "metadata.generation", 0);
}

// Slurm had answered the operator when it wrote the status.
static bool answered(const yyjson_val *set)
{
	yyjson_val *ready = td_jfind(td_jget(set, "status.conditions"), "type", "Ready");
	const char *reason = td_jstr_or(ready, "reason", "");
	return td_streq(reason, "Ready") || td_streq(reason, "NotReady");
}

bool td_host_gone(const yyjson_val *set, const char *name)
{
	return answered(set) && newest(set) && !td_slurm_host_in(set, name) &&
	       !td_jfind(td_jget(set, "status.nodes"), "name", name);
}

// Another NodeSet has it still.
static bool others(const yyjson_val *set, const char *name)
{
	td_auto_strv struct td_strv l = {0};
	return !td_hostlist_parse(td_jstr_or(set, "status.elsewhere", ""), &l, NULL) && td_strv_has(&l, name);
}

bool td_host_unlisted(const yyjson_val *set, const char *name)
{
	return newest(set) && td_jint(set, "status.unlisted", 0) > 0 && td_slurm_host_in(set, name) &&
	       !td_jfind(td_jget(set, "status.nodes"), "name", name) && !others(set, name);
}

static void membership(const yyjson_val *set, const struct td_host_who *w, struct td_host_seen *s)
{
	yyjson_val *line = td_jfind(td_jget(set, "status.nodes"), "name", w->name);
	const char *state = td_jstr_or(line, "state", "unknown");
	s->known = true;
	s->member = td_slurm_host_in(set, w->name);
	s->gone = td_host_gone(set, w->name);
	s->expected = td_jbool(line, "expected", false);
	s->fresh = line && strcmp(state, "unknown") != 0;
	s->recorded = s->fresh && strcmp(state, "none") != 0;
	s->cluster = td_strdup(td_jstr_or(set, "spec.clusterName", ""));
	s->conf = td_slurm_host_conf(set, w->cpus, w->memory_mb);
	if (td_host_unlisted(set, w->name)) {
		s->expected = true;
		s->fresh = s->recorded = answered(set);
	}
}

// Which slurm.key and slurm.jwks the cluster has now.
static int keys(struct td_kube *k, const char *ns, struct td_cancel *c, struct td_host_seen *s, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *secret = NULL;
	td_auto_free char *name = td_asprintf("%s-slurm-key", s->cluster);
	int r = td_kube_get(k, &td_secrets, ns, name, c, &secret, err);
	if (r || (r = key_of(secret, "slurm.key", &s->key, err)) || (r = key_of(secret, "slurm.jwks", &s->jwks, err)))
		return td_wrap(err, "Secret %s/%s", ns, name);
	return s->key.len
		       ? 0
		       : td_fail(err, TD_INVALID,
				 "Secret %s/%s has no slurm.key: with spec.auth.type munge a machine cannot use Slurm "
				 "by `tandem host`",
				 ns, name);
}

// A Role that `tandem node admit` wrote before it knew of this, or before the Secret had this name.
static void lacks(const struct td_host_who *w, const char *kind, const char *name, const char *cost,
		  struct td_host_seen *s)
{
	s->lacks = td_asprintf("this machine may not read %s %s/%s, so %s: an administrator runs `tandem node admit %s "
			       "--nodeset %s/%s` once more, which gives the right to all machines of the NodeSet",
			       kind, w->ns, name, cost, w->name, w->ns, w->set);
}

// What slurmd pods have of the Secret (operator/templates/containers.yaml): one that is not there may come later.
static int pull_secret(struct td_kube *k, const struct td_host_who *w, const yyjson_val *sc, struct td_cancel *c,
		       struct td_host_seen *s, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *secret = NULL;
	td_auto_free char *name = td_slurm_pull_secret(sc, s->cluster);
	int r = td_kube_get(k, &td_secrets, w->ns, name, c, &secret, err);
	if (r == TD_DENIED)
		lacks(w, "Secret", name, "images of private registries are not held ready here", s);
	if (r == TD_DENIED || r == TD_NOT_FOUND)
		return 0;
	if (r)
		return td_wrap(err, "Secret %s/%s", w->ns, name);
	struct td_error e = TD_ERROR_INIT;
	if (td_host_pull_read(secret->root, &s->pull, &e)) // a slip in it is no reason to do nothing
		s->lacks = td_asprintf("Secret %s/%s: %s", w->ns, name, e.msg);
	return 0;
}

// What the pool says of containers in jobs.
static int containers(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *s,
		      struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = NULL;
	td_auto_strv struct td_strv problems = {0};
	struct td_slurm_files files = {0};
	int r = td_kube_get(k, &td_slurmclusters, w->ns, s->cluster, c, &sc, err);
	if (r == TD_DENIED)
		lacks(w, "SlurmCluster", s->cluster, "it does not know whether jobs have containers here", s);
	if (r)
		return r == TD_DENIED || r == TD_NOT_FOUND ? 0 : td_wrap(err, "SlurmCluster %s/%s", w->ns, s->cluster);
	td_slurm_containers_files(sc->root, &files, &problems);
	s->sc = td_object_ref(sc);
	s->settled = !problems.n; // with a slip in it what was before holds, as in slurmd's pods
	for (size_t i = 0; i < files.n; i++)
		if (td_streq(files.v[i].name, "containers.conf"))
			s->containers = td_strdup(files.v[i].text);
	td_slurm_files_done(&files);
	return td_slurm_containers(sc->root) ? pull_secret(k, w, sc->root, c, s, err) : 0;
}

// Which data sets there are, where nodes hold copies.
static int datasets(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *s,
		    struct td_error *err)
{
	if (!s->sc || !td_jget(s->sc->root, "spec.datasets"))
		return 0;
	int r = td_kube_list(k, &td_datasets, w->ns, NULL, NULL, c, &s->datasets, err);
	s->has_datasets = !r;
	if (r == TD_DENIED && !s->lacks)
		lacks(w, "Datasets of", s->cluster, "no copies of data sets come here", s);
	return r == TD_DENIED ? 0 : r ? td_wrap(err, "Datasets of %s", w->ns) : 0;
}

int td_host_look(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *ret,
		 struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *set = NULL;
	td_auto_host_seen struct td_host_seen s = {0};
	int r = td_kube_get(k, &td_nodesets, w->ns, w->set, c, &set, err);
	if (r)
		return td_wrap(err, "NodeSet %s/%s", w->ns, w->set);
	membership(set->root, w, &s);
	// Who is no member is not shown the key again.
	if (s.member && ((r = keys(k, w->ns, c, &s, err)) || (r = containers(k, w, c, &s, err)) ||
			 (r = datasets(k, w, c, &s, err))))
		return r;
	if ((r = controllers(k, w, c, &s, err)))
		return td_wrap(err, "slurmctld of %s/%s", w->ns, s.cluster);
	s.nodeset = td_steal(set);
	td_host_seen_done(ret);
	*ret = s;
	s = (struct td_host_seen){0};
	return 0;
}

// sacct and sacctmgr ask slurmdbd themselves. One that is not there, or not to be seen, is no reason to do nothing.
static int accounting(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *s,
		      struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *pod = NULL;
	td_auto_free char *name = td_asprintf("%s-slurmdbd-0", s->cluster);
	int r = td_kube_get(k, &td_pods, w->ns, name, c, &pod, err);
	const char *ip = r ? NULL : td_jstr(pod->root, "status.podIP");
	if (ip && *ip && strspn(ip, IP) == strlen(ip)) {
		char *all = td_asprintf("%s%s %s.%s-slurmdbd.%s.svc.cluster.local %s\n", s->hosts, ip, name, s->cluster,
					w->ns, name);
		free(s->hosts);
		s->hosts = all;
	}
	return r == TD_NOT_FOUND || r == TD_DENIED ? 0 : r;
}

int td_host_look_login(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *ret,
		       struct td_error *err)
{
	td_auto_host_seen struct td_host_seen s = {.cluster = td_strdup(w->set)};
	int r = keys(k, w->ns, c, &s, err);
	if (!r)
		r = controllers(k, w, c, &s, err);
	if (!r && *s.hosts)
		r = accounting(k, w, c, &s, err);
	if (r)
		return r;
	td_host_seen_done(ret);
	*ret = s;
	s = (struct td_host_seen){0};
	return 0;
}
