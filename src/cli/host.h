// tandem host: a machine runs slurmd as a process of its own and is a node of the pool (docs/host.md). With --login it is
// one where people work: host_login.h.
#pragma once

#include "kube/kube.h"

// True when the NodeSet says that the machine has left: spec.hosts does not name it, and Slurm, which has answered
// since that was written, has no record of it. While Slurm does not answer, status.nodes lacks what only it knows.
bool td_host_gone(const yyjson_val *set, const char *name);
// True when the NodeSet has so many members that those which are registered have no line in its status, as this one.
bool td_host_unlisted(const yyjson_val *set, const char *name);

// What one look at the API said.
struct td_host_seen {
	bool known;           // the NodeSet could be read
	bool member, gone;    // spec.hosts names it; td_host_gone
	bool expected;        // the configuration that names it is in force
	bool fresh, recorded; // Slurm answers the operator; it has a record of the node
	char *cluster, *conf; // the SlurmCluster; what slurmd says of the node
	char *hosts;          // lines of /etc/hosts: where slurmctld is; "": nowhere
	char *servers;        // for --conf-server
	struct td_buf key, jwks;
	bool settled;       // whether jobs have containers here is known
	char *containers;   // containers.conf (spank/settings.h); NULL: they have none
	struct td_buf pull; // the pull secret of spec.containers, a Docker config; "": there is none for this machine
	struct td_object *sc, *nodeset; // as they were read; sc NULL: not seen
	bool has_datasets;              // datasets: all of the namespace
	struct td_objects datasets;
	char *lacks; // what containers need and this machine does not get, and the fix; NULL: nothing
};
void td_host_seen_done(struct td_host_seen *s);
#define td_auto_host_seen __attribute__((cleanup(td_host_seen_done)))

// host_pull.c: the pull secret of spec.containers (docs/containers.md).
// What is in such a Secret. TD_INVALID: it is none of type kubernetes.io/dockerconfigjson. Pure.
int td_host_pull_read(const yyjson_val *secret, struct td_buf *ret, struct td_error *err);
// Brings what tandem-container reads (spank/layout.h) to it; "": there is none. For root's eyes only, in `dir` of a
// tmpfs; at `at` a link leads there. A directory of the site's own at that place is left as it is.
int td_host_pull_write(const char *dir, const char *at, const struct td_buf *pull, struct td_error *err);

struct td_host_who {
	const char *ns, *set, *name; // set: the NodeSet, of a login machine the SlurmCluster
	const char *controller;      // slurmctld's address; NULL: that of its pod
	long long cpus, memory_mb;
};
// Looks once. What cannot be read leaves *ret as unknown as it is. TD_DENIED: this machine has no right (any more).
int td_host_look(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *ret,
		 struct td_error *err);
// The same of a login machine: only the keys, where slurmctld and slurmdbd are, and cluster are set. TD_NOT_FOUND: there
// is no such cluster, or it has no key.
int td_host_look_login(struct td_kube *k, const struct td_host_who *w, struct td_cancel *c, struct td_host_seen *ret,
		       struct td_error *err);

// host_node.c: makes the machine's Kubernetes Node, if it is a member and no kubelet has made one, and says that the machine
// lives.
int td_host_node_keep(struct td_kube *k, const struct td_host_who *w, bool member, struct td_cancel *c,
		      struct td_error *err);
// Deletes the Node of a machine that has left this NodeSet; a kubelet's stays.
int td_host_node_drop(struct td_kube *k, const char *set, const char *name, struct td_error *err);

// Takes machines into a NodeSet's spec.hosts, with the right to read what they need, or out of it (tandem node host).
int td_host_admit(struct td_kube *k, const char *ns, const char *set, const struct td_strv *names,
		  struct td_error *err);
int td_host_dismiss(struct td_kube *k, const char *ns, const char *set, const struct td_strv *names,
		    struct td_error *err);
// Takes the right to the key of machines that have left, and of those without it the right to see that they have. Those that are still in the NodeSet's status are counted in *ret_left.
int td_host_forget(struct td_kube *k, const char *ns, const char *set, const struct td_strv *names, size_t *ret_left,
		   struct td_error *err);
