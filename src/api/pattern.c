// The patterns of schemas, by PCRE2. Kubernetes accepts the language of RE2. What PCRE2 knows
// beyond it is refused, so that a pattern accepted here is accepted by Kubernetes too and means the
// same. Small differences stay: \s and \v match a little more than in RE2, and nested groups may
// repeat more than RE2's limit of 1000 in total.
//
// PCRE2's DFA matcher follows all ways through a pattern at once, as RE2 does, so no pattern makes
// it try exponentially many. The cost of a match is bounded by the length of the text, the number
// of calls, their depth and the memory.
//
// A pattern is compiled when the first value is checked against it. Most are never needed.
#include "api/schema_priv.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PATTERN_MAX = 4096, COMPILED_MAX = 256 << 10, NEST_MAX = 100, REPEAT_MAX = 1000 };
enum {
	TEXT_MAX = 64 << 10,
	MATCH_MAX = 1000000,
	DEPTH_MAX = 500,
	HEAP_KIB_MAX = 16 << 10,
	SPACE = 1000,
	SPACE_MAX = 1 << 20
};

// Checks what follows "(?": a group without capture, flags or a name are accepted. Lookaround,
// comments, conditions, recursion and callouts are not.
static bool group_ok(const char *p)
{
	if (*p == 'P')
		return p[1] == '<';
	if (*p == '<')
		return isalpha((unsigned char)p[1]) || p[1] == '_';
	p += strspn(p, "imsU-");
	return *p == ':' || *p == ')';
}

// Returns the length of "{2}", "{2,}" or "{2,5}"; 0 when the brace stands for itself; -1 when RE2
// and PCRE2 read it differently or a number is too large.
static int repeat(const char *p)
{
	unsigned long low = 0, high = 0;
	int n = 0;
	if (p[1] == ',' || p[1] == ' ')
		return -1;

	if (sscanf(p, "{%lu}%n", &low, &n) == 1 && n)
		return low > REPEAT_MAX ? -1 : n;
	if (sscanf(p, "{%lu,}%n", &low, &n) == 1 && n)
		return low > REPEAT_MAX ? -1 : n;
	if (sscanf(p, "{%lu,%lu}%n", &low, &high, &n) == 2 && n)
		return low > REPEAT_MAX || high > REPEAT_MAX ? -1 : n;
	return 0;
}

static int quantifier(const char *p)
{
	return *p == '*' || *p == '+' || *p == '?' ? 1 : *p == '{' ? repeat(p) : 0;
}

static bool escape_ok(char c, bool set)
{
	if (isdigit((unsigned char)c))
		return c == '0'; // no references to groups
	if (!isalpha((unsigned char)c))
		return true;
	return strchr(set ? "afnrtvxdDsSwWpP" : "afnrtvxdDsSwWpPAzbBQE", c) != NULL;
}

static bool is_re2(const char *re)
{
	bool set = false;

	for (const char *p = re; *p; p++) {
		if (*p == '\\') {
			if (!p[1] || !escape_ok(*++p, set))
				return false;
			if (!set && *p == 'Q') { // literal text up to \E
				const char *end = strstr(p, "\\E");
				if (!end)
					return true;
				p = end + 1;
			}
		} else if (set) {
			set = *p != ']';
			if (*p == '[' && p[1] == ':') {
				const char *end = strstr(p + 2, ":]");
				if (p[2] == '<' || p[2] == '>' || !end)
					return false;
				p = end + 1;
			}
		} else if (*p == '[') {
			set = true;
			p += p[1] == '^';
			p += p[1] == ']';
		} else if (*p == '(') {
			if (p[1] == '*' || (p[1] == '?' && !group_ok(p + 2)))
				return false;
			if (p[1] == '?')
				p++;
		} else {
			int n = quantifier(p);
			if (n < 0)
				return false;
			if (!n)
				continue;
			p += n;
			p += *p == '?';    // lazy: the same language
			if (quantifier(p)) // possessive, or a repeat of a repeat
				return false;
			p--;
		}
	}
	return true;
}

static pcre2_code *compile(const char *pattern)
{
	size_t n = strlen(pattern), size = 0, at;
	int why;

	if (n > PATTERN_MAX || !is_re2(pattern))
		return NULL;

	pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
	pcre2_set_parens_nest_limit(limits, NEST_MAX);
	pcre2_set_newline(limits, PCRE2_NEWLINE_LF);
	pcre2_code *re = pcre2_compile(
		(PCRE2_SPTR)pattern, n,
		PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &why, &at, limits);
	pcre2_compile_context_free(limits);

	if (re && (pcre2_pattern_info(re, PCRE2_INFO_SIZE, &size) || size > COMPILED_MAX)) {
		pcre2_code_free(re);
		return NULL;
	}
	return re;
}

bool td_pattern_ok(const char *pattern)
{
	pcre2_code *re = compile(pattern);
	pcre2_code_free(re);
	return re;
}

static const pcre2_code *compiled(struct td_pattern *p)
{
	// Guards the compilation of every p->re.
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pcre2_code *re = __atomic_load_n(&p->re, __ATOMIC_ACQUIRE);
	if (re)
		return re;
	pthread_mutex_lock(&lock);
	if (!p->re) {
		re = compile(p->text);
		// It could be compiled when the schema was accepted.
		if (!re) {
			fprintf(stderr, "pattern %s cannot be compiled\n", p->text);
			abort();
		}
		__atomic_store_n(&p->re, re, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return p->re;
}

bool td_pattern_matches(struct td_pattern *p, const char *s, size_t n)
{
	const pcre2_code *re = compiled(p);
	if (n > TEXT_MAX)
		return false;
	pcre2_match_context *limits = pcre2_match_context_create(NULL);
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);

	pcre2_set_match_limit(limits, MATCH_MAX);
	pcre2_set_depth_limit(limits, DEPTH_MAX);
	pcre2_set_heap_limit(limits, HEAP_KIB_MAX);

	int few[SPACE];
	int rc = pcre2_dfa_match(re, (PCRE2_SPTR)s, n, 0, PCRE2_DFA_SHORTEST, data, limits, few, SPACE);
	// The pattern follows many ways at once and needs more space.
	if (rc == PCRE2_ERROR_DFA_WSSIZE) {
		td_auto_free int *many = td_malloc(SPACE_MAX * sizeof(int));
		rc = pcre2_dfa_match(re, (PCRE2_SPTR)s, n, 0, PCRE2_DFA_SHORTEST, data, limits, many, SPACE_MAX);
	}

	pcre2_match_data_free(data);
	pcre2_match_context_free(limits);
	return rc >= 0;
}

void td_pattern_done(struct td_pattern *p)
{
	pcre2_code_free(p->re);
}
