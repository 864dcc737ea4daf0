"""The project's own tools, on small trees of files. No pool is started, nothing is built."""
import json
import pathlib
import runpy
import subprocess
import textwrap

import pytest

import kubewrite

pytestmark = pytest.mark.feature("F")

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = """
    A:
      title: One pool
      rows:
        A1:
          title: Daemons
          promises:
            A1.1: {done: "slurmctld"}
            A1.2: {partial: "slurmd", lacks: "resources"}
            A1.3: {missing: "munge"}
        A10:
          title: Devices
          promises:
            A10.1: {done: "found"}
    """
TESTS = """
    import pytest

    pytestmark = [pytest.mark.planes, pytest.mark.feature("A1")]


    @pytest.mark.feature("A1.1", "A1.2")
    @pytest.mark.parametrize("n", [1, 2])
    def test_one(n):
        pass


    class TestMore:
        @pytest.mark.feature("A10.1")
        def test_two(self):
            pass
    """


class Tree:
    def __init__(self, path, capsys):
        self.path, self.capsys, self.main = path, capsys, runpy.run_path(str(ROOT / "tools/rows"))["main"]

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))

    def rows(self, *argv, code=0):
        got = self.main(["--root", str(self.path), *argv])
        said = self.capsys.readouterr()
        assert (got, said.err) == (code, ""), said.out + said.err
        return said.out


@pytest.fixture
def tree(tmp_path, capsys):
    t = Tree(tmp_path, capsys)
    t.write("docs/rows.yaml", ROWS)
    t.write("t/test_x.py", TESTS)
    t.write("src/room/test/test_y.c", "// A table of small cases.\n// rows: A1.1\n#include <stdio.h>\n")
    return t


def test_rows_lists_the_tests_of_a_promise(tree):
    assert tree.rows("--row", "A1").splitlines() == [
        "A1              Daemons, as a whole", "                t/test_x.py::test_one", "                t/test_x.py::TestMore::test_two",
        "A1.1   done     slurmctld", "                t/test_x.py::test_one", "                src/room/test/test_y.c (unit test)",
        "A1.2   partial  slurmd (lacks: resources)", "                t/test_x.py::test_one",
        "A1.3   missing  munge"]
    assert tree.rows("--missing") == "A1.3   missing  munge\n"
    assert "TestMore::test_two" in tree.rows("--row", "A10.1")


def test_rows_writes_the_status(tree):
    tree.rows("--status")
    text = (tree.path / "docs/STATUS.md").read_text()
    assert "| A1 | Daemons | 1 | 1 | 1 |" in text and "| | **all 4** | **2** | **1** | **1** |" in text
    assert "- **A1.2** slurmd: *partial*; lacks: resources.\n  `t/test_x.py::test_one`\n" in text
    assert tree.rows("--check") == ""


@pytest.mark.parametrize("name,old,new,told", [
    ("t/test_x.py", ', pytest.mark.feature("A1")]\n', ']\n\n\ndef test_none():\n    pass\n', "t/test_x.py:6: test_none names no row. Fix: write @pytest.mark.feature("),
    ("t/test_x.py", '"A1.2")', '"A1.9")', "t/test_x.py:8: test_one names A1.9, which is no row and no promise. Fix: choose from A1.1, A1.2, A1.3."),
    ("t/test_x.py", '"A1.2")', "PROMISE)", "t/test_x.py:6: feature(PROMISE) is not a text. Fix: "),
    ("t/test_x.py", '"A1.2")', '"A1.3")', "docs/rows.yaml:9: A1.3 is missing, but t/test_x.py:8 names it. Fix: "),
    ("t/test_x.py", '"A10.1"', '"A10"', "docs/rows.yaml:13: A10.1 is done, but no test names it. Fix: "),
    ("t/test_x.py", '"A1.2")', '"A1.1")', "docs/STATUS.md:1: is not what docs/rows.yaml and the tests say. Fix: run tools/rows --status."),
    ("src/room/test/test_y.c", "// rows: A1.1\n", "", "src/room/test/test_y.c:1: the unit test names no row. Fix: write the line "),
    ("docs/rows.yaml", ', lacks: "resources"', "", "docs/rows.yaml:8: A1.2 is partial. Fix: say with lacks "),
    ("docs/rows.yaml", "A1.3: {missing", "A1.3: {later", "docs/rows.yaml:9: A1.3 needs one state of done, partial, missing"),
    ("docs/rows.yaml", "A10.1:", "A1.1:", "docs/rows.yaml:13: A1.1 is there twice (line 7). Fix: "),
])
def test_rows_says_where_and_how_to_mend(tree, name, old, new, told):
    text = (tree.path / name).read_text()
    assert text.count(old) == 1
    (tree.path / name).write_text(text.replace(old, new))
    said = tree.rows("--check", code=1)
    assert told in said, said


def test_every_test_here_names_its_rows():
    r = subprocess.run([ROOT / "tools/rows", "--check"], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr


class Again:
    """Tests of which some failed in a run, and tools/run-again."""

    def __init__(self, path):
        self.path = path
        self.env = {"PATH": "/usr/bin:/bin", **{name: str(path / name) for name in ("TEST_COUNTS", "TEST_FAILURES", "TEST_AGAIN")}}
        (path / "test_x.py").write_text(textwrap.dedent("""
            import pathlib
            import pytest

            def test_well():
                pass

            def test_once_more():  # it fails by every second run
                mark = pathlib.Path(__file__).with_name("mark")
                mark.unlink() if mark.exists() else mark.touch()
                assert not mark.exists()

            def test_skipped():
                pytest.skip("not here")
            """))

    def run(self, failed, *tests, seconds=600):
        """(what it counted, the lines about failures) after a run with so many failures, of which these are known."""
        (self.path / "TEST_COUNTS").write_text(f"10 passed, {failed} failed, 1 skipped\n")
        (self.path / "TEST_FAILURES").write_text("pool of it:\n" + "".join(f"FAILED test_x.py::{t}@pool - AssertionError: 1\n" for t in tests))
        (self.path / "TEST_AGAIN").write_text("".join(json.dumps({"test": f"test_x.py::{t}", "argv": ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{self.path}/test_x.py::{t}"], "reports": 1, "passed": 0}) + "\n" for t in tests))
        subprocess.run([ROOT / "tools/run-again", str(seconds)], env=self.env, check=True, capture_output=True, text=True)
        counts = [tuple(map(int, line.split()[:3:2])) for line in (self.path / "TEST_COUNTS").read_text().splitlines()]
        return tuple(map(sum, zip(*counts))), (self.path / "TEST_FAILURES").read_text().splitlines()[1:]


def test_what_failed_once_beside_others_must_pass_twice_alone(tmp_path):
    again = Again(tmp_path)
    flaky = "FLAKY test_x.py::test_well: failed once beside others, passed twice alone - AssertionError: 1"
    assert again.run(1, "test_well") == ((11, 0), [flaky])
    # One that fails once more, or was skipped, stays what it was.
    stays = [f"FAILED test_x.py::{t}@pool - AssertionError: 1" for t in ("test_once_more", "test_skipped")]
    assert again.run(3, "test_well", "test_once_more", "test_skipped") == ((11, 2), [*stays, flaky])


def test_nothing_runs_again_where_more_failed_or_no_time_is_left(tmp_path):
    again = Again(tmp_path)
    for failed, tests, seconds in ((4, ["test_well"] * 4, 600), (2, ["test_well"], 600), (1, ["test_well"], 5)):
        assert again.run(failed, *tests, seconds=seconds) == ((10, failed), ["FAILED test_x.py::test_well@pool - AssertionError: 1"] * len(tests))


class Says:
    """An API server that says to everything what it is told, and keeps what it was asked."""

    def __init__(self, code):
        self.code, self.asked = code, []

    def call(self, method, path, body=None, kind="application/json", seconds=120):
        self.asked.append((method, path, body))
        return self.code, {"kind": "Pod", "metadata": {"uid": "1"}}


@pytest.mark.parametrize("words, seconds", [((), None), (("--grace-period=0",), 1), (("--grace-period=0", "--force"), 0), (("--force",), 0), (("--now",), 1), (("--grace-period=7",), 7)])
def test_pods_end_as_kubectl_ends_them(words, seconds):
    """Also where no kubectl is started: none is taken off its node at once but by --force."""
    said, options = kubewrite.parsed(("pod", "a", "--wait=false", *words))
    k = kubewrite.Kubectl(Says(200), options, 10)
    assert k.delete(said) and k.say == ['pod "a" deleted']
    assert [(m, body.get("gracePeriodSeconds")) for m, _, body in k.server.asked] == [("DELETE", seconds)]


def test_an_object_of_another_namespace_is_left_to_kubectl():
    """Which says that they differ."""
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "one"}})
    for options, made in (({"-n": "other"}, 0), ({"-n": "one"}, 1), ({}, 1)):
        k = kubewrite.Kubectl(Says(201), options, 10)
        assert k.make("kubectl-create", pod, False) == made and len(k.server.asked) == made
