// Names: one hosts file per namespace, <home>/agent/hosts/<ns>, bind-mounted into its pods and edited in place (a
// renamed file would not be seen there).
#pragma once

#include "kubelet/kubelet.h"
#include "json/json.h"

struct td_hosts;
struct td_hosts *td_hosts_new(struct td_kubelet *a);
struct td_hosts *td_hosts_free(struct td_hosts *h);
char *td_hosts_path(const struct td_kubelet *a, const char *ns); // caller frees
// Writes the namespace's file now if its text changed (the pod about to start must find itself in it).
int td_hosts_sync(struct td_hosts *h, const char *ns, struct td_error *err);
void td_hosts_changed(struct td_hosts *h); // any thread: every namespace in use is brought up to date soon
int td_hosts_run(struct td_hosts *h, struct td_cancel *c, struct td_error *err);

// ---- pure parts ----
// One pod's line, "" when it has no address. ip overrides status.podIP when not NULL.
void td_hosts_pod_line(struct td_buf *b, const yyjson_val *pod, const char *ip, const char *in_ns);
// One line per ready address of a headless service: `ips` are the addresses of its pods.
void td_hosts_service_lines(struct td_buf *b, const yyjson_val *svc, const struct td_strv *ips, const char *in_ns);
// Makes the file show text: one write at offset 0; what would be left of a longer old text is turned into empty lines,
// never cut.
int td_hosts_write(const char *path, const char *text, size_t n, struct td_error *err);
