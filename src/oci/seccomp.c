// The default filter of system calls, as containerd has it (RuntimeDefault), written as what is refused rather than what is allowed:
// what takes a capability that the container has not, and what no container has business with. EPERM; ENOSYS where libraries then fall
// back to an older call.
#include "oci/internal.h"

#include <string.h>

enum { EPERM_ = 1, ENOSYS_ = 38 };

static const struct {
	const char *cap; // who has one of these may ("A B"); NULL: nobody
	const char *calls;
} refused[] = {
	{NULL, "add_key request_key keyctl userfaultfd nfsservctl create_module get_kernel_syms query_module swapon swapoff uselib _sysctl "
	       "sysfs ustat pivot_root vm86 vm86old migrate_pages move_pages io_uring_setup io_uring_enter io_uring_register"},
	{"CAP_SYS_ADMIN", "fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr move_mount open_tree quotactl "
			  "quotactl_fd setdomainname sethostname setns umount umount2 unshare"},
	{"CAP_SYS_ADMIN CAP_BPF", "bpf"},
	{"CAP_SYS_ADMIN CAP_PERFMON", "perf_event_open"},
	{"CAP_SYS_ADMIN CAP_SYSLOG", "syslog"},
	{"CAP_DAC_READ_SEARCH", "open_by_handle_at"},
	{"CAP_SYS_BOOT", "reboot kexec_load kexec_file_load"},
	{"CAP_SYS_CHROOT", "chroot"},
	{"CAP_SYS_MODULE", "delete_module init_module finit_module"},
	{"CAP_SYS_NICE", "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"},
	{"CAP_SYS_PACCT", "acct"},
	{"CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise process_vm_readv process_vm_writev"},
	{"CAP_SYS_RAWIO", "iopl ioperm"},
	{"CAP_SYS_TIME", "settimeofday stime clock_settime clock_settime64"},
	{"CAP_SYS_TTY_CONFIG", "vhangup"},
};

static bool has_any(const struct td_oci_spec *s, const char *caps)
{
	td_auto_strv struct td_strv want = {0};
	if (caps)
		td_strv_split(&want, caps, ' ');
	for (const char *const *c = s->caps; c && *c; c++)
		if (td_strv_has(&want, *c))
			return true;
	return false;
}

static yyjson_mut_val *rule(yyjson_mut_doc *d, yyjson_mut_val *rules, const char *calls, int error)
{
	td_auto_strv struct td_strv names = {0};
	yyjson_mut_val *r = yyjson_mut_arr_add_obj(d, rules), *a = td_jm_arr(d, r, "names");
	td_strv_split(&names, calls, ' ');
	for (size_t i = 0; i < names.n; i++)
		yyjson_mut_arr_add_strcpy(d, a, names.v[i]);
	td_jm_str(d, r, "action", "SCMP_ACT_ERRNO");
	td_jm_int(d, r, "errnoRet", error);
	return r;
}

void oci_seccomp(yyjson_mut_doc *d, yyjson_mut_val *linux_, const struct td_oci_spec *s)
{
	yyjson_mut_val *rules = td_jm_arr(d, linux_, "seccomp.syscalls");
	td_jm_str(d, linux_, "seccomp.defaultAction", "SCMP_ACT_ALLOW");
	for (size_t i = 0; i < TD_LEN(refused); i++)
		if (!has_any(s, refused[i].cap))
			rule(d, rules, refused[i].calls, EPERM_);
	if (has_any(s, "CAP_SYS_ADMIN"))
		return;
	// New namespaces by clone(2): each of the flags CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
	static const long long flags[] = {0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000};
	for (size_t i = 0; i < TD_LEN(flags); i++) {
		yyjson_mut_val *a = yyjson_mut_arr_add_obj(d, td_jm_arr(d, rule(d, rules, "clone", EPERM_), "args"));
		td_jm_int(d, a, "index", 0);
		td_jm_int(d, a, "value", flags[i]);
		td_jm_int(d, a, "valueTwo", flags[i]);
		td_jm_str(d, a, "op", "SCMP_CMP_MASKED_EQ");
	}
	rule(d, rules, "clone3", ENOSYS_); // its flags lie in memory, where a filter cannot look
}
