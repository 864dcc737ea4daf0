// How the two ends of a connection to a node's server know each other (peer.h). Whoever holds port 7413 while slurmd's
// pod is started again, or stands between, has no key: what it is shown proves something about this connection only.
#include "standin/greet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool end_of(const struct sockaddr_storage *a, char *ret, size_t n)
{
	char address[INET6_ADDRSTRLEN];
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	bool six = a->ss_family == AF_INET6, mapped = six && IN6_IS_ADDR_V4MAPPED(&a6->sin6_addr);
	// A socket for both families shows an address of the older one in the newer one's form.
	const void *at = mapped ? (const void *)&a6->sin6_addr.s6_addr[12]
			 : six  ? (const void *)&a6->sin6_addr
				: (const void *)&a4->sin_addr;
	if ((!six && a->ss_family != AF_INET) ||
	    !inet_ntop(six && !mapped ? AF_INET6 : AF_INET, at, address, sizeof(address)))
		return false;
	return snprintf(ret, n, "%s %u", address, ntohs(six ? a6->sin6_port : a4->sin_port)) < (int)n;
}

bool td_standin_greet_ends(int fd, bool server, struct standin_greet *ret)
{
	struct sockaddr_storage own = {0}, other = {0};
	socklen_t n = sizeof(own), m = sizeof(other);
	return !getsockname(fd, (struct sockaddr *)&own, &n) && !getpeername(fd, (struct sockaddr *)&other, &m) &&
	       end_of(server ? &other : &own, ret->client, sizeof(ret->client)) &&
	       end_of(server ? &own : &other, ret->server, sizeof(ret->server));
}

static bool hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdef") == n;
}

bool td_standin_greet_hello(struct standin_greet *g, const char *line)
{
	if (strncmp(line, "hello ", 6) != 0 || strlen(line) != 6 + 32 || !hex(line + 6, 32))
		return false;
	memcpy(g->asked, line + 6, 33);
	return true;
}

void td_standin_greet_proof(const struct standin_key *key, const struct standin_greet *g, bool server, char ret[41])
{
	char text[STANDIN_PROOF_TEXT];
	snprintf(text, sizeof(text), "tandem peer %s %s %s %s %s", server ? "server" : "client", g->asked, g->answered,
		 g->client, g->server);
	td_standin_proof(key, text, ret);
}

// In the same time whatever differs.
static bool is_proof(const char *got, const struct standin_key *key, const struct standin_greet *g, bool server)
{
	char want[41];
	unsigned char differs = 0;
	td_standin_greet_proof(key, g, server, want);
	if (strlen(got) != strlen(want))
		return false;
	for (size_t i = 0; i < strlen(want); i++)
		differs |= (unsigned char)(got[i] ^ want[i]);
	return !differs;
}

bool td_standin_greet_auth(const struct standin_key *key, struct standin_greet *g, const char *line)
{
	if (strncmp(line, "auth ", 5) != 0 || strlen(line) != 5 + 32 + 1 + 40 || !hex(line + 5, 32) ||
	    line[5 + 32] != ' ')
		return false;
	memcpy(g->answered, line + 5, 32);
	g->answered[32] = '\0';
	return is_proof(line + 5 + 33, key, g, false);
}

bool td_standin_greet_ok(const struct standin_key *key, const struct standin_greet *g, const char *line)
{
	return !strncmp(line, "ok ", 3) && is_proof(line + 3, key, g, true);
}

int td_standin_greet(const struct standin_key *key, bool server, struct line_reader *in, int64_t deadline)
{
	struct standin_greet g = {0};
	char line[128], proof[41], *said;
	if (!td_standin_greet_ends(in->fd, server, &g) || !td_standin_random(server ? g.asked : g.answered))
		return -1;
	if (server) {
		snprintf(line, sizeof(line), "hello %s\n", g.asked);
		if (td_standin_line_write(in->fd, line, deadline) < 0)
			return -1;
	}
	int r = td_standin_line_read(in, deadline, &said);
	if (r != 1)
		return r;
	if (server ? !td_standin_greet_auth(key, &g, said) : !td_standin_greet_hello(&g, said))
		return -1;
	td_standin_greet_proof(key, &g, server, proof);
	if (server)
		snprintf(line, sizeof(line), "ok %s\n", proof);
	else
		snprintf(line, sizeof(line), "auth %s %s\n", g.answered, proof);
	if (td_standin_line_write(in->fd, line, deadline) < 0)
		return -1;
	if (server)
		return 1;
	r = td_standin_line_read(in, deadline, &said);
	return r != 1 ? r : td_standin_greet_ok(key, &g, said) ? 1 : -1;
}
