// tandem project, in parts.
#pragma once

#include "cli/common.h"
#include "cli/remote.h"

struct td_project_asked {
	struct td_remote remote;
	const char *tenant, *output;
	struct td_strv members, quota;
	int weight; // 0: none was given
};
// A word of --quota, RESOURCE=AMOUNT, in its parts. The caller frees the resource; the amount lies in the word.
int td_project_quota(const char *word, char **ret_resource, const char **ret_amount, struct td_error *err);
// Shows {"projects": […]}, as they are listed.
void td_project_show(const yyjson_val *all, const struct td_project_asked *a);
// project_own.c: the same verbs at the gateway, for the projects of his own Tenants.
int td_project_own(const struct td_project_asked *a, const char *verb, const char *name, const char *user,
		   struct td_error *err);
