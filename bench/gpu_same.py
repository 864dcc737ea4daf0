#!/usr/bin/env python3
"""The same GPU job bare and through Tandem: is it as fast? On a machine with an NVIDIA GPU, after `tandem up --gpus real`:

    bench/gpu_same.py --rounds 5 --way bare='python3 bench/gpu_job.py' --way native='tandem shell -- srun --gpus=1 python3 /…/gpu_job.py'

The ways take turns, and each round begins with another one, so that what the GPU does with its clocks over time hits all of them alike. Prints the medians, and how far each
way is from the first one, in per cent."""
import argparse
import json
import statistics
import subprocess
import sys


def measure(command):
    r = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [line.split(" ", 1)[1] for line in r.stdout.splitlines() if line.startswith("GPU_JOB ")]
    if r.returncode or not lines:
        sys.exit(f"{command}: exit code {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    return json.loads(lines[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--way", action="append", required=True, metavar="NAME=COMMAND", help="the first one is what the others are compared with")
    args = p.parse_args()
    ways = dict(w.split("=", 1) for w in args.way)
    names, got = list(ways), {name: [] for name in ways}
    for k in range(args.rounds):
        for i in range(len(names)):
            name = names[(i + k) % len(names)]
            got[name].append(measure(ways[name]))
            print(json.dumps({"round": k, "way": name, **got[name][-1]}), flush=True)
    base = names[0]
    for what in ("tflops", "copy_gb_s", "host_gb_s"):
        middle = {name: statistics.median(x[what] for x in got[name]) for name in names}
        spread = {name: 100 * (max(x[what] for x in got[name]) - min(x[what] for x in got[name])) / middle[name] for name in names}
        print(f"{what:10} " + "  ".join(f"{name} {middle[name]:.2f} ({100 * (middle[name] / middle[base] - 1):+.2f} %, spread {spread[name]:.2f} %)" for name in names))


if __name__ == "__main__":
    main()
