// How much a job may hold on a node's disk (scratch_limit.h).
#include "spank/scratch_limit.h"

#include "base/mem.h"

#include <string.h>

enum {
	LEAST_MS = 1000,
	MOST_MS = 30000,
	CHEAP_MS = 20,
	COST = 20,
	FULL = 12,
	WORTH = 100,
	PAUSE_MS = 10000,
	PAUSE_MAX_MS = 120000
};
#define ASK_FROM ((int64_t)32 << 20)

void td_scratch_files(struct td_scratch_disk *disk, int64_t files, int64_t free_files)
{
	disk->each = files > 0 ? disk->size / files : 0;
	int64_t left;
	disk->made = (files - free_files) * disk->each;
	if (disk->each && !__builtin_mul_overflow(free_files, disk->each, &left) && left < disk->free)
		disk->free = left;
}

int64_t td_scratch_charge(const struct td_scratch_disk *disk, int64_t bytes, int64_t files)
{
	int64_t made;
	if (__builtin_mul_overflow(files, disk->each, &made))
		made = INT64_MAX;
	return bytes > made ? bytes : made;
}

int64_t td_scratch_bytes(const char *text, int64_t disk)
{
	long long n;
	size_t digits = strspn(text, "0123456789");
	td_auto_free char *number = td_strndup(text, digits);
	if (!digits || !td_parse_i64(number, &n))
		return -1;
	if (!text[digits])
		return n;
	return !strcmp(text + digits, "%") && n >= 1 && n <= 100 ? disk / 100 * n : -1;
}

int64_t td_scratch_limit(const struct td_scratch_seen *j, int64_t usual)
{
	return j->asked > 0 ? j->asked : usual;
}

void td_scratch_more(struct td_scratch_seen *j, int64_t counted)
{
	if (counted > j->used)
		j->used = counted;
}

bool td_scratch_full(const struct td_scratch_disk *disk)
{
	return disk->free < disk->size / 100 * FULL;
}

bool td_scratch_due(const struct td_scratch_seen *j, int64_t usual, const struct td_scratch_disk *disk, int64_t now_ms)
{
	if (j->used < 0)
		return true;
	// A job that asked for less than is usual is known by then: it holds no more than that is asked from.
	int64_t limit = td_scratch_limit(j, usual), since = now_ms - j->looked_ms, pause = j->cost_ms * COST;
	if (j->asked < 0 && limit > ASK_FROM)
		limit = ASK_FROM;
	if (since < (pause > LEAST_MS ? pause : LEAST_MS))
		return false;
	if (j->cost_ms <= CHEAP_MS)
		return true;
	int64_t grown = disk->size - disk->free - j->disk_used, made = disk->made - j->disk_made,
		left = limit > j->used ? limit - j->used : 0;
	return since >= MOST_MS || grown > left / 2 || made > left / 2 || td_scratch_full(disk);
}

bool td_scratch_ask(const struct td_scratch_seen *j, int64_t usual, const struct td_scratch_disk *disk)
{
	if (j->asked >= 0)
		return false;
	return j->used > usual || j->used > ASK_FROM || (td_scratch_full(disk) && j->used > disk->size / WORTH);
}

bool td_scratch_over(const struct td_scratch_seen *j, int64_t usual)
{
	return !j->ended && j->asked >= 0 && j->used > td_scratch_limit(j, usual);
}

bool td_scratch_near(const struct td_scratch_seen *j, int64_t usual)
{
	int64_t limit = td_scratch_limit(j, usual);
	return !j->warned && j->asked >= 0 && j->used > limit - limit / 5 && j->used <= limit;
}

size_t td_scratch_worst(const struct td_scratch_seen *v, size_t n, const struct td_scratch_disk *disk)
{
	size_t worst = n;
	int64_t most = disk->size / WORTH;
	if (!td_scratch_full(disk))
		return n;
	for (size_t i = 0; i < n; i++) {
		int64_t beyond = v[i].used - (v[i].asked > 0 ? v[i].asked : 0);
		if (v[i].ended || v[i].used < 0 || (v[i].asked < 0 && beyond >= disk->size / WORTH))
			return n;
		if (beyond >= most) {
			most = beyond;
			worst = i;
		}
	}
	return worst;
}

int64_t td_scratch_pause(int64_t last_ms)
{
	int64_t ms = last_ms ? 2 * last_ms : PAUSE_MS;
	return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}
