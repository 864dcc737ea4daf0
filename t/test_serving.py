"""Servers of models, made as Knative's controllers made them by hand, and as KServe's sources make them (t/serving, docs/facts/kubernetes.md K-V). Each
replica is a job of its own in the one queue (row A19)."""
import json
import pathlib

import pytest

from gangs import crd
from harness import wait_for

pytestmark = pytest.mark.embedded  # a policy sends pods through Slurm on a cluster: t/test_policy.py
MADE = pathlib.Path(__file__).resolve().parent / "serving"
KNATIVE = ("serving.knative.dev", "v1", "services", "Service")
REVISION = ("serving.knative.dev", "v1", "revisions", "Revision")
KSERVE = ("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")


@pytest.fixture
def serving(pool):
    """Their kinds are served, and the namespace sends pods that ask for devices through Slurm, though no template says so."""
    kinds = [crd(*k) for k in (KNATIVE, REVISION, KSERVE)]
    for k in kinds:
        k["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    pool.apply(*kinds)
    names = {k["metadata"]["name"] for k in kinds}
    wait_for("their kinds are served", lambda: names <= {k["metadata"]["name"] for k in pool.items("crds") if any(c["type"] == "Established" for c in k["status"].get("conditions", []))})
    pool.kubectl("label", "namespace", "default", "tandem.dev/scheduler=tandem")
    yield pool
    pool.clean()
    pool.kubectl("label", "namespace", "default", "tandem.dev/scheduler-")
    pool.kubectl("delete", "crd", *names)


def made(name, **words):
    """The objects of that file of t/serving: their images and programs are this test's, and GPUS, REVISION and HASH what words says."""
    text = (MADE / f"{name}.json").read_text()
    for k, v in words.items():
        text = text.replace(f"@{k}@", str(v))
    return json.loads(text)["items"]


def standing(pool, selector):
    """(pods that run, pods that wait for Slurm), without those that go."""
    pods = [p for p in pool.items("pods", "-l", selector) if not p["metadata"].get("deletionTimestamp")]
    return [p for p in pods if p["status"].get("phase") == "Running"], [p for p in pods if p["status"].get("phase") == "Pending" and not p["spec"].get("nodeName")]


def settled(pool, selector, runs, waits):
    """The same, as soon as there are so many of each."""
    return wait_for(f"{runs} of {selector} run and {waits} wait", lambda: list(map(len, s := standing(pool, selector))) == [runs, waits] and s)


def files(pool, pod, container):
    return {f for f in pool.kubectl("exec", pod["metadata"]["name"], "-c", container, "--", "ls", "/dev").split() if f.startswith("tandem-gpu")}


def own_jobs(pool, pods):
    jobs = {pool.grant(p)[0] for p in pods}
    assert len(jobs) == len(pods) and all(p["spec"]["schedulerName"] == "tandem" for p in pods)
    wait_for("these are the jobs", lambda: jobs <= set(pool.squeue()))
    return jobs


def of_service(pool, name):
    rows = json.loads(pool.cmd("usage", "--by", "service", "-o", "json").stdout)["usage"]
    return next((r for r in rows if r["service"] == name), None)


@pytest.mark.nightly
@pytest.mark.feature("A19.3", "A18.1", "A18.2", "A19.5")
def test_replicas_and_revisions_of_a_knative_service(serving):
    pool, gpus, nodes = serving, serving.instance["gpus"], len(serving.nodes)
    of = "serving.knative.dev/service=hello"
    pool.apply(*made("knative", REVISION=1, GPUS=gpus, REPLICAS=nodes))
    run, _ = settled(pool, of, nodes, 0)
    first = own_jobs(pool, run)
    assert all(len(pool.grant(p)[2]) == gpus for p in run)
    assert len(files(pool, run[0], "user-container")) == gpus and files(pool, run[0], "queue-proxy") == set()
    said = pool.cmd("why", "ksvc/hello").stdout
    assert said.startswith(f"Knative Service default/hello has {nodes} pods: {nodes} run, 0 wait") and all(f"as Slurm job {j}, nvidia.com/gpu" in said for j in first)
    wait_for("it is in the figures", lambda: (r := of_service(pool, "default/Service/hello")) and r["jobs"] >= nodes and r["gpuHours"] > 0)

    # The next revision beside it: no GPU is free, and this is said, with the way out.
    pool.apply(*made("knative", REVISION=2, GPUS=gpus, REPLICAS=1))
    _, wait = settled(pool, of, nodes, 1)
    for what in ("ksvc/hello", "revision/hello-00002", wait[0]["metadata"]["name"]):
        said = wait_for("why says it", lambda: "Another revision of Service default/hello holds devices" in (t := pool.cmd("why", what).stdout) and t)
        assert "progress deadline (24h; annotation serving.knative.dev/progress-deadline)" in said
    assert "hello-00001" not in pool.cmd("why", "revision/hello-00002").stdout.split("\n")[0]
    pool.kubectl("scale", "deployment", "hello-00001-deployment", f"--replicas={nodes - 1}")
    run, _ = settled(pool, "serving.knative.dev/revision=hello-00002", 1, 0)
    assert own_jobs(pool, run).isdisjoint(first)

    # Ended by Slurm's administrator: it says so, and the next one stands in line as a job of its own.
    gone, job = run[0]["metadata"]["name"], pool.grant(run[0])[0]
    pool.shell("scancel", str(job))
    wait_for("it has ended, and says why", lambda: (s := pool.get("pod", gone)["status"]).get("phase") == "Failed" and s.get("reason") == "Cancelled")
    run, _ = settled(pool, "serving.knative.dev/revision=hello-00002", 1, 0)
    assert own_jobs(pool, run).isdisjoint({job, *first})
    for r in ("hello-00001", "hello-00002"):
        pool.kubectl("scale", "deployment", f"{r}-deployment", "--replicas=0")
    wait_for("at zero it holds nothing", lambda: not pool.squeue())


@pytest.mark.feature("A19.2", "A18.1", "A18.2", "A19.5")
def test_replicas_and_updates_of_an_inference_service(serving):
    pool, gpus, nodes = serving, serving.instance["gpus"], len(serving.nodes)
    of = "serving.kserve.io/inferenceservice=llm"
    pool.apply(*made("kserve", MODEL="one", GPUS=gpus))
    deployment = "llm-predictor"
    pool.kubectl("scale", "deployment", deployment, f"--replicas={nodes}")
    run, _ = settled(pool, of, nodes, 0)
    first = own_jobs(pool, run)
    assert len(files(pool, run[0], "kserve-container")) == gpus
    assert f"has {nodes} pods: {nodes} run" in pool.cmd("why", "isvc/llm").stdout
    assert pool.kubectl("logs", run[0]["metadata"]["name"], "-c", "storage-initializer").split() == ["one"]  # it ran before the server, with the pod
    wait_for("it is in the figures", lambda: of_service(pool, "default/InferenceService/llm"))

    # An update as KServe makes it by default: the old ones stay until new ones are ready.
    pool.apply(*made("kserve", MODEL="two", GPUS=gpus))
    wait_for("a new one waits", lambda: standing(pool, of)[1])
    said = wait_for("why says it", lambda: "Another revision of InferenceService default/llm holds devices" in (t := pool.cmd("why", "isvc/llm").stdout) and t)
    assert "deploymentStrategy: {type: Recreate}" in said
    patch = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}}
    pool.kubectl("patch", "deployment", deployment, "-p", json.dumps(patch))
    run = wait_for("the new ones serve", lambda: len(r := [p for p in pool.running("-l", of) if pool.grant(p)[0] not in first]) == nodes and r)
    assert pool.kubectl("logs", run[0]["metadata"]["name"], "-c", "storage-initializer").split() == ["two"]
    own_jobs(pool, run)


@pytest.mark.feature("A19.2", "A19.3")
def test_only_pods_that_ask_for_devices_are_sent_through_slurm(serving):
    pool = serving
    pods = [pool.pod("plain", scheduler="default-scheduler"), pool.pod("asks", 1, scheduler="default-scheduler"), pool.pod("other", 1, scheduler="mine")]
    init = pool.pod("init", scheduler="default-scheduler")
    init["spec"]["initContainers"] = [{"name": "first", "image": "debian:13", "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    there = pool.pod("bound", scheduler="default-scheduler", nodeName=pool.nodes[0])
    pool.apply(*pods, init, there)
    got = {p["metadata"]["name"]: p["spec"]["schedulerName"] for p in pool.items("pods", "-n", "default")}
    assert got == {"plain": "default-scheduler", "asks": "tandem", "other": "mine", "init": "tandem", "bound": "default-scheduler"}
    wait_for("it runs as a job", lambda: pool.grant(pool.get("pod", "asks")))
