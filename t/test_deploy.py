"""Tandem installed on a real cluster, as its users install it: images, manifests, kustomize, helm, `tandem install` and `tandem up`; every role
as a pod with its own rights and no more; an upgrade of Tandem itself under load. How it goes again: t/test_uninstall.py.

One cluster for the module; the tests are steps of one story, in the order of the file."""
import collections
import json
import re
import ssl
import subprocess
import time
import urllib.request

import pytest
import yaml

from harness import ROOT, got, wait_for
from installed import CHART, NEW, NODE, OLD, SYSTEM, assets, phase, pod, ready, site  # noqa: F401 (a fixture)

RUNNING, WAITING = 12, 24


def objects(text):
    return {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]): d for d in yaml.safe_load_all(text) if d}


def plain(doc):
    """Without what helm adds, and with the text of the per-cluster template read."""
    doc = json.loads(json.dumps(doc))
    doc["metadata"].pop("annotations", None)
    if doc["kind"] == "ConfigMap":
        doc["data"] = {k: [d for d in yaml.safe_load_all(v) if d] for k, v in doc["data"].items()}
    return doc


# ---- one source of truth ----
@pytest.mark.feature("A16.1", "A16.2")
def test_what_is_generated_is_up_to_date():
    r = subprocess.run([ROOT / "tools/gen-deploy", "--check"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    docs = objects((ROOT / "deploy/manifests/tandem.yaml").read_text())
    assert docs["Deployment", SYSTEM, "tandem-operator"]["spec"]["template"]["spec"]["containers"][0]["image"] == f"tandem.dev/tandem:{version}"


@pytest.mark.feature("A16.1", "A16.2")
def test_kustomize_and_helm_give_the_plain_manifests(build):
    bin_ = assets()
    want = objects((ROOT / "deploy/manifests/tandem.yaml").read_text())

    def out(*argv, code=0):
        r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60)
        assert r.returncode == code, r.stdout + r.stderr
        return r.stdout + (r.stderr if code else "")

    got = objects(out(bin_ / "kubectl", "kustomize", ROOT / "deploy/kustomize/base"))
    assert {k: plain(v) for k, v in got.items()} == {k: plain(v) for k, v in want.items()}
    over = objects(out(bin_ / "kubectl", "kustomize", ROOT / "deploy/kustomize/overlays/example"))["Deployment", SYSTEM, "tandem-operator"]
    c = over["spec"]["template"]["spec"]["containers"][0]
    assert over["spec"]["replicas"] == 3 and c["image"] == "registry.example.com/tandem:0.1.0" == c["env"][0]["value"]
    out(bin_ / "helm", "lint", "--strict", CHART)
    template = [bin_ / "helm", "template", "tandem", CHART, "-n", SYSTEM, "--kube-version", "1.34.0"]
    got = objects(out(*template, "--set", "createNamespace=true"))
    assert {k: plain(v) for k, v in got.items()} == {k: plain(v) for k, v in want.items()}
    # Every value is in the schema and the other way round, and does something.
    values, schema = yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text())

    def paths(v, s, at=""):
        for k in set(v) | set(s.get("properties", {})) - {"global"}:
            assert k in v and k in s["properties"], f"{at}{k}: in values.yaml or in the schema only"
            if "properties" in s["properties"][k] and k != "resources":
                yield from paths(v[k], s["properties"][k], f"{at}{k}.")
            else:
                yield f"{at}{k}"
    base = out(*template)
    other = {"image.repository": "r/t", "image.tag": "v9", "image.pullPolicy": "Always", "imagePullSecrets": '[{"name":"s"}]', "logLevel": "debug", "crds.install": "false",
             "createNamespace": "true", "agent.enabled": "false", "agent.namespace": "elsewhere", "agent.createNamespace": "false", "agent.devices": "8", "agent.nodesProxy": "true", "agent.kubelet": "none", "agent.kubeletCA": "/etc/ca.crt",
             "agent.runtimeClassName": "nvidia", "agent.reboot": "systemd", "agent.resetProgram": "/srv/site/reset", "agent.programs": "/srv/site", "agent.seccompProfiles": "profiles", "agent.podLogs": "/srv/logs", "agent.podResources": "/srv/resources", "agent.adapters": "/var/run/cdi",
             "networkPolicies.enabled": "false", "admissionPolicy.enabled": "false", "poolPolicy.enabled": "false", "mutatingPolicies.enabled": "true", "admissionPolicy.jobSetController": "system:serviceaccount:a:b", "networkPolicies.metricsFrom": '[{"podSelector":{}}]', "networkPolicies.apiServerFrom": '[{"podSelector":{}}]'}
    for role in ("operator", "bridge", "agent"):
        other |= {f"{role}.replicas": "5", f"{role}.priorityClassName": "p", f"{role}.nodeSelector": '{"a":"b"}', f"{role}.tolerations": '[{"operator":"Exists"}]',
                  f"{role}.resources": '{"requests":{"cpu":"7"}}'}
    for path in paths(values, schema):
        assert out(*template, "--set-json" if other[path][0] in "[{" else "--set", f"{path}={other[path]}") != base, f"{path} does nothing"
    # The policies that write: the chart takes the version that the cluster serves.
    mutating = [*template, "--set", "mutatingPolicies.enabled=true", "--show-only", "templates/80-mutating.yaml"]
    want = objects((ROOT / "deploy/manifests/mutating.yaml").read_text())
    assert {k: plain(v) for k, v in objects(out(*mutating)).items()} == {k: plain(v) for k, v in want.items()} and len(want) == 10
    newer = objects(out(*mutating, "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")).values()
    assert {d["apiVersion"] for d in want.values()} == {"admissionregistration.k8s.io/v1beta1"} and {d["apiVersion"] for d in newer} == {"admissionregistration.k8s.io/v1"}
    assert "kind: MutatingAdmissionPolicy" not in out(*template, "--set", "mutatingPolicies.enabled=true", "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")  # 1.32: left out
    # Whoever tolerates more must not lose what lets them start where every node is drained in Slurm.
    more = objects(out(*template, "--set-json", 'operator.tolerations=[{"key":"more","operator":"Exists"}]'))
    assert [t["key"] for t in more["Deployment", SYSTEM, "tandem-operator"]["spec"]["template"]["spec"]["tolerations"]] == ["tandem.dev/slurm-drain", "tandem.dev/slurm-down", "more"]
    # The agents' kubelets and profiles: chart and `tandem install` say the same.
    url, ca = "https://$(NODE_NAME):10250", "/var/lib/kubelet/pki/kubelet.crt"
    chart = objects(out(*template, "--set", f"agent.kubelet={url},agent.kubeletCA={ca},agent.seccompProfiles=tandem-profiles"))["DaemonSet", NODE, "tandem-agent"]["spec"]["template"]["spec"]
    install = [build / "src/cmd/tandem", "install", "--dry-run", "-o", "yaml"]
    ours = objects(out(*install, "--kubelet", url, "--kubelet-ca", ca, "--seccomp-profiles", "tandem-profiles"))["DaemonSet", NODE, "tandem-agent"]["spec"]["template"]["spec"]
    for spec in (chart, ours):
        c = spec["containers"][0]
        assert f"--kubelet={url}" in c["args"] and "--kubelet-ca=/host/kubelet-ca.crt" in c["args"]
        assert {"name": "kubelet-ca", "mountPath": "/host/kubelet-ca.crt", "readOnly": True} in c["volumeMounts"]
        assert {"name": "kubelet-ca", "hostPath": {"path": ca, "type": "File"}} in spec["volumes"]
        assert {"name": "profiles", "configMap": {"name": "tandem-profiles", "optional": True}} in spec["volumes"]
        assert "--profiles-to=/host/seccomp" in c["args"] and {"name": "seccomp", "mountPath": "/host/seccomp"} in c["volumeMounts"]
        c["args"].sort()
        c["volumeMounts"].sort(key=lambda m: m["name"])
        spec["volumes"].sort(key=lambda v: v["name"])
    assert chart == ours
    assert "at '/agent/kubelet'" in out(*template, "--set", "agent.kubelet=http://x", code=1)
    for wrong in (["--kubelet", "http://x"], ["--kubelet", "https://"], ["--kubelet-ca", "ca.crt"], ["--kubelet-ca", "/a b"], ["--seccomp-profiles", "A_b"]):
        assert wrong[0] in out(*install, *wrong, code=2)
    assert "at '/operator/replicas'" in out(*template, "--set", "operator.replicas=0", code=1)


# ---- the story ----


PROFILES = ("--seccomp-profiles", "tandem-profiles")  # of a site; its ConfigMap comes later


@pytest.mark.nightly_too
@pytest.mark.feature("A16.2", "A16.3")
def test_install(site):
    dry = site.cmd("install", "--image", OLD, "--dry-run")
    assert "created" in dry and not [n for n in site.items("namespaces") if n["metadata"]["name"] == SYSTEM]
    text = site.run(site.tandem, "install", "--dry-run", "-o", "yaml", "--image", OLD, "--namespace", "elsewhere")  # needs no cluster
    assert {(d["metadata"].get("namespace")) for d in objects(text).values()} <= {None, "elsewhere", NODE, "kube-node-lease", "kube-public", "kube-system"} and OLD in text
    n = len(objects(text))
    assert site.install(OLD, *PROFILES) == {"created": n}
    quiet = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}
    site.kubectl("-n", NODE, "create", "configmap", PROFILES[1], f"--from-literal=quiet.json={json.dumps(quiet)}")  # nodes have it some tests later
    assert site.install(OLD, *PROFILES) == {"unchanged": n}
    # Somebody's change is put right, and said.
    site.kubectl("-n", SYSTEM, "scale", "deployment/tandem-operator", "--replicas=1")
    assert "Deployment tandem-system/tandem-operator changed" in site.cmd("install", "--image", OLD, "--dry-run", *PROFILES)
    assert site.install(OLD, *PROFILES) == {"unchanged": n - 1, "changed": 1}
    site.kubectl("-n", SYSTEM, "rollout", "status", "deployment/tandem-operator", "--timeout=300s")
    assert "--image" in site.cmd("install", "--image", "not an image", code=2)
    pods = lambda: [*site.items("pods", "-n", SYSTEM), *site.items("pods", "-n", NODE)]
    wait_for("nobody is on the way out", lambda: all(ready(p) for p in pods()))  # of the two that were one for a moment
    assert len([p for p in pods() if p["metadata"]["namespace"] == NODE]) == 3


@pytest.mark.nightly_too
@pytest.mark.feature("A1.1", "A1.3", "A1.4", "A1.5", "A1.6", "A2.1", "A5.1", "A16.3", "F2.1")
def test_up_gives_the_tour(site):
    """All tests below need the pool that it makes."""
    out = site.cmd("up", "--image", OLD, "--wait", "5m", *PROFILES)
    assert "Slurm: 3 nodes" in out and "Try it" in out
    tour = out.partition("Try it:")[2].strip().replace("\\\n", " ").splitlines()
    assert site.kubectl("get", "slurmc", "-A", "-o", "name").split() == ["slurmcluster.tandem.dev/main"]
    assert "slurmcluster" not in site.kubectl("get", "sc", "-A", "-o", "name")  # StorageClass has that short name
    assert len(tour) == 5 and all(f" --kubeconfig {site.c.kubeconfig} " in f"{line} " for line in tour)
    again = site.cmd("up", "--image", OLD, "--wait", "5m", *PROFILES)
    assert re.search(r"Tandem: 0 created, 0 changed", again) and re.search(r"slurm/main: 0 created, 0 changed", again)
    assert sorted(site.slurm("srun", "-N3", "hostname").split()) == ["n0", "n1", "n2"]
    job = site.slurm("sbatch", "--parsable", "-c17", "-w", "n0", "--wrap", "sleep 1000", "-o", "/dev/null").strip()
    wait_for("the job runs", lambda: site.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", 60)
    assert "Permission denied" in site.cmd("shell", "--", "cat", "/etc/slurm-keys/slurm.key", code=1)  # a user's shell
    site.namespace("ml")
    # It holds more of its node's disk than it may. Its kubelet looks every few seconds: the next test sees what became of it.
    hoards = json.loads(pod("hoards", 1, command="head -c 50M /dev/zero > /held; exec sleep 100000"))
    hoards["spec"]["containers"][0]["resources"]["limits"] = {"ephemeral-storage": "20Mi"}
    site.kubectl("apply", "-f", "-", input=json.dumps(hoards))
    # The agent, which has no capabilities, reads what a pod says in its log, and from a kubelet's own.
    beats = json.loads(pod("through", 17, command="for i in 1 2 3 4 5; do echo tandem-beat $i 0.25; done; exec sleep 100000", nodeSelector={"kubernetes.io/hostname": "n0"}))
    beats["metadata"].setdefault("annotations", {})["tandem.dev/heartbeat"] = "log"
    site.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "default"}, "spec": {"straggler": {"steps": 2, "everySeconds": 1}}}))
    site.kubectl("apply", "-f", "-", input=json.dumps(beats))
    wait_for("why", lambda: "waits" in site.cmd("why", "-n", "ml", "through"), 60)
    site.slurm("scancel", job)
    wait_for("the pod runs", lambda: phase(site, "through") == "Running", 90)
    assert "n0" in site.cmd("why", "-n", "ml", "through")
    wait_for("what it says is on the pod", lambda: "in seconds: 0.250000 a step, up to step 3" in site.kubectl("-n", "ml", "get", "pod", "through", "-o", "jsonpath={.status.conditions}"), 60)
    site.kubectl("delete", "healthpolicy", "default")
    site.kubectl("-n", "ml", "delete", "pod", "through", "--grace-period=1")
    # A drain on one side shows on the other.
    site.slurm("scontrol", "update", "nodename=n1", "state=drain", "reason=disk")
    wait_for("the taint", lambda: "tandem.dev/slurm-drain" in json.dumps(json.loads(site.kubectl("get", "node", "n1", "-o", "json"))["spec"].get("taints", [])), 60)
    site.slurm("scontrol", "update", "nodename=n1", "state=undrain")
    wait_for("no taint", lambda: "tandem.dev/slurm-drain" not in json.dumps(json.loads(site.kubectl("get", "node", "n1", "-o", "json"))["spec"].get("taints", [])), 60)


@pytest.mark.nightly_too
@pytest.mark.feature("A16.4")
def test_pods_of_tandem_are_restricted(site):
    """The namespace admits nothing else; the agent, which needs the node, is the one exception."""
    ns = {n["metadata"]["name"]: n["metadata"].get("labels", {}) for n in site.items("namespaces")}
    assert ns[SYSTEM]["pod-security.kubernetes.io/enforce"] == "restricted"
    roles = collections.Counter()
    for p in site.items("pods", "-n", SYSTEM) + site.items("pods", "-n", NODE):
        roles[p["metadata"]["labels"]["app.kubernetes.io/name"]] += 1
        for c in p["spec"]["containers"]:
            s = c["securityContext"]
            assert s["readOnlyRootFilesystem"] and s["capabilities"] == {"drop": ["ALL"]} and not s["allowPrivilegeEscalation"]
            assert all(k in c for k in ("livenessProbe", "readinessProbe")) and "memory" in c["resources"]["limits"]
        assert p["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        if p["metadata"]["namespace"] == SYSTEM:
            assert p["spec"]["securityContext"]["runAsNonRoot"] and "hostPath" not in json.dumps(p["spec"]["volumes"])
    assert roles == {"tandem-operator": 2, "tandem-bridge": 2, "tandem-agent": 3}
    assert {b["metadata"]["labels"]["app.kubernetes.io/name"] for b in site.items("pdb", "-n", SYSTEM)} == {"tandem-operator", "tandem-bridge"}
    policies = {p["metadata"]["name"]: p["spec"] for p in site.items("networkpolicies", "-A")}
    assert set(policies) == {"tandem-operator", "tandem-bridge", "tandem-agent", "main-slurmrestd", "main-slurm"}
    assert policies["main-slurmrestd"]["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": SYSTEM}
    assert "secrets" not in json.dumps([r for r in site.items("clusterroles") + site.items("roles", "-n", SYSTEM) if r["metadata"]["name"] == "tandem-bridge"])


@pytest.mark.nightly_too
@pytest.mark.feature("D8.3")
def test_who_holds_more_of_the_disk_is_evicted(site):
    """By the node's own kubelet; its job ends with it."""
    wait_for("it is evicted", lambda: phase(site, "hoards") == "Failed", 180)
    status = got(site.c.kubeconfig, site.kubectl, "pod", "hoards", "-n", "ml")["status"]
    assert status["reason"] == "Evicted" and "exceeds the total limit of containers 20Mi" in status["message"], status
    site.kubectl("-n", "ml", "delete", "pod", "hoards")
    wait_for("its job has ended", lambda: not [j for j in site.jobs() if "hoards" in j])


@pytest.mark.nightly_too
@pytest.mark.feature("A7.4", "A16.4", "D3.9")
def test_nobody_else_writes_what_slurm_granted(site):
    """Not even who may do everything else: the agent believes these words. The pod has a filter of system calls that the agents brought."""
    wait_for("the profile is on the nodes", lambda: all((site.c.dir / f"n{i}/kubelet/seccomp/quiet.json").exists() for i in range(3)), 180)
    def refused(*argv, **kw):
        r = subprocess.run(["kubectl", *argv], capture_output=True, text=True, timeout=60, env=site.env, **kw)
        assert r.returncode and "Slurm granted" in r.stderr or "slurmd pods" in r.stderr, r.stdout + r.stderr
    forged = json.loads(pod("forged", 1))
    forged["metadata"]["annotations"] = {"tandem.dev/devices": '{"nvidia.com/gpu":"0"}'}
    refused("apply", "-f", "-", input=json.dumps(forged))
    forged["metadata"]["annotations"] = {"tandem.dev/all-devices": "true"}
    refused("apply", "-f", "-", input=json.dumps(forged))
    site.kubectl("apply", "-f", "-", input=pod("honest", 1, securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "quiet.json"}}))
    wait_for("it runs", lambda: phase(site, "honest") == "Running", 90)
    assert "Operation not permitted" in site.kubectl("-n", "ml", "exec", "honest", "--", "mkdir", "/tmp/made", code=1)
    refused("-n", "ml", "annotate", "pod", "honest", "tandem.dev/job-id=1", "--overwrite")
    refused("-n", "ml", "annotate", "pod", "honest", "tandem.dev/job-id-")
    site.kubectl("-n", "ml", "annotate", "pod", "honest", "mine=1")
    site.kubectl("-n", "ml", "delete", "pod", "honest", "--grace-period=1")


@pytest.mark.nightly_too
@pytest.mark.feature("A7.4", "A16.4")
def test_what_slurm_gives_out_goes_to_nobody_else(site):
    """The policies are there by default and know what the operator says (t/test_policy.py shows what they refuse); ordinary pods cannot preempt Slurm's own."""
    bindings = {b["metadata"]["name"]: b["spec"] for b in site.items("validatingadmissionpolicybindings")}
    for name in ("tandem-pool-claims", "tandem-pool-pods"):
        assert bindings[name]["validationActions"] == ["Deny"] and bindings[name]["paramRef"]["namespace"] == SYSTEM
    given = lambda: json.loads(site.kubectl("-n", SYSTEM, "get", "configmap", "tandem-pools", "-o", "json")).get("data", {})
    assert given() == {"schedulers": "tandem"}  # these nodes have no devices
    site.kubectl("-n", SYSTEM, "patch", "configmap", "tandem-pools", "--type=merge", "-p", '{"data": {"schedulers": "mine"}}')
    wait_for("the operator puts it right", lambda: given() == {"schedulers": "tandem"}, 60)
    for p in site.items("pods", "-n", "slurm"):
        assert (p["spec"]["priorityClassName"], p["spec"]["priority"], p["spec"]["preemptionPolicy"]) == ("tandem-slurm", 1000000000, "Never"), p["metadata"]["name"]


@pytest.mark.nightly
@pytest.mark.feature("A17.2", "A17.5")
def test_pods_of_other_schedulers_wait_for_their_shadow(site):
    """kube-scheduler's own pods: each waits at a gate until Slurm holds its CPUs on one node, which it then has, and nobody's share is given twice."""
    pick = lambda *argv: json.loads(site.kubectl(*argv, "-o", "json"))
    web = lambda: {p["metadata"]["name"]: p for p in site.items("pods", "-n", "web")}
    runs = lambda: {p["spec"]["nodeName"]: p for p in web().values() if p["status"]["phase"] == "Running"}
    waits = lambda: [p for p in web().values() if p["spec"].get("schedulingGates") == [{"name": "tandem.dev/shadow"}]]
    said = lambda p: next((c.get("message", "") for c in p["status"].get("conditions", []) if c["type"] == "PodScheduled"), "")

    def held():
        """The CPUs that shadows hold: {node: CPUs}."""
        got = collections.Counter()
        for node, cpus, name in (line.split() for line in site.slurm("squeue", "-h", "-a", "-t", "R", "-o", "%N %C %j").splitlines()):
            got[node] += int(cpus) * (name == f"foreign-pods-{node}")
        return +got

    batches = []

    def batch(node, cpus):
        batches.append(site.slurm("sbatch", "--parsable", "-w", node, f"-c{cpus}", "--mem=100", "-o", "/dev/null", "--wrap", "exec sleep 100000").strip())
        return batches[-1]
    running = lambda: site.slurm("squeue", "-h", "-t", "R", "-o", "%A").split()

    def refused(*argv, **kw):
        r = subprocess.run(["kubectl", *argv, "--as=dev"], capture_output=True, text=True, timeout=60, env=site.env, **kw)
        assert r.returncode, r.stdout
        return r.stderr
    patch = lambda **kw: site.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"shadows": kw}}))
    site.namespace("web")
    site.kubectl("label", "namespace", "web", "tandem.dev/shadow-gate=enabled")
    site.kubectl("create", "rolebinding", "dev", "-n", "web", "--clusterrole=edit", "--user=dev")
    mutating = site.c.served(ROOT / "deploy/manifests/mutating.yaml")
    site.kubectl("apply", "-f", "-", input=mutating)
    patch(enabled=True)
    try:
        wait_for("the policies know the nodes", lambda: pick("-n", SYSTEM, "get", "configmap", "tandem-pools")["data"].get("shadows") == "n0 n1 n2", 60)
        wait_for("shadows hold what is beyond the reserve", lambda: all(held().get(n, 0) == int(json.loads(o["metadata"]["annotations"]["tandem.dev/slurm-shadow"])["cpu"]) for n, o in ((o["metadata"]["name"], o) for o in site.items("nodes"))), 60)
        one = json.loads(pod("one", 3))
        del one["spec"]["schedulerName"]
        one["metadata"]["namespace"] = "web"
        dry = lambda: json.loads(site.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(one)))["spec"].get("schedulingGates")
        wait_for("the gate is put on", lambda: dry() == [{"name": "tandem.dev/shadow"}], 60)
        before = held()
        jobs = {n: batch(n, 17 - before[n] - room) for n, room in (("n0", 6), ("n1", 0), ("n2", 0))}
        wait_for("jobs have the rest", lambda: set(batches) <= set(running()), 60)

        # Two replicas of a Deployment that must not share a node: kube-scheduler would have room for both at once, Slurm has on one node only.
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}
        meta = {"name": "web", "namespace": "web"}
        spec = {k: v for k, v in one["spec"].items() if k != "restartPolicy"} | {"affinity": apart}
        site.kubectl("create", "--as=dev", "-f", "-", input=json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}}}))
        wait_for("one runs where Slurm holds its CPUs", lambda: set(runs()) == {"n0"}, 60)
        assert held()["n0"] == before["n0"] + 3
        assert (got := runs()["n0"]["spec"])["nodeSelector"] == {"kubernetes.io/hostname": "n0"} and "schedulingGates" not in got
        wait_for("the other says what it waits for", lambda: waits() and "it waits until Slurm holds its CPUs and memory on n" in said(waits()[0]), 60)
        name = waits()[0]["metadata"]["name"]
        assert "waits at the gate tandem.dev/shadow: it waits until Slurm" in site.cmd("why", "-n", "web", name)

        # What its people may write does not help.
        assert "only Tandem's bridge takes tandem.dev/shadow off" in refused("patch", "pod", name, "-n", "web", "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')
        assert "are what Slurm granted" in refused("annotate", "pod", name, "-n", "web", "--overwrite", "tandem.dev/shadow-node=elsewhere")
        assert "write nodeSelector: {kubernetes.io/hostname: n1} instead" in refused("create", "-f", "-", input=json.dumps(one | {"spec": one["spec"] | {"nodeName": "n1"}}))

        # A bridge that dies on the way loses nothing; the pod comes before a job that waited before it.
        first = batch("n2", 2)
        site.kubectl("-n", SYSTEM, "delete", "pods", "-l", "tandem.dev/bridge", "--wait=false")
        site.slurm("scancel", jobs["n2"])
        wait_for("it runs there", lambda: set(runs()) == {"n0", "n2"}, 90)
        assert held()["n2"] == before["n2"] + 3 and not waits()
        wait_for("and then the job", lambda: first in running(), 60)
        assert not [n for n in site.items("nodes") if "twice" in n["metadata"]["annotations"]["tandem.dev/slurm-shadow"]]

        # One that may use one node only, which is drained: that is no reason to let it go anywhere.
        site.slurm("scontrol", "update", "nodename=n1", "state=drain", "reason=disk")
        only = one | {"metadata": {"name": "only", "namespace": "web"}, "spec": one["spec"] | {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}
        wait_for("n1 is closed", lambda: "tandem.dev/slurm-drain" in json.dumps(pick("get", "node", "n1")["spec"].get("taints", [])), 60)
        site.kubectl("create", "--as=dev", "-f", "-", input=json.dumps(only))
        wait_for("it says so", lambda: waits() and "no node of the pool that it may use has room for it now" in said(waits()[0]), 60)
        site.slurm("scancel", jobs["n1"])
        site.slurm("scontrol", "update", "nodename=n1", "state=undrain")
        wait_for("it runs there", lambda: "n1" in runs(), 60)
        assert held()["n1"] == before["n1"] + 3
        site.kubectl("-n", "web", "delete", "deployment/web", "pod/only", "--wait=false")
        wait_for("what they had is free", lambda: held() == before, 60)
    finally:
        patch(enabled=None)
        site.kubectl("delete", "namespace", "web", "--wait=false")
        site.slurm("scancel", *batches)
        wait_for("nothing is gated any more", lambda: "shadows" not in pick("-n", SYSTEM, "get", "configmap", "tandem-pools")["data"] and not held(), 60)
        site.kubectl("delete", "-f", "-", input=mutating)


@pytest.mark.nightly_too
@pytest.mark.feature("A7.1", "A16.4")
def test_the_bridge_may_give_and_take_a_claims_devices(site):
    """As its own account. From 1.36 on the API server asks for patch on resourceclaims/binding too when allocation or reservedFor change."""
    site.c.from_minor(34, "resource.k8s.io/v1")
    site.kubectl("-n", "ml", "apply", "-f", "-", input=json.dumps({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "given"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}}]}}}))

    tls = ssl.create_default_context(cafile=f"{site.c.dir}/pki/ca.crt")
    tls.load_cert_chain(f"{site.c.dir}/pki/admin.crt", f"{site.c.dir}/pki/admin.key")

    def status(value):  # not kubectl: it reads the subresource first, and that is a right that the bridge does not need
        r = urllib.request.Request(f"https://{site.c.api}/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/given/status", json.dumps({"status": value}).encode(), {
            "Content-Type": "application/merge-patch+json", "Impersonate-User": f"system:serviceaccount:{SYSTEM}:tandem-bridge"}, method="PATCH")
        with urllib.request.urlopen(r, timeout=30, context=tls) as answer:
            return json.load(answer).get("status", {})
    devices = [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-5"}]
    given = status({"allocation": {"devices": {"results": devices}}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]})
    assert given["allocation"]["devices"]["results"] == devices and given["reservedFor"][0]["name"] == "p"
    assert not status({"allocation": None, "reservedFor": None})
    site.kubectl("-n", "ml", "delete", "resourceclaim", "given")


@pytest.mark.nightly
@pytest.mark.feature("A12.2")
def test_tandem_itself_is_upgraded_under_load(site):
    """Old image to new while 12 pods run and 24 wait: no pod, no job is lost, none is started twice, no node is drained for it."""
    load = [pod(f"run-{i}", 4) for i in range(RUNNING)]
    site.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(p) for p in load]}))
    here = lambda which: {p["metadata"]["name"]: p for p in site.items("pods", "-n", "ml", "-l", f"load={which}")}
    broken = lambda p: p["status"]["phase"] == "Failed" and "StartError" in json.dumps(p["status"])  # the container runtime of an overloaded machine

    def all_run():
        now = here("run")
        for name in [n for n, p in now.items() if broken(p)]:
            site.kubectl("-n", "ml", "delete", "pod", name, "--grace-period=1")
            site.kubectl("apply", "-f", "-", input=pod(name, 4))
        return [p["status"]["phase"] for p in now.values()].count("Running") == RUNNING
    wait_for("they run", all_run, 600)
    # They wait for two CPUs: of the 17 of each node one is left.
    load = [pod(f"wait-{i}", 2, command="echo started; sleep 1") for i in range(WAITING)]
    site.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [json.loads(p) for p in load]}))
    wait_for("they all have jobs", lambda: len(site.jobs()) == RUNNING + WAITING, 400)
    jobs, pods = site.jobs(), {**here("run"), **here("wait")}
    slurmds = {p["metadata"]["name"]: p["metadata"]["uid"] for p in site.items("pods", "-n", "slurm")}

    def same(which):
        now = here(which)
        for name, p in now.items():
            assert p["metadata"]["uid"] == pods[name]["metadata"]["uid"]
            assert all(c["restartCount"] == 0 for c in p["status"].get("containerStatuses", []))
        return now

    start = time.monotonic()
    assert site.install(NEW)["changed"] >= 2
    rolled = lambda app, ns: [p for p in site.items("pods", "-n", ns, "-l", f"app.kubernetes.io/name={app}")]
    for app, ns, n in (("tandem-operator", SYSTEM, 2), ("tandem-bridge", SYSTEM, 2), ("tandem-agent", NODE, 3)):
        wait_for(f"{app} is new", lambda: [p["spec"]["containers"][0]["image"] for p in rolled(app, ns) if ready(p)] == [NEW] * n and len(rolled(app, ns)) == n, 240)
    print(f"upgrade under load: {time.monotonic() - start:.0f} s")
    # A new leader is at work: it answers for a pod and binds a new one.
    site.kubectl("apply", "-f", "-", input=pod("fresh", 1))
    wait_for("the new bridge places pods", lambda: phase(site, "fresh") == "Running", 120)
    site.kubectl("-n", "ml", "delete", "pod", "fresh", "--grace-period=1")
    assert len(same("run")) == RUNNING and len(same("wait")) == WAITING
    assert {p["status"]["phase"] for p in here("run").values()} == {"Running"} and {p["status"]["phase"] for p in here("wait").values()} == {"Pending"}
    assert {k: v for k, v in site.jobs().items() if "fresh" not in k} == jobs
    assert slurmds == {p["metadata"]["name"]: p["metadata"]["uid"] for p in site.items("pods", "-n", "slurm")}
    assert not [n for n in site.slurm("sinfo", "-h", "-N", "-o", "%T").split() if "drain" in n]
    # And the queue goes on: each of those that waited runs once.
    site.kubectl("-n", "ml", "delete", "pods", "-l", "load=run", "--wait=false")
    left = lambda: {n: (p["status"]["phase"], p["status"].get("reason"), p["metadata"].get("annotations", {}).get("tandem.dev/ended")) for n, p in same("wait").items() if p["status"]["phase"] != "Succeeded" and not broken(p)}  # noqa: E731
    try:
        wait_for("all have run", lambda: not left() and len(here("wait")) == WAITING, 600)
    except AssertionError as e:
        raise AssertionError(f"{e}; not yet: {left()}") from None
    # Each in the job in which it waited. One whose job ended, or was given back, before it was bound goes on in a later one (docs/protocols.md 1.5),
    # and its events say so.
    had = {n.rpartition(".")[0]: j for n, (j, _) in jobs.items() if n.startswith("wait-")}
    has = {n: int(p["metadata"]["annotations"]["tandem.dev/job-id"]) for n, p in here("wait").items()}
    assert had.keys() == has.keys()
    for name in [n for n in has if has[n] != had[n]]:
        words = lambda: [e["message"] for e in site.items("events", "-n", "ml", "--field-selector", f"involvedObject.name={name}") if e["reason"] == "QueuedAgain"]
        said = f"{name} waited as job {had[name]} and ran as {has[name]}: {words()}; {site.slurm('scontrol', '-o', 'show', 'job', str(had[name]))[:600]}"
        print(said)
        assert has[name] > had[name], said
        wait_for(f"why is said: {said}", lambda: any(f"job {had[name]}:" in w for w in words()))
    wait_for("Slurm's queue is empty", lambda: site.jobs() == {}, 120)
    site.kubectl("-n", "ml", "delete", "pods", "--all", "--grace-period=1")


@pytest.mark.nightly
@pytest.mark.feature("A12.1")
def test_another_bridge_leads_when_one_dies(site):
    lease = lambda: json.loads(site.kubectl("-n", SYSTEM, "get", "lease", "tandem-bridge-slurm.main", "-o", "json"))["spec"]["holderIdentity"]
    old = lease()
    site.kubectl("apply", "-f", "-", input=pod("before", 1))
    wait_for("it runs", lambda: phase(site, "before") == "Running", 90)
    site.kubectl("-n", SYSTEM, "delete", "pod", old, "--grace-period=0", "--force")
    wait_for("another leads", lambda: lease() not in ("", old), 40)
    site.kubectl("apply", "-f", "-", input=pod("after", 1, command="sleep 1"))
    wait_for("it ran", lambda: phase(site, "after") == "Succeeded", 120)
    assert phase(site, "before") == "Running"
    assert "runs" in site.cmd("why", "-n", "ml", "before")
    site.kubectl("-n", "ml", "delete", "pods", "--all", "--grace-period=1")
    wait_for("its job ended too", lambda: site.jobs() == {}, 90)


@pytest.mark.nightly
@pytest.mark.feature("A6.6", "A12.1")
def test_a_job_says_its_pods_exit_code_whoever_leads_by_then(site):
    """Stand-ins of the bridge that is gone find the one that leads: also for a pod that ends while nobody leads."""
    leader = lambda: json.loads(site.kubectl("-n", SYSTEM, "get", "lease", "tandem-bridge-slurm.main", "-o", "json"))["spec"]["holderIdentity"]
    native = site.slurm("sbatch", "--parsable", "-N3", "--exclusive", "--wrap", "sleep 1000", "-o", "/dev/null").strip()
    wait_for("every node is taken", lambda: "RUNNING" in site.slurm("squeue", "-h", "-j", native, "-o", "%T"))
    ends = {"early": 3, "late": 7}  # they wait in Slurm's queue: their stand-ins are batch jobs
    for name, code in ends.items():
        site.kubectl("apply", "-f", "-", input=pod(name, 1, command=f"until [ -e /tmp/go ]; do sleep 0.1; done; exit {code}"))
    wait_for("they wait", lambda: len(site.jobs()) == 3, 60)
    site.slurm("scancel", native)
    wait_for("they run", lambda: all(phase(site, name) == "Running" for name in ends), 90)
    jobs = {name: json.loads(site.kubectl("-n", "ml", "get", "pod", name, "-o", "json"))["metadata"]["annotations"]["tandem.dev/job-id"] for name in ends}
    old = leader()
    site.kubectl("-n", SYSTEM, "delete", "pod", old, "--grace-period=0", "--force")
    site.kubectl("-n", "ml", "exec", "early", "--", "touch", "/tmp/go")
    wait_for("another leads", lambda: leader() not in ("", old), 40)

    def said(name):
        out = site.slurm("scontrol", "show", "job", jobs[name], "-o")
        return re.search(r"JobState=(\w+)", out)[1], re.search(r"ExitCode=(\d+):", out)[1]
    wait_for("the first one's job ended", lambda: said("early")[0] not in ("RUNNING", "COMPLETING"), 60)
    site.kubectl("-n", "ml", "exec", "late", "--", "touch", "/tmp/go")
    wait_for("the second one's too", lambda: said("late")[0] not in ("RUNNING", "COMPLETING"), 60)
    assert {name: said(name) for name in ends} == {name: ("FAILED", str(code)) for name, code in ends.items()}
    site.kubectl("-n", "ml", "delete", "pods", "--all", "--grace-period=1")


# Rights that no step of this story can use, with the reason.
UNUSED = {
    ("tandem-operator", "resource.k8s.io", "resourceclaimtemplates", "create"): "t/test_dra.py: devices by DRA",
    ("tandem-operator", "resource.k8s.io", "resourceclaimtemplates", "patch"): "t/test_dra.py",
    ("tandem-operator", "resource.k8s.io", "resourceclaimtemplates", "delete"): "t/test_dra.py",
    ("tandem-agent", "", "pods/status", "patch"): "t/test_kagent.py: only when a job ends before its pod is bound",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims", "get"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims", "list"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims", "watch"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims", "patch"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims/status", "patch"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceclaims/binding", "patch"): "t/test_dra.py; asked for from Kubernetes 1.36 on",
    ("tandem-bridge", "resource.k8s.io", "resourceslices", "list"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "resourceslices", "watch"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "deviceclasses", "list"): "t/test_dra.py",
    ("tandem-bridge", "resource.k8s.io", "deviceclasses", "watch"): "t/test_dra.py",
    ("tandem-operator", "resource.k8s.io", "deviceclasses", "get"): "t/test_dra.py",
    ("tandem-bridge", "tandem.dev", "slurmclusters/status", "patch"): "t/test_policies.py: what became of spec.scheduler.policies",
    ("tandem-operator", "tandem.dev", "slurmclusters", "patch"): "t/test_upgrade.py: an upgrade of Slurm, and there with these rights alone",
    ("tandem-bridge", "scheduling.k8s.io", "podgroups/status", "patch"): "groups of Kubernetes itself, from 1.36 on: t/test_groups.py",
    ("tandem-bridge", "", "pods/eviction", "create"): "t/test_operator.py: services on a node whose slurmd is replaced",
    **{("tandem-operator", g, r, v): "t/test_tenants.py: what a Tenant has" for g, r, verbs in (
        ("tandem.dev", "tenants", ("create", "patch", "delete")), ("tandem.dev", "projects/status", ("patch",)), ("tandem.dev", "tenants/status", ("patch",)), ("", "namespaces", ("create", "patch")),
        ("rbac.authorization.k8s.io", "rolebindings", ("create", "patch", "delete")), ("networking.k8s.io", "networkpolicies", ("delete",))) for v in verbs},
    **{("tandem-operator", "", "resourcequotas", v): "t/test_tenant_storage.py: a Tenant's storage" for v in ("create", "patch", "delete")},
    **{("tandem-operator", "storage.k8s.io", "storageclasses", v): "t/test_policy.py: storage groups" for v in ("list", "patch")},
    ("tandem-operator", "tandem.dev", "datasets/status", "patch"): "t/test_nodedata.py",
    **{("tandem-operator", g, r, v): "t/test_health.py: acts on nodes" for g, r, verbs in (
        ("tandem.dev", "nodeactions", ("create", "delete")), ("tandem.dev", "nodehistories", ("get", "create", "patch", "delete")), ("tandem.dev", "nodeactions/status", ("patch",)), ("tandem.dev", "healthpolicies/status", ("patch",)), ("tandem.dev", "nodeupgrades", ("delete",)), ("tandem.dev", "nodeupgrades/status", ("patch",)),
        ("", "nodes", ("get",)), ("", "pods", ("get",))) for v in verbs},
    **{("tandem-operator", "", r, v): "t/test_other_cluster.py: Nodes that stand for another cluster's, and pods there" for r, v in (
        ("nodes", "create"), ("nodes", "delete"), ("nodes/status", "patch"), ("pods/status", "patch"))},
    ("tandem-operator", "authentication.k8s.io", "tokenreviews", "create"): "t/test_other_cluster_kubelet.py: who asks for the log of a pod there",
    ("tandem-operator", "authorization.k8s.io", "subjectaccessreviews", "create"): "t/test_other_cluster_kubelet.py",
    ("tandem-operator", "", "configmaps", "get"): "t/test_site.py: a site's programs",
    **{("tandem-operator", g, r, v): "t/test_join.py: machines that join, and there with these rights alone" for g, r, v in (
        ("tandem.dev", "nodetokens", "get"), ("tandem.dev", "nodetokens", "delete"), ("tandem.dev", "nodetokens/status", "patch"),
        ("certificates.k8s.io", "certificatesigningrequests/approval", "patch"))},
    ("tandem-operator", "certificates.k8s.io", "signers", "approve"): "no request, but asked about when one is approved: t/test_join.py",
    **{("tandem-bridge", g, r, "get"): "t/test_gang.py: how many pods a gang has says its owner" for g, resources in (
        ("batch", ("jobs",)), ("jobset.x-k8s.io", ("jobsets",)), ("scheduling.x-k8s.io", ("podgroups",)), ("leaderworkerset.x-k8s.io", ("leaderworkersets",)), ("sparkoperator.k8s.io", ("sparkapplications",)),
        ("scheduling.k8s.io", ("podgroups", "workloads", "compositepodgroups")),
        ("kubeflow.org", ("pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs", "jaxjobs"))) for r in resources},
    ("tandem-operator", "rbac.authorization.k8s.io", "clusterroles", "bind"): "no request, but asked about when a RoleBinding is written: t/test_tenants.py",
    ("tandem-operator", "", "events", "patch"): "the same event about the same object again within 10 minutes: src/kube/test",
    ("tandem-bridge", "", "pods", "delete"): "a grant that ends where no kubelet answers: t/test_ends.py",
    ("tandem-bridge", "", "persistentvolumeclaims", "get"): "zones of the volumes of pods that wait at the gate: src/bridge/test/test_entrance.c",
    ("tandem-bridge", "", "persistentvolumes", "get"): "the same",
    ("tandem-bridge", "storage.k8s.io", "storageclasses", "get"): "the same",
    ("tandem-bridge", "", "events", "patch"): "the same event about the same object again within 10 minutes: src/kube/test",
    ("tandem-agent", "", "nodes/pods", "get"): "asked of the kubelet, which the API server's audit log does not see; a pod deleted by force: t/test_kagent.py",
    ("tandem-agent", "", "nodes/status", "patch"): "t/test_health.py: a check that found something",
    ("tandem-agent", "", "nodes", "get"): "a rank that is slow on another node: t/test_stragglers.py, where one agent has all nodes",
    ("tandem-agent", "", "nodes", "patch"): "a device that is not let go in time: t/test_kagent.py",
}


def placeholders(site, change):
    """What native jobs hold is shown to kube-scheduler by pods that the bridge resizes; where pods cannot be resized, that is said."""
    change({"spec": {"placeholders": {"enabled": True}}})
    if site.c.minor < 33:
        wait_for("it says so", lambda: [e for e in site.items("events", "-n", "slurm") if "spec.placeholders has no effect" in e.get("message", "")], 60)
        change({"spec": {"placeholders": None}})
        return
    shown = lambda: [p["spec"]["containers"][0]["resources"]["requests"]["cpu"] for p in site.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=placeholder")]
    wait_for("placeholders", lambda: shown() == ["1m"] * 3, 90)
    job = site.slurm("sbatch", "--parsable", "-c5", "--wrap", "sleep 1000", "-o", "/dev/null").strip()
    wait_for("one shows the job", lambda: sorted(shown()) == ["1m", "1m", "5"], 90)
    site.slurm("scancel", job)
    change({"spec": {"placeholders": None}})
    wait_for("they are gone", lambda: not shown(), 90)


def change_everything(site):
    """What the operator does rarely: each kind of object is changed, and some are deleted."""
    def change(patch):
        site.kubectl("-n", "slurm", "patch", "slurmcluster", "main", "--type=merge", "-p", json.dumps(patch))
    change({"spec": {"login": [{"name": "login", "replicas": 1}, {"name": "second", "replicas": 1}],
                     "partitions": [{"name": "all", "default": True, "maxTime": "1-00:00:00"}]}})
    wait_for("a second login", lambda: "main-second" in site.kubectl("-n", "slurm", "get", "statefulsets,services", "-o", "name"), 60)
    change({"spec": {"login": [{"name": "login", "replicas": 1}], "controller": {"resources": {"requests": {"cpu": "110m"}}}}})
    wait_for("none", lambda: "main-second" not in site.kubectl("-n", "slurm", "get", "statefulsets,services", "-o", "name"), 60)
    # What somebody spoilt is mended.
    site.kubectl("-n", "slurm", "patch", "service", "main-slurmctld", "--type=json", "-p", '[{"op":"replace","path":"/spec/ports/0/port","value":1}]')
    wait_for("the Service is mended", lambda: json.loads(site.kubectl("-n", "slurm", "get", "service", "main-slurmctld", "-o", "json"))["spec"]["ports"][0]["port"] == 6817, 60)
    site.kubectl("-n", "slurm", "patch", "pdb", "main-drain-first", "--type=merge", "-p", '{"spec":{"minAvailable":1}}')
    wait_for("the budget is mended", lambda: json.loads(site.kubectl("-n", "slurm", "get", "pdb", "main-drain-first", "-o", "json"))["spec"]["minAvailable"] > 1, 60)
    # A node leaves the set and comes back: its slurmd pod goes and comes.
    site.kubectl("-n", "slurm", "patch", "nodeset", "pool", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    wait_for("two nodes", lambda: len(site.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd")) == 2, 120)
    site.kubectl("-n", "slurm", "patch", "nodeset", "pool", "--type=json", "-p", '[{"op":"remove","path":"/spec/replicas"}]')
    wait_for("three nodes", lambda: sum(ready(p) for p in site.items("pods", "-n", "slurm", "-l", "app.kubernetes.io/name=slurmd")) == 3, 120)
    # Cordoned and drained: the label that lets its slurmd pod be evicted.
    site.kubectl("cordon", "n2")
    wait_for("evictable", lambda: site.items("pods", "-n", "slurm", "-l", "tandem.dev/evictable"), 90)
    site.kubectl("uncordon", "n2")
    wait_for("all are back", lambda: site.slurm("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 3, 120)
    # The pod of a job that somebody cancels is failed, because the bridge asks its kubelet.
    # It has a network of its own.
    alone = json.loads(pod("cancelled", 1))
    alone["metadata"].setdefault("annotations", {})["tandem.dev/network"] = "private"
    site.kubectl("apply", "-f", "-", input=json.dumps(alone))
    wait_for("it runs", lambda: phase(site, "cancelled") == "Running", 90)
    assert site.items("networkpolicies", "-n", "ml", "-l", "tandem.dev/private-network")
    site.slurm("scancel", "-u", "pods")
    wait_for("it has failed", lambda: phase(site, "cancelled") == "Failed", 90)
    site.kubectl("-n", "ml", "delete", "pod", "cancelled")
    placeholders(site, change)
    # Of a pod that is not Slurm's the bridge knows nothing: it asks.
    assert "main-slurmctld-0" in site.cmd("why", "-n", "slurm", "main-slurmctld-0")
    # A second cluster in another namespace has a bridge of its own, which goes with it.
    docs = (ROOT / "deploy/examples/cluster.yaml").read_text().replace("namespace: slurm", "namespace: other").replace("name: slurm", "name: other").replace("NODE", "n1")
    site.kubectl("apply", "-f", "-", input=docs.replace("/var/lib/slurm-main", "/var/lib/slurm-other").replace("schedulerName: tandem", "schedulerName: other"))
    bridges = lambda: site.items("deployments", "-n", SYSTEM, "-l", "app.kubernetes.io/name=tandem-bridge")
    wait_for("two bridges", lambda: len(bridges()) == 2, 90)
    assert "which SlurmCluster" in site.cmd("shell", "--", "true", code=1)
    assert site.cmd("shell", "--cluster", "slurm/main", "--", "echo", "here").strip() == "here"
    site.kubectl("-n", "other", "delete", "nodeset,slurmcluster", "--all")
    wait_for("one bridge", lambda: len(bridges()) == 1, 60)
    wait_for("its Secret and budget are gone", lambda: len(site.items("secrets", "-n", SYSTEM, "-l", "tandem.dev/cluster")) == 1 and
             len(site.items("pdb", "-n", SYSTEM, "-l", "tandem.dev/cluster")) == 1, 60)


def asked(site):
    """From the API server's audit log, what Tandem's accounts have asked for: {(account, group, resource, verb)} of what they got, and how often each was denied."""
    used, denied = set(), collections.Counter()
    with open(site.c.dir / "log/audit.log") as f:
        for line in f:
            if not line.endswith("}\n"):  # being written
                break
            e = json.loads(line)
            # A request with a token of a pod that is gone names nobody.
            user, ref = e["user"].get("username", ""), e.get("objectRef")
            if not re.fullmatch(f"system:serviceaccount:({SYSTEM}|{NODE}):tandem-.*", user) or not ref or "resource" not in ref:
                continue
            resource = ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")
            key = (user.rpartition(":")[2], ref.get("apiGroup", ""), resource, e["verb"])
            created = e["verb"] == "patch" and e["responseStatus"].get("code") == 201  # apply of something new asks for create too
            if e["responseStatus"].get("code") == 403:
                denied[key, e["responseStatus"].get("message", "")[:200]] += 1
            else:
                used |= {key, (*key[:3], "create")} if created else {key}
    return used, denied


@pytest.mark.feature("A16.4")
def test_no_role_asks_for_what_it_may_not(site):
    """In what CI has of this story; all of it: the next test."""
    used, denied = asked(site)
    assert not denied and {u[0] for u in used} >= {"tandem-operator", "tandem-bridge", "tandem-agent"}


@pytest.mark.nightly
@pytest.mark.feature("A16.4")
def test_each_role_has_the_rights_it_uses(site):
    """Nothing that our accounts asked for was denied, and they have no right that they did not use."""
    change_everything(site)
    used, denied = asked(site)
    assert not denied
    granted = set()
    for role in site.items("clusterroles") + site.items("roles", "-A"):
        name = role["metadata"]["name"]
        if name in ("tandem-operator", "tandem-bridge", "tandem-agent"):
            for r in role["rules"]:
                granted |= {(name, g, res, v) for g in r["apiGroups"] for res in r["resources"] for v in r["verbs"]}
    resize = {("tandem-bridge", "", "pods/resize", "patch")} if site.c.minor < 33 else set()
    assert sorted(granted - used - set(UNUSED) - resize) == []
    assert sorted(k for k in UNUSED if k not in granted) == []  # an exception for nothing
