// What people and tenants have used, from Slurm's history; and whose figures a person is shown.
#pragma once

#include "gateway/door.h"
#include "pool/usage.h"
#include "slurm/history.h"

// Days of Slurm's history, added up and kept for a while (usage.c). Thread-safe.
struct td_gateway_days;
struct td_gateway_days *td_gateway_days_new(void);
struct td_gateway_days *td_gateway_days_free(struct td_gateway_days *d);
enum { TD_GATEWAY_DAYS = 400 }; // at most so many are asked for at once
struct td_gateway_span {
	int64_t from, to; // days since 1970, of UTC: from one on and before another, up to now
	bool anew;        // nothing is older than this call
};
// The rows of all people. They are at most seconds old for days that have just been, and at most an hour for
// others. One asks Slurm at a time; those who waited for one that got no answer fail as it did.
int td_gateway_used(struct td_gateway *g, const struct td_gateway_span *span, struct td_cancel *c, struct td_usage *ret,
		    struct td_error *err);

// A person as Slurm's database and the Tenants know him (viewer.c).
struct td_gateway_viewer {
	char *user;
	bool all;                      // Slurm's operator or administrator
	struct td_strv leads;          // accounts whose people he sees
	struct td_objects tenants;     // none where the gateway may not read them
	const struct td_object **mine; // those of this SlurmCluster
	size_t n_mine;
};
// Fills the Tenants only: none where there is no such kind. TD_DENIED: the gateway may not read them.
int td_gateway_tenants(struct td_gateway *g, struct td_cancel *c, struct td_gateway_viewer *ret, struct td_error *err);
int td_gateway_viewer(struct td_gateway_ask *q, struct td_gateway_viewer *ret, struct td_error *err);
void td_gateway_viewer_done(struct td_gateway_viewer *v);
#define td_auto_viewer __attribute__((cleanup(td_gateway_viewer_done)))
// The Tenant of an account; NULL: it is no Tenant's.
const struct td_object *td_gateway_tenant_of(const struct td_gateway_viewer *v, const char *account);
// The Tenant above one, of these; NULL: it has none there. Parents may go in a circle: whoever walks up ends after as
// many steps as there are Tenants.
const struct td_object *td_gateway_parent(const struct td_object *const *all, size_t n, const struct td_object *t);
// Whether the Tenant is the named one or below it.
bool td_gateway_tenant_below(const struct td_gateway_viewer *v, const struct td_object *t, const char *top);
// His entry among a Tenant's members; NULL: he is none.
const yyjson_val *td_gateway_member(const struct td_object *tenant, const char *user);
// Whether he is the Tenant's admin. tenant NULL: he is not.
bool td_gateway_leads(const struct td_object *tenant, const char *user);

// ---- figures as they are shown (usage.c) ----
// Hours of seconds, to three digits; an amount of money, to cents.
double td_gateway_hours(double seconds);
double td_gateway_cents(double x);
// Whether the query asks for CSV instead of JSON. TD_INVALID: for neither.
int td_gateway_wants_csv(struct td_gateway_ask *q, bool *ret, struct td_error *err);
// Appends a field of CSV and a comma. What a spreadsheet would take for a formula is made text.
void td_gateway_csv(struct td_buf *b, const char *s);
