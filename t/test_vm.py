"""A node without a disk from its firmware to work (docs/netboot.md): an emulated machine that iPXE boots, in a real Kubernetes. By hand only,
`pytest t/test_vm.py -m vm`: CI has no room for a boot in emulation."""
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from harness import ACT_OVER, wait_for
from vmsite import NODE, UUID, VmSite, needs

pytestmark = [pytest.mark.vm, pytest.mark.kube]
FIRST = "v1"  # the image
BOOT = 3600  # seconds; on an idle machine it takes two minutes, beside others it has taken ten


@pytest.fixture(scope="module")
def vm(build):
    needs()
    home = tempfile.mkdtemp(prefix="tandem-vm-", dir="/var/tmp")
    s = VmSite(home, build)
    try:
        s.up()
        yield s
    finally:
        s.down()
        shutil.rmtree(home, ignore_errors=True)


def node(s):
    return s.get("node", NODE)


def boot_id(s):
    return node(s)["status"]["nodeInfo"]["bootID"]


def act(s, what):
    """The NodeAction of that kind, when it is over."""
    return next((a for a in s.get("nodeactions")["items"] if a["spec"]["action"] == what and a.get("status", {}).get("phase") in ACT_OVER), None)


def takes_work(s, image, t):
    """It is in service, without a disk, from that image; a job of Slurm's and a pod run in this boot of it."""
    wait_for("it takes work", lambda: "tandem.dev/hold" not in node(s)["metadata"]["annotations"] and s.slurm("sinfo", "-h", "-N", "-n", NODE, "-o", "%T").strip() == "idle", BOOT)
    t("Slurm has it idle")
    here = boot_id(s)
    look = "cat /proc/sys/kernel/random/boot_id; tr ' ' '\\n' </proc/cmdline | grep tandem.image; ls /sys/block | grep -Ev '^(loop|ram)'; true"
    assert s.slurm("srun", "-w", NODE, "sh", "-c", look, timeout=600).split() == [here, f"tandem.image={image}"], "its boot, its image, and no disk"
    t("a job ran")
    name = f"work-{image}"
    s.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "schedulerName": "tandem", "restartPolicy": "Never", "containers": [
            {"name": "c", "image": "tandem/slurm:24.11", "imagePullPolicy": "Never", "command": ["sh", "-c", "cat /proc/sys/kernel/random/boot_id >/dev/termination-log"],
             "resources": {"requests": {"cpu": "1", "memory": "16Mi"}}}]}})
    done = wait_for("the pod has run", lambda: (p := s.get("pod", name)) and p["status"].get("phase") == "Succeeded" and p, BOOT)
    assert done["spec"]["nodeName"] == NODE and done["status"]["containerStatuses"][0]["state"]["terminated"]["message"].strip() == here
    assert done["metadata"]["annotations"]["tandem.dev/job-id"], "Slurm placed it"
    t("a pod ran")
    assert re.search(rf"^{NODE} .*image {image}$", s.cmd("nodes"), re.M)


def clock(begun):
    return lambda what: print(f"{time.monotonic() - begun:6.0f} s  {what}", flush=True)


@pytest.mark.feature("B8.1", "B8.4", "D5.2")
def test_a_machine_without_a_disk_boots_burns_in_and_takes_work(vm):
    """iPXE, image, token, node, test, work. Who knows its id is not the machine while it runs."""
    s, t = vm, clock(time.monotonic())
    s.image(FIRST)
    s.start()
    t("switched on")
    wait_for("it has joined", lambda: "tandem-node: joined" in s.serial(), BOOT)
    t("joined")
    wait_for("its node is Ready", lambda: NODE in s.c.ready_nodes(), BOOT)
    t("Ready")
    done = wait_for("it has burned in", lambda: act(s, "test"), BOOT)
    assert {a["spec"]["node"] for a in s.get("nodeactions")["items"]} == {NODE}, "a node without slurmd is not tested"
    assert (done["status"]["phase"], done["spec"]["reason"], done["spec"]["node"]) == ("Succeeded", "it is new", NODE), done
    t("burned in")
    takes_work(s, FIRST, t)
    labels, tokens = node(s)["metadata"]["labels"], s.get("nodetokens")["items"]
    assert labels["site.example/diskless"] == "yes" and [(k["status"]["phase"], k["status"]["node"]) for k in tokens] == [("Joined", NODE)]

    # Who knows the machine's id is not the machine while it runs.
    def ask(path, **kw):
        try:
            return urllib.request.urlopen(urllib.request.Request(f"{s.url}{path}", **kw), timeout=30).read().decode()
        except urllib.error.HTTPError as e:
            return e.code
    nonce = re.search(r"tandem.nonce=(\S+)", ask(f"/machine.ipxe?id={UUID}"))[1]
    for _ in range(2):
        assert ask(f"/join?nonce={nonce}&key=key:{'0' * 64}", method="POST", data=b"") == 503
