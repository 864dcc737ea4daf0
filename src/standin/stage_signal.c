// Tells a program by a signal, however deep it is below a shell: whoever has no handler for it hears nothing.
#include "standin/stage.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stage_process {
	int pid, parent;
	bool handles;
};

static bool read_process(int pid, int sig, struct stage_process *ret)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	*ret = (struct stage_process){.pid = pid};
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "PPid:", 5))
			ret->parent = atoi(line + 5);
		else if (!strncmp(line, "SigCgt:", 7))
			ret->handles = strtoull(line + 7, NULL, 16) >> (sig - 1) & 1;
	}
	fclose(f);
	return true;
}

static bool below(const struct stage_process *all, int n, const struct stage_process *p, int top)
{
	for (int steps = 0; p && steps < 1024; steps++) {
		if (p->pid == top)
			return true;
		const struct stage_process *parent = NULL;
		for (int i = 0; i < n && !parent; i++)
			if (all[i].pid == p->parent)
				parent = &all[i];
		p = parent;
	}
	return false;
}

int td_stage_tell(int top, int sig)
{
	struct stage_process *all = NULL;
	int n = 0, told = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stage_process p;
		if (!isdigit((unsigned char)e->d_name[0]) || !read_process(atoi(e->d_name), sig, &p))
			continue;
		struct stage_process *more = realloc(all, (size_t)(n + 1) * sizeof(*all));
		if (!more)
			break;
		all = more;
		all[n++] = p;
	}
	if (d)
		closedir(d);
	for (int i = 0; i < n; i++)
		if (all[i].handles && below(all, n, &all[i], top))
			told += !kill(all[i].pid, sig);
	free(all);
	return told;
}

int td_stage_signal_number(const char *name)
{
	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (int s = 1; s < 32; s++) {
		const char *known = sigabbrev_np(s);
		if (known && !strcmp(known, name) && s != SIGKILL && s != SIGSTOP && s != SIGCHLD)
			return s;
	}
	return 0;
}
