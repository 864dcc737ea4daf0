"""Data sets that lie in a bucket of S3 (docs/datasets.md), against a server of others'."""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import time

import pytest

from harness import wait_for
from laptop import cutting, me  # noqa: F401
from s3server import S3Server

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "src/operator/programs"
BIG = bytes(range(256)) * 1200


def stamp(*files):
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    s = S3Server(tmp_path_factory.mktemp("s3"), stamp)
    try:
        s.put("models", {**{f"llama/part-{i:02}": f"part {i}".encode() for i in range(11)}, "llama/": b"", "llama/sub/a b+c~ü.txt": b"odd", "llama2/other": b"not this", "llama/empty": b""})
        s.put("bulk", {"set/big": BIG, "set/small": b"small"}, "public-read")
        s.put("twice", {"a": b"file", "a/b": b"below"})
        s.put("hostile", {"x/../../../etc/passwd": b"root"})
        s.count()
        yield s
    finally:
        s.stop()


@pytest.fixture
def keys(tmp_path, s3):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/accessKeyID").write_text(s3.key)
    (tmp_path / "keys/secretAccessKey").write_text(f"{s3.secret}\n")
    return tmp_path / "keys"


def program(where):
    """As the pod has it: one text."""
    (where / "program.py").write_text(f"{(PROGRAMS / 's3.py').read_text()}\n{(PROGRAMS / 'dataset.py').read_text()}")
    return where / "program.py"


def fetch(where, s3, bucket, **env):
    os.makedirs(where / "data", exist_ok=True)
    r = subprocess.run(["python3", program(where), "fetch"], capture_output=True, text=True, timeout=120,
                       env={"PATH": os.environ["PATH"], "TD_NAME": "set", "TD_DATA": str(where / "data"), "TD_PRINT": "p1", "TD_MAX": str(1 << 20), "TD_LAST_WORDS": str(where / "words"),
                            "TD_S3": s3.at(), "TD_BUCKET": bucket, **env})
    assert s3.secret not in r.stdout + r.stderr
    return r.returncode, (where / "words").read_text()


def tree(top):
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()}


@pytest.mark.feature("D6.3")
def test_requests_are_signed_as_amazons_own(tmp_path):
    made = runpy.run_path(str(program(tmp_path)))["S3"]
    # The example of Amazon's documentation, and what its own client (botocore 1.44) makes of a name with everything in it.
    example = made("https://examplebucket.s3.amazonaws.com", "us-east-1", "", ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None))
    signed = example.signed("/", "max-keys=2&prefix=J", time.gmtime(1369353600), {})["Authorization"]
    assert signed.endswith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")


@pytest.mark.feature("D6.3", "D6.4")
def test_a_prefix_of_a_bucket_is_a_copy(tmp_path, s3, keys):
    want = {**{f"part-{i:02}": f"part {i}".encode() for i in range(11)}, "sub/a b+c~ü.txt": b"odd", "empty": b""}
    code, said = fetch(tmp_path, s3, "models", TD_PREFIX="llama", TD_S3_KEYS=str(keys))
    assert (code, said) == (0, f"{sum(map(len, want.values()))} bytes")
    copy = tmp_path / "data/set"
    assert tree(copy) == want and (copy / "part-01").stat().st_mode & 0o7777 == 0o444 and os.listdir(tmp_path / "data/.tandem") == ["set.is"]
    assert fetch(tmp_path, s3, "models", TD_PREFIX="llama/")[1] == "it is here already"
    # Without keys, where the bucket is everybody's; only there.
    assert fetch(tmp_path, s3, "bulk", TD_PREFIX="set", TD_PRINT="p2")[0] == 0 and tree(copy) == {"big": BIG, "small": b"small"}
    for bucket, words, more in (("hostile", "no file can have this name", {}), ("twice", "a file and a directory", {}), ("models", "nothing below the prefix \"nothing/\"", {"TD_PREFIX": "nothing"}),
                                ("absent", "404 NoSuchBucket", {}), ("models", "403 FORBIDDEN: see that the keys are right and may list the bucket and read it; none were given", {}), ("bulk", "larger than maxSize", {"TD_MAX": "1000"}), ("models", "source.s3.secret: there is no such Secret", {"TD_S3_KEYS": "/none"})):
        code, said = fetch(tmp_path, s3, bucket, **{"TD_PRINT": "p3", **more})
        assert code == 3 and words in said, said
        assert set(tree(copy)) == {"big", "small"} and not (tmp_path / "data/.tandem/set.part").exists()


@pytest.mark.feature("D6.3")
def test_keys_count_and_are_not_said(tmp_path, s3, keys):
    assert fetch(tmp_path, s3, "models", TD_PREFIX="llama2", TD_S3_KEYS=str(keys)) == (0, "8 bytes")
    (keys / "secretAccessKey").write_text("not-the-secret")
    code, said = fetch(tmp_path, s3, "models", TD_PREFIX="llama2", TD_S3_KEYS=str(keys), TD_PRINT="p2")
    assert code == 3 and "403 SignatureDoesNotMatch" in said and "see that the keys are right" in said and "not-the-secret" not in said


@pytest.mark.feature("D6.4")
def test_what_is_cut_goes_on_at_its_byte_and_what_is_wrong_is_told(tmp_path, s3, monkeypatch):
    """An object that never comes whole in one time, and one that came already is not asked for again."""
    p = runpy.run_path(str(program(tmp_path)))
    monkeypatch.setattr("time.sleep", lambda s: None)
    own = tmp_path / "objects"

    def get(at, to):
        (tmp_path / to).mkdir()
        p["s3_fetch"](p["S3"](at, "us-east-1", "bulk", None), "set", str(own), str(tmp_path / to), p["Room"](1 << 20))
    with cutting(s3.at().removeprefix("http://"), [None, *[30000] * 20]) as (proxy, cuts):
        with contextlib.suppress(OSError):
            get(f"http://{proxy}", "one")
    assert cuts
    big, small = (next(f for f in own.iterdir() if f.name.startswith(hashlib.sha256(f'set/{n}\n{hashlib.md5(d).hexdigest()}\n{len(d)}'.encode()).hexdigest())) for n, d in (("big", BIG), ("small", b"small")))
    assert 0 < big.stat().st_size and small.suffix == ""
    before = len(s3.asked("/bulk/set/small"))
    get(s3.at(), "two")
    assert tree(tmp_path / "two") == {"big": BIG, "small": b"small"} and len(s3.asked("/bulk/set/small")) == before and 206 in s3.asked("/bulk/set/big")
    # A machine that crashed may have the name of a file, and less than all of it.
    next(f for f in own.iterdir() if f.stat().st_size == len(BIG)).write_bytes(BIG[:70])
    get(s3.at(), "three")
    assert tree(tmp_path / "three") == {"big": BIG, "small": b"small"}
    with pytest.raises(OSError, match="not what its ETag says"):  # what had come was other bytes
        (tmp_path / "part").write_bytes(b"x" * 1000)
        p["S3"](s3.at(), "us-east-1", "bulk", None).download("set/big", len(BIG), hashlib.md5(BIG).hexdigest(), str(tmp_path / "part"))
    with pytest.raises(OSError, match="it has changed while it was fetched"):
        p["S3"](s3.at(), "us-east-1", "bulk", None).download("set/big", len(BIG), "0" * 32, str(tmp_path / "new"))


def listed(*objects, more=""):
    contents = "".join(f"<Contents><Key>{k}</Key><Size>{size}</Size><ETag>{etag}</ETag></Contents>" for k, size, etag in objects)
    return f"<ListBucketResult>{contents}{more}</ListBucketResult>".encode()


@pytest.mark.feature("D6.4")
def test_a_list_that_lies_is_refused(tmp_path, monkeypatch):
    """Before anything is fetched: a size below nothing would make room for more than maxSize."""
    p = runpy.run_path(str(program(tmp_path)))
    s3 = p["S3"]("http://127.0.0.1:9", "us-east-1", "lies", None)
    known = p["S3"].list.__globals__
    monkeypatch.setitem(known, "S3_OBJECTS_MOST", 20)

    def fetched(get):
        monkeypatch.setattr(p["S3"], "get", get)
        (tmp_path / "tree").mkdir(exist_ok=True)
        with pytest.raises(p["S3Wrong"]) as e:
            p["s3_fetch"](s3, "", str(tmp_path / "own"), str(tmp_path / "tree"), p["Room"](1000))
        return str(e.value)
    for text, words in ((listed(("a", -5000, "e"), ("b", 5000, "e")), 'object a: its size is "-5000"'), (listed(("a", "5k", "e")), 'its size is "5k"'), (listed(("a", "9" * 5000, "e")), "its size is"),
                        (listed(("a", 5, "x\nHost: y")), "its ETag cannot be one"), (listed(("/".join("abcdefghijklmnopqrstuvwxyz"), 1, "e")), "more than 20 objects or directories"),
                        (b'<?xml version="1.0" encoding="utf-7"?><a/>', "is no XML"), (b'<?xml version="1.0" encoding="gb2312"?><a/>', "is no XML")):
        said = fetched(lambda *_, text=text, **__: io.BytesIO(text))
        assert words in said, said
    pages = iter(range(1000))
    assert "has no end" in fetched(lambda *_, **__: io.BytesIO(listed(more=f"<IsTruncated>true</IsTruncated><NextContinuationToken>t{next(pages)}</NextContinuationToken>")))
    assert next(pages) < 30


@pytest.mark.feature("D6.3")
def test_keys_that_are_not_well_written_are_not_said(tmp_path, monkeypatch):
    p = runpy.run_path(str(program(tmp_path)))
    keys = {"accessKeyID": "AKID", "secretAccessKey": "hush", "sessionToken": "half-a-\n-token"}
    with pytest.raises(p["S3Wrong"], match="sessionToken has a character") as e:
        p["s3_keys"](keys.get)
    assert "half" not in str(e.value)
    run = tmp_path / "run.py"
    run.write_text(f"{(PROGRAMS / 's3.py').read_text()}\n{(PROGRAMS.parents[1] / 'gateway/programs/data.py').read_text()}")
    d = runpy.run_path(str(run))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    for text in (b"aws_secret_access_key = hush\n", b"[default]\nhush\n", b"[default]\naws_secret_access_key = hush\xff\n"):
        (tmp_path / ".aws/credentials").write_bytes(text)
        with pytest.raises(d["Wrong"], match="cannot be read") as e:
            d["keys"]("")
        assert "hush" not in str(e.value) and e.value.__suppress_context__


@pytest.mark.embedded
@pytest.mark.feature("D6.3", "D6.4")
def test_a_node_holds_what_a_bucket_has(pool, s3):
    node = pool.nodes[1]
    def secret(word):
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bucket-keys", "namespace": "slurm"}, "stringData": {"accessKeyID": s3.key, "secretAccessKey": word, "more": "nobody's"}}
    spec = {"clusterName": "main", "maxSize": "1Mi", "group": "researcher", "nodeSelector": {"kubernetes.io/hostname": node},
            "source": {"s3": {"endpoint": s3.at("tandem-host"), "bucket": "models", "prefix": "llama2", "secret": "bucket-keys"}}}
    def pods():
        return [p for p in pool.items("pods", "-n", "slurm") if p["metadata"].get("annotations", {}).get("tandem.dev/dataset") == "llama"]
    pool.apply(secret("not-the-secret"), {"apiVersion": "tandem.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "llama", "namespace": "slurm"}, "spec": spec})
    try:
        # A pod that another try would not help stays for a while; one that has fetched goes at once.
        message = wait_for("it says why", lambda: pool.get("dataset", "llama", "-n", "slurm").get("status", {}).get("message"))
        fetcher, = pods()
        assert "SignatureDoesNotMatch" in message and "not-the-secret" not in message + str(fetcher)
        assert [i["key"] for v in fetcher["spec"]["volumes"] if v["name"] == "s3" for i in v["secret"]["items"]] == ["accessKeyID", "secretAccessKey", "sessionToken"]
        pool.apply(secret(s3.secret))
        pool.kubectl("patch", "dataset", "-n", "slurm", "llama", "--type=merge", "-p", json.dumps({"spec": {"source": {"s3": {"revision": "2"}}}}))
        wait_for("the node has it", lambda: "data.llama" in pool.shell("sinfo", "-h", "-n", node, "-o", "%b"))
        assert pool.as_user("researcher", "srun", "-Q", "--mem=50M", "-D", "/", "-C", "data.llama", "cat", "/datasets/llama/other").stdout == "not this"
    finally:
        pool.kubectl("delete", "dataset", "-n", "slurm", "llama")
        wait_for("no node has anything of it", lambda: not any(k.startswith("data.tandem.dev/llama") for n in pool.nodes for k in pool.get("node", n)["metadata"].get("annotations", {})) and not pods(), 240)
        pool.kubectl("delete", "secret", "-n", "slurm", "bucket-keys")


@pytest.mark.embedded
@pytest.mark.feature("D6.3", "E1.4")
def test_a_run_finds_what_a_bucket_has(pool, s3, me, tmp_path):
    """With the keys that lie in the person's home, where only his own job reads them."""
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[lab]\naws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}\n")
    me.run("upload", credentials, ".aws/credentials")
    d = tmp_path / "project"
    d.mkdir()
    llama = {"s3": "s3://models/llama2", "endpoint": s3.at("tandem-host"), "profile": "lab"}

    def submit(**data):
        (d / "tandem.yaml").write_text(json.dumps({"name": "learn", "run": "cat $TANDEM_DATA/llama/other; env", "data": {"llama": data}}))
        return me.run("submit", "-f", cwd=d, check=False)
    try:
        r = submit(**llama)
        assert r.returncode == 0 and "not this" in r.stdout and s3.secret not in r.stdout + r.stderr, r
        asked = len(s3.asked("/models/llama2/other"))
        assert submit(**llama).returncode == 0 and len(s3.asked("/models/llama2/other")) == asked  # it is there
        r = submit(**{**llama, "profile": "none", "revision": "2"})
        assert r.returncode == 1 and "~/.aws/credentials on the cluster has no [none]" in r.stderr, r
        for data, words in (({"s3": "s3://models/llama2"}, "endpoint: say which server of S3"), ({**llama, "path": "/x"}, "path, dataset, url, git or s3, one of them"), ({"path": "/x", "region": "r"}, "go with s3")):
            r = submit(**data)
            assert r.returncode == 1 and words in r.stderr, r
    finally:
        for made in me.api("GET", "/data")[1]["made"]:
            me.api("DELETE", f"/data/{made['key']}")
        shutil.rmtree(os.path.join(pool.shared_dir, "researcher/.aws"))
