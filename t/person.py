"""Somebody who comes in by ssh: a real client with a key of his own."""
import os
import subprocess

from harness import wait_for


class Person:
    """A user's laptop: his key, and the hosts that he knows."""

    def __init__(self, path, name):
        self.name, self.dir = name, str(path)
        os.makedirs(path, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@laptop", "-f", f"{path}/id"], check=True, timeout=60)
        self.key = open(f"{path}/id.pub").read().strip()
        self.options = ["-F", "/dev/null", "-i", f"{path}/id", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={path}/known",
                        "-o", "StrictHostKeyChecking=accept-new", "-o", "ConnectTimeout=20"]

    def ssh(self, address, *argv, user=None, options=(), **kw):
        return subprocess.run(["ssh", *self.options, *options, f"{user or self.name}@{address}", *argv], capture_output=True, text=True, timeout=120, **kw)


def login_address(pool, pod="main-login-0"):
    return wait_for("the login pod is ready", lambda: next((p["status"].get("podIP") for p in pool.items("pods", "-n", "slurm") if p["metadata"]["name"] == pod and
                                                            any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))), None))


def comes_in(pool, person, at=None):
    wait_for(f"{person.name} comes in", lambda: person.ssh(at or login_address(pool), "true").returncode == 0, 120)
