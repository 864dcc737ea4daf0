"""System tests: real binaries, real kubectl, real Slurm. See t/README.md."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import tempfile
import threading

import pytest

import harness
from brief import brief
from harness import ROOT, SLOW, Pool, leftovers, machine_state

# Test files that need tools/kube-assets or a network: programs built from Go, Prometheus's tool,
# client libraries.
NEED_KUBE = {"test_alerts", "test_clients", "test_counted", "test_deploy", "test_dra", "test_gitops", "test_kagent", "test_kube", "test_netpol", "test_oidc", "test_parity", "test_policy", "test_uninstall", "test_workloads"}
# What takes longest starts first, so that no worker is left with it at the end: these groups and files, and then tests with a pool of their own.
LONG = ["test_setup", "test_deploy", "test_dra", "test_counted", "test_uninstall", "pool", "pool-2", "test_accounting", "test_failover", "test_health", "test_backup", "test_ldap", "test_tenants",
        "test_preempt", "test_pods_crash", "test_controllers"]


def pytest_addoption(parser):
    parser.addoption("--build", default=str(ROOT / "build"), help="build directory of the binaries under test")
    parser.addoption("--plane", default="embedded", choices=["embedded", "real"], help="where Tandem runs: its own control plane, or a real Kubernetes (t/realpool.py)")
    parser.addoption("--slurm-image", default="", help="run with this image of the store in the place of tandem/slurm:24.11, such as tandem/slurm:26.05 (docs/slurm-versions.md)")
    parser.addoption("--next-slurm-image", default="", help="the image of a newer release that test_slurm_update.py takes a pool to, such as tandem/slurm:25.11")
    parser.addoption("--seed", default="1", help="seed of the random tests")
    parser.addoption("--steps", default="60", help="steps of the random tests (CI: 40; by hand: 200 and several seeds)")
    parser.addoption("--keep", action="store_true", help="leave the real plane's pool up at the end (tools/kube-down with its TANDEM_KUBE_HOME takes it down)")
    parser.addoption("--faults", default="ci", help="faults of test_faults.py: ci, all, or one as \"ROLE POINT:ACTION\"")


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("system tests need root: containers, networks, cgroups", 1)
    if config.getoption("--slurm-image"):
        harness.IMAGES = harness.store_with(config.getoption("--slurm-image"))
        config.add_cleanup(lambda: shutil.rmtree(harness.IMAGES))
    # By nohup, and by a shell's background. Programs would inherit it, and no shell can trap a signal that it was started without.
    for ignored, instead in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if signal.getsignal(ignored) == signal.SIG_IGN:
            signal.signal(ignored, instead)


def needs_kube(item):
    """Whether a test needs tools/kube-assets or a network."""
    client = getattr(item, "callspec", None) and item.callspec.params.get("client")
    return item.path.stem in NEED_KUBE or client in ("oldest", "newest")


def group(item):
    """The group of a test, or None. Tests that share a pool, a plane or a server run one after the
    other, in the worker that has it: the widest fixture that a test uses names its group. None:
    everything that the test uses is its own."""
    wide = {name: defs[-1] for name, defs in item._fixtureinfo.name2fixturedefs.items() if defs[-1].scope in ("session", "module")}
    ours = {name for name, d in wide.items() if not d.func.__module__.startswith(("_pytest", "xdist"))} - {"build", "tandem"}
    if "shared_pool" in ours and not hasattr(item.module, "shared_pool"):
        # Two groups, and so two workers that each have one: a fifth of all tests have it. test_pool.py ends with what its roles did before.
        return "pool" if item.path.stem <= "test_pool" else "pool-2"
    return item.path.stem if ours else None


@pytest.hookimpl(tryfirst=True)  # before -m looks at marks, and xdist at groups
def pytest_collection_modifyitems(config, items):
    """Marks the tests that need a real Kubernetes, and those that share something. --plane real
    keeps the tests of the one shared pool; tests that start planes of their own choose their
    plane themselves."""
    plane = config.getoption("--plane")

    def wanted(i):
        if any(i.get_closest_marker(m) and not re.search(rf"\b{m}\b", config.option.markexpr) for m in ("vm", "hand")):
            return False
        client = getattr(i, "callspec", None) and i.callspec.params.get("client")
        if client in ("oldest", "newest") and not (i.get_closest_marker("clients") and re.search(r"\bclients\b", config.option.markexpr)):
            return False
        if plane == "real":
            ours = "shared_pool" in i.fixturenames or i.get_closest_marker("planes")
            return ours and not i.get_closest_marker("kube") and not i.get_closest_marker("embedded")
        return not i.get_closest_marker("real")

    for i in items:
        if needs_kube(i):
            i.add_marker(pytest.mark.kube)
        if plane == "real" and i.get_closest_marker("nightly_real"):
            i.add_marker(pytest.mark.nightly)
        if name := group(i):
            i.add_marker(pytest.mark.xdist_group(name))
    config.hook.pytest_deselected(items=[i for i in items if not wanted(i)])
    items[:] = [i for i in items if wanted(i)]
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        place = {name: k for k, name in enumerate(LONG)}
        items.sort(key=lambda i: place.get(group(i) or i.path.stem, len(LONG) + ("home" not in i.fixturenames)))


@pytest.fixture(scope="session")
def build(request):
    return pathlib.Path(request.config.getoption("--build")).resolve()


@pytest.fixture(scope="session")
def tandem(build):
    """The binary under test."""
    return str(build / "src/cmd/tandem")


def _new_home():
    return tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp")


@pytest.fixture
def home(tandem):
    """A home for one test; brought down and purged whatever happens."""
    path = _new_home()
    pool = Pool(tandem, path)
    yield pool
    reports = pool.crash_reports()
    pool.down(purge=True)
    shutil.rmtree(path, ignore_errors=True)
    assert reports == []


@pytest.fixture(scope="session")
def shared_pool(request, tandem, build):
    """One pool that is up for the whole session, on the plane that --plane names."""
    if request.config.getoption("--plane") == "real":
        from realpool import RealPool, lend  # needs the real binaries
        pool = RealPool(tandem, build, restart=True)
        yield from lend(request, pool)
        assert request.config.getoption("--keep") or pool.traces() == []
        return
    path = _new_home()
    pool = Pool(tandem, path)
    before = machine_state()
    try:
        pool.up()
    except BaseException as e:
        e.add_note(pool.describe())  # its logs go with it
        pool.down(purge=True)
        raise
    ident = pool.id
    yield pool
    reports = pool.crash_reports()
    pool.down(purge=True)
    shutil.rmtree(path, ignore_errors=True)
    assert reports == []
    assert leftovers(before, machine_state(), ident) == []


@pytest.fixture(scope="module")
def own_pool(request, tandem):
    """A pool of two nodes for the tests of one file, which may change it as they like. On the real
    plane it is the session's pool, and a test that changes it must restore it."""
    if request.config.getoption("--plane") == "real":
        yield request.getfixturevalue("shared_pool")
        return
    path = _new_home()
    pool = Pool(tandem, path)
    try:
        try:
            pool.up("--nodes", "2")
        except BaseException as e:
            e.add_note(pool.describe())
            raise
        yield pool
        assert pool.crash_reports() == []
    finally:
        pool.down(purge=True)
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def pool(shared_pool):
    """The shared pool, idle: what an earlier test left is removed first."""
    shared_pool.clean()
    yield shared_pool


class TooLong(BaseException):
    """A test took 15 minutes, or half an hour if it is slow: something that it waits for has no deadline."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Ends a test that hangs; otherwise CI would end without a word about it. Not by SIGALRM: a
    worker of pytest-xdist may run its tests in a thread that is not the first one."""
    thread = ctypes.c_ulong(threading.get_ident())
    late = threading.Timer((1800 if item.get_closest_marker("slow") else 900) * SLOW, ctypes.pythonapi.PyThreadState_SetAsyncExc, (thread, ctypes.py_object(TooLong)))
    late.daemon = True
    late.start()
    yield
    late.cancel()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Says what the pool of a test that failed looks like: in a few lines, which tools/run-tests shows once more at the end, and as
    a whole, in a file of its own when $TEST_DUMPS names a directory. Further failures are the same one most often."""
    out = yield
    rep = out.get_result()
    if rep.failed and os.environ.get("TEST_LIST"):
        with open(os.environ["TEST_LIST"], "a") as f:
            f.write(f"{item.nodeid.removesuffix('@' + (group(item) or ''))} {call.when}\n")  # with xdist its group is behind it
    if not rep.failed or call.when == "teardown":
        return
    for name in ("shared_pool", "own_pool", "home"):
        if name not in item.funcargs:
            continue
        pool = item.funcargs[name]
        if len(described) < 6:
            rep.sections.append((f"in short: {item.nodeid}", "".join(f"> {line}\n" for line in brief(pool))))
        described.append(item.nodeid)
        title, text = f"{name} when it failed", pool.describe()
        if os.environ.get("TEST_DUMPS"):
            with open(f"{os.environ['TEST_DUMPS']}/{re.sub(r'[^A-Za-z0-9_.-]', '_', item.nodeid)[-150:]}", "w") as f:
                f.write(f"{item.nodeid}: {title}\n{text}\n")
        else:
            rep.sections.append((title, text))


described = []
