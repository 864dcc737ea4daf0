// The entrance of room api: objects of Kubernetes as data, without a server and without a client.
// Other rooms include the headers below, each the ones it needs. Headers that end in _priv.h, and
// embedded.h, fieldset.h and typed.h, are for this room only.
//
// A kind is a file, kinds/<kind>.yaml: a structural schema and what else Kubernetes knows about the
// kind (names, subresources, columns). One engine validates, defaults, prunes and merges objects of
// every kind by its schema, built-in kinds and those of CRDs alike. Rules that no schema can
// express are C, by kind.
//
// Files
//   schema.[ch] schema_priv.h   the schema engine: fields, defaults, pruning
//   compile.c shared.c          compiles schemas; the parts that kinds share
//   validate.c pattern.c        validates; regular expressions
//   duplicates.c                keys that occur twice in one object
//   storagequota.[ch]           the words of a quota that are about storage
//   strategic.c                 kubectl's strategic merge patch
//   apply.c                     server-side apply and managedFields
//   typed.[ch] fieldset.[ch]    what apply.c needs: values seen through a schema, sets of fields
//   kinds.[ch] kinds_priv.h     the table of kinds
//   dataset.[ch]                what a Dataset says of its copies, for who fetches them
//   crd.c                       kinds from CRDs and CRDs from kinds
//   embed.c embedded.h          the build tool that puts the kind files into the program
//   gen.c                       the build tool that writes deploy/crds and docs/reference
//   rules.c                     which built-in kind has which rules and defaults in C
//   podcheck.c podparts.c podupdate.c workloadcheck.c nodecheck.c    these rules
//   datacheck.c eventcheck.c crdcheck.c claimcheck.c policycheck.c rbac.c    more of them
//   meta.c                      the rules of metadata, for all kinds
//   podserved.c                 what the embedded API and embedded nodes do not serve
//   block.[ch] grant.[ch]       blocks of addresses; the devices of a grant, in an annotation
//   othercluster.[ch]           the part of a NodeSet whose nodes are another cluster's
//   gpuparts.[ch]               in which parts GPUs can be cut, in an annotation
//   names.[ch]                  names, labels and keys
//   person.[ch]                 as whom the pods of a Tenant run
//   selector.[ch] selector_priv.h    label and field selectors
//   taint.[ch]   the taints of Tandem's own on a Node
//   fit.c                       whether a pod fits a node, and what it requests
//   quantity.[ch] quantity_priv.h    amounts: "500m", "2Gi"
//   kubeconfig.[ch]             the kubeconfig of one user of an embedded plane
//   condition.[ch]              conditions in the status of an object
//   annotations.[ch]            what a pod may say to Slurm, as one table
//   status.[ch]                 metav1.Status: refusals, with causes that name field and fix
#pragma once

#include "api/condition.h"
#include "api/kinds.h"
#include "api/names.h"
#include "api/quantity.h"
#include "api/schema.h"
#include "api/selector.h"
#include "api/status.h"
