"""Policies: pods and native jobs start in the order that the cluster's policy says, by steering Slurm (rows C7, C2)."""
import contextlib
import json
import os
import pathlib
import subprocess

import pytest

from harness import wait_for

pytestmark = [pytest.mark.planes, pytest.mark.embedded]  # not tried beside a kubelet yet
FIRST = 1 << 29  # whose priority is above is in a policy's place
ROOT = pathlib.Path(__file__).resolve().parent.parent
SBATCH = ("sbatch", "--parsable", "--mem=50M", "-D", "/", "-o", "/dev/null", "-w", "n0", "--gres=gpu:8")
SLEEP = "#!/bin/sh\nexec sleep 100000\n"


def change(pool, policies):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"scheduler": {"policies": policies}}}))


@contextlib.contextmanager
def policy(pool, **spec):
    """The pool has this policy, and no trace of it afterwards."""
    change(pool, [{"name": "tried", **spec}])
    try:
        yield
    finally:
        change(pool, None)
        wait_for("nobody is in a policy's place", lambda: not any(p >= FIRST for p in priorities(pool).values()))


def priorities(pool):
    """Of the jobs that wait."""
    return {int(j): int(p) for j, p in (line.split() for line in pool.shell("squeue", "-h", "-t", "pending", "-o", "%A %Q").splitlines())}


def order(pool):
    """As Slurm starts them, without those that are held."""
    return [j for j, p in sorted(priorities(pool).items(), key=lambda x: (-x[1], x[0])) if p]


def sbatch(pool, *argv):
    """All GPUs of node n0."""
    return int(pool.shell(*SBATCH, *argv, input=SLEEP))


@pytest.mark.feature("C7.1", "C7.2", "C7.4", "C7.5")
def test_pods_and_native_jobs_take_turns(pool):
    """Accounts take turns on one node, whoever came first, and whether it is a pod or a native job."""
    running = sbatch(pool)
    wait_for("the node is full", lambda: pool.squeue()[running]["state"] == "RUNNING")
    big = [sbatch(pool) for _ in range(3)]
    pods = [pool.pod(f"turn{i}", gpus=8, nodeSelector={"kubernetes.io/hostname": "n0"}) for i in range(2)]
    for p in pods:
        pool.apply(p)  # their user and account are others
        wait_for("it waits", lambda: "It waits in Slurm's queue" in pool.cmd("why", p["metadata"]["name"]).stdout)
    small = [j for j in sorted(pool.squeue()) if j not in (running, *big)]
    assert len(small) == 2, pool.squeue()

    with policy(pool, order="hierarchicalFifo", queueBy="account", partitions=["all"]):
        wait_for("Slurm has that order", lambda: order(pool) == [small[0], big[0], small[1], big[1], big[2]])
        wait_for("it is said, of a pod", lambda: "Policy tried (hierarchicalFifo by account) orders it: place 3 of 5." in pool.cmd("why", "turn1").stdout)
        assert "Policy tried (hierarchicalFifo by account) orders it: place 4 of 5." in pool.cmd("why", str(big[1])).stdout

        both = [sbatch(pool, "-w", "n1", "--gres=gpu:1") for _ in range(2)]  # root has still more now, and keeps it
        wait_for("they run", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in both))
        wait_for("it counts", lambda: order(pool) == [*small, *big])
        for expected in (*small, big[0]):
            pool.shell("scancel", str(running))
            now = wait_for("somebody is next", lambda: [j for j, x in pool.squeue().items() if x["state"] == "RUNNING" and j not in (running, *both)])
            assert now == [expected]
            running = expected
            if expected in small:
                pod = f"turn{small.index(expected)}"
                wait_for("the pod is bound", lambda: pool.get("pod", pod)["spec"].get("nodeName") == "n0")


@pytest.mark.feature("C7.2", "C2.1", "C7.5")
def test_what_is_others_stays_and_nothing_is_left(pool):
    """Held jobs, nice and a fixed priority stay; an order that is right is not written again; a bridge that died leaves nothing behind."""
    running = sbatch(pool)
    wait_for("the node is full", lambda: pool.squeue()[running]["state"] == "RUNNING")
    first, second, third, held, nice, fixed = (sbatch(pool, *a) for a in ([], [], [], ["-H"], ["--nice=50"], []))
    his = int(pool.as_user("researcher", *SBATCH, "-c", "2", input=SLEEP).stdout)
    pool.shell("scontrol", "update", f"jobid={fixed}", "priority=777")
    with policy(pool, order="lifo"):
        wait_for("the newest is first", lambda: order(pool) == [his, third, second, first, fixed, nice])
        now = priorities(pool)
        assert now[held] == 0 and now[fixed] == 777 and now[nice] < FIRST
        moves, passes = (pool.bridge_metric(f"tandem_bridge_policy_{k}_total") for k in ("moves", "passes"))
        wait_for("it looked again", lambda: pool.bridge_metric("tandem_bridge_policy_passes_total") >= passes + 2)
        assert pool.bridge_metric("tandem_bridge_policy_moves_total") == moves and priorities(pool) == now
        pool.shell("scontrol", "release", str(held))
        wait_for("released, it has its place", lambda: order(pool) == [his, held, third, second, first, fixed, nice])

        change(pool, [{"name": "tried", "order": "drf", "queueBy": "user"}])  # root has a whole node of GPUs already
        wait_for("who has little is first", lambda: order(pool) == [his, first, second, third, held, fixed, nice])
        before = pool.role_pid("bridge")
        pool.kill_role("bridge")
        change(pool, None)
        wait_for("another bridge is there", lambda: pool.role_pid("bridge") not in (0, before))
        wait_for("all have their own priority", lambda: order(pool) == [fixed, first, second, third, held, nice, his] and max(priorities(pool).values()) == 777)


@pytest.mark.feature("C3.9")
def test_gpus_that_are_free_where_too_few_are_free_are_counted(pool):
    """For a request of a whole node, and for the largest one that waits."""
    def lost(what):
        return pool.counted("bridge", "tandem_pool_fragmented_devices", **{"partition": "all", "device": "gpu", "for": what})
    wait_for("no node is in part in use", lambda: lost("node") == 0)
    jobs = [pool.sbatch("-w", n, "--gres=gpu:3") for n in pool.nodes]
    wait_for("no request of a whole node can have the rest", lambda: lost("node") == 5 * len(pool.nodes))
    assert lost("largest") == 0, "nobody waits"
    pool.apply(pool.pod("waits", gpus=6))
    wait_for("somebody waits for more than one node has free", lambda: lost("largest") == 5 * len(pool.nodes))
    pool.shell("scancel", jobs[0])
    wait_for("it runs where there is enough now", lambda: pool.phase("waits") == "Running")
    wait_for("the rest of its node is lost to others", lambda: lost("node") == 5 * (len(pool.nodes) - 1) + 2)


BAD = """#include <tandem/policy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
const uint32_t tandem_policy_version = TANDEM_POLICY_VERSION;
int tandem_policy_order(const struct tandem_policy_input *in, size_t *order)
{
    puts("ok 0 0 0");
    if (!strcmp(in->arguments, "die")) raise(SIGSEGV);
    if (!strcmp(in->arguments, "hang")) for (;;) pause();
    if (!strcmp(in->arguments, "leave")) _exit(0);
    if (!strcmp(in->arguments, "rights")) return !(getuid() == 0 || access("/etc/shadow", R_OK) == 0 || fork() >= 0 || fopen("/tmp/policy-was-here", "w") || fopen("/etc/passwd", "r"));
    for (size_t i = 0; i < in->n_waiting; i++) order[i] = 0; /* nonsense */
    return 0;
}
"""


@pytest.fixture
def plugins(pool, tmp_path):
    """shortest.so, built from the example outside the tree, and bad.so, in the pool's directory of policies."""
    into = pathlib.Path(pool.home) / "policies"
    into.mkdir()
    (tmp_path / "shortest.c").write_text((ROOT / "deploy/examples/policy-shortest.c").read_text())
    (tmp_path / "bad.c").write_text(BAD)
    for name in ("shortest", "bad"):
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-I", ROOT / "src/bridge/policy", "-o", into / f"{name}.so", tmp_path / f"{name}.c"], check=True)
        os.chmod(into / f"{name}.so", 0o755)
    yield into
    for f in into.iterdir():
        f.unlink()
    into.rmdir()


@pytest.mark.feature("C7.3")
def test_a_policy_of_the_sites_own_breaks_nothing(pool, plugins):
    """It orders jobs; one that dies, hangs, answers nonsense, leaves or may be written by others does not count, and the cluster says so."""
    running = sbatch(pool)
    wait_for("the node is full", lambda: pool.squeue()[running]["state"] == "RUNNING")
    long, short, longest = sbatch(pool, "-t", "60"), sbatch(pool, "-t", "10"), sbatch(pool)

    def says(**plugin):
        change(pool, [{"name": "own", "order": "plugin", "plugin": plugin}])

    def condition():
        return next((c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == "PoliciesReady"), {"status": None, "message": ""})
    try:
        says(name="shortest.so")
        wait_for("the shortest is first", lambda: order(pool) == [short, long, longest] and priorities(pool)[short] >= FIRST)
        wait_for("the cluster says so", lambda: condition()["status"] == "True")
        bridge = pool.role_pid("bridge")
        for arguments, problem in (("die", "it died of signal 11"), ("nonsense", "its answer is no order"), ("leave", "it gave no answer"), ("hang", "it gave no answer within 5 s, and was ended"), ("rights", "it says that it does not know")):
            says(name="bad.so", arguments=arguments)
            wait_for(f"the cluster says: {problem}", lambda: condition()["status"] == "False" and problem in condition()["message"])
            wait_for("Slurm's own order", lambda: order(pool) == [long, short, longest] and max(priorities(pool).values()) < FIRST)
        os.chmod(plugins / "shortest.so", 0o777)
        says(name="shortest.so")
        wait_for("it is not loaded", lambda: "nobody else may write it" in condition()["message"])
        assert pool.role_pid("bridge") == bridge
        events = [e for e in pool.items("events", "-n", "slurm") if e["reason"] == "PolicyFailed"]
        assert any("it died of signal 11" in e["message"] for e in events)
    finally:
        change(pool, None)
        wait_for("nobody is in a policy's place", lambda: not any(p >= FIRST for p in priorities(pool).values()))
        wait_for("nothing is said of policies", lambda: condition()["status"] is None)
