// The pod switch and the network namespaces of pods, through rtnetlink: 0.8 ms per pod, without the
// program `ip`. Pods reach each other and the address of the switch, and nothing else: there is no
// forwarding and no NAT.
//
// A namespace is made in a thread of its own, which then ends: the caller's thread never changes
// its namespace. The order of the steps is safe for crashes: the name under /run/netns comes first,
// so that whatever exists can be found by its name.
#include "oci/internal.h"

#include "base/hash.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define NETNS_DIR "/run/netns"
enum { NET_NAME_MAX = 100 };

// ---- netlink messages ----
struct nl_msg {
	struct nlmsghdr h;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg addr;
		struct rtmsg route;
	};
	char space[512];
};

static void msg_init(struct nl_msg *m, int type, int flags, size_t body)
{
	memset(m, 0, sizeof(*m));
	m->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
	m->h.nlmsg_type = (uint16_t)type;
	m->h.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
}

static struct rtattr *attr(struct nl_msg *m, int type, const void *p, size_t n)
{
	struct rtattr *a = (struct rtattr *)((char *)m + NLMSG_ALIGN(m->h.nlmsg_len));
	a->rta_type = (unsigned short)type;
	a->rta_len = (unsigned short)RTA_LENGTH(n);
	if (n && p)
		memcpy(RTA_DATA(a), p, n);
	m->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(m->h.nlmsg_len) + RTA_ALIGN(a->rta_len));

	// No check against sizeof(space): messages are far below it, because names have at most
	// IFNAMSIZ bytes.
	return a;
}

static void attr_end(struct nl_msg *m, struct rtattr *nest)
{
	nest->rta_len = (unsigned short)((char *)m + m->h.nlmsg_len - (char *)nest);
}

static void attr_str(struct nl_msg *m, int type, const char *s)
{
	attr(m, type, s, strlen(s) + 1);
}

static int nl_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct timeval t = {5, 0}; // the kernel answers within the call; never hang
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return fd;
}

// Sends one request and reads its acknowledgement. Returns 0 or an errno.
static int nl_call(int fd, struct nl_msg *m)
{
	if (send(fd, m, m->h.nlmsg_len, 0) < 0)
		return errno;
	char buf[8192];
	ssize_t n = recv(fd, buf, sizeof(buf), 0);
	if (n < 0)
		return errno;
	struct nlmsghdr *h = (struct nlmsghdr *)buf;
	if (!NLMSG_OK(h, (size_t)n) || h->nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -((struct nlmsgerr *)NLMSG_DATA(h))->error;
}

// ---- parts ----
static int link_delete(int fd, const char *name)
{
	struct nl_msg m;
	msg_init(&m, RTM_DELLINK, 0, sizeof(m.link));
	attr_str(&m, IFLA_IFNAME, name);
	int e = nl_call(fd, &m);
	return e == ENODEV ? 0 : e;
}

static int link_up(int fd, unsigned index, const uint8_t mac[6])
{
	struct nl_msg m;
	msg_init(&m, RTM_NEWLINK, 0, sizeof(m.link));
	m.link.ifi_index = (int)index;
	m.link.ifi_flags = m.link.ifi_change = IFF_UP;
	if (mac)
		attr(&m, IFLA_ADDRESS, mac, 6);
	return nl_call(fd, &m);
}

static int addr_add(int fd, unsigned index, struct in_addr a, int prefix)
{
	struct nl_msg m;
	msg_init(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, sizeof(m.addr));
	m.addr.ifa_family = AF_INET;
	m.addr.ifa_prefixlen = (uint8_t)prefix;
	m.addr.ifa_index = index;
	uint32_t b = a.s_addr | htonl(prefix >= 32 ? 0 : 0xffffffffu >> prefix);
	attr(&m, IFA_LOCAL, &a, 4);
	attr(&m, IFA_ADDRESS, &a, 4);
	attr(&m, IFA_BROADCAST, &b, 4);
	return nl_call(fd, &m);
}

static int route_default(int fd, unsigned index, struct in_addr gw)
{
	struct nl_msg m;
	msg_init(&m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(m.route));
	m.route.rtm_family = AF_INET;
	m.route.rtm_table = RT_TABLE_MAIN;
	m.route.rtm_protocol = RTPROT_BOOT;
	m.route.rtm_scope = RT_SCOPE_UNIVERSE;
	m.route.rtm_type = RTN_UNICAST;
	attr(&m, RTA_GATEWAY, &gw, 4);
	attr(&m, RTA_OIF, &index, 4);
	return nl_call(fd, &m);
}

static bool name_ok(const char *s)
{
	return s && *s && *s != '.' && strlen(s) <= NET_NAME_MAX && !strchr(s, '/');
}

static int parse_v4(const char *what, const char *s, struct in_addr *ret, struct td_error *err)
{
	return inet_pton(AF_INET, s ? s : "", ret) == 1
		       ? 0
		       : td_fail(err, TD_INVALID, "%s \"%s\" is not an IPv4 address", what, s ? s : "");
}

// ---- the switch ----
int td_net_switch_ensure(const char *name, const char *cidr, struct td_error *err)
{
	if (!name_ok(name) || strlen(name) >= IFNAMSIZ)
		return td_fail(err, TD_INVALID, "switch name \"%s\" is not an interface name of at most 15 characters",
			       name ? name : "");

	td_auto_free char *addr = td_strdup(cidr ? cidr : "");
	char *slash = strchr(addr, '/');
	long long prefix = 0;
	if (slash)
		*slash = '\0';
	struct in_addr a;
	int r = parse_v4("switch address", addr, &a, err);
	if (r)
		return r;

	if (!slash || !td_parse_i64(slash + 1, &prefix) || prefix < 8 || prefix > 30)
		return td_fail(err, TD_INVALID, "switch address \"%s\" is not ADDRESS/PREFIX with a prefix of 8 to 30",
			       cidr);

	td_auto_close int fd = nl_open();
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "netlink socket");

	// A fixed MAC address: without one, the bridge takes the lowest address of its ports, which
	// changes as ports come and go.
	uint64_t h = td_hash_str(TD_HASH, name);
	uint8_t mac[6] = {0x02, 0x74, (uint8_t)(h >> 24), (uint8_t)(h >> 16), (uint8_t)(h >> 8), (uint8_t)h};

	struct nl_msg m;
	msg_init(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(m.link));
	attr_str(&m, IFLA_IFNAME, name);
	attr(&m, IFLA_ADDRESS, mac, 6);
	struct rtattr *info = attr(&m, IFLA_LINKINFO, NULL, 0);
	attr(&m, IFLA_INFO_KIND, "bridge", 6);
	attr_end(&m, info);

	int e = nl_call(fd, &m);
	if (e && e != EEXIST)
		return td_fail_errno(err, e == EPERM ? TD_DENIED : TD_INTERNAL, e, "create the pod switch %s", name);

	td_auto_free char *sys = td_asprintf("/sys/class/net/%s/bridge", name);
	if (e == EEXIST && access(sys, F_OK) < 0 && access("/sys/class/net", F_OK) == 0)
		return td_fail(err, TD_CONFLICT,
			       "the pod switch %s: an interface of that name exists and is not a bridge", name);

	unsigned index = if_nametoindex(name);
	if (!(e = addr_add(fd, index, a, (int)prefix)))
		e = link_up(fd, index, mac);
	return e ? td_fail_errno(err, TD_INTERNAL, e, "set up the pod switch %s with %s", name, cidr) : 0;
}

int td_net_switch_delete(const char *name, struct td_error *err)
{
	if (!name_ok(name) || strlen(name) >= IFNAMSIZ)
		return td_fail(err, TD_INVALID, "switch name \"%s\" is not an interface name", name ? name : "");
	td_auto_close int fd = nl_open();
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "netlink socket");
	int e = link_delete(fd, name);
	return e ? td_fail_errno(err, e == EPERM ? TD_DENIED : TD_INTERNAL, e, "delete the pod switch %s", name) : 0;
}

// ---- pods ----

// "tv", 4 characters of the home's id and 9 digits of the name's hash: 15 bytes, the longest that
// an interface name may be.
static void veth_name(const char *netns, char out[IFNAMSIZ])
{
	const char *s = td_starts(netns, "td") ? netns + 2 : netns;
	char id[5] = "0000";
	for (int i = 0; i < 4 && ((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'z')); i++)
		id[i] = s[i];
	snprintf(out, IFNAMSIZ, "tv%s%09llx", id, (unsigned long long)(td_hash_str(TD_HASH, netns) >> 28));
}

// Makes /run/netns a shared mount of itself, as iproute2 does, so that every mount namespace sees
// the names and can remove them.
static int netns_dir(struct td_error *err)
{
	if (mkdir(NETNS_DIR, 0755) < 0 && errno != EEXIST)
		return td_fail_errno(err, TD_INTERNAL, errno, "create " NETNS_DIR);

	if (mount("", NETNS_DIR, NULL, MS_SHARED | MS_REC, NULL) == 0)
		return 0;
	if (errno != EINVAL)
		return td_fail_errno(err, errno == EPERM ? TD_DENIED : TD_INTERNAL, errno, "share " NETNS_DIR);

	// Guards against two threads that mount at the same time.
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&once);
	int e = 0;
	if (mount("", NETNS_DIR, NULL, MS_SHARED | MS_REC, NULL) < 0 &&
	    (mount(NETNS_DIR, NETNS_DIR, NULL, MS_BIND | MS_REC, NULL) < 0 ||
	     mount("", NETNS_DIR, NULL, MS_SHARED | MS_REC, NULL) < 0))
		e = errno;
	pthread_mutex_unlock(&once);
	return e ? td_fail_errno(err, TD_INTERNAL, e, "share " NETNS_DIR) : 0;
}

struct pod_net {
	const char *path;
	char veth[IFNAMSIZ];
	int host_fd;
	unsigned switch_index;
	struct in_addr addr, gw;
	int prefix;
	bool has_gw;
	int own; // a network namespace that is there already; -1: make one
	int e;   // errno of the step that failed
	const char *step;
};

static bool step(struct pod_net *p, const char *what, int e)
{
	p->step = what;
	p->e = e;
	return e != 0;
}

static void sysctl_set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = write(fd, value, strlen(value));
	// A kernel without the setting is fine: nothing depends on it.
	(void)n;
	close(fd);
}

static void *pod_thread(void *arg)
{
	struct pod_net *p = arg;
	if (p->own >= 0 ? step(p, "enter the network", setns(p->own, CLONE_NEWNET) < 0 ? errno : 0)
			: step(p, "unshare the network", unshare(CLONE_NEWNET) < 0 ? errno : 0))
		return NULL;

	td_auto_close int ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (step(p, "open the namespace", ns < 0 ? errno : 0))
		return NULL;

	td_auto_close int f = open(p->path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (step(p, "create the name", f < 0 ? errno : 0) ||
	    step(p, "name the namespace",
		 mount("/proc/thread-self/ns/net", p->path, NULL, MS_BIND, NULL) < 0 ? errno : 0))
		return NULL;

	struct nl_msg m;
	msg_init(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(m.link));
	m.link.ifi_flags = m.link.ifi_change = IFF_UP;
	attr_str(&m, IFLA_IFNAME, p->veth);
	attr(&m, IFLA_MASTER, &p->switch_index, 4);

	struct rtattr *info = attr(&m, IFLA_LINKINFO, NULL, 0);
	attr(&m, IFLA_INFO_KIND, "veth", 4);
	struct rtattr *data = attr(&m, IFLA_INFO_DATA, NULL, 0);
	struct ifinfomsg none = {0};
	struct rtattr *peer = attr(&m, VETH_INFO_PEER, &none, sizeof(none));
	attr_str(&m, IFLA_IFNAME, "eth0");
	attr(&m, IFLA_NET_NS_FD, &ns, 4);
	attr_end(&m, peer);
	attr_end(&m, data);
	attr_end(&m, info);

	if (step(p, "create the pair of interfaces", nl_call(p->host_fd, &m)))
		return NULL;

	// As in containerd: all ports of a pod are its own, also those below 1024.
	sysctl_set("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	// Numbers of the machine, by who writes them, also where the pod has a user namespace: so all.
	sysctl_set("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");

	td_auto_close int fd = nl_open();
	if (step(p, "netlink socket inside", fd < 0 ? errno : 0))
		return NULL;

	unsigned eth = if_nametoindex("eth0"), lo = if_nametoindex("lo");
	if (step(p, "bring lo up", link_up(fd, lo, NULL)) ||
	    step(p, "set the address", addr_add(fd, eth, p->addr, p->prefix)) ||
	    step(p, "bring eth0 up", link_up(fd, eth, NULL)))
		return NULL;
	if (p->has_gw)
		step(p, "set the default route", route_default(fd, eth, p->gw));
	return NULL;
}

int td_net_pod_add(const char *netns, const struct td_net_pod *o, struct td_error *err)
{
	if (!name_ok(netns))
		return td_fail(err, TD_INVALID, "network namespace name \"%s\" is not a plain file name",
			       netns ? netns : "");

	struct pod_net p = {.prefix = o->prefix, .has_gw = o->gw && *o->gw, .own = -1};
	int r;
	if ((r = parse_v4("pod address", o->addr, &p.addr, err)) ||
	    (p.has_gw && (r = parse_v4("gateway", o->gw, &p.gw, err))))
		return r;

	if (p.prefix < 1 || p.prefix > 32)
		return td_fail(err, TD_INVALID, "pod address %s: prefix %d is not 1 to 32", o->addr, p.prefix);
	if ((r = td_net_pod_delete(netns, err)) || (r = netns_dir(err)))
		return r;

	p.switch_index = if_nametoindex(o->switch_name);
	if (!p.switch_index)
		return td_fail(err, TD_NOT_FOUND, "pod network %s: the switch %s does not exist", netns,
			       o->switch_name);

	td_auto_free char *path = td_asprintf(NETNS_DIR "/%s", netns);
	p.path = path;
	veth_name(netns, p.veth);

	td_auto_close int fd = nl_open();
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "netlink socket");
	p.host_fd = fd;

	td_auto_close int own = -1;
	if (o->users && (r = td_users_network(o->users, &own, err)))
		return td_wrap(err, "pod network %s", netns);
	p.own = own;

	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_t t;
	int e = pthread_create(&t, NULL, pod_thread, &p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	if (e)
		return td_fail_errno(err, TD_INTERNAL, e, "pod network %s: thread", netns);

	pthread_join(t, NULL);
	if (!p.e)
		return 0;
	td_net_pod_delete(netns, NULL);
	return td_fail_errno(err, p.e == EPERM ? TD_DENIED : TD_INTERNAL, p.e, "pod network %s: %s", netns, p.step);
}

int td_net_pod_delete(const char *netns, struct td_error *err)
{
	if (!name_ok(netns))
		return td_fail(err, TD_INVALID, "network namespace name \"%s\" is not a plain file name",
			       netns ? netns : "");

	td_auto_free char *path = td_asprintf(NETNS_DIR "/%s", netns);
	td_auto_close int fd = nl_open();
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "netlink socket");

	char veth[IFNAMSIZ];
	veth_name(netns, veth);
	// Deleted by hand, because the kernel tears a namespace down later, in the background.
	int e = link_delete(fd, veth);
	if (e)
		return td_fail_errno(err, e == EPERM ? TD_DENIED : TD_INTERNAL, e,
				     "delete interface %s of pod network %s", veth, netns);

	while (umount2(path, MNT_DETACH) == 0)
		;
	if (unlink(path) < 0 && errno != ENOENT)
		return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", path);
	return 0;
}

struct inside {
	int ns, family, type, protocol, fd, e;
};

static void *socket_inside(void *arg)
{
	struct inside *i = arg;
	if (i->ns < 0 || setns(i->ns, CLONE_NEWNET) == 0)
		i->fd = socket(i->family, i->type, i->protocol);
	i->e = i->fd < 0 ? errno : 0;
	return NULL;
}

int td_net_pod_open(const char *netns, int family, int type, int protocol, int *ret_fd, struct td_error *err)
{
	struct inside i = {.ns = -1, .family = family, .type = type, .protocol = protocol, .fd = -1};
	if (netns && !name_ok(netns))
		return td_fail(err, TD_INVALID, "network namespace name \"%s\" is not a plain file name", netns);

	td_auto_free char *path = netns ? td_asprintf(NETNS_DIR "/%s", netns) : NULL;
	td_auto_close int ns = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (path && ns < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, errno, "pod network %s", netns);

	i.ns = ns;
	pthread_t t;
	int e = pthread_create(&t, NULL, socket_inside, &i);
	if (e)
		return td_fail_errno(err, TD_INTERNAL, e, "pod network %s: thread", netns ? netns : "");
	pthread_join(t, NULL);

	if (i.fd < 0)
		return td_fail_errno(err, i.e == EPROTONOSUPPORT || i.e == EAFNOSUPPORT ? TD_UNSUPPORTED : TD_INTERNAL,
				     i.e, "socket in pod network %s", netns ? netns : "");
	*ret_fd = i.fd;
	return 0;
}

int td_net_pod_socket(const char *netns, int *ret_fd, struct td_error *err)
{
	return td_net_pod_open(netns, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fd, err);
}

int td_net_list(const char *prefix, struct td_strv *ret, struct td_error *err)
{
	DIR *d = opendir(NETNS_DIR);
	if (!d)
		return errno == ENOENT ? 0 : td_fail_errno(err, TD_INTERNAL, errno, "read " NETNS_DIR);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.' && td_starts(e->d_name, prefix))
			td_strv_add(ret, e->d_name);
	closedir(d);
	return 0;
}
