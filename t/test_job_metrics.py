"""How long jobs and pods waited, ran and how they ended, at the bridge's /metrics (row A14)."""
import pytest

from harness import wait_for

pytestmark = [pytest.mark.embedded, pytest.mark.feature("A14.2", "A14.7")]


def test_runs_that_ended_are_counted_by_how(pool):
    ended = lambda kind, end=None: pool.counted("bridge", "tandem_pool_jobs_ended_total", kind=kind, **({"end": end} if end else {}))
    sums = lambda name, kind: pool.counted("bridge", f"tandem_pool_job_{name}", kind=kind)
    before = {k: ended(*k) for k in (("native", "completed"), ("native", "failed"), ("native", "requeued"), ("native", "cancelled"), ("standin",))}
    waits = {k: sums("wait_seconds_count", k) for k in ("native", "standin")}
    gpu = pool.counted("bridge", "tandem_pool_job_gpu_seconds_total", kind="native", end="completed")
    pool.apply(pool.pod("ends", gpus=1, command=["sleep", "1"], restartPolicy="Never"))
    again = pool.sbatch("--requeue", "--gres=gpu:1")
    pool.sbatch("--gres=gpu:2", script="#!/bin/sh\nsleep 2\n")
    pool.sbatch(script="#!/bin/sh\nexit 3\n")
    wait_for("it runs", lambda: pool.squeue().get(again, {}).get("state") == "RUNNING")
    pool.shell("scontrol", "requeuehold", again)
    wait_for("it waits", lambda: pool.squeue().get(again, {}).get("state") == "PENDING")
    pool.shell("scancel", again)
    wait_for("all kinds of ends are counted", lambda: not (missing := [k for k, n in before.items() if ended(*k) <= n]) or print(missing))  # shown when it fails
    # What was counted may have been an earlier test's, which ended late.
    wait_for("so are waits and runs", lambda: all(sums("wait_seconds_count", k) > n for k, n in waits.items()) and sums("run_seconds_sum", "native") > 0)
    wait_for("and GPU seconds", lambda: pool.counted("bridge", "tandem_pool_job_gpu_seconds_total", kind="native", end="completed") >= gpu + 2)
    pool.kubectl("delete", "pod", "ends", "--wait=false")
