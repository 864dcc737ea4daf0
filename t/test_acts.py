"""What people did on Slurm's side is attributed: who drained a node, who cancelled whose job, who changed an account."""
import json

import pytest

from harness import wait_for

pytestmark = pytest.mark.feature("B2.4")
NODE = "n3"


def acts(pool, *argv):
    return [json.loads(line) for line in pool.cmd("history", "--slurm", "--days", "1", "-o", "json", *argv).stdout.splitlines()]


@pytest.mark.embedded  # by the login pod of this machine
def test_acts_on_slurms_side(pool):
    job = pool.cmd("shell", "--", "sbatch", "--parsable", "-w", "n0", "-o", "/dev/null", "--wrap", "sleep 100000").stdout.strip()
    own = pool.cmd("shell", "--", "sbatch", "--parsable", "-w", "n0", "-o", "/dev/null", "--wrap", "sleep 100000").stdout.strip()
    wait_for("both run", lambda: {pool.job(j).get("JobState") for j in (job, own)} == {"RUNNING"})
    pool.shell("scancel", job)
    pool.cmd("shell", "--", "scancel", own)
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=drain", "reason=look at the fan")
    try:
        pool.shell("sacctmgr", "-i", "add", "account", "audited")
        found = lambda what, on, **more: [a for a in acts(pool) if a["what"] == what and on in a["on"] and all(more[k] in a[k] for k in more)]
        wait_for("the drain is recorded", lambda: found("Node DRAIN", NODE, who="root", more="look at the fan"))
        wait_for("the account is recorded", lambda: found("Add Accounts", "audited", who="root"))
        wait_for("the cancelled job is recorded", lambda: found("Cancel Job", job, who="root", more="of user researcher"))
        assert not found("Cancel Job", own), "who ends his own job is not of interest"
        assert all(a["on"] == NODE for a in acts(pool, NODE) if a["what"].startswith("Node")) and acts(pool, NODE)
        times = [a["time"] for a in acts(pool)]
        assert times == sorted(times)
        # A drain of Tandem's own is Tandem's, not root's.
        pool.kubectl("annotate", "node", "n2", "tandem.dev/drain=by hand")
        wait_for("Tandem's drain is recorded", lambda: found("Node DRAIN", "n2", who="Tandem", more="tandem: requested"))
    finally:
        pool.kubectl("annotate", "node", "n2", "tandem.dev/drain-")
        pool.shell("scontrol", "update", f"nodename={NODE}", "state=undrain", check=False)
        pool.shell("sacctmgr", "-i", "delete", "account", "audited", check=False)
    assert max(map(len, pool.cmd("history", "--slurm").stdout.splitlines())) <= 80
    assert "of which NODE" in pool.cmd("history", check=False).stderr
    wait_for("nothing is drained", lambda: not pool.shell("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").strip())
