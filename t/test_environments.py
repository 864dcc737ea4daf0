"""Python environments of runs: made once by a job of the person's own, and what is said when that fails (rows E1 E2 E4)."""
import json
import os

import pytest

from harness import wait_for
from laptop import Laptop
from wheels import wheel

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway

# What Slurm has not shown yet is "unknown", which is no end.
ENDED = ("done", "failed", "cancelled", "timeout", "out-of-memory", "node-failed", "preempted")


@pytest.fixture
def me(pool, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


@pytest.fixture
def wheels(pool):
    """A directory of wheels in the person's home, which stands for an index. Another version of it each time: no test finds another's environment."""
    d = os.path.join(home(pool), f"wheels-{os.urandom(4).hex()}")
    wheel(d, "bare", "1.0", "def main(): print('bare speaks')\n")
    wheel(d, "upper", "2.0", "import bare\ndef main(): bare.main()\n", ["bare>=1"])
    theirs(d)
    return d


def home(pool):
    return os.path.join(pool.shared_dir, "researcher")


def theirs(d):
    for at, _, files in os.walk(d):
        os.chown(at, 1000, 1000)
        for f in files:
            os.chown(os.path.join(at, f), 1000, 1000)


def project(path, wheels, packages, **more):
    path.mkdir(exist_ok=True)
    (path / "tandem.yaml").write_text(json.dumps({"name": "envy", "environment": {"packages": packages, "index": f"~/{os.path.basename(wheels)}"}, **more}))
    return path


def steps(me, run):
    return {s["name"]: s for s in me.api("GET", f"/runs/{run}")[1]["steps"]}


def over(me, run):
    wait_for(f"{run} is over", lambda: me.state(run) in ENDED, 300)
    return steps(me, run)


@pytest.mark.feature("E1.3", "E2.1", "E2.2")
def test_an_environment_is_made_once_and_reused(pool, me, tmp_path, wheels):
    p = project(tmp_path / "p", wheels, ["upper==2.0  # with what it needs"], run=["upper", "which upper"])
    first, second = me.submit(cwd=p), me.submit(cwd=p)
    a, b = over(me, first), over(me, second)
    assert a["main"]["state"] == b["main"]["state"] == "done", (a, b)
    assert a["environment"]["state"] == "done" and a["environment"]["makes"] == "environment"
    assert b.get("environment", a["environment"])["job"] == a["environment"]["job"], "two runs that need the same wait for one job"
    assert me.run("logs", first).stdout.startswith("bare speaks\n/home/researcher/tandem/envs/")

    # A comment changes nothing of it; it is there, so that nothing is made.
    project(p, wheels, ["upper==2.0"], run="upper")
    third = me.submit(cwd=p)
    assert list(over(me, third)) == ["main"] and me.run("logs", third).stdout == "bare speaks\n"
    env = [e for e in listed(me) if e["of"] == ["upper==2.0"]][-1]
    assert env["packages"] == 3 and env["bytes"] > 10000 and env["used"] >= env["made"] and env["python"].startswith("3.")
    assert env["key"] in me.run("env", "list").stdout
    tree = os.path.join(home(pool), "tandem/envs", env["key"])
    assert os.lstat(tree).st_uid == 1000 and os.path.isdir(tree)

    me.run("env", "delete", env["key"])
    assert env["key"] not in [e["key"] for e in listed(me)] and not os.path.lexists(tree)
    assert [t for t in os.listdir(os.path.join(home(pool), "tandem/envs/.made")) if t.startswith(env["key"])] == []
    r = me.run("env", "delete", env["key"], check=False)
    assert r.returncode == 1 and "there is no" in r.stderr
    r = me.run("env", "delete", "x" * 20, check=False)
    assert r.returncode == 1 and "is no key" in r.stderr


def listed(me):
    return sorted(me.json("env", "list")["made"], key=lambda e: e["made"])


@pytest.mark.feature("E1.3", "E2.1", "E4.2")
def test_a_failed_environment_says_pips_own_words(pool, me, tmp_path, wheels):
    (tmp_path / "p").mkdir()
    (tmp_path / "p/requirements.txt").write_text("-r more.txt\n")
    (tmp_path / "p/more.txt").write_text(f"--no-index\n--find-links /home/researcher/{os.path.basename(wheels)}\nno-such-package==4.2\n")
    r = me.run("submit", "-f", "--", "touch never", cwd=tmp_path / "p", check=False, timeout=300)
    run = r.stdout.split()[1].rstrip(":")
    words = "ERROR: No matching distribution found for no-such-package==4.2"
    assert r.returncode == 1 and words in r.stderr and "environment: exit code 1" in r.stderr, r.stderr
    s = over(me, run)
    assert s["environment"]["state"] == "failed" and s["environment"]["lines"][-1] == words and len(s["environment"]["lines"]) == 3
    assert s["main"]["state"] == "cancelled" and s["main"]["cause"] == "not begun: environment did not end well"
    assert not os.path.exists(os.path.join(home(pool), "tandem/runs", run, "never"))
    text = me.run("ps").stdout
    assert f"| {words}" in text and "not begun: environment did not end well" in text
    assert me.run("logs", "--step", "environment", run).stdout.rstrip().endswith(words)
    # Where it is not wanted, nothing is made.
    run = me.submit("--environment", "none", "--", "true", cwd=tmp_path / "p")
    assert list(over(me, run)) == ["main"]
    # No list shows a password.
    (tmp_path / "p/tandem.yaml").write_text("run: 'true'\nenvironment: {conda: ['https://me:secret@conda.example.org/lab::bare']}\n")
    r = me.run("submit", cwd=tmp_path / "p", check=False)
    assert r.returncode == 1 and "~/.rattler/credentials.json" in r.stderr and "secret" not in r.stderr and r.stderr.count("environment:") == 1, r.stderr


@pytest.mark.nightly
@pytest.mark.feature("E1.3", "E2.1")
def test_a_making_that_is_killed_leaves_nothing_half_done(pool, me, tmp_path, wheels):
    """A pipe for a wheel: pip waits for ever in the midst of it."""
    pipe = os.path.join(wheels, "slow-1.0-py3-none-any.whl")
    os.mkfifo(pipe)
    os.chown(pipe, 1000, 1000)
    p = project(tmp_path / "p", wheels, ["bare", "slow"], run="slow")
    run = me.submit(cwd=p)
    job = steps(me, run)["environment"]["job"]
    log = wait_for("its log", lambda: next((os.path.join(d, f) for d, _, files in os.walk(os.path.join(home(pool), "tandem/envs/.log")) for f in files if f.endswith(f"-{job}.out")), None))
    wait_for("pip is in the midst of it", lambda: "slow-1.0" in open(log).read())
    key = os.path.basename(log).split("-")[0]
    made = os.path.join(home(pool), "tandem/envs/.made")
    assert [t for t in os.listdir(made) if t.startswith(key)] == [f"{key}.{job}"]

    # A run that is cancelled leaves the making to others.
    again = me.submit(cwd=p)
    me.run("cancel", again)
    assert steps(me, again)["environment"]["job"] == job and steps(me, run)["environment"]["state"] == "running"
    wait_for("it is cancelled", lambda: steps(me, again)["main"].get("cause") == "cancelled by researcher")

    me.run("cancel", job)
    s = over(me, run)
    assert s["environment"]["state"] == "cancelled" and s["main"]["state"] == "cancelled"
    assert not os.path.lexists(os.path.join(home(pool), "tandem/envs", key)) and key not in [e["key"] for e in listed(me)]
    os.unlink(pipe)
    wheel(wheels, "slow", "1.0", "def main(): print('at last')\n")
    theirs(wheels)
    os.makedirs(os.path.join(made, f"{key}.0"), exist_ok=True)  # as if it had been killed without a chance to tidy up
    theirs(os.path.join(made, f"{key}.0"))
    last = me.submit(cwd=p)
    s = over(me, last)
    assert s["main"]["state"] == "done" and me.run("logs", last).stdout == "at last\n"
    assert [t for t in os.listdir(made) if t.startswith(key)] == [f"{key}.{s['environment']['job']}"]


@pytest.mark.feature("E4.2")
@pytest.mark.parametrize("command,cause,last", [
    ("echo one; echo two; exit 3", "exit code 3", "two"), ("echo mine; kill -9 $$", "ended by signal 9 (KILL)", "mine"),
    ("sh -c 'kill -11 $$'", "exit code 139: a program was ended by signal 11 (SEGV)", None), ("no-such-command", "exit code 127: a command was not found", "no-such-command: command not found"),
    ("python3 -c 'x = bytearray(1 << 30)'", "it needed more memory than it asked for (40 MiB of each node)", None)])
def test_a_failure_says_its_cause(pool, me, command, cause, last):
    r = me.run("submit", "--no-code", "-f", "--memory", "40M", "--", command, check=False)
    run = r.stdout.split()[1].rstrip(":")
    assert r.returncode == 1 and f"({cause})" in r.stderr, r.stderr
    wait_for("ps has its end", lambda: cause in me.run("ps").stdout)
    (kept,) = [x for x in me.json("ps")["runs"] if x["id"] == run]
    assert kept["steps"][0]["cause"] == cause and len(kept["steps"][0]["lines"]) <= 3
    if last:
        assert kept["steps"][0]["lines"][-1].endswith(last)
    end = json.load(open(os.path.join(home(pool), "tandem/runs", run, ".tandem/run.json")))["jobs"][0]["end"]
    assert end["cause"] == cause, "what Slurm forgets is in the record"


@pytest.mark.feature("E4.2")
def test_who_cancelled_a_run_is_said(pool, me):
    run = me.submit("--no-code", "--", "echo begun; sleep 1000")
    wait_for("it runs", lambda: me.state(run) == "running")
    me.run("cancel", run)
    wait_for("it is over", lambda: me.state(run) == "cancelled")
    assert steps(me, run)["main"]["cause"] == "cancelled by researcher"
    run = me.submit("--no-code", "--", "echo begun; sleep 1000")
    wait_for("it runs", lambda: me.state(run) == "running")
    job = steps(me, run)["main"]
    pool.cmd("shell", "--", "scancel", str(job["job"]))
    wait_for("it is over", lambda: me.state(run) == "cancelled")
    assert steps(me, run)["main"]["cause"] == "cancelled (scancel, or an administrator)"
