#!/usr/bin/env python3
"""A real Kubernetes of three nodes on one machine, for tests and for people: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, CoreDNS
in a hub network namespace, and one process tree a node (containerd, kubelet) in namespaces of its own. Nothing listens on the machine itself.

usage: cluster.py up [--nodes N] [--gpus] [--image FILE]… | down [--purge] | status | enter NODE [COMMAND…] | load FILE…
state: $TANDEM_KUBE_HOME (default /var/lib/tandem-kube)
$TANDEM_KUBE_RUNTIME=containerd2: nodes run containerd 2 (after tools/kube-assets containerd2), as user namespaces of pods need; default: Debian's 1.7

--gpus: a DRA driver on every node publishes 8 fake GPUs (gpu.example.com), and the namespace slurm gets the label with which slurmd may see them.
--image, load: archives of images (deploy/images/build) onto every node, as a registry would. enter: a shell, or COMMAND, in a node's namespaces.

The machine's own namespace has one link into the hub, so that it reaches the API (https://10.B.0.1), nodes (10.B.0.1i) and pods (10.B+1.i.0/24).
The Service address of the API is routed to the hub, so that pods reach it without kube-proxy; other ClusterIPs lead nowhere."""
import argparse
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import image  # noqa: E402
import kubeget  # noqa: E402
from harness import Failed, ended, kubectl, wait_for  # noqa: E402

DAYS = "3650"
ADMISSION = "admissionregistration.k8s.io"
# From which minor on groups of Kubernetes itself (scheduling.k8s.io) need which gates, and are served at which versions.
GROUPS = {35: (["GenericWorkload", "GangScheduling"], ["v1alpha1"]), 36: (["GenericWorkload", "GangScheduling"], ["v1alpha2"]),
          37: (["GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "WorkloadWithJob", "DRAWorkloadResourceClaims"],
               ["v1beta1", "v1alpha3"])}


def sh(*argv, check=True, timeout=120, **kw):
    r = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, **kw)
    if check and r.returncode:
        raise Failed(r.returncode, [str(a) for a in argv], r.stdout, r.stderr)
    return r.stdout


class Pki:
    """One CA, EC P-256 keys, made with openssl."""

    def __init__(self, path):
        self.dir = pathlib.Path(path)
        self.dir.mkdir(parents=True, exist_ok=True)

    def ca(self):
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS, "-subj", "/CN=tandem-kube",
           "-keyout", self.dir / "ca.key", "-out", self.dir / "ca.crt")
        sh("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.dir / "sa.key")
        sh("openssl", "ec", "-in", self.dir / "sa.key", "-pubout", "-out", self.dir / "sa.pub")

    def cert(self, name, cn, group=None, san=()):
        ext = "extendedKeyUsage=clientAuth,serverAuth\n" + (f"subjectAltName={','.join(san)}\n" if san else "")
        (self.dir / f"{name}.ext").write_text(ext)
        sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", (f"/O={group}" if group else "") + f"/CN={cn}",
           "-keyout", self.dir / f"{name}.key", "-out", self.dir / f"{name}.csr")
        sh("openssl", "x509", "-req", "-in", self.dir / f"{name}.csr", "-CA", self.dir / "ca.crt", "-CAkey", self.dir / "ca.key", "-CAcreateserial",
           "-days", DAYS, "-extfile", self.dir / f"{name}.ext", "-out", self.dir / f"{name}.crt")

    def kubeconfig(self, name, server, path):
        conf = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(self.dir / "ca.crt")}}],
                "users": [{"name": "u", "user": {"client-certificate": str(self.dir / f"{name}.crt"), "client-key": str(self.dir / f"{name}.key")}}]}
        pathlib.Path(path).write_text(json.dumps(conf))


HUB = """set -u
cd {dir}
{env}
etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \\
  --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync --log-level warn >> log/etcd.log 2>&1 &
kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --secure-port 443 --advertise-address {api} \\
  --tls-cert-file pki/apiserver.crt --tls-private-key-file pki/apiserver.key --client-ca-file pki/ca.crt \\
  --kubelet-preferred-address-types InternalIP --kubelet-certificate-authority pki/ca.crt --kubelet-client-certificate pki/kubelet-client.crt \\
  --kubelet-client-key pki/kubelet-client.key --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged --enable-bootstrap-token-auth --authentication-config authentication.yaml \\
  --service-cluster-ip-range {services} --service-account-issuer https://kubernetes.default.svc.cluster.local \\
  --service-account-key-file pki/sa.pub --service-account-signing-key-file pki/sa.key \\
  --audit-policy-file audit.yaml --audit-log-path log/audit.log \\
  --feature-gates HPAScaleToZero=true{mutating}{groups[kube-apiserver]} --runtime-config {serve} >> log/apiserver.log 2>&1 &
# As a kubelet does with static pods: kube-controller-manager, for one, gives up when the API server is not healthy within 10 s.
keep() {{
  log=log/$1.log
  while :; do "$@" >> $log 2>&1; sleep 0.5; done
}}
if {controllers}; then
keep kube-controller-manager --kubeconfig conf/controller-manager.conf --service-account-private-key-file pki/sa.key --root-ca-file pki/ca.crt --cluster-signing-cert-file pki/ca.crt --cluster-signing-key-file pki/ca.key \\
  --use-service-account-credentials --leader-elect=false --bind-address 127.0.0.1 --node-monitor-period=1s --node-monitor-grace-period={grace}s \\
  --feature-gates HPAScaleToZero=true{groups[kube-controller-manager]} --horizontal-pod-autoscaler-sync-period=1s &
keep kube-scheduler --kubeconfig conf/scheduler.conf --leader-elect=false --bind-address 127.0.0.1 --feature-gates HPAScaleToZero=true{groups[kube-scheduler]} &
keep coredns -conf Corefile &
fi
echo ready > hub.ready
while :; do wait -n; [ $? -ne 127 ] || exec sleep infinity; done
"""

COREDNS = """.:53 {{
  bind {api}
  errors
  ready {api}:8181
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {dir}/conf/admin.conf c
    ttl 0
  }}
}}
"""

# pid 1 of a node: its own /proc, /run, cgroups rooted at its own; then containerd and kubelet.
NODE = """set -eu
hostname {name}
mount -t proc proc /proc
mount --make-rshared /
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
  ctl=$(ls /sys/fs/cgroup); umount -R /sys/fs/cgroup; mount -t tmpfs cg /sys/fs/cgroup
  for c in $ctl; do mkdir /sys/fs/cgroup/$c; case $c in unified) mount -t cgroup2 cgroup2 /sys/fs/cgroup/$c ;;
    systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/$c ;; *) mount -t cgroup -o $c cgroup /sys/fs/cgroup/$c ;; esac; done
fi
mkdir -p /srv /var/lib/cni /var/log/containers /var/lib/containerd /var/lib/kubelet /var/log/pods
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs cni /var/lib/cni
mount -t tmpfs logs /var/log/containers
mount --bind {dir}/{name}/ctr /var/lib/containerd
mount --bind {dir}/{name}/kubelet /var/lib/kubelet
mount --bind {dir}/{name}/pods /var/log/pods
for d in tandem-agent slurm-main slurm-other; do # what Tandem and its examples keep on a node: not on the machine, and not shared by nodes
  mkdir -p /var/lib/$d {dir}/{name}/var/$d; mount --bind {dir}/{name}/var/$d /var/lib/$d
done
mount --bind {dir}/shared /srv # the stand-in for a file system that all nodes share
mount --make-rshared /
# A kubelet counts the directories of CPUs and reads their numbers: {cpus} of them, so that tests have a pool to share, with numbers of CPUs that exist.
zeros=
for c in $(seq 0 $(({cpus} - 1))); do
  [ $((c % 2)) = 1 ] || zeros=0$zeros
  d=/run/cpu/cpu$zeros$((c % 2 * $(nproc --all) / 2))
  mkdir -p $d/topology; echo $c > $d/topology/core_id; echo 0 > $d/topology/physical_package_id
done
mkdir /run/sysfs; mount -t sysfs sysfs /run/sysfs # whole: below /sys something is mounted, and a kernel then lets no user namespace mount one
cat /sys/devices/system/cpu/online > /run/cpu/online
mkdir /run/no-numa
mount --bind /run/no-numa /sys/devices/system/node
mount --bind /run/cpu /sys/devices/system/cpu
mkdir -p /run/tandem-fake
for g in 0 1 2 3 4 5 6 7; do mknod -m 666 /run/tandem-fake/gpu$g c {major} $(({index} * 64 + g)); done
cd {dir}/{name}
{env}
containerd --config containerd.toml >> ../log/containerd-{name}.log 2>&1 &
until ctr -n k8s.io version > /dev/null 2>&1; do sleep 0.1; done
for i in {dir}/images/*.tar; do
  [ -e "$i" ] || continue
  stamp=ctr/.$(basename $i).$(stat -c %Y.%s $i)
  [ -e $stamp ] || {{ ctr -n k8s.io images import $i >> ../log/import-{name}.log 2>&1 && touch $stamp; }}
done
until [ -e ../api.ready ]; do sleep 0.05; done
kubelet --config kubelet.yaml {identity} --hostname-override {called} --node-ip {ip} --root-dir /var/lib/kubelet \\
  --node-labels kubernetes.io/hostname={called} >> ../log/kubelet-{name}.log 2>&1 &
while :; do wait -n; [ $? -ne 127 ] || exec sleep infinity; done
"""

CONTAINERD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "tandem.dev/pause:1"
  enable_cdi = true
  cdi_spec_dirs = ["/run/cdi"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{assets}/cni"
    conf_dir = "{dir}/{name}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


class Cluster:
    runtime = ""
    groups = False  # of Kubernetes itself: served, from 1.35 on
    mutates = True  # MutatingAdmissionPolicies are served

    def __init__(self, home=None, assets=None, nodes=3, grace=8, cpus=16, controllers=True, owner=os.getpid(), late=0, disk=False):
        """controllers=False: the API server alone, nobody acts on what is in it. owner: the process without which the cluster is to go (sweep); None:
        it stays until somebody takes it down. late: so many nodes, the last ones, have a network and are not started. disk: kubelets count what containers hold on it, and
        evict those that hold more than their limit."""
        self.dir = pathlib.Path(home or os.environ.get("TANDEM_KUBE_HOME", "/var/lib/tandem-kube"))
        self.assets = pathlib.Path(assets) if assets else None
        self.late, self.disk = late, disk
        self.n, self.grace, self.cpus, self.controllers = nodes, grace, cpus, controllers
        self.file = self.dir / "cluster.json"
        if self.file.exists():
            self.__dict__.update({k: v for k, v in json.loads(self.file.read_text()).items() if k in ("b", "id", "n", "pids", "major", "owner", "runtime")})
            if self.assets is None:
                self.assets = pathlib.Path(json.loads(self.file.read_text())["assets"])
        else:
            self.id, self.b, self.pids, self.major = None, None, {}, 0
            self.runtime = os.environ.get("TANDEM_KUBE_RUNTIME", "")  # a directory in self.assets, before it in PATH
            self.owner = owner and [owner, born(owner)]

    # ---- names ----
    @property
    def kubeconfig(self):
        return str(self.dir / "conf/admin.conf")

    @property
    def api(self):
        return f"10.{self.b}.0.1"

    def name(self, i):
        return f"n{i}"

    def ip(self, i):
        return f"10.{self.b}.0.{10 + i}"

    def ns(self, what):
        return f"tk{self.id}-{what}"

    def save(self):
        tmp = self.file.with_suffix(".tmp")
        tmp.write_text(json.dumps({"id": self.id, "b": self.b, "n": self.n, "pids": self.pids, "assets": str(self.assets), "major": self.major, "owner": self.owner,
                                   "runtime": self.runtime}))
        tmp.rename(self.file)

    @property
    def minor(self):
        """34: its API server is a Kubernetes 1.34."""
        return self.minor_of("kube-apiserver")

    def minor_of(self, program):
        return int(re.search(r"v1\.(\d+)", sh(self.assets / program, "--version"))[1])

    def trust_issuers(self, *jwt):
        """The API server takes the tokens of these issuers (docs/people.md), a moment later where it runs."""
        (self.dir / "authentication.new").write_text(json.dumps({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": jwt}))
        (self.dir / "authentication.new").rename(self.dir / "authentication.yaml")

    def from_minor(self, minor, what):
        """Skips the test on an older Kubernetes, which does not serve that by default."""
        if self.minor < minor:
            import pytest  # tools/kube-up needs none
            pytest.skip(f"Kubernetes 1.{self.minor} does not serve {what}: it does from 1.{minor} on")

    @property
    def mutating(self):
        """The version at which it serves MutatingAdmissionPolicies: before 1.34 they are alpha. None: it does not."""
        return None if not self.mutates else "v1beta1" if self.minor >= 34 else "v1alpha1"

    def served(self, file):
        """The text of a manifest, with the MutatingAdmissionPolicies at the version that is served."""
        return pathlib.Path(file).read_text().replace(f"{ADMISSION}/v1beta1", f"{ADMISSION}/{self.mutating}")

    # ---- up ----
    def up(self, say=lambda text: None):
        if self.file.exists():
            raise RuntimeError(f"{self.dir} has a cluster already: take it down first")
        if self.runtime and not (self.assets / self.runtime / "containerd").exists():
            raise RuntimeError(f"TANDEM_KUBE_RUNTIME={self.runtime} is not built: run tools/kube-assets {self.runtime}")
        sweep()
        for d in ("pki", "conf", "log", "images", "etcd", "shared"):
            (self.dir / d).mkdir(parents=True, exist_ok=True)
        (self.dir / "etcd").chmod(0o700)
        majors = set(re.findall(r"^ *(\d+) ", pathlib.Path("/proc/devices").read_text().split("Block")[0], re.M))
        self.major = next(m for m in range(254, 200, -1) if str(m) not in majors)
        with open("/run/lock/tandem-kube", "w") as lock:  # two that start at once would choose the same addresses
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.id = next(i for i in iter(lambda: os.urandom(2).hex(), None) if not os.path.exists(f"/run/netns/tk{i}-hub"))
            used = set(re.findall(r"10\.(\d+)\.", sh("ip", "-4", "addr") + sh("ip", "-4", "route")))
            self.b = next(b for b in range(100, 250, 3) if not used & {str(b), str(b + 1), str(b + 2)})
            self.save()
            self._network()
        self._pki()
        if not (self.dir / "images/pause.tar").exists():
            image.pause(self.dir / "images/pause.tar")
        say("network and keys")
        self._hub()
        for i in range(self.n - self.late):
            self.start_node(i)
        wait_for("the API answers", lambda: self._ready(), 180)
        (self.dir / "api.ready").touch()
        say("API ready")
        wait_for("nodes are Ready", lambda: len(self.ready_nodes()) == self.n - self.late, 300)
        say(f"{self.n - self.late} nodes Ready")

    def _ready(self):
        try:
            return kubeget.server(self.kubeconfig).call("GET", "/readyz", seconds=30) == (200, "ok")
        except kubeget.Refused:
            return False

    def kubectl(self, *argv, **kw):
        return kubectl(self.kubeconfig, lambda *a, **k: sh(self.assets / "kubectl", "--kubeconfig", self.kubeconfig, *a, **k), argv, kw)

    def ready_nodes(self):
        out = self.kubectl("get", "nodes", "-o", "json", check=False)
        nodes = json.loads(out)["items"] if out else []
        return [n["metadata"]["name"] for n in nodes if any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", []))]

    def _pki(self):
        p = Pki(self.dir / "pki")
        p.ca()
        p.cert("apiserver", "kube-apiserver", san=["DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
                                                   "DNS:kubernetes.default.svc.cluster.local", f"IP:{self.api}", f"IP:10.{self.b + 2}.0.1"])
        p.cert("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        users = {"admin": ("admin", "system:masters"), "controller-manager": ("system:kube-controller-manager", None),
                 "scheduler": ("system:kube-scheduler", None)}
        for name, (cn, group) in users.items():
            p.cert(name, cn, group)
            p.kubeconfig(name, f"https://{self.api}", self.dir / f"conf/{name}.conf")
        for i in range(self.n):
            p.cert(self.name(i), f"system:node:{self.name(i)}", "system:nodes", [f"DNS:{self.name(i)}", f"IP:{self.ip(i)}"])
            p.kubeconfig(self.name(i), f"https://{self.api}", self.dir / f"conf/{self.name(i)}.conf")

    def _network(self):
        hub = self.ns("hub")
        sh("ip", "netns", "add", hub)
        self._in(hub, "ip link set lo up; ip link add br0 type bridge; ip link set br0 up"
                      f"; ip addr add {self.api}/16 dev br0; ip addr add 10.{self.b + 2}.0.1/32 dev lo; sysctl -qw net.ipv4.ip_forward=1")
        sh("ip", "link", "add", f"tk{self.id}", "type", "veth", "peer", "name", "root", "netns", hub)
        self._in(hub, "ip link set root master br0 up")
        sh("ip", "addr", "add", f"10.{self.b}.255.254/16", "dev", f"tk{self.id}")
        sh("ip", "link", "set", f"tk{self.id}", "up")
        for i in range(self.n):
            ns = self.ns(self.name(i))
            sh("ip", "netns", "add", ns)
            sh("ip", "link", "add", "eth0", "netns", ns, "type", "veth", "peer", "name", self.name(i), "netns", hub)
            self._in(hub, f"ip link set {self.name(i)} master br0 up")
            self._in(ns, f"ip link set lo up; ip addr add {self.ip(i)}/16 dev eth0; ip link set eth0 up; ip route add default via {self.api}"
                         "; sysctl -qw net.ipv4.ip_forward=1")
        for i in range(self.n):
            route = f"10.{self.b + 1}.{i}.0/24 via {self.ip(i)}"
            self._in(hub, f"ip route add {route}")
            sh("ip", "route", "add", *route.split())
            for k in range(self.n):
                if k != i:
                    self._in(self.ns(self.name(k)), f"ip route add {route}")

    def _in(self, ns, script):
        # not `ip netns exec`: that takes /sys/fs/cgroup away
        return sh("nsenter", f"--net=/run/netns/{ns}", "sh", "-ec", script)

    @property
    def programs(self):
        """The part of PATH with what is the cluster's own."""
        return f"{self.assets}/{self.runtime}:{self.assets}" if self.runtime else str(self.assets)

    def _env(self):
        return f"export PATH={self.programs}:/usr/sbin:/usr/bin:/sbin:/bin HOME={self.dir} GOMAXPROCS=2"

    def _hub(self):
        (self.dir / "Corefile").write_text(COREDNS.format(api=self.api, dir=self.dir))
        self.trust_issuers()
        (self.dir / "audit.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
        serve = [] if self.mutating is None else [f"{ADMISSION}/{self.mutating}=true"]
        groups = {}
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):  # each may be of another release
            gates, versions = next((v for k, v in sorted(GROUPS.items(), reverse=True) if self.groups and k <= self.minor_of(name)), ([], []))
            groups[name] = "".join(f",{g}=true" for g in gates)
            serve += [f"scheduling.k8s.io/{v}=true" for v in versions if name == "kube-apiserver"]
        text = HUB.format(mutating=",MutatingAdmissionPolicy=true" if self.mutating else "", groups=groups, serve=",".join(serve) or "api/ga=true", dir=self.dir, env=self._env(), api=self.api, services=f"10.{self.b + 2}.0.0/16", grace=self.grace,
                          controllers=str(self.controllers).lower())
        (self.dir / "hub.sh").write_text(text)
        self._spawn("hub", ["nsenter", f"--net=/run/netns/{self.ns('hub')}", "unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child", "bash", self.dir / "hub.sh"])

    def _spawn(self, name, argv):
        with open(self.dir / f"log/{name}.log", "ab") as log:
            p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.pids[name] = p.pid
        self.save()

    def cgroups(self, *below):
        root = pathlib.Path("/sys/fs/cgroup")
        tops = [root] if (root / "cgroup.controllers").exists() else [d for d in root.iterdir() if d.is_dir() and not d.is_symlink()]
        return [t.joinpath(f"tandem-kube-{self.id}", *below) for t in tops]

    def start_node(self, i, identity=None, called=None):
        """identity: the flags by which its kubelet says who it is; by default it has a kubeconfig. called: the name of its Node, which somebody may have
        made already; the machine keeps its own."""
        name, d = self.name(i), self.dir / self.name(i)
        if called:
            pki, conf = Pki(self.dir / "pki"), self.dir / f"conf/{called}.conf"
            pki.cert(called, f"system:node:{called}", "system:nodes")
            pki.kubeconfig(called, f"https://{self.api}", conf)
            identity = f"--kubeconfig {conf}"
        for sub in ("ctr", "kubelet", "pods", "cni"):
            (d / sub).mkdir(parents=True, exist_ok=True)
        for cg in self.cgroups(name):
            cg.mkdir(parents=True, exist_ok=True)
            for f in ("cpuset.cpus", "cpuset.mems"):
                for at in (cg.parent, cg):
                    if (at / f).exists() and not (at / f).read_text().strip() and (at.parent / f).exists():
                        (at / f).write_text((at.parent / f).read_text())
        (d / "containerd.toml").write_text(CONTAINERD.format(assets=self.assets, dir=self.dir, name=name))
        (d / "cni/10-bridge.conflist").write_text(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.{self.b + 1}.{i}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]}))
        (d / "kubelet.yaml").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{self.dir}/pki/ca.crt"}},
            "authorization": {"mode": "Webhook"}, "tlsCertFile": f"{self.dir}/pki/{name}.crt", "tlsPrivateKeyFile": f"{self.dir}/pki/{name}.key",
            "cgroupDriver": "cgroupfs", "failSwapOn": False, "failCgroupV1": False, "localStorageCapacityIsolation": self.disk, "resolvConf": "",
            "clusterDNS": [self.api], "clusterDomain": "cluster.local", "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "nodeStatusUpdateFrequency": "1s", "nodeLeaseDurationSeconds": self.grace, "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99, "evictionHard": {"memory.available": "50Mi"}, "maxPods": 110}))
        (d / "node.sh").write_text(NODE.format(dir=self.dir, name=name, index=i, ip=self.ip(i), env=self._env(), major=self.major, cpus=self.cpus, called=called or name,
                                               identity=identity or f"--kubeconfig ../conf/{name}.conf"))
        join = "for c in " + " ".join(f"{c}" for c in self.cgroups(name)) + "; do echo $$ > $c/cgroup.procs; done"
        self._spawn(name, ["nsenter", f"--net=/run/netns/{self.ns(name)}", "bash", "-c",
                           f"{join}; exec unshare -m -p -f -u -i -C --kill-child --propagation private bash {d}/node.sh"])

    def start_dra(self):
        """The driver on every node, and the class of its devices. On every other node the names of devices say nothing of their indexes."""
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}))
        for i in range(self.n):
            self.start_driver(i, scramble=i % 2 == 1)

    def start_driver(self, i, binary=None, devices=8, scramble=False):
        """A DRA driver (t/kube/assets/dra-driver) on node i: its fake GPUs as devices of gpu.example.com. It dies with the node."""
        name = self.name(i)
        self._spawn(f"dra-{name}", self.inside(name) + [binary or self.assets / "dra-driver", "--node", name, "--kubeconfig", self.dir / f"conf/{name}.conf",
                                                        f"--devices={devices}", f"--scramble={str(scramble).lower()}"])

    def load(self, archive):
        """Imports an image's archive on every node."""
        for i in range(self.n):
            sh(*self.inside(self.name(i)), "ctr", "-n", "k8s.io", "images", "import", pathlib.Path(archive).resolve(), timeout=600)

    def gpus(self):
        """Fake GPUs for a person: the driver on every node, and slurmd's namespace with the label without which it could not see them all."""
        self.start_dra()
        self.kubectl("apply", "-f", "-", input=json.dumps({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slurm", "labels": {
                "resource.kubernetes.io/admin-access": "true", "pod-security.kubernetes.io/enforce": "privileged"}}}))
        wait_for("every node's devices are published", lambda: len(json.loads(self.kubectl("get", "resourceslices", "-o", "json"))["items"]) == self.n, 60)

    def start_netpol(self):
        """NetworkPolicies are enforced from now on (netpol.py; needs the asset nft)."""
        self._spawn("netpol", [sys.executable, HERE / "netpol.py", self.dir])

    def start_plugin(self, i, resource="example.com/gpu", devices=8):
        """A device plugin (t/kube/assets/device-plugin) on node i: its fake GPUs as an extended resource. It dies with the node. Gives the file
        that says which devices are sick, by their indexes."""
        name = self.name(i)
        sick = self.dir / f"{name}/sick"
        self._spawn(f"plugin-{name}", self.inside(name) + [self.assets / "device-plugin", f"--resource={resource}", f"--devices={devices}", f"--sick={sick}"])
        return sick

    def inside(self, name):
        """The beginning of a command that runs in the namespaces of a node."""
        found = sh("ps", "-o", "pid=", "--ppid", self.pids[name]).split()
        return ["nsenter", "-t", found[0], "-n", "-m", "-p", "-u", "-i", "-C", "--", "env", f"PATH={self.programs}:{os.environ['PATH']}"]

    @property
    def outside(self):
        """The machine's own address in the cluster's network."""
        return f"10.{self.b}.255.254"

    def kill(self, name):
        """A node (or the hub) dies at once with everything in it: it is gone when its pid 1 is, which the kernel lets end as the last one."""
        pid = self.pids.pop(name, None)
        if pid:
            self.save()
            inside = sh("ps", "-o", "pid=", "--ppid", pid, check=False).split()
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            wait_for(f"{name} is gone", lambda: reap(pid) and all(ended(p) for p in inside), 30)

    # ---- down ----
    def down(self, keep_images=True):
        for name in list(self.pids):
            self.kill(name)
        if self.id:
            def clear():
                left = [c for c in self.cgroups() if c.exists()]
                for c in left:
                    subprocess.run(["find", c, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], stderr=subprocess.DEVNULL)
                return not [c for c in left if c.exists()]
            wait_for("the cgroups are empty", clear, 60)
            for ns in [self.ns("hub")] + [self.ns(self.name(i)) for i in range(self.n)]:
                sh("ip", "netns", "del", ns, check=False)
            sh("ip", "link", "del", f"tk{self.id}", check=False)
        for p in self.dir.iterdir() if self.dir.exists() else ():
            if keep_images and re.fullmatch(r"n\d+", p.name):
                for q in p.iterdir():
                    if q.name != "ctr":
                        shutil.rmtree(q, ignore_errors=True) if q.is_dir() else q.unlink()
            elif not (keep_images and p.name == "images"):
                shutil.rmtree(p, ignore_errors=True) if p.is_dir() else p.unlink()
        if not keep_images:
            shutil.rmtree(self.dir, ignore_errors=True)


def born(pid):
    """The start time of a process, by which another one with its number is told apart; None: there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def sweep():
    """Takes down what tests left that were killed: clusters whose owner is gone."""
    for f in [*pathlib.Path("/var/tmp").glob("*/cluster.json"), *pathlib.Path("/var/tmp").glob("*/kube/cluster.json")]:
        try:
            owner = json.loads(f.read_text()).get("owner")
            if not owner or born(owner[0]) == owner[1]:
                continue
            print(f"cluster.py: the owner of {f.parent} is gone: it is taken down", file=sys.stderr)
            Cluster(home=f.parent).down(keep_images=False)
        except (OSError, ValueError, RuntimeError, AssertionError, subprocess.SubprocessError) as e:
            print(f"cluster.py: {f.parent} could not be taken down: {e}", file=sys.stderr)


def reap(pid):
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # another's, or waited for already
        return ended(pid)


def main():
    a = argparse.ArgumentParser(allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("what", choices=["up", "down", "status", "enter", "load"])
    a.add_argument("--nodes", type=int, default=3)
    a.add_argument("--assets", help="directory of the binaries (default: what tools/kube-assets prints)")
    a.add_argument("--gpus", action="store_true", help="up: 8 fake GPUs on every node, by DRA")
    a.add_argument("--image", action="append", default=[], metavar="FILE", help="up: an image's archive for every node (repeat)")
    a.add_argument("--purge", action="store_true", help="down: remove imported images too")
    words = sys.argv[2:] if sys.argv[1:2] in (["enter"], ["load"]) else []  # all of them: --help there is the command's
    o = a.parse_args(sys.argv[1:2] if words else sys.argv[1:])
    if os.geteuid():
        sys.exit("cluster.py: namespaces and cgroups need root. Run: sudo tools/kube-up")
    c = Cluster(assets=o.assets, nodes=o.nodes, owner=None)
    if o.what == "up":
        if c.assets is None:
            r = subprocess.run([HERE.parent.parent / "tools/kube-assets"], stdout=subprocess.PIPE, text=True, timeout=3600)
            if r.returncode:
                sys.exit("cluster.py: tools/kube-assets could not give the programs; see above")
            c.assets = pathlib.Path(r.stdout.strip().splitlines()[-1])
        for f in [f for f in o.image if not os.path.isfile(f)]:
            sys.exit(f"cluster.py: --image {f}: there is no such file (deploy/images/build makes one)")
        start = time.monotonic()

        def say(text):
            print(f"{time.monotonic() - start:5.1f} s  {text}", file=sys.stderr, flush=True)
        c.up(say)
        for f in o.image:
            c.load(f)
            say(f"{f} is on every node")
        if o.gpus:
            c.gpus()
            say("8 fake GPUs on every node: driver gpu.example.com, attribute index, files /dev/tandem-gpu0 to 7; namespace slurm may see them all")
        print(f"export KUBECONFIG={c.kubeconfig} PATH={c.assets}:$PATH")
    elif o.what == "down":
        c.down(keep_images=not o.purge)
    elif o.what == "status":
        print(c.kubectl("get", "nodes") if c.file.exists() else "no cluster")
    elif not c.file.exists():
        sys.exit("cluster.py: there is no cluster: tools/kube-up makes one")
    elif o.what == "load":
        for f in words:
            c.load(f)
    elif not words or words[0] not in [c.name(i) for i in range(c.n)]:
        sys.exit(f"cluster.py: enter which node? {' '.join(c.name(i) for i in range(c.n))}")
    else:
        inside = c.inside(words[0]) + (words[1:] or ["bash"])
        os.execvp(inside[0], inside)


if __name__ == "__main__":
    main()
