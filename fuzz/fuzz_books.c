// Dumps of a strange slurmdbd: whatever they hold, the commands that come of them are sacctmgr's add and modify, one in
// each line, of a length that it reads, with quotes in pairs; and who merges books with themselves changes nothing.
// rows: C6.5
#include "slurm/books.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "broken: %s\n", #x);                                                           \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

static void check(const struct td_books_plan *p)
{
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, p->commands.len ? p->commands.s : "", '\n');
	MUST(lines.n == p->n);
	for (size_t i = 0; i < lines.n; i++) {
		const char *s = lines.v[i];
		size_t quotes = 0;
		MUST(td_starts(s, "add ") || td_starts(s, "modify "));
		MUST(strlen(s) < 4096);
		for (const char *c = s; *c; c++) {
			MUST((unsigned char)*c >= ' ' && *c != '\'' && *c != '\\');
			quotes += *c == '"';
			MUST(*c != ' ' || quotes % 2 || c[1] != ' ');
		}
		MUST(quotes % 2 == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	// A dump; after a line "==" QOS, after another one passwd.
	td_auto_free char *text = td_strndup((const char *)data, size);
	char *qos = strstr(text, "\n==\n"), *passwd = qos ? strstr(qos + 4, "\n==\n") : NULL;
	td_auto_books struct td_books a = {0}, fresh = {0};
	if (qos)
		qos[1] = '\0';
	if (passwd)
		passwd[1] = '\0';
	if (td_books_read("dump", text, &a, NULL) || (qos && td_books_read_qos("qos", qos + 4, &a, NULL)))
		return 0;
	MUST(!td_books_read("fresh", "Cluster - 'main':QOS='normal'\n", &fresh, NULL));
	td_auto_books_plan struct td_books_plan p = {0}, again = {0};
	td_books_merge(&a, &fresh, "main", "tandem", &p);
	check(&p);
	td_books_merge(&a, &a, "main", "tandem", &again);
	check(&again);
	for (size_t i = 0; i < again.n; i++)
		MUST(again.commands.s && !strstr(again.commands.s, "add account"));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_strv struct td_strv left = {0};
	td_books_people(&a, passwd ? passwd + 4 : "", NULL, d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "users"),
			&left);
	return 0;
}
