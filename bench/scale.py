#!/usr/bin/env python3
# rows: A5.7 A5.8 F3.1
"""How Tandem's own loops behave with thousands of nodes: ratios and costs per object, never pass or fail. Run as root.

usage: bench/scale.py [--build DIR] [--nodes 500,1000,2000] [--pods 300] [--native 300] [--seconds 30]
                      [--perf ROLE,…] [-o table|json]

One pool on the embedded plane with two real nodes, which grows to each number of NODES. What is real: slurmctld,
slurmdbd, slurmrestd, bridge, operator, gateway, the API. What stands for something: the Node objects and the status of
pods on them are written here, as a kubelet would (kwok does the same); Slurm's nodes are registered by real slurmds
that end again, one of which answers for all (register.sh; SlurmdTimeout is Slurm's own 300 s, for while they come the
one port is often closed). No process of a job runs on such a node, and no job ends
there. Each has 63 CPUs and 8 GPUs.

At each size, with the controllers of the plane stopped, so that they do not count:
  join    the nodes come, until all take jobs in Slurm and are ready in their NodeSet
  idle    SECONDS in which nothing happens
  burst   PODS pods with a GPU each, created at once: until all are bound
  native  NATIVE running jobs of a GPU each, one after the other: until the bridge has counted them all
  steady  SECONDS in which nothing happens, beside these pods and jobs
  page    SECONDS with a page open at the gateway, which nobody touches: one stream of news
  busy    the same, while a native job begins every 2 s, until each is heard of; and what the page then asks for
  ask     `tandem nodes`, `why` and `status`, and the roles' metrics: time, and CPU of all roles

--perf writes perf's data of these roles for `burst` and `steady` to /var/tmp/tandem-scale-ROLE-NODES-RUN."""
import argparse
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "t"), str(ROOT / "bench")]
from bench import say  # noqa: E402
from clients import Api, Slurm, cpu_s, memory_mb, processes  # noqa: E402
from harness import Pool, wait_for  # noqa: E402
from laptop import address  # noqa: E402

ROLES = ("bridge", "operator", "gateway", "apiserver", "kubelet", "slurmctld", "slurmrestd")
CHAINS = 2  # slurmds that register at the same time


class Nodes(threading.Thread):
    """Stands for the kubelets of the nodes s0, s1, …: makes the Node objects, and says of each pod there that it runs."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.api, self.writes = Api(pool), Api(pool)
        self.address = pool.get("pod", "main-pool-n1", "-n", "slurm")["status"]["podIP"]  # from where they register
        self.like = self.api.call("GET", "/api/v1/nodes/n0")
        self.lock = threading.Lock()
        self.chains, self.waits = [self.chain(pool, 7000 + i) for i in range(CHAINS)], {}
        self.start()

    def chain(self, pool, port):
        """A process that registers nodes in turn, each when it is told; its pod runs from then on."""
        c = subprocess.Popen(["kubectl", "exec", "-i", "-n", "slurm", "main-pool-n1", "-c", "slurmd", "--", "unshare", "-m", "bash", "-c",
                              (ROOT / "bench/register.sh").read_text(), "register.sh", "main-slurmctld-0.main-slurmctld.slurm.svc.cluster.local:6817", str(port)],
                             env=pool.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

        def registered():
            for line in c.stdout:
                self.runs(self.waits.pop(line.strip()))
        threading.Thread(target=registered, daemon=True).start()
        return c

    def begin(self, pod):
        """A new pod: a node's slurmd registers first."""
        node = pod["spec"]["nodeName"]
        if pod["metadata"]["labels"].get("app.kubernetes.io/name") != "slurmd":
            return self.runs(pod)
        conf = next(e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "TD_NODE_CONF")
        if node not in self.waits:
            self.waits[node] = pod
            self.chains[int(node[1:]) % CHAINS].stdin.write(f"{node}\t{conf}\n")

    def runs(self, o):
        m = o["metadata"]
        path = f"/api/v1/namespaces/{m['namespace']}/pods/{m['name']}"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conds = [{"type": t, "status": "True", "lastTransitionTime": now} for t in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]
        boxes = [{"name": c["name"], "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}, "image": "x", "imageID": "x"}
                 for c in o["spec"]["containers"]]
        with self.lock:
            self.writes.call("PATCH", path + "/status", {"status": {"phase": "Running", "podIP": self.address, "startTime": now, "conditions": conds,
                                                                    "containerStatuses": boxes}}, "application/merge-patch+json")

    def make(self, i):
        o = json.loads(json.dumps(self.like).replace('"n0"', f'"s{i}"'))
        for k in ("uid", "resourceVersion", "creationTimestamp"):
            o["metadata"].pop(k, None)
        o["metadata"]["annotations"] = {}
        o["spec"] = {}
        o["metadata"]["labels"]["topology.tandem.dev/block"] = f"b{i // 256}"
        o["metadata"]["labels"]["topology.tandem.dev/rack"] = f"r{i // 16}"
        with self.lock:
            self.writes.call("POST", "/api/v1/nodes", o)
            self.writes.call("PATCH", f"/api/v1/nodes/s{i}/status", {"status": o["status"]}, "application/merge-patch+json")

    def run(self):
        conn = self.api.connect()
        conn.request("GET", "/api/v1/pods?watch=1")
        for line in conn.getresponse():
            ev = json.loads(line)
            o = ev["object"]
            node, m = o.get("spec", {}).get("nodeName", ""), o["metadata"]
            if ev["type"] == "DELETED" or not node.startswith("s"):
                continue
            if m.get("deletionTimestamp"):
                with self.lock:
                    self.writes.call("DELETE", f"/api/v1/namespaces/{m['namespace']}/pods/{m['name']}?gracePeriodSeconds=0")
            elif ev["type"] == "ADDED" or not o["status"].get("conditions"):
                if o["status"].get("phase") != "Running":
                    self.begin(o)


def counters(port):
    """{name{labels}: value} of a role's metrics, and how long the answer took."""
    start = time.monotonic()
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300).read().decode()
    took = time.monotonic() - start
    got = {}
    for line in text.splitlines():
        if line and line[0] != "#":
            name, _, value = line.rpartition(" ")
            got[name] = float(value)
    return got, took, len(text)


class Scale:
    def __init__(self, o):
        self.o, self.results = o, {}
        self.pool = Pool(f"{o.build}/src/cmd/tandem", tempfile.mkdtemp(prefix="tandem-scale-", dir="/var/tmp"))
        self.have = 0

    def start(self):
        p = self.pool
        p.up("--nodes", "2", "--cpus", "64", "--gpus", "8")
        p.kubectl("-n", "slurm", "patch", "slurmcluster", "main", "--type", "merge", "-p",
                  json.dumps({"spec": {"config": {"slurmConf": {"MaxNodeCount": "16384", "SlurmdTimeout": "300"}}}}))
        wait_for("slurmctld has room for the nodes", lambda: "MaxNodeCount            = 16384" in p.shell("scontrol", "show", "config"))
        wait_for("two nodes are idle", lambda: p.idle_nodes() == 2)
        self.api, self.slurm = Api(p), Slurm(p)
        self.pids = {**processes(p), "gateway": p.role_pid("gateway")}
        os.kill(self.pids["controllers"], signal.SIGSTOP)  # else these nodes' leases would have to be kept, and their work counts for nobody
        self.nodes = Nodes(p)
        self.ports = {r: p.instance["metricsPort"] + i for i, r in enumerate(("bridge", "operator"))}

    def close(self):
        for c in getattr(self, "nodes", None) and self.nodes.chains or ():
            c.kill()
        if getattr(self, "pids", None):
            os.kill(self.pids["controllers"], signal.SIGCONT)
        self.pool.down(purge=True)
        if os.path.isdir(self.pool.home) and not os.listdir(self.pool.home):
            os.rmdir(self.pool.home)

    # ---- measuring ----
    def now(self):
        self.api.conn.close()  # the API ends connections that rest; the next call opens one
        c = {}
        for r, port in self.ports.items():
            got, _, _ = counters(port)
            for k, v in got.items():
                if "requests_total" in k or "received_bytes_total" in k:
                    op = k.split('op="')[1].split('"')[0] if 'op="' in k else "all"
                    where = "slurm" if k.startswith("tandem_slurm") else "kube"
                    what = "requests" if "requests" in k else "bytes"
                    key = (r, where, what, op if where == "slurm" else "all")
                    c[key] = c.get(key, 0) + v
        return time.monotonic(), {r: cpu_s(p) for r, p in self.pids.items() if r in ROLES and os.path.exists(f"/proc/{p}")}, c

    def between(self, a, b, per):
        """per: how many objects, or seconds. CPU in ms and requests for each."""
        return {"seconds": b[0] - a[0], "load": os.getloadavg()[0], "per": per,
                "cpu_ms": {r: (b[1][r] - a[1][r]) * 1000 / per for r in b[1]},
                "calls": {"/".join(k): (v - a[2].get(k, 0)) / per for k, v in sorted(b[2].items()) if v > a[2].get(k, 0)}}

    def measured(self, what, per, do):
        perf = []
        for r in self.o.perf:
            if what in ("burst", "steady", "join", "idle"):
                perf.append(subprocess.Popen(["perf", "record", "-q", "-g", "-F", "199", "-o", f"/var/tmp/tandem-scale-{r}-{self.have}-{what}", "-p", str(self.pids[r])],
                                             stderr=subprocess.DEVNULL))
        a = self.now()
        do()
        b = self.now()
        for x in perf:
            x.send_signal(signal.SIGINT)
            x.wait()
        got = self.between(a, b, per or b[0] - a[0])
        self.results.setdefault(self.have, {})[what] = got
        return got

    # ---- the runs ----
    def join(self, n):
        first, self.have = self.have, n

        def do():
            for i in range(first, n):
                self.nodes.make(i)
                say(f"{i + 1} of {n} Node objects")
            wait_for("Slurm has them all", lambda: self.usable() == n + 2, 3600)
            wait_for("the NodeSet has them all", lambda: self.pool.get("nodeset", "pool", "-n", "slurm")["status"].get("ready") == n + 2, 900)
        self.measured("join", n - first, do)

    def usable(self):
        got = sum(not {"DOWN", "NOT_RESPONDING", "UNKNOWN", "DRAIN"} & set(x["state"]) for x in self.slurm.call("GET", "/nodes/")["nodes"])
        say(f"{got} nodes take jobs in Slurm")
        time.sleep(2)
        return got

    def quiet(self):
        wait_for("the roles have nothing to do", self.settled, 900)

    def settled(self):
        a = {r: cpu_s(self.pids[r]) for r in ("bridge", "operator")}
        time.sleep(3)
        return all(cpu_s(self.pids[r]) - v < 1.5 for r, v in a.items())

    def burst(self, first):
        n = self.o.pods

        def do():
            for i in range(n):
                pod = self.pool.pod(f"p{first}-{i}", gpus=1, restartPolicy="Never")
                pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n0", "n1"]}]}]}}}
                self.api.create(pod)
            start = time.monotonic()
            wait_for("all pods are bound", lambda: sum(bool(x["spec"].get("nodeName")) for x in self.api.pods()) >= (len(self.results)) * n, 900)
            self.bound_s = time.monotonic() - start
        self.measured("burst", n, do)

    def native(self):
        n = self.o.native
        job = self.job = {"name": "native", "nodes": "1", "tasks": 1, "tres_per_node": "gres/gpu:1", "memory_per_node": {"set": True, "number": 100}, "immediate": True,
               "current_working_directory": "/", "environment": ["PATH=/bin"], "excluded_nodes": ["n0", "n1"], "time_limit": {"set": True, "number": 6000}}

        def do():
            for i in range(n):
                self.slurm.call("POST", "/job/allocate", {"job": job})
                say(f"{i + 1} of {n} native jobs")
            all_ = len(self.results) * n
            wait_for("the bridge has counted them", lambda: self.counted() >= all_, 1800)
        self.measured("native", n, do)

    def counted(self):
        got = sum(int(x["metadata"].get("annotations", {}).get("tandem.dev/slurm-jobs", 0)) for x in self.api.call("GET", "/api/v1/nodes")["items"])
        say(f"{got} native jobs counted")
        return got

    # ---- people ----
    def door(self, path):
        c = http.client.HTTPConnection(self.at, timeout=300)
        c.request("GET", "/api/v1" + path, headers={"Authorization": f"Bearer {self.key}"})
        return c, c.getresponse()

    def watch(self, news):
        conn, answer = self.door("/events")
        self.stream = conn
        for line in answer:
            if line.startswith(b"event: change"):
                news.append(time.monotonic())

    def page(self):
        if not hasattr(self, "key"):
            self.key = self.pool.cmd("user", "key", "researcher", "--for", "bench").stdout.strip()
            self.at = address(self.pool)
        news = []
        threading.Thread(target=self.watch, args=(news,), daemon=True).start()
        wait_for("the page has its first news", lambda: news)
        self.measured("page", None, lambda: time.sleep(self.o.seconds))
        seen = []

        def change():
            end = time.monotonic() + self.o.seconds
            while time.monotonic() < end:
                n, began = len(news), time.monotonic()
                self.slurm.call("POST", "/job/allocate", {"job": self.job})
                wait_for("the page hears of it", lambda: len(news) > n, 60)
                seen.append(news[n] - began)
                time.sleep(2)
        self.measured("busy", None, change)
        self.stream.close()
        got = self.results[self.have]["asks"] = {"news_s": sorted(seen)}
        for path in ("/pool", "/jobs", "/pool", "/jobs"):
            a, start = self.now(), time.monotonic()
            size = len(self.door(path)[1].read())
            got[path] = {"s": time.monotonic() - start, "kb": size / 1000, **self.between(a, self.now(), 1)}

    def ask(self):
        out = {}
        for what, argv in {"nodes": ("nodes",), "status": ("status",), "why": ("why", f"p{self.have}-0")}.items():
            a, start = self.now(), time.monotonic()
            r = subprocess.run([self.pool.tandem, *argv], env=self.pool.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
            took = time.monotonic() - start
            use = self.between(a, self.now(), 1)
            out[what] = {"s": took, "kb": len(r.stdout) / 1000, "rc": r.returncode, "said": (r.stderr or r.stdout)[:200], **use}
        for role, port in self.ports.items():
            cpu = cpu_s(self.pids[role])
            _, took, size = counters(port)
            out[f"metrics of {role}"] = {"s": took, "kb": size / 1000, "cpu_ms": {role: (cpu_s(self.pids[role]) - cpu) * 1000}}
        self.results[self.have]["ask"] = out

    def run(self):
        self.start()
        for n in self.o.nodes:
            say.step(f"{n} nodes")
            self.join(n)
            self.quiet()
            say.step(f"{n} nodes: idle")
            self.measured("idle", None, lambda: time.sleep(self.o.seconds))
            say.step(f"{n} nodes: {self.o.pods} pods")
            self.burst(n)
            say.step(f"{n} nodes: {self.o.native} native jobs")
            self.native()
            self.quiet()
            say.step(f"{n} nodes: steady")
            self.measured("steady", None, lambda: time.sleep(self.o.seconds))
            self.page()
            self.ask()
            self.results[n]["rss_mb"] = {r: memory_mb(self.pids[r])["rss"] for r in ROLES if self.pids.get(r)}
            print(json.dumps({n: self.results[n]}), file=sys.stderr, flush=True)


def table(results):
    sizes = list(results)
    head = f"{'':<46}" + "".join(f"{n:>12}" for n in sizes)
    print(head)
    for what, unit in (("join", "per node"), ("idle", "per second"), ("burst", "per pod"), ("native", "per job"), ("steady", "per second"), ("page", "per second"), ("busy", "per second")):
        print(f"{what}, {unit}" + " " * 10 + "seconds: " + " ".join(f"{results[n][what]['seconds']:.0f}" for n in sizes))
        for r in ROLES:
            v = [results[n][what]["cpu_ms"].get(r, 0) for n in sizes]
            if max(v) > 0.05:
                print(f"  {'CPU of ' + r + ', ms':<44}" + "".join(f"{x:>12.2f}" for x in v))
        for k in sorted({k for n in sizes for k in results[n][what]["calls"]}):
            print(f"  {k:<44}" + "".join(f"{results[n][what]['calls'].get(k, 0):>12.3f}" for n in sizes))
    print("ask: seconds, kB, CPU in ms of all roles")
    for k in sorted({k for n in sizes for k in results[n]["ask"]}):
        print(f"  {k:<24}" + "  ".join(f"{results[n]['ask'][k]['s']:.2f} {results[n]['ask'][k]['kb']:.0f} {sum(results[n]['ask'][k]['cpu_ms'].values()):.0f}" for n in sizes))
    print("a person asks: seconds, kB, CPU of the gateway and slurmrestd in ms; median until the page hears of a job")
    for k in ("/pool", "/jobs"):
        print(f"  {k:<24}" + "  ".join(f"{(x := results[n]['asks'][k])['s']:.2f} {x['kb']:.0f} {x['cpu_ms']['gateway']:.0f} {x['cpu_ms']['slurmrestd']:.0f}" for n in sizes))
    print("  news                    " + "  ".join(f"{(x := results[n]['asks']['news_s'])[len(x) // 2]:.2f}" for n in sizes))
    print("RSS, MB: " + "; ".join(f"{r} " + " ".join(f"{results[n]['rss_mb'].get(r, 0):.0f}" for n in sizes) for r in ROLES))


def main():
    a = argparse.ArgumentParser(allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    a.add_argument("--build", default=str(ROOT / "build"))
    a.add_argument("--nodes", type=lambda t: sorted(int(x) for x in t.split(",")), default=[500, 1000, 2000])
    a.add_argument("--pods", type=int, default=300)
    a.add_argument("--native", type=int, default=300)
    a.add_argument("--seconds", type=int, default=30)
    a.add_argument("--perf", type=lambda t: t.split(","), default=[])
    a.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    scale = Scale(a.parse_args())
    try:
        scale.run()
    finally:
        done = {n: r for n, r in scale.results.items() if "rss_mb" in r}
        print(json.dumps(scale.results)) if scale.o.output == "json" or not done else table(done)
        scale.close()


if __name__ == "__main__":
    main()
