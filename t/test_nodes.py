"""How many nodes a NodeSet has, which are used first, and which come and go."""
import json

import pytest

from harness import wait_for

NS = ("-n", "slurm")
SET = ("nodeset", "pool", *NS)


def sinfo(pool):
    """{node: state}"""
    return dict(line.split() for line in pool.shell("sinfo", "-h", "-N", "-o", "%N %T").splitlines())


def patch(pool, spec):
    pool.kubectl("patch", *SET, "--type", "merge", "-p", json.dumps({"spec": spec}))


def settled(pool):
    """Both nodes work, and none of them is about to be made anew."""
    o = pool.get(*SET)
    s = o.get("status", {})
    return (s.get("observedGeneration", 0) >= o["metadata"]["generation"] and s.get("updated") == s.get("ready") == s.get("desired") == 2
            and list(sinfo(pool).values()) == ["idle", "idle"])


@pytest.mark.feature("A5.6")
def test_a_node_that_an_administrator_set_down_stays_so_until_he_resumes_it(own_pool):
    """Slurm itself would lift it when slurmd registers the next time."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    pool.shell("scontrol", "update", "nodename=n1", "state=down", "reason=bad fan")
    record = lambda: pool.shell("scontrol", "show", "node", "n1")  # noqa: E731
    wait_for("a drain holds it", lambda: "DRAIN" in record())
    assert "Reason=bad fan [root" in record()
    pool.shell("scontrol", "reconfigure")  # every slurmd starts anew and registers
    wait_for("Slurm has lifted its part", lambda: "State=IDLE+DRAIN" in record())
    assert "Reason=bad fan [root" in record()
    wait_for("Kubernetes shows it", lambda: "bad fan" in json.dumps(pool.get("node", "n1")["metadata"]["annotations"]))
    pool.shell("scontrol", "update", "nodename=n1", "state=resume")
    wait_for("it works", lambda: list(sinfo(pool).values()) == ["idle", "idle"])


@pytest.mark.feature("A4.4")
def test_a_nodeset_goes_to_zero_and_comes_back(own_pool):
    """The job that runs ends by itself, no node and no slurmd is left, a job waits; with nodes again it runs."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    job = pool.cmd("shell", "--", "sbatch", "--parsable", "-w", "n0", "--wrap", "until [ -e /shared-go ]; do sleep 0.1; done").stdout.strip()
    state = lambda ident: pool.shell("squeue", "-h", "-j", ident, "-o", "%T").strip()  # noqa: E731
    wait_for("it runs", lambda: state(job) == "RUNNING")
    patch(pool, {"replicas": 0})
    wait_for("the idle node is gone, the other waits for its job", lambda: sinfo(pool) == {"n0": "draining"})
    assert state(job) == "RUNNING"
    pool.shell("scancel", job)
    wait_for("none is left", lambda: sinfo(pool) == {} and pool.items("pods", *NS, "-l", "app.kubernetes.io/name=slurmd") == [])
    wait_for("the status says so", lambda: (s := pool.get(*SET)["status"])["desired"] == s["assigned"] == 0)
    patch(pool, {"replicas": 1})
    wait_for("one is back", lambda: list(sinfo(pool).values()) == ["idle"])
    assert pool.cmd("shell", "--", "srun", "hostname").stdout.strip() in ("n0", "n1")
    patch(pool, {"replicas": None})
    wait_for("both are back", lambda: list(sinfo(pool).values()) == ["idle", "idle"])


@pytest.mark.feature("A4.6")
def test_nodes_of_a_lower_weight_are_used_first(own_pool):
    """Two NodeSets, reserved and on demand: a job that fits on both goes to the reserved one while it has room."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    pool.kubectl("label", "node", "n0", "capacity=dear")
    try:
        away = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "capacity", "operator": "DoesNotExist"}]}]}}}
        before = pool.get(*SET)["spec"].get("affinity")
        patch(pool, {"affinity": away, "slurm": {"weight": 1}})
        pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "dear", "namespace": "slurm"},
                    "spec": {"clusterName": "main", "nodeSelector": {"capacity": "dear"}, "slurm": {"weight": 100}}})
        weight = lambda n: f"Weight={n}"  # noqa: E731
        wait_for("Slurm knows what each costs", lambda: weight(100) in pool.shell("scontrol", "show", "node", "n0") and weight(1) + " " in pool.shell("scontrol", "show", "node", "n1")
                 and list(sinfo(pool).values()) == ["idle", "idle"])
        run = lambda *a: pool.cmd("shell", "--", "sbatch", "--parsable", "--gres=gpu:8", *a, "--wrap", "sleep 1000").stdout.strip()  # noqa: E731
        where = lambda ident: pool.shell("squeue", "-h", "-j", ident, "-t", "R", "-o", "%N").strip()  # noqa: E731
        first = run()
        wait_for("it runs on the reserved one", lambda: where(first))
        assert where(first) == "n1"
        second = run()
        wait_for("it runs on the other", lambda: where(second))
        assert where(second) == "n0"
        pool.shell("scancel", first, second)
    finally:
        pool.kubectl("delete", "nodeset", "dear", *NS, "--ignore-not-found")
        pool.kubectl("label", "node", "n0", "capacity-")
        patch(pool, {"affinity": before, "slurm": {"weight": None}})


ELSEWHERE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}]}}}


def partitions(pool, value):
    pool.kubectl("patch", "slurmcluster", "main", *NS, "--type", "merge", "-p", json.dumps({"spec": {"partitions": value}}))


def slurmds(pool, nodeset):
    return [p["spec"]["nodeName"] for p in pool.items("pods", *NS, "-l", f"app.kubernetes.io/name=slurmd,tandem.dev/nodeset={nodeset}")]


@pytest.mark.feature("A4.1", "A4.2", "A4.3")
def test_a_node_that_is_deleted_leaves_slurm_and_one_that_appears_joins_it(own_pool):
    """Nothing is restarted, no record stays behind, and the job of the machine that is gone does not stay on it."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    slurmctld = pool.get("pod", "main-slurmctld-0", *NS)["metadata"]["uid"]
    job = pool.shell("sbatch", "--parsable", "--no-requeue", "-w", "n1", "--wrap", "sleep 1000").strip()
    state = lambda: pool.shell("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()  # noqa: E731
    wait_for("it runs", lambda: state() == "RUNNING")
    born = pool.get("node", "n1")["metadata"]["uid"]
    # Its kubelet registers it once more within seconds, maybe at once: so it is deleted until that was seen.
    wait_for("Slurm has no record of it", lambda: pool.kubectl("delete", "node", "n1", "--ignore-not-found") is not None and sinfo(pool).keys() == {"n0"})
    wait_for("its job is over", lambda: state() == "NODE_FAIL")
    # To Kubernetes, and so to Slurm, what comes is a new node.
    wait_for("a new node joins", lambda: sinfo(pool) == {"n0": "idle", "n1": "idle"})
    assert pool.get("node", "n1")["metadata"]["uid"] != born
    assert pool.shell("srun", "-w", "n1", "hostname").strip() == "n1"
    assert pool.get("pod", "main-slurmctld-0", *NS)["metadata"]["uid"] == slurmctld


@pytest.fixture
def burst(own_pool):
    """n1 comes on demand, for the partition burst alone; afterwards it is as before."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    pool.kubectl("label", "node", "n1", "tier=burst")
    try:
        patch(pool, {"affinity": ELSEWHERE})
        pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "burst", "namespace": "slurm"},
                    "spec": {"clusterName": "main", "nodeSelector": {"tier": "burst"}, "onDemand": {"idleTime": "1s"}}})
        partitions(pool, [{"name": "all", "default": True}, {"name": "burst", "nodeSets": ["burst"]}])
        where = lambda: sorted(pool.shell("sinfo", "-h", "-N", "-o", "%R %N %T").splitlines())  # noqa: E731
        wait_for("Slurm shows what could come, and where", lambda: where() == ["all n0 idle", "burst n1 idle~"])
        yield pool
    finally:
        partitions(pool, None)
        pool.kubectl("delete", "nodeset", "burst", *NS, "--ignore-not-found")
        patch(pool, {"affinity": None})
        pool.kubectl("label", "node", "n1", "tier-")
        wait_for("n1 is always there", lambda: sinfo(pool) == {"n0": "idle", "n1": "idle"})


@pytest.mark.feature("A4.5", "A4.7", "A4.8")
def test_a_node_on_demand_comes_for_a_job_and_goes_when_it_is_idle(burst):
    """Jobs and pods run there, whom the partition does not let in cannot raise it, and what no node could hold is refused. The operator dies between
    Slurm's wish and the pod."""
    pool = burst
    status = lambda: pool.get("nodeset", "burst", *NS)["status"]  # noqa: E731
    wait_for("the status says so", lambda: status().get("poweredDown") == 1 and status()["desired"] == 0)
    assert slurmds(pool, "burst") == []
    wait_for("people see it", lambda: "powered down" in pool.cmd("nodes").stdout)
    for wrong in (("-p", "burst", "-N2"), ("-p", "all", "-w", "n1"), ("-p", "burst", "--gres=gpu:9")):
        refused = pool.cmd("shell", "--", "sbatch", *wrong, "--wrap", "true", check=False)
        assert refused.returncode != 0 and "node" in refused.stderr, wrong
    job = pool.shell("sbatch", "--parsable", "-p", "burst", "--gres=gpu:1", "--wrap", "sleep 1000").strip()
    pool.kill_role("operator")
    wait_for("its slurmd has come", lambda: sinfo(pool)["n1"] == "mixed" and slurmds(pool, "burst") == ["n1"])
    assert pool.shell("squeue", "-h", "-j", job, "-o", "%N").strip() == "n1"
    assert pool.shell("srun", "-p", "burst", "hostname").strip() == "n1"
    pod = pool.pod("raised", gpus=2)
    pod["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "burst"}
    pool.apply(pod)
    wait_for("a pod runs there", lambda: pool.phase("raised") == "Running")
    assert pool.get("pod", "raised")["spec"]["nodeName"] == "n1"
    pool.kubectl("delete", "pod", "raised")
    pool.shell("scancel", job)
    wait_for("it is given back", lambda: sinfo(pool)["n1"] in ("idle%", "idle~") and slurmds(pool, "burst") == [])  # % for a moment
    wait_for("nothing is wrong with it", lambda: {c["type"]: c["status"] for c in status()["conditions"]}["Ready"] == "True" and status()["poweredDown"] == 1)


@pytest.fixture
def cloud(own_pool):
    """No machine is there: n0 and n1 get the labels when one is made. Afterwards the pool is as before."""
    pool = own_pool
    wait_for("both are idle", lambda: settled(pool))
    try:
        patch(pool, {"nodeSelector": {"cloud": "yes"}, "tolerations": [{"key": "example.com/gpu", "operator": "Exists"}], "autoscale": {"min": 0, "max": 2, "idleTime": "1s", "node": {"cpus": 2, "memory": "200Mi", "gres": "gpu:8"}}})
        wait_for("no machine is there, and two may be made", lambda: slurmds(pool, "pool") == [] and sorted(sinfo(pool)) == ["pool-to-come-1", "pool-to-come-2"])
        yield pool
    finally:
        pool.shell("scancel", "-u", "root")
        patch(pool, {"nodeSelector": None, "tolerations": None, "autoscale": None})
        pool.kubectl("label", "node", "n0", "n1", "cloud-")
        wait_for("both are there", lambda: sinfo(pool) == {"n0": "idle", "n1": "idle"})


@pytest.mark.feature("A4.5", "A4.8")
def test_a_machine_is_made_for_jobs_that_wait_and_goes_when_it_is_idle(cloud):
    """The test is the cluster autoscaler: it makes a machine for a pod that no node has room for, and takes one away that has no pod. The first jobs come
    when there is none, and wait for what the NodeSet says of a machine."""
    pool = cloud
    asked = lambda: [p for p in pool.items("pods", *NS, "-l", "app.kubernetes.io/name=wanted-node") if "deletionTimestamp" not in p["metadata"]]  # noqa: E731
    growing = lambda: next((c["reason"] for c in pool.get(*SET)["status"]["conditions"] if c["type"] == "Growing"), None)  # noqa: E731
    submit = lambda *a: pool.shell("sbatch", "--parsable", "--mem=100M", "--gres=gpu:8", *a, "--wrap", "sleep 1000").strip()  # noqa: E731
    where = lambda ident: pool.shell("squeue", "-h", "-j", ident, "-t", "R", "-o", "%N").strip()  # noqa: E731
    refused = pool.cmd("shell", "--", "sbatch", "--gres=gpu:9", "--wrap", "true", check=False)
    assert refused.returncode != 0 and "node" in refused.stderr  # no machine of this kind could have it
    assert pool.get("slurmcluster", "main", *NS)["status"]["autoscale"] == [{"nodeSet": "pool", "max": 2, "taints": ["example.com/gpu"]}]
    first = submit()
    wait_for("a machine is asked for", lambda: len(asked()) == 1)
    assert asked()[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "200Mi", "nvidia.com/gpu": "8"}
    assert "NodeSet pool shall have 1 node " in pool.cmd("why", first).stdout
    pool.kubectl("label", "node", "n0", "cloud=yes")
    wait_for("it runs", lambda: where(first) == "n0")
    submit("-H")
    submit("-d", f"afterok:{first}")
    second = submit()
    wait_for("a machine is asked for", lambda: len(asked()) == 1)
    wait_for("no node has room for it", lambda: any(c["type"] == "PodScheduled" and c["reason"] == "Unschedulable" for p in asked() for c in p["status"].get("conditions", [])))
    wait_for("the NodeSet says why", lambda: growing() == "JobsWait")
    assert f"job {second} of " in next(c["message"] for c in pool.get(*SET)["status"]["conditions"] if c["type"] == "Growing")
    pool.kubectl("label", "node", "n1", "cloud=yes")
    wait_for("it runs there", lambda: where(second) == "n1")
    wait_for("no more are asked for", lambda: asked() == [] and growing() == "Enough")
    pool.shell("scancel", "-u", "root")
    wait_for("none is left", lambda: slurmds(pool, "pool") == [] and set(sinfo(pool)) == {"pool-to-come-1", "pool-to-come-2"})
    assert asked() == []
    # What Kubernetes and its people see of machines that are not there: nothing.
    assert pool.get("slurmcluster", "main", *NS)["status"]["nodes"]["total"] == 0
