// What the admin comment of a pod's stand-in says of the pod, so that Slurm's history knows it:
// "tandem/CLUSTER/NAMESPACE/NOTES/UID", NOTES "pod=web-7d-x&user=alice&service=Deployment%2Fweb&end=failed&busy=120&idle=40".
// Only an operator of Slurm writes it. Every byte of a value but letters, digits, '.', '-' and '_' is %XX, so that a
// value holds no '/', '&' or '|'. (programs/usage.sh and programs/yield.sh of cli read the same.) Pure.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TD_NOTES_NAME = 256, TD_NOTES_SERVICE = 320 };

struct td_notes {
	char ns[64], pod[TD_NOTES_NAME], user[TD_NOTES_NAME]; // user: who made the pod (tandem.dev/user); "": not known
	bool gang;                                            // `pod` is the gang's name
	char service[TD_NOTES_SERVICE];                       // "Deployment/web"; "": it is none's
	// Whose time counts over all runs: what the next run of the same work is known by (bridge/scheduler/turns.c); "":
	// it does not count so. One that is too long to be kept is none.
	char line[TD_NOTES_SERVICE];
	char end[12];      // "succeeded", "failed"; "preempted": it made room; "": none of them
	double busy, idle; // device seconds that were measured; both 0: none were
};
// The admin comment. Caller frees.
char *td_notes_mark(const char *prefix, const char *cluster, const struct td_notes *n, const char *uid);
// False, and *ret untouched: it is no stand-in's, or says nothing of its pod.
bool td_notes_read(const char *admin_comment, struct td_notes *ret);
// What the admin comment of a native job says of its devices, "tandem-use:START:BUSY:IDLE" somewhere in it (standin/note.c
// writes it when the job has ended): of the run that started then, in device seconds. False: nothing.
bool td_notes_use(const char *admin_comment, int64_t start, struct td_notes *ret);
// What an admin comment says of a job that held too much of a node's disk and was ended for it, up to its end; NULL:
// nothing.
const char *td_notes_scratch(const char *admin_comment);
// The part of the measured time that the devices idled, 0 to 1; below 0: nothing was measured.
double td_notes_idle(const struct td_notes *n);
