"""One API server for a test (`tandem apiserver --dev`) with nothing else around it, so that it can
be killed, filled up and given wrong data."""
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from harness import KEEP, SANITIZE, wait_for

CMS = "/api/v1/namespaces/default/configmaps"


def free_port():
    """A free port below the range from which the kernel takes the ports of connections and of port
    0. Otherwise the kernel could give it away before the server binds to it, or while the server
    is started again."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(12000, first) if first > 13000 else 0
        with socket.socket() as s:
            with contextlib.suppress(OSError):
                s.bind(("127.0.0.1", port))
                return s.getsockname()[1]


def cm(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Server:
    def __init__(self, tandem, env=None, db=None):
        """db: the database is there, as in a pool; otherwise everything is in one directory."""
        self.tandem, self.extra, self.db = tandem, env or {}, None
        self.dir = tempfile.mkdtemp(prefix="td-t-api-", dir="/var/tmp")
        self.port = free_port()
        self.process = None
        self.start()
        if db:
            self.stop()
            self.db = db
            self.start()

    # ---- life ----
    def spawn(self):
        log = open(f"{self.dir}/log", "ab")
        where = ["--pki", f"{self.dir}/pki", "--db", self.db, "--agent-socket", f"{self.dir}/agent.sock"] if self.db else ["--dev", self.dir]
        self.process = subprocess.Popen([self.tandem, "apiserver", *where, "--listen", f"127.0.0.1:{self.port}"], env={**KEEP, **SANITIZE, **self.extra},
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self.process

    def start(self):
        self.spawn()

        def ready():
            assert self.process.poll() is None, self.log()
            try:
                return self.call("GET", "/readyz", user=None, timeout=20)[0] == 200
            except (OSError, http.client.HTTPException):
                return False
        wait_for("the API server answers", ready)

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self):
        code = self.stop()
        text = self.log()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code == 0 and "Sanitizer" not in text and "runtime error" not in text, text

    def log(self):
        return pathlib.Path(f"{self.dir}/log").read_text(errors="replace")

    def memory(self):
        """Resident bytes; 0 for a sanitizer's build, which keeps freed memory."""
        if b"__asan_init" in pathlib.Path(self.tandem).read_bytes():
            return 0
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def metric(self, name):
        text = self.get_text("/metrics")
        return float(next(l for l in text.splitlines() if l.startswith(name + " ")).split()[1])

    # ---- asking ----
    def tls(self, user="admin", pki=None):
        pki = pki or f"{self.dir}/pki"
        ctx = ssl.create_default_context(cafile=f"{self.dir}/pki/ca.crt")
        ctx.check_hostname = True
        if user:
            ctx.load_cert_chain(f"{pki}/{user}.crt", f"{pki}/{user}.key")
        return ctx

    def connection(self, user="admin", timeout=60, pki=None):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls(user, pki), timeout=timeout)

    def call(self, method, path, body=None, user="admin", headers=None, timeout=60, pki=None):
        """Returns (status, JSON document or text)."""
        c = self.connection(user, timeout, pki)
        try:
            raw = body if isinstance(body, (bytes, str)) or body is None else json.dumps(body)
            c.request(method, path, raw, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            text = r.read()
            self.headers = r.headers
            try:
                return r.status, json.loads(text)
            except ValueError:
                return r.status, text.decode(errors="replace")
        finally:
            c.close()

    def get_text(self, path):
        return self.call("GET", path)[1]

    def socket(self, user="admin", receive_buffer=None, timeout=60):
        """A raw TLS connection."""
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(("127.0.0.1", self.port))
        return self.tls(user).wrap_socket(s, server_hostname="127.0.0.1")

    def token(self, sub="admin", groups=("system:masters",), **claims):
        """A bearer token signed with the server's key, as the server gives them out."""
        key = pathlib.Path(f"{self.dir}/pki/sa.key").read_bytes()
        part = lambda b: base64.urlsafe_b64encode(b).rstrip(b"=")
        body = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps({"sub": sub, "groups": list(groups), "exp": int(time.time()) + 600, **claims}).encode())
        return (body + b"." + part(hmac.new(key, body, hashlib.sha256).digest())).decode()

    def names(self):
        return {o["metadata"]["name"] for o in self.call("GET", CMS)[1]["items"]}


class Watch:
    """The events of one watch, read on demand with a deadline."""

    def __init__(self, server, path, timeout=60):
        self.c = server.connection(timeout=timeout)
        self.c.request("GET", path)
        self.r = self.c.getresponse()
        self.status = self.r.status

    def next(self):
        line = self.r.readline()
        return json.loads(line) if line else None

    def close(self):
        self.c.close()
