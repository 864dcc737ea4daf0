"""The node agent is killed: running pods go on and are adopted, what ended meanwhile is told truthfully, nothing is left behind; a node whose
agent stays away is NotReady and comes back."""
import glob
import json
import os
import random
import signal
import subprocess
import time

import pytest

from brief import last
from harness import wait_for
from podplane import IMAGE, ended, plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")


def kill_agent(plane):
    """Kills the one that runs now (after a kill just before: the next one)."""
    def kill():
        try:
            os.kill(plane.role_pid("kubelet") or 1 << 30, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return False
    wait_for("an agent to kill", kill)


def agent_is_back(plane, old):
    wait_for("a new agent", lambda: plane.role_pid("kubelet") not in (0, old) and os.path.exists(f"/proc/{plane.role_pid('kubelet')}"))


def hold_agent(plane):
    """Stops supervise from starting a new agent: it is itself stopped. Returns its pid."""
    pid = int(open(f"{plane.run_dir}/supervise.pid").read().split()[0])
    os.kill(pid, signal.SIGSTOP)
    return pid


def ours(plane):
    """Everything of this home on the machine, by kind."""
    ident, run = plane.id, lambda *a: subprocess.run(a, stdout=subprocess.PIPE, text=True).stdout
    return {
        "containers": set(os.listdir(f"{plane.home}/pods")) | set(os.listdir(f"{plane.run_dir}/runc")),
        "cgroups": {os.path.basename(p) for p in glob.glob(f"/sys/fs/cgroup/tandem-{ident}/td*") + glob.glob(f"/sys/fs/cgroup/*/tandem-{ident}/td*")},
        "netns": {n for n in os.listdir("/run/netns") if n.startswith(f"td{ident}-")},
        "links": {l.split(": ")[1].split("@")[0] for l in run("ip", "-o", "link").splitlines() if f": tv{ident[:4]}" in l},
        # The agent's one tmpfs for what must not reach a disk stays as long as the home is up.
        "mounts": {l.split()[1] for l in open("/proc/mounts") if plane.home in l} - {f"{plane.home}/agent/secrets"},
        "records": set(os.listdir(f"{plane.home}/agent/pods")),
        "volumes": set(os.listdir(f"{plane.home}/agent/volumes")),
        "logs": set(os.listdir(f"{plane.home}/log/pods")),
    }


def nothing(plane):
    return not any(ours(plane).values())


def test_a_killed_agent_adopts_what_runs_and_tells_what_ended(plane):
    secret = [{"name": "s", "secret": {"secretName": "adopt"}}]
    plane.make("secrets", "adopt", stringData={"k": "v"})
    mount = [{"name": "s", "mountPath": "/s"}]
    names = {k: plane.name(k) for k in ("runs", "exits", "fails", "sig", "restarts", "probed")}
    after = "until [ -e /shared/{0} ]; do sleep 0.05; done; "
    vols = [{"name": "shared", "hostPath": {"path": "/shared"}}]
    shm = [{"name": "shared", "mountPath": "/shared"}]
    plane.post(names["runs"], plane.spec("i=0; while true; do i=$((i+1)); echo $i; sleep 0.05; done", volumes=secret, volumeMounts=mount))
    for k, end in (("exits", "echo bye; exit 0"), ("fails", "echo why > /dev/termination-log; exit 3"), ("sig", "kill -15 $$$$")):
        plane.post(names[k], plane.spec(after.format("go") + end, volumes=vols, volumeMounts=shm))
    plane.post(names["restarts"], plane.spec("[ -e /shared/again ] && sleep 1000; " + after.format("go") + "touch /shared/again; exit 1", restartPolicy="OnFailure", volumes=vols, volumeMounts=shm))
    plane.post(names["probed"], plane.spec("sleep 1000", readinessProbe={"periodSeconds": 1, "exec": {"command": ["test", "-e", "/ready"]}}))
    before = {k: plane.running(n)["status"]["containerStatuses"][0] for k, n in names.items()}
    plane.ex(names["probed"], "touch", "/ready")
    plane.ready(names["probed"])
    sup, agent = hold_agent(plane), plane.role_pid("kubelet")
    try:
        kill_agent(plane)
        open(f"{plane.home}/shared/go", "w").close()
        # They end without an agent: seen in the runtime's own records.
        wait_for("four ends", lambda: sum(b'"code"' in open(f, "rb").read() for f in glob.glob(f"{plane.home}/pods/*/exit")) >= 4)
    finally:
        os.kill(sup, signal.SIGCONT)
    agent_is_back(plane, agent)
    for k, code, message in (("exits", 0, None), ("fails", 3, "why\n"), ("sig", 143, None)):
        p = plane.over(names[k])
        assert ended(p)["exitCode"] == code and ended(p).get("message") == message and ended(p)["reason"] == ("Error" if code else "Completed")
        assert ended(p)["startedAt"] == before[k]["state"]["running"]["startedAt"] or k == "exits"
    assert plane.text(names["exits"]) == "bye\n"
    p = plane.wait(names["restarts"], "restarted", lambda p: state(p)["restartCount"] == 1 and "running" in state(p)["state"])
    assert state(p)["lastState"]["terminated"]["exitCode"] == 1
    p = plane.running(names["runs"])
    assert state(p)["restartCount"] == 0 and state(p)["containerID"] == before["runs"]["containerID"] and state(p)["state"] == before["runs"]["state"]
    nums = [int(x) for x in plane.text(names["runs"]).split()]
    assert nums == list(range(1, len(nums) + 1))  # it went on logging, without a gap
    n = len(nums)
    wait_for("more lines", lambda: len(plane.text(names["runs"]).split()) > n)
    assert plane.ex(names["runs"], "cat", "/s/k") == "v"
    p = plane.ready(names["probed"])
    assert state(p)["restartCount"] == 0
    plane.kubectl("delete", "pod", *names.values())
    wait_for("nothing left", lambda: nothing(plane))


def test_a_start_that_fails_for_the_machines_trouble_is_made_again(plane):
    """The agent cannot write its record: the container waits and says why. Nothing restarts it, and it runs once when that is over."""
    first = {"name": "first", "image": IMAGE, "command": ["sh", "-c", "until [ -e /v/go ]; do sleep 0.05; done"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    with plane.pod("echo ran >> /v/ran; cat /v/ran", "trouble", initContainers=[first], volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=first["volumeMounts"]) as name:
        begun = plane.wait(name, "its first container runs", lambda p: any("running" in c["state"] for c in p["status"].get("initContainerStatuses", [])))
        uid = begun["metadata"]["uid"]
        in_the_way = f"{plane.home}/agent/pods/{uid}.json.tmp"
        os.mkdir(in_the_way)
        open(f"{plane.home}/agent/volumes/{uid}/v/v/go", "w").close()
        assert in_the_way in plane.refused(name, "CreateContainerError")
        os.rmdir(in_the_way)
        assert plane.output(name) == "ran\n" and state(plane.pod_of(name))["restartCount"] == 0


def said(plane, round_, pod):
    """One line about a pod that did not end as it should: its containers, its last events, what the agent logged of it."""
    short = lambda c: f"{c['name']} x{c['restartCount']} " + json.dumps(c["state"])[:300]
    name, st = pod["metadata"]["name"], pod["status"]
    containers = [short(c) for l in ("initContainerStatuses", "containerStatuses") for c in st.get(l, [])]
    log = last(f"{plane.home}/log/kubelet.log", 5, name)
    return f"round {round_}: {name} {st['phase']} {st.get('reason', '')} {st.get('message', '')[:200]}; {containers}; {plane.events(name)[-6:]}; {log}"[:1800]


def test_kills_at_any_moment_leave_nothing(plane, request):
    """Kills of the agent (--steps 100: 20 of them) while pods with volumes and init containers start, run and stop. Every pod comes to its
    true end, and nothing is left. Most of its time goes into supervise's pause before it starts an agent again."""
    rounds = max(3, int(request.config.getoption("--steps")) // 10)
    rng, before = random.Random(int(request.config.getoption("--seed"))), ours(plane)
    with_mem = [{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}, {"name": "s", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    mounts = [{"name": "m", "mountPath": "/m"}, {"name": "d", "mountPath": "/d", "subPath": "x"}, {"name": "s", "mountPath": "/s"}]
    init = {"name": "i", "image": IMAGE, "command": ["sh", "-c", "echo init > /m/f"], "volumeMounts": mounts}
    for round_ in range(rounds):
        names = []
        for k, (script, want) in enumerate((("cat /m/f; exit 0", "Succeeded"), ("exit 4", "Failed"), ("sleep 1000", None))):
            n = plane.name(f"r{round_}")
            containers = [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts}]
            plane.post(n, plane.spec(containers=containers, initContainers=[init], volumes=with_mem, terminationGracePeriodSeconds=1))
            names.append((n, want))
        time.sleep(rng.uniform(0, 0.6))  # the random moment
        kill_agent(plane)
        for n, want in names:
            if want:
                p = plane.over(n)
                was = (p["status"]["phase"], state(p)["state"].get("terminated", {}).get("exitCode"), state(p)["restartCount"])
                assert was == (want, 0 if want == "Succeeded" else 4, 0), said(plane, round_, p)
            else:
                p = plane.running(n)
                assert state(p)["restartCount"] == 0
        for n, _ in names:
            plane.api.call("DELETE", f"/api/v1/namespaces/default/pods/{n}")
        time.sleep(rng.uniform(0, 0.4))
        kill_agent(plane)
        for n, _ in names:
            plane.gone(n)
        try:
            wait_for("nothing new left", lambda: not any(v - before[k] for k, v in ours(plane).items()))
        except AssertionError:
            raise AssertionError(f"round {round_}: left: { {k: v - before[k] for k, v in ours(plane).items() if v - before[k]} }") from None


@pytest.mark.nightly
@pytest.mark.feature("F1.3")
def test_a_node_without_its_agent_is_not_ready_and_comes_back(plane):
    """kubectl get nodes: the Lease grows old, the node controller says Unknown and taints; the agent comes back, and both go."""
    node = lambda: plane.call("GET", "/api/v1/nodes/n1")
    ready = lambda: next(c for c in node()["status"]["conditions"] if c["type"] == "Ready")
    lease = lambda: plane.call("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1")["spec"]["renewTime"]
    assert ready()["status"] == "True" and {a["type"]: a["address"] for a in node()["status"]["addresses"]} == {"InternalIP": node()["status"]["addresses"][0]["address"], "Hostname": "n1"}
    with plane.pod("sleep 1000", "stays", nodeName="n1") as name:
        cid = state(plane.running(name))["containerID"]
        old, sup, agent = lease(), hold_agent(plane), plane.role_pid("kubelet")
        try:
            kill_agent(plane)
            wait_for("the node to be unknown", lambda: ready()["status"] == "Unknown", 70)
            assert ready()["reason"] == "NodeStatusUnknown"
            wait_for("the taint", lambda: any(t["key"] == "node.kubernetes.io/unreachable" for t in node().get("spec", {}).get("taints", [])))
            assert plane.pod_of(name)["status"]["phase"] == "Running"  # nobody can say otherwise
        finally:
            os.kill(sup, signal.SIGCONT)
        agent_is_back(plane, agent)
        wait_for("the node to be ready", lambda: ready()["status"] == "True")
        wait_for("no taints", lambda: not any("unreachable" in t["key"] or "not-ready" in t["key"] for t in node().get("spec", {}).get("taints", [])))
        p = plane.ready(name)
        assert state(p)["containerID"] == cid and state(p)["restartCount"] == 0
        wait_for("its lease is renewed", lambda: lease() > old)


def test_a_node_keeps_the_labels_that_a_person_gave_it(plane):
    """Out of the pool is out of the pool: only the well-known labels come back, as with a kubelet."""
    labels = lambda: plane.call("GET", "/api/v1/nodes/n1")["metadata"]["labels"]
    assert labels()["tandem.dev/fake-gpus"] == "true"
    plane.kubectl("label", "node", "n1", "--overwrite", "tandem.dev/fake-gpus-", "topology.tandem.dev/rack=r7", "kubernetes.io/os=other")
    try:
        kill_agent(plane)
        wait_for("the agent wrote the labels that are its own", lambda: labels()["kubernetes.io/os"] == "linux", 30)
        assert "tandem.dev/fake-gpus" not in labels() and labels()["topology.tandem.dev/rack"] == "r7"
    finally:
        plane.kubectl("label", "node", "n1", "--overwrite", "tandem.dev/fake-gpus=true", "topology.tandem.dev/rack=r0")
