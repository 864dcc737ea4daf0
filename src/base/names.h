// The names that Tandem uses in Kubernetes and in Slurm: annotations, labels, taints, conditions,
// reasons of drains. Each name is written here once, for all rooms (tools/check-decisions checks
// that). docs/ARCHITECTURE.md says what they mean.
#pragma once

// ---- a pod's grant: written by the bridge alone ----
#define TD_LABEL_NAME_STAYS "tandem.dev/name-stays" // of a Service
#define TD_ANN_JOB "tandem.dev/job-id"
#define TD_ANN_START "tandem.dev/job-start"
#define TD_ANN_RESTARTS "tandem.dev/job-restarts"
#define TD_ANN_DEVICES "tandem.dev/devices"
#define TD_ANN_CPUS "tandem.dev/cpus"
#define TD_ANN_ACCOUNT "tandem.dev/account" // Slurm's, that the pod is charged to
#define TD_ANN_EPOCH "tandem.dev/epoch"
// Part of the grant of a gang's member: the gang's ask, its name, the member's rank, how many members
// there are, the node of each rank and the host names of all, in the order of ranks.
#define TD_ANN_GANG_UID "tandem.dev/gang-uid"
#define TD_ANN_GANG_NAME "tandem.dev/gang-name"
#define TD_ANN_GANG_RANK "tandem.dev/gang-rank"
#define TD_ANN_GANG_WORLD "tandem.dev/gang-world"
#define TD_ANN_GANG_HOSTS "tandem.dev/gang-hosts"
// Of a gang whose pods have roles: how many each has ("launcher=1,worker=4"). The member's own is an annotation of the
// same name as the label below.
#define TD_ANN_GANG_ROLES "tandem.dev/gang-roles"
// Of an elastic gang: on the members of its core, how many pods there may be in all; on a pod beyond
// it, the core's ask.
#define TD_ANN_GANG_MOST "tandem.dev/gang-most"
#define TD_ANN_GANG_CORE "tandem.dev/gang-core"
// Prefix of the variables of the node's network (spec.fabric), as part of a grant: the rest is the variable's name.
#define TD_ANN_FABRIC_PREFIX "fabric.tandem.dev/"
// Multus' own: which secondary networks a pod has.
#define TD_ANN_NETWORKS "k8s.v1.cni.cncf.io/networks"
// JSON: why the grant ended and the pod with it. Keys reason, message, graceSeconds, at (epoch).
#define TD_ANN_ENDED "tandem.dev/ended"
// Whose it is: the name in Kubernetes of who made it, or what it is made from, as the API server proved it
// (apiserver/whose.c; on a cluster deploy/kustomize/base/60-admission.yaml).
#define TD_ANN_USER "tandem.dev/user"
// Prefix of what a pod asks of Slurm: api/annotations.c has all of them, bridge/scheduler/want.c
// reads them.
#define TD_ANN_ASK_PREFIX "slurm.tandem.dev/"
// What a pod says of the gang that it belongs to (docs/gangs.md).
#define TD_LABEL_GANG "tandem.dev/gang"
#define TD_LABEL_GANG_ROLE "tandem.dev/gang-role" // a label of the pod's; an annotation with its grant
#define TD_ANN_GANG_SIZE "tandem.dev/gang-size"
#define TD_ANN_GANG_MIN "tandem.dev/gang-min"
#define TD_ANN_GANG_LOSS "tandem.dev/gang-on-loss"
#define TD_ANN_GANG_LATER "tandem.dev/gang-later"
// Conditions of a pod, written by the agent.
#define TD_COND_FENCE "tandem.dev/GrantEnded"
#define TD_COND_HANGS "tandem.dev/Hangs"      // gate/podhangs.h
#define TD_COND_USED "tandem.dev/DevicesUsed" // kube/service.h; by the agent
#define TD_COND_PACE "tandem.dev/Pace"        // kube/service.h; by the agent
#define TD_COND_SLOW "tandem.dev/Straggler"   // by the bridge: it computes longer than the others of its gang
#define TD_HANGS_TOLD "NoProgress"            // its reason: it is told of
#define TD_HANGS_END "NoProgressRestarted"    // the pod shall end, so that its controller makes another one
// What a pod says of itself: it hangs when nothing of it has moved for so many seconds.
#define TD_ANN_HANG_AFTER "tandem.dev/hang-after"
// "log": the pod says in its log that it goes on, and how long its steps take (pool/pace.h).
#define TD_ANN_HEARTBEAT "tandem.dev/heartbeat"
// "DIR [keep=N] [parts=one] [signal=NAME]": its checkpoints are kept there (docs/checkpoints.md).
#define TD_ANN_CHECKPOINTS "tandem.dev/checkpoints"

// On a NodeSet, by `tandem adopt`: what is known of its group, {"hosts": "n[1-8]", "phase": "old"} (slurm/adopt.h).
#define TD_ANN_ADOPT "tandem.dev/adopt"

// ---- jobs ----
// What stands in a job's admin comment, up to its end, when it held too much of a node's disk (spank/scratch_watch.c).
#define TD_SAID_SCRATCH "tandem: scratch: "

// ---- nodes ----
// A drain is asked for; value: the reason.
#define TD_ANN_DRAIN "tandem.dev/drain"
// By the agent: a device is not let go in time.
#define TD_ANN_GATE_HELD "tandem.dev/gate-held"
#define TD_ANN_SHARE "tandem.dev/slurm-share" // by the operator: what Slurm gives out there
#define TD_SHARE_NUMA "numa"                  // key in it: a digit for each device, "0011"
#define TD_SHARE_UNITS "units"                // key in it: hundredths of GPUs, where shares of them are given out
#define TD_SHARE_TYPES "types"                // key in it: types of the devices, "h100:4,a100:4"
#define TD_ANN_GPU_NUMA "tandem.dev/gpu-numa" // by an administrator: the NUMA node of each GPU, "0,0,1,1"
// By the agent, JSON: what the machine says of its GPUs (checkup/where.c).
#define TD_ANN_GPUS "tandem.dev/gpus"
// By the agent, JSON: in which parts its GPUs can be cut (MIG), [{"gpus": [0, 1], "parts": [{"name": "1g.10gb", "size": 1,
// "at": 127, "most": 7}, …]}, …]: the machine's GPUs, slices of memory, a bit for each where it may begin (pool/cut.h).
#define TD_ANN_GPU_PARTS "tandem.dev/gpu-parts"
// By the operator, JSON: what spec.gpuCutting of its NodeSet says, {"set": "slurm/pool", "keepWhole": 1, "idleSeconds": 600,
// "pauseSeconds": 300, "parts": ["1g.10gb"]} (no parts: all).
#define TD_ANN_GPU_CUTTING "tandem.dev/gpu-cutting"
// By a person, on a claim (PersistentVolumeClaim): how much storage he wants to claim in its namespace besides, such as 40Gi.
// The operator makes room for it there, within the Tenants' quotas (operator/tenant_storage.c).
#define TD_ANN_STORAGE_ROOM "tandem.dev/storage-room"
// By the operator, JSON: the Tenants whose Slurm account has another name, {"account": "Tenant", …}: what metrics of devices
// call them.
#define TD_ANN_TENANT_NAMES "tandem.dev/tenant-names"
// By the bridge, JSON: a cut that it wants there, {"gpu": 1, "parts": ["1g.10gb"], "jobs": false, "for": "job 12 waits for …"}:
// no gpu: all; no parts: whole; jobs: those of the node are waited for. The operator makes a NodeAction of it, takes it
// away, and says when that was (epoch seconds).
#define TD_ANN_GPU_CUT "tandem.dev/gpu-cut"
#define TD_ANN_GPU_CUT_AT "tandem.dev/gpu-cut-at"
// What stands in the admin comment of a job that is held because no node has the part that it asks for, by job_submit.lua:
// the bridge releases it when one has.
#define TD_PART_MARK "tandem-part:"
// By the agent, JSON: its adapters of the network (checkup/nics.c).
#define TD_ANN_NICS "tandem.dev/nics"
// Adapters that are given out (spec.fabric.nics): Slurm's GRES, what pods ask for, and in a pod's grant their names.
#define TD_GRES_NIC "nic"
#define TD_NIC_RESOURCE "tandem.dev/nic"
#define TD_ANN_NICS_GRANTED "tandem.dev/nics-granted"
#define TD_ANN_GDS                                                                                                     \
	"tandem.dev/gds" // it has GPUDirect Storage: by virtual nodes' agent, else by an administrator; any value
// A GPU that is shared is so many units of this GRES: hundredths of it.
#define TD_GPU_SHARE "shard"
#define TD_GPU_UNITS 100
#define TD_GPU_LEAST 6         // the smallest part, so that who has one finds a place at the gate (gate/shares.c)
#define TD_GRANT_SHARE "share" // key in TD_ANN_DEVICES: so many of each device
#define TD_ANN_SLURM_STATE "tandem.dev/slurm-state"   // by the bridge, on slurmd pods too
#define TD_ANN_SLURM_REASON "tandem.dev/slurm-reason" // by the bridge, on slurmd pods too
// By the bridge, JSON: what native jobs hold there.
#define TD_ANN_SLURM_USE "tandem.dev/slurm-use"
#define TD_ANN_SLURM_JOBS "tandem.dev/slurm-jobs" // by the bridge: how many native jobs the node has
// By the bridge, JSON, while spec.shadows is on: what shadows hold there (pool/shadow.h), and what is given twice.
#define TD_ANN_SHADOW "tandem.dev/slurm-shadow"
// Part of what stands for a grant of a pod that Slurm did not place, JSON: the devices that a shadow holds for it, and
// that shadow's job, {"nvidia.com/gpu":"1","job":17,"start":1700000000}.
#define TD_ANN_SHADOW_DEVICES "tandem.dev/shadow-devices"
// By the bridge: the node that a pod of another scheduler is to have, whose room shadows hold or are to hold. And the
// scheduling gate that such a pod has until they do (bridge/syncer/entrance.h).
#define TD_ANN_SHADOW_NODE "tandem.dev/shadow-node"
#define TD_GATE_SHADOW "tandem.dev/shadow"
// By an administrator, on a namespace: "enabled", its pods get that gate (deploy/manifests/mutating.yaml). Policies read it.
#define TD_LABEL_SHADOW_GATE "tandem.dev/shadow-gate"
// By an administrator: devices that shall be out of service while the others of the node work, "gpu3,gpu5".
#define TD_ANN_DEVICES_OUT "tandem.dev/devices-out"
// By the operator: devices that are out of service for their health, while the others of the node work; and why, as in
// TD_ANN_HOLD.
#define TD_ANN_DEVICES_HOLD "tandem.dev/devices-hold"
#define TD_ANN_DEVICES_HOLD_WHY "tandem.dev/devices-hold-why"
// By the operator: the jobs that hold these of them have had long enough, "gpu3,gpu5".
#define TD_ANN_END_DEVICES "tandem.dev/end-devices"
// By the bridge: those of both that nobody can be given any more.
#define TD_ANN_DEVICES_HELD "tandem.dev/devices-held"
// By the agent, JSON: which jobs hold the rest of them, {"gpu3":17}; 0: none.
#define TD_ANN_DEVICES_BY "tandem.dev/devices-held-by"
// By the bridge: drained in Slurm by somebody, or held out of service (the next).
#define TD_TAINT_DRAIN "tandem.dev/slurm-drain"
// By the bridge: Slurm holds the node for dead (DOWN), and nobody has powered it down.
#define TD_TAINT_DOWN "tandem.dev/slurm-down"
// By the operator: the node is out of service for its health. Value: what follows "tandem: " in
// the reason of its drain, "condition GpuUnhealthy: …" or "action reboot: …".
#define TD_ANN_HOLD "tandem.dev/hold"
#define TD_LABEL_IMAGE "tandem.dev/image"       // on a Node: the image that it has booted (docs/netboot.md)
#define TD_ANN_MACHINE "tandem.dev/machine"     // by the operator: the machine that joined as this node, "key:…"
#define TD_ANN_PERSON "tandem.dev/needs-person" // by the operator: nothing helped; why
#define TD_ANN_END_JOBS "tandem.dev/end-jobs"   // by the operator: the jobs of a node that is held shall end
#define TD_ANN_SIGNAL_JOBS                                                                                             \
	"tandem.dev/signal-jobs" // by the operator: "ACTION SIGNAL" to the jobs of a node that is held
#define TD_ANN_JOBS_SIGNALLED "tandem.dev/jobs-signalled" // by the bridge: the last of these that was sent
#define TD_ANN_ACTION "tandem.dev/action"                 // by anybody: asks for a NodeAction; value: which
// By the API server: who made a NodeAction or NodeUpgrade, or asked for one by TD_ANN_ACTION; nobody can write another.
#define TD_ANN_MADE_BY "tandem.dev/made-by"
#define TD_ANN_ACTION_BY "tandem.dev/action-by"
#define TD_ANN_ACTION_TAKEN "tandem.dev/action-taken" // by the operator: "ID ACTION WHO", being made
#define TD_ANN_FAULTS "tandem.dev/faults"             // by the agent, JSON: what its checks found
// By the operator, JSON: what the node's agent shall do now. Keys id, action, device, boot.
#define TD_ANN_OPERATION "tandem.dev/operation"
// By the agent, JSON: how that went. Keys id, result (done, failed, unknown), message.
#define TD_ANN_OPERATION_RESULT "tandem.dev/operation-result"
// By the operator, JSON: the agent shall test the idle node. Keys id, at, milliseconds.
#define TD_ANN_PROBE "tandem.dev/probe"
// By the agent, JSON: what came of that. Keys id, at, result (passed, failed, ended, error), milliseconds, message, gflops,
// memoryMBps, diskWriteMBps, diskReadMBps.
#define TD_ANN_PROBED "tandem.dev/probed"
// By the operator, JSON, on the node that leads: it shall be tested with others that are idle, too. Keys id, at, nodes, kib, leastMBps,
// percent; without nodes: not any more.
#define TD_ANN_PROBE_TOGETHER "tandem.dev/probe-together"
// By the agent, JSON: what came of that. Keys id, at, result (as above), MBps, message.
#define TD_ANN_PROBED_TOGETHER "tandem.dev/probed-together"
// By the operator, JSON, on each of these nodes: a list of the last such tests, the newest first. Keys as above, and nodes.
#define TD_ANN_TESTED_TOGETHER "tandem.dev/tested-together"
// By the operator, JSON: the HealthPolicy's preflight, for the agent of a Slurm node and for the bridge. Keys
// partitions, qos, namespaces, milliseconds, timeoutSeconds, untested, program, tries, say.
#define TD_ANN_PREFLIGHT "tandem.dev/preflight"
// By the operator, JSON: the HealthPolicy's hang, for the agent of a Slurm node (gate/hangs.h).
#define TD_ANN_HANG "tandem.dev/hang"
// By the operator, JSON: the HealthPolicy's straggler, for the same agent (gate/stragglers.h).
#define TD_ANN_STRAGGLER "tandem.dev/straggler"
// By the agent of a job's first node, JSON: a rank of that job is slow there, and its policy wants the node out.
#define TD_ANN_SLOW "tandem.dev/slow"
// By the bridge: jobs that the node's stand-in shall queue again, each with how often it was already:
// "12:0 17_3:1" (standin/watch.h).
#define TD_ANN_REQUEUE "tandem.dev/requeue"
// By the bridge: the same of jobs that hold devices that are to leave service (bridge/syncer/aside_end.c).
#define TD_ANN_REQUEUE_DEVICES "tandem.dev/requeue-devices"
#define TD_ANN_PROGRAMS "tandem.dev/programs"  // by the agent: the site's programs it has, "a,b"; absent: none
#define TD_ANN_TESTED "tandem.dev/tested"      // by the operator: which machine with which devices passed its test
#define TD_LABEL_ACTION_NODE "tandem.dev/node" // on test pods: the node
#define TD_COND_DRAIN "SlurmDrain"             // the same fact as a condition
#define TD_COND_DOWN "SlurmDown"               // and of TD_TAINT_DOWN
#define TD_LABEL_FAKE_GPUS "tandem.dev/fake-gpus"
#define TD_LABEL_BLOCK "topology.tandem.dev/block"
#define TD_LABEL_RACK "topology.tandem.dev/rack"
#define TD_LABEL_CLIQUE "nvidia.com/gpu.clique" // by NVIDIA's feature discovery: which GPUs NVLink joins over nodes
// The same, of the newest CUDA that a node's driver can do; in two spellings.
#define TD_LABEL_CUDA_MAJOR "nvidia.com/cuda.runtime-version.major"
#define TD_LABEL_CUDA_MINOR "nvidia.com/cuda.runtime-version.minor"
#define TD_LABEL_CUDA_OLD_MAJOR "nvidia.com/cuda.runtime.major"
#define TD_LABEL_CUDA_OLD_MINOR "nvidia.com/cuda.runtime.minor"

// ---- a SlurmCluster's objects ----
#define TD_LABEL_NAME "app.kubernetes.io/name"
#define TD_LABEL_CLUSTER "tandem.dev/cluster"
// Of a FederatedRun: the begin of the SHA-256 of its user's name; whether something of it is left to do.
#define TD_LABEL_FED_USER "tandem.dev/federated-user"
#define TD_LABEL_FED_LIVE "tandem.dev/federated-live"
// On a Federation: it stays until its runs have ended; "cancel": these are ended when it is deleted.
#define TD_FINALIZER_FED "tandem.dev/federated-runs"
#define TD_ANN_FED_END "tandem.dev/federation-end"
// On the ConfigMap CLUSTER-federation, in which a member's gateway keeps what hubs say of limits; value: the SlurmCluster.
#define TD_LABEL_FED_LIMITS "tandem.dev/federation-limits"
#define TD_LABEL_LOGIN "tandem.dev/login"
// On the objects that a SlurmCluster has in the operator's namespace.
#define TD_LABEL_CLUSTER_NS "tandem.dev/cluster-namespace"
// On a tenant's namespaces and what is in them for it: its name. Who may label namespaces decides. Also the name of Tenants' finalizer.
#define TD_LABEL_TENANT "tandem.dev/tenant"
// By the operator on a Tenant that it made of a Project: the name and the namespace of that one.
#define TD_LABEL_PROJECT "tandem.dev/project"
#define TD_LABEL_PROJECT_NS "tandem.dev/project-namespace"
// By the operator on the same: the filter of system calls of its pods, "RuntimeDefault" or "localhost/NAME".
#define TD_ANN_SECCOMP "tandem.dev/seccomp"
// By the operator on the same, where its pods must have user namespaces: "required".
#define TD_ANN_USERS "tandem.dev/user-namespaces"
// On a tenant's namespaces: what each container there may hold of a node's disk, "20Gi"; each must say its limit.
#define TD_ANN_DISK "tandem.dev/ephemeral-storage"
// On a namespace: the scheduler of its pods that ask for devices and name none (docs/serving.md).
#define TD_LABEL_SCHEDULER "tandem.dev/scheduler"
// By the operator on the same, where the Tenant says whom its pods may reach: "closed".
#define TD_ANN_EGRESS "tandem.dev/egress"
// By the operator on the same, on the embedded plane: what claims may ask for (api/storagequota.h), of its Tenant and of each
// above it: [{"tenant":"physics","hard":{"requests.storage":2199023255552}}]. Who is named in it is limited with all
// namespaces that name him, too.
#define TD_ANN_CLAIMS "tandem.dev/storage-quota"
// By the operator on a StorageClass that is in a storage group: the label, for a policy, and who may claim it in namespaces of
// no Tenant, by names with spaces between.
#define TD_LABEL_STORAGE_GROUP "tandem.dev/storage-group"
#define TD_ANN_STORAGE_USERS "tandem.dev/storage-users"
// By the operator on a Tenant's namespaces, where it says as whom its pods run (api/person.h has their grammar): its people with
// their numbers, and what its pods have mounted.
#define TD_ANN_PEOPLE "tandem.dev/people"
#define TD_ANN_STORAGE "tandem.dev/storage"
// By the operator on the same: which claims of those are in this namespace, "fs home". Policies cannot look.
#define TD_ANN_STORAGE_CLAIMS "tandem.dev/storage-claims"
// By an administrator on the same: whose the pods are that controllers make and that name nobody. Policies read it.
#define TD_ANN_UNNAMED "tandem.dev/unnamed"
// On a pod of the embedded plane, by the API server: the umask of its processes, in octal.
#define TD_ANN_UMASK "tandem.dev/umask"
// On a pod: its gang or session has a network of its own ("private"). By a person, or as its Tenant says.
#define TD_ANN_NETWORK "tandem.dev/network"
#define TD_NETWORK_PRIVATE "private"
// By the bridge, before the Binding, on the pods of such a network and on its NetworkPolicy: the network's id.
#define TD_LABEL_PRIVATE_NET "tandem.dev/private-network"
#define TD_LABEL_NODESET "tandem.dev/nodeset"
// By the operator, on ConfigMaps of the site that a SlurmCluster refers to.
#define TD_LABEL_SITE "tandem.dev/site"
// Copies of data sets (docs/datasets.md). By the operator, on Nodes, with a data set's name behind it: the annotation
// says what is on the disk (pool/dataset.h), the label only what is whole. On pods that fetch: of what.
#define TD_ANN_DATA_PREFIX "data.tandem.dev/"
#define TD_ANN_DATASET "tandem.dev/dataset" // of pods that fetch one or remove it: its name
#define TD_ANN_DATA_PRINT "tandem.dev/dataset-print"
#define TD_DATA_FEATURE "data."   // the Slurm feature of a node that holds it
#define TD_DATA_VOLUME "datasets" // of slurmd pods: the directory of copies
#define TD_DATA_POD "dataset"     // the name label of pods that fetch
#define TD_DATA_PATH "/var/lib/tandem-datasets"
// On the ConfigMap, and by the operator on the pod of slurmctld that was told of it; since when (ms since 1970).
#define TD_ANN_CONFIG "tandem.dev/config-hash"
#define TD_ANN_CONFIG_SINCE "tandem.dev/config-since"
// On pod templates: a hash of what of the configuration needs a new pod.
#define TD_ANN_RESTART "tandem.dev/restart-hash"
// On the ConfigMap in use: the print of the trial that it passed, and the image that passed it.
#define TD_ANN_TRIED "tandem.dev/tried"
#define TD_ANN_IMAGE "tandem.dev/slurm-image"
// On Nodes: the image that its slurmd shall have, of the two that the SlurmCluster names (operator/slurmd.c).
#define TD_ANN_SLURMD_IMAGE "tandem.dev/slurmd-image"
#define TD_ANN_NODE_SPEC "tandem.dev/node-spec" // what else of the SlurmCluster's spec slurmd pods are made from
// On the Secrets of Slurm's keys (docs/keys.md): which generation there is, which was before, the step of turning it
// over that was made last (spread, use), and when (ms since 1970).
#define TD_ANN_KEY_GENERATION "tandem.dev/key-generation"
#define TD_ANN_KEY_BEFORE "tandem.dev/key-before"
#define TD_ANN_KEY_STEP "tandem.dev/key-step"
#define TD_ANN_KEY_SINCE "tandem.dev/key-since"
// On the objects that the operator made: a hash of the whole wanted object.
#define TD_ANN_REVISION "tandem.dev/revision"
// On slurmrestd pods: socket or network (slurm/where.h).
#define TD_ANN_REST_ACCESS "tandem.dev/rest-access"
// On SlurmClusters: somebody confirms that Slurm's state is lost.
#define TD_ANN_CONFIRM_LOST "tandem.dev/confirm-lost-state"

// The pods that show kube-scheduler what native jobs hold: a slurmd pod's name with this behind it, the
// name of the app in their label, and of their container.
#define TD_PLACEHOLDER_SUFFIX ".native"
#define TD_PLACEHOLDER "placeholder"

// The PriorityClass of Slurm's pods on kubelets (deploy/kustomize/base/15-priority.yaml).
#define TD_PRIORITY_SLURM "tandem-slurm"
#define TD_PRIORITY_WANTED "tandem-wanted"

// ---- pods of sessions: written by the gateway alone ----
#define TD_LABEL_SESSION "tandem.dev/session" // its id
// A bill (a ConfigMap, by the gateway); value: its period, "2026-11".
#define TD_LABEL_BILL "tandem.dev/bill"
#define TD_ANN_SESSION_OWNER "tandem.dev/session-owner"
#define TD_ANN_SESSION_PORT "tandem.dev/session-port"
#define TD_ANN_SESSION_COMMAND "tandem.dev/session-command"
#define TD_ANN_SESSION_KIND "tandem.dev/session-kind" // endpoint, batch, shell, jupyter
// Seconds: it ends when it was unused for so long, or is so old.
#define TD_ANN_SESSION_IDLE "tandem.dev/session-idle"
#define TD_ANN_SESSION_MAX_AGE "tandem.dev/session-max-age"
#define TD_ANN_SESSION_LOW "tandem.dev/session-low-use"
// Of an endpoint with replicas: which one this pod is, from 0.
#define TD_ANN_SESSION_REPLICA "tandem.dev/session-replica"
// Which node of a session over several nodes this is, from 0.
#define TD_ANN_SESSION_NODE "tandem.dev/session-node"

// ---- slurmd pods ----
// On a Node: it stands for one of another cluster's, which the NodeSet of this name has (its spec.otherCluster); it is
// tainted so, too. On a pod: it may go there, and nowhere else (docs/other-cluster.md).
#define TD_LABEL_OTHER "tandem.dev/other-cluster"
#define TD_ANN_OTHER_SET "tandem.dev/other-cluster-nodeset" // on such a Node: "NAMESPACE/NODESET"
#define TD_ANN_OTHER_NODE "tandem.dev/other-node"           // on such a Node: its name in the other cluster
// On such a Node: the UID of the pods' namespace there, by which that cluster is known again.
#define TD_ANN_OTHER_ID "tandem.dev/other-cluster-id"
// On a Node: a machine without a kubelet, whose slurmd `tandem host` keeps; value: its NodeSet. It is tainted so, too, and
// no pod comes to it.
#define TD_LABEL_HOST "tandem.dev/host"
#define TD_LABEL_FROM_SET "tandem.dev/from-nodeset" // on a pod there: the UID of the NodeSet here
#define TD_LABEL_FROM_POD "tandem.dev/from-pod"     // on a pod there: the UID of the pod here
#define TD_LABEL_FROM_GANG "tandem.dev/from-gang"   // "true" on a pod there whose pod here is of a gang
// "true" on a pod there whose pod here is a session's: nobody there need reach it.
#define TD_LABEL_FROM_SESSION "tandem.dev/from-session"
#define TD_ANN_FROM_NAME "tandem.dev/from-name" // on a pod there: "NAMESPACE/NAME" of the pod here
#define TD_COND_OTHER "tandem.dev/OtherCluster" // of a pod here: where its copy is, or why there is none yet
#define TD_ANN_NODE "tandem.dev/slurm-node"     // the node that the pod serves
// The pod sees every device of its node. Written by the operator alone.
#define TD_ANN_ALL_DEVICES "tandem.dev/all-devices"
#define TD_LABEL_NODE_STATE "tandem.dev/node-state" // the node's state, as Slurm names it
// The pod's node is drained or down and runs no job.
#define TD_LABEL_EVICTABLE "tandem.dev/evictable"

// ---- reasons of the drains that Tandem writes in Slurm; pool/reason.c says who owns each ----
#define TD_REASON_PREFIX "tandem:"
#define TD_REASON_CORDONED "tandem: cordoned"
#define TD_REASON_REQUESTED "tandem: requested"
#define TD_REASON_GATE "tandem: gate"
// The node's kubelet offers fewer devices than the node's record says.
#define TD_REASON_DEVICES "tandem: devices"
#define TD_REASON_LOST "tandem: slurm state lost"
#define TD_REASON_CONDITION "tandem: condition" // the node is not healthy
#define TD_REASON_ACTION "tandem: action"       // a NodeAction works on the node, or left it so
#define TD_REASON_UPDATE "tandem: update"       // the slurmd pod is replaced
#define TD_REASON_SCALE_IN "tandem: scale-in"   // the node leaves its NodeSet
#define TD_REASON_IDLE "tandem: idle"           // nothing runs on it: a node on demand is powered down
#define TD_REASON_ABSENT "tandem: node absent"  // a node on demand that could not be started now
#define TD_REASON_GONE "tandem: node gone"      // the Kubernetes node is gone
// What an undrain leaves: 24.11 cannot clear a reason. It keeps the text of a drain that is over and ignores an empty
// one (S-N2), and where Slurm itself drains a node, for what its slurmd reported, it keeps any reason that stands but
// one that begins like this (S-N3). An undrain that Slurm refuses leaves it beside the drain (S-N22).
// sinfo shows 20 characters of it until the next job starts there.
#define TD_REASON_NEW "tandem: condition it is new" // as the bridge would say it
#define TD_REASON_NONE "Not responding: over"
// The slurmd container died. The next one cleans up its jobs (the script of slurmd pods).
#define TD_REASON_DEAD "tandem: slurmd died"
