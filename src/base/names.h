// The names that Tandem gives things in Kubernetes and in Slurm: annotations, labels, taints, conditions, reasons of a
// drain. Each stands here once, for all rooms; docs/ARCHITECTURE.md says what they mean. tools/check-decisions keeps it
// so.
#pragma once

// ---- a pod's grant: written by the bridge alone ----
#define TD_ANN_JOB "tandem.dev/job-id"
#define TD_ANN_START "tandem.dev/job-start"
#define TD_ANN_RESTARTS "tandem.dev/job-restarts"
#define TD_ANN_DEVICES "tandem.dev/devices"
#define TD_ANN_CPUS "tandem.dev/cpus"
#define TD_ANN_EPOCH "tandem.dev/epoch"
#define TD_ANN_ASK_PREFIX                                                                                              \
	"slurm.tandem.dev/" // "… partition", "… qos", …: what a pod asks of Slurm; bridge/scheduler/want.c reads them
#define TD_COND_FENCE "tandem.dev/GrantEnded" // condition of a pod: written by the agent

// ---- nodes ----
#define TD_ANN_DRAIN "tandem.dev/drain"               // somebody asks for a drain; its value is the reason
#define TD_ANN_GATE_HELD "tandem.dev/gate-held"       // the agent's: a device is not let go in time
#define TD_ANN_SHARE "tandem.dev/slurm-share"         // the operator's: what Slurm gives out there
#define TD_ANN_SLURM_STATE "tandem.dev/slurm-state"   // the bridge's, on slurmd pods too
#define TD_ANN_SLURM_REASON "tandem.dev/slurm-reason" // the bridge's, on slurmd pods too
#define TD_TAINT_DRAIN "tandem.dev/slurm-drain"       // the bridge's: somebody drained the node in Slurm
#define TD_COND_DRAIN "SlurmDrain"                    // the same as a condition
#define TD_LABEL_FAKE_GPUS "tandem.dev/fake-gpus"
#define TD_LABEL_BLOCK "topology.tandem.dev/block"
#define TD_LABEL_RACK "topology.tandem.dev/rack"

// ---- a SlurmCluster's objects ----
#define TD_LABEL_NAME "app.kubernetes.io/name"
#define TD_LABEL_CLUSTER "tandem.dev/cluster"
#define TD_LABEL_CLUSTER_NS "tandem.dev/cluster-namespace" // on what a SlurmCluster has in the operator's namespace
#define TD_LABEL_NODESET "tandem.dev/nodeset"
#define TD_ANN_CONFIG "tandem.dev/config-hash"      // on daemons' pod templates
#define TD_ANN_REVISION "tandem.dev/revision"       // on what the operator made: hash of the whole wanted object
#define TD_ANN_REST_ACCESS "tandem.dev/rest-access" // on slurmrestd pods: socket or network (slurm/where.h)
#define TD_ANN_CONFIRM_LOST                                                                                            \
	"tandem.dev/confirm-lost-state" // on SlurmClusters: somebody knows that Slurm's state is lost

// ---- slurmd pods ----
#define TD_ANN_NODE "tandem.dev/slurm-node"         // the node they are for
#define TD_ANN_ALL_DEVICES "tandem.dev/all-devices" // they see every device of the node; written by the operator alone
#define TD_LABEL_NODE_STATE "tandem.dev/node-state" // Slurm's word for the node's state
#define TD_LABEL_EVICTABLE "tandem.dev/evictable"   // their node is drained or down and holds no job

// ---- reasons of drains that Tandem writes in Slurm: pool/reason.c says whose each is ----
#define TD_REASON_PREFIX "tandem:"
#define TD_REASON_CORDONED "tandem: cordoned"
#define TD_REASON_REQUESTED "tandem: requested"
#define TD_REASON_GATE "tandem: gate"
#define TD_REASON_DEVICES "tandem: devices" // its kubelet offers fewer than its record says
#define TD_REASON_LOST "tandem: slurm state lost"
#define TD_REASON_UPDATE "tandem: update"     // the slurmd pod is replaced
#define TD_REASON_SCALE_IN "tandem: scale-in" // the node leaves its NodeSet
#define TD_REASON_GONE "tandem: node gone"    // the Kubernetes node is gone
#define TD_REASON_DEAD                                                                                                 \
	"tandem: slurmd died" // its container; the next one clears its jobs away (the script of slurmd pods)
