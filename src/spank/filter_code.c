// From a profile to the kernel's program. Calls are looked up by halves among ranges of numbers with the same answer,
// so a call costs some ten steps; one that is always allowed costs none (the kernel knows those).
#include "spank/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define OTHER_NUMBERS 0x40000000u // x32 has its own from here on
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the number of this architecture is in linux/audit.h"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the halves of an argument lie the other way round"
#endif

enum { CALLS = 1024, FAIL = 254, PASS = 253 }; // FAIL, PASS: jumps that are not known yet

struct code {
	struct td_calls_filter *f;
	const struct td_calls_profile *p;
	bool full;
};

static void put(struct code *c, struct sock_filter i)
{
	if (c->f->n == BPF_MAXINSNS)
		c->full = true;
	else
		c->f->v[c->f->n++] = i;
}
#define STMT(code, k) put(c, (struct sock_filter)BPF_STMT(code, k))
#define JUMP(code, k, yes, no) put(c, (struct sock_filter)BPF_JUMP(code, k, yes, no))
#define IF(op, k, yes, no) JUMP(BPF_JMP | BPF_K | (op), k, yes, no)
#define LOAD(field) STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(field))
#define RET(action) STMT(BPF_RET | BPF_K, action)

// The jumps of this kind since `from` lead to what comes next.
static void land(struct code *c, size_t from, unsigned char kind)
{
	for (size_t i = from; i < c->f->n; i++) {
		struct sock_filter *s = &c->f->v[i];
		if (BPF_CLASS(s->code) != BPF_JMP)
			continue;
		s->jt = s->jt == kind ? (unsigned char)(c->f->n - i - 1) : s->jt;
		s->jf = s->jf == kind ? (unsigned char)(c->f->n - i - 1) : s->jf;
	}
}

// One condition. FAIL leads behind the rule, PASS to what follows it.
static void condition(struct code *c, const struct td_calls_arg *a)
{
	unsigned low = (unsigned)(offsetof(struct seccomp_data, args) + a->index * 8), high = low + 4;
	uint32_t lo = (uint32_t)a->value, hi = (uint32_t)(a->value >> 32);
	size_t from = c->f->n;
	LOAD(high);
	switch (a->op) {
	case TD_FILTER_EQ:
		IF(BPF_JEQ, hi, 0, FAIL);
		LOAD(low);
		IF(BPF_JEQ, lo, 0, FAIL);
		break;
	case TD_FILTER_NE:
		IF(BPF_JEQ, hi, 0, PASS);
		LOAD(low);
		IF(BPF_JEQ, lo, FAIL, 0);
		break;
	case TD_FILTER_MASKED:
		STMT(BPF_ALU | BPF_AND | BPF_K, hi);
		IF(BPF_JEQ, (uint32_t)(a->two >> 32), 0, FAIL);
		LOAD(low);
		STMT(BPF_ALU | BPF_AND | BPF_K, lo);
		IF(BPF_JEQ, (uint32_t)a->two, 0, FAIL);
		break;
	case TD_FILTER_GT:
	case TD_FILTER_GE:
		IF(BPF_JGT, hi, PASS, 0);
		IF(BPF_JEQ, hi, 0, FAIL);
		LOAD(low);
		IF(a->op == TD_FILTER_GT ? BPF_JGT : BPF_JGE, lo, 0, FAIL);
		break;
	case TD_FILTER_LT:
	case TD_FILTER_LE:
		IF(BPF_JGT, hi, FAIL, 0);
		IF(BPF_JEQ, hi, 0, PASS);
		LOAD(low);
		IF(a->op == TD_FILTER_LT ? BPF_JGE : BPF_JGT, lo, FAIL, 0);
		break;
	}
	land(c, from, PASS);
}

// A rule is at most 6 conditions of at most 6 steps: its jumps fit.
static void rule(struct code *c, const struct td_calls_rule *r)
{
	size_t from = c->f->n;
	for (size_t i = 0; i < r->n_args; i++)
		condition(c, &r->args[i]);
	RET(r->action);
	land(c, from, FAIL);
}

// What becomes of the calls from one number to that of the next range.
struct range {
	unsigned from;
	uint32_t action;
	bool asks; // it depends on the arguments
};

static void answer(struct code *c, const struct range *r)
{
	for (size_t i = 0; r->asks && i < c->p->n; i++)
		if (c->p->rules[i].call == r->from && c->p->rules[i].action != c->p->otherwise)
			rule(c, &c->p->rules[i]);
	RET(r->action);
}

static void search(struct code *c, const struct range *v, size_t n)
{
	if (n == 1 || c->full) {
		answer(c, v);
		return;
	}
	size_t half = n / 2;
	IF(BPF_JGE, v[half].from, 0, 1);
	size_t far = c->f->n;
	STMT(BPF_JMP | BPF_JA, 0);
	search(c, v, half);
	if (far < c->f->n)
		c->f->v[far].k = (unsigned)(c->f->n - far - 1);
	search(c, v + half, n - half);
}

// A rule that says what the default says counts for nothing, as for the OCI runtimes.
static size_t ranges(const struct td_calls_profile *p, struct range *v)
{
	static const uint32_t missing = SECCOMP_RET_ERRNO | ENOSYS;
	size_t n = 0;
	for (unsigned nr = 0; nr < CALLS; nr++) {
		bool refused = (p->otherwise & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
		struct range r = {nr, refused && nr > p->newest ? missing : p->otherwise, false};
		bool decided = false;
		for (size_t i = 0; i < p->n && !decided; i++) {
			const struct td_calls_rule *x = &p->rules[i];
			if (x->call != nr || x->action == p->otherwise)
				continue;
			r.asks |= x->n_args > 0;
			decided = !x->n_args;
			if (decided)
				r = (struct range){nr, x->action, false};
		}
		if (!n || r.asks || v[n - 1].asks || v[n - 1].action != r.action)
			v[n++] = r;
	}
	return n;
}

int td_calls_compile(const char *json, size_t n, struct td_calls_filter *ret, struct td_error *err)
{
	td_auto_calls_profile struct td_calls_profile p = {0};
	int r = td_calls_read(json, n, &p, err);
	if (r)
		return r;
	td_auto_free struct td_calls_filter *f = td_calloc(1, sizeof(*f));
	td_auto_free struct range *v = td_calloc(CALLS, sizeof(*v));
	struct code code = {f, &p, false}, *c = &code;
	LOAD(offsetof(struct seccomp_data, arch));
	IF(BPF_JEQ, ARCH, 1, 0);
	RET(SECCOMP_RET_KILL_PROCESS);
	LOAD(offsetof(struct seccomp_data, nr));
#ifdef OTHER_NUMBERS
	IF(BPF_JGE, OTHER_NUMBERS, 0, 3);
	IF(BPF_JEQ, 0xffffffffu, 0, 1); // what a tracer leaves of a call that it takes away
	RET(p.otherwise);
	RET(SECCOMP_RET_KILL_PROCESS);
#endif
	search(c, v, ranges(&p, v));
	if (code.full)
		return td_fail(err, TD_INVALID, "syscalls: too many rules: the kernel takes %d steps", BPF_MAXINSNS);
	*ret = *f;
	return 0;
}

char *td_calls_text(const struct td_calls_filter *f)
{
	td_auto_buf struct td_buf b = {0};
	for (unsigned i = 0; i < f->n; i++)
		td_buf_printf(&b, "%04x%02x%02x%08x", f->v[i].code, f->v[i].jt, f->v[i].jf, f->v[i].k);
	return td_buf_take(&b);
}

bool td_calls_parse(const char *text, struct td_calls_filter *ret)
{
	enum { EACH = 16 };
	size_t len = strlen(text), n = len / EACH;
	if (!n || len % EACH || n > BPF_MAXINSNS || strspn(text, "0123456789abcdef") != len)
		return false;
	ret->n = (unsigned short)n;
	for (size_t i = 0; i < n; i++) {
		unsigned code, jt, jf, k;
		if (sscanf(text + i * EACH, "%4x%2x%2x%8x", &code, &jt, &jf, &k) != 4)
			return false;
		ret->v[i] = (struct sock_filter){(unsigned short)code, (unsigned char)jt, (unsigned char)jf, k};
	}
	return true;
}

bool td_calls_set(const struct td_calls_filter *f)
{
	struct sock_fprog p = {.len = f->n, .filter = (struct sock_filter *)(uintptr_t)f->v};
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
}
