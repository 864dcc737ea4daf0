"""Figures for who runs the pool: each GPU with its pod, job, person and tenant; how much the GPUs of a service and of a
tenant compute; how a pod ended that got its place at once."""
import json
import re
import urllib.request

import pytest

from harness import wait_for
from laptop import me, tenant  # noqa: F401 (a fixture)

pytestmark = pytest.mark.embedded  # uses of virtual devices, and the plane of `up` brings a gateway
NODE = "n1"


def series(pool, name, role=2):
    """{labels: value} of a metric; role: 0 bridge, 2 kubelet."""
    with urllib.request.urlopen(f"http://127.0.0.1:{pool.instance['metricsPort'] + role}/metrics", timeout=60) as r:
        return {tuple(sorted(re.findall(r'(\w+)="([^"]*)"', m[1]))): float(m[2]) for m in re.finditer(r"^%s{(.*)} (\S+)$" % name, r.read().decode(), re.M)}


def like(found, **labels):
    return [(dict(k), v) for k, v in found.items() if labels.items() <= dict(k).items()]


@pytest.fixture
def web(pool):
    """A service of one replica with two GPUs of n1, in a tenant; and a pod that fails."""
    pool.apply(tenant("figures", [{"user": "researcher", "role": "admin"}, {"user": "pods"}], namespaces=["figures"], account="figs"))
    wait_for("the tenant is there", lambda: any(n["name"] == "figures" for t in pool.items("tenants") for n in t.get("status", {}).get("namespaces", [])))
    spec = lambda gpus, command: {"schedulerName": "tandem", "terminationGracePeriodSeconds": 1, "nodeSelector": {"kubernetes.io/hostname": NODE},
                                  "containers": [{"name": "c", "image": "debian:13", "command": ["sh", "-c", command], "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}
    pool.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "figures"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec(2, "sleep 100000")}}})
    pod = wait_for("it runs", lambda: next((p for p in pool.items("pods", "-n", "figures") if p["metadata"]["name"].startswith("web-") and p["status"]["phase"] == "Running"), None))
    yield pod, spec
    pool.cmd("fault", NODE, "--clear")
    pool.kubectl("delete", "-n", "figures", "deployment", "web", "--ignore-not-found")
    pool.clean()
    pool.kubectl("delete", "tenant", "figures", "--wait=false", "--ignore-not-found")
    pool.kubectl("delete", "namespace", "figures", "--wait=false", "--ignore-not-found")
    wait_for("they are gone", lambda: not pool.items("tenants") and not any(n["metadata"]["name"] == "figures" for n in pool.items("namespaces")))


def beside_slurm():
    """An account that may what `tandem usage` needs in Slurm's namespace, and nothing with pods elsewhere."""
    meta, rbac = {"name": "figures-reader", "namespace": "slurm"}, "rbac.authorization.k8s.io"
    account = [{"kind": "ServiceAccount", "name": "figures-reader", "namespace": "slurm"}]
    own = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}, {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}]
    ours = [{"apiGroups": ["tandem.dev"], "resources": ["tenants", "slurmclusters"], "verbs": ["get", "list"]}]
    bound = lambda kind: {"apiVersion": f"{rbac}/v1", "subjects": account, "roleRef": {"apiGroup": rbac, "kind": kind, "name": "figures-reader"}}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}, {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": own},
            {"kind": "RoleBinding", "metadata": meta, **bound("Role")}, {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "figures-reader"}, "rules": ours},
            {"kind": "ClusterRoleBinding", "metadata": {"name": "figures-reader"}, **bound("ClusterRole")}]


@pytest.mark.feature("A14.6", "A14.9", "A14.10", "A19.5")
def test_who_holds_each_gpu_and_how_much_it_computes(pool, me, web, tmp_path):
    pod, spec = web
    name, job = pod["metadata"]["name"], pod["metadata"]["annotations"]["tandem.dev/job-id"]
    assert pod["metadata"]["annotations"]["tandem.dev/account"] == "figs"
    held = wait_for("the metrics name them", lambda: len(l := like(series(pool, "tandem_device_holder"), pod=f"figures/{name}")) == 2 and l)
    person = pod["metadata"]["annotations"].get("tandem.dev/user", "")
    assert {(k["job"], k["user"], k["tenant"]) for k, v in held} == {(job, person, "figures")}
    pool.cmd("fault", NODE, held[0][0]["device"], "use=75")

    # A native job beside it: its tenant is that of the account that it runs in.
    native = pool.sbatch("--uid=researcher", "--gid=researcher", "-A", "figs", "--gres=gpu:1", "-w", NODE)
    assert wait_for("the job is named", lambda: like(series(pool, "tandem_device_holder"), job=str(native)))[0][0]["tenant"] == "figures"
    wait_for("its idling is its tenant's", lambda: [v for k, v in like(series(pool, "tandem_device_time_seconds_total"), node=NODE, tenant="figures", state="idle") if v > 0])

    # The service: what it holds, and how much its GPUs compute.
    wait_for("its devices are counted", lambda: [v for k, v in like(series(pool, "tandem_pool_service_devices", 0), namespace="figures", kind="Deployment", service="web", device="gpu")] == [2])
    wait_for("its time is counted", lambda: [v for k, v in like(series(pool, "tandem_service_device_seconds_total"), service="web", state="busy") if v > 0])
    mine = lambda: next((s for s in json.loads(pool.cmd("status", "-o", "json", check=False).stdout).get("services", []) if s["name"] == "figures/Deployment/web"), {})
    seen = wait_for("status says it", lambda: (s := mine()).get("use", 0) > 0 and s)
    assert seen["gpus"] == 2 and 0 < seen["use"] < 0.75 and seen["gpuHours"] > 0
    assert re.search(r"^figures/Deployment/web +1 +2 +\d+ % ", pool.cmd("status", check=False).stdout, re.M)
    of = lambda: {r["service"]: r for r in json.loads(pool.cmd("usage", "--by", "service", "-o", "json").stdout)["usage"]}
    now = wait_for("usage knows its job", lambda: of().get("figures/Deployment/web"))
    assert now["jobs"] >= 1 and now["gpuHours"] > 0 and now["use"] > 0  # it runs, and that is said each time, however long Slurm takes

    # Who may not list the pods is told that the figures are without those that run.
    pool.apply(*beside_slurm())
    try:
        narrow = json.loads(pool.kubectl("config", "view", "--raw", "-o", "json"))
        narrow["users"][0]["user"] = {"token": pool.kubectl("create", "token", "figures-reader", "-n", "slurm").strip()}
        (tmp_path / "narrow.conf").write_text(json.dumps(narrow))
        r = pool.cmd("usage", "--by", "service", "-o", "json", "--kubeconfig", tmp_path / "narrow.conf")
        assert "without those that run" in r.stderr and "figures/Deployment/web" in {row["service"] for row in json.loads(r.stdout)["usage"]}
    finally:
        pool.kubectl("delete", "--ignore-not-found", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": beside_slurm()}))

    # People see it, too, each GPU with what runs there.
    gpus = {g["index"]: g for n in me.api("GET", "/pool")[1]["nodes"] if n["name"] == NODE for g in n["gpus"]}
    g = next(g for g in gpus.values() if g.get("pod") == f"figures/{name}")
    assert (g["job"], g["account"], g["service"], g.get("person", "")) == (int(job), "figs", "Deployment/web", person)
    top = me.run("top", "--gpus", "--once").stdout
    assert re.search(rf"^{NODE} +\d +{job} +\S+ +figs +figures/{name}$", top, re.M), top
    pool.shell("scancel", str(native))

    # A pod that got its place at once and fails: Slurm's history calls its end its own error.
    errors = lambda: sum(r["hours"]["ownError"] for r in json.loads(pool.cmd("usage", "--yield", "-o", "json").stdout)["yield"])
    before = errors()
    pool.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "figures"}, "spec": {**spec(1, "sleep 3; exit 3"), "restartPolicy": "Never"}})
    wait_for("its time is counted as lost", lambda: errors() > before)

    # When the replica has ended, the history says how much its GPUs idled.
    pool.kubectl("scale", "-n", "figures", "deployment", "web", "--replicas=0")
    wait_for("they have ended", lambda: not pool.squeue())
    idle = lambda: next((r["idleGpuHours"] for r in me.api("GET", "/usage?by=tenant")[1]["rows"] if r.get("tenant") == "figures"), 0)
    told = lambda: {r["tenant"]: r for r in json.loads(pool.cmd("usage", "-o", "json").stdout)["usage"]}["figures"]
    # The history has the end of one before that of the other, and each is asked for itself.
    cli = wait_for("its idle hours are its tenant's, for all who ask", lambda: idle() > 0 and (c := told()) and abs(c["idleGpuHours"] - idle()) < 0.01 and 0 < c["use"] < 0.75 and c)
    assert cli["idleGpuHours"] <= cli["gpuHours"]
    assert {r["tenant"]: r for r in json.loads(pool.cmd("usage", "--yield", "-o", "json").stdout)["yield"]}["figures"]["idleHours"] > 0
    assert max(map(len, pool.cmd("usage", "--yield").stdout.splitlines())) <= 80 and max(map(len, pool.cmd("usage", "--by", "service", "--gpu-price", "2").stdout.splitlines())) <= 80
