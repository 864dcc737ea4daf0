#!/usr/bin/env python3
#SBATCH --job-name=resume --requeue --open-mode=append --signal=B:USR1@60 --output=resume-%j.out
"""A job that trains and, when it is queued again, goes on from its last checkpoint: sbatch resume.py [STEPS [SECONDS]]

It saves every SAVE_EVERY steps, and when it is told that it has to go: by USR1 a minute before its time limit and at the
begin of a preemption's grace, by TERM at every other end. Where PyTorch is installed it trains a model of PyTorch's, else
the same line in plain Python. STEPS: how many; SECONDS: how long a step takes at least."""
import json
import os
import pathlib
import random
import signal
import socket
import sys
import time

try:
    import torch
except ImportError:
    torch = None

STEPS, SECONDS, SAVE_EVERY, KEEP = 1000, 0.0, 20, 2


class Plain:
    """The line y = 3 x + 1, learned by gradient descent. The state of the random numbers is part of what is saved: with it
    a run that was interrupted computes what one would have computed that was not."""
    suffix = ".json"

    def __init__(self):
        self.a = self.b = 0.0
        self.random = random.Random(1)

    def step(self):
        x = self.random.uniform(-1, 1)
        wrong = self.a * x + self.b - (3 * x + 1)
        self.a -= 0.1 * wrong * x
        self.b -= 0.1 * wrong
        return wrong * wrong

    def save(self, path, step):
        version, numbers, gauss = self.random.getstate()
        path.write_text(json.dumps({"step": step, "a": self.a, "b": self.b, "random": [version, numbers, gauss]}))

    def load(self, path):
        state = json.loads(path.read_text())
        version, numbers, gauss = state["random"]
        self.a, self.b = state["a"], state["b"]
        self.random.setstate((version, tuple(numbers), gauss))
        return state["step"]


class Torch:
    """The same with PyTorch: what is saved is the model, the optimizer and the random numbers."""
    suffix = ".pt"

    def __init__(self):
        torch.manual_seed(1)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = torch.nn.Linear(1, 1).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        x = (torch.rand(64, 1) * 2 - 1).to(self.device)
        loss = torch.nn.functional.mse_loss(self.model(x), 3 * x + 1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def save(self, path, step):
        torch.save({"step": step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "random": torch.get_rng_state()}, path)

    def load(self, path):
        safe = {"weights_only": True} if int(torch.__version__.split(".")[0]) >= 2 else {}  # 1.13 has it, and cannot read numbers with it
        state = torch.load(path, map_location="cpu", **safe)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        return state["step"]


def save(model, directory, step):
    """A name that is there is a whole checkpoint: it is written beside it, to the disk, and renamed."""
    new = directory / f".new{model.suffix}"
    model.save(new, step)
    for path in (new, directory):
        fd = os.open(path, os.O_RDONLY)
        if path == directory:
            os.rename(new, directory / f"step-{step:09d}{model.suffix}")
        os.fsync(fd)
        os.close(fd)
    for old in sorted(directory.glob(f"step-*{model.suffix}"))[:-KEEP]:
        old.unlink()


def load(model, directory):
    """The newest one that can be read; 0 where there is none. Where none can be read it ends: to begin anew would remove them."""
    path = None
    for path in sorted(directory.glob(f"step-*{model.suffix}"), reverse=True):
        try:
            return model.load(path)
        except Exception as e:  # whatever is wrong with it, the one before it will do
            print(f"{path.name} cannot be read: {e}", flush=True)
    if path:
        sys.exit(f"no checkpoint in {directory} can be read")
    return 0


def main(steps=STEPS, seconds=SECONDS):
    told = []
    for s in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(s, lambda number, frame: told.append(number))
    directory = pathlib.Path(f"resume-{os.environ.get('SLURM_JOB_ID', 'alone')}")
    directory.mkdir(exist_ok=True)
    model = Torch() if torch else Plain()
    begin = load(model, directory)
    print(f"run {int(os.environ.get('SLURM_RESTART_COUNT', 0)) + 1} on {socket.gethostname()} goes on from step {begin} at {time.time():.3f}", flush=True)
    for step in range(begin + 1, steps + 1):
        until = time.monotonic() + seconds
        loss = model.step()
        now = told[:]  # what comes from here on counts after the next step
        if step % SAVE_EVERY == 0 or step == steps or now:
            save(model, directory, step)
            print(f"step {step}: loss {loss:.9f}, saved", flush=True)
        if signal.SIGTERM in now:  # after USR1 it goes on for as long as it may
            return 128 + signal.SIGTERM
        del told[:len(now)]
        time.sleep(max(0.0, until - time.monotonic()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*(kind(word) for kind, word in zip((int, float), sys.argv[1:]))))
