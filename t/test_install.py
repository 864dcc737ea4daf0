"""What `make install` puts in place: man pages that say what --help says, and programs that work from where they are."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import ROOT
from harness import IMAGES

pytestmark = pytest.mark.feature("F1")

COMMANDS = ("up down status env shell why stacks quota usage login logout kubeconfig submit ps queue logs cancel session ssh ssh-config schedule data bill project key top upload download user nodes node join host adopt netboot gds-check upgrade history fault image validate annotations "
            "config install uninstall completion").split()
ROLES = "apiserver controllers kubelet agent operator bridge gateway supervise".split()
PAGES = ["tandem.1", *(f"tandem-{c}.1" for c in COMMANDS), *(f"tandem-{r}.8" for r in [*ROLES, "standin"])]


def run(*argv, timeout=60, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, **kw)


def flags(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*|-[a-z])(?![\w-])", text)) - {"--help"}


def rendered(page):
    if not shutil.which("man"):
        pytest.skip("man is not installed (tools/setup --for test)")
    env = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C", "MAN_KEEP_FORMATTING": ""}
    r = run("man", "--warnings=w", "-l", str(ROOT / "docs/man" / page), env=env)
    assert r.returncode == 0 and r.stderr == "", r.stderr
    assert max(len(line) for line in r.stdout.splitlines()) <= 80, page
    return r.stdout


def exit_codes(page):
    section = re.search(r"^EXIT STATUS\n(.*?)^[A-Z]", page, re.S | re.M).group(1)
    return set(re.findall(r"^ {7}(\d+)", section, re.M))


def test_every_page_is_named():
    assert sorted(p.name for p in (ROOT / "docs/man").iterdir()) == sorted(PAGES)
    overview = rendered("tandem.1")
    for page in PAGES[1:]:
        name, section = page.split(".")
        assert f"{name}({section})" in overview, page


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_help_says(build, page):
    name = page.split(".")[0]
    if name == "tandem-standin":
        argv = [str(build / "src/standin/tandem-standin")]
    else:
        argv = [str(build / "src/cmd/tandem"), *name.split("-", 1)[1:]]
    said = run(*argv, "--help")
    assert said.returncode == 0 and said.stdout.startswith("usage: ") and said.stderr == ""
    assert max(len(line) for line in said.stdout.splitlines()) <= 80
    text = rendered(page)
    if name == "tandem":
        for c in [*COMMANDS, *ROLES]:
            assert re.search(rf"^  {c} ", said.stdout, re.M), c
    else:
        assert flags(said.stdout) == flags(text), f"{page}: --help and the page name different flags"
    codes = re.search(r"[Ee]xit codes: (.*)", said.stdout, re.S)
    assert codes, f"{' '.join(argv)} --help names no exit codes"
    assert exit_codes(text) == set(re.findall(r"\b\d+\b", codes.group(1))), page
    wrong = run(*argv, "--no-such-flag")
    assert wrong.returncode == 2 and wrong.stderr and wrong.stdout == "", wrong


@pytest.mark.feature("F1.1")
def test_installed_programs_work(build, tmp_path):
    """Binaries, man pages and CRDs lie below DESTDIR, and a plane comes up from there: each program finds the others."""
    r = run("meson", "install", "-C", str(build), "--no-rebuild", "--destdir", str(tmp_path))
    assert r.returncode == 0, r.stdout + r.stderr
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    prefix = "usr/local/"
    want = {f"{prefix}bin/tandem", f"{prefix}bin/tandem-standin", *(f"{prefix}lib/tandem/{f}" for f in ("tandem-supervise", "tandem-container", "tandem-spank.so", "tandem-scratch.so", "tandem-filter.so", "tandem-login.so"))}
    want |= {f"{prefix}share/man/man{p[-1]}/{p}" for p in PAGES}
    want |= {f"{prefix}share/tandem/crds/{p.name}" for p in (ROOT / "deploy/crds").iterdir()}
    want.add(f"{prefix}include/tandem/policy.h")
    assert files == want
    os.makedirs(IMAGES, exist_ok=True)
    tandem, home = tmp_path / prefix / "bin/tandem", tmp_path / "home"
    env = {**os.environ, "TANDEM_HOME": str(home), "TANDEM_IMAGES": IMAGES, "PATH": f"{tandem.parent}:{os.environ['PATH']}"}
    try:
        r = run("tandem", "up", "--nodes", "1", "--gpus", "1", "--no-slurm", timeout=300, env=env)
        assert r.returncode == 0, r.stdout + r.stderr
        status = json.loads(run("tandem", "status", "-o", "json", env=env).stdout)
        roles = {role["name"]: role["pid"] for role in status["roles"]}
        assert os.readlink(f"/proc/{roles['supervise']}/exe") == str(tmp_path / prefix / "lib/tandem/tandem-supervise")
        assert os.readlink(f"/proc/{roles['apiserver']}/exe") == str(tandem)
        conf = pathlib.Path(home) / "kubeconfig/admin.conf"
        r = run("kubectl", "--kubeconfig", str(conf), "get", "nodes", "-o", "name", env=env)
        assert r.stdout == "node/n0\n", r
    finally:
        r = run("tandem", "down", "--purge", "--yes", timeout=180, env=env)
    assert r.returncode == 0, r.stderr
