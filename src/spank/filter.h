// The filter of system calls of a project's native jobs (Tenant spec.seccompProfile, docs/tenants.md), and where the
// parts find each other in a slurmd pod. The operator writes which account has which profile; Slurm's Prolog writes
// which job is whose; in slurmstepd the plug-in filter_plugin.c reads both as root, makes the kernel's program of the
// profile, and puts each task of the job under it before anything of the user's runs. A filter is inherited, and nobody
// can take it off.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

// Lines "ACCOUNT PROFILE": RuntimeDefault, or localhost/FILE. A ConfigMap that the operator writes
// (operator/tenant_filters.c). It is absent where no Tenant says a profile.
#define TD_FILTER_LIST "/etc/tandem/filters/accounts"
// The kubelet's directory of profiles (/var/lib/kubelet/seccomp; on the embedded plane seccomp/ of the home).
#define TD_FILTER_PROFILES "/etc/tandem/seccomp"
#define TD_FILTER_LOCAL "localhost/"
// JOB: the name of its account, by the Prolog (standin/account.c). slurmd.sh makes the directory; it is root's alone.
#define TD_FILTER_JOBS "/run/tandem-accounts"
// In the environment of slurmstepd's child that becomes a task, which is no user's: the program, as
// td_calls_text() writes it; and whether tandem-container sets it, inside of the container.
#define TD_FILTER_ENV "TANDEM_STEP_FILTER"
#define TD_FILTER_INSIDE_ENV "TANDEM_STEP_CONTAINER"

// A program of the kernel's for seccomp(2).
struct td_calls_filter {
	struct sock_filter v[BPF_MAXINSNS];
	unsigned short n;
};

// Makes it of a profile in the form of the OCI runtime specification (linux.seccomp), as pods have it: the first rule
// without args for a call decides; else its rules with args, in their order; else the default. Calls that this
// architecture does not have are left out. A program of another architecture is ended at its first call, whatever
// `architectures` says. With SCMP_ACT_ERRNO as the default, calls that are newer than all that the profile names fail
// with ENOSYS, so that programs fall back to older ones. TD_INVALID: err names the field.
int td_calls_compile(const char *json, size_t n, struct td_calls_filter *ret, struct td_error *err);
// What containers have that name no profile of the site's (oci/seccomp.yaml), for a process without capabilities.
extern const char td_calls_default[];

// Hexadecimal, for a command line. The caller frees it.
char *td_calls_text(const struct td_calls_filter *f);
// False: it is not what td_calls_text() wrote.
bool td_calls_parse(const char *text, struct td_calls_filter *ret);
// This process, and all that it starts, cannot gain rights by starting a program any more, and have the filter. Makes
// two system calls and nothing else: it may be called between fork and exec. False: see errno.
bool td_calls_set(const struct td_calls_filter *f);

// The profile of an account in the text of the list; NULL: it has none. Slurm's accounts have no capitals. Also the
// account of a job in what squeue says of it and others. The caller frees it.
char *td_calls_of(const char *list, const char *account);
// Makes the filter of an account's profile. `profiles`: TD_FILTER_PROFILES. What is not root's, or what others may write,
// is refused.
int td_calls_load(const char *profile, const char *profiles, struct td_calls_filter *ret, struct td_error *err);
// Reads a file of at most a megabyte that only root can have written. TD_NOT_FOUND: it is absent.
int td_calls_file(const char *path, struct td_buf *ret, struct td_error *err);

// ---- filter_read.c: a profile ----
enum td_calls_op {
	TD_FILTER_NE,
	TD_FILTER_LT,
	TD_FILTER_LE,
	TD_FILTER_EQ,
	TD_FILTER_GE,
	TD_FILTER_GT,
	TD_FILTER_MASKED
};
struct td_calls_arg {
	unsigned index; // 0..5
	enum td_calls_op op;
	uint64_t value, two; // MASKED: (argument & value) == two
};
// One rule for one call. Rules of the same call are in the order of the profile.
struct td_calls_rule {
	unsigned call;   // its number here
	uint32_t action; // SECCOMP_RET_…, with the error
	struct td_calls_arg args[6];
	size_t n_args;
};
struct td_calls_profile {
	uint32_t otherwise; // the default action
	unsigned newest;    // the greatest number of a call that it names; 0: none
	struct td_calls_rule *rules;
	size_t n;
};
int td_calls_read(const char *json, size_t n, struct td_calls_profile *ret, struct td_error *err);
void td_calls_profile_done(struct td_calls_profile *p);
#define td_auto_calls_profile __attribute__((cleanup(td_calls_profile_done)))

// The calls of this architecture, from the kernel's headers; ended by a row without a name.
struct td_calls_one {
	const char *name;
	unsigned number;
};
extern const struct td_calls_one td_calls_known[];
