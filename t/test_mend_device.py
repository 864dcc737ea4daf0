"""One sick device of a node is taken out, reset, tested and returned by itself while the other jobs of the node go on
(rows B4, B6)."""
import json
import os

import pytest

from harness import ACT_OVER, wait_for

pytestmark = [pytest.mark.embedded, pytest.mark.feature("B4.1")]  # faults are injected there
NODE = "n1"


def actions(pool):
    """The node's NodeActions, the oldest first."""
    mine = [a for a in pool.items("nodeactions") if a["spec"]["node"] == NODE]
    return sorted(mine, key=lambda a: (a["metadata"]["creationTimestamp"], a.get("status", {}).get("startedAt", "9")))


def over(pool, before, n=1):
    """The n acts that are not among `before`, when they are over."""
    def are():
        got = [a for a in actions(pool) if a["metadata"]["uid"] not in before]
        return len(got) >= n and all(a.get("status", {}).get("phase") in ACT_OVER for a in got) and got
    return wait_for(f"{n} acts are over", are)


def uids(pool):
    return {a["metadata"]["uid"] for a in actions(pool)}


def state(pool, job):
    return pool.squeue().get(job, {}).get("state")


def works(pool, *argv):
    """A job on the node whose script runs. Slurm counts it as running before that, and one that is ended while its Prolog runs may hear nothing of it."""
    job = pool.sbatch("-w", NODE, "-o", "/dev/null", *argv, script="#!/bin/sh\n: >/home/mend-$SLURM_JOB_ID\nexec sleep 100000\n")
    wait_for("its script runs", lambda: os.path.exists(f"{pool.shared_dir}/mend-{job}"))
    os.unlink(f"{pool.shared_dir}/mend-{job}")
    return job


def policy(pool, **spec):
    pool.kubectl("apply", "-f", "-", input=json.dumps(
        {"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": {"attempts": 50, "testMilliseconds": 50, **spec}}))


@pytest.fixture
def node(pool):
    yield pool
    pool.cmd("fault", NODE, "--clear", check=False)
    wait_for("no fault is seen any more", lambda: not pool.annotation(NODE, "faults"))
    wait_for("all acts are over", lambda: all(a.get("status", {}).get("phase") in ACT_OVER for a in actions(pool)))
    pool.kubectl("delete", "healthpolicies", "--all")
    wait_for("the node works, with all its devices", lambda: pool.in_service(NODE) and not pool.annotation(NODE, "devices-hold") and not pool.annotation(NODE, "devices-held"))


@pytest.mark.feature("B6.1", "B3.2", "B3.4", "A5.5")
def test_a_device_is_mended_while_the_others_work(node):
    pool, before = node, uids(node)
    policy(pool)
    job = works(pool, "--gres=gpu:1")
    (sick,) = {5} - pool.job_devices(job)[NODE] or {4}
    pool.cmd("fault", NODE, f"gpu{sick}", "ecc=1")
    (done,) = over(pool, before)
    assert done["status"]["phase"] == "Succeeded", done["status"]
    assert {k: done["spec"].get(k) for k in ("action", "scope", "device", "policy")} == {"action": "reset-gpu", "scope": "device", "device": f"gpu{sick}", "policy": "default"}
    assert [s["name"] for s in done["status"]["steps"]] == ["drain", "reset-gpu", "test", "return"]
    assert state(pool, job) == "RUNNING" and "drain" not in pool.shell("sinfo", "-h", "-n", NODE, "-o", "%T")
    wait_for("all its devices are given out again", lambda: not pool.annotation(NODE, "devices-held"))
    story = pool.cmd("history", NODE).stdout
    assert f"reset-gpu gpu{sick} alone, asked for by policy default: GpuUnhealthy" in story
    said = [e["message"] for e in pool.items("events", "-A") if e["reason"] == "DeviceOutOfService" and e["involvedObject"]["name"] == NODE]
    assert any(f"gpu{sick}: condition GpuUnhealthy" in m for m in said), said
    assert not [e for e in pool.items("events", "-A") if e["reason"] == "OutOfService" and e["involvedObject"]["name"] == NODE and f"gpu{sick}" in e["message"]]
    pool.shell("scancel", job)


@pytest.mark.feature("B6.2", "B6.1")
def test_the_job_on_it_is_queued_again_and_nobody_gets_it_in_between(node):
    pool, before = node, uids(node)
    policy(pool, jobsEndAfterSeconds=0)
    mine, beside = (works(pool, "--requeue", f"--gres=gpu:{n}") for n in (1, 7))
    waits = pool.sbatch("-w", NODE, "--gres=gpu:1")
    (sick,) = pool.job_devices(mine)[NODE]
    # Until it is taken away: the reset does not help, so it does not come back.
    pool.cmd("fault", NODE, f"gpu{sick}", "ecc=1", "--cure", "clear")
    wait_for("its job is queued again", lambda: state(pool, mine) == "PENDING")
    pool.shell("scontrol", "hold", mine)  # it may begin two minutes later, and would come before who waits
    wait_for("nobody can be given it", lambda: pool.annotation(NODE, "devices-held") == f"gpu{sick}")
    assert state(pool, beside) == "RUNNING" and state(pool, waits) == "PENDING"
    pool.kill_role("operator")
    pool.kill_role("bridge")
    shown = wait_for("people see it", lambda: (out := pool.cmd("node", NODE).stdout) and f"Mended    gpu{sick}, while the others work" in out and out)
    assert f", met by job {mine} (" in shown
    assert f"out of service: gpu{sick}\n" in shown and "in service" in shown.splitlines()[0]
    pool.cmd("fault", NODE, "--clear")
    (done,) = over(pool, before)
    assert done["status"]["phase"] == "Succeeded" and f", met by job {mine}" in done["spec"]["reason"], done
    wait_for("who waited has it", lambda: state(pool, waits) == "RUNNING")
    assert pool.job_devices(waits)[NODE] == {sick} and state(pool, beside) == "RUNNING"
    assert "Restarts=0" in pool.shell("scontrol", "show", "job", waits)
    for j in (mine, beside, waits):
        pool.shell("scancel", j)


@pytest.mark.feature("B3.3", "B4.2", "B4.4")
def test_what_does_not_come_back_is_its_nodes_matter(node):
    pool, before = node, uids(node)
    policy(pool, breaker={"percent": 0, "nodes": 0})
    pool.cmd("fault", NODE, "gpu6", "ecc=1")
    wait_for("the breaker stops it", lambda: pool.get("healthpolicy", "default").get("status", {}).get("waiting") == [NODE])
    assert not pool.annotation(NODE, "devices-hold") and uids(pool) == before
    policy(pool)
    over(pool, before)
    pool.cmd("fault", NODE, "gpu2", "burn=fail", "--cure", "reboot")  # only a test finds it, and a reset does not help
    pool.cmd("fault", NODE, "gpu2", "ecc=1")
    over(pool, before, 3)
    wait_for("the node works", lambda: pool.in_service(NODE) and not pool.annotation(NODE, "faults"))
    acts = over(pool, before, 3)
    short = [(a["spec"]["action"], a["spec"].get("scope"), a["status"]["phase"]) for a in acts]
    assert sorted(short) == [("reboot", "node", "Succeeded"), ("reset-gpu", "device", "Failed"), ("reset-gpu", "device", "Succeeded")]
