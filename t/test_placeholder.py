"""What native jobs hold is seen by kube-scheduler: spec.placeholders (row A17)."""
import json

import pytest

from harness import wait_for

pytestmark = [pytest.mark.planes, pytest.mark.real]  # the embedded plane has no kube-scheduler: its own reads Node annotations


def places(pool):
    """{node: (CPUs, MiB) that its placeholder asks for}, of those that run."""
    out = {}
    for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=placeholder"):
        if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp"):
            r = p["spec"]["containers"][0]["resources"]["requests"]
            out[p["spec"]["nodeName"]] = (int(r["cpu"][:-1]) / 1000 if r["cpu"].endswith("m") else int(r["cpu"]), int(r["memory"].removesuffix("Mi")))
    return out


def switch(pool, on):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"placeholders": {"enabled": on}}}))
    wait_for("placeholders come, or go", lambda: len(places(pool)) == len(pool.nodes) if on else
             not pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=placeholder"))


@pytest.fixture
def shown(pool):
    """Every node has a placeholder that asks for next to nothing."""
    try:
        switch(pool, True)
        wait_for("they are small", lambda: set(places(pool).values()) == {(0.001, 1)})
        yield pool
    finally:
        pool.clean()
        switch(pool, False)


def foreign(pool, name, cpu, node):
    return pool.pod(name, cpu=cpu, scheduler="default-scheduler", nodeSelector={"kubernetes.io/hostname": node})


def unschedulable(pool, name):
    return next((c.get("message", "") for c in pool.get("pod", name)["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"), "")


@pytest.mark.feature("A17.3")
def test_kube_scheduler_leaves_to_native_jobs_what_they_hold(shown):
    """A pod of the default scheduler that asks for more than a native job leaves waits, and starts when the job has ended; one of the queue gets the
    CPUs of a job that ends, and its kubelet has room for it."""
    pool, node = shown, "n1"
    cpus = int(pool.shell("sinfo", "-h", "-n", node, "-o", "%c"))
    job = pool.sbatch("-N1", "-w", node, f"-c{cpus - 2}", "--mem=500M")
    wait_for("its placeholder asks for what the job holds", lambda: places(pool)[node] == (cpus - 2, 500))
    assert all(v == (0.001, 1) for n, v in places(pool).items() if n != node)
    pool.apply(foreign(pool, "more", "8", node), foreign(pool, "less", "500m", node))
    wait_for("the small one runs", lambda: pool.phase("less") == "Running")
    wait_for("kube-scheduler has no CPUs for the large one", lambda: "Insufficient cpu" in unschedulable(pool, "more"))

    # Slurm gives the job's CPUs to a pod at once; the kubelet must have let go of them before it is bound.
    pool.kubectl("delete", "pod", "more", "--wait=false")
    pool.apply(pool.pod("queued", cpu=str(cpus - 2), nodeSelector={"kubernetes.io/hostname": node}))
    wait_for("it waits", lambda: pool.squeue() and any(j["state"] == "PENDING" for j in pool.squeue().values()))
    pool.shell("scancel", job)
    wait_for("it runs", lambda: pool.phase("queued") == "Running")
    wait_for("nothing native is left there", lambda: places(pool)[node] == (0.001, 1))

    # And back: the pod goes, a job comes, and after it the large pod of the default scheduler.
    pool.kubectl("delete", "pod", "queued")
    job = pool.sbatch("-N1", "-w", node, f"-c{cpus - 2}", "--mem=500M")
    wait_for("its placeholder asks for it again", lambda: places(pool)[node] == (cpus - 2, 500))
    pool.apply(foreign(pool, "more", "8", node))
    wait_for("it waits", lambda: "Insufficient cpu" in unschedulable(pool, "more"))
    pool.shell("scancel", job)
    wait_for("it runs when the job has ended", lambda: pool.phase("more") == "Running")
