"""One queue on one machine: sbatch and kubectl share nodes, GPU by GPU (rows F1 A1 A3 A5 A6 A7 A18)."""
import json
import os
import re
import time

import pytest

from devices import GPUS, allowed, node_index, probe, with_home  # noqa: F401 (probe is a fixture)
from harness import expand_hosts, wait_for



@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A3.1", "F1.6")
def test_both_sides_see_the_same_nodes(pool):
    kube = {n["metadata"]["name"]: n for n in pool.items("nodes")}
    slurm = set(pool.shell("sinfo", "-h", "-N", "-o", "%N").split())
    assert set(kube) == slurm == set(pool.nodes)
    assert pool.shell("sinfo", "-h", "-o", "%G").split() == ["gpu:8"]
    for n in kube.values():
        if pool.plane == "embedded":
            assert n["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert n["status"]["capacity"]["cpu"] == "16"
        assert n["metadata"]["labels"]["tandem.dev/fake-gpus"] == "true"


@pytest.mark.nightly_real
@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A1.4", "F1.7")
def test_srun_on_all_nodes_sees_its_devices(pool):
    out = pool.shell("srun", f"-N{len(pool.nodes)}", "--mem=100M", "--gres=gpu:2", "sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
    seen = dict(line.split() for line in out.splitlines())
    assert set(seen) == set(pool.nodes)
    assert all(len(v.split(",")) == 2 for v in seen.values())
    wait_for("its nodes are free", lambda: pool.idle_nodes() == len(pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.feature("A1.5", "A15.1")
def test_srun_from_every_pod_of_a_login_group(pool):
    """slurmctld calls each one's srun back: nothing stays COMPLETING."""
    def replicas(n):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=json", "-p", f'[{{"op":"add","path":"/spec/login/0/replicas","value":{n}}}]')
        pods = lambda: [p for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=login") if "deletionTimestamp" not in p["metadata"]]
        wait_for(f"{n} login pods", lambda: len(pods()) == n and all(p["status"].get("containerStatuses", [{}])[0].get("ready") for p in pods()), 60)
        return [p["metadata"]["name"] for p in pods()]
    try:
        for pod in replicas(3):
            # slurmctld looks up the first label of the host's name, and nothing else.
            ip = pool.get("pod", pod, "-n", "slurm")["status"]["podIP"]
            wait_for(f"slurmctld knows {pod}", lambda: pool.kubectl("exec", "-n", "slurm", "main-slurmctld-0", "-c", "slurmctld", "--", "getent", "ahostsv4", pod).split()[0] == ip)
            out = pool.kubectl("exec", "-n", "slurm", pod, "--", "srun", f"-N{len(pool.nodes)}", "--mem=100M", "hostname")
            assert len(out.split()) == len(pool.nodes)
            wait_for(f"the nodes of {pod}'s job are free", lambda: pool.idle_nodes() == len(pool.nodes))
    finally:
        replicas(1)
    wait_for("a Service each", lambda: sorted(s["metadata"]["name"] for s in pool.items("services", "-n", "slurm", "-l", "app.kubernetes.io/name=login"))
             in (["main-login"], ["main-login", "main-login-0"]))


@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A6.2", "A6.6", "A18.1")
def test_a_pod_goes_through_the_queue(pool):
    pool.apply(pool.pod("one", gpus=2))
    wait_for("pod one runs", lambda: pool.phase("one") == "Running")
    p = pool.get("pod", "one")
    job, node, gpus = pool.grant(p)
    assert len(gpus) == 2
    assert pool.job(job)["JobState"] == "RUNNING"
    assert pool.job_devices(job) == {node: gpus}
    assert p["metadata"]["uid"] in pool.job(job)["JobName"]
    assert "runs" in pool.cmd("why", "one").stdout.lower()
    pool.kubectl("delete", "pod", "one")
    wait_for("its job is gone", lambda: job not in pool.squeue())


@pytest.mark.check
@pytest.mark.feature("A7.1", "A7.2")
def test_pods_and_jobs_share_nodes_and_nobody_gets_anothers_device(pool, probe):
    """A pod with 2 GPUs and a job with 6 on every node: all GPUs, each with one holder; everybody tries every device of its node."""
    n = len(pool.nodes)
    batch = pool.sbatch(f"-N{n}", "--gres=gpu:6")
    wait_for("the job runs", lambda: pool.squeue()[batch]["state"] == "RUNNING")
    d = pool.deployment("share", n, 2)
    with_home(pool, d["spec"]["template"]["spec"])
    pool.apply(d)
    pods = wait_for("a pod for each node runs", lambda: (lambda v: v if len(v) == n else None)(pool.running("-l", "app=share")))
    held = pool.job_devices(batch)
    assert {n: len(g) for n, g in held.items()} == {node: 6 for node in pool.nodes}
    for p in pods:
        job, node, gpus = pool.grant(p)
        assert len(gpus) == 2 and not gpus & held[node], (node, gpus, held)
        held[node] = held[node] | gpus
        out = pool.kubectl("exec", p["metadata"]["name"], "--", *probe(node_index(node)))
        assert allowed(out) == gpus, out
    assert all(len(g) == GPUS for g in held.values())
    native = pool.job_devices(batch)
    for node, gpus in native.items():
        out = pool.shell("srun", f"--jobid={batch}", "--overlap", "-N1", "-n1", "-w", node, "--gres=gpu:6", *probe(node_index(node)))
        assert allowed(out) == gpus, (node, out)


@pytest.mark.nightly_real
@pytest.mark.check
@pytest.mark.feature("A6.3", "A18.1", "A18.2", "F1.8")
def test_full_pool_one_queue_in_slurms_order(pool):
    """Pods and jobs wait together; what is freed goes to the next in Slurm's order, whichever kind it is."""
    n = len(pool.nodes)
    pool.apply(pool.deployment("fill", n, 8))
    wait_for("the pool is full", lambda: len(pool.running("-l", "app=fill")) == n)
    pool.apply(pool.pod("second", gpus=8))
    wait_for("second waits in squeue", lambda: any("second." in j["name"] and j["state"] == "PENDING" for j in pool.squeue().values()))
    first = pool.sbatch("-N1", "--gres=gpu:8", "--nice=-100", "-J", "first")
    third = pool.sbatch("-N1", "--gres=gpu:8", "--nice=1000", "-J", "third")
    wait_for("all wait together", lambda: sum(j["state"] == "PENDING" for j in pool.squeue().values()) == 3)
    cond = wait_for("the pod says why", lambda: next((c for c in pool.get("pod", "second")["status"].get("conditions", [])
                                                       if c["type"] == "PodScheduled" and c["status"] == "False"), None))
    assert cond["message"]
    assert pool.cmd("why", "second").stdout.strip()
    pool.kubectl("scale", "deployment", "fill", f"--replicas={n - 1}")
    wait_for("the native job is first", lambda: pool.squeue().get(first, {}).get("state") == "RUNNING")
    assert pool.phase("second") == "Pending"
    pool.kubectl("scale", "deployment", "fill", f"--replicas={n - 2}")
    wait_for("then the pod", lambda: pool.phase("second") == "Running")
    assert pool.squeue()[third]["state"] == "PENDING"
    pool.shell("scancel", first)
    wait_for("then the last", lambda: pool.squeue().get(third, {}).get("state") == "RUNNING")


@pytest.mark.check
@pytest.mark.feature("A6.6")
def test_scancel_ends_the_pod_and_its_next_one_queues(pool):
    pool.apply(pool.deployment("web", 1, 2))
    p = wait_for("web runs", lambda: pool.running("-l", "app=web"))[0]
    job = pool.grant(p)[0]
    pool.shell("scancel", job)
    name = p["metadata"]["name"]
    wait_for("the pod is failed", lambda: pool.phase(name) == "Failed")
    q = wait_for("another one runs", lambda: pool.running("-l", "app=web"))[0]
    assert q["metadata"]["uid"] != p["metadata"]["uid"]
    assert pool.grant(q)[0] != job


@pytest.mark.nightly_real
@pytest.mark.check
@pytest.mark.feature("A6.6", "F1.8")
def test_deleted_pod_frees_its_gpus_for_a_native_job(pool):
    pool.apply(*[pool.pod(f"hold{i}", gpus=8) for i in range(len(pool.nodes))])
    wait_for("pods hold all", lambda: len(pool.running()) == len(pool.nodes))
    job = pool.sbatch("-N1", "--gres=gpu:8")
    assert pool.squeue()[job]["state"] == "PENDING"
    held = pool.grant(pool.get("pod", "hold2"))[0]
    pool.kubectl("delete", "pod", "hold2", "--wait=false")
    wait_for("the native job has them", lambda: pool.squeue().get(job, {}).get("state") == "RUNNING")
    wait_for("the pod's job is over", lambda: held not in pool.squeue())  # its node's word that all is done may be on its way still


@pytest.mark.nightly_real
@pytest.mark.feature("A6.6")
def test_a_renamed_job_still_ends_with_its_pod(pool):
    """Jobs are ended by id and name in one request; who owns a job may rename it."""
    pool.apply(pool.pod("renamed"), pool.pod("waits", gpus=8), *[pool.pod(f"hold{i}", gpus=8) for i in range(len(pool.nodes))])
    pods = ["renamed"] + [f"hold{i}" for i in range(len(pool.nodes))]
    wait_for("all that fit are bound", lambda: all(pool.grant(pool.get("pod", p)) for p in pods[:1]) and len(pool.running()) == len(pods))
    job = pool.grant(pool.get("pod", "renamed"))[0]
    waits = wait_for("one waits", lambda: [j for j, v in pool.squeue().items() if v["state"] == "PENDING"])[0]
    pool.shell("scontrol", "update", f"jobid={job}", "name=something-else")
    pool.shell("scontrol", "update", f"jobid={waits}", "name=another")
    waiting = [p["metadata"]["name"] for p in pool.items("pods", "-n", "default") if not pool.grant(p)]
    pool.kubectl("delete", "pod", "renamed", *waiting, "--wait=false")
    wait_for("both jobs are over", lambda: not {job, waits} & set(pool.squeue()))
    wait_for("the others live", lambda: len(pool.squeue()) == len(pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.feature("A18.2")
def test_a_pod_that_can_never_fit_is_refused_with_the_reason(pool):
    pool.apply(pool.pod("huge", gpus=9))
    ev = wait_for("an event says so", lambda: [e for e in pool.items("events", "-n", "default") if e["reason"] == "Refused" and e["involvedObject"]["name"] == "huge"])
    assert "gpu" in ev[0]["message"]
    assert not [j for j in pool.squeue().values() if j["name"].startswith("huge.")]


@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A5.2", "B2.1", "B2.2")
def test_cordon_drains_and_uncordon_resumes(pool):
    pool.kubectl("cordon", "n1")
    wait_for("our reason is in sinfo -R", lambda: re.search(r"tandem: cordoned.* n1", pool.shell("sinfo", "-h", "-R", "-o", "%E %N")))
    pool.kubectl("uncordon", "n1")
    wait_for("resumed", lambda: pool.idle_nodes() == len(pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.check
@pytest.mark.feature("A5.1", "A5.6")
def test_a_foreign_drain_is_shown_and_left_alone(pool):
    pool.shell("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan")
    n = wait_for("shown on the node", lambda: (lambda o: o if o["metadata"].get("annotations", {}).get("tandem.dev/slurm-reason") == "bad fan" else None)(pool.get("node", "n2")))
    assert any(t["key"] == "tandem.dev/slurm-drain" for t in n["spec"].get("taints", []))
    pool.kubectl("cordon", "n2")
    pool.kubectl("uncordon", "n2")
    # a full round of the syncer has passed when another node's cordon has come and gone
    pool.kubectl("cordon", "n0")
    wait_for("n0 drained", lambda: re.search(r"tandem: cordoned.* n0", pool.shell("sinfo", "-h", "-R", "-o", "%E %N")))
    pool.kubectl("uncordon", "n0")
    wait_for("n0 resumed", lambda: "n0" not in pool.shell("sinfo", "-h", "-N", "-t", "drain", "-o", "%N"))
    assert "bad fan" in pool.shell("sinfo", "-h", "-R", "-o", "%E %N")
    resume = "shell --user root -- scontrol update nodename=n2 state=resume"
    if pool.plane == "embedded":
        resume = wait_for("status says what to do", lambda: re.search(r"node n2: Slurm says drained: bad fan. To resume it: tandem (shell --user root -- .*)", pool.cmd("status", check=False).stdout)).group(1)
    pool.cmd(*resume.split())
    wait_for("the taint is gone", lambda: not pool.get("node", "n2")["spec"].get("taints"))


@pytest.mark.nightly_real
@pytest.mark.feature("A5.4")
def test_slurmds_pod_says_what_slurm_says_of_its_node(pool):
    """As a label, so that `kubectl get pods -l` finds them, and with the reason of a drain beside it."""
    def label():
        return pool.get("pod", "main-pool-n2", "-n", "slurm")["metadata"]["labels"].get("tandem.dev/node-state")
    wait_for("idle", lambda: label() == "idle")
    job = pool.sbatch("-N1", "-w", "n2", "-c1")
    wait_for("mixed", lambda: label() == "mixed")
    pool.shell("scancel", job)
    job = pool.sbatch("-N1", "-w", "n2", "--exclusive")
    wait_for("allocated", lambda: label() == "allocated")
    pool.shell("scontrol", "update", "nodename=n2", "state=drain", "reason=bad fan")
    wait_for("draining, and why", lambda: label() == "draining" and pool.get("pod", "main-pool-n2", "-n", "slurm")["metadata"]["annotations"].get("tandem.dev/slurm-reason") == "bad fan")
    assert [p["metadata"]["name"] for p in pool.items("pods", "-n", "slurm", "-l", "tandem.dev/node-state=draining")] == ["main-pool-n2"]
    pool.shell("scancel", job)
    wait_for("drained", lambda: label() == "drained")
    pool.shell("scontrol", "update", "nodename=n2", "state=resume")
    wait_for("idle again", lambda: label() == "idle")


@pytest.mark.nightly_real
@pytest.mark.feature("A1.1", "A1.3", "A1.5", "A5.6")
def test_slurm_starts_again_where_all_its_nodes_are_drained(pool):
    """Its own daemons may go to drained nodes: nobody could resume these without it."""
    pool.shell("scontrol", "update", f"nodename={','.join(pool.nodes)}", "state=drain", "reason=power work")
    wait_for("shown on every node", lambda: all("tandem.dev/slurm-drain" in [t["key"] for t in n.get("spec", {}).get("taints", [])] for n in pool.items("nodes") if n["metadata"]["name"] in pool.nodes))
    daemons = ("-n", "slurm", "pods", "-l", "app.kubernetes.io/name in (slurmctld, slurmrestd, login)")
    before = {p["metadata"]["uid"] for p in pool.items(*daemons)}
    pool.kubectl("delete", *daemons, "--wait=false")

    def again():
        pods = pool.items(*daemons)
        return len(pods) == len(before) and not before & {p["metadata"]["uid"] for p in pods} and all(
            any((c["type"], c["status"]) == ("Ready", "True") for c in p.get("status", {}).get("conditions", [])) for p in pods)
    wait_for("other daemons run", again)
    wait_for("all are drained still", lambda: pool.shell("sinfo", "-h", "-R", "-o", "%E").strip() == "power work")
    pool.shell("scontrol", "update", f"nodename={','.join(pool.nodes)}", "state=resume")
    wait_for("resumed", lambda: pool.idle_nodes() == len(pool.nodes))
    wait_for("no taint is left", lambda: not any(n.get("spec", {}).get("taints") for n in pool.items("nodes") if n["metadata"]["name"] in pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.feature("A12.3", "A5.6")
def test_a_pod_made_while_slurmctld_is_away(pool):
    """It says what it waits for, and the return of slurmctld is met by its pod."""
    ctld = ("pod", "main-slurmctld-0", "-n", "slurm")
    ready = lambda p: [c for c in p.get("status", {}).get("conditions", []) if (c["type"], c["status"]) == ("Ready", "True")]
    pool.kubectl("cordon", *pool.nodes)  # so that it stays away
    try:
        wait_for("all are drained", lambda: set(pool.shell("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split()) == set(pool.nodes))
        old = pool.get(*ctld)["metadata"]["uid"]
        pool.kubectl("delete", *ctld, "--wait=false")
        wait_for("it is gone", lambda: (p := pool.get(*ctld))["metadata"]["uid"] != old and not p["spec"].get("nodeName"))
        pool.apply(pool.pod("meanwhile"))
        wait_for("the pod says so", lambda: "Slurm cannot be asked now" in json.dumps(pool.get("pod", "meanwhile")["status"].get("conditions", [])))
    finally:
        pool.kubectl("uncordon", *pool.nodes)
    wait_for("slurmctld is back", lambda: ready(pool.get(*ctld)))
    back = time.monotonic()
    wait_for("the pod is bound", lambda: pool.get("pod", "meanwhile")["spec"].get("nodeName"))
    print(f"bound {time.monotonic() - back:.1f} s after slurmctld's pod was ready")
    wait_for("no node is drained", lambda: not pool.shell("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split())


@pytest.mark.feature("A7.4")
def test_default_scheduler_pods_run_beside_and_get_no_pool_devices(pool, probe):
    p = pool.pod("plain", cpu="100m", scheduler="default-scheduler")
    with_home(pool, p["spec"])
    pool.apply(p)
    wait_for("plain runs", lambda: pool.phase("plain") == "Running")
    node = pool.get("pod", "plain")["spec"]["nodeName"]
    assert allowed(pool.kubectl("exec", "plain", "--", *probe(node_index(node)))) == set()
    assert not [j for j in pool.squeue().values() if "plain" in j["name"]]


@pytest.mark.feature("F1")
@pytest.mark.embedded  # `tandem shell` of $TANDEM_HOME
def test_a_shell_with_a_terminal(pool):
    """`tandem shell` on a terminal gives a terminal inside; its exit code is the shell's own."""
    import pty
    import select
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(pool.tandem, [pool.tandem, "shell"], pool.env)
    got, sent, end = b"", False, time.monotonic() + 180
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                chunk = os.read(fd, 4096)
            except OSError:
                break
            if not chunk:
                break
            got += chunk
        if not sent and got.rstrip().endswith((b"#", b"$")):
            os.write(fd, b"tty; hostname; exit 5\n")
            sent = True
    _, status = os.waitpid(pid, 0)
    assert b"/dev/pts/" in got, got
    assert os.waitstatus_to_exitcode(status) == 5, got
    assert pool.cmd("shell", "--", "sh", "-c", "exit 7", check=False).returncode == 7


@pytest.mark.nightly_real
@pytest.mark.feature("A18.1", "A18.2", "E1.6")
def test_why_knows_arrays_and_jobs_of_several_nodes(pool):
    def why(what, code=0):
        r = pool.cmd("why", what, check=False)
        assert r.returncode == code, r
        return (r.stdout + r.stderr).strip()
    both = pool.sbatch("-N2", "--gres=gpu:3", "-J", "both")
    array = pool.sbatch("--array=0-5%2", "-J", "many")
    nodes = wait_for("it runs", lambda: pool.job(both).get("JobState") == "RUNNING" and expand_hosts(pool.job(both)["NodeList"]))
    start = f"Job {both} (both, user root) runs on "  # in Slurm's order
    assert why(both).startswith(start) and sorted(why(both)[len(start):-1].split("; ")) == [f"{n} (gpu:3(IDX:0-2))" for n in nodes], why(both)
    # Two run before Slurm has said of the next one why it does not.
    wait_for("two tasks run", lambda: why(array) == (f"Job {array} (many, user root) is an array: tasks [2-5%2]: it waits: its array runs as many tasks at once as it may (JobArrayTaskLimit);"
                                                     " 2 tasks run."))
    assert f"Job {array}_1 (many, user root) runs on" in why(f"{array}_1")
    for waiting in (f"{array}_3", f"{array}_[2-5%2]", f"{array}_[2-5]"):
        assert why(waiting).startswith(f"Job {waiting} (many, user root) waits: its array runs"), waiting
    wide = pool.sbatch(f"-N{len(pool.nodes)}", "--exclusive", "-J", "wide")
    wait_for("it waits for all nodes", lambda: "on all the nodes that it wants at once (Resources)" in why(wide))
    assert why(f"{array}_77", 1) == f"Job {array} has no task 77, or it ended a while ago."
    assert "is not an array" in why(f"{both}_1", 1)
    assert why(999999, 1) == "Slurm does not know job 999999: it never was, or ended a while ago."
    assert "is no job: give its id, such as 12, or of an array 12_3" in why(f"{array}_x", 1)


@pytest.mark.feature("A18.1", "A18.2")
@pytest.mark.embedded  # `tandem why` of $TANDEM_HOME asks Kubernetes, too
def test_why_of_a_deployment_asks_for_its_pods(pool):
    why = lambda *argv: pool.cmd("why", *argv, check=False)
    pool.apply(pool.deployment("web", 3, gpus=5))
    pool.kubectl("rollout", "status", "deployment/web", timeout=600)
    r = why("deployment/web")
    assert r.returncode == 0 and r.stdout.startswith("Deployment default/web wants 3 pods: 3 run, 0 wait.\n") and r.stdout.count(" as Slurm job ") == 3, r
    pool.kubectl("scale", "deployment/web", "--replicas", len(pool.nodes) + 12)
    said = wait_for("it says that pods wait", lambda: next((o for o in [why("deploy/web").stdout] if f"{len(pool.nodes)} run, 12 wait." in o and ("(Resources)" in o or "(Priority)" in o)
                                                          and "waits. It waits in Slurm's queue" in o.splitlines()[1]), None))  # the first one may not be there yet
    assert said.endswith("more.\n") and len(said.splitlines()) == 12, said
    name = pool.running("-l", "app=web")[0]["metadata"]["name"]
    assert why(name).stdout == why(f"pod/{name}").stdout == why(f"pods/{name}", "-n", "default").stdout != ""
    got = json.loads(why("deployments.apps/web", "-o", "json").stdout)
    assert len(got["pods"]) == 10 and got["text"].startswith("Deployment")
    assert why("replicaset/" + name.rpartition("-")[0]).stdout.startswith("ReplicaSet default/web-")
    for words, code, says in ((["deployment/no"], 1, "there is no Deployment default/no"), (["service/web"], 1, "was taken for a namespace"), (["a_b"], 2, "neither a pod nor a job"), (["Deployment/web"], 2, "deployment/NAME"),
                              (["web", "-n", "other"], 1, "There is no pod other/web")):
        r = why(*words)
        assert r.returncode == code and says in r.stderr, r


@pytest.mark.feature("F1", "A13.2")
@pytest.mark.embedded  # `tandem shell` of $TANDEM_HOME
def test_a_shell_is_an_ordinary_users(pool):
    """It lands in his home, which all nodes share and nobody else may enter; what his jobs print is there."""
    mine = lambda *argv, **kw: pool.cmd("shell", *argv, **kw).stdout.strip()
    assert mine("--", "sh", "-c", "id -un; id -gn; pwd; echo $HOME $USER $SHELL").split() == ["researcher", "researcher", "/home/researcher", "/home/researcher", "researcher", "/bin/bash"]
    assert mine("--user", "pods", "--", "pwd") == "/home/pods" and mine("-u", "root", "--", "id", "-u") == "0"
    assert pool.shell("stat", "-c", "%a %U", "/home/researcher", "/home/pods").split("\n")[:2] == ["700 researcher", "700 pods"]
    for secret in ("/etc/slurm-keys/slurm.key", "/home/pods/."):
        assert pool.cmd("shell", "--", "ls" if secret.endswith(".") else "cat", secret, check=False).returncode != 0, secret
    job = mine("--", "sbatch", "--parsable", "--mem=100M", "--wait", "--wrap", "hostname; id -un")
    node, who = wait_for("its output is at home", lambda: len(words := open(f"{pool.shared_dir}/researcher/slurm-{job}.out").read().split()) == 2 and words)
    assert node in pool.nodes and who == "researcher" and mine("--", "cat", f"slurm-{job}.out") == f"{node}\nresearcher"
    assert mine("--", "srun", "--mem=100M", "pwd") == "/home/researcher"
    r = pool.cmd("shell", "--user", "nobody-knows", "--", "true", check=False)
    assert r.returncode == 1 and "there is no user nobody-knows" in r.stderr
    assert pool.cmd("shell", "--", "scontrol", "update", "nodename=n0", "state=drain", "reason=x", check=False).returncode != 0


@pytest.mark.embedded  # the real plane's API server has an audit log: t/test_deploy.py
@pytest.mark.feature("A16.4")
def test_no_role_asked_for_what_it_may_not(shared_pool):
    """Last in this file: the roles have done their daily work by now, each with its own rights only."""
    # The gateway is there before `up` has made the namespaces and its rights in them.
    early = re.compile(r"system:tandem:gateway asked for what it may not: list (pods|slurmclusters|federatedruns) in namespace slurm$", re.M)
    assert [l for l in open(f"{shared_pool.home}/log/apiserver.log", errors="replace") if "asked for what it may not" in l and not early.search(l)] == []
