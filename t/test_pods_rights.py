"""What a container on an embedded node may do and what it is limited to: securityContext, limits, names and networks."""
import json
import os
import pathlib

import pytest

from harness import wait_for
from podplane import IMAGE, condition, ended, plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")


def lines(text):
    return dict(l.split("=", 1) for l in text.splitlines() if "=" in l)


STATUS = "sed -n 's/^\\(CapEff\\|CapBnd\\|NoNewPrivs\\|Seccomp\\|Groups\\|Uid\\|Gid\\):[ \\t]*/\\1=/p' /proc/self/status"


def bits(*names):
    order = ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
             "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE"]
    return "%016x" % sum(1 << order.index(n) for n in names)


def test_users_groups_and_fsgroup(plane):
    vols = dict(volumes=[{"name": "d", "emptyDir": {}}, {"name": "c", "configMap": {"name": "rights", "defaultMode": 0o400}}],
                volumeMounts=[{"name": "d", "mountPath": "/d"}, {"name": "c", "mountPath": "/c"}])
    plane.make("configmaps", "rights", data={"k": "v"})
    script = f"{STATUS}; echo id=$(id -u):$(id -g); touch /d/f && stat -c file=%u:%g /d/f; stat -c dir=%g:%a /d; cat /c/k; echo; touch /root/x 2>/dev/null || echo root=no; echo home=$HOME"
    with plane.pod(script, "user", securityContext_pod={"runAsUser": 1234, "runAsGroup": 99, "fsGroup": 777, "supplementalGroups": [50, 60]}, **vols) as name:
        got = lines(plane.output(name))
        assert got["Uid"].split() == ["1234"] * 4 and got["Gid"].split() == ["99"] * 4 and sorted(got["Groups"].split(), key=int) == ["50", "60", "99", "777"]
        assert got["id"] == "1234:99" and got["file"] == "1234:777" and got["dir"] == "777:2777" and got["root"] == "no" and got["CapEff"] == "0" * 16 and got["home"] == "/"
    # the container's own context wins; without one the image's user, root
    with plane.pod(STATUS, "user2", securityContext_pod={"runAsUser": 1, "runAsGroup": 2}, securityContext={"runAsUser": 3}) as name:
        got = lines(plane.output(name))
        assert got["Uid"].split()[0] == "3" and got["Gid"].split()[0] == "2"
    with plane.pod("true", "nonroot", securityContext={"runAsNonRoot": True}) as name:
        assert "runAsNonRoot" in plane.refused(name)


def test_capabilities_and_escalation(plane):
    base = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT")
    cases = {"drop": ({"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "CAP_CHOWN"]}}, bits("NET_ADMIN", "CHOWN")),
             "none": ({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}, "0" * 16),
             "some": ({"capabilities": {"drop": ["MKNOD", "SETFCAP", "AUDIT_WRITE"]}}, bits(*base))}
    script = STATUS + "; touch /x 2>/dev/null && echo rootfs=rw || echo rootfs=ro"
    names = {k: plane.name(k) for k in cases}
    for k, (ctx, _) in cases.items():
        plane.post(names[k], plane.spec(script, securityContext=ctx))
    for k, (ctx, want) in cases.items():
        got = lines(plane.output(names[k]))
        assert got["CapEff"] == want and got["CapBnd"] == want, k
        assert got["NoNewPrivs"] == ("1" if k == "none" else "0") and got["rootfs"] == ("ro" if k == "none" else "rw")
    with plane.pod("true", "badcap", securityContext={"capabilities": {"add": ["FLY"]}}) as name:
        assert 'unknown capability "FLY"' in plane.refused(name)


def test_seccomp(plane):
    """RuntimeDefault filters what containers have no business with; Unconfined and nothing do not."""
    script = STATUS + "; unshare -U true 2>&1 | grep -q . && echo userns=no || echo userns=yes; echo x | cat >/dev/null && perl -e 'exit 0' && echo works=yes"
    for ctx, mode, userns in (({"seccompProfile": {"type": "RuntimeDefault"}}, "2", "no"), ({"seccompProfile": {"type": "Unconfined"}}, "0", None), ({}, "0", None)):
        for kw in ({"securityContext": ctx}, {"securityContext_pod": ctx}):
            with plane.pod(script, "seccomp", **kw) as name:
                got = lines(plane.output(name))
                assert got["Seccomp"] == mode and got["works"] == "yes" and (userns is None or got["userns"] == userns), (ctx, got)


@pytest.mark.feature("D3.9")
def test_a_namespaces_filter_of_system_calls_cannot_be_lifted(plane):
    """A profile of the site's own (localhostProfile) holds for a pod that says nothing, and for what is run in it later; pods of other namespaces are free."""
    (pathlib.Path(plane.home) / "seccomp").mkdir(exist_ok=True)
    (pathlib.Path(plane.home) / "seccomp/quiet.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mknod", "mknodat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    script = "mkfifo /tmp/p; echo fifo=$?; exec sleep 1000"
    plane.kubectl("annotate", "namespace", "default", "tandem.dev/seccomp=localhost/quiet.json")
    try:
        for k, ctx in (("securityContext", {"privileged": True}), ("securityContext", {"seccompProfile": {"type": "Unconfined"}}), ("securityContext_pod", {"seccompProfile": {"type": "RuntimeDefault"}})):
            assert "have the filter of system calls localhost/quiet.json" in plane.post(plane.name("lifts"), plane.spec("true", **{k: ctx}), want=(403,))["message"]
        with plane.pod(script, "filtered") as name:
            assert plane.running(name) and plane.pod_of(name)["spec"]["securityContext"]["seccompProfile"] == {"type": "Localhost", "localhostProfile": "quiet.json"}
            plane.said(name, "fifo=1")
            assert "fifo=1" in plane.ex(name, "sh", "-c", "mkfifo /tmp/q 2>/dev/null; echo fifo=$?")
    finally:
        plane.kubectl("annotate", "namespace", "default", "tandem.dev/seccomp-")
    with plane.pod(script, "free") as name:
        plane.said(name, "fifo=0")
    with plane.pod("true", "none", securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "../up.json"}}) as name:
        assert "is no name of a profile" in plane.refused(name)


def test_privileged(plane):
    script = f"{STATUS}; [ -w /proc/sys/kernel/hostname ] && echo sys=yes; true"
    with plane.pod(script, "priv", securityContext={"privileged": True}) as name:
        got = lines(plane.output(name))
        assert got["sys"] == "yes" and int(got["CapEff"], 16) > int(bits("SYS_PTRACE"), 16)


def test_limits_become_cgroup_values(plane):
    res = {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}}
    with plane.pod("sleep 1000", "limits", resources=res) as name:
        cid = state(plane.running(name))["containerID"].removeprefix("tandem://")
        files = {"v1": {"cpu/{}/cpu.cfs_quota_us": "150000", "cpu/{}/cpu.cfs_period_us": "100000", "cpu/{}/cpu.shares": "256", "memory/{}/memory.limit_in_bytes": str(64 << 20)},
                 "v2": {"{}/cpu.max": "150000 100000", "{}/memory.max": str(64 << 20)}}["v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "v1"]
        got = {f: open("/sys/fs/cgroup/" + f.format(f"tandem-{plane.id}/{cid}")).read().strip() for f in files}
        assert got == files
        assert plane.pod_of(name)["status"]["qosClass"] == "Burstable"
    for res, qos in (({}, "BestEffort"), ({"limits": {"cpu": "1", "memory": "64Mi"}}, "Guaranteed")):
        with plane.pod("true", "qos", resources=res) as name:
            assert plane.over(name)["status"]["qosClass"] == qos


@pytest.mark.feature("D8.3")
def test_a_tenants_pods_have_a_limit_of_the_disk(plane):
    """The namespace of a Tenant with spec.ephemeralStorage (the operator writes the annotation): whoever says nothing has it, and nobody has more."""
    plane.kubectl("annotate", "namespace", "default", "tandem.dev/ephemeral-storage=3Mi")
    try:
        m = plane.post(plane.name("more"), plane.spec("true", resources={"limits": {"ephemeral-storage": "4Mi"}}), want=(403,))["message"]
        assert "may hold 3Mi of a node's disk, as its Tenant says: write no more than that" in m, m
        m = plane.post(plane.name("shm"), plane.spec("true", volumes=[{"name": "s", "emptyDir": {"medium": "Memory"}}]), want=(403,))["message"]
        assert "write its sizeLimit" in m, m
        with plane.pod("head -c 6000000 /dev/zero > /f; sleep 1000", "theirs", resources={"limits": {"cpu": "1"}}) as name:
            p = plane.over(name)
            assert 'ephemeral storage limit "3Mi"' in p["status"]["message"]
            assert p["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1", "ephemeral-storage": "3Mi"}, "requests": {"cpu": "1", "ephemeral-storage": "0"}}
    finally:
        plane.kubectl("annotate", "namespace", "default", "tandem.dev/ephemeral-storage-")


@pytest.mark.feature("D8.3")
def test_disk_limits(plane):
    """ephemeral-storage: the writable layer and the log count."""
    with plane.pod("head -c 6000000 /dev/zero > /f; sleep 1000", "disk", resources={"limits": {"ephemeral-storage": "3Mi"}}) as name:
        p = plane.over(name)
        assert (p["status"]["phase"], p["status"]["reason"]) == ("Failed", "Evicted") and 'Container c exceeded its local ephemeral storage limit "3Mi"' in p["status"]["message"]


@pytest.mark.feature("D8.2")
def test_dev_shm_and_proc(plane):
    script = "df -k /dev/shm | awk 'END { print \"shm=\" $2 }'; cat /proc/sys/kernel/hostname; echo w > /proc/sys/kernel/hostname 2>/dev/null || echo sys=ro; wc -c < /proc/kcore; echo pid=$(cut -d' ' -f1 /proc/1/stat); ls -d /dev/[a-z]* | tr '\\n' ' '"
    with plane.pod(script, "shm") as name:
        out = plane.output(name)
        got = lines(out)
        assert got["shm"] == "65536" and got["sys"] == "ro" and out.splitlines()[1] == name
        assert "/dev/sda" not in out and "/dev/kmsg" not in out and "/dev/null" in out and "tandem-gpu" not in out
    # an emptyDir in memory makes it larger, as people do it
    with plane.pod("df -k /dev/shm | awk 'END { print $2 }'", "bigshm", volumes=[{"name": "s", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}}], volumeMounts=[{"name": "s", "mountPath": "/dev/shm"}]) as name:
        assert plane.output(name).strip() == "131072"


def test_names_of_the_pod(plane):
    script = "echo host=$(hostname); echo fqdn=$(hostname -f 2>/dev/null); cat /etc/resolv.conf; cat /etc/hosts | grep -c localhost"
    plane.call("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "sub"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 1}]}})
    with plane.pod(script, "names", hostname="web-7", subdomain="sub") as name:
        got = lines(plane.output(name))
        assert got["host"] == "web-7" and got["fqdn"] == "web-7.sub.default.svc.cluster.local"
    with plane.pod("hostname", "fqdn", hostname="h", subdomain="sub", setHostnameAsFQDN=True) as name:
        assert plane.output(name).strip() == "h.sub.default.svc.cluster.local"
    dns = {"nameservers": ["10.1.2.3"], "searches": ["a.example", "b.example"], "options": [{"name": "ndots", "value": "3"}, {"name": "edns0"}]}
    for policy in ("None", "ClusterFirst"):
        with plane.pod("cat /etc/resolv.conf", "dns", dnsPolicy=policy, dnsConfig=dns) as name:
            assert plane.output(name) == "nameserver 10.1.2.3\nsearch a.example b.example\noptions ndots:3 edns0\n"
    with plane.pod("cat /etc/resolv.conf", "dns", dnsPolicy="Default") as name:
        assert plane.output(name) == open("/etc/resolv.conf").read()
    with plane.pod("wc -c < /etc/resolv.conf", "dns") as name:  # names are in the hosts file; unknown ones fail at once
        assert plane.output(name).strip() == "0"


def test_etc_hostname(plane):
    """As a runtime beside a kubelet makes it: seen on a real one."""
    script = "stat -c %a:%u /etc/hostname; cat /etc/hostname; hostname; echo $HOSTNAME; echo mine > /etc/hostname && cat /etc/hostname; hostname"
    with plane.pod(script, "own") as name:
        assert plane.output(name).split() == ["644:0", name, name, name, "mine", name]
    with plane.pod("cat /etc/hostname; echo x > /etc/hostname", "ro", hostname="web", securityContext={"readOnlyRootFilesystem": True}) as name:
        assert plane.over(name)["status"]["phase"] == "Failed" and plane.text(name).split()[0] == "web" and "Read-only" in plane.text(name)
    with plane.pod("cat /etc/hostname; hostname", "long", hostname="h", subdomain="sub", setHostnameAsFQDN=True) as name:
        assert plane.output(name).split() == ["h.sub.default.svc.cluster.local"] * 2
    with plane.pod("cat /etc/hostname; hostname; echo $HOSTNAME", "node", hostname="web", hostNetwork=True, nodeName="n1") as name:
        assert plane.output(name).split() == ["n1"] * 3
    plane.make("configmaps", "names", data={"hostname": "of-the-volume"})
    with plane.pod("cat /etc/hostname", "vol", volumes=[{"name": "v", "configMap": {"name": "names"}}], volumeMounts=[{"name": "v", "mountPath": "/etc/hostname", "subPath": "hostname"}]) as name:
        assert plane.output(name) == "of-the-volume"
    # One file for all containers of a pod.
    two = [{"name": n, "image": IMAGE, "command": ["sh", "-c", s]} for n, s in (("a", "echo told > /etc/hostname; sleep 1000"), ("b", "until grep -q told /etc/hostname; do sleep 0.05; done; echo seen; sleep 1000"))]
    with plane.pod(stem="both", containers=two) as name:
        plane.running(name)
        wait_for("b sees it", lambda: "seen" in plane.text(name, container="b"))


def test_networks(plane):
    with plane.pod("cat /proc/net/route | wc -l; ls /sys/class/net", "net") as name:
        assert plane.output(name).split()[1:] == ["eth0", "lo"]
    with plane.pod("ls /sys/class/net; hostname; sleep 1000", "hostnet", hostNetwork=True, nodeName="n1") as name:
        p = plane.running(name)
        assert p["status"]["podIP"] == p["status"]["hostIP"]
        wait_for("its text", lambda: plane.text(name))
        assert plane.instance["switch"] in plane.text(name).split() if "switch" in plane.instance else "eth0" in plane.text(name) or "lo" in plane.text(name)
    # pods reach each other and the machine, over nodes
    with plane.pod("exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => 7000, Listen => 5) or die; while ($c = $s->accept) { print $c \"hello\\n\"; close $c }'", "srv", nodeName="n0") as srv:
        ip = plane.running(srv)["status"]["podIP"]
        ask = f"until bash -c 'cat < /dev/tcp/{srv}/7000'; do sleep 0.1; done"
        with plane.pod(ask, "cli", nodeName="n1") as cli:
            assert "hello" in plane.output(cli) and ip.split(".")[2] == "1"
