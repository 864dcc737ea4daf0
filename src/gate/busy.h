// Whether a pod that was given a device is done with it. Pure: what was seen goes in, the verdict
// comes out. The caller must look in the order that the fields of struct td_sight say.
#pragma once

#include "gate/cgroups.h"
#include "json/json.h"

#include <stdbool.h>

// The API's object, by a read that was sent after the next holder had claimed the device.
enum td_seen {
	TD_SEEN_ACTIVE,   // it has not ended
	TD_SEEN_TERMINAL, // Succeeded or Failed, now or when last seen: nothing of it starts again

	// It is not there, and nobody saw it end: it was deleted by force, perhaps on a node that
	// was cut off.
	TD_SEEN_ABSENT,
	TD_SEEN_UNREAD,

	// Of a pod that only a job's comment names:

	// It was never here and cannot come with that job's grant any more: it is fenced, or bound
	// to another node.
	TD_SEEN_NEVER,
	TD_SEEN_WAITS, // it may still be bound: it is not fenced, because the API refuses that
};
// What the node's kubelet says, asked after that read.
enum td_known {
	TD_KNOWN_NO,
	TD_KNOWN_YES,
	TD_KNOWN_UNANSWERED,
};
struct td_sight {
	enum td_seen seen;
	enum td_known known; // read only when the object is absent
	int cg_code;         // 0, or why the cgroups could not be read
	enum td_cg_state cg; // read last, to include what started before the kubelet forgot the pod
	// Only the job's comment names the pod, it is not fenced, and a Binding may be on its way.
	bool coming;
	const char *pod;  // "ns/name", or its uid
	const char *text; // why something could not be read or asked
};
// Says what the API shows of the pod that a job's comment names. pod: the object under that name
// with that uid; NULL: there is none. TD_SEEN_WAITS: fence it.
enum td_seen td_seen_named(const yyjson_val *pod, const char *node, int64_t job, int64_t start);
// True when the pod may still use its devices; why says it in words.
bool td_sight_busy(const struct td_sight *s, char *why, size_t n);
