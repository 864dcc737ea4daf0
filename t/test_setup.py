"""A bare Debian root: make build, make test-setup and unit tests pass where nothing is installed.

By default only Debian 12 is tried (TANDEM_BARE=bookworm,trixie for both). The root is made by mmdebstrap; the checkout is what git has committed."""
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from harness import ROOT

pytestmark = pytest.mark.feature("F1.1")

# What the tests call besides what every Debian has.
PROGRAMS = "gcc git ip kubectl man meson mmdebstrap openssl pgrep ps runc setpriv spin sysctl unshare zstd"
# Unit tests of what differs from machine to machine: they start programs and containers, read archives, and are Python.
UNITS = "base checkup scratch local 'http pki' 'http http' 'oci oci' 'oci image' 'oci crash' 'standin firewall net' 'standin look' 'apiserver store' 'operator objects' 'corpus tar'"
RELEASES = os.environ.get("TANDEM_BARE", "bookworm").split(",")


def mirror():
    text = ""
    for d, _, files in os.walk("/etc/apt"):
        for f in files:
            if f.endswith((".list", ".sources")):
                text += open(os.path.join(d, f)).read() + "\n"
    for word in text.split():
        if word.startswith("http") and word.rstrip("/").endswith("/debian") and "snapshot" not in word:
            return word
    return None


@pytest.mark.nightly
@pytest.mark.slow  # makes a Debian, and builds everything again
@pytest.mark.parametrize("release", RELEASES)
def test_setup_build_and_unit_tests_in_a_bare_root(release, tmp_path_factory):
    url = mirror()
    if not url:
        pytest.skip("no Debian mirror in this machine's apt sources")
    root = tempfile.mkdtemp(prefix=f"tandem-bare-{release}-", dir="/var/tmp")
    os.chmod(root, 0o755)
    try:
        subprocess.run(["nice", "-n", "-8", "mmdebstrap", "--mode=root", "--variant=minbase", "--include=git,make,ca-certificates,ccache", release, root, url], check=True, timeout=600,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for f in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(f, root + f)
        with open(f"{root}/etc/dpkg/dpkg.cfg.d/quick", "w") as f:
            f.write("force-unsafe-io\n")  # no system has to outlive a loss of power here
        extra = "/etc/apt/apt.conf.d"
        for f in os.listdir(extra):
            if "proxy" in open(f"{extra}/{f}").read().lower():
                shutil.copy(f"{extra}/{f}", f"{root}{extra}/{f}")
        subprocess.run(f"git -C {ROOT} archive HEAD | tar -x -C {root}/srv", shell=True, check=True)
        # A mount namespace of its own with the bare root as its real root (pivot_root, not chroot: the container tests do the same again inside).
        enter = ("set -e; mount --rbind $R $R; mount --rbind /sys $R/sys; mount --rbind /dev $R/dev; mount -t proc proc $R/proc; mount --bind $CACHE $R/ccache; cd $R; mkdir -p old; pivot_root . old; cd /; "
                 "umount -l /old; exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CCACHE_DIR=/ccache DEBIAN_FRONTEND=noninteractive sh -c \"$SCRIPT\"")
        # By ccache: what make test compiled of the same file with the same compiler is not compiled again: CI has two cores.
        cache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
        os.makedirs(cache, exist_ok=True)
        os.makedirs(f"{root}/ccache")
        script = ("cd /srv && make build && make test-setup && "
                  f"for p in {PROGRAMS}; do command -v $p >/dev/null || {{ echo \"tools/setup brings no $p\"; exit 1; }}; done && "
                  f"meson configure build -Dtests=true && meson test -C build --timeout-multiplier 8 --print-errorlogs {UNITS}")
        # Before others: it is the longest, and they mostly wait.
        r = subprocess.run(["nice", "-n", "-8", "unshare", "-m", "--propagation", "private", "sh", "-c", enter], env={**os.environ, "R": root, "CACHE": cache, "SCRIPT": script},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
        assert r.returncode == 0, r.stdout[-6000:]
        assert re.search(r"Fail: +0\b", r.stdout), r.stdout[-2000:]
    finally:
        shutil.rmtree(root, ignore_errors=True)
