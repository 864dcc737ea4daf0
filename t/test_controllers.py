"""The embedded plane's controllers against the real API server, with real kubectl. No agent: a fake one here marks pods as running and
ends those that are deleted, so that only the controllers are under test."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from harness import KEEP, SANITIZE, Api, Failed, ended, wait_for

pytestmark = pytest.mark.feature("F1.3")

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = ["n0", "n1", "n2"]


def stamp():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class FakeAgent(threading.Thread):
    """Nodes, their leases, and pods that do what their annotation t/do says: run (default), wait (never ready), ok, fail."""

    def __init__(self, api, nodes):
        super().__init__(daemon=True)
        self.api, self.nodes, self.stop = api, list(nodes), threading.Event()
        self.started = []  # names in the order they were first run
        self.look = threading.Lock()  # held while it does its work on pods: who holds it has stopped it
        for n in nodes:
            self.register(n)

    def register(self, n):
        alloc = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "4"}
        self.api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": n, "labels": {"kubernetes.io/hostname": n}}})
        self.lease(n)
        self.api.status(f"/api/v1/nodes/{n}/status", {"status": {"capacity": alloc, "allocatable": alloc}})
        self.ready(n)

    def ready(self, n):
        self.api.status(f"/api/v1/nodes/{n}/status", {"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}]}})

    def lease(self, n):
        t = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime()) + "%06dZ" % (time.time_ns() // 1000 % 1000000)
        spec = {"holderIdentity": n, "leaseDurationSeconds": 40, "renewTime": t}
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        if self.api.status(f"{path}/{n}", {"spec": spec})[0] == 404:
            self.api.call("POST", path, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": n}, "spec": spec})

    def one(self, p):
        m, path = p["metadata"], f"/api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}"
        if m.get("deletionTimestamp"):
            if not m.get("finalizers"):
                self.api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": m["uid"]}})
            return
        phase, do = p.get("status", {}).get("phase", "Pending"), m.get("annotations", {}).get("t/do", "run")
        if phase in ("Succeeded", "Failed"):
            return
        if phase == "Pending":
            self.started.append(m["name"])
        want = {"ok": "Succeeded", "fail": "Failed"}.get(do, "Running")
        ready = "True" if do == "run" else "False"
        conds = [c for c in p.get("status", {}).get("conditions", []) if c["type"] != "Ready"]
        have = [c for c in p.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
        if phase == want and have and have[0]["status"] == ready:
            return
        conds.append({"type": "Ready", "status": ready, "lastTransitionTime": stamp()})
        self.api.status(path + "/status", {"metadata": {"uid": m["uid"]}, "status": {"phase": want, "conditions": conds, "startTime": stamp()}})

    def run(self):
        next_lease = 0
        while not self.stop.wait(0.03):
            try:
                if time.monotonic() > next_lease:
                    for n in self.nodes:
                        self.lease(n)
                    next_lease = time.monotonic() + 3
                with self.look:
                    for p in self.api.call("GET", "/api/v1/pods")[1]["items"]:
                        if p["spec"].get("nodeName") in self.nodes:
                            self.one(p)
            except (OSError, http.client.HTTPException):
                pass  # the API server is down in some tests


class Plane:
    def __init__(self, tandem, *flags):
        self.flags = flags
        self.home = tempfile.mkdtemp(prefix="td-t-plane-", dir="/var/tmp")
        self.tandem = tandem
        self.env = {**KEEP, **SANITIZE, "KUBECONFIG": f"{self.home}/kubeconfig/admin.conf", "TD_DEV_DIR": self.home}
        out = subprocess.run([str(ROOT / "tools/dev-apiserver"), tandem], env=self.env, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
        self.api_pid = int(out.split("TD_DEV_PID=")[1])
        self.api = Api(self.home)
        self.controllers = None
        self.start()
        self.agent = FakeAgent(self.api, NODES)
        self.agent.start()

    def start(self):
        log = open(f"{self.home}/controllers.log", "a")
        self.controllers = subprocess.Popen([self.tandem, "controllers", "--kubeconfig", f"{self.home}/kubeconfig/controllers.conf", "--log-level", "debug", *self.flags],
                                            env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self):
        self.controllers.send_signal(signal.SIGKILL)
        self.controllers.wait(60)

    def close(self):
        self.agent.stop.set()
        self.agent.join(60)
        self.controllers.terminate()
        code = self.controllers.wait(60)
        os.kill(self.api_pid, signal.SIGTERM)
        wait_for("the API server to end", lambda: ended(self.api_pid))
        shutil.rmtree(self.home, ignore_errors=True)
        assert code == 0

    def k(self, *argv, check=True, input=None, timeout=320):
        r = subprocess.run(["kubectl", *argv], env=self.env, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
        if check and r.returncode:
            raise AssertionError(f"kubectl {' '.join(argv)}: {r.stderr}{r.stdout}")
        return r.stdout.strip()

    def apply(self, *objs):
        self.k("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objs}))

    def get(self, *argv):
        """None: it is not there."""
        r = subprocess.run(["kubectl", "get", *argv, "-o", "json"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if r.returncode and "(NotFound)" not in r.stderr:
            raise Failed(r.returncode, argv, r.stdout, r.stderr)
        return json.loads(r.stdout) if r.returncode == 0 else None

    def pods(self, ns, selector=None):
        _, l = self.api.call("GET", f"/api/v1/namespaces/{ns}/pods" + (f"?labelSelector={selector}" if selector else ""))
        return sorted(l["items"], key=lambda p: p["metadata"]["name"])

    def live(self, ns, selector=None):
        return [p for p in self.pods(ns, selector) if not p["metadata"].get("deletionTimestamp")]


@pytest.fixture(scope="module")
def plane(tandem):
    p = Plane(tandem)
    yield p
    p.close()


@pytest.fixture
def ns(plane, request):
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:40]
    plane.k("create", "ns", name)
    yield name
    plane.k("delete", "ns", name, "--wait=false")


def template(app, do="run", env=None, **spec):
    c = {"name": "c", "image": "none", "env": [{"name": "V", "value": env or "1"}]}
    if "requests" in spec:
        c["resources"] = {"requests": spec["requests"], "limits": {k: v for k, v in spec.pop("requests").items() if "/" in k}}
    return {"metadata": {"labels": {"app": app}, "annotations": {"t/do": do}}, "spec": {"containers": [c], **spec}}


def deployment(ns, name, replicas, **kw):
    strategy = kw.pop("strategy", None)
    extra = kw.pop("extra", {})
    d = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": ns},
         "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, **kw), **extra}}
    if strategy:
        d["spec"]["strategy"] = strategy
    return d


def test_deployment_scale_rollout_undo(plane, ns):
    k = plane.k
    plane.apply(deployment(ns, "web", 3))
    assert "successfully rolled out" in k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    k("-n", ns, "scale", "deploy/web", "--replicas=6")
    assert "successfully rolled out" in k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    assert len(plane.live(ns)) == 6
    first = {p["metadata"]["labels"]["pod-template-hash"] for p in plane.live(ns)}
    k("-n", ns, "set", "env", "deploy/web", "V=2")
    assert "successfully rolled out" in k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    second = {p["metadata"]["labels"]["pod-template-hash"] for p in plane.live(ns)}
    assert len(first) == len(second) == 1 and first != second
    history = k("-n", ns, "rollout", "history", "deploy/web")
    assert [l.split()[0] for l in history.splitlines()[2:]] == ["1", "2"]
    k("-n", ns, "rollout", "undo", "deploy/web")
    assert "successfully rolled out" in k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    assert {p["metadata"]["labels"]["pod-template-hash"] for p in plane.live(ns)} == first
    history = k("-n", ns, "rollout", "history", "deploy/web")
    assert [l.split()[0] for l in history.splitlines()[2:]] == ["2", "3"]
    assert plane.get("-n", ns, "deploy", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    # kubectl looks at the counts only: the look that finds nothing left to do may be the next one.
    wait_for("its conditions", lambda: {c["type"]: (c["status"], c["reason"]) for c in plane.get("-n", ns, "deploy", "web")["status"]["conditions"]} == {
        "Available": ("True", "MinimumReplicasAvailable"), "Progressing": ("True", "NewReplicaSetAvailable")})
    k("-n", ns, "scale", "deploy/web", "--replicas=0")
    wait_for("no pods", lambda: not plane.pods(ns))


def test_rolling_update_keeps_its_bounds(plane, ns):
    replicas, surge, unavailable = 60, 20, 20  # a ReplicaSet needs its time to end twenty pods, and the next twenty must not be made meanwhile
    plane.apply(deployment(ns, "web", replicas, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}))
    plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    seen, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            live = plane.live(ns)
            seen.append((len(live), sum(ready(p) for p in live)))

    t = threading.Thread(target=watch)
    t.start()
    plane.k("-n", ns, "set", "env", "deploy/web", "V=2")
    plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    stop.set()
    t.join()
    assert max(n for n, _ in seen) <= replicas + surge, seen
    assert min(r for _, r in seen) >= replicas - unavailable, seen


def test_recreate_never_mixes(plane, ns):
    plane.apply(deployment(ns, "db", 3, strategy={"type": "Recreate"}))
    plane.k("-n", ns, "rollout", "status", "deploy/db", "--timeout=300s")
    old = {p["metadata"]["name"] for p in plane.pods(ns)}
    mixed, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            now = {p["metadata"]["name"] for p in plane.pods(ns)}
            if now & old and now - old:
                mixed.append(now)

    t = threading.Thread(target=watch)
    t.start()
    plane.k("-n", ns, "set", "env", "deploy/db", "V=2")
    plane.k("-n", ns, "rollout", "status", "deploy/db", "--timeout=300s")
    stop.set()
    t.join()
    assert not mixed
    assert len(plane.live(ns)) == 3


def test_stuck_rollout_times_out_and_undo_mends(plane, ns):
    plane.apply(deployment(ns, "web", 4, extra={"revisionHistoryLimit": 1}))
    plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    # Short only for the rollout that is to be stuck: on a busy machine others may take longer.
    plane.k("-n", ns, "patch", "deploy", "web", "-p", json.dumps({"spec": {"progressDeadlineSeconds": 2, "template": {"metadata": {"annotations": {"t/do": "wait"}}}}}))
    r = plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s", check=False)
    assert "successfully" not in r
    # A step that took longer than the two seconds is progress again.
    wait_for("it is stuck", lambda: {c["type"]: c["reason"] for c in plane.get("-n", ns, "deploy", "web")["status"]["conditions"]}["Progressing"] == "ProgressDeadlineExceeded")
    assert plane.get("-n", ns, "deploy", "web")["status"]["availableReplicas"] >= 3
    plane.k("-n", ns, "patch", "deploy", "web", "-p", json.dumps({"spec": {"progressDeadlineSeconds": 600}}))
    plane.k("-n", ns, "rollout", "undo", "deploy/web")
    assert "successfully" in plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    for v in "56":
        plane.k("-n", ns, "set", "env", "deploy/web", f"V={v}")
        plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    wait_for("one old ReplicaSet is kept", lambda: len(plane.get("-n", ns, "rs")["items"]) == 2)


def test_replicaset_adopts_releases_and_replaces(plane, ns):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lonely", "namespace": ns, "labels": {"app": "r"}}, "spec": template("r")["spec"]}
    plane.apply(pod)
    wait_for("the controllers have seen it", lambda: plane.get("-n", ns, "pod", "lonely")["spec"].get("nodeName"))  # one cache for all of them
    plane.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "namespace": ns},
                 "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "r"}}, "template": template("r")}})
    wait_for("two pods, one adopted", lambda: len(plane.live(ns)) == 2 and all(p["metadata"].get("ownerReferences") for p in plane.live(ns)))
    plane.k("-n", ns, "label", "pod", "lonely", "app=free", "--overwrite")
    wait_for("released and replaced", lambda: len(plane.live(ns)) == 3 and
             not plane.get("-n", ns, "pod", "lonely")["metadata"].get("ownerReferences"))
    victim = plane.live(ns, "app=r")[0]["metadata"]["name"]
    plane.k("-n", ns, "delete", "pod", victim)
    wait_for("replaced", lambda: len(plane.live(ns, "app=r")) == 2 and victim not in [p["metadata"]["name"] for p in plane.live(ns)])


def sts(ns, name, replicas, **spec):
    t = spec.pop("template", template(name))
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": ns},
            "spec": {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": t, **spec}}


def test_statefulset_is_ordered(plane, ns):
    begin = len(plane.agent.started)
    plane.apply(sts(ns, "db", 3))
    plane.k("-n", ns, "rollout", "status", "sts/db", "--timeout=300s")
    wait_for("three ready", lambda: plane.get("-n", ns, "sts", "db")["status"].get("readyReplicas") == 3)
    assert [n for n in plane.agent.started[begin:] if n.startswith("db-")] == ["db-0", "db-1", "db-2"]
    p = plane.get("-n", ns, "pod", "db-1")
    assert p["spec"]["hostname"] == "db-1" and p["spec"]["subdomain"] == "db"
    assert p["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    uids = {x["metadata"]["name"]: x["metadata"]["uid"] for x in plane.live(ns)}
    plane.k("-n", ns, "delete", "pod", "db-1", "--wait=false")  # kubectl waits for ever if the next one of that name comes between two of its looks
    wait_for("db-1 is back", lambda: {x["metadata"]["name"] for x in plane.live(ns)} == {"db-0", "db-1", "db-2"} and
             {x["metadata"]["name"]: x["metadata"]["uid"] for x in plane.live(ns)}["db-1"] != uids["db-1"])
    plane.k("-n", ns, "scale", "sts/db", "--replicas=1")
    wait_for("db-0 alone", lambda: [x["metadata"]["name"] for x in plane.pods(ns)] == ["db-0"])


def test_statefulset_update_and_ondelete(plane, ns):
    plane.apply(sts(ns, "db", 3, podManagementPolicy="Parallel"))
    wait_for("three ready", lambda: plane.get("-n", ns, "sts", "db")["status"].get("readyReplicas") == 3)
    value = lambda: [p["spec"]["containers"][0]["env"][0]["value"] for p in plane.live(ns)]
    plane.k("-n", ns, "set", "env", "sts/db", "V=2")
    assert "complete" in plane.k("-n", ns, "rollout", "status", "sts/db", "--timeout=300s")
    assert value() == ["2", "2", "2"]
    plane.k("-n", ns, "patch", "sts", "db", "--type=json", "-p", '[{"op":"replace","path":"/spec/updateStrategy","value":{"type":"OnDelete"}}]')
    plane.k("-n", ns, "set", "env", "sts/db", "V=3")
    wait_for("the controllers have seen it", lambda: (lambda s: s["status"]["observedGeneration"] == s["metadata"]["generation"])(plane.get("-n", ns, "sts", "db")))
    plane.k("-n", ns, "delete", "pod", "db-1", "--wait=false")
    wait_for("the deleted one is new", lambda: value() == ["2", "3", "2"])


def test_statefulset_has_no_history(plane, ns):
    """What is not served is refused by name."""
    plane.apply(sts(ns, "db", 1))
    with pytest.raises(AssertionError, match="rollingUpdate.partition: Forbidden: is not served by the embedded API: old templates are not kept"):
        plane.k("-n", ns, "patch", "sts", "db", "-p", '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}')
    with pytest.raises(AssertionError, match="rollout undo"):
        plane.k("-n", ns, "rollout", "undo", "sts/db")
    plane.k("-n", ns, "delete", "sts", "db")


def job(ns, name, do="ok", **spec):
    t = template(name, do=do, restartPolicy="Never")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": ns}, "spec": {"template": t, **spec}}


def test_job_indexed(plane, ns):
    plane.apply(job(ns, "j", completions=4, parallelism=2, completionMode="Indexed"))
    plane.k("-n", ns, "wait", "job/j", "--for=condition=Complete", "--timeout=300s")
    s = plane.get("-n", ns, "job", "j")["status"]
    assert s["completedIndexes"] == "0-3" and s["succeeded"] == 4 and s.get("active", 0) == 0 and s["startTime"] and s["completionTime"]
    pods = plane.pods(ns)
    assert sorted(p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in pods) == ["0", "1", "2", "3"]
    assert sorted(p["spec"]["hostname"] for p in pods) == ["j-0", "j-1", "j-2", "j-3"]
    assert all("JOB_COMPLETION_INDEX" in [e["name"] for e in p["spec"]["containers"][0]["env"]] for p in pods)


def test_job_fails_ends_and_expires(plane, ns):
    plane.apply(job(ns, "bad", do="fail", backoffLimit=0), job(ns, "late", do="run", activeDeadlineSeconds=1),
                job(ns, "gone", ttlSecondsAfterFinished=1))
    plane.k("-n", ns, "wait", "job/bad", "--for=condition=Failed", "--timeout=300s")
    plane.k("-n", ns, "wait", "job/late", "--for=condition=Failed", "--timeout=300s")
    assert plane.get("-n", ns, "job", "bad")["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    assert plane.get("-n", ns, "job", "late")["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"
    wait_for("its pod is ended", lambda: not plane.pods(ns, "app=late"))
    wait_for("the job and its pod are gone", lambda: plane.get("-n", ns, "job", "gone") is None and not plane.pods(ns, "app=gone"))


def test_job_suspend(plane, ns):
    plane.apply(job(ns, "j", do="run", parallelism=2, completions=2, suspend=True))
    wait_for("it says so", lambda: plane.get("-n", ns, "job", "j").get("status", {}).get("conditions", [{}])[0].get("type") == "Suspended")
    assert not plane.pods(ns)
    plane.k("-n", ns, "patch", "job", "j", "-p", '{"spec":{"suspend":false}}')
    wait_for("two pods", lambda: len(plane.live(ns)) == 2)
    plane.k("-n", ns, "patch", "job", "j", "-p", '{"spec":{"suspend":true}}')
    wait_for("none", lambda: not plane.pods(ns))
    wait_for("its time begins again with the next pods", lambda: plane.get("-n", ns, "job", "j")["status"].get("startTime") is None)


def test_namespace_is_emptied(plane):
    plane.k("create", "ns", "doomed")
    assert plane.get("-n", "doomed", "sa", "default")
    ca = wait_for("what its pods know the API by", lambda: plane.get("-n", "doomed", "cm", "kube-root-ca.crt"))  # the controllers make it
    assert "BEGIN CERTIFICATE" in ca["data"]["ca.crt"]
    plane.apply(deployment("doomed", "web", 2), sts("doomed", "db", 2), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "doomed"}})
    plane.k("-n", "doomed", "rollout", "status", "deploy/web", "--timeout=300s")
    plane.k("delete", "ns", "doomed", "--timeout=300s")
    assert plane.get("ns", "doomed") is None


def test_scheduler_room_and_reasons(plane, ns):
    plane.k("annotate", "node", "n0", 'tandem.dev/slurm-share={"cpu":"8","memory":"16Gi","nvidia.com/gpu":"4"}')
    plane.k("annotate", "node", "n1", 'tandem.dev/slurm-share={"cpu":"4"}')
    plane.k("cordon", "n2")
    try:
        plane.apply(deployment(ns, "web", 6, requests={"cpu": "1"}))
        wait_for("four fit beside Slurm's share", lambda: len([p for p in plane.live(ns) if p["spec"].get("nodeName") == "n1"]) == 4)
        waiting = wait_for("two wait and say why", lambda: [c["message"] for p in plane.live(ns) if not p["spec"].get("nodeName")
                                                            for c in p["status"].get("conditions", []) if c["type"] == "PodScheduled" and "2 Insufficient cpu" in c["message"]][1:])
        assert len(waiting) == 1 and waiting[0].startswith("0/3 nodes are available: ")
        assert "n0" not in [p["spec"].get("nodeName") for p in plane.live(ns)]
        plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wait", "namespace": ns}, "spec": {**template("x")["spec"], "nodeSelector": {"no": "where"}}})
        wait_for("its reason", lambda: "didn't match" in json.dumps(plane.get("-n", ns, "pod", "wait")["status"]))
        plane.k("-n", ns, "delete", "pod", "wait", "--timeout=300s")  # nobody has to end what was never placed
        plane.k("uncordon", "n2")
        plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
        assert len([p for p in plane.live(ns) if p["spec"]["nodeName"] == "n1"]) == 4
    finally:
        plane.k("uncordon", "n2")
        plane.k("annotate", "node", "n0", "n1", "tandem.dev/slurm-share-")


def test_a_burst_does_not_overcommit(plane, ns):
    plane.apply(deployment(ns, "web", 30, requests={"nvidia.com/gpu": "1"}))
    bound = lambda: [p["spec"]["nodeName"] for p in plane.live(ns) if p["spec"].get("nodeName")]
    wait_for("12 GPUs are out", lambda: len(bound()) >= 12)
    wait_for("18 wait with a reason", lambda: len([p for p in plane.live(ns) if not p["spec"].get("nodeName") and any(
        c.get("reason") == "Unschedulable" for c in p["status"].get("conditions", []))]) == 18)
    assert sorted(bound().count(n) for n in NODES) == [4, 4, 4]


def test_nothing_is_written_when_nothing_changes(plane, ns):
    plane.apply(deployment(ns, "web", 2), sts(ns, "db", 1), job(ns, "j"))
    plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    plane.k("-n", ns, "wait", "job/j", "--for=condition=Complete", "--timeout=300s")
    wait_for("db", lambda: plane.get("-n", ns, "sts", "db")["status"].get("readyReplicas") == 1)

    def versions():
        return {o["kind"] + o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in plane.get("-n", ns, "deploy,rs,sts,jobs,pods,sa,cm")["items"]}

    def final():
        """What each controller writes last is written."""
        at = {o["kind"]: o for o in plane.get("-n", ns, "deploy,rs,sts,jobs")["items"]}
        counts = lambda kind, *names: [at[kind]["status"].get(n) for n in ("observedGeneration", *names)]
        return "NewReplicaSetAvailable" in [c["reason"] for c in at["Deployment"]["status"]["conditions"]] and at["Job"]["status"]["succeeded"] == 1 and \
            counts("Deployment", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas") == [1, 2, 2, 2, 2] and \
            counts("ReplicaSet", "replicas", "readyReplicas", "availableReplicas") == [1, 2, 2, 2] and \
            counts("StatefulSet", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas") == [1, 1, 1, 1, 1] and all(
                p["status"].get("phase") in ("Running", "Succeeded") for p in plane.pods(ns))
    wait_for("all is as it should be", final)
    before = wait_for("it settles", lambda: (lambda a: a if time.sleep(0.5) is None and versions() == a else None)(versions()))
    plane.kill()  # a restart looks at everything again
    plane.start()
    plane.k("create", "ns", ns + "-probe")
    wait_for("the new one works", lambda: plane.get("-n", ns + "-probe", "cm", "kube-root-ca.crt"))
    plane.k("delete", "ns", ns + "-probe", "--timeout=300s")
    assert versions() == before


def test_killed_at_any_point(plane, ns):
    """Scale, roll and run jobs while the controllers are killed again and again: the end state is exact, nothing is made twice."""
    plane.apply(deployment(ns, "web", 10), job(ns, "j", completions=12, parallelism=4, completionMode="Indexed"), sts(ns, "db", 4))
    for i in range(8):
        time.sleep(0.05 + 0.06 * i)  # a random point, not a synchronisation
        plane.kill()
        plane.start()
        if i == 3:
            plane.k("-n", ns, "set", "env", "deploy/web", "V=2")
        if i == 5:
            plane.k("-n", ns, "scale", "deploy/web", "--replicas=7")
    assert "successfully" in plane.k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    plane.k("-n", ns, "wait", "job/j", "--for=condition=Complete", "--timeout=300s")
    wait_for("db", lambda: plane.get("-n", ns, "sts", "db")["status"].get("readyReplicas") == 4)
    wait_for("exactly seven", lambda: len(plane.pods(ns, "app=web")) == 7)
    assert len(plane.live(ns, "app=db")) == 4
    done = [p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in plane.pods(ns, "app=j") if p["status"]["phase"] == "Succeeded"]
    assert len(done) == len(set(done)) == 12


@pytest.fixture
def hasty(tandem):
    p = Plane(tandem, "--node-grace", "15")  # five times the fake agent's own period
    yield p
    p.close()


def test_silent_nodes_and_pods_without_a_node(hasty):
    node = lambda n: hasty.get("node", n)
    ready = lambda n: {c["type"]: c["status"] for c in node(n)["status"]["conditions"]}["Ready"]
    taints = lambda n: sorted(t["key"] + ":" + t["effect"] for t in node(n).get("spec", {}).get("taints", []))
    hasty.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ghost", "namespace": "default"}, "spec": {**template("x")["spec"], "nodeName": "nowhere"}},
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "short", "namespace": "default"}, "spec": {**template("x")["spec"], "nodeName": "n2", "tolerations": [
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]}},
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long", "namespace": "default"}, "spec": {**template("x")["spec"], "nodeName": "n2", "tolerations": [
                    {"operator": "Exists"}]}})
    hasty.agent.nodes.remove("n2")  # its agent died
    wait_for("n2 is unknown", lambda: ready("n2") == "Unknown")
    wait_for("n2 is tainted", lambda: taints("n2") == ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"])
    wait_for("the others are ready", lambda: ready("n0") == ready("n1") == "True" and not taints("n0"))
    wait_for("the pod of no node is gone", lambda: hasty.get("pod", "ghost") is None)
    wait_for("the pod that tolerates a second is ended", lambda: hasty.get("pod", "short")["metadata"].get("deletionTimestamp"))
    assert not hasty.get("pod", "long")["metadata"].get("deletionTimestamp")
    # Back. Its status is a sign of life too: the Lease comes later here, as it may for who watches both.
    beats = lambda: hasty.agent.ready("n2") or True  # as long as it is waited for, which may be longer than the node's grace
    wait_for("it is ready", lambda: beats() and ready("n2") == "True" and not taints("n2"))
    hasty.agent.nodes.append("n2")
    wait_for("no taints", lambda: ready("n2") == "True" and not taints("n2"))
    wait_for("the ended pod is gone", lambda: hasty.get("pod", "short") is None)
    hasty.k("delete", "node", "n1")


def budget(ns, name, **spec):
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": ns}, "spec": spec}


def counts(plane, ns, name):
    """(expected, desired, healthy, allowed) once the budget was looked at in its present form."""
    b = plane.get("-n", ns, "pdb", name)
    s = b["status"]
    if s.get("observedGeneration") != b["metadata"]["generation"]:
        return None
    return s["expectedPods"], s["desiredHealthy"], s["currentHealthy"], s["disruptionsAllowed"]


def ready(p):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))


def test_drain_respects_disruption_budgets(plane, ns):
    k = plane.k
    plane.apply(deployment(ns, "web", 5))
    k("-n", ns, "rollout", "status", "deploy/web", "--timeout=300s")
    k("-n", ns, "create", "pdb", "web", "--selector=app=web", "--min-available=4")  # protobuf on the wire
    wait_for("one may go", lambda: counts(plane, ns, "web") == (5, 4, 5, 1))
    row = k("-n", ns, "get", "pdb", "web").splitlines()
    assert row[0].split("  ")[0] == "NAME" and re.sub(r" +", " ", row[0]) == "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE"
    assert row[1].split()[:4] == ["web", "4", "N/A", "1"]
    seen, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            seen.append(len([p for p in plane.live(ns) if ready(p)]))

    t = threading.Thread(target=watch)
    t.start()
    node = plane.live(ns)[0]["spec"]["nodeName"]
    try:
        out = k("drain", node, "--pod-selector=app=web", "--timeout=300s")  # it asks again every five seconds, pod by pod
        assert "drained" in out
        assert not [p for p in plane.live(ns) if p["spec"]["nodeName"] == node]
        wait_for("five again", lambda: counts(plane, ns, "web") == (5, 4, 5, 1))
    finally:
        stop.set()
        t.join()
        k("uncordon", node)
    assert min(seen) >= 4, seen
    # No room: the drain waits and says why; nothing is gone.
    k("-n", ns, "patch", "pdb", "web", "-p", '{"spec":{"minAvailable":5}}')
    wait_for("none may go", lambda: counts(plane, ns, "web") == (5, 5, 5, 0))
    before = {p["metadata"]["uid"] for p in plane.live(ns)}
    node = plane.live(ns)[0]["spec"]["nodeName"]
    r = subprocess.Popen(["kubectl", "drain", node, "--pod-selector=app=web", "--timeout=300s"], env=plane.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = next((line for line in r.stdout if "evicting pods" in line or "drained" in line), "")
    finally:
        r.kill()  # it would ask again every five seconds
        r.communicate()
        k("uncordon", node)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said, said
    assert {p["metadata"]["uid"] for p in plane.live(ns)} == before
    code, status = plane.api.call("POST", f"/api/v1/namespaces/{ns}/pods/{plane.live(ns)[0]['metadata']['name']}/eviction",
                                  {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": plane.live(ns)[0]["metadata"]["name"]}})
    assert code == 429 and status["details"]["causes"][0] == {"reason": "DisruptionBudget", "message": "The disruption budget web needs 5 healthy pods and has 5 currently"}


def test_disruption_budget_counts(plane, ns):
    plane.apply(deployment(ns, "web", 5), budget(ns, "share", minAvailable="50%", selector={"matchLabels": {"app": "web"}}),
                budget(ns, "down", maxUnavailable="30%", selector={"matchLabels": {"app": "web"}}))
    wait_for("a share, rounded up", lambda: counts(plane, ns, "share") == (5, 3, 5, 2))
    wait_for("what may be missing, rounded up", lambda: counts(plane, ns, "down") == (5, 3, 5, 2))
    plane.k("-n", ns, "scale", "deploy/web", "--replicas=2")
    wait_for("the share follows the scale", lambda: counts(plane, ns, "share") == (2, 1, 2, 1))
    # Pods without a controller are not counted in a share; a budget without pods lets nothing go.
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": ns, "labels": {"app": "bare"}}, "spec": template("x")["spec"]},
                budget(ns, "bare", maxUnavailable=1, selector={"matchLabels": {"app": "bare"}}), budget(ns, "none", minAvailable=1, selector={"matchLabels": {"app": "nobody"}}),
                budget(ns, "bare-int", minAvailable=0, selector={"matchLabels": {"app": "bare"}}))
    wait_for("unmanaged", lambda: counts(plane, ns, "bare") == (0, 0, 1, 0))
    wait_for("a number counts them", lambda: counts(plane, ns, "bare-int") == (1, 0, 1, 1))
    wait_for("no pods", lambda: counts(plane, ns, "none") == (0, 1, 0, 0))
    # A Job has no scale: the budget says so and lets nothing go.
    plane.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": ns},
                 "spec": {"template": {**template("job"), "spec": {**template("job")["spec"], "restartPolicy": "Never"}}}},
                budget(ns, "job", maxUnavailable=1, selector={"matchLabels": {"app": "job"}}))
    wait_for("the reason", lambda: any(c["reason"] == "SyncFailed" and c["message"] == "jobs.batch does not implement the scale subresource" for c in
             plane.get("-n", ns, "pdb", "job")["status"].get("conditions", [])))
    # A custom resource with a scale.
    plane.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "herds.t.example"}, "spec": {
        "group": "t.example", "scope": "Namespaced", "names": {"plural": "herds", "kind": "Herd"}, "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}]}})
    plane.apply({"apiVersion": "t.example/v1", "kind": "Herd", "metadata": {"name": "h", "namespace": ns}, "spec": {"n": 4}})
    uid = plane.get("-n", ns, "herd", "h")["metadata"]["uid"]
    plane.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cow", "namespace": ns, "labels": {"app": "herd"}, "ownerReferences": [
        {"apiVersion": "t.example/v1", "kind": "Herd", "name": "h", "uid": uid, "controller": True}]}, "spec": template("x")["spec"]},
        budget(ns, "herd", maxUnavailable=3, selector={"matchLabels": {"app": "herd"}}))
    wait_for("its scale counts", lambda: counts(plane, ns, "herd") == (4, 1, 1, 0))
    plane.k("delete", "crd", "herds.t.example")


def test_a_granted_eviction_is_not_granted_twice(plane, ns):
    """Between the grant and the sight of the deletion the pod does not count as healthy: many at once get no more than the budget has."""
    plane.apply(deployment(ns, "web", 6), budget(ns, "web", maxUnavailable=2, selector={"matchLabels": {"app": "web"}}))
    wait_for("two may go", lambda: counts(plane, ns, "web") == (6, 4, 6, 2))
    with plane.agent.look:  # nothing becomes ready again meanwhile
        answers = []

        def evict(name):
            answers.append(plane.api.call("POST", f"/api/v1/namespaces/{ns}/pods/{name}/eviction", {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}})[0])
        threads = [threading.Thread(target=evict, args=(p["metadata"]["name"],)) for p in plane.live(ns)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(answers) == [201, 201, 429, 429, 429, 429]
    wait_for("two may go again, and no grant is left over", lambda: counts(plane, ns, "web") == (6, 4, 6, 2) and not
             plane.get("-n", ns, "pdb", "web")["status"].get("disruptedPods"))
