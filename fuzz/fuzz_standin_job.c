// Input: slurmctld's JSON as the stand-in reads it in Prolog. Users write the names and comments in
// it, and it is not NUL-terminated.
// rows: A7.4
#include "standin/standin.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char out[256] = "", small[4] = "";
	int r = td_standin_job_gpus_read((const char *)data, size, 7, "n0", out, sizeof(out));
	if (r < -1 || r > 1 || (r == 1 && (!*out || out[strspn(out, "0123456789,-")])))
		abort();
	td_standin_job_gpus_read((const char *)data, size, 7, "n0", small, sizeof(small));
	td_standin_job_share_read((const char *)data, size, 7, "n0", small, sizeof(small));
	td_standin_job_text_read((const char *)data, size, 7, "admin_comment", (struct standin_text){out, sizeof(out)});
	if (strlen(small) >= sizeof(small))
		abort();
	return 0;
}
