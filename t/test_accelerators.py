"""Accelerators of several vendors in one pool, each by its description (docs/accelerators.md)."""
import json
import os
import re

import pytest

import gdsmachine
from accelerators import accelerators
from harness import wait_for

NPU = """name: npu
resource: example.com/npu
type: npu
find: [{sys: class/npu, name: npu, vendor: "0x1234", files: ["/dev/npu{n}"]}]
variables: [{name: NPU_DEVICES, value: "{index}"}]
slurmFlags: no_gpu_env
"""
KINDS = ("nvidia.com/gpu", "amd.com/gpu", "example.com/npu")
# Which device files may be opened: they are fake, so an open that is allowed ends with ENXIO.
PROBE = """for f in /dev/tandem-gpu* /dev/dri/* /dev/npu* /dev/kfd; do [ ! -e $f ] || case $( (exec 3<$f) 2>&1 ) in *"No such device"*) echo $f;; esac; done
env | grep -E 'VISIBLE_DEVICES|^NPU_' | sort"""


@pytest.mark.feature("D1.5", "D1.6", "D1.7", "A10.1", "D7.1")
def test_devices_of_several_vendors_do_not_mix(home):
    """A node with AMD's GPUs and one with a site's own kind, found in sysfs, beside fake NVIDIA ones: Slurm has each under its type, and pods and jobs get exactly their files and variables."""
    pool = home
    accelerators(f"{pool.home}/hardware/n1", 4)
    accelerators(f"{pool.home}/hardware/n2", 2, "class/npu/npu", 4, "0x1234", "0x0001")
    os.mkdir(f"{pool.home}/accelerators")
    with open(f"{pool.home}/accelerators/npu.yaml", "w") as f:
        f.write(NPU)
    gdsmachine.machine(f"{pool.home}/hardware/n0")
    pool.up("--nodes", "3", "--gpus", "2")
    pool.kubectl("patch", "slurmcluster", "main", "-n", "slurm", "--type=merge", "-p", json.dumps(
        {"spec": {"devices": [{"resource": r, **({"file": "/dev/npu"} if "npu" in r else {})} for r in KINDS], "scheduler": {"gresMap": dict.fromkeys(KINDS, "gpu")}}}))
    pool.kubectl("patch", "nodeset", "pool", "-n", "slurm", "--type=merge", "-p", '{"spec":{"updateStrategy":{"maxUnavailable":"100%"}}}')
    offered = {n["metadata"]["name"]: {k: v for k, v in n["status"]["capacity"].items() if "/" in k} for n in pool.items("nodes")}
    assert offered == {"n0": {KINDS[0]: "2"}, "n1": {KINDS[1]: "4"}, "n2": {KINDS[2]: "2"}}
    want = {"n0": "gpu:nvidia:2", "n1": "gpu:mi300x:4", "n2": "gpu:npu:2"}
    wait_for("Slurm has each under its type", lambda: dict(re.sub(r"\(S[^)]*\)", "", line).split() for line in pool.shell("sinfo", "-h", "-N", "-t", "idle", "-o", "%N %G").splitlines()) == want, 120)

    def pod(name, resource, n):
        p = pool.pod(name, command=["bash", "-c", PROBE + "; echo looked; sleep 100000"], image="tandem/slurm:24.11")
        for kind in ("limits", "requests"):
            p["spec"]["containers"][0]["resources"][kind] = {"cpu": "1", "memory": "64Mi", **dict.fromkeys(resource.split("+"), str(n))}
        return p

    direct, far = pod("nv", KINDS[0], 2), pod("far", KINDS[1], 1)
    for p in (direct, far):
        p["metadata"]["annotations"] = {"slurm.tandem.dev/gds": "true"}
    pool.apply(pod("amd", KINDS[1], 2), pod("npu", KINDS[2], 1), direct, far, pod("both", f"{KINDS[0]}+{KINDS[1]}", 1))
    wait_for("they run", lambda: {p["metadata"]["name"] for p in pool.running()} >= {"amd", "npu", "nv"})
    pool.apply(pod("more", KINDS[0], 1))  # not before the others: it is smaller, and would be first on n0
    got = {p["metadata"]["name"]: (p["spec"]["nodeName"], json.loads(p["metadata"]["annotations"]["tandem.dev/devices"])) for p in pool.running()}
    assert got["nv"] == ("n0", {KINDS[0]: "0-1"}) and got["npu"][0] == "n2" and got["amd"][0] == "n1" and list(got["amd"][1]) == [KINDS[1]]
    said = {}
    for name in got:
        wait_for("it has looked", lambda: "looked" in pool.kubectl("logs", name).split())
        said[name] = pool.kubectl("logs", name).split()[:-1]
    first = 128 + int(got["amd"][1][KINDS[1]].split("-")[0])
    mine = [f"/dev/dri/renderD{first}", f"/dev/dri/renderD{first + 1}"]
    assert said["amd"] == [*mine, "/dev/kfd", "HIP_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=0,1"]
    npu = int(got["npu"][1][KINDS[2]])
    assert said["npu"] == [f"/dev/npu{4 + npu}", f"NPU_DEVICES={npu}"]
    # GPUDirect Storage by request, where the node has it; nobody else gets its files.
    assert pool.kubectl("exec", "nv", "--", "sh", "-c", "ls -d /dev/nvidia-fs*; cat /etc/cufile.json; ls /run/udev; touch /run/udev/x 2>/dev/null || echo read-only").split() == ["/dev/nvidia-fs0", "/dev/nvidia-fs1", "{}", "control", "read-only"]
    assert "No such file" in pool.run("kubectl", "exec", "amd", "--", "ls", "/dev/nvidia-fs0", check=False).stderr
    wait_for("the other one is told why not", lambda: "no node that it may use has GPUDirect Storage" in json.dumps(pool.get("pod", "far")["status"]))
    assert pool.shell("sinfo", "-h", "-n", "n0", "-o", "%f").count("gds") == 1
    assert said["nv"] == ["/dev/tandem-gpu0", "/dev/tandem-gpu1", "CUDA_VISIBLE_DEVICES=0,1", "NVIDIA_VISIBLE_DEVICES=0,1"]
    # A native job gets the other two, and slurmd's own variables beside the vendor's.
    out = pool.shell("srun", "-Q", "--mem=64M", "--gres=gpu:mi300x:2", "bash", "-c", PROBE).split()
    others = [f for f in (f"/dev/dri/renderD{i}" for i in range(128, 132)) if f not in mine]
    assert out == [*others, "HIP_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=0,1"] or out == [*others, "/dev/kfd", "HIP_VISIBLE_DEVICES=0,1", "ROCR_VISIBLE_DEVICES=0,1"]
    # Two of AMD's are free again, and are nothing for who asks for NVIDIA's; nor is a mixture.
    assert "nodeName" not in pool.get("pod", "more")["spec"]
    wait_for("a mixture is refused", lambda: "two types of gpu" in json.dumps(pool.get("pod", "both")["status"]))
