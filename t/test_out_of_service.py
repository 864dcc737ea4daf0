"""One device of a node is out of service while the others work (rows B4, A5)."""
import re

import pytest

from harness import expand_ranges, wait_for

pytestmark = [pytest.mark.feature("B4.1")]
NODE = "n1"


def say(pool, value):
    pool.kubectl("annotate", "node", NODE, "--overwrite", f"tandem.dev/devices-out={value}" if value else "tandem.dev/devices-out-")


def held(pool):
    return pool.get("node", NODE)["metadata"].get("annotations", {}).get("tandem.dev/devices-held", "")


def holders(pool):
    """{job: its device, or None while it waits}."""
    ids = pool.shell("squeue", "-h", "-a", "-n", f"out-of-service-{NODE}", "-o", "%A").split()
    found = {}
    for i in map(int, ids):
        m = re.search(r"IDX:([0-9,-]+)", pool.shell("scontrol", "-d", "show", "job", i))
        found[i] = min(expand_ranges(m.group(1))) if m else None
    return found


def gpus(pool):
    return int(re.search(r"gpu:(?:\w+:)?(\d+)", pool.shell("sinfo", "-h", "-n", NODE, "-o", "%G")).group(1))


@pytest.fixture
def node(pool):
    yield pool
    say(pool, "")
    wait_for("all its devices are in service", lambda: not held(pool) and not holders(pool))


@pytest.mark.nightly_real
def test_a_device_is_taken_out_and_the_others_work(node):
    pool = node
    last = gpus(pool) - 1
    say(pool, f"gpu{last}")
    wait_for("nobody can be given it any more", lambda: held(pool) == f"gpu{last}")
    (job, device), = wait_for("one job holds it, and those that had others have ended", lambda: len(h := holders(pool)) == 1 and h).items()
    assert device == last and "keeps a device of n1 out of service" in pool.cmd("why", str(job)).stdout
    wait_for("it counts as no native job", lambda: "tandem.dev/slurm-use" not in pool.get("node", NODE)["metadata"]["annotations"])
    rest = pool.sbatch("-w", NODE, f"--gres=gpu:{last}")
    wait_for("all others are given out", lambda: pool.squeue()[rest]["state"] == "RUNNING")
    assert pool.job_devices(rest) == {NODE: set(range(last))}

    # A job holds the next: it goes on, and when it has ended nobody else is given that one, whoever waits.
    waits = pool.sbatch("-w", NODE, "--gres=gpu:1")
    say(pool, f"gpu{last},gpu0")
    wait_for("a job waits for the end of that job", lambda: len(holders(pool)) == 2)
    pool.kill_role("bridge")
    assert pool.squeue()[rest]["state"] == "RUNNING" and pool.squeue()[waits]["state"] == "PENDING"
    pool.shell("scancel", rest)
    wait_for("both are out", lambda: held(pool) == f"gpu0,gpu{last}")
    wait_for("who waited has another", lambda: pool.squeue()[waits]["state"] == "RUNNING")
    assert pool.job_devices(waits)[NODE].isdisjoint({0, last}) and sorted(holders(pool).values()) == [0, last]
    assert "drain" not in pool.shell("sinfo", "-h", "-n", NODE, "-o", "%T")

    say(pool, f"gpu{last}")
    wait_for("one is back", lambda: held(pool) == f"gpu{last}" and list(holders(pool).values()) == [last])


@pytest.mark.nightly_real
def test_on_a_drained_node_it_is_out_before_anybody_comes(node):
    pool = node
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=drain", "reason=bad fan")
    waits = pool.sbatch("-w", NODE, "--gres=gpu:1")  # its own choice would be the first free one
    say(pool, "gpu0")
    wait_for("its jobs wait, one for each device", lambda: (h := holders(pool)) and len(h) == gpus(pool) and set(h.values()) == {None})
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=undrain")
    wait_for("it is out", lambda: held(pool) == "gpu0" and list(holders(pool).values()) == [0])
    wait_for("who waited has another", lambda: pool.squeue()[waits]["state"] == "RUNNING")
    assert 0 not in pool.job_devices(waits)[NODE]


@pytest.mark.embedded  # faults are injected there
def test_its_node_is_drained_and_tested_without_it(node):
    pool = node
    say(pool, "gpu0")
    wait_for("it is out", lambda: held(pool) == "gpu0" and list(holders(pool).values()) == [0])
    pool.cmd("fault", NODE, "gpu0", "burn=fail")  # only a test would find it
    try:
        pool.cmd("node", "test", NODE, "--wait", timeout=600)  # drained, which the job that holds it must not keep it from
    finally:
        pool.cmd("fault", NODE, "--clear")
    wait_for("it is out again", lambda: held(pool) == "gpu0" and list(holders(pool).values()) == [0])
    assert "drain" not in pool.shell("sinfo", "-h", "-n", NODE, "-o", "%T")


@pytest.mark.embedded  # the command without a kubeconfig
def test_people_say_it_by_a_command(node):
    last = f"gpu{gpus(node) - 1}"
    assert "leaves service" in node.cmd("node", "out", NODE, "--device", last).stdout
    node.cmd("node", "out", NODE, "--device", "gpu0")
    wait_for("both are out", lambda: f"out of service: gpu0,{last}\n" in node.cmd("node", NODE).stdout)
    assert f"gpu0,{last} out of service" in next(line for line in node.cmd("nodes").stdout.splitlines() if line.startswith(NODE))
    assert "comes back" in node.cmd("node", "in", NODE, "--device", "gpu0").stdout
    wait_for("one is back", lambda: held(node) == last)

    r = node.cmd("node", "out", NODE, "--device", "gpu64", check=False)
    assert r.returncode == 2 and "gpu64" in r.stderr
    r = node.cmd("node", "in", NODE, "--device", "gpu0", check=False)
    assert r.returncode == 1 and "gpu0 of n1 is not out of service" in r.stderr
    assert node.cmd("node", "out", NODE, check=False).returncode == 2

    # What cannot be read is said, and changes nothing.
    say(node, "gpu3;gpu4")
    wait_for("the bridge says it", lambda: "tandem.dev/devices-out: give devices with commas between them" in open(f"{node.home}/log/bridge.log").read())
    assert held(node) == last
