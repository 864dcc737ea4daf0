"""Environments of Conda's channels: what is solved and installed, and what is said when that fails (rows E1.9 E2.1). The channels are made by hand (condas.py), with a real Python in one."""
import json
import os
import shutil
import subprocess
import threading

import pytest

from condas import HOLDER, Channel, Site, program, tool
from harness import ROOT, wait_for
from laptop import Laptop
from wheels import wheel

ENDED = ("done", "failed", "cancelled", "timeout", "out-of-memory", "node-failed", "preempted")


def fill(directory):
    """lab has all; other has an older bare, and one that wants another Python."""
    lab, other = Channel(f"{directory}/lab"), Channel(f"{directory}/other")
    lab.python()
    lab.pip()
    lab.add("bare", "1.0", {"site-packages/bare/__init__.py": b"def main(): print('bare speaks')\n"}, needs=["python >=3.8"], python=True, command="bare = bare:main", old=True)
    lab.add("upper", "2.0", {"site-packages/upper/__init__.py": b"import bare\ndef main(): bare.main()\n"}, needs=["python", "bare >=1"], python=True, command="upper = upper:main")
    lab.add("newer", "1.0", {"share/newer": b"x"}, needs=["python >=3.10"])
    lab.add("native", "1.0", {"bin/native": (f"#!/bin/sh\necho native in {HOLDER}\n".encode(), 0o755), "etc/conda/activate.d/native.sh": b"[[ a == a ]] && export NATIVE=yes\n"}, subdir="linux-64")
    for build, needs in (("cuda12", ["__cuda >=12"]), ("cpu", [])):
        lab.add("gpu", "1.0", {"share/gpu": build.encode()}, build=build, needs=needs, subdir="linux-64")
    lab.add("python", "3.8.1", {"bin/python3.8": b"no real one"}, subdir="linux-64", build="1_cpython")
    lab.add("older", "1.0", {"share/older": b"x"}, needs=["python <3.9"])
    other.add("bare", "0.5", {"site-packages/bare/__init__.py": b"def main(): print('bare of another channel')\n"}, needs=["python"], python=True, command="bare = bare:main")
    lab.write()
    other.write()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    s = Site(tmp_path_factory.mktemp("conda"))
    fill(s.channels)
    yield s
    s.close()


@pytest.mark.feature("E2.1")
def test_what_is_asked_for_is_solved_installed_and_closed(site):
    code, said = site.make("one", "channel: lab", "upper=2", "native=1.0=0", "python=3.11")
    assert code == 0 and said[-1] == "The environment one is made.", said
    r = site.run("one", "upper; native; echo $NATIVE; python -c 'import sys; print(sys.prefix, sys.version_info[:2])'")
    tree = os.path.realpath(f"{site.envs}/one")
    assert r.stdout.splitlines() == ["bare speaks", f"native in {tree}", "yes", f"{tree} (3, 11)"], r.stderr
    assert site.run("one", "upper; echo $NATIVE", shell="dash").stdout == "bare speaks\n\n", "what is written for bash is left to bash"
    # Nobody writes there any more; modules have their bytecode.
    files = [os.path.join(d, n) for d, dirs, names in os.walk(tree) for n in (*dirs, *names)]
    assert [f for f in [tree, *files] if not os.path.islink(f) and os.stat(f).st_mode & 0o222] == [f"{tree}/.used"]
    assert any(f.endswith(".pyc") and "/upper/" in f for f in files)
    is_ = json.load(open(f"{tree}/tandem.json"))
    assert is_["packages"] == 4 and is_["python"] == "3.11.2" and is_["kind"] == "conda" and is_["bytes"] > 1e7
    assert site.make("one", "channel: lab")[1] == ["The environment one is there already."]

    # Its lock is another way to ask for the same, which solves nothing and fetches nothing.
    site.asked.clear()
    lock = [s for s in open(f"{tree}/conda.lock").read().splitlines() if "://" in s]
    assert len(lock) == 4 and f"{site.url}/lab/noarch/upper-2.0-0.conda#sha256:" in "".join(lock)
    code, said = site.make("two", *lock)
    assert code == 0 and site.asked == [], (said, site.asked)
    assert site.run("two", "upper").stdout == "bare speaks\n" and json.load(open(f"{site.envs}/two/tandem.json"))["lock"] == is_["lock"]
    shared = "lib/python3.11/os.py"
    assert os.stat(f"{tree}/{shared}").st_ino == os.stat(f"{site.envs}/two/{shared}").st_ino, "files of one package are there once"
    code, said = site.make("three", lock[0][:-4] + "0000")
    assert code == 1 and "hash" in said[-1] and not os.path.lexists(f"{site.envs}/three") and site.left("three") == []
    code, said = site.make("three", lock[-1].replace("noarch", "linux-aarch64").replace("linux-64", "linux-aarch64"))
    assert code == 1 and said[-1].startswith("The lock is for linux-aarch64, and these nodes are linux-64")


@pytest.mark.feature("E2.1")
def test_channels_count_in_their_order_and_by_name(site):
    assert site.make("first", "channel: other", "channel: lab", "bare")[0] == 0
    assert site.run("first", "bare").stdout == "bare of another channel\n"
    # Another making may unpack one now, and its files are as old as their maker says. What is shared stays in any case.
    cache, conda = f"{site.envs}/.cache/packages", program()
    for name in ("comes", "shared"):
        os.makedirs(f"{cache}/{name}/info")
        with open(f"{cache}/{name}/info/index.json", "w"):
            os.utime(f"{cache}/{name}/info/index.json", (1, 1))
    os.link(f"{cache}/shared/info/index.json", f"{site.home}/user")
    code, said = site.make("named", "channel: other", f"channel: {site.url}/lab", "lab::bare")
    assert code == 0, said
    assert site.run("named", "bare").stdout == "bare speaks\n"
    assert {"comes", "shared"} <= set(os.listdir(cache))
    conda.CACHE_DAYS = -1
    conda.tidy(cache)
    assert "comes" not in os.listdir(cache) and "shared" in os.listdir(cache)
    assert conda.hidden("fetching (https://me:pw@h/t/token/lab/x) and http://h/t/other: failed") == "fetching (https://h/t/…/lab/x) and http://h/t/… failed"


@pytest.mark.feature("E2.1")
@pytest.mark.parametrize("cuda,build", [("12.4", "cuda12"), ("11.8", "cpu"), ("", "cpu")])
def test_the_cuda_of_the_nodes_decides_what_is_taken(site, cuda, build):
    assert site.make(f"gpu{cuda}", "channel: lab", "gpu", cuda=cuda)[0] == 0
    assert open(f"{site.envs}/gpu{cuda}/share/gpu").read() == build


@pytest.mark.feature("E2.1", "E4.2")
@pytest.mark.parametrize("want,how,words", [
    (["channel: lab", "nosuch==1"], {}, ["No candidates were found for nosuch ==1.", "The channels are lab at URL/lab/, for linux-64 and noarch, without CUDA."]),
    (["channel: lab", "older", "newer"], {}, ["newer * can be", "older * cannot be installed", "python <3.9", "The channels are lab at"]),
    (["channel: lab", "gpu=1=cuda*"], {"cuda": "11.8"}, ["gpu ==1 cuda*", "__cuda >=12, for which no candidates were found", "with CUDA 11.8."]),
    (["channel: nosuch", "bare"], {}, ["Channel nosuch cannot be read at URL/nosuch/: HTTP status client error (404", "spec.environments.condaMirror", "credentials.json"]),
    (["channel: lab", "bare"], {"mirror": "http://127.0.0.1:1/t/secret"}, ["Channel lab cannot be read at http://127.0.0.1:1/t/…/lab/: Connection refused", "spec.environments.condaMirror"]),
    (["channel: lab", "bare[x"], {}, ["\"bare[x\" is no spec of a package", "Write NAME"]),
    (["channel: lab", "python=3.11", "pip: nosuch==4.2"], {}, ["pip install failed:", "ERROR: No matching distribution found for nosuch==4.2"])])
def test_why_it_fails_is_said_in_three_lines(site, want, how, words):
    code, said = site.make("bad", *want, **how)
    last = "\n".join(said[-3:])
    assert code == 1 and all(w.replace("URL", site.url) in last for w in words) and "secret" not in last, last
    assert not os.path.lexists(f"{site.envs}/bad") and site.left("bad") == []


@pytest.mark.feature("E2.1")
def test_a_making_that_is_ended_leaves_nothing_half_done(site):
    lab = Channel(f"{site.channels}/slow")
    lab.add("native", "2.0", {"share/native": b"x"}, subdir="linux-64")
    lab.write()
    path = "/slow/linux-64/native-2.0-0.conda"
    site.hold[path] = threading.Event()
    p = site.start("slow", "channel: slow", "native")
    wait_for("it is in the midst of it", lambda: path in site.asked and site.left("slow"), 300)
    p.terminate()
    try:
        assert p.wait(300) == 143
    finally:
        site.hold.pop(path).set()
        p.stdout.close()
    assert site.left("slow") == [] and not os.path.lexists(f"{site.envs}/slow")
    os.makedirs(f"{site.envs}/.made/slow.3/bin")  # as if one had been killed without a chance to tidy up
    os.chmod(f"{site.envs}/.made/slow.3", 0o555)
    assert site.make("slow", "channel: slow", "native")[0] == 0 and site.left("slow") == ["slow.7"]


@pytest.mark.feature("E2.1")
@pytest.mark.parametrize("machine,says", [("x86_64", "env one"), ("aarch64", "env two"), ("riscv64", "this node is riscv64, and the environment was made for: x86_64=one aarch64=two")])
def test_a_run_takes_what_was_built_for_its_node(tmp_path, machine, says):
    """Where nodes are of several architectures; the program of a run by itself, on a machine that says that it is another."""
    for key in ("one", "two"):
        (tmp_path / f"tandem/envs/{key}/conda-meta").mkdir(parents=True)
        (tmp_path / f"tandem/envs/{key}/activate").write_text(f"export CONDA_PREFIX={key}\n")
    for d in ("bin", "run/.tandem"):
        (tmp_path / d).mkdir(parents=True)
    (tmp_path / "bin/uname").write_text(f"#!/bin/sh\necho {machine}\n")
    (tmp_path / "bin/uname").chmod(0o755)
    (tmp_path / "run/.tandem/main.sh").write_text("echo env $CONDA_PREFIX\n")
    r = subprocess.run(["sh", os.path.join(ROOT, "src/gateway/programs/run.sh")], cwd=tmp_path / "run", capture_output=True, text=True, timeout=60,
                       env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "TANDEM_STEP": "main", "TANDEM_ENVS": "x86_64=one aarch64=two"})
    assert says in r.stdout + r.stderr and r.returncode == ("this node" in says), r


@pytest.fixture
def me(pool, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


def over(me, run):
    wait_for(f"{run} is over", lambda: me.state(run) in ENDED, 300)
    return {s["name"]: s for s in me.api("GET", f"/runs/{run}")[1]["steps"]}


def home(pool):
    return os.path.join(pool.shared_dir, "researcher")


def theirs(d):
    for at, _, files in os.walk(d):
        os.chown(at, 1000, 1000)
        for f in files:
            os.chown(os.path.join(at, f), 1000, 1000)


@pytest.fixture
def served(pool, me):
    """Channels that a job of the person's serves, because pods have no way out; the site's mirror is that; pip finds wheels in the home, the solver's among them."""
    me.submit("--no-code", "--", "true")  # makes the home
    at = wait_for("the home", lambda: os.path.isdir(home(pool)) and home(pool))
    fill(f"{at}/channels")
    os.makedirs(f"{at}/conda-wheels", exist_ok=True)
    for f in os.listdir(tool()):
        shutil.copy(os.path.join(tool(), f), f"{at}/conda-wheels")
    wheel(f"{at}/conda-wheels", "spice", "1.0", "def main(): print('and spice')\n")
    os.makedirs(f"{at}/.config/pip", exist_ok=True)
    with open(f"{at}/.config/pip/pip.conf", "w") as f:
        f.write("[global]\nno-index = true\nfind-links = /home/researcher/conda-wheels\n")
    for d in ("channels", "conda-wheels", ".config"):
        theirs(f"{at}/{d}")
    server = me.submit("--no-code", "--memory", "100M", "--", "cd ~/channels; hostname -I; exec python3 -u -m http.server 18098 2>&1")
    wait_for("the server listens", lambda: "port 18098" in me.run("logs", server).stdout)
    url = f"http://{me.run('logs', server).stdout.split()[0]}:18098"
    patch(pool, {"condaMirror": url, "condaChannels": ["lab"]})
    yield server
    patch(pool, None)
    me.run("cancel", server)
    os.unlink(f"{at}/.config/pip/pip.conf")
    for d in ("channels", "conda-wheels"):
        shutil.rmtree(f"{at}/{d}")


def patch(pool, environments):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"environments": environments}}))


@pytest.mark.nightly
@pytest.mark.embedded  # the plane of `up` brings a gateway
@pytest.mark.feature("E1.9", "E2.1", "E1.3")
def test_tuxivs_environment_comes_from_condas_channels(pool, me, tmp_path, served):
    """TACC's form with nothing changed: a name, one channel as a text, packages with versions and builds, Python, pip's own."""
    p = tmp_path / "p"
    p.mkdir()
    (p / "tuxiv.config").write_text("""entrypoint:
    - upper
    - spice
    - bare
    - python -c 'import sys; print(sys.prefix, sys.version_info[:2])'
    - cat $CONDA_PREFIX/share/gpu
environment:
    name: lab
    channels: other
    dependencies:
        - python=3.11.2
        - lab::bare=1.0
        - upper=2.0=0
        - gpu
        - pip:
            - spice==1.0
job:
    name: tux
    general: [nodes=1, mem=100M]
""")
    node = [f"node/{n}" for n in pool.nodes]
    pool.kubectl("label", *node, "nvidia.com/cuda.runtime-version.major=12", "nvidia.com/cuda.runtime-version.minor=4")
    try:
        r = me.run("submit", "-f", cwd=p, check=False, timeout=300)
        run = r.stdout.split()[1].rstrip(":.")
        assert r.returncode == 0, (r.stdout, r.stderr, me.run("logs", "--step", "environment", run, check=False).stdout)
        (env,) = [e for e in me.json("env", "list")["made"] if "upper=2.0=0" in e["of"]]
        tree = os.readlink(f"{home(pool)}/tandem/envs/{env['key']}")
        assert r.stdout.splitlines()[-5:] == ["bare speaks", "and spice", "bare speaks", f"/home/researcher/tandem/envs/{tree} (3, 11)", "cuda12"], r.stdout
        assert env["kind"] == "conda" and env["python"] == "3.11.2" and env["of"][:2] == ["channel: other", "channel: lab"] and env["of"][-1] == "pip: spice==1.0"

        # The same of an environment.yml, with other words around it, is there already.
        (p / "tuxiv.config").unlink()
        (p / "environment.yml").write_text("name: mine\nchannels: [other]\ndependencies: [python=3.11.2, 'lab::bare=1.0', upper=2.0=0, gpu, {pip: [spice==1.0]}]\nvariables: {LOUD: 1}\n")
        r = me.run("submit", "-f", "--", "spice; echo $LOUD", cwd=p, timeout=300)
        assert r.stdout.endswith("and spice\n1\n") and "with the packages of environment.yml" in r.stderr
        assert len([e for e in me.json("env", "list")["made"] if "upper=2.0=0" in e["of"]]) == 1

        # Nobody writes there; its person deletes it.
        r = me.run("submit", "-f", "--", "pip install --no-deps --force-reinstall spice || touch $CONDA_PREFIX/x", cwd=p, check=False, timeout=300)
        assert r.returncode == 1 and "Permission denied" in r.stdout + r.stderr
        me.run("env", "delete", env["key"])
        assert not os.path.lexists(f"{home(pool)}/tandem/envs/{tree}")

        # tandem.yaml's own form, and what is not there.
        (p / "environment.yml").unlink()
        (p / "tandem.yaml").write_text("run: cat $CONDA_PREFIX/share/gpu\nenvironment: {conda: [gpu], cuda: '11.8'}\n")
        assert me.run("submit", "-f", cwd=p, timeout=300).stdout.endswith("cpu")
        (p / "tandem.yaml").write_text("run: nothing\nenvironment: {conda: [nosuch=4.2], channels: [other, nodefaults]}\n")
        r = me.run("submit", "-f", cwd=p, check=False, timeout=300)
        assert r.returncode == 1 and "environment: exit code 1" in r.stderr and "No candidates were found for nosuch 4.2.*." in r.stderr and "The channels are other at http" in r.stderr, r.stderr
    finally:
        pool.kubectl("label", *node, "nvidia.com/cuda.runtime-version.major-", "nvidia.com/cuda.runtime-version.minor-")
