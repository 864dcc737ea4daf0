"""`tandem adopt` takes over an existing Slurm and gives it back (docs/adopt.md): a real slurmctld and slurmd of another cluster, with a key of their own, on a machine beside
the pool."""
import json
import os
import subprocess

import pytest
import yaml

from harness import wait_for
from machine import Machine

pytestmark = [pytest.mark.embedded]

# The smallest Slurm there is: one machine, which has its controller too.
OLD = """ClusterName=old
SlurmctldHost=h1
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
StateSaveLocation=/var/spool/old-slurmctld
SlurmdSpoolDir=/var/spool/old-slurmd
SlurmctldPidFile=/run/old-slurmctld.pid
SlurmdPidFile=/run/old-slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
MessageTimeout=30
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


class Old(Machine):
    """The machine with the old Slurm. Its commands ask slurmctld's socket, because slurmd's is that of whoever has the machine."""

    def __enter__(self):
        super().__enter__()
        etc, sbin = self.dir / "upper/etc/slurm", self.dir / "upper/usr/local/sbin"
        etc.mkdir(parents=True)
        sbin.mkdir(parents=True)
        (etc / "slurm.conf").write_text(OLD)
        (etc / "slurm.key").write_bytes(os.urandom(1024))
        (etc / "slurm.key").chmod(0o600)
        for name, text in (("old-stop", STOP), ("old-start", START)):
            (sbin / name).write_text(text)
            (sbin / name).chmod(0o755)
        self.join()
        self.kubeconfig("root/admin.conf", f"{self.pool.home}/pki/admin.crt", f"{self.pool.home}/pki/admin.key")
        self.start("sh", "-c", "mkdir -p /var/spool/old-slurmctld; old-start; exec slurmctld -D", log="old.log")
        return self

    def old(self, *argv):
        return subprocess.run(self.inside("env", "SLURM_SACK_SOCKET=/run/slurmctld/sack.socket", *argv), capture_output=True, text=True, check=True, timeout=120).stdout

    def adopt(self, *argv):
        return ("env", "SLURM_SACK_SOCKET=/run/slurmctld/sack.socket", *self.tandem("adopt", *argv, "--kubeconfig", "/root/admin.conf"))


@pytest.fixture
def site(pool):
    try:
        with Old(pool, "h1", last=3) as m:
            wait_for("the old Slurm runs", lambda: m.old("sinfo", "-h", "-o", "%T").strip() == "idle", 60)
            yield m
    finally:
        pool.kubectl("-n", "slurm", "delete", "nodeset", "h", "--ignore-not-found")
        wait_for("the pool's Slurm knows it no more", lambda: pool.ask("scontrol", "show", "node", "h1")[0] == 1, 60)
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
