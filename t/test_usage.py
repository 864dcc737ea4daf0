"""Usage and tenants at the gateway: who has used what, and who is shown it (rows E3 A6)."""
import csv
import datetime
import io
import json
import re

import pytest

from harness import wait_for
from laptop import Laptop, me, tenant  # noqa: F401 (a fixture)

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


@pytest.fixture
def tenants(pool):
    """biology, which the researcher leads, with cells below it; and law, which is nobody's here."""
    pool.apply(tenant("biology", [{"user": "researcher", "role": "admin"}, {"user": "pods"}], quota={"nvidia.com/gpu": 2}, borrowing={"limit": {"nvidia.com/gpu": 2}}),
               tenant("cells", [{"user": "pods"}], parent="biology"), tenant("law", []))
    ready = lambda t: any(c["type"] == "Ready" and c["status"] == "True" for c in t.get("status", {}).get("conditions", []))
    wait_for("the tenants are there", lambda: sum(ready(t) for t in pool.items("tenants")) == 3)
    yield
    pool.clean()
    pool.kubectl("delete", "tenants", "cells", "biology", "law", "--wait=false")
    wait_for("they are gone", lambda: not pool.items("tenants"))


def usage(who, query=""):
    status, reply = who.api("GET", f"/usage?{query}")
    assert status == 200, reply
    return reply


def sums(reply):
    return {(r.get("tenant"), r.get("user")): r for r in reply["rows"]}


@pytest.mark.feature("E3.1", "E3.6")
def test_everybody_sees_what_is_his_to_see(pool, me, tenants, tmp_path):
    other = Laptop(pool, tmp_path / "other", "pods")
    before = usage(other, "by=tenant,user")
    assert before["shows"] == "own" and {r["user"] for r in before["rows"]} <= {"pods"}
    pool.shell("rm", "-f", "/home/usage-seen")
    until_seen = "while [ ! -e /home/usage-seen ]; do sleep 0.2; done; sleep 2"
    good = pool.sbatch("--uid=researcher", "--gid=researcher", "-A", "biology", "--gres=gpu:2", "-c2", script=f"#!/bin/sh\n{until_seen}\n")
    bad = pool.sbatch("--uid=pods", "--gid=pods", "-A", "cells", "--gres=gpu:3", script=f"#!/bin/sh\n{until_seen}\nexit 3\n")
    wait_for("the tenant holds it", lambda: any(r["used"] == 5 for t in me.api("GET", "/tenants")[1]["tenants"] if t["name"] == "biology" for r in t["resources"]))
    seen = {t["name"]: t for t in me.api("GET", "/tenants")[1]["tenants"]}
    assert set(seen) == {"biology", "cells"} and seen["cells"]["parent"] == "biology"
    gpu = seen["biology"]["resources"][0]
    assert (gpu["resource"], gpu["quota"], gpu["limit"], gpu["borrowed"], seen["biology"]["running"], seen["biology"]["role"]) == ("nvidia.com/gpu", 2, 4, 3, 2, "admin")
    assert {m["user"]: m["role"] for m in seen["biology"]["members"]} == {"researcher": "admin", "pods": "member"}
    # Who is a member sees the figures of his tenants, and not who else is in them.
    theirs = {t["name"]: t for t in other.api("GET", "/tenants")[1]["tenants"]}
    assert set(theirs) == {"biology", "cells"} and not any("members" in t for t in theirs.values())

    pool.shell("touch", "/home/usage-seen")
    elapsed = lambda j: int(pool.shell("sacct", "-n", "-X", "-j", str(j), "-o", "ElapsedRaw").strip() or 0)
    wait_for("both are over", lambda: pool.job(good).get("JobState") == "COMPLETED" and pool.job(bad).get("JobState") == "FAILED")
    hours = lambda seconds: pytest.approx(seconds / 3600, abs=0.0006)
    got = wait_for("history has them", lambda: (s := sums(usage(me))).get(("cells", "pods"), {}).get("wastedGpuHours") == hours(3 * elapsed(bad)) and s)
    mine, his = got["biology", "researcher"], got["cells", "pods"]
    assert mine["gpuHours"] == hours(2 * elapsed(good)) and mine["cpuHours"] == hours(2 * elapsed(good)) and mine["wastedGpuHours"] == 0 and mine["jobs"] == 1
    assert his["gpuHours"] == hours(3 * elapsed(bad)) and elapsed(bad) >= 2
    assert usage(me)["shows"] == "tenants"
    # He sees his own, and nobody else's, whatever he asks for.
    for query in ("", "user=researcher", "tenant=biology", "by=day,tenant,user,type", "by=user"):
        assert {r["user"] for r in usage(other, query)["rows"] if "user" in r} <= {"pods"}, query
    assert sums(usage(other))["cells", "pods"]["gpuHours"] == his["gpuHours"]
    assert usage(other, "user=researcher")["rows"] == [] and usage(other, "by=day&tenant=biology")["total"]["gpuHours"] == 0

    # The same as CSV, and only what was asked for.
    status, r, text = me.api_full("GET", "/usage?format=csv&tenant=cells&by=day,tenant,user,type")
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert status == 200 and r.getheader("Content-Disposition").startswith('attachment; filename="usage-20') and r.getheader("Content-Type").startswith("text/csv")
    assert {(x["tenant"], x["account"], x["user"]) for x in rows} == {("cells", "cells", "pods")} and sum(float(x["gpu_hours"]) for x in rows) == pytest.approx(his["gpuHours"], abs=0.002)
    for query, word in (("from=x", "from"), ("by=colour", "by"), ("format=xml", "format"), ("from=2026-11-02&to=2026-11-02", "before"), ("from=1999-01-01", "days")):
        status, reply = me.api("GET", f"/usage?{query}")
        assert status == 422 and word in reply["error"]["message"], (query, reply)
    assert me.api("GET", "/usage", key=False)[0] == me.api("GET", "/tenants", key=False)[0] == 401

    # Slurm's operators see all; when they are none any more, they do not.
    pool.shell("sacctmgr", "-i", "modify", "user", "pods", "set", "adminlevel=Operator")
    try:
        assert usage(other)["shows"] == "everybody" and sums(usage(other))["biology", "researcher"]["gpuHours"] == mine["gpuHours"]
        assert {t["name"] for t in other.api("GET", "/tenants")[1]["tenants"]} == {"biology", "cells", "law"}
    finally:
        pool.shell("sacctmgr", "-i", "modify", "user", "pods", "set", "adminlevel=None")
    assert usage(other)["shows"] == "own"
    # Who coordinates an account in Slurm sees its people.
    pool.shell("sacctmgr", "-i", "add", "coordinator", "account=biology", "names=pods")
    assert ("biology", "researcher") in sums(usage(other)) and usage(other)["shows"] == "tenants"


def other_status(who):
    try:
        return who.api("GET", "/bills")[0]
    except OSError:
        return None


def in_database(pool, sql):
    return pool.kubectl("exec", "-n", "slurm", "main-slurmdbd-0", "-c", "mariadb", "--", "mariadb", "-N", "slurm_acct_db", "-e", sql)


@pytest.mark.feature("C10.4", "C10.5", "E3.6")
def test_a_bill_is_made_once_and_never_changed(pool, me, tmp_path):
    """Of jobs that ran two months ago, which the database is made to believe."""
    other = Laptop(pool, tmp_path / "other", "pods")
    billing = lambda prices: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge",  # noqa: E731
                                          "-p", json.dumps({"spec": {"billing": prices and {"currency": "EUR", "prices": prices}}}))
    pool.apply(tenant("payers", [{"user": "researcher", "role": "admin"}, {"user": "pods"}], prices=[{"from": "2020-01-01", "gpuHour": 1.5}]))
    try:
        wait_for("its account is there", lambda: all(t.get("status", {}).get("account") for t in pool.items("tenants")))
        jobs = [pool.sbatch(f"--uid={u}", f"--gid={u}", "-A", "payers", "--gres=gpu:2", "-c2", script="#!/bin/sh\ntrue\n") for u in ("researcher", "pods")]
        wait_for("they are over and in the history", lambda: in_database(pool, f"select count(*) from main_job_table where id_job in ({jobs[0]}, {jobs[1]}) and time_end > 0").strip() == "2")
        today = datetime.datetime.now(datetime.timezone.utc)
        first = (today.replace(day=1) - datetime.timedelta(days=40)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)  # of a month that is over
        period, at = first.strftime("%Y-%m"), int(first.timestamp()) + 86400 * 9
        # 30 hours from the evening of the 10th on: 6 of them on the 10th, 24 on the 11th, when there is another price.
        in_database(pool, f"update main_job_table set time_submit={at + 64800}, time_eligible={at + 64800}, time_start={at + 64800}, time_end={at + 64800 + 108000} where id_job in ({jobs[0]}, {jobs[1]})")
        name = f"main-bill-{period}"
        billing([{"from": f"{period}-01", "gpuHour": 9, "cpuHour": 0.1}, {"from": f"{period}-11", "gpuHour": 9, "cpuHour": 0.2}])
        wait_for("the bill is made", lambda: pool.run("kubectl", "get", "configmap", name, "-n", "slurm", check=False).returncode == 0)
        bill = me.api("GET", f"/bills/{period}")[1]
        lines = {(l.get("tenant"), l["user"]): l for l in bill["lines"]}
        each = 60 * 1.5 + 2 * (6 * 0.1 + 24 * 0.2)
        assert not bill["open"] and (lines["payers", "researcher"]["gpuHours"], lines["payers", "researcher"]["cost"]) == (60, round(each, 2)), lines
        assert bill["total"] == round(2 * each, 2) and bill["currency"] == "EUR"
        assert [l["user"] for l in other.api("GET", f"/bills/{period}")[1]["lines"]] == ["pods"] and other.api("GET", f"/bills/{period}")[1]["total"] == round(each, 2)
        assert me.run("bill", period, "-o", "csv").stdout.splitlines()[1:] == [f"{period},payers,payers,{u},,1,60.000,60.000,0.000,{each:.2f},EUR" for u in ("pods", "researcher")]
        text = me.run("bill", period).stdout
        assert "payers" in text and re.search(rf"^TOTAL in EUR +{2 * each:.2f}$", text, re.M) and max(map(len, text.splitlines())) <= 80

        # Other prices change the preview and no bill; nor does a gateway that starts anew, or anybody.
        before = pool.get("configmap", name, "-n", "slurm")
        billing([{"from": f"{period}-01", "gpuHour": 100}])
        wait_for("costs are by the new prices", lambda: me.api("GET", f"/usage?by=tenant&tenant=payers&from={period}-01&to={period}-28")[1]["total"]["cost"] == 2 * 90)
        pool.kill_role("gateway")
        wait_for("it is there again", lambda: other_status(me) == 200)
        listed = wait_for("all bills are made", lambda: (b := me.json("bill")["bills"])[-1]["period"] == period and [x["open"] for x in b].count(True) == 1 and len(b) >= 2 and b)
        assert listed[0]["open"] and listed[0]["period"] == today.strftime("%Y-%m") and listed[-1]["total"] == round(2 * each, 2)
        after = pool.get("configmap", name, "-n", "slurm")
        assert (after["metadata"]["uid"], after["data"]) == (before["metadata"]["uid"], before["data"])
        r = pool.run("kubectl", "patch", "configmap", name, "-n", "slurm", "--type=merge", "-p", '{"data": {"bill.json": "{}"}}', check=False)
        assert r.returncode and "immutable" in r.stderr
        for what, status in (("1999", 422), ("1999-01", 404), (f"{period}?format=xml", 422)):
            assert me.api("GET", f"/bills/{what}")[0] == status, what
    finally:
        billing(None)
        pool.clean()
        pool.kubectl("delete", "tenants", "payers", "--wait=false")
        wait_for("it is gone", lambda: not pool.items("tenants"))
        # The gateway has seen that there are no prices when costs are gone; then nobody makes bills any more.
        wait_for("no prices", lambda: "currency" not in me.api("GET", "/usage")[1])
        wait_for("no bills", lambda: pool.kubectl("delete", "configmaps", "-n", "slurm", "-l", "tandem.dev/bill") is not None and me.json("bill")["bills"] == [])


@pytest.mark.feature("D4.2")
def test_a_tenant_has_rules_for_its_members_sessions(pool, me, tenants):
    """The strictest counts; a person may ask for less, and not for more."""
    seconds = lambda s: (x := me.api("GET", f"/sessions/{s['id']}")[1]).get("started") and x["ends"] - x["started"]  # noqa: E731
    pool.kubectl("patch", "tenant", "biology", "--type=merge", "-p", '{"spec":{"sessions":{"maxAge":"2h"}}}')
    long, short = (me.api("POST", "/sessions", {"kind": "batch", "command": "exec sleep 1000", **more})[1] for more in ({"maxAge": 20000}, {"maxAge": 600}))
    wait_for("the tenant's rule counts", lambda: seconds(long) == 7200)
    wait_for("his own is stricter", lambda: seconds(short) == 600)
    pool.kubectl("patch", "tenant", "biology", "--type=merge", "-p", '{"spec":{"sessions":null}}')
    wait_for("it is gone", lambda: seconds(long) == 20000)
