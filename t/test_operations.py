"""The platform engineer's guide is a test: its commands are run as they stand, in their order, and what they print is compared."""
import pathlib
import re

import pytest

from console import ROOT, run, steps

GUIDE = ROOT / "docs/operations.md"


def words(text):
    return [re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines() if line.strip()]


@pytest.mark.nightly
@pytest.mark.embedded  # it begins with `tandem up`
@pytest.mark.feature("A2.10", "A12.3", "B2.1", "F1.1")
def test_the_platform_engineers_guide(home, build):
    home.up()
    guide = steps(GUIDE.read_text())
    assert len(guide) > 20
    for command, want in guide:
        got = run(command, home, build)
        assert words(got) == words(want), f"$ {command}\n{got}\n--- {pathlib.Path(GUIDE).name} says\n{want}"
