// What a program is told of the devices that are its own.
#include "accel/accel.h"

#include <string.h>

void td_accel_variables(const yyjson_val *of, const struct td_accel_found *f, uint64_t mask, struct td_strv *ret)
{
	yyjson_val *x;
	size_t i, n;
	int max = f && f->of ? f->n : TD_ACCEL_MAX;
	yyjson_arr_foreach (td_jget(of, "variables"), i, n, x) {
		bool local = td_streq(td_jstr(x, "value"), "{local}");
		const char *none = td_jstr(x, "none");
		td_auto_buf struct td_buf b = {0};
		int k = 0;
		for (int d = 0; d < max; d++)
			if (mask >> d & 1) {
				td_buf_printf(&b, "%s%d", k ? "," : "", local ? k : d);
				k++;
			}
		if (k || none)
			td_strv_addf(ret, "%s=%s", td_jstr_or(x, "name", ""), k ? td_buf_str(&b) : none);
	}
}

char *td_accel_task_text(const yyjson_val *of)
{
	yyjson_val *x;
	size_t i, n;
	struct td_buf b = {0};
	yyjson_arr_foreach (td_jget(of, "variables"), i, n, x)
		td_buf_printf(&b, "%s %s\n", td_jstr_or(x, "name", ""),
			      td_streq(td_jstr(x, "value"), "{local}") ? "local" : "index");
	return td_buf_take(&b);
}

char *td_accel_usual_file(const yyjson_val *of, int index)
{
	yyjson_val *way = td_jget(of, "find.[0]");
	const char *s = td_jstr(way, "files.[0]");
	s = s ? s : td_jstr(of, "files.[0]");
	if (!s || strstr(s, "{group}"))
		return NULL;
	struct td_buf b = {0};
	for (; *s; s++)
		if (td_starts(s, "{i}") || td_starts(s, "{n}")) {
			td_buf_printf(&b, "%lld", index + (s[1] == 'n' ? td_jint(way, "first", 0) : 0));
			s += 2;
		} else {
			td_buf_putc(&b, *s);
		}
	return td_buf_take(&b);
}
