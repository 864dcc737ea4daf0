// The words that tandem-standin speaks: with the node agent's gate (unix socket) and with the bridge's knock port
// (TCP). Lines of text, at most 4096 bytes, ended by '\n', fields separated by one space; values hold no space. Numeric
// addresses only.
//
// Gate (unix stream socket; the agent checks SO_PEERCRED: uid 0). One request per connection:
//   acquire job=<id> start=<epoch s, 0 unknown> uid=<uid> [ask=<pod uid> [pod=<namespace>/<name>]] node=<slurm node>
//           devices=<ranges "0-1,4" or "-"> timeout=<ms>
//     ask, pod: the pod that the job's comment names; a hint, because the job's owner may write there
//     -> ok                          the node's table names this job as holder and nobody else's process is left on the
//     devices
//     -> wait <text>                 (any number, progress) … then ok or fail
//     -> fail <text>                 the deadline passed or the request is wrong; Prolog must exit 1
//   ping -> ok
//
// Task check (a second unix stream socket, for anybody: it changes nothing). One request per connection, from Slurm's
// TaskProlog:
//   check start=<epoch s, 0 unknown> node=<slurm node> devices=<ranges, "-" unknown> timeout=<ms>
//     the job is the one whose cgroup the caller is in (SO_PEERCRED), never a number that it says
//     -> ok | wait <text> | fail <text>   as above
//     -> again <text>                     this run of the job was never let in: Slurm skipped its Prolog. Nothing of it
//     may start here
//
// Knock (TCP to the bridge). The stand-in sends one hello, then both sides hold the connection:
//   hello v=1 job=<id> ask=<uid> token=<hex> node=<name>
//     <- run                         this job is the ask's: hold on
//     <- end code=<n>                exit with this code now
//     <- gone                        not ours any more (duplicate, cancelled): exit 0
//   signal name=TERM|USR1            stand-in → bridge: it was signalled
//     (after TERM the stand-in exits 143 as soon as the line is out or 1 s has passed)
//   ping / pong                      either side, every 20 s; a silent peer is dropped after 60 s and the stand-in
//   connects again for ever
// Only the bridge that leads listens. Where several may lead, the job's script also sets TD_WIRE_NAME_ENV to NAME:PORT:
// a DNS name of all of them, asked when the last address does not answer. (In the environment: a stand-in of before
// that is not told of what it does not know.)
#pragma once

#define TD_WIRE_LINE 4096
#define TD_WIRE_PING_S 20
#define TD_WIRE_DEAD_S 60
#define TD_WIRE_NAME_ENV "TANDEM_KNOCK_NAME"
// Where things lie inside a slurmd pod.
#define TD_WIRE_BINARY "/opt/tandem/tandem-standin"
#define TD_WIRE_TASK_PROLOG "/opt/tandem/task-prolog" // the same program: what its name says
#define TD_WIRE_GATE "/run/tandem/gate.sock"
#define TD_WIRE_TASK "/run/tandem/task.sock"
