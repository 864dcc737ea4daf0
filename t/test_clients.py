"""Programs that others wrote for Kubernetes, against both planes: the official Python client (t/clients/py), client-go and controller-runtime
(t/clients/go): they list, watch, keep informers across a kill -9 of the server, elect leaders, reconcile a CRD."""
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import apidev
from harness import KEEP, Failed, wait_for

pytestmark = pytest.mark.feature("F1.2")

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("TANDEM_CLIENTS", "/var/cache/tandem/clients"))


def stamp(*files):
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


@pytest.fixture(scope="session")
def go_client():
    """The program of t/clients/go, built once and kept by the hash of its sources."""
    src = HERE / "clients/go"
    binary = CACHE / f"go-{stamp(*sorted(src.iterdir()))}"
    if not binary.exists():
        if not shutil.which("go"):
            pytest.skip("the Go client: not available, because there is no go")
        CACHE.mkdir(parents=True, exist_ok=True)
        # The flags of tools/kube-assets: what it compiled is not compiled again.
        argv = ["nice", "-n", "10", "go", "build", "-p", "1", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", f"{binary}.{os.getpid()}", "."]
        r = subprocess.run(argv, cwd=src, env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True, timeout=1500)
        if r.returncode and ("dial tcp" in r.stderr or "module lookup disabled" in r.stderr or "i/o timeout" in r.stderr):
            pytest.skip(f"the Go client: not available, because its modules cannot be had: {r.stderr.strip().splitlines()[-1]}")
        assert r.returncode == 0, r.stderr
        os.rename(f"{binary}.{os.getpid()}", binary)
    return [str(binary)]


@pytest.fixture(scope="session")
def py_client():
    """The official Python client in an environment of its own, by pinned hashes."""
    lock = HERE / "clients/py/requirements.txt"
    env = CACHE / f"py-{stamp(lock)}-{sys.version_info.major}.{sys.version_info.minor}"
    if not env.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        new = pathlib.Path(tempfile.mkdtemp(dir=CACHE, prefix="py-new-"))
        try:
            subprocess.run([sys.executable, "-m", "venv", new], check=True, capture_output=True)
            r = subprocess.run([new / "bin/pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "-r", lock], capture_output=True, text=True, timeout=600)
            if r.returncode:
                pytest.skip(f"the Python client: not available, because {r.stderr.strip().splitlines()[-1] if r.stderr else 'pip failed'}")
            os.rename(new, env)
        except (OSError, subprocess.CalledProcessError) as e:
            pytest.skip(f"the Python client: not available, because {e}")
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return [str(env / "bin/python3"), str(HERE / "clients/py/client.py")]


class Embedded:
    """`tandem apiserver` alone: nothing acts on what is in it."""
    name = "embedded"

    def __init__(self, tandem):
        self.server = apidev.Server(tandem)
        pki = f"{self.server.dir}/pki"
        self.kubeconfig = f"{self.server.dir}/clients.conf"
        self.env = {**KEEP, "KUBECONFIG": self.kubeconfig}
        conf = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{self.server.port}", "certificate-authority": f"{pki}/ca.crt"}}],
                "users": [{"name": "u", "user": {"client-certificate": f"{pki}/admin.crt", "client-key": f"{pki}/admin.key"}}]}
        pathlib.Path(self.kubeconfig).write_text(json.dumps(conf))

    def crash(self):
        self.server.kill9()

    def revive(self):
        self.server.start()

    def close(self):
        self.server.close()


class Real:
    """etcd and kube-apiserver of the real tier."""
    name = "real"

    def __init__(self):
        r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60)
        if r.returncode:
            pytest.skip("real Kubernetes " + r.stderr.strip())
        sys.path.insert(0, str(HERE / "kube"))
        import cluster
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp"))
        self.cluster = cluster.Cluster(home=self.home, assets=r.stdout.strip().splitlines()[-1], nodes=0, controllers=False)
        self.cluster.up()
        self.kubeconfig = self.cluster.kubeconfig
        self.env = {**KEEP, "KUBECONFIG": self.kubeconfig}
        self.again = None

    def pid(self):
        for d in filter(str.isdigit, os.listdir("/proc")):
            try:
                if "--etcd-servers" in open(f"/proc/{d}/cmdline").read() and os.path.realpath(f"/proc/{d}/cwd") == str(self.home):
                    return int(d)
            except OSError:
                continue
        raise AssertionError("no kube-apiserver")

    def crash(self):
        pid = self.pid()
        self.argv, environ = (open(f"/proc/{pid}/{f}").read().split("\0")[:-1] for f in ("cmdline", "environ"))
        self.environ = dict(e.split("=", 1) for e in environ)
        self.ns = open(f"/proc/{pid}/ns/net")
        os.kill(pid, signal.SIGKILL)
        # Its command line goes before its sockets do: the next one would find its port taken.
        wait_for("it is gone", lambda: not os.path.exists(f"/proc/{pid}") or (self.again and self.again.poll() is not None))

    def revive(self):
        log = open(f"{self.home}/log/apiserver.log", "a")
        self.again = subprocess.Popen(["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.ns.fileno()}", *self.argv], cwd=self.home, env=self.environ, stdout=log, stderr=log)

        def ready():
            assert self.again.poll() is None, f"kube-apiserver ended: {open(log.name).read()[-1000:]}"
            return kubectl(self, "get", "--raw", "/readyz", check=False).stdout == "ok"
        wait_for("the API answers", ready, 180)

    def close(self):
        if self.again:
            self.again.kill()
            self.again.wait()
        self.cluster.down(keep_images=False)
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.nightly)])  # real: that the clients do there what they do here
def plane(request, tandem):
    p = Embedded(tandem) if request.param == "embedded" else Real()
    try:
        wait_for("the API answers", lambda: kubectl(p, "get", "--raw", "/readyz", check=False).stdout == "ok", 60)
        wait_for("its namespace is there", lambda: kubectl(p, "get", "namespace", "default", check=False).returncode == 0)
        yield p
    finally:
        p.close()


def kubectl(plane, *argv, check=True, **kw):
    r = subprocess.run(["kubectl", *argv], env=plane.env, capture_output=True, text=True, timeout=60, **kw)
    if check and r.returncode:
        raise Failed(r.returncode, ["kubectl", *argv], r.stdout, r.stderr)
    return r


@pytest.fixture
def ns(plane, request):
    """A namespace of the test's own."""
    name = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    kubectl(plane, "create", "namespace", name)
    if plane.name == "real":  # no controller runs there: nobody else makes it
        kubectl(plane, "create", "serviceaccount", "default", "-n", name)
    return name


class Client:
    """A client program that runs; `said` is what it told."""

    def __init__(self, plane, argv, **env):
        self.p = subprocess.Popen([str(a) for a in argv], env={**plane.env, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said, self.dumps, self.errors = [], queue.Queue(), []
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.read, self.read_errors)]
        for t in self.threads:
            t.start()

    def read(self):
        for line in self.p.stdout:
            d = json.loads(line)
            if "dump" in d:
                self.dumps.put(d["dump"])
            else:
                self.said.append(d)

    def read_errors(self):
        self.errors += list(self.p.stderr)

    def has(self, **what):
        return any(all(d.get(k) == v for k, v in what.items()) for d in list(self.said))

    def dump(self):
        self.p.stdin.write("dump\n")
        self.p.stdin.flush()
        return self.dumps.get(timeout=60)

    def whole(self, timeout=300):
        """It ends by itself: everything that it told, in one."""
        code = self.p.wait(timeout)
        for t in self.threads:
            t.join(60)
        assert code == 0, "".join(self.errors)[-3000:]
        out = {}
        for d in self.said:
            out.update(d)
        return out

    def end(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait(60)


@pytest.fixture
def start(plane):
    running = []

    def go(*argv, **env):
        running.append(Client(plane, argv, **env))
        return running[-1]
    yield go
    for c in running:
        c.end()


def client(request, program):
    """The command of "python…" or "client-go…"; only that one is built."""
    return request.getfixturevalue("py_client" if program.startswith("python") else "go_client")


# ---- verbs ----

@pytest.mark.parametrize("content", ["", "application/vnd.kubernetes.protobuf"])
def test_client_go_speaks_every_verb(plane, ns, start, go_client, content):
    got = start(*go_client, "verbs", ns, CONTENT_TYPE=content).whole()
    assert got["again"] and got["none"] and got["stale"] and got["owned"]
    assert got["pages"] == 3 and got["names"] == [f"v{i}" for i in range(7)]
    assert got["data"] == {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
    assert got["watched"][:5] == ["MODIFIED v1"] * 5 and sorted(got["watched"][5:]) == [f"DELETED v{i}" for i in range(7)]
    assert got["major"] == "1" and got["groups"]


def test_the_python_client_speaks_every_verb(plane, ns, start, py_client):
    got = start(*py_client, "verbs", ns).whole()
    assert (got["again"], got["none"], got["stale"]) == (409, 404, 409)
    assert got["names"] == [f"p{i}" for i in range(5)] and got["pages"] == 3
    assert got["data"] == {"n": "1", "a": "1", "b": "2"} and got["replaced"] == {"n": "1", "a": "1", "b": "2", "c": "3"}
    assert got["fields"] == ["p3"] and got["left"] == [] and got["major"] == "1" and got["apis"]
    assert (got["pod"], got["qos"], got["created"]) == ("Pending", "Burstable", True)


def test_the_python_client_makes_a_crd(plane, ns, start, py_client):
    got = start(*py_client, "custom", ns).whole()
    assert (got["invalid"], got["done"], got["size"], got["gone"]) == (422, True, 5, 404)


# ---- informers across a restart ----

class Writer(threading.Thread):
    """Writes ConfigMaps until told to stop, through crashes; `truth` is what was acknowledged, `unsure` what was on its way when the server went."""

    def __init__(self, plane, ns):
        super().__init__(daemon=True)
        self.plane, self.ns, self.stop, self.truth, self.unsure, self.acknowledged = plane, ns, threading.Event(), {}, set(), []

    def one(self, n, what, name):
        argv = {"create": ["create", "configmap", name, f"--from-literal=n={n}"], "update": ["patch", "configmap", name, "-p", json.dumps({"data": {"n": str(n)}})],
                "delete": ["delete", "configmap", name, "--wait=false"]}[what]
        r = kubectl(self.plane, "--request-timeout=5s", "-n", self.ns, *argv, check=False)
        if r.returncode:
            self.unsure.add(name)
            return
        self.acknowledged.append((what, name, str(n)))
        if what == "delete":
            del self.truth[name]
        else:
            self.truth[name] = str(n)

    def run(self):
        n = 0
        while not self.stop.is_set():
            n += 1
            name = f"m{n % 12}" if f"m{n % 12}" not in self.unsure else f"x{n}"
            what = "create" if name not in self.truth else "delete" if n % 5 == 0 else "update"
            self.one(n, what, name)


# An informer of client-go that found no server a few times waits up to a minute before it asks again.
BACK = 120


@pytest.mark.parametrize("program", ["client-go", "client-go streaming lists", "python"])
def test_an_informer_across_a_killed_server_ends_with_the_truth_and_misses_nothing(plane, ns, start, program, request):
    """Of every plane: no acknowledged write is gone, the client's cache ends as the truth, each object's changes come in their order. Of ours
    besides, as it keeps its history: the client is told of every single one. A real one promises that only while it lives."""
    env = {"KUBE_FEATURE_WatchListClient": "true"} if "streaming" in program else {}
    c = start(*client(request, program), "watch" if program == "python" else "informer", ns, **env)
    wait_for("it has its first list", lambda: any("synced" in d or "listed" in d for d in list(c.said)))
    w = Writer(plane, ns)
    w.start()
    for _ in range(3):
        have = len(w.acknowledged)
        wait_for("some writes", lambda: len(w.acknowledged) >= have + 8, 60)
        plane.crash()
        have = len(w.unsure)
        wait_for("a write is refused or lost", lambda: len(w.unsure) > have)
        plane.revive()
    have = len(w.acknowledged)
    wait_for("writes again", lambda: len(w.acknowledged) >= have + 8, 60)
    w.stop.set()
    w.join(120)
    assert not w.is_alive()
    kubectl(plane, "-n", ns, "create", "configmap", "last", "--from-literal=n=0")  # told of behind everything else

    def truth():
        items = json.loads(kubectl(plane, "-n", ns, "get", "configmaps", "-o", "json").stdout)["items"]
        return {m["metadata"]["name"]: (m.get("data") or {}).get("n") for m in items}
    now = truth()
    assert {k: v for k, v in now.items() if k in w.truth and k not in w.unsure} == {k: v for k, v in w.truth.items() if k not in w.unsure}, "an acknowledged write is gone"

    def told_last():
        last = {d["name"]: d for d in list(c.said) if "event" in d}
        return {name: d["n"] for name, d in last.items() if not d["event"].lower().startswith("delete")}
    # What it is told comes behind its cache: client-go hands it to a thread of its own.
    wait_for("its cache is the truth, and it was told all of it", lambda: c.dump() == now and told_last() == now, BACK)
    # What it was told of, in order: what it holds at the end is what it was told last, of each object.
    told = {}
    for d in list(c.said):
        if "event" in d:
            told.setdefault(d["name"], []).append(d)
    gone = lambda d: d["event"].lower().startswith("delete")
    for name, events in told.items():
        last = events[-1]
        assert (name in now) != gone(last) and (name not in now or last["n"] == now[name]), f"{name}: {events}"
        assert len({d["rv"] for d in events}) == len(events) or program != "python", f"{name}: an event came twice"
        # Versions of one object never run backwards. (Both planes count them; a client that lists anew is told of an end without a version of its own.)
        versions = [int(d["rv"]) for d in events if not gone(d)]
        assert versions == sorted(versions), f"{name}: told of the past after the present: {events}"
    if plane.name == "real":
        # That is all that a real one promises. What it had in memory to send is gone with it: the client's version is too old (410) for the new one, it
        # lists anew and sees the difference alone. An update may have been passed over by the next; an end and a new beginning of a name look like an update.
        return
    # Ours keeps its past across kill -9: the watch goes on where it was, and nothing is passed over.
    seen = {(d["name"], d["n"]) for d in c.said if d.get("event", "").lower() in ("add", "added", "update", "modified")}
    missed = [(what, name, n) for what, name, n in w.acknowledged if what != "delete" and (name, n) not in seen]
    assert missed == [], f"acknowledged, and never told of: {missed}"
    unheard = [name for what, name, _ in w.acknowledged if what == "delete" and not any(gone(d) for d in told[name])]
    assert unheard == [], f"nobody told of the end of {unheard}"


# ---- leaders ----

@pytest.mark.parametrize("program", ["client-go", "python"])
def test_leaders_are_elected_and_outlive_the_server(plane, ns, start, program, request):
    argv = client(request, program)

    def two(lease):
        a = start(*argv, "elect", ns, "a", LEASE=str(lease))
        wait_for("a leads", lambda: a.has(leads="a"))
        return a, start(*argv, "elect", ns, "b", LEASE=str(lease))

    def renewed():
        if program == "client-go":
            return json.loads(kubectl(plane, "-n", ns, "get", "lease", "clients", "-o", "json").stdout)["spec"]
        record = json.loads(kubectl(plane, "-n", ns, "get", "configmap", "py", "-o", "json").stdout)["metadata"]["annotations"]
        return json.loads(record["control-plane.alpha.kubernetes.io/leader"])

    def a_leads(a, b):
        first = renewed()["renewTime"]
        wait_for("a renews", lambda: renewed()["renewTime"] != first)
        assert renewed()["holderIdentity"] == "a" and not a.has(stopped="a") and not b.has(leads="b")
    if program == "client-go":  # the Python library's election ends with its first request that finds no server
        a, b = two(600)  # longer than a server is ever away: a real one takes its time to start
        plane.crash()
        plane.revive()
        a_leads(a, b)
        for c in (b, a):
            c.end()
        kubectl(plane, "-n", ns, "delete", "lease", "clients")
    lease = 30
    a, b = two(lease)
    at = time.monotonic()
    a_leads(a, b)  # and has renewed since
    a.p.kill()
    wait_for("b leads", lambda: b.has(leads="b"), lease + 60)
    assert time.monotonic() - at > lease / 2, "before the lease of a was over"


# ---- controllers ----

CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.clients.tandem.dev"}, "spec": {
    "group": "clients.tandem.dev", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"}, "versions": [{
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"size": {"type": "integer"}, "observedGeneration": {"type": "integer"}}}}}}}]}}


def test_controller_runtime_reconciles_a_crd_across_a_killed_server(plane, ns, start, go_client):
    kubectl(plane, "apply", "-f", "-", input=json.dumps(CRD))
    kubectl(plane, "wait", "--for=condition=Established", "crd/widgets.clients.tandem.dev", "--timeout=60s")

    def widget(name, size):
        kubectl(plane, "apply", "-f", "-", input=json.dumps({"apiVersion": "clients.tandem.dev/v1", "kind": "Widget", "metadata": {"name": name, "namespace": ns}, "spec": {"size": size}}))

    def get(kind, name):
        r = kubectl(plane, "-n", ns, "get", kind, name, "-o", "json", check=False)
        return json.loads(r.stdout) if r.returncode == 0 else {}
    served = lambda: kubectl(plane, "-n", ns, "get", "widgets", check=False).returncode == 0
    wait_for("the CRD is served", served)
    c = start(*go_client, "reconcile", ns)
    widget("w", 3)
    wait_for("it is reconciled", lambda: get("widget", "w").get("status") == {"size": 3, "observedGeneration": 1})
    m = get("configmap", "w")
    assert m["data"] == {"size": "3"} and m["metadata"]["ownerReferences"][0]["kind"] == "Widget" and m["metadata"]["ownerReferences"][0]["controller"]
    kubectl(plane, "-n", ns, "delete", "configmap", "w")
    wait_for("what it owns is made again", lambda: get("configmap", "w").get("data") == {"size": "3"})
    plane.crash()
    plane.revive()
    wait_for("the CRD is served again", served)
    widget("w", 4)
    wait_for("reconciled after the crash", lambda: get("widget", "w").get("status", {}).get("size") == 4 and get("configmap", "w").get("data") == {"size": "4"}, BACK)
    assert c.p.poll() is None, "".join(c.errors)[-2000:]
    kubectl(plane, "-n", ns, "delete", "widget", "w", "--wait=false")
    wait_for("its finalizer ran, and it is gone", lambda: c.has(finalized="w") and not get("widget", "w"))
