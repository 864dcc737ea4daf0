// Hosts files. Whatever an object holds, a pod makes at most one line and a Service one line for
// each address, and every line starts with an address.
// rows: F1.4
#include "kubelet/pods/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void check_lines(const char *text, size_t max)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	if (lines.n > max)
		abort();
	for (size_t i = 0; i < lines.n; i++) {
		unsigned char to[16];
		char *blank = strchr(lines.v[i], ' ');
		if (blank)
			*blank = '\0';
		if (inet_pton(AF_INET, lines.v[i], to) != 1 && inet_pton(AF_INET6, lines.v[i], to) != 1)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14 || td_yaml_parse((const char *)data, size, &l, NULL))
		return 0;

	td_auto_strv struct td_strv ips = {0};
	td_strv_add(&ips, "10.0.1.2");
	td_strv_add(&ips, "fd00::7");

	for (size_t i = 0; i < l.n; i++) {
		td_auto_buf struct td_buf pod = {0}, with_ip = {0}, service = {0};
		td_hosts_pod_line(&pod, td_json_root(l.v[i]), NULL, "ml");
		check_lines(td_buf_str(&pod), 1);
		td_hosts_pod_line(&with_ip, td_json_root(l.v[i]), "10.0.1.9", "ml");
		check_lines(td_buf_str(&with_ip), 1);
		td_hosts_service_lines(&service, td_json_root(l.v[i]), &ips, "ml");
		check_lines(td_buf_str(&service), ips.n);
	}
	return 0;
}
