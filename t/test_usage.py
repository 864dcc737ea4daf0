"""Usage and tenants at the gateway: who has used what, and who is shown it (rows E3 A6)."""
import csv
import io

import pytest

from harness import wait_for
from laptop import Laptop, me  # noqa: F401 (a fixture)

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


def tenant(name, members, **spec):
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
            "spec": {"cluster": {"namespace": "slurm", "name": "main"}, "namespaces": [], "members": members, **spec}}


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
    good = pool.sbatch("--uid=researcher", "--gid=researcher", "-A", "biology", "--gres=gpu:2", "-c2", script="#!/bin/sh\nsleep 4\n")
    bad = pool.sbatch("--uid=pods", "--gid=pods", "-A", "cells", "--gres=gpu:3", script="#!/bin/sh\nsleep 4\nexit 3\n")
    wait_for("the tenant holds it", lambda: any(r["used"] == 5 for t in me.api("GET", "/tenants")[1]["tenants"] if t["name"] == "biology" for r in t["resources"]))
    seen = {t["name"]: t for t in me.api("GET", "/tenants")[1]["tenants"]}
    assert set(seen) == {"biology", "cells"} and seen["cells"]["parent"] == "biology"
    gpu = seen["biology"]["resources"][0]
    assert (gpu["resource"], gpu["quota"], gpu["limit"], gpu["borrowed"], seen["biology"]["running"], seen["biology"]["role"]) == ("nvidia.com/gpu", 2, 4, 3, 2, "admin")
    assert {m["user"]: m["role"] for m in seen["biology"]["members"]} == {"researcher": "admin", "pods": "member"}
    # Who is a member sees the figures of his tenants, and not who else is in them.
    theirs = {t["name"]: t for t in other.api("GET", "/tenants")[1]["tenants"]}
    assert set(theirs) == {"biology", "cells"} and not any("members" in t for t in theirs.values())

    elapsed = lambda j: int(pool.shell("sacct", "-n", "-X", "-j", str(j), "-o", "ElapsedRaw").strip() or 0)
    wait_for("both are over", lambda: pool.job(good).get("JobState") == "COMPLETED" and pool.job(bad).get("JobState") == "FAILED")
    hours = lambda seconds: pytest.approx(seconds / 3600, abs=0.0006)
    got = wait_for("history has them", lambda: (s := sums(usage(me))).get(("cells", "pods"), {}).get("wastedGpuHours") == hours(3 * elapsed(bad)) and s)
    mine, his = got["biology", "researcher"], got["cells", "pods"]
    assert mine["gpuHours"] == hours(2 * elapsed(good)) and mine["cpuHours"] == hours(2 * elapsed(good)) and mine["wastedGpuHours"] == 0 and mine["jobs"] == 1
    assert his["gpuHours"] == hours(3 * elapsed(bad)) and elapsed(bad) >= 4
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
