// What a Tenant's object says about namespaces.
#pragma once

#include "kube/kube.h"

// Does its spec name this namespace? One that has the label only is nobody's, and a status may be behind.
bool td_kube_tenant_names(const struct td_object *tenant, const char *ns);
