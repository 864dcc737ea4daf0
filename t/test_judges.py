"""Programs that others wrote for Slurm's users, unchanged, as a normal user on a login pod (docs/researcher.md)."""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

import judges
from harness import wait_for

# They speak with Slurm, which is the same on both planes.
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,  # what they are is 250 MB to fetch, once on a machine
    pytest.mark.embedded,  # their environment is laid into the pool's home on this machine
    pytest.mark.feature("A15.7"),
]


@pytest.fixture(scope="module")
def env(shared_pool):
    yield from judges.lend(shared_pool)


@pytest.fixture
def work(pool, env):
    """A directory in the home of the pool's user: its path here."""
    path = pathlib.Path(pool.shared_dir) / "researcher/judged"
    path.mkdir()
    shutil.chown(path, 1000, 1000)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def user(pool, script, **kw):
    """What a shell of the pool's user says in that directory."""
    r = pool.as_user("researcher", "env", "USER=researcher", f"PATH={judges.HOME}/bin:/usr/bin:/bin", "sh", "-c", f"cd judged && {script}", check=False, timeout=600, **kw)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout + r.stderr


def sacct(pool, *argv):
    """The user's jobs as accounting has them: {id: (name, state, TRES, comment)}."""
    out = pool.as_user("researcher", "sacct", "-X", "-n", "-P", "-o", "JobIDRaw,JobName,State,AllocTRES,Comment", *argv).stdout
    return {int(f[0]): tuple(f[1:]) for f in (line.split("|") for line in out.splitlines())}


@pytest.mark.hand  # minutes
def test_snakemake_runs_a_workflow(pool, work):
    """By its executor for Slurm: GPUs by gres, a job that fails is tried again, and a job after another one. What a job's state is it asks sacct."""
    shutil.copy(judges.LISTS / "Snakefile", work)
    said = user(pool, "snakemake --executor slurm -j 4 --retries 1 --slurm-status-command sacct --slurm-init-seconds-before-status-checks 4")
    assert "4 of 4 steps (100%) done" in said, said
    (job, devices), after = (work / "gpus.txt").read_text().split(), (work / "sum.txt").read_text().split()
    first, second = map(int, (work / "flaky.txt").read_text().split())
    assert len(devices.split(",")) == 2 and after[:2] == [job, devices]
    assert re.search(rf"SLURM-job '{first}' failed, SLURM status is: 'FAILED'", said), said
    run = re.search(r"SLURM run ID: (\S+)", said)[1]
    seen = sacct(pool, "--name", run)
    assert {j: (s[1], s[3]) for j, s in seen.items()} == {int(job): ("COMPLETED", "rule_gpus"), first: ("FAILED", "rule_flaky"), second: ("COMPLETED", "rule_flaky"), int(after[2]): ("COMPLETED", "rule_sum")}
    assert "gres/gpu=2" in seen[int(job)][2] and not any("gres" in seen[j][2] for j in (first, second))


@pytest.mark.hand  # minutes
def test_parsl_passes_its_own_tests(pool, work):
    """Those of its tests that start apps, with its own configuration for Slurm, SlurmProvider and SrunLauncher. At the end no block is left."""
    tests = f"{judges.HOME}/lib/python{judges.PYTHON}/site-packages/parsl/tests"
    some = "test_python_apps/test_pipeline.py test_python_apps/test_mapred.py test_bash_apps/test_stdout.py test_staging/test_file_staging.py test_regression/test_226.py"
    said = user(pool, f"pytest -q -p no:cacheprovider --config {tests}/configs/slurm_local.py {' '.join(f'{tests}/{t}' for t in some.split())}")
    passed = re.search(r"^(\d+) passed", said, re.M)
    assert passed and int(passed[1]) >= 10 and "failed" not in said.splitlines()[-1], said
    wait_for("no block is left", lambda: not pool.as_user("researcher", "squeue", "-h", "--me").stdout)
    blocks = lambda: [s[1].split()[0] for s in sacct(pool, "-S", "now-1hour").values() if s[0].startswith("parsl.docker_slurm")]
    wait_for("the history has how they ended", lambda: set(blocks()) and set(blocks()) <= {"CANCELLED", "COMPLETED"})


def test_submitit_gets_results_arrays_and_counts_on(pool, work):
    """Its own executor for Slurm: results and errors come back, an array is one job, and what it queues again goes on from its checkpoint."""
    shutil.copy(judges.LISTS / "with_submitit.py", work)
    said = json.loads(user(pool, "python3 with_submitit.py").splitlines()[-1])
    assert (said["cluster"], said["one"][:2], said["counted"]) == ("slurm", [49, None], 2) and "ValueError: as it should" in said["bad"]
    assert [m[:2] for m in said["many"]] == [[i * i, str(i)] for i in range(3)] and len({j.split("_")[0] for j in said["jobs"]}) == 1
    assert all(re.fullmatch(r"\d", m[2]) for m in (said["one"], *said["many"]))
    assert (work / "counted").read_text() == f"1 {said['again']}\n2 {said['again']}\n"


def test_dask_scales_up_and_down(pool, work):
    """Its SLURMCluster: a job with a GPU for each worker, which are gone when they are wanted no more."""
    shutil.copy(judges.LISTS / "with_dask.py", work)
    said = json.loads(user(pool, "python3 with_dask.py 2>with_dask.log || { cat with_dask.log; exit 1; }").splitlines()[-1])
    assert said["sum"] == sum(x * x for x in range(20)) and len({j for j, _ in said["workers"]}) == 2 and all(re.fullmatch(r"\d", d) for _, d in said["workers"])
    wait_for("no worker is left", lambda: not pool.as_user("researcher", "squeue", "-h", "--me").stdout)


def test_mpi4py_adds_up_over_two_nodes(pool, work):
    """MPICH of Python's index by srun, which is its process manager."""
    shutil.copy(judges.LISTS / "with_mpi.py", work)
    said = user(pool, "srun --mpi=pmi2 -N2 -n4 --ntasks-per-node=2 --mem-per-cpu=100M python3 with_mpi.py")
    ranks = sorted(tuple(line.split()) for line in said.splitlines())
    assert [r[:2] + r[3:] for r in ranks] == [(str(i), "4", "10") for i in range(4)], said
    assert len({r[2] for r in ranks}) == 2


TOKEN = "0123456789abcdef0123456789abcdef"


@contextlib.contextmanager
def root_runs(pool, name, *argv):
    """A program of root's on the login pod; ended at the end. What it says is in the pool's logs, which a test that fails shows."""
    pid = f"/run/judges-{name}.pid"
    run = f'cd "$(mktemp -d)" && echo $$ >{pid} && exec env JUDGE_TOKEN={TOKEN} CONFIGPROXY_AUTH_TOKEN={TOKEN} "PATH={judges.HOME}/bin:$PATH" "$@"'
    with open(f"{pool.home}/log/judges-{name}.log", "w") as said:
        p = subprocess.Popen([pool.tandem, "shell", "--user", "root", "--", "sh", "-c", run, "sh", *argv], env=pool.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield p
    finally:
        pool.shell("sh", "-c", f'kill "$(cat {pid})"; rm -f {pid}', check=False)
        p.wait(timeout=300)


@pytest.fixture
def hub(pool, env):
    """JupyterHub on the login pod: hub(method, path, token) gives its proxy's status and text."""
    shutil.copy(judges.LISTS / "jupyterhub_config.py", f"{pool.shared_dir}/judges/")
    where = pool.get("pod", "main-login-0", "-n", "slurm")["status"]["podIP"]

    def ask(method, path, token=TOKEN):
        r = urllib.request.Request(f"http://{where}:8000{path}", method=method, headers={"Authorization": f"token {token}"} if token else {})
        try:
            with urllib.request.urlopen(r, timeout=300) as a:
                return a.status, a.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)
    # A hub that starts its proxy itself gives it 10 s, which a busy machine may need longer.
    with root_runs(pool, "proxy", "configurable-http-proxy", "--ip", "0.0.0.0", "--port", "8000", "--api-ip", "127.0.0.1", "--api-port", "8001") as proxy:
        wait_for("the proxy answers", lambda: ask("GET", "/")[0] or proxy.poll() is not None, 300)
        with root_runs(pool, "hub", "jupyterhub", "-f", f"{judges.HOME}/jupyterhub_config.py") as hub:
            wait_for("the hub answers", lambda: ask("GET", "/hub/api/users")[0] == 200 or hub.poll() is not None, 300)
            assert hub.poll() is None, "the hub has ended: see its log"
            yield ask


def test_jupyterhub_starts_a_users_server_as_his_job(pool, hub):
    """With batchspawner's SlurmSpawner: the job is the user's own, its server is reached through the hub's proxy by who may, and a stop ends the job."""
    assert hub("POST", "/hub/api/users/researcher")[0] == 201
    assert hub("POST", "/hub/api/users/researcher/server")[0] in (201, 202)
    wait_for("the server is there", lambda: (a := hub("GET", "/hub/api/users/researcher"))[0] == 200 and json.loads(a[1])["servers"].get("", {}).get("ready"), 600)
    code, said = hub("GET", "/user/researcher/api/status")
    assert code == 200 and json.loads(said)["kernels"] == 0
    assert hub("GET", "/user/researcher/api/status", token=None)[0] == 403
    (job, found), = pool.squeue().items()
    assert (found["user"], found["name"], found["state"]) == ("researcher", "spawner-jupyterhub", "RUNNING")
    assert sum(map(len, pool.job_devices(job).values())) == 1
    assert hub("DELETE", "/hub/api/users/researcher/server")[0] in (202, 204)
    wait_for("its job is over", lambda: sacct(pool, "-j", str(job)).get(job, ("", ""))[1].startswith("CANCELLED"))
    wait_for("and its address is gone", lambda: hub("GET", "/user/researcher/api/status")[0] not in (0, 200))
