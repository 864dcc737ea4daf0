// The server and one request in it. Every handler returns 0 when it has replied, else a negative code with *r filled;
// the dispatcher then sends the refusal. Handlers run on the connection's thread.
//
// Files
//   main.c dev.[ch]         the role and its options; a throw-away server for tests
//   route.c                 from a path to a handler; auth.c token.c: who asks; rbac.[ch] rbac_cache.c: may they;
//   reviews.c: asking that options.c body.c protobuf.[ch] protobuf_fields.h   what a request says: its query, its body
//   read.c watch.c write.c patch.c delete.c   the verbs
//   object.c admit.c account.c grant.c        from what was sent to what is stored; what the server adds and refuses
//   beyond the schema pods.c evict.c scale.c crd.c              what only some kinds have reply.c refuse.[ch] table.c
//   cells.[ch] cells_pod.c cells_access.c jsonpath.[ch]   what goes out: objects, refusals, kubectl's tables
//   registry.[ch] discovery.c openapi.c       what is served, and what is told of it
//   item.[ch] store.[ch] store_priv.h store_table.c store_write.c db.[ch] mark.[ch]   the objects: in memory, on file,
//   as events bootstrap.c bootstrap_api.c bootstrap_rbac.c   what always exists ticker.[ch] expiry.[ch] health.c
//   metrics.c     what happens by time; what the server shows of itself
#pragma once

#include "apiserver/rbac.h"
#include "apiserver/refuse.h"
#include "apiserver/registry.h"
#include "apiserver/store.h"
#include "base/clock.h"
#include "http/server.h"

enum { TD_BODY_MAX = 3 << 20 }; // as the real one

struct td_srv {
	struct td_store *store;
	struct td_registry *reg;
	struct td_rbac_cache *rbac;
	const struct td_clock *clock;
	char *agent_socket;
	void *sa_key; // HMAC key of tokens
	size_t sa_key_len;
	char *address; // IPv4 address and port at which pods reach this server; NULL: they do not
	int port;
	bool ready;            // atomic
	struct td_srv_counts { // atomic
		uint64_t requests, refused, watch_events, watch_expired;
		int64_t watches;
	} count;
};

struct td_user {
	char *name; // NULL: nobody
	char *uid;  // of a service account; may be NULL
	struct td_strv groups;
	struct td_strv extra; // "key=value": what its token was bound to
};
void td_user_done(struct td_user *u);
bool td_user_in(const struct td_user *u, const char *group);
// Whether this is the user name of a service account. The outputs may be NULL; the caller frees.
bool td_user_account(const char *user, char **ret_ns, char **ret_name);
void td_user_account_groups(struct td_user *u, const char *ns); // adds the groups that every account of ns is in

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
	bool patched; // the body is a patch of another object, and not an apply
	enum td_as as;
	bool yaml;
	bool dry_run;
	enum td_strictness strictness;
	const char *manager;
	int64_t now;
};

void td_srv_handle(struct td_http_x *x, void *ctx); // the handler of the HTTP server; ctx: struct td_srv
void td_srv_refused(struct td_http_x *x, int status, const char *why,
		    void *ctx); // its answer to what could not be read
// Creates what always exists: namespaces default, kube-…, system PriorityClasses.
int td_srv_bootstrap(struct td_srv *s, struct td_error *err);
// Service default/kubernetes and what belongs to it; again: puts it right.
int td_srv_bootstrap_api(struct td_srv *s, struct td_error *err);
int td_srv_bootstrap_rbac(struct td_srv *s, struct td_error *err); // a part of it: ClusterRoles and their bindings

// ---- auth.c ----
int td_auth_user(struct td_srv *s, struct td_http_x *x, struct td_user *ret,
		 struct td_refusal *r);                                               // 401; name NULL: nobody
int td_auth_may(const struct td_req *q, struct td_refusal *r);                        // 403
int td_auth_may_verb(const struct td_req *q, const char *verb, struct td_refusal *r); // as if q had that verb
// May this user? Fills in a->user and a->groups. *ret_why: as td_rbac_allows.
bool td_auth_ask(const struct td_srv *s, const struct td_user *u, struct td_rbac_ask *a, char **ret_why);
int td_auth_forbid(const struct td_rbac_ask *a, const char *why, struct td_refusal *r); // the 403; why may be NULL
bool td_auth_is_role(const struct td_user *u);                                          // tandem:roles

// ---- token.c ----
#define TD_AUDIENCE                                                                                                    \
	"https://kubernetes.default.svc" // whom tokens are for that name no other audience: this server. Also who made
					 // them
// Whose token this is. It must be for one of `audiences`; *ret_audiences (may be NULL): for which. TD_UNAUTHENTICATED
// with *ret_why (may be NULL; caller frees).
int td_token_user(struct td_srv *s, const char *token, const struct td_strv *audiences, struct td_user *ret,
		  struct td_strv *ret_audiences, char **ret_why);
int td_do_token(struct td_req *q, struct td_refusal *r); // serviceaccounts/token

// ---- account.c ----
int td_account_ensure(struct td_srv *s, const char *ns,
		      struct td_error *err); // the ServiceAccount "default" of a namespace
// A new pod's account and its token's volume. 403: no such account.
int td_account_admit(struct td_req *q, yyjson_mut_doc *d, const char *pod, struct td_refusal *r);

// ---- grant.c: nobody gives out more than they have ----
int td_grant_check(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);

// ---- reply.c ----
int td_reply_negotiate(struct td_req *q, struct td_refusal *r);                 // Accept → as, yaml
void td_reply_json(struct td_req *q, int status, const char *text, size_t len); // as YAML when asked
void td_reply_doc(struct td_req *q, int status, yyjson_mut_doc *d);             // d stays the caller's
void td_reply_item(struct td_req *q, int status, const struct td_item *i); // as object, Table or PartialObjectMetadata
void td_reply_success(struct td_req *q, int status, const char *name, const char *uid);
void td_reply_refusal(struct td_http_x *x, const struct td_refusal *r);
void td_reply_warn(struct td_req *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool td_query_true(const struct td_req *q, const char *name);
// 404 of an object: `pods "x" not found`.
int td_refuse_not_found(const struct td_req *q, const char *name, struct td_refusal *r);
// The item as clients of kind k see it: under its API version, and with the defaults that its schema has by now (those
// of a custom resource may be younger than the object). A new reference, to the item itself where that is the same.
struct td_item *td_item_shown(const struct td_kind *k, const struct td_item *i);
struct td_item *td_item_get(const struct td_req *q,
			    const char *name); // the object of q's kind and namespace, so; NULL: there is none
// The item's bytes under q's API version and kind, appended. In a list those of built-in kinds do not say which they
// are: the list does.
void td_item_write(const struct td_kind *k, const struct td_item *i, struct td_buf *out);
void td_item_write_in_list(const struct td_kind *k, const struct td_item *i, struct td_buf *out);

// ---- options.c: the query ----
int td_write_options(struct td_req *q, struct td_refusal *r); // dryRun, fieldValidation, fieldManager, force: into q
void td_dry_run(struct td_req *q, const char *value,
		struct td_refusal *r); // one value of dryRun: a cause when it is none
struct td_list_options {               // of list and watch; strings "" when absent, of the request
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
// One Table document of these items, appended.
void td_table_write(const struct td_kind *k, struct td_item *const *v, size_t n, const struct td_table_head *h,
		    int64_t now, struct td_buf *out);
void td_partial_write(const struct td_item *i, struct td_buf *out); // one PartialObjectMetadata
int td_check_include(const char *include, struct td_refusal *r);    // 400: not a value of includeObject

// ---- health.c ----
bool td_health_open(const char *path); // /healthz, /livez, /readyz themselves: for everybody
bool td_health(struct td_req *q);      // answers those and what is below them; false: no such check

// ---- discovery.c, openapi.c, metrics.c: everything below no resource ----
int td_discovery(struct td_req *q, struct td_refusal *r); // TD_NOT_FOUND with r->http 0: not one of its paths
int td_openapi(struct td_req *q, struct td_refusal *r);   // the same
void td_metrics(struct td_req *q);
int td_review(struct td_req *q, struct td_refusal *r); // reviews.c; TD_NOT_FOUND with r->http 0: not one

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
int td_parse_rv(const struct td_req *q, const char *what, const char *text, uint64_t *ret,
		struct td_refusal *r); // "" or NULL: 0

// ---- body.c: what comes in ----
// The request's body as one JSON document (JSON or YAML) in which no key stands twice: warned of or refused as
// fieldValidation says. 400, 413, 415. *ret NULL: empty body (allowed where optional).
int td_body_read(struct td_req *q, bool optional, struct td_json **ret, struct td_refusal *r);
// As an object of kind k ("" kinds are filled in), name and namespace checked against the URL; a fresh mutable copy.
int td_body_object(struct td_req *q, yyjson_val *v, yyjson_mut_doc **ret, struct td_refusal *r);
// What cannot be made an object of the kind: 400, and 422 for what a patch made.
int td_refuse_decode(const struct td_req *q, struct td_refusal *r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

// ---- object.c: from what was sent to what is stored ----
enum td_via {
	TD_VIA_MAIN,
	TD_VIA_STATUS,
	TD_VIA_SCALE,
	TD_VIA_SYSTEM /* binding, finalize, eviction: what the handler did is right */
};
// Makes d (an object as sent or patched) the next version of old (NULL: create): drops unknown fields, defaults, keeps
// what clients may not change, admission, validation. track: write managedFields for q->manager.
int td_object_prepare(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, enum td_via via, bool track,
		      struct td_refusal *r);
// Stores it (not with dryRun); an object whose last finalizer went is removed. TD_CONFLICT with r filled when old is no
// longer the latest.
int td_object_commit(struct td_req *q, struct td_item *old, yyjson_mut_doc *d, struct td_item **ret,
		     struct td_refusal *r);
int td_object_remove(struct td_req *q, struct td_item *old, struct td_item **ret, struct td_refusal *r);
int td_refuse_write(const struct td_req *q, const char *name, const struct td_error *err, struct td_refusal *r);

// ---- write.c, patch.c, scale.c, delete.c, evict.c, pods.c ----
// What a write says of the version and uid that it was made from.
int td_check_base(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, struct td_refusal *r);
// Reads the body and writes it. One that names no version wins against whoever was faster.
int td_write_body(struct td_req *q,
		  int (*once)(struct td_req *q, yyjson_val *body, struct td_item **ret, struct td_refusal *r),
		  struct td_item **ret, struct td_refusal *r);
enum td_patch_form { TD_MERGE, TD_JSON_PATCH, TD_STRATEGIC, TD_APPLY };
int td_patch_type(struct td_req *q, enum td_patch_form *ret, struct td_refusal *r); // of the content type; 415
int td_apply_manager(const struct td_req *q, const char **ret,
		     struct td_refusal *r); // server-side apply: who does it; 422
int td_apply_kind(yyjson_val *patch, const char *api, const char *kind,
		  struct td_refusal *r);     // 400: of another kind, or with managedFields
int td_apply_conflict(struct td_refusal *r); // 409 from r->causes
int td_do_create(struct td_req *q, struct td_refusal *r);
int td_do_update(struct td_req *q, struct td_refusal *r);
int td_do_patch(struct td_req *q, struct td_refusal *r);
int td_do_delete(struct td_req *q, struct td_refusal *r);
int td_do_delete_collection(struct td_req *q, struct td_refusal *r);
struct td_delete_opts {
	long long grace;                    // -1: not said
	const char *uid, *rv, *propagation; // point into the body
};
int td_delete_opts(struct td_req *q, yyjson_val *body, struct td_delete_opts *ret, struct td_refusal *r);
struct td_deleted {
	struct td_item *left; // a reference: what is left of it, or its last state
	bool gone;
};
int td_delete_item(struct td_req *q, const char *ns, const char *name, const struct td_delete_opts *o,
		   struct td_deleted *ret, struct td_refusal *r);
int td_do_scale(struct td_req *q, struct td_refusal *r); // get update patch
int td_do_finalize(struct td_req *q, struct td_refusal *r);
int td_do_binding(struct td_req *q, struct td_refusal *r);
int td_do_eviction(struct td_req *q, struct td_refusal *r);
// Sets a condition of the pod d to True.
void td_pod_condition(struct td_req *q, yyjson_mut_doc *d, const char *type, const char *reason, const char *message);
int td_do_pod_stream(struct td_req *q, struct td_refusal *r); // log exec attach portforward

// ---- admit.c ----
int td_admit(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);
// Only who may write the keys of a grant: for the ways that change metadata but nothing else.
int td_admit_grants(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r);

// ---- crd.c ----
bool td_is_crd(const struct td_kind *k);
void td_crd_prepare(struct td_req *q, const struct td_item *old,
		    yyjson_mut_doc *d); // status: Established, names, storedVersions
void td_crd_written(struct td_srv *s);  // serve it
// After an object is gone: a CRD's objects go with it, and the last object of a CRD that is going lets it go.
void td_crd_removed(struct td_req *q, const struct td_item *gone);
// When the deletion of a CRD begins: removes its objects; true when none is left.
bool td_crd_drain(struct td_req *q, const struct td_item *crd);
