// `pause`: keeps a pod running that does nothing, until it is told to end.
#include "standin/standin.h"

#include <signal.h>
#include <stddef.h>

int td_standin_pause(void)
{
	sigset_t s;
	int got;

	// As PID 1 it gets no signal that it does not wait for.
	sigemptyset(&s);
	sigaddset(&s, SIGTERM);
	sigaddset(&s, SIGINT);
	sigprocmask(SIG_BLOCK, &s, NULL);
	sigwait(&s, &got);
	return 0;
}
