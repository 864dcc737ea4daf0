"""What sessions run: a terminal, Jupyter, a program that just ends (rows D3, E3). Nobody but the owner
comes in, neither through the gateway nor past it."""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import uuid

import pytest

from harness import wait_for
from laptop import address, fetch, mallory, me, users  # noqa: F401 (fixtures)
from wsclient import WebSocket

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


def bearer(who):
    return {"Authorization": f"Bearer {who.key}"}


def tty(who, session, headers=None):
    return WebSocket(address(who.pool), f"{session['path']}tty", bearer(who) if headers is None else headers)


def state(me, s):
    return me.api("GET", f"/sessions/{s['id']}")[1]


@pytest.mark.feature("D3.4", "D3.6")
def test_a_shell_of_ones_own(pool, me, mallory):
    s = me.json("session", "start", "shell")
    assert s["state"] == "ready" and s["kind"] == "shell" and s["id"].startswith("shell-")
    w = tty(me, s)
    assert w.status == 101
    w.send("132x50")
    w.send(b"stty size; echo uid=$(id -u) home=$PWD token=[$TANDEM_SESSION_TOKEN]\n")
    said = w.until(b"token=[]")
    assert b"50 132" in said and b"uid=1000 home=/home/researcher" in said
    w.send(b"KEPT=yes; printf 'and%s\\n' -kept\n")
    w.until(b"and-kept")
    w.close()
    # Who comes back finds the same shell and what it wrote.
    again = tty(me, s)
    again.until(b"and-kept")
    again.send(b"echo still=$KEPT\n")
    again.until(b"still=yes")

    # Nobody else: not another user, not without a key, not past the gateway.
    assert tty(mallory, s).status == 404 and tty(me, s, {}).status == 401
    pod = pool.get("pod", f"session-{s['id']}", "-n", "researcher")
    token = next(e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "TANDEM_SESSION_TOKEN")
    direct = f"{pod['status']['podIP']}:8888"
    for wrong in ({}, {"Authorization": "token "}, {"Authorization": f"token {token}x"}, {"Authorization": f"Bearer {token}"}, bearer(me)):
        assert WebSocket(direct, "/tty", wrong).status == 401, wrong
    assert token not in json.dumps(me.api("GET", "/sessions")[1])
    # It ends with its program.
    again.send(b"exit\n")
    wait_for("it is done", lambda: state(me, s)["state"] == "done")
    assert tty(me, s).status == 503


@pytest.mark.feature("D3.4")
def test_another_page_cannot_use_the_browsers_cookie(pool, me):
    s = me.json("session", "start", "shell")
    reply = me.api_full("POST", "/login", {"key": me.key}, key=False)[1]
    cookie = {"Cookie": reply.getheader("Set-Cookie").split(";")[0]}
    here = {**cookie, "Origin": f"http://{address(pool)}"}
    assert tty(me, s, here).status == 101
    for origin in ("http://127.0.0.1:1", "https://evil.example", "null"):
        assert tty(me, s, {**cookie, "Origin": origin}).status == 403, origin


@pytest.mark.feature("D3.1", "D8.2", "D8.3")
def test_a_batch_session_ends_with_its_program(pool, me):
    s = me.json("session", "start", "batch", "--name", "count", "--memory", "64M", "--disk", "1G", "--", "df --output=size -k /dev/shm | tail -n 1 > shm.txt; echo counted > counted.txt")
    assert s["kind"] == "batch" and "path" not in s
    wait_for("it is done", lambda: state(me, s)["state"] == "done")
    assert open(f"{pool.shared_dir}/researcher/counted.txt").read() == "counted\n"
    assert open(f"{pool.shared_dir}/researcher/shm.txt").read().split() == ["32768"]  # half its memory
    res = next(p for p in pool.items("pods", "-A", "-l", f"tandem.dev/session={s['id']}"))["spec"]["containers"][0]["resources"]
    assert res == {"limits": {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi"}, "requests": {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "0"}}
    failed = me.json("session", "start", "batch", "--no-wait", "--", "echo it is too hot >&2; exit 3")
    wait_for("it has failed", lambda: state(me, failed)["state"] == "failed")
    assert "it is too hot" in state(me, failed)["words"]


@pytest.mark.feature("D3.1", "D3.2")
def test_what_does_not_fit_is_said(pool, me):
    for body, word in (({}, "command"), ({"kind": "batch"}, "command"), ({"kind": "shell", "command": "true"}, "command"), ({"kind": "nothing", "command": "true"}, "kind"),
                       ({"command": "true", "env": "x"}, "env"), ({"kind": "jupyter", "env": "a\nb"}, "env")):
        status, reply = me.api("POST", "/sessions", body)
        assert status == 422 and word in reply["error"]["message"], (body, reply)
    # Where there is no Jupyter, it says so and what to do.
    r = me.run("session", "start", "jupyter", check=False)
    assert r.returncode == 1 and "There is no JupyterLab or notebook server in this image" in r.stderr and "--env" in r.stderr
    r = me.run("session", "start", "jupyter", "--env", "nowhere", check=False)
    assert "There is no environment at nowhere" in r.stderr


def environment(pool, name, *packages):
    """What `python3 -m venv` and pip would make in the home, made from here, because pods of the pool have no way out of it."""
    home = f"{pool.shared_dir}/researcher/{name}"
    version = pool.shell("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    site = f"{home}/lib/python{version}/site-packages"
    os.makedirs(f"{home}/bin")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--only-binary=:all:", "--implementation", "cp", "--platform", "manylinux2014_x86_64",
                    "--python-version", version, "--target", site, *packages], check=True, timeout=1200)
    for f in pathlib.Path(site, "bin").iterdir():
        text = f.read_text(errors="replace")
        pathlib.Path(home, "bin", f.name).write_text(f"#!/home/researcher/{name}/bin/python3\n" + text.split("\n", 1)[1])
        os.chmod(f"{home}/bin/{f.name}", 0o755)
    if os.path.exists(f"{site}/share"):
        os.rename(f"{site}/share", f"{home}/share")
    os.symlink("/usr/bin/python3", f"{home}/bin/python3")
    pathlib.Path(home, "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n")
    subprocess.run(["chown", "-hR", "1000:1000", home], check=True, timeout=120)


@pytest.mark.nightly
@pytest.mark.slow  # it installs JupyterLab
@pytest.mark.feature("D3.2", "D3.6")
def test_a_notebook_server_and_a_kernel_over_its_websocket(pool, me, mallory):
    environment(pool, "jupyter", "jupyterlab", "ipykernel")
    s = me.json("session", "start", "jupyter", "--env", "jupyter", "--memory", "2G", "--gpus", "1", timeout=600)
    base = s["path"]

    def ask(who, method, path, body=None, headers=None):
        c = http.client.HTTPConnection(address(pool), timeout=120)
        c.request(method, f"{base}{path}", json.dumps(body) if body else None, bearer(who) if headers is None else headers)
        r = c.getresponse()
        return r.status, r.read()

    assert ask(me, "GET", "lab")[0] == 200 and b"JupyterLab" in ask(me, "GET", "lab")[1]
    status, kernel = ask(me, "POST", "api/kernels", {"name": "python3"})
    assert status == 201, kernel
    kernel = json.loads(kernel)["id"]
    w = WebSocket(address(pool), f"{base}api/kernels/{kernel}/channels", bearer(me))
    assert w.status == 101
    code = "import os; print(sum(range(10)), os.getuid(), os.environ['HOME'], [d for d in os.listdir('/dev') if 'gpu' in d])"
    w.send(json.dumps({"header": {"msg_id": uuid.uuid4().hex, "username": "x", "session": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}, "parent_header": {},
                       "metadata": {}, "channel": "shell", "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}}))
    w.until(b"45 1000 /home/researcher ['tandem-gpu0']")

    # Nobody else, neither through the gateway nor past it.
    assert ask(mallory, "GET", "api/kernels")[0] == 404 and ask(me, "GET", "api/kernels", headers={})[0] == 401
    ip = pool.get("pod", f"session-{s['id']}", "-n", "researcher")["status"]["podIP"]
    c = http.client.HTTPConnection(f"{ip}:8888", timeout=60)
    c.request("GET", f"{base}api/kernels")
    assert c.getresponse().status == 403


BOARD = """#!/usr/bin/python3
# What TensorBoard is to its session: a server of its own port and prefix that shows what is in the directory.
import argparse, http.server, os
a = argparse.ArgumentParser()
for name in ("logdir", "path_prefix", "host", "port"):
    a.add_argument("--" + name, required=True)
o = a.parse_args()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        below, ok = self.path.split("?")[0].removeprefix(o.path_prefix), self.path.startswith(o.path_prefix + "/")
        body = ("token=%s auth=%s files=%s" % (os.environ.get("TANDEM_SESSION_TOKEN"), self.headers.get("Authorization"), sorted(os.listdir(o.logdir)))).encode()
        body = body if below == "/" else b"x" * 3000000
        self.send_response(200 if ok else 404)
        if below != "/":
            self.end_headers()  # an end of the connection is the end of the body
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))[::-1]
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer((o.host, int(o.port)), Page).serve_forever()
"""


def nobody_else(pool, me, mallory, s):
    """Neither another user, nor without a key, nor past the gateway."""
    assert fetch(address(pool), s["path"], bearer(mallory))[0] == 404 and fetch(address(pool), s["path"], {})[0] == 401
    pod = pool.get("pod", f"session-{s['id']}", "-n", "researcher")
    token = next(e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "TANDEM_SESSION_TOKEN")
    direct = f"{pod['status']['podIP']}:8888"
    for wrong in ({}, {"Authorization": f"token {token}x"}, {"Authorization": "token"}, bearer(me)):
        assert fetch(direct, s["path"], wrong)[0] == 401, wrong
    with pytest.raises(OSError):
        fetch(f"{pod['status']['podIP']}:8889", s["path"], {})  # the server itself


@pytest.mark.feature("E4.1")
def test_tensorboard_of_a_run(pool, me, mallory):
    r = me.run("session", "start", "tensorboard", "--run", "nothing-like-it", check=False)
    assert r.returncode == 1 and "There is no run nothing-like-it" in r.stderr
    run = me.submit("--no-code", "--name", "board", "--", "echo 0.1 > loss.txt")
    wait_for("it has run", lambda: me.state(run) == "done")
    home = f"{pool.shared_dir}/researcher/board/bin"
    os.makedirs(home, exist_ok=True)
    pathlib.Path(home, "tensorboard").write_text(BOARD)
    os.chmod(f"{home}/tensorboard", 0o755)
    s = me.json("session", "start", "tensorboard", "--run", run, "--env", "board")
    assert s["command"] == f"tensorboard of {run} in board" and s["devices"] in (None, "{}")
    said = fetch(address(pool), s["path"], bearer(me))
    assert said[0] == 200 and b"'loss.txt'" in said[1] and b"token=None auth=None" in said[1], said
    assert fetch(address(pool), f"{s['path']}data?x=1", bearer(me)) == (200, b"x" * 3000000)
    assert fetch(address(pool), f"{s['path']}up", bearer(me), "POST", b"abc" * 100000) == (201, b"cba" * 100000)
    nobody_else(pool, me, mallory, s)
    for body, word in (({"kind": "tensorboard", "run": "../x"}, "run"), ({"kind": "shell", "run": run}, "run"), ({"kind": "tensorboard", "command": "true"}, "command")):
        status, reply = me.api("POST", "/sessions", body)
        assert status == 422 and word in reply["error"]["message"], (body, reply)


CODE = """#!/usr/bin/python3
# What code-server is to its session: it asks nobody, knows no prefix, and talks by a WebSocket.
import base64, hashlib, http.server, os, sys
a = sys.argv[1:]
if a == ["--help"]:
    sys.exit(print("--auth --bind-addr" if os.path.basename(sys.argv[0]) == "code-server" else "--server-base-path"))
host, port = a[a.index("--host") + 1], a[a.index("--port") + 1]
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers["Upgrade"]:
            key = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            self.connection.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + base64.b64encode(key) + b"\\r\\n\\r\\n")
            head = self.rfile.read(6)
            n = head[1] & 127
            said = bytes(c ^ head[2 + i % 4] for i, c in enumerate(self.rfile.read(n)))
            out = b"%s heard %s of %s" % (self.path.encode(), said, str(self.headers["Authorization"]).encode())
            self.connection.sendall(bytes([0x82, len(out)]) + out)
            self.close_connection = True
            return
        body = ("path=%s host=%s token=%s auth=%s args=%s" % (self.path, host, os.environ.get("TANDEM_SESSION_TOKEN"), self.headers.get("Authorization"), a)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer((host, int(port)), Page).serve_forever()
"""


@pytest.mark.feature("D3.3")
def test_vs_code_in_the_browser(pool, me, mallory):
    r = me.run("session", "start", "vscode", check=False)
    assert r.returncode == 1 and "There is no code-server or openvscode-server in this image or ~/.local/bin" in r.stderr and "tandem ssh-config" in r.stderr
    for name, prefix in (("code-server", False), ("openvscode-server", True)):
        home = f"{pool.shared_dir}/researcher/{name}/bin"
        os.makedirs(home, exist_ok=True)
        pathlib.Path(home, name).write_text(CODE)
        os.chmod(f"{home}/{name}", 0o755)
        s = me.json("session", "start", "vscode", "--env", name)
        seen = s["path"] if prefix else "/"
        status, said = fetch(address(pool), f"{s['path']}x?y=1", bearer(me))
        assert status == 200 and f"path={seen}x?y=1 host=127.0.0.1 token=None auth=None".encode() in said, said
        assert (f"'--server-base-path', '{s['path'].rstrip('/')}'" in said.decode()) == prefix
        w = WebSocket(address(pool), f"{s['path']}stable?reconnection=1", bearer(me))
        assert w.status == 101
        w.send(b"hello")
        w.until(f"{seen}stable?reconnection=1 heard hello of None".encode())
        nobody_else(pool, me, mallory, s)
        assert WebSocket(address(pool), f"{s['path']}stable", bearer(mallory)).status == 404
        assert WebSocket(f"{pool.get('pod', 'session-' + s['id'], '-n', 'researcher')['status']['podIP']}:8888", s["path"], {"Authorization": "token x"}).status == 401
        me.run("session", "stop", s["id"])


@pytest.mark.nightly
@pytest.mark.slow  # it installs TensorBoard
@pytest.mark.feature("E4.1")
def test_the_real_tensorboard(pool, me, mallory):
    environment(pool, "realboard", "tensorboard", "setuptools<81")
    write = "from tensorboard.summary.writer.event_file_writer import EventFileWriter as W\nfrom tensorboard.compat.proto import event_pb2 as e, summary_pb2 as s\n" \
            "w = W('logs')\nfor i in range(5): w.add_event(e.Event(step=i, wall_time=1e9 + i, summary=s.Summary(value=[s.Summary.Value(tag='loss', simple_value=1 / (i + 1))])))\nw.close()\n"
    run = me.submit("--no-code", "--name", "curve", "--", f"$HOME/realboard/bin/python3 -c \"{write}\"")
    wait_for("it has run", lambda: me.state(run) == "done", 120)
    s = me.json("session", "start", "tensorboard", "--run", run, "--env", "realboard", timeout=600)
    status, page = fetch(address(pool), s["path"], bearer(me))
    assert status == 200 and b"TensorBoard" in page
    runs = wait_for("it has read the run", lambda: (r := fetch(address(pool), f"{s['path']}data/plugin/scalars/tags", bearer(me)))[0] == 200 and json.loads(r[1]), 60)
    assert list(runs["logs"]) == ["loss"]
    curve = json.loads(fetch(address(pool), f"{s['path']}data/plugin/scalars/scalars?run=logs&tag=loss", bearer(me))[1])
    assert [p[1] for p in curve] == [0, 1, 2, 3, 4] and curve[3][2] == 0.25
    nobody_else(pool, me, mallory, s)
