"""Metadata rules, the same for every kind; names by kind."""
from steps import *

C = f"{NS}/configmaps"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-2222-3333-4444-555555555555"}


def m(label, **meta):
    return post(C, cm(meta.pop("name", "m"), **meta), label)


NAMES = ["Abc", "a_b", "-a", "a-", "a.b", "a..b", ".a", "a/b", "a%b", "a" * 254, "a" * 64, "1a", "a:b", ".", "..", "ä", "a b"]
KINDS = {
    f"{NS}/pods": lambda n: pod(n), f"{NS}/services": lambda n: service(n), f"{NS}/secrets": lambda n: obj("v1", "Secret", n), f"{NS}/serviceaccounts": lambda n: obj("v1", "ServiceAccount", n),
    f"{APPS_NS}/deployments": lambda n: deployment(n), f"{APPS_NS}/statefulsets": lambda n: statefulset(n), f"{BATCH_NS}/jobs": lambda n: job(n), LEASES: lambda n: obj("coordination.k8s.io/v1", "Lease", n),
    "/api/v1/namespaces": lambda n: obj("v1", "Namespace", n), "/api/v1/nodes": lambda n: obj("v1", "Node", n), "/apis/scheduling.k8s.io/v1/priorityclasses": lambda n: obj("scheduling.k8s.io/v1", "PriorityClass", n, value=1),
    f"{POLICY_NS}/poddisruptionbudgets": lambda n: obj("policy/v1", "PodDisruptionBudget", n, spec={"minAvailable": 1}),
    f"{NS}/events": lambda n: obj("v1", "Event", n, involvedObject={"namespace": "{ns}"}), f"{APPS_NS}/replicasets": lambda n: replicaset(n),
}
STEPS = [
    *[post(C, cm(n), f"name {n[:20]}") for n in NAMES],
    *[post(f"{p}?dryRun=All", f(n), f"{p.split('/')[-1]} named {n[:8]}") for p, f in KINDS.items() for n in ("A", "a.b", "a" * 64, "1a", "a:b", "-a")],
    m("labels", labels={"a": "b", "e.x/a": "", "A_b.c": "D-e"}, name="l1"), m("bad label keys", labels={"a b": "", "/a": "", "a/": "", "e..x/a": "", "k" * 64: "", "": ""}), m("bad label values", labels={"a": "b c", "b": "-x", "c": "v" * 64}),
    m("label prefix too long", labels={"p" * 254 + "/a": ""}), m("annotations", annotations={"a": "any thing ü", "B.x/c": ""}, name="an"), m("bad annotation keys", annotations={"a b": "", "": "x"}), m("large annotations", annotations={"a": "x" * 262145}),
    m("finalizers", finalizers=["e.x/a"], name="fin"), m("finalizer without a slash", finalizers=["nothing"], name="fin2"), m("bad finalizer", finalizers=["a b"]), m("finalizers of deletion", finalizers=["orphan", "foregroundDeletion"]), m("finalizer twice", finalizers=["e.x/a", "e.x/a"], name="fin3"),
    m("owner", ownerReferences=[OWNER], name="ow"), m("two owners", ownerReferences=[OWNER, {**OWNER, "name": "p", "uid": "2"}], name="ow2"), m("two controllers", ownerReferences=[{**OWNER, "controller": True}, {**OWNER, "uid": "2", "controller": True}]),
    *[m(f"owner without {k}", ownerReferences=[{**OWNER, k: ""}]) for k in OWNER], *[m(f"owner lacking {k}", ownerReferences=[{x: y for x, y in OWNER.items() if x != k}]) for k in OWNER],
    m("an Event owns", ownerReferences=[{**OWNER, "kind": "Event"}]), m("owner twice", ownerReferences=[OWNER, OWNER], name="ow3"), m("bad owner version", ownerReferences=[{**OWNER, "apiVersion": "a/b/c"}]),
    post(C, cm("o", clusterName="x"), "clusterName"), m("negative generation", generation=-1, name="ng"), m("a time that is none", name="u0", creationTimestamp="yesterday"), m("deletionTimestamp", name="u1", deletionTimestamp="yesterday"), m("selfLink", selfLink="/x", name="sl"),
    m("managedFields", managedFields=[], name="mf"), m("managedFields with an unknown operation", name="u2", managedFields=[{"operation": "x"}]), m("null metadata", labels=None, annotations=None, finalizers=None, ownerReferences=None, name="nul"),
    put(f"{C}/l1", cm("l1", labels={"a b": ""}), "replace with a bad label"), patch(f"{C}/l1", {"metadata": {"labels": {"ok": "1", "a": None}}}, "labels patched"), patch(f"{C}/l1", {"metadata": {"creationTimestamp": None}}, "creationTimestamp patched"),
    patch(f"{C}/l1", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}, "another creationTimestamp"), patch(f"{C}/l1", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}, "deletionTimestamp patched"), patch(f"{C}/l1", {"metadata": {"generation": 9}}, "generation patched"),
    patch(f"{C}/l1", {"metadata": {"generateName": "x"}}, "generateName patched"), patch(f"{C}/l1", {"metadata": {"selfLink": "x"}}, "selfLink patched"), patch(f"{C}/l1", {"metadata": {"deletionGracePeriodSeconds": 5}}, "grace patched"), put(f"{C}/l1", cm("l1", generateName="y", generation=5), "replace with generateName"),
    post(C, cm("x", {"a": "b"}, labels={"a": ["b"]}), "a list as label"), post(C, cm("x", annotations={"a": True}), "a boolean as annotation"), post(C, cm("x", finalizers="a"), "finalizers that are text"), post(C, cm("x", ownerReferences={}), "ownerReferences that are an object"),
]
