"""The Slurm that a site had: another cluster's slurmctld and slurmd, with a key of their own, on a machine beside the pool."""
import os
import subprocess

from machine import Machine

# What slurm.conf begins with.
CONF = """ClusterName=old
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
MessageTimeout=30
"""
# Its commands ask slurmctld's socket, because slurmd's is that of whoever has the machine.
ASKING = ("env", "SLURM_SACK_SOCKET=/run/slurmctld/sack.socket")


class OldSlurm(Machine):
    def put(self, conf, **programs):
        """slurm.conf, the key, and the programs of its init system."""
        etc, sbin = self.dir / "upper/etc/slurm", self.dir / "upper/usr/local/sbin"
        etc.mkdir(parents=True)
        sbin.mkdir(parents=True)
        (etc / "slurm.conf").write_text(conf)
        (etc / "slurm.key").write_bytes(os.urandom(1024))
        (etc / "slurm.key").chmod(0o600)
        for name, text in programs.items():
            (sbin / name).write_text(text)
            (sbin / name).chmod(0o755)

    def ask(self, *argv, check=True, **kw):
        return subprocess.run(self.inside(*ASKING, *argv), capture_output=True, text=True, check=check, timeout=120, **kw)

    def old(self, *argv):
        return self.ask(*argv).stdout
