// Input: "METHOD TARGET\nCONTENT-TYPE\nBODY", a whole request to a whole API server in this
// process, as an administrator: paths, queries, bodies, patches, and everything that the server
// does with them. Every request gets an answer, and what is stored can be listed. With "{CLAIMS}
// CONTENT-TYPE" the request has a token of these claims, in which "@" stands for the UID of service
// account x.
//
// Connections end in other threads, after the answer, so leaks are looked for when the server has
// stopped. tools/run-fuzz turns off libFuzzer's own leak check after each input, which reports
// memory as lost that one thread is just handing to another.
// rows: F1.2
#include "apiserver/srv.h"
#include "base/cancel.h"
#include "base/file.h"
#include "http/pki.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RESTART_EVERY 2000 // inputs; a new server keeps the stored objects few

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	char dir[64], sock[96];
	struct td_srv srv;
	struct td_http_server *http;
	struct td_cancel *cancel;
	pthread_t thread;
	char *token, uid[40];
	unsigned inputs;
} f;
int __lsan_do_recoverable_leak_check(void) __attribute__((weak)); // in programs with ASan only

static const char key[] = "0123456789abcdef0123456789abcdef";

static void *serve(void *arg)
{
	td_http_server_run(f.http, f.cancel, NULL);
	return NULL;
}

static void stop(void)
{
	if (!f.http)
		return;
	td_cancel_fire(f.cancel);
	pthread_join(f.thread, NULL);
	f.http = td_http_server_free(f.http);
	td_registry_free(f.srv.reg);
	td_rbac_cache_free(f.srv.rbac);
	td_store_close(f.srv.store);
	f.cancel = td_cancel_unref(f.cancel);
	free(f.srv.agent_socket);
	free(f.token);
	f.token = NULL;
	td_rm_rf(f.dir, NULL);
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		abort();
}

// Sends the request. ret gets what comes back first, NUL-terminated.
static void ask(const char *head, size_t head_len, const char *body, size_t len, char *ret, size_t max)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", f.sock);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&a, sizeof(a))) < 0)
		abort();
	// libFuzzer has a timer, whose signals interrupt system calls.
	ssize_t k = TEMP_FAILURE_RETRY(send(fd, head, head_len, MSG_NOSIGNAL));
	if (k >= 0 && len)
		k = TEMP_FAILURE_RETRY(send(fd, body, len, MSG_NOSIGNAL));
	size_t got = 0;
	while (got < max - 1 && (k = TEMP_FAILURE_RETRY(recv(fd, ret + got, max - 1 - got, 0))) > 0) {
		got += (size_t)k;
		ret[got] = 0;
		if (strstr(ret, "chunked\r\n")) // a watch goes on until the client closes
			break;
	}
	ret[got] = 0;
	close(fd);
}

static void call(const char *token, const char *method, const char *target, size_t target_len, const char *ct,
		 const char *body, size_t len, char *ret, size_t max)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%s ", method);
	td_buf_add(&b, target, target_len);
	td_buf_printf(&b,
		      " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: "
		      "%zu\r\nConnection: close\r\n\r\n",
		      token, ct, len);
	ask(td_buf_str(&b), b.len, body, len, ret, max);
}

static void put(const char *target, const char *ct, const char *body)
{
	char reply[4096];
	call(f.token, "POST", target, strlen(target), ct, body, strlen(body), reply, sizeof(reply));
	if (strncmp(reply, "HTTP/1.1 201", 12) != 0) {
		fprintf(stderr, "%s: %s\n", target, reply);
		abort();
	}
}

static void start(void)
{
	struct td_error err = TD_ERROR_INIT;
	bool shm = access("/dev/shm", W_OK) == 0;
	snprintf(f.dir, sizeof(f.dir), "%s/td-fuzz-XXXXXX", shm ? "/dev/shm" : "/tmp");
	if (!mkdtemp(f.dir))
		abort();
	snprintf(f.sock, sizeof(f.sock), "%s/api.sock", f.dir);
	setenv("TANDEM_DB_SYNC", "normal", 1);
	td_auto_free char *db = td_asprintf("%s/state.db", f.dir), *listen = td_asprintf("unix:%s", f.sock);
	f.srv = (struct td_srv){.clock = &td_clock_system,
				.sa_key = (void *)(uintptr_t)key,
				.sa_key_len = sizeof(key) - 1,
				.ready = true};
	f.srv.agent_socket = td_asprintf("%s/agent.sock", f.dir);
	f.token = td_jwt_sign(key, sizeof(key) - 1,
			      "{\"sub\":\"admin\",\"groups\":[\"system:masters\"],\"exp\":32503680000}");
	if (td_store_open(db, 0, 0, &f.srv.store, &err) < 0 || td_srv_bootstrap(&f.srv, &err) < 0)
		abort();
	f.srv.reg = td_registry_new(f.srv.store);
	f.srv.rbac = td_rbac_cache_new(f.srv.store);
	const char *listens[] = {listen, NULL};
	const struct td_http_server_opts o = {
		.listen = listens, .handler = td_srv_handle, .refused = td_srv_refused, .ctx = &f.srv};
	if (td_http_server_new(&o, &f.http, &err) < 0)
		abort();
	f.cancel = td_cancel_new();
	pthread_create(&f.thread, NULL, serve, NULL);
	static const char yaml[] = "application/yaml";
	put("/api/v1/namespaces/default/configmaps", yaml, "{metadata: {name: c}, data: {a: b}}");
	put("/api/v1/namespaces/default/pods", yaml,
	    "{metadata: {name: p, labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}");
	put("/apis/apps/v1/namespaces/default/deployments", yaml,
	    "{metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, "
	    "spec: {containers: [{name: c, image: i}]}}}}");
	put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml,
	    "{metadata: {name: ws.x.io}, spec: {group: x.io, scope: Namespaced, names: {plural: ws, kind: W}, "
	    "versions: [{name: v1, served: true, storage: true, additionalPrinterColumns: [{name: N, type: integer, "
	    "jsonPath: .spec.n}], subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: "
	    ".status.n}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}");
	put("/apis/x.io/v1/namespaces/default/ws", yaml,
	    "{apiVersion: x.io/v1, kind: W, metadata: {name: w}, spec: {n: 1}}");
	put("/api/v1/namespaces/default/serviceaccounts", yaml, "{metadata: {name: x}}");
	td_auto(td_item_unref) struct td_item *account =
		td_store_get(f.srv.store, td_store_table(f.srv.store, "", "serviceaccounts"), "default", "x");
	snprintf(f.uid, sizeof(f.uid), "%s", account->uid);
	static bool once;
	if (!once)
		atexit(stop);
	once = true;
}

static char *token_of(const char *claims, const char *end)
{
	td_auto_buf struct td_buf b = {0};
	for (; claims < end; claims++)
		if (*claims == '@')
			td_buf_puts(&b, f.uid);
		else
			td_buf_putc(&b, *claims);
	return td_jwt_sign(key, sizeof(key) - 1, td_buf_str(&b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char reply[1 << 16];
	if (f.http && ++f.inputs % RESTART_EVERY == 0)
		stop();
	if (!f.http)
		start();
	const char *p = (const char *)data, *end = p + size, *nl = memchr(p, '\n', size),
		   *sp = nl ? memchr(p, ' ', (size_t)(nl - p)) : NULL;
	const char *nl2 = nl ? memchr(nl + 1, '\n', (size_t)(end - nl - 1)) : NULL;
	if (!sp || !nl2 || size > 1 << 16)
		return 0;
	td_auto_free char *method = td_strndup(p, (size_t)(sp - p)), *ct = td_strndup(nl + 1, (size_t)(nl2 - nl - 1));
	for (char *c = method; *c; c++)
		if (*c == '\r')
			return 0;
	for (char *c = ct; *c; c++)
		if (*c == '\r')
			return 0;
	char *type = ct, *blank = *ct == '{' ? strrchr(ct, ' ') : NULL;
	td_auto_free char *token = blank ? token_of(ct, blank) : NULL;
	if (blank)
		type = blank + 1;
	call(token ? token : f.token, method, sp + 1, (size_t)(nl - sp - 1), type, nl2 + 1, (size_t)(end - nl2 - 1),
	     reply, sizeof(reply));
	if (strncmp(reply, "HTTP/1.1 ", 9) != 0)
		abort();
	// A fault of the server, whatever was sent.
	if (!strncmp(reply, "HTTP/1.1 500", 12) && strstr(reply, "InternalError"))
		abort();
	return 0;
}
