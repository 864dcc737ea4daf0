# rows: A3 A6.6 A7.4 A12.3 D3.7
"""Tests the modes of tandem-standin against scripted peers. Waits have deadlines; no sleep
synchronises anything."""
import contextlib
import errno
import hmac
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

EXE = os.path.abspath(sys.argv.pop(1))
DEADLINE = 100  # of what hangs: on a busy machine everything takes long


def env(**more):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "CUDA", "ROCR", "ZE_"))}
    e.update(more)
    return e


def text(path):
    try:
        return pathlib.Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Lines:
    """A peer's end of a connection."""

    def __init__(self, conn):
        self.conn = conn
        conn.settimeout(DEADLINE)
        self.file = conn.makefile("rb")

    def read(self):
        return self.file.readline().decode().rstrip("\n")

    def say(self, text):
        self.conn.sendall(text.encode() + b"\n")

    def close(self):
        self.file.close()
        self.conn.close()


class Init(unittest.TestCase):
    def start(self, *args, **kw):
        record = tempfile.TemporaryFile()
        self.addCleanup(record.close)
        self.began = int(time.time() * 1000)
        fd = record.fileno()

        def place():  # the record is descriptor 3
            os.dup2(fd, 3)
            os.set_inheritable(3, True)  # dup2() of 3 onto itself changes nothing

        p = subprocess.Popen([EXE, "init", *args], preexec_fn=place, close_fds=False, **kw)
        return p, record

    def record(self, f):
        f.seek(0)
        r = json.loads(f.read())  # after the newline, which says "up"
        self.assertTrue(self.began <= r.pop("at") <= time.time() * 1000)
        return r

    def test_exit_code_and_record(self):
        p, f = self.start("sh", "-c", "exit 9")
        self.assertEqual(p.wait(DEADLINE), 9)
        self.assertEqual(self.record(f), {"code": 9, "signal": 0})

    def test_killed_by_signal(self):
        p, f = self.start("sh", "-c", "kill -SEGV $$")
        self.assertEqual(p.wait(DEADLINE), 139)
        self.assertEqual(self.record(f), {"code": 139, "signal": 11})

    def test_not_found_and_not_executable(self):
        for cmd, code in (("no-such-thing", 127), ("/etc", 126)):
            p, f = self.start(cmd, stderr=subprocess.PIPE)
            err = p.communicate(timeout=DEADLINE)[1]
            self.assertEqual(p.returncode, code)
            self.assertIn(cmd.encode(), err)
            self.assertEqual(self.record(f), {"code": code, "signal": 0})

    def test_record_is_not_inherited(self):
        p, f = self.start("sh", "-c", "echo spoiled >&3", stderr=subprocess.DEVNULL)
        self.assertNotEqual(p.wait(DEADLINE), 0)
        self.record(f)

    def test_signals_are_forwarded(self):
        p, f = self.start("sh", "-c", "trap 'exit 21' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done",
                          stdout=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGUSR1)
        self.assertEqual(p.stdout.readline(), b"usr1\n")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(DEADLINE), 21)
        p.stdout.close()

    def test_orphans_are_reaped(self):
        # 20 grandchildren lose their parent and end at once; init must not keep one as a zombie.
        p, f = self.start("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c : & sh -c : &) ; done; echo done; read x",
                          stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"done\n")
        end = time.monotonic() + DEADLINE
        while True:
            kids = text(f"/proc/{p.pid}/task/{p.pid}/children").split()
            zombies = [k for k in kids if ") Z" in text(f"/proc/{k}/stat")]
            if not zombies and len(kids) == 1:
                break
            self.assertLess(time.monotonic(), end, zombies)
        p.stdin.close()
        p.wait(DEADLINE)
        p.stdout.close()

    def test_terminal(self):
        p, f = self.start("--tty", "sh", "-c", "test -t 0 && test -t 1 && tty; echo last; exit 6", stdout=subprocess.PIPE)
        out = p.communicate(timeout=DEADLINE)[0].decode()
        self.assertEqual(p.returncode, 6)
        self.assertRegex(out, r"/dev/pts/\d+\r\nlast\r\n$")
        self.assertEqual(self.record(f), {"code": 6, "signal": 0})

    def test_a_terminal_at_a_socket_of_ones_own(self):
        path = f"{os.path.dirname(self.tmp())}/tty"
        env = {**os.environ, "TANDEM_SESSION_TOKEN": "0123456789abcdef0123"}
        server = subprocess.Popen([EXE, "terminal", "--socket", path, "sleep", "600"], env=env)
        self.addCleanup(lambda: (server.kill(), server.wait()))

        def answer(token):
            ask = f"GET /tty HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: token {token}\r\n\r\n"
            p = subprocess.Popen([EXE, "line", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # it waits for a server that only just starts
            p.stdin.write(ask.encode())
            p.stdin.flush()
            head = p.stdout.readline()
            p.stdin.close()  # who is gone on this side is gone on the other
            p.stdout.read()
            self.assertEqual(p.wait(DEADLINE), 0)
            return head.split()[1]

        self.assertEqual((answer("0123456789abcdef0123"), answer("wrong")), (b"101", b"401"))
        if os.getuid() == 0:  # what another user listens at is nobody's session
            os.chown(os.path.dirname(path), 65534, 65534)
            os.chmod(os.path.dirname(path), 0o755)
            theirs = f"{os.path.dirname(path)}/theirs"
            program = f"import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.bind({theirs!r}); s.listen(); print('listens', flush=True); s.accept()"
            other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
            self.addCleanup(lambda: (other.kill(), other.wait(), other.stdout.close()))
            self.assertEqual(other.stdout.readline(), b"listens\n")
            r = subprocess.run([EXE, "line", theirs], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(r.returncode, 1)
            self.assertIn("Permission denied", r.stderr)

    def lines(self, path):
        """`lines PATH`, and what sends it a frame and what reads one."""
        p = subprocess.Popen([EXE, "lines", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdin.close(), p.stdout.close()))

        def send(letter, number, n=0, data=b""):
            p.stdin.write(struct.pack(">II", ord(letter) << 24 | number, len(data) or n) + data)
            p.stdin.flush()

        def read():
            letter, n = struct.unpack(">II", p.stdout.read(8))
            return chr(letter >> 24), letter & 0xffffff, p.stdout.read(n) if letter >> 24 == ord("d") else n
        return p, send, read

    def test_many_connections_over_one_pair_of_pipes(self):
        path = f"{os.path.dirname(self.tmp())}/many"
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        p, send, read = self.lines(path)
        send("o", 1)  # it waits for a server that only just starts
        send("d", 1, data=b"first")
        server.bind(path)
        server.listen()
        a = server.accept()[0]
        self.addCleanup(a.close)
        got = []
        self.assertEqual(a.recv(5, socket.MSG_WAITALL), b"first")
        got = [read(), read()]
        self.assertEqual(got, [("y", 1, 0), ("a", 1, 5)])
        # One that nobody reads holds up no other: it has a window, and the other goes on.
        send("o", 2)
        self.assertEqual(read(), ("y", 2, 0))
        b = server.accept()[0]
        self.addCleanup(b.close)
        piece = bytes(range(256)) * 64
        for _ in range(16):  # 256 KiB: all that it may be sent
            send("d", 1, data=piece)

        def talk():
            with contextlib.suppress(OSError):
                b.sendall(piece * 64)  # 1 MiB
        threading.Thread(target=talk, daemon=True).start()
        heard = 0
        while heard < 256 << 10:
            letter, number, data = read()
            if letter == "d":
                self.assertEqual(number, 2)
                heard += len(data)
        self.assertEqual(heard, 256 << 10)  # and no more before some is let go
        send("a", 2, 1000)
        while (f := read())[0] == "a":
            pass
        self.assertEqual((f[0], f[1], len(f[2])), ("d", 2, 1000))
        taken = b""
        while len(taken) < 256 << 10:
            taken += a.recv(1 << 20)
        self.assertEqual(taken, piece * 16)
        # An end of one connection is told, after all that it said, and the other one's is not.
        a.sendall(b"bye")
        a.close()
        while (f := read())[0] == "a":
            pass
        self.assertEqual((f, read()), (("d", 1, b"bye"), ("c", 1, 0)))
        send("c", 2)
        with contextlib.suppress(ConnectionResetError):  # not all that it said was read
            self.assertEqual(b.recv(1), b"")
        send("x", 3)  # what is no frame ends it
        self.assertEqual(p.wait(DEADLINE), 0)

    def test_what_is_refused_is_said(self):
        path = os.path.dirname(self.tmp())
        p, send, read = self.lines(path + "/" + "long" * 40)
        send("o", 7)
        self.assertEqual(read(), ("n", 7, errno.ENAMETOOLONG))
        p.stdin.close()
        self.assertEqual(p.wait(DEADLINE), 0)

    def test_a_program_in_a_network_of_its_own(self):
        """Its port is at the socket and nowhere else, it reaches nothing, and its end is the end."""
        path = f"{os.path.dirname(self.tmp())}/own"
        program = "import socket, sys; s = socket.create_server(('127.0.0.1', 8839)); print(socket.if_nameindex(), flush=True)\nwhile (d := (c := s.accept()[0]).recv(99)) != b'end': c.sendall(d[::-1]); c.close()\nsys.exit(5)"
        if subprocess.run(["unshare", "-U", "-n", "true"], capture_output=True).returncode:
            self.skipTest("no user namespaces here")
        p = subprocess.Popen([EXE, "own-net", path, "8839", sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close()))
        self.assertEqual(p.stdout.readline(), "[(1, 'lo')]\n")
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", 8839), 5)
        q, send, read = self.lines(path)
        send("o", 1)
        self.assertEqual(read(), ("y", 1, 0))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)
        send("d", 1, data=b"abc")
        self.assertEqual([read(), read(), read()], [("a", 1, 3), ("d", 1, b"cba"), ("c", 1, 0)])
        send("o", 2)
        send("d", 2, data=b"end")
        self.assertEqual(p.wait(DEADLINE), 5)

    def test_a_session_of_a_machine_that_knows_ports_only(self):
        """TensorBoard's guard has its port, though a session's socket is there; what a killed session left goes, and nothing else does."""
        if subprocess.run(["unshare", "-U", "-n", "true"], capture_output=True).returncode:
            self.skipTest("no user namespaces here")
        programs = pathlib.Path(__file__).parents[2] / "gateway/programs"
        tmp = pathlib.Path(os.path.dirname(self.tmp()))
        for name in ("killed", "alive", "starts"):
            (tmp / f".tandem-{name}").mkdir()
        for name in ("killed", "alive"):
            (tmp / f".tandem-{name}/lock").touch()
        mine = tmp / "mine"
        mine.mkdir()
        (mine / "lock").touch()
        (tmp / ".tandem-link").symlink_to(mine)
        script = (programs / "session-machine.sh").read_text().replace("/opt/tandem/tandem-standin", EXE).replace("/tmp/.tandem-", f"{tmp}/.tandem-")
        server = "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()"
        with open(tmp / ".tandem-alive/lock") as alive:
            subprocess.run(["flock", "-n", str(alive.fileno())], pass_fds=[alive.fileno()], check=True)
            p = subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, cwd=mine, env=env(
                HOME=str(tmp), TANDEM_SESSION="x", TANDEM_SESSION_PLACE="abc", TANDEM_SESSION_OWN_NET="yes", PORT="8888", TANDEM_SESSION_TOKEN="word",
                TANDEM_SESSION_GUARD=(programs / "session-guard.py").read_text(), SERVER=server,
                TANDEM_SESSION_PROGRAM='exec python3 -c "$TANDEM_SESSION_GUARD" python3 -c "$SERVER"'))

            def end():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            self.addCleanup(end)
            _, send, read = self.lines(str(tmp / ".tandem-abc/tty"))
            send("o", 1)
            self.assertEqual(read(), ("y", 1, 0))
            send("d", 1, data=b"GET /lock HTTP/1.0\r\nAuthorization: token word\r\n\r\n")
            while (f := read())[0] != "d":
                pass
            self.assertTrue(f[2].startswith(b"HTTP/1.1 200 "), f)
            self.assertEqual(sorted(x.name for x in tmp.glob(".tandem-*") if x.is_dir() and not x.is_symlink()), [".tandem-abc", ".tandem-alive", ".tandem-starts"])
            self.assertTrue((mine / "lock").exists())
            p.terminate()
            self.assertEqual(p.wait(DEADLINE), 143)
            self.assertFalse((tmp / ".tandem-abc").exists())

    def logged(self, size, *args, **kw):
        """Runs init with a log and returns (exit code, newer file, older file)."""
        fds = [os.open(self.tmp(), os.O_RDWR | os.O_CREAT | flag, 0o600) for flag in (os.O_APPEND, 0)]
        record = tempfile.TemporaryFile()
        self.addCleanup(record.close)

        def place():
            for to, fd in zip((3, 4, 5), [os.dup2(record.fileno(), 20), *(os.dup2(f, 21 + i) for i, f in enumerate(fds))]):
                os.dup2(fd, to)

        p = subprocess.Popen([EXE, "init", "--log", str(size), *args], preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
        self.assertIsNotNone(p.wait(DEADLINE))
        got = []
        for fd in fds:
            os.lseek(fd, 0, 0)
            got.append(os.fdopen(fd, "rb").read())
        return p.returncode, got[0], got[1]

    def tmp(self):
        d = tempfile.mkdtemp()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", d]))
        return f"{d}/log"

    def test_log_lines(self):
        code, new, old = self.logged(1 << 20, "sh", "-c", "echo out; echo err >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf last; exit 3")
        lines = [re.fullmatch(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([FP]) (.*)", l).groups() for l in new.splitlines()]
        self.assertEqual((code, old), (3, b""))
        self.assertEqual([l[3] for l in lines if l[1] == b"stderr"], [b"err"])
        out = [(l[2], l[3]) for l in lines if l[1] == b"stdout"]
        self.assertEqual((out[0], out[-1]), ((b"F", b"out"), (b"P", b"last")))
        self.assertEqual([t for t, _ in out[1:-1]], [b"P", b"P", b"F"])
        self.assertEqual(b"".join(x for _, x in out[1:-1]), b"x" * 40000)
        self.assertEqual([l[0] for l in lines], sorted(l[0] for l in lines))

    def test_log_rotates(self):
        code, new, old = self.logged(200000, "seq", "1", "50000")
        self.assertEqual(code, 0)
        self.assertLessEqual(max(len(new), len(old)), 200000)
        nums = [int(l.split()[3]) for l in (old + new).splitlines()]
        self.assertEqual(nums, list(range(nums[0], 50001)))
        self.assertGreater(len(old), 100000)

    def test_without_a_record_file(self):
        p = subprocess.run([EXE, "init", "sh", "-c", "exit 4"], timeout=DEADLINE)
        self.assertEqual(p.returncode, 4)


class Copy(unittest.TestCase):
    def test_both_names_whatever_the_umask(self):
        with tempfile.TemporaryDirectory() as d:
            for _ in range(2):  # a second run replaces the first
                subprocess.run([EXE, "copy", d], check=True, timeout=DEADLINE, preexec_fn=lambda: os.umask(0o077))
                self.assertEqual(sorted(os.listdir(d)), ["tandem-stage", "tandem-standin", "task-prolog"])
                self.assertEqual(os.stat(f"{d}/tandem-standin").st_mode & 0o777, 0o755)
                self.assertEqual(os.readlink(f"{d}/task-prolog"), "tandem-standin")
                self.assertEqual(subprocess.run([f"{d}/tandem-standin", "--help"], capture_output=True, timeout=DEADLINE).returncode, 0)

    def test_a_directory_that_is_not_there_is_named(self):
        r = subprocess.run([EXE, "copy", "/nowhere"], capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(r.returncode, 1)
        self.assertIn("/nowhere/tandem-standin: No such file", r.stderr)


class Gate(unittest.TestCase):
    JOB = dict(SLURM_JOB_ID="17", SLURM_JOB_UID="1000", SLURMD_NODENAME="n0", SLURM_JOB_GPUS="0,1,2,5",
               SLURM_JOB_START_TIME="1790000000")

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.path = self.dir.name + "/gate.sock"
        self.requests = []

    def agent(self, *scripts):
        """Serves one connection per script: a list of lines; None closes."""
        s = socket.socket(socket.AF_UNIX)
        s.bind(self.path)
        s.listen(5)
        self.addCleanup(s.close)

        def serve():
            for lines in scripts:
                conn, _ = s.accept()
                peer = Lines(conn)
                self.requests.append(peer.read())
                for line in lines:
                    peer.say(line)
                if lines and lines[-1].startswith("wait"):
                    peer.read()  # is silent until the other side goes
                peer.close()

        threading.Thread(target=serve, daemon=True).start()

    def task(self, **more):
        e = env(SLURMD_NODENAME="n0", SLURM_JOB_ID="17", SLURM_JOB_START_TIME="1790000000", PATH=self.dir.name + ":" + os.environ["PATH"], **more)
        p = subprocess.run([EXE, "task-prolog", "--socket", self.path], env=e, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(p.stderr, "")  # Slurm shows it to nobody
        return p.returncode, p.stdout

    def test_what_a_session_uses(self):
        """A line at once, and others until nobody reads; of a job it says nothing to the agent."""
        self.agent(["hangs gpu=40"], ["ok"], ["hangs gpu=-1"])
        p = subprocess.Popen([EXE, "uses", "--every", "20", "--socket", self.path], env=env(SLURMD_NODENAME="n0"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close()))
        said = [p.stdout.readline().split() for _ in range(3)]
        self.assertEqual([s[0] for s in said], ["n0"] * 3)
        self.assertEqual([s[2] for s in said], ["40", "-2", "-1"])  # measured; nobody measures; it has none
        self.assertTrue(all(float(s[1]) >= -1 for s in said), said)
        self.assertEqual(self.requests, ["mine node=n0 devices=-"] * 3)
        p.stdin.close()
        self.assertEqual(p.wait(DEADLINE), 0)
        bad = subprocess.run([EXE, "uses"], env=env(SLURMD_NODENAME="n0 x"), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((bad.returncode, bad.stdout), (2, ""))

    def test_task(self):
        self.assertEqual(self.task(), (0, ""))  # no devices: asks nothing, and nobody listens yet
        self.assertEqual(self.task(SLURM_GPUS_ON_NODE="0"), (0, ""))
        self.agent([], ["wait pod ml/x still runs", "ok"], ["ok"], ["ok"], ["fail held by pod ml/x"])
        self.assertEqual(self.task(SLURM_STEP_GPUS="4", SLURM_JOB_GPUS="4,5"), (0, ""))  # asks again after no answer
        self.assertEqual(self.requests, ["check start=1790000000 node=n0 devices=4 timeout=45000"] * 2)
        self.assertEqual(self.task(SLURM_JOB_GPUS="4-5"), (0, ""))
        self.assertIn(" devices=4-5 ", self.requests[2])
        self.assertEqual(self.task(SLURM_GPUS_ON_NODE="2"), (0, ""))  # has some, and it is not known which
        self.assertIn(" devices=- ", self.requests[3])
        self.assertEqual(self.task(SLURM_JOB_GPUS="0"), (1, "print tandem gate: held by pod ml/x\n"))

    def test_task_is_told_parts_of_gpus(self):
        accelerator = pathlib.Path(self.dir.name, "accelerator")
        accelerator.write_text("CUDA_VISIBLE_DEVICES each GPU-0 MIG-a MIG-b\nOF local\n")
        self.agent(*[["ok"]] * 3)
        e = env(SLURMD_NODENAME="n0", SLURM_JOB_ID="17", SLURM_JOB_START_TIME="1790000000", PATH=os.environ["PATH"])
        for gpus, want in (("2", "MIG-b"), ("0,2", "GPU-0,MIG-b"), ("1-3", None)):  # of the last nothing is known
            p = subprocess.run([EXE, "task-prolog", "--socket", self.path, "--accelerator", str(accelerator)], env={**e, "SLURM_STEP_GPUS": gpus},
                               capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(p.returncode, 0)
            self.assertEqual("CUDA_VISIBLE_DEVICES" in p.stdout, want is not None, p.stdout)
            if want:
                self.assertIn(f"export CUDA_VISIBLE_DEVICES={want}\n", p.stdout)
            self.assertIn("export OF=0", p.stdout)

    def test_task_without_a_prolog(self):
        tool = pathlib.Path(self.dir.name, "scontrol")
        tool.write_text(f'#!/bin/sh\necho "$*" >> {self.dir.name}/calls\n[ ! -e {self.dir.name}/refuse ]\n')
        tool.chmod(0o755)
        self.agent(*[["again job 17 was not let in"]] * 3)
        code, err = self.task(SLURM_JOB_GPUS="0")
        self.assertEqual((code, err), (1, "print tandem gate: job 17 was not let in; it goes back to the queue\n"))
        self.assertEqual(self.task(SLURM_STEP_GPUS="0", SLURM_STEP_ID="0"), (1, "print tandem gate: job 17 was not let in; submit it again\n"))
        self.assertEqual(text(f"{self.dir.name}/calls"), "requeue 17\n")
        pathlib.Path(self.dir.name, "refuse").touch()
        self.assertIn("could not be requeued: submit it again", self.task(SLURM_JOB_GPUS="0")[1])

    def gate(self, timeout=60000, options=(), **more):
        t = time.monotonic()
        p = subprocess.run([EXE, "gate", "--socket", self.path, "--timeout", str(timeout), *options], env=env(**{**self.JOB, **more}),
                           capture_output=True, text=True, timeout=DEADLINE)
        return p.returncode, p.stderr, time.monotonic() - t

    def test_ok(self):
        self.agent(["wait pod ml/x ends", "ok"])
        self.assertEqual(self.gate()[:2], (0, ""))
        m = re.fullmatch(r"acquire job=17 start=1790000000 uid=1000 node=n0 devices=0-2,5 timeout=(\d+)", self.requests[0])
        self.assertTrue(m, self.requests)
        self.assertTrue(0 < int(m[1]) <= 60000)

    def test_fail(self):
        self.agent(["fail held by pod ml/train-3"])
        code, err, _ = self.gate()
        self.assertEqual(code, 1)
        self.assertEqual(err, "tandem gate: held by pod ml/train-3\n")

    def test_the_test_before_the_job_failed(self):
        """The job is queued again; the third time it is held. What a site wrote as admin comment stays."""
        where = pathlib.Path(self.dir.name)
        (where / "scontrol").write_text(f"""#!/bin/sh
cd {where}
case $1 in show) cat record; exit ;; esac
echo "$*" >>calls
""")
        (where / "squeue").write_text("#!/bin/sh\necho PENDING BeginTime\n")
        for f in ("scontrol", "squeue"):
            (where / f).chmod(0o755)
        sick = ["sick 3 devices 0 of n0 fail their test: it computes wrongly"]
        self.agent(sick, sick, sick)
        path = {"PATH": f"{self.dir.name}:{os.environ['PATH']}"}

        def once(was):
            (where / "record").write_text(json.dumps({"jobs": [self.record([], admin_comment=was)]}))
            (where / "calls").unlink(missing_ok=True)
            code, err, _ = self.gate(**path)
            self.assertEqual((code, err), (1, "tandem gate: devices 0 of n0 fail their test: it computes wrongly\n"))
            return (where / "calls").read_text().splitlines()
        first = "tandem: pre-flight failed 1 time, on n0: devices 0 of n0 fail their test: it computes wrongly"
        calls = once("ticket/4 is \"ours\"")
        self.assertEqual(calls[:2], [f"update jobid=17 admincomment=ticket/4 is \"ours\" {first}", "requeue 17"])
        end = time.monotonic() + DEADLINE
        while "update jobid=17 starttime=now+3" not in (where / "calls").read_text():
            self.assertLess(time.monotonic(), end, "it may start at once")
            time.sleep(0.02)
        calls = once(first.replace("1 time, on n0", "2 times, on n7 n3"))
        self.assertEqual(calls[0], "update jobid=17 admincomment=" + first.replace("1 time, on n0", "3 times, on n7 n3 n0"))
        self.assertEqual(calls[1:], ["requeuehold 17"])
        (where / "calls").unlink()
        self.assertEqual(self.gate(SLURM_JOB_COMMENT="tandem/x/ml/a/b", **path)[0], 1)
        self.assertFalse((where / "calls").exists(), "the bridge asks again for a pod")

    def test_a_job_that_was_queued_again_waits_for_no_two_minutes(self):
        """What sees to that outlives the Prolog and its group, and ends when it is done: it waits until the job has left
        its nodes, and until Slurm has taken the new begin and kept it."""
        where = pathlib.Path(self.dir.name)
        later = int(time.time()) + 121
        looks = ["RUNNING 900", "", "COMPLETING 900", "fails", f"PENDING {later}", f"PENDING {later}", f"PENDING {later}", "PENDING 900", "RUNNING 900"]
        (where / "looks").write_text("".join(f"{x}\n" for x in looks))
        (where / "scontrol").write_text(f"""#!/bin/sh
cd {where}
case $1 in show) exit 1 ;; esac
echo "$*" >>calls
case $* in *starttime*) mkdir refused && exit 1 ;; esac
exit 0
""")
        (where / "squeue").write_text(f"""#!/bin/sh
cd {where}
echo "$SLURM_TIME_FORMAT $*" >>asked
line=$(sed -n "$(wc -l <asked)p" looks)
[ "$line" != fails ] && echo "$line"
""")
        for f in ("scontrol", "squeue"):
            (where / f).chmod(0o755)
        self.agent(["sick 3 devices 0 of n0 fail their test"])
        p = subprocess.Popen([EXE, "gate", "--socket", self.path], env=env(**{**self.JOB, "PATH": f"{where}:{os.environ['PATH']}"}), start_new_session=True, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.wait(DEADLINE), 1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)  # as slurmd does
        self.assertIn("scontrol show job", p.stderr.read())  # its comment is not known: it is queued again all the same
        p.stderr.close()
        asked = lambda: (where / "asked").read_text().splitlines() if (where / "asked").exists() else []
        end = time.monotonic() + DEADLINE
        while len(asked()) < 8:
            self.assertLess(time.monotonic(), end, "it goes on until the begin is kept")
            time.sleep(0.02)
        self.assertEqual((where / "calls").read_text().splitlines(), ["requeue 17"] + ["update jobid=17 starttime=now+3"] * 3)
        self.assertEqual(set(asked()), {"%s -h -j 17 -O State:30,EligibleTime:30"})
        of_it = lambda: [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if self.path in text(p)]
        while of_it():
            self.assertLess(time.monotonic(), end, "it ends")
            time.sleep(0.02)
        self.assertEqual(len(asked()), 8)

    def test_the_qos_is_told_when_it_decides(self):
        self.agent(["qos"], ["ok"])
        tools = self.scontrol({"jobs": [self.record([], qos="high")]})
        self.assertEqual(self.gate(**{**tools, "SLURM_JOB_GPUS": "0", "SLURM_JOB_PARTITION": "train"})[:2], (0, ""))
        self.assertIn(" node=n0 partition=train devices=0 ", self.requests[0])
        self.assertIn(" node=n0 partition=train qos=high devices=0 ", self.requests[1])

    def scontrol(self, *answers):
        """Makes a scontrol that gives these answers in turn (None: it fails), then the last one
        again. Returns the environment that finds it."""
        for i, a in enumerate(answers):
            if a is not None:
                pathlib.Path(self.dir.name, f"answer{i}").write_text(a if isinstance(a, str) else json.dumps(a))
        p = pathlib.Path(self.dir.name, "scontrol")
        p.write_text(f"""#!/bin/sh
cd {self.dir.name}
[ "$*" = "show job 17 --json" ] || exit 2
n=$(cat count 2>/dev/null || echo 0)
[ $n -ge {len(answers) - 1} ] || echo $((n + 1)) > count
cat answer$n
""")
        p.chmod(0o755)
        return {"PATH": f"{self.dir.name}:{os.environ['PATH']}", "SLURM_JOB_GPUS": ""}

    @staticmethod
    def record(gres, nodes=("n0",), job=17, **more):
        # The keys are in slurmctld's order: what users named comes before and after.
        return {"comment": "x", "gres_detail": list(gres), "job_id": job, "job_resources": {
            "nodes": {"count": len(nodes), "list": "n[0-9]", "allocation": [{"index": i, "name": n, "cpus": {"count": 1}} for i, n in enumerate(nodes)]},
            "cpus": 2}, "name": "x", **more}

    def test_no_devices_needs_no_agent(self):
        for answer in ({"jobs": [self.record([])]}, {"jobs": [self.record(["", "gpu:1(IDX:3)"], ["n0", "n1"])]}):
            self.assertEqual(self.gate(**self.scontrol(answer))[:2], (0, ""), answer)

    def test_at_a_launch_the_environment_is_whole(self):
        # There is no scontrol here, and no agent.
        self.assertEqual(self.gate(options=["--launch"], SLURM_JOB_GPUS="")[:2], (0, ""))
        self.assertEqual(self.gate(options=["--launch"], SLURM_JOB_GPUS="", SLURM_JOB_GRES="gpu:2")[0], 1)
        self.agent(["fail held by pod ml/train-3"])
        self.assertEqual(self.gate(options=["--launch"])[0], 1)
        self.assertIn(" devices=0-2,5 ", self.requests[0])

    def test_devices_that_prolog_was_not_told(self):
        # Slurm 24.11 leaves SLURM_JOB_GPUS out after a restart of slurmctld.
        lie = '","gres_detail":["gpu:8(IDX:0-7)"],"job_id":17,"'
        for answer, devices in (
            ({"jobs": [self.record(["gpu:2(IDX:2-3)"])]}, "2-3"),
            ({"jobs": [self.record(["gpu:a:1(IDX:7)", "gpu:a:1(IDX:0),gpu:b:2(IDX:3,5)"], ["n1", "n0"])], "meta": {}, "errors": []}, "0,3,5"),
            ({"jobs": [self.record(["gpu:1(IDX:1)"], job=16), self.record(["gpu:1(IDX:4)"]), self.record(["gpu:1(IDX:2)"], job=18)]}, "4"),
            ({"jobs": [self.record(["gpu:1(IDX:6)"], name=lie, comment=lie + "\n\\", a=lie)]}, "6"),
        ):
            with self.subTest(devices):
                self.setUp()
                self.agent(["ok"])
                self.assertEqual(self.gate(**self.scontrol(answer))[:2], (0, ""))
                self.assertIn(f" devices={devices} ", self.requests[0])

    def test_part_of_a_gpu(self):
        marker = os.path.join(self.dir.name, "gpu-shares")
        open(marker, "w").close()
        part = {"jobs": [self.record(["shard:70(70/100,0/100)", "shard:30(0/100,30/100)"], ["n1", "n0"])]}
        for marks, env, said in ((["--shares", marker], {"SLURM_JOB_GPUS": "1"}, " share=30 devices=1 "), (["--shares", marker, "--types", marker], {"SLURM_JOB_GPUS": "1"}, " share=30 devices=1 "),
                                 (["--shares", marker], {}, " share=30 devices=1 "), ([], {"SLURM_JOB_GPUS": "1"}, " qos= devices=1 ")):
            with self.subTest(said, marks=marks):
                self.setUp()
                self.agent(["ok"])
                self.assertEqual(self.gate(options=marks, **{**self.scontrol(part), **env})[:2], (0, ""))
                self.assertIn(said.replace(" qos=", ""), self.requests[0])
                self.assertEqual("share=" in self.requests[0], bool(marks))
        for two, most in (("shard:zeta:20(20/100,0/100),shard:alpha:60(0/100,60/100)", 60), ("shard:zeta:60(60/100,0/100),shard:alpha:20(0/100,20/100)", 60)):
            with self.subTest(two):  # of two types: what it has most of one is what each counts with
                self.setUp()
                self.agent(["ok"])
                self.assertEqual(self.gate(options=["--shares", marker], **self.scontrol({"jobs": [self.record([two])]}))[:2], (0, ""))
                self.assertIn(f" share={most} devices=0-1 ", self.requests[0])
        self.setUp()
        self.agent(["ok"])  # a whole one, where others have parts
        self.assertEqual(self.gate(options=["--shares", marker], **self.scontrol({"jobs": [self.record(["gpu:1(IDX:1)"])]}))[0], 0)
        self.assertNotIn("share=", self.requests[0])
        for state in ("COMPLETING", "PENDING"):  # cancelled meanwhile: nobody says what it had, and it is let go without
            self.setUp()
            ended = {"jobs": [self.record([], job_state=["CANCELLED", state])]}
            self.assertEqual(self.gate(options=["--shares", marker], **{**self.scontrol(ended), "SLURM_JOB_GPUS": "1"})[:2], (0, ""))
            self.assertEqual(self.requests, [])
        self.setUp()
        self.assertEqual(self.gate(timeout=150, options=["--shares", marker], **{**self.scontrol({"jobs": [self.record([], job_state=["RUNNING"])]}), "SLURM_JOB_GPUS": "1"})[0], 1)
        for bad in ("shard:30", "shard:30(0/100,x)", "shard:30(0/100,30)", "shard:30(0/100,0/100)", "shard:30(CNT:30)", "shard:300(300/100)", "shard:a:5(5/100),shard:b:5"):
            with self.subTest(bad):  # never taken for a whole one
                self.setUp()
                self.assertEqual(self.gate(timeout=150, options=["--shares", marker], **{**self.scontrol({"jobs": [self.record([bad])]}), "SLURM_JOB_GPUS": "1"})[0], 1)
                self.assertEqual(self.requests, [])

    def test_devices_that_nobody_tells_are_not_free(self):
        good = {"jobs": [self.record(["gpu:2(IDX:2-3)"])]}
        for bad in (None, "", "{", json.dumps(good)[:-9], {"jobs": []}, {"jobs": [self.record(["gpu:2(IDX:2-3)"], job=3)]}, "[" * 10000,
                    {"jobs": [self.record(["gpu:2"])]}, {"jobs": [self.record(["gpu:2(IDX:)"])]}, {"jobs": [self.record(["gpu:2(IDX:0-1)"], ["n7"])]}):
            with self.subTest(str(bad)[:80]):
                self.setUp()
                code, err, _ = self.gate(timeout=150, **self.scontrol(bad))
                self.assertEqual(code, 1)
                self.assertIn("(unknown) on n0", err)
                self.setUp()
                self.agent(["ok"])
                self.assertEqual(self.gate(**self.scontrol(bad, good))[0], 0)  # asks again

    def test_start_unknown_and_ranges(self):
        self.agent(["ok"])
        self.assertEqual(self.gate(SLURM_JOB_GPUS="3,0-1", SLURM_JOB_START_TIME="")[0], 0)
        self.assertIn(" start=0 ", self.requests[0])
        self.assertIn(" devices=0-1,3 ", self.requests[0])

    def test_the_pod_that_a_comment_names(self):
        uid = "7eacc682-97ce-42c8-bcc9-f95f48dac494"
        long = "a" * 63 + "/" + "b" * 253
        said = {f"tandem/b3ed3239-0d01-4436-a6cf-420591fdd20d/{uid}": f" ask={uid} ", f"tandem/x/ml/train-0.a/{uid}": f" ask={uid} pod=ml/train-0.a ", f"tandem/x/{long}/{uid}": f" ask={uid} pod={long} ",
                f"tandem/x/{long}b/{uid}": f" ask={uid} ", f"tandem/x/ml/{uid}": f" ask={uid} ", f"tandem/x/ml/a/b/{uid}": f" ask={uid} ", f"tandem/x/ml/a b/{uid}": f" ask={uid} ", f"tandem/x/ml/a\nb/{uid}": f" ask={uid} ",
                f"tandem//{uid}": f" ask={uid} ", f"tandem///{uid}": f" ask={uid} ", f"tandem/{uid}": f" ask={uid} ", f"mine/{uid}": "", "tandem/x/short": "", f"tandem/x/{uid} devices=7": "",
                f"tandem/x/{uid[:-1]}\n": "", "": "", "tandem/x/": ""}
        self.agent(*[["ok"]] * len(said))
        for i, (comment, ask) in enumerate(said.items()):
            self.assertEqual(self.gate(SLURM_JOB_COMMENT=comment)[0], 0)
            self.assertRegex(self.requests[i], rf"^acquire job=17 start=1790000000 uid=1000{ask or ' '}node=n0 devices=0-2,5 timeout=\d+$")

    def test_fallback_and_nonsense(self):
        self.agent(["ok"])
        self.assertEqual(self.gate(SLURM_JOB_GPUS="", CUDA_VISIBLE_DEVICES="4")[0], 0)
        self.assertIn(" devices=4 ", self.requests[0])
        for bad in ("GPU-8932", "0,,1", "1-0", "99999", "0;1", "-1"):
            code, err, _ = self.gate(SLURM_JOB_GPUS=bad)
            self.assertEqual(code, 1, bad)
            self.assertIn(bad, err)
        code, err, _ = self.gate(SLURM_JOB_GPUS="", SLURM_JOB_GRES="gpu:2")
        self.assertEqual(code, 1)
        self.assertEqual(self.gate(SLURMD_NODENAME="")[0], 1)
        self.assertEqual(len(self.requests), 1)

    def test_absent_agent_is_not_free(self):
        code, err, took = self.gate(timeout=400)
        self.assertEqual(code, 1)
        self.assertGreater(took, 0.35)
        self.assertIn("No such file", err)

    def test_agent_comes_late_and_dies_once(self):
        p = subprocess.Popen([EXE, "gate", "--socket", self.path, "--timeout", "60000"], env=env(**self.JOB))
        self.agent([], ["ok"])
        self.assertEqual(p.wait(DEADLINE), 0)
        self.assertEqual(len(self.requests), 2)

    def test_deadline_while_waiting(self):
        self.agent(["wait held by pod ml/x"])
        code, err, _ = self.gate(timeout=300)
        self.assertEqual(code, 1)
        self.assertIn("held by pod ml/x", err)  # and it has come back, although its peer stays


class Run(unittest.TestCase):
    def setUp(self):
        self.s = socket.create_server(("127.0.0.1", 0))
        self.s.settimeout(DEADLINE)
        self.addCleanup(self.s.close)
        self.port = self.s.getsockname()[1]

    def start(self):
        p = subprocess.Popen([EXE, "run", "--knock", f"127.0.0.1:{self.port}", "--ask", "uid-1", "--token", "ab12"],
                             env=env(SLURM_JOB_ID="33", SLURMD_NODENAME="n1"))
        self.addCleanup(lambda: p.poll() is None and (p.kill(), p.wait()))
        return p

    def accept(self, hello=True):
        conn = Lines(self.s.accept()[0])
        self.addCleanup(conn.close)
        if hello:
            self.assertEqual(conn.read(), "hello v=1 job=33 ask=uid-1 token=ab12 node=n1")
        return conn

    def test_end_code(self):
        p = self.start()
        c = self.accept()
        c.say("run")
        c.say("end code=42")
        self.assertEqual(p.wait(DEADLINE), 42)

    def test_gone(self):
        p = self.start()
        self.accept().say("gone")
        self.assertEqual(p.wait(DEADLINE), 0)

    def test_term_is_told_and_obeyed(self):
        p = self.start()
        c = self.accept()
        c.say("run")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(c.read(), "signal name=TERM")
        self.assertEqual(p.wait(DEADLINE), 143)

    def test_term_without_a_bridge(self):
        self.s.close()
        p = self.start()
        # The mask must be set before the signal: wait until it blocks TERM.
        end = time.monotonic() + DEADLINE
        while True:
            blocked = int(re.search(r"SigBlk:\s*(\w+)", text(f"/proc/{p.pid}/status"))[1], 16)
            if blocked & (1 << (signal.SIGTERM - 1)):
                break
            self.assertLess(time.monotonic(), end)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(DEADLINE), 143)

    def test_usr1_is_told_and_survived(self):
        p = self.start()
        c = self.accept()
        p.send_signal(signal.SIGUSR1)
        self.assertEqual(c.read(), "signal name=USR1")
        c.say("end code=0")
        self.assertEqual(p.wait(DEADLINE), 0)

    def test_ping(self):
        p = self.start()
        c = self.accept()
        c.say("ping")
        self.assertEqual(c.read(), "pong")
        p.kill()

    def test_lost_connection_is_not_an_end(self):
        p = self.start()
        for _ in range(3):
            self.accept().close()
        c = self.accept()
        self.assertIsNone(p.poll())
        c.say("some word of a later version")
        c.say("end code=7")
        self.assertEqual(p.wait(DEADLINE), 7)

    def test_split_and_joined_lines(self):
        p = self.start()
        c = self.accept()
        c.conn.sendall(b"run\nen")
        c.conn.sendall(b"d code=5\nend code=6\n")
        self.assertEqual(p.wait(DEADLINE), 5)

    def test_line_without_end_drops_the_connection(self):
        p = self.start()
        c = self.accept()
        try:
            c.conn.sendall(b"x" * 8192)
        except OSError:
            pass
        self.accept().say("end code=1")
        self.assertEqual(p.wait(DEADLINE), 1)

    def test_wrong_usage(self):
        for args in (["--knock", "host:1", "--ask", "u", "--token", "t"], ["--knock", "127.0.0.1:0", "--ask", "u", "--token", "t"],
                     ["--knock", "127.0.0.1:9", "--ask", "u"], ["--what"]):
            p = subprocess.run([EXE, "run", *args], env=env(SLURM_JOB_ID="1"), capture_output=True, timeout=DEADLINE)
            self.assertEqual(p.returncode, 2, args)
            self.assertTrue(p.stderr)

class Names(threading.Thread):
    """A DNS server on an address of its own (on port 53, because resolv.conf has no other).
    `answers`: {name: [addresses]}; None: it never answers."""

    last = 50

    def __init__(self, answers):
        super().__init__(daemon=True)
        Names.last += 1
        self.answers, self.asked, self.s = answers, [], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = f"127.{os.getpid() % 250 + 2}.{os.getpid() // 250 % 250}.{Names.last}"
        self.s.bind((self.address, 53))
        self.start()

    def run(self):
        while True:
            try:
                q, who = self.s.recvfrom(512)
            except OSError:
                return
            at, labels = 12, []
            while q[at]:
                labels.append(q[at + 1:at + 1 + q[at]].decode())
                at += 1 + q[at]
            name, kind = ".".join(labels), int.from_bytes(q[at + 1:at + 3], "big")
            self.asked.append(name)
            if self.answers is None:
                continue
            found = self.answers.get(name)
            records = b"".join(b"\xc0\x0c" + bytes([0, 1, 0, 1, 0, 0, 0, 5, 0, 4]) + socket.inet_aton(a) for a in found or []) if kind == 1 else b""
            head = q[:2] + bytes([0x85, 0x80 if found else 0x83, 0, 1]) + (len(records) // 16).to_bytes(2, "big") + bytes(4)
            self.s.sendto(head + q[12:at + 5] + records, who)


class Elsewhere(unittest.TestCase):
    """Another bridge leads than the one whose address was given: it is found by name."""

    def setUp(self):
        if os.geteuid():
            self.skipTest("needs root: a resolv.conf of its own, port 53")
        self.old, self.new = socket.create_server(("127.0.0.1", 0)), None
        self.port = self.old.getsockname()[1]
        self.there = f"127.{os.getpid() % 250 + 2}.{os.getpid() // 250 % 250}.7"
        self.new = socket.create_server((self.there, self.port))
        for s in (self.old, self.new):
            s.settimeout(DEADLINE)
            self.addCleanup(s.close)

    def start(self, answers):
        names = Names(answers)
        self.addCleanup(names.s.close)
        conf = tempfile.NamedTemporaryFile("w")
        self.addCleanup(conf.close)
        conf.write(f"nameserver {names.address}\nsearch slurm.svc.example svc.example example\noptions ndots:5\n")
        conf.flush()
        p = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', conf.name,
                              EXE, "run", "--knock", f"127.0.0.1:{self.port}", "--ask", "uid-1", "--token", "ab12"],
                             env=env(SLURM_JOB_ID="33", SLURMD_NODENAME="n1", TANDEM_KNOCK_NAME=f"bridge.ns.svc:{self.port}"))
        self.addCleanup(lambda: p.poll() is None and (p.kill(), p.wait()))
        return p, names

    def accept(self, s):
        conn = Lines(s.accept()[0])
        self.addCleanup(conn.close)
        self.assertEqual(conn.read(), "hello v=1 job=33 ask=uid-1 token=ab12 node=n1")
        return conn

    def test_the_one_that_led_is_gone(self):
        self.old.close()
        # Nobody listens at 127.9.9.9. The name is whole only with the last domain of the search
        # list.
        p, names = self.start({"bridge.ns.svc.example": ["127.9.9.9", "127.0.0.1", self.there]})
        c = self.accept(self.new)
        c.say("run")
        asked = len(names.asked)
        self.assertIn("bridge.ns.svc.slurm.svc.example", names.asked)
        c.close()  # the last heard bridge is asked first, not the name
        c = self.accept(self.new)
        c.say("end code=9")
        self.assertEqual(p.wait(DEADLINE), 9)
        self.assertEqual(len(names.asked), asked)

    def test_it_is_found_while_the_old_one_is_frozen(self):
        p, _ = self.start({"bridge.ns.svc.example": ["127.0.0.1", self.there]})
        self.accept(self.old)  # this bridge says nothing
        c = self.accept(self.new)
        c.say("run")
        c.say("end code=4")
        self.assertEqual(p.wait(DEADLINE), 4)

    def test_the_address_that_was_given_needs_no_name(self):
        p, names = self.start(None)
        c = self.accept(self.old)
        c.say("end code=3")
        self.assertEqual(p.wait(DEADLINE), 3)
        self.assertEqual(names.asked, [])

    def test_a_name_server_that_is_silent_keeps_no_signal(self):
        self.old.close()
        end, took = time.monotonic() + DEADLINE, 5
        while took >= 4:  # a look-up ends after 5 s by itself: a machine that is as slow as that shows nothing
            p, names = self.start(None)
            while not names.asked:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            begun = time.monotonic()
            p.send_signal(signal.SIGTERM)
            self.assertEqual(p.wait(DEADLINE), 143)
            took = time.monotonic() - begun
            self.assertLess(time.monotonic(), end)

    def test_a_wrong_name_is_an_address_all_the_same(self):
        self.old.close()
        p, names = self.start({})
        end = time.monotonic() + DEADLINE
        while len(names.asked) < 8:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertIsNone(p.poll())
        again = socket.create_server(("127.0.0.1", self.port))
        again.settimeout(DEADLINE)
        self.addCleanup(again.close)
        self.accept(again).say("end code=0")
        self.assertEqual(p.wait(DEADLINE), 0)


class Stubs(unittest.TestCase):
    """Slurm's commands as scripts that note their arguments in `calls` and answer with what a test
    has written into files."""

    def setUp(self):
        d = tempfile.TemporaryDirectory()
        self.addCleanup(d.cleanup)
        self.dir = pathlib.Path(d.name)
        (self.dir / "bin").mkdir()

    def stub(self, name, program):
        p = self.dir / "bin" / name
        p.write_text(f'#!/bin/sh\n{{ printf "%s" "{name}"; printf "|%s" "$@"; echo; }} >>"{self.dir}/calls"\n{program}\n')
        p.chmod(0o755)

    def run_it(self, *args):
        path = f"{self.dir}/bin:/usr/bin:/bin"
        return subprocess.run([EXE, *args], env=env(PATH=path), capture_output=True, text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)

    def calls(self):
        return text(self.dir / "calls").splitlines()


def job_state(last, word=17):
    return word.to_bytes(4, "big") + b"PROTOCOL_VERSION\0" + (10496).to_bytes(2, "big") + (1700000000).to_bytes(8, "big") + last.to_bytes(4, "big") + b"jobs"


class Peer(Stubs):
    """The server in slurmd's pod, which serves who has the key."""

    KEY = b"Slurm's key"

    def setUp(self):
        super().setUp()
        (self.dir / "key").write_bytes(self.KEY)
        self.start()

    def start(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.server = subprocess.Popen([EXE, "peer", "--node", "n0", "--key", self.dir / "key", "--socket", self.dir / "gate", "--port", str(self.port)])
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)

    def children(self):
        return set(map(int, text(f"/proc/{self.server.pid}/task/{self.server.pid}/children").split()))

    def come(self):
        """A connection that was taken, and what the server has said."""
        end = time.monotonic() + DEADLINE
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                peer = Lines(socket.create_connection(("127.0.0.1", self.port)))
                self.addCleanup(peer.close)
                return peer, peer.read()
            self.assertLess(time.monotonic(), end)
            if self.server.poll() is not None:  # somebody else had taken the port
                self.start()

    def greet(self):
        peer, hello = self.come()
        asked, mine = hello.removeprefix("hello "), "0" * 32
        ends = "{} {} {} {}".format(*peer.conn.getsockname(), *peer.conn.getpeername())
        proof = lambda who: hmac.new(self.KEY, f"tandem peer {who} {asked} {mine} {ends}".encode(), "sha1").hexdigest()  # noqa: E731
        peer.say(f"auth {mine} {proof('client')}")
        self.assertEqual(peer.read(), f"ok {proof('server')}")
        return peer

    def test_who_has_no_key_holds_no_place(self):
        """However many open connections and say nothing: who has the key is served, and stays. They are stopped, so that none ends by itself."""
        known = [self.greet() for _ in range(3)]
        served = self.children()
        idle = [self.come() for _ in range(61)]
        for pid in self.children() - served:
            os.kill(pid, signal.SIGSTOP)
            self.addCleanup(lambda p=pid: p in self.children() and os.kill(p, signal.SIGKILL))
        idle += [self.come() for _ in range(61)]
        self.assertTrue(all(said.startswith("hello ") for _, said in idle))
        for peer in (*known, self.greet()):
            peer.say("what")
            self.assertEqual(peer.read(), "bad it does not know this word")


class FirstJobId(Stubs):
    def first(self, *args, code=0):
        p = self.run_it("first-job-id", "--state", str(self.dir), *args)
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def noted(self):
        return text(self.dir / "first-job-id").strip()

    def killed(self, **files):
        (self.dir / "slurmctld.pid").write_text("17\n")
        for name, content in files.items():
            (self.dir / name.replace("_old", ".old")).write_bytes(content)

    def test_a_new_cluster_and_an_orderly_end(self):
        self.assertEqual(self.first().stdout, "1\n")
        self.assertEqual(self.first("--first", "500", "--max", "").stdout, "500\n")
        (self.dir / "job_state").write_bytes(job_state(7000))  # saved in an orderly end, so slurmctld reads it itself
        self.assertEqual(self.first("--first", "2").stdout, "500\n")
        self.assertEqual(self.noted(), "500")

    def test_after_a_kill_ids_go_on_later(self):
        self.killed(job_state=job_state(41), job_state_old=job_state(42))
        p = self.first()
        self.assertEqual(p.stdout, "10042\n")
        self.assertIn("killed", p.stderr)
        self.assertEqual(self.first().stdout, "20042\n")  # it was killed again before anything was saved

    def test_ids_begin_anew_at_the_end(self):
        self.killed(job_state=job_state(95000))
        self.assertEqual(self.first("--first", "300", "--max", "100000").stdout, "300\n")
        self.killed(job_state=job_state(2**32 - 1))
        self.assertEqual(self.first("--first", "300").stdout, "300\n")

    def test_files_of_no_known_form(self):
        for bad in (b"x", job_state(9, word=18), job_state(9)[:34], b"JobId=5 " * 10):
            self.killed(job_state=bad, job_state_old=b"")
            (self.dir / "first-job-id").write_text("70\n")
            p = self.first()
            self.assertEqual(p.stdout, "10070\n")
            self.assertIn("job_state is of no known form", p.stderr)
            self.assertNotIn("old", p.stderr)

    def test_a_note_of_no_known_form(self):
        for bad in ("", "x\n", "-5\n", "7 7\n", "99999999999999999999\n"):
            (self.dir / "first-job-id").write_text(bad)
            self.assertEqual(self.first("--first", "3").stdout, "3\n")

    def test_refusals(self):
        self.first("--first", "x", code=2)
        self.first("--first", "4294967296", code=2)
        self.first("--odd", "1", code=2)
        self.first("--max", code=2)
        self.assertEqual(self.run_it("first-job-id").returncode, 2)
        p = self.run_it("first-job-id", "--state", str(self.dir / "none"))
        self.assertEqual((p.returncode, p.stdout), (1, ""))
        self.assertIn("No such file", p.stderr)


def row(job, batch, requeue, host, comment="", user=""):
    return f"{job:<24}{batch:<8}{requeue:<8}{host:<256}{comment:<8.8}{user:<8.8}"


class ClearDead(Stubs):
    """squeue first says what is in `jobs`, then what is in `later` when that exists. sinfo says
    `state`. Jobs without a step are in `stepless`."""

    def clear(self, jobs, state="mixed", later=None, stepless=(), code=0):
        (self.dir / "calls").unlink(missing_ok=True)
        (self.dir / "jobs").write_text("".join(j + "\n" for j in jobs))
        (self.dir / "later").unlink(missing_ok=True)
        if later is not None:
            (self.dir / "later").write_text("".join(j + "\n" for j in later))
        (self.dir / "state").write_text(state + "\n")
        (self.dir / "stepless").write_text(" ".join(stepless))
        self.stub("squeue", f"""case " $* " in
*" -s "*) case " $(cat {self.dir}/stepless) " in *" $6 "*) ;; *) echo "$6.0" ;; esac ;;
*) cat {self.dir}/jobs; [ ! -e {self.dir}/later ] || mv {self.dir}/later {self.dir}/jobs ;;
esac""")
        for name, program in (("sinfo", f"cat {self.dir}/state"), ("scontrol", ":"), ("scancel", ":")):
            self.stub(name, program)
        return self.go(code)

    def go(self, code=0):
        sack = socket.socket(socket.AF_UNIX)
        self.addCleanup(sack.close)
        path = self.dir / "sack"
        path.unlink(missing_ok=True)
        sack.bind(str(path))
        p = self.run_it("clear-dead", "--node", "n1", "--reason", "it died", "--sack", str(path))
        self.assertEqual(p.returncode, code, p.stderr)
        return p.stderr

    def acts(self):
        return [c for c in self.calls() if c.startswith("sc")]

    DRAIN, DOWN = ("scontrol|update|nodename=n1|state=" + s + "|reason=it died" for s in ("DRAIN", "DOWN"))

    def test_nothing_runs(self):
        self.clear([])
        self.assertEqual(self.calls(), ["squeue|-h|-w|n1|-t|R,S,ST|-O|JobID:24,BatchFlag:8,Requeue:8,BatchHost:256,admin_comment:8,comment:8"])

    def test_without_stand_ins_the_node_goes_down(self):
        for state in ("idle", "mixed*", "allocated", "completing*"):
            self.clear([row(5, 1, 1, "n1"), row(6, 0, 0, "n1")], state)
            self.assertEqual(self.acts(), [self.DRAIN, self.DOWN])

    def test_one_by_one_beside_a_stand_in(self):
        jobs = [row(5, 1, 1, "n1"), row(6, 0, 0, "n1"), row(7, 1, 0, "n1"), row(8, 1, 0, "n2"), row(9, 1, 1, "n1", "tandem/x"), row(10, 1, 1, "n1", "", "tandem/x"),
                row(11, 1, 1, "n1")]
        said = self.clear(jobs, stepless=["11"])
        self.assertEqual(self.acts(), [self.DRAIN, "scontrol|requeue|5", "scancel|6", "scancel|8"])
        self.assertIn("job 7 had processes", said)
        for job in (9, 10, 11):
            self.assertNotIn(f"job {job} ", said)

    def test_a_marked_node_stays_as_it_is(self):
        for state in ("drained", "draining*", "down", "planned", "idle~", ""):
            self.clear([row(5, 1, 1, "n1")], state)
            self.assertEqual(self.acts(), ["scontrol|requeue|5"])

    def test_a_stand_in_that_came_between_the_looks_stays(self):
        self.clear([row(5, 1, 1, "n1")], later=[row(5, 1, 1, "n1"), row(9, 1, 0, "n2", "tandem/x")])
        self.assertEqual(self.acts(), [self.DRAIN, "scontrol|requeue|5"])

    def test_a_comment_looks_like_no_job(self):
        self.clear([row(9, 1, 0, "n1", "tandem/x", "\n7 0 0 ")], stepless=["9"])
        self.assertEqual(self.acts(), [self.DRAIN])

    def test_long_node_names_and_hosts_that_begin_alike(self):
        self.clear([row(9, 1, 1, "n1", "tandem/x"), row(7, 1, 0, "n11"), row(8, 1, 0, "n" * 256)])
        self.assertEqual(self.acts(), [self.DRAIN, "scancel|7", "scancel|8"])

    def test_commands_that_fail_or_are_missing(self):
        self.clear([row(5, 1, 1, "n1")])
        (self.dir / "calls").unlink()
        self.stub("squeue", "echo 'slurm_load_jobs error: Invalid node name specified' >&2; exit 1")
        self.assertEqual(self.go(), "")  # Slurm has never seen the node
        self.stub("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
        self.assertIn("which jobs died here is not known: Unable to contact", self.go())
        (self.dir / "bin/squeue").unlink()
        self.assertIn("is not known: squeue: No such file", self.go())
        self.assertEqual(self.acts(), [])
        self.clear([row(5, 1, 1, "n1")])
        (self.dir / "calls").unlink()
        self.stub("sinfo", "exit 1")
        self.stub("scontrol", "echo 'slurm_requeue error: Invalid job id' >&2; exit 1")
        self.assertIn("Invalid job id", self.go())
        self.assertEqual(self.acts(), ["scontrol|requeue|5"])

    def test_the_second_look_fails(self):
        self.clear([row(5, 1, 1, "n1")])
        (self.dir / "calls").unlink()
        self.stub("squeue", f'case " $* " in *" -s "*) echo 5.0 ;; *) cat {self.dir}/jobs; rm {self.dir}/jobs ;; esac')
        self.go()
        self.assertEqual(self.acts(), [self.DRAIN, "scontrol|requeue|5"])

    def test_a_command_that_hangs_is_given_up(self):
        self.clear([row(5, 1, 1, "n1")])
        self.stub("squeue", "exec sleep 1000")
        self.assertIn("no answer in time", self.go())

    def test_refusals(self):
        for args in ((), ("--node", "n1"), ("--node", "", "--reason", "r"), ("--node", "n1", "--reason"), ("--node", "n1", "--reason", "r", "--x", "y")):
            self.assertEqual(self.run_it("clear-dead", *args).returncode, 2)


class Machines(unittest.TestCase):
    """tandem-run in a session over three machines: what it asks srun for, which here runs the last node's task."""

    def do(self, *argv, **change):
        with tempfile.TemporaryDirectory() as d:
            os.symlink(EXE, f"{d}/tandem-run")
            with open(f"{d}/srun", "w") as f:
                f.write('#!/bin/sh\necho "${SLURM_NNODES-none} $*" >&2\nwhile [ "${1#-}" != "$1" ]; do case $1 in --ntasks=*) last=$((${1#*=} - 1)) ;; esac; shift; done\nSLURM_PROCID=$last exec "$@"\n')
            os.chmod(f"{d}/srun", 0o755)
            its = {"PATH": f"{d}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "TANDEM_SESSION_NODES": "3", "WORLD_SIZE": "3", "RANK": "0", "TANDEM_GANG_HOSTS": "h0,h1,h2",
                   "MASTER_ADDR": "h0", "MASTER_PORT": "20007", "TANDEM_NODE_GPUS": "2", "TANDEM_SESSION_SOCKET": "/x"}
            return subprocess.run([f"{d}/tandem-run", *argv], env=env(**{**its, **change}), capture_output=True, text=True, timeout=DEADLINE)

    def test_by_srun(self):
        say = ("sh", "-c", "echo $RANK $NODE_RANK $WORLD_SIZE $PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR:$PET_MASTER_PORT $PET_NPROC_PER_NODE [$TANDEM_SESSION_SOCKET]")
        r = self.do(*say)
        self.assertEqual((r.returncode, r.stdout), (0, "2 2 3 3 2 h0:20007 2 []\n"))
        for word in ("none ", "--jobid=7", "--nodes=3", "--ntasks=3", "--nodelist=h0,h1,h2", "--overlap"):
            self.assertIn(word, r.stderr)
        r = self.do("-l", "--workers", *say)
        self.assertTrue(r.stdout.startswith("2 2 3") and "--nodes=2" in r.stderr and "--nodelist=h1,h2" in r.stderr and "--label" in r.stderr, r)
        r = self.do("--node", "h0", *say)
        self.assertTrue(r.stdout.startswith("0 0 3") and r.stdout.endswith("[/x]\n") and "--nodes=1 " in r.stderr and "--nodelist=h0 " in r.stderr, r)
        self.assertEqual(self.do("--node", "1", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.do("--node", "h9", "true").returncode, 2)
        self.assertEqual(self.do("true", RANK="1").returncode, 2)

    def test_from_a_container(self):
        # There is no srun in it: who asks has other programs and variables, and a worker outside, at a socket, asks srun for him.
        with tempfile.TemporaryDirectory() as d:
            (bin_ := pathlib.Path(d, "bin")).mkdir()
            (srun := bin_ / "srun").write_text('#!/bin/sh\necho "at $PYXIS_CONTAINER_WORKDIR lib ${LD_LIBRARY_PATH-none} $*" >&2\nwhile [ "${1#-}" != "$1" ]; do shift; done\nSLURM_PROCID=2 exec "$@"\n')
            srun.chmod(0o755)
            its = {"SLURM_JOB_ID": "7", "TANDEM_SESSION_NODES": "3", "WORLD_SIZE": "3", "RANK": "0", "TANDEM_GANG_HOSTS": "h0,h1,h2", "MASTER_ADDR": "h0", "MASTER_PORT": "20007"}
            worker = subprocess.Popen([EXE, "worker", "--socket", f"{d}/steps"], env=env(**its, PATH=f"{bin_}:/usr/bin:/bin", CUDA_VISIBLE_DEVICES="7"))
            try:
                end = time.monotonic() + DEADLINE
                while not os.path.exists(f"{d}/steps"):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.01)
                os.symlink(EXE, f"{d}/tandem-run")
                do = lambda *argv, **change: subprocess.run([f"{d}/tandem-run", *argv], env=env(**{**its, "TANDEM_SESSION_STEPS": f"{d}/steps", "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/odd", "OWN": "a=b", "CUDA_VISIBLE_DEVICES": "0", **change}),
                                                            cwd=d, capture_output=True, text=True, timeout=DEADLINE)
                r = do("-l", "--workers", "sh", "-c", "echo $RANK $OWN $LD_LIBRARY_PATH $CUDA_VISIBLE_DEVICES $PATH; env | grep -c INSIDE; exit 7")
                self.assertEqual((r.returncode, r.stdout), (7, "3 a=b /odd 7 /usr/bin:/bin\n0\n"))
                self.assertIn(f"at {os.path.realpath(d)} lib none --jobid=7 --nodes=2", r.stderr)
                self.assertIn("--label", r.stderr)
                with subprocess.Popen([f"{d}/tandem-run", "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done"], env=env(**its, TANDEM_SESSION_STEPS=f"{d}/steps", PATH="/usr/bin:/bin"), stdout=subprocess.PIPE, text=True) as p:
                    self.assertEqual(p.stdout.readline(), "up\n")
                    p.send_signal(signal.SIGINT)  # to srun it is told as SIGTERM, which ends its step at once
                    self.assertEqual(p.wait(DEADLINE), 9)
                r = subprocess.run([EXE, "on-nodes", "--", "sh", "-c", "echo $RANK $PATH"], env=env(**its, TANDEM_SESSION_STEPS=f"{d}/none", PATH=f"{bin_}:/usr/bin:/bin"), capture_output=True, text=True, timeout=DEADLINE)
                self.assertEqual((r.returncode, r.stdout), (0, f"2 {bin_}:/usr/bin:/bin\n"), r.stderr)  # outside it is the script's own
                r = do("true", TANDEM_SESSION_STEPS=f"{d}/none")
                self.assertEqual(r.returncode, 255)
                self.assertIn("is not there", r.stderr)
            finally:
                worker.terminate()
                worker.wait(DEADLINE)

    def test_where_it_is_none(self):
        self.assertIn("no session over several nodes", self.do("true", TANDEM_SESSION_NODES="").stderr + self.do("true", TANDEM_GANG_HOSTS="").stderr)
        r = self.do("true", PATH="/nonexistent")
        self.assertEqual(r.returncode, 127)
        self.assertIn("slurm-client", r.stderr)


class Nodes(unittest.TestCase):
    """A session over two nodes: a worker here is the second one, named localhost."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        for name in ("tandem-run", "tandem-rsh"):
            os.symlink(EXE, f"{self.dir.name}/{name}")
        while not self.worker():
            pass

    def worker(self):
        """Starts one at a port that is free. False: somebody else was faster at that port."""
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.env = env(TANDEM_SESSION_KEY="5" * 48, TANDEM_GANG_HOSTS="first.nodes-x,localhost", RANK="0", PORT=str(self.port), MINE="of the first")
        worker = subprocess.Popen([EXE, "worker", "--port", str(self.port)], env={**self.env, "RANK": "1", "MINE": "of the second"}, cwd="/")
        self.addCleanup(worker.wait)
        self.addCleanup(worker.terminate)
        listens = f":{self.port:04X} 00000000:0000 0A "
        end = time.monotonic() + DEADLINE
        while worker.poll() is None and listens not in text("/proc/net/tcp"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return worker.poll() is None

    def do(self, name, *argv, **kw):
        change = kw.pop("env", {})
        return subprocess.run([f"{self.dir.name}/{name}", *argv], env={**self.env, **change}, cwd=self.dir.name, capture_output=True, text=True, timeout=DEADLINE, **kw)

    def test_on_all_of_them(self):
        r = self.do("tandem-run", "-l", "sh", "-c", "echo $RANK $NODE_RANK $WORLD_SIZE $PET_NODE_RANK $MASTER_ADDR $MINE $OWN; pwd; echo an error >&2; printf end", env={"OWN": "set"})
        place = os.path.realpath(self.dir.name)
        for rank, mine in enumerate(("of the first", "of the second")):
            self.assertIn(f"{rank}: {rank} {rank} 2 {rank} first.nodes-x {mine} set\n", r.stdout)
            self.assertIn(f"{rank}: {place}\n", r.stdout)
            self.assertIn(f"{rank}: an error\n", r.stderr)
        self.assertEqual((r.returncode, self.do("tandem-run", "--workers", "sh", "-c", "echo $RANK").stdout), (0, "1\n"))
        self.assertEqual([self.do("tandem-run", "--node", n, "sh", "-c", "echo $RANK").stdout for n in ("0", "first", "1", "localhost")], ["0\n", "0\n", "1\n", "1\n"])

    def test_one_that_fails_ends_the_others(self):
        for failing in (0, 1):
            r = self.do("tandem-run", "sh", "-c", f"test $RANK = {failing} || exec sleep 1000; exit 7")
            self.assertEqual(r.returncode, 7)
            self.assertIn(f"on node {failing}", r.stderr)
        self.assertEqual(self.do("tandem-run", "no-such-program").returncode, 127)

    def test_signals_and_a_caller_that_goes(self):
        for kill, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            with subprocess.Popen([f"{self.dir.name}/tandem-run", "sh", "-c", "echo $$; exec sleep 1000"], env=self.env, stdout=subprocess.PIPE, text=True) as p:
                pids = [int(p.stdout.readline()) for _ in range(2)]
                p.send_signal(kill)
                self.assertEqual(p.wait(DEADLINE), code)
                end = time.monotonic() + DEADLINE
                while any(text(f"/proc/{pid}/cmdline").startswith("sleep") for pid in pids):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.01)

    def test_a_node_that_goes_without_a_word(self):
        # Nothing tells of it but what the kernel asks from time to time: at both ends.
        def asked():
            rows = [line.split() for line in text("/proc/net/tcp").splitlines()[1:]]
            return sum(f"{self.port:04X}" in (r[1][-4:], r[2][-4:]) and r[3] == "01" and r[5].startswith("02:") for r in rows)

        with subprocess.Popen([f"{self.dir.name}/tandem-run", "--workers", "sh", "-c", "echo; exec sleep 1000"], env=self.env, stdout=subprocess.PIPE) as p:
            try:
                p.stdout.readline()
                end = time.monotonic() + DEADLINE
                while asked() != 2:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.01)
            finally:
                p.terminate()

    def test_as_rsh(self):
        data = os.urandom(300000).hex()
        r = self.do("tandem-rsh", "-x", "-l", "ann", "localhost", "cat;", "echo $RANK >&2;", "exit 3", input=data)
        self.assertEqual((r.returncode, r.stdout, r.stderr), (3, data, "1\n"))
        self.assertEqual(self.do("tandem-rsh", "-n", "first", "echo", "$RANK").stdout, "0\n")
        self.assertEqual(self.do("tandem-rsh", "elsewhere", "true").returncode, 255)
        # What it leaves behind is not waited for, as little as mpirun's daemons are.
        r = self.do("tandem-rsh", "localhost", "sleep 1000 & echo $!")
        os.kill(int(r.stdout), signal.SIGKILL)

    def test_much_that_is_written(self):
        # Each end waits for the other: what comes in grows to many times as much.
        data = b"x" * 63 + b"\n"
        for host in ("first", "localhost"):
            r = subprocess.run([f"{self.dir.name}/tandem-rsh", host, "awk '{for (i = 0; i < 8; i++) print}'"], env=self.env, input=data * 200000, stdout=subprocess.PIPE, timeout=DEADLINE)
            self.assertEqual((r.returncode, len(r.stdout)), (0, 8 * 64 * 200000), host)
        # A signal, and the end of who reads, reach one that writes for ever; who is left behind holds nobody up.
        with subprocess.Popen([f"{self.dir.name}/tandem-run", "sh", "-c", "exec cat /dev/zero"], env=self.env, stdout=subprocess.PIPE) as p:
            p.stdout.read(1 << 20)
            p.send_signal(signal.SIGINT)
            while p.stdout.read(1 << 16):
                pass
            self.assertEqual(p.wait(DEADLINE), 130)
        with subprocess.Popen([f"{self.dir.name}/tandem-run", "sh", "-c", "exec cat /dev/zero"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            p.stdout.read(1)
            p.stdout.close()
            self.assertEqual((p.wait(DEADLINE), p.stderr.read()), (141, b""))
        r = self.do("tandem-run", "--workers", "sh", "-c", "cat /dev/zero & echo $! >&2")
        self.assertEqual(r.returncode, 0)

    def test_who_has_no_key(self):
        self.assertEqual(self.do("tandem-run", "true").returncode, 0)  # it listens
        for said in (b"r\0\0\0\x09/\0\0touch\0x\0\n", b"auth " + b"0" * 32 + b" " + b"0" * 40 + b"\n"):
            with socket.create_connection(("127.0.0.1", self.port), DEADLINE) as c:
                c.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    got = b""
                    while b := c.recv(4096):
                        got += b
                    self.assertRegex(got, rb"\Ahello [0-9a-f]{32}\n\Z")

    def test_refusals(self):
        for change in ({"TANDEM_SESSION_KEY": "short"}, {"TANDEM_GANG_HOSTS": ""}):
            r = self.do("tandem-run", "true", env=change)
            self.assertEqual(r.returncode, 255)
            self.assertIn("--nodes", r.stderr)
        for argv in ((), ("--node", "7", "true"), ("--workers",), ("--other", "true"), ("--workers", "--node", "1", "true")):
            self.assertEqual(self.do("tandem-run", *argv).returncode, 2, argv)
        r = self.do("tandem-run", "true", env={"RANK": "1"})
        self.assertEqual(r.returncode, 2)
        self.assertIn("first node", r.stderr)
        for argv, e in ((("worker",), self.env), (("worker", "--port", "70000"), self.env), (("worker", "--port", "7000"), {**self.env, "TANDEM_SESSION_KEY": ""})):
            self.assertEqual(subprocess.run([EXE, *argv], env=e, capture_output=True, timeout=DEADLINE).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
