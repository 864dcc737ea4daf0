// People who are in the directory service only (spec.identity.ldap of the SlurmCluster) and not in
// spec.users. SSSD says who they are, asked in slurmctld's pod, so a person is at the gateway whom Slurm
// takes him for: the same uid, the same name. The directory's password stays in SSSD's own container.
//
// An answer counts for the directory's cacheSeconds, and for a minute at most. While it cannot be asked, who was known stays known for
// some minutes more. Thread-safe.
#pragma once

#include "gateway/gateway.h"

struct td_gateway_directory *td_gateway_directory_new(void);
struct td_gateway_directory *td_gateway_directory_free(struct td_gateway_directory *d);

// Who `name` is. TD_NOT_FOUND: the directory has nobody of that name. TD_DENIED: it has, but he may be nobody
// here; err says why. TD_TRANSIENT: it cannot be asked now.
int td_gateway_directory_user(struct td_gateway *g, const struct td_object *cluster, const char *name,
			      struct td_gateway_user *ret, struct td_error *err);

// What programs/who.sh says of `name` (pure). Errors as above; TD_TRANSIENT also for what it never says.
int td_gateway_directory_parse(const char *said, const char *name, struct td_gateway_user *ret, struct td_error *err);
