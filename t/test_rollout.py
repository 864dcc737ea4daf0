"""A change of the configuration while jobs and pods come all the time (row A2.10)."""
import json
import re

import pytest

from harness import wait_for

AT_MOST = 24  # of each kind: a loaded machine takes long, and its jobs must all end
RACK = "topology.tandem.dev/rack"


@pytest.fixture
def own(pool):
    """What the test changes is as before afterwards."""
    spec = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]
    node = pool.nodes[-1]
    rack = pool.get("node", node)["metadata"]["labels"][RACK]
    yield pool, spec, node
    pool.kubectl("label", "node", node, f"{RACK}={rack}", "--overwrite")
    pool.change({"config": {"slurmConf": {"SchedulerParameters": spec.get("config", {}).get("slurmConf", {}).get("SchedulerParameters")}}, "partitions": spec["partitions"]}, idle=False)
    wait_for("the feature is as before", lambda: rack in pool.shell("sinfo", "-h", "-N", "-n", node, "-o", "%f").strip().split(","))
    pool.clean()


@pytest.mark.embedded  # the SlurmCluster of the real plane lists no partitions that one could be added to
@pytest.mark.feature("A2.10")
def test_none_is_lost_and_none_fails_while_the_configuration_changes(own):
    """The scheduler's parameters, a partition and a feature of a node change one after the other under a stream of short jobs and pods."""
    pool, spec, node = own
    pool.shell("rm", "-f", "/home/rolled")
    jobs, pods = [], []

    def under_load(done):
        def look():
            if len(jobs) < AT_MOST:
                jobs.append(pool.sbatch("-c1", "-o", "/dev/null", script="#!/bin/sh\nsleep 0.3\necho $SLURM_JOB_ID >>/home/rolled\n"))
                pods.append(f"short{len(pods)}")
                pool.apply(pool.pod(pods[-1], cpu="500m", command=["sleep", "0.3"], restartPolicy="Never"))
            return done()
        return look

    def patch(what):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": what}))
    usual = re.search(r"^SchedulerParameters *= (.*)$", pool.shell("scontrol", "show", "config"), re.M)[1]
    long = pool.sbatch("-c1", "-w", node)  # its node may change only when it has ended
    wait_for("it runs", under_load(lambda: pool.job(long).get("JobState") == "RUNNING"))
    patch({"config": {"slurmConf": {"SchedulerParameters": f"{usual},bf_max_job_test=77"}}})
    wait_for("slurmctld has the parameter", under_load(lambda: "bf_max_job_test=77" in pool.shell("scontrol", "show", "config")))
    patch({"partitions": [*spec["partitions"], {"name": "more", "nodeSets": ["pool"], "maxTime": "1:00:00"}]})
    wait_for("the partition is there", under_load(lambda: pool.shell("sinfo", "-h", "-p", "more", "-o", "%l").strip() == "1:00:00"))
    pool.kubectl("label", "node", node, f"{RACK}=r77", "--overwrite")
    wait_for("the node drains", under_load(lambda: pool.shell("sinfo", "-h", "-N", "-n", node, "-o", "%T").startswith("drain")))
    assert pool.job(long)["JobState"] == "RUNNING"
    pool.shell("scancel", long)
    wait_for("the feature is there", under_load(lambda: "r77" in pool.shell("sinfo", "-h", "-N", "-n", node, "-o", "%f").strip().split(",")))
    last = pool.sbatch("-C", "r77", "-p", "more", "-o", "/dev/null", script="#!/bin/sh\necho $SLURM_JOB_ID >>/home/rolled\n")

    wait_for("all have ended", lambda: not {last, *jobs} & set(pool.squeue()))
    assert sorted(pool.shell("cat", "/home/rolled").split(), key=int) == [str(j) for j in sorted([last, *jobs])], "each job ran to its end, once"
    wait_for("all pods have ended", lambda: all(p["status"].get("phase") in ("Succeeded", "Failed") for p in pool.items("pods", "-n", "default")))
    ends = {p["metadata"]["name"]: (p["status"]["phase"], p["status"].get("reason")) for p in pool.items("pods", "-n", "default")}
    assert ends == {p: ("Succeeded", None) for p in pods}
