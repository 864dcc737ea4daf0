// Kubeconfig files. One that is accepted names an http(s) server, and has a client certificate only
// with its key.
// rows: F2.1
#include "kube/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_close int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
	char path[40];
	struct td_kube_config c;
	if (size > 1 << 16)
		return 0;

	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (td_kube_config_load(path, &c, NULL))
		return 0;

	check(td_starts(c.server, "http://") || td_starts(c.server, "https://"));
	check(!c.cert_file == !c.key_file && !(c.token && c.token_file));
	td_kube_config_done(&c);
	return 0;
}
