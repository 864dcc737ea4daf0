"""System tests: real binaries, real kubectl, real Slurm. See t/README.md."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from harness import Pool, leftovers, machine_state

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="build directory of the binaries under test")
    parser.addoption("--seed", default="1", help="seed of the random tests")
    parser.addoption("--steps", default="60", help="steps of the random tests (CI: 60; by hand: 200 and several seeds)")
    parser.addoption("--faults", default="ci", help="faults of test_faults.py: ci, all, or one as \"ROLE POINT:ACTION\"")


def pytest_configure(config):
    config.addinivalue_line("markers", "asan: also run on the ASan build")
    config.addinivalue_line("markers", "feature(id): the promise of the mission that the test shows")
    if os.geteuid() != 0:
        pytest.exit("system tests need root: containers, networks, cgroups", 1)


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build"))


@pytest.fixture(scope="session")
def tandem(build):
    """The binary under test."""
    return str(build / "src/cmd/tandem")


def _new_home():
    return tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp")


@pytest.fixture
def home(tandem):
    """A home of one test's own; brought down and purged whatever happens."""
    path = _new_home()
    pool = Pool(tandem, path)
    yield pool
    reports = pool.crash_reports()
    pool.down(purge=True)
    shutil.rmtree(path, ignore_errors=True)
    assert reports == []


@pytest.fixture(scope="session")
def shared_pool(tandem):
    """One pool that is up for the whole session."""
    path = _new_home()
    pool = Pool(tandem, path)
    before = machine_state()
    pool.up()
    ident = pool.id
    yield pool
    reports = pool.crash_reports()
    pool.down(purge=True)
    shutil.rmtree(path, ignore_errors=True)
    assert reports == []
    assert leftovers(before, machine_state(), ident) == []


@pytest.fixture
def pool(shared_pool):
    """The shared pool, idle: what the test leaves is removed before the next."""
    shared_pool.clean()
    yield shared_pool


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    out = yield
    rep = out.get_result()
    if rep.failed and call.when != "teardown":
        for name in ("shared_pool", "home"):
            if name in item.funcargs:
                rep.sections.append((f"{name} when it failed", item.funcargs[name].describe()))
