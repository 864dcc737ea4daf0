// Filters of system calls. They give nobody a right: a call is answered without being made, or ends the process.
#include "spank/pretend.h"

#include "base/mem.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the number of this architecture is in linux/audit.h"
#endif

enum { MOST = 16 }; // calls in a list

// What becomes of a call: of one in the list, of any other, and of each one of a program of another architecture, which
// has other numbers.
struct verdicts {
	unsigned listed, other, foreign;
};

// Filters the calls of this process and all that it starts. False: see errno.
static bool filter(const int *list, size_t n_list, struct verdicts v)
{
	struct sock_filter f[2 * MOST + 8];
	size_t n = 0;
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, v.foreign);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n_list; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i], 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, v.listed);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, v.other);

	struct sock_fprog p = {.len = (unsigned short)n, .filter = f};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0;
}

int td_ct_pretend(struct td_error *err)
{
	static const int calls[] = {
#ifdef SYS_chown // not on arm64
		SYS_chown,    SYS_lchown,
#endif
		SYS_fchown,   SYS_fchownat,  SYS_setuid,    SYS_setgid,    SYS_setreuid,
		SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
	};
	_Static_assert(TD_LEN(calls) <= MOST, "the filter holds them");
	// SECCOMP_RET_ERRNO with errno 0: success.
	if (!filter(calls, TD_LEN(calls), (struct verdicts){SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW}))
		return td_fail_errno(err, TD_UNSUPPORTED, errno, "a filter of system calls");
	return 0;
}

int td_ct_only_wait(struct td_error *err)
{
	static const int allowed[] = {
#ifdef SYS_pause // not on arm64
		SYS_pause,
#endif
		SYS_ppoll, SYS_restart_syscall, SYS_rt_sigreturn, SYS_prctl, SYS_sendto, SYS_close, SYS_exit_group,
	};
	_Static_assert(TD_LEN(allowed) <= MOST, "the filter holds them");
	const struct verdicts v = {SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_PROCESS};
	if (setrlimit(RLIMIT_CPU, &(struct rlimit){10, 10}) || !filter(allowed, TD_LEN(allowed), v))
		return td_fail_errno(err, TD_UNSUPPORTED, errno, "a filter of system calls for the container's holder");
	return 0;
}
