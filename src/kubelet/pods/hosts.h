// Names of pods and Services: one hosts file per namespace, <home>/agent/hosts/<ns>. It is
// bind-mounted into the namespace's pods and therefore edited in place: a renamed file would not be
// seen there.
#pragma once

#include "kubelet/kubelet.h"
#include "json/json.h"

struct td_hosts;
struct td_hosts *td_hosts_new(struct td_kubelet *a);
struct td_hosts *td_hosts_free(struct td_hosts *h);
char *td_hosts_path(const struct td_kubelet *a, const char *ns); // caller frees
// Writes the namespace's file now if its text changed. A pod that is about to start must find
// itself in it.
int td_hosts_sync(struct td_hosts *h, const char *ns, struct td_error *err);
// Brings every namespace in use up to date soon. Any thread may call it.
void td_hosts_changed(struct td_hosts *h);
// The hosts worker: runs until `c` is cancelled.
int td_hosts_run(struct td_hosts *h, struct td_cancel *c, struct td_error *err);

// The pod's address right now, which our own table knows before the API does. Caller frees; NULL: none.
char *td_hosts_pod_ip(struct td_kubelet *a, const struct td_object *o);

// ---- pure parts ----
// Appends one pod's line, or nothing if it has no address. `ip` overrides status.podIP unless it is
// NULL. `in_ns` is the namespace whose file is written.
void td_hosts_pod_line(struct td_buf *b, const yyjson_val *pod, const char *ip, const char *in_ns);
// Appends one line per ready address of a headless Service. `ips` are the addresses of its pods.
void td_hosts_service_lines(struct td_buf *b, const yyjson_val *svc, const struct td_strv *ips, const char *in_ns);
// Makes the file show `text`, with one write at offset 0. The rest of a longer old text becomes
// empty lines; the file is never truncated.
int td_hosts_write(const char *path, const char *text, size_t n, struct td_error *err);
