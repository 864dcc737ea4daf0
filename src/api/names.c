// Names and labels: DNS-1123 labels and subdomains, qualified names, label values (Kubernetes API reference, "Object Names and IDs").
#include "api/names.h"

#include <ctype.h>
#include <string.h>

#include "api/kinds.h"

static bool low(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool label_n(const char *s, size_t n)
{
	if (!n || n > 63 || !low(s[0]) || !low(s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!low(s[i]) && s[i] != '-')
			return false;
	return true;
}

bool td_is_dns_label(const char *s)
{
	return s && label_n(s, strlen(s));
}

bool td_is_dns_subdomain(const char *s)
{
	if (!s || strlen(s) > 253)
		return false;
	for (;;) {
		const char *e = strchrnul(s, '.');
		size_t n = (size_t)(e - s);
		// A label inside a subdomain has no length limit of its own.
		if (!n || !low(s[0]) || !low(s[n - 1]))
			return false;
		for (size_t i = 0; i < n; i++)
			if (!low(s[i]) && s[i] != '-')
				return false;
		if (!*e)
			return true;
		s = e + 1;
	}
}

static bool name_part(const char *s, size_t n)
{
	if (!n || n > 63 || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i]))
			return false;
	return true;
}

bool td_is_qualified_name(const char *s)
{
	const char *slash = s ? strchr(s, '/') : NULL;
	if (!s)
		return false;
	if (!slash)
		return name_part(s, strlen(s));
	td_auto_free char *prefix = td_strndup(s, (size_t)(slash - s));
	return td_is_dns_subdomain(prefix) && name_part(slash + 1, strlen(slash + 1));
}

bool td_is_label_value(const char *s)
{
	return s && (!*s || name_part(s, strlen(s)));
}
