"""Gangs whose roles ask for different things: still one Slurm job (docs/gangs.md; rows A8.4 to A8.8)."""
import collections

import pytest

from gangs import GANG, HOSTS, LOSS, MIN, RANK, SIZE, WORLD, all_run, crd, jobs_of, marked, notes, pods, ranks_of, waits
from harness import expand_ranges, wait_for

ROLE, ROLES = "tandem.dev/gang-role", "tandem.dev/gang-roles"


def role(pool, gang, name, n, size, notes=(), **kw):
    out = []
    for i in range(n):
        p = pool.pod(f"{gang}-{name}-{i}", **kw)
        p["metadata"].update(labels={GANG: gang, ROLE: name}, annotations={SIZE: str(size), **dict(notes)})
        out.append(p)
    return out


def exact(pool, run):
    """The one job of these pods; no device and no core twice, and exactly what Slurm gave."""
    grants = [pool.grant(p) for p in run.values()]
    cores = collections.defaultdict(list)
    for p in run.values():
        mine = expand_ranges(notes(p)["tandem.dev/cpus"])
        assert mine
        cores[p["spec"]["nodeName"]] += mine
    assert all(len(set(c)) == len(c) for c in cores.values())
    assert len({g[0] for g in grants}) == 1
    dealt = collections.defaultdict(list)
    for _, node, devices in grants:
        dealt[node] += devices
    assert all(len(set(d)) == len(d) for d in dealt.values())
    assert {n: set(d) for n, d in dealt.items() if d} == {n: set(d) for n, d in pool.job_devices(grants[0][0]).items() if d}
    return grants[0][0]


@pytest.mark.embedded  # the pool's size
@pytest.mark.check
@pytest.mark.feature("A8.8", "A8.10", "A8.11")
def test_roles_of_different_shapes_are_one_job(pool):
    """A launcher without a GPU and workers that take every GPU of the pool: as parts of a heterogeneous job they would never start."""
    say = 'echo "$RANK/$WORLD_SIZE $TANDEM_GANG_ROLE of $TANDEM_GANG_ROLES $MASTER_ADDR"; nproc; exec sleep 100000'
    pool.apply(*role(pool, "mix", "worker", 16, 17, gpus=2, cpu="2"), *role(pool, "mix", "launcher", 1, 17, command=["sh", "-c", say]))
    run = all_run(pool, "mix", 17)
    job = exact(pool, run)
    ranks = sorted(run, key=lambda name: int(notes(run[name])[RANK]))
    assert ranks == ["mix-launcher-0", *(f"mix-worker-{i}" for i in range(16))], "the launcher first, then by index"
    assert {(notes(p)[WORLD], notes(p)[HOSTS], notes(p)[ROLES]) for p in run.values()} == {("17", ",".join(ranks), "launcher=1,worker=16")}
    assert pool.grant(run["mix-launcher-0"])[2] == set() and all(len(pool.grant(run[n])[2]) == 2 for n in ranks[1:])
    said = wait_for("it has said it", lambda: pool.kubectl("logs", "mix-launcher-0").splitlines()[:2])
    assert said[0] == "0/17 launcher of launcher=1,worker=16 mix-launcher-0"
    why = pool.cmd("why", "mix-launcher-0").stdout
    assert f"Slurm job {job}" in why and "rank 0 of 17 in gang mix (launcher of launcher=1,worker=16)" in why
    pool.shell("scancel", str(job))
    wait_for("all have failed", lambda: [p["status"].get("reason") for p in pods(pool, "mix").values()] == ["Cancelled"] * 17)


@pytest.mark.embedded
@pytest.mark.feature("A8.8", "A12.2")
def test_roles_wait_as_one_and_outlive_the_bridge(pool):
    """Nothing of it starts while a role does not fit; a new bridge knows it, and it is lost as one."""
    pool.apply(*role(pool, "full", "worker", 4, 4, gpus=6))
    all_run(pool, "full", 4)
    pool.apply(*role(pool, "late", "ps", 2, 6, cpu="2"), *role(pool, "late", "worker", 4, 6, gpus=4))
    wait_for("it waits in the queue", lambda: [waits(p) for p in pods(pool, "late").values() if "All 6 members of its gang (ps=2,worker=4) wait in Slurm's queue as job" not in waits(p)] == [])
    job = list(jobs_of(pool, "late"))
    pool.kill_role("bridge")
    pool.kubectl("delete", "pods", "-l", f"{GANG}=full", "--wait=false")
    run = all_run(pool, "late", 6)
    assert [exact(pool, run)] == job
    assert [notes(run[f"late-{n}"])[RANK] for n in ("ps-0", "ps-1", "worker-0", "worker-3")] == ["0", "1", "2", "5"]
    pool.kubectl("delete", "pod", "late-ps-1", "--wait=false")
    wait_for("the others have failed", lambda: [p["status"].get("phase") for p in pods(pool, "late").values()] == ["Failed"] * 5)


@pytest.mark.embedded  # its nodes
@pytest.mark.feature("A8.8")
def test_the_nodes_suit_every_role(pool):
    pool.apply(*role(pool, "near", "leader", 1, 3), *role(pool, "near", "worker", 2, 3, gpus=1, nodeSelector={"kubernetes.io/hostname": "n2"}))
    assert {p["spec"]["nodeName"] for p in all_run(pool, "near", 3).values()} == {"n2"}
    pool.apply(*role(pool, "far", "leader", 1, 3, nodeSelector={"kubernetes.io/hostname": "n1"}), *role(pool, "far", "worker", 2, 3, gpus=1, nodeSelector={"kubernetes.io/hostname": "n2"}))
    wait_for("it is refused", lambda: ["the nodes that all its roles may use have no room" in waits(p) for p in pods(pool, "far").values()] == [True] * 3)


@pytest.mark.embedded  # refused as the gangs of test_gang.py, which are on both planes
@pytest.mark.feature("A8.8")
@pytest.mark.parametrize("what,fix", [
    ("two shapes of one role", "give all pods of one role the same requests"),
    ("two numbers of devices", "give those that have any the same number, or none"),
    ("two accounts of time", "a gang is one job, so give all its roles the same"),
    ("a replacement", 'write "fail" or "restart"')])
def test_what_roles_say_wrongly_is_refused_with_the_fix(pool, what, fix):
    both = [*role(pool, "bad", "a", 1, 2), *role(pool, "bad", "b", 1, 2, cpu="2")]
    if what == "two shapes of one role":
        both[1]["metadata"]["labels"][ROLE] = "a"
    elif what == "two numbers of devices":
        both = [*role(pool, "bad", "a", 1, 2, gpus=1), *role(pool, "bad", "b", 1, 2, gpus=2)]
    elif what == "two accounts of time":
        both[1]["metadata"]["annotations"]["slurm.tandem.dev/time-limit"] = "7"
    else:
        for p in both:
            p["metadata"]["annotations"][LOSS] = "replace"
    pool.apply(*both)
    for p in both:
        wait_for(f"{p['metadata']['name']} is refused", lambda n=p["metadata"]["name"]: waits(pods(pool, "bad")[n]).startswith("Refused: ") and fix in waits(pods(pool, "bad")[n]))
    assert not jobs_of(pool, "bad")


@pytest.mark.embedded  # `replace`, as in test_gang.py
@pytest.mark.feature("A8.7")
def test_executors_of_spark_start_together(pool):
    """As many as they say, beside a driver that is alone; a lost one's place is the next one's."""
    driver = marked(pool, "app-driver", {"spark-app-selector": "s1", "spark-role": "driver"}, gpus=0)
    pool.apply(driver)
    wait_for("the driver runs", lambda: pool.phase("app-driver") == "Running")
    owner = pool.get("pod", "app-driver")
    executor = lambda i: marked(pool, f"app-exec-{i}", {"spark-app-selector": "s1", "spark-role": "executor", "spark-exec-id": str(i)}, {MIN: "2", LOSS: "replace"}, owner=owner)
    pool.apply(executor(1))
    wait_for("one is not enough", lambda: "1 of 2 are there" in waits(pool.get("pod", "app-exec-1")))
    pool.apply(executor(2))
    assert ranks_of(pool, ["app-exec-1", "app-exec-2"]) == [0, 1]
    pool.kubectl("delete", "pod", "app-exec-1", "--wait=false")
    wait_for("it is gone", lambda: "app-exec-1" not in [p["metadata"]["name"] for p in pool.items("pods", "-l", "of=others")])
    pool.apply(executor(3))
    assert ranks_of(pool, ["app-exec-3", "app-exec-2"]) == [0, 1]


@pytest.mark.embedded  # its size
@pytest.mark.feature("A8.7", "A8.4")
def test_a_driver_starts_when_its_executors_have_room(pool):
    """Two applications that each fit alone: the second one's driver does not take the room of the first one's executors. Its places are its executors', a lost one's too."""
    spark = lambda app, role: {"spark-app-selector": app, "spark-app-name": f"app-{app}", "spark-role": role}
    later = {MIN: "2", "tandem.dev/gang-later": '{"cpu": "1", "memory": "64Mi", "nvidia.com/gpu": "8"}'}
    drivers = [marked(pool, f"{app}-driver", spark(app, "driver"), later, gpus=0) for app in ("one", "two")]
    pool.apply(drivers[0])
    wait_for("the first driver runs", lambda: pool.phase("one-driver") == "Running")
    blocker = marked(pool, "beside", {}, gpus=8)  # of four nodes with 8 GPUs one is left
    pool.apply(blocker, drivers[1])
    wait_for("the second driver waits with its executors", lambda: "All 3 members of its gang (driver=1,executor=2) wait in Slurm's queue" in waits(pool.get("pod", "two-driver")))
    owner = pool.get("pod", "one-driver")
    assert (notes(owner)[RANK], notes(owner)[WORLD], notes(owner)[ROLES]) == ("0", "3", "driver=1,executor=2") and pool.grant(owner)[2] == set()
    assert next(j["name"] for i, j in pool.squeue().items() if i == pool.grant(owner)[0]).startswith("app-one.")
    executor = lambda i, gpus=8: marked(pool, f"one-exec-{i}", {**spark("one", "executor"), "spark-exec-id": str(i)}, {MIN: "2"}, owner=owner, gpus=gpus)
    pool.apply(executor(1), executor(2))
    assert ranks_of(pool, ["one-driver", "one-exec-1", "one-exec-2"]) == [0, 1, 2]
    assert [len(pool.grant(pool.get("pod", f"one-exec-{i}"))[2]) for i in (1, 2)] == [8, 8]
    pool.kill_role("bridge")
    pool.kubectl("delete", "pod", "one-exec-1", "--wait=false")
    wait_for("it is gone", lambda: "one-exec-1" not in [p["metadata"]["name"] for p in pool.items("pods", "-l", "of=others")])
    elsewhere = executor(9)
    elsewhere["spec"]["nodeSelector"] = {"no": "where"}
    pool.apply(elsewhere)
    wait_for("one that may not run there has no place", lambda: "is not for this one: node(s) didn't match" in waits(pool.get("pod", "one-exec-9")))
    pool.kubectl("delete", "pod", "one-exec-2", "--wait=false")
    wait_for("it is gone, too", lambda: "one-exec-2" not in [p["metadata"]["name"] for p in pool.items("pods", "-l", "of=others")])
    pool.apply(executor(4))  # it keeps nobody from the other place
    wait_for("that is taken", lambda: pool.phase("one-exec-4") == "Running")
    assert "is not for this one" in waits(pool.get("pod", "one-exec-9"))
    pool.kubectl("delete", "pod", "one-exec-9", "--wait=false")
    pool.apply(executor(3))  # which has ended nobody
    assert ranks_of(pool, ["one-driver", "one-exec-4", "one-exec-3"]) == [0, 1, 2]
    pool.kubectl("delete", "pods", "one-driver", "one-exec-4", "one-exec-3", "--wait=false")
    wait_for("now the second one has its room", lambda: pool.phase("two-driver") == "Running")


@pytest.mark.embedded  # the kind of others is made here
@pytest.mark.feature("A8.4", "A8.7")
def test_places_are_kept_for_workers_of_a_leader_and_of_a_head(pool):
    """What its workers ask for a LeaderWorkerSet with LeaderReady says, and a head says it itself. Those that come may have no role."""
    shape = lambda run: [(int(notes(p)[RANK]), len(pool.grant(p)[2])) for p in run]
    try:
        pool.apply(crd("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"))
        pool.kubectl("wait", "--for=condition=Established", "crd/leaderworkersets.leaderworkerset.x-k8s.io")
        lws = {f"leaderworkerset.sigs.k8s.io/{k}": v for k, v in (("name", "ready"), ("group-index", "0"))}
        of = lambda i: marked(pool, f"ready-0-{i}", {**lws, "leaderworkerset.sigs.k8s.io/worker-index": str(i)}, {"leaderworkerset.sigs.k8s.io/size": "3"}, gpus=1 if i else 0)
        pool.apply({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "ready", "namespace": "default"},
                    "spec": {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": of(1)["spec"]}}}})
        full = [marked(pool, f"full-{i}", {}, gpus=8) for i in range(len(pool.nodes))]
        pool.apply(*full)
        wait_for("the pool is full", lambda: len(pool.running()) == len(full))
        pool.apply(of(0))
        wait_for("the leader waits with its workers", lambda: "All 3 members of its gang (leader=1,worker=2) wait in Slurm's queue" in waits(pool.get("pod", "ready-0-0")))
        pool.kubectl("delete", "pods", *(p["metadata"]["name"] for p in full), "--wait=false")
        wait_for("the leader runs", lambda: pool.phase("ready-0-0") == "Running")
        assert '"nvidia.com/gpu":"1"' in notes(pool.get("pod", "ready-0-0"))["tandem.dev/gang-later"]
        pool.apply(of(2), of(1))
        assert ranks_of(pool, ["ready-0-0", "ready-0-1", "ready-0-2"]) == [0, 1, 2]
        assert shape(pool.get("pod", f"ready-0-{i}") for i in range(3)) == [(0, 0), (1, 1), (2, 1)]
    finally:
        pool.kubectl("delete", "crd", "leaderworkersets.leaderworkerset.x-k8s.io", "--ignore-not-found")

    both = {SIZE: "3"}
    pool.apply(marked(pool, "ray-head", {GANG: "ray", ROLE: "head"}, {**both, "tandem.dev/gang-later": '{"cpu": "1", "memory": "64Mi", "nvidia.com/gpu": "1"}'}, gpus=0))
    wait_for("the head runs", lambda: pool.phase("ray-head") == "Running")
    pool.apply(*[marked(pool, f"ray-{i}", {GANG: "ray"}, both) for i in (1, 2)])
    assert ranks_of(pool, ["ray-head", "ray-1", "ray-2"]) == [0, 1, 2]
    assert shape(pool.get("pod", n) for n in ("ray-head", "ray-1", "ray-2")) == [(0, 0), (1, 1), (2, 1)]


@pytest.mark.embedded  # the kinds of others are made here
@pytest.mark.feature("A8.4", "A8.5", "A8.6")
def test_roles_of_other_controllers_are_one_gang(pool):
    """A LeaderWorkerSet whose leader has no GPU, an MPIJob with the launcher that its Job makes, and a TFJob with parameter servers."""
    lws = {f"leaderworkerset.sigs.k8s.io/{k}": v for k, v in (("name", "serve"), ("group-index", "0"))}
    pool.apply(*[marked(pool, f"serve-0-{i}", {**lws, "leaderworkerset.sigs.k8s.io/worker-index": str(i)}, {"leaderworkerset.sigs.k8s.io/size": "3"}, gpus=4 if i else 0) for i in (2, 1, 0)])
    assert ranks_of(pool, ["serve-0-0", "serve-0-1", "serve-0-2"]) == [0, 1, 2]
    assert notes(pool.get("pod", "serve-0-0"))[ROLES] == "leader=1,worker=2"

    names = {"mpijobs": "MPIJob", "tfjobs": "TFJob"}
    try:
        pool.apply(crd("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"), crd("kubeflow.org", "v1", "tfjobs", "TFJob"))
        pool.kubectl("wait", "--for=condition=Established", *(f"crd/{n}.kubeflow.org" for n in names))
        pool.apply({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi", "namespace": "default"},
                    "spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}})
        owner = pool.get("mpijob", "pi")
        mine = lambda r, **more: {"training.kubeflow.org/job-name": "pi", "training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/job-role": r, **more}
        launcher = marked(pool, "pi-launcher", mine("launcher"), owner=owner, gpus=0)
        template = {"metadata": {"labels": launcher["metadata"].pop("labels")}, "spec": {**launcher["spec"], "restartPolicy": "Never"}}
        pool.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": launcher["metadata"], "spec": {"template": template}})
        first = wait_for("its Job makes the launcher, which waits for its workers", lambda: next((p["metadata"]["name"] for p in pool.items("pods", "-l", "job-name=pi-launcher") if "1 of 3 are there" in waits(p)), None))
        workers = [marked(pool, f"pi-worker-{i}", mine("worker", **{"training.kubeflow.org/replica-index": str(i)}), owner=owner, gpus=4) for i in range(2)]
        pool.apply(*workers)
        assert ranks_of(pool, [first, "pi-worker-0", "pi-worker-1"]) == [0, 1, 2]
        there = lambda: {p["metadata"]["name"]: p["status"].get("phase") for p in pool.items("pods", "-l", "training.kubeflow.org/job-name")}
        pool.shell("scancel", str(pool.grant(pool.get("pod", first))[0]))
        wait_for("all have failed", lambda: set(there().values()) == {"Failed"})
        pool.kubectl("delete", "job", "pi-launcher", "--wait=false")
        pool.apply(marked(pool, "pi-again", mine("launcher"), owner=owner, gpus=0))
        wait_for("the launcher waits, and failed workers are gone, which their controller would never replace", lambda: there() == {"pi-again": "Pending"})
        pool.apply(*workers)
        assert ranks_of(pool, ["pi-again", "pi-worker-0", "pi-worker-1"]) == [0, 1, 2]
        pool.kubectl("delete", "pods", "pi-again", "pi-worker-0", "pi-worker-1", "--wait=false")

        pool.apply({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "slow", "namespace": "default"},
                    "spec": {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}})
        slow = lambda r, **more: {"training.kubeflow.org/job-name": "slow", "training.kubeflow.org/job-role": r, **more}
        owner = pool.get("mpijob", "slow")
        workers = [marked(pool, f"slow-worker-{i}", slow("worker", **{"training.kubeflow.org/replica-index": str(i)}), owner=owner) for i in range(2)]
        pool.apply(*workers)
        assert ranks_of(pool, ["slow-worker-0", "slow-worker-1"]) == [0, 1]
        there = lambda: {p["metadata"]["name"]: p["status"].get("phase") for p in pool.items("pods", "-l", "training.kubeflow.org/job-name=slow")}
        pool.shell("scancel", str(pool.grant(pool.get("pod", "slow-worker-0"))[0]))
        wait_for("workers are gone, since without them no launcher is made", lambda: there() == {})
        pool.apply(*workers)
        assert ranks_of(pool, ["slow-worker-0", "slow-worker-1"]) == [0, 1]
        pool.apply(marked(pool, "slow-launcher", slow("launcher"), owner=owner, gpus=0))
        joins = lambda name: wait_for("the launcher joins them", lambda: pool.phase(name) == "Running" and RANK not in notes(pool.get("pod", name)))
        joins("slow-launcher")
        pool.shell("scancel", str(pool.grant(pool.get("pod", "slow-worker-0"))[0]))
        wait_for("where there is one it is for its Job to try again, or not", lambda: set(there().values()) == {"Failed"} and len(there()) == 3)
        pool.apply(marked(pool, "slow-again", slow("launcher"), owner=owner, gpus=0))
        wait_for("it is not of the core", lambda: "0 of 2 are there" in waits(pool.get("pod", "slow-again")) and there() == {"slow-again": "Pending"})
        pool.apply(*workers)
        assert ranks_of(pool, ["slow-worker-0", "slow-worker-1"]) == [0, 1]
        joins("slow-again")

        pool.apply({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "tf", "namespace": "default"},
                    "spec": {"tfReplicaSpecs": {"Chief": {"replicas": 1}, "PS": {"replicas": 2}, "Worker": {"replicas": 1}}}})
        owner = pool.get("tfjob", "tf")
        of = lambda kind, i: {"training.kubeflow.org/job-name": "tf", "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": str(i)}
        pool.apply(*[marked(pool, f"tf-{k}-{i}", of(k, i), owner=owner, gpus=g) for k, i, g in (("worker", 0, 1), ("ps", 0, 0), ("ps", 1, 0), ("chief", 0, 1))])
        assert ranks_of(pool, ["tf-chief-0", "tf-ps-0", "tf-ps-1", "tf-worker-0"]) == [0, 1, 2, 3]
    finally:
        pool.kubectl("delete", "crd", *(f"{n}.kubeflow.org" for n in names), "--ignore-not-found")
