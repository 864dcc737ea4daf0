"""New machines join a real Kubernetes with one-time tokens (docs/join.md): real kubelets, API server and signer, and the operator with exactly its own rights."""
import base64
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import pytest
import yaml

from apidev import free_port
from harness import KEEP, ROOT, SANITIZE, Failed, wait_for
from installed import assets

sys.path.insert(0, f"{ROOT}/t/kube")
import cluster  # noqa: E402

pytestmark = [pytest.mark.kube, pytest.mark.feature("B1.2")]

CSR = "certificatesigningrequests"


class Site:
    """A cluster of one node with a second machine that is not started, and the operator."""

    def __init__(self, home, build):
        self.home, self.tandem = pathlib.Path(home), str(build / "src/cmd/tandem")
        self.c = cluster.Cluster(home=f"{home}/kube", assets=assets(), nodes=2, late=1)
        (self.home / "kube").mkdir()
        self.c.up()
        self.env = {**KEEP, **SANITIZE, "KUBECONFIG": self.c.kubeconfig, "PATH": f"{self.c.assets}:{KEEP['PATH']}", "HOME": home}
        base = ROOT / "deploy/kustomize/base"
        self.c.kubectl("create", "namespace", "tandem-system")
        self.c.kubectl("apply", "-f", ROOT / "deploy/crds", "-f", base / "45-join.yaml")
        rights = [d for d in yaml.safe_load_all((base / "20-operator.yaml").read_text()) if d["kind"] not in ("Deployment", "PodDisruptionBudget")]
        self.c.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(rights))
        self.c.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=90s")
        admin, token = json.loads(pathlib.Path(self.c.kubeconfig).read_text()), self.c.kubectl("-n", "tandem-system", "create", "token", "tandem-operator", "--duration=2h").strip()
        admin["users"][0]["user"] = {"token": token}
        (self.home / "operator.conf").write_text(json.dumps(admin))
        wait_for("the cluster shows its CA", lambda: self.c.kubectl("-n", "kube-public", "get", "configmap", "kube-root-ca.crt", check=False), 60)
        self.operator = None
        self.start()

    def start(self):
        argv = [self.tandem, "operator", f"--kubeconfig={self.home}/operator.conf", "--image=none", "--lease-namespace=tandem-system", "--identity=t"]
        with open(self.home / "operator.log", "ab") as log:
            self.operator = subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        """By kill -9; the Lease goes, so that the next one need not wait for its end."""
        self.operator.send_signal(signal.SIGKILL)
        self.operator.wait(60)
        self.c.kubectl("-n", "tandem-system", "delete", "lease", "tandem-operator", "--ignore-not-found")

    def run(self, *argv, code=0):
        r = subprocess.run([self.tandem, *map(str, argv)], capture_output=True, text=True, timeout=120, env=self.env)
        if r.returncode != code:
            raise Failed(r.returncode, argv, r.stdout, r.stderr)
        return r.stdout if code == 0 else r.stderr

    def machine(self, name):
        m = Machine(self, self.home / name)
        m.dir.mkdir(exist_ok=True)
        m.id = self.run("node", "machine-id", "--key", m.key).strip()
        return m

    def token(self, machine, *argv):
        return json.loads(self.run("node", "token", "--kubeconfig", self.c.kubeconfig, "--machine", machine.id, "-o", "json", *argv))

    def record(self, token):
        return json.loads(self.c.kubectl("get", "nodetoken", token["token"][:6], "-o", "json"))

    def status(self, token):
        return self.record(token).get("status", {})

    def secrets(self):
        return [s["metadata"]["name"] for s in json.loads(self.c.kubectl("-n", "kube-system", "get", "secrets", "-o", "json"))["items"] if s["type"] == "bootstrap.kubernetes.io/token"]

    def as_token(self, token, *argv, **kw):
        """kubectl as somebody who has only the token."""
        return self.c.kubectl("--kubeconfig=/dev/null", f"--server=https://{self.c.api}", f"--certificate-authority={self.c.dir}/pki/ca.crt", f"--token={token['token']}", *argv, **kw)


class Machine:
    def __init__(self, site, where):
        self.site, self.dir, self.key = site, where, where / "key.pem"

    def argv(self, token, *argv):
        return ["join", "--server", f"https://{self.site.c.api}", "--token", token["token"], "--ca-hash", token["caHash"], "--key", self.key,
                "--kubernetes-dir", self.dir / "etc", "--kubelet-dir", self.dir / "kubelet", *argv]

    def join(self, token, *argv, code=0):
        return self.site.run(*self.argv(token, *argv), code=code)


@pytest.fixture(scope="module")
def site(build):
    home = tempfile.mkdtemp(prefix="tandem-join-", dir="/var/tmp")
    s = None
    try:
        s = Site(home, build)
        yield s
    finally:
        if s and s.operator:
            s.operator.kill()
            s.operator.wait(60)
        cluster.Cluster(home=f"{home}/kube").down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


def test_whoever_is_not_the_tokens_machine_is_refused(site):
    """A stolen token, another name, a name that is taken, another group: refused with the reason, there and in the record; the token is still the machine's."""
    mine, thief = site.machine("mine"), site.machine("thief")
    t = site.token(mine, "--name", "n9")
    assert "OtherMachine" in thief.join(t, "--name", "n9", code=1)
    assert "OtherName" in mine.join(t, "--name", "n8", code=1)
    u = site.token(mine)
    assert "node n0 is there" in mine.join(u, "--name", "n0", code=1)
    assert "node n0 is there" in site.run("node", "token", "--kubeconfig", site.c.kubeconfig, "--machine", mine.id, "--name", "n0", code=1)
    for who, subject, why in (("mine", "/O=system:masters/CN=system:node:n7", "OtherGroup"), ("mine", "/O=system:nodes/CN=kubernetes-admin", "NoNode")):
        pem = subprocess.run(["openssl", "req", "-new", "-key", site.home / who / "key.pem", "-subj", subject], capture_output=True, check=True).stdout
        site.as_token(u, "create", "-f", "-", input=json.dumps({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": why.lower()},
            "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": base64.b64encode(pem).decode(), "usages": ["digital signature", "client auth"]}}))
        got = wait_for("it is answered", lambda: json.loads(site.c.kubectl("get", CSR, why.lower(), "-o", "json"))["status"].get("conditions"), 30)
        assert [(c["type"], c["reason"]) for c in got] == [("Denied", why)]
    wait_for("the record counts them", lambda: (site.status(t).get("refused"), site.status(u).get("refused")) == (2, 3), 30)
    assert site.status(t)["phase"] == "Waiting" and "refused 2 times" in site.run("node", "tokens", "--kubeconfig", site.c.kubeconfig)
    told = lambda: {e["reason"] for e in json.loads(site.c.kubectl("get", "events", "-A", "-o", "json"))["items"] if e["involvedObject"]["kind"] == "NodeToken"}
    wait_for("events say so, too", lambda: {"OtherMachine", "OtherName", "NodeExists", "OtherGroup", "NoNode"} <= told(), 30)
    # Who has a token can read no secret and approve nothing.
    for what in (("get", "secrets", "-n", "kube-system"), ("get", "nodetokens"), ("patch", CSR, "nonode", "--subresource=approval", "--type=merge", "-p", "{}"), ("get", "nodes")):
        with pytest.raises(Failed, match="orbidden"):
            site.as_token(u, *what)
    # And the operator, who may write Secrets, makes no token.
    with pytest.raises(Failed, match="tandem node token"):
        site.c.kubectl("--kubeconfig", site.home / "operator.conf", "create", "-f", "-", input=json.dumps({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "metadata": {"name": "bootstrap-token-aaaaaa", "namespace": "kube-system"},
            "stringData": {"token-id": "aaaaaa", "token-secret": "a" * 16, "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:tandem"}}))
    # Nor deletes it what is none, nor answers what was asked for without one.
    site.c.kubectl("-n", "kube-system", "create", "secret", "generic", "others")
    with pytest.raises(Failed, match="but bootstrap tokens"):
        site.c.kubectl("--kubeconfig", site.home / "operator.conf", "-n", "kube-system", "delete", "secret", "others")
    pem = subprocess.run(["openssl", "req", "-new", "-key", thief.key, "-subj", "/O=system:nodes/CN=system:node:n7"], capture_output=True, check=True).stdout
    site.c.kubectl("create", "-f", "-", input=json.dumps({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "persons"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": base64.b64encode(pem).decode(), "usages": ["digital signature", "client auth"]}}))
    bearer = json.loads((site.home / "operator.conf").read_text())["users"][0]["user"]["token"]
    said = subprocess.run(["curl", "-sk", "--max-time", "60", "-X", "PATCH", "-H", f"Authorization: Bearer {bearer}", "-H", "Content-Type: application/merge-patch+json",
                           "-d", json.dumps({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x", "message": "y"}]}}),
                           f"https://{site.c.api}/apis/certificates.k8s.io/v1/{CSR}/persons/approval"], capture_output=True, text=True, check=True).stdout
    assert "answers only requests" in said
    # A token that was revoked is refused by the record at once, and by the API server when it has forgotten it.
    site.run("node", "revoke", u["token"][:6], "--kubeconfig", site.c.kubeconfig)
    assert re.search("TokenUnknown|does not know the token", mine.join(u, "--name", "n7", code=1))
    assert "another cluster" in mine.join({**t, "caHash": "sha256:" + "0" * 64}, "--name", "n9", code=1)
    assert "Node n9 of" in mine.join(t, "--name", "n9")  # and it joins all the same
    who = json.loads(site.c.kubectl("--kubeconfig", mine.dir / "etc/kubelet.conf", "auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert who["username"] == "system:node:n9" and "system:nodes" in who["groups"]
    assert not (mine.dir / "etc/bootstrap-kubelet.conf").exists()
    # Used, and its node has not come: nobody else gets in with it, nor the same name with another token.
    other = site.machine("other")
    v = site.token(other)
    assert "another machine is joining as node n9" in other.join(v, "--name", "n9", code=1)


def test_a_real_kubelet_bootstraps_with_it(site):
    """kubelet --bootstrap-kubeconfig: it makes the request itself, with the machine's key. Then the token is used up, its Secret gone and the node labelled."""
    m = site.machine("n1")
    t = site.token(m, "--name", "n1", "--label", "site.example/rack=r7", "--ttl", "10m")
    assert f"bootstrap-token-{t['token'][:6]}" in site.secrets()
    m.join(t, "--name", "n1", "--kubelet")
    site.c.start_node(1, f"--kubeconfig {m.dir}/etc/kubelet.conf --bootstrap-kubeconfig {m.dir}/etc/bootstrap-kubelet.conf --cert-dir {m.dir}/kubelet/pki")
    wait_for("n1 is Ready", lambda: "n1" in site.c.ready_nodes(), 120)
    wait_for("it is recorded", lambda: site.status(t).get("phase") == "Joined", 30)
    node = json.loads(site.c.kubectl("get", "node", "n1", "-o", "json"))["metadata"]
    assert node["labels"]["site.example/rack"] == "r7" and node["annotations"]["tandem.dev/machine"] == m.id
    assert f"bootstrap-token-{t['token'][:6]}" not in site.secrets()


def test_a_crash_between_reservation_and_approval_opens_no_second_use(site):
    """The operator dies when it has reserved a token: the request that it is reserved for is approved by the next operator, and no other one ever."""
    m, again = site.machine("m"), site.machine("again")
    shutil.copy(m.key, again.key)
    t = site.token(m)
    wait_for("it is seen", lambda: site.status(t).get("phase") == "Waiting", 30)
    site.stop()
    first = subprocess.Popen([site.tandem, *map(str, m.argv(t, "--name", "n5"))], env=site.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    mine = lambda: [q for q in json.loads(site.c.kubectl("get", CSR, "-o", "json"))["items"] if q["spec"]["username"] == f"system:bootstrap:{t['token'][:6]}"]
    q = wait_for("it asks", mine, 30)[0]["metadata"]
    site.c.kubectl("patch", "nodetoken", t["token"][:6], "--subresource=status", "--type=merge", "-p", json.dumps(
        {"status": {"phase": "Used", "request": q["name"], "requestUID": q["uid"], "node": "n5", "usedAt": q["creationTimestamp"]}}))
    pem = subprocess.run(["openssl", "req", "-new", "-key", m.key, "-subj", "/O=system:nodes/CN=system:node:n6"], capture_output=True, check=True).stdout
    site.as_token(t, "create", "-f", "-", input=json.dumps({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "second"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "request": base64.b64encode(pem).decode(), "usages": ["digital signature", "client auth"]}}))
    site.start()
    assert first.wait(90) == 0, first.stdout.read()
    second = wait_for("the second is answered", lambda: json.loads(site.c.kubectl("get", CSR, "second", "-o", "json"))["status"].get("conditions"), 30)
    assert [(c["type"], c["reason"]) for c in second] == [("Denied", "TokenUsed")]


def test_a_token_ends_with_its_time(site):
    m = site.machine("slow")
    t = site.token(m, "--ttl", "10s")  # one that is over before its Secret is there is refused
    wait_for("its time is over", lambda: site.status(t).get("phase") == "Expired", 60)
    assert f"bootstrap-token-{t['token'][:6]}" not in site.secrets()
    assert re.search("TokenExpired|does not know the token", m.join(t, "--name", "n3", code=1))


@pytest.mark.feature("B1.1")
def test_a_node_without_slurmd_is_not_tested_because_it_is_new(site):
    """There is nothing to test it with, and a test that found nothing was followed by another one, several each second."""
    policy = {"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": {"testNewNodes": True}}
    site.c.kubectl("apply", "-f", "-", input=json.dumps(policy))
    acts = lambda: {a["metadata"]["name"]: a for a in json.loads(site.c.kubectl("get", "nodeactions", "-o", "json"))["items"]}
    for name in ("first", "second"):  # whatever a policy wants after the first is there before the second ends
        act = {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeAction", "metadata": {"name": name}, "spec": {"node": "n0", "action": "test", "reason": "look", "requestedBy": "t"}}
        site.c.kubectl("apply", "-f", "-", input=json.dumps(act))
        wait_for("it is over", lambda: acts()[name].get("status", {}).get("phase") == "Succeeded", 60)
    site.c.kubectl("delete", "healthpolicy", "default")
    assert set(acts()) == {"first", "second"}


@pytest.mark.feature("D5.2")
def test_a_virtual_machine_joins_by_its_user_data(site):
    """What `tandem node token --cloud-init` writes, carried out as cloud-init does: files first, then runcmd as one shell script. The machine is the node and starts its kubelet."""
    f, out, bin_ = site.home / "vm1.yaml", site.home / "vm1", site.home / "vm-bin"
    said = json.loads(site.run("node", "token", "--kubeconfig", site.c.kubeconfig, "--cloud-init", f, "--name", "vm1", "-o", "json"))
    assert f.stat().st_mode & 0o777 == 0o600 and f.read_text().startswith("#cloud-config\n") and said["file"] == str(f)
    assert "needs --name" in site.run("node", "token", "--kubeconfig", site.c.kubeconfig, "--cloud-init", f, code=2)
    data = yaml.safe_load(f.read_text())
    assert data["hostname"] == "vm1" and [w["path"] for w in data["write_files"]] == ["/var/lib/tandem-machine/key.pem"]
    bin_.mkdir()
    out.mkdir()
    (bin_ / "tandem").symlink_to(site.tandem)
    (bin_ / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{out}/systemctl\n')
    (bin_ / "systemctl").chmod(0o755)
    key = data["write_files"][0]
    (out / "key").write_text(key["content"])
    script = "".join(f"{c if isinstance(c, str) else shlex.join(c)}\n" for c in data["runcmd"])
    before = f"mount -t tmpfs none /etc; mount -t tmpfs none /var/lib; install -D -m {key['permissions']} {out}/key {key['path']}; PATH={bin_}:$PATH"
    boot = lambda: subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", f"set -e\n{before}\n{script}kubectl --kubeconfig /etc/kubernetes/kubelet.conf auth whoami -o json\n"],
                                  env=site.env, capture_output=True, text=True, timeout=120)
    first = boot()
    assert first.returncode == 0, first.stderr
    assert '"username": "system:node:vm1"' in first.stdout and (out / "systemctl").read_text() == "enable --now kubelet\n"
    record = json.loads(site.c.kubectl("get", "nodetoken", said["id"], "-o", "json"))
    assert (record["status"]["node"], record["spec"]["machine"]) == ("vm1", said["machine"])
    # Revoked, it is good for nothing, and a kubelet is not started in vain.
    site.run("node", "revoke", said["id"], "--kubeconfig", site.c.kubeconfig)
    count = lambda: (out / "systemctl").read_text().count("\n")

    def refused():
        n, r = count(), boot()
        return r.returncode and count() == n and r.stderr
    assert re.search("TokenUnknown|does not know the token", wait_for("it is refused", refused, 60))


@pytest.mark.feature("B8.2", "B8.3")
def test_a_machine_that_boots_by_network_gets_its_token(site):
    """Once for each boot, for its own node and key alone; its node gets the label of the image that it was given. The same node joins again after the next boot."""
    uuid, boot, m = "4c4c4544-0042-3510-8051-b4c04f4e3132", site.home / "boot", site.machine("diskless")
    for name, text in ((f"machines/{uuid}.yaml", "{node: n1, group: gpu}"), ("groups/gpu.yaml", "image: v2"), ("images/v2/manifest.json", '{"kernel": "k", "initrd": "r", "files": {}}')):
        (boot / name).parent.mkdir(parents=True, exist_ok=True)
        (boot / name).write_text(text)
    at = f"127.0.0.1:{free_port()}"
    p = subprocess.Popen([site.tandem, "netboot", "--dir", boot, "--listen", at, "--kubeconfig", site.c.kubeconfig], env=site.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def ask(path, **kw):
        try:
            return urllib.request.urlopen(urllib.request.Request(f"http://{at}{path}", **kw), timeout=30).read().decode()
        except urllib.error.HTTPError as e:
            return e.code
    try:
        assert "serves" in p.stderr.readline()
        nonce = re.search("tandem.nonce=(\\S+)", ask(f"/machine.ipxe?id={uuid}"))[1]
        token = lambda n: ask(f"/join?nonce={n}&key={m.id}", method="POST", data=b"")
        # Whoever has only heard of its id gets nothing while the node runs.
        wait_for("n1 has its Lease", lambda: site.c.kubectl("-n", "kube-node-lease", "get", "lease", "n1", "-o", "name", check=False), 60)
        assert token("0" * 32) == 403 and token(nonce) == 503 and token(nonce) == 503
        site.c.kill("n1")
        t = json.loads(wait_for("its Lease is over", lambda: (got := token(nonce)) != 503 and got, 30))
        assert token(nonce) == 403 and token("0" * 32) == 403
        spec = site.record(t)["spec"]
        assert (spec["node"], spec["machine"], spec["again"], spec["labels"]) == ("n1", m.id, True, {"tandem.dev/image": "v2"})
        # n1 is there, from before: it is this machine's from its next boot on, and gets no label before.
        assert "OtherName" in m.join(t, "--name", "n0", code=1) and "Node n1 of" in m.join(t, "--name", "n1")
        assert site.status(t)["phase"] == "Used" and site.status(t)["bootID"]
        assert "tandem.dev/image" not in json.loads(site.c.kubectl("get", "node", "n1", "-o", "json"))["metadata"]["labels"]
        # It died before its kubelet was there: after the next boot it has another key and token, and the one before ends.
        first, m = t, site.machine("diskless-again")
        nonce = re.search("tandem.nonce=(\\S+)", ask(f"/machine.ipxe?id={uuid}"))[1]
        t = json.loads(wait_for("its Lease is over", lambda: (got := token(nonce)) != 503 and got, 30))
        assert "Node n1 of" in m.join(t, "--name", "n1")
        wait_for("the first one has ended", lambda: site.status(first)["phase"] == "Expired", 30)
        # As its kubelet says after a boot.
        site.c.kubectl("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", '{"status": {"nodeInfo": {"bootID": "another"}}}')
        wait_for("it has joined", lambda: site.status(t)["phase"] == "Joined", 30)
        wait_for("the node says its image", lambda: re.search(r"^n1 .* image v2$", site.run("nodes", "--kubeconfig", site.c.kubeconfig), re.M), 30)
    finally:
        p.terminate()
        p.wait(30)
