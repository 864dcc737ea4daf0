"""deploy/kustomize/base/70-pool.yaml on a real Kubernetes: devices that Slurm gives out go to nobody else, whatever way a pod asks for them.
What is given out the test writes as the operator does; t/test_deploy.py shows that it does."""
import http.client
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile

import pytest
import yaml

from harness import IMAGES, wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "kube"))
import cluster  # noqa: E402
import image  # noqa: E402

pytestmark = pytest.mark.feature("A7.4")

POLICIES = ROOT / "deploy/manifests/tandem.yaml"
BRIDGE = "system:serviceaccount:tandem-system:tandem-bridge"
DRA = 34  # the minor from which on Kubernetes serves resource.k8s.io/v1; before, all but the tests of claims are run
OURS = "only the bridge of Tandem allocates them"


@pytest.fixture(scope="module")
def site():
    """One real node with a DRA driver, and the bridge's account with its rights."""
    r = subprocess.run([ROOT / "tools/kube-assets", "--check"], capture_output=True, text=True, timeout=60)
    if r.returncode:
        pytest.skip("real Kubernetes " + r.stderr.strip())
    home = pathlib.Path(tempfile.mkdtemp(prefix="tandem-kube-", dir="/var/tmp"))
    c = cluster.Cluster(home=home, assets=r.stdout.strip().splitlines()[-1], nodes=1)
    try:
        (home / "images").mkdir()
        image.archive(home / "images/debian.tar", "docker.io/library/debian:13", root=f"{IMAGES}/debian/13/rootfs", command=["/bin/bash"])
        c.up()
        if c.minor >= DRA:
            c.start_dra()
        apply(c, *[d for d in yaml.safe_load_all((ROOT / "deploy/manifests/tandem.yaml").read_text()) if d and d["kind"] in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")])
        if c.minor >= DRA:
            wait_for("devices are published", lambda: items(c, "resourceslices"), 60)
        else:
            pool_policies(c)
            apply(c, pools())
            wait_for("the policies are in force", lambda: "is given out by Slurm here" in may_create(c, pod("x", limits={"nvidia.com/gpu": 1})), 60)
        wait_for("the account of pods", lambda: c.kubectl("get", "serviceaccount", "default", check=False), 60)
        yield c
    finally:
        c.down(keep_images=False)
        shutil.rmtree(home, ignore_errors=True)


def apply(c, *objects, **kw):
    return c.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}), **kw)


def enforce(c, *names):
    """Installs these admission policies, and their bindings."""
    apply(c, *[d for d in yaml.safe_load_all(POLICIES.read_text()) if d and d["kind"].startswith("ValidatingAdmissionPolicy") and d["metadata"]["name"] in names])


def pool_policies(c):
    apply(c, *[d for d in yaml.safe_load_all(POLICIES.read_text()) if d and d["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "tandem-pool-devices"])


def tenant_namespaces(c, **annotations):
    """Makes namespaces of a Tenant, each with its annotations, in which pods can be made."""
    apply(c, *[{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns, "labels": {"tandem.dev/tenant": "t"}, "annotations": a}} for ns, a in annotations.items()])
    for ns in annotations:
        wait_for("the account of pods", lambda: c.kubectl("get", "serviceaccount", "default", "-n", ns, check=False), 60)


def items(c, *argv):
    return json.loads(c.kubectl("get", *argv, "-o", "json"))["items"]


def get(c, *argv):
    return json.loads(c.kubectl("get", *argv, "-o", "json"))


def pod(name, ns="default", limits=None, claim=None, **spec):
    container = {"name": "c", "image": "debian:13", "imagePullPolicy": "Never", "command": ["sleep", "1000"]}
    if limits:
        container["resources"] = {"limits": limits}
    if claim:
        container["resources"] = {"claims": [{"name": "d"}]}
        spec["resourceClaims"] = [{"name": "d", "resourceClaimName": claim}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns}, "spec": {"terminationGracePeriodSeconds": 1, **spec, "containers": [container]}}


def claim(name, ns="default", **exactly):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": ns},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}]}}}


def runs(c, name, ns="default"):
    wait_for(f"pod {name} runs", lambda: get(c, "pod", name, "-n", ns)["status"].get("phase") == "Running", 60)


def devices(c, name, ns="default"):
    return [r["device"] for r in get(c, "resourceclaim", name, "-n", ns).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])]


def refused(c, *argv, **kw):
    """What kubectl says; it must fail."""
    r = subprocess.run(["kubectl", "--kubeconfig", c.kubeconfig, *argv], capture_output=True, text=True, timeout=60, **kw)
    assert r.returncode, r.stdout
    return r.stderr


def may_create(c, p, *argv):
    r = subprocess.run(["kubectl", "--kubeconfig", c.kubeconfig, "create", "--dry-run=server", "-f", "-", *argv], input=json.dumps(p), capture_output=True, text=True, timeout=60)
    return r.stderr if r.returncode else ""


def as_bridge(c, path, patch):
    """As the bridge asks: a patch, and no look before it, for which kubectl wants another right."""
    tls = ssl.create_default_context(cafile=f"{c.dir}/pki/ca.crt")
    tls.check_hostname = False
    tls.load_cert_chain(f"{c.dir}/pki/admin.crt", f"{c.dir}/pki/admin.key")
    h = http.client.HTTPSConnection(c.api, 443, context=tls, timeout=30)
    h.request("PATCH", path, patch, {"Content-Type": "application/merge-patch+json", "Impersonate-User": BRIDGE})
    r = h.getresponse()
    r.read()
    h.close()
    return r.status


def allocation(c, name, which=-1):
    """A status that gives one device of node n0, as a patch."""
    slices = items(c, "resourceslices")[0]["spec"]
    result = {"request": "gpu", "driver": slices["driver"], "pool": slices["pool"]["name"], "device": slices["devices"][which]["name"]}
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]}
    return json.dumps({"status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": where}}})


def pools(**kw):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tandem-pools", "namespace": "tandem-system"},
            "data": {"drivers": "gpu.example.com other.example.com", "nodes": "n0 n7", "resources": "nvidia.com/gpu", "schedulers": "tandem", **kw}}


def test_without_it_kube_scheduler_gives_them_away(site):
    """What the policy is for; and what was given before it is given back under it."""
    site.from_minor(DRA, "resource.k8s.io/v1")
    apply(site, claim("before"), pod("before", claim="before"))
    runs(site, "before")
    assert len(devices(site, "before")) == 1
    assert may_create(site, pod("x", limits={"nvidia.com/gpu": 1})) == ""


def test_kube_scheduler_gives_no_device_of_the_pool(site):
    site.from_minor(DRA, "resource.k8s.io/v1")
    pool_policies(site)
    assert may_create(site, pod("x", limits={"nvidia.com/gpu": 1})) == ""  # before the first SlurmCluster
    apply(site, pools())
    apply(site, claim("probe"))
    patch = allocation(site, "probe")

    def in_force():
        r = subprocess.run(["kubectl", "--kubeconfig", site.kubeconfig, "patch", "resourceclaim", "probe", "--subresource=status", "--type=merge", "--dry-run=server", "-p", patch], capture_output=True, text=True, timeout=60)
        return OURS in r.stderr and "is given out by Slurm here" in may_create(site, pod("x", limits={"nvidia.com/gpu": 1}))
    wait_for("the policies are in force", in_force, 60)
    apply(site, claim("foreign"), pod("foreign", claim="foreign"))
    wait_for("the scheduler says why", lambda: [e for e in items(site, "events") if e["involvedObject"].get("name") == "foreign" and OURS in e.get("message", "")], 60)
    assert get(site, "pod", "foreign")["status"]["phase"] == "Pending" and devices(site, "foreign") == []
    # What was given away before goes back as always.
    assert len(devices(site, "before")) == 1 and get(site, "pod", "before")["status"]["phase"] == "Running"
    site.kubectl("delete", "pod", "before")
    wait_for("it is given back", lambda: devices(site, "before") == [], 60)
    site.kubectl("delete", "pod", "foreign")


def test_the_bridge_does_and_nobody_else(site):
    site.from_minor(DRA, "resource.k8s.io/v1")
    patch = ("patch", "resourceclaim", "probe", "--subresource=status", "--type=merge", "-p", allocation(site, "probe"))
    for who in ((), ("--as", "system:kube-scheduler"), ("--as", "admin", "--as-group", "system:masters"), ("--as", "system:serviceaccount:default:tandem-bridge")):
        said = refused(site, *patch, *who)
        assert OURS in said or "forbidden: User" in said, said
    assert as_bridge(site, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/probe/status", allocation(site, "probe")) == 200
    assert len(devices(site, "probe")) == 1
    # Nor does anybody else let a pod in on it: not kube-scheduler for one that names the same claim, not the controller for one that names its node.
    reserve = json.dumps({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}})
    assert "reserves a claim" in refused(site, "patch", "resourceclaim", "probe", "--subresource=status", "--type=merge", "-p", reserve)
    assert as_bridge(site, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/probe/status", reserve) == 200
    # What is not given out there, the controller takes back, as always.
    wait_for("the pod that does not exist is taken out", lambda: not get(site, "resourceclaim", "probe")["status"].get("reservedFor"), 60)


def test_a_named_claim_is_no_way_in(site):
    """The claim of a pod of the queue, named by pods of the default scheduler and by pods that name their node."""
    site.from_minor(DRA, "resource.k8s.io/v1")
    apply(site, claim("named"))
    assert as_bridge(site, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/named/status", allocation(site, "named", 0)) == 200
    said = may_create(site, pod("second", claim="named", nodeName="n0"))
    assert "spec.nodeName" in said and "passes it by" in said, said
    apply(site, pod("second", claim="named"))
    wait_for("the scheduler says why", lambda: [e for e in items(site, "events") if e["involvedObject"].get("name") == "second" and "reserves a claim" in e.get("message", "")], 60)
    assert not get(site, "pod", "second")["spec"].get("nodeName")
    site.kubectl("delete", "pod", "second")


def test_nodes_of_nobody_are_kube_schedulers(site):
    """The same driver may serve nodes that are not Slurm's."""
    site.from_minor(DRA, "resource.k8s.io/v1")
    apply(site, pools(nodes="n7"), claim("free"), pod("free", claim="free"))
    runs(site, "free")
    site.kubectl("delete", "pod", "free")
    wait_for("it is given back", lambda: devices(site, "free") == [], 60)
    apply(site, pools())


def test_slurmd_still_sees_them_all(site):
    """An adminAccess claim takes no device: kube-scheduler places slurmd's pods."""
    site.from_minor(DRA, "resource.k8s.io/v1")
    apply(site, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slurm", "labels": {"resource.kubernetes.io/admin-access": "true"}}})
    wait_for("its account", lambda: site.kubectl("get", "serviceaccount", "default", "-n", "slurm", check=False), 30)
    apply(site, claim("all", "slurm", allocationMode="All", adminAccess=True), pod("slurmd", "slurm", claim="all"))
    runs(site, "slurmd", "slurm")
    assert len(devices(site, "all", "slurm")) == 8


def test_extended_resources_of_the_pool_are_slurms(site):
    gpu = {"nvidia.com/gpu": 1}
    said = may_create(site, pod("x", limits=gpu))
    assert "spec.schedulerName: nvidia.com/gpu is given out by Slurm here: set it to tandem" in said, said
    assert "spec.schedulerName" in may_create(site, pod("x", limits=gpu, schedulerName="other"))
    init = pod("x", schedulerName="other", initContainers=[{"name": "i", "image": "debian:13", "resources": {"limits": gpu}}])
    assert "spec.schedulerName" in may_create(site, init)
    assert "spec.nodeName" in may_create(site, pod("x", limits=gpu, schedulerName="tandem", nodeName="n0"))
    assert may_create(site, pod("x", limits=gpu, schedulerName="tandem")) == ""
    assert may_create(site, pod("x", limits={"cpu": 1})) == "" and may_create(site, pod("x", nodeName="n0")) == "" and may_create(site, pod("x", limits={"example.com/other": 1})) == ""
    # What a job was made for stays as large as it is, whoever may resize pods.
    if site.minor >= 33:  # before, nothing can be resized
        larger = ["--subresource=resize", "--type=strategic", "-p", '{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "2"}}}]}}']
        apply(site, pod("ours", limits={"cpu": 1}, schedulerName="tandem"), pod("theirs", limits={"cpu": 1}, schedulerName="another"))
        assert "neither grows nor shrinks" in refused(site, "patch", "pod", "ours", *larger) and site.kubectl("patch", "pod", "theirs", *larger)
    # Pods of a Deployment are refused where people look.
    body = pod("web", limits=gpu)
    apply(site, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": body["spec"] | {"terminationGracePeriodSeconds": 1}}}})
    wait_for("its ReplicaSet says why", lambda: [e for e in items(site, "events") if e["reason"] == "FailedCreate" and "is given out by Slurm here" in e.get("message", "")], 60)


@pytest.mark.feature("C1.4")
def test_nobody_makes_pods_in_anothers_name(site):
    c = site
    enforce(c, "tandem-people")

    def made(user, p, *groups):
        return may_create(c, p, "--as", user, *[f"--as-group={g}" for g in ("system:masters", *groups)])

    def of(user):
        p = pod("whose")
        p["metadata"]["annotations"] = {"tandem.dev/user": user}
        return p
    job = lambda user: {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "whose", "namespace": "default"}, "spec": {"template": {
        "metadata": {"annotations": {"tandem.dev/user": user}, "labels": {"a": "b"}}, "spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}}
    cron = lambda user: {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "whose", "namespace": "default"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job(user)["spec"]}}}
    old = lambda user: {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "whose", "namespace": "default"}, "spec": {"replicas": 1, "selector": {"a": "b"}, "template": job(user)["spec"]["template"] | {"spec": pod("x")["spec"]}}}
    wait_for("it counts", lambda: "says whose pods these are: write bob" in made("bob", of("alice")), 60)
    for maker in (job, cron, old):  # Kubernetes' own controllers make the pods, with any name that the template has
        assert "says whose pods these are" in made("bob", maker("alice"))
        assert not made("alice", maker("alice"))
    assert not made("alice", of("alice")) and not made("bob", pod("whose"))
    apply(c, cron(""))
    assert "says whose pods these are" in refused(c, "patch", "cronjob", "whose", "--type=merge", "-p", json.dumps({"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"annotations": {"tandem.dev/user": "alice"}}}}}}}))
    c.kubectl("patch", "cronjob", "whose", "--type=merge", "-p", '{"spec":{"schedule":"1 0 1 1 *"}}')
    c.kubectl("delete", "cronjob", "whose")
    assert not made("system:serviceaccount:kube-system:job-controller", of("alice"), "system:serviceaccounts:kube-system")
    assert "says whose pods these are" in made("system:serviceaccount:default:sly", of("alice"), "system:serviceaccounts:default")
    assert not made("system:serviceaccount:kube-system:cronjob-controller", of("alice"), "system:serviceaccounts:kube-system")
    assert "says whose pods these are" in made("system:serviceaccount:kube-system:another", of("alice"), "system:serviceaccounts:kube-system")


@pytest.mark.feature("D3.9")
def test_a_tenants_filter_of_system_calls_cannot_be_lifted(site):
    c = site
    enforce(c, "tandem-filters")
    tenant_namespaces(c, filtered={"tandem.dev/seccomp": "localhost/quiet.json"})

    def of(profile, **own):
        p = pod("p", ns="filtered", **({"securityContext": {"seccompProfile": profile}} if profile else {}))
        p["spec"]["containers"][0]["securityContext"] = own
        return p
    right = {"type": "Localhost", "localhostProfile": "quiet.json"}
    wait_for("it counts", lambda: "have the filter of system calls localhost/quiet.json" in may_create(c, of(None)), 60)
    assert not may_create(c, of(right)) and not may_create(c, pod("p"))
    c.kubectl("apply", "-f", "-", input=json.dumps(of(right)))
    c.kubectl("annotate", "namespace", "filtered", "--overwrite", "tandem.dev/seccomp=localhost/new.json")  # a pod that was there before goes on
    wait_for("the new one counts", lambda: "localhost/new.json" in may_create(c, of(None)), 60)
    c.kubectl("label", "pod", "p", "-n", "filtered", "still=here")
    assert "leave seccompProfile and privileged out" in refused(c, "debug", "p", "-n", "filtered", "--image=debian:13", "--profile=sysadmin", "--", "true")
    c.kubectl("annotate", "namespace", "filtered", "--overwrite", "tandem.dev/seccomp=localhost/quiet.json")
    wait_for("the old one counts again", lambda: "localhost/quiet.json" in may_create(c, of(None)), 60)
    for p in (of({"type": "Unconfined"}), of({"type": "Localhost", "localhostProfile": "other.json"}), of(right, privileged=True), of(right, seccompProfile={"type": "Unconfined"})):
        assert "have the filter of system calls" in may_create(c, p)


@pytest.mark.feature("D8.2", "D8.3")
def test_a_tenants_pods_say_what_they_may_hold_of_a_disk(site):
    """Each container names a limit no higher than its Tenant's, and a volume in memory its size: the kubelet then holds them to it."""
    c = site
    enforce(c, "tandem-disk")
    tenant_namespaces(c, small={"tandem.dev/ephemeral-storage": "20Gi"}, large={})

    def of(limit, ns="small", **spec):
        return pod("p", ns=ns, limits=limit and {"ephemeral-storage": limit}, **spec)
    wait_for("it counts", lambda: "may hold 20Gi of its node's disk, as its Tenant says: write ephemeral-storage: 20Gi or less" in may_create(c, of(None)), 60)
    first = {"name": "i", "image": "debian:13"}
    for wrong in (of("21Gi"), of("1Ti"), of("1Gi", initContainers=[first])):
        assert "write ephemeral-storage: 20Gi or less" in may_create(c, wrong), wrong
    memory = lambda **more: [{"name": "shm", "emptyDir": {"medium": "Memory", **more}}]
    assert "write its sizeLimit" in may_create(c, of("1Gi", volumes=memory()))
    for right in (of("20Gi"), of("20480Mi"), of("0.5Gi", volumes=[*memory(sizeLimit="1Gi"), {"name": "d", "emptyDir": {}}]), of("1Gi", initContainers=[{**first, "resources": {"limits": {"ephemeral-storage": "1Gi"}}}]),
                  of(None, ns="large", volumes=memory()), pod("p")):
        assert not may_create(c, right), right


@pytest.mark.feature("C8.1")
def test_classes_of_storage_groups_are_claimed_by_whom_they_are_granted_to(site):
    """In a namespace of no Tenant: the operator labels the class and writes the users (src/operator/storageclasses.c)."""
    c = site
    enforce(c, "tandem-storage-groups")
    of = lambda cls, size="1Gi": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "free"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": cls, "resources": {"requests": {"storage": size}}}}
    cls = lambda name, **meta: {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, **meta}, "provisioner": "x.example/none", "allowVolumeExpansion": True}
    ours = cls("nvme", labels={"tandem.dev/storage-group": "yes"}, annotations={"tandem.dev/storage-users": "bob ann"})
    apply(c, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}, ours, cls("disk"),
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "all", "namespace": "free"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
           "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u} for u in ("ann", "eve", "an")]})

    def says(user, o, verb="create", *more):
        r = subprocess.run(["kubectl", "--kubeconfig", c.kubeconfig, verb, "-f", "-", "--as", user, *more], input=json.dumps(o), capture_output=True, text=True, timeout=60)
        return r.stderr if r.returncode else ""
    words = "nvme is of a storage group, and neither this namespace, which is no Tenant's, nor user eve has it"
    wait_for("it counts", lambda: words in says("eve", of("nvme"), "create", "--dry-run=server"), 60)
    assert "nor user an has it" in says("an", of("nvme")), "no part of a name"
    older = lambda cls: {**(o := of("disk")), "metadata": {**o["metadata"], "annotations": {"volume.beta.kubernetes.io/storage-class": cls}}}
    assert words in says("eve", older("nvme")), "the older annotation counts before the field"
    assert not says("eve", older("disk"), "create", "--dry-run=server")
    assert not says("eve", of("disk"), "create", "--dry-run=server")
    assert not says("ann", of("nvme"))
    c.kubectl("label", "pvc", "c", "-n", "free", "x=y", "--as", "eve")  # what is there stays
    c.kubectl("delete", "pvc", "c", "-n", "free", "--wait=false")
    assert not says("whoever", {**of("nvme"), "metadata": {"name": "d", "namespace": "free"}}, "create", "--dry-run=server", "--as-group", "system:masters"), "who may change SlurmClusters"
    c.kubectl("delete", "namespace", "free", "--wait=false")


@pytest.mark.feature("D8.1")
def test_a_tenants_user_namespaces_cannot_be_lifted(site):
    """What a pod has to say is in the refusal; and what Kubernetes itself says of namespaces of the node besides."""
    site.from_minor(33, "spec.hostUsers")  # every pod is refused before (docs/tenants.md)
    c = site
    enforce(c, "tandem-user-namespaces")
    tenant_namespaces(c, apart={"tandem.dev/user-namespaces": "required"}, together={})

    def of(ns="apart", **spec):
        p = pod("p", ns=ns)
        p["spec"].update(spec)
        return p
    wait_for("it counts", lambda: "as its Tenant says: write hostUsers: false" in may_create(c, of()), 60)
    assert "write hostUsers: false" in may_create(c, of(hostUsers=True))
    assert not may_create(c, of(hostUsers=False)) and not may_create(c, of("together")) and not may_create(c, pod("p"))
    for field, said in (("hostNetwork", "spec.hostNetwork"), ("hostPID", "spec.HostPID"), ("hostIPC", "spec.HostIPC")):
        assert f"{said}: Forbidden: when `hostUsers` is false" in (why := may_create(c, of("together", hostUsers=False, **{field: True}))), why


@pytest.mark.feature("C9.1", "C9.2")
def test_which_network_a_pod_is_in_says_the_bridge_alone(site):
    c = site
    enforce(c, "tandem-networks")
    apply(c, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shut", "labels": {"tandem.dev/tenant": "t"}, "annotations": {"tandem.dev/egress": "closed"}}},
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "network-members"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
           "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]})
    labelled, bob = pod("in"), ("--as", "bob")
    labelled["metadata"]["labels"] = {"tandem.dev/private-network": "x"}
    policy = lambda name, ns="default", **spec: {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": ns}, "spec": {"podSelector": {}, **spec}}
    out = {"policyTypes": ["Egress"], "egress": [{}]}
    wait_for("it counts", lambda: "only Tandem's bridge writes it" in may_create(c, labelled, *bob), 60)
    assert not may_create(c, pod("out"), *bob)
    for name in ("tandem-tenant", "tandem-private-x"):
        assert "are Tandem's own" in may_create(c, policy(name), *bob)
    assert not may_create(c, policy("mine", **out), *bob) and not may_create(c, policy("mine", "shut", policyTypes=["Ingress"]), *bob)
    assert "its Tenant says what pods of this namespace may reach" in may_create(c, policy("mine", "shut", **out), *bob)
    assert not may_create(c, policy("tandem-private-x"), "--as", BRIDGE) and "are Tandem's own" in may_create(c, policy("tandem-tenant"), "--as", BRIDGE)
    labelled["metadata"]["labels"] = {"tandem.dev/private-network": ""}
    assert "only Tandem's bridge writes it" in may_create(c, labelled, *bob)
    apply(c, policy("tandem-tenant-egress", "shut", **out), policy("his", "shut", policyTypes=["Ingress"]))  # an administrator of the cluster
    drop = lambda *argv: subprocess.run(["kubectl", "--kubeconfig", c.kubeconfig, "delete", "networkpolicy", "-n", "shut", "--wait=false", *argv], capture_output=True, text=True, timeout=60).stderr
    assert "are Tandem's own" in drop("tandem-tenant-egress", *bob) and "are Tandem's own" in drop("--all", *bob)
    assert not drop("tandem-tenant-egress", "--as", "system:serviceaccount:kube-system:namespace-controller")


@pytest.mark.feature("A13.3", "A13.4")
def test_pods_of_a_tenant_run_as_their_people_and_as_nobody_else(site):
    """spec.storage of a Tenant, as the operator writes it on its namespaces: what an API server without Tandem's own admission takes and refuses."""
    site.from_minor(33, "supplementalGroupsPolicy")  # every pod is refused before (docs/tenants.md)
    c, lines = site, "posix\n3000:3000:5000,5001:ann:/home/ann:ann\n3001:3001::bob:/home/bob:oidc:bob"
    enforce(c, "tandem-people", "tandem-identities", "tandem-entering")
    space = lambda name, people: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tandem.dev/tenant": name}, "annotations": {
        "tandem.dev/people": people, "tandem.dev/storage": "rw:claim:home:home:/home:\nrw:host:scratch:/mnt/scratch:/scratch:\nro:host:data:/mnt/data:/data:\nrw:claim:sets:fs:/sets:all/sets"}}}
    people = [{"kind": "User", "name": u, "apiGroup": "rbac.authorization.k8s.io"} for u in ("ann", "oidc:bob", "bob", "eve")]
    apply(c, space("posix", lines), space("alone", "posix\n3000:3000::ann:/home/ann:ann"), space("empty", ""),
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "posix-members"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
           "subjects": people}, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "posix-debug"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "posix-debug"}, "subjects": people},
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "posix-debug"}, "rules": [{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}]})  # more than edit has
    for ns in ("posix", "alone", "empty"):
        wait_for("the account of pods", lambda: c.kubectl("get", "serviceaccount", "default", "-n", ns, check=False), 60)

    def of(user, security=None, own=None, ns="posix", name="p", **spec):
        p = pod(name, ns=ns, securityContext={"supplementalGroupsPolicy": "Strict", **(security or {})}, **{"nodeSelector": {"no": "node"}, **spec})
        p["metadata"]["annotations"] = {"tandem.dev/user": user}
        p["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, **(own or {})}
        return p
    made = lambda user, p: may_create(c, p, "--as", user)
    ann, bob = {"runAsUser": 3000, "runAsGroup": 3000, "supplementalGroups": [5000]}, {"runAsUser": 3001, "runAsGroup": 3001}
    bobs = lambda **kw: of("oidc:bob", **{"security": bob, **kw})
    wait_for("they count", lambda: "pods of this namespace run as their people: write who makes it" in made("ann", pod("p", ns="posix")), 60)
    # The words say what to write.
    right = of("ann", {"runAsUser": 3000, "runAsGroup": 3000, "supplementalGroups": [5000, 5001]})
    assert "the pod runs as ann: write {runAsUser: 3000, runAsGroup: 3000, supplementalGroups: [5000,5001], supplementalGroupsPolicy: Strict} and no fsGroup" in made("ann", of("ann"))
    assert not made("ann", right) and not made("oidc:bob", bobs()) and not made("ann", of("ann", ann)) and not made("bob", pod("p"))
    # Another's numbers, root's, another's name, and groups that an image could name.
    for wrong in ({"runAsUser": 3000}, {"runAsUser": 0}, {"runAsGroup": 0}, {"runAsGroup": 5000}, {"supplementalGroups": [5000]}, {"supplementalGroups": [0]}, {"fsGroup": 5000}, {"supplementalGroupsPolicy": "Merge"}, {"supplementalGroupsPolicy": None}):
        assert "the pod runs as bob: write" in made("oidc:bob", bobs(security={**bob, **wrong})), wrong
    assert "says whose pods these are" in made("oidc:bob", of("ann", ann)) and "must be a member" in made("bob", of("bob", bob)) and "must be a member" in made("eve", of("eve", bob))
    assert "must be a member" in may_create(c, pod("p", ns="posix"))  # an administrator's is nobody's, too
    assert "must be a member" in made("ann", of("ann", ann, ns="empty"))  # what says nobody is not what says nothing
    for wrong in ({"runAsUser": 3000}, {"runAsGroup": 0}, {"allowPrivilegeEscalation": True}, {"allowPrivilegeEscalation": None}, {"capabilities": {"add": ["DAC_OVERRIDE"]}}):
        assert "securityContext of each container" in made("oidc:bob", bobs(own=wrong)), wrong
        first = {**pod("x")["spec"]["containers"][0], "name": "first", "securityContext": {"allowPrivilegeEscalation": False, **wrong}}
        assert "securityContext of each container" in made("oidc:bob", bobs(initContainers=[first])), wrong
    volumes = lambda path: [{"name": "v", "hostPath": {"path": path}}]
    for wrong in ({"hostPID": True}, {"hostIPC": True}, *({"volumes": volumes(p)} for p in ("/", "/mnt", "/mnt/scratch/x", "/mnt/data", "/home"))):
        assert "have of the nodes only these directories: [/mnt/scratch]" in made("oidc:bob", bobs(**wrong)), wrong
    for inline in ({"nfs": {"server": "10.0.0.1", "path": "/home/ann/open"}}, {"csi": {"driver": "nfs.csi.k8s.io"}}):
        assert "mount claims" in made("oidc:bob", bobs(volumes=[{"name": "v", **inline}])), inline
    claim = {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}, {"name": "fs", "persistentVolumeClaim": {"claimName": "fs"}}, {"name": "own", "emptyDir": {}}]}

    def part(volume, **of_it):
        p = bobs(**claim)
        p["spec"]["containers"][0]["volumeMounts"] = [{"name": volume, "mountPath": "/x", **of_it}]
        return made("oidc:bob", p)
    assert not part("home") and not part("own", subPath="a") and not part("fs", subPath="all/sets")
    for volume, of_it in (("home", {"subPath": "ann/open"}), ("home", {"subPathExpr": "ann/open"}), ("fs", {"subPath": "all/sets/x"}), ("fs", {"subPath": "all"}), ("fs", {"subPathExpr": "all/sets"})):
        assert "mount all of the claim" in part(volume, **of_it), (volume, of_it)
    assert not made("oidc:bob", bobs(volumes=[*volumes("/mnt/scratch"), {"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]))
    # Kubernetes' own controllers make what a person's template says; it is theirs whose template it is.
    may = ("--as-group=system:masters", "--as-group=system:serviceaccounts:kube-system")
    controller = lambda p: may_create(c, p, "--as", "system:serviceaccount:kube-system:job-controller", *may)
    assert not controller(right) and "the pod runs as ann" in controller(of("ann", bob)) and "must be a member" in controller(pod("p", ns="posix"))

    # What runs stays its person's: its image, containers that are added later, and commands in it.
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps(right))
    image = json.dumps({"spec": {"containers": [{"name": "c", "image": "other:1"}]}})
    assert "only he changes what runs in it" in refused(c, "patch", "pod", "p", "-n", "posix", "-p", image, "--as", "oidc:bob")
    c.kubectl("label", "pod", "p", "-n", "posix", "seen=yes", "--as", "oidc:bob")
    c.kubectl("patch", "pod", "p", "-n", "posix", "--dry-run=server", "-p", image, "--as", "ann")
    debug = ("debug", "p", "-n", "posix", "--image=debian:13", "--image-pull-policy=Never")
    assert "only he adds containers" in refused(c, *debug, "--profile=restricted", "--as", "oidc:bob", "--", "true")
    assert "only he adds containers" in refused(c, *debug, "--profile=sysadmin", "--as", "ann", "--", "true")
    c.kubectl(*debug, "--profile=restricted", "--as", "ann", "--", "true")
    for who in ("oidc:bob", "ann"):
        assert "only in a Tenant of one person it is allowed" in refused(c, "exec", "p", "-n", "posix", "--as", who, "--", "id")
    assert "only in a Tenant of one person it is allowed" in refused(c, "attach", "p", "-n", "posix", "--as", "oidc:bob")
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps(of("ann", {"runAsUser": 3000, "runAsGroup": 3000}, ns="alone")))
    enter = lambda who: refused(c, "exec", "p", "-n", "alone", "--as", who, "--", "id")
    assert "does not have a host assigned" in enter("ann")  # past the policy
    assert "only in a Tenant of one person it is allowed" in enter("eve")
    # A container runtime that would take an image's groups (containerd before 2.0) runs none of them.
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps(of("ann", ann, name="here", nodeSelector={})))
    status = lambda: get(c, "pod", "here", "-n", "posix")["status"]
    wait_for("its kubelet decides", lambda: status()["phase"] == "Running" or (status()["phase"], status().get("reason")) == ("Failed", "SupplementalGroupsPolicyNotSupported"), 60)


@pytest.mark.feature("A13.3", "A13.4")
def test_pods_of_a_tenant_get_their_persons_numbers_and_homes(site):
    """deploy/manifests/mutating.yaml: what the policies of the test before want, written by the API server, for what controllers make too; and what nobody gets by it."""
    site.from_minor(33, "supplementalGroupsPolicy")  # every pod is refused before (docs/tenants.md)
    c, masters = site, ("--as-group=system:masters",)
    enforce(c, "tandem-people", "tandem-people-jobsets", "tandem-identities")
    c.kubectl("apply", "-f", "-", input=c.served(ROOT / "deploy/manifests/mutating.yaml"))
    notes = {"tandem.dev/people": "posix\n3000:3000:5000,5001:ann:/home/ann:ann\n3001:3001::bob:/home/bob:oidc:bob", "tandem.dev/storage-claims": "fs home",
             "tandem.dev/storage": "rw:claim:home:home:/home:\nrw:host:scratch:/mnt/scratch:/scratch:\nro:claim:sets:fs:/sets:all/sets\nrw:claim:gone:gone:/gone:\nro:host:data:/mnt/data:/data:"}
    space = lambda name, labels=(), **more: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tandem.dev/tenant": name, **dict(labels)}, "annotations": {**notes, **more}}}
    people = [{"kind": "User", "name": u, "apiGroup": "rbac.authorization.k8s.io"} for u in ("ann", "oidc:bob", "eve")]
    jobset = {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"}, "versions": [
        {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}
    apply(c, space("filled"), space("shut", {"pod-security.kubernetes.io/enforce": "baseline"}, **{"tandem.dev/unnamed": "ann"}),
          {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "jobsets.jobset.x-k8s.io"}, "spec": jobset},
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "filled-members"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}, "subjects": people})
    for ns in ("filled", "shut"):
        wait_for("the account of pods", lambda: c.kubectl("get", "serviceaccount", "default", "-n", ns, check=False), 60)

    def dry(user, p, *groups, ns="filled"):
        p["metadata"]["namespace"] = ns
        return json.loads(c.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", "--as", user, *groups, input=json.dumps(p)))
    made = lambda user, p, *groups, ns="filled": may_create(c, p | {"metadata": p["metadata"] | {"namespace": ns}}, "--as", user, *groups)
    plain = lambda **spec: pod("p", "filled", **spec)
    wait_for("they count", lambda: not made("ann", plain()), 60)
    got = dry("ann", plain(initContainers=[{"name": "first", "image": "debian:13", "volumeMounts": [{"name": "own", "mountPath": "/home"}]}], volumes=[{"name": "own", "emptyDir": {}}]))
    assert got["metadata"]["annotations"]["tandem.dev/user"] == "ann"
    assert got["spec"]["securityContext"] == {"runAsUser": 3000, "runAsGroup": 3000, "runAsNonRoot": True, "supplementalGroups": [5000, 5001], "supplementalGroupsPolicy": "Strict"}
    mounts = lambda k: {m["mountPath"]: (m["name"], m.get("subPath"), m.get("readOnly", False)) for m in k["volumeMounts"] if not m["name"].startswith("kube-api")}
    main, first = got["spec"]["containers"][0], got["spec"]["initContainers"][0]
    rest = {"/scratch": ("storage-scratch", None, False), "/sets": ("storage-sets", "all/sets", True)}
    assert mounts(main) == rest | {"/home": ("storage-home", None, False)} and mounts(first) == rest | {"/home": ("own", None, False)}  # what it says itself stays
    for k in (main, first):
        assert k["securityContext"] == {"allowPrivilegeEscalation": False} and {"name": "HOME", "value": "/home/ann"} in k["env"] and {"name": "USER", "value": "ann"} in k["env"]
    sources = {v["name"]: v for v in got["spec"]["volumes"]}
    assert sources["storage-home"]["persistentVolumeClaim"]["claimName"] == "home" and sources["storage-scratch"]["hostPath"]["path"] == "/mnt/scratch" and not {"storage-gone", "storage-data"} & set(sources)
    assert dry("oidc:bob", plain())["spec"]["securityContext"]["runAsUser"] == 3001

    # What is wrong stays wrong, and is refused.
    named = lambda user, **spec: plain(**spec) | {"metadata": {"name": "p", "annotations": {"tandem.dev/user": user}}}
    assert "the pod runs as ann" in made("ann", plain(securityContext={"runAsUser": 3001})) and "the pod runs as bob" in made("oidc:bob", plain(securityContext={"runAsUser": 0}))
    assert "says whose pods these are" in made("oidc:bob", named("ann")) and "must be a member" in made("eve", plain())
    sly = ("--as-group=system:serviceaccounts:filled", *masters)
    assert "must be a member" in made("system:serviceaccount:filled:sly", plain(), *sly) and "says whose pods these are" in made("system:serviceaccount:filled:sly", named("ann"), *sly)

    # What a person's Job or CronJob makes is his.
    work = lambda **meta: {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "whose", "namespace": "filled"}, "spec": {"template": {"metadata": meta, "spec": {**pod("x", nodeSelector={"no": "node"})["spec"], "restartPolicy": "Never"}}}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "whose"}, "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": work()["spec"]}}}
    assert dry("oidc:bob", cron)["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["annotations"] == {"tandem.dev/user": "oidc:bob"}
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps(work(labels={"a": "b"}, annotations={"x": "y"})))
    theirs = wait_for("its pod is made", lambda: items(c, "pods", "-n", "filled"), 60)[0]
    assert theirs["metadata"]["annotations"]["tandem.dev/user"] == "ann" and theirs["metadata"]["annotations"]["x"] == "y" and theirs["spec"]["securityContext"]["runAsUser"] == 3000
    c.kubectl("delete", "job", "whose", "-n", "filled")
    # A template of nobody's: its pods are refused, and its Job says so.
    c.kubectl("create", "-f", "-", "--as", "eve", input=json.dumps(work()))
    wait_for("it says why", lambda: [e for e in items(c, "events", "-n", "filled") if e["reason"] == "FailedCreate" and "must be a member" in e.get("message", "")], 60)
    c.kubectl("delete", "job", "whose", "-n", "filled")

    # JobSet's controller is believed, because what people write into JobSets is looked at.
    controller = ("system:serviceaccount:jobset-system:jobset-controller-manager", "--as-group=system:serviceaccounts:jobset-system", *masters)
    sets = lambda user: {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": work(annotations={"tandem.dev/user": user})["spec"]}}]}}
    wait_for("JobSets are looked at", lambda: "says whose pods these are: write oidc:bob" in made("oidc:bob", sets("ann"), *masters), 60)
    assert not made("ann", sets("ann"), *masters) and not made(controller[0], work(annotations={"tandem.dev/user": "ann"}), *controller[1:])
    other = "system:serviceaccount:other:jobset-controller-manager"
    assert "says whose pods these are" in made(other, work(annotations={"tandem.dev/user": "ann"}), *masters) and "says whose pods these are" in made(controller[0], named("ann"), *controller[1:])

    # Where an administrator says whose unnamed pods are, another controller's are his; a person's are not. And no directories of nodes where Pod Security forbids them.
    got = dry(other, plain(), *masters, ns="shut")
    assert got["metadata"]["annotations"]["tandem.dev/user"] == "ann" and got["spec"]["securityContext"]["runAsUser"] == 3000 and "storage-scratch" not in {v["name"] for v in got["spec"]["volumes"]}
    # Not what the namespace's own accounts make, which anybody may use who makes pods there; nor another one's, once the administrator names who may.
    own = "system:serviceaccount:shut:default"
    assert "must be a member" in made(own, plain(), *masters, ns="shut") and "says whose pods these are" in made(own, named("ann"), *masters, ns="shut")
    c.kubectl("annotate", "namespace", "shut", "--overwrite", f"tandem.dev/unnamed=ann {own.removeprefix('system:serviceaccount:')}")
    wait_for("it is named", lambda: not made(own, plain(), *masters, ns="shut"), 60)
    assert "must be a member" in made(other, plain(), *masters, ns="shut")
    assert "must be a member" in made("eve", plain(), ns="shut") and "says whose pods these are" in made("eve", named("ann"), ns="shut")
    assert "forbidden: User" in refused(c, "annotate", "namespace", "shut", "--overwrite", "tandem.dev/unnamed=eve", "--as", "eve")


@pytest.mark.feature("A17.5")
def test_the_gate_at_the_entrance_is_put_on_and_taken_off_by_nobody_else(site):
    """Namespaces with the label tandem.dev/shadow-gate, with the policy that writes the gate and without it; t/test_deploy.py shows the bridge at it."""
    c = site
    enforce(c, "tandem-shadow-gate", "tandem-grants")
    c.kubectl("delete", "--ignore-not-found", "mutatingadmissionpolicybinding", "tandem-shadow-gate")
    apply(c, pools(shadows="n0 n7"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gated", "labels": {"tandem.dev/shadow-gate": "enabled"}}},
          {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "gated", "namespace": "gated"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
           "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}]})
    wait_for("the account of pods", lambda: c.kubectl("get", "serviceaccount", "default", "-n", "gated", check=False), 60)
    gate = [{"name": "tandem.dev/shadow"}]
    made = lambda p, user="ann", *groups: may_create(c, p, "--as", user, *groups)
    mine = lambda name="p", **spec: pod(name, "gated", **spec)
    # Where the API server writes nothing: the words say what to write.
    wait_for("it counts", lambda: "write schedulingGates: [{name: tandem.dev/shadow}], in the template of what makes them" in made(mine()), 60)
    assert not made(mine(schedulingGates=gate)) and not made(mine(schedulerName="tandem")) and not made(pod("p"), "admin", "--as-group=system:masters")
    assert "leave tandem.dev/shadow out" in made(mine(schedulingGates=gate, schedulerName="tandem"))
    # Past it: by the node's name, and by an owner that is none of its.
    assert "write nodeSelector: {kubernetes.io/hostname: n0} instead" in made(mine(nodeName="n0")) and not made(mine(nodeName="elsewhere"))
    daemon = mine()
    daemon["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}]
    assert "write schedulingGates" in made(daemon)

    c.kubectl("apply", "-f", "-", input=c.served(ROOT / "deploy/manifests/mutating.yaml"))
    dry = lambda p: json.loads(c.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", "--as", "ann", input=json.dumps(p)))["spec"].get("schedulingGates")
    wait_for("the gate is written", lambda: not made(mine()), 60)
    own = [{"name": "example.com/own"}]
    assert dry(daemon) == dry(mine(schedulingGates=gate)) == dry(mine(schedulerName="other")) == gate and dry(mine(schedulingGates=own)) == own + gate and not dry(mine(schedulerName="tandem"))
    meta, template = {"name": "web", "namespace": "gated"}, {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    shape = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": shape}))
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {**shape, "selector": {"matchLabels": {"a": "c"}}, "template": {**template, "metadata": {"labels": {"a": "c"}}}}}))
    wait_for("a node's own starts at once", lambda: (p := items(c, "pods", "-n", "gated", "-l", "a=b")) and p[0]["status"]["phase"] == "Running", 60)
    waits = wait_for("another waits", lambda: items(c, "pods", "-n", "gated", "-l", "a=c"), 60)[0]
    assert waits["spec"]["schedulingGates"] == gate and [(k["status"], k["reason"]) for k in waits["status"]["conditions"]] == [("False", "SchedulingGated")]

    # Nobody takes it off, an administrator neither; the bridge does, and says where it goes. Who may write the pod may narrow where it may go, and no more.
    name = waits["metadata"]["name"]
    off = ("patch", "pod", name, "-n", "gated", "--type=merge", "-p", '{"spec":{"schedulingGates":null}}')
    for who in (("--as", "ann"), ()):
        assert "only Tandem's bridge takes tandem.dev/shadow off" in refused(c, *off, *who)
        assert "are what Slurm granted" in refused(c, "annotate", "pod", name, "-n", "gated", "tandem.dev/shadow-node=n0", *who)
    assert "Forbidden" in refused(c, "create", "--raw", f"/api/v1/namespaces/gated/pods/{name}/binding", "-f", "-", "--as", "ann", input="{}")
    c.kubectl("label", "pod", name, "-n", "gated", "still=here", "--as", "ann")
    patch = json.dumps({"metadata": {"annotations": {"tandem.dev/shadow-node": "n0"}}, "spec": {"schedulingGates": [], "nodeSelector": {"kubernetes.io/hostname": "n0"}}})
    assert as_bridge(c, f"/api/v1/namespaces/gated/pods/{name}", patch) == 200
    wait_for("then its scheduler places it", lambda: get(c, "pod", name, "-n", "gated")["spec"].get("nodeName") == "n0", 60)

    # Without a bridge: the label goes, and then the gate can.
    c.kubectl("create", "-f", "-", "--as", "ann", input=json.dumps(mine("late")))
    assert "forbidden: User" in refused(c, "label", "namespace", "gated", "tandem.dev/shadow-gate-", "--as", "ann")
    c.kubectl("label", "namespace", "gated", "tandem.dev/shadow-gate-")
    wait_for("it can be taken off", lambda: subprocess.run(["kubectl", "--kubeconfig", c.kubeconfig, "patch", "pod", "late", "-n", "gated", "--type=merge", "-p", '{"spec":{"schedulingGates":null}}', "--as", "ann"], capture_output=True, timeout=60).returncode == 0, 60)
    runs(c, "late", "gated")
    c.kubectl("delete", "namespace", "gated", "--wait=false")
    apply(c, pools())


@pytest.mark.feature("A19.2", "A19.3")
def test_a_namespace_sends_pods_that_ask_for_devices_through_slurm(site):
    """deploy/examples/through-slurm.yaml: who makes the pods does not know of Slurm. What asks for nothing, or names a scheduler, is left alone."""
    site.kubectl("apply", "-f", "-", input=site.served(ROOT / "deploy/examples/through-slurm.yaml"))
    apply(site, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models", "labels": {"tandem.dev/scheduler": "tandem"}}})
    wait_for("the account of pods", lambda: site.kubectl("get", "serviceaccount", "default", "-n", "models", check=False), 60)
    asks = {"nvidia.com/gpu": "1"}
    other = {"example.com/disk": "1"}  # a device of the pool, asked for past Slurm, is refused
    first = [{"name": "first", "image": "debian:13", "imagePullPolicy": "Never", "command": ["true"], "resources": {"limits": asks}}]
    dry = lambda p: json.loads(site.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(p)))["spec"]["schedulerName"]  # noqa: E731
    wait_for("the policy counts", lambda: dry(pod("asks", "models", asks)) == "tandem", 60)
    assert site.minor < DRA or dry(pod("claims", "models", claim="any")) == "tandem"
    assert dry(pod("init", "models", initContainers=first)) == "tandem"
    assert dry(pod("plain", "models", {"cpu": "1"})) == dry(pod("elsewhere", "default", other)) == dry(pod("bound", "models", other, nodeName="n0")) == "default-scheduler"
    assert dry(pod("other", "models", other, schedulerName="mine")) == "mine"


@pytest.mark.feature("D5.4")
def test_the_operator_makes_and_ends_nodes_of_other_clusters_alone(site):
    """docs/other-cluster.md: its rights to Nodes, to how they are and to how pods are reach no node of this cluster, and nobody marks one for it."""
    c = site
    enforce(c, "tandem-other-clusters", "tandem-grants")
    operator = ("--as", "system:serviceaccount:tandem-system:tandem-operator", "--as-group", "system:masters")
    mark, label, lease = "tandem.dev/other-cluster-nodeset", {"tandem.dev/other-cluster": "east"}, "coordination.k8s.io/v1"

    def meta(kind, name, labels=None, notes=None, api="v1", **of_it):
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels or {}, "annotations": notes or {}, **of_it}}
    marked = meta("Node", "east-a", label, {mark: "slurm/east"})
    wait_for("it counts", lambda: "makes such Nodes, and no others" in may_create(c, meta("Node", "x"), *operator), 60)
    for wrong in (meta("Node", "x", label), meta("Node", "x", None, {mark: "slurm/east"})):
        assert "makes such Nodes, and no others" in may_create(c, wrong, *operator)
    assert "makes such Nodes, and no others" in may_create(c, marked) and not may_create(c, meta("Node", "x"))  # a kubelet makes itself
    assert not may_create(c, marked, *operator)
    c.kubectl("create", "-f", "-", *operator, input=json.dumps(marked))
    # The mark can be neither put on another nor taken off.
    for who in ((), operator):
        for node, note in (("n0", f"{mark}=slurm/east"), ("east-a", f"{mark}-")):
            assert "stay as Tandem's operator made them" in refused(c, "annotate", "node", node, note, *who)
        assert "stay as Tandem's operator made them" in refused(c, "label", "node", "east-a", "tandem.dev/other-cluster-", *who)
        c.kubectl("annotate", "node", "n0", "tandem.dev/slurm=x", "--overwrite", *who)
    ready = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    assert "says of no Nodes how they are" in refused(c, "patch", "node", "n0", *ready, *operator)
    c.kubectl("patch", "node", "east-a", *ready, *operator)
    assert "deletes no Nodes but those" in refused(c, "delete", "node", "n0", *operator)

    # Pods: of the NodeSet, granted, and on one of its Nodes.
    def bound(name, node="east-a", labels=label, job="7"):
        p = pod(name, nodeName=node)
        p["metadata"] |= {"labels": labels, "annotations": {"tandem.dev/job-id": job} if job else {}}
        c.kubectl("create", "-f", "-", "--as", BRIDGE, "--as-group", "system:masters", input=json.dumps(p))
        return "patch", "pod", name, *ready
    for name, wrong in (("local", {"node": "n0"}), ("bare", {"labels": {}}), ("none", {"job": None}), ("west", {"labels": {"tandem.dev/other-cluster": "west"}})):
        assert "says of no pods how they are" in refused(c, *bound(name, **wrong), *operator), name
    c.kubectl(*bound("right"), *operator)
    assert "leave it as it is, or delete the pod" in refused(c, "label", "pod", "right", "tandem.dev/other-cluster-")
    c.kubectl("label", "pod", "none", "tandem.dev/other-cluster-")
    # Leases are signs of life.
    own = meta("Lease", "east-a", label, api=lease, namespace="kube-node-lease")
    assert "writes no Leases of nodes" in may_create(c, meta("Lease", "x", api=lease, namespace="kube-node-lease"), *operator) and not may_create(c, own, *operator)
    wait_for("its kubelet is alive", lambda: c.kubectl("get", "lease", "n0", "-n", "kube-node-lease", check=False), 60)
    for patch in ('{"spec":{"leaseDurationSeconds":1000}}', '{"metadata":{"labels":{"tandem.dev/other-cluster":"east"}}}'):
        assert "writes no Leases of nodes" in refused(c, "patch", "lease", "n0", "-n", "kube-node-lease", "--type=merge", "-p", patch, *operator)
    c.kubectl("delete", "pods", "--force", "--grace-period=0", "local", "bare", "none", "west", "right")
    c.kubectl("delete", "node", "east-a", *operator)


@pytest.mark.feature("B2.3")
def test_a_record_says_who_made_it_and_nobody_writes_another(site):
    """docs/health.md: the maker of a NodeAction is its record's who. With the policy that writes it and without; a NodeHistory is the operator's alone, and so is who asked by a Node's annotation."""
    c = site
    operator = ("--as", "system:serviceaccount:tandem-system:tandem-operator", "--as-group", "system:masters")
    ann = ("--as", "ann", "--as-group", "system:masters")
    for kind in ("nodeactions", "nodeupgrades", "nodehistories"):
        c.kubectl("apply", "-f", ROOT / f"deploy/crds/{kind}.yaml")
        c.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", f"{kind}.tandem.dev")
    enforce(c, "tandem-records")
    c.kubectl("delete", "--ignore-not-found", "mutatingadmissionpolicybinding", "tandem-records", "tandem-requests")

    def act(name="a", by=None, kind="NodeAction", spec={"node": "n0", "action": "drain"}):
        return {"apiVersion": "tandem.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "annotations": {"tandem.dev/made-by": by} if by else {}}, **({"spec": spec} if spec else {})}
    upgrade = {"kind": "NodeUpgrade", "spec": {"nodes": ["n0"], "what": {"reboot": True}}}
    history = {"kind": "NodeHistory", "spec": None}
    wait_for("it counts", lambda: 'when it is made it may be "ann"' in may_create(c, act(by="bob"), *ann), 60)
    for kind in ({}, upgrade):
        assert 'may be "ann"' in may_create(c, act(by="bob", **kind), *ann)
        assert not may_create(c, act(by="ann", **kind), *ann) and not may_create(c, act(**kind), *ann) and not may_create(c, act(**kind), *operator)
    assert "nobody else" in may_create(c, act(**history), *ann) and not may_create(c, act(**history), *operator)
    # It stays, whoever changes the object.
    c.kubectl("create", "-f", "-", *ann, input=json.dumps(act(by="ann")))
    for note in ("tandem.dev/made-by=bob", "tandem.dev/made-by-"):
        assert "it does not change" in refused(c, "annotate", "nodeaction", "a", note, "--overwrite", "--as", "bob", "--as-group", "system:masters")
    c.kubectl("annotate", "nodeaction", "a", "still=here", "--as", "bob", "--as-group", "system:masters")
    c.kubectl("create", "-f", "-", *operator, input=json.dumps(act("n0", **history)))
    assert "nobody else" in refused(c, "delete", "nodehistory", "n0", *ann)
    # Who asks by the annotation may say nothing or his own name, and leaves no other's there.
    asks = lambda who, *notes: ("annotate", "node", "n0", "--overwrite", *notes, "--as", who, "--as-group", "system:masters")
    assert 'write "ann"' in refused(c, *asks("ann", "tandem.dev/action=test", "tandem.dev/action-by=bob"))
    c.kubectl(*asks("ann", "tandem.dev/action=test", "tandem.dev/action-by=ann"))
    assert 'write "bob"' in refused(c, *asks("bob", "tandem.dev/action=reboot")), "it would be ann's"
    c.kubectl(*asks("bob", "still=here"))
    # It may be called off, as it is, and neither the status nor what the operator moves it to is a way past.
    c.kubectl(*asks("bob", "tandem.dev/action-"))
    c.kubectl(*asks("bob", "tandem.dev/action-by-"))
    assert "nobody else writes it" in refused(c, *asks("bob", "tandem.dev/action-taken=0 test ann"))
    patch = lambda by: ("patch", "node", "n0", "--subresource=status", "--type=merge", "-p", json.dumps({"metadata": {"annotations": {"tandem.dev/action": "test", "tandem.dev/action-by": by}}}),
                        "--as", "bob", "--as-group", "system:masters")
    assert 'write "bob"' in refused(c, *patch("ann"))
    c.kubectl(*patch("bob"))
    c.kubectl(*asks("bob", "tandem.dev/action-", "tandem.dev/action-by-"))

    c.kubectl("apply", "-f", "-", input=c.served(ROOT / "deploy/manifests/mutating.yaml"))
    dry = lambda p: json.loads(c.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", *ann, input=json.dumps(p)))["metadata"].get("annotations", {})
    wait_for("it is written", lambda: dry(act("b")).get("tandem.dev/made-by") == "ann", 60)
    assert dry(act("b"))["tandem.dev/made-by"] == dry(act("b", by="bob", **upgrade))["tandem.dev/made-by"] == "ann"
    by = lambda: get(c, "node", "n0")["metadata"]["annotations"].get("tandem.dev/action-by")

    def asked():
        c.kubectl(*asks("bob", "tandem.dev/action-", "tandem.dev/action-by-"))
        c.kubectl(*asks("ann", "tandem.dev/action=test"))
        return by() == "ann"
    wait_for("who asks is written", asked, 60)
    c.kubectl(*asks("bob", "tandem.dev/action=reboot"))
    assert by() == "bob"
    c.kubectl(*asks("bob", "tandem.dev/action-", "tandem.dev/action-by-"))
    c.kubectl("delete", "nodeaction", "a")
