// Input: what the program who.sh says of somebody. Who is accepted is a person, and nobody else's name or number.
// rows: A15.5
#include "gateway/directory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_free char *said = td_strndup((const char *)data, size);
	td_auto_user struct td_gateway_user u = {0};
	if (td_gateway_directory_parse(said, "lea", &u, NULL))
		return 0;
	if (strcmp(u.name, "lea") != 0 || u.uid < 1000 || u.gid < 100 || u.home[0] != '/' || strstr(u.home, ".."))
		abort();
	return 0;
}
