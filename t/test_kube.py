"""The real tier: a real Kubernetes of three nodes on this machine (t/kube/cluster.py), what it must do before Tandem is proven on it, and that
nothing of it is left. Skipped, with the reason, where its binaries are not there: tools/kube-assets builds them."""
import json
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


@pytest.mark.feature("F2")
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
        assert real.kubectl("logs", f"web-{i}").strip() == "up"
        ip = next(p["status"]["podIP"] for p in pods(real) if p["metadata"]["name"] == f"web-{(i + 1) % 3}")
        wait_for("names", lambda: ip in real.kubectl("exec", f"web-{i}", "--", "getent", "hosts", f"web-{(i + 1) % 3}.web", check=False), 30)
        assert "kubernetes.default" in real.kubectl("exec", f"web-{i}", "--", "getent", "hosts", "kubernetes.default.svc.cluster.local")
        real.kubectl("exec", f"web-{i}", "--", "bash", "-c", "exec 3<>/dev/tcp/kubernetes.default/443 && [ -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt ]")


@pytest.mark.feature("F2")
def test_a_node_dies_and_comes_back(real):
    real.kill("n2")
    wait_for("n2 is not ready", lambda: "n2" not in real.ready_nodes(), 60)
    assert set(real.ready_nodes()) == {"n0", "n1"}
    real.start_node(2)
    wait_for("n2 is back", lambda: "n2" in real.ready_nodes(), 60)
    wait_for("its pod runs again", lambda: [p["status"]["phase"] for p in pods(real, "-l", "app=web")] == ["Running"] * 3, 90)


@pytest.mark.feature("F2")
def test_down_leaves_nothing(real):
    assert traces(real)
    real.down(keep_images=False)
    assert traces(real) == []
