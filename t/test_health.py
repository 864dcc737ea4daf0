"""Nodes' health: a fault is found, the node drained, mended, tested and returned; acts that people ask
for; what becomes of all that when the operator or the node's agent is killed."""
import contextlib
import json
import pathlib
import re
import time

import pytest

from harness import ACT_OVER, ROOT, wait_for

pytestmark = pytest.mark.feature("B3.8", "B4.1")
NODE = "n1"
SAMPLE = ROOT / "deploy/examples/resume.py"


@pytest.fixture
def pool(own_pool):
    """The pool, with all nodes in service and no fault left."""
    own_pool.cmd("fault", NODE, "--clear", check=False)
    if held(own_pool):
        own_pool.cmd("node", "return", NODE, "--no-test", "--wait", check=False)
    own_pool.clean()
    yield own_pool
    # A policy that stopped acts must not go before the fault is out of sight: the one that is there without any would act on it.
    own_pool.cmd("fault", NODE, "--clear", check=False)
    wait_for("no fault is seen any more", lambda: not own_pool.annotation(NODE, "faults"))
    own_pool.kubectl("delete", "healthpolicies", "--all")


def held(pool):
    return pool.annotation(NODE, "hold")


def actions(pool, **spec):
    """NodeActions of the node with these fields, the oldest first."""
    all = [a for a in pool.items("nodeactions") if a["spec"]["node"] == NODE and all_of(a["spec"], spec)]
    return sorted(all, key=lambda a: (a["metadata"]["creationTimestamp"], a.get("status", {}).get("startedAt", "9")))


def all_of(have, want):
    return all(have.get(k) == v for k, v in want.items())


def phase(action):
    return action.get("status", {}).get("phase")


def new_action(pool, before, **spec):
    """The one action that is not among `before`, when it is over."""
    def over():
        got = [a for a in actions(pool, **spec) if a["metadata"]["uid"] not in before]
        return got and phase(got[0]) in ACT_OVER and got[0]
    return wait_for(f"an action {spec} is over", over, 120)


def uids(pool):
    return {a["metadata"]["uid"] for a in actions(pool)}


def boot(pool):
    return pool.get("node", NODE)["status"]["nodeInfo"]["bootID"]


def steps(action):
    return [s["name"] for s in action["status"]["steps"]]


@pytest.mark.feature("B2.1", "B2.2", "B2.3", "B3.2", "B3.5", "B6.1", "A5.5")
def test_a_gpu_that_fell_off_the_bus(pool):
    before, old_boot = uids(pool), boot(pool)
    job = pool.sbatch("-w", NODE, "--gres=gpu:1", script="#!/bin/sh\nexec sleep 100000\n")
    wait_for("the job runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    pool.cmd("fault", NODE, "gpu3", "xid=79")
    reason = wait_for("the node is drained in Slurm", lambda: (r := pool.annotation(NODE, "slurm-reason")) and r.startswith("tandem: condition GpuUnhealthy") and r)
    assert "gpu3: XID 79" in reason
    node = pool.get("node", NODE)
    assert "tandem.dev/slurm-drain" in [t["key"] for t in node["spec"].get("taints", [])], "pods that Slurm does not place go elsewhere, too"
    assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "GpuUnhealthy"] == ["True"]
    # The job goes on, and so the node is not rebooted.
    action = wait_for("a policy's action waits for the job", lambda: [a for a in actions(pool, action="reboot") if a["metadata"]["uid"] not in before and a.get("status", {}).get("step") == "drain"])[0]
    assert action["spec"]["requestedBy"] == "policy default" and action["status"]["operationId"] == action["metadata"]["uid"]
    assert boot(pool) == old_boot and pool.job(job)["JobState"] == "RUNNING"
    shown = next(n for n in json.loads(pool.cmd("nodes", "-o", "json").stdout)["nodes"] if n["name"] == NODE)
    assert shown["step"] == "drain" and not shown["inService"] and "jobs" in shown["next"]

    pool.shell("scancel", job)
    done = new_action(pool, before, action="reboot")
    assert phase(done) == "Succeeded", done["status"]
    assert steps(done) == ["drain", "reboot", "test", "return"]
    assert boot(pool) != old_boot
    measured = json.loads(done["status"]["measured"])
    assert measured["devices"] == 8 and measured["wrong"] == [] and measured["gflops"] > 0, "the test computed on every GPU"
    wait_for("the node takes work", lambda: pool.in_service(NODE))
    assert len([a for a in actions(pool) if a["metadata"]["uid"] not in before]) == 1, "one fault is one act"
    story = pool.cmd("history", NODE).stdout
    assert "policy default: GpuUnhealthy: gpu3: XID 79" in story and "test" in story
    pool.shell("srun", "-w", NODE, "--gres=gpu:8", "true")


@pytest.mark.feature("B3.2", "B3.3", "B3.4", "B3.5", "B6.5")
@pytest.mark.parametrize("fault,action", [("gpu2 ecc=1", "reset-gpu"), ("node memory=1", "reboot")])
def test_other_faults_are_mended(pool, fault, action):
    before = uids(pool)
    pool.kubectl("apply", "-f", "-", input=policy(attempts=50))
    pool.cmd("fault", NODE, *fault.split())
    done = new_action(pool, before)
    assert (done["spec"]["action"], phase(done)) == (action, "Succeeded"), done
    assert done["spec"].get("device") == ("gpu2" if action == "reset-gpu" else None)
    wait_for("the node takes work", lambda: pool.in_service(NODE))


def policy(**spec):
    return json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": spec})


@pytest.mark.feature("B3.2", "B4.1")
def test_a_fault_that_time_ends_drains_and_returns(pool):
    before = uids(pool)
    pool.cmd("fault", NODE, "gpu0", "temp=95")
    done = new_action(pool, before, action="drain")
    assert phase(done) == "Succeeded" and held(pool)
    pool.cmd("fault", NODE, "--clear")
    back = new_action(pool, before | {done["metadata"]["uid"]}, action="return")
    assert phase(back) == "Succeeded" and steps(back) == ["drain", "test", "return"]
    wait_for("the node takes work", lambda: pool.in_service(NODE))


@pytest.mark.feature("A5.5")
def test_a_condition_that_somebody_else_sets(pool):
    pool.kubectl("apply", "-f", "-", input=policy(rules=[{"condition": "FanBroken", "action": "drain"}]))
    cond = {"type": "FanBroken", "status": "True", "reason": "Test", "message": "fan 2 stands still"}
    put = lambda status: pool.kubectl("patch", "node", NODE, "--subresource=status", "--type=strategic", "-p", json.dumps({"status": {"conditions": [{**cond, "status": status}]}}))
    put("True")
    wait_for("it is drained", lambda: (pool.annotation(NODE, "slurm-reason") or "").startswith("tandem: condition FanBroken: fan 2"))
    put("False")
    wait_for("it returns", lambda: pool.in_service(NODE))


@pytest.mark.feature("B1.1")
def test_a_new_node_is_tested_before_it_takes_work(pool):
    """Here every node is new that never passed a test; what passed once is not tested again."""
    tested = lambda n: pool.get("node", n)["metadata"].get("annotations", {}).get("tandem.dev/tested")
    pool.kubectl("annotate", "node", NODE, "tandem.dev/tested-")
    before = uids(pool)
    pool.kubectl("apply", "-f", "-", input=policy(testNewNodes=True))
    wait_for("it is held", lambda: held(pool) or tested(NODE))
    done = new_action(pool, before, action="test")
    assert phase(done) == "Succeeded" and done["spec"]["reason"] == "it is new" and done["spec"]["policy"] == "default"
    assert tested(NODE)
    wait_for("all are in service", lambda: pool.in_service(NODE) and tested("n0") and all(phase(a) in ACT_OVER for a in pool.items("nodeactions")))
    assert len(uids(pool) - before) == 1


@pytest.mark.feature("B1.1")
def test_a_node_that_slurm_does_not_know_yet_registers_drained_and_is_compared_with_its_group(pool):
    """In no moment before its test does it take a job that waits for it. One that is four times as slow as the other of its group fails."""
    pool.kubectl("apply", "-f", "-", input=policy(testNewNodes=True, attempts=0, testMilliseconds=500))
    wait_for("what is here was tested", lambda: all("tandem.dev/tested" in n["metadata"]["annotations"] for n in pool.items("nodes")) and all(pool.in_service(n) for n in pool.nodes))
    before = uids(pool)
    known = lambda: NODE in pool.shell("sinfo", "-h", "-N", "-o", "%N").split()  # noqa: E731
    wait_for("Slurm has no record of it", lambda: pool.kubectl("delete", "node", NODE, "--ignore-not-found") is not None and not known())
    tried = lambda: pool.shell("sh", "-c", "echo '#!/bin/sh\nexec sleep 100000' | sbatch --parsable -D /home --mem=100M --gres=gpu:8 -x n0", check=False).strip()  # noqa: E731
    job = int(wait_for("Slurm takes a job for that node, as soon as it knows it", lambda: (j := tried()).isdigit() and j, 120))
    done = new_action(pool, before, action="test")
    assert phase(done) == "Succeeded" and done["spec"]["reason"] == "it is new", done
    wait_for("the job runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    # By Slurm's own record: the job may start before the operator has written that the test is over.
    tests = [line.split()[1] for line in pool.shell("squeue", "-h", "-t", "COMPLETED", "-n", "tandem-test", "-o", "%N %e").splitlines() if line.split()[0] == NODE]
    assert tests and pool.job(job)["StartTime"] >= max(tests), (pool.job(job)["StartTime"], tests)
    (slurmd,) = [p for p in pool.items("pods", "-A", "-l", "app.kubernetes.io/name=slurmd") if p["spec"]["nodeName"] == NODE]
    assert {"name": "TD_HELD", "value": "tandem: condition it is new"} in slurmd["spec"]["containers"][0]["env"]
    pool.clean()
    # As the group says
    figure = json.loads(done["status"]["measured"])["gflops"]
    pool.kubectl("apply", "-f", "-", input=policy(testNewNodes=True, attempts=0, testMilliseconds=500, figures={"percent": 60, "nodes": 1}))
    pool.cmd("fault", NODE, "node", "slow=40")
    before = uids(pool)
    pool.cmd("node", "test", NODE, "--wait", check=False)
    failed = new_action(pool, before, action="test")
    said = failed["status"]["message"]
    assert phase(failed) == "Failed" and (found := re.search(r"gflops: ([\d.]+) is less than ([\d.]+), 60 % of ([\d.]+), the median of 1 other node of its group", said)), said
    assert float(found[1]) < float(found[2]) < float(found[3]) and figure > 0
    assert held(pool)
    # The pod that tested it keeps it reserved until it has seen it drained, or for two minutes (nodetest.sh, release).
    wait_for("the reservation of its test is gone", lambda: f"tandem-test-{NODE}" not in pool.shell("scontrol", "show", "reservation", check=False))
    pool.cmd("fault", NODE, "--clear")
    pool.cmd("node", "return", NODE, "--no-test", "--wait")
    wait_for("the node takes work", lambda: pool.in_service(NODE))


@pytest.mark.feature("B2.1")
def test_an_annotation_asks_for_a_reboot(pool):
    before, old_boot = uids(pool), boot(pool)
    pool.kubectl("annotate", "node", NODE, "tandem.dev/action=reboot")
    done = new_action(pool, before)
    assert (done["spec"]["action"], phase(done)) == ("reboot", "Succeeded")
    assert boot(pool) != old_boot
    assert len(uids(pool) - before) == 1 and not pool.annotation(NODE, "action") and not pool.annotation(NODE, "action-taken")


@pytest.mark.feature("B2.2", "B8.3")
def test_a_node_that_lost_its_memory_in_a_reboot_does_not_boot_again(pool):
    """A node without a disk has no record of the operation; the operation says of which boot it is to boot."""
    now = boot(pool)
    tell = lambda text: pool.kubectl("annotate", "node", NODE, f"tandem.dev/operation{text}", "--overwrite")
    try:
        tell("=" + json.dumps({"id": "lost", "action": "reboot", "boot": "the-boot-before"}))
        result = wait_for("it is done", lambda: (r := json.loads(pool.annotation(NODE, "operation-result") or "{}")).get("id") == "lost" and r)
    finally:
        tell("-")
    assert result["result"] == "done" and boot(pool) == now


@pytest.mark.feature("B2.2", "B2.3")
def test_the_operator_and_the_agent_die_in_the_middle(pool):
    """Wherever they die, no operation is done twice, every record says how it ended, and the node
    returns. (A test that the agent's death cut off fails, and another act follows.)"""
    before, old_boot = uids(pool), boot(pool)
    pool.kubectl("apply", "-f", "-", input=policy(attempts=50))
    pool.cmd("fault", NODE, "gpu1", "xid=79")
    wait_for("an act is reserved", lambda: [a for a in actions(pool) if a["metadata"]["uid"] not in before and a.get("status", {}).get("operationId")])
    pool.kill_role("operator")
    wait_for("the node boots", lambda: boot(pool) != old_boot)
    pool.kill_role("operator")
    pool.kill_role("kubelet")
    wait_for("the node takes work", lambda: not pool.annotation(NODE, "faults") and pool.in_service(NODE), 180)
    # The node takes work a moment before the act says that it is over.
    new = wait_for("every act is over", lambda: (n := [a for a in actions(pool) if a["metadata"]["uid"] not in before]) and all(phase(a) in ACT_OVER for a in n) and n)
    log = open(f"{pool.home}/log/kubelet.log").read()
    for a in new:
        assert log.count(f"begins (operation {a['metadata']['uid']})") <= 1


def gapless(pool):
    """A question: has the bridge read Slurm's nodes for so long that it knows which have failed lately? (src/bridge/again.c, NEAR_MS.) A pool that has just come up has not."""
    since = [time.monotonic()]

    def ask():
        if pool.bridge_metric("tandem_bridge_view_age_seconds") > 2:
            since[0] = time.monotonic()
        return time.monotonic() - since[0] > 6
    return ask


@pytest.mark.feature("B4.1", "B6.2", "B5.7")
def test_jobs_on_a_sick_node_start_elsewhere(pool):
    """With jobsEndAfterSeconds nobody waits for a job that hangs on a dead GPU: it is requeued, and
    goes on on another node from its checkpoint, soon. The job is docs/researcher.md's sample."""
    before, sees = uids(pool), gapless(pool)
    pool.kubectl("apply", "-f", "-", input=policy(attempts=50, jobsEndAfterSeconds=0))
    script = SAMPLE.read_text().replace("= 1000, 0.0, 20, 2", "= 10**6, 0.05, 5, 2")  # STEPS, SECONDS, SAVE_EVERY, KEEP
    filler = pool.sbatch("--gres=gpu:8", "-w", "n0")  # so that the job begins on the other node
    wait_for("it is there", lambda: pool.job(filler).get("JobState") == "RUNNING")
    job = pool.sbatch("--gres=gpu:1", script=script)
    out = lambda: pool.shell("cat", f"/home/resume-{job}.out", check=False)
    runs = lambda: re.findall(r"run (\d) on (\S+) goes on from step (\d+) at (\S+)", out())
    saved = lambda: [int(n) for n in re.findall(r"step (\d+): .*, saved", out())]
    wait_for("it computes, and saves", lambda: len(saved()) > 1)
    pool.shell("scancel", filler)
    wait_for("the bridge sees the nodes", sees)
    begun = time.time()
    pool.cmd("fault", NODE, "gpu1", "xid=79", "--cure", "clear")  # the node does not come back before
    steady = []

    def goes_on():
        steady.append(sees())
        return len(r := runs()) == 2 and r
    first, again = wait_for("it goes on", goes_on)
    said = pool.cmd("why", job).stdout
    print(f"fault → computing again from the checkpoint: {float(again[3]) - begun:.1f} s")
    assert first[:3] == ("1", NODE, "0") and again[:2] == ("2", "n0") and int(again[2]) in saved(), runs()
    assert "begins 15 s later instead of Slurm's two minutes" in said or not all(steady), said  # not: the bridge could not see Slurm's nodes for seconds
    because = rf"It began again because of {NODE}: condition GpuUnhealthy: gpu1: XID 79\b.* \(2\S+Z\)\."
    wait_for("why says because of what", lambda: re.search(because, pool.cmd("why", job).stdout))  # slurmdbd hears of the first run later
    steps = wait_for("it computes", lambda: (s := saved())[-1] > int(again[2]) and s)
    assert steps == sorted(set(steps)), "no step was computed twice"
    pool.shell("scancel", job)
    pool.cmd("fault", NODE, "--clear")
    new_action(pool, before, action="reboot")  # it may have failed before the fault was cleared
    wait_for("the node takes work", lambda: pool.in_service(NODE))
    pool.shell("sh", "-c", f"rm -rf /home/resume-{job}*")


def probed(pool, node=NODE):
    return json.loads(pool.annotation(node, "probed") or "{}")


def long_tests(pool):
    """Processes of this pool that test for ten minutes."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [p] if b"selftest\0--ms\x00600000\0" in (line := p.read_bytes()) and f"/{pool.instance['id']}/".encode() in line else []
    return found


@pytest.mark.nightly
@pytest.mark.feature("B3.7", "B3.1")
def test_an_idle_node_is_tested_by_its_agent_until_somebodys_work_comes(pool):
    """What it measures is kept; who comes, a job or a pod, waits for nothing and ends the test; what the test finds is a fault; the budget holds."""
    before = uids(pool)
    idle = lambda: {"idleTests": {"everySeconds": 1, "minutesPerHour": 1000}, "breaker": {"percent": 100}, "attempts": 50}  # noqa: E731  (both nodes at once)
    pool.kubectl("apply", "-f", "-", input=policy(**idle(), testMilliseconds=100))
    for n in pool.nodes:
        said = wait_for(f"{n} is tested", lambda n=n: (p := probed(pool, n)).get("result") == "passed" and p, 60)
        assert all(said[k] > 0 for k in ("gflops", "memoryMBps", "diskWriteMBps", "diskReadMBps", "milliseconds")), said
    line = re.search(r"Measured +(.*)", pool.cmd("node", NODE).stdout)[1]
    assert re.match(r"at \S+ while it was idle: passed; [\d.]+ GFLOPS, memory [\d.]+ MB/s, disk [\d.]+ MB/s written and [\d.]+ read", line), line
    assert json.loads(pool.cmd("node", NODE, "-o", "json").stdout)["idleTest"]["result"] == "passed"
    assert uids(pool) == before  # no act, no drain: what is idle stays in service

    def ended(comes):
        """A long test goes on; who comes runs, and the test says that it was ended. The other node is not idle: a test takes a core."""
        pool.sbatch("-w", "n0", "--mem=64M")
        pool.kubectl("apply", "-f", "-", input=policy(**idle(), testMilliseconds=600000))
        wait_for("a long test goes on", lambda: (a := json.loads(pool.annotation(NODE, "probe") or "{}")).get("milliseconds") == 600000 and a["id"] != probed(pool).get("id") and long_tests(pool))
        comes()
        wait_for("it was ended", lambda: probed(pool).get("result") == "ended" and "gflops" not in probed(pool))
        assert pool.in_service(NODE)
        pool.kubectl("apply", "-f", "-", input=policy(**idle(), testMilliseconds=100))
        pool.clean()

    def job(*argv):
        j = pool.sbatch("-w", NODE, *argv)
        wait_for("the job runs", lambda: pool.job(j).get("JobState") == "RUNNING")

    def pod():
        pool.apply(pool.pod("comes", gpus=1, nodeSelector={"kubernetes.io/hostname": NODE}))
        wait_for("the pod runs", lambda: pool.phase("comes") == "Running")
    for comes in (lambda: job("--gres=gpu:1"), lambda: job("--mem=64M"), pod):
        ended(comes)
    wait_for("none goes on", lambda: not long_tests(pool))
    wait_for("it is tested again", lambda: probed(pool).get("result") == "passed")
    pool.cmd("fault", NODE, "gpu2", "burn=fail", "--cure", "reset")
    act = new_action(pool, before, policy="default", action="reset-gpu")
    assert "gpu2: its test while the node was idle failed" in act["spec"]["reason"] and phase(act) == "Succeeded", act
    wait_for("the node takes work", lambda: pool.in_service(NODE))


@pytest.mark.feature("B4.2", "B4.3")
def test_what_does_not_help_needs_a_person(pool):
    before = uids(pool)
    pool.kubectl("apply", "-f", "-", input=policy(attempts=len(actions(pool, policy="default", action="reboot")) + len(actions(pool, policy="default", action="reset-gpu")) + 1))
    pool.cmd("fault", NODE, "gpu4", "burn=fail", "--cure", "clear")  # the checks find nothing: only the test does
    pool.cmd("fault", NODE, "gpu4", "ecc=1")
    person = wait_for("a person is needed", lambda: pool.annotation(NODE, "needs-person"), 180)
    assert "gpu4" in person and "test failed" in person
    new = [a for a in actions(pool) if a["metadata"]["uid"] not in before]
    assert [phase(a) for a in new] == ["Failed"], new
    r = pool.cmd("node", NODE).stdout
    assert "a person" in r and f"tandem node return {NODE}" in r
    pool.cmd("fault", NODE, "--clear")
    pool.cmd("node", "return", NODE, "--reason", "replaced gpu4", "--wait")
    wait_for("the node takes work", lambda: pool.in_service(NODE))


@pytest.mark.feature("B4.4", "B4.5")
def test_dry_run_and_breaker(pool):
    before = uids(pool)
    pool.kubectl("apply", "-f", "-", input=policy(dryRun=True))
    pool.cmd("fault", NODE, "gpu1", "xid=79")
    wait_for("an event says what would be done", lambda: [e for e in pool.items("events", "-A") if e["reason"] == "HealthWaits" and e["involvedObject"]["name"] == NODE and "dry run" in e["message"]])
    assert not held(pool) and uids(pool) == before
    pool.kubectl("apply", "-f", "-", input=policy(dryRun=False, breaker={"percent": 0, "nodes": 0}))
    wait_for("the breaker stops it", lambda: pool.get("healthpolicy", "default").get("status", {}).get("waiting") == [NODE])
    assert not held(pool) and uids(pool) == before
    pool.cmd("fault", NODE, "--clear")


@pytest.mark.feature("A14.4", "A14.5", "A14.6", "A14.8", "B3.2", "B3.3", "B3.4", "B6.1")
def test_devices_at_metrics(pool):
    """Each device with what it measures and who holds it."""
    pool.apply(pool.pod("trains", gpus=2, nodeSelector={"kubernetes.io/hostname": NODE}))
    wait_for("the pod runs", lambda: pool.phase("trains") == "Running")
    job, node, gpus = pool.grant(pool.get("pod", "trains"))
    native = pool.sbatch("--gres=gpu:3", "-w", NODE)
    wait_for("the native job holds its devices", lambda: len(pool.series("agent", "tandem_device_holder", node=NODE, job=str(native))) == 3)
    assert {(have["device"], have["pod"]) for have, v in pool.series("agent", "tandem_device_holder", job=str(job)) if v == 1} == {(f"gpu{i}", "default/trains") for i in gpus}
    assert {have["user"] for have, v in pool.series("agent", "tandem_device_holder", job=str(native))} == {"0"}
    assert len(pool.series("agent", "tandem_device_info", node=NODE, model="Tandem fake GPU")) == 8
    assert [v for have, v in pool.series("agent", "tandem_device_temperature_celsius", node=NODE, device="gpu3")] == [38]
    pool.kubectl("apply", "-f", "-", input=policy(dryRun=True))
    pool.cmd("fault", NODE, "node", "link-downed=mlx5_0/1:3", "disk-warning=nvme0n1:4")
    pool.cmd("fault", NODE, "gpu3", "temp=95", "slow=power-brake", "nvlink-recovery=4")
    wait_for("it is hot", lambda: [v for have, v in pool.series("agent", "tandem_device_temperature_celsius", node=NODE, device="gpu3")] == [95])
    wait_for("that is a fault", lambda: [v for have, v in pool.series("agent", "tandem_node_faults", node=NODE, check="thermal")] == [1])
    assert {have["why"]: v for have, v in pool.series("agent", "tandem_device_slowed", node=NODE, device="gpu3")} == {"heat": 0, "hardware": 0, "power-brake": 1, "power-cap": 0, "set": 0}
    said = wait_for("the Node says it all", lambda: (f := {x["check"]: x["message"] for x in json.loads(pool.annotation(NODE, "faults") or "[]")}) and "clocks" in f and f)
    assert said["link-flaps"].startswith("mlx5_0/1: at least 3 times down in 10 minutes, met by jobs ") and "2 recoveries of NVLink" in said["nvlink-errors"]
    (flaps,) = (x for x in json.loads(pool.annotation(NODE, "faults")) if x["check"] == "link-flaps")
    assert flaps["link"] == "mlx5_0/1" and {job, int(native)} <= set(flaps["met"]["jobs"])
    assert f"It met a fault of {NODE}: mlx5_0/1: at least 3 times down in 10 minutes, met by jobs" in pool.cmd("why", str(native)).stdout
    wait_for("its record keeps it", lambda: f"tandem: fault on {NODE}: mlx5_0/1: at least 3 times" in pool.shell("scontrol", "show", "job", str(native)))
    assert "tandem: fault" not in pool.shell("scontrol", "show", "job", str(job)), "the record of a pod's job is the bridge's"
    assert [v for have, v in pool.series("agent", "tandem_device_link_errors_total", node=NODE)] == [4], "what is not known is not there"
    assert [v for have, v in pool.series("agent", "tandem_port_errors_total", node=NODE, port="mlx5_0/1", kind="link-downed")] == [3]
    assert said["link-flaps"] in pool.cmd("node", NODE).stdout
    assert said["disk-failing"].startswith("nvme0n1: it is not reliable any more")
    assert pool.series("agent", "tandem_disk_info", node=NODE, disk="nvme0n1", kind="nvme")
    assert said["clocks"].startswith("gpu3: slowed by the machine's power brake for a minute or more")
    pool.cmd("fault", NODE, "--clear")
    wait_for("the fault is gone", lambda: not pool.annotation(NODE, "faults"))


@pytest.mark.feature("B2.1")
def test_wrong_words_are_refused(pool):
    for argv, words in [(("node", "reboot", "n99"), "there is no node"), (("node", "mend", NODE), "is no action"), (("fault", NODE, "gpu1", "heat=1"), "is no fault of it"), (("fault", "n99", "gpu1", "xid=1"), "there is no virtual node"),
                        (("node", "reset-gpu", NODE, "--device", "gpu63"), "has no gpu63"),
                        (("fault", NODE, "gpu63", "xid=1"), "has no gpu63"), (("fault", NODE, "gpu1", "xid=many"), "give a number")]:
        r = pool.cmd(*argv, check=False)
        assert r.returncode and words in r.stderr, r
    bad = {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeAction", "metadata": {"name": "x"}, "spec": {"node": NODE, "action": "explode"}}
    assert "spec.action" in pool.run("kubectl", "create", "-f", "-", input=json.dumps(bad), check=False).stderr
