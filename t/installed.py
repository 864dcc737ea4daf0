"""A real cluster on which Tandem is installed as users install it, and what users do there."""
import collections
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from harness import IMAGES, KEEP, ROOT, SANITIZE, Failed, got, wait_for

sys.path.insert(0, f"{ROOT}/t/kube")
import cluster  # noqa: E402
import image  # noqa: E402

OLD, NEW = "tandem.dev/tandem:old", "tandem.dev/tandem:new"
SYSTEM, NODE = "tandem-system", "tandem-node"
CHART = ROOT / "deploy/helm/tandem"


def assets():
    r = subprocess.run([ROOT / "tools/kube-assets", "--check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    return pathlib.Path(r.stdout.strip().splitlines()[-1])


class Site:
    """A cluster whose nodes have Tandem's images of two versions, and what users do there."""

    def __init__(self, home, build):
        self.c = cluster.Cluster(home=home, assets=assets(), cpus=18, disk=True)  # 17 for Slurm on each of three nodes: 51
        self.tandem = str(build / "src/cmd/tandem")
        images = pathlib.Path(home) / "images"
        images.mkdir()
        image.tandem(images / "old.tar", build, OLD)
        image.tandem(images / "new.tar", build, NEW)
        root = pathlib.Path(IMAGES) / "tandem+slurm/24.11/rootfs"
        assert root.is_dir(), "the image store has no tandem/slurm:24.11: tandem image build tandem/slurm:24.11"
        image.archive(images / "slurm.tar", "docker.io/tandem/slurm:24.11", root=root)
        self.c.up()
        self.env = {**KEEP, **SANITIZE, "KUBECONFIG": self.c.kubeconfig, "PATH": f"{self.c.assets}:{KEEP['PATH']}", "HOME": home}

    def run(self, *argv, code=0, timeout=400, input=None):
        r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout, env=self.env, input=input)
        if r.returncode != code:
            raise Failed(r.returncode, [str(a) for a in argv], r.stdout, r.stderr)
        return r.stdout if not code else r.stdout + r.stderr

    def cmd(self, verb, *argv, **kw):
        return self.run(self.tandem, verb, "--kubeconfig", self.c.kubeconfig, *argv, **kw)

    def kubectl(self, *argv, **kw):
        return self.run("kubectl", *argv, **kw)

    def items(self, *argv):
        return got(self.c.kubeconfig, self.kubectl, *argv)["items"]

    def install(self, img, *argv):
        return collections.Counter(o["result"] for o in json.loads(self.cmd("install", "--image", img, "-o", "json", "--wait", "5m", *argv))["objects"])

    def namespace(self, name):
        """Makes a namespace and waits until it has what every pod needs. Controllers make that a
        moment later, and until then the API server refuses pods."""
        self.kubectl("create", "namespace", name)
        self.complete(name)

    def complete(self, name):
        wait_for(f"namespace {name} has what pods need", lambda: self.kubectl("-n", name, "get", "serviceaccount/default", "configmap/kube-root-ca.crt", "-o", "name"))

    def slurm(self, *argv, **kw):
        return self.cmd("shell", "--user", "root", "--", *argv, **kw)

    def jobs(self):
        """The jobs of Slurm: {job name: (id, state)}. The name of a pod's job has the pod's UID."""
        out = json.loads(self.slurm("squeue", "--json"))["jobs"]
        return {j["name"]: (j["job_id"], j["job_state"][0]) for j in out}


@pytest.fixture(scope="module")
def site(build):
    assets()
    home = tempfile.mkdtemp(prefix="tandem-deploy-", dir="/var/tmp")
    try:
        yield Site(home, build)
    finally:
        cluster.Cluster(home=home).down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])) and "deletionTimestamp" not in pod["metadata"]


def pod(name, cpu, command="exec sleep 100000", **spec):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml", "labels": {"load": name.partition("-")[0]}}, "spec": {
        "schedulerName": "tandem", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **spec, "containers": [
            {"name": "c", "image": "tandem/slurm:24.11", "imagePullPolicy": "Never", "command": ["sh", "-c", command],
             "resources": {"requests": {"cpu": str(cpu), "memory": "16Mi"}}}]}})


def phase(site, name):
    return got(site.c.kubeconfig, site.kubectl, "pod", name, "-n", "ml")["status"].get("phase")
