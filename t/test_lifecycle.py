"""up and down: a second up, a repair after kill -9 of everything, nothing left behind."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from harness import KEEP, Pool, ended, leftovers, machine_state, wait_for

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
        door.settimeout(180)
        up = subprocess.Popen([home.tandem, "up"], env=home.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        door.accept()[0].close()
    os.kill(supervise, signal.SIGKILL)
    try:
        out = up.communicate(timeout=600)[0]
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


def test_pods_live_on_in_another_network(home):
    """Another home took its network while this one was down: its pods run again, and say the new address only."""
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    home.apply(home.pod("keep", scheduler="default-scheduler"))
    wait_for("keep runs", lambda: home.phase("keep") == "Running")
    before = home.get("pod", "keep")["status"]["podIP"]
    home.down()
    other = home.instance["subnet"]
    device = f"x{home.id}"
    subprocess.run(["ip", "link", "add", device, "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", f"10.{other}.0.1/16", "dev", device], check=True)
        home.up()
    finally:
        subprocess.run(["ip", "link", "del", device], check=True)

    def address():
        status = home.get("pod", "keep")["status"]
        return status["phase"] == "Running" and [a["ip"] for a in status["podIPs"]] == [status["podIP"]] and status["podIP"]
    assert home.instance["subnet"] != other
    wait_for("it has an address there", lambda: (address() or before) != before)
    home.kubectl("delete", "pod", "keep", timeout=60)


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
        code, said = home.on_terminal("down", "--purge", types=answer)
        assert code == 1 and "[y/N]" in said and "nothing was done" in said, said
    assert home.get("configmap", "precious") and home.cmd("status").returncode == 0
    code, said = home.on_terminal("down", "--purge", types=b"y\n")
    assert code == 0 and not os.path.exists(home.home), said


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


@pytest.mark.feature("F1.8", "F1.10")
def test_the_hints_of_up_work_when_pasted(home):
    """As they stand, all at once, in a shell that does not know tandem yet; their pod goes through the queue."""
    hints = home.up("--nodes", "2").partition("Try it")[2].partition("\n")[2].partition("\n\n")[0]
    env = {k: v for k, v in home.env.items() if k != "KUBECONFIG"}
    script = "".join(line.strip() + "\n" for line in hints.splitlines())
    assert "#" not in script and "srun -N2" in script
    r = subprocess.run(["bash", "-ec", script], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert r.returncode == 0, script + r.stdout
    assert "Pod default/hello" in r.stdout and "All is well." in r.stdout, r.stdout
    wait_for("it runs", lambda: home.phase("hello") == "Running")
    job, node, _ = home.grant(home.get("pod", "hello"))
    assert home.job(job)["NodeList"] == node


def test_status_fits_a_terminal(home):
    """80 columns; colours on a terminal only, and not where somebody wants none."""
    home.up("--nodes", "1", "--gpus", "0", "--no-slurm")
    plain = home.cmd("status").stdout
    assert "\033" not in plain and max(map(len, plain.splitlines())) <= 80
    code, said = home.on_terminal("status")
    assert code == 0 and "\033[32mAll is well.\033[0m" in said and "\033[32mReady" in said, said
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\033" not in home.on_terminal("status", env=env)[1]
    long = "ip-10-0-1-23.eu-central-1.compute.internal"
    home.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": long}}))
    out = home.cmd("status", check=False).stdout.partition("Wrong:")[0]
    assert "ip-10-0-1-23.eu-central-1." in out and max(map(len, out.splitlines())) <= 80, out


def test_a_full_disk_is_said_before_anything_is_built(tandem):
    """How much is needed, where, and what to do; nothing is begun."""
    with tempfile.TemporaryDirectory(prefix="tandem-t-", dir="/var/tmp") as disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True)
        try:
            def fails(*argv, home):
                env = {**KEEP, "TANDEM_HOME": home, "TANDEM_IMAGES": f"{disk}/images"}
                r = subprocess.run([tandem, *argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
                assert r.returncode == 1, r
                assert not [f for _, dirs, files in os.walk(disk) for f in dirs + files if f in ("rootfs", "state.db", "instance.json")]
                return r.stderr
            said = re.search(r"needs about (\d+) MB in (\S+), and (\d+) MB are free there: make room, or set TANDEM_IMAGES", fails("image", "build", "debian:13", home=f"{disk}/home"))
            assert said and int(said[1]) > int(said[3]) and said[2] == f"{disk}/images"
            assert "needs about" in fails("up", "--nodes", "1", home=f"{disk}.home")
            assert f"MB in {disk}/home, and" in fails("up", "--nodes", "1", home=f"{disk}/home")
        finally:
            subprocess.run(["umount", disk], check=True)
            shutil.rmtree(f"{disk}.home", ignore_errors=True)
