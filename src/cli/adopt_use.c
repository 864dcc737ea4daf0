// tandem adopt use: what people have used in the old Slurm counts in the pool's fair share (docs/adopt.md).
//
// slurmctld reads it from a file of its state when it starts, and from nowhere else. What is to be added is laid beside
// that file, slurmctld is ended, and slurmctld.sh adds it before the next one starts. Which rows were added is noted there
// with them, so that the same command goes on where it was interrupted and counts nothing twice.
#include "cli/adopt.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "slurm/books.h"
#include "slurm/books_use.h"

#include <stdio.h>
#include <string.h>

enum { UP_MS = 300000, LOOK_MS = 1000, LOOK_S = 60 }; // LOOK_S: of one look, which takes ten seconds

static int read_old(const struct td_cli_adopt *a, const char *file, struct td_use *ret, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	char *const argv[] = {"sshare", "-a", "-m", "-P", "-o", TD_USE_FORMAT, NULL};
	int r = !file ? td_cli_adopt_old(a, argv, &text, err)
		      : td_file_read(!strcmp(file, "-") ? "/dev/stdin" : file, TD_BOOKS_MAX, &text, err);
	return r ? r : td_use_read(file ? file : "sshare", td_buf_str(&text), ret, err);
}

struct use_pool {
	struct td_cli_adopt_pod login, ctld;
	char *name; // the first slurmctld's pod
};

static int ask(const struct td_cli_adopt_pod *p, const char *what, const char *word, struct td_buf *ret,
	       struct td_error *err)
{
	const char *const words[] = {what, word, NULL};
	return td_cli_adopt_in(p, words, NULL, ret, err);
}

// Ends slurmctld, and waits until the next one has read what lies there.
static int bring(const struct use_pool *p, struct td_error *err)
{
	int64_t end = td_mono_ms(&td_clock_system) + UP_MS;
	td_auto_buf struct td_buf said = {0};
	struct td_cli_adopt_pod ctld = p->ctld;
	ctld.within_s = LOOK_S;
	printf("slurmctld starts anew\n");
	fflush(stdout);
	int r = ask(&ctld, "again", NULL, &said, err);
	// The container may be gone before kubectl has its answer.
	for (; r || (r = ask(&ctld, "up", NULL, &said, err)); r = 0) {
		if (td_mono_ms(&td_clock_system) > end)
			return td_fail(err, TD_TRANSIENT,
				       "slurmctld has not read what people have used after five minutes: see `kubectl "
				       "-n %s logs %s`, and give the command again",
				       p->login.l->ns, p->name);
		td_cancel_wait(NULL, LOOK_MS);
	}
	return 0;
}

// What the pool has; what was given before is brought first where it lies there still.
static int plan(const struct use_pool *p, const struct td_use *old, struct td_use_plan *ret, struct td_error *err)
{
	td_auto_buf struct td_buf books = {0}, taken = {0};
	int r = ask(&p->ctld, "taken", NULL, &taken, err);
	if (!r && td_ends(td_buf_str(&taken), "waits\n"))
		r = bring(p, err);
	if (r || (r = ask(&p->login, "books", p->login.l->cluster, &books, err)))
		return r;
	char *tres = books.len ? strstr(books.s, "==\n") : NULL;
	if (!tres)
		return td_fail(err, TD_TRANSIENT, "sacctmgr in %s/%s printed no associations", p->login.l->ns,
			       p->login.l->pod);
	*tres = '\0';
	const struct td_use_pool pool = {books.s, tres + strlen("==\n"), td_buf_str(&taken)};
	td_use_give(old, &pool, ret);
	return 0;
}

static int apply(const struct use_pool *p, const struct td_use *old, struct td_error *err)
{
	const char *const give[] = {"give", NULL};
	td_auto_use_plan struct td_use_plan plans = {0};
	td_auto_use struct td_use is = {0};
	td_auto_buf struct td_buf shown = {0}, said = {0}, in = {0};
	// First, because a pool without fair share has no use for it: sshare says so.
	int r = ask(&p->login, "shown", TD_USE_FORMAT, &shown, err);
	if (!r)
		r = td_use_read("the pool's sshare (it needs PriorityType=priority/multifactor)", td_buf_str(&shown),
				&is, err);
	if (r || (r = plan(p, old, &plans, err)))
		return r;
	td_cli_adopt_say("Not taken over:", &plans.left);
	if (plans.before)
		printf("%zu rows were given before, and count once\n", plans.before);
	if (!plans.n) {
		puts("nothing is left to give");
		return 0;
	}
	td_buf_printf(&in, "%s==\n%s==\n", td_buf_str(&plans.rows), td_buf_str(&plans.records));
	if ((r = td_cli_adopt_in(&p->ctld, give, td_buf_str(&in), &said, err)) || (r = bring(p, err)))
		return r;
	td_use_done(&is);
	td_buf_reset(&shown);
	if ((r = ask(&p->login, "shown", TD_USE_FORMAT, &shown, err)) ||
	    (r = td_use_read("the pool's sshare", td_buf_str(&shown), &is, err)))
		return r;
	size_t missing = td_use_missing(&plans, &is);
	printf("%zu rows of use count in the pool\n", plans.n - missing);
	return missing ? td_fail(err, TD_INTERNAL, "sshare of the pool shows nothing of %zu rows: see slurmctld's log",
				 missing)
		       : 0;
}

int td_cli_adopt_use(struct td_cli_adopt *a, const char *file, struct td_error *err)
{
	td_auto_use struct td_use old = {0};
	td_auto_login struct td_cli_login l = {0};
	int r = read_old(a, file, &old, err);
	if (r)
		return r;
	td_cli_adopt_say("Not taken over:", &old.left);
	if (!a->apply) {
		puts("Account|User|Partition|RawUsage|GrpTRESRaw");
		for (size_t i = 0; i < old.n; i++)
			if (old.v[i].raw)
				printf("%s|%s|%s|%lld|%s\n", old.v[i].account, old.v[i].user, old.v[i].partition,
				       old.v[i].raw, old.v[i].tres);
		return 0;
	}
	td_cli_adopt_login(a, &l);
	td_auto_free char *ctld = td_asprintf("%s-slurmctld-0", l.cluster);
	const struct use_pool p = {
		{&l, NULL, "adopt-use.sh", TD_CLI_ADOPT_S}, {&l, ctld, "adopt-use.sh", TD_CLI_ADOPT_S}, ctld};
	return apply(&p, &old, err);
}
