"""Machines without disks (docs/netboot.md): what the boot service serves. That a machine joins with what it gives is in test_join.py."""
import json
import pathlib
import re
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml

from apidev import free_port
from harness import KEEP, SANITIZE, wait_for

UUID = "4c4c4544-0042-3510-8051-b4c04f4e3132"


class Service:
    """The boot service of one machine, with its directory."""

    def __init__(self, tandem, home):
        self.dir, self.port = pathlib.Path(home) / "boot", free_port()
        for d in ("machines", "groups", "images"):
            (self.dir / d).mkdir(parents=True, exist_ok=True)
        self.write(f"machines/{UUID}.yaml", {"node": "n9", "group": "gpu"})
        self.log = pathlib.Path(home) / "netboot.log"
        with open(self.log, "ab") as log:
            self.p = subprocess.Popen([tandem, "netboot", "--dir", self.dir, "--listen", f"127.0.0.1:{self.port}"],
                                      env={**KEEP, **SANITIZE}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("it serves", lambda: "serves" in self.log.read_text(), 30)

    def write(self, name, what):
        (self.dir / name).write_text(yaml.safe_dump(what))

    def get(self, path, data=None):
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data), timeout=30) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def end(self):
        self.p.terminate()
        assert self.p.wait(30) == 0


@pytest.fixture
def service(tandem, tmp_path):
    s = Service(tandem, tmp_path)
    yield s
    s.end()


@pytest.mark.feature("B8.2", "B8.3")
def test_the_boot_service(service):
    """Each boot gets the image that the group has then; a file that is not what its manifest says, an unknown machine and a path out of the directory are refused."""
    s = service
    for v in ("v1", "v2"):
        (s.dir / f"images/{v}").mkdir()
        (s.dir / f"images/{v}/kernel").write_text(f"kernel {v}")
        sums = {"kernel": subprocess.run(["sha256sum", s.dir / f"images/{v}/kernel"], capture_output=True, text=True, check=True).stdout.split()[0], "root": "0" * 64}
        (s.dir / f"images/{v}/root").write_text("something else")
        (s.dir / f"images/{v}/manifest.json").write_text(json.dumps({"kernel": "kernel", "initrd": "root", "cmdline": "quiet", "files": sums}))
    assert s.get("/boot.ipxe")[1].startswith("#!ipxe") and f"http://127.0.0.1:{s.port}/machine.ipxe?id=${{uuid}}" in s.get("/boot.ipxe")[1]
    assert "groups/gpu.yaml" in s.get(f"/machine.ipxe?id={UUID}")[1]
    s.write("groups/gpu.yaml", {"image": "v1"})
    one = s.get(f"/machine.ipxe?id={UUID}")[1]
    assert f"/images/v1/kernel initrd=root " in one and "tandem.node=n9 tandem.image=v1" in one and re.search("tandem.nonce=[0-9a-f]{32} quiet", one)
    assert UUID not in re.search("^kernel .*", one, re.M)[0]  # pods and jobs of the node can read that
    s.write("groups/gpu.yaml", {"image": "v2"})
    two = s.get(f"/machine.ipxe?id={UUID}")[1]
    assert "tandem.image=v2" in two and re.search("nonce=(\\S+)", one)[1] != re.search("nonce=(\\S+)", two)[1]
    assert s.get("/images/v2/kernel") == (200, "kernel v2")
    assert s.get("/images/v2/root") == (500, "the file is not what its manifest says\n") and "build the image anew" in s.log.read_text()
    (s.dir / "images/v2/link").symlink_to("/etc/passwd")
    for bad in ("/images/v2/link", "/images/v2/../../machines/x", "/images/v2/%2e%2e%2fkernel", "/images/.v/kernel", "/images/v2/", "/images/v2/manifest.json/x"):
        assert s.get(bad)[0] in (400, 404), bad
    assert "there is no machine" in s.get("/machine.ipxe?id=00000000-0000-0000-0000-000000000000")[1]
    assert "there is no machine" in s.get("/machine.ipxe?id=../groups/gpu")[1]
    assert s.get(f"/join?nonce=0&key=key:{'0' * 64}", data=b"")[0] == 403  # it has no cluster
    assert f"machine {UUID} boots image v2 as node n9" in s.log.read_text()
