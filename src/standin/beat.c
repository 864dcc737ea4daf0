// What a rank says of its last step, as text (watch.h). It is a user's.
#include "standin/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool td_standin_beat(const char *text, struct standin_beat *ret)
{
	*ret = (struct standin_beat){.gpu = -1};
	char *end;
	size_t digits = strspn(text, "0123456789"), n;
	if (!digits || digits > 15 || text[digits] != ' ')
		return false;
	ret->step = strtoll(text, NULL, 10);
	text += digits + 1;
	if (*text < '0' || *text > '9')
		return false; // no sign, and no word such as "nan"
	double seconds = strtod(text, &end);
	if (!isfinite(seconds) || seconds < 0 || seconds > 1e6 || *end != ' ')
		return false;
	ret->us = (long long)(seconds * 1e6 + 0.5);
	text = end + 1;
	n = strspn(text, STANDIN_NAME_CHARS);
	if (!n || n >= sizeof(ret->node))
		return false;
	memcpy(ret->node, text, n);
	text += n;
	if (*text == ' ') {
		digits = strspn(++text, "0123456789");
		if (!digits || digits > 2)
			return false;
		ret->gpu = atoi(text);
		text += digits;
	}
	// A line without its end is still being written.
	return *text == '\n';
}
