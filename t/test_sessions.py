"""Sessions: pods of people in the one queue, reached through the gateway by their owner alone (rows D3
D4)."""
import base64
import concurrent.futures
import os
import socket

import pytest

from harness import wait_for
from laptop import address, ask, mallory, me, users  # noqa: F401 (fixtures)

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


@pytest.mark.feature("D3.5", "D3.6")
def test_an_endpoint_with_a_gpu_as_its_owner(pool, me, mallory):
    open(f"{pool.shared_dir}/researcher/hello.txt", "w").write("from my home")
    s = me.json("session", "start", "--name", "Web.1", "--gpus", "1", "--", "id -u > who.txt; ls /dev/tandem-gpu* >> who.txt; exec python3 -m http.server $PORT")
    assert s["state"] == "ready" and s["id"].startswith("web-1-") and s["ends"]
    assert ask(me, f"{s['path']}hello.txt") == (200, "from my home")
    assert ask(me, f"{s['path']}who.txt")[1].split() == ["1000", "/dev/tandem-gpu0"]
    assert ask(me, f"{s['path']}nothing")[0] == 404 and ask(me, s["path"].rstrip("/"))[0] == 302
    # It is a job of his in the one queue, with the device that Slurm gave.
    job = pool.squeue()[int(s["job"])]
    assert job["user"] == "researcher" and job["state"] == "RUNNING"
    assert me.run("session", "list").stdout.splitlines()[1].startswith(s["id"])
    assert [line.split()[1] for line in me.run("ps").stdout.splitlines() if line.startswith(s["id"])] == ["ready"]

    # Nobody else's, and nothing of the gateway's passes on.
    assert ask(me, f"{s['path']}hello.txt", key=False)[0] == 401
    for path in ("/s/", "/s/nothing/", "/s/../s/x/", f"/s/{s['id']}x/", "/s//etc/"):
        assert ask(me, path)[0] in (400, 404, 422), path
    assert ask(mallory, f"{s['path']}hello.txt")[0] == 404 and mallory.api("DELETE", f"/sessions/{s['id']}")[0] == 404
    assert mallory.api("GET", "/sessions")[1]["sessions"] == []
    me.run("session", "stop", s["id"])
    wait_for("it is gone", lambda: ask(me, s["path"])[0] in (404, 503) and int(s["job"]) not in pool.squeue())


ECHO = """
import http.server, hashlib, base64
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        n = int(self.headers['Content-Length']); b = self.rfile.read(n)
        out = repr(sorted((k, v) for k, v in self.headers.items() if k in ('Cookie', 'Authorization'))).encode() + b
        self.send_response(200); self.send_header('Content-Length', str(len(out))); self.end_headers(); self.wfile.write(out)
    def do_GET(self):
        k = hashlib.sha1((self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()
        self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', base64.b64encode(k).decode()); self.end_headers()
        while True:
            d = self.connection.recv(4096)
            if not d: break
            self.connection.sendall(d)
http.server.ThreadingHTTPServer(('', int(__import__('os').environ['PORT'])), H).serve_forever()
"""


WAITS = """
import http.server, os, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while self.path == '/waits' and not os.path.exists('open'): time.sleep(0.02)
        self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()
http.server.ThreadingHTTPServer(('', int(os.environ['PORT'])), H).serve_forever()
"""


@pytest.mark.feature("E4.3")
def test_who_waits_at_an_endpoint_and_how_long_it_takes(pool, me):
    path = f"{pool.shared_dir}/researcher/waits.py"
    open(path, "w").write(WAITS)
    os.chmod(path, 0o644)
    s = me.json("session", "start", "--", "exec python3 waits.py")
    look = lambda: me.json("session", "list")["sessions"]
    mine = lambda: next(x for x in look() if x["id"] == s["id"]).get("requests", {})
    assert mine() == {}, "nobody has asked"
    for _ in range(5):
        assert ask(me, s["path"])[0] == 200
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(ask, me, f"{s['path']}waits") for _ in range(3)]
        try:
            wait_for("three wait", lambda: mine().get("inFlight") == 3)
            shown = next(line for line in me.run("session", "list").stdout.splitlines() if line.startswith(s["id"]))
            assert "  3 waiting, " in shown
        finally:
            open(f"{pool.shared_dir}/researcher/open", "w").close()
        assert [a.result()[0] for a in asked] == [200] * 3
    seen = wait_for("they are answered", lambda: (m := mine())["answered"] == 8 and m)
    assert seen["inFlight"] == 0 and seen["perMinute"] >= 1 and seen["p50Ms"] <= seen["p95Ms"] <= seen["maxMs"]
    me.run("session", "stop", s["id"])
    os.unlink(f"{pool.shared_dir}/researcher/open")


@pytest.mark.feature("D3.6")
def test_bodies_cookies_and_websockets_pass(pool, me):
    path = f"{pool.shared_dir}/researcher/echo.py"
    open(path, "w").write(ECHO)
    os.chmod(path, 0o644)
    s = me.json("session", "start", "--", "exec python3 echo.py")
    body = "x" * 3_000_000
    status, said = ask(me, s["path"], method="POST", body=body, headers={"Cookie": "a=1; tandem=stolen; b=2"})
    assert (status, said) == (200, repr([("Cookie", "a=1; b=2")]) + body)
    host, port = address(pool).split(":")
    with socket.create_connection((host, int(port)), 60) as c:
        key = base64.b64encode(os.urandom(16)).decode()
        c.sendall(f"GET {s['path']}ws HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {me.key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        c.settimeout(60)
        head = b""
        while b"\r\n\r\n" not in head:
            head += c.recv(4096)
        assert b" 101 " in head and me.key.encode() not in head
        for i in range(3):
            c.sendall(b"frame %d" % i)
            assert c.recv(4096) == b"frame %d" % i


@pytest.mark.feature("D4.1")
def test_one_that_waits_says_so_and_one_that_is_not_used_ends(pool, me):
    n = pool.instance["gpus"]
    s = me.json("session", "start", "--no-wait", "--gpus", n + 1, "--", "true")
    words = wait_for("it says why", lambda: me.api("GET", f"/sessions/{s['id']}")[1].get("words"))
    assert "GPU" in words or "gpu" in words, words
    me.run("session", "stop", s["id"])
    r = me.run("session", "start", "--gpus", n + 1, "--", "true", check=False)  # nobody waits for what cannot come
    assert r.returncode == 1 and f"it asks for {n + 1} gpu" in r.stderr, r
    me.run("session", "stop", r.stderr.split("session stop ")[1].split("`")[0])
    short = me.api("POST", "/sessions", {"command": "exec python3 -m http.server $PORT", "idle": 2})[1]
    wait_for("it was ready, or is gone already", lambda: me.api("GET", f"/sessions/{short['id']}")[1].get("state") in ("ready", "stopping", "reclaimed"))
    wait_for("it ends when nobody uses it", lambda: me.api("GET", f"/sessions/{short['id']}")[1].get("state") == "reclaimed", 60)
    assert "nobody has used it" in open(f"{pool.home}/log/gateway.log").read()
