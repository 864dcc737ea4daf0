"""The researcher's commands, from a laptop's directory to the results (rows E1 E5 D6)."""
import hashlib
import json
import os
import random
import socket
import threading
import time

import pytest

from harness import wait_for
from laptop import Laptop, address, cutting

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


@pytest.fixture
def me(pool, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


@pytest.fixture
def project(tmp_path):
    p = tmp_path / "my project"
    (p / "src").mkdir(parents=True)
    (p / "src/hello.sh").write_text("#!/bin/sh\necho hello from $(id -un) with GPU $CUDA_VISIBLE_DEVICES\npwd\n")
    (p / "src/hello.sh").chmod(0o755)
    (p / ".gitignore").write_text("*.bin\n/build/\n!keep.bin\n")
    (p / "big.bin").write_bytes(b"x" * 1000)
    (p / "keep.bin").write_bytes(b"kept")
    (p / "build").mkdir()
    (p / "build/out").write_text("not this")
    (p / ".git").mkdir()
    (p / ".git/config").write_text("nor this")
    os.symlink("/etc", p / "etc")
    os.symlink("src/hello.sh", p / "link.sh")
    return p


def there(pool, run, *path):
    return os.path.join(pool.shared_dir, "researcher/tandem/runs", run, *path)


@pytest.mark.feature("E1.1", "E1.2", "E1.5", "E1.10")
def test_a_directory_is_shipped_and_runs_as_the_person(pool, me, project):
    r = me.run("submit", "-f", "--gpus", "1", "--", "src/hello.sh", cwd=project)
    said = r.stdout.splitlines()
    run = said[0].split()[1].rstrip(":")
    assert "hello from researcher with GPU 0" in r.stdout and f"/home/researcher/tandem/runs/{run}" in r.stdout and run.startswith("my-project-")
    assert "not shipped: etc: a link to a directory" in r.stderr

    shipped = sorted(os.path.relpath(os.path.join(d, f), there(pool, run)) for d, _, files in os.walk(there(pool, run)) for f in files)
    assert [f for f in shipped if not f.startswith((".tandem/", "slurm_log/"))] == [".gitignore", "keep.bin", "link.sh", "src/hello.sh"]
    st = os.lstat(there(pool, run, "link.sh"))
    assert st.st_uid == 1000 and st.st_mode & 0o777 == 0o755 and not os.path.islink(there(pool, run, "link.sh"))
    assert me.run("logs", run).stdout.startswith("hello from researcher")

    # Unchanged, nothing travels, and nothing is read as soon as the files are not brand-new; one changed file is all that does and is.
    wait_for("nothing is read", lambda: "; 0 read, 0 bytes sent" in me.run("submit", "--", "true", cwd=project).stderr)
    (project / "keep.bin").write_bytes(os.urandom(3_000_000))
    r = me.run("submit", "--", "true", cwd=project)
    assert "; 1 read, 3.0 MB sent" in r.stderr


@pytest.mark.feature("E1.5", "E1.6")
def test_ps_why_and_cancel(pool, me, project):
    runs = [me.submit("--no-code", "--nodes", pool.instance["nodes"], "--gpus", pool.instance["gpus"], "--name", f"whole{i}", "--", "sleep 1000", cwd=project) for i in range(2)]
    wait_for("the first runs", lambda: me.state(runs[0]) == "running")
    waits = wait_for("the second says why it waits", lambda: (s := next(r for r in me.json("ps")["runs"] if r["id"] == runs[1])["steps"][0])["state"] == "waiting" and s.get("reason") == "Resources" and s)
    top = me.json("top")
    assert top["gpusUsed"] == pool.instance["nodes"] * pool.instance["gpus"] and top["users"][0]["user"] == "researcher" and top["users"][0]["waiting"] == 1, top
    assert "researcher" in me.run("top").stdout
    text = me.run("ps").stdout
    assert waits["words"] in text and runs[0] in text
    assert waits["words"] in me.run("why", runs[1]).stdout
    assert "waiting" in me.run("why", f"run/{runs[1]}").stdout
    me.run("cancel", runs[0])
    wait_for("it is cancelled", lambda: me.state(runs[0]) == "cancelled")
    wait_for("the second runs", lambda: me.state(runs[1]) == "running")
    job = me.api("GET", f"/runs/{runs[1]}")[1]["steps"][0]["job"]
    me.run("cancel", job)
    wait_for("it is cancelled", lambda: me.state(runs[1]) == "cancelled")
    r = me.run("cancel", runs[1], check=False)
    assert r.returncode == 1 and "has ended already" in r.stderr
    me.json("ps")
    record = json.load(open(there(pool, runs[1], ".tandem/run.json")))
    assert record["jobs"][0]["end"]["state"] == "cancelled", "what Slurm forgets is in the record"


@pytest.mark.feature("E5.1", "E5.3", "E1.8")
def test_steps_and_sweeps(pool, me, tmp_path):
    d = tmp_path / "steps"
    d.mkdir()
    (d / "tandem.yaml").write_text("""
name: sweep
memory: 50M
env: {WHO: "a b"}
steps:
- {name: prep, run: "echo 7 > seed"}
- name: train
  after: [prep]
  matrix: {LR: [0.1, 0.01], MODE: [a, "it's b"]}
  parallel: 2
  run: ['echo "$LR/$MODE/$WHO/$(cat seed)" > out.$SLURM_ARRAY_TASK_ID']
- {name: end, after: train, run: "cat out.*"}
- {name: bad, run: "exit 4"}
- {name: never, after: [bad], run: "touch never"}
""")
    run = me.submit(cwd=d)
    r = me.run("logs", "-f", "--step", "end", run)
    assert sorted(r.stdout.splitlines()) == sorted(f"{lr}/{m}/a b/7" for lr in ("0.1", "0.01") for m in ("a", "it's b"))

    def ended():
        steps = {s["name"]: s for s in me.api("GET", f"/runs/{run}")[1]["steps"]}
        return steps["never"]["state"] == "cancelled" and steps
    steps = wait_for("what the failed step stops is cancelled", ended)
    assert [steps[n]["state"] for n in ("prep", "train", "end", "bad")] == ["done", "done", "done", "failed"]
    assert steps["bad"]["exit"] == 4 and steps["train"]["tasksDone"] == 4 and not os.path.exists(there(pool, run, "never"))
    r = me.run("logs", "-f", "--step", "bad", run, check=False)
    assert r.returncode == 1 and "failed (exit code 4" in r.stderr
    said = me.run("logs", "-f", run, check=False).stdout.splitlines()
    assert [line for line in said if "==>" in line] == ["==> prep <==", "==> train, task 0 of 4 <==", "==> end <==", "==> bad <==", "==> never <=="] and "0.1/a/a b/7" in said


@pytest.mark.feature("E1.9")
def test_tuxiv_conf_as_it_is(pool, me, tmp_path):
    """The forms of TACC's public examples: a line that begins with an option goes on with the one before."""
    d = tmp_path / "tux"
    d.mkdir()
    (d / "main.sh").write_text('echo "args $*"; echo "$TACC_WORKDIR" "$TACC_SLURM_USERLOG"; echo nodes $SLURM_JOB_NUM_NODES tasks $SLURM_NTASKS gpus $CUDA_VISIBLE_DEVICES; ls $TANDEM_DATA/OpenRoadMap')
    me.run("upload", d / "main.sh", "OpenRoadMap/")  # the pool keeps none of this name on its nodes: it is the home's
    (d / "tuxiv.config").write_text("""entrypoint:
    - sh ${TACC_WORKDIR}/main.sh
    - --task_index=0
    - --batch_size=1
environment:
    name: tf
    channels: pytorch
    dependencies:
        - tensorflow=1.15
job:
    name: test
    general:
        - nodes=2                # the number of nodes
        - ntasks-per-node=2
        - cpus-per-task=1
        - gres=gpu:1
        - mem=100M
        - time=0-1:00:00
        - output=${TACC_SLURM_USERLOG}/hello.log
datasets:
    - OpenRoadMap
""")
    r = me.run("submit", "-f", "--environment", "none", cwd=d)  # with it: test_conda.py
    run = r.stdout.split()[1].rstrip(":")
    assert run.startswith("test-") and "args --task_index=0 --batch_size=1" in r.stdout and "nodes 2 tasks 4 gpus 0" in r.stdout, r.stdout
    assert f"/tandem/runs/{run} /home/researcher/tandem/runs/{run}/slurm_log" in r.stdout
    assert r.stdout.endswith("\nmain.sh\n")


@pytest.mark.feature("E1.8", "E1.5")
def test_a_script_for_sbatch_runs_from_a_laptop_and_is_found_by_name_and_job(pool, me, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train.sh").write_text("#!/bin/bash\n#SBATCH -J scripted --gres=gpu:1\n#SBATCH -n2 -c2 -o x.out\necho $SLURM_JOB_NUM_NODES $SLURM_NTASKS $SLURM_CPUS_PER_TASK ${CUDA_VISIBLE_DEVICES} $0 ${*@Q}\n")
    r = me.run("submit", "-f", "sub/train.sh", "a", "b c", cwd=tmp_path)
    assert "1 2 2 0 sub/train.sh 'a' 'b c'" in r.stdout and r.stdout.startswith("Run scripted-") and "note: the log lies" in r.stderr
    job = r.stdout.splitlines()[0].split()[-1].rstrip(".")
    for which in (job, "scripted"):
        assert "sub/train.sh 'a' 'b c'" in me.run("logs", which).stdout
    (tmp_path / "sub/train.sh").write_text("#!/bin/bash\n#SBATCH --exclusive\ntrue\n")
    r = me.run("submit", "sub/train.sh", cwd=tmp_path, check=False)
    assert r.returncode == 1 and "sub/train.sh: line 2: --exclusive: tandem submit does not take it" in r.stderr
    waits = me.submit("--no-code", "--name", "queued", "--", "sleep 1000", cwd=tmp_path)
    job = me.json("ps")["runs"][0]["steps"][0]["job"]
    wait_for("the queue has it", lambda: any(j["id"] == job and j["user"] == "researcher" for j in me.json("queue")["jobs"]))
    assert any(line.split()[:3] == [str(job), "researcher", "queued"] for line in me.run("queue", "-u", "researcher").stdout.splitlines())
    assert not me.json("queue", "-u", "nobody")["jobs"]
    assert me.run("cancel", "queued").stdout == f"Run {waits} is cancelled.\n"


@pytest.mark.feature("E1.8")
@pytest.mark.parametrize("text,words", [("name: x\n", "run: say what to run"), ("run: true\ngpu: 1\n", "gpu: there is no such field"), ("run: true\ntime: soon\n", "time: \"soon\" is no time"),
                                        ("steps: [{name: a, run: x, after: [b]}]", "step a: after: there is no step b"), ("run: true\nenv: {SLURM_JOB_ID: 1}\n", "env: \"SLURM_JOB_ID\" cannot be set"),
                                        ("steps: [{name: a, run: x, after: [b]}, {name: b, run: x, after: [a]}]", "in a circle"), ("run: [\n", "line")])
def test_a_wrong_job_file_says_what_and_the_fix(pool, me, tmp_path, text, words):
    (tmp_path / "tandem.yaml").write_text(text)
    r = me.run("submit", cwd=tmp_path, check=False)
    assert r.returncode == 1 and words in r.stderr, r.stderr
    assert me.json("ps")["runs"] is not None


@pytest.mark.feature("E1.5", "E1.8")
def test_what_no_node_has_is_refused_with_the_fix_and_listed_with_it(pool, me, tmp_path):
    gpus, memory = pool.instance["gpus"], max(n["memoryMiB"] for n in me.api("GET", "/pool")[1]["nodes"])
    for argv, words in ((("--gpus", gpus + 1), f"step main: gpus: it asks for {gpus + 1} of each node; no node has more than {gpus} (n0): ask for {gpus} or less"),
                        (("--memory", "900G"), f"step main: memory: it asks for 921600 MB of each node; no node has more than {memory} (")):
        r = me.run("submit", "--no-code", "--name", "much", *argv, "--", "true", check=False)
        assert r.returncode == 1 and words in r.stderr, r.stderr
        run = next(r for r in me.json("ps")["runs"] if words in r.get("refused", ""))
        assert run["state"] == "not-submitted" and f"refused: {words}" in me.run("ps").stdout
    for argv, words in ((("-p", "nowhere"), 'step main: partition: "nowhere" is refused: leave it out'), (("-C", "nothing"), 'step main: constraint: "nothing" is refused: leave it out')):
        assert words in me.run("submit", "--no-code", *argv, "--", "true", check=False).stderr
    assert me.run("cancel", "999999999", check=False).stderr.startswith("tandem cancel: there is no job 999999999: ")
    assert me.run("ssh", "nowhere", check=False).stderr == "tandem ssh: there is no session nowhere: `tandem session list` shows yours\n"
    for kind, near in (("shel", "shell"), ("jupiter", "jupyter")):
        r = me.run("session", "start", kind, check=False)
        assert r.returncode == 2 and f"did you mean {near}?" in r.stderr


@pytest.mark.feature("E1.5")
def test_who_was_just_added_runs_as_himself(pool, tmp_path):
    """slurmctld hears of him later: nothing of his may begin as nobody, and wait for ever. Neither his runs nor the pods of his namespace."""
    spec = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]
    users, maps = spec["users"], spec["scheduler"].get("namespaces", [])
    say = lambda **l: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": l}))  # noqa: E731
    pool.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "novices"}})
    pods = [pool.pod(f"first{i}", ns="novices", restartPolicy="Never", command=["true"]) for i in range(2)]
    why = lambda p: [c.get("message", "") for c in pool.get("pod", p["metadata"]["name"], "-n", "novices")["status"].get("conditions", [])]  # noqa: E731
    def mapped():
        pool.apply(*pods)
        for p in pods:
            wait_for("the bridge has looked at it", lambda n=p["metadata"]["name"]: pool.phase(n, "novices") != "Pending" or any(why(p)))
        return all('user "novice"' in str(why(p)) for p in pods) or pool.kubectl("delete", "-n", "novices", "pods", "--all") and False

    try:
        say(scheduler={"namespaces": [{"namespace": "novices", "user": "novice"}, *maps]})
        wait_for("the mapping is in force", mapped)
        say(users=[*users, {"name": "novice", "uid": 4711}])
        novice = Laptop(pool, tmp_path / "novice", "novice")
        runs = [novice.submit("--no-code", "--name", f"first{i}", "--", "id -u") for i in range(2)]
        for run in runs:
            wait_for("it has run", lambda: novice.state(run) == "done")
            assert novice.run("logs", run).stdout == "4711\n"
        for p in pods:
            wait_for("his pod has run", lambda: pool.phase(p["metadata"]["name"], "novices") == "Succeeded")
        of = pool.shell("squeue", "-h", "-a", "-t", "all", "-o", "%U %T %r %j %i").splitlines()
        assert any(j.startswith("4711 ") for j in of) and not any(j.startswith(("99 RUN", "99 PEND")) for j in of), "\n".join(of)
    finally:
        pool.kubectl("delete", "namespace", "novices")
        pool.change({"users": users, "scheduler": {"namespaces": maps}}, idle=False)


@pytest.mark.feature("D6.1", "D6.2", "E1.7")
def test_files_travel_through_cuts(pool, me, tmp_path):
    rng = random.Random(7)
    data = rng.randbytes(9_000_001)
    (tmp_path / "data.bin").write_bytes(data)
    with cutting(address(pool), [rng.randrange(1000, 3_900_000) for _ in range(3)]) as (url, cuts):
        me.run("upload", tmp_path / "data.bin", "sets/a/", url=url)
        assert cuts
    path = os.path.join(pool.shared_dir, "researcher/sets/a/data.bin")
    assert hashlib.sha256(open(path, "rb").read()).digest() == hashlib.sha256(data).digest() and os.stat(path).st_uid == 1000
    with cutting(address(pool), [None, *[rng.randrange(100_000, 4_000_000) for _ in range(3)]]) as (url, cuts):
        me.run("download", "~/sets/a/data.bin", tmp_path / "back.bin", url=url)
    assert (tmp_path / "back.bin").read_bytes() == data
    assert [p for p in os.listdir(tmp_path) if "part" in p] == []
    # What is there already does not travel again.
    assert "0 bytes sent" in me.run("upload", tmp_path / "data.bin", "other").stderr


@pytest.mark.feature("E1.1", "A12.2")
def test_a_gateway_that_is_killed_makes_one_run_of_one_request(pool, me, project):
    request = hashlib.sha256(os.urandom(8)).hexdigest()[:32]
    (project / "payload").write_bytes(os.urandom(20_000_000))
    before = {j["id"] for j in me.api("GET", "/jobs")[1]["jobs"]}  # an earlier test's runs have the same name
    done = {}

    def submit():
        done["r"] = me.run("submit", "-o", "json", "--request", request, "--", "sleep 1", cwd=project, check=False)
    t = threading.Thread(target=submit)
    t.start()
    for _ in range(3):
        time.sleep(0.05)  # an instant of its own each time, whichever it is
        old = pool.role_pid("gateway")
        pool.kill_role("gateway")
        wait_for("the gateway is back", lambda: pool.role_pid("gateway") not in (0, old) and up(pool))
    t.join()
    if done["r"].returncode:  # it gave up; the same again goes on
        submit()
    run = json.loads(done["r"].stdout)
    again = me.json("submit", "--request", request, "--", "sleep 1", cwd=project)
    assert again["id"] == run["id"] and again["steps"][0]["job"] == run["steps"][0]["job"]
    mine = [j for j in me.api("GET", "/jobs")[1]["jobs"] if j["name"] == run["name"] and j["id"] not in before]
    assert len(mine) == 1, mine
    assert os.path.getsize(there(pool, run["id"], "payload")) == 20_000_000
    assert [f for f in os.listdir(there(pool, "")) if f.startswith(".new")] == []


def up(pool):
    host, port = address(pool).split(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False
