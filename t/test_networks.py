"""Networks: who reaches whom, as a matrix over pods and native jobs of the same gang, the same Tenant and another one; on the embedded plane, whose
kubelet enforces NetworkPolicies (row C9). t/test_netpol.py has those of deploy/ in force on a real cluster, not these."""
import concurrent.futures
import json

import pytest

from gangs import GANG, SIZE
from harness import wait_for
from laptop import Laptop, ask

pytestmark = [pytest.mark.embedded]

LABEL = "tandem.dev/private-network"


@pytest.fixture(scope="module")
def site(own_pool):
    """Three Tenants: red has networks of their own for its gangs, blue is isolated, green may not talk to everybody. Their native jobs are kept apart."""
    pool = own_pool
    users = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"] + [{"name": n, "uid": 3001 + i, "gid": 3001 + i, "shell": "/bin/bash", "home": f"/home/{n}"} for i, n in enumerate(("ann", "eve"))]
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"accounting": {"openAccount": "open"}, "users": users, "jobNetwork": {"separate": "accounts"}}}))
    guarded = lambda: {p["metadata"]["name"] for p in pool.items("pods", "-n", "slurm") if p["status"].get("phase") == "Running" and any(c["name"] == "firewall" for c in p["spec"].get("initContainers", []))}
    wait_for("slurmd and login are guarded", lambda: guarded() == {"main-pool-n0", "main-pool-n1", "main-login-0"})
    tenant = lambda name, **spec: {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": {"cluster": {"namespace": "slurm", "name": "main"}, **spec}}
    pool.apply(tenant("red", network="private", members=[{"user": "researcher"}, {"user": "ann"}]), tenant("blue", members=[{"user": "eve"}]), tenant("green", network="open", egress={}))
    for name in ("red", "blue", "green"):
        wait_for(f"Tenant {name} is ready", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in pool.get("tenant", name).get("status", {}).get("conditions", [])))
    pods = [*gang(pool, "train", "red"), *gang(pool, "other", "red"), *lone(pool, "red", "lone", "lone2"), *gang(pool, "team", "blue"), *lone(pool, "blue", "own", "own2"),
            *lone(pool, "green", "shut", "shut2"), *lone(pool, "default", "open", "open2")]
    own = next(p for p in pods if p["metadata"]["name"] == "own")
    own["metadata"]["annotations"] = {"tandem.dev/network": "private"}  # a network of one, in a Tenant that has none
    pool.apply(*pods)
    names = [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods]
    wait_for("all run", lambda: all(pool.phase(name, ns) == "Running" for ns, name in names))
    return pool


def lone(pool, ns, *names):
    return [pool.pod(n, cpu="100m", ns=ns) for n in names]


def gang(pool, name, ns):
    pods = lone(pool, ns, f"{name}-0", f"{name}-1")
    for p in pods:
        p["metadata"].update(labels={GANG: name}, annotations={SIZE: "2"})
    return pods


def places(pool):
    """{"namespace/pod" or "job/node": address}; a native job has its slurmd's."""
    at = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p["status"]["podIP"] for ns in ("red", "blue", "green", "default") for p in pool.items("pods", "-n", ns)}
    return at | {f"job/{p['spec']['nodeName']}": p["status"]["podIP"] for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd")}


def reached(pool, place, at):
    """Which of the places answer somebody there, if only by a refusal: nobody listens at the port."""
    names = sorted(at)
    script = "".join(f'(timeout 3 bash -c ": 3<>/dev/tcp/{at[n]}/9" 2>&1 | grep -q "Connection refused" && echo {i}) & ' for i, n in enumerate(names)) + "wait"
    ns, name = place.split("/")
    out = pool.as_user("researcher", "srun", "-w", name, "--mem=50M", "bash", "-c", script).stdout if ns == "job" else \
        pool.kubectl("exec", "-n", ns, name, "--", "bash", "-c", script)
    return {names[int(i)] for i in out.split()}


# From a place, all that it reaches beside itself. Jobs share slurmd's network, and reach no Tenant's pods.
OPEN = {"default/open", "default/open2", "green/shut", "green/shut2"}
MATRIX = {
    "red/train-0": {"red/train-1"} | OPEN,
    "red/other-1": {"red/other-0"} | OPEN,
    "red/lone": {"red/lone2"} | OPEN,
    "blue/team-0": {"blue/team-1", "blue/own2"} | OPEN,  # isolated: a gang is open to its Tenant
    "blue/own2": {"blue/team-0", "blue/team-1"} | OPEN,
    "blue/own": OPEN,
    "green/shut": {"green/shut2"},
    "default/open": OPEN,
    "job/n0": {"job/n1"} | OPEN,
    "job/n1": {"job/n0"} | OPEN,
}


@pytest.mark.feature("C9.1", "C9.2", "C9.3")
def test_who_reaches_whom(site):
    at = places(site)
    assert set(MATRIX) <= set(at) and len(at) == 16, at
    want = {p: MATRIX[p] | {p} for p in MATRIX}

    def wrong():
        with concurrent.futures.ThreadPoolExecutor(len(want)) as all_at_once:
            got = dict(zip(want, all_at_once.map(lambda p: reached(site, p, at), want)))
        return {p: {"misses": sorted(want[p] - got[p]), "should not reach": sorted(got[p] - want[p])} for p in want if got[p] != want[p]}
    wait_for("each reaches what it may", lambda: not (bad := wrong()) or print(bad), 60)


@pytest.mark.feature("C9.2")
def test_the_network_is_there_before_the_first_pod_and_goes_with_the_gang(site):
    mine = lambda ns: {p["metadata"]["labels"][LABEL]: p for p in site.items("networkpolicies", "-n", ns, "-l", LABEL)}
    pods = {p["metadata"]["name"]: p for p in site.items("pods", "-n", "red")}
    label = lambda name: pods[name]["metadata"].get("labels", {}).get(LABEL)
    assert label("train-0") == label("train-1") != label("other-0") == label("other-1") and not label("lone")
    policy = mine("red")[label("train-0")]
    assert set(mine("red")) == {label("train-0"), label("other-0")} and len(mine("blue")) == 1
    assert {o["name"] for o in policy["metadata"]["ownerReferences"]} == {"train-0", "train-1"}
    assert policy["metadata"]["creationTimestamp"] <= min(pods[n]["status"]["startTime"] for n in ("train-0", "train-1"))

    # Nobody talks himself into it, or out of it, or makes a door into another's wall.
    may = lambda *argv, **kw: site.run("kubectl", "-n", "red", "--as", "researcher", *argv, check=False, **kw)
    assert "only Tandem's bridge writes it" in may("label", "pod", "train-0", f"{LABEL}-").stderr
    assert "only Tandem's bridge writes it" in may("label", "pod", "lone", f"{LABEL}={label('train-0')}").stderr
    door = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "tandem-private-door"}, "spec": {"podSelector": {}}}
    assert "Tandem's own" in may("create", "-f", "-", input=json.dumps(door)).stderr
    out = {**door, "metadata": {"name": "out"}, "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}}
    assert may("create", "-f", "-", input=json.dumps(out)).returncode == 0  # its Tenant shuts nothing
    many = {**door, "metadata": {"name": "many"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}] * 2, "ports": [{"port": 1 + i} for i in range(501)]}]}}
    assert "Too many: 1002: must have at most 1000 pairs of a peer and a port" in may("create", "-f", "-", input=json.dumps(many)).stderr
    assert "Tandem's own" in may("delete", "networkpolicy", policy["metadata"]["name"]).stderr
    assert "Tandem's own" in may("delete", "networkpolicy", "--all").stderr and set(mine("red")) == {label("train-0"), label("other-0")}
    green = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r", "namespace": "green"},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}, "subjects": [{"kind": "User", "name": "researcher", "apiGroup": "rbac.authorization.k8s.io"}]}
    site.apply(green)
    assert "Tandem's own" in may("-n", "green", "delete", "networkpolicy", "tandem-tenant-egress").stderr
    assert "its Tenant says what pods of this namespace may reach" in may("-n", "green", "create", "-f", "-", input=json.dumps(out)).stderr

    # Without its policy a network is shut, and not open.
    site.kubectl("delete", "networkpolicy", "-n", "red", policy["metadata"]["name"])
    at = places(site)
    wait_for("nobody reaches it", lambda: "red/train-1" not in reached(site, "red/train-0", at) and "red/train-1" not in reached(site, "default/open", at), 60)
    # A gang of the same name has it again, and it goes with its last pod.
    site.kubectl("delete", "pods", "-n", "red", "train-0", "train-1", "--grace-period=1")
    site.apply(*gang(site, "train", "red"))
    wait_for("they run anew", lambda: all(site.phase(n, "red") == "Running" for n in ("train-0", "train-1")))
    again = places(site)
    wait_for("they reach each other", lambda: reached(site, "red/train-0", again) == MATRIX["red/train-0"] | {"red/train-0"}, 60)
    site.kubectl("delete", "pods", "-n", "red", "train-0", "train-1", "--grace-period=1")
    wait_for("it is gone", lambda: set(mine("red")) == {label("other-0")})


@pytest.mark.feature("C9.2")
def test_a_wrong_word_is_refused(site):
    p = site.pod("odd", cpu="100m")
    p["metadata"]["annotations"] = {"tandem.dev/network": "secret"}
    site.apply(p)
    wait_for("it says so", lambda: "annotation tandem.dev/network: \"secret\" is no kind of network: write private" in json.dumps(site.get("pod", "odd")["status"].get("conditions", "")).replace("\\", ""))
    site.kubectl("delete", "pod", "odd")


@pytest.mark.feature("C9.2")
def test_a_session_has_its_own_and_the_gateway_reaches_it(site, tmp_path):
    """In the researcher's namespace, which becomes a Tenant's."""
    me = Laptop(site, tmp_path / "home", "researcher")
    for ns in ("blue", "green"):  # room for a native job on each node
        site.kubectl("delete", "pods", "--all", "-n", ns, "--grace-period=1")
    site.kubectl("label", "namespace", "researcher", "tandem.dev/tenant=lab")
    site.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "lab"}, "spec": {
        "cluster": {"namespace": "slurm", "name": "main"}, "namespaces": ["researcher"], "podUser": "researcher", "network": "private", "members": [{"user": "researcher"}]}})
    wait_for("it is", lambda: any(n["name"] == "researcher" for n in site.get("tenant", "lab").get("status", {}).get("namespaces", [])))
    wait_for("its policy is there", lambda: any(p["metadata"]["name"] == "tandem-tenant-private" for p in site.items("networkpolicies", "-n", "researcher")))
    wait_for("its account is in place", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in site.get("tenant", "lab")["status"].get("conditions", [])))
    site.apply(*lone(site, "researcher", "beside", "beside2"))
    s = me.json("session", "start", "endpoint", "--name", "web", "--replicas", "2", "--", "hostname > host.txt; exec python3 -m http.server $PORT")
    assert s["state"] == "ready"
    pods = wait_for("all run", lambda: len(p := site.running("-n", "researcher")) == 4 and {x["metadata"]["name"]: x for x in p})
    web = [n for n in pods if not n.startswith("beside")]
    assert len({pods[n]["metadata"]["labels"][LABEL] for n in web}) == 1 and LABEL not in pods["beside"]["metadata"].get("labels", {})
    wait_for("the gateway reaches it", lambda: ask(me, f"{s['path']}host.txt")[0] == 200)
    at = {n: p["status"]["podIP"] for n, p in pods.items()}
    wait_for("replicas reach each other", lambda: reached(site, f"researcher/{web[0]}", at) == set(web), 60)
    wait_for("and nobody else does", lambda: reached(site, "researcher/beside", at) == {"beside", "beside2"} and not reached(site, "red/lone", at) and not reached(site, "job/n0", at), 60)
    me.run("session", "stop", s["id"])
    wait_for("its policy goes too", lambda: not site.items("networkpolicies", "-n", "researcher", "-l", LABEL))


SERVER = """
import socket, threading
tcp, udp = socket.socket(socket.AF_INET6), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for s in tcp, udp: s.bind(("::", 7001))
tcp.listen(50)
def hear():
    while True:
        text, who = udp.recvfrom(10)
        udp.sendto(text, who)
threading.Thread(target=hear, daemon=True).start()
while True: tcp.accept()[0].send(b"hello")
"""
CLIENT = """
import socket, sys
for kind in "STREAM", "DGRAM":
    s = socket.socket(type=getattr(socket, f"SOCK_{kind}"))
    s.settimeout(60)
    try:
        s.connect((sys.argv[1], 7001))
        s.send(b"hello")
        print(s.recv(5) == b"hello")
    except ConnectionRefusedError:
        print(False)
"""


@pytest.mark.feature("C9.1", "C9.3")
def test_native_jobs_of_two_tenants(site):
    """What a job of red's listens on, on n0, is reached by red's jobs on both nodes and by nobody of blue."""
    for ns in ("blue", "green"):
        site.kubectl("delete", "pods", "--all", "-n", ns, "--grace-period=1")
    at = places(site)["job/n0"]
    for user in ("ann", "eve"):
        wait_for(f"{user} may log in", lambda: site.as_user(user, "true", check=False).returncode == 0)
    job = site.as_user("researcher", "sbatch", "--parsable", "-A", "red", "-w", "n0", "--mem=50M", "-o", "/dev/null", input=f"#!/usr/bin/python3\n{SERVER}").stdout.strip()

    def asks(user, account, node):
        place = ("srun", "-Q", "-A", account, "-w", node, "--mem=50M") if account else ()
        return site.as_user(user, *place, "python3", "-c", CLIENT, at).stdout.split()
    wait_for("he reaches himself from a login", lambda: asks("researcher", None, None) == ["True"] * 2)
    who = [(u, a, n) for u, a in (("researcher", "red"), ("ann", "red"), ("eve", "blue")) for n in ("n0", "n1")] + [("ann", None, None), ("eve", None, None)]
    with concurrent.futures.ThreadPoolExecutor(len(who)) as all_at_once:
        got = dict(zip(who, all_at_once.map(lambda x: asks(*x), who)))
    assert got == {x: [str(x[1] == "red")] * 2 for x in who}  # at a login ann has no job: it is she who asks, and not red
    site.as_user("researcher", "scancel", job)
