// spec.scheduler and spec.devices[0] of the SlurmCluster, read into an immutable, reference-counted
// struct.
#pragma once

#include "pool/group.h"
#include "json/json.h"

struct td_bridge_gres_map {
	char *resource;    // "nvidia.com/gpu"
	char *name, *type; // "gpu"; type "" when the map names none
};
// The Tenants of a SlurmCluster, as their objects say.
struct td_tenant_list {
	const yyjson_val *const *v;
	size_t n;
};
struct td_settings_user {
	char *name;
	int64_t uid;
};
struct td_ns_map {
	// ns "*" is every namespace. The other fields are NULL when they are not set.
	char *ns, *user, *account, *partition, *qos;
	char *usual_qos;    // of pods that name none, and whose class has none
	char *wait;         // it is that Tenant's, whose account is not in place yet; NULL: nothing waits
	bool private_net;   // gangs and sessions have a network of their own
	const char *of;     // the Tenant whose members' pods are theirs (spec.perUser.pods); NULL: all are of `user`
	const char *tenant; // whose it is; NULL: no Tenant's
};
// Who is in a project: a Tenant below another one that has no namespaces.
struct td_settings_project {
	const char *account, *parent; // parent: the Tenant above
	const char *name, *user;      // of one of its people in Kubernetes and in Slurm
	const char *qos;              // that its jobs ask for; NULL: Slurm's default
};
struct td_settings_weight {
	const char *account;
	int64_t weight;
};
// A member of such a Tenant who runs pods.
struct td_settings_person {
	const char *of, *name, *user; // the Tenant, his name in Kubernetes, and in Slurm
};
// spec.scheduler.priorityClassMap: the QOS of a PriorityClass. namespaces: who may have it; none:
// everybody.
struct td_class_map {
	char *cls, *qos, **namespaces;
	size_t n_namespaces;
};
// spec.devices[0]: where the devices of `resource` come from.
struct td_device_source {
	char *resource, *driver;
	// The device attribute that holds Slurm's index. NULL: devices are ordered by name.
	char *attribute;
	char *classes[16];
	size_t n_classes;
	bool dra;         // source DRA; else Allocatable
	bool shared;      // native jobs may run beside pods whose devices a kubelet chose
	char *several[8]; // the resources of spec.devices where there are several, each node having one of them
	size_t n_several;
};
enum td_stand_in { TD_STANDIN_AUTO, TD_STANDIN_BATCH };
struct td_policies_rule; // policy/policies.h
// spec.preemption.qos
struct td_qos_map {
	char *name, **preempts;
	size_t n_preempts;
	int64_t grace_s, slice_s, priority;
	bool total; // the time limit of its jobs counts over all their runs
};
struct td_settings {
	int refs;
	char *text; // what it was read from: equal text means equal settings
	char *cluster_uid, *scheduler, *default_partition, *default_user;
	enum td_stand_in stand_in;
	int end_grace_s;
	int64_t kill_wait_s;                // from SIGTERM to SIGKILL: Slurm's KillWait
	struct td_bridge_gres_map gres[32]; // sorted by resource
	size_t n_gres;
	struct td_device_source devices;
	struct td_json *fabric;   // spec.fabric (slurm/fabric.h); NULL: none
	struct td_json *topology; // {"spec": {"topology": …}}, for slurm/topology.h; NULL: no blocks
	struct td_ns_map *maps;
	size_t n_maps;
	struct td_settings_user *users; // spec.users: who is known by number
	size_t n_users;
	bool directory; // spec.identity.ldap: there may be others
	struct td_class_map *classes;
	size_t n_classes;
	struct td_qos_map *qos;
	size_t n_qos;
	bool reclaim; // spec.preemption.reclaim: who is within his quota takes back what others borrow
	bool shadows; // spec.shadows.enabled
	char **lends; // spec.shadows.deviceNamespaces, while it is enabled
	size_t n_lends;
	bool accounting; // there is a slurmdbd
	int64_t reclaim_grace_s, reclaim_slice_s;
	int64_t defragment_s;             // spec.preemption.defragment: who waits so long has room made; 0: nobody has
	int64_t starve_s, starve_slice_s; // spec.preemption.starvation; 0: nobody makes room for others
	bool starve_ends;                 // who cannot be queued again may be ended for that
	struct td_settings_weight *weights; // of Tenants' accounts; in the arena
	size_t n_weights;
	struct td_arena *arena; // of groups, usual and people
	struct td_settings_person *people;
	size_t n_people;
	struct td_settings_project *projects; // sorted by nothing; a row for each person of each project
	size_t n_projects;
	struct td_pool_groups groups;            // spec.resourceGroups, and to whom Tenants say they are granted
	const char *usual;                       // the partition of pods that name none; NULL: Slurm's default
	const struct td_policies_rule *policies; // in the arena; the first that fits a job counts
	size_t n_policies;
};
// Reads a whole SlurmCluster object. Never fails: the API has checked the schema, and what is
// absent gets its default.
struct td_settings *td_settings_read(const yyjson_val *cluster);
// The same with the cluster's Tenants, whose namespaces come before those of spec.scheduler.
struct td_settings *td_settings_read_with(const yyjson_val *cluster, const struct td_tenant_list *tenants);
// The resource under which devices of a GRES ("gpu") stand in a grant: that of spec.devices[0] if the map gives it
// that GRES, else the first that has no type. NULL: the map has none.
const char *td_settings_key(const struct td_settings *s, const char *gres);
// The same on a node, where spec.devices has several resources: the one that the operator gives out there (annotation
// tandem.dev/slurm-share). node NULL: as above.
const char *td_settings_key_on(const struct td_settings *s, const char *gres, const yyjson_val *node);
// Which resource of spec.devices a node has.
const char *td_settings_resource(const struct td_settings *s, const yyjson_val *node);
// The one of them that a pod asks for, or for parts of whose devices (MIG); NULL: none.
const char *td_settings_asked(const struct td_settings *s, const yyjson_val *pod);
// The list of devices of a GRES in a grant, by whichever resource it stands there; NULL: none.
const char *td_settings_list(const struct td_settings *s, const yyjson_val *devices, const char *gres);
struct td_settings *td_settings_ref(struct td_settings *s);
struct td_settings *td_settings_unref(struct td_settings *s);
TD_DEFINE_AUTO(struct td_settings *, td_settings_unref)
// Who owns the jobs of a namespace's pods (docs/protocols.md 6). False: nobody may submit them, or not
// yet, when ret->wait is set.
// Fields point into s; all but user may be NULL: the namespace is given none.
struct td_owner {
	const char *user, *account, *partition, *qos, *usual_qos;
	const char *wait; // the Tenant for whose account the namespace waits
	int64_t uid;      // of the user; 0: it is not known here, as of people of a directory service
	bool unknown;     // the cluster has no such user
};
bool td_settings_owner(const struct td_settings *s, const char *ns, struct td_owner *ret);
// Have gangs and sessions of this namespace networks of their own, as its Tenant says?
bool td_settings_private(const struct td_settings *s, const char *ns);
// The same for the pods of a person, by the name that Kubernetes knows (NULL: nobody is known). They are his own where
// the namespace is a Tenant's that says so and he is its member; else they are as all pods of the namespace.
bool td_settings_owner_of(const struct td_settings *s, const char *ns, const char *person, struct td_owner *ret);
// May a pod of this namespace and person (as above) be charged to this project's account? In a Tenant's namespace to
// those of that Tenant which the person is in; in a namespace that spec.scheduler gives to a user by name, to those
// which that user is in. NOT: there is no such project for this namespace. STRANGER: he is not in it. MAY: *ret_qos
// is what pods ask for that name no QOS (ret_qos NULL: nobody wants to know).
enum td_settings_may { TD_PROJECT_NOT, TD_PROJECT_STRANGER, TD_PROJECT_MAY };
enum td_settings_may td_settings_project(const struct td_settings *s, const char *ns, const char *person,
					 const char *account, const char **ret_qos);
// The share of an account beside the others: its Tenant's weight, else 1.
int64_t td_settings_weight(const struct td_settings *s, const char *account);
// Fills groups and usual (granted.c).
void td_settings_read_groups(const yyjson_val *cluster, const struct td_tenant_list *tenants, struct td_settings *s);
// Fills policies (policy/settings.c); s->arena is there.
void td_settings_read_policies(const yyjson_val *cluster, struct td_settings *s);
// The entry of a pod's PriorityClass; NULL: none.
const struct td_class_map *td_settings_class(const struct td_settings *s, const char *priority_class);
// May jobs of QOS `from`, which may be a list, preempt those of `to`? to NULL: anybody. "" and NULL are Slurm's default.
bool td_settings_preempts(const struct td_settings *s, const char *from, const char *to);
int64_t td_settings_grace_s(const struct td_settings *s, const char *qos); // 0: none
int64_t td_settings_slice_s(const struct td_settings *s, const char *qos);
// Is a job of this QOS preemptible: may another QOS preempt it?
bool td_settings_preemptible(const struct td_settings *s, const char *qos);
// Does the time limit of a job of this QOS, which may be a list, count over all its runs? NULL: is there such a QOS?
bool td_settings_total(const struct td_settings *s, const char *qos);
// May pods of other schedulers in this namespace have devices of the pool (spec.shadows)?
bool td_settings_lends(const struct td_settings *s, const char *ns);
// May pods of this namespace have the QOS? It may be nobody's in the map: then they may.
bool td_settings_may_qos(const struct td_settings *s, const char *ns, const char *qos);
