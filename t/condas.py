"""A channel of Conda packages made by hand: a .conda is a zip of two tars in zstd's frames, a .tar.bz2 is one tar; repodata.json lists them."""
import contextlib
import hashlib
import http.server
import importlib.util
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

import pytest

from harness import ROOT, SLOW

PROGRAM = os.path.join(ROOT, "src/gateway/programs/conda.py")
CACHE = pathlib.Path(os.environ.get("TANDEM_CLIENTS", "/var/cache/tandem/clients"))

HOLDER = "/placehold" * 25  # what a package is built for, which the installer replaces by where it lies


def frame(data):
    """A frame of zstd (RFC 8878) whose blocks are not compressed."""
    out = [struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(data))]  # the size in 8 bytes, one segment
    for at in range(0, len(data), 1 << 17):
        part = data[at:at + (1 << 17)]
        out.append(struct.pack("<I", len(part) << 3 | (at + len(part) == len(data)))[:3] + part)
    return b"".join(out)


def tarred(files, compress=""):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode=f"w:{compress}", format=tarfile.GNU_FORMAT) as t:
        for name, (data, mode) in files.items():
            i = tarfile.TarInfo(name)
            i.mode = mode
            if isinstance(data, str):
                i.type, i.linkname = tarfile.SYMTYPE, data
                t.addfile(i)
            else:
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
    return b.getvalue()


class Channel:
    """Packages below a directory. add() writes one and lists it; several lie in "linux-64" and "noarch"."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.listed = {"linux-64": {}, "noarch": {}}
        self.write()

    def write(self):
        for subdir, packages in self.listed.items():
            os.makedirs(os.path.join(self.directory, subdir), exist_ok=True)
            data = {"info": {"subdir": subdir}, "repodata_version": 1, "removed": []}
            for key, end in (("packages", ".tar.bz2"), ("packages.conda", ".conda")):
                data[key] = {n: r for n, r in packages.items() if n.endswith(end)}
            with open(os.path.join(self.directory, subdir, "repodata.json"), "w") as f:
                json.dump(data, f)

    def add(self, name, version, files=None, needs=(), build="0", subdir="noarch", old=False, command=None, python=False, constrains=()):
        """files: path: bytes, or (bytes, mode), or a text, where a link leads to. python: a package of any Python ("noarch: python"), whose files lie below site-packages/; command: its entry point, "NAME = MODULE:FUNCTION". old: a .tar.bz2."""
        files = {n: v if isinstance(v, tuple) else (v, 0o644) for n, v in (files or {}).items()}
        index = {"name": name, "version": version, "build": build, "build_number": 0, "subdir": subdir, "depends": list(needs), "constrains": list(constrains), "timestamp": 1700000000000}
        info = {}
        if subdir == "noarch":
            index["noarch"] = "python" if python else "generic"
        if python:
            info["info/link.json"] = {"noarch": {"type": "python", "entry_points": [command] if command else []}, "package_metadata_version": 1}
        paths = []
        for n, (data, mode) in files.items():
            if isinstance(data, str):
                paths.append({"_path": n, "path_type": "softlink"})
                continue
            p = {"_path": n, "path_type": "hardlink", "sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data)}
            if HOLDER.encode() in data:
                p |= {"file_mode": "binary" if data.startswith(b"\x7fELF") else "text", "prefix_placeholder": HOLDER}
            paths.append(p)
        info |= {"info/index.json": index, "info/paths.json": {"paths": paths, "paths_version": 1}}
        texts = {n: (json.dumps(v).encode(), 0o644) for n, v in info.items()}
        file = f"{name}-{version}-{build}{'.tar.bz2' if old else '.conda'}"
        if old:
            data = tarred({**texts, **files}, "bz2")
        else:
            b = io.BytesIO()
            with zipfile.ZipFile(b, "w") as z:
                z.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
                z.writestr(f"pkg-{name}-{version}-{build}.tar.zst", frame(tarred(files)))
                z.writestr(f"info-{name}-{version}-{build}.tar.zst", frame(tarred(texts)))
            data = b.getvalue()
        os.makedirs(os.path.join(self.directory, subdir), exist_ok=True)
        with open(os.path.join(self.directory, subdir, file), "wb") as f:
            f.write(data)
        self.listed[subdir][file] = {**index, "md5": hashlib.md5(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return file

    def python(self, version="3.11.2"):
        """This machine's own Python of the system, so that it lies anywhere. Debian's has directories of its own for packages; here it has those of everybody else's."""
        short = version.rpartition(".")[0]
        lib, files = f"/usr/lib/python{short}", {}
        for at, dirs, names in os.walk(lib):
            dirs[:] = [d for d in dirs if d not in ("__pycache__", "test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "tkinter", "turtledemo", "dist-packages") and not d.startswith("config-")]
            for n in names:
                if not n.endswith((".pyc", ".a")) and n != "EXTERNALLY-MANAGED":
                    with open(os.path.join(at, n), "rb") as f:
                        files[os.path.relpath(os.path.join(at, n), "/usr")] = f.read()
        with open(f"/usr/bin/python{short}", "rb") as f:
            files[f"bin/python{short}"] = (f.read(), 0o755)
        files["bin/python3"] = files["bin/python"] = f"python{short}"
        files[f"lib/python{short}/sitecustomize.py"] = f'import site\nimport sysconfig\nsysconfig._INSTALL_SCHEMES["posix_local"] = sysconfig._INSTALL_SCHEMES["posix_prefix"]\nsite.addsitedir("{HOLDER}/lib/python{short}/site-packages")\n'.encode()
        files[f"lib/python{short}/site-packages/README"] = b"packages\n"
        self.add("python", version, files, subdir="linux-64", build="0_cpython", needs=["__glibc >=2.17"])

    def pip(self):
        """Pip itself, from the wheel that Debian has for environments."""
        (wheel,) = [f for f in os.listdir("/usr/share/python-wheels") if f.startswith("pip-")]
        with zipfile.ZipFile(f"/usr/share/python-wheels/{wheel}") as z:
            self.add("pip", wheel.split("-")[1], {f"site-packages/{n}": z.read(n) for n in z.namelist()}, needs=["python >=3"], python=True)


def program():
    spec = importlib.util.spec_from_file_location("conda_program", PROGRAM)
    conda = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conda)
    return conda


def installed():
    """The solver as conda.py would have left it in .tool, unpacked once on a machine: that it fetches it by itself is shown in the pool."""
    (file,) = tool().glob("*.whl")
    place = CACHE / f"conda-site-{file.stem}"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="conda-new-") as new:
            os.chmod(new, 0o755)
            with zipfile.ZipFile(file) as z:
                z.extractall(f"{new}/site")
            subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", f"{new}/site"], check=True, timeout=600)
            with contextlib.suppress(OSError):  # another worker was first
                os.rename(f"{new}/site", place)
    return place


def tool():
    """A directory that has the solver's wheel, which is fetched once on a machine by the hash that the program itself wants."""
    conda = program()
    place = CACHE / f"conda-{conda.TOOL}-{conda.VERSION}"
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="conda-new-") as new:
            want = pathlib.Path(new) / "want"
            want.write_text(f"{conda.TOOL}=={conda.VERSION} {' '.join(f'--hash=sha256:{h}' for h in conda.HASHES)}\n")
            r = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes", "-d", f"{new}/got", "-r", want],
                               capture_output=True, text=True, timeout=600)
            if r.returncode:
                pytest.skip(f"the solver of Conda's packages: not available, because {r.stderr.strip().splitlines()[-1] if r.stderr else 'pip failed'}")
            with contextlib.suppress(OSError):  # another worker was first
                os.rename(f"{new}/got", place)
    return place


class Site:
    """Channels below a directory at http://127.0.0.1, and a home where conda.py makes environments."""

    def __init__(self, directory):
        self.channels, self.home, self.asked, self.hold = str(directory / "channels"), str(directory / "home"), [], {}
        for d in (".want", ".made", ".log"):
            os.makedirs(f"{self.home}/tandem/envs/{d}")
        self.envs, site, conda = f"{self.home}/tandem/envs", self, program()
        os.mkdir(f"{self.envs}/.tool")
        os.symlink(installed(), f"{self.envs}/.tool/{conda.TOOL}-{conda.VERSION}-{os.uname().machine}")

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *a):
                super().__init__(*a, directory=site.channels)

            def do_GET(self):
                site.asked.append(self.path)
                if held := site.hold.get(self.path):
                    held.wait()
                super().do_GET()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def start(self, key, *want, cuda="", mirror=None, job="7"):
        with open(f"{self.envs}/.want/{key}", "w") as f:
            f.write("".join(f"{w}\n" for w in want))
        env = {"PATH": os.environ["PATH"], "HOME": self.home, "PWD": self.envs, "TANDEM_MAKE": key, "SLURM_JOB_ID": job, "TANDEM_ARCH": os.uname().machine, "TANDEM_CUDA": cuda,
               "TANDEM_CONDA_MIRROR": self.url if mirror is None else mirror, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tool())}
        return subprocess.Popen(["/usr/bin/python3", PROGRAM], cwd=self.envs, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def make(self, key, *want, **how):
        """(exit code, the lines that it said)."""
        p = self.start(key, *want, **how)
        out = p.communicate(timeout=600 * SLOW)[0]
        return p.returncode, out.splitlines()

    def run(self, key, line, shell="bash"):
        return subprocess.run([shell, "-c", f". {self.envs}/{key}/activate; {line}"], env={"PATH": os.environ["PATH"], "HOME": self.home}, capture_output=True, text=True, timeout=300 * SLOW)

    def left(self, key):
        return [t for t in os.listdir(f"{self.envs}/.made") if t.startswith(f"{key}.")]


def wipe(directory):
    """Removes a tree, closed directories too."""
    for at, _, _ in os.walk(directory):
        os.chmod(at, 0o755)
    shutil.rmtree(directory)
