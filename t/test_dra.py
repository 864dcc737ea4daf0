"""Exact devices on a real Kubernetes: pods' ResourceClaims hold what Slurm granted, native jobs share the node, GPU by GPU (docs/design/0011-dra.md)."""
import contextlib
import json
import subprocess

import pytest

from devices import GPUS, allowed, apply, fault, home_probe, inside, job_on, node_index, on, probe, runs, says  # noqa: F401 (fixtures)
from harness import wait_for
from realpool import RealPool, lend

CLASS, FINALIZER = "gpu.example.com", "resource.kubernetes.io/delete-protection"


@pytest.fixture(scope="module")
def shared_pool(request, tandem, build):
    """A real cluster of two nodes for this file; the devices' names of n1 say nothing of their indexes."""
    yield from lend(request, RealPool(tandem, build, nodes=2))


@pytest.fixture
def pool(shared_pool, pool):
    wait_for("no claims left", lambda: not pool.items("resourceclaims", "-n", "default"))  # one that still goes would be taken for the test's own
    yield pool
    twice = [line for log in pool.cluster.dir.glob("log/dra-*.log") for line in log.read_text().splitlines() if "DOUBLE" in line]
    assert not twice  # by the word of who opens the devices' files to containers
    pool.kubectl("delete", "resourceclaims", "--all", "-n", "default", "--wait=false")


# ---- words of the two sides ----
def claim(name, count=None, **exactly):
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, **({"count": count} if count else {}), **exactly}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}


def by_claim(pool, name, *claims, **kw):
    """A pod with claims of its own making."""
    p = pool.pod(name, **kw)
    p["spec"]["resourceClaims"] = [{"name": f"c{i}", "resourceClaimName": c} for i, c in enumerate(claims)]
    p["spec"]["containers"][0]["resources"]["claims"] = [{"name": f"c{i}"} for i in range(len(claims))]
    return p


def indexes(pool):
    """{(node, device): Slurm's index}, from what the drivers publish."""
    return {(s["spec"]["nodeName"], d["name"]): d["attributes"]["index"]["int"] for s in pool.items("resourceslices") for d in s["spec"].get("devices", [])}


def held(pool):
    """{pod uid: (node, Slurm indexes)} by the claims' allocations; slurmd's own see everything and hold nothing."""
    known, got = indexes(pool), {}
    for c in pool.items("resourceclaims", "-n", "default"):
        a = c["status"].get("allocation") if c.get("status") else None
        if not a:
            continue
        node = a["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        assert FINALIZER in c["metadata"]["finalizers"], c
        for r in c["status"].get("reservedFor", []):
            mine = got.setdefault(r["uid"], (node, set()))
            assert mine[0] == node
            mine[1].update(known[(d["pool"], d["device"])] for d in a["devices"]["results"])
    return got


def agree(pool, name):
    """What Slurm granted, what the claims say and what the container can open are the same; gives it."""
    p = pool.get("pod", name)
    job, node, gpus = pool.grant(p)
    assert pool.job_devices(job) == {node: gpus}
    assert held(pool)[p["metadata"]["uid"]] == (node, gpus)
    files = pool.kubectl("exec", name, "--", "sh", "-c", "ls /dev | grep tandem-gpu").split()
    assert {int(f[len("tandem-gpu"):]) for f in files} == gpus
    assert inside(pool, name, node) == gpus
    return node, gpus


# ---- the sharing test ----
@pytest.mark.feature("A7.1", "A7.2", "A7.4")
@pytest.mark.parametrize("node", [pytest.param("n0", marks=pytest.mark.nightly), "n1"])  # the driver of n1 has names that say nothing of the indexes
def test_pods_and_jobs_share_a_node_device_by_device(home_probe, node):
    """Claims of their own and from templates, two in one pod, beside a native job: all devices, each with one holder, and nobody opens another's."""
    pool = home_probe
    first = job_on(pool, node, "--gres=gpu:1")
    apply(pool, claim("one"), claim("two", 2), by_claim(pool, "mine", "one", "two", **on(node)), pool.pod("made", gpus=2, **on(node)))
    runs(pool, "mine")
    runs(pool, "made")
    rest = job_on(pool, node, "--gres=gpu:2")
    holders = [agree(pool, "mine")[1], agree(pool, "made")[1], pool.job_devices(first)[node], pool.job_devices(rest)[node]]
    assert [len(h) for h in holders] == [3, 2, 1, 2]
    assert set().union(*holders) == set(range(GPUS))
    for job in (first, rest):
        out = pool.shell("srun", f"--jobid={job}", "--overlap", "-n1", f"--gres=gpu:{len(pool.job_devices(job)[node])}", *pool.probe(node_index(node)))
        assert allowed(out) == pool.job_devices(job)[node]
    # slurmd's own pod sees all of them.
    out = pool.kubectl("exec", "-n", "slurm", f"main-pool-{node}", "-c", "slurmd", "--", "sh", "-c", "ls /dev | grep -c tandem-gpu")
    assert out.strip() == str(GPUS)


@pytest.mark.feature("A7.1", "A7.4")
def test_a_full_node_and_what_is_let_go(home_probe):
    """Eight pods hold a node; the ninth gets just what the one that goes had, and claims let go of everything."""
    pool = home_probe
    apply(pool, *(pool.pod(f"p{i}", gpus=1, **on("n1")) for i in range(GPUS)))
    for i in range(GPUS):
        runs(pool, f"p{i}", 120)
    each = [agree(pool, f"p{i}")[1] for i in range(GPUS)]
    assert set().union(*each) == set(range(GPUS))
    apply(pool, pool.pod("ninth", gpus=1, **on("n1")))
    wait_for("the ninth says why it waits", lambda: "queue" in says(pool, "ninth"))
    pool.kubectl("delete", "pod", "p3")
    runs(pool, "ninth")
    assert agree(pool, "ninth")[1] == each[3]
    pool.kubectl("delete", "pods", "--all", "--wait=false")
    wait_for("every claim is gone with its pod", lambda: not pool.items("resourceclaims", "-n", "default"), 60)
    wait_for("Slurm has no job", lambda: not pool.squeue())


@pytest.mark.feature("A7.1")
def test_one_claim_serves_one_pod_after_the_other(home_probe):
    pool = home_probe
    apply(pool, claim("shared", 2), by_claim(pool, "a", "shared"))
    runs(pool, "a")
    apply(pool, by_claim(pool, "b", "shared"))
    wait_for("b says who holds the claim", lambda: "is held by pod a" in says(pool, "b"))
    assert not [j for j in pool.squeue().values() if j["name"].startswith("b.")]  # nothing is reserved for a pod that could not use it
    pool.kubectl("delete", "pod", "a")
    runs(pool, "b")
    agree(pool, "b")


@pytest.mark.feature("A7.1")
def test_a_claim_that_comes_after_its_pod(home_probe):
    pool = home_probe
    apply(pool, by_claim(pool, "early", "late"))
    wait_for("it says what it waits for", lambda: "ResourceClaim default/late does not exist" in says(pool, "early"))
    apply(pool, claim("late", 3))
    runs(pool, "early")
    assert len(agree(pool, "early")[1]) == 3


@pytest.mark.feature("A7.1")
def test_claims_cost_two_writes_each_and_nothing_else(home_probe):
    """By the API server's audit log: a pod's requests without a claim, and with one."""
    pool = home_probe
    log = pool.cluster.dir / "log/audit.log"

    def requests(*pods):
        start = log.stat().st_size
        apply(pool, *pods)
        for p in pods:
            runs(pool, p["metadata"]["name"])
        with open(log) as f:
            f.seek(start)
            events = [json.loads(line) for line in f if line.endswith("}\n")]
        mine = [e for e in events if e.get("userAgent", "").startswith("tandem/") and e["verb"] in ("get", "create", "update", "patch", "delete")
                and e["objectRef"].get("namespace") == "default" and e["objectRef"]["resource"] != "events"]
        said = (f"{e['verb']} {e['objectRef']['resource']}/{e['objectRef'].get('subresource', '')}".rstrip("/") for e in mine)
        return sorted(r for r in said if r != "patch pods/status")  # the words of a pod that Slurm lets wait, on a machine that has much to do
    assert requests(pool.pod("free")) == ["create pods/binding"]
    assert requests(pool.pod("two", gpus=2)) == ["create pods/binding", "patch resourceclaims", "patch resourceclaims/status"]


@pytest.mark.feature("A7.1", "A18.2")
def test_what_slurm_cannot_do_is_refused_in_words(pool):
    apply(pool, claim("all", allocationMode="All"), claim("cel", selectors=[{"cel": {"expression": "device.driver == 'x'"}}]), claim("nine", 9),
          {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "other"}, "spec": {}}, claim("class", deviceClassName="other"),
          *(by_claim(pool, f"p-{c}", c) for c in ("all", "cel", "nine", "class")))
    resource = pool.pod("p-resource")
    for k in ("requests", "limits"):
        resource["spec"]["containers"][0]["resources"][k]["nvidia.com/gpu"] = "1"
    apply(pool, resource)
    for name, words in (("p-all", "requests[0].exactly.allocationMode: write ExactCount"), ("p-cel", "requests[0].exactly.selectors"),
                        ("p-class", '"other" is not among spec.devices[0].deviceClasses of SlurmCluster slurm/main'),
                        ("p-nine", "it asks for 9 gpu; no node that it may use has more than 8"), ("p-resource", "name a claim of DeviceClass gpu.example.com in spec.resourceClaims")):
        wait_for(f"{name} is refused", lambda: words in says(pool, name), 30)
        assert says(pool, name).startswith("Refused: ")
    pool.kubectl("delete", "deviceclass", "other")


# ---- others on the node ----
def foreign(pool, name, claim=None, node=None, **kw):
    """A pod of the default scheduler; with a node it passes that by, too."""
    p = by_claim(pool, name, claim, **kw) if claim else pool.pod(name, **kw)
    p["spec"]["schedulerName"] = "default-scheduler"
    if node:
        p["spec"]["nodeName"] = node
    return p


@pytest.mark.nightly
@pytest.mark.feature("A7.4")
def test_who_gets_past_the_queue_is_seen(home_probe):
    """Without the policies of the installation: a device that somebody else holds is not given, its node takes no more, Slurm says who; its jobs go on."""
    pool = home_probe
    first = job_on(pool, "n1", "--gres=gpu:1")
    apply(pool, claim("known", 2), by_claim(pool, "owner", "known", **on("n1")))
    runs(pool, "owner")
    node, gpus = agree(pool, "owner")
    assert node == "n1"
    # Two ways in: the claim of a pod that runs, by name; and a claim of its own that kube-scheduler allocates.
    apply(pool, foreign(pool, "thief", "known", **on("n1")))
    runs(pool, "thief")
    said = wait_for("Slurm says who", lambda: next((line for line in pool.shell("sinfo", "-h", "-R", "-o", "%E %N").splitlines() if "tandem: devices" in line), None))
    assert "is held by pod default/thief, which Slurm did not place: delete it" in said and said.endswith("n1")
    assert pool.squeue()[first]["state"] == "RUNNING" and pool.phase("owner") == "Running"
    # Its owner goes: the device is not free.
    pool.kubectl("delete", "pod", "owner", "--wait=false")
    wait_for("Slurm took its job", lambda: list(pool.squeue()) == [first])
    assert "thief" in pool.shell("sinfo", "-h", "-R", "-o", "%E")
    pool.kubectl("delete", "pod", "thief")
    wait_for("the node takes jobs again", lambda: "tandem" not in pool.shell("sinfo", "-h", "-R", "-o", "%E"))
    apply(pool, pool.pod("next", gpus=GPUS - 1, **on("n1")))
    runs(pool, "next")
    assert agree(pool, "next")[1] >= gpus


@pytest.mark.feature("A3", "A7")
def test_what_others_took_is_seen_before_a_binding(pool):
    """A kubelet fails a pod that does not fit, for good; the bridge looks first, and the pod waits and says why."""
    cpus, name = pool.cluster.cpus, "n0"
    apply(pool, foreign(pool, "filler", node=name, cpu=str(cpus - 2)))  # as a DaemonSet's or a static pod: nobody asks whether there is room
    runs(pool, "filler")
    apply(pool, *(pool.pod(f"p{i}", cpu="1", **on(name)) for i in range(4)))
    wait_for("those that do not fit say why", lambda: sum("pods that Slurm did not place there request more than spec.reserve" in says(pool, f"p{i}") for i in range(4)) >= 3, 60)
    pods = pool.items("pods", "-n", "default")
    assert not [p for p in pods if p["status"].get("phase") == "Failed"], pods
    pool.kubectl("delete", "pod", "filler")
    for i in range(4):
        runs(pool, f"p{i}", 120)


# ---- the bridge dies ----


CI = "kube.patch.resourceclaims.after:crash", "kube.create.pods.binding.before:crash"  # one of two writes is done, and both
FAULTS = [pytest.param(spec, marks=[pytest.mark.nightly] * (spec not in CI)) for point in ("patch.resourceclaims", "patch.resourceclaims.status", "create.pods.binding")
          for when in ("before", "after") for what in ("crash", "lose") for spec in [f"kube.{point}.{when}:{what}"]]


@pytest.mark.feature("A7.1", "A12.2")
@pytest.mark.parametrize("spec", FAULTS)
def test_the_bridge_falls_at_a_write(home_probe, spec):
    """kill -9, or a lost reply, before and after every write between the grant and the pod's start: the pod gets its grant, once."""
    pool = home_probe
    with fault(pool, spec) as met:
        apply(pool, claim("own", 2), by_claim(pool, "f-own", "own"), pool.pod("f-made", gpus=1))
        met()
        if spec.endswith("crash"):
            pool.procs["bridge"].wait(30)
            pool.start("bridge")
        for name in ("f-own", "f-made"):
            runs(pool, name, 90)
            agree(pool, name)
        jobs = [j["name"].split(".")[0] for j in pool.squeue().values() if j["state"] == "RUNNING"]
        assert sorted(jobs) == ["f-made", "f-own"]


@pytest.mark.nightly
@pytest.mark.feature("A7.4")
def test_a_grant_that_ends_between_allocation_and_binding(home_probe):
    """What the claim holds then is taken out again, and what the next grant says goes in."""
    pool = home_probe
    with fault(pool, "kube.patch.resourceclaims.status.after:crash") as met:
        apply(pool, claim("moved", 2), by_claim(pool, "moved", "moved", **on("n1")))
        met()
        pool.procs["bridge"].wait(30)
        uid = pool.get("pod", "moved")["metadata"]["uid"]
        before = held(pool)[uid]
        assert not pool.get("pod", "moved")["spec"].get("nodeName")
        job = next(i for i, j in pool.squeue().items() if j["name"].startswith("moved."))
        pool.shell("scancel", job)
        wait_for("the job is gone", lambda: job not in pool.squeue())
        native = pool.sbatch("-N1", "-w", "n1", f"--gres=gpu:{len(before[1])}")
        wait_for("somebody else has its devices", lambda: pool.job_devices(native) == {"n1": before[1]})
        pool.start("bridge")
        runs(pool, "moved", 90)
        node, gpus = agree(pool, "moved")
        assert node == "n1" and not gpus & before[1]


@pytest.mark.nightly
@pytest.mark.feature("A7.1")
def test_a_claim_is_deleted_while_nobody_looks(home_probe):
    """Between the grant and the Binding: the grant goes back, the pod waits for the claim, and runs when there is one."""
    pool = home_probe
    with fault(pool, "kube.patch.resourceclaims.before:crash") as met:
        apply(pool, claim("lost", 2), by_claim(pool, "lost", "lost"))
        met()
        pool.procs["bridge"].wait(30)
        pool.kubectl("delete", "resourceclaim", "lost")
        pool.start("bridge")
        wait_for("the pod says what it lacks", lambda: "ResourceClaim default/lost does not exist" in says(pool, "lost"), 60)
        wait_for("no job holds devices for it", lambda: not pool.squeue(), 30)
        apply(pool, claim("lost", 2))
        runs(pool, "lost", 60)
        agree(pool, "lost")


# ---- the operator's part ----
@pytest.mark.nightly
@pytest.mark.feature("B3.8")
def test_a_driver_that_is_replaced_takes_no_node_away(home_probe):
    """Nothing published is not nothing there: Slurm's nodes stay as they are, and a grant waits for the driver."""
    pool = home_probe
    slurmd = pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"]
    with stopped(pool.cluster, "n1"):
        names = [s["metadata"]["name"] for s in pool.items("resourceslices") if s["spec"]["nodeName"] == "n1"]
        pool.kubectl("delete", "resourceslice", "--ignore-not-found", *(names or ["none"]))  # its kubelet does the same, 30 s after the driver went
        apply(pool, pool.pod("patient", gpus=1, **on("n1")))
        wait_for("the pod says that the driver is missing", lambda: "publishes nothing on node n1" in says(pool, "patient"), 60)
        assert pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"] == slurmd
        assert pool.shell("sinfo", "-h", "-n", "n1", "-o", "%G").strip() == "gpu:8"
    runs(pool, "patient", 240)
    agree(pool, "patient")
    assert pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"] == slurmd


@pytest.mark.nightly
@pytest.mark.feature("A2.1", "A3.6")
def test_a_device_class_that_is_not_there_changes_nothing(pool):
    """A slip in deviceClasses: what runs stays, whether the API refuses the name or nobody has such a class; `tandem status` counts the devices all the while."""
    uids = lambda: {p["metadata"]["name"]: p["metadata"]["uid"] for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd")}
    name = lambda cls: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=json", "-p", json.dumps([{"op": "replace", "path": "/spec/devices/0/deviceClasses", "value": [cls]}]))
    valid = lambda: next((c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "ConfigValid"), {})
    before = uids()
    try:
        name("nope.example.com")
        wait_for("the condition says it", lambda: 'there is no DeviceClass "nope.example.com"' in valid().get("message", ""))
        # Every node was looked at with the new words: they say why they stay.
        wait_for("each node says it", lambda: all("ResourceClaimTemplate" in n.get("message", "") for n in pool.get("nodeset", "pool", "-n", "slurm")["status"]["nodes"]))
        assert uids() == before and pool.idle_nodes() == len(pool.nodes)
        shown = json.loads(pool.run(pool.tandem, "status", "--kubeconfig", pool.cluster.kubeconfig, "-o", "json", check=False).stdout)
        assert [n["gpus"] for n in shown["nodes"]] == [str(GPUS)] * len(pool.nodes)
    finally:
        name(CLASS)
    wait_for("all is well again", lambda: valid().get("status") == "True" and next(c for c in pool.get("nodeset", "pool", "-n", "slurm")["status"]["conditions"] if c["type"] == "Ready")["status"] == "True")
    assert uids() == before


@contextlib.contextmanager
def stopped(c, node):
    """The driver of a node is killed; another one starts at the end."""
    c.kill(f"dra-{node}")
    try:
        yield
    finally:
        c.start_driver(int(node[1:]), scramble=int(node[1:]) % 2 == 1)


@pytest.mark.feature("A2.1")
def test_a_namespace_without_the_admin_label(pool):
    """slurmd may see all devices only where a cluster's administrator says so; the SlurmCluster says which command says it."""
    spec = {k: v for k, v in pool.get("slurmcluster", "main", "-n", "slurm")["spec"].items() if k in ("slurm", "devices")}
    pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict"}},
        {"apiVersion": "tandem.dev/v1alpha1", "kind": "SlurmCluster", "metadata": {"name": "sub", "namespace": "strict"}, "spec": spec}]}))

    def valid():
        return next((c for c in pool.get("slurmcluster", "sub", "-n", "strict").get("status", {}).get("conditions", []) if c["type"] == "ConfigValid"), {})
    try:
        wait_for("the condition names the command", lambda: "kubectl label namespace strict resource.kubernetes.io/admin-access=true" in valid().get("message", ""), 60)
        subprocess.run(valid()["message"].rpartition(": ")[2].split(), env=pool.env, check=True, stdout=subprocess.PIPE, timeout=30)  # as it stands there
        wait_for("the condition is gone", lambda: valid().get("status") == "True", 60)
        wait_for("what slurmd asks for is there", lambda: pool.items("resourceclaimtemplates", "-n", "strict"))
    finally:
        pool.kubectl("delete", "namespace", "strict", "--wait=false")
