"""What tests of gangs share (docs/gangs.md)."""
from harness import wait_for

GANG, SIZE, LOSS, MIN = "tandem.dev/gang", "tandem.dev/gang-size", "tandem.dev/gang-on-loss", "tandem.dev/gang-min"
RANK, WORLD, HOSTS = "tandem.dev/gang-rank", "tandem.dev/gang-world", "tandem.dev/gang-hosts"


def pods(pool, gang):
    return {p["metadata"]["name"]: p for p in pool.items("pods", "-l", f"{GANG}={gang}")}


def notes(pod):
    return pod["metadata"].get("annotations", {})


def waits(pod):
    """What the pod says about why it waits."""
    return next((c["message"] for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def all_run(pool, gang, n):
    def whole():
        run = {k: p for k, p in pods(pool, gang).items() if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]}
        return len(run) == n and run
    return wait_for(f"all {n} of gang {gang} run", whole)


def jobs_of(pool, gang):
    return {i: j for i, j in pool.squeue().items() if j["name"].startswith(f"{gang}.")}


def crd(group, version, plural, kind):
    """A kind as its project serves it, as far as it matters here: any spec."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}}}]}}


def marked(pool, name, labels, notes=(), owner=None, gpus=1):
    """A pod as the controller of another project makes it."""
    p = pool.pod(name, gpus)
    p["metadata"].update(labels={"of": "others", **labels}, annotations=dict(notes))
    if owner:
        p["metadata"]["ownerReferences"] = [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}]
    return p


def ranks_of(pool, names):
    """The ranks of these pods, which all run and are of one job."""
    def all_of_them():
        found = {p["metadata"]["name"]: p for p in pool.running("-l", "of=others")}
        return all(n in found for n in names) and [found[n] for n in names]
    run = wait_for(f"{names} run", all_of_them)
    assert len({pool.grant(p)[0] for p in run}) == 1
    return [int(notes(p)[RANK]) for p in run]
