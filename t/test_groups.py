"""Groups of Kubernetes itself (scheduling.k8s.io, from 1.35 on and with a gate) are gangs, and their objects say how it goes (docs/gangs.md)."""
import json

import pytest

from gangs import HOSTS, WORLD, notes, waits
from harness import wait_for
from realpool import RealPool, assets, cluster, lend

pytestmark = [pytest.mark.feature("A8.2", "F2.1"), pytest.mark.hand]
GROUPS = "scheduling.k8s.io"


@pytest.fixture(scope="module")
def pool(request, tandem, build):
    cluster.Cluster(home="/nonexistent", assets=assets()).from_minor(36, "PodGroups of its own")
    p = RealPool(tandem, build, nodes=2)
    p.cluster.groups = True
    yield from lend(request, p)


def version(pool):
    """The newest version at which PodGroups are served."""
    served = {v["version"] for v in json.loads(pool.kubectl("get", "--raw", f"/apis/{GROUPS}"))["versions"]}
    return next(v for v in ("v1beta1", "v1alpha3", "v1alpha2") if v in served)


def group(pool, name, spec, kind="PodGroup", at=None):
    return {"apiVersion": f"{GROUPS}/{at or version(pool)}", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gang(n, **more):
    return {"schedulingPolicy": {"gang": {"minCount": n}}, **more}


def member(pool, name, of, gpus=1, **kw):
    return pool.pod(name, gpus, schedulingGroup={"podGroupName": of}, **kw)


def says(pool, name):
    """What kubectl shows of the group: status, reason, message."""
    got = pool.kubectl("get", f"podgroups.{GROUPS}", name, "-o",
                       'jsonpath={range .status.conditions[?(@.type=="PodGroupInitiallyScheduled")]}{.status}|{.reason}|{.message}{end}')
    return tuple(got.split("|", 2)) if got else None


def phases(pool, *names):
    return [pool.get("pod", n)["status"].get("phase") for n in names]


def waits_for(pool, what, pod, word):
    return wait_for(what, lambda: word in waits(pool.get("pod", pod)) and waits(pool.get("pod", pod)), 60)


def test_a_group_is_a_gang_and_says_how_it_goes(pool):
    # Its pods come first, and two of three.
    pool.apply(member(pool, "a0", "train"), member(pool, "a1", "train"))
    waits_for(pool, "they wait for their group", "a0", "its PodGroup default/train (scheduling.k8s.io) is not there")
    pool.apply(group(pool, "train", gang(3)))
    waits_for(pool, "they wait for the third", "a0", "2 of 3 are there")
    status, reason, text = wait_for("the group says it too", lambda: says(pool, "train") and "2 of 3" in says(pool, "train")[2] and says(pool, "train"), 60)
    assert (status, reason) == ("False", "Unschedulable") and text == waits(pool.get("pod", "a0"))
    assert phases(pool, "a0", "a1") == ["Pending"] * 2 and not pool.squeue()

    # The third: one Slurm job, all at once.
    pool.apply(member(pool, "a2", "train"))
    wait_for("all three run", lambda: phases(pool, "a0", "a1", "a2") == ["Running"] * 3, 120)
    pods = [pool.get("pod", n) for n in ("a0", "a1", "a2")]
    jobs = {pool.grant(p)[0] for p in pods}
    assert len(jobs) == 1 and {notes(p)[WORLD] for p in pods} == {"3"} and {notes(p)[HOSTS] for p in pods} == {"a0,a1,a2"}
    status, reason, text = wait_for("the group says it", lambda: says(pool, "train")[0] == "True" and says(pool, "train"), 60)
    assert (reason, text) == ("Scheduled", f"Its 3 pods have their nodes, as Slurm job {jobs.pop()}.")

    # One that ends does not take it back: so kube-scheduler has it.
    pool.kubectl("delete", "pod", "a0", "a1", "a2", "--wait=true", "--timeout=90s")
    assert says(pool, "train")[0] == "True"


def test_a_group_that_slurm_has_no_room_for_says_why(pool):
    pool.apply(group(pool, "big", gang(2)), member(pool, "b0", "big", gpus=8), member(pool, "b1", "big", gpus=8))
    wait_for("both run", lambda: phases(pool, "b0", "b1") == ["Running"] * 2, 120)
    pool.apply(group(pool, "next", gang(2)), member(pool, "c0", "next", gpus=8), member(pool, "c1", "next", gpus=8))
    text = waits_for(pool, "it is in the queue", "c0", "All 2 members of its gang wait in Slurm's queue")
    wait_for("the group says it", lambda: says(pool, "next") and "wait in Slurm's queue" in says(pool, "next")[2], 60)
    assert text.split(" as job ")[0] in says(pool, "next")[2]
    pool.kubectl("delete", "pod", "b0", "b1", "--wait=false")
    wait_for("the next two run", lambda: phases(pool, "c0", "c1") == ["Running"] * 2, 120)
    wait_for("the group says it", lambda: says(pool, "next")[0] == "True", 60)
    pool.kubectl("delete", "pod", "c0", "c1", "--wait=false")


def test_what_is_not_kept_is_refused_with_words(pool):
    v = version(pool)
    pool.apply(group(pool, "near", gang(1, schedulingConstraints={"topology": [{"key": "topology.tandem.dev/rack"}]})), member(pool, "d1", "near"))
    waits_for(pool, "one place for all", "d1", 'label "topology.tandem.dev/rack" is not kept')
    if v == "v1beta1":  # 1.37
        ref = {"workloadName": "w", "templateName": "t"}
        for name, policy in (("both", {"gang": {"minGroupCount": 2}}), ("each", {"basic": {}})):
            pool.apply(group(pool, name, {"schedulingPolicy": policy, "workloadRef": ref}, "CompositePodGroup", "v1alpha3"),
                       group(pool, f"{name}-1", gang(1, parentCompositePodGroupName=name, workloadRef=ref)), member(pool, f"{name}-pod", f"{name}-1"))
        waits_for(pool, "groups that start together", "both-pod", "its CompositePodGroup both has the policy gang")
        wait_for("groups that do not have to", lambda: phases(pool, "each-pod") == ["Running"], 120)
    pool.kubectl("delete", "pod", "--all", "--wait=false")


def test_pods_of_a_group_without_a_gang_start_one_by_one(pool):
    """The policy basic: what the Job controller writes for every Job when it makes groups."""
    pool.apply(group(pool, "plain", {"schedulingPolicy": {"basic": {}}}), member(pool, "d0", "plain"), member(pool, "d2", "plain"))
    wait_for("both run", lambda: phases(pool, "d0", "d2") == ["Running"] * 2, 120)
    assert len({pool.grant(pool.get("pod", n))[0] for n in ("d0", "d2")}) == 2
    pool.kubectl("delete", "pod", "--all", "--wait=false")


def test_groups_of_other_schedulers_are_theirs(pool):
    """kube-scheduler's own gang: nothing of ours is written there."""
    if pool.cluster.minor_of("kube-scheduler") < 36:
        pytest.skip("its kube-scheduler knows no groups")
    pods = [member(pool, f"e{i}", "theirs", gpus=0, schedulerName="default-scheduler") for i in range(2)]
    pool.apply(group(pool, "theirs", gang(2)), *pods)
    wait_for("both run", lambda: phases(pool, "e0", "e1") == ["Running"] * 2, 120)
    wait_for("it says so", lambda: says(pool, "theirs") and says(pool, "theirs")[0] == "True", 60)
    assert "Slurm" not in says(pool, "theirs")[2] and "tandem" not in {
        f["manager"] for f in pool.get(f"podgroups.{GROUPS}", "theirs")["metadata"].get("managedFields", [])}
    pool.kubectl("delete", "pod", "e0", "e1", "--wait=false")


def test_a_job_becomes_a_gang_by_itself(pool):
    """With the gate WorkloadWithJob the Job controller makes Workload and PodGroup of a Job that asks for it."""
    if pool.cluster.minor_of("kube-controller-manager") < 37:
        pytest.skip("its kube-controller-manager makes no groups")
    p = member(pool, "x", "x")["spec"]
    p.pop("schedulingGroup")
    p["restartPolicy"] = "Never"
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "whole", "namespace": "default"}, "spec": {
        "completionMode": "Indexed", "completions": 2, "parallelism": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}, "template": {"spec": p}}})
    whole = lambda: [x for x in pool.items("pods", "-l", "job-name=whole") if x["status"].get("phase") == "Running"]
    wait_for("both run", lambda: len(whole()) == 2, 120)
    assert len({pool.grant(x)[0] for x in whole()}) == 1
    pool.kubectl("delete", "job", "whole", "--wait=false")
