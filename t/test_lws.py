"""The controller of LeaderWorkerSet, unchanged, and its webhooks (row A8)."""
import json
import socket

import pytest

from gangs import notes
from harness import wait_for
from workloads import Controller, conditions, end, template

pytestmark = pytest.mark.real  # its webhook of pods says what group a pod is of, and the embedded API calls none


@pytest.fixture(scope="module")
def lws(shared_pool, tmp_path_factory):
    ports = []

    def config(c):
        ports.append(int(c.address().split(":")[1]))
        (c.dir / "config.yaml").write_text(json.dumps({
            "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration", "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "webhook": {"port": ports[0]}, "health": {"healthProbeBindAddress": c.address()}, "metrics": {"bindAddress": "0"}}))
        return ["--config", "/tmp/config.yaml"]
    controller = Controller(shared_pool, tmp_path_factory.mktemp("lws"), "lws", config)
    hooks = []
    try:
        def listens():
            with socket.socket() as s:
                return s.connect_ex((controller.host, ports[0])) == 0
        controller.works(listens)
        hooks = controller.hooks(ports[0], {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]})
        yield controller
    finally:
        for h in hooks:  # before their server ends
            shared_pool.kubectl("delete", h)
        controller.stop()


@pytest.mark.nightly
@pytest.mark.feature("A8.4", "A8.8", "A8.11")
def test_each_group_of_a_leaderworkerset_is_one_gang(pool, lws):
    """Two groups of a leader without a GPU and two workers: the workers come after the leader, which waits for them. A worker fails: its group starts
    anew as another job, and the other group runs on."""
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart",
                                                    "leaderTemplate": template(pool), "workerTemplate": template(pool, 1)}}
    pool.apply({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve", "namespace": "default"}, "spec": spec})
    lws.works(lambda: pool.items("pods", "-l", "of=made"))
    group = lambda i: [f"serve-{i}", f"serve-{i}-1", f"serve-{i}-2"]

    def running(i, but=()):
        """The job of this group when it runs whole, and its pods by rank."""
        run = [p for p in pool.running("-l", f"leaderworkerset.sigs.k8s.io/group-index={i}") if p["metadata"]["uid"] not in but]
        if len(run) != 3:
            return None
        run.sort(key=lambda p: int(notes(p)["tandem.dev/gang-rank"]))
        assert [p["metadata"]["name"] for p in run] == group(i) and {notes(p)["tandem.dev/gang-roles"] for p in run} == {"leader=1,worker=2"}
        jobs = {pool.grant(p)[0] for p in run}
        assert len(jobs) == 1
        return jobs.pop(), run
    one, first = wait_for("the first group runs", lambda: running(0))
    other, second = wait_for("the second group runs", lambda: running(1))
    assert one != other
    wait_for("the set says that it is there", lambda: "Available" in conditions(pool.get("leaderworkerset", "serve")))
    end(pool, first[2:], 1)
    again, _ = wait_for("the first group runs anew", lambda: running(0, {p["metadata"]["uid"] for p in first}))
    assert again != one
    wait_for("each group has one job", lambda: set(pool.squeue()) == {again, other})
    assert {p["metadata"]["uid"] for p in running(1)[1]} == {p["metadata"]["uid"] for p in second}, "the other group ran on"
    pool.kubectl("delete", "leaderworkerset", "serve", "--wait=false")
    wait_for("nothing is left", lambda: not pool.items("pods", "-l", "of=made") and not pool.squeue())


@pytest.mark.hand  # the test above says most of it of the controller, and test_roles.py of the places
@pytest.mark.feature("A8.4")
def test_workers_that_come_when_the_leader_is_ready_have_their_places(pool, lws):
    """startupPolicy LeaderReady: the job has room for the whole group when the leader starts. A worker fails: the group starts anew."""
    spec = {"replicas": 1, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": {
        "size": 3, "restartPolicy": "RecreateGroupOnPodRestart", "leaderTemplate": template(pool), "workerTemplate": template(pool)}}  # its GPUs are claims here, for which no place is kept
    pool.apply({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "late", "namespace": "default"}, "spec": spec})

    def whole(but=()):
        run = [p for p in pool.running("-l", "leaderworkerset.sigs.k8s.io/name=late") if p["metadata"]["uid"] not in but]
        return len(run) == 3 and sorted(run, key=lambda p: int(notes(p)["tandem.dev/gang-rank"]))
    first = wait_for("the group runs", whole)
    assert [p["metadata"]["name"] for p in first] == ["late-0", "late-0-1", "late-0-2"]
    assert [len(pool.grant(p)[2]) for p in first] == [0, 0, 0] and len(pool.squeue()) == 1 == len({pool.grant(p)[0] for p in first})
    end(pool, first[2:], 1)
    again = wait_for("the group runs anew", lambda: whole({p["metadata"]["uid"] for p in first}))
    assert [len(pool.grant(p)[2]) for p in again] == [0, 0, 0]
    pool.kubectl("delete", "leaderworkerset", "late", "--wait=false")
    wait_for("nothing is left", lambda: not pool.items("pods", "-l", "of=made") and not pool.squeue())
