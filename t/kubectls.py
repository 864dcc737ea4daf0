"""What the tests of kubectl share: the kubectls, each in turn, and objects to work on."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import wait_for
from podplane import IMAGE, plane  # noqa: F401 (plane is a fixture)

HERE = pathlib.Path(__file__).resolve().parent


def binaries():
    """The oldest and the newest kubectl: {name: path, or why it is not there}."""
    got = {}
    for name in ("oldest", "newest"):
        r = subprocess.run([HERE.parent / "tools/kube-assets", "--check", f"kubectl-{name}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        got[name] = f"{r.stdout.strip().splitlines()[-1]}/kubectl-{name}" if r.returncode == 0 else f"kubectl-{name} {r.stderr.strip()}"
    return got


def pinned(name):
    """The version in the client's go.mod, as v1.X.Y."""
    return "v1" + re.search(r"k8s.io/kubectl v0(\.\d+\.\d+)", (HERE / f"kube/assets/kubectl-{name}/go.mod").read_text())[1]


class Kubectl:
    def __init__(self, plane, path, version, env):
        self.plane, self.path, self.version, self.env, self.ns = plane, path, version, env, "default"
        self.err = ""

    @property
    def minor(self):
        return int(self.version.split(".")[1])

    def start(self, *argv, **kw):
        """Starts kubectl and returns the process, which the caller ends."""
        return subprocess.Popen([self.path, "-n", self.ns, *map(str, argv)], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)

    def __call__(self, *argv, rc=0, input=None, env=None, timeout=240):
        """Runs kubectl and returns its stdout; stderr is kept in self.err."""
        if input is not None and not isinstance(input, str):
            input = json.dumps({"apiVersion": "v1", "kind": "List", "items": input} if isinstance(input, list) else input)
        r = subprocess.run([self.path, "-n", self.ns, *map(str, argv)], env={**self.env, **(env or {})}, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=timeout)
        self.err = r.stderr
        assert r.returncode == rc, f"kubectl {' '.join(map(str, argv))}: exit {r.returncode}, not {rc}\n{r.stdout}{r.stderr}"
        return r.stdout

    def get(self, *argv):
        return json.loads(self("get", *argv, "-o", "json"))

    def path_of(self, what, jsonpath):
        return self("get", *what.split(), "-o", "jsonpath={" + jsonpath + "}")

    def wait_for(self, what, jsonpath, value, seconds=60):
        return wait_for(f"{what} {jsonpath} is {value}", lambda: self.path_of(what, jsonpath) == str(value), seconds)

    def rows(self, *argv):
        """The table that get prints, as lists of words, with the heading first."""
        return [re.split(r"\s{2,}", line.strip()) for line in self(*argv).splitlines()]


@pytest.fixture(scope="module", params=["machine", "oldest", "newest"])
def client(request, plane, tmp_path_factory):  # noqa: F811
    """One kubectl for the tests of a module, with caches of its own. The machine's kubectl runs all
    tests; the others run those that are marked `clients`."""
    if request.param == "machine":
        path = shutil.which("kubectl", path="/usr/bin:/usr/local/bin")
        assert path, "this machine has no kubectl: tools/setup"
        version = json.loads(subprocess.run([path, "version", "--client", "-o", "json"], stdout=subprocess.PIPE, text=True, timeout=30).stdout)["clientVersion"]["gitVersion"]
    else:
        path, version = binaries()[request.param], pinned(request.param)
    if not os.path.exists(path):
        pytest.skip(path)
    env = {**plane.env, "KUBECACHEDIR": str(tmp_path_factory.mktemp("cache")), "TMPDIR": str(tmp_path_factory.mktemp("tmp"))}
    return Kubectl(plane, path, version, env)


@pytest.fixture
def k(client, request):
    """The client, in a namespace for this test."""
    client.ns = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:60]
    client("create", "namespace", client.ns)
    yield client
    client("delete", "namespace", client.ns, "--wait=false")
    client.ns = "default"


def cm(name, labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data}


def pod(name, script="sleep 1000", labels=None, **spec):
    containers = spec.pop("containers", None) or [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **({"labels": labels} if labels else {})},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": containers, **spec}}


def deployment(name, replicas=1, env=None, labels=None, **spec):
    c = {"name": "c", "image": IMAGE, "command": ["sleep", "1000"], **({"env": [{"name": n, "value": v} for n, v in env.items()]} if env else {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **({"labels": labels} if labels else {})},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, **spec,
                     "template": {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [c]}}}}


def statefulset(name, replicas=1):
    d = deployment(name, replicas)
    return {**d, "kind": "StatefulSet", "spec": {**d["spec"], "serviceName": name}}


@pytest.fixture(scope="module")
def boxed(client):
    """A pod with two containers that runs as long as the tests of one kubectl: (client,
    namespace)."""
    client.ns = "box-" + client.version.replace(".", "-").lower()
    client("create", "namespace", client.ns)
    c = {"image": IMAGE, "command": ["sh", "-c", "echo I am $0; exec sleep 1000"]}
    client("create", "-f", "-", input=pod("box", labels={"app": "box"}, containers=[{**c, "name": "one", "command": [*c["command"], "one"]}, {**c, "name": "two", "command": [*c["command"], "two"]}]))
    client("wait", "--for=condition=Ready", "pod/box", "--timeout=60s")
    yield client, client.ns
    client.ns = "default"


@pytest.fixture
def box(boxed):
    client, ns = boxed
    client.ns = ns
    yield client
    client.ns = "default"
