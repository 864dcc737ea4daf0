"""Machines that run slurmd themselves (docs/host.md): a real slurmd in namespaces of its own with nothing of Kubernetes in it, in the pool of the embedded plane."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

import ociforge
from harness import IMAGES, Failed, wait_for
from laptop import address, fetch, mallory, me, users  # noqa: F401 (fixtures)
from machine import Machine
from wsclient import WebSocket

pytestmark = [pytest.mark.embedded, pytest.mark.feature("A17.1", "D5.1")]

# The machine's GPUs: devices that everybody may open where cgroups do not forbid it.
GPUS = "nvidia0:1:7 nvidia1:1:9"
# A machine's own file system can show files as another's, as an image's must be; this one's is an overlay.
IMAGES_AT = "mkdir -p /var/lib/tandem/containers && mount -t tmpfs tmpfs /var/lib/tandem/containers"
# What Kubernetes' own authorizer lets every node read; the embedded plane has RBAC only.
NODE = [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "as-the-node-authorizer"},
         "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
                   {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "patch"]}, {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
                   {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "as-the-node-authorizer"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-the-node-authorizer"},
         "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"system:node:{name}"} for name in ("h0", "h1")]}]


def line(pool, name="h0"):
    nodes = pool.get("nodeset", "metal", "-n", "slurm").get("status", {}).get("nodes", [])
    return next((n for n in nodes if n["name"] == name), None)


@pytest.fixture
def metal(pool):
    """A NodeSet of machines, and one machine beside the pool that is not in it yet."""
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "metal", "namespace": "slurm"},
                "spec": {"clusterName": "main", "hosts": [], "slurm": {"gres": "gpu:2", "features": ["bare"]}}}, *NODE)
    try:
        with Machine(pool, "h0", devices=GPUS) as m:
            m.join()
            yield m
    finally:
        pool.kubectl("-n", "slurm", "delete", "nodeset", "metal", "--ignore-not-found")
        for o in NODE:
            pool.kubectl("delete", o["kind"], o["metadata"]["name"], "--ignore-not-found")
        wait_for("Slurm knows it no more", lambda: "not found" in "".join(pool.ask("scontrol", "show", "node", "h0")[1:]), 60)
        wait_for("the pool's configuration is as before", lambda: "h0" not in pool.get("cm", "main-config", "-n", "slurm")["data"]["gres.conf"], 60)


def slurmd(m):
    return m.process("-x", "slurmd")


@pytest.mark.feature("D6.4")
def test_a_machine_is_a_node_by_its_own_slurmd(pool, metal):
    """It is no node before it is admitted and has no key; then jobs run there with exactly their devices and outlive slurmd; taken out it works to the end, and has no key again."""
    m = metal
    secret = lambda: pool.kubectl("--kubeconfig", m.conf, "-n", "slurm", "get", "secret", "main-slurm-key", "-o", "name")
    with pytest.raises(Failed, match="orbidden"):
        secret()
    host = m.tandem("host", "--nodeset", "slurm/metal", "--name", "h0", "--standin", "/usr/bin/tandem-standin", "--every", "0.3s", "--cpus", "2", "--memory", "8000")
    m.start(*host)
    wait_for("the machine asks in vain", lambda: "orbidden" in m.log() or "ended (" in m.log(), 60)
    assert "ended (" not in m.log(), m.log()
    assert slurmd(m) is None
    pool.cmd("node", "admit", "h0", "--nodeset", "slurm/metal")
    m.also(*m.tandem("agent", "--node", "h0", "--devices", "2", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--kubelet", "none"), log="agent.log")
    wait_for("its slurmd has registered", lambda: (line(pool) or {}).get("state") == "idle", 120)
    wait_for("the gate is open", lambda: "is open: 2 devices" in m.log("agent.log"), 60)
    status = wait_for("the NodeSet is ready", lambda: (s := pool.get("nodeset", "metal", "-n", "slurm")["status"]) and s["ready"] == 1 and s, 60)
    assert (status["desired"], status["matched"], status["assigned"]) == (1, 1, 1) and line(pool)["host"] and "pod" not in line(pool)
    assert pool.get("nodes", "n0") and "h0" not in [n["metadata"]["name"] for n in pool.items("nodes")], "no Kubernetes node was made"

    # A job has its own device and no other, and cannot read what slurmd proves itself with.
    look = "hostname; for d in 0 1; do head -c1 /dev/nvidia$d >/dev/null 2>&1 && echo opens $SLURM_STEP_GPUS=$d; done; cat /run/tandem-host/slurm.key; cat /etc/kubernetes/kubelet.conf; true"
    r = pool.as_user("researcher", "srun", "-w", "h0", "--gres=gpu:1", "-C", "bare", "sh", "-c", look)
    assert r.stdout.split("\n")[:2] == ["h0", "opens 0=0"] and "opens 0=1" not in r.stdout, (r.stdout, r.stderr)
    assert r.stderr.count("Permission denied") == 2 and "clusters" not in r.stdout
    held = json.loads(subprocess.run(m.inside("cat", "/var/lib/tandem-agent/h0.json"), capture_output=True, text=True, check=True).stdout)
    assert held, "the gate keeps a table"

    has_a_copy(pool, m)

    # Somebody writes the machine's /etc/hosts anew, as another file, and slurmd still finds slurmctld.
    finds = lambda: "slurmctld" in pathlib.Path(f"/proc/{slurmd(m)}/root/etc/hosts").read_text()
    assert finds()
    subprocess.run(m.inside("sh", "-c", "cp /etc/hosts /etc/new && mv /etc/new /etc/hosts"), check=True)
    wait_for("slurmd has its names again", finds, 60)

    # A job outlives its slurmd.
    job = pool.sbatch("-w", "h0", "--gres=gpu:1")
    wait_for("it runs", lambda: pool.job(job)["JobState"] == "RUNNING", 60)
    since = lambda: re.search(r"SlurmdStartTime=(\S+)", pool.shell("scontrol", "show", "node", "h0"))[1]
    old, then = slurmd(m), since()
    os.kill(old, 9)
    wait_for("another slurmd runs", lambda: slurmd(m) not in (None, old), 60)
    wait_for("it has registered", lambda: since() != then, 60)
    wait_for("it is Slurm's", lambda: (line(pool) or {}).get("state") == "mixed", 60)
    assert pool.job(job)["JobState"] == "RUNNING"

    # Taken out: no new job, and the one that runs is waited for.
    pool.cmd("node", "dismiss", "h0", "--nodeset", "slurm/metal")
    wait_for("it drains", lambda: (line(pool) or {}).get("state") == "draining" and line(pool)["reason"].startswith("tandem: scale-in"), 60)
    assert pool.job(job)["JobState"] == "RUNNING"
    wait_for("its slurmd runs on", lambda: slurmd(m), 60)
    old = slurmd(m)
    os.kill(m.host(), 9)
    wait_for("slurmd has ended with who watches it", lambda: slurmd(m) is None, 60)
    m.also(*host, log="host2.log")
    wait_for("the next one knows that slurmd is needed", lambda: slurmd(m) not in (None, old), 60)
    assert pool.job(job)["JobState"] == "RUNNING"
    pool.shell("scancel", str(job))
    pool.cmd("node", "dismiss", "h0", "--nodeset", "slurm/metal", "--wait")
    wait_for("its slurmd has ended", lambda: slurmd(m) is None, 60)
    wait_for("the key is gone", lambda: subprocess.run(m.inside("ls", "/run/tandem-host"), capture_output=True, text=True, check=True).stdout.split() == ["hosts", "slurm"], 60)
    with pytest.raises(Failed, match="orbidden"):
        secret()


def has_a_copy(pool, m):
    """The machine fetches a data set, tells Slurm, and jobs go where it is; its group's alone reads it; a directory of the machine's own is not copied; what is not declared any more goes."""
    served = m.dir / "upper/srv"
    served.mkdir()
    (served / "words.txt").write_text("to learn from")
    m.also("python3", "-m", "http.server", "8099", "--directory", "/srv", log="http.log")
    source = {"http": {"url": f"http://{m.address}:8099/words.txt", "sha256": hashlib.sha256(b"to learn from").hexdigest()}}
    make = lambda name, **spec: {"apiVersion": "tandem.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": name, "namespace": "slurm"},
                                 "spec": {"clusterName": "main", "nodeSelector": {"tandem.dev/host": "metal"}, "source": source, **spec}}
    try:
        pool.apply(make("words"), make("closed", group="pods"), make("stolen", source={"directory": {"path": "/etc/kubernetes"}}))
        status = lambda name: pool.get("dataset", name, "-n", "slurm").get("status", {})
        for name in ("words", "closed"):
            wait_for("the machine holds it", lambda n=name: (status(n).get("nodes"), status(n).get("nodesReady")) == ("h0", 1), 120)
        look = "hostname; cat /datasets/words/words.txt; cat /datasets/closed/words.txt; ls /datasets/.tandem; touch /datasets/words/x /var/lib/tandem-datasets/slurm-main/x"
        r = pool.as_user("researcher", "srun", "-C", "data.words&data.closed", "sh", "-c", look, check=False)
        assert r.stdout == "h0\nto learn from", (r.stdout, r.stderr)
        assert r.stderr.count("Permission denied") == 3 and "Read-only file system" in r.stderr, r.stderr
        assert pool.as_user("pods", "srun", "-C", "data.closed", "cat", "/datasets/closed/words.txt").stdout == "to learn from"
        wait_for("it says what it does not copy", lambda: "Dataset slurm/stolen: spec.source.directory.path: /etc/kubernetes is in no file system" in m.log(), 60)
        assert not status("stolen").get("nodesReady")
        pool.kubectl("-n", "slurm", "delete", "dataset", "words", "closed", "stolen")
        place = m.dir / "upper/var/lib/tandem-datasets/slurm-main"
        wait_for("they are gone", lambda: not [x for x in os.listdir(place) if x != ".tandem"] and os.listdir(place / ".tandem") == [] and "data." not in pool.shell("scontrol", "show", "node", "h0"), 60)
    finally:
        pool.kubectl("-n", "slurm", "delete", "dataset", "words", "closed", "stolen", "--ignore-not-found")


def test_its_health_is_kept_as_that_of_other_nodes(pool, metal):
    """What an agent finds there takes it out of service in Slurm by the HealthPolicy; it is tested and returns when that has ended; no pod comes to it; its Node goes with it."""
    m = metal
    check = m.dir / "upper/checks/fan"
    check.parent.mkdir()
    check.write_text("#!/bin/sh\n[ -e /well ] || { echo the fan is off; exit 1; }\n")
    check.chmod(0o755)
    pool.cmd("node", "admit", "h0", "--nodeset", "slurm/metal")
    m.start(*m.tandem("host", "--nodeset", "slurm/metal", "--name", "h0", "--standin", "/usr/bin/tandem-standin", "--every", "0.3s", "--cpus", "2", "--memory", "8000", "--kubernetes-node"))
    node = lambda: next((n for n in pool.items("nodes") if n["metadata"]["name"] == "h0"), None)
    wait_for("it is a Kubernetes Node", node, 60)
    m.also(*m.tandem("agent", "--node", "h0", "--devices", "2", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--kubelet", "none", "--checks", "/checks"), log="agent.log")
    why = wait_for("Slurm gives nothing out there", lambda: (n := line(pool)) and n.get("state", "").startswith("drain") and n["reason"], 120)
    assert "the fan is off" in why and why.startswith("tandem: "), why
    assert "the fan is off" in pool.cmd("node", "h0").stdout and "h0" in pool.cmd("nodes").stdout
    subprocess.run(m.inside("touch", "/well"), check=True)
    wait_for("it was tested and works again", lambda: (n := line(pool)) and n.get("state") == "idle", 120)
    history = pool.cmd("history", "h0").stdout
    assert "test" in history and "return" in history, history

    # Not one pod, of a DaemonSet or otherwise, has come there.
    assert not [p for p in pool.items("pods", "-A") if p["spec"].get("nodeName") == "h0"]
    pool.cmd("node", "dismiss", "h0", "--nodeset", "slurm/metal", "--wait")
    assert node() is None


# It serves at $PORT, and says which networks it has and which path it was asked for.
PORTED = "import http.server, os, socket\nclass P(http.server.BaseHTTPRequestHandler):\n def do_GET(self):\n  out = f'{socket.gethostname()} {socket.if_nameindex()} {self.path} '.encode() + b'x' * 200000\n  self.send_response(200)\n" \
         "  self.send_header('Content-Length', str(len(out)))\n  self.end_headers()\n  self.wfile.write(out)\nhttp.server.ThreadingHTTPServer(('0.0.0.0', int(os.environ['PORT'])), P).serve_forever()"
# What code-server is to its session there: it listens at a socket, asks nobody, and knows no prefix.
CODE = """#!/usr/bin/python3
import http.server, os, socketserver, sys
if "--help" in sys.argv:
    sys.exit(print("--auth --socket"))
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"path={self.path} auth={self.headers['Authorization']} args={sys.argv[1:]} eth0={os.path.exists('/sys/class/net/eth0') or 'eth0' in open('/proc/net/dev').read()}".encode())
class Server(socketserver.ThreadingUnixStreamServer):
    def get_request(self):
        return self.socket.accept()[0], ("", 0)
Server(sys.argv[sys.argv.index("--socket") + 1], Page).serve_forever()
"""


def serves_http(pool, m, me, mallory):
    """An endpoint at a port, in a network of its own; VS Code at a socket: by the gateway with their owner's key, and by nothing else; many requests over one step."""
    bearer = {"Authorization": f"Bearer {me.key}"}
    (m.dir / "upper/home/researcher/serve.py").write_text(PORTED)
    s = me.json("session", "start", "endpoint", "--machines", "metal", "--", "exec python3 serve.py")
    status, said = fetch(address(pool), f"{s['path']}a?b=1", bearer)
    assert status == 200 and said.startswith(b"h0 [(1, 'lo')] /a?b=1 ") and len(said) > 200000, (status, said[:200])
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        assert {(r[0], len(r[1])) for r in many.map(lambda _: fetch(address(pool), f"{s['path']}a?b=1", bearer), range(24))} == {(200, len(said))}
    steps = pool.shell("squeue", "--steps", "-h", "-o", "%i", "-j", str(s["job"])).split()
    assert len([x for x in steps if x.rsplit(".", 1)[1].isdigit()]) == 1, steps
    assert fetch(address(pool), s["path"], {"Authorization": f"Bearer {mallory.key}"})[0] == 404 and fetch(address(pool), s["path"], {})[0] == 401
    there = m.inside("python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8888), 5)")
    assert "refused" in subprocess.run(there, capture_output=True, text=True).stderr, "the machine's root has no port of it, so nobody there has"
    me.run("session", "stop", s["id"])

    code = m.dir / "upper/home/researcher/code/bin/code-server"
    code.parent.mkdir(parents=True)
    code.write_text(CODE)
    code.chmod(0o755)
    s = me.json("session", "start", "vscode", "--env", "code", "--machines", "metal")
    status, said = fetch(address(pool), f"{s['path']}x?y=1", bearer)
    assert status == 200 and b"path=/x?y=1 auth=None" in said and b"eth0=True" in said and b"--host" not in said, said
    assert me.run("ssh", s["id"], "--", "echo $PATH").stdout.startswith("/home/researcher/code/bin:")
    me.run("session", "stop", s["id"])
    gone = lambda: subprocess.run(m.inside("sh", "-c", "ls -d /tmp/.tandem-*"), capture_output=True, text=True).stdout == ""
    wait_for("nothing of them is left", gone)


def forge(m):
    """Leaves an image in the researcher's home on the machine, with what a session needs of it and a server of pages."""
    e = ociforge.entry
    tools = ("sh", "cat", "ls", "mkdir", "rm", "mv", "env", "id", "hostname")
    lab = b"#!/bin/sh\ncase $1 in --version) exec echo 4.4.0 ;; esac\nfor x; do case $x in --ServerApp.sock=*) at=${x#*=} ;; esac; done\n" \
        b"www=${at%/*}/www\nmkdir -p $www$TANDEM_SESSION_PATH\n(cat /etc/os-release; hostname) >$www${TANDEM_SESSION_PATH}index.html\nexec /opt/tandem/tandem-standin own-net $at 8888 /bin/busybox httpd -f -p 8888 -h $www\n"
    tar = ociforge.layer(e("bin", kind="dir"), e("bin/jupyter-lab", lab, mode=0o755), e("bin/busybox", pathlib.Path("/usr/bin/busybox").read_bytes(), mode=0o755), *(e(f"bin/{n}", kind="sym", link="busybox") for n in tools),
                         e("etc", kind="dir"), e("etc/os-release", "NAME=Forged\n"), e("etc/environment", "PATH=/bin\n"), e("etc/passwd", ""), e("tmp", kind="dir", mode=0o1777))
    home = m.dir / "upper/home/researcher"
    (home / "own.tar").write_bytes(tar)
    subprocess.run(m.inside("sh", "-c", "cd /home/researcher && mksquashfs - own.sqsh -tar -quiet -no-progress <own.tar"), check=True, capture_output=True)
    return home


def in_an_image(pool, m, me, tty):
    """A session's job runs in a container as jobs with --container-image do; the way in from the gateway leads into it, and so does ssh."""
    home = forge(m)
    s = me.json("session", "start", "shell", "--machines", "metal", "--image", "/home/researcher/own.sqsh")
    # Only inside there is no sshd; before the container is there no step gets in.
    wait_for("ssh leads into its container", lambda: "has no sshd" in str(me.run("ssh", s["id"], "--", "true", check=False)), 120)
    w = tty(s)
    w.send(b"cat /etc/os-release; echo at=$(hostname) in=$PWD home=$HOME; echo kept >~/from-inside; ls /usr/sbin/slurmd; printf 'and%s\\n' -done\n")
    said = w.until(b"and-done")
    assert b"NAME=Forged" in said and b"at=h0 in=/home/researcher home=/home/researcher" in said and b"No such file" in said, said
    assert (home / "from-inside").read_text() == "kept\n" and (home / "from-inside").stat().st_uid == 1000
    me.run("session", "stop", s["id"])
    # What serves pages is the image's, too, and is reached at its socket.
    s = me.json("session", "start", "jupyter", "--machines", "metal", "--image", "/home/researcher/own.sqsh")
    page = lambda: fetch(address(pool), s["path"], {"Authorization": f"Bearer {me.key}"})
    wait_for("its page is the image's", lambda: page() == (200, b"NAME=Forged\nh0\n"), 60)
    me.run("session", "stop", s["id"])


def sessions_there(pool, m):
    """Starts the machine with what a session needs there. The owner's home."""
    home = m.dir / "upper/home/researcher"
    home.mkdir(parents=True)
    os.chown(home, 1000, 1000)
    users = pathlib.Path(IMAGES, "tandem+slurm/24.11/rootfs/etc/passwd").read_text()
    (m.dir / "upper/etc").mkdir(exist_ok=True)
    (m.dir / "upper/etc/passwd").write_text(users + "researcher:x:1000:1000::/home/researcher:/bin/bash\n")  # sshd asks
    m.start(*m.tandem("host", "--nodeset", "slurm/metal", "--name", m.name, "--standin", "/usr/bin/tandem-standin", "--every", "0.3s", "--cpus", "2", "--memory", "8000"))
    wait_for("the machine has its own file system", m.host, 60)
    subprocess.run(m.inside("sh", "-c", IMAGES_AT), check=True)
    return home


def agent(m):
    m.also(*m.tandem("agent", "--node", m.name, "--devices", "2", "--kubeconfig", "/etc/kubernetes/kubelet.conf", "--kubelet", "none"), log="agent.log")
    wait_for("the gate is open", lambda: "is open: 2 devices" in m.log("agent.log"), 60)


@contextlib.contextmanager
def pull_secret(pool):
    """What spec.containers.images.pullSecret names where it says nothing."""
    pool.apply({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": {"name": "main-image-pull", "namespace": "slurm"},
                "stringData": {".dockerconfigjson": '{"auths": {"registry.example.org": {"auth": "c2VjcmV0"}}}'}})
    try:
        yield
    finally:
        pool.kubectl("-n", "slurm", "delete", "secret", "main-image-pull")


@pytest.mark.nightly
@pytest.mark.feature("D4.1", "D5.3")
def test_sessions_over_two_machines(pool, metal, me):
    """One job over two machines: people are on the first one, srun and tandem-run start programs on both, what it uses is asked of both, and its end frees both; in an image, too."""
    m = metal
    sessions_there(pool, m)
    pool.cmd("node", "admit", "h0", "--nodeset", "slurm/metal")
    agent(m)
    wait_for("the first machine has registered", lambda: (line(pool) or {}).get("state") == "idle", 120)
    tty = lambda s: WebSocket(address(pool), f"{s['path']}tty", {"Authorization": f"Bearer {me.key}"})
    with Machine(pool, "h1", last=3, devices=GPUS) as n:
        n.join()
        sessions_there(pool, n)
        pool.cmd("node", "admit", "h1", "--nodeset", "slurm/metal")
        agent(n)
        wait_for("the second machine has registered", lambda: (line(pool, "h1") or {}).get("state") == "idle", 120)
        s = me.json("session", "start", "shell", "--machines", "metal", "--nodes", "2", "--low-use", "5")
        assert s["state"] == "ready" and s["nodes"]["ready"] == 2 and [x["node"] for x in s["nodes"]["each"]] == ["h0", "h1"], s
        assert pool.job(s["job"])["NumNodes"] == "2" and "2/2 nodes ready on h0, h1" in " ".join(me.run("session", "list").stdout.split())
        inside = lambda *words, **how: me.run("ssh", s["id"], "--", *words, **how)
        assert sorted(inside("tandem-run", "-l", "sh", "-c", "'echo $RANK of $WORLD_SIZE on $(hostname) by $MASTER_ADDR'").stdout.splitlines()) == ["0: 0 of 2 on h0 by h0", "1: 1 of 2 on h1 by h0"]
        assert sorted(inside("srun", "hostname").stdout.split()) == ["h0", "h1"] and inside("tandem-run --node 1 hostname").stdout == "h1\n"
        r = inside("tandem-run", "sh", "-c", "'test $RANK = 0 && exec sleep 1000; exit 7'", check=False)
        assert r.returncode and "task 1: Exited with exit code 7" in r.stderr, r  # the other one was ended for it
        wait_for("what it uses is asked of both", lambda: [x for x in pool.shell("squeue", "--steps", "-h", "-o", "%N", "-j", str(s["job"])).split() if x == "h[0-1]"], 60)
        me.run("session", "stop", s["id"])
        wait_for("both are free", lambda: {(line(pool, x) or {}).get("state") for x in ("h0", "h1")} == {"idle"}, 60)
        b = me.json("session", "start", "batch", "--no-wait", "--machines", "metal", "--nodes", "2", "--", "echo $RANK-$(hostname) >>ran")
        wait_for("it is done", lambda: me.api("GET", f"/sessions/{b['id']}")[1]["state"] == "done")
        assert [(x.dir / "upper/home/researcher/ran").read_text() for x in (m, n)] == ["0-h0\n", "1-h1\n"]
        me.run("session", "stop", b["id"])
        over_two_in_an_image(me, m, n, tty)
        pool.cmd("node", "dismiss", "h1", "--nodeset", "slurm/metal", "--wait")


def over_two_in_an_image(me, m, n, tty):
    """Each machine has a container of it; who has none is named; tandem-run in the one starts programs in the other."""
    image = ("--machines", "metal", "--nodes", "2", "--image", "/home/researcher/own.sqsh")
    state = lambda s: me.api("GET", f"/sessions/{s['id']}")[1]
    home = forge(m)
    bad = me.json("session", "start", "batch", "--no-wait", *image, "--", "true")
    wait_for("the machine without it is named", lambda: (x := state(bad))["state"] == "failed" and "machine h1 has no container of /home/researcher/own.sqsh: " in x["words"] and x, 120)
    assert "No such file" in state(bad)["words"], state(bad)
    with open(home / "own.sqsh", "rb") as f:  # from inside: the machine has looked for it there already
        subprocess.run(n.inside("sh", "-c", "cat >/home/researcher/own.sqsh"), stdin=f, check=True)
    s = me.json("session", "start", "shell", "--gpus", "1", *image)
    w = tty(s)
    look = "cat /etc/os-release; id -u; pwd; echo home=$HOME at=$(hostname) rank=$RANK of=$WORLD_SIZE; for d in 0 1; do (: </dev/nvidia$d) 2>/dev/null && echo open; done; true"
    w.send(f"cd /tmp; ls /usr/sbin/slurmd; PATH=/usr/local/bin:$PATH; tandem-run -l sh -c '{look}'; tandem-run --node 1 sh -c 'exit 7'; printf 'and%s=%s\\n' -done $?\n".encode())
    said = w.until(b"and-done=").decode().replace("\r", "")
    for rank in (0, 1):
        lines = [x.split(": ", 1)[1] for x in said.splitlines() if x.startswith(f"{rank}: ")]
        assert lines == ["NAME=Forged", "1000", "/tmp", f"home=/home/researcher at=h{rank} rank={rank} of=2", "open"], said
    assert "No such file" in said and "exit code 7" in said, said
    me.run("session", "stop", s["id"])
    b = me.json("session", "start", "batch", "--no-wait", *image, "--", "echo $RANK-$(hostname)-$(cat /etc/os-release) >>boxed")
    wait_for("it is done", lambda: state(b)["state"] == "done")
    assert [(x.dir / "upper/home/researcher/boxed").read_text() for x in (m, n)] == ["0-h0-NAME=Forged\n", "1-h1-NAME=Forged\n"]
    me.run("session", "stop", b["id"])


@pytest.mark.nightly
@pytest.mark.feature("D4.1", "D5.3")
def test_a_session_on_a_machine_without_a_kubelet(pool, metal, me, mallory):
    """A terminal there is a Slurm job of its owner's with his GPU; nothing listens on a network; it ends with its program, by `stop` and by its rules, and ssh leads into it."""
    m = metal
    home = sessions_there(pool, m)
    pool.cmd("node", "admit", "h0", "--nodeset", "slurm/metal")
    # As an older `tandem node admit` has left it: the machine says what is missing, and the same command gives it.
    with pull_secret(pool):
        old = [r for r in pool.get("role", "metal-key", "-n", "slurm")["rules"] if r["resources"] != ["slurmclusters"]]
        pool.kubectl("-n", "slurm", "patch", "role", "metal-key", "--type", "merge", "-p", json.dumps({"rules": old}))
        wait_for("it says what to do", lambda: "may not read SlurmCluster slurm/main" in m.log() and "`tandem node admit h0 --nodeset slurm/metal` once more" in m.log(), 60)
        pool.cmd("node", "admit", "h0", "--nodeset", "slurm/metal")
        seen = lambda: subprocess.run(m.inside("sh", "-c", "stat -L -c '%a %u %n' /etc/tandem/pull-secret /etc/tandem/pull-secret/.dockerconfigjson"), capture_output=True, text=True).stdout.split()
        wait_for("the pull secret is there, for root", lambda: seen() == ["700", "0", "/etc/tandem/pull-secret", "400", "0", "/etc/tandem/pull-secret/.dockerconfigjson"], 60)
        wait_for("its slurmd has registered", lambda: (line(pool) or {}).get("state") == "idle", 120)
        r = pool.as_user("researcher", "srun", "-w", "h0", "sh", "-c", "cat /etc/tandem/pull-secret/.dockerconfigjson /run/tandem-host/pull-secret/.dockerconfigjson; env", check=False)
        assert r.stderr.count("Permission denied") == 2 and "c2VjcmV0" not in r.stdout, (r.stdout, r.stderr)
    wait_for("it goes with its Secret", lambda: seen() == [], 60)
    agent(m)
    state = lambda s: me.api("GET", f"/sessions/{s['id']}")[1]
    tty = lambda s: WebSocket(address(pool), f"{s['path']}tty", {"Authorization": f"Bearer {me.key}"})

    s = me.json("session", "start", "shell", "--machines", "metal", "--gpus", "1", "--low-use", "1")
    assert (s["state"], s["kind"], s["machines"], s["node"]) == ("ready", "shell", "metal", "h0"), s
    job = pool.job(s["job"])
    assert job["UserId"].startswith("researcher(") and job["JobState"] == "RUNNING" and job["Requeue"] == "0"
    w = tty(s)
    assert w.status == 101
    w.send("132x50")
    w.send(b"stty size; echo uid=$(id -u) at=$(hostname) in=$PWD token=[$TANDEM_SESSION_TOKEN]; for d in 0 1; do head -c1 /dev/nvidia$d >/dev/null 2>&1 && echo open$d-end; done; KEPT=yes; printf 'and%s\\n' -kept\n")
    said = w.until(b"and-kept")
    assert b"50 132" in said and b"uid=1000 at=h0 in=/home/researcher token=[]" in said and said.count(b"-end\r") == 1, said
    w.close()
    again = tty(s)
    again.until(b"and-kept")
    # All 256 bytes pass, both ways.
    again.send(b"stty raw -echo; printf 'go%s' -on; head -c 256 | sha256sum; stty sane; echo still=$KEPT\n")
    again.until(b"go-on")
    again.send(bytes(range(256)))
    assert __import__("hashlib").sha256(bytes(range(256))).hexdigest().encode() in again.until(b"still=yes")
    ports = subprocess.run(m.inside("cat", "/proc/net/tcp", "/proc/net/tcp6"), capture_output=True, text=True, check=True).stdout
    listening = {int(f.split()[1].rsplit(":", 1)[1], 16) for f in ports.splitlines() if len(f.split()) > 3 and f.split()[3] == "0A"}
    assert 6818 in listening and not [p for p in listening if p < 30000 and p != 6818], listening
    d = subprocess.run(m.inside("sh", "-c", "stat -c '%a %u' /tmp/.tandem-*"), capture_output=True, text=True, check=True).stdout
    assert d.split() == ["700", "1000"]
    assert me.run("ssh", s["id"], "--", "hostname; echo in-$SLURM_JOB_ID; echo $TANDEM_SESSION").stdout.split() == ["h0", f"in-{s['job']}", s["id"]]
    gpus = wait_for("its use is asked for", lambda: (x := state(s)).get("useUnknown", "").startswith("the use of its GPUs") and x, 60)
    again.send(b"exit\n")
    wait_for("it is done", lambda: state(s)["state"] == "done")
    assert tty(s).status == 503
    assert subprocess.run(m.inside("sh", "-c", "ls -d /tmp/.tandem-*"), capture_output=True, text=True).stdout == ""

    serves_http(pool, m, me, mallory)
    # One that does nothing ends as a rule says, while all the rest goes on.
    idle = me.json("session", "start", "shell", "--machines", "metal", "--low-use", "1")
    assert idle["endsBecause"], idle
    in_an_image(pool, m, me, tty)

    # The same again at its address, as another job, which `stop` ends.
    me.run("session", "resume", s["id"])
    wait_for("it is ready", lambda: state(s)["state"] == "ready")
    other = state(s)["job"]
    assert other != s["job"]
    # One that the rules ended goes with its job, also where the gateway's word to Slurm was lost, and is started again.
    pool.kubectl("-n", "researcher", "patch", "configmap", f"session-{s['id']}", "--type", "merge", "-p", json.dumps({"data": {"ended": str(int(time.time())), "why": "it is old"}}))
    wait_for("its job ends", lambda: pool.job(other)["JobState"] == "CANCELLED")
    wait_for("it can be resumed", lambda: state(s)["state"] == "reclaimed")
    assert me.json("session", "resume", s["id"])["state"] == "ready"
    third = state(s)["job"]
    assert third not in (other, s["job"])
    other = third

    # Who writes a record that names another person's job ends nothing of his.
    theirs = pool.sbatch("-J", "session-forged", "-w", "h0")
    pool.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "session-forged", "namespace": "researcher", "labels": {"tandem.dev/session": "forged"}, "annotations": {"tandem.dev/session-owner": "root"}},
                "data": {"request": '{"kind": "shell", "machines": "metal"}', "machines": "metal", "job": str(theirs), "ended": "1"}})
    # Who makes a pod with the label of what stands for such a session has none: nothing has checked whose that is.
    pool.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "session-made", "namespace": "researcher", "labels": {"tandem.dev/session": "made", "tandem.dev/host": "metal"},
                "annotations": {"tandem.dev/session-owner": "researcher", "tandem.dev/session-kind": "shell"}},
                "spec": {"schedulingGates": [{"name": "tandem.dev/never"}], "containers": [{"name": "main", "image": "x"}]}})
    assert "made" not in [x["id"] for x in me.json("session", "list")["sessions"]] and me.api("GET", "/sessions/made")[0] == 404
    me.run("session", "stop", s["id"])
    wait_for("its job ends", lambda: pool.job(other)["JobState"] == "CANCELLED")
    assert state(s)["error"]["code"]

    assert pool.job(theirs)["JobState"] in ("PENDING", "RUNNING")
    pool.kubectl("-n", "researcher", "delete", "configmap/session-forged", "pod/session-made")
    pool.ask("scancel", theirs)

    # What is not known is never idle, and is said; of the other one all is known, and it was ended.
    assert "GPUs" in gpus["useUnknown"], gpus
    wait_for("the idle one has ended", lambda: state(idle)["state"] == "reclaimed", 150)
    assert "done nothing" in state(idle)["words"] and "useUnknown" not in state(idle), state(idle)

    # One that fails says so; what cannot be there is refused.
    bad = me.json("session", "start", "batch", "--no-wait", "--machines", "metal", "--", "echo it is too hot >&2; exit 3")
    wait_for("it has failed", lambda: state(bad)["state"] == "failed")
    assert "exit code 3" in state(bad)["words"] and "it is too hot" in (home / f".tandem-session-{bad['id']}.log").read_text()
    for body, word in (({"kind": "jupyter", "replicas": 2}, "replicas"), ({"kind": "shell", "image": "x y"}, "image"), ({"kind": "shell", "machines": "pool"}, "spec.hosts")):
        status, reply = me.api("POST", "/sessions", {"machines": "metal", **body})
        assert status == 422 and word in reply["error"]["message"], (body, reply)
