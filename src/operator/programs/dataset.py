"""Fetches a data set into a node's directory of copies, or removes it (src/pool/dataset.h), as a pod on that node.
TD_NAME, TD_DATA (the directory), and to fetch TD_PRINT, TD_MAX (bytes), TD_GROUP ("": everybody may read it), and
where it comes from: TD_URL TD_SHA256 TD_UNPACK, TD_GIT TD_REF, TD_S3 (the server) TD_REGION TD_BUCKET TD_PREFIX TD_S3_KEYS
(a directory with the keys, or ""), or TD_PATH. The text of s3.py stands before this one. Its last words say why it failed; exit
code 3 says that another try would fare no better.

  NAME               the copy: root's, readable by the group or by all, and complete
  .tandem/NAME.is    the print of that copy, its bytes and entries, written after it, and removed before it: a machine
                     that crashed before all was on the disk has fewer
  .tandem/NAME.part  what there is of the next one; .tandem is closed to everybody

What comes is not believed: it is bounded by TD_MAX while it comes and while it is unpacked, nothing in it leads out of
it, and only plain files, directories and links within it are kept."""
import errno
import hashlib
import http.client
import lzma
import os
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib

ENTRIES_MAX = 2_000_000
TRIES = 5
BLOCK = 1 << 20
DEEP = 10_000  # what walks a tree calls itself for each level; a path has 4,096 bytes
FULL = (errno.ENOSPC, errno.EDQUOT)


class Wrong(Exception):
    """Another try would fare no better."""


class Room:
    """What it may still take."""

    def __init__(self, limit):
        self.limit, self.bytes, self.entries = limit, 0, 0

    def take(self, n, entries=0):
        self.bytes, self.entries = self.bytes + n, self.entries + entries
        if self.bytes > self.limit:
            raise Wrong(f"it is larger than maxSize, {self.limit} bytes")
        if self.entries > ENTRIES_MAX:
            raise Wrong(f"it has more than {ENTRIES_MAX} files")


def download(url, want, to, limit):
    """Goes on where a cut or the end of an earlier pod left it."""
    with open(to, "ab+") as f:
        tries, most = 0, f.seek(0, 2)
        while True:
            at = f.seek(0, 2)
            try:
                ask = urllib.request.Request(url, headers={"Range": f"bytes={at}-"} if at else {})
                with urllib.request.urlopen(ask, timeout=60) as r:
                    if at and r.status != 206:
                        f.truncate(at := 0)
                    length = r.length  # None: it does not say
                    room = Room(limit)
                    room.take(at + (length or 0))
                    room.bytes = at
                    while block := r.read1(BLOCK):
                        room.take(len(block))
                        f.write(block)
                        f.flush()  # a pod that is killed leaves what it had
                if length is None or room.bytes - at == length:
                    break
                why = f"{room.bytes} of {at + length} bytes came"
            except urllib.error.HTTPError as e:
                if e.code == 416 and at:  # all of it was here, or it has become shorter
                    break
                if e.code < 500 and e.code not in (408, 429):
                    raise Wrong(f"{url}: the server says {e.code} {e.reason}") from e
                why = f"the server says {e.code} {e.reason}"
            except (OSError, http.client.HTTPException) as e:
                if getattr(e, "errno", None) in FULL:
                    raise
                why = getattr(e, "reason", None) or e
            # A server that begins anew each time comes no further.
            tries, most = (0, f.tell()) if f.seek(0, 2) > most else (tries + 1, most)
            if tries == TRIES:
                raise OSError(f"{url}: {why}")
            print(f"{why}; once more from byte {f.tell()}", flush=True)
            time.sleep(min(1 << tries, 30))
        f.seek(0)
        have = hashlib.file_digest(f, "sha256").hexdigest()
    if have != want:
        os.unlink(to)
        raise Wrong(f"{url} is not what was declared: its sha256 is {have}, not {want}")


def unpack(archive, to, limit):
    room = Room(limit)
    if tarfile.is_tarfile(archive):
        def counted(t):
            for m in t:
                room.take(m.size, 1)
                yield m
        with tarfile.open(archive) as t:
            t.extractall(to, counted(t), filter="data")  # nothing leads out of it, and no devices
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as z:
            for m in z.infolist():
                room.take(m.file_size, 1)
            z.extractall(to)
    else:
        raise Wrong("unpack: it is neither a tar nor a zip")


def size_of(tree):
    """(bytes, entries)"""
    total = entries = 0
    for _, dirs, files, at in os.fwalk(tree):
        entries += len(dirs) + len(files)
        for f in files:
            try:
                total += os.stat(f, dir_fd=at, follow_symlinks=False).st_size
            except FileNotFoundError:
                pass
    return total, entries


def clone(url, ref, to, limit):
    if not shutil.which("git"):
        raise Wrong("the image has no git: name one that has it in spec.datasets.image of the SlurmCluster (tandem/work has)")
    ways = ["-c", "protocol.allow=never", *(x for p in ("http", "https", "git", "ssh") for x in ("-c", f"protocol.{p}.allow=always"))]
    silent = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for argv in (["init", "-q"], ["fetch", "-q", "--depth", "1", "--", url, ref], ["checkout", "-q", "--detach", "FETCH_HEAD"]):
        said = f"{to}.said"
        with open(said, "wb") as out:
            p = subprocess.Popen(["git", *ways, *silent, "-C", to, *argv], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            while True:
                try:
                    p.wait(2)
                    break
                except subprocess.TimeoutExpired:
                    if size_of(to)[0] > 2 * limit:  # .git and the files
                        p.kill()
                        p.wait()
                        raise Wrong(f"it is larger than maxSize, {limit} bytes") from None
        with open(said, errors="replace") as f:
            words = f.read(4096).strip()
        if p.returncode:
            raise OSError(f"{url} {ref}: {words or 'git failed'}")
    shutil.rmtree(f"{to}/.git")


def opened(path):
    """The directory, whose path has no links: who may write above it shall not lead elsewhere."""
    at = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    for part in filter(None, path.split("/")):
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        except OSError as e:
            raise Wrong(f"directory {path}: {part}: {e.strerror}") from e
        os.close(at)
        at = below
    return at


def copy(path, to, limit):
    room = Room(limit)
    for where, dirs, files, at in os.fwalk(".", dir_fd=opened(path)):
        for name in dirs + files:
            st, new = os.stat(name, dir_fd=at, follow_symlinks=False), f"{to}/{where}/{name}"
            room.take(0, 1)
            if stat.S_ISDIR(st.st_mode):
                os.mkdir(new)
            elif stat.S_ISLNK(st.st_mode):
                os.symlink(os.readlink(name, dir_fd=at), new)
            elif stat.S_ISREG(st.st_mode):
                with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb") as f, open(new, "wb") as g:
                    while block := f.read(BLOCK):
                        room.take(len(block))
                        g.write(block)
                    os.fchmod(g.fileno(), st.st_mode & 0o777)


def inner(top, where, to):
    """The words of the link to `to` in the directory `where`, which never leave `top`; None: it leads out. They go up first, not above
    `top`, and then down only: so what they lead to is the same where all of it is renamed to."""
    parts = [p for p in to.split("/") if p not in ("", ".")]
    if ".." in parts[parts.count(".."):] and not to.startswith("/"):  # through another link, perhaps
        to = os.path.relpath(os.path.realpath(f"{where}/{to}"), where)
        parts = [p for p in to.split("/") if p != "."]
    ups, depth = parts.count(".."), 0 if where == top else os.path.relpath(where, top).count("/") + 1
    return to if not to.startswith("/") and ups <= depth else None


def close(tree, gid):
    """Gives it its rights: nobody may write, and only who may read it comes in. Links that lead out go."""
    tree = os.path.realpath(tree)
    for where, dirs, files in os.walk(tree):
        for name in dirs + files:
            at = f"{where}/{name}"
            st = os.lstat(at)
            if stat.S_ISLNK(st.st_mode):
                to = os.readlink(at)
                if (within := inner(tree, where, to)) != to:
                    os.unlink(at)
                    if within:
                        os.symlink(within, at)
            elif stat.S_ISDIR(st.st_mode):
                os.chmod(at, 0o755)
            elif stat.S_ISREG(st.st_mode):
                os.chmod(at, 0o555 if st.st_mode & 0o111 else 0o444)
            else:
                os.unlink(at)
    os.chown(tree, 0, gid or 0)
    os.chmod(tree, 0o755 if gid is None else 0o750)


def gid_of(group):
    with open(os.environ.get("TD_GROUPS", "/etc/tandem/users/group")) as f:
        for line in f:
            name, _, gid = line.split(":")[:3]
            if name == group:
                return int(gid)
    raise Wrong(f"group: the SlurmCluster has no group \"{group}\": add it to spec.groups")


def read(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


def away(path):
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        os.unlink(path)


def fetch(env, name, data, own):
    part, is_, want = f"{own}/{name}.part", f"{own}/{name}.is", env["TD_PRINT"]
    there = read(is_)
    if there and there.split()[0] == want and there == " ".join((want, *map(str, size_of(f"{data}/{name}")))):
        return "it is here already"
    gid = gid_of(env["TD_GROUP"]) if env.get("TD_GROUP") else None
    limit = int(env["TD_MAX"])
    if read(f"{part}/print") != want:  # of another source
        away(part)
        os.makedirs(part)
        with open(f"{part}/print", "w") as f:
            f.write(want)
    tree, file = f"{part}/tree", f"{part}/file"
    away(tree)  # what was unpacked is not known to be whole
    os.mkdir(tree, 0o700)
    if env.get("TD_URL"):
        download(env["TD_URL"], env["TD_SHA256"], file, limit)
        if env.get("TD_UNPACK") == "yes":
            unpack(file, tree, limit)
            os.unlink(file)
        else:
            base = urllib.parse.unquote(os.path.basename(urllib.parse.urlsplit(env["TD_URL"]).path)).replace("/", "_").replace("\0", "_")
            os.rename(file, f"{tree}/{'data' if base in ('', '.', '..') else base[:255]}")
    elif env.get("TD_S3"):
        keys = env.get("TD_S3_KEYS")
        found = s3_keys(lambda k: read(f"{keys}/{k}") if keys else None)  # noqa: F821
        if keys and not found:
            raise Wrong("source.s3.secret: there is no such Secret, or it has no keys accessKeyID and secretAccessKey")
        s3 = S3(env["TD_S3"], env.get("TD_REGION") or "us-east-1", env["TD_BUCKET"], found)  # noqa: F821
        s3_fetch(s3, env.get("TD_PREFIX", ""), f"{part}/objects", tree, Room(limit))  # noqa: F821
        away(f"{part}/objects")
    elif env.get("TD_GIT"):
        clone(env["TD_GIT"], env["TD_REF"], tree, limit)
    else:
        copy(env["TD_PATH"], tree, limit)
    close(tree, gid)
    size = size_of(tree)
    Room(limit).take(*size)
    remove(name, data, own, keep_part=True)
    os.rename(tree, f"{data}/{name}")
    with open(f"{is_}.new", "w") as f:
        f.write(" ".join((want, *map(str, size))))
    os.rename(f"{is_}.new", is_)
    away(part)
    return f"{size[0]} bytes"


def remove(name, data, own, keep_part=False):
    if os.path.exists(f"{own}/{name}.is"):
        os.unlink(f"{own}/{name}.is")
    if os.path.lexists(f"{data}/{name}"):
        away(f"{own}/{name}.old")
        os.rename(f"{data}/{name}", f"{own}/{name}.old")  # nobody sees a half of it
    away(f"{own}/{name}.old")
    if not keep_part:
        away(f"{own}/{name}.part")
    return "removed"


def main(argv):
    env = os.environ
    name, data = env["TD_NAME"], env.get("TD_DATA", "/datasets")
    own, code = f"{data}/.tandem", 0
    os.umask(0o022)
    sys.setrecursionlimit(DEEP)
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        os.makedirs(own, 0o700, exist_ok=True)
        said = remove(name, data, own) if argv == ["remove"] else fetch(env, name, data, own)
    except (Wrong, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, globals().get("S3Wrong", Wrong)) as e:  # the last: a zip with a password
        said, code = str(e), 3
        away(f"{own}/{name}.part")
    except (OSError, EOFError) as e:
        said, code = str(e), 1
        if getattr(e, "errno", None) in FULL:
            said, code = f"the node's disk is full: free some of it, or name another in spec.datasets.path ({e})", 3
            away(f"{own}/{name}.part")  # what others on the node need
    said = said.encode(errors="replace").decode()  # names of files are any bytes
    print(said, flush=True)
    try:
        with open(env.get("TD_LAST_WORDS", "/dev/termination-log"), "w") as f:
            f.write(said[:300])
    except OSError:
        pass
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
