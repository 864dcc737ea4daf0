"""Clients that cost little, so that what is measured is the pool and not the measuring: one kept connection to each API, one watch, /proc."""
import base64
import hashlib
import hmac
import http.client
import json
import os
import socket
import ssl
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
ROLES = ("supervise", "apiserver", "kubelet", "controllers", "operator", "bridge")


def pct(values, p):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * p / 100))] if v else float("nan")


class Api:
    """The embedded API server, as admin."""

    def __init__(self, pool):
        self.ctx = ssl.create_default_context(cafile=f"{pool.home}/pki/ca.crt")
        self.ctx.load_cert_chain(f"{pool.home}/pki/admin.crt", f"{pool.home}/pki/admin.key")
        self.ctx.check_hostname = False
        self.port = pool.instance["apiPort"]
        self.conn = self.connect()

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.ctx, timeout=600)

    def call(self, method, path, body=None, kind="application/json"):
        self.conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
        r = self.conn.getresponse()
        text = r.read()
        if r.status >= 300 and not (method == "DELETE" and r.status == 404):
            raise RuntimeError(f"{method} {path}: {r.status} {text[:300]}")
        return json.loads(text)

    def pods(self, selector=""):
        return self.call("GET", f"/api/v1/namespaces/default/pods?{selector}")["items"]

    def create(self, pod):
        start = time.monotonic()
        self.call("POST", "/api/v1/namespaces/default/pods", pod)
        return start

    def delete_all(self):
        self.call("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")

    def cordon(self, node, yes):
        self.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": yes or None}}, "application/merge-patch+json")


def end_stream(conn, sock):
    """Ends a response that a thread reads, now: close() alone would wait until the stream says something. `sock`: conn.sock from before the request."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the server ended it
    conn.close()


class Watch(threading.Thread):
    """Pods of the namespace default and all nodes, as two watches show them. `pods`: what was first seen when."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self.cond = threading.Condition()
        self.bound, self.ended, self.leaving, self.nodes = {}, {}, {}, {}
        self.streams = []
        for path in ("/api/v1/namespaces/default/pods?watch=1", "/api/v1/nodes?watch=1"):
            conn = api.connect()
            conn.connect()
            sock = conn.sock
            conn.request("GET", path)
            stream = conn.getresponse()
            self.streams.append((conn, sock))
            threading.Thread(target=self.read, args=(stream,), daemon=True).start()

    def read(self, stream):
        try:
            for line in stream:
                self.event(json.loads(line), time.monotonic())
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # closed

    def event(self, ev, now):
        o = ev["object"]
        name, meta = o["metadata"]["name"], o["metadata"]
        with self.cond:
            if o["kind"] == "Node":
                self.nodes[name] = o
            else:
                if o["spec"].get("nodeName"):
                    self.bound.setdefault(name, now)
                if o["status"].get("phase") in ("Succeeded", "Failed"):
                    self.ended.setdefault(name, now)
                if ev["type"] == "DELETED" or meta.get("deletionTimestamp"):
                    self.leaving.setdefault(name, now)
            self.cond.notify_all()

    def wait(self, true, seconds, tick=None):
        """Until true() holds; the time since the epoch of this machine's monotonic clock, or None when it does not in `seconds`."""
        end = time.monotonic() + seconds
        with self.cond:
            while not true():
                left = end - time.monotonic()
                if left <= 0:
                    return None
                self.cond.wait(min(left, 0.5))
                if tick:
                    tick()
        return time.monotonic()

    def close(self):
        for c, sock in self.streams:
            end_stream(c, sock)


class OverSocket(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Slurm:
    """slurmrestd, as root."""

    def __init__(self, pool):
        name = next(s for s in pool.items("secrets", "-n", "slurm") if s["metadata"]["name"].endswith("-jwt-key"))
        self.key = base64.b64decode(name["data"]["jwt_hs256.key"])
        pod = pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmrestd")[0]
        # It listens only on a socket in a volume of its pod; held open by its directory, because such a path may be longer than an address.
        self.dir = os.open(f"{pool.home}/agent/volumes/{pod['metadata']['uid']}/v/rest/private", os.O_PATH)
        self.conn = OverSocket(f"/proc/self/fd/{self.dir}/api.sock")

    def token(self):
        def b64(b):
            return base64.urlsafe_b64encode(b).rstrip(b"=").decode()

        now = int(time.time())
        text = b64(b'{"alg":"HS256","typ":"JWT"}') + "." + b64(json.dumps({"exp": now + 600, "iat": now, "sun": "root"}).encode())
        return text + "." + b64(hmac.new(self.key, text.encode(), hashlib.sha256).digest())

    def call(self, method, path, body=None):
        head = {"X-SLURM-USER-TOKEN": self.token(), "Content-Type": "application/json", "Accept": "application/json"}
        self.conn.request(method, "/slurm/v0.0.42" + path, json.dumps(body) if body is not None else None, head)
        r = self.conn.getresponse()
        text = r.read()
        if r.status != 200:
            raise RuntimeError(f"slurmrestd {method} {path}: {r.status} {text[:300]}")
        return json.loads(text)

    def hold(self, n, tick):
        """n more jobs that wait, held by their user."""
        job = {"name": "held", "hold": True, "nodes": "1", "tasks": 1, "memory_per_node": {"set": True, "number": 1}, "current_working_directory": "/",
               "environment": ["PATH=/bin"], "standard_output": "/dev/null", "standard_error": "/dev/null"}
        for i in range(n):
            if not self.call("POST", "/job/submit", {"script": "#!/bin/sh\ntrue\n", "job": job}).get("job_id"):
                raise RuntimeError("Slurm took no held job")
            tick(i + 1)

    def states(self):
        return {int(j["job_id"]): set(j["state"]) for j in self.call("GET", "/jobs/state/")["jobs"] if j["job_id"].isdigit()}

    def node_states(self, node):
        return set(self.call("GET", f"/node/{node}")["nodes"][0]["state"])

    def cancel(self, job):
        self.call("DELETE", f"/job/{job}")

    def drain(self, node, yes):
        self.call("POST", f"/node/{node}", {"state": ["DRAIN"], "reason": "bench"} if yes else {"state": ["UNDRAIN"]})


# ---- processes ------------------------------------------------------------------------------------------------------------------


def processes(pool):
    """{role: pid}: Tandem's own and Slurm's daemons of the control plane."""
    got = {r: pool.role_pid(r) for r in ROLES}
    for d in filter(str.isdigit, os.listdir("/proc")):
        try:
            comm = open(f"/proc/{d}/comm").read().strip().removesuffix("-wlm")  # as Debian names them
            if comm in ("slurmctld", "slurmrestd") and pool.id in open(f"/proc/{d}/cgroup").read():
                got[comm] = int(d)
        except OSError:
            continue
    return {r: p for r, p in got.items() if p}


def cpu_s(pid):
    f = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(f[11]) + int(f[12])) / TICK


def memory_mb(pid):
    """RSS as people see it; PSS counts a page that n processes share as 1/n; private: what the process alone costs."""
    kb = {}
    for line in open(f"/proc/{pid}/smaps_rollup"):
        f = line.split()
        if len(f) == 3:
            kb[f[0]] = int(f[1])
    return {"rss": kb["Rss:"] / 1024, "pss": kb["Pss:"] / 1024, "private": (kb["Private_Clean:"] + kb["Private_Dirty:"]) / 1024}


def rest_counters(pool):
    """Requests and bytes that the bridge exchanged with slurmrestd, by kind of call, from its metrics."""
    conn = http.client.HTTPConnection("127.0.0.1", pool.instance["metricsPort"], timeout=5)
    conn.request("GET", "/metrics")
    got = {"requests": {}, "bytes": {}}
    for line in conn.getresponse().read().decode().splitlines():
        for name, kind in (("tandem_slurm_requests_total{", "requests"), ("tandem_slurm_received_bytes_total{", "bytes")):
            if line.startswith(name):
                op, n = line.split('op="')[1].split('"')[0], int(line.rpartition(" ")[2])
                got[kind][op] = got[kind].get(op, 0) + n
    return got
