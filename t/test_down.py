"""A node that is down in Slurm, as Kubernetes sees it (row A5.3)."""
import json

import pytest

from harness import wait_for

TAINT = {"key": "tandem.dev/slurm-down", "effect": "NoSchedule"}


def taints(pool, node):
    return [{k: t.get(k) for k in ("key", "effect")} for t in pool.get("node", node).get("spec", {}).get("taints", [])]


def condition(pool, node):
    return next((c for c in pool.get("node", node)["status"]["conditions"] if c["type"] == "SlurmDown"), None)


@pytest.fixture
def gives_up(pool):
    """When Slurm gives a silent slurmd up: after these seconds, or as usual."""
    usual = pool.get("slurmcluster", "main", "-n", "slurm")["spec"].get("config", {}).get("slurmConf", {}).get("SlurmdTimeout")

    def after(seconds=usual, **kw):
        pool.change({"config": {"slurmConf": {"SlurmdTimeout": seconds}}}, **kw)
    yield after
    pool.clean()
    after()


@pytest.mark.embedded  # a real kubelet starts slurmd anew before Slurm gives it up
@pytest.mark.feature("A5.3")
def test_a_node_whose_slurmd_is_gone_is_tainted_until_it_is_back(pool, gives_up):
    """No pod goes there that Slurm does not place, but for those that the node needs to come back; a pod that Slurm places waits for it."""
    node = pool.nodes[-1]
    slurmd = lambda: next((p for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd") if p["spec"].get("nodeName") == node), None)
    gives_up("6")
    first = slurmd()["metadata"]
    # Killed, and the script that would start it again stands still. A slurmd that stands still itself is given up only when slurmctld's message has
    # timed out, which takes half a minute more.
    end = "s=$(pgrep -o -f '^slurmd -D') && read -r _ _ _ parent _ </proc/$s/stat && kill -STOP $parent && kill -KILL $s"
    pool.kubectl("exec", "-n", "slurm", first["name"], "-c", "slurmd", "--", "bash", "-c", end)
    wait_for("the taint", lambda: TAINT in taints(pool, node))
    said = wait_for("the condition", lambda: condition(pool, node))
    assert (said["status"], said["reason"]) == ("True", "DownInSlurm") and said["message"]
    wait_for("its state beside it", lambda: pool.annotation(node, "slurm-state") == "down" and slurmd()["metadata"]["labels"].get("tandem.dev/node-state") == "down")
    gives_up(idle=False)  # on a busy machine nodes that live are silent for so long, too: they, and this one when it is back
    wait_for("the others are up", lambda: not any(TAINT in taints(pool, n) for n in pool.nodes if n != node))

    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    pool.apply(pool.pod("plain", scheduler="default-scheduler", cpu="100m", **there), pool.pod("queued", **there))
    waits = lambda: json.dumps([c for c in pool.get("pod", "plain").get("status", {}).get("conditions", []) if c["type"] == "PodScheduled"])
    wait_for("it does not get there", lambda: "taint" in waits())
    wait_for("Slurm has its job, which waits", lambda: [j for j in pool.squeue().values() if j["name"].startswith("queued.") and j["state"] == "PENDING"])

    pool.kubectl("delete", "pod", "-n", "slurm", first["name"], "--grace-period=1", "--wait=false")
    wait_for("another slurmd starts there", lambda: (slurmd() or {"metadata": first})["metadata"]["uid"] != first["uid"])
    wait_for("no taint is left", lambda: not taints(pool, node))
    wait_for("and nothing else says it", lambda: pool.annotation(node, "slurm-state") is None and not condition(pool, node))
    wait_for("both pods run there", lambda: {p["metadata"]["name"] for p in pool.running() if p["spec"].get("nodeName") == node} == {"plain", "queued"})
