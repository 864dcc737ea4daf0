"""A machine as GPUDirect Storage needs it: a tree with its sys, proc, dev, etc and run."""
import os
import struct

GPU, BRIDGE = "0000:3b:00.0", "0000:3a:00.0"


def put(root, path, content=""):
    full = f"{root}/{path}"
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())


def config(acs):
    """A bridge's configuration space: an error reporting capability, then ACS with these bits."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
    struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x5F, acs)
    return bytes(space)


def machine(root, acs=0):
    """One that has all of it, and a disk at the GPU's own NUMA node."""
    put(root, "sys/module/nvidia/version", "550.54.15\n")
    put(root, "sys/module/nvidia_fs/version", "2.22.3\n")
    put(root, "proc/driver/nvidia-fs/stats", "GDS Version: 1.12\nOps : Read=7 Write=0\n")
    for i in (0, 1):
        put(root, f"dev/nvidia-fs{i}")
    put(root, "run/udev/control")
    put(root, "etc/cufile.json", "{}\n")
    for address, vendor, cls, numa in ((GPU, "0x10de", "0x030200", 1), (BRIDGE, "0x1000", "0x060400", 1)):
        put(root, f"sys/bus/pci/devices/{address}/vendor", vendor + "\n")
        put(root, f"sys/bus/pci/devices/{address}/class", cls + "\n")
        put(root, f"sys/bus/pci/devices/{address}/numa_node", f"{numa}\n")
    put(root, f"sys/bus/pci/devices/{BRIDGE}/config", config(acs))
    put(root, "sys/class/nvme/nvme0/device/numa_node", "1\n")
    put(root, "sys/class/infiniband/mlx5_0/device/numa_node", "0\n")
    put(root, "sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
    put(root, "sys/devices/system/node/node1/distance", "21 10\n")
    put(root, "proc/mounts", "/dev/nvme0n1p1 /scratch xfs rw 0 0\n/dev/sda1 / ext4 rw 0 0\nserver:/d /data nfs4 rw,proto=rdma 0 0\n")
