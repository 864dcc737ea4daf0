"""The README's tour is a test: its commands are run as they stand, what they print is compared (times, ids and generated names normalised).

`python3 t/test_readme.py BUILD` runs the tour on a pool of its own and writes the real output into README.md."""
import os
import re
import sys

import pytest

from console import BLOCK, ROOT, run, steps
from harness import wait_for

pytestmark = pytest.mark.feature("F1.1", "F1.6", "F1.7", "F1.8", "F1.10", "A5.2", "A18.2")

README = ROOT / "README.md"


def normal(text):
    """What differs from run to run: generated names, ids, ages, times, sizes of memory, column widths."""
    text = re.sub(r"\b(web-[a-z0-9]+)-[a-z0-9]{5}\b", "web-POD", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"(?m)^(.*\bweb-.*)$", lambda m: re.sub(r"\d+", "N", re.sub(r"\bweb-[\w.-]+", "web-POD", m.group(1))), text)
    text = re.sub(r"\b\d+:\d\d\b", "M:SS", text)
    text = re.sub(r"\b(?:\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+[dhms])\b", "AGE", text)
    text = re.sub(r"\b\d+\.\d MB", "MB", text)
    text = re.sub(r"(?m)^(supervise|apiserver|kubelet|controllers|operator|bridge|gateway) +\d+", r"\1 PID", text)
    text = re.sub(r"(?m)^(n\d +\w+ +\d+ +\d+) +\d+", r"\1 PODS", text)
    text = re.sub(r"127\.0\.0\.1:\d+|/var/[a-z]+/[\w./-]+", "PLACE", text)
    text = re.sub(r"\b10(?:\.\d+){3}\b", "ADDRESS", text)
    text = re.sub(r"(job |^ *)\d+\b", r"\1N", text, flags=re.M)
    return sorted(re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines() if line.strip())


@pytest.mark.check
@pytest.mark.embedded  # the tour begins with `tandem up`; t/test_deploy.py has the one for clusters
def test_the_tour(pool, build):
    tour = steps(README.read_text())
    assert len(tour) > 10, "the README has no tour"
    # A node that a test before has undrained does not respond until slurmctld's next ping.
    wait_for("all nodes respond", lambda: "*" not in pool.shell("sinfo", "-h", "-o", "%T"), 300)
    for command, want in tour:
        got = run(command, pool, build)
        assert normal(got) == normal(want), f"$ {command}\n{got}\n--- README says\n{want}"


@pytest.mark.embedded  # its API
@pytest.mark.feature("F1.2", "F1.5")
def test_the_table_of_what_is_served_is_true(pool):
    """Every resource that it names, of the running API, and of the list in docs/."""
    rows = re.search(r"\| served \| refused \|\n\|---.*?\n(.*?)\n\n", README.read_text(), re.S)[1].splitlines()
    served, refused = (set(re.findall(r"`([a-z]+s)`", "".join(r.split("|")[n] for r in rows))) for n in (2, 3))
    assert {"pods", "jobs"} < served and {"daemonsets", "persistentvolumes"} < refused
    there = {r.partition(".")[0] for r in pool.kubectl("api-resources", "-o", "name").split()}
    listed = set(re.findall(r"^resource \S+ ([a-z]+):", (ROOT / "docs/embedded-plane.txt").read_text(), re.M))
    assert served <= there and served <= listed and not refused & (there | listed), (served - there, refused & there)
    for name in refused:
        r = pool.run("kubectl", "get", name, check=False)
        assert r.returncode and "doesn't have a resource type" in r.stderr, r


def update(build):
    sys.path.insert(0, str(ROOT / "t"))
    import tempfile
    from harness import Pool
    pool = Pool(f"{build}/src/cmd/tandem", tempfile.mkdtemp(prefix="tandem-t-", dir="/var/tmp"))
    pool.up()
    try:
        text = README.read_text()

        def fill(m):
            out = []
            for part in re.split(r"(?m)^\$ ", m.group(1))[1:]:
                command = part.partition("\n")[0]
                out.append(f"$ {command}\n{run(command, pool, build)}")
            return "```console\n" + "".join(out) + "```"
        README.write_text(BLOCK.sub(fill, text))
    finally:
        pool.down(purge=True)


if __name__ == "__main__":
    update(os.path.abspath(sys.argv[1]))
