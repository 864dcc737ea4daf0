#include "pool/archs.h"

#include "pool/allowed.h"

#include <stdbool.h>
#include <string.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

static bool in_partition(const struct td_archs_node *v, const char *want)
{
	return !want || !*want || td_pool_lists_any(v->partitions, want);
}

static bool fits(const struct td_archs_node *v, const char *want)
{
	for (const char *s = want ? want : ""; *s;) {
		size_t n = strspn(s, plain);
		if (!n || (s[n] && s[n] != '&' && s[n] != ','))
			return true;
		s += n + (s[n] != '\0');
	}
	for (const char *s = want ? want : ""; *s;) {
		size_t n = strspn(s, plain);
		if (!td_pool_lists(v->features, s, n))
			return false;
		s += n + (s[n] != '\0');
	}
	return true;
}

static unsigned number(const char **s)
{
	unsigned n = 0;
	while (**s >= '0' && **s <= '9' && n < 100000)
		n = n * 10 + (unsigned)(*(*s)++ - '0');
	if (**s == '.')
		++*s;
	return n;
}

static bool older(const char *a, const char *b)
{
	unsigned x = number(&a), y = number(&b);
	return x != y ? x < y : number(&a) < number(&b);
}

static size_t add(struct td_archs_build ret[TD_ARCHS_MOST], size_t n, const struct td_archs_node *v, size_t step)
{
	size_t i = 0;
	while (i < n && strcmp(ret[i].arch, v->arch) < 0)
		i++;
	if (i == n || strcmp(ret[i].arch, v->arch) != 0) {
		if (n == TD_ARCHS_MOST)
			return n;
		memmove(&ret[i + 1], &ret[i], (n - i) * sizeof(*ret));
		ret[i] = (struct td_archs_build){.arch = v->arch, .step = step};
		n++;
	}
	if (v->cuda && *v->cuda && (!ret[i].cuda || older(v->cuda, ret[i].cuda)))
		ret[i].cuda = v->cuda;
	return n;
}

size_t td_pool_archs(const struct td_archs_node *v, size_t n, const struct td_archs_step *steps, size_t n_steps,
		     struct td_archs_build ret[TD_ARCHS_MOST])
{
	size_t found = 0;
	for (size_t k = 0; k < n_steps; k++)
		for (int strict = 2; strict >= 0; strict--) { // both count, then the partition, then all nodes
			bool any = false;
			for (size_t i = 0; i < n; i++)
				if (v[i].arch && *v[i].arch &&
				    (strict < 1 || in_partition(&v[i], steps[k].partition)) &&
				    (strict < 2 || fits(&v[i], steps[k].constraint))) {
					found = add(ret, found, &v[i], k);
					any = true;
				}
			if (any)
				break;
		}
	return found;
}
