// Names and labels: DNS-1123 labels and subdomains, qualified names, label values (Kubernetes API
// reference, "Object Names and IDs").
#include "api/names.h"

#include <ctype.h>
#include <stdarg.h>
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
		// A label within a subdomain has no length limit of its own.
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

// ---- faults in the words of Kubernetes ----
static const struct {
	const char *what, *regex, *examples;
	size_t max;
} words[] = {
	[TD_N_SUBDOMAIN] = {"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
			    "'.', and must start and end with an alphanumeric character",
			    "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", "'example.com'", 253},
	[TD_N_LABEL] = {"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
			"must start and end with an alphanumeric character",
			"[a-z0-9]([-a-z0-9]*[a-z0-9])?", "'my-name',  or '123-abc'", 63},
	[TD_N_LABEL_1035] = {"a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
			     "an alphabetic character, and end with an alphanumeric character",
			     "[a-z]([-a-z0-9]*[a-z0-9])?", "'my-name',  or 'abc-123'", 63},
	[TD_N_QUALIFIED] = {"must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
			    "alphanumeric character",
			    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", "'MyName',  or 'my.name',  or '123-abc'", 63},
	[TD_N_LABEL_VALUE] = {"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
			      "or '.', and must start and end with an alphanumeric character",
			      "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", "'MyValue',  or 'my_value',  or '12345'",
			      63},
	[TD_N_CONFIG_KEY] = {"a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
			     "[-._a-zA-Z0-9]+", "'key.name',  or 'KEY_NAME',  or 'key-name'", 253},
};

static bool dns_label(const char *s, size_t n, bool alpha_first)
{
	if (!n || !low(s[0]) || !low(s[n - 1]) || (alpha_first && s[0] <= '9'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!low(s[i]) && s[i] != '-')
			return false;
	return true;
}

static bool dns_subdomain(const char *s)
{
	for (;;) {
		const char *e = strchrnul(s, '.');
		if (!dns_label(s, (size_t)(e - s), false))
			return false;
		if (!*e)
			return true;
		s = e + 1;
	}
}

static bool plain_name(const char *s)
{
	size_t n = strlen(s);
	if (!n || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("-_.", *s))
			return false;
	return true;
}

static void say(struct td_strv *ret, const char *front, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct td_strv *ret, const char *front, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *m = td_vasprintf(fmt, ap);
	va_end(ap);
	td_auto_free char *t = td_asprintf("%s%s", front, m);
	td_strv_add(ret, t);
}

static void shape(enum td_name_rule rule, const char *front, const char *s, struct td_strv *ret)
{
	size_t n = strlen(s);
	bool ok = rule == TD_N_SUBDOMAIN     ? dns_subdomain(s)
		  : rule == TD_N_LABEL       ? dns_label(s, n, false)
		  : rule == TD_N_LABEL_1035  ? dns_label(s, n, true)
		  : rule == TD_N_LABEL_VALUE ? !n || plain_name(s)
		  : rule == TD_N_CONFIG_KEY
			  ? n && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == n
			  : plain_name(s);

	if (n > words[rule].max)
		say(ret, front, "must be no more than %zu characters", words[rule].max);
	if (ok)
		return;
	if (rule == TD_N_LABEL && dns_subdomain(s))
		say(ret, front, "must not contain dots");
	else
		say(ret, front, "%s (e.g. %s, regex used for validation is '%s')", words[rule].what,
		    words[rule].examples, words[rule].regex);
}

static void qualified(const char *s, struct td_strv *ret)
{
	const char *slash = strchr(s, '/');
	if (slash && strchr(slash + 1, '/')) {
		say(ret, "a qualified name ",
		    "%s (e.g. %s, regex used for validation is '%s') with an optional DNS subdomain prefix and '/' "
		    "(e.g. 'example.com/MyName')",
		    words[TD_N_QUALIFIED].what, words[TD_N_QUALIFIED].examples, words[TD_N_QUALIFIED].regex);
		return;
	}

	if (slash) {
		td_auto_free char *prefix = td_strndup(s, (size_t)(slash - s));
		if (!*prefix)
			td_strv_add(ret, "prefix part must be non-empty");
		else
			shape(TD_N_SUBDOMAIN, "prefix part ", prefix, ret);
		s = slash + 1;
	}

	if (!*s)
		td_strv_add(ret, "name part must be non-empty");
	shape(TD_N_QUALIFIED, "name part ", s, ret);
}

void td_name_faults(enum td_name_rule rule, const char *s, struct td_strv *ret)
{
	if (rule == TD_N_QUALIFIED) {
		qualified(s, ret);
		return;
	}

	shape(rule, "", s, ret);
	if (rule != TD_N_CONFIG_KEY)
		return;
	if (!strcmp(s, ".") || !strcmp(s, ".."))
		say(ret, "", "must not be '%s'", s);
	else if (td_starts(s, ".."))
		say(ret, "", "must not start with '..'");
}
