// Parses the lines of stand-ins.
#include "bridge/knocks/line.h"

#include <string.h>

// Copies the value of "key=value" in a line. False: the line has no such field, or its value does
// not fit.
static bool field(const char *line, const char *key, char *ret, size_t n)
{
	size_t len = strlen(key);
	for (const char *p = line; p; p = strchr(p, ' ')) {
		p += *p == ' ';
		if (strncmp(p, key, len) != 0 || p[len] != '=')
			continue;
		p += len + 1;

		size_t v = strcspn(p, " ");
		if (v >= n)
			return false;

		memcpy(ret, p, v);
		ret[v] = '\0';
		return true;
	}
	return false;
}

static bool hello(const char *line, struct td_knock_line *l)
{
	char v[8], job[24];
	long long id;
	if (!field(line, "v", v, sizeof(v)) || strcmp(v, "1") != 0 || !field(line, "job", job, sizeof(job)) ||
	    !td_parse_i64(job, &id) || id <= 0 || !field(line, "ask", l->uid, sizeof(l->uid)) ||
	    !field(line, "token", l->token, sizeof(l->token)))
		return false;
	l->job = id;
	return true;
}

bool td_knock_line_parse(const char *line, struct td_knock_line *ret)
{
	struct td_knock_line l = {.what = TD_KNOCK_OTHER};

	if (!strcmp(line, "ping")) {
		l.what = TD_KNOCK_PING;
	} else if (!strcmp(line, "pong")) {
		l.what = TD_KNOCK_PONG;
	} else if (td_starts(line, "hello ")) {
		l.what = TD_KNOCK_HELLO;
		if (!hello(line, &l))
			return false;
	} else if (td_starts(line, "signal ")) {
		l.what = TD_KNOCK_SIGNAL;
		if (!field(line, "name", l.name, sizeof(l.name)))
			l.name[0] = '\0';
	}

	*ret = l;
	return true;
}
