"""Benchmarks of the main job (issue 3 §8): numbers and ratios, never pass or fail. Run by `make bench` as root on a quiet machine.

usage: bench/bench.py [--build DIR] [--only up,single,burst,other,rss] [--held 0,1000,5000] [--pods 200] [--singles 60] [-o json]

The peer's figures (docs/BENCHMARKS.md) were measured by others on a 2-core machine; a ratio below 1 means that Tandem needs less."""
import argparse
import json
import os
import pathlib
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "t"))
from harness import Pool, wait_for  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
PEER = {"single_p50_ms": 1960.0, "bridge_cpu_ms_per_pod": {0: 120.0, 1000: 621.0, 5000: 5600.0}, "rest_kb_per_pod": {0: 3100.0, 1000: 17900.0, 5000: 123000.0},
        "pods_per_s": 3.35}


def pct(values, p):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * p / 100))] if v else float("nan")


def cpu_s(pid):
    f = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(f[11]) + int(f[12])) / TICK


def rss_kb(pid):
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Watcher(threading.Thread):
    """Pods as the API shows them, by one watch: when each was created by us and first seen bound."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.bound, self.gone, self.cond = {}, set(), threading.Condition()
        self.ctx = ssl.create_default_context(cafile=f"{pool.home}/pki/ca.crt")
        self.ctx.load_cert_chain(f"{pool.home}/pki/admin.crt", f"{pool.home}/pki/admin.key")
        self.ctx.check_hostname = False
        self.base = f"https://127.0.0.1:{pool.instance['apiPort']}"
        self.stream = urllib.request.urlopen(self.base + "/api/v1/namespaces/default/pods?watch=1", context=self.ctx)
        self.start()

    def run(self):
        for line in self.stream:
            ev = json.loads(line)
            now = time.monotonic()
            name = ev["object"]["metadata"].get("name")
            with self.cond:
                if ev["type"] == "DELETED":
                    self.gone.add(name)
                elif ev["object"]["spec"].get("nodeName") and name not in self.bound:
                    self.bound[name] = now
                self.cond.notify_all()

    def create(self, pod):
        req = urllib.request.Request(self.base + "/api/v1/namespaces/default/pods", json.dumps(pod).encode(), {"Content-Type": "application/json"}, method="POST")
        start = time.monotonic()
        urllib.request.urlopen(req, context=self.ctx).read()
        return start

    def wait_bound(self, names, seconds):
        end = time.monotonic() + seconds
        with self.cond:
            while not all(n in self.bound for n in names):
                if time.monotonic() > end:
                    return False
                self.cond.wait(0.5)
        return True


def pids_of(pool):
    got = {r: pool.role_pid(r) for r in ("apiserver", "agent", "controllers", "operator", "bridge", "supervise")}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                comm = open(f"/proc/{d}/comm").read().strip()
                cgroup = open(f"/proc/{d}/cgroup").read()
            except OSError:
                continue
            if comm in ("slurmctld", "slurmrestd") and pool.id in cgroup:
                got[comm] = int(d)
    return got


def rest_counters(pool):
    """Requests and bytes that the bridge exchanged with slurmrestd, from its metrics."""
    try:
        text = urllib.request.urlopen(f"http://127.0.0.1:{pool.instance['metricsPort']}/metrics", timeout=5).read().decode()
    except OSError:
        return {}
    out = {}
    for line in text.splitlines():
        if line.startswith("tandem_bridge_slurm_"):
            name, _, value = line.rpartition(" ")
            name = name.split("{")[0]
            out[name] = out.get(name, 0) + float(value)
    return out


def bench_up(tandem, results):
    home = tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp")
    pool = Pool(tandem, home)
    pool.run(tandem, "image", "build", "debian:13", timeout=900)
    pool.run(tandem, "image", "build", "tandem/slurm:24.11", timeout=900)
    start = time.monotonic()
    pool.up()
    results["up_s"] = time.monotonic() - start
    start = time.monotonic()
    pool.apply(pool.pod("first", gpus=1, command=["true"], restartPolicy="Never"))
    pool.shell("srun", "--mem=100M", "--gres=gpu:1", "true")
    wait_for("first pod done", lambda: pool.phase("first") == "Succeeded", 60)
    results["first_pod_and_job_s"] = time.monotonic() - start
    return pool


def bench_single(pool, results, n):
    rng, w, lat = random.Random(1), Watcher(pool), []
    for i in range(n):
        time.sleep(rng.uniform(0.2, 1.2))  # random moments: what is measured must not be in step with any tick
        name = f"single{i}"
        start = w.create(pool.pod(name, gpus=1, command=["sleep", "1000"]))
        if w.wait_bound([name], 30):
            lat.append((w.bound[name] - start) * 1000)
        pool.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    results["single"] = {"n": len(lat), "p50_ms": pct(lat, 50), "p90_ms": pct(lat, 90), "p99_ms": pct(lat, 99), "max_ms": max(lat or [float("nan")])}
    results["single"]["ratio_to_peer_p50"] = results["single"]["p50_ms"] / PEER["single_p50_ms"]
    pool.clean()


def bench_burst(pool, results, pods, held):
    if held:
        pool.shell("sh", "-c", f"i=0; while [ $i -lt {held} ]; do echo $i; i=$((i+1)); done | xargs -P 8 -n 1 sh -c 'sbatch -Q -H --mem=1M -N1 -D /home -o /dev/null --wrap true >/dev/null'",
                   timeout=900)
    w = Watcher(pool)
    pids, before, cpu0 = pids_of(pool), rest_counters(pool), {}
    cpu0 = {r: cpu_s(p) for r, p in pids.items() if p}
    starts = {}
    begin = time.monotonic()
    for i in range(pods):
        # fits at once: no GPU, small CPU (60 CPUs on 4 nodes: 15 × 4 → 250m would be rounded to one CPU, so memory decides)
        starts[f"burst{held}-{i}"] = w.create(pool.pod(f"burst{held}-{i}", gpus=0, cpu="100m", memory="16Mi", command=["true"], restartPolicy="Never"))
    ok = w.wait_bound(list(starts), 600)
    took = time.monotonic() - begin
    lat = [(w.bound[n] - s) for n, s in starts.items() if n in w.bound]
    after = rest_counters(pool)
    r = {"bound": len(lat), "all": ok, "pods_per_s": len(lat) / took, "p50_s": pct(lat, 50), "p99_s": pct(lat, 99),
         "cpu_ms_per_pod": {k: (cpu_s(p) - cpu0[k]) * 1000 / max(len(lat), 1) for k, p in pids.items() if k in cpu0 and os.path.exists(f"/proc/{p}")},
         "rest_per_pod": {k: (after.get(k, 0) - before.get(k, 0)) / max(len(lat), 1) for k in after}}
    r["bridge_cpu_ratio_to_peer"] = r["cpu_ms_per_pod"].get("bridge", float("nan")) / PEER["bridge_cpu_ms_per_pod"].get(held, float("nan"))
    results.setdefault("burst", {})[held] = r
    pool.kubectl("delete", "pods", "--all", "-n", "default", "--grace-period=0", "--force", "--wait=false", timeout=300)
    pool.shell("scancel", "-Q", "-t", "PENDING", "-u", "root", timeout=300)
    pool.clean()


def bench_other_side(pool, results, n=30):
    """scancel → pod deleting, cordon → drained, drain → annotation: milliseconds, with bound pods around."""
    out = {"scancel": [], "cordon": [], "drain": []}
    pool.apply(*[pool.pod(f"side{i}", gpus=0, cpu="100m", memory="16Mi") for i in range(40)])
    wait_for("40 bound", lambda: sum(bool(pool.grant(p)) for p in pool.items("pods", "-n", "default")) == 40, 120)
    for i in range(n):
        p = pool.get("pod", f"side{i}")
        job = pool.grant(p)[0]
        w = Watcher(pool)
        pool.shell("scancel", job)
        start = time.monotonic()
        with w.cond:
            while f"side{i}" not in w.gone and time.monotonic() - start < 30:
                w.cond.wait(0.1)
        out["scancel"].append((time.monotonic() - start) * 1000)
    for i in range(5):
        pool.kubectl("cordon", "n1")
        start = time.monotonic()
        wait_for("drained", lambda: "tandem: cordoned" in pool.shell("sinfo", "-h", "-R", "-o", "%E"), 30)
        out["cordon"].append((time.monotonic() - start) * 1000)
        pool.kubectl("uncordon", "n1")
        wait_for("resumed", lambda: "cordoned" not in pool.shell("sinfo", "-h", "-R", "-o", "%E"), 30)
        pool.shell("scontrol", "update", "nodename=n2", "state=drain", "reason=bench")
        start = time.monotonic()
        wait_for("shown", lambda: pool.get("node", "n2")["metadata"].get("annotations", {}).get("tandem.dev/slurm-reason") == "bench", 30)
        out["drain"].append((time.monotonic() - start) * 1000)
        pool.shell("scontrol", "update", "nodename=n2", "state=undrain")
        wait_for("gone", lambda: not pool.get("node", "n2")["metadata"].get("annotations", {}).get("tandem.dev/slurm-reason"), 30)
    results["other_side_ms"] = {k: {"p50": pct(v, 50), "p99": pct(v, 99)} for k, v in out.items()}
    results["other_side_ms"]["note"] = "cordon and drain include one kubectl or sinfo run (60-150 ms each)"
    pool.clean()


def bench_rss(pool, results):
    pool.apply(*[pool.pod(f"rss{i}", gpus=0, cpu="100m", memory="16Mi", scheduler="tandem") for i in range(56)])
    wait_for("56 run", lambda: len(pool.running("-n", "default")) >= 56, 180)
    pids = pids_of(pool)
    results["rss_mb"] = {k: round(rss_kb(p) / 1024, 1) for k, p in pids.items() if p}
    results["rss_mb"]["tandem_total"] = round(sum(v for k, v in results["rss_mb"].items() if not k.startswith("slurm")), 1)
    results["rss_mb"]["pods"] = 56
    pool.clean()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=str(ROOT / "build"))
    a.add_argument("--only", default="up,single,burst,other,rss")
    a.add_argument("--held", default="0,1000,5000")
    a.add_argument("--pods", type=int, default=200)
    a.add_argument("--singles", type=int, default=60)
    a.add_argument("-o", dest="output", default="text")
    o = a.parse_args()
    only, results = set(o.only.split(",")), {}
    pool = bench_up(f"{o.build}/src/cmd/tandem", results)
    try:
        if "single" in only:
            bench_single(pool, results, o.singles)
        if "rss" in only:
            bench_rss(pool, results)
        if "other" in only:
            bench_other_side(pool, results)
        if "burst" in only:
            for h in (int(x) for x in o.held.split(",")):
                bench_burst(pool, results, o.pods, h)
    finally:
        print(json.dumps(results, indent=None if o.output == "json" else 2))
        pool.down(purge=True)


if __name__ == "__main__":
    main()
