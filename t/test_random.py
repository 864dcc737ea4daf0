"""Random operations and kills from a seed; afterwards nothing leaked, nothing doubled (issue 3 §7.6; invariants I1-I4; row A7).

An observer runs on every change: at no time do two grants (bound pods that still have a container, or running native jobs) share a device.
Exempt, by 40-protocols §4: native jobs and steps that Slurm itself loses when slurmctld or a slurmd container is killed."""
import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest

from harness import wait_for

ROLES = ["apiserver", "agent", "controllers", "operator", "bridge"]


class Observer(threading.Thread):
    """Asks the agent's own gate table, the only place where both sides' holders meet, and remembers any device with two live holders."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.pool, self.stop, self.doubles, self.looks = pool, threading.Event(), [], 0

    def look(self):
        """Containers that run now, with their devices as the runtime's own configuration grants them."""
        holders = {}
        for path in os.listdir(f"{self.pool.home}/pods"):
            base = f"{self.pool.home}/pods/{path}"
            try:
                conf = json.load(open(f"{base}/config.json"))
                state = json.load(open(f"{self.pool.run_dir}/runc/{path}/state.json"))
                start = open(f"/proc/{state['init_process_pid']}/stat").read().rpartition(")")[2].split()
            except (OSError, ValueError, KeyError):
                continue
            if start[0] in "ZX" or int(start[19]) != int(state["init_process_start"]):
                continue
            args = " ".join(conf["process"]["args"])
            devices = [(d["major"], d["minor"]) for d in conf.get("linux", {}).get("devices", []) if d["path"].startswith("/dev/tandem-gpu")]
            if "slurmd" in args or len(devices) == 8:
                continue  # Slurm's own: its jobs are confined inside
            for d in devices:
                holders.setdefault(d, []).append(path)
        for d, who in holders.items():
            if len(who) > 1:
                self.doubles.append((d, who))
        self.looks += 1

    def run(self):
        while not self.stop.wait(0.05):
            try:
                self.look()
            except OSError:
                pass


def containers(pool, name):
    return [c for c in os.listdir(f"{pool.run_dir}/runc") if name in c] if os.path.isdir(f"{pool.run_dir}/runc") else []


def kill_container(pool, rng, name):
    """SIGKILL to the init of one container of Slurm's."""
    found = containers(pool, name)
    if not found:
        return "none"
    c = rng.choice(sorted(found))
    try:
        os.kill(json.load(open(f"{pool.run_dir}/runc/{c}/state.json"))["init_process_pid"], signal.SIGKILL)
    except (OSError, ValueError, KeyError):
        pass
    return c


@pytest.mark.feature("A7")
def test_random_steps(pool, request):
    seed, steps = int(request.config.getoption("--seed")), int(request.config.getoption("--steps"))
    rng = random.Random(seed)
    obs = Observer(pool)
    obs.start()
    log, serial = [], 0

    def quiet(*argv):
        subprocess.run([str(a) for a in argv], env=pool.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)

    def submit_pod():
        nonlocal serial
        serial += 1
        p = pool.pod(f"r{serial}", gpus=rng.choice([0, 1, 2, 4, 8]), cpu="500m")
        subprocess.run(["kubectl", "apply", "-f", "-"], input=json.dumps(p), text=True, env=pool.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        return f"r{serial}"

    def submit_job():
        n, g = rng.choice([(1, 1), (1, 4), (2, 2), (1, 8)])
        quiet(pool.tandem, "shell", "--", "sbatch", f"-N{n}", f"--gres=gpu:{g}", "--mem=100M", "-D", "/home", "-o", "/dev/null", "--wrap", f"sleep {rng.randint(1, 30)}")
        return f"{n}x{g}"

    def delete_pod():
        name = f"r{rng.randint(1, max(serial, 1))}"
        quiet("kubectl", "delete", "pod", name, "--wait=false", "--ignore-not-found", *(["--force", "--grace-period=0"] if rng.random() < 0.2 else []))
        return name

    def scancel():
        r = subprocess.run([pool.tandem, "shell", "--", "squeue", "-h", "-o", "%A"], env=pool.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        ids = sorted(r.stdout.split())
        if not ids:
            return "none"
        j = rng.choice(ids)
        quiet(pool.tandem, "shell", "--", "scancel", j)
        return j

    def cordon():
        n = f"n{rng.randrange(4)}"
        verb = rng.choice(["cordon", "uncordon"])
        quiet("kubectl", verb, n)
        return f"{verb} {n}"

    def kill_role():
        role = rng.choice(ROLES)
        pid = pool.role_pid(role)
        if pid:
            os.kill(pid, signal.SIGKILL)
        return role

    actions = [(submit_pod, 30), (submit_job, 20), (delete_pod, 20), (scancel, 10), (cordon, 8), (kill_role, 9), (lambda: kill_container(pool, rng, "slurmctld"), 1),
               (lambda: kill_container(pool, rng, "slurmd"), 2)]
    for step in range(steps):
        f = rng.choices([a for a, _ in actions], [w for _, w in actions])[0]
        try:
            log.append((step, getattr(f, "__name__", "kill"), f()))
        except (ProcessLookupError, subprocess.TimeoutExpired) as e:
            log.append((step, getattr(f, "__name__", "kill"), repr(e)))
    request.node.add_report_section("call", "steps", "\n".join(map(str, log)))

    # settle: everything asked to end ends, both sides agree
    for i in range(4):
        wait_for("uncordon", lambda: pool.kubectl("uncordon", f"n{i}") is not None, 60)
    wait_for("Slurm answers", lambda: pool.shell("sinfo", "-h") is not None, 120)

    def agree():
        pods = {p["metadata"]["uid"]: p for p in pool.items("pods", "-n", "default") if p["status"].get("phase") not in ("Succeeded", "Failed")}
        jobs = {j["name"].rpartition(".")[2]: (i, j) for i, j in pool.squeue().items() if j["name"].count(".") and len(j["name"].rpartition(".")[2]) == 36}
        bound = {u: pool.grant(p) for u, p in pods.items() if p["spec"].get("nodeName")}
        leaked = [j for u, j in jobs.items() if u not in pods]
        jobless = [u for u, g in bound.items() if not g or u not in jobs or jobs[u][0] != g[0]]
        return (not leaked and not jobless) or None
    wait_for("no leaked job, no bound pod without its job", agree, 180)
    obs.stop.set()
    obs.join(10)
    assert obs.looks > 10
    assert obs.doubles == [], f"seed {seed}"
    pool.clean()
    wait_for("nothing held in the end", lambda: not [c for c in os.listdir(f"{pool.run_dir}/runc") if "slurm" not in c and "login" not in c], 60)
