"""The users' commands: help, usage errors, and what they say when nothing runs. No pool is started."""
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading

import pytest

from harness import KEEP

pytestmark = pytest.mark.feature("F1")

COMMANDS = ["up", "down", "status", "env", "shell", "why", "stacks", "quota", "usage", "login", "logout", "kubeconfig", "submit", "queue", "ps", "logs", "cancel", "session", "ssh", "ssh-config", "schedule", "data", "bill", "project", "key", "top", "upload", "download", "user", "nodes", "node", "join", "host", "adopt", "netboot", "gds-check", "upgrade", "history", "fault", "image", "validate", "annotations", "config", "install", "uninstall", "completion"]


def run(tandem, *argv, home="/var/tmp/tandem-t-none", uid=None):
    def demote():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return subprocess.run([tandem, *argv], env={**KEEP, "TANDEM_HOME": home}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30,
                          preexec_fn=demote if uid else None)


@pytest.mark.asan
@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_documentation(tandem, command):
    r = run(tandem, command, "--help")
    assert r.returncode == 0 and r.stderr == ""
    assert r.stdout.startswith("usage: ")
    assert "Exit codes" in r.stdout or command == "env"
    assert "[[" not in r.stdout
    assert max(len(line) for line in r.stdout.splitlines()) <= 80


def test_top_level_help_lists_every_command(tandem):
    r = run(tandem, "--help")
    assert r.returncode == 0
    for c in COMMANDS:
        assert f"\n  {c} " in r.stdout
    assert max(map(len, r.stdout.splitlines())) <= 80
    assert run(tandem, "-h").stdout == run(tandem, "help").stdout == r.stdout


def test_help_of_a_command_and_the_version(tandem):
    for c in COMMANDS:
        assert run(tandem, "help", c).stdout == run(tandem, c, "--help").stdout != ""
    r = run(tandem, "help", "frob")
    assert r.returncode == 2 and 'unknown command "frob"' in r.stderr
    assert re.fullmatch(r"tandem \d+\.\d+\.\d+\n", run(tandem, "-V").stdout)
    assert run(tandem, "-V").stdout == run(tandem, "--version").stdout == run(tandem, "version").stdout


# Prints what a shell would offer for the words, one in a line.
OFFERS = {
    "bash": """eval "$("$TANDEM" completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tandem tandem "${@: -1}" "${@: -2:1}"; printf '%s\\n' "${COMPREPLY[@]}" """,
    "zsh": """source <("$TANDEM" completion zsh); _describe() { print -l -- ${(P)2%%:*} }; _files() { print -l -- $words[CURRENT]*(N) }
        local -a words; words=("$@"); local CURRENT=$#; _tandem | while read -r w; do [[ $w == $words[CURRENT]* ]] && print -r -- $w; done; true""",
    "fish": """$TANDEM completion fish | source; complete -C "$argv" | string split -f 1 \\t; true""",
}


@pytest.mark.parametrize("shell", OFFERS)
def test_completion_knows_the_option_tables(tandem, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed (tools/setup --for test)")
    (tmp_path / "it.yaml").touch()

    def offers(line):
        words = ["tandem", *line.split(" ")]
        argv = {"bash": ["bash", "--norc", "-c", OFFERS["bash"], "bash", *words], "zsh": ["zsh", "-fc", OFFERS["zsh"], "zsh", *words],
                "fish": ["fish", "--no-config", "-c", OFFERS["fish"], " ".join(words)]}[shell]
        r = subprocess.run(argv, cwd=tmp_path, env={**KEEP, "HOME": str(tmp_path), "TANDEM": tandem}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
        assert r.stderr == "" and r.returncode == 0, r
        return set(r.stdout.split())
    assert offers("") == {*COMMANDS, "help"}
    assert offers("stat") == {"status"} == offers("help stat")
    assert offers("down --p") == {"--purge"} and offers("uninstall --p") == {"--purge"} and offers("status --p") == set()
    assert offers("status -o ") == {"json"} and offers("up --nodes ") == set() and offers("completion z") == {"zsh"}
    assert offers("image b") == {"build"} and offers("validate -f it") == {"it.yaml"}
    assert offers("shell -- --") == set()
    for c in COMMANDS:  # every option that the help names
        assert set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", run(tandem, c, "--help").stdout, re.M)) == offers(f"{c} --") - {"--"}, c


@pytest.mark.asan
@pytest.mark.parametrize("argv", [["frob"], [], ["up", "--nodes", "x"], ["up", "--nodes", "0"], ["up", "extra"], ["up", "-o", "yaml"], ["up", "--memory", "1Gi"],
                                  ["down", "--frob"], ["shell", "squeue"], ["why"], ["status", "-o", "xml"], ["image", "frob"]])
def test_wrong_usage_exits_2_and_says_what(tandem, argv):
    r = run(tandem, *argv)
    assert r.returncode == 2, r
    assert r.stderr.strip(), "says nothing"


def test_wrong_words_are_named(tandem):
    r = run(tandem, "node", "drain")
    assert r.returncode == 2 and "drain which node?" in r.stderr
    r = run(tandem, "login", "gateway.example") # before it asks for a password
    assert r.returncode == 1 and '"gateway.example" is no address' in r.stderr


@pytest.mark.parametrize("argv,code,words", [
    (["stats"], 2, "Did you mean `tandem status`?"), (["squeue"], 2, "Here it is `tandem queue`"), (["sbatch", "x.sh"], 2, "Here it is `tandem submit FILE`"), (["frob"], 2, "`tandem --help` lists them"),
    (["submit", "--gpsu", "1", "--", "true"], 2, "do you mean --gpus?"), (["submit", "--gpus", "two", "--", "true"], 2, '--gpus: "two" is no number of GPUs: write 2 or h100:2'),
    (["submit", "--gpus", "100", "--", "true"], 2, '--gpus: "100" is more than a node can have'), (["submit", "--memory", "8GG", "--", "true"], 2, '--memory: "8GG" is no memory size'),
    (["submit", "-t", "soon", "--", "true"], 2, '--time: "soon" is no time'), (["submit", "-e", "A", "--", "true"], 2, "--env A: write NAME=value"), (["submit", "--dir", "/nowhere", "--", "true"], 2, "--dir: there is no directory /nowhere"),
    (["submit", "hostname"], 1, "tandem submit -- hostname"), (["session", "start"], 2, "start what? Give shell"), (["session", "start", "shell", "--memory", "x"], 2, '--memory: "x" is no memory size'),
    (["session", "stop"], 2, "`tandem session list` shows yours"), (["key"], 2, "say what: list|create|rotate|revoke [KEY]"), (["top", "x"], 2, '"x" is one word too many: it takes options only'),
    (["validate"], 2, "FILE is missing"), (["why"], 2, "say what: POD | KIND/NAME | JOBID | RUN"), (["cancel"], 2, "RUN | JOBID")])
def test_wrong_input_names_what_and_the_fix(tandem, argv, code, words):
    r = run(tandem, *argv)
    assert r.returncode == code and words in r.stderr and r.stdout == "", r


@pytest.mark.parametrize("argv,word", [(["status"], "tandem up"), (["env"], "tandem up"), (["shell", "--", "true"], "tandem up"), (["why", "x"], "tandem up")])
def test_nothing_started_says_what_to_do(tandem, argv, word):
    r = run(tandem, *argv)
    assert r.returncode == 1
    assert word in r.stderr


def test_down_of_nothing_is_fine(tandem):
    r = run(tandem, "down")
    assert r.returncode == 0 and "nothing to stop" in r.stdout


@pytest.mark.parametrize("argv", [["up"], ["down"], ["image", "build", "debian:13"]])
def test_not_root_says_what_to_type(tandem, argv, tmp_path):
    with tempfile.TemporaryDirectory(prefix="tandem-t-bin-", dir="/var/tmp") as there:
        os.chmod(there, 0o755)
        subprocess.run(["install", "-m", "755", tandem, f"{there}/tandem"], check=True)
        r = run(f"{there}/tandem", *argv, uid=65534)
    assert r.returncode == 1
    assert "sudo tandem " + argv[0] in r.stderr


@pytest.mark.feature("F2.1")
def test_hints_lead_to_the_cluster_that_was_given(tandem, tmp_path):
    """A kubeconfig of a server that has no Tandem; its path needs quotes."""
    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not here"}
                              if "tandem.dev" in self.path.partition("?")[0] else {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}).encode()
            self.send_response(404 if b"Failure" in body else 200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *argv):
            pass
    conf = tmp_path / "its admin.conf"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        conf.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}], "users": [{"name": "u", "user": {}}]}))
        there, install = ["--kubeconfig", str(conf)], f"`tandem install --kubeconfig '{conf}'`"
        r = run(tandem, "status", *there)
        assert r.returncode == 1 and r.stdout.count(install) == 2, r
        for argv in (["shell", *there, "--", "true"], ["why", *there, "x"]):
            r = run(tandem, *argv)
            assert r.returncode == 1 and install in r.stderr, r
        r = run(tandem, "shell", *there, "--cluster", "slurm/main", "squeue")
        assert r.returncode == 2 and f"tandem shell --kubeconfig '{conf}' --cluster slurm/main -- squeue" in r.stderr
        server.shutdown()


def test_home_must_be_absolute(tandem):
    r = run(tandem, "status", home="relative")
    assert r.returncode == 1 and "absolute" in r.stderr


@pytest.mark.feature("A16.2")
def test_dry_run_prints_the_objects(tandem):
    r = run(tandem, "up", "--dry-run", "-o", "yaml")
    assert r.returncode == 0
    import yaml
    kinds = {d["kind"]: d for d in yaml.safe_load_all(r.stdout) if d}
    assert kinds["SlurmCluster"]["metadata"]["namespace"] == "slurm"
    assert kinds["NodeSet"]["metadata"]["namespace"] == "slurm"


CLUSTER = """apiVersion: tandem.dev/v1alpha1
kind: SlurmCluster
metadata: {name: main, namespace: slurm}
spec:
  slurm: {image: "tandem/slurm:24.11", version: "24.11"}
  controller: {storage: {hostPath: {path: /var/lib/slurm-main, node: n0}}}
  partitions: [{name: all, default: true}]
"""
OTHERS = "apiVersion: v1\nkind: Namespace\nmetadata: {name: slurm}\n---\napiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: {name: n}\n"


@pytest.mark.feature("A16")
def test_validate_says_what_it_checked(tandem, tmp_path):
    def validate(text):
        (tmp_path / "f.yaml").write_text(text)
        r = run(tandem, "validate", str(tmp_path / "f.yaml"))
        assert r.stderr == ""
        return r.returncode, r.stdout
    code, out = validate(CLUSTER)
    assert code == 0 and "SlurmCluster main: valid" in out and out.endswith("1 object checked, 0 problems\n"), out
    code, out = validate(CLUSTER + "---\n" + OTHERS)
    assert code == 0 and "1 object checked, 0 problems; 2 of other kinds passed over: v1 Namespace, slinky.slurm.net/v1beta1 NodeSet" in out, out
    code, out = validate(OTHERS)
    assert code == 0 and "0 objects checked" in out, out
    code, out = validate(CLUSTER.replace("kind: SlurmCluster", "kind: SlurmClusters"))
    assert code == 1 and "SlurmClusters main: kind: tandem.dev has no such kind: write SlurmCluster, NodeSet or Tenant" in out and "1 problem\n" in out, out
    code, out = validate(CLUSTER.replace("kind: SlurmCluster\n", ""))
    assert code == 1 and "an object main without kind" in out, out
    code, out = validate(CLUSTER.replace("v1alpha1", "v1"))
    assert code == 1 and "write tandem.dev/v1alpha1" in out, out
    code, out = validate(CLUSTER.replace("partitions:", "partition:"))
    assert code == 1 and "spec.partition: there is no such field" in out, out
    inside = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "tandem.dev/v1alpha1", "kind": "Nodes", "metadata": {"name": "x"}}]})
    code, out = validate(inside)
    assert code == 1 and "Nodes x: kind:" in out, out
