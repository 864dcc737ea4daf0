"""Native jobs and pods that make no progress: stacks are kept, they are told of, queued again, or made anew."""
import json
import re

import pytest

from harness import wait_for
from laptop import Laptop

pytestmark = pytest.mark.feature("B6.3", "B6.5")
on_virtual_nodes = pytest.mark.embedded  # whose devices can be told what to do
BEATS_AND_STOPS = """#!/usr/bin/python3
import faulthandler, pathlib, signal, time
faulthandler.register(signal.SIGUSR1)
for _ in range(3):
    pathlib.Path("beat").touch()
    time.sleep(0.1)
def waits_for_nobody():
    time.sleep(100000)
waits_for_nobody()
"""


@pytest.fixture
def watched(pool):
    """Says what the policy about hangs is, and about stragglers; afterwards there is none."""
    def policy(straggler=None, **hang):
        spec = {"hang": hang} | ({"straggler": straggler} if straggler else {})
        pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": spec}))
        wait_for("the agents know it", lambda: all(n["metadata"]["annotations"].get(f"tandem.dev/{k}") for n in pool.items("nodes") for k in spec))
        return pool
    yield policy
    for n in pool.nodes:
        pool.cmd("fault", n, "--clear", check=False)
    pool.kubectl("delete", "healthpolicies", "--all")
    wait_for("the agents know it", lambda: not any(n["metadata"]["annotations"].get("tandem.dev/hang") for n in pool.items("nodes")))
    pool.clean()
    pool.shell("sh", "-c", "rm -rf /home/hang-*")


def submit(pool, where, *argv, script="#!/bin/sh\nexec sleep 100000\n"):
    return int(pool.as_user("researcher", "sbatch", "--parsable", "--mem=100M", "-D", where, *argv, input=script).stdout.strip())


def directory(pool, name):
    """A directory for the jobs of somebody who is not root."""
    pool.shell("sh", "-c", f"mkdir -p /home/hang-{name} && chown researcher: /home/hang-{name}")
    return f"/home/hang-{name}"


@on_virtual_nodes
def test_a_job_whose_heartbeat_stops_is_queued_again_and_its_stacks_are_kept(watched, tmp_path):
    """No list names it: it asks for that itself by the variable. The file is its user's."""
    pool = watched(partitions=["another"], afterSeconds=3, action="requeue", signal="USR1")
    where = directory(pool, "stops")
    before = pool.counted("agent", "tandem_job_hangs_total", action="requeue")
    job = submit(pool, where, "-H", "--requeue", "-o", "out", "--export=ALL,TANDEM_HEARTBEAT=beat", script=BEATS_AND_STOPS)
    noted = "tandem: used 60 s in 1 runs, 120 s left; ours;"  # of its time, and somebody's own: both stay
    pool.shell("scontrol", "update", f"jobid={job}", f"admincomment={noted} tandem: hangs on n9: earlier")
    pool.shell("scontrol", "release", job)
    wait_for("it is queued again", lambda: pool.job(job).get("Restarts") == "1")
    said = re.fullmatch(rf"{noted} tandem: hangs on (\S+): no heartbeat for 3 s; stacks: (tandem-hang-{job}-\1\.txt); seen \S+Z *", pool.admin_comment(job))
    assert said, pool.admin_comment(job)
    assert pool.shell("stat", "-c", "%U %a", f"{where}/{said[2]}").split() == ["researcher", "600"]
    wait_for("it is counted", lambda: pool.counted("agent", "tandem_job_hangs_total", action="requeue") == before + 1)
    why = json.loads(pool.cmd("why", "-o", "json", str(job)).stdout)  # of the run before it: the one that waits, or runs now, does not hang
    assert why["hangs"]["words"] == "no heartbeat for 3 s" and why["hangs"]["stacks"] == said[2] and not why["hangs"]["now"]
    assert f"Its run before hung on {said[1]}: no heartbeat for 3 s; stacks: {said[2]} (" in why["text"]
    me = Laptop(pool, tmp_path, "researcher")
    shown = wait_for("the gateway says why it was queued again", lambda: next((j for j in me.api("GET", "/jobs")[1]["jobs"] if j["id"] == job and j.get("restarts") == 1), None))
    assert "hangs" not in shown and shown["again"]["why"] == "it hung: no heartbeat for 3 s" and shown["again"]["node"] == said[1]
    stacks = pool.shell("cat", f"{where}/{said[2]}")
    assert "got signal 10, which it catches" in stacks and "wchan: " in stacks and "SigCgt:" in stacks
    assert "waits_for_nobody" in pool.shell("cat", f"{where}/out")  # by faulthandler


@on_virtual_nodes
def test_who_makes_progress_or_shows_no_sign_is_left_alone(watched, tmp_path):
    """All signs must be still, and known. The one that hangs is only told of."""
    pool = watched(partitions=["*"], afterSeconds=3, signs=["output", "gpu"])
    where = directory(pool, "tells")
    pool.cmd("fault", "n0", "gpu0", "use=60")
    computes = submit(pool, where, "-w", "n0", "--gres=gpu:1", "-o", "computes")
    no_devices = submit(pool, where, "-o", "none")
    no_output = submit(pool, where, "--gres=gpu:1", "-w", "n1", "-o", "/dev/null")
    for job in (computes, no_devices, no_output):
        wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    before = pool.counted("agent", "tandem_job_hangs_total", node="n1", action="tell")
    hangs = submit(pool, where, "-w", "n1", "--gres=gpu:1", "-o", "hangs")
    wait_for("it is told of", lambda: pool.admin_comment(hangs))
    assert pool.admin_comment(hangs).startswith(f"tandem: hangs on n1: no output and no GPU use for 3 s; stacks: tandem-hang-{hangs}-n1.txt")
    assert pool.job(hangs)["JobState"] == "RUNNING"
    me = Laptop(pool, tmp_path, "researcher")
    shown = re.search(rf"job {hangs} \(researcher, \S+\): hangs on n1: no output and no GPU use for 3 s \(seen [\d:]+\), stacks: tandem-hang-{hangs}-n1\.txt", me.run("top", "--once").stdout)
    assert shown and [j["id"] for j in me.json("top")["ailing"]] == [hangs]
    wait_for("it is counted", lambda: pool.counted("agent", "tandem_job_hangs_total", node="n1", action="tell") == before + 1)
    assert [pool.admin_comment(j) for j in (computes, no_devices, no_output)] == [""] * 3


COMPUTES_ELSEWHERE = """#!/bin/bash
exec srun -N 1 -n 1 -x "$SLURMD_NODENAME" bash -c 'touch computes; until [ -e stop ]; do :; done; exec sleep 100000'
"""


@on_virtual_nodes
def test_a_job_hangs_where_all_its_nodes_are_still_and_they_all_keep_their_stacks(pool, watched):
    """Its first node only waits for the second one, which computes: that is no hang. When that stops, too, it is one."""
    where = directory(pool, "several")
    job = submit(pool, where, "-N", "2", "-w", "n0,n1", "-o", "/dev/null", script=COMPUTES_ELSEWHERE)
    wait_for("it computes", lambda: pool.shell("ls", where).split() == ["computes"])
    # Whoever owns it sees where it stands, without any policy; nobody else does.
    shown = pool.cmd("stacks", "--user", "researcher", "-o", "json", str(job))
    stands = json.loads(shown.stdout)["processes"]
    assert "/proc" not in shown.stderr, "other users' processes are left out, and nothing is said of them"
    assert {p["node"] for p in stands} == {"n0", "n1"} and any(p["command"].startswith("srun -N 1") and p["threads"][0]["kernel"] for p in stands), stands
    refused = pool.cmd("stacks", "--user", "nobody", str(job), check=False)
    assert refused.returncode == 1 and refused.stdout == "" and "srun: error" in refused.stderr, refused
    watched(partitions=["*"], afterSeconds=4, signs=["cpu"])  # a busy machine gives one that computes no CPU for a moment
    waits = submit(pool, where, "-w", "n2", "-o", "/dev/null")
    wait_for("one that began later is told of", lambda: pool.admin_comment(waits))
    assert pool.admin_comment(job) == ""
    pool.shell("touch", f"{where}/stop")
    wait_for("it hangs", lambda: pool.admin_comment(job))
    first = pool.job(job)["BatchHost"]
    files = [f"tandem-hang-{job}-{n}.txt" for n in sorted(("n0", "n1"), key=lambda n: n != first)]
    assert pool.admin_comment(job).startswith(f"tandem: hangs on {first}: no CPU use for 4 s; stacks: {', '.join(files)}; seen ")
    for name, program in zip(files, ("srun", "sleep")):
        assert pool.shell("stat", "-c", "%U %a", f"{where}/{name}").split() == ["researcher", "600"]
        assert f"command: {program} " in pool.shell("cat", f"{where}/{name}")


def says(pool, name, what="Hangs"):
    """What the pod's condition says: (status, reason, message)."""
    return next(((c["status"], c["reason"], c["message"]) for c in pool.get("pod", name)["status"].get("conditions", []) if c["type"] == f"tandem.dev/{what}"), None)


def hangs(pool, name):
    """The same, without what its processes did."""
    said = says(pool, name)
    return said and (*said[:2], said[2].partition("; ")[0])


def why_ended(pod):
    """The reason and the words, without what its processes did; a real kubelet has a reason of its own in the status."""
    said = json.loads(pod["metadata"]["annotations"]["tandem.dev/ended"])
    return said["reason"], said["message"].partition(": ")[2].partition("; ")[0]


WAITS_FOR_THE_OTHER = ["bash", "-c", "trap 'exec sleep 100000' USR1; [ $JOB_COMPLETION_INDEX = 0 ] && exec sleep 100000; while :; do :; done"]
BEATS_AND_LOOPS = ["bash", "-c", "trap 'echo it waits here' USR1; for i in 1 2 3; do echo tandem-beat $i 0.1; done; while :; do :; done"]


@pytest.mark.nightly_real
def test_pods_that_make_no_progress_are_told_of_and_made_anew(watched):
    """One that asks for it and that nobody would make again is told of; one of a Deployment ends, and another one comes; of a gang all must be still.
    One that beats in its log is asked for that alone, and not for the CPU that it uses."""
    pool = watched(namespaces=["another"], afterSeconds=600, signs=["cpu"], action="requeue", signal="USR1")
    before = pool.counted("agent", "tandem_pod_hangs_total", action="end")
    asks = {"annotations": {"tandem.dev/hang-after": "2"}}
    lone, other, beats = pool.pod("lone"), pool.pod("other", command=["sh", "-c", "echo tandem-beat 1; exec sleep 100000"]), pool.pod("beats", command=BEATS_AND_LOOPS)
    lone["metadata"] |= asks
    beats["metadata"]["annotations"] = asks["annotations"] | {"tandem.dev/heartbeat": "log"}
    service = pool.deployment("service", 1, 0)
    service["spec"]["template"]["metadata"] |= asks
    gang = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gang", "namespace": "default"}, "spec": {
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0,
        # A busy machine gives one that computes no CPU for a moment.
        "template": {"metadata": {"annotations": {"tandem.dev/hang-after": "6"}, "labels": {"tandem.dev/gang": "gang"}}, "spec": {**pool.pod("x", command=WAITS_FOR_THE_OTHER)["spec"], "restartPolicy": "Never"}}}}
    pool.apply(gang, lone, other, beats, service)
    ended = wait_for("the first of the service ends", lambda: next((p for p in pool.items("pods", "-l", "app=service") if p["status"].get("phase") == "Failed"), None))
    assert why_ended(ended) == ("Hangs", "it hangs: no CPU use for 2 s")
    wait_for("another one comes", lambda: any(p["status"].get("phase") == "Running" for p in pool.items("pods", "-l", "app=service")))
    pool.kubectl("delete", "deployment", "service")
    wait_for("the lone one is told of", lambda: hangs(pool, "lone") == ("True", "NoProgressRestarted", "no CPU use for 2 s"))
    wait_for("an event says it", lambda: [e for e in pool.items("events", "-A") if e["reason"] == "Hangs" and e["involvedObject"]["name"] == "lone" and "it hangs: no CPU use for 2 s" in e["message"]])
    assert re.search(r"It hangs: no CPU use for 2 s; .*sleep S[ .,]", pool.cmd("why", "lone").stdout)
    assert re.search(r"\d  sleep 100000\n    sleep S", pool.cmd("stacks", "lone").stdout)
    wait_for("the one that beats is told of", lambda: (says(pool, "beats") or ("",))[0] == "True")
    assert re.fullmatch(r"no heartbeat for 2 s; its last step was 3; .*bash [RS].*", says(pool, "beats")[2])
    wait_for("it says where it is", lambda: "it waits here" in pool.kubectl("logs", "beats"))
    assert pool.phase("lone") == "Running" and hangs(pool, "other") is None
    wait_for("the gang runs", lambda: len(pool.running("-l", "job-name=gang")) == 2)
    first, second = sorted((p for p in pool.items("pods", "-l", "job-name=gang")), key=lambda p: p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
    wait_for("the first of the gang waits", lambda: (hangs(pool, first["metadata"]["name"]) or ("",))[0] == "True")
    assert hangs(pool, second["metadata"]["name"]) is None and len(pool.running("-l", "job-name=gang")) == 2
    pool.kubectl("exec", second["metadata"]["name"], "--", "kill", "-USR1", "1")
    wait_for("all of it hangs, and ends", lambda: all(p["status"].get("phase") == "Failed" for p in pool.items("pods", "-l", "job-name=gang")))
    assert {why_ended(p) for p in pool.items("pods", "-l", "job-name=gang")} == {("Hangs", "it hangs: no CPU use for 6 s, like all pods of its gang")}
    if ended["status"]["reason"] == "Hangs":  # one agent for all nodes: a real kubelet has another reason, and each node an agent of its own
        wait_for("one of the service and two of the gang are counted", lambda: pool.counted("agent", "tandem_pod_hangs_total", action="end") >= before + 3)
    pool.kubectl("delete", "healthpolicies", "--all")
    wait_for("what nobody looks at any more is not said", lambda: hangs(pool, "lone")[:2] == ("False", "NotWatched"))


PACED = ["bash", "-c", """for ((s = 1; ; s++)); do
    b=$EPOCHREALTIME; sleep 0.1; if [ -e /tmp/slow ]; then sleep 1.4; fi; e=$EPOCHREALTIME; us=$((${e/./} - ${b/./}))
    printf 'tandem-beat %d %d.%06d\\n' $s $((us / 1000000)) $((us % 1000000))
done"""]


@pytest.mark.nightly_real
@pytest.mark.feature("B6.4")
def test_the_slow_pod_of_a_gang_is_found_by_what_the_pods_say_and_its_node_is_tested(pool, watched):
    """Three pods say in their logs how long each step took; then one of them computes fifteen times as long. (Five times as long as the others in each of two steps, no load makes a pod.)"""
    before = pool.counted("bridge", "tandem_pod_stragglers_total")
    pods = [pool.pod(f"paced-{i}", command=PACED) for i in range(3)]
    for p in pods:
        p["metadata"] |= {"labels": {"tandem.dev/gang": "paced"}, "annotations": {"tandem.dev/gang-size": "3", "tandem.dev/heartbeat": "log"}}
    watched(straggler={"percent": 500, "steps": 2, "everySeconds": 1, "action": "drain", "namespaces": ["default"]}, afterSeconds=600)
    pool.apply(*pods)
    for p in pods:
        wait_for("its agent says how long a step takes", lambda p=p: re.fullmatch(r"in seconds: \d+\.\d{6} a step, up to step \d+", (says(pool, p["metadata"]["name"], "Pace") or ("",) * 3)[2]))
    pool.kubectl("exec", "paced-1", "--", "touch", "/tmp/slow")
    wait_for("it is told of", lambda: (says(pool, "paced-1", "Straggler") or ("",))[0] == "True")
    node = pool.get("pod", "paced-1")["spec"]["nodeName"]
    words = says(pool, "paced-1", "Straggler")[2]
    assert re.fullmatch(rf"pod paced-1 on {node} computes \d+\.\d times as long as the others \(step \d+: [1-9][.\d]* s, median of 3 pods [\d.]+ s\)", words), words
    assert f"Its gang waits for it: {words}." in pool.cmd("why", "paced-1").stdout
    wait_for("an event says it", lambda: [e for e in pool.items("events") if e["reason"] == "Straggler" and e["involvedObject"]["name"] == "paced-1" and words in e["message"]])
    assert pool.counted("bridge", "tandem_pod_stragglers_total") == before + 1
    act = wait_for("its node is to be tested", lambda: next((a for a in pool.items("nodeactions") if "paced-1" in a["spec"].get("reason", "")), None))
    assert act["spec"]["action"] == "test" and act["spec"]["node"] == node and act["spec"]["policy"] == "default"
    assert len(pool.running("-l", "tandem.dev/gang=paced")) == 3
    pool.kubectl("delete", "pods", "-l", "tandem.dev/gang=paced", "--wait=false")
    wait_for("the node is back, tested", lambda: pool.get("nodeaction", act["metadata"]["name"])["status"].get("phase") == "Succeeded" and pool.in_service(node))
