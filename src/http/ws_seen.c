#include "http/ws_frame.h"

#include <string.h>

bool td_ws_seen_data(struct td_ws_seen *s, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	bool data = false;
	while (n) {
		if (s->left) {
			size_t k = s->left < n ? (size_t)s->left : n;
			data = data || s->data;
			s->left -= k;
			p += k;
			n -= k;
			continue;
		}
		struct td_ws_frame f;
		s->head[s->n++] = *p++;
		n--;
		int k = s->broken ? -1 : td_ws_frame_head(s->head, s->n, &f);
		if (k < 0 || (!k && s->n == sizeof(s->head))) {
			s->broken = true; // whatever it is, it is not a ping
			s->n = 0;
			return true;
		}
		if (!k)
			continue;
		s->data = f.op < TD_WS_CLOSE;
		s->left = f.len;
		s->n = 0;
		data = data || s->data;
	}
	return data;
}
