"""PersistentVolumeClaims of the embedded plane: directories of its shared tree (docs/storage.md)."""
import os

import pytest

from harness import wait_for
from podplane import plane  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def claim(name, **spec):
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}, **spec}}


def volume(name, **more):
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name, **more}}]


def test_a_claim_is_bound_at_once_and_outlives_its_pods(plane):
    made = plane.call("POST", CLAIMS, claim("data"))
    assert made["spec"]["storageClassName"] == "shared" and made["status"] == {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}}
    assert plane.kubectl("get", "pvc", "data", "--no-headers").split()[:4] == ["data", "Bound", "5Gi", "RWX"]
    mount = [{"name": "v", "mountPath": "/v"}]
    with plane.pod("echo one > /v/f; mkdir /v/sub", "w", volumes=volume("data"), volumeMounts=mount, nodeName="n0") as name:
        plane.output(name)
    # Another node, read-only, and a directory inside of it.
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/s", "subPath": "sub"}]
    with plane.pod("cat /v/f; touch /v/x /s/x 2>/dev/null || echo read-only", "r", volumes=volume("data", readOnly=True), volumeMounts=mounts, nodeName="n1") as name:
        assert plane.output(name) == "one\nread-only\n"
    # fsGroup: a new claim is writable for pods that are not root.
    plane.call("POST", CLAIMS, claim("team"))
    with plane.pod("touch /v/x && stat -c %g /v/x", "g", volumes=volume("team"), volumeMounts=mount, securityContext_pod={"runAsUser": 1234, "fsGroup": 4321}) as name:
        assert plane.output(name) == "4321\n"
    # What is in it stays when the claim goes, and is there again for the next one of its name.
    plane.kubectl("delete", "pvc", "data")
    assert open(f"{plane.home}/shared/claims/default/data/f").read() == "one\n"
    plane.call("POST", CLAIMS, claim("data"))
    with plane.pod("cat /v/f", "a", volumes=volume("data"), volumeMounts=mount) as name:
        assert plane.output(name) == "one\n"


def test_a_pod_waits_for_its_claim_and_says_so(plane):
    with plane.pod("echo here", "late", volumes=volume("later"), volumeMounts=[{"name": "v", "mountPath": "/v"}]) as name:
        wait_for("it says so", lambda: 'persistentvolumeclaim "later" not found' in plane.kubectl("describe", "pod", name))
        assert not os.path.exists(f"{plane.home}/shared/claims/default/later")
        plane.call("POST", CLAIMS, claim("later"))
        assert plane.output(name) == "here\n"


def test_claims_that_cannot_be_kept_are_refused_in_words(plane):
    def refused(words, **spec):
        code, r = plane.api.call("POST", CLAIMS, claim("no", **spec))
        assert code == 422 and words in r["message"], r
    refused("fast is not served by the embedded API", storageClassName="fast")
    refused("at least 1 access mode is required", accessModes=[])
    refused("spec.resources[storage]: Required value", resources={})
    plane.call("POST", CLAIMS, claim("fixed"))
    code, r = plane.api.call("PATCH", f"{CLAIMS}/fixed", {"spec": {"accessModes": ["ReadWriteOnce"]}}, "application/merge-patch+json")
    assert code == 422 and "immutable" in r["message"]
    code, r = plane.api.call("PATCH", f"{CLAIMS}/fixed", {"spec": {"resources": {"requests": {"storage": "9Gi"}}}}, "application/merge-patch+json")
    assert code == 200 and r["status"]["capacity"] == {"storage": "9Gi"}
