"""Several clusters behind one submit command (row C6): the shared pool is the hub and its member east, a pool of this file is west."""
import base64
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading
import urllib.request

import pytest

from apidev import free_port
from harness import wait_for
from laptop import Laptop, address, ask, statement
from wire import Wire

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway
KEYS = {m: f"{m}-0123456789abcdef0123456789abcdef" for m in ("east", "west")}


def trust(pool, member, entries):
    """The member lets the hub act for the researcher; both halves of the keys."""
    data = {k: base64.b64encode(v.encode()).decode() for k, v in entries.items()}
    pool.kubectl("patch", "secret", "main-gateway", "-n", "slurm", "--type=merge", "-p", json.dumps({"data": data}))
    hubs = [{"name": "campus", "as": member, "users": ["researcher"], "sessions": True, "limits": True}]
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"federation": {"hubs": hubs}}}))


@pytest.fixture(scope="module")
def wire(own_pool):
    w = Wire(address(own_pool))
    yield w
    w.close()


def is_hub(me):
    """By what the gateway says of a run that nobody could have."""
    body = {"request": "0123456789abcdef", "cluster": "moon", "job": {"name": "x", "steps": [{"name": "main", "entrypoint": ["true"]}]}}
    said = me.api("POST", "/runs", body)[1]["error"]["message"]
    return "no federation" not in said and "is being deleted" not in said


def settled(pool):
    return not pool.items("federatedruns", "-n", "slurm", "-l", "tandem.dev/federated-live=true")


@pytest.fixture(scope="module")
def campus(shared_pool, own_pool, wire, tmp_path_factory):
    """The researcher at the hub of a federation, and at its member west."""
    me, west = (Laptop(p, tmp_path_factory.mktemp("laptop"), "researcher") for p in (shared_pool, own_pool))
    trust(shared_pool, "east", {"hub.campus": KEYS["east"], "member.east": KEYS["east"], "member.west": KEYS["west"]})
    trust(own_pool, "west", {"hub.campus": KEYS["west"]})
    shared_pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Federation", "metadata": {"name": "campus"}, "spec": {
        "hub": {"namespace": "slurm", "name": "main"}, "lostAfterSeconds": 600,
        "members": [{"name": "east", "gatewayURL": f"http://{address(shared_pool)}"}, {"name": "west", "gatewayURL": f"http://{wire.address}"}],
        "teams": [{"name": "lab", "users": ["researcher"]}],
        "routes": [{"name": "gpus", "minGPUs": 1, "members": ["east"]}, {"name": "rest", "members": ["west"], "otherwise": ["east"]}],
        "limits": [{"team": "lab", "gpus": 1}]}})
    wait_for("the gateway is the hub", lambda: is_hub(me))
    try:
        yield me, west
    finally:
        wire.mend()
        for r in me.json("ps", "--all")["runs"]:
            if r.get("federation", {}).get("phase") in ("Waiting", "Placed", "Started"):
                me.api("POST", f"/runs/{r['id']}/cancel")
        wait_for("nothing of its runs is left to do", lambda: settled(shared_pool))
        shared_pool.kubectl("delete", "federation/campus")
        shared_pool.kubectl("delete", "federatedruns", "-n", "slurm", "--all", "--wait=false")
        shared_pool.kubectl("delete", "configmap", "main-federation", "-n", "slurm", "--ignore-not-found")
        shared_pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", '{"spec": {"federation": null}}')
        wait_for("the gateway is the hub of none", lambda: not is_hub(me))


@pytest.fixture
def hub(pool, campus):
    return campus[0]


def run_of(me, run):
    return me.api("GET", f"/runs/{run}")[1]


def home_of(pool, run):
    return pathlib.Path(pool.home, "shared/home/researcher/tandem/runs", run)


def let_sessions(pool, let):
    hub = {"name": "campus", "as": "west", "users": ["researcher"], "sessions": let, "limits": True}
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps({"spec": {"federation": {"hubs": [hub]}}}))


@pytest.mark.feature("C6.1", "C6.2", "C6.3")
def test_one_command_for_all(pool, own_pool, hub, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "word").write_text("shipped")
    # What needs no GPU goes west by its rule, with its code; logs, why, ps and files are there without another word.
    said = hub.run("submit", "--dir", code, "--follow", "--name", "front", "--", "cat word; echo made > made").stdout
    shown = said.split("Run ")[1].split(":")[0]
    run = shown.removeprefix("west/")
    assert shown.startswith("west/front-") and "shipped" in said
    assert home_of(own_pool, run).joinpath("made").exists() and not home_of(pool, run).exists()
    assert shown in hub.run("ps").stdout and "shipped" in hub.run("logs", shown).stdout
    why = hub.run("why", f"run/{shown}").stdout
    assert "cluster west of federation campus: rule rest names west, otherwise east" in why
    hub.run("download", f"tandem/runs/{run}/made", "got")
    (pathlib.Path(hub.home) / "note").write_text("to it")
    hub.run("upload", "note", f"tandem/runs/{run}/note")
    assert (pathlib.Path(hub.home) / "got").read_text() == "made\n" and home_of(own_pool, run).joinpath("note").read_text() == "to it"

    # Who insists gets what the rules allow; a run is cancelled where it is.
    bad = hub.run("submit", "--no-code", "--gpus", "1", "--cluster", "west", "--", "true", check=False)
    assert bad.returncode == 1 and "rule gpus sends such runs to east" in bad.stderr
    first = hub.json("submit", "--no-code", "--gpus", "1", "--name", "held", "--", "sleep 600")
    at = wait_for("it runs there", lambda: (f := run_of(hub, first["id"])["federation"])["phase"] == "Started" and f)
    assert at["member"] == "east" and at["rule"] == "gpus"
    # The other member is told what is left to the team there, and the Federation says who holds back.
    words = lambda: [json.loads(c["data"]["campus"])["word"] for c in own_pool.items("configmaps", "-n", "slurm", "-l", "tandem.dev/federation-limits=main")]
    team = wait_for("west is told", lambda: next((t for w in words() for t in w["teams"] if t["at"] == [["east", 1]]), None))
    assert team["name"] == "lab" and team["users"] == ["researcher"] and (team["gpus"], team["used"], team["rows"], team["alone"]) == (1, 1, [], 1)
    member = wait_for("it is written down", lambda: pool.get("federation", "campus").get("state", {}).get("members", {}).get("west"))
    assert member["holdsBack"] is False and "spec.accounting.enforce: limits" in member["why"]

    # Another GPU is over the team's limit over all members: it waits here, and goes when there is room.
    second, other = (hub.json("submit", "--no-code", "--gpus", "1", "--name", "next", "--request", "0123456789abcdef-next", "--", program) for program in ("true", "false"))
    assert other["id"] == second["id"]  # the same request: what was taken first runs
    assert second["federation"]["phase"] == "Waiting" and "team lab holds 1 of 1 GPUs over all members" in second["federation"]["why"]
    assert "team lab holds 1 of 1 GPUs" in hub.run("why", f"run/{second['id']}").stdout
    hub.run("cancel", f"east/{first['id']}")
    third = hub.api("POST", f"/runs/{run}/again", {"request": "fedcba9876543210"})[1]["id"]
    wait_for("it has run", lambda: run_of(hub, second["id"])["state"] == "done")
    assert run_of(hub, first["id"])["state"] == "cancelled"
    wait_for("what was submitted once more has run, with its code", lambda: run_of(hub, third)["state"] == "done")
    assert hub.run("logs", third).stdout == "shipped"


@pytest.mark.feature("C6.1")
def test_who_a_hub_may_speak_for(own_pool, campus):
    west = campus[1]

    def asked(method, path, bearer, body=None):
        return west.api(method, path, body, headers={"Authorization": f"Bearer {bearer}"}, key=False)[0]
    mine = statement("west", KEYS["west"], "researcher")
    assert asked("GET", "/runs", mine) == 200
    # Nothing that outlasts it, and nothing of the hub's own in a person's name.
    assert asked("POST", "/keys", mine, {"name": "mine"}) == 403
    # Sessions only as long as the member's administrator lets them through, at their addresses too.
    assert asked("GET", "/sessions", mine) == 200
    let_sessions(own_pool, False)
    try:
        wait_for("no sessions any more", lambda: asked("GET", "/sessions", mine) == 403)
        assert ask(west, "/s/page-123456/", key=False, headers={"Authorization": f"Bearer {mine}"})[0] == 403
        assert asked("GET", "/runs", mine) == 200
    finally:
        let_sessions(own_pool, True)
    wait_for("and again", lambda: asked("GET", "/sessions", mine) == 200)
    assert asked("POST", "/federation/look", mine, {}) == 403 and asked("GET", "/runs", statement("west", KEYS["west"])) == 403
    # For nobody who is not listed; by no key but this member's.
    assert asked("GET", "/runs", statement("west", KEYS["west"], "root")) == 403
    assert asked("GET", "/runs", statement("west", KEYS["east"], "researcher")) == 401
    assert asked("GET", "/runs", statement("east", KEYS["west"], "researcher")) == 401
    # A person lets no run begin, whosesoever.
    assert west.api("POST", "/runs/front-000000/consent", {})[0] == 403
    assert west.api("POST", "/federation/look", {})[0] == 403


def waiting(own_pool, run):
    wait_for("it waits in west's queue", lambda: f"tandem {run} main PENDING" in own_pool.ask("squeue", "-h", "-o", "%k %T")[1])


def record_of(pool, run):
    return next(r for r in pool.items("federatedruns", "-n", "slurm") if r["spec"]["run"] == run)


@pytest.mark.feature("C6.4")
def test_a_word_that_comes_too_late_loses_no_run(pool, own_pool, hub, wire):
    """The hub has written that the run starts, its word does not arrive, and the copy gives up."""
    own_pool.shell("scontrol", "update", "PartitionName=all", "State=DOWN")
    run = hub.json("submit", "--no-code", "--name", "late", "--", "echo x >> ran")["id"]
    waiting(own_pool, run)
    wait_for("the hub knows that west has it", lambda: run_of(hub, run)["federation"]["phase"] == "Placed" and record_of(pool, run)["state"]["sent"])
    wire.cut()
    pool.kubectl("patch", "federatedrun", record_of(pool, run)["metadata"]["name"], "-n", "slurm", "--type=merge", "-p", '{"state": {"phase": "Started", "since": 1}}')
    home_of(own_pool, run).joinpath(".tandem/consent").symlink_to("gave-up")  # as run.sh does after two minutes
    own_pool.shell("scontrol", "update", "PartitionName=all", "State=UP")
    wait_for("the copy has given up", lambda: not own_pool.shell("squeue", "-h", "-t", "PENDING,RUNNING").strip())
    wire.mend()
    wait_for("it has run in another attempt", lambda: run_of(hub, run)["state"] == "done")
    end = run_of(hub, run)["federation"]
    assert end["attempt"] == 2 and end["there"] != run and not home_of(own_pool, run).joinpath("ran").exists()
    assert home_of({"east": pool, "west": own_pool}[end["member"]], end["there"]).joinpath("ran").read_text() == "x\n"


@pytest.mark.nightly
@pytest.mark.feature("C6.1")
def test_a_large_upload_holds_up_nobody_else(pool, own_pool, hub, wire, tmp_path):
    wire.cut()
    wait_for("the hub knows that west is away", lambda: "cannot be reached" in hub.api("POST", "/sessions", {"kind": "shell", "cluster": "west"})[1]["error"]["message"])
    # What it does not find elsewhere may be there: nobody says that it is gone.
    assert hub.api("DELETE", "/sessions/shell-abc234")[0] == 503
    code = tmp_path / "code"
    code.mkdir()
    (code / "large").write_bytes(os.urandom(1 << 20))
    large = hub.json("submit", "--dir", code, "--cluster", "west", "--name", "large", "--", "true")["id"]
    first = hub.json("submit", "--no-code", "--gpus", "1", "--name", "first", "--", "sleep 600")["id"]
    second = hub.json("submit", "--no-code", "--gpus", "1", "--name", "second", "--", "true")
    assert second["federation"]["phase"] == "Waiting"
    wire.narrow(100000)  # looks pass, the file does not
    wire.mend()
    wait_for("it is being sent", lambda: wire.stuck)
    hub.run("cancel", first)
    wait_for("another run has gone meanwhile", lambda: run_of(hub, second["id"])["state"] == "done")
    assert wire.stuck and not record_of(pool, large)["state"]["sent"]
    wait_for("nobody has such a session", lambda: hub.api("DELETE", "/sessions/shell-abc234")[0] == 404)
    wire.narrow(None)
    wait_for("the large one has run", lambda: run_of(hub, large)["state"] == "done")


@pytest.mark.feature("C6.2", "C6.3")
def test_nobody_evades_rules_and_limits(pool, own_pool, hub):
    rule = [{"name": "fast", "gpuTypes": ["fast"], "members": ["west"]}]
    routes = pool.get("federation", "campus")["spec"]["routes"]

    def put(routes):
        pool.kubectl("patch", "federation", "campus", "--type=merge", "-p", json.dumps({"spec": {"routes": routes}}))
        wait_for("the rules are known", lambda: no(["fast"]).endswith(f"name one of {', '.join(routes[0]['members'])}"))

    def no(types):
        """What a run to the moon is told, whose steps ask for these types; None: a step without a GPU."""
        steps = [{"name": f"s{i}", "entrypoint": ["true"], **({"gpus": 1, "gpuType": t} if t else {"gpuType": "slow"})} for i, t in enumerate(types)]
        return hub.api("POST", "/runs", {"request": "0123456789abcdef", "cluster": "moon", "job": {"name": "x", "steps": steps}})[1]["error"]["message"]
    put(rule + routes)
    try:
        assert no([None, "fast"]).endswith("one of west") and no(["slow", "fast"]).endswith("one of west") and no([None, "slow"]).endswith("one of east")
    finally:
        put(routes)
    # A job of his own that has the name of a run of his counts all the same.
    run = hub.json("submit", "--no-code", "--name", "cover", "--cluster", "east", "--", "sleep 600")["id"]
    wait_for("it runs", lambda: run_of(hub, run)["federation"]["phase"] == "Started")
    job = str(pool.sbatch("--uid=researcher", "--gres=gpu:1", f"--comment=tandem {run} main"))
    wait_for("it holds a GPU", lambda: pool.ask("squeue", "-h", "-j", job, "-o", "%T")[1].strip() == "RUNNING")
    try:
        body = {"request": "fedcba9876543210", "job": {"name": "more", "steps": [{"name": "main", "entrypoint": ["true"], "gpus": 1}]}}

        def asked():
            body["request"] = f"{len(asked.all):016d}"
            asked.all.append(hub.api("POST", "/runs", body)[1])
            if asked.all[-1]["federation"]["phase"] == "Waiting" and "team lab holds 1 of 1" in asked.all[-1]["federation"]["why"]:
                return True
            hub.run("cancel", asked.all[-1]["id"], check=False)  # else it holds a GPU itself, or is one more before the last
            return False
        asked.all = []
        wait_for("the next one waits", asked)
    finally:
        pool.ask("scancel", job)
        hub.run("cancel", run)
    wait_for("and goes when there is room", lambda: run_of(hub, asked.all[-1]["id"])["state"] == "done")


def more(hub, gpus):
    """What one more session is told; when it is started, it is stopped."""
    r = hub.run("session", "start", "-o", "json", "--no-wait", "--cluster", "west", "--gpus", gpus, "batch", "--", "exec sleep 1000", check=False)
    if r.returncode == 0:
        hub.run("session", "stop", json.loads(r.stdout)["id"])
    return r.stderr


@pytest.mark.feature("C6.2", "C6.3")
def test_a_session_goes_where_gpus_are_free(pool, own_pool, hub, campus):
    routes = pool.get("federation", "campus")["spec"]["routes"]

    def put(routes, limits):
        pool.kubectl("patch", "federation", "campus", "--type=merge", "-p", json.dumps({"spec": {"routes": routes, "limits": limits}}))
    # Every GPU of east is held, so a session with one goes west, and is used through the hub alone.
    held = pool.sbatch(f"-N{len(pool.nodes)}", "--gres=gpu:8")
    wait_for("east is full", lambda: pool.squeue()[held]["state"] == "RUNNING")
    put([{"name": "any", "members": ["east", "west"]}], [])
    try:
        def start():
            r = hub.run("session", "start", "-o", "json", "--no-wait", "--name", "page", "--gpus", "1", "endpoint", "--", "exec python3 -m http.server $PORT -d /etc", check=False)
            if "team lab holds" in r.stderr:  # by the limits that were
                return False
            s = json.loads(r.stdout)
            if s["cluster"] != "west":  # what was seen of east is older
                hub.run("session", "stop", s["id"])
            return s["cluster"] == "west" and s["id"]
        session = wait_for("one goes west", start)
        wait_for("it answers at the hub's address", lambda: ask(hub, f"/s/{session}/hostname")[0] == 200)
        assert ask(hub, f"/s/{session}/nothing")[0] == 404 and ask(hub, f"/s/{session}/hostname", key=False)[0] == 401
        assert "at cluster west" in hub.run("session", "list").stdout
        # ssh goes through the hub, with no login of his at the member; whoever is not known at the hub gets nowhere.
        assert hub.run("ssh", session, "--", "echo", "at $HOME").stdout == "at /home/researcher\n"
        assert ask(hub, f"/api/v1/sessions/{session}/ssh", key=False)[0] == 401
        # What a person may have over all members: sessions, and GPUs, those that he started at a member himself too.
        put([{"name": "any", "members": ["east", "west"]}], [{"team": "lab", "perUser": {"sessions": 1, "gpus": 2}}])
        wait_for("no second one", lambda: "researcher has 1 of 1 sessions that one of team lab may have" in more(hub, "0"))
        own = campus[1].json("session", "start", "--gpus", "1", "--no-wait", "batch", "--", "exec sleep 1000")["id"]
        put([{"name": "any", "members": ["east", "west"]}], [{"team": "lab", "perUser": {"gpus": 2}}])
        wait_for("nor a third GPU", lambda: "researcher holds 2 of 2 GPUs that one of team lab may hold" in more(hub, "1"))
        assert "researcher holds 2 of 2 GPUs" in hub.api("PATCH", f"/sessions/{session}", {"replicas": 2})[1]["error"]["message"]
        campus[1].run("session", "stop", own)
        hub.run("session", "stop", session)
        wait_for("it is gone", lambda: ask(hub, f"/s/{session}/hostname")[0] in (404, 503) and session not in hub.run("session", "list").stdout)
        # Who insists gets the member that he names, by the rules.
        assert "there is no such member" in hub.run("session", "start", "--cluster", "moon", "shell", check=False).stderr
    finally:
        put(routes, [{"team": "lab", "gpus": 1}])
        pool.ask("scancel", str(held))
        wait_for("the rules are in force again", lambda: hub.run("submit", "--no-code", "--gpus", "1", "--cluster", "west", "--", "true", check=False).returncode != 0)


@pytest.fixture
def second(pool, hub, tmp_path):
    """Another gateway of the hub: (its address, that of its metrics)."""
    pid = pool.role_pid("gateway")
    argv, env = (open(f"/proc/{pid}/{f}").read().split("\0")[:-1] for f in ("cmdline", "environ"))
    at, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with open(tmp_path / "log", "w") as log:
        p = subprocess.Popen([a for a in argv if not a.startswith("--listen=")] + [f"--listen={at}", f"--metrics={metrics}"],
                             env=dict(e.split("=", 1) for e in env), stderr=log)
    try:
        wait_for("it knows its federation and its members", lambda: set(re.findall(r"member (\w+) answers", (tmp_path / "log").read_text())) == {"east", "west"})
        yield at, metrics
    finally:
        p.terminate()
        assert p.wait(60) == 0


def lists(metrics, resource):
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as r:
        lines = re.findall(rf'^tandem_kube_requests_total{{(.*resource="{resource}".*)}} (\d+)$', r.read().decode(), re.M)
    return sum(int(n) for labels, n in lines if 'verb="list"' in labels)


@pytest.mark.feature("C6.3")
def test_two_gateways_keep_one_limit_and_list_nothing(pool, hub, second):
    at, metrics = second
    asked = {}

    def submit(i):
        c = http.client.HTTPConnection(at if i % 2 else address(pool), timeout=60)
        body = {"request": f"two-gateways-{i:03d}", "job": {"name": f"two{i}", "steps": [{"name": "main", "gpus": 1, "entrypoint": ["true"]}]}}
        c.request("POST", "/api/v1/runs", json.dumps(body), {"Authorization": f"Bearer {hub.key}", "Content-Type": "application/json"})
        asked[i] = json.loads(c.getresponse().read())["id"]
    threads = [threading.Thread(target=submit, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    def all_done():
        states = [r["state"] for r in pool.items("federatedruns", "-n", "slurm") if r["spec"]["run"] in asked.values()]
        assert sum(s["phase"] in ("Placed", "Started") for s in states) <= 1, states
        return len(states) == 4 and all(s["phase"] == "Ended" for s in states)
    wait_for("all have run, one after the other", all_done)
    # One person's sessions, which he starts at both at once: as many as he may have, and no more.
    limit = lambda n: pool.kubectl("patch", "federation", "campus", "--type=merge", "-p", json.dumps({"spec": {"limits": [{"team": "lab", "gpus": 1, **n}]}}))
    said, started = {}, []

    def start(i, *asks):
        r = hub.run("session", "start", "-o", "json", "--no-wait", *(asks or ("--cluster", "west")), "batch", "--", "exec sleep 1000", check=False, url=at if i % 2 else None)
        said[i] = r.stderr
        started.extend([json.loads(r.stdout)["id"]] if r.returncode == 0 else [])

    def at_both(*asks):
        threads = [threading.Thread(target=start, args=(i, *asks)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    try:
        # What is not started leaves its GPUs to others at once.
        refused = lambda: hub.run("session", "start", "--no-wait", "--cluster", "west", "--gpus", "1", "batch", "--", "true", check=False).stderr
        wait_for("the rule refuses it", lambda: "rule gpus sends" in refused(), 60)
        assert not [k for k in pool.get("federation", "campus")["state"].get("reserved", {}) if k.startswith("session-")]
        # By the team's limit alone nobody's are started one after the other: their GPUs are promised before a member is asked.
        wait_for("one has the GPU", lambda: at_both("--gpus", "1") or started, 60)
        at_both("--gpus", "1")
        assert len(started) == 1, (started, said)
        hub.run("session", "stop", started.pop())
        limit({"perUser": {"sessions": 0}})
        for i in (0, 1):
            wait_for("each keeps the limit", lambda i=i: start(i) or "of 0 sessions that one of team lab may have" in said[i])
        for session in started:  # before they knew of it
            hub.run("session", "stop", session)
        started.clear()
        limit({"perUser": {"sessions": 1}})
        wait_for("one is started", lambda: at_both() or started)
        at_both()
        assert len(started) == 1, (started, said)
        wait_for("nobody starts one any more", lambda: not pool.get("federation", "campus").get("state", {}).get("starting"))
    finally:
        limit({})
        for session in started:
            hub.run("session", "stop", session)
    # Since then it has looked at its members and runs many times a second: by what it watches.
    assert lists(metrics, "federatedruns") <= 2 and lists(metrics, "federations") <= 10


def lost_after(pool, seconds):
    pool.kubectl("patch", "federation", "campus", "--type=merge", "-p", json.dumps({"spec": {"lostAfterSeconds": seconds}}))


@pytest.mark.feature("C6.4")
def test_a_lost_members_run_goes_elsewhere_once(pool, own_pool, hub, wire):
    own_pool.shell("scontrol", "update", "PartitionName=all", "State=DOWN")
    run = hub.json("submit", "--no-code", "--name", "lost", "--", "touch ran")
    there = run["id"]
    waiting(own_pool, there)
    wait_for("the hub knows that west has it", lambda: (was := run_of(hub, run["id"])["federation"])["member"] == "west" and was["phase"] == "Placed")
    wire.cut()
    lost_after(pool, 2)
    wait_for("it is taken back", lambda: run_of(hub, run["id"])["federation"].get("attempt", 0) > 1)
    lost_after(pool, 600)  # the other one may be busy
    wait_for("it has run at the other one", lambda: run_of(hub, run["id"])["state"] == "done")
    end = run_of(hub, run["id"])["federation"]
    assert end["member"] == "east" and end["there"] != there and home_of(pool, end["there"]).joinpath("ran").exists()
    # Its old copy may get its devices now; nobody lets it begin.
    own_pool.shell("scontrol", "update", "PartitionName=all", "State=UP")
    wait_for("west's Slurm has started the old copy", lambda: "RUNNING" in own_pool.ask("squeue", "-h", "-o", "%T")[1])
    wire.mend()
    wait_for("west was told", lambda: settled(pool))
    wait_for("and has nothing of it", lambda: not own_pool.shell("squeue", "-h").strip())
    assert not home_of(own_pool, there).joinpath("ran").exists()


@pytest.mark.feature("C6.1")
def test_a_federation_that_is_deleted_lets_its_runs_end(pool, own_pool, hub):
    spec = {k: v for k, v in pool.get("federation", "campus").items() if k in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "campus"}}
    own_pool.shell("scontrol", "update", "PartitionName=all", "State=DOWN")
    try:
        run = hub.json("submit", "--no-code", "--name", "last", "--", "true")["id"]
        waiting(own_pool, run)
        pool.kubectl("delete", "federation", "campus", "--wait=false")
        # New runs are the cluster's own; the one that is there is shown, and goes on.
        wait_for("it takes no more", lambda: "is being deleted and takes no runs" in hub.run("submit", "--no-code", "--cluster", "moon", "--", "true", check=False).stderr)
        assert "federation" not in hub.json("submit", "--no-code", "--name", "own", "--", "true")
        assert f"west/{run}" in hub.run("ps").stdout
    finally:
        own_pool.shell("scontrol", "update", "PartitionName=all", "State=UP")
    wait_for("it has run", lambda: run_of(hub, run)["state"] == "done")
    wait_for("and the Federation is gone", lambda: not pool.items("federations"))
    # Who cannot wait has them cancelled.
    pool.apply(spec | {"metadata": {"name": "campus", "annotations": {"tandem.dev/federation-end": "cancel"}}})
    wait_for("the gateway is the hub again", lambda: is_hub(hub))
    run = hub.json("submit", "--no-code", "--name", "cut", "--", "sleep 600")["id"]
    wait_for("it runs there", lambda: run_of(hub, run)["federation"]["phase"] == "Started")
    pool.kubectl("delete", "federation", "campus", "--wait=false")
    wait_for("the Federation is gone", lambda: not pool.items("federations"))
    wait_for("and west has nothing of it", lambda: not own_pool.shell("squeue", "-h").strip())
    assert record_of(pool, run)["state"]["phase"] in ("Cancelled", "Ended")
    pool.apply(spec)
    wait_for("the gateway is the hub again", lambda: is_hub(hub))
