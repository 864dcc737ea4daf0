// The books of a slurmdbd: QOS, accounts, people, their limits and shares, as Slurm's own commands print them, and what
// another slurmdbd lacks of them, as commands for its sacctmgr (docs/adopt.md). Pure.
//
// Nothing that stands in the other books is changed: a row that is not there is made, what a row does not say is filled
// in, and where both say something and not the same, it is told. Rows of Tenants are told about only.
//
// Files: books.c (what a row is), books_read.c, books_merge.c, books_people.c; books_use.h (what people have used).
#pragma once

#include "base/err.h"
#include "json/json.h"

// The columns of `sacctmgr -P show qos format=…` that make a QOS whole.
#define TD_BOOKS_QOS_FORMAT                                                                                            \
	"Name,Description,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags,UsageThreshold,UsageFactor,"  \
	"LimitFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpJobsAccrue,GrpSubmit,GrpWall,MaxTRES,"              \
	"MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxJobsAccruePU,MaxJobsAccruePA,MaxSubmitPU,"          \
	"MaxTRESPA,MaxTRESRunMinsPA,MaxTRESRunMinsPU,MaxJobsPA,MaxSubmitPA,MinPrioThresh,MinTRES"
enum { TD_BOOKS_MAX = 64 << 20 }; // bytes of one text
enum td_books_kind {
	TD_BOOKS_QOS,
	TD_BOOKS_CLUSTER, // limits of everybody: those of account root
	TD_BOOKS_ACCOUNT,
	TD_BOOKS_PERSON, // default account, admin level, coordinator of which accounts
	TD_BOOKS_ASSOC,  // of a person in an account
};
struct td_books_field {
	const char *name; // as sacctmgr sets it; a constant
	char *value;      // of letters that need no quoting inside of '"'
};
struct td_books_row {
	enum td_books_kind kind;
	char *name;           // of QOS, account or person
	char *in, *partition; // of an association: the account, and the partition ("": all). Else ""
	struct td_books_field *v;
	size_t n, line; // line: of the text, from 1
};
struct td_books {
	struct td_books_row *v; // sorted by td_books_order()
	size_t n, room;
	struct td_strv left; // what is not taken over, a line each: where it stands, what it is, what to do
};
void td_books_done(struct td_books *b);
#define td_auto_books __attribute__((cleanup(td_books_done)))

// Reads what `sacctmgr dump CLUSTER` wrote. name: the file's, for messages. Of a row that is there twice the first one
// counts. TD_INVALID: it is no such text.
int td_books_read(const char *name, const char *text, struct td_books *ret, struct td_error *err);
// Adds the rows of `sacctmgr -P show qos`, with the columns that its first line names.
int td_books_read_qos(const char *name, const char *text, struct td_books *ret, struct td_error *err);
// One column of a line, which may be empty; it ends at '|' or the line. Returns what follows; NULL: nothing.
char *td_books_column(char *line, char **ret);
// A stranger's words go to an administrator's terminal: no control characters are in them.
void td_books_printable(char *text);
// Whether a may stand for a name of Slurm's in a command.
bool td_books_is_name(const char *a);
int td_books_order(const void *a, const void *b);
// NULL: there is none.
const struct td_books_row *td_books_find(const struct td_books *b, enum td_books_kind kind, const char *name,
					 const char *in, const char *partition);
const char *td_books_get(const struct td_books_row *r, const char *field); // NULL: the row does not say

struct td_books_plan {
	struct td_buf commands; // a line each, for the standard input of `sacctmgr -i`, in their order
	size_t n;
	struct td_strv differs; // what stands differently in the other books, or is a Tenant's
	struct td_strv left;    // rows that cannot be: whose parent or account is nowhere
	struct td_strv rights;  // who gets rights over others by these commands
};
void td_books_plan_done(struct td_books_plan *p);
#define td_auto_books_plan __attribute__((cleanup(td_books_plan_done)))
// What cluster `cluster` with the books `to` lacks of `from`. mark: the organization and comment of Tenants' rows
// (TD_POOL_TENANT_MARK). Costs the rows' number times its logarithm.
void td_books_merge(const struct td_books *from, const struct td_books *to, const char *cluster, const char *mark,
		    struct td_books_plan *ret);

// Adds the people of the books whom lines of passwd(5) name to list, as spec.users of a SlurmCluster has them. has: the
// list that is there (NULL: none); who is in it stays as he is. left: who cannot be taken, and what to do.
void td_books_people(const struct td_books *b, const char *passwd, const yyjson_val *has, yyjson_mut_doc *d,
		     yyjson_mut_val *list, struct td_strv *left);
