"""How daemons and users prove who they are (docs/keys.md): keys that are turned over, and munge as the other choice, which is
refused while jobs run. One pool of two nodes, whose keys are changed."""
import contextlib
import json
import subprocess

import pytest

from harness import SLOW, wait_for

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


def keys(pool):
    return pool.get("slurmcluster", "main", *NS)["status"]["keys"]


@contextlib.contextmanager
def long_ones(pool):
    """A batch job with a step, an srun over both nodes that ends when it is let go, and a pod with devices: all of them run, have not noticed
    afterwards, and end well."""
    job = int(user(pool, "rm -f go; sbatch --parsable --mem=100M -o /dev/null --wrap 'srun --mem=50M sleep 100000'"))
    srun = subprocess.Popen([pool.tandem, "shell", "--", "srun", "-N2", "--mem=50M", "sh", "-c", "until [ -e go ]; do sleep 0.3; done; echo lived"],
                            env=pool.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        pool.apply(pool.pod("long", gpus=2))
        wait_for("the pod runs", lambda: pool.phase("long") == "Running")
        number, _, _ = pool.grant(pool.get("pod", "long"))
        wait_for("the steps run", lambda: sum(i.endswith(".0") for i in user(pool, "squeue -h -s -o %i").split()) == 2)
        yield
        user(pool, "touch go")
        out, err = srun.communicate(timeout=120 * SLOW)
        assert (srun.returncode, out) == (0, "lived\n" * 2), err
    finally:
        srun.kill()
        srun.wait()
    assert pool.job(job)["JobState"] == "RUNNING" and f"{job}.0" in user(pool, f"squeue -h -s -j {job} -o %i")
    assert pool.phase("long") == "Running" and number in pool.squeue()
    user(pool, f"scancel {job}")
    pool.kubectl("delete", "pod", "long", "--wait=false")
    wait_for("they end", lambda: not pool.squeue())


# A daemon with what is in /tmp/old.key, on a node, where it sees no other one's socket. $1: the cluster's own key.
OLD = '''mount -t tmpfs none /run/slurm && export SLURM_CONF=/etc/tandem/users/slurm.conf && { sackd -D 2>/dev/null & }
until [ -S /run/slurm/sack.socket ]; do sleep 0.1; done; sinfo -h -o tells; kill $!'''


def by_key(pool, key):
    """What Slurm says to who proves by that key (base64) that he is root."""
    r = pool.run("kubectl", "exec", "-i", *NS, "main-pool-n0", "-c", "slurmd", "--", "sh", "-c",
                 "(umask 077; base64 -d >/tmp/old.key); SLURM_SACK_KEY=/tmp/old.key SLURM_SACK_JWKS=/none exec unshare -m sh -c \"$1\"", "sh", OLD, input=key, check=False)
    return r.stdout + r.stderr


@pytest.mark.nightly
@pytest.mark.embedded  # the real plane's pool is everybody's
@pytest.mark.feature("A1.6", "A2.10")
def test_keys_are_turned_over_by_one_edit_and_nobody_notices(pool):
    def secret(name):
        return pool.get("secret", name, *NS)["data"]
    with long_ones(pool):
        old, tokens = secret("main-slurm-key")["slurm.key"], secret("main-jwt-key")["jwt_hs256.key"]
        token = pool.shell("scontrol", "token", "lifespan=3600").strip()
        by_token = f"env -u SLURM_SACK_KEY -u SLURM_SACK_JWKS {token} sinfo -h -o tells 2>&1"
        assert "tells" in by_key(pool, old) and "tells" in pool.shell("sh", "-c", by_token)
        auth(pool, keyGeneration=2, keyOverlapSeconds=5)
        wait_for("the new keys are in force, and the old ones gone", lambda: keys(pool) == {"generation": 2}, 180)
        assert secret("main-slurm-key")["slurm.key"] != old and secret("main-jwt-key")["jwt_hs256.key"] != tokens
        # Who has the old ones is nobody.
        wait_for("slurmctld has no other", lambda: all("keys=2;" in f"{c.strip()};" for c in pool.shell("sinfo", "-h", "-N", "-O", "Comment:120").split("\n") if c.strip()))
        assert "uthentication" in by_key(pool, old)
        assert "uthentication" in pool.cmd("shell", "--user", "root", "--", "sh", "-c", by_token, check=False).stdout
        # New ones start, and are recorded: slurmdbd has the new keys too.
        job = user(pool, "sbatch --parsable --wait --mem=50M -o /dev/null --wrap 'srun true'").strip()
        wait_for("its history", lambda: "COMPLETED" in user(pool, f"sacct -X -n -j {job} -o state"))
    auth(pool, keyGeneration=1)
    wait_for("no way back", lambda: "spec.auth.keyGeneration: generation 2 is there" in said(pool))
    auth(pool, keyGeneration=2)
    wait_for("all is well", lambda: "keyGeneration" not in said(pool))


@pytest.mark.nightly
@pytest.mark.embedded  # the real plane's pool is everybody's
@pytest.mark.feature("A1.7", "A1.6", "C3.8")
def test_munge_is_refused_while_jobs_run_and_then_carried_out(pool):
    """There and back. The last test of this pool."""
    job = pool.sbatch()
    wait_for("it runs", lambda: pool.job(job).get("JobState") == "RUNNING")
    wait_for("the operator knows", lambda: pool.get("slurmcluster", "main", *NS)["status"]["nodes"].get("mixed"))
    auth(pool, type="munge")
    wait_for("it is refused", lambda: "spec.auth.type: jobs run on 1 nodes" in said(pool))
    assert pool.job(job)["JobState"] == "RUNNING" and "auth/slurm" in user(pool, "scontrol show config | grep AuthType")
    pool.shell("scancel", job)
    wait_for("the pool is idle, so it follows", lambda: "auth/munge" in user(pool, "scontrol show config | grep AuthType", check=False), 240)
    wait_for("every slurmd is a new one", lambda: ["munged" in json.dumps(p["spec"]) for p in pool.items("pods", *NS, "-l", "app.kubernetes.io/name=slurmd")] == [True, True], 240)
    wait_for("both nodes are back", lambda: pool.idle_nodes() == 2, 240)
    job = user(pool, "sbatch --parsable --wait -N2 --mem=50M -o /dev/null --wrap 'srun true'").strip()
    pool.apply(pool.pod("after", gpus=2))
    wait_for("a pod runs", lambda: pool.phase("after") == "Running")
    wait_for("slurmdbd believes slurmctld", lambda: "COMPLETED" in user(pool, f"sacct -X -n -j {job} -o state"))
    assert "spec.auth.type" not in said(pool)
    # A native job that is to move does (docs/preemption.md): the program in its slurmd pod asks slurmctld by munge.
    moves = user(pool, "sbatch --parsable --requeue --mem=50M -o /dev/null --wrap 'sleep 100000'").strip()
    wait_for("it runs", lambda: pool.job(moves).get("JobState") == "RUNNING")
    pool.kubectl("annotate", "node", pool.job(moves)["BatchHost"], f"tandem.dev/requeue={moves}:0")
    wait_for("it is queued again", lambda: pool.job(moves)["Restarts"] == "1", 120)
    pool.kubectl("annotate", "nodes", "--all", "tandem.dev/requeue-")
    pool.shell("scancel", moves)
    # And back, which waits in the same way: for a pod, too.
    auth(pool, type="slurm")
    wait_for("it is refused", lambda: "spec.auth.type: jobs run on 1 nodes" in said(pool))
    assert pool.phase("after") == "Running" and "auth/munge" in user(pool, "scontrol show config | grep AuthType")
    pool.kubectl("delete", "pod", "after", "--wait=false")
    wait_for("the pool is idle, so it follows", lambda: "auth/slurm" in user(pool, "scontrol show config | grep AuthType", check=False), 240)
    wait_for("every slurmd is a new one", lambda: ["munged" in json.dumps(p["spec"]) for p in pool.items("pods", *NS, "-l", "app.kubernetes.io/name=slurmd")] == [False, False], 240)
    wait_for("both nodes are back", lambda: pool.idle_nodes() == 2, 240)
    job = user(pool, "sbatch --parsable --wait -N2 --mem=50M -o /dev/null --wrap 'srun true'").strip()
    wait_for("slurmdbd believes slurmctld", lambda: "COMPLETED" in user(pool, f"sacct -X -n -j {job} -o state"))
    assert "spec.auth.type" not in said(pool)
