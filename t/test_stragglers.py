"""Native jobs of which one rank is slower than the others: told of, named, queued again or its node drained; what a user writes is never more than his word."""
import json
import pathlib
import re

import pytest

from gangs import GANG, SIZE, all_run, marked, notes
from harness import wait_for
from laptop import Laptop

pytestmark = [pytest.mark.embedded, pytest.mark.feature("B6.4", "B6.5")]
SAMPLE = pathlib.Path(__file__).resolve().parent.parent / "deploy/examples/paced.sh"


@pytest.fixture
def watched(pool):
    """Says what the policy about stragglers is; afterwards there is none."""
    def policy(**straggler):
        pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": {"straggler": straggler}}))
        wait_for("the agents know it", lambda: all(straggler.items() <= json.loads(n["metadata"]["annotations"].get("tandem.dev/straggler", "{}")).items() for n in pool.items("nodes")))
        return pool
    pool.shell("sh", "-c", "mkdir -p /home/pace && chown researcher: /home/pace")
    yield policy
    for n in pool.nodes:
        pool.cmd("fault", n, "--clear", check=False)
    pool.kubectl("delete", "healthpolicies", "--all")
    wait_for("the agents know it", lambda: not any(n["metadata"]["annotations"].get("tandem.dev/straggler") for n in pool.items("nodes")))
    pool.clean()
    pool.shell("sh", "-c", "rm -rf /home/pace")


def submit(pool, script, *argv):
    return int(pool.as_user("researcher", "sbatch", "--parsable", "--mem=100M", "-D", "/home/pace", "-o", "out", *argv, input=script).stdout.strip())


def test_the_slow_node_of_a_running_job_is_named_and_drained_when_it_is_injected(watched, tmp_path):
    """Three ranks on three nodes go step by step; then one node computes forty times as long. (Ten times as long as the others twice, no load makes a rank.)"""
    pool = watched(percent=1000, steps=2, everySeconds=1, action="drain", partitions=["*"])
    before = pool.counted("agent", "tandem_job_stragglers_total", action="drain")
    job = submit(pool, SAMPLE.read_text(), "-w", "n0,n1,n2", "--export=ALL,STEP_MS=100")
    wait_for("its ranks go step by step", lambda: pool.shell("sh", "-c", "cat /home/pace/beat.2 || true"))
    pool.cmd("fault", "n1", "node", "slow=40")
    wait_for("it is told of", lambda: " on n1 computes " in pool.admin_comment(job))
    text = pool.admin_comment(job)
    found = re.match(r"tandem: straggler: rank (\d) on n1 computes (\d+\.\d) times as long as the others \(step \d+: [\d.]+ s, median of 3 ranks [\d.]+ s\); seen \S+Z *$", text)
    assert found and float(found[2]) >= 10, text
    assert pool.shell("sh", "-c", f"cat /home/pace/beat.{found[1]}").split()[2] == "n1"  # it is the rank that runs there
    wait_for("the node takes no more jobs", lambda: "DRAIN" in pool.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").upper())
    assert pool.job(job)["JobState"] == "RUNNING"
    (act,) = wait_for("a NodeAction waits for the job", lambda: [a for a in pool.items("nodeactions") if f"straggler of job {job}: rank {found[1]} on n1" in a["spec"].get("reason", "") and a.get("status", {}).get("step") == "drain"])
    assert act["spec"]["action"] == "test" and act["spec"]["policy"] == "default" and act["spec"]["node"] == "n1"
    why = pool.cmd("why", str(job)).stdout
    assert f"straggler: rank {found[1]} on n1 computes" in why
    shown = next(j for j in Laptop(pool, tmp_path, "researcher").json("top")["ailing"] if j["id"] == job)["straggler"]
    assert shown["node"] == "n1" and shown["rank"] == int(found[1]) and shown["words"] in text and shown["seen"] > 0
    wait_for("it is counted", lambda: pool.counted("agent", "tandem_job_stragglers_total", action="drain") == before + 1)
    pool.cmd("fault", "n1", "--clear")
    pool.shell("scancel", job)
    wait_for("it is back, tested", lambda: pool.get("nodeaction", act["metadata"]["name"])["status"].get("phase") == "Succeeded" and pool.in_service("n1"))


FORGED = """#!/usr/bin/python3
import os, time
os.mkfifo("beat.3"); os.symlink("/etc/shadow", "beat.4"); os.symlink("beat.0", "beat.5"); os.mkdir("beat.6"); os.symlink("/dev/zero", "beat.12")
for rank, text in ((7, chr(0) * 3000000), (8, "9 nan n1" + chr(10)), (9, "9 9 n1 $(reboot)" + chr(10)), (10, "9 9 n1"), (11, "9 9 ../../n1" + chr(10))):
    with open(f"beat.{rank}", "w") as f:
        f.write(text)
for step in range(1000000):
    for rank, seconds, node in ((0, 0.1, "n0"), (1, 0.1, "n0"), (15, 0.1, "n0"), (16, 0.1, "n0"), (2, 0.4, "n2"), *((r, 0.3 if os.path.exists(f"slow.{r}") else 0.1, "n0") for r in (13, 14))):
        with open("beat.new", "w") as f:
            print(step, seconds, node, file=f)
        os.rename("beat.new", f"beat.{rank}")
    time.sleep(0.3)
"""


def test_what_a_user_writes_is_his_word_only(watched):
    """Links, pipes and nonsense are not read; a node of somebody else is not drained; for whom no list names it is only told; who is named is queued again."""
    policy = {"percent": 200, "steps": 2, "everySeconds": 1}
    pool = watched(**policy, action="drain", partitions=["*"])
    job = submit(pool, FORGED, "-w", "n0", "--requeue", "--export=ALL,TANDEM_HEARTBEAT=beat")

    def told(rank, node, times, seconds, more=""):
        its = rf"tandem: straggler: rank {rank} on {node} computes {times} times as long as the others \(step \d+: {seconds} s, median of 7 ranks 0\.1 s\){more}; seen \S+Z *$"
        wait_for(f"rank {rank} is told of", lambda: f"rank {rank} " in pool.admin_comment(job))
        assert re.match(its, pool.admin_comment(job)), pool.admin_comment(job)

    told(2, "n2", r"4\.0", r"0\.4", "; nothing is done, because that is no node of this job")
    watched(**policy, action="requeue", partitions=["another"], qos=["another"])
    pool.shell("touch", "/home/pace/slow.13")
    told(13, "n0", r"3\.0", r"0\.3")
    assert pool.job(job)["JobState"] == "RUNNING" and pool.job(job)["Restarts"] == "0"
    watched(**policy, action="requeue", partitions=["*"])
    pool.shell("touch", "/home/pace/slow.14")
    wait_for("it is queued again", lambda: pool.job(job).get("Restarts") == "1")
    told(14, "n0", r"3\.0", r"0\.3")
    assert "dr" not in pool.shell("sinfo", "-h", "-N", "-o", "%T")


def test_a_pod_of_a_gang_whose_gpu_idles_while_the_others_work_is_told_of(pool, watched):
    """Three pods of one gang; the GPUs of two compute, and that of the third hardly does. Of two that work nobody is told."""
    before = pool.counted("bridge", "tandem_pod_stragglers_total")
    pool.apply(*[marked(pool, f"slow-{i}", {GANG: "slow"}, {SIZE: "3"}) for i in range(3)])
    pods = all_run(pool, "slow", 3)
    for name, p in pods.items():
        pool.cmd("fault", p["spec"]["nodeName"], f"gpu{json.loads(notes(p)['tandem.dev/devices'])['nvidia.com/gpu']}", f"use={10 if name == 'slow-1' else 90}")
    watched(percent=150, steps=2, everySeconds=1)  # not before: one after the other they begin to compute
    said = lambda: [e for e in pool.items("events") if e["reason"] == "Straggler" and e["involvedObject"]["name"].startswith("slow-")]
    event = wait_for("it is told of", said)[0]
    assert event["involvedObject"]["name"] == "slow-1" and re.search(r"compute \d+ % of the time, those of the other pods of its gang [4-9]\d %", event["message"])
    assert {e["involvedObject"]["name"] for e in said()} == {"slow-1"} and pool.counted("bridge", "tandem_pod_stragglers_total") == before + 1
