"""Trees of sysfs with accelerators, as a virtual node finds them in its hardware/<node>/."""
import os


def accelerators(root, n, cls="class/drm/renderD", first=128, vendor="0x1002", device="0x74a1"):
    for i in range(n):
        pci = f"{root}/sys/devices/pci0000:00/0000:{0x21 + i:02x}:00.0"
        os.makedirs(pci)
        for name, text in {"vendor": vendor, "device": device, "class": "0x120000", "numa_node": str(2 * i // n), "local_cpulist": "0-1"}.items():
            with open(f"{pci}/{name}", "w") as f:
                f.write(text + "\n")
        entry = f"{root}/sys/{cls}{first + i}"
        os.makedirs(entry)
        os.symlink(pci, f"{entry}/device")
