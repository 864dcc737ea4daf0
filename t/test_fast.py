"""The immediate way: which pods take it, beside whoever waits (rows A6 A18). Ways are counted, never times."""
import pytest

from harness import wait_for


def way(pool, name):
    """How a bound pod's job came to be: "now" by an immediate allocation, "queue" as a batch job."""
    grant = wait_for(f"{name} is bound", lambda: pool.grant(pool.get("pod", name)))
    return "queue" if pool.job(grant[0])["BatchFlag"] == "1" else "now"


class Ways:
    """Lone pods, one after the other, and the way of each."""

    def __init__(self, pool, **kw):
        self.pool, self.kw, self.n = pool, kw, 0

    def next(self):
        self.n += 1
        name = f"lone{self.n}"
        self.pool.apply(self.pool.pod(name, **self.kw))
        got = way(self.pool, name)
        self.pool.kubectl("delete", "pod", name, "--wait=false")
        return got

    def again(self):
        """A machine that is busy for a moment sends a pod the other way (the view of the nodes is old), but never all of them."""
        wait_for("a pod takes the immediate way", lambda: self.next() == "now", 120)


@pytest.mark.feature("A6.1")
@pytest.mark.nightly_real  # the same there: nothing in it is the plane's
def test_a_native_job_that_waited_once_slows_nobody_down(pool):
    """Slurm refuses while it waits. What is known of the waiting jobs of others is seconds old: it had not been seen when it was cancelled."""
    ways = Ways(pool)
    ways.again()
    pool.apply(*[pool.pod(f"hold{i}", cpu="9") for i in range(2)])
    wait_for("two nodes are in use", lambda: len([p for p in pool.running() if p["metadata"]["name"].startswith("hold")]) == 2)
    refused = pool.bridge_metric("tandem_bridge_allocations_refused_total")
    job = pool.sbatch("-N3", "--exclusive")
    wait_for("it waits", lambda: pool.squeue()[job]["state"] == "PENDING")
    pool.apply(pool.pod("behind"))
    # Slurm refused; or, where it took long to get so far, the bridge knew of the job and did not try.
    wait_for("it stands in line", lambda: pool.bridge_metric("tandem_bridge_allocations_refused_total") > refused or pending(pool, "behind"))
    pool.shell("scancel", job)
    wait_for("it is gone", lambda: job not in pool.squeue())
    assert way(pool, "behind") == "queue"
    ways.again()


def at(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def pending(pool, name):
    return [j for j, v in pool.squeue().items() if v["name"].startswith(f"{name}.") and v["state"] == "PENDING"]


@pytest.mark.embedded  # Slurm's order, in which kubelets have no part; so are the others below
@pytest.mark.feature("A6.1")
@pytest.mark.parametrize("why", ["its node is cordoned", "it is held"])
def test_a_pod_that_waits_and_that_slurm_passes_over_slows_nobody_down(pool, why):
    node = pool.nodes[-1]
    cordoned = why == "its node is cordoned"
    try:
        if cordoned:
            pool.kubectl("cordon", node)
            wait_for("drained", lambda: "DRAIN" in pool.shell("scontrol", "show", "node", node))
        else:
            pool.apply(pool.pod("full", cpu="14", **at(node)))
            wait_for("the node is full", lambda: pool.phase("full") == "Running")
        pool.apply(pool.pod("waits", cpu="14", **at(node)))
        job = wait_for("it waits", lambda: pending(pool, "waits"))[0]
        if not cordoned:
            pool.shell("scontrol", "hold", job)
        Ways(pool).again()
        assert pending(pool, "waits") == [job]
    finally:
        pool.kubectl("uncordon", node)


def all_gpus_held(pool):
    pool.apply(*[pool.pod(f"hold{i}", gpus=8) for i in range(len(pool.nodes))])
    wait_for("all GPUs are held", lambda: len(pool.running()) == len(pool.nodes))


@pytest.mark.nightly_real
@pytest.mark.feature("A6.1", "A6.3")
@pytest.mark.parametrize("who", ["a pod", *(pytest.param(p, marks=pytest.mark.embedded) for p in ("a native job", "a native job of all nodes"))])
def test_whoever_waits_for_gpus_slows_no_pod_down_that_needs_none(pool, who):
    """Slurm would refuse it while an eligible job waits (S-I3), although it takes nothing from who waits."""
    all_gpus_held(pool)
    if who == "a pod":
        pool.apply(pool.pod("waits", gpus=8))
        job = wait_for("it waits", lambda: pending(pool, "waits"))[0]
    else:
        job = pool.sbatch("--gres=gpu:8", *(["-N", str(len(pool.nodes)), "--ntasks-per-node=1"] if "all" in who else []))
        wait_for("it waits", lambda: pool.squeue()[job]["reason"] in ("Resources", "Priority"))
    Ways(pool).again()
    assert pool.squeue()[job]["state"] == "PENDING"
    assert not [r for r in pool.shell("squeue", "-h", "-a", "-o", "%k").split("\n") if r.startswith("?") or " tandem/" in r], "the word is in no record"


@pytest.mark.embedded
@pytest.mark.feature("A6.3")
def test_a_native_job_that_waits_for_the_same_comes_first(pool):
    """It lacks one GPU of those that a pod would take: nothing goes past it, whatever Slurm is told."""
    hold = [pool.pod(f"hold{i}", gpus=8 if i else 7) for i in range(len(pool.nodes))]
    for i, p in enumerate(hold):  # they end, first where one is free, and the pod would still run: Slurm's backfill passes it over too
        p["metadata"]["annotations"] = {"slurm.tandem.dev/time-limit": "30" if i else "20"}
    pool.apply(*hold)
    wait_for("one GPU is free", lambda: len(pool.running()) == len(pool.nodes))
    Ways(pool).again()
    job = pool.sbatch("--gres=gpu:8")
    wait_for("it waits", lambda: pool.squeue()[job]["reason"] in ("Resources", "Priority"))
    pool.apply(pool.pod("small", gpus=1))
    wait_for("it stands in line", lambda: pending(pool, "small"))
    assert pool.squeue()[job]["state"] == "PENDING"


@pytest.mark.embedded
@pytest.mark.feature("A6.3", "A18.2")
def test_who_guesses_the_word_is_not_served(pool):
    """The word with which the bridge says that an allocation goes past those who wait is nobody else's; the question whether the script runs raises nobody."""
    all_gpus_held(pool)
    mark = "tandem/a/b/c/d"
    for said in ("?", "0" * 64, ""):
        r = pool.as_user("researcher", "salloc", "-Q", "--no-shell", "--mem=10M", "--immediate=300", f"--comment={said} {mark}", check=False)
        assert not r.returncode, r.stderr
    seen = [line.split("|") for line in pool.shell("squeue", "-h", "-u", "researcher", "-o", "%Q|%k").splitlines()]
    assert sorted(c for _, c in seen) == sorted([mark, f"{'0' * 64} {mark}", f" {mark}"]) and all(int(p) < 1000 for p, _ in seen)


@pytest.mark.nightly_real
@pytest.mark.feature("A6.3")
def test_nobody_goes_before_a_pod_that_waits_for_the_same(pool):
    pool.apply(*[pool.pod(f"hold{i}", gpus=8 if i else 7) for i in range(len(pool.nodes))])
    wait_for("one GPU is free", lambda: len(pool.running()) == len(pool.nodes))
    pool.apply(pool.pod("waits", gpus=8))
    wait_for("it waits", lambda: pending(pool, "waits"))
    tried = [pool.bridge_metric(f"tandem_bridge_allocations{x}_total") for x in ("", "_refused")]
    submits = pool.bridge_metric("tandem_bridge_submits_total")
    pool.apply(pool.pod("small", gpus=1))
    wait_for("it stands in line", lambda: pool.bridge_metric("tandem_bridge_submits_total") > submits)
    assert tried == [pool.bridge_metric(f"tandem_bridge_allocations{x}_total") for x in ("", "_refused")]
