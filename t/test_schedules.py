"""Runs that are submitted by the clock (row E5)."""
import base64
import json
import os
import time

import pytest

from harness import wait_for
from laptop import Laptop, address

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


@pytest.fixture
def me(pool, tmp_path):
    me = Laptop(pool, tmp_path / "laptop", "researcher")
    yield me
    for s in me.json("schedule", "list")["schedules"]:
        me.run("schedule", "cancel", s["id"])


def secret(pool):
    return pool.get("secret", "main-gateway", "-n", "slurm")["data"]


def due(pool, ident, **more):
    """The hands of the clock: its time has come."""
    entry = json.loads(base64.b64decode(secret(pool)[f"schedule.{ident}"]))
    entry.update({"next": int(time.time()) - 100, **more})
    pool.kubectl("patch", "secret", "main-gateway", "-n", "slurm", "--type=merge", "-p",
                 json.dumps({"data": {f"schedule.{ident}": base64.b64encode(json.dumps(entry).encode()).decode()}}))
    return entry["next"]


def of(me, name):
    return [r for r in me.json("ps", "--all")["runs"] if r["name"] == name]


@pytest.mark.feature("E5.2")
def test_a_schedule_submits_runs_until_it_is_cancelled(pool, me, tmp_path):
    name = f"night{os.urandom(2).hex()}"
    (tmp_path / "hello.sh").write_text("echo by the clock in $(basename $PWD)\n")
    (tmp_path / "tandem.yaml").write_text(f'name: {name}\nschedule: "30 3 1 1 *"\nrun: sh hello.sh\n')
    r = me.run("submit", cwd=tmp_path)
    s = next(x for x in me.json("schedule", "list")["schedules"] if x["name"] == name)
    year = time.gmtime().tm_year + 1
    assert r.stdout == f"Schedule {s['id']}: next at {year}-01-01 03:30 UTC.\n" and s["cron"] == "30 3 1 1 *" and s["timezone"] == "UTC"
    assert s["id"] in me.run("schedule", "list").stdout and of(me, name) == []

    for n in (1, 2):
        when = due(pool, s["id"])
        runs = wait_for("its run", lambda: len(of(me, name)) == n and of(me, name))
        last = wait_for("the next time is written", lambda: next((x for x in me.json("schedule", "list")["schedules"] if x["id"] == s["id"] and x.get("ran") == when), None))
        assert last["run"] in [r["id"] for r in runs] and last["next"] == s["next"] and "problem" not in last
        wait_for("it has run", lambda: me.state(last["run"]) == "done")
        assert me.run("logs", last["run"]).stdout == f"by the clock in {last['run']}\n"

    other = Laptop(pool, tmp_path / "other", "pods")
    assert other.json("schedule", "list")["schedules"] == []
    r = other.run("schedule", "cancel", s["id"], check=False)
    assert r.returncode == 1 and "you have no schedule" in r.stderr
    me.run("schedule", "cancel", s["id"])
    assert f"schedule.{s['id']}" not in secret(pool) and me.run("schedule", "cancel", s["id"], check=False).returncode == 1
    assert not os.path.exists(os.path.join(pool.shared_dir, f"researcher/tandem/schedules/{s['id']}.json"))


@pytest.mark.feature("E5.2", "A12.2")
def test_one_time_is_one_run_whatever_is_killed(pool, me, tmp_path):
    name = f"once{os.urandom(2).hex()}"
    me.run("submit", "--no-code", "--name", name, "--schedule", "@monthly", "--", "true")
    s = next(x for x in me.json("schedule", "list")["schedules"] if x["name"] == name)
    when = due(pool, s["id"])
    wait_for("it is claimed", lambda: json.loads(base64.b64decode(secret(pool)[f"schedule.{s['id']}"])).get("until") or of(me, name))
    old = pool.role_pid("gateway")
    pool.kill_role("gateway")
    wait_for("the gateway is back", lambda: pool.role_pid("gateway") not in (0, old) and reachable(me))
    # The claim of the one that was killed ends, and the same time is due again.
    if not next(x for x in me.json("schedule", "list")["schedules"] if x["id"] == s["id"]).get("ran"):
        due(pool, s["id"], next=when, until=0)
    wait_for("the time is done with", lambda: next(x for x in me.json("schedule", "list")["schedules"] if x["id"] == s["id"]).get("ran") == when)
    assert len(of(me, name)) == 1


def reachable(me):
    try:
        return me.api("GET", "/whoami")[0] == 200
    except OSError:
        return False


@pytest.mark.feature("E5.2")
def test_what_cannot_be_submitted_says_so(pool, me, tmp_path):
    for cron, words in (("0 3 * *", "give five fields"), ("61 * * * *", 'minute: "61"'), ("0 0 30 2 *", "never comes")):
        r = me.run("submit", "--no-code", "--schedule", cron, "--", "true", check=False)
        assert r.returncode == 1 and words in r.stderr, r.stderr
    name = f"wrong{os.urandom(2).hex()}"
    me.run("submit", "--no-code", "--name", name, "--partition", "no-such", "--schedule", "@daily", "--", "true")
    s = next(x for x in me.json("schedule", "list")["schedules"] if x["name"] == name)
    due(pool, s["id"])
    last = wait_for("it says why", lambda: next((x for x in me.json("schedule", "list")["schedules"] if x["id"] == s["id"] and x.get("problem")), None))
    assert "partition" in last["problem"] and last["next"] > time.time() and f"not submitted: {last['problem']}" in me.run("schedule", "list").stdout
