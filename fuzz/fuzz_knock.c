// Lines at the knock port. A hello that is accepted has a job above 0 and fields without blanks,
// and the line written anew reads the same.
// rows: A6.6
#include "bridge/knocks/line.h"

#include <stdio.h>
#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_knock_line l = {0}, again = {0};
	td_auto_free char *s = td_strndup((const char *)data, size < 512 ? size : 512);

	if (!td_knock_line_parse(s, &l))
		return 0;
	check(!strchr(l.uid, ' ') && !strchr(l.token, ' ') && !strchr(l.name, ' '));
	check((l.what == TD_KNOCK_HELLO) == (l.job > 0));

	if (l.what != TD_KNOCK_HELLO)
		return 0;
	td_auto_free char *w = td_asprintf("hello v=1 job=%lld ask=%s token=%s", (long long)l.job, l.uid, l.token);
	check(td_knock_line_parse(w, &again) && again.job == l.job && !strcmp(again.uid, l.uid) &&
	      !strcmp(again.token, l.token));
	return 0;
}
