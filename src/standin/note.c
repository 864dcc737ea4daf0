// Writes into the admin comment of a native job that has ended how much its devices computed: slurmctld takes nothing of
// such a job any more, slurmdbd does (docs/facts/slurm.md S-A16). Three commands for each job whose devices idled.
#include "standin/watch.h"
#include "standin/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	COMMAND_MS = 20000,
	ASK_MS = 5000,
	ALL_MS = 40000,
	COMMENT = 4096,
	LEAVE_S = 7200,
	MOST_MS = 60000,
	SETTLE_S = 60
};

static bool is_row(const char *line)
{
	size_t n = strspn(line, "0123456789");
	return n && line[n] == '|';
}

bool td_standin_run_read(const char *text, long long job, long long start, struct standin_run *ret)
{
	bool found = false, known = false;
	char use[64], own[sizeof(ret->nodes)] = "";
	snprintf(use, sizeof(use), TD_WIRE_USE "%lld:", start);
	// The last run of the job, of which only slurmdbd changes the comment, is the last line.
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p != 0) {
		long long id = -1, from = -1;
		char end[24] = "", nodes[1024] = "";
		int at = 0;
		if (sscanf(p, "%lld|%lld|%23[^|\n]|%1023[^|\n]|%n", &id, &from, end, nodes, &at) < 4 || id != job)
			continue;
		size_t len = at ? strcspn(p + at, "\n") : 0;
		*ret = (struct standin_run){.last = from == start, .ended = strspn(end, "0123456789") == strlen(end)};
		if (ret->ended)
			sscanf(end, "%lld", &ret->end);
		if (from == start) {
			known = true;
			snprintf(own, sizeof(own), "%s", nodes);
		}
		ret->known = known;
		snprintf(ret->nodes, sizeof(ret->nodes), "%s", known ? own : nodes);
		// Of nodes that have no room here the comment is not seen, and of one with lines of its own only the first.
		const char *next = p + at + len + (p[at + len] == '\n');
		ret->whole = at && len < sizeof(ret->comment) && (!*next || is_row(next));
		snprintf(ret->comment, sizeof(ret->comment), "%.*s", (int)len, p + at);
		ret->said = strstr(ret->comment, use);
		found = true;
	}
	return found;
}

bool td_standin_run_over(const struct standin_run *r, long long now)
{
	return r->ended && (r->said || now - r->end > LEAVE_S);
}

static bool first_of(const char *nodes, const char *node)
{
	char *text = NULL, why[128];
	if (!strpbrk(nodes, ",["))
		return !strcmp(nodes, node);
	bool is = !td_standin_command((char *[]){"scontrol", "show", "hostnames", (char *)nodes, NULL}, false,
				      td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why)) &&
		  text && strcspn(text, "\n") == strlen(node) && !strncmp(text, node, strlen(node));
	free(text);
	return is;
}

static void tell_done(const char *path, const char *node, long long job, long long start)
{
	char line[256], said[TD_WIRE_LINE];
	snprintf(line, sizeof(line), "noted job=%lld start=%lld node=%s devices=-\n", job, start, node);
	td_standin_ask(path, line, td_standin_now_ms() + ASK_MS, said, sizeof(said));
}

// One run of a job. What fails is asked for again by the agent. False: slurmdbd does not answer.
static bool note(const char *path, const char *node, struct standin_use *u)
{
	static struct standin_run run;
	char id[24], name[48], where[64], set[COMMENT + 128], *text = NULL, why[128];
	snprintf(id, sizeof(id), "%lld", u->job);
	int r = td_standin_command((char *[]){"env", "SLURM_TIME_FORMAT=%s", "sacct", "-D", "-X", "-n", "-P", "-j", id,
					      "-o", "JobIDRaw,Start,End,NodeList,AdminComment", NULL},
				   false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	bool known = !r && text && td_standin_run_read(text, u->job, u->start, &run);
	free(text);
	if (known && (!run.known || (run.ended && run.said))) {
		tell_done(path, node, u->job, u->start);
		return true;
	}
	// A job that was queued again is written about when its last run has ended.
	if (!known || !run.ended)
		return !r;
	// That one's node writes the same comment, and first: what one of the two wrote may be lost else.
	if (!run.last && (long long)time(NULL) - run.end < SETTLE_S)
		return true;
	if (!first_of(run.nodes, node)) {
		// Else each node of a large job would ask slurmdbd for a day.
		if (td_standin_run_over(&run, (long long)time(NULL)))
			tell_done(path, node, u->job, u->start);
		return true;
	}
	struct standin_other *others = NULL;
	int n = 0;
	bool all = td_standin_others_read(run.nodes, node, &others, &n) &&
		   td_standin_others_used(others, n, td_standin_now_ms() + ALL_MS, u);
	free(others);
	if (!all)
		return true;
	if (run.whole) {
		if (!td_standin_job_name(id, true, td_standin_now_ms() + COMMAND_MS, name, sizeof(name)))
			return true;
		snprintf(where, sizeof(where), "jobid=%s", name);
		snprintf(set, sizeof(set), "AdminComment=%s%s" TD_WIRE_USE "%lld:%.0f:%.0f", run.comment,
			 *run.comment ? " " : "", u->start, u->busy, u->idle);
		if (!td_standin_act(
			    "watch",
			    (char *[]){"sacctmgr", "-i", "-Q", "modify", "job", "where", where, "set", set, NULL},
			    td_standin_now_ms() + COMMAND_MS))
			return true; // it may be this one's alone
		if (!run.last)
			return true; // asked again, the agent finds that it stands there, or writes it once more
	}
	tell_done(path, node, u->job, u->start);
	return true;
}

void td_standin_note_all(const char *path, const char *node, const char *list)
{
	struct standin_use u;
	const int64_t end = td_standin_now_ms() + MOST_MS; // meanwhile nobody looks for jobs that hang
	for (const char *p = list;
	     td_standin_now_ms() < end && sscanf(p, "%lld:%lld:%lf:%lf", &u.job, &u.start, &u.busy, &u.idle) == 4;) {
		if (!note(path, node, &u))
			break;
		p += strspn(p, "0123456789:");
		if (*p++ != ',')
			break;
	}
}
