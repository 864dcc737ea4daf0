// The API server and one request in it. A handler returns 0 when it has replied, else a negative
// code with *r filled; the dispatcher (route.c) then sends the refusal. Handlers run on the
// connection's thread.
//
// Files
//   main.c dev.[ch]                    the role and its options; a throw-away server for tests
//   route.c                            from a path to a handler
//   auth.c token.c oidc.c              authentication: certificates, tokens, people, impersonation
//   rbac.[ch] rbac_cache.c reviews.c   authorization, and the review APIs that ask about it
//   options.c body.c                   what a request says: its query, its body
//   protobuf.[ch] protobuf_fields.h    bodies in Kubernetes' protobuf
//   read.c watch.c write.c patch.c delete.c   the verbs
//   object.c                           from what was sent to what is stored
//   admit.c account.c grant.c maker.c whose.c identity.c filter.c users.c disk.c networks.c claims.c through.c   admission: what the
//                                      server adds and refuses
//   pods.c evict.c scale.c crd.c       what only some kinds have
//   reply.c refuse.[ch]                replies: objects and refusals
//   table.c cells.[ch] cells_pod.c cells_access.c jsonpath.[ch]   the tables that kubectl prints
//   registry.[ch] discovery.c openapi.c   which kinds are served, and how clients learn of them
//   item.[ch] store.[ch] store_priv.h store_table.c store_write.c   the objects in memory
//   db.[ch] mark.[ch]                  the objects on file
//   bootstrap.c bootstrap_api.c bootstrap_rbac.c   objects that always exist
//   ticker.[ch] expiry.[ch]            what happens by time alone
//   health.c metrics.c                 what the server shows of itself
#pragma once

#include "apiserver/rbac.h"
#include "apiserver/refuse.h"
#include "apiserver/registry.h"
#include "apiserver/store.h"
#include "base/clock.h"
#include "http/server.h"

enum { TD_BODY_MAX = 3 << 20 }; // bytes of a request's body; the limit of a real API server

struct td_srv {
	struct td_store *store;
	struct td_registry *reg;
	struct td_rbac_cache *rbac;
	struct td_srv_people *people; // NULL: nobody comes by an issuer
	const struct td_clock *clock;
	char *agent_socket;
	const char *other_socket; // who has the pods of Nodes that stand for another cluster's; NULL: nobody
	void *sa_key;             // HMAC key of tokens
	size_t sa_key_len;
	// The IPv4 address and port at which pods reach this server. address NULL: they do not
	// reach it.
	char *address;
	int port;
	bool ready;            // atomic
	struct td_srv_counts { // atomic
		uint64_t requests, refused, watch_events, watch_expired;
		int64_t watches;
	} count;
};

struct td_user {
	char *name; // NULL: not authenticated
	char *uid;  // of a service account; may be NULL
	struct td_strv groups;
	struct td_strv extra; // "key=value": what the user's token is bound to
};
void td_user_done(struct td_user *u);
bool td_user_in(const struct td_user *u, const char *group);
// Whether this is the user name of a service account. The outputs may be NULL; the caller frees
// them.
bool td_user_account(const char *user, char **ret_ns, char **ret_name);
// Adds the groups that every service account of namespace ns is in.
void td_user_account_groups(struct td_user *u, const char *ns);

enum td_as { TD_AS_OBJECT, TD_AS_TABLE, TD_AS_PARTIAL };
enum td_strictness { TD_FIELDS_WARN, TD_FIELDS_STRICT, TD_FIELDS_IGNORE };

struct td_req {
	struct td_srv *s;
	struct td_http_x *x;
	struct td_arena *arena;
	struct td_user user;
	struct td_snap *snap;
	const struct td_res *res;
	const struct td_kind *k; // res->kind
	const char *verb;        // get list watch create update patch delete deletecollection
	const char *group, *version, *plural, *ns, *name, *sub; // "" when absent
	const char *path;
	bool patched; // the body is a patch of another object, but not a server-side apply
	enum td_as as;
	bool yaml;
	bool dry_run;
	enum td_strictness strictness;
	const char *manager;
	int64_t now; // ms
};

// The handler of the HTTP server. ctx: struct td_srv.
void td_srv_handle(struct td_http_x *x, void *ctx);
// The HTTP server's answer to a request that it could not read.
void td_srv_refused(struct td_http_x *x, int status, const char *why, void *ctx);
// Creates what always exists: the namespaces default and kube-…, and the system PriorityClasses.
int td_srv_bootstrap(struct td_srv *s, struct td_error *err);
// Creates the Service default/kubernetes with its Endpoints and EndpointSlice. A later call puts
// them right again.
int td_srv_bootstrap_api(struct td_srv *s, struct td_error *err);
// A part of td_srv_bootstrap: ClusterRoles and their bindings.
int td_srv_bootstrap_rbac(struct td_srv *s, struct td_error *err);

// ---- auth.c ----
// Who sends the request; refuses with 401. ret->name NULL: no credentials were sent.
int td_auth_user(struct td_srv *s, struct td_http_x *x, struct td_user *ret, struct td_refusal *r);
// Whether q's user may do what q asks; refuses with 403.
int td_auth_may(const struct td_req *q, struct td_refusal *r);
// The same, as if q had that verb.
int td_auth_may_verb(const struct td_req *q, const char *verb, struct td_refusal *r);
// Whether the user may do what *a asks. Fills in a->user and a->groups. *ret_why: as
// td_rbac_allows.
bool td_auth_ask(const struct td_srv *s, const struct td_user *u, struct td_rbac_ask *a, char **ret_why);
// Fills r with the 403 of the question *a; why may be NULL.
int td_auth_forbid(const struct td_rbac_ask *a, const char *why, struct td_refusal *r);
// Whether the user is one of Tandem's own roles (group tandem:roles).
bool td_auth_is_role(const struct td_user *u);

// ---- token.c ----
// Default token audience; also the issuer.
#define TD_AUDIENCE "https://kubernetes.default.svc"
// Fills *ret with the user whose token this is. The token must be for one of `audiences`;
// *ret_audiences (may be NULL) gets those that it is for. Returns TD_UNAUTHENTICATED, or
// TD_TRANSIENT as td_srv_person(), with *ret_why (may be NULL; the caller frees it).
struct td_srv_token {
	const char *text;
	const struct td_strv *audiences;
	struct td_cancel *cancel; // an issuer may have to be asked
};
int td_token_user(struct td_srv *s, const struct td_srv_token *t, struct td_user *ret, struct td_strv *ret_audiences,
		  char **ret_why);
int td_do_token(struct td_req *q, struct td_refusal *r); // serviceaccounts/token

// ---- oidc.c ----
struct td_srv_people *td_srv_people_new(struct td_store *s, const struct td_clock *clock);
struct td_srv_people *td_srv_people_free(struct td_srv_people *p);
// Fills *ret when the token is of the issuer of a SlurmCluster and its person one of that one's users.
// TD_UNAUTHENTICATED: not so. TD_TRANSIENT: the issuer cannot be asked, so nobody knows.
int td_srv_person(struct td_srv *s, const char *token, struct td_cancel *c, struct td_user *ret);

// ---- account.c ----
// Makes sure that the namespace has its ServiceAccount "default".
int td_account_ensure(struct td_srv *s, const char *ns, struct td_error *err);
// Gives a new pod its service account and the volume with its token. 403: no such service account.
int td_account_admit(struct td_req *q, yyjson_mut_doc *d, const char *pod, struct td_refusal *r);

// ---- grant.c: nobody grants more than they have ----
int td_srv_grant_check(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);
// ---- admit.c: what admission is made of ----
// Refuses the request's object of this name (403): `plural.group "name" is forbidden: …`. name NULL: it has none yet.
int td_srv_forbid(struct td_req *q, struct td_refusal *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
// Each container of a pod, those that begin it too; what is no object is left to validation, which refuses it. Begin with
// {.pod = …}. False: there are no more.
struct td_srv_container {
	yyjson_mut_val *pod, *is;
	const char *list; // "spec.containers", of which it is the one at `at`
	size_t at, lists;
	yyjson_mut_arr_iter in;
};
bool td_srv_container_next(struct td_srv_container *c);
// ---- filter.c: the filter of system calls of a new pod, where its namespace has one ----
int td_srv_filter(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r);
// ---- users.c: the user namespace of a new pod, where its namespace asks for one ----
int td_srv_users(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r);
// ---- disk.c: what the containers of a new pod may hold of a node's disk, where its namespace says so ----
int td_srv_disk(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r);
// ---- through.c: the scheduler of a new pod that asks for devices, where its namespace names one ----
void td_srv_through(struct td_req *q, yyjson_mut_doc *d);
// ---- claims.c: what claims may ask for where a Tenant's quota says so ----
// Refuses one that goes beyond it. *ret_held: until td_srv_claims_leave nobody else adds to what claims have.
int td_srv_claims_enter(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, bool *ret_held,
			struct td_refusal *r);
void td_srv_claims_leave(bool held);
// ---- networks.c: which network a pod is in, and who may write policies ----
int td_srv_networks(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);
int td_srv_networks_delete(struct td_req *q, const char *name, struct td_refusal *r);
// ---- identity.c: as whom a pod runs, where its namespace's Tenant says that ----
// A new pod, whose person td_srv_whose() has written. _kept: a changed one. _enter: who gets into it (exec, attach).
int td_srv_identity(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r);
int td_srv_identity_kept(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);
int td_srv_identity_enter(struct td_req *q, const struct td_item *pod, struct td_refusal *r);
// ---- maker.c: who made a record, or asked for an act on a node ----
void td_srv_maker(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d);
// ---- whose.c: whose a pod is ----
int td_srv_whose(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);

// ---- reply.c ----
// Sets q->as and q->yaml from Accept.
int td_reply_negotiate(struct td_req *q, struct td_refusal *r);
// Sends JSON text, converted to YAML when q asks for YAML.
void td_reply_json(struct td_req *q, int status, const char *text, size_t len);
void td_reply_doc(struct td_req *q, int status, yyjson_mut_doc *d); // d stays the caller's
// Sends the item as object, Table or PartialObjectMetadata.
void td_reply_item(struct td_req *q, int status, const struct td_item *i);
void td_reply_success(struct td_req *q, int status, const char *name, const char *uid);
void td_reply_refusal(struct td_http_x *x, const struct td_refusal *r);
void td_reply_warn(struct td_req *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool td_query_true(const struct td_req *q, const char *name);
// The 404 of an object: `pods "x" not found`.
int td_refuse_not_found(const struct td_req *q, const char *name, struct td_refusal *r);
// The item as clients of kind k see it: under k's API version, and for a custom resource with the
// defaults that its schema has now (they may be younger than the object). Returns a new reference,
// to i itself where nothing differs.
struct td_item *td_item_shown(const struct td_kind *k, const struct td_item *i);
// The object of q's kind and namespace, as td_item_shown gives it; NULL: there is none.
struct td_item *td_item_get(const struct td_req *q, const char *name);
// Appends the item's bytes under k's API version and kind. The second function leaves kind and
// apiVersion out of items of built-in kinds: the list names them once.
void td_item_write(const struct td_kind *k, const struct td_item *i, struct td_buf *out);
void td_item_write_in_list(const struct td_kind *k, const struct td_item *i, struct td_buf *out);

// ---- options.c: the query ----
// Reads dryRun, fieldValidation, fieldManager and force into q.
int td_srv_write_options(struct td_req *q, struct td_refusal *r);
// Reads one value of dryRun; a bad one becomes a cause in *r.
void td_dry_run(struct td_req *q, const char *value, struct td_refusal *r);
struct td_list_options { // of list and watch. Strings are the request's, "" when absent
	const char *rv, *match, *cont;
	long long limit, timeout_s;
	bool has_initial, initial, bookmarks;
};
int td_list_options(const struct td_req *q, struct td_list_options *ret, struct td_refusal *r);

// ---- table.c ----
// A Table document around its rows.
struct td_table_head {
	bool columns;        // with columnDefinitions
	const char *include; // "Metadata", "Object", "None"
	const char *rv;      // of the list or NULL
	const char *cont;    // its continue token or NULL
	long long remaining; // how many objects come after this page; 0: not known
};
// Appends one Table document of these items.
void td_table_write(const struct td_kind *k, struct td_item *const *v, size_t n, const struct td_table_head *h,
		    int64_t now, struct td_buf *out);
// Appends one PartialObjectMetadata.
void td_partial_write(const struct td_item *i, struct td_buf *out);
// Refuses with 400 what is no value of includeObject.
int td_check_include(const char *include, struct td_refusal *r);

// ---- health.c ----
// Whether the path is /healthz, /livez or /readyz itself: everybody may read these.
bool td_srv_health_open(const char *path);
// Answers those paths and the single checks below them. false: there is no such check.
bool td_srv_health(struct td_req *q);

// ---- discovery.c, openapi.c, metrics.c, reviews.c: paths that are no stored resource ----
// td_discovery, td_openapi and td_review return TD_NOT_FOUND with r->http 0 for a path that is not
// theirs.
int td_discovery(struct td_req *q, struct td_refusal *r);
int td_openapi(struct td_req *q, struct td_refusal *r);
void td_srv_metrics(struct td_req *q);
int td_review(struct td_req *q, struct td_refusal *r);

// ---- read.c, watch.c ----
struct td_filter {
	const char *ns; // "": all
	struct td_selector *labels;
	struct td_field_selector *fields;
};
int td_filter_init(const struct td_req *q, struct td_filter *ret, struct td_refusal *r);
bool td_filter_matches(const struct td_filter *f, const struct td_item *i);
void td_filter_done(struct td_filter *f);
int td_do_get(struct td_req *q, struct td_refusal *r);
int td_do_list(struct td_req *q, struct td_refusal *r);
int td_do_watch(struct td_req *q, struct td_refusal *r);
// Reads a resourceVersion; "" and NULL are 0. what: the parameter's name, for the refusal.
int td_srv_parse_rv(const struct td_req *q, const char *what, const char *text, uint64_t *ret, struct td_refusal *r);

// ---- body.c: what comes in ----
// Reads the request's body (JSON, YAML or protobuf) as one JSON document in which no key stands
// twice: duplicates cause a warning or a refusal, as fieldValidation says. Refuses with 400 or 415;
// the HTTP server refuses a body that is too large (413). *ret NULL: the body is empty, which
// `optional` allows.
int td_body_read(struct td_req *q, bool optional, struct td_json **ret, struct td_refusal *r);
// Makes a fresh mutable object of q's kind of v: fills in an absent kind and apiVersion, and checks
// name and namespace against the URL.
int td_body_object(struct td_req *q, yyjson_val *v, yyjson_mut_doc **ret, struct td_refusal *r);
// Refuses what cannot be decoded as an object of the kind: with 400, or 422 when a patch made it.
int td_refuse_decode(const struct td_req *q, struct td_refusal *r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

// ---- object.c: from what was sent to what is stored ----
enum td_via {
	TD_VIA_MAIN,
	TD_VIA_STATUS,
	TD_VIA_SCALE,
	TD_VIA_SYSTEM // binding, finalize, eviction: the handler itself made the object right
};
// Makes d (an object as sent or patched) the next version of old (NULL: create): drops unknown
// fields, sets defaults, keeps what clients may not change, runs admission and validation. track:
// write managedFields for q->manager.
int td_srv_object_prepare(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, enum td_via via, bool track,
			  struct td_refusal *r);
// Stores d (not with dryRun). An object that is being deleted is removed when this write takes its
// last finalizer. Returns TD_CONFLICT with *r filled when old is no longer the latest version.
int td_srv_object_commit(struct td_req *q, struct td_item *old, yyjson_mut_doc *d, struct td_item **ret,
			 struct td_refusal *r);
int td_srv_object_remove(struct td_req *q, struct td_item *old, struct td_item **ret, struct td_refusal *r);
int td_refuse_write(const struct td_req *q, const char *name, const struct td_error *err, struct td_refusal *r);

// ---- write.c, patch.c, scale.c, delete.c, evict.c, pods.c ----
// Checks the resourceVersion and UID that a write names, if any, against the stored object. 409.
int td_check_base(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, struct td_refusal *r);
// Reads the body and calls once() to write it. If the body names no resourceVersion, a conflict
// makes it try again.
int td_srv_write_body(struct td_req *q,
		      int (*once)(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r),
		      struct td_item **ret, struct td_refusal *r);
enum td_patch_form { TD_MERGE, TD_JSON_PATCH, TD_STRATEGIC, TD_APPLY };
// Reads the form of a patch from the content type; refuses with 415.
int td_patch_type(struct td_req *q, enum td_patch_form *ret, struct td_refusal *r);
// The field manager of a server-side apply; refuses with 422 when none is named.
int td_apply_manager(const struct td_req *q, const char **ret, struct td_refusal *r);
// Refuses (400) an applied object of another kind, or one with managedFields.
int td_apply_kind(yyjson_val *patch, const char *api, const char *kind, struct td_refusal *r);
int td_apply_conflict(struct td_refusal *r); // makes the 409 of an apply from r->causes
int td_do_create(struct td_req *q, struct td_refusal *r);
int td_do_update(struct td_req *q, struct td_refusal *r);
int td_do_patch(struct td_req *q, struct td_refusal *r);
int td_do_delete(struct td_req *q, struct td_refusal *r);
int td_do_delete_collection(struct td_req *q, struct td_refusal *r);
struct td_delete_opts {
	long long grace;                    // seconds; -1: not given
	const char *uid, *rv, *propagation; // point into the body
};
int td_delete_opts(struct td_req *q, yyjson_val *body, struct td_delete_opts *ret, struct td_refusal *r);
struct td_deleted {
	struct td_item *left; // a reference: what is left of it, or its last state
	bool gone;
};
// Deletes the object, or begins its deletion.
int td_delete_item(struct td_req *q, const char *ns, const char *name, const struct td_delete_opts *o,
		   struct td_deleted *ret, struct td_refusal *r);
int td_do_scale(struct td_req *q, struct td_refusal *r); // get update patch
int td_do_finalize(struct td_req *q, struct td_refusal *r);
int td_do_binding(struct td_req *q, struct td_refusal *r);
int td_do_eviction(struct td_req *q, struct td_refusal *r);
// Sets a condition of the pod d to True.
void td_srv_pod_condition(struct td_req *q, yyjson_mut_doc *d, const char *type, const char *reason,
			  const char *message);
int td_do_pod_stream(struct td_req *q, struct td_refusal *r); // log exec attach portforward

// ---- admit.c ----
int td_admit(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);
// The part of td_admit that protects the annotations of a grant, for writes of the status
// subresource: they may change metadata, but run no other admission.
int td_admit_grants(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);

// The request's namespace; NULL: there is none, and the store will refuse the write. The caller drops the reference.
struct td_item *td_srv_space(const struct td_req *q);

// ---- crd.c ----
bool td_srv_is_crd(const struct td_kind *k);
// Fills in a CRD's status: the conditions (Established, …), accepted names and stored versions.
void td_srv_crd_prepare(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d);
void td_srv_crd_written(struct td_srv *s); // serves the CRD as it is stored now
// Call after an object is removed. For a CRD: its kinds are no longer served. For the last object
// of a CRD that is being deleted: that CRD is removed too.
void td_srv_crd_removed(struct td_req *q, const struct td_item *gone);
// Call when the deletion of a CRD begins: deletes its objects. true: none is left, the CRD is gone.
bool td_srv_crd_drain(struct td_req *q, const struct td_item *crd);
