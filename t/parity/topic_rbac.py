"""Who may what, who may give what away, as whom one may act, and the questions about it. Users are acted as, so that both planes know the same ones."""
import json

from steps import *

G = "/apis/rbac.authorization.k8s.io/v1"
R, B, CR, CB = f"{G}/namespaces/{{ns}}/roles", f"{G}/namespaces/{{ns}}/rolebindings", f"{G}/clusterroles", f"{G}/clusterrolebindings"
AUTHZ, AUTHN = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"


def as_(step, user="eve", *groups):
    """The same request by another user. The header of groups can come once here, which is enough."""
    step.headers = {"Impersonate-User": user, **({"Impersonate-Group": groups[0]} if groups else {})}
    step.label = f"{user}: {step.id()}"
    return step


def rule(verbs, resources, groups="", **kw):
    return {"verbs": verbs.split(), "apiGroups": groups.split(",") if groups else [""], "resources": resources.split(), **kw}


def role(name, *rules, kind="Role", **kw):
    return obj(f"{RBAC}/v1", kind, name, rules=list(rules), **kw)


def subject(name="eve", kind="User", **kw):
    return {"kind": kind, "name": name, **({} if kind == "ServiceAccount" else {"apiGroup": RBAC}), **kw}


def binding(name, ref, *subjects, kind="RoleBinding", ref_kind="Role", **kw):
    return obj(f"{RBAC}/v1", kind, name, roleRef={"apiGroup": RBAC, "kind": ref_kind, "name": ref}, subjects=list(subjects) or [subject()], **kw)


def access(user=None, groups=None, non=None, **ra):
    spec = {"resourceAttributes": ra} if non is None else {"nonResourceAttributes": non}
    return {"spec": {**spec, **({"user": user} if user else {}), **({"groups": groups} if groups else {})}}


def status_only(body):
    return {"status": body.get("status"), "kind": body.get("kind"), "message": body.get("message"), "code": body.get("code"), "details": body.get("details")}


def all_rules(body):
    return {k: sorted(map(json.dumps, v)) if isinstance(v, list) else v for k, v in body["status"].items()}  # bindings come in no order


C = f"{NS}/configmaps"
STEPS = [
    # nothing is allowed
    as_(get(C)), as_(get(f"{C}/a")), as_(post(C, cm("a"))), as_(put(f"{C}/a", cm("a"))), as_(patch(f"{C}/a", {})), as_(delete(f"{C}/a")), as_(delete(C)), as_(get("/api/v1/configmaps")),
    as_(get("/api/v1/nodes")), as_(get("/api/v1/namespaces/{ns}")), as_(get("/apis/apps/v1/namespaces/{ns}/deployments/x/scale")), as_(get(f"{NS}/pods/x/log")), as_(post(f"{NS}/pods/x/exec?command=a")),
    as_(post(f"{NS}/bindings", {})), as_(get("/metrics")), as_(get("/nothing")), as_(post("/nothing")), as_(get("/apis/none/v1/things/x")), as_(get(f"{C}?watch=1")), as_(get(f"{C}?fieldSelector=metadata.name=a")),
    as_(get(f"{G}/clusterroles/cluster-admin")), as_(get("/apis"), "eve", "system:unauthenticated"),
    # roles and bindings: what is stored, what is refused
    post(R, role("r", rule("get list watch", "configmaps")), "a role"), get(f"{R}/r"), get(R, accept=TABLE), get(f"{R}?x=1", accept=PARTIAL_LIST),
    post(R, obj(f"{RBAC}/v1", "Role", "empty"), "a role without rules"), post(R, role("n", {"verbs": ["get"]}), "a rule of nothing"), post(R, role("n", {"apiGroups": [""], "resources": ["a"]}), "a rule without verbs"),
    post(R, role("n", {"verbs": [], "apiGroups": [""], "resources": ["a"]}), "a rule with no verb"),
    post(R, role("n", {"verbs": ["get"], "nonResourceURLs": ["/x"]}), "paths in a namespace"), post(CR, role("par-n", {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["a"]}, kind="ClusterRole"), "paths and resources"),
    post(R, role("a/b", rule("get", "a")), "a slash in the name"), post(R, role("x%y", rule("get", "a")), "a percent in the name"), post(R, role("", rule("get", "a")), "no name"),
    post(R, role("We:ird name", rule("get", "a")), "a strange name"), delete(f"{R}/We:ird%20name"), post(R, role("..", rule("get", "a")), "dots for a name"),
    post(B, binding("b", "r"), "a binding"), get(f"{B}/b"), get(B, accept=TABLE),
    post(B, {"metadata": {"name": "d"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}]}, "defaults"),
    post(B, {"metadata": {"name": "d2"}}, "no roleRef"), post(B, {"metadata": {"name": "d2"}, "roleRef": {"kind": "Role", "name": ""}}, "no name in roleRef"),
    post(B, {"metadata": {"name": "d2"}, "roleRef": {"kind": "Robot", "name": "r", "apiGroup": "x"}}, "a strange roleRef"), post(B, {"metadata": {"name": "d2"}, "roleRef": {"kind": "Role", "name": "a/b"}}, "a slash in roleRef"),
    post(B, {"metadata": {"name": "d2"}, "roleRef": {"kind": "Role", "name": "r"}}, "no subjects"), post(B, binding("d3", "r", {"kind": "Robot", "name": "x"}), "a strange subject"),
    post(B, binding("d3", "r", {"kind": "User", "name": "x", "apiGroup": "y"}), "a user of another group"), post(B, binding("d3", "r", {"kind": "ServiceAccount", "name": "x", "apiGroup": "y"}), "an account with a group"),
    post(B, binding("d3", "r", {"kind": "ServiceAccount", "name": "X_"}), "an account of no name"), post(B, binding("d3", "r", {"kind": "User"}), "a subject without a name"),
    post(CB, binding("par-c", "cluster-admin", kind="ClusterRoleBinding"), "a Role for the cluster"),
    post(CB, binding("par-c", "cluster-admin", {"kind": "ServiceAccount", "name": "x"}, kind="ClusterRoleBinding", ref_kind="ClusterRole"), "an account of no namespace"),
    patch(f"{B}/b", {"roleRef": {"name": "other"}}, "another role"), patch(f"{B}/b", {"subjects": [subject("mia")]}, "another subject"), patch(f"{B}/b", {"subjects": [subject()]}, "eve again"),
    # now some is allowed
    as_(get(f"{C}?labelSelector=none-of-it")), as_(get(f"{C}/kube-root-ca.crt-not")), as_(post(C, cm("a"))), as_(get("/api/v1/configmaps")), as_(get("/api/v1/namespaces/default/configmaps")), as_(delete(C)),
    as_(apply(f"{C}/new", cm("new"))),
    # names
    post(R, role("named", rule("get list watch patch delete deletecollection", "secrets", resourceNames=["mine"])), "a role for one secret"), post(B, binding("named", "named")),
    post(f"{NS}/secrets", obj("v1", "Secret", "mine")), post(f"{NS}/secrets", obj("v1", "Secret", "other")),
    as_(get(f"{NS}/secrets/mine")), as_(get(f"{NS}/secrets/other")), as_(get(f"{NS}/secrets")), as_(get(f"{NS}/secrets?fieldSelector=metadata.name=mine")), as_(get(f"{NS}/secrets?fieldSelector=metadata.name=other")),
    as_(get(f"{NS}/secrets?fieldSelector=metadata.name!=mine")), as_(get(f"{NS}/secrets?fieldSelector=metadata.name=mine,metadata.namespace={{ns}}")), as_(get("/api/v1/secrets?fieldSelector=metadata.name=mine")),
    as_(get(f"{NS}/secrets/mine?watch=1&fieldSelector=metadata.name=other"), "eve"), as_(delete(f"{NS}/secrets?fieldSelector=metadata.name=mine")), as_(patch(f"{NS}/secrets/mine", {"metadata": {"labels": {"a": "b"}}})),
    as_(patch(f"{NS}/secrets/other", {})), as_(delete(f"{NS}/secrets/other")), as_(delete(f"{NS}/secrets/mine")), as_(apply(f"{NS}/secrets/mine", obj("v1", "Secret", "mine"))), as_(get(f"{NS}/secrets/mine")),
    # a namespace lies in itself
    post(R, role("space", rule("get delete", "namespaces"))), post(B, binding("space", "space")), as_(get("/api/v1/namespaces/{ns}"), "eve"), as_(get("/api/v1/namespaces/default")), as_(get("/api/v1/namespaces")),
    as_(put("/api/v1/namespaces/{ns}/finalize", {})), as_(get("/api/v1/namespaces/{ns}/status")),
    # nobody gives away what they do not have
    post(R, role("boss", rule("*", "roles rolebindings", RBAC), rule("get", "pods pods/log"))), post(B, binding("boss", "boss", subject("boss"))),
    as_(post(R, role("fine", rule("get", "pods"))), "boss"), as_(post(R, role("more", rule("get list", "pods secrets"), rule("*", "*", "*"))), "boss"), as_(post(R, role("more", rule("get", "pods/log */log pods/exec"))), "boss", "people"),
    as_(post(R, role("more", rule("get", "pods", resourceNames=["a"]))), "boss"), as_(patch(f"{R}/fine", {"rules": [rule("get delete", "pods")]}), "boss"), as_(put(f"{R}/fine", role("fine", rule("*", "pods"))), "boss"),
    as_(patch(f"{R}/fine", {"metadata": {"labels": {"x": "y"}}}), "boss"), as_(apply(f"{R}/fine", role("fine", rule("get", "secrets")), query="&force=true"), "boss"), as_(apply(f"{R}/made", role("made", rule("get", "secrets"))), "boss"),
    as_(patch(f"{R}/named", {"metadata": {"labels": {"x": "y"}}}), "boss"), as_(patch(f"{R}/named", {"metadata": {"finalizers": ["a.b/c"]}}), "boss"), as_(patch(f"{R}/named", {"metadata": {"finalizers": None}}), "boss"),
    as_(post(B, binding("b1", "fine", subject("mia"))), "boss"), as_(post(B, binding("b2", "named", subject("boss"))), "boss"), as_(post(B, binding("b2", "cluster-admin", subject("boss"), ref_kind="ClusterRole")), "boss"),
    as_(post(B, binding("b2", "not-yet", subject("boss"))), "boss"), as_(post(B, binding("b2", "not-yet", subject("boss"), ref_kind="ClusterRole")), "boss"), as_(patch(f"{B}/named", {"subjects": [subject("boss")]}), "boss"),
    as_(post(f"{B}?dryRun=All", binding("b2", "cluster-admin", subject("boss"), ref_kind="ClusterRole")), "boss"), as_(delete(f"{B}/b1"), "boss"),
    as_(post(CB, binding("par-x", "cluster-admin", subject("boss"), kind="ClusterRoleBinding", ref_kind="ClusterRole")), "boss"), as_(post(CR, role("par-x", kind="ClusterRole")), "boss"),
    # with the verbs for it
    post(R, role("verbs", rule("bind", "clusterroles", RBAC, resourceNames=["cluster-admin"]), rule("escalate", "roles", RBAC, resourceNames=["fine"]))), post(B, binding("verbs", "verbs", subject("boss"))),
    as_(patch(f"{R}/fine", {"rules": [rule("*", "secrets")]}), "boss"), as_(post(R, role("more", rule("*", "secrets"))), "boss"),
    as_(post(B, binding("b3", "cluster-admin", subject("mia"), ref_kind="ClusterRole")), "boss"), as_(get(f"{NS}/secrets"), "mia"), as_(get("/api/v1/nodes"), "mia"), as_(get("/metrics"), "mia"),
    # who writes ClusterRoles gathers nothing
    post(CR, role("par-writer", rule("create update patch", "clusterroles", RBAC), kind="ClusterRole")), post(CB, binding("par-writer", "par-writer", subject("writer"), kind="ClusterRoleBinding", ref_kind="ClusterRole")),
    as_(post(CR, role("par-y", {"verbs": ["get"], "nonResourceURLs": ["/x", "/y/*"]}, kind="ClusterRole")), "writer"),
    # a role that is missing
    post(B, binding("lost", "none", subject("lost"))), as_(get(C), "lost"), as_(post(R, role("zz", rule("get", "a"))), "lost"),
    # accounts and groups
    post(f"{NS}/serviceaccounts", obj("v1", "ServiceAccount", "bot")), post(B, binding("bot", "r", subject("bot", "ServiceAccount"))), as_(get(C), "system:serviceaccount:{ns}:bot"),
    post(B, binding("group", "r", subject("system:serviceaccounts:par-rbac", "Group"))), as_(get(f"{C}/none-of-it"), "system:serviceaccount:par-rbac:default"), as_(get(C), "system:serviceaccount:default:default"),
    # acting as somebody
    as_(as_(get(C), "a"), "system:anonymous"),
    # questions
    as_(post(f"{AUTHN}/selfsubjectreviews", {}, view=status_only), "eve", "people"), as_(post(f"{AUTHN}/selfsubjectreviews", {}, view=status_only), "system:serviceaccount:x:y"),
    as_(post(f"{AUTHZ}/selfsubjectaccessreviews", access(verb="list", resource="configmaps", namespace="{ns}"), view=status_only)), as_(post(f"{AUTHZ}/selfsubjectaccessreviews", access(verb="delete", resource="configmaps", namespace="{ns}"), view=status_only)),
    as_(post(f"{AUTHZ}/selfsubjectaccessreviews", access(verb="list", resource="configmaps", namespace="{ns}"), view=status_only), "lost"), as_(post(f"{AUTHZ}/selfsubjectaccessreviews", access(non={"verb": "get", "path": "/apis/x"}), view=status_only)),
    as_(post(f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {}})), as_(post(f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}}})),
    as_(post(f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "{ns}"}}, view=all_rules)), as_(post(f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {}})), as_(post(f"{AUTHZ}/subjectaccessreviews", access("mia", verb="get", resource="nodes"))),
    post(f"{AUTHZ}/subjectaccessreviews", access("eve", verb="list", resource="configmaps", namespace="{ns}"), "may eve", view=status_only), post(f"{AUTHZ}/subjectaccessreviews", access(None, ["system:masters"], verb="x", resource="y"), "may masters", view=lambda b: b["status"]["allowed"]),
    post(f"{AUTHZ}/subjectaccessreviews", access(verb="x", resource="y"), "may nobody"), post(f"{AUTHZ}/namespaces/{{ns}}/localsubjectaccessreviews", {**access("eve", verb="list", resource="configmaps", namespace="{ns}"), "metadata": {"namespace": "{ns}"}}, "may eve here", view=status_only),
    post(f"{AUTHZ}/namespaces/{{ns}}/localsubjectaccessreviews", {**access("eve", verb="list", resource="configmaps", namespace="other"), "metadata": {"namespace": "{ns}"}}, "may eve elsewhere"),
    get(f"{AUTHZ}/selfsubjectaccessreviews"), get(f"{AUTHN}/tokenreviews"),
    # tokens
    post(f"{AUTHN}/tokenreviews", {"spec": {}}, "no token"), post(f"{AUTHN}/tokenreviews", {"spec": {"token": "a.b.c"}}, "a token that is none", view=lambda b: b["status"].get("authenticated", False)),
    post(f"{NS}/serviceaccounts/bot/token", {"spec": {"expirationSeconds": 60}}, "too short"), post(f"{NS}/serviceaccounts/bot/token", {"spec": {"expirationSeconds": 4294967297}}, "too long"),
    post(f"{NS}/serviceaccounts/none/token", {}, "of nobody"), post(f"{NS}/serviceaccounts/bot/token", {"metadata": {"name": "x"}}, "of another name"), post(f"{NS}/serviceaccounts/bot/token", {"metadata": {"namespace": "x"}}, "of another namespace"),
    post(f"{NS}/serviceaccounts/bot/token", {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}}, "bound to nothing"),
    post(f"{NS}/serviceaccounts/bot/token", {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "none"}}}, "bound to a ConfigMap"),
    post(f"{NS}/serviceaccounts/bot/token", {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "other", "uid": "11111111-1111-1111-1111-111111111111"}}}, "bound to another"),
    post(f"{NS}/serviceaccounts/bot/token", {"spec": {"audiences": ["vault"], "expirationSeconds": 700}}, "a token", save={"token": "status.token"}, view=lambda b: {k: v for k, v in b["spec"].items()}),
    post(f"{AUTHN}/tokenreviews", {"spec": {"token": "<<token>>"}}, "for another audience", view=lambda b: b["status"].get("authenticated", False)),
    post(f"{AUTHN}/tokenreviews", {"spec": {"token": "<<token>>", "audiences": ["vault", "x"]}}, "for its audience", view=lambda b: {k: v for k, v in b["status"].items() if k != "user"} | {"user": {k: v for k, v in b["status"]["user"].items() if k not in ("extra", "uid")}}),
    # pods
    as_(post(f"{NS}/pods", {**pod("sa1"), "spec": {"serviceAccountName": "none", "containers": [{"name": "c", "image": "i"}]}}), "mia"), post(f"{NS}/pods", obj("v1", "Pod", "sa2", spec={"containers": [{"name": "c", "image": "i"}]}), "a pod gets its account",
         view=lambda b: {k: v for k, v in b.get("spec", b).items() if k in ("serviceAccountName", "serviceAccount")} | {"volumes": [{**v, "name": v["name"][:16]} for v in b["spec"]["volumes"]], "mounts": [{**m, "name": m["name"][:16]} for m in b["spec"]["containers"][0]["volumeMounts"]]}),
    post(f"{NS}/pods", obj("v1", "Pod", "sa3", spec={"automountServiceAccountToken": False, "serviceAccount": "bot", "containers": [{"name": "c", "image": "i"}]}), "a pod by the old word", view=lambda b: {k: v for k, v in b["spec"].items() if k in ("serviceAccountName", "serviceAccount", "volumes")}),
    # away again
    delete(f"{CR}/par-writer"), delete(f"{CB}/par-writer"), delete(f"{B}/b3"), as_(get(f"{NS}/secrets"), "mia"), delete(B), delete(R),
]
