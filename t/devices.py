"""What the tests of devices share: a probe that says which devices the kernel lets a process open,
and short functions for pods and jobs on a node."""
import contextlib
import json
import os
import re
import subprocess

import pytest

from harness import ROOT, wait_for

GPUS = 8  # per node


@pytest.fixture(scope="module")
def probe(shared_pool):
    """Puts the device probe into the pool's shared directory. Gives a function: node index to the
    command that runs the probe in pods and jobs on that node."""
    os.makedirs(shared_pool.shared_dir, exist_ok=True)
    out = f"{shared_pool.shared_dir}/probe"
    subprocess.run(["gcc", "-static", "-O1", "-Wall", "-Werror", "-o", out, f"{ROOT}/t/probe.c"], check=True)
    major = shared_pool.instance["deviceMajor"]
    return lambda node_index: ["/home/probe", str(major), str(node_index * 64), str(GPUS)]


def node_index(name):
    return int(name[1:])


def allowed(text):
    m = re.search(r"allowed=(\S+) denied=(\S+) other=(\S+)", text)
    assert m, text
    assert m.group(3) == "-", text
    return set() if m.group(1) == "-" else {int(x) for x in m.group(1).split(",")}


def with_home(pool, pod_spec):
    pod_spec["volumes"] = [{"name": "home", "hostPath": {"path": pool.shared_home}}]
    pod_spec["containers"][0]["volumeMounts"] = [{"name": "home", "mountPath": "/home"}]
    return pod_spec


def on(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def job_on(pool, node, *argv):
    """Starts a native job on the node, which runs until it is cancelled, and returns its id."""
    job = pool.sbatch("-N1", "-w", node, *argv)
    wait_for(f"job {job} runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    return job


def inside(pool, name, node):
    """The indexes of the devices that the kernel lets the pod's container open."""
    return allowed(pool.kubectl("exec", name, "--", *pool.probe(node_index(node))))


def says(pool, name):
    return next((c.get("message", "") for c in pool.get("pod", name)["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def runs(pool, name, seconds=60):
    wait_for(f"pod {name} runs", lambda: pool.phase(name) == "Running", seconds)


@pytest.fixture
def home_probe(pool, probe):
    pool.probe = probe
    return pool


def apply(pool, *objects):
    for o in objects:
        if o["kind"] == "Pod":
            with_home(pool, o["spec"])
    pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


@contextlib.contextmanager
def fault(pool, spec):
    """The bridge meets that fault once. Gives a function that waits until it has. Release builds
    have no fault points; then the bridge of build-asan runs."""
    tandem = next((t for t in (pool.tandem, f"{ROOT}/build-asan/src/cmd/tandem") if os.path.exists(t) and b"is no action (crash, lose" in open(t, "rb").read()), None)
    if not tandem:
        pytest.skip("needs a build with -Dfaults=true (make build-asan)")
    at = f"{pool.home}/fault"
    os.makedirs(at, exist_ok=True)
    for f in os.listdir(at):
        os.unlink(f"{at}/{f}")
    env, usual = pool.env, pool.tandem
    pool.env, pool.tandem = {**env, "TANDEM_HOME": pool.home}, tandem
    pool.kill_role("bridge")
    with open(f"{at}/bridge.new", "w") as f:
        f.write(spec)
    os.rename(f"{at}/bridge.new", f"{at}/bridge")
    try:
        yield lambda: wait_for(f"the bridge meets {spec}", lambda: os.path.exists(f"{at}/bridge.fired"), 60)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{at}/bridge")
        pool.env, pool.tandem = env, usual
        pool.kill_role("bridge")
