// What a pod may say to Slurm: the annotations below slurm.tandem.dev/. One table, from which the
// bridge reads a pod, `tandem annotations` and docs/reference/annotations.md are made, and a key
// that nobody knows is refused. Part of tandem.dev/v1alpha1: a key is never given another meaning.
#pragma once

#include "json/json.h"

enum td_annotation_form {
	TD_ANNOTATION_NAMES, // as sbatch takes it: letters, digits and _.,:&|()*[]=+@/- only
	TD_ANNOTATION_OWNED, // the same; what the pod's namespace maps to decides which it may be
	TD_ANNOTATION_TIME,
	TD_ANNOTATION_COUNT, // 0 or more
	TD_ANNOTATION_BOOL,  // "true" or "false"
	TD_ANNOTATION_SIGNAL,
	TD_ANNOTATION_WHEN, // RFC 3339
	TD_ANNOTATION_PLACEMENT,
};
enum td_annotation_key {
	TD_ASKS_PARTITION,
	TD_ASKS_ACCOUNT,
	TD_ASKS_QOS,
	TD_ASKS_TIME_LIMIT,
	TD_ASKS_CONSTRAINT,
	TD_ASKS_RESERVATION,
	TD_ASKS_LICENSES,
	TD_ASKS_NICE,
	TD_ASKS_JOB_NAME,
	TD_ASKS_EXCLUSIVE,
	TD_ASKS_SIGNAL,
	TD_ASKS_GPU_TYPE,
	TD_ASKS_GPU_SHARE,
	TD_ASKS_BEGIN,
	TD_ASKS_DATASETS,
	TD_ASKS_PLACEMENT,
	TD_ASKS_GDS,
	TD_ASKS_SEGMENT,
	TD_ASKS_KEYS,
};
struct td_annotation {
	const char *name; // with its prefix
	enum td_annotation_form form;
	const char *option; // of sbatch
	const char *meaning, *without, *example;
};
// In the order of enum td_annotation_key.
extern const struct td_annotation td_annotations[TD_ASKS_KEYS];
// What a value of this form looks like, in words.
const char *td_annotation_values(enum td_annotation_form form);
// The first annotation below the prefix that the table does not have; NULL: there is none. Points
// into notes, an object of annotations, which may be NULL.
const char *td_annotation_unknown(const yyjson_val *notes);
// Reads "USR1@60" or "USR1" (60 s). TD_INVALID: err says what to write.
int td_api_signal_read(const char *s, int *ret_signal, int64_t *ret_seconds, struct td_error *err);
int td_api_signal_number(const char *name); // "USR1" or "SIGUSR1"; 0: not one of those that there are
const char *td_api_signal_name(int signal); // "USR1"; NULL
// The table as docs/reference/annotations.md.
void td_annotation_page(struct td_buf *ret);
