"""A server of S3 that others wrote: moto, and before it a check of signatures by Amazon's own client (t/s3/server.py). Its environment is made once on a machine, by pinned
hashes (t/s3/requirements.txt), and kept beside the clients of t/test_clients.py."""
import http.client
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse

import pytest

from harness import SLOW, wait_for

LOCK = pathlib.Path(__file__).resolve().parent / "s3/requirements.txt"
CACHE = pathlib.Path(os.environ.get("TANDEM_CLIENTS", "/var/cache/tandem/clients"))


def environment(stamp):
    env = CACHE / f"s3-{stamp(LOCK)}-{sys.version_info.major}.{sys.version_info.minor}"
    if not env.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        new = pathlib.Path(tempfile.mkdtemp(dir=CACHE, prefix="s3-new-"))
        try:
            subprocess.run([sys.executable, "-m", "venv", new], check=True, capture_output=True, timeout=300)
            r = subprocess.run([new / "bin/pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "-r", LOCK], capture_output=True, text=True, timeout=600)
            if r.returncode:
                pytest.skip(f"the server of S3: not available, because {r.stderr.strip().splitlines()[-1] if r.stderr else 'pip failed'}")
            try:
                os.rename(new, env)
            except OSError:
                assert env.exists()  # another worker was first
        except subprocess.SubprocessError as e:
            pytest.skip(f"the server of S3: not available, because {e}")
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return env


class S3Server:
    """On all addresses. Its lists have pages of five."""

    def __init__(self, directory, stamp):
        python = environment(stamp) / "bin/python3"
        self.key, self.secret, self.strict = "AKIATANDEM", "wJalrXUtnFEMI/K7MDENG/the-secret", pathlib.Path(directory) / "strict"
        with socket.create_server(("", 0)) as s:
            self.port = s.getsockname()[1]
        self.log = pathlib.Path(directory) / "log"
        with open(self.log, "w") as out:
            self.process = subprocess.Popen([python, LOCK.parent / "server.py", str(self.port), self.key, self.secret, self.strict], stdout=out, stderr=out,
                                            env={"PATH": os.environ["PATH"], "MOTO_S3_DEFAULT_MAX_KEYS": "5", "NO_COLOR": "1"})
        try:
            wait_for("it listens", self.listens)
        except BaseException:
            self.stop()
            raise

    def listens(self):
        assert self.process.poll() is None, self.log.read_text()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.kill()
        self.process.wait()

    def at(self, host="127.0.0.1"):
        return f"http://{host}:{self.port}"

    def ask(self, method, path, body=b"", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * SLOW)
        c.request(method, path, body, {"Content-Type": "application/octet-stream", "Authorization": "AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none", **headers})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        assert r.status < 300, (method, path, r.status, text)

    def put(self, bucket, objects, acl="private"):
        """Only while signatures do not count."""
        self.ask("PUT", f"/{bucket}", **{"x-amz-acl": acl})
        for key, data in objects.items():
            self.ask("PUT", f"/{bucket}/{urllib.parse.quote(key)}", data, **{"x-amz-acl": acl})

    def count(self):
        """From now on wrong signatures are refused."""
        self.strict.touch()

    def asked(self, path):
        """The status of each answer to a GET of this path."""
        return [int(n) for n in re.findall(rf'GET {re.escape(path)} HTTP/1.1[^"]*" (\d+)', self.log.read_text())]
