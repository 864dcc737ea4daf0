"""The words in which a sequence is written: requests as data, nothing here sends anything.

A topic is a list of steps. `{ns}` in paths and bodies is the topic's own namespace; `<<x>>` what an earlier step saved as x (on each plane its own value)."""
import dataclasses
import json

CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
NS = "/api/v1/namespaces/{ns}"
APPS_NS, BATCH_NS = f"{APPS}/namespaces/{{ns}}", f"{BATCH}/namespaces/{{ns}}"
POLICY_NS = "/apis/policy/v1/namespaces/{ns}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
JSON, MERGE, STRATEGIC, APPLY = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
                                 "application/apply-patch+yaml")


@dataclasses.dataclass
class Step:
    method: str
    path: str
    body: object = None
    label: str = ""
    type: str = "application/json"
    accept: str = "application/json"
    headers: dict = dataclasses.field(default_factory=dict)
    save: dict = dataclasses.field(default_factory=dict)  # name -> path in the answer ("metadata.uid")
    during: list = None  # watch: what is done while it is open
    events: int = 0      # watch: how many to read
    view: object = None  # what of the answer is compared: a function of the document
    raw: bool = False    # the body goes as it is
    wait: bool = False   # asked again until it is answered with 200

    def id(self):
        return self.label or f"{self.method} {self.path}"


def get(path, label="", **kw):
    return Step("GET", path, label=label, **kw)


def post(path, body=None, label="", **kw):
    return Step("POST", path, body, label=label, **kw)


def put(path, body=None, label="", **kw):
    return Step("PUT", path, body, label=label, **kw)


def patch(path, body=None, label="", type=MERGE, **kw):
    return Step("PATCH", path, body, label=label, type=type, **kw)


def delete(path, body=None, label="", **kw):
    return Step("DELETE", path, body, label=label, **kw)


def watch(path, events, *during, label="", **kw):
    sep = "&" if "?" in path else "?"
    return Step("GET", f"{path}{sep}watch=1&timeoutSeconds=20", label=label, during=list(during), events=events, **kw)


def apply(path, body, manager="m1", label="", query="", **kw):
    return Step("PATCH", f"{path}?fieldManager={manager}{query}", json.dumps(body), label=label, type=APPLY, raw=True, **kw)


def obj(api, kind, name, **fields):
    meta = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **fields}


def cm(name, data=None, **meta):
    return obj("v1", "ConfigMap", name, metadata=meta, **({"data": data} if data is not None else {}))


def merged(base, path, value):
    """A copy of base with the value at a path ("spec.containers.0.name"); value None: taken away."""
    copy = json.loads(json.dumps(base))
    at = copy
    keys = [int(k) if k.isdigit() else k.replace("~", ".") for k in path.split(".")]
    for k, nxt in zip(keys, keys[1:]):
        if isinstance(at, dict) and k not in at:
            at[k] = [] if isinstance(nxt, int) else {}
        if isinstance(at, list) and k == len(at):
            at.append([] if isinstance(nxt, int) else {})
        at = at[k]
    if value is None:
        del at[keys[-1]]
    elif isinstance(at, list) and keys[-1] == len(at):
        at.append(value)
    else:
        at[keys[-1]] = value
    return copy


def pod_spec(**fields):
    return {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}], **fields}


def pod(name="p", meta=None, **spec):
    return obj("v1", "Pod", name, metadata=meta or {}, spec=pod_spec(**spec))


def deployment(name="d", **spec):
    return obj("apps/v1", "Deployment", name, spec={"selector": {"matchLabels": {"a": "b"}},
                                                     "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()}, **spec})


def replicaset(name="r", **spec):
    return {**deployment(name, **spec), "kind": "ReplicaSet"}


def statefulset(name="s", **spec):
    return {**deployment(name, serviceName="x", **spec), "kind": "StatefulSet"}


def job(name="j", **spec):
    return obj("batch/v1", "Job", name, spec={"template": {"spec": pod_spec(restartPolicy="Never")}, **spec})


def service(name="v", **spec):
    return obj("v1", "Service", name, spec={"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}], **spec})


def crd(plural="things", group="par.example.com", kind="Thing", version=None, **spec):
    v = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}}, **(version or {})}
    return obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec={
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [v], **spec})
