// Whose a socket is, as the kernel says (sock_diag). The kernel itself looks for the socket of a TCP connection, just as
// it does for a packet. A UDP port may be several sockets': they must all be of one user.
#include "standin/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { SYN_SENT = 2, LISTEN = 10, ANSWER = 32768 }; // the kernel's states of TCP

struct owner_request {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};
struct owner_found {
	enum firewall_whose whose;
	uint32_t uid;
	int state;
};

int td_firewall_diag_open(void)
{
	const struct timeval t = {1, 0};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return fd;
}

static bool is4(const struct in6_addr *a)
{
	return IN6_IS_ADDR_V4MAPPED(a);
}

static void address(const struct in6_addr *a, __be32 ret[4])
{
	if (is4(a))
		memcpy(ret, a->s6_addr + 12, 4);
	else
		memcpy(ret, a, 16);
}

// Is that what a socket of this family has, or has it none?
static bool same(int family, const __be32 has[4], const struct in6_addr *a)
{
	static const struct in6_addr none;
	struct in6_addr x;
	if (family == AF_INET6) {
		memcpy(&x, has, 16);
	} else {
		memset(&x, 0, sizeof(x));
		x.s6_addr[10] = x.s6_addr[11] = has[0] ? 0xff : 0;
		memcpy(x.s6_addr + 12, has, 4);
	}
	return !memcmp(&x, &none, 16) || !memcmp(&x, a, 16);
}

static uint32_t number;

static bool send_to_kernel(int fd, struct owner_request *q)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	q->h.nlmsg_len = sizeof(*q);
	q->h.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	q->h.nlmsg_seq = ++number;
	q->r.id.idiag_cookie[0] = q->r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return sendto(fd, q, sizeof(*q), 0, (const struct sockaddr *)&kernel, sizeof(kernel)) == sizeof(*q);
}

// The socket of TCP at `here` that talks to `there` (NULL: that listens).
static struct owner_found tcp(int fd, const struct firewall_end *here, const struct firewall_end *there)
{
	struct owner_found r = {FIREWALL_UNKNOWN, 0, 0};
	struct owner_request q = {.h.nlmsg_flags = NLM_F_REQUEST,
				  .r = {.sdiag_family = is4(&here->at) ? AF_INET : AF_INET6,
					.sdiag_protocol = IPPROTO_TCP,
					.idiag_states = ~0u}};
	q.r.id.idiag_sport = htons(here->port);
	address(&here->at, q.r.id.idiag_src);
	if (there) {
		q.r.id.idiag_dport = htons(there->port);
		address(&there->at, q.r.id.idiag_dst);
	}
	if (!send_to_kernel(fd, &q))
		return r;
	for (;;) {
		_Alignas(struct nlmsghdr) char buf[4096];
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return r;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_seq != number)
				continue; // of a question that was given up
			if (h->nlmsg_type == NLMSG_ERROR) {
				int e = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
				r.whose = e == -ENOENT ? FIREWALL_NOBODYS : FIREWALL_UNKNOWN;
				return r;
			}
			const struct inet_diag_msg *m = NLMSG_DATA(h);
			// One without an inode has no file any more, and its uid may be 0 for that alone.
			r.whose = m->idiag_inode ? FIREWALL_KNOWN : FIREWALL_NOBODYS;
			r.uid = m->idiag_uid;
			r.state = m->idiag_state;
			return r;
		}
	}
}

// Adds the sockets of one family that have the port and address `here`, and talk to `there` or to nobody.
static bool udp_family(int fd, int family, const struct firewall_end *here, const struct firewall_end *there,
		       struct owner_found *ret)
{
	struct owner_request q = {
		.h.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		.r = {.sdiag_family = (uint8_t)family, .sdiag_protocol = IPPROTO_UDP, .idiag_states = ~0u}};
	q.r.id.idiag_sport = htons(here->port);
	if (!send_to_kernel(fd, &q))
		return false;
	for (;;) {
		static _Alignas(struct nlmsghdr) char buf[ANSWER];
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_seq != number)
				continue;
			if (h->nlmsg_type == NLMSG_DONE)
				return true;
			if (h->nlmsg_type == NLMSG_ERROR)
				return family == AF_INET6; // a machine may have none
			const struct inet_diag_msg *m = NLMSG_DATA(h);
			if (ntohs(m->id.idiag_sport) != here->port || !same(family, m->id.idiag_src, &here->at) ||
			    !same(family, m->id.idiag_dst, &there->at))
				continue;
			bool another = ret->whose == FIREWALL_KNOWN && ret->uid != m->idiag_uid;
			ret->whose = another || ret->state ? FIREWALL_NOBODYS : FIREWALL_KNOWN;
			ret->state |= another; // several users', whoever else follows
			ret->uid = m->idiag_uid;
		}
	}
}

static enum firewall_whose udp(int fd, const struct firewall_end *here, const struct firewall_end *there,
			       uint32_t *ret_uid)
{
	struct owner_found r = {FIREWALL_NOBODYS, 0, 0};
	if (is4(&here->at) && !udp_family(fd, AF_INET, here, there, &r))
		return FIREWALL_UNKNOWN;
	if (!udp_family(fd, AF_INET6, here, there, &r)) // these have IPv4 as well
		return FIREWALL_UNKNOWN;
	*ret_uid = r.uid;
	return r.whose;
}

enum firewall_whose td_firewall_listener(int diag, const struct firewall_flow *f, uint32_t *ret_uid)
{
	if (f->proto == IPPROTO_UDP)
		return udp(diag, &f->to, &f->from, ret_uid);
	struct owner_found r = tcp(diag, &f->to, NULL);
	if (r.whose != FIREWALL_KNOWN || r.state != LISTEN) {
		// Both may connect to each other at once.
		r = tcp(diag, &f->to, &f->from);
		if (r.whose == FIREWALL_KNOWN && r.state != SYN_SENT)
			r.whose = FIREWALL_NOBODYS;
	}
	*ret_uid = r.uid;
	return r.whose;
}

enum firewall_whose td_firewall_sender(int diag, const struct firewall_flow *f, uint32_t *ret_uid)
{
	if (f->proto == IPPROTO_UDP)
		return udp(diag, &f->from, &f->to, ret_uid);
	struct owner_found r = tcp(diag, &f->from, &f->to);
	*ret_uid = r.uid;
	return r.whose == FIREWALL_KNOWN && r.state != SYN_SENT ? FIREWALL_NOBODYS : r.whose;
}
