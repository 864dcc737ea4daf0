"""What pods and NodeSets are told of: kubectl events, as people and programs read them."""
import datetime
import json
import re

import pytest

from harness import wait_for

GPUS = 8
pytestmark = [pytest.mark.planes, pytest.mark.feature("A18.1")]


def in_force(pool):
    wait_for("in force", lambda: pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running" and pool.idle_nodes() == len(pool.nodes), 150)


def preempting(pool):
    """Gives the pool a partition that preempts; comes back when it is in force. What undoes it."""
    spec = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]
    patch = {"config": {"slurmConf": {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}},
             "partitions": [{"name": "all", "default": True, "maxTime": "INFINITE", "priorityTier": 1, "graceTime": 3},
                            {"name": "urgent", "maxTime": "INFINITE", "priorityTier": 10, "preemptMode": "OFF"}]}
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": patch}))
    wait_for("the partition is there", lambda: "urgent" in pool.shell("sinfo", "-h", "-o", "%P"), 120)
    in_force(pool)
    return {k: spec.get(k) for k in patch}


@pytest.fixture(scope="module")
def up(own_pool):
    """A pool with a partition that preempts."""
    old = preempting(own_pool)
    yield own_pool
    if own_pool.plane == "real":  # others use it after us
        own_pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": old}))
        wait_for("the partition is gone", lambda: "urgent" not in own_pool.shell("sinfo", "-h", "-o", "%P"), 120)
        own_pool.clean()
        in_force(own_pool)


@pytest.fixture
def pool(up):
    up.clean()
    up.kubectl("delete", "events", "--all", "-n", "default")  # of pods with the same names
    return up


def event(pool, name, reason, kind="Pod", ns="default", component="tandem-bridge", seconds=60):
    """The one event of this reason about the object; checked as every event is."""
    def find():
        return [e for e in pool.items("events", "-n", ns) if e["reason"] == reason and e["involvedObject"]["name"] == name and e["involvedObject"]["kind"] == kind]
    found = wait_for(f"event {reason} about {name}", find, seconds)
    assert len(found) == 1, f"{len(found)} events {reason}: {[e['message'] for e in found]}"
    e = found[0]
    assert e["reportingComponent"] == e["source"]["component"] == component and e["reportingInstance"].startswith(component + "-")
    about = e["involvedObject"]
    assert about["apiVersion"] == ("v1" if kind == "Pod" else "tandem.dev/v1alpha1") and about["namespace"] == e["metadata"]["namespace"] == ns
    assert re.fullmatch(r"[0-9a-f-]{36}", about["uid"]) and about["resourceVersion"].isdigit()
    assert e["metadata"]["name"].startswith(name + ".")
    first, last = (datetime.datetime.fromisoformat(e[k].replace("Z", "+00:00")) for k in ("firstTimestamp", "lastTimestamp"))
    assert first <= last and e["count"] >= 1
    return e


def told(pool, name):
    """[(type, reason)] as kubectl events tells them, in order."""
    out = pool.kubectl("events", "--for", f"pod/{name}", "--no-headers")
    return [tuple(line.split()[1:3]) for line in map(lambda s: re.sub(r"\(x\d+ over [^)]*\)", "", s), out.splitlines())]


def full(pool):
    """A native job on every GPU of every node."""
    job = pool.sbatch(f"-N{len(pool.nodes)}", f"--gres=gpu:{GPUS}", "-J", "native")
    wait_for("it runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    return job


def batch_pod(pool, name, gpus=1, **annotations):
    """A pod that waited in Slurm's queue: its stand-in is a batch job. Bound."""
    native = full(pool)
    p = pool.pod(name, gpus=gpus)
    p["metadata"]["annotations"] = {f"slurm.tandem.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    pool.apply(p)
    queued = event(pool, name, "Queued")
    pool.shell("scancel", str(native))
    wait_for(f"{name} runs", lambda: pool.phase(name) == "Running")
    return queued, pool.grant(pool.get("pod", name))[0]


@pytest.mark.nightly_real
def test_queued_granted_bound(pool):
    queued, job = batch_pod(pool, "waits")
    assert queued["type"] == "Normal" and queued["message"] == f"Slurm job {job} waits for user pods"
    granted, bound = event(pool, "waits", "Granted"), event(pool, "waits", "Bound")
    node = pool.get("pod", "waits")["spec"]["nodeName"]
    assert granted["type"] == bound["type"] == "Normal"
    assert granted["message"] == f"Slurm job {job} starts on {node}"
    assert re.fullmatch(rf'bound to {node} by Slurm job {job}, devices {{"nvidia.com/gpu":"\d+"}}', bound["message"])
    words = [r for _, r in told(pool, "waits")]  # kubectl sorts by whole seconds: those of one second come in any order
    assert sorted(w for w in words if w in ("Queued", "Granted", "Bound")) == ["Bound", "Granted", "Queued"]


@pytest.mark.nightly_real
def test_a_pod_that_starts_at_once_is_told_that_it_is_bound(pool):
    def at_once():
        """The next one, if its job is no batch job. A machine that is busy for a moment sends a pod through the queue (the view of the nodes is old)."""
        name = f"now{len(tried)}"
        tried.append(name)
        pool.apply(pool.pod(name, gpus=1))
        wait_for("it runs", lambda: pool.phase(name) == "Running")
        if pool.job(pool.grant(pool.get("pod", name))[0])["BatchFlag"] == "0":
            return name
        pool.kubectl("delete", "pod", name, "--wait=false")
        return None
    tried = []
    name = wait_for("one starts at once", at_once)
    event(pool, name, "Bound")
    assert {r for _, r in told(pool, name)} & {"Queued", "Granted", "Refused"} == set()


@pytest.mark.nightly_real
@pytest.mark.feature("A18.2")
def test_refused_says_what_and_how_to_fix_it_and_counts(pool):
    pool.apply(pool.pod("huge", gpus=GPUS + 1))
    e = event(pool, "huge", "Refused")
    assert e["type"] == "Warning" and "gpu" in e["message"] and re.search(r"\b8\b", e["message"])
    pool.kubectl("annotate", "pod", "huge", "slurm.tandem.dev/time-limit=soon")
    wait_for("told of the next thing", lambda: any("time-limit" in x["message"] for x in pool.items("events") if x["reason"] == "Refused"))


@pytest.mark.nightly_real
@pytest.mark.feature("A6.9", "A6.11")
def test_preempted(pool):
    _, job = batch_pod(pool, "victim", gpus=GPUS)
    node = pool.get("pod", "victim")["spec"]["nodeName"]
    urgent = pool.sbatch("-p", "urgent", "-w", node, f"--gres=gpu:{GPUS}", "-J", "urgent")
    e = event(pool, "victim", "Preempted", seconds=60)
    assert e["type"] == "Warning" and e["message"].startswith(f"Slurm job {job}: ") and re.search(r"the pod gets \d+ s to end", e["message"])
    wait_for("the urgent one runs", lambda: pool.squeue()[urgent]["state"] == "RUNNING", 60)
    wait_for("the pod is failed", lambda: pool.phase("victim") == "Failed")
    # The gate may see first that the devices are another job's.
    wait_for("and says why", lambda: pool.plane != "embedded" or pool.get("pod", "victim")["status"].get("reason") == "Preempted")


@pytest.mark.embedded  # Slurm's time limits are in minutes, and what differs on a kubelet is not in it
@pytest.mark.feature("A6.5", "A6.11")
@pytest.mark.parametrize("kind", ["batch", pytest.param("allocation", marks=pytest.mark.nightly)])
def test_timed_out(pool, kind):
    name = f"late-{kind}"
    if kind == "batch":
        _, job = batch_pod(pool, name, time_limit="1")
    else:
        p = pool.pod(name, gpus=1)
        p["metadata"]["annotations"] = {"slurm.tandem.dev/time-limit": "1"}
        pool.apply(p)
        wait_for("it runs", lambda: pool.phase(name) == "Running")
        job = pool.grant(pool.get("pod", name))[0]
    e = event(pool, name, "TimedOut", seconds=150)
    assert e["type"] == "Warning" and e["message"].startswith(f"Slurm job {job}: ")
    assert "time limit" in e["message"]
    assert "Preempted" not in [r for _, r in told(pool, name)]
    wait_for("the pod is failed", lambda: pool.phase(name) == "Failed")
    assert pool.get("pod", name)["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.nightly_real
def test_requeued(pool):
    _, job = batch_pod(pool, "again")
    pool.shell("scontrol", "update", f"jobid={job}", "requeue=1")
    pool.shell("scontrol", "requeue", str(job))
    e = event(pool, "again", "Requeued")
    assert e["type"] == "Warning" and e["message"].startswith(f"Slurm job {job}: ")


@pytest.mark.nightly_real
@pytest.mark.feature("A6.6")
def test_cancelled(pool):
    _, job = batch_pod(pool, "stopped")
    pool.shell("scancel", str(job))
    assert event(pool, "stopped", "Cancelled")["type"] == "Warning"


@pytest.mark.nightly_real
def test_the_operator_tells_of_nodes_and_repeats_are_counted(pool):
    # Slurm's node is drained for the change of a pod twice: the same words about the same object are one event.
    about = lambda: [e for e in pool.items("events", "-n", "slurm") if e["message"] == "slurmd pod for node n1"]
    older, before = len(about()), sum(e["count"] for e in about())  # operators before this one told of it too
    for n in (1, 2):
        uid = pool.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"]
        pool.kubectl("delete", "pod", "main-pool-n1", "-n", "slurm", "--grace-period=1", "--wait=false")

        def again():
            p = [p for p in pool.items("pods", "-n", "slurm") if p["metadata"]["name"] == "main-pool-n1" and p["metadata"]["uid"] != uid]
            return p and p[0]["status"].get("phase") == "Running"
        wait_for("slurmd runs again", again, 60)

        def counted():
            found = about()
            assert len(found) <= older + 1, [x["metadata"]["name"] for x in found]
            return sum(e["count"] for e in found) == before + n and max(found, key=lambda e: e["lastTimestamp"])
        e = wait_for("counted", counted)
    assert e["count"] >= 2
    assert e["reason"] == "Created" and e["involvedObject"]["kind"] == "NodeSet" and e["involvedObject"]["name"] == "pool"
    assert e["reportingComponent"] == "tandem-operator" and e["lastTimestamp"] > e["firstTimestamp"]
    assert any("(x" in line for line in pool.kubectl("events", "-n", "slurm").splitlines() if "slurmd pod for node n1" in line)
