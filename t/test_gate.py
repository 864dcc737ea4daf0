"""The gate on live pods and jobs (I2): who comes late to a device, who waits for one in vain, who was never let in."""
import re
import socket
import time

import pytest

from harness import wait_for

STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]  # ends by KILL only
OTHER = 424242  # a job that Slurm knows nothing of


def acquire(pool, node, devices, timeout_ms):
    """What Prolog of another job says at the node's gate, and the last line of the answer."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(f"{pool.run_dir}/nodes/{node}/gate.sock")
        s.sendall(f"acquire job={OTHER} start={int(time.time())} uid=0 node={node} devices={','.join(map(str, devices))} timeout={timeout_ms}\n".encode())
        return s.makefile().read().splitlines()[-1]


@pytest.mark.asan
@pytest.mark.feature("A7")
def test_a_device_that_is_not_let_go_drains_the_node_in_our_words(pool):
    pool.apply(pool.pod("hold", gpus=2, command=STUBBORN, terminationGracePeriodSeconds=6))
    wait_for("it runs", lambda: pool.phase("hold") == "Running")
    job, node, devices = pool.grant(pool.get("pod", "hold"))
    said = acquire(pool, node, devices, 1000)
    assert said.startswith("fail ") and f"held by job {job} (pod default/hold still runs)" in said
    reason = f"tandem: gate, held by job {job} (pod default/hold still runs)"
    wait_for("sinfo says why", lambda: re.search(re.escape(reason) + f" +{node}$", pool.shell("sinfo", "-h", "-R", "-o", "%E %N"), re.M))
    assert pool.get("node", node)["metadata"]["annotations"]["tandem.dev/slurm-reason"] == reason
    wait_for("the node is back", lambda: pool.idle_nodes() == 4 or pool.squeue())
    wait_for("nothing is left of it", lambda: "tandem.dev/gate-held" not in pool.get("node", node)["metadata"]["annotations"])
    wait_for("its pod is gone, as after scancel", lambda: not pool.items("pods", "-n", "default"))
    assert acquire(pool, node, devices, 1000) == "ok"


@pytest.mark.feature("A7")
def test_a_task_of_a_job_that_was_never_let_in_does_not_start(pool):
    """slurmd runs no Prolog for a job id that it still knows; a killed slurmctld gives ids out again. Here the gate's table is made to look so."""
    job = int(re.search(r"allocation (\d+)", pool.run(pool.tandem, "shell", "--", "salloc", "--no-shell", "--gres=gpu:2", "--mem=100M").stderr).group(1))
    srun = ["shell", "--", "srun", f"--jobid={job}", "--overlap", "hostname"]
    (node, devices), = pool.job_devices(job).items()
    assert pool.cmd(*srun).stdout.strip() == node
    assert acquire(pool, node, devices, 5000) == "ok"
    r = pool.cmd(*srun, check=False)
    assert r.returncode == 1, r
    assert r.stdout.startswith(f"tandem gate: job {job} was not let in to devices") and node not in r.stdout.splitlines(), r.stdout
    free = pool.cmd(*srun[:-1], "--gres=none", "hostname")  # a step without devices is nobody's business
    assert free.stdout.strip() == node
