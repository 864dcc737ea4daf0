"""What people did on Slurm's side is attributed: who drained a node, who cancelled whose job, who changed an account."""
import json
import time

import pytest

from harness import wait_for

NODE = "n3"


def acts(pool, *argv):
    return [json.loads(line) for line in pool.cmd("history", "--slurm", "--days", "1", "-o", "json", *argv).stdout.splitlines()]


@pytest.mark.feature("B2.4")
@pytest.mark.embedded  # by the login pod of this machine
def test_acts_on_slurms_side(pool):
    job = pool.cmd("shell", "--", "sbatch", "--parsable", "-w", "n0", "-o", "/dev/null", "--wrap", "sleep 100000").stdout.strip()
    own = pool.cmd("shell", "--", "sbatch", "--parsable", "-w", "n0", "-o", "/dev/null", "--wrap", "sleep 100000").stdout.strip()
    wait_for("both run", lambda: {pool.job(j).get("JobState") for j in (job, own)} == {"RUNNING"})
    pool.shell("scontrol", "update", f"jobid={job}", "timelimit=5", "comment=x\n1|0|Update Job|1|forged")
    pool.shell("scontrol", "update", f"jobid={job}", "nice=100")
    pool.cmd("shell", "--", "scontrol", "update", f"jobid={own}", "timelimit=4")
    pool.shell("scancel", job)
    pool.cmd("shell", "--", "scancel", own)
    pool.shell("scontrol", "update", f"nodename={NODE}", "state=drain", "reason=look at the fan")
    try:
        pool.shell("sacctmgr", "-i", "add", "account", "audited")
        found = lambda what, on, **more: [a for a in acts(pool) if a["what"] == what and on in a["on"] and all(more[k] in a[k] for k in more)]
        wait_for("the drain is recorded", lambda: found("Node DRAIN", NODE, who="root", more="look at the fan"))
        wait_for("the account is recorded", lambda: found("Add Accounts", "audited", who="root"))
        wait_for("the cancelled job is recorded", lambda: found("Cancel Job", job, who="root", more="of user researcher"))
        wait_for("the changed job is recorded", lambda: found("Update Job", job, who="root", more="comment time_limit=5 of user researcher"))
        assert found("Update Job", job, who="root", more="nice=100 of user researcher")
        assert not found("Cancel Job", own) and not found("Update Job", own) and "forged" not in str(acts(pool)), "who changes or ends his own job is not of interest"
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


@pytest.mark.embedded  # a real cluster has the policy instead (t/test_policy.py)
@pytest.mark.feature("B2.3")
def test_records_are_folded_and_say_who(pool):
    """A NodeAction that ended long ago becomes a line of its node's NodeHistory, once, whatever was done before a crash; `tandem history` shows it as before. Who made it has the API server written, and nobody else."""
    NODE = "n2"
    meta = lambda name: {"apiVersion": "tandem.dev/v1alpha1", "kind": "NodeAction", "metadata": {"name": name, "annotations": {"tandem.dev/made-by": "mallory"}}}
    story = lambda: [json.loads(line) for line in pool.cmd("history", NODE, "-o", "json").stdout.splitlines()]
    mine = lambda: [a for a in story() if a["name"].startswith("fold-")]
    actions = lambda: {a["metadata"]["name"]: a for a in pool.items("nodeactions") if a["spec"]["node"] == NODE}
    over = lambda name: actions()[name].get("status", {}).get("phase") == "Succeeded"
    long_ago = lambda name, days: pool.kubectl("patch", "nodeaction", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": {
        k: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * 86400)) for k in ("startedAt", "finishedAt")}}))
    names = ["fold-a", "fold-b", "fold-c"]
    for name in [*names, "fold-last"]:
        pool.apply({**meta(name), "spec": {"node": NODE, "action": "return", "skipTest": True, "reason": "look", "requestedBy": "root"}})
    wait_for("they are over", lambda: all(over(n) for n in [*names, "fold-last"]))
    me = json.loads(pool.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
    pool.kubectl("annotate", "nodeaction", "fold-a", "tandem.dev/made-by=mallory", "--overwrite")
    assert {a["madeBy"] for a in mine()} == {me} and f"made by {me}" in pool.cmd("history", NODE).stdout

    before = {a["name"]: a for a in mine()}
    long_ago("fold-a", 30)
    wait_for("it is folded", lambda: "fold-a" not in actions())
    (line,) = pool.get("nodehistory", NODE)["records"]
    assert line["name"] == "fold-a" and line["madeBy"] == me and line["status"]["phase"] == "Succeeded"
    # A crash between the line and the end of the object: the line is there, and so is the object.
    pool.kubectl("patch", "nodehistory", NODE, "--type=merge", "-p", json.dumps({"records": [line, {**line, **{k: before["fold-b"][k] for k in ("name", "uid", "createdAt")}}]}))
    assert [a["name"] for a in mine()].count("fold-b") == 1
    long_ago("fold-b", 20)
    long_ago("fold-c", 91)
    wait_for("both went", lambda: not {"fold-b", "fold-c"} & set(actions()))
    assert [a["name"] for a in mine()] == ["fold-a", "fold-b", "fold-last"], "what is older than keepDays has no line"
    folded = {a["name"]: a for a in mine()}
    assert all(folded[n][k] == before[n][k] for n in ("fold-a", "fold-b") for k in ("uid", "spec", "createdAt", "madeBy"))
    # Whoever deletes one takes no record away.
    pool.kubectl("delete", "nodeaction", "fold-last")
    gone = wait_for("its line", lambda: [a for a in pool.get("nodehistory", NODE)["records"] if a["name"] == "fold-last"])
    assert gone[0]["deletedAt"] and gone[0]["status"]["phase"] == "Succeeded" and gone[0]["uid"] == before["fold-last"]["uid"] and "its NodeAction was deleted" in pool.cmd("history", NODE).stdout
    # Asked for by the Node's annotation: its record names who wrote that.
    pool.kubectl("annotate", "node", NODE, "tandem.dev/action=return", "tandem.dev/action-by=mallory")
    asked = wait_for("the record", lambda: [a for a in actions().values() if a["spec"].get("requestedBy") == f"annotation tandem.dev/action of {me}"])
    wait_for("it is over", lambda: over(asked[0]["metadata"]["name"]))
    assert "tandem.dev/action-by" not in pool.get("node", NODE)["metadata"]["annotations"]
    pool.kubectl("delete", "nodehistory", NODE)
