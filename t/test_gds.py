"""tandem gds-check: what a machine has of GPUDirect Storage (docs/accelerators.md)."""
import json
import subprocess

import pytest

from gdsmachine import BRIDGE, GPU, config, machine, put


@pytest.mark.feature("D7.2")
def test_gds_check_says_what_is_there_and_what_is_missing(tandem, tmp_path):
    root = str(tmp_path)

    def check(*more):
        r = subprocess.run([tandem, "gds-check", "--root", root, *more], capture_output=True, text=True, timeout=60)
        assert not r.stderr, r.stderr
        return r.returncode, r.stdout

    def states():
        code, out = check("-o", "json")
        j = json.loads(out)
        assert j["ready"] == (code == 0)
        return j, {c["name"]: c["state"] for c in j["checks"]}

    nothing, found = states()
    assert not nothing["ready"] and found["module"] == found["devices"] == found["filesystems"] == "missing"
    code, out = check()
    assert code == 1 and "modprobe nvidia-fs" in out and max(map(len, out.splitlines())) < 220

    machine(root)
    whole, found = states()
    assert set(found.values()) == {"ok"} and whole["ready"] and whole["version"] == "2.22.3", whole
    gpu = next(d for d in whole["devices"] if d["kind"] == "gpu")
    assert gpu == {"kind": "gpu", "name": GPU, "pci": GPU, "numa": 1, "distances": {"nvme0": 10, "mlx5_0": 21}}
    assert whole["mounts"] == ["/scratch xfs", "/data nfs4"]
    code, out = check()
    assert code == 0 and "Ops : Read=7" in out and "nvme0 at 10" in out and "can be used here" in out

    # What stands in the way makes it slower, each by itself.
    put(root, f"sys/bus/pci/devices/{BRIDGE}/config", config(0x1D))
    assert states()[1]["acs"] == "slower"
    put(root, f"sys/bus/pci/devices/{BRIDGE}/config", config(0x1D)[:64])  # as everybody but root reads it
    assert states()[1]["acs"] == "unknown"
    put(root, "sys/kernel/iommu_groups/0/type", "identity\n")
    assert states()[1]["iommu"] == "ok"
    put(root, "sys/kernel/iommu_groups/1/type", "DMA-FQ\n")
    put(root, "sys/class/nvme/nvme0/device/numa_node", "0\n")
    put(root, "proc/mounts", "/dev/sda1 / ext4 rw 0 0\n")
    last, found = states()
    assert (found["iommu"], found["storage"], found["filesystems"]) == ("slower", "slower", "missing") and not last["ready"]
    r = subprocess.run([tandem, "gds-check", "-o", "yaml"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and "json" in r.stderr
