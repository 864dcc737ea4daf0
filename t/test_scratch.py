"""A job's own /tmp, /var/tmp, /dev/shm and view of /dev on a node (spec.scratch, docs/storage.md)."""
import json
import re

import pytest

from harness import wait_for

SCRATCH = "/var/lib/tandem/scratch"


def node(pool, *argv):
    return pool.kubectl("exec", "-n", "slurm", f"main-pool-{pool.nodes[0]}", "-c", "slurmd", "--", *argv)


def left(pool):
    """What the node still has of jobs: their directories, what is being removed, and mounts."""
    return node(pool, "sh", "-c", f"ls {SCRATCH}/jobs {SCRATCH}/trash; grep -o '{SCRATCH}/jobs[^ ]*' /proc/self/mountinfo || true").split("\n")


def clean(pool):
    wait_for("nothing of jobs is left on the node", lambda: left(pool) == [f"{SCRATCH}/jobs:", "", f"{SCRATCH}/trash:", ""], 240)  # their processes get KillWait, and more where it is busy


def holder(pool, user, script, *more):
    """A job of the user's on the first node, whose script runs until it is cancelled: its number, when it has said so at home."""
    job = pool.as_user(user, "sbatch", "--parsable", "-w", pool.nodes[0], "--mem=50M", "--no-requeue", "-o", "/dev/null", *more,
                       input=f"#!/bin/sh\ncd /\n{script}\necho done >$HOME/ready-$SLURM_JOB_ID\nexec sleep 100000\n").stdout.strip()
    wait_for("its script has come so far", lambda: pool.as_user(user, "cat", f"ready-{job}").stdout == "done\n")
    pool.as_user(user, "rm", f"ready-{job}")
    return job


def step(pool, user, job, script, *more):
    return pool.as_user(user, "srun", "-Q", f"--jobid={job}", "--overlap", "--mem=0", "-D", "/", *more, "sh", "-c", script).stdout


def gpus(text):
    """The indexes of the GPUs among the names of device files."""
    return {int(x) for x in re.findall(r"tandem-gpu(\d+)", text)}


@pytest.mark.nightly_real
@pytest.mark.feature("A13.5", "A7.5")
def test_a_job_has_a_tmp_of_its_own(pool):
    """Its steps share it, other users' jobs on the node do not see it, the node's own stays as it was, and it ends with the job. In /dev it has its own devices only, and all that belongs to nobody."""
    before = node(pool, "ls", "-A", "/tmp", "/var/tmp", "/dev/shm")
    of_node = node(pool, "ls", "-A", "/dev")
    mine = holder(pool, "researcher", "for d in /tmp /var/tmp /dev/shm; do echo $d of $SLURM_JOB_ID >$d/secret; done; echo $TMPDIR >/tmp/where; ls -A /dev >/tmp/devices", "--gres=gpu:3")
    other = holder(pool, "pods", "ls -A /tmp /var/tmp /dev/shm >/tmp/seen; ls /proc/*/root/tmp/secret 2>/dev/null >>/tmp/seen; touch /tmp/secret")
    try:
        assert step(pool, "researcher", mine, "cat /tmp/secret /var/tmp/secret /dev/shm/secret /tmp/where").split("\n") == [
            f"/tmp of {mine}", f"/var/tmp of {mine}", f"/dev/shm of {mine}", "/tmp", ""]
        assert step(pool, "pods", other, "cat /tmp/seen; stat -c %s /tmp/secret").split() == ["/dev/shm:", "/tmp:", "seen", "/var/tmp:", "0"]
        # Nobody gets at it past the mounts, and a step sees nothing of other jobs.
        assert step(pool, "pods", other, f"ls {SCRATCH}; ls {SCRATCH}/jobs 2>&1; grep -c scratch/.*/jobs/{mine}/ /proc/self/mountinfo; true").endswith("\n0\n")
        # A program of one step meets one of another in memory. The file is the user's, in a directory that is nobody's.
        step(pool, "researcher", mine, "echo more >>/dev/shm/secret; stat -c '%a %U' /tmp /dev/shm >/tmp/modes")
        assert step(pool, "researcher", mine, "tail -n 1 /dev/shm/secret; cat /tmp/modes") == "more\n1777 root\n1777 root\n"
        assert node(pool, "ls", "-A", "/tmp", "/var/tmp", "/dev/shm") == before

        held = pool.job_devices(mine)[pool.nodes[0]]
        batch, all_of_it = step(pool, "researcher", mine, "cat /tmp/devices; echo; ls -A /dev").split("\n\n")
        assert len(held) == 3 and gpus(batch) == gpus(all_of_it) == held, (held, batch, all_of_it)
        for job, user, want, more in ((mine, "researcher", 1, ["--gres=gpu:1"]), (mine, "researcher", 0, ["--gres=none"]), (other, "pods", 0, [])):
            seen = step(pool, user, job, "ls -A /dev; echo x >/dev/null; head -c 1 /dev/zero | wc -c; ls /dev/pts/ptmx; ls -d /proc/self/fd/0", *more)
            assert gpus(seen) <= held and len(gpus(seen)) == want, seen
            names = set(of_node.split()) - {f"tandem-gpu{i}" for i in gpus(of_node)}
            assert names <= set(seen.split()) and {"1", "/dev/pts/ptmx"} <= set(seen.split()), seen
        assert node(pool, "ls", "-A", "/dev") == of_node
    finally:
        pool.shell("scancel", mine, other)
    clean(pool)


@pytest.mark.embedded
@pytest.mark.feature("A13.5")
def test_what_a_job_left_is_removed_and_nothing_else(pool):
    """Links out of it, directories that are closed, deep, or moved about: by scancel, and at the end of a step without a script."""
    pool.as_user("researcher", "sh", "-c", "mkdir -p precious/deep; echo kept >precious/deep/file")
    job = holder(pool, "researcher", """
        cd /tmp; ln -s ~/precious link; ln -s / root; ln -s ~/precious/deep/file file; mkdir -p shut/in; touch shut/in/file; chmod 0 shut
        for i in $(seq 200); do mkdir d; cd d; ln -s ~/precious p; done
        mkdir /dev/shm/x; ln -s ~/precious /dev/shm/x/p; mkfifo /var/tmp/fifo
        (cd /tmp; while :; do rm -f turn; ln -s ~/precious turn; rm turn; mkdir turn; rmdir turn; done) 2>/dev/null &""")
    pool.shell("scancel", job)
    clean(pool)
    pool.as_user("researcher", "srun", "-Q", "-w", pool.nodes[0], "--mem=50M", "-D", "/", "sh", "-c", "echo x >/tmp/x; ln -s ~/precious /tmp/y")
    clean(pool)
    assert pool.as_user("researcher", "find", "precious").stdout.split() == ["precious", "precious/deep", "precious/deep/file"]
    assert pool.as_user("researcher", "cat", "precious/deep/file").stdout == "kept\n"
    pool.as_user("researcher", "rm", "-r", "precious")


@pytest.mark.embedded
@pytest.mark.feature("A13.5")
def test_sbcast_reaches_the_job(pool):
    """slurmd writes those files outside of every job: before a job's first step on a node, and while it runs. Libraries, too, but through no link of the user's."""
    before = node(pool, "ls", "-A", "/tmp")
    script = """cd /; echo 'echo cast to $SLURM_PROCID; cat /tmp/data' >/tmp/run; echo first >/tmp/one; echo second >/tmp/two
        chmod +x /tmp/run
        sbcast /tmp/one /tmp/data; sbcast /tmp/run /tmp/prog; cat /tmp/data; srun -Q -l sh /tmp/prog | sort
        sbcast --force /tmp/two /tmp/data; cat /tmp/data
        mkdir -p $HOME/libs; cp -L $(ldd /bin/sleep | grep -o '/[^ ]*libc\\.so[^ ]*') $HOME/libs/libc.so.6; cp /bin/sleep $HOME/libs/prog; export LD_LIBRARY_PATH=$HOME/libs
        sbcast --send-libs $HOME/libs/prog /tmp/lone; ls /tmp/lone_libs; mkdir $HOME/trap; ln -s $HOME/trap /tmp/trap_libs; sbcast --send-libs $HOME/libs/prog /tmp/trap; unset LD_LIBRARY_PATH
        srun -Q sh -c 'stat -c "%U %a" /tmp/lone_libs/libc.so.6 /tmp/lone_libs'; rm -r $HOME/libs; rmdir $HOME/trap && echo nothing was put elsewhere"""
    nodes = ",".join(pool.nodes[:2])
    out = pool.as_user("researcher", "sbatch", "--parsable", "-W", "-N2", "-w", nodes, "--mem=50M", "-o", "cast", input=f"#!/bin/sh\n{script}\n").stdout
    said = wait_for("its output is at home", lambda: pool.as_user("researcher", "cat", "cast").stdout)
    assert said.split("\n") == ["first", "0: cast to 0", "0: first", "1: cast to 1", "1: first", "second", "libc.so.6", *["researcher 755", "researcher 700"] * 2, "nothing was put elsewhere", ""], (out, said)
    node(pool, "rm", "-r", "/tmp/lone_libs", "/tmp/trap_libs")  # a service does it later
    assert node(pool, "ls", "-A", "/tmp") == before
    clean(pool)
    pool.as_user("researcher", "rm", "cast")


@pytest.mark.embedded
@pytest.mark.feature("D8.2")
def test_a_jobs_shared_memory_has_a_limit(pool):
    conf = lambda: node(pool, "cat", "/run/slurm/conf/plugstack.conf")

    def limit(size):
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"scratch": {"shmSize": size}}}))

    assert "shm=50%" in conf()
    try:
        limit("8 bananas")
        wait_for("it is refused", lambda: "spec.scratch.shmSize: must be a size" in pool.kubectl("get", "slurmcluster", "main", "-n", "slurm", "-o", "jsonpath={.status.conditions[*].message}"))
        limit("8Mi")
        wait_for("the node knows it", lambda: "shm=8388608" in conf())
        script = "df --output=size -k /dev/shm | tail -n 1; head -c 5M /dev/zero >/dev/shm/a && echo five; head -c 5M /dev/zero >/dev/shm/b || echo full; rm /dev/shm/a; srun -Q --overlap ls /dev/shm"
        out = pool.as_user("researcher", "srun", "-Q", "-w", pool.nodes[0], "--mem=50M", "-D", "/", "sh", "-c", script, check=False)
        assert out.stdout.split() == ["8192", "five", "full", "b"] and "No space left on device" in out.stderr, out
    finally:
        limit("50%")
        wait_for("it is as before", lambda: "shm=50%" in conf())
        wait_for("so is slurmctld", lambda: pool.idle_nodes() == pool.instance["nodes"])


@pytest.mark.nightly_real
@pytest.mark.feature("D8.3")
def test_a_job_that_holds_too_much_of_the_disk_is_ended(pool):
    """What it asked for with --tmp is what it may hold, in /tmp and /var/tmp together; the user is told in its output, and by why."""
    name = pool.nodes[0]
    disk = int(pool.shell("sinfo", "-h", "-N", "-n", name, "-o", "%d").split()[0])
    assert 0 < disk < int(node(pool, "sh", "-c", f"df -P -m {SCRATCH} | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2"))
    no = pool.as_user("researcher", "sbatch", f"--tmp={disk + 1}M", "--wrap", "true", check=False)
    assert no.returncode and "Temporary disk specification can not be satisfied" in no.stderr, no
    other = holder(pool, "researcher", "head -c 50M /dev/zero >/tmp/a")
    try:
        # With many files a process of its own looks.
        script = "#!/bin/sh\nmkdir /tmp/many && (cd /tmp/many && seq 3000 | xargs touch)\nhead -c 30M /dev/zero >/tmp/a; head -c 30M /dev/zero >/var/tmp/b; ln /tmp/a /tmp/c\nexec sleep 100000\n"
        job = pool.as_user("researcher", "sbatch", "--parsable", "-w", name, "--mem=50M", "--tmp=40M", "-D", "/home/researcher", "-o", "held", input=script).stdout.strip()
        words = rf"the job is ended: it holds [4-6]\d MiB of the disk of {name} in /tmp, /var/tmp and its containers, and may hold 40 MiB \(--tmp\). Ask for room with --tmp=SIZE"
        wait_for("its output says so", lambda: re.search(f"scratch: {words}", pool.as_user("researcher", "cat", "held", check=False).stdout))
        wait_for("it has ended", lambda: "JobState=CANCELLED" in pool.shell("scontrol", "show", "job", job))
        wait_for("why says so", lambda: re.search(words, pool.cmd("why", job).stdout))
        # Who asked for nothing may hold more. What each holds can be looked at.
        assert pool.as_user("researcher", "squeue", "-h", "-j", other, "-o", "%T").stdout == "RUNNING\n"
        assert {tuple(line.split()) for line in node(pool, "/opt/tandem/tandem-container", "scratch", "list").splitlines()} >= {(other, "50")}
    finally:
        pool.shell("scancel", other)
    pool.as_user("researcher", "rm", "held")
    clean(pool)


@pytest.mark.nightly
@pytest.mark.feature("D8.3")
def test_what_is_in_no_directory_and_what_has_no_bytes_counts(pool):
    """A deleted file that a process keeps open, also one that hides from its own user and whose first thread has ended, and files without a byte in them."""
    name = pool.nodes[0]
    total, free, left, block, files = (int(x) for x in node(pool, "stat", "-f", "-c", "%b %f %a %S %c", SCRATCH).split())
    each = (total - free + left) * block // files  # a file's part of the disk
    submit = lambda out, script: pool.as_user("researcher", "sbatch", "--parsable", "-w", name, "--mem=50M", "--tmp=40M", "-D", "/home/researcher", "-o", out, input=f"#!/bin/sh\n{script}\nexec sleep 100000\n").stdout.strip()
    hides = """import ctypes, os, threading, time
def hold():
    f = open("/tmp/gone", "wb")
    os.unlink("/tmp/gone")
    for i in range(60):
        f.write(b"x" * 1000000)
    f.flush()
    time.sleep(100000)
c = ctypes.CDLL(None)
c.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
threading.Thread(target=hold).start()
c.syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit, of this thread alone
"""
    jobs = {submit("deleted", f"cat >/tmp/hide.py <<'END'\n{hides}END\npython3 /tmp/hide.py &"): ("deleted", r"\d+ MiB \([4-6]\d MiB of it in deleted files that are still open\)"),
            submit("names", f"seq {2 * (40 << 20) // each} | (cd /tmp && xargs touch)"): ("names", r"\d+ MiB \(because it has \d+ files and the disk is made for so many and no more\)")}
    try:
        for job, (out, words) in jobs.items():
            wait_for(f"the output of {out} says so", lambda: re.search(f"scratch: the job is ended: it holds {words} of the disk of {name} ", pool.as_user("researcher", "cat", out, check=False).stdout))
            wait_for("it has ended", lambda: "JobState=CANCELLED" in pool.shell("scontrol", "show", "job", job))
    finally:
        pool.shell("scancel", *jobs)
    pool.as_user("researcher", "rm", "deleted", "names")
    clean(pool)


@pytest.mark.real
@pytest.mark.feature("D8.2")
def test_a_kubelet_holds_a_pods_shared_memory_to_its_size(pool):
    """A pod of the queue, as a Tenant with spec.ephemeralStorage asks for it. (The kubelets of these tests evict nobody for what he has on a disk.)"""
    p = pool.pod("greedy", command=["sh", "-c", "df --output=size -k /dev/shm | tail -n 1; head -c 9M /dev/zero 2>/dev/null >/dev/shm/a || echo full; exec sleep 100000"],
                 volumes=[{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}])
    main = p["spec"]["containers"][0]
    main["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    main["resources"]["limits"]["ephemeral-storage"], main["resources"]["requests"] = "20Mi", {"ephemeral-storage": "0"}
    pool.apply(p)
    wait_for("its shared memory is full", lambda: pool.kubectl("logs", "greedy", check=False).split() == ["8192", "full"])
    pool.kubectl("delete", "pod", "greedy")
