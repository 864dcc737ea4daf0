// Slurm loads a plug-in only if its version is Slurm's own. What these plug-ins use is the same in all versions, so
// they take the version of a plug-in that is there already: credentials are always loaded first.
#include "spank/spank_api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

TD_SPANK_EXPORT unsigned int plugin_version;

static int find_version(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	if (!info->dlpi_name || !strstr(info->dlpi_name, ".so"))
		return 0;
	void *h = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!h)
		return 0;
	const char *type = dlsym(h, "plugin_type");
	const unsigned int *version = dlsym(h, "plugin_version");
	bool found = type && version && type != plugin_type && *version;
	if (found)
		*(unsigned int *)ret = *version;
	dlclose(h);
	return found;
}

__attribute__((constructor)) static void take_version(void)
{
	dl_iterate_phdr(find_version, &plugin_version);
}
