"""ssh to a compute node leads into a job of one's own there, and nowhere else (docs/people.md)."""
import os

import pytest

from harness import wait_for

# embedded: nobody has seen it on a real Kubernetes yet
pytestmark = [pytest.mark.feature("A15.1", "A15.6"), pytest.mark.embedded]


def ssh(pool, *argv, user="researcher", **kw):
    return pool.as_user(user, "ssh", "-o", "BatchMode=yes", *argv, check=False, **kw)


@pytest.fixture
def job(pool):
    node = pool.nodes[1]
    job = pool.as_user("researcher", "sbatch", "--parsable", "-w", node, "-c2", "--mem=1G", "--gres=gpu:2", "--wrap", "touch ~/up-$SLURM_JOB_ID; sleep 100000").stdout.strip()
    up = f"{pool.shared_dir}/researcher/up-{job}"
    wait_for("its script runs", lambda: os.path.exists(up))  # before its Prolog is over a step waits, and srun says so
    os.unlink(up)
    yield job, node
    pool.as_user("researcher", "scancel", job, check=False)


def test_a_session_is_in_the_job_with_its_devices(pool, job):
    number, node = job
    r = ssh(pool, node, "echo $SLURM_JOB_ID $SLURMD_NODENAME $(id -un); echo $CUDA_VISIBLE_DEVICES; cat /proc/self/cgroup; exit 7")
    lines = r.stdout.splitlines()
    assert r.returncode == 7 and "srun" not in r.stderr and "slurmstepd" not in r.stderr and lines[0] == f"{number} {node} researcher", r
    assert len(lines[1].split(",")) == 2 and f"job_{number}" in r.stdout
    # With a terminal, files, and a step of the job from inside.
    assert "/dev/pts/" in ssh(pool, "-tt", node, "tty").stdout
    pool.as_user("researcher", "sh", "-c", "head -c 300000 /dev/urandom > sent && rm -f ~/back")
    r = pool.as_user("researcher", "sh", "-c", f"scp -q sent {node}:/tmp/sent.{number} && ssh {node} 'cat /tmp/sent.{number}; rm /tmp/sent.{number}' > back && cmp sent back && echo same", check=False)
    assert r.stdout == "same\n", r
    assert ssh(pool, node, "srun --overlap -n1 printenv SLURM_JOB_ID").stdout == f"{number}\n"


def test_without_a_job_there_nobody_gets_in(pool, job):
    number, node = job
    for user, where in (("researcher", pool.nodes[0]), ("pods", node)):
        r = ssh(pool, where, "id", user=user)
        assert r.returncode == 255 and r.stdout == "" and f"you have no running job on {where}" in r.stderr, r
    # Another's job cannot be named either.
    r = pool.as_user("pods", "sh", "-c", f"SLURM_JOB_ID={number} sh /etc/tandem/users/node-ssh.sh connect {node}", check=False)
    assert r.returncode == 1 and "you have no running job" in r.stderr
    # Other hosts are reached as ever.
    r = ssh(pool, "-o", "ConnectTimeout=5", "no-such-host.invalid", "id")
    assert r.returncode == 255 and "tandem" not in r.stderr and "no-such-host.invalid" in r.stderr


def test_a_session_ends_with_its_job(pool, job):
    number, node = job
    script = f"ssh -o BatchMode=yes {node} 'echo in; sleep 100000' > in 2>&1 & until grep -q in in; do sleep 0.1; done; scancel {number}; wait; cat in"
    r = pool.as_user("researcher", "sh", "-c", script, timeout=600)
    assert r.stdout.startswith("in\n")
    wait_for("nothing of it is left", lambda: ssh(pool, node, "id").returncode == 255)


def test_from_one_node_of_a_job_to_another(pool):
    out = pool.as_user("researcher", "sbatch", "--wait", "-N2", "-o", "out", "--wrap", "for n in $(scontrol show hostnames); do ssh -o BatchMode=yes $n 'echo $SLURMD_NODENAME in $SLURM_JOB_ID'; done; echo of $SLURM_JOB_ID")
    wait_for("its output is at home", lambda: "\nof " in pool.as_user("researcher", "cat", "out", check=False).stdout)
    *lines, last = pool.as_user("researcher", "cat", "out").stdout.splitlines()
    number = last.split()[-1]
    assert len(lines) == 2 and all(l.endswith(f" in {number}") for l in lines) and len({l.split()[0] for l in lines}) == 2, (lines, out)
