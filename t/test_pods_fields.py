"""Fields whose effect no other test shows: readiness gates, placing by affinity, priority and gates, counting by minReadySeconds, ordinals, what is told
about pods and nodes. t/test_openapi.py walks all fields, and names for each the test that shows it (t/openapi/served.yaml)."""
import os
import subprocess

import pytest

from harness import wait_for
from podplane import IMAGE, condition, plane  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")

NS = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"


def patch(plane, path, body):  # noqa: F811
    code, obj = plane.api.call("PATCH", path, body, "application/merge-patch+json")
    assert code == 200, obj
    return obj


@pytest.fixture
def made(plane):  # noqa: F811
    """Makes objects and takes them away behind the test."""
    paths = []

    def make(path, body, want=(201,)):
        obj = plane.call("POST", path, body, want)
        paths.append(f"{path}/{obj['metadata']['name']}")
        return obj
    yield make
    for p in reversed(paths):
        plane.api.call("DELETE", p + "?gracePeriodSeconds=0&propagationPolicy=Background")


def cmdline(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def template(app, script="sleep 1000", **meta):
    return {"metadata": {"labels": {"app": app}, **meta}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}]}}


def workload(name, **spec):
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec}}


def status(plane, path):  # noqa: F811
    return plane.call("GET", path).get("status", {})


# ---- pods ----

def test_readiness_gates(plane):  # noqa: F811
    with plane.pod("sleep 1000", readinessGates=[{"conditionType": "example.com/let-in"}]) as name:
        p = plane.wait(name, "its containers ready", lambda p: condition(p, "ContainersReady") == "True")
        assert condition(p, "Ready") == "False"
        conditions = p["status"]["conditions"] + [{"type": "example.com/let-in", "status": "True"}]
        patch(plane, f"{NS}/pods/{name}/status", {"status": {"conditions": conditions}})
        plane.ready(name)


def test_mount_propagation(plane):  # noqa: F811
    """HostToContainer: a mount that is made on the node later is seen inside; None: it is not."""
    root = f"{plane.home}/nodes/n0/root/t/prop"
    os.makedirs(root + "/sub", exist_ok=True)
    kubelet = next(pid for pid in os.listdir("/proc") if pid.isdigit() and plane.home in cmdline(pid) and " kubelet" in cmdline(pid))
    enter = ["nsenter", "-t", kubelet, "-m"]
    for argv in (["--bind", root, root], ["--make-shared", root]):  # as a machine's root is, where systemd made it
        subprocess.run([*enter, "mount", *argv], check=True)
    mounts = [{"name": "v", "mountPath": "/seen", "mountPropagation": "HostToContainer"}, {"name": "v", "mountPath": "/unseen", "mountPropagation": "None"}]
    with plane.pod("sleep 1000", nodeName="n0", volumes=[{"name": "v", "hostPath": {"path": "/t/prop"}}], volumeMounts=mounts) as name:
        plane.running(name)
        subprocess.run([*enter, "mount", "-t", "tmpfs", "t", root + "/sub"], check=True)
        try:
            subprocess.run([*enter, "touch", root + "/sub/file"], check=True)
            assert plane.ex(name, "ls", "/seen/sub") == "file\n" and plane.ex(name, "ls", "/unseen/sub") == ""
        finally:
            subprocess.run([*enter, "umount", root + "/sub"], check=True)
            subprocess.run([*enter, "umount", "-l", root], check=True)


def test_node_affinity(plane):  # noqa: F811
    def wants(operator, *values):
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator, "values": list(values)}]}]
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    for operator, values, node in (("In", ["n1"], "n1"), ("NotIn", ["n0"], "n1"), ("In", ["n0", "nowhere"], "n0")):
        name = plane.name("aff")
        plane.post(name, {**plane.spec("sleep 1000"), "affinity": wants(operator, *values)})
        assert plane.running(name)["spec"]["nodeName"] == node
        plane.call("DELETE", f"{NS}/pods/{name}?gracePeriodSeconds=0")
    name = plane.name("aff")
    plane.post(name, {**plane.spec("true"), "affinity": wants("In", "nowhere")})
    plane.event(name, "FailedScheduling")
    plane.call("DELETE", f"{NS}/pods/{name}?gracePeriodSeconds=0")


def test_pods_that_must_not_share_a_node(plane):  # noqa: F811
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"apart": "yes"}}, "topologyKey": "kubernetes.io/hostname"}]}}
    first, second, third = [plane.name("apart") for _ in range(3)]

    def make(name, labels, **spec):
        code, p = plane.api.call("POST", f"{NS}/pods", {"metadata": {"name": name, "labels": labels}, "spec": {**plane.spec("sleep 1000"), **spec}})
        assert code == 201, p
    make(first, {"apart": "yes"}, affinity=apart)
    node = plane.running(first)["spec"]["nodeName"]
    make(second, {"apart": "yes"})  # says nothing itself: the first one's rule keeps it away too
    assert plane.running(second)["spec"]["nodeName"] != node
    make(third, {}, affinity=apart)
    said = plane.event(third, "FailedScheduling")
    assert "didn't match pod anti-affinity rules" in str(said) or "anti-affinity" in str(plane.pod_of(third)["status"])
    plane.call("DELETE", f"{NS}/pods/{second}?gracePeriodSeconds=0")
    assert plane.running(third)["spec"]["nodeName"] != node
    for name in (first, third):
        plane.call("DELETE", f"{NS}/pods/{name}?gracePeriodSeconds=0")


def test_priority_and_gates(plane, made):  # noqa: F811
    pcs = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made(pcs, {"metadata": {"name": "high"}, "value": 1000})
    p = made(f"{NS}/pods", {"metadata": {"name": "of-class"}, "spec": {**plane.spec("true"), "priorityClassName": "high", "schedulingGates": [{"name": "example.com/wait"}], "schedulerName": "default-scheduler"}})
    assert p["spec"]["priority"] == 1000 and p["spec"]["serviceAccount"] == "default" and condition(p, "PodScheduled") == "False"
    code, r = plane.api.call("POST", f"{NS}/pods", {"metadata": {"name": "x"}, "spec": {**plane.spec("true"), "priorityClassName": "none-such"}})
    assert code == 403 and "no PriorityClass with name none-such was found" in r["message"]
    made(pcs, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    with plane.pod("true") as name:  # it starts, and the gated one does not, although it came first
        assert plane.over(name)["spec"]["priority"] == 7
        assert plane.pod_of("of-class")["spec"].get("nodeName") is None
    # A scheduler that nobody is: the pod waits for it.
    foreign = made(f"{NS}/pods", {"metadata": {"name": "foreign"}, "spec": {**plane.spec("true"), "schedulerName": "somebody-elses"}})
    patch(plane, f"{NS}/pods/of-class", {"spec": {"schedulingGates": []}})
    assert plane.over("of-class")["status"]["phase"] == "Succeeded"
    assert plane.pod_of(foreign["metadata"]["name"])["spec"].get("nodeName") is None


def test_what_is_told_about_a_pod(plane):  # noqa: F811
    with plane.pod("sleep 1000", resources={"limits": {"cpu": "1", "memory": "64Mi"}}) as name:
        p = plane.ready(name)
        s = p["status"]
        assert s["hostIPs"] == [{"ip": s["hostIP"]}] and s["podIPs"] == [{"ip": s["podIP"]}] and s["qosClass"] == "Guaranteed"
        assert p["metadata"]["creationTimestamp"] <= s["startTime"] <= s["containerStatuses"][0]["state"]["running"]["startedAt"]


# ---- workloads ----

def test_templates_give_finalizers(plane, made):  # noqa: F811
    body = workload("fin", replicas=1)
    body["spec"]["template"]["metadata"]["finalizers"] = ["example.com/hold"]
    made(f"{APPS}/replicasets", body)
    pods = wait_for("its pod", lambda: plane.call("GET", f"{NS}/pods?labelSelector=app=fin")["items"])
    assert pods[0]["metadata"]["finalizers"] == ["example.com/hold"]
    patch(plane, f"{NS}/pods/{pods[0]['metadata']['name']}", {"metadata": {"finalizers": None}})


def test_min_ready_seconds(plane, made):  # noqa: F811
    """A pod counts as available only when it was ready that long."""
    made(f"{APPS}/deployments", workload("dep", minReadySeconds=500))
    made(f"{APPS}/replicasets", workload("set", minReadySeconds=2))
    made(f"{APPS}/statefulsets", workload("sts", replicas=2, minReadySeconds=500, serviceName="sts"))
    path = f"{APPS}/deployments/dep"
    wait_for("the pod is ready", lambda: status(plane, path).get("readyReplicas") == 1)
    s = status(plane, path)
    assert s.get("availableReplicas", 0) == 0 and s["unavailableReplicas"] == 1
    patch(plane, path, {"spec": {"minReadySeconds": 0}})
    wait_for("it is available", lambda: status(plane, path).get("availableReplicas") == 1)
    wait_for("after 2 s the other one", lambda: status(plane, f"{APPS}/replicasets/set").get("availableReplicas") == 1)
    rs = plane.call("GET", f"{APPS}/replicasets/set")
    pod = plane.call("GET", f"{NS}/pods?labelSelector=app=set")["items"][0]
    assert rs["status"]["fullyLabeledReplicas"] == 1 and rs["status"]["observedGeneration"] == rs["metadata"]["generation"] and condition(pod, "Ready") == "True"
    wait_for("the first of the set is ready", lambda: status(plane, f"{APPS}/statefulsets/sts").get("readyReplicas") == 1)
    assert plane.pod_of("sts-1") is None, "the second waits until the first is available"


def test_ordinals(plane, made):  # noqa: F811
    made(f"{APPS}/statefulsets", workload("ord", replicas=2, ordinals={"start": 5}, serviceName="ord"))
    wait_for("both run", lambda: status(plane, f"{APPS}/statefulsets/ord").get("readyReplicas") == 2)
    assert sorted(p["metadata"]["name"] for p in plane.call("GET", f"{NS}/pods?labelSelector=app=ord")["items"]) == ["ord-5", "ord-6"]


def test_job_fields(plane, made):  # noqa: F811
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    once = lambda name, script="true", **spec: {"metadata": {"name": name}, "spec": {"template": {"metadata": {"labels": {"mine": name}}, "spec": plane.spec(script)}, **spec}}
    # The selector is made from the Job's uid, or by hand.
    job = made(jobs, once("by-uid"))
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
    job = made(jobs, once("by-hand", manualSelector=True, selector={"matchLabels": {"mine": "by-hand"}}))
    assert job["spec"]["selector"]["matchLabels"] == {"mine": "by-hand"}
    for name in ("by-uid", "by-hand"):
        wait_for(f"{name} is done", lambda: status(plane, f"{jobs}/{name}").get("succeeded") == 1)
    # Somebody else's is left alone.
    made(jobs, once("foreign", managedBy="example.com/other"))
    # podReplacementPolicy Failed: no new pod while the old one ends.
    made(jobs, once("replace", "trap 'sleep 1000 & wait' TERM; echo up; sleep 1000 & wait; wait", podReplacementPolicy="Failed"))
    pods = lambda: plane.call("GET", f"{NS}/pods?labelSelector=mine=replace")["items"]
    first = wait_for("its pod", pods)[0]["metadata"]["name"]
    plane.said(first, "up")
    plane.call("DELETE", f"{NS}/pods/{first}?gracePeriodSeconds=1000")
    wait_for("the pod is ending", lambda: status(plane, f"{jobs}/replace").get("terminating") == 1)
    assert len(pods()) == 1
    plane.call("DELETE", f"{NS}/pods/{first}?gracePeriodSeconds=0")
    wait_for("then comes the next", lambda: [p for p in pods() if p["metadata"]["name"] != first])
    assert plane.call("GET", f"{NS}/pods?labelSelector=mine=foreign")["items"] == []


# ---- nodes and Services ----

def test_what_is_told_about_a_node(plane):  # noqa: F811
    n = plane.call("GET", "/api/v1/nodes/n0")
    s = n["status"]
    assert s["capacity"]["cpu"] >= s["allocatable"]["cpu"] and "memory" in s["capacity"] and int(s["allocatable"]["pods"]) > 0
    addresses = {a["type"]: a["address"] for a in s["addresses"]}
    assert addresses["Hostname"] == "n0" and addresses["InternalIP"]
    info = s["nodeInfo"]
    assert info["operatingSystem"] == "linux" and info["kernelVersion"] == os.uname().release and "tandem" in info["kubeletVersion"]


def test_what_is_told_about_a_service(plane, made):  # noqa: F811
    s = made(f"{NS}/services", {"metadata": {"name": "svc"}, "spec": {"ports": [{"port": 80}]}})
    assert s["spec"]["clusterIP"] == "None" and s["spec"]["clusterIPs"] == ["None"] and s["spec"]["type"] == "ClusterIP" and s["spec"]["sessionAffinity"] == "None"
