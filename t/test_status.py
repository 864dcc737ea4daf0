"""The status of SlurmCluster and NodeSet, compared with sinfo while random things happen (row A3.5)."""
import random

import pytest

from harness import wait_for

WORDS = ("idle", "mixed", "allocated", "draining", "drained", "down")


def sinfo(pool):
    """How many nodes are in which state. A job that ends still has its node; one that is planned does not have it yet."""
    of = dict(line.split() for line in pool.shell("sinfo", "-h", "-N", "-o", "%N %T").splitlines())
    words = [{"completing": "allocated", "planned": "idle"}.get(w, w) for w in (w.rstrip("*~#!%$@^-") for w in of.values())]
    assert set(words) <= set(WORDS), words
    return {w: words.count(w) for w in WORDS}


def statuses(pool):
    cluster = pool.get("slurmcluster", "main", "-n", "slurm")["status"]["nodes"]
    nodeset = pool.get("nodeset", "pool", "-n", "slurm")["status"]
    return {w: cluster.get(w, 0) for w in WORDS}, cluster["total"], {w: nodeset.get(w, 0) for w in WORDS if w != "mixed"}


class Things:
    """What may happen. What they do is the seed's; what comes of them is Slurm's."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.cordoned = pool, rng, set()

    def drain(self, node):
        self.pool.shell("scontrol", "update", f"nodename={node}", "state=drain", "reason=fan")

    def resume(self, node):
        self.pool.shell("scontrol", "update", f"nodename={node}", "state=undrain", check=False)

    def job(self, node):
        self.pool.sbatch("-w", node, *self.rng.choice((["-c1"], ["--exclusive"])))

    def cancel(self, node):
        self.pool.shell("scancel", "-w", node)

    def cordon(self, node):
        self.pool.kubectl("uncordon" if node in self.cordoned else "cordon", node)
        self.cordoned ^= {node}

    def kill(self, node):
        pod = next(p["metadata"]["name"] for p in self.pool.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd") if p["spec"].get("nodeName") == node)
        self.pool.kubectl("exec", "-n", "slurm", pod, "-c", "slurmd", "--", "pkill", "-KILL", "-f", "^slurmd ", check=False)


@pytest.mark.nightly_real
@pytest.mark.feature("A3.5")
def test_the_status_is_what_sinfo_says_whatever_happens(pool, request):
    """After each handful of random things both come to say the same. They are compared when sinfo stands still around the reading of the status."""
    seed = int(request.config.getoption("--seed"))
    print(f"seed {seed}")
    rng = random.Random(seed)
    things, done = Things(pool, rng), []

    def agree():
        before = sinfo(pool)
        cluster, total, nodeset = statuses(pool)
        if sinfo(pool) != before:
            return False  # nothing is compared while Slurm moves
        seen.append((cluster, nodeset, before))
        return cluster == before and total == len(pool.nodes) and nodeset == {**{w: before[w] for w in nodeset}, "allocated": before["allocated"] + before["mixed"]}

    met = set()
    for _ in range(6):
        for _ in range(rng.randint(2, 3)):
            what, node = rng.choice(("drain", "resume", "job", "job", "cancel", "cordon", "kill")), rng.choice(pool.nodes)
            done.append(f"{what} {node}")
            getattr(things, what)(node)
        seen = []
        try:
            wait_for("status and sinfo say the same", agree)
        except AssertionError as e:
            raise AssertionError(f"seed {seed}, after {', '.join(done)}: status of the cluster, of the NodeSet, sinfo: {seen[-1:]}") from e
        met |= {w for w, n in seen[-1][2].items() if n}
    assert len(met) > 1, f"seed {seed} shows nothing: {done} led to {met} only"
