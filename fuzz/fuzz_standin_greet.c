// Input: the lines of a stranger at port 7413. None is a proof of somebody without the key; what is taken has its form.
// rows: B5.2
#include "standin/greet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct standin_key key = {.s = "a key that no input has", .n = 23};
	static const struct standin_greet fresh = {.asked = "0123456789abcdef0123456789abcdef",
						   .answered = "fedcba9876543210fedcba9876543210",
						   .client = "10.0.0.1 40000",
						   .server = "10.0.0.2 7413"};
	struct standin_greet g = fresh;
	char *line = malloc(size + 1);
	memcpy(line, data, size);
	line[size] = '\0';
	if (td_standin_greet_hello(&g, line) && (strlen(g.asked) != 32 || strcmp(line + 6, g.asked) != 0))
		abort();
	g = fresh;
	if (td_standin_greet_auth(&key, &g, line) || strlen(g.answered) != 32)
		abort();
	g = fresh;
	if (td_standin_greet_ok(&key, &g, line))
		abort();
	free(line);
	return 0;
}
