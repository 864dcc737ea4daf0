"""Adapters of the network as GRES for pods on a real kubelet (docs/network.md): exactly what Slurm granted reaches the container, by the agent's device plug-in and CDI."""
import json
import os
import subprocess
import types

import pytest

import hardware
from devices import job_on
from harness import wait_for
from realpool import RealPool, lend

pytestmark = [pytest.mark.feature("A10.3"), pytest.mark.hand]
NIC = "tandem.dev/nic"


class NicPool(RealPool):
    """Its agents read the adapters of a tree of sysfs; the device files are fake ones, in a /dev/infiniband of each node."""

    def argv(self, role):
        argv = super().argv(role)
        if role.startswith("agent-"):
            node = role.partition("-")[2]
            if not os.path.exists(f"{self.home}/hardware/{node}"):
                hardware.rails(types.SimpleNamespace(home=self.home), node)
                files = "".join(f"mknod -m 666 /dev/infiniband/{f} c {self.cluster.major} {900 + i};" for i, f in enumerate(
                    ["uverbs0", "umad4", "issm4", "uverbs1", "umad5", "issm5"]))
                self.in_node(node, f"mkdir -p /dev/infiniband; mount -t tmpfs ib /dev/infiniband; {files}")
            argv += ["--kubelet-dir=/var/lib/kubelet", "--cdi=/run/cdi", f"--hardware={self.home}/hardware/{node}"]
        return argv

    def in_node(self, node, script):
        return subprocess.run([*map(str, self.cluster.inside(node)), "sh", "-ec", script], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout

    def manifests(self):
        text = super().manifests()
        assert "  scheduler:\n" in text
        text = text.replace("  scheduler:\n", '  fabric: {planes: {gpu: {interfaces: ["ib*"]}}, nics: {grant: true}}\n  scheduler:\n', 1)
        return text.rstrip() + """
  template:
    spec:
      volumes:
      - {name: ib, hostPath: {path: /dev/infiniband}}
      containers:
      - name: slurmd
        securityContext: {privileged: true, allowPrivilegeEscalation: true}
        volumeMounts: [{name: ib, mountPath: /dev/infiniband}]
"""


@pytest.fixture(scope="module")
def pool(request, tandem, build):
    made = os.path.exists("/dev/infiniband")
    yield from lend(request, NicPool(tandem, build, nodes=1))
    if not made:
        os.rmdir("/dev/infiniband")


def pod(pool, name, n, **kw):
    p = pool.pod(name, 0, **kw)
    for what in ("requests", "limits"):
        p["spec"]["containers"][0]["resources"].setdefault(what, {})[NIC] = str(n)
    return p


def files(pool, name):
    return sorted(f for f in pool.kubectl("exec", name, "--", "sh", "-c", "ls /dev/infiniband 2>/dev/null || true").split())


def state(pool, name):
    return pool.get("pod", name)["status"].get("phase")


def test_a_pod_opens_the_adapters_that_slurm_gave_it(pool):
    wait_for("Slurm has the node's adapters", lambda: pool.shell("sinfo", "-N", "-h", "-o", "%N %G").split() == ["n0", "gpu:8,nic:2"], 120)
    wait_for("its kubelet knows the resource", lambda: pool.get("node", "n0")["status"]["allocatable"].get(NIC) == "64", 60)

    # Who did not go through Slurm's queue gets none, whoever asks the kubelet for one.
    by_hand = pod(pool, "by-hand", 1)
    by_hand["spec"].update(schedulerName="default-scheduler", nodeName="n0")
    by_hand["metadata"].get("labels", {}).pop("tandem.dev/queue", None)
    pool.apply(by_hand)
    wait_for("the kubelet's words say why", lambda: any("Slurm gave pod by-hand no adapter" in e.get("message", "") for e in pool.items("events", "-n", "default")), 60)
    assert state(pool, "by-hand") == "Pending"

    # A native job has one; the pod gets the other one, whatever place the kubelet chose.
    job = job_on(pool, "n0", "--gres=nic:1")
    pool.apply(pod(pool, "one", 1))
    wait_for("the pod runs", lambda: state(pool, "one") == "Running", 90)
    notes = pool.get("pod", "one")["metadata"]["annotations"]
    assert (notes["tandem.dev/nics-granted"], json.loads(notes["tandem.dev/devices"])) == ("mlx5_1", {NIC: "1"})
    assert files(pool, "one") == ["issm5", "umad5", "uverbs1"]
    opens = "for i in 0 1; do [ ! -e /dev/infiniband/uverbs$i ] || (: </dev/infiniband/uverbs$i) 2>&1 | grep -q permitted || echo $i; done"
    assert pool.kubectl("exec", "one", "--", "sh", "-c", opens).split() == ["1"]
    pool.shell("scancel", str(job))

    # The next one waits for a pod that ends, although Slurm has taken the adapter from it.
    slow = pod(pool, "slow", 1)
    slow["spec"].update(terminationGracePeriodSeconds=20)
    slow["spec"]["containers"][0]["command"] = ["sh", "-c", "trap '' TERM; while :; do sleep 0.2; done"]
    pool.apply(slow)
    wait_for("slow runs", lambda: state(pool, "slow") == "Running", 90)
    assert files(pool, "slow") == ["issm4", "umad4", "uverbs0"]
    pool.kubectl("delete", "pod", "by-hand", "--force", "--grace-period=0")
    pool.kubectl("delete", "pod", "slow", "--wait=false")
    pool.apply(pod(pool, "next", 1))
    wait_for("the next one runs", lambda: state(pool, "next") == "Running", 120)
    assert files(pool, "next") == ["issm4", "umad4", "uverbs0"]
    assert not [p for p in pool.items("pods", "-n", "default") if p["metadata"]["name"] == "slow"]
    pool.kill_role("agent-n0")
    pool.kubectl("delete", "pod", "one", "next", "--wait=true")
    pool.apply(pod(pool, "both", 2))
    wait_for("after a new agent a pod has both", lambda: state(pool, "both") == "Running", 120)
    assert files(pool, "both") == ["issm4", "issm5", "umad4", "umad5", "uverbs0", "uverbs1"]
