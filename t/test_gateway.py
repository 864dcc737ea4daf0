"""The gateway's door: who comes in, what a second person can do to the first (nothing), what the
page's cookie may (rows E3 C10 A15)."""
import json
import os
import pathlib
import socket
import subprocess
import urllib.parse

import pytest

from harness import ROOT, wait_for
from laptop import Laptop, address, mallory, users  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.embedded, pytest.mark.feature("E3.1")]  # the plane of `up` brings a gateway


@pytest.fixture
def me(pool, users, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


def test_a_second_person_tries_everything_of_the_first(pool, me, mallory):
    run = me.submit("--no-code", "--name", "mine", "--", "echo secret; exec sleep 1000")
    wait_for("it runs and has written", lambda: "secret" in me.run("logs", run).stdout)
    job = me.api("GET", f"/runs/{run}")[1]["steps"][0]["job"]

    assert mallory.json("ps")["runs"] == []
    for method, path in (("GET", f"/runs/{run}"), ("POST", f"/runs/{run}/cancel"), ("GET", f"/runs/{run}/log")):
        assert mallory.api(method, path)[0] == 404, path
    status, said = mallory.api("DELETE", f"/jobs/{job}")
    assert status == 403 and "not yours" in said["error"]["message"]

    # Paths, links and hard tricks in the files API.
    home = pathlib.Path(pool.shared_dir)
    os.symlink("../researcher", home / "mallory/up")
    os.symlink("/etc", home / "mallory/etc")
    os.symlink("../researcher/tandem/runs/" + run + "/slurm_log", home / "mallory/logs")
    os.mkfifo(home / "mallory/pipe")
    os.chown(home / "mallory/pipe", 3666, 3666)
    tricks = {"../researcher": 422, "/etc/passwd": 422, "a/../../researcher/x": 422, "a//b": 422, "./a": 422, "a\x01b": 422, "up": 403, "up/tandem": 403, "etc/passwd": 403,
                        f"logs/slurm-{job}.out": 403, "pipe": 422, "nothing": 404, "x" * 300: 422, "y/" * 600 + "y": 422}
    for path, code in tricks.items():
        assert mallory.api("GET", f"/files/content?path={urllib.parse.quote(path)}")[0] == code, path
    for path, code in tricks.items():
        if path not in ("pipe", "nothing", "up"):  # names of her own, which a file may replace
            assert mallory.api("POST", "/files", {"path": path, "chunks": []})[0] == code, path
    assert not (home / "researcher/x").exists() and os.path.islink(home / "mallory/etc")

    # A run that would leave its directory, and records that name other people's jobs.
    base = {"request": "r" * 20, "job": {"name": "t", "steps": [{"name": "main", "entrypoint": ["true"]}]}}
    for path in ("../../../../researcher/.bashrc", "/etc/x", ".tandem/run.json", ".tandem"):
        status, said = mallory.api("POST", "/runs", {**base, "files": [{"path": path, "chunks": []}]})
        assert status == 422, (path, said)
    own = mallory.submit("--no-code", "--name", "own", "--", "true")
    wait_for("it is done", lambda: mallory.state(own) == "done", 240)  # where its first start met a slurmctld that had just begun, Slurm waits for two minutes
    record = home / f"mallory/tandem/runs/{own}/.tandem/run.json"
    forged = json.loads(record.read_text())
    forged["jobs"] = [{"step": "main", "id": job}]
    record.write_text(json.dumps(forged))
    shown = mallory.api("GET", f"/runs/{own}")[1]["steps"][0]
    assert shown["state"] in ("unknown", "waiting") and "on" not in shown
    assert mallory.api("POST", f"/runs/{own}/cancel")[0] == 403
    assert b"secret" not in mallory.api("GET", f"/runs/{own}/log")[1]
    for text in ("[]", "{", '{"jobs": 7}', '{"id": [], "jobs": [{"id": "x"}, 3, null]}', '{"jobs": [{"id": -1, "end": []}]}'):
        record.write_text(text)
        assert mallory.api("GET", "/runs")[0] == 200 and mallory.api("GET", f"/runs/{own}")[0] in (200, 422), text
    record.unlink()
    os.symlink(f"../../../../../researcher/tandem/runs/{run}/.tandem/run.json", record)
    assert mallory.api("GET", f"/runs/{own}")[0] == 403

    # The home itself made into somebody else's.
    key = me.api("GET", "/keys")[1]["keys"][0]["id"]
    assert mallory.api("DELETE", f"/keys/{key}")[0] == 404
    os.rename(home / "mallory", home / "mallory-away")
    os.symlink("researcher", home / "mallory")
    try:
        assert mallory.api("GET", "/files?path=tandem")[0] == 503
    finally:
        os.unlink(home / "mallory")
        os.rename(home / "mallory-away", home / "mallory")
    assert me.state(run) == "running", "nothing of all that touched it"
    me.run("cancel", run)


@pytest.mark.feature("C10.2")
def test_keys_are_made_listed_rotated_and_revoked(pool, me, tmp_path):
    status, made = me.api("POST", "/keys", {"name": "a script", "days": 1})
    assert status == 201
    other = Laptop.__new__(Laptop)
    other.__dict__.update(me.__dict__, key=made["key"])
    assert other.api("GET", "/whoami")[1]["user"] == "researcher"
    mine = me.api("GET", "/keys")[1]["keys"]
    assert {k["id"]: k["name"] for k in mine}[made["id"]] == "a script" and "hash" not in json.dumps(mine)
    assert made["key"] not in pool.kubectl("get", "secret", "-n", "slurm", "main-gateway", "-o", "yaml")
    assert other.api("DELETE", f"/keys/{made['id']}")[0] == 200
    wait_for("it opens nothing", lambda: other.api("GET", "/whoami")[0] == 401, 10)

    # An administrator's: revoked by its id.
    key = pool.cmd("user", "key", "researcher", "--for", "the lab").stdout.strip()
    other.key = key
    assert other.api("GET", "/whoami")[0] == 200
    assert "the lab" in pool.cmd("user", "keys", "researcher").stdout
    pool.cmd("user", "revoke", key.split("_")[1])
    wait_for("it opens nothing", lambda: other.api("GET", "/whoami")[0] == 401, 10)
    r = pool.cmd("user", "key", "nobody", check=False)
    assert r.returncode == 1 and "add it to spec.users" in r.stderr

    # login and logout on a laptop
    env = {**os.environ, "HOME": str(tmp_path), "USER": "researcher"}
    password = pool.cmd("user", "password", "researcher").stdout
    def tandem(*argv, input=None):
        return subprocess.run([pool.tandem, *argv], env={k: v for k, v in env.items() if k not in ("TANDEM_URL", "TANDEM_KEY")}, input=input, capture_output=True, text=True, timeout=120)
    r = tandem("login", f"http://{address(pool)}", input="wrong\n")
    assert r.returncode == 1 and "password is wrong" in r.stderr
    r = tandem("login", f"http://{address(pool)}", input=password)
    assert r.returncode == 0 and "You are researcher" in r.stdout, r
    conf = tmp_path / ".config/tandem/login.json"
    assert conf.stat().st_mode & 0o777 == 0o600 and tandem("ps").returncode == 0
    kept = json.loads(conf.read_text())
    assert tandem("logout").returncode == 0 and not conf.exists()
    other.key = kept["key"]
    wait_for("the key is revoked", lambda: other.api("GET", "/whoami")[0] == 401, 10)
    assert "http://10.1.2.3: over a network give https://" in tandem("login", "http://10.1.2.3", input=password).stderr
    log = open(f"{pool.home}/log/gateway.log").read()
    assert password.strip() not in log and kept["key"] not in log and made["key"] not in log
    assert "change by researcher (" in log and "makeKey" in log


def test_the_page_s_cookie(pool, me):
    password = pool.cmd("user", "password", "researcher").stdout.strip()
    status, r, _ = me.api_full("POST", "/login", {"user": "researcher", "password": password}, key=False)
    cookie = r.getheader("Set-Cookie")
    assert status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    c = {"Cookie": "other=1; " + cookie.split(";")[0]}
    assert me.api("GET", "/whoami", headers=c, key=False)[1]["user"] == "researcher"
    body = {"name": "by the page"}
    assert me.api("POST", "/keys", body, c, key=False)[0] == 403, "a form of another site's"
    assert me.api("POST", "/keys", body, {**c, "X-Tandem": "page", "Origin": "http://evil.example"}, key=False)[0] == 403
    assert me.api("POST", "/keys", body, {**c, "X-Tandem": "page", "Origin": f"http://{address(pool)}"}, key=False)[0] == 201
    head, payload, sign = c["Cookie"].split("tandem=")[1].split(".")
    for bad in (f"{head}.{payload}.{sign[:-2]}AA", f"{head}.{payload}x.{sign}", "x", "..", ""):
        assert me.api("GET", "/whoami", headers={"Cookie": f"tandem={bad}"}, key=False)[0] == 401
    pool.cmd("user", "password", "researcher")
    wait_for("a new password ends the session", lambda: me.api("GET", "/whoami", headers=c, key=False)[0] == 401, 10)
    said = [me.api("POST", "/login", {"user": "researcher", "password": f"guess{i}"}, key=False)[0] for i in range(20)]
    assert 429 in said and 200 not in said, "guessing is slow"


def test_what_is_refused_at_the_door(pool, me):
    assert me.api("GET", "/whoami", key=False)[0] == 401
    assert me.api("GET", "/whoami", headers={"Authorization": "Basic eA=="}, key=False)[0] == 401
    assert me.api("GET", "/nothing")[0] == 404 and me.api("PUT", "/whoami")[0] == 405
    for body, words in ({"request": "x" * 20, "job": {"name": "t", "steps": []}}, "job.steps"), ({"request": "x" * 20, "job": {"name": "t", "steps": [{"name": "a", "entrypoint": ["x"], "uid": 0}]}}, "uid: there is no such field"), \
            ({"request": "short", "job": {"name": "t", "steps": [{"name": "a", "entrypoint": ["x"]}]}}, "request"), ({"request": "x" * 20, "job": {"name": "../t", "steps": [{"name": "a", "entrypoint": ["x"]}]}}, "name \"../t\""):
        status, said = me.api("POST", "/runs", body)
        assert status == 422 and words in said["error"]["message"], said
    assert me.api("POST", "/runs", b"{")[0] == 422
    bad = b"0" * 64 + b" 3\nabc"
    assert "other bytes" in me.api("PUT", "/files/chunks", bad)[1]["error"]["message"]
    for raw in (b"x", b"0" * 64 + b" -1\n", b"0" * 64 + b" 5\nabc", b"0" * 64 + b" 99999999999\n", b"/" * 64 + b" 0\n"):
        assert me.api("PUT", "/files/chunks", raw)[0] == 422
    status, r, page = me.api_full("GET", "/", key=False)
    assert status == 200 and "default-src 'none'" in r.getheader("Content-Security-Policy") and r.getheader("X-Content-Type-Options") == "nosniff"
    spec = me.api("GET", "/openapi.json", key=False)[1]
    assert spec == json.load(open(ROOT / "docs/reference/openapi-gateway.json"))
    r = subprocess.run([pool.tandem, "gateway", "--namespace=x", "--cluster=y", "--listen=0.0.0.0:1"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and "--cert" in r.stderr
    # It is reached on this machine only.
    with pytest.raises(OSError):
        socket.create_connection((f"10.{pool.instance['subnet']}.0.1", int(address(pool).split(":")[1])), 5)


@pytest.mark.feature("E3.3", "E3.4")
def test_the_pool_gpu_by_gpu_and_the_queue(pool, me):
    run = me.submit("--no-code", "--gpus", "3", "--", "exec sleep 1000")
    job = wait_for("it runs", lambda: (s := me.api("GET", f"/runs/{run}")[1]["steps"][0])["state"] == "running" and s["job"])
    held = pool.job_devices(job)
    def seen():
        nodes = me.api("GET", "/pool")[1]["nodes"]
        return {n["name"]: {g["index"] for g in n["gpus"] if g.get("job") == job} for n in nodes if any(g.get("job") for g in n["gpus"])} == held and nodes
    nodes = wait_for("the pool shows its GPUs", seen)
    assert len(nodes) == pool.instance["nodes"] and all(len(n["gpus"]) == pool.instance["gpus"] for n in nodes)
    mine = next(j for j in me.api("GET", "/jobs")[1]["jobs"] if j["id"] == job)
    assert (mine["user"], mine["state"], mine["on"][0]["node"]) == ("researcher", "running", *held)
    me.run("cancel", run)
