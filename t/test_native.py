"""Native jobs as on every Slurm: what ends with its client, what outlives a daemon, what a node says of itself."""
import os
import re
import signal

import pytest

from harness import wait_for

LOGIN = "main-login-0"


def started(pool, *argv):
    """A client in a session of its own in the login pod, as an ssh session would have it: (job id, session)."""
    before = set(pool.squeue())
    sid = pool.shell("sh", "-c", 'setsid "$@" </dev/null >/dev/null 2>&1 & echo $!', "sh", *argv).strip()
    job, = wait_for(f"{argv[0]} has its allocation", lambda: {j for j, v in pool.squeue().items() if v["state"] == "RUNNING"} - before)
    return job, sid


def pod_of(pool, name):
    return pool.get("pod", name, "-n", "slurm")


def restarts(pool, name):
    return sum(c["restartCount"] for c in pod_of(pool, name)["status"]["containerStatuses"])


@pytest.mark.embedded  # slurmctld asks a process of the login pod, whoever runs it; the next test is about the pod
@pytest.mark.feature("A15.1", "A1.5")
def test_a_job_ends_when_its_client_was_killed(pool):
    """srun and salloc with all that they forked, by kill -9: nobody tells slurmctld. What has a client, and what is meant to have none, stays."""
    stays, _ = started(pool, "srun", "--mem=50M", "sleep", "100000")
    alone = int(re.search(r"allocation (\d+)", pool.cmd("shell", "--", "salloc", "--no-shell", "--mem=50M", "-J", "kept").stderr).group(1))
    batch = pool.sbatch("--mem=50M")
    lost = [started(pool, "srun", "--gres=gpu:8", "--mem=50M", "sleep", "100000"), started(pool, "salloc", "--mem=50M", "sleep", "100000")]
    pool.shell("pkill", "-KILL", "-s", ",".join(sid for _, sid in lost))
    wait_for("their jobs end", lambda: not {job for job, _ in lost} & set(pool.squeue()), 180)  # a minute later if it was not seen alive
    assert {stays, alone, batch} <= set(pool.squeue())


@pytest.mark.nightly_real
@pytest.mark.feature("A15.1")
def test_a_job_ends_with_its_login_pod(pool):
    """When it is told to go (a roll-out), and when it dies."""
    def again(old):
        new = pod_of(pool, LOGIN)
        return new["metadata"]["uid"] != old["metadata"]["uid"] and all(c["ready"] for c in new["status"].get("containerStatuses", [{"ready": False}]))

    job, _ = started(pool, "srun", "--mem=50M", "sleep", "100000")
    old = pod_of(pool, LOGIN)
    pool.kubectl("delete", "pod", LOGIN, "-n", "slurm", "--wait=false")
    wait_for("the login pod is back", lambda: again(old), 120)
    wait_for("the job has ended", lambda: job not in pool.squeue(), 180)
    if pool.plane == "embedded":  # there a test can kill a container's first process
        job, _ = started(pool, "salloc", "--mem=50M", "sleep", "100000")
        count = restarts(pool, LOGIN)
        os.kill(pool.daemons("sackd")[LOGIN], signal.SIGKILL)
        wait_for("its container is started again", lambda: restarts(pool, LOGIN) > count)
        wait_for("the job has ended", lambda: job not in pool.squeue(), 180)


@pytest.mark.nightly_real
@pytest.mark.feature("A1.4")
def test_a_killed_slurmd_loses_no_job(pool):
    node = pool.nodes[0]
    pod, = (p["metadata"]["name"] for p in pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd") if p["spec"].get("nodeName") == node)
    slurmd = lambda: pool.kubectl("exec", "-n", "slurm", pod, "-c", "slurmd", "--", "pgrep", "-o", "-f", "^slurmd ").strip()
    up = ": >/home/up-$SLURM_JOB_ID"  # Slurm counts a job as running before slurmd has started anything of it
    batch = pool.sbatch("-w", node, "--gres=gpu:2", "--no-requeue", "-o", "/dev/null", script=f"#!/bin/sh\n{up}\nuntil [ -e /run/end ]; do sleep 0.1; done; rm /run/end; exit 7\n")
    step, _ = started(pool, "srun", "-w", node, "--mem=50M", "sh", "-c", f"{up}; exec sleep 100000")
    both = f"/home/up-{batch}", f"/home/up-{step}"
    wait_for("both have processes", lambda: pool.shell("ls", *both) is not None)
    pool.shell("rm", *both)
    count, old, since = restarts(pool, pod), slurmd(), pool.job(batch)["StartTime"]
    pool.kubectl("exec", "-n", "slurm", pod, "-c", "slurmd", "--", "kill", "-KILL", old)
    wait_for("another slurmd", lambda: slurmd() not in ("", old))
    wait_for("which starts jobs", lambda: pool.shell("srun", "-w", node, "--mem=50M", "hostname").strip())
    pool.kubectl("exec", "-n", "slurm", pod, "-c", "slurmd", "--", "touch", "/run/end")
    wait_for("the batch job ends by itself", lambda: pool.job(batch).get("JobState") == "FAILED")
    assert (pool.job(batch)["ExitCode"], pool.job(batch)["StartTime"]) == ("7:0", since)
    assert pool.squeue()[step]["state"] == "RUNNING" and restarts(pool, pod) == count


@pytest.mark.nightly_real
@pytest.mark.feature("A5.2")
def test_a_node_that_is_back_does_not_say_that_it_is_not_responding(pool):
    """24.11 cannot clear a reason. What stands there until the next job says that it is over."""
    node = pool.nodes[0]
    says = lambda: pool.shell("sinfo", "-h", "-N", "-n", node, "-o", "%t|%20E").strip()
    pool.kubectl("cordon", node)
    wait_for("it is drained", lambda: says().startswith("drain"))
    pool.kubectl("uncordon", node)
    wait_for("it is idle, and nothing is wrong", lambda: says().startswith("idle|") and says().split("|")[1].strip() in ("Not responding: over", "none"))
    pool.shell("srun", "-w", node, "--mem=50M", "true")
    wait_for("no reason is left", lambda: says().split("|")[1].strip() == "none")


def tried(pool, *argv):
    return pool.cmd("shell", "--", *argv, check=False)


@pytest.mark.nightly_real
@pytest.mark.feature("A1.4")
def test_a_job_over_its_memory_is_killed_and_says_so(pool):
    eat = "head -c 200M /dev/zero | tail -c 200M | wc -c"  # tail keeps what it may have to print
    job = pool.sbatch("--mem=60M", "--no-requeue", "-o", "/dev/null", script=f"#!/bin/sh\n{eat}\n")
    wait_for("it has ended", lambda: pool.job(job).get("JobState", "PENDING") not in ("PENDING", "RUNNING", "COMPLETING"))
    assert (pool.job(job)["JobState"], pool.job(job)["Reason"]) == ("OUT_OF_MEMORY", "OutOfMemory")
    r = tried(pool, "srun", "--mem=60M", "sh", "-c", eat)
    assert r.returncode and "oom_kill event" in r.stderr and "Out Of Memory" in r.stderr, r
    assert pool.shell("srun", "--mem=400M", "sh", "-c", eat).split() == [str(200 << 20)]


@pytest.mark.embedded  # there cgroup.conf says something else, because virtual nodes share the machine's CPUs
@pytest.mark.feature("A1.4")
def test_a_job_has_its_cores_and_no_others(pool):
    """And cgroup.conf is set in the object."""
    def set_to(text):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec":{"config":{"files":{"cgroup.conf":"%s"}}}}' % text)
    cpus = lambda *argv: tried(pool, "srun", "--mem=50M", *argv, "sh", "-c", "grep Cpus_allowed_list /proc/self/status").stdout.split()[1:]
    everywhere = cpus()
    try:
        set_to("ConstrainCores=yes")
        wait_for("a job of one CPU has one", lambda: cpus() and set(",".join(cpus())) <= set("0123456789"))
    finally:
        set_to("ConstrainCores=no")
        wait_for("the pool is as it was", lambda: cpus() == everywhere and pool.idle_nodes() == len(pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.feature("A1.4")
def test_mail_that_nobody_would_send_is_refused(pool):
    for argv in (["sbatch", "--mem=50M", "--mail-type=END", "--wrap", "true"], ["srun", "--mem=50M", "--mail-type=ALL", "true"]):
        r = tried(pool, *argv)
        assert r.returncode and "tandem: this cluster sends no mail: remove --mail-type." in r.stderr, r
