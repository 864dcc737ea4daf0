"""Preemption both ways: urgent pods take devices from native jobs and pods, urgent native jobs from pods (rows A6, C4, A19)."""
import datetime
import json
import os
import re
import shutil
import signal
import time

import pytest

from harness import wait_for

pytestmark = [pytest.mark.planes, pytest.mark.embedded]  # its configuration was not tried beside a kubelet yet
CLASSES = {"urgent": 1000, "patient": 10, "reserved": 2000}
QOS = [{"name": "urgent", "priority": 1000, "preempts": ["normal", "patient", "sliced"], "users": ["researcher"]}, {"name": "patient", "graceTime": "5s"},
       {"name": "reserved", "preempts": ["normal"]}, {"name": "sliced", "minSlice": "8s", "users": ["researcher"]},
       {"name": "sum", "totalTime": True, "users": ["researcher"]}]


@pytest.fixture(scope="module")
def up(own_pool):
    """A pool in which urgent preempts everybody else; the researcher may say so in native jobs."""
    own_pool.apply(*[{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v} for n, v in CLASSES.items()])
    classes = [{"priorityClass": c, "qos": c, **({"namespaces": ["elsewhere"]} if c == "reserved" else {})} for c in CLASSES]
    own_pool.change({"preemption": {"qos": QOS}, "scheduler": {"priorityClassMap": classes}})
    wait_for("slurmctld preempts", lambda: "preempt/qos" in own_pool.shell("scontrol", "show", "config"))
    wait_for("the QOS are there", lambda: condition(own_pool, "PreemptionReady")["status"] == "True")
    yield own_pool
    if own_pool.plane == "real":  # others use it after us
        own_pool.clean()
        own_pool.change({"preemption": None, "scheduler": {"priorityClassMap": None}})
        own_pool.kubectl("delete", "priorityclass", *CLASSES)


@pytest.fixture
def pool(up):
    up.clean()
    up.kubectl("delete", "events", "--all", "-n", "default")  # of pods with the same names
    return up


def condition(pool, kind):
    return next((c for c in pool.get("slurmcluster", "main", "-n", "slurm")["status"]["conditions"] if c["type"] == kind), {"status": None, "message": ""})


def sbatch(pool, *argv, script="#!/bin/sh\nexec sleep 100000\n"):
    return int(pool.as_user("researcher", "sbatch", "--parsable", "--mem=100M", *argv, input=script).stdout)


def fill(pool, *argv, script="#!/bin/sh\nexec sleep 100000\n"):
    """A native job that holds every device of each node."""
    jobs = [sbatch(pool, "--gres=gpu:8", f"--nodelist={n}", *argv, script=script) for n in pool.nodes]
    wait_for("they run", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in jobs))
    held = lambda n: json.loads(pool.get("node", n)["metadata"].get("annotations", {}).get("tandem.dev/slurm-use", "{}"))  # noqa: E731
    wait_for("the bridge has seen it", lambda: all(held(n).get("nvidia.com/gpu") == 8 for n in pool.nodes))
    return jobs


def told(pool, name, reason):
    return wait_for(f"event {reason} about {name}", lambda: [e["message"] for e in pool.items("events", "-n", "default")
                                                             if (e["reason"], e["involvedObject"]["name"]) == (reason, name)])


@pytest.mark.feature("A8.9")
def test_who_joined_a_gang_is_preempted_before_its_core(pool):
    """A pod that joined has run for less time than its core, so less is lost with it. The core goes on."""
    def member(i, gpus):
        p = pool.pod(f"flex-{i}", gpus, priorityClassName="patient")
        p["metadata"].update(labels={"tandem.dev/gang": "flex"}, annotations={"tandem.dev/gang-min": "2"})
        return p
    run = lambda *names: all(pool.phase(n) == "Running" for n in names)  # noqa: E731
    pool.apply(member(0, 4), member(1, 4))
    wait_for("the core runs", lambda: run("flex-0", "flex-1"))
    core = {n: pool.get("pod", n) for n in ("flex-0", "flex-1")}
    assert len({p["spec"]["nodeName"] for p in core.values()}) == 1
    start = int(core["flex-0"]["metadata"]["annotations"]["tandem.dev/job-start"])
    wait_for("it has run for a while", lambda: time.time() >= start + 2)
    pool.apply(member(2, 8))
    wait_for("another one joins on the other node", lambda: run("flex-2"))
    pool.apply(pool.pod("hurry", 8, priorityClassName="urgent"))
    wait_for("the urgent one runs", lambda: run("hurry"))
    wait_for("who joined has ended for it", lambda: pool.get("pod", "flex-2")["status"].get("reason") == "Preempted")
    assert {n: pool.get("pod", n)["metadata"]["uid"] for n in core if run(n)} == {n: p["metadata"]["uid"] for n, p in core.items()}


@pytest.mark.feature("A6.7", "A6.8", "A19.4")
def test_a_service_that_grows_takes_devices_from_a_native_job_and_gives_them_back(pool):
    """0 → 1 → 0 replicas: the job is signalled and goes back into the queue; when the service has shrunk, it runs again."""
    script = "#!/bin/sh\ntrap 'echo told >>/home/researcher/told-$SLURM_JOB_ID; exit 0' TERM\necho begun >>/home/researcher/told-$SLURM_JOB_ID\nsleep 100000 &\nwait\n"
    jobs = fill(pool, script=script)
    for j in jobs:  # one that is signalled before its script runs hears nothing
        wait_for("it has begun", lambda: os.path.exists(f"{pool.shared_dir}/researcher/told-{j}"))
    pool.apply(pool.deployment("serve", 0, 8, priorityClassName="urgent"))
    begun = time.monotonic()
    pool.kubectl("scale", "deployment", "serve", "--replicas=1")
    pod = wait_for("it serves", lambda: (r := pool.running("-l", "app=serve")) and r[0])
    print(f"scaled up → running: {time.monotonic() - begun:.2f} s")
    victim = jobs[pool.nodes.index(pod["spec"]["nodeName"])]
    assert pool.grant(pod)[2] == set(range(8))
    job = pool.job(victim)
    assert (job["JobState"], job["Restarts"]) == ("PENDING", "1")
    others = [j for j in jobs if j != victim]
    assert all(pool.squeue()[j]["state"] == "RUNNING" for j in others), "one victim was enough"

    pool.kubectl("scale", "deployment", "serve", "--replicas=0")
    wait_for("it runs again", lambda: pool.squeue()[victim]["state"] == "RUNNING")
    log = f"/home/researcher/told-{victim}"
    wait_for("it was told, and has begun twice", lambda: pool.shell("cat", log).split() == ["begun", "told", "begun"])


@pytest.mark.feature("A6.7")
def test_a_job_that_said_no_requeue_is_cancelled(pool):
    jobs = fill(pool, "--no-requeue")
    pool.apply(pool.pod("now", gpus=8, priorityClassName="urgent"))
    wait_for("it runs", lambda: pool.phase("now") == "Running")
    victim = jobs[pool.nodes.index(pool.get("pod", "now")["spec"]["nodeName"])]
    assert victim not in pool.squeue() and pool.job(victim)["JobState"] == "PREEMPTED"


@pytest.mark.feature("A6.9", "A6.11")
def test_an_urgent_job_takes_devices_from_a_pod_whose_deployment_makes_the_next(pool):
    pool.apply(pool.deployment("serve", len(pool.nodes), 8))
    before = wait_for("it serves", lambda: len(r := pool.running("-l", "app=serve")) == len(pool.nodes) and r)
    names = {p["metadata"]["name"] for p in before}
    job = sbatch(pool, "--gres=gpu:8", "--qos=urgent")
    wait_for("the job runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    node = pool.squeue()[job]["nodes"]
    victim = next(p["metadata"]["name"] for p in before if p["spec"]["nodeName"] == node)
    wait_for("it has failed", lambda: pool.phase(victim) == "Failed")
    if pool.plane != "real":  # a real kubelet says DeadlineExceeded for all
        # The gate may see first that the devices are another job's.
        wait_for("and says why", lambda: pool.get("pod", victim)["status"]["reason"] == "Preempted")
    assert "preempted" in told(pool, victim, "Preempted")[0]
    assert all(pool.phase(n) == "Running" for n in names - {victim}), "one victim was enough"

    def next_one():
        return [p for p in pool.items("pods", "-l", "app=serve") if p["metadata"]["name"] not in names]
    waiting = wait_for("its next one waits", next_one)[0]["metadata"]["name"]
    wait_for("in the queue", lambda: any(j["name"].startswith(waiting[:40]) and j["state"] == "PENDING" for j in pool.squeue().values()))
    pool.as_user("researcher", "scancel", job)
    wait_for("it comes back", lambda: pool.phase(waiting) == "Running")


CHECKPOINT = "trap 'echo saved >>/state/{0}; exit 0' USR1; trap 'echo term >>/state/{0}; exit 1' TERM; echo ready >>/state/{0}; sleep 100000 & while :; do wait; done"


def training(pool, name, node):
    """A pod that saves its work when it is told, below a shell without a trap of its own, and the words that it has said."""
    pod = pool.pod(name, gpus=8, priorityClassName="patient", nodeSelector={"kubernetes.io/hostname": node}, terminationGracePeriodSeconds=30,
                   command=["sh", "-c", "sh -c \"$0\"; :", CHECKPOINT.format(name)], volumes=[{"name": "s", "hostPath": {"path": "/shared/home/preempt", "type": "DirectoryOrCreate"}}])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/state"}]
    pod["metadata"]["annotations"] = {"slurm.tandem.dev/signal": "USR1@60"}
    return pod


def said(pool, name):
    path = f"{pool.shared_dir}/preempt/{name}"
    return open(path).read().split() if os.path.exists(path) else []


@pytest.mark.embedded
@pytest.mark.feature("A6.7", "A6.9", "C4.5")
@pytest.mark.parametrize("by", ["a pod", "a native job", "a native job, of which the gate hears first"])
def test_a_patient_pod_saves_its_work_when_it_is_told(pool, by):
    """The signal reaches the process that has a handler, below whatever shells; the others, and who may not wait, go on."""
    shutil.rmtree(f"{pool.shared_dir}/preempt", ignore_errors=True)
    trains = [f"train-{n}" for n in pool.nodes]
    pool.apply(*[training(pool, f"train-{n}", n) for n in pool.nodes])
    wait_for("they train", lambda: all(said(pool, t) == ["ready"] for t in trains))
    if by == "a pod":
        pool.apply(pool.pod("now", gpus=2, priorityClassName="urgent"))
        wait_for("it runs", lambda: pool.phase("now") == "Running")
        node = pool.get("pod", "now")["spec"]["nodeName"]
    else:
        bridge = pool.role_pid("bridge") if "gate" in by else 0
        if bridge:
            os.kill(bridge, signal.SIGSTOP)
        try:
            job = sbatch(pool, "--gres=gpu:2", "--qos=urgent")
            wait_for("it runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
            node = pool.squeue()[job]["nodes"]
            wait_for("it has saved its work", lambda: said(pool, f"train-{node}") == ["ready", "saved"])
        finally:
            if bridge:
                os.kill(bridge, signal.SIGCONT)
    assert said(pool, f"train-{node}") == ["ready", "saved"]
    wait_for("it has failed", lambda: pool.phase(f"train-{node}") == "Failed")
    # The gate does not know why the grant has ended, and the bridge that knew has lost its lease. Where it may see it first all the same, the bridge puts it right.
    ended = lambda: pool.get("pod", f"train-{node}")["status"]  # noqa: E731
    wait_for("and says why", lambda: "gate" in by or ended().get("reason") == "Preempted")
    assert "gate" in by or "preempted by a job of higher priority" in ended()["message"], ended()
    assert [said(pool, t) for t in trains if t != f"train-{node}"] == [["ready"]] * (len(trains) - 1), "one victim was enough"


@pytest.mark.feature("C4.1", "C4.2")
def test_nobody_is_preempted_inside_his_slice(pool):
    """Whose slice is over goes, although he has run for longer; who is inside stays."""
    sliced = sbatch(pool, "--gres=gpu:8", "--qos=sliced", f"--nodelist={pool.nodes[0]}")
    other = sbatch(pool, "--gres=gpu:8", f"--nodelist={pool.nodes[1]}")
    wait_for("they run", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in (sliced, other)))
    begun = start(pool, sliced)
    pool.apply(pool.pod("one", gpus=8, priorityClassName="urgent"), pool.pod("two", gpus=8, priorityClassName="urgent"))
    wait_for("both run", lambda: all(pool.phase(n) == "Running" for n in ("one", "two")))
    grants = {node: job for job, node, _ in (pool.grant(pool.get("pod", n)) for n in ("one", "two"))}
    assert start(pool, grants[pool.nodes[0]]) - begun >= 8, "it had its slice"
    if submitted(pool, grants[pool.nodes[1]]) < begun + 4:  # where it came later the slice may have been over, and then Slurm may take either first
        assert start(pool, grants[pool.nodes[1]]) <= start(pool, grants[pool.nodes[0]])


@pytest.mark.feature("C4.1", "C4.3")
def test_the_time_limit_counts_over_all_runs(pool):
    """Who is queued again has what is left of his time, of an array each task for itself; once for each run, so that a limit that is raised later stays."""
    one = sbatch(pool, "--qos=sum", "--time=10")
    tasks = sbatch(pool, "--qos=sum", "--time=10", "--array=1")
    other = sbatch(pool, "--time=10")
    wait_for("they run", lambda: [pool.squeue()[j]["state"] for j in (one, tasks, other)] == ["RUNNING"] * 3)
    def limit(job):
        return pool.job(job)["TimeLimit"]

    def used(job, runs):
        """What its mark says: seconds used, and left."""
        found = re.search(rf"AdminComment=tandem: used (\d+) s in {runs} runs, (\d+) s left;", pool.shell("scontrol", "show", "job", job))
        return found and (int(found[1]), int(found[2]))
    wait_for("a second was used", lambda: all(pool.job(j).get("RunTime", "") > "00:00:00" for j in (one, tasks, other)))
    pool.shell("scontrol", "requeue", f"{one},{tasks},{other}")
    wait_for("it is counted", lambda: used(one, 1) and used(tasks, 1))
    for j in (one, tasks):
        spent, left = used(j, 1)
        assert 0 < spent < 600 and left == 600 - spent
        assert limit(j) == f"00:{(left + 59) // 60:02d}:00"
    assert "it has used" in pool.cmd("why", one).stdout
    assert limit(other) == "00:10:00", "its QOS has no total time"

    wait_for("its first run is over", lambda: pool.job(one).get("JobState") in ("PENDING", "RUNNING"))
    pool.shell("scontrol", "update", f"jobid={one}", "timelimit=30")
    # A run of which the bridge sees nothing is found a minute later.
    wait_for("it runs again", lambda: pool.squeue()[one]["state"] == "RUNNING" and pool.job(one).get("RunTime", "") > "00:00:03")
    assert limit(one) == "00:30:00", "who raises it is not overruled"
    pool.shell("scontrol", "requeue", one)
    spent, left = wait_for("the second run counts", lambda: used(one, 2), 180)
    assert spent > used(tasks, 1)[0] - 60 and 1500 < left < 1800 and limit(one) == f"00:{(left + 59) // 60:02d}:00"


@pytest.mark.feature("C4.1", "C4.3")
def test_the_time_limit_counts_over_all_pods_of_a_job(pool):
    """The next pod has what those before it have left, and none comes when that is nothing. The test is the Job's controller (managedBy)."""
    template = pool.pod("train", 1)["spec"] | {"restartPolicy": "Never"}
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "default"},
                "spec": {"managedBy": "example.com/test", "template": {"spec": template}}})
    uid = pool.get("job", "train")["metadata"]["uid"]
    notes = {"slurm.tandem.dev/time-limit": "10", "slurm.tandem.dev/qos": "sum"}
    def make(i):
        pool.apply({"apiVersion": "v1", "kind": "Pod", "spec": template, "metadata": {
            "name": f"train-{i}", "namespace": "default", "annotations": notes,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}]}})
    def job(i):
        wait_for("it runs", lambda: pool.phase(f"train-{i}") == "Running")
        return pool.grant(pool.get("pod", f"train-{i}"))[0]
    def end(i, ran_s):
        """It has ended, after so many seconds as its grant says; half a minute more or less changes nothing."""
        pool.shell("scancel", job(i))
        wait_for("it has ended", lambda: pool.phase(f"train-{i}") == "Failed")
        pod = pool.get("pod", f"train-{i}")
        said = json.loads(pod["metadata"]["annotations"].get("tandem.dev/ended", "{}")).get("at")
        when = said or datetime.datetime.fromisoformat(pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]).timestamp()
        pool.run("kubectl", "--kubeconfig", f"{pool.home}/kubeconfig/bridge.conf", "annotate", "pod", f"train-{i}", "--overwrite",
                 f"tandem.dev/job-start={int(when) - ran_s}")
    make(0)
    assert pool.job(job(0))["TimeLimit"] == "00:10:00" and "counts over all pods" not in pool.cmd("why", "pod/train-0").stdout
    end(0, 390)
    make(1)
    assert pool.job(job(1))["TimeLimit"] == "00:04:00"
    assert "Its time counts over all pods of Job train: 1 before it ran for 6 min, and 3 min are left." in pool.cmd("why", "pod/train-1").stdout
    end(1, 690)  # as if it had begun first: what ran side by side counts once
    make(2)
    said = lambda: next((c["message"] for c in pool.get("pod", "train-2")["status"].get("conditions", []) if c["type"] == "PodScheduled"), "")  # noqa: E731
    wait_for("it is refused in words", lambda: "its time limit is used up" in said() and "nothing is left" in said())
    pool.kubectl("annotate", "pod", "train-2", "--overwrite", "slurm.tandem.dev/time-limit=60")
    assert pool.job(job(2))["TimeLimit"] == "00:49:00"
    # A StatefulSet deletes the pod that has ended before it makes the next one: what ran is in Slurm's records.
    template = {"metadata": {"labels": {"app": "web"}, "annotations": notes}, "spec": pool.pod("web", 1)["spec"] | {"restartPolicy": "Always"}}
    pool.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"serviceName": "web", "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}})
    runs = lambda: next((p for p in pool.items("pods", "-l", "app=web") if p["status"]["phase"] == "Running"), None)  # noqa: E731
    first = wait_for("its pod runs", runs)
    wait_for("a second was used", lambda: pool.job(pool.grant(first)[0]).get("RunTime", "") > "00:00:00")
    pool.kubectl("delete", "pod", "web-0")
    wait_for("the next one runs", lambda: (p := runs()) and p["metadata"]["uid"] != first["metadata"]["uid"])
    assert re.search(r"Its time counts over all pods of StatefulSet web: 1 before it ran for \d+ s, and (9|10) min are left.", pool.cmd("why", "pod/web-0").stdout)
    pool.kubectl("delete", "statefulset", "web", "--wait=false")


@pytest.mark.feature("C4.1", "C4.3")
def test_the_time_limit_counts_over_all_runs_of_a_gang(pool):
    """The next gang of the same Job has what those before it have left. The test is the Job's controller (managedBy)."""
    template = pool.pod("team", 1)["spec"] | {"restartPolicy": "Never"}
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "team", "namespace": "default"},
                "spec": {"managedBy": "example.com/test", "template": {"spec": template}}})
    uid = pool.get("job", "team")["metadata"]["uid"]
    notes = {"slurm.tandem.dev/time-limit": "10", "slurm.tandem.dev/qos": "sum", "tandem.dev/gang-size": "2"}
    def make(run, **more):
        pool.apply(*[{"apiVersion": "v1", "kind": "Pod", "spec": template, "metadata": {
            "name": f"team-{run}-{i}", "namespace": "default", "annotations": notes | more, "labels": {"tandem.dev/gang": "team"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "team", "uid": uid, "controller": True}]}} for i in range(2)])
    def job(run):
        wait_for("both run", lambda: all(pool.phase(f"team-{run}-{i}") == "Running" for i in range(2)))
        return pool.grant(pool.get("pod", f"team-{run}-0"))[0]
    def end(run, ran_s):
        pool.shell("scancel", job(run))
        wait_for("they have ended", lambda: all(pool.phase(f"team-{run}-{i}") == "Failed" for i in range(2)))
        for i in range(2):
            pool.run("kubectl", "--kubeconfig", f"{pool.home}/kubeconfig/bridge.conf", "annotate", "pod", f"team-{run}-{i}", "--overwrite",
                     f"tandem.dev/job-start={int(time.time()) - ran_s}")
    make(0)
    assert pool.job(job(0))["TimeLimit"] == "00:10:00" and "counts over all runs" not in pool.cmd("why", "pod/team-0-0").stdout
    end(0, 390)
    make(1)
    assert pool.job(job(1))["TimeLimit"] == "00:04:00", "two pods of one run count once"
    assert re.search(r"Its time counts over all runs of its gang: 1 before it ran for 6 min, and 3 min are left\.", pool.cmd("why", "pod/team-1-0").stdout)
    end(1, 690)  # as if it had begun first: what ran side by side counts once
    make(2)
    wait_for("it is refused in words", lambda: all("its time limit is used up" in next((c["message"] for c in pool.get("pod", f"team-2-{i}")["status"].get("conditions", [])
                                                                                     if c["type"] == "PodScheduled"), "") for i in range(2)))
    for i in range(2):
        pool.kubectl("annotate", "pod", f"team-2-{i}", "--overwrite", "slurm.tandem.dev/time-limit=60")
    assert pool.job(job(2))["TimeLimit"] == "00:49:00"
    # Who deletes the pods takes none of that away; their starts, as the test wrote them, are forgotten with them.
    pool.kubectl("delete", "pods", "-l", "tandem.dev/gang=team")
    pool.kill_role("bridge")  # nor is it in memory only
    make(3)
    job(3)
    why = wait_for("all that ran counts", lambda: re.search(r"over all runs of its gang: (\d) before it ran for (\d+) s, and 9 min are left\.", pool.cmd("why", "pod/team-3-0").stdout))
    assert why[1] == "3"


@pytest.mark.feature("C3.8")
def test_a_job_moves_so_that_one_that_waits_has_room(pool):
    """8 GPUs are free, 4 on each node: who runs there and has less to lose is queued again, and fits beside the other."""
    one, two = pool.nodes
    runs = lambda *jobs: wait_for("they run", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in jobs))  # noqa: E731
    block = sbatch(pool, "--gres=gpu:8", f"--nodelist={two}")
    runs(block)
    first, rest = sbatch(pool, "--gres=gpu:4"), sbatch(pool, "--gres=gpu:4", f"--nodelist={one}")
    runs(first, rest)
    pool.shell("scancel", block)
    second = sbatch(pool, "--gres=gpu:4")
    runs(second)
    pool.shell("scancel", rest)
    assert [pool.squeue()[j]["nodes"] for j in (first, second)] == [one, two]
    waits = sbatch(pool, "--gres=gpu:8")
    def after(seconds):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"preemption": {"defragment": seconds}}}))
    after({"afterSeconds": 86400})
    try:
        wait_for("who would move is said", lambda: re.search(rf"8 devices are free in pieces; job ({first}|{second}) moves in \d+ s", pool.cmd("why", waits).stdout))
        after({"afterSeconds": 1})
        wait_for("it runs", lambda: pool.squeue()[waits]["state"] == "RUNNING", 90)
    finally:
        after(None)
    moved = [j for j in (first, second) if pool.job(j)["Restarts"] == "1"]
    assert len(moved) == 1, "one was enough"
    assert all(pool.squeue()[j]["state"] == "RUNNING" for j in {first, second} - set(moved))
    assert f"so that job {waits} has room, which waits for 8 gpu on one node" in pool.shell("scontrol", "show", "job", moved[0])
    wait_for("an event tells it", lambda: [e for e in pool.items("events", "-n", "slurm") if e["reason"] == "Defragmented" and f"job {waits} of researcher" in e["message"]])
    wait_for("nobody is asked to move any more", lambda: not any("tandem.dev/requeue" in n["metadata"].get("annotations", {}) for n in pool.items("nodes")))


@pytest.mark.feature("C3.8")
def test_pods_move_so_that_a_gang_that_waits_has_room(pool):
    """12 GPUs are free, 6 on each node, and a gang of three pods with 4 each waits: one pod moves beside the other, and its Job makes it again."""
    one, two = pool.nodes

    def job(name):
        p = pool.pod(name, gpus=2)
        del p["metadata"]["name"], p["metadata"]["namespace"]
        p["spec"]["restartPolicy"] = "Never"
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": {"backoffLimit": 4, "template": {"metadata": p["metadata"], "spec": p["spec"]}}}
    pods = lambda name: pool.items("pods", "-l", f"job-name={name}")  # noqa: E731
    on = lambda name: [p["spec"]["nodeName"] for p in pods(name) if p["status"]["phase"] == "Running"]  # noqa: E731
    for name, node, full in (("left", one, two), ("right", two, one)):
        block = sbatch(pool, f"--gres=gpu:{8 if full == two else 6}", f"--nodelist={full}")
        wait_for("it runs", lambda: pool.squeue()[block]["state"] == "RUNNING")
        pool.apply(job(name))
        wait_for(f"{name} runs", lambda: on(name) == [node])
        pool.shell("scancel", block)
    gang = [pool.pod(f"g{i}", gpus=4) for i in range(3)]
    for p in gang:
        p["metadata"].update(labels={"tandem.dev/gang": "g"}, annotations={"tandem.dev/gang-size": "3"})
    pool.apply(*gang)
    try:
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"preemption": {"defragment": {"afterSeconds": 1}}}}))
        wait_for("the gang runs", lambda: all(pool.phase(f"g{i}") == "Running" for i in range(3)), 90)
    finally:
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"preemption": {"defragment": None}}}))
    wait_for("both run on one node", lambda: len(set(on("left") + on("right"))) == 1 and len(on("left") + on("right")) == 2)
    ended = [p for name in ("left", "right") for p in pods(name) if p["status"]["phase"] == "Failed"]
    assert len(ended) == 1 and ended[0]["status"]["reason"] == "Preempted" and "has room, which waits for 3 times 4 gpu" in ended[0]["status"]["message"], ended
    wait_for("an event tells it", lambda: [e for e in pool.items("events", "-n", "slurm") if e["reason"] == "Defragmented" and ended[0]["metadata"]["name"] in e["message"]])
    pool.kubectl("delete", "jobs", "--all", "--wait=false")


@pytest.mark.feature("C3.6", "C7.1")
def test_a_large_gang_starts_although_small_ones_keep_coming(pool):
    """14 of 16 GPUs are free and a gang wants all: small pods and jobs that come later wait, except one that ends in time."""
    hold = sbatch(pool, "--gres=gpu:2", f"--nodelist={pool.nodes[0]}", "--time=10")
    wait_for("it runs", lambda: pool.squeue()[hold]["state"] == "RUNNING")
    gang = [pool.pod(f"g{i}", gpus=8) for i in range(2)]
    for p in gang:
        p["metadata"].update(labels={"tandem.dev/gang": "g"}, annotations={"tandem.dev/gang-size": "2"})
    pool.apply(*gang)
    wait_for("the gang waits", lambda: [j for j in pool.squeue().values() if j["name"].startswith("g.") and j["state"] == "PENDING"])
    small = [sbatch(pool, "--gres=gpu:1", "--time=60") for _ in range(3)]
    quick = sbatch(pool, "--gres=gpu:1", "--time=1", script="#!/bin/sh\ntrue\n")
    pool.apply(*[pool.pod(f"s{i}", gpus=1) for i in range(5)])
    waiting = lambda: {j["name"].split(".")[0] for j in pool.squeue().values() if j["state"] == "PENDING"}  # noqa: E731
    wait_for("the quick one has passed", lambda: pool.job(quick)["JobState"] == "COMPLETED")
    wait_for("the others stand in line", lambda: {f"s{i}" for i in range(5)} <= waiting())
    # A node of the partition that it does not want is not among those on which it may run.
    picky = sbatch(pool, "--gres=gpu:1", f"--exclude={pool.nodes[0]}")
    said = json.loads(pool.cmd("why", picky, "-o", "json").stdout)
    assert said["allowedNodes"] == pool.nodes[1] and f"It may run on {pool.nodes[1]}, 1 of the 2 nodes of its partition: it excludes 1." in said["text"], said
    assert all(pool.squeue()[j]["state"] == "PENDING" for j in small)
    pool.shell("scancel", hold)
    wait_for("the gang runs", lambda: all(pool.phase(f"g{i}") == "Running" for i in range(2)))
    assert all(pool.squeue()[j]["state"] == "PENDING" for j in small) and not [i for i in range(5) if pool.phase(f"s{i}") == "Running"]


def start(pool, job, field="StartTime"):
    """Seconds since 1970."""
    return int(pool.shell("date", "-d", pool.job(job)[field], "+%s"))


def submitted(pool, job):
    return start(pool, job, "SubmitTime")


@pytest.mark.feature("A6.7", "A18.2")
def test_nobody_preempts_who_may_not(pool):
    """Neither by a class or an annotation in a namespace that may not have the QOS, nor by naming it in a native job, nor by changing one."""
    jobs = fill(pool)
    named = pool.pod("by-name", gpus=8)
    named["metadata"]["annotations"] = {"slurm.tandem.dev/qos": "RESERVED"}
    pool.apply(named, pool.pod("by-class", gpus=8, priorityClassName="reserved"))
    for name in ("by-name", "by-class"):
        assert "pods of namespace default may not have the QOS" in told(pool, name, "Refused")[0]
    for qos in ("reserved", "ReServed", "normal,reserved"):
        r = pool.as_user("researcher", "sbatch", f"--qos={qos}", "--gres=gpu:8", "--mem=10M", "--wrap", "true", check=False)
        assert r.returncode and "the QOS reserved is not for you" in r.stdout + r.stderr, (qos, r.stdout, r.stderr)
    waits = sbatch(pool, "--hold")
    r = pool.as_user("researcher", "scontrol", "update", f"jobid={waits}", "qos=reserved", check=False)
    assert r.returncode and "QOS=normal" in pool.shell("scontrol", "show", "job", waits)
    assert all(pool.squeue()[j]["state"] == "RUNNING" for j in jobs)


@pytest.mark.feature("A6.7")
def test_the_qos_stay_as_declared_and_those_of_others_as_they_are(pool):
    pool.shell("sacctmgr", "-i", "add", "qos", "theirs", "set", "Priority=7")
    pool.shell("sacctmgr", "-i", "modify", "qos", "patient", "set", "Priority=7", "MaxTRESPU=gres/gpu=4")
    pool.change({"preemption": {"qos": [{**q, "priority": 5} if q["name"] == "patient" else q for q in QOS] + [{"name": "theirs", "preempts": ["patient"]}]}})
    try:
        assert "theirs" in wait_for("whose it is is said", lambda: (c := condition(pool, "PreemptionReady"))["status"] == "False" and c["message"])
        def show():
            return {line.split("|")[0]: line.split("|")[1:] for line in pool.shell("sacctmgr", "-n", "-P", "show", "qos", "format=name,priority,preempt,maxtrespu").split()}
        seen = wait_for("the object counts", lambda: (q := show())["patient"][0] == "5" and q)
        assert seen["patient"] == ["5", "", "gres/gpu=4"], "what the object does not say stays"
        assert seen["theirs"] == ["7", "", ""] and seen["urgent"] == ["1000", "normal,patient,sliced", ""]
    finally:
        pool.change({"preemption": {"qos": QOS}})
        pool.shell("sacctmgr", "-i", "delete", "qos", "theirs")
        pool.shell("sacctmgr", "-i", "modify", "qos", "patient", "set", "MaxTRESPU=gres/gpu=-1")
    wait_for("all is as declared", lambda: condition(pool, "PreemptionReady")["status"] == "True")
