// A machine joins: the decision of join.h.
#include "pool/join.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define NODE "system:node:"

// Ends the decision with a refusal.
#define refuse(p, why, ...)                                                                                            \
	do {                                                                                                           \
		(p)->what = TD_JOIN_REFUSE;                                                                            \
		(p)->reason = why;                                                                                     \
		snprintf((p)->text, sizeof((p)->text), __VA_ARGS__);                                                   \
		return;                                                                                                \
	} while (0)

// A node's name, as Kubernetes has them: lower case, digits, dots and dashes.
static bool name_fits(const char *s)
{
	size_t n = strlen(s);
	return n && n <= 253 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n && !strchr(".-", s[0]) &&
	       !strchr(".-", s[n - 1]);
}

void td_pool_join_decide(const struct td_pool_join *f, struct td_pool_join_plan *ret)
{
	*ret = (struct td_pool_join_plan){.what = TD_JOIN_APPROVE};
	const char *cn = f->cn ? f->cn : "", *node = !strncmp(cn, NODE, strlen(NODE)) ? cn + strlen(NODE) : "";
	if (!f->known)
		refuse(ret, "TokenUnknown",
		       "there is no such token, or it was revoked: make another one with `tandem node token`");
	if (!f->by[0])
		refuse(ret, "NoRequest", "the request cannot be read, or its own key has not signed it");
	// Before everything that only the token's own machine is told.
	if (strcmp(f->by, f->machine) != 0)
		refuse(ret, "OtherMachine", "the token is for machine %.80s, and %.80s asks with it", f->machine,
		       f->by);
	if (f->used_by && strcmp(f->used_by, f->uid) != 0)
		refuse(ret, "TokenUsed", "the token was used: make another one with `tandem node token`");
	if (!f->org || strcmp(f->org, "system:nodes") != 0)
		refuse(ret, "OtherGroup", "it asks for the group \"%.100s\": a node is in system:nodes and in no other",
		       f->org ? f->org : "several");
	if (!name_fits(node))
		refuse(ret, "NoNode", "it asks for the name \"%.100s\": a node's is " NODE "NAME",
		       f->cn ? f->cn : "several");
	if (f->names || !f->usages)
		refuse(ret, "NoNode", "a node asks for digital signature and client auth, and for no other names");
	ret->node = node;
	if (f->name && strcmp(f->name, node) != 0)
		refuse(ret, "OtherName", "the token is for node %.100s, and the machine asks for %.100s", f->name,
		       node);
	if (f->used_by)
		return; // reserved: what may have changed since does not matter
	if (f->expired)
		refuse(ret, "TokenExpired", "the token's time is over: make another one with `tandem node token`");
	if (f->there && !f->again)
		refuse(ret, "NodeExists",
		       "node %.100s is there: give the machine another name, or, when it is that node's machine "
		       "now, make a token with --again",
		       node);
	// No node comes of it that would keep the name, and the record of its token ends.
	if (f->host && !f->name)
		refuse(ret, "NodeExists",
		       "spec.hosts of a NodeSet names %.100s: give the machine another name, or, when it is that one, "
		       "make a "
		       "token with --name",
		       node);
	if (f->promised && !f->again)
		refuse(ret, "NodeExists",
		       "another machine is joining as node %.100s: if it never comes, end its token with `tandem node "
		       "revoke`",
		       node);
	ret->what = TD_JOIN_RESERVE;
}

int64_t td_pool_boot_wait(const char *before, const char *now, int64_t unchanged_ms, int64_t lease_ms)
{
	if (!now)
		return 0;
	if (!before || strcmp(before, now) != 0)
		return lease_ms;
	return unchanged_ms < lease_ms ? lease_ms - unchanged_ms : 0;
}
