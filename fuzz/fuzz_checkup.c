// The file of injected faults, lines of the kernel's log, names of parts of GPUs, what disks say of their health.
// rows: B3.2 B3.4
#include "checkup/checkup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	td_auto_free char *s = td_strndup((const char *)data, size);
	td_checkup_fake_check(s, strlen(s), NULL);
	char pci[16];
	int xid = td_checkup_xid_line(s, pci);
	if (xid < 0 || (xid && strlen(pci) > 15))
		abort();
	// The name that NVML gives a part of a GPU.
	char profile[24];
	if (td_mig_profile(s, profile) && (!*profile || strlen(profile) > 23 || strpbrk(profile, " +\n,=")))
		abort();
	// What smartctl says of a disk, and NVMe's log.
	char device[32];
	struct td_checkup_disk d = {0};
	if (td_smart_json((const char *)data, size, device, &d) && (!*device || !d.smart || (d.failing && !*d.why)))
		abort();
	unsigned char log[512] = {0};
	memcpy(log, data, size < sizeof(log) ? size : sizeof(log));
	td_smart_nvme(log, &d);
	if (d.media.total < 0 || (d.failing && !*d.why))
		abort();
	// What a PCI device says of itself.
	char model[48] = "", serial[40] = "";
	td_vpd_read(data, size, model, serial);
	if (strlen(model) >= sizeof(model) || strlen(serial) >= sizeof(serial) || strpbrk(model, "\"\\\n"))
		abort();
	const char *words;
	if (!td_checkup_xid_action(xid, &words))
		abort();
	return 0;
}
