// The entrance of room api: Kubernetes' objects as data, without a server and without a client. Below are the headers
// that other rooms include, each one what it needs; those that end in _priv.h, and embedded.h, fieldset.h and typed.h,
// are for this room alone.
//
// A kind is a file, kinds/<kind>.yaml: a structural schema and what a schema of Kubernetes says besides. One engine
// validates, defaults, prunes and merges objects of every kind by it, built-in ones and those of CRDs alike; rules that
// no schema can say are C, by kind.
//
// Files
//   schema.[ch] schema_priv.h   the schema engine: looking up fields, defaults, pruning; compile.c compiles schemas,
//   shared.c the parts
//                               that kinds share, validate.c validates, pattern.c matches, duplicates.c finds keys that
//                               stand twice
//   strategic.c apply.c         the engine's merges: kubectl's strategic merge patch; server-side apply, on typed.[ch]
//   (values seen through
//                               a schema) and fieldset.[ch] (sets of fields)
//   kinds.[ch] kinds_priv.h     the table of kinds; crd.c: kinds out of CRDs and CRDs out of kinds; embedded.h: what
//   embed.c put into the
//                               program; gen.c writes deploy/crds and docs/reference
//   rules.c                     which built-in kind has which rules and defaults of its own, in podcheck.c podparts.c
//   podupdate.c
//                               workloadcheck.c nodecheck.c datacheck.c eventcheck.c crdcheck.c rbac.c; meta.c: those
//                               of all kinds; podserved.c: what the embedded plane does not serve
//   names.[ch]                  names, labels and keys
//   selector.[ch] selector_priv.h   label and field selectors; fit.c: does a pod fit a node, and what does it ask for
//   quantity.[ch] quantity_priv.h   amounts: "500m", "2Gi"
//   condition.[ch]              conditions in an object's status
//   status.[ch]                 metav1.Status: refusals, with the causes that name field and fix
#pragma once

#include "api/condition.h"
#include "api/kinds.h"
#include "api/names.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/selector.h"
#include "api/status.h"
