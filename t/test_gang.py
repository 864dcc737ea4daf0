"""Gangs of pods: one Slurm job, all or nothing (docs/gangs.md; rows A8 C3)."""
import collections
import json

import pytest

from gangs import GANG, HOSTS, LOSS, MIN, RANK, SIZE, WORLD, all_run, crd, jobs_of, marked, notes, pods, ranks_of, waits
from harness import wait_for


def members(pool, gang, n, size=None, first=0, gpus=2, notes=(), **kw):
    """Pods first … first + n - 1 of a gang of `size`."""
    out = []
    for i in range(first, first + n):
        p = pool.pod(f"{gang}-{i}", gpus, **kw)
        p["metadata"].update(labels={GANG: gang}, annotations={SIZE: str(size or n), **dict(notes)})
        out.append(p)
    return out


@pytest.mark.check
@pytest.mark.asan
@pytest.mark.feature("A8.8", "A8.10", "A8.11")
def test_a_gang_is_one_job_with_exact_devices_for_each_pod(pool):
    """Eight pods with two GPUs each, several on a node; ranks go node by node."""
    pool.apply(*members(pool, "train", 8))
    run = all_run(pool, "train", 8)
    grants = {name: pool.grant(p) for name, p in run.items()}
    assert len({g[0] for g in grants.values()}) == 1
    job = grants["train-0"][0]
    assert list(jobs_of(pool, "train")) == [job]
    dealt = collections.defaultdict(list)
    for name, (_, node, devices) in grants.items():
        assert len(devices) == 2, name
        dealt[node] += devices
    assert all(len(set(d)) == len(d) for d in dealt.values()), "no device twice"
    assert {n: set(d) for n, d in dealt.items()} == pool.job_devices(job), "exactly what Slurm gave"

    ranks = sorted(run, key=lambda name: int(notes(run[name])[RANK]))
    assert ranks == [f"train-{i}" for i in range(8)]
    seats = [run[name]["spec"]["nodeName"] for name in ranks]
    assert seats == sorted(seats, key=lambda n: int(n[1:])), "neighbours in rank are neighbours in the network"
    assert {(notes(p)[WORLD], notes(p)[HOSTS]) for p in run.values()} == {("8", ",".join(ranks))}
    why = pool.cmd("why", "train-3").stdout
    assert f"Slurm job {job}" in why and "rank 3 of 8 in gang train" in why

    # The end of the last member is the end of the job.
    pool.kubectl("delete", "pods", "-l", f"{GANG}=train", "--wait=false")
    wait_for("its job is gone", lambda: not jobs_of(pool, "train"))


@pytest.mark.nightly_real
@pytest.mark.feature("D1.3")
def test_a_gang_is_packed_or_spread(pool):
    """Packed, it waits for one node that holds all of it while another one is split; spread, each pod has a node of its own."""
    placed = lambda how: {"slurm.tandem.dev/placement": how}.items()
    nodes = sorted(n["metadata"]["name"] for n in pool.items("nodes") if "tandem.dev/slurm-share" in n["metadata"].get("annotations", {}))
    used = lambda gang: collections.Counter(p["spec"]["nodeName"] for p in pods(pool, gang).values())
    pool.apply(*(pool.pod(f"one-{n}", 1, nodeSelector={"kubernetes.io/hostname": n}) for n in nodes))
    wait_for("a device of each node is taken", lambda: len(pool.running()) == len(nodes))

    pool.apply(*members(pool, "together", 4, notes=placed("pack")))
    wait_for("it waits in the queue", lambda: [j["state"] for j in jobs_of(pool, "together").values()] == ["PENDING"])
    pool.apply(*members(pool, "anyhow", 4))
    all_run(pool, "anyhow", 4)
    assert len(used("anyhow")) == 2, "no node has eight free devices"
    free = next(n for n in nodes if n not in used("anyhow"))
    pool.kubectl("delete", "pod", f"one-{free}")
    all_run(pool, "together", 4)
    assert used("together") == {free: 4}
    pool.kubectl("delete", "pods", "-l", f"{GANG} in (together, anyhow)")

    pool.apply(*members(pool, "wide", len(nodes), gpus=1, notes=placed("spread")))
    all_run(pool, "wide", len(nodes))
    assert used("wide") == dict.fromkeys(nodes, 1)
    pool.apply(*members(pool, "wider", len(nodes) + 1, gpus=1, notes=placed("spread")), *members(pool, "odd", 2, notes=placed("near")))
    wait_for("more than there are nodes is refused", lambda: any("each on a node of its own" in waits(p) for p in pods(pool, "wider").values()))
    wait_for("so is another word", lambda: any('write "pack" or "spread"' in waits(p) for p in pods(pool, "odd").values()))


@pytest.mark.embedded
@pytest.mark.feature("A8.8")
def test_a_member_finds_rank_size_and_the_others(pool):
    """The variables that torch.distributed reads; what the pod says itself wins. The names can be looked up."""
    say = 'echo "$RANK/$WORLD_SIZE/$MASTER_ADDR:$MASTER_PORT $TANDEM_GANG_HOSTS"; getent hosts $MASTER_ADDR >/dev/null && echo found; exec sleep 100000'
    both = members(pool, "vars", 2, gpus=0, command=["sh", "-c", say])
    both[1]["spec"]["containers"][0]["env"] = [{"name": "MASTER_PORT", "value": "1234"},
                                              {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{RANK}']"}}}]
    pool.apply(*both)
    all_run(pool, "vars", 2)
    said = lambda i: pool.kubectl("logs", f"vars-{i}").splitlines()
    wait_for("they have said it", lambda: len(said(0)) >= 1 and len(said(1)) >= 1)
    assert said(0)[0] == "0/2/vars-0:29500 vars-0,vars-1" and said(1)[0] == "1/2/vars-0:1234 vars-0,vars-1"
    wait_for("the first is found by its name", lambda: "found" in said(1) or "found" in pool.kubectl("exec", "vars-1", "--", "sh", "-c", "getent hosts vars-0 && echo found"))


@pytest.mark.nightly_real
@pytest.mark.feature("A8.8")
def test_a_gang_that_is_not_whole_asks_nothing_of_slurm(pool):
    pool.apply(*members(pool, "half", 2, size=3))
    for name in ("half-0", "half-1"):
        wait_for(f"{name} says so", lambda n=name: "2 of 3 are there" in waits(pods(pool, "half")[n]))
    assert not jobs_of(pool, "half")
    assert "2 of 3" in pool.cmd("why", "half-0").stdout
    pool.apply(*members(pool, "half", 1, size=3, first=2))
    all_run(pool, "half", 3)
    assert len(jobs_of(pool, "half")) == 1


@pytest.mark.feature("A8.8")
@pytest.mark.parametrize("what,fix", [
    ("no number", "is no number of pods from 1 to"),
    ("two numbers", "write one number on all of them"),
    ("no size", "write annotation tandem.dev/gang-size"),
    ("a minimum above it", "write annotation tandem.dev/gang-min as a number from 1 to 2"),
    ("no policy", 'write "fail", "restart" or "replace"'),
    ("two shapes", "give all of them the same"),
    pytest.param("too large", "have room for 16 of them at once", marks=pytest.mark.embedded)])  # the pool's size
@pytest.mark.nightly_real
def test_what_a_gang_says_wrongly_is_refused_with_the_fix(pool, what, fix):
    two = members(pool, "bad", 2, gpus=0)
    a, b = (p["metadata"]["annotations"] for p in two)
    if what == "no number":
        a[SIZE] = b[SIZE] = "two"
    elif what == "two numbers":
        b[SIZE] = "3"
    elif what == "no size":
        del a[SIZE], b[SIZE]
    elif what == "a minimum above it":
        a[MIN] = b[MIN] = "3"
    elif what == "no policy":
        a[LOSS] = b[LOSS] = "panic"
    elif what == "two shapes":
        two[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = two[1]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    else:
        two = members(pool, "bad", 17, gpus=2)
    pool.apply(*two)
    for name in ("bad-0", "bad-1"):
        wait_for(f"{name} is refused", lambda n=name: waits(pods(pool, "bad")[n]).startswith("Refused: ") and fix in waits(pods(pool, "bad")[n]))
    assert not jobs_of(pool, "bad")


@pytest.mark.embedded  # the pool has two nodes
@pytest.mark.feature("A8.8", "C3.6")
def test_a_gang_that_does_not_fit_waits_whole_and_small_pods_pass(pool):
    """None of it is bound, what is free stays free for those that end before it, and it starts when it fits."""
    pool.apply(*members(pool, "first", 4, gpus=8))
    all_run(pool, "first", 4)
    pool.apply(*members(pool, "second", 4, gpus=4))
    wait_for("it waits in the queue", lambda: all("All 4 members of its gang wait in Slurm's queue as job" in waits(p) for p in pods(pool, "second").values()) and len(pods(pool, "second")) == 4)
    assert len(jobs_of(pool, "second")) == 1
    short = pool.pod("small")
    short["metadata"]["annotations"] = {"slurm.tandem.dev/time-limit": "1"}
    pool.apply(short)
    wait_for("a small pod behind it runs", lambda: pool.phase("small") == "Running")
    assert not any(p["spec"].get("nodeName") for p in pods(pool, "second").values())
    pool.kubectl("delete", "pods", "-l", f"{GANG}=first", "--wait=false")
    all_run(pool, "second", 4)


@pytest.mark.nightly_real
@pytest.mark.feature("A8.8")
@pytest.mark.parametrize("policy", [pytest.param("fail", marks=pytest.mark.embedded), "restart", pytest.param("replace", marks=pytest.mark.embedded)])  # as above
def test_a_member_is_lost(pool, policy):
    pool.apply(*members(pool, "lose", 3, notes={LOSS: policy}))
    was = all_run(pool, "lose", 3)
    job = pool.grant(was["lose-0"])[0]
    pool.kubectl("delete", "pod", "lose-1", "--wait=false")
    if policy == "replace":
        wait_for("it is gone", lambda: "lose-1" not in pods(pool, "lose"))
        more, new = (members(pool, "lose", 1, size=3, first=i, notes={LOSS: policy}) for i in (8, 9))
        for what in ("requests", "limits"):
            more[0]["spec"]["containers"][0]["resources"][what]["cpu"] = "2"
        pool.apply(*more)
        wait_for("one that asks for more is refused", lambda: waits(pods(pool, "lose")["lose-8"]).startswith("Refused: a lost member of its gang"))
        pool.kubectl("delete", "pod", "lose-8", "--wait=false")
        pool.apply(*new)
        now = all_run(pool, "lose", 3)
        assert {p["metadata"]["uid"] for k, p in now.items() if k != "lose-9"} == {was[k]["metadata"]["uid"] for k in ("lose-0", "lose-2")}
        assert pool.grant(now["lose-9"]) == pool.grant(was["lose-1"]) and pool.grant(now["lose-9"])[0] == job
        assert notes(now["lose-9"])[RANK] == "1"
        return
    others = lambda: {k: p for k, p in pods(pool, "lose").items() if k != "lose-1"}
    if policy == "fail":
        wait_for("the others have failed", lambda: all(p["status"].get("phase") == "Failed" for p in others().values()) and len(others()) == 2)
        assert all("a member of its gang is lost" in p["status"]["message"] for p in others().values())
    else:
        wait_for("the others are deleted, for their owner to make anew", lambda: not others())
    wait_for("its job is gone", lambda: job not in pool.squeue())


@pytest.mark.embedded  # the phase of pods that somebody else ended
@pytest.mark.feature("A8.8")
def test_scancel_ends_all_as_one(pool):
    pool.apply(*members(pool, "kill", 4))
    job = pool.grant(all_run(pool, "kill", 4)["kill-0"])[0]
    pool.shell("scancel", str(job))
    wait_for("all have failed", lambda: [p["status"].get("reason") for p in pods(pool, "kill").values()] == ["Cancelled"] * 4)


@pytest.mark.embedded
@pytest.mark.feature("A8.8", "A12.2")
def test_a_bridge_that_dies_in_the_middle(pool):
    """Whatever it had done of it: afterwards there is one job, and all its members run on it. One that waits in the queue keeps its place."""
    pool.apply(*members(pool, "full", 4, gpus=7))
    all_run(pool, "full", 4)
    pool.apply(*members(pool, "wait", 2, gpus=8))
    job = wait_for("it is queued", lambda: list(jobs_of(pool, "wait")))
    pool.apply(*members(pool, "mid", 4, gpus=1))
    pool.kill_role("bridge")
    all_run(pool, "mid", 4)
    wait_for("one job", lambda: len(jobs_of(pool, "mid")) == 1)
    assert len({pool.grant(p)[0] for p in pods(pool, "mid").values()}) == 1
    uids = {k: p["metadata"]["uid"] for g in ("full", "mid") for k, p in pods(pool, g).items()}
    pool.kill_role("bridge")
    wait_for("a new bridge knows all", lambda: "waits" in pool.cmd("why", "wait-0", check=False).stdout)
    assert list(jobs_of(pool, "wait")) == job
    assert uids == {k: p["metadata"]["uid"] for g in ("full", "mid") for k, p in pods(pool, g).items() if p["status"]["phase"] == "Running"}


@pytest.mark.embedded  # the pool's size
@pytest.mark.feature("A8.9", "A12.2")
def test_pods_beyond_the_minimum_join_as_room_comes_and_leave_alone(pool):
    """Of six pods of a node each two start together, the others one by one. A bridge that dies in between knows it all again; the core outlives who joined, and not the other way round."""
    pool.apply(pool.pod("before", 8))
    wait_for("one node is taken", lambda: pool.phase("before") == "Running")
    six = [f"stretch-{i}" for i in range(6)]
    pool.apply(*members(pool, "stretch", 6, gpus=8, size=6, notes={MIN: "2"}))
    runs = lambda: {k: p for k, p in pods(pool, "stretch").items() if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]}
    uids = lambda run: {k: p["metadata"]["uid"] for k, p in run.items()}
    says = lambda name: waits(pods(pool, "stretch")[name])
    three = wait_for("three run", lambda: len(runs()) == 3 and runs())
    core = [three[k] for k in six[:2]]
    assert {(notes(p)[RANK], notes(p)[WORLD], notes(p)[HOSTS]) for p in core} == {("0", "2", "stretch-0,stretch-1"), ("1", "2", "stretch-0,stretch-1")}
    assert list(jobs_of(pool, "stretch")) == [pool.grant(p)[0] for p in core[:1]] and pool.grant(core[0])[0] == pool.grant(core[1])[0]
    joined = next(p for k, p in three.items() if k not in six[:2])
    assert notes(joined)["tandem.dev/gang-core"] == notes(core[0])["tandem.dev/gang-uid"] and RANK not in notes(joined) and notes(joined)[HOSTS] == "stretch-0,stretch-1"
    assert pool.grant(joined)[0] != pool.grant(core[0])[0]
    assert "beyond the minimum of 2 of gang stretch" in pool.cmd("why", joined["metadata"]["name"]).stdout

    pool.kill_role("bridge")
    pool.kubectl("delete", "pod", "before", "--wait=false")
    four = wait_for("four run", lambda: len(runs()) == 4 and runs())
    assert uids(three).items() <= uids(four).items()
    outside = next(k for k in six if k not in four)
    wait_for("who waits says for what", lambda: "It is beyond the minimum of 2 of its gang, which runs. It waits in Slurm's queue as job" in says(outside))

    pool.kubectl("delete", "pod", joined["metadata"]["name"], "--wait=false")
    now = wait_for("one of the others takes the room", lambda: len(runs()) == 4 and joined["metadata"]["name"] not in runs() and runs())
    assert all(uids(now)[k] == uids(three)[k] for k in six[:2]), "the core went on"

    pool.kubectl("delete", "pod", "stretch-1", "--wait=false")
    def ended():
        left = {k: p["status"] for k, p in pods(pool, "stretch").items() if k in now and k != "stretch-1"}
        return all(s.get("phase") == "Failed" for s in left.values()) and left
    left = wait_for("all of it have ended", ended)
    assert "a member of its gang is lost" in left["stretch-0"]["message"]
    assert all("the core of its gang has ended" in s["message"] for k, s in left.items() if k != "stretch-0")
    wait_for("no job of it is left", lambda: not [j for j in pool.squeue().values() if j["name"].startswith("stretch")])
    assert "1 of 2 are there" in wait_for("who has not run waits for the next gang", lambda: next((waits(p) for p in pods(pool, "stretch").values() if "are there" in waits(p)), None))


@pytest.mark.embedded  # the pool's size
@pytest.mark.feature("A8.9")
def test_the_end_of_the_core_by_success_leaves_the_rest_of_an_indexed_job_to_the_others(pool):
    """Six pods of a node each on four nodes, with a core of two: who did not fit runs when others are done."""
    p = pool.pod("x", 8, command=["sh", "-c", 'test -z "$RANK" -o "$RANK" = "$JOB_COMPLETION_INDEX" && sleep 0.3'])
    pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "six", "namespace": "default"},
                "spec": {"completions": 6, "parallelism": 6, "completionMode": "Indexed", "backoffLimit": 0,
                         "template": {"metadata": {"labels": {GANG: "six"}, "annotations": {MIN: "2"}}, "spec": {**p["spec"], "restartPolicy": "Never"}}}})
    wait_for("it is complete", lambda: pool.get("job", "six")["status"].get("succeeded") == 6)
    done = pods(pool, "six").values()
    core = [p for p in done if RANK in notes(p)]
    assert sorted(notes(p)[RANK] for p in core) == ["0", "1"] and len({notes(p)["tandem.dev/job-id"] for p in core}) == 1
    assert len({notes(p)["tandem.dev/job-id"] for p in done}) == 5
    wait_for("its jobs are over", lambda: not [j for j in pool.squeue().values() if j["name"].startswith("six")])


@pytest.mark.feature("A8.1", "A8.11")
@pytest.mark.nightly_real  # the same there: nothing in it is the plane's
def test_an_indexed_job_is_a_gang_by_its_label(pool):
    """The Job says how many; the index is the rank; it is done when all are done."""
    p = pool.pod("x", 4, command=["sh", "-c", "echo $JOB_COMPLETION_INDEX of $N; sleep 1"])
    p["spec"]["containers"][0]["env"] = [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{WORLD}']"}}}]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "idx", "namespace": "default"},
           "spec": {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0,
                    "template": {"metadata": {"labels": {GANG: "idx"}}, "spec": {**p["spec"], "restartPolicy": "Never"}}}}
    pool.apply(job)
    wait_for("it is complete", lambda: pool.get("job", "idx")["status"].get("succeeded") == 4)
    done = pods(pool, "idx").values()
    assert len({notes(p)["tandem.dev/job-id"] for p in done}) == 1
    assert all(notes(p)[RANK] == notes(p)["batch.kubernetes.io/job-completion-index"] for p in done)
    for p in done:
        assert pool.kubectl("logs", p["metadata"]["name"]).split() == [notes(p)[RANK], "of", "4"]
    wait_for("its job is over", lambda: not jobs_of(pool, "idx"))
    job["metadata"]["name"] = "idx2"
    job["spec"]["template"]["metadata"].update(labels={GANG: "idx2"}, annotations={SIZE: "3"})
    pool.apply(job)
    wait_for("a size that the Job contradicts is refused", lambda: pods(pool, "idx2") and all("its Job runs 4 pods at once" in waits(p) for p in pods(pool, "idx2").values()))


@pytest.mark.embedded  # the kinds of others are made here
@pytest.mark.feature("A8.2", "A8.4", "A8.6", "A8.9")
def test_pods_of_other_controllers_are_gangs_by_their_marks(pool):
    """LeaderWorkerSet, PodGroup and PyTorchJob, by the labels that their controllers write; they themselves do not run here."""
    lws = {f"leaderworkerset.sigs.k8s.io/{k}": v for k, v in (("name", "serve"), ("group-index", "1"))}
    pool.apply(*[marked(pool, f"serve-1-{i}", {**lws, "leaderworkerset.sigs.k8s.io/worker-index": str(i)}, {"leaderworkerset.sigs.k8s.io/size": "2"}) for i in (1, 0)])
    assert ranks_of(pool, ["serve-1-0", "serve-1-1"]) == [0, 1]

    group = {"scheduling.x-k8s.io/pod-group": "pg"}
    pool.apply(*[marked(pool, f"pg-{i}", group) for i in range(2)])
    says = lambda name: waits(pool.get("pod", name))
    wait_for("they wait for their PodGroup", lambda: "PodGroup default/pg" in says("pg-0") and "PodGroup default/pg" in says("pg-1"))
    assert not [j for j in pool.squeue().values() if j["name"].startswith("podgroup")]
    try:
        pool.apply(crd("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"), crd("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"))
        pool.kubectl("wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io", "crd/pytorchjobs.kubeflow.org")
        pool.apply({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "pg", "namespace": "default"}, "spec": {"minMember": 3}})
        pool.apply(marked(pool, "pg-2", group))
        assert ranks_of(pool, ["pg-0", "pg-1", "pg-2"]) == [0, 1, 2]
        pool.apply(marked(pool, "pg-3", group))  # beyond its minMember
        wait_for("it joins", lambda: pool.phase("pg-3") == "Running")
        assert notes(pool.get("pod", "pg-3"))["tandem.dev/gang-core"] == notes(pool.get("pod", "pg-0"))["tandem.dev/gang-uid"]

        pool.apply({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist", "namespace": "default"},
                    "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}}})
        owner = pool.get("pytorchjob", "mnist")
        role = lambda kind, i: {"training.kubeflow.org/job-name": "mnist", "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": str(i)}
        pool.apply(*[marked(pool, f"mnist-{k}-{i}", role(k, i), owner=owner) for k, i in (("worker", 1), ("worker", 0))])
        wait_for("the master is waited for", lambda: "2 of 3 are there" in says("mnist-worker-0"))
        pool.apply(marked(pool, "mnist-master-0", role("master", 0), owner=owner))
        assert ranks_of(pool, ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]) == [0, 1, 2]

        pool.apply({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "flex", "namespace": "default"},
                    "spec": {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}, "pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}})
        owner = pool.get("pytorchjob", "flex")
        worker = lambda i: marked(pool, f"flex-worker-{i}", {**role("worker", i), "training.kubeflow.org/job-name": "flex"}, owner=owner)
        pool.apply(worker(2), worker(0))
        wait_for("the lowest two are waited for", lambda: "1 of 2 are there" in says("flex-worker-2"))
        pool.apply(worker(1))
        assert ranks_of(pool, ["flex-worker-0", "flex-worker-1"]) == [0, 1]
        wait_for("the third joins", lambda: pool.phase("flex-worker-2") == "Running" and RANK not in notes(pool.get("pod", "flex-worker-2")))
    finally:
        pool.kubectl("delete", "crd", "podgroups.scheduling.x-k8s.io", "pytorchjobs.kubeflow.org", "--ignore-not-found")


@pytest.mark.embedded  # on clusters a policy says so: t/test_policy.py
@pytest.mark.feature("A8.8")
def test_only_the_bridge_says_what_a_gang_was_granted(pool):
    for key in ("gang-uid", "gang-name", "gang-rank", "gang-world", "gang-hosts", "gang-most", "gang-core", "gang-role", "gang-roles"):
        p = pool.pod("forged")
        p["metadata"]["annotations"] = {f"tandem.dev/{key}": "1"}
        r = pool.run("kubectl", "create", "-f", "-", input=json.dumps(p), check=False)
        assert r.returncode and "only Tandem's bridge writes" in r.stderr, key
