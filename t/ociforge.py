"""Builds container images by hand, valid and hostile ones: layers of any tar entries, layouts,
archives."""
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pathlib
import subprocess
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
OCI = "application/vnd.oci.image"


def entry(name, data=None, kind=None, link="", mode=None, uid=0, gid=0, pax=None, size=None, device=(0, 0)):
    """A tar entry: a file unless kind is "dir", "sym", "hard", "fifo", "char" or "block"."""
    info = tarfile.TarInfo(name)
    info.type = {None: tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "sym": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "char": tarfile.CHRTYPE, "block": tarfile.BLKTYPE}[kind]
    info.mode = mode if mode is not None else 0o755 if kind == "dir" else 0o644
    info.uid, info.gid, info.mtime, info.linkname, info.pax_headers = uid, gid, 1750000000, link, pax or {}
    info.devmajor, info.devminor = device
    data = data.encode() if isinstance(data, str) else data or b""
    info.size = len(data) if size is None else size
    return info, data


def layer(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as t:
        for info, data in entries:
            # addfile() would refuse a size that does not match the data.
            out.write(info.tobuf(format, "utf-8", "surrogateescape"))
            out.write(data + b"\0" * (-len(data) % 512))
            t.offset = out.tell()
    return out.getvalue()


def busybox(*names):
    """The layer of a root that can run: busybox under some names."""
    return layer(entry("bin", kind="dir"), entry("bin/busybox", pathlib.Path("/usr/bin/busybox").read_bytes(), mode=0o755),
                 *(entry(f"bin/{n}", kind="sym", link="busybox") for n in names or ("sh", "id", "env", "pwd", "cat", "ls", "sleep", "stat", "echo", "ln", "mkdir", "tar")))


PACK = {"": lambda b: b, "+gzip": lambda b: gzip.compress(b, 1, mtime=0), "+zstd": lambda b: subprocess.run(["zstd", "-qc"], input=b, stdout=subprocess.PIPE, check=True).stdout,
        "+xz": lzma.compress, "+bzip2": bz2.compress}


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Layout:
    """Blobs and an index, written as a directory or as a tar. Everything can be changed before it
    is written."""

    def __init__(self):
        self.blobs, self.manifests, self.docker, self.files = {}, [], [], {}

    def blob(self, data):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.blobs[sha(data)] = data
        return {"digest": "sha256:" + sha(data), "size": len(data)}

    def image(self, layers, name=None, arch=ARCH, os_name="linux", pack=None, diff_ids=None, platform=True, annotations=None, to=None, **config):
        """Adds an image and returns its manifest's descriptor. pack: the compression of each
        layer."""
        pack = pack or [""] * len(layers)
        conf = self.blob({"architecture": arch, "os": os_name, "config": config, "rootfs": {"type": "layers", "diff_ids": diff_ids or ["sha256:" + sha(l) for l in layers]}})
        parts = [{"mediaType": f"{OCI}.layer.v1.tar{p}", **self.blob(PACK[p](l))} for l, p in zip(layers, pack)]
        man = self.blob({"schemaVersion": 2, "mediaType": f"{OCI}.manifest.v1+json", "config": {"mediaType": f"{OCI}.config.v1+json", **conf}, "layers": parts})
        d = {"mediaType": f"{OCI}.manifest.v1+json", **man}
        if platform:
            d["platform"] = {"architecture": arch, "os": os_name}
        a = {**({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1]} if name else {}), **(annotations or {})}
        if a:
            d["annotations"] = a
        (self.manifests if to is None else to).append(d)
        return d

    def nested(self, manifests, name=None):
        d = {"mediaType": f"{OCI}.index.v1+json", **self.blob({"schemaVersion": 2, "manifests": manifests})}
        if name:
            d["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.manifests.append(d)

    def all(self):
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": self.manifests}).encode()}
        files.update({f"blobs/sha256/{d}": b for d, b in self.blobs.items()})
        files.update(self.files)
        return {n: b for n, b in files.items() if b is not None}

    def directory(self, path):
        for n, data in self.all().items():
            p = pathlib.Path(path) / n
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_bytes(data)
        return str(path)

    def archive(self, path, pack="", more=()):
        pathlib.Path(path).write_bytes(PACK[pack](layer(*(entry(n, d) for n, d in self.all().items()), *more)))
        return str(path)


def docker_archive(path, layers, tags, links=False, arch=ARCH, **config):
    """An archive as `docker save` made it before it wrote layouts: a directory for each layer.
    links: a layer that occurs twice is a link to the first one."""
    conf = json.dumps({"architecture": arch, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(l) for l in layers]}}).encode()
    names, entries, seen = [], [], {}
    for i, l in enumerate(layers):
        n = f"{i:064x}/layer.tar"
        if links and sha(l) in seen:
            entries.append(entry(n, kind="sym", link="../" + seen[sha(l)]))
        else:
            entries.append(entry(n, l))
        seen.setdefault(sha(l), n)
        names.append(n)
    manifest = [{"Config": sha(conf) + ".json", "RepoTags": tags, "Layers": names}]
    pathlib.Path(path).write_bytes(layer(entry(sha(conf) + ".json", conf), *entries, entry("manifest.json", json.dumps(manifest))))
    return str(path)
