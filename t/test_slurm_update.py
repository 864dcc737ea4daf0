"""A pool that works goes from one release of Slurm to another (docs/slurm-versions.md). It needs an image that Tandem has no recipe for: `--next-slurm-image`."""
import json
import pathlib
import re

import pytest

import harness
from harness import wait_for

WHERE = ("slurmcluster", "main", "-n", "slurm")


@pytest.fixture
def image(request):
    name = request.config.getoption("--next-slurm-image")
    repo, _, tag = name.rpartition(":")
    if not name or not (pathlib.Path(harness.IMAGES) / repo.replace("/", "+") / tag).exists():
        pytest.skip(f"no image of another release is here (docs/slurm-versions.md says how one is made; --next-slurm-image {name or 'NAME'})")
    return name


def patch(pool, spec):
    pool.kubectl("patch", *WHERE, "--type=merge", "-p", json.dumps({"spec": spec}))


def versions(pool):
    """{node: release of its slurmd}"""
    return dict(line.split() for line in pool.shell("sinfo", "-h", "-N", "-o", "%N %v").splitlines())


@pytest.mark.feature("F2.2", "A2.2")
def test_jobs_and_pods_outlive_the_update_and_there_is_no_way_back(home, image):
    home.up("--nodes", "2")
    old = home.get(*WHERE)["status"]["slurmVersion"]
    job = home.sbatch("--gpus=1", "-w", "n0", script="#!/bin/sh\nsrun sleep 100000\n")
    wait_for("the job's step runs", lambda: "sleep" in home.shell("squeue", "-h", "-s", "-j", job, "-o", "%j"))
    home.apply(home.pod("stays", gpus=2))
    wait_for("the pod runs", lambda: home.phase("stays") == "Running")
    uid = home.get("pod", "stays")["metadata"]["uid"]
    grant = home.grant(home.get("pod", "stays"))
    place = home.job_devices(job)

    spec = {"slurm": {"image": image}}
    if "pmix" not in "".join(p.name for p in pathlib.Path(harness.IMAGES).joinpath(image.replace("/", "+").replace(":", "/"), "rootfs").glob("usr/lib/*/slurm*/mpi_*")):
        spec["config"] = {"slurmConf": {"MpiDefault": "none"}}
    patch(home, spec)
    wait_for("slurmctld is of the new release", lambda: home.get(*WHERE)["status"].get("slurmVersion", old) != old)
    wait_for("the nodes are there", lambda: home.get(*WHERE)["status"]["phase"] == "Running" and "N/A" not in versions(home).values())
    new = home.get(*WHERE)["status"]["slurmVersion"]
    assert home.squeue()[job]["state"] == "RUNNING" and home.job_devices(job) == place
    p = home.get("pod", "stays")
    assert p["metadata"]["uid"] == uid and home.grant(p) == grant and home.phase("stays") == "Running"
    assert versions(home)["n0"] == old, "its job is not over"

    # What is older than what works is refused, and nothing changes.
    patch(home, {"slurm": {"image": "tandem/slurm:24.11"}})
    why = wait_for("it is refused", lambda: next((c["message"] for c in home.get(*WHERE)["status"]["conditions"] if c["type"] == "ConfigValid" and c["status"] == "False"), None))
    assert re.search(rf"^spec\.slurm\.image: .*24\.11.* {re.escape(new)} works here", why)
    assert home.get(*WHERE)["status"]["slurmVersion"] == new
    patch(home, {"slurm": {"image": image}})

    home.shell("scancel", job)
    home.kubectl("delete", "pod", "stays", "--wait=false")
    wait_for("every slurmd is of the new release", lambda: set(versions(home).values()) == {new})
    home.apply(home.pod("comes", gpus=8))
    wait_for("a pod runs", lambda: home.phase("comes") == "Running")
    assert home.shell("srun", "--gpus=1", "--mem=50M", "hostname").strip() in ("n0", "n1")
