"""SlurmCluster and NodeSet: slurmds that are forgotten or die, conditions, who reaches slurmrestd (rows A2, A3)."""
import glob
import json
import os
import signal

import pytest

from harness import wait_for
from observer import Container


def containers(pool, word):
    """{container id: pid of its init} of the containers whose command has `word`."""
    found = {}
    for cid in os.listdir(f"{pool.run_dir}/runc"):
        try:
            if word in Container(pool.home, cid).args:
                found[cid] = json.load(open(f"{pool.run_dir}/runc/{cid}/state.json"))["init_process_pid"]
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # it comes or goes just now
    return found


def slurm_nodes(pool):
    return set(pool.shell("sinfo", "-h", "-N", "-o", "%N").split())


def node_status(pool, node, nodeset="pool"):
    return next((n for n in pool.get("nodeset", nodeset, "-n", "slurm")["status"].get("nodes", []) if n["name"] == node), {})


def condition(obj, kind):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def forget_nodes(pool):
    """slurmctld dies before it has saved its nodes: what a kill in the first seconds of a cluster does."""
    (cid, init), = containers(pool, "slurmctld -D").items()
    # Frozen first, so that it cannot save them again before it dies.
    inside = [int(p) for f in glob.glob(f"/sys/fs/cgroup/*/tandem-{pool.id}/{cid}/cgroup.procs") + glob.glob(f"/sys/fs/cgroup/tandem-{pool.id}/{cid}/cgroup.procs") for p in open(f)]
    for pid in set(inside):
        os.kill(pid, signal.SIGSTOP)
    for f in glob.glob(f"{pool.home}/nodes/n0/root/var/lib/slurm-main/node_state*"):
        os.unlink(f)
    os.kill(init, signal.SIGKILL)
    wait_for("slurmctld is another one", lambda: containers(pool, "slurmctld -D").get(cid, init) != init or cid not in containers(pool, "slurmctld -D"))


@pytest.mark.feature("A3")
def test_nodes_that_a_killed_slurmctld_forgot_come_back(home):
    home.up("--nodes", "2")
    home.apply(home.pod("beside", scheduler="default-scheduler", cpu="100m"))
    wait_for("beside runs", lambda: home.phase("beside") == "Running")
    beside = home.get("pod", "beside")["status"]["containerStatuses"][0]
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in home.items("pods", "-n", "slurm")}
    forget_nodes(home)
    wait_for("Slurm answers and knows no node", lambda: home.cmd("shell", "--", "sinfo", "-h", "-N", check=False).stdout.strip() == "")
    wait_for("both nodes are back", lambda: home.idle_nodes() == 2, 60)
    wait_for("the status says so", lambda: home.get("nodeset", "pool", "-n", "slurm")["status"]["idle"] == 2)
    assert "Slurm forgot the node" in " ".join(e["message"] for e in home.items("events", "-n", "slurm"))
    after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in home.items("pods", "-n", "slurm")}
    assert {n for n in before if after.get(n) != before[n]} == {"main-pool-n0", "main-pool-n1"}, "only the slurmd pods are replaced"
    assert home.get("pod", "beside")["status"]["containerStatuses"][0] == beside, "what runs beside slurmd goes on"
    assert home.shell("srun", "-N2", "--mem=100M", "hostname").split()
