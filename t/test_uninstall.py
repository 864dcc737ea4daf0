"""Tandem on a real cluster: what an older version had goes at an install, `tandem status` says what is wrong, it is uninstalled with and without
what people made, and helm installs it and takes it away.

One cluster for the module; the tests are steps of one story, in the order of the file."""
import json
import re
import subprocess

import pytest

from harness import wait_for
from installed import CHART, NEW, NODE, SYSTEM, site  # noqa: F401 (a fixture)

pytestmark = pytest.mark.nightly


def leftovers_of_an_older_version(site):
    """What it had besides, and what only looks like it."""
    def apply(kind, name, manager, ours=True, ns=SYSTEM, **body):
        labels = {"app.kubernetes.io/part-of": "tandem"} if ours else {}
        meta = {"name": name, "labels": labels} | ({"namespace": ns} if ns else {})
        site.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-",
                     input=json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1" if "Role" in kind else "v1", "kind": kind, "metadata": meta, **body}))
        return f"{kind} {ns + '/' if ns else ''}{name}"
    old = [apply("ConfigMap", "old-config", "tandem-install", data={"a": "b"}), apply("ClusterRole", "tandem-old", "tandem-install", ns=None, rules=[]),
           apply("ServiceAccount", "old-agent", "tandem-install", ns=NODE)]
    apply("ConfigMap", "by-hand", "kubectl")
    apply("ConfigMap", "no-label", "tandem-install", ours=False)
    apply("ConfigMap", "elsewhere", "tandem-install", ns="default")
    apply("Namespace", "tandem-older", "tandem-install", ns=None)
    site.complete("tandem-older")  # named() tells of that too
    return sorted(old)


def named(site):
    return site.kubectl("get", "configmaps,clusterroles,serviceaccounts,namespaces", "-A", "-o", "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name", "--no-headers").split()


@pytest.mark.feature("A16.2")
def test_what_an_older_version_had_goes(site):
    def gone(text, word):
        return sorted(m[1] for m in re.finditer(rf"^ +(\S+ \S+) {word}$", text, re.M))
    site.install(NEW)
    old, before = leftovers_of_an_older_version(site), named(site)
    assert gone(site.cmd("install", "--image", NEW, "--dry-run"), "would go") == old
    assert named(site) == before
    assert site.install(NEW)["removed"] == 3
    assert site.install(NEW)["removed"] == 0
    after = named(site)
    assert [w for w in ("by-hand", "no-label", "elsewhere", "tandem-older") if w not in after] == []
    assert [w for w in ("old-config", "tandem-old", "old-agent") if w in after] == []
    leftovers_of_an_older_version(site)
    assert [o for o in old if o not in gone(site.cmd("uninstall", "--dry-run"), "would go")] == []
    site.install(NEW)
    for kind, name, ns in (("configmap", "by-hand", SYSTEM), ("configmap", "no-label", SYSTEM), ("configmap", "elsewhere", "default"), ("namespace", "tandem-older", "default")):
        site.kubectl("-n", ns, "delete", kind, name)


@pytest.mark.feature("A18.1")
def test_status_says_what_is_wrong(site):
    site.cmd("up", "--image", NEW, "--wait", "5m")
    out = wait_for("what was before is settled", lambda: site.cmd("status"))
    assert "tandem-operator" in out and "slurm/main" in out and "All is well" in out
    site.slurm("scontrol", "update", "nodename=n0", "state=drain", "reason=disk")
    status = lambda: subprocess.run([site.tandem, "status", "--kubeconfig", site.c.kubeconfig], capture_output=True, text=True, env=site.env).stdout
    told = lambda text: "disk" in text and re.search(r"To resume it: (.*)", text)
    resume = wait_for("status says it", lambda: told(status()), 60)[1]  # as it stands there, it works
    assert f"--kubeconfig {site.c.kubeconfig} " in resume
    site.run("sh", "-ec", resume.replace("tandem", site.tandem, 1))
    wait_for("it did", lambda: "disk" not in status(), 60)
    site.slurm("scontrol", "update", "nodename=n0", "state=drain", "reason=disk")
    site.slurm("scontrol", "update", "nodename=n0", "state=undrain")
    wait_for("well again", lambda: json.loads(site.cmd("status", "-o", "json"))["wrong"] == [], 60)


@pytest.mark.feature("A16.2")
def test_uninstall_leaves_slurm_and_purge_leaves_nothing(site):
    job = site.slurm("sbatch", "--parsable", "--wrap", "sleep 1000", "-o", "/dev/null").strip()
    wait_for("it runs", lambda: site.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING")
    site.slurm("srun", f"--jobid={job}", "--overlap", "true")  # a step comes after Prolog, and nobody is there whom that could ask later
    out = site.cmd("uninstall")
    assert "deleted" in out and "Slurm stays with its jobs: 1 SlurmCluster (slurm/main)" in out
    assert "nothing of Tandem" in site.cmd("uninstall")
    assert site.kubectl("get", "deployments,daemonsets,clusterroles,clusterrolebindings", "-A", "-l", "app.kubernetes.io/part-of=tandem", "-o", "name") == ""
    assert site.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    site.install(NEW)
    wait_for("the bridge is back", lambda: site.items("deployments", "-n", SYSTEM, "-l", "app.kubernetes.io/name=tandem-bridge"), 60)
    assert site.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    tenant = {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "team"}, "spec": {"cluster": {"namespace": "slurm", "name": "main"}}}
    site.kubectl("apply", "-f", "-", input=json.dumps(tenant))
    wait_for("the operator holds it", lambda: any(o["metadata"].get("finalizers") for o in site.items("tenants")), 60)  # without it the kind never ends
    assert "would go" in site.cmd("uninstall", "--purge", "--dry-run")
    assert "add --yes" in site.cmd("uninstall", "--purge", code=2, input="") and site.items("slurmclusters", "-A")
    site.cmd("uninstall", "--purge", "--yes")
    wait_for("the namespaces are gone", lambda: not [n for n in site.items("namespaces") if n["metadata"]["name"].startswith("tandem")], 120)
    wait_for("nothing is left", lambda: not re.search("tandem|slurm", site.kubectl("get", "crds,clusterroles,clusterrolebindings,pods", "-A", "-o", "name")))
    said = lambda: site.cmd("status", code=1)  # of kinds that just went the API server may still know
    out = wait_for("status says that the kinds are gone", lambda: next((o for o in [said()] if "kinds SlurmCluster and NodeSet are not there" in o), None))
    assert "does not run there" in out and "404" not in out
    assert f"`tandem install --kubeconfig {site.c.kubeconfig}`" in out


@pytest.mark.feature("A16.1")
def test_helm(site):
    """install, upgrade with values, uninstall; the CRDs and what people made stay."""
    helm = lambda *argv, **kw: site.run("helm", "-n", SYSTEM, *argv, timeout=400, **kw)
    site.kubectl("create", "namespace", SYSTEM)
    site.kubectl("label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted")
    helm("install", "tandem", CHART, "--set", "image.tag=old", "--wait", "--timeout", "5m")
    out = site.cmd("up", "--wait", "5m")
    assert "installed by helm: left as it is" in out and "Slurm: 3 nodes" in out
    bridge = lambda: site.items("deployments", "-n", SYSTEM, "-l", "app.kubernetes.io/name=tandem-bridge")
    wait_for("a bridge", lambda: bridge() and bridge()[0]["status"].get("readyReplicas") == 2, 120)
    assert "helm installed" in site.cmd("install", code=1)
    out = helm("upgrade", "tandem", CHART, "--set", "image.tag=new,operator.replicas=3,bridge.replicas=1,logLevel=debug", "--wait", "--timeout", "5m")
    assert "SlurmCluster" in out or "Slurm cluster" in out
    wait_for("the bridge follows", lambda: [d["spec"]["replicas"] for d in bridge()] == [1] and NEW in json.dumps(bridge()), 120)
    assert len(site.items("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=tandem-operator")) >= 3
    helm("uninstall", "tandem", "--wait")
    assert site.items("slurmclusters", "-A") and site.items("pods", "-n", "slurm")
