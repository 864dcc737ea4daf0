"""Container images as archives, made from directories and files: no registry, no daemon.

An archive is an OCI layout and a `docker save` archive at once: containerd (`ctr images import`), podman, docker and skopeo all take it. The
same content gives the same bytes: entries sorted by name, one fixed time, owners as given."""
import hashlib
import io
import json
import os
import pathlib
import tarfile

EPOCH = 1750000000
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
PAUSE = ["/bin/busybox", "sh", "-c", "trap 'exit 0' TERM INT; while :; do /bin/busybox sleep 3600 & wait $!; done"]


def _add(t, name, source, mode=None, owner=None):
    info = t.gettarinfo(source, arcname=name)
    if info is None:  # a socket
        return
    info.mtime = EPOCH
    info.uname = info.gname = ""
    if mode is not None:
        info.mode = mode
    if owner is not None:
        info.uid, info.gid = owner
    if info.isreg():
        with open(source, "rb") as f:
            t.addfile(info, f)
    else:
        t.addfile(info)


def _parents(t, name, made):
    """Directories that tar would otherwise make up with whatever mode its reader likes."""
    parts = pathlib.PurePosixPath(name).parent.parts
    for k in range(1, len(parts) + 1):
        d = "/".join(parts[:k])
        if d not in made:
            made.add(d)
            info = tarfile.TarInfo(d)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH
            t.addfile(info)


def layer_of_dir(path, root):
    """Everything below `root`, owners kept."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as t:
        for at, dirs, files in os.walk(root):
            dirs.sort()
            rel = os.path.relpath(at, root)
            for name in sorted(files) + [d for d in dirs if os.path.islink(os.path.join(at, d))]:
                _add(t, os.path.normpath(os.path.join(rel, name)), os.path.join(at, name))
            for name in dirs:
                if not os.path.islink(os.path.join(at, name)):
                    _add(t, os.path.normpath(os.path.join(rel, name)), os.path.join(at, name))


def layer_of_files(path, files=None, texts=None, links=None, dirs=None, present=()):
    """files {path in the image: file here} become executable and root's; texts {path: text}; links {path: target}; dirs {path: mode}.
    present: directories that a layer below has (written again, they would hide links that have their names)."""
    made = set(present)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as t:
        entries = [(n.lstrip("/"), kind, v) for kind, m in (("f", files), ("t", texts), ("l", links), ("d", dirs)) for n, v in (m or {}).items()]
        for name, kind, value in sorted(entries):
            _parents(t, name, made)
            info = tarfile.TarInfo(name)
            info.mtime = EPOCH
            if kind == "f":
                _add(t, name, os.path.realpath(value), 0o755, (0, 0))
            elif kind == "t":
                data = value.encode()
                info.size, info.mode = len(data), 0o644
                t.addfile(info, io.BytesIO(data))
            elif kind == "l":
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, value, 0o777
                t.addfile(info)
            else:
                info.type, info.mode = tarfile.DIRTYPE, value
                made.add(name)
                t.addfile(info)


def _digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()


def write(path, name, layers, config):
    """The archive `path` of image `name` (with its tag) out of layers (tar files, the lowest first). config: Cmd, Entrypoint, User, …"""
    blobs, layer_entries, diff_ids = {}, [], []
    for layer in layers:
        d = _digest(layer)
        blobs[d] = layer
        diff_ids.append(f"sha256:{d}")
        layer_entries.append({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": f"sha256:{d}", "size": os.path.getsize(layer)})

    def blob(doc):
        data = json.dumps(doc, separators=(",", ":"), sort_keys=True).encode()
        d = hashlib.sha256(data).hexdigest()
        blobs[d] = data
        return {"digest": f"sha256:{d}", "size": len(data)}

    conf = blob({"architecture": ARCH, "os": "linux", "created": "2025-06-15T15:06:40Z", "config": {"Env": [PATH], **config},
                 "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    man = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **conf}, "layers": layer_entries})
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", **man, "platform": {"architecture": ARCH, "os": "linux"},
         "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1]}}]}
    at = lambda digest: "blobs/sha256/" + digest.split(":")[-1]
    docker = [{"Config": at(conf["digest"]), "RepoTags": [name], "Layers": [at(d) for d in diff_ids]}]
    texts = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index, "manifest.json": docker}
    with tarfile.open(f"{path}.tmp", "w", format=tarfile.PAX_FORMAT) as t:
        for n, doc in texts.items():
            _bytes(t, n, json.dumps(doc, separators=(",", ":")).encode())
        for d, source in blobs.items():
            if isinstance(source, bytes):
                _bytes(t, at(d), source)
            else:
                _add(t, at(d), source, 0o644, (0, 0))
    os.rename(f"{path}.tmp", path)


def _bytes(t, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), EPOCH, 0o644
    t.addfile(info, io.BytesIO(data))


def archive(path, name, root=None, files=None, command=None):
    """An image of one layer: the directory `root`, or files {path in the image: file here}."""
    layer = f"{path}.layer"
    try:
        layer_of_dir(layer, root) if root else layer_of_files(layer, files)
        write(path, name, [layer], {"Cmd": command or ["/bin/sh"]})
    finally:
        pathlib.Path(layer).unlink(missing_ok=True)


def pause(path):
    """What keeps a pod's namespaces, for clusters without a registry."""
    archive(path, "tandem.dev/pause:1", files={"/bin/busybox": "/usr/bin/busybox"}, command=PAUSE)
