"""Container images for the real tier, as archives that its nodes import: made by deploy/images, from what --build built."""
import pathlib
import subprocess
import sys

IMAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy/images"
sys.path.insert(0, str(IMAGES))
from archive import archive, pause  # noqa: E402, F401

TANDEM = "tandem.dev/tandem:test"


def tandem(path, build, name=TANDEM):
    """Tandem's image out of a build directory: a second, once its base layer is there."""
    r = subprocess.run([IMAGES / "build", "tandem", "--build", build, "-o", path, "--name", name, "--quiet"], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(r.stderr)
    return name
