"""The gateway of deploy/manifests/gateway.yaml: the rights that stand there are all that it needs and no more, its capabilities are enough for homes, and
two gateways are one. It runs as a process beside the pool's own; t/test_gateway_cluster.py has its pods on a real cluster."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

from apidev import free_port
from harness import KEEP, ROOT, SANITIZE, wait_for
from laptop import address, ask, me  # noqa: F401 (fixture)
from wsclient import WebSocket

sys.path.insert(0, f"{ROOT}/deploy/images")
import archive  # noqa: E402

pytestmark = [pytest.mark.embedded, pytest.mark.feature("A16.9")]
ACCOUNT = "system:serviceaccount:slurm:main-gateway"
MANIFEST = (ROOT / "deploy/manifests/gateway.yaml").read_text()
CONTAINER = next(d for d in yaml.safe_load_all(MANIFEST) if d and d["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]


@pytest.fixture
def standin(pool, build, tmp_path):
    """An image with what sessions take from Tandem's."""
    name = f"tandem.test/standin:{os.getpid()}"
    archive.archive(tmp_path / "standin.tar", name, files={"/usr/bin/tandem-standin": f"{build}/src/standin/tandem-standin"})
    pool.cmd("image", "import", str(tmp_path / "standin.tar"))
    yield name
    pool.cmd("image", "remove", name)


@pytest.fixture
def claim(pool):
    """The homes as a claim of the namespace of sessions. On this plane a claim is a directory of its own; it leads to where the homes are."""
    at = pathlib.Path(f"{pool.home}/shared/claims/researcher")
    at.mkdir(parents=True, exist_ok=True)
    (at / "home").symlink_to("../../home")
    pool.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "home", "namespace": "researcher"}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "shared", "resources": {"requests": {"storage": "1Gi"}}}}))
    yield
    pool.kubectl("delete", "pvc", "home", "-n", "researcher")
    (at / "home").unlink()


@pytest.fixture
def second(pool, standin, claim, tmp_path):
    """The address of a gateway that has the manifest's account, and that does with sessions what one of a cluster does."""
    docs = [d for d in yaml.safe_load_all(MANIFEST.replace("sessions-ann", "researcher")) if d and ("Role" in d["kind"] or d["kind"] == "ServiceAccount")]
    docs.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tandem-node"}})  # of Tandem's agents, of which there is none here
    pool.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(docs))
    admin = json.loads(pool.kubectl("config", "view", "--raw", "-o", "json"))
    conf = tmp_path / "gateway.conf"
    conf.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": admin["clusters"][0]["cluster"]}],
                                "users": [{"name": "u", "user": {"token": pool.kubectl("create", "token", "main-gateway", "-n", "slurm").strip()}}],
                                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
    at = f"127.0.0.1:{free_port()}"
    # As in the manifest, but for where this machine has things.
    ours = {"listen": at, "homes": f"{pool.home}/shared/home", "cert": None, "key": None, "metrics": None, "image": standin}
    given = dict(a.removeprefix("--").split("=", 1) for a in CONTAINER["args"][1:])
    assert set(ours) <= set(given)
    given |= ours | {"namespace": "slurm", "kubeconfig": conf, "empty-dirs": f"{pool.home}/agent/volumes/{{uid}}/v/{{name}}", "log-level": "debug"}
    with open(tmp_path / "log", "wb") as log:
        p = subprocess.Popen([pool.tandem, "gateway", *(f"--{k}={v}" for k, v in given.items() if v)], env={**KEEP, **SANITIZE}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for("it serves", lambda: b"serving people" in (tmp_path / "log").read_bytes() or p.poll() is not None)
        yield at
        text = (tmp_path / "log").read_text()
        assert "orbidden" not in text and "cannot " not in text, text
    finally:
        p.terminate()
        p.wait(60)
        pool.kubectl("delete", "--ignore-not-found", "-f", "-", input=yaml.safe_dump_all(docs))


@pytest.mark.feature("A16.4", "E1.1", "D3.4")
def test_with_the_rights_of_the_manifest(pool, second, standin, me):  # noqa: F811
    there = lambda *argv, **kw: me.run(*argv, url=second, **kw)
    run = json.loads(there("submit", "-o", "json", "--no-code", "--name", "there", "--", "echo it went").stdout)["id"]
    wait_for("it is done", lambda: {r["id"]: r["state"] for r in json.loads(there("ps", "-o", "json").stdout)["runs"]}.get(run) == "done", 120)
    assert "it went" in there("logs", run).stdout and "it went" in me.run("logs", run).stdout
    # A session takes its program from the image, and its home from the claim: nothing of the node's.
    shell = json.loads(there("session", "-o", "json", "start", "shell", "--nodes", "2", "--gpus", "1", "--low-use", "30").stdout)
    spec = pool.get("pod", f"session-{shell['id']}", "-n", "researcher")["spec"]
    assert "hostPath" not in json.dumps(spec["volumes"]) and "fsGroup" not in spec["securityContext"] and spec["initContainers"][0]["image"] == standin
    for at in (second, address(pool)):
        w = WebSocket(at, f"{shell['path']}tty", {"Authorization": f"Bearer {me.key}"})
        w.send(b"printf 'uid=%s in %s of %s\\n' $(id -u) $PWD $(ls -d tandem)\n")
        w.until(b"uid=1000 in /home/researcher of tandem")
        w.send(b"tandem-run -l echo ran\n")  # the image's, on both nodes
        w.until(b"1: ran\r\n")
        w.close()
    # It may look where the agent of its node is; that there is none, the session says.
    unknown = lambda: next(s for s in json.loads(there("session", "-o", "json", "list").stdout)["sessions"] if s["id"] == shell["id"]).get("useUnknown", "")  # noqa: E731
    assert "runs on node" in wait_for("it says what is not known", unknown) and "no agent of Tandem's" in unknown()
    there("session", "stop", shell["id"])
    s = json.loads(there("session", "-o", "json", "start", "endpoint", "--", "echo here > index.html; exec python3 -m http.server $PORT").stdout)
    wait_for("the other one leads to it, too", lambda: ask(me, s["path"])[0] == 200)
    assert "ready" in there("session", "list").stdout
    # Each tells the other when it was used.
    wait_for("it is written down", lambda: int(pool.get("configmap", f"session-{s['id']}", "-n", "researcher")["data"].get("used", 0)) > 0)
    there("session", "stop", s["id"])


@pytest.mark.feature("A16.4")
def test_no_right_more(pool, second):
    may = lambda *argv: pool.run("kubectl", "auth", "can-i", *argv, f"--as={ACCOUNT}", check=False).stdout.strip() == "yes"
    for yes in (("create", "pods", "-n", "researcher"), ("get", "secret/main-gateway", "-n", "slurm"), ("list", "nodes"), ("create", "pods/exec", "-n", "researcher"), ("create", "pods/portforward", "-n", "researcher"), ("get", "nodesets", "-n", "slurm"), ("list", "pods", "-n", "tandem-node"),
                ("get", "namespace/researcher", "-n", "researcher"), ("create", "services", "-n", "researcher"), ("patch", "configmap/main-federation", "-n", "slurm")):
        assert may(*yes), yes
    for no in (("create", "pods", "-n", "slurm"), ("get", "secrets", "-n", "slurm"), ("get", "secret/main-slurm-key", "-n", "slurm"), ("get", "secrets", "-n", "researcher"), ("create", "pods", "-n", "default"),
               ("create", "pods/exec", "-n", "slurm"), ("create", "pods/portforward", "-n", "slurm"), ("patch", "nodesets", "-n", "slurm"), ("list", "pods", "-A"), ("patch", "nodes"), ("create", "rolebindings", "-n", "researcher"), ("create", "serviceaccounts/token", "-n", "slurm"),
               ("patch", "slurmclusters", "-n", "slurm"), ("get", "configmaps", "-n", "slurm"), ("patch", "configmaps", "-n", "slurm"), ("delete", "configmaps", "-n", "slurm"),
               ("get", "pods", "-n", "tandem-node"), ("create", "pods", "-n", "tandem-node"), ("get", "nodes/proxy"), ("get", "nodes/metrics"), ("get", "nodes/stats"),
               ("create", "services", "-n", "slurm"), ("get", "services", "-n", "researcher"), ("delete", "services", "-n", "researcher"), ("get", "namespace/default"), ("list", "namespaces"), ("patch", "namespace/researcher", "-n", "researcher")):
        assert not may(*no), no


@pytest.mark.feature("A16.4")
def test_the_capabilities_are_enough_for_homes_and_for_nothing_else(tandem, tmp_path):
    caps = CONTAINER["securityContext"]["capabilities"]
    assert caps["drop"] == ["ALL"]
    homes = pathlib.Path(tmp_path / "homes")
    homes.mkdir()
    homes.chmod(0o755)
    for name, uid in (("ann", 3001), ("bob", 3002)):
        (homes / name).mkdir(mode=0o700)
        os.chown(homes / name, uid, uid)

    def home_io(home, uid, *verb, say=b""):
        bound = ",".join(["-all", *(f"+{c.lower()}" for c in caps["add"])])
        r = subprocess.run(["setpriv", "--bounding-set", bound, "--inh-caps=-all", "--no-new-privs", tandem, "home-io", f"--homes={homes}", f"--home={home}", f"--uid={uid}", f"--gid={uid}", "--", *verb],
                           input=say, capture_output=True, timeout=60)
        return r.returncode, r.stdout.decode() + r.stderr.decode()
    code, said = home_io("ann", 3001, "write", say=b'{"path": "x", "chunks": []}')
    assert code == 0 and os.stat(homes / "ann/x").st_uid == 3001, said
    assert home_io("ann", 3001, "list", "")[1].count('"x"') == 1
    # Another one's home stays closed, and who comes first gets one.
    code, said = home_io("bob", 3001, "list", "")
    assert code != 0 and "not its owner's" in said
    assert home_io("eve", 3003, "list", "")[0] == 0
    assert (os.stat(homes / "eve").st_uid, os.stat(homes / "eve").st_mode & 0o777) == (3003, 0o700)
