"""Data sets of runs: fetched once, verified, used where they lie (rows D6 E1)."""
import contextlib
import hashlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import tarfile
import threading

import pytest

from harness import wait_for
from laptop import Laptop

FETCH = pathlib.Path(__file__).resolve().parent.parent / "src/gateway/programs/data.py"

# What Slurm has not shown yet is "unknown", which is no end.
ENDED = ("done", "failed", "cancelled", "timeout", "out-of-memory", "node-failed", "preempted")


@pytest.fixture
def me(pool, tmp_path):
    return Laptop(pool, tmp_path / "laptop", "researcher")


def sha(data):
    return hashlib.sha256(data).hexdigest()


def packed(**files):
    """A tar of these texts, which is new each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in {**files, "new": os.urandom(8).hex()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@contextlib.contextmanager
def serving(data, cut_at=None):
    """(address, the ranges that were asked for). The first answer ends after cut_at bytes."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            r = self.headers.get("Range")
            asked.append(r)
            at = int(r[len("bytes="):-1]) if r else 0
            self.send_response(206 if r else 200)
            self.send_header("Content-Length", len(data) - at)
            self.end_headers()
            self.wfile.write(data[at:cut_at] if cut_at and len(asked) == 1 else data[at:])

        def log_message(self, *_):
            pass
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{s.server_port}", asked
    finally:
        s.shutdown()
        s.server_close()


def fetch(where, job="1", **env):
    """The program that the job runs, in a directory as the home has it."""
    (where / ".made").mkdir(parents=True, exist_ok=True)
    return subprocess.run(["python3", FETCH], cwd=where, capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], "HOME": str(where), "TANDEM_MAKE": "k" * 20, "SLURM_JOB_ID": job, **{f"TANDEM_{k}": v for k, v in env.items()}})


@pytest.mark.feature("D6.3")
def test_a_download_goes_on_after_a_cut_and_is_verified(tmp_path):
    data, link = os.urandom(3_000_000), tmp_path / ("k" * 20)
    with serving(data, cut_at=1_000_000) as (url, asked):
        r = fetch(tmp_path, URL=f"{url}/a%20set.bin?x=1", SHA256=sha(data))
        assert r.returncode == 0, r.stdout + r.stderr
        assert asked == [None, "bytes=1000000-"] and (link / "data/a set.bin").read_bytes() == data and os.readlink(link) == f".made/{'k' * 20}.1"
        assert "is there already" in fetch(tmp_path, job="2", URL=url, SHA256=sha(data)).stdout and len(asked) == 2
        link.unlink()
        (tmp_path / f".made/{'k' * 20}.1/half").write_text("of one that was killed")
        r = fetch(tmp_path, job="3", URL=f"{url}/x", SHA256=sha(b"other"))
    assert r.returncode == 1 and r.stdout.splitlines()[-1] == f"{url}/x is not what the job file says: its sha256 is {sha(data)}, not {sha(b'other')}"
    assert not os.path.lexists(link) and os.listdir(tmp_path / ".made") == []


@pytest.mark.feature("D6.3")
def test_what_is_packed_cannot_lead_out(tmp_path):
    for data, words in ((packed(**{"../out": "x"}), "outside the destination"), (b"no archive", "neither a tar nor a zip")):
        with serving(data) as (url, _):
            r = fetch(tmp_path / "home", URL=f"{url}/x.tgz", SHA256=sha(data), UNPACK="yes")
        assert r.returncode == 1 and words in r.stdout.splitlines()[-1], r.stdout
        assert not (tmp_path / "home/.made/out").exists() and os.listdir(tmp_path / "home/.made") == []


@pytest.mark.feature("D6.3")
def test_a_repository_at_a_tag(tmp_path):
    repo = tmp_path / "repo"
    repo.mkdir()
    for argv in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"], ["tag", "v1"]):
        subprocess.run(["git", "-C", repo, *argv], check=True, timeout=60)
    (repo / "later").write_text("x")
    r = fetch(tmp_path / "home", GIT=str(repo), REF="v1")
    assert r.returncode == 0, r.stdout + r.stderr
    assert os.listdir(tmp_path / "home" / ("k" * 20) / "data") == [".git"]
    os.unlink(tmp_path / "home" / ("k" * 20))
    r = fetch(tmp_path / "home", job="2", GIT=str(repo), REF="v2")
    assert r.returncode == 1 and "v2" in r.stdout.splitlines()[-1]


@pytest.mark.embedded  # the plane of `up` brings a gateway
@pytest.mark.feature("D6.3", "E1.4")
def test_a_run_finds_its_data_fetched_once(pool, me, tmp_path):
    home = os.path.join(pool.shared_dir, "researcher")
    me.submit("--no-code", "--", "true")  # makes the home
    served, data = os.path.join(home, "served"), packed(**{"d/train.txt": "to learn from"})
    os.makedirs(served, exist_ok=True)
    with open(os.path.join(served, "set.tgz"), "wb") as f:
        f.write(data)
    os.chown(served, 1000, 1000)
    server = me.submit("--no-code", "--", "cd ~/served; hostname -I; exec python3 -u -m http.server 18099 2>&1")
    wait_for("the server listens", lambda: "port 18099" in me.run("logs", server).stdout)
    url = f"http://{me.run('logs', server).stdout.split()[0]}:18099/set.tgz"
    job = {"name": "learn", "run": "cat $TANDEM_DATA/set/d/train.txt; ls $TANDEM_DATA/mine", "data": {"set": {"url": url, "sha256": sha(data), "unpack": True}, "mine": "~/served"}}
    (tmp_path / "tandem.yaml").write_text(json.dumps(job))

    def steps(run):
        wait_for(f"{run} is over", lambda: me.state(run) in ENDED, 300)
        return {s["name"]: s for s in me.api("GET", f"/runs/{run}")[1]["steps"]}
    first = me.submit(cwd=tmp_path)
    s = steps(first)
    assert s["data-set"]["state"] == s["main"]["state"] == "done" and s["data-set"]["makes"] == "data", s
    assert me.run("logs", first).stdout == "to learn fromset.tgz\n"
    # The same content by another address is there already.
    job["data"]["set"]["url"] = url + "?again"
    (tmp_path / "tandem.yaml").write_text(json.dumps(job))
    second = me.submit(cwd=tmp_path)
    assert list(steps(second)) == ["main"] and me.run("logs", second).stdout == "to learn fromset.tgz\n"
    assert me.run("logs", server).stdout.count("GET /set.tgz") == 1
    (entry,) = [e for e in me.json("data", "list")["made"] if e["of"] == [url]]
    assert entry["kind"] == "http" and entry["key"] in me.run("data", "list").stdout

    # One whose content is another than was meant stops the run, which says so; so does one that is not there.
    job["data"]["set"]["sha256"] = sha(b"other")
    (tmp_path / "tandem.yaml").write_text(json.dumps(job))
    r = me.run("submit", "-f", cwd=tmp_path, check=False, timeout=300)
    assert r.returncode == 1 and "data-set: exit code 1" in r.stderr and f"its sha256 is {sha(data)}, not {sha(b'other')}" in r.stderr, r.stderr
    job["data"] = {"set": "~/nowhere"}
    (tmp_path / "tandem.yaml").write_text(json.dumps(job))
    r = me.run("submit", "-f", cwd=tmp_path, check=False, timeout=300)
    assert r.returncode == 1 and "data set set: there is no /home/researcher/nowhere" in r.stdout
    for wrong, words in (({"url": url}, "say what its hash is"), ({"git": "https://x/y"}, "which commit or tag"), ({"url": url, "path": "/x", "sha256": sha(data)}, "one of them")):
        (tmp_path / "tandem.yaml").write_text(json.dumps({**job, "data": {"set": wrong}}))
        r = me.run("submit", cwd=tmp_path, check=False)
        assert r.returncode == 1 and "data: set: " in r.stderr and words in r.stderr
    me.run("data", "delete", entry["key"])
    assert entry["key"] not in [e["key"] for e in me.json("data", "list")["made"]]
    me.run("cancel", server)
