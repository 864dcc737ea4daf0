"""Tests of several nodes together before a job of several nodes: an all-reduce, and shared storage."""
import json
import re

import pytest

from harness import wait_for

pytestmark = pytest.mark.embedded  # faults are injected into virtual nodes
SICK, FILLED = "n1", "n3"


def back(pool):
    """The sick node is in service, and nothing is wrong with it."""
    return not pool.annotation(SICK, "faults") and pool.in_service(SICK)


@pytest.fixture
def tested(pool):
    """The shared pool with a policy by which every job of several nodes has them tested; afterwards as it was."""
    spec = {"attempts": 50, "preflight": {"partitions": ["*"], "namespaces": ["default"], "milliseconds": 10, "exchange": {"megabytes": 2, "storage": "/home"}}}
    pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": spec}))
    wait_for("the agents know it", lambda: all("exchange" in (pool.annotation(n, "preflight") or "") for n in pool.nodes))
    yield pool
    pool.cmd("fault", SICK, "--clear", check=False)
    pool.clean()
    wait_for("the node is in service", lambda: back(pool), 120)
    pool.kubectl("delete", "healthpolicies,nodeactions", "--all")
    wait_for("the agents know it", lambda: not any(pool.annotation(n, "preflight") for n in pool.nodes))


def full(pool):
    """A job that has every device of one node, so that a job of three gets the others."""
    job = pool.sbatch("--gres=gpu:8", "-w", FILLED)
    wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    return job


@pytest.mark.feature("B5.2", "B5.6", "B5.7")
def test_a_node_that_exchanges_no_data_gets_no_job_of_several_nodes(tested):
    """Its job starts on others by itself, no other node is drained, and the node returns when it does well again."""
    before = {a["metadata"]["uid"] for a in tested.items("nodeactions")}
    filler = full(tested)
    tested.cmd("fault", SICK, "node", "link=down")
    job = tested.sbatch("--requeue", "-N3", "--gres=gpu:1", script="#!/bin/sh\nscontrol show hostnames >>/home/ran-together\nexec sleep 100000\n")
    wait_for("it is queued again", lambda: (j := tested.job(job)).get("JobState") == "PENDING" and j.get("Restarts") == "1")
    assert tested.admin_comment(job).startswith(f"tandem: pre-flight failed 1 time, on {SICK}: it exchanges no data with others")
    assert re.fullmatch(rf"{SICK}\s*", tested.shell("sinfo", "-h", "-N", "-t", "drain,draining,drained", "-o", "%N"))
    tested.shell("scancel", filler)
    wait_for("it runs", lambda: tested.job(job).get("JobState") == "RUNNING", 180)
    wait_for("it ran on the others", lambda: sorted(tested.shell("cat", "/home/ran-together", check=False).split()) == ["n0", "n2", "n3"])
    tested.cmd("fault", SICK, "--clear")
    wait_for("the node takes work", lambda: back(tested), 120)
    done = [(a["spec"]["node"], a["spec"]["action"], a["status"]["phase"]) for a in tested.items("nodeactions") if a["metadata"]["uid"] not in before]
    assert sorted(done) == [(SICK, "drain", "Succeeded"), (SICK, "return", "Succeeded")]
    tested.shell("rm", "-f", "/home/ran-together")


@pytest.mark.feature("B5.3", "B5.5")
def test_a_gang_of_pods_starts_only_where_shared_storage_is_what_was_written(tested):
    filler = full(tested)
    tested.cmd("fault", SICK, "node", "storage=fail")
    gang = [tested.pod(f"g{i}", gpus=8) for i in range(3)]
    for pod in gang:
        pod["metadata"].update(labels={"tandem.dev/gang": "together"}, annotations={"tandem.dev/gang-size": "3"})
    tested.apply(*gang)
    wait_for("the node is held", lambda: "shared storage" in (tested.annotation(SICK, "hold") or ""), 90)
    assert not any(p["spec"].get("nodeName") for p in tested.items("pods"))
    tested.shell("scancel", filler)
    wait_for("the gang runs", lambda: all(tested.phase(f"g{i}") == "Running" for i in range(3)), 120)
    assert sorted(p["spec"]["nodeName"] for p in tested.items("pods")) == ["n0", "n2", "n3"]


@pytest.mark.nightly
@pytest.mark.feature("B3.7")
def test_idle_nodes_are_tested_together_until_somebodys_work_comes(tested):
    """All that are idle exchange data; who does not is located and leaves service as the policy says; a node with work is left out."""
    together = lambda n=SICK: json.loads(tested.annotation(n, "tested-together") or "[]")  # noqa: E731

    def policy(**spec):
        spec = {"attempts": 50, "idleTests": {"everySeconds": 10, "together": {"nodes": 4, "megabytes": 1}}, **spec}
        tested.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": spec}))
    busy = full(tested)
    tested.cmd("fault", SICK, "node", "link=down")
    policy(rules=[{"check": "exchange", "action": "none"}])
    said = wait_for("it is located", lambda: next((t for t in together() if t["result"] == "failed"), None), 180)
    assert SICK in said["message"] and FILLED not in said["nodes"] and SICK in said["nodes"], said
    wait_for("it is a fault", lambda: "its test with others while idle failed" in (tested.annotation(SICK, "faults") or ""))
    assert tested.in_service(SICK), "the policy only tells"
    assert re.search(rf"Together .*failed with .*{SICK}", tested.cmd("node", SICK).stdout)
    policy()
    wait_for("it leaves service", lambda: "its test with others while idle failed" in (tested.annotation(SICK, "hold") or ""))
    tested.cmd("fault", SICK, "--clear")
    wait_for("the node takes work", lambda: back(tested), 120)
    tested.shell("scancel", busy)
    done = wait_for("all are tested", lambda: next((t for t in together(FILLED) if t["result"] == "passed"), None), 180)
    assert FILLED in done["nodes"] and done["MBps"] > 0
    assert done["at"] in tested.cmd("history", FILLED).stdout
