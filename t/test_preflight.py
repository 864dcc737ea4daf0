"""Tests of a job's devices before it starts: a GPU that fails costs nobody a run."""
import json
import os
import pathlib
import re

import pytest

from harness import ACT_OVER, wait_for

pytestmark = pytest.mark.feature("B5.1", "B5.6", "B5.7")
SICK, WELL = "n1", "n0"


@pytest.fixture
def pool(own_pool):
    """The pool, in service, with no fault and no policy."""
    own_pool.clean()
    yield own_pool
    own_pool.cmd("fault", SICK, "--clear", check=False)
    own_pool.clean()
    wait_for("it is in service", lambda: own_pool.in_service(SICK) and not own_pool.annotation(SICK, "faults"), 120)
    own_pool.kubectl("delete", "healthpolicies", "--all")


def policy(pool, **preflight):
    spec = {"attempts": 50, "dryRun": preflight.pop("dryRun", False), "rules": preflight.pop("rules", []), "preflight": preflight}
    pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": spec}))
    wait_for("the agents know it", lambda: all(json.loads(pool.annotation(n, "preflight") or "{}").get("say", False) == spec["dryRun"] and pool.annotation(n, "preflight") for n in (SICK, WELL)))


def acts(pool):
    return [a for a in pool.items("nodeactions") if a["spec"]["node"] == SICK]


def full(pool):
    """A job that has every device of the node that is well, so that the next one starts on the other."""
    job = pool.sbatch("--gres=gpu:8", "-w", WELL)
    wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    return job


@pytest.mark.feature("A14.10")
def test_a_job_starts_elsewhere_by_itself(pool):
    """The test finds what no check does. The job never runs on the sick node, waits for no two minutes, and is
    not held; the node is reset, tested and returned, and the record names the job."""
    before = {a["metadata"]["uid"] for a in acts(pool)}
    policy(pool, partitions=["*"], milliseconds=1500)
    filler = full(pool)
    pool.cmd("fault", SICK, "gpu0", "burn=fail")
    job = pool.sbatch("--requeue", "--gres=gpu:1", script="#!/bin/sh\necho $SLURMD_NODENAME >>/home/ran\nexec sleep 100000\n")
    wait_for("it is queued again", lambda: (j := pool.job(job)).get("JobState") == "PENDING" and int(j.get("Restarts", 0)) >= 1)
    # Once, or again where a busy machine drained the node later than the job came to it a second time.
    wait_for("it says why", lambda: re.match(rf"tandem: pre-flight failed (1 time|\d+ times), on {SICK}: devices 0 of {SICK} fail their test", pool.admin_comment(job)))
    pool.shell("scancel", filler)
    wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING", 60)
    wait_for("it ran where it should", lambda: pool.shell("cat", "/home/ran", check=False).split() == [WELL])
    done = wait_for("the node is mended", lambda: (new := [a for a in acts(pool) if a["metadata"]["uid"] not in before]) and new[0].get("status", {}).get("phase") in ACT_OVER and new, 120)
    assert len(done) == 1 and done[0]["status"]["phase"] == "Succeeded", done
    assert (done[0]["spec"]["action"], done[0]["spec"]["device"], done[0]["spec"]["policy"]) == ("reset-gpu", "gpu0", "default")
    assert f"pre-flight of job {job} failed" in done[0]["spec"]["reason"]
    wait_for("the node takes work", lambda: pool.in_service(SICK))
    assert pool.counted("agent", "tandem_preflight_total", node=SICK, result="failed") >= 1
    assert pool.counted("agent", "tandem_preflight_device_seconds_total", node=SICK) > 0
    assert f"pre-flight of job {job} failed" in pool.cmd("history", SICK).stdout
    lost = lambda: sum(r["hours"]["preflight"] for r in json.loads(pool.cmd("usage", "--yield", "-o", "json").stdout)["yield"])
    wait_for("what it cost is in the history", lambda: lost() * 3600 >= 1)
    pool.shell("scancel", job)
    pool.shell("rm", "-f", "/home/ran")


@pytest.mark.feature("B5.5")
def test_a_pod_is_bound_only_where_its_devices_passed(pool):
    policy(pool, namespaces=["default"], rules=[{"check": "preflight", "action": "drain"}])  # it does not come back meanwhile
    filler = full(pool)
    pool.cmd("fault", SICK, "gpu0", "burn=fail")
    pool.apply(pool.pod("trains", gpus=1))
    wait_for("the node is held", lambda: "pre-flight" in (pool.annotation(SICK, "hold") or ""))
    assert not pool.get("pod", "trains")["spec"].get("nodeName")
    pool.shell("scancel", filler)
    wait_for("the pod runs", lambda: pool.phase("trains") == "Running", 120)
    assert pool.get("pod", "trains")["spec"]["nodeName"] == WELL


def test_bad_luck_is_bounded(pool):
    """A job that met a failure as often as the policy says is held, and says why."""
    policy(pool, qos=["normal"], tries=1)
    filler = full(pool)
    pool.cmd("fault", SICK, "gpu0", "burn=fail")
    job = pool.sbatch("--requeue", "--gres=gpu:1")
    wait_for("it is held", lambda: (j := pool.job(job)).get("Priority") == "0" and j.get("JobState") == "PENDING")
    wait_for("it says why", lambda: "pre-flight failed 1 time" in pool.admin_comment(job))
    pool.shell("scancel", filler, job)


def test_a_task_of_an_array_has_its_bad_luck_alone(pool):
    """The last task has the array's own id: the other one goes on."""
    filler = pool.sbatch("--gres=gpu:8", "-w", SICK)
    wait_for("it runs", lambda: pool.job(filler).get("JobState") == "RUNNING")
    job = pool.sbatch("--requeue", "--gres=gpu:8", "--array=0-1")
    wait_for("the first task runs", lambda: pool.shell("squeue", "-h", "-j", f"{job}_0", "-o", "%T").strip() == "RUNNING")
    policy(pool, qos=["normal"], tries=1)
    pool.cmd("fault", SICK, "gpu0", "burn=fail")
    pool.shell("scancel", filler)
    tasks = lambda: sorted(pool.shell("squeue", "-h", "-r", "-j", job, "-o", "%T %K %A %r").splitlines())
    held = wait_for("one is held", lambda: (t := tasks()) and t[0].startswith("PENDING ") and "held" in t[0].lower() and t)
    assert len(held) == 2 and held[1].startswith("RUNNING "), held
    assert pool.job(held[1].split()[2]).get("Restarts") == "0", held
    pool.shell("scancel", job)


@pytest.mark.feature("B5.4")
def test_a_test_that_hangs_or_cannot_take_place_counts_as_the_policy_says(pool):
    """One that hangs is killed after the policy's time, and has failed. One whose program is not there: the job starts, or the node leaves service until there is one that passes."""
    os.makedirs(f"{pool.home}/actions", exist_ok=True)
    program = pathlib.Path(f"{pool.home}/actions/quick")
    try:
        program.write_text("#!/bin/sh\nexec sleep 86399\n")
        program.chmod(0o755)
        policy(pool, partitions=["*"], program="quick", timeoutSeconds=1, tries=1, rules=[{"check": "preflight", "action": "drain"}])
        job = pool.sbatch("--requeue", "--gres=gpu:1", "-w", SICK)
        wait_for("it is held", lambda: "the test did not end within 1 s" in pool.admin_comment(job) and pool.job(job).get("JobState") == "PENDING")
        # Another one may go on just now: the node is tested again before it returns.
        wait_for("none of them is left", lambda: not [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x0086399" in p.read_bytes()])
        wait_for("its node is held", lambda: "the test did not end within 1 s" in (pool.annotation(SICK, "hold") or ""))
        pool.shell("scancel", job)
        program.write_text("#!/bin/sh\nexit 0\n")
        wait_for("it passes, and the node is back", lambda: pool.in_service(SICK) and not pool.annotation(SICK, "faults"), 120)
        program.unlink()
        policy(pool, partitions=["*"], program="quick", untested="start")
        pool.shell("srun", "-w", SICK, "--gres=gpu:1", "true")
        assert not pool.annotation(SICK, "hold")
        policy(pool, partitions=["*"], program="quick", untested="fail", tries=1, rules=[{"check": "preflight", "action": "drain"}])
        job = pool.sbatch("--requeue", "--gres=gpu:1", "-w", SICK)
        wait_for("it is held", lambda: "not tested: spec.preflight.program: " in pool.admin_comment(job))
        wait_for("its node is held", lambda: "not tested" in (pool.annotation(SICK, "hold") or ""))
        pool.shell("scancel", job)
    finally:
        program.unlink(missing_ok=True)
        policy(pool, partitions=["*"])  # what failed passes now


def test_who_is_not_named_is_not_tested_and_a_dry_run_only_says(pool):
    before = pool.counted("agent", "tandem_preflight_total")
    policy(pool, partitions=["another"], namespaces=["other"])
    pool.cmd("fault", SICK, "gpu0", "burn=fail")
    pool.shell("srun", "-w", SICK, "--gres=gpu:1", "true")
    assert pool.counted("agent", "tandem_preflight_total") == before
    policy(pool, partitions=["*"], dryRun=True)
    pool.shell("srun", "-w", SICK, "--gres=gpu:1", "true")
    assert pool.counted("agent", "tandem_preflight_total", result="failed") > 0
    wait_for("the node says so", lambda: "pre-flight" in (pool.annotation(SICK, "faults") or ""))
    assert not pool.annotation(SICK, "hold")
