"""What the roles show of themselves: metrics that are true, liveness, readiness; the dashboard and the alert rules."""
import json
import os
import pathlib
import re
import shutil
import signal
import time
import urllib.error
import urllib.request

import pytest

import hardware
import promql
from harness import wait_for

prometheus = pytest.importorskip("prometheus_client.parser", reason="python3-prometheus-client is not installed: tools/setup --for test")
ROOT = pathlib.Path(__file__).resolve().parent.parent
MONITORING = ROOT / "deploy/monitoring"
ROLES = ("bridge", "operator", "agent")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")
UNITS = ("_seconds", "_bytes", "_seconds_total", "_bytes_total", "_total", "_info")


def get(pool, role, path, timeout=60):
    """(status, content type, text)."""
    url = f"http://{pool.metrics_address(role)}{path}"
    try:
        with urllib.request.urlopen(url, timeout=timeout) as r:
            return r.status, r.headers["Content-Type"], r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers["Content-Type"], e.read().decode()


def families(pool, role):
    status, kind, text = get(pool, role, "/metrics")
    assert status == 200 and kind == "text/plain; version=0.0.4; charset=utf-8"
    return list(prometheus.text_string_to_metric_families(text))


class Scrape:
    def __init__(self, pool, role):
        self.samples = [s for f in families(pool, role) for s in f.samples]

    def __call__(self, name, **labels):
        """The sum of the samples with these labels; None: there is none."""
        v = [s.value for s in self.samples if s.name == name and all(s.labels.get(k) == x for k, x in labels.items())]
        return sum(v) if v else None

    def by(self, name, label, **labels):
        """{value of the label: sum}, without zeros."""
        out = {}
        for s in self.samples:
            if s.name == name and all(s.labels.get(k) == x for k, x in labels.items()) and s.value:
                out[s.labels[label]] = out.get(s.labels[label], 0) + s.value
        return out


def busy(pool):
    """Pods that run, a native job that runs, one that waits, a pod that waits behind it, one that never will run: no node has so many."""
    native = pool.sbatch("-N1", "--gres=gpu:3", "-J", "native")
    pool.apply(*[pool.pod(f"run{i}", gpus=2) for i in range(2)])
    wait_for("pods run", lambda: {"run0", "run1"} <= {p["metadata"]["name"] for p in pool.running()})
    waits = pool.sbatch(f"-N{len(pool.nodes)}", "--gres=gpu:8", "--exclusive", "-J", "waits")
    wait_for("native jobs run and wait", lambda: [pool.squeue()[j]["state"] for j in (native, waits)] == ["RUNNING", "PENDING"])
    node = pool.squeue()[native]["nodes"]
    pool.apply(pool.pod("later", gpus=8, nodeSelector={"kubernetes.io/hostname": node}), pool.pod("never", gpus=9))
    return native, waits


@pytest.mark.feature("A14.1")
@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_live_and_ready_and_its_metrics_parse(pool, role):
    assert get(pool, role, "/livez")[::2] == (200, "ok\n")
    wait_for("ready", lambda: get(pool, role, "/readyz")[::2] == (200, "ok\n"))
    assert get(pool, role, "/secrets")[0] == 404
    leads = None if role == "agent" else 1
    wait_for("it leads, if it is one that does", lambda: Scrape(pool, role)("tandem_leader") == leads)
    seen = {}
    for f in families(pool, role):
        assert f.name.startswith(("tandem_", "process_")), f.name
        assert f.documentation.endswith((".", "else 0.")) and len(f.documentation) >= 20, f"{f.name}: what is it?"
        assert f.type in ("counter", "gauge", "histogram"), f.name
        assert f.type != "counter" or all(s.name.endswith("_total") for s in f.samples), f.name
        if f.type == "histogram":
            assert f.name.endswith("_seconds"), f.name
            for labels in {tuple(sorted((k, v) for k, v in s.labels.items() if k != "le")) for s in f.samples}:
                b = [s.value for s in f.samples if s.name == f.name + "_bucket" and tuple(sorted((k, v) for k, v in s.labels.items() if k != "le")) == labels]
                count = [s.value for s in f.samples if s.name == f.name + "_count" and tuple(sorted(s.labels.items())) == labels]
                assert b == sorted(b) and [b[-1]] == count, f"buckets of {f.name}{labels}"
        for s in f.samples:
            key = s.name, tuple(sorted(s.labels.items()))
            assert key not in seen, f"{key} twice"
            seen[key] = s.value
            assert not any(UID.search(v) for v in s.labels.values()), f"{s}: a label for every object"
    now = Scrape(pool, role)
    assert now("tandem_build_info", role=role) == 1
    pid = pool.role_pid(pool.node_role if role == "agent" else role)
    rss = int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) * 1024
    assert abs(now("process_resident_memory_bytes") - rss) < 0.5 * rss
    assert 0 < now("process_open_fds") < now("process_max_fds")
    assert all(v == 1 for v in now.by("tandem_informer_synced", "resource").values())
    assert now("tandem_leader") == leads
    if role == "agent" and pool.plane == "real":  # one on each node
        assert all(get(pool, f"agent-{n}", "/readyz")[::2] == (200, "ok\n") for n in pool.nodes)


WRITES = ("create", "update", "patch", "delete", "apply")


@pytest.mark.feature("A5.8")
@pytest.mark.parametrize("role", ["operator", "bridge"])
def test_who_has_nothing_to_do_writes_nothing(pool, role):
    """Else it fights with a default of the API, once a second and for ever: on a real plane others come out than here."""
    pool.clean()

    def writes():
        out, leads = {}, False
        for s in Scrape(pool, role).samples:
            if s.name == "tandem_kube_requests_total" and s.labels["verb"] in WRITES:
                if s.labels["resource"] == "leases":
                    leads = True
                else:
                    out[s.labels["verb"], s.labels["resource"]] = out.get((s.labels["verb"], s.labels["resource"]), 0) + s.value
        assert leads, "it keeps its Lease: writes are counted"
        return out

    def rest():
        before = writes()
        time.sleep(3)
        said[:] = [(k, n - before.get(k, 0)) for k, n in writes().items() if n > before.get(k, 0)]
        return not said
    said = []
    wait_for("it leads", lambda: Scrape(pool, role)("tandem_leader") == 1)
    try:
        wait_for("three seconds without a write", rest, 60)
    except AssertionError as e:
        raise AssertionError(f"{e}: {said}") from None


@pytest.mark.nightly_real
@pytest.mark.feature("A14.1", "A14.2", "A14.3", "A14.7")
def test_the_pool_at_metrics_is_the_pool(pool):
    before = Scrape(pool, "bridge")
    native, _ = busy(pool)
    standin = re.compile(r"\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

    def true():
        m = Scrape(pool, "bridge")
        jobs = pool.squeue()
        words = {"RUNNING": "running", "PENDING": "pending", "COMPLETING": "ending"}
        want = {}
        for j in jobs.values():
            k = ("standin" if standin.search(j["name"]) else "native", words.get(j["state"], j["state"]))
            want[k] = want.get(k, 0) + 1
        pods = pool.items("pods")
        held = sum(len(pool.grant(p)[2]) for p in pods if pool.grant(p))
        mine = sum(len(v) for v in pool.job_devices(native).values())
        got = {
            "asks": m.by("tandem_bridge_asks", "state"),
            "jobs": {(k, s): n for k in ("standin", "native") for s, n in m.by("tandem_pool_jobs", "state", kind=k).items()},
            "devices": {s: m("tandem_pool_devices", device="gpu", state=s) for s in ("pod", "native", "idle", "unavailable")},
            "nodes": sum(m.by("tandem_pool_nodes", "state").values()),
            "idle nodes": m("tandem_pool_nodes", state="idle"),
        }
        real = {
            "asks": {"bound": 2, "queued": 1, "refused": 1},
            "jobs": want,
            "devices": {"pod": held, "native": mine, "idle": 8 * len(pool.nodes) - held - mine, "unavailable": 0},
            "nodes": len(pool.nodes),
            "idle nodes": pool.idle_nodes(),
        }
        true.last = got, real
        return got == real

    true.last = None
    try:
        wait_for("metrics say what kubectl and squeue say", true)
    except AssertionError:
        raise AssertionError("not the same:\n{}\n{}".format(*true.last)) from None
    assert true.last[1]["devices"]["pod"] == 4 and true.last[1]["devices"]["native"] == 3
    # Events are written by a thread of their own.
    bounds = lambda m: m("tandem_events_total", reason="Bound") or 0
    wait_for("events are written", lambda: bounds(Scrape(pool, "bridge")) - bounds(before) >= 2)
    after = Scrape(pool, "bridge")

    def grew(name, **labels):
        return (after(name, **labels) or 0) - (before(name, **labels) or 0)
    assert grew("tandem_bridge_bound_total") == 2
    assert grew("tandem_bridge_bind_duration_seconds_count") == 2
    assert grew("tandem_bridge_bind_duration_seconds_sum") > 0
    assert grew("tandem_kube_requests_total", verb="create", resource="pods/binding", code="201") == 2
    assert grew("tandem_slurm_requests_total", code="200") > 0
    assert grew("tandem_slurm_received_bytes_total") > 0 and grew("tandem_kube_received_bytes_total") > 0
    assert grew("tandem_events_total", reason="Bound") == 2
    assert sum(after.by("tandem_pool_cpus", "state").values()) == sum(int(c) for c in pool.shell("sinfo", "-h", "-N", "-o", "%c").split())


@pytest.mark.nightly_real
@pytest.mark.feature("A14.1", "A14.3")
def test_devices_of_a_drained_node_are_unavailable(pool):
    node = pool.nodes[-1]
    pool.shell("scontrol", "update", f"nodename={node}", "state=drain", "reason=a person's")
    wait_for("shown", lambda: (m := Scrape(pool, "bridge")).by("tandem_pool_devices", "state") == {"idle": 8.0 * (len(pool.nodes) - 1), "unavailable": 8.0}
             and m("tandem_pool_nodes", state="drained") == 1)
    wait_for("the operator says so too", lambda: Scrape(pool, "operator")("tandem_operator_nodeset_nodes", state="drained") == 1)
    pool.shell("scontrol", "update", f"nodename={node}", "state=undrain")


@pytest.mark.embedded  # counts pods and containers of the embedded kubelet
@pytest.mark.feature("A14.1", "A14.3")
def test_the_agent_and_the_operator_tell_the_truth(pool):
    pool.apply(pool.pod("one", gpus=1), pool.pod("beside", scheduler="default-scheduler", cpu="100m"))
    wait_for("both run", lambda: len(pool.running()) == 2)

    def same():
        pods = pool.items("pods", "-A")
        m, op = Scrape(pool, "agent"), Scrape(pool, "operator")
        ns = pool.get("nodeset", "pool", "-n", "slurm")["status"]
        return (m("tandem_agent_pods", state="running") == len(pods) and m("tandem_agent_nodes") == len(pool.nodes)
                and m("tandem_agent_containers", state="running") == sum("running" in s["state"] for p in pods for s in p["status"].get("containerStatuses", []))
                and op("tandem_operator_slurmcluster_ready", namespace="slurm", slurmcluster="main") == 1
                and op("tandem_operator_slurmclusters", phase="Running") == 1
                and all(op("tandem_operator_nodeset_nodes", nodeset="pool", state=k) == ns[k] for k in ("desired", "ready", "updated", "idle", "drained", "down")))
    wait_for("metrics of agent and operator are kubectl's numbers", same)


@pytest.mark.embedded  # the code is the same, and kubelets take their time
@pytest.mark.feature("A14.1")
def test_series_do_not_grow_with_pods(pool):
    def churn(word):
        pool.apply(*[pool.pod(f"{word}{i}", command=["true"], restartPolicy="Never") for i in range(6)])
        wait_for("all ended", lambda: [p["status"].get("phase") for p in pool.items("pods")].count("Succeeded") == 6)
        pool.kubectl("delete", "pods", "--all", "--wait=true")
        return {r: {(s.name, tuple(sorted(s.labels.items()))) for s in Scrape(pool, r).samples} for r in ROLES}
    first = churn("a")
    second = churn("b")
    for role in ROLES:
        new = {n for n in second[role] - first[role] if n[0] not in ("tandem_kube_requests_total", "tandem_reconcile_errors_total", "tandem_slurm_requests_total")}
        # A code that was not met before may come; a series for each pod would be six of something.
        assert len(new) < 25 and all(sum(n[0] == x[0] for n in new) < 20 for x in new), new
        assert not [n for n in second[role] if any(v.startswith(("a0", "b0", "default/")) for _, v in n[1])]


@pytest.mark.embedded  # stops the API server
@pytest.mark.feature("A12.2")
def test_liveness_is_ours_alone_and_a_role_that_stopped_does_not_answer(pool):
    """An API server that does not answer must not have everybody restarted; a process that is frozen must."""
    api = pool.role_pid("apiserver")
    os.kill(api, signal.SIGSTOP)
    try:
        for role in ROLES:
            assert get(pool, role, "/livez")[::2] == (200, "ok\n")
            assert get(pool, role, "/metrics")[0] == 200
    finally:
        os.kill(api, signal.SIGCONT)
    agent = pool.role_pid(pool.node_role)
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_for("it stands", lambda: {open(f"/proc/{agent}/task/{t}/stat").read().rpartition(")")[2].split()[0] for t in os.listdir(f"/proc/{agent}/task")} == {"T"})
        with pytest.raises(OSError):
            get(pool, "agent", "/livez", timeout=1)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert get(pool, "agent", "/livez")[0] == 200


# ---- the dashboard and the rules ----

def of_hardware():
    """{name: labels} of metrics that need hardware which is not here, as the table in README.md has them."""
    known = {n for f in (ROOT / "src/gate").glob("*.c") for n in re.findall(r'"(tandem_\w+)"', f.read_text())}
    table = {}
    for names, labels in re.findall(r"^\| (`tandem_(?:device|port|disk)_.*?) \| ([\w, ]*) \|", (MONITORING / "README.md").read_text(), re.M):
        words = re.findall(r"`([^`]+)`", names)
        for w in words:
            full = next(c for c in ([w] if w[0] != "…" else [words[0][:k] + w[1:] for k in range(len(words[0]), 0, -1)]) if c in known)
            table[full] = set(labels.split(", "))
    return table


def everything(pool):
    """{sample name: labels} of all roles, after all sorts of things happened."""
    service = pool.pod("served", gpus=1)
    service["metadata"].setdefault("labels", {})["ray.io/cluster"] = "served"
    pool.apply(service)
    busy(pool)
    wait_for("asks are told of", lambda: Scrape(pool, "bridge")("tandem_bridge_asks", state="refused") == 1)
    wait_for("a service's devices are counted", lambda: any(s.name == "tandem_service_device_seconds_total" for s in Scrape(pool, "agent").samples))
    known = {}
    for role in ROLES:
        for s in Scrape(pool, role).samples:
            known.setdefault(s.name, set()).update(s.labels)
    return of_hardware() | known


def check(expr, known):
    metrics, lists = promql.uses(expr.replace("$__rate_interval", "5m"))
    labels = {"job", "instance"}
    for name, selectors in metrics:
        assert name in known, f"{name} does not exist: {expr}"
        labels |= known[name]
        for label in selectors:
            assert label in known[name] | {"job", "instance"}, f"{name} has no label {label}: {expr}"
        if name.endswith("_total") or name.endswith("_bucket"):
            assert re.search(r"(rate|increase)\(" + name, expr), f"{name} is a counter: {expr}"
    assert lists <= labels, f"no metric has {lists - labels}: {expr}"
    if "histogram_quantile" in expr:
        assert "le" in lists, expr
    return labels


@pytest.mark.embedded  # looks at files
@pytest.mark.feature("A14.11")
def test_the_dashboard_shows_metrics_that_exist(pool):
    board = json.loads((MONITORING / "dashboard.json").read_text())
    known, shown, ids, places = everything(pool), set(), set(), set()
    for p in board["panels"]:
        assert p["id"] not in ids
        ids.add(p["id"])
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not cells & places and g["x"] + g["w"] <= 24, f"{p['title']} lies on another"
        places |= cells
        for t in p.get("targets", []):
            labels = check(t["expr"], known)
            assert set(re.findall(r"{{\s*(\w+)\s*}}", t["legendFormat"])) <= labels, t
            assert t["datasource"]["uid"] == "${datasource}"
            shown |= {n for n, _ in promql.uses(t["expr"].replace("$__rate_interval", "5m"))[0]}
    assert {v["name"] for v in board["templating"]["list"]} == {"datasource"}
    assert {"tandem_pool_devices", "tandem_pool_jobs", "tandem_leader", "tandem_bridge_bind_duration_seconds_bucket"} <= shown


@pytest.mark.embedded  # looks at files
@pytest.mark.feature("A14.12")
def test_the_alert_rules_name_metrics_that_exist(pool):
    yaml = pytest.importorskip("yaml")
    known, names = everything(pool), set()
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]:
        assert set(group) == {"name", "rules"}
        for r in group["rules"]:
            assert set(r) <= {"alert", "expr", "for", "labels", "annotations"}, r
            assert r["alert"] not in names and r["alert"].startswith("Tandem")
            names.add(r["alert"])
            assert r["labels"]["severity"] in ("page", "ticket")
            assert re.fullmatch(r"[0-9]+[mh]", r.get("for", "1m"))
            labels = check(r["expr"], known)
            for text in r["annotations"].values():
                assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels, text
    assert len(names) >= 15


@pytest.mark.embedded  # looks at files
@pytest.mark.feature("A14.12")
def test_the_rules_tests_are_about_all_alerts_and_about_what_is_served(pool):
    yaml = pytest.importorskip("yaml")
    alerts = {r["alert"] for g in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for r in g["rules"]}
    comes, stays_away, known = set(), set(), everything(pool)
    for test in yaml.safe_load((MONITORING / "alerts_test.yaml").read_text())["tests"]:
        for t in test["alert_rule_test"]:
            (comes if t.get("exp_alerts") else stays_away).add(t["alertname"])
        for series in test["input_series"]:
            name, labels = series["series"].partition("{")[::2]
            labels = set(re.findall(r'(\w+)="', labels)) - {"job", "instance"}
            assert (name, labels) == (name, known.get(name)) or 'job="other"' in series["series"], series
    assert comes == alerts == stays_away


@pytest.mark.embedded  # looks at files
@pytest.mark.feature("A14.1")
def test_the_readme_lists_every_metric(pool):
    text = (MONITORING / "README.md").read_text()

    def told():
        return "tandem.dev/nics" in pool.get("node", "n0")["metadata"].get("annotations", {})
    hardware.rails(pool, "n0")
    try:
        wait_for("a node tells of its adapters", told)
        known = everything(pool)
    finally:
        shutil.rmtree(f"{pool.home}/hardware")
    wait_for("it has none again", lambda: not told())
    # Those of the hardware: a family without a value is not served, and disks that speak, NVLink and the rest are not here (test_health has some).
    known = set(known) | set(re.findall(r'td_(?:gauge|counter)\(m, "(tandem_\w+)"', (ROOT / "src/gate/telemetry.c").read_text()))
    # And what a test of an idle node measures, which this pool has not (test_health has it), and GPUs that a real kubelet counts.
    known |= {name for f in ("probe", "podcpu") for name in re.findall(r'td_gauge\(\s*td_metrics_process\(\), "(tandem_\w+)"', (ROOT / f"src/gate/{f}.c").read_text())}
    listed = set()
    for row in re.findall(r"^\| (`tandem_.*?) \|", text, re.M):
        words = re.findall(r"`([^`]+)`", row)
        stem = words[0]
        for w in words:
            if w.startswith("…"):
                w = next(c for c in (stem[:k] + w[1:] for k in range(len(stem), 0, -1)) if c in known or c + "_count" in known or c == stem)
            listed.add(w)
    have = {re.sub(r"_(bucket|sum|count)$", "", n) if re.search(r"_seconds_(bucket|sum|count)$", n) else n for n in known if n.startswith("tandem_")}
    assert have - listed == set(), "not in deploy/monitoring/README.md"
    assert {w for w in listed if w.startswith("tandem_")} - have == set(), "in the README, but nobody serves it"
