"""SlurmCluster and NodeSet: slurmds that are forgotten or die, conditions, who reaches slurmrestd (rows A2, A3)."""
import glob
import json
import os
import signal
import threading

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


def kill_slurmd(pool, node):
    """kill -9 of a slurmd container's init: every process in it dies, the agent starts it again in the same pod."""
    uid = pool.get("pod", f"main-pool-{node}", "-n", "slurm")["metadata"]["uid"].replace("-", "")
    (cid, init), = [(c, p) for c, p in containers(pool, "slurmd -D").items() if uid in c]
    os.kill(init, signal.SIGKILL)
    wait_for("slurmd runs again", lambda: [1 for c, p in containers(pool, "slurmd -D").items() if uid in c and p != init])


class Client(threading.Thread):
    """A command in the login pod that stays; `code` when it has ended."""

    def __init__(self, pool, *argv):
        super().__init__(daemon=True)
        self.pool, self.argv, self.code = pool, argv, None
        self.start()

    def run(self):
        self.code = self.pool.cmd("shell", "--", *self.argv, check=False, timeout=300).returncode


def native_jobs(pool, node):
    """One of each kind on the node, all running: (may be requeued, may not, srun's, its client)."""
    again = pool.sbatch("-w", node, "--requeue", "-J", "again")
    never = pool.sbatch("-w", node, "--no-requeue", "-J", "never")
    client = Client(pool, "srun", "-J", "cli", "--mem=100M", "-w", node, "sleep", "100000")
    cli = wait_for("srun's job", lambda: next((i for i, j in pool.squeue().items() if j["name"] == "cli"), 0))
    wait_for("all have processes", lambda: {f"{again}.batch", f"{never}.batch", f"{cli}.0"} <= set(pool.shell("squeue", "-h", "-s", "-w", node, "-o", "%i").split()))
    return again, never, cli, client


@pytest.mark.feature("A3")
def test_jobs_of_a_dead_slurmd_container_end_and_no_other(home):
    home.up("--nodes", "2")
    other = home.sbatch("-w", "n0")
    both = home.sbatch("-N2", "--requeue", script="#!/bin/sh\nsrun sleep 100000\n")
    again, never, cli, client = native_jobs(home, "n1")
    kill_slurmd(home, "n1")
    wait_for("what may be requeued is", lambda: all(home.squeue()[j]["state"] == "PENDING" for j in (again, both)), 15)
    assert home.job(again)["Restarts"] == "1"
    assert home.job(never)["JobState"] == "NODE_FAIL"
    assert home.job(cli)["JobState"] == "NODE_FAIL"
    wait_for("srun has ended", lambda: client.code is not None)
    assert client.code != 0
    assert home.squeue()[other]["state"] == "RUNNING"
    wait_for("the node is back", lambda: home.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").strip() == "idle")
    assert "slurmd died" not in home.shell("sinfo", "-h", "-R", "-o", "%E")
    home.shell("srun", "-w", "n1", "--mem=100M", "true")
    # A drained node keeps its reason: there the jobs end one by one.
    again, never, cli, client = native_jobs(home, "n1")
    home.shell("scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan")
    kill_slurmd(home, "n1")
    wait_for("requeued", lambda: home.squeue()[again]["state"] == "PENDING", 15)
    wait_for("srun has ended", lambda: client.code is not None)
    assert home.shell("sinfo", "-h", "-n", "n1", "-o", "%E").strip() == "bad fan"


@pytest.mark.feature("A3")
def test_pods_beside_a_dead_slurmd_container_go_on(home):
    home.up("--nodes", "2")
    home.apply(*[home.pod(f"p{i}", gpus=5) for i in range(2)])  # one on each node
    wait_for("both run", lambda: len(home.running()) == 2)
    pod = next(p for p in home.running() if p["spec"]["nodeName"] == "n1")
    job, _, gpus = home.grant(pod)
    again, never, cli, client = native_jobs(home, "n1")
    kill_slurmd(home, "n1")
    wait_for("requeued", lambda: home.squeue()[again]["state"] == "PENDING", 15)
    wait_for("srun has ended", lambda: client.code is not None and cli not in home.squeue())
    assert home.squeue()[job]["state"] == "RUNNING"
    now = home.get("pod", pod["metadata"]["name"])
    assert home.grant(now) == (job, "n1", gpus) and now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["status"]["containerStatuses"][0]["restartCount"] == 0 and now["status"]["phase"] == "Running"
    assert "slurmd died" not in home.shell("sinfo", "-h", "-R", "-o", "%E")
    # slurmctld itself ends the one that may not be requeued, when the node registers next.
    wait_for("no job is left without processes", lambda: home.job(never)["JobState"] == "NODE_FAIL", 300)
    assert home.squeue()[job]["state"] == "RUNNING"


@pytest.mark.feature("A2")
def test_only_the_bridge_and_the_operator_reach_slurmrestd(home):
    """A refused request of anybody can freeze slurmctld, so nobody else may even connect."""
    home.up("--nodes", "1")
    connect = "for p in 6820 1 65535; do exec 3<>/dev/tcp/$IP/$p && echo open $p; done 2>/dev/null; ss -tlnH 2>/dev/null; echo tried"
    try_from = {"default": ["kubectl", "exec", "other", "--"], "login": [home.tandem, "shell", "--"]}

    def rest():
        return next(p for p in home.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmrestd") if not p["metadata"].get("deletionTimestamp"))

    def tries():
        ip = rest()["status"]["podIP"]
        return {who: home.run(*argv, "env", f"IP={ip}", "bash", "-c", connect).stdout.split() for who, argv in try_from.items()}

    home.apply(home.pod("other", gpus=1))  # the bridge reaches it: a pod goes through the queue
    wait_for("other runs", lambda: home.phase("other") == "Running")
    assert all("open" not in t and "tried" in t for t in tries().values()), tries()
    assert home.run("kubectl", "-n", "slurm", "exec", rest()["metadata"]["name"], "--", "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.count(" 0A ") == 0, "nothing listens on its addresses"
    url = home.get("slurmcluster", "main", "-n", "slurm")["status"]["restUrl"]
    assert url.startswith("unix:") and os.stat(os.path.dirname(url[5:])).st_mode & 0o777 == 0o700
    assert not [s for s in home.items("services", "-n", "slurm") if s["metadata"]["name"] == "main-slurmrestd"]
    # No other pod can have that volume; the object says which way, and the other one works too.
    home.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"restApi":{"access":"network"}}}')
    wait_for("it listens on its address", lambda: all("open" in t for t in tries().values()))
    wait_for("the status says where", lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"]["restUrl"].startswith("http:"))
    home.apply(home.pod("second", gpus=1))
    wait_for("second runs", lambda: home.phase("second") == "Running")
    home.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"restApi":{"access":"socket"}}}')
    wait_for("and back", lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"]["restUrl"].startswith("unix:"))
    assert home.cmd("status").returncode == 0
