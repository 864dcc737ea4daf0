// Serial numbers of adapters: vital product data of PCI, which a device keeps itself. What stays the same is asked once.
#include "checkup/checkup.h"

#include "base/file.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Tags of resources: the name, fields to be read, the end. VPD_MAX: names and numbers come first.
enum { NAME = 0x82, FIELDS = 0x90, LARGE = 0x80, END = 0x78, VPD_MAX = 1024 };

static void fields(const unsigned char *p, size_t n, char serial[40])
{
	while (n >= 3 && (size_t)p[2] + 3 <= n) {
		if (p[0] == 'S' && p[1] == 'N')
			td_checkup_word(serial, 40, (const char *)p + 3, p[2]);
		n -= (size_t)p[2] + 3;
		p += (size_t)p[2] + 3;
	}
}

void td_vpd_read(const unsigned char *data, size_t n, char model[48], char serial[40])
{
	while (n >= 3 && *data != END && *data & LARGE) {
		const size_t len = data[1] | (size_t)data[2] << 8;
		if (len + 3 > n)
			break;
		if (*data == NAME)
			td_checkup_word(model, 48, (const char *)data + 3, len);
		else if (*data == FIELDS)
			fields(data + 3, len, serial);
		n -= len + 3;
		data += len + 3;
	}
}

struct known_nic {
	char pci[24], model[48], serial[40], firmware[32];
};
struct td_vpds {
	struct known_nic v[TD_NICS];
	int n;
};

struct td_vpds *td_vpds_new(void)
{
	return td_calloc(1, sizeof(struct td_vpds));
}

struct td_vpds *td_vpds_free(struct td_vpds *v)
{
	free(v);
	return NULL;
}

static void ask_vpd(struct known_nic *k, const char *root)
{
	td_auto_free char *path = td_asprintf("%s/sys/bus/pci/devices/%s/vpd", root, k->pci);
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char data[VPD_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, data, sizeof(data), 0);
	if (n > 0)
		td_vpd_read(data, (size_t)n, k->model, k->serial);
}

// By the driver of an interface, which this process' own network must have.
static void ask_driver(struct known_nic *k, const char *interface)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq q = {.ifr_data = (char *)&info};
	td_auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (!*interface || strlen(interface) >= sizeof(q.ifr_name) || fd < 0)
		return;
	memcpy(q.ifr_name, interface, strlen(interface));
	if (!ioctl(fd, SIOCETHTOOL, &q) && !strncmp(info.bus_info, k->pci, sizeof(info.bus_info)))
		td_checkup_word(k->firmware, sizeof(k->firmware), info.fw_version,
				strnlen(info.fw_version, sizeof(info.fw_version)));
}

static const struct known_nic *known(struct td_vpds *all, const char *root, const struct td_checkup_nic *x, bool *asked)
{
	for (int i = 0; i < all->n; i++)
		if (!strcmp(all->v[i].pci, x->pci))
			return &all->v[i];
	if (*asked || all->n == TD_NICS)
		return NULL;
	struct known_nic *k = &all->v[all->n++];
	*asked = true;
	*k = (struct known_nic){0};
	memcpy(k->pci, x->pci, sizeof(k->pci));
	ask_vpd(k, root);
	if (!*root)
		ask_driver(k, x->interface);
	return k;
}

void td_vpds_look(struct td_vpds *all, const char *root, struct td_checkup_facts *f)
{
	bool asked = false;
	for (int i = 0; i < f->nics; i++) {
		struct td_checkup_nic *x = &f->nic[i];
		const struct known_nic *k = *x->pci ? known(all, root, x, &asked) : NULL;
		if (!k)
			continue;
		memcpy(x->serial, k->serial, sizeof(x->serial));
		memcpy(x->own_model, k->model, sizeof(x->own_model));
		memcpy(x->own_firmware, k->firmware, sizeof(x->own_firmware));
	}
}
