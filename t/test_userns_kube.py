"""User namespaces of pods by a real kubelet: what a Tenant's pods and the gateway's sessions are on their node, and what they have there.

Needs containerd 2: tools/kube-assets containerd2; TANDEM_KUBE_RUNTIME=containerd2 pytest t/test_userns_kube.py --plane real -m hand"""
import json
import os
import pathlib
import subprocess

import pytest
import yaml

from harness import wait_for
from laptop import tenant
from test_gateway_cluster import Away, door  # noqa: F401 (a fixture)
from test_policy import POLICIES

pytestmark = [pytest.mark.real, pytest.mark.hand, pytest.mark.feature("D8.1")]

# In the mount namespace of a node: a /dev of its own, where its fake GPUs lie as real ones do. Into a user namespace runc binds the device file of the
# node that has the path that it has in the container, and never makes one.
OWN_DEV = """mkdir /run/dev; mount -t tmpfs -o mode=755,dev dev /run/dev
for f in /dev/*; do if [ -L $f ] || [ -c $f ]; then cp -a $f /run/dev; fi; done
for d in pts shm mqueue; do [ ! -d /dev/$d ] || { mkdir /run/dev/$d; mount --rbind /dev/$d /run/dev/$d; }; done
for g in 0 1 2 3 4 5 6 7; do cp -a /run/tandem-fake/gpu$g /run/dev/tandem-gpu$g; done
mount --rbind /run/dev /dev"""
SAYS = ("read _ base n < /proc/self/uid_map; echo base=$base n=$n uid=$(id -u); for g in 0 1 2 3 4 5 6 7; do [ ! -e /dev/tandem-gpu$g ] || (: </dev/tandem-gpu$g) 2>&1 | grep -q permitted || echo gpu=$g; done; "
        "mknod /tmp/kmsg c 1 11 2>/dev/null || echo mknod=no; touch $PLACE/made-$NAME && stat -c made=%u $PLACE/made-$NAME; echo x 2>/dev/null >/proc/sys/kernel/core_pattern || echo sysctl=no; echo said=all")


def said(text):
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


@pytest.fixture(scope="module")
def pool(shared_pool):
    p = shared_pool
    if not p.cluster.runtime:
        pytest.skip("Debian's containerd 1.7 has no user namespaces for pods: TANDEM_KUBE_RUNTIME=containerd2")
    for node in p.nodes:
        subprocess.run([*map(str, p.cluster.inside(node)), "sh", "-ec", OWN_DEV], check=True, timeout=60)
    return p


def test_a_tenants_pod(pool):
    """Root in it is a number without rights outside; it has the devices that Slurm gave it, and volumes with the owners that they have."""
    pool.apply(*[d for d in yaml.safe_load_all(POLICIES.read_text()) if d and d["kind"].startswith("ValidatingAdmissionPolicy") and d["metadata"]["name"] == "tandem-user-namespaces"])
    pool.apply(tenant("apart", [{"user": "pods", "role": "member"}], namespaces=["apart"], userNamespaces=True, podSecurity="privileged"))
    try:
        wait_for("the Tenant says it of its namespace", lambda: "tandem.dev/user-namespaces" in pool.kubectl("get", "namespace", "apart", "-o", "yaml", check=False))
        claims = pool.claim_template(2)
        claims["metadata"]["namespace"] = "apart"
        pool.apply(claims)
        p = pool.pod("rooted", 2, ns="apart", volumes=[{"name": "h", "hostPath": {"path": "/srv/home"}}, {"name": "e", "emptyDir": {}}])
        main = p["spec"]["containers"][0]
        main.update(command=["sh", "-c", f"{SAYS}; exec sleep 100000"], env=[{"name": "PLACE", "value": "/h"}, {"name": "NAME", "value": "rooted"}],
                    volumeMounts=[{"name": "h", "mountPath": "/h"}, {"name": "e", "mountPath": "/e"}])
        wait_for("whoever does not say it is refused", lambda: "write hostUsers: false" in pool.run("kubectl", "create", "-f", "-", "--dry-run=server", input=json.dumps(p), check=False).stderr)
        p["spec"]["hostUsers"] = False
        pool.apply(p)
        wait_for("it runs", lambda: pool.phase("rooted", "apart") == "Running")
        got = wait_for("it has said all", lambda: (g := said(pool.kubectl("logs", "-n", "apart", "rooted"))).get("said") and g)
        base = int(got["base"])
        assert base >= 65536 and got["n"] == "65536" and (got["uid"], got["made"], got["mknod"], got["sysctl"]) == ("0", "0", "no", "no"), got
        pod = pool.get("pod", "rooted", "-n", "apart")
        _, node, indexes = pool.grant(pod)
        assert sorted(pool.kubectl("exec", "-n", "apart", "rooted", "--", "sh", "-c", "ls /dev | grep tandem-gpu").split()) == sorted(f"tandem-gpu{i}" for i in indexes)
        assert os.stat(f"{pool.shared_dir}/made-rooted").st_uid == 0  # the volume has the owners that it has; the pod's own files have not
        pid = next(pid for cmd, pid in pool.inits(node).items() if "exec sleep 100000" in cmd or cmd.startswith("sleep 100000") and os.stat(f"/proc/{pid}").st_uid == base)
        assert os.stat(f"/proc/{pid}").st_uid == base and os.stat(f"/proc/{pid}/root/etc/hostname").st_uid in (0, base)
        assert said(pool.kubectl("exec", "-n", "apart", "rooted", "--", "sh", "-c", "read _ b n < /proc/self/uid_map; echo b=$b uid=$(id -u)")) == {"b": str(base), "uid": "0"}
        print("seen:", got, sorted(indexes), pathlib.Path(f"/proc/{pid}/uid_map").read_text().split())
    finally:
        pool.kubectl("delete", "tenants", "apart", "--wait=false", "--ignore-not-found")
        pool.kubectl("delete", "namespace", "apart", "--wait=false", "--ignore-not-found")


def test_a_session(pool, door, tmp_path):
    me = Away(pool, tmp_path / "me", "researcher", *door)
    pool.kubectl("annotate", "namespace", "sessions-researcher", "tandem.dev/user-namespaces=required")
    s = me.json("session", "start", "shell", "--gpus", "1")
    w = me.tty(s["id"])
    w.send(f"PLACE=$HOME NAME=session sh -c '{SAYS.replace(chr(39), '')}'\n".encode())
    got = said(w.until(b"said=all\r\n").decode())
    assert int(got["base"]) >= 65536 and (got["uid"], got["made"], got["mknod"]) == ("1000", "1000", "no"), got
    assert os.stat(f"{pool.shared_dir}/researcher/made-session").st_uid == 1000
    assert "hostUsers: false" in pool.kubectl("get", "pod", f"session-{s['id']}", "-n", "sessions-researcher", "-o", "yaml")
    me.run("session", "stop", s["id"])
    print("seen:", got)
