// Who wrote the reason of a drain. No other file knows.
#include "pool/pool.h"

#include "base/names.h"

#include <string.h>

static bool starts(const char *s, const char *prefix)
{
	return s && strncmp(s, prefix, strlen(prefix)) == 0;
}

// The words alone: Slurm appends what it does itself, " : reboot issued".
static bool is_none(const char *s)
{
	return s && !strcmp(s, TD_REASON_NONE);
}

enum td_pool_owner td_pool_reason_owner(const char *reason)
{
	static const struct {
		const char *prefix;
		enum td_pool_owner owner;
	} table[] = {
		{TD_REASON_CORDONED, TD_OWNER_BRIDGE},   {TD_REASON_REQUESTED, TD_OWNER_BRIDGE},
		{TD_REASON_CONDITION, TD_OWNER_BRIDGE},  {TD_REASON_ACTION, TD_OWNER_BRIDGE},
		{TD_REASON_GATE, TD_OWNER_BRIDGE},       {TD_REASON_DEVICES, TD_OWNER_BRIDGE},
		{TD_REASON_LOST, TD_OWNER_BRIDGE},       {TD_REASON_UPDATE, TD_OWNER_OPERATOR},
		{TD_REASON_SCALE_IN, TD_OWNER_OPERATOR}, {TD_REASON_ABSENT, TD_OWNER_OPERATOR},
		{TD_REASON_GONE, TD_OWNER_OPERATOR},     {TD_REASON_DEAD, TD_OWNER_OPERATOR},
		{TD_REASON_PREFIX, TD_OWNER_TANDEM},     {"gres/", TD_OWNER_SLURM},
	};
	if (is_none(reason))
		return TD_OWNER_BRIDGE;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (starts(reason, table[i].prefix))
			return table[i].owner;
	return TD_OWNER_OTHERS;
}

bool td_pool_reason_tandem(const char *reason)
{
	return starts(reason, TD_REASON_PREFIX) || is_none(reason);
}

bool td_pool_reason_is(const char *reason, const char *what)
{
	return starts(reason, what);
}
