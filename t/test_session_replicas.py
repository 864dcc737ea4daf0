"""An endpoint with replicas: each a job of its own in the one queue, requests spread over those that are ready (rows D3, E4)."""
import concurrent.futures
import os

import pytest

from harness import wait_for
from laptop import ask, mallory, me, users  # noqa: F401 (fixtures)

pytestmark = pytest.mark.embedded  # the plane of `up` brings a gateway

WHO = """
import http.server, os, socket, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while self.path == '/waits' and not os.path.exists('go-on'): time.sleep(0.02)
        name = socket.gethostname().encode()
        self.send_response(200); self.send_header('Content-Length', str(len(name))); self.end_headers(); self.wfile.write(name)
http.server.ThreadingHTTPServer(('', int(os.environ['PORT'])), H).serve_forever()
"""


@pytest.mark.feature("D3.5", "D3.7", "E4.3")
def test_replicas_come_and_go_and_requests_go_on(pool, me, mallory):
    home = f"{pool.shared_dir}/researcher"
    with open(f"{home}/who.py", "w") as f:
        f.write(WHO)
    os.chmod(f"{home}/who.py", 0o644)
    r = me.run("session", "start", "shell", "--replicas", "2", check=False)
    assert r.returncode == 2 and "--replicas: only for endpoints" in r.stderr
    s = me.json("session", "start", "endpoint", "--name", "many", "--replicas", "2", "--", "exec python3 who.py")
    assert s["state"] == "ready" and s["replicas"]["asked"] == 2  # the first that answers is enough
    look = lambda: me.api("GET", f"/sessions/{s['id']}")[1]  # noqa: E731
    ready = lambda n: (x := look()["replicas"])["ready"] == n and x["each"]  # noqa: E731
    each = wait_for("both are ready", lambda: ready(2))
    assert s["id"] in (shown := me.run("session", "list").stdout) and "2/2 ready" in shown
    jobs = [int(p["job"]) for p in each]
    assert len(set(jobs)) == 2 and {pool.squeue()[j]["user"] for j in jobs} == {"researcher"}
    names = set()
    wait_for("each gets its share", lambda: names.add(ask(me, s["path"])[1]) or len(names) == 2)
    for method, body in (("PATCH", {"replicas": 16}), ("GET", None)):
        assert mallory.api(method, f"/sessions/{s['id']}", body)[0] == 404
    assert ask(mallory, s["path"])[0] == 404

    # One is taken away by force: the other answers, and it comes back as another job.
    pool.shell("scancel", str(jobs[0]))
    said = []

    def back():
        said.append(ask(me, s["path"])[0])
        x = look()["replicas"]
        return x["ready"] == 2 and int(x["each"][0]["job"]) != jobs[0]
    wait_for("it is back", back)
    assert len([x for x in said if x != 200]) <= 2, said  # what it was just being asked is lost with it

    # Fewer: what waits at the one that goes is answered, and it gets nothing new.
    waiting = lambda: [p["inFlight"] for p in look()["replicas"]["each"]]  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(ask, me, f"{s['path']}waits") for _ in range(2)]
        try:
            wait_for("one waits at each", lambda: waiting() == [1, 1])
            assert look()["requests"]["inFlight"] == 2, "the queue is that of all"
            assert "/1 ready; replica 1 draining" in me.run("session", "scale", s["id"], "1").stdout
            stays = {ask(me, s["path"])[1] for _ in range(4)}
        finally:
            open(f"{home}/go-on", "w").close()
        assert [a.result()[0] for a in asked] == [200, 200] and len(stays) == 1
        assert {a.result()[1] for a in asked} > stays
    wait_for("its job is gone", lambda: jobs[1] not in pool.squeue())
    assert look()["requests"]["inFlight"] == 0 and [p["number"] for p in look()["replicas"]["each"]] == [0]
    assert me.run("session", "scale", s["id"], "0", check=False).returncode == 2
    me.run("session", "stop", s["id"])
    os.unlink(f"{home}/go-on")
    wait_for("all are gone", lambda: me.api("GET", f"/sessions/{s['id']}")[0] == 404 and not [j for j in pool.squeue().values() if s["id"] in j["name"]])
