"""Spark on Kubernetes, unchanged (row A8): spark-submit makes the driver, and the driver makes its executors. On both planes:

    pytest t/test_spark.py -m hand [--plane real]"""
import re

import pytest

import judges
import kubeget
import sparks
from gangs import RANK, notes
from harness import wait_for
from workloads import end

pytestmark = pytest.mark.hand  # half a gigabyte to fetch, an image of it, and a minute for each run


@pytest.fixture(scope="module")
def spark(shared_pool):
    pool = shared_pool
    sparks.image(pool, judges.LISTS / "with_spark.py")
    pool.kubectl("create", "serviceaccount", "spark", "-n", "default")
    pool.kubectl("create", "rolebinding", "spark", "--clusterrole=edit", "--serviceaccount=default:spark", "-n", "default")
    yield pool
    pool.kubectl("delete", "rolebinding/spark", "serviceaccount/spark", "-n", "default")
    if pool.plane != "real":
        pool.cmd("image", "remove", sparks.IMAGE)


SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.executor.instances": "2", "driver.request.cores": "1", "executor.request.cores": "1"}


def driver(pool, name, submitted, log):
    """The driver of the application, when it runs."""
    def runs():
        assert submitted.poll() is None, log.read_text()[-4000:]
        return next(iter(pool.running("-l", f"spark-role=driver,spark-app-name={name}")), None)
    return wait_for("the driver runs", runs, 600)


def executors(pool, of, n, but=()):
    """n running executors of a driver, by number, none of them of `but`."""
    app = of["metadata"]["labels"]["spark-app-selector"]

    def there():
        assert pool.phase(of["metadata"]["name"]) == "Running", pool.kubectl("logs", of["metadata"]["name"])[-4000:]
        run = [p for p in pool.running("-l", f"spark-role=executor,spark-app-selector={app}") if p["metadata"]["name"] not in but]
        return len(run) == n and sorted(run, key=lambda p: int(p["metadata"]["labels"]["spark-exec-id"]))
    return wait_for(f"{n} executors run", there, 600)


def computed_by(pool, of, *ids):
    """Waits until the driver says that these executors computed."""
    want = " ".join(map(str, ids))
    return wait_for(f"executors {want} compute", lambda: re.search(rf"Pi is roughly (3\.\d+) by executors {want}$", pool.kubectl("logs", of["metadata"]["name"]), re.M), 600)


def over(pool, submitted, of, log):
    """The driver is told that it is enough; it succeeds, its executors go, and so does every job."""
    end(pool, [of])
    assert submitted.wait(600) == 0, log.read_text()[-4000:]
    assert pool.phase(of["metadata"]["name"]) == "Succeeded", log.read_text()[-4000:]
    wait_for("nothing is left in Slurm", lambda: not pool.squeue())
    wait_for("the executors are gone", lambda: not pool.items("pods", "-l", "spark-role=executor"))


@pytest.mark.feature("A8.7")
def test_a_fixed_number_of_executors_starts_together(pool, spark, tmp_path):
    """The driver keeps their places; a lost executor is replaced by Spark, in its place."""
    run = sparks.submit(pool, "pi", tmp_path / "config", **SMALL, **{"driver.annotation.tandem.dev/gang-min": "2", "driver.annotation.tandem.dev/gang-later": '{"cpu":"1","memory":"1Gi"}',
                        "executor.annotation.tandem.dev/gang-min": "2"})
    try:
        d = driver(pool, "pi", run, tmp_path / "config.log")
        first = executors(pool, d, 2)
        assert [notes(p)[RANK] for p in (d, *first)] == ["0", "1", "2"] and len({pool.grant(p)[0] for p in (d, *first)}) == 1
        assert next(iter(pool.squeue().values()))["name"].startswith("pi.")
        computed_by(pool, d, 1, 2)
        pool.kubectl("delete", "pod", first[0]["metadata"]["name"], "--wait=false")
        again = executors(pool, d, 2, {first[0]["metadata"]["name"]})
        assert again[0]["metadata"]["uid"] == first[1]["metadata"]["uid"] and notes(again[1])[RANK] == "1"
        computed_by(pool, d, 2, 3)
        over(pool, run, d, tmp_path / "config.log")
    finally:
        run.kill()
        pool.kubectl("delete", "pods", "-l", "spark-role=driver", "--wait=false")


OPERATOR = "sparkoperator.k8s.io/app-name"
APPLICATIONS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
    "name": "sparkapplications.sparkoperator.k8s.io", "annotations": {"api-approved.kubernetes.io": "https://github.com/kubeflow/spark-operator/pull/1298"}}, "spec": {
    "group": "sparkoperator.k8s.io", "scope": "Namespaced", "names": {"plural": "sparkapplications", "singular": "sparkapplication", "kind": "SparkApplication"},
    "versions": [{"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def tell(pool, pod, *argv):
    code, said = kubeget.server(pool.env["KUBECONFIG"]).run(pod, argv, 120)[:2]
    assert code == 0, said


@pytest.mark.feature("A8.7")
def test_executors_of_a_sparkapplication_come_and_go(pool, spark, tmp_path):
    """Dynamic allocation: the driver keeps the places of the object's minimum, what comes beyond that joins with a job of its own, and goes when it
    idles. Submitted as spark-operator's controller does it, by spark-submit with its labels."""
    pool.apply(APPLICATIONS)
    pool.kubectl("wait", "--for=condition=Established", "crd/sparkapplications.sparkoperator.k8s.io")
    pool.apply({"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": {"name": "dyn", "namespace": "default"}, "spec": {
        "type": "Python", "mode": "cluster", "mainApplicationFile": "local:///opt/program.py", "executor": {"instances": 1, "memory": "512m", "coreRequest": "1"},
        "dynamicAllocation": {"enabled": True, "minExecutors": 1, "maxExecutors": 3}}})
    conf = {"spark.executor.instances": "1", f"driver.label.{OPERATOR}": "dyn", f"executor.label.{OPERATOR}": "dyn", "spark.dynamicAllocation.executorIdleTimeout": "10s",
            **{f"spark.dynamicAllocation.{k}": v for k, v in (("enabled", "true"), ("minExecutors", "1"), ("maxExecutors", "3"), ("shuffleTracking.enabled", "true"))}}
    run = sparks.submit(pool, "dyn", tmp_path / "config", **{**SMALL, **conf})
    jobs = lambda pods: {pool.grant(p)[0] for p in pods}
    try:
        d = driver(pool, "dyn", run, tmp_path / "config.log")
        said = notes(d)
        assert said["tandem.dev/gang-later"] == '{"cpu":"1000m","memory":"939524096"}' and said["tandem.dev/gang-world"] == "2"
        first = executors(pool, d, 1)
        asks = first[0]["spec"]["containers"][0]["resources"]["requests"]
        assert asks["memory"] == "896Mi" and jobs((d, *first)) == {pool.grant(d)[0]}, asks
        for _ in range(2):
            tell(pool, d, "sh", "-c", "touch /tmp/slow; rm -f /tmp/rest")
            many = executors(pool, d, 3)
            assert len(jobs((d, *many))) == 3 and len(pool.squeue()) == 3, "one sits in the kept place, whoever left it"
            tell(pool, d, "sh", "-c", "touch /tmp/rest; rm -f /tmp/slow")
            few = executors(pool, d, 1)
            wait_for("who has gone has no job", lambda: set(pool.squeue()) == jobs((d, *few)))
        over(pool, run, d, tmp_path / "config.log")
    finally:
        run.kill()
        pool.kubectl("delete", "pods", "-l", "spark-role=driver", "--wait=false")
        pool.kubectl("delete", "crd", "sparkapplications.sparkoperator.k8s.io", "--ignore-not-found", "--wait=false")
