// Addresses, and blocks of them: "10.0.0.0/8".
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_block {
	bool six;    // of IPv6
	uint32_t v4; // else its address, in network byte order
	uint8_t bits;
};
// Leading zeros are accepted, as the API server has always done; numbers are decimal all the same. False: it is none.
bool td_block_parse(const char *s, struct td_block *ret);
// One address. ret_v6 may be NULL.
bool td_is_ip(const char *s, bool *ret_v6);
