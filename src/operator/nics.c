// Adapters of the network that Slurm gives out (spec.fabric.nics): the GRES nic of a node. Pure.
//
// Which they are the node's agent says (slurm/nics.h). Each is near to the cores of the GPUs that it is near to.
#include "operator/operator.h"

#include "base/names.h"
#include "slurm/hostlist.h"
#include "slurm/nics.h"

#include <string.h>

// The part of the GPU that is nearest, else that of its NUMA node.
static char part_of(const struct td_slurm_nic *x, const struct td_op_share *s)
{
	long long most = 0;
	char part = '-';
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (x->near, i, n, v)
		if (i < strlen(s->numa) && yyjson_get_int(v) > most) {
			most = yyjson_get_int(v);
			part = s->numa[i];
		}
	if (part == '-' && *s->numa && x->numa >= 0 && x->numa < td_op_share_parts(s))
		part = (char)('0' + x->numa);
	return part;
}

void td_op_nics_find(const yyjson_val *sc, const yyjson_val *node, const struct td_op_share *share,
		     struct td_op_nics *ret)
{
	td_auto_nics struct td_slurm_nics l = {0};
	td_auto_buf struct td_buf b = {0};
	const struct td_slurm_nic *x;
	*ret = (struct td_op_nics){0};
	td_slurm_nics_read(td_jget(sc, "spec.fabric"), node, &l);
	for (size_t i = 0; i + 1 < TD_LEN(ret->part) && (x = td_slurm_nics_given(&l, i)); i++) {
		yyjson_val *v;
		size_t k, n;
		td_auto_buf struct td_buf own = {0};
		yyjson_arr_foreach (x->files, k, n, v)
			td_buf_printf(&own, "%s%s", k ? "+" : b.len ? "," : "", yyjson_get_str(v));
		if (b.len + own.len >= sizeof(ret->files))
			break;
		td_buf_puts(&b, td_buf_str(&own));
		ret->part[i] = part_of(x, share);
		ret->n++;
	}
	if (b.len)
		snprintf(ret->files, sizeof(ret->files), "%s", td_buf_str(&b));
}

bool td_op_nics_line(const struct td_op_nics *nics, const struct td_op_share *s, long long i, char **ret_files,
		     char **ret_cores)
{
	td_auto_strv struct td_strv all = {0};
	td_strv_split(&all, nics->files, ',');
	if (i >= nics->n || i >= s->nics || i >= (long long)all.n)
		return false;
	long long parts = td_op_share_parts(s), part = nics->part[i] - '0', each = s->cpus / parts;
	*ret_cores = NULL;
	if (*s->numa && part >= 0 && part < parts)
		*ret_cores = each == 1 ? td_asprintf("%lld", part)
				       : td_asprintf("%lld-%lld", part * each, (part + 1) * each - 1);
	*ret_files = td_strdup(all.v[i]);
	for (char *p = *ret_files; *p; p++)
		*p = *p == '+' ? ',' : *p;
	return true;
}

void td_op_nics_write(const struct td_op_share *s, struct td_buf *ret)
{
	if (s->nics)
		td_buf_printf(ret, "%s" TD_GRES_NIC ":%lld", s->gpus ? "," : "", s->nics);
}

bool td_op_nics_differ(const char *record_gres, const struct td_op_share *s)
{
	struct td_gres have[32];
	size_t n = 0;
	long long nics = 0;
	if (record_gres && td_gres_parse(record_gres, have, TD_LEN(have), &n, NULL))
		return false; // text that cannot be read is no reason to delete anything
	for (size_t i = 0; i < n; i++)
		nics += td_streq(have[i].name, TD_GRES_NIC) ? have[i].count : 0;
	return nics != s->nics;
}
