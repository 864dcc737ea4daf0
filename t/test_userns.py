"""spec.hostUsers: false on embedded nodes: root inside is not root outside, and everything that pods have works as before."""
import os
import pathlib
import signal
import stat

import pytest

from harness import wait_for
from podplane import plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("D8.1")

WORLD = {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {"name": "un", "defaultMode": 0o400}},
                     {"name": "s", "secret": {"secretName": "un", "defaultMode": 0o400}}, {"name": "h", "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}},
                     {"name": "p", "projected": {"sources": [{"configMap": {"name": "un"}}, {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
                     {"name": "v", "persistentVolumeClaim": {"claimName": "un"}}],
         "volumeMounts": [{"name": n, "mountPath": "/" + n} for n in "emcshpv"] + [{"name": "e", "mountPath": "/sub", "subPath": "x/y"}, {"name": "h", "mountPath": "/ro", "readOnly": True}]}


def mapping(pid):
    """uid 0's number outside, and how many follow."""
    inside, outside, n = map(int, pathlib.Path(f"/proc/{pid}/uid_map").read_text().split())
    assert inside == 0 and pathlib.Path(f"/proc/{pid}/gid_map").read_text().split() == [str(inside), str(outside), str(n)]
    return outside, n


def init_of(plane, name):
    cid = state(plane.running(name))["containerID"].removeprefix("tandem://")
    return int((pathlib.Path(plane.home) / f"pods/{cid}/pid").read_text())


def lines(text):
    return dict(l.split("=", 1) for l in text.splitlines() if "=" in l)


def test_volumes_are_as_without(plane):
    """The same script says the same with and without a user namespace, and what it leaves on disk has the same owners."""
    plane.make("configmaps", "un", data={"k": "v"})
    plane.make("secrets", "un", stringData={"k": "geheim"})
    plane.call("POST", "/api/v1/namespaces/default/persistentvolumeclaims",
               {"metadata": {"name": "un"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
    script = ("for d in e m h v sub; do touch /$d/f-$HOSTNAME && chown 5:6 /$d/f-$HOSTNAME && stat -c \"$d=%u:%g\" /$d/f-$HOSTNAME; done; for f in c/k s/k p/k; do stat -Lc $f=%u:%g:%a /$f; cat /$f; echo; done; "
              "stat -c 'passwd=%u:%g' /etc/passwd; stat -c 'tmp=%u:%a' /tmp; touch /ro/x 2>/dev/null || echo ro=yes; touch /c/x 2>/dev/null || echo cro=yes; echo x >> /etc/hostname && echo hostname=rw; "
              "echo y > /dev/null && echo null=ok; echo done > /dev/termination-log && echo term=ok; chown 7:8 /etc/passwd && stat -c 'up=%u:%g' /etc/passwd; ls /dev/pts >/dev/null && echo pts=ok; "
              "echo shm > /dev/shm/x && echo shm=ok; test -r /sys/fs/cgroup && test -d /sys/class && test -r /proc/meminfo && echo sys=ok; echo ids=$(id -u):$(id -g)")
    got = {}
    for users in (True, False):
        with plane.pod(script, "vol", hostUsers=users, hostname="h%d" % users, **WORLD) as name:
            got[users] = plane.output(name)
            disk = pathlib.Path(plane.home)
            for where in (f"nodes/n{plane.pod_of(name)['spec']['nodeName'][1:]}/root/data", "shared/claims/default/un"):
                st = os.stat(disk / where / ("f-h%d" % users))
                assert (st.st_uid, st.st_gid) == (5, 6), where
    assert got[False].replace("h0", "h1") == got[True] and lines(got[False])["sub"] == "5:6" and "geheim" in got[False], got
    assert len(lines(got[False])) >= 20, got[False]


def test_root_inside_is_nobody_outside(plane):
    """Two pods have ranges that do not meet. Root in one has its rights only in there: no devices, modules, mounts of the machine, nor files of it."""
    every = {"capabilities": {"add": ["ALL"]}}
    script = ("mknod /tmp/kmsg c 1 11 2>/dev/null || echo mknod=no; chown 1:1 /.init 2>/dev/null || echo init=no; chmod 777 /.init 2>/dev/null || echo chmod=no; "
              "perl -e 'exit(syscall(175, 0, 0, 0) == -1 && ($! + 0 == 1 || $! + 0 == 38) ? 0 : 1)' && echo module=no; "
              "[ -e /proc/sys/kernel/core_pattern ] && { echo x 2>/dev/null > /proc/sys/kernel/core_pattern || echo sysctl=no; }; date -s 2001-01-01 >/dev/null 2>&1 || echo clock=no; perl -e 'exit(syscall(165, my $d = \"/dev/vda\", my $m = \"/mnt\", my $t = \"ext4\", 0, 0) == -1 ? 0 : 1)' && echo disk=no; "
              "for f in $(ls /sys/fs/cgroup/devices/devices.allow /sys/fs/cgroup/cgroup.procs 2>/dev/null); do echo a 2>/dev/null > $f || echo cgroup=no; done; "
              "perl -e 'exit(syscall(165, my $d = \"t\", my $m = \"/mnt\", my $t = \"tmpfs\", 0, 0) == 0 ? 0 : 1)' && echo own=yes; ip link set lo down && ip link set lo up && echo net=yes; cat /proc/self/uid_map | tr -s ' ' ' ' | sed 's/^/map=/'; echo up; exec sleep 1000")
    with plane.pod(script, "one", hostUsers=False, securityContext=every) as one, plane.pod(script, "two", hostUsers=False, securityContext=every) as two, plane.pod("sleep 1000", "host") as host:
        maps = []
        for name in (one, two):
            plane.said(name, "up")
            pid = init_of(plane, name)
            base, n = mapping(pid)
            assert n == 65536 and base >= 524288 and os.stat(f"/proc/{pid}").st_uid == base
            maps.append(base)
            got = lines(plane.text(name))
            assert {k: got[k] for k in ("mknod", "init", "chmod", "module", "sysctl", "clock", "disk", "cgroup")} == dict.fromkeys(("mknod", "init", "chmod", "module", "sysctl", "clock", "disk", "cgroup"), "no"), got
            assert got["own"] == "yes" and got["net"] == "yes" and got["map"].split()[1] == str(base)
        assert abs(maps[0] - maps[1]) >= 65536
        assert os.stat(f"/proc/{init_of(plane, host)}").st_uid == 0
        # what it writes beside its volumes is not root's on the machine either
        plane.ex(one, "sh", "-c", "cp /bin/sh /tmp/rootsh; chmod 4755 /tmp/rootsh")
        cid = state(plane.running(one))["containerID"].removeprefix("tandem://")
        assert os.stat(pathlib.Path(plane.home) / f"pods/{cid}/upper/tmp/rootsh").st_uid == maps[0]
        # and what is run in it later is in there as well
        assert plane.ex(one, "sh", "-c", "echo $(id -u) > /dev/stdout; grep -c ' 524' /proc/self/uid_map || cat /proc/self/uid_map").startswith("0")


@pytest.mark.parametrize("uid", (0, 1000))
def test_what_any_program_may_do(plane, uid):
    """Whoever it runs as: it opens its /dev/stdout by name, as programs do that log there, and pings without NET_RAW."""
    rights = {"runAsUser": uid, "runAsGroup": uid, "capabilities": {"drop": ["ALL"]}}
    script = "echo out=yes > /dev/stdout; echo err=yes > /dev/stderr; perl -e 'socket(my $s, 2, 2, 1) && print \"ping=yes\\n\"'"
    for users in (True, False):
        with plane.pod(script, "any", hostUsers=users, securityContext=rights) as name:
            assert lines(plane.output(name)) == {"out": "yes", "err": "yes", "ping": "yes"}, users


def test_its_devices_and_no_others(plane):
    """A device file that lies in a volume opens nothing that the pod does not hold: the rules of the cgroup are the same."""
    with plane.pod("sleep 1000", "gpu", hostUsers=False, resources={"limits": {"nvidia.com/gpu": "1"}}, volumes=[{"name": "e", "emptyDir": {}}], volumeMounts=[{"name": "e", "mountPath": "/e"}]) as name:
        plane.running(name)
        major, minor = map(int, plane.ex(name, "sh", "-c", "stat -c '%Hr %Lr' /dev/tandem-gpu*").split())
        e = pathlib.Path(plane.home) / f"agent/volumes/{plane.pod_of(name)['metadata']['uid']}/v/e"
        for n in (minor, minor + 1):
            os.mknod(e / str(n), 0o666 | stat.S_IFCHR, os.makedev(major, n))
            os.chmod(e / str(n), 0o666)
        said = plane.ex(name, "sh", "-c", f"cat /dev/tandem-gpu* /e/{minor} /e/{minor + 1} 2>&1; true").splitlines()
        assert [l.rsplit(": ", 1)[1] for l in said] == ["No such device or address"] * 2 + ["Operation not permitted"], said  # there is no driver here


def test_ranges_survive_the_agent_and_are_freed(plane):
    """The kubelet is killed and comes again: the pod has its range, a container that starts anew is in the same one, no other pod gets it; at its end it is free."""
    def alone():
        wait_for("the pods before are gone", lambda: not list((pathlib.Path(plane.home) / "agent/pods").glob("*.json")))
    alone()
    with plane.pod("sleep 1000", "stays", hostUsers=False, restartPolicy="Always") as name:
        pid = init_of(plane, name)
        mine = mapping(pid)
        plane.kill_role("kubelet")
        with plane.pod("sleep 1000", "other", hostUsers=False) as other:
            assert mapping(init_of(plane, other)) != mine
        os.kill(pid, signal.SIGKILL)
        wait_for("a new container", lambda: plane.pod_of(name)["status"]["containerStatuses"][0]["restartCount"] == 1)
        assert mapping(init_of(plane, name)) == mine
    alone()
    with plane.pod("sleep 1000", "next", hostUsers=False) as name:
        assert mapping(init_of(plane, name)) == mine


def test_what_cannot_be(plane):
    """In Kubernetes' own words: no namespaces of the node besides. Ids that are not in the range."""
    for field, said in (("hostNetwork", "spec.hostNetwork"), ("hostPID", "spec.HostPID"), ("hostIPC", "spec.HostIPC")):
        m = plane.post(plane.name("no"), plane.spec("true", hostUsers=False, **{field: True}), want=(422,))["message"]
        assert f"{said}: Forbidden: when `hostUsers` is false" in m, m
    with plane.pod("true", "far", hostUsers=False, securityContext_pod={"runAsUser": 100000}) as name:
        assert "securityContext.runAsUser: 100000: a pod with hostUsers: false has the ids 0 to 65535 only" in plane.refused(name)


def test_a_tenants_pods_have_them(plane):
    """The namespace of a Tenant with spec.userNamespaces (the operator writes the annotation): whoever says nothing has one, and nobody lifts it."""
    plane.kubectl("annotate", "namespace", "default", "tandem.dev/user-namespaces=required")
    try:
        m = plane.post(plane.name("lifts"), plane.spec("true", hostUsers=True), want=(403,))["message"]
        assert "spec.hostUsers: pods of namespace default have user namespaces of their own" in m
        m = plane.post(plane.name("beside"), plane.spec("true", hostNetwork=True), want=(422,))["message"]
        assert "spec.hostNetwork: Forbidden: when `hostUsers` is false" in m, m
        with plane.pod("sed 's/^/map=/' /proc/self/uid_map", "theirs") as name:
            assert plane.pod_of(name)["spec"]["hostUsers"] is False and int(lines(plane.output(name))["map"].split()[1]) >= 524288
    finally:
        plane.kubectl("annotate", "namespace", "default", "tandem.dev/user-namespaces-")
