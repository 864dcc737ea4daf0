"""Sessions that begin at a time, are ended by the rules with a warning, and come back (rows D3, D4, E3)."""
import time

import pytest

from harness import wait_for
from laptop import address, mallory, me, users  # noqa: F401 (fixtures)
from wsclient import WebSocket

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway


def look(me, s):
    return me.api("GET", f"/sessions/{s['id']}")[1]


def job_of(pool, s):
    return next((pool.job(i) | {"id": i} for i, j in pool.squeue().items() if j["name"].startswith(f"session-{s['id']}")), None)


@pytest.mark.feature("D3.8")
def test_a_session_begins_at_its_time(pool, me):
    s = me.json("session", "start", "batch", "--name", "later", "--at", time.strftime("%Y-%m-%dT%H:%M", time.localtime(time.time() + 7200)), "--", "true")
    job = wait_for("its job waits in Slurm", lambda: job_of(pool, s))
    assert job["JobState"] == "PENDING" and job["EligibleTime"] == job["StartTime"]
    said = wait_for("it says so", lambda: (x := look(me, s)).get("begins") and "begin time" in x.get("words", "") and x)
    assert said["state"] == "waiting" and abs(said["begins"] - time.time() - 7200) < 300
    assert "begins at" in me.run("session", "list").stdout and "begins at" in me.run("ps").stdout
    # Others are not in its way, nor it in theirs: one that may start at once does.
    now = me.json("session", "start", "batch", "--", "true")
    wait_for("it ran", lambda: look(me, now)["state"] == "done")
    begin = int(time.time()) + 3
    soon = me.api("POST", "/sessions", {"kind": "batch", "command": "date +%s > ~/began.txt", "begin": begin})[1]
    wait_for("its time came", lambda: look(me, soon)["state"] == "done", 180)
    assert int(open(f"{pool.shared_dir}/researcher/began.txt").read()) >= begin
    for wrong in ("25:00", "2020-01-01T00:00", "soon"):
        r = me.run("session", "start", "shell", "--at", wrong, check=False)
        assert r.returncode == 2 and f"--at {wrong}" in r.stderr


@pytest.mark.feature("D4.1", "D4.3", "E3.5")
def test_one_that_does_nothing_is_ended_with_a_warning_and_comes_back(pool, me, mallory):
    # Long enough that the warning is seen, however rarely a busy machine looks; when it was seen, the time is made short.
    s = me.api("POST", "/sessions", {"kind": "shell", "lowUse": 1800})[1]
    warned = wait_for("it is warned", lambda: (x := look(me, s)).get("endsBecause", "").startswith("it has done nothing") and x)
    assert warned["ends"] > time.time() + 600
    pool.kubectl("annotate", "pod", f"session-{s['id']}", "-n", "researcher", "--overwrite", "tandem.dev/session-low-use=1")
    wait_for("it is ended", lambda: look(me, s)["state"] == "reclaimed")
    ended = look(me, s)
    assert "it has done nothing" in ended["words"] and ended["ended"] > warned["ends"] - 1800 and ended["path"] == s["path"]
    wait_for("its pod and its job are gone", lambda: not pool.items("pods", "-n", "researcher", "-l", f"tandem.dev/session={s['id']}") and not job_of(pool, s))
    assert "reclaimed" in me.run("session", "list").stdout and "reclaimed" in me.run("ps").stdout
    assert WebSocket(address(pool), f"{s['path']}tty", {"Authorization": f"Bearer {me.key}"}).status == 503

    # Nobody else's: neither seen, nor resumed, nor removed.
    for method, path in (("GET", ""), ("POST", "/resume"), ("DELETE", "")):
        assert mallory.api(method, f"/sessions/{s['id']}{path}", {} if method == "POST" else None)[0] == 404, method
    assert mallory.api("GET", "/sessions")[1]["sessions"] == []
    assert me.api("POST", "/sessions/none-x/resume")[0] == 404 and me.api("POST", "/sessions/a%2Fb/resume")[0] in (404, 422)

    # It comes back where it was, as it was asked for.
    again = me.json("session", "resume", s["id"])
    assert again["state"] == "ready" and again["path"] == s["path"] and again["kind"] == "shell"
    w = WebSocket(address(pool), f"{s['path']}tty", {"Authorization": f"Bearer {me.key}"})
    w.send(b"echo back=$((40+2))\n")
    w.until(b"back=42")
    running = me.api("POST", f"/sessions/{s['id']}/resume")
    assert running[0] == 200 and running[1]["state"] == "ready", "one that runs is left as it is"


@pytest.mark.feature("D4.1", "D4.4")
def test_one_with_gpus_is_idle_when_all_of_them_are_seen_to_do_nothing(pool, me):
    """Virtual GPUs measure what they are told to; what is not measured is not idle."""
    s = me.json("session", "start", "shell", "--gpus", "2", "--low-use", "30")
    _, node, gpus = pool.grant(pool.get("pod", f"session-{s['id']}", "-n", "researcher"))
    says = lambda words: wait_for(words, lambda: look(me, s).get("endsBecause", "").startswith(words))  # noqa: E731
    use = lambda gpu, percent: pool.cmd("fault", node, f"gpu{gpu}", f"use={percent}")  # noqa: E731
    try:
        says("it has done nothing")
        use(min(gpus), "unknown")
        says("nobody has used it")
        use(min(gpus), 2)
        says("it has done nothing")
        use(max(gpus), 70)
        says("nobody has used it")
    finally:
        pool.cmd("fault", node, "--clear")
    assert look(me, s)["state"] == "ready"


@pytest.mark.feature("E3.5")
def test_one_that_was_stopped_leaves_nothing(pool, me):
    s = me.json("session", "start", "batch", "--", "true")
    kept = lambda: [c["metadata"]["name"] for c in pool.items("configmaps", "-n", "researcher") if c["metadata"]["name"].startswith("session-")]  # noqa: E731
    assert kept() == [f"session-{s['id']}"]
    # What somebody writes into the record is believed no more than what he sends.
    pool.kubectl("patch", "configmap", f"session-{s['id']}", "-n", "researcher", "--type=merge", "-p", '{"data":{"request":"{\\"kind\\":\\"batch\\",\\"command\\":\\"true\\",\\"privileged\\":true}"}}')
    status, reply = me.api("POST", f"/sessions/{s['id']}/resume")
    assert status == 422 and "privileged" in reply["error"]["message"]
    me.run("session", "stop", s["id"])
    assert kept() == [] and me.api("GET", f"/sessions/{s['id']}")[0] in (200, 404)
