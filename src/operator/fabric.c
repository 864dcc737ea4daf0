// The network between nodes: what is wrong with its planes, in words.
#include "operator/operator.h"

enum { SAID = 5 };

char *td_op_planes_text(const struct td_strv *problems)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < problems->n && i < SAID; i++)
		td_buf_printf(&b, "%s%s", i ? "; " : "", problems->v[i]);
	if (problems->n > SAID)
		td_buf_printf(&b, "; and %zu more", problems->n - SAID);
	return b.len ? td_buf_take(&b) : NULL;
}
