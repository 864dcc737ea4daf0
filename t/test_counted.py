"""Counted devices on a real Kubernetes: a device plugin and its kubelet choose a pod's devices, Slurm's grant says how many (docs/design/0011-dra.md).

The plugin (t/kube/assets/device-plugin) prefers high indexes and Slurm low ones, so that nobody can take the one for the other."""
import contextlib
import json
import pathlib
import signal

import pytest

from devices import allowed, apply, fault, home_probe, inside, job_on, node_index, on, probe, runs, says  # noqa: F401 (fixtures)
from harness import expand_ranges, wait_for
from realpool import GPUS, RealPool, lend

pytestmark = pytest.mark.feature("A7.4")

RESOURCE = "example.com/gpu"
DEVICES = [{"resource": RESOURCE, "file": "/dev/tandem-fake/gpu"}]


class CountedPool(RealPool):
    devices = f"  devices: {json.dumps(DEVICES)}\n"

    def start_devices(self):
        self.sick_files = [self.cluster.start_plugin(i, RESOURCE) for i in range(self.nodes_count)]
        wait_for("every node's devices are known", lambda: [self.offered(n) for n in self.nodes] == [GPUS] * self.nodes_count, 60)

    def manifests(self):
        """slurmd sees the devices of its node by a directory of the host; as nobody else lets it open them, it is privileged."""
        text = super().manifests().replace("gresMap: {nvidia.com/gpu: gpu}", f"gresMap: {{{RESOURCE}: gpu}}")
        assert text.rstrip().endswith("updateStrategy: {type: RollingUpdate, maxUnavailable: 1}")  # a template goes below a NodeSet's spec
        return text.rstrip() + """
  template:
    spec:
      volumes:
      - {name: fake, hostPath: {path: /run/tandem-fake}}
      containers:
      - name: slurmd
        securityContext: {privileged: true, allowPrivilegeEscalation: true}
        volumeMounts: [{name: fake, mountPath: /dev/tandem-fake}]
"""

    def offered(self, node):
        return int(self.get("node", node)["status"].get("allocatable", {}).get(RESOURCE, -1))

    def pod(self, name, gpus=0, **kw):
        p = super().pod(name, 0, **kw)
        if gpus:
            for k in ("requests", "limits"):
                p["spec"]["containers"][0]["resources"][k] = {**p["spec"]["containers"][0]["resources"][k], RESOURCE: str(gpus)}
        return p

    def grant(self, pod):
        a = pod["metadata"].get("annotations", {})
        if "tandem.dev/job-id" not in a:
            return None
        return int(a["tandem.dev/job-id"]), pod["spec"].get("nodeName"), expand_ranges(json.loads(a["tandem.dev/devices"]).get(RESOURCE, ""))

    # ---- words of this file ----
    def sick(self, node, *indexes):
        at = self.sick_files[node_index(node)]
        at.with_suffix(".new").write_text(" ".join(map(str, indexes)))
        at.with_suffix(".new").rename(at)  # no reader sees it empty
        wait_for(f"the kubelet of {node} knows", lambda: self.offered(node) == GPUS - len(indexes), 30)

    def slurm_node(self, node):
        """(state, GRES, reason) as sinfo says them."""
        return tuple(self.shell("sinfo", "-h", "-n", node, "-o", "%T|%G|%E").strip().split("|"))

    def ready(self, node, gpus=GPUS):
        wait_for(f"{node} takes jobs with {gpus} devices", lambda: self.slurm_node(node)[:2] in (("idle", f"gpu:{gpus}"), ("mixed", f"gpu:{gpus}")), 240)

    def users(self):
        """{node: the users whose jobs hold something there}, of one answer of Slurm's."""
        got = {}
        for line in self.shell("squeue", "-h", "-t", "R,CG", "-o", "%N|%u").splitlines():
            node, user = line.split("|")
            got.setdefault(node, set()).add(user)
        return got


@pytest.fixture(scope="module")
def shared_pool(request, tandem, build):
    yield from lend(request, CountedPool(tandem, build, nodes=2))


@pytest.fixture
def pool(shared_pool, pool):
    yield pool
    # A kubelet that was asked for more than it has fails the pod; that must never be seen.
    assert [e["message"] for e in pool.items("events", "-n", "default", "--field-selector", "reason=UnexpectedAdmissionError")] == []


def chosen(pool, name):
    """The indexes that the kubelet chose, by the container's environment; its files and the kernel agree."""
    p = pool.get("pod", name)
    node = p["spec"]["nodeName"]
    got = {int(d[len("gpu-"):]) for d in pool.kubectl("exec", name, "--", "sh", "-c", "echo $FAKE_GPUS").strip().split(",")}
    files = pool.kubectl("exec", name, "--", "sh", "-c", "ls /dev | grep tandem-gpu").split()
    assert {int(f[len("tandem-gpu"):]) for f in files} == got
    assert inside(pool, name, node) == got
    return got


# ---- through Slurm's queue ----
@pytest.mark.feature("A6.3")
def test_pods_wait_in_slurms_queue_and_the_kubelet_chooses(home_probe):
    """More is asked for than there is: Slurm says who waits. What runs has as many devices as it was granted, and no two have the same."""
    pool = home_probe
    apply(pool, *(pool.pod(f"p{i}", gpus=3, **on("n0")) for i in range(3)))
    wait_for("two run", lambda: len(pool.running()) == 2)
    first = [p["metadata"]["name"] for p in pool.running()]
    waits = next(f"p{i}" for i in range(3) if f"p{i}" not in first)
    wait_for("the third says why it waits", lambda: "queue" in says(pool, waits))
    assert "waits" in pool.why(waits).stdout
    held, granted = [chosen(pool, n) for n in first], [pool.grant(pool.get("pod", n))[2] for n in first]
    assert [len(h) for h in held] == [3, 3] == [len(g) for g in granted]
    assert not held[0] & held[1] and not granted[0] & granted[1]
    assert held != granted  # counted, not exact: this is why the nodes are not shared
    for n in first:
        job = pool.grant(pool.get("pod", n))[0]
        assert pool.job(job)["OverSubscribe"] == "USER"
    pool.kubectl("delete", "pod", first[0])
    runs(pool, waits)
    assert chosen(pool, waits) == held[0]


@pytest.mark.nightly
def test_many_pods_come_and_go(pool):
    """Forty pods over two nodes of eight devices, each ends by itself: no kubelet is ever asked for more than it has."""
    pods = [pool.pod(f"m{i}", gpus=i % 4 + 1, cpu="100m", command=["sleep", "1"], restartPolicy="Never") for i in range(40)]
    pool.apply(*pods)
    seen = []

    def done():
        items = pool.items("pods", "-n", "default")
        on_node = {}
        for p in items:
            if p["spec"].get("nodeName") and p["status"]["phase"] in ("Pending", "Running"):
                on_node[p["spec"]["nodeName"]] = on_node.get(p["spec"]["nodeName"], 0) + int(p["metadata"]["name"][1:]) % 4 + 1
        seen.append(max(on_node.values(), default=0))
        return all(p["status"]["phase"] in ("Succeeded", "Failed") for p in items)
    wait_for("all have ended", done, 600)
    assert {p["status"]["phase"] for p in pool.items("pods", "-n", "default")} == {"Succeeded"}
    assert 4 <= max(seen) <= GPUS


# ---- not shared with native jobs ----
def test_a_native_job_and_a_counted_pod_are_never_on_one_node(home_probe):
    pool = home_probe
    # The job first: the pod waits, though there are devices enough.
    job = job_on(pool, "n0", "--gres=gpu:1")
    apply(pool, pool.pod("a", gpus=1, **on("n0")))
    wait_for("the pod says that it waits", lambda: "queue" in says(pool, "a"))
    beside = pool.sbatch("-N1", "-w", "n0", "-c1", "--nice=1000")  # native jobs share, but not past the one that waits
    assert pool.users().get("n0") == {"root"}
    pool.shell("scancel", job, beside)
    runs(pool, "a")
    # The pod first: the job waits, even one without devices.
    late, plain = pool.sbatch("-N1", "-w", "n0", "--gres=gpu:1"), pool.sbatch("-N1", "-w", "n0", "-c1")
    wait_for("both say why they wait", lambda: all(pool.squeue()[j]["reason"] not in ("None", "") for j in (late, plain)))
    job_on(pool, "n1", "--gres=gpu:8")  # another node is nobody's business
    assert pool.users() == {"n0": {"pods"}, "n1": {"root"}}
    # Freed: it is anybody's again.
    pool.kubectl("delete", "pod", "a", "--wait=false")
    wait_for("the jobs run together", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in (late, plain)))
    apply(pool, pool.pod("b", gpus=2, **on("n0")))
    wait_for("the next pod says that it waits", lambda: "queue" in says(pool, "b"))
    out = pool.shell("srun", f"--jobid={late}", "--overlap", "-n1", "--gres=gpu:1", *pool.probe(node_index("n0")))
    assert allowed(out) == pool.job_devices(late)["n0"]
    assert pool.users()["n0"] == {"root"}
    pool.shell("scancel", late, plain)
    runs(pool, "b")
    assert len(chosen(pool, "b")) == 2


def test_two_counted_pods_share_a_node(home_probe):
    pool = home_probe
    for name in ("a", "b"):
        apply(pool, pool.pod(name, gpus=3, **on("n1")))
        runs(pool, name)
    assert len(chosen(pool, "a") | chosen(pool, "b")) == 6


@pytest.mark.nightly
def test_pods_and_jobs_alternate_and_never_meet(pool):
    """A mixed queue, looked at all the time: a node has jobs of pods or native jobs."""
    names = [f"x{i}" for i in range(8)]
    jobs = []
    for n in names:
        pool.apply(pool.pod(n, gpus=2, command=["sleep", "5"], restartPolicy="Never"))  # longer than a look takes on a busy machine
        jobs.append(pool.sbatch("-N1", "--gres=gpu:2", script="#!/bin/sh\nexec sleep 5\n"))
    seen = set()

    def done():
        for node, users in pool.users().items():
            assert len(users) == 1, (node, users)
            seen.update(users)
        return not pool.squeue() and all(pool.phase(n) == "Succeeded" for n in names)
    wait_for("all have run", done, 600)
    assert seen == {"pods", "root"}


@contextlib.contextmanager
def devices(pool, spec, gres=None):
    """spec.devices of the SlurmCluster for a while."""
    def write(devices, gres):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p",
                     json.dumps({"spec": {"devices": devices, "scheduler": {"gresMap": gres}}}))
    usual = {RESOURCE: "gpu"}
    write(spec, {**{k: None for k in usual}, **(gres or usual)})
    if spec[0].get("source"):  # another kind of devices: the bridge starts anew, as its Deployment makes it
        pool.procs["bridge"].wait(60)
    try:
        yield
    finally:
        write(DEVICES, {**{k: None for k in gres or {}}, **usual})
        if spec[0].get("source"):
            pool.start("bridge")


@pytest.mark.nightly
def test_shared_nodes_where_a_site_accepts_it(home_probe):
    """Native jobs beside counted pods: the counts of both together are never more than the node's."""
    pool = home_probe
    with devices(pool, [{**DEVICES[0], "shared": True}]):
        job = job_on(pool, "n0", "--gres=gpu:5")

        def beside():
            # A bridge that has not read the new settings yet asks for the node alone: such a job waits, so the pod is made again.
            pool.kubectl("delete", "pod", "a", "--ignore-not-found", "--grace-period=0", "--force")
            apply(pool, pool.pod("a", gpus=3, **on("n0")))
            with contextlib.suppress(AssertionError):
                wait_for("the pod runs beside it", lambda: pool.phase("a") == "Running", 60, least=60)
                return True
        wait_for("the pod runs beside it", beside, 300)
        assert pool.users()["n0"] == {"root", "pods"}
        assert len(chosen(pool, "a")) == 3
        apply(pool, pool.pod("b", gpus=1, **on("n0")))
        wait_for("all eight are given out", lambda: "queue" in says(pool, "b"))
        pool.shell("scancel", job)
        runs(pool, "b")
        assert len(chosen(pool, "a") | chosen(pool, "b")) == 4


# ---- devices that are sick, plugins that are gone ----
@pytest.mark.feature("A5.5", "B3.8")
def test_a_node_with_a_sick_device_is_drained(home_probe):
    """Which device is sick nobody says in Slurm's numbers, so the node takes nothing new: its size and what runs there stay, and it comes back when all are well."""
    pool = home_probe
    slurmd = pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"]
    apply(pool, pool.pod("runs", gpus=5, **on("n1")))
    runs(pool, "runs")
    try:
        pool.sick("n1", *sorted(set(range(GPUS)) - chosen(pool, "runs"))[:2])
        words = f"tandem: devices, its kubelet offers 6 of {GPUS} {RESOURCE}"
        wait_for("Slurm gives out nothing there, and says why", lambda: pool.slurm_node("n1") == ("draining", f"gpu:{GPUS}", words), 30)
        apply(pool, pool.pod("waits", gpus=1, **on("n1")))
        wait_for("the pod waits with words", lambda: "drained" in pool.why("waits").stdout, 60)
        pool.sick("n1", 0)
        wait_for("the reason follows", lambda: "offers 7 of" in pool.slurm_node("n1")[2], 30)
        assert pool.phase("runs") == "Running" and len(chosen(pool, "runs")) == 5
    finally:
        pool.sick("n1")
    runs(pool, "waits", 60)
    assert len(chosen(pool, "waits")) == 1
    assert pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"] == slurmd
    pool.ready("n1")


@pytest.mark.nightly
@pytest.mark.feature("A5.5", "B3.8")
def test_a_plugin_that_is_replaced_takes_no_node_away(home_probe):
    """Nothing offered is not nothing there: Slurm's node is drained and keeps its size, its slurmd stays, what runs goes on; then it is as before."""
    pool = home_probe
    slurmd = pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"]
    apply(pool, pool.pod("runs", gpus=2, **on("n1")))
    runs(pool, "runs")
    pool.cluster.kill("plugin-n1")
    try:
        wait_for("the kubelet offers none", lambda: pool.offered("n1") == 0, 30)
        wait_for("Slurm gives out nothing there", lambda: "drain" in pool.slurm_node("n1")[0], 30)
        state = pool.slurm_node("n1")
        assert state[1] == f"gpu:{GPUS}" and state[2].startswith("tandem: devices, ") and RESOURCE in state[2]
        apply(pool, pool.pod("waits", gpus=1, **on("n1")))
        wait_for("the pod waits with words", lambda: "drained" in pool.why("waits").stdout, 60)
        assert not pool.kubectl("get", "node", "n1", "-o", "jsonpath={.spec.taints}")  # ours, nobody else's
    finally:
        pool.sick_files[1] = pool.cluster.start_plugin(1, RESOURCE)
    runs(pool, "waits", 60)
    assert len(chosen(pool, "waits")) == 1 and len(chosen(pool, "runs")) == 2
    assert pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"] == slurmd
    pool.ready("n1")


@pytest.mark.nightly
@pytest.mark.feature("A10.1")
def test_a_device_that_is_taken_out(home_probe):
    """Another capacity is another size: Slurm's node is made anew with it, though it is drained already, and so it is when the device is back."""
    pool = home_probe
    for n in (GPUS - 2, GPUS):
        pool.cluster.kill("plugin-n1")
        pool.sick_files[1] = pool.cluster.start_plugin(1, RESOURCE, devices=n)
        pool.ready("n1", n)
        apply(pool, pool.pod(f"all-{n}", gpus=n, **on("n1")))
        runs(pool, f"all-{n}")
        assert len(chosen(pool, f"all-{n}")) == n
        pool.kubectl("delete", "pod", f"all-{n}")
        wait_for("its job is gone", lambda: not pool.squeue())


@pytest.mark.nightly
def test_a_grant_that_the_kubelet_cannot_honour(home_probe):
    """Slurm gave it out before anybody told it that devices are sick: it is not bound, which would fail the pod for good; it goes back, and the pod waits."""
    pool = home_probe
    job = job_on(pool, "n0", "--exclusive")
    apply(pool, pool.pod("held", gpus=6, **on("n0")))
    wait_for("the pod waits", lambda: "queue" in says(pool, "held"))
    p = pool.procs.pop("bridge")  # nobody tells Slurm
    pool.signal(p, signal.SIGKILL)
    p.wait(30)
    log = pathlib.Path(f"{pool.home}/log/bridge.log")
    start = log.stat().st_size
    try:
        pool.sick("n0", 0, 1, 2)
        pool.shell("scancel", job)
        granted = wait_for("Slurm grants it", lambda: [i for i, j in pool.squeue().items() if j["name"].startswith("held.") and j["state"] == "RUNNING"])[0]
        pool.start("bridge")
        wait_for("the grant goes back", lambda: granted not in pool.squeue(), 60)
        said = f"the kubelet of n0 offers 5 of {RESOURCE}, other pods there hold 0, and 6 are asked for"
        wait_for("the bridge says why", lambda: said in log.read_bytes()[start:].decode(errors="replace"))
        wait_for("the pod waits with words", lambda: "drained" in pool.why("held").stdout, 60)
        assert pool.phase("held") == "Pending" and not pool.get("pod", "held")["spec"].get("nodeName")
    finally:
        if "bridge" not in pool.procs:
            pool.start("bridge")
        pool.sick("n0")
    runs(pool, "held")
    assert len(chosen(pool, "held")) == 6


# ---- the bridge dies ----
@pytest.mark.feature("A12.2")
@pytest.mark.parametrize("spec", [pytest.param(f"kube.create.pods.binding.{when}:{what}", marks=[pytest.mark.nightly] * ((when, what) != ("before", "crash")))
                                  for when in ("before", "after") for what in ("crash", "lose")])
def test_the_bridge_falls_between_grant_and_binding(home_probe, spec):
    pool = home_probe
    with fault(pool, spec) as met:
        apply(pool, pool.pod("f", gpus=3))
        met()
        if spec.endswith("crash"):
            pool.procs["bridge"].wait(30)
            pool.start("bridge")
        runs(pool, "f", 90)
        job, node, gpus = pool.grant(pool.get("pod", "f"))
        assert len(gpus) == 3 and pool.job_devices(job) == {node: gpus}
        assert len(chosen(pool, "f")) == 3
        assert [j["name"].split(".")[0] for j in pool.squeue().values() if j["state"] == "RUNNING"] == ["f"]


# ---- what cannot be ----
def condition(pool, kind):
    return next((c for c in pool.get("slurmcluster", "main", "-n", "slurm").get("status", {}).get("conditions", []) if c["type"] == kind), {})


@pytest.mark.feature("A2.1")
def test_wrong_devices_are_told_with_the_fix(pool):
    slurmd = {n: pool.get("pod", f"main-pool-{n}", "-n", "slurm")["metadata"]["uid"] for n in pool.nodes}
    wrong = [([{**DEVICES[0], "deviceClasses": ["gpu.example.com"]}], None, "spec.devices[0].deviceClasses: only source DRA has it"),
             ([{"resource": RESOURCE, "source": "DRA", "file": "/dev/x", "shared": True}], None, "spec.devices[0].shared: with source DRA"),
             ([{"resource": "example.com/typo", "file": "/dev/x"}], None, 'add "example.com/typo: gpu" there, or correct the name'),
             ([{"resource": RESOURCE}], None, "spec.devices[0].file: "),
             (DEVICES, {RESOURCE: "fpga"}, "write gpu")]
    for spec, gres, words in wrong:
        with devices(pool, spec, gres):
            wait_for(f"the condition says {words}", lambda: condition(pool, "ConfigValid").get("status") == "False" and words in condition(pool, "ConfigValid")["message"], 30)
        wait_for("and all is well again", lambda: condition(pool, "ConfigValid").get("status") == "True", 30)
    assert condition(pool, "DevicesFound")["message"] == f"{GPUS * 2} of {RESOURCE} on 2 nodes"
    assert slurmd == {n: pool.get("pod", f"main-pool-{n}", "-n", "slurm")["metadata"]["uid"] for n in pool.nodes}  # a slip changes nothing
    with pytest.raises(Exception, match="spec.devices\\[0\\].resource"):
        with devices(pool, [{"resource": "gpu", "file": "/dev/x"}]):
            pass


@pytest.mark.feature("A2.1")
def test_a_resource_that_no_node_has(pool):
    none = "example.com/none"
    with devices(pool, [{"resource": none, "file": "/dev/tandem-fake/gpu"}], {none: "gpu"}):
        wait_for("the condition says so", lambda: condition(pool, "DevicesFound").get("status") == "False", 30)
        said = condition(pool, "DevicesFound")["message"]
        assert said.startswith(f"spec.devices[0].resource: no node of this cluster has {none}") and "install its device plugin there" in said
    for n in pool.nodes:
        pool.ready(n)
    wait_for("the condition says that they are there", lambda: condition(pool, "DevicesFound").get("status") == "True")


@pytest.mark.nightly
@pytest.mark.feature("A2.10")
def test_nodes_that_slurm_drained_under_a_configuration_that_is_over(pool):
    """The running slurmds take a configuration without their devices over, Slurm drains their nodes for it, and the configuration goes before any slurmd was replaced."""
    def strategy(kind):
        pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"updateStrategy": {"type": kind}}}))

    def in_force():
        sc = pool.get("slurmcluster", "main", "-n", "slurm")
        return next(c["observedGeneration"] == sc["metadata"]["generation"] and c["reason"] == "Ready" for c in sc["status"]["conditions"] if c["type"] == "Ready")
    slurmd = {n: pool.get("pod", f"main-pool-{n}", "-n", "slurm")["metadata"]["uid"] for n in pool.nodes}
    none = "example.com/none"
    for verb, state in (("cordon", "drained"), ("uncordon", "idle")):  # what an undrain leaves behind must not hide Slurm's reason
        pool.kubectl(verb, "n0")
        wait_for(f"{verb}: {state}", lambda: pool.slurm_node("n0")[0] == state)
    strategy("OnDelete")
    pool.procs["bridge"].send_signal(signal.SIGSTOP)  # it sees that the kubelets offer none, and is sometimes the first to drain them
    try:
        with devices(pool, [{"resource": none, "file": "/dev/tandem-fake/none"}], {none: "gpu"}):
            for n in pool.nodes:
                wait_for(f"Slurm drains {n}", lambda: pool.slurm_node(n)[2].startswith("gres/gpu count reported lower than configured"))
            pool.procs["bridge"].send_signal(signal.SIGCONT)
        wait_for("the old configuration is in force again", in_force)
        assert slurmd == {n: pool.get("pod", f"main-pool-{n}", "-n", "slurm")["metadata"]["uid"] for n in pool.nodes}
        assert {pool.slurm_node(n)[0] for n in pool.nodes} == {"drained"}  # Slurm does not look again
    finally:
        pool.procs["bridge"].send_signal(signal.SIGCONT)
        strategy("RollingUpdate")
    for n in pool.nodes:
        pool.ready(n)
