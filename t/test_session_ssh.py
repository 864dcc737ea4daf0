"""ssh into sessions by the real OpenSSH: a shell, files, ports, one connection for many (rows D3). That is what editors with a remote
half use; VS Code's Remote-SSH is played step by step."""
import http.client
import os
import pathlib
import socket
import subprocess

import pytest

from apidev import free_port
from harness import KEEP, SLOW, wait_for
from laptop import address, mallory, me, users  # noqa: F401 (fixtures)
from wsclient import WebSocket

pytestmark = [pytest.mark.embedded, pytest.mark.feature("D3.3")]  # the plane of `up` brings a gateway


class Ssh:
    """OpenSSH of a laptop, with nothing but what `tandem ssh-config --write` wrote."""

    def __init__(self, me):
        self.me, self.dir = me, f"{me.home}/.config/tandem/ssh"
        self.env = {**KEEP, "HOME": me.home, "TANDEM_HOME": f"{me.home}/none", "TANDEM_URL": f"http://{address(me.pool)}", "TANDEM_KEY": me.key}
        me.run("ssh-config", "--write")
        self.config = f"{me.home}/.ssh/config"  # OpenSSH asks the passwd file, not HOME, where a home is

    def argv(self, program, *argv):
        return [program, "-F", self.config, *argv]

    def run(self, program, *argv, check=True, **kw):
        r = subprocess.run(self.argv(program, *argv), env=self.env, capture_output=True, text=True, timeout=60 * SLOW, **kw)
        assert not check or r.returncode == 0, (argv, r.stdout, r.stderr)
        return r

    def start(self, *argv):
        return subprocess.Popen(self.argv("ssh", *argv), env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def door(who, session, **headers):
    h = {"Authorization": f"Bearer {who.key}", "Sec-WebSocket-Protocol": "tandem-ssh", **headers}
    return WebSocket(address(who.pool), f"/api/v1/sessions/{session['id']}/ssh", h)


def test_openssh_into_a_session(pool, me, mallory):
    s = me.json("session", "start", "batch", "--gpus", "1", "--", "export OWN=1; exec sleep 100000")
    host, ssh = f"{s['id']}.tandem", Ssh(me)
    pod = pool.get("pod", f"session-{s['id']}", "-n", "researcher")

    # In the session's own pod, as its owner, with its device and its environment; nothing is asked.
    r = ssh.run("ssh", host, "id -un; pwd; hostname; ls /dev | grep gpu; echo $TANDEM_SESSION; test -z \"$TANDEM_SESSION_TOKEN\"; exit 0")
    assert r.stdout.split() == ["researcher", "/home/researcher", pod["spec"].get("hostname", pod["metadata"]["name"]), "tandem-gpu0", s["id"]] and r.stderr == ""
    assert ssh.run("ssh", host, "exit 7", check=False).returncode == 7
    assert "/dev/pts/" in ssh.run("ssh", "-tt", host, "tty").stdout
    assert me.run("ssh", s["id"], "--", "echo", "by name").stdout == "by name\n"
    # Files, both ways, and large.
    data = os.urandom(3_000_000)
    pathlib.Path(me.home, "sent").write_bytes(data)
    ssh.run("scp", f"{me.home}/sent", f"{host}:sent-by-scp")
    assert pathlib.Path(pool.shared_dir, "researcher/sent-by-scp").read_bytes() == data
    ssh.run("sftp", "-b", "-", host, input=f"get sent-by-scp {me.home}/back\nrm sent-by-scp\n")
    assert pathlib.Path(me.home, "back").read_bytes() == data

    # The settings are as they were after a second time, and what its owner had in the file stays.
    before = open(ssh.config).read()
    open(ssh.config, "w").write(before + "Host other\n  User x\n")
    me.run("ssh-config", "--write")
    assert open(ssh.config).read() == before + "Host other\n  User x\n"
    # A pair of which its maker had written a half only is made anew.
    os.unlink(f"{ssh.dir}/id.pub")
    said = me.run("ssh-config").stdout
    assert f"Host {host}" in said and ssh.run("ssh", host, "echo anew").stdout == "anew\n"
    # OpenSSH before 9.6 gives the shell any host that git, say, was told: there it is one word.
    assert "\nHost *.tandem \"!*'*\"\n" in said and " ssh-proxy '%n'\n" in said
    assert all(oct(os.stat(f"{ssh.dir}/{f}").st_mode)[-3:] == "600" for f in os.listdir(ssh.dir) if f != "id.pub")

    # Nobody else: not another user, not with the page's cookie, not past the gateway, not with another host key.
    key = open(f"{ssh.dir}/id.pub").read().strip()
    mine = door(me, s, **{"X-Tandem-Ssh-Key": key})
    assert mine.status == 101 and b"ssh-ed25519 " in mine.until(b"SSH-2.0-")
    mine.close()
    assert door(mallory, s, **{"X-Tandem-Ssh-Key": key}).status == 404
    assert door(me, s).status == 422 and door(me, s, **{"X-Tandem-Ssh-Key": "command=\"id\" ssh-ed25519 AAAA"}).status == 422
    assert door(me, s, **{"X-Tandem-Ssh-Key": key, "Authorization": "Bearer x"}).status == 401
    cookie = me.api_full("POST", "/login", {"key": me.key}, key=False)[1].getheader("Set-Cookie").split(";")[0]
    w = WebSocket(address(pool), f"/api/v1/sessions/{s['id']}/ssh", {"Cookie": cookie, "Sec-WebSocket-Protocol": "tandem-ssh", "X-Tandem-Ssh-Key": key})
    assert w.status == 403
    r = mallory.run("ssh", s["id"], "id", check=False)
    assert r.returncode == 1 and "there is no session" in r.stderr and r.stdout == ""
    held = ssh.start(host, "cat /proc/net/tcp /proc/net/tcp6; echo end; cat")
    sockets = "".join(iter(held.stdout.readline, "end\n"))
    assert " 0A " not in sockets, "nothing listens in the pod while ssh is used"
    held.kill()
    held.wait()
    known = f"{ssh.dir}/known_hosts"
    line = open(known).read()
    other = open(f"{ssh.dir}/id.pub").read().split()[1]
    open(known, "w").write("")
    r = subprocess.run(["ssh", "-F", ssh.config, "-o", "UserKnownHostsFile=/dev/null", host, "id"], env=ssh.env, capture_output=True, text=True, timeout=60 * SLOW)
    assert r.returncode == 255 and "Host key verification failed" in r.stderr and other not in line
    assert ssh.run("ssh", host, "echo again").stdout == "again\n" and open(known).read() == line

    me.run("session", "stop", s["id"])
    r = wait_for("it is gone", lambda: (r := me.run("ssh", s["id"], "id", check=False)) and "there is no session" in r.stderr and r)
    assert r.returncode in (1, 255)  # while it goes, the list has it and the door says it


# What the script does that Remote-SSH pipes into a shell: it looks for its server, starts one if there is none, and says where it
# listens. The server outlives the connection.
REMOTE = r"""
mkdir -p ~/.vscode-server; cd ~/.vscode-server
if ! kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null; then
	rm -f port
	nohup setsid python3 -c '
import http.server, os, socketserver
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(str(os.getpid()).encode())
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
open("pid", "w").write(str(os.getpid())); open("port~", "w").write(str(s.server_port)); os.rename("port~", "port")
s.serve_forever()' > log 2>&1 < /dev/null &
	until [ -e port ]; do sleep 0.1; done
fi
echo "listeningOn==$(cat port)==$(cat pid)=="
"""


def by_socks(proxy, port, path="/"):
    """The answer of 127.0.0.1:port at the far end of a SOCKS proxy."""
    with socket.create_connection(("127.0.0.1", proxy), 60) as c:
        c.sendall(b"\x05\x01\x00")
        assert c.recv(2) == b"\x05\x00"
        c.sendall(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big"))
        assert c.recv(10)[:2] == b"\x05\x00"
        c.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        said = b""
        while more := c.recv(65536):
            said += more
        return said.split(b"\r\n\r\n", 1)[1].decode()


def get(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/")
    return c.getresponse().read().decode()


@pytest.mark.nightly
def test_an_editor_with_a_remote_half(pool, me):
    s = me.json("session", "start", "shell", "--cpus", "1")
    host, ssh = f"{s['id']}.tandem", Ssh(me)

    def remote_ssh():
        """(process, its SOCKS port, where the server listens, its pid), as VS Code does it: `ssh -T -D PORT HOST sh` with the script as input."""
        socks = free_port()
        p = ssh.start("-T", "-D", str(socks), "-o", "ExitOnForwardFailure=yes", host, "sh")
        p.stdin.write(REMOTE)
        p.stdin.flush()
        line = p.stdout.readline()
        assert line.startswith("listeningOn=="), line + p.stdout.read()
        return p, socks, *map(int, line.split("==")[1:3])

    p, socks, port, pid = remote_ssh()
    assert by_socks(socks, port) == str(pid)
    with pytest.raises(OSError):  # it is the pod's own loopback
        socket.create_connection((pool.get("pod", f"session-{s['id']}", "-n", "researcher")["status"]["podIP"], port), 5)
    p.kill()  # the laptop goes to sleep, or the network is away
    p.wait()
    p, socks, again, same = remote_ssh()
    assert (again, same) == (port, pid) and by_socks(socks, port) == str(pid)

    # The gateway is started anew: the connection is lost, what runs in the session is not.
    pool.kill_role("gateway")
    assert p.wait(60 * SLOW) == 255
    p, socks, again, same = wait_for("it comes in again", lambda: ssh.run("ssh", host, "true", check=False).returncode == 0 and remote_ssh())
    assert (again, same) == (port, pid)
    p.kill()
    p.wait()

    # One connection for many (ControlMaster), with a port that is forwarded later.
    local, control = free_port(), f"{me.home}/c"
    ssh.run("ssh", "-M", "-S", control, "-o", "ControlPersist=yes", "-fN", host, stdin=subprocess.DEVNULL)
    try:
        ssh.run("ssh", "-S", control, "-O", "forward", "-L", f"{local}:127.0.0.1:{port}", host)
        assert get(local) == str(pid) and ssh.run("ssh", "-S", control, host, "echo shared").stdout == "shared\n"
    finally:
        ssh.run("ssh", "-S", control, "-O", "exit", host, check=False)
    # Of the connections that were cut nothing is left.
    wait_for("all but this have ended", lambda: ssh.run("ssh", host, "ps -eo args | grep -c 'sshd.*[p]riv'").stdout == "1\n")
    assert ssh.run("ssh", host, "find /tmp/.tandem-ssh-$(id -u) -type f | wc -l").stdout == "3\n"  # the host key; settings and the key of this laptop
    ssh.run("ssh", host, f"kill {pid}; rm -r ~/.vscode-server")
