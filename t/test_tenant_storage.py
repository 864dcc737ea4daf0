"""Storage in a Tenant's quota: what the claims of all its namespaces ask for together (rows C1)."""
import json
import subprocess

import pytest

from harness import wait_for
from laptop import me, tenant  # noqa: F401 (a fixture)

Gi = 1 << 30


def claim(name, ns, size, cls=None):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **({"storageClassName": cls} if cls else {})}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": ns}, "spec": spec}


@pytest.fixture
def teams(pool):
    """physics with two namespaces and 10Gi, of which 4Gi of class fast; quarks below it with 3Gi."""
    pool.apply(tenant("physics", [{"user": "researcher", "role": "admin"}], namespaces=["physics", "physics-dev"],
                      quota={"storage": "10Gi", "persistentvolumeclaims": 6 if pool.plane == "embedded" else 60, "fast.storageclass.storage.k8s.io/requests.storage": "4Gi"}),
               tenant("quarks", [{"user": "researcher"}], parent="physics", namespaces=["quarks"], quota={"storage": "3Gi"}))
    ready = lambda t: any(c["type"] == "Ready" and c["status"] == "True" for c in t.get("status", {}).get("conditions", []))
    wait_for("the tenants are there", lambda: sum(ready(t) for t in pool.items("tenants")) == 2, 60)
    yield
    spaces = ("physics", "physics-dev", "quarks")
    for ns in spaces:
        pool.kubectl("delete", "pvc", "--all", "-n", ns, "--wait=false", "--ignore-not-found")
    pool.kubectl("delete", "tenants", "quarks", "physics", "--wait=false", "--ignore-not-found")
    wait_for("they are gone", lambda: not pool.items("tenants"), 60)
    pool.kubectl("delete", "namespaces", *spaces, "--wait=false", "--ignore-not-found")


def make(pool, *objects, who=None):
    """What the API server says to these: "" is that it takes them."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    r = pool.run("kubectl", "create", "-f", "-", *(["--as", who] if who else []), input=body, check=False)
    return "" if r.returncode == 0 else r.stdout + r.stderr


def used(pool, name, resource="storage"):
    return next((s["used"] for s in pool.get("tenant", name).get("status", {}).get("storage", []) if s["resource"] == resource), None)


def quotas(pool):
    """{namespace: (what it says, what the API server enforces, what it counts)} of the ResourceQuotas, in Gi."""
    def gi(o, *path):
        for k in path:
            o = o.get(k, {})
        return (number(o["requests.storage"]) / Gi) if "requests.storage" in o else None
    return {q["metadata"]["namespace"]: (gi(q, "spec", "hard"), gi(q, "status", "hard"), gi(q, "status", "used"))
            for q in pool.items("resourcequotas", "-A", "-l", "tandem.dev/tenant")}


def number(text):
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1000, "M": 10 ** 6, "G": 10 ** 9}
    unit = next((u for u in units if text.endswith(u)), "")
    return int(text.removesuffix(unit)) * units.get(unit, 1)


@pytest.mark.embedded  # its own admission; ResourceQuotas below
@pytest.mark.feature("C1.2", "C8.1")
def test_claims_of_all_namespaces_of_a_tenant_stay_within_its_storage(pool, teams, me):
    """Kubernetes' own words refuse what goes beyond it, by one namespace or by several, by the Tenant below, by size,
    by number and by class, at creation and when a claim grows, and when many come at once."""
    wait_for("its namespaces say it", lambda: all("tandem.dev/storage-quota" in pool.get("namespace", n)["metadata"].get("annotations", {}) for n in ("physics", "physics-dev", "quarks")))
    assert not make(pool, claim("a", "physics", "5Gi"), claim("b", "physics-dev", "2Gi"))
    said = make(pool, claim("c", "physics-dev", "4Gi"))
    assert ('persistentvolumeclaims "c" is forbidden: exceeded quota: tandem-tenant-physics, requested: requests.storage=4Gi, '
            "used: requests.storage=7Gi, limited: requests.storage=10Gi") in said
    # The Tenant below has its own limit, and counts in the one above.
    assert not make(pool, claim("d", "quarks", "2Gi"))
    assert "exceeded quota: tandem-tenant-quarks, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi" in make(pool, claim("e", "quarks", "2Gi"))
    assert "exceeded quota: tandem-tenant-physics" in make(pool, claim("e", "physics", "2Gi"))
    # JSON has numbers that no int64_t has.
    assert 'quantity "10000000000000000000" is too large' in make(pool, claim("e", "physics", 10 ** 19))
    # One that grows counts by what it grows; one that stays as it is, or is another's, by nothing.
    grow = lambda ns, name, size: pool.run("kubectl", "patch", "pvc", name, "-n", ns, "-p", json.dumps({"spec": {"resources": {"requests": {"storage": size}}}}), check=False)
    r = grow("physics-dev", "b", "4Gi")
    assert r.returncode and "exceeded quota: tandem-tenant-physics, requested: requests.storage=2Gi, used: requests.storage=9Gi" in r.stderr
    assert grow("physics-dev", "b", "3Gi").returncode == 0
    pool.kubectl("label", "pvc", "b", "-n", "physics-dev", "x=y")
    assert not make(pool, claim("z", "default", "900Gi"))
    pool.kubectl("delete", "pvc", "z", "-n", "default")
    # A storage group is for whom it is granted to: what is there stays, and nothing is added.
    groups = lambda v: pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"storageGroups": v}}))
    try:
        groups([{"name": "common", "storageClasses": ["shared"]}])
        word = "shared.storageclass.storage.k8s.io/persistentvolumeclaims"
        denied = lambda ns: f'"{word}":0' in pool.get("namespace", ns)["metadata"]["annotations"]["tandem.dev/storage-quota"]
        wait_for("nobody has it", lambda: denied("physics") and denied("quarks"))
        assert f"exceeded quota: tandem-tenant-quarks, requested: {word}=1" in make(pool, claim("e", "quarks", "1Mi"))
        assert grow("quarks", "d", "2560Mi").returncode
        pool.kubectl("create", "rolebinding", "claims", "-n", "default", "--clusterrole=edit", "--user=researcher")
        # Nor does a namespace that is nobody's, but for a user to whom it is granted.
        assert "storageClassName: shared is of storage group common, and neither this namespace, which is no Tenant's, nor user researcher has it" in make(pool, claim("z", "default", "1Mi"), who="researcher")
        groups([{"name": "common", "storageClasses": ["shared"], "users": ["researcher"]}])
        assert not make(pool, claim("z", "default", "1Mi"), who="researcher")
        pool.kubectl("delete", "pvc", "z", "-n", "default")
        wait_for("it is said how much is claimed", lambda: "Storage common: 3 claims for 10Gi" in pool.cmd("status", check=False).stdout)
        pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"storageGroups": ["common"]}}))
        wait_for("physics has it, and the Tenant below", lambda: not denied("physics") and not denied("quarks"))
        assert "exceeded quota: tandem-tenant-physics, requested: requests.storage=1Mi" in make(pool, claim("e", "quarks", "1Mi")), "its quota is another thing"
    finally:
        groups(None)
        pool.kubectl("delete", "rolebinding", "claims", "-n", "default", "--ignore-not-found")
    # Shown as it is: 10Gi of 10Gi, of which 2Gi of 3Gi are the Tenant's below.
    wait_for("the operator has counted it", lambda: (used(pool, "physics"), used(pool, "quarks"), used(pool, "physics", "persistentvolumeclaims")) == (10 * Gi, 2 * Gi, 3), 40)
    shown = json.loads(pool.cmd("quota", "-o", "json").stdout)["tenants"]
    resources = {r["resource"]: r for t in shown if t["tenant"] == "physics" for r in t["resources"]}
    assert (resources["storage"]["quota"], resources["storage"]["used"], resources["persistentvolumeclaims"]["used"]) == (10 * Gi, 10 * Gi, 3)
    assert [l.split() for l in pool.cmd("quota", "quarks").stdout.splitlines() if "storage" in l] == [["storage", "3Gi", "3Gi", "2Gi"]]
    theirs = {r["resource"]: r for t in me.api("GET", "/tenants")[1]["tenants"] if t["name"] == "physics" for r in t["resources"]}
    assert (theirs["storage"]["quota"], theirs["storage"]["used"]) == (10 * Gi, 10 * Gi)
    # Who leads the team raises nothing: the words are on the namespace, which he does not write.
    for who in ("researcher",):
        r = pool.run("kubectl", "annotate", "namespace", "physics", "tandem.dev/storage-quota-", "--as", who, check=False)
        assert r.returncode and "forbidden" in r.stderr.lower()
        r = pool.run("kubectl", "patch", "tenant", "physics", "--type=merge", "-p", '{"spec":{"quota":{"storage":"1Pi"}}}', "--as", who, check=False)
        assert r.returncode and "forbidden" in r.stderr.lower()

    pool.kubectl("delete", "pvc", "a", "-n", "physics")
    # All claims are of one class there, which a quota can name; 5Gi of it are left.
    shared = "shared.storageclass.storage.k8s.io/requests.storage"
    pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"quota": {shared: "6Gi"}}}))
    wait_for("the namespaces say it", lambda: shared in pool.get("namespace", "quarks")["metadata"]["annotations"]["tandem.dev/storage-quota"])
    assert f"exceeded quota: tandem-tenant-physics, requested: {shared}=2Gi, used: {shared}=5Gi, limited: {shared}=6Gi" in make(pool, claim("g", "physics", "2Gi"))
    assert not make(pool, claim("f", "physics", "512Mi"))
    # Three more are allowed, however many come at once.
    many = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim(f"m{i}", "physics", "1Mi") for i in range(6)]})
    first = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim(f"n{i}", "physics-dev", "1Mi") for i in range(6)]})
    several = [subprocess.Popen(["kubectl", "create", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=pool.env, text=True) for _ in (0, 1)]
    errors = [p.communicate(body, timeout=600)[1] for p, body in zip(several, (many, first))]
    assert all("exceeded quota: tandem-tenant-physics, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=6, limited: persistentvolumeclaims=6" in e for e in errors)
    count = lambda: sum(len(pool.items("pvc", "-n", n)) for n in ("physics", "physics-dev", "quarks"))
    assert count() == 6

    # What has no storage has no limit of it, and says where that belongs.
    pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"perUser": {"quota": {"storage": "1Gi"}}}}))
    wait_for("it is refused there", lambda: any("spec.perUser.quota.storage: storage has a limit in spec.quota only" in c.get("message", "") for c in pool.get("tenant", "physics")["status"]["conditions"]))
    r = pool.cmd("project", "create", "muons", "--tenant", "physics", "--quota", "storage=1Gi", check=False)
    assert r.returncode == 1 and "a project has no namespaces, so no storage" in r.stderr


@pytest.mark.nightly
@pytest.mark.real  # the embedded plane has no ResourceQuotas
@pytest.mark.feature("C1.2")
def test_resource_quotas_of_all_namespaces_never_add_up_to_more(pool, teams):
    """What the API server enforces in all namespaces stays within the Tenant's quota at every look, moves to where claims
    are made, follows the quota, and goes with it."""
    def look():
        now = quotas(pool)
        for field in (0, 1):  # what is said, and what is enforced
            assert sum(q[field] or 0 for q in now.values()) <= 10
        assert (now.get("quarks", (0, 0, 0))[1] or 0) <= 3
        return now
    parts = wait_for("each namespace has its part", lambda: (q := look()) and len(q) == 3 and all((x[1] or 0) >= 3 for x in q.values()) and q)
    assert parts["physics"][1] == pytest.approx(10 / 3, 1e-6) and parts["quarks"][1] == 3
    said = make(pool, claim("big", "physics", "4Gi"))
    assert 'persistentvolumeclaims "big" is forbidden: exceeded quota: tandem-tenant-storage, requested: requests.storage=4Gi' in said
    # One that grows by pieces gets what the others leave.
    for i in range(7):
        wait_for(f"claim {i} is taken", lambda: look() and not make(pool, claim(f"c{i}", "physics", "1Gi")), 60)
    # Half a Gi stays out of reach, because each of the others keeps its part of the rest.
    wait_for("it is counted", lambda: look()["physics"][2] == 7)
    assert "exceeded quota" in make(pool, claim("more", "physics", "2Gi"))
    wait_for("the Tenant says so", lambda: used(pool, "physics") == 7 * Gi and used(pool, "physics", "persistentvolumeclaims") == 7)
    # A cluster's administrator makes it more, and then takes the limit away.
    pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"quota": {"storage": "40Gi"}}}))
    wait_for("there is room again", lambda: not make(pool, claim("more", "physics", "10Gi")), 60)
    pool.kubectl("patch", "tenant", "physics", "--type=merge", "-p", json.dumps({"spec": {"quota": None}}))
    wait_for("only the Tenant below has a limit", lambda: set(quotas(pool)) == {"quarks"} and quotas(pool)["quarks"][1] == 3, 60)
    assert not make(pool, claim("any", "physics-dev", "900Gi"))
    # Somebody's own change of it is taken back.
    pool.kubectl("patch", "resourcequota", "tandem-tenant-storage", "-n", "quarks", "--type=merge", "-p", json.dumps({"spec": {"hard": {"requests.storage": "1Ti", "pods": "1"}}}))
    wait_for("it is as it was", lambda: pool.get("resourcequota", "tandem-tenant-storage", "-n", "quarks")["spec"]["hard"] and
             {k: number(v) for k, v in pool.get("resourcequota", "tandem-tenant-storage", "-n", "quarks")["spec"]["hard"].items()} == {"requests.storage": 3 * Gi}, 60)
