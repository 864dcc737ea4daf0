"""Storage in a Tenant's quota: what the claims of all its namespaces ask for together (rows C1)."""
import json
import subprocess

import pytest

from harness import wait_for
from laptop import Laptop, tenant

pytestmark = pytest.mark.planes  # ResourceQuotas on a cluster, its own admission on the embedded plane
Gi = 1 << 30


def claim(name, ns, size, cls=None):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **({"storageClassName": cls} if cls else {})}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": ns}, "spec": spec}


@pytest.fixture
def teams(pool):
    """physics with two namespaces and 10Gi, of which 4Gi of class fast; quarks below it with 3Gi."""
    pool.apply(tenant("physics", [{"user": "researcher", "role": "admin"}], namespaces=["physics", "physics-dev"],
                      quota={"storage": "10Gi", "persistentvolumeclaims": 6, "fast.storageclass.storage.k8s.io/requests.storage": "4Gi"}),
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


def make(pool, *objects):
    """What the API server says to these: "" is that it takes them."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    r = pool.run("kubectl", "create", "-f", "-", input=body, check=False)
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


@pytest.mark.embedded
@pytest.mark.feature("C1.2")
def test_claims_of_all_namespaces_of_a_tenant_stay_within_its_storage(pool, teams):
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
    # One that grows counts by what it grows; one that stays as it is, or is another's, by nothing.
    grow = lambda ns, name, size: pool.run("kubectl", "patch", "pvc", name, "-n", ns, "-p", json.dumps({"spec": {"resources": {"requests": {"storage": size}}}}), check=False)
    r = grow("physics-dev", "b", "4Gi")
    assert r.returncode and "exceeded quota: tandem-tenant-physics, requested: requests.storage=2Gi, used: requests.storage=9Gi" in r.stderr
    assert grow("physics-dev", "b", "3Gi").returncode == 0
    pool.kubectl("label", "pvc", "b", "-n", "physics-dev", "x=y")
    assert not make(pool, claim("z", "default", "900Gi"))
    pool.kubectl("delete", "pvc", "z", "-n", "default")
    # Shown as it is: 10Gi of 10Gi, of which 2Gi of 3Gi are the Tenant's below.
    wait_for("the operator has counted it", lambda: (used(pool, "physics"), used(pool, "quarks"), used(pool, "physics", "persistentvolumeclaims")) == (10 * Gi, 2 * Gi, 3), 40)
    shown = json.loads(pool.cmd("quota", "-o", "json").stdout)["tenants"]
    resources = {r["resource"]: r for t in shown if t["tenant"] == "physics" for r in t["resources"]}
    assert (resources["storage"]["quota"], resources["storage"]["used"], resources["persistentvolumeclaims"]["used"]) == (10 * Gi, 10 * Gi, 3)
    assert [l.split() for l in pool.cmd("quota", "quarks").stdout.splitlines() if "storage" in l] == [["storage", "3Gi", "3Gi", "2Gi"]]

    pool.kubectl("delete", "pvc", "a", "-n", "physics")
    assert not make(pool, claim("f", "physics", "4Gi", "fast"))
    assert "fast.storageclass.storage.k8s.io/requests.storage=1Gi" in make(pool, claim("g", "physics", "1Gi", "fast"))
    # Three more are allowed, however many come at once.
    many = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim(f"m{i}", "physics", "1Mi") for i in range(6)]})
    first = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim(f"n{i}", "physics-dev", "1Mi") for i in range(6)]})
    several = [subprocess.Popen(["kubectl", "create", "-f", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=pool.env, text=True) for _ in (0, 1)]
    errors = [p.communicate(body, timeout=60)[1] for p, body in zip(several, (many, first))]
    assert all("exceeded quota: tandem-tenant-physics, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=6, limited: persistentvolumeclaims=6" in e for e in errors)
    count = lambda: sum(len(pool.items("pvc", "-n", n)) for n in ("physics", "physics-dev", "quarks"))
    assert count() == 6
