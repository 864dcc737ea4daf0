// The firewall's rules: one table of nf_tables, written through nfnetlink in one transaction. As `nft list` would show it:
//
//   set flow4 { type ipv4_addr . inet_service . ipv4_addr . inet_service; size 262144; timeout }  # they, their port; we, ours
//   set flow6 { the same of ipv6_addr }
//   set theirs4, theirs6 { the same }  # flows that they began
//   chain in { type filter hook input priority 10  # after policies of this network: who is none of its gets no word of ours
//     meta mark NO meta l4proto tcp reject with tcp reset
//     meta mark NO reject with icmpx port-unreachable
//     meta mark OK meta l4proto udp meta nfproto ipv4 update @flow4 { ip saddr . udp sport . ip daddr . udp dport timeout 10s }
//     … the same of @theirs4, with 180s, and ipv6
//     meta mark OK accept
//     meta l4proto tcp tcp flags & (syn | ack | rst) != syn accept
//     meta l4proto tcp tcp dport { 22, 6818, 7413 } accept  # one rule for each
//     meta l4proto tcp queue
//     meta l4proto { sctp, dccp, udplite } drop             # one rule for each
//     meta l4proto != udp accept
//     udp dport 6821 queue                                  # the firewalls' own words
//     meta nfproto ipv4 ip saddr . udp sport . ip daddr . udp dport @flow4 accept
//     … and ipv6
//     meta l4proto udp queue
//   }
//   chain out { type filter hook output priority 10         # answers to what a user sends are let in
//     meta l4proto udp udp dport 6821 meta skuid != 0 drop
//     meta l4proto udp meta nfproto ipv4 ip daddr . udp dport . ip saddr . udp sport @theirs4 accept
//     meta l4proto udp meta skuid != 0 meta nfproto ipv4 update @flow4 { ip daddr . udp dport . ip saddr . udp sport timeout 30s }
//     … and ipv6
//   }
//
// Our address is in the key: who has a port at one address of the node opens nothing of who has it at another. What is
// answered to a flow that others began does not prolong it: the port there may be another user's by now.
//
// Connections of TCP are not tracked (conntrack): a node of a large job has very many.
#include "standin/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define TABLE "tandem-firewall"
enum {
	BATCH_MAX = 32768,
	FLOWS = 262144,
	PRIORITY = 10,
	TYPE4 = 7 << 18 | 13 << 12 | 7 << 6 | 13, // for who lists the table: ipv4_addr . inet_service, twice
	TYPE6 = 8 << 18 | 13 << 12 | 8 << 6 | 13,
	JUDGED_MS = 10000,
	ANSWERS_MS = 30000,
	THEIRS_MS = 180000,
	SYN = 2,
	SYN_ACK_RST = 2 | 16 | 4,
	REG = NFT_REG32_00,
};
static const uint16_t open_ports[] = {22, 6818,
				      7413}; // sshd, slurmd, `peer`: they work while this program does not run

struct rules_batch {
	uint8_t b[BATCH_MAX];
	size_t n, msg, list;
	uint32_t seq;
	bool full;
};

static void add(struct rules_batch *x, const void *p, size_t n)
{
	size_t padded = NLA_ALIGN(n);
	if (x->full || sizeof(x->b) - x->n < padded) {
		x->full = true;
		return;
	}
	memset(x->b + x->n, 0, padded);
	if (n)
		memcpy(x->b + x->n, p, n);
	x->n += padded;
}

static void put(struct rules_batch *x, int type, const void *p, size_t n)
{
	const struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = (uint16_t)type};
	add(x, &a, sizeof(a));
	add(x, p, n);
}

static void put_str(struct rules_batch *x, int type, const char *s)
{
	put(x, type, s, strlen(s) + 1);
}

static void put_u32(struct rules_batch *x, int type, uint32_t v)
{
	v = htonl(v);
	put(x, type, &v, sizeof(v));
}

static size_t open_nest(struct rules_batch *x, int type)
{
	size_t at = x->n;
	put(x, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void close_nest(struct rules_batch *x, size_t at)
{
	if (!x->full)
		((struct nlattr *)(void *)(x->b + at))->nla_len = (uint16_t)(x->n - at);
}

static void open_msg(struct rules_batch *x, int type, int flags, int family, int res)
{
	const struct nlmsghdr h = {
		.nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags), .nlmsg_seq = ++x->seq};
	const struct nfgenmsg g = {(uint8_t)family, NFNETLINK_V0, htons((uint16_t)res)};
	x->msg = x->n;
	add(x, &h, sizeof(h));
	add(x, &g, sizeof(g));
}

static void close_msg(struct rules_batch *x)
{
	if (!x->full)
		((struct nlmsghdr *)(void *)(x->b + x->msg))->nlmsg_len = (uint32_t)(x->n - x->msg);
}

static void message(struct rules_batch *x, int what, int flags)
{
	open_msg(x, NFNL_SUBSYS_NFTABLES << 8 | what, flags, NFPROTO_INET, 0);
}

// ---- expressions ----
struct rules_expr {
	size_t at, data;
};

static struct rules_expr open_expr(struct rules_batch *x, const char *name)
{
	struct rules_expr e = {.at = open_nest(x, NFTA_LIST_ELEM)};
	put_str(x, NFTA_EXPR_NAME, name);
	e.data = open_nest(x, NFTA_EXPR_DATA);
	return e;
}

static void close_expr(struct rules_batch *x, struct rules_expr e)
{
	close_nest(x, e.data);
	close_nest(x, e.at);
}

static void value(struct rules_batch *x, int type, const void *p, size_t n)
{
	size_t at = open_nest(x, type);
	put(x, NFTA_DATA_VALUE, p, n);
	close_nest(x, at);
}

static void compare(struct rules_batch *x, uint32_t op, const void *p, size_t n)
{
	struct rules_expr e = open_expr(x, "cmp");
	put_u32(x, NFTA_CMP_SREG, REG);
	put_u32(x, NFTA_CMP_OP, op);
	value(x, NFTA_CMP_DATA, p, n);
	close_expr(x, e);
}

static void meta(struct rules_batch *x, uint32_t key, uint32_t op, const void *p, size_t n)
{
	struct rules_expr e = open_expr(x, "meta");
	put_u32(x, NFTA_META_DREG, REG);
	put_u32(x, NFTA_META_KEY, key);
	close_expr(x, e);
	compare(x, op, p, n);
}

static void l4(struct rules_batch *x, uint32_t op, uint8_t proto)
{
	meta(x, NFT_META_L4PROTO, op, &proto, sizeof(proto));
}

static void l3(struct rules_batch *x, uint8_t family)
{
	meta(x, NFT_META_NFPROTO, NFT_CMP_EQ, &family, sizeof(family));
}

static void marked(struct rules_batch *x, uint32_t mark)
{
	meta(x, NFT_META_MARK, NFT_CMP_EQ, &mark, sizeof(mark));
}

static void load(struct rules_batch *x, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
	struct rules_expr e = open_expr(x, "payload");
	put_u32(x, NFTA_PAYLOAD_DREG, reg);
	put_u32(x, NFTA_PAYLOAD_BASE, base);
	put_u32(x, NFTA_PAYLOAD_OFFSET, offset);
	put_u32(x, NFTA_PAYLOAD_LEN, len);
	close_expr(x, e);
}

static void to_port(struct rules_batch *x, uint16_t port)
{
	port = htons(port);
	load(x, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, REG);
	compare(x, NFT_CMP_EQ, &port, sizeof(port));
}

static void by_user(struct rules_batch *x)
{
	const uint32_t root = 0;
	meta(x, NFT_META_SKUID, NFT_CMP_NEQ, &root, sizeof(root));
}

static void verdict(struct rules_batch *x, uint32_t code)
{
	struct rules_expr e = open_expr(x, "immediate");
	put_u32(x, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	size_t d = open_nest(x, NFTA_IMMEDIATE_DATA), v = open_nest(x, NFTA_DATA_VERDICT);
	put_u32(x, NFTA_VERDICT_CODE, code);
	close_nest(x, v);
	close_nest(x, d);
	close_expr(x, e);
}

static void reject(struct rules_batch *x, uint32_t type, uint8_t code)
{
	struct rules_expr e = open_expr(x, "reject");
	put_u32(x, NFTA_REJECT_TYPE, type);
	put(x, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	close_expr(x, e);
}

// compat: by the target NFQUEUE of x_tables, for kernels without nf_tables' own.
static void queue(struct rules_batch *x, bool compat)
{
	uint16_t number = FIREWALL_QUEUE;
	struct rules_expr e = open_expr(x, compat ? "target" : "queue");
	if (compat) {
		const uint64_t info = number; // struct xt_NFQ_info, aligned
		uint8_t bytes[sizeof(info)] = {0};
		memcpy(bytes, &number, sizeof(number));
		put_str(x, NFTA_TARGET_NAME, "NFQUEUE");
		put_u32(x, NFTA_TARGET_REV, 0);
		put(x, NFTA_TARGET_INFO, bytes, sizeof(bytes));
	} else {
		number = htons(number);
		put(x, NFTA_QUEUE_NUM, &number, sizeof(number));
	}
	close_expr(x, e);
}

// ---- the table ----
struct rules_set {
	const char *name;
	uint32_t id;
};
struct family {
	uint8_t proto;
	struct rules_set flow, theirs;
	uint32_t from, to, len; // where its addresses are in the header
};
static const struct family families[] = {{NFPROTO_IPV4, {"flow4", 1}, {"theirs4", 3}, 12, 16, 4},
					 {NFPROTO_IPV6, {"flow6", 2}, {"theirs6", 4}, 8, 24, 16}};

// Loads who the other one is, his port, our address and port.
static void load_flow(struct rules_batch *x, const struct family *f, bool out)
{
	uint32_t reg = REG + f->len / 4;
	load(x, NFT_PAYLOAD_NETWORK_HEADER, out ? f->to : f->from, f->len, REG);
	load(x, NFT_PAYLOAD_TRANSPORT_HEADER, out ? 2 : 0, 2, reg);
	load(x, NFT_PAYLOAD_NETWORK_HEADER, out ? f->from : f->to, f->len, reg + 1);
	load(x, NFT_PAYLOAD_TRANSPORT_HEADER, out ? 0 : 2, 2, reg + 1 + f->len / 4);
}

static void update(struct rules_batch *x, const struct rules_set *s, uint64_t ms)
{
	struct rules_expr e = open_expr(x, "dynset");
	ms = (uint64_t)htonl((uint32_t)ms) << 32; // big-endian; it is less than 2^32
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	ms >>= 32;
#endif
	put_str(x, NFTA_DYNSET_SET_NAME, s->name);
	put_u32(x, NFTA_DYNSET_SET_ID, s->id);
	put_u32(x, NFTA_DYNSET_OP, NFT_DYNSET_OP_UPDATE);
	put_u32(x, NFTA_DYNSET_SREG_KEY, REG);
	put(x, NFTA_DYNSET_TIMEOUT, &ms, sizeof(ms));
	close_expr(x, e);
}

static void lookup(struct rules_batch *x, const struct rules_set *s)
{
	struct rules_expr e = open_expr(x, "lookup");
	put_str(x, NFTA_LOOKUP_SET, s->name);
	put_u32(x, NFTA_LOOKUP_SREG, REG);
	put_u32(x, NFTA_LOOKUP_SET_ID, s->id);
	close_expr(x, e);
}

static void set(struct rules_batch *x, const struct family *f, const struct rules_set *s)
{
	message(x, NFT_MSG_NEWSET, NLM_F_CREATE);
	put_str(x, NFTA_SET_TABLE, TABLE);
	put_str(x, NFTA_SET_NAME, s->name);
	put_u32(x, NFTA_SET_FLAGS, NFT_SET_TIMEOUT | NFT_SET_EVAL);
	put_u32(x, NFTA_SET_KEY_TYPE, f->len == 4 ? TYPE4 : TYPE6);
	put_u32(x, NFTA_SET_KEY_LEN, 2 * f->len + 8);
	put_u32(x, NFTA_SET_ID, s->id);
	size_t d = open_nest(x, NFTA_SET_DESC);
	put_u32(x, NFTA_SET_DESC_SIZE, FLOWS);
	close_nest(x, d);
	close_msg(x);
}

static void chain(struct rules_batch *x, const char *name, uint32_t hook)
{
	message(x, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_str(x, NFTA_CHAIN_TABLE, TABLE);
	put_str(x, NFTA_CHAIN_NAME, name);
	size_t h = open_nest(x, NFTA_CHAIN_HOOK);
	put_u32(x, NFTA_HOOK_HOOKNUM, hook);
	put_u32(x, NFTA_HOOK_PRIORITY, PRIORITY);
	close_nest(x, h);
	put_u32(x, NFTA_CHAIN_POLICY, NF_ACCEPT);
	put_str(x, NFTA_CHAIN_TYPE, "filter");
	close_msg(x);
}

static void open_rule(struct rules_batch *x, const char *chain)
{
	message(x, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	put_str(x, NFTA_RULE_TABLE, TABLE);
	put_str(x, NFTA_RULE_CHAIN, chain);
	x->list = open_nest(x, NFTA_RULE_EXPRESSIONS);
}

static void close_rule(struct rules_batch *x)
{
	close_nest(x, x->list);
	close_msg(x);
}

static void judged(struct rules_batch *x)
{
	open_rule(x, "in");
	marked(x, FIREWALL_NO);
	l4(x, NFT_CMP_EQ, IPPROTO_TCP);
	reject(x, NFT_REJECT_TCP_RST, 0);
	close_rule(x);
	open_rule(x, "in");
	marked(x, FIREWALL_NO);
	reject(x, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
	close_rule(x);
	for (size_t i = 0; i < 2; i++) {
		open_rule(x, "in");
		marked(x, FIREWALL_OK);
		l4(x, NFT_CMP_EQ, IPPROTO_UDP);
		l3(x, families[i].proto);
		load_flow(x, &families[i], false);
		update(x, &families[i].flow, JUDGED_MS);
		update(x, &families[i].theirs, THEIRS_MS);
		close_rule(x);
	}
	open_rule(x, "in");
	marked(x, FIREWALL_OK);
	verdict(x, NF_ACCEPT);
	close_rule(x);
}

static void tcp(struct rules_batch *x, bool compat)
{
	const uint8_t flags = SYN_ACK_RST, none = 0, syn = SYN;
	open_rule(x, "in");
	l4(x, NFT_CMP_EQ, IPPROTO_TCP);
	load(x, NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1, REG);
	struct rules_expr e = open_expr(x, "bitwise");
	put_u32(x, NFTA_BITWISE_SREG, REG);
	put_u32(x, NFTA_BITWISE_DREG, REG);
	put_u32(x, NFTA_BITWISE_LEN, 1);
	value(x, NFTA_BITWISE_MASK, &flags, 1);
	value(x, NFTA_BITWISE_XOR, &none, 1);
	close_expr(x, e);
	compare(x, NFT_CMP_NEQ, &syn, 1);
	verdict(x, NF_ACCEPT);
	close_rule(x);
	for (size_t i = 0; i < sizeof(open_ports) / sizeof(*open_ports); i++) {
		open_rule(x, "in");
		l4(x, NFT_CMP_EQ, IPPROTO_TCP);
		to_port(x, open_ports[i]);
		verdict(x, NF_ACCEPT);
		close_rule(x);
	}
	open_rule(x, "in");
	l4(x, NFT_CMP_EQ, IPPROTO_TCP);
	queue(x, compat);
	close_rule(x);
}

static void udp(struct rules_batch *x, bool compat)
{
	static const uint8_t others[] = {IPPROTO_SCTP, IPPROTO_DCCP, IPPROTO_UDPLITE};
	for (size_t i = 0; i < sizeof(others); i++) {
		open_rule(x, "in");
		l4(x, NFT_CMP_EQ, others[i]);
		verdict(x, NF_DROP);
		close_rule(x);
	}
	open_rule(x, "in");
	l4(x, NFT_CMP_NEQ, IPPROTO_UDP);
	verdict(x, NF_ACCEPT);
	close_rule(x);
	open_rule(x, "in");
	l4(x, NFT_CMP_EQ, IPPROTO_UDP);
	to_port(x, FIREWALL_PORT);
	queue(x, compat);
	close_rule(x);
	for (size_t i = 0; i < 2; i++) {
		open_rule(x, "in");
		l3(x, families[i].proto);
		load_flow(x, &families[i], false);
		lookup(x, &families[i].flow);
		verdict(x, NF_ACCEPT);
		close_rule(x);
	}
	open_rule(x, "in");
	l4(x, NFT_CMP_EQ, IPPROTO_UDP);
	queue(x, compat);
	close_rule(x);
}

static void out(struct rules_batch *x)
{
	chain(x, "out", NF_INET_LOCAL_OUT);
	open_rule(x, "out");
	l4(x, NFT_CMP_EQ, IPPROTO_UDP);
	to_port(x, FIREWALL_PORT);
	by_user(x);
	verdict(x, NF_DROP);
	close_rule(x);
	for (size_t i = 0; i < 2; i++) {
		open_rule(x, "out");
		l4(x, NFT_CMP_EQ, IPPROTO_UDP);
		l3(x, families[i].proto);
		load_flow(x, &families[i], true);
		lookup(x, &families[i].theirs);
		verdict(x, NF_ACCEPT);
		close_rule(x);
		open_rule(x, "out");
		l4(x, NFT_CMP_EQ, IPPROTO_UDP);
		by_user(x);
		l3(x, families[i].proto);
		load_flow(x, &families[i], true);
		update(x, &families[i].flow, ANSWERS_MS);
		close_rule(x);
	}
}

static void build(struct rules_batch *x, bool compat)
{
	x->n = 0;
	x->seq = 0;
	open_msg(x, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	close_msg(x);
	message(x, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL); // one that is there fails all that follows
	put_str(x, NFTA_TABLE_NAME, TABLE);
	close_msg(x);
	for (size_t i = 0; i < 2; i++) {
		set(x, &families[i], &families[i].flow);
		set(x, &families[i], &families[i].theirs);
	}
	chain(x, "in", NF_INET_LOCAL_IN);
	judged(x);
	tcp(x, compat);
	udp(x, compat);
	out(x);
	// The last one is acknowledged, when all are done.
	((struct nlmsghdr *)(void *)(x->b + x->msg))->nlmsg_flags |= NLM_F_ACK;
	open_msg(x, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	close_msg(x);
}

// Sends the transaction and reads until its last message is acknowledged, or one is refused.
static int commit(const struct rules_batch *x)
{
	const struct timeval t = {5, 0};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER), e = -1;
	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	if (x->full)
		e = ENOBUFS;
	else if (sendto(fd, x->b, x->n, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		e = errno;
	while (e < 0) {
		_Alignas(struct nlmsghdr) char buf[16384];
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0) {
			e = errno;
			break;
		}
		for (struct nlmsghdr *h = (void *)buf; e < 0 && NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			int r = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (r || h->nlmsg_seq == x->seq - 1)
				e = r;
		}
	}
	close(fd);
	return e;
}

int td_firewall_rules(void)
{
	static struct rules_batch x;
	int e = 0;
	for (int compat = 0; compat < 2; compat++) {
		build(&x, compat);
		e = commit(&x);
		if (e != ENOENT) // this kernel knows an expression by no such name
			break;
	}
	return e == EEXIST ? 0 : e;
}
