"""The gate beside a real kubelet (`tandem agent --node`): a device is handed on when the last process of its last holder is gone, whatever becomes of
the pod's object, of the agent and of the kubelet. The test plays Prolog by hand and the bridge too: it binds with the grant's annotations."""
import contextlib
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
import time

import pytest

from harness import patience, wait_for

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "kube"))
import cluster  # noqa: E402
import image  # noqa: E402
import realpool  # noqa: E402

pytestmark = pytest.mark.feature("A7.4", "F2.1")
NODE = "n0"
STUBBORN = "trap '' TERM; echo up; while :; do /bin/busybox sleep 1; done"  # ends by KILL only
LONG = 600  # the test ends it, or it hangs
START = int(time.time())


class Ask:
    """One request at the gate's socket."""

    def __init__(self, path, line):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LONG)
        self.socket.connect(path)
        self.socket.sendall(line.encode() + b"\n")
        self.lines = self.socket.makefile()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def waits(self):
        """It said who is in the way."""
        line = self.lines.readline()
        assert line.startswith("wait "), line
        return line[5:].strip()

    def last(self):
        return (self.lines.read().splitlines() or [""])[-1]

    def lost(self):
        """The agent is gone and has not answered."""
        return not [x for x in self.lines.read().splitlines() if not x.startswith("wait ")]


def children(pid):
    return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended with the one before
            os.kill(int(pid), signal.SIGKILL)


class Node:
    """One node of a real cluster, the agent in its namespaces, and what Prolog and the bridge do there."""

    def __init__(self, kube, build, dir):
        self.kube, self.build, self.dir = kube, build, dir
        self.agent, self.stopped = None, []
        self.job = 100

    # ---- the node ----
    def inside(self, *argv):
        pid = children(self.kube.pids[NODE])[0]
        return ["nsenter", "-t", pid, "-m", "-p", "-n", "-u", "-i", "-C", *map(str, argv)]

    def procs(self, uid):
        """Processes that are left of a pod, told by the machine's own cgroups."""
        left = []
        for top in self.kube.cgroups(NODE):
            for path, _, files in os.walk(top):  # what goes meanwhile is passed over
                if f"/pod{uid}" in path and "cgroup.procs" in files:
                    try:
                        left += pathlib.Path(path, "cgroup.procs").read_text().split()
                    except OSError:
                        pass
        return set(left)

    def hold(self, uid):
        """The kubelet cannot end the pod's processes until end(): what would do it for it, their containerd-shim, is stopped. (A pod that is deleted by
        force has a second or two, whatever its grace period is.)"""
        for pid in self.procs(uid):
            with contextlib.suppress(OSError):  # a short one has gone
                parent = int(re.search(r"PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
                if pathlib.Path(f"/proc/{parent}/comm").read_text().startswith("containerd-shim") and parent not in self.stopped:
                    os.kill(parent, signal.SIGSTOP)
                    self.stopped.append(parent)
        assert self.stopped

    def end(self, uid):
        """The pod's processes end now, whatever its grace period is."""
        kill(self.procs(uid))
        while self.stopped:
            os.kill(self.stopped.pop(), signal.SIGCONT)

    def process(self, name):
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (p / "cmdline").read_bytes().split(b"\0")[0] == name.encode() and os.readlink(p / "cwd") == str(self.kube.dir):
                    return int(p.name)
            except OSError:
                continue
        raise AssertionError(f"no {name}")

    def kubelet(self, sig):
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                argv, env = (p / "cmdline").read_bytes().split(b"\0"), (p / "environ").read_bytes()
            except OSError:
                continue
            if argv[0] == b"kubelet" and str(self.kube.dir).encode() in b" ".join(argv) + env and f"--hostname-override {NODE}".encode() in b" ".join(argv):
                os.kill(int(p.name), sig)
                return
        raise AssertionError("no kubelet")

    # ---- the agent ----
    def spawn_agent(self, *more):
        with open(self.dir / "agent.log", "ab") as log:
            return subprocess.Popen(self.inside(self.build / "src/cmd/tandem", "agent", "--node", NODE, "--devices", 8, "--kubeconfig", self.kube.kubeconfig,
                                                "--state", "/var/lib/kubelet/tandem-agent", "--metrics", "127.0.0.1:9777", *more), stdout=log, stderr=log)

    def start_agent(self, *more):
        self.agent = self.spawn_agent(*more)
        wait_for("the gate is open", lambda: self.ping() or self.agent.poll() is not None, 30)
        assert self.agent.poll() is None, self.log()

    def path(self, inside):
        pid = children(self.kube.pids[NODE])[0]
        return f"/proc/{pid}/root{inside}"

    def ping(self):
        try:
            with Ask(self.path("/run/tandem/gate.sock"), "ping") as a:
                return a.last() == "ok"
        except OSError:
            return False

    def kill_agent(self, sig=signal.SIGKILL):
        if self.agent and self.agent.poll() is None:
            inside = children(self.agent.pid)
            for pid in inside:
                os.kill(int(pid), sig)
            if not inside:  # it is not in its node yet
                self.agent.kill()
            self.agent.wait(60)  # nsenter ends after the agent: its address and its lock are free then
        code, self.agent = self.agent and self.agent.returncode, None
        return code

    def log(self):
        return (self.dir / "agent.log").read_text()[-3000:]

    # ---- Prolog ----
    def next_job(self):
        self.job += 1
        return self.job

    def gate(self, job, devices, timeout=LONG * 1000, comment=None):
        env = {"SLURM_JOB_ID": job, "SLURM_JOB_UID": 1000, "SLURMD_NODENAME": NODE, "SLURM_JOB_GPUS": devices, "SLURM_JOB_START_TIME": START + job}
        if comment:
            env["SLURM_JOB_COMMENT"] = comment
        return subprocess.Popen(self.inside("env", "-i", *[f"{k}={v}" for k, v in env.items()], self.build / "src/standin/tandem-standin", "gate", "--timeout", timeout),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, job, devices, timeout=LONG * 1000, ask=None):
        """The same by hand: shows also when the agent says that somebody is in the way."""
        return Ask(self.path("/run/tandem/gate.sock"), f"acquire job={job} start={START + job} uid=1000 {f'ask={ask} ' if ask else ''}node={NODE} devices={devices} timeout={timeout}")

    def let_in(self, job, devices, **kw):
        p = self.gate(job, devices, **kw)
        out, err = p.communicate(timeout=LONG)
        assert p.returncode == 0, (out, err, self.log())

    # ---- the bridge ----
    def make(self, name, grace=4, command=STUBBORN, **meta):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": {
            "schedulerName": "tandem", "terminationGracePeriodSeconds": grace, "restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "tandem.dev/pause:1", "imagePullPolicy": "Never", "command": ["/bin/busybox", "sh", "-c", command]}]}}
        return json.loads(self.kube.kubectl("create", "-o", "json", "-f", "-", input=json.dumps(pod)))["metadata"]["uid"]

    def bind(self, name, uid, job, devices, version=None):
        body = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": NODE}, "metadata": {"name": name, "uid": uid, "annotations": {
            "tandem.dev/job-id": str(job), "tandem.dev/job-start": str(START + job), "tandem.dev/job-restarts": "0", "tandem.dev/devices": json.dumps({"nvidia.com/gpu": devices})}}}
        if version:
            body["metadata"]["resourceVersion"] = version
        self.kube.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-", input=json.dumps(body))

    def version(self, name):
        return self.kube.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.resourceVersion}")

    def fence(self, name):
        """The condition that the agent wrote; None: none."""
        pod = json.loads(self.kube.kubectl("get", "pod", name, "-o", "json"))
        return next((c for c in pod["status"].get("conditions", []) if c["type"] == "tandem.dev/GrantEnded"), None)

    def run(self, name, devices, **kw):
        """A pod that was granted the devices and runs: its job and uid."""
        job, uid = self.next_job(), self.make(name, **kw)
        self.let_in(job, devices)
        self.bind(name, uid, job, devices)
        wait_for("it runs", lambda: self.phase(name) == "Running", 60)
        if "command" not in kw:
            self.is_stubborn(name)
        # Its job has no comment here, so only the Binding says that the pod holds: the agent may hear of it later than we.
        wait_for("the agent knows its pod", lambda: uid in pathlib.Path(self.path(f"/var/lib/kubelet/tandem-agent/{NODE}.json")).read_text())
        return job, uid

    def is_stubborn(self, name):
        """Its trap is set: before that TERM ends it, and it counts as running earlier."""
        wait_for("its trap is set", lambda: self.kube.kubectl("logs", name) == "up\n")

    def slurmd(self):
        uid = self.make("slurmd-n0", grace=1, labels={"app.kubernetes.io/name": "slurmd"})
        self.kube.kubectl("create", "--raw", "/api/v1/namespaces/default/pods/slurmd-n0/binding", "-f", "-", input=json.dumps(
            {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": NODE}, "metadata": {"name": "slurmd-n0", "uid": uid}}))
        wait_for("it runs", lambda: self.phase("slurmd-n0") == "Running")
        return uid

    def phase(self, name):
        return self.kube.kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.status.phase}")

    def held(self):
        return json.loads(self.kube.kubectl("get", "node", NODE, "-o", "json"))["metadata"]["annotations"].get("tandem.dev/gate-held")


@pytest.fixture(scope="module")
def node(build):
    assets = realpool.assets()
    home = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp"))
    c = cluster.Cluster(home=home, assets=assets, nodes=1)
    n = Node(c, build, home)
    try:
        (home / "images").mkdir()
        image.tandem(home / "images/tandem.tar", build)
        c.up()
        wait_for("accounts", lambda: c.kubectl("get", "serviceaccount", "default", check=False))
        n.start_agent()
        yield n
    finally:
        n.kill_agent()
        c.down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


def refused(act, *args, **kw):
    """The words of the refusal, "" when there was none."""
    try:
        act(*args, **kw)
        return ""
    except subprocess.CalledProcessError as e:
        return str(e)


def let_in_after(node, ask, uid):
    """The gate's answer is "ok", and comes when no process of the pod is left."""
    assert ask.last() == "ok", node.log()
    assert not node.procs(uid)


def test_free_devices_are_given_at_once(node):
    job = node.next_job()
    node.let_in(job, "0-7")
    node.let_in(job, "0-7")  # Prolog again: it has them
    node.let_in(node.next_job(), "0-7")  # nobody's processes are left of the first


def test_a_pod_lets_go_when_its_last_process_is_gone(node):
    job, uid = node.run("hold", "0-1")
    with node.ask(node.next_job(), "1") as a:
        assert a.waits() == f"devices 1 of {NODE}: held by job {job} (pod default/hold still runs)"
        node.kube.kubectl("delete", "pod", "hold", "--wait=false")
        let_in_after(node, a, uid)
    node.let_in(node.next_job(), "0")  # the other device of that pod is free as well


def test_a_pod_that_ends_by_itself_lets_go(node):
    job, uid = node.run("ends", "2", command="until [ -e /go ]; do /bin/busybox sleep 0.2; done")
    with node.ask(node.next_job(), "2") as a:
        a.waits()
        node.kube.kubectl("exec", "ends", "--", "/bin/busybox", "touch", "/go")
        let_in_after(node, a, uid)
    assert node.phase("ends") == "Succeeded"
    node.kube.kubectl("delete", "pod", "ends", "--wait=false")


def test_a_pod_deleted_by_force_still_holds(node):
    job, uid = node.run("forced", "0-1", grace=LONG)
    node.hold(uid)
    with node.ask(node.next_job(), "0-1") as a:
        a.waits()
        node.kube.kubectl("delete", "pod", "forced", "--force", "--grace-period=0")
        assert not node.phase("forced") and node.procs(uid)  # the API has forgotten it, the node has not
        assert a.waits() == f"devices 0-1 of {NODE}: held by job {job} (processes of pod {uid} are left on the node)"
        node.end(uid)
        let_in_after(node, a, uid)


def test_the_agent_dies_while_somebody_waits(node):
    job, uid = node.run("outlives", "3", grace=LONG)
    node.hold(uid)
    prolog = node.gate(next_job := node.next_job(), "3")  # Slurm's own program: it asks again
    with node.ask(next_job, "3") as a:
        a.waits()
        node.kill_agent()
        assert a.lost()
    node.kube.kubectl("delete", "pod", "outlives", "--force", "--grace-period=0")  # nobody sees it go
    node.start_agent()
    with node.ask(next_job, "3") as a:
        assert uid in a.waits()
        node.end(uid)
        let_in_after(node, a, uid)
    assert prolog.communicate(timeout=LONG)[1] == "" and prolog.returncode == 0


def test_one_agent_a_node(node):
    """One that is replaced may still run: the next one waits for it, and then knows what it knew."""
    job, uid = node.run("twice", "6", grace=1)
    first = node.agent
    second = node.spawn_agent("--metrics", "127.0.0.1:9778")
    wait_for("the second one waits", lambda: "another one holds" in node.log())
    node.kill_agent(signal.SIGTERM)
    assert first.returncode == 0
    node.agent = second
    wait_for("its gate is open", node.ping)
    with node.ask(node.next_job(), "6") as a:
        assert f"held by job {job} (pod default/twice still runs)" in a.waits()
        node.kube.kubectl("delete", "pod", "twice", "--wait=false")
        let_in_after(node, a, uid)
    node.kill_agent()
    node.start_agent()


def test_a_grant_that_the_agent_never_saw(node):
    """Its pod was bound and deleted by force while no agent ran: the job's comment, as Prolog has it, says which pod to look for."""
    job, uid = node.next_job(), node.make("unseen", grace=LONG)
    node.let_in(job, "4", comment=f"tandem/{uid}/{uid}")
    node.kill_agent()
    node.bind("unseen", uid, job, "4")
    wait_for("it runs", lambda: node.phase("unseen") == "Running")
    node.is_stubborn("unseen")
    node.hold(uid)
    node.kube.kubectl("delete", "pod", "unseen", "--force", "--grace-period=0")
    node.start_agent()
    with node.ask(node.next_job(), "4") as a:
        assert uid in a.waits() and node.procs(uid)
        node.end(uid)
        let_in_after(node, a, uid)


def test_a_job_that_ends_before_its_pod_is_bound(node):
    """A Binding may be on its way in that moment, so the next one waits a little."""
    node.let_in(node.next_job(), "4", comment=f"tandem/x/{node.make('never')}")
    with node.ask(node.next_job(), "4") as a:
        assert a.waits().endswith("has not come here, and may be bound at this moment)")
        assert a.last() == "ok"
    node.kube.kubectl("delete", "pod", "never", "--wait=false")


def test_a_binding_that_is_late_does_not_land(node):
    """Its job ended and the devices went on while it was on its way: the pod was fenced first, so the next job need not wait and see."""
    uid, job = node.make("late"), node.next_job()
    seen = node.version("late")
    node.let_in(job, "4", comment=f"tandem/x/default/late/{uid}")
    with node.ask(node.next_job(), "4") as a:
        assert a.lines.read() == "ok\n", node.log()
    fence = node.fence("late")
    assert fence["status"] == "True" and fence["message"].startswith(f"Slurm job {job} (start {START + job}) ended before this pod was bound to node {NODE}")
    assert "Conflict" in refused(node.bind, "late", uid, job, "4", version=seen)
    assert node.phase("late") == "Pending" and not node.kube.kubectl("get", "pod", "late", "-o", "jsonpath={.spec.nodeName}")
    # Who knows of the fence may bind it, to another grant. A job that never was another's holder changes nothing on it.
    version = node.version("late")
    node.let_in(job := node.next_job(), "5", comment=f"tandem/x/default/late/{uid}")
    node.bind("late", uid, job, "5", version=version)
    wait_for("it runs", lambda: node.phase("late") == "Running", 60)
    with node.ask(node.next_job(), "5") as a:
        assert "pod default/late still runs" in a.waits()
        assert node.fence("late") == fence
        node.kube.kubectl("delete", "pod", "late", "--wait=false")
        let_in_after(node, a, uid)


def test_a_binding_that_landed_first_is_waited_for(node):
    """In that moment, each time anew: whichever is first, pod and next job are never both let in."""
    for i in range(5):
        name, job = f"race{i}", node.next_job()
        uid = node.make(name, grace=1)
        seen = node.version(name)
        node.let_in(job, "4", comment=f"tandem/x/default/{name}/{uid}")
        said = []
        bound = threading.Thread(target=lambda: said.append(refused(node.bind, name, uid, job, "4", version=seen)))
        bound.start()
        with node.ask(node.next_job(), "4") as a:
            if i % 2 == 0:
                bound.join()  # this one has landed
            first = a.lines.readline()
            bound.join()
            lost = "Conflict" in said[0]
            assert lost or not said[0], said
            print(name, "the fence" if lost else "the Binding", "was first")
            assert lost == (first == "ok\n"), (first, said, node.log())
            node.kube.kubectl("delete", "pod", name, "--wait=false")
            if not lost:
                let_in_after(node, a, uid)


def test_a_job_whose_comment_was_forged_fences_for_itself_only(node):
    """Its owner writes another's pod there: all that comes of it is a condition that names his own job, and nobody waits."""
    uid, job = node.make("victim", grace=1), node.next_job()
    node.let_in(job, "4", comment=f"tandem/x/default/victim/{uid}")
    node.let_in(node.next_job(), "4")
    assert f"Slurm job {job} " in node.fence("victim")["message"]
    before = node.version("victim")
    for comment in (f"tandem/x/default/none/{uid}", f"tandem/x/kube-system/victim/{uid}", f"tandem/x/../victim/{uid}", "tandem/x/default/victim/11111111-2222-3333-4444-555555555555"):
        node.let_in(node.next_job(), "4", comment=comment)
        node.let_in(node.next_job(), "4")
    assert node.version("victim") == before
    node.kube.kubectl("delete", "pod", "victim", "--wait=false")


def test_an_api_that_refuses_the_fence(node):
    """Then it is as it was: who asks next waits a second for a Binding that may be on its way. It never waits for ever."""
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-fence"}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]}]},
        "validations": [{"expression": "object.metadata.name != 'guarded'", "message": "nobody writes there"}]}}
    bound = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-fence"}, "spec": {"policyName": "no-fence", "validationActions": ["Deny"]}}
    for o in (policy, bound):
        node.kube.kubectl("create", "-f", "-", input=json.dumps(o))
    try:
        uid = node.make("guarded")
        wait_for("the policy counts", lambda: "nobody writes there" in refused(node.kube.kubectl, "patch", "pod", "guarded", "--subresource=status", "-p", '{"status":{"message":"x"}}'), 30)
        node.let_in(node.next_job(), "4", comment=f"tandem/x/default/guarded/{uid}")
        with node.ask(node.next_job(), "4") as a:
            assert "may be bound at this moment, and cannot be fenced: API: 422" in a.waits()
            assert a.last() == "ok"
        assert "cannot be fenced" in node.log()
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            node.kube.kubectl("delete", kind, "no-fence")
        node.kube.kubectl("delete", "pod", "guarded", "--ignore-not-found", "--wait=false")


def test_an_api_that_is_away(node):
    """Whether the pod may still be bound is not known then, and unknown is not free; jobs that follow no such job go on."""
    uid = node.make("unknown")
    node.let_in(node.next_job(), "4", comment=f"tandem/x/default/unknown/{uid}")
    node.let_in(node.next_job(), "5-6")  # whoever had these before is proven gone
    api = node.process("kube-apiserver")
    os.kill(api, signal.SIGSTOP)
    try:
        node.let_in(node.next_job(), "5-6")
        with node.ask(node.next_job(), "4") as a:
            assert f"whether pod {uid} has ended is not known: API" in a.waits()
            os.kill(api, signal.SIGCONT)
            assert a.last() == "ok"
    finally:
        os.kill(api, signal.SIGCONT)
    assert node.fence("unknown")
    node.kube.kubectl("delete", "pod", "unknown", "--wait=false")


def test_a_comment_that_names_another_pod_holds_nothing(node):
    _, uid = node.run("other", "5", grace=1)
    node.let_in(node.next_job(), "6", comment=f"tandem/{uid}/{uid}")  # the comment is the job's owner's to write
    node.let_in(node.next_job(), "6")
    node.kube.kubectl("delete", "pod", "other", "--wait=false")


def test_a_table_that_is_lost_is_made_again_from_the_pods(node):
    job, uid = node.run("known", "7", grace=1)
    node.kill_agent()
    os.unlink(node.path(f"/var/lib/kubelet/tandem-agent/{NODE}.json"))
    node.start_agent()
    with node.ask(node.next_job(), "7") as a:
        assert f"held by job {job} (pod default/known still runs)" in a.waits()
        node.kube.kubectl("delete", "pod", "known", "--wait=false")
        let_in_after(node, a, uid)


@pytest.mark.nightly
def test_a_kubelet_that_does_not_answer(node):
    """Unknown is not free: the job's Prolog fails at its deadline with words, the node says why, and is well again when the kubelet is."""
    job, uid = node.run("cut", "0", grace=1)
    node.kubelet(signal.SIGSTOP)
    try:
        node.kube.kubectl("delete", "pod", "cut", "--force", "--grace-period=0")
        node.end(uid)
        wait_for("its processes are gone", lambda: not node.procs(uid))
        prolog = node.gate(next_job := node.next_job(), "0", timeout=round(9000 * patience()))
        said = f"pod {uid} is gone from the API, and its kubelet does not say whether it knows: kubelet https://{node.kube.ip(0)}:10250: "
        wait_for("the node says it", lambda: (node.held() or "").startswith(f"held by job {job} ({said}"))
        _, err = prolog.communicate(timeout=LONG)
        assert prolog.returncode == 1 and said in err, err
        # The same for a job that ended before its pod was bound; an agent may be told not to ask.
        node.let_in(node.next_job(), "7", comment="tandem/x/00000000-0000-4000-8000-000000000000")
        with node.ask(node.next_job(), "7") as a:
            assert "its kubelet does not say whether it knows" in a.waits()
        node.kill_agent()
        node.start_agent("--kubelet", "none")
        node.let_in(node.next_job(), "7")
    finally:
        node.kubelet(signal.SIGCONT)
    node.kill_agent()
    node.start_agent()
    node.let_in(next_job, "0")
    wait_for("nothing is said any more", lambda: node.held() is None)


def test_processes_of_a_job_in_a_pod_of_slurmd(node):
    """A native job holds its devices until its own cgroup is empty; its tasks are let in by the cgroup that they are in."""
    native_job_holds(node, node.log)
    node.kube.kubectl("delete", "pod", "slurmd-n0", "--timeout=60s")


def task(node, pod_uid, job, devices):
    """A task of a job in a pod of slurmd: in Slurm's cgroup, with TaskProlog before it. Says "in" when that let it."""
    pod = next(p for top in node.kube.cgroups(NODE) if top.parts[4] == "freezer" or len(top.parts) == 6 for p in top.glob(f"**/pod{pod_uid}"))
    step = pod / f"slurm_{NODE}/uid_1000/job_{job}/step_0"
    step.mkdir(parents=True)
    env = [f"{k}={v}" for k, v in {"SLURM_JOB_ID": job, "SLURM_JOB_GPUS": devices, "SLURM_JOB_START_TIME": START + job, "SLURMD_NODENAME": NODE}.items()]
    run = node.inside("env", *env, "sh", "-c", f"{node.build / 'src/standin/tandem-standin'} task-prolog && echo in && exec sleep 1000")
    return step, subprocess.Popen(["sh", "-c", f"echo $$ > {step}/cgroup.procs; exec \"$@\"", "sh", *run], stdout=subprocess.PIPE, text=True)


def native_job_holds(node, log):
    uid, job = node.slurmd(), node.next_job()
    node.let_in(job, "0-1")
    step, runs = task(node, uid, job, "0-1")
    try:
        assert runs.stdout.readline() == "in\n", (runs.poll(), log())
        with node.ask(node.next_job(), "1") as a:
            assert "processes of the job are left on the node" in a.waits()
            kill((step / "cgroup.procs").read_text().split())
            assert a.last() == "ok"
    finally:
        runs.kill()
        runs.wait()


def test_only_slurmds_prolog_claims_devices(node):
    """Any pod that may mount the directory can speak with the gate, as root: what it claims counts only from a slurmd pod."""
    job, uid = node.run("victim", "6")

    def claim(name, **meta):
        env = {"SLURM_JOB_ID": node.next_job(), "SLURM_JOB_UID": 1000, "SLURMD_NODENAME": NODE, "SLURM_JOB_GPUS": "6" if name == "thief" else "7", "SLURM_JOB_START_TIME": START + node.job}
        node.kube.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": {
            "nodeName": NODE, "restartPolicy": "Never", "volumes": [{"name": "run", "hostPath": {"path": "/run/tandem"}}], "containers": [
                {"name": "c", "image": image.TANDEM, "imagePullPolicy": "Never", "command": ["tandem-standin", "gate", "--timeout", "30000"], "securityContext": {"runAsUser": 0},
                 "env": [{"name": k, "value": str(v)} for k, v in env.items()], "volumeMounts": [{"name": "run", "mountPath": "/run/tandem"}]}]}}))
        wait_for(f"{name} has asked", lambda: node.phase(name) in ("Succeeded", "Failed"), 60)
        return node.phase(name), node.kube.kubectl("logs", name)
    phase, said = claim("thief", labels={"app.kubernetes.io/name": "slurmd"})  # anybody may call themselves so
    assert phase == "Failed" and "pod default/thief is no slurmd" in said, said
    phase, said = claim("prolog", annotations={"tandem.dev/all-devices": "true"})  # deploy/'s policy: only the operator's pods have it
    assert phase == "Succeeded", said
    assert node.phase("victim") == "Running"
    with node.ask(node.next_job(), "6") as a:
        assert f"held by job {job} " in a.waits()
        node.kube.kubectl("delete", "pod", "victim", "--wait=false")
        let_in_after(node, a, uid)
    node.kube.kubectl("delete", "pod", "thief", "prolog", "--wait=false")


@pytest.mark.feature("A14.1")
def test_what_it_tells_of_itself(node):
    def get(path):
        return subprocess.run(node.inside("python3", "-c", f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9777{path}').read().decode())"), capture_output=True, text=True).stdout
    assert "ok" in get("/livez") and "ok" in get("/readyz")
    assert re.search(r'^tandem_gate_wait_seconds_count\{result="let_in"\} [1-9]', get("/metrics"), re.M)
    pid = children(node.agent.pid)[0]
    rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))
    print(f"resident: {rss / 1024:.1f} MB")
    assert rss < 128 << 10  # figures are for bench/; this only sees a leak, a sanitizer's build too


@pytest.mark.feature("A16.4")
def test_as_a_pod_with_its_own_rights(node):
    """The DaemonSet of deploy/: no capabilities, the machine's cgroups read-only, a ServiceAccount that may ask its kubelet."""
    assert node.kill_agent(signal.SIGTERM) == 0
    os.unlink(node.path("/run/tandem/gate.sock"))
    base = HERE.parent / "deploy/kustomize/base"
    node.kube.kubectl("create", "namespace", "tandem-node")
    node.kube.kubectl("label", "namespace", "tandem-node", "pod-security.kubernetes.io/enforce=privileged")
    text = (base / "40-agent.yaml").read_text().replace("tandem.dev/tandem:0.1.0", image.TANDEM)
    text = text.replace("path: /var/lib/tandem-agent", "path: /var/lib/kubelet/tandem-agent")  # a node here has the machine's /var/lib
    node.kube.kubectl("apply", "-f", "-", input=text)
    wait_for("it is ready", lambda: node.kube.kubectl("get", "daemonset", "-n", "tandem-node", "tandem-agent", "-o", "jsonpath={.status.numberReady}") == "1" and node.ping(), 90)
    native_job_holds(node, lambda: node.kube.kubectl("logs", "-n", "tandem-node", "daemonset/tandem-agent"))
    node.let_in(node.next_job(), "5", comment=f"tandem/x/default/early/{node.make('early')}")
    node.let_in(node.next_job(), "5")
    assert node.fence("early")
    node.kube.kubectl("delete", "pod", "early", "--wait=false")
    job, uid = node.run("forced2", "3")
    with node.ask(node.next_job(), "3") as a:
        a.waits()
        node.kube.kubectl("delete", "pod", "forced2", "--force", "--grace-period=0")
        let_in_after(node, a, uid)
