"""A GPU job that measures itself, for gpu_same.py: products of matrices, copies on the device and copies from the host's memory, each for some seconds after a warm-up. Prints a
line of JSON, GPU_JOB {…}, with the median over short windows, which the GPU's own clock measures."""
import argparse
import json
import statistics
import time

import torch

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--warm", type=float, default=2.0, help="seconds of products before anything counts")
p.add_argument("--seconds", type=float, default=3.0, help="seconds of each measurement")
args = p.parse_args()
torch.manual_seed(1)
N, COPY, HOST = 8192, 4 << 30, 1 << 30
a, b = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
c = torch.empty_like(a)
# All memory is there before anything is measured: making it is the driver's work, and depends on what ran before.
src, dst = (torch.empty(COPY, dtype=torch.uint8, device="cuda") for _ in range(2))
src.random_(0, 255)
host = torch.empty(HOST, dtype=torch.uint8, pin_memory=True)


def windows(work, each, seconds):
    """Seconds of one round of `work`, the median over windows of `each` rounds."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(took) < 3:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(each):
            work()
        last.record()
        torch.cuda.synchronize()
        took.append(first.elapsed_time(last) / 1000 / each)
    return statistics.median(took)


windows(lambda: torch.mm(a, b, out=c), 100, args.warm)
product = windows(lambda: torch.mm(a, b, out=c), 100, args.seconds)
copy = windows(lambda: dst.copy_(src), 20, args.seconds / 2)
fetch = windows(lambda: dst[:HOST].copy_(host, non_blocking=True), 5, args.seconds / 2)
print("GPU_JOB " + json.dumps({"gpu": torch.cuda.get_device_name(), "count": torch.cuda.device_count(), "tflops": round(2 * N ** 3 / product / 1e12, 2),
                               "copy_gb_s": round(2 * COPY / copy / 1e9, 1), "host_gb_s": round(HOST / fetch / 1e9, 2)}))
