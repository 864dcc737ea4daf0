"""The controllers of other projects make the pods, and say what became of their object: JobSet's and Kubeflow's training operator's, unchanged
(row A8)."""
import json

import pytest

from gangs import crd, notes
from harness import wait_for
from workloads import Controller, conditions, end, nothing_left, template, together

pytestmark = pytest.mark.embedded  # kinds without rules in CEL, and webhooks that nobody calls
ROLE, ROLES = "tandem.dev/gang-role", "tandem.dev/gang-roles"


@pytest.fixture(scope="module")
def jobset(shared_pool, tmp_path_factory):
    def config(j):
        (j.dir / "config.yaml").write_text(json.dumps({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration", "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "webhook": {"host": "127.0.0.1", "port": int(j.address().split(":")[1])}, "health": {"healthProbeBindAddress": j.address()}, "metrics": {"bindAddress": "0"}}))
        return ["--config", "/tmp/config.yaml"]
    controller = Controller(shared_pool, tmp_path_factory.mktemp("jobset"), "jobset", config)
    yield controller
    controller.stop()


@pytest.mark.feature("A8.3", "A8.8", "A8.11")
def test_a_jobset_restarts_as_one_and_completes(pool, jobset):
    """A leader without a GPU and two Jobs of workers. A pod fails, then Slurm's administrator cancels the job: JobSet makes all pods anew each time."""
    job = lambda name, replicas, pods, gpus: {"name": name, "replicas": replicas, "template": {"spec": {
        "parallelism": pods, "completions": pods, "completionMode": "Indexed", "backoffLimit": 0,
        "template": template(pool, gpus, {"tandem.dev/gang": "train"}, policy="Never")}}}
    pool.apply({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train", "namespace": "default"}, "spec": {
        "successPolicy": {"operator": "All"}, "startupPolicy": {"startupPolicyOrder": "AnyOrder"}, "failurePolicy": {"maxRestarts": 2},
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "replicatedJobs": [job("leader", 1, 1, 0), job("workers", 2, 2, 1)]}})
    jobset.works(lambda: pool.items("pods", "-l", "of=made"))
    hosts = ["train-leader-0-0", *(f"train-workers-{i}-{k}" for i in range(2) for k in range(2))]

    def gang(but=()):
        number, run = together(pool, 5, but)
        assert [p["metadata"]["name"].rsplit("-", 1)[0] for p in run] == hosts
        assert {(notes(p)[ROLES], notes(p)["tandem.dev/gang-hosts"]) for p in run} == {("leader=1,workers=4", ",".join(f"{h}.train" for h in hosts))}
        assert pool.grant(run[0])[2] == set() and all(len(pool.grant(p)[2]) == 1 for p in run[1:])
        return number, run
    first, run = gang()
    end(pool, run[2:3], 1)
    second, again = gang(run)
    pool.shell("scancel", str(second))
    third, last = gang(again)
    assert len({first, second, third}) == 3
    assert {p["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] for p in last} == {"2"}
    end(pool, last)
    wait_for("JobSet says that it is complete", lambda: "Completed" in conditions(pool.get("jobset", "train")))
    assert pool.get("jobset", "train")["status"]["restarts"] == 2
    nothing_left(pool)


@pytest.fixture(scope="module")
def training(shared_pool, tmp_path_factory):
    """PyTorch's workers wait for their master in an init container, whose image and program are the operator's to be told."""
    at = tmp_path_factory.mktemp("training")
    (at / "init.yaml").write_text("- {name: init-pytorch, image: '{{.InitContainerImage}}', command: [sh, -c, 'until getent hosts {{.MasterAddr}}; do sleep 0.1; done']}\n")

    def flags(j):
        # It waits until its certificate is in its webhooks. Nobody calls them here: they are data.
        name = "validator.training-operator.kubeflow.org"
        hooks = next(o for o in j.manifests if o["kind"] == "ValidatingWebhookConfiguration")
        kind = crd("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
        kind["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, and not served otherwise"}
        kind["spec"]["scope"] = "Cluster"
        kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        j.serve(kind)
        shared_pool.kubectl("create", "-f", "-", input=json.dumps({**hooks, "metadata": {"name": name}}))
        shared_pool.kubectl("create", "secret", "generic", "training-operator-webhook-cert", "-n", "default")
        return [*(f"--enable-scheme={k}" for k in ("pytorchjob", "tfjob", "mpijob")), "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--webhook-server-port", j.address().split(":")[1],
                "--pytorch-init-container-image", "debian:13", "--pytorch-init-container-template-file", "/tmp/init.yaml", "--mpi-kubectl-delivery-image", "debian:13"]
    controller = Controller(shared_pool, at, "training-operator", flags, {"MY_POD_NAMESPACE": "default"}, ("pytorchjobs", "tfjobs", "mpijobs"))
    yield controller
    controller.stop("secret/training-operator-webhook-cert", "crd/validatingwebhookconfigurations.admissionregistration.k8s.io")


def training_job(pool, kind, replicas, container, gpus, **spec):
    """replicas: {role: how many}; gpus: {role: each}."""
    of = {"PyTorchJob": "pytorch", "TFJob": "tf", "MPIJob": "mpi"}[kind]
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": of, "namespace": "default"}, "spec": {**spec, f"{of}ReplicaSpecs": {
        r: {"replicas": n, "restartPolicy": "ExitCode", "template": template(pool, gpus.get(r, 0), name=container)} for r, n in replicas.items()}}}


@pytest.mark.feature("A8.6", "A8.8")
@pytest.mark.parametrize("kind,container,replicas,ranks", [
    ("PyTorchJob", "pytorch", {"Worker": 2, "Master": 1}, ["pytorch-master-0", "pytorch-worker-0", "pytorch-worker-1"]),
    pytest.param("TFJob", "tensorflow", {"PS": 1, "Worker": 1, "Chief": 1}, ["tf-chief-0", "tf-ps-0", "tf-worker-0"], marks=pytest.mark.nightly)])
def test_a_training_job_restarts_as_one_and_succeeds(pool, training, kind, container, replicas, ranks):
    """One worker ends with a code that the operator tries again: it makes that pod and those that went with it anew."""
    pool.apply(training_job(pool, kind, replicas, container, {"Worker": 1, "Master": 1, "Chief": 1}, runPolicy={"cleanPodPolicy": "Running"}))
    training.works(lambda: pool.items("pods", "-l", "of=made"))
    first, run = together(pool, 3)
    assert [p["metadata"]["name"] for p in run] == ranks
    end(pool, run[2:], 137)
    second, again = together(pool, 3, run)
    assert second != first and [p["metadata"]["name"] for p in again] == ranks
    end(pool, [p for p in again if notes(p)[ROLE] != "ps"])  # parameter servers serve until the operator ends them
    wait_for("it has succeeded", lambda: "Succeeded" in conditions(pool.get(kind.lower(), ranks[0].split("-")[0])))
    nothing_left(pool)


@pytest.mark.nightly
@pytest.mark.feature("A8.5", "A8.8")
def test_an_mpijob_starts_its_launcher_with_its_workers(pool, training):
    """The launcher has no GPU. When it is done, the operator ends the workers, and with them the job."""
    pool.apply(training_job(pool, "MPIJob", {"Launcher": 1, "Worker": 2}, "mpi", {"Worker": 1}, runPolicy={"cleanPodPolicy": "Running"}))
    training.works(lambda: pool.items("pods", "-l", "of=made"))
    _, run = together(pool, 3)
    assert [p["metadata"]["name"] for p in run] == ["mpi-launcher", "mpi-worker-0", "mpi-worker-1"]
    end(pool, run[:1])
    wait_for("it has succeeded", lambda: "Succeeded" in conditions(pool.get("mpijob", "mpi")))
    nothing_left(pool)
