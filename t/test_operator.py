"""SlurmCluster and NodeSet: slurmds that are forgotten or die, conditions, who reaches slurmrestd."""
import contextlib
import glob
import json
import os
import signal
import threading

import pytest

from harness import wait_for
from observer import Container


def containers(pool, word):
    """{container id: pid of its init} of the containers whose command has `word`."""
    found = {}
    for cid in os.listdir(f"{pool.run_dir}/runc"):
        try:
            if word in Container(pool.home, cid).args:
                found[cid] = json.load(open(f"{pool.run_dir}/runc/{cid}/state.json"))["init_process_pid"]
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # it comes or goes just now
    return found


def slurm_nodes(pool):
    return set(pool.shell("sinfo", "-h", "-N", "-o", "%N").split())


def node_status(pool, node, nodeset="pool"):
    return next((n for n in pool.get("nodeset", nodeset, "-n", "slurm")["status"].get("nodes", []) if n["name"] == node), {})


@pytest.mark.feature("A3.6")
def test_services_leave_a_node_that_is_to_be_updated(home):
    """They never end by themselves: they are evicted as their budget allows, one at a time, and the queue places their successors; what ends by itself is waited for."""
    home.up("--nodes", "3")
    job = home.sbatch("-N1", "-w", "n0", "-c1")
    web = home.deployment("web", 3, 0)
    web["spec"]["template"]["metadata"] = {"labels": {"app": "web"}}
    home.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [web, {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}]}))
    ready = lambda: [p["metadata"]["uid"] for p in home.running("-l", "app=web") if any((c["type"], c["status"]) == ("Ready", "True") for c in p["status"].get("conditions", []))]
    wait_for("the service runs", lambda: len(ready()) == 3)
    first, fewest = set(ready()), [3]
    home.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", '{"spec": {"template": {"metadata": {"annotations": {"new": "1"}}}}}')

    def all_but_one():
        fewest[0] = min(fewest[0], len(ready()))
        return home.get("nodeset", "pool", "-n", "slurm")["status"].get("updated") == 2
    wait_for("all but the job's node are new", all_but_one, 180)
    said = condition(home.get("nodeset", "pool", "-n", "slurm"), "Progressing")
    assert said["message"] == "slurmd pods are being replaced: 2 of 3 are new"
    wait_for("the service runs elsewhere", lambda: len(ready()) == 3 and not set(ready()) & first)
    assert fewest[0] >= 2 and home.squeue()[job]["state"] == "RUNNING"
    home.shell("scancel", job)
    wait_for("all are new", lambda: home.get("nodeset", "pool", "-n", "slurm")["status"].get("updated") == 3, 180)


def condition(obj, kind):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def forget_nodes(pool):
    """slurmctld dies before it has saved its nodes: what a kill in the first seconds of a cluster does."""
    (cid, init), = containers(pool, "slurmctld -D").items()
    # Frozen first, so that it cannot save them again before it dies.
    inside = [int(p) for f in glob.glob(f"/sys/fs/cgroup/*/tandem-{pool.id}/{cid}/cgroup.procs") + glob.glob(f"/sys/fs/cgroup/tandem-{pool.id}/{cid}/cgroup.procs") for p in open(f)]
    for pid in set(inside):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    for f in glob.glob(f"{pool.home}/nodes/n0/root/var/lib/slurm-main/node_state*"):
        os.unlink(f)
    os.kill(init, signal.SIGKILL)
    wait_for("slurmctld is another one", lambda: containers(pool, "slurmctld -D").get(cid, init) != init or cid not in containers(pool, "slurmctld -D"))


@pytest.mark.nightly
@pytest.mark.feature("A3.1", "A4.3", "A12.3")
def test_nodes_that_a_killed_slurmctld_forgot_come_back(home):
    home.up("--nodes", "2")
    home.apply(home.pod("beside", scheduler="default-scheduler", cpu="100m"))
    wait_for("beside runs", lambda: home.phase("beside") == "Running")
    beside = home.get("pod", "beside")["status"]["containerStatuses"][0]
    before = home.slurm_pods()
    forget_nodes(home)
    # The old records are still in its answers, or it gives none: what tells is the new pods.
    slurmds = ["-n", "slurm", "-l", "app.kubernetes.io/name=slurmd"]
    wait_for("slurmd runs in new pods", lambda: sum(p["metadata"]["uid"] != before[p["metadata"]["name"]] for p in home.running(*slurmds)) == 2, 90)
    wait_for("both nodes are back", lambda: home.idle_nodes() == 2, 60)
    wait_for("the status says so", lambda: home.get("nodeset", "pool", "-n", "slurm")["status"]["idle"] == 2)
    wait_for("an event says why", lambda: any("Slurm forgot the node" in e["message"] for e in home.items("events", "-n", "slurm")))
    after = home.slurm_pods()
    assert {n for n in before if after.get(n) != before[n]} == {"main-pool-n0", "main-pool-n1"}, "only the slurmd pods are replaced"
    assert home.get("pod", "beside")["status"]["containerStatuses"][0] == beside, "what runs beside slurmd goes on"
    assert home.shell("srun", "-N2", "--mem=100M", "hostname").split()


def kill_slurmd(pool, node):
    """kill -9 of a slurmd container's init: every process in it dies, the agent starts it again in the same pod."""
    uid = pool.get("pod", f"main-pool-{node}", "-n", "slurm")["metadata"]["uid"].replace("-", "")
    (cid, init), = [(c, p) for c, p in containers(pool, "slurmd -D").items() if uid in c]
    os.kill(init, signal.SIGKILL)
    wait_for("slurmd runs again", lambda: [1 for c, p in containers(pool, "slurmd -D").items() if uid in c and p != init])


class Client(threading.Thread):
    """A command in the login pod that stays; `code` when it has ended."""

    def __init__(self, pool, *argv):
        super().__init__(daemon=True)
        self.pool, self.argv, self.code = pool, argv, None
        self.start()

    def run(self):
        self.code = self.pool.cmd("shell", "--user", "root", "--", *self.argv, check=False, timeout=300).returncode


# A task that says that it runs. Slurm counts a step as running before its processes are there, and an srun whose launch fails ends its job.
TASK = ': >/home/up.$SLURM_JOB_ID.$(hostname); exec sleep 100000'


def started(pool, job, node):
    return os.path.exists(f"{pool.shared_dir}/up.{job}.{node}")


def native_jobs(pool, node):
    """One of each kind on the node, all with a process: (may be requeued, may not, srun's, its client)."""
    again = pool.sbatch("-w", node, "--requeue", "-J", "again", script=f"#!/bin/sh\n{TASK}\n")
    never = pool.sbatch("-w", node, "--no-requeue", "-J", "never", script=f"#!/bin/sh\n{TASK}\n")
    client = Client(pool, "srun", "-J", "cli", "--mem=100M", "-w", node, "sh", "-c", TASK)
    cli = wait_for("srun's job", lambda: next((i for i, j in pool.squeue().items() if j["name"] == "cli"), 0))
    wait_for("all have processes", lambda: all(started(pool, j, node) for j in (again, never, cli)))
    return again, never, cli, client


@pytest.mark.nightly
@pytest.mark.feature("A3")
def test_jobs_of_a_dead_slurmd_container_end_and_no_other(home):
    home.up("--nodes", "2")
    other = home.sbatch("-w", "n0")
    both = home.sbatch("-N2", "--requeue", script=f"#!/bin/sh\nsrun sh -c '{TASK}'\n")
    again, never, cli, client = native_jobs(home, "n1")
    wait_for("the step is on both", lambda: all(started(home, both, n) for n in ("n0", "n1")))
    kill_slurmd(home, "n1")
    wait_for("what may be requeued is", lambda: all(home.squeue()[j]["state"] == "PENDING" for j in (again, both)))  # slurmctld itself waits five minutes
    assert home.job(again)["Restarts"] == "1"
    for job in (never, cli):
        wait_for("what may not has failed", lambda: home.job(job).get("JobState") == "NODE_FAIL")
    wait_for("srun has ended", lambda: client.code is not None)
    assert client.code != 0
    assert home.squeue()[other]["state"] == "RUNNING"
    wait_for("the node is back", lambda: home.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").strip() == "idle")
    assert "slurmd died" not in home.shell("sinfo", "-h", "-R", "-o", "%E")
    home.shell("srun", "-w", "n1", "--mem=100M", "true")
    # A drained node keeps its reason: there the jobs end one by one.
    again, never, cli, client = native_jobs(home, "n1")
    young = home.sbatch("-w", "n1", "--comment=tandem/uid/uid", script=f"#!/bin/sh\n{TASK}\n")  # a stand-in whose admin comment is not written yet
    wait_for("it has a process", lambda: started(home, young, "n1"))
    home.shell("scontrol", "update", "nodename=n1", "state=drain", "reason=bad fan")
    kill_slurmd(home, "n1")
    wait_for("requeued", lambda: home.squeue()[again]["state"] == "PENDING")
    wait_for("srun has ended", lambda: client.code is not None)
    assert home.shell("sinfo", "-h", "-n", "n1", "-o", "%E").strip() == "bad fan"
    assert home.squeue()[young]["state"] == "RUNNING"


@pytest.mark.nightly
@pytest.mark.slow  # three minutes: slurmctld itself ends the job, when the node registers next
@pytest.mark.feature("A6.6")
def test_pods_beside_a_dead_slurmd_container_go_on(home):
    home.up("--nodes", "2")
    home.apply(*[home.pod(f"p{i}", gpus=5) for i in range(2)])  # one on each node
    wait_for("both run", lambda: len(home.running()) == 2)
    pod = next(p for p in home.running() if p["spec"]["nodeName"] == "n1")
    job, _, gpus = home.grant(pod)
    again, never, cli, client = native_jobs(home, "n1")
    kill_slurmd(home, "n1")
    wait_for("requeued", lambda: home.squeue()[again]["state"] == "PENDING")
    wait_for("srun has ended", lambda: client.code is not None and cli not in home.squeue())
    assert home.squeue()[job]["state"] == "RUNNING"
    now = home.get("pod", pod["metadata"]["name"])
    assert home.grant(now) == (job, "n1", gpus) and now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["status"]["containerStatuses"][0]["restartCount"] == 0 and now["status"]["phase"] == "Running"
    wait_for("the node takes jobs again", lambda: "slurmd died" not in home.shell("sinfo", "-h", "-R", "-o", "%E"))
    # slurmctld itself ends the one that may not be requeued, when the node registers next.
    wait_for("no job is left without processes", lambda: home.job(never).get("JobState") == "NODE_FAIL", 300)
    assert home.squeue()[job]["state"] == "RUNNING"


@pytest.mark.nightly
@pytest.mark.feature("A1.3")
def test_only_the_bridge_and_the_operator_reach_slurmrestd(home):
    """A refused request of anybody can freeze slurmctld, so nobody else may even connect."""
    home.up("--nodes", "1")
    # A deadline of its own: whoever connects to a pod that goes in this very moment gets no answer at all, for two minutes.
    connect = "for p in 6820 1 65535; do timeout 5 bash -c \"exec 3<>/dev/tcp/$IP/$p\" && echo open $p; done 2>/dev/null; ss -tlnH 2>/dev/null; echo tried"
    try_from = {"default": ["kubectl", "exec", "other", "--"], "login": [home.tandem, "shell", "--"]}

    def rest():
        pods = lambda: [p for p in home.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmrestd") if not p["metadata"].get("deletionTimestamp")]
        return wait_for("a slurmrestd", pods)[0]

    def tries():
        ip = rest()["status"].get("podIP")
        return {who: [] for who in try_from} if not ip else {who: home.run(*argv, "env", f"IP={ip}", "bash", "-c", connect).stdout.split() for who, argv in try_from.items()}

    home.apply(home.pod("other", gpus=1))  # the bridge reaches it: a pod goes through the queue
    wait_for("other runs", lambda: home.phase("other") == "Running")
    assert all("open" not in t and "tried" in t for t in tries().values()), tries()
    assert home.run("kubectl", "-n", "slurm", "exec", rest()["metadata"]["name"], "--", "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.count(" 0A ") == 0, "nothing listens on its addresses"
    url = home.get("slurmcluster", "main", "-n", "slurm")["status"]["restUrl"]
    assert url.startswith("unix:") and os.stat(os.path.dirname(url[5:])).st_mode & 0o777 == 0o700
    assert not [s for s in home.items("services", "-n", "slurm") if s["metadata"]["name"] == "main-slurmrestd"]
    # No other pod can have that volume; the object says which way, and the other one works too.
    home.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"restApi":{"access":"network"}}}')
    seen = {}

    def listens():
        seen.update({who: said + [rest()["status"].get("podIP")] for who, said in tries().items()})
        return "open" in seen["login"] and "tried" in seen["default"] and "open" not in seen["default"]  # the cluster's own pods reach it, by policy
    try:
        wait_for("it listens on its address", listens)
    except AssertionError as e:
        raise AssertionError(f"{e}; {seen}") from None
    wait_for("the status says where", lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"].get("restUrl", "").startswith("http:"))
    home.apply(home.pod("second", gpus=1))
    wait_for("second runs", lambda: home.phase("second") == "Running")
    home.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"restApi":{"access":"socket"}}}')
    wait_for("and back", lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"].get("restUrl", "").startswith("unix:"))
    wait_for("all is well", lambda: home.cmd("status", check=False).returncode == 0)


def patch(pool, kind, name, spec):
    return pool.run("kubectl", "patch", kind, name, "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}), check=False)


# What somebody may write wrongly, what it must be answered with, and how it is set back.
REFUSED = [  # by the API, before it is stored
    ("slurmcluster", "main", {"restApi": {"access": "everybody"}}, ["spec.restApi.access", '"network"', '"socket"']),
    ("slurmcluster", "main", {"restApi": {"replicas": 0}}, ["spec.restApi.replicas", "greater than or equal to 1"]),
    ("slurmcluster", "main", {"users": [{"name": "Bad Name", "uid": 1001}]}, ["spec.users[0].name"]),
    ("slurmcluster", "main", {"users": [{"name": "low", "uid": 5}]}, ["spec.users[0].uid", "greater than or equal to 1000"]),
    ("slurmcluster", "main", {"partitions": [{"name": "p", "maxTime": "soon"}]}, ["spec.partitions[0].maxTime"]),
    ("slurmcluster", "main", {"reserve": {"cpu": "much"}}, ["spec.reserve.cpu", "must match"]),
    ("nodeset", "pool", {"replicas": -1}, ["spec.replicas", "greater than or equal to 0"]),
    ("nodeset", "pool", {"slurm": {"gres": "two"}}, ["spec.slurm.gres"]),
    ("nodeset", "pool", {"updateStrategy": {"maxUnavailable": "0%"}}, ["spec.updateStrategy.maxUnavailable"]),
    ("nodeset", "pool", {"slurm": {"extraConf": {"TmpDisk": "1 CPUs=99"}}}, ["spec.slurm.extraConf"]),
]
CONDITIONS = [  # what only the operator can know
    ("slurmcluster", "main", "ConfigValid", {"config": {"slurmConf": {"Prolog": "/bin/true"}}}, {"config": {"slurmConf": None}},
     ["spec.config.slurmConf.Prolog", "the gate", "remove it"]),
    ("slurmcluster", "main", "ConfigValid", {"config": {"slurmConf": {"AccountingStorageHost": "other"}}}, {"config": {"slurmConf": None}},
     ["spec.config.slurmConf.AccountingStorageHost", "set spec.accounting", "remove it"]),
    ("slurmcluster", "main", "ConfigValid", {"accounting": {"database": None}}, {"accounting": {"database": {"embedded": {"storage": {"hostPath": {
        "path": "/var/lib/slurm-main-database", "node": "n0"}}}}}}, ["spec.accounting.database", "embedded.storage.claim"]),
    ("slurmcluster", "main", "ConfigValid", {"accounting": {"slurmdbdConf": {"StoragePass": "x", "PurgeJobAfter": "12 months"}}}, {"accounting": {"slurmdbdConf": None}},
     ["spec.accounting.slurmdbdConf.StoragePass", "remove it", "spec.accounting.slurmdbdConf.PurgeJobAfter", "without blanks"]),
    ("slurmcluster", "main", "ConfigValid", {"partitions": [{"name": "all", "nodeSets": ["nobody"]}]}, {"partitions": [{"name": "all", "default": True, "maxTime": "INFINITE"}]},
     ["spec.partitions[0].nodeSets", "nobody"]),
    ("slurmcluster", "main", "ConfigValid", {"users": [{"name": "a", "uid": 1001}, {"name": "b", "uid": 1001}]}, None, ["spec.users[1].uid", "1001 is a's already"]),
    ("slurmcluster", "main", "ConfigValid", {"login": [{"name": "login", "replicas": 2}, {"name": "login-1"}]}, None, ["spec.login[1].name", 'a pod of the group "login"']),
    ("slurmcluster", "main", "ConfigValid", {"scheduler": {"defaultPartition": "fast", "defaultUser": "nobody-here"}}, None,
     ["spec.scheduler.defaultPartition", '"fast"', "add it to spec.partitions", "spec.scheduler.defaultUser", '"nobody-here"']),
    ("slurmcluster", "main", "ConfigValid", {"scheduler": {"namespaces": [{"namespace": "ml", "user": "ghost", "partition": "slow"}]}}, None,
     ["spec.scheduler.namespaces[0].user", '"ghost"', "spec.scheduler.namespaces[0].partition", '"slow"']),
    ("nodeset", "pool", "SpecValid", {"affinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}]}}}, {"affinity": None},
     ["spec.affinity", "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"]),
    ("nodeset", "pool", "Ready", {"slurm": {"gres": "gpu:9"}}, {"slurm": {"gres": "auto"}}, ["spec.slurm.gres asks for 9 GPUs, the node has 8"]),
    ("slurmcluster", "main", "ConfigValid", {"restApi": {"template": {"spec": {"containers": [{"name": "slurmrestd", "env": "x"}]}}}}, {"restApi": {"template": None}},
     ["spec.restApi.template", "correct it", "env"]),
    ("nodeset", "pool", "SpecValid", {"slurm": {"features": ["set.other"]}}, {"slurm": {"features": None}}, ["spec.slurm.features[0]", "set."]),
    ("nodeset", "pool", "SpecValid", {"slurm": {"extraConf": {"CPUs": "99"}}}, {"slurm": {"extraConf": None}}, ["spec.slurm.extraConf.CPUs", "remove it"]),
    ("nodeset", "pool", "SpecValid", {"clusterName": "nowhere"}, {"clusterName": "main"}, ["spec.clusterName", "nowhere", "create it or correct the name"]),
]


@pytest.mark.feature("A2.1")
def test_wrong_fields_are_refused_or_become_conditions_that_name_the_fix(home):
    home.up("--nodes", "2")
    before = home.get("slurmcluster", "main", "-n", "slurm")["spec"]
    job = home.sbatch("-N2")
    pods = home.slurm_pods()
    for kind, name, spec, words in REFUSED:
        r = patch(home, kind, name, spec)
        assert r.returncode and all(w in r.stderr for w in words), (spec, r.stderr)
    for kind, name, which, spec, back, words in CONDITIONS:
        r = patch(home, kind, name, spec)
        assert r.returncode == 0, (spec, r.stderr)
        want = home.get(kind, name, "-n", "slurm")["metadata"]["generation"]

        def seen(status):
            o = home.get(kind, name, "-n", "slurm")
            c = condition(o, which)
            return c if c.get("status") == status and c.get("observedGeneration", 0) >= want else None

        def told():
            last[:] = [seen("False")]
            return last[0] and all(w in last[0]["message"] for w in words)

        last = []
        try:
            wait_for(f"{which} is False for {spec} and says why", told)
        except AssertionError as e:
            raise AssertionError(f"{e}: {last}") from None
        r = patch(home, kind, name, back or {k: before[k] for k in spec})
        assert r.returncode == 0, r.stderr
        want = home.get(kind, name, "-n", "slurm")["metadata"]["generation"]
        wait_for(f"{which} is True again after {spec}", lambda: seen("True"))
    # Nothing that ran was touched by all that.
    wait_for("all is well", lambda: home.cmd("status", check=False).returncode == 0)
    assert home.slurm_pods() == pods
    assert home.squeue()[job]["state"] == "RUNNING"


@pytest.mark.nightly
@pytest.mark.feature("A3.2")
def test_a_nodeset_says_which_of_its_nodes_another_one_has(home):
    home.up("--nodes", "2")
    pods = home.slurm_pods()
    hostname = lambda name: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}}

    def owned(name):
        return condition(home.get("nodeset", name, "-n", "slurm"), "NodesOwned")
    home.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "second", "namespace": "slurm"}, "spec": {"clusterName": "main", "affinity": hostname("n1")}})
    wait_for("the later one says what it did not get", lambda: owned("second").get("status") == "False")
    assert "n1 to pool" in owned("second")["message"] and "n0" not in owned("second")["message"] and "spec.affinity" in owned("second")["message"]
    assert owned("pool")["status"] == "True"
    assert home.slurm_pods() == pods
    home.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"affinity": hostname("n0")}}))
    wait_for("both have their own", lambda: owned("second").get("status") == owned("pool").get("status") == "True")
    wait_for("the node has moved", lambda: home.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%f").strip().split(",")[0] == "set.second" and home.idle_nodes() == 2)


def counts(pool):
    """(what the NodeSet's status says, what sinfo says): they must be equal."""
    s = pool.get("nodeset", "pool", "-n", "slurm")["status"]
    words = [l.rstrip("*~#!%$@^-") for l in pool.shell("sinfo", "-h", "-N", "-o", "%T").split()]
    there = {"idle": words.count("idle"), "allocated": sum(w in ("allocated", "mixed", "completing") for w in words), "draining": words.count("draining"),
             "drained": words.count("drained"), "down": words.count("down")}
    return {k: s.get(k) for k in there}, there


def counts_agree(pool, **want):
    def look():
        ours, theirs = counts(pool)
        return ours == theirs and all(ours[k] == v for k, v in want.items())
    wait_for(f"the status counts as sinfo does, with {want}", look)


@pytest.mark.feature("A3.1", "A3.3", "A3.4", "A3.5", "A3.6", "A4.3", "B7.7")
def test_a_nodeset_is_deleted_and_made_again_and_labels_become_features(home):
    home.up("--nodes", "3")
    counts_agree(home, idle=3)
    home.shell("scontrol", "update", "nodename=n0", "state=drain", "reason=bad fan")
    job = home.sbatch("-w", "n1")
    counts_agree(home, idle=1, allocated=1, drained=1)
    home.shell("scontrol", "update", "nodename=n0", "state=undrain")
    # A label of the node becomes a feature: when its job has ended, and no other node is touched.
    pods = home.slurm_pods()
    home.kubectl("label", "node", "n1", "topology.tandem.dev/rack=r7", "--overwrite")
    wait_for("it drains and waits for the job", lambda: home.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%T").strip() == "draining")
    counts_agree(home, idle=2, draining=1)
    wait_for("the status says for what", lambda: "waiting for its jobs" in node_status(home, "n1").get("message", ""))
    home.shell("scancel", job)
    wait_for("the feature is there", lambda: "r7" in home.shell("sinfo", "-h", "-N", "-n", "n1", "-o", "%f").strip().split(","))
    counts_agree(home, idle=3)
    home.shell("srun", "-C", "r7", "--mem=100M", "true")
    now = home.slurm_pods()
    assert {n for n in pods if now.get(n) != pods[n]} == {"main-pool-n1"}
    # Deleted: records, pods and shares go, nothing else does.
    spec = home.get("nodeset", "pool", "-n", "slurm")["spec"]
    home.kubectl("delete", "nodeset", "pool", "-n", "slurm", timeout=300)
    wait_for("Slurm has no node", lambda: not slurm_nodes(home))
    wait_for("no slurmd pod is left", lambda: not home.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd"))
    wait_for("nodes are whole again", lambda: not any("tandem.dev/slurm-share" in n["metadata"].get("annotations", {}) for n in home.items("nodes")))
    wait_for("the cluster's status counts none", lambda: home.get("slurmcluster", "main", "-n", "slurm")["status"]["nodes"]["total"] == 0)
    home.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "pool", "namespace": "slurm"}, "spec": {**spec, "replicas": 2}})
    wait_for("two nodes are back", lambda: home.idle_nodes() == 2)
    counts_agree(home, idle=2)

    def says():  # Slurm's nodes may be idle before their pods are known to be ready
        s = home.get("nodeset", "pool", "-n", "slurm")["status"]
        return (s["desired"], s["matched"], s["assigned"], s["ready"], s["updated"], s["running"]) == (2, 3, 2, 2, 2, 2)
    wait_for("the status says so", says)
    home.shell("srun", "-N2", "--mem=100M", "true")
    home.kubectl("scale", "nodeset", "pool", "-n", "slurm", "--replicas=3")
    counts_agree(home, idle=3)


@pytest.mark.feature("A3.7", "A3.4", "A4.3")
def test_a_node_that_leaves_a_smaller_nodeset_keeps_its_job_to_the_end(home):
    home.up("--nodes", "2")
    jobs = {n: home.sbatch("-w", n) for n in ("n0", "n1")}
    counts_agree(home, allocated=2)
    home.kubectl("scale", "nodeset", "pool", "-n", "slurm", "--replicas=1")
    counts_agree(home, allocated=1, draining=1)
    leaves = next(w.split()[0] for w in home.shell("sinfo", "-h", "-N", "-o", "%N %T").splitlines() if w.split()[1] == "draining")
    stays = ({"n0", "n1"} - {leaves}).pop()
    pods = home.slurm_pods()
    assert f"main-pool-{leaves}" in pods and {home.squeue()[j]["state"] for j in jobs.values()} == {"RUNNING"}
    home.shell("scancel", jobs[leaves])
    wait_for("its record is gone", lambda: slurm_nodes(home) == {stays})
    wait_for("and its pod", lambda: not any(p["metadata"]["name"] == f"main-pool-{leaves}" for p in home.items("pods", "-n", "slurm")))
    counts_agree(home, allocated=1, draining=0)
    assert home.squeue()[jobs[stays]]["state"] == "RUNNING"
    assert home.get("pod", f"main-pool-{stays}", "-n", "slurm")["metadata"]["uid"] == pods[f"main-pool-{stays}"]


def evict(pool, pod):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "slurm"}}
    return pool.run("kubectl", "create", "--raw", f"/api/v1/namespaces/slurm/pods/{pod}/eviction", "-f", "-", input=json.dumps(body), check=False)


@pytest.mark.nightly
@pytest.mark.feature("A3.6", "B7.6")
def test_slurmd_is_evicted_only_when_its_node_is_drained_of_jobs(home):
    home.up("--nodes", "2")

    def uid():
        return home.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["uid"]

    job = home.sbatch("-w", "n1")
    wait_for("it runs", lambda: home.squeue()[job]["state"] == "RUNNING")
    first = uid()
    r = evict(home, "main-pool-n1")
    assert r.returncode and "disruption budget" in r.stderr, r.stderr
    assert evict(home, "main-pool-n0").returncode, "an idle node gets a job at any moment"
    # kubectl drain waits for the job, and goes on when it has ended.
    drain = ["kubectl", "drain", "n1", "--pod-selector=app.kubernetes.io/name=slurmd", "--delete-emptydir-data"]
    r = home.run(*drain, "--timeout=6s", check=False)
    assert r.returncode and uid() == first and home.squeue()[job]["state"] == "RUNNING", r.stderr
    home.shell("scancel", job)
    home.run(*drain, "--timeout=240s", timeout=300)
    wait_for("a new slurmd pod is there", lambda: home.items("pods", "-n", "slurm", "--field-selector=metadata.name=main-pool-n1,status.phase=Running") and uid() != first)
    assert evict(home, "main-pool-n0").returncode
    home.kubectl("uncordon", "n1")
    wait_for("n1 takes jobs again", lambda: home.idle_nodes() == 2)
    wait_for("and is protected again", lambda: "tandem.dev/evictable" not in home.get("pod", "main-pool-n1", "-n", "slurm")["metadata"]["labels"])
    assert evict(home, "main-pool-n1").returncode


@pytest.mark.feature("A7.4", "A12.3")
def test_a_job_id_is_given_once_even_by_a_slurmctld_that_was_killed(home):
    """Else slurmd runs no Prolog for an id that it knows, and nobody asks the gate."""
    home.up("--nodes", "1")

    def ids(n):
        return [int(home.shell("sbatch", "--parsable", "-H", "--mem=10M", "-D", "/home", "--wrap", "true")) for _ in range(n)]

    def another(word, act):
        (cid, init), = containers(home, word).items()
        act(init)
        wait_for("slurmctld is another one", lambda: containers(home, word).get(cid) != init and containers(home, word))
        wait_for("it answers", lambda: home.shell("squeue", "-h") is not None, 60)
    assert ids(3) == [1, 2, 3]
    # At once: it has not saved these. Ids of one that was stopped in order go on where they were.
    another("slurmctld -D", lambda pid: os.kill(pid, signal.SIGKILL))
    first = ids(2)
    assert first[0] > 3 and first[1] == first[0] + 1, first
    another("slurmctld -D", lambda _: home.kubectl("delete", "pod", "main-slurmctld-0", "-n", "slurm", "--wait=false"))
    assert ids(1) == [first[1] + 1]
    another("slurmctld -D", lambda pid: os.kill(pid, signal.SIGKILL))
    assert ids(1)[0] > first[1] + 1


def valid(pool):
    """ConfigValid, if it is about the newest spec."""
    o = pool.get("slurmcluster", "main", "-n", "slurm")
    c = condition(o, "ConfigValid")
    return c if c.get("observedGeneration", 0) >= o["metadata"]["generation"] else {}


# What only slurmctld itself knows to be wrong, and what the condition must name.
BAD_CONF = [
    ({"config": {"slurmConf": {"Bogus": "1"}}}, ["spec.config.slurmConf.Bogus", "Parsing error at unrecognized key: Bogus", "remove it"]),
    ({"config": {"slurmConf": {"PriorityWeightAge": "banana"}}}, ["spec.config.slurmConf.PriorityWeightAge", "(banana) is not a valid number"]),
    ({"config": {"slurmConf": {"AccountingStorageEnforce": "none"}}}, ["spec.config.slurmConf.AccountingStorageEnforce", "AccountingStorageEnforce invalid: none"]),
    ({"config": {"slurmConf": {"SchedulerType": "sched/nope"}}}, ["spec.config.slurmConf.SchedulerType", "cannot find sched plugin for sched/nope"]),
    ({"slurm": {"image": "tandem/slurm:nope"}}, ["spec.slurm.image", '"tandem/slurm:nope" cannot be had']),
    ({"slurm": {"version": "25.05"}}, ["spec.slurm.version", "24.11", "25.05"]),
]


@pytest.mark.nightly
@pytest.mark.feature("A2.10", "A4.2")
def test_what_slurmctld_would_not_start_with_never_replaces_what_works(home):
    home.up("--nodes", "2")
    before = home.get("slurmcluster", "main", "-n", "slurm")["spec"]
    pods = home.slurm_pods()
    job = home.sbatch("-N2")
    wait_for("it runs", lambda: home.squeue()[job]["state"] == "RUNNING")

    def write(spec):
        home.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=json", "-p", json.dumps([{"op": "replace", "path": "/spec", "value": {**before, **spec}}]))
    for spec, words in BAD_CONF:
        write(spec)
        last = []
        try:
            wait_for("ConfigValid is False and says why", lambda: last.append(valid(home)) or last[-1].get("status") == "False" and all(w in last[-1]["message"] for w in words))
        except AssertionError as e:
            raise AssertionError(f"{e}: {last[-1]}") from None
        assert home.squeue()[job]["state"] == "RUNNING"
        now = home.slurm_pods()
        assert now == pods, "nothing that runs is replaced"
    # The next good one recovers by itself, from wherever it was.
    write({"config": {"slurmConf": {"PriorityWeightAge": "1000"}}})
    wait_for("it is in force", lambda: home.shell("scontrol", "show", "config").split("PriorityWeightAge")[1].split()[1] == "1000")
    wait_for("all is well", lambda: home.cmd("status", check=False).returncode == 0)
    assert home.squeue()[job]["state"] == "RUNNING"
    wait_for("nothing is left of the trials", lambda: not [o for o in home.items("pods,configmaps", "-n", "slurm") if "-trial-" in o["metadata"]["name"]])


@pytest.mark.asan
@pytest.mark.feature("A2.10")
def test_a_new_user_costs_no_restart(home):
    home.up("--nodes", "2")
    before = home.get("slurmcluster", "main", "-n", "slurm")["spec"]["users"]

    def alive():
        pods = [p for p in home.items("pods", "-n", "slurm") if "-trial-" not in p["metadata"]["name"]]
        return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["restartCount"] for p in pods}

    def users(*more):
        assert patch(home, "slurmcluster", "main", {"users": [*before, *more]}).returncode == 0

    def known(pod):
        return home.run("kubectl", "-n", "slurm", "exec", pod, "--", "getent", "passwd", "ann", check=False).stdout.startswith("ann:x:3000:")
    pods = alive()
    names = list(home.slurm_pods())
    client = Client(home, "srun", "-J", "open", "--mem=100M", "sleep", "100000")
    job = wait_for("an open srun", lambda: next((i for i, j in home.squeue().items() if j["name"] == "open" and j["state"] == "RUNNING"), 0))
    users({"name": "ann", "uid": 3000, "gid": 3000})
    for pod in names:
        wait_for(f"{pod} knows her", lambda: known(pod))
    wait_for("her home is there", lambda: home.run("kubectl", "-n", "slurm", "exec", "main-login-0", "--", "stat", "-c", "%u %a", "/home/ann").stdout.split() == ["3000", "700"])
    assert home.cmd("shell", "--user", "ann", "--", "srun", "-N2", "--mem=10M", "id", "-un").stdout.split() == ["ann", "ann"]
    # Her pods, too: slurmctld and slurmrestd know her.
    assert patch(home, "slurmcluster", "main", {"scheduler": {"defaultUser": "ann", "namespaces": [{"namespace": "*", "user": "ann"}]}}).returncode == 0
    made = []

    def a_pod_is_hers():  # from when on the bridge knows, nothing says
        made.append(f"p{len(made)}")
        home.apply(home.pod(made[-1], cpu="100m"))
        wait_for("it runs", lambda: home.phase(made[-1]) == "Running")
        return home.squeue()[home.grant(home.get("pod", made[-1]))[0]]["user"] == "ann"
    wait_for("her pods run", a_pod_is_hers)
    assert home.squeue()[job]["state"] == "RUNNING" and client.code is None
    assert alive() == pods, "nothing was restarted"
