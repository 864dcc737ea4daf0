"""Random operations and kills from a seed; afterwards nothing leaked, nothing doubled (docs/protocols.md 1.1: I1 to I4; row A7).

An observer looks all the time: at no moment do two holders (containers of pods, native jobs) share a device.
Exempt, by docs/protocols.md 1.1: native jobs and steps that Slurm itself loses when slurmctld or a slurmd container is killed."""
import json
import os
import random
import signal
import subprocess

import pytest

from harness import wait_for
from observer import KubeletObserver, Observer, differences

pytestmark = pytest.mark.feature("A7.4", "A12.2")

SLEEP = ["sleep", "100000"]
STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]  # ends by KILL only: its devices stay held through the whole grace


class Steps:
    """What may happen, each step once. Failing is allowed (the API may be dead), hanging is not."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.serial = pool, rng, 0

    def _do(self, *argv, input=None):
        r = subprocess.run([str(a) for a in argv], env=self.pool.env, input=input, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        return r.stdout

    def _shell(self, *argv):
        return self.pool.cmd("shell", "--user", "root", "--", *argv, check=False, timeout=60).stdout

    def submit_pod(self):
        self.serial += 1
        p = self.pool.pod(f"r{self.serial}", gpus=self.rng.choice([0, 1, 2, 4, 8]), cpu="500m", command=self.rng.choice([SLEEP, SLEEP, STUBBORN]))
        self._do("kubectl", "apply", "-f", "-", input=json.dumps(p))
        return f"r{self.serial}"

    def submit_gang(self):
        self.serial += 1
        n, gpus, loss = self.rng.randint(2, 5), self.rng.choice([1, 2, 4]), self.rng.choice(["fail", "restart", "replace"])
        pods = [self.pool.pod(f"gang{self.serial}-{i}", gpus=gpus, cpu="500m") for i in range(n)]
        for p in pods:
            p["metadata"].update(labels={"tandem.dev/gang": f"gang{self.serial}"}, annotations={"tandem.dev/gang-size": str(n), "tandem.dev/gang-on-loss": loss})
            if n > 2 and self.serial % 3 == 0:
                p["metadata"]["annotations"]["tandem.dev/gang-min"] = "2"
        if self.rng.random() < 0.2:
            pods.pop()  # it never is whole, unless it is elastic
        self._do("kubectl", "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        return f"gang{self.serial} {len(pods)} of {n} x{gpus} {loss}"

    def submit_job(self):
        n, g = self.rng.choice([(1, 1), (1, 4), (2, 2), (1, 8)])
        script = self.rng.choice(["", "trap '' TERM; "]) + f"for i in $(seq {self.rng.randint(1, 30)}); do sleep 1; done"
        self._shell("sbatch", f"-N{n}", f"--gres=gpu:{g}", "--mem=100M", "-D", "/home", "-o", "/dev/null", "--wrap", script)
        return f"{n}x{g}"

    def delete_pod(self):
        k = self.rng.randint(1, max(self.serial, 1))
        name = self.rng.choice([f"r{k}", f"gang{k}-{self.rng.randint(0, 4)}"])
        force = ["--force", "--grace-period=0"] if self.rng.random() < 0.2 else []
        self._do("kubectl", "delete", "pod", name, "--wait=false", "--ignore-not-found", *force)
        return " ".join([name] + force)

    def scancel(self):
        ids = sorted(self._shell("squeue", "-h", "-o", "%A").split())
        job = self.rng.choice(ids) if ids else None
        if job:
            self._shell("scancel", job)
        return job

    def cordon(self):
        verb, node = self.rng.choice(["cordon", "uncordon"]), self.rng.choice(self.pool.nodes)
        self._do("kubectl", verb, node)
        return f"{verb} {node}"

    def kill_role(self):
        role = self.rng.choice(self.pool.roles)
        self.pool.kill_role(role)
        return role

    def _kill(self, daemon):
        """SIGKILL to the init of one of Slurm's containers."""
        found = sorted(self.pool.daemons(daemon).items())
        if not found:
            return None  # dead from the last kill
        host, pid = self.rng.choice(found)
        os.kill(pid, signal.SIGKILL)
        return host

    def kill_slurmctld(self):
        return self._kill("slurmctld")

    def kill_slurmrestd(self):
        return self._kill("slurmrestd")

    def kill_slurmd(self):
        return self._kill("slurmd")

    def one(self):
        odds = [(self.submit_pod, 25), (self.submit_gang, 8), (self.submit_job, 20), (self.delete_pod, 20), (self.scancel, 10), (self.cordon, 8), (self.kill_role, 9),
                (self.kill_slurmctld, 1), (self.kill_slurmrestd, 1), (self.kill_slurmd, 2)]
        f = self.rng.choices([a for a, _ in odds], [w for _, w in odds])[0]
        try:
            return f.__name__, f()
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            return f.__name__, repr(e)


@pytest.mark.nightly_real
@pytest.mark.slow  # as long as its --steps; chance is for CI
def test_random_steps(pool, request):
    seed, count = int(request.config.getoption("--seed")), int(request.config.getoption("--steps"))
    steps, obs, log = Steps(pool, random.Random(seed)), (Observer if pool.plane == "embedded" else KubeletObserver)(pool), []
    request.node.user_properties.append(("seed", seed))
    obs.start()
    try:
        for i in range(count):
            log.append(f"{i} {' '.join(map(str, steps.one()))}")
        # settle: what was asked to end ends, and both sides agree
        for node in pool.nodes:
            wait_for("uncordon", lambda: pool.kubectl("uncordon", node) is not None, 60)
        wait_for("Slurm answers", lambda: pool.shell("sinfo", "-h") is not None, 120)
        last = []

        def agree():
            last[:] = differences(pool)
            return not last
        try:
            wait_for("both sides agree", agree, 180)
        except AssertionError as e:
            raise AssertionError(f"{e}: {last}") from None
        pool.clean()
        # On a busy machine few pods get as far as to run: what the observer must see is here in any case.
        pool.apply(*[pool.pod(f"seen{i}", gpus=1) for i in range(2)])
        wait_for("the observer sees the holders", lambda: obs.looks > 10 and len(obs.seen) > 1)
        pool.clean()
        wait_for("no container of a pod is left", lambda: not obs.pods_left(), 60)
    finally:
        obs.end()
        request.node.add_report_section("call", f"steps of seed {seed}", "\n".join(log))
    words = obs.double_words()
    assert not words, f"seed {seed}: two holders of one device:\n" + "\n".join(words + obs.evidence[:20])
