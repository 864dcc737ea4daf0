// Input: a job file, read in all three ways. What is accepted has steps, each with something to run.
// rows: E1.8 E1.9
#include "cli/jobfile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 1 << 14)
		return 0;
	td_auto_free char *line = td_strndup((const char *)data, size);
	for (int way = 0; way < 3; way++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = NULL;
		td_auto_strv struct td_strv notes = {0};
		const char *text = (const char *)data;
		if (way == 2 ? td_jobfile_sbatch(line, "x", "true", &d, &notes, NULL)
			     : (way ? td_jobfile_tuxiv : td_jobfile_tandem)(text, size, "x", &d, &notes, NULL))
			continue;
		yyjson_mut_val *steps = td_jm_get(yyjson_mut_doc_get_root(d), "steps");
		for (size_t i = 0; i < yyjson_mut_arr_size(steps); i++)
			if (!yyjson_mut_arr_size(td_jm_get(yyjson_mut_arr_get(steps, i), "entrypoint")))
				abort();
		if (!yyjson_mut_arr_size(steps))
			abort();
	}
	return 0;
}
