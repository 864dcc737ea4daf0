"""Who may what on the embedded plane, with the real kubectl: users with certificates, accounts with tokens, pods with their account's token.
What the answers look like is compared with a real API server in t/parity (topic_rbac.py)."""
import base64
import glob
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from harness import wait_for
from podplane import IMAGE, plane  # noqa: F401 (fixture)

pytestmark = pytest.mark.feature("F1.2")

ROOT = pathlib.Path(__file__).resolve().parent.parent
ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


class User:
    """kubectl as somebody."""

    def __init__(self, plane, kubeconfig):
        self.plane, self.kubeconfig = plane, kubeconfig

    def run(self, *argv, **kw):
        return self.plane.run("kubectl", "--kubeconfig", self.kubeconfig, *argv, **kw)

    def __call__(self, *argv, **kw):
        return self.run(*argv, **kw).stdout

    def refused(self, *argv, **kw):
        """What kubectl says; it must fail."""
        r = self.run(*argv, check=False, **kw)
        assert r.returncode, (argv, r.stdout)
        return r.stderr.strip()

    def may(self, *argv):
        r = self.run("auth", "can-i", *argv, check=False)
        return r.stdout.strip() == "yes"


def config(plane, name, user):
    """A kubeconfig of this user for the plane's API."""
    path = f"{plane.home}/{name}.conf"
    admin = json.loads(plane.kubectl("config", "view", "--raw", "-o", "json"))
    with open(path, "w") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": admin["clusters"][0]["cluster"]}], "users": [{"name": "u", "user": user}],
                   "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]}, f)
    return User(plane, path)


def certified(plane, name, *groups):
    """A user with a certificate of the plane's own CA."""
    pki, at = f"{plane.home}/pki", f"{plane.home}/{name}"
    run = lambda *a: subprocess.run(["openssl", *a], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{at}.key", "-subj", "".join(f"/O={g}" for g in groups) + f"/CN={name}", "-out", f"{at}.csr")
    with open(f"{at}.ext", "w") as f:
        f.write("extendedKeyUsage=clientAuth\n")
    run("x509", "-req", "-in", f"{at}.csr", "-CA", f"{pki}/ca.crt", "-CAkey", f"{pki}/ca.key", "-CAcreateserial", "-CAserial", f"{at}.serial", "-days", "1", "-extfile", f"{at}.ext", "-out", f"{at}.crt")
    return config(plane, name, {"client-certificate": f"{at}.crt", "client-key": f"{at}.key"})


def with_token(plane, name, token):
    return config(plane, name, {"token": token})


def claims(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


@pytest.fixture
def space(plane):
    """A namespace of the test's own."""
    plane.count += 1
    name = f"rbac-{plane.count}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


# ---- users ----
def test_users_with_certificates(plane, space):
    alice, dora = certified(plane, "alice", "dev"), certified(plane, "dora", "ops")
    assert alice.refused("get", "pods", "-n", space) == f'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "{space}"'
    assert 'nodes "n0" is forbidden: User "alice" cannot get resource "nodes" in API group "" at the cluster scope' in alice.refused("get", "node", "n0")
    plane.kubectl("create", "rolebinding", "devs", "-n", space, "--clusterrole=edit", "--group=dev")
    plane.kubectl("create", "role", "one", "-n", space, "--verb=get,list,watch", "--resource=secrets", "--resource-name=own")
    plane.kubectl("create", "rolebinding", "one", "-n", space, "--role=one", "--user=dora")
    plane.kubectl("create", "secret", "generic", "own", "-n", space)
    plane.kubectl("create", "secret", "generic", "other", "-n", space)
    alice("create", "configmap", "mine", "-n", space, "--from-literal=a=b")
    assert "mine" in alice("get", "configmaps", "-n", space)
    assert "forbidden" in alice.refused("get", "configmaps", "-n", "default")
    assert "forbidden" in alice.refused("get", "configmaps", "-A")
    assert "forbidden" in dora.refused("get", "configmaps", "-n", space)
    # resourceNames: by name, by watch of a name, by a selector for the name; not the collection
    assert "own" in dora("get", "secret", "own", "-n", space)
    assert "forbidden" in dora.refused("get", "secret", "other", "-n", space)
    assert "forbidden" in dora.refused("get", "secrets", "-n", space)
    assert "own" in dora("get", "secrets", "-n", space, "--field-selector=metadata.name=own")
    assert "forbidden" in dora.refused("get", "secrets", "-n", space, "--field-selector=metadata.name!=other")
    assert "forbidden" in dora.refused("get", "secrets", "-n", space, "-w")
    assert "forbidden" in dora.refused("delete", "secrets", "--all", "-n", space)
    # what kubectl can tell about it
    assert alice.may("create", "pods", "-n", space) and not alice.may("create", "pods") and not alice.may("create", "roles", "-n", space) and alice.may("get", "/apis") and not alice.may("get", "/metrics")
    assert alice.may("create", "pods", "--subresource=exec", "-n", space) and not alice.may("update", "pods", "--subresource=status", "-n", space) and not alice.may("*", "*", "-n", space)
    listed = alice("auth", "can-i", "--list", "-n", space)
    assert "pods/exec" in listed and "selfsubjectaccessreviews.authorization.k8s.io" in listed and "roles.rbac" not in listed
    who = json.loads(alice("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (who["username"], who["groups"]) == ("alice", ["dev", "system:authenticated"])
    # and the administrator about others
    assert plane.kubectl("auth", "can-i", "list", "pods", "-n", space, "--as", "eve", "--as-group", "dev").strip() == "yes"
    assert plane.run("kubectl", "auth", "can-i", "list", "pods", "-n", space, "--as", "eve", check=False).stdout.strip() == "no"
    assert "Error" in alice.refused("get", "pods", "-n", space, "--as", "admin") and "cannot impersonate" in alice.refused("get", "pods", "-n", space, "--as", "admin", "--as-group", "system:masters")
    # Taken away, it is gone with the next request.
    plane.kubectl("delete", "rolebinding", "devs", "-n", space)
    assert "forbidden" in alice.refused("get", "configmaps", "-n", space)


def test_nobody_gives_away_what_they_do_not_have(plane, space):
    boss, mia = certified(plane, "boss"), certified(plane, "mia")
    plane.kubectl("create", "rolebinding", "boss", "-n", space, "--clusterrole=admin", "--user=boss")
    # Within the namespace an admin gives away what an admin has …
    boss("create", "rolebinding", "mia", "-n", space, "--clusterrole=view", "--user=mia")
    assert mia("get", "pods", "-n", space) == "" and "forbidden" in mia.refused("get", "secrets", "-n", space)
    boss("create", "role", "pods", "-n", space, "--verb=get,list", "--resource=pods,pods/log")
    # … and nothing more: no role that holds more, no binding to one, no patch, no replace, no apply that makes one of those.
    said = boss.refused("create", "role", "more", "-n", space, "--verb=get,list", "--resource=nodes")
    assert 'roles.rbac.authorization.k8s.io "more" is forbidden: user "boss" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n' \
           '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}' in said
    attempts = [("create", "rolebinding", "up", "--clusterrole=cluster-admin", "--user=boss"), ("create", "rolebinding", "up", "--clusterrole=cluster-admin", "--serviceaccount=default:default"),
                ("create", "clusterrolebinding", "up", "--clusterrole=view", "--user=boss"), ("create", "clusterrole", "up", "--verb=get", "--resource=pods"),
                ("patch", "role", "pods", "--type=json", "-p", '[{"op":"add","path":"/rules/-","value":{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}}]'),
                ("patch", "role", "pods", "--type=merge", "-p", '{"rules":[{"verbs":["impersonate"],"apiGroups":[""],"resources":["users"]}]}'),
                ("patch", "role", "pods", "-p", '{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["nodes"]}]}'), ("patch", "clusterrole", "admin", "-p", '{"rules":[]}'),
                ("label", "clusterrole", "cluster-admin", "rbac.authorization.k8s.io/aggregate-to-admin=true"), ("get", "pods", "-A"), ("get", "pods", "--as=admin", "--as-group=system:masters"),
                ("get", "secrets", "--as=system:serviceaccount:kube-system:default", "-n", "kube-system"), ("create", "token", "default", "-n", "kube-system")]
    for a in attempts:
        argv = a if "-n" in a or "-A" in a else (*a, "-n", space)
        assert "orbidden" in boss.refused(*argv), a
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "pods", "namespace": space}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    for name in ("pods", "fresh"):
        role["metadata"]["name"] = name
        for how in (["apply"], ["apply", "--server-side", "--force-conflicts"], ["replace"] if name == "pods" else ["create"]):
            assert "not currently held" in boss.refused(*how, "-f", "-", input=json.dumps(role)), how
    # An account of the namespace is theirs: as it they may act, and no further than it may.
    assert boss("get", "pods", "-n", space, f"--as=system:serviceaccount:{space}:default", check=False) == "" and "forbidden" in boss.refused("get", "pods", "-n", space, f"--as=system:serviceaccount:{space}:default")
    # kubectl auth reconcile says the same in its own way.
    assert "not currently held" in boss.refused("auth", "reconcile", "-f", "-", input=json.dumps(role))


def test_headers_of_others(plane):
    """Impersonation by hand: refused without the right, and what is not served is refused in plain words."""
    eve = certified(plane, "eve", "people")
    import ssl, http.client
    ctx = ssl.create_default_context(cafile=f"{plane.home}/pki/ca.crt")
    ctx.check_hostname = False

    def ask(headers, cert="eve", path="/api/v1/namespaces/default/secrets"):
        x = ssl.create_default_context(cafile=f"{plane.home}/pki/ca.crt")
        x.load_cert_chain(*((f"{plane.home}/eve.crt", f"{plane.home}/eve.key") if cert == "eve" else (f"{plane.home}/pki/{cert}.crt", f"{plane.home}/pki/{cert}.key")))
        c = http.client.HTTPSConnection(plane.api.host, context=x, timeout=60)
        c.putrequest("GET", path)
        for k, v in headers:
            c.putheader(k, v)
        c.endheaders()
        r = c.getresponse()
        body = json.loads(r.read())
        c.close()
        return r.status, body.get("message", "")
    del eve
    assert ask([]) == (403, 'secrets is forbidden: User "eve" cannot list resource "secrets" in API group "" in the namespace "default"')
    assert ask([("Impersonate-User", "admin")]) == (403, 'users "admin" is forbidden: User "eve" cannot impersonate resource "users" in API group "" at the cluster scope')
    assert ask([("impersonate-user", "eve"), ("Impersonate-Group", "system:masters")])[0] == 403
    assert ask([("Impersonate-Group", "system:masters")])[0] == 403
    assert ask([("Impersonate-User", "system:serviceaccount:kube-system:default")]) == (
        403, 'serviceaccounts "default" is forbidden: User "eve" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "kube-system"')
    for h in ("Impersonate-Uid", "Impersonate-Extra-scopes", "Impersonate-Anything"):
        status, why = ask([("Impersonate-User", "x"), (h, "y")], "admin")
        assert status == 400 and h in why and "leave this header out" in why
    assert ask([("Impersonate-User", "x"), ("Impersonate-User", "y")], "admin")[0] == 400
    # Two groups are two, and one with a comma is one.
    assert ask([("Impersonate-User", "x"), ("Impersonate-Group", "a"), ("Impersonate-Group", "system:masters")], "admin")[0] == 200
    assert ask([("Impersonate-User", "x"), ("Impersonate-Group", "a, system:masters")], "admin")[0] == 403
    # Who may act as one user may not act as another, nor join groups on the way.
    plane.kubectl("create", "clusterrole", "as-mia", "--verb=impersonate", "--resource=users", "--resource-name=mia")
    plane.kubectl("create", "clusterrolebinding", "as-mia", "--clusterrole=as-mia", "--user=eve")
    assert ask([("Impersonate-User", "mia")]) == (403, 'secrets is forbidden: User "mia" cannot list resource "secrets" in API group "" in the namespace "default"')
    assert ask([("Impersonate-User", "admin")])[0] == 403
    assert "cannot impersonate resource \"groups\"" in ask([("Impersonate-User", "mia"), ("Impersonate-Group", "system:masters")])[1]
    plane.kubectl("delete", "clusterrole,clusterrolebinding", "as-mia")


def test_rights_outlive_the_server(plane, space):
    ann = certified(plane, "ann")
    plane.kubectl("create", "rolebinding", "ann", "-n", space, "--clusterrole=view", "--user=ann")
    assert ann.may("list", "pods", "-n", space) and not ann.may("list", "secrets", "-n", space)
    before = plane.role_pid("apiserver")
    os.kill(before, signal.SIGKILL)
    wait_for("another API server", lambda: plane.role_pid("apiserver") not in (0, before))
    wait_for("the API answers", lambda: plane.run("kubectl", "get", "--raw", "/readyz", check=False).stdout == "ok")
    assert ann.may("list", "pods", "-n", space) and not ann.may("list", "secrets", "-n", space)
    plane.kubectl("delete", "rolebinding", "ann", "-n", space)
    assert not ann.may("list", "pods", "-n", space)
    # What was taken from the roles that always exist is back after a start.
    plane.kubectl("delete", "clusterrole", "system:discovery")
    plane.kubectl("patch", "clusterrolebinding", "system:basic-user", "--type=merge", "-p", '{"subjects":[]}')
    before = plane.role_pid("apiserver")
    os.kill(before, signal.SIGKILL)
    wait_for("another API server", lambda: plane.role_pid("apiserver") not in (0, before))
    wait_for("the API answers", lambda: plane.run("kubectl", "get", "--raw", "/readyz", check=False).stdout == "ok")
    assert not ann.may("list", "pods", "-n", space)  # it may ask


@pytest.mark.feature("A16.4")
def test_the_files_for_clusters_work_here(plane):
    """deploy/manifests as it is: what the accounts of Tandem's roles may do on other clusters, they may do here, and nothing else."""
    kinds = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    objects = [d for d in yaml.safe_load_all(open(ROOT / "deploy/manifests/tandem.yaml")) if d and d["kind"] in kinds]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    plane.kubectl("apply", "-f", "-", input=text)
    assert all(l.endswith("unchanged") for l in plane.kubectl("apply", "-f", "-", input=text).splitlines())
    assert plane.kubectl("diff", "-f", "-", input=text) == ""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    roles = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o["rules"] for o in objects if o["kind"].endswith("Role")}

    def may(who, **attributes):
        return plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {**who, "resourceAttributes": attributes}})["status"]["allowed"]
    asked = 0
    for b in (o for o in objects if o["kind"].endswith("Binding")):
        ns, ref = b["metadata"].get("namespace", ""), b["roleRef"]
        for s in b["subjects"]:
            # A group is only that of machines that join with a token; beside what is written here it has Kubernetes' own role for them.
            assert s["kind"] == "ServiceAccount" or (s["kind"], s["name"]) == ("Group", "system:bootstrappers:tandem")
            user = {"user": f"system:serviceaccount:{s['namespace']}:{s['name']}"} if s["kind"] == "ServiceAccount" else {"user": "system:bootstrap:abcdef", "groups": [s["name"]]}
            if (ref["kind"], ref["name"]) == ("ClusterRole", "system:node-bootstrapper") and s["kind"] == "Group":
                continue
            for r in roles[ref["kind"], ns if ref["kind"] == "Role" else "", ref["name"]]:
                for group, what, verb, name in itertools.product(r["apiGroups"], r["resources"], r["verbs"], r.get("resourceNames", [""])):
                    resource, _, sub = what.partition("/")
                    assert may(user, group=group, resource=resource, subresource=sub, verb=verb, namespace=ns or "default", name=name), (user, what, verb)
                    assert not name or not may(user, group=group, resource=resource, subresource=sub, verb=verb, namespace=ns, name=name + "x")
                    assert not may(user, group=group + "x", resource=resource, subresource=sub, verb=verb, namespace=ns or "default", name=name)
                    asked += 1
            for what, verb in (("secrets", "delete"), ("clusterroles", "create"), ("users", "impersonate"), ("pods/exec", "create"), ("serviceaccounts/token", "create"), ("*", "*")):
                resource, _, sub = what.partition("/")
                assert not may(user, group="", resource=resource, subresource=sub, verb=verb, namespace="default"), (user, what, verb)
    assert asked > 50
    plane.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", input=text)


ROLES = ("operator", "bridge", "kubelet", "controllers")


@pytest.mark.feature("A16.4")
def test_each_role_has_its_own_rights(plane):
    """Tandem's roles are nobody's masters here: operator, bridge and kubelet have the very rules of deploy/ (the kubelet those of the agent), and what the plane's own work needs besides."""
    deployed = {d["metadata"]["name"]: d["rules"] for d in yaml.safe_load_all(open(ROOT / "deploy/manifests/tandem.yaml")) if d and d["kind"] == "ClusterRole" and "/aggregate-to-" not in str(d["metadata"]["labels"])}  # those are parts of admin and view
    role = {r: User(plane, f"{plane.home}/kubeconfig/{r}.conf") for r in ROLES}

    def may(r, verb, what, ns="default", name=""):
        group, _, resource = what.rpartition("/") if what != "*" else ("*", "", "*")
        resource, _, sub = resource.partition(":")
        ask = {"verb": verb, "group": group, "resource": resource, "subresource": sub, "namespace": ns, "name": name}
        return plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": f"system:tandem:{r}", "groups": ["tandem:roles", "system:authenticated"], "resourceAttributes": ask}})["status"]["allowed"]
    for name, rules in deployed.items():
        assert plane.get("clusterrole", f"system:tandem:{name.removeprefix('tandem-')}")["rules"] == rules, name
    assert set(deployed) == {"tandem-operator", "tandem-bridge", "tandem-bridge-placeholders", "tandem-agent"}
    for r, user in role.items():
        who = json.loads(user("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        assert (who["username"], who["groups"]) == (f"system:tandem:{r}", ["tandem:roles", "system:authenticated"])
        rbac = "rbac.authorization.k8s.io/"
        for verb, what in (("*", "*"), ("create", f"{rbac}clusterroles"), ("update", f"{rbac}clusterroles"), ("create", f"{rbac}clusterrolebindings"), ("create", f"{rbac}roles"), ("create", f"{rbac}rolebindings"), ("bind", f"{rbac}clusterroles"),
                           ("escalate", f"{rbac}clusterroles"), ("impersonate", "users"), ("impersonate", "groups"), ("create", "pods:exec"), ("create", "pods:attach"), ("create", "namespaces"), ("update", "secrets"), ("deletecollection", "pods")):
            tenants = r == "operator" and (verb, what) in (("create", f"{rbac}rolebindings"), ("create", "namespaces"))  # the operator makes tenants' namespaces
            assert tenants or not may(r, verb, what) and not may(r, verb, what, ""), (r, verb, what)
        assert may(r, "create", "serviceaccounts:token") == (r == "kubelet")
    cannot = {
        "operator": (("create", "pods:binding"), ("delete", "secrets"), ("update", "nodes"), ("create", "nodes:proxy"), ("patch", "rbac.authorization.k8s.io/clusterroles"), ("delete", "namespaces"), ("get", "coordination.k8s.io/leases")),
        "bridge": (("get", "secrets"), ("list", "secrets"), ("create", "pods"), ("delete", "nodes"), ("create", "secrets"), ("get", "configmaps"), ("list", "apps/deployments"), ("patch", "pods:resize"), ("delete", "tandem.dev/slurmclusters"), ("get", "coordination.k8s.io/leases")),
        "kubelet": (("create", "pods"), ("patch", "pods"), ("patch", "secrets"), ("create", "secrets"), ("delete", "secrets"), ("delete", "nodes"), ("create", "pods:binding"), ("patch", "configmaps"), ("list", "apps/deployments"), ("patch", "coordination.k8s.io/leases"), ("patch", "namespaces"), ("create", "networking.k8s.io/networkpolicies"), ("patch", "networking.k8s.io/networkpolicies")),
        "controllers": (("create", "secrets"), ("create", "nodes"), ("update", "pods"), ("create", "apps/deployments"), ("create", "coordination.k8s.io/leases"), ("create", "pods:eviction")),
    }
    can = {"operator": (("create", "secrets"), ("patch", "secrets"), ("patch", "nodes"), ("delete", "nodes"), ("patch", "pods:status")), "bridge": (("patch", "pods"), ("create", "pods:binding"), ("patch", "nodes:status")), "kubelet": (("patch", "pods:status"), ("get", "secrets"), ("create", "nodes")),
           "controllers": (("delete", "example.com/widgets"), ("create", "apps/replicasets"), ("update", "namespaces:finalize"))}
    for r in ROLES:
        assert [x for x in cannot[r] if may(r, *x) or may(r, *x, "kube-public")] == [] and [x for x in can[r] if not may(r, *x)] == [], r
    bound = lambda name: may("operator", "bind", "rbac.authorization.k8s.io/clusterroles", "", name)
    assert bound("admin") and bound("edit") and bound("view") and bound("tandem-bridge-placeholders") and not bound("cluster-admin") and not bound("system:tandem:operator")
    leases = "coordination.k8s.io/leases"
    assert may("kubelet", "patch", leases, "kube-node-lease") and not may("kubelet", "patch", leases, "kube-system") and not may("kubelet", "get", leases, "kube-node-lease")
    assert may("bridge", "patch", leases, "kube-system", "tandem-bridge-slurm.main") and not may("bridge", "patch", leases, "kube-system", "x") and not may("bridge", "patch", leases, "kube-node-lease", "tandem-operator")
    # Who may patch every kind gives nobody more than it has itself: no rule into a role, no one to a role that holds more.
    for what, name, patch in (("clusterrole", "system:tandem:controllers", {"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}),
                              ("clusterrolebinding", "cluster-admin", {"subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "tandem:roles"}]})):
        assert "orbidden" in role["controllers"].refused("patch", what, name, "--type=merge", "-p", json.dumps(patch))
    # The kubelet's tokens are those of pods that are on a node, as NodeRestriction has it.
    kubelet = role["kubelet"]
    assert "not bound to a pod" in kubelet.refused("create", "token", "default") and "not bound to a pod" in kubelet.refused("create", "token", "default", "-n", "kube-system")
    plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unplaced"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": IMAGE}]}}))
    assert "not bound to a pod" in kubelet.refused("create", "token", "default", "--bound-object-kind=Pod", "--bound-object-name=unplaced")
    plane.kubectl("delete", "pod", "unplaced", "--force", "--grace-period=0")
    # Marks that show devices are the operator's and the bridge's, each its own.
    with plane.pod("sleep 1000", "marked") as name:
        for r in ("bridge", "controllers"):
            assert "for Tandem's own pods only" in role[r].refused("annotate", "pod", name, "tandem.dev/all-devices=true"), r
        assert "only Tandem's bridge" in role["controllers"].refused("annotate", "pod", name, "tandem.dev/devices={}")
    # A home of an older version, where they were cluster-admin: a start takes that away.
    plane.kubectl("create", "clusterrolebinding", "system:tandem:roles", "--clusterrole=cluster-admin", "--group=tandem:roles")
    plane.kubectl("patch", "clusterrole", "system:tandem:bridge", "--type=json", "-p", '[{"op":"add","path":"/rules/-","value":{"verbs":["*"],"apiGroups":["*"],"resources":["secrets"]}}]')
    assert may("bridge", "*", "*") and may("bridge", "get", "secrets")
    before = plane.role_pid("apiserver")
    os.kill(before, signal.SIGKILL)
    wait_for("another API server", lambda: plane.role_pid("apiserver") not in (0, before))
    wait_for("the API answers", lambda: plane.run("kubectl", "get", "--raw", "/readyz", check=False).stdout == "ok")
    assert not may("bridge", "*", "*") and not may("bridge", "get", "secrets") and "system:tandem:roles" not in plane.kubectl("get", "clusterrolebindings", "-o", "name")


def test_rights_go_with_their_namespace_and_owner(plane):
    """A role that outlived its namespace would be in force again in the next one of that name."""
    ned, made = certified(plane, "ned"), lambda: plane.kubectl("create", "namespace", "again")
    made()
    plane.kubectl("create", "role", "r", "-n", "again", "--verb=list", "--resource=pods")
    plane.kubectl("create", "rolebinding", "r", "-n", "again", "--role=r", "--user=ned")
    plane.call("POST", "/apis/discovery.k8s.io/v1/namespaces/again/endpointslices", {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": []})
    plane.call("POST", "/api/v1/namespaces/again/endpoints", {"metadata": {"name": "e"}})
    assert ned.may("list", "pods", "-n", "again")
    plane.kubectl("delete", "namespace", "again")
    made()
    assert not ned.may("list", "pods", "-n", "again")
    for kind in ("roles", "rolebindings", "endpoints", "endpointslices"):
        assert plane.items(kind, "-n", "again") == []
    # Garbage: what an owner had goes with it, within the namespace and beside it.
    plane.kubectl("create", "configmap", "owner", "-n", "again")
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": plane.get("configmap", "owner", "-n", "again")["metadata"]["uid"]}
    for kind, body in (("roles", {"rules": []}), ("rolebindings", {"roleRef": {"kind": "ClusterRole", "name": "view"}})):
        plane.call("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/again/{kind}", {"metadata": {"name": "owned", "ownerReferences": [ref]}, **body})
    plane.kubectl("delete", "configmap", "owner", "-n", "again")
    wait_for("the roles of the owner are gone", lambda: not plane.items("roles,rolebindings", "-n", "again"))
    plane.kubectl("delete", "namespace", "again", "--wait=false")


# ---- accounts ----
def test_every_namespace_has_what_pods_need(plane, space):
    assert plane.get("serviceaccount", "default", "-n", space)
    ca = open(f"{plane.home}/pki/ca.crt").read()
    wait_for("kube-root-ca.crt", lambda: plane.get("configmap", "kube-root-ca.crt", "-n", space)["data"]["ca.crt"] == ca)
    plane.kubectl("delete", "serviceaccount", "default", "-n", space)
    wait_for("the account is back", lambda: plane.run("kubectl", "get", "serviceaccount", "default", "-n", space, check=False).returncode == 0)
    for kind in ("service", "endpoints", "endpointslice"):
        uid = plane.get(kind, "kubernetes")["metadata"]["uid"]
        plane.kubectl("delete", kind, "kubernetes", "-n", "default")
        wait_for(f"{kind} kubernetes is back", lambda: plane.run("kubectl", "get", kind, "kubernetes", check=False).returncode == 0)
        assert plane.get(kind, "kubernetes")["metadata"]["uid"] != uid
    svc, eps, slc = (plane.get(k, "kubernetes") for k in ("service", "endpoints", "endpointslice"))
    ip, port = svc["spec"]["clusterIP"], svc["spec"]["ports"][0]["port"]
    assert eps["subsets"] == [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    assert (slc["endpoints"][0]["addresses"], slc["ports"][0]["port"], slc["metadata"]["labels"]["kubernetes.io/service-name"]) == ([ip], port, "kubernetes")
    plane.kubectl("label", "service", "kubernetes", "a=b")  # it can be written like others
    # No tokens that never end.
    r = plane.run("kubectl", "apply", "-f", "-", check=False, input=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forever", "annotations": {
        "kubernetes.io/service-account.name": "default"}}, "type": "kubernetes.io/service-account-token"}))
    assert r.returncode and "kubectl create token" in r.stderr


def test_tokens(plane, space):
    plane.kubectl("create", "serviceaccount", "bot", "-n", space)
    plane.kubectl("create", "rolebinding", "bot", "-n", space, "--clusterrole=view", f"--serviceaccount={space}:bot")
    token = plane.kubectl("create", "token", "bot", "-n", space, "--duration=15m").strip()
    c = claims(token)
    assert c["sub"] == f"system:serviceaccount:{space}:bot" and c["exp"] - c["iat"] == 900 and c["aud"] == ["https://kubernetes.default.svc"]
    bot = with_token(plane, "bot", token)
    assert bot("get", "pods", "-n", space) == ""
    assert f'User "system:serviceaccount:{space}:bot" cannot list resource "pods" in API group "" in the namespace "default"' in bot.refused("get", "pods")
    who = json.loads(bot("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert who["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated"] and who["uid"] == plane.get("serviceaccount", "bot", "-n", space)["metadata"]["uid"]

    def review(t, *audiences):
        return json.loads(plane.kubectl("create", "--raw", "/apis/authentication.k8s.io/v1/tokenreviews", "-f", "-", input=json.dumps(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": t, "audiences": list(audiences)}})))["status"]
    assert review(token)["authenticated"] and review(token)["user"]["username"] == c["sub"]
    assert not review(token, "vault").get("authenticated")
    # For somebody else: not for this server.
    vault = plane.kubectl("create", "token", "bot", "-n", space, "--audience=vault").strip()
    assert "Unauthorized" in with_token(plane, "vault", vault).refused("get", "pods", "-n", space) or "logged in" in with_token(plane, "vault", vault).refused("get", "pods", "-n", space)
    assert review(vault, "vault", "x")["audiences"] == ["vault"] and not review(vault).get("authenticated")
    # Bound to a Secret: dead with it. Bound to what is not there: none.
    plane.kubectl("create", "secret", "generic", "tie", "-n", space)
    tied = plane.kubectl("create", "token", "bot", "-n", space, "--bound-object-kind=Secret", "--bound-object-name=tie").strip()
    assert review(tied)["authenticated"]
    plane.kubectl("delete", "secret", "tie", "-n", space)
    assert review(tied) == {"error": "service account token has been invalidated", "user": {}}
    plane.kubectl("create", "secret", "generic", "tie", "-n", space)  # another one of that name
    assert not review(tied).get("authenticated")
    assert "not found" in plane.run("kubectl", "create", "token", "bot", "-n", space, "--bound-object-kind=Pod", "--bound-object-name=none", check=False).stderr
    # Who may make tokens is a right of its own.
    assert "cannot create resource \"serviceaccounts/token\"" in bot.refused("create", "token", "bot", "-n", space)
    # Dead with the account, also when another of that name comes.
    plane.kubectl("delete", "serviceaccount", "bot", "-n", space)
    for _ in range(2):
        assert "Unauthorized" in bot.refused("get", "--raw", "/apis") or "logged in" in bot.refused("get", "pods")
        assert not review(token).get("authenticated")
        plane.kubectl("create", "serviceaccount", "bot", "-n", space, check=False)


# ---- pods ----
def test_which_account_a_pod_has(plane, space):
    def dry(**spec):
        p = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": space}, "spec": {"containers": [{"name": "c", "image": IMAGE}], **spec}}
        r = plane.run("kubectl", "create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(p), check=False)
        return json.loads(r.stdout)["spec"] if not r.returncode else r.stderr
    assert f'pods "p" is forbidden: error looking up service account {space}/none: serviceaccount "none" not found' in dry(serviceAccountName="none")
    s = dry()
    volume, = s["volumes"]
    assert s["serviceAccountName"] == s["serviceAccount"] == "default" and volume["name"].startswith("kube-api-access-")
    assert [list(x)[0] for x in volume["projected"]["sources"]] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert s["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": ACCOUNT_DIR, "readOnly": True}]
    assert "volumes" not in dry(automountServiceAccountToken=False)
    for name, auto in (("off", False), ("on", True)):
        plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": space}, "automountServiceAccountToken": auto,
                                                            "imagePullSecrets": [{"name": "pull"}]}))
    assert "volumes" not in dry(serviceAccountName="off") and dry(serviceAccountName="off", automountServiceAccountToken=True)["volumes"] and dry(serviceAccountName="on")["volumes"]
    assert dry(serviceAccountName="on")["imagePullSecrets"] == [{"name": "pull"}] and dry(serviceAccountName="on", imagePullSecrets=[{"name": "own"}])["imagePullSecrets"] == [{"name": "own"}]
    # Containers that mount something there keep it; if all do, there is no volume.
    own = {"name": "c", "image": IMAGE, "volumeMounts": [{"name": "e", "mountPath": ACCOUNT_DIR}]}
    assert [v["name"] for v in dry(containers=[own], volumes=[{"name": "e", "emptyDir": {}}])["volumes"]] == ["e"]
    s = dry(containers=[own, {"name": "d", "image": IMAGE}], initContainers=[{"name": "i", "image": IMAGE}], volumes=[{"name": "e", "emptyDir": {}}])
    assert [len(c["volumeMounts"]) for c in s["containers"] + s["initContainers"]] == [1, 1, 1] and s["containers"][0]["volumeMounts"][0]["name"] == "e"


def test_a_pod_does_what_its_account_may_and_no_more(plane):
    shutil.copy(shutil.which("kubectl"), f"{plane.home}/shared/kubectl")
    plane.kubectl("create", "serviceaccount", "worker")
    plane.kubectl("create", "role", "worker", "--verb=get,list,create", "--resource=configmaps")
    plane.kubectl("create", "rolebinding", "worker", "--role=worker", "--serviceaccount=default:worker")
    volumes = [{"name": "shared", "hostPath": {"path": "/shared"}}, {"name": "more", "projected": {"sources": [{"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}}]}}]
    with plane.pod("sleep 10000", "worker", serviceAccountName="worker", volumes=volumes, volumeMounts=[{"name": "shared", "mountPath": "/shared"}, {"name": "more", "mountPath": "/more"}],
                   securityContext={"runAsUser": 1234}) as name:
        plane.running(name)
        kubectl = lambda *a: plane.run("kubectl", "exec", name, "--", "env", "HOME=/tmp", "/shared/kubectl", *a, check=False)
        made = kubectl("create", "configmap", "from-inside", "--from-literal=a=b")
        assert made.returncode == 0, made.stderr
        assert "from-inside" in kubectl("get", "configmaps").stdout
        for argv in (("get", "pods"), ("get", "secrets"), ("get", "configmaps", "-A"), ("delete", "configmap", "from-inside"), ("get", "configmaps", "-w"), ("get", "nodes"), ("exec", name, "--", "id"), ("logs", name),
                     ("create", "token", "worker"), ("create", "rolebinding", "up", "--clusterrole=cluster-admin", "--serviceaccount=default:worker"), ("annotate", "pod", name, "tandem.dev/devices=all")):
            r = kubectl(*argv)
            assert r.returncode and "orbidden" in r.stderr, (argv, r)
        who = json.loads(kubectl("auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
        assert who["username"] == "system:serviceaccount:default:worker" and who["extra"]["authentication.kubernetes.io/pod-name"] == [name]
        # The API by its names, with the certificate that is mounted.
        for host in ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"):
            r = plane.run("kubectl", "exec", name, "--", "sh", "-c", f'env -u KUBERNETES_SERVICE_HOST HOME=/tmp /shared/kubectl get configmaps --server=https://{host}:$KUBERNETES_SERVICE_PORT '
                          f'--certificate-authority={ACCOUNT_DIR}/ca.crt --token=$(cat {ACCOUNT_DIR}/token)', check=False)
            assert "from-inside" in r.stdout, (host, r.stderr)
        # The token is the pod's: it dies with it, whoever has copied it. One for another audience was never good here.
        token, vault = plane.ex(name, "cat", f"{ACCOUNT_DIR}/token"), plane.ex(name, "cat", "/more/vault")
        k = claims(token)["kubernetes.io"]
        pod = plane.pod_of(name)
        assert (k["pod"], k["serviceaccount"]["name"], k["node"]["name"]) == ({"name": name, "uid": pod["metadata"]["uid"]}, "worker", pod["spec"]["nodeName"])
        assert claims(vault)["aud"] == ["vault"]
        thief = with_token(plane, "thief", token)
        assert "from-inside" in thief("get", "configmaps")
        r = with_token(plane, "thief2", vault).refused("get", "configmaps")
        assert "Unauthorized" in r or "logged in" in r
        # No token ever reaches a disk: it lies in a tmpfs of the agent's.
        where = glob.glob(f"{plane.home}/agent/secrets/{pod['metadata']['uid']}/*/token")
        assert len(where) == 1 and subprocess.run(["stat", "-f", "-c", "%T", where[0]], stdout=subprocess.PIPE, text=True).stdout.strip() == "tmpfs"
        plane.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        r = thief.refused("get", "configmaps")
        assert "Unauthorized" in r or "logged in" in r
        wait_for("the token is gone", lambda: not os.path.exists(where[0]))
    plane.kubectl("delete", "configmap", "from-inside")


def test_a_token_is_replaced_in_time(plane):
    """The agent looks at each token once a minute; here the clock of the token is turned instead: one that is nearly over is put in its place."""
    with plane.pod("sleep 10000", "fresh") as name:
        uid = plane.running(name)["metadata"]["uid"]
        at = wait_for("the token", lambda: glob.glob(f"{plane.home}/agent/secrets/{uid}/*/..data/token"))[0]
        old = open(at).read()
        c = claims(old)
        part = lambda o: base64.urlsafe_b64encode(json.dumps(o).encode()).rstrip(b"=").decode()
        c["iat"], c["exp"] = int(time.time()) - 3000, int(time.time()) + 600
        with open(at, "w") as f:
            f.write(f'{part({"alg": "HS256"})}.{part(c)}.x')
        plane.kubectl("annotate", "configmap", "kube-root-ca.crt", f"test/now={time.time()}", "--overwrite")  # makes the agent look at its volumes now
        wait_for("a new token", lambda: plane.ex(name, "cat", f"{ACCOUNT_DIR}/token") not in ("", old) and claims(plane.ex(name, "cat", f"{ACCOUNT_DIR}/token"))["iat"] >= int(time.time()) - 100)
