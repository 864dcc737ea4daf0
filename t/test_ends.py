"""What a pod says to Slurm, how it ends, and what Kubernetes users see of Slurm (rows A6, A18)."""
import json

import pytest

from harness import wait_for

pytestmark = pytest.mark.planes
PREFIX = "slurm.tandem.dev/"


@pytest.fixture
def pool(own_pool):
    own_pool.clean()
    own_pool.kubectl("delete", "events", "--all", "-n", "default")  # of pods with the same names
    return own_pool


def told(pool, name, reason, ns="default"):
    """The message of the event of this reason about a pod."""
    return wait_for(f"event {reason} about {name}", lambda: [e["message"] for e in pool.items("events", "-n", ns)
                                                             if (e["reason"], e["involvedObject"]["name"]) == (reason, name)])[-1]


def condition(pool, name, kind, ns="default"):
    return next((c for c in pool.get("pod", name, "-n", ns)["status"].get("conditions", []) if c["type"] == kind), None)


def saying(pod, **notes):
    pod["metadata"]["annotations"] = {PREFIX + k.replace("_", "-"): v for k, v in notes.items()}
    return pod


# ---- annotations ----

@pytest.mark.feature("A6.2", "A18.2")
def test_each_annotation_reaches_its_job(pool):
    """The value of each is what scontrol shows; every key of the list is here, or says where it is shown."""
    elsewhere = {"account", "qos",  # test_what_the_namespace_does_not_give_is_refused_by_name
                 "licenses"}  # a unit test: the pool has none
    pool.shell("scontrol", "create", "reservation", "reservationname=course", "users=pods", "nodes=n1", "starttime=now", "duration=60")
    try:
        said = {"partition": ("all", "Partition", "all"), "time_limit": ("2:00:00", "TimeLimit", "02:00:00"), "constraint": ("r0&b0", "Features", "r0&b0"),
                "reservation": ("course", "Reservation", "course"), "nice": ("100", "Nice", "100"), "job_name": ("train", "JobName", None),
                "exclusive": ("true", "OverSubscribe", "NO")}
        known = {i["name"].removeprefix(PREFIX) for i in json.loads(pool.cmd("annotations", "-o", "json").stdout)["items"]}
        assert known == {k.replace("_", "-") for k in said} | elsewhere
        pool.apply(saying(pool.pod("all-of-them"), **{k: v[0] for k, v in said.items()}))
        wait_for("it runs", lambda: pool.phase("all-of-them") == "Running")
        pod = pool.get("pod", "all-of-them")
        job = pool.job(pool.grant(pod)[0])
        assert pod["spec"]["nodeName"] == "n1"
        assert {field: job[field] for _, field, want in said.values() if want} == {field: want for _, field, want in said.values() if want}
        assert job["JobName"] == f"train.{pod['metadata']['uid']}"
    finally:
        pool.clean()
        pool.shell("scontrol", "delete", "reservationname=course")


@pytest.mark.feature("A18.2")
def test_an_annotation_that_nobody_knows_is_refused_by_name(pool):
    pool.apply(saying(pool.pod("typo"), patition="all"))
    assert told(pool, "typo", "Refused") == f"annotation {PREFIX}patition: there is no such key: `tandem annotations` lists those that there are"
    c = condition(pool, "typo", "PodScheduled")
    assert (c["status"], c["reason"]) == ("False", "Refused") and f"{PREFIX}patition" in c["message"]
    pool.kubectl("annotate", "pod", "typo", f"{PREFIX}patition-", f"{PREFIX}partition=all")
    wait_for("mended, it runs", lambda: pool.phase("typo") == "Running")


@pytest.mark.feature("A6.2", "A18.2")
def test_what_the_namespace_does_not_give_is_refused_by_name(pool):
    """An account of its own, another partition or another QOS than the mapping says: refused, and the message names the fix."""
    scheduler = pool.get("slurmcluster", "main", "-n", "slurm")["spec"]["scheduler"]
    maps = [{"namespace": "team-a", "user": "researcher", "account": "teama", "partition": "all", "qos": "normal"}]
    patch = lambda v: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"scheduler": {"namespaces": v}}}))
    pool.kubectl("create", "namespace", "team-a")
    try:
        patch(maps)
        beyond = {"account": "teamb", "partition": "urgent", "qos": "high"}
        pool.apply(saying(pool.pod("same", ns="team-a"), account="teama", partition="all", qos="normal"))
        wait_for("the mapping is in force", lambda: pool.phase("same", "team-a") == "Running")
        pool.apply(pool.pod("its-own", ns="team-a"), *[saying(pool.pod(k, ns="team-a"), **{k: v}) for k, v in beyond.items()], saying(pool.pod("unmapped"), account="teamb"))
        for name in ("its-own", "same"):
            wait_for(f"{name} runs", lambda: pool.phase(name, "team-a") == "Running")
            job = pool.job(pool.grant(pool.get("pod", name, "-n", "team-a"))[0])
            assert (job["Account"], job["Partition"], job["UserId"].split("(")[0]) == ("teama", "all", "researcher")
        for k, v in beyond.items():
            assert f'annotation {PREFIX}{k}: "{v}" is not what namespace team-a is given ({maps[0][k]})' in told(pool, k, "Refused", "team-a")
        assert f'annotation {PREFIX}account: namespace default is given no account, so "teamb" is refused' in told(pool, "unmapped", "Refused")
        assert not [j for j in pool.squeue().values() if j["name"].split(".")[0] in {*beyond, "unmapped"}]
    finally:
        pool.kubectl("delete", "namespace", "team-a", "--wait=false")
        patch(scheduler.get("namespaces"))
        wait_for("no pods are left", lambda: not pool.items("pods", "-n", "team-a"))
