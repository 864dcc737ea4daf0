"""kubectl on the embedded API: every command that it serves, with the machine's kubectl; and where versions differ (mark `clients`), with the oldest that Tandem
supports and the newest there is too (t/kube/assets/kubectl-*, built by tools/kube-assets). What is not served is refused in words.
Here: the commands that look; test_kubectl_change.py has those that change, test_kubectl_pods.py those into pods and about nodes."""
import json
import pathlib
import re
import select
import time

import pytest

from harness import wait_for
from kubectls import HERE, box, boxed, client, cm, deployment, k, pod, statefulset  # noqa: F401 (fixtures)
from podplane import IMAGE, plane  # noqa: F401

pytestmark = pytest.mark.feature("F1.10")


# ---- what there is ----

@pytest.mark.clients  # its own word
def test_version(k):
    v = json.loads(k("version", "-o", "json"))
    assert v["clientVersion"]["gitVersion"] == k.version and "+tandem" in v["serverVersion"]["gitVersion"]
    assert "Server Version: " + v["serverVersion"]["gitVersion"] in k("version")


@pytest.mark.clients  # discovery, whole or piece by piece
def test_api_resources_and_versions(k):
    rows = {r[0]: r for r in k.rows("api-resources", "-o", "wide")}
    assert rows["pods"][1:5] == ["po", "v1", "true", "Pod"] and "watch" in rows["pods"][5]
    assert {"deploy", "sts", "rs"} <= {r[1] for r in rows.values()}
    assert k("api-resources", "--api-group=apps", "-o", "name").split() == ["deployments.apps", "replicasets.apps", "statefulsets.apps"]
    assert {"nodes", "namespaces"} <= set(k("api-resources", "--namespaced=false", "-o", "name").split())
    assert "pods" in k("api-resources", "--verbs=list,watch", "--categories=all", "-o", "name").split()
    assert {"v1", "apps/v1", "batch/v1", "policy/v1"} <= set(k("api-versions").split())


@pytest.mark.clients  # OpenAPI v2 or v3
def test_explain(k):
    text = k("explain", "deployment.spec.strategy.rollingUpdate")
    assert re.search(r"maxSurge\s+<IntOrString>\n\s+How many more may exist\.", text) and "FIELD: rollingUpdate" in text
    text = k("explain", "pod.spec.containers.resources")
    assert re.search(r"limits\s+<map\[string\]Quantity>\n\s+What may be used at most\.", text)
    assert re.search(r"httpGet\b.*?\n\s+path\s+<string>\n\s+port\s+<IntOrString> -required-", k("explain", "pod.spec.containers.livenessProbe", "--recursive"), re.S)
    whole = k("explain", "pods", "--recursive")
    assert len(whole.splitlines()) > 700 and "no description" not in whole
    for kind in k("api-resources", "-o", "name").split():
        assert "DESCRIPTION:" in k("explain", kind) and "<no description>" not in k("explain", kind), kind
    assert "enum: NoExecute" in k("explain", "node.spec.taints") or "NoExecute" in k("explain", "node.spec.taints.effect")
    assert 'field "nothing" does not exist' in (k("explain", "pod.spec.nothing", rc=1), k.err)[1]


def test_explain_of_our_own_kinds(k):
    for kind in ("slurmclusters", "nodesets"):
        k("apply", "-f", HERE.parent / f"deploy/crds/{kind}.yaml")
        k("wait", "--for=condition=Established", f"crd/{kind}.tandem.dev", "--timeout=180s")
    try:
        text = k("explain", "slurmcluster.spec.reserve")
        assert re.search(r"cpu\s+<IntOrString>\n\s+CPUs per node", text), text
        assert re.search(r"name\s+<string> -required-\n\s+Login name\.", k("explain", "slurmclusters.spec.users"))
        assert "gpus" in k("explain", "nodeset", "--recursive") or "FIELDS:" in k("explain", "nodeset.spec")
    finally:
        k("delete", "crd", "slurmclusters.tandem.dev", "nodesets.tandem.dev")


def test_cluster_info_and_config(k):
    assert "Kubernetes control plane is running at https://127.0.0.1:" in re.sub(r"\x1b\[[0-9;]*m", "", k("cluster-info"))
    assert k("config", "current-context").strip() in k("config", "get-contexts", "-o", "name").split()
    view = k("config", "view")
    assert "server: https://127.0.0.1:" in view and "BEGIN" not in view

# ---- get ----

@pytest.mark.clients  # tables, selectors, every form of output
def test_get(k):
    k("create", "-f", "-", input=[cm("a", {"x": "1", "y": "1"}, v="3"), cm("b", {"x": "2"}, v="1"), cm("c", {"x": "1"}, v="2")])
    assert [r[:2] for r in k.rows("get", "cm", "-l", "x")] == [["NAME", "DATA"], ["a", "1"], ["b", "1"], ["c", "1"]]
    names = lambda *argv: k("get", "cm", "-o", "name", *argv).split()
    assert names("-l", "x=1") == ["configmap/a", "configmap/c"] and names("-l", "x!=1,x") == ["configmap/b"]
    assert names("-l", "x in (1,2),!y") == ["configmap/b", "configmap/c"] and names("a", "b") == ["configmap/a", "configmap/b"]
    assert names("--field-selector", "metadata.name=b") == ["configmap/b"] and "configmap/b" not in names("--field-selector", "metadata.name!=b")
    assert names("--sort-by", ".data.v", "-l", "x") == ["configmap/b", "configmap/c", "configmap/a"]
    assert names("--chunk-size=1", "-l", "x") == ["configmap/a", "configmap/b", "configmap/c"]
    assert k("get", "cm", "-l", "x=2", "-o", "custom-columns=N:.metadata.name,V:.data.v").split() == ["N", "V", "b", "1"]
    assert k("get", "cm", "-l", "x", "-o", "jsonpath={range .items[*]}{.metadata.name}={.data.v} {end}") == "a=3 b=1 c=2 "
    assert k("get", "cm", "a", "-o", "go-template={{.data.v}}") == "3"
    assert k.get("cm", "a")["data"] == {"v": "3"} and "\n  v: \"3\"\n" in k("get", "cm", "a", "-o", "yaml")
    assert k.rows("get", "cm", "a", "--show-labels")[1][-1] == "x=1,y=1" and k.rows("get", "cm", "b", "-L", "x")[0][-1] == "X"
    assert k("get", "cm", "a", "--no-headers").startswith("a ")
    assert k("get", "cm", "-l", "x=9") == "" and "No resources found in " + k.ns in k.err
    assert 'configmaps "nothing" not found' in (k("get", "cm", "nothing", rc=1), k.err)[1] and k("get", "cm", "nothing", "--ignore-not-found") == ""
    assert "managedFields" not in k("get", "cm", "a", "-o", "yaml") and "managedFields" in k("get", "cm", "a", "-o", "yaml", "--show-managed-fields")
    everywhere = k.rows("get", "cm", "-A", "-l", "x")
    assert everywhere[0][:2] == ["NAMESPACE", "NAME"] and [k.ns, "a"] in [r[:2] for r in everywhere]
    assert json.loads(k("get", "--raw", f"/api/v1/namespaces/{k.ns}/configmaps/a", "--request-timeout=10s"))["data"]["v"] == "3"
    wide = k.rows("get", "nodes", "-o", "wide")
    assert "CONTAINER-RUNTIME" in wide[0] and wide[1][0] == "n0"
    assert [r[0] for r in k.rows("get", "no")] == ["NAME", "n0", "n1"]


def test_get_all_and_pods(box):
    k = box
    k("wait", "--for=condition=Ready", "pod/box", "--timeout=180s")
    assert k.rows("get", "pods")[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"] and k.rows("get", "pods")[1][:4] == ["box", "2/2", "Running", "0"]
    wide = k.rows("get", "pod", "box", "-o", "wide")
    assert wide[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"] and wide[1][6] in ("n0", "n1")
    assert "pod/box" in k("get", "all")
    assert k("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == "pod/box\n" and k("get", "pods", "--field-selector", "status.phase=Failed", "-o", "name") == ""
    assert k("get", "pods", "--field-selector", f"spec.nodeName={wide[1][6]}", "-o", "name") == "pod/box\n"
    assert re.search('"spec.bogus" not supported|not supported: spec.bogus', (k("get", "pods", "--field-selector", "spec.bogus=1", rc=1), k.err)[1])


@pytest.mark.clients  # streams of events
@pytest.mark.parametrize("how", ["-w", "--watch-only"])
def test_get_watch(k, how):
    k("create", "cm", "first", "--from-literal=a=b")
    w = k.start("get", "cm", how, "-o", "jsonpath={.metadata.name}{\"\\n\"}", "--field-selector=metadata.name!=kube-root-ca.crt")
    try:
        if how == "-w":
            assert w.stdout.readline() == "first\n"
        # --watch-only says nothing until something happens: make names until the first is seen.
        def seen():
            k("create", "cm", f"n{time.monotonic_ns()}")
            return bool(select.select([w.stdout], [], [], 0.5)[0])
        wait_for("the watch sees a new object", seen, 30)
        line = w.stdout.readline().strip()
        assert line.startswith("n") and k.path_of(f"cm {line}", ".metadata.name") == line
    finally:
        w.kill()
        w.communicate(timeout=200)

# ---- describe ----

@pytest.mark.clients  # what it reads of an object and beside it
def test_describe(k):
    k("create", "-f", "-", input=[deployment("web", 1), statefulset("db", 1), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"},
       "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"name": "p", "port": 80}]}},
       {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": pod("x", "true", restartPolicy="Never")["spec"]}}},
       {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}}])
    k("rollout", "status", "deploy/web", "--timeout=180s")
    k("wait", "--for=condition=Complete", "job/job", "--timeout=180s")
    k("rollout", "status", "sts/db", "--timeout=180s")
    d = lambda *argv: k("describe", *argv)
    wait_for("its event is told", lambda: "ScalingReplicaSet" in d("deployment", "web"))
    text = d("deployment", "web")
    assert "Replicas:               1 desired | 1 updated | 1 total | 1 available | 0 unavailable" in text and "NewReplicaSet:" in text
    wait_for("its start is told", lambda: re.search(r"Normal\s+Started\b", d("pod", "-l", "app=web")))
    text = d("pod", "-l", "app=web")
    assert re.search(r"Status:\s+Running", text) and re.search(r"Ready\s+True", text) and f"Image:         {IMAGE}" in text
    assert re.search(r"Pods Status:\s+1 Running / 0 Waiting / 0 Succeeded / 0 Failed", d("sts", "db"))
    assert re.search(r"Pods Statuses:\s+0 Active.* / 1 Succeeded / 0 Failed", d("job", "job"))
    wait_for("its end is told", lambda: "Completed" in d("job", "job"))
    assert re.search(r"IP:\s+None", d("svc", "db")) and re.search(r"Port:\s+p\s+80/TCP", d("svc", "db"))
    wait_for("the budget is counted", lambda: re.search(r"Allowed disruptions:\s+0", d("pdb", "keep")), 30)
    text = d("node", "n0")
    assert re.search(r"Ready\s+True", text) and "Allocatable:" in text and "Non-terminated Pods:" in text and re.search(r"Hostname:\s+n0", text)
    assert re.search(r"web-\S+\s+0 \(0%\)", d("nodes"))
    for kind in ("rs", "cm", "sa"):
        assert "Name:" in d(kind), kind
    assert "Name:" in d("ns", k.ns)  # not all: kubectl fails when one goes meanwhile, as those of the tests before do
    assert 'pods "nothing" not found' in (k("describe", "pod", "nothing", rc=1), k.err)[1]


CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
       "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
                "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                              "selectableFields": [{"jsonPath": ".spec.size"}],
                              "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                              "schema": {"openAPIV3Schema": {"type": "object", "description": "A widget.", "properties": {
                                  "spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large."}, "replicas": {"type": "integer"},
                                                                            "parts": {"type": "array", "items": {"type": "string"}}}},
                                  "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}}}}}]}}


@pytest.mark.clients  # schemas that it has not built in
def test_custom_resources(k):
    crd = json.loads(json.dumps(CRD))
    old = {**crd["spec"]["versions"][0], "name": "v1alpha1", "storage": False, "deprecated": True}
    crd["spec"]["versions"] += [old, {**old, "name": "v1alpha2", "deprecationWarning": "use \"v1\""}]
    k("apply", "-f", "-", input=crd)
    k("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=180s")
    try:
        w = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3, "parts": ["a", "b"]}}
        assert k("apply", "-f", "-", input=w) == "widget.example.com/w created\n"
        assert k.rows("get", "wd")[0] == ["NAME", "SIZE"] and k.rows("get", "widget", "w")[1] == ["w", "3"] and "widget.example.com/w" in k("get", "all")
        assert k("get", "widgets", "--field-selector", "spec.size=3", "-o", "name") == "widget.example.com/w\n" and k("get", "widgets", "--field-selector", "spec.size=4", "-o", "name") == ""
        assert re.search(r"size\s+<integer>\n\s+How large\.", k("explain", "widget.spec")) and re.search(r"Size:\s+3", k("describe", "widget", "w"))
        assert "Warning" not in k.err
        for version, words in (("v1alpha1", "example.com/v1alpha1 Widget is deprecated"), ("v1alpha2", 'use "v1"')):
            assert f"Warning: {words}" in (k("get", f"widgets.{version}.example.com", "w"), k.err)[1]
        assert k("apply", "-f", "-", input={**w, "spec": {"size": 4}}) == "widget.example.com/w configured\n"
        assert k.get("widget", "w")["spec"] == {"size": 4}, "a field that the new configuration has not is removed"
        assert "strategic merge patch is not supported" in (k("patch", "widget", "w", "-p", '{"spec":{"size":5}}', rc=1), k.err)[1] or "not support" in k.err
        k("patch", "widget", "w", "--type=merge", "-p", '{"spec":{"size":5}}')
        k("patch", "widget", "w", "--type=merge", "--subresource=status", "-p", '{"status":{"phase":"Made"},"spec":{"size":6}}')
        assert k.path_of("widget w", ".spec.size") == "5" and k("wait", "--for=jsonpath={.status.phase}=Made", "widget/w", "--timeout=180s")
        k("scale", "widget", "w", "--replicas=7")
        assert k.path_of("widget w", ".spec.replicas") == "7"
        assert re.search(r"spec\.size: Invalid value: .* must be of type integer", (k("apply", "-f", "-", input={**w, "spec": {"size": "big"}}, rc=1), k.err)[1])
        assert 'unknown field "spec.bogus"' in (k("apply", "-f", "-", input={**w, "spec": {"bogus": 1}}, rc=1), k.err)[1]
    finally:
        k("delete", "crd", "widgets.example.com")
    k("get", "widgets", rc=1)

# ---- who ----

def test_auth(k):
    assert re.search(r"Username\s+admin", k("auth", "whoami"))
    assert k("auth", "can-i", "create", "pods") == "yes\n" and re.search(r"^\*\.\*\s", k("auth", "can-i", "--list"), re.M)  # status.resourceRules
    k("create", "serviceaccount", "reader")
    me = f"--as=system:serviceaccount:{k.ns}:reader"
    assert k("auth", "can-i", "get", "secrets", me, rc=1) == "no\n"
    # A role lets it read and no more; the token of the account has the same rights.
    k("create", "role", "read", "--verb=get,list", "--resource=configmaps,pods", "--resource=deployments.apps")
    k("create", "rolebinding", "read", "--role=read", f"--serviceaccount={k.ns}:reader")
    wait_for("the role holds", lambda: k("auth", "can-i", "list", "configmaps", me) == "yes\n", 10)
    assert k("auth", "can-i", "delete", "configmaps", me, rc=1) == "no\n" and k("auth", "can-i", "get", "configmaps", me, "-A", rc=1) == "no\n"
    k("create", "cm", "c", "--from-literal=a=b")
    token = k("create", "token", "reader").strip()
    server = k("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    ca = json.loads(k("config", "view", "--raw", "--minify", "-o", "json"))["clusters"][0]["cluster"]
    file = pathlib.Path(k.env["TMPDIR"]) / "reader.conf"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                                "clusters": [{"name": "c", "cluster": {**ca, "server": server}}], "users": [{"name": "u", "user": {"token": token}}]}))
    alone = ("--kubeconfig", file)
    assert f"system:serviceaccount:{k.ns}:reader" in k("auth", "whoami", *alone) and k("get", "cm", "c", "-o", "jsonpath={.data.a}", *alone) == "b"
    k("delete", "cm", "c", *alone, rc=1)
    assert f'configmaps "c" is forbidden: User "system:serviceaccount:{k.ns}:reader" cannot delete resource "configmaps" in API group "" in the namespace "{k.ns}"' in k.err
    k("create", "clusterrole", "nodes-" + k.ns, "--verb=list", "--resource=nodes")
    k("create", "clusterrolebinding", "nodes-" + k.ns, f"--clusterrole=nodes-{k.ns}", f"--serviceaccount={k.ns}:reader")
    try:
        wait_for("the cluster role holds", lambda: "n0" in k("get", "nodes", *alone), 10)
        out = k("auth", "reconcile", "-f", "-", input={"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "read", "namespace": k.ns},
                                                       "rules": [{"apiGroups": [""], "resources": ["events"], "verbs": ["get"]}]})
        assert "read reconciled" in out and k("auth", "can-i", "get", "events", me) == "yes\n" and k("auth", "can-i", "get", "pods", me) == "yes\n"
    finally:
        k("delete", "clusterrole,clusterrolebinding", "nodes-" + k.ns)
