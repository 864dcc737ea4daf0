"""kubectl's commands into pods and about nodes (see test_kubectl.py)."""
import os
import re
import signal
import socket
import subprocess

import pytest

from harness import wait_for
from kubectls import box, boxed, client, deployment, k, pod  # noqa: F401 (fixtures)
from podplane import IMAGE, plane  # noqa: F401

pytestmark = pytest.mark.feature("F1.10")


# ---- streams ----

@pytest.mark.clients  # options
def test_logs(k, plane):  # noqa: F811
    script = "echo run; n=0; while [ $n -lt 3 ]; do n=$((n+1)); echo line $n; done; [ -e /d/again ] && exec sleep 1000; touch /d/again; exit 3"
    c = {"image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    k("create", "-f", "-", input=pod("p", labels={"app": "l"}, volumes=[{"name": "d", "emptyDir": {}}], containers=[{**c, "name": "a"}, {"name": "b", "image": IMAGE, "command": ["sh", "-c", "echo from b; exec sleep 1000"]}]))
    k("wait", "--for=condition=Ready", "pod/p", "--timeout=180s")
    k.wait_for("pod p", '.status.containerStatuses[?(@.name=="a")].restartCount', 1)
    k.wait_for("pod p", '.status.containerStatuses[?(@.name=="a")].ready', "true")
    wait_for("the second run has logged", lambda: k("logs", "p", "-c", "a") == "run\nline 1\nline 2\nline 3\n", 20)
    wait_for("the other one has logged", lambda: k("logs", "p", "-c", "b") == "from b\n")
    assert k("logs", "p", "-c", "a", "--previous") == "run\nline 1\nline 2\nline 3\n" and k("logs", "p", "-c", "a", "--tail=1") == "line 3\n"
    assert k("logs", "p", "--all-containers", "--prefix").count("[pod/p/") == 5
    assert k("logs", "-l", "app=l", "-c", "b") == "from b\n" and k("logs", "p", "-c", "b", "--since=1h", "--limit-bytes=4") == "from"
    assert re.match(r"\d{4}-\d\d-\d\dT[0-9:.]+Z from b", k("logs", "p", "-c", "b", "--timestamps")) and k("logs", "p", "-c", "b", "--since-time=2999-01-01T00:00:00Z") == ""
    assert "Defaulted container" in (k("logs", "p"), k.err)[1] or "a container name must be specified" in k.err
    assert 'previous terminated container "b" in pod "p" not found' in (k("logs", "p", "-c", "b", "-p", rc=1), k.err)[1]
    assert "container x is not valid for pod p" in (k("logs", "p", "-c", "x", rc=1), k.err)[1]


def test_logs_follow(k):
    k("create", "-f", "-", input=pod("p", "echo one; while [ ! -e /go ]; do sleep 0.1; done; echo two", restartPolicy="Never"))
    k("wait", "--for=condition=Ready", "pod/p", "--timeout=180s")
    f = k.start("logs", "-f", "p")
    try:
        assert f.stdout.readline() == "one\n"
        k("exec", "p", "--", "touch", "/go")
        assert f.stdout.readline() == "two\n" and f.stdout.readline() == "" and f.wait(60) == 0
    finally:
        f.kill()
        f.communicate(timeout=200)


@pytest.mark.clients  # SPDY or WebSocket
def test_exec(box):
    k = box
    assert k("exec", "box", "-c", "two", "--", "sh", "-c", "echo out; echo err >&2") == "out\n" and k.err == "err\n"
    assert k("exec", "-i", "box", "-c", "one", "--", "wc", "-c", input="12345") == "5\n"
    k("exec", "box", "-c", "one", "--", "sh", "-c", "exit 7", rc=7)
    assert "command terminated with exit code 7" in k.err
    assert "container not found" in (k("exec", "box", "-c", "nothing", "--", "true", rc=1), k.err)[1] or "container nothing is not valid" in k.err
    # A terminal: script(1) gives kubectl one.
    r = subprocess.run(["script", "-qec", f"{k.path} -n {k.ns} exec -it box -c one -- sh -c 'tty; stty size'", "/dev/null"], env={**k.env, "TERM": "xterm"}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, text=True, timeout=240)
    assert r.returncode == 0 and "/dev/pts/" in r.stdout, r.stdout


@pytest.mark.clients  # SPDY or WebSocket
def test_attach(k):
    k("create", "-f", "-", input=pod("p", containers=[{"name": "c", "image": IMAGE, "stdin": True, "command": ["sh", "-c", "while read a; do echo got $a; done; echo end"]}], restartPolicy="Never"))
    k("wait", "--for=condition=Ready", "pod/p", "--timeout=180s")
    a = k.start("attach", "-i", "p", "-c", "c", stdin=subprocess.PIPE)
    try:
        a.stdin.write("word\n")
        a.stdin.flush()
        wait_for("the answer", lambda: "got word" in a.stdout.readline(), 20)
    finally:
        a.kill()
        a.communicate(timeout=200)
    wait_for("it was logged too", lambda: "got word\n" in k("logs", "p"), 20)


@pytest.mark.clients  # tar over a stream
def test_cp(box, tmp_path):
    k = box
    src = tmp_path / "dir"
    (src / "sub").mkdir(parents=True)
    (src / "sub/file").write_bytes(os.urandom(100000))
    k("cp", src, "box:/tmp/to", "-c", "one")
    k("cp", "box:/tmp/to", tmp_path / "back", "-c", "one")
    assert (tmp_path / "back/sub/file").read_bytes() == (src / "sub/file").read_bytes()
    k("cp", f"{k.ns}/box:/etc/debian_version", tmp_path / "version", "-c", "two")
    assert (tmp_path / "version").read_text() == k("exec", "box", "-c", "two", "--", "cat", "/etc/debian_version")


@pytest.mark.clients  # SPDY or WebSocket
def test_port_forward(k):
    perl = ("use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die; while (my $c = $s->accept) { my $l = <$c>; print $c \"echo $l\"; close $c }")
    k("create", "-f", "-", input=[pod("p", labels={"app": "p"}, containers=[{"name": "c", "image": IMAGE, "command": ["perl", "-e", perl], "ports": [{"name": "echo", "containerPort": 8080}], "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}]),
       {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"app": "p"}, "ports": [{"port": 8080}]}}])
    k("wait", "--for=condition=Ready", "pod/p", "--timeout=180s")
    for what, port in (("pod/p", "8080"), ("svc/s", "8080")):  # headless: kubectl takes the Service's port as the pod's
        f = k.start("port-forward", what, f":{port}")
        try:
            local = int(re.search(r"127\.0\.0\.1:(\d+) -> 8080", f.stdout.readline())[1])

            def ask():
                with socket.create_connection(("127.0.0.1", local), 60) as s:
                    s.sendall(b"word\n")
                    return s.recv(100)
            assert wait_for("an answer through the port", ask, 20) == b"echo word\n"
        finally:
            f.send_signal(signal.SIGTERM)
            f.communicate(timeout=200)


@pytest.mark.clients  # what is refused, in its words
def test_debug(box):
    """A copy of a pod can be looked into; ephemeral containers and pods in the node's namespaces are refused in words."""
    k = box
    k("debug", "box", f"--image={IMAGE}", "--profile=general", "--", "true", rc=1)
    assert "ephemeral containers are disabled for this cluster" in k.err
    k("debug", "node/n0", f"--image={IMAGE}", "--profile=general", "--", "true", rc=1)
    assert "spec.hostPID: Forbidden: is not served by embedded nodes" in k.err
    k("debug", "box", "--copy-to=copy", f"--image={IMAGE}", "--profile=general", "--share-processes=false", "-c", "dbg", "--", "sleep", "1000")
    k("wait", "--for=condition=Ready", "pod/copy", "--timeout=180s")
    assert k("exec", "copy", "-c", "dbg", "--", "echo", "in") == "in\n"
    k("delete", "pod", "copy", "--now")

# ---- nodes ----

@pytest.mark.clients  # evictions
def test_cordon_taint_drain(k):
    k("create", "-f", "-", input=[pod("bare", nodeName="n1"), deployment("web", 2)])
    k("rollout", "status", "deploy/web", "--timeout=180s")
    k("wait", "--for=condition=Ready", "pod/bare", "--timeout=180s")
    try:
        assert k("cordon", "n1") == "node/n1 cordoned\n" and k("cordon", "n1") == "node/n1 already cordoned\n"
        assert k.rows("get", "node", "n1")[1][1] == "Ready,SchedulingDisabled"
        k("drain", "n1", "--ignore-daemonsets", f"--pod-selector=app!=box", rc=1)
        assert "cannot delete" in k.err and f"{k.ns}/bare" in k.err
        assert "evicting pod" in k("drain", "n1", "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--grace-period=1", "--timeout=180s", "--pod-selector=app!=box") + k.err
        assert k("get", "pods", "--field-selector=spec.nodeName=n1", "-o", "name") == "" and k("get", "pod", "bare", "--ignore-not-found") == ""
        k.wait_for("deploy web", ".status.readyReplicas", 2)
        assert k("uncordon", "n1") == "node/n1 uncordoned\n"
        assert k("taint", "node", "n1", "key=value:NoSchedule") == "node/n1 tainted\n" and "key=value:NoSchedule" in k("describe", "node", "n1")
        assert "already has" in (k("taint", "node", "n1", "key=other:NoSchedule", rc=1), k.err)[1]
        k("create", "-f", "-", input=pod("on", nodeSelector={"kubernetes.io/hostname": "n1"}))
        wait_for("it is told why the pod waits", lambda: "FailedScheduling" in k("events", "--for", "pod/on"), 30)
        assert k("taint", "node", "n1", "key:NoSchedule-") == "node/n1 untainted\n"
        k("wait", "--for=condition=Ready", "pod/on", "--timeout=180s")
    finally:
        k("uncordon", "n1")
        k("taint", "node", "n1", "key-", rc=0) if "key" in k("describe", "node", "n1").split("Taints:")[1].split("\n")[0] else None
