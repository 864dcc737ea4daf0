// Pods that say in their own log that they go on, and how long their steps take (pool/pace.h), because nothing else of a
// pod needs no right, no network, no library and no mount, and can be written by nobody but the pod. What is in a log is its
// user's: only its lines are believed, and only about this pod. Read are at most TD_PODBEAT_READ bytes in a look, and
// no log of a pod that has not asked for it.
#pragma once

#include "kube/kube.h"
#include "pool/pace.h"

enum { TD_PODBEAT_READ = 64 << 10 };

struct td_podbeat { // of one pod. Zeroes at first
	uint64_t dev, ino;
	int64_t at;
	bool begun;
	bool gap; // more was written since the last look than was read: there may have been beats
	struct td_pool_beats beats;
	struct td_pool_pace_said said;
};
// Does the pod say that it beats?
bool td_podbeat_asks(const struct td_object *pod);
// The container whose log that is; NULL: it has none. Points into the pod.
const char *td_podbeat_container(const struct td_object *pod);
// Reads what is new in the log. fd: the newest one; -1: there is none. It stays open.
void td_podbeat_read(struct td_podbeat *b, int fd, int steps);
// The sign of it (pool/hang.h): it grows with each beat; -1: not known.
int64_t td_podbeat_sign(const struct td_podbeat *b);
// Says the pod's pace in its condition, if it is to be said. What fails is said with the next look.
void td_podbeat_say(struct td_podbeat *b, struct td_kube *k, const struct td_object *pod, const struct td_clock *clock,
		    struct td_cancel *c);

// Logs of a kubelet's pods: <dir>/<namespace>_<name>_<uid>/<container>/<n>.log. No link is followed.
// Opens the container's newest one for reading. -1: there is none that can be read.
int td_podlog_open(const char *dir, const struct td_object *pod, const char *container);
// Anything that changes when one of the pod's containers writes, or begins again; -1: not known.
int64_t td_podlog_output(const char *dir, const struct td_object *pod);
