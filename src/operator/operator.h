// The operator's own contracts: pure builders of objects, and what talks to the two APIs.
//
// There is one key per SlurmCluster ("ns/name"). A reconcile reads the caches, ensures the
// cluster's objects, and then looks at every NodeSet that names the cluster. The state is in
// Slurm's records, the pods and the objects; a restart loses only for how long something has been
// so, which is counted anew.
//
// Every call to Slurm takes the view's `call`, every call to Kubernetes the reconcile's own cancel.
//
// Files
//   operator.c metrics.c     the role; what it shows at /metrics
//   cluster.c control.c      a SlurmCluster: its status; the objects of Slurm's daemons
//   percluster.c             a SlurmCluster: its bridge and policies
//   pools.c                  all SlurmClusters: what Slurm gives out, for the admission policies
//   nodeset.[ch] nodeset_rows.c nodeset_wish.c nodeset_act.c nodeset_status.c nodeset_sweep.c
//                            a NodeSet; nodeset.h says how its files work together
//   ondemand.c               NodeSets on demand: what Slurm is told of them
//   autoscale.c              NodeSets whose machines a cluster autoscaler makes
//   quiet.c                  whole looks at a SlurmCluster, and those that find no news
//   dataset.[ch] dataset_pod.c
//                            copies of data sets on nodes; dataset.h says how they work together
//   placeholder.c            pods that show kube-scheduler what native jobs hold
//   missing.c                slurmds that Slurm has forgotten, and since when
//   slurmd.c devices.c vendor.c gputypes.c gpunuma.c gputold.c gpushares.c nics.c containers.c scratch.c
//   filter.c                 a node's share and its slurmd pod; spec.devices; spec.containers; spec.scratch; filters of
//                            system calls
//   tenantnames.c            what agents call the Tenants of accounts with other names
//   cutting.c                spec.gpuCutting: what nodes say of it, and the NodeActions that the bridge asks for
//   nodekinds.c              the kinds of nodes, and their lines of gres.conf
//   storage.c identity.c     file systems that pods share; users of a directory service
//   munge.c keys.c           spec.auth: munge; keys are turned over
//   firewall.c               spec.jobNetwork: the firewall between users in pods of slurmd and logins
//   topology.c fabric.c      where nodes are; spec.topology; what is wrong with spec.fabric.planes
//   trial.c                  tries a configuration before it is written
//   health.[ch] nodeaction.c nodecut.c nodedevice.c nodeslurmd.c slow.c nodetest.c probe.c record.c healthpolicy.c
//   upgrade.[ch] upgrade_slurm.c
//                            nodes' health, and acts on nodes; health.h says how they work together
//   other.c                  NodeSets whose nodes are another cluster's
//   join.[ch]                new machines: tokens, and their requests for certificates
//   references.c             names in spec.scheduler that must lead somewhere
//   qos.c                    the QOS of spec.preemption, in slurmdbd
//   scripts.c                the site's ConfigMaps that a SlurmCluster refers to
//   logins.c                 what has failed in login pods that run
//   groups.c storagegroups.c storageclasses.c resource groups, and to whom they are granted; those of storage
//   tenant.[ch] tenant_read.c tenant_people.c tenant_objects.c tenant_slurm.c
//   tenant_qos.c tenant_storage.c tenant_project.c tenant_filters.c tenant_word.c
//                            the Tenants of a SlurmCluster, and Projects; tenant.h says how its files work together
//   build.c ensure.c view.c  helpers of builders; create or patch objects; a cluster's Slurm as
//                            last seen
#pragma once

#include "api/othercluster.h"
#include "api/status.h"
#include "base/names.h"
#include "far/far.h"
#include "kube/controller.h"
#include "pool/nodeset.h"
#include "slurm/conf.h"
#include "slurm/rest.h"
#include "slurm/view.h"

#include <pthread.h>
#include <stdatomic.h>

// ---- build.c, control.c: the cluster's objects (pure) ----

struct td_op_want {
	const struct td_gvr *gvr;
	struct td_json *obj;
	bool once;   // created when absent, changed by keys.c only (keys)
	char *field; // of the SlurmCluster ("spec.login[0]"), whose template shaped it; NULL: none
};
struct td_op_wants {
	struct td_op_want *v;
	size_t n;
};
void td_op_wants_add(struct td_op_wants *w, struct td_op_want x); // takes x.obj and x.field
void td_op_wants_done(struct td_op_wants *w);
#define td_auto_wants __attribute__((cleanup(td_op_wants_done)))
// Builds every object of a cluster except slurmd pods, in the order of creation. Keys in Secrets
// are random, so those objects are marked `once`. image: as for td_op_slurmd_pod. TD_INVALID: a
// template does not merge; err names the field.
int td_op_cluster_objects(const yyjson_val *cluster, const struct td_slurm_files *files, const char *image,
			  struct td_op_wants *ret, struct td_error *err);
char *td_op_hash(const char *s, size_t n); // 16 hex digits; caller frees
// Returns a hash of the configuration that daemons must be told about: all but the users. The caller
// frees it.
char *td_op_files_hash(const struct td_slurm_files *f);
// Returns a hash of what of it a running daemon does not take over by `scontrol reconfigure`. The caller
// frees it.
char *td_op_restart_hash(const struct td_slurm_files *f);
// Returns templates/<file> with its words filled in: td_op_template("config.yaml", {"cluster",
// name}). The caller frees it. Aborts when the file is malformed.
yyjson_mut_doc *td_op_fill(const char *file, const struct td_json_word *words, size_t n);
#define td_op_template(file, ...)                                                                                      \
	td_op_fill(file, (const struct td_json_word[]){__VA_ARGS__},                                                   \
		   sizeof((const struct td_json_word[]){__VA_ARGS__}) / sizeof(struct td_json_word))
const char *td_op_program(const char *file); // the text of programs/<file>
// Returns the element of `list` in o that has that name; NULL: none.
yyjson_mut_val *td_op_named(const yyjson_mut_val *o, const char *list, const char *name);
// Puts a copy of v at that path of o, or (path NULL) at the end of the list o. v NULL: does
// nothing.
void td_op_put(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v);
#define TD_OP_SLURM_IMAGE "tandem/slurm:24.11" // where the spec names none
#define TD_OP_STANDIN "tandem"                 // the init container with Tandem's own image
// For pods on a kubelet: adds an init container that puts tandem-standin into the volume
// tandem-bin.
void td_op_bring_standin(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *image);
// Where nodes are, for topology.conf (slurm/topology.h). Nothing is added where spec.topology.type is none.
struct td_op_places {
	struct td_slurm_place *v;
	struct td_strv *ids;   // with spec.topology.fabric: GUIDs of each node's adapters, and "@eth5", its interfaces
	size_t n, cap, levels; // levels 0: one for each label
};
// node: NULL of a machine that is none of Kubernetes': only the fabric may know it.
void td_op_places_add(struct td_op_places *p, const yyjson_val *cluster, const char *name, const yyjson_val *node);
// With spec.topology.fabric: finds them in the fabric's text, which is in texts. A problem says what is wrong with it.
void td_op_places_find(struct td_op_places *p, const yyjson_val *cluster, const struct td_slurm_facts *texts,
		       struct td_strv *problems);
void td_op_places_done(struct td_op_places *p);

// Adds what containers in jobs need (spec.containers) to the spec of a slurmd pod, or of a login pod, which also gets the
// files of the other plug-ins that plugstack.conf names. Nothing where they are turned off. image: as above; NULL: embedded.
void td_op_containers_slurmd(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *cluster);
// The same for a job's own /tmp and /dev/shm (spec.scratch), in a slurmd pod.
void td_op_scratch(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *cluster);
// The same for filters of system calls of projects' jobs.
void td_op_filter(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *cluster);
// Adds the firewall between users to a pod where their processes run, when spec.jobNetwork asks for it. TD_INVALID: the
// pod has the machine's network.
struct td_op_firewall {
	const yyjson_val *cluster, *template; // template: merged over the pod later
	const char *field;                    // of the template
	const char *standin;                  // image that brings tandem-standin; NULL: the node has it
	bool jobs;                            // slurmd's; else a login's
};
int td_op_firewall(yyjson_mut_doc *d, yyjson_mut_val *spec, const struct td_op_firewall *f, struct td_error *err);
// The same for the copies of data sets (spec.datasets; dataset.h).
void td_op_datasets_mount(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *cluster);
void td_op_containers_login(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *cluster, const char *image);
// Adds metadata.ownerReferences with controller=true.
void td_op_own(yyjson_mut_doc *d, yyjson_mut_val *obj, const yyjson_val *owner, const struct td_gvr *gvr);
// Merges a pod template ({metadata, spec}) over the generated one at `at` of d. The generated
// identity (labels that selectors need, annotations) wins. field: the template's, for messages.
int td_op_merge_template(yyjson_mut_doc *d, yyjson_mut_val *at, const yyjson_val *over, const char *field,
			 struct td_error *err);
// True when everything in `want` is in `live` with the same value. What the server added does not
// count. Quantities compare by value.
bool td_op_covers(const yyjson_val *live, const yyjson_val *want);
// For handlers of changes: both are there, and neither the spec has changed nor whether it is being deleted.
bool td_op_same_spec(const struct td_object *old, const struct td_object *now);

// ---- slurmd.c: a node's share and pod (pure) ----

// An amount as text, which may be a number there; def: it is not there. buf may be what is returned.
const char *td_op_quantity(const yyjson_val *map, const char *key, char buf[32], const char *def);

enum { TD_OP_TYPES = 256, TD_OP_NUMA = 129 };
#define TD_SHARE_PARTS "numaNodes" // key of the share: how many there are, where the last ones have no devices
struct td_op_share {
	long long cpus, memory_mb, gpus;
	// The GPUs' types in the order of Slurm's indexes, "h100:4,a100:4"; "": Slurm knows no types of them.
	char types[TD_OP_TYPES];
	// For each GPU the part of the node that it hangs at, a digit: a NUMA node, or where there is only one of these, an
	// island of linked GPUs; "": nothing says it. cpus is then a multiple of their number: each has as many cores.
	char numa[TD_OP_NUMA];
	long long parts; // how many there are, where the last ones have no GPUs; 0: as numa says
	bool shared;     // its GPUs are given out in shares, too
	long long nics;  // adapters of the network that are given out
};
// The GPUs of a node, as they were found.
struct td_op_found {
	long long n;                // -1: as the node's extended resource says
	char types[TD_OP_TYPES];    // as above, of all n; "": nothing says them but the node's label (gputypes.c)
	const struct td_json *told; // td_op_told_read() of the node, which somebody else keeps; NULL: not read, or none
};
// Adds what a pod outside Slurm requests on a node whose devices are of that resource, also parts of these.
void td_op_others_add(const yyjson_val *spec, const char *resource, struct td_pool_reserve *v);
// Computes a node's share: allocatable minus reserve. gpus: what was found; NULL: as the node's
// extended resource says. False, with a reason in *why, when nothing is left or the spec asks for
// more than there is.
bool td_op_share_of(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node,
		    const struct td_op_found *gpus, struct td_op_share *ret, struct td_error *why);
// Returns the annotation's JSON. The caller frees it.
char *td_op_share_text(const struct td_op_share *s, const char *resource);
// Reads the annotation. False: there is none, or it is of another resource.
bool td_op_share_parse(const char *s, const char *resource, struct td_op_share *ret);
// Returns the image of a node's slurmd: spec.slurm.slurmdImage while there is one, except where the Node says by name
// that it has spec.slurm.image. So nobody who may only annotate Nodes chooses an image that the SlurmCluster does not
// name. Points into the arguments.
const char *td_op_slurmd_image(const yyjson_val *cluster, const yyjson_val *node);
// Builds the wanted slurmd pod, with its revision in an annotation. TD_INVALID names the field of
// the NodeSet. image: Tandem's own, from which pods on kubelets take tandem-standin; NULL:
// embedded, where the agent shows it to them.
int td_op_slurmd_pod(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node,
		     const struct td_op_share *share, const char *image, struct td_json **ret, struct td_error *err);
char *td_op_slurmd_name(const char *cluster, const char *nodeset, const char *node); // caller frees
// Returns what is wrong with spec.affinity; NULL: nothing. One that says nothing would select every
// node.
const char *td_op_affinity_problem(const yyjson_val *nodeset);
// Adds "spec.…: what; fix" for every problem of a NodeSet's own fields.
void td_op_nodeset_check(const yyjson_val *nodeset, struct td_strv *problems);

// ---- cutting.c: spec.gpuCutting, GPUs that are cut because somebody waits for a part ----

// Adds what keeps a NodeSet from it.
void td_op_cutting_check(const yyjson_val *nodeset, struct td_strv *problems);
// Adds the parts that GPUs of the node may be cut in by its NodeSet (NULL: it has none), each once. seen: what was read
// before, so that nodes that are alike are read once.
struct td_object;
void td_op_cutting_kinds(const struct td_object *set, const struct td_object *node, struct td_strv *seen,
			 struct td_strv *ret);
// What TD_ANN_GPU_CUTTING of its nodes says; NULL: they are not cut. The caller frees it.
char *td_op_cutting_text(const yyjson_val *nodeset);

// ---- storage.c: file systems that pods share (pure but for td_op_storage_claims) ----

// Adds every problem of spec.storage and spec.controller.storage.
void td_op_storage_check(const yyjson_val *sc, struct td_strv *problems);
// Adds a problem for every PersistentVolumeClaim that the spec names and that is not there: a pod
// with it would wait for ever.
struct td_op;
void td_op_storage_claims(struct td_op *op, const struct td_object *sc, struct td_strv *problems);
// Adds the volumes of spec.storage to a pod's spec, and mounts them in its first container. where:
// "login" or "compute"; or "logins" and "slurmd": as these, and file systems of storage groups, where what shows them to
// some finds them (spank/groupfs.h); no other pod has these.
void td_op_storage_mount(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *where);
// Adds what shows them to a pod of "logins" that has some. kubelet: it is beside one.
void td_op_storage_logins(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, bool kubelet);
// Makes the volume what storage ({hostPath: {path, node}} or {claim}) says, instead of an emptyDir.
// With hostPath the pod runs on that node.
void td_op_storage_own(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *volume, const yyjson_val *storage);
// Returns what homes.sh reads: a line "home|user|group PATH" for each directory below which it
// makes some. The caller frees it.
char *td_op_storage_list(const yyjson_val *sc);

// ---- identity.c: users of a directory service (pure) ----

// Adds every problem of spec.identity.
void td_op_identity_check(const yyjson_val *sc, struct td_strv *problems);
// Returns sssd.conf without the password; its last section is the directory's. NULL: the spec names
// no directory. The caller frees it.
char *td_op_identity_conf(const yyjson_val *sc);
// Adds SSSD to a pod, for its first container. image NULL: it is filled in later. Without a directory
// it does nothing.
void td_op_identity_add(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *image);

// ---- munge.c (pure) ----

// Adds munged to a pod, for all its containers, where spec.auth.type is munge. image NULL: it is filled in later.
void td_op_munge_add(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *sc, const char *image);
// Adds a problem when spec.auth.type is another one than in the ConfigMap that is in force (NULL: there is none) and
// jobs run: whoever proved by the old type who he is, is nobody then.
struct td_op_view;
void td_op_auth_change(const yyjson_val *config, const yyjson_val *sc, const struct td_op_view *v,
		       struct td_strv *problems);

// ---- keys.c ----

// Makes the next step of turning the keys over, if one is due.
int td_op_keys_sync(struct td_op *op, struct td_object *sc, struct td_op_view *v, int64_t *again_ms,
		    struct td_cancel *c, struct td_error *err);
// Adds status.keys.
void td_op_keys_status(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d, yyjson_mut_val *status);
// Adds a problem when spec.auth asks for keys that are gone.
void td_op_keys_check(struct td_op *op, const struct td_object *sc, struct td_strv *problems);

// ---- storagegroups.c ----

// Adds status.storageGroups: what is claimed of each, in all namespaces.
void td_op_storage_groups_status(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d,
				 yyjson_mut_val *status);
bool td_op_storage_groups_any(const struct td_op *op);
// Why not all who have been granted a file system have it, in words: the list of them is too long. NULL: all have. The
// caller frees it.
char *td_op_storage_groups_left(struct td_op *op, const struct td_object *sc);
// Is the entry of spec.storage of this name in a storage group, so that not everybody has it?
bool td_op_storage_grouped(const yyjson_val *sc, const char *entry);

// ---- references.c: names in the spec that must lead somewhere (pure) ----

// Adds a problem for every partition, user and account in spec.scheduler that cannot be there.
void td_op_references_check(const yyjson_val *sc, struct td_strv *problems);

// ---- logins.c ----

// What has failed in login pods that run, in one line; NULL: nothing. Asks the API every 10 s. It is the view's.
const char *td_op_logins_failed(struct td_op *op, const struct td_object *sc, struct td_op_view *v,
				struct td_cancel *c);
// What the event of a login's probe says that fails still; NULL: it says nothing. Points into the event. Pure.
const char *td_op_login_words(const yyjson_val *event, int64_t now_ms);

// ---- fabric.c ----

// What is wrong with nodes' planes, in one line of bounded length; NULL: nothing. The caller frees it.
char *td_op_planes_text(const struct td_strv *problems);

// ---- groups.c ----

// Fills the facts of resource groups: whose accounts may use which. They live in the arena.
void td_op_groups_gather(struct td_op *op, const struct td_object *sc, struct td_arena *arena,
			 struct td_slurm_facts *facts);
// Does the change of a Tenant (NULL: none) change what is granted?
bool td_op_groups_changed(const struct td_object *old, const struct td_object *now);

// ---- scripts.c: what a SlurmCluster refers to in ConfigMaps of the site ----

struct td_op_texts {
	struct td_slurm_text *v; // point into the SlurmCluster and into `held`
	size_t n, bytes;
	struct td_objects held;
};
void td_op_texts_done(struct td_op_texts *t);
#define td_auto_texts __attribute__((cleanup(td_op_texts_done)))
// Finds every text; a problem for each that is not there.
int td_op_texts_gather(struct td_op *op, struct td_object *sc, struct td_op_texts *ret, struct td_strv *problems,
		       struct td_cancel *c, struct td_error *err);
void td_op_on_site(void *ctx, struct td_object *old, struct td_object *now); // one of them changed

// ---- devices.c: spec.devices; pure but for td_op_gpus, which reads the caches ----

bool td_op_dra(const yyjson_val *sc);             // true with source DRA
const char *td_op_resource(const yyjson_val *sc); // "nvidia.com/gpu"
// Adds every problem of spec.devices. served: the API serves resource.k8s.io/v1.
void td_op_devices_check(const yyjson_val *sc, bool served, struct td_strv *problems);
// Adds a problem when the DeviceClass of spec.devices is not there. Nobody could place a slurmd pod
// with a claim of it.
void td_op_devices_class(struct td_op *op, const struct td_object *sc, struct td_cancel *c, struct td_strv *problems);
// Returns what was found, in words. The caller frees it.
char *td_op_devices_text(const yyjson_val *sc, long long gpus, long long nodes);
// Finds the GPUs of a node; *ret is for td_op_share_of. False: what the driver publishes, or the
// spec, cannot be used; why says what.
bool td_op_gpus(struct td_op *op, const yyjson_val *sc, const struct td_object *node, struct td_op_found *ret,
		struct td_error *why);
char *td_op_claim_template(const yyjson_val *sc); // name of the ResourceClaimTemplate; caller frees
yyjson_mut_doc *td_op_claim_template_object(const yyjson_val *sc);
// Adds to a slurmd pod the claim of its devices, and the node by affinity.
void td_op_slurmd_claims(yyjson_mut_doc *d, yyjson_mut_val *pod, const yyjson_val *sc, const char *node);
// Returns the node of a slurmd pod, scheduled or not; NULL: none.
const char *td_op_pod_node(const struct td_object *pod);
// Returns why kube-scheduler has found no place; NULL: it has, or was not asked.
const char *td_op_unscheduled(const struct td_object *pod);

// ---- vendor.c: which of spec.devices a node has (pure) ----

// The adapters of a node that Slurm gives out, in the order of its indexes.
struct td_op_nics {
	char files[2048]; // '+' between those of one, with commas
	char part
		[TD_OP_NUMA]; // for each the part of the node that it hangs at, a digit, as td_op_share.numa; '-': not known
	long long n;
};
// What is known of a node's devices.
struct td_op_vendor {
	char resource[254];
	char files
		[6144]; // of its devices, '+' between those of one, with commas, as the machine tells; "": as spec.devices or the vendor's description say
	const char *flags; // of gres.conf, static; NULL: Slurm's own
	char type[40];     // of devices whose product is not known; "": they need none, because the pool has one kind
	struct td_op_nics nics;
};
// Returns the entry of spec.devices; NULL: the spec has none.
const yyjson_val *td_op_node_devices(const yyjson_val *sc, const yyjson_val *node);
const char *td_op_node_resource(const yyjson_val *sc, const yyjson_val *node);
// Sets the types where a GPU of the node is cut (MIG): each part's is its profile, a whole GPU's as ever, and "nvidia"
// where nobody knows it. False: the node has parts, and what is told of them is not enough.
bool td_op_types_parts(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus, struct td_error *why);
// gpus: n of them, and what the machine tells.
void td_op_vendor_of(const yyjson_val *sc, const yyjson_val *node, const struct td_op_found *gpus,
		     struct td_op_vendor *ret);
// Reads what the machine tells of its devices (annotation tandem.dev/gpus), once for all that ask it; NULL: nothing. The
// caller unrefs it.
struct td_json *td_op_told_read(const yyjson_val *node);
// Of that the n devices of a resource; NULL: nothing, or it tells of others. n below 0: of -n or more.
yyjson_val *td_op_told(const struct td_json *told, const char *resource, long long n);
// True when the device i has several files (MIG): it needs a line of its own.
bool td_op_device_several(const struct td_op_vendor *v, long long i);
// Returns how many of the n devices (1 or more) from this one on can be of one line.
long long td_op_device_run(const struct td_op_vendor *v, long long from, long long n);
// Returns File= of gres.conf for n devices, the first of them at index `from`. The caller frees it.
char *td_op_device_files(const yyjson_val *sc, const struct td_op_vendor *v, bool fake, long long from, long long n);

// ---- nodekinds.c: the kinds of nodes, and their lines of gres.conf (pure) ----

// What a node has. fake: its devices are those of the embedded plane.
struct td_op_of {
	const struct td_op_share *share;
	const struct td_op_vendor *vendor;
	bool fake, other; // other: a node of another cluster
};
struct td_op_kind;
// Starts empty ({0}), and holds any number of kinds.
struct td_op_kinds {
	struct td_op_kind **v, *table; // in the order of their first nodes; the same by what they have
	size_t n;
	long long gpus, gpu_nodes;   // of all nodes
	struct td_slurm_gres *lines; // of gres.conf
	size_t n_lines;
	struct td_strv texts; // strings the lines point to
};
void td_op_kinds_add(struct td_op_kinds *k, const char *node, const struct td_op_of *of);
// Sets the lines, once, when all nodes are added. With one kind of node, one line stands for all, so that further nodes
// of that kind change nothing. With several kinds, lines name their nodes.
void td_op_kinds_lines(struct td_op_kinds *k, const yyjson_val *sc);
// Does a gres.conf that was written so have the lines of this node as it is now?
bool td_op_kinds_written(const yyjson_val *sc, const char *node, const struct td_op_of *of, const char *gres_conf);
void td_op_kinds_done(struct td_op_kinds *k);

// ---- gputypes.c: types of GPUs (pure) ----

// Returns the type that stands for a product ("NVIDIA-H100-80GB-HBM3": "h100"), by spec.devices[0].types or from
// the words of the name. NULL: it has none. The caller frees it.
char *td_op_gpu_type(const yyjson_val *sc, const char *product);
// Appends n GPUs of a type to a list of types. False: the list is too long.
bool td_op_types_add(char types[TD_OP_TYPES], const char *type, long long n);
// Reads the next part of a list of types. False: there is no further one, or it is none.
bool td_op_types_next(const char **list, char type[64], long long *ret_n);
// True when GPUs of one type are next to each other. Else their indexes are not those of the devices: Slurm numbers
// the GPUs of one type one after the other (S-D8).
bool td_op_types_together(const char *list);
// Cuts a list of types after n GPUs.
void td_op_types_cut(char types[TD_OP_TYPES], long long n);
// Reads spec.slurm.gres of a NodeSet: "gpu:8", "gpu:h100:4,gpu:a100:4". TD_INVALID says what to write.
int td_op_gres_read(const char *gres, struct td_op_found *ret, struct td_error *err);
// Writes the types and their counts, each type once: "gpu:h100:4,gpu:a100:4". s has GPUs.
void td_op_gres_write(const struct td_op_share *s, struct td_buf *ret);
// Sets the types of a node's GPUs from its label, when they are of one type.
void td_op_types_label(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus);
// ---- gputold.c: what the machine itself says of its GPUs, as the agent writes it on the Node (pure) ----

// Sets the types from the products, when all of the node's GPUs have one and no label is turned off.
void td_op_types_told(const yyjson_val *sc, const yyjson_val *node, struct td_op_found *gpus);
// Sets the parts that the GPUs hang at and how many there are: the machine's NUMA nodes, or where it has one only, the
// islands of GPUs that are linked with each other, when all are of one size.
void td_op_numa_told(const yyjson_val *sc, const yyjson_val *node, const struct td_op_found *gpus, char ret[TD_OP_NUMA],
		     long long *ret_parts);

// ---- gpunuma.c: the cores that are near to a GPU (pure) ----

// Reads the Node annotation TD_ANN_GPU_NUMA. False: why says what is wrong with it.
bool td_op_numa_read(const char *text, long long gpus, char ret[TD_OP_NUMA], struct td_error *why);
long long td_op_numa_parts(const char *numa); // how many NUMA nodes; 1 of ""
// How many parts a node has, those without GPUs too: Slurm's sockets.
long long td_op_share_parts(const struct td_op_share *s);
// How many GPUs from this one on, before `to`, hang at the same one.
long long td_op_numa_run(const char *numa, long long from, long long to);
// Returns Cores= of gres.conf for a GPU; NULL: any. The caller frees it.
char *td_op_numa_cores(const struct td_op_share *s, long long gpu);

// ---- nics.c: adapters of the network that are given out (pure) ----

// Finds them, as the node's agent wrote them down and spec.fabric says. share: where its GPUs hang (numa, parts).
void td_op_nics_find(const yyjson_val *sc, const yyjson_val *node, const struct td_op_share *share,
		     struct td_op_nics *ret);
// What gres.conf says of the i-th: its files, and the cores next to it (NULL: not known). The caller frees both. False:
// there are fewer.
bool td_op_nics_line(const struct td_op_nics *nics, const struct td_op_share *s, long long i, char **ret_files,
		     char **ret_cores);
// Adds "nic:2" for Gres=, with a comma behind GPUs.
void td_op_nics_write(const struct td_op_share *s, struct td_buf *ret);
bool td_op_nics_differ(const char *record_gres, const struct td_op_share *s); // a record that is NULL has none

// ---- gpushares.c: shares of GPUs (pure) ----

bool td_op_shares_wanted(const yyjson_val *nodeset); // spec.slurm.gpuSharing is not None
// Sets `shared`; the GPUs and their types are there already.
void td_op_shares_set(const yyjson_val *nodeset, struct td_op_share *s);
long long td_op_shares_units(const struct td_op_share *s);
// Appends ",shard:200".
void td_op_shares_write(const struct td_op_share *s, struct td_buf *ret);
// True when Slurm's record of a node has other units than the share.
bool td_op_shares_differ(const char *record_gres, const struct td_op_share *s);

// True when Slurm's record of a node has other GPUs than the share.
bool td_op_gpus_differ(const char *record_gres, const struct td_op_share *s);
// Adds every problem of spec.devices[0].types.
void td_op_types_check(const yyjson_val *sc, struct td_strv *problems);

int td_op_name_cmp(const char *a, const char *b); // sorts n2 before n10
void td_op_sort(struct td_objects *l);            // by name

// ---- trial.c: a configuration is tried before it is written ----

struct td_op;
struct td_op_view;
// Returns a hash of what decides whether slurmctld starts. plain: the files as if there were no
// nodes. ctld: the StatefulSet of slurmctld. The caller frees it.
char *td_op_trial_print(const yyjson_val *sc, const struct td_slurm_files *plain, const yyjson_val *ctld);
// Builds the ConfigMap and the pod, both of that name (pure). oldest: the release of the oldest slurmd; "": none.
void td_op_trial_objects(const yyjson_val *sc, const struct td_slurm_files *files, const yyjson_val *ctld,
			 const char *name, const char *oldest, struct td_op_wants *ret);
struct td_op_try {
	const char *print;
	const struct td_slurm_files *files;
	const yyjson_val *ctld;
};
// Goes on with the trial of a configuration. Afterwards v->problem says why it is refused,
// v->trying that it is not known yet; neither: it may be written.
int td_op_trial(struct td_op *op, struct td_object *sc, const struct td_op_try *t, struct td_op_view *v,
		struct td_cancel *c, struct td_error *err);

// ---- missing.c: slurmds that Slurm has forgotten (explained in pool/nodeset.h) ----

struct td_op_missing {
	struct td_op_absent {
		char *node, *pod; // pod: uid of the pod that is missed; NULL: not missed now
		struct td_pool_absence a;
	} *v;
	size_t n;
};
// Notes one look at one node. Returns the same as td_pool_absence_look.
int64_t td_op_missing_look(struct td_op_missing *m, const char *node, const char *pod, enum td_pool_sight sight,
			   int64_t now_ms);
// Notes that its pod is being replaced.
void td_op_missing_restarted(struct td_op_missing *m, const char *node);
void td_op_missing_done(struct td_op_missing *m);
// Forgets which pods nodes should have that no pass since the last call has asked for, or all.
struct td_op_view;
void td_op_wishes_forget(struct td_op_view *v, bool all);

// ---- operator.c, cluster.c, nodeset.c ----

// Does the API's core group serve this, such as pods/resize?
int td_op_core_served(struct td_kube *k, const char *resource, bool *ret, struct td_cancel *c, struct td_error *err);
// Does it serve MutatingAdmissionPolicies, at v1 or v1beta1?
int td_op_mutates(struct td_kube *k, bool *ret, struct td_cancel *c, struct td_error *err);
// What the SlurmCluster asks of the API server and it does not serve, with what follows. NULL: nothing. *ret_asked: it asks
// for something that an older Kubernetes does not serve. Caller frees.
char *td_op_api_lacks(const struct td_op *op, const yyjson_val *sc, bool *ret_asked);
struct td_op;
// One cluster's Slurm as last seen. The worker that holds the cluster's key uses it.
struct td_op_view {
	char *key;
	// Ends calls to Slurm when the operator stops or their slurmrestd is gone. td_op.lock
	// guards it.
	struct td_cancel *call;
	struct td_slurm *slurm;
	char *uid;       // of the SlurmCluster
	char *url, *jwt; // of `slurm`
	struct td_slurm_nodes nodes;
	struct td_slurm_nodes_pace pace;                       // when they are read again
	bool known;                                            // nodes come from this slurmrestd
	bool fresh;                                            // and are recent enough now
	int64_t fetched, changed, cost, last_cost, first_seen; // ms, monotonic
	int64_t per_cluster_ms; // when what the bridge has besides was seen to be there; 0: not yet
	uint64_t hash;          // of nodes
	uint64_t print;         // of all of them that anything here is made of, without what jobs have on them
	uint64_t jobs_print;    // with it (td_op_nodes_print)
	char *version;
	char error[256];           // why there is no answer
	long long gpus, gpu_nodes; // GPUs of its nodes; nodes that have any
	size_t n_nodes;
	char *problem;                // of the SlurmCluster's spec, all in one line; NULL: none
	bool absent;                  // it is only that other objects are not there, or not as they have to be
	char *planes;                 // what is wrong with the network's planes; NULL: nothing
	char *trying;                 // a new configuration is being tried, in words; NULL: none is
	char *config_hash;            // of the configuration it asks for; NULL: none that is valid
	char *restart_hash;           // of the part of it that needs new pods
	char *before;                 // hash of the one that was in force before it; NULL: not known
	char *active;                 // hash of the one last put in force; NULL: as the status says
	struct td_op_missing missing; // a new leader starts to count anew
	struct td_op_wish *wishes;    // by node (nodeset.h)
	bool resize_said;             // that spec.placeholders has no effect
	struct td_op_qos {            // the QOS of spec.preemption
		int64_t gen;          // of the SlurmCluster as which they were written; 0: not
		int64_t due_ms;       // mono: when to look again
		bool known, failed;   // known: they were looked at. failed: at the last time
		char *problem;        // NULL: they are as declared
	} qos;
	struct {                // logins.c
		int64_t due_ms; // mono: when to look again
		bool known;     // the API has said it
		char *failed;   // NULL: nothing that is known
	} logins;
	bool in_force;          // the configuration that it asks for is
	struct td_op_looked {   // the last whole look (quiet.c)
		unsigned news;  // td_op.news before it
		uint64_t print; // of Slurm's nodes, as v->print
		uint64_t jobs_print;
		bool done;                // without a failure
		bool moving, unsettled;   // as in pool/look.h
		int64_t end_ms, due_ms;   // mono: when it ended; 0: there was none. due_ms: as in pool/look.h
		int64_t again_ms, cpu_us; // when Slurm is asked again; what it took
	} looked;
	struct td_op_view *next;
};
struct td_op {
	struct td_kube *k;
	struct td_far *far; // other.c
	struct td_far_streams streams;
	const char *empty_dirs;           // slurm/where.h; NULL: not known
	const char *image;                // Tandem's own, on kubelets; NULL: embedded
	const char *per_cluster, *own_ns; // percluster.c; NULL: somebody else starts bridges
	struct td_queue *q, *tenant_q;    // tenant_q: keys of SlurmClusters too (tenant.h)
	struct td_recorder *events;
	struct td_informer *clusters, *nodesets, *nodes, *pods, *configmaps, *secrets, *services, *statefulsets,
		*deployments, *budgets, *claims, *tenants,
		*datasets;                      // tenants: for resource groups; tenant.h has its own
	struct td_informer *site;               // ConfigMaps of the site that SlurmClusters refer to
	struct td_informer *slices, *templates; // NULL: the API does not serve resource.k8s.io/v1
	struct td_op_view *views;               // guarded by lock, an entry by its key's worker
	atomic_uint news;                       // grows with each change in the caches that matters here
	struct td_op_status *statuses;          // guarded by lock, by uid (quiet.c)
	bool resize;                            // the API serves pods/resize
	bool mutates;                           // and MutatingAdmissionPolicies, at a version that is no alpha
	bool stopping;                          // guarded by lock: no new calls to Slurm
	pthread_mutex_t lock;
	// health.h: names of nodes; NodeActions, HealthPolicies, NodeUpgrades.
	struct td_queue *health;
	struct td_informer *actions, *policies, *upgrades;
	struct td_objects
		deleted;        // guarded by lock: NodeActions that somebody deleted, until they have a line (record.c)
	struct td_queue *joins; // join.h
};
// ---- quiet.c: looks without news ----
// Handlers of the caches: they note what is news for a whole look. _spec: for objects whose status is no news while it
// is the one that was found.
void td_op_news_any(void *op, struct td_object *old, struct td_object *now);
void td_op_news_node(void *op, struct td_object *old, struct td_object *now);
void td_op_news_pod(void *op, struct td_object *old, struct td_object *now);
void td_op_news_spec(void *op, struct td_object *old, struct td_object *now);
void td_op_news_claim(void *op, struct td_object *old, struct td_object *now);
void td_op_news_budget(void *op, struct td_object *old, struct td_object *now);
// False for what changes on a Node all the time: heartbeats, and what native jobs hold.
bool td_op_node_news(const struct td_object *old, const struct td_object *now);
bool td_op_pod_news(const struct td_object *old, const struct td_object *now); // the same of pods
// Calls fn for each annotation of a Node but those that say what jobs hold.
void td_op_notes_each(const yyjson_val *node, void (*fn)(void *ctx, const char *key, const char *value), void *ctx);
// A fingerprint of all that is used here. jobs: with what jobs have on nodes that are in order.
uint64_t td_op_nodes_print(const struct td_slurm_nodes *l, bool jobs);
// Notes which status a look has found for an object of td_op_news_spec, before it is written: any other one is news.
void td_op_status_found(struct td_op *op, const struct td_object *o, yyjson_mut_doc *status);
void td_op_statuses_free(struct td_op *op);
// True: nothing is to be worked out before *again_ms. The SlurmCluster is the same as at the last whole look. news:
// td_op.news, read before any cache was: what came later is news for the next look.
bool td_op_look_quiet(struct td_op *op, struct td_object *sc, struct td_op_view *v, unsigned news, int64_t *again_ms,
		      struct td_cancel *c);
// Around a whole look. done: nothing failed. due_ms: in which time something is due by the clock; 0: nothing. *again_ms:
// when Slurm is to be asked again; the lesser of both comes back.
void td_op_look_begin(struct td_op_view *v, unsigned news);
void td_op_look_end(struct td_op_view *v, bool done, int64_t due_ms, int64_t *again_ms);

// The reconciler of the role's one controller.
int td_op_reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// ---- other.c: nodes of other clusters (far/far.h) ----

// Runs the links that the NodeSets ask for, until c fires.
void td_op_others_run(struct td_op *op, struct td_cancel *c);
// What is wrong with the link of a NodeSet; NULL: nothing. The caller frees it.
char *td_op_other_problem(struct td_op *op, const struct td_object *set);
// Adds every problem of spec.otherCluster that is not one of the link.
void td_op_other_check(const yyjson_val *cluster, const yyjson_val *set, struct td_strv *problems);
// True when the Node stands for one of another cluster's.
bool td_op_other_node(const yyjson_val *node);
// True when the NodeSet selects the node, by selector, affinity and taints.
bool td_op_selects(const struct td_object *set, const struct td_object *node);
// True when Slurm's record is of a node that registered by itself for the NodeSet with that mark (td_slurm_set_feature).
bool td_op_has_mark(const struct td_slurm_node *r, const char *mark);
// Appends a toleration of that taint, whatever its value.
void td_op_tolerate(yyjson_mut_doc *d, yyjson_mut_val *tolerations, const char *key, const char *effect);
// Appends to spec.tolerations what a slurmd pod tolerates: the taints that a DaemonSet's pods
// tolerate, the taint that shows a drain, and the NodeSet's own.
void td_op_tolerations(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *nodeset);
// Returns the NodeSet that a node belongs to: the one whose slurmd pod is there, else the oldest
// that selects the node and whose cluster exists. NULL: none. The caller unrefs it.
struct td_object *td_op_claim(struct td_op *op, const struct td_object *node);
// Ensures the objects of a cluster. A wrong spec is no error: v->problem says what is wrong.
int td_op_cluster_sync(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_objects *sets,
		       struct td_cancel *c, struct td_error *err);
// Returns the SlurmCluster with the image that passed its trial, and with the storage and identity
// that passed their checks, which is what new slurmd pods get.
// The caller unrefs it.
struct td_json *td_op_in_force(struct td_op *op, struct td_object *sc);
// Returns when the slurmctld that runs the configuration in force was made, in ms of real time; 0:
// none is in force.
int64_t td_op_config_since(struct td_op *op, struct td_object *sc, const struct td_op_view *v);
// Puts a new configuration in force where that is due, and writes the status.
int td_op_cluster_status(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
			 struct td_error *err);
// One reconcile of the NodeSets of a cluster, as its steps share it.
struct td_op_pass {
	struct td_op *op;
	struct td_object *sc; // NULL: the cluster is gone, and its slurmd pods go too
	const char *ns, *cluster;
	struct td_op_view *v;
	struct td_objects *sets;
	struct td_cancel *c;
	const yyjson_val *in_force; // the SlurmCluster as slurmd pods have it (td_op_in_force)
};
// *again_ms: when to look again at the latest.
int td_op_nodesets_sync(const struct td_op_pass *p, int64_t *again_ms, struct td_error *err);

// ---- autoscale.c ----

// Adds to the SlurmCluster's status which NodeSets may grow, for the bridge, and keeps what that says.
void td_op_autoscale_told(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d, yyjson_mut_val *status);

// ---- qos.c ----

// Keeps the QOS of spec.preemption as they are declared. Never fails: v->qos says how it is.
void td_op_qos_sync(struct td_op_view *v, struct td_object *sc, int64_t *again_ms);

// ---- view.c ----

// What a node says of itself in its comment (slurm/programs/services.sh).
struct td_op_said {
	char config[32];      // the revision of the configuration that its slurmd has
	char keys[32];        // the state of the keys that slurmctld and slurmd have (keys.c); "": as they were made
	int64_t since_ms;     // when slurmd got that from slurmctld, ms of real time (a second's resolution)
	const char *services; // the failed ones; "": none. Points into the node
};
bool td_op_says(const struct td_slurm_node *n, struct td_op_said *ret); // false: it says nothing
bool td_op_ready(const struct td_object *o);                            // condition Ready of any object
int64_t td_op_born(const struct td_object *o);                          // its creation, ms of real time; 0: not known
// Returns why the pod's first container does not run, in the kubelet's or kube-scheduler's words;
// NULL: nothing is known. *ret_image: its image cannot be had.
const char *td_op_stuck(const struct td_object *pod, bool *ret_image);
bool td_op_pod_ready(const struct td_object *p); // runs, is ready and is not ending
// Reduces Slurm's node to what decisions need. The result points into n.
struct td_pool_record td_op_record(const struct td_slurm_node *n);

// ---- NodeSets on demand ----
bool td_op_on_demand(const yyjson_val *set);
// Adds what keeps everybody from using the set.
void td_op_on_demand_check(const yyjson_val *cluster, const yyjson_val *set, struct td_strv *problems);
// Adds the names of the sets on demand. *ret_start_s: the longest of their startTimeout.
void td_op_on_demand_facts(const struct td_objects *sets, struct td_strv *names, int64_t *ret_start_s);
// Reads a duration such as "10m". -1: none, or malformed.
int64_t td_op_seconds(const char *s);
// Returns the view of that key, and makes one if there is none. The operator owns it.
struct td_op_view *td_op_view_of(struct td_op *op, const char *key);
void td_op_views_free(struct td_op *op);
// Ends calls that wait for this cluster's Slurm (key NULL: for any). The next reconcile starts
// afresh.
void td_op_view_abort(struct td_op *op, const char *key);
// Connects v->slurm to the cluster's slurmrestd, unless it is still the right one with the right key.
int td_op_view_connect(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
		       struct td_error *err);
// Frees a view that is in no list.
void td_op_view_done(struct td_op_view *v);
// Asks Slurm for its nodes when the last answer is older than max_age_ms. Never fails: v->fresh
// tells.
void td_op_view_refresh(struct td_op *op, struct td_object *sc, struct td_op_view *v, int64_t max_age_ms,
			struct td_cancel *c);

// ---- ensure.c ----

// Creates the object, or patches what the operator owns of it. Writes nothing when nothing differs.
int td_op_ensure(struct td_op *op, const struct td_op_want *w, struct td_cancel *c, struct td_error *err);
// Makes the Secret that logins by an issuer need (kube/people.h), where the SlurmCluster names one.
int td_op_people_ensure(struct td_op *op, const struct td_object *sc, struct td_cancel *c, struct td_error *err);
// Appends conditions to a status. old_status: the present one, whose times stay for conditions that
// do not change.
void td_op_conditions(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *old_status,
		      const struct td_pool_condition *v, size_t n, long long generation);
// Appends to a JSON patch what makes the status old that of now, and touches no field in which they agree: of those that
// are somebody else's, now has what old has. Pure.
void td_op_status_patch(yyjson_mut_doc *d, yyjson_val *old, yyjson_val *now);
// Writes the status if it differs from that in o; of a SlurmCluster, what differs.
int td_op_status_write(struct td_op *op, const struct td_gvr *gvr, struct td_object *o, yyjson_mut_doc *status,
		       struct td_cancel *c, struct td_error *err);

// ---- metrics.c ----

void td_op_measure(struct td_op *op); // /metrics shows its caches from now on; NULL: no more

// ---- percluster.c: the bridge and policies of a SlurmCluster, from the file --per-cluster ----

char *td_op_bridge_name(const char *ns, const char *cluster); // caller frees
// Builds the objects (pure). jwt: data of the SlurmCluster's Secret NAME-jwt-key. TD_INVALID names
// the document that cannot be used.
int td_op_per_cluster_objects(const char *text, const yyjson_val *sc, const char *own_ns, const char *image,
			      const yyjson_val *jwt, struct td_op_wants *ret, struct td_error *err);
// True: live has all objects of that kind and namespace that are wanted, of the wanted revision (pure).
bool td_op_per_cluster_there(const struct td_op_wants *w, const struct td_gvr *g, const char *ns,
			     const struct td_objects *live);
// Applies them where one is not there, or another: those that caches show at once, others at a whole look, 30 s after the
// last one at the earliest.
int td_op_per_cluster_sync(struct td_op *op, const struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
			   struct td_error *err);
// Deletes what the SlurmCluster had, when it is gone.
int td_op_per_cluster_gone(struct td_op *op, const char *ns, const char *cluster, struct td_cancel *c,
			   struct td_error *err);

// ---- placeholder.c ----

// Builds the placeholder of a slurmd pod on its node (pure). The caller unrefs it.
struct td_json *td_op_placeholder_pod(const yyjson_val *sc, const yyjson_val *nodeset, const yyjson_val *slurmd,
				      const char *node, const char *image);
bool td_op_is_placeholder(const struct td_object *pod);

// ---- pools.c ----

// Builds the ConfigMap (pure). The caller unrefs it.
struct td_json *td_op_pools_object(const char *own_ns, const struct td_objects *clusters,
				   const struct td_objects *nodes);
int td_op_pools_sync(struct td_op *op, struct td_cancel *c, struct td_error *err);
