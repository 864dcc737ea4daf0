// Is a pod that was given a device done with it? Pure: what was seen, in this order, in; the word out.
#pragma once

#include "gate/cgroups.h"
#include "json/json.h"

#include <stdbool.h>

enum td_seen {            // the API's object, by a read that was sent after the device had been claimed by the next one
	TD_SEEN_ACTIVE,   // it has not ended
	TD_SEEN_TERMINAL, // Succeeded or Failed, now or when it was last seen: its kubelet starts nothing of it again
	TD_SEEN_ABSENT,   // it is not there, and nobody saw it end: deleted by force, perhaps under a node that was cut
			  // off
	TD_SEEN_UNREAD,
	// Of a pod that only a job's comment names:
	TD_SEEN_NEVER, // it was never here, and cannot come with that job's grant any more: fenced, or bound to another
		       // node
	TD_SEEN_WAITS, // it may still be bound: not fenced, because the API refuses that
};
enum td_known { // the node's kubelet, asked after that
	TD_KNOWN_NO,
	TD_KNOWN_YES,
	TD_KNOWN_UNANSWERED,
};
struct td_sight {
	enum td_seen seen;
	enum td_known known; // read when the object is absent, only
	int cg_code;         // 0, or why the cgroups could not be read
	enum td_cg_state cg; // read last: whatever was started before the kubelet forgot the pod is in there
	bool coming;         // only the job's comment names the pod, it is not fenced, and a Binding may be on its way
	const char *pod;     // "ns/name", or its uid
	const char *text;    // of what could not be read or asked
};
// pod: what the API shows under the name that a job's comment says, with the uid that it says; NULL: no such pod.
// TD_SEEN_WAITS: fence it.
enum td_seen td_seen_named(const yyjson_val *pod, const char *node, int64_t job, int64_t start);
bool td_sight_busy(const struct td_sight *s, char *why, size_t n);
