"""The images have two recipes each: deploy/images/build, which needs no registry, and a Containerfile. Both put the same packages and programs in, and run the same
way. (That the Containerfiles build, and what differs, was seen by hand: docs/design/0012.)"""
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import shlex

import pytest

pytestmark = pytest.mark.feature("A16.5")

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "deploy/images"


def recipe():
    loader = importlib.machinery.SourceFileLoader("image_build", str(IMAGES / "build"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("image_build", loader))
    loader.exec_module(module)
    return module


def stages(name):
    """A Containerfile's stages: lists of (instruction, words)."""
    out = []
    text = re.sub(r"(?m)^#.*\n", "", (IMAGES / name).read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            out.append([])
        out[-1].append((word, rest))
    return out


def packages(stage):
    (line,) = [rest for word, rest in stage if word == "RUN" and "apt-get install" in rest]
    return {w for w in line.partition("--no-install-recommends")[2].partition("&&")[0].split()}


def config(stage):
    """As an image has it."""
    key = {"ENTRYPOINT": "Entrypoint", "CMD": "Cmd", "USER": "User", "WORKDIR": "WorkingDir"}
    return {key[word]: json.loads(rest) if rest.startswith("[") else rest for word, rest in stage if word in key}


def test_tandem():
    build, (made, image) = recipe(), stages("Containerfile.tandem")
    # yyjson is Debian 13's; on 12 it is taken from the machine that built Tandem. Debian's own base has libc.
    assert packages(image) == set(build.PACKAGES) - {"libc6"} | {"libyyjson0"}
    assert config(image) == build.TANDEM
    users = " ".join(rest for word, rest in image if word == "RUN")
    assert all(f"echo {line} >> /etc/{f}" in users for f, text in (("passwd", build.PASSWD), ("group", build.GROUP)) for line in text.splitlines() if "tandem" in line)
    copied, beside = [shlex.split(rest) for word, rest in image if word == "COPY"]
    assert copied == ["--from=build", "/build/src/cmd/tandem", "/build/src/standin/tandem-standin", "/usr/bin/"]
    assert beside == ["--from=build", "/build/src/spank/tandem-container", "/build/src/spank/tandem-spank.so", "/build/src/spank/tandem-scratch.so", "/build/src/spank/tandem-filter.so", "/build/src/spank/tandem-login.so", "/usr/lib/tandem/"]
    assert all(place.removeprefix("/build/") in (IMAGES / "build").read_text() for place in [*copied[1:-1], *beside[1:-1]])
    # What it is built with is what tools/setup installs for building, without the tests' own.
    setup = re.search(r"\bbuild\)(.*?);;", (ROOT / "tools/setup").read_text(), re.S)[1]
    named = {w for part in re.findall(r"\+=\((.*?)\)", setup, re.S) for w in part.split()}
    assert packages(made) == named - {"make", "libcmocka-dev", "libyyjson0"}
    # And it has every file that the build reads: what the sources name outside of them is copied.
    roots = {"src", "meson.build", *(pathlib.PurePath(w).parts[0] for word, rest in made if word == "COPY" for w in rest.split()[:-1])}
    for f in (ROOT / "src").rglob("meson.build"):
        assert {m for m in re.findall(r"project_source_root\(\) / '(\w+)", f.read_text())} <= roots, f


@pytest.mark.parametrize("name", ["slurm", "work"])
def test_slurm(name):
    build, (image,) = recipe(), stages(f"Containerfile.{name}")
    text = re.sub(r"\\\n", " ", (ROOT / "src/oci/recipe.c").read_text())
    shared = re.search(r'#define SLURM((?:\s*"[^"]*")+)', text)[1]
    suite, names = re.search(rf'"tandem/{name}:24\.11", "(\w+)",\s*SLURM((?:\s*"[^"]*")*),', text).groups()
    assert suite == "trixie" and dict(image)["FROM"] == "docker.io/library/debian:13-slim"
    assert packages(image) == set("".join(re.findall(r'"([^"]*)"', shared + names)).split(","))
    assert config(image) == build.SLURM
