"""kubectl logs, exec, cp, attach and port-forward on embedded pods."""
import concurrent.futures
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

from harness import wait_for
from podplane import IMAGE, plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (.*)$")


@pytest.fixture(scope="module")
def box(plane):
    """A pod to look into."""
    with plane.pod("sleep 100000", "box", restartPolicy="Always") as name:
        plane.running(name)
        yield name


@contextlib.contextmanager
def spawn(plane, *argv, **kw):
    p = subprocess.Popen(["kubectl", *argv], env=plane.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    deadline = threading.Timer(600, p.kill)  # a read below then ends too
    deadline.start()
    try:
        yield p
    finally:
        deadline.cancel()
        p.kill()
        p.wait(60)
        for f in (p.stdin, p.stdout, p.stderr):
            if f:
                f.close()


# ---- logs ----

def test_logs(plane):
    script = "echo one; echo two >&2; printf 'no end'; sleep 1.2; printf ' of line\\n'; echo three; printf last"
    containers = [{"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}, {"name": "other", "image": IMAGE, "command": ["echo", "hello"]}]
    with plane.pod(stem="logs", labels={"app": "logs"}, containers=containers) as name:
        plane.over(name)
        argv = [("-c", "c"), ("-c", "c", "--tail=2"), ("-c", "c", "--tail=0"), ("-c", "c", "--timestamps"), ("-c", "c", "--since=1h"), ("--all-containers", "--prefix"), ("-c", "c", "--limit-bytes=5"),
                ("-c", "c", "-f"), ("-c", "nope",), (), ("-l", "app=logs", "-c", "other")]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            got = list(pool.map(lambda a: plane.run("kubectl", "logs", *(a if "-l" in a else (name, *a)), check=False), argv))
        out = [r.stdout for r in got]
        whole = "one\ntwo\nno end of line\nthree\nlast"
        assert out[0] == whole and out[1] == "three\nlast" and out[2] == "" and out[4] == whole and out[6] == "one\nt" and out[7] == whole
        stamped = [STAMP.match(l) for l in out[3].splitlines()]
        assert all(stamped) and [m.group(1) for m in stamped] == whole.split("\n")
        times = [l.split(" ")[0] for l in out[3].splitlines()]
        assert times == sorted(times) and times[3] > times[1]
        assert "[pod/%s/c] one" % name in out[5] and "[pod/%s/other] hello" % name in out[5]
        assert got[8].returncode and "container nope is not valid for pod" in got[8].stderr
        assert out[9] == whole and "Defaulted container" in got[9].stderr and out[10] == "hello\n"
        # since a time: exactly the lines from it on
        assert plane.kubectl("logs", name, "-c", "c", f"--since-time={times[2]}") in ("no end of line\nthree\nlast", "three\nlast")
        assert plane.text(name, container="c", sinceTime=times[3][:23] + "Z").endswith("three\nlast") and "one" not in plane.text(name, container="c", sinceTime=times[3][:23] + "Z")


def test_logs_follow_and_previous(plane):
    script = "echo run; until [ -e /v/go ]; do sleep 0.05; done; for i in 1 2 3 4 5; do sleep 0.15; echo line $i; done; [ -e /v/x ] && sleep 1000; touch /v/x; exit 1"
    with plane.pod(script, "follow", restartPolicy="Always", volumes=[{"name": "v", "emptyDir": {}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]) as name:
        plane.running(name)
        with spawn(plane, "logs", "-f", name) as p:
            assert p.stdout.readline() == b"run\n"
            plane.ex(name, "touch", "/v/go")
            assert p.stdout.read().split(b"\n")[-2] == b"line 5"  # to the end of this run
        plane.wait(name, "second run", lambda p: state(p)["restartCount"] == 1 and "running" in state(p)["state"])
        assert plane.kubectl("logs", "--previous", name) == "run\n" + "".join(f"line {i}\n" for i in range(1, 6))
        with spawn(plane, "logs", "-f", "--tail=1", name) as p:
            assert p.stdout.readline()[:4] in (b"run\n", b"line")
    with plane.pod("sleep 1000", "noprev") as name:
        plane.running(name)
        r = plane.run("kubectl", "logs", "-p", name, check=False)
        assert r.returncode and 'previous terminated container "c" in pod' in r.stderr


def test_logs_are_bounded_and_followed_over_a_rotation(plane):
    """26 MB of numbered lines: nothing is lost for who follows, two files of 10 MiB stay, the newest lines are whole and in order."""
    # Who is further behind than a whole file has lost some: the script waits for the one that follows, 40000 lines (7 MB) ahead of it at most.
    script = ("echo line 0; for i in $(seq 0 10000 150000); do until [ -e /v/followed ] && [ $(cat /v/followed) -ge $((i-30000)) ]; do sleep 0.02; done;"
              " seq -f 'line %.0f " + "x" * 120 + "' $((i+1)) $((i+10000)); done; sleep 1")
    so_far = pathlib.Path(f"{plane.home}/shared/followed")

    def follow(lines):
        so_far.with_suffix(".new").write_text(str(lines))
        so_far.with_suffix(".new").rename(so_far)
    with plane.pod(script, "rotate", volumes=[{"name": "v", "hostPath": {"path": "/shared"}}], volumeMounts=[{"name": "v", "mountPath": "/v"}]) as name:
        plane.running(name)
        with spawn(plane, "logs", "-f", name) as p:
            assert p.stdout.readline() == b"line 0\n"
            followed = []
            follow(0)  # not before somebody follows
            for line in p.stdout:
                followed.append(line.decode())
                if len(followed) % 5000 == 0:
                    follow(len(followed))
        uid = plane.over(name)["metadata"]["uid"]
        sizes = [os.path.getsize(f) for f in glob.glob(f"{plane.home}/log/pods/*{uid}/c/*")]
        assert len(sizes) == 2 and max(sizes) <= 20 << 20  # a reader that looks just then is waited for, until it is twice its size (src/standin/log.c)
        kept = [int(l.split()[1]) for l in plane.text(name).splitlines()]
        assert kept == list(range(kept[0], 160001)) and len(kept) > 60000
        assert len(plane.kubectl("logs", name, "--tail=100000").splitlines()) == min(100000, len(kept))
        assert plane.kubectl("logs", name, "--tail=1").split()[1] == "160000"
        nums = [int(l.split()[1]) for l in followed]
        assert nums == sorted(nums) and len(set(nums)) == len(nums) and nums[0] == 1 and nums[-1] == 160000
        assert len(nums) == 160000, f"{160000 - len(nums)} lines lost"


def test_very_long_lines_stay_whole(plane):
    with plane.pod("head -c 100000 /dev/zero | tr '\\0' y; echo; head -c 16384 /dev/zero | tr '\\0' z; echo; printf '\\377\\001\\n'", "long") as name:
        plane.over(name)
        r = subprocess.run(["kubectl", "logs", name], env=plane.env, stdout=subprocess.PIPE).stdout
        assert r == b"y" * 100000 + b"\n" + b"z" * 16384 + b"\n" + b"\377\001\n"


def test_who_writes_to_the_stdout_of_the_first_process_is_logged(plane):
    with plane.pod("(echo a > /proc/1/fd/1); (echo b > /dev/stderr); sh -c 'echo c >&2'", "fd", securityContext={"runAsUser": 1000}) as name:
        assert sorted(plane.output(name).split()) == ["a", "b", "c"]


def test_a_paused_reader_is_not_cut(plane):
    """A reader that stops reading for 33 s (servers usually give up after 30) gets everything afterwards, and the container is not held up by it."""
    script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); head -c 40000 /dev/zero | tr '\\0' q; echo \" $i\"; done; echo END; sleep 1000"
    with plane.pod(script, "paused") as name:
        plane.running(name)
        with spawn(plane, "logs", "-f", name) as p, spawn(plane, "exec", name, "--", "sh", "-c", "head -c 30000000 /dev/zero; echo DONE") as e:
            p.stdout.read(10), e.stdout.read(10)
            time.sleep(33)  # the pause itself is what is tested
            wait_for("it has written all", lambda: "END" in plane.text(name, tailLines=1))
            n = 0
            while b"END" not in (line := p.stdout.readline()):
                assert line, (p.poll(), p.stderr.read())
                n += 1
            assert n >= 190  # the older lines were rotated away before they were read
            rest = e.stdout.read()
            assert rest.endswith(b"DONE\n") and len(rest) == 30000000 - 10 + 5 and e.wait(60) == 0


# ---- exec ----

def test_exec(plane, box):
    run = lambda *a, **kw: plane.run("kubectl", "exec", *a, check=False, **kw)
    calls = [(box, "--", "sh", "-c", "echo out; echo err >&2; exit 7"), (box, "--", "true"), (box, "--", "no-such-program"), (box, "--", "/etc/passwd"), (box, "--", "sh", "-c", "kill -9 $$"),
             (box, "-c", "nope", "--", "true"), ("no-such-pod", "--", "true"), (box, "--", "sh", "-c", "echo $HOSTNAME; pwd; id -u")]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        got = list(pool.map(lambda a: run(*a), calls))
    assert (got[0].returncode, got[0].stdout, got[0].stderr) == (7, "out\n", "err\ncommand terminated with exit code 7\n")
    assert [r.returncode for r in got[1:5]] == [0, 127, 126, 137]
    assert "not found" in got[2].stderr and "container nope is not valid for pod" in got[5].stderr and 'pods "no-such-pod" not found' in got[6].stderr
    assert got[7].stdout.split() == [box, "/", "0"]
    assert run("-i", box, "--", "cat", input="x" * 300000).stdout == "x" * 300000
    assert run("-i", box, "--", "sh", "-c", "read a; echo got $a", input="one\ntwo\n").stdout == "got one\n"
    big = subprocess.run(["kubectl", "exec", box, "--", "head", "-c", "20000000", "/dev/zero"], env=plane.env, stdout=subprocess.PIPE, timeout=300)
    assert big.returncode == 0 and big.stdout == b"\0" * 20000000


def session(plane, path, protocol):
    """A WebSocket session with the node agent by hand: the protocol that was agreed on, then each message as (channel, bytes)."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(300)
        s.connect(f"{plane.run_dir}/agent.sock")
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n".encode())
        f = s.makefile("rb")
        head = b"".join(iter(f.readline, b"\r\n")).decode()
        assert " 101 " in head.splitlines()[0], head
        yield re.search(r"(?im)^sec-websocket-protocol: *(\S+)", head)[1]
        while True:
            op, n = f.read(2)
            n = struct.unpack(">H", f.read(2))[0] if n == 126 else n
            body = f.read(n)
            if op & 15 == 8:
                return
            assert op == 0x82, "one whole binary message"
            yield body[0], body[1:]


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_what_a_session_says_first_and_last(plane, box, protocol):
    def words(query):
        got = list(session(plane, f"/exec/default/{box}/c?{query}", protocol))
        assert got[0] == protocol
        return got[1:-1], got[-1][0], json.loads(got[-1][1])
    sh = "command=sh&command=-c&command="
    # An empty message on the lowest channel that the client reads; the status, on channel 3, is the last.
    assert words(f"stdout=true&stderr=true&{sh}echo%20a;exit%203")[0] == [(1, b""), (1, b"a\n")]
    said, channel, status = words(f"stderr=true&{sh}echo%20a;echo%20b%3E%262;exit%203")
    assert said == [(2, b""), (2, b"b\n")]
    assert channel == 3 and status["reason"] == "NonZeroExitCode" and status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    said, channel, status = words("stdout=true&command=no-such-program")
    assert said[0] == (1, b"") and channel == 3 and status["status"] == "Failure"
    assert words(f"{sh}true") == ([(3, b"")], 3, {"metadata": {}, "status": "Success"})


def test_a_session_that_is_cut_ends_its_process(plane, box):
    with spawn(plane, "exec", box, "--", "sh", "-c", "echo up; exec sleep 7654") as p:
        assert p.stdout.readline() == b"up\n"
    wait_for("the process to end", lambda: "7654" not in plane.ex(box, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))


def read_tty(fd, until, seconds=180, check=True):
    got, end = b"", time.monotonic() + seconds
    while until not in got and (check or time.monotonic() < end):
        assert time.monotonic() < end, got
        if select.select([fd], [], [], 0.2)[0]:
            got += os.read(fd, 65536)
    return got


def ended_as(pid):
    """[exit code] of a child that has ended."""
    got, status = os.waitpid(pid, os.WNOHANG)
    return [os.waitstatus_to_exitcode(status)] if got else None


def test_a_terminal_and_its_size(plane, box):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("kubectl", ["kubectl", "exec", "-it", box, "--", "bash", "--norc"], plane.env)
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        os.kill(pid, signal.SIGWINCH)
        read_tty(fd, b"#")
        os.write(fd, b"until [ \"$(stty size)\" = '31 97' ]; do sleep 0.05; done; tty; echo size-$((1+1))\n")
        assert b"/dev/pts/" in read_tty(fd, b"size-2")
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 120, 0, 0))
        os.kill(pid, signal.SIGWINCH)
        os.write(fd, b"until [ \"$(stty size)\" = '44 120' ]; do sleep 0.05; done; echo again-$((1+1))\n")
        read_tty(fd, b"again-2")
        # Said by the job itself, so that ^C meets it and not a bash that is just starting it.
        os.write(fd, b"sh -c 'echo go-$((1+1)); exec sleep 1000'\n")
        read_tty(fd, b"go-2")
        wait_for("^C to end the job", lambda: os.write(fd, b"\x03") and b"#" in read_tty(fd, b"#", 1, check=False))
        os.write(fd, b"echo int-$((1+1))\n")
        read_tty(fd, b"int-2")
        os.write(fd, b"exit 5\n")
        ended = wait_for("kubectl to end", lambda: ended_as(pid))
        assert ended == [5]
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        os.close(fd)


# ---- cp ----

def test_cp_both_ways(plane, box, tmp_path):
    (tmp_path / "d/sub").mkdir(parents=True)
    (tmp_path / "d/sub/f").write_bytes(os.urandom(3000000))
    (tmp_path / "d/x").write_text("x")
    os.chmod(tmp_path / "d/x", 0o750)
    plane.kubectl("cp", str(tmp_path / "d"), f"{box}:/tmp/d")
    plane.kubectl("cp", str(tmp_path / "d/x"), f"{box}:/tmp/one")
    sums = plane.ex(box, "sh", "-c", "md5sum /tmp/d/sub/f; stat -c %a /tmp/d/x; cat /tmp/one").split()
    assert sums[0] == hashlib.md5((tmp_path / "d/sub/f").read_bytes()).hexdigest() and sums[2:] == ["750", "x"]
    plane.kubectl("cp", f"{box}:/tmp/d", str(tmp_path / "back"))
    assert (tmp_path / "back/sub/f").read_bytes() == (tmp_path / "d/sub/f").read_bytes()
    # a tar of the pod's own making must not reach out of the target: kubectl refuses links that lead out of it
    plane.ex(box, "sh", "-c", "mkdir -p /tmp/evil; ln -s /etc/passwd /tmp/evil/link; echo ok > /tmp/evil/file")
    plane.run("kubectl", "cp", f"{box}:/tmp/evil", str(tmp_path / "evil"), check=False)
    assert (tmp_path / "evil/file").read_text() == "ok\n" and not (tmp_path / "evil/link").exists()
    plane.run("kubectl", "cp", f"{box}:/no/such", str(tmp_path / "no"), check=False)  # kubectl itself often says nothing: it takes tar's empty end for success
    assert not (tmp_path / "no").exists()


# ---- attach and port-forward ----

def test_attach(plane):
    r = plane.run("kubectl", "run", "hello", "--rm", "-i", "--quiet", "--restart=Never", f"--image={IMAGE}", "--command", "--", "sh", "-c", "while read l; do echo got $l; done; echo end; exit 3", input="a\nb\n", check=False)
    assert r.returncode == 3 and "got a\ngot b\nend\n" in r.stdout, (r.stdout, r.stderr)
    script = "echo before; while read l; do echo out $l; echo err $l >&2; [ $l = bye ] && exit 4; done; echo never"
    with plane.pod(script, "att", stdin=True) as name:
        plane.said(name, "before")  # who attaches sees what comes from then on
        with spawn(plane, "attach", "-i", name, stdin=subprocess.PIPE) as p, spawn(plane, "attach", name) as watcher:
            def say(line):
                p.stdin.write(line)
                p.stdin.flush()
            say(b"one\n")
            assert p.stdout.readline() == b"out one\n" and p.stderr.readline().startswith((b"err one", b"If you don't see"))
            wait_for("the watcher is attached", lambda: say(b"more\n") or select.select([watcher.stdout], [], [], 0.2)[0])
            p.stdin.close()  # without stdinOnce the container's input stays open
            assert "running" in state(plane.pod_of(name))["state"]
            with spawn(plane, "attach", "-i", name, stdin=subprocess.PIPE) as q:
                q.stdin.write(b"bye\n")
                q.stdin.flush()
                assert b"out bye\n" in q.stdout.read()
            assert watcher.stdout.read().endswith(b"out bye\n")
        assert plane.over(name)["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    with plane.pod("sleep 1000", "noin") as name:
        plane.running(name)
        r = plane.run("kubectl", "attach", "-i", name, check=False, input="x")
        assert r.returncode and "stdin" in r.stderr
    big = "x" * 500000
    with plane.pod("wc -c; echo closed", "once", stdin=True, stdinOnce=True) as name:
        plane.running(name)
        r = plane.run("kubectl", "attach", "-i", name, input=big)
        assert plane.output(name) == "500000\nclosed\n"


def test_run_with_input_shows_all_output(plane):
    """kubectl attaches a moment after the container has started, and what was written by then is not lost."""
    run = ("kubectl", "run", "all", "--rm", "-i", "--quiet", "--restart=Never", f"--image={IMAGE}", "--command", "--", "sh", "-c")
    for _ in range(3):
        r = plane.run(*run, "echo first; echo second >&2; read l; echo got $l; echo last; exit 3", input="line\n", check=False)
        assert r.returncode == 3 and r.stdout == "first\ngot line\nlast\n" and "second\n" in r.stderr, (r.stdout, r.stderr)
        plane.gone("all")
    for _ in range(3):  # it is over before anybody can attach, or while somebody does
        assert plane.run(*run, "echo first; echo last", input="").stdout == "first\nlast\n"
        plane.gone("all")


def test_run_with_a_terminal(plane):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("kubectl", ["kubectl", "run", "term", "-it", "--rm", "--restart=Never", f"--image={IMAGE}", "--command", "--", "bash", "--norc"], plane.env)
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        wait_for("the pod", lambda: (plane.pod_of("term") or {}).get("status", {}).get("phase") == "Running")
        os.write(fd, b"until [ \"$(stty size)\" = '31 97' ]; do sleep 0.05; done; echo size-$((1+1))\n")
        if b"#" not in read_tty(fd, b"size-2").rsplit(b"size-2", 1)[1]:
            read_tty(fd, b"#")  # a prompt has no line end
        os.write(fd, b"exit 0\n")
        os.set_blocking(fd, False)
        wait_for("kubectl to end", lambda: drain(fd) or os.waitpid(pid, os.WNOHANG)[0])
        plane.gone("term")
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        os.close(fd)


def drain(fd):
    with contextlib.suppress(OSError):
        os.read(fd, 65536)


ECHO = "use IO::Socket::INET; $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 7, Listen => 20) or die; while ($c = $s->accept) { if (fork) { close $c; next } while (sysread($c, $b, 65536)) { syswrite($c, $b) } exit }"


def test_port_forward(plane):
    with plane.pod(stem="fwd", command=["perl", "-e", "$SIG{CHLD} = 'IGNORE'; " + ECHO]) as name:
        plane.running(name)
        wait_for("the server", lambda: plane.run("kubectl", "exec", name, "--", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7", check=False).returncode == 0)
        with spawn(plane, "port-forward", name, ":7", ":9") as p:
            ports = [int(re.search(rb":(\d+) ->", p.stdout.readline()).group(1)) for _ in range(4)]
            echo, closed = ports[0], ports[2]

            def talk(data):
                with socket.create_connection(("127.0.0.1", echo), timeout=180) as c:
                    threading.Thread(target=lambda: (c.sendall(data), c.shutdown(socket.SHUT_WR)), daemon=True).start()
                    got = b""
                    while k := c.recv(65536):
                        got += k
                    return got
            assert talk(b"hello") == b"hello"
            with concurrent.futures.ThreadPoolExecutor(4) as pool:  # several at once, one of them large
                sent = [os.urandom(n) for n in (1, 70000, 5000000, 300)]
                assert list(pool.map(talk, sent)) == sent
            with socket.create_connection(("127.0.0.1", closed), timeout=180) as c, contextlib.suppress(ConnectionResetError):
                assert c.recv(10) == b""
            err = p.stderr.read().decode()  # kubectl ends its session at the first connection that fails
            assert "error forwarding port 9 to pod " + name in err and "onnection refused" in err, err
