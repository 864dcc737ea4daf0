// Input: a packet as it waits in the firewall's queue, with a message in it that anybody may have sent.
// rows: C9.1
#include "standin/firewall.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct firewall_message m, again;
	uint8_t b[FIREWALL_MESSAGE];
	struct firewall_flow f;
	const uint8_t *inside = data;
	size_t n = size;
	if (td_firewall_packet(data, size, &f, &inside, &n) && (inside < data || inside + n != data + size))
		abort();
	if (!td_firewall_read(inside, n, &m))
		return 0;
	if (!m.answer)
		*m.accounts = '\0'; // a question has none
	if (!td_firewall_read(b, td_firewall_write(&m, b), &again) || memcmp(&m, &again, sizeof(m)) != 0)
		abort();
	return 0;
}
