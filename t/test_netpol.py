"""The NetworkPolicies of deploy/, in force: Tandem and Slurm on a real cluster whose nodes enforce them (t/kube/netpol.py) do all that they did, and what is no
business of other pods those cannot reach. That they could without the policies is seen first.

One cluster for the module; the tests are steps of one story, in the order of the file."""
import json
import shutil
import socket
import subprocess
import tempfile

import pytest

from harness import ROOT, wait_for
from installed import CHART, NODE, SYSTEM, Site, assets, cluster, phase, pod, ready

import netpol  # installed makes its directory known

pytestmark = pytest.mark.feature("A16.2")


# ---- the engine ----
def thing(name, ns="a", spec=None, status=None, **labels):
    return {"metadata": {"name": name, "namespace": ns, "labels": labels, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec or {}, "status": status or {}}


def on_n0(name, ip, ns="a", ports=(), phase="Running", **labels):
    return thing(name, ns, {"nodeName": "n0", "containers": [{"ports": list(ports)}]}, {"podIP": ip, "phase": phase}, **labels)


def rules(policy, pods, namespaces=()):
    """The rules of the pod `me` by one policy of namespace a; None: nothing is looked at."""
    spaces = list(namespaces) or [thing("a", kubernetes_io="a"), thing("b", team="b")]
    text = netpol.ruleset("n0", pods, spaces, [thing("p", spec={"policyTypes": ["Ingress"], **policy})])
    chain = text.partition("# a/me\n")[2].partition("  }")[0]
    return [line.strip() for line in chain.splitlines()] if chain else None


def test_the_rules_of_a_policy():
    """What the tests' engine makes of the API's words (it is home-made: no engine could be had as a module)."""
    me = on_n0("me", "10.0.0.1", ports=[{"name": "web", "containerPort": 80}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}], app="me")
    pods = [me, on_n0("x", "10.0.0.2", app="x"), on_n0("far", "10.0.0.3", ns="b", app="x"), on_n0("done", "10.0.0.4", phase="Failed", app="x")]
    mine = {"podSelector": {"matchLabels": {"app": "me"}}}
    assert rules({"podSelector": {"matchLabels": {"app": "other"}}}, pods) is None
    assert rules({"podSelector": {}}, pods) == rules(mine, pods) == ["counter drop"]
    allow = lambda **rule: rules({**mine, "ingress": [rule]}, pods)[:-1]
    assert allow() == ["accept"]
    assert allow(ports=[{"port": 80}, {"port": 53, "protocol": "UDP"}]) == ["tcp dport 80 accept", "udp dport 53 accept"]
    assert allow(ports=[{"port": "web"}, {"port": "dns", "protocol": "UDP"}]) == ["tcp dport 80 accept", "udp dport 53 accept"]
    assert allow(ports=[{"port": "dns"}]) == []  # of another protocol
    assert allow(ports=[{"port": 1000, "endPort": 2000}]) == ["tcp dport 1000-2000 accept"]
    x = {"podSelector": {"matchLabels": {"app": "x"}}}
    assert allow(**{"from": [x]}) == ["ip saddr { 10.0.0.2 } accept"]  # of its own namespace, and alive
    assert allow(**{"from": [{"namespaceSelector": {}, **x}]}) == ["ip saddr { 10.0.0.2, 10.0.0.3 } accept"]
    assert allow(**{"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}]}) == ["ip saddr { 10.0.0.3 } accept"]
    assert allow(**{"from": [{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}}]}) == ["ip saddr { 10.0.0.1, 10.0.0.2 } accept"]
    assert allow(**{"from": [{"podSelector": {"matchLabels": {"app": "nobody"}}}]}) == []
    assert allow(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": "web"}]}) == \
        ["ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 tcp dport 80 accept"]


# ---- the story ----
@pytest.fixture(scope="module")
def site(build):
    """Tandem by helm, told who may read metrics and where the API server is; nothing enforces it yet."""
    assets()
    try:
        r = subprocess.run([ROOT / "tools/kube-assets", "nft"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    except subprocess.TimeoutExpired:  # another one builds, or the packages do not come
        pytest.skip("nft not available, because it is not fetched within 5 minutes (run tools/kube-assets nft)")
    if r.returncode:
        pytest.skip("nft " + r.stderr.strip())
    home = tempfile.mkdtemp(prefix="tandem-netpol-", dir="/var/tmp")
    try:
        s = Site(home, build)
        s.kubectl("create", "namespace", SYSTEM)
        s.kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted")
        values = {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}], "apiServerFrom": [{"ipBlock": {"cidr": f"{s.c.api}/32"}}]}
        s.run("helm", "-n", SYSTEM, "install", "tandem", CHART, "--set", "image.tag=old", "--set-json", f"networkPolicies={json.dumps({'enabled': True, **values})}", "--wait",
              "--timeout", "5m")
        assert "Slurm: 3 nodes" in s.cmd("up", "--wait", "5m")
        for ns in ("ml", "monitoring"):
            s.namespace(ns)
        for ns, name, node in VISITORS:
            s.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns}, "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [
                    {"name": "c", "image": "tandem/slurm:24.11", "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}]}}))
        wait_for("visitors", lambda: all(phase_of(s, ns, name) == "Running" for ns, name, _ in VISITORS), 90)
        wait_for("two bridges", lambda: sum(ready(p) for p in of(s, SYSTEM, "tandem-bridge")) == 2, 90)
        yield s
    finally:
        cluster.Cluster(home=home).down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


# Pods that are nobody's: on every node, and one beside Slurm's daemons. And one that may read metrics.
STRANGERS = [("ml", "stranger-n0", "n0"), ("ml", "stranger-n1", "n1"), ("ml", "stranger-n2", "n2"), ("slurm", "neighbour", "n1")]
PROMETHEUS = ("monitoring", "prometheus", "n2")
VISITORS = [*STRANGERS, PROMETHEUS]


def phase_of(site, ns, name):
    return json.loads(site.kubectl("-n", ns, "get", "pod", name, "-o", "json"))["status"].get("phase")


def of(site, ns, app):
    return [p for p in site.items("pods", "-n", ns, "-l", f"app.kubernetes.io/name={app}") if not p["metadata"].get("deletionTimestamp")]


def leader(site):
    return json.loads(site.kubectl("-n", SYSTEM, "get", "lease", "tandem-bridge-slurm.main", "-o", "json"))["spec"]["holderIdentity"]


def doors(site):
    """What listens in pods of Tandem and Slurm: (what, where) → (address, port)."""
    at = {}
    for ns, app, ports in (("slurm", "slurmrestd", {"REST": 6820}), ("slurm", "slurmctld", {"slurmctld": 6817}), ("slurm", "slurmd", {"slurmd": 6818}),
                           (SYSTEM, "tandem-bridge", {"knock": 7411, "why": 7412, "metrics": 7480}), (SYSTEM, "tandem-operator", {"metrics": 7480}),
                           (NODE, "tandem-agent", {"metrics": 7480})):
        for p in filter(lambda p: "podIP" in p["status"], of(site, ns, app)):
            at |= {(what, p["metadata"]["name"]): (p["status"]["podIP"], port) for what, port in ports.items()}
    only = leader(site)  # knocks and questions are for the bridge that leads
    return {k: v for k, v in at.items() if k[0] not in ("knock", "why") or k[1] == only}


def reached(site, visitor, targets):
    """Which of the doors open for a pod within three seconds."""
    names = sorted(targets)
    tries = "".join(f'(timeout 3 bash -c ": 3<>/dev/tcp/{targets[n][0]}/{targets[n][1]}" 2>/dev/null && echo {i}) & ' for i, n in enumerate(names))
    out = site.kubectl("-n", visitor[0], "exec", visitor[1], "--", "bash", "-c", tries + "wait")
    return {names[int(i)] for i in out.split()}


def stay_out(site, targets):
    """Strangers, as soon as the engine has heard of what there is."""
    for v in STRANGERS:
        wait_for(f"every door is closed for {v}", lambda: not reached(site, v, targets))


def test_without_an_engine_every_door_is_open(site):
    """So that what is closed below is closed by the policies, and everything that is tried does listen."""
    wait_for("all doors are there", lambda: sorted(what for what, _ in doors(site)) == ["REST"] + ["knock"] + ["metrics"] * 7 + ["slurmctld"] + ["slurmd"] * 3 + ["why"])
    for v in VISITORS:  # three seconds are not much on a busy machine, where another bridge may come to lead too
        wait_for(f"{v} reaches all", lambda: reached(site, v, at := doors(site)) == set(at))
    for ip, port in doors(site).values():  # nor is it only for pods
        socket.create_connection((ip, port), timeout=60).close()


@pytest.mark.nightly_too  # it starts the engine
def test_strangers_find_every_door_closed(site):
    site.c.start_netpol()
    at = doors(site)
    stay_out(site, at)
    for ip, port in at.values():
        with pytest.raises(TimeoutError):
            socket.create_connection((ip, port), timeout=0.5)
    # What the policies do not speak of stays open.
    login = {("login", p["metadata"]["name"]): (p["status"]["podIP"], 22) for p in of(site, "slurm", "login")}
    other = next(p["status"]["podIP"] for p in site.items("pods", "-n", "ml") if p["metadata"]["name"] == "stranger-n1")
    for ip in [other, *[ip for ip, _ in login.values()]]:
        out = site.kubectl("-n", "ml", "exec", "stranger-n0", "--", "bash", "-c", f"timeout 60 bash -c ': 3<>/dev/tcp/{ip}/9'; echo $?", code=0)
        assert out.strip() == "1"  # refused by the pod itself, not silence


def test_prometheus_reads_metrics_and_nothing_else(site):
    at = doors(site)
    metrics = {k: v for k, v in at.items() if k[0] == "metrics"}
    wait_for("it reaches all metrics", lambda: reached(site, PROMETHEUS, at) >= set(metrics))
    assert reached(site, PROMETHEUS, at) <= set(metrics)
    for (_, name), (ip, port) in metrics.items():
        text = site.kubectl("-n", "monitoring", "exec", "prometheus", "--", "bash", "-c", f"exec 3<>/dev/tcp/{ip}/{port}; printf 'GET /metrics HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3")
        assert text.startswith("HTTP/1.1 200") and "# TYPE tandem_" in text, name


def test_all_of_tandem_works_behind_its_policies(site):
    """Slurm's daemons and jobs among each other, the login pod, a pod through the queue with its stand-in's knock, `tandem why`, probes."""
    assert sorted(site.slurm("srun", "-N3", "hostname").split()) == ["n0", "n1", "n2"]
    job = site.slurm("sbatch", "--parsable", "-c17", "-w", "n0", "--wrap", "srun sleep 1000", "-o", "/dev/null").strip()
    wait_for("the job runs", lambda: site.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", 60)
    site.kubectl("apply", "-f", "-", input=pod("through", 17, nodeSelector={"kubernetes.io/hostname": "n0"}))
    wait_for("why", lambda: "waits" in site.cmd("why", "-n", "ml", "through"), 60)
    wait_for("its stand-in stands in line", lambda: len(site.jobs()) == 2, 60)
    site.slurm("scancel", job)
    wait_for("the pod runs", lambda: phase(site, "through") == "Running", 90)
    standin = next(p["metadata"]["name"] for p in of(site, "slurm", "slurmd") if p["spec"]["nodeName"] == "n0")
    knock = lambda: next((f"{ip}:{port}" for (what, _), (ip, port) in doors(site).items() if what == "knock"), "nobody leads")
    wait_for("it holds its knock", lambda: knock() in site.kubectl("-n", "slurm", "exec", standin, "--", "ss", "-Htn", "state", "established", "dport", "=", ":7411"), 30)
    site.kubectl("-n", "ml", "delete", "pod", "through", "--grace-period=1")
    wait_for("its job ended too", lambda: site.jobs() == {}, 90)
    # A drain on one side shows on the other.
    site.slurm("scontrol", "update", "nodename=n1", "state=drain", "reason=disk")
    wait_for("the taint", lambda: "tandem.dev/slurm-drain" in json.dumps(json.loads(site.kubectl("get", "node", "n1", "-o", "json"))["spec"].get("taints", [])), 60)
    site.slurm("scontrol", "update", "nodename=n1", "state=undrain")
    # The kubelets' probes pass: without them nobody would be ready by now. (A role of an overloaded machine may have lost its Lease and started again.)
    wait_for("all are ready", lambda: all(ready(p) for ns in (SYSTEM, NODE, "slurm") for p in site.items("pods", "-n", ns)), 60)


@pytest.mark.nightly
def test_pods_with_new_addresses_are_behind_them_too(site):
    """Policies are about labels, not addresses: slurmctld, slurmrestd, a slurmd and the bridge that leads are made anew."""
    old, was = doors(site), leader(site)
    gone = [("slurm", p["metadata"]["name"]) for app in ("slurmctld", "slurmrestd") for p in of(site, "slurm", app)] + [(SYSTEM, was)]
    gone.append(("slurm", next(p["metadata"]["name"] for p in of(site, "slurm", "slurmd") if p["spec"]["nodeName"] == "n2")))
    for ns, name in gone:
        site.kubectl("-n", ns, "delete", "pod", name, "--grace-period=1", "--wait=false")
    wait_for("another bridge leads", lambda: leader(site) not in ("", was), 60)
    wait_for("all are back", lambda: len(doors(site)) == len(old) and all(ready(p) for ns in ("slurm", SYSTEM) for p in site.items("pods", "-n", ns)), 120)
    wait_for("Slurm is whole", lambda: site.slurm("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 3, 120)
    at = doors(site)
    assert at != old
    stay_out(site, at)
    assert sorted(site.slurm("srun", "-N3", "hostname").split()) == ["n0", "n1", "n2"]
    site.kubectl("apply", "-f", "-", input=pod("again", 1, command="sleep 1"))
    wait_for("a pod runs through the queue", lambda: phase(site, "again") == "Succeeded", 120)
