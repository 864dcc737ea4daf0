"""The programs that start Slurm's daemons in their pods (src/*/programs/*.sh), with stubs of Slurm's commands and no pool.

Each runs as in its container: /etc, /run, /opt, /home and /var/lib are a test's own, by a mount namespace, and so is the network."""
import os
import pathlib
import signal
import subprocess

import pytest

from harness import ended, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLURMD, LOGIN, SLURMRESTD, TRIAL, HOMES = (ROOT / f"src/operator/programs/{n}.sh" for n in ("slurmd", "login", "slurmrestd", "trial", "homes"))
GATE, SLURMCTLD, ACCOUNTS, TOPOLOGY, TASK_PROLOG = (ROOT / f"src/slurm/programs/{n}.sh" for n in ("gate", "slurmctld", "accounts", "topology", "task-prolog"))
KEEP = ROOT / "src/cli/programs/host-keep.sh"
pytestmark = pytest.mark.feature("A1")
OWN = ("etc", "run", "opt", "home", "var/lib", "usr/local/bin")
DEADLINE = 300  # of what hangs


class Container:
    """A directory that takes the place of some of the machine's; `calls` holds what stubs were called with, a line each."""

    def __init__(self, path):
        self.path = path
        for d in (*OWN, "bin", "opt/tandem", "etc/slurm", "etc/tandem/users", "var/lib/slurm/slurmctld"):
            (path / d).mkdir(parents=True)
        self.write("etc/tandem/users/passwd", "root:x:0:0::/root:/bin/sh\n")
        self.write("etc/tandem/users/group", "root:x:0:\n")
        self.write("etc/tandem/users/slurm.conf", "ClusterName=x\n")
        self.write("etc/tandem/users/homes.sh", HOMES.read_text())
        self.write("etc/tandem/users/directories", "home /home\n")

    def write(self, name, text):
        """Whole or not at all: a program that runs reads it at any moment."""
        new = self.path / f"{name}.new"
        new.write_text(text)
        new.replace(self.path / name)

    def read(self, name):
        p = self.path / name
        return p.read_text() if p.exists() else ""

    def stub(self, name, program="", at="bin"):
        p = self.path / at / name
        p.write_text(f'#!/bin/sh\n{{ printf %s "${{0##*/}}"; printf "|%s" "$@"; echo; }} >>{self.path}/calls\n{program}\n')
        p.chmod(0o755)

    def standin(self, program=""):
        self.stub("tandem-standin", program, "opt/tandem")

    def quick_sleep(self):
        """What looks after a daemon that has ended ends after its next pause."""
        self.write("bin/sleep", "#!/bin/sh\nexec /bin/sleep 0.05\n")
        (self.path / "bin/sleep").chmod(0o755)

    def calls(self):
        return self.read("calls").splitlines()

    def start(self, *command, before="", **env):
        """command in the container; `before`: shell that runs there first."""
        mounts = "".join(f"mount --bind {self.path}/{d} /{d}\n" for d in OWN)
        env = {"PATH": f"{self.path}/bin:/usr/sbin:/usr/bin:/sbin:/bin", **env}
        return subprocess.Popen(["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", f'set -e\n{mounts}ip link set lo up\n{before}\nexec "$@"', "sh", *map(str, command)],
                                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, *command, before="", **env):
        p = self.start(*command, before=before, **env)
        try:
            p.out, p.err = p.communicate(timeout=DEADLINE)
        finally:
            kill(p)
        return p


def kill(p):
    """And what it left behind."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    p.wait()


@pytest.fixture
def box(tmp_path):
    return Container(tmp_path)


# ---- gate.sh -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("code", [0, 1])
def test_the_prolog_is_the_gate_and_ends_as_it_does(box, code):
    box.standin(f"exit {code}")
    assert box.run("sh", GATE).returncode == code
    assert box.calls() == ["tandem-standin|gate"]


def test_a_prolog_without_the_gate_fails(box):
    assert box.run("sh", GATE).returncode == 127  # Slurm drains the node: nobody knows who has its devices


# ---- task-prolog.sh ------------------------------------------------------------------------------------------------------
@pytest.mark.feature("A10.3")
@pytest.mark.parametrize("step, env, want", [
    ("0", {"SLURM_STEP_NICS": "mlx4_4"}, "m0"),
    ("0", {"SLURM_STEP_NICS": "mlx4_4", "SLURM_JOB_NICS": "mlx4_4,mlx4_6"}, "m0"),  # of a script that has both
    ("0", {"SLURM_JOB_NICS": "mlx4_4,mlx4_6"}, None),  # a step that has none
    ("batch", {"SLURM_JOB_NICS": "mlx4_4,mlx4_6"}, "m0,m1"),
    ("batch", {"SLURM_JOB_NICS": "mlx4_6", "SLURM_STEP_NICS": "mlx4_4"}, "m1"),  # submitted in a step of another job
    ("batch", {"SLURM_STEP_NICS": "mlx4_4"}, None),
    ("interactive", {"SLURM_JOB_NICS": "mlx4_6"}, "m1")])
def test_a_task_knows_the_adapters_that_it_was_given(box, step, env, want):
    (box.path / "etc/tandem/site").mkdir()
    box.write("etc/tandem/site/fabric", "n0 #1\n#1 NCCL_IB_HCA %= 4/m0,6/m1\n")
    box.stub("task-prolog", at="opt/tandem")
    box.stub("awk", 'exec mawk "$@"')  # a link to /etc elsewhere
    box.stub("cat", f"echo 0::/job_7/step_{step}/user/task_0")
    said = box.run("sh", TASK_PROLOG, SLURMD_NODENAME="n0", **env)
    assert (said.returncode, said.out) == (0, f"export NCCL_IB_HCA=={want}\n" if want else ""), said.err


# ---- yield.sh ------------------------------------------------------------------------------------------------------------
@pytest.mark.feature("A14.9", "A14.10")
def test_yield_counts_what_each_run_of_a_job_left_idle(box):
    """Of a job that was queued again the comment of the last run says it of all. An allocation without a step idled."""
    runs = ["a|ann|REQUEUED|100|200|gres/gpu=2|7|", "a|ann|COMPLETED|300|400|gres/gpu=2|7|x tandem-use:300:150:50 tandem-use:100:0:200", "a|ann|COMPLETED|100|200|gres/gpu=1|8|",
            "a|ann|CANCELLED by 3|100|200|gres/gpu=1|9|tandem/main/ml/busy=30&idle=10&end=failed/u", "a|ann|REQUEUED|100|110|gres/gpu=1|10|tandem: pre-flight failed", "a|ann|PENDING|Unknown|Unknown||11|",
            "a|ann|TIMEOUT|100|200|gres/gpu=2|12|", "a|ann|TIMEOUT|100|150|gres/gpu=2|13|", "a|ann|COMPLETED|100|200|cpu=4|14|"]
    # Steps are asked for of those alone of which nothing else says whether they computed.
    box.stub("sacct", "case $* in *' -X '*) cat <<'END'\n" + "\n".join(runs) + "\nEND\nexit;; esac\nprintf '%s\\n' 8 8.batch 12 12.extern 13 13.0 13.1")
    said = subprocess.run(["sh", ROOT / "src/cli/programs/yield.sh", "0", "1000"], env={"PATH": f"{box.path}/bin:/usr/bin:/bin"}, capture_output=True, text=True, timeout=DEADLINE)
    assert sorted(said.stdout.splitlines()) == ["a|ann|COMPLETED|3|300|50", "a|ann|FAILED|1|100|25", "a|ann|REQUEUED|1|200|200", "a|ann|TIMEOUT|2|300|200", "a|ann|preflight|1|10|0"], said.stderr
    asked = [c.split("|-j|")[1].split("|")[0] for c in box.calls() if "|-j|" in c]
    assert [sorted(a.split(","), key=int) for a in asked] == [["8", "10", "12", "13"]]


# ---- nodetest.sh ---------------------------------------------------------------------------------------------------------
@pytest.mark.feature("B1.1")
@pytest.mark.parametrize("least, want", [
    ("", "passed: {SAID}"),
    ("gflops 16.00 1 80 % of 20.00, the median of 5 other nodes of its group\nmemoryMBps 9000.00 0 x\ndiskWriteMBps 90.00 1 y\nlinkMbps 400000.00 0 z", "passed: {SAID}"),
    ("gflops 16.00 1 x\ndiskWriteMBps 150.00 0 50 % of 300.00, the median of 3 other nodes of its group", "failed: diskWriteMBps: 100.00 is less than 150.00, 50 % of 300.00, the median of 3 other nodes of its group"),
    ("linkMbps 760000.00 0 95 % of 800000.00, the median of 3 other nodes of its group", "failed: linkMbps: 400000.00 is less than 760000.00, 95 % of 800000.00, the median of 3 other nodes of its group"),
    ("diskReadMBps 1.00 0 x", "passed: {SAID}"),  # the others say it, this one's older program does not
    ("diskReadMBps 1.00 1 the least that the policy allows", "failed: diskReadMBps: the test did not say it: {SAID}"),
])
def test_a_node_far_off_fails_its_test(tmp_path, least, want):
    """Computing, memory, disk and links, each with what is asked for."""
    measured = '{"gflops":20.00,"memoryMBps":10000.00,"diskWriteMBps":100.00'
    said = measured + ',"linkMbps":400000.00}'
    text = (ROOT / "src/operator/programs/nodetest.sh").read_text().replace("/work", str(tmp_path)).replace("/dev/termination-log", str(tmp_path / "said"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "bin").mkdir()
    for name, program in [("sackd", "exec sleep 60"), ("sbatch", "echo 7"), ("cp", "true"), ("scontrol", 'case $* in *job*) echo "JobId=7 JobState=COMPLETED Comment=%s ";; *) echo "   Partitions=all";; esac' % (measured.replace('"', '\\"') + "}"))]:
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    subprocess.run(["sh", "-c", text, "nodetest.sh", "test"], env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "TD_NODE": "n1", "TD_GPUS": "0", "TD_TESTED": "", "TD_MS": "10", "TD_LEAST": least, "TD_LINKS": "400000.00"}, timeout=DEADLINE)
    assert (tmp_path / "said").read_text() == want.replace("{SAID}", said)


# ---- slurmctld.sh --------------------------------------------------------------------------------------------------------
STATE = "/var/lib/slurm/slurmctld"


def slurmctld(box, conf, standin="echo 700"):
    box.write("etc/slurm/slurm.conf", conf)
    box.write("etc/slurm/gres.conf", "Name=gpu\n")
    box.standin(standin)
    box.stub("slurmctld")
    box.quick_sleep()
    return box.run("sh", SLURMCTLD, "slurmctld", "-D")


def test_slurmctld_starts_at_the_id_that_the_standin_says(box):
    p = slurmctld(box, "ClusterName=x\nFirstJobId=5\n firstjobid = 6 # again\nMaxJobId=9000\n")
    assert p.returncode == 0, p.err
    assert box.calls() == [f"tandem-standin|first-job-id|--state|{STATE}|--first|6|--max|9000", "slurmctld|-D|-f|/run/slurmctld/etc/slurm.conf"]
    assert box.read("run/slurmctld/etc/slurm.conf") == "ClusterName=x\nMaxJobId=9000\nFirstJobId=700\n"
    assert box.read("run/slurmctld/etc/gres.conf") == "Name=gpu\n"
    assert "FirstJobId=5" in box.read("etc/slurm/slurm.conf")


def test_slurmctld_without_limits_of_ids(box):
    assert slurmctld(box, "ClusterName=x\n#FirstJobId=5\n").returncode == 0
    assert box.calls()[0] == f"tandem-standin|first-job-id|--state|{STATE}|--first||--max|"


def test_slurmctld_forgets_the_files_of_the_last_start(box):
    (box.path / "run/slurmctld/etc").mkdir(parents=True)
    box.write("run/slurmctld/etc/topology.conf", "old\n")
    assert slurmctld(box, "ClusterName=x\n").returncode == 0
    assert not (box.path / "run/slurmctld/etc/topology.conf").exists()


@pytest.mark.feature("C6.5")
@pytest.mark.parametrize("cut", ["", "before", "new", "whole", "records", "put", "taken"])
def test_use_that_was_given_is_added_once(box, cut):
    """Also by a start after one that ended anywhere in between."""
    s = STATE.lstrip("/")
    (box.path / s / "tandem-use").mkdir()
    box.write(f"{s}/assoc_usage", "OLD+NEW" if cut in ("put", "taken") else "OLD")
    for name, text, there in (("records", "+NEW", cut not in ("records", "put", "taken")), ("taken", "a|ann|\n", cut != "taken"),
                              ("new", "OL", cut == "new"), ("whole", "OLD+NEW", cut in ("whole", "records"))):
        if there:
            box.write(f"{s}/tandem-use/{name}", text)
    if cut == "taken":
        box.write(f"{s}/tandem-use-taken", "a|ann|\n")
    for _ in range(2):
        assert slurmctld(box, "ClusterName=x\n").returncode == 0
        assert box.read(f"{s}/assoc_usage") == "OLD+NEW" and box.read(f"{s}/tandem-use-taken") == "a|ann|\n"
        assert not (box.path / s / "tandem-use").exists()


@pytest.mark.feature("C6.5")
def test_use_waits_until_slurmctld_has_saved_a_state(box):
    s = STATE.lstrip("/")
    (box.path / s / "tandem-use").mkdir()
    box.write(f"{s}/tandem-use/records", "+NEW")
    assert slurmctld(box, "ClusterName=x\n").returncode == 0
    assert box.read(f"{s}/tandem-use/records") == "+NEW" and not box.read(f"{s}/assoc_usage")


@pytest.mark.parametrize("standin", ["exit 1", "echo 5; exit 1"])
def test_no_slurmctld_starts_when_its_ids_are_not_known(box, standin):
    assert slurmctld(box, "ClusterName=x\n", standin).returncode == 1
    assert len(box.calls()) == 1


def test_no_slurmctld_starts_without_a_configuration(box):
    box.stub("slurmctld")
    box.standin("echo 1")
    p = box.run("sh", SLURMCTLD, "slurmctld", "-D")
    assert p.returncode and "cp:" in p.err and not box.calls()


def test_slurmctld_with_the_real_standin(box, build):
    box.write("etc/slurm/slurm.conf", "ClusterName=x\n")
    box.stub("slurmctld")
    box.quick_sleep()
    (box.path / "opt/tandem/tandem-standin").write_bytes((build / "src/standin/tandem-standin").read_bytes())
    (box.path / "opt/tandem/tandem-standin").chmod(0o755)
    for first in ("1", "10001"):  # nothing takes the pid file away: the second start follows a kill
        p = box.run("sh", SLURMCTLD, "slurmctld", "-D")
        assert p.returncode == 0, p.err
        assert box.read("run/slurmctld/etc/slurm.conf").endswith(f"\nFirstJobId={first}\n")
        box.write("var/lib/slurm/slurmctld/slurmctld.pid", "7\n")


def told(box, show):
    """What scontrol is: asking does this once slurmctld was told, and answers before."""
    return f'[ "$1" = show ] && grep -Eq "^(scontrol.reconfigure|slurmctld.again)" {box.path}/calls || exit 0\n{show}'


def restarted(box, scontrol, patience, before=(), standin="echo 700"):
    """A slurmctld that starts itself anew at SIGHUP. before: what runs the script."""
    box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 1\n")
    box.standin(standin)
    # From the moment on in which it is another one it answers nobody: whoever sees that it is must not be answered by this stub.
    box.stub("slurmctld", f"trap 'echo \"slurmctld|again\" >>{box.path}/calls; exec \"$0\" again' HUP\n: >{box.path}/ready\n/bin/sleep 600 &\nwait")
    box.stub("sleep", "exec /bin/sleep 0.05")
    box.stub("timeout", 'shift; exec /usr/bin/timeout 1 "$@"')
    box.stub("scontrol", scontrol)
    (box.path / "run/slurmctld").mkdir()
    box.write("run/slurmctld/patience", f"{patience}\n")
    p = box.start(*before, "sh", SLURMCTLD, "slurmctld", "-D")
    wait_for("it runs", (box.path / "ready").exists)
    return p


@pytest.mark.feature("A2.10")
@pytest.mark.parametrize("show", ["exit 1", f"exec /bin/sleep {DEADLINE}"], ids=["refuses", "hangs"])
def test_slurmctld_that_answers_nobody_after_it_was_told_is_ended(box, show):
    """Its container starts it again, and the next one is waited for longer."""
    p = restarted(box, told(box, show), 1)
    try:
        box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 2\n")
        assert p.wait(DEADLINE) == -signal.SIGKILL
        assert box.read("run/slurmctld/patience") == "2\n"
        assert box.read("var/lib/slurm/slurmctld/tandem-told") == "# Revision: 1\n"  # the slurmds are to be told again
    finally:
        kill(p)


@pytest.mark.feature("A2.10")
def test_slurmctld_that_answers_nobody_is_ended_where_its_script_is_pid_1(box, build):
    """As in a kubelet's container: whatever is PID 1 there is not ended by SIGKILL from inside."""
    real = build / "src/standin/tandem-standin"
    (box.path / "opt/tandem/init").write_bytes(real.read_bytes())
    (box.path / "opt/tandem/init").chmod(0o755)
    pid1 = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    p = restarted(box, told(box, "exit 1"), 1, pid1, standin='[ "$1" != init ] || exec /opt/tandem/init "$@"\necho 700')
    try:
        box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 2\n")
        assert p.wait(DEADLINE) == 128 + signal.SIGKILL
        assert box.read("run/slurmctld/patience") == "2\n"
    finally:
        kill(p)


@pytest.mark.feature("A2.10")
def test_slurmctld_that_is_slow_after_it_was_told_goes_on(box):
    p = restarted(box, told(box, f"n=$(sed '1,/^scontrol.reconfigure/d' {box.path}/calls | grep -c show); [ $n -gt 3 ]"), 60)
    try:
        box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 2\n")
        wait_for("the slurmds are told", lambda: box.read("var/lib/slurm/slurmctld/tandem-told") == "# Revision: 2\n")
        assert p.poll() is None and box.read("run/slurmctld/patience") == ""  # it was not as slow as that
    finally:
        kill(p)


@pytest.mark.feature("A2.10")
def test_slurmctld_that_somebody_else_told_is_watched_too(box):
    p = restarted(box, told(box, "exit 1"), 1)
    try:
        wait_for("it is looked at", lambda: box.calls().count("sleep|2") > 3)
        assert p.poll() is None
        os.kill(p.pid, signal.SIGHUP)  # as scontrol reconfigure does
        assert p.wait(DEADLINE) == -signal.SIGKILL
        assert "scontrol|reconfigure" not in box.calls()
    finally:
        kill(p)


@pytest.mark.feature("A2.10")
def test_slurmctld_that_waits_for_slurmdbd_is_told_only_when_it_answers(box):
    p = restarted(box, f'[ "$1" != show ] || [ -e {box.path}/up ]', 60)
    try:
        box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 2\n")
        wait_for("it is asked again and again", lambda: box.calls().count("scontrol|show|config") > 4)
        assert "scontrol|reconfigure" not in box.calls()
        box.write("up", "")
        wait_for("it is told", lambda: "scontrol|reconfigure" in box.calls())
        assert "sleep|10" in box.calls()[box.calls().index("scontrol|show|config"):]  # not at the moment when it begins to answer
    finally:
        kill(p)


@pytest.mark.feature("A2.10")
def test_slurmctld_that_never_answers_gets_another_configuration_in_the_end(box):
    box.write("now", "0")
    box.stub("date", f"n=$(($(cat {box.path}/now) + 30)); echo $n | tee {box.path}/now")
    p = restarted(box, "exit 1", 60)
    try:
        box.write("etc/slurm/slurm.conf", "ClusterName=x\n# Revision: 2\n")
        assert p.wait(DEADLINE) == -signal.SIGKILL
        assert box.calls()[:box.calls().index("scontrol|reconfigure")].count("scontrol|show|config") >= 4
    finally:
        kill(p)


# ---- topology.sh ---------------------------------------------------------------------------------------------------------
@pytest.mark.feature("A2.5")
def test_slurmctld_is_to_read_the_topology_again_while_a_node_of_it_is_not_in_its_tree(box):
    """A node that went and came again between two looks, too. Not for one that topology.conf does not name, nor for ever."""
    conf, asked = "SwitchName=a Nodes=n0,n1\nSwitchName=top Switches=a\n", box.path / "run/slurmctld/etc/asked"
    asked.parent.mkdir(parents=True)
    for at in ("etc/slurm", "run/slurmctld/etc"):
        box.write(f"{at}/topology.conf", conf)
    box.write("known", "n1\nn0\nextra\n")
    box.write("tree", "n0,n1")
    box.stub("sinfo", f"cat {box.path}/known")
    box.stub("sleep", "exec /bin/sleep 0.05")
    box.stub("scontrol", f'case $2 in hostnames) echo "$3" | tr , "\\n" ;; *) echo "SwitchName=a Level=0 LinkSpeed=1 Nodes=n0,n1"\n'
                         f'echo "SwitchName=top Level=1 LinkSpeed=1 Nodes=$(cat {box.path}/tree) Switches=a" ;; esac')
    looks = lambda: sum(c.startswith("sinfo|") for c in box.calls())
    asked.write_text("")
    p = box.start("sh", TOPOLOGY, "/run/slurmctld/etc")
    try:
        wait_for("it has looked", lambda: looks() > 3)
        assert asked.exists()
        box.write("tree", "n0")
        wait_for("it is to be read", lambda: not asked.exists())
        asked.write_text("")
        n = looks()
        wait_for("it has looked again", lambda: looks() > n + 3 or not asked.exists())
        assert asked.exists() or looks() >= n + 29  # every 30th time it asks once more, which a busy machine may be too late to miss
        asked.write_text("")
        box.write("etc/slurm/topology.conf", conf.replace("n1", "n2"))
        wait_for("it is to be read for another topology", lambda: not asked.exists())
    finally:
        kill(p)


# ---- trial.sh ------------------------------------------------------------------------------------------------------------
def trial(box, conf, program, version="slurm-wlm 24.11.5", **env):
    box.write("etc/slurm/slurm.conf", conf)
    box.stub("slurmctld", f'[ "$1" != -V ] || {{ echo {version}; exit; }}\n{program}')
    return box.run("sh", "-c", TRIAL.read_text(), "trial.sh", **env)


def test_a_trial_ends_well_when_slurmctld_is_up_and_stops_it(box):
    p = trial(box, "ClusterName=x\nSlurmctldHost=a(b)\nStateSaveLocation=/var/lib/slurm/slurmctld\n slurmctldprimaryonprog = /bin/page\nPriorityType=priority/multifactor\n",
              f"echo $$ >{box.path}/pid; echo 'slurmctld: error: Configured MailProg is invalid'; echo 'slurmctld: Running as primary controller'; exec sleep 60", TD_VERSION="24.11")
    assert p.returncode == 0, p.err
    assert not os.path.exists(f"/proc/{box.read('pid').strip()}/exe"), "no second slurmctld stays"
    conf = box.read("run/slurmctld/etc/slurm.conf").splitlines()
    assert conf == ["ClusterName=x", "PriorityType=priority/multifactor", f"SlurmctldHost={os.uname().nodename}(127.0.0.1)", "StateSaveLocation=/run/slurmctld/state",
                    "SlurmctldPidFile=/run/slurmctld/state/pid", "SlurmctldDebug=info"]
    assert not os.listdir(box.path / "var/lib/slurm/slurmctld")


def test_a_trial_says_why_slurmctld_does_not_start(box):
    p = trial(box, "Bogus=1\n", "echo 'slurmctld: error: unrecognized key: Bogus'; echo 'slurmctld: debug'; echo 'slurmctld: fatal: no'; exit 1")
    assert p.returncode == 1 and "slurmctld: debug" in p.out
    assert box.read("run/trial-said") == "slurmctld: error: unrecognized key: Bogus\nslurmctld: fatal: no\n"


def test_a_trial_reaches_no_database(box):
    assert trial(box, "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=db\nPriorityType=priority/multifactor\n", "exit 1").returncode == 1
    conf = box.read("run/slurmctld/etc/slurm.conf")
    assert "Accounting" not in conf and "PriorityType" not in conf


def test_a_trial_refuses_an_image_of_another_release(box):
    assert trial(box, "", "exit 1", TD_VERSION="25.05").returncode == 3
    assert box.read("run/trial-said") == "slurm-wlm 24.11.5"


@pytest.mark.feature("F2.2")
@pytest.mark.parametrize("version, runs, code", [("slurm 25.11.7", "25.11.7", 0), ("slurm-wlm 26.05.5", "25.11.7", 0), ("slurm 25.11.1", "25.11.7", 0),
                                                 ("slurm-wlm 24.11.5", "25.11.7", 4), ("slurm 25.11.7", "26.05.5", 4), ("slurm 24.05.8", "", 4), ("slurm-wlm 24.11.5-rc1", "", 0)])
def test_a_trial_refuses_an_image_that_is_older_than_what_works(box, version, runs, code):
    """It would not read the state that is there, and nobody would answer until the newer one is back."""
    assert trial(box, "", "echo 'Running as primary controller'; exec sleep 60", version, TD_RUNS=runs).returncode == code
    assert code == 0 or box.read("run/trial-said") == version


@pytest.mark.feature("F2.2", "B7.2")
@pytest.mark.parametrize("version, runs, oldest, code", [("slurm-wlm 26.05.5", "24.11.5", "24.11", 0), ("slurm 26.11.0", "24.11.5", "", 5), ("slurm 26.11.0", "25.05.1", "24.11", 5),
                                                         ("slurm 26.11.0", "", "", 0), ("slurm 26.11.0", "25.05.1", "25.11", 0)])
def test_a_trial_refuses_an_image_that_is_too_far_from_what_works(box, version, runs, oldest, code):
    assert trial(box, "", "echo 'Running as primary controller'; exec sleep 60", version, TD_RUNS=runs, TD_OLDEST=oldest).returncode == code
    assert code == 0 or box.read("run/trial-said") == f"{version} and 24.11"


def test_a_trial_in_an_image_without_slurmctld(box):
    p = box.run("sh", "-c", TRIAL.read_text(), "trial.sh", PATH=f"{box.path}/bin:/bin:/usr/bin")
    assert p.returncode == 1 and "fatal: slurmctld -V" in box.read("run/trial-said")


# ---- slurmrestd.sh -------------------------------------------------------------------------------------------------------
def test_slurmrestd_has_a_socket_of_its_own(box):
    box.stub("slurmrestd", "umask")
    p = box.run("sh", "-c", SLURMRESTD.read_text(), "slurmrestd.sh", "/run/rest/a b/api.sock", "slurmctld,slurmdbd")
    assert p.returncode == 0 and p.out.strip() == "0077"
    assert box.calls() == ["slurmrestd|-a|rest_auth/jwt|-s|slurmctld,slurmdbd|unix:/run/rest/a b/api.sock"]
    assert (box.path / "run/rest/a b").stat().st_mode & 0o777 == 0o700


def test_slurmrestd_without_its_directory_does_not_start(box):
    box.stub("slurmrestd")
    box.write("run/rest", "in the way\n")
    assert box.run("sh", "-c", SLURMRESTD.read_text(), "slurmrestd.sh", "/run/rest/private/api.sock").returncode
    assert not box.calls()


# ---- login.sh ------------------------------------------------------------------------------------------------------------
def test_login_makes_the_homes_of_people(box):
    box.stub("sackd")
    box.write("etc/tandem/users/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1001:Ann, of *:/home/ann:/bin/bash\nold:x:1002:1002::/home/old:/bin/sh\n"
                                         "srv:x:990:990::/home/srv:/bin/false\nodd:x:1003:1003::/srv/odd:/bin/sh\nbare:x:1004:1004::/home/:/bin/sh\n")
    (box.path / "home/old").mkdir(mode=0o700)
    p = box.run("sh", "-c", LOGIN.read_text())
    assert p.returncode == 0, p.err
    assert box.calls() == ["sackd|-D"]
    assert sorted(x.name for x in (box.path / "home").iterdir()) == ["ann", "old"]
    st = (box.path / "home/ann").stat()
    assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (1000, 1001, 0o700)
    assert (box.path / "home/old").stat().st_mode & 0o777 == 0o700
    assert os.readlink(box.path / "etc/passwd") == "/etc/tandem/users/passwd"
    assert (box.path / "run/slurm").is_dir()


@pytest.mark.feature("A2.15")
def test_a_login_pod_whose_sackd_ends_says_so(box):
    box.stub("sackd", "exit 3")
    assert box.run("sh", "-c", LOGIN.read_text(), TD_LAST_WORDS=f"{box.path}/words").returncode == 3
    assert box.read("words").startswith("sackd ended (exit 3)")
    box.stub("sackd", "exec sleep 600")
    p = box.start("sh", "-c", LOGIN.read_text(), TD_LAST_WORDS=f"{box.path}/words-2")
    wait_for("sackd runs", lambda: len(box.calls()) == 2)
    try:
        p.terminate()
        p.communicate(timeout=DEADLINE)
    finally:
        kill(p)
    assert not (box.path / "words-2").exists(), "it was asked to end"


@pytest.mark.feature("A2.15")
def test_a_login_pod_says_what_has_failed_in_it(box):
    """To the kubelet's probe (src/operator/logins.c)."""
    for d in ("etc/tandem/site", "run/tandem-services", "run/tandem-ssh"):
        (box.path / d).mkdir(parents=True, exist_ok=True)
    said = lambda: (lambda p: (p.returncode, p.out))(box.run("sh", ROOT / "src/slurm/programs/services.sh", "failed", "login"))  # noqa: E731
    assert said() == (0, "")
    box.write("etc/tandem/site/services", "a oneshot login 60s block -\nb service all 60s ignore a\nc oneshot compute 60s block -\n")
    box.write("run/tandem-services/a.state", "done\n")
    box.write("run/tandem-services/b.state", "running\n")
    box.write("run/tandem-services/c.state", "failed exit 9\n")
    assert said() == (0, "")
    box.write("run/tandem-services/b.state", "failed exit 3: no such host\n")
    assert said() == (1, "tandem: service b: exit 3: no such host\n")
    box.write("run/tandem-ssh/failed", "sshd ended (exit 255)\n")
    assert said() == (1, "tandem: service b: exit 3: no such host; sshd ended (exit 255)\n")
    box.write("run/tandem-services/b.state", "running\n")
    assert said() == (1, "tandem: sshd ended (exit 255)\n")


def test_login_with_an_image_that_has_no_sackd_says_so_and_stays(box):
    box.stub("sleep")
    p = box.run("sh", "-c", LOGIN.read_text(), PATH=f"{box.path}/bin:/bin")  # Slurm's commands are in /usr/sbin
    assert "has no sackd" in p.err
    assert box.calls() == ["sleep|infinity"]


def test_login_makes_the_home_of_a_user_who_comes_later(box):
    box.stub("sackd", "exec sleep 600")
    passwd = box.read("etc/tandem/users/passwd")
    p = box.start("sh", "-c", LOGIN.read_text())
    try:
        wait_for("sackd runs", lambda: box.calls())
        box.write("etc/tandem/users/passwd", passwd + "ann:x:1000:1001::/home/ann:/bin/bash\n")
        wait_for("her home is there", lambda: (box.path / "home/ann").is_dir())
    finally:
        kill(p)


# ---- accounts.sh ---------------------------------------------------------------------------------------------------------
def test_users_reach_a_container_that_runs_and_files_stay_the_same_ones(box):
    ann, bob = "ann:x:1000:1000::/home/ann:/bin/sh\n", "bob:x:1001:1001::/home/bob:/bin/sh\n"
    for f in ("passwd", "group"):
        box.write(f"etc/slurm/{f}", ann)
    (box.path / "run/accounts").mkdir()
    assert box.run("sh", ACCOUNTS, "once", "/run/accounts").returncode == 0
    assert box.read("run/accounts/passwd") == box.read("run/accounts/group") == ann
    for f in ("passwd", "group"):
        box.write(f"etc/{f}", ann)
    inode = os.stat(box.path / "etc/passwd").st_ino
    p = box.start("sh", ACCOUNTS)
    try:
        for text in (ann + bob, bob):  # one comes, one goes
            box.write("etc/slurm/passwd", text)
            wait_for("it is followed", lambda: box.read("etc/passwd") == text)
        assert os.stat(box.path / "etc/passwd").st_ino == inode and box.read("etc/group") == ann
    finally:
        kill(p)


# ---- slurmd.sh -----------------------------------------------------------------------------------------------------------
ENV = {"TD_NODE": "n1", "TD_NODE_CONF": "CPUs=4 Feature=set.x", "TD_CONTROLLER": "127.0.0.1", "TD_DEAD_REASON": "it died"}
# A slurmctld that takes connections, as far as the port goes.
LISTEN = "python3 -c 'import socket, time; socket.create_server((\"127.0.0.1\", 6817)).accept(); time.sleep(60)' >/dev/null 2>&1 &"


def test_slurmd_starts_when_slurmctld_listens_and_the_dead_are_cleared_away(box):
    box.stub("sackd", f"echo $$ >{box.path}/sack; exec sleep 60")
    box.standin(f'echo "conf=$SLURM_CONF" >>{box.path}/calls; exit 1')
    box.stub("slurmd", f"kill -0 $(cat {box.path}/sack) 2>/dev/null && echo sackd lives >>{box.path}/calls\n[ ! -e /proc/self/fd/8 ] && [ ! -e /proc/self/fd/9 ]")
    p = box.run("bash", "-c", SLURMD.read_text(), before=LISTEN, **ENV)
    assert p.returncode == 0, p.err
    calls = box.calls()
    assert calls[0] == "sackd|-D|-f|/etc/tandem/users/slurm.conf"
    assert calls[1:3] == ["tandem-standin|clear-dead|--node|n1|--reason|it died", "conf=/etc/tandem/users/slurm.conf"]
    assert calls[3:] == ["slurmd|-D|-Z|-N|n1|--conf-server|127.0.0.1:6817|--conf|CPUs=4 Feature=set.x"]
    assert os.readlink(box.path / "etc/group") == "/etc/tandem/users/group"


def test_slurmd_without_sackd_clears_nothing_away(box):
    box.stub("slurmd")
    box.standin()
    p = box.run("bash", "-c", SLURMD.read_text(), before=LISTEN, **{**ENV, "PATH": f"{box.path}/bin:/bin:/usr/bin"})
    assert p.returncode == 0, p.err
    assert [c.split("|")[0] for c in box.calls()] == ["slurmd"]


@pytest.mark.feature("D3.9")
def test_no_slurmd_starts_where_jobs_would_have_no_filter_of_system_calls(box):
    """Slurm passes over a plug-in that is not there."""
    box.stub("slurmd")
    box.standin()
    env = {**ENV, "PATH": f"{box.path}/bin:/bin:/usr/bin", "TD_FILTERS": "yes", "TD_LAST_WORDS": str(box.path / "words")}
    p = box.run("bash", "-c", SLURMD.read_text(), before=LISTEN, **env)
    assert p.returncode == 1 and "no tandem-filter.so" in p.err and not box.calls()
    assert box.read("words") and box.read("words") in p.err
    box.write("opt/tandem/tandem-filter.so", "")
    p = box.run("bash", "-c", SLURMD.read_text(), before=LISTEN, **env)
    assert p.returncode == 0, p.err
    assert [c.split("|")[0] for c in box.calls()] == ["slurmd"]


def test_slurmd_waits_for_slurmctld(box):
    box.stub("slurmd")
    go = box.path / "go"
    os.mkfifo(go)
    p = box.start("bash", "-c", SLURMD.read_text(), before=f"{{ read -r _ <{go}; {LISTEN} }} &", **{**ENV, "PATH": f"{box.path}/bin:/bin:/usr/bin"})
    try:
        wait_for("it is past what comes before the wait", (box.path / "run/slurm").is_dir)
        assert not box.calls()
        go.write_text("\n")
        p.communicate(timeout=DEADLINE)
        assert [c.split("|")[0] for c in box.calls()] == ["slurmd"]
    finally:
        kill(p)


def test_slurmd_makes_cgroups_writable_beside_a_kubelet_only(box):
    box.stub("slurmd")
    box.stub("mountpoint", "[ \"$2\" = /sys/fs/cgroup ]")
    box.stub("mount")
    path = "/usr/sbin:/usr/bin:/sbin:/bin"  # the container's own mounts need the real command
    for cgroups, want in (("", []), ("remount", ["mount|-o|remount,bind,rw|/sys/fs/cgroup"])):
        (box.path / "calls").unlink(missing_ok=True)
        p = box.run("bash", "-c", SLURMD.read_text(), before=f"{LISTEN}\nPATH={box.path}/bin:{path}", **{**ENV, "PATH": path, "TD_CGROUPS": cgroups})
        assert p.returncode == 0, p.err
        assert [c for c in box.calls() if c.startswith("mount|")] == want


# ---- host-keep.sh --------------------------------------------------------------------------------------------------------
AGAIN = """import os, signal, sys, threading
def again(*_):
    threading.Thread(target=os.execv, args=(sys.executable, [sys.executable, *sys.argv, "again"])).start()
signal.signal(signal.SIGHUP, again)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
print(os.getpid(), len(sys.argv), flush=True)
while True:
    signal.pause()
"""


@pytest.mark.feature("C6.6", "A17.1")
def test_a_daemon_that_executes_itself_ends_with_who_watches_it(tmp_path):
    """As Slurm's do, from a thread, for a new configuration or key: the kernel has forgotten their parent-death signal then."""
    (tmp_path / "daemon").write_text(AGAIN)
    words = ["setpriv", "--pdeathsig", "TERM", "sh", "-c", KEEP.read_text(), "keep", "/usr/bin/python3", str(tmp_path / "daemon")]

    def begin(*before):
        """(who watches, the shell, the daemon, what it says)."""
        p = subprocess.Popen([*before, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        daemon = int(p.stdout.readline().split()[0])
        keep = int((pathlib.Path("/proc") / str(daemon) / "stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(keep, signal.SIGHUP)
        assert p.stdout.readline() == f"{daemon} 2\n"  # the same process, anew
        return p, keep, daemon

    p, keep, daemon = begin("sh", "-c", '"$@" & wait', "watch")
    assert keep != p.pid
    p.kill()
    assert p.stdout.read() == ""  # nobody has it any more
    wait_for("the daemon has ended", lambda: ended(daemon))
    p.wait(DEADLINE)
    p, keep, daemon = begin()
    assert keep == p.pid
    os.kill(daemon, signal.SIGUSR1)
    assert p.wait(DEADLINE) == 7
    p, keep, daemon = begin()
    p.terminate()
    p.wait(DEADLINE)
    assert ended(daemon)
