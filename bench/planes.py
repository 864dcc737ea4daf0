#!/usr/bin/env python3
# rows: F1.9 F3.1
"""The same work on the embedded plane and on a real Kubernetes, side by side in one run: numbers and ratios, never pass or fail.

usage: bench/planes.py [--build DIR] [--only RUN,…] [--pods 60] [-o table|json]        as root, best on a quiet machine

Runs (all by default):
  api     the embedded API server beside kube-apiserver + etcd, both with every acknowledged
          write on the disk: CPU per request, latency, time until ready, memory
  kubelet one pod at a time of the plane's own scheduler: created → Running
  roles   PODS pods through Slurm: created → bound; CPU, requests and memory of bridge and
          operator
CPU is that of the servers alone, from /proc; the client's costs count nowhere. Ratios are
embedded ÷ real: below 1 means that the embedded plane needs less."""
import argparse
import base64
import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "t"), str(ROOT / "t/kube"), str(ROOT / "bench")]
from clients import Watch, cpu_s, end_stream, memory_mb, pct  # noqa: E402
from harness import Pool, wait_for  # noqa: E402

RUNS = ("api", "kubelet", "roles")
PODS = "/api/v1/namespaces/default/pods"


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Api:
    """Any API server, by a kubeconfig with files or inline certificates."""

    def __init__(self, kubeconfig):
        import yaml
        conf = yaml.safe_load(open(kubeconfig))
        self.ctx, user, c = ssl.create_default_context(), conf["users"][0]["user"], conf["clusters"][0]["cluster"]
        self.ctx.check_hostname = False
        self.ctx.load_verify_locations(self.file(c, "certificate-authority"))
        self.ctx.load_cert_chain(self.file(user, "client-certificate"), self.file(user, "client-key"))
        host, _, port = c["server"].removeprefix("https://").partition(":")
        self.host, self.port = host, int(port or 443)
        self.conn = self.connect()

    @staticmethod
    def file(of, key):
        if key in of:
            return of[key]
        f = tempfile.NamedTemporaryFile(delete=False)
        f.write(base64.b64decode(of[key + "-data"]))
        f.close()
        return f.name

    def connect(self):
        return http.client.HTTPSConnection(self.host, self.port, context=self.ctx, timeout=600)

    def call(self, method, path, body=None, kind="application/json", conn=None):
        conn = conn or self.conn
        conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
        r = conn.getresponse()
        text = r.read()
        if r.status >= 300:
            raise RuntimeError(f"{method} {path}: {r.status} {text[:300]}")
        return json.loads(text)


def gated(name):
    """A pod that nobody runs."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "bench"}},
            "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [
                {"name": "main", "image": "debian:13", "command": ["sleep", "100000"], "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]}}


def children(pid):
    got = [pid]
    for c in subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True).stdout.split():
        got += children(int(c))
    return got


# ---- the two API servers ---------------------------------------------------------------------------------------------------------


class Embedded:
    name = "embedded"

    def __init__(self, tandem):
        from apidev import Server
        start = time.monotonic()
        self.s = Server(tandem)
        self.first_s = time.monotonic() - start
        conf = f"{self.s.dir}/bench.conf"
        pki = f"{self.s.dir}/pki"
        json.dump({"clusters": [{"cluster": {"server": f"https://127.0.0.1:{self.s.port}", "certificate-authority": f"{pki}/ca.crt"}}],
                   "users": [{"user": {"client-certificate": f"{pki}/admin.crt", "client-key": f"{pki}/admin.key"}}]}, open(conf, "w"))
        self.api = Api(conf)

    def ready_s(self):
        """Start of a process that has its keys → it answers."""
        times = []
        for _ in range(5):
            self.s.stop()
            start = time.monotonic()
            self.s.spawn()
            while True:
                try:
                    if self.s.call("GET", "/readyz", user=None)[0] == 200:
                        break
                except OSError:
                    time.sleep(0.001)
            times.append(time.monotonic() - start)
        self.api.conn = self.api.connect()
        return pct(times, 50)

    def pids(self):
        return [self.s.process.pid]

    def close(self):
        self.s.close()


class Real:
    name = "real"

    def __init__(self, tandem):
        import cluster
        assets = subprocess.run([ROOT / "tools/kube-assets", "--check"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]
        # Like durability: etcd syncs, as the embedded server does.
        cluster.HUB = cluster.HUB.replace(" --unsafe-no-fsync", "")
        self.c = cluster.Cluster(home=tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp"), assets=assets, nodes=0)
        start = time.monotonic()
        self.c.up()
        self.first_s = time.monotonic() - start
        self.api = Api(self.c.kubeconfig)
        wait_for("the namespace has its account", lambda: self.api.call("GET", "/api/v1/namespaces/default/serviceaccounts")["items"], 60)

    def ready_s(self):
        return self.first_s

    def pids(self):
        return [p for p in children(self.c.pids["hub"]) if open(f"/proc/{p}/comm").read().strip() in ("kube-apiserver", "etcd")]

    def close(self):
        self.c.down(keep_images=False)
        os.rmdir(self.c.dir) if self.c.dir.exists() else None


def requests(side, n):
    """{what: (CPU ms, p50 ms) per request}"""
    api, out = side.api, {}

    def many(what, calls):
        lat, cpu = [], sum(map(cpu_s, side.pids()))
        for method, path, body, kind in calls:
            start = time.monotonic()
            api.call(method, path, body, kind)
            lat.append((time.monotonic() - start) * 1000)
        out[what] = {"cpu_ms": (sum(map(cpu_s, side.pids())) - cpu) * 1000 / len(lat), "p50_ms": pct(lat, 50)}

    j, merge = "application/json", "application/merge-patch+json"
    many("create a pod", [("POST", PODS, gated(f"p{i}"), j) for i in range(n)])
    many("get a pod", [("GET", f"{PODS}/p{i}", None, j) for i in range(n)])
    many("patch a label", [("PATCH", f"{PODS}/p{i}", {"metadata": {"labels": {"n": str(i)}}}, merge) for i in range(n)])
    many("patch its status", [("PATCH", f"{PODS}/p{i}/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}}, merge) for i in range(n)])
    many(f"list {n} pods", [("GET", PODS, None, j)] * 20)
    many("delete a pod", [("DELETE", f"{PODS}/p{i}?gracePeriodSeconds=0", None, j) for i in range(n)])
    return out


def fan_out(side, watchers, changes):
    """CPU ms per event that a watcher got."""
    api, got, conns, socks = side.api, [0] * watchers, [], []
    path = "/api/v1/namespaces/default/configmaps"
    rv = api.call("GET", path)["metadata"]["resourceVersion"]

    def read(i, stream):
        try:
            for _ in stream:
                got[i] += 1
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
    for i in range(watchers):
        conn = api.connect()
        conn.connect()
        socks.append(conn.sock)
        conn.request("GET", f"{path}?watch=1&resourceVersion={rv}")
        conns.append(conn)
        threading.Thread(target=read, args=(i, conn.getresponse()), daemon=True).start()
    cpu = sum(map(cpu_s, side.pids()))
    for i in range(changes):
        api.call("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"f{i}"}, "data": {"k": "x" * 500}})
    wait_for("all events came", lambda: min(got) >= changes, 120)
    ms = (sum(map(cpu_s, side.pids())) - cpu) * 1000 / (watchers * changes)
    for c, sock in zip(conns, socks):
        end_stream(c, sock)
    return ms


def stored(side, counts):
    """Memory with so many pods stored."""
    out, have = {}, 0
    for n in counts:
        def fill(first, step):
            conn = side.api.connect()
            for i in range(first, n, step):
                side.api.call("POST", PODS, gated(f"s{i}"), conn=conn)
        threads = [threading.Thread(target=fill, args=(have + k, 4)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        have = n
        out[n] = {k: sum(memory_mb(p)[k] for p in side.pids()) for k in ("rss", "pss")}
    return out


def run_api(tandem, o):
    got = {}
    for make in (Embedded, Real):
        say(f"api: {make.name}")
        side = make(tandem)
        try:
            got[make.name] = {"ready_s": side.ready_s(), "requests": requests(side, 500), "fan_out_ms": fan_out(side, 50, 200), "memory": stored(side, (1000, 10000))}
        finally:
            side.close()
    return got


# ---- pods on both planes ---------------------------------------------------------------------------------------------------------


class Planes:
    def __init__(self, tandem, build):
        self.tandem, self.build, self.pools = tandem, build, {}

    def pool(self, plane):
        if plane not in self.pools:
            say(f"{plane}: up")
            if plane == "real":
                from realpool import RealPool
                p = RealPool(self.tandem, self.build)
            else:
                p = Pool(self.tandem, tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp"))
            self.pools[plane] = p
            p.up(*(() if plane == "real" else ("--nodes", "3")))
        return self.pools[plane]

    def close(self):
        for p in self.pools.values():
            p.down(purge=True)


def role_pids(p):
    return {r: (p.procs[r].pid if p.plane == "real" else p.role_pid(r)) for r in ("bridge", "operator")}


def sent(p, role):
    """Requests that a role has sent so far: (to Kubernetes, to slurmrestd)."""
    if p.plane == "real":
        at = p.metrics_address(role)
    else:
        at = f"127.0.0.1:{p.instance['metricsPort'] + ('bridge', 'operator').index(role)}"
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=30) as r:
        lines = r.read().decode().splitlines()
    return [sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")) for name in ("tandem_kube_requests_total", "tandem_slurm_requests_total")]


def run_kubelet(planes, o):
    got = {}
    for plane in ("embedded", "real"):
        p = planes.pool(plane)
        api, lat = Api(p.env["KUBECONFIG"]), []
        say(f"kubelet: {plane}")
        for i in range(20):
            start = time.monotonic()
            api.call("POST", PODS, p.pod(f"k{i}", scheduler="default-scheduler", cpu="100m"))
            while api.call("GET", f"{PODS}/k{i}")["status"].get("phase") != "Running":
                time.sleep(0.002)
            lat.append((time.monotonic() - start) * 1000)
        api.call("DELETE", f"{PODS}?gracePeriodSeconds=0")
        wait_for("they are gone", lambda: not api.call("GET", PODS)["items"], 120)
        got[plane] = {"p50_ms": pct(lat, 50), "max_ms": max(lat)}
    return got


def run_roles(planes, o):
    got = {}
    for plane in ("embedded", "real"):
        p = planes.pool(plane)
        say(f"roles: {plane}")
        api, pids = Api(p.env["KUBECONFIG"]), role_pids(p)
        w, starts = Watch(api), {}
        cpu, before = {r: cpu_s(pid) for r, pid in pids.items()}, {r: sent(p, r) for r in pids}
        for i in range(o.pods):
            starts[f"b{i}"] = time.monotonic()
            api.call("POST", PODS, p.pod(f"b{i}", cpu="500m", memory="16Mi", command=["true"], restartPolicy="Never"))
        if not w.wait(lambda: len(w.ended) >= o.pods, 300):
            raise RuntimeError(f"{plane}: only {len(w.ended)} of {o.pods} pods ended")
        wait_for("no job is left", lambda: not p.squeue(), 120)
        lat = [(w.bound[n] - s) * 1000 for n, s in starts.items()]
        got[plane] = {"p50_ms": pct(lat, 50), "p99_ms": pct(lat, 99), "cpu_ms_per_pod": {r: (cpu_s(pid) - cpu[r]) * 1000 / o.pods for r, pid in pids.items()},
                      "requests_per_pod": {r: [(b - a) / o.pods for a, b in zip(before[r], sent(p, r))] for r in pids},
                      "memory": {r: memory_mb(pid) for r, pid in pids.items()}}
        w.close()
        single = []
        w = Watch(api)
        for i in range(20):
            time.sleep(0.3)
            start = time.monotonic()
            api.call("POST", PODS, p.pod(f"one{i}", cpu="500m", memory="16Mi"))
            w.wait(lambda: f"one{i}" in w.bound, 30)
            single.append((w.bound[f"one{i}"] - start) * 1000)
            api.call("DELETE", f"{PODS}/one{i}?gracePeriodSeconds=0")
        w.close()
        got[plane]["single_p50_ms"], got[plane]["single_max_ms"] = pct(single, 50), max(single)
        p.clean()
    return got


# ---- the table -------------------------------------------------------------------------------------------------------------------


def rows(r):
    def pair(what, get, unit):
        try:
            a, b = get(r["embedded"]), get(r["real"])
        except KeyError:
            return
        yield what, a, b, unit
    for what in r["embedded"].get("requests", {}):
        yield from pair(f"{what}: CPU", lambda x: x["requests"][what]["cpu_ms"], "ms")
        yield from pair(f"{what}: p50", lambda x: x["requests"][what]["p50_ms"], "ms")
    yield from pair("an event to a watcher: CPU", lambda x: x["fan_out_ms"], "ms")
    yield from pair("start → ready", lambda x: x["ready_s"] * 1000, "ms")
    for n in (1000, 10000):
        yield from pair(f"RSS with {n} pods", lambda x: x["memory"][n]["rss"], "MB")
    yield from pair("created → Running p50", lambda x: x["kubelet_p50_ms"], "ms")
    for what, key in (("one pod created → bound p50", "single_p50_ms"), ("burst created → bound p50", "p50_ms"), ("burst created → bound p99", "p99_ms")):
        yield from pair(what, lambda x: x[key], "ms")
    for role in ("bridge", "operator"):
        yield from pair(f"{role}: CPU per pod", lambda x: x["cpu_ms_per_pod"][role], "ms")
        for i, to in enumerate(("Kubernetes", "slurmrestd")):
            yield from pair(f"{role}: requests to {to} per pod", lambda x: x["requests_per_pod"][role][i], "")
        yield from pair(f"{role}: RSS", lambda x: x["memory"][role]["rss"], "MB")


def table(results):
    print(f"{'':40} {'embedded':>11} {'real':>11} {'ratio':>6}")
    for run in RUNS:
        for what, a, b, unit in rows(results[run]) if run in results else ():
            print(f"{what:40} {a:>8.2f} {unit:2} {b:>8.2f} {unit:2} {a / b if b else float('nan'):>6.2f}")


def main():
    a = argparse.ArgumentParser(allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--build", default=str(ROOT / "build"))
    a.add_argument("--only", default=",".join(RUNS))
    a.add_argument("--pods", type=int, default=60)
    a.add_argument("-o", default="table", choices=["table", "json"])
    o = a.parse_args()
    if os.geteuid():
        sys.exit("bench/planes.py: containers, networks and cgroups need root")
    tandem, want = f"{o.build}/src/cmd/tandem", o.only.split(",")
    if set(want) - set(RUNS):
        sys.exit(f"bench/planes.py: --only knows {', '.join(RUNS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench/planes.py: stopped"))  # takes down what it started
    results = {"load": os.getloadavg()[0]}
    planes = Planes(tandem, o.build)
    try:
        if "api" in want:
            results["api"] = run_api(tandem, o)
        if "kubelet" in want:
            k = run_kubelet(planes, o)
            results["kubelet"] = {s: {"kubelet_p50_ms": v["p50_ms"]} for s, v in k.items()}
        if "roles" in want:
            results["roles"] = run_roles(planes, o)
    finally:
        planes.close()
    print(json.dumps(results, indent=1)) if o.o == "json" else table(results)


if __name__ == "__main__":
    main()
