"""What native jobs leave idle, in Slurm's history (rows A14)."""
import json
import re
import urllib.request

import pytest

from harness import wait_for
from laptop import me  # noqa: F401 (a fixture)

pytestmark = pytest.mark.embedded  # uses of virtual devices


def idled(pool, node):
    """Device seconds that were held and idle there, as the agent has added them up."""
    with urllib.request.urlopen(f"http://127.0.0.1:{pool.instance['metricsPort'] + 2}/metrics", timeout=60) as r:
        return sum(float(v) for v in re.findall(r'^tandem_device_time_seconds_total{node="%s",state="idle",tenant="[^"]*"} (\S+)$' % node, r.read().decode(), re.M))


def comment(pool, job):
    return pool.shell("sacct", "-X", "-n", "-P", "-j", str(job), "-o", "AdminComment").strip()


def row(pool, *argv):
    out = json.loads(pool.cmd("usage", "-o", "json", *argv).stdout)
    return next((r for r in out.get("usage", out.get("yield", [])) if r.get("user") == "researcher"), {})


@pytest.mark.feature("A14.9", "A14.10")
def test_what_native_jobs_left_idle_is_in_slurms_history(pool, me):
    """Of one node and of two, by job, by user and over both ways to ask; nothing is written of a job that computes."""
    before, lost = row(pool, "--by", "user").get("idleGpuHours", 0), row(pool, "--yield", "--by", "user").get("idleHours", 0)
    mine = lambda: next((r["idleGpuHours"] for r in me.api("GET", "/usage?by=user")[1]["rows"] if r["user"] == "researcher"), 0)
    theirs = mine()
    for i in range(8):
        pool.cmd("fault", "n2", f"gpu{i}", "use=100")
    try:
        batch = lambda *argv: int(pool.cmd("shell", "--user", "researcher", "--", "sbatch", "--parsable", "-o", "/dev/null", *argv).stdout)
        until = "while [ ! -e /home/idle-go ]; do sleep 0.2; done"
        was = {n: idled(pool, n) for n in ("n0", "n1")}
        alone = batch("--gres=gpu:2", "-w", "n0", "--wrap", until)
        both = batch("-N2", "--gres=gpu:2", "-w", "n0,n1", "--wrap", f"srun sh -c '{until}'")
        works = batch("--gres=gpu:4", "-w", "n2", "--wrap", until)
        pool.shell("scontrol", "update", f"jobid={alone}", "admincomment=a word of a site")
        wait_for("the agents have seen them idle", lambda: all(idled(pool, n) - was[n] >= 30 for n in was))
        pool.shell("touch", "/home/idle-go")
        wait_for("they are over", lambda: all(pool.job(j).get("JobState") == "COMPLETED" for j in (alone, both, works)))
        said = {j: wait_for("the history has it", lambda j=j: (c := comment(pool, j)) and "tandem-use:" in c and c) for j in (alone, both)}
    finally:
        pool.cmd("fault", "n2", "--clear")
        pool.shell("rm", "-f", "/home/idle-go")
    assert said[alone].startswith("a word of a site tandem-use:")
    figures = {j: [int(x) for x in c.split("tandem-use:")[1].split(":")] for j, c in said.items()}
    start = lambda j: int(pool.shell("sh", "-c", f"SLURM_TIME_FORMAT=%s sacct -X -n -P -j {j} -o Start").strip())
    for j, devices in ((alone, 2), (both, 4)):
        began, busy, idle = figures[j]
        assert began == start(j) and busy == 0
        elapsed = int(pool.shell("sacct", "-X", "-n", "-P", "-j", str(j), "-o", "ElapsedRaw"))
        assert devices * 2 < idle <= devices * (elapsed + 60), "of all its devices, as far as a look every 5 s sees"
    assert comment(pool, works) == ""

    held = sum(devices * int(pool.shell("sacct", "-X", "-n", "-P", "-j", str(j), "-o", "ElapsedRaw")) for j, devices in ((alone, 2), (both, 4))) / 3600
    near = pytest.approx(held, abs=0.002)  # GPU hours: what a job idled is a part of what it held
    assert row(pool, "--by", "user")["idleGpuHours"] - before == near
    assert row(pool, "--yield", "--by", "user")["idleHours"] - lost == near
    wait_for("the gateway has read it", lambda: mine() - theirs == near)
    # Who owns the job cannot say something else.
    r = pool.run(pool.tandem, "shell", "--user", "researcher", "--", "sacctmgr", "-i", "modify", "job", "where", f"jobid={alone}", "set", "AdminComment=", check=False)
    assert comment(pool, alone) == said[alone], r.stdout + r.stderr
