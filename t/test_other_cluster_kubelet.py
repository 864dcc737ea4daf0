"""The real Kubernetes of the real plane is its own other cluster: its API server takes the copies as any other cluster's would, and asks the operator for
logs and exec of the pods on their Nodes, as it asks a kubelet (docs/other-cluster.md)."""
import base64
import json
import re
import socket
import ssl
import struct
import subprocess

import pytest

from harness import ROOT, wait_for
from wsclient import WebSocket

pytestmark = [pytest.mark.feature("D5.4"), pytest.mark.real]
SERVE = "use IO::Socket::INET; my \\$s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5) or die; while (my \\$c = \\$s->accept) { my \\$l = <\\$c>; print \\$c \\$l; close \\$c }"


def kubeconfig(pool):
    admin = json.loads(pool.kubectl("config", "view", "--raw", "-o", "json", "--flatten"))
    cluster = admin["clusters"][0]["cluster"]
    token = pool.kubectl("create", "token", "pool", "-n", "tandem").strip()
    return {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {k: cluster[k] for k in ("server", "certificate-authority-data")}}],
            "users": [{"name": "u", "user": {"token": token}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}


def asked(pool, path, token=None, cert=None):
    """The status of a request to the operator, as somebody might send it who is no API server."""
    context = ssl.create_default_context(cafile=pool.cluster.dir / "pki/ca.crt")
    if cert:
        context.load_cert_chain(*cert)
    with socket.create_connection((pool.cluster.outside, 7414), timeout=60) as plain, context.wrap_socket(plain, server_hostname=pool.cluster.outside) as c:
        c.sendall((f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "") + "\r\n").encode())
        return int(re.match(rb"HTTP/1.1 (\d+)", c.recv(4096))[1])


@pytest.mark.nightly
def test_a_real_cluster_is_another_one(pool, tmp_path):
    pki = pool.cluster.dir / "pki"
    pool.kubectl("label", "node", "n2", "example.com/for=pool")
    pool.kubectl("apply", "-f", ROOT / "deploy/examples/other-cluster.yaml")
    try:
        pool.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east", "namespace": "slurm"}, "stringData": {"kubeconfig": json.dumps(kubeconfig(pool))}},
                   {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "east", "namespace": "slurm"},
                    "spec": {"clusterName": "main", "otherCluster": {"kubeconfigSecret": "east", "nodeSelector": {"example.com/for": "pool"}}}},
                   {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}, "stringData": {"word": "mine"}})
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"partitions": [{"name": "all", "default": True}, {"name": "east", "nodeSets": ["east"]}]}}))
        wait_for("Slurm has its node", lambda: pool.shell("sinfo", "-h", "-N", "-p", "east", "-o", "%N %T").split() == ["east-n2", "idle"])
        p = pool.pod("talks", 0, cpu="200m", command=["bash", "-c", f'echo "hello $WORD"; exec perl -e "{SERVE}"'], restartPolicy="Never", volumes=[{"name": "k", "secret": {"secretName": "key"}}])
        p["metadata"]["labels"], p["metadata"]["annotations"] = {"tandem.dev/other-cluster": "east"}, {"slurm.tandem.dev/partition": "east"}
        p["spec"]["containers"][0].update(volumeMounts=[{"name": "k", "mountPath": "/k"}], env=[{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "word"}}}])
        pool.apply(p)
        wait_for("it runs", lambda: pool.get("pod", "talks", "-n", "default")["status"].get("phase") == "Running")
        assert [c["spec"]["nodeName"] for c in pool.items("pods", "-n", "tandem")] == ["n2"]
        assert pool.kubectl("logs", "talks") == "hello mine\n"
        r = pool.run("kubectl", "exec", "-i", "talks", "--", "bash", "-c", "cat - /k/word; echo err >&2; exit 3", input="in\n", check=False)
        assert (r.returncode, r.stdout) == (3, "in\nmine") and "err" in r.stderr
        f = subprocess.Popen(["kubectl", "port-forward", "talks", ":8080"], env=pool.env, stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+) ->", f.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as c:
                c.sendall(b"through both\n")
                assert c.recv(100) == b"through both\n"
        finally:
            f.kill()
            f.wait()
        # The gateway comes so to sessions there: one connection to a port, without SPDY.
        user = json.loads(pool.kubectl("config", "view", "--raw", "-o", "json", "--flatten"))["users"][0]["user"]
        for name, what in (("crt", "client-certificate-data"), ("key", "client-key-data")):
            (tmp_path / name).write_bytes(base64.b64decode(user[what]))
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        server = json.loads(pool.kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]["server"].split("://")[1]
        w = WebSocket(server, "/api/v1/namespaces/default/pods/talks/portforward?ports=8080", {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, tls=context)
        assert w.status == 101, w.head
        w.send(b"\0as the gateway does\n")
        # First each channel says the port; then come the bytes, and with the connection it ends.
        said = w.until(b"as the gateway does\n")
        assert said.replace(b"\1" + struct.pack("<H", 8080), b"") == b"\0" + struct.pack("<H", 8080) + b"\0as the gateway does\n"
        try:
            assert w.receive()[0] == 8
        except EOFError:
            pass

        # Nobody else comes in by the operator's port: not without a name, not with one that may not use nodes/proxy, not with a certificate of his own.
        container = pool.get("pod", "talks", "-n", "default")["spec"]["containers"][0]["name"]
        logs = f"/containerLogs/default/talks/{container}"
        token = pool.kubectl("create", "token", "pool", "-n", "tandem").strip()
        assert (asked(pool, logs), asked(pool, logs, token="x.y.z"), asked(pool, logs, token=token)) == (401, 401, 403)
        assert asked(pool, "/containerLogs/default/nowhere/c", token=token) == 403  # and he does not learn which pods there are
        client = (pki / "kubelet-client.crt", pki / "kubelet-client.key")
        assert (asked(pool, logs, cert=client), asked(pool, "/pods", cert=client), asked(pool, "/containerLogs/default/nowhere/c", cert=client)) == (200, 404, 404)

        pool.kubectl("delete", "pod", "talks", "--wait=false")
        wait_for("nothing is left there", lambda: not pool.items("pods", "-n", "tandem") and not pool.items("secrets", "-n", "tandem", "-l", "tandem.dev/from-nodeset"))
    finally:
        pool.kubectl("delete", "nodeset", "east", "-n", "slurm", "--ignore-not-found")
        pool.change({"partitions": None}, idle=False)
        pool.kubectl("delete", "secret", "east", "-n", "slurm", "--ignore-not-found")
        pool.kubectl("delete", "secret", "key", "--ignore-not-found")
        pool.kubectl("delete", "-f", ROOT / "deploy/examples/other-cluster.yaml", "--ignore-not-found")
        pool.kubectl("label", "node", "n2", "example.com/for-")
        wait_for("the pool is as it was", lambda: sorted(pool.shell("sinfo", "-h", "-N", "-o", "%N").split()) == sorted(pool.nodes))
