#include "kube/exec.h"

#include "kube/internal.h"

#include <string.h>

int td_kube_tunnel(struct td_kube *k, struct td_cancel *c, struct td_http_tunnel **ret, int *ret_fd, char **ret_auth,
		   struct td_error *err)
{
	static const char name[] = "Authorization: ";
	char *header = NULL;
	int r = td_http_client_auth(k->http, &header, err);
	if (!r)
		r = td_http_tunnel_new(k->http, c, ret, ret_fd, err);
	if (!r)
		*ret_auth = header ? td_strdup(header + sizeof(name) - 1) : NULL;
	if (header)
		explicit_bzero(header, strlen(header));
	free(header);
	return r;
}

static int dial(struct td_kube *k, const char *path, struct td_cancel *c, struct td_ws_far **ret, struct td_error *err)
{
	td_auto_reply struct td_http_reply refused = {0};
	const struct td_ws_dial d = {.path = path, .protocol = "v4.channel.k8s.io"};
	int r = td_ws_dial(k->http, &d, c, ret, &refused, err);
	if (!r && refused.status)
		r = td_kube_refusal(&refused, false, err);
	return r;
}

int td_kube_exec(struct td_kube *k, const struct td_kube_exec *e, struct td_cancel *c, struct td_ws_far **ret,
		 struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_kube_path(&path, &td_pods, e->ns, e->pod, "exec");
	td_buf_puts(&path, "?stdin=true&stdout=true&stderr=true&container=");
	td_url_escape(&path, e->container);
	for (const char *const *a = e->argv; *a; a++) {
		td_buf_puts(&path, "&command=");
		td_url_escape(&path, *a);
	}
	return dial(k, td_buf_str(&path), c, ret, err);
}

int td_kube_forward(struct td_kube *k, const char *ns, const char *pod, int port, struct td_cancel *c,
		    struct td_ws_far **ret, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_kube_path(&path, &td_pods, ns, pod, "portforward");
	td_buf_printf(&path, "?ports=%d", port);
	return dial(k, td_buf_str(&path), c, ret, err);
}
