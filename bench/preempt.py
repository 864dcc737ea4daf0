#!/usr/bin/env python3
# rows: A6.8 A6.9
"""Preemption: from the creation of who preempts until he has the devices. Numbers, never pass or fail. Run as root.

usage: bench/preempt.py [--build DIR] [--n 100] [--grace 0] [-o table|json]

Each time all 8 GPUs of both nodes are held by victims of QOS patient with that grace, and one is wanted whole:
  pod over pod, pod over job    created → bound
  job over pod, job over job    sbatch sent → RUNNING (a look every 10 ms)
What is above the grace is shown, and as a ratio to the same without anybody in the way."""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "t"), str(ROOT / "bench")]
from clients import Api, Slurm, Watch, pct  # noqa: E402
from harness import Pool, wait_for  # noqa: E402

SPEC = {"preemption": {"qos": [{"name": "urgent", "priority": 1000, "preempts": ["normal", "patient"]}, {"name": "patient", "users": ["*"]}]},
        "scheduler": {"priorityClassMap": [{"priorityClass": c, "qos": c} for c in ("urgent", "patient")]}}
JOB = {"name": "bench", "nodes": "1", "tasks": 1, "tres_per_node": "gres/gpu:8", "memory_per_node": {"set": True, "number": 1}, "current_working_directory": "/",
       "environment": ["PATH=/bin:/usr/bin"], "standard_output": "/dev/null", "standard_error": "/dev/null"}


class Runs:
    def __init__(self, pool):
        self.pool, self.api, self.slurm, self.k = pool, Api(pool), Slurm(pool), 0

    def submit(self, qos, **more):
        return self.slurm.call("POST", "/job/submit", {"script": "#!/bin/sh\nexec sleep 100000\n", "job": {**JOB, "qos": qos, **more}})["job_id"]

    def runs(self, jobs):
        return all("RUNNING" in self.slurm.states().get(j, ()) for j in jobs)

    def fill(self, kind):
        if kind == "job":
            jobs = [self.submit("patient", required_nodes=[n]) for n in self.pool.nodes]
            wait_for("victims run", lambda: self.runs(jobs), 60)
        elif kind == "pod":
            for n in self.pool.nodes:
                self.api.create(self.pool.pod(f"v{self.k}-{n}", gpus=8, priorityClassName="patient", terminationGracePeriodSeconds=0))
            wait_for("victims run", lambda: len(self.pool.running()) == len(self.pool.nodes), 60)

    def one(self, who, victim):
        self.k += 1
        self.fill(victim)
        if who == "pod":
            w, name = Watch(self.api), f"u{self.k}"
            start = self.api.create(self.pool.pod(name, gpus=8, priorityClassName="urgent", terminationGracePeriodSeconds=0))
            w.wait(lambda: name in w.bound, 120)
            took = (w.bound[name] - start) * 1000
            w.close()
        else:
            start = time.monotonic()
            job = self.submit("urgent")
            while not self.runs([job]):
                time.sleep(0.01)
            took = (time.monotonic() - start) * 1000
        self.empty()
        return took

    def empty(self):
        for j in self.slurm.states():
            self.slurm.cancel(j)
        for p in self.pool.items("pods", "-n", "default"):
            self.api.call("DELETE", f"/api/v1/namespaces/default/pods/{p['metadata']['name']}?gracePeriodSeconds=0")
        wait_for("nothing is left", lambda: not self.pool.items("pods", "-n", "default") and not self.pool.squeue(), 120)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=ROOT / "build")
    a.add_argument("--n", type=int, default=100)
    a.add_argument("--grace", type=int, default=0)
    a.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    o = a.parse_args()
    pool = Pool(str(pathlib.Path(o.build).resolve() / "src/cmd/tandem"), tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp"))
    try:
        pool.up("--nodes", "2")
        for name, value in (("urgent", 1000), ("patient", 10)):
            pool.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
        if o.grace:
            SPEC["preemption"]["qos"][1]["graceTime"] = f"{o.grace}s"
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": SPEC}))
        wait_for("it is in force", lambda: "preempt/qos" in pool.shell("scontrol", "show", "config", check=False) and pool.idle_nodes() == 2, 120)
        runs, result = Runs(pool), {"grace_s": o.grace, "load": os.getloadavg()[0]}
        for who in ("pod", "job"):
            for victim in ("nobody", "pod", "job"):
                times = []
                for i in range(o.n):
                    times.append(runs.one(who, victim) - (0 if victim == "nobody" else o.grace * 1000))
                    print(f"{who} over {victim}: {i + 1} of {o.n}: {times[-1]:.0f} ms", file=sys.stderr)
                result[f"{who} over {victim}"] = {"n": o.n, "p50_ms": pct(times, 50), "p99_ms": pct(times, 99), "max_ms": max(times)}
    finally:
        pool.down(purge=True)
    if o.output == "json":
        print(json.dumps(result))
        return
    print(f"above the grace of {o.grace} s, n = {o.n} each, load {result['load']:.0f}")
    for what, r in result.items():
        if isinstance(r, dict):
            free = result[f"{what.split()[0]} over nobody"]["p50_ms"]
            print(f"{what:<16} p50 {r['p50_ms']:6.0f} ms  p99 {r['p99_ms']:6.0f} ms  max {r['max_ms']:6.0f} ms  {r['p50_ms'] / free:5.1f} × free")


if __name__ == "__main__":
    main()
