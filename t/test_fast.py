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
    wait_for("Slurm refused", lambda: pool.bridge_metric("tandem_bridge_allocations_refused_total") > refused)
    pool.shell("scancel", job)
    wait_for("it is gone", lambda: job not in pool.squeue())
    assert way(pool, "behind") == "queue"
    ways.again()
