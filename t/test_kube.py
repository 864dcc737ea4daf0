"""The real tier: a real Kubernetes of three nodes on this machine (t/kube/cluster.py), what it must do before Tandem is proven on it, and that
nothing of it is left. Skipped, with the reason, where its binaries are not there: tools/kube-assets builds them."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from harness import IMAGES, wait_for

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "kube"))
import cluster  # noqa: E402
import image  # noqa: E402

pytestmark = pytest.mark.feature("F2.1")


@pytest.fixture(scope="module")
def real():
    """A cluster with the image debian:13 on its nodes; taken down whatever happens."""
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    home = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp"))
    c = cluster.Cluster(home=home, assets=r.stdout.strip().splitlines()[-1])
    try:
        (home / "images").mkdir()
        image.archive(home / "images/debian.tar", "docker.io/library/debian:13", root=f"{IMAGES}/debian/13/rootfs", command=["/bin/bash"])
        c.up()
        yield c
    finally:
        c.down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


def traces(c):
    """What of the cluster is on the machine."""
    out = subprocess.run("ip netns; ip -o link; ip route; cat /proc/mounts; ls -d /sys/fs/cgroup/tandem-kube-* /sys/fs/cgroup/*/tandem-kube-* 2>/dev/null;"
                         " ps -e -o args=", shell=True, capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if f"tk{c.id}" in line or f"tandem-kube-{c.id}" in line or str(c.dir) in line]


def pods(c, *argv):
    return json.loads(c.kubectl("get", "pods", *argv, "-o", "json"))["items"]


def test_another_kubernetes_is_taken_from_its_directory(tmp_path):
    """$KUBEBUILDER_ASSETS: what it has is taken from there, what it lacks is looked for in the cache, and the directory is named by its version."""
    names = "kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl etcd coredns helm dra-driver device-plugin containerd containerd-shim-runc-v2 ctr cni".split()
    given = tmp_path / "given"
    given.mkdir()
    for name in names[:-1]:
        (given / name).write_text("#!/bin/sh\necho Kubernetes v1.99.3\n")
        (given / name).chmod(0o755)

    def check():
        env = {**os.environ, "KUBEBUILDER_ASSETS": str(given), "TANDEM_KUBE_ASSETS": str(tmp_path / "cache")}
        return subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60, env=env)
    r = check()
    assert (r.returncode, r.stderr) == (1, "not available, because cni is not fetched (run tools/kube-assets)\n")
    (given / "cni").mkdir()
    r = check()
    assert r.returncode == 0, r.stderr
    found = pathlib.Path(r.stdout.strip())
    assert found.name.startswith("1.99.3-")
    assert {p.name: os.readlink(p) for p in found.iterdir()} == {name: f"{given}/{name}" for name in names}
    (given / "kubelet").unlink()
    r = check()
    assert (r.returncode, r.stderr) == (1, "not available, because kubelet is not built (run tools/kube-assets)\n")


def test_what_the_machine_lacks_is_named(tmp_path):
    """On a machine where only `make build` ran: --check and kube-up name the program and its package; nothing is a traceback."""
    for name in "bash env sed cut sha256sum head cat dirname awk grep mktemp mkdir flock readlink ln openssl ip nsenter unshare".split():
        os.symlink(shutil.which(name), tmp_path / name)
    os.symlink(sys.executable, tmp_path / "python3")
    for command in ([HERE.parent / "tools/kube-assets", "--check"], [HERE.parent / "tools/kube-up"]):
        r = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": str(tmp_path), "TANDEM_KUBE_HOME": str(tmp_path / "home")})
        assert r.returncode == 1 and "the machine has no busybox (apt-get install busybox-static" in r.stderr and "Traceback" not in r.stderr, r.stderr
    (tmp_path / "busybox").write_text("#!/bin/sh\n")
    (tmp_path / "busybox").chmod(0o755)
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": str(tmp_path)})
    assert "the machine has no" not in r.stderr, r.stderr


@pytest.mark.nightly
def test_pods_on_three_real_nodes(real):
    """Pods on every node run, log, take exec, find each other and the API by name, across nodes."""
    real.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "None", "selector": {"app": "web"}}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
            "serviceName": "web", "replicas": 3, "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}],
                "containers": [{"name": "c", "image": "debian:13", "imagePullPolicy": "Never", "command": ["sh", "-c", "echo up; exec sleep 1000"]}]}}}}]}))
    wait_for("all run", lambda: [p["status"]["phase"] for p in pods(real, "-l", "app=web")] == ["Running"] * 3, 120)
    assert {p["spec"]["nodeName"] for p in pods(real)} == {"n0", "n1", "n2"}
    for i in range(3):
        wait_for("it says so", lambda: real.kubectl("logs", f"web-{i}").strip() == "up")
        ip = next(p["status"]["podIP"] for p in pods(real) if p["metadata"]["name"] == f"web-{(i + 1) % 3}")
        wait_for("names", lambda: ip in real.kubectl("exec", f"web-{i}", "--", "getent", "hosts", f"web-{(i + 1) % 3}.web", check=False), 30)
        assert "kubernetes.default" in real.kubectl("exec", f"web-{i}", "--", "getent", "hosts", "kubernetes.default.svc.cluster.local")
        real.kubectl("exec", f"web-{i}", "--", "bash", "-c", "exec 3<>/dev/tcp/kubernetes.default/443 && [ -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt ]")


@pytest.mark.nightly
def test_a_node_dies_and_comes_back(real):
    real.kill("n2")
    wait_for("n2 alone is not ready", lambda: set(real.ready_nodes()) == {"n0", "n1"}, 60)
    real.start_node(2)
    wait_for("n2 is back", lambda: "n2" in real.ready_nodes(), 120)
    wait_for("its pod runs again", lambda: [p["status"]["phase"] for p in pods(real, "-l", "app=web")] == ["Running"] * 3, 90)


@pytest.mark.nightly
def test_down_leaves_nothing(real):
    assert traces(real)
    real.down(keep_images=False)
    assert traces(real) == []


@pytest.mark.nightly
def test_what_a_killed_test_left_is_taken_down_by_the_next(tmp_path):
    """A test that is killed cannot clean up; the next cluster of any test does."""
    r = subprocess.run([HERE.parent / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    home = tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp")
    code = f"import cluster, os, signal; c = cluster.Cluster(home={home!r}, assets={r.stdout.split()[-1]!r}, nodes=0); c.up(); os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", code], cwd=HERE / "kube", timeout=300).returncode == -9
    left = cluster.Cluster(home=home)
    assert traces(left)
    cluster.sweep()
    assert traces(left) == []
    assert not pathlib.Path(home).exists()
