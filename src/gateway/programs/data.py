#!/usr/bin/env python3
"""Fetches a data set, as a Slurm job of its own (need.h): into .made/KEY.JOB, and the link KEY to it once
all of it is there and is what it should be. TANDEM_URL with TANDEM_SHA256, TANDEM_GIT with
TANDEM_REF, or TANDEM_S3 (s3://BUCKET/PREFIX) with TANDEM_S3_ENDPOINT, _REGION and _PROFILE. The text of s3.py stands before this one. Its last line, when it fails, says why."""
import configparser
import glob
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

TRIES = 5


class Wrong(Exception):
    pass


def download(url, want, to):
    """Goes on where a cut left it, and is believed only when its hash is the one that was asked for."""
    tries = most = 0
    with open(to, "wb+") as f:
        while True:
            at = f.seek(0, 2)
            try:
                ask = urllib.request.Request(url, headers={"Range": f"bytes={at}-"} if at else {})
                with urllib.request.urlopen(ask, timeout=60) as r:
                    if at and r.status != 206:
                        f.truncate(at := 0)
                        f.seek(0)
                    length = r.headers.get("Content-Length")
                    shutil.copyfileobj(r, f, 1 << 20)
                if length is None or f.tell() - at == int(length):
                    break
                raise OSError(f"{f.tell()} of {at + int(length)} bytes came")
            except urllib.error.HTTPError as e:
                if e.code < 500:
                    raise Wrong(f"{url}: the server says {e.code} {e.reason}") from e
                why = f"the server says {e.code} {e.reason}"
            except (OSError, http.client.HTTPException) as e:
                why = getattr(e, "reason", None) or e
            # A server that begins anew each time comes no further.
            tries, most = (0, f.tell()) if f.seek(0, 2) > most else (tries + 1, most)
            if tries == TRIES:
                raise Wrong(f"{url}: {why}")
            print(f"{why}; once more from byte {f.tell()}", flush=True)
            time.sleep(1 << tries)
        f.seek(0)
        have = hashlib.file_digest(f, "sha256").hexdigest()
    if have != want:
        raise Wrong(f"{url} is not what the job file says: its sha256 is {have}, not {want}")


def unpack(archive, to):
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as t:
            t.extractall(to, filter="data")  # nothing leads out of it
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as z:
            z.extractall(to)
    else:
        raise Wrong("unpack: it is neither a tar nor a zip")


def clone(url, ref, to):
    if not shutil.which("git"):
        raise Wrong("the image of this node has no git: tandem/work has it")
    silent = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"]  # as download(): a server that sends nothing is given up
    for argv in (["init", "-q"], ["fetch", "-q", "--depth", "1", "--", url, ref], ["checkout", "-q", "--detach", "FETCH_HEAD"]):
        r = subprocess.run(["git", *silent, "-C", to, *argv], env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if r.returncode:
            raise Wrong(f"{url} {ref}: {r.stderr.strip() or 'git failed'}")


class Home:
    """It takes what the home's owner may keep there."""

    def take(self, *_):
        pass


def keys(profile):
    """Those of ~/.aws/credentials; None: requests are not signed."""
    said = configparser.RawConfigParser()
    try:
        said.read(os.path.expanduser("~/.aws/credentials"))
    except (configparser.Error, UnicodeDecodeError):  # its own words have the line, and so perhaps a key
        raise Wrong("~/.aws/credentials on the cluster cannot be read: it has lines [PROFILE] and NAME = VALUE") from None
    if not said.has_section(profile or "default"):
        if profile:
            raise Wrong(f"profile: ~/.aws/credentials on the cluster has no [{profile}]: put its keys there, readable by you only")
        return None
    names = {"accessKeyID": "aws_access_key_id", "secretAccessKey": "aws_secret_access_key", "sessionToken": "aws_session_token"}
    return s3_keys(lambda k: said.get(profile or "default", names[k], fallback=None))  # noqa: F821


def bucket(env, tree, data):
    at, _, prefix = env["TANDEM_S3"].removeprefix("s3://").partition("/")
    s3_fetch(S3(env["TANDEM_S3_ENDPOINT"], env["TANDEM_S3_REGION"], at, keys(env["TANDEM_S3_PROFILE"])), prefix, f"{tree}/objects", data, Home())  # noqa: F821
    shutil.rmtree(f"{tree}/objects")


def fetch(tree):
    data, env = f"{tree}/data", os.environ
    os.makedirs(data)
    if env.get("TANDEM_S3"):
        bucket(env, tree, data)
        return
    if env.get("TANDEM_GIT"):
        clone(env["TANDEM_GIT"], env["TANDEM_REF"], data)
        return
    name = urllib.parse.unquote(os.path.basename(urllib.parse.urlsplit(env["TANDEM_URL"]).path)).replace("/", "_") or "data"
    packed = env.get("TANDEM_UNPACK") == "yes"
    there = f"{tree}/archive" if packed else f"{data}/{'data' if name in ('.', '..') else name}"
    download(env["TANDEM_URL"], env["TANDEM_SHA256"], there)
    if packed:
        unpack(there, data)
        os.unlink(there)


def main():
    key, job = os.environ["TANDEM_MAKE"], os.environ["SLURM_JOB_ID"]
    tree = f".made/{key}.{job}"
    if os.path.exists(key):
        print(f"The data set {key} is there already.")
        return 0
    for old in glob.glob(f".made/{key}.*"):  # of jobs of this key that did not come to their end
        shutil.rmtree(old)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    done = False
    try:
        fetch(tree)
        size = sum(os.lstat(os.path.join(d, f)).st_size for d, _, files in os.walk(tree) for f in files)
        with open(f"{tree}/tandem.json", "w") as f:
            json.dump({"kind": next((k for k in ("git", "s3") if os.environ.get(f"TANDEM_{k.upper()}")), "http"), "bytes": size, "made": int(time.time())}, f)
        with open(f"{tree}/.used", "w"):
            pass
        os.symlink(tree, key)  # in one step; it fails where one is
        done = True
    except (Wrong, OSError, tarfile.TarError, zipfile.BadZipFile, globals().get("S3Wrong", Wrong)) as e:
        print(e, flush=True)
        return 1
    finally:
        if not done:
            shutil.rmtree(tree, ignore_errors=True)
    print(f"The data set {key} is there: {size} bytes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
