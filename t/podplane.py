"""What the pod tests share: a home without Slurm; pods that are made and watched through the API.
What users do is done with the real kubectl."""
import contextlib
import http.client
import json
import shutil
import tempfile
import urllib.parse

import pytest

from harness import Api, Pool, leftovers, machine_state, wait_for

IMAGE = "debian:13"


class PodPlane(Pool):
    """A home of `tandem up --no-slurm`, with short methods for pods."""

    def __init__(self, tandem, home):
        super().__init__(tandem, home)
        self.api = None
        self.count = 0

    def start(self, nodes=2):
        self.up("--no-slurm", "--nodes", str(nodes))
        self.api = Api(self.home)

    # ---- objects ----
    def call(self, method, path, body=None, want=(200, 201, 202)):
        code, obj = self.api.call(method, path, body)
        assert code in want, f"{method} {path}: {code} {obj.get('message', obj)}"
        return obj

    def make(self, kind, name, **body):
        """Makes a ConfigMap or Secret."""
        self.call("POST", f"/api/v1/namespaces/default/{kind}", {"metadata": {"name": name}, **body})

    def name(self, stem):
        self.count += 1
        return f"{stem}-{self.count}"

    def spec(self, script=None, **container):
        """A pod spec with one container `c` that runs a shell script. Keywords that belong to the
        pod go there, all others to the container. (securityContext_pod is the pod's.)"""
        of_pod = {"restartPolicy", "volumes", "securityContext_pod", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "initContainers", "hostNetwork",
                  "hostname", "subdomain", "nodeName", "containers", "shareProcessNamespace", "hostAliases", "serviceAccountName", "nodeSelector",
                  "readinessGates", "dnsConfig", "dnsPolicy", "setHostnameAsFQDN", "automountServiceAccountToken", "hostUsers", "hostPID", "hostIPC"}
        pod = {k.removesuffix("_pod"): container.pop(k) for k in list(container) if k in of_pod}
        pod.setdefault("restartPolicy", "Never")
        pod.setdefault("terminationGracePeriodSeconds", 1)
        if "containers" not in pod:
            c = {"name": "c", "image": IMAGE, **container}
            if script is not None:
                c.setdefault("command", ["sh", "-c", script])
            pod["containers"] = [c]
        return pod

    def post(self, name, spec, want=(201,), **meta):
        return self.call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name, **meta}, "spec": spec}, want)

    def pod_of(self, name):
        code, obj = self.api.call("GET", f"/api/v1/namespaces/default/pods/{name}")
        return obj if code == 200 else None

    @contextlib.contextmanager
    def pod(self, script=None, stem="p", labels=None, annotations=None, **spec):
        """Makes a pod and deletes it after the test, without waiting for its end."""
        name = self.name(stem)
        meta = {k: v for k, v in (("labels", labels), ("annotations", annotations)) if v}
        self.post(name, self.spec(script, **spec), **meta)
        try:
            yield name
        finally:
            self.api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")

    # ---- looking ----
    def wait(self, name, what, predicate, seconds=60):
        seen = {}

        def look():
            seen["pod"] = self.pod_of(name)
            return seen["pod"] and predicate(seen["pod"])
        try:
            wait_for(f"pod {name}: {what}", look, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}; status: {json.dumps((seen['pod'] or {}).get('status'))}; events: {self.events(name)}") from None
        return seen["pod"]

    def running(self, name, seconds=60):
        return self.wait(name, "running", lambda p: p["status"].get("phase") == "Running" and all(
            "running" in c["state"] for c in p["status"].get("containerStatuses", [])) and p["status"].get("containerStatuses"), seconds)

    def ready(self, name, seconds=60):
        return self.wait(name, "ready", lambda p: condition(p, "Ready") == "True", seconds)

    def over(self, name, seconds=60):
        """Waits until the pod has succeeded or failed, and returns it."""
        return self.wait(name, "over", lambda p: p["status"].get("phase") in ("Succeeded", "Failed"), seconds)

    def refused(self, name, reason="CreateContainerConfigError", container="c", seconds=60):
        """Waits until the container waits for that reason, and returns the message."""
        def why(p):
            waits = [c["state"].get("waiting", {}) for l in ("containerStatuses", "initContainerStatuses") for c in p["status"].get(l, []) if c["name"] == container]
            return [w for w in waits if w.get("reason") == reason]
        return why(self.wait(name, reason, why, seconds))[0].get("message", "")

    def gone(self, name, seconds=60):
        wait_for(f"pod {name} gone", lambda: self.pod_of(name) is None, seconds)

    def text(self, name, **query):
        """The log, by plain HTTP (kubectl logs has tests of its own)."""
        c = http.client.HTTPSConnection(self.api.host, context=self.api.tls, timeout=120)
        c.request("GET", f"/api/v1/namespaces/default/pods/{name}/log?" + urllib.parse.urlencode(query))
        r = c.getresponse()
        body = r.read().decode()
        c.close()
        assert r.status == 200, body
        return body

    def said(self, name, what):
        """Waits for a line of the log. What the script does before it prints the line is then done;
        a running container alone does not show that."""
        self.running(name)
        wait_for(f"pod {name} says {what}", lambda: what in self.text(name).splitlines())

    def output(self, name, seconds=60):
        """The log of a pod that must succeed."""
        p = self.over(name, seconds)
        out = self.text(name)
        assert p["status"]["phase"] == "Succeeded", (out, p["status"])
        return out

    def events(self, name):
        """The events of the pod: [(reason, message)]."""
        l = self.call("GET", "/api/v1/namespaces/default/events")["items"]
        return [(e["reason"], e.get("message", "")) for e in l if e["involvedObject"].get("name") == name]

    def event(self, name, reason, seconds=60):
        return wait_for(f"event {reason} of {name}", lambda: [m for r, m in self.events(name) if r == reason], seconds)

    def kubectl(self, *argv, **kw):
        return self.run("kubectl", *argv, **kw).stdout

    def ex(self, name, *argv, **kw):
        """The stdout of kubectl exec."""
        return self.kubectl("exec", name, "--", *argv, **kw)


def condition(pod, which):
    return next((c["status"] for c in pod["status"].get("conditions", []) if c["type"] == which), None)


def state(pod, name="c", lists=("containerStatuses", "initContainerStatuses")):
    """The container's status."""
    for l in lists:
        for c in pod["status"].get(l, []):
            if c["name"] == name:
                return c
    raise AssertionError(f"no status of container {name}: {pod['status']}")


def ended(pod, name="c"):
    return state(pod, name)["state"]["terminated"]


@pytest.fixture(scope="module")
def plane(tandem):
    home = tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp")
    p = PodPlane(tandem, home)
    before = machine_state()
    try:
        p.start()
        ident = p.id
        yield p
        reports = p.crash_reports()
    finally:
        p.down(purge=True)
        shutil.rmtree(home, ignore_errors=True)
    assert reports == []
    assert leftovers(before, machine_state(), ident) == []
