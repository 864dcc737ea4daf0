"""kill -9 of the embedded API under writes: every acknowledged write is there, none twice, and a watch resumes without a gap; torn log, full
disk, deaf watchers, clock jumps. killmodel.py is the model of what was acknowledged."""
import http.client
import json
import os
import signal
import ssl
import subprocess
import tempfile
import time

import pytest

from apidev import CMS, Server, Watch, cm
from harness import wait_for
from killmodel import Client, Model

pytestmark = pytest.mark.feature("F1.2")

KILLS = int(os.environ.get("TD_KILLS", "30"))  # by hand: 200


@pytest.fixture
def server(tandem):
    s = Server(tandem)
    yield s
    s.close()


class Alone:
    """The API server alone: comes up within a tenth of a second, so that a minute has room for many kills."""

    def __init__(self, server):
        self.server, self.connection, self.kill, self.spawn, self.start = server, server.connection, server.kill9, server.spawn, server.start


class Pooled:
    """The API server of a pool: what is killed is started again by the pool, and every role goes on watching it."""

    def __init__(self, pool):
        self.pool, self.pid = pool, 0
        self.ctx = ssl.create_default_context(cafile=f"{pool.home}/pki/ca.crt")
        self.ctx.load_cert_chain(f"{pool.home}/pki/admin.crt", f"{pool.home}/pki/admin.key")

    def connection(self, timeout):
        return http.client.HTTPSConnection("127.0.0.1", self.pool.instance["apiPort"], context=self.ctx, timeout=timeout)

    def kill(self):
        pid = wait_for("it runs again", lambda: (p := self.pool.role_pid("apiserver")) not in (0, self.pid) and p)
        os.kill(pid, signal.SIGKILL)
        self.pid = pid

    def spawn(self):
        pass

    def start(self):
        wait_for("it runs again", lambda: self.pool.role_pid("apiserver") not in (0, self.pid))
        wait_for("it answers", lambda: Client(self).ask("GET", "/version")[0] == 200)


def killed_under_writes(target, kills):
    seed = int(os.environ.get("TD_SEED", time.time_ns() % 1000000))
    print(f"seed {seed}")
    begin = time.monotonic()
    m = Model(target, seed)
    while m.kills < kills:
        m.kill()
    told = m.end()
    print(json.dumps({"kills": m.kills, "seconds": round(time.monotonic() - begin), "acknowledged": len(m.ledger.rvs) + sum(h == "acked" for h in m.ledger.gone.values()),
                      **dict(sorted(m.ledger.counts.items())), **told}))
    assert len(m.ledger.rvs) > kills * 5 and m.ledger.counts["seen"] + m.ledger.counts["absent"] > kills // 5


def test_acknowledged_writes_survive_kill_9(server):
    killed_under_writes(Alone(server), KILLS)


def test_acknowledged_writes_survive_kill_9_in_a_pool(home):
    home.up("--nodes", "1", "--no-slurm")
    killed_under_writes(Pooled(home), max(3, KILLS // 20))


# ---- one API server alone: its files are damaged, its disk is full, its watchers sleep, its clock jumps ----

def damage(kind, wal):
    size = os.path.getsize(wal)
    if kind == "cut":
        os.truncate(wal, size - 20000)
    elif kind == "gone":
        os.unlink(wal)
    else:
        with open(wal, "r+b") as f:
            f.seek(size - 30000)
            byte = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([byte[0] ^ 0x55]))


@pytest.mark.parametrize("kind", ["cut", "garbled", "gone"])
def test_torn_log_is_told(server, kind):
    """SQLite alone would go on with what is before the damage, and nobody would know that acknowledged writes are missing."""
    for i in range(60):
        assert server.call("POST", CMS, cm(f"c{i:02}", n=str(i)))[0] == 201
    rv = server.call("GET", CMS)[1]["metadata"]["resourceVersion"]
    server.kill9()
    damage(kind, f"{server.dir}/state.db-wal")
    server.spawn()
    assert server.process.wait(60) == 1
    assert "acknowledged writes are missing" in server.log()
    command = server.log().strip().splitlines()[-1].split("without those writes: ")[1]
    subprocess.run(["sh", "-c", command], check=True)
    server.start()
    names = sorted(server.names())
    assert names == [f"c{i:02}" for i in range(len(names))] and len(names) < 60  # all before the damage, none behind it
    w = Watch(server, f"{CMS}?watch=1&resourceVersion={rv}")
    assert w.next()["object"]["code"] == 410  # who saw the lost ones lists again
    w.close()
    status, new = server.call("POST", CMS, cm("new"))
    assert status == 201 and int(new["metadata"]["resourceVersion"]) > int(rv)
    server.kill9()
    server.start()
    assert "new" in server.names()


def test_half_a_write_at_the_end_costs_nothing(server):
    for i in range(20):
        assert server.call("POST", CMS, cm(f"c{i:02}"))[0] == 201
    server.kill9()
    with open(f"{server.dir}/state.db-wal", "ab") as f:
        f.write(os.urandom(5000))
    server.start()
    assert len(server.names() - {"kube-root-ca.crt"}) == 20


def test_full_disk(tandem):
    dir = tempfile.mkdtemp(prefix="td-t-full-", dir="/var/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", dir], check=True)
    server = None
    try:
        server = Server(tandem, db=f"{dir}/state.db")
        w = Watch(server, f"{CMS}?watch=1")
        acked = {}
        for i in range(5):
            assert server.call("POST", CMS, cm(f"a{i}", d="x" * 1000))[0] == 201
            acked[f"a{i}"] = True
        filler = open(f"{dir}/filler", "wb", buffering=0)
        try:
            while True:
                filler.write(b"x" * 65536)
        except OSError:
            pass
        refused = None
        for i in range(200):
            status, answer = server.call("POST", CMS, cm(f"b{i}", d="x" * 20000))
            if status != 201:
                refused = answer
                break
            acked[f"b{i}"] = True
        assert refused and status == 507, (status, refused)
        assert (refused["kind"], refused["reason"], refused["code"]) == ("Status", "InsufficientStorage", 507)
        assert "full" in refused["message"] and server.headers["Retry-After"]
        # Reads go on, and nothing half-written is seen.
        assert server.names() == set(acked)
        assert server.call("PUT", f"{CMS}/a0", cm("a0", d="y" * 20000))[0] == 507
        assert server.call("GET", f"{CMS}/a0")[1]["data"]["d"] == "x" * 1000
        assert server.call("GET", "/readyz")[0] == 200
        w.close()
        server.kill9()
        server.start()  # no room for a byte: it comes up and can be read
        assert server.names() == set(acked)
        assert server.call("POST", CMS, cm("more", d="x" * 20000))[0] == 507
        w = Watch(server, f"{CMS}?watch=1")
        os.unlink(f"{dir}/filler")
        filler.close()
        assert server.call("PUT", f"{CMS}/a0", cm("a0", d="y" * 20000))[0] == 200
        assert server.call("POST", CMS, cm("after"))[0] == 201
        seen = []
        while "after" not in seen:
            seen.append(w.next()["object"]["metadata"]["name"])
        assert len(seen) == len(acked) + 2  # one event for each write, none for those that were refused
        w.close()
        server.kill9()
        server.start()
        assert server.names() == set(acked) | {"after"}
    finally:
        try:
            if server:
                server.close()
        finally:
            subprocess.run(["umount", dir], check=True)
            os.rmdir(dir)


def test_a_watcher_that_does_not_read(server):
    """It is cut, it costs little memory, and neither writers nor other watchers wait for it."""
    deaf = []
    for _ in range(20):
        s = server.socket(receive_buffer=4096, timeout=60)
        s.sendall(f"GET {CMS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        deaf.append(s)
    w = Watch(server, f"{CMS}?watch=1")
    wait_for("all of them watch", lambda: server.metric("tandem_apiserver_watches") == 21)
    before, slow, begin = server.memory(), 0, time.monotonic()
    for i in range(200):
        t = time.monotonic()
        assert server.call("POST", CMS, cm(f"c{i:03}", d="x" * 100000))[0] == 201
        assert w.next()["object"]["metadata"]["name"] == f"c{i:03}"
        slow = max(slow, time.monotonic() - t)
    assert slow < 30  # who writes to a deaf one waits so long for it
    assert server.memory() - before < 48 << 20  # 20 MB of objects, 3 MB of ring, and little for each of the deaf
    wait_for("they are cut", lambda: server.metric("tandem_apiserver_watches") == 1, 60)
    assert server.call("POST", CMS, cm("last"))[0] == 201
    assert w.next()["object"]["metadata"]["name"] == "last"
    for s in deaf:
        s.close()
    w.close()


SHIM = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long offset(void)
{
	long n = 0;
	FILE *f = fopen(getenv("CLOCK_OFFSET"), "r");
	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}
int clock_gettime(clockid_t c, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, c, t);
	if (c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE)
		t->tv_sec += offset();
	return r;
}
time_t time(time_t *p)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (p)
		*p = t.tv_sec;
	return t.tv_sec;
}
"""


def test_clock_jumps(tandem, tmp_path):
    """The machine's clock is set back twelve hours, and forward a day: watches go on, new clients are let in."""
    (tmp_path / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", tmp_path / "shim.c"], check=True)
    offset = tmp_path / "offset"
    offset.write_text("0")
    server = Server(tandem, env={"LD_PRELOAD": str(tmp_path / "shim.so"), "CLOCK_OFFSET": str(offset), "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"})
    try:
        w = Watch(server, f"{CMS}?watch=1&allowWatchBookmarks=true")
        created = {}
        for turn, jump in enumerate((0, -12 * 3600, 24 * 3600, 0)):
            offset.write_text(str(jump))
            name = f"c{turn}"
            status, o = server.call("POST", CMS, cm(name))
            assert status == 201
            created[jump] = o["metadata"]["creationTimestamp"]
            e = w.next()
            while e["type"] == "BOOKMARK":
                e = w.next()
            assert (e["type"], e["object"]["metadata"]["name"]) == ("ADDED", name)
            fresh = Watch(server, f"{CMS}?watch=1&resourceVersion={int(o['metadata']['resourceVersion']) - 1}")
            assert fresh.next()["object"]["metadata"]["name"] == name
            fresh.close()
            server.call("PATCH", f"{CMS}/{name}", {"data": {"a": "b"}}, headers={"Content-Type": "application/merge-patch+json"})
            e = w.next()
            while e["type"] == "BOOKMARK":
                e = w.next()
            assert e["type"] == "MODIFIED"
        assert created[-12 * 3600] < created[0] < created[24 * 3600]  # the shim works
        w.close()
        server.kill9()
        offset.write_text(str(-12 * 3600))
        server.start()  # an older clock than the one that wrote the files
        assert len(server.names()) == 4
    finally:
        server.close()
