"""What a user of submitit does: one function, an array, one that fails, and one that is queued again and counts on."""
import json
import os
import pathlib
import time

import submitit


class Counts:
    def __init__(self):
        self.n = 0

    def __call__(self, path):
        self.n += 1
        with open(path, "a") as f:
            f.write(f"{self.n} {os.environ['SLURM_JOB_ID']}\n")
        while self.n < 2:
            time.sleep(0.1)
        return self.n

    def checkpoint(self, path):
        return submitit.helpers.DelayedSubmission(self, path)


def where(x):
    job = submitit.JobEnvironment()
    return x * x, job.array_task_id, os.environ["CUDA_VISIBLE_DEVICES"]


def fails():
    raise ValueError("as it should")


executor = submitit.AutoExecutor(folder="log_%j")
executor.update_parameters(timeout_min=10, mem_gb=0.2, gpus_per_node=1)
counted = pathlib.Path("counted").resolve()
again = executor.submit(Counts(), str(counted))
one, bad = executor.submit(where, 7), executor.submit(fails)
with executor.batch():
    many = [executor.submit(where, i) for i in range(3)]
said = {"cluster": executor.cluster, "again": int(again.job_id), "one": one.result(), "many": [j.result() for j in many], "jobs": [j.job_id for j in many], "bad": str(bad.exception())}
while not counted.exists():
    time.sleep(0.1)
again._interrupt(timeout=False)  # as Slurm does when it preempts it
said["counted"] = again.result()
print(json.dumps(said))
