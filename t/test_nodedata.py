"""Copies of data sets on nodes: Dataset objects (docs/datasets.md)."""
import contextlib
import hashlib
import http.server
import io
import os
import pathlib
import runpy
import signal
import socketserver
import subprocess
import tarfile
import threading
import zipfile

import pytest

from harness import wait_for
from laptop import Laptop

FETCH = pathlib.Path(__file__).resolve().parent.parent / "src/operator/programs/dataset.py"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def packed(*members, **files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for m in members:
            t.addfile(m)
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o6777
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


class Server:
    """Answers every address with its bytes. stop_at: there an answer stops until `go`, but not in what begins behind it."""

    def __init__(self, data, stop_at=None, endless=False):
        server, self.asked, self.go, self.stopped = self, [], threading.Event(), threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                ranged = self.headers.get("Range")
                server.asked.append(ranged)
                at = int(ranged[len("bytes="):-1]) if ranged else 0
                self.send_response(206 if ranged else 200)
                if not endless:
                    self.send_header("Content-Length", len(data) - at)
                self.end_headers()
                with contextlib.suppress(OSError):
                    while endless:
                        self.wfile.write(b"\0" * 65536)
                    if stop_at and at < stop_at:
                        self.wfile.write(data[at:stop_at])
                        self.wfile.flush()
                        server.stopped.set()
                        server.go.wait(300)
                        at = stop_at
                    self.wfile.write(data[at:])

            def log_message(self, *_):
                pass
        self.http = socketserver.ThreadingTCPServer(("0.0.0.0", 0), Handler)  # one of http.server looks up the host's name, which may take long
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def at(self, host):
        return f"http://{host}:{self.http.server_address[1]}/set.tgz"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        self.http.shutdown()
        self.http.server_close()


def environment(where, server, data, **env):
    (where / "group").write_text("lab:x:4242:ann\n")
    os.makedirs(where / "data", exist_ok=True)
    return {"PATH": os.environ["PATH"], "TD_NAME": "set", "TD_DATA": str(where / "data"), "TD_PRINT": "p1", "TD_MAX": str(1 << 20), "TD_GROUPS": str(where / "group"),
            "TD_LAST_WORDS": str(where / "words"), "TD_URL": server.at("127.0.0.1"), "TD_SHA256": sha(data), "TD_UNPACK": "yes", **env}


def fetch(where, server, data, what="fetch", **env):
    r = subprocess.run(["python3", FETCH, what], capture_output=True, text=True, timeout=120, env=environment(where, server, data, **env))
    return r.returncode, (where / "words").read_text() if (where / "words").exists() else r.stderr


@pytest.mark.feature("D6.3", "D6.4")
def test_a_copy_is_whole_closed_and_kept(tmp_path):
    data = packed(a="text", b="#!")
    with Server(data) as s:
        assert fetch(tmp_path, s, data, TD_GROUP="lab") == (0, "6 bytes")
        copy = tmp_path / "data/set"
        st = copy.stat()
        assert (st.st_mode & 0o7777, st.st_uid, st.st_gid) == (0o750, 0, 4242) and (copy / "a").stat().st_mode & 0o7777 == 0o555
        assert sorted(os.listdir(tmp_path / "data")) == [".tandem", "set"] and os.listdir(tmp_path / "data/.tandem") == ["set.is"]
        assert (tmp_path / "data/.tandem").stat().st_mode & 0o777 == 0o700
        assert fetch(tmp_path, s, data, TD_GROUP="lab") == (0, "it is here already") and len(s.asked) == 1
        os.truncate(copy / "a", 2)  # as a crash of the machine leaves it
        assert fetch(tmp_path, s, data, TD_GROUP="lab") == (0, "6 bytes") and (copy / "a").read_text() == "text"
        other = packed(c="new")
    with Server(other) as s:
        assert fetch(tmp_path, s, other, TD_PRINT="p2") == (0, "3 bytes")
        assert os.listdir(copy) == ["c"] and copy.stat().st_mode & 0o7777 == 0o755
        assert fetch(tmp_path, s, other, "remove") == (0, "removed") and os.listdir(tmp_path / "data") == [".tandem"] and os.listdir(tmp_path / "data/.tandem") == []
        code, words = fetch(tmp_path, s, other, TD_GROUP="nobodys")
        assert code == 3 and "no group \"nobodys\"" in words


@pytest.mark.feature("D6.4")
def test_a_hostile_source_is_bounded(tmp_path):
    link, up = tarfile.TarInfo("link"), tarfile.TarInfo("out")
    link.type, link.linkname, up.type, up.linkname = tarfile.SYMTYPE, "../../../../etc/shadow", tarfile.SYMTYPE, "/etc"
    bomb, out = packed(zeros="\0" * (2 << 20)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a", "text")
    locked = bytearray(out.getvalue())
    for at in (6, locked.index(b"PK\1\2") + 8):
        locked[at] |= 1  # "with a password"
    for data, words in ((packed(**{"../\udcff": "x"}), "outside the destination"), (bytes(locked), "password"),
                        (packed(**{"../out": "x"}), "outside the destination"), (packed(link), "outside the destination"),
                        (packed(up), "absolute path"), (bomb, "larger than maxSize"), (os.urandom(2 << 20), "larger than maxSize"), (b"no archive", "neither a tar nor a zip")):
        with Server(data) as s:
            code, said = fetch(tmp_path, s, data)
        assert code == 3 and words in said, said
        assert os.listdir(tmp_path / "data") == [".tandem"] and os.listdir(tmp_path / "data/.tandem") == []
    with Server(b"", endless=True) as s:
        code, said = fetch(tmp_path, s, b"")
    assert code == 3 and "larger than maxSize" in said
    with Server(b"other") as s:
        code, said = fetch(tmp_path, s, b"this")
    assert code == 3 and "is not what was declared" in said and os.listdir(tmp_path / "data/.tandem") == []


@pytest.mark.feature("D6.4")
def test_a_killed_fetch_goes_on_where_it_was(tmp_path):
    data = packed(a="x" * 100, b=os.urandom(150000).hex())
    with Server(data, stop_at=100000) as s:
        p = subprocess.Popen(["python3", FETCH, "fetch"], env=environment(tmp_path, s, data), stdout=subprocess.DEVNULL)
        part = tmp_path / "data/.tandem/set.part/file"
        wait_for("a part has come", lambda: s.stopped.is_set() and part.exists() and part.stat().st_size > 0)
        p.send_signal(signal.SIGKILL)
        p.wait(60)
        had = part.stat().st_size
        assert not (tmp_path / "data/set").exists()
        s.go.set()
        assert fetch(tmp_path, s, data)[0] == 0 and s.asked == [None, f"bytes={had}-"]
    assert len((tmp_path / "data/set/b").read_text()) == 300000


@pytest.mark.feature("D6.4")
def test_what_is_nested_deep_is_removed_again(tmp_path):
    data = packed(**{"d/" * 1500 + "f": "x"})
    with Server(data) as s:
        assert fetch(tmp_path, s, data)[0] == 0
        assert fetch(tmp_path, s, data, "remove") == (0, "removed") and os.listdir(tmp_path / "data") == [".tandem"] and os.listdir(tmp_path / "data/.tandem") == []


@pytest.mark.feature("D6.4")
def test_a_disk_that_is_full_is_left_as_it_was(tmp_path):
    data = os.urandom(400 << 10)
    (tmp_path / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", tmp_path / "data"], check=True, timeout=60)
    try:
        with Server(data) as s:
            code, said = fetch(tmp_path, s, data, TD_UNPACK="")
        assert code == 3 and "disk is full" in said and os.listdir(tmp_path / "data/.tandem") == [], said
    finally:
        subprocess.run(["umount", tmp_path / "data"], check=True, timeout=60)


class Cut(http.server.BaseHTTPRequestHandler):
    """A server whose answers never come to their end: with chunks it goes on where it is asked to, without it begins anew each time."""
    data, chunks, protocol_version = bytes(range(256)) * 40, False, "HTTP/1.1"

    def do_GET(self):
        asked = self.headers.get("Range")
        at = int(asked[len("bytes="):-1]) if asked and self.chunks else 0
        piece = self.data[at:at + 4000]
        self.send_response(206 if at else 200)
        self.send_header("Connection", "close")
        self.close_connection = True
        if self.chunks:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) + (b"0\r\n\r\n" if at + len(piece) == len(self.data) else b""))
        else:
            self.send_header("Content-Length", str(len(self.data)))
            self.end_headers()
            self.wfile.write(piece)

    def log_message(self, *_):
        pass


@pytest.mark.feature("D6.4")
@pytest.mark.parametrize("chunks", [True, False])
def test_what_is_cut_goes_on_and_what_comes_no_further_ends(tmp_path, monkeypatch, chunks):
    program = runpy.run_path(str(FETCH))
    waits = []
    monkeypatch.setattr("time.sleep", lambda s: waits.append(s) if len(waits) < 20 else pytest.fail("it goes on for ever"))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Handler", (Cut,), {"chunks": chunks})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/set"
            if chunks:
                program["download"](url, sha(Cut.data), tmp_path / "file", 1 << 20)
                assert (tmp_path / "file").read_bytes() == Cut.data and len(waits) == 2
            else:
                with pytest.raises(OSError, match=f"4000 of {len(Cut.data)} bytes came"):
                    program["download"](url, sha(Cut.data), tmp_path / "file", 1 << 20)
        finally:
            server.shutdown()


@pytest.mark.feature("D6.3", "D6.4")
def test_a_directory_is_copied_and_its_links_lead_nowhere(tmp_path):
    there = tmp_path / "there"
    (there / "sub").mkdir(parents=True)
    (there / "sub/file").write_text("text")
    (there / "in").symlink_to("sub/file")
    (there / "out").symlink_to("/etc/shadow")
    (there / "sub/deep").mkdir()
    (there / "sub/deep/top").symlink_to("../..")
    (there / "around").symlink_to("sub/deep/../file")
    (there / "above").symlink_to("sub/deep/top/../..")  # by its words it is inside
    (there / "sideways").symlink_to("../tree/in")  # inside only as long as it is not renamed
    os.mkfifo(there / "fifo")
    (tmp_path / "way").symlink_to(there)
    with Server(b"") as s:
        assert fetch(tmp_path, s, b"", TD_URL="", TD_PATH=str(there))[0] == 0
        copy = tmp_path / "data/set"
        assert sorted(os.listdir(copy)) == ["around", "in", "sub"] and (copy / "in").read_text() == "text"
        assert (copy / "around").read_text() == "text" and os.readlink(copy / "sub/deep/top") == "../.."
        code, said = fetch(tmp_path, s, b"", TD_URL="", TD_PRINT="p2", TD_PATH=str(tmp_path / "way"))
        assert code == 3 and "way: " in said and (copy / "in").exists()


@contextlib.contextmanager
def declared(pool, name, source, **spec):
    pool.apply({"apiVersion": "tandem.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": name, "namespace": "slurm"}, "spec": {"clusterName": "main", "source": source, **spec}})
    try:
        yield
    finally:
        pool.kubectl("delete", "dataset", "-n", "slurm", name, "--ignore-not-found")
        wait_for("no node has anything of it", lambda: not any(holds(pool, n, name) for n in pool.nodes), 240)


def holds(pool, node, name):
    return pool.get("node", node)["metadata"].get("annotations", {}).get(f"data.tandem.dev/{name}")


def features(pool, node):
    return pool.shell("sinfo", "-h", "-n", node, "-o", "%b").strip().split(",")


@pytest.mark.embedded
@pytest.mark.feature("D6.3", "D6.4", "D6.5")
def test_nodes_hold_a_copy_before_a_job_comes(pool, tmp_path):
    """One node alone holds it: jobs go there, who may not read it does not, and it goes when nobody declares it and no job is there."""
    first, second = pool.nodes[:2]
    data = packed(text="of the lab\n", more=os.urandom(150000).hex())
    with Server(data, stop_at=100000) as s, declared(pool, "lab", {"http": {"url": s.at("tandem-host"), "sha256": sha(data), "unpack": True}}, group="researcher", maxSize="1Mi",
                                                    nodeSelector={"kubernetes.io/hostname": second}):
        wait_for("a part has come", s.stopped.is_set)
        refused = pool.as_user("researcher", "sbatch", "-C", "data.lab", "--wrap", "true", check=False)
        assert "Invalid feature" in refused.stderr
        # Its fetcher ends in the middle: the next one goes on.
        fetcher = next(p["metadata"]["name"] for p in pool.items("pods", "-n", "slurm") if p["metadata"].get("annotations", {}).get("tandem.dev/dataset") == "lab")
        pool.kubectl("delete", "pod", "-n", "slurm", fetcher, "--grace-period=0", "--force")
        # Not before the next one asks: the first may live a while longer, and would get the rest.
        wait_for("the next one asks", lambda: len(s.asked) == 2)
        s.go.set()
        wait_for("the node has it", lambda: "data.lab" in features(pool, second))
        assert len(s.asked) == 2 and s.asked[0] is None and (s.asked[1] or "bytes=0-").startswith("bytes=")
        wait_for("the object says so", lambda: pool.get("dataset", "-n", "slurm", "lab")["status"].get("nodes") == second)
        assert not holds(pool, first, "lab") and "data.lab" not in features(pool, first)

        run = ("srun", "-Q", "--mem=50M", "-D", "/")
        assert pool.as_user("researcher", *run, "-C", "data.lab", "sh", "-c", "hostname; cat /datasets/lab/text").stdout == f"{second}\nof the lab\n"
        assert pool.as_user("researcher", *run, "--prefer=data.lab", "hostname").stdout == f"{second}\n"
        mallory = pool.as_user("pods", *run, "-C", "data.lab", "sh", "-c", "cat /datasets/lab/text; ls /datasets/.tandem; touch /datasets/mine", check=False)
        assert mallory.returncode and mallory.stderr.count("Permission denied") + mallory.stderr.count("Read-only file system") == 3 and "of the lab" not in mallory.stdout
        with contextlib.ExitStack() as busy:
            job = pool.as_user("researcher", "sbatch", "--parsable", "-C", "data.lab", "--exclusive", "--mem=50M", "-o", "/dev/null", "--wrap", "cat /datasets/lab/text && exec sleep 100000").stdout.strip()
            busy.callback(pool.shell, "scancel", job)
            wait_for("the job runs", lambda: pool.job(job).get("JobState") == "RUNNING")
            # Nobody waits for the node for the sake of a preference.
            assert pool.as_user("researcher", *run, "--prefer=data.lab", "hostname").stdout != f"{second}\n"
            pool.kubectl("delete", "dataset", "-n", "slurm", "lab")
            wait_for("no job is sent there any more", lambda: "data.lab" not in features(pool, second))
            assert holds(pool, second, "lab").startswith("gone.")
            assert pool.as_user("researcher", "srun", "-Q", f"--jobid={job}", "--overlap", "--mem=0", "-D", "/", "cat", "/datasets/lab/text").stdout == "of the lab\n"
        wait_for("the copy goes with the job", lambda: not holds(pool, second, "lab"), 240)
    assert pool.kubectl("exec", "-n", "slurm", f"main-pool-{second}", "-c", "slurmd", "--", "ls", "-A", "/datasets", "/datasets/.tandem").split() == ["/datasets:", ".tandem", "/datasets/.tandem:"]


@pytest.mark.embedded
@pytest.mark.feature("D6.3", "D6.4", "D6.5", "E1.9")
def test_pods_and_runs_go_where_it_lies_and_find_it(pool, tmp_path):
    """One data set is everybody's and one a group's; each lies on one node."""
    first, second = pool.nodes[:2]
    data = packed(text="of all\n")
    source = {"http": {"url": "", "sha256": sha(data), "unpack": True}}
    with Server(data) as s, contextlib.ExitStack() as both:
        source["http"]["url"] = s.at("tandem-host")
        both.enter_context(declared(pool, "open", source, nodeSelector={"kubernetes.io/hostname": second}))
        both.enter_context(declared(pool, "closed", source, nodeSelector={"kubernetes.io/hostname": first}, group="researcher"))
        wait_for("the nodes have them", lambda: "data.open" in features(pool, second) and "data.closed" in features(pool, first))
        try:
            for name, command in (("open", "cat /datasets/open/text; hostname; ls /datasets; touch /datasets/open/mine"), ("closed", "cat /datasets/closed/text")):
                pod = pool.pod(f"wants-{name}", command=["sh", "-c", command], restartPolicy="Never")
                pod["metadata"].setdefault("annotations", {})["slurm.tandem.dev/datasets"] = name
                pool.apply(pod)
            wait_for("the one has run", lambda: pool.phase("wants-open") in ("Failed", "Succeeded"))
            assert pool.get("pod", "wants-open")["spec"]["nodeName"] == second
            said = pool.kubectl("logs", "wants-open").split("\n")
            assert said[:3] == ["of all", "wants-open", "open"] and "Read-only file system" in said[3]

            def told():
                p = pool.get("pod", "wants-closed")
                return [c["state"].get("waiting", {}).get("message", "") for c in p["status"].get("containerStatuses", [])], p["spec"].get("nodeName")
            wait_for("the other is told why not", lambda: told() == (["data set closed is its group's alone: pods find those that everybody may read"], first))
        finally:
            pool.kubectl("delete", "pod", "wants-open", "wants-closed", "--ignore-not-found", "--grace-period=0")

        me = Laptop(pool, tmp_path / "laptop", "researcher")
        d = tmp_path / "project"
        d.mkdir()
        (d / "tandem.yaml").write_text("data: {mine: /datasets/closed}\nconstraint: r0|r1\nrun: cat $TANDEM_DATA/mine/text; hostname\n")
        r = me.run("submit", "-f", cwd=d)
        assert r.stdout.endswith(f"of all\n{first}\n"), r.stdout
        # By the name that TACC's files have, and where they look for it.
        (d / "tandem.yaml").unlink()
        (d / "tuxiv.config").write_text("entrypoint: ['cat ${TACC_USERDIR}/Open/text $TANDEM_DATA/Open/text; hostname']\ndatasets: [Open]\n")
        r = me.run("submit", "-f", cwd=d)
        assert r.stdout.endswith(f"of all\nof all\n{second}\n"), r.stdout
