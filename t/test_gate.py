"""The gate on live pods and jobs (I2 of docs/protocols.md 1.1): who comes late to a device, who waits for one in vain, who was never let in."""
import itertools
import os
import re
import signal
import socket
import time

import pytest

from harness import wait_for

pytestmark = pytest.mark.feature("A7.4")

STUBBORN = ["sh", "-c", "trap '' TERM; echo up; until [ -e /end ]; do sleep 0.1; done"]  # ends when the test says so
OTHERS = itertools.count(424242)  # jobs that Slurm knows nothing of; each asks once, because the gate remembers which runs have ended


def acquire(pool, node, devices, timeout_ms):
    """What Prolog of another job says at the node's gate, and the last line of the answer."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60 + timeout_ms / 1000)
        s.connect(pool.gate_socket(node))
        s.sendall(f"acquire job={next(OTHERS)} start={int(time.time())} uid=0 node={node} devices={','.join(map(str, devices))} timeout={timeout_ms}\n".encode())
        return s.makefile().read().splitlines()[-1]


@pytest.mark.nightly_real
@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A5.5")
def test_a_device_that_is_not_let_go_drains_the_node_in_our_words(pool):
    pool.apply(pool.pod("hold", gpus=2, command=STUBBORN, terminationGracePeriodSeconds=60))
    wait_for("it is stubborn", lambda: "up" in pool.kubectl("logs", "hold"))
    job, node, devices = pool.grant(pool.get("pod", "hold"))
    said = acquire(pool, node, devices, 1000)
    # A stand-in of the batch kind is a process of the job; an agent beside a kubelet looks at those first.
    words = re.search(rf"held by job {job} \((pod default/hold still runs|processes of the job are left on the node)\)", said)
    assert said.startswith("fail ") and words, said
    reason = f"tandem: gate, {words.group(0)}"
    wait_for("sinfo says why", lambda: re.search(re.escape(reason) + f" +{node}$", pool.shell("sinfo", "-h", "-R", "-o", "%E %N"), re.M))
    wait_for("the node says why", lambda: pool.get("node", node)["metadata"].get("annotations", {}).get("tandem.dev/slurm-reason") == reason)  # written after Slurm's
    if pool.plane == "real":  # there agents end no pod: the bridge does, when it sees that the grant has ended (docs/design/0010)
        pool.shell("scancel", job)
        wait_for("its pod is told to end", lambda: "tandem.dev/ended" in pool.get("pod", "hold")["metadata"]["annotations"])
    pool.kubectl("exec", "hold", "--", "touch", "/end")
    wait_for("the node is back", lambda: pool.idle_nodes() == len(pool.nodes) or pool.squeue())
    wait_for("nothing is left of it", lambda: "tandem.dev/gate-held" not in pool.get("node", node)["metadata"]["annotations"])
    wait_for("its pod is failed, as after scancel", lambda: pool.phase("hold") == "Failed" and "tandem.dev/ended" in pool.get("pod", "hold")["metadata"]["annotations"])
    assert acquire(pool, node, devices, 60000) == "ok"


@pytest.mark.nightly_real
def test_a_task_of_a_job_that_was_never_let_in_does_not_start(pool):
    """slurmd runs no Prolog for a job id that it still knows; a killed slurmctld gives ids out again. Here the gate's table is made to look so."""
    job = int(re.search(r"allocation (\d+)", pool.cmd("shell", "--user", "root", "--", "salloc", "--no-shell", "--gres=gpu:2", "--mem=100M").stderr).group(1))
    srun = ["shell", "--user", "root", "--", "srun", f"--jobid={job}", "--overlap", "hostname"]
    (node, devices), = pool.job_devices(job).items()
    assert pool.cmd(*srun).stdout.strip() == node
    assert acquire(pool, node, devices, 60000) == "ok"
    r = pool.cmd(*srun, check=False)
    assert r.returncode == 1, r
    assert r.stdout.startswith(f"tandem gate: job {job} was not let in to devices") and node not in r.stdout.splitlines(), r.stdout
    free = pool.cmd(*srun[:-1], "--gres=none", "hostname")  # a step without devices is nobody's business
    assert free.stdout.strip() == node


@pytest.mark.nightly_real
@pytest.mark.feature("A7.1")
def test_a_job_that_a_killed_slurmctld_starts_at_once_is_let_in_with_its_devices(pool):
    """Then Slurm may not tell Prolog the devices (S-P10). A job whose Prolog did not claim them would be sent back to the queue by TaskProlog."""
    begin = int(time.time()) + 15
    jobs = [pool.sbatch(f"--begin={time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(begin))}", "--gres=gpu:2", "-w", node, "-o", "/dev/null") for node in pool.nodes]
    wait_for("they begin soon", lambda: time.time() > begin - 0.5)  # by then slurmctld has saved them
    pid, = pool.daemons("slurmctld").values()
    os.kill(pid, signal.SIGKILL)
    known = wait_for("slurmctld answers", lambda: [j for j in jobs if pool.job(j)])
    wait_for("they run", lambda: all(pool.job(j).get("JobState") == "RUNNING" for j in known), 120)
    for j in known:
        # A job counts as running before its Prolog has asked for the devices: whoever asks first gets them. A step comes after Prolog.
        pool.shell("srun", f"--jobid={j}", "--overlap", "--gres=none", "true")
        assert pool.job(j)["Restarts"] == "0"
        (node, devices), = pool.job_devices(j).items()
        assert acquire(pool, node, devices, 1000).startswith(f"fail devices {min(devices)}-{max(devices)} of {node}: held by job {j} ")
