"""`tandem adopt` takes over an existing Slurm and gives it back (docs/adopt.md): a real slurmctld and slurmd of another cluster, with a key of their own, on a machine beside
the pool."""
import json
import os
import pathlib
import subprocess

import pytest
import yaml

from harness import IMAGES, wait_for
from machine import Machine
from oldslurm import ASKING, CONF, OldSlurm

pytestmark = [pytest.mark.embedded]

# The smallest Slurm there is: one machine, which has its controller too.
OLD = CONF + """ReturnToService=2
NodeName=h1 CPUs=2 RealMemory=1000 Feature=fast
PartitionName=main Nodes=h1 Default=YES MaxTime=1:00:00
"""
# What a site's init system does.
STOP = """#!/bin/sh
[ ! -s /run/old-slurmd.pid ] || { kill "$(cat /run/old-slurmd.pid)"; while [ -s /run/old-slurmd.pid ]; do sleep 0.05; done; }
"""
START = """#!/bin/sh
mkdir -p /var/spool/old-slurmd
exec slurmd -N h1
"""


class Old(OldSlurm):
    def __enter__(self):
        super().__enter__()
        self.put(OLD, **{"old-stop": STOP, "old-start": START})
        self.join()
        self.kubeconfig("root/admin.conf", f"{self.pool.home}/pki/admin.crt", f"{self.pool.home}/pki/admin.key")
        self.start("sh", "-c", "mkdir -p /var/spool/old-slurmctld; old-start; exec slurmctld -D", log="old.log")
        return self

    def adopt(self, *argv):
        return (*ASKING, *self.tandem("adopt", *argv, "--kubeconfig", "/root/admin.conf"))


@pytest.fixture
def site(pool):
    try:
        with Old(pool, "h1", last=3) as m:
            wait_for("the old Slurm runs", lambda: m.old("sinfo", "-h", "-o", "%T").strip() == "idle", 60)
            yield m
    finally:
        pool.kubectl("-n", "slurm", "delete", "nodeset", "h", "--ignore-not-found")
        wait_for("the pool's Slurm knows it no more", lambda: "not found" in "".join(pool.ask("scontrol", "show", "node", "h1")[1:]), 60)
        wait_for("the pool's configuration is as before", lambda: "NodeSet=set_h " not in pool.get("cm", "main-config", "-n", "slurm")["data"]["slurm.conf"] + " ", 60)


@pytest.mark.feature("C6.5", "C6.7")
def test_a_group_moves_and_comes_back(pool, site):
    """The plan names what it cannot carry over and moves nothing; a move waits for the old Slurm's jobs, goes on after a kill, and `back` gives the machine back as it was."""
    m = site
    plan = subprocess.run([pool.tandem, "adopt", "plan", m.dir / "upper/etc/slurm/slurm.conf", "--name", "main"], capture_output=True, text=True, check=True)
    assert "slurm.conf:11: ProctrackType=proctrack/linuxproc: Tandem sets it" in plan.stderr
    cluster, group = yaml.safe_load_all(plan.stdout)
    assert cluster["spec"]["partitions"] == [{"name": "main", "nodeSets": ["h"], "default": True, "maxTime": "1:00:00"}]
    assert group["spec"]["hosts"] == [] and group["spec"]["slurm"] == {"features": ["fast"]}
    pool.apply(group)
    phase = lambda: json.loads(pool.get("nodeset", "h", "-n", "slurm")["metadata"]["annotations"]["tandem.dev/adopt"])["phase"]
    state = lambda: m.old("sinfo", "-h", "-o", "%T|%E").strip()

    # The machine waits for its turn, with the old Slurm's slurmd.
    m.also(*m.tandem("host", "--nodeset", "slurm/h", "--name", "h1", "--standin", "/usr/bin/tandem-standin", "--every", "0.3s", "--cpus", "2", "--memory", "8000",
                     "--before", "/usr/local/sbin/old-stop", "--after", "/usr/local/sbin/old-start"), log="host.log")
    job = m.old("sbatch", "--parsable", "-D", "/", "--wrap", "sleep 1000").strip()
    wait_for("a job of the old Slurm runs", lambda: m.old("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", 60)

    # The move is killed while it waits for that job.
    first = m.also(*m.adopt("move", "h"), log="move.log")
    wait_for("the machine drains in the old Slurm", lambda: state() == "draining|tandem: adopt", 60)
    assert phase() == "leaving" and m.old("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    subprocess.run(m.inside("pkill", "-9", "-f", "adopt move"), check=True, timeout=60)
    first.wait(60)
    m.old("scancel", job)
    subprocess.run(m.inside(*m.adopt("move", "h")), capture_output=True, text=True, check=True, timeout=300)
    assert phase() == "moved"
    wait_for("the machine is a node of the pool", lambda: pool.get("nodeset", "h", "-n", "slurm")["status"].get("ready") == 1, 120)
    assert pool.as_user("researcher", "srun", "-w", "h1", "-C", "fast", "hostname").stdout == "h1\n"
    assert "h  " in subprocess.run(m.inside(*m.adopt("status")), capture_output=True, text=True, check=True).stdout

    # And back: as it was.
    subprocess.run(m.inside(*m.adopt("back", "h")), capture_output=True, text=True, check=True, timeout=300)
    assert phase() == "old"
    wait_for("it is the old Slurm's", lambda: state().startswith("idle|"), 120)
    assert m.old("srun", "hostname") == "h1\n"
    assert pool.ask("scontrol", "show", "node", "h1")[0] == 1


class Login(Machine):
    """A machine where people of the old Slurm work: its slurm.conf, its sackd."""

    def __enter__(self):
        super().__enter__()
        old, etc, sbin = self.dir.parent / "machine-h1", self.dir / "upper/etc", self.dir / "upper/usr/local/sbin"
        (etc / "slurm").mkdir(parents=True)
        sbin.mkdir(parents=True)
        self.of_old = f"10.{self.pool.instance['subnet']}.250.3"
        with open(etc / "hosts", "a") as f:
            f.write(f"{self.of_old} h1\n")
        (etc / "passwd").write_text(pathlib.Path(f"{IMAGES}/tandem+slurm/24.11/rootfs/etc/passwd").read_text() + f"researcher:x:{self.pool.uid}:{self.pool.uid}::/:/bin/sh\n")
        (etc / "slurm/slurm.conf").write_text(OLD)
        (etc / "slurm/slurm.key").write_bytes((old / "upper/etc/slurm/slurm.key").read_bytes())
        (etc / "slurm/slurm.key").chmod(0o600)
        (sbin / "old-stop").write_text("#!/bin/sh\nmv /etc/slurm/slurm.conf /etc/slurm/slurm.conf.old\nkill $(cat /run/slurm/sackd.pid)\nwhile kill -0 $(cat /run/slurm/sackd.pid); do sleep 0.05; done 2>/dev/null\n")
        (sbin / "old-start").write_text("#!/bin/sh\nmv /etc/slurm/slurm.conf.old /etc/slurm/slurm.conf 2>/dev/null\nmkdir -p /run/slurm\nsetsid sackd -D </dev/null >/dev/null 2>&1 &\necho $! >/run/slurm/sackd.pid\n")
        for name in ("old-stop", "old-start"):
            (sbin / name).chmod(0o755)
        self.join()
        self.start("sh", "-c", "old-start; exec sleep infinity", log="old.log")
        return self

    def key(self, what='[ -e "$KEY" ]'):
        """Whether root's command about the key works; /run is the machine's own."""
        return subprocess.run(self.inside("env", "KEY=/run/tandem-host/slurm.key", "sh", "-c", what)).returncode == 0

    def user(self, *argv):
        """What one of the people gets."""
        r = subprocess.run(self.inside("setpriv", "--reuid", str(self.pool.uid), "--regid", str(self.pool.uid), "--clear-groups", "env", "-C", "/tmp", *argv), capture_output=True, text=True, timeout=120)
        return r.stdout.strip() or r.stderr.strip()


def works(m, node):
    """What people do on a login machine, on this node. Returns the number of the batch job, which they cancelled."""
    assert m.user("srun", "-Q", "-w", node, "hostname") == node
    job = m.user("sbatch", "--parsable", "-o", "/dev/null", "-w", node, "--wrap", "sleep 100000")
    wait_for("the job runs", lambda: m.user("squeue", "-h", "-j", job, "-o", "%u %T %N") == f"researcher RUNNING {node}", 120)
    assert m.user("scancel", job) == ""
    wait_for("it has ended", lambda: m.user("squeue", "-h", "-t", "all", "-j", job, "-o", "%T") == "CANCELLED", 120)
    return job


@pytest.mark.nightly
@pytest.mark.feature("C6.6")
def test_users_commands_are_the_same_before_and_after(pool, site):
    """On a login machine the same srun, sbatch, squeue, scancel and sinfo reach the old Slurm, then the pool, where sacct does too, then the old Slurm again; nobody but root sees the key, and a machine that was not admitted gets none."""
    pool.uid = int(pool.as_user("researcher", "id", "-u").stdout)
    with Login(pool, "l1", last=4) as m:
        wait_for("people use the old Slurm", lambda: m.user("sinfo", "-h", "-o", "%N") == "h1", 60)
        works(m, "h1")
        before = (m.dir / "upper/etc/hosts").read_text()
        host = m.tandem("host", "--login", "slurm/main", "--name", "l1", "--standin", "/usr/bin/tandem-standin", "--every", "0.3s", "--before", "/usr/local/sbin/old-stop", "--after", "/usr/local/sbin/old-start")
        m.also(*host, log="host.log")
        wait_for("it may not", lambda: "orbidden" in m.log(), 60)
        assert m.user("sinfo", "-h", "-o", "%N") == "h1" and not m.key()
        pool.cmd("node", "admit", "l1", "--login", "slurm/main")
        wait_for("people use the pool's", lambda: "n[0-" in m.user("sinfo", "-h", "-o", "%N"), 120)
        job = works(m, "n0")
        wait_for("the job is in the history", lambda: m.user("sacct", "-X", "-n", "-P", "-j", job, "-o", "state").startswith("CANCELLED"), 120)
        assert m.key() and "Permission denied" in m.user("cat", "/run/tandem-host/slurm.key")

        # sackd reads a new configuration; then `tandem host` is killed, and comes again with a key of before.
        sackd = lambda: m.process("-x", "sackd")
        first, again = sackd(), m.log().count("sackd is started")
        pool.shell("scontrol", "reconfigure")
        wait_for("sackd has executed itself", lambda: "SACKD_RECONF=" in pathlib.Path(f"/proc/{sackd()}/environ").read_text(), 60)
        assert sackd() == first
        os.kill(m.host(), 9)
        wait_for("sackd has ended with who watches it", lambda: sackd() is None, 60)
        assert m.key("printf %64s x >$KEY")
        m.also(*host, log="host.log")
        wait_for("people use the pool's again", lambda: "n[0-" in m.user("sinfo", "-h", "-o", "%N"), 120)
        assert m.log().count("sackd is started") == again + 1
        pool.cmd("node", "dismiss", "l1", "--login", "slurm/main")
        wait_for("people use the old one", lambda: m.user("sinfo", "-h", "-o", "%N") == "h1", 120)
        works(m, "h1")
        wait_for("the key is gone", lambda: not m.key(), 60)
        assert (m.dir / "upper/etc/hosts").read_text() == before
        assert "no login machine" in pool.cmd("node", "dismiss", "l1", "--login", "slurm/main", check=False).stderr
