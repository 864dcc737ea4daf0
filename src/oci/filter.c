// What a pod may send and take: one table of nf_tables in its network namespace, written through
// nfnetlink in one transaction, without the program `nft`. A packet meets the old table or the new one.
//
// The table is of the family inet and drops what it does not name, so IPv6 (of which pods have only
// what their interfaces give themselves) is dropped with it. Addresses that may do everything are a
// set, which is looked up once; the rest are rules of their own.
#include "oci/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TABLE "tandem"
enum {
	ELEMENTS = 1000,     // of a set, in one message: a nest is at most 64 KiB
	SEND_MAX = 16 << 20, // of one transaction
	SADDR_AT = 12,       // in an IPv4 header
	DADDR_AT = 16,
	DPORT_AT = 2, // in the headers of TCP, UDP and SCTP
	REG = NFT_REG_1,
};

// ---- messages: netlink attributes in a growing buffer; a nest is known by its offset ----
struct batch {
	struct td_buf b;
	uint32_t seq;
	size_t msg, list; // where the message, and its list of expressions, begins
};

static void pad(struct td_buf *b)
{
	while (b->len % NLA_ALIGNTO)
		td_buf_putc(b, '\0');
}

static void put(struct batch *x, int type, const void *p, size_t n)
{
	const struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = (uint16_t)type};
	td_buf_add(&x->b, (const char *)&a, sizeof(a));
	if (n)
		td_buf_add(&x->b, p, n);
	pad(&x->b);
}

static void put_str(struct batch *x, int type, const char *s)
{
	put(x, type, s, strlen(s) + 1);
}

static void put_u32(struct batch *x, int type, uint32_t v)
{
	v = htonl(v);
	put(x, type, &v, sizeof(v));
}

static size_t open_nest(struct batch *x, int type)
{
	size_t at = x->b.len;
	put(x, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void close_nest(struct batch *x, size_t at)
{
	((struct nlattr *)(void *)(x->b.s + at))->nla_len = (uint16_t)(x->b.len - at);
}

static void open_msg(struct batch *x, int type, int flags, int family, int res)
{
	const struct nlmsghdr h = {
		.nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags), .nlmsg_seq = ++x->seq};
	const struct nfgenmsg g = {(uint8_t)family, NFNETLINK_V0, htons((uint16_t)res)};
	x->msg = x->b.len;
	td_buf_add(&x->b, (const char *)&h, sizeof(h));
	td_buf_add(&x->b, (const char *)&g, sizeof(g));
}

static void close_msg(struct batch *x)
{
	((struct nlmsghdr *)(void *)(x->b.s + x->msg))->nlmsg_len = (uint32_t)(x->b.len - x->msg);
}

static void message(struct batch *x, int what, int flags)
{
	open_msg(x, NFNL_SUBSYS_NFTABLES << 8 | what, flags, NFPROTO_INET, 0);
}

// ---- expressions of a rule ----
static size_t open_expr(struct batch *x, const char *name, size_t *ret_data)
{
	size_t at = open_nest(x, NFTA_LIST_ELEM);
	put_str(x, NFTA_EXPR_NAME, name);
	*ret_data = open_nest(x, NFTA_EXPR_DATA);
	return at;
}

static void close_expr(struct batch *x, size_t at, size_t data)
{
	close_nest(x, data);
	close_nest(x, at);
}

static void value(struct batch *x, int type, const void *p, size_t n)
{
	size_t at = open_nest(x, type);
	put(x, NFTA_DATA_VALUE, p, n);
	close_nest(x, at);
}

static void load_meta(struct batch *x, uint32_t key)
{
	size_t data, at = open_expr(x, "meta", &data);
	put_u32(x, NFTA_META_DREG, REG);
	put_u32(x, NFTA_META_KEY, key);
	close_expr(x, at, data);
}

static void load_payload(struct batch *x, uint32_t base, uint32_t offset, uint32_t len)
{
	size_t data, at = open_expr(x, "payload", &data);
	put_u32(x, NFTA_PAYLOAD_DREG, REG);
	put_u32(x, NFTA_PAYLOAD_BASE, base);
	put_u32(x, NFTA_PAYLOAD_OFFSET, offset);
	put_u32(x, NFTA_PAYLOAD_LEN, len);
	close_expr(x, at, data);
}

static void compare(struct batch *x, uint32_t op, const void *p, size_t n)
{
	size_t data, at = open_expr(x, "cmp", &data);
	put_u32(x, NFTA_CMP_SREG, REG);
	put_u32(x, NFTA_CMP_OP, op);
	value(x, NFTA_CMP_DATA, p, n);
	close_expr(x, at, data);
}

static void mask(struct batch *x, uint32_t bits)
{
	const uint32_t none = 0;
	size_t data, at = open_expr(x, "bitwise", &data);
	put_u32(x, NFTA_BITWISE_SREG, REG);
	put_u32(x, NFTA_BITWISE_DREG, REG);
	put_u32(x, NFTA_BITWISE_LEN, sizeof(bits));
	value(x, NFTA_BITWISE_MASK, &bits, sizeof(bits));
	value(x, NFTA_BITWISE_XOR, &none, sizeof(none));
	close_expr(x, at, data);
}

static void open_rule(struct batch *x, const char *chain)
{
	message(x, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	put_str(x, NFTA_RULE_TABLE, TABLE);
	put_str(x, NFTA_RULE_CHAIN, chain);
	x->list = open_nest(x, NFTA_RULE_EXPRESSIONS);
}

static void accept_it(struct batch *x)
{
	size_t data, at = open_expr(x, "immediate", &data);
	put_u32(x, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	size_t d = open_nest(x, NFTA_IMMEDIATE_DATA), v = open_nest(x, NFTA_DATA_VERDICT);
	put_u32(x, NFTA_VERDICT_CODE, NF_ACCEPT);
	close_nest(x, v);
	close_nest(x, d);
	close_expr(x, at, data);
	close_nest(x, x->list);
	close_msg(x);
}

// ---- the table ----
struct side {
	const char *chain;
	uint32_t hook, iface, address; // which interface counts, and where the other one's address is
};

static void chain(struct batch *x, const struct side *s)
{
	message(x, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	put_str(x, NFTA_CHAIN_TABLE, TABLE);
	put_str(x, NFTA_CHAIN_NAME, s->chain);
	size_t hook = open_nest(x, NFTA_CHAIN_HOOK);
	put_u32(x, NFTA_HOOK_HOOKNUM, s->hook);
	put_u32(x, NFTA_HOOK_PRIORITY, 0);
	close_nest(x, hook);
	put_u32(x, NFTA_CHAIN_POLICY, NF_DROP);
	put_str(x, NFTA_CHAIN_TYPE, "filter");
	close_msg(x);

	// What the pod says to itself and over interfaces that somebody gave it besides its own, as planes of a fabric: a
	// policy is about the cluster's network. Then the packets of a connection that is there.
	const char own[IFNAMSIZ] = "eth0";
	open_rule(x, s->chain);
	load_meta(x, s->iface);
	compare(x, NFT_CMP_NEQ, own, sizeof(own));
	accept_it(x);

	const uint32_t none = 0;
	open_rule(x, s->chain);
	size_t data, at = open_expr(x, "ct", &data);
	put_u32(x, NFTA_CT_DREG, REG);
	put_u32(x, NFTA_CT_KEY, NFT_CT_STATE);
	close_expr(x, at, data);
	mask(x, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED));
	compare(x, NFT_CMP_NEQ, &none, sizeof(none));
	accept_it(x);
}

static void open_ipv4_rule(struct batch *x, const struct side *s)
{
	const uint8_t v4 = NFPROTO_IPV4;
	open_rule(x, s->chain);
	load_meta(x, NFT_META_NFPROTO);
	compare(x, NFT_CMP_EQ, &v4, sizeof(v4));
}

// Is it one address, which may do everything?
static bool whole(const struct td_net_allow *a)
{
	return a->prefix == 32 && !a->proto && !a->port;
}

static void set(struct batch *x, const struct side *s, const struct td_net_allow *v, size_t n)
{
	size_t any = 0;
	for (size_t i = 0; i < n; i++)
		any += whole(&v[i]);
	if (!any)
		return;
	message(x, NFT_MSG_NEWSET, NLM_F_CREATE);
	put_str(x, NFTA_SET_TABLE, TABLE);
	put_str(x, NFTA_SET_NAME, s->chain);
	put_u32(x, NFTA_SET_KEY_TYPE, 7); // ipv4_addr, for who lists the table
	put_u32(x, NFTA_SET_KEY_LEN, 4);
	put_u32(x, NFTA_SET_ID, s->hook + 1);
	close_msg(x);
	for (size_t i = 0; i < n;) {
		message(x, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
		put_str(x, NFTA_SET_ELEM_LIST_TABLE, TABLE);
		put_str(x, NFTA_SET_ELEM_LIST_SET, s->chain);
		size_t list = open_nest(x, NFTA_SET_ELEM_LIST_ELEMENTS);
		for (size_t k = 0; i < n && k < ELEMENTS; i++) {
			if (!whole(&v[i]))
				continue;
			size_t one = open_nest(x, NFTA_LIST_ELEM);
			value(x, NFTA_SET_ELEM_KEY, &v[i].addr, 4);
			close_nest(x, one);
			k++;
		}
		close_nest(x, list);
		close_msg(x);
	}
	open_ipv4_rule(x, s);
	load_payload(x, NFT_PAYLOAD_NETWORK_HEADER, s->address, 4);
	size_t data, at = open_expr(x, "lookup", &data);
	put_str(x, NFTA_LOOKUP_SET, s->chain);
	put_u32(x, NFTA_LOOKUP_SREG, REG);
	put_u32(x, NFTA_LOOKUP_SET_ID, s->hook + 1);
	close_expr(x, at, data);
	accept_it(x);
}

static void rule(struct batch *x, const struct side *s, const struct td_net_allow *a)
{
	open_ipv4_rule(x, s);
	if (a->prefix) {
		uint32_t bits = htonl(0xffffffffu << (32 - a->prefix)), net = a->addr & bits;
		load_payload(x, NFT_PAYLOAD_NETWORK_HEADER, s->address, 4);
		mask(x, bits);
		compare(x, NFT_CMP_EQ, &net, sizeof(net));
	}
	if (a->proto) {
		load_meta(x, NFT_META_L4PROTO);
		compare(x, NFT_CMP_EQ, &a->proto, sizeof(a->proto));
	}
	if (a->proto && a->port) {
		uint16_t first = htons(a->port), last = htons(a->last > a->port ? a->last : a->port);
		load_payload(x, NFT_PAYLOAD_TRANSPORT_HEADER, DPORT_AT, sizeof(first));
		compare(x, first == last ? NFT_CMP_EQ : NFT_CMP_GTE, &first, sizeof(first));
		if (first != last)
			compare(x, NFT_CMP_LTE, &last, sizeof(last));
	}
	accept_it(x);
}

static void side(struct batch *x, const struct side *s, const struct td_net_allow *v, size_t n)
{
	chain(x, s);
	set(x, s, v, n);
	for (size_t i = 0; i < n; i++)
		if (!whole(&v[i]))
			rule(x, s, &v[i]);
}

static void build(struct batch *x, const struct td_net_filter *f)
{
	static const struct side in = {"in", NF_INET_LOCAL_IN, NFT_META_IIFNAME, SADDR_AT},
				 out = {"out", NF_INET_LOCAL_OUT, NFT_META_OIFNAME, DADDR_AT};
	// Made first, so that there is one to be deleted.
	static const int tables[] = {NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE, NFT_MSG_NEWTABLE};
	open_msg(x, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	close_msg(x);
	for (size_t i = 0; i < (f->in || f->out ? 3 : 2); i++) {
		message(x, tables[i], tables[i] == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0);
		put_str(x, NFTA_TABLE_NAME, TABLE);
		close_msg(x);
	}
	if (f->in)
		side(x, &in, f->from, f->n_from);
	if (f->out)
		side(x, &out, f->to, f->n_to);
	// The last one is acknowledged, when all are done.
	((struct nlmsghdr *)(void *)(x->b.s + x->msg))->nlmsg_flags |= NLM_F_ACK;
	open_msg(x, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	close_msg(x);
}

// Sends the transaction and reads until its last message is acknowledged, or one is refused. Returns 0
// or an errno.
static int commit(int fd, const struct batch *x)
{
	const int room = SEND_MAX;
	const struct timeval t = {5, 0};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	if (sendto(fd, x->b.s, x->b.len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return errno;
	for (;;) {
		_Alignas(struct nlmsghdr) char buf[16384];
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		if (n < 0)
			return errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			int e = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			if (e || h->nlmsg_seq == x->seq - 1)
				return e;
		}
	}
}

// A kernel without nf_tables answers a transaction with EOPNOTSUPP.
static enum td_code code_of(int e)
{
	return e == EPERM ? TD_DENIED : e == EOPNOTSUPP ? TD_UNSUPPORTED : TD_INTERNAL;
}

int td_net_pod_filter(const char *netns, const struct td_net_filter *f, int *ret_fd, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = td_net_pod_open(netns, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER, &fd, err);
	if (r == TD_UNSUPPORTED)
		return td_wrap(err, "a filter (the kernel needs nf_tables)");
	if (r)
		return r;
	struct batch x = {0};
	build(&x, f);
	int e = commit(fd, &x);
	td_buf_done(&x.b);
	if (!e && ret_fd)
		*ret_fd = td_steal_fd(&fd);
	return e ? td_fail_errno(err, code_of(e), e,
				 "pod network %s: writing its filter (the kernel needs nf_tables with conntrack)",
				 netns)
		 : 0;
}
