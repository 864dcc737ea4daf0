"""tandem image import: layouts and archives as tools write them, hostile ones, and pods that run from them."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import time

import pytest

from harness import KEEP, wait_for
from ociforge import ARCH, Layout, busybox, docker_archive, entry, layer, sha
from podplane import plane, state  # noqa: F401 (plane is a fixture)

pytestmark = pytest.mark.feature("F1.4")


class Store:
    def __init__(self, tandem, path):
        self.tandem, self.dir = tandem, path
        self.env = {**KEEP, "TANDEM_HOME": f"{path}/home", "TANDEM_IMAGES": f"{path}/images", "ASAN_OPTIONS": "detect_leaks=1"}

    def run(self, *argv):
        return subprocess.run([self.tandem, "image", *argv], env=self.env, capture_output=True, text=True, timeout=120)

    def take(self, *argv):
        """Imports and returns (the image's name, its root)."""
        r = self.run("import", *argv)
        assert r.returncode == 0 and not r.stderr, r.stderr
        name = r.stdout.removeprefix("imported ").strip()
        return name, pathlib.Path(self.list()[name]["rootfs"])

    def refuse(self, *argv):
        """The message; nothing of the image may be left."""
        before = self.tree()
        r = self.run("import", *argv)
        assert r.returncode == 1 and not r.stdout and "Sanitizer" not in r.stderr, (r.returncode, r.stdout, r.stderr)
        assert self.tree() == before
        return r.stderr

    def list(self):
        return {i["name"]: i for i in json.loads(self.run("list", "-o", "json").stdout)["items"]}

    def tree(self):
        return sorted(str(p.relative_to(self.dir)) for p in pathlib.Path(self.dir, "images").rglob("*") if p.name != ".lock")

    def meta(self, root):
        return json.loads((root.parent / "image.json").read_text())


@pytest.fixture
def store(tandem):
    path = tempfile.mkdtemp(prefix="td-t-img-", dir="/var/tmp")
    yield Store(tandem, path)
    shutil.rmtree(path)


def files(root):
    """{path: content, link target or "dir"}"""
    out = {}
    for p in sorted(root.rglob("*")):
        out[str(p.relative_to(root))] = "-> " + os.readlink(p) if p.is_symlink() else "dir" if p.is_dir() else "pipe" if p.is_fifo() else p.read_text(errors="replace")
    return out


ROOT = layer(entry("usr", kind="dir"), entry("usr/x", "x"))


# ---- what is taken ----
def test_layers_and_whiteouts(store, tmp_path):
    """Three layers, each compressed in another way: later ones replace, hide, and hide all."""
    one = layer(entry("usr", kind="dir", mode=0o711), entry("usr/a", "a1", uid=7, gid=8), entry("usr/b", "b1"), entry("etc", kind="dir"), entry("etc/conf.d", kind="dir"), entry("etc/conf.d/old", "old"),
                entry("etc/conf.d/deep/er", "er"), entry("lib", kind="sym", link="usr/lib"), entry("usr/lib", kind="dir"), entry("tool", "#!", mode=0o4755, pax={"SCHILY.xattr.user.k": "v"}),
                entry("was-dir/f", "f"), entry("was-file", "f"), entry("opaque/a/1", "1"), entry("opaque/a/2", "2"), entry("opaque/b", "b"))
    two = layer(entry("./usr/./a", "a2"), entry("usr/.wh.b"), entry("etc/.wh.conf.d"), entry("lib/so", "so"), entry("was-dir", "now a file"), entry("was-file", kind="dir"), entry("was-file/in", "in"),
                entry("opaque/.wh..wh..opq"), entry("opaque/a/3", "3"), entry("hard", kind="hard", link="usr/a"), entry("/abs/path", "abs"), entry("gone", "gone"))
    # In one layer: what it hides is what is below, wherever in the tar it says so.
    three = layer(entry("etc/conf.d/new", "new"), entry("etc/.wh.conf.d"), entry(".wh.gone"), entry("usr/.wh.none"), entry("dev/null", kind="char", device=(1, 3)), entry("disk", kind="block", device=(8, 0)),
                  entry("pipe", kind="fifo", mode=0o600), entry("x" * 200 + "/" + "y" * 200, "long"), entry(".wh..wh.aufs", "x"))
    l = Layout()
    l.image([one, two, three], "docker.io/acme/three:1", pack=["+gzip", "+zstd", ""], Env=["A=b", "PATH=/bin"], Entrypoint=["/tool"], Cmd=["x", "y"], User="7:8", WorkingDir="/was-file")
    name, root = store.take(l.directory(tmp_path / "layout"))
    assert name == "acme/three:1"
    assert files(root) == {"usr": "dir", "usr/a": "a2", "etc": "dir", "etc/conf.d": "dir", "etc/conf.d/new": "new", "lib": "-> usr/lib", "usr/lib": "dir", "usr/lib/so": "so", "tool": "#!",
                   "was-dir": "now a file", "was-file": "dir", "was-file/in": "in", "opaque": "dir", "opaque/a": "dir", "opaque/a/3": "3", "hard": "a2", "abs": "dir", "abs/path": "abs", "dev": "dir",
                   "x" * 200: "dir", "x" * 200 + "/" + "y" * 200: "long", "pipe": "pipe"}
    tool, a, pipe = (os.lstat(root / n) for n in ("tool", "usr/a", "pipe"))
    assert stat.S_IMODE(tool.st_mode) == 0o4755 and os.getxattr(root / "tool", "user.k") == b"v" and tool.st_mtime == 1750000000
    assert (a.st_uid, a.st_gid, a.st_nlink) == (0, 0, 2) and stat.S_ISFIFO(pipe.st_mode) and stat.S_IMODE(os.lstat(root / "usr").st_mode) == 0o711
    m = store.meta(root)
    assert (m["env"], m["entrypoint"], m["cmd"], m["user"], m["workdir"]) == (["A=b", "PATH=/bin"], ["/tool"], ["x", "y"], "7:8", "/was-file")
    assert m["key"] == l.manifests[0]["digest"].removeprefix("sha256:")
    # Its programs run as root for whoever may look: nobody but root may.
    assert stat.S_IMODE(os.lstat(root.parent).st_mode) == 0o700
    assert store.run("list").stdout.splitlines()[1].split()[0] == "acme/three:1"
    assert store.run("remove", "acme/three:1").returncode == 0 and not store.list()


@pytest.mark.parametrize("pack", ["", "+gzip", "+zstd", "+xz", "+bzip2"])
def test_archives(store, tmp_path, pack):
    l = Layout()
    l.image([ROOT], "acme/one:1", Cmd=["/usr/x"])
    name, root = store.take(l.archive(tmp_path / "a.tar", pack))
    assert name == "acme/one:1" and files(root) == {"usr": "dir", "usr/x": "x"} and store.meta(root)["cmd"] == ["/usr/x"]
    assert store.take("other:2", str(tmp_path / "a.tar"))[0] == "other:2"
    # The tar of a root says nothing of itself.
    (tmp_path / "root.tar").write_bytes(__import__("ociforge").PACK[pack](ROOT))
    assert "tandem image import NAME FILE" in store.refuse(str(tmp_path / "root.tar"))
    name, root = store.take("plain", str(tmp_path / "root.tar"))
    assert name == "plain:latest" and files(root) == {"usr": "dir", "usr/x": "x"} and store.meta(root)["cmd"] == ["/bin/sh"]
    assert sorted(store.list()) == ["acme/one:1", "other:2", "plain:latest"]


@pytest.mark.parametrize("links", [False, True])
def test_docker_archives(store, tmp_path, links):
    more = layer(entry("usr/y", "y"), entry("usr/.wh.x"))
    path = docker_archive(tmp_path / "d.tar", [ROOT, more, ROOT], ["acme/d:1", "acme/d:latest"], links, Entrypoint=["/usr/x"])
    name, root = store.take(path)
    assert name == "acme/d:1" and files(root) == {"usr": "dir", "usr/x": "x", "usr/y": "y"} and store.meta(root)["entrypoint"] == ["/usr/x"]
    other = docker_archive(tmp_path / "o.tar", [ROOT], ["acme/o:1"], arch="s390x")
    assert f"the image is for linux/s390x, this machine is linux/{ARCH}" in store.refuse(other)


def test_archives_of_real_tools(store, tmp_path):
    """GNU tar's own forms, a docker archive beside the layout as deploy/images writes both, and what lies on this machine."""
    root = tmp_path / "root"
    (root / "usr" / ("d" * 150)).mkdir(parents=True)
    (root / "usr" / ("d" * 150) / ("f" * 150)).write_text("deep")
    os.symlink("t" * 140, root / "usr/link")
    os.link(root / "usr" / ("d" * 150) / ("f" * 150), root / "usr/again")
    for form in ("gnu", "posix", "ustar"):
        if form == "ustar":
            shutil.rmtree(root / "usr" / ("d" * 150))
            (root / "usr/link").unlink()
        subprocess.run(["tar", "-C", root, f"--format={form}", "-cf", tmp_path / f"{form}.tar", "."], check=True)
        _, got = store.take(f"{form}:1", str(tmp_path / f"{form}.tar"))
        assert files(got) == files(root)
    subprocess.run(["truncate", "-s", "1G", root / "usr/holes"], check=True)
    subprocess.run(["tar", "-C", root, "--sparse", "-cf", tmp_path / "sparse.tar", "."], check=True)
    assert "sparse" in store.refuse("sparse:1", str(tmp_path / "sparse.tar"))


def test_the_image_for_this_machine_is_taken(store, tmp_path):
    l = Layout()
    other = "arm64" if ARCH != "arm64" else "amd64"
    many = []
    l.image([layer(entry("usr/other", "o"))], arch=other, to=many)
    l.image([ROOT], to=many)
    l.image([layer(entry("usr/win", "w"))], os_name="windows", to=many)
    many.append({"mediaType": "application/vnd.oci.image.manifest.v1+json", **l.blob({"not": "for us"}), "platform": {"architecture": "unknown", "os": "unknown"},
                 "annotations": {"vnd.docker.reference.type": "attestation-manifest"}})
    l.nested(many, "acme/many:1")
    name, root = store.take(l.directory(tmp_path / "many"))
    assert name == "acme/many:1" and files(root) == {"usr": "dir", "usr/x": "x"}
    l = Layout()
    l.image([ROOT], "acme/none:1", arch=other)
    l.image([ROOT], "acme/none:1", arch="s390x")
    assert f"no image for linux/{ARCH}, but for linux/{other}, linux/s390x" in store.refuse(l.directory(tmp_path / "none"))
    # Of several images the one that is named.
    l = Layout()
    l.image([ROOT], "acme/a:1")
    l.image([layer(entry("usr/b", "b"))], "docker.io/acme/b:1")
    path = l.archive(tmp_path / "two.tar")
    assert "several images: say which by its name (acme/a:1, docker.io/acme/b:1)" in store.refuse(path)
    assert "several images" in store.refuse("acme/c:1", path)
    assert files(store.take("acme/b:1", path)[1]) == {"usr": "dir", "usr/b": "b"}
    # Only a tag is no name.
    l = Layout()
    l.image([ROOT], annotations={"org.opencontainers.image.ref.name": "13"})
    assert "tandem image import NAME FILE" in store.refuse(l.directory(tmp_path / "tag"))
    # An index that eats its tail cannot be (digests), one that is deep can.
    l = Layout()
    inner = [l.image([ROOT], "acme/deep:1", to=[])]
    for _ in range(5):
        inner = [{"mediaType": "application/vnd.oci.image.index.v1+json", **l.blob({"schemaVersion": 2, "manifests": inner})}]
    l.manifests = inner
    assert "indexes inside of indexes" in store.refuse("deep:1", l.directory(tmp_path / "deep"))


def test_usage(store, tmp_path):
    for argv in (["import"], ["import", "a", "b", "c"], ["build"], ["list", "x"], ["fly"]):
        assert store.run(*argv).returncode == 2
    assert "No such file" in store.refuse("x:1", str(tmp_path / "none"))
    assert "no OCI layout" in store.refuse("x:1", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    assert "want a file" in store.refuse("x:1", str(tmp_path / "pipe"))
    (tmp_path / "text").write_text("no tar at all " * 100)
    assert "this is no tar" in store.refuse("x:1", str(tmp_path / "text"))
    (tmp_path / "empty").write_text("")
    assert "holds neither /usr nor /bin" in store.refuse("x:1", str(tmp_path / "empty"))
    assert "is not NAME[:TAG]" in store.refuse("../x", str(tmp_path / "text"))
    assert "needs root" in subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", store.tandem, "image", "list"], env=store.env, capture_output=True, text=True).stderr


# ---- what is damaged ----
def test_digests(store, tmp_path):
    def fresh():
        l = Layout()
        l.image([ROOT, layer(entry("usr/y", "y"))], "d:1", pack=["+gzip", ""])
        return l
    want = fresh()
    parts = json.loads(want.blobs[want.manifests[0]["digest"][7:]])
    for what, digest in [("manifest", want.manifests[0]["digest"]), ("configuration", parts["config"]["digest"]), ("layer 1", parts["layers"][0]["digest"]), ("layer 2", parts["layers"][1]["digest"])]:
        l = fresh()
        data = l.blobs[digest[7:]]
        l.blobs[digest[7:]] = data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]
        message = store.refuse(l.directory(tmp_path / f"bad-{digest[7:15]}"))
        assert what in message and "digest" in message, message
        l.blobs[digest[7:]] = None
        l.blobs = {k: v for k, v in l.blobs.items() if v}
        shutil.rmtree(tmp_path / f"bad-{digest[7:15]}")
        assert digest[7:19] in store.refuse(l.archive(tmp_path / "missing.tar"))
    # The layer is what the manifest says, but not what the configuration says.
    l = Layout()
    l.image([ROOT], "d:1", diff_ids=["sha256:" + "0" * 64], pack=["+gzip"])
    assert "the digest of its tar is" in store.refuse(l.directory(tmp_path / "diff"))
    for ids, words in (([], "1 layers"), (["sha256:" + sha(ROOT), "sha256:" + sha(ROOT)], "1 layers"), (["md5:1"], "only sha256")):
        l = Layout()
        l.image([ROOT], "d:1", diff_ids=ids or [""])
        if not ids:
            continue
        assert words in store.refuse(l.archive(tmp_path / "ids.tar"))
    # Cut short: the archive, a compressed layer, a tar that ends within a file.
    whole = pathlib.Path(want.archive(tmp_path / "whole.tar", "+gzip")).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:-40])
    assert "damaged or cut short" in store.refuse(str(tmp_path / "cut.tar"))
    (tmp_path / "short.tar").write_bytes(layer(entry("usr/long", "x" * 5000, size=500000)))
    assert 'usr/long' in store.refuse("x:1", str(tmp_path / "short.tar"))
    for doc in (b"{", b"[]", b'{"manifests": 7}', b'{"manifests": [7]}', b"\xff\xfe", b"[" * 100000):
        l = fresh()
        l.files["index.json"] = doc
        store.refuse("x:1", l.archive(tmp_path / "doc.tar"))
    l = fresh()
    l.manifests[0]["digest"] = "sha256:../../../../etc/passwd"
    assert "only sha256 is known" in store.refuse(l.directory(tmp_path / "path"))


def test_no_other_program_unpacks(store, tmp_path):
    l = Layout()
    l.image([ROOT, layer(entry("usr/y", "y")), layer(entry("usr/z", "z"))], "z:1", pack=["+zstd", "+xz", "+gzip"])
    path = l.archive(tmp_path / "z.tar", "+bzip2")
    os.mkdir(tmp_path / "bin")
    store.env["PATH"] = str(tmp_path / "bin")
    assert files(store.take(path)[1]) == {"usr": "dir", "usr/x": "x", "usr/y": "y", "usr/z": "z"}


def test_names_are_bytes(store, tmp_path):
    """Letters beyond ASCII, in both of their forms, and bytes that are no letters at all: in ustar and in pax names and links."""
    composed, apart, latin = "usr/\u00fc", "usr/u\u0308", "usr/\udcfc"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        data = layer(entry(composed, "1"), entry(apart, "2"), entry("usr/to", kind="sym", link=apart[4:]), entry("usr/hard", kind="hard", link=composed),
                     *([entry(latin, "3")] if form != tarfile.PAX_FORMAT else []), format=form)
        (tmp_path / "n.tar").write_bytes(data)
        _, root = store.take("n:1", str(tmp_path / "n.tar"))
        got = {os.fsdecode(p): (root / p).read_text() for p in (e.path.removeprefix(f"{root}/") for e in os.scandir(root / "usr"))}
        assert got == {composed: "1", apart: "2", "usr/to": "2", "usr/hard": "1", **({latin: "3"} if form != tarfile.PAX_FORMAT else {})}


def test_a_kill_leaves_nothing_half(store, tmp_path):
    """Killed at many moments: the name stands for the old image or for the new one; the next import sweeps."""
    old = Layout()
    old.image([ROOT], "k:1")
    before = old.directory(tmp_path / "old")
    store.take(before)
    l = Layout()
    l.image([layer(entry("usr/new", "new"), *(entry(f"usr/{i}/{j}", "x" * 3000) for i in range(25) for j in range(30)))] * 2, "k:1", pack=["+gzip", ""])
    path = l.archive(tmp_path / "new.tar")
    begin = time.monotonic()
    store.take("other:1", path)
    whole = time.monotonic() - begin

    def killed(moment):
        """Whether the old image is still there."""
        p = subprocess.Popen([store.tandem, "image", "import", path], env=store.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        moment(p)
        p.send_signal(signal.SIGKILL)
        p.wait(60)
        got = files(pathlib.Path(store.list()["k:1"]["rootfs"]))
        assert got == {"usr": "dir", "usr/x": "x"} or (got["usr/new"] == "new" and len(got) == 2 + 25 * 31), len(got)
        return len(got) == 2

    def works(p):
        wait_for("it works", lambda: any(n.startswith(".new") for n in os.listdir(f"{store.dir}/images")) or p.poll() is not None)
    # A busy machine may kill it too late: then the old image is put back.
    wait_for("it is killed in its work", lambda: killed(works) or not store.take(before))
    for i in range(1, 8):
        killed(lambda p: time.sleep(whole * (i + 1) / 9))  # anywhere in its work
    store.take(path)
    assert not [n for n in os.listdir(f"{store.dir}/images") if n.startswith((".new", ".old"))]
    # SIGINT: it says so and takes away what it made.
    p = subprocess.Popen([store.tandem, "image", "import", path], env=store.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for("it works", lambda: any(n.startswith(".new") for n in os.listdir(f"{store.dir}/images")) or p.poll() is not None)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert (p.returncode == 1 and "cancelled" in err) or (p.returncode == 0 and "imported" in out)
    assert not [n for n in os.listdir(f"{store.dir}/images") if n.startswith(".new")]


# ---- what is hostile ----
OUT = f"/var/tmp/td-t-img-canary-{os.getpid()}"  # others may run beside
HOSTILE = {  # name: (entries, words of the refusal; None: it is taken, and harmless)
    "dotdot": ([entry(f"../../../../../..{OUT}/x", "evil")], "leads out of its directory"),
    "dotdot-inside": ([entry(f"usr/../../../../../..{OUT}/x", "evil")], "leads out of its directory"),
    "dotdot-dir": ([entry("usr/..", kind="dir")], "leads out of its directory"),
    "absolute": ([entry(f"{OUT}/x", "tame")], None),
    "link-then-through-it": ([entry("usr/out", kind="sym", link=OUT), entry("usr/out/x", "evil")], "its directory"),
    "relative-link-then-through-it": ([entry("usr/out", kind="sym", link="../" * 20 + OUT[1:]), entry("usr/out/x", "evil")], "its directory"),
    "link-chain": ([entry("a", kind="sym", link="/"), entry("b", kind="sym", link="a/../.."), entry(f"b{OUT}/x", "tame")], None),
    "link-loop": ([entry("a", kind="sym", link="b"), entry("b", kind="sym", link="a"), entry("a/x", "evil")], "its directory"),
    "proc-root-link": ([entry("usr/p", kind="sym", link=f"/proc/1/root{OUT}"), entry("usr/p/x", "evil")], "its directory"),
    "overwrite-through-a-link": ([entry("usr/f", kind="sym", link=f"{OUT}/there"), entry("usr/f", "evil")], None),
    "mode-through-a-link": ([entry("usr/f", kind="sym", link=f"{OUT}/there", mode=0o777), entry("usr/f/", kind="dir", mode=0o777)], None),
    "hard-link-outside": ([entry("usr/h", kind="hard", link=f"{OUT}/there")], "which is not in the image"),
    "hard-link-dotdot": ([entry("usr/h", kind="hard", link="../" * 20 + f"{OUT[1:]}/there")], "leads out of its directory"),
    "hard-link-through-a-link": ([entry("usr/out", kind="sym", link=OUT), entry("usr/h", kind="hard", link="usr/out/there")], "which is not in the image"),
    "hard-link-to-a-link-then-write": ([entry("usr/s", kind="sym", link=f"{OUT}/there"), entry("usr/h", kind="hard", link="usr/s"), entry("usr/h", "evil")], None),
    "hard-link-to-a-directory": ([entry("usr/d", kind="dir"), entry("usr/h", kind="hard", link="usr/d")], "a hard link to the directory"),
    "whiteout-dotdot": ([entry("usr/.wh...")], "would remove"),
    "whiteout-dot": ([entry("usr/.wh..")], "would remove"),
    "whiteout-nothing": ([entry("usr/.wh.")], "would remove"),
    "whiteout-through-a-link": ([entry("usr/out", kind="sym", link=OUT), entry("usr/out/.wh.there")], "its directory"),
    "opaque-through-a-link": ([entry("usr/out", kind="sym", link=OUT), entry("usr/out/.wh..wh..opq")], "its directory"),
    "root-is-a-file": ([entry("./", "evil")], "damaged"),
    "root-is-a-link": ([entry(".", kind="sym", link=OUT)], "in place of the root"),
    "device": ([entry("usr/sda", kind="block", device=(8, 0), mode=0o666), entry("usr/mem", kind="char", device=(1, 1), mode=0o666)], None),
    "twice": ([entry("usr/t", "1"), entry("usr/t", "2"), entry("usr/t", kind="dir"), entry("usr/t/u", "3"), entry("usr/t", "4")], None),
    "opaque-overlay-mark": ([entry("usr/d", kind="dir", pax={"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc"})], None),
    "nul-in-a-pax-name": ([entry("usr/n", "x", pax={"path": "usr/ok\0/../../../x"})], None),
    "endless-name": ([entry("a/" * 3000 + "b", "x")], "longer than"),
    "long-component": ([entry("a" * 300, "x")], "File name too long"),
    "deep": ([entry("/".join("d" for _ in range(300)) + "/f", "x")], None),
    "huge-sparse": ([entry("usr/big", b"", pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "usr/big", "GNU.sparse.realsize": str(1 << 50)})], "damaged"),
    "size-is-a-lie": ([entry("usr/big", b"x", pax={"size": str(1 << 60)})], "usr/big"),
    "negative-size": ([entry("usr/big", b"x", pax={"size": "-5"})], "damaged"),
    "many-attributes": ([entry("usr/x", "x", pax={f"SCHILY.xattr.user.k{i}": "v" for i in range(100)})], "more than 16"),
    "huge-pax": ([entry("usr/x", "x", pax={"comment": "x" * (1 << 20)})], "damaged"),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("form", ["layer", "tar", "archive"])
def test_hostile_entries(store, tmp_path, what, form):
    """As a layer, as the tar of a root, and among the entries of the archive itself: nothing outside is touched."""
    entries, words = HOSTILE[what]
    if form != "layer" and what.startswith(("whiteout", "opaque-through")):
        words = None if "link" not in what else words  # plain files there
    os.makedirs(OUT, exist_ok=True)
    try:
        pathlib.Path(OUT, "there").write_text("there")
        os.chmod(f"{OUT}/there", 0o600)
        pathlib.Path(OUT, "keep").write_text("keep")
        before = {p.name: (p.read_text(), p.stat().st_mode, p.stat().st_nlink) for p in pathlib.Path(OUT).iterdir()}
        l = Layout()
        if form == "layer":
            l.image([ROOT, layer(*entries)], "evil:1")
            path = l.directory(tmp_path / "layout")
        elif form == "tar":
            path = str(tmp_path / "root.tar")
            pathlib.Path(path).write_bytes(layer(entry("usr/x", "x"), *entries))
        else:
            l.image([ROOT], "evil:1")
            path = l.archive(tmp_path / "a.tar", more=entries)
        if words:
            message = store.refuse("evil:1", path)
            assert words in message, message
        else:
            _, root = store.take("evil:1", path)
            for at, dirs, names in os.walk(root):
                for n in dirs + names:
                    st = os.lstat(os.path.join(at, n))
                    assert stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode) or stat.S_ISLNK(st.st_mode), n
                    if stat.S_ISDIR(st.st_mode):
                        assert not [a for a in os.listxattr(os.path.join(at, n), follow_symlinks=False) if "overlay" in a]
            if what == "twice" and form != "archive":
                assert (root / "usr/t").read_text() == "4"
        assert {p.name: (p.read_text(), p.stat().st_mode, p.stat().st_nlink) for p in pathlib.Path(OUT).iterdir()} == before
    finally:
        shutil.rmtree(OUT)


def test_hostile_layouts(store, tmp_path):
    """Paths that the documents name lead nowhere else; a pipe does not make it wait."""
    secret = tmp_path / "secret"
    secret.write_bytes(ROOT)
    conf = json.dumps({"rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(ROOT)]}})
    for n, path in enumerate(("../secret", str(secret), "link", "pipe", "blobs", "")):
        d = tmp_path / f"docker-{n}"
        d.mkdir()
        (d / "blobs").mkdir()
        os.symlink(secret, d / "link")
        os.mkfifo(d / "pipe")
        (d / "c.json").write_text(conf)
        (d / "manifest.json").write_text(json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": [path]}]))
        store.refuse("x:1", str(d))
        (d / "manifest.json").write_text(json.dumps([{"Config": path, "RepoTags": ["x:1"], "Layers": []}]))
        store.refuse("x:1", str(d))
    # The same in an archive: its links are followed inside of it only.
    tar = tmp_path / "links.tar"
    tar.write_bytes(layer(entry("c.json", conf), entry("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l.tar"]}])), entry("l.tar", kind="sym", link=str(secret))))
    assert "No such file" in store.refuse(str(tar))


def test_a_bomb_does_not_fill_the_disk(tandem, tmp_path):
    """Some of the file system is left to others; the message says so, and all is taken away again."""
    dir = tempfile.mkdtemp(prefix="td-t-img-", dir="/var/tmp")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=4000", "tmpfs", dir], check=True)
    try:
        s = Store(tandem, dir)
        l = Layout()
        l.image([layer(entry("usr/zeros", b"\0" * (100 << 20)))], "bomb:1", pack=["+gzip"])
        assert "nearly full" in s.refuse(l.directory(tmp_path / "bytes"))
        l = Layout()
        l.image([layer(*(entry(f"usr/{i}") for i in range(8000)))], "bomb:2", pack=["+gzip"])
        assert "nearly full" in s.refuse(l.directory(tmp_path / "files"))
        l = Layout()
        l.image([ROOT], "good:1")
        s.take(l.directory(tmp_path / "good"))
    finally:
        subprocess.run(["umount", dir], check=True)
        os.rmdir(dir)


# ---- pods ----
def test_pods_run_from_imported_images(plane, tmp_path):  # noqa: F811
    """Entrypoint, command, environment, user and working directory are the image's, unless the pod says otherwise."""
    l, name = Layout(), f"t/import-{plane.id}:1"
    script = "echo args=$*; echo a=$A; echo id=$(id -u):$(id -g); echo pwd=$(pwd); ls /gone 2>/dev/null || echo gone=yes; cat /greeting"
    l.image([busybox(), layer(entry("entry", "#!/bin/sh\n" + script, mode=0o755), entry("gone", "x"), entry("greeting", "one"), entry("etc/passwd", "root:x:0:0::/:/bin/sh\nweb:x:1234:99::/:/bin/sh\n"),
             entry("srv", kind="dir", mode=0o777)), layer(entry(".wh.gone"), entry("greeting", "two"))], name, pack=["+gzip", "+zstd", ""],
            Env=["PATH=/bin", "A=from the image"], Entrypoint=["/entry"], Cmd=["one", "two"], User="web", WorkingDir="/srv")
    path = l.archive(tmp_path / "pod.tar")
    assert plane.cmd("image", "import", path).stdout == f"imported {name}\n"
    try:
        def said(**kw):
            spec = plane.spec(None, image=name, **kw)
            pod = plane.name("imported")
            plane.post(pod, spec)
            out = plane.output(pod)
            assert state(plane.pod_of(pod))["imageID"] == f"{name}@sha256:{l.manifests[0]['digest'][7:]}"
            plane.call("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0")
            return out.splitlines()
        assert said() == ["args=one two", "a=from the image", "id=1234:99", "pwd=/srv", "gone=yes", "two"]
        assert said(args=["three"], env=[{"name": "A", "value": "from the pod"}], workingDir="/", securityContext={"runAsUser": 7}) == ["args=three", "a=from the pod", "id=7:0", "pwd=/", "gone=yes", "two"]
        assert said(command=["/bin/sh", "-c", "echo mine"]) == ["mine"]
        with plane.pod(None, "busy", image=name, command=["sleep", "1000"]) as pod:
            plane.running(pod)
            r = plane.cmd("image", "import", path, check=False)
            assert r.returncode == 1 and "is in use" in r.stderr  # its files must stay as they are
            assert plane.ex(pod, "cat", "/greeting") == "two"
        wait_for("it is free", lambda: plane.cmd("image", "import", path, check=False).returncode == 0)
    finally:
        wait_for("it can go", lambda: plane.cmd("image", "remove", name, check=False).returncode == 0, 60)
