"""A session over several nodes: one gang and one job, programs started on all nodes from the first one (rows D3, C9)."""
import os

import pytest

from harness import wait_for
from laptop import ask, mallory, me, users  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.embedded, pytest.mark.feature("D3.7")]  # the plane of `up` brings a gateway

# What torchrun and its like do: all find the first one by MASTER_ADDR, and it finds them by the names in the list of hosts.
MEETS = """
import os, socket
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
at, hosts = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), os.environ['TANDEM_GANG_HOSTS'].split(',')
assert len(hosts) == world and os.environ['PET_NODE_RANK'] == str(rank) and os.environ['MINE'] == 'a b'
if rank:
    back = socket.create_server(('', 29501))
    while True:
        try: c = socket.create_connection(at); break
        except ConnectionRefusedError: pass
    c.sendall(b'%d' % (rank + 10)); c.close(); back.accept()[0].sendall(b'met')
else:
    s, got = socket.create_server(('', at[1])), 0
    for _ in range(world - 1): got += int(s.accept()[0].recv(9))
    print('sum', got, socket.create_connection((hosts[1], 29501)).recv(9).decode())
"""

# A model over all nodes: the first one serves what the others hold.
SERVES = """
import http.server, os, socket, time
rank, world, at = int(os.environ['RANK']), int(os.environ['WORLD_SIZE']), (os.environ['MASTER_ADDR'], 29500)
if rank:
    while True:
        try: c = socket.create_connection(at); break
        except OSError: time.sleep(0.02)
    c.sendall(b'shard %d' % rank); c.recv(1); os.abort()
server = socket.create_server(('', 29500)); parts = []
for _ in range(world - 1): c = server.accept()[0]; parts.append((c, c.recv(99)))
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/lose': parts[0][0].close()
        out = b', '.join(p for _, p in parts)
        self.send_response(200); self.send_header('Content-Length', str(len(out))); self.end_headers(); self.wfile.write(out)
http.server.ThreadingHTTPServer(('', int(os.environ['PORT'])), H).serve_forever()
"""


def written(pool, name, text):
    path = f"{pool.shared_dir}/researcher/{name}"
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o644)


def pods(pool, s):
    return {p["metadata"]["name"]: p for p in pool.items("pods", "-n", "researcher", "-l", f"tandem.dev/session={s['id']}")}


def gone(pool, s):
    return not pods(pool, s) and not [j for j in pool.squeue().values() if s["id"] in j["name"]] and not pool.items("services", "-n", "researcher", "-l", f"tandem.dev/session={s['id']}")


@pytest.mark.feature("C9.2", "D3.3")
def test_a_terminal_over_two_nodes(pool, me, mallory):
    written(pool, "meets.py", MEETS)
    for argv in (("tensorboard",), ("endpoint", "--replicas", "2", "--", "true")):
        r = me.run("session", "start", argv[0], "--nodes", "2", *argv[1:], check=False)
        assert r.returncode == 1 and "nodes" in r.stderr, r
    s = me.json("session", "start", "shell", "--nodes", "2", "--gpus", "1")
    each = s["nodes"]["each"]
    assert s["state"] == "ready" and s["nodes"]["ready"] == 2 and len({p["node"] for p in each}) == 2
    # One job, of all of it.
    jobs = {i: j for i, j in pool.squeue().items() if s["id"] in j["name"]}
    assert len(jobs) == 1 and (job := jobs[int(s["job"])])["user"] == "researcher" and job["state"] == "RUNNING"
    assert f"2/2 nodes ready on {each[0]['node']}, {each[1]['node']}" in " ".join(me.run("session", "list").stdout.split())
    assert "2/2 nodes ready" in me.run("ps").stdout and me.json("session", "list")["sessions"][0]["nodes"]["asked"] == 2

    def inside(*words, check=True):
        return me.run("ssh", s["id"], "--", *words, check=check)

    line = "'echo $RANK of $WORLD_SIZE on $(hostname) with $(ls /dev | grep -c tandem-gpu)'"
    assert sorted(inside("tandem-run", "-l", "sh", "-c", line).stdout.splitlines()) == [
        f"0: 0 of 2 on session-{s['id']} with 1", f"1: 1 of 2 on session-{s['id']}-1 with 1"]
    assert inside("MINE='a b'", "tandem-run", "python3", "meets.py").stdout == "sum 11 met\n"
    hosts = [f"session-{s['id']}.nodes-{s['id']}", f"session-{s['id']}-1.nodes-{s['id']}"]
    assert inside("cat", "$TANDEM_HOSTFILE", "$HYDRA_HOST_FILE").stdout.splitlines() == [f"{h} slots=1" for h in hosts] + [f"{h}:1" for h in hosts]
    # As mpirun starts its daemons.
    assert inside("echo typed", "|", "$OMPI_MCA_plm_rsh_agent", "-x", hosts[1], "'hostname; cat'").stdout == f"session-{s['id']}-1\ntyped\n"
    # One that fails takes the others with it, and the code is its own.
    r = inside("tandem-run", "sh", "-c", "'test $RANK = 0 && exec sleep 1000; exit 7'", check=False)
    assert r.returncode == 7 and "node 1" in r.stderr
    # Who has no key is told nothing, and nobody else reaches it at all.
    worker = pods(pool, s)[f"session-{s['id']}-1"]["status"]["podIP"]
    knock = f"\"import socket; c = socket.create_connection(('{worker}', 8888), 3); c.sendall(b'auth x\\n'); print(c.recv(99)[:6], c.recv(99))\""
    assert inside("python3", "-c", knock).stdout == "b'hello ' b''\n"
    other = me.json("session", "start", "batch", "--", "exec sleep 100000")
    assert "timed out" in me.run("ssh", other["id"], "--", "python3", "-c", knock, check=False).stderr
    me.run("session", "stop", other["id"])
    assert mallory.api("GET", f"/sessions/{s['id']}")[0] == 404

    # A worker is lost: what runs in the first node goes on, and another one takes its place in the same job.
    uids = {n: p["metadata"]["uid"] for n, p in pods(pool, s).items()}
    inside("nohup sleep 100000 > /dev/null 2>&1 & echo $! > keeps")
    pool.kubectl("delete", "pod", f"session-{s['id']}-1", "-n", "researcher", "--wait=false")
    again = wait_for("it is there again", lambda: (p := pods(pool, s).get(f"session-{s['id']}-1")) and p["metadata"]["uid"] not in uids.values() and p)
    wait_for("all are ready", lambda: (x := me.api("GET", f"/sessions/{s['id']}")[1])["state"] == "ready" and x["nodes"]["ready"] == 2)
    assert pods(pool, s)[f"session-{s['id']}"]["metadata"]["uid"] == uids[f"session-{s['id']}"]
    assert again["metadata"]["annotations"]["tandem.dev/gang-size"] == "2" and me.api("GET", f"/sessions/{s['id']}")[1]["job"] == s["job"]
    assert inside("kill -0 $(cat keeps); tandem-run sh -c 'echo $RANK'").stdout.split().count("1") == 1
    # Without a gateway, too, they end with the first one.
    assert [(o["kind"], o["uid"]) for o in again["metadata"]["ownerReferences"]] == [("Pod", uids[f"session-{s['id']}"])]
    me.run("session", "stop", s["id"])
    wait_for("all of it is gone", lambda: gone(pool, s))


def test_a_model_over_two_nodes(pool, me):
    written(pool, "serves.py", SERVES)
    s = me.json("session", "start", "endpoint", "--nodes", "2", "--", "exec python3 serves.py")
    assert s["state"] == "ready" and ask(me, s["path"])[1] == "shard 1"
    state = lambda: me.api("GET", f"/sessions/{s['id']}")[1]  # noqa: E731
    r = me.run("session", "scale", s["id"], "2", check=False)
    assert r.returncode == 1 and "over 2 nodes" in r.stderr
    ask(me, f"{s['path']}lose")  # its worker dies
    ended = wait_for("the whole session has ended", lambda: (x := state())["state"] == "failed" and x)
    assert ended["words"].startswith("node 1 (") and "was lost, and with it the session" in ended["words"], ended
    assert "was lost" in me.run("session", "list").stdout
    wait_for("its job is gone", lambda: not [j for j in pool.squeue().values() if s["id"] in j["name"]])
    assert me.json("session", "resume", s["id"])["state"] == "ready" and ask(me, s["path"]) == (200, "shard 1")
    # Its program ends, and so does the other one.
    pool.kubectl("exec", "-n", "researcher", f"session-{s['id']}", "--", "sh", "-c", "kill -9 $(pgrep -f serves.py)", check=False)
    wait_for("the worker ends with it", lambda: not [p for p in pods(pool, s).values() if p["status"]["phase"] in ("Pending", "Running")])
    me.run("session", "stop", s["id"])
    wait_for("all of it is gone", lambda: gone(pool, s))
