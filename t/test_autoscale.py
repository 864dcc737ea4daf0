"""Inference that an autoscaler of Kubernetes grows and shrinks, beside native training jobs (row A19): a real HorizontalPodAutoscaler over
deploy/examples/inference.yaml, with a metric that this file serves."""
import base64
import http.server
import json
import os
import pathlib
import ssl
import threading
import time
import urllib.parse

import pytest
import yaml

from harness import wait_for

pytestmark = [pytest.mark.planes, pytest.mark.real]  # a HorizontalPodAutoscaler needs kube-controller-manager; the embedded plane has none
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "deploy/examples/inference.yaml"
READY = "tandem_bridge_ready_duration_seconds"
GROUP = "external.metrics.k8s.io"
TRAINING = ("#!/bin/sh\ntrap 'echo told >>/home/researcher/told-$SLURM_JOB_ID; exit 0' TERM\n"
            "echo begun >>/home/researcher/told-$SLURM_JOB_ID\nsleep 100000 &\nwait\n")


class Adapter:
    """An API of external metrics, as an adapter of Prometheus or of KEDA serves it, at the machine's address in the cluster's network."""

    def __init__(self, pool):
        self.value, self.asked, self.cluster = 0, 0, pool.cluster
        service = "requests.default.svc"
        import cluster  # t/kube; realpool.py has put it on the path
        pki = cluster.Pki(pool.cluster.dir / "pki")
        pki.cert("requests", service, san=[f"DNS:{service}"])
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pki.dir / "requests.crt", pki.dir / "requests.key")
        adapter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                body = json.dumps(adapter.answer(urllib.parse.urlsplit(self.path))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer((pool.cluster.outside, 0), Handler)
        self.server.daemon_threads = True
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.objects = [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "requests", "namespace": "default"},
             "spec": {"type": "ExternalName", "externalName": pool.cluster.outside}},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1beta1.{GROUP}"},
             "spec": {"group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "caBundle": pki_ca(pki),
                      "service": {"name": "requests", "namespace": "default", "port": self.server.server_address[1]}}}]

    def answer(self, url):
        at = url.path.strip("/").split("/")  # apis, the group, v1beta1, namespaces, NAMESPACE, METRIC
        if len(at) < 6:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1", "resources": [
                {"name": "requests_waiting", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}]}
        assert at[4:] == ["default", "requests_waiting"] and "service=answers" in urllib.parse.unquote(url.query), url
        self.asked += 1
        return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": [
            {"metricName": "requests_waiting", "metricLabels": {"service": "answers"}, "value": str(self.value),
             "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}]}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def pki_ca(pki):
    return base64.b64encode((pki.dir / "ca.crt").read_bytes()).decode()


@pytest.fixture
def adapter(pool):
    """The metric is served, and the PriorityClass urgent preempts native jobs."""
    a = Adapter(pool)
    try:
        pool.apply(*a.objects)
        pool.change({"preemption": {"qos": [{"name": "urgent", "priority": 1000, "preempts": ["normal"]}]},
                     "scheduler": {"priorityClassMap": [{"priorityClass": "urgent", "qos": "urgent"}]}})
        wait_for("slurmctld preempts", lambda: "preempt/qos" in pool.shell("scontrol", "show", "config"))
        yield a
    finally:
        pool.kubectl("delete", "hpa", "answers", "--ignore-not-found")  # before what it scales
        pool.kubectl("delete", "apiservice", f"v1beta1.{GROUP}", "--ignore-not-found")
        pool.kubectl("delete", "service", "requests", "--ignore-not-found")
        a.close()
        pool.clean()
        pool.change({"preemption": None, "scheduler": {"priorityClassMap": None}})
        pool.kubectl("delete", "priorityclass", "urgent", "--ignore-not-found")


def example(pool):
    """The example, with claims instead of an extended resource, and no time to think before it shrinks."""
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    scaler, deployment = objects[2], objects[1]
    scaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 0
    pod = deployment["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    gpus = {int(resources[k].pop("nvidia.com/gpu")) for k in ("requests", "limits")}
    pod["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{gpus.pop()}"}]
    resources["claims"] = [{"name": "gpus"}]
    pod["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    return objects


@pytest.mark.feature("A19.1", "A19.4", "A19.5")
@pytest.mark.nightly_real  # the same there: nothing in it is the plane's
def test_an_autoscaler_takes_gpus_from_training_and_gives_them_back(pool, adapter):
    """0 → 2 → 0 replicas, by a HorizontalPodAutoscaler, while native jobs hold every GPU."""
    jobs = [int(pool.as_user("researcher", "sbatch", "--parsable", "--mem=100M", "--gres=gpu:8", f"--nodelist={n}", input=TRAINING).stdout) for n in pool.nodes]
    wait_for("training holds every GPU", lambda: all(os.path.exists(f"{pool.shared_dir}/researcher/told-{j}") for j in jobs))  # and would hear a signal
    pool.apply(*example(pool))
    wait_for("the autoscaler reads the metric", lambda: adapter.asked > 1)
    assert pool.items("pods", "-n", "default") == []

    before = {m: metric(pool, m) for m in (READY + "_count", READY + "_sum")}
    begun = time.monotonic()
    adapter.value = 15  # requests, at 10 a pod
    pods = wait_for("two pods serve", lambda: len(r := pool.running("-l", "app=answers")) == 2 and all(ready(p) for p in r) and r, 120)
    print(f"requests → two pods ready: {time.monotonic() - begun:.2f} s")
    assert all(pool.grant(p)[2] == set(range(8)) for p in pods)
    victims = {jobs[pool.nodes.index(p["spec"]["nodeName"])] for p in pods}
    assert len(victims) == 2
    wait_for("the bridge has measured both", lambda: metric(pool, READY + "_count") - before[READY + "_count"] == 2)
    each = (metric(pool, READY + "_sum") - before[READY + "_sum"]) / 2
    assert 0 < each < time.monotonic() - begun
    wait_for("the bridge counts their devices", lambda: metric(pool, "tandem_pool_namespace_devices") == 16)
    assert {j: pool.squeue()[j]["state"] for j in jobs} == {j: "PENDING" if j in victims else "RUNNING" for j in jobs}

    adapter.value = 0
    wait_for("nothing serves", lambda: pool.get("hpa", "answers")["status"]["desiredReplicas"] == 0 and pool.items("pods", "-n", "default") == [], 120)
    wait_for("the bridge counts none any more", lambda: not metric(pool, "tandem_pool_namespace_devices"))
    wait_for("training goes on", lambda: all(pool.squeue()[j]["state"] == "RUNNING" for j in jobs))
    logs = {j: f"/home/researcher/told-{j}" for j in jobs}
    for j in jobs:
        want = ["begun", "told", "begun"] if j in victims else ["begun"]
        wait_for("each was told what was its", lambda: pool.cmd("shell", "--user", "root", "--", "cat", logs[j]).stdout.split() == want)


def metric(pool, name):
    """A metric of the namespace default, as the bridge shows it; 0: not there."""
    return pool.counted("bridge", name, namespace="default")


def ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
