"""Documents whose `console` blocks are tests: the commands are run as they stand."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```console\n(.*?)```", re.S)


def steps(text):
    """[(command, expected output)] of every console block."""
    got = []
    for block in BLOCK.findall(text):
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = part.partition("\n")
            got.append((command, output))
    return got


def run(command, pool, build):
    env = dict(pool.env, PATH=f"{build}/src/cmd:{pool.env['PATH']}")
    aside = subprocess.DEVNULL if command.startswith("until ") else subprocess.STDOUT  # what a round that came too early complains of
    r = subprocess.run(["bash", "-c", command], env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=aside, text=True, timeout=180)
    return r.stdout
