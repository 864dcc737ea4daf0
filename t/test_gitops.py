"""What GitOps tools make of our objects (row A16): kstatus, by which Flux and others know whether an object is as its spec says, unchanged."""
import json
import pathlib
import subprocess

import pytest

from harness import ROOT, wait_for


def program(name):
    r = subprocess.run([ROOT / "tools/kube-assets", "--check", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip(f"{name} is {r.stderr.strip()}")
    return pathlib.Path(r.stdout.strip().splitlines()[-1]) / name


@pytest.fixture(scope="module")
def kstatus():
    path = program("kstatus")

    def ask(*objects):
        """What it says of each: (status, message)."""
        said = subprocess.run([path], input=json.dumps({"items": objects}), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        assert len(said) == len(objects), said
        return [tuple(line.split(" ", 1)[1].split(": ", 1)) for line in said]
    return ask


def made(kind, name, spec, **meta):
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


@pytest.mark.feature("A16.3")
def test_kstatus_reads_our_objects_rightly(pool, kstatus):
    """Current: as the spec says. InProgress: nobody has looked at it, or it waits for another object. Failed: somebody must change it."""
    def until(what, want, kind, name, *ns):
        """Waits until kstatus says so, and never the contrary before; returns its message."""
        seen = []

        def now():
            seen.append(kstatus(pool.get(kind, name, *ns))[0])
            assert seen[-1][0] in ("InProgress", want), seen
            return seen[-1][0] == want and seen[-1][1]
        return wait_for(what, now)
    until("the cluster is current", "Current", "slurmcluster", "main", "-n", "slurm")
    until("the NodeSet is current", "Current", "nodeset", "pool", "-n", "slurm")

    cluster = {"namespace": "slurm", "name": "main"}
    lab, child = made("Tenant", "gitops", {"cluster": cluster}), made("Tenant", "gitops-child", {"cluster": cluster, "parent": "gitops"})
    thief = made("Tenant", "gitops-thief", {"cluster": cluster, "namespaces": ["gitops"]})
    new = [lab, made("NodeSet", "gitops", {"clusterName": "main"}, namespace="slurm"), made("SlurmCluster", "gitops", {}, namespace="slurm"), made("Project", "gitops", {}, namespace="slurm")]
    unseen = [json.loads(pool.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(o))) for o in new]
    for o, (state, why) in zip(unseen, kstatus(*unseen)):
        assert state == "InProgress" and "latest observed generation is -1" in why, (o["kind"], state, why)
    try:
        pool.apply(child)
        wait_for("its parent is missing", lambda: "there is no Tenant" in kstatus(pool.get("tenant", "gitops-child"))[0][1])
        assert kstatus(pool.get("tenant", "gitops-child"))[0][0] == "InProgress"
        pool.apply(lab)
        until("the tenant is current", "Current", "tenant", "gitops")
        until("the tenant below it is current", "Current", "tenant", "gitops-child")
        pool.apply(thief)
        assert "gitops" in until("a namespace is taken", "Failed", "tenant", "gitops-thief")

        pool.apply(made("NodeSet", "gitops", {"clusterName": "nowhere", "affinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "no", "operator": "Exists"}]}]}}}, namespace="slurm"))
        wait_for("its cluster is missing", lambda: "nowhere" in kstatus(pool.get("nodeset", "gitops", "-n", "slurm"))[0][1])
        assert kstatus(pool.get("nodeset", "gitops", "-n", "slurm"))[0][0] == "InProgress"
        change = lambda spec: pool.kubectl("patch", "nodeset", "gitops", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": spec}))
        change({"clusterName": "main", "slurm": {"extraConf": {"CPUs": "99"}}})
        assert "spec.slurm.extraConf.CPUs" in until("the spec cannot be used", "Failed", "nodeset", "gitops", "-n", "slurm")
    finally:
        pool.kubectl("delete", "nodeset", "gitops", "-n", "slurm", "--ignore-not-found")
        pool.kubectl("delete", "tenant", "gitops-thief", "gitops-child", "gitops", "--ignore-not-found", "--timeout=120s")
        pool.kubectl("delete", "namespace", "gitops", "gitops-child", "--ignore-not-found", "--wait=false")


@pytest.mark.feature("A16.3")
def test_what_git_says_stays(pool):
    """Applied by the server as GitOps tools do it: our controllers then write status, finalizers and objects of their own, and no field that a file could
    have; so the next look finds nothing to change, and the same files change nothing."""
    whose = ("--server-side", "--force-conflicts", "--field-manager=kustomize-controller")
    old = [pool.get(*o) for o in (("slurmcluster", "main", "-n", "slurm"), ("nodeset", "pool", "-n", "slurm"))]
    new = [made("Tenant", "gitkept", {"cluster": {"namespace": "slurm", "name": "main"}, "weight": 3, "members": [{"user": "researcher"}]}), made("NodeSet", "gitkept", {"clusterName": "main", "replicas": 0}, namespace="slurm"),
           made("HealthPolicy", "gitkept", {"dryRun": True})]
    git = [{"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": {k: o["metadata"][k] for k in ("name", "namespace") if k in o["metadata"]}, "spec": o["spec"]} for o in (*old, *new)]
    files = json.dumps({"apiVersion": "v1", "kind": "List", "items": git})
    now = lambda: [pool.get(o["kind"].lower(), o["metadata"]["name"], *(("-n", "slurm") if "namespace" in o["metadata"] else ())) for o in git]
    try:
        pool.run("kubectl", "apply", *whose, "-f", "-", input=files)
        wait_for("all are looked at", lambda: all(o["kind"] == "HealthPolicy" or o["status"]["observedGeneration"] == o["metadata"]["generation"] and
                                                  any(c["type"] == "Ready" and c["status"] == "True" for c in o["status"]["conditions"]) for o in now()))
        first = now()
        assert pool.run("kubectl", "diff", *whose, "-f", "-", input=files).stdout == ""
        pool.run("kubectl", "apply", *whose, "-f", "-", input=files)
        assert [o["metadata"]["generation"] for o in now()] == [o["metadata"]["generation"] for o in first]
        for o in first[len(old):]:
            shown = json.loads(pool.kubectl("get", o["kind"].lower(), o["metadata"]["name"], "-n", "slurm", "-o", "json", "--show-managed-fields"))
            ours = [m["fieldsV1"] for m in shown["metadata"]["managedFields"] if m["manager"] != "kustomize-controller"]
            assert ours or o["kind"] == "HealthPolicy"
            assert all(set(m) <= {"f:status", "f:metadata"} and not set(m.get("f:metadata", {})) & {"f:labels", "f:annotations"} for m in ours), (o["kind"], ours)
    finally:
        pool.kubectl("delete", "nodeset", "gitkept", "-n", "slurm", "--ignore-not-found")
        pool.kubectl("delete", "healthpolicy", "gitkept", "--ignore-not-found")
        pool.kubectl("delete", "tenant", "gitkept", "--ignore-not-found", "--timeout=120s")
        pool.kubectl("delete", "namespace", "gitkept", "--ignore-not-found", "--wait=false")


@pytest.mark.hand
@pytest.mark.feature("A16.3")
def test_fluxs_engine_applies_waits_and_prunes(pool, tmp_path):
    """The engine of Flux's kustomize-controller (fluxcd/pkg/ssa), as that drives it. A change in the file is Slurm's when it says "ready"; the same file is
    "unchanged", by its own look for drift; what the file has no more goes, and is waited for."""
    engine = program("flux-apply")
    cluster = {"namespace": "slurm", "name": "main"}
    bare = lambda o: {"apiVersion": o["apiVersion"], "kind": o["kind"], "metadata": {k: o["metadata"][k] for k in ("name", "namespace")}, "spec": o["spec"]}  # noqa: E731
    main, nodes = bare(pool.get("slurmcluster", "main", "-n", "slurm")), bare(pool.get("nodeset", "pool", "-n", "slurm"))
    own = [made("Tenant", "fluxed", {"cluster": cluster, "weight": 3}), made("Tenant", "fluxed-child", {"cluster": cluster, "parent": "fluxed"}),
           made("NodeSet", "fluxed", {"clusterName": "main", "replicas": 0, "nodeSelector": {"no": "such"}}, namespace="slurm")]
    before = main["spec"].get("config", {}).get("slurmConf", {}).get("KillWait", "30")

    def file(name, *objects):
        (tmp_path / name).write_text("---\n".join(json.dumps(o) + "\n" for o in objects))
        return str(tmp_path / name)

    def apply(*files):
        r = pool.run(engine, pool.env["KUBECONFIG"], "180", *files, timeout=400, check=False)
        print(r.stdout)
        return r.returncode, r.stdout.splitlines()
    changed = json.loads(json.dumps(main))
    changed["spec"].setdefault("config", {}).setdefault("slurmConf", {})["KillWait"] = "31"
    try:
        code, said = apply(file("first", main, nodes, *own))
        assert code == 0 and {"created Tenant/fluxed", "created Tenant/fluxed-child", "created NodeSet/slurm/fluxed"} <= set(said), said
        code, said = apply(str(tmp_path / "first"))
        assert code == 0 and all(line.startswith("unchanged ") for line in said[:-1]), said
        code, said = apply(file("second", changed, nodes, *own))
        assert code == 0 and "configured SlurmCluster/slurm/main" in said, said
        assert "KillWait                = 31" in pool.shell("scontrol", "show", "config")
        code, said = apply(file("third", changed, nodes), str(tmp_path / "second"))
        assert code == 0 and {"deleted Tenant/fluxed", "deleted Tenant/fluxed-child", "deleted NodeSet/slurm/fluxed"} <= set(said), said
        assert not [t for t in pool.items("tenants") if t["metadata"]["name"].startswith("fluxed")]
        # What a person changed by hand is put back, and Slurm has it.
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec": {"config": {"slurmConf": {"KillWait": "45"}}}}')
        code, said = apply(str(tmp_path / "third"))
        assert code == 0 and "configured SlurmCluster/slurm/main" in said, said
        assert "KillWait                = 31" in pool.shell("scontrol", "show", "config")
    finally:
        pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"config": {"slurmConf": {"KillWait": before if before != "30" else None}}}}))
        pool.kubectl("delete", "nodeset", "fluxed", "-n", "slurm", "--ignore-not-found")
        pool.kubectl("delete", "tenant", "fluxed-child", "fluxed", "--ignore-not-found", "--timeout=120s")
        pool.kubectl("delete", "namespace", "fluxed", "fluxed-child", "--ignore-not-found", "--wait=false")
