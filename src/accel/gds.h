// GPUDirect Storage: what a machine has of it, and what is missing. Read from <root>/proc, <root>/sys, <root>/dev and
// <root>/etc; nothing is changed.
#pragma once

#include "json/json.h"

enum { TD_GDS_FILES = 16, TD_GDS_CHECKS = 16, TD_GDS_DEVICES = 64 };

enum td_gds_state {
	TD_GDS_OK,
	TD_GDS_SLOWER,  // it works, not as fast as it could
	TD_GDS_MISSING, // without it nothing is read past the CPU
	TD_GDS_UNKNOWN, // it cannot be seen from here
};
struct td_gds_check {
	const char *name; // static: "module", "devices", …
	enum td_gds_state state;
	char text[256]; // what there is; for all but OK also what to do
};
struct td_gds_device {
	char kind[8]; // "gpu", "nvme", "rdma"
	char name[32], pci[24];
	int numa; // below 0: not known
};
struct td_gds {
	struct td_gds_check check[TD_GDS_CHECKS];
	size_t n_checks;
	struct td_gds_device device[TD_GDS_DEVICES];
	size_t n_devices;
	struct td_strv mounts;   // directories of file systems that it works on, "/data ext4"
	int files[TD_GDS_FILES]; // numbers of /dev/nvidia-fs<n>
	size_t n_files;
	char version[32]; // of nvidia-fs; "": it is not loaded
};
void td_gds_look(const char *root, struct td_gds *ret);
void td_gds_done(struct td_gds *g);
bool td_gds_ready(const struct td_gds *g); // nothing is missing
const char *td_gds_state_text(enum td_gds_state s);
// Distance between two NUMA nodes, as the firmware says: 10 is the same one; below 0: not known.
int td_gds_distance(const char *root, int from, int to);
// The bits of the ACS control register in a PCI device's configuration space; below 0: it has none, or not all of the
// space was read.
int td_gds_acs(const unsigned char *config, size_t n);
