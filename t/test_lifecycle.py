"""up and down: a second up, a repair after kill -9 of everything, nothing left behind."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from harness import Pool, ended, leftovers, machine_state, wait_for

pytestmark = pytest.mark.feature("F1.1")


@pytest.mark.asan
def test_up_twice_kill_everything_up_again_down_leaves_nothing(home):
    before = machine_state()
    out = home.up("--nodes", "2")
    assert "Try it:" in out
    assert "already up" in home.up("--nodes", "2")
    home.apply(home.pod("keep", gpus=1))
    home.kubectl("create", "configmap", "keep", "--from-literal=a=b")
    wait_for("keep runs", lambda: home.phase("keep") == "Running")
    ident = home.id
    # kill -9 of every role and every container's init
    for role in ("supervise", "bridge", "operator", "controllers", "kubelet", "apiserver"):
        os.kill(home.role_pid(role), signal.SIGKILL)
    kill_cgroup(ident)
    out = home.up()
    assert home.get("configmap", "keep")["data"] == {"a": "b"}
    wait_for("Slurm is back", lambda: home.idle_nodes() >= 1, 120)
    wait_for("2 nodes idle or in use", lambda: len(set(home.shell("sinfo", "-h", "-N", "-t", "idle,mix,alloc", "-o", "%N").split())) == 2, 120)
    home.down()
    assert leftovers(before, machine_state(), ident) == []
    assert os.path.exists(f"{home.home}/state.db")
    home.down(purge=True)
    assert not os.path.exists(home.home)


def kill_cgroup(ident):
    """SIGKILL to every process of the pool's pods."""
    import glob
    for path in glob.glob(f"/sys/fs/cgroup/*/tandem-{ident}/**/cgroup.procs", recursive=True) + glob.glob(f"/sys/fs/cgroup/tandem-{ident}/**/cgroup.procs", recursive=True):
        try:
            pids = open(path).read().split()
        except OSError:
            continue
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass


@pytest.mark.feature("F1.2")
def test_without_slurm_it_is_a_small_kubernetes(home):
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    home.kubectl("create", "deployment", "web", "--image=debian:13", "--", "sleep", "infinity")
    wait_for("web runs", lambda: home.running("-l", "app=web"))
    assert home.cmd("status").returncode == 0


def test_up_that_met_a_supervise_about_to_end_starts_another(home):
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    supervise, roles = home.role_pid("supervise"), [home.role_pid(r) for r in ("controllers", "kubelet", "apiserver")]
    os.kill(supervise, signal.SIGSTOP)  # found running, and starts nothing any more
    for pid in roles:
        os.kill(pid, signal.SIGKILL)
    wait_for("they ended", lambda: all(ended(pid) for pid in roles))
    with socket.socket() as door:  # in the place of the API: who asks there has found the supervise
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", home.instance["apiPort"]))
        door.listen()
        door.settimeout(60)
        up = subprocess.Popen([home.tandem, "up"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        door.accept()[0].close()
    os.kill(supervise, signal.SIGKILL)
    try:
        out = up.communicate(timeout=120)[0]
    finally:
        up.kill()
    assert up.returncode == 0 and "Try it:" in out, out
    assert home.cmd("status").returncode == 0


def supervises(home):
    """Process ids of every supervise of this home; a child that it has just forked is not yet another program."""
    found = {}
    for d in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{d}/exe")) == "tandem-supervise" and f"TANDEM_HOME={home.home}\0" in open(f"/proc/{d}/environ").read():
                found[int(d)] = int(open(f"/proc/{d}/stat").read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [pid for pid, parent in found.items() if parent not in found]


def test_up_and_down_of_one_home_take_turns(home):
    before = machine_state()

    def start(*argv):
        return subprocess.Popen([home.tandem, *argv], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    up = ("up", "--nodes", "1", "--gpus", "0", "--no-slurm")
    for p in [start(*up), start(*up), start(*up)]:  # of a home that nobody has made yet
        out = p.communicate(timeout=240)[0]
        assert p.returncode == 0 and "Try it:" in out, out
    assert supervises(home) == [home.role_pid("supervise")] and home.cmd("status").returncode == 0
    ident = home.id
    for round, purge in enumerate((False, True, False, True, False, True)):
        ups, down = [start(*up)], start("down", *(["--purge", "--yes"] if purge else []))
        time.sleep(round * 0.05)  # into another of its steps
        ups.append(start(*up))
        out = down.communicate(timeout=240)[0]
        assert down.returncode == 0, out
        for p in ups:
            out = p.communicate(timeout=240)[0]
            assert p.returncode == 0 and "Try it:" in out or p.returncode == 1 and "stopped meanwhile" in out, out
        assert len(supervises(home)) <= 1
    home.down(purge=True)
    assert supervises(home) == [] and leftovers(before, machine_state(), ident) == []


@pytest.mark.feature("A12.2")
def test_up_after_a_killed_supervise_takes_over_what_runs(home):
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    roles = {r: home.role_pid(r) for r in ("apiserver", "kubelet", "controllers")}
    server = home.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    os.kill(home.role_pid("supervise"), signal.SIGKILL)
    wait_for("status says what is wrong", lambda: home.cmd("status", check=False).returncode == 1)
    home.up()
    assert {r: home.role_pid(r) for r in roles} == roles
    assert home.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}") == server
    assert home.cmd("status").returncode == 0
    os.kill(roles["controllers"], signal.SIGKILL)
    wait_for("the new supervise starts it again", lambda: home.role_pid("controllers") not in (0, roles["controllers"]))


def test_up_says_why_the_api_server_does_not_start(home):
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    pids = [home.role_pid(role) for role in ("supervise", "apiserver", "kubelet", "controllers")]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_for("they ended", lambda: all(ended(pid) for pid in pids))
    os.unlink(f"{home.home}/state.db-wal")
    r = home.cmd("up", check=False)
    assert r.returncode == 1
    assert "tandem up: apiserver does not start: state database" in r.stderr and "acknowledged writes are missing" in r.stderr, r.stderr
    assert "go on without those writes: mv " in r.stderr, r.stderr


@pytest.mark.asan
def test_a_purge_of_what_runs_is_meant(home):
    """No abbreviation does it; it asks on a terminal, and wants --yes where there is none."""
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    home.kubectl("create", "configmap", "precious")
    for word in ("--purg", "--p"):
        r = home.cmd("down", word, check=False)
        assert r.returncode == 2 and "--purge" in r.stderr, r
    r = home.cmd("down", "--purge", check=False)
    assert r.returncode == 2 and "add --yes" in r.stderr and home.home in r.stderr, r
    for answer in (b"n\n", b"\n", b"\x04"):
        code, said = on_terminal(home, answer, "down", "--purge")
        assert code == 1 and "[y/N]" in said and "nothing was done" in said, said
    assert home.get("configmap", "precious") and home.cmd("status").returncode == 0
    code, said = on_terminal(home, b"y\n", "down", "--purge")
    assert code == 0 and not os.path.exists(home.home), said


def on_terminal(home, types, *argv):
    """Runs a command on a terminal of 80 columns where somebody types this. Returns its exit code and what it showed."""
    import fcntl
    import pty
    import struct
    import termios
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(home.tandem, [home.tandem, *argv], {**home.env, "TERM": "xterm"})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.write(fd, types)
    said = b""
    try:
        while chunk := os.read(fd, 65536):
            said += chunk
    except OSError:  # the other end is closed
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()


def test_the_port_of_the_api_survives_down(home, tandem):
    """Another home that comes up meanwhile does not take it, so a kubeconfig that was handed out stays true."""
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    port = home.instance["apiPort"]
    home.down()
    other = Pool(tandem, tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp"))
    try:
        other.up("--nodes", "1", "--gpus", "0", "--no-slurm")
        assert other.instance["apiPort"] != port
        home.up()
        assert home.instance["apiPort"] == port
        home.down()
        with socket.socket() as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", port))
            door.listen()
            assert f"port {port} is in use" in home.up()
    finally:
        other.down(purge=True)
        shutil.rmtree(other.home, ignore_errors=True)
    kept = f"{home.run_dir}.port"
    home.down()
    assert os.path.exists(kept)
    home.down(purge=True)
    assert not os.path.exists(kept)
