// A connection of a client as a descriptor, for whoever copies bytes without knowing of TLS (relay.c). A thread
// stands between: curl's handle on one side, one end of a pair of sockets on the other.
#include "http/client_priv.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEP = 32 * 1024 };

struct td_http_tunnel {
	CURLM *multi;
	CURL *easy;
	int far, near;
	struct td_cancel *stop;
	pthread_t thread;
	bool runs;
};

// What was read from one side and is not written to the other yet.
struct one_way {
	char b[STEP];
	size_t off, len;
	bool over;
};

static bool moves(struct one_way *w, ssize_t k)
{
	if (k > 0 && (w->off += (size_t)k) == w->len)
		w->off = w->len = 0;
	return k > 0;
}

static bool to_far(struct td_http_tunnel *t, struct one_way *up)
{
	bool moved = false;
	if (!up->len && !up->over) {
		ssize_t k = recv(t->near, up->b, STEP, MSG_DONTWAIT);
		up->over = k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR);
		up->len = k > 0 ? (size_t)k : 0;
		moved = k > 0 || up->over;
	}
	if (up->len) {
		size_t k = 0;
		CURLcode c = curl_easy_send(t->easy, up->b + up->off, up->len - up->off, &k);
		moved = moves(up, (ssize_t)k) || moved;
		if (c != CURLE_OK && c != CURLE_AGAIN) {
			up->over = true;
			up->off = up->len = 0;
		}
	}
	return moved;
}

static bool to_near(struct td_http_tunnel *t, struct one_way *down)
{
	bool moved = false;
	if (!down->len && !down->over) {
		size_t k = 0;
		CURLcode c = curl_easy_recv(t->easy, down->b, STEP, &k);
		down->len = c == CURLE_OK ? k : 0;
		down->over = c != CURLE_AGAIN && !down->len;
		moved = down->len || down->over;
	}
	if (down->len) {
		ssize_t k = send(t->near, down->b + down->off, down->len - down->off, MSG_DONTWAIT | MSG_NOSIGNAL);
		moved = moves(down, k) || moved;
		if (k < 0 && errno != EAGAIN && errno != EINTR) {
			down->over = true;
			down->off = down->len = 0;
		}
	}
	return moved;
}

// Until the far end has said everything, or nobody is at the near one.
static void *copy(void *tunnel)
{
	struct td_http_tunnel *t = tunnel;
	td_auto_free struct one_way *up = td_calloc(1, sizeof(*up)), *down = td_calloc(1, sizeof(*down));
	while (!td_cancelled(t->stop)) {
		bool moved = to_far(t, up);
		moved = to_near(t, down) || moved;
		if ((down->over && !down->len) || (up->over && !up->len))
			break;
		if (moved)
			continue;
		const short far = (short)((down->len ? 0 : POLLIN) | (up->len ? POLLOUT : 0)),
			    near = (short)((up->len ? 0 : POLLIN) | (down->len ? POLLOUT : 0));
		// A side that nothing is wanted of may be broken, which poll() would say all the time.
		struct pollfd p[3] = {{far ? t->far : -1, far, 0},
				      {near ? t->near : -1, near, 0},
				      {td_cancel_fd(t->stop), POLLIN, 0}};
		poll(p, 3, -1);
	}
	shutdown(t->near, SHUT_RDWR);
	return NULL;
}

struct td_http_tunnel *td_http_tunnel_free(struct td_http_tunnel *t)
{
	if (!t)
		return NULL;
	td_cancel_fire(t->stop);
	if (t->runs)
		pthread_join(t->thread, NULL);
	if (t->near >= 0)
		close(t->near);
	if (t->easy && t->multi)
		curl_multi_remove_handle(t->multi, t->easy);
	curl_easy_cleanup(t->easy);
	curl_multi_cleanup(t->multi);
	td_cancel_unref(t->stop);
	free(t);
	return NULL;
}

int td_http_tunnel_new(struct td_http_client *c, struct td_cancel *cancel, struct td_http_tunnel **ret, int *ret_fd,
		       struct td_error *err)
{
	td_auto(td_http_tunnel_free) struct td_http_tunnel *t = td_calloc(1, sizeof(*t));
	int pair[2];
	t->near = -1;
	t->stop = td_cancel_new();
	t->easy = curl_easy_init();
	t->multi = curl_multi_init();
	if (!t->easy || !t->multi)
		abort();
	int r = td_http_client_connect(c, t->multi, t->easy, cancel, &t->far, err);
	if (r)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "socketpair");
	t->near = pair[1];
	td_auto_close int fd = pair[0];
	if (pthread_create(&t->thread, NULL, copy, t))
		return td_fail(err, TD_INTERNAL, "no thread for a connection");
	t->runs = true;
	*ret = td_steal(t);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}
