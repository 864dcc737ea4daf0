#!/usr/bin/env python3
# rows: E1.10
"""How long `tandem submit` of a directory takes: for the first time, and again while nothing changed. Numbers, never pass or fail.

usage: bench/submit.py [--build DIR] [--files 10000] [--times 5]

Wall time is that of the whole command on a machine that also runs the pool. CPU is of the command, and of the gateway with the
processes that it has done with. docs/BENCHMARKS.md holds the figures of the last run."""
import argparse
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "t"), str(ROOT / "bench")]
from harness import Pool  # noqa: E402
from laptop import Laptop  # noqa: E402


def gateway(pool):
    """(CPU seconds of its own, and of the processes that it has done with)."""
    pid = next(line.split()[1] for line in pool.cmd("status").stdout.splitlines() if line.startswith("gateway "))
    f = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, f[11:15])) / os.sysconf("SC_CLK_TCK")


def once(pool, me, project):
    before, children, began = gateway(pool), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    r = subprocess.run([pool.tandem, "submit", "--memory", "50M", "--", "true"], cwd=project, capture_output=True, text=True, check=True,
                       env={**os.environ, "HOME": me.home, "TANDEM_HOME": f"{me.home}/none", "TANDEM_URL": f"http://127.0.0.1:{pool.instance['metricsPort'] + 3}", "TANDEM_KEY": me.key})
    wall, now = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, now.ru_utime + now.ru_stime - children.ru_utime - children.ru_stime, gateway(pool) - before, r.stderr.strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--files", type=int, default=10000)
    p.add_argument("--times", type=int, default=5)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-submit-") as tmp:
        project, some = pathlib.Path(tmp) / "project", random.Random(1)
        for i in range(a.files):
            (project / f"d{i % 100}").mkdir(parents=True, exist_ok=True)
            (project / f"d{i % 100}/f{i}").write_bytes(some.randbytes(some.choice([800, 4000, 20000])))
        pool = Pool(str(a.build.resolve() / "src/cmd/tandem"), tempfile.mkdtemp(prefix="tandem-bench-", dir="/var/tmp"))
        pool.up("--nodes", "2")
        try:
            me = Laptop(pool, pathlib.Path(tmp) / "laptop", "researcher")
            print(f"load {os.getloadavg()[0]:.1f} before; {a.files} files\n{'':12}{'wall s':>8}{'command CPU s':>15}{'gateway CPU s':>15}")
            for i in range(a.times + 1):
                wall, own, gate, said = once(pool, me, project)
                print(f"{'unchanged' if i else 'first':12}{wall:8.2f}{own:15.2f}{gate:15.2f}  {said}", flush=True)
        finally:
            pool.down(purge=True)
    print(f"load {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
