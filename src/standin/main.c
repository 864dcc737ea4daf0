// tandem-standin: one static program for places that have nothing but libc.
//   init CMD [ARG…]   PID 1 of embedded containers (also when the program is called ".init")
//   gate              Slurm's Prolog: waits until the node's devices are free for this job
//   task-prolog       Slurm's TaskProlog (also under this name): checks that the gate let this job
//                     in
//   run …             the batch job that stands in for a pod
//   copy DIR          copies the program into DIR, for Slurm's containers
//   first-job-id …    at slurmctld's start: the first job id that it may give
//   selftest …        the job that tests a node: computes on every device
//   clear-dead …      at slurmd's start: ends what ran in the container before it
//   peer …            in slurmd's pod: takes part in the test of several nodes before a job
//   pause             does nothing, in the pods that show what native jobs hold
//   watch …           in slurmd's pod: looks for jobs that hang
//   firewall …        beside slurmd and logins: keeps users' connections apart (firewall.h)
//   line PATH         in a session's job on a machine without a kubelet: a connection to its terminal
//   lines PATH        the same for one that serves HTTP: many connections
//   uses …            there, too: says what the job uses
//   own-net …         there, too: runs a program in a network of its own, of which one port is at a socket
//   terminal …        in a session's pod: a shell, shown over WebSockets to its owner
//   worker …          in the pod of a session's further node, or beside a session's containers on machines: runs what tandem-run says
//   on-nodes …        tandem-run, by another name
//   stage …           runs a program and keeps its checkpoints (also under the name tandem-stage)
//   on-slurm …        there on machines without a kubelet: the program of one node
// Called tandem-run or tandem-rsh it runs a program on the nodes of a session.
#include "standin/firewall.h"
#include "standin/worker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int usage(FILE *f)
{
	fputs("usage: tandem-standin init [--log BYTES] [--tty] CMD [ARG…]\n"
	      "       tandem-standin exec CMD [ARG…]\n"
	      "       tandem-standin gate [--launch] [--socket PATH] [--timeout MS]\n"
	      "                           [--types PATH]\n"
	      "       tandem-standin task-prolog [--socket PATH]\n"
	      "       tandem-standin run --knock ADDR:PORT --ask UID --token HEX\n"
	      "       tandem-standin copy DIR\n"
	      "       tandem-standin pause\n"
	      "       tandem-standin first-job-id --state DIR [--first N] [--max N]\n"
	      "       tandem-standin selftest --ms N --devices N|--only LIST\n"
	      "                               [--measure DIR] [--faults FILE]\n"
	      "       tandem-standin clear-dead --node NAME --reason TEXT [--sack PATH]\n"
	      "       tandem-standin peer --node NAME [--socket PATH] [--key PATH]\n"
	      "                           [--faults FILE] [--port N]\n"
	      "       tandem-standin watch --node NAME [--socket PATH]\n"
	      "       tandem-standin firewall [--rules] [--accounts] [--from BLOCK]…\n"
	      "                               [--jobs DIR] [--spool DIR]\n"
	      "       tandem-standin terminal --port PORT|--socket PATH CMD [ARG…]\n"
	      "       tandem-standin line PATH\n"
	      "       tandem-standin lines PATH\n"
	      "       tandem-standin uses [--every MS] [--socket PATH]\n"
	      "       tandem-standin own-net PATH PORT CMD [ARG…]\n"
	      "       tandem-standin worker --port PORT|--socket PATH\n"
	      "       tandem-standin stage [--to DIR] [--keep N] [--parts all|one|none|P/N]\n"
	      "                            [--reshard copy|link|no] [--attempt ID]\n"
	      "                            [--signal NAME] [--no-restore] [--] CMD [ARG…]\n"
	      "       tandem-run [-l] [--workers | --node N] [--] CMD [ARG…]\n"
	      "       tandem-rsh [-n] HOST CMD…\n"
	      "\n"
	      "What runs inside Slurm's jobs and embedded containers; tandem-standin(8) says\n"
	      "more.\n"
	      "\n"
	      "Exit codes: 0 the job may start, or is not needed any more, 1 failed, 2 wrong\n"
	      "usage, 126 cannot be run, 127 not found, 128 could not be started, 143 told to\n"
	      "end, 255 a node of the session is lost; else the command's own.\n",
	      f);
	return f == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	const char *name = argc ? (slash ? slash + 1 : argv[0]) : "";
	// The program is bind-mounted as /.init: PID 1 is the container's start, every other
	// process an exec into it.
	if (!strcmp(name, ".init"))
		return argc < 2                      ? usage(stderr)
		       : getpid() == 1               ? td_standin_init(argv + 1)
		       : !strcmp(argv[1], "--stage") ? td_standin_stage(argv + 1)
						     : td_standin_exec(argv + 1);

	if (!strcmp(name, "task-prolog"))
		return td_standin_task(argc, argv);
	if (!strcmp(name, "tandem-stage"))
		return td_standin_stage(argv);
	if (!strcmp(name, "tandem-run"))
		return td_standin_onnodes(argc, argv);
	if (!strcmp(name, "tandem-rsh"))
		return td_standin_rsh(argc, argv);
	if (argc >= 2 && !strcmp(argv[1], "task-prolog"))
		return td_standin_task(argc - 1, argv + 1);

	if (argc >= 2 && !strcmp(argv[1], "on-nodes"))
		return td_standin_onnodes(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "on-slurm"))
		return td_standin_onslurm_task(argc - 1, argv + 1);
	if (argc >= 3 && !strcmp(argv[1], "init"))
		return td_standin_init(argv + 2);
	if (argc >= 3 && !strcmp(argv[1], "exec"))
		return td_standin_exec(argv + 2);
	if (argc >= 2 && !strcmp(argv[1], "gate"))
		return td_standin_gate(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "selftest"))
		return td_standin_selftest(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "run"))
		return td_standin_run(argc - 1, argv + 1);
	if (argc == 3 && !strcmp(argv[1], "copy"))
		return td_standin_copy(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "pause"))
		return td_standin_pause();
	if (argc >= 2 && !strcmp(argv[1], "first-job-id"))
		return td_standin_first_job_id(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "clear-dead"))
		return td_standin_clear_dead(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "peer"))
		return td_standin_peer(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "watch"))
		return td_standin_watch(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "firewall"))
		return td_standin_firewall(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "line"))
		return td_standin_line_main(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "lines"))
		return td_standin_lines_main(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "uses"))
		return td_standin_uses(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "own-net"))
		return td_standin_own_net(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "terminal"))
		return td_standin_terminal(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "worker"))
		return td_standin_worker(argc - 1, argv + 1);

	if (argc >= 2 && !strcmp(argv[1], "stage"))
		return td_standin_stage(argv + 1);

	return usage(argc == 2 && !strcmp(argv[1], "--help") ? stdout : stderr);
}
