"""The embedded kubelet acquires a pod's devices itself (docs/design/0013-acquire.md): a pod's allocation has no Prolog. The test plays the
bridge (it binds pods with grants) and Prolog of native jobs (it speaks to the node's gate)."""
import contextlib
import ctypes
import glob
import json
import os
import signal
import socket

import pytest

from harness import wait_for
from podplane import IMAGE, plane  # noqa: F401 (plane is a fixture)

pytestmark = [pytest.mark.feature("A7.4"), pytest.mark.embedded]  # embedded: on a cluster Prolog asks for pods, too

STUBBORN = ["sh", "-c", "trap '' TERM; touch /up; until [ -e /end ]; do sleep 0.1; done"]  # ends when the test says so
START = 1790000000
PTRACE_SEIZE, WALL = 0x4206, 0x40000000


class Node:
    """n0 of the plane. A job starts at START + its id unless it says otherwise."""

    def __init__(self, plane):
        self.plane = plane

    def bind(self, name, job, devices="0-1", start=None):
        """A pod that is bound with the grant of this job, as the bridge does it."""
        self.plane.post(name, {"schedulerName": "tandem", "restartPolicy": "Never", "terminationGracePeriodSeconds": 60, "containers": [
            {"name": "c", "image": IMAGE, "command": STUBBORN, "resources": {"limits": {"nvidia.com/gpu": "2"}}}]})
        grant = {"tandem.dev/job-id": str(job), "tandem.dev/job-start": str(start or START + job), "tandem.dev/job-restarts": "0",
                 "tandem.dev/devices": json.dumps({"nvidia.com/gpu": devices}), "tandem.dev/cpus": "0"}
        self.plane.kubectl(f"--kubeconfig={self.plane.home}/kubeconfig/bridge.conf", "create", "--raw", f"/api/v1/namespaces/default/pods/{name}/binding", "-f", "-", input=json.dumps(
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": grant}, "target": {"kind": "Node", "name": "n0"}}))

    def say(self, request):
        """The connection of a request to the gate. Its last line is the answer."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(120)
        s.connect(self.plane.gate_socket("n0"))
        s.sendall(f"{request}\n".encode())
        return s.makefile()

    def prolog(self, job):
        """What the Prolog of a native job says."""
        return self.say(f"acquire job={job} start={START + job} uid=0 node=n0 devices=0-1 timeout=60000")

    def answers(self):
        try:
            return self.say("ping").read() == "ok\n"
        except OSError:
            return False

    def alive(self):
        """The processes of the containers, as the machine shows them: the API learns of an end later."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if open(path, "rb").read().split(b"\0")[:3] == [a.encode() for a in STUBBORN]:
                    found[int(path.split("/")[2])] = int(open(path.replace("cmdline", "stat")).read().rpartition(")")[2].split()[1])
        return [pid for pid, parent in found.items() if parent not in found]  # a shell's child is like it until it runs its command

    def state(self, name):
        """What the pod's container does: (running|waiting|terminated, its details)."""
        p = self.plane.pod_of(name)
        for c in (p or {}).get("status", {}).get("containerStatuses", []):
            return next(iter(c["state"].items()))
        return None, {}

    def runs(self, name):
        return self.state(name)[0] == "running"

    def waits(self, name):
        kind, more = self.state(name)
        return kind == "waiting" and more.get("reason") == "WaitingForDevices" and more["message"]

    def up(self, name):
        """It runs, and has come so far that it takes no notice of TERM."""
        wait_for(f"{name} is up", lambda: self.plane.run("kubectl", "exec", name, "--", "test", "-e", "/up", check=False).returncode == 0)

    def end(self, name):
        self.up(name)
        self.plane.kubectl("exec", name, "--", "touch", "/end")


@pytest.fixture
def node(plane):  # noqa: F811
    n = Node(plane)
    yield n
    for p in plane.items("pods", "-n", "default"):
        plane.kubectl("delete", "pod", p["metadata"]["name"], "--grace-period=0", "--force", "--ignore-not-found")
    wait_for("no container is left", lambda: not os.listdir(f"{plane.home}/pods"))


def test_a_pod_waits_until_the_holder_before_it_is_gone(node):
    node.bind("old", 11)
    node.up("old")  # without any Prolog
    node.bind("new", 12)
    said = wait_for("the next one waits", lambda: node.waits("new"))
    assert said == "devices 0-1 of n0: held by job 11 (pod default/old still runs)"
    # Who is superseded ends: its grant has gone on.
    wait_for("the old one is told to end", lambda: (node.plane.pod_of("old")["status"].get("reason")) == "GrantEnded")
    assert node.waits("new") and len(node.alive()) == 1
    node.end("old")
    wait_for("the new one runs", lambda: node.runs("new"))
    assert len(node.alive()) < 2  # its program may only just be starting


def test_a_claim_outlives_the_agent(node):
    node.bind("old", 21)
    node.up("old")
    node.bind("new", 22)
    wait_for("the next one waits", lambda: node.waits("new"))
    old = node.plane.role_pid("kubelet")
    os.kill(old, signal.SIGKILL)
    wait_for("another agent", lambda: node.plane.role_pid("kubelet") not in (0, old))
    wait_for("its gate is open", node.answers)
    wait_for("the next one waits still", lambda: node.waits("new"))
    assert len(node.alive()) == 1
    node.end("old")
    wait_for("the new one runs", lambda: node.runs("new"))
    assert len(node.alive()) < 2  # its program may only just be starting


def test_a_pod_that_comes_after_a_later_start_is_not_let_in(node):
    """Its job had ended before it was bound or met by its agent. Slurm gave the device on, and that job may run."""
    assert node.prolog(33).read() == "ok\n"
    for name, job, start in (("late", 31, None), ("same-second", 32, START + 33)):
        node.bind(name, job, start=start)
        wait_for(f"{name} fails", lambda: node.plane.pod_of(name)["status"].get("phase") == "Failed")
        assert node.plane.pod_of(name)["status"]["reason"] == "GrantEnded"
        assert node.state(name)[0] != "terminated"  # it never began


def test_a_native_job_waits_for_a_pod_that_no_prolog_asked_for(node):
    node.bind("pod", 41)
    node.up("pod")
    answer = node.prolog(42)
    assert answer.readline() == "wait devices 0-1 of n0: held by job 41 (pod default/pod still runs)\n"
    wait_for("the pod is told to end", lambda: node.plane.pod_of("pod")["status"].get("reason") == "GrantEnded")
    node.end("pod")
    assert answer.read().splitlines()[-1] == "ok"
    assert not node.alive()


@pytest.mark.nightly
@pytest.mark.slow  # it waits for a deadline of 40 s
def test_a_pod_that_waits_too_long_drains_its_node(node):
    node.bind("old", 51)
    node.up("old")
    pid, = wait_for("its process is its own program", node.alive)
    # Who is traced stays until its tracer has seen its end, and so does the container's init. That stands for a process that KILL does not end.
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    node.bind("new", 52)
    held = lambda: node.plane.get("node", "n0")["metadata"].get("annotations", {}).get("tandem.dev/gate-held")  # noqa: E731
    assert wait_for("the node says why", held, 120) == "held by job 51 (pod default/old still runs)"
    assert node.waits("new")
    os.waitpid(pid, WALL)
    wait_for("the new one runs", lambda: node.runs("new"))
    wait_for("the node is well", lambda: not held())
