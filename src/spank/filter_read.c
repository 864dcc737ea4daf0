// A profile of system calls, as a site writes it: JSON, of which no more is read than is needed here. The plug-in that
// reads it is loaded by Slurm's own programs and has no library of JSON.
#include "spank/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

enum { DEEP = 32, NAME_MAX_LEN = 128, RULES_MAX = 16384, ERRNO_MAX = 4095 };

struct profile_reader {
	const char *p, *end;
	struct td_error *err;
};

static void blank(struct profile_reader *r)
{
	while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
		r->p++;
}

static int wrong(struct profile_reader *r, const char *want)
{
	return td_fail(r->err, TD_INVALID, "this is no JSON: \"%.*s\": want %s",
		       (int)(r->end - r->p < 20 ? r->end - r->p : 20), r->p, want);
}

static bool is(struct profile_reader *r, char c)
{
	blank(r);
	return r->p < r->end && *r->p == c;
}

static int take(struct profile_reader *r, char c)
{
	char want[] = {'"', c, '"', '\0'};
	if (!is(r, c))
		return wrong(r, want);
	r->p++;
	return 0;
}

// Names have no escapes: one with an escape is read as a name that nothing has, with a backslash in it.
static int string(struct profile_reader *r, char ret[NAME_MAX_LEN])
{
	size_t n = 0;
	int e = take(r, '"');
	if (e)
		return e;
	for (; r->p < r->end && *r->p != '"'; r->p++) {
		char c = *r->p;
		if ((unsigned char)c < ' ')
			return wrong(r, "the end of a string");
		if (c == '\\') {
			if (++r->p == r->end)
				break;
			c = '\\';
		}
		if (n < NAME_MAX_LEN - 1)
			ret[n++] = c;
	}
	ret[n] = '\0';
	return take(r, '"');
}

static int number(struct profile_reader *r, const char *field, uint64_t *ret)
{
	uint64_t v = 0;
	blank(r);
	const char *from = r->p;
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*r->p - '0'), &v))
			return td_fail(r->err, TD_INVALID, "%s: the number is too great", field);
	if (r->p == from || (r->p < r->end && strchr(".eE", *r->p) && *r->p))
		return td_fail(r->err, TD_INVALID, "%s: want a whole number, 0 or more", field);
	*ret = v;
	return 0;
}

static int skip(struct profile_reader *r, int deep);

// Calls f for each member of an object, or each element of an array (key NULL). f takes the value.
typedef int (*each_f)(struct profile_reader *r, const char *key, void *ctx);
static int each(struct profile_reader *r, bool object, each_f f, void *ctx)
{
	const char open = object ? '{' : '[', close = object ? '}' : ']';
	char key[NAME_MAX_LEN];
	int e = take(r, open);
	if (e)
		return e;
	if (is(r, close))
		return take(r, close);
	for (;;) {
		if (object && ((e = string(r, key)) || (e = take(r, ':'))))
			return e;
		if ((e = f(r, object ? key : NULL, ctx)))
			return e;
		if (!is(r, ','))
			return take(r, close);
		r->p++;
	}
}

static int skip_one(struct profile_reader *r, const char *key, void *ctx)
{
	(void)key;
	return skip(r, *(int *)ctx + 1);
}

static int skip(struct profile_reader *r, int deep)
{
	char text[NAME_MAX_LEN];
	if (deep > DEEP)
		return td_fail(r->err, TD_INVALID, "more than %d levels", DEEP);
	blank(r);
	if (is(r, '"'))
		return string(r, text);
	if (is(r, '{') || is(r, '['))
		return each(r, *r->p == '{', skip_one, &deep);
	const char *from = r->p;
	while (r->p < r->end && *r->p && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *r->p))
		r->p++;
	return r->p == from ? wrong(r, "a value") : 0;
}

static bool null(struct profile_reader *r)
{
	blank(r);
	if (r->end - r->p < 4 || memcmp(r->p, "null", 4) != 0)
		return false;
	r->p += 4;
	return true;
}

// ---- rules ----
struct one_rule {
	struct td_calls_profile *to;
	size_t at; // of the list, for errors
	char action[NAME_MAX_LEN];
	uint64_t error;
	bool named, has_error;
	struct td_calls_arg *args;
	size_t n_args;
	unsigned *calls;
	size_t n_calls;
};

// False: there is no such action.
static bool action_of(const char *name, uint64_t error, uint32_t *ret)
{
	static const struct {
		const char *name;
		uint32_t action;
	} t[] = {{"SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW},
		 {"SCMP_ACT_LOG", SECCOMP_RET_LOG},
		 {"SCMP_ACT_TRAP", SECCOMP_RET_TRAP},
		 {"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD},
		 {"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD},
		 {"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS}};
	for (size_t i = 0; i < TD_LEN(t); i++)
		if (!strcmp(t[i].name, name)) {
			*ret = t[i].action;
			return true;
		}
	if (strcmp(name, "SCMP_ACT_ERRNO") != 0 || error > ERRNO_MAX)
		return false;
	*ret = SECCOMP_RET_ERRNO | (uint32_t)error;
	return true;
}

static int on_name(struct profile_reader *r, const char *key, void *ctx)
{
	struct one_rule *o = ctx;
	char name[NAME_MAX_LEN];
	(void)key;
	int e = string(r, name);
	if (e)
		return e;
	if (strchr(name, '\\')) // pods have the rule
		return td_fail(r->err, TD_INVALID, "syscalls[%zu].names: \"%.40s\" has an escape; write it plainly",
			       o->at, name);
	o->named = true;
	for (const struct td_calls_one *c = td_calls_known; c->name; c++)
		if (!strcmp(c->name, name)) {
			if (o->n_calls == RULES_MAX)
				return td_fail(r->err, TD_INVALID, "syscalls[%zu].names: more than %d", o->at,
					       RULES_MAX);
			o->calls = td_realloc(o->calls, (o->n_calls + 1) * sizeof(*o->calls));
			o->calls[o->n_calls++] = c->number;
			break;
		}
	return 0;
}

struct one_arg {
	struct td_calls_arg a;
	char op[NAME_MAX_LEN];
	bool has_index;
};

static int on_arg_field(struct profile_reader *r, const char *key, void *ctx)
{
	struct one_arg *o = ctx;
	uint64_t v = 0;
	if (!strcmp(key, "op"))
		return string(r, o->op);
	bool index = !strcmp(key, "index"), value = !strcmp(key, "value"), two = !strcmp(key, "valueTwo");
	int e = index || value || two ? number(r, key, &v) : skip(r, 0);
	if (e)
		return e;
	if (index && v > 5)
		return td_fail(r->err, TD_INVALID, "index: a call has arguments 0 to 5");
	if (index)
		o->a.index = (unsigned)v, o->has_index = true;
	else if (value)
		o->a.value = v;
	else if (two)
		o->a.two = v;
	return 0;
}

static int on_arg(struct profile_reader *r, const char *key, void *ctx)
{
	static const char *const ops[] = {[TD_FILTER_NE] = "SCMP_CMP_NE",           [TD_FILTER_LT] = "SCMP_CMP_LT",
					  [TD_FILTER_LE] = "SCMP_CMP_LE",           [TD_FILTER_EQ] = "SCMP_CMP_EQ",
					  [TD_FILTER_GE] = "SCMP_CMP_GE",           [TD_FILTER_GT] = "SCMP_CMP_GT",
					  [TD_FILTER_MASKED] = "SCMP_CMP_MASKED_EQ"};
	struct one_rule *o = ctx;
	struct one_arg a = {0};
	(void)key;
	int e = each(r, true, on_arg_field, &a);
	if (e)
		return td_wrap(r->err, "syscalls[%zu].args[%zu]", o->at, o->n_args);
	size_t i = 0;
	while (i < TD_LEN(ops) && strcmp(ops[i], a.op) != 0)
		i++;
	a.a.op = (enum td_calls_op)i;
	if (!a.has_index || i == TD_LEN(ops))
		return td_fail(r->err, TD_INVALID,
			       "syscalls[%zu].args[%zu]: want index, value and op, such as SCMP_CMP_EQ", o->at,
			       o->n_args);
	if (a.a.op == TD_FILTER_MASKED && (a.a.two & ~a.a.value))
		return td_fail(
			r->err, TD_INVALID,
			"syscalls[%zu].args[%zu]: valueTwo has bits that value, the mask, has not: the rule would "
			"never hold",
			o->at, o->n_args);
	if (o->n_args == 64)
		return td_fail(r->err, TD_INVALID, "syscalls[%zu].args: more than 64", o->at);
	o->args = td_realloc(o->args, (o->n_args + 1) * sizeof(*o->args));
	o->args[o->n_args++] = a.a;
	return 0;
}

static int none(struct profile_reader *r, const char *key, void *ctx)
{
	(void)key;
	return td_fail(r->err, TD_INVALID, "syscalls[%zu]: includes and excludes are not served; leave them out",
		       *(size_t *)ctx);
}

static int on_rule_field(struct profile_reader *r, const char *key, void *ctx)
{
	struct one_rule *o = ctx;
	if (null(r))
		return 0;
	if (!strcmp(key, "names"))
		return each(r, false, on_name, o);
	if (!strcmp(key, "args"))
		return each(r, false, on_arg, o);
	if (!strcmp(key, "action"))
		return string(r, o->action);
	if (!strcmp(key, "errnoRet")) {
		o->has_error = true;
		return number(r, "errnoRet", &o->error);
	}
	if ((!strcmp(key, "includes") || !strcmp(key, "excludes")) && is(r, '{'))
		return each(r, true, none, &o->at);
	return skip(r, 0);
}

static int put(struct profile_reader *r, struct td_calls_profile *to, const struct td_calls_rule *rule)
{
	if (to->n == RULES_MAX)
		return td_fail(r->err, TD_INVALID, "syscalls: more than %d rules", RULES_MAX);
	to->rules = td_realloc(to->rules, (to->n + 1) * sizeof(*to->rules));
	to->rules[to->n++] = *rule;
	return 0;
}

// Conditions of one argument twice are alternatives, as the OCI runtimes have it.
static bool twice(const struct one_rule *o)
{
	unsigned seen = 0;
	for (size_t i = 0; i < o->n_args; i++) {
		if (seen & 1u << o->args[i].index)
			return true;
		seen |= 1u << o->args[i].index;
	}
	return false;
}

static int add(struct profile_reader *r, const struct one_rule *o)
{
	struct td_calls_rule rule = {0};
	if (!action_of(o->action, o->has_error ? o->error : EPERM, &rule.action))
		return td_fail(r->err, TD_INVALID, "syscalls[%zu].action: \"%.40s\" is no action here", o->at,
			       o->action);
	if (!o->named)
		return td_fail(r->err, TD_INVALID, "syscalls[%zu].names: want a list of system calls", o->at);
	bool apart = twice(o);
	for (size_t i = 0; i < o->n_calls; i++) {
		rule.call = o->calls[i];
		if (rule.call > o->to->newest)
			o->to->newest = rule.call;
		size_t rules = apart ? o->n_args : 1;
		for (size_t k = 0; k < rules; k++) {
			rule.n_args = apart ? 1 : o->n_args;
			for (size_t j = 0; j < rule.n_args; j++)
				rule.args[j] = o->args[apart ? k : j];
			int e = put(r, o->to, &rule);
			if (e)
				return e;
		}
	}
	return 0;
}

struct whole {
	struct td_calls_profile *to;
	size_t at;
	char action[NAME_MAX_LEN];
	uint64_t error;
	bool has_error, has_rules;
};

static int on_rule(struct profile_reader *r, const char *key, void *ctx)
{
	struct whole *w = ctx;
	struct one_rule o = {.to = w->to, .at = w->at++};
	(void)key;
	int e = each(r, true, on_rule_field, &o);
	if (!e)
		e = add(r, &o);
	free(o.args);
	free(o.calls);
	return e;
}

static int on_field(struct profile_reader *r, const char *key, void *ctx)
{
	struct whole *w = ctx;
	if (!strcmp(key, "defaultAction") && !*w->action)
		return string(r, w->action);
	if (!strcmp(key, "defaultAction") || (!strcmp(key, "syscalls") && w->has_rules))
		return td_fail(r->err, TD_INVALID, "%s stands there twice", key);
	if (null(r))
		return 0;
	if (!strcmp(key, "defaultErrnoRet")) {
		w->has_error = true;
		return number(r, key, &w->error);
	}
	if (!strcmp(key, "syscalls")) {
		w->has_rules = true;
		return each(r, false, on_rule, w);
	}
	return skip(r, 0);
}

void td_calls_profile_done(struct td_calls_profile *p)
{
	free(p->rules);
	*p = (struct td_calls_profile){0};
}

int td_calls_read(const char *json, size_t n, struct td_calls_profile *ret, struct td_error *err)
{
	td_auto_calls_profile struct td_calls_profile p = {0};
	struct profile_reader r = {json, json + n, err};
	struct whole w = {.to = &p};
	int e = each(&r, true, on_field, &w);
	if (e)
		return e;
	blank(&r);
	if (r.p < r.end)
		return wrong(&r, "nothing more");
	if (!action_of(w.action, w.has_error ? w.error : EPERM, &p.otherwise))
		return td_fail(err, TD_INVALID,
			       "defaultAction: \"%.40s\" is no action: write SCMP_ACT_ALLOW or SCMP_ACT_ERRNO",
			       w.action);
	*ret = p;
	p = (struct td_calls_profile){0};
	return 0;
}
