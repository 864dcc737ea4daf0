// How Spark counts its executors and their memory, as its own client does for Kubernetes.
#include "pool/spark.h"

#include <stddef.h>
#include <string.h>

enum {
	MILLION = 1000000,
	HEAP_MIB = 1024,    // where nothing is said
	LEAST_MIB = 384,    // of the overhead
	EXECUTORS = 2,      // on Kubernetes
	FACTOR_MOST = 1000, // nobody means more
};

static const int64_t MIB_MOST = (int64_t)1 << 40;

// The digits at the front; *io is behind them. -1: there are none, or too many.
static int64_t digits(const char **io)
{
	const char *s = *io;
	int64_t n = 0;
	while (*s >= '0' && *s <= '9' && s - *io < 15)
		n = n * 10 + (*s++ - '0');
	bool none = s == *io || (*s >= '0' && *s <= '9');
	*io = s;
	return none ? -1 : n;
}

int64_t td_pool_spark_mib(const char *text, char unit)
{
	static const char units[] = "bkmgtp";
	while (*text == ' ')
		text++;
	int64_t n = digits(&text), all;
	char u = *text ? (char)(*text | 0x20) : unit;
	const char *at = memchr(units, u, sizeof(units) - 1);
	text += *text ? 1 : 0;
	if (u != 'b' && (*text | 0x20) == 'b')
		text++;
	while (*text == ' ')
		text++;
	if (n < 0 || !at || *text)
		return -1;
	int64_t power = at - units;
	if (power < 2)
		return n >> (10 * (2 - power));
	return __builtin_mul_overflow(n, (int64_t)1 << (10 * (power - 2)), &all) || all > MIB_MOST ? -1 : all;
}

int64_t td_pool_spark_millionths(const char *text)
{
	int64_t whole = *text == '.' ? 0 : digits(&text), part = 0, unit = MILLION / 10;
	if (whole < 0 || whole > FACTOR_MOST)
		return -1;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, unit /= 10)
			part += unit * (*text - '0');
	return *text ? -1 : whole * MILLION + part;
}

static int64_t or (int64_t said, int64_t other)
{
	return said >= 0 ? said : other;
}

int64_t td_pool_spark_memory(const struct td_pool_spark_memory *m)
{
	int64_t heap = or (m->heap, HEAP_MIB), factor = or (m->millionths, m->script ? 4 * MILLION / 10 : MILLION / 10),
		least = or (m->least_overhead, LEAST_MIB),
		part = heap / MILLION * factor + heap % MILLION * factor / MILLION;
	return heap + or (m->overhead, part > least ? part : least) + or (m->off_heap, 0) + or (m->python, 0);
}

struct td_pool_spark_gang td_pool_spark_gang(const struct td_pool_spark_counts *c, int64_t limit)
{
	struct td_pool_spark_gang g;
	if (!c->dynamic) {
		g.places = or (c->instances, EXECUTORS);
		g.most = g.places;
		return g;
	}
	g.places = or (c->min, 0);
	g.most = or (c->max, limit);
	g.most = g.most > limit ? limit : g.most;
	g.most = g.most < g.places ? g.places : g.most;
	return g;
}
