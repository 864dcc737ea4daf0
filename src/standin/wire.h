// The protocols of tandem-standin: with the gate of the node agent (Unix socket) and with the knock
// port of the bridge (TCP). Both consist of lines of text, at most 4096 bytes long and ended by
// '\n'. One space separates the fields, so values hold no space. Addresses are numeric.
//
// Gate: a Unix stream socket; the agent checks SO_PEERCRED for uid 0. One request per connection:
//   acquire job=<id> start=<epoch s, 0 unknown> uid=<uid> [ask=<pod uid> [pod=<namespace>/<name>]]
//           [sluid=<name>] node=<slurm node> [partition=<name>] [qos=<name>] [account=<name>]
//           [share=<1 to 100>] devices=<ranges "0-1,4" or "-"> timeout=<ms>
//     share: the job has so many hundredths of its device, beside others; without it the devices are its alone
//     account: Slurm's, for the figures of devices by tenant
//     sluid: what Slurm 26.05 and newer call the job's cgroup on cgroup v2, instead of job_<id>
//     ask and pod are the pod that the job's comment names. They are a hint, because the job's
//     owner may write the comment.
//     -> ok           the node's table names this job as holder, and no other process is left on
//                     the devices
//     -> wait <text>  progress, any number of times; then ok or fail
//     -> sick <tries> <text>  the devices were let go, and failed the test that a policy wants before
//                     this job; Prolog must exit 1. A job that met that so often is held (0: never)
//     -> qos          whether there is a test depends on the job's QOS: ask again with it
//     -> fail <text>  the deadline passed or the request is wrong; Prolog must exit 1
//   exchange <as acquire, devices=->  before acquire, by the Prolog of the first of a job's several nodes
//     -> ok           no test of several nodes is wanted
//     -> qos          as above
//     -> exchange kib=<n> tries=<n> say=<0|1> storage=<directory or nothing>
//   exchange … result=<passed|failed|error> -> ok  what came of it, for the metrics
//   suspect job=<id> node=<slurm node> devices=- state=<bad|well> result=<exchange|storage>
//           timeout=<ms> why=<text, '_' for ' '>
//     by `peer` (peer.h): this node is, or is no more, to blame for a test of several nodes. It is a fault of the
//     node for a minute, and is said again meanwhile
//     -> ok           the node is out of service, or this is as long as it may take
//   suspect job=<id> node=<slurm node> devices=- slow=<node> why=<text, '_' for ' '>
//     by `watch`: a rank of the job is slow on that node, which is one of the job's
//     -> ok           the Node says so; the operator decides whether it leaves service for a test
//   hangs node=<slurm node> devices=-  by `watch` (watch.h), every few seconds
//     -> ok           no policy about jobs that hang
//     -> hangs [every=<ms>] [pace=<ms>] [requeue=<job:restarts>,…] [ring=<id:KiB:MB/s:percent:node,node,…>] [ended=<job:start:busy s:idle s>,…]
//              [faults=<job:text, '_' for ' ', '~' for '_'>,…]
//        ring: test these idle nodes together (rings.c), and say rung of it. Look so often, and say of each job as below (every: progress, pace: pace); queue these jobs again that
//        run here and were queued again so often before; ended: native jobs whose devices idled, for their
//        admin comments; faults: native jobs that met a fault of the node, for the same
//   progress job=<id> node=<slurm node> [partition=] [qos=] devices=- cpu=<ms> output=<n> beat=<n>  (-1: not known)
//            [nodes=<n> | others=<percent>]
//     nodes: the job has so many, and the others were not asked yet. others: they were; the figures are of all of them,
//     and this is the greatest use of a device on the others (-1: no device, -2: not known). beat=-2: the variable is set,
//     and the file is not there
//     -> ok
//     -> hangs ask  the job is watched: ask its other nodes, and say it again
//     -> hangs action=<tell|requeue> signal=<n> dump=<0|1> why=<text, '_' for ' '>
//   use job=<id> node=<slurm node> devices=-  -> hangs gpu=<percent, -1 or -2>  of the job's devices here
//   pace job=<id> node=<slurm node> [partition=] [qos=] devices=- part=<n> of=<n> ranks=<rank:step:µs:node:gpu>,…
//     what the ranks of a job say of their last step; gpu -1: not known. A look that needs several lines has parts, from 0
//     -> ok
//     -> hangs action=<tell|requeue|drain> node=<of the slow rank> why=<text, to the line's end>
//   rung node=<slurm node> devices=- id=<id> state=<on|passed|failed|ended|error> mbps=<n> why=<text, '_' for ' '>
//     by `watch`, about the test of several idle nodes that this one leads; on: it is about to go on
//     -> ok | fail <text>   fail: it is not wanted any more, because somebody's work came
//   used job=<id> start=<epoch s> node=<slurm node> devices=-  -> hangs busy=<s> idle=<s>  what the devices of a native
//        job did here so far, in device seconds
//   noted job=<id> start=<epoch s> node=<slurm node> devices=-  by `watch`: its admin comment has it, or it need not
//     -> ok
//   ping -> ok
//
// Task check: a second Unix stream socket, for any user, because it changes nothing. Slurm's
// TaskProlog makes one request per connection:
//   check start=<epoch s, 0 unknown> node=<slurm node> devices=<ranges, "-" unknown> timeout=<ms>
//     The job is the one whose cgroup the caller is in (by SO_PEERCRED), never a number in the
//     request.
//     -> ok | wait <text> | fail <text>   as above
//     -> again <text>  this run of the job was never let in, because Slurm skipped its Prolog; none
//                      of its tasks may start here
//   mine node=<slurm node> devices=-  -> hangs gpu=<percent, -1 or -2>  what the devices of the caller's own job do here
//        (as `use`); ok: nothing here measures them
//
// Knock: TCP to the bridge. The stand-in sends one hello; then both sides hold the connection:
//   hello v=1 job=<id> ask=<uid> token=<hex> node=<name>
//     <- run           this job is the ask's: hold on
//     <- end code=<n>  exit with this code now
//     <- gone          the job is not needed any more (a duplicate, or cancelled): exit 0
//   signal name=TERM|USR1  stand-in to bridge: the stand-in got this signal. After TERM it exits
//                          with 143 as soon as the line is sent, or after 1 s.
//   ping / pong            either side, every 20 s. A peer that is silent for 60 s is dropped; then
//                          the stand-in connects again, for ever.
// Only the bridge that leads listens. Where several may lead, the job's script also sets
// TD_WIRE_NAME_ENV to NAME:PORT, a DNS name of all of them, which is looked up when the last
// address does not answer. It is an environment variable and no argument, so that older stand-ins
// ignore it.
#pragma once

#include <stdbool.h>
#include <string.h>

#define TD_WIRE_LINE 4096
// How the comment of a pod's stand-in begins.
#define TD_WIRE_STANDIN "tandem/"
// In the admin comment of a native job that has ended, behind it: "START:BUSY:IDLE", what its devices did (pool/notes.h).
#define TD_WIRE_USE "tandem-use:"
#define TD_WIRE_PING_S 20
#define TD_WIRE_DEAD_S 60
#define TD_WIRE_NAME_ENV "TANDEM_KNOCK_NAME"
// Where things lie inside a slurmd pod.
#define TD_WIRE_BINARY "/opt/tandem/tandem-standin"
#define TD_WIRE_TASK_PROLOG "/opt/tandem/task-prolog" // the same program, under its mode's name
#define TD_WIRE_GATE "/run/tandem/gate.sock"
#define TD_WIRE_TASK "/run/tandem/task.sock"
// Which variables tell a task its devices where Slurm does not: lines "NAME local|index", or "NAME each A B C" with a word for
// each of the node's devices (parts of GPUs). Absent: Slurm tells it.
#define TD_WIRE_ACCELERATOR "/run/tandem/accelerator"
#define TD_WIRE_FAULTS "/run/tandem/faults" // of a virtual node (`tandem fault`)
#define TD_WIRE_KEY "/etc/slurm-keys/slurm.key"
#define TD_WIRE_TYPES "/run/slurm/several-gpu-types" // is there where GPUs are of several types (slurmd.sh)
#define TD_WIRE_SHARES "/run/slurm/gpu-shares"       // is there where GPUs are given out in shares (slurmd.sh)

// The length of the name that Slurm gives a job beside its number (SLUID), "sEKNKTV3WPV500", when s begins with one; else
// 0. What follows it is the caller's.
static inline size_t td_wire_sluid(const char *s)
{
	enum { LETTERS = 13 };
	return s[0] == 's' && strspn(s + 1, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == LETTERS ? LETTERS + 1 : 0;
}

static inline bool td_wire_is_sluid(const char *s)
{
	size_t n = td_wire_sluid(s);
	return n && !s[n];
}

// The job's SLUID in the text of a /proc/PID/cgroup, "0::/…/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0"; NULL: there
// is none. slurmd makes the directory, and its steps are below it: a user makes directories of his own only below these.
static inline const char *td_wire_cgroup_sluid(const char *cgroups)
{
	for (const char *s = cgroups; (s = strstr(s, "/s")) != NULL; s++) {
		size_t n = td_wire_sluid(s + 1);
		if (n && !strncmp(s + 1 + n, "/step_", strlen("/step_")))
			return s + 1;
	}
	return NULL;
}
