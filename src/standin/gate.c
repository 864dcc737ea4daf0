// `gate`: Slurm's Prolog. It asks the node's agent to acquire the job's devices and waits for the
// answer. It fails closed.
//
// Exit 0: the devices are this job's and no other process is left on them, or the job has none.
// Exit 1: Slurm drains the node. So it does when the test of the devices failed; the job is then queued again
// (unlucky.c). While the agent cannot be reached the devices count as unknown,
// never as free: the gate keeps trying until the deadline (docs/protocols.md 1.6).
//
// Where a node has GPUs of several types (slurmd.sh makes TD_WIRE_TYPES), the environment of Prolog has the
// indexes of one type only (docs/facts/slurm.md S-D9): there slurmctld is asked, and both count.
//
// --launch: slurmd runs it at the job's first launch on the node (no PrologFlags=Alloc). Then the
// environment is made of the credential that the step's own devices come from, so a job whose
// devices it does not name has none.
#include "standin/firewall.h"
#include "standin/wire.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GATE_MS = 45000, DEVICES_MAX = 1024, POD_NS_MAX = 63, POD_NAME_MAX = 253, QOS_MAX = 128 };

// A name that may stand in a request: "" when it is none.
static const char *word(const char *s)
{
	return s && strlen(s) < QOS_MAX && !strpbrk(s, " \n") ? s : "";
}

// " sluid=NAME" for what Slurm 26.05 and newer call the job, too (docs/facts/slurm.md S-V6); "": they do not.
static const char *sluid(char buf[32])
{
	const char *s = getenv("SLURM_JOB_SLUID");
	bool is = s && td_wire_is_sluid(s);
	snprintf(buf, 32, "%s%s", is ? " sluid=" : "", is ? s : "");
	return buf;
}

static bool digits(const char *s)
{
	return s && *s && strlen(s) < 20 && strspn(s, "0123456789") == strlen(s);
}

// Rewrites a list of indexes such as "0,1,2,5" or "0-2,5" as ranges. False: it is no such list.
static bool ranges(const char *s, char *out, size_t n)
{
	unsigned char on[DEVICES_MAX] = {0};
	while (*s) {
		char *end;
		if (!isdigit((unsigned char)*s))
			return false;

		unsigned long a = strtoul(s, &end, 10), b = a;
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				return false;
			b = strtoul(end + 1, &end, 10);
		}
		if (a > b || b >= DEVICES_MAX || (*end && *end != ','))
			return false;
		for (; a <= b; a++)
			on[a] = 1;
		s = *end ? end + 1 : end;
	}

	size_t len = 0;
	for (int i = 0; i < DEVICES_MAX; i++) {
		if (!on[i])
			continue;
		int j = i;
		while (j + 1 < DEVICES_MAX && on[j + 1])
			j++;
		int k = snprintf(out + len, n - len, j > i ? "%s%d-%d" : "%s%d", len ? "," : "", i, j);
		if (k < 0 || (size_t)k >= n - len)
			return false;
		len += (size_t)k;
		i = j;
	}
	return len > 0;
}

// Finds the job's device indexes on this node. 1: they are in out; 0: it has none; -1: a variable
// is set that cannot be read.
static int devices(char *out, size_t n)
{
	// SLURM_JOB_GPUS has the node's own indexes. The visible-devices lists have the same ones
	// in Prolog, where nothing is renumbered.
	static const char *const names[] = {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
					    "ZE_AFFINITY_MASK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *v = getenv(names[i]);
		if (!v || !*v || !strcmp(v, "NoDevFiles"))
			continue;
		if (ranges(v, out, n))
			return 1;
		fprintf(stderr, "tandem gate: %s=\"%s\" is not a list of device indexes\n", names[i], v);
		return -1;
	}

	// This says that there are GPUs, not which ones. Never guess.
	const char *gres = getenv("SLURM_JOB_GRES");
	if (gres && strstr(gres, "gpu")) {
		fprintf(stderr,
			"tandem gate: the job has GRES \"%s\" but Slurm did not say which devices (SLURM_JOB_GPUS is "
			"unset)\n",
			gres);
		return -1;
	}
	return 0;
}

int td_standin_ask(const char *path, const char *request, int64_t deadline, char *why, size_t n_why)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path)) {
		snprintf(why, n_why, "socket path \"%s\" is too long", path);
		return 1;
	}
	strcpy(a.sun_path, path);

	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    td_standin_line_write(fd, request, deadline) < 0) {
		snprintf(why, n_why, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}

	struct line_reader r = {.fd = fd};
	int result;
	for (;;) {
		char *line;
		int k = td_standin_line_read(&r, deadline, &line);
		if (k == 0) {
			result = -1; // why has the last "wait" text
			break;
		}
		if (k < 0) {
			snprintf(why, n_why, "the node agent closed the connection without an answer%s%s",
				 errno ? ": " : "", errno ? strerror(errno) : "");
			result = -1;
			break;
		}

		if (!strcmp(line, "ok")) {
			result = 0;
			break;
		}
		if (!strncmp(line, "wait", 4)) {
			snprintf(why, n_why, "%s", line[4] ? line + 5 : "waiting");
			continue;
		}

		static const struct {
			const char *word;
			int result;
		} last[] = {{"fail ", 1},
			    {"again ", 2},
			    {"sick ", STANDIN_SICK},
			    {"qos", STANDIN_WANTS_QOS},
			    {"exchange ", STANDIN_EXCHANGE},
			    {"hangs ", STANDIN_HANGS}};
		result = 1;
		size_t skip = 0;
		for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
			if (!strncmp(line, last[i].word, strlen(last[i].word))) {
				result = last[i].result;
				skip = strlen(last[i].word);
			}
		snprintf(why, n_why, "%s", line + skip);
		break;
	}

	close(fd);
	return result;
}

// The length of the path part at s, when it is a Kubernetes name of at most max bytes that ends
// with a slash; else 0.
static size_t kube_name(const char *s, size_t max)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");
	return s[n] == '/' && n <= max ? n : 0;
}

// Returns " ask=<pod uid> pod=<namespace>/<name>" when the job's comment says that the job stands
// in for a pod, else "". The comment is "tandem/<cluster uid>/<namespace>/<name>/<pod uid>" and is
// set at the submit; older bridges leave the name out. It is a hint, because the job's owner may
// write what he likes there.
static const char *ask(char *out, size_t n)
{
	const char *comment = getenv("SLURM_JOB_COMMENT"), *uid = comment ? strrchr(comment, '/') : NULL;
	*out = '\0';
	if (!uid || !td_standin_is_pods(comment) || strlen(++uid) != 36 || strspn(uid, "0123456789abcdef-") != 36)
		return out;

	const char *ns = strchr(comment + strlen(TD_WIRE_STANDIN), '/'); // after the cluster's uid
	size_t n_ns = ns && ++ns < uid ? kube_name(ns, POD_NS_MAX) : 0,
	       n_name = n_ns ? kube_name(ns + n_ns + 1, POD_NAME_MAX) : 0;
	int at = snprintf(out, n, " ask=%s", uid);
	if (n_name && ns + n_ns + 1 + n_name + 1 == uid)
		snprintf(out + at, n - (size_t)at, " pod=%.*s", (int)(n_ns + 1 + n_name), ns);
	return out;
}

// Has this run of the job ended meanwhile? Then slurmctld does not say any more what it had. It is let go without its
// devices: TaskProlog lets nothing of it start.
static bool over(const char *job, int64_t deadline)
{
	static const char *const lives[] = {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"};
	char state[32] = "", why[128];
	if (td_standin_job_text(job, "job_state/#", deadline, (struct standin_text){state, sizeof(state)}, why,
				sizeof(why)) <= 0)
		return false;
	for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
		if (!strcmp(state, lives[i]))
			return false;
	return true;
}

int td_standin_gate(int argc, char **argv)
{
	const char *path = TD_WIRE_GATE, *types = TD_WIRE_TYPES, *shares = TD_WIRE_SHARES;
	int64_t timeout = GATE_MS;
	bool launch = false;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--socket")) {
			path = argv[++i];
		} else if (i + 1 < argc && !strcmp(argv[i], "--timeout") && digits(argv[i + 1])) {
			timeout = atoll(argv[++i]);
		} else if (i + 1 < argc && !strcmp(argv[i], "--types")) {
			types = argv[++i];
		} else if (i + 1 < argc && !strcmp(argv[i], "--shares")) {
			shares = argv[++i];
		} else if (!strcmp(argv[i], "--launch")) {
			launch = true;
		} else {
			fprintf(stderr, "tandem gate: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
	}

	const char *job = getenv("SLURM_JOB_ID"), *uid = getenv("SLURM_JOB_UID"),
		   *account = word(getenv("SLURM_JOB_ACCOUNT"));
	if (digits(job) && digits(uid) && *account)
		td_firewall_job(job, uid, account); // without it the job is its user's alone
	if (digits(job) && *account)
		td_standin_account(job, account);

	char dev[DEVICES_MAX * 5];
	int d = devices(dev, sizeof(dev));
	if (d < 0)
		return 1;
	if (!d && launch)
		return 0;

	const char *node = getenv("SLURMD_NODENAME"), *start = getenv("SLURM_JOB_START_TIME");
	if (!digits(job) || !digits(uid) || !node || !*node || strpbrk(node, " \n")) {
		fputs("tandem gate: SLURM_JOB_ID, SLURM_JOB_UID and SLURMD_NODENAME must be set: this runs as Slurm's "
		      "Prolog\n",
		      stderr);
		return 1;
	}

	int64_t deadline = td_standin_now_ms() + timeout, last = td_standin_now_ms() + STANDIN_PROLOG_MS, back_off = 50;
	char why[TD_WIRE_LINE] = "no answer", qos[QOS_MAX] = "", told[DEVICES_MAX * 5] = "";
	if (d) {
		const char *partition = word(getenv("SLURM_JOB_PARTITION"));
		char who[TD_WIRE_LINE / 2], pod[sizeof(" ask= pod=/") + 36 + POD_NS_MAX + POD_NAME_MAX];
		snprintf(who, sizeof(who), "job=%s start=%s uid=%s%s node=%s%s%s%s%s", job, digits(start) ? start : "0",
			 uid, ask(pod, sizeof(pod)), node, *partition ? " partition=" : "", partition,
			 *account ? " account=" : "", account);
		if (!td_standin_several(&(struct standin_several){job, node, path, who, last}))
			return 0;
	}
	// Prolog's environment names the device, and not which part of it the job has.
	bool ask_share = !access(shares, F_OK);
	char share[24] = "";
	if (d && !access(types, F_OK)) {
		snprintf(told, sizeof(told), "%s", dev);
		d = 0;
	}
	for (;;) {
		int64_t left = deadline - td_standin_now_ms();
		if (left <= 0)
			break;

		// Either the job has none, or Slurm did not tell: see job.c.
		if (d == 0) {
			char said[2 * DEVICES_MAX * 5 + 1];
			int k = td_standin_job_gpus(job, node, deadline, (struct standin_text){said, DEVICES_MAX * 5},
						    why, sizeof(why));
			if (k == 0 && !*told)
				// Jobs without devices run also when the agent is away.
				return 0;
			if (k > 0 && *told) {
				strcat(said, ",");
				strcat(said, told);
			}
			if (k <= 0 && *told && over(job, deadline))
				return 0;
			if (k > 0 && ranges(said, dev, sizeof(dev)))
				d = 1;
		}

		if (d && ask_share) {
			int k = td_standin_job_share(job, node, deadline, (struct standin_text){share, sizeof(share)},
						     why, sizeof(why));
			ask_share = k < 0;
			if (ask_share && over(job, deadline))
				return 0;
		}

		if (d == 0 || ask_share) {
			left = deadline - td_standin_now_ms();
			// slurmctld may be restarting.
			if (left > 0)
				poll(NULL, 0, (int)(back_off < left ? back_off : left));
			back_off = back_off < 500 ? back_off * 2 : 1000;
			continue;
		}

		const char *partition = word(getenv("SLURM_JOB_PARTITION"));
		char request[TD_WIRE_LINE], called[32], pod[sizeof(" ask= pod=/") + 36 + POD_NS_MAX + POD_NAME_MAX];
		int n = snprintf(request, sizeof(request),
				 "acquire job=%s start=%s uid=%s%s%s node=%s%s%s%s%s%s%s%s%s devices=%s timeout=%lld\n",
				 job, digits(start) ? start : "0", uid, ask(pod, sizeof(pod)), sluid(called), node,
				 *partition ? " partition=" : "", partition, *qos ? " qos=" : "", qos,
				 *account ? " account=" : "", account, *share ? " share=" : "", share, dev,
				 (long long)left);
		if (n < 0 || (size_t)n >= sizeof(request)) {
			fputs("tandem gate: the request is longer than a line\n", stderr);
			return 1;
		}

		int r = td_standin_ask(path, request, deadline, why, sizeof(why));
		if (r == STANDIN_SICK) {
			char *text = why;
			long long tries = strtoll(why, &text, 10);
			text += *text == ' ';
			fprintf(stderr, "tandem gate: %s\n", text);
			td_standin_unlucky(&(struct standin_unlucky){job, node, text, tries, last});
			return 1;
		}
		// It is asked for only where it decides, because that costs a call to slurmctld.
		if (r == STANDIN_WANTS_QOS && !*qos) {
			struct standin_text out = {qos, sizeof(qos)};
			if (td_standin_job_text(job, "qos", deadline, out, why, sizeof(why)) > 0 && *word(qos))
				continue;
			snprintf(qos, sizeof(qos), "-"); // no QOS has this name
			continue;
		}
		if (r > 0)
			fprintf(stderr, "tandem gate: %s\n", why);
		if (r >= 0)
			return r > 0;

		left = deadline - td_standin_now_ms();
		// The agent's socket may not exist yet, and no event tells of it.
		if (left > 0)
			poll(NULL, 0, (int)(back_off < left ? back_off : left));
		back_off = back_off < 500 ? back_off * 2 : 1000;
	}
	fprintf(stderr, "tandem gate: devices %s on %s are not free for job %s after %lld ms: %s\n",
		d ? dev : "(unknown)", node, job, (long long)timeout, why);
	return 1;
}
