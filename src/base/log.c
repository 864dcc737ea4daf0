#include "base/log.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *log_role = "tandem";
static enum td_log_level log_level = TD_LOG_INFO;

void td_log_init(const char *role, enum td_log_level level)
{
	log_role = role;
	log_level = level;
}

int td_log_level_parse(const char *s)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	for (int i = 0; i < 4; i++)
		if (td_streq(s, names[i]))
			return i;
	return -1;
}

void td_log_at(enum td_log_level level, const char *fmt, ...)
{
	if (level < log_level)
		return;

	static const char *const marks[] = {"DEBUG", "INFO", "WARN", "ERROR"};
	char line[2048], t[TD_TIME_LEN];
	int n = snprintf(line, sizeof(line), "%s %s %s: ", td_time_format_micro(td_real_ms(&td_clock_system), t),
			 marks[level], log_role);
	va_list ap;
	va_start(ap, fmt);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);

	size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;

	// One event is one line, whatever the text contains; and nothing in it moves the terminal that shows it.
	for (size_t i = (size_t)n; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = ' ';

	line[len++] = '\n';
	(void)!write(2, line, len);
}
