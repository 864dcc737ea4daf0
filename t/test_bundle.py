"""The offline bundle: a bare Debian without a network has Tandem from one archive, and runs a job (row A16)."""
import os
import pathlib
import shutil
import subprocess

import pytest

from harness import ROOT

pytestmark = [pytest.mark.feature("A16.5", "A16.6", "A16.7", "A16.8"), pytest.mark.slow]  # makes a Debian and an archive of 500 MB

# A mount namespace of its own with the bare root as its real root (pivot_root: containers do the same again inside), and a network
# namespace in which there is nothing but loopback.
ENTER = """set -e
ip link set lo up
mount --rbind $R $R; mount --rbind /sys $R/sys; mount --rbind /dev $R/dev; mount -t proc proc $R/proc
cd $R; mkdir -p old; pivot_root . old; cd /; umount -l /old
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -c "$SCRIPT"
"""
SCRIPT = """set -eu
cd /srv/tandem-*
./install
./install | grep -q 'install: programs'   # twice is no harm
if getent hosts deb.debian.org; then echo 'there is a network'; exit 1; fi
export TANDEM_HOME=/var/tmp/bundle-home TANDEM_IMAGES=/var/lib/tandem/images
trap 'tandem down --purge --yes >/dev/null 2>&1' EXIT
tandem up --nodes 2
tandem shell -- srun -N2 --mem=100M --gres=gpu:1 hostname | sort | tr '\\n' ' '
echo "jobs ran"
printf '%s ' charts/*.tgz
tar -tzf charts/tandem-*.tgz | grep -c templates/
"""


def mirror():
    for f in [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]:
        for word in f.read_text(errors="replace").split() if f.is_file() else []:
            if word.startswith("http") and word.rstrip("/").endswith("/debian"):
                return word
    return None


@pytest.fixture(scope="module")
def bundle(request, tmp_path_factory):
    if not mirror():
        pytest.skip("no Debian mirror in this machine's apt sources")
    out = tmp_path_factory.mktemp("bundle") / "bundle.tar"
    r = subprocess.run([f"{ROOT}/tools/bundle", "--build", str(request.config.getoption("--build")), "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert r.returncode == 0, r.stdout[-3000:]
    yield out
    out.unlink()


@pytest.mark.nightly
def test_a_bare_machine_without_a_network(bundle):
    release = dict(l.split("=", 1) for l in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in l)["VERSION_CODENAME"].strip('"')
    root = f"/var/tmp/tandem-offline-{os.getpid()}"
    os.makedirs(root, 0o755)
    try:
        subprocess.run(["mmdebstrap", "--mode=root", "--variant=minbase", release, root, mirror()], check=True, timeout=600, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["tar", "-C", f"{root}/srv", "-xf", str(bundle)], check=True)
        r = subprocess.run(["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", ENTER], env={**os.environ, "R": root, "SCRIPT": SCRIPT},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
        assert r.returncode == 0, r.stdout[-6000:]
        assert "n0 n1 jobs ran" in r.stdout, r.stdout[-3000:]
        assert "charts/tandem-" in r.stdout
        # A file that was cut on its way is found before anything is installed.
        at = next(pathlib.Path(f"{root}/srv").glob("tandem-*"))
        os.truncate(at / "images/slurm.tar", 1000)
        r = subprocess.run(["chroot", root, f"/srv/{at.name}/install"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert r.returncode == 1 and "the bundle is damaged" in r.stdout
    finally:
        shutil.rmtree(root, ignore_errors=True)
