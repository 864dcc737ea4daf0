#include "local/progress.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/term.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t now(void)
{
	return td_mono_ms(&td_clock_system);
}

void td_progress_init(struct td_progress *p)
{
	*p = (struct td_progress){.begin_ms = now(), .tty = isatty(1)};
}

void td_progress_step(struct td_progress *p, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(p->what, sizeof(p->what), fmt, ap);
	va_end(ap);
	p->step_ms = now();
	if (p->tty) {
		printf("          %s …", p->what);
		fflush(stdout);
		p->open = 1;
	}
}

void td_progress_bar(struct td_progress *p, int percent, const char *note)
{
	if (!p->tty)
		return;
	percent = percent < 0 ? 0 : percent > 100 ? 100 : percent;

	char bar[21];
	for (int k = 0; k < 20; k++)
		bar[k] = k < percent / 5 ? '#' : '-';
	bar[20] = '\0';

	printf("\r\033[K          %.30s [%s] %3d%% %.14s", p->what, bar, percent, note ? note : "");
	fflush(stdout);
	p->open = 1;
}

void td_progress_done(struct td_progress *p, const char *fmt, ...)
{
	char text[160];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);

	if (p->open)
		fputs("\r\033[K", stdout);
	p->open = 0;
	printf("%7.2f s  %s\n", (double)(now() - p->step_ms) / 1000, *text ? text : p->what);
	fflush(stdout);
}

void td_progress_fail(struct td_progress *p)
{
	if (p->open)
		fputs("\r\033[K", stdout);
	p->open = 0;
	bool color = td_term_colors(1);
	printf(" %sfailed%s    %s\n", td_term_color(color, TD_TERM_BAD), td_term_color(color, TD_TERM_PLAIN), p->what);
	fflush(stdout);
}

double td_progress_total_s(const struct td_progress *p)
{
	return (double)(now() - p->begin_ms) / 1000;
}
