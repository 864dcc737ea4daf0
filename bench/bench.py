#!/usr/bin/env python3
# rows: A5.7 A6.1 F1.9 F3.1
"""Benchmarks: numbers and ratios, never pass or fail. Run as root, best on a quiet machine.

usage: bench/bench.py [--build DIR] [--only RUN,…] [--pods 200] [--held 0,1000,5000]
                      [--singles 60] [--lone 20] [--nodes 64] [-o table|json]

Runs (all by default). `up` and `single` use what `tandem up` makes: 4 nodes of 16 CPUs.
The others use 4 nodes of 64 CPUs, so that 200 pods fit at once.
  up      empty home, images cached → 4 idle Slurm nodes; then a pod and a job done
  single  one pod at a time at random moments: created → bound
  lone    LONE small pods one after the other, created → bound and how many were allocated at
          once: on an idle pool, beside each kind of wait that they have nothing to do with, and
          right after a burst of PODS / 4
  rss     memory of every role with PODS running pods
  other   scancel, cordon, drain → seen on the other side, with PODS bound pods
  burst   PODS pods at once, beside each number of HELD jobs that only wait in Slurm.
          Latency is created → bound. CPU and REST are of whole lives: from the first
          pod's creation until the last job is over, polls in between included.

  idle    what the bridge reads of an idle Slurm, with 4 nodes and with NODES (64)

Times of `other` start before the request that makes the change, and end when the other
API's watch (or a look every 5 ms) shows it. REST bytes are those of the replies' bodies.
Ratios are beside the nearest peer as it was measured on another 2-core machine
(docs/BENCHMARKS.md): below 1 means that Tandem needs less.

clients.py holds the two API clients, the watch and /proc. docs/BENCHMARKS.md holds the
figures of the last full run."""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "t"), str(ROOT / "bench")]
from clients import Api, Slurm, Watch, cpu_s, memory_mb, pct, processes, rest_counters  # noqa: E402
from harness import Pool, wait_for  # noqa: E402

RUNS = ("up", "single", "lone", "rss", "other", "burst", "idle")
LARGE = ("--cpus", "64", "--gpus", "8")
PEER = {"single_p50_ms": 1960.0, "pods_per_s": 3.35, "bridge_ms": {0: 120.0, 1000: 621.0, 5000: 5600.0}, "restd_ms": {0: 109.0, 1000: 894.0, 5000: 7400.0},
        "rest_kb": {0: 3100.0, 1000: 17900.0, 5000: 123000.0}}
OURS = ("bridge", "apiserver", "kubelet", "slurmrestd", "slurmctld")


class Progress:
    """One line on a terminal that says what goes on; single lines elsewhere."""

    def __init__(self):
        self.tty, self.last, self.long = sys.stderr.isatty(), 0.0, False

    def __call__(self, text):
        now = time.monotonic()
        if self.tty and now - self.last > 0.1:
            sys.stderr.write(f"\r\x1b[K{text}"[:90])
            sys.stderr.flush()
            self.last, self.long = now, True

    def step(self, text):
        sys.stderr.write(("\r\x1b[K" if self.long else "") + f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()
        self.long = False


say = Progress()


class Bench:
    def __init__(self, tandem, options):
        self.tandem, self.o, self.pool, self.large = tandem, options, None, None
        self.results = {"load_before": os.getloadavg()[0]}

    def need(self, large):
        """A pool of that shape, with nothing on it. large: options for `tandem up`, or whether these are LARGE."""
        if self.pool and self.large == large:
            return self.pool
        self.close()
        self.pool, self.large = Pool(self.tandem, tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp")), large
        for image in ("debian:13", "tandem/slurm:24.11"):  # built once, cached
            self.pool.run(self.tandem, "image", "build", image, timeout=900)
        options = large if isinstance(large, tuple) else LARGE if large else ()
        say.step("tandem up " + " ".join(options))
        start = time.monotonic()
        self.pool.up(*options)
        self.up_s = time.monotonic() - start
        self.api, self.slurm = Api(self.pool), Slurm(self.pool)
        self.slurm.held = 0
        wait_for("the bridge leads", self.leads, 60)
        return self.pool

    def leads(self):
        try:  # and its two listings at the start are behind it: they belong to no pod
            return self.pool.bridge_metric("tandem_bridge_job_listings_total") >= 2
        except OSError:
            return None

    def close(self):
        if self.pool:
            self.pool.down(purge=True)
            os.rmdir(self.pool.home) if os.path.isdir(self.pool.home) and not os.listdir(self.pool.home) else None
        self.pool = None

    def tiny(self, name, command=("sleep", "100000")):
        return self.pool.pod(name, gpus=0, cpu="500m", memory="16Mi", command=list(command), restartPolicy="Never")

    def fill(self, prefix, n):
        """n pods, all running."""
        w = Watch(self.api)
        for i in range(n):
            self.api.create(self.tiny(f"{prefix}{i}"))
            say(f"{prefix}: {i + 1} of {n} pods created")
        wait_for(f"{n} pods run", lambda: self.count("Running", n), 300)
        w.close()

    def count(self, phase, n):
        got = len(self.api.pods(f"fieldSelector=status.phase%3D{phase}"))
        say(f"{got} of {n} pods {phase}")
        return got >= n

    def empty(self):
        """No pod and no job of ours any more; held jobs stay."""
        self.api.delete_all()
        wait_for("no pods left", lambda: not self.api.pods(), 180)
        wait_for("no job runs", lambda: not any(s & {"RUNNING", "COMPLETING"} for s in self.slurm.states().values()), 120)

    # ---- the runs ----
    def up(self):
        p = self.need(False)
        self.results["up_s"] = self.up_s
        start = time.monotonic()
        p.apply(p.pod("first", gpus=1, command=["true"], restartPolicy="Never"))
        p.shell("srun", "--mem=100M", "--gres=gpu:1", "true")
        wait_for("first pod done", lambda: p.phase("first") == "Succeeded", 60)
        self.results["first_pod_and_job_s"] = time.monotonic() - start
        self.empty()

    def single(self):
        p, rng, lat = self.need(False), random.Random(1), []
        w = Watch(self.api)
        for i in range(self.o.singles):
            time.sleep(rng.uniform(0.2, 1.2))  # random moments: what is measured must not be in step with any tick
            name = f"single{i}"
            start = self.api.create(p.pod(name, gpus=1))
            if w.wait(lambda: name in w.bound, 30):
                lat.append((w.bound[name] - start) * 1000)
            self.api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
            say(f"single: {i + 1} of {self.o.singles}, p50 {pct(lat, 50):.0f} ms")
        w.close()
        self.results["single"] = {"n": len(lat), "p50_ms": pct(lat, 50), "p99_ms": pct(lat, 99), "max_ms": max(lat), "all": [round(x) for x in lat]}
        self.empty()

    def lone(self):
        """The same pods beside each wait; the ratio is to the idle pool of this run."""
        p = self.need(False)
        pinned = {"nodeSelector": {"kubernetes.io/hostname": "n3"}}
        hostname = lambda name, **kw: p.pod(name, **kw, **pinned)
        waits = {
            "idle": [],
            "a job held by its user": [("sbatch", "-H")],
            "a job that waits for GPUs": [("sbatch", "-N4", "--gres=gpu:8"), ("sbatch", "--gres=gpu:8")],
            "a pod that waits for GPUs": [p.pod(f"gpus{i}", gpus=8) for i in range(5)],
            "a pod pinned to a full node": [hostname("full0", cpu="14"), hostname("full1", cpu="14")],
            "a pod pinned to a cordoned node": ["cordon", hostname("cordoned")],
            "a pod's job held by an administrator": [hostname("full0", cpu="14"), hostname("full1", cpu="14"), "hold"],
        }
        got = self.results["lone"] = {}
        for what, things in waits.items():
            say.step(f"lone pods beside: {what}")
            for t in things:
                if t == "cordon":
                    self.api.cordon("n3", True)
                    wait_for("n3 is drained", lambda: "DRAIN" in self.slurm.node_states("n3"), 30)
                elif t == "hold":
                    for j, v in p.squeue().items():
                        if v["state"] == "PENDING":
                            p.shell("scontrol", "hold", j)
                elif isinstance(t, tuple):
                    p.sbatch(*t[1:])
                else:
                    self.api.create(t)
                    time.sleep(0.3)  # in this order
            time.sleep(2.5)  # the bridge and Slurm know who waits
            got[what] = self.ones("lone", self.o.lone, (0.2, 1.2))
            self.api.cordon("n3", False)
            p.shell("scancel", "--state=PENDING", "--me", check=False)
            p.shell("scancel", "--me", check=False)
            self.empty()
            wait_for("nobody waits", lambda: not p.squeue(), 60)
        say.step("lone pods right after a burst")
        all_ = []
        for i in range(4):
            w, names = Watch(self.api), [f"before{i}-{k}" for k in range(self.o.pods // 4)]
            for name in names:
                self.api.create(self.tiny(name, ("true",)))
            w.wait(lambda: len(w.bound) >= len(names), 120)
            w.close()
            all_.append(self.ones(f"after{i}-", self.o.lone // 4, (0.0, 0.2)))
            self.empty()
        got["right after a burst"] = {"n": sum(x["n"] for x in all_), "at_once": sum(x["at_once"] for x in all_), "all": (v := [y for x in all_ for y in x["all"]]),
                                      "p50_ms": pct(v, 50), "p99_ms": pct(v, 99)}

    def ones(self, prefix, n, between):
        """n small pods, one at a time: created → bound, and how many Slurm gave resources to in one call."""
        w, lat, rng, count = Watch(self.api), [], random.Random(3), lambda: self.pool.bridge_metric("tandem_bridge_allocations_total")
        before = count()
        for i in range(n):
            time.sleep(rng.uniform(*between))
            name = f"{prefix}{i}"
            start = self.api.create(self.tiny(name))
            if w.wait(lambda: name in w.bound, 30):
                lat.append((w.bound[name] - start) * 1000)
            self.api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        w.close()
        return {"n": len(lat), "at_once": int(count() - before), "p50_ms": pct(lat, 50), "p99_ms": pct(lat, 99), "all": [round(x) for x in lat]}

    def rss(self):
        p, n = self.need(True), self.o.pods
        self.fill("rss", n)
        self.results["rss"] = {"pods": n, "mb": {r: memory_mb(pid) for r, pid in processes(p).items()}}
        self.empty()

    def idle(self):
        """Bytes of slurmrestd's replies over a minute in which nothing happens; it has pinged its nodes six times by then."""
        for n in (4, self.o.nodes):
            p = self.need(("--nodes", str(n), "--cpus", "2", "--gpus", "0") if n != 4 else False)
            wait_for("all nodes are idle", lambda: p.idle_nodes() == n, 300)
            time.sleep(20)  # the second listing and the last changes of the start
            a, cpu = rest_counters(p), {r: cpu_s(pid) for r, pid in processes(p).items()}
            time.sleep(60)
            b, after = rest_counters(p), {r: cpu_s(pid) for r, pid in processes(p).items()}
            self.results.setdefault("idle", {})[n] = {
                "kb_per_s": sum(b["bytes"].values()) / 60e3 - sum(a["bytes"].values()) / 60e3,
                "nodes_kb_per_s": (b["bytes"].get("nodes", 0) - a["bytes"].get("nodes", 0)) / 60e3,
                "node_polls": b["requests"].get("nodes", 0) - a["requests"].get("nodes", 0),
                "cpu_pct": {r: (after[r] - cpu[r]) / 0.6 for r in cpu if r in after}}

    def other(self):
        """Each change on one side, with PODS bound pods: milliseconds until the other side shows it."""
        self.need(True)
        n, times, rng = self.o.pods, 30, random.Random(2)
        self.fill("side", n + times)
        jobs = {o["metadata"]["name"]: o["metadata"]["annotations"]["tandem.dev/job-id"] for o in self.api.pods()}
        w, out = Watch(self.api), {"scancel → its pod ends": [], "cordon → drained in Slurm": [], "drain → taint on the Node": []}
        wait_for("nodes known", lambda: len(w.nodes) >= self.pool.instance["nodes"], 30)

        def tainted(node):
            return any(t["key"] == "tandem.dev/slurm-drain" for t in w.nodes[node]["spec"].get("taints") or ())

        def drained(node):
            return "DRAIN" in self.slurm.node_states(node)

        def moment():
            time.sleep(rng.uniform(0.5, 1.5))  # nothing may still be in hand from the change before, and no poll in step
            return time.monotonic()

        def until(true):
            end = time.monotonic() + 30
            while not true():
                if time.monotonic() > end:
                    raise AssertionError("not shown within 30 s")
                time.sleep(0.005)  # the look at Slurm
            return time.monotonic()

        for i in range(times):
            say(f"other side: {i + 1} of {times}")
            name, node, start = f"side{i}", f"n{i % 4}", moment()
            self.slurm.cancel(jobs[name])
            assert w.wait(lambda: name in w.leaving, 30), f"{name} stays"
            out["scancel → its pod ends"].append((w.leaving[name] - start) * 1000)
            start = moment()
            self.api.cordon(node, True)
            out["cordon → drained in Slurm"].append((until(lambda: drained(node)) - start) * 1000)
            self.api.cordon(node, False)
            until(lambda: not drained(node))
            start = moment()
            self.slurm.drain(node, True)
            out["drain → taint on the Node"].append((w.wait(lambda: tainted(node), 30) - start) * 1000)
            self.slurm.drain(node, False)
            w.wait(lambda: not tainted(node), 30)
        w.close()
        self.results["other_side"] = {"pods": n, "n": times, "ms": {k: {"p50": pct(v, 50), "p99": pct(v, 99), "all": [round(x) for x in v]} for k, v in out.items()}}
        self.empty()

    def burst(self):
        p, n = self.need(True), self.o.pods
        for held in self.o.held:
            say.step(f"burst of {n} pods, {held} held jobs")
            more = held - self.slurm.held
            self.slurm.hold(more, lambda i: say(f"{i} of {more} more jobs held"))
            self.slurm.held = held
            self.results.setdefault("burst", {})[held] = self.one_burst(p, n, held)
            self.empty()

    def one_burst(self, p, n, held):
        pids, known = processes(p), set(self.slurm.states())
        w, names = Watch(self.api), [f"burst{held}-{i}" for i in range(n)]
        rest0, cpu0, starts, begin = rest_counters(p), {r: cpu_s(pid) for r, pid in pids.items()}, {}, time.monotonic()
        for name in names:
            starts[name] = self.api.create(self.tiny(name, ("true",)))
        w.wait(lambda: len(w.ended) >= n, 600, lambda: say(f"burst: {len(w.bound)} bound, {len(w.ended)} ended of {n}"))
        wait_for("its jobs are over", lambda: not any(s & {"PENDING", "RUNNING", "COMPLETING"} for j, s in self.slurm.states().items() if j not in known), 120)
        took, rest1 = time.monotonic() - begin, rest_counters(p)
        lat = [w.bound[x] - s for x, s in starts.items() if x in w.bound]
        w.close()
        one = max(len(lat), 1)
        per = {k: {op: (v - rest0[k].get(op, 0)) / one for op, v in rest1[k].items() if v > rest0[k].get(op, 0)} for k in rest1}
        return {"pods": n, "bound": len(lat), "bound_per_s": len(lat) / (max(w.bound.values()) - begin), "all_over_s": took,
                "p50_s": pct(lat, 50), "p99_s": pct(lat, 99), "load": os.getloadavg()[0],
                "cpu_ms_per_pod": {r: (cpu_s(pid) - cpu0[r]) * 1000 / one for r, pid in pids.items() if os.path.exists(f"/proc/{pid}")},
                "rest_requests": sum(per["requests"].values()), "rest_kb": sum(per["bytes"].values()) / 1000,
                "rest_by_call": {op: {"requests": per["requests"].get(op, 0), "kb": v / 1000} for op, v in per["bytes"].items()}}


# ---- the table -------------------------------------------------------------------------------------------------------------------


def row(what, value, goal="", peer=""):
    print(f"{what:<40.40} {value:>16.16} {goal:>10.10} {peer:>10.10}")


def ratio(ours, peer):
    return f"{ours / peer:.3f}" if peer and ours == ours else ""


def table(r):
    row("", "measured", "goal", "of peer's")
    if "up_s" in r:
        row("tandem up, to 4 idle Slurm nodes", f"{r['up_s']:.2f} s", "3 s")
        row("then first pod and first job done", f"{r['first_pod_and_job_s']:.2f} s", "2 s")
    if "single" in r:
        s = r["single"]
        row(f"one pod, created → bound: p50 (n={s['n']})", f"{s['p50_ms']:.0f} ms", "50 ms", ratio(s["p50_ms"], PEER["single_p50_ms"]))
        row("  p99", f"{s['p99_ms']:.0f} ms", "250 ms")
    for what, s in r.get("lone", {}).items():
        idle = r["lone"]["idle"]
        row(f"lone pods beside: {what}" if what != "idle" else "lone pods, idle pool", f"{s['p50_ms']:.0f} / {s['p99_ms']:.0f} ms", "30 / 100", f"{s['p50_ms'] / idle['p50_ms']:.1f} ×")
        row(f"  allocated at once, of {s['n']}", f"{s['at_once']}")
    for held, b in r.get("burst", {}).items():
        cpu = b["cpu_ms_per_pod"]
        row(f"burst of {b['pods']} pods, {held} jobs held", f"{b['bound_per_s']:.1f} pods/s", "", ratio(PEER["pods_per_s"], b["bound_per_s"]) if not held else "")
        row("  created → bound: p50, p99", f"{b['p50_s']:.1f} s, {b['p99_s']:.1f} s")
        row("  bridge, CPU per pod", f"{cpu.get('bridge', 0):.2f} ms", "2 ms", ratio(cpu.get("bridge", 0), PEER["bridge_ms"].get(held)))
        row("  slurmrestd", f"{cpu.get('slurmrestd', 0):.2f} ms", "", ratio(cpu.get("slurmrestd", 0), PEER["restd_ms"].get(held)))
        for role in ("slurmctld", "apiserver", "kubelet"):
            row(f"  {role}", f"{cpu.get(role, 0):.2f} ms")
        row("  REST per pod", f"{b['rest_kb']:.1f} kB", "25 kB", ratio(b["rest_kb"], PEER["rest_kb"].get(held)))
        for op, v in sorted(b["rest_by_call"].items(), key=lambda x: -x[1]["kb"]):
            row(f"    {op}", f"{v['requests']:.2f} × {v['kb'] / v['requests'] if v['requests'] else 0:.1f} kB")
    if "other_side" in r:
        o = r["other_side"]
        for what, v in o["ms"].items():
            row(f"{what}: p50", f"{v['p50']:.0f} ms")
            row(f"  p99 ({o['pods']} bound pods, n={o['n']})", f"{v['p99']:.0f} ms", "500 ms")
    for n, i in r.get("idle", {}).items():
        row(f"idle, {n} nodes: replies of slurmrestd", f"{i['kb_per_s']:.1f} kB/s", "20 kB/s", f"{i['kb_per_s'] / r['idle'][4]['kb_per_s']:.1f} ×")
        row(f"  of node polls ({i['node_polls']} in a minute)", f"{i['nodes_kb_per_s']:.1f} kB/s")
        row("  CPU of slurmctld / slurmrestd / bridge", " / ".join(f"{i['cpu_pct'].get(x, 0):.1f}" for x in ("slurmctld", "slurmrestd", "bridge")) + " %")
    if "rss" in r:
        m = r["rss"]["mb"]
        tandem = {k: v for k, v in m.items() if not k.startswith("slurm")}
        row(f"RSS of all roles, {r['rss']['pods']} running pods", f"{sum(v['rss'] for v in tandem.values()):.1f} MB", "60 MB")
        row("  PSS (a shared page counts once)", f"{sum(v['pss'] for v in tandem.values()):.1f} MB")
        row("    of each:", "RSS   PSS   own")
        for role, v in m.items():
            row(f"    {role}", f"{v['rss']:.1f} {v['pss']:5.1f} {v['private']:5.1f}")
    print(f"load average before: {r['load_before']:.1f}, after: {os.getloadavg()[0]:.1f}")


def numbers(text):
    return sorted(int(x) for x in text.split(","))


def main():
    a = argparse.ArgumentParser(allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    a.add_argument("--build", default=str(ROOT / "build"))
    a.add_argument("--only", default=",".join(RUNS))
    a.add_argument("--held", type=numbers, default=[0, 1000, 5000])
    a.add_argument("--pods", type=int, default=200)
    a.add_argument("--singles", type=int, default=60)
    a.add_argument("--lone", type=int, default=20)
    a.add_argument("--nodes", type=int, default=64)
    a.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    o = a.parse_args()
    runs = o.only.split(",")
    if set(runs) - set(RUNS):
        a.error(f"--only: choose from {', '.join(RUNS)}")
    bench = Bench(f"{o.build}/src/cmd/tandem", o)
    try:
        for run in (r for r in RUNS if r in runs):
            say.step(run)
            getattr(bench, run)()
    finally:
        if o.output == "json":
            print(json.dumps(bench.results))
        else:
            table(bench.results)
        bench.close()


if __name__ == "__main__":
    main()
