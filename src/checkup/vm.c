// What only a virtual machine has: a host that takes CPU time (steal) and memory (a balloon) away from it.
#include "checkup/checkup.h"

#include "base/file.h"

#include <stdio.h>

enum { FIELDS = 8, STEAL = 7, SEEN_S = 120 }; // of /proc/stat's first line: up to steal; what is said sooner is chance

// The ticks of all CPUs since boot, guests' being within user's. False: not known.
static bool ticks(const char *root, int64_t *ret_stolen, int64_t *ret_all)
{
	td_auto_free char *path = td_asprintf("%s/proc/stat", root);
	td_auto_buf struct td_buf b = {0};
	long long v[FIELDS];
	if (td_file_read(path, 8 << 20, &b, NULL) ||
	    sscanf(td_buf_str(&b), "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3], &v[4],
		   &v[5], &v[6], &v[7]) != FIELDS)
		return false;
	*ret_stolen = v[STEAL];
	*ret_all = 0;
	for (int i = 0; i < FIELDS; i++)
		*ret_all += v[i];
	return true;
}

static int64_t memory_kb(const char *root)
{
	td_auto_free char *path = td_asprintf("%s/proc/meminfo", root);
	td_auto_buf struct td_buf b = {0};
	long long kb = 0;
	return !td_file_read(path, 64 << 10, &b, NULL) && sscanf(td_buf_str(&b), "MemTotal: %lld", &kb) == 1 ? kb : 0;
}

void td_vm_look(struct td_vm *v, const char *root, int64_t now_ms, struct td_checkup_facts *f)
{
	struct td_count stolen = {.known = true}, all = {.known = true};
	const int64_t kb = memory_kb(root);
	if (ticks(root, &stolen.total, &all.total)) {
		// Both have the same looks, so they begin anew together.
		if (v->all.n && all.total < v->all.value[v->all.n - 1])
			v->stolen.n = v->all.n = 0;
		td_rate_look(&v->stolen, now_ms, &stolen);
		td_rate_look(&v->all, now_ms, &all);
		if (now_ms - v->all.at_ms[0] >= SEEN_S * 1000 && all.recent > 0)
			f->steal_percent = (int)(stolen.recent * 100 / all.recent);
	}
	if (kb > v->most_kb)
		v->most_kb = kb;
	if (kb)
		f->memory_away_percent = (int)((v->most_kb - kb) * 100 / v->most_kb);
}
