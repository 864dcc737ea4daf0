// Projects of a Tenant's own admins (docs/tenants.md): which of them can be, and who is in them.
//
// Whoever makes one has no rights beyond his Tenant. So its account is named after the Tenant, only people who run in the
// Tenant are in it, and it is given no more of anything than the Tenant. Pure, as pool.h.
#pragma once

#include "pool/tenant.h"

enum { TD_POOL_PROJECT_NAME = 63 }; // bytes of TENANT.PROJECT at most

struct td_pool_project {
	const char *name;
	const struct td_pool_tenant *tenant; // whose namespace it is in; NULL: nobody's
	const char *const *people;           // who run in the Tenant
	size_t n_people;
	const char *const *asked; // whom it names
	size_t n_asked;
	bool all; // it names nobody, and means all of them
	const struct td_pool_tres *quota;
	size_t n_quota;
};
struct td_pool_project_verdict {
	const char *account; // "TENANT.PROJECT"; NULL: it can have none, and if there is one it goes
	const char *const *members;
	size_t n_members;
	bool fits;                    // its quota may be what it says
	const char *reason, *message; // of the first thing that is wrong; NULL: nothing is
};
// Everything lives in the arena or in p.
void td_pool_project_judge(struct td_arena *arena, const struct td_pool_project *p,
			   struct td_pool_project_verdict *ret);
