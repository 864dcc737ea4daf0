"""The embedded API against the fields of a real Kubernetes (t/openapi/fields.json, written by tools/openapi-fields): every field of every kind that
it serves is there with the same type, and is served (a test shows its effect), has no effect by its nature, or is refused by its name
(t/openapi/served.yaml says which). Nothing is ignored silently."""
import json
import pathlib
import re

import pytest
import yaml

from apidev import Server

pytestmark = pytest.mark.feature("F1.2")

HERE = pathlib.Path(__file__).resolve().parent
FIELDS = json.loads((HERE / "openapi/fields.json").read_text())
TABLE = yaml.safe_load((HERE / "openapi/served.yaml").read_text())
KINDS = {gvk.rsplit("/", 1)[-1]: (gvk.rpartition("/")[0], t) for gvk, t in FIELDS["kinds"].items()}
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")


@pytest.fixture(scope="module")
def server(tandem):
    s = Server(tandem)
    yield s
    s.close()


@pytest.fixture(scope="module")
def schemas(server):
    """{group/version/Kind: schema} of all that is served."""
    got = {}
    for path in server.call("GET", "/openapi/v3")[1]["paths"]:
        for s in server.call("GET", f"/openapi/v3/{path}")[1]["components"]["schemas"].values():
            for g in s.get("x-kubernetes-group-version-kind", []):
                got["/".join(filter(None, (g["group"], g["version"], g["kind"])))] = s
    return got


def test_the_table_is_about_every_kind_that_is_served(schemas):
    builtin = {k for k in schemas if not k.startswith("tandem.dev/")}
    assert builtin == set(FIELDS["kinds"]), "tools/openapi-fields has the list of kinds; run it against tools/kube-up"
    assert set(TABLE) == set(KINDS) | {"metadata", "template"}


# ---- the same fields of the same types, all with words ----

def type_of(s):
    if "allOf" in s:
        return {"Quantity": "quantity", "IntOrString": "int-or-string"}[s["allOf"][0]["$ref"].rsplit(".", 1)[-1]]
    if s.get("type") == "array":
        return "[]" + type_of(s["items"])
    if "additionalProperties" in s:
        return "{}" + type_of(s["additionalProperties"])
    return " ".join(filter(None, (s.get("type", "any"), s.get("format"))))


def compare(path, want, s, bad):
    while want[:2] in ("[]", "{}"):
        inner = s.get("items" if want[:2] == "[]" else "additionalProperties")
        if not inner:
            bad.append(f"{path}: is {type_of(s)}, in Kubernetes {want}")
            return
        path, want, s = path + want[:2], want[2:], inner
    if want not in FIELDS["types"]:
        if type_of(s) != want:
            bad.append(f"{path}: is {type_of(s)}, in Kubernetes {want}")
        return
    if s.get("x-kubernetes-preserve-unknown-fields"):
        return  # whole: how() below says that it is refused
    real, ours = FIELDS["types"][want], s.get("properties", {})
    bad += [f"{path}.{f}: is not there" for f in real if f not in ours] + [f"{path}.{f}: Kubernetes has no such field" for f in ours if f not in real]
    for f, t in real.items():
        if f in ours:
            if not ours[f].get("description"):
                bad.append(f"{path}.{f}: has no description")
            compare(f"{path}.{f}", t, ours[f], bad)


@pytest.mark.parametrize("kind", sorted(FIELDS["kinds"]))
def test_fields_and_types_are_those_of_kubernetes(schemas, kind):
    bad = []
    compare(kind.rsplit("/", 1)[-1], FIELDS["kinds"][kind], schemas[kind], bad)
    assert bad == []


# ---- every field is in the table ----

def fits(name, path):
    """Whether the table's name stands for this path or one above it."""
    pattern = re.escape(name).replace(r"\*", "[A-Za-z]*")
    return name == "" or re.match(pattern + r"(?=$|[.\[{])", path) is not None


def how(kind, path):
    """(table, entry) for a path of a kind: the longest name decides."""
    path = path.replace("initContainers[]", "containers[]")
    if kind in WORKLOADS and path.startswith("spec.template.spec."):
        kind, path = "Pod", path.removeprefix("spec.template.")
    elif kind in WORKLOADS and path.startswith("spec.template.metadata."):
        kind, path = "template", path.removeprefix("spec.template.metadata.")
    elif path.startswith("metadata."):
        kind, path = "metadata", path.removeprefix("metadata.")
    rows = TABLE.get(kind, {})
    found = [(len(name), t, name) for t in ("served", "none", "refused") for name in rows.get(t, {}) if fits(name, path)]
    return max(found)[1:] if found else None


def leaves(t, path=""):
    """Paths of all scalars below a type; a type within itself is entered once."""
    for mark in ("[]", "{}"):
        if t.startswith(mark):
            yield from leaves(t[2:], path + mark)
            return
    fields = FIELDS["types"].get(t)
    if not fields or path.count("openAPIV3Schema") and t.endswith("JSONSchemaProps") and not path.endswith("openAPIV3Schema"):
        yield path
        return
    for f, inner in fields.items():
        yield from leaves(inner, f"{path}.{f}" if path else f)


@pytest.mark.feature("F1.5")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_is_served_or_without_effect_or_refused(kind):
    paths = [p for p in leaves(KINDS[kind][1]) if p not in ("apiVersion", "kind")]
    assert paths
    assert [p for p in paths if not how(kind, p)] == []
    # And the other way round: the table names nothing that is not there.
    used = {how(kind, p) for p in paths}
    stale = [name for t in ("served", "none", "refused") for name in TABLE[kind].get(t, {}) if (t, name) not in used and not any(fits(name, p) for p in paths)]
    assert stale == []


@pytest.mark.parametrize("kind", sorted(TABLE))
def test_the_named_tests_are_there_and_speak_of_the_field(kind):
    for path, where in TABLE[kind].get("served", {}).items():
        file, _, test = where.partition("::")
        text = (HERE.parent / file).read_text()
        assert not test or f"\ndef {test}(" in text, f"{path}: {where}: there is no such test"
        assert path.rsplit(".", 1)[-1].removesuffix("[]") in text, f"{path}: {where} does not speak of it"


# ---- what is refused, is refused by its name ----

CONTAINER = {"name": "c", "image": "debian:13"}
BESIDE = {"ipBlock": {"cidr": "10.0.0.0/8"}, "ports[]": {"containerPort": 80, "port": 80}, "volumeMounts[]": {"name": "v", "mountPath": "/v"}, "httpGet": {"port": 1}, "volumes[]": {"name": "v"}, "requiredDuringSchedulingIgnoredDuringExecution[]": {"topologyKey": "kubernetes.io/hostname"}, "env[]": {"name": "E"}}


def body(kind):
    meta = {"metadata": {"name": "x"}}
    pod = {"containers": [CONTAINER], "volumes": [{"name": "v"}]}
    labels = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    crd = {"group": "a.io", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"},
           "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}
    return {"Pod": {**meta, "spec": pod}, "Job": {**meta, "spec": {"template": {"spec": {**pod, "restartPolicy": "Never"}}}},
            "StatefulSet": {**meta, "spec": {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": labels}},
            "PersistentVolumeClaim": {**meta, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}},
            "Service": {**meta, "spec": {"ports": [{"port": 80}]}}, "NetworkPolicy": {**meta, "spec": {"podSelector": {}}}, "Lease": {**meta, "spec": {}}, "ClusterRole": meta,
            "CustomResourceDefinition": {"metadata": {"name": "xs.a.io"}, "spec": crd}}[kind]


def build(path, value):
    """The nested value for a path."""
    head, _, rest = path.partition(".")
    key, is_list = head.removesuffix("[]"), head.endswith("[]")
    inner = value if not rest else {**BESIDE.get(head, {}), **build(rest, value)}
    return {key: [inner] if is_list else inner}


def merge(a, b):
    for k, v in b.items():
        if isinstance(v, dict) and isinstance(a.get(k), dict):
            merge(a[k], v)
        elif isinstance(v, list) and isinstance(a.get(k), list) and v and isinstance(v[0], dict) and a[k]:
            merge(a[k][0], v[0])
        else:
            a[k] = v
    return a


def post(server, kind, obj):
    gv = KINDS[kind][0]
    plural = {"CustomResourceDefinition": "customresourcedefinitions", "NetworkPolicy": "networkpolicies"}.get(kind, kind.lower() + "s")
    ns = "" if kind in ("CustomResourceDefinition", "ClusterRole") else "namespaces/default/"
    return server.call("POST", f"/{'apis' if '/' in gv else 'api'}/{gv}/{ns}{plural}?dryRun=All", obj)


def refused(server, kind, obj, field):
    code, r = post(server, kind, obj)
    assert code == 422, (field, code, r)
    hits = [c["message"] for c in r["details"]["causes"] if c["field"] == field]
    assert any(m.startswith("Forbidden:") and " is not served by " in m for m in hits), (field, r["message"])


REFUSED = [(k, p, v) for k, rows in TABLE.items() for t in ("refused", "values") for p, v in rows.get(t, {}).items()]


@pytest.mark.feature("F1.5")
@pytest.mark.parametrize("kind", sorted({k for k, _, _ in REFUSED}))
def test_what_is_not_served_is_refused_by_name(server, kind):
    assert post(server, kind, body(kind))[0] == 201, "without it the object is taken"
    for path, value in ((p, v) for k, p, v in REFUSED if k == kind):
        obj = merge(json.loads(json.dumps(body(kind))), build(path, value))
        field = path.replace("[]", "[0]")
        refused(server, kind, obj, field)
        if ".containers[]" in path and not path.endswith("[].restartPolicy"):  # init containers too
            spec = obj["spec"]
            spec["initContainers"] = [{**spec["containers"][0], "name": "i", **({"restartPolicy": "Always"} if "Probe" in path or "lifecycle" in path else {})}]
            spec["containers"] = [CONTAINER]
            refused(server, kind, obj, field.replace("containers", "initContainers"))
        if kind == "Pod":  # and in templates
            job = body("Job")
            job["spec"]["template"]["spec"] = {**obj["spec"], "restartPolicy": "Never"}
            refused(server, "Job", job, (field.replace("containers", "initContainers") if "initContainers" in obj["spec"] else field).replace("spec.", "spec.template.spec.", 1))


def test_unknown_fields_are_told(server):
    """As the real one: a warning, an error with fieldValidation=Strict."""
    obj = {"metadata": {"name": "x"}, "spec": {"containers": [{**CONTAINER, "bogus": 1}]}}
    assert post(server, "Pod", obj)[0] == 201 and server.headers["Warning"] == '299 - "unknown field \\"spec.containers[0].bogus\\""'
    code, r = server.call("POST", "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict", obj)
    assert code == 400 and 'strict decoding error: unknown field "spec.containers[0].bogus"' in r["message"]
