// Which part of a node's memory each GPU hangs at (NUMA), as an administrator or what looks at the machine
// wrote it down. Slurm gets each such part as a socket, with its share of the cores. Pure.
#include "operator/operator.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 8 }; // one digit each

bool td_op_numa_read(const char *text, long long gpus, char ret[TD_OP_NUMA], struct td_error *why)
{
	td_auto_strv struct td_strv l = {0};
	char out[TD_OP_NUMA] = "";
	bool there[PARTS] = {0};
	long long part, last = 0;
	td_strv_split(&l, text, ',');
	for (size_t i = 0; i < l.n; i++) {
		if (!td_parse_i64(l.v[i], &part) || part < 0 || part >= PARTS || i + 1 >= TD_OP_NUMA)
			return td_fail(why, TD_INVALID,
				       "annotation " TD_ANN_GPU_NUMA " \"%.80s\": write the number of the NUMA node of "
				       "each GPU, 0 to %d, in the order of the devices, such as 0,0,1,1",
				       text, PARTS - 1),
			       false;
		there[part] = true;
		last = part > last ? part : last;
		out[i] = (char)('0' + part);
	}
	if ((long long)l.n != gpus)
		return td_fail(why, TD_INVALID,
			       "annotation " TD_ANN_GPU_NUMA " \"%.80s\" is of %zu GPUs, the node has %lld", text, l.n,
			       gpus),
		       false;
	for (part = 0; part < last; part++)
		if (!there[part])
			return td_fail(why, TD_INVALID,
				       "annotation " TD_ANN_GPU_NUMA " \"%.80s\": no GPU is at %lld: number those that "
				       "have GPUs from 0 without gaps",
				       text, part),
			       false;
	memcpy(ret, out, TD_OP_NUMA);
	return true;
}

long long td_op_numa_parts(const char *numa)
{
	char most = '0';
	for (const char *p = numa; *p; p++)
		most = *p > most ? *p : most;
	return most - '0' + 1;
}

long long td_op_share_parts(const struct td_op_share *s)
{
	long long n = td_op_numa_parts(s->numa);
	return s->parts > n ? s->parts : n;
}

long long td_op_numa_run(const char *numa, long long from, long long to)
{
	long long n = 1;
	while (*numa && from + n < to && numa[from + n] == numa[from])
		n++;
	return *numa ? n : to - from;
}

char *td_op_numa_cores(const struct td_op_share *s, long long gpu)
{
	if (!*s->numa)
		return NULL;
	long long part = s->numa[gpu] - '0', each = s->cpus / td_op_share_parts(s);
	return each == 1 ? td_asprintf("%lld", part) : td_asprintf("%lld-%lld", part * each, (part + 1) * each - 1);
}
