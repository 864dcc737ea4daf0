"""A virtual machine without a disk as one more node of a real cluster: QEMU (an emulated CPU, no KVM) with the iPXE of its network card, a DHCP server as a site
has it, and `tandem netboot`. Tandem is installed by its chart; every role is a pod with its own rights."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
import yaml

from harness import IMAGES, KEEP, ROOT, SANITIZE, Failed, wait_for
from installed import CHART, SYSTEM, assets

sys.path.insert(0, f"{ROOT}/t/kube")
import cluster  # noqa: E402
import image  # noqa: E402

UUID, MAC = "0d15c1e5-5e1f-4b0a-9b1d-7a9de0000001", "52:54:00:7a:9d:01"
NODE, LATE = "n1", 1  # the machine is the cluster's second node, in whose place in the network it is
MEMORY_MIB = 3072
SLURM = pathlib.Path(IMAGES) / "tandem+slurm/24.11/rootfs"
# What the boot service may do, and no more (docs/netboot.md).
RIGHTS = """
kind: ServiceAccount
apiVersion: v1
metadata: {name: netboot, namespace: tandem-system}
---
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot}
rules:
- {apiGroups: [tandem.dev], resources: [nodetokens], verbs: [create, delete]}
- {apiGroups: [tandem.dev], resources: [nodesets], verbs: [get]}
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: netboot}
subjects: [{kind: ServiceAccount, name: netboot, namespace: tandem-system}]
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot, namespace: kube-system}
rules: [{apiGroups: [""], resources: [secrets], verbs: [create, delete]}]
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: netboot}
subjects: [{kind: ServiceAccount, name: netboot, namespace: tandem-system}]
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot, namespace: kube-node-lease}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}]
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: netboot, namespace: kube-node-lease}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: netboot}
subjects: [{kind: ServiceAccount, name: netboot, namespace: tandem-system}]
"""
# The NodeSet's nodes are the machines that boot by network: the boot service gives them its labels.
NODESET = {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "diskless", "namespace": "slurm"},
           "spec": {"clusterName": "main", "nodeSelector": {"site.example/diskless": "yes"}, "slurm": {"gres": "auto"}}}


# What a node's slurmd and its jobs here do not use of Slurm's image: emulation would spend a minute on it at each boot.
SPARE = ("usr/lib/cni", "usr/bin/skopeo", "usr/bin/umoci", "usr/bin/mariadb*", "usr/sbin/mariadbd", "usr/bin/resolveip", "usr/bin/my_print_defaults", "usr/bin/innochecksum",
         "usr/bin/python3*", "usr/lib/python3*", "usr/share/python-wheels", "usr/share/mariadb", "usr/share/X11", "usr/bin/perl*", "usr/lib/x86_64-linux-gnu/perl*",
         "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/systemd", "usr/lib/apt", "usr/lib/x86_64-linux-gnu/libapt*", "usr/lib/x86_64-linux-gnu/sssd",
         "usr/libexec/sssd", "var/lib/dpkg", "var/cache", "usr/sbin/slurmctld*", "usr/sbin/slurmdbd*", "usr/sbin/slurmrestd*")


def needs():
    """Skips with the reason where the machine has no emulator."""
    for program, package in (("qemu-system-x86_64", "qemu-system-x86 and ipxe-qemu"), ("dnsmasq", "dnsmasq-base"), ("cpio", "cpio"), ("zstd", "zstd")):
        if not shutil.which(program):
            pytest.skip(f"a virtual machine needs {program}: apt-get install {package}")
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("a virtual machine needs /dev/net/tun")
    r = subprocess.run([ROOT / "tools/node-image", "--check"], capture_output=True, text=True)
    if r.returncode:
        pytest.skip(r.stderr.strip())


class VmSite:
    """One node of the test's own beside the machine, Tandem, Slurm, and the boot service."""

    def __init__(self, home, build):
        self.home, self.tandem, self.procs = pathlib.Path(home), str(build / "src/cmd/tandem"), {}
        self.build = build
        self.c = cluster.Cluster(home=f"{home}/kube", assets=assets(), nodes=2, late=1, grace=60, cpus=4)
        self.env = {**KEEP, **SANITIZE, "KUBECONFIG": self.c.kubeconfig, "PATH": f"{assets()}:{KEEP['PATH']}", "HOME": home}
        self.boot = self.home / "boot"

    def up(self):
        images = self.c.dir / "images"
        images.mkdir(parents=True)
        image.tandem(images / "tandem.tar", self.build)
        image.archive(images / "slurm.tar", "docker.io/tandem/slurm:24.11", root=SLURM)
        small = self.home / "small"
        self.run("cp", "-al", SLURM, small)
        for pattern in SPARE:
            for path in small.glob(pattern):
                self.run("rm", "-rf", path)
        image.archive(self.home / "slurm.tar", "docker.io/tandem/slurm:24.11", root=small)
        self.c.up()
        name, tag = image.TANDEM.rsplit(":", 1)
        self.run("helm", "install", "tandem", CHART, "-n", SYSTEM, "--create-namespace", "--set",
                 f"image.repository={name},image.tag={tag},agent.reboot=systemd,operator.replicas=1,bridge.replicas=1", "--wait", "--timeout", "5m", timeout=400)
        docs = [d for d in yaml.safe_load_all((ROOT / "deploy/examples/cluster.yaml").read_text().replace("NODE", "n0")) if d["kind"] != "NodeSet"]
        docs[1]["spec"]["reserve"] = {"cpu": "500m", "memory": "768Mi"}
        self.apply(*docs, NODESET, {"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": {"testNewNodes": True}})
        self.kubectl("apply", "-f", "-", input=RIGHTS)
        wait_for("slurmctld is ready", lambda: self.kubectl("-n", "slurm", "get", "pod", "main-slurmctld-0", "-o", "jsonpath={.status.containerStatuses[0].ready}") == "true", 180)
        self._port()
        self._services()

    def _port(self):
        """The machine's end of the network, in the place of the late node's."""
        hub = self.c.ns("hub")
        self.c._in(hub, f"ip link set {NODE} nomaster; ip tuntap add vm0 mode tap; ip link set vm0 master br0 up")

    def _services(self):
        for d in ("machines", "groups", "images"):
            (self.boot / d).mkdir(parents=True)
        (self.boot / f"machines/{UUID}.yaml").write_text(yaml.safe_dump({"node": NODE, "group": "vms", "nodeset": "slurm/diskless"}))
        conf = json.loads(pathlib.Path(self.c.kubeconfig).read_text())
        conf["users"][0]["user"] = {"token": self.kubectl("-n", SYSTEM, "create", "token", "netboot", "--duration=8h").strip()}
        (self.home / "boot.conf").write_text(json.dumps(conf))
        self.url = f"http://{self.c.outside}:8069"
        self.spawn("netboot", self.tandem, "netboot", "--dir", self.boot, "--listen", f"{self.c.outside}:8069", "--kubeconfig", self.home / "boot.conf")
        self.spawn("dnsmasq", "nsenter", f"--net=/run/netns/{self.c.ns('hub')}", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root",
                   "--interface=br0", "--bind-interfaces", f"--dhcp-range={self.c.ip(LATE)},{self.c.ip(LATE)},255.255.0.0,1h", f"--dhcp-host={MAC},{self.c.ip(LATE)}",
                   f"--dhcp-option=3,{self.c.api}", f"--dhcp-boot={self.url}/boot.ipxe", f"--dhcp-leasefile={self.home}/leases", "--pid-file=", "--log-facility=-", "--log-dhcp")

    def image(self, name):
        """Makes an image by the recipe, with what a site puts over it, and gives it to the group: machines boot it from now on."""
        o = self.home / "overlay"
        (o / "etc/cni/net.d").mkdir(parents=True, exist_ok=True)
        (o / "etc/kubernetes").mkdir(parents=True, exist_ok=True)
        net = json.loads((ROOT / "deploy/node-image/10-bridge.conflist").read_text())
        net["plugins"][0]["ipam"]["ranges"] = [[{"subnet": f"10.{self.c.b + 1}.{LATE}.0/24"}]]
        (o / "etc/cni/net.d/10-bridge.conflist").write_text(json.dumps(net))
        kubelet = yaml.safe_load((ROOT / "deploy/node-image/kubelet.yaml").read_text())
        (o / "etc/kubernetes/kubelet.yaml").write_text(yaml.safe_dump(kubelet | {"clusterDNS": [self.c.api], "clusterDomain": "cluster.local"}))
        images = [a for i in (self.c.dir / "images/pause.tar", self.c.dir / "images/tandem.tar", self.home / "slurm.tar") for a in ("--image", i)]
        self.run(ROOT / "tools/node-image", "--out", self.boot / f"images/{name}", "--kubelet", assets() / "kubelet", "--tandem", self.tandem, "--overlay", o, *images,
                 "--cmdline", "console=ttyS0 mitigations=off clocksource=acpi_pm", timeout=600)
        (self.boot / "groups/vms.yaml").write_text(f"image: {name}\n")

    def start(self):
        """The machine is switched on. It has no disk of any kind."""
        self.spawn("qemu", "nsenter", f"--net=/run/netns/{self.c.ns('hub')}", "nice", "-n", "10", "qemu-system-x86_64", "-M", "pc,graphics=off", "-accel", "tcg,thread=single", "-cpu", "Nehalem",
                   "-smp", "2", "-m", MEMORY_MIB, "-nodefaults", "-display", "none", "-uuid", UUID, "-serial", f"file:{self.home}/log-serial.txt",
                   "-netdev", "tap,id=net0,ifname=vm0,script=no,downscript=no", "-device", f"virtio-net-pci,netdev=net0,mac={MAC}", "-device", "virtio-rng-pci",
                   "-boot", "n")

    def serial(self):
        try:
            return (self.home / "log-serial.txt").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def down(self):
        for name, p in reversed(self.procs.items()):
            p.send_signal(signal.SIGTERM)
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait(30)
        self.c.down(keep_images=False)

    # ---- commands ----
    def spawn(self, name, *argv):
        with open(self.home / f"log-{name}.txt", "ab") as log:
            self.procs[name] = subprocess.Popen([str(a) for a in argv], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        (self.home / "pids").open("a").write(f"{name} {self.procs[name].pid}\n")

    def run(self, *argv, code=0, timeout=200, input=None):
        r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout, env=self.env, input=input)
        if r.returncode != code:
            raise Failed(r.returncode, [str(a) for a in argv], r.stdout, r.stderr)
        return r.stdout if not code else r.stdout + r.stderr

    def kubectl(self, *argv, **kw):
        return self.run("kubectl", *argv, **kw)

    def apply(self, *docs):
        return self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": docs}))

    def get(self, *argv):
        return json.loads(self.kubectl("get", *argv, "-o", "json"))

    def cmd(self, verb, *argv, **kw):
        return self.run(self.tandem, verb, "--kubeconfig", self.c.kubeconfig, *argv, **kw)

    def slurm(self, *argv, **kw):
        return self.cmd("shell", "--user", "root", "--", *argv, **kw)
