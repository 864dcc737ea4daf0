// A filter of system calls that answers some with success. It gives nobody a right: the calls are not made.
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

static const int calls[] = {
#ifdef SYS_chown // not on arm64
	SYS_chown,    SYS_lchown,
#endif
	SYS_fchown,   SYS_fchownat,  SYS_setuid,    SYS_setgid,    SYS_setreuid,
	SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
};

int td_ct_pretend(struct td_error *err)
{
	struct sock_filter f[2 * TD_LEN(calls) + 8];
	size_t n = 0;
	// Programs of another architecture have other numbers: they are left alone.
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < TD_LEN(calls); i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO); // errno 0: success
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	struct sock_fprog p = {.len = (unsigned short)n, .filter = f};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
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
	struct sock_filter f[2 * TD_LEN(allowed) + 8];
	size_t n = 0;
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < TD_LEN(allowed); i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);

	struct sock_fprog p = {.len = (unsigned short)n, .filter = f};
	if (setrlimit(RLIMIT_CPU, &(struct rlimit){10, 10}) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		return td_fail_errno(err, TD_UNSUPPORTED, errno, "a filter of system calls for the container's holder");
	return 0;
}
