"""Trees that look like the /sys of a machine with GPUs and adapters of the network, for virtual nodes (<home>/hardware/<node>)."""
import os
import shutil

SWITCH = "devices/pci0000:{0}/0000:{0}:00.0/0000:{1}:00.0"  # its upstream port; what is below it is near
BUSES = (("3a", "3b"), ("9a", "9b"))  # of NUMA nodes 0 and 1


class Tree:
    def __init__(self, pool, node):
        """An empty tree, which is moved to its place as a whole by `done`."""
        self.place = f"{pool.home}/hardware/{node}"
        self.root = f"{pool.home}/hardware/.{node}"
        shutil.rmtree(self.root, ignore_errors=True)

    def file(self, path, text):
        full = f"{self.root}/sys/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(text if isinstance(text, bytes) else f"{text}\n".encode())

    def link(self, path, to):
        """A link as sysfs has them: relative, to a path below sys."""
        full = f"{self.root}/sys/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.symlink(os.path.relpath(f"{self.root}/sys/{to}", os.path.dirname(full)), full)

    def device(self, way, numa, **files):
        for name, text in {"numa_node": numa, **files}.items():
            self.file(f"{way}/{name}", text)
        self.link(f"bus/pci/devices/{os.path.basename(way)}", way)

    def gpu(self, numa, slot):
        a, b = BUSES[numa]
        self.device(f"{SWITCH.format(a, b)}/0000:{b}:{slot:02x}.0", numa, **{"class": "0x030200", "vendor": "0x10de"})

    def interface(self, way, name, up=True, mbps=10000):
        net = f"{way}/net/{name}"
        self.file(f"{net}/operstate", "up" if up else "down")
        self.file(f"{net}/speed", mbps if up else -1)
        self.link(f"{net}/device", way)
        self.link(f"class/net/{name}", net)

    def ethernet(self, name, numa=0, slot=1, **kw):
        way = f"devices/pci0000:00/0000:00:{slot:02x}.0"
        self.device(way, numa)
        self.interface(way, name, **kw)

    def rdma(self, numa, slot, name, interface, up=True, gbps=400, layer="InfiniBand", guid="506b:4b03:00ca:1e2c", number=None):
        a, b = BUSES[numa]
        way = f"{SWITCH.format(a, b)}/0000:{b}:{slot:02x}.0"
        own = f"{way}/infiniband/{name}"
        self.device(way, numa, vpd=b"\x82\x04\x00Test\x90\x08\x00SN\x05" + f"S{numa}-{slot}X".encode()[:5] + b"\x78")
        for path, text in {"ports/1/link_layer": layer, "ports/1/rate": f"{gbps} Gb/sec (4X NDR)", "ports/1/state": "4: ACTIVE" if up else "1: DOWN",
                           "node_guid": guid, "fw_ver": "28.39.1002", "hca_type": "MT4129"}.items():
            self.file(f"{own}/{path}", text)
        if number is not None:  # its device files
            self.file(f"{way}/infiniband_verbs/uverbs{number}/ibdev", name)
            for what in ("umad", "issm"):
                self.file(f"{way}/infiniband_mad/{what}{number + 4}/ibdev", name)
        self.link(f"{own}/device", way)
        self.link(f"class/infiniband/{name}", own)
        self.interface(way, interface, up, gbps * 1000)

    def done(self):
        shutil.rmtree(self.place, ignore_errors=True)
        os.rename(self.root, self.place)


def rails(pool, node, down=(), number=0, files=(0, 1)):
    """Four GPUs and two adapters below two switches, on two NUMA nodes, with interfaces for storage and for people."""
    t = Tree(pool, node)
    for numa in range(2):
        for k in range(2):
            t.gpu(numa, k)
        t.rdma(numa, 8, f"mlx5_{numa}", f"ib{numa}", up=f"ib{numa}" not in down, guid=f"506b:4b03:{number:04x}:{numa:04x}", number=files[numa])
    t.ethernet("eth5", slot=2, mbps=100000)
    t.ethernet("eno1", slot=3)
    t.done()
