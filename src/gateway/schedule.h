// Runs that are submitted by the clock (UTC).
//
// A schedule is an entry "schedule.ID" of the Secret CLUSTER-gateway: JSON {user, cron, next, until,
// run, problem}, and what it submits is a file of its owner's home (home_schedule.c). When `next` has
// come, a gateway claims it (`until`, by the Secret's resourceVersion, so that one of several has it),
// submits the run with a request that is named by schedule and time, and then writes the time after.
// A gateway that is killed between these does the same again: it is one run, because it is one request.
// What was missed while no gateway ran is run once.
#pragma once

#include "gateway/door.h"

// Submits what is due, until the gateway ends. A thread's function; its argument is the door.
void *td_schedule_thread(void *door);
