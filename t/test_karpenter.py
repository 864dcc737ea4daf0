"""A real autoscaler of machines (row A4): Karpenter, whose provider "kwok" makes Nodes without machines. For each the test starts a real kubelet of that
name, as a cloud starts a machine.

The program is the asset karpenter (tools/kube-assets karpenter)."""
import json
import subprocess
import time

import pytest

import realpool
import workloads
from apidev import free_port
from harness import KEEP, wait_for

pytestmark = pytest.mark.hand
NS = ("-n", "slurm")
SET = ("nodeset", "pool", *NS)
TYPE = {"name": "machine", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "16", "memory": "20Gi", "ephemeral-storage": "20Gi", "pods": "110"},
        "offerings": [{"Price": 1, "Available": True, "Requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                                                                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}


class Site(realpool.RealPool):
    """One node that is always there, and machines without a kubelet till somebody makes their Node."""
    devices = ""

    def __init__(self, tandem, build):
        super().__init__(tandem, build, nodes=1, restart=True)
        c = self.cluster
        self.cluster = realpool.cluster.Cluster(home=c.dir, assets=c.assets, nodes=3, late=2)
        self.called = {}

    def start_devices(self):
        pass

    def argv(self, role):
        words = super().argv(role)
        machine = role.partition("-")[2]
        return [f"--node={self.called[machine]}" if w == f"--node={machine}" and machine in self.called else w for w in words]

    def machine(self, name):
        """A machine takes the Node of that name."""
        i = next(i for i in (1, 2) if f"n{i}" not in self.called)
        self.called[f"n{i}"] = name
        self.cluster.start_node(i, called=name)
        wait_for("its kubelet is there", lambda: name in self.cluster.ready_nodes(), 120)
        self.start(f"agent-n{i}")

    def take(self, name):
        """The cloud takes a machine away."""
        machine = next(m for m, n in self.called.items() if n == name)
        self.procs.pop(f"agent-{machine}").kill()
        self.cluster.kill(machine)


@pytest.fixture(scope="module")
def site(request, tandem, build, tmp_path_factory):
    program = workloads.program("karpenter")
    for pool in realpool.lend(request, Site(tandem, build)):
        at = tmp_path_factory.mktemp("karpenter")
        pool.kubectl("apply", "--server-side", "-f", f"{program}.d/manifests")
        pool.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=90s")
        (at / "types.json").write_text(json.dumps([TYPE]))
        env = {**KEEP, "KUBECONFIG": pool.env["KUBECONFIG"], "DISABLE_LEADER_ELECTION": "true", "SYSTEM_NAMESPACE": "default", "INSTANCE_TYPES_FILE_PATH": str(at / "types.json"),
               "METRICS_PORT": str(free_port()), "HEALTH_PROBE_PORT": str(free_port()), "BATCH_IDLE_DURATION": "1s", "LOG_LEVEL": "debug"}
        with open(f"{pool.home}/log/karpenter.log", "w") as log:
            process = subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield pool
        finally:
            process.kill()
            process.wait(30)


def machines(pool):
    return {c["metadata"]["name"]: c for c in pool.items("nodeclaims")}


def made(pool, but=()):
    """Waits until Karpenter has made one more machine, and its Node; gives the NodeClaim and the Node by their names."""
    def look():
        for name, c in machines(pool).items():
            node = (c.get("status") or {}).get("providerID", "").removeprefix("kwok://")
            if name not in but and node in [n["metadata"]["name"] for n in pool.items("nodes")]:
                return name, node
        return None
    return wait_for("Karpenter has made a machine", look, 180)


def complete(pool, claim):
    return any(c["type"] == "Initialized" and c["status"] == "True" for c in machines(pool)[claim]["status"]["conditions"])


def stays(pool, node, seconds=20):
    """Karpenter looks every few seconds whether a node could go. Gives what it said of it."""
    time.sleep(seconds)
    assert not any(t["key"].startswith("karpenter.sh/") for t in pool.get("node", node)["spec"].get("taints", []))
    return sorted({f"{e['reason']}: {e['message']}" for e in pool.items("events", "-A") if e["reason"] in ("DisruptionBlocked", "Unconsolidatable")})


@pytest.mark.feature("A4.5", "A4.8")
def test_karpenter_makes_machines_for_jobs_and_takes_them_after(site):
    """From no machine: a job waits, a machine comes, and goes when it was idle. One that is to stay is not taken, though it is idle; and when somebody takes it
    nevertheless, its job ends by itself before."""
    pool, begun = site, time.monotonic()

    def seen(what):
        print(f"{time.monotonic() - begun:6.1f} s  {what}", flush=True)
    grows = lambda least: pool.kubectl("patch", *SET, "--type", "merge", "-p", json.dumps({"spec": {  # noqa: E731
        "nodeSelector": {"pool": "cloud", "tandem.dev/fake-gpus": None}, "autoscale": {"min": least, "max": 2, "idleTime": "5s", "node": {"cpus": 12, "memory": "2Gi"}}}}))
    grows(0)
    pool.apply({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
               {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "cloud"}, "spec": {
                   "template": {"metadata": {"labels": {"pool": "cloud"}}, "spec": {
                       "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                       "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "expireAfter": "Never"}},
                   "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]}}})
    names = lambda: pool.shell("sinfo", "-h", "-N", "-o", "%N").split()  # noqa: E731
    submit = lambda *a: pool.shell("sbatch", "--parsable", "--mem=100M", "-c", "10", *a, "--wrap", "until [ -e /tmp/go ]; do sleep 0.2; done").strip()  # noqa: E731
    where = lambda ident: pool.shell("squeue", "-h", "-j", ident, "-t", "R", "-o", "%N").strip()  # noqa: E731
    there = lambda: [n["metadata"]["name"] for n in pool.items("nodes")]  # noqa: E731
    wait_for("no machine is there, and two may be made", lambda: sorted(names()) == ["pool-to-come-1", "pool-to-come-2"], 180)
    seen("Slurm knows two machines that may be made, and no node")
    job = submit()
    claim, node = made(pool)
    seen("Karpenter has made a NodeClaim and its Node")
    print(pool.cmd("why", job).stdout.strip())
    pool.machine(node)
    seen("the kubelet is there")
    wait_for("the job runs", lambda: where(job) == node, 300)
    seen("the job runs")
    wait_for("Karpenter takes it for complete", lambda: complete(pool, claim))
    print("\n".join(stays(pool, node)))
    assert where(job) == node
    pool.shell("scancel", job)
    seen("the job has ended")
    wait_for("its slurmd is gone", lambda: pool.items("pods", *NS, "-l", "app.kubernetes.io/name=slurmd") == [], 120)
    seen("its slurmd is gone")
    wait_for("Karpenter takes the machine away", lambda: machines(pool) == {} and node not in there(), 180)
    seen("Karpenter has taken the machine away")
    pool.take(node)
    assert sorted(names()) == ["pool-to-come-1", "pool-to-come-2"]

    grows(1)
    claim, node = made(pool)
    pool.machine(node)
    wait_for("it is Slurm's", lambda: node in names(), 300)
    wait_for("Karpenter takes it for complete", lambda: complete(pool, claim))
    seen("one that is to stay is there, idle")
    print("\n".join(stays(pool, node, 40)))
    job = submit()
    wait_for("the job runs", lambda: where(job) == node, 120)
    pool.kubectl("delete", "nodeclaim", claim, "--wait=false")
    wait_for("Karpenter begins to empty it", lambda: any(t["key"] == "karpenter.sh/disrupted" for t in pool.get("node", node)["spec"].get("taints", [])))
    seen("somebody deletes its NodeClaim while a job runs")
    wait_for("Slurm gives it to nobody any more", lambda: "DRAIN" in pool.shell("scontrol", "show", "node", node))
    other, _ = made(pool, but=(claim,))
    seen(f"another is asked for and made: {other}")
    assert where(job) == node and claim in machines(pool)
    time.sleep(20)
    assert where(job) == node
    pool.shell("scancel", job)
    seen("the job has ended")
    wait_for("the machine goes", lambda: claim not in machines(pool) and node not in there(), 180)
    seen("Karpenter has taken the machine away")
    pool.take(node)
