// The program of the firewall (firewall.h): one thread, one loop. A packet waits in the kernel's queue until it is judged;
// one that waits for another node's answer holds up no other.
#include "standin/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	WAITING = 4096, // packets that wait for another node's answer; more are dropped, and come again
	AGAIN_MS = 250, // an answer is late: ask again, every so often
	LATE_MS = 1500, // give up: the packet is dropped, and the sender sends it again
	OUTSIDE = 256,
	OUTSIDE_MS = 10000, // for how long a place is known to have no firewall
	COPY = 2048,        // bytes of a packet
	AT_ONCE = 1024,     // of what the queue says
	QUEUE = 16384,      // packets
	BLOCKS = 64,
	SWEEP_MS = 600000,
	LOOPBACK = 1, // the interface lo of every network namespace
};

struct firewall_waiting {
	bool used;
	uint32_t packet;
	uint64_t number;
	struct firewall_flow flow;
	uint32_t owner;
	int64_t again_ms, late_ms;
};
struct outside {
	struct in6_addr at;
	int64_t until_ms;
};
static struct {
	const char *jobs, *spool;
	bool accounts;
	struct firewall_block from[BLOCKS];
	size_t n_from;
	int queue, diag, v4, v6; // v6: -1: the machine has none
	struct firewall_waiting waiting[WAITING];
	size_t n_waiting;
	struct outside outside[OUTSIDE];
	int64_t said_ms;
} w;

// ---- the queue ----
static bool to_kernel(const void *p, size_t n)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	return sendto(w.queue, p, n, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) == (ssize_t)n;
}

struct to_queue {
	struct nlmsghdr h;
	struct nfgenmsg g;
	struct nlattr a;
	union {
		struct nfqnl_msg_config_cmd cmd;
		struct nfqnl_msg_config_params params;
		uint32_t max;
		struct nfqnl_msg_verdict_hdr verdict;
	};
	uint8_t pad[12]; // of the longest, and a second attribute
};

static size_t queue_message(struct to_queue *m, int type, int attribute, size_t n)
{
	m->a = (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = (uint16_t)attribute};
	m->g = (struct nfgenmsg){AF_UNSPEC, NFNETLINK_V0, htons(FIREWALL_QUEUE)};
	m->h = (struct nlmsghdr){.nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | type), .nlmsg_flags = NLM_F_REQUEST};
	m->h.nlmsg_len = (uint32_t)(offsetof(struct to_queue, cmd) + NLA_ALIGN(n));
	return m->h.nlmsg_len;
}

static bool acknowledged(void)
{
	_Alignas(struct nlmsghdr) char buf[8192];
	struct pollfd p = {w.queue, POLLIN, 0};
	for (;;) {
		ssize_t n = poll(&p, 1, 5000) == 1 ? recv(w.queue, buf, sizeof(buf), 0) : -1;
		if (n < 0)
			return false;
		const struct nlmsghdr *h = (const void *)buf;
		if (!NLMSG_OK(h, n) || h->nlmsg_type != NLMSG_ERROR)
			continue; // a packet that waited already comes again: its sender sends it again
		errno = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
		return !errno;
	}
}

static bool configure(struct to_queue *m, int attribute, size_t n)
{
	size_t len = queue_message(m, NFQNL_MSG_CONFIG, attribute, n);
	m->h.nlmsg_flags |= NLM_F_ACK;
	return to_kernel(m, len) && acknowledged();
}

static bool queue_open(void)
{
	const int on = 1, room = 8 << 20;
	w.queue = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (w.queue < 0)
		return false;
	setsockopt(w.queue, SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof(on));
	setsockopt(w.queue, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	struct to_queue size = {.max = htonl(QUEUE)}, bind = {.cmd = {.command = NFQNL_CFG_CMD_BIND}},
			copy = {.params = {htonl(COPY), NFQNL_COPY_PACKET}};
	return configure(&bind, NFQA_CFG_CMD, sizeof(bind.cmd)) &&
	       configure(&size, NFQA_CFG_QUEUE_MAXLEN, sizeof(size.max)) &&
	       configure(&copy, NFQA_CFG_PARAMS, sizeof(struct nfqnl_msg_config_params));
}

// mark 0: the packet is dropped without a word. Else it goes through the rules again.
static void judge(uint32_t packet, uint32_t mark)
{
	struct to_queue m = {.verdict = {htonl(mark ? NF_REPEAT : NF_DROP), htonl(packet)}};
	size_t n = queue_message(&m, NFQNL_MSG_VERDICT, NFQA_VERDICT_HDR, sizeof(m.verdict));
	if (mark) {
		const struct nlattr a = {NLA_HDRLEN + sizeof(mark), NFQA_MARK};
		mark = htonl(mark);
		memcpy((char *)&m + n, &a, sizeof(a));
		memcpy((char *)&m + n + sizeof(a), &mark, sizeof(mark));
		m.h.nlmsg_len += (uint32_t)(sizeof(a) + sizeof(mark));
	}
	to_kernel(&m, m.h.nlmsg_len);
}

// At most once a second.
static void say(const char *what, const struct firewall_flow *f)
{
	int64_t now = td_standin_now_ms();
	if (w.said_ms && now - w.said_ms < 1000)
		return;
	w.said_ms = now;
	char from[INET6_ADDRSTRLEN] = "", to[INET6_ADDRSTRLEN] = "";
	inet_ntop(AF_INET6, &f->from.at, from, sizeof(from));
	inet_ntop(AF_INET6, &f->to.at, to, sizeof(to));
	fprintf(stderr, "tandem firewall: %s from %s port %u to %s port %u: %s\n",
		f->proto == IPPROTO_TCP ? "tcp" : "udp", from, f->from.port, to, f->to.port, what);
}

static void let(uint32_t packet, const struct firewall_flow *f, bool may, const char *why)
{
	if (!may)
		say(why, f);
	judge(packet, may ? FIREWALL_OK : FIREWALL_NO);
}

static void accounts(uint32_t uid, char ret[FIREWALL_ACCOUNTS])
{
	*ret = '\0';
	if (w.accounts)
		td_firewall_accounts(w.jobs, w.spool, uid, ret);
}

// Is he let in, whose accounts are known?
static bool may(uint32_t owner, uint32_t from, const char *from_accounts)
{
	char own[FIREWALL_ACCOUNTS] = "";
	if (owner != from && *from_accounts)
		accounts(owner, own);
	return td_firewall_may(owner, own, from, from_accounts);
}

// ---- asking and answering ----
struct datagram {
	const struct in6_addr *from, *to; // from: an address of ours
	const uint8_t *p;
	size_t n;
};

static void send_it(const struct datagram *d)
{
	bool four = IN6_IS_ADDR_V4MAPPED(d->to);
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(FIREWALL_PORT)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(FIREWALL_PORT), .sin6_addr = *d->to};
	memcpy(&a4.sin_addr, d->to->s6_addr + 12, 4);
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} c = {0};
	struct iovec v = {(void *)d->p, d->n};
	struct msghdr m = {.msg_name = four ? (void *)&a4 : (void *)&a6,
			   .msg_namelen = four ? sizeof(a4) : sizeof(a6),
			   .msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = &c,
			   .msg_controllen = four ? CMSG_SPACE(sizeof(struct in_pktinfo)) : sizeof(c.room)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (four) {
		struct in_pktinfo i = {0};
		memcpy(&i.ipi_spec_dst, d->from->s6_addr + 12, 4);
		h->cmsg_level = IPPROTO_IP;
		h->cmsg_type = IP_PKTINFO;
		h->cmsg_len = CMSG_LEN(sizeof(i));
		memcpy(CMSG_DATA(h), &i, sizeof(i));
	} else {
		const struct in6_pktinfo i = {.ipi6_addr = *d->from};
		h->cmsg_level = IPPROTO_IPV6;
		h->cmsg_type = IPV6_PKTINFO;
		h->cmsg_len = CMSG_LEN(sizeof(i));
		memcpy(CMSG_DATA(h), &i, sizeof(i));
	}
	int fd = four ? w.v4 : w.v6;
	// An error that came for an earlier one is told once, by the next call.
	if (fd >= 0 && sendmsg(fd, &m, MSG_DONTWAIT) < 0)
		sendmsg(fd, &m, MSG_DONTWAIT);
}

static void ask(struct firewall_waiting *x, int64_t now)
{
	uint8_t b[FIREWALL_MESSAGE];
	const struct firewall_message m = {.number = x->number, .flow = x->flow, .uid = x->owner};
	x->again_ms = now + AGAIN_MS;
	send_it(&(struct datagram){&x->flow.to.at, &x->flow.from.at, b, td_firewall_write(&m, b)});
}

static struct outside *outside(const struct in6_addr *at)
{
	uint32_t h = 0;
	for (int i = 0; i < 16; i++)
		h = h * 31 + at->s6_addr[i];
	return &w.outside[h % OUTSIDE];
}

static void wait_for_answer(uint32_t packet, const struct firewall_flow *f, uint32_t owner)
{
	int64_t now = td_standin_now_ms();
	const struct outside *o = outside(&f->from.at);
	if (o->until_ms > now && !memcmp(&o->at, &f->from.at, 16)) {
		judge(packet, FIREWALL_OK);
		return;
	}
	struct firewall_waiting x = {true, packet, 0, *f, owner, 0, now + LATE_MS};
	if (w.n_waiting == WAITING || getrandom(&x.number, sizeof(x.number), 0) != sizeof(x.number)) {
		say("dropped: too many wait for other nodes' answers", f);
		judge(packet, 0);
		return;
	}
	// The number's low bits are its place.
	size_t at = x.number % WAITING;
	while (w.waiting[at].used)
		at = (at + 1) % WAITING;
	x.number = x.number - x.number % WAITING + at;
	ask(&x, now);
	w.waiting[at] = x;
	w.n_waiting++;
}

static struct firewall_waiting *waiting(uint64_t number)
{
	struct firewall_waiting *x = &w.waiting[number % WAITING];
	return x->used && x->number == number ? x : NULL;
}

static void done(struct firewall_waiting *x)
{
	x->used = false;
	w.n_waiting--;
}

static void answer(const struct firewall_flow *f, const struct firewall_message *q)
{
	// Who asks is the end to which the other one connects: nobody learns of others' connections.
	if (memcmp(&q->flow.from.at, &f->to.at, 16) != 0 || memcmp(&q->flow.to.at, &f->from.at, 16) != 0)
		return;
	uint8_t b[FIREWALL_MESSAGE];
	static struct firewall_message a;
	a = (struct firewall_message){.answer = true, .number = q->number, .flow = q->flow};
	enum firewall_whose r = td_firewall_sender(w.diag, &q->flow, &a.uid);
	if (r == FIREWALL_UNKNOWN)
		return; // it asks again
	a.known = r == FIREWALL_KNOWN;
	if (a.known && a.uid != q->uid && !td_firewall_system(a.uid))
		accounts(a.uid, a.accounts);
	send_it(&(struct datagram){&f->to.at, &f->from.at, b, td_firewall_write(&a, b)});
}

static void heard(const struct firewall_flow *f, const uint8_t *p, size_t n)
{
	static struct firewall_message m;
	if (!td_firewall_read(p, n, &m))
		return;
	if (!m.answer) {
		answer(f, &m);
		return;
	}
	struct firewall_waiting *x = waiting(m.number);
	if (!x || memcmp(&x->flow.from.at, &f->from.at, 16) != 0)
		return;
	let(x->packet, &x->flow, m.known && may(x->owner, m.uid, m.accounts),
	    m.known ? "refused: it is another user's" : "refused: nobody is known to have sent it");
	done(x);
}

// The network's errors. That nobody listens at the place's port for questions, said by the place itself of a question
// of ours, means that it has no firewall.
static void errors(int fd)
{
	for (;;) {
		uint8_t b[FIREWALL_MESSAGE];
		char control[512];
		struct iovec v = {b, sizeof(b)};
		struct msghdr m = {
			.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);
		if (n < 0)
			return;
		static struct firewall_message q;
		struct firewall_waiting *x = td_firewall_read(b, (size_t)n, &q) && !q.answer ? waiting(q.number) : NULL;
		for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); x && h; h = CMSG_NXTHDR(&m, h)) {
			bool six = h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_RECVERR;
			if (!six && (h->cmsg_level != IPPROTO_IP || h->cmsg_type != IP_RECVERR))
				continue;
			const struct sock_extended_err *e = (const void *)CMSG_DATA(h);
			const struct sockaddr_in *a4 = (const void *)SO_EE_OFFENDER(e);
			const struct sockaddr_in6 *a6 = (const void *)SO_EE_OFFENDER(e);
			bool port = six ? e->ee_origin == SO_EE_ORIGIN_ICMP6 && e->ee_type == ICMPV6_DEST_UNREACH &&
						    e->ee_code == ICMPV6_PORT_UNREACH
					: e->ee_origin == SO_EE_ORIGIN_ICMP && e->ee_type == ICMP_DEST_UNREACH &&
						    e->ee_code == ICMP_PORT_UNREACH,
			     itself = six ? !memcmp(&a6->sin6_addr, &x->flow.from.at, 16)
					  : IN6_IS_ADDR_V4MAPPED(&x->flow.from.at) &&
						      !memcmp(&a4->sin_addr, x->flow.from.at.s6_addr + 12, 4);
			if (!port || !itself)
				continue;
			*outside(&x->flow.from.at) =
				(struct outside){x->flow.from.at, td_standin_now_ms() + OUTSIDE_MS};
			judge(x->packet, FIREWALL_OK);
			done(x);
			x = NULL;
		}
	}
}

// ---- packets ----
static void packet(uint32_t id, unsigned interface, const uint8_t *p, size_t n)
{
	struct firewall_flow f;
	const uint8_t *data;
	size_t n_data;
	uint32_t owner, from;
	if (!td_firewall_packet(p, n, &f, &data, &n_data)) {
		judge(id, td_firewall_fragment(p, n) ? FIREWALL_OK : 0);
		return;
	}
	if (f.proto == IPPROTO_UDP && f.to.port == FIREWALL_PORT) {
		judge(id, 0);
		heard(&f, data, n_data);
		return;
	}
	enum firewall_whose r = td_firewall_listener(w.diag, &f, &owner);
	if (r != FIREWALL_KNOWN) {
		// Nobody listens: the same answer as the kernel's, and nobody can begin to before it is given.
		judge(id, r == FIREWALL_NOBODYS ? FIREWALL_NO : 0);
		return;
	}
	if (td_firewall_system(owner)) {
		judge(id, FIREWALL_OK);
		return;
	}
	if (interface == LOOPBACK) {
		r = td_firewall_sender(w.diag, &f, &from);
		char theirs[FIREWALL_ACCOUNTS] = "";
		if (r == FIREWALL_KNOWN && from != owner)
			accounts(from, theirs);
		if (r == FIREWALL_UNKNOWN)
			judge(id, 0);
		else
			let(id, &f, r == FIREWALL_KNOWN && may(owner, from, theirs), "refused: it is another user's");
		return;
	}
	for (size_t i = 0; i < w.n_from; i++)
		if (td_firewall_within(&w.from[i], &f.from.at)) {
			judge(id, FIREWALL_OK);
			return;
		}
	wait_for_answer(id, &f, owner);
}

static void queued(const struct nlmsghdr *h)
{
	size_t left = h->nlmsg_len - NLMSG_LENGTH(sizeof(struct nfgenmsg));
	const struct nlattr *a = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
	uint32_t id = 0, interface = 0;
	const uint8_t *p = NULL;
	size_t n = 0;
	bool known = false;
	while (left >= sizeof(*a) && a->nla_len >= sizeof(*a) && a->nla_len <= left) {
		const void *data = (const char *)a + NLA_HDRLEN;
		size_t len = a->nla_len - NLA_HDRLEN, step = NLA_ALIGN(a->nla_len);
		if (a->nla_type == NFQA_PACKET_HDR && len >= sizeof(id)) {
			memcpy(&id, data, sizeof(id)); // of struct nfqnl_msg_packet_hdr the first
			id = ntohl(id);
			known = true;
		} else if (a->nla_type == NFQA_IFINDEX_INDEV && len >= sizeof(interface)) {
			memcpy(&interface, data, sizeof(interface));
			interface = ntohl(interface);
		} else if (a->nla_type == NFQA_PAYLOAD) {
			p = data;
			n = len;
		}
		if (step >= left)
			break;
		left -= step;
		a = (const void *)((const char *)a + step);
	}
	if (known)
		packet(id, interface, p ? p : (const uint8_t *)"", n);
}

// What is left is read after all else has had its turn: packets can come faster than they are judged.
static bool read_queue(void)
{
	static _Alignas(struct nlmsghdr) char buf[65536];
	for (int i = 0; i < AT_ONCE; i++) {
		ssize_t n = recv(w.queue, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
		// n has a sign: a packet's length is padded for the next message, and what lies there is an older packet.
		for (const struct nlmsghdr *h = (const void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n))
			if (h->nlmsg_type == (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET) &&
			    h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nfgenmsg)))
				queued(h);
	}
	return true;
}

static void late(int64_t now)
{
	for (size_t i = 0; w.n_waiting && i < WAITING; i++) {
		struct firewall_waiting *x = &w.waiting[i];
		if (x->used && x->late_ms <= now) {
			say("dropped: the node that sent it does not say whose it is", &x->flow);
			judge(x->packet, 0);
			done(x);
		} else if (x->used && x->again_ms <= now) {
			ask(x, now);
		}
	}
}

static int sender(int family)
{
	const int on = 1;
	bool six = family == AF_INET6;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (six)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
	return fd;
}

static int serve(int signals)
{
	int64_t sweep = 0;
	for (;;) {
		int64_t now = td_standin_now_ms();
		if (w.accounts && now >= sweep) {
			td_firewall_sweep(w.jobs, w.spool);
			sweep = now + SWEEP_MS;
		}
		struct pollfd p[] = {{signals, POLLIN, 0}, {w.queue, POLLIN, 0}, {w.v4, 0, 0}, {w.v6, 0, 0}};
		if (poll(p, 4, w.n_waiting ? AGAIN_MS / 2 : SWEEP_MS) < 0 && errno != EINTR)
			return perror("tandem firewall: poll"), 1;
		if (p[0].revents)
			return 0;
		if (p[1].revents && !read_queue())
			return perror("tandem firewall: its queue"), 1;
		if (p[2].revents & POLLERR)
			errors(w.v4);
		if (p[3].revents & POLLERR)
			errors(w.v6);
		late(td_standin_now_ms());
	}
}

static int rules(void)
{
	int e = td_firewall_rules();
	if (e)
		fprintf(stderr,
			"tandem firewall: its rules: %s (it needs NET_ADMIN in its network, and a kernel with "
			"nf_tables and "
			"NFQUEUE)\n",
			strerror(e));
	return e ? 1 : 0;
}

int td_standin_firewall(int argc, char **argv)
{
	bool rules_only = false;
	w.jobs = FIREWALL_JOBS;
	w.spool = "/var/spool/slurmd";
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--rules")) {
			rules_only = true;
		} else if (!strcmp(argv[i], "--accounts")) {
			w.accounts = true;
		} else if (i + 1 < argc && !strcmp(argv[i], "--jobs")) {
			w.jobs = argv[++i];
		} else if (i + 1 < argc && !strcmp(argv[i], "--spool")) {
			w.spool = argv[++i];
		} else if (i + 1 < argc && !strcmp(argv[i], "--from") && w.n_from < BLOCKS &&
			   td_firewall_block(argv[i + 1], &w.from[w.n_from])) {
			w.n_from++;
			i++;
		} else {
			fprintf(stderr, "tandem firewall: unknown argument \"%s\"\n", argv[i]);
			return 2;
		}
	}
	int bad = rules();
	if (!bad && !td_firewall_jobs_close(w.jobs))
		bad = 1;
	if (bad || rules_only)
		return bad;
	sigset_t end;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	int signals = signalfd(-1, &end, SFD_CLOEXEC);
	w.diag = td_firewall_diag_open();
	w.v4 = sender(AF_INET);
	w.v6 = sender(AF_INET6);
	if (signals < 0 || w.diag < 0 || w.v4 < 0 || !queue_open()) {
		perror("tandem firewall: it cannot begin (it needs NET_ADMIN in its network, and a kernel with NFQUEUE "
		       "and "
		       "sock_diag)");
		return 1;
	}
	// Whose is a socket that cannot be? The kernel that says this knows the question.
	uint32_t uid;
	const struct firewall_flow try[] = {{.proto = IPPROTO_TCP}, {.proto = IPPROTO_UDP}};
	for (int i = 0; i < 2; i++)
		if (td_firewall_sender(w.diag, &try[i], &uid) == FIREWALL_UNKNOWN) {
			fputs("tandem firewall: the kernel does not say whose sockets are (tcp_diag, udp_diag)\n",
			      stderr);
			return 1;
		}
	return serve(signals);
}
