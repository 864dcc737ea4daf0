"""Tenants: namespaces and rights, accounts and quotas from one object (rows C1 C9)."""
import json
import re
import time

import pytest

from harness import wait_for
from laptop import Laptop, statement

pytestmark = [pytest.mark.planes, pytest.mark.embedded]  # not tried beside a kubelet yet


STORAGE = [{"name": "home", "mountPath": "/home", "hostPath": "/shared/home"}, {"name": "projects", "mountPath": "/projects", "hostPath": "/shared/all", "subPath": "projects", "perGroup": True},
           {"name": "data", "mountPath": "/data", "hostPath": "/shared/all", "subPath": "data", "readOnly": True, "where": "compute"}]


@pytest.fixture(scope="module")
def up(own_pool):
    """A pool that enforces limits; who is in no tenant is in the account open."""
    if own_pool.plane != "real":
        own_pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"storage": STORAGE}}))
    enforce(own_pool, "limits", "open")
    yield own_pool
    if own_pool.plane == "real":  # others use it after us
        remove_tenants(own_pool)
        enforce(own_pool, None, None)


@pytest.fixture
def pool(up):
    remove_tenants(up)
    up.clean()
    return up


def enforce(pool, what, account):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p",
                 json.dumps({"spec": {"accounting": {"enforce": what, "openAccount": account}}}))
    want = "associations,limits,qos" if what else "none"
    wait_for("slurmctld has it", lambda: re.search(rf"AccountingStorageEnforce\s*= {want}\b", pool.shell("scontrol", "show", "config")), 200)
    wait_for("in force", lambda: pool.get("slurmcluster", "main", "-n", "slurm")["status"]["phase"] == "Running" and pool.idle_nodes() == len(pool.nodes), 200)


def remove_tenants(pool):
    """Of an earlier test: its tenants, with their pods, jobs and namespaces."""
    names = [t["metadata"]["name"] for t in pool.items("tenants")]
    spaces = pool.items("namespaces", "-l", "tandem.dev/tenant")
    for n in spaces:
        pool.kubectl("delete", "jobs,deployments", "--all", "-n", n["metadata"]["name"], "--wait=false")
        pool.kubectl("delete", "pods", "--all", "-n", n["metadata"]["name"], "--wait=false", "--grace-period=1")
    pool.shell("scancel", "-Q", "-u", "researcher")
    if names:
        pool.kubectl("delete", "tenants", *names, "--wait=false")
        wait_for("no tenants left", lambda: not pool.items("tenants"), 120)
    if spaces:
        pool.kubectl("delete", "namespaces", *[n["metadata"]["name"] for n in spaces], "--timeout=120s")


def tenant(name, quota=None, **spec):
    body = {"cluster": {"namespace": "slurm", "name": "main"}, **spec}
    if quota is not None:
        body["quota"] = quota
    return {"apiVersion": "tandem.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name}, "spec": body}


def condition(pool, name, kind):
    """(status, reason, message) of a condition of the tenant as it is now; Nones: there is none."""
    o = pool.get("tenant", name)
    found = next((c for c in o.get("status", {}).get("conditions", []) if c["type"] == kind and
                  (o["metadata"].get("deletionTimestamp") or c.get("observedGeneration") == o["metadata"]["generation"])), {})
    return found.get("status"), found.get("reason"), found.get("message", "")


def ready(pool, *tenants):
    pool.apply(*tenants)
    for name in (t["metadata"]["name"] for t in tenants):
        try:
            wait_for(f"{name} is ready", lambda: condition(pool, name, "Ready")[0] == "True")
        except AssertionError as e:
            raise AssertionError(f"{e}: {pool.kubectl('get', 'tenant', name, '-o', 'yaml')}") from None
    # Slurm's rows are looked at every ten seconds: a Tenant of a name that was there before may be ready by those of the last one.
    for t in tenants:
        account = pool.get("tenant", t["metadata"]["name"])["status"]["account"]
        members = {m["user"] for m in t["spec"].get("members", []) if m.get("role") != "viewer"}
        wait_for(f"the members of {account} are in Slurm", lambda: members <= {user for _, user in associations(pool, account)})


def associations(pool, *accounts):
    """{(account, user): {field: value}} as Slurm's own command shows them."""
    fields = ["Account", "User", "ParentName", "Fairshare", "GrpTRES", "Comment", "MaxJobs", "GrpSubmit"]
    out = pool.shell("sacctmgr", "-n", "-P", "show", "associations", f"account={','.join(accounts)}", f"format={','.join(fields)}")
    rows = [dict(zip(fields, line.split("|"))) for line in out.splitlines()]
    return {(r["Account"], r["User"]): r for r in rows}


def sbatch(pool, *argv, **kw):
    return pool.as_user("researcher", "sbatch", "--parsable", "--mem=50M", *argv, input="#!/bin/sh\nexec sleep 100000\n", **kw)


def may(pool, user, verb, what, ns):
    return pool.run("kubectl", "auth", "can-i", verb, *what.split(), "-n", ns, "--as", user, check=False).stdout.strip() == "yes"


@pytest.mark.feature("C1.1", "C1.2", "C1.3")
def test_one_object_yields_namespace_rights_and_account(pool):
    ready(pool, tenant("physics", {"nvidia.com/gpu": 4, "cpu": "8", "memory": "2Gi"}, weight=7, namespaces=["physics", "physics-dev"], seccompProfile={"type": "RuntimeDefault"}, userNamespaces=True, ephemeralStorage="30Gi",
                       members=[{"user": "researcher"}, {"user": "boss", "kubernetesUser": "boss@uni", "role": "viewer"}]))
    for ns in ("physics", "physics-dev"):
        meta = pool.get("namespace", ns)["metadata"]
        labels = meta["labels"]
        assert meta["annotations"]["tandem.dev/seccomp"] == "RuntimeDefault" and meta["annotations"]["tandem.dev/user-namespaces"] == "required" and meta["annotations"]["tandem.dev/ephemeral-storage"] == "30Gi"
        assert labels["tandem.dev/tenant"] == "physics" and labels["pod-security.kubernetes.io/enforce"] == "baseline"
        assert may(pool, "researcher", "create", "pods", ns) and may(pool, "boss@uni", "list", "pods", ns)
        assert not may(pool, "boss@uni", "create", "pods", ns) and not may(pool, "researcher", "create", "rolebindings", ns)
    assert not may(pool, "researcher", "create", "pods", "default") and not may(pool, "boss", "list", "pods", "physics")
    have = wait_for("its people are in Slurm", lambda: (have := associations(pool, "physics")) and {u for a, u in have} == {"", "researcher", "pods"} and have)  # who only looks runs nothing
    own = have["physics", ""]
    assert own["ParentName"] == "root" and own["Fairshare"] == "7"
    assert sorted(own["GrpTRES"].split(",")) == ["cpu=8", "gres/gpu=4", "mem=2G"]
    status = pool.get("tenant", "physics")["status"]
    assert status["account"] == "physics" and status["namespaces"] == [{"name": "physics", "user": "pods"}, {"name": "physics-dev", "user": "pods"}]


def let_hub(pool, hub):
    hubs = [{"name": "campus", "as": "east", "users": ["researcher"], "limits": True}]
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"federation": {"hubs": hubs} if hub else None}}))


@pytest.mark.feature("C1.2", "C1.3", "C1.6", "C6.3")
def test_beyond_the_quota_pods_and_jobs_wait_alike(pool, tmp_path):
    physics = tenant("physics", {"nvidia.com/gpu": 2}, members=[{"user": "researcher"}])
    ready(pool, physics)
    pool.apply(pool.pod("first", gpus=1, ns="physics"))
    wait_for("it runs", lambda: pool.phase("first", "physics") == "Running")
    job = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
    wait_for("the job runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    assert pool.job(pool.grant(pool.get("pod", "first", "-n", "physics"))[0])["Account"] == "physics"
    pool.apply(pool.pod("second", gpus=1, ns="physics"), pool.pod("elsewhere", gpus=1))
    native = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
    wait_for("the pod waits, with the reason", lambda: "AssocGrpGRES" in pool.cmd("why", "second", "-n", "physics").stdout)
    wait_for("who holds the quota is said", lambda: re.search(
        rf"Tenant physics holds 2 of 2 nvidia.com/gpu, and this one wants 1. Held by job \d+ of \w+ \(1\), job \d+ of \w+ \(1\)", pool.cmd("why", "second", "-n", "physics").stdout))
    assert f"job {job} of researcher (1)" in pool.cmd("why", "second", "-n", "physics").stdout
    wait_for("so does the job", lambda: pool.squeue()[native]["reason"] == "AssocGrpGRES")
    wait_for("who is in no tenant runs", lambda: pool.phase("elsewhere") == "Running")
    assert pool.job(pool.grant(pool.get("pod", "elsewhere"))[0])["Account"] == "open"
    physics["spec"]["quota"]["nvidia.com/gpu"] = 4
    ready(pool, physics)
    wait_for("both go on", lambda: pool.phase("second", "physics") == "Running" and pool.squeue()[native]["state"] == "RUNNING")

    # The hub of a federation says that its team has all that it may, four of them here: what goes beyond waits, whatever the quota leaves.
    me, key = Laptop(pool, tmp_path, "researcher"), "east-0123456789abcdef0123456789abcdef"
    pool.kubectl("patch", "secret", "main-gateway", "-n", "slurm", "--type=merge", "-p", json.dumps({"stringData": {"hub.campus": key}}))
    team = {"name": "lab", "accounts": ["physics"], "users": [], "gpus": 8, "perUser": -1, "used": 8, "waits": 0, "alone": 4, "userAlone": -1, "spent": False,
            "rows": [["physics", "researcher", 2], ["physics", "pods", 2]], "people": [], "at": [["east", 4], ["we\u001bst", 4]]}

    def told():
        word = json.dumps({"taken": ["physics"], "teams": [team]})
        return me.api("POST", "/federation/look", {"limits": word}, headers={"Authorization": f"Bearer {statement('east', key)}"}, key=False)
    let_hub(pool, True)
    try:
        wait_for("it keeps to it", lambda: (said := told())[0] == 200 and said[1]["limits"] == {"kept": True})
        physics["spec"]["quota"]["nvidia.com/gpu"] = 6
        ready(pool, physics)
        wait_for("the account has the lower one", lambda: associations(pool, "physics")["physics", ""]["GrpTRES"] == "gres/gpu=4")
        wait_for("its status says it", lambda: condition(pool, "physics", "FederationLimits")[:2] == ("True", "HeldBack"))
        assert pool.get("tenant", "physics")["status"]["federation"].items() >= {"name": "campus", "team": "lab", "gpus": 4, "limit": 8, "used": 8}.items()
        more = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
        wait_for("it waits", lambda: pool.squeue()[more]["reason"] == "AssocGrpGRES")
        assert "The limit is that of Federation campus: team lab counts for 8 of 8 GPUs over all members (east 4, we?st 4)" in pool.cmd("why", str(more)).stdout
    finally:
        let_hub(pool, False)
    wait_for("whom the cluster does not let limits nothing", lambda: pool.squeue()[more]["state"] == "RUNNING")


@pytest.mark.feature("C1.4", "C1.5")
def test_children_share_what_their_parent_has(pool):
    me = [{"user": "researcher"}]
    ready(pool, tenant("science", {"gpu": 3}, namespaces=[]),
          tenant("physics", {"gpu": 1}, parent="science", borrowing={"limit": {"gpu": 1}}, members=me),
          tenant("biology", {"gpu": 2}, parent="science", borrowing={"all": True}, members=me, perUser={"quota": {"gpu": 1}, "running": 5}))
    have = associations(pool, "science", "physics", "biology")
    assert have["physics", ""]["ParentName"] == "science" and have["physics", ""]["GrpTRES"] == "gres/gpu=2"
    assert have["biology", ""]["GrpTRES"] == "" and have["science", ""]["GrpTRES"] == "gres/gpu=3"
    assert have["biology", "researcher"]["GrpTRES"] == "gres/gpu=1" and have["biology", "pods"]["GrpTRES"] == ""
    pool.apply(*[pool.pod(f"p{i}", gpus=1, ns="physics") for i in range(3)])
    running = lambda ns: len(pool.running("-n", ns))
    wait_for("it borrows one, and no more", lambda: running("physics") == 2 and any("AssocGrpGRES" in j["reason"] for j in pool.squeue().values()))
    pool.apply(*[pool.pod(f"b{i}", gpus=1, ns="biology") for i in range(2)])
    wait_for("the parent's quota holds for both", lambda: running("biology") == 1 and sum("AssocGrpGRES" in j["reason"] for j in pool.squeue().values()) == 2)
    mine = [int(sbatch(pool, "-A", "biology", "--gres=gpu:1").stdout) for _ in range(2)]
    pool.kubectl("delete", "pods", "--all", "-n", "physics", "--grace-period=1")
    pool.kubectl("delete", "pods", "--all", "-n", "biology", "--grace-period=1")
    wait_for("one user has his own limit", lambda: sorted(pool.squeue()[j]["state"] for j in mine) == ["PENDING", "RUNNING"] and
             any(pool.squeue()[j]["reason"] == "AssocGrpGRES" for j in mine))


@pytest.mark.feature("C1.3")
def test_what_somebody_changed_is_mended_and_what_is_others_stays(pool):
    ready(pool, tenant("physics", {"gpu": 2}, weight=3, members=[{"user": "researcher"}]))
    pool.shell("sacctmgr", "-i", "modify", "account", "physics", "set", "GrpTRES=gres/gpu=99", "Fairshare=50", "MaxJobs=1")
    pool.shell("sacctmgr", "-i", "remove", "user", "researcher", "account=physics")
    pool.shell("sacctmgr", "-i", "add", "account", "theirs", "GrpTRES=cpu=5")
    pool.shell("sacctmgr", "-i", "add", "user", "root", "account=theirs,physics")
    # A coordinator may make accounts below the Tenant's.
    pool.shell("sacctmgr", "-i", "add", "coordinator", "account=physics", "names=researcher")
    pool.shell("runuser", "-u", "researcher", "--", "sacctmgr", "-i", "add", "account", "optics", "parent=physics")
    pool.shell("runuser", "-u", "researcher", "--", "sacctmgr", "-i", "add", "user", "researcher", "account=optics")
    pool.kubectl("delete", "rolebinding", "-n", "physics", "--all")
    pool.kubectl("label", "namespace", "physics", "pod-security.kubernetes.io/enforce=privileged", "--overwrite")

    def mended():
        have = associations(pool, "physics")
        own = have["physics", ""]
        return (own["GrpTRES"], own["Fairshare"], own["MaxJobs"]) == ("gres/gpu=2", "3", "") and ("physics", "researcher") in have
    wait_for("slurmdbd is as the object says", mended)
    wait_for("and so is Kubernetes", lambda: may(pool, "researcher", "create", "pods", "physics") and
             pool.get("namespace", "physics")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline")
    have = associations(pool, "physics", "theirs")
    assert have["theirs", ""]["GrpTRES"] == "cpu=5" and ("theirs", "root") in have and ("physics", "root") in have
    wait_for("it says who is in it besides", lambda: "root" in condition(pool, "physics", "AccountReady")[2])
    pool.shell("sacctmgr", "-i", "remove", "user", "root", "account=theirs,physics")
    pool.shell("sacctmgr", "-i", "remove", "account", "theirs")
    # They stay, and keep the Tenant's from going with them unseen.
    assert ("optics", "researcher") in associations(pool, "optics")
    # Nor does one go that a Tenant names which has not got it.
    pool.apply(tenant("optics", {}, namespaces=[]))
    wait_for("it is refused", lambda: condition(pool, "optics", "AccountReady")[1] == "AccountExists")
    pool.kubectl("delete", "tenant", "physics", "--wait=false")
    wait_for("it waits for them", lambda: condition(pool, "physics", "Deleting")[1] == "AccountsBelow" and "optics" in condition(pool, "physics", "Deleting")[2])
    assert ("optics", "researcher") in associations(pool, "optics")
    pool.kubectl("delete", "tenant", "optics", "--wait=false")
    pool.shell("sacctmgr", "-i", "modify", "account", "optics", "set", "parent=root")
    wait_for("it goes", lambda: not pool.items("tenants"))
    assert ("optics", "researcher") in associations(pool, "optics")
    pool.shell("sacctmgr", "-i", "remove", "account", "optics")
    pool.kubectl("delete", "namespace", "physics", "--timeout=120s")


@pytest.mark.feature("C10.3")
def test_a_project_has_an_account_people_and_a_quota_inside_its_tenant(pool):
    ready(pool, tenant("physics", {"gpu": 2}, members=[{"user": "researcher"}, {"user": "pods", "role": "viewer"}]))
    refused = {("create", "quarks", "--tenant", "nobody"): 'there is no Tenant "nobody"', ("create", "quarks", "--tenant", "physics", "--member", "pods"): '"pods" runs nothing in Tenant physics',
               ("create", "physics", "--tenant", "physics"): "already: take another name", ("delete", "physics"): "physics is no project", ("add", "quarks", "researcher"): 'there is no project "quarks"'}
    for argv, words in refused.items():
        r = pool.cmd("project", *argv, check=False)
        assert r.returncode == 1 and words in r.stderr, (argv, r.stderr)
    assert pool.cmd("project", "create", "quarks", check=False).returncode == 2
    for quota, words in {"gpus=4": "there are cpu, memory, gpu and nvidia.com/gpu: did you mean gpu?", "gpu=four": "give a quantity from 0 up"}.items():
        r = pool.cmd("project", "create", "quarks", "--tenant", "physics", "--quota", quota, check=False)
        assert r.returncode == 1 and words in r.stderr and not pool.kubectl("get", "tenant", "quarks", "--ignore-not-found"), r.stderr
    pool.cmd("project", "create", "quarks", "--tenant", "physics", "--quota", "gpu=1")
    projects = lambda: json.loads(pool.cmd("project", "list", "-o", "json").stdout)["projects"]  # noqa: E731
    want = {"name": "quarks", "tenant": "physics", "account": "quarks", "weight": 1, "quota": {"gpu": "1"}, "members": ["researcher"], "ready": True}
    wait_for("it is ready", lambda: [{k: v for k, v in p.items() if k != "message"} for p in projects()] == [want])
    rows = associations(pool, "quarks")
    assert (rows[("quarks", "")]["ParentName"], rows[("quarks", "")]["GrpTRES"]) == ("physics", "gres/gpu=1") and set(rows) == {("quarks", ""), ("quarks", "researcher"), ("quarks", "pods")}  # as whom pods run

    # Its quota is its own, and what it holds is its Tenant's too.
    jobs = [sbatch(pool, f"--account={a}", "--gpus=1").stdout.strip() for a in ("quarks", "quarks", "physics", "physics")]
    state = lambda: [pool.shell("squeue", "-h", "-j", j, "-o", "%a %T %r").split() for j in jobs]  # noqa: E731
    wait_for("one of each runs", lambda: state() == [["quarks", "RUNNING", "None"], ["quarks", "PENDING", "AssocGrpGRES"], ["physics", "RUNNING", "None"], ["physics", "PENDING", "AssocGrpGRES"]])
    wait_for("it has a line of its own", lambda: re.search(r"^quarks +1 ", pool.cmd("usage", "--by", "tenant").stdout, re.M))
    pool.shell("scancel", "-Q", "-u", "researcher")
    r = pool.cmd("project", "add", "quarks", "researcher", "--quota", "gpu=2", check=False)
    assert r.returncode == 2 and "--quota is of create" in r.stderr, r.stderr
    assert "researcher is out of project quarks" in pool.cmd("project", "remove", "quarks", "researcher").stdout
    wait_for("he is out", lambda: ("quarks", "researcher") not in associations(pool, "quarks"))

    def refused():  # slurmdbd knows it before slurmctld does
        r = sbatch(pool, "--account=quarks", check=False)
        return "Invalid account" in r.stderr or pool.shell("scancel", r.stdout.strip()) is None
    wait_for("he may not any more", refused)
    assert "researcher is in project quarks" in pool.cmd("project", "add", "quarks", "researcher").stdout
    wait_for("he is in again", lambda: ("quarks", "researcher") in associations(pool, "quarks"))
    pool.cmd("project", "delete", "quarks")
    wait_for("it is gone", lambda: not projects() and not associations(pool, "quarks"))


@pytest.mark.feature("C10.3", "C10.2", "C9.3")
def test_a_tenants_own_admins_keep_its_projects(pool, tmp_path):
    physics = tenant("physics", {"gpu": 2}, perUser={"running": 7}, members=[{"user": "researcher", "role": "admin"}])
    ready(pool, physics, tenant("bio", members=[{"user": "researcher"}]))
    me = Laptop(pool, tmp_path / "laptop", "researcher")
    assert may(pool, "researcher", "create", "projects", "physics") and may(pool, "researcher", "list", "projects", "bio")
    for verb, what, ns, who in (("create", "projects", "bio", "researcher"), ("delete", "projects", "default", "researcher"), ("create", "projects", "physics", "eve"), ("list", "projects", "physics", "eve"),
                                ("patch", "projects.tandem.dev --subresource=status", "physics", "researcher"), ("create", "tenants", "physics", "researcher"), ("patch", "tenants", "physics", "researcher")):
        assert not may(pool, who, verb, what, ns), (verb, what, ns, who)
    refused = {("create", "quarks", "--tenant", "bio"): 'you are no admin of a Tenant "bio"', ("create", "quarks", "--tenant", "other"): 'you are no admin of a Tenant "other"',
               ("create", "quarks", "--tenant", "physics", "--member", "pods"): '"pods" runs nothing in Tenant physics', ("create", "quarks", "--tenant", "physics", "--quota", "gpus=1"): "did you mean gpu?",
               ("create", "quarks", "--tenant", "physics", "--quota", "storage=1Ti"): "a project has no namespaces", ("add", "bio.x", "researcher"): "you are no admin", ("delete", "physics.x"): "has no project"}
    for argv, words in refused.items():
        r = me.run("project", *argv, check=False)
        assert r.returncode == 1 and words in r.stderr, (argv, r.stderr)
    projects = lambda: {p["name"]: p for p in me.json("project", "list")["projects"]}  # noqa: E731
    assert "--account physics.quarks" in me.run("project", "create", "quarks", "--tenant", "physics", "--quota", "gpu=3").stdout
    wait_for("it says that this is too much", lambda: "Tenant physics has 2: give it no more" in projects()["physics.quarks"].get("message", ""))
    assert not associations(pool, "physics.quarks")
    me.run("project", "set", "physics.quarks", "--quota", "gpu=1")
    wait_for("it is ready", lambda: projects()["physics.quarks"]["ready"] and projects()["physics.quarks"]["members"] == ["researcher"])
    rows = associations(pool, "physics.quarks")
    own, his = rows["physics.quarks", ""], rows["physics.quarks", "researcher"]
    assert (own["ParentName"], own["GrpTRES"], his["MaxJobs"]) == ("physics", "gres/gpu=1", "7") and len(rows) == 3
    # An object does the same: here two that can be nothing. Whoever labels a namespace has not made it the Tenant's.
    pool.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "squat", "labels": {"tandem.dev/tenant": "physics"}}})
    for ns in ("default", "squat"):
        pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Project", "metadata": {"name": "stray", "namespace": ns}, "spec": {}})
        wait_for("it is nobody's", lambda: [c["reason"] for c in pool.get("project", "stray", "-n", ns).get("status", {}).get("conditions", [])] == ["NoTenant"])
        pool.kubectl("delete", "project", "stray", "-n", ns)
    pool.kubectl("delete", "namespace", "squat", "--timeout=120s")

    # Pods name it; only its people's, and only in a namespace of its Tenant.
    def pod(name, ns="physics", user="researcher"):
        p = pool.pod(name, gpus=1, ns=ns)
        p["metadata"]["annotations"] = {"slurm.tandem.dev/account": "physics.quarks"}
        pool.kubectl("apply", "-f", "-", *(["--as", user] if user else []), input=json.dumps(p))
    pod("its")
    wait_for("it runs", lambda: pool.phase("its", "physics") == "Running")
    assert pool.job(pool.grant(pool.get("pod", "its", "-n", "physics"))[0])["Account"] == "physics.quarks"
    pod("more"), pod("strange", user=None), pod("far", ns="bio")
    wait_for("its quota is full", lambda: "Tenant physics.quarks holds 1 of 1 gpu" in pool.cmd("why", "more", "-n", "physics").stdout)
    wait_for("who is not in it is refused", lambda: "project physics.quarks is of others than" in pool.cmd("why", "strange", "-n", "physics").stdout)
    wait_for("so is another Tenant's", lambda: '"physics.quarks" is not what namespace bio is given' in pool.cmd("why", "far", "-n", "bio").stdout)
    assert re.search(r"^physics\.quarks +jobs .*\n +gpu +1 +1 +1 ", pool.cmd("quota").stdout, re.M)
    pool.kubectl("delete", "pods", "its", "more", "strange", "-n", "physics", "--grace-period=1")

    # A key of the project does nothing outside of it.
    mine = me.submit("--no-code", "--name", "mine", "--account", "physics", "--", "exec sleep 100000")
    assert me.run("key", "create", "--project", "physics", check=False).returncode == 1  # no project
    whole, me.key = me.key, me.run("key", "create", "--project", "physics.quarks").stdout.strip()
    run = me.submit("--no-code", "--name", "its", "--", "echo said; exec sleep 100000")
    wait_for("it runs in the project", lambda: pool.shell("squeue", "-h", "-A", "physics.quarks", "-t", "R", "-o", "%u").split() == ["researcher"])
    assert [r["id"] for r in me.json("ps")["runs"]] == [run] and me.run("submit", "--no-code", "--account", "physics", "--", "true", check=False).returncode == 1
    ask = lambda *a: me.api(*a)[0]  # noqa: E731
    assert (ask("GET", f"/runs/{run}"), ask("GET", f"/runs/{mine}"), ask("POST", f"/runs/{mine}/cancel"), ask("GET", f"/runs/{mine}/log"), ask("POST", f"/runs/{mine}/again", {"request": "r" * 20})) == (200, 404, 404, 404, 404)
    job = {"request": "s" * 20, "job": {"name": "t", "steps": [{"name": "a", "entrypoint": ["true"]}, {"name": "b", "entrypoint": ["true"], "account": "physics"}]}}
    for method, path, body in (("GET", "/keys", None), ("POST", "/keys", {"name": "x"}), ("GET", "/projects", None), ("GET", "/files/content?path=.bashrc", None), ("POST", "/files", {"path": "x", "chunks": []}),
                               ("POST", "/runs", job), ("POST", "/sessions", {"account": "physics", "command": "x"}), ("POST", "/login", {"key": me.key}), ("POST", "/login/key", None)):
        assert ask(method, path, body) in (403, 422) and (path == "/login/key" or ask(method, path, body) == 403), (method, path)
    session = me.api("POST", "/sessions", {"kind": "batch", "command": "exec sleep 100000"})[1]["id"]
    wait_for("a session is the project's", lambda: pool.shell("squeue", "-h", "-A", "physics.quarks", "-t", "R", "-o", "%u").split() == ["researcher"] * 2)
    assert [s["id"] for s in me.api("GET", "/sessions")[1]["sessions"]] == [session] and ask("DELETE", f"/sessions/{session}") == 200
    key_id, me.key = me.key[4:12], whole
    assert me.api("POST", "/sessions", {"kind": "batch", "command": "x", "account": "physics"})[0] == 404
    new = me.run("key", "rotate", key_id).stdout.strip()
    whole, me.key = me.key, new
    assert ask("GET", "/whoami") == 200 and me.api("GET", "/whoami")[1]["project"] == "physics.quarks" and ask("DELETE", f"/keys/{key_id}") == 403 and ask("DELETE", f"/keys/{new[4:12]}") == 200
    me.key = whole

    # Who leaves the Tenant is out of the project; what runs keeps it, and it takes no more.
    me.run("project", "delete", "physics.quarks")
    wait_for("it waits for its run", lambda: "physics.quarks run" in projects()["physics.quarks"].get("message", ""))
    wait_for("and takes no other", lambda: sbatch(pool, "-A", "physics.quarks", check=False).returncode)
    assert "still goes" in me.run("project", "create", "quarks", "--tenant", "physics", check=False).stderr
    pool.shell("scancel", "-Q", "-u", "researcher")
    wait_for("it is gone", lambda: not projects() and not associations(pool, "physics.quarks"))
    pool.kubectl("create", "--as", "researcher", "-f", "-", input=json.dumps({"apiVersion": "tandem.dev/v1alpha1", "kind": "Project", "metadata": {"name": "top", "namespace": "physics"}, "spec": {"members": ["researcher"]}}))
    wait_for("he is in", lambda: ("physics.top", "researcher") in associations(pool, "physics.top"))
    physics["spec"]["members"][0]["role"] = "viewer"
    pool.apply(physics)
    wait_for("he is out", lambda: ("physics.top", "") in (have := associations(pool, "physics.top")) and ("physics.top", "researcher") not in have)
    assert not may(pool, "researcher", "delete", "projects", "physics") and me.run("project", "set", "physics.top", "--weight", "9", check=False).returncode == 1
    wait_for("its object says so", lambda: "researcher run nothing in Tenant physics" in pool.kubectl("get", "project", "top", "-n", "physics", "-o", "yaml"))
    pool.kubectl("delete", "tenant", "physics", "--wait=false")
    wait_for("with its Tenant it goes", lambda: [t["metadata"]["name"] for t in pool.items("tenants")] == ["bio"])
    pool.kubectl("delete", "namespace", "physics", "--timeout=120s")


@pytest.mark.feature("C1.1", "C1.3")
def test_a_tenant_goes_when_its_jobs_are_over(pool):
    ready(pool, tenant("science", namespaces=[]), tenant("physics", {"gpu": 2}, parent="science", members=[{"user": "researcher"}], deletion="Drain"))
    job = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
    wait_for("it runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    pool.kubectl("delete", "tenant", "science", "physics", "--wait=false")
    wait_for("the parent waits for its child", lambda: condition(pool, "science", "Deleting")[1] == "HasChildren")
    wait_for("the child waits for the job", lambda: condition(pool, "physics", "Deleting")[1] == "JobsRun" and f"{job} of researcher" in condition(pool, "physics", "Deleting")[2])
    wait_for("and takes no other", lambda: sbatch(pool, "-A", "physics", check=False).returncode)
    assert pool.squeue()[job]["state"] == "RUNNING"
    pool.shell("scancel", job)
    wait_for("both are gone", lambda: not pool.items("tenants"))
    assert not associations(pool, "physics", "science") and "physics" not in pool.shell("sacctmgr", "-n", "-P", "show", "account")
    left = pool.get("namespace", "physics")["metadata"]["labels"]  # people's things stay
    assert "tandem.dev/tenant" not in left and not pool.items("rolebindings", "-n", "physics", "-l", "tandem.dev/tenant")
    assert not may(pool, "researcher", "create", "pods", "physics")
    pool.kubectl("delete", "namespace", "physics", "--timeout=120s")


@pytest.mark.feature("C1.1", "C1.3")
def test_what_cannot_be_is_said_and_changes_nothing(pool):
    pool.kubectl("create", "namespace", "taken")
    pool.shell("sacctmgr", "-i", "add", "account", "old", "Fairshare=5")
    rows = lambda: pool.shell("sacctmgr", "-n", "-P", "show", "associations", "format=account,user,fairshare,grptres,parentname").splitlines()
    others = lambda: [r for r in rows() if not r.startswith("open|")]
    before = others()
    bad = {"orphan": ({"parent": "nobody"}, "Valid", "create it, or name another parent"),
           "round": ({"parent": "round"}, "Valid", "leads round in a circle"),
           "old": ({}, "AccountReady", "spec.adopt"),
           "grabs": ({"namespaces": ["taken"]}, "NamespacesReady", "kubectl label namespace taken tandem.dev/tenant=grabs"),
           "greedy": ({"namespaces": ["kube-system", "slurm"]}, "NamespacesReady", "part of the system"),
           "typo": ({"quota": {"gpus": 1}}, "Valid", "did you mean gpu?"),
           "stranger": ({"members": [{"user": "researcher"}, {"user": "ghost"}]}, "MembersKnown", "Slurm does not know ghost"),
           "odd": ({"quota": {"example.com/fpga": 1}}, "Valid", "spec.scheduler.gresMap"),
           "lost": ({"cluster": {"namespace": "slurm", "name": "no-such"}}, "AccountReady", "there is no such SlurmCluster")}
    pool.apply(*[tenant(name, **spec) for name, (spec, _, _) in bad.items()])
    for name, (_, kind, words) in bad.items():
        wait_for(f"{name} is told", lambda: condition(pool, name, kind)[0] == "False" and words in condition(pool, name, kind)[2])
        assert condition(pool, name, "Ready")[0] == "False"
    assert not pool.get("namespace", "taken")["metadata"]["labels"].get("tandem.dev/tenant")
    pool.kubectl("delete", "tenant", "grabs", "greedy", "stranger", "--timeout=180s", timeout=240)  # their accounts were in place
    wait_for("nothing has changed in Slurm", lambda: others() == before)

    # Both have a cure.
    pool.kubectl("label", "namespace", "taken", "tandem.dev/tenant=old")
    ready(pool, tenant("old", {"gpu": 1}, adopt=True, namespaces=["taken"], weight=2))
    own = associations(pool, "old")["old", ""]
    assert own["Fairshare"] == "2" and own["GrpTRES"] == "gres/gpu=1"
    # What a Federation leaves to it goes with its Tenant, since nobody else would lift that.
    word = {"at": int(time.time()), "word": {"taken": [], "teams": [{"name": "lab", "accounts": ["old"], "gpus": 0}]}}
    pool.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main-federation", "namespace": "slurm", "labels": {"tandem.dev/federation-limits": "main"}}, "data": {"campus": json.dumps(word)}})
    let_hub(pool, True)
    wait_for("nothing is left to it", lambda: associations(pool, "old")["old", ""]["GrpTRES"] == "gres/gpu=0")
    pool.kubectl("delete", "tenant", "old", "--timeout=180s", timeout=240)
    let_hub(pool, False)
    pool.kubectl("delete", "configmap", "main-federation", "-n", "slurm")
    assert associations(pool, "old")["old", ""]["GrpTRES"] == "gres/gpu=1"  # it was there before
    pool.shell("sacctmgr", "-i", "remove", "account", "old")
    pool.kubectl("delete", "namespace", "taken", "--timeout=120s")


@pytest.mark.feature("C10.4", "C10.5", "C1.6")
def test_who_holds_what_and_who_had_what(pool):
    ready(pool, tenant("science", {"gpu": 4, "memory": "1Gi"}, namespaces=[]),
          tenant("physics", {"gpu": 2}, parent="science", borrowing={"limit": {"gpu": 1}}, members=[{"user": "researcher"}]))
    pool.apply(*[pool.pod(f"p{i}", gpus=1, ns="physics") for i in range(4)])
    wait_for("three run", lambda: len(pool.running("-n", "physics")) == 3)

    def quota():
        shown = {t["tenant"]: t for t in json.loads(pool.cmd("quota", "-o", "json").stdout)["tenants"]}
        return {n: (t["running"], t["waiting"], t["resources"][0]) for n, t in shown.items()}
    wait_for("one waits", lambda: quota()["physics"][:2] == (3, 1))
    assert quota()["physics"][2] == {"resource": "gpu", "quota": 2, "limit": 3, "used": 3, "borrowed": 1, "waiting": 1}
    assert quota()["science"][2] == {"resource": "gpu", "quota": 4, "limit": 4, "used": 3, "borrowed": 0, "waiting": 1}
    text = pool.cmd("quota", "science").stdout
    assert re.search(r"memory +1Gi +1Gi +192Mi", text) and max(map(len, text.splitlines())) <= 80
    assert "no Tenant nobody" in pool.cmd("quota", "nobody", check=False).stderr

    use = lambda *argv: pool.cmd("usage", *argv).stdout
    rows = lambda: {r["tenant"]: r for r in json.loads(use("-o", "json", "--gpu-price", "3600"))["usage"]}
    wait_for("three GPUs have been held for seconds", lambda: rows().get("physics", {}).get("cost", 0) >= 3)
    seen = rows()["physics"]
    assert seen["jobs"] >= 3 and abs(seen["cost"] - seen["gpuHours"] * 3600) < 0.01
    assert use("--by", "user", "-o", "csv").startswith("user,jobs,gpu_hours,cpu_hours,idle_gpu_hours,use\n") and "\npods," in use("--by", "user", "-o", "csv")
    assert re.search(r"^20\d\d-\d\d-\d\d +\d+ ", use("--by", "day", "--tenant", "physics"), re.M)
    assert pool.cmd("usage", "--since", "soon", check=False).returncode == 2


@pytest.mark.embedded  # whose a pod is, a real API server does not write by itself
@pytest.mark.feature("C1.4")
def test_a_members_limit_holds_for_his_jobs_and_pods_together(pool):
    """Whose a pod is says the API server, whatever made it, and nobody can say another's name."""
    ready(pool, tenant("physics", {"gpu": 4}, members=[{"user": "researcher", "kubernetesUser": "r@uni"}], perUser={"quota": {"gpu": 1}, "pods": True}))
    job = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
    wait_for("the job runs", lambda: pool.squeue()[job]["state"] == "RUNNING")
    train = pool.deployment("train", 1, 1)
    train["metadata"]["namespace"] = "physics"
    as_him = lambda o, check=True: pool.run("kubectl", "--as", "r@uni", "apply", "-f", "-", input=json.dumps(o), check=check)
    as_him(train)
    pool.apply(pool.pod("anybodys", gpus=1, ns="physics"))  # no member's: the namespace's own
    wait_for("the Deployment makes its pod", lambda: pool.items("pods", "-n", "physics", "-l", "app=train"))
    pod = lambda: pool.items("pods", "-n", "physics", "-l", "app=train")[0]
    wait_for("what he made waits at his limit, which his job has", lambda: re.search(
        rf"User researcher holds 1 of 1 gpu that a member of Tenant physics may hold, and this one wants 1. Held by job {job} of researcher",
        pool.cmd("why", pod()["metadata"]["name"], "-n", "physics").stdout))
    wait_for("its condition has Slurm's word", lambda: "AssocGrpGRES" in next(c["message"] for c in pod()["status"]["conditions"] if c["type"] == "PodScheduled"))
    wait_for("it holds nobody else up", lambda: pool.phase("anybodys", "physics") == "Running")
    of = lambda p: pool.job(pool.grant(p)[0])["UserId"].split("(")[0]
    assert of(pool.get("pod", "anybodys", "-n", "physics")) == "pods"
    forged = pool.pod("forged", gpus=1, ns="physics")
    forged["metadata"]["annotations"] = {"tandem.dev/user": "admin"}
    assert "says whose it is" in as_him(forged, check=False).stderr
    assert "says whose it is" in pool.run("kubectl", "--as", "r@uni", "annotate", "--overwrite", "pod", pod()["metadata"]["name"], "-n", "physics", "tandem.dev/user=admin", check=False).stderr
    pool.shell("scancel", str(job))
    wait_for("it goes on when the job ends", lambda: pod()["status"].get("phase") == "Running")
    assert of(pod()) == "researcher" and pool.job(pool.grant(pod())[0])["Account"] == "physics"
    job = int(sbatch(pool, "-A", "physics", "--gres=gpu:1").stdout)
    wait_for("now his job waits for his pod", lambda: pool.squeue()[job]["reason"] == "AssocGrpGRES")
    pool.kubectl("delete", "deployment", "train", "-n", "physics")  # else it makes pods while the next test removes the tenant
    wait_for("its pods are gone", lambda: not pool.items("pods", "-n", "physics", "-l", "app=train"))


@pytest.mark.embedded  # it changes spec.users
@pytest.mark.feature("C9.3", "C1.3")
def test_nobody_reaches_into_another_tenant(pool):
    """Each user with each account, namespace and thing that is not his. The first two tenants have one member each."""
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"users": [
        {"name": "researcher", "uid": 1000, "gid": 1000, "home": "/home/researcher"}, {"name": "pods", "uid": 2000, "gid": 2000, "home": "/home/pods"},
        {"name": "other", "uid": 1001, "gid": 1001, "home": "/home/other"}]}}))
    users = {"researcher": "physics", "other": "biology"}
    ready(pool, *[tenant(t, {"gpu": 2}, members=[{"user": u, "role": "admin"}]) for u, t in users.items()], tenant("chemistry", {"gpu": 2}))
    wait_for("Slurm knows them both", lambda: all(pool.cmd("shell", "--user", "root", "--", "id", u, check=False).returncode == 0 for u in users))
    pool.apply(*[pool.pod("mine", gpus=1, ns=t) for t in (*users.values(), "chemistry")])
    wait_for("each has a pod", lambda: all(pool.phase("mine", t) == "Running" for t in (*users.values(), "chemistry")))
    job = {t: pool.grant(pool.get("pod", "mine", "-n", t))[0] for t in (*users.values(), "chemistry")}
    submit = lambda u, *argv: pool.cmd("shell", "--user", u, "--", "sbatch", "--parsable", "--mem=50M", *argv, check=False, input="#!/bin/sh\nexec sleep 100000\n")
    native = {t: int(wait_for(f"{u} submits", lambda: submit(u, "-A", t).stdout.strip())) for u, t in users.items()}
    as_user = lambda u, *argv: pool.run("kubectl", "--as", u, *argv, check=False)
    for u, his in users.items():
        for t in (*users.values(), "chemistry", "root", "open"):
            # The pods of namespace researcher, which is no tenant's, are his and charged to everybody's account.
            if t == his or (u, t) == ("researcher", "open"):
                continue
            r = submit(u, "-A", t)
            assert r.returncode and "Invalid account" in r.stderr, (u, t, r.stdout, r.stderr)
            if t in ("root", "open"):
                continue
            assert not any(may(pool, u, verb, what, t) for verb, what in (("create", "pods"), ("get", "pods"), ("delete", "pods"), ("create", "pods/exec"), ("get", "pods/log"), ("get", "secrets"), ("patch", "pods/status")))
            for j in (job[t], native.get(t)):  # pods' jobs are another user's, too
                if j:
                    for argv in (("scancel", j), ("scontrol", "update", f"jobid={j}", "timelimit=1"), ("scontrol", "hold", j), ("srun", f"--jobid={j}", "--overlap", "true")):
                        pool.cmd("shell", "--user", u, "--", "timeout", "20", *argv, check=False)
        assert not any(may(pool, u, verb, what, "") for verb, what in (("create", "tenants"), ("patch", "tenants"), ("patch", "tenants/status"), ("patch", "namespaces"), ("create", "namespaces")))
        assert "orbidden" in as_user(u, "label", "namespace", his, "tandem.dev/tenant=chemistry", "--overwrite").stderr
        # In his own namespace he may say what he likes: the account stays his tenant's.
        pod = pool.pod("sly", gpus=1, ns=his)
        pod["metadata"]["annotations"] = {"slurm.tandem.dev/account": "chemistry"}
        pool.run("kubectl", "--as", u, "apply", "-f", "-", input=json.dumps(pod))
        wait_for("it is refused by name", lambda: "is not what namespace" in pool.cmd("why", "sly", "-n", his).stdout)
        r = pool.cmd("shell", "--user", u, "--", "sacctmgr", "-i", "modify", "account", his, "set", "GrpTRES=gres/gpu=99", check=False)
        assert associations(pool, his)[his, ""]["GrpTRES"] == "gres/gpu=2", r.stdout
    for t, j in (*job.items(), *native.items()):
        assert pool.squeue()[j]["state"] == "RUNNING", t
        assert pool.job(j)["TimeLimit"] != "00:01:00"
    pool.shell("scancel", "-u", "other")


@pytest.mark.embedded  # it kills a role
@pytest.mark.feature("C1.3")
def test_a_crash_in_the_midst_is_made_good(pool):
    names = [f"t{i}" for i in range(6)]
    pool.apply(*[tenant(n, {"gpu": 1}, members=[{"user": "researcher"}]) for n in names])
    wait_for("it has begun", lambda: associations(pool, *names))
    pool.kill_role("operator")
    for n in names:
        wait_for(f"{n} is ready", lambda: condition(pool, n, "Ready")[0] == "True", 120)
    have = associations(pool, *names)
    assert all({(n, ""), (n, "researcher"), (n, "pods")} <= set(have) and have[n, ""]["GrpTRES"] == "gres/gpu=1" for n in names)


PEOPLE = [{"name": "researcher", "uid": 1000, "gid": 1000, "home": "/home/researcher"}, {"name": "pods", "uid": 2000, "gid": 2000, "home": "/home/pods"},
          {"name": "ann", "uid": 3000, "groups": ["physics", "optics"]}, {"name": "bob", "uid": 3001}]
KUBE = {"ann": "ann", "bob": "bob@uni"}  # as Kubernetes knows them


def people_of(pool, *names, **storage):
    """A Tenant whose pods are their people's; the fixture removes it."""
    members = [{"user": "ann", "role": "admin"}, {"user": "bob", "kubernetesUser": "bob@uni"}]
    ready(pool, *[tenant(n, {"gpu": 4}, members=members, storage=storage) for n in names])


def as_person(pool, who, *argv, check=True, **kw):
    return pool.run("kubectl", "--as", KUBE.get(who, who), *argv, check=check, **kw)


def made(pool, who, o, ns="physics"):
    """Who makes it, and what kubectl says if it is refused."""
    return as_person(pool, who, "create", "-n", ns, "-f", "-", input=json.dumps(o), check=False).stderr


def said(pool, name, script, who, ns="physics"):
    """What a pod of his prints that runs this."""
    p = pool.pod(name, ns=ns, command=["sh", "-c", script], restartPolicy="Never")
    assert made(pool, who, p, ns) == ""
    wait_for(f"{name} has run", lambda: pool.phase(name, ns) in ("Succeeded", "Failed"))
    return pool.kubectl("logs", name, "-n", ns)


@pytest.fixture
def posix(pool):
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"users": PEOPLE, "groups": [{"name": "physics", "gid": 5000}, {"name": "optics", "gid": 5001}]}}))
    people_of(pool, "physics", mode="posix")
    for who in KUBE:
        wait_for(f"{who} comes in", lambda: pool.cmd("shell", "--user", who, "--", "true", check=False).returncode == 0)
    return pool


@pytest.mark.embedded  # it changes spec.users
@pytest.mark.feature("A13.3", "A15.2")
def test_pods_run_as_who_made_them_and_find_their_home(posix):
    pool = posix
    script = "id -u; id -g; id -G; umask; echo $HOME $USER; grep NoNewPrivs /proc/self/status; cd && echo from a pod > note; touch /data/x 2>&1 || :; ls /home/bob 2>&1 || :; sleep 100000"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": {"spec": {**pool.pod("x", command=["sh", "-c", script])["spec"], "restartPolicy": "Never"}}}}
    assert made(pool, "ann", job) == ""
    pods = lambda: pool.items("pods", "-n", "physics", "-l", "job-name=train")
    wait_for("it runs", lambda: pods() and pods()[0]["status"].get("phase") == "Running")
    name = pods()[0]["metadata"]["name"]
    log = wait_for("it has said all", lambda: (lambda t: "/home/bob" in t and t)(pool.kubectl("logs", name, "-n", "physics")))
    assert log.startswith("3000\n3000\n3000 5000 5001\n0022\n/home/ann ann\nNoNewPrivs:\t1\n") and "Read-only file system" in log and "/home/bob': Permission denied" in log, log
    assert pool.run("stat", "-c", "%u %g", f"{pool.home}/shared/home/ann/note").stdout == "3000 3000\n"
    assert pool.cmd("shell", "--user", "ann", "--", "cat", "note").stdout == "from a pod\n"  # the same home as at the login
    # He alone gets into it; others see it, and may write what does not run in it.
    assert as_person(pool, "ann", "exec", "-n", "physics", name, "--", "id", "-u").stdout == "3000\n"
    bob = lambda *argv: as_person(pool, "bob", "-n", "physics", *argv, check=False)
    assert "only he runs commands in it" in bob("exec", name, "--", "id").stderr and "only he runs commands in it" in bob("attach", name).stderr
    patch = json.dumps({"spec": {"containers": [{"name": "main", "image": "tandem/slurm:24.11"}]}})
    assert "only he changes what runs in it" in bob("patch", "pod", name, "-p", patch).stderr
    assert bob("label", "pod", name, "seen=yes").returncode == 0 and "from" not in bob("logs", name).stderr
    # Who changes what makes pods makes them his own.
    deployment = pool.deployment("web", 1, 0, command=["sh", "-c", "id -u; sleep 100000"])
    deployment["metadata"].pop("namespace")
    assert made(pool, "ann", deployment) == ""
    user = lambda: {p["spec"]["securityContext"]["runAsUser"] for p in pool.items("pods", "-n", "physics", "-l", "app=web") if not p["metadata"].get("deletionTimestamp")}
    wait_for("ann's", lambda: user() == {3000})
    assert bob("patch", "deployment", "web", "-p", json.dumps({"spec": {"template": {"spec": {"containers": [{"name": "main", "command": ["sleep", "99999"]}]}}}})).returncode == 0
    wait_for("bob's", lambda: user() == {3001})


@pytest.mark.embedded  # it changes spec.users
@pytest.mark.feature("A13.3", "C9.3")
def test_nobody_becomes_another_by_what_he_writes_into_a_pod(posix):
    pool = posix
    people_of(pool, "biology", mode="posix")

    def refused(words, who="bob", ns="physics", own=None, notes=None, **spec):
        p = pool.pod("sly", ns=ns, **spec)
        p["spec"]["containers"][0].update(own or {})
        p["metadata"]["annotations"] = notes or {}
        r = made(pool, who, p, ns)
        assert "forbidden" in r and words in r, (spec, own, r)
    for k, v in (("runAsUser", 3000), ("runAsUser", 0), ("runAsGroup", 5000), ("runAsGroup", 0), ("fsGroup", 5000), ("supplementalGroups", [3001, 5000]), ("supplementalGroups", [0]), ("supplementalGroupsPolicy", "Merge")):
        refused(f"spec.securityContext.{k}: pods of namespace physics run as their people, this one as bob (uid 3001, gid 3001, groups none): leave it out", securityContext={k: v})
    for k, v in (("runAsUser", 3000), ("runAsGroup", 0), ("privileged", True), ("allowPrivilegeEscalation", True)):
        refused(f"spec.containers[0].securityContext.{k}", own={"securityContext": {k: v}})
        first = {"name": "first", "image": "debian:13", "command": ["true"], "securityContext": {k: v}}
        refused(f"spec.initContainers[0].securityContext.{k}", initContainers=[first])
    refused("capabilities.add", own={"securityContext": {"capabilities": {"add": ["DAC_OVERRIDE"]}}})
    for path in ("/", "/etc", "/shared", "/shared/home/ann", "/shared/home/../home", "/shared/all/data", "/run/tandem"):
        r = made(pool, "bob", pool.pod("sly", ns="physics", volumes=[{"name": "v", "hostPath": {"path": path}}]))
        assert "is nothing that pods of namespace physics may have" in r or "must not contain" in r, (path, r)
    refused("hostPID", hostPID=True)
    # A part of a volume, which a kubelet finds past closed directories.
    pool.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "physics"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
    for source in ({"hostPath": {"path": "/shared/home"}}, {"persistentVolumeClaim": {"claimName": "c"}}):
        for k in ("subPath", "subPathExpr"):
            refused(f"spec.containers[0].volumeMounts[0].{k}: it would lead past directories", volumes=[{"name": "v", **source}], own={"volumeMounts": [{"name": "v", "mountPath": "/x", k: "ann/open"}]})
    refused("says whose it is", notes={"tandem.dev/user": "ann"})
    # Nobody's, or of a ServiceAccount that a Tenant's admin has given rights.
    assert "is no member of its Tenant with a uid in spec.users" in pool.run("kubectl", "create", "-n", "physics", "-f", "-", input=json.dumps(pool.pod("sly", ns="physics")), check=False).stderr
    as_person(pool, "ann", "create", "rolebinding", "sa", "-n", "physics", "--clusterrole=edit", "--serviceaccount=physics:default")
    assert "is no member of its Tenant with a uid" in made(pool, "system:serviceaccount:physics:default", pool.pod("sly", ns="physics"))
    # He cannot lift it, and is himself in his other Tenant.
    assert as_person(pool, "ann", "annotate", "namespace", "physics", "tandem.dev/people-", check=False).returncode
    assert as_person(pool, "ann", "patch", "tenant", "physics", "--type=merge", "-p", '{"spec":{"storage":null}}', check=False).returncode
    # What he names himself of what is his, is his; a link out of it leads to nothing that he may not read.
    home = {"volumes": [{"name": "mine", "hostPath": {"path": "/shared/home"}}]}
    p = pool.pod("links", ns="biology", restartPolicy="Never", command=["sh", "-c", "id -u; ln -sfn /home/ann ~/x; ls ~/x/ 2>&1 || :; ls /mnt/ann 2>&1 || :; echo mine > /mnt/bob/f; stat -c %u ~/f"], **home)
    p["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": "/mnt"}]
    assert made(pool, "bob", p, "biology") == ""
    wait_for("it has run", lambda: pool.phase("links", "biology") == "Succeeded")
    log = pool.kubectl("logs", "links", "-n", "biology")
    assert log.startswith("3001\n") and log.count("Permission denied") == 2 and log.endswith("3001\n"), log


@pytest.mark.embedded  # it changes spec.users
@pytest.mark.feature("A13.4")
def test_in_project_mode_members_share_what_their_pods_write(posix):
    pool = posix
    patch = lambda storage: pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"storage": storage}}))
    patch({"mode": "project", "group": "chemistry"})
    wait_for("the group is missed", lambda: condition(pool, "physics", "PeopleKnown")[1:] == ("NoPods", 'spec.storage.group: spec.groups of the SlurmCluster has no group "chemistry" with a gid of 1000 or more, so no pod is taken: add it there, or name another'))
    assert "is no member" in made(pool, "bob", pool.pod("none", ns="physics"))
    patch({"mode": "project", "group": None})  # that of the Tenant's name
    wait_for("it is there", lambda: condition(pool, "physics", "PeopleKnown") == (None, None, "") and condition(pool, "physics", "Ready")[0] == "True")
    # bob is in no group but by the Tenant. Whoever began, the other goes on.
    where = "/projects/physics/run"
    first = said(pool, "first", f"id -u; id -g; id -G; umask; mkdir -p {where}/a; echo bob > {where}/a/f; stat -c '%u %g %a' {where}/a {where}/a/f", "bob")
    assert first == "3001\n5000\n5000 3001\n0002\n3001 5000 2775\n3001 5000 664\n", first
    second = said(pool, "second", f"id -u; id -G; cd {where}/a; echo ann >> f; cat f; rm f; echo new > f", "ann")
    assert second == "3000\n5000 3000 5001\nbob\nann\n", second
    assert pool.cmd("shell", "--user", "ann", "--", "sh", "-c", f"echo native >> {where}/a/f; stat -c '%u %g' {where}/a/f").stdout == "3000 5000\n"
    assert said(pool, "third", f"cat {where}/a/f; umask", "bob") == "new\nnative\n0002\n"


FILTER = """grep Seccomp: /proc/self/status"""


@pytest.mark.feature("D3.9")
def test_native_jobs_have_their_projects_filter_of_system_calls(pool):
    """In batch scripts, steps, containers, and what srun starts beside them. Its user lifts it by nothing that is his: options, variables, programs of his own, or a process that he traces."""
    list_of = lambda: {pool.kubectl("exec", "-n", "slurm", f"main-pool-{n}", "-c", "slurmd", "--", "sh", "-c", "cat /etc/tandem/filters/accounts 2>/dev/null; true") for n in pool.nodes}
    me = [{"user": "researcher"}]
    ready(pool, tenant("physics", {"gpu": 1}, members=me, seccompProfile={"type": "RuntimeDefault"}), tenant("optics", {"gpu": 1}, parent="physics", members=me), tenant("free", {"gpu": 1}, members=me))
    wait_for("the nodes know it, of the Tenant below too", lambda: list_of() == {"optics RuntimeDefault\nphysics RuntimeDefault\n"})
    pool.as_user("researcher", "sh", "-c", f"printf '#!/bin/sh\n{FILTER} >>beside\n' >beside.sh; printf '#!/bin/sh\necho print $({FILTER})\n' >before.sh; chmod +x beside.sh before.sh; rm -f beside")
    script = f"""#!/bin/sh
        cd; {FILTER}; unshare -U true 2>&1
        srun -Q {FILTER}
        srun -Q --export=ALL,TANDEM_STEP_CONTAINER=yes,TANDEM_STEP_FILTER=,SLURM_JOB_ACCOUNT=free {FILTER}
        srun -Q --task-prolog=$HOME/before.sh --task-epilog=$HOME/beside.sh true
        srun -Q sh -c 'grep NoNewPrivs: /proc/self/status'
        cat beside; rm beside"""
    run = lambda account, text, *more: pool.as_user("researcher", "sbatch", "-Q", "-W", "--mem=60M", "-A", account, "-o", "said", *more, input=text, check=False) and pool.as_user("researcher", "cat", "said").stdout
    two, no = "Seccomp:\t2", "unshare: unshare failed: Operation not permitted"
    assert run("optics", script).split("\n") == [two, no, two, two, "Seccomp: 2", "NoNewPrivs:\t1", two, ""]
    assert run("free", f"#!/bin/sh\n{FILTER}\n") == "Seccomp:\t0\n"
    # A job that has no filter takes none of its freedom to the project by its number: running it stays where it is, and queued again it is asked anew.
    moves = pool.as_user("researcher", "sbatch", "--parsable", "--mem=60M", "-A", "free", "--requeue", "--open-mode=append", "-o", "moved", input=f"#!/bin/sh\n{FILTER}\nexec sleep 100000\n").stdout.strip()
    moved = lambda: re.findall(r"Seccomp:\t\d", pool.as_user("researcher", "cat", "moved", check=False).stdout)
    wait_for("it runs", lambda: moved() == ["Seccomp:\t0"])
    assert "no longer pending" in pool.as_user("researcher", "scontrol", "update", f"jobid={moves}", "account=physics", check=False).stderr
    pool.as_user("researcher", "scontrol", "requeue", moves)
    wait_for("it is queued again", lambda: not pool.as_user("researcher", "scontrol", "update", f"jobid={moves}", "account=physics", check=False).returncode)
    pool.as_user("researcher", "scontrol", "update", f"jobid={moves}", "starttime=now")
    wait_for("it runs again", lambda: moved() == ["Seccomp:\t0", two])
    pool.shell("scancel", moves)
    if pool.plane != "real":
        pool.as_user("researcher", "srun", "-Q", "--mem=60M", "-A", "free", "sh", "-c", """mkdir -p r/bin r/tmp r/proc r/dev r/sys; cp -L /bin/sh /bin/cat /bin/grep /bin/sleep r/bin
            for f in r/bin/*; do ldd $f; done | grep -o '/[^ ]*' | sort -u | while read -r l; do mkdir -p r/$(dirname $l); cp -L $l r/$l; done; mksquashfs r r.sqsh -noappend -quiet -no-progress; rm -rf r""")
        inside = f"{FILTER}; cat /proc/self/uid_map | grep -c ."
        trace = """for p in $(grep -l tandem-containe /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3); do grep -q "^Uid:[[:space:]]*$(id -u)" /proc/$p/status && echo found; cat /proc/$p/environ >/dev/null 2>&1 && echo read; (: >>/proc/$p/mem) 2>/dev/null && echo written; done; true"""
        container = "--container-image=$HOME/r.sqsh"
        out = run("physics", f"#!/bin/sh\ncd\nsrun -Q --overlap --task-prolog=$HOME/before.sh {container} sh -c '{inside}'\nsrun -Q --overlap {container} --container-remap-root sh -c '{FILTER}'\n"
                  f"srun -Q --overlap --mem=0 {container} --container-writable --container-save=$HOME/s.sqsh sh -c 'echo up >/dev/shm/up; while cat /dev/shm/up 2>/dev/null; do sleep 0.2; done >/dev/null' &\n"
                  f"srun -Q --overlap --mem=0 sh -c 'until grep up /dev/shm/up 2>/dev/null; do sleep 0.1; done; {trace}; rm /dev/shm/up'\nwait\ntest -s s.sqsh && echo saved\n")
        assert [l for l in out.split("\n") if not l.startswith(("slurmstepd", "container:"))] == ["Seccomp: 2", two, "1", two, "up", "found", "saved", ""], out
        pool.as_user("researcher", "rm", "-f", "r.sqsh", "s.sqsh")
    # Where the profile is not there, no job of the account begins.
    pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"seccompProfile": {"type": "Localhost", "localhostProfile": "absent.json"}}}))
    wait_for("the nodes know it", lambda: list_of() == {"optics localhost/absent.json\nphysics localhost/absent.json\n"})
    no = pool.as_user("researcher", "srun", "-Q", "--mem=60M", "-A", "physics", "echo", "it runs", check=False)
    assert no.returncode and not no.stdout and "the job cannot have its project's filter of system calls (seccompProfile) on this node, and does not run without it: account physics: profile absent.json: " in no.stderr, no
    pool.as_user("researcher", "rm", "-f", "said", "moved", "beside.sh", "before.sh")
