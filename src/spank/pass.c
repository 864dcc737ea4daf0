// A message with a descriptor.
#include "spank/pass.h"

#include <string.h>
#include <sys/socket.h>

union space {
	struct cmsghdr h;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool td_ct_send(int sock, const void *p, size_t n, int fd)
{
	union space s = {.h = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec io = {(void *)p, n};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	if (fd >= 0) {
		memcpy(CMSG_DATA(&s.h), &fd, sizeof(fd));
		m.msg_control = &s;
		m.msg_controllen = sizeof(s);
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)n;
}

ssize_t td_ct_recv(int sock, void *p, size_t max, int *ret_fd)
{
	union space s = {0};
	struct iovec io = {p, max};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &s, .msg_controllen = sizeof(s)};
	ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	*ret_fd = -1;
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(h), sizeof(*ret_fd));
	return n;
}
