// The leader's end of the connections to nodes' servers (peer.h).
#include "standin/greet.h"
#include "standin/peer.h"
#include "standin/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void td_standin_peer_close(struct standin_peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

int td_standin_peer_open(struct standin_peer *p, const struct standin_key *key, int64_t deadline, char *why,
			 size_t n_why)
{
	p->in = (struct line_reader){.fd = -1};
	p->ended = false;
	p->fd = td_standin_connect(p->address, STANDIN_PEER_PORT, deadline);
	if (p->fd < 0) {
		bool none = errno == ECONNREFUSED || errno == EINVAL;
		snprintf(why, n_why, "%.100s (%.60s): %s", p->node, p->address, strerror(errno));
		return none ? 1 : -1;
	}
	p->in.fd = p->fd;
	int r = td_standin_greet(key, false, &p->in, deadline);
	if (r == 1)
		return 0;
	td_standin_peer_close(p);
	snprintf(why, n_why, "%.100s (%.60s): no word from its server", p->node, p->address);
	return r == 0 ? -1 : 1;
}

static const char *answer(struct standin_peer *p, int64_t deadline)
{
	static char said[160];
	char *line;
	int r = p->fd < 0 ? -1 : td_standin_line_read(&p->in, deadline, &line);
	if (r == 1 && !strcmp(line, "ok"))
		return NULL;
	snprintf(said, sizeof(said), "%.150s",
		 r == 1   ? line + (strncmp(line, "bad ", 4) ? 0 : 4)
		 : r == 0 ? "no word from its server in time"
			  : "its server has ended the connection");
	p->ended = r < 0;
	if (r != 1)
		td_standin_peer_close(p);
	return said;
}

const char *td_standin_peer_tell(struct standin_peer *p, int64_t deadline, const char *fmt, ...)
{
	char line[TD_WIRE_LINE];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || n > (int)sizeof(line) - 2)
		return "the line is too long";
	line[n] = '\n';
	line[n + 1] = '\0';
	if (p->fd < 0 || td_standin_line_write(p->fd, line, deadline) < 0)
		td_standin_peer_close(p);
	return answer(p, deadline);
}

bool td_standin_peers_ring(const struct standin_round *r)
{
	char token[33];
	int port[STANDIN_NODES + 1];
	int64_t deadline = td_standin_now_ms() + r->ms + STANDIN_SLACK_MS;
	bool well = td_standin_random(token);
	for (int i = 0; i < r->n; i++) {
		const char *said = td_standin_peer_tell(r->v[i], deadline, "listen");
		port[i] = said && !strncmp(said, "port ", 5) ? (int)strtol(said + 5, NULL, 10) : 0;
		snprintf(r->bad[i], sizeof(r->bad[i]), "%s", port[i] ? "" : said ? said : "no port");
		well &= port[i] > 0;
	}
	bool sent = well;
	for (int i = 0; sent && i < r->n; i++) {
		int next = (i + 1) % r->n;
		char line[TD_WIRE_LINE];
		snprintf(line, sizeof(line), "ring %d %d %s %d %s %zu %lld\n", i, r->n, r->v[next]->address, port[next],
			 token, r->kib, (long long)r->ms);
		if (td_standin_line_write(r->v[i]->fd, line, deadline) < 0)
			td_standin_peer_close(r->v[i]);
	}
	for (int i = 0; i < r->n; i++) {
		const char *said = !sent ? NULL : answer(r->v[i], deadline);
		if (said)
			snprintf(r->bad[i], sizeof(r->bad[i]), "%s", said);
		well &= !*r->bad[i];
	}
	return well;
}
