"""A pool on a real Kubernetes (t/kube/cluster.py) with the methods of harness.Pool, so that the
same tests run on both planes.

Tandem's roles run as processes of the test: operator and bridge beside the cluster, and an agent in
the namespaces of each node. So a sanitizer's build can be tested, too. t/test_deploy.py shows the
roles as pods with their own rights."""
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import pytest

from harness import IMAGES, KEEP, SANITIZE, Pool, wait_for

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "kube"))
import cluster  # noqa: E402
import image  # noqa: E402

TANDEM_IMAGE = "docker.io/tandem/tandem:test"
GPUS = 8


def assets():
    """The directory of the real binaries. Without them the test is skipped, with the reason."""
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    return r.stdout.strip().splitlines()[-1]


def cached_archive(name, root):
    """The archive of a directory of the image store, made on first use."""
    stamp = hashlib.sha256(f"{root}{os.stat(root).st_ctime_ns}".encode()).hexdigest()[:12]
    at = pathlib.Path(IMAGES) / f".archive-{stamp}.tar"
    if not at.exists():
        new = at.with_suffix(f".{os.getpid()}")  # two sessions may make it at once
        image.archive(new, name, root=root, command=["/bin/bash"])
        new.rename(at)
    return at


def tandem_archive(build, path):
    """Writes an image with Tandem's programs and the libraries that they need."""
    files = {"/usr/bin/tandem": f"{build}/src/cmd/tandem", "/usr/bin/tandem-standin": f"{build}/src/standin/tandem-standin",
             **{f"/usr/lib/tandem/{f}": f"{build}/src/spank/{f}" for f in ("tandem-container", "tandem-spank.so", "tandem-scratch.so", "tandem-filter.so", "tandem-login.so")}}
    for lib in re.findall(r"(?:=> )?(/\S+) \(0x", subprocess.run(["ldd", files["/usr/bin/tandem"]], stdout=subprocess.PIPE, text=True, check=True).stdout):
        files[lib] = lib
    image.archive(path, TANDEM_IMAGE, files=files, command=["/usr/bin/tandem"])


def lend(request, pool):
    """For a session's fixture: brings the pool up, and afterwards down, whatever happened. --keep
    leaves it up for a person."""
    keep = request.config.getoption("--keep")
    try:
        pool.up()
        yield pool
        reports = pool.crash_reports()
    finally:
        if keep:
            pool.keep()
        else:
            pool.down(purge=True)
    assert reports == []


class RealPool(Pool):
    plane = "real"
    node_role = "agent"
    # The directory that hostPath volumes of pods and jobs share on all nodes, and slurmctld's
    # state.
    shared_home, state_path = "/srv/home", "/var/lib/kubelet/slurm-main"
    devices = ("  devices:\n  - {resource: nvidia.com/gpu, source: DRA, driver: gpu.example.com, deviceClasses: [gpu.example.com],\n"
               "     indexAttribute: index, file: /dev/tandem-gpu}\n")

    def __init__(self, tandem, build, nodes=3, restart=False):
        """restart: a role that exits with 1 is started again, as its Deployment does. A bridge
        whose Lease could not be renewed in time exits so."""
        path = tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp")
        super().__init__(tandem, path)
        self.build, self.nodes_count = pathlib.Path(build), nodes
        self.cluster = cluster.Cluster(home=f"{path}/kube", assets=assets(), nodes=nodes)
        self.env = {**KEEP, **SANITIZE, "KUBECONFIG": self.cluster.kubeconfig, "PATH": f"{self.cluster.assets}:{KEEP['PATH']}"}
        self.procs, self.restart, self.ends = {}, restart, threading.Event()

    # ---- up and down ----
    def up(self, *argv, **kw):
        images = self.cluster.dir / "images"
        images.mkdir(parents=True)
        for name, stored, root in (("docker.io/library/debian:13", "debian:13", f"{IMAGES}/debian/13/rootfs"),
                                   ("docker.io/tandem/slurm:24.11", "tandem/slurm:24.11", f"{IMAGES}/tandem+slurm/24.11/rootfs")):
            # The first use on this machine: by the same recipes as `tandem up`.
            if not os.path.isdir(root):
                os.makedirs(IMAGES, exist_ok=True)
                self.run(self.tandem, "image", "build", stored, env={**KEEP, "TANDEM_IMAGES": IMAGES, "TANDEM_HOME": self.home}, timeout=900)
            os.symlink(cached_archive(name, root), images / (re.sub(r"\W", "-", name) + ".tar"))
        tandem_archive(self.build, images / "tandem.tar")
        pathlib.Path(f"{self.home}/log").mkdir(exist_ok=True)
        self.cluster.up()
        self.kubectl("apply", "-f", str(HERE.parent / "deploy/crds"), "-f", str(HERE.parent / "deploy/kustomize/base/15-priority.yaml"))
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=90s")
        for i in range(self.nodes_count):
            self.kubectl("label", "node", f"n{i}", "tandem.dev/fake-gpus=true", f"topology.tandem.dev/block=b{i // 4}", f"topology.tandem.dev/rack=r{i // 2}")
        for i in range(self.nodes_count):
            self.start(f"agent-n{i}")
        # Publish all devices before the operator starts: nodes whose devices come later are taken
        # in one by one, each by a new configuration. That is right, but not what these tests look
        # at.
        self.start_devices()
        self.start("operator")
        self.start("bridge")
        self.run("kubectl", "apply", "-f", "-", input=self.manifests())
        wait_for("the cluster is ready", lambda: self.kubectl("get", "slurmcluster", "main", "-n", "slurm", "-o", "jsonpath={.status.phase}") == "Running", 180)
        wait_for("all nodes are idle", lambda: self.idle_nodes() == self.nodes_count, 120)
        if self.restart:
            threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.ends.wait(0.5):
            for role, p in list(self.procs.items()):
                if p.poll() == 1 and self.procs.get(role) is p:
                    self.start(role)

    def start_devices(self):
        """Starts what publishes the nodes' devices in Kubernetes, and returns when all are
        published."""
        self.cluster.start_dra()
        wait_for("every node's devices are published", lambda: len(self.items("resourceslices")) == self.nodes_count, 60)
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [self.claim_template(n) for n in range(1, GPUS + 2)]}))

    def manifests(self):
        """deploy/embedded.yaml, changed for nodes with kubelets and devices by DRA."""
        text = (HERE.parent / "deploy/embedded.yaml").read_text()
        for old, new in (("access: socket", "access: network"), ("/var/lib/slurm-main", self.state_path), ("/shared/home", self.shared_home),
                         # Nodes have this directory each for itself, and all else of the machine together.
                         ("scratch: {tmp: private}", "scratch: {tmp: private, path: /var/lib/kubelet/tandem-scratch}"),
                         ("datasets: {parallel: 4}", "datasets: {parallel: 4, path: /var/lib/kubelet/tandem-datasets}")):
            assert old in text, old
            text = text.replace(old, new)
        text = text.replace("  scheduler:\n", self.devices + "  scheduler:\n", 1)
        return text.replace("metadata: {name: slurm}", 'metadata: {name: slurm, labels: {resource.kubernetes.io/admin-access: "true"}}')

    def argv(self, role):
        """The command of a role. Options are written as --flag=value."""
        c = self.cluster
        common = [f"--kubeconfig={c.kubeconfig}", f"--metrics={self.metrics_address(role)}"]
        if role.startswith("agent-"):
            node = role.partition("-")[2]
            return c.inside(node) + [self.tandem, "agent", *common, f"--node={node}", "--state=/var/lib/kubelet/tandem-agent", "--run=/run/tandem", f"--devices={GPUS}"]
        if role == "operator":
            return [self.tandem, "operator", *common, f"--image={TANDEM_IMAGE}", f"--identity=t-{os.getpid()}",
                    f"--streams={c.outside}:7414", f"--streams-address={c.outside}", f"--streams-pki={self.streams_pki()}"]
        return [self.tandem, "bridge", *common, "--namespace=slurm", "--cluster=main", f"--knock={c.outside}:7777", f"--why=unix:{self.home}/bridge.sock"]

    def streams_pki(self):
        """A certificate for the operator's streams: the API server asks by whom its kubelets are known."""
        at, pki = pathlib.Path(f"{self.home}/streams"), self.cluster.dir / "pki"
        if not at.exists():
            cluster.Pki(pki).cert("streams", "tandem-operator", san=(f"IP:{self.cluster.outside}",))
            at.mkdir()
            for end in ("crt", "key"):
                shutil.copy(pki / f"streams.{end}", at / f"tls.{end}")
        return at

    def metrics_address(self, role):
        """The address of /metrics, /livez and /readyz of a role. "agent" is that of the first
        node."""
        if role.startswith("agent"):
            return f"{self.cluster.ip(int(role.partition('-n')[2] or 0))}:7480"
        return f"{self.cluster.outside}:{7480 + ['bridge', 'operator'].index(role)}"

    def start(self, role):
        """Starts a role; its log is <home>/log/<role>.log."""
        with open(f"{self.home}/log/{role}.log", "ab") as log:
            self.procs[role] = subprocess.Popen([str(a) for a in self.argv(role)], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def role_pid(self, role):
        """The pid of a role; 0: it does not run. "agent" is that of the first node."""
        p = self.procs.get("agent-n0" if role == "agent" else role)
        if not p or p.poll() is not None:
            return 0
        inside = subprocess.run(["ps", "-o", "pid=", "--ppid", str(p.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        return int(inside[0]) if inside and role.startswith("agent") else p.pid

    def kill_role(self, role):
        """Ends a role by kill -9 and starts another one, as a Deployment does."""
        p = self.procs[role]
        self.signal(p, signal.SIGKILL)
        p.wait(60)
        self.start(role)

    @staticmethod
    def signal(p, what):
        """Signals the role itself: an agent is the child of the nsenter that brought it into its
        node."""
        inside = subprocess.run(["ps", "-o", "pid=", "--ppid", str(p.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        for pid in inside or [p.pid]:
            try:
                os.kill(int(pid), what)
            except ProcessLookupError:
                pass

    @property
    def roles(self):
        return ("operator", "bridge", *(f"agent-{n}" for n in self.nodes))

    def inits(self, node):
        """The first processes of the node's containers: {command line: pid}."""
        got = {}
        for f in glob.glob(f"/sys/fs/cgroup/devices/tandem-kube-{self.id}/{node}/kubepods/**/cgroup.procs", recursive=True):
            try:
                pids = open(f).read().split()
            except OSError:  # the container is just ending
                continue
            for pid in pids:
                try:
                    status, cmd = open(f"/proc/{pid}/status").read(), open(f"/proc/{pid}/cmdline").read().replace("\0", " ")
                except OSError:
                    continue
                if re.search(r"^NSpid:.*\t1$", status, re.M):
                    got[cmd] = int(pid)
        return got

    def daemons(self, name):
        return {node: pid for node in self.nodes for cmd, pid in self.inits(node).items() if f"{name} -" in cmd}

    def gate_socket(self, node):
        inner = self.cluster.inside(node)[2]
        return f"/proc/{inner}/root/run/tandem/gate.sock"

    def down(self, purge=False, timeout=180):
        self.ends.set()
        for p in self.procs.values():
            self.signal(p, signal.SIGTERM)
        for p in self.procs.values():
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait(30)
        self.procs = {}
        self.cluster.down(keep_images=False)
        if purge:
            shutil.rmtree(self.home, ignore_errors=True)

    def keep(self):
        """Keeps the cluster up when the test's process ends."""
        self.cluster.owner = None
        self.cluster.save()

    def traces(self):
        """What the cluster left on this machine."""
        out = subprocess.run("ip netns; ip -o link; ip route; cat /proc/mounts; ls -d /sys/fs/cgroup/tandem-kube-* /sys/fs/cgroup/*/tandem-kube-* 2>/dev/null; ps -e -o args=",
                             shell=True, stdout=subprocess.PIPE, text=True).stdout
        return [line for line in out.splitlines() if f"tk{self.cluster.id}" in line or f"tandem-kube-{self.cluster.id}" in line or self.home in line]

    @property
    def shared_dir(self):
        return str(self.cluster.dir / "shared/home")

    # ---- commands ----
    def administrator(self, *argv):
        return argv

    def login(self):
        pods = [p for p in self.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=login")
                if not p["metadata"].get("deletionTimestamp") and any(c.get("ready") for c in p["status"].get("containerStatuses", []))]
        return pods[0]["metadata"]["name"] if pods else "no-login-pod"

    def cmd(self, *argv, **kw):
        if argv[0] == "shell":
            return self.run("kubectl", "exec", "-i", "-n", "slurm", self.login(), "--", *argv[argv.index("--") + 1:], **kw)
        if argv[0] == "why":
            return self.why(argv[1])
        return self.run(self.tandem, *argv, **kw)

    def why(self, what):
        """The bridge's explanation, from its socket; exit code 1 while no bridge answers."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(30)
                s.connect(f"{self.home}/bridge.sock")
                s.sendall(f"GET /why?{'job=' if str(what)[0].isdigit() else 'pod=default%2F'}{urllib.parse.quote(str(what))} HTTP/1.1\r\nHost: bridge\r\nConnection: close\r\n\r\n".encode())
                head, _, body = s.makefile("rb").read().partition(b"\r\n\r\n")
        except OSError as e:  # it has just been started
            return subprocess.CompletedProcess(["why", what], 1, "", str(e))
        return subprocess.CompletedProcess(["why", what], 0 if b" 200 " in head else 1, json.loads(body)["text"] if body else "", "")

    @property
    def instance(self):
        return {"id": self.cluster.id, "nodes": self.nodes_count, "gpus": GPUS, "cpus": self.cluster.cpus, "deviceMajor": self.cluster.major}

    # ---- pods ----
    @staticmethod
    def claim_template(n):
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"gpus-{n}", "namespace": "default"},
                "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": n}}]}}}}

    def pod(self, name, gpus=0, **kw):
        p = super().pod(name, 0, **kw)
        for c in p["spec"]["containers"]:
            c["imagePullPolicy"] = "IfNotPresent"
        if gpus:
            p["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{gpus}"}]
            p["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
        return p
