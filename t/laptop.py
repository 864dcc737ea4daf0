"""A person at a laptop: a home directory of his own, and the commands that talk to the gateway."""
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import socket
import struct
import subprocess
import threading
import time

import pytest

from harness import KEEP, SLOW, wait_for


def address(pool):
    return f"127.0.0.1:{pool.instance['metricsPort'] + 3}"


def fetch(where, path, headers, method="GET", body=None):
    c = http.client.HTTPConnection(where, timeout=120)
    c.request(method, path, body, headers)
    r = c.getresponse()
    return r.status, r.read()


class Laptop:
    def __init__(self, pool, home, user):
        self.pool, self.home, self.user = pool, str(home), user
        os.makedirs(self.home, exist_ok=True)
        self.key = pool.cmd("user", "key", user, "--for", "a test").stdout.strip()

    def run(self, *argv, check=True, cwd=None, timeout=120, url=None, input=None):
        env = {**KEEP, "HOME": self.home, "TANDEM_HOME": f"{self.home}/none", "TANDEM_URL": f"http://{url or address(self.pool)}", "TANDEM_KEY": self.key}
        r = subprocess.run([self.pool.tandem, *map(str, argv)], env=env, cwd=cwd or self.home, input=input, capture_output=True, text=True, timeout=timeout * SLOW)
        assert not check or r.returncode == 0, (argv, r.stdout, r.stderr)
        return r

    def json(self, *argv, **kw):
        return json.loads(self.run(argv[0], "-o", "json", *argv[1:], **kw).stdout)

    def submit(self, *argv, **kw):
        """The id of the run."""
        return self.json("submit", *argv, **kw)["id"]

    def state(self, run):
        return self.api("GET", f"/runs/{run}")[1].get("state")

    def api(self, method, path, body=None, headers=None, key=True):
        """(status, the JSON or the bytes of the reply)."""
        return self.api_full(method, path, body, headers, key)[::2]

    def api_full(self, method, path, body=None, headers=None, key=True):
        c = http.client.HTTPConnection(address(self.pool), timeout=60 * SLOW)
        with contextlib.closing(c):
            raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            c.request(method, path if path == "/" else f"/api/v1{path}", raw,
                      {**({"Authorization": f"Bearer {self.key}"} if key else {}), "Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            data = r.read()
            return r.status, r, json.loads(data) if r.getheader("Content-Type") == "application/json" else data


def ask(me, path, key=True, method="GET", headers=None, body=None):
    """(status, text) of a path at the gateway, such as a session's."""
    c = http.client.HTTPConnection(address(me.pool), timeout=60)
    c.request(method, path, body, {**({"Authorization": f"Bearer {me.key}"} if key else {}), **(headers or {})})
    r = c.getresponse()
    return r.status, r.read().decode(errors="replace")


def tenant(name, members, **spec):
    """A Tenant that has people and no namespaces."""
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
            "spec": {"cluster": {"namespace": "slurm", "name": "main"}, "namespaces": [], "members": members, **spec}}


@contextlib.contextmanager
def cutting(target, cuts):
    """A proxy on 127.0.0.1 that breaks its first connections after so many bytes, up and down together.
    Yields (address, list of the cuts that happened)."""
    host, port = target.rsplit(":", 1)
    left, happened = list(cuts), []
    server = socket.create_server(("127.0.0.1", 0))

    def copy(a, b, budget, both):
        try:
            while data := a.recv(65536):
                if budget[0] is not None:
                    data, budget[0] = data[:budget[0]], budget[0] - len(data)
                if data:
                    b.sendall(data)
                if budget[0] is not None and budget[0] <= 0:
                    happened.append(1)
                    break
        except OSError:
            pass
        for s in both:  # by a reset: who only hears the end of the stream would wait for room to write
            with contextlib.suppress(OSError):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.shutdown(socket.SHUT_RDWR)
                s.close()

    def serve():
        while True:
            try:
                a, _ = server.accept()
            except OSError:
                return
            try:
                b = socket.create_connection((host, int(port)))
            except OSError:
                a.close()
                continue
            budget = [left.pop(0) if left else None]
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=copy, args=(x, y, budget, (a, b)), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}", happened
    finally:
        server.close()


@pytest.fixture
def me(pool, tmp_path):
    """The researcher; no session of his outlives the test."""
    laptop = Laptop(pool, tmp_path / "laptop", "researcher")
    yield laptop
    for s in laptop.api("GET", "/sessions")[1]["sessions"]:
        laptop.api("DELETE", f"/sessions/{s['id']}")
    wait_for("no session is left", lambda: laptop.api("GET", "/sessions")[1]["sessions"] == [])


@pytest.fixture(scope="module")
def users(shared_pool):
    """The pool's users, and mallory, for one file. The namespace of her sessions is the researcher's too, so that who owns a session is all
    that keeps her from his."""
    def put(users, namespaces):
        shared_pool.change({"users": users, "scheduler": {"namespaces": namespaces}}, idle=False)

    def known():  # Slurm would run a job of hers as nobody, or hold it for ever
        there = shared_pool.items("pods", "-n", "slurm", "--field-selector", "status.phase=Running")
        pods = [p["metadata"]["name"] for p in there if p["metadata"]["labels"].get("app.kubernetes.io/name") in ("slurmctld", "slurmd", "login", "slurmrestd")]
        assert {f"main-pool-{n}" for n in shared_pool.nodes} | {"main-slurmctld-0", "main-login-0"} <= set(pods)
        return all("3666" in shared_pool.kubectl("exec", "-n", "slurm", p, "--", "getent", "passwd", "mallory") for p in pods)
    spec = shared_pool.get("slurmcluster", "main", "-n", "slurm")["spec"]
    users, namespaces = spec["users"], spec["scheduler"]["namespaces"]
    rest = [n["namespace"] for n in namespaces].index("*")  # the first entry that fits counts
    try:
        put(users + [{"name": "mallory", "uid": 3666}], [*namespaces[:rest], {"namespace": "researcher", "user": "mallory"}, *namespaces[rest:]])
        wait_for("every daemon of Slurm knows her", known)
        yield
    finally:
        put(users, namespaces)


@pytest.fixture
def mallory(pool, users, tmp_path):
    """Somebody else, who may have sessions."""
    laptop = Laptop(pool, tmp_path / "other", "mallory")
    wait_for("she may have sessions", lambda: (r := laptop.api("GET", "/sessions"))[0] == 200 and "problem" not in r[1])
    return laptop


def statement(member, key, user=None, federation="campus"):
    """What a hub proves itself with at a member: in a person's name, or (user None) in its own."""
    def enc(b):
        return base64.urlsafe_b64encode(b).rstrip(b"=")
    now = int(time.time())
    claims = {"for": "tandem-federation", "iss": federation, "aud": member, "hub": user is None, "iat": now, "exp": now + 60, **({"sub": user} if user else {})}
    text = enc(b'{"alg":"HS256","typ":"JWT"}') + b"." + enc(json.dumps(claims).encode())
    return f"tdf:{federation}:{(text + b'.' + enc(hmac.new(key.encode(), text, hashlib.sha256).digest())).decode()}"
