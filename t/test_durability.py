"""kill -9 of the embedded API under writes: every acknowledged write is there, none twice, and a watch resumes without a gap (issue 3 §4)."""
import json
import os
import signal
import ssl
import threading
import time
import urllib.error
import urllib.request

import pytest

from harness import wait_for

KILLS = 6


def client(pool):
    ctx = ssl.create_default_context(cafile=f"{pool.home}/pki/ca.crt")
    ctx.load_cert_chain(f"{pool.home}/pki/admin.crt", f"{pool.home}/pki/admin.key")
    base = f"https://127.0.0.1:{pool.instance['apiPort']}/api/v1/namespaces/default/configmaps"

    def call(method, path="", body=None, timeout=5):
        req = urllib.request.Request(base + path, json.dumps(body).encode() if body is not None else None, {"Content-Type": "application/json"}, method=method)
        return urllib.request.urlopen(req, context=ctx, timeout=timeout)
    return call


class Follower(threading.Thread):
    """Watches from where it was after every cut; keeps what the events say."""

    def __init__(self, call, rv):
        super().__init__(daemon=True)
        self.call, self.rv, self.state, self.lists, self.stop = call, rv, {}, 0, False

    def run(self):
        while not self.stop:
            try:
                with self.call("GET", f"?watch=1&resourceVersion={self.rv}&allowWatchBookmarks=true&timeoutSeconds=20", timeout=30) as r:
                    for line in r:
                        ev = json.loads(line)
                        if ev["type"] == "ERROR":
                            self.lists += 1  # 410: events were lost, which must not happen here
                            return
                        meta = ev["object"]["metadata"]
                        self.rv = meta["resourceVersion"]
                        if ev["type"] == "DELETED":
                            self.state.pop(meta["name"], None)
                        elif ev["type"] != "BOOKMARK":
                            self.state[meta["name"]] = ev["object"].get("data")
            except (OSError, ValueError, urllib.error.URLError):
                time.sleep(0.02)  # the server is being started again: ask until it answers


@pytest.mark.feature("F1")
def test_acknowledged_writes_survive_kill_9(home):
    home.up("--nodes", "1", "--no-slurm")
    call = client(home)
    start = json.load(call("GET"))
    follower = Follower(call, start["metadata"]["resourceVersion"])
    follower.state = {o["metadata"]["name"]: o.get("data") for o in start["items"]}
    follower.start()
    acked, unsure, done = {}, set(), threading.Event()

    def writer(k):
        n = 0
        while not done.is_set():
            name, n = f"w{k}-{n}", n + 1
            try:
                call("POST", "", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "0"}}).read()
                acked[name] = {"n": "0"}
                call("PUT", "/" + name, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "1"}}).read()
                acked[name] = {"n": "1"}
                if n % 5 == 0:
                    acked[name] = None
                    call("DELETE", "/" + name).read()
            except (OSError, urllib.error.URLError):
                unsure.add(name)  # no answer: it may be there or not, in either form

    writers = [threading.Thread(target=writer, args=(k,)) for k in range(4)]
    for w in writers:
        w.start()
    for i in range(KILLS):
        pid = home.role_pid("apiserver")
        before = len(acked)
        wait_for("some writes", lambda: len(acked) > before + 50, 30)
        os.kill(pid, signal.SIGKILL)
        wait_for("started again", lambda: home.role_pid("apiserver") not in (0, pid), 30)
    done.set()
    for w in writers:
        w.join(30)
    wait_for("the API answers", lambda: home.kubectl("get", "--raw", "/readyz") == "ok", 30)
    items = json.load(call("GET"))
    now = {o["metadata"]["name"]: o.get("data") for o in items["items"]}
    lost = {n: (want, now.get(n)) for n, want in acked.items() if n not in unsure and now.get(n) != want}
    assert not lost, dict(list(lost.items())[:5])
    assert len(now) == len(items["items"])
    assert len({o["metadata"]["uid"] for o in items["items"]}) == len(items["items"])
    wait_for("the watch has caught up", lambda: follower.state == now, 30)
    assert follower.lists == 0
    follower.stop = True
    assert len(acked) > 300
