"""Two operators, two bridges: who leads dies, freezes, is cut off or goes, and the other acts in time; nothing is started twice.

The pool's own operator and bridge are gone (on the embedded plane supervise is frozen): the copies of a test stand where two replicas stand on a
cluster. `--plane real`: the same with a real API server, where Leases and Bindings are somebody else's code."""
import os
import random
import re
import signal
import subprocess
import time
import urllib.request

import pytest

from apidev import free_port
from harness import ended, wait_for
from observer import KubeletObserver, Observer

pytestmark = [pytest.mark.planes, pytest.mark.feature("A12.1")]

LEASE = (12, 8, 1)  # duration, renew deadline, retry period: a machine with much to do stands still for seconds
STANDIN = re.compile(r"\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


class Copy:
    """One more process of a role, started as supervise starts it, with a name, ports and Lease times of its own."""

    def __init__(self, pool, role, name, argv, lease=LEASE):
        self.pool, self.role, self.name, self.port = pool, role, name, free_port()
        ip = next(a for a in argv if a.startswith("--knock=")).split("=")[1].split(":")[0] if role == "bridge" else None
        own = {"--metrics": f"127.0.0.1:{self.port}", "--why": f"unix:{pool.home}/{name}.sock", "--knock": f"{ip}:{free_port()}", "--identity": name}
        self.argv = [f"{k}={own.pop(k)}" if (k := a.split("=")[0]) in own else a for a in argv]
        self.argv += [f"--identity={name}"] if "--identity" in own else []
        if lease:
            self.argv += [f"--lease-duration={lease[0]}s", f"--renew-deadline={lease[1]}s", f"--retry-period={lease[2]}s"]
        self.log = open(f"{pool.home}/log/{role}-{name}.log", "a")
        self.start()

    def start(self):
        self.p = subprocess.Popen(self.argv, env=self.pool.env, stdout=self.log, stderr=self.log)
        wait_for(f"{self.name} answers", lambda: self.get("/livez") == "ok\n")

    def get(self, path):
        assert self.p.poll() is None, f"{self.role} {self.name} ended with {self.p.returncode}: {open(self.log.name).read()[-1500:]}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as r:
                return r.read().decode()
        except OSError as e:
            return str(e)

    @property
    def leads(self):
        return bool(re.search(r"^tandem_leader\{[^}]*\} 1$", self.get("/metrics"), re.M))

    @property
    def in_line(self):
        return bool(re.search(r"^tandem_leader\{[^}]*\} 0$", self.get("/metrics"), re.M)) and self.get("/readyz") == "ok\n"

    def signal(self, sig):
        self.p.send_signal(sig)
        return time.monotonic()

    def kill(self):
        at = self.signal(signal.SIGKILL)
        self.p.wait(60)
        return at

    def end(self):
        if self.p.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        self.log.close()


class Roles:
    """The pool without operator and bridge of its own."""

    def __init__(self, pool):
        self.pool, self.copies, self.argv, self.retired = pool, [], {}, []
        for role in ("operator", "bridge"):
            self.argv[role] = open(f"/proc/{pool.role_pid(role)}/cmdline").read().split("\0")[:-1]
        if pool.plane == "embedded":
            self.supervise = pool.role_pid("supervise")
            os.kill(self.supervise, signal.SIGSTOP)

    def retire(self, role):
        if self.pool.plane == "real":
            p = self.pool.procs.pop(role)
            self.retired.append(role)
            p.terminate()
            p.wait(60)
            return
        pid = self.pool.role_pid(role)
        os.kill(pid, signal.SIGTERM)
        wait_for(f"the {role} of supervise ended", lambda: ended(pid))  # its parent is frozen: it stays a zombie

    def two(self, role, lease=LEASE, kubeconfig=None):
        """(who leads, who stands in line); the first with a kubeconfig of its own."""
        self.retire(role)
        first = self.copy(role, "first", lease, kubeconfig)
        wait_for("the first leads", lambda: first.leads)
        second = self.copy(role, "second", lease)
        wait_for("the second stands in line, ready", lambda: second.in_line)
        return first, second

    def copy(self, role, name, lease=LEASE, kubeconfig=None):
        argv = [f"--kubeconfig={kubeconfig}" if kubeconfig and a.startswith("--kubeconfig=") else a for a in self.argv[role]]
        self.copies.append(Copy(self.pool, role, name, argv, lease))
        return self.copies[-1]

    def end(self):
        for c in self.copies:
            c.end()
        if self.pool.plane == "embedded":
            os.kill(self.supervise, signal.SIGCONT)
        for role in self.retired:
            self.pool.start(role)


class Wire:
    """Another way to the API server of the real plane, which can be cut: packets go nowhere, and nobody is told."""

    def __init__(self, pool):
        c = pool.cluster
        self.there, self.dev, self.api, self.nowhere = f"10.{c.b + 2}.0.1", f"tk{c.id}", c.api, f"10.{c.b}.255.253"
        self.ip("neigh", "replace", self.nowhere, "lladdr", "02:00:00:00:00:01", "dev", self.dev, "nud", "permanent")
        self.mend()
        self.kubeconfig = f"{pool.home}/wire.conf"
        text = open(c.kubeconfig).read()
        assert f"https://{c.api}" in text
        with open(self.kubeconfig, "w") as f:
            f.write(text.replace(f"https://{c.api}", f"https://{self.there}"))

    @staticmethod
    def ip(*argv):
        subprocess.run(["ip", *argv], check=True)

    def cut(self):
        self.ip("route", "replace", f"{self.there}/32", "via", self.nowhere)
        return time.monotonic()

    def mend(self):
        self.ip("route", "replace", f"{self.there}/32", "via", self.api)

    def end(self):
        self.ip("route", "del", f"{self.there}/32")
        self.ip("neigh", "del", self.nowhere, "dev", self.dev)


@pytest.fixture
def wire(own_pool):
    w = Wire(own_pool) if own_pool.plane == "real" else None
    yield w
    if w:
        w.end()


def runs(pool, role):
    try:
        return role in open(f"/proc/{pool.role_pid(role)}/cmdline").read().split("\0")
    except OSError:
        return False


@pytest.fixture
def roles(own_pool):
    # Not only a pid: that of the one before stays in its file until supervise has started another.
    wait_for("both roles run again", lambda: all(runs(own_pool, r) for r in ("operator", "bridge")))
    wait_for("the nodes are in Slurm", lambda: own_pool.idle_nodes() == len(own_pool.nodes), 60)
    own_pool.clean()
    r = Roles(own_pool)
    yield r
    r.end()


def reasons(pool, kind="Bound"):
    return [e for e in pool.items("events") if e["reason"] == kind]


def started(pool):
    """{uid: [states of its stand-in jobs that were ever given resources]}"""
    out = {}
    for line in pool.shell("squeue", "-h", "-a", "-t", "all", "-o", "%j|%T|%N").splitlines():
        name, state, nodes = line.split("|")
        m = STANDIN.search(name)
        if m and nodes:
            out.setdefault(m.group(1), []).append(state)
    return out


def nothing_twice(pool, observer, names):
    """Each pod runs in its first container, on the grant of the one job of its name that runs; nobody shared a device."""
    pods = {p["metadata"]["name"]: p for p in pool.items("pods")}
    assert set(names) <= set(pods)
    # One that a lost reply left beside it ends soon (docs/protocols.md 1.1, I3).
    uid = lambda n: pods[n]["metadata"]["uid"]  # noqa: E731
    more = lambda jobs: {n: jobs.get(uid(n)) for n in names if jobs.get(uid(n), []).count("RUNNING") != 1}  # noqa: E731
    try:
        wait_for("each has one job that runs", lambda: not more(started(pool)))
    except AssertionError as e:
        raise AssertionError(f"{e}: {more(started(pool))}") from None
    for name in names:
        p = pods[name]
        assert p["status"]["phase"] == "Running" and p["status"]["containerStatuses"][0]["restartCount"] == 0, name
        assert pool.squeue()[pool.grant(p)[0]]["state"] == "RUNNING"
    everybody = [d for p in pods.values() if pool.grant(p) and p["status"].get("phase") != "Failed" for d in [(pool.grant(p)[1], g) for g in pool.grant(p)[2]]]
    assert len(everybody) == len(set(everybody)), "a device was granted twice"
    assert observer.doubles == [], observer.double_words()
    bound = [e["involvedObject"]["uid"] for e in reasons(pool)]
    assert all(bound.count(p["metadata"]["uid"]) <= 1 for p in pods.values()), "bound twice"


def burst(pool, word, n, gpus=1):
    pool.apply(*[pool.pod(f"{word}{i}", gpus=gpus, cpu="100m") for i in range(n)])
    return [f"{word}{i}" for i in range(n)]


def running(pool, names):
    return sum(p["metadata"]["name"] in names for p in pool.running()) == len(names)


def bound(pool, names):
    return sum(p["metadata"]["name"] in names and bool(p["spec"].get("nodeName")) for p in pool.items("pods")) == len(names)


@pytest.mark.nightly_real
@pytest.mark.parametrize("how", ["kill", pytest.param("freeze", marks=pytest.mark.nightly), pytest.param("cut", marks=pytest.mark.real)])  # cut: a network of its own is needed
def test_a_bridge_that_dies_freezes_or_is_cut_off_is_followed_by_the_other(own_pool, roles, wire, how):
    seed, (leader, other) = random.Random(how), roles.two("bridge", kubeconfig=wire.kubeconfig if how == "cut" else None)
    watch = (Observer if own_pool.plane == "embedded" else KubeletObserver)(own_pool)
    watch.start()
    names = burst(own_pool, "before", 3)
    wait_for("they run", lambda: running(own_pool, names))
    for round_ in range(2 if own_pool.plane == "embedded" else 1):
        # In the middle of a burst: some are bound, some have a job, some have not.
        names += burst(own_pool, f"round{round_}x", 4)
        time.sleep(seed.random() * 0.3)  # a moment of the seed's: nothing is synchronised by it
        at = leader.kill() if how == "kill" else leader.signal(signal.SIGSTOP) if how == "freeze" else wire.cut()
        names += burst(own_pool, f"after{round_}x", 1)
        wait_for("the other leads", lambda: other.leads)
        if how == "cut":
            wait_for("who is cut off ends", lambda: leader.p.poll() is not None)
        wait_for("the other binds", lambda: bound(own_pool, names))
        print(f"bridge, {how}: {time.monotonic() - at:.1f} s")
        wait_for("they run", lambda: running(own_pool, names))
        if how == "freeze":
            # A grant ends while it is frozen; then it wakes and still believes that it leads.
            victim = names.pop(0)
            own_pool.shell("scancel", str(own_pool.grant(own_pool.get("pod", victim))[0]))
            wait_for("the pod of the ended job is failed", lambda: own_pool.phase(victim) == "Failed")
            leader.signal(signal.SIGCONT)
            leader.p.wait(180)  # it notices and ends; who started it starts it again
        if how == "cut":
            wire.mend()
        nothing_twice(own_pool, watch, names)
        leader.start()
        wait_for("it stands in line", lambda: leader.in_line)
        assert other.leads
        leader, other = other, leader
    watch.end()
    nothing_twice(own_pool, watch, names)
    own_pool.kubectl("delete", "pods", "--all", "--wait=true", timeout=120)
    wait_for("their jobs end with them", lambda: not own_pool.squeue())


@pytest.mark.alone  # measures the machine: a Lease and five seconds
@pytest.mark.parametrize("role", ["operator", "bridge"])
def test_the_other_leads_within_a_lease_and_five_seconds(own_pool, roles, role):
    leader, other = roles.two(role)
    at = leader.kill()
    wait_for("the other leads", lambda: other.leads)
    assert time.monotonic() - at < LEASE[0] + 5


@pytest.mark.nightly_real
@pytest.mark.parametrize("role", ["operator", "bridge"])
def test_a_leader_that_is_told_to_stop_hands_over_at_once(own_pool, roles, role):
    leader, other = roles.two(role, lease=(600, 590, 2))  # one that is not released stands longer than this test waits
    try:
        leader.signal(signal.SIGTERM)
        wait_for("the other leads", lambda: other.leads)
        leader.p.wait(180)
        assert leader.p.returncode == 0
    finally:
        for c in (leader, other):  # and longer than the next test waits
            c.signal(signal.SIGTERM)
            c.p.wait(180)


@pytest.mark.parametrize("how", ["kill", pytest.param("freeze", marks=[pytest.mark.embedded, pytest.mark.nightly])])  # the Lease is the bridge's, where it is shown on both
def test_an_operator_that_dies_or_freezes_is_followed_by_the_other(own_pool, roles, how):
    leader, other = roles.two("operator")
    slurmd = ["-n", "slurm", "-l", "app.kubernetes.io/name=slurmd"]
    at = leader.kill() if how == "kill" else leader.signal(signal.SIGSTOP)
    own_pool.kubectl("delete", "poddisruptionbudget", "main-drain-first", "-n", "slurm")
    old = {p["metadata"]["uid"] for p in own_pool.items("pods", *slurmd)}
    own_pool.kubectl("delete", "pod", "main-pool-n1", "-n", "slurm", "--wait=false", "--grace-period=1")
    wait_for("the other makes it again", lambda: own_pool.items("poddisruptionbudgets", "-n", "slurm"))
    print(f"operator, {how}: {time.monotonic() - at:.1f} s")
    assert other.leads
    every = len(own_pool.nodes)
    wait_for("slurmd is made again, once", lambda: len(own_pool.running(*slurmd)) == every and len({p["metadata"]["uid"] for p in own_pool.items("pods", *slurmd)} - old) == 1, 60)
    now = {p["metadata"]["uid"] for p in own_pool.items("pods", "-n", "slurm")}
    if how == "freeze":
        leader.signal(signal.SIGCONT)  # stands in line again, in the same process
    else:
        leader.start()
    wait_for("it stands in line", lambda: leader.in_line)
    assert other.leads
    wait_for("all is as asked for", lambda: own_pool.idle_nodes() == every and own_pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running", 60)
    assert {p["metadata"]["uid"] for p in own_pool.items("pods", "-n", "slurm")} == now, "the one that woke own_pool changed nothing"
