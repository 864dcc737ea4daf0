// The boot service (docs/netboot.md): which image a machine boots, and as which node it joins. All that it serves lies in
// one directory: machines/UUID.yaml, groups/GROUP.yaml, images/IMAGE/.
#pragma once

#include "json/json.h"

enum { TD_NETBOOT_ID = 36, TD_NETBOOT_NONCE = 32 };

// A machine, as its file says it.
struct td_netboot_machine {
	struct td_json *doc;      // owns the texts
	const char *node, *group; // the node that it is, and its group
	char *image;              // the image of its group now
	struct td_json *manifest; // of that image: {kernel, initrd, cmdline, files: {NAME: SHA-256}}
};
void td_netboot_machine_done(struct td_netboot_machine *m);
#define td_auto_machine __attribute__((cleanup(td_netboot_machine_done)))

// True for what a machine's firmware says it is: a UUID in lower case, or a MAC address with dashes.
bool td_netboot_id_fits(const char *id);
// True for the name of an image, a group or a file of an image: no path leads out of the directory by it.
bool td_netboot_name_fits(const char *name);
// Reads a machine. TD_NOT_FOUND: there is none of that id. TD_INVALID names the file and the field.
int td_netboot_read(const char *dir, const char *id, struct td_netboot_machine *ret, struct td_error *err);
// The iPXE script with which it boots. base: the service's own URL. The caller frees it.
char *td_netboot_script(const struct td_netboot_machine *m, const char *id, const char *base, const char *nonce);
