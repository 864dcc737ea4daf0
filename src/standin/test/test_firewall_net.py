# rows: C9.1
"""The firewall between users in two network namespaces with a cable between them: A, where somebody listens, and B. It needs root and `ip`."""
import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading

EXE = os.path.abspath(sys.argv[1])
HER, OTHER, DEADLINE = 3001, 3002, 60
NEWNET = 0x40000000
A4, A6, LO = "10.213.9.1", "fd00:213::1", "127.0.0.1"
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
libc = ctypes.CDLL(None, use_errno=True)


def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def in_b():
    fd = os.open(f"/proc/{b.pid}/ns/net", os.O_RDONLY)
    assert libc.setns(fd, NEWNET) == 0, ctypes.get_errno()
    os.close(fd)


def reach(uid, host, port, kind=TCP):
    with socket.socket(family(host), kind) as s:
        s.settimeout(DEADLINE)
        s.connect((host, port))
        if kind == UDP:
            s.send(b"hello")
        assert s.recv(5) == b"hello"
        return "in"


def beside(uid, port):
    """Opens the port to itself at another address of the node, and goes on from there to who has it."""
    with socket.socket(socket.AF_INET, UDP) as s:
        s.settimeout(DEADLINE)
        s.bind(("127.0.0.9", port))
        s.sendto(b"open", ("127.0.0.9", port))
        assert s.recv(4) == b"open"
        s.connect((LO, port))
        s.send(b"hello")
        assert s.recv(5) == b"hello"
        return "in"


def long(uid, host, port):
    """A datagram of several fragments."""
    with socket.socket(family(host), UDP) as s:
        s.settimeout(DEADLINE)
        s.connect((host, port))
        s.send(b"hello" + bytes(4000))
        assert s.recv(5) == b"hello"
        return "in"


def start(where, uid, f, *args):
    """Runs f in another process as that user; the pipe says what came of it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid:
        os.close(w)
        return pid, r
    try:
        where()
        os.setgid(uid)
        os.setuid(uid)
        said = str(f(uid, *args))
    except OSError as e:
        said = type(e).__name__
    os.write(w, said.encode())
    os._exit(0)


def end(p):
    os.waitpid(p[0], 0)
    said = os.read(p[1], 100).decode()
    os.close(p[1])
    return said


def ask(where, uid, *args):
    return end(start(where, uid, reach, *args))


def serves(uid, kind, host="::"):
    """A socket of that user's, which says hello, or answers what it hears."""
    os.seteuid(uid)
    s = socket.socket(family(host), kind)
    os.seteuid(0)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind((host, 0))

    def loop():
        while True:
            if kind == UDP:
                text, who = s.recvfrom(10)
                s.sendto(text, who)
            else:
                c, _ = s.accept()
                c.send(b"hello")
                c.close()
    if kind == TCP:
        s.listen(50)
    threading.Thread(target=loop, daemon=True).start()
    return s.getsockname()[1]


def ip(*argv, ns=()):
    subprocess.run([*ns, "ip", *argv], check=True)


def firewall(*ns):
    """It has the queue when the kernel lists it."""
    p = subprocess.Popen([*ns, EXE, "firewall"], stderr=subprocess.DEVNULL)
    while not subprocess.run([*ns, "cat", "/proc/net/netfilter/nfnetlink_queue"], capture_output=True, check=True).stdout:
        assert p.poll() is None
        select.select([], [], [], 0.01)
    return p


def stop(p, how=signal.SIGTERM):
    p.send_signal(how)
    return p.wait()


def here():
    pass


if os.geteuid() or not shutil.which("ip"):
    print("needs root and ip")
    sys.exit(77)
assert libc.unshare(NEWNET) == 0
# This process's own /proc and /sys show its network from here on.
b = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
b.stdout.readline()
NSB = ["nsenter", "-t", str(b.pid), "-n"]
running = [b]
try:
    ip("link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(b.pid))
    for ns, n in ((), 1), (NSB, 2):
        for link in "lo", "cable":
            ip("link", "set", link, "up", ns=ns)
        ip("addr", "add", f"10.213.9.{n}/24", "dev", "cable", ns=ns)
        ip("addr", "add", f"fd00:213::{n}/64", "dev", "cable", "nodad", ns=ns)
    tcp, udp, roots = serves(HER, TCP), serves(HER, UDP), serves(0, TCP)
    for ns in (), NSB:
        for _ in range(2):  # rules that are there are left as they are
            subprocess.run([*ns, EXE, "firewall", "--rules"], check=True)

    # Nobody is let in while nobody judges; who has waited is let in then.
    early = start(here, HER, reach, LO, tcp)
    assert not select.select([early[1]], [], [], 0.5)[0]
    running += [fa := firewall(), fb := firewall(*NSB)]
    assert end(early) == "in"

    for where, hosts in (here, (LO, "::1", A4, A6)), (in_b, (A4, A6)):
        for host in hosts:
            for port, kind in (tcp, TCP), (udp, UDP):
                got = {uid: ask(where, uid, host, port, kind) for uid in (HER, OTHER, 0)}
                assert got == {HER: "in", OTHER: "ConnectionRefusedError", 0: "in"}, (where, host, kind, got)
    assert ask(in_b, OTHER, A4, roots) == "in"
    assert ask(in_b, HER, A4, 9) == "ConnectionRefusedError"

    hers = serves(HER, UDP, "::ffff:127.0.0.1")
    got = [end(start(here, uid, beside, hers)) for uid in (OTHER, HER)]
    assert got == ["ConnectionRefusedError", "in"], got
    for host in A4, A6:
        assert end(start(in_b, HER, long, host, udp)) == "in", host

    # A port that two people have is nobody's. What a user says to the firewalls does not leave.
    os.seteuid(HER)
    hers = socket.socket(socket.AF_INET, UDP)
    os.seteuid(0)
    os.seteuid(OTHER)
    others = socket.socket(socket.AF_INET, UDP)
    os.seteuid(0)
    for s in hers, others:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", 0 if s is hers else hers.getsockname()[1]))
    assert ask(here, OTHER, LO, hers.getsockname()[1], UDP) == "ConnectionRefusedError"
    assert ask(in_b, OTHER, A4, 6821, UDP) == "PermissionError"

    # Where B's firewall is away nobody there is let in; its end ends nothing that is there.
    assert stop(fb, signal.SIGKILL) == -signal.SIGKILL
    early = start(in_b, HER, reach, A4, tcp)
    assert not select.select([early[1]], [], [], 0.5)[0]
    running.append(fb := firewall(*NSB))
    assert end(early) == "in"
    # A place without rules is the network's own matter.
    assert stop(fb) == 0
    subprocess.run([*NSB, "python3", "-c", """
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
m = lambda kind, seq, family, res, more=b"": struct.pack("=IHHIIBBH", 20 + len(more), kind, 5, seq, 0, family, 0, res) + more
s.send(m(16, 1, 0, socket.htons(10)) + m(0xa02, 2, 1, 0, struct.pack("=HH16s", 20, 1, b"tandem-firewall")) + m(17, 3, 0, socket.htons(10)))
assert struct.unpack_from("=i", s.recv(4096), 16) == (0,)
"""], check=True)
    for host in A4, A6:
        for port, kind in (tcp, TCP), (udp, UDP):
            assert ask(in_b, OTHER, host, port, kind) == "in", (host, kind)
    assert ask(here, OTHER, A4, tcp) == "ConnectionRefusedError"
    assert stop(fa) == 0
finally:
    for p in running:
        if p.poll() is None:
            p.kill()
        p.wait()
