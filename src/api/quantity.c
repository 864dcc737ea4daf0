// resource.Quantity: <sign><digits>[.<digits>]<suffix>. The suffix is decimal SI, binary SI or a
// decimal exponent (Kubernetes API conventions, "Quantity serialization format"). Rounding is away
// from zero, as in Kubernetes.
#include "api/quantity.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/quantity_priv.h"

enum { DIGITS_MAX = 24 };

// Parses the suffix into powers of ten and of two. Returns false when it is unknown.
static bool suffix(const char *s, int *ret_ten, int *ret_two, enum td_quantity_family *ret_family)
{
	static const char units[] = "kMGTPE";
	*ret_ten = *ret_two = 0;
	*ret_family = TD_Q_DECIMAL;
	if (!*s)
		return true;
	if (!s[1]) {
		const char *u = strchr("num", s[0]);
		if (u) {
			*ret_ten = s[0] == 'n' ? -9 : s[0] == 'u' ? -6 : -3;
			return true;
		}
		u = strchr(units, s[0]);
		if (u)
			*ret_ten = 3 * (int)(u - units + 1);
		return u != NULL;
	}

	if (s[1] == 'i' && !s[2]) {
		static const char bin[] = "KMGTPE";
		const char *u = strchr(bin, s[0]);
		if (u)
			*ret_two = 10 * (int)(u - bin + 1);
		*ret_family = TD_Q_BINARY;
		return u != NULL;
	}

	if (*s != 'e' && *s != 'E')
		return false;
	bool neg = *++s == '-';
	if (*s == '-' || *s == '+')
		s++;
	if (!*s || strlen(s) > 3)
		return false;

	int e = 0;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		e = e * 10 + (*s - '0');
	}

	*ret_ten = neg ? -e : e;
	*ret_family = TD_Q_EXPONENT;
	return true;
}

int td_quantity_read(const char *s, __int128 *ret_milli, enum td_quantity_family *ret_family, struct td_error *err)
{
	if (!s)
		return td_fail(err, TD_INVALID, "no quantity");

	const char *p = s;
	bool neg = *p == '-';
	if (*p == '-' || *p == '+')
		p++;
	__int128 m = 0;
	int digits = 0, seen = 0, frac = 0;
	bool dot = false;

	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !dot); p++) {
		if (*p == '.') {
			dot = true;
			continue;
		}
		seen++;
		if (m || *p != '0')
			digits++;
		if (digits > DIGITS_MAX)
			return td_fail(err, TD_INVALID, "quantity \"%.40s\" has more than %d digits", s, DIGITS_MAX);
		m = m * 10 + (*p - '0');
		frac += dot;
	}

	int ten, two;
	enum td_quantity_family family;
	if (!seen || !suffix(p, &ten, &two, &family))
		return td_fail(err, TD_INVALID,
			       "quantity \"%.40s\": write a number with one of the suffixes m, k, M, G, T, P, E, Ki, "
			       "Mi, Gi, Ti, Pi, Ei or none",
			       s);

	for (ten += 3 - frac; two > 0 && m; two--)
		if (__builtin_mul_overflow(m, 2, &m))
			return td_fail(err, TD_INVALID, "quantity \"%.40s\" is too large", s);
	for (; ten > 0 && m; ten--)
		if (__builtin_mul_overflow(m, 10, &m))
			return td_fail(err, TD_INVALID, "quantity \"%.40s\" is too large", s);

	bool rest = false;
	for (; ten < 0 && m; ten++) {
		rest = rest || m % 10;
		m /= 10;
	}
	m += rest;

	*ret_milli = neg ? -m : m;
	if (ret_family)
		*ret_family = family;
	return 0;
}

int td_quantity_milli(const char *s, int64_t *ret_milli, struct td_error *err)
{
	__int128 m;
	int r = td_quantity_read(s, &m, NULL, err);
	if (r)
		return r;
	if (m > INT64_MAX || m < -INT64_MAX)
		return td_fail(err, TD_INVALID, "quantity \"%.40s\" is too large", s);
	*ret_milli = (int64_t)m;
	return 0;
}

int td_quantity_ceil(const char *s, int64_t *ret, struct td_error *err)
{
	__int128 m;
	int r = td_quantity_read(s, &m, NULL, err);
	if (r)
		return r;
	__int128 u = m / 1000;
	if (m % 1000)
		u += m > 0 ? 1 : -1;
	if (u > INT64_MAX || u < -INT64_MAX)
		return td_fail(err, TD_INVALID, "quantity \"%.40s\" is too large", s);
	*ret = (int64_t)u;
	return 0;
}

const char *td_quantity_format_milli(int64_t milli, char *buf, unsigned n)
{
	if (milli % 1000)
		snprintf(buf, n, "%lldm", (long long)milli);
	else
		snprintf(buf, n, "%lld", (long long)(milli / 1000));
	return buf;
}

const char *td_quantity_format_bytes(int64_t bytes, char *buf, unsigned n)
{
	static const char *const unit[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
	size_t u = 0;
	while (bytes && bytes % 1024 == 0 && u + 1 < sizeof(unit) / sizeof(unit[0])) {
		bytes /= 1024;
		u++;
	}
	snprintf(buf, n, "%lld%s", (long long)bytes, unit[u]);
	return buf;
}

int td_quantity_canonical(const char *s, char buf[TD_QUANTITY_LEN], struct td_error *err)
{
	static const char *const si[] = {"", "k", "M", "G", "T", "P", "E"};
	__int128 m = 0;
	enum td_quantity_family f = TD_Q_DECIMAL;

	int r = td_quantity_read(s, &m, &f, err);
	if (r)
		return r;
	if (m > (__int128)INT64_MAX * 1000 || m < -(__int128)INT64_MAX * 1000)
		return td_fail(err, TD_INVALID, "quantity \"%.40s\" is too large", s);
	// A binary quantity below one Ki is written as a decimal one.
	__int128 abs = m < 0 ? -m : m;
	if (f == TD_Q_BINARY && m % 1000 == 0 && (abs >= 1024000 || !m)) {
		td_quantity_format_bytes((int64_t)(m / 1000), buf, TD_QUANTITY_LEN);
		return 0;
	}

	if (m % 1000) {
		// Two parts, because thousandths of large values have more bits than printf can
		// print.
		int64_t whole = (int64_t)(abs / 1000);
		int part = (int)(abs % 1000);
		const char *sign = m < 0 ? "-" : "";
		if (whole)
			snprintf(buf, TD_QUANTITY_LEN, "%s%lld%03dm", sign, (long long)whole, part);
		else
			snprintf(buf, TD_QUANTITY_LEN, "%s%dm", sign, part);
		return 0;
	}

	int64_t v = (int64_t)(m / 1000);
	size_t u = 0;
	while (v && v % 1000 == 0 && u + 1 < sizeof(si) / sizeof(si[0])) {
		v /= 1000;
		u++;
	}

	if (f == TD_Q_EXPONENT && u)
		snprintf(buf, TD_QUANTITY_LEN, "%llde%zu", (long long)v, 3 * u);
	else
		snprintf(buf, TD_QUANTITY_LEN, "%lld%s", (long long)v, si[u]);
	return 0;
}
