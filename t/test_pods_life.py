"""The life of pods on embedded nodes: probes, init containers and sidecars, hooks, restarts, ends and how they are told."""
import json
import os
import re
import time

import pytest

from harness import wait_for
from podplane import IMAGE, condition, ended, plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")

SERVER = r"""use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) {
$l = <$c>; while (($h = <$c>) =~ /\S/) { $x = $1 if $h =~ /^X-Probe: (\S+)/ } $ok = -e "/v/up" && $l =~ m{^GET /health\?a=b } && $x eq "yes"; print $c $ok ? "HTTP/1.1 204 Fine\r\n\r\n" : "HTTP/1.1 503 No\r\n\r\n"; close $c }"""


def stamp(t):
    return time.mktime(time.strptime(t, "%Y-%m-%dT%H:%M:%SZ"))


@pytest.fixture(scope="module")
def crasher(plane):
    """Crashes from the first test of this module on, while the others run."""
    with plane.pod("exit 1", "crash", restartPolicy="Always") as name:
        yield name


def probe(cmd=None, **kw):
    """Its time is 1 s unless it is said: not much on a busy machine."""
    return {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30, **({"exec": {"command": ["sh", "-c", cmd]}} if cmd else {}), **kw}


# ---- probes ----

def test_a_failing_liveness_probe_restarts_the_container(plane, crasher):
    with plane.pod("sleep 1000", "live", restartPolicy="Always", terminationGracePeriodSeconds=30, livenessProbe=probe("echo it is broken; exit 1")) as name:
        p = plane.wait(name, "restarted", lambda p: p["status"].get("containerStatuses") and state(p)["restartCount"] >= 1)
        assert "Liveness probe failed: it is broken" in plane.event(name, "Unhealthy")[0]
        assert "failed liveness probe, will be restarted" in plane.event(name, "Killing")[0]
        assert state(p)["lastState"]["terminated"]["exitCode"] == 143
        plane.wait(name, "backing off", lambda p: state(p)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")


def test_the_grace_of_a_probe_wins_over_the_pods(plane):
    with plane.pod("trap '' TERM; touch /up; while true; do sleep 0.1; done", "grace", restartPolicy="Always", terminationGracePeriodSeconds=600,
                   livenessProbe=probe("[ ! -e /up ]", terminationGracePeriodSeconds=1)) as name:  # it fails when TERM does nothing any more
        p = plane.wait(name, "killed", lambda p: p["status"].get("containerStatuses") and state(p)["restartCount"] >= 1)
        assert state(p)["lastState"]["terminated"]["exitCode"] == 137


def test_a_startup_probe_holds_the_others_back(plane):
    with plane.pod("sleep 1000", "startup", restartPolicy="Always", startupProbe=probe("test -e /up", failureThreshold=200), livenessProbe=probe("test -e /up"), readinessProbe=probe("test -e /up")) as name:
        p = plane.running(name)
        assert state(p)["started"] is False and state(p)["ready"] is False
        plane.ex(name, "touch", "/up")
        p = plane.ready(name)
        assert state(p)["started"] is True and state(p)["restartCount"] == 0
    with plane.pod("sleep 1000", "never-up", restartPolicy="Never", terminationGracePeriodSeconds=30, startupProbe=probe("false")) as name:
        p = plane.over(name)
        assert ended(p)["exitCode"] == 143 and "failed startup probe" in plane.event(name, "Killing")[0]


def test_readiness_is_the_ready_condition_and_the_names_of_services(plane):
    plane.call("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "web"}, "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]}})
    plane.call("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "early"}, "spec": {"clusterIP": "None", "selector": {"app": "web"}, "publishNotReadyAddresses": True, "ports": [{"port": 80}]}})
    with plane.pod("sleep 1000", "ready", labels={"app": "web"}, readinessProbe=probe("test -e /ready", successThreshold=1)) as name:
        p = plane.running(name)
        ip = p["status"]["podIP"]
        assert condition(p, "Ready") == "False" and condition(p, "ContainersReady") == "False"
        look = lambda host: plane.run("kubectl", "exec", name, "--", "getent", "hosts", host, check=False).stdout.split()[:1]
        wait_for("the name of the one that may be early", lambda: look("early") == [ip])
        assert look("web") == []
        plane.ex(name, "touch", "/ready")
        plane.ready(name)
        wait_for("the name of the service", lambda: look("web.default.svc.cluster.local") == [ip])
        plane.ex(name, "rm", "/ready")
        plane.wait(name, "unready", lambda p: condition(p, "Ready") == "False")
        wait_for("the name of the service gone", lambda: look("web") == [])


def test_http_and_tcp_probes(plane):
    http = {"httpGet": {"port": "web", "path": "/health?a=b", "httpHeaders": [{"name": "X-Probe", "value": "yes"}]}}
    containers = [{"name": "c", "image": IMAGE, "command": ["perl", "-e", SERVER, "8080"], "ports": [{"name": "web", "containerPort": 8080}], "readinessProbe": probe(**http),
                   "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                  {"name": "t", "image": IMAGE, "command": ["perl", "-e", SERVER, "9090"], "readinessProbe": probe(tcpSocket={"port": 9090})},
                  {"name": "n", "image": IMAGE, "command": ["sleep", "1000"], "readinessProbe": probe(tcpSocket={"port": 9091})}]
    with plane.pod(stem="net", containers=containers, volumes=[{"name": "v", "emptyDir": {}}]) as name:
        p = plane.wait(name, "tcp is ready", lambda p: p["status"].get("containerStatuses") and state(p, "t")["ready"])
        wait_for("a bad answer", lambda: "statuscode: 503" in " ".join(plane.event(name, "Unhealthy")))
        assert not state(p)["ready"] and not state(p, "n")["ready"]
        plane.ex(name, "touch", "/v/up")
        plane.wait(name, "http is ready", lambda p: state(p)["ready"])
        wait_for("nobody listens", lambda: any("dial tcp" in m and ":9091" in m for m in plane.event(name, "Unhealthy")))


def test_a_probe_that_hangs_is_ended(plane):
    with plane.pod("sleep 1000", "hang", readinessProbe=probe("exec sleep 500", timeoutSeconds=1)) as name:
        plane.running(name)
        assert "timed out" in plane.event(name, "Unhealthy")[0]
        wait_for("the hanging probe to be gone", lambda: "500" not in plane.ex(name, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))


# ---- init containers and sidecars ----

def mounts(name="v"):
    return [{"name": name, "mountPath": "/v"}]


def test_init_containers_run_one_after_the_other(plane):
    init = lambda n, s, **kw: {"name": n, "image": IMAGE, "command": ["sh", "-c", s], "volumeMounts": mounts(), **kw}
    inits = [init("one", "sleep 0.3; echo one >> /v/f"), init("two", "[ -e /v/f ] || exit 9; [ -e /v/again ] || { touch /v/again; exit 4; }; echo two >> /v/f")]
    with plane.pod("cat /v/f", "init", restartPolicy="OnFailure", initContainers=inits, volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=mounts()) as name:
        assert plane.output(name) == "one\ntwo\n"
        p = plane.pod_of(name)
        assert [(c["name"], c["restartCount"], c["state"]["terminated"]["exitCode"], c["ready"]) for c in p["status"]["initContainerStatuses"]] == [("one", 0, 0, True), ("two", 1, 0, True)]
        assert state(p, "two")["lastState"]["terminated"]["exitCode"] == 4 and condition(p, "Initialized") == "True"
    with plane.pod("true", "initno", initContainers=[init("bad", "echo why >&2; exit 5"), init("never", "true")], volumes=[{"name": "v", "emptyDir": {}}]) as name:
        p = plane.over(name)
        assert p["status"]["phase"] == "Failed" and state(p, "bad")["state"]["terminated"]["exitCode"] == 5
        assert state(p, "c")["state"]["waiting"]["reason"] == "PodInitializing" and "waiting" in state(p, "never")["state"]
        assert condition(p, "Initialized") == "False" and plane.kubectl("logs", name, "-c", "bad") == "why\n"


def test_sidecars_start_before_and_stop_after_the_containers(plane):
    log = f"{plane.home}/shared/sidecar"
    os.makedirs(os.path.dirname(log), exist_ok=True)
    side = {"name": "side", "image": IMAGE, "restartPolicy": "Always", "volumeMounts": mounts(), "startupProbe": probe("test -e /tmp/up", failureThreshold=30),
            "command": ["sh", "-c", "trap 'echo side-end >> /v/sidecar; exit 0' TERM; echo side-up >> /v/sidecar; sleep 0.3; touch /tmp/up; while true; do sleep 0.05; done"]}
    init = {"name": "init", "image": IMAGE, "volumeMounts": mounts(), "command": ["sh", "-c", "echo init >> /v/sidecar"]}
    with plane.pod("echo main >> /v/sidecar; sleep 0.3; echo main-end >> /v/sidecar", "side", initContainers=[side, init], volumeMounts=mounts(), terminationGracePeriodSeconds=10,
                   volumes=[{"name": "v", "hostPath": {"path": "/shared"}}]) as name:
        p = plane.over(name)
        assert p["status"]["phase"] == "Succeeded" and open(log).read().split() == ["side-up", "init", "main", "main-end", "side-end"]
        assert state(p, "side")["state"]["terminated"]["exitCode"] == 0
    # A sidecar that ends is started again, whatever the pod's policy says, and its failure is not the pod's.
    side = {"name": "side", "image": IMAGE, "restartPolicy": "Always", "command": ["sh", "-c", "[ -e /v/x ] && { touch /v/again; sleep 1000; }; touch /v/x; exit 3"], "volumeMounts": mounts()}
    with plane.pod("until [ -e /v/again ]; do sleep 0.05; done", "side2", initContainers=[side], volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=mounts()) as name:
        p = plane.over(name)
        assert p["status"]["phase"] == "Succeeded" and state(p, "side")["restartCount"] == 1


# ---- hooks ----

def test_hooks(plane):
    out = f"{plane.home}/shared/hooks"
    vol = dict(volumes=[{"name": "v", "hostPath": {"path": "/shared"}}], volumeMounts=mounts())
    life = {"postStart": {"exec": {"command": ["sh", "-c", "until [ -e /go ]; do sleep 0.05; done; echo post >> /v/hooks"]}}, "preStop": {"exec": {"command": ["sh", "-c", "echo pre >> /v/hooks; sleep 0.4; echo pre-end >> /v/hooks"]}}}
    with plane.pod("trap 'echo term >> /v/hooks; exit 0' TERM; while true; do sleep 0.05; done", "hooks", lifecycle=life, terminationGracePeriodSeconds=600, **vol) as name:
        p = plane.running(name)
        assert state(p)["ready"] is False  # the hook has not ended
        plane.ex(name, "touch", "/go")
        plane.ready(name)
        assert open(out).read() == "post\n"
        plane.kubectl("delete", "pod", name)  # it waits for the end: much shorter than the grace
        assert open(out).read().split() == ["post", "pre", "pre-end", "term"]
    with plane.pod("trap '' TERM; while true; do sleep 0.05; done", "slowhook", terminationGracePeriodSeconds=1, lifecycle={"preStop": {"exec": {"command": ["sleep", "600"]}}}) as name:
        plane.running(name)
        plane.kubectl("delete", "pod", name)  # it waits for the end, and not for ten minutes: the grace holds for the hook too
    with plane.pod("sleep 1000", "badhook", restartPolicy="Never", terminationGracePeriodSeconds=30, lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo oh no; exit 3"]}}}) as name:
        p = plane.over(name)
        assert ended(p)["exitCode"] == 143 and "oh no" in plane.event(name, "FailedPostStartHook")[0]


# ---- stopping ----

def test_term_then_kill(plane):
    stubborn = "trap '' TERM; echo up; while true; do sleep 0.05; done"
    cases = {"nicely": ("trap 'exit 7' TERM; echo up; while true; do sleep 0.05; done", 7, 600), "default": ("echo up; exec sleep 1000", 143, 600), "stubborn": (stubborn, 137, 1)}
    names = {}
    for k, (script, _, grace) in cases.items():
        names[k] = plane.name(k)
        plane.post(names[k], plane.spec(script, terminationGracePeriodSeconds=grace))
    for name in names.values():  # a deadline from the first could be over before the traps are set
        plane.said(name, "up")
        plane.kubectl("patch", "pod", name, "-p", '{"spec":{"activeDeadlineSeconds":1}}')
    for k, (_, code, _) in cases.items():
        p = plane.over(names[k])
        assert (ended(p)["exitCode"], p["status"]["phase"], p["status"]["reason"]) == (code, "Failed", "DeadlineExceeded"), k
        assert "longer than the specified deadline" in p["status"]["message"]
    t = stamp(ended(plane.pod_of(names["stubborn"]))["finishedAt"]) - stamp(plane.pod_of(names["stubborn"])["status"]["startTime"])
    assert 1 <= t <= 500  # its own grace, not that of others
    plane.kubectl("delete", "pod", *names.values())
    # --force does not wait, and still nothing is left running
    with plane.pod(stubborn, "forced", terminationGracePeriodSeconds=600) as name:
        plane.said(name, "up")
        uid = plane.pod_of(name)["metadata"]["uid"].replace("-", "")
        plane.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        wait_for("the container gone", lambda: not [d for d in os.listdir(f"{plane.home}/pods") if uid[:20] in d])
    # a second delete may shorten the grace
    with plane.pod(stubborn, "shorter", terminationGracePeriodSeconds=600) as name:
        plane.said(name, "up")
        plane.kubectl("delete", "pod", name, "--wait=false")
        assert plane.pod_of(name)["metadata"]["deletionGracePeriodSeconds"] == 600
        plane.kubectl("delete", "pod", name, "--grace-period=1")


# ---- restarts ----

def test_restart_policies(plane):
    cases = [("Always", "exit 0", True), ("Always", "exit 1", True), ("OnFailure", "exit 0", "Succeeded"), ("OnFailure", "exit 1", True), ("Never", "exit 0", "Succeeded"), ("Never", "exit 3", "Failed")]
    names = []
    for policy, script, _ in cases:
        names.append(plane.name("policy"))
        plane.post(names[-1], plane.spec(script, restartPolicy=policy))
    for name, (policy, script, want) in zip(names, cases):
        if want is True:
            p = plane.wait(name, f"{policy} {script} restarted", lambda p: p["status"].get("containerStatuses") and state(p)["restartCount"] >= 1)
            assert p["status"]["phase"] == "Running"
        else:
            p = plane.over(name)
            assert p["status"]["phase"] == want and state(p)["restartCount"] == 0
    plane.kubectl("delete", "pod", "--wait=false", *names)


def test_ends_are_told_truthfully(plane):
    hog = "tail /dev/zero"
    cases = {"zero": ("exit 0", dict(exitCode=0, reason="Completed"), {}), "three": ("exit 3", dict(exitCode=3, reason="Error"), {}), "own-kill": ("kill -9 $$$$", dict(exitCode=137, reason="Error"), {}),
             "own-segv": ("kill -11 $$$$", dict(exitCode=139, reason="Error"), {}), "oom": (f"exec {hog}", dict(exitCode=137, reason="OOMKilled"), {"resources": {"limits": {"memory": "24Mi"}}}),
             "child-oom": (f"{hog}; echo lived", dict(exitCode=0, reason="Completed"), {"resources": {"limits": {"memory": "24Mi"}}})}
    names = {}
    for k, (script, _, kw) in cases.items():
        names[k] = plane.name(k)
        plane.post(names[k], plane.spec(script, **kw))
    for k, (_, want, _) in cases.items():
        e = ended(plane.over(names[k]))
        assert {x: e.get(x) for x in want} == want, (k, e)
        assert e["containerID"].startswith("tandem://") and stamp(e["startedAt"]) <= stamp(e["finishedAt"]), (k, e)
    plane.kubectl("delete", "pod", "--wait=false", *names.values())


def test_termination_messages(plane):
    long = "head -c 10000 /dev/zero | tr '\\0' x"
    cases = {"file": ("echo said > /dev/termination-log; exit 1", {}, "said\n"), "path": ("echo here > /tmp/msg", {"terminationMessagePath": "/tmp/msg"}, "here\n"),
             "none": ("echo on stdout; exit 1", {}, None), "fallback": ("echo one; echo two >&2; exit 1", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "one\ntwo\n"),
             "good": ("echo one", {"terminationMessagePolicy": "FallbackToLogsOnError"}, None), "both": ("echo log; echo file > /dev/termination-log; exit 1", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "file\n"),
             "long": (f"{long} > /dev/termination-log", {}, "x" * 4096), "longlog": (f"{long}; exit 1", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "x" * 2048),
             "bytes": ("printf '\\377a\\0b' > /dev/termination-log", {}, "?a")}
    names = {}
    for k, (script, kw, _) in cases.items():
        names[k] = plane.name(k)
        plane.post(names[k], plane.spec(script, **kw))
    for k, (_, _, want) in cases.items():
        assert ended(plane.over(names[k])).get("message") == want, k
    plane.kubectl("delete", "pod", "--wait=false", *names.values())


def test_crash_loops_back_off(plane, crasher):
    """1st restart at once, the 2nd after 10 s, the 3rd after 20 s more (the growth and the reset are in src/kubelet/test)."""
    p = plane.wait(crasher, "third run", lambda p: state(p)["restartCount"] >= 2)
    p = plane.wait(crasher, "back-off", lambda p: state(p)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    wait = ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"][min(state(p)["restartCount"], 6) - 1]  # the tests before took their time
    assert re.match(rf"back-off {wait} restarting failed container=c pod=crash-\d+_default\(", state(p)["state"]["waiting"]["message"])
    e = state(p)["lastState"]["terminated"]
    assert stamp(e["startedAt"]) - stamp(p["status"]["startTime"]) >= 9 and e["exitCode"] == 1
    assert condition(p, "Ready") == "False" and p["status"]["phase"] == "Running"
    assert plane.event(crasher, "BackOff")


def test_a_killed_init_of_a_container_is_told(plane):
    """What kills PID 1 of a container kills the container: 137, and a restart."""
    with plane.pod("sleep 1000", "pid1", restartPolicy="OnFailure") as name:
        p = plane.running(name)
        cid = state(p)["containerID"].removeprefix("tandem://")
        pid = json.load(open(f"{plane.run_dir}/runc/{cid}/state.json"))["init_process_pid"]
        os.kill(pid, 9)
        p = plane.wait(name, "restarted", lambda p: state(p)["restartCount"] == 1 and "running" in state(p)["state"])
        assert state(p)["lastState"]["terminated"]["exitCode"] == 137 and state(p)["lastState"]["terminated"]["reason"] == "Error"


def test_generations(plane):
    """What a kubelet of 1.34 says of which generation a status is about: seen on a real one."""
    def seen(p):
        return [p["metadata"]["generation"], p["status"].get("observedGeneration"), {c.get("observedGeneration") for c in p["status"]["conditions"]}]
    with plane.pod("trap '' TERM; echo up; sleep 1000 & wait; sleep 1000", "gen", terminationGracePeriodSeconds=600) as name:
        assert seen(plane.ready(name)) == [1, 1, {1}]
        plane.said(name, "up")  # TERM does nothing any more
        plane.kubectl("label", "pod", name, "a=b")
        assert plane.pod_of(name)["metadata"]["generation"] == 1
        plane.kubectl("patch", "pod", name, "-p", '{"spec":{"activeDeadlineSeconds":1000}}')
        plane.wait(name, "seen", lambda p: seen(p) == [2, 2, {2}])
        plane.kubectl("delete", "pod", name, "--wait=false")
        plane.wait(name, "its end was seen", lambda p: seen(p) == [3, 3, {3}])
    with plane.pod("true", "gen") as name:
        p = plane.over(name)
        assert seen(p) == [1, 1, {1}]
    with plane.pod("true", "gen", nodeSelector={"no": "where"}) as name:  # the scheduler's word, no agent's
        p = plane.wait(name, "unschedulable", lambda p: p["status"].get("conditions"))
        assert seen(p) == [1, None, {1}]
