"""Pods on embedded nodes do what their specification says: volumes, environment, probes, life, rights. See podplane.py."""
import base64
import hashlib
import json
import os

import pytest

from harness import wait_for
from podplane import IMAGE, condition, ended, plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")


def lines(text):
    """key=value lines as a dict."""
    return dict(l.split("=", 1) for l in text.splitlines() if "=" in l)


# ---- volumes ----

def test_configmap_volumes(plane):
    plane.make("configmaps", "cm", data={"a": "one", "b": "two"}, binaryData={"bin": base64.b64encode(bytes(range(256))).decode()})
    vols = [{"name": "all", "configMap": {"name": "cm"}},
            {"name": "some", "configMap": {"name": "cm", "defaultMode": 0o400, "items": [{"key": "a", "path": "deep/er/a"}, {"key": "b", "path": "b", "mode": 0o640}]}},
            {"name": "none", "configMap": {"name": "missing", "optional": True}}]
    script = """
        cd /all; echo list=$(ls); echo a=$(cat a); md5sum < bin | cut -d' ' -f1 | sed s/^/bin=/; stat -Lc mode_all=%a a
        cd /some; echo deep=$(cat deep/er/a); stat -Lc mode_a=%a deep/er/a; stat -Lc mode_b=%a b
        touch /all/x 2>/dev/null && echo writable=yes || echo writable=no; echo none=$(ls /none | wc -l)"""
    with plane.pod(script, "cm", volumes=vols, volumeMounts=[{"name": n, "mountPath": f"/{n}"} for n in ("all", "some", "none")]) as name:
        got = lines(plane.output(name))
    assert got == dict(list="a b bin", a="one", bin=hashlib.md5(bytes(range(256))).hexdigest(), mode_all="644", deep="one", mode_a="400", mode_b="640",
                       writable="no", none="0")


def test_a_changed_configmap_is_seen_by_running_pods_but_not_through_subpath(plane):
    plane.make("configmaps", "live", data={"k": "old", "gone": "x"})
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/one", "subPath": "k"}]
    with plane.pod("sleep 1000", "live", volumes=[{"name": "v", "configMap": {"name": "live"}}], volumeMounts=mounts) as name:
        plane.running(name)
        plane.kubectl("patch", "configmap", "live", "-p", json.dumps({"data": {"k": "new", "gone": None, "more": "y"}}))
        wait_for("the new value", lambda: plane.ex(name, "cat", "/v/k") == "new")
        assert plane.ex(name, "ls", "/v").split() == ["k", "more"]
        assert plane.ex(name, "cat", "/one") == "old"


def test_a_missing_configmap_holds_the_pod_until_it_comes(plane):
    with plane.pod("cat /v/k", "late", volumes=[{"name": "v", "configMap": {"name": "late"}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]) as name:
        assert 'configmap "late" not found' in plane.event(name, "FailedMount")[0]
        plane.refused(name, "ContainerCreating")
        plane.make("configmaps", "late", data={"k": "here"})
        assert plane.output(name) == "here"


def test_secret_volumes(plane):
    plane.make("secrets", "sec", stringData={"user": "u", "pass": "p w"})
    vols = [{"name": "s", "secret": {"secretName": "sec", "defaultMode": 0o440}}]
    script = "cat /s/user /s/pass; stat -Lc ' %a %U' /s/pass; touch /s/x 2>&1 | grep -c Read-only; stat -fc %T /s"
    with plane.pod(script, "sec", volumes=vols, volumeMounts=[{"name": "s", "mountPath": "/s"}]) as name:
        assert plane.output(name).split() == ["up", "w", "440", "root", "1", "tmpfs"]


def test_emptydirs(plane):
    vols = [{"name": "disk", "emptyDir": {}}, {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}]
    mounts = [{"name": "disk", "mountPath": "/disk"}, {"name": "mem", "mountPath": "/mem"}]
    writer = "head -c 4194304 /dev/zero > /mem/f; echo $(stat -fc %T /mem) $(stat -c %a /disk) > /disk/f; head -c 16777216 /dev/zero > /mem/g 2>&1 | tail -c 24; stat -c %s /mem/g"
    reader = "until [ -s /disk/done ]; do sleep 0.05; done; cat /disk/f; stat -c %s /mem/f"
    containers = [{"name": "w", "image": IMAGE, "command": ["sh", "-c", writer + "; echo x > /disk/done"], "volumeMounts": mounts},
                  {"name": "r", "image": IMAGE, "command": ["sh", "-c", reader], "volumeMounts": [*mounts]}]
    with plane.pod(stem="empty", volumes=vols, containers=containers) as name:
        assert plane.over(name)["status"]["phase"] == "Succeeded"
        assert plane.text(name, container="r").split() == ["tmpfs", "777", "4194304"]
        assert plane.text(name, container="w").strip().split("\n")[-1] == "4194304"  # the tmpfs was full


@pytest.mark.feature("D8.3")
def test_an_emptydir_over_its_limit_evicts_the_pod(plane):
    vols = [{"name": "d", "emptyDir": {"sizeLimit": "1Mi"}}]
    with plane.pod("head -c 3000000 /dev/zero > /d/f; sleep 1000", "full", volumes=vols, volumeMounts=[{"name": "d", "mountPath": "/d"}]) as name:
        p = plane.over(name)
        assert (p["status"]["phase"], p["status"]["reason"]) == ("Failed", "Evicted")
        assert 'Usage of EmptyDir volume "d" exceeds the limit "1Mi"' in p["status"]["message"]


def test_an_emptydir_survives_a_restart_of_its_container(plane):
    script = "if [ -f /d/f ]; then cat /d/f; exit 0; fi; echo before > /d/f; touch /lost; exit 1"
    with plane.pod(script, "keep", restartPolicy="OnFailure", volumes=[{"name": "d", "emptyDir": {}}], volumeMounts=[{"name": "d", "mountPath": "/d"}]) as name:
        assert plane.output(name) == "before\n"


def test_hostpaths(plane):
    root = f"{plane.home}/nodes/n0/root"
    os.makedirs(f"{root}/t/dir", exist_ok=True)
    open(f"{root}/t/file", "w").write("hello")
    shared = f"{plane.home}/shared/t"
    cases = {"any": ("/t/made-by-any", ""), "orcreate": ("/t/made/deep", "DirectoryOrCreate"), "dir": ("/t/dir", "Directory"), "file": ("/t/file", "File"),
             "forcreate": ("/t/newfile", "FileOrCreate"), "shared": ("/shared/t", "DirectoryOrCreate")}
    vols = [{"name": k, "hostPath": {"path": p, "type": t}} for k, (p, t) in cases.items()]
    mounts = [{"name": k, "mountPath": f"/m/{k}"} for k in cases]
    script = "cd /m; for i in *; do [ -d $i ] && echo $i=dir; [ -f $i ] && echo $i=file; done; cat file; echo x > dir/out; echo s > shared/f"
    with plane.pod(script, "host", nodeName="n0", volumes=vols, volumeMounts=mounts) as name:
        out = plane.output(name)
        assert lines(out.replace("hello", "")) == dict(any="dir", orcreate="dir", dir="dir", file="file", forcreate="file", shared="dir")
        assert open(f"{root}/t/dir/out").read() == "x\n" and open(f"{shared}/f").read() == "s\n"
    wrong = {"Directory": ("/t/file", "is not a Directory"), "File": ("/t/dir", "is not a File"), "Socket": ("/t/file", "is not a Socket"),
             "CharDevice": ("/nothing", "not there")}
    for kind, (path, text) in wrong.items():
        with plane.pod("true", "hostno", nodeName="n0", volumes=[{"name": "v", "hostPath": {"path": path, "type": kind}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]) as name:
            assert text in plane.event(name, "FailedMount")[0]


def test_downward_and_projected_volumes(plane):
    plane.make("configmaps", "proj", data={"c": "from-cm"})
    plane.make("secrets", "proj", stringData={"s": "from-secret"})
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}, {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
             {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}},
             {"path": "mem", "resourceFieldRef": {"containerName": "c", "resource": "requests.memory", "divisor": "1Mi"}, "mode": 0o600}]
    vols = [{"name": "down", "downwardAPI": {"items": items}},
            {"name": "all", "projected": {"defaultMode": 0o444, "sources": [{"configMap": {"name": "proj"}}, {"secret": {"name": "proj", "items": [{"key": "s", "path": "in/s"}]}},
                                                      {"downwardAPI": {"items": items[1:2]}}, {"serviceAccountToken": {"path": "token", "expirationSeconds": 700, "audience": "me"}}]}}]
    script = "cd /down; cat labels; echo; for i in name cpu mem; do echo $i=$(cat $i); done; stat -Lc mode=%a mem; cd /all; echo c=$(cat c); echo s=$(cat in/s); echo n=$(cat name); echo token=$(cat token); stat -Lc m2=%a c; sleep 1000"
    res = {"limits": {"cpu": "250m", "memory": "64Mi"}}
    with plane.pod(script, "down", labels={"x": "1", "y": 'q'}, volumes=vols, resources=res, volumeMounts=[{"name": n, "mountPath": f"/{n}"} for n in ("down", "all")]) as name:
        plane.running(name)
        wait_for("the script", lambda: "m2=" in plane.text(name))
        text = plane.text(name)
        assert text.startswith('x="1"\ny="q"\n')
        got = lines(text)
        claims = json.loads(base64.urlsafe_b64decode(got["token"].split(".")[1] + "=="))
        assert (got["name"], got["cpu"], got["mem"], got["mode"], got["c"], got["s"], got["n"], got["m2"]) == (name, "250", "64", "600", "from-cm", "from-secret", name, "444")
        assert claims["sub"] == "system:serviceaccount:default:default"
        plane.kubectl("label", "pod", name, "x=2", "--overwrite")
        wait_for("the new label", lambda: 'x="2"' in plane.ex(name, "cat", "/down/labels"))


def test_the_token_of_the_service_account_talks_to_the_api(plane):
    script = "cd /var/run/secrets/kubernetes.io/serviceaccount; ls | tr '\\n' ' '; cat namespace; echo; cut -d. -f2 token; head -1 ca.crt; env | grep -c ^KUBERNETES_SERVICE"
    with plane.pod(script, "sa") as name:
        out = plane.output(name).splitlines()
        assert out[0].split() == ["ca.crt", "namespace", "token", "default"]
        assert json.loads(base64.urlsafe_b64decode(out[1] + "=="))["sub"] == "system:serviceaccount:default:default"
        assert out[2] == "-----BEGIN CERTIFICATE-----" and int(out[3]) >= 2
    with plane.pod("ls /var/run/secrets 2>&1", "nosa", automountServiceAccountToken=False) as name:
        assert plane.over(name)["status"]["phase"] == "Failed"


def test_subpaths_and_read_only(plane):
    vols = [{"name": "d", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/sub", "type": "DirectoryOrCreate"}}]
    mounts = [{"name": "d", "mountPath": "/all"}, {"name": "d", "mountPath": "/a", "subPath": "x/a"}, {"name": "d", "mountPath": "/e", "subPathExpr": "$(WHO)-dir"},
              {"name": "d", "mountPath": "/ro", "readOnly": True}, {"name": "h", "mountPath": "/h", "subPath": "deep"}]
    script = "echo 1 > /a/f; echo 2 > /e/f; cat /all/x/a/f /all/me-dir/f /ro/x/a/f; touch /ro/z 2>/dev/null || echo ro; touch /h/f && echo h"
    with plane.pod(script, "sub", nodeName="n1", volumes=vols, volumeMounts=mounts, env=[{"name": "WHO", "value": "me"}]) as name:
        assert plane.output(name).split() == ["1", "2", "1", "ro", "h"]
    assert os.path.exists(f"{plane.home}/nodes/n1/root/sub/deep/f")


def test_links_and_dots_do_not_leave_a_volume(plane):
    """A container that plants links in a volume must not get more of the host through the next mount or through the agent's own writes."""
    marker = f"{plane.home}/secret-of-the-host"
    open(marker, "w").write("host")
    ups = "/".join([".."] * 20)
    plant = f"ln -s {ups}{marker} /d/file; ln -s / /d/root; ln -s {ups}{plane.home} /d/rel; ln -s /d/loop /d/loop"
    init = {"name": "plant", "image": IMAGE, "command": ["sh", "-c", plant], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    d = [{"name": "d", "emptyDir": {}}]
    for sub in ("file", "root", "rel/pki", "root/etc/shadow", "loop"):
        # Inside the volume the link leads nowhere: a kubelet refuses, or makes what is missing below the volume; never the host's file.
        spec = plane.spec("cat /m /m/ca.key /m/etc/machine-id 2>/dev/null; ls -a /m; true", initContainers=[init], volumes=d, volumeMounts=[{"name": "d", "mountPath": "/m", "subPath": sub}])
        name = plane.name("links")
        plane.post(name, spec)
        p = plane.wait(name, "decided", lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or "CreateContainerConfigError" in json.dumps(p["status"]))
        if p["status"]["phase"] == "Succeeded":
            out = plane.text(name)
            assert "host" not in out and "ca.key" not in out and "vmlinuz" not in out, (sub, out)
        plane.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    # ".." is refused by name
    for field, mount in (("subPath", {"subPath": "a/../../b"}), ("subPath", {"subPath": "/abs"})):
        r = plane.post("dots", plane.spec("true", volumes=d, volumeMounts=[{"name": "d", "mountPath": "/m", **mount}]), want=(422,))
        assert f"spec.containers[0].volumeMounts.{field}" in r["message"]  # as the real one: without the index
    r = plane.post("dots", plane.spec("true", volumes=[{"name": "h", "hostPath": {"path": "/a/../../etc"}}]), want=(422,))
    assert "spec.volumes[0].hostPath.path" in r["message"]
    r = plane.post("dots", plane.spec("true", volumes=[{"name": "c", "configMap": {"name": "cm", "items": [{"key": "a", "path": "../a"}]}}]), want=(422,))
    assert "spec.volumes[0].configMap.items[0].path" in r["message"]
    # subPathExpr is known only when the variables are
    with plane.pod("true", "dots", volumes=d, env=[{"name": "E", "value": "../.."}], volumeMounts=[{"name": "d", "mountPath": "/m", "subPathExpr": "$(E)"}]) as name:
        assert "subPath" in plane.refused(name)
    # A termination message that is a link is not followed
    link = f"rm -f /dev/termination-log; ln -s {marker} /t/msg"
    with plane.pod(link, "term", volumes=[{"name": "t", "emptyDir": {}}], volumeMounts=[{"name": "t", "mountPath": "/t"}], terminationMessagePath="/t/msg") as name:
        assert "host" not in ended(plane.over(name)).get("message", "")


# ---- environment and command ----

def test_environment(plane):
    plane.make("configmaps", "envcm", data={"A": "cm-a", "B": "cm-b", "bad-name": "z"})
    plane.make("secrets", "envsec", stringData={"B": "sec-b", "P": "sec-p"})
    f = lambda p: {"valueFrom": {"fieldRef": {"fieldPath": p}}}
    res = lambda r, d=None: {"valueFrom": {"resourceFieldRef": {"resource": r, **({"divisor": d} if d else {})}}}
    env = [{"name": "PLAIN", "value": "v"}, {"name": "REF", "value": "<$(PLAIN)-$(A)-$(NO)-$$(PLAIN)-$$$(PLAIN)-$(PLAIN>"}, {"name": "LATER", "value": "$(AFTER)"}, {"name": "AFTER", "value": "x"},
           {"name": "NAME", **f("metadata.name")}, {"name": "NS", **f("metadata.namespace")}, {"name": "UID_", **f("metadata.uid")}, {"name": "NODE", **f("spec.nodeName")},
           {"name": "SA", **f("spec.serviceAccountName")}, {"name": "IP", **f("status.podIP")}, {"name": "IPS", **f("status.podIPs")}, {"name": "HOST", **f("status.hostIP")},
           {"name": "LABEL", **f("metadata.labels['app']")}, {"name": "ANN", **f("metadata.annotations['a.b/c']")},
           {"name": "CPU", **res("limits.cpu")}, {"name": "CPUM", **res("requests.cpu", "1m")}, {"name": "MEM", **res("limits.memory")}, {"name": "NOLIMIT", **res("limits.ephemeral-storage")},
           {"name": "FROM_CM", "valueFrom": {"configMapKeyRef": {"name": "envcm", "key": "A"}}}, {"name": "FROM_SEC", "valueFrom": {"secretKeyRef": {"name": "envsec", "key": "P"}}},
           {"name": "OPT", "valueFrom": {"configMapKeyRef": {"name": "nope", "key": "A", "optional": True}}}, {"name": "B", "value": "own"},
           {"name": "DUP", "value": "1"}, {"name": "DUP", "value": "$(DUP)2"}, {"name": "EMPTY"}]
    env_from = [{"configMapRef": {"name": "envcm"}}, {"prefix": "S_", "secretRef": {"name": "envsec"}}, {"secretRef": {"name": "envsec"}}, {"configMapRef": {"name": "nope", "optional": True}}]
    with plane.pod(stem="env", command=["env"], labels={"app": "web"}, annotations={"a.b/c": "note"}, env=env, envFrom=env_from,
                   resources={"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}) as name:
        got = lines(plane.output(name))
        p = plane.pod_of(name)
    want = dict(PLAIN="v", REF="<v-cm-a-$(NO)-$(PLAIN)-$v-$(PLAIN>", LATER="$(AFTER)", NAME=name, NS="default", UID_=p["metadata"]["uid"], NODE=p["spec"]["nodeName"], SA="default",
                IP=p["status"]["podIP"], IPS=p["status"]["podIP"], HOST=p["status"]["hostIP"], LABEL="web", ANN="note", CPU="2", CPUM="250", MEM=str(64 << 20), FROM_CM="cm-a", FROM_SEC="sec-p",
                A="cm-a", B="own", P="sec-p", S_B="sec-b", S_P="sec-p", DUP="12", EMPTY="", HOSTNAME=name, HOME="/root")
    assert {k: got.get(k) for k in want} == want
    assert "OPT" not in got and got["bad-name"] == "z"


def test_environment_that_cannot_be_made_is_told(plane):
    cases = [([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "nocm", "key": "k"}}}], None, 'configmap "nocm" not found'),
             ([{"name": "X", "valueFrom": {"secretKeyRef": {"name": "nosec", "key": "k"}}}], None, 'secret "nosec" not found'),
             (None, [{"configMapRef": {"name": "nocm"}}], 'configmap "nocm" not found')]
    for env, env_from, text in cases:
        with plane.pod("true", "noenv", env=env or [], envFrom=env_from or []) as name:
            assert text in plane.refused(name)
    # What Kubernetes refuses at the door is refused at the door.
    for field, env in (("fieldRef.fieldPath", {"fieldRef": {"fieldPath": "spec.hostNetwork"}}), ("resourceFieldRef.resource", {"resourceFieldRef": {"resource": "limits.bananas"}})):
        r = plane.post("x", plane.spec("true", env=[{"name": "X", "valueFrom": env}]), want=(422,))
        assert f"spec.containers[0].env[0].valueFrom.{field}" in r["message"]


def test_command_and_args(plane):
    cases = [(dict(command=["echo", "$(E)-$(NO)-$$(E)"], env=[{"name": "E", "value": "ee"}]), "ee-$(NO)-$(E)\n"),
             (dict(command=["echo"], args=["a", "$(E)"], env=[{"name": "E", "value": "b"}]), "a b\n"),
             (dict(args=["echo", "only-args"]), "only-args\n"),
             (dict(command=["pwd"], workingDir="/usr/lib"), "/usr/lib\n"),
             (dict(command=["pwd"], workingDir="/not/there/yet"), "/not/there/yet\n")]
    names = []
    for kw, want in cases:
        n = plane.name("cmd")
        plane.post(n, plane.spec(**kw))
        names.append((n, want))
    for n, want in names:
        assert plane.output(n) == want
    with plane.pod(stem="nocmd", command=["/no/such/program"]) as name:
        p = plane.over(name)
        assert ended(p)["exitCode"] in (127, 128) and "/no/such/program" in ended(p).get("message", "") + plane.text(name)
