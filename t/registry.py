"""A registry of container images that wants a password (Debian's docker-registry), for tests of what
pulls from one."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

from apidev import free_port
from harness import wait_for

USER, PASSWORD = "alice", "open-sesame"
HASH = "$2b$04$Kes2M6auu7D6NDMs66wUc.iwPuvLNGMyZYh9NkNp6acKiWG5OChnS"  # of PASSWORD, by bcrypt with few rounds


class Registry:
    """Listens at an address that pods reach. fetched() says what was asked of it."""

    def __init__(self, address):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tandem-t-registry-", dir="/var/tmp"))
        self.host = f"{address}:{free_port()}"
        (self.dir / "users").write_text(f"{USER}:{HASH}\n")
        conf = {"version": "0.1", "log": {"level": "info", "formatter": "json", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(self.dir / "data")}},
                "http": {"addr": self.host}, "auth": {"htpasswd": {"realm": "tests", "path": str(self.dir / "users")}}}
        (self.dir / "config.yml").write_text(json.dumps(conf))  # JSON is YAML
        self.layers = set()
        self.log = self.dir / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(self.dir / "config.yml")], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for("the registry answers", lambda: self.http("GET", "/v2/")[0] == 200)

    def http(self, method, path, data=None, kind=None):
        url = path if path.startswith("http") else f"http://{self.host}{path}"
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(url, data=data, method=method, headers={"Authorization": f"Basic {token}", "Content-Type": kind or "application/octet-stream"})
        try:
            with urllib.request.urlopen(request, timeout=60) as r:
                return r.status, dict(r.headers), r.read()
        except urllib.error.HTTPError as e:
            return e.code, dict(e.headers), e.read()
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return 0, {}, b""

    def push(self, layout, repository, tag):
        """Pushes the first image of a layout (ociforge.Layout) and returns REGISTRY/REPOSITORY:TAG."""
        manifest = layout.blobs[layout.manifests[0]["digest"].removeprefix("sha256:")]
        parts = json.loads(manifest)
        self.layers |= {d["digest"] for d in parts["layers"]}
        for d in [parts["config"], *parts["layers"]]:
            status, headers, _ = self.http("POST", f"/v2/{repository}/blobs/uploads/", b"")
            assert status == 202, status
            at = headers["Location"]
            status, _, body = self.http("PUT", f"{at}{'&' if '?' in at else '?'}digest={d['digest']}", layout.blobs[d["digest"].removeprefix("sha256:")])
            assert status == 201, body
        status, _, body = self.http("PUT", f"/v2/{repository}/manifests/{tag}", manifest, parts["mediaType"])
        assert status == 201, body
        return f"{self.host}/{repository}:{tag}"

    def fetched(self):
        """How many layers it has given out."""
        lines = [json.loads(l) for l in self.log.read_text().splitlines() if l.startswith("{")]
        return sum(1 for l in lines if l.get("http.request.method") == "GET" and l.get("msg") == "response completed" and l.get("http.request.uri", "").rpartition("/")[2] in self.layers)

    def docker_config(self, password=PASSWORD):
        """What belongs into ~/.docker/config.json."""
        return json.dumps({"auths": {self.host: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}}})

    def netrc(self):
        """What belongs into ~/.config/enroot/.credentials."""
        return f"machine {self.host} login {USER} password {PASSWORD}\n"

    def stop(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
