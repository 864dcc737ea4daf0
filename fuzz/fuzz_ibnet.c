// What ibnetdiscover and lldpctl print: places have names that Slurm takes, and each node has one of each level or none.
// rows: A9.3
#include "slurm/conf.h"
#include "slurm/lldp.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 8192)
		return 0;
	td_auto_free char *s = td_strndup((const char *)data, size);
	td_auto(td_slurm_ibnet_free) struct td_slurm_ibnet *net = NULL;
	struct td_slurm_place p[4] = {{.node = "n0"}, {.node = "n1"}, {.node = "n2"}, {.node = "n3"}};
	struct td_strv ids[4] = {0};
	td_strv_add(&ids[3], "506b:4b03:0000:0003");
	td_strv_add(&ids[3], "@eth1");
	if (td_slurm_lldp_is(s) ? td_slurm_lldp_read(s, p, ids, 4, &net, NULL) : td_slurm_ibnet_read(s, &net, NULL)) {
		td_strv_done(&ids[3]);
		return 0;
	}
	size_t found, levels = td_slurm_ibnet_places(net, p, ids, 4, &found);
	if (found > 4 || levels < 1 || levels > TD_SLURM_LEVELS)
		abort();
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < TD_SLURM_LEVELS; k++) {
			const char *at = p[i].at[k];
			if (at && (!td_slurm_is_name(at) || k >= levels))
				abort();
			free((char *)(uintptr_t)at);
		}
	td_strv_done(&ids[3]);
	return 0;
}
