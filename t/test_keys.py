"""How daemons and users prove who they are (docs/keys.md): munge as the other choice. One pool of two nodes, whose type is changed."""
import json
import os
import signal

import pytest

from harness import wait_for

NS = ("-n", "slurm")


@pytest.fixture
def pool(own_pool):
    return own_pool


def auth(pool, **fields):
    pool.kubectl("patch", "slurmcluster", "main", *NS, "--type", "merge", "-p", json.dumps({"spec": {"auth": fields}}))


def said(pool):
    return next(c["message"] for c in pool.get("slurmcluster", "main", *NS)["status"]["conditions"] if c["type"] == "ConfigValid")


def user(pool, line, **kw):
    return pool.cmd("shell", "--", "sh", "-c", line, **kw).stdout


def settled(pool):
    """Every pod of Slurm has munged, and Slurm has its nodes."""
    pods = pool.items("pods", *NS)
    return all("munged" in [c["name"] for c in p["spec"].get("initContainers", [])] for p in pods) and \
        pool.get("slurmcluster", "main", *NS)["status"]["phase"] == "Running" and pool.idle_nodes() == len(pool.nodes)


@pytest.mark.embedded  # the real plane's pool is everybody's
@pytest.mark.feature("A1.7", "A1.6")
def test_munge_is_the_other_choice_and_is_refused_while_jobs_run(pool):
    job = pool.sbatch()
    wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    wait_for("the operator knows", lambda: pool.get("slurmcluster", "main", *NS)["status"]["nodes"].get("mixed"))
    auth(pool, type="munge")
    wait_for("it is refused", lambda: "spec.auth.type: jobs run on 1 nodes" in said(pool))
    assert pool.job(job)["JobState"] == "RUNNING" and "auth/slurm" in user(pool, "scontrol show config | grep AuthType")
    # What waits is still there afterwards.
    waits = pool.sbatch("--begin=now+1hour")
    pool.shell("scancel", job)
    wait_for("munge is in force", lambda: settled(pool), 180)
    assert user(pool, "scontrol show config | grep -oE '(auth|cred)/munge' | sort -u").split() == ["auth/munge", "cred/munge"]
    assert pool.job(waits)["JobState"] == "PENDING"
    pool.shell("scancel", waits)

    # Users: interactive over two nodes, a batch job, its history. The key is not for them, nor for root where people work.
    assert user(pool, "srun -N2 --mem=50M id -un").split() == ["researcher"] * 2
    job = user(pool, "sbatch --parsable --wait --mem=50M -o /dev/null --wrap 'srun true'").strip()
    wait_for("its history", lambda: "COMPLETED" in user(pool, f"sacct -X -n -j {job} -o state"))
    assert user(pool, "find / -xdev -name 'munge.key' -o -xdev -name slurm.key 2>/dev/null; cat /etc/tandem/munge/* 2>/dev/null", check=False) == ""
    assert pool.cmd("shell", "--user", "root", "--", "sh", "-c", "ls /etc/tandem/munge /etc/slurm-keys; touch /run/munge/x", check=False).stdout == ""
    mode = pool.kubectl("exec", *NS, "main-pool-n0", "-c", "munged", "--", "stat", "-L", "-c", "%a %u", "/etc/tandem/munge/munge.key", "/run/tandem-munge/key").split()
    assert mode == ["400", "0", "600", "0"]
    # Pods through the queue; REST with a token.
    pool.apply(pool.pod("p", gpus=2))
    wait_for("it runs", lambda: pool.phase("p") == "Running")
    number, node, _ = pool.grant(pool.get("pod", "p"))
    assert pool.squeue()[number]["nodes"] == node
    assert "SLURM_JWT=ey" in user(pool, "scontrol token lifespan=60")

    # munged is supervised: without it nobody is anybody, and a moment later it is there again.
    for pid in munged_of(pool):
        os.kill(pid, signal.SIGKILL)
    wait_for("it is back", lambda: user(pool, "srun --mem=50M hostname", check=False).startswith("n"))
    pool.kubectl("delete", "pod", "p", "--wait=false")
    wait_for("its job ends with it", lambda: number not in pool.squeue())


def munged_of(pool):
    """The mungeds of the pool, as this machine numbers them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = open(f"/proc/{pid}/cmdline").read().split("\0")
            if os.path.basename(argv[0]) == "munged" and pool.id in open(f"/proc/{pid}/cgroup").read():
                found.append(int(pid))
        except OSError:
            continue
    assert found
    return found
