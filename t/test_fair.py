"""Whose the pool is: resource groups, and what is lent comes back (rows C1 C8 C3)."""
import datetime
import json
import re
import time

import pytest

from harness import wait_for

pytestmark = [pytest.mark.planes, pytest.mark.embedded]  # not tried beside a kubelet yet


def nodeset(name, node):
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": name, "namespace": "slurm"},
            "spec": {"clusterName": "main", "nodeSelector": {"kubernetes.io/hostname": node}}}


def tenant(name, quota=None, **spec):
    body = {"cluster": {"namespace": "slurm", "name": "main"}, **spec, **({"quota": quota} if quota else {})}
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": body}


USERS = ("researcher", "other", "guest")


@pytest.fixture(scope="module")
def up(own_pool):
    """Node n0 is everybody's, n1 is the group fast: physics, optics below it, and user guest have it. What is borrowed comes back."""
    users = own_pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"] + [{"name": "other", "uid": 4242}, {"name": "guest", "uid": 4243}]
    own_pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n0"}}}))
    own_pool.apply(nodeset("fast", "n1"))
    own_pool.change({"users": users, "accounting": {"enforce": "limits", "openAccount": "open"}, "preemption": {"reclaim": {}, "qos": [{"name": "patient", "graceTime": "6s", "users": ["researcher"]}]},
                     "resourceGroups": [{"name": "fast", "nodeSets": ["fast"], "users": ["guest"], "placement": "spread"}, {"name": "sealed", "nodeSets": ["fast"]}]}, idle=False)
    wait_for("slurmctld has it", lambda: "associations,limits,qos" in own_pool.shell("scontrol", "show", "config", check=False), 200)
    own_pool.apply(tenant("physics", {"gpu": 2}, borrowing={"limit": {"gpu": 14}}, resourceGroups=["fast"], members=[{"user": "researcher"}]),
                   tenant("optics", parent="physics", members=[{"user": "researcher"}]), tenant("biology", {"gpu": 4}, members=[{"user": "other"}]),
                   # Without quotas, so nothing is lent.
                   tenant("chemistry", resourceGroups=["fast"], members=[{"user": "researcher"}]), tenant("geology", members=[{"user": "other"}]))
    for name in ("physics", "optics", "biology", "chemistry", "geology"):
        try:
            wait_for(f"{name} is ready", lambda: ready(own_pool, name))
        except AssertionError as e:
            raise AssertionError(f"{e}: {own_pool.kubectl('get', 'tenant', name, '-o', 'yaml')}") from None
    wait_for("both nodes are there", lambda: own_pool.idle_nodes() == 2, 200)
    wait_for("Slurm knows whose the group is", lambda: submit(own_pool, "researcher", "-A", "optics", "-p", "fast", check=False).returncode == 0)
    own_pool.shell("scancel", "-u", "researcher")
    return own_pool


@pytest.fixture
def pool(up):
    for ns in ("physics", "optics", "biology"):
        up.kubectl("delete", "pods", "--all", "-n", ns, "--wait=false", "--grace-period=1")
    for u in USERS:
        up.shell("scancel", "-u", u)
    up.clean()
    wait_for("no pods of a test before are left", lambda: not [p for ns in ("physics", "optics", "biology") for p in up.items("pods", "-n", ns)])
    return up


def ready(pool, name):
    o = pool.get("tenant", name)
    return any(c["type"] == "Ready" and c["status"] == "True" and c.get("observedGeneration") == o["metadata"]["generation"] for c in o.get("status", {}).get("conditions", []))


def submit(pool, user, *argv, check=True, script="#!/bin/sh\nexec sleep 100000\n"):
    return pool.cmd("shell", "--user", user, "--", "sh", "-c", 'cd /; exec "$@"', "sh", "sbatch", "--parsable", "--mem=50M", "-o", "/dev/null", *argv, check=check,
                    input=script)


def sbatch(pool, user, *argv):
    return int(submit(pool, user, *argv).stdout)


def running(pool, job):
    return pool.squeue()[job]["state"] == "RUNNING"


@pytest.mark.feature("C8.1", "C8.2", "C3.7")
def test_a_group_is_used_by_whom_it_is_granted_to(pool):
    """By its Tenant, those below it and single users, natively and by pods; others are refused by name, and by no way around."""
    assert re.search(r"LLN=YES", pool.shell("scontrol", "show", "partition", "fast")) and "Nodes=n0" in pool.shell("scontrol", "show", "partition", "all")
    jobs = [sbatch(pool, "researcher", "-A", "physics", "-p", "fast"), sbatch(pool, "researcher", "-A", "optics", "-p", "fast"), sbatch(pool, "guest", "-p", "fast")]
    both = sbatch(pool, "researcher", "-A", "physics")  # names none: his groups first, then everybody's nodes
    free = sbatch(pool, "other", "-A", "biology")
    wait_for("they run", lambda: all(running(pool, j) for j in (*jobs, both, free)))
    assert {pool.squeue()[j]["nodes"] for j in (*jobs, both)} == {"n1"} and pool.squeue()[free]["nodes"] == "n0"

    for user, argv in (("other", ("-A", "biology", "-p", "fast")), ("other", ("-A", "biology", "-p", "all,fast")), ("researcher", ("-A", "open", "-p", "fast")),
                       ("researcher", ("-A", "physics", "-p", "sealed"))):
        r = submit(pool, user, *argv, check=False)
        assert r.returncode and re.search(r"the resource group (fast|sealed) is not granted to account \w+", r.stdout + r.stderr), (user, argv, r.stdout, r.stderr)
    held = sbatch(pool, "other", "-A", "biology", "-H")
    moved = pool.cmd("shell", "--user", "other", "--", "scontrol", "update", f"jobid={held}", "partition=fast", check=False)
    assert moved.returncode and "is not granted" in moved.stdout + moved.stderr and pool.job(held)["Partition"] == "all"

    sly = pool.pod("sly", gpus=1, ns="biology")
    sly["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "all,fast"}
    mine = [pool.pod("mine", gpus=1, ns="physics"), pool.pod("below", gpus=1, ns="optics")]
    for p in mine:
        p["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "fast"}
    pool.apply(*mine, pool.pod("any", gpus=6, ns="physics"), pool.pod("more", gpus=6, ns="physics"), pool.pod("theirs", gpus=2, ns="biology"), sly)
    on = {"n1": [("mine", "physics"), ("below", "optics")], "n0": [("theirs", "biology")]}
    wait_for("pods run", lambda: all(pool.phase(n, ns) == "Running" for n, ns in (*on["n1"], *on["n0"], ("any", "physics"), ("more", "physics"))))
    assert {node: [x for x in on[node] if pool.get("pod", x[0], "-n", x[1])["spec"]["nodeName"] == node] for node in on} == on
    assert {pool.get("pod", n, "-n", "physics")["spec"]["nodeName"] for n in ("any", "more")} == {"n0", "n1"}  # it may use both
    wait_for("it is refused by name", lambda: "the resource group fast is not granted to namespace biology (account biology)" in pool.cmd("why", "sly", "-n", "biology").stdout)


@pytest.mark.feature("C8.2")
def test_what_is_granted_can_be_taken_back(pool):
    pool.kubectl("patch", "tenant", "biology", "--type=merge", "-p", json.dumps({"spec": {"resourceGroups": ["fast", "no-such"]}}))
    wait_for("it is in", lambda: submit(pool, "other", "-A", "biology", "-p", "fast", check=False).returncode == 0)
    unknown = wait_for("it says what is not there", lambda: next((c for c in pool.get("tenant", "biology")["status"]["conditions"] if c["type"] == "GroupsKnown"), None))
    assert "no group no-such" in unknown["message"]
    pool.kubectl("patch", "tenant", "biology", "--type=merge", "-p", json.dumps({"spec": {"resourceGroups": None}}))
    wait_for("it is out", lambda: "is not granted" in submit(pool, "other", "-A", "biology", "-p", "fast", check=False).stderr)


@pytest.mark.feature("C1.3", "C1.5")
def test_what_is_borrowed_comes_back_to_whom_it_belongs(pool):
    """physics holds more than its quota; pods and jobs of biology within theirs take it back, beyond theirs they wait."""
    native = sbatch(pool, "researcher", "-A", "physics", "-p", "all", "--gres=gpu:2")  # within the quota
    wait_for("it runs", lambda: running(pool, native))
    pods = [pool.pod(f"p{i}", gpus=2, ns="physics") for i in range(2)]
    for p in pods:
        p["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "all"}
    pool.apply(*pods)
    wait_for("they run", lambda: all(pool.phase(p["metadata"]["name"], "physics") == "Running" for p in pods))
    lent = sbatch(pool, "researcher", "-A", "physics", "-p", "all", "--gres=gpu:2")
    wait_for("it runs", lambda: running(pool, lent))
    qos = {j: pool.job(j)["QOS"] for j in (native, lent, *(pool.grant(pool.get("pod", p["metadata"]["name"], "-n", "physics"))[0] for p in pods))}
    assert list(qos.values()) == ["physics.quota", *["physics.borrowed"] * 3], qos

    pool.apply(pool.pod("own", gpus=2, ns="biology"))
    wait_for("the pod has it back", lambda: pool.phase("own", "biology") == "Running")
    assert pool.job(pool.grant(pool.get("pod", "own", "-n", "biology"))[0])["QOS"] == "biology.quota"
    job = sbatch(pool, "other", "-A", "biology", "--gres=gpu:2")
    wait_for("so has the job", lambda: running(pool, job))
    pool.apply(pool.pod("more", gpus=2, ns="biology"))
    # Slurm may leave the reason of a job with two QOS at None, so its state is looked at.
    wait_for("what is beyond its own quota waits", lambda: any(j["name"].startswith("more.") and j["state"] == "PENDING" for j in pool.squeue().values()))
    assert running(pool, native), "what is within the quota is nobody else's"
    # Who takes the devices at once may come before the word that tells of the preemption.
    assert all(p["status"]["reason"] in ("Preempted", "GrantEnded") for p in pool.items("pods", "-n", "physics") if p["status"]["phase"] == "Failed")
    # What has lost its devices may be shown as running for a moment.
    still = lambda: sum(j in (native, lent) and x["state"] == "RUNNING" for j, x in pool.squeue().items()) + len(pool.running("-n", "physics"))  # noqa: E731
    wait_for("two victims were enough", lambda: still() == 2)


@pytest.mark.feature("C4.4")
def test_others_make_room_for_one_that_starves(pool):
    """chemistry holds all 16 GPUs: geology, whose share is 8 of them, waits. The youngest makes room, and nobody else."""
    def starvation(how):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"preemption": {"starvation": how}}}))
    old = sbatch(pool, "researcher", "-A", "chemistry", "-p", "all", "--gres=gpu:4", "--no-requeue")
    wait_for("it runs", lambda: running(pool, old))
    begun = int(pool.shell("date", "-d", pool.job(old)["StartTime"], "+%s"))
    wait_for("it has run for a while", lambda: time.time() >= begun + 2)  # Slurm's times are whole seconds
    young = sbatch(pool, "researcher", "-A", "chemistry", "-p", "all", "--gres=gpu:4")
    far = sbatch(pool, "researcher", "-A", "chemistry", "-p", "fast", "--gres=gpu:8")
    wait_for("they run", lambda: all(running(pool, j) for j in (old, young, far)))
    waits = sbatch(pool, "other", "-A", "geology", "-p", "all", "--gres=gpu:4")
    try:
        starvation({"afterSeconds": 86400})
        wait_for("who would make room is said", lambda: re.search(
            rf"It waits for 4 gpu on one node, and its account holds 0 of the 8 GPUs that are its share; job {young} makes room in \d+ s", pool.cmd("why", waits).stdout), 60)
        starvation({"afterSeconds": 1})
        wait_for("it runs", lambda: running(pool, waits), 90)
        assert not running(pool, young) and running(pool, old) and running(pool, far)
        # Who cannot be queued again is ended only where the site says so, and never queued again.
        more = sbatch(pool, "other", "-A", "geology", "-p", "all", "--gres=gpu:4")
        wait_for("it may not be asked", lambda: "nobody may be asked to make room" in pool.cmd("why", more).stdout)
        starvation({"mayEnd": True})
        wait_for("it runs", lambda: running(pool, more), 90)
    finally:
        starvation(None)
    gone = pool.job(old)
    assert (gone["JobState"], gone["Restarts"]) == ("CANCELLED", "0") and " after 0 restarts, not queued again" in pool.shell("scontrol", "show", "job", old), gone
    wait_for("it has the nice that was its own", lambda: pool.job(waits)["Nice"] == "0")
    assert not running(pool, young) and running(pool, far)
    assert f"so that job {waits} has room, which waits for 4 gpu on one node (its account has more than its share)" in pool.shell("scontrol", "show", "job", young)
    wait_for("an event tells it", lambda: [e for e in pool.items("events", "-n", "slurm") if e["reason"] == "MadeRoom" and f"job {waits} of other" in e["message"]])
    wait_for("nobody is asked any more", lambda: not any("tandem.dev/requeue" in n["metadata"].get("annotations", {}) for n in pool.items("nodes")))
    pool.shell("scancel", str(young))


SAVES = "trap 'echo saved; exit 0' USR1; trap 'echo term; exit 1' TERM; echo ready; sleep 100000 & while :; do wait; done"


@pytest.fixture
def starving(pool):
    """Whoever waits for a second starves; chemistry's native job holds node n1."""
    def starvation(how):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"preemption": {"starvation": how}}}))
    far = sbatch(pool, "researcher", "-A", "chemistry", "-p", "fast", "--gres=gpu:8")
    wait_for("it runs", lambda: running(pool, far))
    starvation({"afterSeconds": 1})
    yield far
    starvation(None)
    pool.kubectl("delete", "jobs,pods", "--all", "-n", "chemistry", "--wait=false", "--grace-period=1")
    for u in USERS:
        pool.shell("scancel", "-u", u)
    wait_for("no pods are left", lambda: not pool.items("pods", "-n", "chemistry"))


@pytest.mark.feature("C4.4")
def test_pods_make_room_for_one_that_starves(pool, starving):
    """The youngest first, told as by Slurm's preemption, and its Job makes the next one; a gang goes whole; nobody else."""
    def get(name):
        return pool.get("pod", name, "-n", "chemistry")

    def pod(name, gpus, labels=None, **kw):
        p = pool.pod(name, gpus=gpus, ns="chemistry", **kw)
        p["metadata"].update(labels=labels or {}, annotations={"slurm.tandem.dev/partition": "all", "slurm.tandem.dev/signal": "USR1@60"})
        return p
    pair = [pod(f"pair-{i}", 2, {"tandem.dev/gang": "pair"}) for i in range(2)]
    for p in pair:
        p["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "all", "tandem.dev/gang-size": "2"}
    pool.apply(*pair)
    wait_for("the gang runs", lambda: all(pool.phase(f"pair-{i}", "chemistry") == "Running" for i in range(2)))
    start = int(get("pair-0")["metadata"]["annotations"]["tandem.dev/job-start"])
    wait_for("it has run for a while", lambda: time.time() >= start + 2)  # Slurm's times are whole seconds
    one = pod("train", 4, command=["sh", "-c", SAVES], restartPolicy="Never")
    del one["metadata"]["name"], one["metadata"]["namespace"]
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "chemistry"},
                "spec": {"backoffLimit": 4, "template": {"metadata": one["metadata"], "spec": one["spec"]}}})
    train = lambda: pool.items("pods", "-n", "chemistry", "-l", "job-name=train")  # noqa: E731
    first = wait_for("the Job's pod trains", lambda: next((p["metadata"]["name"] for p in train() if pool.kubectl("logs", p["metadata"]["name"], "-n", "chemistry", check=False).strip() == "ready"), None))

    waits = sbatch(pool, "other", "-A", "geology", "-p", "all", "--gres=gpu:4")
    wait_for("it runs", lambda: running(pool, waits), 90)
    assert pool.kubectl("logs", first, "-n", "chemistry").split() == ["ready", "saved"]
    said = wait_for("the victim has failed", lambda: (s := get(first)["status"])["phase"] in ("Failed", "Succeeded") and s)
    assert said["reason"] == "Preempted" and f"it makes room, so that job {waits} has room, which waits for 4 gpu on one node (its account has more than its share)" in said["message"], said
    wait_for("the history knows why it ended", lambda: "end=preempted" in pool.admin_comment(pool.grant(get(first))[0]))
    wait_for("an event tells it", lambda: [e for e in pool.items("events", "-n", "chemistry") if (e["reason"], e["involvedObject"]["name"]) == ("Preempted", first)])
    wait_for("so does the cluster", lambda: [e for e in pool.items("events", "-n", "slurm") if e["reason"] == "MadeRoom" and f"job {waits} of other" in e["message"] and f"pod chemistry/{first}" in e["message"]])
    wait_for("its Job has made the next one, which waits", lambda: [p for p in train() if p["metadata"]["name"] != first and p["status"]["phase"] == "Pending"])
    assert [pool.phase(f"pair-{i}", "chemistry") for i in range(2)] == ["Running"] * 2 and running(pool, starving), "one victim was enough"

    more = sbatch(pool, "other", "-A", "geology", "-p", "all", "--gres=gpu:3", "-w", "n0")  # it names its node
    wait_for("it runs", lambda: running(pool, more), 90)
    assert [get(f"pair-{i}")["status"].get("reason") for i in range(2)] == ["Preempted"] * 2
    assert running(pool, waits) and running(pool, starving)


@pytest.mark.feature("C4.4")
def test_a_victim_has_its_grace_whichever_bridge_has_told_it(pool, starving):
    """Two starve. Native jobs that name their node hear their signal and go on for the graceTime of their QOS; the bridge that told them dies meanwhile."""
    hears = "#!/bin/sh\ntrap 'scontrol update jobid=$SLURM_JOB_ID comment=heard' USR1\nwhile :; do sleep 1; done\n"
    patient = ("-A", "chemistry", "-p", "all", "-w", "n0", "--gres=gpu:4", "--qos=patient", "--comment=slurm.tandem.dev/signal=B:USR1")
    pool.shell("sacctmgr", "-i", "modify", "account", "chemistry", "set", "qos+=patient")
    victims = [int(wait_for("its account may have the QOS", lambda: submit(pool, "researcher", *patient, check=False, script=hears).stdout.strip())) for _ in range(2)]
    wait_for("they run", lambda: all(running(pool, v) for v in victims))
    wrong = submit(pool, "researcher", "-A", "chemistry", "--comment=slurm.tandem.dev/signal=KILL", check=False)
    assert "say USR1, or USR1@60" in wrong.stdout + wrong.stderr
    waits = [sbatch(pool, "other", "-A", "geology", "-p", "all", "--gres=gpu:4") for _ in range(2)]
    told = lambda: {int(m[1]): m[2] for v in victims if (m := re.search(r"so that job (\d+) has room, .*, at (\S+) after 0 restarts", pool.admin_comment(v)))}  # noqa: E731
    found = wait_for("one for each of them", lambda: (t := told()) and sorted(t) == sorted(waits) and t, 90)
    pool.kill_role("bridge")
    wait_for("they heard their signal", lambda: all(pool.job(v).get("Comment") == "heard" for v in victims))
    wait_for("those who starved run", lambda: all(running(pool, w) for w in waits), 120)
    first = min(datetime.datetime.fromisoformat(at).timestamp() for at in found.values())
    assert min(int(pool.shell("date", "-d", pool.job(w)["StartTime"], "+%s")) for w in waits) >= int(first), "devices came before a grace was over"
    assert [(pool.job(v)["JobState"], pool.job(v)["Restarts"]) for v in victims] == [("PENDING", "1")] * 2 and running(pool, starving)
    wait_for("nobody is asked any more", lambda: not any("tandem.dev/requeue" in n["metadata"].get("annotations", {}) for n in pool.items("nodes")))
    assert [pool.job(v)["Restarts"] for v in victims] == ["1"] * 2 and pool.job(starving)["Restarts"] == "0"


@pytest.mark.feature("C1.3")
def test_the_two_qos_are_kept_and_go_with_the_word(pool):
    rows = lambda: {r[0]: r[1:] for r in (line.split("|") for line in pool.shell("sacctmgr", "-n", "-P", "show", "qos", "format=Name,GrpTRES,Preempt").splitlines())}
    allowed = lambda: pool.shell("sacctmgr", "-n", "-P", "show", "associations", "account=biology", "user=", "format=QOS,DefaultQOS").split()[0]
    assert rows()["physics.quota"] == ["gres/gpu=2", "biology.borrowed"] and rows()["physics.borrowed"] == ["", ""]
    pool.shell("sacctmgr", "-i", "modify", "qos", "physics.quota", "set", "GrpTRES=gres/gpu=99,cpu=7", "Preempt=")
    wait_for("it is mended", lambda: rows()["physics.quota"] == ["gres/gpu=2", "biology.borrowed"])
    pool.change({"preemption": None}, idle=False)
    wait_for("nobody preempts any more", lambda: rows()["physics.quota"] == ["", "tandem.nobody"] and allowed() in ("normal|", "normal,patient|"))
    job = sbatch(pool, "other", "-A", "biology", "--gres=gpu:1")
    wait_for("jobs are as before", lambda: running(pool, job) and pool.job(job)["QOS"] == "normal")
    pool.change({"preemption": {"reclaim": {}}}, idle=False)
    wait_for("and back", lambda: rows()["physics.quota"] == ["gres/gpu=2", "biology.borrowed"] and allowed().endswith("|biology.quota"))
