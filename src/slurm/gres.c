#include "slurm/gres.h"

#include "base/names.h"

#include <string.h>

char *td_slurm_gres_conf(const struct td_slurm_facts *f)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "AutoDetect=off\n");
	for (size_t i = 0; i < f->n_gres; i++) {
		const struct td_slurm_gres *g = &f->gres[i];
		if (!g->file) {
			td_buf_printf(&b, "%s%s%sName=%s Count=%lld\n", g->nodes ? "NodeName=" : "",
				      g->nodes ? g->nodes : "", g->nodes ? " " : "", g->name, g->count);
			continue;
		}
		td_buf_printf(&b, "%s%s%sName=%s%s%s %s=%s%s%s%s%s\n", g->nodes ? "NodeName=" : "",
			      g->nodes ? g->nodes : "", g->nodes ? " " : "", g->name, g->type ? " Type=" : "",
			      g->type ? g->type : "", g->several ? "MultipleFiles" : "File", g->file,
			      g->cores ? " Cores=" : "", g->cores ? g->cores : "", g->flags ? " Flags=" : "",
			      g->flags ? g->flags : "");
	}
	return td_buf_take(&b);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void td_slurm_gres_types(const struct td_slurm_facts *f, struct td_strv *ret)
{
	for (size_t i = 0; i < f->n_gres; i++)
		if (f->gres[i].type && !td_strv_has(ret, f->gres[i].type))
			td_strv_add(ret, f->gres[i].type);
	for (size_t i = 0; i < f->n_types_to_come; i++)
		if (!td_strv_has(ret, f->types_to_come[i]))
			td_strv_add(ret, f->types_to_come[i]);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_text);
}

char *td_slurm_gres_tres(const struct td_slurm_facts *f, const char *ours)
{
	struct td_buf b = {0};
	td_auto_strv struct td_strv types = {0};
	td_slurm_gres_types(f, &types);
	td_buf_puts(&b, ours);
	for (size_t i = 0; i < types.n; i++)
		td_buf_printf(&b, ",gres/gpu:%s", types.v[i]);
	if (f->shares)
		td_buf_puts(&b, ",gres/" TD_GPU_SHARE);
	if (f->nics)
		td_buf_puts(&b, ",gres/" TD_GRES_NIC);
	return td_buf_take(&b);
}

void td_slurm_gres_lua(const struct td_slurm_facts *f, struct td_buf *b)
{
	td_auto_strv struct td_strv types = {0};
	td_slurm_gres_types(f, &types);
	td_buf_puts(b, "-- Written by Tandem: the types that GPUs have.\ntandem_gpu_types = {");
	// A type is a name: nothing in it ends a string of Lua's.
	for (size_t i = 0; i < types.n; i++)
		td_buf_printf(b, "%s\"%s\"", i ? ", " : "", types.v[i]);
	td_buf_puts(b, "}\n");
	if (!f->n_cuts)
		return;
	td_buf_puts(b, "-- Parts that a GPU is cut in because a job waits for one.\ntandem_gpu_cuts = {");
	for (size_t i = 0; i < f->n_cuts; i++)
		td_buf_printf(b, "%s[\"%s\"] = true", i ? ", " : "", f->cuts[i]);
	td_buf_puts(b, "}\n");
}
