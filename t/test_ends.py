"""What a pod says to Slurm, how it ends, and what Kubernetes users see of Slurm (rows A6, A18)."""
import json

import pytest

from harness import wait_for

pytestmark = pytest.mark.planes
PREFIX = "slurm.tandem.dev/"


@pytest.fixture
def pool(own_pool):
    own_pool.clean()
    own_pool.kubectl("delete", "events", "--all", "-n", "default")  # of pods with the same names
    return own_pool


def told(pool, name, reason, ns="default"):
    """The message of the event of this reason about a pod."""
    return wait_for(f"event {reason} about {name}", lambda: [e["message"] for e in pool.items("events", "-n", ns)
                                                             if (e["reason"], e["involvedObject"]["name"]) == (reason, name)])[-1]


def condition(pool, name, kind, ns="default"):
    return next((c for c in pool.get("pod", name, "-n", ns)["status"].get("conditions", []) if c["type"] == kind), None)


def saying(pod, **notes):
    pod["metadata"]["annotations"] = {PREFIX + k.replace("_", "-"): v for k, v in notes.items()}
    return pod


# ---- annotations ----

@pytest.mark.nightly_real
@pytest.mark.feature("A6.10", "A18.2")
def test_each_annotation_reaches_its_job(pool):
    """The value of each is what scontrol shows; every key of the list is here, or says where it is shown."""
    elsewhere = {"account", "qos",  # test_what_the_namespace_does_not_give_is_refused_by_name
                 "signal",  # t/test_preempt.py
                 "datasets",  # t/test_nodedata.py
                 "begin",  # t/test_session_reclaim.py
                 "gpu-type", "gpu-share",  # t/test_gres.py
                 "placement",  # t/test_gang.py
                 "segment",  # t/test_topology.py
                 "gds",  # t/test_accelerators.py
                 "licenses"}  # a unit test: the pool has none
    pool.shell("scontrol", "create", "reservation", "reservationname=course", "users=pods", "nodes=n1", "starttime=now", "duration=60")
    try:
        said = {"partition": ("all", "Partition", "all"), "time_limit": ("2:00:00", "TimeLimit", "02:00:00"), "constraint": ("r0&b0", "Features", "r0&b0"),
                "reservation": ("course", "Reservation", "course"), "nice": ("100", "Nice", "100"), "job_name": ("train", "JobName", None),
                "exclusive": ("true", "OverSubscribe", "NO")}
        known = {i["name"].removeprefix(PREFIX) for i in json.loads(pool.cmd("annotations", "-o", "json").stdout)["items"]}
        assert known == {k.replace("_", "-") for k in said} | elsewhere
        pool.apply(saying(pool.pod("all-of-them"), **{k: v[0] for k, v in said.items()}))
        wait_for("it runs", lambda: pool.phase("all-of-them") == "Running")
        pod = pool.get("pod", "all-of-them")
        job = pool.job(pool.grant(pod)[0])
        assert pod["spec"]["nodeName"] == "n1"
        assert {field: job[field] for _, field, want in said.values() if want} == {field: want for _, field, want in said.values() if want}
        assert job["JobName"] == f"train.{pod['metadata']['uid']}"
    finally:
        pool.clean()
        pool.shell("scontrol", "delete", "reservationname=course")


@pytest.mark.nightly_real
@pytest.mark.feature("A6.10", "A18.2")
def test_an_annotation_that_nobody_knows_is_refused_by_name(pool):
    pool.apply(saying(pool.pod("typo"), patition="all"))
    assert told(pool, "typo", "Refused") == f"annotation {PREFIX}patition: there is no such key: `tandem annotations` lists those that there are"
    c = wait_for("its condition, too", lambda: condition(pool, "typo", "PodScheduled"))  # events are written by a thread of their own
    assert (c["status"], c["reason"]) == ("False", "Refused") and f"{PREFIX}patition" in c["message"]
    pool.kubectl("annotate", "pod", "typo", f"{PREFIX}patition-", f"{PREFIX}partition=all")
    wait_for("mended, it runs", lambda: pool.phase("typo") == "Running")


@pytest.mark.nightly_real
@pytest.mark.feature("A6.10", "A18.2")
def test_what_the_namespace_does_not_give_is_refused_by_name(pool):
    """An account of its own, another partition or another QOS than the mapping says: refused, and the message names the fix."""
    scheduler = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["scheduler"]
    maps = [{"namespace": "team-a", "user": "researcher", "account": "teama", "partition": "all", "qos": "normal"}]
    patch = lambda v: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"scheduler": {"namespaces": v}}}))
    pool.kubectl("create", "namespace", "team-a")
    try:
        patch(maps)
        beyond = {"account": "teamb", "partition": "urgent", "qos": "high"}
        pool.apply(saying(pool.pod("same", ns="team-a"), account="teama", partition="all", qos="normal"))
        wait_for("the mapping is in force", lambda: pool.phase("same", "team-a") == "Running")
        pool.apply(pool.pod("its-own", ns="team-a"), *[saying(pool.pod(k, ns="team-a"), **{k: v}) for k, v in beyond.items()], saying(pool.pod("unmapped"), account="teamb"))
        for name in ("its-own", "same"):
            wait_for(f"{name} runs", lambda: pool.phase(name, "team-a") == "Running")
            job = pool.job(pool.grant(pool.get("pod", name, "-n", "team-a"))[0])
            assert (job["Account"], job["Partition"], job["UserId"].split("(")[0]) == ("teama", "all", "researcher")
        for k, v in beyond.items():
            assert f'annotation {PREFIX}{k}: "{v}" is not what namespace team-a is given ({maps[0][k]})' in told(pool, k, "Refused", "team-a")
        assert f'annotation {PREFIX}account: namespace default is given no account, so "teamb" is refused' in told(pool, "unmapped", "Refused")
        assert not [j for j in pool.squeue().values() if j["name"].split(".")[0] in {*beyond, "unmapped"}]
    finally:
        pool.kubectl("delete", "namespace", "team-a", "--wait=false")
        patch(scheduler.get("namespaces"))
        wait_for("no pods are left", lambda: not pool.items("pods", "-n", "team-a"))


# ---- the order ----

@pytest.mark.nightly_real
@pytest.mark.feature("A6.3")
def test_priority_classes_order_pods_in_slurm(pool):
    """The last that came has the highest class and is the first to run; a native job stands where its priority says."""
    classes = {"low": -10, "mid": 1000, "high": 100000}
    pool.apply(*[{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"ends-{n}"}, "value": v} for n, v in classes.items()])
    try:
        native = [pool.sbatch("-N1", "--gres=gpu:8") for _ in pool.nodes]
        wait_for("the pool is full", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in native))
        job = lambda name: next((i for i, j in pool.squeue().items() if j["name"].startswith(f"{name}.")), None)
        for name in classes:
            pool.apply(pool.pod(name, gpus=8, priorityClassName=f"ends-{name}"))
            wait_for(f"{name} waits in squeue", lambda: job(name))
        between = pool.sbatch("-N1", "--gres=gpu:8", "--nice=-50000")
        priority = lambda: {int(l.split()[0]): int(l.split()[1]) for l in pool.shell("squeue", "-h", "-t", "PD", "-o", "%A %Q").splitlines()}
        wait_for("the order is Slurm's", lambda: priority() and sorted(priority(), key=lambda j: -priority()[j]) == [job("high"), between, job("mid"), job("low")])
        assert priority()[job("high")] - priority()[job("mid")] == 99000
        first, *rest = native
        pool.shell("scancel", first)
        wait_for("the highest runs first", lambda: pool.phase("high") == "Running")
        assert {pool.phase("mid"), pool.phase("low"), pool.squeue()[between]["state"]} == {"Pending", "PENDING"}
        pool.kubectl("delete", "pod", "high", "--wait=false")
        wait_for("then the native job", lambda: pool.squeue()[between]["state"] == "RUNNING")
        pool.shell("scancel", between)
        wait_for("then the next", lambda: pool.phase("mid") == "Running")
        assert pool.phase("low") == "Pending"
    finally:
        pool.kubectl("delete", "priorityclass", *[f"ends-{n}" for n in classes])


# ---- how a pod ends ----

def ended(pool, name, ns="default"):
    """The status of a pod that is Failed and whose containers are gone."""
    def over():
        s = pool.get("pod", name, "-n", ns)["status"]
        return s if s.get("phase") == "Failed" and all("terminated" in c["state"] for c in s.get("containerStatuses", [])) else None
    return wait_for(f"{name} is Failed", over)


TALKS = ["sh", "-c", "trap 'echo last words; exit 0' TERM; echo hello; while :; do sleep 0.1; done"]


@pytest.mark.embedded  # on a kubelet the reason is DeadlineExceeded and the annotation tells the rest
@pytest.mark.feature("A6.11", "A18.1")
def test_a_cancelled_pod_is_failed_and_keeps_its_logs(pool):
    pool.apply(pool.pod("talks", gpus=1, command=TALKS))
    wait_for("it talks", lambda: "hello" in pool.kubectl("logs", "talks"))
    uid, job = pool.get("pod", "talks")["metadata"]["uid"], pool.grant(pool.get("pod", "talks"))[0]
    pool.shell("scancel", job)
    s = ended(pool, "talks")
    assert (s["reason"], s["message"]) == ("Cancelled", f"Slurm job {job} of user pods: cancelled (scancel)")
    pod = pool.get("pod", "talks")
    assert pod["metadata"]["uid"] == uid and json.loads(pod["metadata"]["annotations"]["tandem.dev/ended"])["reason"] == "Cancelled"
    assert pool.kubectl("logs", "talks").split("\n")[:2] == ["hello", "last words"]
    assert "Reason:           Cancelled" in pool.kubectl("describe", "pod", "talks")
    told(pool, "talks", "Cancelled")
    wait_for("its job is over", lambda: job not in pool.squeue())


@pytest.mark.embedded
@pytest.mark.feature("A6.11")
def test_a_waiting_pod_whose_job_is_cancelled_is_failed(pool):
    native = pool.sbatch(f"-N{len(pool.nodes)}", "--gres=gpu:8")
    wait_for("the pool is full", lambda: pool.squeue()[native]["state"] == "RUNNING")
    pool.apply(pool.pod("waits", gpus=1))
    job = wait_for("it waits in squeue", lambda: [j for j, v in pool.squeue().items() if v["name"].startswith("waits.")])[0]
    pool.shell("scancel", job)
    s = ended(pool, "waits")
    assert s["reason"] == "Cancelled" and s["message"].startswith(f"Slurm job {job} of user pods: ")
    assert "nodeName" not in pool.get("pod", "waits")["spec"]


@pytest.mark.nightly_real
@pytest.mark.feature("A6.11")
def test_a_job_that_may_try_once_is_tried_once(pool):
    """Cancelled is failed: the Job counts it; with another try left there is a second pod."""
    template = pool.pod("x", gpus=1)["spec"] | {"restartPolicy": "Never"}
    for name, tries in (("once", 0), ("twice", 1)):
        pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": {"backoffLimit": tries, "template": {"spec": template}}})
    runs = lambda name: pool.running("-l", f"job-name={name}")
    for name in ("once", "twice"):
        pod = wait_for(f"{name} runs", lambda: runs(name))[0]
        pool.shell("scancel", pool.grant(pod)[0])
        ended(pool, pod["metadata"]["name"])
    again = wait_for("the second try runs", lambda: runs("twice"))
    pods = lambda name: pool.items("pods", "-l", f"job-name={name}")
    assert len(again) == 1 and len(pods("twice")) == 2
    failed = wait_for("the Job failed", lambda: next((c for c in pool.get("job", "once")["status"].get("conditions", []) if (c["type"], c["status"]) == ("Failed", "True")), None))
    assert failed["reason"] == "BackoffLimitExceeded" and len(pods("once")) == 1


@pytest.mark.feature("A6.11")
def test_a_deployment_makes_the_next_pod(pool):
    pool.apply(pool.deployment("web", 1, 2, command=TALKS))
    first = wait_for("web runs", lambda: pool.running("-l", "app=web"))[0]
    wait_for("it talks", lambda: "hello" in pool.kubectl("logs", first["metadata"]["name"]))
    pool.shell("scancel", pool.grant(first)[0])
    ended(pool, first["metadata"]["name"])
    second = wait_for("another one runs", lambda: pool.running("-l", "app=web"))[0]
    assert second["metadata"]["uid"] != first["metadata"]["uid"] and pool.grant(second)[0] != pool.grant(first)[0]
    assert "hello" in pool.kubectl("logs", first["metadata"]["name"])


# ---- what Kubernetes users see of native jobs ----

@pytest.mark.nightly
@pytest.mark.feature("A5.9")
def test_what_native_jobs_hold_is_shown_at_their_nodes(pool):
    """In CPUs and devices, without what pods hold, and gone when they are."""
    use = lambda node: json.loads(pool.get("node", node)["metadata"].get("annotations", {}).get("tandem.dev/slurm-use", "{}"))
    pool.apply(pool.pod("beside", gpus=2, cpu="2", nodeSelector={"kubernetes.io/hostname": "n1"}))
    wait_for("the pod runs", lambda: pool.phase("beside") == "Running")
    job = pool.sbatch("-N1", "-w", "n1", "-c3", "--gres=gpu:5")
    wait_for("shown", lambda: use("n1") == {"cpu": 3, "nvidia.com/gpu": 5} and use("n0") == {})
    wait_for("and how many they are", lambda: pool.annotation("n1", "slurm-jobs") == "1" and pool.annotation("n0", "slurm-jobs") is None)
    assert 'tandem.dev/slurm-use: {"cpu":3,"nvidia.com/gpu":5}' in pool.kubectl("describe", "node", "n1")
    pool.kubectl("delete", "pod", "beside", "--wait=false")
    more = pool.sbatch("-N1", "-w", "n1", "-c1"), pool.sbatch("-N2", "-w", "n0,n1", "-c1")
    wait_for("the next ones are added", lambda: use("n1") == {"cpu": 5, "nvidia.com/gpu": 5} and [pool.annotation(n, "slurm-jobs") for n in ("n1", "n0")] == ["3", "1"])
    pool.shell("scancel", job, *more)
    wait_for("nothing is left", lambda: use("n1") == use("n0") == {} and pool.annotation("n1", "slurm-jobs") is None)


@pytest.mark.embedded  # on a cluster the installation's policy refuses it and says the same (t/test_policy.py); without the policy it is placed
@pytest.mark.feature("A5.9", "A18.1")
def test_a_pod_that_asks_for_devices_without_slurm_is_told_which_scheduler_has_them(pool):
    pool.apply(pool.pod("plain", gpus=1, scheduler="default-scheduler"))
    assert told(pool, "plain", "NotThroughSlurm") == "it asks for nvidia.com/gpu, and Slurm gives that out in this pool: set spec.schedulerName to tandem"
    assert not pool.get("pod", "plain")["spec"].get("nodeName")


# ---- the devices of a container ----

SHOW = "ls /dev | sed -n s/^tandem-gpu//p | sort -n | tr '\\n' ','; echo; echo $CUDA_VISIBLE_DEVICES; echo $NVIDIA_VISIBLE_DEVICES"


@pytest.mark.embedded  # on a kubelet the device plugin or the DRA driver gives each container its own
@pytest.mark.feature("A7.5")
def test_a_container_has_the_devices_that_it_asked_for(pool):
    """And the variables that CUDA programs read; a container that asked for none has none."""
    pod = pool.pod("three", gpus=2, command=["sh", "-c", f"{SHOW}; sleep 100000"])
    first = pod["spec"]["containers"][0]
    one = json.loads(json.dumps(first)) | {"name": "one"}
    one["resources"] = {k: {**v, "nvidia.com/gpu": "1"} for k, v in one["resources"].items()}
    none = {**first, "name": "none", "resources": {}}
    pod["spec"]["containers"] = [first, none, one]
    pod["spec"]["initContainers"] = [{**one, "name": "init", "command": ["sh", "-c", SHOW]}]
    pool.apply(pod)
    wait_for("it runs", lambda: pool.phase("three") == "Running")
    held = sorted(pool.grant(pool.get("pod", "three"))[2])
    assert len(held) == 3

    def seen(container):
        lines = wait_for(f"{container} has said", lambda: (lambda l: l[:3] if len(l) > 3 else None)(pool.kubectl("logs", "three", "-c", container).split("\n")))
        return [int(x) for x in lines[0].split(",") if x], lines[1], lines[2]
    text = lambda v: ",".join(map(str, v))
    assert seen("main") == (held[:2], "0,1", text(held[:2]))
    assert seen("one") == (held[2:], "0", text(held[2:]))
    assert seen("none") == ([], "", "")
    assert seen("init") == (held[:1], "0", text(held[:1]))


@pytest.mark.real  # how the embedded kubelet does it: test_a_cancelled_pod_is_failed_and_keeps_its_logs
@pytest.mark.feature("A6.11")
def test_a_kubelet_fails_a_cancelled_pod_and_keeps_its_logs(pool):
    pool.apply(pool.pod("talks", gpus=1, command=TALKS))
    wait_for("it talks", lambda: "hello" in pool.kubectl("logs", "talks"))
    uid, job = pool.get("pod", "talks")["metadata"]["uid"], pool.grant(pool.get("pod", "talks"))[0]
    pool.shell("scancel", job)
    s = ended(pool, "talks")
    pod = pool.get("pod", "talks")
    assert s["reason"] == "DeadlineExceeded" and pod["metadata"]["uid"] == uid
    why = json.loads(pod["metadata"]["annotations"]["tandem.dev/ended"])
    assert why["reason"] == "Cancelled" and str(job) in why["message"]
    assert pool.kubectl("logs", "talks").split("\n")[:2] == ["hello", "last words"]
    told(pool, "talks", "Cancelled")
    wait_for("its job is over", lambda: job not in pool.squeue())
