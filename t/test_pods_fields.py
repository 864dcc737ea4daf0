"""Every field of a pod's specification is served, has no effect by nature, or is refused by its name: a walk over the API's own schema."""
import json

from podplane import IMAGE, plane  # noqa: F401 (plane is a fixture)

C = "containers[]."
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
# Shown by the tests named; a field below one of these is served with it.
SERVED = {
    # test_pods.py
    "volumes[].name", "volumes[].configMap", "volumes[].secret", "volumes[].emptyDir", "volumes[].hostPath", "volumes[].downwardAPI", "volumes[].projected",
    C + "volumeMounts[]", C + "env", C + "envFrom", C + "command", C + "args", C + "workingDir", C + "name", C + "image",
    # test_pods_life.py
    *(C + p for p in PROBES), C + "lifecycle", C + "restartPolicy", C + "terminationMessagePath", C + "terminationMessagePolicy", "restartPolicy",
    "terminationGracePeriodSeconds", "activeDeadlineSeconds", "readinessGates",
    # test_pods_rights.py
    C + "securityContext", "securityContext", C + "resources.limits", C + "resources.requests", "hostNetwork", "hostname", "subdomain", "setHostnameAsFQDN", "dnsPolicy", "dnsConfig",
    # test_pods_streams.py
    C + "tty", C + "stdin", C + "stdinOnce",
    # placing: test_controllers.py, test_pool.py
    "nodeName", "nodeSelector", "affinity.nodeAffinity", "tolerations", "schedulerName", "schedulingGates", "priorityClassName", "priority", "preemptionPolicy",
    "serviceAccountName", "serviceAccount", "automountServiceAccountToken",
}
# They may say what they like here, and what they say is true: why.
NO_EFFECT = {
    "imagePullSecrets": "images are in the local store",
    C + "imagePullPolicy": "the local store is the registry: it is looked at on every start",
    "enableServiceLinks": "variables are made for Services with a cluster address; there are none",
    C + "ports[].name": "names for probes", C + "ports[].containerPort": "information", C + "ports[].protocol": "information",
    "securityContext.fsGroupChangePolicy": "ownership is set when a volume is made, nothing is changed later",
    "os": "Linux only",
    C + "resizePolicy": "resources of a running pod cannot be changed here (the API says so)",
}
# A value that is refused, and the field that the answer names. None: the value for the key itself.
true, obj = True, {}
probe = {"periodSeconds": 1}
REFUSED = {
    "ephemeralContainers": [{"name": "e", "image": IMAGE}], "hostPID": true, "hostIPC": true, "hostUsers": False, "shareProcessNamespace": true, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["x"]}],
    "hostnameOverride": "x", "runtimeClassName": "kata", "overhead": {"cpu": "1"}, "os.name": "windows", "resources": {"limits": {"cpu": "1"}}, "resourceClaims": [{"name": "x", "resourceClaimName": "x"}],
    "affinity.podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}, "affinity.podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]},
    "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
    "securityContext.sysctls": [{"name": "net.core.somaxconn", "value": "1"}], "securityContext.seLinuxOptions": {"type": "x"}, "securityContext.seLinuxChangePolicy": "Recursive",
    "securityContext.seccompProfile.type": "Localhost", "securityContext.appArmorProfile.type": "RuntimeDefault", "securityContext.windowsOptions": {"runAsUserName": "x"},
    C + "securityContext.procMount": "Unmasked", C + "securityContext.seLinuxOptions": {"type": "x"}, C + "securityContext.seccompProfile.type": "Localhost", C + "securityContext.appArmorProfile.type": "Localhost",
    C + "securityContext.windowsOptions": {"runAsUserName": "x"}, C + "ports[].hostIP": "1.2.3.4", C + "ports[].hostPort": 80, C + "resources.claims": [{"name": "x"}],
    C + "restartPolicyRules": [{"action": "Restart"}], C + "restartPolicy": "OnFailure", C + "volumeMounts[].recursiveReadOnly": "Enabled", C + "volumeMounts[].mountPropagation": "Bidirectional",
    C + "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}], C + "lifecycle.stopSignal": "SIGUSR1", C + "lifecycle.postStart.tcpSocket": {"port": 1}, C + "lifecycle.preStop.tcpSocket": {"port": 1},
    C + "lifecycle.preStop.httpGet.scheme": "HTTPS", C + "lifecycle.postStart.httpGet.scheme": "HTTPS",
    **{C + p + ".grpc": {"port": 1} for p in PROBES}, **{C + p + ".httpGet.scheme": "HTTPS" for p in PROBES},
    "volumes[].emptyDir.medium": "HugePages", "volumes[].projected.sources[].clusterTrustBundle": {"path": "x", "name": "x"}, "volumes[].persistentVolumeClaim": {"claimName": "x"}, "volumes[].nfs": {"server": "x", "path": "/"},
    **{f"volumes[].{v}": {} for v in ("ephemeral", "image", "csi", "iscsi", "cephfs", "rbd", "fc", "gitRepo", "glusterfs", "flexVolume", "awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "azureFile",
                                      "vsphereVolume", "portworxVolume")},
}
# What a field needs beside it to be reached by its own rule.
BESIDE = {"ports[]": {"containerPort": 80}, "volumeMounts[]": {"name": "v", "mountPath": "/v"}, "httpGet": {"port": 1}, "volumes[]": {"name": "v"}}


def leaves(schema, defs, path="", depth=0):
    """Paths of every field; stops at maps, scalars and what is served as a whole."""
    while "$ref" in schema or "allOf" in schema:
        schema = {**defs[(schema.get("$ref") or schema["allOf"][0]["$ref"]).rsplit("/", 1)[1]], **{k: v for k, v in schema.items() if k not in ("$ref", "allOf")}}
    if "items" in schema:
        yield from leaves(schema["items"], defs, path + "[]", depth + 1)
    elif schema.get("properties") and depth < 12:
        for k, v in schema["properties"].items():
            yield from leaves(v, defs, f"{path}.{k}" if path else k, depth + 1)
    else:
        yield path


def known(path):
    parts = path.replace("[]", "/[]").replace(".", "/").split("/")
    for n in range(len(parts), 0, -1):  # the longest name decides
        p = ".".join(parts[:n]).replace(".[]", "[]")
        for table in (REFUSED, NO_EFFECT, SERVED):
            if p in table or p.removesuffix("[]") in table:
                return p
    return None


def build(path, value):
    """The nested value for a path."""
    head, _, rest = path.partition(".")
    key, is_list = head.removesuffix("[]"), head.endswith("[]")
    inner = value if not rest else {**BESIDE.get(head, {}), **build(rest, value)}
    if is_list and not rest:
        return {key: [value]}
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


def schema(plane):
    doc = plane.call("GET", "/openapi/v3/api/v1")
    defs = doc["components"]["schemas"]
    pod = next(v for k, v in defs.items() if k.endswith("core.v1.Pod"))
    return pod["properties"]["spec"], defs


def test_every_field_is_in_one_of_the_tables(plane):
    spec, defs = schema(plane)
    paths = sorted(set(leaves(spec, defs)))
    assert len(paths) > 300, "the walk went wrong"
    norm = lambda p: p.replace("initContainers[].", C)
    unknown = [p for p in paths if not p.startswith("ephemeralContainers") and not known(norm(p))]
    assert unknown == []
    missing = [p for p in (*REFUSED, *NO_EFFECT, *SERVED) if p != "os.name" and not any(norm(q).startswith(p) for q in paths)]
    assert missing == [], "a table names what the schema has not"


def test_what_is_not_served_is_refused_by_name(plane):
    for path, value in REFUSED.items():
        spec = {"containers": [{"name": "c", "image": IMAGE, "command": ["true"]}], "volumes": [{"name": "v"}]}
        merge(spec, build(path, value))
        code, r = plane.api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", {"metadata": {"name": "x"}, "spec": spec})
        field = "spec." + path.replace("[]", "[0]")
        assert code == 422, (path, code, r)
        hits = [c for c in r["details"]["causes"] if c["field"] == field]
        assert hits, (path, r["message"])
        assert "not served by embedded nodes: " in hits[0]["message"], (path, hits)
        if path.startswith(C) and path != C + "restartPolicy":  # init containers too
            spec["initContainers"] = [{**spec["containers"][0], "name": "i", **({"restartPolicy": "Always"} if "Probe" in path or "lifecycle" in path else {})}]
            spec["containers"] = [{"name": "c", "image": IMAGE}]
            code, r = plane.api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", {"metadata": {"name": "x"}, "spec": spec})
            assert code == 422 and any(c["field"] == field.replace("containers", "initContainers") for c in r["details"]["causes"]), (path, r.get("message"))


def test_templates_are_refused_at_the_workload(plane):
    spec = {"hostPID": True, "containers": [{"name": "c", "image": IMAGE}]}
    body = {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}}
    code, r = plane.api.call("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    assert code == 422 and "spec.template.spec.hostPID" in r["message"], r
    r = plane.run("kubectl", "run", "x", "--image", IMAGE, "--overrides", json.dumps({"spec": {"hostIPC": True}}), check=False)
    assert r.returncode and "spec.hostIPC: Forbidden: is not served by embedded nodes" in r.stderr
