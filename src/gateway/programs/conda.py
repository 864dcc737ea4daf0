#!/usr/bin/env python3
"""Makes a Conda environment, as a Slurm job of its own (need.h): solves what .want/KEY asks for, installs it into .made/KEY.JOB,
closes it to writing, and makes the link KEY once all of it is there. Its last three lines, when it fails, say why.

The lines of .want/KEY: "channel: NAME" in the order that counts, "pip: LINE" of a requirements.txt, and specs of packages as conda
takes them; or, in place of specs, addresses of packages with their hashes, which are a solved environment (the file conda.lock of
another). TANDEM_ARCH, TANDEM_CUDA (the version that the nodes' driver can do; "": none), TANDEM_CONDA_MIRROR (where a channel's name is looked up; "": the tool's
own), TANDEM_INDEX (pip's)."""
import asyncio
import glob
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import venv

# Who solves and installs: one file of Python's index for each architecture, the same for every Python from 3.10 on.
TOOL, VERSION = "py-rattler", "0.28.0"
HASHES = ("4f4ab1d34d5394e7ce130a86e59009c95ace4f5757d9c3af04de1351bcea47eb", "61b24202374188e72130f1b3dc63b455befaafc3e49e5481a38b6a6c8828c1e0")
SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le", "riscv64": "linux-riscv64"}
CACHE_DAYS = 14
LINE_MOST = 400


class Wrong(Exception):
    """Lines that say why, three at most."""

    def __init__(self, *lines):
        super().__init__("\n".join(s if len(s) <= LINE_MOST else s[:LINE_MOST - 4] + " ..." for s in lines))


def pip(python, args, quiet):
    """What pip said last, when it failed; "" when not."""
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off"}
    r = subprocess.run([python, "-m", "pip", *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if r.returncode or not quiet:
        print(r.stdout, end="", flush=True)
    if not r.returncode:
        return ""
    lines = [s.strip() for s in r.stdout.splitlines() if s.strip()]
    return ([s for s in lines if s.startswith("ERROR")] or lines or [f"exit code {r.returncode}"])[-1]


def tool(top, job):
    """Makes `import rattler` work: it is in the image, or in .tool of an earlier job, or comes now."""
    try:
        if importlib.metadata.version(TOOL) == VERSION:
            return
    except importlib.metadata.PackageNotFoundError:
        pass
    there = f"{top}/.tool/{TOOL}-{VERSION}-{platform.machine()}"
    if not os.path.isdir(there):
        new = f"{top}/.tool/.new-{job}"
        shutil.rmtree(new, ignore_errors=True)
        os.makedirs(new)
        try:
            try:
                venv.create(f"{new}/venv", with_pip=True)
            except subprocess.CalledProcessError:
                raise Wrong("The image of this node has no venv for python3 (Debian's python3-venv), by which the solver is fetched.") from None
            with open(f"{new}/want", "w") as f:
                f.write(f"{TOOL}=={VERSION} {' '.join(f'--hash=sha256:{h}' for h in HASHES)}\n")
            words = pip(f"{new}/venv/bin/python", ["install", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", f"{new}/site", "-r", f"{new}/want"], True)
            if words:
                raise Wrong(f"The solver of Conda's packages, {TOOL} {VERSION}, did not come from Python's index:", words,
                            "Say where it is in ~/.config/pip/pip.conf on the cluster (index-url, or find-links: a directory with its wheel), or use an image that has it.")
            try:
                os.rename(f"{new}/site", there)
            except OSError:  # another job was first
                if not os.path.isdir(there):
                    raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
    sys.path.insert(0, there)


def read(path):
    """(channels, specs, pip's lines)."""
    channels, specs, pips = [], [], []
    with open(path) as f:
        for s in f.read().splitlines():
            if s.startswith("channel: "):
                channels.append(s.removeprefix("channel: "))
            elif s.startswith("pip: "):
                pips.append(s.removeprefix("pip: "))
            else:
                specs.append(s)
    return channels, specs, pips


def hidden(text):
    """An address, or words with some, without a password or a token in it."""
    return re.sub(r"/t/[^/\s]+", "/t/…", re.sub(r"://[^/\s]*@", "://", text))


class Solver:
    def __init__(self, top):
        self.r = importlib.import_module("rattler")
        self.channel = importlib.import_module("rattler.channel")
        self.networking = importlib.import_module("rattler.networking")
        self.exceptions = importlib.import_module("rattler.exceptions")
        self.virtual = importlib.import_module("rattler.virtual_package")
        self.top, self.names = top, {}
        mirror = os.environ.get("TANDEM_CONDA_MIRROR")
        self.config = self.channel.ChannelConfig(mirror.rstrip("/") + "/") if mirror else self.channel.ChannelConfig()
        self.subdir = SUBDIRS.get(os.environ["TANDEM_ARCH"])
        if not self.subdir:
            raise Wrong(f"Conda has no packages for {os.environ['TANDEM_ARCH']}.")
        # Names and passwords: ~/.rattler/credentials.json or ~/.netrc of the person.
        self.client = self.networking.Client.default_client(max_retries=3, timeout=300)

    def channel_of(self, name):
        c = self.channel.Channel(name, self.config)
        self.names[c.base_url] = name
        return c

    def spec(self, text, channels):
        """CHANNEL::NAME is looked up where the channel is, by whatever mirror."""
        name, colons, rest = text.rpartition("::")
        if colons:
            c = self.channel_of(name)
            if c.base_url not in [k.base_url for k in channels]:
                channels.append(c)
            text = f"{c.base_url.rstrip('/')}::{rest}"  # by its name no other place matches (C-P2)
        try:
            return self.r.MatchSpec(text)
        except Exception as e:
            raise Wrong(f"\"{rest or text}\" is no spec of a package: {e}", "Write NAME, NAME=1.2 (1.2 of any patch), NAME==1.2.3, NAME>=1.2,<2 or NAME=1.2=BUILD.") from None

    def machine(self):
        """What the machine itself has: its kernel, libc and processor as this node says, and the CUDA of all nodes."""
        cuda = os.environ.get("TANDEM_CUDA")
        o = self.virtual.VirtualPackageOverrides()
        if cuda:
            o.cuda = self.virtual.Override.string(cuda)
        found = [v.into_generic() for v in self.virtual.VirtualPackage.detect(o)]
        # Packages built for this node's processor would not run on an older one.
        return [v for v in found if v.name.normalized != "__archspec" and (cuda or v.name.normalized != "__cuda")]

    def solve(self, channels, specs):
        where = [self.channel_of(c) for c in channels]
        asked = [self.spec(s, where) for s in specs]
        gateway = self.r.Gateway(cache_dir=f"{self.top}/.cache/repodata", client=self.client)
        said = ", ".join(f"{self.names[c.base_url]} at {hidden(c.base_url)}" if "://" not in self.names[c.base_url] else hidden(c.base_url) for c in where)
        try:
            return asyncio.run(self.r.solve(where, asked, gateway=gateway, platforms=[self.r.Platform(self.subdir), self.r.Platform("noarch")], virtual_packages=self.machine()))
        except self.exceptions.SolverError as e:
            raise self.unsolved(str(e), said) from None
        except Exception as e:
            raise self.unreached(str(e), where) from None

    def unsolved(self, text, said):
        print(hidden(text), flush=True)
        lines, branches = [s for s in text.removeprefix("Cannot solve the request because of: ").splitlines() if s.strip()], []
        for s in lines:
            if not branches or s[0] in "├└":  # what lies deeper belongs to the one before
                branches.append(s.strip("├└│─ "))
            else:
                branches[-1] += " " + s.strip("├└│─ ")
        if len(branches) > 1 and "incompatible" in branches[0]:
            branches = branches[1:]
        if len(branches) > 2:
            branches = [branches[0], " / ".join(branches[1:])]
        return Wrong(*branches, f"The channels are {said}, for {self.subdir} and noarch" + (f", with CUDA {os.environ['TANDEM_CUDA']}." if os.environ.get("TANDEM_CUDA") else ", without CUDA."))

    def unreached(self, text, where):
        print(hidden(text), flush=True)
        at = next((c for c in where if c.base_url in text), None)
        why = [s.removeprefix("Caused by: ") for s in text.splitlines() if s.strip()]
        if not at:
            return Wrong("The channels could not be read:", *map(hidden, why[-2:]))
        return Wrong(f"Channel {self.names[at.base_url]} cannot be read at {hidden(at.base_url)}: {hidden(why[-1])}",
                     "A mirror: an administrator names it in spec.environments.condaMirror, and you by its whole address under \"channels\" (with nodefaults: without the site's channels).",
                     "Where it asks for a name: ~/.rattler/credentials.json on the cluster.")

    def exact(self, urls):
        """The packages of a lock: ADDRESS#sha256:HASH."""
        out = []
        for s in urls:
            url, _, digest = s.partition("#")
            file = url.rpartition("/")[2]
            name = re.fullmatch(r"(.+)-([^-]+)-([^-]+?)(\.conda|\.tar\.bz2)", file)
            subdir = url.split("/")[-2]
            if not name or not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", digest):
                raise Wrong(f"\"{s}\": a line of a lock is ADDRESS#sha256:HASH of a .conda or .tar.bz2.")
            if subdir not in (self.subdir, "noarch"):
                raise Wrong(f"The lock is for {subdir}, and these nodes are {self.subdir}: solve it anew from what it was made of.")
            record = self.r.PackageRecord(name[1], name[2], self.r.BuildString(name[3]), 0, subdir, sha256=bytes.fromhex(digest.removeprefix("sha256:")))
            out.append(self.r.RepoDataRecord(record, file, url, url.rsplit("/", 2)[0] + "/"))
        return out

    def install(self, records, tree):
        try:
            asyncio.run(self.r.install(records, tree, cache_dir=f"{self.top}/.cache/packages", client=self.client, execute_link_scripts=True, show_progress=False))
        except Exception as e:
            print(hidden(str(e)), flush=True)
            raise Wrong("A package could not be fetched or installed:", *[hidden(s.removeprefix("Caused by: ")) for s in str(e).splitlines() if s.strip()][-2:]) from None


def pip_packages(tree, lines):
    want = f"{tree}/conda-meta/pip.txt"
    with open(want, "w") as f:
        f.write("".join(f"{s}\n" for s in lines))
    index = os.environ.get("TANDEM_INDEX") or ""
    more = ["--index-url", index] if index and index[0] not in "~/" else ["--no-index", "--find-links", os.path.expanduser(index)] if index else []
    words = pip(f"{tree}/bin/python", ["install", "--no-user", *more, "-r", want], False)
    if words:
        raise Wrong("pip install failed:", words)


# Read by run.sh and by whoever wants the environment in a shell. What packages bring for it is written for bash.
ACTIVATE = """# . {tree}/activate: this environment's programs first, as `conda activate` does.
export PATH="{tree}/bin:$PATH" CONDA_PREFIX="{tree}" CONDA_DEFAULT_ENV="{tree}" CONDA_SHLVL=1 PYTHONNOUSERSITE=1
unset PYTHONHOME VIRTUAL_ENV
if [ -n "${{BASH_VERSION:-}}" ]; then
	for tandem_script in "{tree}"/etc/conda/activate.d/*.sh; do
		[ ! -e "$tandem_script" ] || . "$tandem_script"
	done
	unset tandem_script
fi
"""


def finish(tree, records, pips):
    """Says what it is, and closes it to writing: other runs have it too, and files of the cache are the same."""
    lock = "".join(f"{u}\n" for u in sorted(f"{r.url}#sha256:{r.sha256.hex()}" for r in records))
    with open(f"{tree}/conda.lock", "w") as f:
        f.write(f"# {SUBDIRS[os.environ['TANDEM_ARCH']]}\n@EXPLICIT\n{lock}")
    with open(f"{tree}/activate", "w") as f:
        f.write(ACTIVATE.format(tree=tree))
    python = next((str(r.version) for r in records if r.name.normalized == "python"), None)
    if python and os.path.exists(f"{tree}/bin/python"):  # modules of packages for any Python come without their bytecode, and nobody may write it later
        subprocess.run([f"{tree}/bin/python", "-m", "compileall", "-q", "-j", "0", *glob.glob(f"{tree}/lib/python3*/site-packages")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = sum(os.lstat(os.path.join(d, f)).st_size for d, _, files in os.walk(tree) for f in files)
    extra = len(glob.glob(f"{tree}/lib/python3*/site-packages/*.dist-info")) if pips else 0
    with open(f"{tree}/tandem.json", "w") as f:
        json.dump({"kind": "conda", "python": python, "architecture": platform.machine(), "packages": max(len(records), extra), "bytes": size, "made": int(time.time()),
                   "lock": hashlib.sha256((lock + "\n".join(pips)).encode()).hexdigest(), "cuda": os.environ.get("TANDEM_CUDA") or None}, f)
    with open(f"{tree}/.used", "w"):
        pass
    for at, dirs, files in os.walk(tree, topdown=False):
        for n in [*(f for f in files if f != ".used"), *dirs]:
            mode = os.lstat(os.path.join(at, n)).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(os.path.join(at, n), stat.S_IMODE(mode) & 0o555)
    os.chmod(tree, 0o555)


def remove(tree):
    for at, dirs, _ in os.walk(tree):
        os.chmod(at, 0o755)
    shutil.rmtree(tree, ignore_errors=True)


def tidy(cache):
    """A package that no environment shares and that nobody asked for in a while goes. Where files cannot be shared, all are such."""
    for package in glob.glob(f"{cache}/*/info/index.json"):
        st, at = os.stat(package), os.path.dirname(os.path.dirname(package))
        if st.st_ctime > time.time() - CACHE_DAYS * 86400:  # when it came: the other time is what its maker says
            continue
        if all(os.lstat(os.path.join(d, f)).st_nlink == 1 for d, _, files in os.walk(at) for f in files):
            remove(at)


def main():
    key, job, top = os.environ["TANDEM_MAKE"], os.environ["SLURM_JOB_ID"], os.environ.get("PWD") or os.getcwd()
    tree = f"{top}/.made/{key}.{job}"
    if os.path.lexists(key):
        print(f"The environment {key} is there already.")
        return 0
    if platform.machine() != os.environ["TANDEM_ARCH"]:
        print(f"This node is {platform.machine()}, and the environment is for {os.environ['TANDEM_ARCH']}.")
        return 1
    for old in glob.glob(f"{top}/.made/{key}.*"):  # of jobs of this key that did not come to their end
        remove(old)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    done = False
    try:
        channels, specs, pips = read(f".want/{key}")
        tool(top, job)
        s = Solver(top)
        if pips and not any(re.match(r"(.*::)?pip([ =<>!~\[]|$)", t) for t in specs):
            specs.append("pip")
        locked = specs and all("://" in t and "#" in t for t in specs if t != "pip" or not pips)
        records = s.exact([t for t in specs if "#" in t]) if locked else s.solve(channels, specs)
        print(f"{len(records)} packages:", *(f"{r.name.normalized}={r.version}={r.build}" for r in records), flush=True)
        os.makedirs(tree)
        s.install(records, tree)
        if pips:
            pip_packages(tree, pips)
        finish(tree, records, pips)
        os.symlink(f".made/{key}.{job}", key)  # in one step; it fails where one is
        done = True
        tidy(f"{top}/.cache/packages")
    except (Wrong, OSError) as e:
        print(e, flush=True)
        return 1
    finally:
        if not done:
            remove(tree)
    print(f"The environment {key} is made.")
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except SystemExit as e:
        code = e.code
    sys.stdout.flush()
    os._exit(code)  # threads of the solver may still run, which an orderly end does not survive (C-P6)
