"""A bare Debian root: tools/setup, build and unit tests pass where nothing is installed.

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


@pytest.mark.slow  # makes a Debian, and builds everything again
@pytest.mark.parametrize("release", RELEASES)
def test_setup_build_and_unit_tests_in_a_bare_root(release, tmp_path_factory):
    url = mirror()
    if not url:
        pytest.skip("no Debian mirror in this machine's apt sources")
    root = tempfile.mkdtemp(prefix=f"tandem-bare-{release}-", dir="/var/tmp")
    os.chmod(root, 0o755)
    try:
        subprocess.run(["mmdebstrap", "--mode=root", "--variant=minbase", "--include=git,make,ca-certificates", release, root, url], check=True, timeout=600,
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
        enter = ("set -e; mount --rbind $R $R; mount --rbind /sys $R/sys; mount --rbind /dev $R/dev; mount -t proc proc $R/proc; cd $R; mkdir -p old; pivot_root . old; cd /; "
                 "umount -l /old; exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive sh -c \"$SCRIPT\"")
        # Without optimization, which takes half of a compiler's time: that is seen in the builds that all other tests run on.
        script = ("cd /srv && make setup && tools/setup --for build --for run --for test && meson setup build -Dbuildtype=plain >/dev/null && ninja -C build --quiet && "
                  f"for p in {PROGRAMS}; do command -v $p >/dev/null || {{ echo \"tools/setup brings no $p\"; exit 1; }}; done && "
                  "meson test -C build --timeout-multiplier 4 --print-errorlogs")
        r = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", enter], env={**os.environ, "R": root, "SCRIPT": script},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
        assert r.returncode == 0, r.stdout[-6000:]
        assert re.search(r"Fail: +0\b", r.stdout), r.stdout[-2000:]
    finally:
        shutil.rmtree(root, ignore_errors=True)
