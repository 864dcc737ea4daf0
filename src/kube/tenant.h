// What a Tenant's object says about namespaces, and of people.
#pragma once

#include "kube/kube.h"

// Does its spec name this namespace? One that has the label only is nobody's, and a status may be behind.
bool td_kube_tenant_names(const struct td_object *tenant, const char *ns);
// A project: a Tenant below another one that has no namespaces.
bool td_kube_tenant_is_project(const struct td_object *tenant);
// Whether this entry of spec.members may run something there: all may but viewers. NULL: he is none, and may not.
bool td_kube_tenant_runs(const yyjson_val *member);
