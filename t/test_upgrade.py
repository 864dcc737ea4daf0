"""Upgrades of nodes as an object: nodes are changed one after the other under a stream of jobs, none of which is lost; an
upgrade is paused, resumed and ended; one that breaks a node is rolled back; the operator dies in the middle."""
import json
import os
import pathlib
import shutil

import pytest

import harness
from harness import patience, wait_for

pytestmark = [pytest.mark.feature("B7.1"), pytest.mark.embedded]  # the programs lie in the home of this machine
ENDS = ("Succeeded", "RolledBack", "Aborted", "Failed")


@pytest.fixture
def site(pool):
    """The pool with programs of a site's, which write down what they do."""
    did = f"{pool.home}/did"
    programs = {"driver-2": f'echo "driver-2 $1" >>{did}',
                "breaks-n2": f'echo "breaks-n2 $1" >>{did}; [ $1 != n2 ] || echo "gpu0 burn=fail cure=clear" >>{pool.run_dir}/nodes/n2/faults',
                "driver-1": f'echo "driver-1 $1" >>{did}; rm -f {pool.run_dir}/nodes/$1/faults'}
    os.makedirs(f"{pool.home}/actions", exist_ok=True)
    for name, text in programs.items():
        with open(f"{pool.home}/actions/{name}", "w") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{pool.home}/actions/{name}", 0o755)
    pool.did = lambda: open(did).read().split("\n")[:-1] if os.path.exists(did) else []
    wait_for("the agents say so", lambda: all(annotation(n, "programs") == "breaks-n2,driver-1,driver-2" for n in pool.items("nodes")))
    yield pool
    pool.kubectl("delete", "nodeupgrades", "--all")
    wait_for("no act is left", lambda: all(a.get("status", {}).get("phase") in ("Succeeded", "Failed", "Unknown") for a in pool.items("nodeactions")))
    for name in programs:
        os.remove(f"{pool.home}/actions/{name}")
    if os.path.exists(did):
        os.remove(did)
    wait_for("all is as before", lambda: all(not annotation(n, k) for n in pool.items("nodes") for k in ("programs", "hold", "needs-person", "faults")))
    pool.kubectl("delete", "nodeactions", "--all")


def annotation(node, key):
    return node["metadata"].get("annotations", {}).get(f"tandem.dev/{key}")


def upgrade(pool, name):
    return pool.get("nodeupgrade", name)


def status(pool, name):
    return upgrade(pool, name).get("status", {})


def phases(pool, name):
    return {n["name"]: n["phase"] for n in status(pool, name)["nodes"]}


def phases_or(pool, name):
    """The same; {} before it has any."""
    return {n["name"]: n["phase"] for n in status(pool, name).get("nodes", [])}


def ended(pool, name):
    return wait_for(f"upgrade {name} has ended", lambda: (s := status(pool, name)).get("phase") in ENDS and s, 120)


def in_service(pool, *nodes):
    return sorted(nodes) == sorted(set(pool.shell("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-n", ",".join(nodes), "-o", "%N").split()))


@pytest.mark.feature("B7.3", "B7.6", "B7.7", "B2.1", "B2.2", "B2.3")
def test_under_a_stream_of_jobs_and_the_operator_dies(site):
    pool = site
    pool.shell("rm", "-f", "/home/stream", "/home/enough", "/home/begun")
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeUpgrade", "metadata": {"name": "unknown"}, "spec": {"nodes": ["n0"], "what": {"program": "driver-3"}}})
    first, long = (pool.sbatch("-w", n, "--gres=gpu:1", script=f"#!/bin/sh\nuntil [ -e /home/{flag} ]; do sleep 0.1; done\necho $SLURM_JOB_ID >>/home/stream\n")
                   for n, flag in (("n1", "begun"), ("n2", "enough")))
    wait_for("the long jobs run", lambda: all(pool.job(j).get("JobState") == "RUNNING" for j in (first, long)))
    stream, at_work = [], []
    pool.cmd("upgrade", "start", "driver", "--nodes", "n1,n2,n3", "--program", "driver-2", "--max-unavailable", "2", "--reason", "new driver")

    def until(done):
        def look():
            s = status(pool, "driver")
            at_work.append(s.get("nodesAtWork", 0))
            if len(stream) < 40:
                stream.append(pool.sbatch("--gres=gpu:2", script="#!/bin/sh\nsleep 0.5\necho $SLURM_JOB_ID >>/home/stream\n"))
            return done(s)
        return look
    wait_for("two nodes are begun", until(lambda s: s.get("nodesAtWork") == 2))
    pool.kill_role("operator")
    pool.shell("touch", "/home/begun")
    wait_for("all but the node with the long job are upgraded", until(lambda s: s.get("nodesUpgraded") == 2), 120)
    assert phases(pool, "driver") == {"n1": "Upgraded", "n2": "Upgrading", "n3": "Upgraded"}
    assert sorted(pool.did()) == ["driver-2 n1", "driver-2 n3"], "a node whose job has not ended is not touched"
    pool.shell("touch", "/home/enough")
    wait_for("it has ended", until(lambda s: s.get("phase") in ENDS), 120)
    s = status(pool, "driver")
    assert (s["phase"], s["nodesUpgraded"], s["message"]) == ("Succeeded", 3, "3 of 3 nodes are upgraded")
    assert max(at_work) == 2
    assert sorted(pool.did()) == ["driver-2 n1", "driver-2 n2", "driver-2 n3"], "each once, whoever died"
    acts = {a["metadata"]["name"]: a for a in pool.items("nodeactions")}
    for n in s["nodes"]:
        act = acts[n["action"]]
        assert (act["spec"]["node"], act["metadata"]["uid"], act["spec"]["upgrade"]) == (n["name"], n["operationId"], "driver")
        assert [x["name"] for x in act["status"]["steps"]] == ["drain", "run", "test", "return"]
        assert n["startedAt"] <= act["status"]["startedAt"] <= act["status"]["finishedAt"] <= n["finishedAt"]
    assert len([a for a in acts.values() if a["spec"].get("upgrade") == "driver"]) == 3
    assert "upgrade driver: new driver" in pool.cmd("history", "n2").stdout
    assert pool.kubectl("get", "nodeupgrade", "driver", "-o", "jsonpath={.status.conditions[?(@.type=='Complete')].status}") == "True"
    wait_for("no job is lost, none ran twice", lambda: sorted(map(int, pool.shell("cat", "/home/stream").split())) == sorted([first, long, *stream]))
    assert {pool.job(j).get("Restarts") for j in (first, long, *stream[-3:])} == {"0"}
    assert 'the agent of node n0 has no program "driver-3"' in ended(pool, "unknown")["message"]
    pool.shell("rm", "-f", "/home/stream", "/home/enough", "/home/begun")


@pytest.mark.feature("B7.4")
def test_paused_resumed_and_aborted(site):
    pool = site
    pool.cmd("upgrade", "start", "slow", "--nodes", "n1,n2", "--program", "driver-2", "--no-test", "--paused")
    wait_for("it is paused", lambda: status(pool, "slow").get("phase") == "Paused")
    job = pool.sbatch("-w", "n1")
    wait_for("a job runs on the first node", lambda: pool.job(job).get("JobState") == "RUNNING")
    assert pool.did() == [] and phases(pool, "slow") == {"n1": "Pending", "n2": "Pending"}
    pool.cmd("upgrade", "resume", "slow")
    wait_for("the first node is begun", lambda: phases(pool, "slow")["n1"] == "Upgrading")
    pool.cmd("upgrade", "pause", "slow")
    pool.shell("scancel", job)
    wait_for("what was begun goes on", lambda: phases(pool, "slow") == {"n1": "Upgraded", "n2": "Pending"} and status(pool, "slow")["phase"] == "Paused")
    assert pool.did() == ["driver-2 n1"]
    assert "tandem upgrade resume slow" in pool.cmd("upgrade", "status", "slow").stdout
    assert pool.cmd("upgrade", "abort", "slow", "--wait", check=False).stdout.splitlines()[-1] == "Aborted: 1 of 2 nodes are upgraded: it was aborted"
    assert pool.did() == ["driver-2 n1"] and "has ended" in pool.cmd("upgrade", "resume", "slow", check=False).stderr
    listed = json.loads(pool.cmd("upgrade", "-o", "json").stdout)["upgrades"]
    assert [(u["metadata"]["name"], u["status"]["phase"]) for u in listed] == [("slow", "Aborted")]
    wait_for("both nodes work", lambda: in_service(pool, "n1", "n2"))


@pytest.mark.feature("B7.6", "B7.7")
def test_a_long_job_saves_itself_and_goes_on(site):
    """It gets the signal, has its grace, is requeued, and goes on from what it saved."""
    pool = site
    pool.shell("rm", "-f", "/home/saved", "/home/went-on", "/home/begun")
    script = "#!/bin/sh\n[ ! -e /home/saved ] || echo $SLURM_RESTART_COUNT >>/home/went-on\ntrap 'echo $SLURMD_NODENAME >>/home/saved' USR1\nsleep 100000 &\n: >/home/begun\nwhile :; do wait; done\n"
    grace = round(2 * patience())  # a busy machine runs the script later
    job = pool.sbatch("--requeue", "-w", "n1", script=script)
    wait_for("it knows the signal", lambda: os.path.exists(f"{pool.shared_dir}/begun"))
    pool.cmd("upgrade", "start", "saves", "--nodes", "n1", "--program", "driver-2", "--no-test", "--grace", f"{grace}s")
    wait_for("it is requeued", lambda: pool.job(job).get("Restarts") == "1")
    assert pool.shell("cat", "/home/saved").split() == ["n1"], "it was told once, and had time to save itself"
    s = ended(pool, "saves")
    act = pool.get("nodeaction", s["nodes"][0]["action"])
    assert (s["phase"], act["spec"]["checkpoint"]) == ("Succeeded", {"signal": "USR1", "graceSeconds": grace})
    assert act["status"]["startedAt"] <= act["status"]["signalledAt"] <= act["status"]["finishedAt"]
    wait_for("it goes on", lambda: pool.shell("cat", "/home/went-on").split() == ["1"])
    pool.shell("scancel", job)
    pool.shell("rm", "-f", "/home/saved", "/home/went-on", "/home/begun")


@pytest.mark.feature("B7.5")
def test_rolled_back_when_a_node_fails_its_test(site):
    pool = site
    r = pool.cmd("upgrade", "start", "bad", "--nodes", "n1,n2,n3", "--program", "breaks-n2", "--on-failure", "rollback", "--rollback-program", "driver-1", "--wait", check=False)
    s = status(pool, "bad")
    assert r.returncode == 1 and s["phase"] == "RolledBack", r.stdout
    assert pool.did() == ["breaks-n2 n1", "breaks-n2 n2", "driver-1 n2", "driver-1 n1"], "the node that failed goes back first"
    assert phases(pool, "bad") == {"n1": "RolledBack", "n2": "RolledBack", "n3": "Pending"}
    acts = {a["metadata"]["name"]: a["status"] for a in pool.items("nodeactions")}
    n2 = s["nodes"][1]
    assert acts[n2["action"]]["phase"] == "Failed" and "test failed" in acts[n2["action"]]["message"]
    assert acts[n2["rollbackAction"]]["phase"] == "Succeeded" and "measured" in acts[n2["rollbackAction"]], "it passed the test before it returned"
    wait_for("all nodes work", lambda: in_service(pool, "n1", "n2", "n3"))


@pytest.fixture
def second(site):
    """Slurm's image once more, by another name."""
    store = pathlib.Path(harness.IMAGES) / "tandem+slurm"
    here, made = store / "24.11", store / f"again-{site.id}"
    part = store / f".part-{site.id}"
    part.mkdir()
    name = f"tandem/slurm:again-{site.id}"
    (part / "image.json").write_text(json.dumps({**json.loads((here / "image.json").read_text()), "name": name, "tool": ""}))
    (part / "rootfs").symlink_to((here / "rootfs").resolve())
    part.rename(made)
    yield name
    shutil.rmtree(made)
    for n in site.items("nodes"):
        if annotation(n, "slurmd-image"):
            site.kubectl("annotate", "node", n["metadata"]["name"], "tandem.dev/slurmd-image-")


@pytest.mark.nightly
@pytest.mark.feature("B7.2", "B7.3", "B7.4", "B7.5", "B7.7")
def test_slurm_itself_is_upgraded_and_rolled_back(site, second):
    """Its daemons first, then slurmd node by node under a stream of jobs; when a node fails its test all of it goes back. What the nodes have is what the
    SlurmCluster says."""
    pool, old = site, "tandem/slurm:24.11"
    pool.shell("rm", "-f", "/home/stream", "/home/enough")
    long = pool.sbatch("-w", "n2", script="#!/bin/sh\nuntil [ -e /home/enough ]; do sleep 0.1; done\necho $SLURM_JOB_ID >>/home/stream\n")
    wait_for("the long job runs", lambda: pool.job(long).get("JobState") == "RUNNING")
    stream, seen = [], []

    def images():
        """{app or node: images of its pods}"""
        r = {}
        for p in pool.items("pods", "-n", "slurm", "-l", "tandem.dev/cluster=main"):
            app = p["metadata"]["labels"].get("app.kubernetes.io/name")
            if app in ("slurmctld", "slurmrestd", "login", "slurmd"):
                r.setdefault(p["spec"]["nodeName"] if app == "slurmd" else app, set()).add(next(c["image"] for c in p["spec"]["containers"] if c["name"] == app))
        return r

    def until(done):
        def look():
            now = images()
            seen.append((now.get("slurmctld"), [n for n in ("n0", "n1", "n2", "n3") if second in now.get(n, ())]))
            r = pool.shell("sbatch", "--parsable", "--gres=gpu:1", "-o", "/dev/null", "--wrap", "sleep 0.3; echo $SLURM_JOB_ID >>/home/stream", check=False) if len(stream) < 25 else ""
            if r.strip().isdigit():  # else slurmctld was away, and nothing was accepted
                stream.append(r.strip())
            return done()
        return look
    pool.cmd("upgrade", "start", "slurm", "--slurm-image", second, "--nodes", "n1,n2", "--max-unavailable", "2", "--on-failure", "rollback", "--reason", "a rebuild")
    wait_for("the first node has it", until(lambda: phases_or(pool, "slurm") == {"n1": "Upgraded", "n2": "Upgrading"}), 180)
    assert all(ctld == {second} for ctld, nodes in seen if nodes), "no slurmd before slurmctld"
    now = images()
    assert {k: v for k, v in now.items() if k != "n1"} == {"slurmctld": {second}, "slurmrestd": {second}, "login": {second}, "n0": {old}, "n2": {old}, "n3": {old}} and now["n1"] == {second}
    assert pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["slurm"] | {"version": ""} == {"image": second, "slurmdImage": old, "version": ""}
    r = pool.cmd("upgrade", "start", "other", "--slurm-image", "tandem/slurm:other", "--wait", check=False)
    assert r.returncode == 1 and "NodeUpgrade slurm upgrades Slurm of SlurmCluster slurm/main" in r.stdout
    assert f"Slurm of slurm/main, from {old} to {second}" in pool.cmd("upgrade", "status", "slurm").stdout

    pool.cmd("upgrade", "pause", "slurm")
    faults = f"{pool.run_dir}/nodes/n2/faults"
    with open(faults, "w") as f:
        f.write("gpu0 burn=fail\n")
    pool.shell("touch", "/home/enough")
    wait_for("the second node has failed", until(lambda: phases_or(pool, "slurm")["n2"] == "Failed" and status(pool, "slurm")["phase"] == "Paused"), 120)
    os.remove(faults)
    pool.cmd("upgrade", "resume", "slurm")
    s = wait_for("it has ended", until(lambda: (s := status(pool, "slurm")).get("phase") in ENDS and s), 240)
    assert s["phase"] == "RolledBack" and phases(pool, "slurm") == {"n1": "RolledBack", "n2": "RolledBack"}, s
    assert images() == {k: {old} for k in ("slurmctld", "slurmrestd", "login", "n0", "n1", "n2", "n3")}
    assert pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["slurm"] | {"version": ""} == {"image": old, "version": ""}
    act = pool.get("nodeaction", s["nodes"][0]["action"])
    assert (act["spec"]["action"], act["spec"]["slurmImage"]) == ("slurmd", second) and [x["name"] for x in act["status"]["steps"]] == ["drain", "slurmd", "test", "return"]
    # One whose sbatch was cut off with its login pod may have been accepted, too.
    wait_for("no job is lost", lambda: {str(long), *stream} <= set(pool.shell("cat", "/home/stream").split()))
    ran = pool.shell("cat", "/home/stream").split()
    assert len(ran) == len(set(ran)), "none ran twice"
    wait_for("all nodes work", lambda: in_service(pool, "n0", "n1", "n2", "n3"))
    pool.shell("rm", "-f", "/home/stream", "/home/enough")


def test_wrong_words_are_refused(pool):
    for argv, code, words in [(("start", "x", "--nodes", "n1,n99", "--reboot"), 1, 'there is no node "n99"'), (("start", "x", "--nodes", "n1"), 2, "what is to be done"),
                              (("start", "x", "--reboot"), 2, "--nodes"), (("start", "x", "--nodes", "n1", "--reboot", "--max-unavailable", "120%"), 2, "from 1% to 100%"),
                              (("start", "x", "--nodes", "n1", "--reboot", "--on-failure", "rollback"), 2, "--rollback-program"), (("pause",), 2, "which upgrade"),
                              (("start", "x", "--slurm-image", "i", "--reboot"), 2, "--slurm-image goes alone"), (("start", "x", "--slurm-image", "i", "--slurm-cluster", "main"), 2, "NAMESPACE/NAME"),
                              (("status", "x"), 1, 'there is no upgrade "x"'), (("mend", "x"), 2, "is no action")]:
        r = pool.cmd("upgrade", *argv, check=False)
        assert (r.returncode, r.stdout) == (code, "") and words in r.stderr, r
    bad = {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeUpgrade", "metadata": {"name": "x"}, "spec": {"nodes": ["n1"], "what": {"reboot": True}, "maxUnavailable": "101%"}}
    assert "spec.maxUnavailable" in pool.run("kubectl", "create", "-f", "-", input=json.dumps(bad), check=False).stderr
    bad["spec"] = {"nodes": ["n1", "n99"], "what": {"reboot": True}}
    pool.apply(bad)
    try:
        assert ended(pool, "x")["message"] == 'spec.nodes[1]: there is no node "n99": `tandem nodes` lists them'
    finally:
        pool.kubectl("delete", "nodeupgrade", "x")
