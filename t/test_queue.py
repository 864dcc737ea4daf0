"""Pods and native jobs in Slurm's one queue: backfill, reservations, whole nodes, expected starts (rows C3 A6 A18)."""
import os
import re
import signal

import pytest

from harness import wait_for

pytestmark = pytest.mark.planes
PREFIX = "slurm.tandem.dev/"


@pytest.fixture
def pool(own_pool):
    own_pool.clean()
    return own_pool


def saying(pod, **notes):
    pod["metadata"]["annotations"] = {PREFIX + k.replace("_", "-"): v for k, v in notes.items()}
    return pod


def job_of(pool, name):
    """The job of a pod, waiting or running."""
    return wait_for(f"{name} is in the queue", lambda: next((i for i, j in pool.squeue().items() if j["name"].startswith(f"{name}.")), None))


def runs(pool, *names):
    wait_for(f"{', '.join(names)} run", lambda: all(pool.phase(n) == "Running" for n in names))


def waits_through(pool, *jobs):
    """Slurm's backfill looked at the whole queue twice, and these jobs still wait."""
    def cycles():
        return int(re.search(r"Backfilling stats.*?Total cycles: (\d+)", pool.cmd("shell", "--user", "root", "--", "sdiag").stdout, re.S)[1])
    first = cycles()
    wait_for("two looks of backfill", lambda: cycles() >= first + 2)
    assert {j: pool.squeue()[j]["state"] for j in jobs} == {j: "PENDING" for j in jobs}


@pytest.mark.embedded  # Slurm's order, in which kubelets have no part
@pytest.mark.feature("C3.1", "A6.3")
def test_who_needs_more_than_is_free_stops_nobody_behind_him(pool):
    """Nothing that runs has an end, so the large ones have no start that a small one could delay."""
    pool.apply(*[pool.pod(f"hold{i}", gpus=5) for i in range(len(pool.nodes))])
    runs(pool, *[f"hold{i}" for i in range(len(pool.nodes))])
    native = pool.sbatch("-N1", "--gres=gpu:8")
    pool.apply(pool.pod("large", gpus=8))
    large = job_of(pool, "large")
    wait_for("both wait", lambda: [pool.squeue()[j]["state"] for j in (native, large)] == ["PENDING"] * 2)
    pool.apply(pool.pod("small", gpus=1))
    behind = pool.sbatch("-N1", "--gres=gpu:1")
    runs(pool, "small")
    wait_for("the native one runs too", lambda: pool.squeue()[behind]["state"] == "RUNNING")
    waits_through(pool, native, large)


@pytest.mark.nightly_real
@pytest.mark.feature("C3.2", "A18.3")
def test_a_pod_is_backfilled_when_it_ends_before_the_next_job_starts(pool):
    """A job that wants all nodes starts when the one before it ends. Until then a pod may use the node that is free, but only for so long."""
    nodes = len(pool.nodes)
    first = pool.sbatch(f"-N{nodes - 1}", "--exclusive", "--time=60")
    wait_for("the first runs", lambda: pool.squeue()[first]["state"] == "RUNNING")
    whole = pool.sbatch(f"-N{nodes}", "--exclusive", "--time=60")
    wait_for("Slurm knows when the second starts", lambda: pool.job(whole)["StartTime"] == pool.job(first)["EndTime"])
    pool.apply(saying(pool.pod("long", gpus=1), time_limit="10:00:00"))
    long = job_of(pool, "long")
    pool.apply(saying(pool.pod("short", gpus=1), time_limit="30"))
    runs(pool, "short")
    waits_through(pool, whole, long)
    end = pool.job(first)["EndTime"]
    wait_for("why says when it starts", lambda: "expects to start it at" in pool.cmd("why", "long").stdout)
    wait_for("and the second still starts as soon as the first ends", lambda: pool.job(whole)["StartTime"] == end)


@pytest.mark.embedded  # Slurm's order, in which kubelets have no part
@pytest.mark.feature("C3.2", "A18.3")
def test_a_native_job_is_backfilled_before_a_pod_that_waits(pool):
    """The same the other way round. The start that `why` tells is Slurm's, to the minute."""
    pool.apply(*[saying(pool.pod(f"hold{i}", gpus=5), time_limit="60") for i in range(len(pool.nodes))])
    runs(pool, *[f"hold{i}" for i in range(len(pool.nodes))])
    pool.apply(saying(pool.pod("large", gpus=8), time_limit="60"))
    large = job_of(pool, "large")
    wait_for("Slurm knows when it starts", lambda: pool.job(large)["StartTime"] != "Unknown")
    short = pool.sbatch("-N1", "--gres=gpu:1", "--time=10")
    wait_for("the short one runs", lambda: pool.squeue()[short]["state"] == "RUNNING")

    def told():
        """`why` and the pod's condition say the start of scontrol, rounded up to a minute, in UTC."""
        start = pool.shell("date", "-u", "-d", f"@{int(pool.shell('date', '-d', pool.job(large)['StartTime'], '+%s')) + 59}", "+%Y-%m-%dT%H:%M:00Z").strip()
        c = next((c for c in pool.get("pod", "large")["status"].get("conditions", []) if c["type"] == "PodScheduled"), {})
        return start in pool.cmd("why", "large").stdout and start in c.get("message", "")
    wait_for("it is told", told)
    waits_through(pool, large)


@pytest.mark.nightly_real
@pytest.mark.feature("C3.3")
def test_reservations_hold_for_pods_as_for_jobs(pool):
    """Nodes that are reserved are for those who name the reservation and may use it."""
    pool.shell("scontrol", "create", "reservation", "reservationname=course", "users=pods", "nodes=ALL", "starttime=now", "duration=60")
    try:
        pool.apply(pool.pod("outside"))
        native = pool.sbatch("-N1")
        outside = job_of(pool, "outside")
        pool.apply(saying(pool.pod("inside", gpus=1), reservation="course"))
        runs(pool, "inside")
        waits_through(pool, outside, native)
    finally:
        pool.kubectl("delete", "pod", "inside", "--wait=true")
        # Its job may end a moment after it, and Slurm removes no reservation that is used.
        wait_for("the reservation is gone", lambda: pool.shell("scontrol", "delete", "reservationname=course") is not None)
    runs(pool, "outside")


@pytest.mark.embedded  # Slurm's order, in which kubelets have no part
@pytest.mark.feature("C3.3")
def test_a_pod_that_would_run_into_a_reservation_waits_for_its_end(pool):
    pool.shell("scontrol", "create", "reservation", "reservationname=service", "users=root", "nodes=ALL", "starttime=now+60minutes", "duration=60", "flags=maint")
    try:
        pool.apply(saying(pool.pod("long"), time_limit="2:00:00"))
        long = job_of(pool, "long")
        pool.apply(saying(pool.pod("short"), time_limit="20"))
        runs(pool, "short")
        waits_through(pool, long)
    finally:
        pool.shell("scontrol", "delete", "reservationname=service")
    runs(pool, "long")


@pytest.mark.nightly_real
@pytest.mark.feature("C3.4")
def test_a_pod_has_a_node_for_itself(pool):
    pool.apply(saying(pool.pod("alone"), exclusive="true"))
    runs(pool, "alone")
    its = pool.get("pod", "alone")["spec"]["nodeName"]
    pool.apply(pool.pod("beside", nodeSelector={"kubernetes.io/hostname": its}))
    native = pool.sbatch(f"--nodelist={its}")
    beside = job_of(pool, "beside")
    waits_through(pool, beside, native)
    pool.kubectl("delete", "pod", "alone", "--wait=false")
    runs(pool, "beside")
    wait_for("the native one runs too", lambda: pool.squeue()[native]["state"] == "RUNNING")


@pytest.mark.embedded  # its roles
@pytest.mark.feature("A6.2", "A12.2")
@pytest.mark.parametrize("gang", [False, True])
def test_who_copies_a_pods_comment_gets_neither_its_place_nor_it(pool, gang):
    """Anybody may read a job's comment and give it to a job of his own, which runs while the pod waits: a bridge that has just begun to lead is not taken in."""
    pool.apply(*[pool.pod(f"hold{i}", gpus=8) for i in range(len(pool.nodes))])
    runs(pool, *[f"hold{i}" for i in range(len(pool.nodes))])
    pods = [pool.pod(f"mine{i}", gpus=8) for i in range(2 if gang else 1)]
    for p in pods if gang else []:
        p["metadata"].update(labels={"tandem.dev/gang": "mine"}, annotations={"tandem.dev/gang-size": "2"})
    pool.apply(*pods)
    job = job_of(pool, "mine" if gang else "mine0")
    comment = lambda j: pool.shell("squeue", "-h", "-j", str(j), "-o", "%k").strip()  # noqa: E731
    assert comment(job).startswith("tandem/") and pool.squeue()[job]["user"] != "root"
    copies = [pool.sbatch(f"--comment={comment(job)}"), pool.sbatch(f"--comment={comment(job).replace('/default/', '/nobodys/')}")]
    wait_for("they run", lambda: all(pool.squeue()[c]["state"] == "RUNNING" for c in copies))
    pool.kill_role("bridge")
    wait_for("the next one leads", lambda: f"job {job}" in pool.cmd("why", "mine0", check=False).stdout)
    pool.kubectl("delete", "pods", *[f"hold{i}" for i in range(len(pool.nodes))], "--wait=false")
    runs(pool, *[p["metadata"]["name"] for p in pods])
    assert {pool.grant(pool.get("pod", p["metadata"]["name"]))[0] for p in pods} == {job}


@pytest.mark.embedded  # its roles
@pytest.mark.feature("A6.2", "A12.2")
def test_pods_that_went_while_the_bridge_was_away_cost_one_list_together(pool):
    """Each of their jobs asks whether its pod is gone; one list of pods answers all of them."""
    names = [f"gone{i}" for i in range(24)]
    pool.apply(*[pool.pod(n, cpu="100m") for n in names])
    runs(pool, *names)
    jobs = {pool.grant(pool.get("pod", n))[0] for n in names}
    bridge = pool.role_pid("bridge")
    os.kill(bridge, signal.SIGSTOP)
    pool.kubectl("delete", "pods", *names, "--force", "--grace-period=0")
    assert jobs <= set(pool.squeue())
    pool.kill_role("bridge")
    wait_for("their jobs end", lambda: not jobs & {j for j, of in pool.squeue().items() if of["state"] == "RUNNING"})
    assert 0 < pool.counted("bridge", "tandem_kube_requests_total", verb="list", resource="pods") < len(names) / 2


@pytest.mark.nightly_real
@pytest.mark.feature("C3.7")
def test_jobs_go_where_their_partition_puts_them(pool):
    """With pack a node is filled before the next one is used; with spread each goes to the node with the least load."""
    pool.change({"partitions": [{"name": "all", "default": True}, {"name": "full", "placement": "pack"}, {"name": "even", "placement": "spread"}]})
    try:
        n = len(pool.nodes)
        for partition, on in (("full", 1), ("even", n)):
            jobs = [pool.sbatch("-p", partition, "--gpus=1") for _ in range(n)]
            wait_for("they run", lambda: [pool.squeue()[j]["state"] for j in jobs] == ["RUNNING"] * n)
            assert len({pool.job(j)["NodeList"] for j in jobs}) == on, partition
            pool.shell("scancel", *map(str, jobs))
            wait_for("what they had is free again", lambda: not set(jobs) & set(pool.squeue()))  # jobs that complete still hold it
    finally:
        pool.clean()
        pool.change({"partitions": None})
