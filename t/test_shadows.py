"""What pods of other schedulers hold on the pool's nodes is held in Slurm too: spec.shadows (row A17)."""
import json

import pytest

from harness import expand_ranges, wait_for

pytestmark = [pytest.mark.embedded]  # a pod waits for its shadow here; on the real plane it was not seen yet
NODE = "n1"


def switch(pool, on):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"shadows": {"enabled": on}}}))
    wait_for("the nodes say so", lambda: all((shadow(pool, n) is not None) == on for n in pool.nodes))


def shadow(pool, node=NODE):
    """What the Node says of its shadow: {"cpu": …, "memory": …}, and "twice"."""
    text = pool.get("node", node)["metadata"].get("annotations", {}).get("tandem.dev/slurm-shadow")
    return json.loads(text) if text else None


def jobs(pool):
    """[(id, state, CPUs, MiB)] of the shadows that Slurm has."""
    out = pool.shell("squeue", "-h", "-a", "-n", f"foreign-pods-{NODE}", "-o", "%A %T %C %m").splitlines()
    return sorted((int(i), state, int(cpus), int(mem.removesuffix("M"))) for i, state, cpus, mem in (line.split() for line in out))


def held(pool):
    """The CPUs that running shadows hold."""
    return sum(j[2] for j in jobs(pool) if j[1] == "RUNNING")


@pytest.fixture
def cohost(pool):
    """Shadows are on, and pods of nobody's are within the reserve."""
    try:
        switch(pool, True)
        yield pool
    finally:
        pool.kubectl("delete", "pods", "--all", "-n", "default", "--wait=false")
        wait_for("no pods left", lambda: not pool.items("pods", "-n", "default"), 90)
        switch(pool, False)
        wait_for("no shadows left", lambda: not jobs(pool))


def foreign(pool, name, cpu, memory="64Mi", gpus=0, **kw):
    """A pod that Slurm does not place: somebody has named its node."""
    return pool.pod(name, gpus, cpu=str(cpu), memory=memory, scheduler="default-scheduler", nodeName=NODE, **kw)


@pytest.mark.feature("A17.2", "A17.5")
def test_what_foreign_pods_hold_is_given_to_nobody_else(cohost):
    pool = cohost
    cpus = int(pool.shell("sinfo", "-h", "-n", NODE, "-o", "%c"))
    wait_for("what is said is held", lambda: held(pool) == int((shadow(pool) or {}).get("cpu", 0)))
    was = held(pool)  # what Slurm's own pods hold beyond the reserve
    pool.apply(foreign(pool, "a", 4, "2Gi"))
    wait_for("it runs", lambda: pool.phase("a") == "Running")
    if pool.plane == "real":  # there a pod starts at once
        wait_for("its CPUs are held", lambda: held(pool) > was)
    n = held(pool)
    assert was < n <= was + 4, "a pod starts when Slurm has given its CPUs up to it"
    job = jobs(pool)[-1][0]
    f = pool.job(job)
    assert f["TimeLimit"] == "UNLIMITED" and f["BatchFlag"] == "0" and f["UserId"].startswith("root(") and f["NodeList"] == NODE
    assert f["Comment"].startswith("tandem/shadow/") and f["Comment"].endswith(f"/{NODE}")
    assert "what pods of other schedulers hold on n1" in pool.cmd("why", str(job)).stdout
    wait_for("the Node says so", lambda: shadow(pool)["cpu"] == str(n))
    if pool.plane != "real":
        assert f"{n} CPUs" in next(line for line in pool.cmd("nodes").stdout.splitlines() if line.startswith(NODE))
    # What a native job of the test before held may be said for a moment yet.
    wait_for("a shadow is no native job", lambda: "tandem.dev/slurm-use" not in pool.get("node", NODE)["metadata"]["annotations"])

    # Slurm gives out the rest, and no more.
    rest = pool.sbatch("-w", NODE, f"-c{cpus - n}")
    wait_for("the rest is a job's", lambda: pool.squeue()[rest]["state"] == "RUNNING")
    more = pool.sbatch("-w", NODE, "-c1")
    wait_for("Slurm has looked at it, and it waits", lambda: (j := pool.squeue()[more])["state"] == "PENDING" and j["reason"] not in ("None", ""))

    # The node is full. Another pod waits for what jobs hold, before everybody else, and the Node says so.
    pool.apply(foreign(pool, "b", 2))
    wait_for("two CPUs are wanted", lambda: (shadow(pool) or {}).get("twice", {}).get("cpu") == "2" and [j for j in jobs(pool) if j[1] == "PENDING"])
    wait_for("one job waits for them", lambda: len([j for j in jobs(pool) if j[1] == "PENDING"]) == 1)
    said = lambda: [e["message"] for e in pool.items("events", "-A") if e["involvedObject"]["name"] == NODE and e["reason"] == "GivenTwice"]
    wait_for("an event says so", lambda: any(m.startswith("2 CPUs and ") and (pool.plane == "real" or "default/b" in m) for m in said()))

    # A bridge that dies doubles nothing.
    before = jobs(pool)
    pool.kill_role("bridge")
    wait_for("the next one leads", lambda: pool.cmd("why", str(job), check=False).returncode == 0)
    pool.shell("scancel", rest)
    wait_for("the shadow comes first", lambda: held(pool) == n + 2 and not [j for j in jobs(pool) if j[1] == "PENDING"])
    wait_for("then the job that waited", lambda: pool.squeue()[more]["state"] == "RUNNING")
    assert jobs(pool)[0] == before[0], "nothing is doubled, and nothing is let go"
    wait_for("the other pod runs", lambda: pool.phase("b") == "Running")
    wait_for("nothing is given twice", lambda: "twice" not in shadow(pool))

    # Less is held when a pod has gone; nothing holds up a drain.
    pool.kubectl("delete", "pod", "a", "--wait=false")
    wait_for("only the other pod is held", lambda: held(pool) == n + 2 - 4 and len(jobs(pool)) <= 1)
    pool.shell("scancel", more)
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=drain", "reason=test")
    wait_for("the shadow has ended", lambda: not jobs(pool))
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=resume")
    wait_for("it is back", lambda: held(pool) == n + 2 - 4)
    pool.kubectl("delete", "pod", "b", "--wait=false")
    wait_for("nothing is held", lambda: held(pool) == was)


def lend(pool, *namespaces):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"shadows": {"deviceNamespaces": list(namespaces)}}}))
    wait_for("the node says so", lambda: (shadow(pool) or {}).get("deviceNamespaces", []) == list(namespaces))


def told(pool, name):
    """The devices that a pod of another scheduler was told."""
    text = pool.get("pod", name)["metadata"].get("annotations", {}).get("tandem.dev/shadow-devices")
    return expand_ranges(json.loads(text)["nvidia.com/gpu"]) if text else set()


@pytest.mark.feature("A17.4")
def test_devices_of_foreign_pods_are_given_to_nobody_else(cohost):
    pool = cohost
    gpus = 8
    holders = lambda: pool.shell("squeue", "-h", "-a", "-n", f"out-of-service-{NODE}", "-o", "%A %T").splitlines()
    pool.apply(foreign(pool, "no", 1, gpus=1))
    wait_for("nobody lends this namespace any", lambda: pool.phase("no") == "Failed")
    lend(pool, "default")
    try:
        r = pool.run("kubectl", "annotate", "pod", "no", 'tandem.dev/shadow-devices={"nvidia.com/gpu":"0-7"}', check=False)
        assert r.returncode and "which only Tandem's bridge writes" in r.stderr

        # Two are free: just these are held for it, and it has just these.
        job = pool.sbatch("-w", NODE, f"--gres=gpu:{gpus - 2}")
        wait_for("a job has the others", lambda: pool.squeue()[job]["state"] == "RUNNING")
        pool.apply(foreign(pool, "a", 1, gpus=2, command=["sh", "-c", "ls /dev; echo has $NVIDIA_VISIBLE_DEVICES; exec sleep 100000"]))
        wait_for("it runs", lambda: pool.phase("a") == "Running")
        mine = told(pool, "a")
        assert mine == set(range(gpus)) - pool.job_devices(job)[NODE] and len(holders()) == 2
        wait_for("its process says so", lambda: f"has {','.join(map(str, sorted(mine)))}\n" in (log := pool.kubectl("logs", "a"))
                 and {int(x[len("tandem-gpu"):]) for x in log.split() if x.startswith("tandem-gpu")} == mine)
        wait_for("the Node says so", lambda: shadow(pool).get("devices") == ",".join(f"gpu{i}" for i in sorted(mine)))
        assert "devices-held" not in str(pool.get("node", NODE)["metadata"]["annotations"]), "they are in service"
        wait_for("it counts as no native job's", lambda: json.loads(pool.get("node", NODE)["metadata"]["annotations"].get("tandem.dev/slurm-use", "{}")).get("nvidia.com/gpu") == gpus - 2)

        # None is free: the next pod waits, and comes before a job that waited before it.
        waits = pool.sbatch("-w", NODE, f"--gres=gpu:{gpus - 2}")
        wait_for("it waits", lambda: pool.squeue()[waits]["reason"] not in ("None", ""))
        pool.apply(foreign(pool, "b", 1, gpus=1))
        wait_for("Slurm is asked for one more", lambda: len(holders()) == 3)
        assert pool.phase("b") == "Pending" and not told(pool, "b")
        pool.kill_role("bridge")
        pool.shell("scancel", job)
        wait_for("it runs", lambda: pool.phase("b") == "Running")
        assert told(pool, "b").isdisjoint(mine) and len(told(pool, "b")) == 1 and pool.squeue()[waits]["state"] == "PENDING"

        # What a pod had is free when it has gone, and the other's is not.
        pool.kubectl("delete", "pod", "a", "--wait=false")
        wait_for("who waited has what is left", lambda: pool.squeue()[waits]["state"] == "RUNNING")
        assert pool.job_devices(waits)[NODE].isdisjoint(told(pool, "b"))
        wait_for("one job holds what the other pod has", lambda: len(holders()) == 1)  # one of the two that have ended was enough for who waited
        pool.kubectl("delete", "pod", "b", "--wait=false")
        wait_for("nothing is held", lambda: not holders() and "devices" not in shadow(pool))
    finally:
        lend(pool)
