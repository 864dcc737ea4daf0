// As whom the pods of a Tenant run, and what is mounted into them (its spec.storage): two annotations that the operator
// writes on its namespaces. The embedded API server reads them here (apiserver/identity.c), on a cluster the
// ValidatingAdmissionPolicy tandem-identities does. Pure.
//
//   tandem.dev/people   first line: the mode, "posix" or "project". Then a line for each person:
//                       UID:GID:GID,GID:NAME:HOME:KUBERNETES
//                       the further groups may be none; the name in Kubernetes is the rest of the line
//   tandem.dev/storage  a line for each file system: rw:host:NAME:SOURCE:MOUNTPATH: or
//                       ro:claim:NAME:CLAIM:MOUNTPATH:SUBPATH, which may be empty
#pragma once

#include "base/mem.h"

#include <stdint.h>

#define TD_PERSON_POSIX "posix"
#define TD_PERSON_PROJECT "project"

struct td_person {
	uint32_t uid, gid;
	const char *groups; // "5000,5001", or ""
	const char *name;   // in Slurm
	const char *home;
	const char *kube; // in Kubernetes
};
// Appends his line. False: a text of his has what would break it (a newline; ':' in another than kube), and nothing is
// written.
bool td_person_write(struct td_buf *b, const struct td_person *p);
// The person of this name in Kubernetes; false: there is none, or his line is no such one. Texts are in the arena.
bool td_person_find(const char *people, const char *kube, struct td_arena *a, struct td_person *ret);
bool td_person_project(const char *people); // is the mode "project"?

struct td_person_mount {
	bool read_only;
	bool claim;         // source: a PersistentVolumeClaim; else a directory of every node
	const char *name;   // of the volume
	const char *source; // never NULL
	const char *path;   // where pods have it
	const char *sub;    // of a claim; "": all of it
};
void td_person_mount_write(struct td_buf *b, const struct td_person_mount *m);
// Reads the line at *text and moves it behind; false: there are no more. What is no such line is passed over.
bool td_person_mount_next(const char **text, struct td_arena *a, struct td_person_mount *ret);
