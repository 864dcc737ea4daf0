// NVIDIA's XIDs, from xid.txt.
#include "checkup/checkup.h"

#include "base/embedded.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_checkup_files[];

enum { XIDS = 256 };
static struct {
	const char *action;
	char words[64];
} table[XIDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
	static const char *const actions[] = {"none", "drain", "reset-gpu", "reboot"};
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, td_checkup_files[0].text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		int xid, at = 0;
		char action[16];
		if (sscanf(lines.v[i], "%d %15s %n", &xid, action, &at) < 2 || xid < 1 || xid >= XIDS)
			continue;
		for (size_t k = 0; k < TD_LEN(actions); k++)
			if (!strcmp(action, actions[k]))
				table[xid].action = actions[k];
		snprintf(table[xid].words, sizeof(table[xid].words), "%.63s", lines.v[i] + at);
	}
}

const char *td_checkup_xid_action(int xid, const char **ret_words)
{
	pthread_once(&once, fill);
	bool known = xid > 0 && xid < XIDS && table[xid].action;
	if (ret_words)
		*ret_words = known ? table[xid].words : NULL;
	return known ? table[xid].action : "drain";
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=…, GPU has fallen off the bus."
int td_checkup_xid_line(const char *line, char pci[16])
{
	const char *at = strstr(line, "NVRM: Xid (PCI:");
	if (!at)
		return 0;
	at += strlen("NVRM: Xid (PCI:");
	size_t n = strspn(at, "0123456789abcdefABCDEF:.");
	if (!n || n > 15 || strncmp(at + n, "): ", 3) != 0)
		return 0;
	char *end;
	long xid = strtol(at + n + 3, &end, 10);
	if (end == at + n + 3 || xid < 1 || xid > 100000)
		return 0;
	memcpy(pci, at, n);
	pci[n] = '\0';
	return (int)xid;
}
