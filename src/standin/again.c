// A job of which a rank is slow is queued again: three times at most, and where that leaves enough nodes not on the slow
// one. What the ranks say is their user's word, so it must not keep a job from ever coming to its end.
#include "standin/standin.h"
#include "standin/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_MS = 10000, MOST = 3, FIELDS = 6, LIST = 1024 };

// The first line of a command's output, at most n - 1 bytes of it; false: it failed, or is longer.
static bool line_of(char *const argv[], char *ret, size_t n)
{
	char *text = NULL, why[128];
	int r = td_standin_command(argv, false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	size_t len = text ? strcspn(text, "\n") : 0;
	bool whole = !r && text && len < n;
	snprintf(ret, n, "%.*s", whole ? (int)len : 0, text ? text : "");
	free(text);
	return whole;
}

static bool none(const char *list)
{
	return !*list || !strcmp(list, "(null)") || !strcmp(list, "N/A");
}

// How many nodes a list has; as many as can be when that is not known.
static int hosts(const char *list)
{
	char *text = NULL, why[128];
	int n = 0;
	if (td_standin_command((char *[]){"scontrol", "show", "hostnames", (char *)list, NULL}, false,
			       td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why)) ||
	    !text)
		n = INT16_MAX;
	for (const char *p = text ? text : ""; *p; p++)
		n += *p == '\n';
	free(text);
	return n;
}

// The list of nodes that the job is kept off, with this one; false: it stays as it is.
static bool without(const char *id, const char *node, char *ret, size_t n)
{
	char line[LIST], count[24] = "", *v[FIELDS] = {0}, *rest = line;
	// Nodes that it asks for and that it is kept off, its partition, how many nodes it has, and what else binds it.
	if (!line_of((char *[]){"squeue", "-h", "-j", (char *)id, "-o", "%n|%x|%P|%D|%v|%f", NULL}, line, sizeof(line)))
		return false;
	for (int i = 0; i < FIELDS; i++)
		if (!(v[i] = strsep(&rest, "|")))
			return false;
	if (!none(v[0]) || !none(v[4]) || !none(v[5]) || strpbrk(v[2], ", ") ||
	    !line_of((char *[]){"sinfo", "-h", "-p", v[2], "-o", "%D", NULL}, count, sizeof(count)))
		return false;
	if (atoi(count) - 1 - (none(v[1]) ? 0 : hosts(v[1])) < atoi(v[3]))
		return false;
	return snprintf(ret, n, "excnodelist=%s%s%s", none(v[1]) ? "" : v[1], none(v[1]) ? "" : ",", node) < (int)n;
}

bool td_standin_again(const char *id, const char *node)
{
	char restarts[24] = "", list[LIST + 80], named[48];
	bool known = line_of((char *[]){"squeue", "-h", "-j", (char *)id, "-O", "RestartCnt:20", NULL}, restarts,
			     sizeof(restarts));
	if (!known || atoi(restarts) >= MOST) {
		fprintf(stderr, "tandem watch: job %s goes on: it was queued again %s times\n", id,
			known ? restarts : "an unknown number of");
		return false;
	}
	bool off = without(id, node, list, sizeof(list));
	td_standin_act("watch", (char *[]){"scontrol", "requeue", (char *)id, NULL}, td_standin_now_ms() + COMMAND_MS);
	snprintf(named, sizeof(named), "jobid=%s", id);
	if (off)
		td_standin_act("watch", (char *[]){"scontrol", "update", named, list, NULL},
			       td_standin_now_ms() + COMMAND_MS);
	return true;
}
