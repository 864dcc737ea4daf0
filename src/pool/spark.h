// What a Spark application says of its executors, in numbers (docs/gangs.md, Spark). Pure, as all of the pool.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// A size of memory as Spark writes it ("512m", "4g", "4GB"; a number alone counts in `unit`), in MiB and rounded down, as
// Spark does. unit: one of b, k, m, g, t, p. -1: it is none, or too large.
int64_t td_pool_spark_mib(const char *text, char unit);
// A factor ("0.4") in millionths; -1: it is none, or above 1000.
int64_t td_pool_spark_millionths(const char *text);

// What one executor has in MiB. What is not said is -1.
struct td_pool_spark_memory {
	int64_t heap, overhead,
		least_overhead;   // overhead: as it is said; else the factor's part of the heap, or the least
	int64_t millionths;       // the factor
	int64_t off_heap, python; // beside them; of an application that uses them
	bool script;              // it is Python's or R's: its factor is 0.4, where none is said, and not 0.1
};
// What Spark asks for an executor then, in MiB.
int64_t td_pool_spark_memory(const struct td_pool_spark_memory *m);

// How many executors; what is not said is -1.
struct td_pool_spark_counts {
	bool dynamic; // dynamic allocation: there are min to max, as the work needs
	int64_t instances, min, max;
};
struct td_pool_spark_gang {
	int64_t places; // executors that start with the driver
	int64_t most;   // executors that there may be; not below places
};
// limit: so many pods are counted at most.
struct td_pool_spark_gang td_pool_spark_gang(const struct td_pool_spark_counts *c, int64_t limit);
