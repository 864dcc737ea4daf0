// On which nodes a job that waits may run (allowed.h).
#include "pool/allowed.h"

#include "base/mem.h"

#include <string.h>

enum { DEEPEST = 16 };

bool td_pool_lists(const char *list, const char *word, size_t len)
{
	for (const char *p = list; p && *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		if (n == len && !strncmp(p, word, len))
			return true;
		p += n;
	}
	return false;
}

bool td_pool_lists_any(const char *list, const char *words)
{
	for (const char *p = words; p && *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		if (n && td_pool_lists(list, p, n))
			return true;
		p += n;
	}
	return false;
}

static int group(const char **p, const char *features, int depth);

static int item(const char **p, const char *features, int depth)
{
	if (**p == '(') {
		++*p;
		int is = group(p, features, depth + 1);
		if (is < 0 || **p != ')')
			return -1;
		++*p;
		return is;
	}
	size_t n = strcspn(*p, "&|,()[]*! ");
	if (!n)
		return -1;
	int is = td_pool_lists(features, *p, n);
	*p += n;
	return is;
}

static int group(const char **p, const char *features, int depth)
{
	int is = depth < DEEPEST ? item(p, features, depth) : -1;
	char by = 0;
	while (is >= 0 && (**p == '&' || **p == ',' || **p == '|')) {
		char now = **p == '|' ? '|' : '&'; // sbatch takes a comma for &
		++*p;
		int more = item(p, features, depth);
		if (more < 0 || (by && by != now))
			return -1;
		is = now == '|' ? is || more : is && more;
		by = now;
	}
	return is;
}

int td_pool_constraint(const char *constraint, const char *features)
{
	const char *p = constraint ? constraint : "";
	if (!*p)
		return 1;
	int is = group(&p, features, 0);
	return *p ? -1 : is;
}

void td_pool_allowed(const struct td_pool_allowed *f, bool *may, struct td_pool_allowed_count *ret)
{
	struct td_pool_allowed_count c = {0};
	for (size_t i = 0; i < f->n; i++) {
		const struct td_pool_allowed_node *x = &f->nodes[i];
		may[i] = false;
		if (!x->partition)
			continue;
		c.partition++;
		int features = td_pool_constraint(f->constraint, x->features);
		c.unread |= features < 0;
		enum td_pool_allowed_why why = f->names && !x->named         ? TD_ALLOWED_NAMED
					       : x->excluded                 ? TD_ALLOWED_EXCLUDED
					       : f->reserves && !x->reserved ? TD_ALLOWED_RESERVED
					       : !features                   ? TD_ALLOWED_FEATURES
					       : !x->large                   ? TD_ALLOWED_LARGE
									     : TD_ALLOWED_WHYS;
		if (why != TD_ALLOWED_WHYS) {
			c.out[why]++;
			continue;
		}
		may[i] = true;
		c.allowed++;
		c.away += !x->usable;
	}
	*ret = c;
}

char *td_pool_allowed_words(const struct td_pool_allowed_count *c, const char *nodes, const char *constraint)
{
	td_auto_buf struct td_buf t = {0}, why = {0};
	const char *sep = ": ";
	for (int i = 0; i < TD_ALLOWED_WHYS; i++) {
		size_t n = c->out[i];
		if (!n)
			continue;
		td_buf_printf(&why, "%s", sep);
		sep = ", ";
		if (i == TD_ALLOWED_NAMED)
			td_buf_printf(&why, "it names others than %zu", n);
		else if (i == TD_ALLOWED_EXCLUDED)
			td_buf_printf(&why, "it excludes %zu", n);
		else if (i == TD_ALLOWED_RESERVED)
			td_buf_printf(&why, "%zu %s not in its reservation", n, n == 1 ? "is" : "are");
		else if (i == TD_ALLOWED_FEATURES)
			td_buf_printf(&why, "%zu %s not the features %s", n, n == 1 ? "has" : "have", constraint);
		else
			td_buf_printf(&why, "%zu %s too small, or without the devices that it wants", n,
				      n == 1 ? "is" : "are");
	}
	if (!why.len && !c->unread)
		return NULL;
	const char *s = c->partition == 1 ? "" : "s";
	if (c->allowed)
		td_buf_printf(&t, "It may run on %s, %zu of the %zu node%s of its partition", nodes, c->allowed,
			      c->partition, s);
	else
		td_buf_printf(&t, "It may run on none of the %zu node%s of its partition", c->partition, s);
	td_buf_puts(&t, td_buf_str(&why));
	if (c->away)
		td_buf_printf(&t, "; %zu of those that it may use %s drained or down", c->away,
			      c->away == 1 ? "is" : "are");
	if (c->unread)
		td_buf_printf(&t, "; what its constraint %s leaves of them is Slurm's to say", constraint);
	td_buf_puts(&t, ".");
	return td_buf_take(&t);
}
