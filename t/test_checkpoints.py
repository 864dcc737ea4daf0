"""Checkpoints of runs: on the node's disk while the program works, kept while it goes on, there again when it starts anew."""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest

from gangs import GANG, SIZE, all_run, jobs_of
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
    wait_for("its keeper has ended too", lambda: subprocess.run(["flock", "--nonblock", tmp_path / "tandem-checkpoints-7", "true"]).returncode == 0)
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


def too_deep(path):
    """Root may read and remove everything, but nothing that is deeper than what is looked at."""
    for _ in range(70):
        path /= "d"
    path.mkdir(parents=True)


def test_what_cannot_be_read_is_not_taken_for_nothing(start, tmp_path):
    """A storage that fails must not make the program begin anew."""
    too_deep(tmp_path / "kept/step-1")
    p = start("true")
    assert p.wait(60) == 1 and "not all in it can be read" in (tmp_path / "said").read_text()


def test_a_half_that_another_one_still_writes_stops_nobody(start, tmp_path):
    """It loses its name before what is in it goes: a run that was given up, and copies on, cannot make the rest a whole one."""
    too_deep(tmp_path / "kept/.new-7-0-b.1.step-1")
    assert start("true").wait(60) == 0
    assert kept(tmp_path) == [".gone-7-0-b.1.step-1"]


def test_a_name_that_is_taken_on_the_node_stops_nobody(start, tmp_path):
    (tmp_path / "tandem-checkpoints-7").write_text("of somebody who guessed the next job's number")
    p = start("echo $TANDEM_CHECKPOINTS >$TANDEM_CHECKPOINTS/where")
    assert p.wait(60) == 0 and kept(tmp_path) == ["where"]
    assert not any(d.is_dir() for d in tmp_path.glob("tandem-checkpoints-7*"))


def test_what_cannot_be_brought_back_stops_the_step(start, tmp_path):
    (tmp_path / "kept").write_text("no directory")
    p = start("true")
    assert p.wait(60) == 1 and "without them the program would begin anew" in (tmp_path / "said").read_text()


# Waits for NAME beside its directory, writes the checkpoint of that name, and so on.
WHEN_TOLD = """cd $TANDEM_CHECKPOINTS; echo $(ls) $(cat */of 2>/dev/null) >$OLDPWD/saw-$ME; touch $OLDPWD/begun-$ME
while :; do
	for f in $OLDPWD/tell-$ME-*; do
		[ -e $f ] || continue
		n=step-${f##*-}; mkdir $n.tmp; echo $ME >$n.tmp/of; head -c 100000 /dev/urandom >$n.tmp/model; mv $n.tmp $n; echo $n >latest; rm $f
	done
	sleep 0.1
done"""


@pytest.fixture
def ranks(start, tmp_path):
    """Starts the processes of a step of two, each with a disk of its own."""
    def begin(restart, *options, who=(0, 1), of=2, program=WHEN_TOLD):
        for f in tmp_path.glob("begun-*"):
            f.unlink()
        for rank in who:
            (tmp_path / f"node{rank}").mkdir(exist_ok=True)
        procs = [start(f"ME={rank}; " + program, *options, said=f"said-{rank}", SLURM_RESTART_COUNT=str(restart), SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS=str(of), SLURM_PROCID=str(rank),
                       TANDEM_ME=str(rank)) for rank in who]
        wait_for("all have begun, or ended", lambda: all((tmp_path / f"begun-{r}").exists() or p.poll() is not None for r, p in zip(who, procs)))
        return procs

    def end(procs):
        for p in procs:
            subprocess.run(["pkill", "-KILL", "-s", str(p.pid)], check=False)
            p.wait()

    def tell(rank, n):
        (tmp_path / f"tell-{rank}-{n}").touch()
    begin.end, begin.tell = end, tell
    return begin


def saw(tmp_path, rank):
    return (tmp_path / f"saw-{rank}").read_text().split()


def test_a_checkpoint_of_several_counts_when_all_parts_are_there(ranks, tmp_path):
    """What one of them has given alone is never found again; the others' disks are not asked."""
    there = tmp_path / "kept"
    procs = ranks(0)
    ranks.tell(0, 1)
    wait_for("one part is there", lambda: (there / ".new-7-0-0.2.step-1/part-0").exists())
    assert kept(tmp_path) == [".new-7-0-0.2.step-1"]
    ranks.tell(1, 1)
    wait_for("with the other it is whole, and then named", lambda: kept(tmp_path) == ["latest", "step-1"])
    lines = (there / "step-1/.tandem-parts").read_text().splitlines()
    assert lines[0] == "parts 2 attempt 7-0-0" and lines[1] == "0 files 2 bytes 100002" and len(lines) == 3
    ranks.tell(0, 2)
    wait_for("a part of the next is there", lambda: (there / ".new-7-0-0.2.step-2/part-0").exists())
    ranks.end(procs)  # the nodes are lost in the middle

    procs = ranks(1)
    assert saw(tmp_path, 0) == ["latest", "step-1", "0"] and saw(tmp_path, 1) == ["latest", "step-1", "1"]  # each its own part
    assert kept(tmp_path) == ["latest", "step-1"]
    ranks.tell(1, 2)  # no part of another attempt completes it
    wait_for("a part of this attempt", lambda: (there / ".new-7-1-0.2.step-2/part-1").exists())
    assert (there / "latest").read_text() == "step-1\n"
    for n in (2, 3):
        ranks.tell(0, n)
    ranks.tell(1, 3)
    wait_for("the newest two are kept", lambda: kept(tmp_path) == ["latest", "step-2", "step-3"])
    ranks.end(procs)


def test_what_never_becomes_whole_does_not_fill_the_disk(ranks, tmp_path):
    half = lambda: sorted(p.name for p in (tmp_path / "kept").glob(".new-*"))
    procs = ranks(0)
    ranks.tell(0, 1)
    wait_for("one part is there", lambda: half() == [".new-7-0-0.2.step-1"])
    ranks.tell(0, 2), ranks.tell(1, 2)
    wait_for("the next is whole", lambda: "step-2" in kept(tmp_path))
    os.utime(tmp_path / "kept/.new-7-0-0.2.step-1", (0, 0))
    wait_for("an older one goes", lambda: not half())
    for n in range(3, 28):  # as of a program whose processes give them names of their own
        ranks.tell(0, n)
    wait_for("the last ones stay", lambda: not list(tmp_path.glob("tell-*")) and len(half()) == 18)
    ranks.end(procs)


def test_only_the_part_of_a_process_that_is_started_again_is_made_anew(ranks, tmp_path):
    procs = ranks(0)
    ranks.tell(0, 1)
    wait_for("its part is there", lambda: (tmp_path / "kept/.new-7-0-0.2.step-1/part-0").exists())
    ranks.end(procs[:1])
    again = ranks(0, who=(0,))  # a gang that goes on with another pod in its place
    assert saw(tmp_path, 0) == [] and not (tmp_path / "kept/.new-7-0-0.2.step-1/part-0").exists()
    ranks.tell(1, 1)
    wait_for("the other part is there", lambda: (tmp_path / "kept/.new-7-0-0.2.step-1/part-1").exists())
    ranks.tell(0, 1)
    wait_for("it is whole", lambda: "step-1" in kept(tmp_path))
    ranks.end(again + procs[1:])


# Each process's own files and, of the first one, the list of them: as torch's distributed checkpoints lie.
DISTRIBUTED = """cd $TANDEM_CHECKPOINTS
mkdir -p s.tmp/more; head -c 70000 /dev/zero >s.tmp/__${ME}_0.distcp; echo of $ME >s.tmp/more/of-$ME; echo all >s.tmp/same; ln -s same s.tmp/link-$ME; ln -s same s.tmp/link
[ $ME != 0 ] || echo list >s.tmp/.metadata
touch -d "2026-01-01 00:00:0$ME" s.tmp; mv s.tmp step-1; touch $OLDPWD/begun-$ME; exec sleep 1000"""
FINDS = """cd $TANDEM_CHECKPOINTS; touch $OLDPWD/begun-$ME; { find step-1 ! -type d | sort; cat step-1/more/of-* step-1/same step-1/.metadata; stat -c %y step-1; find step-1 -lname "/*"; } >$OLDPWD/saw-$ME"""


def test_another_number_of_processes_finds_all_parts(ranks, tmp_path):
    """Files of parts that go together lie in one directory; of others, and of what is not as it was written, as many have to come."""
    procs = ranks(0, program=DISTRIBUTED)
    wait_for("it is whole", lambda: kept(tmp_path) == ["step-1"])
    ranks.end(procs)
    names = [f"step-1/{n}" for n in ("__0_0.distcp", "__1_0.distcp", ".metadata", "link", "link-0", "link-1", "more/of-0", "more/of-1", "same")]
    for attempt, of, how in ((1, 3, "copy"), (2, 1, "copy"), (3, 3, "link")):
        for p in ranks(attempt, f"--reshard={how}", who=range(of), of=of, program=FINDS):
            assert p.wait(60) == 0, (tmp_path / "said-0").read_text()
        for me in range(of):
            lines = (tmp_path / f"saw-{me}").read_text().splitlines()
            assert sorted(lines[:9]) == sorted(names) and lines[9:13] == ["of 0", "of 1", "all", "list"] and lines[13].startswith("2026-01-01 00:00:01"), lines
            assert len(lines) == (20 if how == "link" else 14), "links lead to what is kept"
        assert kept(tmp_path) == ["step-1"] and not list((tmp_path / "kept/step-1").glob("*.distcp"))  # as it was: nobody copies it back
    p = ranks(4, "--reshard=link", who=(0,), of=1, program="cd $TANDEM_CHECKPOINTS; echo more >step-1/more-of-it; cp -a step-1 best")
    assert p[0].wait(60) == 0 and "is not kept as it is now: files in it are links" in (tmp_path / "said-0").read_text()
    assert kept(tmp_path) == ["step-1"] and (tmp_path / "kept/step-1/part-0/same").read_text() == "all\n"  # and no links to themselves

    def refused(attempt, why, *options):
        p = ranks(attempt, *options, who=(0,), of=3, program=FINDS)
        assert p[0].wait(60) == 1
        said = (tmp_path / "said-0").read_text()
        assert why in said and "without them the program would begin anew" in said, said
    refused(4, "written by 2 processes, and now there are 3: start as many", "--reshard=no")
    (tmp_path / "kept/step-1/part-1/same").write_text("two\n")
    refused(5, "more than one has same, and not the same")
    (tmp_path / "kept/step-1/part-1/same").write_text("cut by a file system\n")
    refused(6, "step-1: Bad message")
    p = ranks(7, who=(1,), program=FINDS)
    assert p[0].wait(60) == 1 and "step-1: Bad message" in (tmp_path / "said-1").read_text()
    p = ranks(8, "--no-restore", who=(0,), of=3, program="ls $TANDEM_CHECKPOINTS >saw; ls $TANDEM_CHECKPOINTS_KEPT/step-1 >>saw")
    assert p[0].wait(60) == 0 and (tmp_path / "saw").read_text().split() == ["part-0", "part-1"]


def test_where_only_the_first_writes_all_find_it(ranks, tmp_path):
    procs = ranks(0, "--parts=one")
    ranks.tell(0, 1), ranks.tell(1, 9)
    wait_for("it is kept", lambda: kept(tmp_path) == ["latest", "step-1"])
    ranks.end(procs)
    procs = ranks(1, "--parts=one")
    assert saw(tmp_path, 0) == saw(tmp_path, 1) == ["latest", "step-1", "0"]
    ranks.end(procs)


def test_a_pods_end_is_told_by_the_signal_it_wants(stage, tmp_path):
    """However deep the program is below its entrypoint: a kubelet knows TERM alone, and tells the first process."""
    program = "sh -c 'sh -c \"trap \\\"echo saved >$TANDEM_CHECKPOINTS/saved; exit 0\\\" USR1; touch begun; while :; do sleep 0.1; done\"; :'; exit 3"
    p = subprocess.Popen([*stage, "--to", tmp_path / "kept", "--signal=USR1", "sh", "-c", program], cwd=tmp_path, env=dict(os.environ, TMPDIR=str(tmp_path)))
    wait_for("it has begun", lambda: (tmp_path / "begun").exists())
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == 3


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


SEVERAL = """#!/bin/bash
#SBATCH --job-name=parts --nodes=2 --ntasks=2 --requeue --open-mode=append --output=parts-%j.out
exec srun /opt/tandem/tandem-stage --keep=2 bash -ec '
cd $TANDEM_CHECKPOINTS; n=$(cat step-*/number 2>/dev/null | sort -n | tail -1)
echo "run ${SLURM_RESTART_COUNT:-0} rank $SLURM_PROCID on $SLURMD_NODENAME goes on from ${n:-0} of $(cat step-${n:-0}/rank 2>/dev/null)"
[ -z "$n" ] || exec sleep 100000
for n in 1 2 3; do
	mkdir step.tmp; echo $n >step.tmp/number; echo $SLURM_PROCID >step.tmp/rank; head -c 100000 /dev/urandom >step.tmp/model
	[ $n$SLURM_PROCID != 31 ] || exec sleep 100000 # the last one it does not get to write
	mv step.tmp step-$n
done
exec sleep 100000'
"""


@pytest.mark.nightly_real  # the same there: nothing in it is the plane's
def test_a_job_of_sbatch_on_two_nodes_goes_on(pool):
    """Slurm's own words alone: the id stays, and so do the checkpoints."""
    job = int(pool.as_user("researcher", "sbatch", "--parsable", "--mem=100M", input=SEVERAL).stdout)
    ls = lambda: pool.as_user("researcher", "ls", "-A", f"tandem_checkpoints/{job}", check=False).stdout.split()  # noqa: E731
    out = lambda: pool.as_user("researcher", "cat", f"parts-{job}.out", check=False).stdout  # noqa: E731
    wait_for("two are whole, and a third one is half", lambda: ls() == [f".new-{job}-0-0.2.step-3", "step-1", "step-2"])
    pool.shell("scontrol", "requeuehold", job)
    wait_for("it is queued again", lambda: pool.job(job).get("JobState") == "PENDING")
    pool.shell("scontrol", "release", job)
    wait_for("it goes on, each rank from its own part", lambda: len(re.findall(r"run 1 rank (\d) on \S+ goes on from 2 of \1", out())) == 2)
    assert ls() == ["step-1", "step-2"] and "run 0 rank 0" in out()
    pool.shell("scancel", job)


IN_PODS = """cd $TANDEM_CHECKPOINTS; n=$(cat step-*/number 2>/dev/null | sort -n | tail -1)
echo "rank $RANK goes on from ${n:-0} of $(cat step-${n:-0}/rank 2>/dev/null)"
[ -z "$n" ] || exec sleep 100000
for n in 1 2 3; do
	mkdir step.tmp; echo $n >step.tmp/number; echo $RANK >step.tmp/rank; mv step.tmp step-$n
	[ $n$RANK != 20 ] || exec sleep 100000
done
exec sleep 100000"""


@pytest.mark.embedded  # a kubelet of Kubernetes puts nothing in front of a command (docs/checkpoints.md)
@pytest.mark.feature("C4.5")
def test_a_gang_of_pods_goes_on(pool):
    """By an annotation: the next gang begins where all pods of the one before it had a checkpoint."""
    where = pathlib.Path(pool.shared_dir) / "kept-of-gang"
    pod = pool.pod("x", gpus=1, command=["bash", "-ec", IN_PODS], volumes=[{"name": "s", "hostPath": {"path": "/shared/home", "type": "Directory"}}], restartPolicy="Never")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/home"}]
    notes = {SIZE: "2", "tandem.dev/checkpoints": "/home/kept-of-gang keep=2"}
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "goes-on", "namespace": "default"},
                "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 8,
                         "template": {"metadata": {"labels": {GANG: "goes-on"}, "annotations": notes}, "spec": pod["spec"]}}})
    all_run(pool, "goes-on", 2)
    names = lambda: sorted(p.name for p in where.iterdir()) if where.exists() else []  # noqa: E731
    wait_for("two are whole, and a third one is half", lambda: [n for n in names() if n[0] != "."] == ["step-1", "step-2"] and any(n.endswith(".2.step-3") for n in names()))
    first = list(jobs_of(pool, "goes-on"))
    pool.shell("scancel", *first)
    wait_for("the next gang", lambda: (j := list(jobs_of(pool, "goes-on"))) and j != first and len([p for p in pool.running("-l", f"{GANG}=goes-on") if pool.grant(p)[0] == j[0]]) == 2)
    new = [p["metadata"]["name"] for p in pool.running("-l", f"{GANG}=goes-on")]
    said = wait_for("both say so", lambda: len(s := re.findall(r"rank (\d) goes on from (\d) of (\d)", "".join(pool.kubectl("logs", n) for n in new))) == 2 and s)
    assert sorted(said) == [("0", "2", "0"), ("1", "2", "1")] and names() == ["step-1", "step-2"]
    pool.kubectl("delete", "job", "goes-on")


HURRIES = """cd $TANDEM_CHECKPOINTS; n=$(cat step-*/number 2>/dev/null | sort -n | tail -1); echo ${n:-0} >$OLDPWD/saw-$ME; touch $OLDPWD/begun-$ME
for n in $(seq $((${n:-0} + 1)) 100000); do
	mkdir step.tmp; echo $n >step.tmp/number; echo $SLURM_RESTART_COUNT >step.tmp/attempt; head -c 20000000 /dev/urandom >step.tmp/model; mv step.tmp step-$n; rm -rf step-$((n - 4)); sleep 0.7
done"""


@pytest.mark.hand
def test_killed_anywhere_what_is_found_is_whole(ranks, tmp_path):
    """Forty kills at any moment: each checkpoint that is there is of one attempt, and all that was whole is found again."""
    newest = 0
    for restart in range(40):
        procs = ranks(restart, program=HURRIES)
        assert [p.poll() for p in procs] == [None, None], (tmp_path / "said-0").read_text() + (tmp_path / "said-1").read_text()
        saws = [int((tmp_path / f"saw-{r}").read_text()) for r in (0, 1)]
        assert saws[0] == saws[1] >= newest, (saws, newest)
        time.sleep(random.uniform(0, 6))
        first, second = random.sample(procs, 2)
        ranks.end([first])
        time.sleep(random.choice([0, 0, 1, 2]))
        ranks.end([second])
        for d in (p for p in (tmp_path / "kept").iterdir() if p.name[0] != "."):
            lines = (d / ".tandem-parts").read_text().split("\n")
            of = {tuple((d / f"part-{r}/{f}").read_text().strip() for f in ("number", "attempt")) for r in (0, 1)}
            assert len(of) == 1 and d.name == "step-" + of.copy().pop()[0], (d, of)
            assert all(int(lines[r + 1].split()[-1]) == sum(f.stat().st_size for f in (d / f"part-{r}").iterdir()) for r in (0, 1))
            newest = max(newest, int(d.name.removeprefix("step-")))
        print(f"kill {restart}: {kept(tmp_path)}")
    assert newest > 20
