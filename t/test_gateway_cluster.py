"""The gateway on a real cluster, as the chart of a Slurm cluster brings it: two pods with their own rights and no more, homes in claims, a certificate
of their own, and a laptop that comes to them. Everything of the pool but the gateway is what other tests use."""
import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
import yaml

from harness import KEEP, ROOT, wait_for
from installed import cluster, ready
from issuer import Issuer, confirm
from laptop import tenant
from person import Person, comes_in, login_address
from realpool import GPUS, TANDEM_IMAGE
from wsclient import WebSocket

pytestmark = pytest.mark.real  # two replicas, claims, RBAC and pod security are kubelets' and a real API server's

CHART = ROOT / "deploy/helm/slurm-cluster"
PEOPLE = {"researcher": 1000, "pods": 2000}  # of the pool: every daemon knows them
CLAIMS = ("resourceclaimtemplates",)  # the pool gives GPUs by claims
LABELS = "app.kubernetes.io/name=tandem-gateway"


def claim(pool, ns):
    """The file system of homes as a claim of this namespace, as an administrator makes it: one volume for each claim."""
    pv = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"home-{ns}"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": ns, "name": "home"}, "hostPath": {"path": pool.shared_home}}}
    pvc = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "home", "namespace": ns}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": f"home-{ns}", "resources": {"requests": {"storage": "1Gi"}}}}
    return [pv, pvc]


def gateways(pool):
    return [p for p in pool.items("pods", "-n", "slurm", "-l", LABELS) if ready(p)]


class Balancer:
    """What a Service of the type LoadBalancer does: a port whose connections go to one of the ready gateways after the other."""

    def __init__(self, pool):
        self.pool, self.n, self.server = pool, 0, socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # the test is over
            while True:
                threading.Thread(target=self.carry, args=(self.server.accept()[0],), daemon=True).start()

    def carry(self, near):
        there = sorted(p["status"]["podIP"] for p in gateways(self.pool))
        self.n += 1
        with near, contextlib.suppress(OSError, IndexError), socket.create_connection((there[self.n % len(there)], 8443), 30) as far:
            far.settimeout(None)  # an answer may take longer, and who watches waits for ever
            back = threading.Thread(target=self.copy, args=(far, near), daemon=True)
            back.start()
            self.copy(near, far)
            back.join()

    @staticmethod
    def copy(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_RDWR)


class Away:
    """Somebody's laptop: it has an address, a CA and a password, and no kubeconfig."""

    def __init__(self, pool, home, user, url, ca):
        self.pool, self.home, self.user, self.url, self.ca = pool, str(home), user, url, str(ca)
        os.makedirs(self.home)
        password = pool.run(pool.tandem, "user", "password", user, "--kubeconfig", pool.cluster.kubeconfig).stdout
        said = self.run("login", "--ca", self.ca, "--user", user, url, input=password)
        assert f"You are {user} at {url}" in said.stdout
        self.key = json.load(open(f"{self.home}/.config/tandem/login.json"))["key"]

    def run(self, *argv, check=True, input=None):
        env = {"PATH": KEEP["PATH"], "HOME": self.home, "TANDEM_HOME": f"{self.home}/none"}
        r = subprocess.run([self.pool.tandem, *map(str, argv)], env=env, cwd=self.home, input=input, capture_output=True, text=True, timeout=300)
        assert not check or r.returncode == 0, (argv, r.stdout, r.stderr)
        return r

    def json(self, *argv, **kw):
        return json.loads(self.run(argv[0], "-o", "json", *argv[1:], **kw).stdout)

    def tty(self, session):
        tls = ssl.create_default_context(cafile=self.ca)
        return WebSocket(self.url.removeprefix("https://"), f"/s/{session}/tty", {"Authorization": f"Bearer {self.key}"}, tls=tls)


@pytest.fixture(scope="module")
def door(shared_pool, tmp_path_factory):
    """(address, CA) of the chart's gateway, to which a port of this machine leads."""
    pool, tmp = shared_pool, tmp_path_factory.mktemp("gateway")
    namespaces = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["scheduler"]["namespaces"]
    people = [{"namespace": f"sessions-{name}", "user": name} for name in PEOPLE]
    values = {"gateway": {"enabled": True, "image": {"repository": "docker.io/tandem/tandem", "tag": "test"}, "tls": {"hosts": ["localhost"]}, "sessions": {"createNamespaces": True}},
              "spec": {"storage": [{"name": "home", "mountPath": "/home", "claim": "home"}], "scheduler": {"namespaces": [*people, {"namespace": "*", "user": "pods"}]}}}
    (tmp / "values.yaml").write_text(yaml.safe_dump(values))
    text = pool.run(f"{pool.cluster.assets}/helm", "template", "main", CHART, "-n", "slurm", "-f", tmp / "values.yaml", "--kube-version", "1.34.0", "--show-only", "templates/gateway.yaml").stdout
    docs = [d for d in yaml.safe_load_all(text) if d]
    docs.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tandem-node", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})
    balancer = None
    try:
        pool.change({"scheduler": {"namespaces": [*people, *namespaces]}}, idle=False)
        docs.sort(key=lambda d: d["kind"] != "Namespace")
        docs += [o for ns in ("slurm", *(p["namespace"] for p in people)) for o in claim(pool, ns)]
        pool.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(docs))
        wait_for("two gateways are ready", lambda: len(gateways(pool)) == 2, 180)
        ca = next(d for d in docs if d["kind"] == "Secret")["data"]["ca.crt"]
        (tmp / "ca.crt").write_bytes(base64.b64decode(ca))
        balancer = Balancer(pool)
        yield f"https://localhost:{balancer.server.getsockname()[1]}", tmp / "ca.crt"
    finally:
        if balancer:
            balancer.server.close()
        gone = [d for d in docs if not (d["kind"] in ("PersistentVolumeClaim", "Namespace") and d["metadata"].get("namespace") != "slurm")]
        pool.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", input=yaml.safe_dump_all([*gone, *(d for d in docs if d["kind"] == "Namespace")]))
        pool.kubectl("delete", "secret", "main-gateway", "-n", "slurm", "--ignore-not-found")
        pool.change({"scheduler": {"namespaces": namespaces}}, idle=False)


@pytest.mark.nightly
@pytest.mark.feature("C10.3", "A16.9")
def test_a_tenants_admin_makes_a_project_and_a_session_in_it(pool, door, tmp_path):
    """By the rights of the chart, and as an object by those that the API server adds to its own role admin."""
    me = Away(pool, tmp_path / "me", "researcher", *door)
    parts = [d for d in yaml.safe_load_all((ROOT / "deploy/kustomize/base/20-operator.yaml").read_text()) if d and "/aggregate-to-" in str(d["metadata"].get("labels"))]
    pool.apply(*parts)
    pool.apply(tenant("optics", [{"user": "researcher", "role": "admin"}], namespaces=["optics"]))
    try:
        wait_for("the Tenant has its namespace", lambda: pool.get("tenant", "optics").get("status", {}).get("namespaces"))
        me.run("project", "create", "lenses", "--tenant", "optics", "--quota", "gpu=1")
        mirrors = json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "Project", "metadata": {"name": "mirrors", "namespace": "optics"}, "spec": {}})
        wait_for("he may", lambda: pool.run("kubectl", "create", "--as", "researcher", "-f", "-", input=mirrors, check=False).returncode == 0)
        for ns, verb in (("slurm", "create"), ("default", "create"), ("optics", "update")):
            said = pool.run("kubectl", "auth", "can-i", verb, "projects.tandem.dev", *(["--subresource=status"] if verb == "update" else []), "-n", ns, "--as", "researcher", check=False).stdout
            assert said.strip() == "no", (ns, said)
        wait_for("both are ready", lambda: sorted(p["name"] for p in me.json("project", "list")["projects"] if p["ready"]) == ["optics.lenses", "optics.mirrors"])
        session = me.json("session", "start", "batch", "--account", "optics.lenses", "--", "exec sleep 100000")["id"]
        wait_for("it runs in the project", lambda: pool.shell("squeue", "-h", "-A", "optics.lenses", "-t", "R", "-o", "%u").split() == ["researcher"])
        me.run("session", "stop", session)
        me.run("project", "delete", "optics.lenses")
        pool.kubectl("delete", "project", "mirrors", "-n", "optics", "--as", "researcher")
        wait_for("they are gone", lambda: me.json("project", "list")["projects"] == [])
    finally:
        pool.kubectl("delete", "tenants", "optics", "--wait=false", "--ignore-not-found")
        pool.kubectl("delete", "clusterroles", *[d["metadata"]["name"] for d in parts])
        wait_for("it is gone", lambda: not pool.items("tenants"))
        pool.kubectl("delete", "namespace", "optics", "--wait=false", "--ignore-not-found")


@pytest.mark.feature("A16.9", "D3.4", "D3.6", "D3.7", "E1.1")
def test_from_a_laptop_to_a_run_and_a_shell(pool, door, tmp_path):
    me = Away(pool, tmp_path / "me", "researcher", *door)
    (tmp_path / "me/code").mkdir()
    (tmp_path / "me/code/hello.py").write_text("import os; print('hello of', os.getuid(), 'in', os.getcwd())\n")
    run = json.loads(subprocess.run([pool.tandem, "submit", "-o", "json", "--name", "first", "--", "python3 hello.py"], env={"PATH": KEEP["PATH"], "HOME": me.home}, cwd=f"{me.home}/code",
                                    check=True, capture_output=True, text=True, timeout=300).stdout)["id"]
    wait_for("it is done", lambda: {r["id"]: r["state"] for r in me.json("ps")["runs"]}.get(run) == "done", 120)
    assert f"hello of 1000 in /home/researcher/tandem/runs/{run}" in me.run("logs", run).stdout

    # A session in pods that keep to restricted pod security, with a GPU of the pool, and with nothing of Tandem's on its node.
    # It lies on two nodes: programs are started on both from the first, by names that a Service gives.
    s = me.json("session", "start", "shell", "--nodes", "2", "--gpus", "1")
    assert s["state"] == "ready" and len({p["node"] for p in s["nodes"]["each"]}) == 2
    w = me.tty(s["id"])
    w.send(b"tandem-run sh -c 'echo of=$RANK/$WORLD_SIZE=$(ls -d /dev/tandem-gpu* | wc -l)=$(getent hosts $MASTER_ADDR | wc -l)'; echo all=$?\n")
    said = w.until(b"all=0\r\n").decode()
    assert "of=0/2=1=1" in said and "of=1/2=1=1" in said
    w.send(b"echo uid=$(id -u) who=$(whoami) home=$PWD run=$(ls tandem/runs)=$(ls -d /dev/tandem-gpu* | wc -l)\n")
    said = w.until(b"=1\r\n").decode()
    assert f"uid=1000 who=researcher home=/home/researcher run={run}=1" in said
    spec = pool.get("pod", f"session-{s['id']}", "-n", "sessions-researcher")["spec"]
    assert "hostPath" not in json.dumps(spec["volumes"]) and "fsGroup" not in spec["securityContext"]

    # The gateways are one: who comes back finds the same shell, also when the one that had the terminal is gone.
    w.send(b"KEPT=yes; printf 'and-%s\\n' kept\n")
    w.until(b"and-kept\r\n")
    before = {p["metadata"]["name"] for p in gateways(pool)}
    pool.kubectl("delete", "pod", "-n", "slurm", *before)
    wait_for("two others are ready", lambda: len(now := {p["metadata"]["name"] for p in gateways(pool)}) == 2 and not now & before, 180)
    with contextlib.suppress(EOFError, OSError):
        w.until(b"never")
    again = me.tty(s["id"])
    again.send(b"echo still-$KEPT\n")
    again.until(b"still-yes\r\n")
    me.run("session", "stop", s["id"])
    wait_for("nothing is left of it", lambda: not [o for kind in ("pods", "configmaps", "services", *CLAIMS) for o in pool.items(kind, "-n", "sessions-researcher") if s["id"] in o["metadata"]["name"]])


@pytest.mark.feature("A16.9", "A16.4", "D3.6")
def test_a_second_person_and_the_gateways_own_rights(pool, door, tmp_path):
    me, eve = Away(pool, tmp_path / "me", "researcher", *door), Away(pool, tmp_path / "eve", "pods", *door)
    s = me.json("session", "start", "endpoint", "--", "echo mine > index.html; exec python3 -m http.server $PORT")
    assert eve.tty(s["id"]).status == 404 and eve.json("session", "list")["sessions"] == []
    other = eve.json("session", "start", "batch", "--no-wait", "--", "id -u; ls -d /home/*; ls /home/researcher 2>/dev/null; exit 1")
    pod = wait_for("it has ended", lambda: next((p for p in pool.items("pods", "-n", "sessions-pods") if p["status"].get("phase") == "Failed" and other["id"] in p["metadata"]["name"]), None))
    said = pool.kubectl("logs", "-n", "sessions-pods", pod["metadata"]["name"])
    assert said.split() == ["2000", "/home/pods"]  # no other home is there
    # Its homes stay their owners' own: nothing gave them to a group.
    home = f"{pool.shared_dir}/researcher"
    assert (os.stat(home).st_uid, os.stat(home).st_mode & 0o777, os.stat(f"{pool.shared_dir}/pods").st_uid) == (1000, 0o700, 2000)
    account = "--as=system:serviceaccount:slurm:main-gateway"
    may = lambda *argv: pool.run("kubectl", "auth", "can-i", *argv, account, check=False).stdout.strip() == "yes"
    assert may("create", "pods", "-n", "sessions-pods") and may("create", "services", "-n", "sessions-pods") and may("list", "pods", "-n", "tandem-node") and may("get", "secret/main-gateway", "-n", "slurm") and may("list", "nodes")
    for no in (("create", "pods", "-n", "slurm"), ("create", "services", "-n", "slurm"), ("get", "secrets", "-n", "slurm"), ("get", "secret/main-slurm-key", "-n", "slurm"), ("get", "secrets", "-n", "sessions-pods"), ("create", "pods", "-n", "default"),
               ("list", "pods", "-A"), ("patch", "nodes"), ("create", "rolebindings", "-n", "sessions-pods"), ("create", "serviceaccounts/token", "-n", "slurm"), ("patch", "slurmclusters", "-n", "slurm"),
               # Of nodes it asks Tandem's agents, which take no credentials: at kubelets it may nothing.
               *(("get", f"nodes/{part}") for part in ("proxy", "metrics", "stats", "pods")), *((verb, "pods", "-n", "tandem-node") for verb in ("get", "watch", "create", "delete")), ("get", "secrets", "-n", "tandem-node")):
        assert not may(*no), no
    for p in gateways(pool):
        c = p["spec"]["containers"][0]["securityContext"]
        assert c["capabilities"] == {"add": ["CHOWN", "SETGID", "SETUID", "SYS_CHROOT"], "drop": ["ALL"]} and c["readOnlyRootFilesystem"] and not c["allowPrivilegeEscalation"]
    for who, session in ((me, s), (eve, other)):
        who.run("session", "stop", session["id"])


@pytest.mark.hand  # an issuer, a new configuration of the API server and two of Slurm: two minutes
@pytest.mark.feature("A15.2", "A15.5")
def test_one_person_in_ssh_kubectl_sessions_and_jobs(pool, door, tmp_path):
    """A real API server takes the issuer's tokens, with the file of docs/people.md."""
    url, ca = door
    c, home = pool.cluster, tmp_path / "laptop"
    pki, person = cluster.Pki(c.dir / "pki"), Person(tmp_path / "ssh", "researcher")
    trust, users = (pki.dir / "ca.crt").read_text(), pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]
    issuer = Issuer(tmp_path, ["researcher", "eve", "system:admin"], f"{url}/api/v1/login/oidc/callback", at=c.outside, pki=pki)
    home.mkdir()
    try:
        c.trust_issuers({"issuer": {"url": issuer.url, "audiences": [issuer.client], "certificateAuthority": trust},
                         "claimMappings": {"username": {"claim": "preferred_username", "prefix": ""}, "groups": {"claim": "groups", "prefix": "oidc:"}},
                         "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "a name that Kubernetes itself uses"}]})
        pool.change({"users": [{**u, "sshKeys": [person.key]} if u["name"] == "researcher" else u for u in users], "identity": {"oidc": {
            "issuer": issuer.url, "clientID": issuer.client, "gatewayURL": url, "kubernetesURL": f"https://{c.api}", "groupsClaim": "groups", "scopes": ["groups"], "ca": trust}}}, idle=False)
        env = {"PATH": f"{c.assets}:{KEEP['PATH']}", "HOME": str(home), "TANDEM_HOME": f"{home}/none"}
        pool.run(pool.tandem, "user", "key", "pods", "--kubeconfig", c.kubeconfig)  # before the first key the gateway lets nobody in, whoever he is to the issuer
        login = lambda: subprocess.Popen([pool.tandem, "login", "--oidc", "--ca", str(ca), url], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: E731

        def begun():  # the gateways hear of the issuer a moment later
            p = login()
            line = p.stderr.readline()
            return (p, line) if "Open " in line else p.wait(60) and None
        waits, line = wait_for("the gateway knows the issuer", begun, 60)
        confirm(issuer, "researcher", re.search(r"code is (\S+)\.", line)[1])
        out, err = waits.communicate(timeout=120)
        assert waits.returncode == 0 and "You are researcher at" in out, (out, err)

        # kubectl, at the API server itself.
        run = lambda *argv: subprocess.run([str(a) for a in argv], env=env, capture_output=True, text=True, timeout=120)  # noqa: E731
        config = home / "kubeconfig"
        config.write_text(run(pool.tandem, "kubeconfig").stdout)
        assert f"https://{c.api}" in config.read_text()
        who = wait_for("the API server knows him", lambda: (r := run("kubectl", "--kubeconfig", config, "auth", "whoami", "-o", "json")).returncode == 0 and json.loads(r.stdout)["status"]["userInfo"], 90)
        assert who["username"] == "researcher" and sorted(who["groups"]) == ["oidc:lab", "system:authenticated"]
        for name, known in (("eve", True), ("system:admin", False)):
            r = run("kubectl", "--server", f"https://{c.api}", "--certificate-authority", pki.dir / "ca.crt", "--token", issuer.token(name), "auth", "whoami")
            assert (r.returncode == 0) == known, (name, r.stdout + r.stderr)

        # ssh and a job from there; and a session of the same login.
        at = login_address(pool)
        comes_in(pool, person, at)
        assert person.ssh(at, "id -un; id -u; srun -Q id -u").stdout.split() == ["researcher", "1000", "1000"]
        me = Away.__new__(Away)
        me.pool, me.home, me.user, me.url, me.ca = pool, str(home), "researcher", url, str(ca)
        me.key = json.loads((home / ".config/tandem/login.json").read_text())["key"]
        s = me.json("session", "start", "shell")
        w = me.tty(s["id"])
        w.send(b"echo is=$(id -u)=$(id -un)=\n")
        assert "is=1000=researcher=" in w.until(b"=researcher=\r\n").decode()
        owner = pool.get("pod", f"session-{s['id']}", "-n", "sessions-researcher")
        assert owner["spec"]["securityContext"]["runAsUser"] == 1000
        me.run("session", "stop", s["id"])
    finally:
        pool.change({"users": users, "identity": None}, idle=False)
        c.trust_issuers()
        issuer.stop()


@pytest.fixture(scope="module")
def agents(shared_pool, build, door):
    """Tandem's agents as its manifests bring them, where else they are processes of the test. A library of the test's stands for the driver of GPUs."""
    pool = shared_pool
    docs = [d for d in yaml.safe_load_all((ROOT / "deploy/kustomize/base/40-agent.yaml").read_text()) if d]
    driver = base64.b64encode((build / "src/checkup/libfake_nvml.so").read_bytes()).decode()
    docs.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "driver", "namespace": "tandem-node"}, "binaryData": {"libnvidia-ml.so.1": driver}})
    spec = next(d for d in docs if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    c = spec["containers"][0]
    c |= {"image": TANDEM_IMAGE, "command": ["tandem"], "args": [f"--devices={GPUS}" if a.startswith("--devices") else a for a in c["args"]]}
    c["env"] += [{"name": "TANDEM_DRIVER", "value": "/driver"}, {"name": "FAKE_NVML_USE", "value": "/run/tandem/use"},
                 {"name": "FAKE_NVML_WELL", "value": "yes"}]  # a condition of a GPU would outlive these agents, and its node would stay drained
    c["volumeMounts"].append({"name": "driver", "mountPath": "/driver"})
    spec["volumes"].append({"name": "driver", "configMap": {"name": "driver"}})
    # Of these nodes only this directory is each one's own; the table there is that of the agent before.
    next(v for v in spec["volumes"] if v["name"] == "state")["hostPath"]["path"] = "/var/lib/kubelet/tandem-agent"
    roles = [r for r in pool.procs if r.startswith("agent-")]
    try:
        for r in roles:
            pool.signal(pool.procs[r], signal.SIGTERM)
        for r in roles:
            pool.procs[r].wait(180)
        pool.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(docs))
        wait_for("each node has its agent", lambda: len([p for p in pool.items("pods", "-n", "tandem-node") if ready(p)]) == len(roles), 120)
        yield
    finally:
        pool.kubectl("delete", "--ignore-not-found", "--wait=true", "-f", "-", input=yaml.safe_dump_all(docs))
        wait_for("they are gone", lambda: not pool.items("pods", "-n", "tandem-node"), 120)
        for r in roles:
            pool.start(r)


def pod_of(pool, s):
    return pool.get("pod", f"session-{s['id']}", "-n", "sessions-researcher")


def end_soon(pool, s):
    """The rule for low use becomes so short that the next look that finds it idle ends it."""
    pool.kubectl("annotate", "pod", f"session-{s['id']}", "-n", "sessions-researcher", "--overwrite", "tandem.dev/session-low-use=1")


def seen(me, s):
    return next(x for x in me.json("session", "list")["sessions"] if x["id"] == s["id"])


@pytest.mark.nightly
@pytest.mark.feature("D4.1", "D4.4", "E3.5")
def test_one_that_does_nothing_is_ended_by_what_its_nodes_agent_says(pool, door, agents, tmp_path):
    me = Away(pool, tmp_path / "me", "researcher", *door)
    idle = me.json("session", "start", "shell", "--low-use", "30")
    busy = me.json("session", "start", "batch", "--low-use", "30", "--", "while :; do :; done")
    wait_for("it is warned", lambda: seen(me, idle).get("endsBecause", "").startswith("it has done nothing"))
    assert "useUnknown" not in seen(me, idle)
    for s in (busy, idle):
        end_soon(pool, s)
    wait_for("it is ended", lambda: seen(me, idle)["state"] == "reclaimed")
    assert "it has done nothing" in seen(me, idle)["words"]
    assert seen(me, busy)["state"] == "running" and "it has done nothing" not in seen(me, busy).get("endsBecause", "")
    me.run("session", "stop", busy["id"])

    # Nobody to ask: nothing is known, so nothing is idle. A pod elsewhere that looks like an agent is none.
    again = me.json("session", "resume", idle["id"])
    node = pod_of(pool, again)["spec"]["nodeName"]
    liar = pool.pod("liar", command=["sleep", "100000"])
    liar["metadata"]["labels"] = {"app.kubernetes.io/name": "tandem-agent"}
    liar["spec"]["nodeName"] = node
    pool.kubectl("apply", "-f", "-", input=json.dumps(liar))
    only = lambda selector: pool.kubectl("patch", "daemonset", "tandem-agent", "-n", "tandem-node", "-p", json.dumps({"spec": {"template": {"spec": {"nodeSelector": selector}}}}))  # noqa: E731
    only({"nobody": "has-it"})
    try:
        # Each of the gateways has asked for itself.
        wait_for("it says what is missing", lambda: all(f"no agent of Tandem's runs on node {node}" in seen(me, again).get("useUnknown", "") for _ in range(4)))
        end_soon(pool, again)
        assert "not ended for low use" in me.run("session", "list").stdout
    finally:
        back = time.time()
        only({"nobody": None})
        pool.kubectl("delete", "pod", "liar", "--grace-period=0", "--force", "--ignore-not-found")
    wait_for("its agent is back, and it is ended", lambda: seen(me, again)["state"] == "reclaimed")
    assert seen(me, again)["ended"] >= int(back)
    me.run("session", "stop", again["id"])


@pytest.mark.nightly
@pytest.mark.feature("D4.1", "D4.4")
def test_one_with_gpus_is_ended_when_the_agent_measures_that_they_do_nothing(pool, door, agents, tmp_path):
    me = Away(pool, tmp_path / "me", "researcher", *door)
    s = me.json("session", "start", "shell", "--gpus", "1", "--low-use", "30")
    pod = pod_of(pool, s)
    node, says = pod["spec"]["nodeName"], lambda words: wait_for(words, lambda: seen(me, s).get("endsBecause", "").startswith(words), 120)
    assert json.loads(pod["metadata"]["annotations"]["tandem.dev/devices"]) == {"nvidia.com/gpu": "0"}  # the driver of the test has two
    use = pathlib.Path(pool.gate_socket(node)).with_name("use")
    try:
        wait_for("it says what is not known", lambda: seen(me, s).get("useUnknown", "").startswith(f"the use of its GPUs: the agent of node {node} does not measure them"), 120)
        use.write_text("2\n")
        says("it has done nothing")
        wait_for("all is known", lambda: not any("useUnknown" in seen(me, s) for _ in range(4)))
        use.write_text("70\n")
        says("nobody has used it")
        end_soon(pool, s)
        assert seen(me, s)["state"] == "ready"
        use.write_text("2\n")
        wait_for("it is ended", lambda: seen(me, s)["state"] == "reclaimed", 120)
    finally:
        use.unlink(missing_ok=True)
    me.run("session", "stop", s["id"])


# ---- user namespaces ----

# In the mount namespace of a node: a /dev of its own, where its fake GPUs lie as real ones do. Into a user namespace runc binds the device file of the
# node that has the path that it has in the container, and never makes one.
OWN_DEV = """mkdir /run/dev; mount -t tmpfs -o mode=755,dev dev /run/dev
for f in /dev/*; do if [ -L $f ] || [ -c $f ]; then cp -a $f /run/dev; fi; done
for d in pts shm mqueue; do [ ! -d /dev/$d ] || { mkdir /run/dev/$d; mount --rbind /dev/$d /run/dev/$d; }; done
for g in 0 1 2 3 4 5 6 7; do cp -a /run/tandem-fake/gpu$g /run/dev/tandem-gpu$g; done
mount --rbind /run/dev /dev"""
SAYS = ("read _ base n < /proc/self/uid_map; echo base=$base n=$n uid=$(id -u); for g in 0 1 2 3 4 5 6 7; do [ ! -e /dev/tandem-gpu$g ] || (: </dev/tandem-gpu$g) 2>&1 | grep -q permitted || echo gpu=$g; done; "
        "mknod /tmp/kmsg c 1 11 2>/dev/null || echo mknod=no; touch $PLACE/made-$NAME && stat -c made=%u $PLACE/made-$NAME; echo x 2>/dev/null >/proc/sys/kernel/core_pattern || echo sysctl=no; echo said=all")


def said(text):
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


@pytest.fixture(scope="module")
def apart(shared_pool):
    """Nodes whose runtime has user namespaces for pods, and whose devices go into them."""
    if not shared_pool.cluster.runtime:
        pytest.skip("Debian's containerd 1.7 has no user namespaces for pods: tools/kube-assets containerd2, TANDEM_KUBE_RUNTIME=containerd2")
    for node in shared_pool.nodes:
        subprocess.run([*map(str, shared_pool.cluster.inside(node)), "sh", "-ec", OWN_DEV], check=True, timeout=60)


@pytest.mark.hand  # containerd 2
@pytest.mark.feature("D8.1")
def test_a_tenants_pod_in_a_user_namespace(pool, apart):
    """Root in it is a number without rights outside; it has the devices that Slurm gave it, and volumes with the owners that they have."""
    pool.apply(*[d for d in yaml.safe_load_all((ROOT / "deploy/manifests/tandem.yaml").read_text()) if d and d["kind"].startswith("ValidatingAdmissionPolicy") and d["metadata"]["name"] == "tandem-user-namespaces"])
    pool.apply(tenant("apart", [{"user": "pods", "role": "member"}], namespaces=["apart"], userNamespaces=True, podSecurity="privileged"))
    try:
        wait_for("the Tenant says it of its namespace", lambda: "tandem.dev/user-namespaces" in pool.kubectl("get", "namespace", "apart", "-o", "yaml", check=False))
        claims = pool.claim_template(2)
        claims["metadata"]["namespace"] = "apart"
        pool.apply(claims)
        p = pool.pod("rooted", 2, ns="apart", volumes=[{"name": "h", "hostPath": {"path": "/srv/home"}}, {"name": "e", "emptyDir": {}}])
        main = p["spec"]["containers"][0]
        main.update(command=["sh", "-c", f"{SAYS}; exec sleep 100000"], env=[{"name": "PLACE", "value": "/h"}, {"name": "NAME", "value": "rooted"}],
                    volumeMounts=[{"name": "h", "mountPath": "/h"}, {"name": "e", "mountPath": "/e"}])
        wait_for("whoever does not say it is refused", lambda: "write hostUsers: false" in pool.run("kubectl", "create", "-f", "-", "--dry-run=server", input=json.dumps(p), check=False).stderr)
        p["spec"]["hostUsers"] = False
        pool.apply(p)
        wait_for("it runs", lambda: pool.phase("rooted", "apart") == "Running")
        got = wait_for("it has said all", lambda: (g := said(pool.kubectl("logs", "-n", "apart", "rooted"))).get("said") and g)
        base = int(got["base"])
        assert base >= 65536 and got["n"] == "65536" and (got["uid"], got["made"], got["mknod"], got["sysctl"]) == ("0", "0", "no", "no"), got
        pod = pool.get("pod", "rooted", "-n", "apart")
        _, node, indexes = pool.grant(pod)
        assert sorted(pool.kubectl("exec", "-n", "apart", "rooted", "--", "sh", "-c", "ls /dev | grep tandem-gpu").split()) == sorted(f"tandem-gpu{i}" for i in indexes)
        assert os.stat(f"{pool.shared_dir}/made-rooted").st_uid == 0  # the volume has the owners that it has; the pod's own files have not
        pid = next(pid for cmd, pid in pool.inits(node).items() if "exec sleep 100000" in cmd or cmd.startswith("sleep 100000") and os.stat(f"/proc/{pid}").st_uid == base)
        assert os.stat(f"/proc/{pid}").st_uid == base and os.stat(f"/proc/{pid}/root/etc/hostname").st_uid in (0, base)
        assert said(pool.kubectl("exec", "-n", "apart", "rooted", "--", "sh", "-c", "read _ b n < /proc/self/uid_map; echo b=$b uid=$(id -u)")) == {"b": str(base), "uid": "0"}
        print("seen:", got, sorted(indexes), pathlib.Path(f"/proc/{pid}/uid_map").read_text().split())
    finally:
        pool.kubectl("delete", "tenants", "apart", "--wait=false", "--ignore-not-found")
        pool.kubectl("delete", "namespace", "apart", "--wait=false", "--ignore-not-found")


@pytest.mark.hand  # containerd 2
@pytest.mark.feature("D8.1")
def test_a_session_in_a_user_namespace(pool, apart, door, tmp_path):
    me = Away(pool, tmp_path / "me", "researcher", *door)
    pool.kubectl("annotate", "namespace", "sessions-researcher", "tandem.dev/user-namespaces=required")
    s = me.json("session", "start", "shell", "--gpus", "1")
    w = me.tty(s["id"])
    w.send(f"PLACE=$HOME NAME=session sh -c '{SAYS.replace(chr(39), '')}'\n".encode())
    got = said(w.until(b"said=all\r\n").decode())
    assert int(got["base"]) >= 65536 and (got["uid"], got["made"], got["mknod"]) == ("1000", "1000", "no"), got
    assert os.stat(f"{pool.shared_dir}/researcher/made-session").st_uid == 1000
    assert "hostUsers: false" in pool.kubectl("get", "pod", f"session-{s['id']}", "-n", "sessions-researcher", "-o", "yaml")
    me.run("session", "stop", s["id"])
    print("seen:", got)
