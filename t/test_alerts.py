"""The alert rules of deploy/monitoring, as Prometheus itself judges them."""
import pathlib
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.feature("A14.12")

ROOT = pathlib.Path(__file__).resolve().parent.parent
MONITORING = ROOT / "deploy/monitoring"


def promtool():
    if found := shutil.which("promtool"):
        return found
    r = subprocess.run([ROOT / "tools/kube-assets", "--check", "promtool"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if r.returncode:
        pytest.skip("promtool is " + r.stderr.strip())
    return r.stdout.strip().splitlines()[-1] + "/promtool"


@pytest.mark.embedded  # looks at files
def test_each_alert_comes_when_it_should():
    """deploy/monitoring/alerts_test.yaml, by Prometheus's own tool."""
    r = subprocess.run([promtool(), "test", "rules", "alerts_test.yaml"], cwd=MONITORING, capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, r.stdout + r.stderr
