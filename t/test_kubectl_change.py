"""kubectl's commands that make, change and delete (see test_kubectl.py)."""
import base64
import json
import re

import pytest

from harness import wait_for
from kubectls import client, cm, deployment, k, pod, statefulset  # noqa: F401 (fixtures)
from podplane import IMAGE, plane  # noqa: F401

pytestmark = pytest.mark.feature("F1.10")


# ---- create and run ----

@pytest.mark.clients  # validation on either side
def test_create(k, tmp_path):
    assert k("create", "deployment", "web", f"--image={IMAGE}", "--replicas=2", "--", "sleep", "1000") == "deployment.apps/web created\n"
    assert k.path_of("deploy web", ".spec.template.spec.containers[0].command") == '["sleep","1000"]'
    k("rollout", "status", "deploy/web", "--timeout=180s")
    k("create", "job", "one", f"--image={IMAGE}", "--", "true")
    k("wait", "--for=condition=Complete", "job/one", "--timeout=180s")
    (tmp_path / "file").write_text("text")
    k("create", "configmap", "conf", "--from-literal=a=b", f"--from-file={tmp_path}/file")
    assert k.get("cm", "conf")["data"] == {"a": "b", "file": "text"}
    k("create", "secret", "generic", "s", "--from-literal=password=hidden")
    assert k.path_of("secret s", ".data.password") == "aGlkZGVu" and k.path_of("secret s", ".type") == "Opaque"
    k("create", "secret", "docker-registry", "r", "--docker-username=u", "--docker-password=p")
    assert k.path_of("secret r", ".type") == "kubernetes.io/dockerconfigjson"
    k("create", "service", "clusterip", "web", "--tcp=80:8080", "--clusterip=None")
    assert k.path_of("svc web", ".spec.clusterIP") == "None" and k.path_of("svc web", ".spec.ports[0].targetPort") == "8080"
    for argv, word in ((("nodeport", "np", "--tcp=80"), "spec.type"), (("externalname", "en", "--external-name=x.example.com"), "spec.type"), (("loadbalancer", "lb", "--tcp=80"), "spec.type")):
        k("create", "service", *argv, rc=1)
        assert word in k.err and "is not served by the embedded API" in k.err
    k("create", "serviceaccount", "sa")
    token = k("create", "token", "sa", "--duration=1h")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{k.ns}:sa" and 3500 < claims["exp"] - claims["iat"] < 3700
    k("create", "priorityclass", "high-" + k.ns, "--value=1000", "--description=d")
    assert k.path_of("priorityclass high-" + k.ns, ".value") == "1000"
    k("delete", "priorityclass", "high-" + k.ns)
    k("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=1")
    k.wait_for("pdb b", ".status.currentHealthy", 2)
    assert "configmap/dry created" in k("create", "cm", "dry", "--dry-run=server") and k("get", "cm", "dry", "--ignore-not-found") == ""
    assert "already exists" in (k("create", "cm", "conf", rc=1), k.err)[1]
    assert "kind: Deployment" in k("create", "deployment", "x", "--image=x", "--dry-run=client", "-o", "yaml")


def test_create_of_what_is_not_there_is_refused_in_words(k, tmp_path):
    words = "the embedded API"
    cases = [("create", "quota", "q", "--hard=pods=1"), ("create", "ingress", "i", "--rule=a/b=c:80"), ("create", "cronjob", "c", "--image=x", "--schedule=* * * * *"),
             ("autoscale", "deployment", "web", "--max=3")]
    k("create", "deployment", "web", f"--image={IMAGE}", "--replicas=0")
    for argv in cases:
        k(*argv, rc=1)
        assert words in k.err or (argv[0] == "autoscale" and "autoscaling" in k.err), (argv, k.err)
    (tmp_path / "d.yaml").write_text("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d}\n")
    k("create", "-f", tmp_path / "d.yaml", rc=1)
    assert 'no matches for kind "DaemonSet" in version "apps/v1"' in k.err
    for argv in (("top", "nodes"), ("top", "pods")):
        k(*argv, rc=1)
        assert "Metrics API not available" in k.err


def test_run(k):
    assert k("run", "one", f"--image={IMAGE}", "--restart=Never", "--env=A=5", "--labels=x=y", "--", "sh", "-c", "echo A is $A") == "pod/one created\n"
    k("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/one", "--timeout=180s")
    assert k("logs", "one") == "A is 5\n" and k.path_of("pod one", ".metadata.labels.x") == "y"
    out = k("run", "two", f"--image={IMAGE}", "--restart=Never", "--rm", "-i", "--quiet", "--", "sh", "-c", "read a; echo got $a", input="word\n")
    assert "got word" in out and k("get", "pod", "two", "--ignore-not-found") == ""

# ---- changing ----

@pytest.mark.clients  # three-way patches
def test_apply(k, tmp_path):
    f = tmp_path / "d.json"
    put = lambda o: f.write_text(json.dumps(o))
    put(deployment("web", 1, env={"A": "1", "B": "2"}))
    assert k("apply", "-f", f) == "deployment.apps/web created\n" and k("apply", "-f", f) == "deployment.apps/web unchanged\n"
    k("scale", "deploy/web", "--replicas=2")
    d = deployment("web", 1, env={"A": "1"}, labels={"new": "label"})
    del d["spec"]["replicas"]
    put(d)
    assert k("apply", "-f", f, "--dry-run=server") == "deployment.apps/web configured (server dry run)\n" and k.path_of("deploy web", ".metadata.labels.new") == ""
    assert k("apply", "-f", f) == "deployment.apps/web configured\n"
    now = k.get("deploy", "web")
    assert now["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}], "a field that was taken out of the file is removed"
    assert now["spec"]["replicas"] == 1, "replicas was in the file before, so it falls back to its default"
    assert "last-applied-configuration" in json.dumps(now["metadata"]["annotations"])
    assert '"new":"label"' in k("apply", "view-last-applied", "deploy/web", "-o", "json").replace(" ", "").replace("\n", "")
    d["spec"]["template"]["spec"]["containers"][0]["bogus"] = 1
    put(d)
    assert 'unknown field "spec.template.spec.containers[0].bogus"' in (k("apply", "-f", f, rc=1), k.err)[1]
    assert "configured" in k("apply", "-f", f, "--validate=warn") + "configured" and 'unknown field' in k.err


def test_apply_prune(k, tmp_path):
    f = tmp_path / "set.json"
    put = lambda *o: f.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(o)}))
    put(cm("a", {"set": "s"}), cm("b", {"set": "s"}))
    k("apply", "-f", f)
    put(cm("a", {"set": "s"}))
    out = k("apply", "-f", f, "--prune", "-l", "set=s", "--prune-allowlist=core/v1/ConfigMap")
    assert "configmap/b pruned" in out and k("get", "cm", "-l", "set=s", "-o", "name") == "configmap/a\n"
    # Without a list kubectl wants kinds that are not there: it says which.
    assert 'no matches for kind "ReplicationController"' in (k("apply", "-f", f, "--prune", "-l", "set=s", rc=1), k.err)[1]
    # The newer way: a parent remembers what was applied.
    put(cm("a2"), cm("b2"))
    alpha = {"KUBECTL_APPLYSET": "true"}
    k("apply", "-f", f, "--prune", "--applyset=secret/parent", env=alpha)
    put(cm("a2"))
    out = k("apply", "-f", f, "--prune", "--applyset=secret/parent", env=alpha)
    assert "configmap/b2 pruned" in out and k("get", "cm", "b2", "--ignore-not-found") == ""


@pytest.mark.clients  # conflicts
def test_apply_server_side(k):
    apply = lambda manager, o, *argv, rc=0: k("apply", "--server-side", f"--field-manager={manager}", *argv, "-f", "-", input=o, rc=rc)
    assert apply("m1", cm("c", a="1", b="1")) == "configmap/c serverside-applied\n"
    assert "serverside-applied" in apply("m2", cm("c", a="1"))  # the same value: both own it
    apply("m2", cm("c", a="2"), rc=1)
    assert 'Apply failed with 1 conflict: conflict with "m1": .data.a' in k.err and k.path_of("cm c", ".data.a") == "1"
    apply("m2", cm("c", a="2"), "--force-conflicts")
    owners = {m["manager"]: m["fieldsV1"] for m in k.get("cm", "c", "--show-managed-fields")["metadata"]["managedFields"]}
    assert "f:a" in owners["m2"]["f:data"] and "f:a" not in owners["m1"]["f:data"] and "f:b" in owners["m1"]["f:data"]
    apply("m1", cm("c"))  # what only m1 owned goes
    assert k.get("cm", "c")["data"] == {"a": "2"}
    assert "(server dry run)" in apply("m1", cm("c", z="1"), "--dry-run=server") and "z" not in k.get("cm", "c")["data"]


def test_diff(k):
    k("apply", "-f", "-", input=cm("c", a="1", b="2"))
    assert k("diff", "-f", "-", input=cm("c", a="1", b="2")) == ""
    out = k("diff", "-f", "-", input=cm("c", a="9"), rc=1)
    changed = [l for l in out.splitlines() if re.match(r"[+-] ", l)]
    assert '-  a: "1"' in changed and '+  a: "9"' in changed and '-  b: "2"' in changed and k.path_of("cm c", ".data.a") == "1"
    assert '+  a: "7"' in k("diff", "--server-side", "--force-conflicts", "-f", "-", input=cm("c", a="7", b="2"), rc=1)
    assert '+  x: "1"' in k("diff", "-f", "-", input=cm("new", x="1"), rc=1)


def test_edit(k, tmp_path):
    k("create", "cm", "c", "--from-literal=a=before")
    editor = tmp_path / "editor"
    write = lambda text: (editor.write_text("#!/bin/sh\n" + text), editor.chmod(0o755))
    write('sed -i "s/a: before/a: after/" "$1"')
    assert k("edit", "cm", "c", env={"EDITOR": str(editor)}) == "configmap/c edited\n" and k.path_of("cm c", ".data.a") == "after"
    write("true")
    assert "cancelled, no changes made" in (k("edit", "cm", "c", env={"EDITOR": str(editor)}) + k.err)
    # A wrong edit comes back with the reason; giving up the second time leaves the object.
    write('grep -q "was not valid" "$1" && exit 0; sed -i "s/^data:/bogus: 1\\ndata: wrong/;/^  a:/d" "$1"')
    k("edit", "cm", "c", env={"EDITOR": str(editor)}, rc=1)
    assert k.path_of("cm c", ".data.a") == "after"


@pytest.mark.clients  # every kind of patch
def test_patch(k):
    k("create", "-f", "-", input=deployment("web", 0, env={"A": "1"}))
    k("patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"2"}]}]}}}}')
    env = lambda: [e["name"] for e in k.get("deploy", "web")["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert sorted(env()) == ["A", "B"], "a strategic merge joins lists by their key"
    k("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"x":"y"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"C","value":"3"}]}]}}}}')
    assert env() == ["C"] and k.path_of("deploy web", ".metadata.labels.x") == "y"
    k("patch", "deploy", "web", "--type=json", "-p", '[{"op":"test","path":"/spec/replicas","value":0},{"op":"add","path":"/metadata/labels/z","value":"1"},{"op":"remove","path":"/metadata/labels/x"}]')
    assert k.get("deploy", "web")["metadata"]["labels"] == {"z": "1"}
    assert "the server rejected our request" in (k("patch", "deploy", "web", "--type=json", "-p", '[{"op":"test","path":"/spec/replicas","value":7}]', rc=1), k.err)[1] or "test" in k.err
    k("patch", "deploy", "web", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":0}}')
    node = k.get("node", "n1")["metadata"]["resourceVersion"]
    k("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", '{"status":{"capacity":{"example.com/thing":"3"}}}')
    assert k.path_of("node n1", ".status.capacity.example\\.com/thing") == "3" and k.get("node", "n1")["metadata"]["resourceVersion"] != node
    k("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", '{"status":{"capacity":{"example.com/thing":null}}}')
    assert "(no change)" in k("patch", "deploy", "web", "--type=merge", "-p", '{"spec":{"replicas":0}}')


def test_replace(k):
    k("create", "cm", "c", "--from-literal=a=1")
    stale = k.get("cm", "c")
    k("patch", "cm", "c", "--type=merge", "-p", '{"data":{"a":"2"}}')
    k("replace", "-f", "-", input={**stale, "data": {"a": "3"}}, rc=1)
    assert "the object has been modified; please apply your changes to the latest version and try again" in k.err and k.path_of("cm c", ".data.a") == "2"
    del stale["metadata"]["resourceVersion"]
    assert k("replace", "-f", "-", input={**stale, "data": {"a": "3"}}) == "configmap/c replaced\n" and k.path_of("cm c", ".data.a") == "3"
    uid = k.path_of("cm c", ".metadata.uid")
    k("replace", "--force", "-f", "-", input=cm("c", a="4"))
    assert k.path_of("cm c", ".data.a") == "4" and k.path_of("cm c", ".metadata.uid") != uid
    assert 'configmaps "none" not found' in (k("replace", "-f", "-", input=cm("none"), rc=1), k.err)[1]


def test_label(k):
    k("create", "cm", "c")
    assert k("label", "cm", "c", "a=1", "b=2") == "configmap/c labeled\n"
    k("label", "cm", "c", "a=3", rc=1)
    assert "already has a value (1), and --overwrite is false" in k.err
    k("label", "cm", "c", "a=3", "b-", "--overwrite")
    assert k.get("cm", "c")["metadata"]["labels"] == {"a": "3"}
    assert "a valid label must be" in (k("label", "cm", "c", "x=not valid", rc=1), k.err)[1]
    assert "labeled" in k("label", "cm", "--all", "every=one") and k("get", "cm", "-l", "every=one,a=3", "-o", "name") == "configmap/c\n"


def test_annotate(k):
    k("create", "cm", "c")
    assert k("annotate", "cm", "c", "example.com/note=any text: at all") == "configmap/c annotated\n"
    assert k.get("cm", "c")["metadata"]["annotations"]["example.com/note"] == "any text: at all"
    k("annotate", "cm", "c", "example.com/note-")
    assert "example.com/note" not in k.get("cm", "c")["metadata"].get("annotations", {})


def test_scale(k):
    k("create", "-f", "-", input=[deployment("web", 1), statefulset("db", 0)])
    assert k("scale", "deploy/web", "--replicas=2", "--current-replicas=1") == "deployment.apps/web scaled\n"
    k.wait_for("deploy web", ".status.readyReplicas", 2)
    assert "Expected replicas to be 1, was 2" in (k("scale", "deploy/web", "--replicas=3", "--current-replicas=1", rc=1), k.err)[1]
    k("scale", "sts/db", "--replicas=1", "--timeout=180s")
    k.wait_for("sts db", ".status.readyReplicas", 1)
    k("scale", "rs", "-l", "app=web", "--replicas=2")
    k("scale", "deploy/web", "--replicas=0")
    wait_for("no pods", lambda: k("get", "pods", "-l", "app=web", "-o", "name") == "", 60)


def test_rollout(k):
    k("create", "-f", "-", input=[deployment("web", 1, env={"V": "1"}), statefulset("db", 1)])
    assert 'deployment "web" successfully rolled out' in k("rollout", "status", "deploy/web", "--timeout=180s")
    k("set", "env", "deploy/web", "V=2")
    k("annotate", "deploy/web", "kubernetes.io/change-cause=second")
    k("rollout", "status", "deploy/web", "--timeout=180s")
    wait_for("the cause is told", lambda: re.search(r"^2\s+second$", k("rollout", "history", "deploy/web"), re.M))
    assert re.search(r"^1\s+<none>$", k("rollout", "history", "deploy/web"), re.M)
    assert "V:\t1" in k("rollout", "history", "deploy/web", "--revision=1")
    assert "rolled back" in k("rollout", "undo", "deploy/web", "--to-revision=1") and k.path_of("deploy web", ".spec.template.spec.containers[0].env[0].value") == "1"
    assert "unable to find specified revision 9" in (k("rollout", "undo", "deploy/web", "--to-revision=9", rc=1), k.err)[1]
    k("rollout", "status", "deploy/web", "--timeout=180s")
    wait_for("the old pod is gone", lambda: len(k("get", "pods", "-l", "app=web", "-o", "name").split()) == 1)  # the rollout is done before
    assert k("rollout", "pause", "deploy/web") == "deployment.apps/web paused\n"
    k("set", "env", "deploy/web", "V=4")
    k("scale", "deploy/web", "--replicas=2")  # works while it is paused
    wait_for("two pods of the old template", lambda: k("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].env[0].value}") == "1 1")
    assert "it's already paused" in (k("rollout", "pause", "deploy/web", rc=1), k.err)[1] or "already paused" in k.err
    assert k("rollout", "resume", "deploy/web") == "deployment.apps/web resumed\n"
    k("rollout", "status", "deploy/web", "--timeout=180s")
    pods = lambda: set(k("get", "pods", "-l", "app=web", "-o", "name").split())
    old = pods()
    assert k("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    k("rollout", "status", "deploy/web", "--timeout=180s")
    wait_for("the old pods are gone", lambda: len(pods()) == 2 and not old & pods())
    assert "partitioned roll out complete" in k("rollout", "status", "sts/db", "--timeout=180s") or "rolling update complete" in k("rollout", "status", "sts/db")
    k("set", "env", "sts/db", "V=2")
    k("rollout", "status", "sts/db", "--timeout=180s")
    for verb in ("history", "undo"):
        k("rollout", verb, "sts/db", rc=1)
        assert "old templates of a StatefulSet are not kept" in k.err


def test_set(k):
    k("create", "-f", "-", input=deployment("web", 0))
    assert k("set", "image", "deploy/web", "c=debian:12") == "deployment.apps/web image updated\n"
    k("set", "resources", "deploy/web", "--limits=cpu=2,memory=64Mi", "--requests=cpu=1")
    k("set", "serviceaccount", "deploy/web", "default")
    k("create", "cm", "conf", "--from-literal=KEY=v")
    k("set", "env", "deploy/web", "--from=cm/conf", "PLAIN=1")
    spec = k.get("deploy", "web")["spec"]["template"]["spec"]
    c = spec["containers"][0]
    assert c["image"] == "debian:12" and c["resources"] == {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "1"}} and spec["serviceAccountName"] == "default"
    assert {"name": "PLAIN", "value": "1"} in c["env"] and {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "KEY"}}} in c["env"]
    assert "PLAIN=1" in k("set", "env", "deploy/web", "--list")
    k("set", "env", "deploy/web", "PLAIN-")
    assert "PLAIN" not in k("set", "env", "deploy/web", "--list")
    k("create", "service", "clusterip", "web", "--clusterip=None", "--tcp=80")
    k("set", "selector", "svc/web", "app=other")
    assert k.get("svc", "web")["spec"]["selector"] == {"app": "other"}
    assert 'unable to find container named "nothing"' in (k("set", "image", "deploy/web", "nothing=x", rc=1), k.err)[1]


def test_kustomize(k, tmp_path):
    (tmp_path / "cm.yaml").write_text(json.dumps(cm("one", x="1")))
    (tmp_path / "kustomization.yaml").write_text("namePrefix: pre-\nresources: [cm.yaml]\nconfigMapGenerator: [{name: gen, literals: [a=b]}]\n")
    assert "name: pre-one" in k("kustomize", tmp_path)
    out = k("apply", "-k", tmp_path)
    assert "configmap/pre-one created" in out and re.search(r"configmap/pre-gen-\w+ created", out) and k.path_of("cm pre-one", ".data.x") == "1"
    assert "unchanged" in k("apply", "-k", tmp_path)
    k("delete", "-k", tmp_path)
    assert k("get", "cm", "pre-one", "--ignore-not-found") == ""

# ---- delete, wait, events ----

@pytest.mark.clients  # graces and waits
def test_delete(k):
    # Ready when the trap is set.
    stubborn = {"name": "c", "image": IMAGE, "command": ["sh", "-c", "trap '' TERM; : >/up; while :; do sleep 0.1; done"],
                "readinessProbe": {"exec": {"command": ["test", "-e", "/up"]}, "periodSeconds": 1, "timeoutSeconds": 30}}
    k("create", "-f", "-", input=[pod("slow", containers=[stubborn], terminationGracePeriodSeconds=1000), pod("quick"), cm("a", {"x": "1"}), cm("b", {"x": "1"}), cm("c", {"x": "2"})])
    k("wait", "--for=condition=Ready", "pod/slow", "pod/quick", "--timeout=180s")
    assert 'pod "quick" deleted' in k("delete", "pod", "quick") and k("get", "pod", "quick", "--ignore-not-found") == ""  # it waits for the end
    k("delete", "pod", "slow", "--wait=false")
    assert k.path_of("pod slow", ".metadata.deletionGracePeriodSeconds") == "1000"
    k("delete", "pod", "slow", "--grace-period=0", "--force")
    assert "Immediate deletion does not wait" in k.err and k("get", "pod", "slow", "--ignore-not-found") == ""
    assert k("delete", "cm", "-l", "x=1").count("deleted") == 2 and k("get", "cm", "-l", "x", "-o", "name") == "configmap/c\n"
    assert "deleted (server dry run)" in k("delete", "cm", "c", "--dry-run=server").replace(f" from {k.ns} namespace", "") and k("get", "cm", "c", "-o", "name")
    assert "not found" in (k("delete", "cm", "nothing", rc=1), k.err)[1] and k("delete", "cm", "nothing", "--ignore-not-found") == ""
    k("delete", "cm", "--all")
    wait_for("all are gone", lambda: k("get", "cm", "-l", "x", "-o", "name") == "", 10)


@pytest.mark.parametrize("how", ["background", "foreground", "orphan"])
def test_delete_cascades(k, how):
    k("create", "-f", "-", input=deployment("web", 1))
    k("rollout", "status", "deploy/web", "--timeout=180s")
    rs = k("get", "rs", "-l", "app=web", "-o", "name").strip()
    k("delete", "deploy", "web", f"--cascade={how}", "--timeout=180s")
    assert k("get", "deploy", "web", "--ignore-not-found") == ""
    if how == "orphan":
        assert k.path_of(rs, ".metadata.ownerReferences") == "" and k.path_of(rs, ".status.readyReplicas") == "1"
        k("create", "-f", "-", input=deployment("web", 1))  # the same again adopts it
        k("rollout", "status", "deploy/web", "--timeout=180s")
        assert k.path_of(rs, ".metadata.ownerReferences[0].name") == "web" and k("get", "rs", "-l", "app=web", "-o", "name").strip() == rs
    elif how == "foreground":
        assert k("get", "rs,pods", "-l", "app=web", "-o", "name") == ""
    else:
        wait_for("what it owned is gone", lambda: k("get", "rs,pods", "-l", "app=web", "-o", "name") == "", 60)


@pytest.mark.clients  # conditions, watches
def test_wait(k):
    k("create", "-f", "-", input=[pod("p"), deployment("web", 1), cm("c")])
    assert k("wait", "--for=condition=Ready", "pod/p", "--timeout=180s") == "pod/p condition met\n"
    assert k("wait", "--for=condition=Available", "deploy", "--all", "--timeout=180s") == "deployment.apps/web condition met\n"
    assert k("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=180s") and k("wait", "--for=jsonpath={.status.podIP}", "pod/p", "--timeout=180s")
    assert "timed out waiting" in (k("wait", "--for=condition=Never", "pod/p", "--timeout=1s", rc=1), k.err)[1]
    k("patch", "cm", "c", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    k("delete", "cm", "c", "--wait=false")
    assert "timed out waiting" in (k("wait", "--for=delete", "cm/c", "--timeout=1s", rc=1), k.err)[1]
    waits = [k.start("wait", "--for=delete", "cm/c", "--timeout=180s"), k.start("wait", "--for=create", "cm/later", "--timeout=180s")]
    k("patch", "cm", "c", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    k("create", "cm", "later")
    for w in waits:
        out, err = w.communicate(timeout=200)
        assert w.returncode == 0, err
    assert out == "configmap/later condition met\n"
    assert "no matching resources found" in (k("wait", "--for=condition=Ready", "pod", "-l", "none=such", "--timeout=1s", rc=1), k.err)[1]


def test_events(k):
    k("create", "-f", "-", input=[pod("good"), pod("bad", containers=[{"name": "c", "image": "no-such-image:1"}])])
    k("wait", "--for=condition=Ready", "pod/good", "--timeout=180s")
    wait_for("Started is told", lambda: "Started" in k("events", "--for", "pod/good"), 20)
    assert "good" not in k("events", "--for", "pod/bad") and re.search(r"Normal\s+Started\s+Pod/good", k("events"))
    wait_for("the fault is told", lambda: re.search(r"Warning\s+\w+\s+Pod/bad", k("events", "--types=Warning")), 30)
    assert "Normal" not in k("events", "--types=Warning")
    assert re.search(r"Started\s+pod/good", k("get", "events", "--field-selector=involvedObject.name=good")) and "bad" not in k("get", "events", "--field-selector=involvedObject.name=good")
    assert "REASON" in k("get", "events", "--sort-by=.lastTimestamp")
