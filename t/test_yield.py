"""Yield: what became of the GPU time that jobs held, from Slurm's history and from the devices."""
import json
import re
import urllib.request

import pytest

from harness import wait_for

pytestmark = pytest.mark.feature("A14.9", "A14.10")
NODE = "n1"


def hours(pool, *argv):
    """The sums of all rows of `tandem usage --yield`, in GPU seconds."""
    out = {}
    for row in json.loads(pool.cmd("usage", "--yield", "-o", "json", *argv).stdout)["yield"]:
        for k, v in {**row["hours"], "all": row["gpuHours"]}.items():
            out[k] = out.get(k, 0) + v * 3600
    return out


def device_seconds(pool):
    with urllib.request.urlopen(f"http://127.0.0.1:{pool.instance['metricsPort'] + 2}/metrics", timeout=60) as r:
        found = re.findall(r'^tandem_device_time_seconds_total{node="%s",state="(\w+)",tenant="[^"]*"} (\S+)$' % NODE, r.read().decode(), re.M)
    return {state: sum(float(v) for k, v in found if k == state) for state in dict(found)}


@pytest.mark.embedded  # the faults and uses of virtual devices
def test_what_became_of_gpu_time(pool):
    """A run that ends well, one of its own error, one whose node fails: each counts where it belongs."""
    before = hours(pool)
    since = lambda: {k: v - before.get(k, 0) for k, v in hours(pool).items()}
    held = device_seconds(pool)
    pool.cmd("fault", NODE, "gpu0", "use=75")  # what the device measures
    good = pool.sbatch("--gres=gpu:1", "-w", NODE, script="#!/bin/sh\nwhile [ ! -e /home/yield-go ]; do sleep 0.1; done\n")
    bad = pool.sbatch("--gres=gpu:2", "-w", "n0", script="#!/bin/sh\nsleep 3\nexit 3\n")
    lost = pool.sbatch("--no-requeue", "--gres=gpu:2", "-w", "n2")
    wait_for("all run or ran", lambda: all(pool.job(j).get("JobState") != "PENDING" for j in (good, bad, lost)))
    wait_for("they have held their devices for seconds", lambda: all(pool.job(j).get("RunTime", "") >= "00:00:03" for j in (good, lost)))
    wait_for("the device's use is known", lambda: (now := device_seconds(pool)).get("busy", 0) > held.get("busy", 0) and now.get("idle", 0) > held.get("idle", 0))
    now = device_seconds(pool)
    busy, idle = (now[k] - held.get(k, 0) for k in ("busy", "idle"))
    assert busy > 0 and now["free"] > held.get("free", 0), "seven are free"
    pool.shell("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    try:
        wait_for("the job is over", lambda: pool.job(lost).get("JobState") == "NODE_FAIL")
    finally:
        pool.shell("scontrol", "update", "nodename=n2", "state=resume", check=False)  # it returns by itself, too
    pool.shell("touch", "/home/yield-go")
    wait_for("the others are over", lambda: pool.job(good).get("JobState") == "COMPLETED" and pool.job(bad).get("JobState") == "FAILED")
    pool.shell("rm", "-f", "/home/yield-go")
    pool.cmd("fault", NODE, "--clear")
    got = wait_for("Slurm's history has them", lambda: (s := since()).get("useful", 0) >= 2 and s["ownError"] >= 2 and s["nodeFailure"] >= 2 and s)
    assert got["all"] >= got["useful"] + got["ownError"] + got["nodeFailure"]
    text = pool.cmd("usage", "--yield").stdout
    assert max(map(len, text.splitlines())) <= 80 and re.search(r"^TENANT +GPU H YIELD USEFUL ", text)
    assert pool.cmd("usage", "--yield", "--by", "user", "-o", "csv").stdout.startswith("user,runs,gpu_hours,yield,useful,node_failure,")
    assert pool.cmd("usage", "--yield", "--by", "day", check=False).returncode == 2
    wait_for("the node works", lambda: "idle" in pool.shell("sinfo", "-h", "-n", "n2", "-o", "%t"))
