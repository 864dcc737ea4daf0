"""Checkpoints of runs: on the node's disk while the program works, kept while it goes on, there again when it starts anew."""
import os
import pathlib
import re
import signal
import subprocess

import pytest

from harness import ROOT, wait_for
from laptop import Laptop

pytestmark = pytest.mark.feature("D6.6")


@pytest.fixture
def stage(build):
    return [build / "src/standin/tandem-standin", "stage"]


@pytest.fixture
def start(tmp_path, stage):
    """Starts a program, as a step of a run does; its own processes end with the test."""
    running = []

    def begin(program, *options, keep=2, said="said", **more):
        env = dict(os.environ, SLURM_JOB_ID="7", TANDEM_CHECKPOINTS_KEEP=str(keep), TMPDIR=str(tmp_path), **more)
        running.append(subprocess.Popen([*stage, "--to", tmp_path / "kept", *options, "bash", "-ec", program], env=env, cwd=tmp_path, stderr=open(tmp_path / said, "w"), start_new_session=True))
        return running[-1]
    yield begin
    for p in running:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def kept(tmp_path):
    return sorted(p.name for p in (tmp_path / "kept").iterdir()) if (tmp_path / "kept").exists() else []


WRITES = """cd $TANDEM_CHECKPOINTS
for i in 1 2 3; do
	mkdir step.tmp; head -c 100000 /dev/zero >step.tmp/model; echo $i >step.tmp/number
	mv step.tmp step-$i; echo step-$i >latest; touch -d "2026-01-01 00:0$i" step-$i/* step-$i
done
"""


def test_what_is_whole_is_kept_and_comes_back(start, tmp_path):
    p = start(WRITES + "exec sleep 1000")
    wait_for("the newest two are kept", lambda: kept(tmp_path) == ["latest", "step-2", "step-3"] and (tmp_path / "kept/latest").read_text() == "step-3\n")
    subprocess.run(["pkill", "-KILL", "-s", str(p.pid)], check=True)  # as at the end of a grace: the node's disk is lost, and what is kept stays
    p.wait()
    (tmp_path / "kept/.new-step-4").mkdir()  # cut in the middle of a copy, and of a replacement
    os.rename(tmp_path / "kept/step-2", tmp_path / "kept/.old-step-2")
    p = start("cd $TANDEM_CHECKPOINTS; ls >$OLDPWD/saw; cat $(cat latest)/number >>$OLDPWD/saw; echo half >torn; false")
    assert p.wait(60) == 1, (tmp_path / "said").read_text()
    assert (tmp_path / "saw").read_text().split() == ["latest", "step-2", "step-3", "3"] and kept(tmp_path) == ["latest", "step-2", "step-3"]
    assert not (tmp_path / "tandem-checkpoints-7").exists()


def test_how_the_program_ends_is_how_the_step_ends(start, tmp_path):
    """Its code, or its signal; what the batch script is sent reaches it."""
    p = start("trap 'echo told >$TANDEM_CHECKPOINTS/told; exit 0' USR1; touch $TANDEM_CHECKPOINTS/ready; while :; do sleep 0.1; done")
    wait_for("it is ready", lambda: "ready" in kept(tmp_path))
    p.send_signal(signal.SIGUSR1)
    assert p.wait(60) == 0 and kept(tmp_path) == ["ready", "told"]
    assert start("exit 7").wait(60) == 7 and start("kill -TERM $$").wait(60) == -signal.SIGTERM
    assert start("kill -KILL $$").wait(60) == -signal.SIGKILL  # as when its memory is over


def test_what_the_program_does_to_its_directory_ends_nothing(start, tmp_path):
    """It may make it anew, and what is kept too; what cannot be copied leaves no half."""
    p = start("cd /; rm -r $TANDEM_CHECKPOINTS; rm -r $OLDPWD/kept; touch $OLDPWD/gone; until [ -e $OLDPWD/go ]; do sleep 0.1; done; "
              "mkdir $TANDEM_CHECKPOINTS; echo 1 >$TANDEM_CHECKPOINTS/one; mkdir $TANDEM_CHECKPOINTS/odd; mkfifo $TANDEM_CHECKPOINTS/odd/pipe; exec sleep 1000")
    wait_for("the directory is gone", lambda: (tmp_path / "gone").exists())
    wait_for("it was looked for", lambda: "no directory" in (tmp_path / "said").read_text())
    (tmp_path / "go").touch()
    wait_for("what is there again is kept", lambda: "one" in kept(tmp_path))
    wait_for("the other one is named", lambda: "odd could not be kept" in (tmp_path / "said").read_text())
    wait_for("and has left nothing", lambda: kept(tmp_path) == ["one"])
    assert p.poll() is None


def test_a_name_that_is_taken_on_the_node_stops_nobody(start, tmp_path):
    (tmp_path / "tandem-checkpoints-7").write_text("of somebody who guessed the next job's number")
    p = start("echo $TANDEM_CHECKPOINTS >$TANDEM_CHECKPOINTS/where")
    assert p.wait(60) == 0 and kept(tmp_path) == ["where"]
    assert not any(d.is_dir() for d in tmp_path.glob("tandem-checkpoints-7*"))


def test_what_cannot_be_brought_back_stops_the_step(start, tmp_path):
    (tmp_path / "kept").write_text("no directory")
    p = start("true")
    assert p.wait(60) == 1 and "without them the program would begin anew" in (tmp_path / "said").read_text()


def test_no_two_steps_share_a_directory(tmp_path):
    (tmp_path / ".tandem").mkdir()

    def where(step, **more):
        (tmp_path / f".tandem/{step}.sh").write_text("echo $TANDEM_CHECKPOINTS")
        env = dict(os.environ, TANDEM_STEP=step, TANDEM_CHECKPOINTS_KEEP="2", SLURM_JOB_NUM_NODES="2", **more)
        return subprocess.run(["sh", ROOT / "src/gateway/programs/run.sh"], cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout
    assert where("train-1") != where("train", SLURM_ARRAY_TASK_ID="1")


GOES_ON = """name: trains
checkpoints: 2
memory: 64M
run: |
  cd $TANDEM_CHECKPOINTS
  [ ! -e state ] || { echo "goes on from $(cat state)"; exec sleep 100000; }
  echo 41 >state.tmp; mv state.tmp state
  exec sleep 100000
"""


@pytest.mark.embedded  # of the gateway of one machine
def test_a_run_that_is_queued_again_goes_on(pool, tmp_path):
    me = Laptop(pool, tmp_path / "laptop", "researcher")
    (tmp_path / "code").mkdir()
    (tmp_path / "code/tandem.yaml").write_text(GOES_ON)
    run = me.submit(cwd=tmp_path / "code")
    job = me.api("GET", f"/runs/{run}")[1]["steps"][0]["job"]
    where = pathlib.Path(pool.shared_dir) / f"researcher/tandem/runs/{run}/tandem_checkpoints/main"
    wait_for("it is kept", lambda: (where / "state").exists())
    pool.shell("scontrol", "requeuehold", job)  # it stays queued until it is looked at
    wait_for("it is queued again", lambda: pool.job(job).get("JobState") == "PENDING")
    pool.shell("scontrol", "release", job)
    wait_for("it goes on", lambda: "goes on from 41" in (pathlib.Path(pool.shared_dir) / f"researcher/tandem/runs/{run}/slurm_log/slurm-{job}.out").read_text(), 60)
    wait_for("it is told why, once slurmdbd knows that, and from where", lambda: re.search(r"queued again at \S+, because \S+: it was queued again \(scontrol requeue, or Tandem\); goes on from checkpoint state", " ".join(me.run("ps").stdout.split())), 60)
    assert "goes on from checkpoint state." in me.run("why", f"run/{run}").stdout
    step = me.json("why", f"run/{run}")["steps"][0]
    assert step["restarts"] == 1 and step["again"]["checkpoint"] == "state" and step["again"]["at"] <= step["started"]
    pool.shell("scancel", job)
