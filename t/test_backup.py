"""Two slurmctlds (spec.controller.replicas): the backup takes over, and gives back; nothing is lost. One pool of two nodes."""
import json
import os
import time

import pytest

from harness import wait_for

pytestmark = pytest.mark.feature("A12.4")

NS = ("-n", "slurm")
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state", "namespace": "slurm"},
         "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}}


@pytest.fixture
def pool(own_pool):
    return own_pool


def change(pool, **controller):
    pool.kubectl("patch", "slurmcluster", "main", *NS, "--type", "merge", "-p", json.dumps({"spec": {"controller": controller}}))


def condition(pool, name):
    return next((c for c in pool.get("slurmcluster", "main", *NS)["status"]["conditions"] if c["type"] == name), {})


def leads(pool):
    """Slurm's own word for who leads: 0 or 1."""
    try:
        with open(f"{pool.home}/shared/claims/slurm/state/heartbeat", "rb") as f:
            return f.read()[15]
    except (OSError, IndexError):  # nobody yet; or it is being written
        return None


def saved(pool):
    """When Slurm last saved its jobs; it takes the file away for a moment."""
    try:
        return os.stat(f"{pool.home}/shared/claims/slurm/state/job_state").st_mtime
    except OSError:
        return 0


def user(pool, *argv):
    return pool.cmd("shell", "--", *argv).stdout


def job(pool, ident):
    return user(pool, "squeue", "-h", "-j", ident, "-o", "%T").strip()


@pytest.mark.nightly
def test_two_need_storage_that_both_can_write(pool):
    def refused(words):
        wait_for(words, lambda: words in condition(pool, "ConfigValid").get("message", ""))
    change(pool, replicas=2)
    refused("spec.controller.storage is a directory of one node; name a claim with ReadWriteMany, or a hostPath")
    change(pool, storage={"hostPath": {"shared": True}})
    refused("spec.controller.storage.hostPath: node and shared are both there; write one of")
    pool.apply({**CLAIM, "metadata": {"name": "alone", "namespace": "slurm"}, "spec": {**CLAIM["spec"], "accessModes": ["ReadWriteOnce"]}})
    change(pool, storage={"hostPath": None, "claim": "alone"})
    refused("PersistentVolumeClaim \"alone\" is not ReadWriteMany")
    assert len(pool.items("pods", *NS, "-l", "app.kubernetes.io/name=slurmctld")) == 1


@pytest.mark.nightly
@pytest.mark.feature("A12.3")
def test_the_backup_takes_over_and_gives_back(pool):
    pool.apply(CLAIM)
    change(pool, replicas=2, storage={"hostPath": None, "claim": "state"})
    wait_for("both run", lambda: "2 of 2" in condition(pool, "BackupReady").get("message", ""))
    wait_for("the first one leads", lambda: leads(pool) == 0)
    first, second = (pool.get("pod", f"main-slurmctld-{i}", *NS) for i in (0, 1))
    assert first["spec"]["nodeName"] != second["spec"]["nodeName"]
    wait_for("both nodes are idle", lambda: user(pool, "sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2" and condition(pool, "Ready")["status"] == "True")

    runs = user(pool, "sbatch", "--parsable", "-N2", "--gres=gpu:8", "--wrap", "sleep 1000").strip()
    wait_for("a job runs on both", lambda: job(pool, runs) == "RUNNING")
    waits = user(pool, "sbatch", "--parsable", "--gres=gpu:1", "--wrap", "true").strip()
    asked = time.time()
    # What Slurm has not saved when a node dies, no slurmctld can know: at the most 5 s. It may have saved this already and have nothing new,
    # so there is something new at each look.
    wait_for("that is saved", lambda: user(pool, "scontrol", "update", f"jobid={waits}", f"comment={time.time()}") is not None and saved(pool) > asked)

    # The first one's node is gone: the pod finds no other.
    node = first["spec"]["nodeName"]
    pool.kubectl("cordon", node)
    gone = time.monotonic()
    pool.kubectl("delete", "pod", "main-slurmctld-0", *NS, "--grace-period=0", "--force")
    wait_for("the backup answers", lambda: user(pool, "squeue", "-h"))
    print(f"takeover: {time.monotonic() - gone:.1f} s")
    wait_for("it leads", lambda: leads(pool) == 1)
    assert (job(pool, runs), job(pool, waits)) == ("RUNNING", "PENDING")
    wait_for("the status says that one is away", lambda: "1 of 2 slurmctld pods run" in condition(pool, "BackupReady")["message"])
    later = user(pool, "sbatch", "--parsable", "--gres=gpu:1", "--wrap", "true").strip()
    assert int(later) > int(waits)
    # A new configuration goes to who leads, and pods go through it.
    pool.kubectl("patch", "slurmcluster", "main", *NS, "--type", "merge", "-p", '{"spec":{"config":{"slurmConf":{"KillWait":"13"}}}}')
    wait_for("the new configuration is in force", lambda: "KillWait                = 13" in user(pool, "scontrol", "show", "config"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "through", "namespace": "researcher"}, "spec": {"schedulerName": "tandem", "restartPolicy": "Never", "containers": [
        {"name": "c", "image": "debian:13", "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    pool.apply(pod)
    wait_for("the pod is in Slurm's queue", lambda: "through" in user(pool, "squeue", "-h", "-a", "-o", "%j %k") or pool.get("pod", "through", "-n", "researcher")["metadata"].get("annotations", {}).get("tandem.dev/job"))

    # It comes back, and takes over again.
    pool.kubectl("uncordon", node)
    back = time.monotonic()
    wait_for("the first one leads again", lambda: leads(pool) == 0)
    wait_for("it answers", lambda: user(pool, "squeue", "-h"))
    print(f"give back: {time.monotonic() - back:.1f} s")
    assert job(pool, runs) == "RUNNING"
    wait_for("both run", lambda: "2 of 2" in condition(pool, "BackupReady")["message"])
    last = user(pool, "sbatch", "--parsable", "--gres=gpu:1", "--wrap", "true").strip()
    assert int(last) > int(later)
    user(pool, "scancel", runs)
    wait_for("what waited runs", lambda: user(pool, "squeue", "-h", "-j", f"{waits},{later},{last}").strip() == "")
    wait_for("the pod ran", lambda: pool.get("pod", "through", "-n", "researcher")["status"]["phase"] == "Succeeded")
    wait_for("Slurm's history has them", lambda: user(pool, "sacct", "-X", "-n", "-P", "-j", f"{waits},{later},{last}", "-o", "state").split() == ["COMPLETED"] * 3)
