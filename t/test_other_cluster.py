"""Nodes of another Kubernetes cluster as one more group of the pool (docs/other-cluster.md). The other cluster is a second home without Slurm, and the pool
knows it by an account with the rights of deploy/examples/other-cluster.yaml alone."""
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from harness import ROOT, Failed, Pool, wait_for
from laptop import Laptop, address, ask
from wsclient import WebSocket

sys.path.insert(0, f"{ROOT}/deploy/images")
import archive  # noqa: E402

pytestmark = [pytest.mark.feature("D5.4"), pytest.mark.embedded]


STANDIN = f"tandem.test/standin:{os.getpid()}"
SERVE = "use IO::Socket::INET; my \\$s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5) or die; while (my \\$c = \\$s->accept) { my \\$l = <\\$c>; print \\$c \\$l; close \\$c }"


class East:
    """The pool, and its other cluster `there`."""

    def __init__(self, pool, there):
        self.pool, self.there = pool, there

    def copies(self):
        """{name here: pod} of the copies there."""
        return {p["metadata"]["annotations"]["tandem.dev/from-name"].split("/")[1]: p for p in self.there.items("pods", "-n", "tandem")}

    def pod(self, name, script="sleep 100000", cpu="1", gpus=0, label="east", notes=(), **spec):
        p = self.pool.pod(name, gpus, cpu=cpu, command=["sh", "-c", script], **{"restartPolicy": "Never", **spec})
        p["metadata"]["labels"] = {"tandem.dev/other-cluster": label} if label else {}
        p["metadata"]["annotations"] = {"slurm.tandem.dev/partition": "east", **dict(notes)}
        return p

    def status(self, name):
        return self.pool.get("pod", name, "-n", "default")["status"]

    def runs(self, name):
        wait_for(f"{name} runs", lambda: self.status(name).get("phase") == "Running")
        return self.copies()[name]

    def job(self, name):
        return self.pool.get("pod", name, "-n", "default")["metadata"]["annotations"]["tandem.dev/job-id"]

    def idle(self):
        """Removes all pods, and waits until Slurm and the other cluster have none."""
        if self.pool.items("pods", "-n", "default"):
            self.pool.kubectl("delete", "pods", "--all", "-n", "default", "--wait=false")
        wait_for("all is gone", lambda: not self.pool.items("pods", "-n", "default") and not self.copies())
        wait_for("its nodes are idle", lambda: self.pool.shell("sinfo", "-h", "-p", "east", "-N", "-o", "%T").split() == ["idle"])


def kubeconfig(there):
    token = there.kubectl("create", "token", "pool", "-n", "tandem").strip()
    admin = json.loads(there.kubectl("config", "view", "--raw", "-o", "json"))
    ca = base64.b64encode(pathlib.Path(f"{there.home}/pki/ca.crt").read_bytes()).decode()
    return {"apiVersion": "v1", "kind": "Config", "current-context": "pool",
            "clusters": [{"name": "there", "cluster": {"server": admin["clusters"][0]["cluster"]["server"], "certificate-authority-data": ca}}],
            "users": [{"name": "pool", "user": {"token": token}}], "contexts": [{"name": "pool", "context": {"cluster": "there", "user": "pool"}}]}


@pytest.fixture(scope="module")
def both(shared_pool, tandem, build):
    home = tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp")
    there = Pool(tandem, home)
    pool = shared_pool
    pool.clean()
    try:
        # The pool changes while the other cluster comes up, and waits for the Secret.
        pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "east", "namespace": "slurm"},
                    "spec": {"clusterName": "main", "otherCluster": {"kubeconfigSecret": "east", "image": STANDIN}}})
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"partitions": [{"name": "all", "default": True}, {"name": "east", "nodeSets": ["east"]}]}}))
        there.up("--no-slurm", "--nodes", "1", "--cpus", "4", "--memory", "8Gi", "--gpus", "2")
        there.kubectl("apply", "-f", ROOT / "deploy/examples/other-cluster.yaml")
        archive.archive(f"{home}/standin.tar", STANDIN, files={"/usr/bin/tandem-standin": f"{build}/src/standin/tandem-standin"})
        there.cmd("image", "import", f"{home}/standin.tar")
        pool.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east", "namespace": "slurm"}, "stringData": {"kubeconfig": json.dumps(kubeconfig(there))}})
        wait_for("Slurm has its node", lambda: pool.shell("sinfo", "-h", "-N", "-p", "east", "-o", "%N %T %c %G").split() == ["east-n0", "idle", "3", "gpu:2"])
        e = East(pool, there)
        yield e
        # A pod that runs there when the NodeSet goes leaves nothing there, and no Node here. The last test has left one.
        if not e.copies():
            pool.apply(e.pod("last"))
            e.runs("last")
        pool.kubectl("delete", "nodeset", "east", "-n", "slurm")
        wait_for("nothing is left there", lambda: not e.copies())
        wait_for("its Node is gone", lambda: [n["metadata"]["name"] for n in pool.items("nodes")] == pool.nodes)
    finally:
        there.cmd("image", "remove", STANDIN, check=False)
        reports = there.crash_reports()
        pool.kubectl("delete", "nodeset/east", "secret/east", "-n", "slurm", "--ignore-not-found")
        ends = threading.Thread(target=there.down, kwargs={"purge": True})  # while the pool changes back
        ends.start()
        pool.change({"partitions": None}, idle=False)
        ends.join()
        shutil.rmtree(home, ignore_errors=True)
        wait_for("the pool is as it was", lambda: sorted(pool.shell("sinfo", "-h", "-N", "-o", "%N").split()) == sorted(pool.nodes))
        assert reports == []


@pytest.fixture
def east(both):
    both.idle()
    return both


def test_a_copy_is_made_after_the_grant_and_is_gone_before_the_next_one(east):
    pool = east.pool
    pool.apply(east.pod("first", cpu="3", gpus=2, script='echo "$CUDA_VISIBLE_DEVICES"; sleep 100000'))
    copy = east.runs("first")
    assert copy["spec"]["nodeName"] == "n0" and copy["metadata"]["labels"].keys() == {"tandem.dev/from-nodeset", "tandem.dev/from-pod"}
    assert not copy["spec"].get("automountServiceAccountToken", True)
    pool.apply(east.pod("second", cpu="3", script="sleep 1; exit 7"))
    wait_for("it waits in Slurm's queue", lambda: "in Slurm's queue" in pool.cmd("why", "second").stdout)
    assert east.copies().keys() == {"first"}
    pool.kubectl("delete", "pod", "first", "--wait=false")
    wait_for("the second has ended", lambda: east.status("second").get("phase") == "Failed")
    assert east.copies().keys() == {"second"}  # that of a pod that has ended stays as long as the pod, with its output
    assert east.status("second")["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    wait_for("its job has ended", lambda: not pool.squeue())
    pool.kubectl("delete", "pod", "second", "--wait=false")
    wait_for("its copy goes with it", lambda: not east.copies())


def test_its_files_go_along_and_logs_exec_and_port_forward_reach_it(east):
    pool, there = east.pool, east.there
    pool.kubectl("create", "namespace", "neighbour")
    try:
        for ns, word in (("default", "mine"), ("neighbour", "theirs")):
            pool.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key.s", "namespace": ns}, "stringData": {"word": word, "env": word}},
                       {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "namespace": ns}, "data": {"FROM": word}})
        serve = f'echo "hello $WORD $FROM"; exec perl -e "{SERVE}"'

        def talks(name, ns="default", secret="key.s", **more):
            p = east.pod(name, script=serve, cpu="500m", volumes=[
                {"name": "all", "projected": {"sources": [{"secret": {"name": secret}}, {"configMap": {"name": "conf"}}, {"configMap": {"name": "nowhere", "optional": True}}]}}], **more)
            p["metadata"]["namespace"] = ns
            c = p["spec"]["containers"][0]
            c["volumeMounts"] = [{"name": "all", "mountPath": "/all"}]
            c["envFrom"] = [{"configMapRef": {"name": "conf"}}]
            c["env"] = [*c.get("env", []), {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": secret, "key": "env"}}}]
            return p
        pool.apply(talks("talks"), talks("waits", secret="later"), talks("next-door", ns="neighbour"))
        east.runs("talks")
        pool.kubectl("patch", "configmap", "conf", "--type=merge", "-p", '{"data":{"FROM":null,"news":"1"}}')
        wait_for("its log is here", lambda: pool.kubectl("logs", "talks"))
        assert pool.kubectl("logs", "talks") == "hello mine mine\n"
        # Its neighbour there has the other one of that name.
        wait_for("its neighbour runs", lambda: pool.get("pod", "next-door", "-n", "neighbour")["status"].get("phase") == "Running")
        wait_for("its log is here, too", lambda: pool.kubectl("logs", "next-door", "-n", "neighbour") == "hello theirs theirs\n")
        # The program's input, its output, its errors and how it ends come through.
        r = pool.run("kubectl", "exec", "-i", "talks", "--", "sh", "-c", "cat - /all/word; echo err >&2; exit 3", input="in\n", check=False)
        assert (r.returncode, r.stdout) == (3, "in\nmine") and "err" in r.stderr

        f = subprocess.Popen(["kubectl", "port-forward", "talks", ":8080"], env=pool.env, stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+) ->", f.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as c:
                c.sendall(b"through both\n")
                assert c.recv(100) == b"through both\n"
        finally:
            f.kill()
            f.wait()

        # What is not here yet is waited for, in words; what changes here changes there.
        wait_for("it says what it waits for", lambda: any("Secret default/later" in c.get("message", "") for c in east.status("waits").get("conditions", [])))
        pool.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later", "namespace": "default"}, "stringData": {"env": "x"}})
        east.runs("waits")
        wait_for("the change is there", lambda: pool.kubectl("exec", "talks", "--", "sh", "-c", "ls /all").split() == ["env", "news", "word"])

        # What nobody uses any more is gone there.
        pool.kubectl("delete", "pod", "talks", "waits", "--wait=false")
        pool.kubectl("delete", "pod", "next-door", "-n", "neighbour", "--wait=false")
        wait_for("nothing of it is left", lambda: not there.items("secrets,configmaps", "-n", "tandem", "-l", "tandem.dev/from-nodeset"))
    finally:
        pool.kubectl("delete", "namespace", "neighbour", "--wait=false")


def test_a_gang_starts_there_whole_and_its_members_find_each_other(east):
    pool = east.pool

    def member(i):
        look = 'until getent hosts $MASTER_ADDR >/dev/null; do sleep 0.2; done; echo "$RANK of $WORLD_SIZE at $ME of $TANDEM_GANG_HOSTS, first $MASTER_ADDR"'
        p = east.pod(f"w-{i}", script=look, cpu="500m", notes={"tandem.dev/gang-size": "2"})
        p["metadata"]["labels"]["tandem.dev/gang"] = "w"
        p["spec"]["containers"][0]["env"] = [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['tandem.dev/gang-rank']"}}}]
        return p
    pool.apply(member(0))
    wait_for("it waits for the other", lambda: "1 of 2" in pool.cmd("why", "w-0").stdout)
    assert not east.copies() and not pool.squeue()
    pool.apply(member(1))
    for i in (0, 1):
        wait_for(f"w-{i} has found the first", lambda: east.status(f"w-{i}").get("phase") == "Succeeded")
    hosts = ",".join(f"{east.copies()[f'w-{i}']['spec']['hostname']}.copies" for i in (0, 1))
    for i in (0, 1):
        assert pool.kubectl("logs", f"w-{i}") == f"{i} of 2 at {i} of {hosts}, first {hosts.split(',')[0]}\n"


@pytest.mark.feature("D3.4", "D3.5", "D3.6", "D4.1")
def test_a_session_there_is_reached_by_its_owner_alone(east, tmp_path):
    pool, there = east.pool, east.there
    me = Laptop(pool, tmp_path / "laptop", "researcher")
    try:
        sessions(pool, there, east, me)
    finally:
        for s in me.api("GET", "/sessions")[1]["sessions"]:
            me.api("DELETE", f"/sessions/{s['id']}")


def sessions(pool, there, east, me):
    copy = lambda s: next(p for n, p in east.copies().items() if n == f"session-{s['id']}")  # noqa: E731
    start = lambda *argv: me.json("session", "start", "--other-cluster", "east", *argv)  # noqa: E731
    # Where no claim there has the homes, a terminal has an empty one, which goes with it.
    shell = start("shell", "--gpus", "1")
    assert (shell["state"], shell["otherCluster"], shell["home"]) == ("ready", "east", "empty")
    w = WebSocket(address(pool), f"{shell['path']}tty", {"Authorization": f"Bearer {me.key}"})
    w.send(b"touch mine; printf 'uid=%s in %s has %s %s\\n' $(id -u) $PWD $(ls) $CUDA_VISIBLE_DEVICES\n")
    w.until(b"uid=1000 in /home/researcher has mine 0")
    w.send(b"head -c 3000000 /dev/zero | tr '\\0' x; echo; echo $((6*7)) all of it\n")  # more than all buffers hold
    w.until(b"42 all of it")
    w.close()
    assert "its home is empty" in me.run("session", "list").stdout
    assert me.run("ssh", shell["id"], "--", "echo", "by ssh at $HOME").stdout == "by ssh at /home/researcher\n"
    # A claim goes there by the name that the NodeSet says for it, or not at all.
    claims = [{"name": "h", "persistentVolumeClaim": {"claimName": "home"}}]
    pool.apply(east.pod("data", volumes=claims))
    wait_for("it names the claim", lambda: "{namespace: default, claim: home, there: NAME}" in east.status("data").get("message", ""))
    for wrong, says in ((["--nodes", "2", "endpoint", "--", "true"], "would not find each other"), (["tensorboard"], "names no claim with homes there")):
        r = me.run("session", "start", "--other-cluster", "east", *wrong, check=False)
        assert r.returncode and says in " ".join(r.stderr.split()), r.stderr
    me.run("session", "stop", shell["id"])
    for name in ("pool", "west"):
        status, reply = me.api("POST", "/sessions", {"kind": "shell", "otherCluster": name})
        assert status == 422 and "is no other cluster of this pool" in str(reply), reply

    there.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "homes", "namespace": "tandem"}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "shared", "resources": {"requests": {"storage": "1Gi"}}}}))
    home = pathlib.Path(there.home, "shared/claims/tandem/homes/researcher")
    home.mkdir(parents=True)
    home.joinpath("hello.txt").write_text("from my home there")
    os.chown(home, 1000, 1000)
    pool.kubectl("patch", "nodeset", "east", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"otherCluster": {"claims": [{"namespace": "researcher", "claim": "home", "there": "homes"}]}}}))
    idle = me.api("POST", "/sessions", {"otherCluster": "east", "command": "exec python3 -m http.server $PORT", "name": "idle", "idle": 10})[1]
    # Replicas, each a pod there; requests are spread over those that are ready.
    web = me.api("POST", "/sessions", {"otherCluster": "east", "command": "echo written > out.txt; exec python3 -m http.server $PORT", "name": "web", "replicas": 2})[1]
    wait_for("it answers", lambda: ask(me, f"{web['path']}hello.txt") == (200, "from my home there"))
    assert home.joinpath("out.txt").stat().st_uid == 1000 and ask(me, f"{web['path']}nothing")[0] == 404
    wait_for("both are ready", lambda: (r := me.api("GET", f"/sessions/{web['id']}")[1]["replicas"])["ready"] == 2 and r)
    gone = copy(web)["metadata"]["uid"]
    there.kubectl("delete", "pod", copy(web)["metadata"]["name"], "-n", "tandem", "--wait=false")
    assert all(wait_for("the other one answers", lambda: ask(me, f"{web['path']}hello.txt")[0] == 200) for _ in range(4))
    wait_for("it is made anew", lambda: any(n == f"session-{web['id']}" and p["metadata"]["uid"] != gone for n, p in east.copies().items()) and me.api("GET", f"/sessions/{web['id']}")[1]["replicas"]["ready"] == 2)
    # TensorBoard shows what is in the home there.
    status, board = me.api("POST", "/sessions", {"kind": "tensorboard", "otherCluster": "east"})
    assert status == 201 and me.api("DELETE", f"/sessions/{board['id']}")[0] == 200, board
    assert ask(me, f"{web['path']}hello.txt", key=False)[0] == 401
    # Nobody there reaches its port by the network, as one reaches that of a pod.
    pool.apply(east.pod("open", script=f'exec perl -e "{SERVE}"', cpu="500m"))
    east.runs("open")
    at = lambda pod, port: there.run("kubectl", "exec", "-n", "tandem", east.copies()["open"]["metadata"]["name"], "--", "timeout", "5", "bash", "-c",  # noqa: E731
                                     f"exec 3<>/dev/tcp/{pod['status']['podIP']}/{port}", check=False).returncode
    assert at(east.copies()["open"], 8080) == 0 and at(copy(web), 8888) != 0
    there.kubectl("delete", "networkpolicy", "sessions", "-n", "tandem")
    wait_for("it is the policy that kept it closed", lambda: at(copy(web), 8888) == 0)
    # It ends by the rules, and comes back at its address; its job and its copy end with it.
    me.run("session", "stop", web["id"])
    wait_for("nobody uses it", lambda: me.api("GET", f"/sessions/{idle['id']}")[1]["state"] == "reclaimed")
    wait_for("nothing of them is left there", lambda: east.copies().keys() <= {"open", "data"})
    again = lambda: me.api("POST", f"/sessions/{idle['id']}/resume")[0] == 200 and ask(me, f"{idle['path']}hello.txt")  # noqa: E731
    wait_for("it is there again", lambda: again() == (200, "from my home there"))


def test_whoever_ends_it_here_ends_it_there(east):
    pool = east.pool
    pool.apply(east.pod("cancelled"), east.pod("forced"), east.pod("removed"))
    for name in ("cancelled", "forced", "removed"):
        east.runs(name)
    pool.shell("scancel", east.job("cancelled"))
    wait_for("it has failed here", lambda: east.status("cancelled").get("reason") == "Cancelled")
    # One that is taken away here without a word, while nobody looks.
    pool.kill_role("operator")
    pool.kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
    # Nobody takes a pod out of sight that runs there.
    for change in ("tandem.dev/other-cluster-", "tandem.dev/other-cluster=west"):
        with pytest.raises(Failed, match="leave it as it is, or delete the pod"):
            pool.kubectl("label", "pod", "removed", change, "--overwrite")
    # And one that is taken away there: it is not run a second time.
    east.there.kubectl("delete", "pod", east.copies()["removed"]["metadata"]["name"], "-n", "tandem", "--wait=false")
    wait_for("nobody's copies are gone", lambda: not east.copies())
    wait_for("it has failed here, too", lambda: east.status("removed").get("phase") == "Failed")
    wait_for("their jobs have ended", lambda: not pool.squeue())


def what_cannot_go_there_is_refused_by_name(east):
    pool = east.pool
    token = [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    pool.apply(east.pod("refused", volumes=token), east.pod("stays", label=None))
    # Native jobs cannot run there, whatever they say that they are.
    for comment in ("x", "? tandem/1/default/x/5e556ff1-6501-49fa-84f7-46f82b65eccd", f"{'0' * 64} tandem/1/default/x/5e556ff1-6501-49fa-84f7-46f82b65eccd"):
        code, _, err = pool.ask("runuser", "-u", "researcher", "--", "sbatch", "-p", "east", "--comment", comment, "--wrap", "true")
        assert code and "only pods run" in err.replace("\n", " "), err
    wait_for("the field is named", lambda: "spec.volumes[0].projected.sources[0].serviceAccountToken: it cannot go to another cluster" in pool.cmd("why", "refused").stdout)
    wait_for("without the label it has no node", lambda: "no node" in (said := pool.cmd("why", "stays").stdout) or "none of" in said)


def test_a_lost_cluster_loses_nothing_and_what_cannot_go_there_is_refused(east):
    pool, there = east.pool, east.there
    pool.apply(east.pod("kept"), east.pod("leaves"))
    uids = {n: east.runs(n)["metadata"]["uid"] for n in ("kept", "leaves")}
    # Its pods go on, and nobody answers.
    keeper = there.role_pid("supervise")
    os.kill(keeper, signal.SIGSTOP)
    try:
        there.kill_role("apiserver")
        what_cannot_go_there_is_refused_by_name(east)  # nobody need be asked for that
        wait_for("its node is drained", lambda: "other cluster: it does not answer" in pool.shell("sinfo", "-h", "-N", "-p", "east", "-o", "%E"))
        pool.kubectl("delete", "pod", "leaves", "--wait=false")
        said = pool.get("nodeset", "east", "-n", "slurm")["status"]["conditions"]
        assert any(c["reason"] == "OtherCluster" for c in said)
        # Nobody knows whether it runs: it is not let go, and neither is what it holds.
        assert pool.get("pod", "leaves", "-n", "default")["metadata"]["deletionTimestamp"] and len(pool.squeue()) == 2
    finally:
        os.kill(keeper, signal.SIGCONT)
    wait_for("it ends there and here", lambda: east.copies().keys() == {"kept"} and len(pool.squeue()) == 1)
    with pytest.raises(Failed):
        pool.get("pod", "leaves", "-n", "default")
    assert east.copies()["kept"]["metadata"]["uid"] == uids["kept"]
    wait_for("its node is back", lambda: pool.shell("sinfo", "-h", "-N", "-p", "east", "-o", "%T").split() == ["mixed"])
